//! Proposals, their revisions and gates, installations and tool traces, as their records store
//! them. Text of callers was redacted before it comes here (`CleanText`); the rest are the host's
//! own ids, numbers and hashes. Tool traces are redacted when they are stored.

use super::GateState;
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::record::or_default;
use remem_core::{
    CleanText, HostText, NeedsNoRedaction, Record, RecordKind, RecordLinks, StoredRecord,
    Timestamp, needs_no_redaction, sabotage,
};
use serde::{Deserialize, Serialize};

/// The body of a proposal's record, with its id.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredProposal {
    #[serde(skip)]
    pub id: HostText,
    pub kind: ProposalKind,
    pub state: ProposalState,
    #[serde(default, deserialize_with = "or_default")]
    pub title: Option<CleanText>,
    #[serde(default, deserialize_with = "or_default")]
    pub rationale: Option<CleanText>,
    #[serde(default, deserialize_with = "or_default")]
    pub source_run_ids: Vec<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub synthesizer_model: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub owner: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub author: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub duplicate_of: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub approval_id: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub installed_artifact_ref: Option<HostText>,
    pub revision: u64,
    pub sha256: HostText,
    pub origin: HostText,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

needs_no_redaction!(StoredProposal {
    id,
    kind,
    state,
    title,
    rationale,
    source_run_ids,
    synthesizer_model,
    owner,
    author,
    duplicate_of,
    approval_id,
    installed_artifact_ref,
    revision,
    sha256,
    origin,
    created_at,
    updated_at,
});

impl StoredRecord for StoredProposal {
    const KIND: RecordKind = RecordKind::Proposal;

    fn key(&self) -> String {
        self.id.as_str().to_owned()
    }

    fn complete(&mut self, record: &Record) {
        self.id = HostText::new(&record.key);
    }
}

/// The body of a revision's record: the exact bytes of the artifact, as one text. They are empty
/// once they were erased.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct StoredRevision {
    #[serde(skip)]
    pub key: HostText,
    #[serde(default, deserialize_with = "or_default")]
    pub artifact: Option<CleanText>,
    #[serde(default, deserialize_with = "or_default")]
    pub sha256: HostText,
    #[serde(default, deserialize_with = "or_default")]
    pub author: Option<HostText>,
    /// Absent from records of before it was written.
    #[serde(default, deserialize_with = "or_default")]
    pub at: Option<Timestamp>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub erased: Option<bool>,
}

needs_no_redaction!(StoredRevision {
    key,
    artifact,
    sha256,
    author,
    at,
    erased,
});

impl StoredRecord for StoredRevision {
    const KIND: RecordKind = RecordKind::ProposalRevision;

    fn key(&self) -> String {
        self.key.as_str().to_owned()
    }

    fn complete(&mut self, record: &Record) {
        self.key = HostText::new(&record.key);
    }
}

/// The body of a gate's record, with its id.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredGate {
    #[serde(skip)]
    pub id: HostText,
    pub proposal: HostText,
    pub revision: u64,
    pub sha256: HostText,
    pub state: GateState,
    pub quorum: u32,
    pub votes: Vec<StoredVote>,
    #[serde(default, deserialize_with = "or_default")]
    pub ended_by: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub reason: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub note: Option<CleanText>,
    pub opened_at: Timestamp,
    pub due: Timestamp,
}

/// One approval in the record of a gate.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredVote {
    pub principal: HostText,
    pub at: Timestamp,
}

impl NeedsNoRedaction for GateState {}
needs_no_redaction!(StoredVote { principal, at });
needs_no_redaction!(StoredGate {
    id,
    proposal,
    revision,
    sha256,
    state,
    quorum,
    votes,
    ended_by,
    reason,
    note,
    opened_at,
    due,
});

impl StoredRecord for StoredGate {
    const KIND: RecordKind = RecordKind::Gate;

    fn key(&self) -> String {
        self.id.as_str().to_owned()
    }

    /// An open gate is due at its deadline.
    fn ties(&self) -> RecordLinks {
        if sabotage!(
            "a-gate-stays-open-for-ever",
            self.state == GateState::Open,
            false
        ) {
            RecordLinks::due_at(self.due)
        } else {
            RecordLinks::default()
        }
    }

    fn complete(&mut self, record: &Record) {
        self.id = HostText::new(&record.key);
    }
}

/// What is stored in place of a gate that cannot be read: it never passes.
#[derive(Serialize, Deserialize)]
pub(crate) struct UnreadableGate {
    #[serde(skip)]
    pub id: HostText,
    pub state: GateState,
    pub reason: HostText,
}

needs_no_redaction!(UnreadableGate { id, state, reason });

impl StoredRecord for UnreadableGate {
    const KIND: RecordKind = RecordKind::Gate;

    fn key(&self) -> String {
        self.id.as_str().to_owned()
    }
}

/// The body of an installation's record. The artifact is empty once it was erased.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredInstallation {
    /// The kind and name: `<kind>/<name>`.
    #[serde(skip)]
    pub reference: HostText,
    #[serde(default, deserialize_with = "or_default")]
    pub artifact: Option<CleanText>,
    #[serde(default, deserialize_with = "or_default")]
    pub sha256: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub proposal_id: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub revision: Option<u64>,
    /// The kinds and names of the records that were written.
    #[serde(default, deserialize_with = "or_default")]
    pub items: Vec<(HostText, HostText)>,
    /// The principal that applied the proposal.
    #[serde(default, deserialize_with = "or_default")]
    pub by: Option<HostText>,
    #[serde(default, deserialize_with = "or_default")]
    pub at: Option<Timestamp>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub erased: Option<bool>,
}

needs_no_redaction!(StoredInstallation {
    reference,
    artifact,
    sha256,
    proposal_id,
    revision,
    items,
    by,
    at,
    erased,
});

impl StoredRecord for StoredInstallation {
    const KIND: RecordKind = RecordKind::InstalledArtifact;

    fn key(&self) -> String {
        self.reference.as_str().to_owned()
    }

    fn complete(&mut self, record: &Record) {
        self.reference = HostText::new(&record.key);
    }
}

/// The body of a tool trace's record, with its id.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredTrace {
    #[serde(skip)]
    pub id: String,
    pub agent_id: String,
    pub tools: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub task: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub run_id: Option<String>,
}

impl StoredRecord for StoredTrace {
    const KIND: RecordKind = RecordKind::ToolTrace;

    fn key(&self) -> String {
        self.id.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.id.clone_from(&record.key);
    }
}
