//! Generates the static tables of the crate: the hash table over the vocabulary and the classes of
//! characters.

#[path = "src/flags.rs"]
mod flags;
#[path = "src/hash.rs"]
mod hash;

use flags::{BLOCK, HEAD, NEWLINE, NUMBER, PREFIX, SPACE, SYMBOL, TAIL};
use std::path::Path;
use std::{env, fs};

const TOKENS: &str = "data/o200k_base.tokens";
const CLASSES: &str = "data/o200k_base.classes";

fn main() {
    for file in ["build.rs", "src/flags.rs", "src/hash.rs", TOKENS, CLASSES] {
        println!("cargo::rerun-if-changed={file}");
    }
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(Path::new(&out).join(name), bytes).expect("OUT_DIR can be written to");
    };
    let tokens = fs::read(TOKENS).expect("the vocabulary is there");
    write("slots", &slots(&tokens));
    let ranges = fs::read_to_string(CLASSES).expect("the classes are there");
    let (block_of, blocks) = blocks(&classes(&ranges));
    write("block_of", &block_of);
    write("blocks", &blocks);
}

/// The hash table over the vocabulary, with linear probing.
fn slots(tokens: &[u8]) -> Vec<u8> {
    let mut slots = vec![0_u32; hash::SLOT_COUNT];
    let mut start = 0;
    while let Some(length) = tokens.get(start) {
        let offset = start + 1;
        let end = offset + usize::from(*length);
        let hash = hash::hash(&tokens[offset..end]);
        let mut slot = hash::first_slot(hash);
        while slots[slot] != 0 {
            slot = hash::next_slot(slot);
        }
        let offset = u32::try_from(offset).expect("the vocabulary has fewer bytes than offsets");
        assert!(offset <= hash::OFFSET_MAX, "an offset is too large");
        slots[slot] = hash::tag(hash) | offset;
        start = end;
    }
    slots.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The class of every code point. A line of the file has the first code point of a range, which
/// reaches to that of the next line, and the name of its class.
fn classes(file: &str) -> Vec<u8> {
    let range = |line: &str| {
        let (first, name) = line.split_once(' ').expect("a code point and a class");
        let first = usize::from_str_radix(first, 16).expect("a code point in hexadecimal");
        (first, class(name))
    };
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let mut classes = Vec::new();
    let mut current = 0;
    for (first, class) in lines.map(range) {
        classes.resize(first, current);
        current = class;
    }
    classes.resize(char::MAX as usize + 1, current);
    classes
}

fn class(name: &str) -> u8 {
    match name {
        "upper" => HEAD,
        "lower" => TAIL,
        "letter" => HEAD | TAIL,
        "mark" => HEAD | TAIL | PREFIX | SYMBOL,
        "number" => NUMBER,
        "blank" => SPACE | PREFIX,
        "break" => SPACE | NEWLINE,
        "other" => PREFIX | SYMBOL,
        _ => panic!("{name} is not a class"),
    }
}

/// A table of two levels: the number of the block for each 256 code points, and the blocks, of
/// which equal ones are stored once.
fn blocks(classes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut distinct: Vec<&[u8]> = Vec::new();
    let mut block_of = Vec::new();
    for block in classes.chunks(BLOCK) {
        let number = distinct.iter().position(|other| *other == block);
        let number = number.unwrap_or_else(|| {
            distinct.push(block);
            distinct.len() - 1
        });
        block_of.push(u8::try_from(number).expect("at most 256 blocks"));
    }
    (block_of, distinct.concat())
}
