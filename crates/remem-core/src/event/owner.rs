//! The owner of an event: the memory that it concerns, and the one user who may see it. Every kind
//! is listed, so that the compiler demands a decision for a new one.

use super::EventBody;
use crate::ids::owner_in_name;

impl EventBody {
    /// The memory that the event concerns, if it concerns one.
    #[must_use]
    pub fn memory_ref(&self) -> Option<&str> {
        match self {
            EventBody::Written(payload) => Some(&payload.memory_ref),
            EventBody::Deleted(payload)
            | EventBody::Expired(payload)
            | EventBody::Redacted(payload)
            | EventBody::Forgotten(payload)
            | EventBody::Revived(payload)
            | EventBody::Ended(payload)
            | EventBody::Strengthened(payload) => Some(&payload.memory_ref),
            EventBody::Retired(payload) => Some(&payload.memory_ref),
            EventBody::Linked(payload) => Some(&payload.memory_ref),
            EventBody::SessionOpened(payload) | EventBody::SessionClosing(payload) => {
                Some(&payload.memory_ref)
            }
            EventBody::SessionClosed(payload) => Some(&payload.memory_ref),
            EventBody::Compacted(payload) => Some(&payload.memory_ref),
            EventBody::Consolidated(payload) => Some(&payload.memory_ref),
            EventBody::CommitmentCreated(payload)
            | EventBody::CommitmentChanged(payload)
            | EventBody::CommitmentEnded(payload) => Some(&payload.memory_ref),
            EventBody::CommitmentFired(payload) => Some(&payload.memory_ref),
            EventBody::PassStarted(payload) => payload.memory_ref.as_deref(),
            EventBody::PassProgress(payload) => payload.memory_ref.as_deref(),
            EventBody::PassEnded(payload) => payload.memory_ref.as_deref(),
            EventBody::RuleChanged(_)
            | EventBody::SubjectForgotten(_)
            | EventBody::WorkspaceUpdated(_)
            | EventBody::RunStarted(_)
            | EventBody::RunCompleted(_)
            | EventBody::RunFailed(_)
            | EventBody::RunCancelled(_)
            | EventBody::NodeStarted(_)
            | EventBody::NodeCompleted(_)
            | EventBody::NodeFailed(_)
            | EventBody::InvocationStarted(_)
            | EventBody::InvocationCompleted(_)
            | EventBody::AgentReasoned(_)
            | EventBody::AgentDecided(_)
            | EventBody::HeartbeatEvaluated(_)
            | EventBody::HeartbeatStateChanged(_)
            | EventBody::AutomationFired(_)
            | EventBody::ProposalCreated(_)
            | EventBody::ProposalRevised(_)
            | EventBody::ProposalRejected(_)
            | EventBody::ProposalArchived(_)
            | EventBody::ProposalActivated(_)
            | EventBody::AuthorizationDecided(_)
            | EventBody::ApprovalGranted(_)
            | EventBody::ApprovalRejected(_)
            | EventBody::ApprovalOverridden(_) => None,
        }
    }

    /// The user who alone may see the event, as far as the event itself says: the owner of its
    /// memory, of its heartbeat or of its run.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        match self {
            EventBody::HeartbeatEvaluated(payload) => owner_in_name(&payload.heartbeat_id),
            EventBody::HeartbeatStateChanged(payload) => owner_in_name(&payload.heartbeat_id),
            EventBody::RunStarted(payload) => payload.only_for.as_deref(),
            other => other.memory_ref().and_then(owner_in_name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EntryRef, HeartbeatEvaluated, PassEnded, RunStarted};

    #[test]
    fn an_event_knows_its_owner() {
        let entry = |memory_ref: &str| {
            EventBody::Deleted(EntryRef {
                memory_ref: memory_ref.into(),
                memory_id: "e".into(),
            })
        };
        assert_eq!(
            (entry("~ada/ops").owner(), entry("ada/ops").owner()),
            (Some("ada"), None)
        );
        let beat = |id: &str| {
            EventBody::HeartbeatEvaluated(HeartbeatEvaluated {
                heartbeat_id: id.into(),
                status: "ok".into(),
                changed: false,
            })
        };
        assert_eq!(
            (beat("~ada/hb").owner(), beat("hb").owner()),
            (Some("ada"), None)
        );
        let run = RunStarted {
            workflow_id: "w".into(),
            source_run_id: None,
            parent_run_id: None,
            only_for: Some("ada".into()),
        };
        assert_eq!(EventBody::RunStarted(run).owner(), Some("ada"));
        let job_id = "j".to_owned();
        let pass = "p".to_owned();
        let outcome = "done".to_owned();
        let memory_ref = Some("~ada/ops".to_owned());
        let ended = PassEnded {
            job_id,
            pass,
            memory_ref,
            outcome,
            examined: 0,
            changed: 0,
            duration_ms: 0,
        };
        assert_eq!(EventBody::PassEnded(ended).owner(), Some("ada"));
    }
}
