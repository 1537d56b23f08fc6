//! `puts`: durable writes over HTTP. Beside each figure stands the disk's own floor, measured just before it: one flush
//! of 4 KiB after the other. With one client a put cannot beat it; with many, group commit should.

use crate::client::{Request, memory};
use crate::corpus::Contents;
use crate::host::{Host, KEY};
use crate::load::Load;
use crate::peer::Peer;
use crate::table::{Sample, Table, ms, number, ratio};
use crate::{Setup, floor};
use serde_json::json;
use std::time::Duration;

const BATCH: usize = 100;

struct Case {
    name: &'static str,
    clients: usize,
    /// Entries of one request.
    rows: usize,
    idempotent: bool,
}

const CASES: [Case; 6] = [
    Case { name: "put, 1 client", clients: 1, rows: 1, idempotent: false },
    Case { name: "put, 8 clients", clients: 8, rows: 1, idempotent: false },
    Case { name: "put, 64 clients", clients: 64, rows: 1, idempotent: false },
    Case { name: "put with Idempotency-Key, 64 clients", clients: 64, rows: 1, idempotent: true },
    Case { name: "batch of 100, 1 client", clients: 1, rows: BATCH, idempotent: false },
    Case { name: "batch of 100, 8 clients", clients: 8, rows: BATCH, idempotent: false },
];

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let contents = Contents::new();
    let heads = [
        "Writes",
        "entries/s",
        "p50",
        "p95",
        "p99",
        "requests per commit",
        "floor flushes/s",
        "entries/s : flushes/s",
        "entries/s : SQLite",
    ];
    let mut table = Table::new(&heads);
    let disk = floor::appends(setup.folder.path(), Duration::from_secs(1))?;
    let plain = Peer::open(&setup.fresh("peer-")?)?.puts(&contents, setup.run)?;
    let [p50, p95, p99] = plain.percentiles();
    let versus = ratio(plain.rate(), disk.rate());
    table.row([
        "peer: plain SQLite in process, 1 thread".to_owned(),
        number(plain.rate()),
        p50,
        p95,
        p99,
        "1".to_owned(),
        number(disk.rate()),
        versus,
    ]);
    for case in &CASES {
        let row = measure(setup, &contents, case, plain.rate())?;
        table.row(row);
    }
    let rewrite = floor::rewrites(setup.folder.path(), Duration::from_secs(1))?;
    let floors = [("floor: fdatasync of a 4 KiB append", &disk), ("floor: fdatasync of 4 KiB rewritten", &rewrite)];
    for (name, sample) in floors {
        let [p50, p95, p99] = sample.percentiles();
        table.row([name.to_owned(), number(sample.rate()), p50, p95, p99, "1".to_owned()]);
    }
    table.print("## Puts: durable writes over HTTP, texts of about 200 bytes");
    Ok(())
}

fn measure(setup: &Setup, contents: &Contents, case: &Case, plain: f64) -> anyhow::Result<Vec<String>> {
    let disk = floor::appends(setup.folder.path(), Duration::from_secs(1))?;
    let host = Host::start(setup, &setup.fresh("puts-")?)?;
    let load = Load { clients: case.clients, run: setup.run };
    let sample: Sample = load.drive(host.address(), |client, n| request(contents, case, client, n))?;
    let commits = host.metric("remem_commit_group_batches_count")?;
    let batches = host.metric("remem_commit_group_batches_sum")?;
    host.stop()?;
    let rate = sample.rate() * case.rows as f64;
    let [p50, p95, p99] = sample.percentiles();
    let grouped = ratio(batches, commits).replace(" ×", "");
    let row =
        [case.name.to_owned(), number(rate), p50, p95, p99, grouped, number(disk.rate()), ratio(rate, disk.rate()), ratio(rate, plain)];
    eprintln!("{}: {} in {}", case.name, sample.count(), ms(setup.run.as_secs_f64() * 1e3));
    Ok(row.to_vec())
}

fn request(contents: &Contents, case: &Case, client: usize, n: usize) -> Request {
    let text = |row: usize| json!({"content": contents.at((n * case.clients + client) * case.rows + row)});
    if case.rows > 1 {
        let entries: Vec<_> = (0..case.rows).map(text).collect();
        return Request::post(KEY, &memory("puts", "entries:batch"), &json!({"entries": entries}).to_string());
    }
    let key = case.idempotent.then(|| format!("key-{client}-{n}"));
    Request::keyed_post(KEY, &memory("puts", "entries"), &text(0).to_string(), key.as_deref())
}
