//! Evaluations: how well a host retrieves. A dataset is read (`dataset` and a file for each
//! format), stored in a host of its own (`eval_host`, `batches`) and asked (`ask`, `misspell`); the
//! hits are scored (`metrics`), compared with the probability that the host gave (`judged`,
//! `abstain`, `fit`) and shown (`tables`, `report`). `recall`, `probability` and `compare` decide
//! what is asked. May not touch the memory of any user: the host is in a temporary folder.
//! `docs/evaluation.md` explains the numbers.
//!
//! It is a library for the sake of its tests; no other crate may use it.

pub mod ask;
pub mod batches;
pub mod caching_embedder;
pub mod calibration;
pub mod cli;
mod compare;
pub mod dataset;
pub mod dates;
pub mod eval_host;
pub mod fit;
pub mod jsonl;
pub mod judged_answers;
pub mod locomo;
pub mod longmemeval;
pub mod metrics;
pub mod misspell;
mod probability;
mod progress;
mod recall;
pub mod report;
pub mod tables;

use cli::{EvalCli, EvalCommand};

/// Runs the command that was given on the command line.
pub async fn run(cli: &EvalCli) -> anyhow::Result<()> {
    match &cli.command {
        EvalCommand::Recall(recall) => Box::pin(recall::run(&cli.global, recall)).await,
    }
}
