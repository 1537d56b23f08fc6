//! Passes, jobs and schedules over HTTP.

use super::{HttpApi, HttpCall, fresh_key, parse_body, path_segment, query_string};
use async_trait::async_trait;
use remem_server::PassApi;
use remem_wire::Failure;
use remem_wire::pass::{
    JobDoc, JobList, JobsQuery, PassList, PassRan, PassRun, ScheduleDoc, ScheduleList, SchedulePut,
    ScheduleQuery,
};
use reqwest::{Method, StatusCode};

#[async_trait]
impl PassApi for HttpApi {
    async fn passes(&self) -> Result<PassList, Failure> {
        self.get_json("passes".to_owned(), &()).await
    }
    async fn run_pass(
        &self,
        name: &str,
        run: PassRun,
        key: Option<&str>,
    ) -> Result<PassRan, Failure> {
        let path = format!("passes/{}/run", path_segment(name));
        let idempotency_key = Some(key.map_or_else(fresh_key, str::to_owned));
        let call = HttpCall {
            method: Method::POST,
            path,
            query: None,
            body: Some(&run),
            idempotency_key,
            repeatable: true,
        };
        let response = self.send_with_retries(call).await?;
        if response.status() == StatusCode::ACCEPTED {
            return Ok(PassRan::Started(parse_body(response).await?));
        }
        Ok(PassRan::Done(parse_body(response).await?))
    }
    async fn jobs(&self, query: JobsQuery) -> Result<JobList, Failure> {
        self.get_json("jobs".to_owned(), &query).await
    }
    async fn job(&self, id: &str) -> Result<JobDoc, Failure> {
        self.get_json(format!("jobs/{}", path_segment(id)), &())
            .await
    }
    async fn cancel_job(&self, id: &str) -> Result<JobDoc, Failure> {
        let path = format!("jobs/{}/cancel", path_segment(id));
        let call = HttpCall::<()> {
            method: Method::POST,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: true,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
    async fn schedules(&self) -> Result<ScheduleList, Failure> {
        self.get_json("schedules".to_owned(), &()).await
    }
    async fn schedule(&self, pass: &str, query: ScheduleQuery) -> Result<ScheduleDoc, Failure> {
        self.get_json(format!("passes/{}/schedule", path_segment(pass)), &query)
            .await
    }
    async fn put_schedule(
        &self,
        pass: &str,
        query: ScheduleQuery,
        put: SchedulePut,
    ) -> Result<ScheduleDoc, Failure> {
        let path = format!("passes/{}/schedule", path_segment(pass));
        let query = Some(query_string(&query));
        let call = HttpCall {
            method: Method::PUT,
            path,
            query,
            body: Some(&put),
            idempotency_key: None,
            repeatable: true,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
    async fn remove_schedule(&self, pass: &str, query: ScheduleQuery) -> Result<(), Failure> {
        let path = format!("passes/{}/schedule", path_segment(pass));
        let query = Some(query_string(&query));
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.send_with_retries(call).await.map(|_| ())
    }
}
