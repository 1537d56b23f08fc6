//! Counting tokens exactly as the o200k_base encoding does.
//!
//! This crate turns a text into a number and nothing else: it does not know memory, keeps no state
//! and allocates only for pieces of more than 96 bytes without a break. The vocabulary and the
//! classes of characters are static data that is used in place, so the first count costs no more
//! than the next one.
//!
//! A text is counted in two steps. `split` cuts it into pieces (a word with the space before it, up
//! to three digits, a run of punctuation), and `merge` counts the tokens of one piece by byte-pair
//! merges. Tokens never reach across pieces.

mod classes;
mod flags;
mod hash;
mod merge;
mod split;
mod vocabulary;

/// Counts the tokens of a text in the o200k_base encoding. The names of special tokens, such as
/// `<|endoftext|>`, are text like any other.
#[must_use]
pub fn count(text: &str) -> usize {
    split::pieces(text)
        .map(|piece| merge::count(piece.as_bytes()))
        .sum()
}
