//! One round on one store: both programs get new data folders, import the corpus, serve it, and get
//! the same requests. After each operation the other program has its turn.

use super::clock::{at_rest, of_family, of_process};
use super::commands::{import, processor_micros};
use super::figures::{Figures, Taken, Unit};
use super::meaning;
use super::side::{Pair, Place, Side};
use super::workloads::{Target, WORKLOADS, Workload};
use super::{Compare, Group};
use crate::database::Server;
use crate::host::{Host, timed};
use std::time::Duration;

/// A round, with the figures that it adds to.
pub struct Round<'a> {
    pub compare: &'a Compare,
    pub figures: &'a mut Figures,
    pub store: &'static str,
    pub server: Option<&'a Server>,
    pub number: usize,
}

impl Round<'_> {
    pub fn run(&mut self) -> anyhow::Result<()> {
        if WORKLOADS.iter().any(|of| self.compare.wants(of.group))
            || self.compare.wants(Group::Import)
            || self.compare.wants(Group::Footprint)
        {
            self.words()?;
        }
        if let Some(models) = self.compare.models.as_deref()
            && self.compare.wants(Group::Meaning)
        {
            meaning::round(self, models)?;
        }
        eprintln!("{}: round {} is over", self.store, self.number + 1);
        Ok(())
    }

    fn words(&mut self) -> anyhow::Result<()> {
        let compare = self.compare;
        let server = self.server;
        let places = Pair::make(self.number, |side| {
            Place::new(compare.setups.of(side), server)
        })?;
        for side in Side::in_turn(self.number) {
            self.fill(side, places.of(side))?;
        }
        let hosts = Pair::make(self.number, |side| self.start(side, places.of(side)))?;
        for (turn, workload) in WORKLOADS.iter().enumerate() {
            if !compare.wants(workload.group) {
                continue;
            }
            for side in Side::in_turn(self.number + turn) {
                self.measure(side, hosts.of(side), workload)?;
            }
        }
        for side in Side::in_turn(self.number) {
            self.memory(side, hosts.of(side), "resident memory after all of it")?;
        }
        hosts.base.stop()?;
        hosts.with.stop()
    }

    /// Imports the corpus, which is also a measured operation.
    fn fill(&mut self, side: Side, place: &Place) -> anyhow::Result<()> {
        let command = import(place, &self.compare.corpus);
        let entries = self.compare.scale.corpus() as f64;
        if self.compare.wants(Group::Import) {
            let micros = processor_micros(command)?;
            let taken = Taken::only(micros / entries);
            self.add(
                side,
                "import --local, an entry",
                Unit::ProcessorMicros,
                taken,
            )?;
        } else {
            timed(command)?;
        }
        let bytes = place.settled_bytes()?;
        if self.compare.wants(Group::Footprint) {
            let taken = Taken::only(bytes as f64 / entries);
            self.add(side, "disk, an entry of 200 bytes", Unit::Bytes, taken)?;
        }
        Ok(())
    }

    fn start(&mut self, side: Side, place: &Place) -> anyhow::Result<Host> {
        let host = place.serve()?;
        let used = of_process(host.pid())?;
        at_rest(&host, true)?;
        if self.compare.wants(Group::Footprint) {
            let taken = Taken::only(used.as_secs_f64() * 1e6);
            self.add(
                side,
                "start, until it is ready",
                Unit::ProcessorMicros,
                taken,
            )?;
        }
        self.memory(side, &host, "resident memory, idle")?;
        Ok(host)
    }

    fn memory(&mut self, side: Side, host: &Host, name: &str) -> anyhow::Result<()> {
        if !self.compare.wants(Group::Footprint) {
            return Ok(());
        }
        let taken = Taken::only(host.memory("VmRSS")? as f64);
        self.add(side, name, Unit::Bytes, taken)
    }

    /// Measures an operation on a server: its processor time from idle to idle.
    pub fn measure(&mut self, side: Side, host: &Host, workload: &Workload) -> anyhow::Result<()> {
        let target = Target {
            host,
            contents: &self.compare.contents,
            scale: self.compare.scale,
        };
        // Without a preparation the server is still idle from its last turn.
        if let Some(prepare) = workload.prepare {
            prepare(&target)?;
            at_rest(host, workload.writes)?;
        }
        let database = self.database_time()?;
        let before = of_process(host.pid())?;
        let work = (workload.work)(&target)?;
        let after = at_rest(host, workload.writes)?;
        let each = |used: Duration| used.as_secs_f64() * 1e6 / work.operations as f64;
        let database = match (database, self.database_time()?) {
            (Some(before), Some(after)) => Some(each(after.saturating_sub(before))),
            _ => None,
        };
        let taken = Taken {
            value: each(after.saturating_sub(before)),
            nanos: work.nanos,
            database,
        };
        self.add(side, workload.name, Unit::ProcessorMicros, taken)
    }

    fn database_time(&self) -> anyhow::Result<Option<Duration>> {
        self.server
            .and_then(Server::postmaster)
            .map(of_family)
            .transpose()
    }

    /// Adds a value of this round.
    pub fn add(&mut self, side: Side, name: &str, unit: Unit, taken: Taken) -> anyhow::Result<()> {
        self.figures.add(self.store, name, unit, side, taken)
    }
}
