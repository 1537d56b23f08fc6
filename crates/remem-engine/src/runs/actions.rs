//! The memory actions of a `core.identity` node, by its setting `memoryAction`.

use super::execution::{Halt, RunExecution};
use super::reads::ListArgs;
use super::{distill, probes};
use crate::caller::resolve_memory_ref;
use remem_core::workflow::Node;
use remem_core::{Draft, PrincipalId};
use serde_json::Value;

/// The memory that a node works with: the one it names, or its agent's.
pub(super) fn node_memory(node: &Node) -> Option<&str> {
    let configured = node.config.get("memoryRef").and_then(Value::as_str);
    configured.or_else(|| {
        node.agent
            .as_ref()
            .and_then(|agent| agent.memory_ref.as_deref())
    })
}

/// Whether a node names a memory that belongs to this user alone.
pub(super) fn names_private_memory(user: &PrincipalId, node: &Node) -> bool {
    let of_agent = node
        .agent
        .as_ref()
        .and_then(|agent| agent.memory_ref.as_deref());
    let configured = ["memoryRef", "probeMemoryRef"]
        .into_iter()
        .filter_map(|name| node.config.get(name)?.as_str());
    configured
        .chain(of_agent)
        .filter_map(|name| resolve_memory_ref(user, name))
        .any(|memory_ref| memory_ref.owner().is_some())
}

/// The memory that a node works with; fails if it names none.
pub(super) fn require_memory(node: &Node) -> Result<String, Halt> {
    node_memory(node).map(str::to_owned).ok_or_else(|| {
        invalid_node("a memory node must have a memoryRef, of its own or of its agent")
    })
}

/// The fault of a node with invalid settings.
fn invalid_node(message: &str) -> Halt {
    Halt::fault("validation_error", message)
}

/// Executes a `core.identity` node.
pub(super) async fn run_identity_node(
    execution: &mut RunExecution<'_>,
    node: &Node,
) -> Result<(), Halt> {
    match node
        .config
        .get("memoryAction")
        .map(|action| action.as_str().unwrap_or_default())
    {
        None => set_value(execution, node),
        Some("write") => write(execution, node).await,
        Some("read") => read(execution, node).await,
        Some("get") => get(execution, node).await,
        Some("delete") => delete(execution, node).await,
        Some("read-file") => read_file(execution, node).await,
        Some("distill") => distill::run_distill_node(execution, node).await,
        Some("consolidate" | "compact") => Err(Halt::fault(
            "pass_inside_run",
            "a run cannot change the memory that it reads a snapshot of: start the pass outside of the run",
        )),
        Some(other) if execution.engine.parts.test_endpoints => {
            probes::run_probe(execution, node, other).await
        }
        Some(_) => Err(Halt::fault(
            "capability_not_provided",
            "this host does not provide the memoryAction of the node",
        )),
    }
}

/// The variable that an answer is stored in.
fn output_variable<'a>(node: &'a Node, default: &'a str) -> &'a str {
    node.config
        .get("into")
        .and_then(Value::as_str)
        .unwrap_or(default)
}

/// A text argument of a node: from its settings, or if `<name>From` is set, from an input or a
/// variable.
fn text_argument(execution: &RunExecution<'_>, node: &Node, name: &str) -> Result<String, Halt> {
    if let Some(text) = node.config.get(name).and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    let from = node
        .config
        .get(&format!("{name}From"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let argument = match from.split_once('.') {
        Some(("inputs", name)) => execution.run.state.inputs.get(name),
        Some(("variables", name)) => execution.run.state.variables.get(name),
        _ => None,
    };
    argument
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| invalid_node("a memory node lacks a text that its action needs"))
}

/// Copies the node's setting `value` into a variable.
fn set_value(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    if let Some(value) = node.config.get("value").cloned() {
        execution.set(output_variable(node, "value"), value);
    }
    Ok(())
}

/// Writes an entry and stores its id in a variable.
async fn write(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let now = execution.now().await?;
    let tags = node.config.get("tags").and_then(Value::as_array);
    let tags = tags.map_or_else(Vec::new, |tags| {
        tags.iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    });
    let expires_at = node
        .config
        .get("ttlMs")
        .and_then(Value::as_i64)
        .map(|ms| now.plus_ms(ms));
    let draft = Draft {
        content: text_argument(execution, node, "content")?,
        tags,
        expires_at,
        ..Draft::default()
    };
    let id = execution.write(&memory_ref, draft, now).await?;
    execution.set(output_variable(node, "memoryId"), id.as_str());
    Ok(())
}

/// The parameters of a list, from the node's settings.
pub(super) fn list_args(node: &Node) -> ListArgs {
    ListArgs {
        limit: node
            .config
            .get("limit")
            .and_then(Value::as_u64)
            .and_then(|limit| u32::try_from(limit).ok()),
        tag: node
            .config
            .get("tag")
            .and_then(Value::as_str)
            .map(str::to_owned),
        token_budget: node.config.get("tokenBudget").and_then(Value::as_u64),
    }
}

/// Lists entries into a variable.
async fn read(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let entries = execution
        .list(&require_memory(node)?, &list_args(node))
        .await?;
    execution.set(output_variable(node, "memory"), entries);
    Ok(())
}

/// Reads one entry into a variable.
async fn get(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let entry = execution
        .get(
            &require_memory(node)?,
            &text_argument(execution, node, "id")?,
        )
        .await?;
    execution.set(output_variable(node, "memory"), entry);
    Ok(())
}

/// Deletes an entry, and stores in a variable whether it existed.
async fn delete(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let id = text_argument(execution, node, "id")?;
    // Whether the entry exists is a recorded read, so that a replay gives the same answer.
    let exists = !execution.get(&memory_ref, &id).await?.is_null();
    execution.delete(&memory_ref, &id);
    execution.set(output_variable(node, "deleted"), exists);
    Ok(())
}

/// Reads a workspace file into a variable.
async fn read_file(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let content = execution
        .file(&text_argument(execution, node, "path")?)
        .await?;
    execution.set(output_variable(node, "file"), content);
    Ok(())
}
