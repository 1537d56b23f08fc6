//! `puts`: durable writes over HTTP, against the disk's own floor, measured before each of them:
//! one flush of 4 KiB after the other. With one client a put cannot be faster than the floor; with
//! many, group commit should be.

use crate::client::{Request, memory};
use crate::corpus::Contents;
use crate::host::{KEY, ServerProcess};
use crate::load::Load;
use crate::peer::Peer;
use crate::table::{LatencySample, Table, ms, number, ratio};
use crate::{Setup, floor};
use anyhow::Context;
use serde_json::json;
use std::time::Duration;

const BATCH: usize = 100;

pub struct PutCase {
    pub name: &'static str,
    pub clients: usize,
    /// The number of entries of one request.
    pub rows: usize,
    pub idempotent: bool,
}

const CASES: [PutCase; 6] = [
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
        name: "put with Idempotency-Key, 64 clients",
        clients: 64,
        rows: 1,
        idempotent: true,
    },
    PutCase {
        name: "batch of 100, 1 client",
        clients: 1,
        rows: BATCH,
        idempotent: false,
    },
    PutCase {
        name: "batch of 100, 8 clients",
        clients: 8,
        rows: BATCH,
        idempotent: false,
    },
];

pub struct PutMeasurement {
    pub sample: LatencySample,
    /// The number of requests that shared a flush.
    pub requests_per_commit: f64,
}

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let contents = Contents::new();
    let mut floors = vec![flushes(setup)?];
    let plain = Peer::open(&setup.new_folder("peer-")?)?.puts(&contents, setup.run_time)?;
    let mut measured = Vec::new();
    for case in &CASES {
        floors.push(flushes(setup)?);
        let host = ServerProcess::start(setup, &setup.new_folder("puts-")?)?;
        measured.push(measure(setup, &contents, case, &host)?);
        host.stop()?;
    }
    // Other load on the machine can only slow a flush down: the best measured value is the nearest
    // to the speed of the disk.
    let floor = floors
        .into_iter()
        .max_by(|a, b| a.rate().total_cmp(&b.rate()))
        .context("the floor was measured")?;
    let heads = [
        "Writes",
        "entries/s",
        "p50",
        "p95",
        "p99",
        "requests per commit",
        "entries/s : flushes/s",
        "entries/s : SQLite",
    ];
    let mut table = Table::new(&heads);
    let mut row = |name: &str, rate: f64, sample: &LatencySample, grouped: f64| {
        let [p50, p95, p99] = sample.percentiles();
        table.row([
            name.to_owned(),
            number(rate),
            p50,
            p95,
            p99,
            number(grouped),
            ratio(rate, floor.rate()),
            ratio(rate, plain.rate()),
        ]);
    };
    row(
        "floor: fdatasync of a 4 KiB append",
        floor.rate(),
        &floor,
        1.0,
    );
    row(
        "peer: plain SQLite in process, 1 thread",
        plain.rate(),
        &plain,
        1.0,
    );
    for (
        case,
        PutMeasurement {
            sample,
            requests_per_commit,
        },
    ) in CASES.iter().zip(&measured)
    {
        row(
            case.name,
            sample.rate() * case.rows as f64,
            sample,
            *requests_per_commit,
        );
    }
    table.print("## Puts: durable writes over HTTP, texts of about 200 bytes");
    Ok(())
}

pub fn flushes(setup: &Setup) -> anyhow::Result<LatencySample> {
    floor::appends(setup.folder.path(), Duration::from_secs(1))
}

pub fn measure(
    setup: &Setup,
    contents: &Contents,
    case: &PutCase,
    host: &ServerProcess,
) -> anyhow::Result<PutMeasurement> {
    let load = Load {
        clients: case.clients,
        run: setup.run_time,
    };
    let sample: LatencySample = load.run_against(host.address(), |client, n| {
        request(contents, case, client, n)
    })?;
    let commits = host.metric("remem_commit_group_batches_count")?;
    let requests = host.metric("remem_commit_group_batches_sum")?;
    eprintln!(
        "{}: {} in {}",
        case.name,
        sample.count(),
        ms(setup.run_time.as_secs_f64() * 1e3)
    );
    Ok(PutMeasurement {
        sample,
        requests_per_commit: requests / commits.max(1.0),
    })
}

fn request(contents: &Contents, case: &PutCase, client: usize, n: usize) -> Request {
    let text =
        |row: usize| json!({"content": contents.at((n * case.clients + client) * case.rows + row)});
    if case.rows > 1 {
        let entries: Vec<_> = (0..case.rows).map(text).collect();
        return Request::post(
            KEY,
            &memory("puts", "entries:batch"),
            &json!({"entries": entries}).to_string(),
        );
    }
    let key = case.idempotent.then(|| format!("key-{client}-{n}"));
    Request::keyed_post(
        KEY,
        &memory("puts", "entries"),
        &text(0).to_string(),
        key.as_deref(),
    )
}
