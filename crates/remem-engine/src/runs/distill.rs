//! Distillation as a part of a run: reads what the run sees, within the budget of the run's
//! options. What came of it is recorded like a read, so that a replay does nothing and tells the
//! same.

use super::actions::needed_memory;
use super::live::{Halt, Live};
use crate::jobs::{Job, JobInfo, Trigger, WorkError};
use crate::passes::distill;
use remem_core::event::{Compacted, Distillation};
use remem_core::sabotage;
use remem_core::workflow::Node;
use remem_core::{EventBody, Rejection};
use serde_json::{Map, Value, json};

/// The budget of the run's options, as the protocol names it: `distillation.tokenBudget`, in one
/// key or two.
fn budget(configurable: &Map<String, Value>) -> Result<Option<u64>, Halt> {
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

pub(super) async fn run(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let budget = budget(&live.run.state.configurable)?;
    let asked = json!({"op": "distill", "memoryRef": memory_ref, "tokenBudget": budget});
    let answer = match sabotage!(
        "a-replay-distils",
        live.recall(&asked).await?,
        live.recall(&asked).await?.filter(|_| false)
    ) {
        Some(answer) => answer,
        None => distill_now(live, &memory_ref, budget).await?,
    };
    let answer = live.record(asked, answer).await?;
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
    // The name in full: whoever reads the event has to know whose memory it is.
    let full = live
        .scope(&memory_ref)
        .ok_or(Rejection::MalformedName { field: "memoryRef" })?
        .memory_ref;
    live.emit_fact(EventBody::Compacted(told(full.as_str(), &answer)))?;
    live.set(
        node.config
            .get("into")
            .and_then(Value::as_str)
            .unwrap_or("distillation"),
        answer,
    );
    Ok(())
}

fn told(memory_ref: &str, answer: &Value) -> Compacted {
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

/// Done once for the same sources and budget, however often a crash has it tried.
async fn distill_now(
    live: &Live<'_>,
    memory_ref: &str,
    budget: Option<u64>,
) -> Result<Value, Halt> {
    let scope = live
        .scope(memory_ref)
        .ok_or(Rejection::MalformedName { field: "memoryRef" })?;
    let now = live.now().await?;
    let options = budget
        .map(|budget| Map::from_iter([("tokenBudget".to_owned(), json!(budget))]))
        .unwrap_or_default();
    let info = JobInfo {
        options,
        ..JobInfo::new(
            "distill",
            Trigger::HostManaged,
            now,
            live.run.id.as_str().to_owned(),
        )
    };
    let job = Job::of_run(live.engine, scope, info, live.read_at(now));
    match distill::work(live.engine, &job).await {
        Ok(report) => Ok(Value::Object(report.detail)),
        Err(WorkError::Refused { code, details }) => Ok(json!({"error": code, "details": details})),
        Err(WorkError::Failed(error)) => Err(error.into()),
        Err(WorkError::Stopped(_)) => Err(Halt::Superseded),
    }
}
