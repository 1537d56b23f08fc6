//! `growth`: what each operation costs in memories of different sizes. A host for each size serves
//! one memory; the hosts take turns, so that a busy machine disturbs all sizes alike. The figure is
//! processor time, and what matters is its ratio to that of the smallest memory.

mod check;
mod grown;
mod operations;

use crate::compare::clock::ProcessorTime;
use crate::compare::scale::StoreChoice;
use crate::compare::{POSTGRES, SQLITE};
use crate::database::PostgresServer;
use crate::table::{Table, median, number, ratio};
use crate::{Setup, default_program, facts};
use anyhow::{bail, ensure};
use check::broken_bounds;
use clap::Args;
use grown::GrownHost;
use operations::{OPERATIONS, Operation};
use std::path::PathBuf;
use std::time::Duration;

const SIZES: [usize; 2] = [1_000, 30_000];
/// The sizes between which `--check` compares.
const CHECKED_SIZES: [usize; 2] = [500, 50_000];
const LARGE: usize = 1_000_000;

/// Measure how the cost of each operation grows with the number of entries in a memory.
#[derive(Args)]
pub struct GrowthOptions {
    /// The program to measure [default: target/dist/remem of this workspace].
    #[arg(long, value_name = "PATH")]
    remem: Option<PathBuf>,
    /// Where memory is kept.
    #[arg(long, value_enum, default_value_t = StoreChoice::Both)]
    store: StoreChoice,
    /// Entries of the memories [default: 1000,30000; with --check 500,50000].
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    sizes: Vec<usize>,
    /// Adds a memory of 1,000,000 entries.
    #[arg(long)]
    large: bool,
    /// Fails if the cost of an operation grows by more than its bound.
    #[arg(long)]
    check: bool,
    /// How often each operation is measured on each memory; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// A superuser's URL of a PostgreSQL server [default: one is started by scripts/postgres].
    #[arg(
        long,
        value_name = "URL",
        env = "REMEM_TEST_POSTGRES",
        hide_env_values = true
    )]
    postgres: Option<String>,
    /// Folder for data; must be on the disk to be measured.
    #[arg(long, value_name = "DIR", default_value = "./target/bench-data")]
    dir: PathBuf,
}

impl GrowthOptions {
    /// The sizes to measure, from the smallest to the largest.
    fn all_sizes(&self) -> Vec<usize> {
        let mut sizes = match (self.sizes.is_empty(), self.check) {
            (false, _) => self.sizes.clone(),
            (true, true) => CHECKED_SIZES.to_vec(),
            (true, false) => SIZES.to_vec(),
        };
        if self.large {
            sizes.push(LARGE);
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// The processor time of one operation in memories of all sizes, in microseconds.
pub struct Growth {
    operation: &'static Operation,
    /// The medians of all rounds, in the order of the sizes.
    micros: Vec<f64>,
}

impl Growth {
    /// The medians of some part of the time, of all operations.
    fn of(
        times: &[Vec<Vec<ProcessorTime>>],
        part: impl Fn(&ProcessorTime) -> Duration,
    ) -> Vec<Growth> {
        let micros = |rounds: &Vec<ProcessorTime>| {
            median(
                rounds
                    .iter()
                    .map(|time| part(time).as_secs_f64() * 1e6)
                    .collect(),
            )
        };
        let growth = |(operation, sizes): (&'static Operation, &Vec<Vec<ProcessorTime>>)| Growth {
            operation,
            micros: sizes.iter().map(micros).collect(),
        };
        OPERATIONS.iter().zip(times).map(growth).collect()
    }
}

pub fn run(options: &GrowthOptions) -> anyhow::Result<()> {
    let sizes = options.all_sizes();
    ensure!(
        sizes.len() > 1 && sizes[0] >= 100,
        "--sizes must name two sizes at least, of 100 entries or more"
    );
    ensure!(
        (1..=100).contains(&options.rounds),
        "--rounds must be between 1 and 100"
    );
    let program = options.remem.clone().unwrap_or_else(default_program);
    let setups = sizes
        .iter()
        .map(|&size| Setup::of_program(&program, &options.dir, size))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let cpu = facts::Cpu::now()?;
    facts::print(setups[0].folder.path())?;
    let mut broken = Vec::new();
    if options.store != StoreChoice::Postgres {
        broken.extend(measure_store(options, &setups, None)?);
    }
    let mut ticks = 0;
    if options.store != StoreChoice::Sqlite {
        let server = match &options.postgres {
            Some(url) => PostgresServer::running_at(url)?,
            None => PostgresServer::start(&setups[0])?,
        };
        let before = server.ticks();
        broken.extend(measure_store(options, &setups, Some(&server))?);
        ticks = server.ticks() - before;
    }
    println!("\n{}", cpu.summary(ticks)?);
    if options.check && !broken.is_empty() {
        bail!(
            "the cost of operations grows too much:\n{}",
            broken.join("\n")
        );
    }
    Ok(())
}

/// Measures all operations on one store and prints them; returns the bounds that are broken.
fn measure_store(
    options: &GrowthOptions,
    setups: &[Setup],
    server: Option<&PostgresServer>,
) -> anyhow::Result<Vec<String>> {
    let store = if server.is_some() { POSTGRES } else { SQLITE };
    let mut hosts = setups
        .iter()
        .map(|setup| GrownHost::fill(setup, server))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut times: Vec<Vec<Vec<ProcessorTime>>> = Vec::new();
    times.resize_with(OPERATIONS.len(), || {
        (0..hosts.len()).map(|_| Vec::new()).collect()
    });
    for round in 0..options.rounds {
        for (operation, times) in OPERATIONS.iter().zip(&mut times) {
            // In every other round the largest memory comes first.
            let mut turns: Vec<_> = hosts.iter_mut().zip(times).collect();
            if round % 2 == 1 {
                turns.reverse();
            }
            for (host, times) in turns {
                times.push(host.measure(operation, round)?);
            }
            eprintln!("{store}, round {}: {}", round + 1, operation.name);
        }
    }
    for host in hosts {
        host.stop()?;
    }
    let sizes: Vec<usize> = setups.iter().map(|setup| setup.entries).collect();
    let growth = Growth::of(&times, ProcessorTime::total);
    if server.is_some() {
        let of_hosts = Growth::of(&times, |time| time.host);
        print(&sizes, &of_hosts, "PostgreSQL, the host alone");
        print(&sizes, &growth, "PostgreSQL, host and database");
    } else {
        print(&sizes, &growth, SQLITE);
    }
    Ok(broken_bounds(store, &sizes, &growth))
}

fn print(sizes: &[usize], growth: &[Growth], title: &str) {
    let entries = sizes.iter().map(|&size| number(size as f64));
    let mut heads = vec!["Processor time, µs".to_owned()];
    heads.extend(entries.enumerate().flat_map(|(at, size)| {
        let growth = (at > 0).then(|| "growth".to_owned());
        [size].into_iter().chain(growth)
    }));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&heads);
    for Growth { operation, micros } in growth {
        let cells = micros.iter().enumerate().flat_map(|(at, &value)| {
            let growth = (at > 0).then(|| ratio(value, micros[0]));
            [number(value)].into_iter().chain(growth)
        });
        table.row([operation.name.to_owned()].into_iter().chain(cells));
    }
    table.print(&format!("## Growth: {title}"));
}
