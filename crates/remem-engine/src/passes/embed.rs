//! embed: makes the vectors of texts, off the path of the writers. Until it has, an entry is found
//! by its words.
//!
//! After a change of the model it makes the new vectors beside the old ones, which go on serving.
//! When all are there, it asks both models what was asked lately, and lets the new one serve if the
//! answers are alike enough; then it lets go of the old vectors. A new model that answers otherwise
//! serves nobody until somebody has looked (`docs/models.md`).

use crate::cpu;
use crate::embedders::{Question, RECORD, embed_all, embed_one};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::own_words;
use crate::ports::Embedder;
use crate::registry::{Mode, PassReport};
use remem_core::sabotage;
use remem_core::{
    Actor, Batch, Entry, EntryId, Fence, ModelId, Precondition, Record, RecordKind, Scope, TenantId,
};
use remem_store::{Filter, Page, Probe, ReadAt, RowCursor, StoreError};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The name in `PASSES`, and of the record with what serves.
pub(crate) const NAME: &str = RECORD;
/// Texts given to a model at once, and committed at once.
const PAGE: u32 = 32;
/// Bounds of one activation, which must end long before its lease does.
const TIME_MS_MAX: i64 = 5_000;
/// Vectors of a model that nobody uses, let go of at once.
const DISCARD: u32 = 10_000;
/// Hits that two models are compared by, and questions at least: what entries begin with stands in
/// for what nobody asked.
const TOP: u32 = 10;
const QUESTIONS_MIN: usize = 8;
/// A new model serves if, on average, so many of the old one's hits are among its own, and the old
/// one's first hit is. In thousandths.
const OVERLAP_MIN: u64 = 300;
const AGREEMENT_MIN: u64 = 600;
/// What was written longer ago was waiting for a model, not for this pass.
const LAG_MS_MAX: i64 = 3_600_000;

/// What a comparison of two models showed, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comparison {
    overlap: u64,
    agreement: u64,
    questions: u64,
}

impl Comparison {
    fn passes(self) -> bool {
        self.questions == 0 || (self.overlap >= OVERLAP_MIN && self.agreement >= AGREEMENT_MIN)
    }
}

/// Texts without a vector, or a model that does not serve yet.
pub async fn worth(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let Some(current) = engine.parts.embedders.current.clone() else {
        return Ok(false);
    };
    let store = &engine.parts.store;
    if !store.features().vectors {
        return Ok(false);
    }
    if !store
        .unembedded(tenant, current.id(), None, 1)
        .await?
        .is_empty()
    {
        return Ok(true);
    }
    let (serving, held) = state(note(engine, tenant).await?.as_ref());
    Ok(serving != Some(current.id()) && held != Some(current.id()))
}

/// One activation.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let Some(current) = engine.parts.embedders.current.clone() else {
        return Ok(PassReport::default());
    };
    if !engine.parts.store.features().vectors {
        return Ok(PassReport::default());
    }
    let report = fill(engine, tenant, &*current, mode, fence.clone()).await?;
    if mode == Mode::DryRun || report.more {
        if report.more && mode != Mode::DryRun {
            engine.passes.again(NAME, tenant);
        }
        return Ok(report);
    }
    take_over(engine, tenant, &current, fence).await?;
    Ok(report)
}

/// Vectors for what has none.
async fn fill(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    mode: Mode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let begun = engine.now();
    let mut report: PassReport = PassReport::default();
    let mut after: Option<RowCursor> = None;
    loop {
        let page = engine
            .parts
            .store
            .unembedded(tenant, model.id(), after, PAGE)
            .await?;
        let Some((last, _)) = page.last() else {
            return Ok(report);
        };
        after = Some(*last);
        report.examined += page.len() as u64;
        report.more = page.len() == PAGE as usize;
        if mode == Mode::DryRun {
            report.changed += page.len() as u64;
            return Ok(report);
        }
        let entries: Vec<Entry> = page.into_iter().map(|(_, entry)| entry).collect();
        report.changed += keep(engine, tenant, model, &entries, fence.clone()).await?;
        if !report.more || engine.now() > begun.plus_ms(TIME_MS_MAX) || engine.passes.is_stopping()
        {
            return Ok(report);
        }
    }
}

/// Makes vectors of texts as the rules of today leave them, and keeps them. A model that does not
/// answer is asked again later.
async fn keep(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    entries: &[Entry],
    fence: Option<Fence>,
) -> Result<u64, EngineError> {
    let policy = engine.policy_for(tenant).await?;
    let rules = engine.rules(tenant).await?;
    let now = engine.now_for(tenant).await?;
    let admission = rules.admission(&policy, now);
    let text = |entry: &Entry| {
        Ok::<_, EngineError>(sabotage!(
            "a-model-is-given-what-is-secret",
            admission.review(entry.clone()).content,
            {
                let _ = &admission;
                entry.content.clone()
            }
        ))
    };
    let bytes = |entry: &&Entry| cpu::to_review(&admission, entry);
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
            batch.embed(entry, model.id(), vector)
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

/// All vectors are there: lets the model serve, if it may, and lets go of the others.
async fn take_over(
    engine: &Engine,
    tenant: &TenantId,
    current: &Arc<dyn Embedder>,
    fence: Option<Fence>,
) -> Result<(), EngineError> {
    let known = note(engine, tenant).await?;
    let (serving, held) = state(known.as_ref());
    let previous = engine.parts.embedders.previous.clone();
    if serving == Some(current.id()) {
        engine
            .parts
            .store
            .discard_vectors(tenant, &[current.id()], DISCARD)
            .await?;
        return Ok(());
    }
    if held == Some(current.id()) {
        return Ok(());
    }
    let compared = match &previous {
        Some(previous) => Some(compare(engine, tenant, &**previous, &**current).await?),
        None => None,
    };
    let passes = sabotage!(
        "a-new-model-serves-unseen",
        compared.is_none_or(Comparison::passes),
        true
    );
    let mut body = Map::new();
    let served = if passes {
        Some(current.id())
    } else {
        previous.map(|previous| previous.id())
    };
    body.insert("serving".into(), json!(served.map(|model| model.0)));
    body.insert("held".into(), json!((!passes).then_some(current.id().0)));
    if let Some(Comparison {
        overlap,
        agreement,
        questions,
    }) = compared
    {
        body.insert(
            "comparison".into(),
            json!({"overlap": overlap, "agreement": agreement, "questions": questions}),
        );
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
    let batch = Batch::new(tenant.clone(), now).fenced(fence).set(
        RecordKind::Progress,
        NAME.to_owned(),
        precondition,
        own_words(Value::Object(body)),
    );
    match engine.parts.store.commit(batch).await {
        Ok(_) | Err(StoreError::Conflict) => {}
        Err(error) => return Err(error.into()),
    }
    if passes {
        engine.passes.again(NAME, tenant);
    }
    Ok(())
}

/// Asks both models the same.
async fn compare(
    engine: &Engine,
    tenant: &TenantId,
    old: &dyn Embedder,
    new: &dyn Embedder,
) -> Result<Comparison, EngineError> {
    let mut questions = engine.parts.embedders.questions(tenant);
    if questions.len() < QUESTIONS_MIN {
        questions.extend(stand_ins(engine, tenant).await?);
    }
    let mut overlap = 0;
    let mut agreement = 0;
    let mut asked = 0u64;
    for question in &questions {
        let before = nearest(engine, tenant, old, question).await?;
        let after = nearest(engine, tenant, new, question).await?;
        let Some(first) = before.first() else {
            continue;
        };
        let both: HashSet<&EntryId> = before.iter().filter(|id| after.contains(id)).collect();
        overlap += 1_000 * both.len() as u64 / before.len() as u64;
        agreement += if after.contains(first) { 1_000 } else { 0 };
        asked += 1;
    }
    let mean = |sum: u64| sum.checked_div(asked).unwrap_or(0);
    Ok(Comparison {
        overlap: mean(overlap),
        agreement: mean(agreement),
        questions: asked,
    })
}

/// What entries begin with, of a few memories.
async fn stand_ins(engine: &Engine, tenant: &TenantId) -> Result<Vec<Question>, EngineError> {
    let store = &engine.parts.store;
    let at = ReadAt::Now(engine.now_for(tenant).await?);
    let mut questions = Vec::new();
    for summary in store.scopes(tenant, &Actor::Host, None, 4, &at).await? {
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
            questions.push(Question {
                memory_ref: scope.memory_ref.clone(),
                text,
            });
        }
    }
    Ok(questions)
}

async fn nearest(
    engine: &Engine,
    tenant: &TenantId,
    model: &dyn Embedder,
    question: &Question,
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

async fn note(engine: &Engine, tenant: &TenantId) -> Result<Option<Record>, EngineError> {
    Ok(engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?)
}

/// The model that serves, and the one that was compared and did not pass.
fn state(note: Option<&Record>) -> (Option<ModelId>, Option<ModelId>) {
    let model = |name: &str| {
        note.and_then(|note| note.body.get(name).and_then(Value::as_i64))
            .map(ModelId)
    };
    (model("serving"), model("held"))
}
