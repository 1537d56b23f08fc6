//! The accept loop: a bounded number of connections, a deadline for request heads, one for clients
//! that do not read their answers, and a shutdown that lets requests finish.

use crate::http::{App, router, with_host_check};
use crate::write_deadline::WriteDeadline;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Maximum of simultaneous connections; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 4_096;
/// Time that a client has to send a whole request head before its connection is dropped.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Time that requests have to finish after a stop before they are cut off. It is shorter than the
/// 10 s after which supervisors kill a process.
const DRAIN_DEADLINE: Duration = Duration::from_secs(8);

/// Serves connections until `stop` becomes true, then waits for the requests in flight.
#[expect(
    clippy::disallowed_methods,
    reason = "the accept loop starts one task a connection"
)]
pub async fn serve(listener: TcpListener, app: App, mut stop: watch::Receiver<bool>) {
    let write_limit = Duration::from_millis(app.engine.policy().write_ms_max);
    let service = TowerToHyperService::new(with_host_check(router(app)));
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            _ = stop.changed() => break,
        };
        let Some((stream, permit)) = accepted else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let stream = WriteDeadline::new(stream, write_limit);
        let connection =
            graceful.watch(http.serve_connection(TokioIo::new(stream), service.clone()));
        tokio::spawn(async move {
            // Errors of a connection are caused by its client and need no log line: each request
            // has logged its own.
            let _ = connection.await;
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_DEADLINE, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("some connections did not finish in time");
    }
}

/// Accepts the next connection together with its permit; `None` if accepting failed.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, permit)),
        Err(error) => {
            // Most likely the process is out of file descriptors: give running requests a moment to
            // finish.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}
