//! One round on one store: both programs get new data folders, import the corpus, serve it, and get
//! the same requests. After each operation the other program has its turn.

use super::clock::{of_family, of_process, wait_until_idle};
use super::commands::{import, processor_micros};
use super::figures::{FigureUnit, Figures, Measurement};
use super::meaning;
use super::side::{DataPlace, Pair, Side};
use super::workloads::{WORKLOADS, Workload, WorkloadTarget};
use super::{Comparison, Group};
use crate::database::PostgresServer;
use crate::host::{ServerProcess, timed};
use std::time::Duration;

/// A round, with the figures that it adds to.
pub struct Round<'a> {
    pub compare: &'a Comparison,
    pub figures: &'a mut Figures,
    pub store: &'static str,
    pub server: Option<&'a PostgresServer>,
    pub number: usize,
}

impl Round<'_> {
    pub fn run(&mut self) -> anyhow::Result<()> {
        if WORKLOADS.iter().any(|of| self.compare.wants(of.group))
            || self.compare.wants(Group::Import)
            || self.compare.wants(Group::Footprint)
        {
            self.run_workloads()?;
        }
        if let Some(models) = self.compare.models.as_deref()
            && self.compare.wants(Group::Meaning)
        {
            meaning::round(self, models)?;
        }
        eprintln!("{}: round {} is over", self.store, self.number + 1);
        Ok(())
    }

    fn run_workloads(&mut self) -> anyhow::Result<()> {
        let compare = self.compare;
        let server = self.server;
        let places = Pair::make(self.number, |side| {
            DataPlace::new(compare.setups.of(side), server)
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
    fn fill(&mut self, side: Side, place: &DataPlace) -> anyhow::Result<()> {
        let command = import(place, &self.compare.corpus);
        let entries = self.compare.scale.corpus() as f64;
        if self.compare.wants(Group::Import) {
            let micros = processor_micros(command)?;
            let taken = Measurement::value_only(micros / entries);
            self.add(
                side,
                "import --local, an entry",
                FigureUnit::ProcessorMicros,
                taken,
            )?;
        } else {
            timed(command)?;
        }
        let bytes = place.bytes_after_vacuum()?;
        if self.compare.wants(Group::Footprint) {
            let taken = Measurement::value_only(bytes as f64 / entries);
            self.add(
                side,
                "disk, an entry of 200 bytes",
                FigureUnit::Bytes,
                taken,
            )?;
        }
        Ok(())
    }

    fn start(&mut self, side: Side, place: &DataPlace) -> anyhow::Result<ServerProcess> {
        let host = place.serve()?;
        let used = of_process(host.pid())?;
        wait_until_idle(&host, true)?;
        if self.compare.wants(Group::Footprint) {
            let taken = Measurement::value_only(used.as_secs_f64() * 1e6);
            self.add(
                side,
                "start, until it is ready",
                FigureUnit::ProcessorMicros,
                taken,
            )?;
        }
        self.memory(side, &host, "resident memory, idle")?;
        Ok(host)
    }

    fn memory(&mut self, side: Side, host: &ServerProcess, name: &str) -> anyhow::Result<()> {
        if !self.compare.wants(Group::Footprint) {
            return Ok(());
        }
        let taken = Measurement::value_only(host.memory("VmRSS")? as f64);
        self.add(side, name, FigureUnit::Bytes, taken)
    }

    /// Measures an operation on a server: its processor time from idle to idle.
    pub fn measure(
        &mut self,
        side: Side,
        host: &ServerProcess,
        workload: &Workload,
    ) -> anyhow::Result<()> {
        let target = WorkloadTarget {
            host,
            contents: &self.compare.contents,
            scale: self.compare.scale,
        };
        // Without a preparation the server is still idle from its last turn.
        if let Some(prepare) = workload.prepare {
            prepare(&target)?;
            wait_until_idle(host, workload.writes)?;
        }
        let database = self.database_time()?;
        let before = of_process(host.pid())?;
        let work = (workload.work)(&target)?;
        let after = wait_until_idle(host, workload.writes)?;
        let each = |used: Duration| used.as_secs_f64() * 1e6 / work.operations as f64;
        let database = match (database, self.database_time()?) {
            (Some(before), Some(after)) => Some(each(after.saturating_sub(before))),
            _ => None,
        };
        let taken = Measurement {
            value: each(after.saturating_sub(before)),
            nanos: work.nanos,
            database,
        };
        self.add(side, workload.name, FigureUnit::ProcessorMicros, taken)
    }

    fn database_time(&self) -> anyhow::Result<Option<Duration>> {
        self.server
            .and_then(PostgresServer::postmaster)
            .map(of_family)
            .transpose()
    }

    /// Adds a value of this round.
    pub fn add(
        &mut self,
        side: Side,
        name: &str,
        unit: FigureUnit,
        taken: Measurement,
    ) -> anyhow::Result<()> {
        self.figures.add(self.store, name, unit, side, taken)
    }
}
