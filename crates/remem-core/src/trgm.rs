//! Trigrams exactly as PostgreSQL's `pg_trgm` makes them in a UTF-8 database, and the test by which
//! the guard of rules compares two sets of them. One definition for the program and both stores.
//! The test is computed in whole numbers, without rounding.
//!
//! A text is split into words (runs of letters and decimal digits); every word, in lower case and
//! with two spaces before and one behind, yields each three consecutive characters. Only the set of
//! trigrams counts, not their number or position: order, repetition, case and punctuation do not
//! matter.
//!
//! Letters are those of the compiler's Unicode tables. A database with older tables recognises
//! fewer letters, never more (`remem-store-sql/tests/it/trigrams.rs` compares the two).

use crate::sabotage;
use std::cmp::Ordering;
use std::fmt;
use std::ops::RangeInclusive;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// The fewest characters of a guarded text: shorter rules are similar by nature.
pub const GUARDED_CHARS_MIN: usize = 100;

/// A text restates another when they share more than 17 of 20 of all their trigrams. At exactly 17
/// of 20 it does not.
const RESTATED_SHARED: u64 = 17;
const RESTATED_OF: u64 = 20;

/// Whether the guard compares a text, by its length in characters, as the `length` of both
/// databases counts them.
#[must_use]
pub fn is_guarded(text: &str) -> bool {
    text.chars().nth(GUARDED_CHARS_MIN - 1).is_some()
}

/// The trigrams of a text: distinct 24-bit values in ascending order.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Trigrams(Vec<u32>);

impl Trigrams {
    /// The trigrams of a text.
    #[must_use]
    pub fn of(text: &str) -> Trigrams {
        let mut trigrams = Vec::with_capacity(text.len());
        each_trigram(text, |trigram| trigrams.push(trigram));
        trigrams.sort_unstable();
        trigrams.dedup();
        Trigrams(trigrams)
    }

    /// The number of trigrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the text had no word at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stored form: three bytes each, the most significant first, so that stored order is the
    /// order of values.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|value| value.to_be_bytes().into_iter().skip(1))
            .collect()
    }

    /// Reads the stored form that [`to_bytes`](Trigrams::to_bytes) writes; `None` for any other
    /// bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Trigrams> {
        let (triples, rest) = bytes.as_chunks::<3>();
        let values: Vec<u32> = triples
            .iter()
            .map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]))
            .collect();
        (rest.is_empty() && values.is_sorted_by(|a, b| a < b)).then_some(Trigrams(values))
    }

    /// The sizes of the intersection and of the union: numerator and denominator of the similarity.
    #[must_use]
    pub fn similarity(&self, other: &Trigrams) -> (usize, usize) {
        let mut left = self.0.as_slice();
        let mut right = other.0.as_slice();
        let mut both = 0;
        while let ([a, after_a @ ..], [b, after_b @ ..]) = (left, right) {
            match a.cmp(b) {
                Ordering::Less => left = after_a,
                Ordering::Greater => right = after_b,
                Ordering::Equal => (left, right, both) = (after_a, after_b, both + 1),
            }
        }
        (both, self.len() + other.len() - both)
    }

    /// Whether one text restates the other: more than 17 of 20 trigrams in common.
    #[must_use]
    pub fn restates(&self, other: &Trigrams) -> bool {
        let (both, either) = self.similarity(other);
        sabotage!(
            "seventeen-of-twenty-shadow",
            RESTATED_OF * both as u64 > RESTATED_SHARED * either as u64,
            RESTATED_OF * both as u64 >= RESTATED_SHARED * either as u64
        )
    }

    /// As `restates`, with a set in stored form, and mostly without reading all of it: as soon as
    /// more trigrams are in one set alone than two restating sets can have, the answer is known.
    /// `None` for bytes that are not a stored set.
    #[must_use]
    pub fn restates_stored(&self, bytes: &[u8]) -> Option<bool> {
        let (triples, rest) = bytes.as_chunks::<3>();
        if !rest.is_empty() {
            return None;
        }
        // shared > 17/20 of all, where all = shared + alone, and no more are shared than the
        // smaller set has.
        let shared_max = self.len().min(triples.len()) as u64;
        let haste = sabotage!("the-verdict-comes-too-soon", 1, 2);
        let is_over = |alone: u64| {
            RESTATED_SHARED * alone * haste >= (RESTATED_OF - RESTATED_SHARED) * shared_max
        };
        let mut mine = self.0.iter().copied().peekable();
        let mut before = None;
        let mut both = 0;
        let mut alone = 0;
        for &[a, b, c] in triples {
            let theirs = u32::from_be_bytes([0, a, b, c]);
            if before
                .replace(theirs)
                .is_some_and(|before| before >= theirs)
            {
                return None;
            }
            while mine.next_if(|value| *value < theirs).is_some() {
                alone += 1;
            }
            if mine.next_if_eq(&theirs).is_some() {
                both += 1;
            } else {
                alone += 1;
            }
            if is_over(alone) {
                return Some(false);
            }
        }
        let either = both + alone + mine.count() as u64;
        Some(RESTATED_OF * both > RESTATED_SHARED * either)
    }

    /// The sizes of all sets that can restate this one. Two sets have at most the smaller in common
    /// and together at least the larger, so no other size can; every size in the range does, if one
    /// of the two sets contains the other.
    #[must_use]
    pub fn restating_sizes(&self) -> RangeInclusive<usize> {
        let len = self.len();
        let shared = RESTATED_SHARED as usize;
        let of = RESTATED_OF as usize;
        (shared * len / of + sabotage!("sizes-leave-a-shadow-out", 1, 2))
            ..=((of * len).saturating_sub(1) / shared)
    }
}

/// Prints only the size, because a set of trigrams reveals its text.
impl fmt::Debug for Trigrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trigrams({})", self.len())
    }
}

/// Calls `emit` with every trigram, repeated ones included, word by word.
pub(crate) fn each_trigram(text: &str, mut emit: impl FnMut(u32)) {
    let mut window = [' '; 3];
    for c in text.chars().chain([' ']) {
        if is_word(c) {
            window = [window[1], window[2], to_lower(c)];
            emit(trigram_code(window));
        } else if window[2] != ' ' {
            emit(trigram_code([window[1], window[2], ' ']));
            window = [' '; 3];
        }
    }
}

/// Whether a character is a letter or a decimal digit. Other numbers (²), signs and the underscore
/// separate words.
pub(crate) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        c.is_alphabetic() || c.general_category() == GeneralCategory::DecimalNumber
    }
}

/// The lower-case form, one character for one and regardless of its neighbours: a final sigma is no
/// special case, and of the two characters that a capital dotted I becomes, the first is used, as
/// the server's library does.
pub(crate) fn to_lower(c: char) -> char {
    if c.is_ascii() {
        c.to_ascii_lowercase()
    } else {
        sabotage!(
            "letters-are-made-small-by-other-rules",
            c.to_lowercase().next(),
            c.to_lowercase().last()
        )
        .unwrap_or(c)
    }
}

/// A trigram as 24 bits: its bytes if there are three, else three bytes of a checksum of them.
fn trigram_code(trigram: [char; 3]) -> u32 {
    let mut bytes = [0; 12];
    let mut len = 0;
    for c in trigram {
        len += c.encode_utf8(&mut bytes[len..]).len();
    }
    if len == 3 {
        return u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    }
    let [first, second, third, _] = checksum(&bytes[..len]).to_le_bytes();
    u32::from_be_bytes([0, first, second, third])
}

/// PostgreSQL's oldest CRC-32: the table of the reflected polynomial, used in the other direction.
/// It is a mistake of long ago that stored indexes depend on, and therefore this code does too.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &byte| {
        TABLE[usize::from((crc >> 24) as u8 ^ byte)] ^ (crc << 8)
    })
}

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut value = at as u32;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ (0xEDB8_8320 * (value & 1));
            bit += 1;
        }
        table[at] = value;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests;
