//! Proposals and automations over HTTP.

use super::{HttpApi, HttpCall, parse_body, path_segment};
use async_trait::async_trait;
use remem_server::{DecisionOutcome, ReviewApi};
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
    format!("/v1/host/remembrancer/proposals/{}", path_segment(id))
}

impl HttpApi {
    /// Posts a decision about a proposal. Not retried: the answer to a second attempt would not be
    /// the result of the first.
    async fn decide<B: Serialize + Sync>(
        &self,
        path: String,
        body: &B,
    ) -> Result<DecisionOutcome, Failure> {
        let call = HttpCall {
            method: Method::POST,
            path,
            query: None,
            body: Some(body),
            idempotency_key: None,
            repeatable: false,
        };
        let response = self.send_with_retries(call).await?;
        let waits = response.status() == StatusCode::ACCEPTED;
        Ok(DecisionOutcome {
            proposal: parse_body(response).await?,
            awaits_approval: waits,
        })
    }
}

#[async_trait]
impl ReviewApi for HttpApi {
    async fn proposals(&self, query: ProposalsQuery) -> Result<ProposalList, Failure> {
        self.get_json("/v1/host/remembrancer/proposals".to_owned(), &query)
            .await
    }
    async fn proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.get_json(proposal_path(id), &()).await
    }
    async fn proposal_revisions(&self, id: &str) -> Result<ProposalRevisions, Failure> {
        self.get_json(format!("proposals/{}/revisions", path_segment(id)), &())
            .await
    }
    async fn proposal_gate(&self, id: &str) -> Result<ProposalGate, Failure> {
        self.get_json(format!("proposals/{}/gate", path_segment(id)), &())
            .await
    }
    async fn submit_proposal(
        &self,
        request: ProposalSubmit,
        key: Option<&str>,
    ) -> Result<(Proposal, bool), Failure> {
        let written = self
            .post_write("proposals".to_owned(), &request, key)
            .await?;
        Ok((written.value, written.replayed))
    }
    async fn revise_proposal(&self, id: &str, request: ProposalPatch) -> Result<Proposal, Failure> {
        let call = HttpCall {
            method: Method::PATCH,
            path: proposal_path(id),
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: false,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
    async fn reject_proposal(&self, id: &str) -> Result<Proposal, Failure> {
        self.post_json(format!("{}/reject", proposal_path(id)), &Map::new(), false)
            .await
    }
    async fn archive_proposal(&self, id: &str) -> Result<Proposal, Failure> {
        let call = HttpCall::<()> {
            method: Method::DELETE,
            path: proposal_path(id),
            query: None,
            body: None,
            idempotency_key: None,
            repeatable: false,
        };
        parse_body(self.send_with_retries(call).await?).await
    }
    async fn apply_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<DecisionOutcome, Failure> {
        self.decide(format!("{}/apply", proposal_path(id)), &request)
            .await
    }
    async fn approve_proposal(
        &self,
        id: &str,
        request: ProposalDecision,
    ) -> Result<DecisionOutcome, Failure> {
        self.decide(format!("proposals/{}/approve", path_segment(id)), &request)
            .await
    }
    async fn override_proposal(
        &self,
        id: &str,
        request: ProposalOverride,
    ) -> Result<DecisionOutcome, Failure> {
        self.decide(format!("proposals/{}/override", path_segment(id)), &request)
            .await
    }
    async fn installed_artifacts(&self) -> Result<InstalledArtifacts, Failure> {
        self.get_json("installed".to_owned(), &()).await
    }
    async fn record_trace(&self, request: TraceCreate) -> Result<TraceCreated, Failure> {
        self.post_json("traces".to_owned(), &request, false).await
    }
    async fn automations(&self) -> Result<AutomationList, Failure> {
        self.get_json("automations".to_owned(), &()).await
    }
    async fn automation(&self, id: &str) -> Result<AutomationDoc, Failure> {
        self.get_json(format!("automations/{}", path_segment(id)), &())
            .await
    }
    async fn put_automation(
        &self,
        id: &str,
        request: Map<String, Value>,
    ) -> Result<(AutomationDoc, bool), Failure> {
        let path = format!("automations/{}", path_segment(id));
        let call = HttpCall {
            method: Method::PUT,
            path,
            query: None,
            body: Some(&request),
            idempotency_key: None,
            repeatable: true,
        };
        let response = self.send_with_retries(call).await?;
        let new = response.status() == StatusCode::CREATED;
        Ok((parse_body(response).await?, new))
    }
    async fn enable_automation(&self, id: &str, enabled: bool) -> Result<AutomationDoc, Failure> {
        let step = if enabled { "resume" } else { "pause" };
        self.post_json(
            format!("automations/{}/{step}", path_segment(id)),
            &Map::new(),
            true,
        )
        .await
    }
    async fn remove_automation(&self, id: &str) -> Result<(), Failure> {
        let path = format!("automations/{}", path_segment(id));
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
