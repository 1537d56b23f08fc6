//! Distillation as a node of a run: reads at the run's snapshot, within the budget of the run's
//! options. The result is recorded like a read, so that a replay changes nothing and gives the same
//! answer.

use super::actions::require_memory;
use super::execution::{Halt, RunExecution};
use crate::jobs::{JobContext, JobInfo, Trigger, WorkError};
use crate::passes::distill;
use remem_core::event::{Compacted, Distillation};
use remem_core::sabotage;
use remem_core::workflow::Node;
use remem_core::{EventBody, Rejection};
use serde_json::{Map, Value, json};

/// The token budget in the run's options: `distillation.tokenBudget`, as one key or two nested
/// ones.
fn token_budget(configurable: &Map<String, Value>) -> Result<Option<u64>, Halt> {
    let nested = configurable
        .get("distillation")
        .and_then(|options| options.get("tokenBudget"));
    let Some(value) = nested.or_else(|| configurable.get("distillation.tokenBudget")) else {
        return Ok(None);
    };
    let number = value.as_u64().filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| {
        Halt::fault(
            "validation_error",
            "distillation.tokenBudget must be a positive integer",
        )
    })
}

/// Executes a node with the action `distill`.
pub(super) async fn run_distill_node(
    execution: &mut RunExecution<'_>,
    node: &Node,
) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let budget = token_budget(&execution.run.state.configurable)?;
    let request = json!({"op": "distill", "memoryRef": memory_ref, "tokenBudget": budget});
    let answer = match sabotage!(
        "a-replay-distils",
        execution.replayed_answer(&request).await?,
        execution.replayed_answer(&request).await?.filter(|_| false)
    ) {
        Some(answer) => answer,
        None => distill_now(execution, &memory_ref, budget).await?,
    };
    let answer = execution.record_answer(request, answer).await?;
    if let Some(code) = answer.get("error").and_then(Value::as_str) {
        let details = answer
            .get("details")
            .map(Value::to_string)
            .unwrap_or_default();
        return Err(Halt::fault(
            code,
            format!("the memory was not distilled: {details}"),
        ));
    }
    // The event names the memory in full, since its readers must know which user it belongs to.
    let full = execution
        .scope(&memory_ref)
        .ok_or(Rejection::MalformedName { field: "memoryRef" })?
        .memory_ref;
    execution.emit_fact(EventBody::Compacted(compacted_event(
        full.as_str(),
        &answer,
    )))?;
    execution.set(
        node.config
            .get("into")
            .and_then(Value::as_str)
            .unwrap_or("distillation"),
        answer,
    );
    Ok(())
}

/// The event of a distillation, from its recorded answer.
fn compacted_event(memory_ref: &str, answer: &Value) -> Compacted {
    let number = |name: &str| answer.get(name).and_then(Value::as_u64).unwrap_or(0);
    Compacted {
        memory_ref: memory_ref.to_owned(),
        output_id: answer
            .get("outputId")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        source_ids: None,
        source_count: number("sourceCount"),
        trigger: "host-managed".to_owned(),
        byte_size: number("byteSize"),
        distillation: Some(Distillation {
            token_budget: number("tokenBudget"),
            tokens_used: number("tokensUsed"),
            index_updated: answer
                .get("indexUpdated")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        }),
    }
}

/// Runs the distillation. For the same sources and budget it has an effect only once, however often
/// it is repeated after a crash.
async fn distill_now(
    execution: &RunExecution<'_>,
    memory_ref: &str,
    budget: Option<u64>,
) -> Result<Value, Halt> {
    let scope = execution
        .scope(memory_ref)
        .ok_or(Rejection::MalformedName { field: "memoryRef" })?;
    let now = execution.now().await?;
    let options = budget
        .map(|budget| Map::from_iter([("tokenBudget".to_owned(), json!(budget))]))
        .unwrap_or_default();
    let info = JobInfo {
        options,
        ..JobInfo::new(
            "distill",
            Trigger::HostManaged,
            now,
            execution.run.id.as_str().to_owned(),
        )
    };
    let job = JobContext::for_run(execution.engine, scope, info, execution.read_at(now));
    match distill::work(execution.engine, &job).await {
        Ok(report) => Ok(Value::Object(report.detail)),
        Err(WorkError::Refused { code, details }) => Ok(json!({"error": code, "details": details})),
        Err(WorkError::Failed(error)) => Err(error.into()),
        Err(WorkError::Stopped(_)) => Err(Halt::Superseded),
    }
}
