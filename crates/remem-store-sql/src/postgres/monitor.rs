//! The monitor: a connection of its own that finds out whether the database answers, what time its
//! clock shows, and which commits other nodes made, and that notifies them of the commits of this
//! one.
//!
//! Notifications are sent from here after the commits, several together: a NOTIFY inside each
//! writing transaction would make all commits of the whole server queue for one lock. They carry
//! names and numbers only, and are hints: every waiter also checks by itself every second.

use super::connect::{Driver, PostgresTarget};
use super::error::{DatabaseError, store_error, unavailable};
use super::health::Health;
use super::shared::NodeState;
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

/// The channel on which nodes announce commits.
const COMMITS: &str = "remem_commit";
/// The channel on which changes of tenants and keys are announced.
pub(super) const DIRECTORY: &str = "remem_directory";
/// The time between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// An answer that takes longer than this is late.
const LATE_AFTER: Duration = Duration::from_millis(500);
/// A database that is silent for this long is down. A shorter stall, for example of a machine that
/// is busy, is not worth refusing requests that could wait it out.
const DOWN_AFTER: Duration = Duration::from_secs(5);
/// The time for which commits are collected before they are announced.
const COLLECT_FOR: Duration = Duration::from_millis(3);
/// The pause before another attempt to connect.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// Watches the database until the task is aborted; reconnects after each failure.
pub(super) async fn watch_database(
    shared: Arc<NodeState>,
    target: PostgresTarget,
    local_ms: fn() -> i64,
) {
    loop {
        match target.connect().await {
            Ok(connection) => {
                let Err(error) = watch_once(&shared, connection, local_ms).await;
                if shared.health().is_answering() {
                    report(&shared, Health::Late, &error);
                }
            }
            // A server that has no free connections still serves those that have one.
            Err(error @ StoreError::Busy) => report(&shared, Health::Late, &error),
            Err(error) => report(&shared, Health::Down, &error),
        }
        // Notifications may have been missed meanwhile, so the directory has to be read again.
        shared.directory_version.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Reports that the database does not answer as it should; logs it the first time.
fn report(shared: &NodeState, health: Health, error: &StoreError) {
    if shared.health().set(health) == Health::Answering {
        tracing::warn!(%error, "the database does not answer; trying again");
    }
}

/// Waits for the answer to a request, and reports when it is late and when the database is down.
async fn with_deadlines<T>(
    shared: &NodeState,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreError> {
    tokio::pin!(request);
    if let Ok(answer) = tokio::time::timeout(LATE_AFTER, &mut request).await {
        return answer.map_err(store_error);
    }
    let late = unavailable(DatabaseError::Deadline);
    if shared.health().is_answering() {
        report(shared, Health::Late, &late);
    }
    if let Ok(answer) = tokio::time::timeout(DOWN_AFTER - LATE_AFTER, request).await {
        return answer.map_err(store_error);
    }
    report(shared, Health::Down, &late);
    Err(late)
}

/// Watches over one connection until it fails.
async fn watch_once(
    shared: &NodeState,
    (client, driver): (Client, Driver),
    local_ms: fn() -> i64,
) -> Result<Infallible, StoreError> {
    let (notify, mut notified) = mpsc::unbounded_channel();
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection is driven while the monitor waits for it"
    )]
    let driver_task = tokio::spawn(drive(driver, notify));
    let _driving = AbortOnDrop(driver_task);
    // This session writes nothing, so its commits need not wait for the disk.
    let listen = format!(
        "SET synchronous_commit = off; SET statement_timeout = '5s'; LISTEN {COMMITS}; LISTEN {DIRECTORY}"
    );
    with_deadlines(shared, client.batch_execute(&listen)).await?;
    let notify = with_deadlines(shared, client.prepare("SELECT pg_notify($1, $2)")).await?;
    let time = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let time = with_deadlines(shared, client.prepare(time)).await?;
    loop {
        probe(shared, &client, &time, local_ms).await?;
        let next = tokio::time::sleep(PROBE_INTERVAL);
        tokio::pin!(next);
        loop {
            tokio::select! {
                () = &mut next => break,
                () = shared.outbox_filled.notified() => send_notifications(shared, &client, &notify).await?,
                notification_or_end = notified.recv() => match notification_or_end {
                    Some(notification) => receive(shared, &notification),
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

/// Drives the connection and passes on its notifications.
async fn drive(mut driver: Driver, notify: mpsc::UnboundedSender<Notification>) {
    while let Some(Ok(message)) = poll_fn(|cx| driver.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message
            && notify.send(notification).is_err()
        {
            return;
        }
    }
}

/// Reads the database's time, which also shows that it answers.
async fn probe(
    shared: &NodeState,
    client: &Client,
    time: &Statement,
    local_ms: fn() -> i64,
) -> Result<(), StoreError> {
    let before = local_ms();
    let row = with_deadlines(shared, client.query_one(time, &[])).await?;
    let database: i64 = row.try_get(0).map_err(store_error)?;
    let after = local_ms();
    // It is unknown when on its way a late answer was made, so the clock is not set by it.
    if u128::try_from(after - before).is_ok_and(|took| took <= LATE_AFTER.as_millis()) {
        let ahead = database - i64::midpoint(before, after);
        shared.clock_ahead_ms.store(ahead, Ordering::SeqCst);
    }
    if shared.health().set(Health::Answering) != Health::Answering {
        tracing::info!("the database answers again");
    }
    Ok(())
}

/// Sends the announcements of this node's commits; those within a few milliseconds go together.
async fn send_notifications(
    shared: &NodeState,
    client: &Client,
    notify: &Statement,
) -> Result<(), StoreError> {
    tokio::time::sleep(COLLECT_FOR).await;
    for payload in shared.take_outbox() {
        let params: [&(dyn ToSql + Sync); 2] = [&COMMITS, &payload];
        with_deadlines(shared, client.execute(notify, &params)).await?;
    }
    Ok(())
}

/// Handles a notification of another node.
fn receive(shared: &NodeState, notification: &Notification) {
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
