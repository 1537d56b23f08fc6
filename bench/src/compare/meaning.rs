//! The part of a round that needs an embedding model: making vectors, and searching by words and
//! meaning. It has servers of its own with a small memory, because a vector takes milliseconds,
//! which would hide the cost of every other write.

use super::Group;
use super::round::Round;
use super::side::{DataPlace, Pair, Side};
use super::workloads::{Workload, WorkloadResult, WorkloadTarget, batch, send};
use crate::client::{Client, Request, memory};
use crate::host::{KEY, ServerProcess};
use crate::reads::QueryWords;
use anyhow::bail;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const MEMORY: &str = "meaning";
const VECTORS_WAIT_MAX: Duration = Duration::from_secs(120);
/// The first number of texts and queries that only warm up.
const WARM_UP: usize = 60_000_000;

const WORKLOADS: [Workload; 2] = [
    // The first entry makes the server load the model.
    Workload {
        name: "put and pass embed, an entry",
        group: Group::Meaning,
        writes: true,
        prepare: Some(|t| embed(t, WARM_UP, 1).map(|_| ())),
        work: |t| embed(t, 0, t.scale.scaled(60)),
    },
    Workload {
        name: "search, hybrid",
        group: Group::Meaning,
        writes: false,
        prepare: Some(|t| searches(t, WARM_UP, 2).map(|_| ())),
        work: |t| searches(t, 0, t.scale.scaled(100)),
    },
];

pub fn round(round: &mut Round, models: &Path) -> anyhow::Result<()> {
    let compare = round.compare;
    let server = round.server;
    let places = Pair::make(round.number, |side| {
        let place = DataPlace::new(compare.setups.of(side), server)?;
        place.use_models_of(models)?;
        Ok(place)
    })?;
    let hosts = Pair::make(round.number, |side| places.of(side).serve())?;
    // PostgreSQL without pgvector stores no vectors.
    if !has_model(&hosts.base)? || !has_model(&hosts.with)? {
        let store = round.store;
        eprintln!("{store}: no vectors and no search by meaning, a host has no model there");
        return Ok(());
    }
    for (turn, workload) in WORKLOADS.iter().enumerate() {
        for side in Side::in_turn(round.number + turn) {
            round.measure(side, hosts.of(side), workload)?;
        }
    }
    hosts.base.stop()?;
    hosts.with.stop()
}

fn status(client: &mut Client) -> anyhow::Result<Value> {
    let ask = Request::get(KEY, "/v1/host/remembrancer/embeddings");
    Ok(serde_json::from_slice(client.send(&ask)?)?)
}

fn has_model(host: &ServerProcess) -> anyhow::Result<bool> {
    let status = status(&mut Client::connect(host.address())?)?;
    Ok(!status["current"].is_null())
}

/// Puts entries and waits until each has its vector.
fn embed(target: &WorkloadTarget, first: usize, count: usize) -> anyhow::Result<WorkloadResult> {
    let begun = Instant::now();
    let mut client = Client::connect(target.host.address())?;
    let texts = (first..first + count).map(|n| target.contents.at(n));
    client.send(&batch(MEMORY, texts))?;
    while begun.elapsed() < VECTORS_WAIT_MAX {
        let status = status(&mut client)?;
        let made: u64 = status["vectors"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|of| of["entries"].as_u64())
            .sum();
        if status["texts"].as_u64() == Some(made) {
            return Ok(WorkloadResult {
                operations: count,
                nanos: Vec::new(),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("not every entry got its vector")
}

fn searches(target: &WorkloadTarget, first: usize, count: usize) -> anyhow::Result<WorkloadResult> {
    send(target, 1, count, |n| {
        let query = QueryWords::Question
            .content_words(target.contents, first + n)
            .join(" ");
        let body = json!({"query": query, "mode": "hybrid"}).to_string();
        Request::post(KEY, &memory(MEMORY, "search"), &body)
    })
}
