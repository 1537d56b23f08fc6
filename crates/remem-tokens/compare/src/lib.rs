//! The shared parts of the programs of this package: random texts, and a report of memory.
//!
//! The package compares `remem-tokens` with a reference, bpe-openai, and makes the data that
//! `remem-tokens` contains. Its build time does not matter; nothing depends on it.
#![allow(
    clippy::disallowed_methods,
    reason = "the package measures, as the benchmarks do"
)]

pub mod random;

use std::time::Instant;

/// Prints the memory of this process before the first count, after it, and after a count of a long
/// text, and how long the first count took.
pub fn report(name: &str, count: impl Fn(&str) -> usize) {
    let before = resident();
    let begun = Instant::now();
    let tokens = count("Hello, world!");
    let first = begun.elapsed();
    let after = resident();
    let prose = "It was the best of times, it was the worst of times: 1859, naïve café. ";
    let more = count(&prose.repeat(1_000));
    println!("{name}: {tokens} and {more} tokens, the first count took {first:?}");
    println!(
        "resident: {before} kB, after the first count {after} kB, in the end {} kB",
        resident()
    );
}

/// The resident memory of this process in kB; 0 if the system does not report it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}
