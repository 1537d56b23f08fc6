//! `import`: import and export of the whole corpus, by the commands that people use, through a
//! server and without one.

use crate::Setup;
use crate::corpus::{self, Corpus};
use crate::host::{self, ServerProcess, command, timed};
use crate::peer::Peer;
use crate::table::{Table, mib, number, ratio};
use anyhow::ensure;
use std::path::Path;
use std::time::Duration;

struct Rates<'a> {
    table: Table,
    setup: &'a Setup,
}

impl Rates<'_> {
    /// Adds a row; `bytes` is the size of the JSON file.
    fn row(&mut self, name: &str, elapsed: Duration, bytes: u64, peer: Duration) {
        let seconds = elapsed.as_secs_f64();
        let rate = self.setup.entries as f64 / seconds;
        let versus = ratio(rate, self.setup.entries as f64 / peer.as_secs_f64());
        self.table.row([
            name.to_owned(),
            number(rate),
            number(bytes as f64 / 1e6 / seconds),
            format!("{seconds:.2} s"),
            versus,
        ]);
        eprintln!("{name}: {seconds:.2} s");
    }
}

pub fn run(setup: &Setup, corpus: &mut Corpus) -> anyhow::Result<()> {
    let peer_folder = setup.new_folder("peer-")?;
    let peer = Peer::open(&peer_folder)?;
    let mut rates = Rates {
        table: Table::new(&[
            "Transfer",
            "entries/s",
            "MB/s of JSON",
            "wall time",
            "rate : SQLite",
        ]),
        setup,
    };

    let plain = peer.load(&corpus.contents, setup.entries)?;
    rates.row(
        "peer: SQLite insert, 500 rows a transaction",
        plain,
        corpus.bytes,
        plain,
    );
    let served = setup.new_folder("import-")?;
    let host = ServerProcess::start(setup, &served)?;
    let url = format!("http://{}", host.address());
    let (elapsed, counts) = corpus::import(setup, &served, &corpus.file, &["--url", &url])?;
    complete(setup, &counts)?;
    rates.row("import through a server", elapsed, corpus.bytes, plain);
    let local = setup.new_folder("import-")?;
    let (elapsed, counts) = corpus::import(setup, &local, &corpus.file, &["--local"])?;
    complete(setup, &counts)?;
    rates.row("import --local", elapsed, corpus.bytes, plain);

    let file = setup.folder.path().join("peer.jsonl");
    let plain = peer.export(&file)?;
    rates.row(
        "peer: SQLite select, written as JSON",
        plain,
        file.metadata()?.len(),
        plain,
    );
    let (elapsed, bytes) = export(setup, &served, &["--url", &url])?;
    rates.row("export through a server", elapsed, bytes, plain);
    host.stop()?;
    let (elapsed, bytes) = export(setup, &local, &["--local"])?;
    rates.row("export --local", elapsed, bytes, plain);

    rates.table.print(&format!(
        "## Import and export: {} entries",
        number(setup.entries as f64)
    ));
    let stored = host::bytes_below(&served)?;
    println!(
        "\nText {}, JSON lines {}, data directory {} ({} the text); the peer's database {}.",
        mib(corpus.content_bytes),
        mib(corpus.bytes),
        mib(stored),
        ratio(stored as f64, corpus.content_bytes as f64),
        mib(host::bytes_below(&peer_folder)?)
    );
    std::fs::remove_dir_all(local)?;
    corpus.set_loaded(served);
    Ok(())
}

fn complete(setup: &Setup, counts: &str) -> anyhow::Result<()> {
    let counts: serde_json::Value = serde_json::from_str(counts)?;
    ensure!(
        counts["imported"] == setup.entries,
        "not every entry was imported: {counts}"
    );
    Ok(())
}

fn export(setup: &Setup, data: &Path, place: &[&str]) -> anyhow::Result<(Duration, u64)> {
    let file = setup.folder.path().join("export.jsonl");
    let mut command = command(setup, data);
    command
        .args(place)
        .args(["export", "--ref", corpus::MEMORY])
        .arg(&file);
    let (elapsed, _) = timed(command)?;
    let bytes = file.metadata()?.len();
    std::fs::remove_file(file)?;
    Ok((elapsed, bytes))
}
