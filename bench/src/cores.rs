//! The processor time of the database, the host and the load while a figure is measured. They share
//! the machine, so this shows which of them limits a figure.

use crate::database::Server;
use crate::facts;
use crate::host::Host;
use crate::table::number;
use std::time::Instant;

/// The column heads for the cells of `CoreUsage::cells`.
pub const HEADS: [&str; 3] = ["cores: PostgreSQL", "cores: remem", "cores: load"];

/// A measurement of ticks of the database, the hosts and this process.
pub struct Watch {
    begun: Instant,
    before: [u64; 3],
}

fn ticks(server: &Server, hosts: &[&Host]) -> [u64; 3] {
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

impl Watch {
    pub fn start(server: &Server, hosts: &[&Host]) -> Watch {
        Watch {
            begun: Instant::now(),
            before: ticks(server, hosts),
        }
    }

    /// The number of cores that each of them kept busy since the start.
    pub fn cells(&self, server: &Server, hosts: &[&Host]) -> [String; 3] {
        let now = ticks(server, hosts);
        let seconds = self.begun.elapsed().as_secs_f64();
        [0, 1, 2].map(|at| number(now[at].saturating_sub(self.before[at]) as f64 / 100.0 / seconds))
    }
}
