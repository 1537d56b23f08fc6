//! The reads of `postgres`: get, list and search in one memory that holds the whole corpus, by the
//! host on PostgreSQL and on SQLite over HTTP, and by the peer on a connection. The peer searches
//! with GIN, which row-level security rules out, so the search columns show the cost of row-level
//! security.

use crate::Setup;
use crate::core_usage::{self, CoreUsage};
use crate::corpus::{self, Corpus};
use crate::database::{BenchDatabase, PostgresServer, start_node};
use crate::host::ServerProcess;
use crate::load::Load;
use crate::postgres_peer;
use crate::reads::{QueryWords, ReadOperation};
use crate::table::{LatencySample, Table, ms, number, ratio};

const CLIENTS: [usize; 2] = [1, 8];
const READS: [(&str, ReadOperation); 5] = [
    ("get", ReadOperation::Get),
    ("list, limit 100", ReadOperation::List(100)),
    (
        "search, 2 rare words",
        ReadOperation::Search(QueryWords::Rare),
    ),
    (
        "search, a question",
        ReadOperation::Search(QueryWords::Question),
    ),
    (
        "search, 3 common words",
        ReadOperation::Search(QueryWords::Common),
    ),
];
const HEADS: [&str; 11] = [
    "Reads",
    "clients",
    "PostgreSQL p50",
    "p99",
    "SQLite p50",
    "p99",
    "peer p50",
    "p99",
    "p50 : SQLite",
    "p50 : peer",
    "requests/s",
];

/// Fills the database and reads from it; returns the URL by which a host uses it.
pub fn run(
    setup: &Setup,
    server: &PostgresServer,
    corpus: &mut Corpus,
    database: &BenchDatabase,
) -> anyhow::Result<String> {
    let url = database.migrate(setup)?;
    eprintln!("filling a database");
    let (elapsed, _) = corpus::import(
        setup,
        &setup.new_folder("import-")?,
        &corpus.file,
        &["--local", "--database", &url],
    )?;
    let rate = setup.entries as f64 / elapsed.as_secs_f64();
    eprintln!("filled a database in {:.1} s", elapsed.as_secs_f64());
    database.vacuum()?;
    let plain = server.new_database()?;
    postgres_peer::load(&plain, &corpus.contents, setup.entries)?;
    plain.vacuum()?;
    let postgres = start_node(setup, &url)?;
    let sqlite = ServerProcess::start(setup, &corpus.loaded(setup)?)?;
    let mut table = Table::new(&[&HEADS[..], &core_usage::HEADS[..]].concat());
    for clients in CLIENTS {
        for (name, read) in READS {
            let load = Load {
                clients,
                run: setup.run_time * 3 / 4,
            };
            let served = |host: &ServerProcess| {
                load.run_against(host.address(), |client, n| {
                    read.request(&corpus.contents, setup.entries, client << 32 | n)
                })
            };
            let watch = CoreUsage::start(server, &[&postgres]);
            let ours = served(&postgres)?;
            let cores = watch.cells(server, &[&postgres]);
            let peer = postgres_peer::reads(&plain, &corpus.contents, setup.entries, read, load)?;
            table.row(
                row(name, clients, &[ours, served(&sqlite)?, peer])
                    .into_iter()
                    .chain(cores),
            );
            eprintln!("{name}, clients: {clients}");
        }
    }
    sqlite.stop()?;
    postgres.stop()?;
    table.print(&format!(
        "## PostgreSQL, reads: one memory with {} entries",
        number(setup.entries as f64)
    ));
    println!(
        "\nBoth databases were vacuumed and analyzed first. The peer's reads are statements on a connection of the client's own, without \
         HTTP, keys or row-level security; its search is a stored tsvector with a GIN index, ordered by ts_rank. Requests/s and cores \
         are those of remem on PostgreSQL. `remem import --local` filled its database with {} entries/s.",
        number(rate)
    );
    Ok(url)
}

fn row(name: &str, clients: usize, samples: &[LatencySample; 3]) -> Vec<String> {
    let mut cells = vec![name.to_owned(), clients.to_string()];
    for sample in samples {
        cells.extend([50.0, 99.0].map(|percent| ms(sample.percentile(percent))));
    }
    let [ours, sqlite, peer] = samples.each_ref().map(|sample| sample.percentile(50.0));
    cells.extend([
        ratio(ours, sqlite),
        ratio(ours, peer),
        number(samples[0].rate()),
    ]);
    cells
}
