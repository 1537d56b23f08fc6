//! `commitments`: recognising commitments in entries, and firing those that are due, in this
//! process, on the embedded store and on PostgreSQL. The peer of firing is a plain loop that claims
//! row after row, without events or runs.

use crate::Setup;
use crate::corpus::Contents;
use crate::database::{self, BenchDatabase, PostgresServer, SqlSession};
use crate::table::{LatencySample, Table, ms, number, ratio};
use anyhow::{Context, anyhow, ensure};
use remem_core::commitment::Delivery;
use remem_core::{Draft, Permission, Policy, RecordKind, TenantId, Timestamp};
use remem_engine::commitments::NewCommitment;
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{Clock, RandomIds, SystemClock};
use remem_engine::registry::{self, PassMode};
use remem_engine::{Caller, Engine, EngineParts, HostKey};
use remem_store::{Directory, Store};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;

const ENTRIES: usize = 20_000;
const DUE: usize = 10_000;
/// The number of entries of one transaction while the store is filled.
const FILL: usize = 500;
/// The number of commitments of one memory: as many may have unfinished runs.
const COMMITMENTS_PER_MEMORY: usize = 500;
const HOUR_MS: i64 = 3_600_000;

/// The machine's clock plus an offset, so that future instants can be made due at once.
struct OffsetClock(AtomicI64);

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_ms(self.0.load(Ordering::SeqCst))
    }
}

struct CommitmentBench {
    engine: Arc<Engine>,
    caller: Caller,
    store: Arc<dyn Store>,
    clock: Arc<OffsetClock>,
}

fn to_anyhow(error: remem_engine::EngineError) -> anyhow::Error {
    anyhow!("{error}")
}

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure_inference(setup))?;
    let mut table = Table::new(&[
        "10,000 due at once",
        "fires/s",
        "lag p50",
        "lag p99",
        "peer: rows/s",
        "fires : rows",
    ]);
    let peer = sqlite_rows(&setup.new_folder("peer-")?)?;
    for runs in [false, true] {
        let sample = runtime.block_on(async {
            CommitmentBench::sqlite(setup)
                .await?
                .measure_firing(runs)
                .await
        })?;
        table.row(cells("SQLite", runs, &sample, peer));
    }
    let server = PostgresServer::start(setup)?;
    let peer = postgres_rows(&server.new_database()?)?;
    for runs in [false, true] {
        let database = server.new_database()?;
        let sample = runtime.block_on(async {
            CommitmentBench::postgres(&database.url)
                .await?
                .measure_firing(runs)
                .await
        })?;
        table.row(cells("PostgreSQL", runs, &sample, peer));
    }
    table.print("## Commitments: firing, from the instant to the commit");
    Ok(())
}

fn cells(store: &str, runs: bool, sample: &LatencySample, peer: f64) -> [String; 6] {
    let name = format!(
        "{store}, {}",
        if runs {
            "each starts a run"
        } else {
            "told only"
        }
    );
    let lag = [50.0, 99.0].map(|percent| ms(sample.percentile(percent)));
    let [p50, p99] = lag;
    [
        name,
        number(sample.rate()),
        p50,
        p99,
        number(peer),
        ratio(sample.rate(), peer),
    ]
}

impl CommitmentBench {
    async fn with_store(
        store: Arc<dyn Store>,
        directory: Arc<dyn Directory>,
    ) -> anyhow::Result<CommitmentBench> {
        let clock = Arc::new(OffsetClock(AtomicI64::new(0)));
        let parts = EngineParts::new(
            store.clone(),
            directory,
            clock.clone(),
            Arc::new(RandomIds),
            HostKey::new([7; 32]),
        );
        let engine = Arc::new(Engine::new(EngineParts {
            policy: Policy::default(),
            ..parts
        }));
        let tenant = TenantId::parse("bench").context("a tenant's name")?;
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
            trust: None,
        };
        engine.add_key("bench", request).await.map_err(to_anyhow)?;
        let caller = engine
            .authenticate("bench")
            .await
            .map_err(|denied| anyhow!("{denied}"))?;
        Ok(CommitmentBench {
            engine,
            caller,
            store,
            clock,
        })
    }

    async fn sqlite(setup: &Setup) -> anyhow::Result<CommitmentBench> {
        let location = Location::Folder(setup.new_folder("commitments")?);
        CommitmentBench::with_store(
            Arc::new(SqliteStore::open(location.clone(), 4)?),
            Arc::new(SqliteDirectory::open(&location)?),
        )
        .await
    }

    async fn postgres(url: &str) -> anyhow::Result<CommitmentBench> {
        let store = database::store(url).await?;
        let directory = Arc::new(store.directory());
        CommitmentBench::with_store(Arc::new(store), directory).await
    }

    async fn pass(&self, name: &str) -> anyhow::Result<u64> {
        let pass = registry::find(name).context("a pass")?;
        let report = self
            .engine
            .run_pass(pass, self.caller.tenant(), PassMode::Apply)
            .await
            .map_err(to_anyhow)?;
        Ok(report.examined)
    }

    /// Makes the commitments, makes them all due at one instant, and fires until none is left.
    async fn measure_firing(&self, runs: bool) -> anyhow::Result<LatencySample> {
        let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
        let workflow = workflow.as_object().cloned().unwrap_or_default();
        self.engine
            .put_workflow(&self.caller, "remind", workflow)
            .await
            .map_err(to_anyhow)?;
        let at = self.clock.now().plus_ms(HOUR_MS);
        let mut tasks = JoinSet::new();
        for first in 0..32 {
            let engine = self.engine.clone();
            let caller = self.caller.clone();
            tasks.spawn(async move {
                for n in (first..DUE).step_by(32) {
                    let delivery = Delivery {
                        workflow_id: runs.then(|| "remind".to_owned()),
                        ..Delivery::default()
                    };
                    let text = format!("Thing number {n} is to be done.");
                    let new = NewCommitment {
                        text,
                        at: Some(at),
                        delivery,
                        ..NewCommitment::default()
                    };
                    engine
                        .create_commitment(
                            &caller,
                            &format!("m{}", n / COMMITMENTS_PER_MEMORY),
                            new,
                            None,
                        )
                        .await?;
                }
                Ok::<(), remem_engine::EngineError>(())
            });
        }
        while let Some(made) = tasks.join_next().await {
            made?.map_err(to_anyhow)?;
        }
        let left = at.0 - self.clock.now().0;
        self.clock.0.fetch_add(left, Ordering::SeqCst);
        let begun = Instant::now();
        while self.pass("fire").await? > 0 {}
        let seconds = begun.elapsed().as_secs_f64();
        let notes = self
            .store
            .records(
                self.caller.tenant(),
                RecordKind::Firing,
                "",
                None,
                u32::MAX >> 1,
            )
            .await?;
        ensure!(notes.len() == DUE, "{} fired", notes.len());
        let lag =
            |note: &remem_core::Record| note.body["firedAt"].as_i64().unwrap_or_default() - at.0;
        Ok(LatencySample::new(
            notes
                .iter()
                .map(|note| lag(note).max(0).cast_unsigned() * 1_000_000)
                .collect(),
            seconds,
        ))
    }
}

/// Recognises commitments: in texts without one, and in texts that all have one.
async fn measure_inference(setup: &Setup) -> anyhow::Result<()> {
    let contents = Contents::new();
    let mut table = Table::new(&[
        "20,000 entries",
        "entries/s",
        "µs an entry",
        "peer: stored, µs",
        "read : stored",
    ]);
    for promises in [false, true] {
        let bench = CommitmentBench::sqlite(setup).await?;
        let text = |n: usize| match promises {
            false => contents.at(n),
            true => format!(
                "Remind me on 2027-05-03 at 10:30 to look at thing number {n}. {}",
                contents.at(n)
            ),
        };
        let begun = Instant::now();
        for first in (0..ENTRIES).step_by(FILL) {
            let drafts = (first..first + FILL)
                .map(|n| Draft {
                    content: text(n),
                    ..Draft::default()
                })
                .collect();
            bench
                .engine
                .put(&bench.caller, "m", drafts, None)
                .await
                .map_err(to_anyhow)?;
        }
        let stored = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        while bench.pass("infer").await? > 0 {}
        let read = begun.elapsed().as_secs_f64();
        let armed = bench
            .store
            .records(
                bench.caller.tenant(),
                RecordKind::Commitment,
                "",
                None,
                u32::MAX >> 1,
            )
            .await?
            .len();
        ensure!(
            armed == if promises { ENTRIES } else { 0 },
            "{armed} armed of texts that promise: {promises}"
        );
        let each = |seconds: f64| format!("{:.1}", seconds * 1e6 / ENTRIES as f64);
        let name = if promises {
            "all promise something"
        } else {
            "none does"
        };
        table.row([
            name.to_owned(),
            number(ENTRIES as f64 / read),
            each(read),
            each(stored),
            ratio(read, stored),
        ]);
    }
    table.print("## Commitments: promises read out of entries, on the embedded store");
    Ok(())
}

const ROWS: &str = "CREATE TABLE job (id INTEGER PRIMARY KEY, due INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0);
     CREATE INDEX job_due ON job (due) WHERE done = 0; CREATE TABLE fired (id INTEGER PRIMARY KEY, at INTEGER NOT NULL);";

/// One transaction for each row, as durable as the host's.
fn sqlite_rows(folder: &Path) -> anyhow::Result<f64> {
    let db = rusqlite::Connection::open(folder.join("peer.db"))?;
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    db.execute_batch(ROWS)?;
    db.execute_batch(&format!(
        "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {DUE}) INSERT INTO job SELECT i, 5, 0 FROM n"
    ))?;
    let begun = Instant::now();
    let mut rows = 0;
    loop {
        db.execute_batch("BEGIN IMMEDIATE")?;
        let claimed = db.query_row(
            "UPDATE job SET done = 1 WHERE id = (SELECT id FROM job WHERE done = 0 AND due <= 9 ORDER BY due LIMIT 1) RETURNING id",
            [],
            |row| row.get::<_, i64>(0),
        );
        let Ok(id) = claimed else { break };
        db.execute("INSERT INTO fired VALUES (?1, 7)", [id])?;
        db.execute_batch("COMMIT")?;
        rows += 1;
    }
    ensure!(rows == DUE, "{rows} rows");
    Ok(DUE as f64 / begun.elapsed().as_secs_f64())
}

/// One statement and one commit for each row, on one connection.
fn postgres_rows(database: &BenchDatabase<'_>) -> anyhow::Result<f64> {
    let session = SqlSession::open(&database.url)?;
    session.batch(&ROWS.replace("INTEGER", "bigint"))?;
    session.batch(&format!(
        "INSERT INTO job SELECT i, 5, 0 FROM generate_series(1, {DUE}) i; ANALYZE job"
    ))?;
    let claim = session.prepare(
        "WITH one AS (UPDATE job SET done = 1 WHERE id = (SELECT id FROM job WHERE done = 0 AND due <= 9 ORDER BY due
         FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id) INSERT INTO fired SELECT id, 7 FROM one RETURNING id",
    )?;
    let begun = Instant::now();
    let mut rows = 0;
    while !session.query(&claim, &[])?.is_empty() {
        rows += 1;
    }
    ensure!(rows == DUE, "{rows} rows");
    Ok(DUE as f64 / begun.elapsed().as_secs_f64())
}
