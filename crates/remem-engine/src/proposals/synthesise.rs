//! Drafts that the host makes by itself, of what runs and agents did. It puts them under review and
//! does nothing else; what was turned down once, whatever became of it since, is not proposed
//! again.

use super::manage::creating;
use super::record::Proposal;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::own_words;
use crate::passes::propose::NAME;
use crate::registry::{Mode, PassReport};
use crate::runs::TURN;
use remem_core::proposal::synthesis::{ENGINE, TRACES_MAX};
use remem_core::proposal::{RunTrace, Synthesised, Traces, check, synthesise};
use remem_core::sabotage;
use remem_core::{
    Batch, Fence, Precondition, Record, RecordKind, Rejection, RunState, RunStatus, TenantId,
    Timestamp,
};
use remem_store::StoreError;
use serde_json::{Map, Value, json};
use std::collections::{BTreeSet, VecDeque};

/// How long after one look at everything the next one is due.
const AGAIN_MS: i64 = 3_600_000;
/// Runs of one page, and pages of one activation.
const PAGE: u32 = 500;
const PAGES_MAX: u32 = 200;

/// What the pass has to remember.
#[derive(Clone, Debug, Default, PartialEq)]
struct Progress {
    /// When it last looked at everything.
    at: i64,
    /// The last run of which it knows how it ended.
    seen: Option<String>,
    /// The last trace that it has looked at.
    seen_trace: Option<String>,
    /// Runs up to here are too many to be looked at.
    from: Option<String>,
}

impl Progress {
    fn read(record: &Record) -> Progress {
        let text = |name: &str| {
            record
                .body
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let at = record
            .body
            .get("at")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        Progress {
            at,
            seen: text("seen"),
            seen_trace: text("seenTrace"),
            from: text("from"),
        }
    }

    fn body(&self) -> Value {
        json!({"at": self.at, "seen": self.seen, "seenTrace": self.seen_trace, "from": self.from})
    }
}

impl Engine {
    /// Whether there is something that was not looked at, and it is time.
    pub(crate) async fn has_traces(
        &self,
        tenant: &TenantId,
        now: Timestamp,
    ) -> Result<bool, EngineError> {
        let store = &self.parts.store;
        let known = store
            .record(tenant, RecordKind::Progress, NAME)
            .await?
            .as_ref()
            .map(Progress::read)
            .unwrap_or_default();
        let next = Timestamp(known.at.saturating_add(AGAIN_MS));
        if known.at > 0 && next > now {
            self.passes.due_at(NAME, tenant, Some(next));
            return Ok(false);
        }
        self.passes
            .due_at(NAME, tenant, Some(now.plus_ms(AGAIN_MS)));
        let newer = |kind, after: Option<String>| async move {
            store.records(tenant, kind, "", after.as_deref(), 1).await
        };
        if !newer(RecordKind::Run, known.seen).await?.is_empty()
            || !newer(RecordKind::ToolTrace, known.seen_trace)
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

    /// Drafts what was done again and again.
    pub(crate) async fn propose(
        &self,
        tenant: &TenantId,
        mode: Mode,
        fence: Option<Fence>,
    ) -> Result<PassReport, EngineError> {
        let now = self.now_for(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let known = self
            .parts
            .store
            .record(tenant, RecordKind::Progress, NAME)
            .await?;
        let mut progress = known.as_ref().map(Progress::read).unwrap_or_default();
        let (runs, mut report) = self.run_traces(tenant, &mut progress).await?;
        let tools = self.traces(tenant).await?;
        progress.seen_trace = tools
            .iter()
            .map(|trace| trace.id.clone())
            .max()
            .or(progress.seen_trace);
        report.examined += (runs.len() + tools.len()) as u64;
        let traces = Traces { runs, tools };
        let zone = self.parts.proposals.zone.clone();
        let rules = policy.clone();
        // Off the async threads: thousands of traces are compared with each other.
        let drafts = tokio::task::spawn_blocking(move || synthesise(&traces, &zone, &rules)).await;
        let drafts = drafts.map_err(|_| StoreError::Damaged("the traces could not be compared"))?;
        let mut known = self.known_hashes(tenant).await?;
        for draft in drafts {
            match self
                .draft(tenant, draft, &mut known, mode, fence.clone())
                .await
            {
                Ok(made) => report.changed += u64::from(made),
                // There is no room for more; what there is must be reviewed first.
                Err(EngineError::Rejected(Rejection::TooLarge {
                    field: "proposals", ..
                })) => break,
                Err(other) => return Err(other),
            }
        }
        if mode != Mode::DryRun {
            self.forget_traces(tenant, now, fence.clone()).await?;
            progress.at = now.0;
            let batch = Batch::new(tenant.clone(), now).fenced(fence);
            let batch = batch.set(
                RecordKind::Progress,
                NAME.to_owned(),
                Precondition::None,
                own_words(progress.body()),
            );
            self.parts.store.commit(batch).await?;
            self.passes
                .due_at(NAME, tenant, Some(now.plus_ms(AGAIN_MS)));
        }
        Ok(report)
    }

    /// The newest runs that ended well, oldest first.
    async fn run_traces(
        &self,
        tenant: &TenantId,
        progress: &mut Progress,
    ) -> Result<(Vec<RunTrace>, PassReport), EngineError> {
        let mut traces = VecDeque::new();
        let mut after = progress.from.clone();
        let mut all_ended = true;
        let mut more = false;
        for page_number in 1..=PAGES_MAX {
            let page = self
                .parts
                .store
                .records(tenant, RecordKind::Run, "", after.as_deref(), PAGE)
                .await?;
            let last = page
                .last()
                .filter(|_| page.len() == PAGE as usize)
                .map(|last| last.key.clone());
            for record in page {
                let key = record.key.clone();
                let Some(state) = RunState::from_map(record.body) else {
                    continue;
                };
                all_ended &= state.status.is_terminal();
                if all_ended {
                    progress.seen = Some(key.clone());
                }
                traces.extend(trace(key, state));
                if traces.len() > TRACES_MAX {
                    progress.from = traces.pop_front().map(|trace: RunTrace| trace.run);
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
        let proposals = self.parts.review.proposals(tenant).await?;
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
            .records(tenant, RecordKind::Installed, "", None, limit)
            .await?;
        known.extend(
            installed
                .iter()
                .filter_map(|record| record.body.get("sha256")?.as_str().map(str::to_owned)),
        );
        Ok(known)
    }

    /// Puts a draft under review, unless it is known; answers whether it did.
    async fn draft(
        &self,
        tenant: &TenantId,
        draft: Synthesised,
        known: &mut BTreeSet<String>,
        mode: Mode,
        fence: Option<Fence>,
    ) -> Result<bool, EngineError> {
        let rules = self.rules(tenant).await?;
        let policy = self.policy_for(tenant).await?;
        let now = self.now_for(tenant).await?;
        let Synthesised {
            kind,
            title,
            rationale,
            artifact,
            source_runs,
            ..
        } = draft;
        let admission = rules.admission(&policy, now);
        let words = (Some(title), Some(rationale));
        let written = match self.written(tenant, &admission, words, artifact).await {
            Ok(written) => written,
            Err(EngineError::Rejected(_)) => return Ok(false),
            Err(other) => return Err(other),
        };
        // What a secret was taken out of may be no artifact any more.
        if check(kind, &written.artifact.map(), &policy).is_err()
            || !known.insert(written.artifact.sha256().to_owned())
        {
            return Ok(false);
        }
        self.room_for_a_proposal(tenant).await?;
        if mode == Mode::DryRun {
            return Ok(true);
        }
        let proposal = self.new_proposal(tenant, kind, &written, now).await?;
        let proposal = Proposal {
            source_runs,
            synthesizer: Some(ENGINE.to_owned()),
            ..proposal
        };
        let batch = Batch::new(tenant.clone(), now).fenced(fence);
        self.parts
            .store
            .commit(creating(batch, &proposal, &written.artifact, now))
            .await?;
        Ok(true)
    }
}

/// What counts of a run: it ended well, nobody but its principal started it, it repeats no other
/// one, and everybody may know of it.
fn trace(run: String, state: RunState) -> Option<RunTrace> {
    let whole = sabotage!(
        "drafts-are-made-of-anybody-s-runs",
        state.status == RunStatus::Completed
            && state.parent.is_none()
            && state.source.is_none()
            && state.only_for.is_none(),
        state.status == RunStatus::Completed && state.parent.is_none() && state.source.is_none()
    );
    let completed_at = state.completed_at.filter(|_| whole)?;
    let agent_id = (state.workflow_id == TURN)
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
