//! The library behind the program `remem`: configuration, commands, the HTTP client and the
//! embedding models. The only crate that names a concrete store or port.
//!
//! Its public items are those that the program itself calls (`main`), those that `remem-eval`
//! needs to open a host with the same options and settings and to print like a command, and the
//! description of the command line (`command`). Nothing else may be public.

/// Prints to standard output; a closed pipe ends the program quietly instead of with a panic.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::write(format_args!($($text)*)) };
}

/// Prints a line to standard output; a closed pipe ends the program quietly.
macro_rules! println {
    () => { $crate::output::write(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::write(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a line to standard error, if anybody reads it.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::write_error(format_args!("{}\n", format_args!($($text)*))) };
}

mod agents;
mod cli;
mod commands;
mod config;
mod embedder;
mod endpoint;
mod hints;
mod host;
mod http_api;
mod jwt;
mod keyset;
mod model;
mod output;
mod post;
mod seams;
mod settings;

pub use cli::GlobalArgs;
pub use output::{json as print_json, table as print_table};
pub use settings::Settings;

use clap::CommandFactory;
use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;

/// Runs the program `remem` with the arguments of this process.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let json = cli::wants_json(&arguments);
    match cli::parse(arguments) {
        Ok((cli, typed)) => run_program(json, async move {
            commands::run(cli)
                .await
                .map_err(|error| typed.explain(error))
        }),
        Err(error) => cli::refuse(&error, json),
    }
}

/// Returns the description of the command line, with hidden commands, options and spellings.
#[must_use]
pub fn command() -> clap::Command {
    cli::RememCli::command()
}

/// Runs a program to its end: prints its error, if there is one, and returns the exit code by which
/// scripts recognise it.
pub fn run_program(json: bool, program: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    quiet_panics();
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
    // Boxed, because the runtime's loops are compiled again for each type of future.
    let program: Pin<Box<dyn Future<Output = anyhow::Result<()>>>> = Box::pin(program);
    match runtime.block_on(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&error, json);
            ExitCode::from(output::exit_code(&error))
        }
    }
}

/// Replaces the panic hook by one that prints only the place of a panic: the message can hold any
/// content that the program was working on.
fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        eprintln!("internal error{place}; please report it");
    }));
}
