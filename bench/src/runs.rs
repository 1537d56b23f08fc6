//! `runs`: whole runs over HTTP, from the start to the arrival of the last event, compared with the
//! cost of two durable puts on the same host: a run is at least two commits, one to begin and one
//! to end.

use crate::Setup;
use crate::client::{Client, Request, memory};
use crate::host::{KEY, ServerProcess};
use crate::load::Load;
use crate::table::{LatencySample, Table, ms, number, ratio};
use anyhow::Context;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Instant;

struct RunCase {
    name: &'static str,
    workflow: &'static str,
    clients: usize,
}

const CASES: [RunCase; 4] = [
    RunCase {
        name: "nothing but a run, 1 client",
        workflow: "conformance-idempotent",
        clients: 1,
    },
    RunCase {
        name: "nothing but a run, 8 clients",
        workflow: "conformance-idempotent",
        clients: 8,
    },
    RunCase {
        name: "nothing but a run, 64 clients",
        workflow: "conformance-idempotent",
        clients: 64,
    },
    RunCase {
        name: "write and read back, 8 clients",
        workflow: "conformance-agent-memory-redaction",
        clients: 8,
    },
];

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let heads = [
        "Runs",
        "runs/s",
        "p50",
        "p95",
        "p99",
        "events/s",
        "commits/s",
        "puts/s beside",
        "2 × runs : puts",
    ];
    let mut table = Table::new(&heads);
    for case in &CASES {
        let host = ServerProcess::start_with(
            setup,
            &setup.new_folder("runs-")?,
            &["--enable-test-seams"],
        )?;
        let load = Load {
            clients: case.clients,
            run: setup.run_time,
        };
        let puts = load.run_against(host.address(), |client, n| {
            Request::post(
                KEY,
                &memory("puts", "entries"),
                &json!({"content": format!("put {n} of client {client}")}).to_string(),
            )
        })?;
        let before = host.metric("remem_commit_group_batches_sum")?;
        let runs: LatencySample =
            load.run_clients(|_| run_client(host.address(), case.workflow))?;
        // The warm-up commits, too, and lasts a fifth of the counted time.
        let commits = (host.metric("remem_commit_group_batches_sum")? - before)
            / (setup.run_time.as_secs_f64() * 1.2);
        let events = events_of(host.address(), case.workflow)?;
        eprintln!(
            "{}: {} in {}",
            case.name,
            runs.count(),
            ms(setup.run_time.as_secs_f64() * 1e3)
        );
        let [p50, p95, p99] = runs.percentiles();
        let rate = runs.rate();
        let beside = puts.rate();
        let cells = [
            p50,
            p95,
            p99,
            number(rate * events as f64),
            number(commits),
            number(beside),
            ratio(2.0 * rate, beside),
        ];
        table.row(
            [case.name.to_owned(), number(rate)]
                .into_iter()
                .chain(cells),
        );
        host.stop()?;
    }
    table.print("## Runs: from the request to the last event, over HTTP");
    Ok(())
}

/// A client that starts a run and waits for its last event, over and over.
pub fn run_client(
    address: SocketAddr,
    workflow: &'static str,
) -> anyhow::Result<impl FnMut(usize) -> anyhow::Result<Instant> + Send> {
    let mut client = Client::connect(address)?;
    Ok(move |n| {
        let body =
            json!({"workflowId": workflow, "inputs": {"nonce": format!("n{n}")}}).to_string();
        let sent = Instant::now();
        let id = start(&mut client, &body)?;
        wait(&mut client, &id)?;
        Ok(sent)
    })
}

fn start(client: &mut Client, body: &str) -> anyhow::Result<String> {
    let created: Value =
        serde_json::from_slice(client.send(&Request::post(KEY, "/v1/runs", body))?)?;
    Ok(created["runId"]
        .as_str()
        .context("a run has a name")?
        .to_owned())
}

/// Waits for the end of a run; returns the number of its events.
fn wait(client: &mut Client, id: &str) -> anyhow::Result<usize> {
    let mut seen = 1; // the first event exists when the start is answered
    loop {
        let path = format!(
            "/v1/runs/{id}/events/poll?lastSequence={}&timeout=10",
            seen - 1
        );
        let page: Value = serde_json::from_slice(client.send(&Request::get(KEY, &path))?)?;
        seen += page["events"].as_array().map_or(0, Vec::len);
        if page["isComplete"] == true {
            return Ok(seen);
        }
    }
}

fn events_of(address: SocketAddr, workflow: &str) -> anyhow::Result<usize> {
    let mut client = Client::connect(address)?;
    let id = start(
        &mut client,
        &json!({"workflowId": workflow, "inputs": {"nonce": "n"}}).to_string(),
    )?;
    wait(&mut client, &id)
}
