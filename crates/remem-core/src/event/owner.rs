//! Whose event it is: which memory it tells of, and which user alone may know of it. Every kind is
//! named, so that a new one has to be decided about.

use super::EventBody;
use crate::ids::owner_of;

impl EventBody {
    /// The memory that it tells of, if it is about one.
    #[must_use]
    pub fn memory_ref(&self) -> Option<&str> {
        match self {
            EventBody::Written(told) => Some(&told.memory_ref),
            EventBody::Deleted(told)
            | EventBody::Expired(told)
            | EventBody::Redacted(told)
            | EventBody::Forgotten(told)
            | EventBody::Revived(told)
            | EventBody::Ended(told)
            | EventBody::Strengthened(told) => Some(&told.memory_ref),
            EventBody::Retired(told) => Some(&told.memory_ref),
            EventBody::Linked(told) => Some(&told.memory_ref),
            EventBody::SessionOpened(told) | EventBody::SessionClosing(told) => {
                Some(&told.memory_ref)
            }
            EventBody::SessionClosed(told) => Some(&told.memory_ref),
            EventBody::Compacted(told) => Some(&told.memory_ref),
            EventBody::Consolidated(told) => Some(&told.memory_ref),
            EventBody::CommitmentCreated(told)
            | EventBody::CommitmentChanged(told)
            | EventBody::CommitmentEnded(told) => Some(&told.memory_ref),
            EventBody::CommitmentFired(told) => Some(&told.memory_ref),
            EventBody::PassStarted(told) => told.memory_ref.as_deref(),
            EventBody::PassProgress(told) => told.memory_ref.as_deref(),
            EventBody::PassEnded(told) => told.memory_ref.as_deref(),
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

    /// The user who alone may know of it, as far as it tells by itself: whose memory it names,
    /// whose heartbeat, whose run.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        match self {
            EventBody::HeartbeatEvaluated(told) => owner_of(&told.heartbeat_id),
            EventBody::HeartbeatStateChanged(told) => owner_of(&told.heartbeat_id),
            EventBody::RunStarted(told) => told.only_for.as_deref(),
            other => other.memory_ref().and_then(owner_of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EntryRef, HeartbeatEvaluated, PassEnded, RunStarted};

    #[test]
    fn an_event_tells_whose_it_is() {
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
