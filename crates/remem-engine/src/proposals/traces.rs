//! Tool traces: which tools an agent called in a row. The host does not call tools itself, but its
//! callers may report them. Traces are kept for some weeks and are only read by `synthesise`.

use super::stored::StoredTrace;
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::proposal::ToolTrace;
use remem_core::{
    Batch, Fence, Permission, Precondition, Record, RecordKind, Rejection, RunId, StoredRecord,
    TenantId, Timestamp,
};

/// A tool trace that a caller reports.
#[derive(Clone, Default)]
pub struct NewTrace {
    /// The id of the agent.
    pub agent_id: String,
    /// The tools in the order in which they were called.
    pub tools: Vec<String>,
    /// The task that the agent was given.
    pub task: Option<String>,
    /// The id of the run, if there was one.
    pub run: Option<String>,
}

// Prints no text that a caller wrote.
impl std::fmt::Debug for NewTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewTrace")
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}

/// Characters of a tool's or agent's name, at most.
const NAME_CHARS_MAX: usize = 256;
/// Traces that one activation deletes, at most.
const DELETE_MAX: u32 = 500;
/// Traces read with one query.
const PAGE_SIZE: u32 = 1_000;

impl Engine {
    /// Stores a tool trace and returns its id.
    pub async fn record_trace(
        &self,
        caller: &Caller,
        new: NewTrace,
    ) -> Result<String, EngineError> {
        caller.require(Permission::RunsCreate)?;
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let is_valid_name = |text: &String| {
            (1..=NAME_CHARS_MAX).contains(&text.chars().count())
                && !text.chars().any(char::is_control)
        };
        if !is_valid_name(&new.agent_id) {
            return Err(Rejection::MalformedName { field: "agentId" }.into());
        }
        if new.tools.is_empty() {
            return Err(Rejection::Empty { field: "tools" }.into());
        }
        let limit = policy.trace_tools_max as u64;
        let actual = new.tools.len() as u64;
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "tools",
                unit: "items",
                limit,
                actual,
            }
            .into());
        }
        if !new.tools.iter().all(is_valid_name) {
            return Err(Rejection::Invalid {
                field: "tools",
                rule: "must each have 1 to 256 characters on one line",
            }
            .into());
        }
        let limit = policy.proposal_text_chars_max as u64;
        let actual = new.task.as_ref().map_or(0, |task| task.chars().count()) as u64;
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "task",
                unit: "characters",
                limit,
                actual,
            }
            .into());
        }
        if new
            .run
            .as_deref()
            .is_some_and(|run| RunId::parse(run).is_none())
        {
            return Err(Rejection::MalformedName { field: "runId" }.into());
        }
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let trace = StoredTrace {
            id: format!("trace_{}", self.parts.ids.unique_name()),
            agent_id: new.agent_id,
            tools: new.tools,
            task: new.task,
            run_id: new.run,
        };
        let admission = rules.admission(&policy, now);
        let body = self.redact_body(tenant, &admission, trace.to_map()).await?;
        let id = trace.id;
        let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
        self.parts
            .store
            .commit(batch.set_record(
                RecordKind::ToolTrace,
                id.clone(),
                Precondition::Absent,
                body,
            ))
            .await?;
        self.pass_log
            .mark_pending(crate::passes::propose::NAME, tenant);
        Ok(id)
    }

    /// Reads the stored traces, oldest first.
    pub(super) async fn tool_traces(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<ToolTrace>, EngineError> {
        let mut all = Vec::new();
        let mut after = None::<String>;
        // Read up to twice the allowed number, which covers those that were added since old ones
        // were last deleted.
        for _ in 0..2 * self.parts.policy.traces_max.div_ceil(PAGE_SIZE as usize) {
            let page = self
                .parts
                .store
                .records(
                    tenant,
                    RecordKind::ToolTrace,
                    "",
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            all.extend(page.iter().filter_map(trace_from_record));
            match page.last().filter(|_| page.len() == PAGE_SIZE as usize) {
                Some(last) => after = Some(last.key.clone()),
                None => break,
            }
        }
        Ok(all)
    }

    /// Deletes traces that are too old or beyond the allowed number; returns how many.
    pub(super) async fn delete_old_traces(
        &self,
        tenant: &TenantId,
        now: Timestamp,
        fence: Option<Fence>,
    ) -> Result<u64, EngineError> {
        let store = &self.parts.store;
        let policy = &self.parts.policy;
        let oldest = now.plus_ms(-policy.trace_retention_ms);
        let limit = u32::try_from(policy.traces_max)
            .unwrap_or(u32::MAX)
            .saturating_add(DELETE_MAX);
        let records = store
            .records(tenant, RecordKind::ToolTrace, "", None, limit)
            .await?;
        let excess = records.len().saturating_sub(policy.traces_max);
        let deleted = records
            .into_iter()
            .enumerate()
            .filter(|(n, record)| *n < excess || record.at < oldest)
            .map(|(_, record)| record.key);
        let deleted: Vec<String> = deleted.take(DELETE_MAX as usize).collect();
        let count = deleted.len() as u64;
        if count > 0 {
            let batch = Batch::new(tenant.clone(), now).fenced(fence);
            store
                .commit(deleted.into_iter().fold(batch, |batch, key| {
                    batch.delete_record(RecordKind::ToolTrace, key, Precondition::None)
                }))
                .await?;
        }
        Ok(count)
    }
}

/// Reads a trace from its record.
fn trace_from_record(record: &Record) -> Option<ToolTrace> {
    let stored = StoredTrace::read(record)?;
    Some(ToolTrace {
        id: stored.id,
        agent_id: stored.agent_id,
        run: stored.run_id,
        at: record.at,
        tools: stored.tools,
        task: stored.task,
    })
}
