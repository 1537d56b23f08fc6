//! The event: the stored, content-free record of a change. Ids, counts and reserved tags; never
//! text a caller wrote.

mod owner;
mod pass;
mod run;
mod standing;
mod workshop;

pub use pass::{
    Compacted, Consolidated, Distillation, PassEnded, PassProgress, PassStarted, Retired,
    SubjectForgotten,
};
pub use run::{
    AgentDecided, AgentReasoned, Decision, Fault, InvocationCompleted, InvocationStarted,
    NodeEnded, NodeFailed, NodeStarted, RunCancelled, RunEnded, RunFailed, RunStarted,
};

pub use standing::{
    ApprovalEnded, ApprovalGranted, AuthorizationDecided, AutomationFired, CommitmentFired,
    CommitmentRef, HeartbeatEvaluated, HeartbeatStateChanged, PredicateState, ProposalActivated,
    ProposalCreated, ProposalRef, QuorumProgress,
};

pub use workshop::{Linked, RuleRef, SessionClosed, SessionRef};

use crate::ids::{EntryId, MemoryRef, Revision, RunId, Seq, Timestamp};
use crate::sabotage;
use serde::{Deserialize, Serialize};

/// One row an event: its variant, payload and stable name. Everything that has to know every kind
/// is made from it.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($payload:ty) = $text:literal,)*) => {
        /// What happened, with the ids of what it happened to.
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
            /// Every kind.
            pub const ALL: &[EventKind] = &[$(EventKind::$name,)*];

            /// The stable name, as stored and sent.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(EventKind::$name => $text,)* }
            }
        }

        impl EventBody {
            /// The kind.
            #[must_use]
            pub fn kind(&self) -> EventKind {
                match self { $(EventBody::$name(_) => EventKind::$name,)* }
            }

            /// The payload as JSON, for storage and for the wire alike: there is nothing in it to
            /// hide.
            #[must_use]
            pub fn payload(&self) -> serde_json::Value {
                match self { $(EventBody::$name(payload) => serde_json::to_value(payload),)* }
                    .expect("structs of strings and numbers always serialise")
            }

            /// Reads a stored pair of kind and payload; `None` if this version does not know it.
            /// Free text of callers, which events of earlier versions can hold, is left out.
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
    Written(Written) = "memory.written",
    /// An entry was deleted by a caller.
    Deleted(EntryRef) = "memory.deleted",
    /// An entry's time ran out and its text was removed.
    Expired(EntryRef) = "memory.expired",
    /// A secret that was registered later was taken out of a stored text.
    Redacted(EntryRef) = "memory.redacted",
    /// An entry's place was taken by another one: merged into it, superseded by it, compacted into
    /// it; or it is no longer true.
    Retired(Retired) = "memory.retired",
    /// An entry's text was erased because of what it is about.
    Forgotten(EntryRef) = "memory.forgotten",
    /// An entry that had been merged into one that was forgotten stands by itself again.
    Revived(EntryRef) = "memory.revived",
    /// An entry's session or chat thread is over, and so is the entry.
    Ended(EntryRef) = "memory.ended",
    /// Somebody else said the same as an entry.
    Strengthened(EntryRef) = "memory.strengthened",
    /// An action rests on an entry.
    Linked(Linked) = "memory.linked",
    /// A rule of a world came, changed or went.
    RuleChanged(RuleRef) = "rule.changed",
    /// A session began.
    SessionOpened(SessionRef) = "session.opened",
    /// A session is over; what outlasts it is being worked out.
    SessionClosing(SessionRef) = "session.closing",
    /// What outlasts a session is kept, and the rest has ended.
    SessionClosed(SessionClosed) = "session.closed",
    /// A subject was forgotten.
    SubjectForgotten(SubjectForgotten) = "subject.forgotten",
    /// Many entries became one.
    Compacted(Compacted) = "memory.compacted",
    /// A memory was reconciled with itself.
    Consolidated(Consolidated) = "agent.memory.consolidated",
    /// A pass began to work over a memory.
    PassStarted(PassStarted) = "pass.started",
    /// A pass is under way.
    PassProgress(PassProgress) = "pass.progress",
    /// A pass has ended.
    PassEnded(PassEnded) = "pass.ended",
    /// A workspace file has a new version, or was deleted.
    WorkspaceUpdated(FileRef) = "workspace.updated",
    /// A run began.
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
    /// An installed agent was called upon.
    InvocationStarted(InvocationStarted) = "agent.invocation.started",
    /// What an installed agent was called upon for has ended.
    InvocationCompleted(InvocationCompleted) = "agent.invocation.completed",
    /// An agent thought; the thoughts themselves are kept nowhere.
    AgentReasoned(AgentReasoned) = "agent.reasoned",
    /// An agent decided.
    AgentDecided(AgentDecided) = "agent.decided",
    /// There is something to be reminded of, or it waits to be confirmed.
    CommitmentCreated(CommitmentRef) = "commitment.created",
    /// A commitment was confirmed, or put off.
    CommitmentChanged(CommitmentRef) = "commitment.changed",
    /// A commitment's condition is met.
    CommitmentFired(CommitmentFired) = "commitment.fired",
    /// A commitment will not fire any more.
    CommitmentEnded(CommitmentRef) = "commitment.ended",
    /// A heartbeat looked at its predicate.
    HeartbeatEvaluated(HeartbeatEvaluated) = "heartbeat.evaluated",
    /// A heartbeat's predicate came to hold, or ceased to.
    HeartbeatStateChanged(HeartbeatStateChanged) = "heartbeat.stateChanged",
    /// An automation's time has come.
    AutomationFired(AutomationFired) = "automation.fired",
    /// There is a proposal to review.
    ProposalCreated(ProposalCreated) = "proposal.created",
    /// A proposal was changed.
    ProposalRevised(ProposalRef) = "proposal.revised",
    /// A proposal was turned down.
    ProposalRejected(ProposalRef) = "proposal.rejected",
    /// A proposal was put aside.
    ProposalArchived(ProposalRef) = "proposal.archived",
    /// A proposal was applied: from now on it has an effect.
    ProposalActivated(ProposalActivated) = "proposal.activated",
    /// Somebody was allowed or denied something that needs a decision.
    AuthorizationDecided(AuthorizationDecided) = "authorization.decided",
    /// Somebody approved.
    ApprovalGranted(ApprovalGranted) = "approval.granted",
    /// Somebody did not, or nobody did in time.
    ApprovalRejected(ApprovalEnded) = "approval.rejected",
    /// Somebody went past the quorum.
    ApprovalOverridden(ApprovalEnded) = "approval.overridden",
}

/// Payload of `memory.written`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Written {
    /// The memory.
    pub memory_ref: String,
    /// The entry.
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

/// Payload of events that name one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryRef {
    /// The memory.
    pub memory_ref: String,
    /// The entry.
    pub memory_id: String,
}

/// Payload of `workspace.updated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileRef {
    /// The file.
    pub path: String,
    /// Its version; a deletion counts as one.
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

/// Prefixes of tags that the host itself gives meaning to; only these appear in events.
pub const RESERVED_TAG_PREFIXES: [&str; 2] = ["source:", "compacted-from:"];

/// How long what follows the prefix may be for a reserved tag to appear in an event.
const RESERVED_NAME_CHARS_MAX: usize = 64;

/// Whether a tag may appear in an event: a reserved prefix and a name. A caller can write any text
/// behind a prefix, so what does not look like a name stays with the entry.
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

/// A stored event: its body, where it stands in the tenant's log, and the hash that chains it to
/// the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the tenant's log.
    pub seq: Seq,
    /// The commit it belongs to.
    pub revision: Revision,
    /// When that commit was made.
    pub at: Timestamp,
    /// The run that caused it, if one did, and where it stands in that run's own log.
    pub run: Option<RunPosition>,
    /// What happened.
    pub body: EventBody,
    /// `chain_hash` of this event: covers the event and, through its predecessor's hash, the whole
    /// log before it.
    pub hash: [u8; 32],
}

/// Where an event stands in the log of the run that caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPosition {
    /// The run.
    pub id: RunId,
    /// 0, 1, 2, … without gaps.
    pub seq: u64,
    /// When it happened first, if this run only repeats what an earlier one recorded.
    pub recorded_at: Option<Timestamp>,
}

impl Event {
    /// When it happened: for what a replay repeats, the first time.
    #[must_use]
    pub fn happened_at(&self) -> Timestamp {
        self.run
            .as_ref()
            .and_then(|run| run.recorded_at)
            .unwrap_or(self.at)
    }
}

/// What the hash of an event covers beside its predecessor's.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// Position in the tenant's log.
    pub seq: Seq,
    /// The commit it belongs to.
    pub revision: Revision,
    /// When that commit was made.
    pub at: Timestamp,
    /// The run and the place in its log.
    pub run: Option<(&'a str, u64, Option<Timestamp>)>,
    /// Its kind's name.
    pub kind: &'a str,
    /// Its payload as stored.
    pub payload: &'a str,
}

/// The hash of an event given its predecessor's; the first event's predecessor is all zeros.
#[must_use]
pub fn chain_hash(previous: &[u8; 32], link: &Link<'_>) -> [u8; 32] {
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
    fn bodies_survive_storage() {
        let entry = EntryRef {
            memory_ref: "m".into(),
            memory_id: "e".into(),
        };
        let node_id = Some("n".to_owned());
        let agent_id = Some("core.a.b".to_owned());
        let written = Written {
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
    fn free_text_of_callers_is_in_no_event() {
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
        let linked = r#"{"memoryRef":"m","memoryId":"e","action":"told Ada everything"}"#;
        let linked = EventBody::from_stored("memory.linked", linked).unwrap();
        assert_eq!(
            linked.payload().to_string(),
            r#"{"memoryId":"e","memoryRef":"m"}"#
        );
        let written =
            r#"{"memoryRef":"m","memoryId":"e","tags":["source:told by Ada","source:chat"]}"#;
        let written = EventBody::from_stored("memory.written", written).unwrap();
        assert_eq!(
            written.payload()["tags"],
            serde_json::json!(["source:chat"])
        );
    }

    #[test]
    fn the_chain_depends_on_every_part() {
        let zero = [0; 32];
        let run = |name, seq, at: Option<i64>| Some((name, seq, at.map(Timestamp)));
        let link = Link {
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
            Link {
                seq: Seq(2),
                ..link
            },
            Link {
                revision: Revision(2),
                ..link
            },
            Link {
                at: Timestamp(2),
                ..link
            },
            Link {
                kind: "kp",
                payload: "",
                ..link
            },
            Link { run: None, ..link },
            Link {
                run: run("s", 0, None),
                ..link
            },
            Link {
                run: run("r", 1, None),
                ..link
            },
            Link {
                run: run("r", 0, Some(1)),
                ..link
            },
        ] {
            assert_ne!(base, chain_hash(&zero, &other), "{other:?}");
        }
    }
}
