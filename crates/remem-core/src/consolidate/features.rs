//! What consolidation measures texts by: the set of trigrams, defined as PostgreSQL's `pg_trgm` defines it on a UTF-8
//! database, so that a figure computed here is the figure `similarity()` shows. A set of trigrams knows neither case nor
//! punctuation, and not the order of words either; `guard` looks at what it does not see.

/// Whether a character belongs to a word: Alphabetic, or a decimal digit of any script. The underscore does not.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphabetic() || is_decimal_digit(c) }
}

/// Lower case, code point by code point: no final-sigma rule and no one-to-many mapping, because `pg_trgm` has none.
pub(super) fn lower(c: char) -> char {
    if c.is_ascii() { c.to_ascii_lowercase() } else { c.to_lowercase().next().unwrap_or(c) }
}

/// Calls `emit` with every trigram, repeated ones included: a minimum over them does not mind.
pub(super) fn each_trigram(text: &str, mut emit: impl FnMut(u32)) {
    let (mut first, mut second) = (' ', ' ');
    let mut inside = false;
    for c in text.chars().chain([' ']) {
        if is_word(c) {
            let c = lower(c);
            emit(key(first, second, c));
            (first, second, inside) = (second, c, true);
        } else if inside {
            emit(key(first, second, ' '));
            (first, second, inside) = (' ', ' ', false);
        }
    }
}

/// The set of trigrams, sorted.
#[must_use]
pub fn trigrams(text: &str) -> Vec<u32> {
    let mut set = Vec::with_capacity(text.len() + 8);
    each_trigram(text, |trigram| set.push(trigram));
    set.sort_unstable();
    set.dedup();
    set
}

/// Sizes of the intersection and of the union of two sorted sets.
#[must_use]
pub fn overlap(a: &[u32], b: &[u32]) -> (u64, u64) {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    (common as u64, (a.len() + b.len() - common) as u64)
}

/// Three characters as 24 bits: themselves if they are ASCII, else a checksum of their bytes.
fn key(a: char, b: char, c: char) -> u32 {
    if a.is_ascii() && b.is_ascii() && c.is_ascii() {
        return (a as u32) << 16 | (b as u32) << 8 | c as u32;
    }
    let mut bytes = [0; 12];
    let mut length = 0;
    for c in [a, b, c] {
        length += c.encode_utf8(&mut bytes[length..]).len();
    }
    let sum = legacy_crc(&bytes[..length]).to_le_bytes();
    u32::from_be_bytes([0, sum[0], sum[1], sum[2]])
}

/// PostgreSQL's "legacy" CRC-32: the table of the reflected polynomial, driven the other way round.
fn legacy_crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| CRC[(((crc >> 24) ^ u32::from(byte)) & 0xFF) as usize] ^ (crc << 8))
}

static CRC: [u32; 256] = crc_table();

const fn crc_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut crc = n as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[n] = crc;
        n += 1;
    }
    table
}

/// General category Nd. `char::is_numeric` is wider (fractions, superscripts, Roman numerals).
fn is_decimal_digit(c: char) -> bool {
    let at = ZEROS.partition_point(|&zero| zero <= c as u32);
    at > 0 && c as u32 - ZEROS[at - 1] < 10
}

/// The zero of each script's ten digits, beyond ASCII.
#[rustfmt::skip]
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040,
    0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0,
    0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2,
    0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigrams_are_those_of_pg_trgm() {
        let spelled = |text: &str| -> Vec<String> {
            trigrams(text).iter().map(|t| t.to_be_bytes()[1..].iter().map(|&b| char::from(b)).collect()).collect()
        };
        assert_eq!(spelled("cat"), ["  c", " ca", "at ", "cat"]);
        assert_eq!(spelled("Cat, CAT!"), spelled("cat"));
        assert_eq!(spelled("a_b"), ["  a", "  b", " a ", " b "]);
        assert_eq!(overlap(&trigrams("word"), &trigrams("two words")), (4, 11));
        assert_eq!(overlap(&trigrams("日本語の規則"), &trigrams("日本語の規則です")), (6, 10));
        assert_eq!(trigrams("!? 👍"), Vec::<u32>::new());
    }

    #[test]
    fn digits_of_other_scripts_are_word_characters_and_fractions_are_not() {
        assert!(['٣', '९', '５', 'é', '語'].into_iter().all(is_word));
        assert!(['½', '²', '_', '\u{66a}'].into_iter().all(|c| !is_word(c)));
        assert!(ZEROS.is_sorted());
        assert_eq!((lower('İ'), lower('Σ')), ('i', 'σ'));
    }
}
