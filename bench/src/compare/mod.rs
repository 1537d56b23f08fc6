//! `compare`: two builds of the program against each other. Both get the same work in rounds, in
//! turns. The main figure is the processor time of the server, which on a machine with other load
//! says more about a build than wall time does. `docs/benchmarks.md` has the rule by which a build
//! is no slower than another.

pub mod clock;
pub mod commands;
mod figures;
mod fixed_load;
mod instructions;
mod meaning;
mod report;
mod round;
pub mod scale;
pub mod side;
mod stats;
mod workloads;

use crate::corpus::{Contents, Corpus};
use crate::database::PostgresServer;
use crate::host::{command, timed};
use crate::table::number;
use crate::{Setup, facts};
use anyhow::ensure;
use clap::Args;
use figures::{FigureUnit, Figures, Measurement};
use instructions::Counter;
use report::{Build, ComparisonReport};
use round::Round;
use scale::{CountMode, Group, Scale, StoreChoice};
use side::{Pair, Side};
use std::path::PathBuf;

pub const SQLITE: &str = "SQLite";
pub const POSTGRES: &str = "PostgreSQL";
/// The heading of figures that do not depend on a store.
const PROGRAM: &str = "Program";
/// Rounds in which instructions are counted; counts hardly vary.
const COUNTING_ROUNDS: usize = 3;

/// Compare two builds of the program.
#[derive(Args)]
pub struct CompareOptions {
    /// The program to compare with.
    #[arg(long, value_name = "PATH")]
    base: PathBuf,
    /// The program to judge; the same one as --base shows the noise.
    #[arg(long, value_name = "PATH")]
    with: PathBuf,
    /// How often everything is measured [default: 10; with --scale small 1, counting
    /// instructions 3].
    #[arg(long)]
    rounds: Option<usize>,
    /// Where memory is kept.
    #[arg(long, value_enum, default_value_t = StoreChoice::Both)]
    store: StoreChoice,
    /// Only these operations.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "GROUP,…")]
    only: Vec<Group>,
    /// How many operations each figure is taken over.
    #[arg(long, value_enum, default_value_t = Scale::Normal)]
    scale: Scale,
    /// What is counted.
    #[arg(long, value_enum, default_value_t = CountMode::Time)]
    count: CountMode,
    /// Writes all values to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Takes the noise from such a file, made with the base on both sides.
    #[arg(long, value_name = "FILE")]
    noise: Option<PathBuf>,
    /// A superuser's URL of a PostgreSQL server [default: one is started by scripts/postgres].
    #[arg(
        long,
        value_name = "URL",
        env = "REMEM_TEST_POSTGRES",
        hide_env_values = true
    )]
    postgres: Option<String>,
    /// A data folder in which `remem model install` has put a model, for search by meaning.
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Folder for data; must be on the disk to be measured.
    #[arg(long, value_name = "DIR", default_value = "./target/bench-data")]
    dir: PathBuf,
}

/// The settings that every round gets.
pub struct Comparison {
    setups: Pair<Setup>,
    only: Vec<Group>,
    scale: Scale,
    models: Option<PathBuf>,
    contents: Contents,
    /// The file that each program imports.
    corpus: PathBuf,
}

impl Comparison {
    fn new(options: &CompareOptions) -> anyhow::Result<Comparison> {
        let entries = match options.count {
            CountMode::Time => options.scale.corpus(),
            CountMode::Instructions => options.scale.corpus_of_commands(),
        };
        let base = Setup::of_program(&options.base, &options.dir, entries)?;
        let with = Setup::of_program(&options.with, &options.dir, entries)?;
        let corpus = Corpus::write(&base)?;
        Ok(Comparison {
            setups: Pair { base, with },
            only: options.only.clone(),
            scale: options.scale,
            models: options.models.clone(),
            contents: corpus.contents,
            corpus: corpus.file,
        })
    }

    fn wants(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }

    fn build(&self, side: Side) -> anyhow::Result<Build> {
        let setup = self.setups.of(side);
        let mut command = command(setup, setup.folder.path());
        command.arg("--version");
        Ok(Build {
            path: setup.remem.clone(),
            version: timed(command)?.1.trim().to_owned(),
        })
    }
}

pub fn run(options: &CompareOptions) -> anyhow::Result<()> {
    let rounds = options.rounds.unwrap_or(match options.count {
        CountMode::Time => options.scale.rounds(),
        CountMode::Instructions => options.scale.rounds().min(COUNTING_ROUNDS),
    });
    ensure!(
        (1..=1_000).contains(&rounds),
        "--rounds must be between 1 and 1000"
    );
    let noise = options
        .noise
        .as_deref()
        .map(ComparisonReport::read)
        .transpose()?;
    let counter = match options.count {
        CountMode::Time => None,
        CountMode::Instructions => Some(Counter::find()?),
    };
    let compare = Comparison::new(options)?;
    let server = match (options.store, &options.postgres) {
        (StoreChoice::Sqlite, _) => None,
        (_, Some(url)) => Some(PostgresServer::running_at(url)?),
        (_, None) => Some(PostgresServer::start(&compare.setups.base)?),
    };
    let cpu = facts::Cpu::now()?;
    let ticks_before = server.as_ref().map_or(0, PostgresServer::ticks);
    facts::print(compare.setups.base.folder.path())?;
    let mut figures = Figures::default();
    sizes(&compare, &mut figures)?;
    for number in 0..rounds {
        if options.store != StoreChoice::Postgres {
            run_round(&compare, &mut figures, counter, None, number)?;
        }
        if server.is_some() {
            run_round(&compare, &mut figures, counter, server.as_ref(), number)?;
        }
    }
    let report = ComparisonReport {
        base: compare.build(Side::Base)?,
        with: compare.build(Side::With)?,
        rounds,
        scale: options.scale,
        counted: counter
            .map_or("processor time of the server", Counter::name)
            .to_owned(),
        operations: figures.conclude(noise.as_ref()),
    };
    report.print();
    println!(
        "\nbase: {}, with: {}.",
        report.base.version, report.with.version
    );
    if options.models.is_none() && compare.wants(Group::Meaning) && counter.is_none() {
        println!("Vectors and search by meaning were left out: there is no --models.");
    }
    let ticks = server.as_ref().map_or(0, PostgresServer::ticks) - ticks_before;
    println!("\n{}", cpu.summary(ticks)?);
    options
        .json
        .as_deref()
        .map_or(Ok(()), |path| report.write(path))
}

/// One round on SQLite, or on PostgreSQL if there is a server.
fn run_round(
    compare: &Comparison,
    figures: &mut Figures,
    counter: Option<Counter>,
    server: Option<&PostgresServer>,
    number: usize,
) -> anyhow::Result<()> {
    let mut round = Round {
        compare,
        figures,
        store: if server.is_some() { POSTGRES } else { SQLITE },
        server,
        number,
    };
    match counter {
        None => round.run(),
        Some(counter) => commands::count_round(&mut round, counter),
    }
}

/// Adds the file sizes of the programs themselves.
fn sizes(compare: &Comparison, figures: &mut Figures) -> anyhow::Result<()> {
    if !compare.wants(Group::Footprint) {
        return Ok(());
    }
    for side in [Side::Base, Side::With] {
        let bytes = compare.setups.of(side).remem.metadata()?.len();
        eprintln!("{side:?}: a program of {} bytes", number(bytes as f64));
        let taken = Measurement::value_only(bytes as f64);
        figures.add(
            PROGRAM,
            "size of the program",
            FigureUnit::Bytes,
            side,
            taken,
        )?;
    }
    Ok(())
}
