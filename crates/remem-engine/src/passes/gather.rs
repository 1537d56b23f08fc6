//! The reading and writing that compaction and distillation share: the texts of a memory, redacted
//! again by the rules of today, and the one entry that is made of them, admitted like any other.

use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::{JobContext, WorkError};
use crate::secrets::RedactionRules;
use crate::tokens::O200k;
use remem_core::distill::{self, DigestLimits, DistillError, DistillSource, TextDigest};
use remem_core::sabotage;
use remem_core::{
    Admitted, Draft, Entry, EntryId, Facets, MemoryRef, Policy, Timestamp, Trust, WorldId,
};
use remem_store::{Filter, ListPosition, Page, ReadAt};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Entries read with one query.
const PAGE_SIZE: u32 = 500;
/// Prefix of the tag that names the job that made an entry.
pub(crate) const JOB_TAG_PREFIX: &str = "compacted-from:";

/// Returns the live entries of the job's memory that `wanted` accepts, newest first, and how many
/// were read. An entry that will expire is never a source, since what is made of it would outlive
/// it. Fails if there are more sources than the policy allows.
pub(crate) async fn source_entries(
    engine: &Engine,
    job: &JobContext<'_>,
    at: &ReadAt,
    wanted: impl Fn(&Entry) -> bool,
) -> Result<(Vec<Entry>, u64), WorkError> {
    let store = &engine.parts.store;
    let limit = engine.parts.policy.distill_entries_max;
    let policy = engine.policy_for(job.tenant()).await?;
    let rules = engine.redaction_rules(job.tenant()).await?;
    let total = store.stats(job.scope(), at).await?.entries;
    let mut taken = Vec::new();
    let mut examined = 0u64;
    let mut after = None;
    loop {
        job.report_progress("reading", examined, total).await?;
        let page = store
            .list(
                job.scope(),
                &Filter::default(),
                &Page {
                    limit: PAGE_SIZE,
                    after,
                },
                at,
            )
            .await?;
        examined += page.len() as u64;
        let Some(last) = page.last() else {
            return Ok((taken, examined));
        };
        after = Some(ListPosition {
            created_at: last.created_at,
            id: last.id.clone(),
        });
        let admission = rules.admission(&policy, at.instant());
        let wanted_entries = page
            .into_iter()
            .filter(|entry| entry.expires_at.is_none() && wanted(entry));
        let derive = |entry| {
            Ok::<_, EngineError>(with_own_markers(
                &rules,
                &policy,
                admission.redact_for_reader(entry),
            ))
        };
        let cpu = engine.cpu();
        let derived = cpu
            .each(
                job.tenant(),
                wanted_entries.collect(),
                cpu::entry_bytes,
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
fn with_own_markers(rules: &RedactionRules, policy: &Policy, entry: Entry) -> Entry {
    let content = rules
        .redactor()
        .clean_derived(&entry.content, policy.shapes)
        .text
        .into_string();
    Entry { content, ..entry }
}

/// Plans a digest within a budget of tokens, on a blocking thread. Tokens are counted exactly.
pub(crate) async fn plan_digest(
    entries: &[Entry],
    budget: u64,
    bytes_max: usize,
) -> Result<TextDigest, DistillError> {
    let source = |entry: &Entry| DistillSource {
        id: entry.id.as_str().to_owned(),
        created_at: entry.created_at,
        text: entry.content.clone(),
    };
    let sources: Vec<DistillSource> = entries.iter().map(source).collect();
    let limits = DigestLimits {
        output_bytes_max: bytes_max,
        tokenizer: O200k::NAME,
    };
    let work = move || distill::plan_digest(&sources, budget, &limits, &O200k::count);
    tokio::task::spawn_blocking(work)
        .await
        .expect("planning does not panic")
}

/// The job error for a digest that cannot be made, with the protocol's code.
pub(crate) fn refusal_error(refusal: &DistillError) -> WorkError {
    let (code, details) = match refusal {
        DistillError::NothingToDistill => ("nothing_to_distill", json!({})),
        DistillError::BudgetTooSmall { budget, minimum } => (
            "token_budget_exceeded",
            json!({"budget": budget, "minimumRequired": minimum}),
        ),
        DistillError::OutputTooLarge { limit } => ("output_too_large", json!({"limit": limit})),
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
pub(crate) struct OutputContext {
    pub policy: Policy,
    pub rules: Arc<RedactionRules>,
    pub now: Timestamp,
    /// The world whose rules the memory follows.
    world: WorldId,
}

impl OutputContext {
    pub async fn new(engine: &Engine, job: &JobContext<'_>) -> Result<OutputContext, EngineError> {
        let policy = engine.policy_for(job.tenant()).await?;
        let rules = engine.redaction_rules(job.tenant()).await?;
        let world = engine
            .parts
            .profiles
            .for_memory(job.memory_ref())
            .world
            .clone();
        Ok(OutputContext {
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
        job: &JobContext<'_>,
        content: String,
        source: &str,
        entries: &[Entry],
    ) -> Result<Admitted, WorkError> {
        let tags = vec![
            format!("{JOB_TAG_PREFIX}{}", job.id()),
            format!("source:{source}"),
        ];
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
                .weaker(Trust::Model),
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
pub(crate) fn lineage_of(memory_ref: &MemoryRef, entries: &[Entry]) -> Vec<(MemoryRef, EntryId)> {
    entries
        .iter()
        .map(|entry| (memory_ref.clone(), entry.id.clone()))
        .collect()
}
