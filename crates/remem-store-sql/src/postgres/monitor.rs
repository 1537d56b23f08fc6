//! The monitor: one connection of its own that tells whether the database answers, what its clock
//! says, what other nodes committed, and tells them what this one did.
//!
//! Notifications are sent from here after the commits, gathered: a NOTIFY inside each writing
//! transaction would make all commits of the whole server queue for one lock. They carry names and
//! numbers only, and are hints: whoever waits also looks on its own every second.

use super::connect::{Driver, Target};
use super::error::{DatabaseError, failed, unavailable};
use super::health::Health;
use super::shared::Shared;
use remem_core::sabotage;
use remem_store::StoreError;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Error, Notification, Statement};

/// Commits.
const COMMITS: &str = "remem_commit";
/// Changes of tenants and keys.
pub(super) const DIRECTORY: &str = "remem_directory";
const BEAT: Duration = Duration::from_millis(250);
/// An answer that takes longer is late.
const LATE_AFTER: Duration = Duration::from_millis(500);
/// A database that is silent for so long is down. A shorter stall, say of a machine that is busy,
/// is not worth refusing requests that could wait it out.
const DOWN_AFTER: Duration = Duration::from_secs(5);
const GATHER: Duration = Duration::from_millis(3);
const AGAIN: Duration = Duration::from_millis(100);

/// Keeps watching until it is aborted.
pub(super) async fn watch(shared: Arc<Shared>, target: Target, local_ms: fn() -> i64) {
    loop {
        match target.connect().await {
            Ok(connection) => {
                let Err(error) = watch_once(&shared, connection, local_ms).await;
                if shared.health().is_answering() {
                    report(&shared, Health::Late, &error);
                }
            }
            // A server that is full serves those that have a connection.
            Err(error @ StoreError::Busy) => report(&shared, Health::Late, &error),
            Err(error) => report(&shared, Health::Down, &error),
        }
        // What was missed meanwhile is unknown.
        shared.directory_version.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(AGAIN).await;
    }
}

/// Reports that the database does not answer as it should; logs it the first time.
fn report(shared: &Shared, health: Health, error: &StoreError) {
    if shared.health().set(health) == Health::Answering {
        tracing::warn!(%error, "the database does not answer; trying again");
    }
}

/// Waits for an answer, and reports when it is late and when it is given up.
async fn answered<T>(
    shared: &Shared,
    ask: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    tokio::pin!(ask);
    if let Ok(answer) = tokio::time::timeout(LATE_AFTER, &mut ask).await {
        return answer.map_err(failed);
    }
    let late = unavailable(DatabaseError::Deadline);
    if shared.health().is_answering() {
        report(shared, Health::Late, &late);
    }
    if let Ok(answer) = tokio::time::timeout(DOWN_AFTER - LATE_AFTER, ask).await {
        return answer.map_err(failed);
    }
    report(shared, Health::Down, &late);
    Err(late)
}

/// Watches over one connection until it fails.
async fn watch_once(
    shared: &Shared,
    (client, driver): (Client, Driver),
    local_ms: fn() -> i64,
) -> Result<Infallible, StoreError> {
    let (notify, mut notified) = mpsc::unbounded_channel();
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection is driven while the monitor waits for it"
    )]
    let driving = tokio::spawn(drive(driver, notify));
    let _driving = AbortOnDrop(driving);
    // Nothing is written here, so nothing has to be waited for.
    let listen = format!(
        "SET synchronous_commit = off; SET statement_timeout = '5s'; LISTEN {COMMITS}; LISTEN {DIRECTORY}"
    );
    answered(shared, client.batch_execute(&listen)).await?;
    let notify = answered(shared, client.prepare("SELECT pg_notify($1, $2)")).await?;
    let time = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let time = answered(shared, client.prepare(time)).await?;
    loop {
        beat(shared, &client, &time, local_ms).await?;
        let next = tokio::time::sleep(BEAT);
        tokio::pin!(next);
        loop {
            tokio::select! {
                () = &mut next => break,
                () = shared.posted.notified() => send(shared, &client, &notify).await?,
                heard = notified.recv() => match heard {
                    Some(notification) => hear(shared, &notification),
                    None => return Err(unavailable(DatabaseError::Connection("closed".to_owned()))),
                },
            }
        }
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn drive(mut driver: Driver, notify: mpsc::UnboundedSender<Notification>) {
    while let Some(Ok(message)) = poll_fn(|cx| driver.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message
            && notify.send(notification).is_err()
        {
            return;
        }
    }
}

/// Asks the database for its time.
async fn beat(
    shared: &Shared,
    client: &Client,
    time: &Statement,
    local_ms: fn() -> i64,
) -> Result<(), StoreError> {
    let before = local_ms();
    let row = answered(shared, client.query_one(time, &[])).await?;
    let database: i64 = row.try_get(0).map_err(failed)?;
    let after = local_ms();
    // When on its way a late answer was made is anybody's guess, so the clock is not set by it.
    if u128::try_from(after - before).is_ok_and(|took| took <= LATE_AFTER.as_millis()) {
        let ahead = database - i64::midpoint(before, after);
        shared.clock_ahead_ms.store(ahead, Ordering::SeqCst);
    }
    if shared.health().set(Health::Answering) != Health::Answering {
        tracing::info!("the database answers again");
    }
    Ok(())
}

/// Commits of a few milliseconds travel together.
async fn send(shared: &Shared, client: &Client, notify: &Statement) -> Result<(), StoreError> {
    tokio::time::sleep(GATHER).await;
    for payload in shared.take_outbox() {
        let params: [&(dyn ToSql + Sync); 2] = [&COMMITS, &payload];
        answered(shared, client.execute(notify, &params)).await?;
    }
    Ok(())
}

fn hear(shared: &Shared, notification: &Notification) {
    match notification.channel() {
        COMMITS => sabotage!(
            "postgres-nodes-do-not-hear-of-each-other",
            shared.read_payload(notification.payload())
        ),
        _ => {
            shared.directory_version.fetch_add(1, Ordering::SeqCst);
        }
    }
}
