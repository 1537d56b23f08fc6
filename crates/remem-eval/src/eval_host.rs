//! The host that an evaluation asks: a real engine over a real store, in a temporary folder that is
//! deleted with it. Its clock begins at noon after the last instant of the dataset, so that a
//! question which says "in May" means the same on every day it is asked.

use crate::batches::{batches, drafts};
use crate::dataset::EntryText;
use crate::progress::bar;
use anyhow::{Context, bail};
use remem::Settings;
use remem_core::recall::Signals;
use remem_core::sabotage;
use remem_core::{EntryId, ShapePolicy, TenantId, Timestamp};
use remem_engine::ports::{Clock, Embedder};
use remem_engine::registry::{self, PassMode};
use remem_engine::search::{SearchMode, SearchRequest, TimeUse};
use remem_engine::{Caller, Engine};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::time::Instant;

/// The tenant that owns everything in the host.
const TENANT: &str = "default";
const DAY_MS: i64 = 86_400_000;

/// The settings of a search.
#[derive(Clone, Copy, Debug)]
pub struct SearchSettings {
    /// The search mode: by words, by meaning or by both.
    pub mode: SearchMode,
    /// The use of a time in the question.
    pub time: TimeUse,
    /// True if neighbouring entries influence the score.
    pub context: bool,
}

/// The result of one search.
pub struct SearchAnswer {
    /// The evidence ids of the hits, best first.
    pub hits: Vec<String>,
    /// The probability that one of them answers, as the host gave it.
    pub probability: f64,
    /// The signals that the probability was computed from.
    pub signals: Signals,
    /// True if a time was recognised in the question.
    pub timed: bool,
    /// The duration of the search in microseconds.
    pub micros: u64,
}

/// The cost of storing a dataset and embedding it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// The number of entries stored.
    pub entries: u64,
    /// The number of vectors made.
    pub vectors: u64,
    /// The size of the tenant's file.
    pub bytes: u64,
    /// The duration of storing the entries.
    pub load_ms: u64,
    /// The duration of making the vectors.
    pub embed_ms: u64,
}

/// A host with a dataset in it. The fields are dropped in order: the engine before its folder.
pub struct EvalHost {
    engine: Engine,
    caller: Caller,
    tenant: TenantId,
    evidence_ids: Vec<Vec<String>>,
    folder: TempDir,
}

/// A clock that begins at a given instant.
struct OffsetClock {
    base: Timestamp,
    begun: Instant,
}

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        self.base
            .plus_ms(i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(0))
    }
}

impl EvalHost {
    /// An empty host whose clock begins after `last`.
    pub async fn new(
        settings: &Settings,
        embedder: Option<Arc<dyn Embedder>>,
        last: Timestamp,
    ) -> anyhow::Result<EvalHost> {
        let folder = tempfile::Builder::new()
            .disable_cleanup(sabotage!(
                "an-evaluation-leaves-its-memory-behind",
                false,
                true
            ))
            .prefix("remem-eval-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let base = Timestamp(last.0.div_euclid(DAY_MS).saturating_add(1) * DAY_MS + DAY_MS / 2);
        let clock = OffsetClock {
            base,
            begun: Instant::now(),
        };
        let engine = settings.engine_in(folder.path(), Arc::new(clock), embedder)?;
        let tenant = TenantId::parse(TENANT).context("the tenant's name is not valid")?;
        engine
            .ensure_tenant(tenant.clone(), ShapePolicy::default())
            .await?;
        let caller = engine.local_caller(&tenant).await?;
        Ok(EvalHost {
            engine,
            caller,
            tenant,
            evidence_ids: Vec::new(),
            folder,
        })
    }

    /// Stores memories, and makes the vectors of their entries if there is a model.
    pub async fn load(&mut self, memories: Vec<Vec<EntryText>>) -> anyhow::Result<Costs> {
        let entries = memories.iter().map(|texts| texts.len() as u64).sum();
        let bar = bar("load", entries);
        let begun = Instant::now();
        for texts in memories {
            let name = memory(self.evidence_ids.len());
            for batch in batches(&texts) {
                self.engine
                    .import(&self.caller, &name, drafts(&texts, batch.clone())?)
                    .await
                    .context("the host refused entries")?;
                bar.inc(batch.len() as u64);
            }
            self.evidence_ids
                .push(texts.into_iter().map(|text| text.id).collect());
        }
        bar.finish_and_clear();
        let load_ms = millis(begun);
        let (vectors, embed_ms) = self.pass("embed", PassMode::Apply, entries).await?;
        // The pass moves the journal into the file, so that the file's size is the whole cost.
        self.pass("purge", PassMode::Compact, 0).await?;
        Ok(Costs {
            entries,
            vectors,
            bytes: self.bytes()?,
            load_ms,
            embed_ms,
        })
    }

    /// Runs a pass to its end. Returns the number of changes, and the milliseconds that it took.
    async fn pass(
        &self,
        name: &'static str,
        mode: PassMode,
        entries: u64,
    ) -> anyhow::Result<(u64, u64)> {
        let pass = registry::find(name).with_context(|| format!("there is no pass {name}"))?;
        let bar = bar(name, entries);
        let begun = Instant::now();
        let mut changed = 0;
        loop {
            let report = self
                .engine
                .run_pass(pass, &self.tenant, mode)
                .await
                .with_context(|| format!("the pass {name} failed"))?;
            changed += report.changed;
            bar.set_position(changed);
            if !report.more {
                break;
            }
        }
        bar.finish_and_clear();
        Ok((changed, millis(begun)))
    }

    fn bytes(&self) -> anyhow::Result<u64> {
        let file = self
            .folder
            .path()
            .join("tenants")
            .join(format!("{}.db", self.tenant));
        Ok(file
            .metadata()
            .context("the tenant's file is not there")?
            .len())
    }

    /// Asks a question of the memory with this index.
    pub async fn ask(
        &self,
        place: usize,
        query: &str,
        way: SearchSettings,
        limit: u32,
    ) -> anyhow::Result<SearchAnswer> {
        let request = SearchRequest {
            query: query.to_owned(),
            limit: Some(limit),
            mode: way.mode,
            time: way.time,
            ignore_neighbours: sabotage!(
                "neighbours-count-although-they-must-not",
                !way.context,
                false
            ),
            ..SearchRequest::default()
        };
        let begun = Instant::now();
        let searched = self
            .engine
            .search(&self.caller, &memory(place), request)
            .await
            .context("the host refused a question")?;
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let names = self
            .evidence_ids
            .get(place)
            .context("there is no such memory")?;
        let name = |id: &EntryId| {
            id.as_str()
                .parse()
                .ok()
                .and_then(|place: usize| names.get(place))
                .cloned()
        };
        let Some(found) = searched
            .hits
            .iter()
            .map(|hit| name(&hit.entry.id))
            .collect()
        else {
            bail!("a hit is no entry of the dataset")
        };
        Ok(SearchAnswer {
            hits: found,
            probability: searched.probability,
            signals: searched.signals,
            timed: searched.when.is_some(),
            micros,
        })
    }
}

/// The name of the memory with this index.
fn memory(place: usize) -> String {
    format!("memory-{place}")
}

fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}
