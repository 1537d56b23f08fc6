//! Compares `remem-tokens` with the reference and makes its data.
//!
//! ```text
//! cargo run --release -- data                      write ../data/ anew
//! cargo run --release -- known                     write ../tests/it/known.jsonl anew
//! cargo run --release -- compare 80 FILE...        80 MB of random text, and these files
//! ```
#![allow(
    clippy::disallowed_methods,
    reason = "the package measures, as the benchmarks do"
)]

mod data;
mod known;

use bpe_openai::o200k_base;
use remem_tokens_compare::random::{KINDS, SplitMix};
use std::sync::LazyLock;
use std::time::Instant;

/// The instant at which the program began to measure.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("data") => data::write(),
        Some("known") => known::write(),
        Some("compare") => compare(&arguments[1..]),
        _ => panic!("say data, known, or compare MEGABYTES FILE..."),
    }
}

fn compare(arguments: &[String]) {
    let megabytes: usize = arguments[0].parse().expect("a number of megabytes");
    println!("| text | MB | texts | differences | remem-tokens | bpe-openai |");
    println!("|---|--:|--:|--:|--:|--:|");
    // The reference unpacks its tables at the first count.
    o200k_base().count("");
    for file in &arguments[1..] {
        let bytes = std::fs::read(file).expect("a file that can be read");
        let text = String::from_utf8_lossy(&bytes);
        let name = file.rsplit('/').next().unwrap_or_default();
        row(name, std::iter::once(text.to_string()));
        row(
            &format!("{name}, line by line"),
            text.lines().map(str::to_owned),
        );
    }
    for (seed, (name, make)) in KINDS.into_iter().enumerate() {
        let mut random = SplitMix(seed as u64);
        let mut left = megabytes * 1_000_000 / KINDS.len();
        let texts = std::iter::from_fn(|| {
            if left == 0 {
                return None;
            }
            let bound = random.pick_length();
            let length = 1 + random.below(bound);
            let text = make(&mut random, length);
            left = left.saturating_sub(text.len());
            Some(text)
        });
        row(name, texts);
    }
}

/// Counts texts in both ways and prints a line about them.
fn row(name: &str, texts: impl Iterator<Item = String>) {
    let texts: Vec<String> = texts.collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let (ours, our_time) = timed(&texts, remem_tokens::count);
    let (reference, reference_time) = timed(&texts, |text| o200k_base().count(text));
    let mut differences = 0;
    for ((text, ours), reference) in texts.iter().zip(ours).zip(reference) {
        if ours != reference {
            differences += 1;
            let shown: String = text.chars().take(200).collect();
            eprintln!("{ours} instead of {reference} tokens: {shown:?}");
        }
    }
    let megabytes = bytes as f64 / 1e6;
    println!(
        "| {name} | {megabytes:.1} | {} | {differences} | {:.1} MB/s | {:.1} MB/s |",
        texts.len(),
        megabytes / our_time,
        megabytes / reference_time
    );
    assert_eq!(differences, 0, "the counts differ");
}

/// The counts of texts, and the seconds that they took.
fn timed(texts: &[String], count: impl Fn(&str) -> usize) -> (Vec<usize>, f64) {
    let begun = processor_time();
    let counts = texts.iter().map(|text| count(text)).collect();
    (counts, processor_time() - begun)
}

/// The processor time of this thread in seconds, which other programs on the machine do not change;
/// wall-clock seconds if the system does not report it.
fn processor_time() -> f64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: Option<f64> = schedule.split(' ').next().and_then(|n| n.parse().ok());
    nanoseconds.map_or_else(|| BEGUN.elapsed().as_secs_f64(), |n| n / 1e9)
}
