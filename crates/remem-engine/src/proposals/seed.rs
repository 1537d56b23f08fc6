//! The draft that conformance checks read. Nothing here has an effect on a host without the test
//! endpoints.

use super::manage::add_proposal;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::{Batch, Permission};
use serde_json::json;

impl Engine {
    /// Stores a draft for conformance checks, unless there is one.
    pub async fn seed_proposal(&self, caller: &Caller) -> Result<(), EngineError> {
        caller.require(Permission::ProposalsRead)?;
        let tenant = caller.tenant();
        if !self.parts.test_endpoints
            || self
                .parts
                .proposal_store
                .all_proposals(tenant)
                .await?
                .iter()
                .any(|proposal| proposal.state == ProposalState::Draft)
        {
            return Ok(());
        }
        self.check_proposal_room(tenant).await?;
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_of(caller);
        let now = self.now_for(tenant).await?;
        let artifact = json!({
            "templateId": "conformance-greeting", "version": "0.1.0", "text": "Hello, {{who}}.",
            "variables": [{"name": "who", "defaultValue": "you"}],
        });
        let title = "A greeting".to_owned();
        let rationale = "There for conformance checks to look at.".to_owned();
        let artifact = artifact.as_object().cloned().unwrap_or_default();
        let admission = rules.admission(&policy, now);
        let draft = self
            .to_canonical(tenant, &admission, Some(title), Some(rationale), artifact)
            .await?;
        let proposal = self
            .build_proposal(tenant, ProposalKind::PromptTemplate, &draft, now)
            .await?;
        self.parts
            .store
            .commit(add_proposal(
                Batch::new(tenant.clone(), now),
                &proposal,
                &draft.artifact,
                now,
            ))
            .await?;
        Ok(())
    }
}
