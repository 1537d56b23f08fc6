//! `upgrade`: what it costs to open the data of an earlier release with this one. An older program
//! fills a store; the new one migrates it and serves it. Shown are the time until it answers, the
//! processor time, the disk, and whether it answers what the old one did.

mod answers;
mod store;
mod watch;

use crate::compare::clock;
use crate::compare::scale::StoreChoice;
use crate::compare::{POSTGRES, SQLITE};
use crate::database::PostgresServer;
use crate::host::ServerProcess;
use crate::table::{Table, mib, number};
use crate::{Setup, default_program, facts};
use answers::{Answers, first_get, first_put};
use anyhow::ensure;
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::FilledStore;
use watch::{Watch, Watched};

/// Measure the upgrade of a store that an older program has filled.
#[derive(Args)]
pub struct UpgradeOptions {
    /// The older program, which fills the store.
    #[arg(long, value_name = "PATH")]
    from: PathBuf,
    /// The program to upgrade to [default: target/dist/remem of this workspace].
    #[arg(long, value_name = "PATH")]
    remem: Option<PathBuf>,
    /// Entries of the store.
    #[arg(long, default_value_t = 20_000)]
    entries: usize,
    /// Where memory is kept.
    #[arg(long, value_enum, default_value_t = StoreChoice::Both)]
    store: StoreChoice,
    /// Keeps the filled stores here and uses them again; on PostgreSQL the database stays on the
    /// server that --postgres names.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
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

pub fn run(options: &UpgradeOptions) -> anyhow::Result<()> {
    ensure!(
        (1_000..=5_000_000).contains(&options.entries),
        "--entries must be between 1000 and 5000000"
    );
    let wants_postgres = options.store != StoreChoice::Sqlite;
    ensure!(
        options.keep.is_none() || !wants_postgres || options.postgres.is_some(),
        "--keep needs --postgres, a server that stays, or --store sqlite"
    );
    let program = options.remem.clone().unwrap_or_else(default_program);
    let old = Setup::of_program(&options.from, &options.dir, options.entries)?;
    let new = Setup::of_program(&program, &options.dir, options.entries)?;
    facts::print(new.folder.path())?;
    if options.store != StoreChoice::Postgres {
        upgrade(options, &old, &new, None)?;
    }
    if wants_postgres {
        let server = match &options.postgres {
            Some(url) => PostgresServer::running_at(url)?,
            None => PostgresServer::start(&new)?,
        };
        upgrade(options, &old, &new, Some(&server))?;
    }
    Ok(())
}

/// What an upgrade took, in the order in which it happened.
struct Upgrade {
    migrate: Duration,
    ready: Duration,
    first_get: Duration,
    first_put: Duration,
    idle: Duration,
    host: Duration,
    database: Duration,
    disk_before: u64,
    disk_after: u64,
    watched: Watched,
}

fn upgrade(
    options: &UpgradeOptions,
    old: &Setup,
    new: &Setup,
    server: Option<&PostgresServer>,
) -> anyhow::Result<()> {
    let name = if server.is_some() { POSTGRES } else { SQLITE };
    let store = FilledStore::open(old, server, options.keep.as_deref())?;
    eprintln!("{name}: the upgrade begins");
    let (upgrade, answers) = measure(&store, new, server)?;
    ensure!(
        answers == store.answers,
        "{name}: the answers after the upgrade are not those before it: {:?}, {answers:?}",
        store.answers
    );
    store.remove(options.keep.is_some())?;
    print(name, options.entries, &upgrade);
    println!("\nThe answers are the same: {}.", answers.summary());
    Ok(())
}

/// Migrates and serves the store with the new program.
fn measure(
    store: &FilledStore,
    new: &Setup,
    server: Option<&PostgresServer>,
) -> anyhow::Result<(Upgrade, Answers)> {
    let disk_before = store.bytes()?;
    let commands_before = clock::of_ended_children()?;
    let database_before = database_time(server)?;
    let watch = Watch::start(store.meter());
    let begun = Instant::now();
    store.migrate(new)?;
    let migrate = begun.elapsed();
    let commands = clock::of_ended_children()? - commands_before;
    let host = ServerProcess::start_patiently(new, store.folder(), &store.options())?;
    let ready = begun.elapsed();
    first_get(&host)?;
    let first_get = begun.elapsed();
    first_put(&host)?;
    let first_put = begun.elapsed();
    let used = clock::wait_until_idle(&host, true)?;
    let upgrade = Upgrade {
        migrate,
        ready,
        first_get,
        first_put,
        idle: begun.elapsed(),
        host: used + commands,
        database: database_time(server)?.saturating_sub(database_before),
        disk_before,
        watched: watch.end()?,
        disk_after: 0,
    };
    let answers = Answers::read(&host)?;
    host.stop()?;
    let disk_after = store.bytes()?;
    Ok((
        Upgrade {
            disk_after,
            ..upgrade
        },
        answers,
    ))
}

fn database_time(server: Option<&PostgresServer>) -> anyhow::Result<Duration> {
    let postmaster = server.and_then(PostgresServer::postmaster);
    postmaster.map_or(Ok(Duration::ZERO), clock::of_family)
}

fn print(name: &str, entries: usize, upgrade: &Upgrade) {
    let seconds = |time: Duration| format!("{} s", number(time.as_secs_f64()));
    let mut table = Table::new(&["Upgrade", name]);
    let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
    if name == POSTGRES {
        row("`remem migrate` has ended", seconds(upgrade.migrate));
    }
    row("the host is ready", seconds(upgrade.ready));
    row("the first get is answered", seconds(upgrade.first_get));
    row("the first put is answered", seconds(upgrade.first_put));
    row("the host is idle", seconds(upgrade.idle));
    row("processor time of remem", seconds(upgrade.host));
    if name == POSTGRES {
        row("processor time of PostgreSQL", seconds(upgrade.database));
        let watched = &upgrade.watched;
        row("a table cannot be read for", seconds(watched.unreadable));
        row("a table cannot be written for", seconds(watched.unwritable));
    }
    row("disk before", mib(upgrade.disk_before));
    row("disk at most", mib(upgrade.watched.bytes_max));
    row("disk after", mib(upgrade.disk_after));
    let entries = number(entries as f64);
    table.print(&format!("## Upgrade of {entries} entries on {name}"));
}
