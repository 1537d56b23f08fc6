//! The program `remem-eval`. All of it is in the library beside it.

use clap::Parser;
use remem_eval::cli::EvalCli;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = EvalCli::parse();
    remem::run_program(cli.global.json, async move { remem_eval::run(&cli).await })
}
