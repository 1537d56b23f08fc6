//! Proves that commitments fire once, with many nodes and through their failures:
//! three real nodes over one PostgreSQL are killed (SIGKILL) and paused (SIGSTOP) again and again
//! while promises are read and come due.
//!
//! `REMEM_TEST_CASES` makes it larger, with as many more kills; the lag is printed, and not judged.

use crate::common::client::{BASE, finish};
use crate::common::{Client, ServerProcess, place, remem, run};
use remem_testkit::{SeededRandom, cases};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const NODES: usize = 3;
/// Commitments of the first memory start a run each; those of the second only write an event.
const MEMORIES: [&str; 2] = ["agent/acts", "agent/tells"];
/// A pause that outlasts the lease of the pass, which is 3 seconds.
const LONG_PAUSE: Duration = Duration::from_millis(3_600);
/// From the last entry to the first instant, and from there to the last.
const AHEAD_MS: u64 = 12_000;
const SPREAD_MS: u64 = 20_000;
/// Kills and pauses for each 1,000 commitments.
const BLOWS: usize = 54;
const PATIENCE: Duration = Duration::from_secs(300);

/// Number of commitments of the test.
fn count() -> usize {
    cases(200, 1_000) as usize
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

struct Nodes {
    folder: TempDir,
    database: String,
    servers: Vec<ServerProcess>,
}

/// Counts of the kills and pauses of nodes.
#[derive(Debug, Default)]
struct FaultCounts {
    kills: usize,
    pauses: usize,
    long_pauses: usize,
}

impl Nodes {
    fn start() -> Nodes {
        let folder = tempfile::tempdir().unwrap();
        let database = place::new_database(&place::server_url());
        let mut nodes = Nodes {
            folder,
            database,
            servers: Vec::new(),
        };
        for number in 0..NODES {
            let server = nodes.another(number);
            nodes.servers.push(server);
        }
        nodes
    }

    fn another(&self, number: usize) -> ServerProcess {
        ServerProcess::start_with(
            &self.folder.path().join(number.to_string()),
            &["--database", &self.database],
            &[],
        )
    }

    fn psql(&self, sql: &str) -> String {
        place::psql(
            &place::as_superuser(&place::server_url(), &self.database),
            sql,
        )
    }

    /// Kills or pauses one node: each has the lease of the pass for a third of the time.
    fn strike(&mut self, random: &mut SeededRandom, faults: &mut FaultCounts) {
        let number = random.below(NODES as u64) as usize;
        match random.below(8) {
            0..=1 => {
                faults.kills += 1;
                self.servers[number].kill9();
                self.servers[number] = self.another(number);
            }
            dice => {
                let long = dice == 2 && faults.long_pauses < faults.kills / 4 + 1;
                (faults.pauses, faults.long_pauses) =
                    (faults.pauses + 1, faults.long_pauses + usize::from(long));
                self.servers[number].signal("STOP");
                std::thread::sleep(if long {
                    LONG_PAUSE
                } else {
                    Duration::from_millis(50 + random.below(400))
                });
                self.servers[number].signal("CONT");
            }
        }
    }

    /// Returns the notes of all fires so far.
    fn fired(&self) -> usize {
        self.psql("SELECT count(*) FROM remem.record WHERE kind = 'fire'")
            .trim()
            .parse()
            .unwrap()
    }
}

/// The workflow that commitments of the first memory start.
async fn prepare(client: &Client) {
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    let put = client
        .request(Method::PUT, &format!("{BASE}/workflows/remind"))
        .json(&workflow);
    assert!(finish(put).await.unwrap().status < 300);
    let rules = json!({"arm": "auto", "delivery": {"workflowId": "remind"}});
    finish(
        client
            .request(
                Method::PUT,
                &Client::memory(MEMORIES[0], "commitment-rules"),
            )
            .json(&rules),
    )
    .await
    .unwrap()
    .is(200);
}

/// Writes texts that promise something at instants that lie close together.
async fn promise(nodes: &Nodes, count: usize) {
    let clients: Vec<Client> = nodes.servers.iter().map(ServerProcess::client).collect();
    // Writing takes about this long; the test does not depend on it.
    let first = now_ms() + AHEAD_MS + 8 * count as u64;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let clients = clients.clone();
        tasks.spawn(async move {
            for n in (writer..count).step_by(16) {
                let at = jiff::Timestamp::from_second(
                    ((first + n as u64 * SPREAD_MS / count as u64) / 1_000).cast_signed(),
                )
                .unwrap();
                let body =
                    json!({"content": format!("Remind me at {at} to look at thing number {n}.")});
                let path = Client::memory(MEMORIES[n % 2], "entries");
                let sent = clients[n % NODES]
                    .request(Method::POST, &path)
                    .header("idempotency-key", n.to_string())
                    .json(&body);
                let mut status = finish(sent.try_clone().unwrap()).await.unwrap().status;
                while status == 503 {
                    status = finish(sent.try_clone().unwrap()).await.unwrap().status;
                }
                assert_eq!(status, 201);
            }
        });
    }
    tasks.join_all().await;
}

/// Returns the fires and the started runs that the event log reports.
fn check(events: &[Value], count: usize) {
    let mut fired = BTreeMap::new();
    let mut sources = BTreeSet::new();
    let mut begun = BTreeMap::new();
    let mut enqueued = BTreeSet::new();
    for event in events {
        let payload = &event["payload"];
        match event["type"].as_str().unwrap() {
            "run.started" => {
                let run = event["runId"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{event}"))
                    .to_owned();
                assert!(
                    begun.insert(run, event["revision"].clone()).is_none(),
                    "a run begins once"
                );
            }
            "commitment.fired" => {
                *fired
                    .entry(payload["commitmentId"].as_str().unwrap().to_owned())
                    .or_insert(0) += 1;
                sources.insert(payload["memoryId"].as_str().unwrap().to_owned());
                match payload["enqueuedRunId"].as_str() {
                    Some(run) => {
                        assert_eq!(
                            (begun.get(run), &payload["memoryRef"]),
                            (Some(&event["revision"]), &json!(MEMORIES[0])),
                            "of one commit"
                        );
                        assert!(enqueued.insert(run.to_owned()), "runs are distinct");
                    }
                    None => assert_eq!(payload["memoryRef"], MEMORIES[1]),
                }
            }
            _ => {}
        }
    }
    let twice: Vec<&String> = fired
        .iter()
        .filter(|(_, times)| **times != 1)
        .map(|(id, _)| id)
        .collect();
    assert!(twice.is_empty(), "fired more than once: {twice:?}");
    assert_eq!(
        (fired.len(), sources.len()),
        (count, count),
        "every promise fired"
    );
    assert_eq!(
        (enqueued.len(), begun.len()),
        (count / 2, count / 2),
        "one run each where one is due, and no other"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_commitment_fires_once_while_nodes_are_killed_and_paused() {
    let mut nodes = Nodes::start();
    let count = count();
    let mut random = SeededRandom::fresh();
    let mut faults = FaultCounts::default();
    prepare(&nodes.servers[0].client()).await;
    promise(&nodes, count).await;
    let begun = Instant::now();
    let wanted = (BLOWS * count).div_ceil(1_000);
    while nodes.fired() < count || faults.kills + faults.pauses < wanted {
        tokio::task::block_in_place(|| nodes.strike(&mut random, &mut faults));
        assert!(
            begun.elapsed() < PATIENCE + Duration::from_secs(count as u64 / 20),
            "{} of {count} after {faults:?}",
            nodes.fired()
        );
    }
    // A node that was paused in the middle of its work has had time to finish it.
    tokio::time::sleep(LONG_PAUSE).await;
    check(&nodes.servers[1].client().events_after(0).await, count);
    let runs = nodes.psql("SELECT count(*) FROM remem.record WHERE kind = 'run'");
    assert_eq!(
        (nodes.fired(), runs.trim()),
        (count, (count / 2).to_string().as_str())
    );
    let lag = nodes.psql(
        "SELECT format('p50 %s ms, p99 %s ms, most %s ms', percentile_disc(0.5) WITHIN GROUP (ORDER BY lag), percentile_disc(0.99)
         WITHIN GROUP (ORDER BY lag), max(lag)) FROM (SELECT ((body::json)->>'firedAt')::bigint - ((body::json)->>'scheduledAt')::bigint AS lag
         FROM remem.record WHERE kind = 'fire') notes",
    );
    println!(
        "| commitments | kills | pauses | longer than the lease | lag |\n|---|---|---|---|---|"
    );
    println!(
        "| {count} | {} | {} | {} | {} |",
        faults.kills,
        faults.pauses,
        faults.long_pauses,
        lag.trim()
    );
    let findings = run(remem().args(["--database", &nodes.database, "--json", "doctor"]))
        .exits(0)
        .json();
    assert!(
        findings
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| finding["ok"] == true),
        "{findings}"
    );
}
