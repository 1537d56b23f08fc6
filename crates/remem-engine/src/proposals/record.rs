//! A proposal and its revisions as they are stored and read. Text of callers was redacted before it
//! comes here; the rest are the host's own ids, numbers and hashes, which are stored without
//! redaction.

use super::store::ProposalStore;
use super::stored::{StoredProposal, StoredRevision};
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::ProposalRef;
use remem_core::proposal::{Artifact, ProposalKind, ProposalState};
use remem_core::sabotage;
use remem_core::{CleanText, HostText, Record, RecordKind, StoredRecord, TenantId, Timestamp};
use remem_store::StoreError;
use serde_json::{Map, Value};

/// A proposal without its artifact.
#[derive(Clone, PartialEq, Eq)]
pub struct ProposalRecord {
    /// The id of the proposal.
    pub id: String,
    /// The kind of artifact that it would install.
    pub kind: ProposalKind,
    /// The state, from draft to applied, rejected or archived.
    pub state: ProposalState,
    /// A title of one line.
    pub title: Option<CleanText>,
    /// Why it should be installed.
    pub rationale: Option<CleanText>,
    /// The runs that it was made from.
    pub source_runs: Vec<String>,
    /// The synthesiser that made it, if the host did.
    pub synthesizer: Option<String>,
    /// The principal that submitted it; absent if the host made it.
    pub owner: Option<String>,
    /// The principal that wrote the newest revision.
    pub author: Option<String>,
    /// The proposal or installed artifact that it duplicates.
    pub duplicate_of: Option<String>,
    /// The installation, once the proposal is applied.
    pub activation: Option<ProposalActivation>,
    /// The number of its newest revision, from 1.
    pub revision: u64,
    /// The hash of that revision's artifact.
    pub sha256: String,
    /// The hash of the first revision's artifact: a rejected draft is recognised by it, however it
    /// was changed before.
    pub(super) origin: String,
    /// When the proposal was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    pub(super) version: u64,
}

/// How a proposal was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalActivation {
    /// The id of the gate that it passed.
    pub approval_id: Option<String>,
    /// The installed artifact: `<kind>/<name>`.
    pub installed_ref: String,
}

/// A proposal with the artifact of its newest revision, both redacted.
#[derive(Clone, Debug, PartialEq)]
pub struct ProposalView {
    /// The proposal without its artifact.
    pub proposal: ProposalRecord,
    /// The artifact; empty if it was erased.
    pub artifact: Map<String, Value>,
}

/// One revision of a proposal.
#[derive(Clone, PartialEq)]
pub struct RevisionView {
    /// The number of the revision, from 1.
    pub number: u64,
    /// The hash of the revision's artifact.
    pub sha256: String,
    /// The principal that wrote it.
    pub author: Option<String>,
    /// When it was written.
    pub at: Timestamp,
    /// The artifact; empty if it was erased.
    pub artifact: Map<String, Value>,
}

// Prints no text that a caller wrote.
impl std::fmt::Debug for ProposalRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proposal")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RevisionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Revision")
            .field("number", &self.number)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

/// The key of a revision's record.
pub(super) fn revision_key(proposal: &str, number: u64) -> String {
    format!("{proposal}/{number:06}")
}

/// A new revision as it is stored.
pub(super) fn revision_to_store(
    key: String,
    artifact: &Artifact,
    author: Option<&str>,
    now: Timestamp,
) -> StoredRevision {
    StoredRevision {
        key: HostText::new(key),
        artifact: Some(CleanText::of_artifact(artifact)),
        sha256: HostText::new(artifact.sha256()),
        author: author.map(HostText::new),
        at: Some(now),
        erased: None,
    }
}

impl ProposalRecord {
    /// Reads a proposal from its record; `None` if a field is missing.
    pub(super) fn from_record(record: &Record) -> Option<ProposalRecord> {
        let stored = StoredProposal::read(record)?;
        let text = |text: Option<HostText>| text.map(HostText::into_string);
        let approval_id = text(stored.approval_id);
        let activation = stored
            .installed_artifact_ref
            .map(|installed_ref| ProposalActivation {
                approval_id,
                installed_ref: installed_ref.into_string(),
            });
        let runs = stored.source_run_ids.into_iter();
        Some(ProposalRecord {
            id: stored.id.into_string(),
            kind: stored.kind,
            state: stored.state,
            title: stored.title,
            rationale: stored.rationale,
            source_runs: runs.map(HostText::into_string).collect(),
            synthesizer: text(stored.synthesizer_model),
            owner: text(stored.owner),
            author: text(stored.author),
            duplicate_of: text(stored.duplicate_of),
            activation,
            revision: stored.revision,
            sha256: stored.sha256.into_string(),
            origin: stored.origin.into_string(),
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            version: record.version,
        })
    }

    /// The proposal as it is stored.
    pub(super) fn to_stored(&self) -> StoredProposal {
        let text = |text: &Option<String>| text.as_deref().map(HostText::new);
        let activation = self.activation.as_ref();
        StoredProposal {
            id: HostText::new(&self.id),
            kind: self.kind,
            state: self.state,
            title: self.title.clone(),
            rationale: self.rationale.clone(),
            source_run_ids: self.source_runs.iter().map(HostText::new).collect(),
            synthesizer_model: text(&self.synthesizer),
            owner: text(&self.owner),
            author: text(&self.author),
            duplicate_of: text(&self.duplicate_of),
            approval_id: activation.and_then(|activated| text(&activated.approval_id)),
            installed_artifact_ref: activation
                .map(|activated| HostText::new(&activated.installed_ref)),
            revision: self.revision,
            sha256: HostText::new(&self.sha256),
            origin: HostText::new(&self.origin),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    /// The proposal as events refer to it.
    pub(super) fn to_ref(&self) -> ProposalRef {
        ProposalRef {
            proposal_id: self.id.clone(),
            kind: self.kind.as_str().to_owned(),
            revision: self.revision,
        }
    }

    /// Whether a principal has submitted or written the proposal, and so may not approve it.
    pub(super) fn is_submitted_or_written_by(&self, principal: &str) -> bool {
        [&self.owner, &self.author]
            .into_iter()
            .flatten()
            .any(|author| author == principal)
    }
}

/// Whether a text can be the id of a proposal.
pub(super) fn is_proposal_id(text: &str) -> bool {
    text.len() <= 128
        && text.starts_with("prop_")
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl ProposalStore {
    /// Reads a proposal by its id.
    pub(super) async fn proposal(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<ProposalRecord>, EngineError> {
        if !is_proposal_id(id) {
            return Ok(None);
        }
        let Some(record) = self.record(tenant, RecordKind::Proposal, id).await? else {
            return Ok(None);
        };
        Ok(Some(
            ProposalRecord::from_record(&record)
                .ok_or(StoreError::Damaged("a proposal cannot be read"))?,
        ))
    }

    /// The bytes of a proposal's newest revision as they were stored; `None` if they do not match
    /// their hash.
    pub(super) async fn artifact(
        &self,
        tenant: &TenantId,
        proposal: &ProposalRecord,
    ) -> Result<Option<Artifact>, EngineError> {
        let key = revision_key(
            &proposal.id,
            sabotage!("the-first-revision-is-applied", proposal.revision, 1),
        );
        let record = self
            .record(tenant, RecordKind::ProposalRevision, &key)
            .await?;
        Ok(record.and_then(|record| {
            let text = StoredRevision::read(&record)?.artifact?.into_string();
            sabotage!(
                "bytes-are-not-held-against-their-hash",
                Artifact::from_stored(text, &proposal.sha256),
                Artifact::new(&serde_json::from_str(&text).ok()?).ok()
            )
        }))
    }

    /// Reads every proposal of a tenant, oldest first.
    pub(super) async fn all_proposals(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<ProposalRecord>, EngineError> {
        const PAGE: u32 = 1_000;
        let mut all = Vec::new();
        let mut after = None::<String>;
        loop {
            let page = self
                .records(tenant, RecordKind::Proposal, "", after.as_deref(), PAGE)
                .await?;
            all.extend(page.iter().filter_map(ProposalRecord::from_record));
            match page.last().filter(|_| page.len() == PAGE as usize) {
                Some(last) => after = Some(last.key.clone()),
                None => return Ok(all),
            }
        }
    }
}

impl Engine {
    /// A proposal with its artifact, redacted by the rules of today: what it holds may have become
    /// a secret since it was written.
    pub(super) async fn proposal_view(
        &self,
        tenant: &TenantId,
        proposal: ProposalRecord,
    ) -> Result<ProposalView, EngineError> {
        let artifact = self
            .parts
            .proposal_store
            .artifact(tenant, &proposal)
            .await?
            .map(|artifact| artifact.to_map())
            .unwrap_or_default();
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let admission = rules.admission(&policy, self.now());
        let artifact = self.redact_body(tenant, &admission, artifact).await?;
        let artifact = artifact.map().clone();
        let clean = |text: Option<CleanText>| {
            text.map(|text| CleanText::from(admission.redact_text(&text)))
        };
        let proposal = ProposalRecord {
            title: clean(proposal.title.clone()),
            rationale: clean(proposal.rationale.clone()),
            ..proposal
        };
        Ok(ProposalView { proposal, artifact })
    }

    /// A revision with its artifact, redacted by the rules of today.
    pub(super) async fn revision_view(
        &self,
        tenant: &TenantId,
        number: u64,
        record: &Record,
    ) -> Result<RevisionView, EngineError> {
        let revision = StoredRevision::read(record).unwrap_or_default();
        let sha256 = revision.sha256.into_string();
        let text = revision.artifact.map(CleanText::into_string);
        let artifact = text.and_then(|text| Artifact::from_stored(text, &sha256));
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let artifact = artifact
            .map(|artifact| artifact.to_map())
            .unwrap_or_default();
        let admission = rules.admission(&policy, self.now());
        let artifact = self.redact_body(tenant, &admission, artifact).await?;
        let artifact = artifact.map().clone();
        Ok(RevisionView {
            number,
            sha256,
            author: revision.author.map(HostText::into_string),
            at: revision.at.unwrap_or(record.at),
            artifact,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::{RecordLinks, Redactor, ShapePolicy};

    #[test]
    fn proposal_record_round_trips() {
        let bare = ProposalRecord {
            id: "prop_1".to_owned(),
            kind: ProposalKind::Automation,
            state: ProposalState::Applied,
            title: None,
            rationale: None,
            source_runs: Vec::new(),
            synthesizer: None,
            owner: None,
            author: None,
            duplicate_of: None,
            activation: None,
            revision: 1,
            sha256: "a".repeat(64),
            origin: "b".repeat(64),
            created_at: Timestamp(1),
            updated_at: Timestamp(2),
            version: 3,
        };
        let activated = Some(ProposalActivation {
            approval_id: Some("g".to_owned()),
            installed_ref: "automation/a".to_owned(),
        });
        let text = |text: &str| Some(text.to_owned());
        let clean = |text: &str| Some(Redactor::empty().clean(text, ShapePolicy::Off).text.into());
        let full = ProposalRecord {
            title: clean("t"),
            rationale: clean("r"),
            source_runs: vec!["run_1".to_owned()],
            synthesizer: text("s"),
            owner: text("o"),
            author: text("a"),
            duplicate_of: text("prop_0"),
            activation: activated,
            ..bare.clone()
        };
        for proposal in [bare, full] {
            let body = proposal.to_stored().to_map();
            let kind = RecordKind::Proposal;
            let key = proposal.id.clone();
            let record = Record {
                kind,
                key,
                version: 3,
                at: Timestamp(0),
                body,
                links: RecordLinks::default(),
            };
            assert!(ProposalRecord::from_record(&record) == Some(proposal));
        }
    }

    #[test]
    fn proposal_ids_are_validated() {
        assert!(is_proposal_id("prop_019a") && is_proposal_id("prop_holder_000001"));
        assert!(
            !is_proposal_id("")
                && !is_proposal_id("019a")
                && !is_proposal_id("prop_/")
                && !is_proposal_id(&format!("prop_{}", "a".repeat(128)))
        );
    }
}
