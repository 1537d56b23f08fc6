//! `recall`: search by words and meaning in one large memory, in this process: how fast it is
//! filled, the cost of the index, the latency of searches, and the share of the true nearest
//! vectors that the index above its exact size finds. Vectors are synthetic, resembling those of a
//! sentence model (directions around a few thousand topics), because making a million real ones
//! takes hours. With `--peers PYTHON` the same texts, vectors and queries are given to two other
//! systems (`recall_peers.py`), with `--postgres` to the same host on PostgreSQL.

use crate::Setup;
use crate::corpus::Contents;
use crate::database::{self, PostgresServer};
use crate::table::{LatencySample, Table, ms};
use crate::text::SeededRandom;
use anyhow::{Context, ensure};
use async_trait::async_trait;
use remem_core::{
    Admission, Batch, Draft, Embedding, EntryId, MemoryRef, ModelId, Permission, Policy, Redactor,
    Scope, TenantId, Timestamp,
};
use remem_engine::embedders::Embedders;
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{Embedder, EmbedderError, RandomIds, SystemClock};
use remem_engine::search::{SearchMode, SearchRequest};
use remem_engine::{Caller, Engine, EngineParts, HostKey};
use remem_store::{Directory, Filter, Probe, ReadAt, Store};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

const DIMENSIONS: usize = 384;
const TOPICS: usize = 4_000;
const BATCH: usize = 500;
const QUERIES: usize = 300;
const COMPARED: usize = 100;
/// The number of candidates that a search of the host requests from the store.
const NEAREST: u32 = 150;
const FIRST: i64 = 1_700_000_000_000;

/// Synthetic vectors around topics, with the first components being the largest.
struct SyntheticVectors {
    topics: Vec<Vec<f32>>,
}

fn normal(random: &mut SeededRandom) -> f32 {
    // The sum of twelve uniform draws is close enough to a normal distribution.
    (0..12)
        .map(|_| (random.next() >> 40) as f32 / (1u64 << 24) as f32)
        .sum::<f32>()
        - 6.0
}

impl SyntheticVectors {
    fn new() -> SyntheticVectors {
        let mut random = SeededRandom::new(77);
        let one = |random: &mut SeededRandom| {
            (0..DIMENSIONS)
                .map(|n| normal(random) / ((n + 4) as f32).powf(0.25))
                .collect()
        };
        SyntheticVectors {
            topics: (0..TOPICS).map(|_| one(&mut random)).collect(),
        }
    }

    /// The vector of an entry, plus noise of the size `away`.
    fn random_vector(&self, number: usize, away: f32, seed: u64) -> Vec<f32> {
        let topic = &self.topics[SeededRandom::new(number as u64).below(TOPICS)];
        let mut own = SeededRandom::new(1 + number as u64);
        let mut off = SeededRandom::new(seed);
        let spread = |n: usize| 1.0 / ((n + 4) as f32).powf(0.25);
        topic
            .iter()
            .enumerate()
            .map(|(n, c)| {
                c + 0.8 * normal(&mut own) * spread(n) + away * normal(&mut off) * spread(n)
            })
            .collect()
    }
}

/// An embedder that only knows the vectors of the queries.
struct QueryEmbedder(HashMap<String, Embedding>);

#[async_trait]
impl Embedder for QueryEmbedder {
    fn name(&self) -> &str {
        "made-up"
    }
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }
    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        texts
            .iter()
            .map(|text| self.0.get(text).cloned().ok_or(EmbedderError::Unusable))
            .collect()
    }
}

struct RecallBench {
    store: Arc<dyn Store>,
    engine: Engine,
    caller: Caller,
    scope: Scope,
    queries: Vec<(String, Vec<f32>)>,
    model: ModelId,
}

/// The entries that are written, and their vectors.
struct Corpus {
    entries: usize,
    contents: Contents,
    directions: SyntheticVectors,
}

type StoredVectors = Vec<(String, Embedding)>;

pub fn run(
    setup: &Setup,
    sizes: &[usize],
    peers: Option<&Path>,
    postgres: bool,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let server = postgres.then(|| PostgresServer::start(setup)).transpose()?;
    for &entries in sizes {
        let corpus = Corpus {
            entries,
            contents: Contents::new(),
            directions: SyntheticVectors::new(),
        };
        measure_sqlite(setup, &runtime, &corpus, peers)?;
        if let Some(server) = &server {
            measure_postgres(server, &runtime, &corpus)?;
        }
    }
    Ok(())
}

fn measure_sqlite(
    setup: &Setup,
    runtime: &Runtime,
    corpus: &Corpus,
    peers: Option<&Path>,
) -> anyhow::Result<()> {
    let folder = setup.new_folder("recall-")?;
    let location = Location::Folder(folder.join("data"));
    let store = Arc::new(SqliteStore::open(location.clone(), 4)?);
    let directory = Arc::new(SqliteDirectory::open(&location)?);
    let mut table = Table::new(&["remem", "figure"]);
    let bench = runtime.block_on(async {
        let bench = RecallBench::open(corpus, store, directory).await?;
        let stored = bench.fill(corpus, &mut table).await?;
        let resting = resident()?;
        let begun = Instant::now();
        bench.search(0, SearchMode::Hybrid).await?;
        table.row([
            "index made at the first search, s".into(),
            format!("{:.2}", begun.elapsed().as_secs_f64()),
        ]);
        table.row([
            "memory of the index, MiB".into(),
            format!(
                "{:.0}",
                (resident()?.saturating_sub(resting)) as f64 / 1024.0 / 1024.0
            ),
        ]);
        table.row([
            "bytes on disk an entry".into(),
            format!("{:.0}", on_disk(&folder)? as f64 / corpus.entries as f64),
        ]);
        bench.measure_searches(&mut table, &stored).await?;
        anyhow::Ok(bench)
    })?;
    table.print(&format!(
        "{} entries of about 200 bytes in one memory, {DIMENSIONS} components",
        corpus.entries
    ));
    if let Some(python) = peers {
        bench.write_peer_files(corpus, &folder)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("recall_peers.py");
        let done = std::process::Command::new(python)
            .arg(script)
            .arg(&folder)
            .status()
            .context("the peers' program")?;
        ensure!(done.success(), "the peers' program failed");
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn measure_postgres(
    server: &PostgresServer,
    runtime: &Runtime,
    corpus: &Corpus,
) -> anyhow::Result<()> {
    let database = server.new_database()?;
    let mut table = Table::new(&["remem on PostgreSQL", "figure"]);
    let (bench, stored) = runtime.block_on(async {
        let store = database::store(&database.url).await?;
        let directory = Arc::new(store.directory());
        let bench = RecallBench::open(corpus, Arc::new(store), directory).await?;
        let stored = bench.fill(corpus, &mut table).await?;
        anyhow::Ok((bench, stored))
    })?;
    let bytes = database.vacuum()?;
    table.row([
        "bytes on disk an entry".into(),
        format!("{:.0}", bytes as f64 / corpus.entries as f64),
    ]);
    runtime.block_on(async {
        bench.measure_searches(&mut table, &stored).await?;
        let compared = database::store_with(&database.url, u32::MAX).await?;
        let tenth = Filter {
            created_to: Some(Timestamp(FIRST + corpus.entries as i64 * 100)),
            ..Filter::default()
        };
        let batch = Filter {
            created_to: Some(Timestamp(FIRST + 1)),
            ..Filter::default()
        };
        for (name, filter) in [
            ("all", Filter::default()),
            ("a tenth of the time", tenth),
            ("the first 500", batch),
        ] {
            bench
                .measure_nearest(
                    &mut table,
                    &format!("{NEAREST} nearest of {name}"),
                    &*bench.store,
                    &filter,
                )
                .await?;
            bench
                .measure_nearest(
                    &mut table,
                    &format!("{NEAREST} nearest of {name}, compared one by one"),
                    &compared,
                    &filter,
                )
                .await?;
        }
        anyhow::Ok(())
    })?;
    table.print(&format!(
        "The same {} entries on PostgreSQL",
        corpus.entries
    ));
    Ok(())
}

impl RecallBench {
    async fn open(
        corpus: &Corpus,
        store: Arc<dyn Store>,
        directory: Arc<dyn Directory>,
    ) -> anyhow::Result<RecallBench> {
        let Corpus {
            entries,
            contents,
            directions,
        } = corpus;
        let mut random = SeededRandom::new(5);
        let queries: Vec<(String, Vec<f32>)> = (0..QUERIES)
            .map(|n| {
                let target = random.below(*entries);
                let words: Vec<String> =
                    contents.at(target).split(' ').map(str::to_owned).collect();
                let picked: Vec<&str> = (0..6)
                    .map(|_| words[random.below(words.len())].as_str())
                    .collect();
                (
                    picked.join(" "),
                    directions.random_vector(target, 0.7, 9_000 + n as u64),
                )
            })
            .collect();
        let vector =
            |direction: &[f32]| Embedding::from_components(direction).context("a direction");
        let known = queries
            .iter()
            .map(|(text, d)| Ok((text.clone(), vector(d)?)))
            .collect::<anyhow::Result<_>>()?;
        let known: Arc<dyn Embedder> = Arc::new(QueryEmbedder(known));
        let model = known.id();
        let parts = EngineParts::new(
            store.clone(),
            directory,
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            HostKey::new([3; 32]),
        );
        let engine = Engine::new(EngineParts {
            embedders: Embedders::new(Some(known), None),
            ..parts
        });
        let tenant = TenantId::parse("bench").context("a name")?;
        let request = KeyRequest {
            tenant: tenant.clone(),
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
            trust: None,
        };
        engine.add_key("key", request).await?;
        let caller = engine.authenticate("key").await?;
        let scope = Scope::new(tenant, MemoryRef::parse("bench").context("a name")?);
        Ok(RecallBench {
            store,
            engine,
            caller,
            scope,
            queries,
            model,
        })
    }

    /// Writes all entries and vectors; returns the vectors, for comparison.
    async fn fill(&self, corpus: &Corpus, table: &mut Table) -> anyhow::Result<StoredVectors> {
        let begun = Instant::now();
        self.put(corpus.entries, &corpus.contents).await?;
        table.row([
            "entries written a second".into(),
            format!(
                "{:.0}",
                corpus.entries as f64 / begun.elapsed().as_secs_f64()
            ),
        ]);
        let begun = Instant::now();
        let stored = self.embed(&corpus.directions).await?;
        table.row([
            "vectors kept a second".into(),
            format!(
                "{:.0}",
                corpus.entries as f64 / begun.elapsed().as_secs_f64()
            ),
        ]);
        Ok(stored)
    }

    /// Measures the latency of searches, and their recall.
    async fn measure_searches(
        &self,
        table: &mut Table,
        stored: &StoredVectors,
    ) -> anyhow::Result<()> {
        for mode in [
            SearchMode::Lexical,
            SearchMode::Semantic,
            SearchMode::Hybrid,
        ] {
            let mut nanos = Vec::new();
            for n in 0..QUERIES {
                let begun = Instant::now();
                self.search(n, mode).await?;
                nanos.push(begun.elapsed().as_nanos() as u64);
            }
            table.row(percentiles(mode.as_str(), nanos));
        }
        table.row([
            "recall@10 of the index against all compared".into(),
            format!("{:.3}", self.recall(stored).await?),
        ]);
        Ok(())
    }

    /// Measures the time that the store alone takes to find the nearest vectors.
    async fn measure_nearest(
        &self,
        table: &mut Table,
        name: &str,
        store: &dyn Store,
        filter: &Filter,
    ) -> anyhow::Result<()> {
        let mut nanos = Vec::new();
        for (_, direction) in self.queries.iter().take(COMPARED) {
            let vector = Embedding::from_components(direction).context("a direction")?;
            let probe = Probe {
                terms: Vec::new(),
                vector: Some((self.model, vector)),
            };
            let begun = Instant::now();
            let answer = store
                .search(
                    &self.scope,
                    &probe,
                    filter,
                    NEAREST,
                    &ReadAt::Now(Timestamp(FIRST * 2)),
                )
                .await?;
            nanos.push(begun.elapsed().as_nanos() as u64);
            ensure!(
                answer.candidates.len() == NEAREST as usize,
                "there are enough of {name}"
            );
        }
        table.row(percentiles(name, nanos));
        Ok(())
    }

    async fn put(&self, entries: usize, contents: &Contents) -> anyhow::Result<()> {
        let policy = Policy::default();
        let redactor = Redactor::empty();
        for first in (0..entries).step_by(BATCH) {
            let now = Timestamp(FIRST + first as i64 * 1_000);
            let admission = Admission {
                policy: &policy,
                redactor: &redactor,
                redaction_fingerprint: 1,
                now,
            };
            let mut batch = Batch::new(self.scope.tenant.clone(), now);
            for number in first..(first + BATCH).min(entries) {
                let draft = Draft {
                    content: contents.at(number),
                    ..Draft::default()
                };
                let id = EntryId::parse(&format!("e{number:07}")).context("an id")?;
                batch = batch.put(id, admission.admit(&self.scope, draft)?);
            }
            self.store.commit(batch).await?;
        }
        Ok(())
    }

    async fn embed(&self, directions: &SyntheticVectors) -> anyhow::Result<StoredVectors> {
        let mut after = None;
        let mut stored = Vec::new();
        loop {
            let page = self
                .store
                .entries_without_vector(&self.scope.tenant, self.model, after, BATCH as u32)
                .await?;
            let Some((last, _)) = page.last() else {
                return Ok(stored);
            };
            after = Some(*last);
            let mut batch = Batch::new(self.scope.tenant.clone(), Timestamp(FIRST));
            for (_, entry) in &page {
                let number: usize = entry.id.as_str()[1..].parse()?;
                let vector = Embedding::from_components(&directions.random_vector(number, 0.0, 0))
                    .context("a direction")?;
                stored.push((entry.id.to_string(), vector.clone()));
                batch = batch.store_embedding(entry, self.model, vector);
            }
            self.store.commit(batch).await?;
        }
    }

    async fn search(&self, n: usize, mode: SearchMode) -> anyhow::Result<()> {
        let request = SearchRequest {
            query: self.queries[n].0.clone(),
            mode,
            ..SearchRequest::default()
        };
        let found = self.engine.search(&self.caller, "bench", request).await?;
        ensure!(!found.hits.is_empty(), "a query finds something");
        Ok(())
    }

    async fn recall(&self, stored: &[(String, Embedding)]) -> anyhow::Result<f64> {
        let mut found = 0;
        for (_, direction) in self.queries.iter().take(COMPARED) {
            let direction = Embedding::from_components(direction).context("a direction")?;
            let mut all: Vec<(f64, &str)> = stored
                .iter()
                .map(|(id, vector)| (direction.cosine(vector), id.as_str()))
                .collect();
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            let nearest: HashSet<&str> = all.iter().take(10).map(|(_, id)| *id).collect();
            let probe = Probe {
                terms: Vec::new(),
                vector: Some((self.model, direction)),
            };
            let at = ReadAt::Now(Timestamp(FIRST * 2));
            let answer = self
                .store
                .search(&self.scope, &probe, &Filter::default(), 10, &at)
                .await?;
            found += answer
                .candidates
                .iter()
                .filter(|one| nearest.contains(one.entry.id.as_str()))
                .count();
        }
        Ok(found as f64 / (10 * COMPARED.min(self.queries.len())) as f64)
    }

    /// Writes the same texts, vectors and queries to files for the peers.
    fn write_peer_files(&self, corpus: &Corpus, folder: &Path) -> anyhow::Result<()> {
        let file = |name: &str| {
            anyhow::Ok(std::io::BufWriter::new(std::fs::File::create(
                folder.join(name),
            )?))
        };
        let mut texts = file("texts.txt")?;
        let mut vectors = file("vectors.f32")?;
        for number in 0..corpus.entries {
            writeln!(texts, "{}", corpus.contents.at(number).replace('\n', " "))?;
            corpus
                .directions
                .random_vector(number, 0.0, 0)
                .iter()
                .try_for_each(|c| vectors.write_all(&c.to_le_bytes()))?;
        }
        let mut asked = file("queries.txt")?;
        let mut directions = file("queries.f32")?;
        for (text, direction) in &self.queries {
            writeln!(asked, "{text}")?;
            direction
                .iter()
                .try_for_each(|c| directions.write_all(&c.to_le_bytes()))?;
        }
        Ok(())
    }
}

fn percentiles(name: &str, nanos: Vec<u64>) -> [String; 2] {
    let seconds = nanos.iter().sum::<u64>() as f64 / 1e9;
    let sample = LatencySample::new(nanos, seconds);
    [
        format!("{name}: p50 / p95 / p99, ms"),
        [50.0, 95.0, 99.0]
            .map(|p| ms(sample.percentile(p)))
            .join(" / "),
    ]
}

/// The resident memory of this process in bytes.
fn resident() -> anyhow::Result<usize> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: usize = text.split(' ').nth(1).context("statm")?.parse()?;
    Ok(pages * 4_096)
}

fn on_disk(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder.join("data/tenants"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
