//! Load: some clients, each on its own connection and thread, each sending its next request when it has the answer to
//! the one before. So a latency is what a client waits, and a rate is what the server gets done, never what was wished.

use crate::client::{Client, Request};
use crate::table::Sample;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Requests of one client at the most.
const REQUESTS_MAX: usize = 1_000_000;

/// How much load.
#[derive(Clone, Copy)]
pub struct Load {
    pub clients: usize,
    pub run: Duration,
}

impl Load {
    /// Runs for a while; `request(client, n)` is a client's n-th request. What happens in the first fifth is not
    /// counted: connections, caches and files are new then.
    pub fn drive(&self, address: SocketAddr, request: impl Fn(usize, usize) -> Request + Sync) -> anyhow::Result<Sample> {
        let start = Barrier::new(self.clients);
        let clients: Vec<Client> = (0..self.clients).map(|_| Client::connect(address)).collect::<Result<_, _>>()?;
        let results = std::thread::scope(|scope| {
            let spawn = |(number, client)| {
                let (start, request) = (&start, &request);
                scope.spawn(move || {
                    start.wait();
                    self.one(client, |n| request(number, n))
                })
            };
            let threads: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))).collect::<Vec<_>>()
        });
        let mut nanos = Vec::new();
        for result in results {
            nanos.extend(result??);
        }
        Ok(Sample::new(nanos, self.run.as_secs_f64()))
    }

    fn one(&self, mut client: Client, request: impl Fn(usize) -> Request) -> anyhow::Result<Vec<u64>> {
        let begun = Instant::now();
        let (warm, end) = (self.run / 5, self.run / 5 + self.run);
        let mut nanos = Vec::new();
        for n in 0..REQUESTS_MAX {
            let request = request(n);
            let sent = begun.elapsed();
            if sent >= end {
                break;
            }
            client.send(&request)?;
            let answered = begun.elapsed();
            // Counted where it ends, so that the rate holds neither half a request too many nor one too few.
            if answered >= warm && answered < end {
                nanos.push((answered - sent).as_nanos() as u64);
            }
        }
        Ok(nanos)
    }
}
