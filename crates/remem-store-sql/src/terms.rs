//! The words of a text, exactly as FTS5's `porter unicode61 remove_diacritics 2` makes them, for
//! the store that keeps its own index of words.
//!
//! This file defines what a word is outside SQLite. It may not improve on FTS5: a query must find
//! the same entries in both stores, so its peculiarities are kept (see `SEPARATORS`), and the tests
//! compare every character with FTS5 itself. It is not a crate because no tokenizer agrees with
//! FTS5 word for word, and its tables are not taken from `std` or `unicode-normalization` because
//! digests are stored: a newer Unicode must not change the words of older entries.

mod porter;

use std::sync::LazyLock;

/// The words of a text: the count of each, and the number of all.
pub(crate) struct WordCounts {
    /// Digest of the word, times (at least 1, saturating at `i16::MAX`), sorted by digest, each
    /// digest once.
    pub counts: Vec<(i64, i16)>,
    /// The number of all tokens, repetitions included.
    pub total: i32,
}

/// The bytes of text that are expected for each word: slightly fewer than in English, so that the
/// list seldom grows.
const BYTES_PER_WORD: usize = 5;
/// FTS5 keeps no more bytes of a word than this.
const WORD_BYTES_MAX: usize = 32_768;

/// Splits a text into words, stems them and counts them.
pub(crate) fn count_words(text: &str) -> WordCounts {
    let mut digests = Vec::with_capacity(text.len() / BYTES_PER_WORD);
    for_each_stem(text, |word| digests.push(digest(word)));
    digests.sort_unstable();
    let times = |run: &[i64]| i16::try_from(run.len()).unwrap_or(i16::MAX);
    WordCounts {
        total: i32::try_from(digests.len()).unwrap_or(i32::MAX),
        counts: digests
            .chunk_by(|a, b| a == b)
            .map(|run| (run[0], times(run)))
            .collect(),
    }
}

/// A word of a search query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryWord {
    /// The digest of the word's stem.
    pub digest: i64,
    /// The word as it was written, without capitals and accents.
    pub text: String,
}

/// The words of a search query, sorted by digest, each once.
pub(crate) fn query_words(terms: &[String]) -> Vec<QueryWord> {
    let mut found = Vec::new();
    for term in terms {
        for_each_word(term, |whole| {
            // Before stemming it is text: only whole characters were pushed, and a cut is at a
            // length that no term has.
            let written = String::from_utf8_lossy(whole).into_owned();
            found.push(QueryWord {
                digest: stem_digest(whole),
                text: written,
            });
        });
    }
    found.sort_by(|a, b| (a.digest, &a.text).cmp(&(b.digest, &b.text)));
    found.dedup_by_key(|asked| asked.digest);
    found
}

/// The digest of a word's stem. `word` is reduced to its stem in place.
pub(crate) fn stem_digest(word: &mut Vec<u8>) -> i64 {
    porter::stem(word);
    digest(word)
}

fn digest(word: &[u8]) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(word).as_bytes();
    i64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Calls `found` with each stemmed word, in order. A stem is bytes: the stemmer may halve a letter
/// outside ASCII.
fn for_each_stem(text: &str, mut found: impl FnMut(&[u8])) {
    for_each_word(text, |word| {
        porter::stem(word);
        found(word);
    });
}

/// Calls `found` with each word, in order; `found` may change the buffer that it gets.
fn for_each_word(text: &str, mut found: impl FnMut(&mut Vec<u8>)) {
    let folded: &[u16] = &FOLDED;
    let mut word = Vec::with_capacity(128);
    for c in text.chars() {
        match folded.get(c as usize) {
            Some(&SEPARATOR) => finish_word(&mut word, &mut found),
            Some(&MARK) => {}
            Some(&code) => push_char(&mut word, u32::from(code)),
            None if is_separator(c as u32) => finish_word(&mut word, &mut found),
            None => push_char(&mut word, lower_deseret(c as u32)),
        }
    }
    finish_word(&mut word, &mut found);
}

fn finish_word(word: &mut Vec<u8>, found: &mut impl FnMut(&mut Vec<u8>)) {
    if word.is_empty() {
        return;
    }
    word.truncate(WORD_BYTES_MAX);
    found(word);
    word.clear();
}

fn push_char(word: &mut Vec<u8>, code: u32) {
    if word.len() >= WORD_BYTES_MAX {
        return;
    }
    if let Ok(ascii @ 0..0x80) = u8::try_from(code) {
        word.push(ascii);
    } else if let Some(c) = char::from_u32(code) {
        word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Folds the only letters beyond U+FFFF that FTS5 folds, the Deseret capitals.
fn lower_deseret(code: u32) -> u32 {
    if (0x10400..0x10428).contains(&code) {
        code + 40
    } else {
        code
    }
}

fn is_separator(code: u32) -> bool {
    SEPARATORS.partition_point(|bound| *bound <= code) % 2 == 1
}

/// In `FOLDED`: the character ends a word.
const SEPARATOR: u16 = 0;
/// In `FOLDED`: the character is left out of the word that it occurs in (and begins none). U+0001
/// itself is a separator.
const MARK: u16 = 1;

/// The folded form of each character up to U+FFFF. Made once from the tables below, since a search
/// per character would take most of the time for text outside ASCII.
static FOLDED: LazyLock<Vec<u16>> = LazyLock::new(|| {
    let mut folded: Vec<u16> = (0..=u16::MAX)
        .map(|code| {
            if is_separator(code.into()) {
                SEPARATOR
            } else {
                code
            }
        })
        .collect();
    for run in LOWER.chunks_exact(3) {
        let first = run[0];
        let last = run[1];
        let lower = run[2];
        let step = if lower == first + 1 { 2 } else { 1 };
        for code in (first..=last).step_by(step) {
            folded[usize::from(code)] = code - first + lower;
        }
    }
    for (first, letters) in UNACCENTED {
        for (code, letter) in (first..)
            .zip(letters.bytes())
            .filter(|(_, letter)| *letter != b'.')
        {
            folded[usize::from(code)] = letter.into();
        }
    }
    for code in MARKS {
        folded[usize::from(code)] = MARK;
    }
    folded
});

/// The bounds of the ranges of separators: each begins at an even index and ends before the next.
/// Everything else is part of a word: letters, numbers and private use, but also what was
/// unassigned in the Unicode that FTS5 knows (6.1), so that newer emoji are words and older ones
/// are not.
static SEPARATORS: [u32; 820] = [
    0x0, 0x30, 0x3a, 0x41, 0x5b, 0x61, 0x7b, 0xaa, 0xab, 0xb2, 0xb4, 0xb5, 0xb6, 0xb9, 0xbb, 0xbc,
    0xbf, 0xc0, 0xd7, 0xd8, 0xf7, 0xf8, 0x2c2, 0x2c6, 0x2d2, 0x2e0, 0x2e5, 0x2ec, 0x2ed, 0x2ee,
    0x2ef, 0x300, 0x305, 0x306, 0x30d, 0x30f, 0x310, 0x311, 0x312, 0x31b, 0x31c, 0x323, 0x329,
    0x32d, 0x32f, 0x330, 0x332, 0x370, 0x375, 0x376, 0x37e, 0x37f, 0x384, 0x386, 0x387, 0x388,
    0x3f6, 0x3f7, 0x482, 0x48a, 0x55a, 0x560, 0x589, 0x58b, 0x58f, 0x590, 0x591, 0x5c8, 0x5f3,
    0x5f5, 0x600, 0x605, 0x606, 0x61c, 0x61e, 0x620, 0x64b, 0x660, 0x66a, 0x66e, 0x670, 0x671,
    0x6d4, 0x6d5, 0x6d6, 0x6e5, 0x6e7, 0x6ee, 0x6fd, 0x6ff, 0x700, 0x70e, 0x70f, 0x710, 0x711,
    0x712, 0x730, 0x74b, 0x7a6, 0x7b1, 0x7eb, 0x7f4, 0x7f6, 0x7fa, 0x816, 0x81a, 0x81b, 0x824,
    0x825, 0x828, 0x829, 0x82e, 0x830, 0x83f, 0x859, 0x85c, 0x85e, 0x85f, 0x8e4, 0x8ff, 0x900,
    0x904, 0x93a, 0x93d, 0x93e, 0x950, 0x951, 0x958, 0x962, 0x966, 0x970, 0x971, 0x981, 0x984,
    0x9bc, 0x9bd, 0x9be, 0x9c5, 0x9c7, 0x9c9, 0x9cb, 0x9ce, 0x9d7, 0x9d8, 0x9e2, 0x9e4, 0x9f2,
    0x9f4, 0x9fa, 0x9fc, 0xa01, 0xa04, 0xa3c, 0xa3d, 0xa3e, 0xa43, 0xa47, 0xa49, 0xa4b, 0xa4e,
    0xa51, 0xa52, 0xa70, 0xa72, 0xa75, 0xa76, 0xa81, 0xa84, 0xabc, 0xabd, 0xabe, 0xac6, 0xac7,
    0xaca, 0xacb, 0xace, 0xae2, 0xae4, 0xaf0, 0xaf2, 0xb01, 0xb04, 0xb3c, 0xb3d, 0xb3e, 0xb45,
    0xb47, 0xb49, 0xb4b, 0xb4e, 0xb56, 0xb58, 0xb62, 0xb64, 0xb70, 0xb71, 0xb82, 0xb83, 0xbbe,
    0xbc3, 0xbc6, 0xbc9, 0xbca, 0xbce, 0xbd7, 0xbd8, 0xbf3, 0xbfb, 0xc01, 0xc04, 0xc3e, 0xc45,
    0xc46, 0xc49, 0xc4a, 0xc4e, 0xc55, 0xc57, 0xc62, 0xc64, 0xc7f, 0xc80, 0xc82, 0xc84, 0xcbc,
    0xcbd, 0xcbe, 0xcc5, 0xcc6, 0xcc9, 0xcca, 0xcce, 0xcd5, 0xcd7, 0xce2, 0xce4, 0xd02, 0xd04,
    0xd3e, 0xd45, 0xd46, 0xd49, 0xd4a, 0xd4e, 0xd57, 0xd58, 0xd62, 0xd64, 0xd79, 0xd7a, 0xd82,
    0xd84, 0xdca, 0xdcb, 0xdcf, 0xdd5, 0xdd6, 0xdd7, 0xdd8, 0xde0, 0xdf2, 0xdf5, 0xe31, 0xe32,
    0xe34, 0xe3b, 0xe3f, 0xe40, 0xe47, 0xe50, 0xe5a, 0xe5c, 0xeb1, 0xeb2, 0xeb4, 0xeba, 0xebb,
    0xebd, 0xec8, 0xece, 0xf01, 0xf20, 0xf34, 0xf40, 0xf71, 0xf88, 0xf8d, 0xf98, 0xf99, 0xfbd,
    0xfbe, 0xfcd, 0xfce, 0xfdb, 0x102b, 0x103f, 0x104a, 0x1050, 0x1056, 0x105a, 0x105e, 0x1061,
    0x1062, 0x1065, 0x1067, 0x106e, 0x1071, 0x1075, 0x1082, 0x108e, 0x108f, 0x1090, 0x109a, 0x10a0,
    0x10fb, 0x10fc, 0x135d, 0x1369, 0x1390, 0x139a, 0x1400, 0x1401, 0x166d, 0x166f, 0x1680, 0x1681,
    0x169b, 0x169d, 0x16eb, 0x16ee, 0x1712, 0x1715, 0x1732, 0x1737, 0x1752, 0x1754, 0x1772, 0x1774,
    0x17b4, 0x17d7, 0x17d8, 0x17dc, 0x17dd, 0x17de, 0x1800, 0x180f, 0x18a9, 0x18aa, 0x1920, 0x192c,
    0x1930, 0x193c, 0x1940, 0x1941, 0x1944, 0x1946, 0x19b0, 0x19c1, 0x19c8, 0x19ca, 0x19de, 0x1a00,
    0x1a17, 0x1a1c, 0x1a1e, 0x1a20, 0x1a55, 0x1a5f, 0x1a60, 0x1a7d, 0x1a7f, 0x1a80, 0x1aa0, 0x1aa7,
    0x1aa8, 0x1aae, 0x1b00, 0x1b05, 0x1b34, 0x1b45, 0x1b5a, 0x1b7d, 0x1b80, 0x1b83, 0x1ba1, 0x1bae,
    0x1be6, 0x1bf4, 0x1bfc, 0x1c00, 0x1c24, 0x1c38, 0x1c3b, 0x1c40, 0x1c7e, 0x1c80, 0x1cc0, 0x1cc8,
    0x1cd0, 0x1ce9, 0x1ced, 0x1cee, 0x1cf2, 0x1cf5, 0x1dc0, 0x1de7, 0x1dfc, 0x1e00, 0x1fbd, 0x1fbe,
    0x1fbf, 0x1fc2, 0x1fcd, 0x1fd0, 0x1fdd, 0x1fe0, 0x1fed, 0x1ff0, 0x1ffd, 0x1fff, 0x2000, 0x2065,
    0x206a, 0x2070, 0x207a, 0x207f, 0x208a, 0x208f, 0x20a0, 0x20ba, 0x20d0, 0x20f1, 0x2100, 0x2102,
    0x2103, 0x2107, 0x2108, 0x210a, 0x2114, 0x2115, 0x2116, 0x2119, 0x211e, 0x2124, 0x2125, 0x2126,
    0x2127, 0x2128, 0x2129, 0x212a, 0x212e, 0x212f, 0x213a, 0x213c, 0x2140, 0x2145, 0x214a, 0x214e,
    0x214f, 0x2150, 0x2190, 0x23f4, 0x2400, 0x2427, 0x2440, 0x244b, 0x249c, 0x24ea, 0x2500, 0x2700,
    0x2701, 0x2776, 0x2794, 0x2b4d, 0x2b50, 0x2b5a, 0x2ce5, 0x2ceb, 0x2cef, 0x2cf2, 0x2cf9, 0x2cfd,
    0x2cfe, 0x2d00, 0x2d70, 0x2d71, 0x2d7f, 0x2d80, 0x2de0, 0x2e2f, 0x2e30, 0x2e3c, 0x2e80, 0x2e9a,
    0x2e9b, 0x2ef4, 0x2f00, 0x2fd6, 0x2ff0, 0x2ffc, 0x3000, 0x3005, 0x3008, 0x3021, 0x302a, 0x3031,
    0x3036, 0x3038, 0x303d, 0x3040, 0x3099, 0x309d, 0x30a0, 0x30a1, 0x30fb, 0x30fc, 0x3190, 0x3192,
    0x3196, 0x31a0, 0x31c0, 0x31e4, 0x3200, 0x321f, 0x322a, 0x3248, 0x3250, 0x3251, 0x3260, 0x3280,
    0x328a, 0x32b1, 0x32c0, 0x32ff, 0x3300, 0x3400, 0x4dc0, 0x4e00, 0xa490, 0xa4c7, 0xa4fe, 0xa500,
    0xa60d, 0xa610, 0xa66f, 0xa67f, 0xa69f, 0xa6a0, 0xa6f0, 0xa6f8, 0xa700, 0xa717, 0xa720, 0xa722,
    0xa789, 0xa78b, 0xa802, 0xa803, 0xa806, 0xa807, 0xa80b, 0xa80c, 0xa823, 0xa82c, 0xa836, 0xa83a,
    0xa874, 0xa878, 0xa880, 0xa882, 0xa8b4, 0xa8c5, 0xa8ce, 0xa8d0, 0xa8e0, 0xa8f2, 0xa8f8, 0xa8fb,
    0xa926, 0xa930, 0xa947, 0xa954, 0xa95f, 0xa960, 0xa980, 0xa984, 0xa9b3, 0xa9ce, 0xa9de, 0xa9e0,
    0xaa29, 0xaa37, 0xaa43, 0xaa44, 0xaa4c, 0xaa4e, 0xaa5c, 0xaa60, 0xaa77, 0xaa7a, 0xaa7b, 0xaa7c,
    0xaab0, 0xaab1, 0xaab2, 0xaab5, 0xaab7, 0xaab9, 0xaabe, 0xaac0, 0xaac1, 0xaac2, 0xaade, 0xaae0,
    0xaaeb, 0xaaf2, 0xaaf5, 0xaaf7, 0xabe3, 0xabee, 0xfb1e, 0xfb1f, 0xfb29, 0xfb2a, 0xfbb2, 0xfbc2,
    0xfd3e, 0xfd40, 0xfdfc, 0xfdfe, 0xfe00, 0xfe1a, 0xfe20, 0xfe27, 0xfe30, 0xfe53, 0xfe54, 0xfe67,
    0xfe68, 0xfe6c, 0xfeff, 0xff00, 0xff01, 0xff10, 0xff1a, 0xff21, 0xff3b, 0xff41, 0xff5b, 0xff66,
    0xffe0, 0xffe7, 0xffe8, 0xffef, 0xfff9, 0x10000, 0x10100, 0x10103, 0x10137, 0x10140, 0x10179,
    0x1018a, 0x10190, 0x1019c, 0x101d0, 0x101fe, 0x1039f, 0x103a0, 0x103d0, 0x103d1, 0x10857,
    0x10858, 0x1091f, 0x10920, 0x1093f, 0x10940, 0x10a01, 0x10a04, 0x10a05, 0x10a07, 0x10a0c,
    0x10a10, 0x10a38, 0x10a3b, 0x10a3f, 0x10a40, 0x10a50, 0x10a59, 0x10a7f, 0x10a80, 0x10b39,
    0x10b40, 0x11000, 0x11003, 0x11038, 0x1104e, 0x11080, 0x11083, 0x110b0, 0x110c2, 0x11100,
    0x11103, 0x11127, 0x11135, 0x11140, 0x11144, 0x11180, 0x11183, 0x111b3, 0x111c1, 0x111c5,
    0x111c9, 0x116ab, 0x116b8, 0x12470, 0x12474, 0x16f51, 0x16f7f, 0x16f8f, 0x16f93, 0x1d000,
    0x1d0f6, 0x1d100, 0x1d127, 0x1d129, 0x1d1de, 0x1d200, 0x1d246, 0x1d300, 0x1d357, 0x1d6c1,
    0x1d6c2, 0x1d6db, 0x1d6dc, 0x1d6fb, 0x1d6fc, 0x1d715, 0x1d716, 0x1d735, 0x1d736, 0x1d74f,
    0x1d750, 0x1d76f, 0x1d770, 0x1d789, 0x1d78a, 0x1d7a9, 0x1d7aa, 0x1d7c3, 0x1d7c4, 0x1eef0,
    0x1eef2, 0x1f000, 0x1f02c, 0x1f030, 0x1f094, 0x1f0a0, 0x1f0af, 0x1f0b1, 0x1f0bf, 0x1f0c1,
    0x1f0d0, 0x1f0d1, 0x1f0e0, 0x1f110, 0x1f12f, 0x1f130, 0x1f16c, 0x1f170, 0x1f19b, 0x1f1e6,
    0x1f203, 0x1f210, 0x1f23b, 0x1f240, 0x1f249, 0x1f250, 0x1f252, 0x1f300, 0x1f321, 0x1f330,
    0x1f336, 0x1f337, 0x1f37d, 0x1f380, 0x1f394, 0x1f3a0, 0x1f3c5, 0x1f3c6, 0x1f3cb, 0x1f3e0,
    0x1f3f1, 0x1f400, 0x1f43f, 0x1f440, 0x1f441, 0x1f442, 0x1f4f8, 0x1f4f9, 0x1f4fd, 0x1f500,
    0x1f53e, 0x1f540, 0x1f544, 0x1f550, 0x1f568, 0x1f5fb, 0x1f641, 0x1f645, 0x1f650, 0x1f680,
    0x1f6c6, 0x1f700, 0x1f774, 0xe0001, 0xe0002, 0xe0020, 0xe0080, 0xe0100, 0xe01f0,
];

/// Combining marks that are removed from a word; all others are separators.
const MARKS: [u16; 25] = [
    0x300, 0x301, 0x302, 0x303, 0x304, 0x306, 0x307, 0x308, 0x309, 0x30a, 0x30b, 0x30c, 0x30f,
    0x311, 0x31b, 0x323, 0x324, 0x325, 0x326, 0x327, 0x328, 0x32d, 0x32e, 0x330, 0x331,
];

/// Capitals and variants in threes: the first and the last character of a run, and the lower case
/// of the first. Where that is the character next to it, capitals and small letters alternate.
static LOWER: [u16; 474] = [
    0x41, 0x5a, 0x61, 0xb5, 0xb5, 0x3bc, 0xc6, 0xc6, 0xe6, 0xd0, 0xd0, 0xf0, 0xd8, 0xd8, 0xf8,
    0xde, 0xde, 0xfe, 0x110, 0x132, 0x111, 0x13f, 0x141, 0x140, 0x14a, 0x166, 0x14b, 0x181, 0x181,
    0x253, 0x182, 0x184, 0x183, 0x186, 0x186, 0x254, 0x187, 0x187, 0x188, 0x189, 0x18a, 0x256,
    0x18b, 0x18b, 0x18c, 0x18e, 0x18e, 0x1dd, 0x18f, 0x18f, 0x259, 0x190, 0x190, 0x25b, 0x191,
    0x191, 0x192, 0x193, 0x193, 0x260, 0x194, 0x194, 0x263, 0x196, 0x196, 0x269, 0x197, 0x197,
    0x268, 0x198, 0x198, 0x199, 0x19c, 0x19c, 0x26f, 0x19d, 0x19d, 0x272, 0x19f, 0x19f, 0x275,
    0x1a2, 0x1a4, 0x1a3, 0x1a6, 0x1a6, 0x280, 0x1a7, 0x1a7, 0x1a8, 0x1a9, 0x1a9, 0x283, 0x1ac,
    0x1ac, 0x1ad, 0x1ae, 0x1ae, 0x288, 0x1b1, 0x1b2, 0x28a, 0x1b3, 0x1b5, 0x1b4, 0x1b7, 0x1b7,
    0x292, 0x1b8, 0x1b8, 0x1b9, 0x1bc, 0x1bc, 0x1bd, 0x1c4, 0x1c4, 0x1c6, 0x1c5, 0x1c5, 0x1c6,
    0x1c7, 0x1c7, 0x1c9, 0x1c8, 0x1c8, 0x1c9, 0x1ca, 0x1ca, 0x1cc, 0x1cb, 0x1cb, 0x1cc, 0x1e0,
    0x1f2, 0x1e1, 0x1f1, 0x1f1, 0x1f3, 0x1f6, 0x1f6, 0x195, 0x1f7, 0x1f7, 0x1bf, 0x1fc, 0x21c,
    0x1fd, 0x220, 0x220, 0x19e, 0x222, 0x224, 0x223, 0x23a, 0x23a, 0x2c65, 0x23b, 0x23b, 0x23c,
    0x23d, 0x23d, 0x19a, 0x23e, 0x23e, 0x2c66, 0x241, 0x241, 0x242, 0x243, 0x243, 0x180, 0x244,
    0x244, 0x289, 0x245, 0x245, 0x28c, 0x246, 0x24e, 0x247, 0x370, 0x372, 0x371, 0x376, 0x376,
    0x377, 0x386, 0x386, 0x3ac, 0x388, 0x38a, 0x3ad, 0x38c, 0x38c, 0x3cc, 0x38e, 0x38f, 0x3cd,
    0x391, 0x3a1, 0x3b1, 0x3a3, 0x3ab, 0x3c3, 0x3c2, 0x3c2, 0x3c3, 0x3cf, 0x3cf, 0x3d7, 0x3d0,
    0x3d0, 0x3b2, 0x3d1, 0x3d1, 0x3b8, 0x3d5, 0x3d5, 0x3c6, 0x3d6, 0x3d6, 0x3c0, 0x3d8, 0x3ee,
    0x3d9, 0x3f0, 0x3f0, 0x3ba, 0x3f1, 0x3f1, 0x3c1, 0x3f4, 0x3f4, 0x3b8, 0x3f5, 0x3f5, 0x3b5,
    0x3f7, 0x3f7, 0x3f8, 0x3f9, 0x3f9, 0x3f2, 0x3fa, 0x3fa, 0x3fb, 0x3fd, 0x3ff, 0x37b, 0x400,
    0x40f, 0x450, 0x410, 0x42f, 0x430, 0x460, 0x480, 0x461, 0x48a, 0x4be, 0x48b, 0x4c0, 0x4c0,
    0x4cf, 0x4c1, 0x4cd, 0x4c2, 0x4d0, 0x526, 0x4d1, 0x531, 0x556, 0x561, 0x10a0, 0x10c5, 0x2d00,
    0x10c7, 0x10c7, 0x2d27, 0x10cd, 0x10cd, 0x2d2d, 0x1e9e, 0x1e9e, 0xdf, 0x1efa, 0x1efe, 0x1efb,
    0x1f08, 0x1f0f, 0x1f00, 0x1f18, 0x1f1d, 0x1f10, 0x1f28, 0x1f2f, 0x1f20, 0x1f38, 0x1f3f, 0x1f30,
    0x1f48, 0x1f4d, 0x1f40, 0x1f59, 0x1f59, 0x1f51, 0x1f5b, 0x1f5b, 0x1f53, 0x1f5d, 0x1f5d, 0x1f55,
    0x1f5f, 0x1f5f, 0x1f57, 0x1f68, 0x1f6f, 0x1f60, 0x1f88, 0x1f8f, 0x1f80, 0x1f98, 0x1f9f, 0x1f90,
    0x1fa8, 0x1faf, 0x1fa0, 0x1fb8, 0x1fb9, 0x1fb0, 0x1fba, 0x1fbb, 0x1f70, 0x1fbc, 0x1fbc, 0x1fb3,
    0x1fbe, 0x1fbe, 0x3b9, 0x1fc8, 0x1fcb, 0x1f72, 0x1fcc, 0x1fcc, 0x1fc3, 0x1fd8, 0x1fd9, 0x1fd0,
    0x1fda, 0x1fdb, 0x1f76, 0x1fe8, 0x1fe9, 0x1fe0, 0x1fea, 0x1feb, 0x1f7a, 0x1fec, 0x1fec, 0x1fe5,
    0x1ff8, 0x1ff9, 0x1f78, 0x1ffa, 0x1ffb, 0x1f7c, 0x1ffc, 0x1ffc, 0x1ff3, 0x2126, 0x2126, 0x3c9,
    0x212a, 0x212a, 0x6b, 0x212b, 0x212b, 0x61, 0x2132, 0x2132, 0x214e, 0x2160, 0x216f, 0x2170,
    0x2183, 0x2183, 0x2184, 0x2c00, 0x2c2e, 0x2c30, 0x2c60, 0x2c60, 0x2c61, 0x2c62, 0x2c62, 0x26b,
    0x2c63, 0x2c63, 0x1d7d, 0x2c64, 0x2c64, 0x27d, 0x2c67, 0x2c6b, 0x2c68, 0x2c6d, 0x2c6d, 0x251,
    0x2c6e, 0x2c6e, 0x271, 0x2c6f, 0x2c6f, 0x250, 0x2c70, 0x2c70, 0x252, 0x2c72, 0x2c72, 0x2c73,
    0x2c75, 0x2c75, 0x2c76, 0x2c7e, 0x2c7f, 0x23f, 0x2c80, 0x2ce2, 0x2c81, 0x2ceb, 0x2ced, 0x2cec,
    0x2cf2, 0x2cf2, 0x2cf3, 0xa640, 0xa66c, 0xa641, 0xa680, 0xa696, 0xa681, 0xa722, 0xa72e, 0xa723,
    0xa732, 0xa76e, 0xa733, 0xa779, 0xa77b, 0xa77a, 0xa77d, 0xa77d, 0x1d79, 0xa77e, 0xa786, 0xa77f,
    0xa78b, 0xa78b, 0xa78c, 0xa78d, 0xa78d, 0x265, 0xa790, 0xa792, 0xa791, 0xa7a0, 0xa7a8, 0xa7a1,
    0xa7aa, 0xa7aa, 0x266, 0xff21, 0xff3a, 0xff41,
];

/// Letters that lose their marks, small and capital, by their first character; a dot means a letter
/// that loses none. Greek and Cyrillic letters keep them.
const UNACCENTED: [(u16, &str); 2] = [
    (
        0xc0,
        "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.yaaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llll\
        ll....nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzzs................................oo.............uu.........\
        ...................aaiioouuuuuuuuuu.aa......ggkkoooo..j...gg..nnaa....aaaaeeeeiiiioooorrrruuuusstt..hh......aaeeooooooooyy",
    ),
    (
        0x1e00,
        "aabbbbbbccddddddddddeeeeeeeeeeffgghhhhhhhhhhiiiikkkkkkllllllllmmmmmmnnnnnnnnoooooooopppprrrrrrrrssssssssssttttttttuuuuuuuuuuv\
        vvvwwwwwwwwwwxxxxyyzzzzzzhtwy.s....aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeeeeeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use rusqlite::Connection;

    /// Endings of each rule, on stems long enough and too short for it.
    const ENGLISH: &str = "caresses ponies ties caress cats ies sses gas gases dies lies buses bus is his this ass classes focuses axes \
        feed agreed eed freed bleed need needed plastered bled red sped aed oed fed shed sing bring ing king motoring string sting \
        going doing seeing being dying lying skying trying tried flying conflated troubled sized hopping tanned falling hissing \
        fizzed failing filing hoping hopped rated rating ated bling izing atlas planned agreeing controlling controlled rolling \
        missed missing buzzing stuffed egged adding added erred whirring bobbing cooking boxing boxed fixing snowing showed playing \
        played hying crying cried wedding bidding happy sky enjoy by say cry toy y yy yyy yes yellow syzygy rhythm physics type \
        typed typing style relational conditional rational national optional emotional traditional international valenci \
        hesitanci valency hesitancy frequency tendency infancy digitizer organizer sizer conformabli radicalli differentli vileli \
        analogousli conformably radically differently vilely analogously possibly nobly finally really gently presently solely \
        namely previously obviously vietnamization organization realization ization predication nation station creation operator \
        creator dictator ator feudalism journalism alism decisiveness effectiveness hopefulness usefulness callousness \
        consciousness nervousness formaliti sensitiviti sensibiliti formality sensitivity sensibility possibility ability reality \
        activity archaeology biology geology logi triplicate duplicate indicate formative negative alternative formalize finalize \
        realize electriciti electricity simplicity electrical typical critical hopeful useful careful awful goodness kindness \
        business witness ness ful revival arrival medal al allowance finance dance inference absence fence airliner teacher over er \
        gyroscopic basic topic ic adjustable table stable defensible terrible bible irritant important ant plant replacement \
        management cement element adjustment department moment ment dependent agent different recent adoption decision opinion \
        million union version mission onion ion question motion homologou you communism tourism prism activate private late state \
        ate angulariti parity homologous famous nous effective native active five give bowdlerize prize size probate rate cease \
        hope hop hoe be the cave gave axe dye eye free tree three controll roll hall full small fulfill install cell tell bell \
        ill enthrall generalizations oscillators organizational nationalization internationalism characteristically \
        misunderstandings responsibilities unconstitutionality electroencephalographically disestablishmentarianism queries queried \
        querying query memories memory remember remembered remembering remembrance databases indices indexing indexed indexes \
        running runner ran swimming swimmer studies studying student university universe universal engineers engineering engine \
        happily happiness happier unhappily policies policy police generous general generate generation generic irritabled";

    /// Pieces of common scripts whose letters are stemmed or folded, for random texts.
    const OTHERS: &[&str] = &[
        "Crème",
        "brûlée",
        "naïvely",
        "ÉLANS",
        "Straße",
        "ſing",
        "İstanbul",
        "ılık",
        "Ångström",
        "Ñandúes",
        "Dvořák",
        "việt",
        "Ω",
        "ΑΘΉΝΑ",
        "λόγος",
        "ВОПРОСЫ",
        "ещё",
        "й",
        "日本語",
        "ひらがなぁing",
        "カタカナ",
        "ガ",
        "한국어",
        "مَكتَب",
        "שָׁלוֹם",
        "हिन्दी",
        "ไทย",
        "😀",
        "🦀",
        "🫠ing",
        "\u{e000}",
        "\u{301}",
        "e\u{301}",
        "a\u{305}b",
        "\u{fffe}",
        "\u{ffff}",
        "\u{fffd}",
        "\u{feff}",
        "ﬁ",
        "①",
        "²",
        "½",
        "Ⅷ",
        "𝒳",
        "𐐀",
        "éing",
        "ééed",
        "\u{10ffff}",
        "\u{378}",
        "ÿed",
        "ýing",
        "Ỳs",
        "K",
        "Å",
        "ﾊﾟ",
        "don't",
        "foo_bar",
        "x-ray",
        "U.S.",
        "3.14",
        "a1b2",
    ];
    const SUFFIXES: &[&str] = &[
        "s", "es", "ies", "sses", "ss", "eed", "ed", "ing", "at", "bl", "iz", "y", "ational",
        "tional", "enci", "anci", "izer", "logi", "bli", "alli", "entli", "eli", "ousli",
        "ization", "ation", "ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti",
        "biliti", "ical", "ness", "icate", "iciti", "ful", "ative", "alize", "al", "ance", "ence",
        "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "sion", "tion", "ou",
        "ism", "ate", "iti", "ous", "ive", "ize", "e", "ll", "lle",
    ];
    const GAPS: &[&str] = &[
        "", "", " ", " ", " ", "\n", "\0", "-", "'", "_", ", ", ". ", "\u{a0}", "、", "—",
        "\u{200d}", "\u{7f}",
    ];

    /// The reference: FTS5 itself, in a database in memory.
    struct Fts5(Connection);

    impl Fts5 {
        fn new() -> Self {
            let db = Connection::open_in_memory().unwrap();
            db.execute_batch(
                "CREATE VIRTUAL TABLE t USING fts5(x, tokenize = 'porter unicode61 remove_diacritics 2');
                 CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance');",
            )
            .unwrap();
            Self(db)
        }

        /// The words of each text; each text becomes a document of its own.
        fn all(&self, texts: &[String]) -> Vec<Vec<Vec<u8>>> {
            self.0.execute_batch("BEGIN; DELETE FROM t;").unwrap();
            let mut insert = self
                .0
                .prepare_cached("INSERT INTO t(rowid, x) VALUES (?, ?)")
                .unwrap();
            for (at, text) in texts.iter().enumerate() {
                insert.execute((at, text)).unwrap();
            }
            self.0.execute_batch("COMMIT").unwrap();
            let mut found = vec![Vec::new(); texts.len()];
            let mut select = self
                .0
                .prepare_cached("SELECT doc, CAST(term AS BLOB) FROM v ORDER BY doc, offset")
                .unwrap();
            let mut rows = select.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                found[row.get::<_, usize>(0).unwrap()].push(row.get(1).unwrap());
            }
            found
        }

        fn assert_same(&self, texts: &[String]) {
            let all = self.all(texts);
            assert_eq!(all.len(), texts.len());
            for (text, theirs) in texts.iter().zip(all) {
                let ours = stems_of(text);
                assert!(
                    ours == theirs,
                    "{text:?}: {:?} is {:?} in FTS5",
                    readable(&ours),
                    readable(&theirs)
                );
                assert_counts(text, &theirs);
            }
        }
    }

    fn stems_of(text: &str) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for_each_stem(text, |word| found.push(word.to_vec()));
        found
    }

    fn readable(words: &[Vec<u8>]) -> Vec<String> {
        words
            .iter()
            .map(|word| word.escape_ascii().to_string())
            .collect()
    }

    /// Compares the public functions with FTS5's list of words.
    fn assert_counts(text: &str, theirs: &[Vec<u8>]) {
        let mut in_order = Vec::new();
        let mut expected = std::collections::BTreeMap::new();
        for word in theirs {
            let key = i64::from_le_bytes(blake3::hash(word).as_bytes()[..8].try_into().unwrap());
            let times = expected.entry(key).or_insert(0);
            *times += 1;
            if *times == 1 {
                in_order.push(key);
            }
        }
        let words = count_words(text);
        assert_eq!(
            words.counts,
            expected.into_iter().collect::<Vec<_>>(),
            "{text:?}"
        );
        assert_eq!(usize::try_from(words.total), Ok(theirs.len()), "{text:?}");
        let mut asked: Vec<i64> = query_words(&[text.to_owned()])
            .iter()
            .map(|asked| asked.digest)
            .collect();
        in_order.sort_unstable();
        asked.sort_unstable();
        assert_eq!(asked, in_order, "{text:?}");
    }

    #[test]
    fn every_character_is_tokenised_as_in_fts5() {
        let fts5 = Fts5::new();
        // Planes 3 to 13 and 15 on hold nothing that ends a word, so a sample of them does.
        let texts: Vec<String> = (0..=0x10_ffff_u32)
            .step_by(256)
            .filter(|block| *block < 0x3_0000 || block >> 16 == 0xe || block % 0x1000 == 0)
            .map(|block| {
                (block..block + 256)
                    .filter_map(char::from_u32)
                    .map(|c| format!("{c} a{c}b c{c} "))
                    .collect()
            })
            .collect();
        for some in texts.chunks(256) {
            fts5.assert_same(some);
        }
    }

    #[test]
    fn single_characters_of_common_scripts_match_fts5() {
        let fts5 = Fts5::new();
        let common = [
            0..0x600,
            0x600..0x780,
            0x900..0x980,
            0xe00..0xe80,
            0x1d00..0x2c80,
            0x3000..0x3400,
            0x4e00..0x5000,
            0x9f00..0xa000,
        ];
        let more = [
            0xa640..0xa800,
            0xac00..0xad00,
            0xd700..0xd800,
            0xe000..0xe100,
            0xf800..0x1_0000,
            0x1f000..0x1fb00,
            0x20000..0x20100,
        ];
        let texts: Vec<String> = common
            .into_iter()
            .chain(more)
            .flatten()
            .filter_map(char::from_u32)
            .flat_map(|c| [c.to_string(), format!("a{c}b")])
            .collect();
        fts5.assert_same(&texts);
    }

    #[test]
    fn english_words_are_stemmed_as_in_fts5() {
        let words: Vec<String> = ENGLISH.split_whitespace().map(str::to_owned).collect();
        assert!(words.len() >= 300, "{}", words.len());
        Fts5::new().assert_same(&words);
        let stemmed = words
            .iter()
            .filter(|word| stems_of(word) != [word.as_bytes()])
            .count();
        assert!(stemmed > 200, "{stemmed} words are stemmed at all");
    }

    #[test]
    fn sample_words_have_the_expected_stems() {
        for (word, stem) in [
            ("Caresses", "caress"),
            ("relational", "relat"),
            ("Crèmes", "creme"),
            ("hopping", "hop"),
            ("aed", "a"),
        ] {
            assert_eq!(stems_of(word), [stem.as_bytes()]);
        }
    }

    #[test]
    fn all_pairs_of_suffixes_are_stemmed_as_in_fts5() {
        let texts: Vec<String> = ["", "b", "o", "ro", "yat", "trob", "conit", "é", "aw"]
            .iter()
            .map(|start| {
                let pairs = SUFFIXES
                    .iter()
                    .flat_map(|a| SUFFIXES.iter().map(move |b| format!("{start}{a}{b} ")));
                pairs
                    .chain(SUFFIXES.iter().map(|a| format!("{start}{a} ")))
                    .collect()
            })
            .collect();
        Fts5::new().assert_same(&texts);
    }

    #[test]
    fn long_words_are_truncated_as_in_fts5() {
        let around = |bytes: usize| (bytes - 4..bytes + 5).map(|n| "x".repeat(n - 3) + "ing");
        let odd = [
            "x".repeat(WORD_BYTES_MAX - 1) + "語語 z",
            "語".repeat(WORD_BYTES_MAX),
            "\0\0".into(),
            "a\0b".into(),
            String::new(),
        ];
        let texts: Vec<String> = around(64)
            .chain(around(WORD_BYTES_MAX))
            .map(|word| format!("a{word} "))
            .chain(odd)
            .collect();
        Fts5::new().assert_same(&texts);
    }

    #[test]
    fn word_counts_saturate() {
        let words = count_words(&"again ".repeat(40_000));
        assert_eq!(
            (words.counts.len(), words.counts[0].1, words.total),
            (1, i16::MAX, 40_000)
        );
    }

    fn piece() -> impl Strategy<Value = String> {
        let english: Vec<&str> = ENGLISH.split_whitespace().collect();
        let part = prop_oneof![
            select(SUFFIXES).prop_map(str::to_owned),
            "[abeilnosty]{1,3}"
        ];
        let word = prop_oneof![
            3 => select(english).prop_map(str::to_owned),
            3 => vec(part, 1..8).prop_map(|parts| parts.concat()),
            1 => "[aeibdlnsgtyz]{1,70}",
            3 => select(OTHERS).prop_map(str::to_owned),
            1 => "[A-Za-z0-9éÀçñøЙйΆあ中]{1,12}",
            1 => any::<char>().prop_map(String::from),
        ];
        (word, select(GAPS)).prop_map(|(word, gap)| word + gap)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: remem_testkit::cases(64, 256), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn random_texts_are_tokenised_as_in_fts5(texts in vec(vec(piece(), 0..40).prop_map(|pieces| pieces.concat()), 1..40)) {
            Fts5::new().assert_same(&texts);
        }
    }
}
