//! `flood`: the latency of one tenant's clients while another tenant sends batches of texts made to
//! be expensive. The floor is the same host without the flood.

use crate::Setup;
use crate::client::{Client, Request, memory};
use crate::host::{KEY, ServerProcess};
use crate::load::Load;
use crate::redact::hostile_texts::hostile_texts;
use crate::table::{Table, number};
use anyhow::Context;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of flooding clients, each of which sends its next batch when the last one is
/// answered.
const FLOODERS: usize = 8;
/// The sizes of one text and of the texts of a batch: the largest that the host accepts.
const TEXT_BYTES: usize = 60_000;
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// The number of clients of the other tenant.
const CLIENTS: usize = 2;

pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let host = ServerProcess::start(setup, &setup.new_folder("flood-")?)?;
    let address = host.address();
    let keys = "/v1/host/remembrancer/keys";
    let wanted = json!({"tenant": "other", "scopes": ["memory:read", "memory:write"]});
    let mut client = Client::connect(address)?;
    let key = client.send(&Request::post(KEY, keys, &wanted.to_string()))?;
    let key = text_of(key, "key")?;
    let body = json!({"content": "a small note"}).to_string();
    let put = client.send(&Request::post(&key, &memory("m", "entries"), &body))?;
    let entry = memory("m", &format!("entries/{}", text_of(put, "id")?));
    let heads = ["Flood", "requests/s", "p50", "p95", "p99"];
    let mut table = Table::new(&heads);
    measure(setup, address, &key, &entry, "alone", &mut table)?;
    let is_over = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    let batches = batches();
    let measured = std::thread::scope(|scope| {
        for number in 0..FLOODERS {
            let batches = &batches[number..];
            let is_over = &is_over;
            let answered = &answered;
            scope.spawn(move || flood(address, batches, is_over, answered));
        }
        let measured = measure(setup, address, &key, &entry, "flooded", &mut table);
        is_over.store(true, Ordering::SeqCst);
        measured
    });
    measured?;
    table.print("## Flood: one tenant's small requests beside another's costly ones");
    println!(
        "\n{} batches of {} MB were answered meanwhile.",
        answered.load(Ordering::SeqCst),
        number(BATCH_BYTES as f64 / 1e6)
    );
    Ok(())
}

fn text_of(answer: &[u8], name: &str) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_slice(answer)?;
    let text = answer[name].as_str();
    Ok(text.context("the answer lacks a field")?.to_owned())
}

fn measure(
    setup: &Setup,
    address: SocketAddr,
    key: &str,
    entry: &str,
    when: &str,
    table: &mut Table,
) -> anyhow::Result<()> {
    let load = Load {
        clients: CLIENTS,
        run: setup.run_time,
    };
    for (name, path) in [("/health", "/health"), ("get", entry)] {
        let sample = load.run_against(address, |_, _| Request::get(key, path))?;
        let [median, p95, p99] = sample.percentiles();
        let rate = number(sample.rate());
        table.row([format!("{name}, {when}"), rate, median, p95, p99]);
    }
    Ok(())
}

/// Batches of each family of the hostile corpus.
fn batches() -> Vec<Request> {
    let texts = hostile_texts(TEXT_BYTES).into_iter();
    let batch = |(_, text): (&str, String)| {
        let entries = vec![json!({"content": text}); BATCH_BYTES / TEXT_BYTES];
        let body = json!({"entries": entries}).to_string();
        Request::post(KEY, &memory("~%2Fflood", "entries:batch"), &body)
    };
    texts.map(batch).collect()
}

/// Sends batches until the flag is set. A refusal counts as an answer, too.
fn flood(address: SocketAddr, batches: &[Request], is_over: &AtomicBool, answered: &AtomicUsize) {
    for batch in batches.iter().cycle() {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        if let Ok(mut client) = Client::connect(address) {
            let _ = client.send(batch);
            answered.fetch_add(1, Ordering::SeqCst);
        }
    }
}
