//! Shapes of proposals: what is under review, who decides about it, what came of it. `Proposal` has
//! OpenWOP's closed shape; what this host tells beside it has shapes of its own.

use crate::time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A proposal with the artifact of its newest revision.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proposal {
    /// Its name.
    pub id: String,
    /// agent-pack, workflow-chain-pack, prompt-template or automation.
    pub kind: String,
    /// draft, revised, applied, rejected or archived.
    pub state: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// What it would install; has no effect until it is applied.
    #[schema(value_type = Object)]
    pub artifact: Map<String, Value>,
    /// Where it comes from.
    pub provenance: Provenance,
    /// The installed artifact or proposal that it repeats.
    #[serde(default)]
    pub duplicate_of: Option<String>,
    /// Whose it is.
    pub owner: Owner,
    /// What came of it, once it is applied.
    #[serde(default)]
    pub activation: Option<Activation>,
    /// When it was made.
    pub created_at: Instant,
    /// When it was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Instant>,
}

/// Where a proposal comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Provenance {
    /// The runs that it was made from.
    pub source_run_ids: Vec<String>,
    /// What made it, if the host did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesizer_model: Option<String>,
}

/// Whose a proposal is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// The tenant.
    pub tenant: String,
    /// The key that submitted it; absent if the host made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// What came of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Activation {
    /// The gate that it passed, if there was one.
    #[serde(default)]
    pub approval_id: Option<String>,
    /// What was installed: kind and name.
    pub installed_artifact_ref: String,
}

/// A page of proposals, oldest first.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalList {
    /// The proposals.
    pub proposals: Vec<Proposal>,
    /// Where to go on; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Which proposals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProposalsQuery {
    /// Only those in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Only those of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The `nextCursor` of an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at the most; 0 means as many as the host gives at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A caller's own draft.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalSubmit {
    /// agent-pack, workflow-chain-pack, prompt-template or automation.
    pub kind: String,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// What it would install; held against the rules of its kind when it is applied.
    #[schema(value_type = Object)]
    pub artifact: Map<String, Value>,
    /// The runs that it was made from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_run_ids: Vec<String>,
}

/// What is to be different; at least one of the first three.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalPatch {
    /// Another title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Another rationale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Another artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub artifact: Option<Map<String, Value>>,
    /// SHA-256 of the artifact that the caller has seen; another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// What a caller decides about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalDecision {
    /// SHA-256 of the artifact that the caller has seen; another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// Why a quorum is passed over.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProposalOverride {
    /// urgent, reviewer-unavailable, policy or other.
    pub reason: String,
    /// More about it; kept beside the decision, and in no event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// SHA-256 of the artifact that the caller has seen; another one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_digest: Option<String>,
}

/// A revision of a proposal.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalRevision {
    /// From 1.
    pub number: u64,
    /// SHA-256 of its artifact, written as canonical JSON.
    pub artifact_digest: String,
    /// The key that wrote it; absent if the host did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// When.
    pub created_at: Instant,
    /// Its artifact; empty if a secret came to light in it.
    #[schema(value_type = Object)]
    pub artifact: Map<String, Value>,
}

/// The revisions of a proposal, oldest first.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProposalRevisions {
    /// The revisions.
    pub revisions: Vec<ProposalRevision>,
}

/// Who has decided what about a revision.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposalGate {
    /// Its name.
    pub id: String,
    /// The proposal.
    pub proposal_id: String,
    /// The revision …
    pub revision: u64,
    /// … and SHA-256 of its artifact.
    pub artifact_digest: String,
    /// open, passed, overridden, rejected or void.
    pub state: String,
    /// Approvals that it needs.
    pub required: u32,
    /// Those that it has.
    pub approvals: Vec<Approval>,
    /// Who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// A word for why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was written about an override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was opened.
    pub opened_at: Instant,
    /// When it is rejected if nobody decides.
    pub due_at: Instant,
}

/// An approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Approval {
    /// Whose.
    pub principal: String,
    /// When.
    pub at: Instant,
}

/// What was installed from a proposal.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledArtifact {
    /// Kind and name.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The exact bytes, as text; empty or redacted if a secret came to light in them.
    pub artifact: String,
    /// SHA-256 of the bytes.
    pub artifact_digest: String,
    /// The proposal …
    pub proposal_id: String,
    /// … and its revision.
    pub revision: u64,
    /// When.
    pub installed_at: Instant,
}

/// What was installed from proposals, by kind and name.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InstalledArtifacts {
    /// The artifacts.
    pub installed: Vec<InstalledArtifact>,
}

/// The tools that an agent called one after the other.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceCreate {
    /// The agent.
    pub agent_id: String,
    /// In the order they were called.
    pub tools: Vec<String>,
    /// What the agent was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The run, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

/// A trace that is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TraceCreated {
    /// Its name.
    pub id: String,
}
