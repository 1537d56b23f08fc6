//! Proves that a host which dies without a warning loses nothing it acknowledged and stores nothing
//! by halves.
//!
//! The real server is killed (SIGKILL) at random moments while eight clients write: single entries,
//! batches of three, deletes, and entries with an `Idempotency-Key` that are sent again after the
//! restart. The answers that the clients received are then compared with what the host returns,
//! after every kill for what is new and once more for everything at the end.

use crate::common::books::{KnownState, MEMORIES, WriteRecord, Writer, WriterLog};
use crate::common::{Client, ServerProcess, place, run_on};
use remem_testkit::{SeededRandom, cases, cases_by_tier, wait_until_blocking};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;
/// A host that was killed must serve again within this time.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A start on PostgreSQL costs more than one on files.
fn kills() -> usize {
    let kills = if place::is_postgres() {
        cases(50, 110)
    } else {
        cases_by_tier(50, 220, 10_000)
    };
    kills as usize
}

/// One life of the server: it starts, clients write, it is killed. Answers whether a write was
/// under way at that moment.
async fn one_life(
    server: &mut ServerProcess,
    writers: &mut Vec<Writer>,
    random: &mut SeededRandom,
) -> (Vec<WriterLog>, bool) {
    let flying = writers[0].in_flight.clone();
    let client = server.client();
    let mut tasks = tokio::task::JoinSet::new();
    for mut writer in writers.drain(..) {
        let client = client.clone();
        tasks.spawn(async move {
            let diary = writer.write_until_the_end(client).await;
            (writer, diary)
        });
    }
    // A database takes a moment to let a fresh host in.
    let longest = if place::is_postgres() {
        300_000
    } else {
        110_000
    };
    tokio::time::sleep(Duration::from_micros(500 + random.below(longest))).await;
    let under_way = flying.load(Ordering::SeqCst) > 0;
    server.kill9();
    let done = tasks.join_all().await;
    let mut diaries = Vec::new();
    for (writer, diary) in done {
        writers.push(writer);
        diaries.push(diary);
    }
    (diaries, under_way)
}

/// Waits until the database has noticed that the client is gone: until then it may still execute
/// what the client had sent, and nothing can be concluded.
fn await_the_end_of_connections(dir: &Path) {
    let Some(url) = place::database_of(dir) else {
        return;
    };
    let url = place::as_superuser(&place::server_url(), &url);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'remem'";
    wait_until_blocking("the database lets go of the dead", || {
        place::psql(&url, sql).trim() == "0"
    });
}

async fn restart(dir: &Path) -> ServerProcess {
    await_the_end_of_connections(dir);
    let begun = Instant::now();
    let server = ServerProcess::start(dir);
    server.client().get("/ready").await.is(200);
    let took = begun.elapsed();
    assert!(took <= READY_WITHIN, "ready only after {took:?}");
    server
}

/// Dies while it is still coming up, perhaps in the middle of recovery.
async fn die_while_starting(dir: &Path, random: &mut SeededRandom) {
    let mut server = ServerProcess::spawn(dir, &[], &[]);
    tokio::time::sleep(Duration::from_micros(random.below(30_000))).await;
    server.kill9();
}

fn every_check_is_ok(dir: &Path) {
    let findings = run_on(dir, &["doctor", "--json"]).exits(0).json();
    let findings = findings.as_array().unwrap();
    assert!(
        findings.iter().any(|f| f["check"] == "tenant default"),
        "the tenant was examined: {findings:?}"
    );
    assert!(findings.iter().all(|f| f["ok"] == true), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_host_keeps_acknowledged_writes_and_no_partial_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = SeededRandom::fresh();
    let mut books = KnownState::default();
    let dir = folder.path().join("data");
    let flying = Arc::<AtomicUsize>::default();
    let writer = |number| Writer {
        number,
        count: 0,
        random: random.branch(),
        known: vec![],
        again: vec![],
        in_flight: flying.clone(),
    };
    let mut writers: Vec<Writer> = (0..CLIENTS).map(writer).collect();
    let mut under_way = 0;
    let mut early = 0;
    let mut unanswered = 0;
    let mut kept = 0;
    let mut server = restart(&dir).await;
    let kills = kills();
    for kill in 0..kills {
        let (diaries, sharp) = one_life(&mut server, &mut writers, &mut random).await;
        under_way += usize::from(sharp);
        diaries.iter().for_each(|diary| books.add_log(diary));
        if kill % 10 == 9 {
            die_while_starting(&dir, &mut random).await;
            early += 1;
        }
        server = restart(&dir).await;
        books.check_news(&server.client(), &diaries).await;
        let open: Vec<&WriteRecord> = diaries
            .iter()
            .flat_map(|d| &d.writes)
            .filter(|w| w.answer.is_none())
            .collect();
        unanswered += open.len();
        kept += open
            .iter()
            .filter(|w| books.entry_of.contains_key(&w.texts[0]))
            .count();
    }
    books.check_all(&server.client()).await;
    server.terminate();
    every_check_is_ok(&dir);
    println!(
        "{kills} kill points under load ({under_way} with a request under way), {early} more while starting"
    );
    println!(
        "{} acknowledged writes, {} of them replays of a repeated key",
        books.acknowledged, books.replays
    );
    println!(
        "{unanswered} writes without an answer, of which {kept} were stored; {} events",
        books.sequence
    );
    assert!(
        under_way >= kills / 2 && books.acknowledged >= kills * 3 && books.replays >= kills / 22,
        "the load was too small to prove much"
    );
    // Each is rare: a few kills may show one of them alone.
    assert!(
        kills < 100 || kept > 0 && kept < unanswered,
        "both outcomes of an unanswered write occurred"
    );
}

/// The very first start makes the host's own secret, the first tenant and the first key: none of
/// them by halves either.
#[tokio::test]
async fn a_host_killed_during_its_first_start_restarts_with_a_valid_key() {
    let mut random = SeededRandom::fresh();
    for _ in 0..cases(15, if place::is_postgres() { 15 } else { 60 }) {
        let folder = tempfile::tempdir().unwrap();
        let no_key = [("REMEM_BOOTSTRAP_KEY", "")];
        let mut first = ServerProcess::spawn(folder.path(), &[], &no_key);
        tokio::time::sleep(Duration::from_micros(random.below(40_000))).await;
        first.kill9();
        let left: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|f| f.unwrap().file_name().to_string_lossy().into())
            .collect();
        let server = ServerProcess::start_with(folder.path(), &[], &no_key);
        let key = std::fs::read_to_string(folder.path().join("bootstrap.key"))
            .unwrap_or_else(|e| panic!("{e}; the kill left {left:?}"));
        let answer = Client::new(&server.url, key.trim())
            .get(&Client::memory(MEMORIES[0], "stats"))
            .await;
        assert_eq!(
            answer.status, 200,
            "{}; the kill left {left:?}",
            answer.text
        );
    }
}
