//! What the conformance fixtures ask of a run: each probe uses the same reads and writes as any
//! other node, and leaves what it saw in the run's variables.

use super::actions::{list_args, needed_memory};
use super::live::{Halt, Live};
use super::reads::ListArgs;
use crate::tokens::O200k;
use remem_core::Draft;
use remem_core::workflow::Node;
use serde_json::{Value, json};

pub(super) async fn run(live: &mut Live<'_>, node: &Node, action: &str) -> Result<(), Halt> {
    match action {
        "write-then-read" => write_then_read(live, node).await,
        "redaction-probe" => redaction(live, node).await,
        "ttl-probe" => ttl(live, node).await,
        "cross-tenant-probe" => cross_tenant(live, node).await,
        "list-budgeted" => budgeted(live, node).await,
        _ => Err(Halt::fault(
            "capability_not_provided",
            "this host does not provide the memoryAction of the node",
        )),
    }
}

fn note(content: impl Into<String>) -> Draft {
    Draft {
        content: content.into(),
        tags: vec!["source:conformance".to_owned()],
        ..Draft::default()
    }
}

async fn write_then_read(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let now = live.now().await?;
    let told = note(format!("Written by run {} and read back.", live.run.id));
    let id = live.write(&memory_ref, told, now).await?;
    let entries = live.list(&memory_ref, &ListArgs::default()).await?;
    let read = entries
        .into_iter()
        .find(|entry| entry["id"] == id.as_str())
        .unwrap_or_default();
    live.set("memoryReadback", read);
    Ok(())
}

/// Writes a secret that the run resolved: what is read back holds its marker.
async fn redaction(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let name = node
        .config
        .get("byokSecretId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let content = with_secret(live, &name, "The service was called with ").await?;
    let now = live.now().await?;
    let id = live.write(&memory_ref, note(content.as_str()), now).await?;
    let entry = live.get(&memory_ref, id.as_str()).await?;
    live.set("memoryReadback", entry);
    Ok(())
}

/// One entry that has ended and one that has not.
async fn ttl(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let now = live.now().await?;
    // No caller can write an entry that has ended; this one is written as of two seconds ago.
    let ended = Draft {
        expires_at: Some(now.plus_ms(-1_000)),
        ..note("This has ended.")
    };
    let expired = live.write(&memory_ref, ended, now.plus_ms(-2_000)).await?;
    let lasting = Draft {
        expires_at: Some(now.plus_ms(3_600_000)),
        ..note("This lasts for an hour.")
    };
    let fresh = live.write(&memory_ref, lasting, now).await?;
    let list = live.list(&memory_ref, &ListArgs::default()).await?;
    live.set("memoryList", list);
    live.set("freshId", fresh.as_str());
    live.set("expiredId", expired.as_str());
    Ok(())
}

/// A name that another tenant may use is a name of this tenant here.
async fn cross_tenant(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let now = live.now().await?;
    let foreign = node
        .config
        .get("probeMemoryRef")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let id = live
        .write(&memory_ref, note("This is the owner's."), now)
        .await?;
    let own = live.list(&memory_ref, &ListArgs::default()).await?;
    let probe = live.list(&foreign, &ListArgs::default()).await?;
    live.set("ownerEntryId", id.as_str());
    live.set("ownerProbe", own);
    live.set("crossTenantProbe", probe);
    Ok(())
}

/// More than fits, one entry that would not fit alone, one with a secret.
async fn budgeted(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let memory_ref = needed_memory(node)?;
    let now = live.now().await?;
    let args = list_args(node);
    let budget = args.token_budget.unwrap_or(800);
    let by_meaning = live
        .engine
        .capabilities()
        .provides("memory.search.semantic");
    if by_meaning {
        let earlier = now.plus_ms(-1_000);
        live.write(&memory_ref, note(RELEVANT), earlier).await?;
    }
    let size = |share: u64| "word ".repeat(usize::try_from(budget / share + 1).unwrap_or(1));
    for n in 0..6 {
        live.write(&memory_ref, note(format!("{n} {}", size(4))), now)
            .await?;
    }
    let content = with_secret(live, crate::CANARY_SECRET, "Kept short: ").await?;
    let secret = live.write(&memory_ref, note(content.as_str()), now).await?;
    let over = live
        .write(&memory_ref, note(size(1).repeat(2)), now)
        .await?;
    let slice = live
        .list(
            &memory_ref,
            &ListArgs {
                token_budget: Some(budget),
                ..args
            },
        )
        .await?;
    let sample = live.get(&memory_ref, secret.as_str()).await?;
    let foreign = live
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
    let omitted = slice.iter().all(|entry| entry["id"] != over.as_str());
    live.set("tokenBudget", budget);
    live.set("budgetedTokenTotal", total);
    live.set("budgetedEntries", slice);
    live.set("overBudgetEntryId", over.as_str());
    live.set("overBudgetEntryOmitted", omitted);
    live.set("redactedContentSample", sample["content"].clone());
    live.set("crossTenantBudgetedProbe", foreign);
    if by_meaning {
        orders(live, &memory_ref).await?;
    }
    Ok(())
}

/// What answers `QUESTION` best; it is the oldest entry of the run.
const RELEVANT: &str = "The lighthouse keeper trims the lamp at dusk.";
const QUESTION: &str = "Who trims the lamp of the lighthouse?";
/// Entries that the run has written by now.
const WRITTEN: u32 = 9;

/// The run's entries by time, and by how well they answer a question.
async fn orders(live: &mut Live<'_>, memory_ref: &str) -> Result<(), Halt> {
    let newest = ListArgs {
        limit: Some(WRITTEN),
        ..ListArgs::default()
    };
    let entries = live.list(memory_ref, &newest).await?;
    let recency: Vec<Value> = entries.iter().map(|entry| entry["id"].clone()).collect();
    let mut relevance = live.ranked(memory_ref, QUESTION).await?;
    relevance.retain(|id| recency.contains(id));
    let rest: Vec<Value> = recency
        .iter()
        .filter(|id| !relevance.contains(id))
        .cloned()
        .collect();
    relevance.extend(rest);
    live.set("recencyOrder", recency);
    live.set("relevanceOrder", relevance);
    Ok(())
}

/// A text that holds a secret in clear, for as long as it takes to write it. A replay has no use
/// for the value.
async fn with_secret(
    live: &mut Live<'_>,
    name: &str,
    before: &str,
) -> Result<zeroize::Zeroizing<String>, Halt> {
    if live.facts.is_some() {
        return Ok(zeroize::Zeroizing::new(before.to_owned()));
    }
    let value = live.secret(name).await?;
    Ok(zeroize::Zeroizing::new(
        value.expose(|text| format!("{before}{text}.")),
    ))
}

/// Proves that a secret was resolved without showing it.
pub(super) async fn secret_echo(live: &mut Live<'_>, node: &Node) -> Result<(), Halt> {
    let name = node
        .config
        .get("secretId")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let asked = json!({"op": "secret", "secretId": name});
    let seen = match live.recall(&asked).await? {
        Some(answer) => answer,
        None => {
            let value = live.secret(&name).await?;
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
    let seen = live.record(asked, seen).await?;
    live.set("secretSha256", seen["sha256"].clone());
    live.set("secretByteLength", seen["byteLength"].clone());
    Ok(())
}
