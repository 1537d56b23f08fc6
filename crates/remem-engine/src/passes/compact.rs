//! compact: replaces many entries by few (RFC 0012). Lossy: the sources end as if they had been
//! deleted. Half of their tokens are kept, in verbatim parts, as one entry for each group of
//! sources.

use super::gather::{self, JOB_TAG_PREFIX, OutputContext};
use crate::engine::Engine;
use crate::jobs::{JobContext, WorkError, WorkReport};
use crate::registry::PassMode;
use crate::tokens::O200k;
use remem_core::event::Compacted;
use remem_core::sabotage;
use remem_core::{Batch, Entry, EventBody, RetireReason, Tier};
use remem_store::ReadAt;
use serde_json::{Value, json};

/// Entries in one group, at most.
const GROUP_ENTRIES_MAX: usize = 500;
/// Bytes of a group's texts, at most, so that the half that is kept fits into one entry.
const GROUP_BYTES_MAX: usize = 128 * 1024;
/// Groups with fewer tokens are kept whole: a digest would save nothing.
const BUDGET_MIN: u64 = 256;
/// Ids listed in the event, at most; for larger groups the event lists none.
const EVENT_IDS_MAX: usize = 100;

/// Compacts one memory for a job.
pub async fn work(engine: &Engine, job: &JobContext<'_>) -> Result<WorkReport, WorkError> {
    let at = ReadAt::Now(engine.now_for(job.tenant()).await?);
    let all = job.word_option("include") == Some("all");
    let is_digest = |entry: &Entry| entry.tags.iter().any(|tag| tag.starts_with(JOB_TAG_PREFIX));
    let wanted = |entry: &Entry| !is_digest(entry) && (all || entry.tier != Tier::Persistent);
    let (mut entries, examined) = gather::source_entries(engine, job, &at, wanted).await?;
    entries.reverse(); // oldest first
    let taken = entries.len() as u64;
    let mut report = WorkReport {
        examined,
        ..WorkReport::default()
    };
    let mut outputs = Vec::new();
    let mut done = 0;
    while !entries.is_empty() {
        let rest = entries.split_off(group_size(&entries));
        let group = std::mem::replace(&mut entries, rest);
        if group.len() < 2 {
            continue; // one entry cannot become fewer
        }
        job.report_progress("compacting", done, taken).await?;
        done += group.len() as u64;
        report.changed += group.len() as u64;
        if job.mode() == PassMode::Apply {
            outputs.push(compact_group(engine, job, &group).await?);
        }
    }
    let detail = json!({"leftOut": examined - taken, "outputs": outputs});
    Ok(WorkReport {
        detail: detail.as_object().cloned().unwrap_or_default(),
        ..report
    })
}

/// The number of entries, from the first, that form one group.
fn group_size(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&Entry| {
        bytes += entry.content.len();
        bytes <= GROUP_BYTES_MAX
    };
    entries
        .iter()
        .take(GROUP_ENTRIES_MAX)
        .take_while(fits)
        .count()
        .max(1)
}

/// Commits one group: the new entry, its lineage, the end of its sources and the event, in one
/// transaction and under the condition that all sources are unchanged.
async fn compact_group(
    engine: &Engine,
    job: &JobContext<'_>,
    group: &[Entry],
) -> Result<Value, WorkError> {
    let context = OutputContext::new(engine, job).await?;
    let tokens: usize = group.iter().map(|entry| O200k::count(&entry.content)).sum();
    // The planner charges every kept token twice, so a budget of all tokens keeps half of them.
    let budget = (tokens as u64).max(BUDGET_MIN);
    let digest = gather::plan_digest(group, budget, context.policy.content_bytes_max)
        .await
        .map_err(|refusal| gather::refusal_error(&refusal))?;
    let id = engine.parts.ids.entry();
    let admitted = context.admit(job, digest.text, "compaction", group)?;
    let memory_ref = job.memory_ref();
    let byte_size = admitted.content().len() as u64;
    let mut batch = Batch::new(job.tenant().clone(), context.now).fenced(job.fence());
    batch = batch.put_derived(id.clone(), admitted, gather::lineage_of(memory_ref, group));
    for entry in group {
        sabotage!(
            "compaction-keeps-what-just-went",
            batch = batch.expect_entry(memory_ref.clone(), entry.id.clone(), entry.visible.from)
        );
        batch = batch.retire(
            memory_ref.clone(),
            entry.id.clone(),
            RetireReason::Compacted,
            id.clone(),
        );
    }
    let event = Compacted {
        memory_ref: memory_ref.as_str().to_owned(),
        output_id: id.as_str().to_owned(),
        source_ids: (group.len() <= EVENT_IDS_MAX).then(|| {
            group
                .iter()
                .map(|entry| entry.id.as_str().to_owned())
                .collect()
        }),
        source_count: group.len() as u64,
        trigger: "host-managed".to_owned(),
        byte_size,
        distillation: None,
    };
    let event = EventBody::Compacted(event);
    let payload = event.payload();
    engine.parts.store.commit(batch.emit(event)).await?;
    Ok(payload)
}
