//! Wire types of proposals, their revisions and gates, and of installed artifacts. `Proposal` has
//! OpenWOP's closed shape; this host's additions have shapes of their own.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A proposal with the artifact of its newest revision.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proposal {
    /// Unique id of the proposal.
    pub id: String,
    /// Kind of the artifact: `agent-pack`, `workflow-chain-pack`, `prompt-template` or
    /// `automation`.
    pub kind: String,
    /// State of the proposal: `draft`, `revised`, `applied`, `rejected` or `archived`.
    pub state: String,
    /// Title for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Reason for the proposal, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Artifact that applying the proposal installs; without effect until then.
    #[schema(value_type = Object)]
    pub artifact: Map<String, Value>,
    /// Origin of the proposal.
    pub provenance: Provenance,
    /// Installed artifact or open proposal that this one duplicates; null if there is none.
    #[serde(default)]
    pub duplicate_of: Option<String>,
    /// Owner of the proposal.
    pub owner: Owner,
    /// Result of applying the proposal; null until it is applied.
    #[serde(default)]
    pub activation: Option<Activation>,
    /// Time the proposal was created (RFC 3339).
    pub created_at: Instant,
    /// Time of the latest change (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Instant>,
}

/// Origin of a proposal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// Ids of the runs that the proposal was made from.
    pub source_run_ids: Vec<String>,
    /// Name of the synthesizer, if the host made the proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesizer_model: Option<String>,
}

/// Owner of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// Name of the tenant.
    pub tenant: String,
    /// Principal that submitted the proposal; absent if the host made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// Result of applying a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Activation {
    /// Id of the gate that approved the proposal; null if none was needed.
    #[serde(default)]
    pub approval_id: Option<String>,
    /// Reference of the installed artifact: its kind and name.
    pub installed_artifact_ref: String,
}

/// A page of proposals, oldest first.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalList {
    /// Proposals on this page, oldest first.
    pub proposals: Vec<Proposal>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Query parameters of the list of proposals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProposalsQuery {
    /// Only proposals in this state: `draft`, `revised`, `applied`, `rejected` or `archived`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only proposals of this kind: `agent-pack`, `workflow-chain-pack`, `prompt-template` or
    /// `automation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Cursor of the page: the `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of proposals per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Request to submit a proposal.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalSubmit {
    /// Kind of the artifact: `agent-pack`, `workflow-chain-pack`, `prompt-template` or
    /// `automation`.
    pub kind: String,
    /// Title for people, at most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Reason for the proposal, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Artifact to install, at most 256 KiB as JSON; checked against the rules of its kind when the
    /// proposal is applied.
    #[schema(value_type = Object)]
    pub artifact: Map<String, Value>,
    /// Ids of the runs that the proposal was made from, at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_run_ids: Vec<String>,
}

/// Request to revise a proposal; at least one of `title`, `rationale` and `artifact` is set.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalPatch {
    /// New title, at most 200 characters; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// New reason for the proposal, at most 4,000 characters; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// New artifact, at most 256 KiB as JSON; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub artifact: Option<Map<String, Value>>,
    /// SHA-256 of the artifact that the caller has read; if the newest artifact has another digest,
    /// the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// Request to apply or approve a proposal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalDecision {
    /// SHA-256 of the artifact that the caller has read; if the newest artifact has another digest,
    /// the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// Request to override the quorum of a proposal.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalOverride {
    /// Reason for the override: `urgent`, `reviewer-unavailable`, `policy` or `other`.
    pub reason: String,
    /// Explanation of the override, at most 4,000 characters; stored with the decision and part of
    /// no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// SHA-256 of the artifact that the caller has read; if the newest artifact has another digest,
    /// the request is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// A revision of a proposal.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalRevision {
    /// Number of the revision, counted from 1.
    pub number: u64,
    /// SHA-256 of the artifact as canonical JSON, in hex.
    pub artifact_digest: String,
    /// Principal that wrote the revision; absent if the host did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Time the revision was written (RFC 3339).
    pub created_at: Instant,
    /// Artifact of the revision; empty if a secret was found in it later.
    #[schema(value_type = Object)]
    pub artifact: Map<String, Value>,
}

/// The revisions of a proposal, oldest first.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProposalRevisions {
    /// Revisions of the proposal, oldest first.
    pub revisions: Vec<ProposalRevision>,
}

/// An approval gate: the decisions about one revision of a proposal.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalGate {
    /// Unique id of the gate.
    pub id: String,
    /// Id of the proposal.
    pub proposal_id: String,
    /// Number of the revision that is decided about.
    pub revision: u64,
    /// SHA-256 of the artifact of that revision, in hex.
    pub artifact_digest: String,
    /// State of the gate: `open`, `passed`, `overridden`, `rejected` or `void`.
    pub state: String,
    /// Number of approvals that the gate needs.
    pub required: u32,
    /// Approvals that the gate has.
    pub approvals: Vec<Approval>,
    /// Principal that ended the gate; absent while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// Reason that the gate ended, such as `timeout` or the reason of an override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Note that explains an override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Time the gate was opened (RFC 3339).
    pub opened_at: Instant,
    /// Time at which an undecided proposal is rejected (RFC 3339).
    pub due_at: Instant,
}

/// An approval of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Approval {
    /// Principal that approved the revision.
    pub principal: String,
    /// Time of the approval (RFC 3339).
    pub at: Instant,
}

/// An artifact that was installed from a proposal.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledArtifact {
    /// Reference of the artifact: its kind and name.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Exact bytes of the artifact as text; empty or redacted if a secret was found in them later.
    pub artifact: String,
    /// SHA-256 of the installed bytes, in hex.
    pub artifact_digest: String,
    /// Id of the proposal that the artifact comes from.
    pub proposal_id: String,
    /// Number of the revision that the artifact comes from.
    pub revision: u64,
    /// Time the artifact was installed (RFC 3339).
    pub installed_at: Instant,
}

/// Artifacts that were installed from proposals.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InstalledArtifacts {
    /// Installed artifacts, ordered by kind and name.
    pub installed: Vec<InstalledArtifact>,
}

/// Request to record a trace: the tools that an agent called, in order.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceCreate {
    /// Id of the agent, 1 to 256 characters.
    pub agent_id: String,
    /// Names of the tools in the order of the calls: 1 to 64, of at most 256 characters each.
    pub tools: Vec<String>,
    /// Task that the agent was given, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Id of the run; absent if the calls were not part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// Answer to the recording of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TraceCreated {
    /// Unique id of the trace.
    pub id: String,
}
