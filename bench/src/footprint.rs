//! `footprint`: the cost of the program before it does anything: its size, its start-up time, and
//! its memory.

use crate::Setup;
use crate::client::{Client, Request, memory};
use crate::corpus::{self, Corpus};
use crate::host::{KEY, ServerProcess, command, timed};
use crate::load::Load;
use crate::table::{Table, median, mib, ms, ratio};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// The number of clients of the last figure.
const WRITERS: usize = 64;

pub fn run(setup: &Setup, corpus: &mut Corpus) -> anyhow::Result<()> {
    let loaded = corpus.loaded(setup)?;
    let mut table = Table::new(&["Start", "median", "ratio to the floor"]);
    let floor = bare_starts(setup)?;
    table.row([
        "floor: `remem --version`, start to end".to_owned(),
        ms(floor),
        ratio(floor, floor),
    ]);
    let empty = starts(setup, None)?;
    table.row([
        "to /ready, new data directory".to_owned(),
        ms(empty),
        ratio(empty, floor),
    ]);
    let full = starts(setup, Some(&loaded))?;
    table.row([
        format!("to /ready, {} entries", setup.entries),
        ms(full),
        ratio(full, floor),
    ]);
    table.print(&format!(
        "## Footprint: program of {}; median of {} starts",
        mib(setup.remem.metadata()?.len()),
        setup.starts
    ));

    let mut table = Table::new(&["Memory of the server", "resident", "at the most so far"]);
    let mut row = |name: &str, host: &ServerProcess| -> anyhow::Result<()> {
        table.row([
            name.to_owned(),
            mib(host.memory("VmRSS")?),
            mib(host.memory("VmHWM")?),
        ]);
        Ok(())
    };
    let host = ServerProcess::start(setup, &loaded)?;
    row("idle, data directory with all entries", &host)?;
    Client::connect(host.address())?.send(&Request::get(
        KEY,
        &memory(corpus::MEMORY, "entries?limit=100"),
    ))?;
    row("the same after one list of 100", &host)?;
    host.stop()?;
    let data = setup.new_folder("footprint-")?;
    let host = ServerProcess::start(setup, &data)?;
    row("idle, new data directory", &host)?;
    corpus::import(
        setup,
        &data,
        &corpus.file,
        &["--url", &format!("http://{}", host.address())],
    )?;
    row(
        &format!("after an import of {} entries", setup.entries),
        &host,
    )?;
    row_under_load(setup, corpus, &host, &mut row)?;
    host.stop()?;
    table.print("Memory:");
    Ok(())
}

fn row_under_load(
    setup: &Setup,
    corpus: &Corpus,
    host: &ServerProcess,
    row: &mut impl FnMut(&str, &ServerProcess) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let load = Load {
        clients: WRITERS,
        run: setup.run_time,
    };
    let body = |client: usize, n: usize| {
        json!({"content": corpus.contents.at(n * WRITERS + client)}).to_string()
    };
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            load.run_against(host.address(), |client, n| {
                Request::post(KEY, &memory(corpus::MEMORY, "entries"), &body(client, n))
            })
        });
        std::thread::sleep(setup.run_time);
        row(&format!("while {WRITERS} clients write"), host)?;
        writing
            .join()
            .map_err(|_| anyhow::anyhow!("the load panicked"))??;
        Ok(())
    })
}

fn bare_starts(setup: &Setup) -> anyhow::Result<f64> {
    let data = setup.new_folder("version-")?;
    let one = || {
        let mut command = command(setup, &data);
        command.arg("--version");
        timed(command).map(|(elapsed, _)| millis(elapsed))
    };
    Ok(median(
        (0..setup.starts).map(|_| one()).collect::<Result<_, _>>()?,
    ))
}

fn starts(setup: &Setup, data: Option<&Path>) -> anyhow::Result<f64> {
    let one = || {
        let host = match data {
            Some(data) => ServerProcess::start(setup, data)?,
            None => ServerProcess::start(setup, &setup.new_folder("start-")?)?,
        };
        let elapsed = millis(host.start_up);
        host.stop().map(|()| elapsed)
    };
    Ok(median(
        (0..setup.starts).map(|_| one()).collect::<Result<_, _>>()?,
    ))
}

fn millis(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e3
}
