//! Proves that a database which crashes, restarts, freezes or is overloaded is survived without
//! restarting the host: readiness is reported truthfully, nothing acknowledged is lost, nothing is
//! stored by halves, and a retry is safe.
//!
//! Each test has a PostgreSQL of its own, since it is not kind to it.

use crate::common::books::{KnownState, WriteRecord, Writer, WriterLog};
use crate::common::client::finish;
use crate::common::{Client, ServerProcess, place, remem, run};
use remem_testkit::{SeededRandom, cases, wait_until_blocking};
use reqwest::Method;
use serde_json::json;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MEMORY: &str = "agent/1";
const NOT_READY_WITHIN: Duration = Duration::from_secs(1);
const READY_AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// A PostgreSQL server that only this test uses; stopped and removed when dropped.
struct OwnPostgres {
    _folder: TempDir,
    dir: PathBuf,
    url: String,
    app_url: String,
}

impl OwnPostgres {
    fn start() -> OwnPostgres {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("server");
        let url = script("start", &dir);
        let app_url = place::new_database(&url);
        OwnPostgres {
            _folder: folder,
            dir,
            url,
            app_url,
        }
    }

    /// Runs a command of `scripts/postgres` on it.
    fn run(&self, command: &str) -> String {
        script(command, &self.dir)
    }

    fn host(&self, arguments: &[&str], environment: &[(&str, &str)]) -> ServerProcess {
        ServerProcess::start_with(
            &self.dir.join("node"),
            &[&["--database", &self.app_url], arguments].concat(),
            environment,
        )
    }

    fn sql(&self, sql: &str) -> String {
        place::psql(&place::as_superuser(&self.url, &self.app_url), sql)
    }

    fn is_sound(&self) {
        let findings = run(remem().args(["--database", &self.app_url, "--json", "doctor"]))
            .exits(0)
            .json();
        assert!(
            findings.as_array().unwrap().iter().all(|f| f["ok"] == true),
            "{findings}"
        );
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        let _ = Command::new(script_path())
            .arg("stop")
            .arg(&self.dir)
            .output();
    }
}

fn script_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres")
}

fn script(command: &str, dir: &Path) -> String {
    let output = Command::new(script_path())
        .arg(command)
        .arg(dir)
        .output()
        .expect("the script runs");
    assert!(
        output.status.success(),
        "scripts/postgres {command}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits until `/ready` answers with a status; fails when the deadline passes first. Answers how
/// long it took.
async fn ready_becomes(client: &Client, status: u16, limit: Duration) -> Duration {
    let begun = Instant::now();
    loop {
        let answer = client.get("/ready").await;
        let took = begun.elapsed();
        if answer.status == status {
            return took;
        }
        assert!(
            took < limit,
            "/ready still says {} after {took:?}",
            answer.status
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Clients write until the database is gone. Answers what they wrote down, and whether a write was
/// under way.
async fn write_until(
    crash: impl FnOnce(),
    client: &Client,
    writers: &mut Vec<Writer>,
    random: &mut SeededRandom,
) -> (Vec<WriterLog>, bool) {
    let flying = writers[0].in_flight.clone();
    let mut tasks = tokio::task::JoinSet::new();
    for mut writer in writers.drain(..) {
        let client = client.clone();
        tasks.spawn(async move {
            let diary = writer.write_until_the_end(client).await;
            (writer, diary)
        });
    }
    tokio::time::sleep(Duration::from_micros(20_000 + random.below(200_000))).await;
    let under_way = flying.load(Ordering::SeqCst) > 0;
    tokio::task::block_in_place(crash);
    let (back, diaries): (Vec<_>, Vec<_>) = tasks.join_all().await.into_iter().unzip();
    writers.extend(back);
    (diaries, under_way)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_killed_database_loses_no_acknowledged_write() {
    let database = OwnPostgres::start();
    let mut random = SeededRandom::fresh();
    let mut books = KnownState::default();
    let mut server = database.host(&[], &[]);
    let client = server.client();
    let flying = Arc::<AtomicUsize>::default();
    let writer = |number| Writer {
        number,
        count: 0,
        random: random.branch(),
        known: vec![],
        again: vec![],
        in_flight: flying.clone(),
    };
    let mut writers: Vec<Writer> = (0..8).map(writer).collect();
    let mut under_way = 0;
    let mut slowest_out = Duration::ZERO;
    let mut slowest_back = Duration::ZERO;
    let mut unanswered = 0;
    let kills = cases(8, 24) as usize;
    for kill in 0..kills {
        let crash = || drop(database.run(if kill % 6 == 5 { "restart" } else { "kill" }));
        let (diaries, sharp) = write_until(crash, &client, &mut writers, &mut random).await;
        under_way += usize::from(sharp);
        diaries.iter().for_each(|diary| books.add_log(diary));
        if kill % 6 != 5 {
            slowest_out = slowest_out.max(ready_becomes(&client, 503, NOT_READY_WITHIN).await);
            tokio::task::block_in_place(|| database.run("start"));
        }
        slowest_back = slowest_back.max(ready_becomes(&client, 200, READY_AGAIN_WITHIN).await);
        books.check_news(&client, &diaries).await;
        unanswered += diaries
            .iter()
            .flat_map(|d| &d.writes)
            .filter(|w: &&WriteRecord| w.answer.is_none())
            .count();
    }
    books.check_all(&client).await;
    server.terminate();
    database.is_sound();
    println!(
        "{kills} crashes of the database ({under_way} with a request under way), {unanswered} writes without an answer"
    );
    println!(
        "{} acknowledged writes, {} of them replays of a repeated key; {} events",
        books.acknowledged, books.replays, books.sequence
    );
    println!(
        "not ready {slowest_out:?} after a crash, ready {slowest_back:?} after the return, at the most"
    );
    assert!(
        under_way >= kills / 2 && books.acknowledged >= kills * 3 && books.replays >= kills / 8,
        "the load was too small to prove much"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readiness_follows_a_frozen_and_resumed_database() {
    let database = OwnPostgres::start();
    let server = database.host(&[], &[("REMEM_STORAGE__DEADLINE_MS", "1000")]);
    let client = server.client();
    let put = |n: usize| {
        client
            .request(Method::POST, &Client::memory(MEMORY, "entries"))
            .json(&json!({"content": format!("entry {n}")}))
    };
    finish(put(0)).await.unwrap().is(201);
    for round in 1..=3 {
        tokio::task::block_in_place(|| database.run("pause"));
        ready_becomes(&client, 503, NOT_READY_WITHIN).await;
        let begun = Instant::now();
        let answer = finish(put(round)).await.unwrap();
        assert_eq!(answer.status, 503, "{}", answer.text);
        assert!(
            !answer.header("retry-after").is_empty() && begun.elapsed() < Duration::from_secs(6),
            "{:?}",
            begun.elapsed()
        );
        client.get("/health").await.is(200);
        tokio::task::block_in_place(|| database.run("resume"));
        ready_becomes(&client, 200, READY_AGAIN_WITHIN).await;
        finish(put(10 + round)).await.unwrap().is(201);
    }
}

/// A transaction of another session holds the tenant's clock; the host has one connection, which
/// waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_without_a_free_connection_get_503_with_retry_after() {
    let database = OwnPostgres::start();
    let settings = [
        ("REMEM_STORAGE__CONNECTIONS", "1"),
        ("REMEM_STORAGE__WAIT_MS_MAX", "300"),
    ];
    let server = database.host(&[], &settings);
    let client = server.client();
    client.put(MEMORY, &json!({"content": "the first"})).await;
    let mut holder = Command::new("psql");
    holder.args([
        "-Xq",
        &place::as_superuser(&database.url, &database.app_url),
    ]);
    let mut holder = holder
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let say = |holder: &mut Child, sql: &str| {
        holder
            .stdin
            .as_mut()
            .unwrap()
            .write_all(sql.as_bytes())
            .unwrap()
    };
    say(
        &mut holder,
        "BEGIN; SELECT 1 FROM remem.tenant_clock FOR UPDATE;\n",
    );
    // Its own statement has ended inside its transaction: a lock of this kind alone may as well be
    // one of the host's passes.
    let held = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE 'SELECT 1 FROM remem.tenant_clock%'";
    wait_until_blocking("the clock is held", || database.sql(held).trim() == "1");
    let write = client
        .request(Method::POST, &Client::memory(MEMORY, "entries"))
        .json(&json!({"content": "waits"}));
    let write = tokio::spawn(finish(write));
    // The write has taken the one connection when the database shows it waiting.
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'remem'";
    tokio::task::block_in_place(|| {
        wait_until_blocking("the write waits", || database.sql(waits).trim() == "1")
    });
    let begun = Instant::now();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..20 {
        reads.spawn(finish(
            client.request(Method::GET, &Client::memory(MEMORY, "entries")),
        ));
    }
    for read in reads.join_all().await {
        let read = read.unwrap();
        assert_eq!(read.status, 503, "{}", read.text);
        assert!(!read.header("retry-after").is_empty());
    }
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "told after {:?}",
        begun.elapsed()
    );
    client.get("/ready").await.is(200);
    say(&mut holder, "COMMIT;\n\\q\n");
    holder.wait().unwrap();
    let write = write.await.unwrap().unwrap();
    assert!(
        [201, 503].contains(&write.status),
        "stored, or told to come back when the wait was too long: {}",
        write.text
    );
    client.get(&Client::memory(MEMORY, "entries")).await.is(200);
}
