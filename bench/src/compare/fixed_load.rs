//! Load with a fixed number of requests: both programs get exactly the same ones, so that their
//! processor times can be compared.

use crate::client::{Client, Request};
use std::net::SocketAddr;
use std::time::Instant;

/// Sends `count` requests from several clients at once. `request(n)` is the n-th of all requests.
/// Returns the latency of each in nanoseconds.
pub fn requests(
    address: SocketAddr,
    clients: usize,
    count: usize,
    request: impl Fn(usize) -> Request + Sync,
) -> anyhow::Result<Vec<u64>> {
    let request = &request;
    work(clients, count, || {
        let mut client = Client::connect(address)?;
        Ok(move |n| {
            let request = request(n);
            let sent = Instant::now();
            client.send(&request)?;
            Ok(sent)
        })
    })
}

/// Does `count` pieces of work with several clients at once. `connect` makes a client, which does
/// the n-th piece and returns the instant at which it began with it.
pub fn work<C>(
    clients: usize,
    count: usize,
    connect: impl Fn() -> anyhow::Result<C>,
) -> anyhow::Result<Vec<u64>>
where
    C: FnMut(usize) -> anyhow::Result<Instant> + Send,
{
    let connected: Vec<C> = (0..clients).map(|_| connect()).collect::<Result<_, _>>()?;
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = connected
            .into_iter()
            .enumerate()
            .map(|(first, client)| {
                scope.spawn(move || run_client((first..count).step_by(clients), client))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join())
            .collect::<Vec<_>>()
    });
    let mut nanos = Vec::with_capacity(count);
    for result in results {
        nanos.extend(result.map_err(|_| anyhow::anyhow!("a client panicked"))??);
    }
    Ok(nanos)
}

fn run_client(
    numbers: impl Iterator<Item = usize>,
    mut client: impl FnMut(usize) -> anyhow::Result<Instant>,
) -> anyhow::Result<Vec<u64>> {
    numbers
        .map(|n| Ok(client(n)?.elapsed().as_nanos() as u64))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_request_is_done_exactly_once() {
        let done = Mutex::new(Vec::new());
        let nanos = work(3, 10, || {
            Ok(|n| {
                let begun = Instant::now();
                done.lock().unwrap().push(n);
                Ok(begun)
            })
        });
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert_eq!(done, (0..10).collect::<Vec<_>>());
        assert_eq!(nanos.unwrap().len(), 10);
    }
}
