//! The program `remem-eval`. All of it is in the library beside it.

use clap::Parser;
use remem_eval::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    remem::run_program(async { remem_eval::run(&Cli::parse()).await })
}
