//! The monitor: one connection of its own that tells whether the database answers, what its clock
//! says, what other nodes committed, and tells them what this one did.
//!
//! Notifications are sent from here after the commits, gathered: a NOTIFY inside each writing
//! transaction would make all commits of the whole server queue for one lock. They carry names and
//! numbers only, and are hints: whoever waits also looks on its own every second.

use super::connect::{Driver, Target};
use super::error::{DatabaseError, failed, unavailable};
use super::shared::Shared;
use remem_core::sabotage;
use remem_store::StoreError;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Notification, Statement};

/// Commits.
const COMMITS: &str = "remem_commit";
/// Changes of tenants and keys.
pub(super) const DIRECTORY: &str = "remem_directory";
const BEAT: Duration = Duration::from_millis(250);
const BEAT_WITHIN: Duration = Duration::from_millis(500);
const GATHER: Duration = Duration::from_millis(3);
const AGAIN: Duration = Duration::from_millis(100);

/// Keeps watching until it is aborted.
pub(super) async fn watch(shared: Arc<Shared>, target: Target, local_ms: fn() -> i64) {
    loop {
        let Err(error) = watch_once(&shared, &target, local_ms).await;
        // What was missed meanwhile is unknown.
        shared.directory_version.fetch_add(1, Ordering::SeqCst);
        if shared.reachable.swap(false, Ordering::SeqCst) {
            metrics::gauge!("remem_database_reachable").set(0.0);
            tracing::warn!(%error, "the database does not answer; trying again");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn watch_once(
    shared: &Shared,
    target: &Target,
    local_ms: fn() -> i64,
) -> Result<std::convert::Infallible, StoreError> {
    let (client, driver) = target.connect().await?;
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
    client.batch_execute(&listen).await.map_err(failed)?;
    let notify = client
        .prepare("SELECT pg_notify($1, $2)")
        .await
        .map_err(failed)?;
    let time = client
        .prepare("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        .await
        .map_err(failed)?;
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

/// Asks the database for its time. An answer in time is what "reachable" means.
async fn beat(
    shared: &Shared,
    client: &Client,
    time: &Statement,
    local_ms: fn() -> i64,
) -> Result<(), StoreError> {
    let before = local_ms();
    let ask = client.query_one(time, &[]);
    let row = tokio::time::timeout(BEAT_WITHIN, ask)
        .await
        .map_err(|_| unavailable(DatabaseError::Deadline))?
        .map_err(failed)?;
    let database: i64 = row.try_get(0).map_err(failed)?;
    shared.clock_ahead_ms.store(
        database - i64::midpoint(before, local_ms()),
        Ordering::SeqCst,
    );
    if !shared.reachable.swap(true, Ordering::SeqCst) {
        tracing::info!("the database answers again");
    }
    metrics::gauge!("remem_database_reachable").set(1.0);
    Ok(())
}

/// Commits of a few milliseconds travel together.
async fn send(shared: &Shared, client: &Client, notify: &Statement) -> Result<(), StoreError> {
    tokio::time::sleep(GATHER).await;
    for payload in shared.take_outbox() {
        let params: [&(dyn ToSql + Sync); 2] = [&COMMITS, &payload];
        let tell = client.execute(notify, &params);
        tokio::time::timeout(BEAT_WITHIN, tell)
            .await
            .map_err(|_| unavailable(DatabaseError::Deadline))?
            .map_err(failed)?;
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
