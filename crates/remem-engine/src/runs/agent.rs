//! An agent's turn: running an installed agent is a run with one node. This host runs no model. A
//! turn binds what the manifest requests (prompt, tools, memory), stores the task, recalls what the
//! agent remembers, and emits events about it.

use super::execution::{Halt, RunExecution};
use super::reads::ListArgs;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::{
    AgentDecided, AgentReasoned, Decision, InvocationCompleted, InvocationStarted,
};
use remem_core::workflow::Node;
use remem_core::{Agent, AgentRef, Draft, EventBody, Rejection, TenantId, Workflow};
use serde_json::{Map, Value, json};

/// Id of the workflow of an agent's turn.
pub(crate) const AGENT_TURN_WORKFLOW: &str = "agent-turn";
/// Entries that a turn recalls, at most.
const RECALLED_MAX: u32 = 20;

/// The memory of an agent, if its manifest requests one.
fn agent_memory(agent: &Agent) -> Option<String> {
    let shape = agent.memory_shape()?;
    (shape.scratchpad || shape.conversation || shape.long_term)
        .then(|| format!("agents/{}", agent.id()))
}

impl Engine {
    /// Builds the workflow that runs an agent of the tenant or the host.
    pub(crate) async fn agent_turn_workflow(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Workflow, EngineError> {
        let agent = self
            .find_agent(tenant, id)
            .await?
            .ok_or(EngineError::NotFound("agent"))?;
        let agent_ref = AgentRef {
            agent_id: agent.id().to_owned(),
            name: Some(agent.persona().to_owned()),
            model_class: None, // a manifest's classes are other words
            memory_ref: agent_memory(&agent),
            version: None,
            channel: None,
            source_manifest_id: Some(agent.id().to_owned()),
        };
        let node = json!({"id": "turn", "typeId": "core.agent.turn", "agent": agent_ref, "config": {"source": "run-api"}});
        let document = Map::from_iter([
            ("id".to_owned(), json!(AGENT_TURN_WORKFLOW)),
            ("nodes".to_owned(), json!([node])),
        ]);
        Ok(Workflow::parse(document)?)
    }
}

/// Executes the node of an agent's turn.
pub(super) async fn run_agent_turn(
    execution: &mut RunExecution<'_>,
    node: &Node,
) -> Result<(), Halt> {
    let id = node
        .agent
        .as_ref()
        .map(|agent| agent.agent_id.clone())
        .ok_or(Rejection::Empty { field: "agent" })?;
    let offered: Vec<String> = texts(execution.run.state.inputs.get("availableTools"));
    let request = json!({"op": "agent", "agentId": id, "availableTools": offered});
    let bound = match execution.replayed_answer(&request).await? {
        Some(answer) => answer,
        None => bind_agent(execution, &id, &offered).await?,
    };
    let bound = execution.record_answer(request, bound).await?;
    let invocation_id = format!("{}:{}", execution.run.id, node.id);
    let memory_ref = bound["memoryRef"].as_str().map(str::to_owned);
    execution.emit_fact(EventBody::InvocationStarted(InvocationStarted {
        invocation_id: invocation_id.clone(),
        agent_id: id.clone(),
        source: node
            .config
            .get("source")
            .and_then(Value::as_str)
            .unwrap_or("workflow-node")
            .to_owned(),
        model_class: bound["modelClass"].as_str().map(str::to_owned),
        tool_surface_count: bound["tools"].as_array().map_or(0, Vec::len) as u64,
        memory_bound: memory_ref.is_some(),
    }))?;
    let recalled = match &memory_ref {
        Some(memory_ref) => recall_and_store_task(execution, memory_ref).await?,
        None => Vec::new(),
    };
    let decision = Decision {
        kind: "recall".to_owned(),
        recalled: recalled.len() as u64,
    };
    let reasoned = AgentReasoned {
        agent_id: id.clone(),
        reasoning: String::new(),
        verbosity: "off".to_owned(),
    };
    execution.emit_fact(EventBody::AgentReasoned(reasoned))?;
    execution.emit_fact(EventBody::AgentDecided(AgentDecided {
        agent_id: id.clone(),
        decision,
    }))?;
    let outcome = "completed".to_owned();
    execution.emit_fact(EventBody::InvocationCompleted(InvocationCompleted {
        invocation_id,
        agent_id: id,
        outcome,
    }))?;
    execution.set("recalled", recalled);
    execution.set("tools", bound["tools"].clone());
    Ok(())
}

/// The tools, memory and model class that the manifest requests, as far as they are allowed and
/// available.
async fn bind_agent(
    execution: &RunExecution<'_>,
    id: &str,
    offered: &[String],
) -> Result<Value, Halt> {
    let missing = || {
        Halt::fault(
            "agent_unknown",
            "the agent that a node names is not installed",
        )
    };
    let agent = execution
        .engine
        .find_agent(&execution.tenant, id)
        .await?
        .ok_or_else(missing)?;
    if execution
        .engine
        .system_prompt(&execution.tenant, &agent)
        .await?
        .is_none()
    {
        return Err(Halt::fault(
            "prompt_unavailable",
            "the file with the agent's prompt is not there",
        ));
    }
    let allowed: Vec<&String> = offered
        .iter()
        .filter(|tool| agent.tools().any(|allowed| allowed == tool.as_str()))
        .collect();
    Ok(
        json!({"tools": allowed, "memoryRef": agent_memory(&agent), "modelClass": agent.model_class()}),
    )
}

/// Recalls what the agent remembers, and stores the task for the next turn.
async fn recall_and_store_task(
    execution: &mut RunExecution<'_>,
    memory_ref: &str,
) -> Result<Vec<Value>, Halt> {
    let recalled = execution
        .list(
            memory_ref,
            &ListArgs {
                limit: Some(RECALLED_MAX),
                ..ListArgs::default()
            },
        )
        .await?;
    let task =
        execution.run.state.inputs.get("task").filter(|task| {
            !matches!(task, Value::Object(map) if map.is_empty()) && !task.is_null()
        });
    if let Some(task) = task {
        let content = task
            .as_str()
            .map_or_else(|| task.to_string(), str::to_owned);
        let draft = Draft {
            content,
            tags: vec!["source:agent".to_owned()],
            ..Draft::default()
        };
        let now = execution.now().await?;
        execution.write(memory_ref, draft, now).await?;
    }
    Ok(recalled)
}

/// The texts in a JSON array.
fn texts(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |list| {
            list.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        })
}
