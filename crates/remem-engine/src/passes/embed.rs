//! embed: computes the vectors of entries, off the write path. Until then an entry is found by its
//! words only.
//!
//! It follows the tenant's event log, so that it costs what was written and not what there is. For
//! a new model, and once a day, it also looks through all entries for those without a vector.
//!
//! After a change of the model it computes the new vectors beside the old ones, which continue to
//! serve searches. When all are there, it runs recent queries with both models, and lets the new
//! one serve if their hits are alike enough; then it deletes the old vectors. A new model whose
//! hits differ too much does not serve until an operator has decided about it (`docs/models.md`).

mod position;

use crate::cpu;
use crate::embedders::{RECORD_KEY, RecentQuery, embed_all, embed_one};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::ports::Embedder;
use crate::registry::{PassMode, PassReport};
use crate::stored::progress::{EmbedProgress, StoredComparison};
use position::{EmbedPosition, Look, changed_entry};
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, Entry, EntryId, Fence, MemoryRef, ModelId, Precondition, Record, RecordKind,
    Scope, StoredRecord, TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, Filter, Page, Probe, ReadAt, RowCursor, StoreError};
use std::collections::HashSet;
use std::sync::Arc;

/// The name in `PASSES`, and the key of the record that says which model serves.
pub(crate) const NAME: &str = RECORD_KEY;
/// Texts sent to a model in one call, and vectors committed in one batch.
const BATCH_SIZE: u32 = 32;
/// How long one activation may take; it must end well before its lease does.
const TIME_MS_MAX: i64 = 5_000;
/// Events read with one query.
const PAGE_SIZE: u32 = 256;
/// With this many new events the position is moved, whether or not they concern this pass.
const EVENTS_FOR_RUN: u32 = 64;
/// How often a vector is made again that the store refused because its entry had changed.
const EMBED_TRIES: u32 = 4;
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

/// Whether an entry was written or changed since the last activation, all entries have to be looked
/// through, or the current model has neither been accepted nor rejected. Reads no entry.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let Some(current) = engine.parts.embedders.current.clone() else {
        return Ok(false);
    };
    let store = &engine.parts.store;
    if !store.features().vectors {
        return Ok(false);
    }
    let status = status_record(engine, tenant).await?;
    let position = known_position(status.as_ref(), current.id(), engine.now());
    let Some(position) = position.filter(|known| matches!(known.look, Look::Ended(_))) else {
        return Ok(true);
    };
    let events = store.events(tenant, position.seq, EVENTS_FOR_RUN).await?;
    Ok(events.len() == EVENTS_FOR_RUN as usize
        || events.iter().any(|event| changed_entry(event).is_some()))
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
    let store = &engine.parts.store;
    if !store.features().vectors {
        return Ok(PassReport::default());
    }
    if mode == PassMode::DryRun {
        let page = store
            .entries_without_vector(tenant, current.id(), None, BATCH_SIZE)
            .await?;
        return Ok(PassReport {
            examined: page.len() as u64,
            changed: page.len() as u64,
            more: page.len() == BATCH_SIZE as usize,
        });
    }
    let status = status_record(engine, tenant).await?;
    let position = match known_position(status.as_ref(), current.id(), engine.now()) {
        Some(position) => position,
        None => EmbedPosition::start(current.id(), store.head(tenant).await?.seq),
    };
    let walk = EmbedWalk {
        engine,
        tenant,
        model: &current,
        fence,
        begun: engine.now(),
        status,
        position,
        needs_commit: false,
        report: PassReport::default(),
    };
    walk.run().await
}

/// The stored position, unless all entries must be looked through from the start. That is so, too,
/// if a look has ended and the model is not decided about any more: another node serves another
/// one, and may have deleted vectors.
fn known_position(
    status: Option<&Record>,
    model: ModelId,
    now: Timestamp,
) -> Option<EmbedPosition> {
    let (serving, rejected) = model_status(status);
    let is_decided = serving == Some(model) || rejected == Some(model);
    EmbedPosition::from_record(status, model, now)
        .filter(|known| is_decided || matches!(known.look, Look::At(_)))
}

/// One activation for one tenant. The position is saved at its end only: after a crash what has a
/// vector already is passed over.
struct EmbedWalk<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    model: &'a Arc<dyn Embedder>,
    fence: Option<Fence>,
    begun: Timestamp,
    /// The record that says which model serves, as it was at the start.
    status: Option<Record>,
    position: EmbedPosition,
    /// Whether the position has come so far that a commit is worth it.
    needs_commit: bool,
    report: PassReport,
}

impl EmbedWalk<'_> {
    /// Computes vectors until none are missing or the time is used up; then decides about the
    /// model, and saves the position.
    async fn run(mut self) -> Result<PassReport, EngineError> {
        let walked = self.walk().await;
        let settled = match walked {
            Ok(()) if !self.report.more && matches!(self.position.look, Look::At(_)) => {
                self.end_look().await
            }
            other => other.map(|()| None),
        };
        // What was reached before an error is saved, too: nothing behind it is missing.
        let (decided, result) = match settled {
            Ok(decided) => (decided, Ok(self.report)),
            Err(error) => (None, Err(error)),
        };
        if decided.is_some() || self.needs_commit {
            self.save(decided).await?;
        }
        if result.is_ok() && self.report.more {
            self.engine.pass_log.mark_pending(NAME, self.tenant);
        }
        result
    }

    /// Follows the log and looks through all entries, page by page in turns: what is written now
    /// does not wait for the look.
    async fn walk(&mut self) -> Result<(), EngineError> {
        loop {
            let is_log_done = self.follow_log().await?;
            let is_look_done = match self.position.look {
                Look::Ended(_) => true,
                Look::At(after) => self.look_on(after).await?,
            };
            self.report.more = !(is_log_done && is_look_done);
            if !self.report.more
                || self.engine.now() > self.begun.plus_ms(TIME_MS_MAX)
                || self.engine.pass_log.is_stopping()
            {
                return Ok(());
            }
        }
    }

    /// Embeds the entries of the next events, and returns whether these were the last ones.
    async fn follow_log(&mut self) -> Result<bool, EngineError> {
        let store = &self.engine.parts.store;
        let first = self.position.seq;
        let events = store.events(self.tenant, first, PAGE_SIZE).await?;
        let mut is_last = events.len() < PAGE_SIZE as usize;
        let mut names = Vec::new();
        let mut reached = first;
        for event in &events {
            if let Some(name) = changed_entry(event) {
                if names.len() == BATCH_SIZE as usize {
                    is_last = false;
                    break;
                }
                names.push(name);
            }
            reached = event.seq;
        }
        if !names.is_empty() {
            let missing = store
                .named_entries_without_vector(self.tenant, self.model.id(), &names)
                .await?;
            self.embed_all(missing).await?;
        }
        self.position.seq = reached;
        self.needs_commit |= !names.is_empty() || reached.0 - first.0 >= u64::from(EVENTS_FOR_RUN);
        Ok(is_last)
    }

    /// Embeds the next entries without a vector, and returns whether these were the last ones.
    async fn look_on(&mut self, after: Option<RowCursor>) -> Result<bool, EngineError> {
        let store = &self.engine.parts.store;
        let page = store
            .entries_without_vector(self.tenant, self.model.id(), after, BATCH_SIZE)
            .await?;
        let is_last = page.len() < BATCH_SIZE as usize;
        if let Some((last, _)) = page.last() {
            let last = *last;
            let entries = page.into_iter().map(|(_, entry)| entry).collect();
            self.embed_all(entries).await?;
            self.position.look = Look::At(Some(last));
            self.needs_commit = true;
        }
        Ok(is_last)
    }

    /// Embeds these entries until each has its vector or has lost its text. The store refuses the
    /// vector of an entry that was checked against other rules meanwhile, even if its text is the
    /// same; no event says that.
    async fn embed_all(&mut self, mut missing: Vec<Entry>) -> Result<(), EngineError> {
        self.report.examined += missing.len() as u64;
        for _ in 0..EMBED_TRIES {
            if missing.is_empty() {
                return Ok(());
            }
            let outcomes = embed_entries(
                self.engine,
                self.tenant,
                &**self.model,
                &missing,
                self.fence.clone(),
            )
            .await?;
            let stored = outcomes.iter().filter(|is_stored| **is_stored).count();
            self.report.changed += stored as u64;
            let refused: Vec<(MemoryRef, EntryId)> = missing
                .into_iter()
                .zip(outcomes)
                .filter(|(_, is_stored)| !is_stored)
                .map(|(entry, _)| (entry.memory_ref, entry.id))
                .collect();
            if sabotage!(
                "a-refused-vector-is-not-made-again",
                refused.is_empty(),
                true
            ) {
                return Ok(());
            }
            let store = &self.engine.parts.store;
            missing = store
                .named_entries_without_vector(self.tenant, self.model.id(), &refused)
                .await?;
        }
        Err(StoreError::Conflict.into())
    }

    /// Called when all vectors are there: deletes those of unused models, or decides whether the
    /// current model serves and returns the new record of that.
    async fn end_look(&mut self) -> Result<Option<EmbedProgress>, EngineError> {
        let model = self.model.id();
        let (serving, rejected) = model_status(self.status.as_ref());
        if serving != Some(model) && rejected != Some(model) {
            return self.decide().await.map(Some);
        }
        if serving == Some(model) {
            let store = &self.engine.parts.store;
            let deleted = store
                .discard_vectors(self.tenant, &[model], DISCARD_MAX)
                .await?;
            if deleted >= u64::from(DISCARD_MAX) {
                self.report.more = true;
                return Ok(None);
            }
        }
        self.position.look = Look::Ended(self.engine.now());
        self.needs_commit = true;
        Ok(None)
    }

    /// Saves the position in the record that says which model serves: in the one that was just
    /// decided on, or in the known one.
    async fn save(&self, decided: Option<EmbedProgress>) -> Result<(), EngineError> {
        let known = self.status.as_ref();
        let progress = decided.unwrap_or_else(|| EmbedProgress {
            log: Some(self.position.to_stored()),
            ..known.and_then(EmbedProgress::read).unwrap_or_default()
        });
        let unchanged = known.map_or(Precondition::Absent, |record| {
            Precondition::Version(record.version)
        });
        let now = self.engine.now_for(self.tenant).await?;
        let batch = Batch::new(self.tenant.clone(), now)
            .fenced(self.fence.clone())
            .set_stored(&progress, unchanged);
        match self.engine.parts.store.commit(batch).await {
            Ok(_) => Ok(()),
            // Another process moved the position: what it left is read again.
            Err(StoreError::Conflict) => {
                self.engine.pass_log.mark_pending(NAME, self.tenant);
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Compares the models, and returns the record that says whether the current one serves. If it
    /// does from now on, that record has no position: all entries are looked through once more,
    /// because another model's host may have deleted vectors meanwhile.
    async fn decide(&mut self) -> Result<EmbedProgress, EngineError> {
        let previous = self.engine.parts.embedders.previous.clone();
        let compared = match &previous {
            Some(previous) => {
                Some(compare_models(self.engine, self.tenant, &**previous, &**self.model).await?)
            }
            None => None,
        };
        let passes = sabotage!(
            "a-new-model-serves-unseen",
            compared.is_none_or(ModelComparison::is_alike_enough),
            true
        );
        let served = if passes {
            Some(self.model.id())
        } else {
            previous.map(|previous| previous.id())
        };
        let mut progress = EmbedProgress {
            serving: served,
            held: (!passes).then_some(self.model.id()),
            comparison: compared.map(ModelComparison::to_stored),
            log: None,
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
        if passes {
            self.engine.pass_log.mark_pending(NAME, self.tenant);
        } else {
            self.position.look = Look::Ended(self.engine.now());
            progress.log = Some(self.position.to_stored());
        }
        Ok(progress)
    }
}

/// Computes and stores the vectors of entries, whose texts are redacted by the rules of today
/// before they are sent. Returns for each whether its vector was stored. If the model does not
/// answer, a later activation tries again.
async fn embed_entries(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    entries: &[Entry],
    fence: Option<Fence>,
) -> Result<Vec<bool>, EngineError> {
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
    let committed = engine.parts.store.commit(batch).await?;
    let is_stored = |outcome: &ChangeOutcome| *outcome != ChangeOutcome::NoChange;
    let outcomes: Vec<bool> = committed.outcomes.iter().map(is_stored).collect();
    let done = engine.now();
    for (entry, _) in entries.iter().zip(&outcomes).filter(|(_, stored)| **stored) {
        let lag = done.0.saturating_sub(entry.created_at.0);
        if (0..LAG_MS_MAX).contains(&lag) {
            metrics::histogram!("remem_write_to_meaning_seconds").record(lag as f64 / 1_000.0);
        }
    }
    Ok(outcomes)
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
