//! Proposals that the host drafts by itself, from what runs and agents did. It stores them for
//! review and does nothing else; what was rejected once, in any form, is not proposed again.

use super::manage::add_proposal;
use super::record::ProposalRecord;
use super::stored::StoredInstallation;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::passes::propose::NAME;
use crate::registry::{PassMode, PassReport};
use crate::runs::AGENT_TURN_WORKFLOW;
use crate::stored::progress::SynthesisProgress;
use remem_core::proposal::synthesis::{ENGINE, TRACES_MAX};
use remem_core::proposal::{ProposalDraft, RunTrace, Traces, check, draft_proposals};
use remem_core::sabotage;
use remem_core::{
    Batch, Fence, HostText, Precondition, RecordKind, Rejection, RunState, RunStatus, StoredRecord,
    TenantId, Timestamp,
};
use remem_store::StoreError;
use serde_json::{Map, Value};
use std::collections::{BTreeSet, VecDeque};

/// How often all traces are compared.
const INTERVAL_MS: i64 = 3_600_000;
/// Runs read with one query.
const PAGE_SIZE: u32 = 500;
/// Pages of one activation, at most.
const PAGES_MAX: u32 = 200;

impl Engine {
    /// Whether there are runs or traces that were not compared, and the interval has passed.
    pub(crate) async fn has_new_traces(
        &self,
        tenant: &TenantId,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let store = &self.parts.store;
        let progress = store
            .record(tenant, RecordKind::Progress, NAME)
            .await?
            .as_ref()
            .and_then(SynthesisProgress::read)
            .unwrap_or_default();
        let next = Timestamp(progress.at.saturating_add(INTERVAL_MS));
        if progress.at > 0 && next > now {
            self.pass_log.set_due_at(NAME, tenant, Some(next));
            return Ok(false);
        }
        self.pass_log
            .set_due_at(NAME, tenant, Some(now.plus_ms(INTERVAL_MS)));
        let newer = |kind, after: Option<HostText>| async move {
            let after = after.as_ref().map(HostText::as_str);
            store.records(tenant, kind, "", after, 1).await
        };
        if !newer(RecordKind::Run, progress.last_run).await?.is_empty()
            || !newer(RecordKind::ToolTrace, progress.last_trace)
                .await?
                .is_empty()
        {
            return Ok(true);
        }
        let oldest = newer(RecordKind::ToolTrace, None).await?;
        Ok(oldest
            .iter()
            .any(|record| record.at < now.plus_ms(-self.parts.policy.trace_retention_ms)))
    }

    /// Drafts proposals from what was done repeatedly.
    pub(crate) async fn synthesise_proposals(
        &self,
        tenant: &TenantId,
        mode: PassMode,
        fence: Option<Fence>,
    ) -> Result<PassReport, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let known = self
            .parts
            .store
            .record(tenant, RecordKind::Progress, NAME)
            .await?;
        let mut progress = known
            .as_ref()
            .and_then(SynthesisProgress::read)
            .unwrap_or_default();
        let (runs, mut report) = self.run_traces(tenant, &mut progress).await?;
        let tools = self.tool_traces(tenant).await?;
        progress.last_trace = tools
            .iter()
            .map(|trace| HostText::new(&trace.id))
            .max()
            .or(progress.last_trace);
        report.examined += (runs.len() + tools.len()) as u64;
        let traces = Traces { runs, tools };
        let zone = self.parts.proposal_settings.zone.clone();
        let rules = policy.clone();
        // On a blocking thread: thousands of traces are compared with each other.
        let drafts =
            tokio::task::spawn_blocking(move || draft_proposals(&traces, &zone, &rules)).await;
        let drafts = drafts.map_err(|_| StoreError::Damaged("the traces could not be compared"))?;
        let mut known = self.known_hashes(tenant).await?;
        for draft in drafts {
            match self
                .store_draft(tenant, draft, &mut known, mode, fence.clone())
                .await
            {
                Ok(created) => report.changed += u64::from(created),
                // There is no room for more drafts: the existing ones must be reviewed first.
                Err(EngineError::Rejected(Rejection::TooLarge {
                    field: "proposals", ..
                })) => break,
                Err(other) => return Err(other),
            }
        }
        if mode != PassMode::DryRun {
            self.delete_old_traces(tenant, now, fence.clone()).await?;
            progress.at = now.0;
            let batch = Batch::new(tenant.clone(), now).fenced(fence);
            let batch = batch.set_stored(&progress, Precondition::None);
            self.parts.store.commit(batch).await?;
            self.pass_log
                .set_due_at(NAME, tenant, Some(now.plus_ms(INTERVAL_MS)));
        }
        Ok(report)
    }

    /// Reads the newest runs that completed, oldest first.
    async fn run_traces(
        &self,
        tenant: &TenantId,
        progress: &mut SynthesisProgress,
    ) -> Result<(Vec<RunTrace>, PassReport), EngineError> {
        let mut traces = VecDeque::new();
        let start_after = progress.start_after.clone();
        let mut after = start_after.map(HostText::into_string);
        let mut all_ended = true;
        let mut more = false;
        for page_number in 1..=PAGES_MAX {
            let page = self
                .parts
                .store
                .records(tenant, RecordKind::Run, "", after.as_deref(), PAGE_SIZE)
                .await?;
            let last = page
                .last()
                .filter(|_| page.len() == PAGE_SIZE as usize)
                .map(|last| last.key.clone());
            for record in page {
                let key = record.key.clone();
                let Some(state) = RunState::from_map(record.body) else {
                    continue;
                };
                all_ended &= state.status.is_terminal();
                if all_ended {
                    progress.last_run = Some(HostText::new(&key));
                }
                traces.extend(run_trace(key, state));
                if traces.len() > TRACES_MAX {
                    let left_out = traces.pop_front();
                    progress.start_after = left_out.map(|trace: RunTrace| HostText::new(trace.run));
                }
            }
            more = page_number == PAGES_MAX && last.is_some();
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        Ok((
            traces.into(),
            PassReport {
                more,
                ..PassReport::default()
            },
        ))
    }

    /// The hashes of everything that was ever proposed or is installed.
    async fn known_hashes(&self, tenant: &TenantId) -> Result<BTreeSet<String>, EngineError> {
        let proposals = self.parts.proposal_store.all_proposals(tenant).await?;
        let remembered = sabotage!(
            "what-was-turned-down-comes-back",
            proposals,
            proposals
                .into_iter()
                .filter(|proposal| proposal.state.is_open())
                .collect()
        );
        let mut known: BTreeSet<String> = remembered
            .into_iter()
            .flat_map(|proposal| [proposal.origin, proposal.sha256])
            .collect();
        let limit = u32::try_from(self.parts.policy.proposals_max).unwrap_or(u32::MAX);
        let installed = self
            .parts
            .store
            .records(tenant, RecordKind::InstalledArtifact, "", None, limit)
            .await?;
        let hashes = installed
            .iter()
            .filter_map(|record| StoredInstallation::read(record)?.sha256);
        known.extend(hashes.map(HostText::into_string));
        Ok(known)
    }

    /// Stores a draft for review, unless it is known; returns whether it did.
    async fn store_draft(
        &self,
        tenant: &TenantId,
        draft: ProposalDraft,
        known: &mut BTreeSet<String>,
        mode: PassMode,
        fence: Option<Fence>,
    ) -> Result<bool, EngineError> {
        let rules = self.redaction_rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let now = self.now_for(tenant).await?;
        let ProposalDraft {
            kind,
            title,
            rationale,
            artifact,
            source_runs,
            ..
        } = draft;
        let admission = rules.admission(&policy, now);
        let canonical =
            self.to_canonical(tenant, &admission, Some(title), Some(rationale), artifact);
        let canonical = match canonical.await {
            Ok(canonical) => canonical,
            Err(EngineError::Rejected(_)) => return Ok(false),
            Err(other) => return Err(other),
        };
        // An artifact that was redacted may no longer be valid.
        if check(kind, &canonical.artifact.to_map(), &policy).is_err()
            || !known.insert(canonical.artifact.sha256().to_owned())
        {
            return Ok(false);
        }
        self.check_proposal_room(tenant).await?;
        if mode == PassMode::DryRun {
            return Ok(true);
        }
        let proposal = self.build_proposal(tenant, kind, &canonical, now).await?;
        let proposal = ProposalRecord {
            source_runs,
            synthesizer: Some(ENGINE.to_owned()),
            ..proposal
        };
        let batch = Batch::new(tenant.clone(), now).fenced(fence);
        self.parts
            .store
            .commit(add_proposal(batch, &proposal, &canonical.artifact, now))
            .await?;
        Ok(true)
    }
}

/// The trace of a run, if it counts: it completed, is not a sub-run or a fork, and is visible to
/// everyone.
fn run_trace(run: String, state: RunState) -> Option<RunTrace> {
    let counts = sabotage!(
        "drafts-are-made-of-anybody-s-runs",
        state.status == RunStatus::Completed
            && state.parent.is_none()
            && state.source.is_none()
            && state.only_for.is_none(),
        state.status == RunStatus::Completed && state.parent.is_none() && state.source.is_none()
    );
    let completed_at = state.completed_at.filter(|_| counts)?;
    let agent_id = (state.workflow_id == AGENT_TURN_WORKFLOW)
        .then(|| state.agent.map(|agent| agent.agent_id))
        .flatten();
    let inputs: Map<String, Value> = state.inputs;
    Some(RunTrace {
        run,
        workflow_id: state.workflow_id,
        agent_id,
        principal: state.principal,
        started_at: Timestamp(state.started_at),
        completed_at: Timestamp(completed_at),
        inputs,
    })
}
