//! All tests of `remem-eval`, in one program: the parts by themselves, and the whole program from
//! the outside (`program`).

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod abstain;
mod batches;
mod command;
mod dates;
mod fit;
mod jsonl;
mod judged;
mod locomo;
mod longmemeval;
mod metrics;
mod misspell;
mod program;
mod report;
