//! `guard`: the cost of the rule guard, which refuses entries that restate a rule. Writes of one
//! client into a world with 20,000 rules, on both stores in this process, compared with unguarded
//! writes; and the check alone compared with the literal one, which compares with every rule.

use crate::Setup;
use crate::database::{self, BenchDatabase, PostgresServer, SqlSession};
use crate::table::{LatencySample, Table, ms, ratio};
use anyhow::{Context, anyhow, ensure};
use remem_core::{
    Admission, Admitted, Batch, Draft, EntryId, Facets, MemoryRef, Policy, Redactor, RuleId, Scope,
    TenantId, Timestamp, WorldId,
};
use remem_store::Store;
use remem_store_sql::{Location, SqliteStore};
use std::time::Instant;

const RULES: usize = 20_000;
/// The number of rules of one transaction.
const FILL: usize = 500;
/// The number of writes of each figure, and of checks by the literal peer, each of which takes as
/// long as hundreds of others.
const WRITES: usize = 2_000;
const LITERAL_CHECKS: usize = 40;
const NOW: Timestamp = Timestamp(1_700_000_000_000);
const ONSETS: [&str; 19] = [
    "b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "st", "tr",
    "pl",
];
const VOWELS: [&str; 7] = ["a", "e", "i", "o", "u", "ea", "ou"];
/// The number of different words: about as many as a handbook uses.
const VOCABULARY: u64 = 3_000;

fn next(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

/// A word of two to four syllables.
fn word(number: u64) -> String {
    let mut seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..2 + next(&mut seed) % 3)
        .map(|_| {
            [
                ONSETS[next(&mut seed) % ONSETS.len()],
                VOWELS[next(&mut seed) % VOWELS.len()],
            ]
            .concat()
        })
        .collect()
}

/// A text of about 210 characters that resembles no other one.
fn text(n: usize) -> String {
    let mut seed = n as u64;
    let mut text = format!("Rule {n}:");
    while text.len() < 200 {
        text.push(' ');
        text.push_str(&word(next(&mut seed) as u64 % VOCABULARY));
    }
    text
}

fn admission<R>(with: impl FnOnce(&Admission<'_>) -> R) -> R {
    let policy = Policy::default();
    let redactor = Redactor::empty();
    with(&Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOW,
    })
}

fn world(name: &str) -> anyhow::Result<WorldId> {
    WorldId::parse(name).context("a world's name")
}

fn scope() -> anyhow::Result<Scope> {
    Ok(Scope::new(
        TenantId::parse("bench").context("a tenant's name")?,
        MemoryRef::parse("m").context("a memory's name")?,
    ))
}

fn statement(n: usize, world: &WorldId) -> anyhow::Result<Admitted> {
    let facets = Facets {
        world: world.clone(),
        ..Facets::default()
    };
    let draft = Draft {
        content: text(n),
        facets,
        ..Draft::default()
    };
    admission(|admission| {
        admission
            .admit(&scope()?, draft)
            .map_err(|refused| anyhow!("{refused:?}"))
    })
}

async fn fill(store: &dyn Store) -> anyhow::Result<()> {
    let tenant = scope()?.tenant;
    let rules = world("w1")?;
    for first in (0..RULES).step_by(FILL) {
        let mut batch = Batch::new(tenant.clone(), NOW);
        for n in first..first + FILL {
            let body = admission(|admission| admission.admit_rule(&text(n)))
                .map_err(|refused| anyhow!("{refused:?}"))?;
            batch = batch.set_rule(
                rules.clone(),
                RuleId::parse(&format!("r{n}")).context("a rule's name")?,
                Some(body),
            );
        }
        store.commit(batch).await?;
    }
    Ok(())
}

/// Writes texts that restate nothing, one after the other.
async fn measure_writes(
    store: &dyn Store,
    kind: &str,
    world: &WorldId,
) -> anyhow::Result<LatencySample> {
    let tenant = scope()?.tenant;
    let mut nanos = Vec::with_capacity(WRITES);
    let begun = Instant::now();
    for n in 0..WRITES {
        let id = EntryId::parse(&format!("{kind}{n}")).context("an entry's name")?;
        let batch = Batch::new(tenant.clone(), NOW).put(id, statement(RULES + n, world)?);
        let sent = Instant::now();
        store.commit(batch).await?;
        nanos.push(sent.elapsed().as_nanos() as u64);
    }
    Ok(LatencySample::new(nanos, begun.elapsed().as_secs_f64()))
}

/// Runs the check alone; every other text restates a rule.
async fn measure_checks(store: &dyn Store) -> anyhow::Result<LatencySample> {
    let tenant = scope()?.tenant;
    let rules = world("w1")?;
    let mut nanos = Vec::with_capacity(WRITES);
    let begun = Instant::now();
    for n in 0..WRITES {
        let text_to_check = if n % 2 == 0 {
            text(RULES + n)
        } else {
            text(n * 7).to_uppercase()
        };
        let sent = Instant::now();
        let hit = store.restated_rule(&tenant, &rules, &text_to_check).await?;
        nanos.push(sent.elapsed().as_nanos() as u64);
        ensure!(
            hit.is_some() == (n % 2 == 1),
            "text {n} restates a rule: {}",
            hit.is_some()
        );
    }
    Ok(LatencySample::new(nanos, begun.elapsed().as_secs_f64()))
}

/// The named peer: the condition as it is documented, over every rule of the world.
fn measure_literal_checks(database: &BenchDatabase<'_>) -> anyhow::Result<LatencySample> {
    let session = SqlSession::open(&database.url)?;
    let sql = "SELECT max(similarity(body, $1)) > 0.85::real FROM remem.rule WHERE tenant_id = 'bench' AND world = 'w1'";
    let statement = session.prepare(sql)?;
    let mut nanos = Vec::with_capacity(LITERAL_CHECKS);
    let begun = Instant::now();
    for n in 0..LITERAL_CHECKS {
        let text_to_check = if n % 2 == 0 {
            text(RULES + n)
        } else {
            text(n * 7).to_uppercase()
        };
        let sent = Instant::now();
        let rows = session.query(&statement, &[&text_to_check])?;
        nanos.push(sent.elapsed().as_nanos() as u64);
        ensure!(
            rows.first()
                .is_some_and(|row| row.get::<_, bool>(0) == (n % 2 == 1)),
            "the peer says otherwise of text {n}"
        );
    }
    Ok(LatencySample::new(nanos, begun.elapsed().as_secs_f64()))
}

fn row(name: &str, sample: &LatencySample, beside: &LatencySample) -> Vec<String> {
    let mut cells = vec![name.to_owned(), sample.count().to_string()];
    cells.extend(sample.percentiles());
    cells.push(ratio(sample.percentile(50.0), beside.percentile(50.0)));
    cells.push(ratio(sample.percentile(95.0), beside.percentile(95.0)));
    cells
}

async fn figures(
    table: &mut Table,
    name: &str,
    store: &dyn Store,
) -> anyhow::Result<LatencySample> {
    let free = measure_writes(store, "free", &world("-")?).await?;
    let guarded = measure_writes(store, "guarded", &world("w1")?).await?;
    let looked = measure_checks(store).await?;
    table.row(row(
        &format!("{name}, write that is not guarded"),
        &free,
        &free,
    ));
    table.row(row(&format!("{name}, guarded write"), &guarded, &free));
    table.row(row(&format!("{name}, the look alone"), &looked, &free));
    Ok(looked)
}

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut table = Table::new(&[
        "20,000 rules in the world",
        "times",
        "p50",
        "p95",
        "p99",
        "p50 : not guarded",
        "p95 : not guarded",
    ]);
    let sqlite = SqliteStore::open(Location::Folder(setup.new_folder("guard")?), 2)?;
    runtime.block_on(async {
        fill(&sqlite).await?;
        figures(&mut table, "SQLite", &sqlite).await
    })?;
    let server = PostgresServer::start(setup)?;
    println!("PostgreSQL: {}", server.settings()?);
    let database = server.new_database()?;
    let looked = runtime.block_on(async {
        let store = database::store(&database.url).await?;
        let begun = Instant::now();
        fill(&store).await?;
        eprintln!(
            "{RULES} rules written in {}",
            ms(begun.elapsed().as_secs_f64() * 1e3)
        );
        figures(&mut table, "PostgreSQL", &store).await
    })?;
    let literal = measure_literal_checks(&database)?;
    table.row(row(
        "PostgreSQL, peer: max(similarity()) over every rule",
        &literal,
        &looked,
    ));
    table.print("## Guard: writes of one client beside 20,000 rules of about 210 characters (the peer's ratio is to the look)");
    Ok(())
}
