//! distill: makes a digest of a memory within a budget of tokens (RFC 0062). The sources stay. The
//! digest is an entry, an archive that never changes, and a line in the index that the next session
//! reads, all written in one transaction.
//!
//! The archive is extractive, and the same bytes for the same sources and budget. A model, where
//! one is configured, may only rewrite the entry's text, and may state nothing that its sources do
//! not.

use super::gather::{self, OutputContext};
use crate::archive::{self, DistillationRecord, IndexUpdate};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{JobContext, WorkError, WorkReport};
use crate::model::{ModelCall, RewriteRequest, Undo};
use crate::registry::PassMode;
use remem_core::distill::{Archive, DigestUnit, TextDigest};
use remem_core::event::{Compacted, Distillation};
use remem_core::rewrite::{self, Evidence};
use remem_core::sabotage;
use remem_core::{Batch, Entry, EntryId, EventBody, Precondition, RecordKind};
use remem_store::{ReadAt, StoreError};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Tag of entries made by a distillation, which are not sources of the next one unless the job says
/// `recursive`.
const DISTILLATION_TAG: &str = "source:distillation";
/// Set by conformance checks alone: how the names of the entries begin that are distilled. It is no
/// option of the pass, so that no caller can set it.
pub(crate) const PLANTED: &str = "planted";
/// Somebody else may write the index at the same time.
const COMMIT_TRIES: u32 = 8;
/// Ids listed in the event, at most; with more sources the event lists none.
const EVENT_IDS_MAX: usize = 100;

/// Distils one memory for a job. If a source or the index changes before the commit, everything is
/// read again: a digest never contains a text that is gone.
pub async fn work(engine: &Engine, job: &JobContext<'_>) -> Result<WorkReport, WorkError> {
    let mut attempt = DistillAttempt {
        id: engine.parts.ids.entry(),
        source_digest: String::new(),
        model_call: None,
    };
    for _ in 0..COMMIT_TRIES {
        match distill_once(engine, job, &mut attempt).await {
            Err(WorkError::Failed(EngineError::Store(StoreError::Conflict))) => {
                job.report_progress("reading", 0, 1).await?
            }
            other => return other,
        }
    }
    Err(StoreError::Busy.into())
}

/// State that is reused by the next attempt, so that a model is called once for the same sources.
struct DistillAttempt {
    id: EntryId,
    /// The digest of the sources that the model was called for.
    source_digest: String,
    model_call: Option<ModelCall>,
}

/// Plans a digest and commits it, unless the same one exists already.
async fn distill_once(
    engine: &Engine,
    job: &JobContext<'_>,
    attempt: &mut DistillAttempt,
) -> Result<WorkReport, WorkError> {
    let limit = engine.parts.policy.distill_tokens_max;
    let policy = &engine.parts.policy;
    let budget = job.integer_option("tokenBudget").map_or(limit, |budget| {
        sabotage!("a-budget-without-a-limit", budget.min(limit), budget)
    });
    let (entries, examined) = source_entries(engine, job).await?;
    job.report_progress("selecting", 0, 1).await?;
    let digest = gather::plan_digest(&entries, budget, policy.content_bytes_max)
        .await
        .map_err(|refusal| gather::refusal_error(&refusal))?;
    let report = WorkReport {
        examined,
        ..WorkReport::default()
    };
    if let Some(existing) = engine
        .find_distillation(
            job.tenant(),
            job.memory_ref(),
            &digest.source_digest,
            budget,
        )
        .await?
    {
        return Ok(WorkReport {
            detail: report_detail(&existing, false),
            ..report
        });
    }
    let plan = DistillPlan {
        digest: &digest,
        entries: &entries,
        budget,
    };
    if job.mode() != PassMode::Apply {
        return Ok(WorkReport {
            changed: 1,
            detail: report_detail(&plan.record(&digest.sha256, "", 0), false),
            ..report
        });
    }
    if engine.has_model() && attempt.source_digest != digest.source_digest {
        (attempt.model_call, attempt.source_digest) = (
            rewrite_digest(engine, job, &plan, &attempt.id).await?,
            digest.source_digest.clone(),
        );
    }
    let (batch, distilled) = build_batch(engine, job, &plan, attempt).await?;
    engine.parts.store.commit(batch).await?;
    Ok(WorkReport {
        changed: 1,
        detail: report_detail(&distilled, distilled.is_indexed()),
        ..report
    })
}

/// The entries to distil. A run reads at its snapshot; entries deleted since then are left out,
/// because their text would outlast the deletion.
async fn source_entries(
    engine: &Engine,
    job: &JobContext<'_>,
) -> Result<(Vec<Entry>, u64), WorkError> {
    let since = sources_since(engine, job).await?;
    let recursive = job.flag_option("recursive");
    let planted = job.word_option(PLANTED);
    let wanted = |entry: &Entry| {
        planted.is_none_or(|set| entry.id.as_str().starts_with(set))
            && (recursive || !entry.tags.iter().any(|tag| tag == DISTILLATION_TAG))
            && since.is_none_or(|from| entry.created_at.0 > from)
    };
    let now = ReadAt::Now(engine.now_for(job.tenant()).await?);
    let (mut entries, examined) =
        gather::source_entries(engine, job, job.snapshot().unwrap_or(&now), &wanted).await?;
    if job.snapshot().is_some() {
        let (live, _) = gather::source_entries(engine, job, &now, wanted).await?;
        let live: HashSet<EntryId> = live.into_iter().map(|entry| entry.id).collect();
        sabotage!(
            "a-run-s-digest-brings-back-what-was-deleted",
            entries.retain(|entry| live.contains(&entry.id))
        );
    }
    Ok((entries, examined))
}

/// A digest to be written, with its sources.
struct DistillPlan<'a> {
    digest: &'a TextDigest,
    entries: &'a [Entry],
    budget: u64,
}

/// If the job says `sources: new`, the end of the last distillation of this memory; only newer
/// entries are sources.
async fn sources_since(engine: &Engine, job: &JobContext<'_>) -> Result<Option<i64>, EngineError> {
    if job.word_option("sources") != Some("new") {
        return Ok(None);
    }
    let all = engine.distillations(job.tenant(), None).await?;
    Ok(all
        .iter()
        .filter(|distilled| distilled.memory_ref == job.memory_ref().as_str())
        .map(|distilled| distilled.to)
        .max())
}

/// The counts and ids that the job reports.
fn report_detail(distilled: &DistillationRecord, index_updated: bool) -> Map<String, Value> {
    let value = json!({
        "archive": distilled.sha256, "outputId": distilled.entry_id, "sourceCount": distilled.source_count, "tokenBudget": distilled.budget,
        "tokensUsed": distilled.tokens_used, "indexUpdated": index_updated, "byteSize": distilled.byte_size,
    });
    value.as_object().cloned().unwrap_or_default()
}

impl DistillPlan<'_> {
    /// The record of the distillation.
    fn record(&self, sha256: &str, entry_id: &str, at: i64) -> DistillationRecord {
        DistillationRecord {
            memory_ref: self
                .entries
                .first()
                .map(|entry| entry.memory_ref.as_str().to_owned())
                .unwrap_or_default(),
            source_digest: self.digest.source_digest.clone(),
            budget: self.budget,
            sha256: sha256.to_owned(),
            entry_id: entry_id.to_owned(),
            source_count: self.entries.len() as u64,
            tokens_used: self.digest.tokens_used,
            from: self.digest.from.0,
            to: self.digest.to.0,
            topics: self.digest.topics.clone(),
            at,
            byte_size: 0,
            erased: false,
        }
    }
}

/// Has a model rewrite the digest. The model sees the selected units and nothing else.
async fn rewrite_digest(
    engine: &Engine,
    job: &JobContext<'_>,
    plan: &DistillPlan<'_>,
    id: &EntryId,
) -> Result<Option<ModelCall>, WorkError> {
    job.report_progress("rewriting", 0, 1).await?;
    let evidence = |unit: &DigestUnit| Evidence {
        source: unit.source.clone(),
        text: unit.text.clone(),
    };
    let digest_text = plan.digest.text.clone();
    let words_max = digest_text.split_whitespace().count();
    let request = RewriteRequest {
        job: rewrite::RewriteJob {
            evidence: plan.digest.units.iter().map(evidence).collect(),
            plain_text: digest_text,
            words_max,
        },
        memory_ref: job.memory_ref().clone(),
        output: Some(id.clone()),
        undo: Undo {
            archive: plan.digest.sha256.clone(),
            replaces: Vec::new(),
        },
    };
    Ok(engine.rewrite(job.tenant(), &request).await?)
}

/// Builds the batch of the entry, the archive, the index and the event, under the condition that
/// all sources are unchanged. Otherwise a subject that is being forgotten would live on in the
/// digest.
async fn build_batch(
    engine: &Engine,
    job: &JobContext<'_>,
    plan: &DistillPlan<'_>,
    attempt: &DistillAttempt,
) -> Result<(Batch, DistillationRecord), WorkError> {
    let id = &attempt.id;
    let rewritten = attempt.model_call.as_ref();
    let context = OutputContext::new(engine, job).await?;
    let admission = context.rules.admission(&context.policy, context.now);
    let bytes = redact_archive(&context, &plan.digest.archive)?;
    let sha256 = Archive::parse(bytes.as_bytes())
        .map(|archive| archive.sha256())
        .map_err(|_| redaction_failed())?;
    let rewrite = rewritten.and_then(|call| call.rewrite.as_ref());
    let text = rewrite.map_or_else(|| plan.digest.text.clone(), |rewrite| rewrite.text.clone());
    let admitted = context.admit(job, text, "distillation", plan.entries)?;
    let byte_size = admitted.content().len() as u64;
    let distilled = DistillationRecord {
        byte_size,
        ..plan.record(&sha256, id.as_str(), context.now.0)
    };
    let batch = Batch::new(job.tenant().clone(), context.now).fenced(job.fence());
    let mut batch = batch.put_derived(
        id.clone(),
        admitted,
        gather::lineage_of(job.memory_ref(), plan.entries),
    );
    // A source that was deleted or forgotten since it was read must not come back in a digest.
    for entry in plan.entries {
        sabotage!(
            "a-digest-tells-of-what-just-went",
            batch = batch.expect_entry(
                job.memory_ref().clone(),
                entry.id.clone(),
                entry.visible.from,
            )
        );
    }
    batch = archive::add_archive(
        batch,
        &admission,
        &distilled,
        &bytes,
        engine
            .distillation_precondition(job.tenant(), &distilled)
            .await?,
    );
    let mut all = engine.distillations(job.tenant(), None).await?;
    all.push(distilled.clone());
    if distilled.is_indexed() {
        batch = engine
            .write_index(
                job.tenant(),
                batch,
                &admission,
                &all,
                IndexUpdate::Add {
                    markdown: job.flag_option("markdown"),
                },
            )
            .await?;
    }
    if let Some(call) = rewritten {
        batch = batch.set_record(
            RecordKind::ModelCall,
            call.key.clone(),
            Precondition::Absent,
            call.body.clone(),
        );
    }
    if job.snapshot().is_none() {
        let named = plan.entries.len() <= EVENT_IDS_MAX;
        let source_ids = named.then(|| {
            plan.entries
                .iter()
                .map(|entry| entry.id.as_str().to_owned())
                .collect()
        });
        batch = batch.emit(EventBody::Compacted(compacted_event(
            &distilled, source_ids,
        )));
    }
    Ok((batch, distilled))
}

/// The event of a distillation.
fn compacted_event(distilled: &DistillationRecord, source_ids: Option<Vec<String>>) -> Compacted {
    Compacted {
        memory_ref: distilled.memory_ref.clone(),
        output_id: distilled.entry_id.clone(),
        source_ids,
        source_count: distilled.source_count,
        trigger: "host-managed".to_owned(),
        byte_size: distilled.byte_size,
        distillation: Some(Distillation {
            token_budget: distilled.budget,
            tokens_used: distilled.tokens_used,
            index_updated: distilled.is_indexed(),
        }),
    }
}

/// Redacts the archive by the rules of today. Its units come from texts that were redacted already,
/// so this changes nothing unless a secret was registered in between: then the redacted text is
/// what is archived.
fn redact_archive(context: &OutputContext, archive: &[u8]) -> Result<String, WorkError> {
    let text = std::str::from_utf8(archive).map_err(|_| redaction_failed())?;
    Ok(context
        .rules
        .redactor()
        .clean_derived(text, context.policy.shapes)
        .text
        .into_string())
}

/// The job error for an archive that redaction made unreadable.
fn redaction_failed() -> WorkError {
    WorkError::Refused {
        code: "compaction_redaction_failed",
        details: Map::new(),
    }
}
