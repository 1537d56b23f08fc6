//! Proposals and automations over HTTP.

use super::{Call, HttpDoor, parse, segment};
use async_trait::async_trait;
use remem_server::{Decided, ReviewDoor};
use remem_wire::Failure;
use remem_wire::automation::{AutomationDoc, AutomationList};
use remem_wire::proposal::{
    InstalledArtifacts, Proposal, ProposalDecision, ProposalGate, ProposalList, ProposalOverride,
    ProposalPatch, ProposalRevisions, ProposalSubmit, ProposalsQuery, TraceCreate, TraceCreated,
};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the path of a proposal, which OpenWOP defines.
fn proposal_path(id: &str) -> String {
    format!("/v1/host/remembrancer/proposals/{}", segment(id))
}

impl HttpDoor {
    /// Posts a decision about a proposal. Not retried: the answer to a second attempt would not be
    /// the result of the first.
    async fn decide<B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
    ) -> Result<Decided, Failure> {
        let call = Call {
            method: Method::POST,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable: false,
        };
        let response = self.call(call).await?;
        let waits = response.status() == StatusCode::ACCEPTED;
        Ok(Decided {
            proposal: parse(response).await?,
            waits,
        })
    }
}

#[async_trait]
impl ReviewDoor for HttpDoor {
    async fn proposals(&self, query: ProposalsQuery) -> Result<ProposalList, Failure> {
        self.read("/v1/host/remembrancer/proposals".to_owned(), &query)
            .await
    }
    async fn proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.read(proposal_path(id), &()).await
    }
    async fn proposal_revisions(&self, id: &str) -> Result<ProposalRevisions, Failure> {
        self.read(format!("proposals/{}/revisions", segment(id)), &())
            .await
    }
    async fn proposal_gate(&self, id: &str) -> Result<ProposalGate, Failure> {
        self.read(format!("proposals/{}/gate", segment(id)), &())
            .await
    }
    async fn submit_proposal(
        &self,
        request: ProposalSubmit,
        key: Option<&str>,
    ) -> Result<(Proposal, bool), Failure> {
        let written = self.write("proposals".to_owned(), &request, key).await?;
        Ok((written.value, written.replayed))
    }
    async fn revise_proposal(&self, id: &str, request: ProposalPatch) -> Result<Proposal, Failure> {
        let call = Call {
            method: Method::PATCH,
            path: proposal_path(id),
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: false,
        };
        parse(self.call(call).await?).await
    }
    async fn reject_proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.post(format!("{}/reject", proposal_path(id)), &Map::new(), false)
            .await
    }
    async fn archive_proposal(&self, id: &str) -> Result<Proposal, Failure> {
        let call = Call::<()> {
            method: Method::DELETE,
            path: proposal_path(id),
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        parse(self.call(call).await?).await
    }
    async fn apply_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<Decided, Failure> {
        self.decide(format!("{}/apply", proposal_path(id)), &request)
            .await
    }
    async fn approve_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<Decided, Failure> {
        self.decide(format!("proposals/{}/approve", segment(id)), &request)
            .await
    }
    async fn override_proposal(
        &self,
        id: &str,
        request: ProposalOverride,
    ) -> Result<Decided, Failure> {
        self.decide(format!("proposals/{}/override", segment(id)), &request)
            .await
    }
    async fn installed_artifacts(&self) -> Result<InstalledArtifacts, Failure> {
        self.read("installed".to_owned(), &()).await
    }
    async fn record_trace(&self, request: TraceCreate) -> Result<TraceCreated, Failure> {
        self.post("traces".to_owned(), &request, false).await
    }
    async fn automations(&self) -> Result<AutomationList, Failure> {
        self.read("automations".to_owned(), &()).await
    }
    async fn automation(&self, id: &str) -> Result<AutomationDoc, Failure> {
        self.read(format!("automations/{}", segment(id)), &()).await
    }
    async fn put_automation(
        &self,
        id: &str,
        request: Map<String, Value>,
    ) -> Result<(AutomationDoc, bool), Failure> {
        let path = format!("automations/{}", segment(id));
        let call = Call {
            method: Method::PUT,
            path,
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: true,
        };
        let response = self.call(call).await?;
        let new = response.status() == StatusCode::CREATED;
        Ok((parse(response).await?, new))
    }
    async fn enable_automation(&self, id: &str, enabled: bool) -> Result<AutomationDoc, Failure> {
        let step = if enabled { "resume" } else { "pause" };
        self.post(
            format!("automations/{}/{step}", segment(id)),
            &Map::new(),
            true,
        )
        .await
    }
    async fn remove_automation(&self, id: &str) -> Result<(), Failure> {
        let path = format!("automations/{}", segment(id));
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
