//! The reading and writing that compaction and distillation share: the texts of a memory, redacted
//! again by the rules of today, and the one entry that is made of them, admitted like any other.

use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{Job, WorkError};
use crate::secrets::Rules;
use crate::tokens::O200k;
use remem_core::distill::{self, Digest, Limits, Refusal, Source};
use remem_core::sabotage;
use remem_core::{
    Admitted, Draft, Entry, EntryId, Facets, MemoryRef, Policy, Timestamp, Trust, WorldId,
};
use remem_store::{Filter, Page, Position, ReadAt};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Entries read with one query.
const PAGE: u32 = 500;
/// Prefix of the tag that names the job that made an entry.
pub(crate) const MADE_BY: &str = "compacted-from:";

/// Returns the live entries of the job's memory that `wanted` accepts, newest first, and how many
/// were read. An entry that will expire is never a source, since what is made of it would outlive
/// it. Fails if there are more sources than the policy allows.
pub(crate) async fn sources(
    engine: &Engine,
    job: &Job<'_>,
    at: &ReadAt,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<(Vec<Entry>, u64), WorkError> {
    let store = &engine.parts.store;
    let limit = engine.parts.policy.distill_entries_max;
    let policy = engine.policy_for(job.tenant()).await?;
    let rules = engine.rules(job.tenant()).await?;
    let total = store.stats(job.scope(), at).await?.entries;
    let mut taken = Vec::new();
    let mut examined = 0u64;
    let mut after = None;
    loop {
        job.progress("reading", examined, total).await?;
        let page = store
            .list(
                job.scope(),
                &Filter::default(),
                &Page { limit: PAGE, after },
                at,
            )
            .await?;
        examined += page.len() as u64;
        let Some(last) = page.last() else {
            return Ok((taken, examined));
        };
        after = Some(Position {
            created_at: last.created_at,
            id: last.id.clone(),
        });
        let admission = rules.admission(&policy, at.instant());
        let wanted_entries = page
            .into_iter()
            .filter(|entry| entry.expires_at.is_none() && wanted(entry));
        let derive =
            |entry| Ok::<_, EngineError>(derived(&rules, &policy, admission.review(entry)));
        let cpu = engine.cpu();
        let derived = cpu
            .each(
                job.tenant(),
                wanted_entries.collect(),
                cpu::of_entry,
                derive,
            )
            .await?;
        taken.extend(derived);
        if taken.len() > limit {
            let details = json!({"limit": limit})
                .as_object()
                .cloned()
                .unwrap_or_default();
            return Err(WorkError::Refused {
                code: "too_many_entries",
                details,
            });
        }
    }
}

/// Converts redaction markers in other notations, as models and other hosts write them, to this
/// host's notation.
fn derived(rules: &Rules, policy: &Policy, entry: Entry) -> Entry {
    let content = rules
        .redactor()
        .clean_derived(&entry.content, policy.shapes)
        .text
        .into_string();
    Entry { content, ..entry }
}

/// Plans a digest within a budget of tokens, on a blocking thread. Tokens are counted exactly.
pub(crate) async fn plan(
    entries: &[Entry],
    budget: u64,
    bytes_max: usize,
) -> Result<Digest, Refusal> {
    let source = |entry: &Entry| Source {
        id: entry.id.as_str().to_owned(),
        created_at: entry.created_at,
        text: entry.content.clone(),
    };
    let sources: Vec<Source> = entries.iter().map(source).collect();
    let limits = Limits {
        output_bytes_max: bytes_max,
        tokenizer: O200k::NAME,
    };
    let work = move || distill::plan(&sources, budget, &limits, &O200k::count);
    tokio::task::spawn_blocking(work)
        .await
        .expect("planning does not panic")
}

/// The job error for a digest that cannot be made, with the protocol's code.
pub(crate) fn refused(refusal: &Refusal) -> WorkError {
    let (code, details) = match refusal {
        Refusal::NothingToDistill => ("nothing_to_distill", json!({})),
        Refusal::BudgetTooSmall { budget, minimum } => (
            "token_budget_exceeded",
            json!({"budget": budget, "minimumRequired": minimum}),
        ),
        Refusal::OutputTooLarge { limit } => ("output_too_large", json!({"limit": limit})),
    };
    WorkError::Refused {
        code,
        details: details
            .as_object()
            .cloned()
            .unwrap_or_else(Map::<String, Value>::new),
    }
}

/// The rules and limits that the new entry is admitted under.
pub(crate) struct Making {
    pub policy: Policy,
    pub rules: Arc<Rules>,
    pub now: Timestamp,
    /// The world whose rules the memory follows.
    world: WorldId,
}

impl Making {
    pub async fn new(engine: &Engine, job: &Job<'_>) -> Result<Making, EngineError> {
        let policy = engine.policy_for(job.tenant()).await?;
        let rules = engine.rules(job.tenant()).await?;
        let world = engine.parts.profiles.of(job.memory_ref()).world.clone();
        Ok(Making {
            policy,
            rules,
            now: engine.now_for(job.tenant()).await?,
            world,
        })
    }

    /// Admits the new entry through the same checks as every write. It is trusted no more than a
    /// model, and no more than the least trusted of its sources.
    pub fn admit(
        &self,
        job: &Job<'_>,
        content: String,
        source: &str,
        entries: &[Entry],
    ) -> Result<Admitted, WorkError> {
        let tags = vec![format!("{MADE_BY}{}", job.id()), format!("source:{source}")];
        let content = self
            .rules
            .redactor()
            .clean_derived(&content, self.policy.shapes)
            .text
            .into_string();
        let trust = sabotage!(
            "a-digest-is-trusted-more-than-its-sources",
            entries
                .iter()
                .map(|entry| entry.facets.trust)
                .min()
                .unwrap_or_default()
                .meet(Trust::Model),
            {
                let _ = entries;
                Trust::Model
            }
        );
        let facets = Facets {
            world: self.world.clone(),
            trust,
            ..Facets::default()
        };
        let draft = Draft {
            content,
            tags,
            facets,
            ..Draft::default()
        };
        self.rules
            .admission(&self.policy, self.now)
            .admit(job.scope(), draft)
            .map_err(|_| {
                // A redaction marker may be longer than the text it replaces, so that the result
                // exceeds the limit.
                WorkError::Refused {
                    code: "compaction_redaction_failed",
                    details: Map::new(),
                }
            })
    }
}

/// The sources as references for the lineage of the new entry.
pub(crate) fn names(memory_ref: &MemoryRef, entries: &[Entry]) -> Vec<(MemoryRef, EntryId)> {
    entries
        .iter()
        .map(|entry| (memory_ref.clone(), entry.id.clone()))
        .collect()
}
