//! `NODES`: the table of node types. The executor, the documentation and the tests read it.

use super::execution::{Halt, RunExecution};
use super::{PreparedRun, actions, agent, execute, probes};
use crate::error::EngineError;
use remem_core::workflow::Node;
use remem_core::{Permission, Rejection, RunId, RunState, RunStatus};
use remem_store::StoreError;
use serde_json::{Map, Value, json};
use std::pin::Pin;

/// The future of a node's execution.
pub(crate) type NodeFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Halt>> + Send + 'a>>;

/// A type of node that this host can execute.
pub struct NodeType {
    /// The name in workflow definitions.
    pub type_id: &'static str,
    /// A description of one line, shown to users.
    pub doc: &'static str,
    /// Whether it exists only together with the test endpoints for conformance checks.
    pub test_only: bool,
    /// A capability that it needs and this host does not provide.
    pub(crate) missing_capability: Option<&'static str>,
    /// Executes a node of this type.
    pub(crate) run: for<'a, 'e> fn(&'a mut RunExecution<'e>, &'a Node) -> NodeFuture<'a>,
}

/// The table of all node types.
pub const NODES: [NodeType; 6] = [
    NodeType {
        type_id: "core.noop",
        doc: "does nothing; with `summary: true` it leaves a note of the run in a memory",
        test_only: false,
        missing_capability: None,
        run: |live, node| Box::pin(run_noop_node(live, node)),
    },
    NodeType {
        type_id: "core.identity",
        doc: "does what its `memoryAction` says: write, read, get, delete, read-file, distill; without one it passes `value` on",
        test_only: false,
        missing_capability: None,
        run: |live, node| Box::pin(actions::run_identity_node(live, node)),
    },
    NodeType {
        type_id: "core.subWorkflow",
        doc: "runs another workflow as a part of this run, and sees what it wrote",
        test_only: false,
        missing_capability: None,
        run: |live, node| Box::pin(run_sub_workflow(live, node)),
    },
    NodeType {
        type_id: "core.agent.turn",
        doc: "calls upon the installed agent that it is pinned to: binds prompt, tools and memory, keeps the task, recalls",
        test_only: false,
        missing_capability: None,
        run: |live, node| Box::pin(agent::run_agent_turn(live, node)),
    },
    NodeType {
        type_id: "conformance.secret.echo",
        doc: "resolves a secret and leaves its SHA-256 and length, never the value",
        test_only: true,
        missing_capability: None,
        run: |live, node| Box::pin(probes::secret_echo(live, node)),
    },
    NodeType {
        type_id: "conformance.requiresMissing",
        doc: "asks for a capability that no host provides",
        test_only: true,
        missing_capability: Some("conformance.never-provided"),
        run: |_, _| Box::pin(async { Ok(()) }),
    },
];

/// Finds a node type by its name.
pub(crate) fn find_node_type(type_id: &str) -> Option<&'static NodeType> {
    NODES.iter().find(|kind| kind.type_id == type_id)
}

/// The permissions that the installer of a workflow needs for a node of it to be executed.
pub(super) fn required_permissions(node: &Node) -> &'static [Permission] {
    let action = node.config.get("memoryAction").and_then(Value::as_str);
    match (node.type_id.as_str(), action) {
        ("core.noop", _) if node.config.get("summary") == Some(&Value::Bool(true)) => {
            &[Permission::MemoryWrite]
        }
        ("core.identity", Some("read" | "get")) => &[Permission::MemoryRead],
        ("core.identity", Some("write" | "delete")) => &[Permission::MemoryWrite],
        ("core.identity", Some("read-file")) => &[Permission::WorkspaceRead],
        ("core.identity", Some("distill")) => &[Permission::MemoryAdmin],
        ("core.subWorkflow", _) => &[Permission::RunsCreate],
        ("core.identity", Some(_)) | ("core.agent.turn", _) => {
            &[Permission::MemoryRead, Permission::MemoryWrite]
        }
        _ => &[],
    }
}

/// The memory that runs write their notes to, if the node names none.
const RUNS_MEMORY: &str = "openwop/runs";

/// Executes a `core.noop` node: writes a note of the run, if `summary` is set.
async fn run_noop_node(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    if node.config.get("summary") != Some(&Value::Bool(true)) {
        return Ok(());
    }
    let memory_ref = actions::node_memory(node).unwrap_or(RUNS_MEMORY).to_owned();
    let content = format!(
        "Run {} of workflow {} passed node {}.",
        execution.run.id, execution.workflow.id, node.id
    );
    let now = execution.now().await?;
    let draft = remem_core::Draft {
        content,
        tags: vec!["source:run".to_owned()],
        // The note expires with the run's own record.
        expires_at: Some(now.plus_ms(execution.policy.run_retention_ms)),
        ..remem_core::Draft::default()
    };
    execution.write(&memory_ref, draft, now).await?;
    Ok(())
}

/// The workflow that a node runs as a part of its own.
pub(super) fn sub_workflow_id(node: &Node) -> Option<&str> {
    node.config
        .get("workflowId")
        .and_then(Value::as_str)
        .filter(|_| node.type_id == "core.subWorkflow")
}

/// Executes a `core.subWorkflow` node. The child's id is made from its parent's, so that a parent
/// which is resumed finds it.
async fn run_sub_workflow(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let depth = execution.run.id.as_str().matches('.').count();
    if depth >= execution.policy.run_depth_max {
        return Err(Halt::fault("depth_exceeded", "runs start runs too deeply"));
    }
    let child_id = format!("{}.{}", execution.run.id, execution.node_index);
    let child = RunId::parse(&child_id).ok_or(Rejection::MalformedName { field: "nodes" })?;
    let workflow_id = node
        .config
        .get("workflowId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let inputs = node
        .config
        .get("inputs")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let request = json!({"op": "run", "workflowId": workflow_id, "inputs": inputs});
    let child_state = match execution.replayed_answer(&request).await? {
        Some(answer) => answer,
        None => {
            start_child(execution, &child, &workflow_id, inputs).await?;
            match execute(execution.engine, &execution.tenant, &child, None).await {
                Err(Halt::Error(error)) => return Err(Halt::Error(error)),
                _ => execution.child_state(&child).await?,
            }
        }
    };
    let child_state = execution.record_answer(request, child_state).await?;
    if child_state["status"] != "completed" {
        return Err(Halt::fault(
            "child_failed",
            "a run that this run started did not complete",
        ));
    }
    if execution.replay_facts.is_none() {
        execution.run.state.children.push(child.as_str().to_owned());
    }
    let into = node
        .config
        .get("into")
        .and_then(Value::as_str)
        .unwrap_or("child")
        .to_owned();
    execution.set(&into, child_state);
    Ok(())
}

/// Stores the run of a sub-workflow, unless it was stored before a crash.
async fn start_child(
    execution: &RunExecution<'_>,
    child: &RunId,
    workflow_id: &str,
    inputs: Map<String, Value>,
) -> Result<(), Halt> {
    let engine = execution.engine;
    let tenant = &execution.tenant;
    let found = engine.find_workflow(tenant, workflow_id).await?;
    let workflow = found.ok_or_else(|| {
        Halt::fault(
            "workflow_unknown",
            "a node names a workflow that is not there",
        )
    })?;
    let state = RunState {
        workflow_id: workflow_id.to_owned(),
        definition: workflow
            .is_installed
            .then(|| workflow.definition.document.clone()),
        status: RunStatus::Running,
        principal: execution.run.state.principal.clone(),
        started_at: execution.now().await?.0,
        completed_at: None,
        variables: workflow.definition.initial_variables(&inputs)?,
        inputs,
        done: Vec::new(),
        error: None,
        failed_node: None,
        agent: engine.workflow_agent(&workflow.definition),
        tags: execution.run.state.tags.clone(),
        metadata: Map::new(),
        configurable: Map::new(),
        secrets: Vec::new(),
        resolved: Vec::new(),
        workspace: execution.run.state.workspace.clone(),
        children: Vec::new(),
        parent: Some(execution.run.id.as_str().to_owned()),
        source: None,
        // A sub-run is visible to every caller that can see the whole run.
        only_for: execution.run.state.only_for.clone(),
        scopes: workflow.scopes.clone().or_else(|| {
            let parent_scopes = execution.run.state.scopes.clone();
            parent_scopes.filter(|_| workflow.is_installed)
        }),
    };
    let start = PreparedRun {
        id: child.clone(),
        state,
        facts: Vec::new(),
        secrets: Vec::new(),
        idempotency: None,
    };
    match engine.store_run(&execution.policy, tenant, start).await {
        Ok(_) | Err(EngineError::Store(StoreError::Conflict)) => Ok(()), // stored before a crash
        Err(other) => Err(other.into()),
    }
}
