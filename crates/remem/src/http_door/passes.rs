//! Passes, jobs and schedules over HTTP.

use super::{Call, HttpDoor, fresh_key, parse, segment, urlencoded};
use async_trait::async_trait;
use remem_server::PassDoor;
use remem_wire::Failure;
use remem_wire::pass::{
    JobDoc, JobList, JobsQuery, PassList, PassRan, PassRun, ScheduleDoc, ScheduleList, SchedulePut,
    ScheduleQuery,
};
use reqwest::{Method, StatusCode};

#[async_trait]
impl PassDoor for HttpDoor {
    async fn passes(&self) -> Result<PassList, Failure> {
        self.read("passes".to_owned(), &()).await
    }
    async fn run_pass(
        &self,
        name: &str,
        run: PassRun,
        key: Option<&str>,
    ) -> Result<PassRan, Failure> {
        let path = format!("passes/{}/run", segment(name));
        let idempotency_key = Some(key.map_or_else(fresh_key, str::to_owned));
        let call = Call {
            method: Method::POST,
            path,
            query: None,
            body: Some(&run),
            idempotency_key,
            repeatable: true,
        };
        let response = self.call(call).await?;
        if response.status() == StatusCode::ACCEPTED {
            return Ok(PassRan::Started(parse(response).await?));
        }
        Ok(PassRan::Done(parse(response).await?))
    }
    async fn jobs(&self, query: JobsQuery) -> Result<JobList, Failure> {
        self.read("jobs".to_owned(), &query).await
    }
    async fn job(&self, id: &str) -> Result<JobDoc, Failure> {
        self.read(format!("jobs/{}", segment(id)), &()).await
    }
    async fn cancel_job(&self, id: &str) -> Result<JobDoc, Failure> {
        let path = format!("jobs/{}/cancel", segment(id));
        let call = Call::<()> {
            method: Method::POST,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: true,
        };
        parse(self.call(call).await?).await
    }
    async fn schedules(&self) -> Result<ScheduleList, Failure> {
        self.read("schedules".to_owned(), &()).await
    }
    async fn schedule(&self, pass: &str, query: ScheduleQuery) -> Result<ScheduleDoc, Failure> {
        self.read(format!("passes/{}/schedule", segment(pass)), &query)
            .await
    }
    async fn put_schedule(
        &self,
        pass: &str,
        query: ScheduleQuery,
        put: SchedulePut,
    ) -> Result<ScheduleDoc, Failure> {
        let path = format!("passes/{}/schedule", segment(pass));
        let query = Some(urlencoded(&query));
        let call = Call {
            method: Method::PUT,
            path,
            query,
            body: Some(&put),
            idempotency_key: None,
            repeatable: true,
        };
        parse(self.call(call).await?).await
    }
    async fn remove_schedule(&self, pass: &str, query: ScheduleQuery) -> Result<(), Failure> {
        let path = format!("passes/{}/schedule", segment(pass));
        let query = Some(urlencoded(&query));
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.call(call).await.map(|_| ())
    }
}
