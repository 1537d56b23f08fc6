//! Load: several clients, each on its own connection and thread, each sending its next request when
//! it has the answer to the one before. So a latency is the time that a client waits, and a rate is
//! what the server achieves, never what was intended.

use crate::client::{Client, Request};
use crate::table::LatencySample;
use std::net::SocketAddr;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The most requests of one client.
const REQUESTS_MAX: usize = 1_000_000;

/// The number of clients, and the time for which they run.
#[derive(Clone, Copy)]
pub struct Load {
    pub clients: usize,
    pub run: Duration,
}

impl Load {
    /// Runs for the set time against one server; `request(client, n)` is a client's n-th request.
    pub fn run_against(
        &self,
        address: SocketAddr,
        request: impl Fn(usize, usize) -> Request + Sync,
    ) -> anyhow::Result<LatencySample> {
        self.run_spread(&[address], request)
    }

    /// The same with the clients spread evenly over several servers.
    pub fn run_spread(
        &self,
        addresses: &[SocketAddr],
        request: impl Fn(usize, usize) -> Request + Sync,
    ) -> anyhow::Result<LatencySample> {
        let request = &request;
        self.run_clients(|number| {
            let mut client = Client::connect(addresses[number % addresses.len()])?;
            Ok(move |n| {
                let request = request(number, n);
                let sent = Instant::now();
                client.send(&request)?;
                Ok(sent)
            })
        })
    }

    /// Runs clients of any kind: `connect(client)` makes one, which does its n-th piece of work and
    /// returns the instant at which it began with it. The first fifth of the time is not counted,
    /// because connections, caches and files are new then.
    pub fn run_clients<C>(
        &self,
        connect: impl Fn(usize) -> anyhow::Result<C>,
    ) -> anyhow::Result<LatencySample>
    where
        C: FnMut(usize) -> anyhow::Result<Instant> + Send,
    {
        let start = Barrier::new(self.clients);
        let clients: Vec<C> = (0..self.clients).map(connect).collect::<Result<_, _>>()?;
        let results = std::thread::scope(|scope| {
            let spawn = |client| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    self.run_client(client)
                })
            };
            let threads: Vec<_> = clients.into_iter().map(spawn).collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .map_err(|_| anyhow::anyhow!("a client panicked"))
                })
                .collect::<Vec<_>>()
        });
        let mut nanos = Vec::new();
        for result in results {
            nanos.extend(result??);
        }
        Ok(LatencySample::new(nanos, self.run.as_secs_f64()))
    }

    fn run_client(
        &self,
        mut client: impl FnMut(usize) -> anyhow::Result<Instant>,
    ) -> anyhow::Result<Vec<u64>> {
        let warm = Instant::now() + self.run / 5;
        let end = warm + self.run;
        let mut nanos = Vec::new();
        for n in 0..REQUESTS_MAX {
            if Instant::now() >= end {
                break;
            }
            let sent = client(n)?;
            let answered = Instant::now();
            // An operation is counted where it ends, so that the rate holds neither half a request
            // too many nor one too few.
            if answered >= warm && answered < end {
                nanos.push((answered - sent).as_nanos() as u64);
            }
        }
        Ok(nanos)
    }
}
