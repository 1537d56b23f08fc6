//! `postgres`: the host on PostgreSQL compared with the host on SQLite, and with the plain way to
//! use PostgreSQL, all in one run on one disk. This file owns the order and the writes; reads and
//! many nodes have files of their own.

use crate::core_usage::{self, CoreUsage};
use crate::corpus::{Contents, Corpus};
use crate::database::{PostgresServer, start_node};
use crate::host::ServerProcess;
use crate::postgres_peer::{self, InsertMode};
use crate::puts::{PutCase, PutMeasurement, flushes, measure};
use crate::table::{LatencySample, Table, ms, number, ratio};
use crate::{Setup, floor, nodes, postgres_reads};
use anyhow::Context;
use std::time::Duration;

const CASES: [PutCase; 4] = [
    PutCase {
        name: "put, 1 client",
        clients: 1,
        rows: 1,
        idempotent: false,
    },
    PutCase {
        name: "put, 8 clients",
        clients: 8,
        rows: 1,
        idempotent: false,
    },
    PutCase {
        name: "put, 64 clients",
        clients: 64,
        rows: 1,
        idempotent: false,
    },
    PutCase {
        name: "batch of 100, 8 clients",
        clients: 8,
        rows: 100,
        idempotent: false,
    },
];

/// Runs all parts; returns the processor time that the server used, in ticks.
pub fn run(setup: &Setup, corpus: &mut Corpus) -> anyhow::Result<u64> {
    let server = PostgresServer::start(setup)?;
    eprintln!("PostgreSQL: {}", server.settings()?);
    puts(setup, &server)?;
    let database = server.new_database()?;
    let url = postgres_reads::run(setup, &server, corpus, &database)?;
    nodes::run(setup, &server, &corpus.contents, &url)?;
    drop(database);
    Ok(server.ticks())
}

/// One row of the table.
struct Figure {
    name: String,
    rows: usize,
    measured: PutMeasurement,
    cores: [String; 3],
}

impl Figure {
    fn rate(&self) -> f64 {
        self.measured.sample.rate() * self.rows as f64
    }
}

fn puts(setup: &Setup, server: &PostgresServer) -> anyhow::Result<()> {
    let contents = Contents::new();
    let second = Duration::from_secs(1);
    let mut appends = Vec::new();
    let mut rewrites = Vec::new();
    let mut commits = Vec::new();
    let mut cases = Vec::new();
    for case in &CASES {
        appends.push(flushes(setup)?);
        rewrites.push(floor::rewrites(setup.folder.path(), second)?);
        commits.push(postgres_peer::commits(server, second)?);
        cases.push((case, figures(setup, server, &contents, case)?));
    }
    let mut table = Table::new(&[&HEADS[..], &core_usage::HEADS[..]].concat());
    let commit = best(commits)?;
    for (name, sample) in [("append", best(appends)?), ("rewrite", best(rewrites)?)] {
        floor_row(
            &mut table,
            &format!("floor: fdatasync of a 4 KiB {name}"),
            &sample,
            &commit,
        );
    }
    floor_row(
        &mut table,
        "floor: commit of one record, 1 connection",
        &commit,
        &commit,
    );
    for (case, figures) in &cases {
        let peer = figures
            .iter()
            .find(|figure| figure.name == PEER)
            .map_or(0.0, Figure::rate);
        for figure in figures {
            let rate = figure.rate();
            let sample = &figure.measured.sample;
            let latency = [50.0, 99.0].map(|percent| ms(sample.percentile(percent)));
            let grouped = number(figure.measured.requests_per_commit);
            let ratios = [ratio(rate, peer), ratio(rate, commit.rate())];
            let cells = [format!("{}: {}", case.name, figure.name), number(rate)]
                .into_iter()
                .chain(latency);
            table.row(
                cells
                    .chain([grouped])
                    .chain(ratios)
                    .chain(figure.cores.clone()),
            );
        }
    }
    table.print("## PostgreSQL, puts: durable writes, texts of about 200 bytes");
    println!(
        "\n{}. Each figure has a database of its own.\n{NOTES}",
        server.settings()?
    );
    Ok(())
}

const HEADS: [&str; 7] = [
    "Writes",
    "entries/s",
    "p50",
    "p99",
    "requests per commit",
    "entries/s : peer",
    "entries/s : commits/s",
];
const PEER: &str = "peer, an INSERT an entry";
const NOTES: &str = "The peer is the design of the OpenWOP reference host: one autocommitted INSERT a write on a connection of the client's \
    own. It has no HTTP, API keys, redaction, search index, events, hash chain, idempotency, revisions or row-level security. \
    INSERTs of 100 rows are not part of that design; they show what the statement alone costs. PostgreSQL shares a flush among \
    connections by itself, so the peer's requests per commit are 1 and its flushes fewer than its commits.";

fn figures(
    setup: &Setup,
    server: &PostgresServer,
    contents: &Contents,
    case: &PutCase,
) -> anyhow::Result<Vec<Figure>> {
    let database = server.new_database()?;
    let postgres = start_node(setup, &database.migrate(setup)?)?;
    let mut figures = vec![host(
        setup,
        server,
        contents,
        case,
        "remem on PostgreSQL",
        postgres,
    )?];
    drop(database);
    let sqlite = ServerProcess::start(setup, &setup.new_folder("puts-")?)?;
    figures.push(host(
        setup,
        server,
        contents,
        case,
        "remem on SQLite",
        sqlite,
    )?);
    figures.push(peer(
        setup,
        server,
        contents,
        case,
        PEER,
        InsertMode::OneByOne,
    )?);
    if case.rows > 1 {
        figures.push(peer(
            setup,
            server,
            contents,
            case,
            "one INSERT for all",
            InsertMode::Together,
        )?);
    }
    Ok(figures)
}

fn host(
    setup: &Setup,
    server: &PostgresServer,
    contents: &Contents,
    case: &PutCase,
    name: &str,
    host: ServerProcess,
) -> anyhow::Result<Figure> {
    let watch = CoreUsage::start(server, &[&host]);
    let measured = measure(setup, contents, case, &host)?;
    let cores = watch.cells(server, &[&host]);
    host.stop()?;
    Ok(Figure {
        name: name.to_owned(),
        rows: case.rows,
        measured,
        cores,
    })
}

fn peer(
    setup: &Setup,
    server: &PostgresServer,
    contents: &Contents,
    case: &PutCase,
    name: &str,
    many: InsertMode,
) -> anyhow::Result<Figure> {
    let database = server.new_database()?;
    let watch = CoreUsage::start(server, &[]);
    let sample = postgres_peer::puts(&database, contents, case, many, setup.run_time)?;
    let cores = watch.cells(server, &[]);
    eprintln!("{}, {name}: {}", case.name, sample.count());
    Ok(Figure {
        name: name.to_owned(),
        rows: case.rows,
        measured: PutMeasurement {
            sample,
            requests_per_commit: 1.0,
        },
        cores,
    })
}

/// The fastest sample: other load on the machine can only slow a floor down.
fn best(samples: Vec<LatencySample>) -> anyhow::Result<LatencySample> {
    samples
        .into_iter()
        .max_by(|a, b| a.rate().total_cmp(&b.rate()))
        .context("the floor was measured")
}

fn floor_row(table: &mut Table, name: &str, sample: &LatencySample, commit: &LatencySample) {
    let latency = [50.0, 99.0].map(|percent| ms(sample.percentile(percent)));
    let cells = [name.to_owned(), number(sample.rate())]
        .into_iter()
        .chain(latency);
    table.row(cells.chain([
        number(1.0),
        String::new(),
        ratio(sample.rate(), commit.rate()),
    ]));
}
