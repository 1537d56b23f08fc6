//! Operations of callers on proposals: list, get, and submit their own. Changing one is in
//! `change`, applying it in `apply`.

use super::ProposalError;
use super::draft;
use super::record::{
    ProposalRecord, ProposalView, RevisionView, is_proposal_id, revision_key, revision_to_store,
};
use crate::caller::Caller;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use remem_core::event::ProposalCreated;
use remem_core::proposal::{Artifact, ProposalKind, ProposalState};
use remem_core::{
    Batch, EventBody, Permission, Precondition, RecordKind, Rejection, RunId, TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, CommitResult, StoreError};
use serde_json::{Map, Value};

/// The filter of a list of proposals.
#[derive(Clone, Debug, Default)]
pub struct ProposalQuery {
    /// Only proposals in this state.
    pub state: Option<ProposalState>,
    /// Only proposals of this kind.
    pub kind: Option<ProposalKind>,
    /// Only proposals after the one with this id.
    pub after: Option<String>,
    /// Number of proposals wanted; see `Policy::list_limit`.
    pub limit: Option<u32>,
}

/// A draft that a caller submits.
#[derive(Clone)]
pub struct NewProposal {
    /// The kind of artifact to install.
    pub kind: ProposalKind,
    /// A title of one line.
    pub title: Option<String>,
    /// Why it should be installed.
    pub rationale: Option<String>,
    /// The artifact to install. It is checked against the rules of its kind when it is applied, not
    /// before.
    pub artifact: Map<String, Value>,
    /// The runs that the draft was made from.
    pub source_runs: Vec<String>,
}

// Prints no text that a caller wrote.
impl std::fmt::Debug for NewProposal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewProposal")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// Proposals read with one query.
const PAGE_SIZE: u32 = 200;
/// Source runs that a draft can name, at most.
pub const SOURCE_RUNS_MAX: usize = 50;

impl Engine {
    /// Lists proposals, those that have waited longest first, with the cursor of the next page if
    /// there may be one.
    pub async fn list_proposals(
        &self,
        caller: &Caller,
        query: &ProposalQuery,
    ) -> Result<(Vec<ProposalView>, Option<String>), EngineError> {
        caller.require(Permission::ProposalsRead)?;
        if query
            .after
            .as_deref()
            .is_some_and(|after| !is_proposal_id(after))
        {
            return Err(Rejection::Invalid {
                field: "cursor",
                rule: "is not one that this list gave out",
            }
            .into());
        }
        let tenant = caller.tenant();
        let limit = self.parts.policy.list_limit(query.limit) as usize;
        let wanted = |proposal: &ProposalRecord| {
            query.state.is_none_or(|state| proposal.state == state)
                && query.kind.is_none_or(|kind| proposal.kind == kind)
        };
        let mut found = Vec::new();
        let mut after = query.after.clone();
        loop {
            let page = self
                .parts
                .proposal_store
                .records(
                    tenant,
                    RecordKind::Proposal,
                    "",
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            for proposal in page
                .iter()
                .filter_map(ProposalRecord::from_record)
                .filter(wanted)
            {
                if found.len() == limit {
                    let next = found
                        .last()
                        .map(|shown: &ProposalView| shown.proposal.id.clone());
                    return Ok((found, next));
                }
                found.push(self.proposal_view(tenant, proposal).await?);
            }
            match page.last().filter(|_| page.len() == PAGE_SIZE as usize) {
                Some(last) => after = Some(last.key.clone()),
                None => return Ok((found, None)),
            }
        }
    }

    /// Returns one proposal with its artifact.
    pub async fn get_proposal(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ProposalView, EngineError> {
        caller.require(Permission::ProposalsRead)?;
        let proposal = self.find_proposal(caller.tenant(), id).await?;
        self.proposal_view(caller.tenant(), proposal).await
    }

    /// Lists the revisions of a proposal, oldest first.
    pub async fn list_proposal_revisions(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Vec<RevisionView>, EngineError> {
        caller.require(Permission::ProposalsRead)?;
        let tenant = caller.tenant();
        let proposal = self.find_proposal(tenant, id).await?;
        let limit = u32::try_from(self.parts.policy.proposal_revisions_max).unwrap_or(u32::MAX);
        let prefix = format!("{}/", proposal.id);
        let records = self
            .parts
            .proposal_store
            .records(tenant, RecordKind::ProposalRevision, &prefix, None, limit)
            .await?;
        let mut revisions = Vec::with_capacity(records.len());
        for record in &records {
            let number = record
                .key
                .rsplit('/')
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or(0);
            revisions.push(self.revision_view(tenant, number, record).await?);
        }
        Ok(revisions)
    }

    /// Stores a caller's draft for review; once, however often the request is repeated with the
    /// same key. Returns whether this is a repetition.
    pub async fn submit_proposal(
        &self,
        caller: &Caller,
        new: NewProposal,
        key: Option<&str>,
    ) -> Result<(ProposalView, bool), EngineError> {
        caller.require(Permission::ProposalsWrite)?;
        if new.source_runs.len() > SOURCE_RUNS_MAX
            || new
                .source_runs
                .iter()
                .any(|run| RunId::parse(run).is_none())
        {
            return Err(Rejection::Invalid {
                field: "sourceRunIds",
                rule: "must be at most 50 names of runs",
            }
            .into());
        }
        let idempotency = self.idempotency("submit-proposal", key, &proposal_digest(&new))?;
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let admission = rules.admission(&policy, now);
        let draft = self
            .to_canonical(tenant, &admission, new.title, new.rationale, new.artifact)
            .await?;
        for run in &new.source_runs {
            remem_core::admission::check_name(rules.redactor(), "sourceRunIds", run)?;
        }
        if let Err(full) = self.check_proposal_room(tenant).await {
            let earlier = self.replayed_commit(tenant, idempotency.as_ref()).await?;
            let stored = self
                .find_proposal(
                    tenant,
                    &earlier.as_ref().and_then(stored_proposal_id).ok_or(full)?,
                )
                .await?;
            return Ok((self.proposal_view(tenant, stored).await?, true));
        }
        let owner = Some(caller.principal().as_str().to_owned());
        let proposal = self.build_proposal(tenant, new.kind, &draft, now).await?;
        let proposal = ProposalRecord {
            source_runs: new.source_runs,
            author: owner.clone(),
            owner,
            ..proposal
        };
        let batch = Batch::new(tenant.clone(), now)
            .with_principal(caller.principal().clone())
            .idempotent(idempotency);
        let committed = self
            .parts
            .store
            .commit(add_proposal(batch, &proposal, &draft.artifact, now))
            .await?;
        let stored = self
            .find_proposal(
                tenant,
                &stored_proposal_id(&committed).unwrap_or(proposal.id),
            )
            .await?;
        Ok((
            self.proposal_view(tenant, stored).await?,
            committed.replayed,
        ))
    }

    /// Builds a proposal that is not stored yet.
    pub(super) async fn build_proposal(
        &self,
        tenant: &TenantId,
        kind: ProposalKind,
        draft: &draft::CanonicalDraft,
        now: Timestamp,
    ) -> Result<ProposalRecord, EngineError> {
        let sha256 = draft.artifact.sha256().to_owned();
        Ok(ProposalRecord {
            id: format!("prop_{}", self.parts.ids.unique_name()),
            kind,
            state: ProposalState::Draft,
            title: draft.title.clone(),
            rationale: draft.rationale.clone(),
            source_runs: Vec::new(),
            synthesizer: None,
            owner: None,
            author: None,
            duplicate_of: self
                .find_duplicate(tenant, kind, &draft.artifact, None)
                .await?,
            activation: None,
            revision: 1,
            origin: sha256.clone(),
            sha256,
            created_at: now,
            updated_at: now,
            version: 0,
        })
    }

    /// Fails if the host has no proposals, or the tenant has too many.
    pub(super) async fn check_proposal_room(&self, tenant: &TenantId) -> Result<(), EngineError> {
        if !self.parts.proposal_store.is_available() {
            return Err(ProposalError::Off.into());
        }
        let policy = &self.parts.policy;
        let known = self.parts.proposal_store.all_proposals(tenant).await?;
        let open = known
            .iter()
            .filter(|proposal| proposal.state.is_open())
            .count();
        for (limit, actual) in [
            (policy.proposals_open_max, open),
            (policy.proposals_max, known.len()),
        ] {
            if actual >= limit {
                let limit = limit as u64;
                let actual = actual as u64 + 1;
                return Err(Rejection::TooLarge {
                    field: "proposals",
                    unit: "items",
                    limit,
                    actual,
                }
                .into());
            }
        }
        Ok(())
    }

    /// Reads a proposal; fails if it does not exist.
    pub(super) async fn find_proposal(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<ProposalRecord, EngineError> {
        if !self.parts.proposal_store.is_available() {
            return Err(ProposalError::Off.into());
        }
        self.parts
            .proposal_store
            .proposal(tenant, id)
            .await?
            .ok_or(EngineError::NotFound("proposal"))
    }
}

/// The id under which a commit stored a proposal: on a replay, that of the first request.
fn stored_proposal_id(committed: &CommitResult) -> Option<String> {
    committed.outcomes.iter().find_map(|outcome| match outcome {
        ChangeOutcome::Recorded { key, .. } => Some(key.clone()),
        _ => None,
    })
}

/// Digest of a submitted draft, for its idempotency key.
fn proposal_digest(new: &NewProposal) -> RequestDigest {
    let mut digest = RequestDigest::default();
    digest.part(new.kind.as_str().as_bytes());
    for text in [&new.title, &new.rationale] {
        digest.part(&[u8::from(text.is_some())]);
        digest.part(text.as_deref().unwrap_or_default().as_bytes());
    }
    digest.part(Value::Object(new.artifact.clone()).to_string().as_bytes());
    digest.part(Value::from(new.source_runs.clone()).to_string().as_bytes());
    digest
}

/// Adds a new proposal, its first revision and its event to a batch.
pub(super) fn add_proposal(
    batch: Batch,
    proposal: &ProposalRecord,
    artifact: &Artifact,
    now: Timestamp,
) -> Batch {
    let key = revision_key(&proposal.id, 1);
    let revision = revision_to_store(key, artifact, proposal.author.as_deref(), now);
    batch
        .set_stored(&proposal.to_stored(), Precondition::Absent)
        .set_stored(&revision, Precondition::Absent)
        .emit(EventBody::ProposalCreated(ProposalCreated {
            proposal_id: proposal.id.clone(),
            kind: proposal.kind.as_str().to_owned(),
            source_run_ids: proposal.source_runs.clone(),
            duplicate_of: proposal.duplicate_of.clone(),
        }))
}

/// `None` for a conflict, so that the operation is tried again.
pub(super) fn unless_conflict<T>(result: Result<T, EngineError>) -> Option<Result<T, EngineError>> {
    if matches!(result, Err(EngineError::Store(StoreError::Conflict))) {
        None
    } else {
        Some(result)
    }
}

/// The error after too many conflicts.
pub(super) fn too_many_conflicts<T>() -> Result<T, EngineError> {
    Err(StoreError::Busy.into())
}
