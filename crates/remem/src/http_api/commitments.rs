//! Commitments and heartbeats over HTTP.

use super::{HttpApi, HttpCall, parse_body, path_segment};
use async_trait::async_trait;
use remem_server::{CommitmentApi, CreatedCommitment};
use remem_wire::Failure;
use remem_wire::commitment::{
    CommitmentCreate, CommitmentDoc, CommitmentList, CommitmentRulesDoc, CommitmentRulesPut,
    CommitmentSnooze, CommitmentWhy, CommitmentsQuery, FireList, FiresQuery, Observation,
    ObservationAnswer,
};
use remem_wire::heartbeat::{HeartbeatDoc, HeartbeatList, HeartbeatPut};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn rules_path(memory_ref: Option<&str>) -> String {
    memory_ref.map_or_else(
        || "commitment-rules".to_owned(),
        |name| format!("memory/{}/commitment-rules", path_segment(name)),
    )
}

fn heartbeat_path(id: &str) -> String {
    format!("heartbeats/{}", path_segment(id))
}

impl HttpApi {
    /// Puts a resource; repeatable, because PUT is idempotent.
    async fn put_json<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
    ) -> Result<T, Failure> {
        let call = HttpCall {
            method: Method::PUT,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable: true,
        };
        parse_body(self.send_with_retries(call).await?).await
    }

    /// Posts a change of a commitment's state. Not retried: if the first attempt had succeeded, the
    /// second would fail because the change is made already.
    async fn change_commitment(&self, id: &str, verb: &str) -> Result<CommitmentDoc, Failure> {
        let path = format!("commitments/{}/{verb}", path_segment(id));
        let call = HttpCall::<()> {
            method: Method::POST,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
}

#[async_trait]
impl CommitmentApi for HttpApi {
    async fn commitments(&self, query: CommitmentsQuery) -> Result<CommitmentList, Failure> {
        self.get_json("commitments".to_owned(), &query).await
    }
    async fn commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.get_json(format!("commitments/{}", path_segment(id)), &())
            .await
    }
    async fn explain_commitment(&self, id: &str) -> Result<CommitmentWhy, Failure> {
        self.get_json(format!("commitments/{}/explain", path_segment(id)), &())
            .await
    }
    async fn commitment_fires(&self, id: &str, query: FiresQuery) -> Result<FireList, Failure> {
        self.get_json(format!("commitments/{}/fires", path_segment(id)), &query)
            .await
    }
    async fn create_commitment(
        &self,
        memory_ref: &str,
        new: CommitmentCreate,
        key: Option<&str>,
    ) -> Result<CreatedCommitment, Failure> {
        let made = self
            .post_write(
                format!("memory/{}/commitments", path_segment(memory_ref)),
                &new,
                key,
            )
            .await?;
        Ok(CreatedCommitment {
            commitment: made.value,
            replayed: made.replayed,
        })
    }
    async fn confirm_commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.change_commitment(id, "confirm").await
    }
    async fn cancel_commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.change_commitment(id, "cancel").await
    }
    async fn snooze_commitment(
        &self,
        id: &str,
        snooze: CommitmentSnooze,
    ) -> Result<CommitmentDoc, Failure> {
        self.post_json(
            format!("commitments/{}/snooze", path_segment(id)),
            &snooze,
            true,
        )
        .await
    }
    async fn observe(
        &self,
        memory_ref: &str,
        observation: Observation,
    ) -> Result<ObservationAnswer, Failure> {
        self.post_json(
            format!("memory/{}/observations", path_segment(memory_ref)),
            &observation,
            true,
        )
        .await
    }
    async fn commitment_rules(
        &self,
        memory_ref: Option<&str>,
    ) -> Result<CommitmentRulesDoc, Failure> {
        self.get_json(rules_path(memory_ref), &()).await
    }
    async fn put_commitment_rules(
        &self,
        memory_ref: Option<&str>,
        put: CommitmentRulesPut,
    ) -> Result<CommitmentRulesDoc, Failure> {
        self.put_json(rules_path(memory_ref), &put).await
    }
    async fn heartbeats(&self) -> Result<HeartbeatList, Failure> {
        self.get_json("heartbeats".to_owned(), &()).await
    }
    async fn heartbeat(&self, id: &str) -> Result<HeartbeatDoc, Failure> {
        self.get_json(heartbeat_path(id), &()).await
    }
    async fn put_heartbeat(&self, id: &str, put: HeartbeatPut) -> Result<HeartbeatDoc, Failure> {
        self.put_json(heartbeat_path(id), &put).await
    }
    async fn remove_heartbeat(&self, id: &str) -> Result<(), Failure> {
        let path = heartbeat_path(id);
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.send_with_retries(call).await.map(|_| ())
    }
}
