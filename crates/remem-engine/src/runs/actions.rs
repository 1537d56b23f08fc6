//! What a `core.identity` node does with memory, by its `memoryAction`.

use super::live::{Halt, Live};
use super::reads::ListArgs;
use super::{distill, probes};
use crate::caller::named;
use remem_core::workflow::Node;
use remem_core::{Draft, PrincipalId};
use serde_json::Value;

/// The memory that a node works with: the one it names, or its agent's.
pub(super) fn memory_of(node: &Node) -> Option<&str> {
    let named = node.config.get("memoryRef").and_then(Value::as_str);
    named.or_else(|| {
        node.agent
            .as_ref()
            .and_then(|agent| agent.memory_ref.as_deref())
    })
}

/// Whether a node names a memory that is this user's own.
pub(super) fn names_own(user: &PrincipalId, node: &Node) -> bool {
    let of_agent = node
        .agent
        .as_ref()
        .and_then(|agent| agent.memory_ref.as_deref());
    let named_here = ["memoryRef", "probeMemoryRef"]
        .into_iter()
        .filter_map(|name| node.config.get(name)?.as_str());
    named_here
        .chain(of_agent)
        .filter_map(|name| named(user, name))
        .any(|memory_ref| memory_ref.owner().is_some())
}

pub(super) fn needed_memory(node: &Node) -> Result<String, Halt> {
    memory_of(node)
        .map(str::to_owned)
        .ok_or_else(|| bad("a memory node must have a memoryRef, of its own or of its agent"))
}

fn bad(message: &str) -> Halt {
    Halt::fault("validation_error", message)
}

pub(super) async fn identity(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    match node
        .config
        .get("memoryAction")
        .map(|action| action.as_str().unwrap_or_default())
    {
        None => pass_on(live, node),
        Some("write") => write(live, node).await,
        Some("read") => read(live, node).await,
        Some("get") => get(live, node).await,
        Some("delete") => delete(live, node).await,
        Some("read-file") => read_file(live, node).await,
        Some("distill") => distill::run(live, node).await,
        Some("consolidate" | "compact") => Err(Halt::fault(
            "pass_inside_run",
            "a run cannot change the memory that it reads a snapshot of: start the pass outside of the run",
        )),
        Some(other) if live.engine.parts.seams => probes::run(live, node, other).await,
        Some(_) => Err(Halt::fault(
            "capability_not_provided",
            "this host does not provide the memoryAction of the node",
        )),
    }
}

/// The variable that an answer goes to.
fn into<'a>(node: &'a Node, default: &'a str) -> &'a str {
    node.config
        .get("into")
        .and_then(Value::as_str)
        .unwrap_or(default)
}

/// A text of the settings, or (`<name>From`) of an input or a variable.
fn text(live: &Live<'_>, node: &Node, name: &str) -> Result<String, Halt> {
    if let Some(text) = node.config.get(name).and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    let from = node
        .config
        .get(&format!("{name}From"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let found = match from.split_once('.') {
        Some(("inputs", name)) => live.run.state.inputs.get(name),
        Some(("variables", name)) => live.run.state.variables.get(name),
        _ => None,
    };
    found
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| bad("a memory node lacks a text that its action needs"))
}

fn pass_on(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    if let Some(value) = node.config.get("value").cloned() {
        live.set(into(node, "value"), value);
    }
    Ok(())
}

async fn write(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let now = live.now().await?;
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
        content: text(live, node, "content")?,
        tags,
        expires_at,
        ..Draft::default()
    };
    let id = live.write(&memory_ref, draft, now).await?;
    live.set(into(node, "memoryId"), id.as_str());
    Ok(())
}

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

async fn read(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let entries = live.list(&needed_memory(node)?, &list_args(node)).await?;
    live.set(into(node, "memory"), entries);
    Ok(())
}

async fn get(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let entry = live
        .get(&needed_memory(node)?, &text(live, node, "id")?)
        .await?;
    live.set(into(node, "memory"), entry);
    Ok(())
}

async fn delete(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let id = text(live, node, "id")?;
    // Whether there is something to delete is a read, so that a replay answers alike.
    let there = !live.get(&memory_ref, &id).await?.is_null();
    live.delete(&memory_ref, &id);
    live.set(into(node, "deleted"), there);
    Ok(())
}

async fn read_file(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let content = live.file(&text(live, node, "path")?).await?;
    live.set(into(node, "file"), content);
    Ok(())
}
