//! Writes the data that `remem-tokens` carries: the vocabulary, from the reference, and the classes
//! of characters, from the library that the reference splits texts with.

use bpe_openai::o200k_base;
use regex::Regex;
use std::fmt::Write;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../data");

/// The classes, by the sets that their characters are in. The first that matches counts.
const CLASSES: [(&str, &str); 7] = [
    ("upper", r"^[\p{Lu}\p{Lt}]$"),
    ("lower", r"^\p{Ll}$"),
    ("letter", r"^[\p{Lm}\p{Lo}]$"),
    ("mark", r"^\p{M}$"),
    ("number", r"^\p{N}$"),
    ("break", r"^[\r\n]$"),
    ("blank", r"^\s$"),
];

/// Writes the vocabulary and the classes to their files.
pub fn write() {
    std::fs::write(format!("{FOLDER}/o200k_base.tokens"), tokens()).expect("the vocabulary");
    std::fs::write(format!("{FOLDER}/o200k_base.classes"), classes()).expect("the classes");
}

/// Each token after its length, in the order of ranks.
fn tokens() -> Vec<u8> {
    let vocabulary = &o200k_base().bpe;
    let mut bytes = Vec::new();
    for rank in 0..vocabulary.num_tokens() as u32 {
        let token = vocabulary.token_bytes(rank);
        bytes.push(u8::try_from(token.len()).expect("tokens are shorter than 256 bytes"));
        bytes.extend_from_slice(token);
    }
    bytes
}

/// A line for each range of code points: its first one and its class.
fn classes() -> String {
    let patterns = CLASSES.map(|(name, pattern)| (name, Regex::new(pattern).expect("a pattern")));
    let mut text = String::from("# first code point, class; written by `compare data`\n");
    let mut last = "";
    for character in (0..=char::MAX as u32).filter_map(char::from_u32) {
        let one = character.to_string();
        let found = patterns.iter().find(|(_, pattern)| pattern.is_match(&one));
        let class = found.map_or("other", |(name, _)| name);
        if class != last {
            writeln!(text, "{:x} {class}", character as u32).expect("a string takes all");
            last = class;
        }
    }
    text
}
