//! Writes the texts with known counts that the tests of `remem-tokens` read.

mod texts;

use bpe_openai::o200k_base;
use remem_tokens_compare::random::{KINDS, SplitMix};
use serde_json::json;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/it/known.jsonl");

/// The number of random texts of each kind, beside the fixed ones.
const RANDOM: usize = 40;

/// Writes a line for each text: the text, the number of its repetitions, and the tokens of all of
/// it.
pub fn write() {
    let mut lines = String::new();
    for (text, times) in all() {
        let tokens = o200k_base().count(text.repeat(times).as_str());
        lines += &json!([text, times, tokens]).to_string();
        lines.push('\n');
    }
    std::fs::write(FILE, lines).expect("the file of known counts");
}

fn all() -> Vec<(String, usize)> {
    let mut all: Vec<(String, usize)> = Vec::new();
    for text in texts::TEXTS {
        all.push(((*text).to_owned(), 1));
    }
    for unit in texts::UNITS {
        for times in [2, 3, 7, 64, 97, 129, 1_000, 10_001] {
            all.push(((*unit).to_owned(), times));
        }
    }
    // Pieces without a break: to count them in quadratic time would take minutes.
    for unit in ["x", " ", "日", "etaoinshrdlu", "=-"] {
        all.push((unit.to_owned(), 300_000));
    }
    // The contractions, and texts that are almost one, in all cases and before all kinds of
    // characters.
    for ending in [
        "s", "S", "ſ", "t", "re", "rE", "RE", "ve", "m", "ll", "Ll", "LL", "d", "x", "l",
    ] {
        for word in ["we", "WE", "日", "é\u{301}", "1", "!"] {
            all.push((format!("{word}'{ending}y {word}’{ending} '{ending}"), 1));
        }
    }
    let mut random = SplitMix(200_000);
    for (_, make) in KINDS {
        for length in 1..=RANDOM {
            all.push((make(&mut random, 2 * length), 1));
        }
    }
    all
}
