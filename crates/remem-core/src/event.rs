//! The event: the stored record of a change, without content. It holds ids, counts and reserved
//! tags, never text that a caller wrote.

mod commitments_and_reviews;
mod owner;
mod pass;
mod run;
mod workshop;

pub use pass::{
    Compacted, Consolidated, Distillation, EntryRetired, PassEnded, PassProgress, PassStarted,
    SubjectForgotten,
};
pub use run::{
    AgentDecided, AgentReasoned, Decision, Fault, InvocationCompleted, InvocationStarted,
    NodeEnded, NodeFailed, NodeStarted, RunCancelled, RunEnded, RunFailed, RunStarted,
};

pub use commitments_and_reviews::{
    ApprovalEnded, ApprovalGranted, AuthorizationDecided, AutomationFired, CommitmentFired,
    CommitmentRef, HeartbeatEvaluated, HeartbeatStateChanged, PredicateState, ProposalActivated,
    ProposalCreated, ProposalRef, QuorumProgress,
};

pub use workshop::{EntryLinked, RuleRef, SessionClosed, SessionRef};

use crate::ids::{EntryId, MemoryRef, Revision, RunId, Seq, Timestamp};
use crate::sabotage;
use serde::{Deserialize, Serialize};

/// The table of events: one row for each variant with its payload and stable name. All code that
/// has to know every kind is generated from it.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($payload:ty) = $text:literal,)*) => {
        /// The kind of a change, with the ids of everything that it changed.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum EventBody {
            $($(#[$doc])* $name($payload),)*
        }

        /// The kind of an event: its stable name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind {
            $(#[doc = concat!("`", $text, "`")] $name,)*
        }

        impl EventKind {
            /// All kinds, in the order of the table.
            pub const ALL: &[EventKind] = &[$(EventKind::$name,)*];

            /// The stable name, as stored and sent.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(EventKind::$name => $text,)* }
            }
        }

        impl EventBody {
            /// The kind of this event, without its payload.
            #[must_use]
            pub fn kind(&self) -> EventKind {
                match self { $(EventBody::$name(_) => EventKind::$name,)* }
            }

            /// The payload as JSON, for storage and for the API alike: it holds nothing that has to
            /// be hidden.
            #[must_use]
            pub fn payload(&self) -> serde_json::Value {
                match self { $(EventBody::$name(payload) => serde_json::to_value(payload),)* }
                    .expect("structs of strings and numbers always serialise")
            }

            /// Reads a stored pair of kind and payload; `None` if this version does not know it.
            /// Free text of callers, which events of earlier versions can hold, is dropped.
            #[must_use]
            pub fn from_stored(kind: &str, payload: &str) -> Option<EventBody> {
                let mut body = match kind {
                    $($text => serde_json::from_str(payload).ok().map(EventBody::$name),)*
                    _ => None,
                }?;
                if let EventBody::Written(written) = &mut body {
                    written.tags.retain(|tag| is_reserved_tag(tag));
                }
                Some(body)
            }
        }
    };
}

events! {
    /// An entry was written.
    Written(EntryWritten) = "memory.written",
    /// An entry was deleted by a caller.
    Deleted(EntryRef) = "memory.deleted",
    /// An entry expired and its text was removed.
    Expired(EntryRef) = "memory.expired",
    /// A secret that was registered later was removed from a stored text.
    Redacted(EntryRef) = "memory.redacted",
    /// An entry was replaced by another one, which it was merged into, superseded by or compacted
    /// into; or its statement is no longer true.
    Retired(EntryRetired) = "memory.retired",
    /// An entry's text was erased because a subject was forgotten.
    Forgotten(EntryRef) = "memory.forgotten",
    /// An entry that had been merged into a forgotten one is an entry of its own again.
    Revived(EntryRef) = "memory.revived",
    /// An entry's session or chat thread is over, and so is the entry.
    Ended(EntryRef) = "memory.ended",
    /// Another source said the same as an entry.
    Strengthened(EntryRef) = "memory.strengthened",
    /// An action rests on an entry.
    Linked(EntryLinked) = "memory.linked",
    /// A rule of a world was written or deleted.
    RuleChanged(RuleRef) = "rule.changed",
    /// A session was opened in a memory.
    SessionOpened(SessionRef) = "session.opened",
    /// A session is over; the entries that outlast it are being selected.
    SessionClosing(SessionRef) = "session.closing",
    /// The entries that outlast a session are stored, and the rest has ended.
    SessionClosed(SessionClosed) = "session.closed",
    /// A subject was forgotten.
    SubjectForgotten(SubjectForgotten) = "subject.forgotten",
    /// Many entries became one.
    Compacted(Compacted) = "memory.compacted",
    /// The entries of a memory were compared with each other, and duplicates merged.
    Consolidated(Consolidated) = "agent.memory.consolidated",
    /// A pass began to work over a memory.
    PassStarted(PassStarted) = "pass.started",
    /// A pass is under way.
    PassProgress(PassProgress) = "pass.progress",
    /// A pass has ended.
    PassEnded(PassEnded) = "pass.ended",
    /// A workspace file has a new version, or was deleted.
    WorkspaceUpdated(FileRef) = "workspace.updated",
    /// A run of a workflow began.
    RunStarted(RunStarted) = "run.started",
    /// A run ended well.
    RunCompleted(RunEnded) = "run.completed",
    /// A run ended with an error.
    RunFailed(RunFailed) = "run.failed",
    /// A run was cancelled.
    RunCancelled(RunCancelled) = "run.cancelled",
    /// A node of a run began.
    NodeStarted(NodeStarted) = "node.started",
    /// A node of a run ended well.
    NodeCompleted(NodeEnded) = "node.completed",
    /// A node of a run ended with an error.
    NodeFailed(NodeFailed) = "node.failed",
    /// An installed agent was invoked.
    InvocationStarted(InvocationStarted) = "agent.invocation.started",
    /// The invocation of an installed agent has ended.
    InvocationCompleted(InvocationCompleted) = "agent.invocation.completed",
    /// An agent reasoned; its thoughts are stored nowhere.
    AgentReasoned(AgentReasoned) = "agent.reasoned",
    /// An agent reached a decision.
    AgentDecided(AgentDecided) = "agent.decided",
    /// A commitment was made; it will fire, or waits to be confirmed.
    CommitmentCreated(CommitmentRef) = "commitment.created",
    /// A commitment was confirmed, or put off.
    CommitmentChanged(CommitmentRef) = "commitment.changed",
    /// A commitment fired because its time or condition came.
    CommitmentFired(CommitmentFired) = "commitment.fired",
    /// A commitment will not fire any more.
    CommitmentEnded(CommitmentRef) = "commitment.ended",
    /// A heartbeat evaluated its predicate.
    HeartbeatEvaluated(HeartbeatEvaluated) = "heartbeat.evaluated",
    /// A heartbeat's predicate became true or false.
    HeartbeatStateChanged(HeartbeatStateChanged) = "heartbeat.stateChanged",
    /// An automation's time has come.
    AutomationFired(AutomationFired) = "automation.fired",
    /// A proposal waits for review.
    ProposalCreated(ProposalCreated) = "proposal.created",
    /// A proposal was changed.
    ProposalRevised(ProposalRef) = "proposal.revised",
    /// A proposal was rejected by a reviewer.
    ProposalRejected(ProposalRef) = "proposal.rejected",
    /// A proposal was archived, so it will not be installed.
    ProposalArchived(ProposalRef) = "proposal.archived",
    /// A proposal was applied: from now on it has an effect.
    ProposalActivated(ProposalActivated) = "proposal.activated",
    /// A principal was allowed or denied an action that needs a decision.
    AuthorizationDecided(AuthorizationDecided) = "authorization.decided",
    /// A principal approved at a gate.
    ApprovalGranted(ApprovalGranted) = "approval.granted",
    /// A principal rejected at a gate, or the time for approval ran out.
    ApprovalRejected(ApprovalEnded) = "approval.rejected",
    /// A principal overrode the quorum of a gate.
    ApprovalOverridden(ApprovalEnded) = "approval.overridden",
}

/// The payload of `memory.written` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryWritten {
    pub memory_ref: String,
    pub memory_id: String,
    /// Reserved tags only: a caller's own tags can be content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Kinds of secret shapes that were redacted or, where the tenant prefers that, only flagged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// The node of the run that wrote it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The agent behind the write, if one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
}

/// The payload of events that name one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryRef {
    pub memory_ref: String,
    pub memory_id: String,
}

/// The payload of `workspace.updated` events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileRef {
    pub path: String,
    /// The new version of the file; a deletion counts as one.
    pub version: u64,
}

impl EntryRef {
    /// The payload naming `id` in `memory_ref`.
    #[must_use]
    pub fn new(memory_ref: &MemoryRef, id: &EntryId) -> EntryRef {
        EntryRef {
            memory_ref: memory_ref.as_str().to_owned(),
            memory_id: id.as_str().to_owned(),
        }
    }
}

/// Prefixes of tags with a meaning for the host itself; only such tags appear in events.
pub const RESERVED_TAG_PREFIXES: [&str; 2] = ["source:", "compacted-from:"];

/// The most characters after the prefix of a reserved tag that appears in an event.
const RESERVED_NAME_CHARS_MAX: usize = 64;

/// Returns true if a tag may appear in an event: a reserved prefix and a name. A caller can write
/// any text after a prefix, so a tag whose end is not a name is left out of events.
#[must_use]
pub fn is_reserved_tag(tag: &str) -> bool {
    let is_name = |text: &str| {
        let named = |b: u8| b.is_ascii_alphanumeric() || b"._-:/~@".contains(&b);
        !text.is_empty() && text.len() <= RESERVED_NAME_CHARS_MAX && text.bytes().all(named)
    };
    RESERVED_TAG_PREFIXES
        .iter()
        .filter_map(|prefix| tag.strip_prefix(prefix))
        .any(sabotage!(
            "free-text-behind-a-prefix-in-events",
            is_name,
            |_| true
        ))
}

/// A stored event: its body, its position in the tenant's log, and the hash that chains it to its
/// predecessor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The position in the tenant's log.
    pub seq: Seq,
    pub revision: Revision,
    pub at: Timestamp,
    /// The run that caused it, if one did, and the position in that run's own log.
    pub run: Option<RunPosition>,
    /// The change that it reports.
    pub body: EventBody,
    /// `chain_hash` of this event: covers the event and, through its predecessor's hash, the whole
    /// log before it.
    pub hash: [u8; 32],
}

/// The position of an event in the log of the run that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPosition {
    pub id: RunId,
    /// The position, counted from 0 without gaps.
    pub seq: u64,
    /// The instant at which it happened first, if this run only repeats what an earlier one
    /// recorded.
    pub recorded_at: Option<Timestamp>,
}

impl Event {
    /// The instant at which it happened; for an event that a replay repeats, the first time.
    #[must_use]
    pub fn happened_at(&self) -> Timestamp {
        self.run
            .as_ref()
            .and_then(|run| run.recorded_at)
            .unwrap_or(self.at)
    }
}

/// The parts of an event that its hash covers beside its predecessor's hash.
#[derive(Clone, Copy, Debug)]
pub struct ChainLink<'a> {
    /// The position in the tenant's log.
    pub seq: Seq,
    pub revision: Revision,
    pub at: Timestamp,
    /// The run, the position in its log, and the instant that it repeats.
    pub run: Option<(&'a str, u64, Option<Timestamp>)>,
    /// The stable name of the kind.
    pub kind: &'a str,
    /// The payload as it is stored.
    pub payload: &'a str,
}

/// The hash of an event given its predecessor's; the first event's predecessor is all zeros.
#[must_use]
pub fn chain_hash(previous: &[u8; 32], link: &ChainLink<'_>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("remembrancer event chain v1");
    hasher.update(previous);
    hasher.update(&link.seq.0.to_le_bytes());
    hasher.update(&link.revision.0.to_le_bytes());
    hasher.update(&link.at.0.to_le_bytes());
    hasher.update(&(link.kind.len() as u64).to_le_bytes());
    hasher.update(link.kind.as_bytes());
    hasher.update(link.payload.as_bytes());
    if let Some((run, seq, recorded_at)) = link.run {
        hasher.update(&(run.len() as u64).to_le_bytes());
        hasher.update(run.as_bytes());
        hasher.update(&seq.to_le_bytes());
        hasher.update(&recorded_at.map_or(i64::MIN, |at| at.0).to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_bodies_round_trip_through_storage() {
        let entry = EntryRef {
            memory_ref: "m".into(),
            memory_id: "e".into(),
        };
        let node_id = Some("n".to_owned());
        let agent_id = Some("core.a.b".to_owned());
        let written = EntryWritten {
            memory_ref: "m".into(),
            memory_id: "e".into(),
            tags: vec!["source:chat".into()],
            flags: vec![],
            node_id,
            agent_id,
        };
        let file = FileRef {
            path: "a/b.md".into(),
            version: 3,
        };
        let fault = Fault {
            code: "c".into(),
            message: "m".into(),
        };
        let failed = RunFailed {
            error: fault,
            failed_node_id: Some("n".into()),
            duration_ms: 1,
        };
        let started = RunStarted {
            workflow_id: "w".into(),
            source_run_id: None,
            parent_run_id: Some("run_1".into()),
            only_for: None,
        };
        for body in [
            EventBody::Written(written),
            EventBody::Deleted(entry.clone()),
            EventBody::Expired(entry),
            EventBody::WorkspaceUpdated(file),
            EventBody::RunFailed(failed),
            EventBody::RunStarted(started),
        ] {
            let stored = body.payload().to_string();
            assert_eq!(
                EventBody::from_stored(body.kind().as_str(), &stored),
                Some(body)
            );
        }
        assert_eq!(EventBody::from_stored("memory.unheard-of", "{}"), None);
    }

    #[test]
    fn caller_text_is_kept_out_of_events() {
        for tag in [
            "source:chat",
            "source:run",
            "compacted-from:mem_01-a.b",
            "source:a/b@c",
        ] {
            assert!(is_reserved_tag(tag), "{tag}");
        }
        let long = format!("source:{}", "x".repeat(65));
        for tag in [
            "source:told by Ada",
            "source:",
            "source:a\nb",
            "topic:x",
            long.as_str(),
        ] {
            assert!(!is_reserved_tag(tag), "{tag}");
        }
        let linked = r#"{"memoryRef":"m","memoryId":"e","action":"reported Ada everything"}"#;
        let linked = EventBody::from_stored("memory.linked", linked).unwrap();
        assert_eq!(
            linked.payload().to_string(),
            r#"{"memoryId":"e","memoryRef":"m"}"#
        );
        let written =
            r#"{"memoryRef":"m","memoryId":"e","tags":["source:reported by Ada","source:chat"]}"#;
        let written = EventBody::from_stored("memory.written", written).unwrap();
        assert_eq!(
            written.payload()["tags"],
            serde_json::json!(["source:chat"])
        );
    }

    #[test]
    fn the_chain_hash_covers_every_field() {
        let zero = [0; 32];
        let run = |name, seq, at: Option<i64>| Some((name, seq, at.map(Timestamp)));
        let link = ChainLink {
            seq: Seq(1),
            revision: Revision(1),
            at: Timestamp(1),
            run: run("r", 0, None),
            kind: "k",
            payload: "p",
        };
        let base = chain_hash(&zero, &link);
        assert_ne!(base, chain_hash(&base, &link));
        for other in [
            ChainLink {
                seq: Seq(2),
                ..link
            },
            ChainLink {
                revision: Revision(2),
                ..link
            },
            ChainLink {
                at: Timestamp(2),
                ..link
            },
            ChainLink {
                kind: "kp",
                payload: "",
                ..link
            },
            ChainLink { run: None, ..link },
            ChainLink {
                run: run("s", 0, None),
                ..link
            },
            ChainLink {
                run: run("r", 1, None),
                ..link
            },
            ChainLink {
                run: run("r", 0, Some(1)),
                ..link
            },
        ] {
            assert_ne!(base, chain_hash(&zero, &other), "{other:?}");
        }
    }
}
