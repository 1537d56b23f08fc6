//! The benchmarks: their command line, their sizes, and the order in which they run. Each prints
//! Markdown tables with ratios against a peer or a physical floor that was measured in the same
//! run; `docs/benchmarks.md` shows figures and explains them.
//!
//! Everything stays on loopback and in a folder of its own, and is bounded in count and time.
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures time and starts load"
)]

mod client;
mod commitments;
mod compare;
mod consolidate;
mod core_usage;
mod corpus;
mod database;
mod distill;
mod facts;
mod flood;
mod floor;
mod footprint;
mod growth;
mod guard;
mod host;
mod load;
mod locomo;
mod nodes;
mod passes;
mod peer;
mod postgres;
mod postgres_peer;
mod postgres_reads;
mod puts;
mod reads;
mod recall;
mod redact;
mod runs;
mod selection;
mod table;
mod text;
mod transfer;
mod upgrade;

use anyhow::{Context, bail, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use corpus::Corpus;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Benchmarks of Remembrancer.
#[derive(Parser)]
#[command(name = "remem-bench", arg_required_else_help = true)]
#[command(args_conflicts_with_subcommands = true)]
struct BenchCli {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    measure: Option<Measure>,
}

#[derive(Subcommand)]
enum BenchCommand {
    Compare(compare::CompareOptions),
    Growth(growth::GrowthOptions),
    Upgrade(upgrade::UpgradeOptions),
}

/// What to measure of one build.
#[derive(Args)]
struct Measure {
    /// What to measure.
    #[arg(value_enum)]
    benchmark: Benchmark,
    /// The program to measure [default: target/dist/remem of this workspace].
    #[arg(long, value_name = "PATH")]
    remem: Option<PathBuf>,
    /// Folder for data; must be on the disk to be measured.
    #[arg(long, value_name = "DIR", default_value = "./target/bench-data")]
    dir: PathBuf,
    /// Seconds for each figure over HTTP.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Entries for `reads`, `import`, `footprint`, `postgres` and `consolidate` [default: 100000;
    /// `consolidate` alone: 10000, 100000 and 1000000].
    #[arg(long)]
    entries: Option<usize>,
    /// Megabytes of text for `redact`.
    #[arg(long, default_value_t = 16)]
    megabytes: usize,
    /// Starts of the server in `footprint`; the median is shown.
    #[arg(long, default_value_t = 5)]
    starts: usize,
    /// Conversations for `distill`, in the format of LoCoMo.
    #[arg(long, value_name = "FILE")]
    locomo: Option<PathBuf>,
    /// A Python with lancedb and sqlite-vec, whose figures `recall` shows beside ours.
    #[arg(long, value_name = "PYTHON")]
    peers: Option<PathBuf>,
    /// Measures `recall` on a PostgreSQL of its own, too.
    #[arg(long)]
    postgres: bool,
    /// How many of them, from the end, `distill` shows apart.
    #[arg(long, default_value_t = 2)]
    held_out: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Throughput of the redactor, against naive replacing.
    Redact,
    /// Durable writes over HTTP, against the disk's own flushes and plain SQLite.
    Puts,
    /// Small requests of one tenant beside costly ones of another, against the same host without.
    Flood,
    /// Whole runs over HTTP, against puts on the same host.
    Runs,
    /// Get, list and search over HTTP.
    Reads,
    /// Import and export.
    Import,
    /// Size of the program, start-up, memory in use.
    Footprint,
    /// The host on PostgreSQL, against itself on SQLite and plain INSERTs; one to three nodes.
    Postgres,
    /// The plan of consolidation, against comparing all pairs.
    Consolidate,
    /// Consolidation, distillation, compaction and forget over the embedded store.
    Passes,
    /// Reading promises and firing what is due, against storing and plain loops over rows.
    Commitments,
    /// Writes beside 20,000 rules that none may restate, against writes that are not guarded and a
    /// scan of all rules.
    Guard,
    /// Search by words and meaning in a memory of 10,000, 100,000 and 1,000,000 entries, against
    /// two others with --peers; not part of `all`, because it takes long.
    Recall,
    /// What digests keep of long conversations; not part of `all`, because it needs --locomo.
    Distill,
    /// All of these.
    All,
}

/// The settings that every benchmark gets.
pub struct Setup {
    /// The program to measure.
    remem: PathBuf,
    /// A folder on the disk to measure, removed at the end.
    folder: TempDir,
    /// The time for which each figure over HTTP is measured.
    run_time: Duration,
    /// The number of entries of the corpus.
    entries: usize,
    megabytes: usize,
    starts: usize,
}

impl Setup {
    fn new(cli: &Measure) -> anyhow::Result<Setup> {
        ensure!(
            (0.1..=60.0).contains(&cli.seconds),
            "--seconds must be between 0.1 and 60"
        );
        let entries = cli.entries.unwrap_or(100_000);
        ensure!(
            (1_000..=5_000_000).contains(&entries),
            "--entries must be between 1000 and 5000000"
        );
        ensure!(
            (1..=1_024).contains(&cli.megabytes),
            "--megabytes must be between 1 and 1024"
        );
        ensure!(
            (1..=100).contains(&cli.starts),
            "--starts must be between 1 and 100"
        );
        let remem = cli.remem.clone().unwrap_or_else(default_program);
        // These benchmarks run the code in this process and need no program.
        if !matches!(
            cli.benchmark,
            Benchmark::Redact
                | Benchmark::Consolidate
                | Benchmark::Passes
                | Benchmark::Commitments
                | Benchmark::Guard
                | Benchmark::Recall
        ) {
            ensure!(
                remem.is_file(),
                "there is no program at {}: build it with `cargo build --release -p remem`, or name it with --remem",
                remem.display()
            );
        }
        let folder = scratch(&cli.dir)?;
        let run = Duration::from_secs_f64(cli.seconds);
        Ok(Setup {
            remem,
            folder,
            run_time: run,
            entries,
            megabytes: cli.megabytes,
            starts: cli.starts,
        })
    }

    /// The setup for one of several programs or sizes.
    fn of_program(remem: &Path, dir: &Path, entries: usize) -> anyhow::Result<Setup> {
        ensure!(
            remem.is_file(),
            "there is no program at {}",
            remem.display()
        );
        Ok(Setup {
            remem: remem.canonicalize()?,
            folder: scratch(dir)?,
            run_time: Duration::ZERO,
            entries,
            megabytes: 0,
            starts: 0,
        })
    }

    /// Makes a new folder inside the folder of the run.
    pub fn new_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = tempfile::Builder::new()
            .prefix(name)
            .tempdir_in(self.folder.path())?
            .keep();
        Ok(path)
    }
}

/// The program that is measured if none is named.
fn default_program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/dist/remem")
}

/// A folder on the disk to measure, removed when it is dropped.
fn scratch(dir: &Path) -> anyhow::Result<TempDir> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(dir)?;
    facts::on_disk(folder.path())?;
    Ok(folder)
}

fn main() -> anyhow::Result<()> {
    let cli = BenchCli::parse();
    match (cli.command, cli.measure) {
        (Some(BenchCommand::Compare(options)), _) => compare::run(&options),
        (Some(BenchCommand::Growth(options)), _) => growth::run(&options),
        (Some(BenchCommand::Upgrade(options)), _) => upgrade::run(&options),
        (None, Some(measure)) => measure_one(&measure),
        (None, None) => bail!("say what to measure; --help shows it"),
    }
}

fn measure_one(cli: &Measure) -> anyhow::Result<()> {
    // `distill` writes nothing and starts no server, so it needs no setup.
    if cli.benchmark == Benchmark::Distill {
        let file = cli
            .locomo
            .as_deref()
            .context("`distill` needs --locomo FILE")?;
        return distill::run(file, cli.held_out);
    }
    let setup = Setup::new(cli)?;
    let wants = |benchmark| cli.benchmark == benchmark || cli.benchmark == Benchmark::All;
    let cpu = facts::Cpu::now()?;
    facts::print(setup.folder.path())?;
    if wants(Benchmark::Redact) {
        redact::run(&setup)?;
    }
    if wants(Benchmark::Consolidate) {
        let alone = cli.benchmark == Benchmark::Consolidate && cli.entries.is_none();
        consolidate::run(&if alone {
            vec![10_000, 100_000, 1_000_000]
        } else {
            vec![setup.entries]
        })?;
    }
    if wants(Benchmark::Passes) {
        let alone = cli.benchmark == Benchmark::Passes && cli.entries.is_none();
        passes::run(
            &setup,
            &if alone {
                vec![10_000, 100_000, 1_000_000]
            } else {
                vec![setup.entries]
            },
        )?;
    }
    if wants(Benchmark::Commitments) {
        commitments::run(&setup)?;
    }
    if cli.benchmark == Benchmark::Recall {
        let sizes = cli
            .entries
            .map_or_else(|| vec![10_000, 100_000, 1_000_000], |entries| vec![entries]);
        recall::run(&setup, &sizes, cli.peers.as_deref(), cli.postgres)?;
    }
    if wants(Benchmark::Guard) {
        guard::run(&setup)?;
    }
    if wants(Benchmark::Puts) {
        puts::run(&setup)?;
    }
    if wants(Benchmark::Flood) {
        flood::run(&setup)?;
    }
    if wants(Benchmark::Runs) {
        runs::run(&setup)?;
    }
    let servers = measure_with_corpus(&setup, wants);
    println!("\n{}", cpu.summary(*servers.as_ref().unwrap_or(&0))?);
    servers.map(|_| ())
}

/// The benchmarks that share one corpus. Returns the processor time of servers that are not
/// children of this process, in ticks.
fn measure_with_corpus(setup: &Setup, wants: impl Fn(Benchmark) -> bool) -> anyhow::Result<u64> {
    let all = [
        Benchmark::Import,
        Benchmark::Reads,
        Benchmark::Footprint,
        Benchmark::Postgres,
    ];
    if !all.into_iter().any(&wants) {
        return Ok(0);
    }
    let mut corpus = Corpus::write(setup)?;
    if wants(Benchmark::Import) {
        transfer::run(setup, &mut corpus)?;
    }
    if wants(Benchmark::Reads) {
        reads::run(setup, &mut corpus)?;
    }
    if wants(Benchmark::Footprint) {
        footprint::run(setup, &mut corpus)?;
    }
    if wants(Benchmark::Postgres) {
        return postgres::run(setup, &mut corpus);
    }
    Ok(0)
}
