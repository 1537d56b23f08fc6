//! The accept loop: bounded connections, a deadline for request heads, one for clients that take
//! nothing of their answers, and a shutdown that lets requests finish.

use crate::http::{App, router, with_one_host};
use crate::write_deadline::WriteDeadline;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Connections at once; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 4_096;
/// A client that has not sent a whole request head by then is dropped.
const HEAD_DEADLINE: Duration = Duration::from_secs(10);
/// Requests that are still running this long after a stop are cut off: sooner than supervisors lose
/// patience (10 s).
const DRAIN_DEADLINE: Duration = Duration::from_secs(8);

/// Serves until `stop` becomes true, then finishes what is in flight.
#[expect(
    clippy::disallowed_methods,
    reason = "the accept loop starts one task a connection"
)]
pub async fn serve(listener: TcpListener, app: App, mut stop: watch::Receiver<bool>) {
    let write_limit = Duration::from_millis(app.engine.policy().write_ms_max);
    let service = TowerToHyperService::new(with_one_host(router(app)));
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = stop.changed() => break,
        };
        let Some((stream, place)) = accepted else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let stream = WriteDeadline::new(stream, write_limit);
        let connection =
            graceful.watch(http.serve_connection(TokioIo::new(stream), service.clone()));
        tokio::spawn(async move {
            // A connection that ends badly is the client's business; requests were logged on their
            // own.
            let _ = connection.await;
            drop(place);
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

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            // Out of file descriptors, most likely: give running requests a moment to finish.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}
