//! embed: computes the vectors of entries, off the write path. Until then an entry is found by its
//! words only.
//!
//! After a change of the model it computes the new vectors beside the old ones, which continue to
//! serve searches. When all are there, it runs recent queries with both models, and lets the new
//! one serve if their hits are alike enough; then it deletes the old vectors. A new model whose
//! hits differ too much does not serve until an operator has decided about it (`docs/models.md`).

use crate::cpu;
use crate::embedders::{RECORD_KEY, RecentQuery, embed_all, embed_one};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::Embedder;
use crate::registry::{PassMode, PassReport};
use crate::stored::progress::{EmbedProgress, StoredComparison};
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, Entry, EntryId, Fence, ModelId, Precondition, Record, RecordKind, Scope,
    StoredRecord, TenantId,
};
use remem_store::{Filter, Page, Probe, ReadAt, RowCursor, StoreError};
use std::collections::HashSet;
use std::sync::Arc;

/// The name in `PASSES`, and the key of the record that says which model serves.
pub(crate) const NAME: &str = RECORD_KEY;
/// Texts sent to a model in one call, and vectors committed in one batch.
const BATCH_SIZE: u32 = 32;
/// How long one activation may take; it must end well before its lease does.
const TIME_MS_MAX: i64 = 5_000;
/// Vectors of unused models deleted by one activation, at most.
const DISCARD_MAX: u32 = 10_000;
/// Hits of a query that two models are compared by.
const TOP: u32 = 10;
/// Queries that two models are compared by, at least. If there are fewer recent ones, the first
/// words of entries are used as queries.
const QUESTIONS_MIN: usize = 8;
/// Average share of the old model's hits that must be among the new one's for the new one to serve,
/// in thousandths.
const OVERLAP_MIN: u64 = 300;
/// Share of queries whose first hit by the old model must be among the new one's hits, in
/// thousandths.
const AGREEMENT_MIN: u64 = 600;
/// Older entries do not count in the metric of the delay from write to vector: they waited for a
/// model, not for this pass.
const LAG_MS_MAX: i64 = 3_600_000;

/// The result of comparing two models, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ModelComparison {
    overlap: u64,
    agreement: u64,
    questions: u64,
}

impl ModelComparison {
    /// The comparison as it is stored.
    fn to_stored(self) -> StoredComparison {
        StoredComparison {
            overlap: self.overlap,
            agreement: self.agreement,
            questions: self.questions,
        }
    }

    /// Whether the models are alike enough for the new one to serve.
    fn is_alike_enough(self) -> bool {
        self.questions == 0 || (self.overlap >= OVERLAP_MIN && self.agreement >= AGREEMENT_MIN)
    }
}

/// Whether entries lack vectors, or the current model has neither been accepted nor rejected.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let Some(current) = engine.parts.embedders.current.clone() else {
        return Ok(false);
    };
    let store = &engine.parts.store;
    if !store.features().vectors {
        return Ok(false);
    }
    if !store
        .entries_without_vector(tenant, current.id(), None, 1)
        .await?
        .is_empty()
    {
        return Ok(true);
    }
    let (serving, rejected) = model_status(status_record(engine, tenant).await?.as_ref());
    Ok(serving != Some(current.id()) && rejected != Some(current.id()))
}

/// Does one activation: computes missing vectors, then decides whether the current model may serve.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let Some(current) = engine.parts.embedders.current.clone() else {
        return Ok(PassReport::default());
    };
    if !engine.parts.store.features().vectors {
        return Ok(PassReport::default());
    }
    let report = embed_missing(engine, tenant, &*current, mode, fence.clone()).await?;
    if mode == PassMode::DryRun || report.more {
        if report.more && mode != PassMode::DryRun {
            engine.pass_log.mark_pending(NAME, tenant);
        }
        return Ok(report);
    }
    switch_model(engine, tenant, &current, fence).await?;
    Ok(report)
}

/// Computes the vectors that are missing, until none are left or the time is used up.
async fn embed_missing(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let begun = engine.now();
    let mut report: PassReport = PassReport::default();
    let mut after: Option<RowCursor> = None;
    loop {
        let page = engine
            .parts
            .store
            .entries_without_vector(tenant, model.id(), after, BATCH_SIZE)
            .await?;
        let Some((last, _)) = page.last() else {
            return Ok(report);
        };
        after = Some(*last);
        report.examined += page.len() as u64;
        report.more = page.len() == BATCH_SIZE as usize;
        if mode == PassMode::DryRun {
            report.changed += page.len() as u64;
            return Ok(report);
        }
        let entries: Vec<Entry> = page.into_iter().map(|(_, entry)| entry).collect();
        report.changed += embed_entries(engine, tenant, model, &entries, fence.clone()).await?;
        if !report.more
            || engine.now() > begun.plus_ms(TIME_MS_MAX)
            || engine.pass_log.is_stopping()
        {
            return Ok(report);
        }
    }
}

/// Computes and stores the vectors of entries, whose texts are redacted by the rules of today
/// before they are sent. If the model does not answer, a later activation tries again.
async fn embed_entries(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    entries: &[Entry],
    fence: Option<Fence>,
) -> Result<u64, EngineError> {
    let policy = engine.policy_for(tenant).await?;
    let rules = engine.redaction_rules(tenant).await?;
    let now = engine.now_for(tenant).await?;
    let admission = rules.admission(&policy, now);
    let text = |entry: &Entry| {
        Ok::<_, EngineError>(sabotage!(
            "a-model-is-given-what-is-secret",
            admission.redact_for_reader(entry.clone()).content,
            {
                let _ = &admission;
                entry.content.clone()
            }
        ))
    };
    let bytes = |entry: &&Entry| cpu::review_bytes(&admission, entry);
    let texts: Vec<String> = engine
        .cpu()
        .each(tenant, entries.iter().collect(), bytes, text)
        .await?;
    let vectors = embed_all(model, &texts).await.map_err(|error| {
        metrics::counter!("remem_embedder_errors", "class" => error.as_str()).increment(1);
        tracing::warn!(class = error.as_str(), "no vectors for entries");
        EngineError::NoEmbedder
    })?;
    let empty = Batch::new(tenant.clone(), now).as_host().fenced(fence);
    let batch = entries
        .iter()
        .zip(vectors)
        .fold(empty, |batch, (entry, vector)| {
            batch.store_embedding(entry, model.id(), vector)
        });
    engine.parts.store.commit(batch).await?;
    let done = engine.now();
    for entry in entries {
        let lag = done.0.saturating_sub(entry.created_at.0);
        if (0..LAG_MS_MAX).contains(&lag) {
            metrics::histogram!("remem_write_to_meaning_seconds").record(lag as f64 / 1_000.0);
        }
    }
    Ok(entries.len() as u64)
}

/// Called when all vectors are there: compares the models, records whether the current one serves,
/// and deletes vectors of unused models once it does.
async fn switch_model(
    engine: &Engine,
    tenant: &TenantId,
    current: &Arc<dyn Embedder>,
    fence: Option<Fence>,
) -> Result<(), EngineError> {
    let known = status_record(engine, tenant).await?;
    let (serving, rejected) = model_status(known.as_ref());
    let previous = engine.parts.embedders.previous.clone();
    if serving == Some(current.id()) {
        engine
            .parts
            .store
            .discard_vectors(tenant, &[current.id()], DISCARD_MAX)
            .await?;
        return Ok(());
    }
    if rejected == Some(current.id()) {
        return Ok(());
    }
    let compared = match &previous {
        Some(previous) => Some(compare_models(engine, tenant, &**previous, &**current).await?),
        None => None,
    };
    let passes = sabotage!(
        "a-new-model-serves-unseen",
        compared.is_none_or(ModelComparison::is_alike_enough),
        true
    );
    let served = if passes {
        Some(current.id())
    } else {
        previous.map(|previous| previous.id())
    };
    let progress = EmbedProgress {
        serving: served,
        held: (!passes).then_some(current.id()),
        comparison: compared.map(ModelComparison::to_stored),
    };
    if let Some(ModelComparison {
        overlap,
        agreement,
        questions,
    }) = compared
    {
        tracing::info!(
            overlap,
            agreement,
            questions,
            passes,
            "a new embedding model was compared with the one that serves"
        );
    }
    let precondition = known.map_or(Precondition::Absent, |note| {
        Precondition::Version(note.version)
    });
    let now = engine.now_for(tenant).await?;
    let batch = Batch::new(tenant.clone(), now).fenced(fence);
    let batch = batch.set_stored(&progress, precondition);
    match engine.parts.store.commit(batch).await {
        Ok(_) | Err(StoreError::Conflict) => {}
        Err(error) => return Err(error.into()),
    }
    if passes {
        engine.pass_log.mark_pending(NAME, tenant);
    }
    Ok(())
}

/// Runs the same queries with both models and compares their hits.
async fn compare_models(
    engine: &Engine,
    tenant: &TenantId,
    old: &dyn Embedder,
    new: &dyn Embedder,
) -> Result<ModelComparison, EngineError> {
    let mut questions = engine.parts.embedders.recent_queries(tenant);
    if questions.len() < QUESTIONS_MIN {
        questions.extend(queries_from_entries(engine, tenant).await?);
    }
    let mut overlap = 0;
    let mut agreement = 0;
    let mut compared = 0u64;
    for question in &questions {
        let before = nearest(engine, tenant, old, question).await?;
        let after = nearest(engine, tenant, new, question).await?;
        let Some(first) = before.first() else {
            continue;
        };
        let both: HashSet<&EntryId> = before.iter().filter(|id| after.contains(id)).collect();
        overlap += 1_000 * both.len() as u64 / before.len() as u64;
        agreement += if after.contains(first) { 1_000 } else { 0 };
        compared += 1;
    }
    let mean = |sum: u64| sum.checked_div(compared).unwrap_or(0);
    Ok(ModelComparison {
        overlap: mean(overlap),
        agreement: mean(agreement),
        questions: compared,
    })
}

/// Makes queries from the first words of some entries, of a few memories.
async fn queries_from_entries(
    engine: &Engine,
    tenant: &TenantId,
) -> Result<Vec<RecentQuery>, EngineError> {
    let store = &engine.parts.store;
    let at = ReadAt::Now(engine.now_for(tenant).await?);
    let mut questions = Vec::new();
    for summary in store.memories(tenant, &Actor::Host, None, 4, &at).await? {
        let scope = Scope::new(tenant.clone(), summary.memory_ref).as_host();
        for entry in store
            .list(
                &scope,
                &Filter::default(),
                &Page {
                    limit: 4,
                    after: None,
                },
                &at,
            )
            .await?
        {
            let text = entry
                .content
                .split_whitespace()
                .take(8)
                .collect::<Vec<_>>()
                .join(" ");
            questions.push(RecentQuery {
                memory_ref: scope.memory_ref.clone(),
                text,
            });
        }
    }
    Ok(questions)
}

/// The nearest entries to a query by the vectors of one model.
async fn nearest(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    question: &RecentQuery,
) -> Result<Vec<EntryId>, EngineError> {
    let vector = embed_one(model, &question.text)
        .await
        .map_err(|_| EngineError::NoEmbedder)?;
    let scope = Scope::new(tenant.clone(), question.memory_ref.clone()).as_host();
    let probe = Probe {
        terms: Vec::new(),
        vector: Some((model.id(), vector)),
    };
    let at = ReadAt::Now(engine.now_for(tenant).await?);
    let found = engine
        .parts
        .store
        .search(&scope, &probe, &Filter::default(), TOP, &at)
        .await?;
    Ok(found
        .candidates
        .into_iter()
        .map(|one| one.entry.id)
        .collect())
}

/// The record that says which model serves.
async fn status_record(engine: &Engine, tenant: &TenantId) -> Result<Option<Record>, EngineError> {
    Ok(engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?)
}

/// The model that serves, and the one that was compared and rejected.
fn model_status(note: Option<&Record>) -> (Option<ModelId>, Option<ModelId>) {
    let progress = note.and_then(EmbedProgress::read).unwrap_or_default();
    (progress.serving, progress.held)
}
