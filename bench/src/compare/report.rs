//! The result of a comparison: a table with verdicts, and a file that a later comparison can take
//! its noise from.

use super::figures::FigureUnit;
use super::stats::{Spread, Verdict, median};
use crate::table::{LatencySample, Table, ms};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The wall time of requests in milliseconds, over all rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
}

impl Latency {
    /// The percentiles of some latencies; none without requests.
    pub fn of(nanos: Vec<u64>) -> Option<Latency> {
        let sample = LatencySample::new(nanos, 1.0);
        (sample.count() > 0).then(|| Latency {
            p50: sample.percentile(50.0),
            p95: sample.percentile(95.0),
        })
    }

    fn show(of: Option<&Latency>) -> String {
        of.map_or_else(String::new, |l| format!("{} / {}", ms(l.p50), ms(l.p95)))
    }
}

/// One operation on one store: the values of both sides, one for each round, and the conclusion
/// from them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    pub store: String,
    pub name: String,
    pub unit: FigureUnit,
    pub base: Vec<f64>,
    pub with: Vec<f64>,
    /// The spread of the ratios of each round.
    pub ratio: Spread,
    /// The ratios of the base against itself that the verdict took into account.
    pub noise: Option<Spread>,
    pub verdict: Verdict,
    pub latency_base: Option<Latency>,
    pub latency_with: Option<Latency>,
    /// The processor time of PostgreSQL itself in microseconds; no part of the verdict.
    pub database_base: Vec<f64>,
    pub database_with: Vec<f64>,
}

/// A program that was compared.
#[derive(Debug, Serialize, Deserialize)]
pub struct Build {
    pub path: PathBuf,
    pub version: String,
}

/// A whole comparison, as it is stored in the file.
#[derive(Debug, Serialize, Deserialize)]
pub struct ComparisonReport {
    pub base: Build,
    pub with: Build,
    pub rounds: usize,
    pub scale: super::Scale,
    /// The measured quantity, and the tool that measured it.
    pub counted: String,
    pub operations: Vec<Operation>,
}

impl ComparisonReport {
    pub fn read(path: &Path) -> anyhow::Result<ComparisonReport> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no report", path.display()))
    }

    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The spread of an operation's ratios, if it was compared.
    pub fn ratio(&self, store: &str, name: &str) -> Option<&Spread> {
        let same = |of: &&Operation| of.store == store && of.name == name;
        self.operations.iter().find(same).map(|of| &of.ratio)
    }

    pub fn print(&self) {
        let mut stores: Vec<&str> = self.operations.iter().map(|of| of.store.as_str()).collect();
        stores.dedup();
        for store in stores {
            let title = format!("## {store}: {}, {} rounds", self.counted, self.rounds);
            self.table(store).print(&title);
        }
        let worse: Vec<String> = self
            .operations
            .iter()
            .filter(|of| of.verdict == Verdict::More)
            .map(|of| format!("{} ({})", of.name, of.store))
            .collect();
        let all = self.operations.len();
        match worse.len() {
            0 => println!("\nNone of {all} operations is slower or larger."),
            n => println!("\n{n} of {all} are slower or larger: {}.", worse.join(", ")),
        }
    }

    fn table(&self, store: &str) -> Table {
        let mut heads = vec![
            "Operation",
            "base",
            "with",
            "ratio",
            "quartiles",
            "min..max",
        ];
        heads.extend(["verdict", "base p50 / p95", "with p50 / p95"]);
        let database = self
            .operations
            .iter()
            .any(|of| !of.database_base.is_empty());
        if database && store == super::POSTGRES {
            heads.extend(["database, base", "database, with"]);
        }
        let mut table = Table::new(&heads);
        for of in self.operations.iter().filter(|of| of.store == store) {
            table.row(of.cells());
        }
        table
    }
}

impl Operation {
    fn cells(&self) -> Vec<String> {
        let ratio = &self.ratio;
        let mut cells = vec![
            self.name.clone(),
            self.unit.show(median(&self.base)),
            self.unit.show(median(&self.with)),
            format!("{:.3}", ratio.median),
            format!("{:.3}..{:.3}", ratio.q1, ratio.q3),
            format!("{:.3}..{:.3}", ratio.min, ratio.max),
            self.unit.verdict(self.verdict).to_owned(),
            Latency::show(self.latency_base.as_ref()),
            Latency::show(self.latency_with.as_ref()),
        ];
        for micros in [&self.database_base, &self.database_with] {
            if !micros.is_empty() {
                cells.push(FigureUnit::ProcessorMicros.show(median(micros)));
            }
        }
        cells
    }
}
