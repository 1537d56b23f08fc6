//! The memory actions of conformance fixtures: each probe uses the same reads and writes as other
//! nodes, and stores what it saw in the run's variables.

use super::actions::{list_args, require_memory};
use super::execution::{Halt, RunExecution};
use super::reads::ListArgs;
use crate::tokens::O200k;
use remem_core::workflow::Node;
use remem_core::{Draft, EntryId};
use serde_json::{Value, json};

/// Executes the probe with this name.
pub(super) async fn run_probe(
    execution: &mut RunExecution<'_>,
    node: &Node,
    action: &str,
) -> Result<(), Halt> {
    match action {
        "write-then-read" => write_then_read(execution, node).await,
        "redaction-probe" => redaction(execution, node).await,
        "ttl-probe" => ttl(execution, node).await,
        "cross-tenant-probe" => cross_tenant(execution, node).await,
        "list-budgeted" => list_budgeted(execution, node).await,
        _ => Err(Halt::fault(
            "capability_not_provided",
            "this host does not provide the memoryAction of the node",
        )),
    }
}

/// The draft of an entry that a probe writes.
fn probe_draft(content: impl Into<String>) -> Draft {
    Draft {
        content: content.into(),
        tags: vec!["source:conformance".to_owned()],
        ..Draft::default()
    }
}

/// Writes an entry and reads it back.
async fn write_then_read(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let now = execution.now().await?;
    let draft = probe_draft(format!(
        "Written by run {} and read back.",
        execution.run.id
    ));
    let id = execution.write(&memory_ref, draft, now).await?;
    let entries = execution.list(&memory_ref, &ListArgs::default()).await?;
    let read = entries
        .into_iter()
        .find(|entry| entry["id"] == id.as_str())
        .unwrap_or_default();
    execution.set("memoryReadback", read);
    Ok(())
}

/// Writes a secret that the run resolved: what is read back contains its redaction marker.
async fn redaction(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let name = node
        .config
        .get("byokSecretId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let content = with_secret(execution, &name, "The service was called with ").await?;
    let now = execution.now().await?;
    let id = execution
        .write(&memory_ref, probe_draft(content.as_str()), now)
        .await?;
    let entry = execution.get(&memory_ref, id.as_str()).await?;
    execution.set("memoryReadback", entry);
    Ok(())
}

/// Writes an expired entry and one that has not expired.
async fn ttl(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let now = execution.now().await?;
    // Callers cannot write an expired entry; this one is written as of two seconds ago.
    let ended = Draft {
        expires_at: Some(now.plus_ms(-1_000)),
        ..probe_draft("This has ended.")
    };
    let expired = execution
        .write(&memory_ref, ended, now.plus_ms(-2_000))
        .await?;
    let lasting = Draft {
        expires_at: Some(now.plus_ms(3_600_000)),
        ..probe_draft("This lasts for an hour.")
    };
    let fresh = execution.write(&memory_ref, lasting, now).await?;
    let list = execution.list(&memory_ref, &ListArgs::default()).await?;
    execution.set("memoryList", list);
    execution.set("freshId", fresh.as_str());
    execution.set("expiredId", expired.as_str());
    Ok(())
}

/// Reads a memory whose name another tenant may use: the name refers to a memory of this tenant.
async fn cross_tenant(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let now = execution.now().await?;
    let foreign = node
        .config
        .get("probeMemoryRef")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let id = execution
        .write(&memory_ref, probe_draft("This is the owner's."), now)
        .await?;
    let own = execution.list(&memory_ref, &ListArgs::default()).await?;
    let probe = execution.list(&foreign, &ListArgs::default()).await?;
    execution.set("ownerEntryId", id.as_str());
    execution.set("ownerProbe", own);
    execution.set("crossTenantProbe", probe);
    Ok(())
}

/// Lists within a budget that some entries exceed together and one alone, with a secret among them.
async fn list_budgeted(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = require_memory(node)?;
    let now = execution.now().await?;
    let args = list_args(node);
    let budget = args.token_budget.unwrap_or(800);
    let by_meaning = execution
        .engine
        .capabilities()
        .provides("memory.search.semantic");
    let mut written = Vec::new();
    if by_meaning {
        for (text, _) in ANSWERS {
            written.push(execution.write(&memory_ref, probe_draft(text), now).await?);
        }
    }
    let size = |share: u64| "word ".repeat(usize::try_from(budget / share + 1).unwrap_or(1));
    for n in 0..6 {
        execution
            .write(&memory_ref, probe_draft(format!("{n} {}", size(4))), now)
            .await?;
    }
    let content = with_secret(execution, crate::CANARY_SECRET, "Kept short: ").await?;
    let secret = execution
        .write(&memory_ref, probe_draft(content.as_str()), now)
        .await?;
    let oversized = execution
        .write(&memory_ref, probe_draft(size(1).repeat(2)), now)
        .await?;
    let slice = execution
        .list(
            &memory_ref,
            &ListArgs {
                token_budget: Some(budget),
                ..args
            },
        )
        .await?;
    let sample = execution.get(&memory_ref, secret.as_str()).await?;
    let foreign = execution
        .list(
            "conformance/another-tenant/agent-memory",
            &ListArgs {
                token_budget: Some(budget),
                ..ListArgs::default()
            },
        )
        .await?;
    let total: usize = slice
        .iter()
        .filter_map(|entry| entry["content"].as_str())
        .map(O200k::count)
        .sum();
    let omitted = slice.iter().all(|entry| entry["id"] != oversized.as_str());
    execution.set("tokenBudget", budget);
    execution.set("budgetedTokenTotal", total);
    execution.set("budgetedEntries", slice);
    execution.set("overBudgetEntryId", oversized.as_str());
    execution.set("overBudgetEntryOmitted", omitted);
    execution.set("redactedContentSample", sample["content"].clone());
    execution.set("crossTenantBudgetedProbe", foreign);
    if by_meaning {
        orders(execution, &memory_ref, &written).await?;
    }
    Ok(())
}

/// Two entries of the run, each with a question that it answers best.
const ANSWERS: [(&str, &str); 2] = [
    (
        "The lighthouse keeper trims the lamp at dusk.",
        "Who trims the lamp of the lighthouse?",
    ),
    (
        "The ferry to the island leaves from the northern pier.",
        "From which pier does the ferry leave?",
    ),
];
/// Entries that are listed: twice what the run has written by now, since another run may write at
/// the same time.
const LISTED: u32 = 20;

/// Lists two entries of the run by time, and by how well they answer a question. It is the question
/// that the older one answers, so that the orders differ.
async fn orders(
    execution: &mut RunExecution<'_>,
    memory_ref: &str,
    written: &[EntryId],
) -> Result<(), Halt> {
    let newest = ListArgs {
        limit: Some(LISTED),
        ..ListArgs::default()
    };
    let mut entries = execution.list(memory_ref, &newest).await?;
    entries.retain(|entry| written.iter().any(|id| entry["id"] == id.as_str()));
    let recency: Vec<Value> = entries.iter().map(|entry| entry["id"].clone()).collect();
    let asked = entries.iter().rev().find_map(|entry| {
        let answered = ANSWERS.iter().find(|(text, _)| entry["content"] == *text);
        answered.map(|(_, question)| *question)
    });
    let question = asked.unwrap_or(ANSWERS[0].1);
    let mut relevance = execution.ranked(memory_ref, question).await?;
    relevance.retain(|id| recency.contains(id));
    let rest: Vec<Value> = recency
        .iter()
        .filter(|id| !relevance.contains(id))
        .cloned()
        .collect();
    relevance.extend(rest);
    execution.set("recencyOrder", recency);
    execution.set("relevanceOrder", relevance);
    Ok(())
}

/// A text that contains a secret in clear, for as long as it takes to write it. A replay does not
/// need the value.
async fn with_secret(
    execution: &mut RunExecution<'_>,
    name: &str,
    before: &str,
) -> Result<zeroize::Zeroizing<String>, Halt> {
    if execution.replay_facts.is_some() {
        return Ok(zeroize::Zeroizing::new(before.to_owned()));
    }
    let value = execution.secret(name).await?;
    Ok(zeroize::Zeroizing::new(
        value.expose(|text| format!("{before}{text}.")),
    ))
}

/// Proves that a secret was resolved, without showing it.
pub(super) async fn secret_echo(execution: &mut RunExecution<'_>, node: &Node) -> Result<(), Halt> {
    let name = node
        .config
        .get("secretId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let request = json!({"op": "secret", "secretId": name});
    let answer = match execution.replayed_answer(&request).await? {
        Some(answer) => answer,
        None => {
            let value = execution.secret(&name).await?;
            let (digest, bytes) = value.expose(|text| {
                (
                    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()),
                    text.len(),
                )
            });
            let hex: String = digest
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            json!({"sha256": hex, "byteLength": bytes})
        }
    };
    let answer = execution.record_answer(request, answer).await?;
    execution.set("secretSha256", answer["sha256"].clone());
    execution.set("secretByteLength", answer["byteLength"].clone());
    Ok(())
}
