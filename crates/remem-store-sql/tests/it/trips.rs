//! What a commit costs and promises on PostgreSQL: a group takes two trips, is on the disk before
//! its callers are answered, and is announced to other nodes after that.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use crate::recorder::{SentStatement, StatementLog, recorded};
use futures_util::FutureExt;
use remem_core::{Batch, Scope};
use remem_store::{Ledger, ReadAt};
use remem_testkit::conformance::{NOON, admit, all, draft, id, put, scope};
use remem_testkit::postgres::TestDatabase;
use remem_testkit::wait_until;
use std::sync::Arc;

/// The newest revision of the tenant `a` that the node has announced since the last look at the log.
fn announced(log: &StatementLog) -> u64 {
    let payloads = log.with("pg_notify").into_iter().map(|sent| sent.params);
    let lines = payloads.filter_map(|params| String::from_utf8(params.concat()).ok());
    let revision = |line: String| {
        let (_, numbers) = line.split_once("a ")?;
        numbers.split(' ').next()?.parse().ok()
    };
    lines.filter_map(revision).max().unwrap_or(0)
}

/// The statements of the one transaction since the last call, and how many of them load rows.
fn transaction(log: &StatementLog) -> (Vec<SentStatement>, usize) {
    let mut sent = log.take();
    let begin = sent.iter().find(|sent| sent.sql.starts_with("BEGIN"));
    let connection = begin.expect("a transaction").connection;
    sent.retain(|sent| sent.connection == connection);
    let count = |text: &str| {
        sent.iter()
            .filter(|sent| sent.sql.starts_with(text))
            .count()
    };
    assert_eq!((count("BEGIN"), count("COMMIT")), (1, 1), "{sent:#?}");
    let writes = |sent: &SentStatement| {
        let verbs = ["INSERT", "UPDATE", "DELETE"];
        verbs.iter().any(|verb| sent.sql.starts_with(verb))
    };
    let loads = sent.iter().position(writes).expect("rows are written");
    (sent, loads)
}

fn new_entry(s: &Scope, name: &str) -> Batch {
    Batch::new(s.tenant.clone(), NOON).put(id(name), admit(s, draft("falcon"), NOON))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_takes_two_trips_and_is_durable_before_its_answer() {
    let database = TestDatabase::fresh().await;
    let (store, log) = recorded(&database, database.options(1)).await;
    let store = Arc::new(store);
    let s = scope("a", "m");
    put(&*store, &s, "first", draft("falcon"), NOON).await;
    assert!(
        !log.with("SET synchronous_commit = on").is_empty(),
        "no default of the server weakens a commit"
    );
    put(&*store, &s, "prepares", draft("falcon"), NOON).await;
    wait_until("an announcement", || async { announced(&log) == 2 }).await;
    log.take();
    put(&*store, &s, "shape", draft("falcon"), NOON).await;
    wait_until("an announcement", || async { announced(&log) == 3 }).await;
    let (sent, loads) = transaction(&log);

    // Every statement of a trip is sent without an answer to any other one of it.
    let before = log.requests();
    log.answer_only(before);
    let commit = {
        let store = store.clone();
        let batch = new_entry(&s, "held");
        tokio::spawn(async move { store.commit(batch).await })
    };
    wait_until("the first trip", || async {
        log.requests() == before + loads
    })
    .await;
    assert!(log.with("INSERT").is_empty() && log.with("COMMIT").is_empty());
    log.answer_only(before + loads);
    let all_sent = before + sent.len();
    wait_until("the second trip", || async { log.requests() == all_sent }).await;

    // The server may have committed, but its answer is not there.
    log.answer_only(all_sent - 1);
    assert_eq!(log.with("COMMIT").len(), 1);
    assert!(!commit.is_finished() && announced(&log) == 0);
    let mut others = Box::pin(futures_util::future::join_all(
        (0..8).map(|n| store.commit(new_entry(&s, &format!("waits{n}")))),
    ));
    assert!(
        others.as_mut().now_or_never().is_none(),
        "further commits wait for the next group"
    );
    log.answer_only(usize::MAX);
    commit.await.unwrap().unwrap();
    assert!(others.await.iter().all(Result::is_ok));
    wait_until("an announcement", || async { announced(&log) == 12 }).await;
    assert_eq!(
        (log.with("BEGIN").len(), log.requests() - before),
        (2, 2 * sent.len()),
        "eight commits are one group, with no more statements than one commit"
    );
    let now = ReadAt::Now(NOON);
    assert_eq!(all(&*store, &s, &now).await.len(), 12);
}
