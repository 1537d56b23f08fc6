//! Commitments and heartbeats over HTTP.

use super::{Call, HttpDoor, parse, segment};
use async_trait::async_trait;
use remem_server::{CommitmentDoor, MadeCommitment};
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
        |name| format!("memory/{}/commitment-rules", segment(name)),
    )
}

fn heartbeat_path(id: &str) -> String {
    format!("heartbeats/{}", segment(id))
}

impl HttpDoor {
    /// Puts a resource; repeatable, because PUT is idempotent.
    async fn put_json<T: DeserializeOwned, B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
    ) -> Result<T, Failure> {
        let call = Call {
            method: Method::PUT,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable: true,
        };
        parse(self.call(call).await?).await
    }

    /// Posts a change of a commitment's state. Not retried: if the first attempt had succeeded, the
    /// second would fail because the change is made already.
    async fn change_commitment(&self, id: &str, verb: &str) -> Result<CommitmentDoc, Failure> {
        let path = format!("commitments/{}/{verb}", segment(id));
        let call = Call::<()> {
            method: Method::POST,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        parse(self.call(call).await?).await
    }
}

#[async_trait]
impl CommitmentDoor for HttpDoor {
    async fn commitments(&self, query: CommitmentsQuery) -> Result<CommitmentList, Failure> {
        self.read("commitments".to_owned(), &query).await
    }
    async fn commitment(&self, id: &str) -> Result<CommitmentDoc, Failure> {
        self.read(format!("commitments/{}", segment(id)), &()).await
    }
    async fn explain_commitment(&self, id: &str) -> Result<CommitmentWhy, Failure> {
        self.read(format!("commitments/{}/explain", segment(id)), &())
            .await
    }
    async fn commitment_fires(&self, id: &str, query: FiresQuery) -> Result<FireList, Failure> {
        self.read(format!("commitments/{}/fires", segment(id)), &query)
            .await
    }
    async fn create_commitment(
        &self,
        memory_ref: &str,
        new: CommitmentCreate,
        key: Option<&str>,
    ) -> Result<MadeCommitment, Failure> {
        let made = self
            .write(
                format!("memory/{}/commitments", segment(memory_ref)),
                &new,
                key,
            )
            .await?;
        Ok(MadeCommitment {
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
        self.post(format!("commitments/{}/snooze", segment(id)), &snooze, true)
            .await
    }
    async fn observe(
        &self,
        memory_ref: &str,
        observation: Observation,
    ) -> Result<ObservationAnswer, Failure> {
        self.post(
            format!("memory/{}/observations", segment(memory_ref)),
            &observation,
            true,
        )
        .await
    }
    async fn commitment_rules(
        &self,
        memory_ref: Option<&str>,
    ) -> Result<CommitmentRulesDoc, Failure> {
        self.read(rules_path(memory_ref), &()).await
    }
    async fn put_commitment_rules(
        &self,
        memory_ref: Option<&str>,
        put: CommitmentRulesPut,
    ) -> Result<CommitmentRulesDoc, Failure> {
        self.put_json(rules_path(memory_ref), &put).await
    }
    async fn heartbeats(&self) -> Result<HeartbeatList, Failure> {
        self.read("heartbeats".to_owned(), &()).await
    }
    async fn heartbeat(&self, id: &str) -> Result<HeartbeatDoc, Failure> {
        self.read(heartbeat_path(id), &()).await
    }
    async fn put_heartbeat(&self, id: &str, put: HeartbeatPut) -> Result<HeartbeatDoc, Failure> {
        self.put_json(heartbeat_path(id), &put).await
    }
    async fn remove_heartbeat(&self, id: &str) -> Result<(), Failure> {
        let path = heartbeat_path(id);
        let call = Call::<()> {
            method: Method::DELETE,
            path,
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        self.call(call).await.map(|_| ())
    }
}
