//! The values of a running comparison: one for each operation, store, side and round.

use super::report::{ComparisonReport, Latency, Operation};
use super::side::{Pair, Side};
use super::stats::{Spread, Verdict, ratios};
use crate::table::number;
use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FigureUnit {
    /// Processor time in microseconds.
    ProcessorMicros,
    Instructions,
    Bytes,
}

impl FigureUnit {
    /// Formats a value of this unit.
    pub fn show(self, value: f64) -> String {
        match self {
            FigureUnit::ProcessorMicros if value >= 10_000.0 => {
                format!("{} ms", number(value / 1e3))
            }
            FigureUnit::ProcessorMicros => format!("{} µs", number(value)),
            FigureUnit::Instructions if value >= 1e5 => format!("{} M", number(value / 1e6)),
            FigureUnit::Instructions => number(value),
            FigureUnit::Bytes if value >= 1e5 => format!("{} MiB", number(value / 1_048_576.0)),
            FigureUnit::Bytes => format!("{} B", number(value)),
        }
    }

    /// Formats a verdict: time is faster or slower, bytes are smaller or larger.
    pub fn verdict(self, verdict: Verdict) -> &'static str {
        match (self, verdict) {
            (_, Verdict::Same) => "same",
            (FigureUnit::Bytes, Verdict::Less) => "smaller",
            (FigureUnit::Bytes, Verdict::More) => "larger",
            (_, Verdict::Less) => "faster",
            (_, Verdict::More) => "slower",
        }
    }
}

/// One measured value of one side.
pub struct Measurement {
    pub value: f64,
    /// The latencies of the requests, if there were any.
    pub nanos: Vec<u64>,
    /// The processor time of the database, in microseconds.
    pub database: Option<f64>,
}

impl Measurement {
    pub fn value_only(value: f64) -> Measurement {
        Measurement {
            value,
            nanos: Vec::new(),
            database: None,
        }
    }
}

/// All values of one operation so far.
struct Series {
    store: &'static str,
    name: String,
    unit: FigureUnit,
    values: Pair<Vec<f64>>,
    nanos: Pair<Vec<u64>>,
    database: Pair<Vec<f64>>,
}

/// All values of a running comparison.
#[derive(Default)]
pub struct Figures {
    series: Vec<Series>,
}

impl Figures {
    pub fn add(
        &mut self,
        store: &'static str,
        name: &str,
        unit: FigureUnit,
        side: Side,
        taken: Measurement,
    ) -> anyhow::Result<()> {
        ensure!(taken.value > 0.0, "{name}: nothing was measured");
        let known = |series: &Series| series.store == store && series.name == name;
        let at = self.series.iter().position(known).unwrap_or_else(|| {
            self.series.push(Series {
                store,
                name: name.to_owned(),
                unit,
                values: Pair::default(),
                nanos: Pair::default(),
                database: Pair::default(),
            });
            self.series.len() - 1
        });
        let series = &mut self.series[at];
        series.values.of_mut(side).push(taken.value);
        series.nanos.of_mut(side).extend(taken.nanos);
        series.database.of_mut(side).extend(taken.database);
        Ok(())
    }

    /// Computes the ratios and verdicts of all operations.
    pub fn conclude(self, noise: Option<&ComparisonReport>) -> Vec<Operation> {
        let judged = |series: Series| {
            let Pair { base, with } = series.values;
            let ratio = Spread::of(&ratios(&base, &with));
            let noise = noise.and_then(|noise| noise.ratio(series.store, &series.name));
            let [latency_base, latency_with] =
                [series.nanos.base, series.nanos.with].map(Latency::of);
            Operation {
                store: series.store.to_owned(),
                verdict: Verdict::of(ratio.median, noise),
                noise: noise.copied(),
                name: series.name,
                unit: series.unit,
                base,
                with,
                ratio,
                latency_base,
                latency_with,
                database_base: series.database.base,
                database_with: series.database.with,
            }
        };
        self.series.into_iter().map(judged).collect()
    }
}
