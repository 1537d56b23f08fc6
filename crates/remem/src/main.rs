//! `remem`: the one binary. The only place that names a concrete store or port.

mod agents;
mod cli;
mod commands;
mod config;
mod embedder;
mod endpoint;
mod eval;
mod host;
mod http_door;
mod jwt;
mod keyset;
mod model;
mod output;
mod post;
mod seams;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    quiet_panics();
    let cli = cli::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(output::exit_code(&error))
        }
    }
}

/// A panic message can hold anything the program was working on: only its place is printed.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        eprintln!("internal error{place}; please report it");
    }));
}
