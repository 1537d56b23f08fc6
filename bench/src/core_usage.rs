//! The processor time of the database, the host and the load while a figure is measured. They share
//! the machine, so this shows which of them limits a figure.

use crate::database::PostgresServer;
use crate::facts;
use crate::host::ServerProcess;
use crate::table::number;
use std::time::Instant;

/// The column heads for the cells of `CoreUsage::cells`.
pub const HEADS: [&str; 3] = ["cores: PostgreSQL", "cores: remem", "cores: load"];

/// A measurement of ticks of the database, the hosts and this process.
pub struct CoreUsage {
    begun: Instant,
    before: [u64; 3],
}

fn ticks(server: &PostgresServer, hosts: &[&ServerProcess]) -> [u64; 3] {
    let alone = |pid: &str| facts::ticks_of(pid).map_or(0, |ticks| ticks.alone);
    [
        server.ticks(),
        hosts
            .iter()
            .map(|host| alone(&host.pid().to_string()))
            .sum(),
        alone("self"),
    ]
}

impl CoreUsage {
    pub fn start(server: &PostgresServer, hosts: &[&ServerProcess]) -> CoreUsage {
        CoreUsage {
            begun: Instant::now(),
            before: ticks(server, hosts),
        }
    }

    /// The number of cores that each of them kept busy since the start.
    pub fn cells(&self, server: &PostgresServer, hosts: &[&ServerProcess]) -> [String; 3] {
        let now = ticks(server, hosts);
        let seconds = self.begun.elapsed().as_secs_f64();
        [0, 1, 2].map(|at| number(now[at].saturating_sub(self.before[at]) as f64 / 100.0 / seconds))
    }
}
