//! Owns the matching skeleton: text with case, width, look-alikes, invisible characters and (by
//! level) spacing and punctuation removed. It is only ever matched against, never stored or shown.
//!
//! The fold looks at one character at a time. So the skeleton of a part is a part of the skeleton
//! of the whole, and a value that occurs in a text also occurs in skeleton form: no context can
//! hide it.

use std::sync::LazyLock;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::lookalikes::lookalike;
use super::origin::SourceMap;
use crate::sabotage;

/// How much a skeleton leaves out. Each level drops everything that the one before it drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoldLevel {
    /// Drops case, width, accents, look-alikes and invisible characters.
    Tight,
    /// Drops white space as well.
    Dense,
    /// Drops everything but letters and digits.
    Bare,
}

impl FoldLevel {
    fn keeps(self, c: char) -> bool {
        match self {
            FoldLevel::Tight => true,
            FoldLevel::Dense => !c.is_whitespace(),
            FoldLevel::Bare => c.is_alphanumeric(),
        }
    }

    fn ascii_table(self) -> &'static [u8; 128] {
        match self {
            FoldLevel::Tight => &TIGHT,
            FoldLevel::Dense => &DENSE,
            FoldLevel::Bare => &BARE,
        }
    }
}

static TIGHT: [u8; 128] = ascii_table(FoldLevel::Tight);
static DENSE: [u8; 128] = ascii_table(FoldLevel::Dense);
static BARE: [u8; 128] = ascii_table(FoldLevel::Bare);

/// The skeleton byte of each ASCII character. Zero means "dropped"; NUL itself is a control
/// character and dropped at every level.
const fn ascii_table(level: FoldLevel) -> [u8; 128] {
    let mut table = [0; 128];
    let mut byte = 0u8;
    while byte < 128 {
        let space = matches!(byte, b'\t'..=b'\r' | b' ');
        let kept = match level {
            FoldLevel::Tight => space || !byte.is_ascii_control(),
            FoldLevel::Dense => !space && !byte.is_ascii_control(),
            FoldLevel::Bare => byte.is_ascii_alphanumeric(),
        };
        if kept {
            table[byte as usize] = byte.to_ascii_lowercase();
        }
        byte += 1;
    }
    table
}

/// Writes the skeleton of `text` into `out`, replacing what was there.
pub(super) fn fold_into(text: &str, level: FoldLevel, out: &mut Vec<u8>) {
    out.clear();
    out.resize(text.len(), 0);
    let mut rest = text;
    let mut write = 0;
    let mut wide = Vec::new();
    loop {
        let ascii = ascii_prefix(rest.as_bytes());
        write += fold_ascii(ascii, level.ascii_table(), &mut out[write..]);
        let mut chars = rest[ascii.len()..].chars();
        let Some(c) = chars.next() else { break };
        rest = chars.as_str();
        wide.clear();
        fold_char(c, level, &mut |kept| {
            wide.extend_from_slice(kept.encode_utf8(&mut [0; 4]).as_bytes())
        });
        // One character can fold to many bytes, so room for the rest is not a given.
        let needed = write + wide.len() + rest.len();
        if out.len() < needed {
            out.resize(needed.max(out.len() * 2), 0);
        }
        out[write..write + wide.len()].copy_from_slice(&wide);
        write += wide.len();
    }
    out.truncate(write);
}

/// Folds ASCII text and returns the number of bytes written. There is no branch on "kept": spaces
/// are too frequent and too irregular to be predicted.
fn fold_ascii(ascii: &[u8], table: &[u8; 128], out: &mut [u8]) -> usize {
    let mut write = 0;
    for &byte in ascii {
        let folded = table[usize::from(byte & 0x7F)];
        out[write] = folded;
        write += usize::from(folded != 0);
    }
    write
}

/// The longest prefix that is ASCII; tested 64 bytes at a time, then byte by byte.
fn ascii_prefix(bytes: &[u8]) -> &[u8] {
    let blocks = bytes
        .chunks(64)
        .take_while(|block| block.is_ascii())
        .count()
        * 64;
    let start = blocks.min(bytes.len());
    let more = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii())
        .count();
    &bytes[..start + more]
}

/// The skeleton of a short text.
pub(super) fn folded(text: &str, level: FoldLevel) -> Vec<u8> {
    let mut out = Vec::new();
    fold_into(text, level, &mut out);
    out
}

/// Whether a character contributes to a bare skeleton.
pub(super) fn in_bare_skeleton(c: char) -> bool {
    let mut kept = false;
    fold_char(c, FoldLevel::Bare, &mut |_| kept = true);
    kept
}

/// The range in `text` that each byte of its skeleton comes from.
pub(super) fn origin(text: &str, level: FoldLevel) -> SourceMap {
    let mut origin = SourceMap::default();
    for (at, c) in text.char_indices() {
        let from = (at, at + c.len_utf8());
        fold_char(c, level, &mut |kept| {
            origin.0.extend(std::iter::repeat_n(from, kept.len_utf8()))
        });
    }
    origin
}

/// The end of the characters from `at` on that combine with the one before: accents and variation
/// selectors.
pub(super) fn combining_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let riders = rest
        .chars()
        .take_while(|&c| is_combining_mark(c) || matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{200D}'));
    at + riders.map(char::len_utf8).sum::<usize>()
}

#[inline]
fn fold_char(c: char, level: FoldLevel, emit: &mut impl FnMut(char)) {
    if c.is_ascii() {
        let folded = level.ascii_table()[c as usize];
        if folded != 0 {
            emit(char::from(folded));
        }
        return;
    }
    match BASIC_PLANE.entries.get(c as usize) {
        Some(&FOLDS_TO_NOTHING) => {}
        Some(&entry) if entry & FOLDS_TO_SEVERAL == 0 => {
            kept_of(entry, level).into_iter().for_each(emit)
        }
        Some(&entry) => {
            let several = &BASIC_PLANE.several[(entry & 0xFF_FFFF) as usize..];
            let several = several.iter().take((entry >> 24 & 0x7F) as usize);
            several
                .filter_map(|&one| kept_of(one, level))
                .for_each(emit);
        }
        None => fold_wide(c, &mut |c| {
            if level.keeps(c) {
                emit(c);
            }
        }),
    }
}

/// The character of an entry, unless the level drops it.
fn kept_of(entry: u32, level: FoldLevel) -> Option<char> {
    let kept = match level {
        FoldLevel::Tight => true,
        FoldLevel::Dense => entry & SPACE == 0,
        FoldLevel::Bare => entry & ALPHANUMERIC != 0,
    };
    char::from_u32(entry & 0x1F_FFFF).filter(|_| kept)
}

/// What the characters of the basic plane fold to, worked out once: most fold to one character.
static BASIC_PLANE: LazyLock<Plane> = LazyLock::new(Plane::new);
const FOLDS_TO_NOTHING: u32 = 0;
/// An entry that has the position and the number of the characters.
const FOLDS_TO_SEVERAL: u32 = 1 << 31;
const ALPHANUMERIC: u32 = 1 << 30;
/// Flag: the folded character is white space.
const SPACE: u32 = 1 << 29;
/// The most characters that one folds to. Otherwise a text of such characters would have a skeleton
/// of many times its size. One has more: the Arabic for "peace be upon him", a text of eighteen in
/// one character.
const FOLDED_MAX: usize = 8;

/// The folds of the characters of the basic plane.
struct Plane {
    /// One entry for each character of the basic plane.
    entries: Vec<u32>,
    /// The entries of those that fold to more than one, side by side.
    several: Vec<u32>,
}

impl Plane {
    fn new() -> Plane {
        let mut several = Vec::new();
        let entries = (0..0x1_0000).map(|code| plane_entry(code, &mut several));
        let entries = entries.collect();
        Plane { entries, several }
    }
}

fn plane_entry(code: u32, several: &mut Vec<u32>) -> u32 {
    let Some(c) = char::from_u32(code) else {
        return FOLDS_TO_NOTHING;
    };
    let start = several.len();
    fold_wide(c, &mut |folded| {
        let mut entry = folded as u32;
        if folded.is_alphanumeric() {
            entry |= ALPHANUMERIC;
        }
        if folded.is_whitespace() {
            entry |= SPACE;
        }
        several.push(entry);
    });
    match several.len() - start {
        0 => FOLDS_TO_NOTHING,
        1 => several.pop().unwrap_or(FOLDS_TO_NOTHING),
        count => FOLDS_TO_SEVERAL | (count as u32) << 24 | start as u32,
    }
}

/// Folds a character by its Unicode decomposition.
fn fold_wide(c: char, emit: &mut impl FnMut(char)) {
    if is_invisible(c) {
        return;
    }
    let mut left = FOLDED_MAX;
    let emit = &mut |c| {
        if sabotage!("a-character-folds-to-any-number", left > 0, true) {
            left = left.saturating_sub(1);
            emit(c);
        }
    };
    decompose_compatible(c, |part| {
        if is_combining_mark(part) {
            // Accents go: a text may carry them composed, apart, or piled on to hide a value.
        } else if let Some(twin) = lookalike(part) {
            emit(twin);
        } else if part.is_ascii() {
            emit(part.to_ascii_lowercase());
        } else {
            // Up and down again is the case fold: it makes `ß` equal to `SS`.
            let lower = part
                .to_uppercase()
                .flat_map(char::to_lowercase)
                .filter(|&c| !is_combining_mark(c));
            lower
                .map(|c| lookalike(c).unwrap_or(c))
                .for_each(&mut *emit);
        }
    });
}

/// Whether a character shows nothing, so that anyone can put it between two letters of a value.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9F}' | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: FoldLevel, text: &str, expected: &str) {
        assert_eq!(
            String::from_utf8(folded(text, level)).unwrap(),
            expected,
            "{level:?} of {text:?}"
        );
    }

    #[test]
    fn each_fold_level_drops_more_characters() {
        check(FoldLevel::Tight, "Ab c\n-D\u{0}\u{7}e", "ab c\n-de");
        check(FoldLevel::Dense, "Ab c\n-D\u{0}\u{7}e", "abc-de");
        check(FoldLevel::Bare, "Ab c\n-D\u{0}\u{7}e_🔑", "abcde");
    }

    #[test]
    fn lookalikes_and_accents_fold_to_plain_letters() {
        for disguised in [
            "ＡＢｃ１",
            "𝐀𝐁𝐜𝟏",
            "a\u{200B}b\u{AD}c\u{2060}1",
            "a\u{202E}b\u{E0041}c\u{FE0F}1",
            "аbс1",
            "ΑΒc1",
            "🅰🅱c1",
            "ᴀʙᴄ1",
            "a\u{301}b\u{308}c1",
            "ábc1",
        ] {
            check(FoldLevel::Tight, disguised, "abc1");
        }
        check(FoldLevel::Tight, "Straße", "strasse");
        check(FoldLevel::Tight, "STRASSE", "strasse");
        check(FoldLevel::Tight, "ﬁ ‐ “x”", "fi - \"x\"");
        check(FoldLevel::Bare, "秘密の鍵パ", "秘密の鍵ハ");
        check(FoldLevel::Bare, "秘密の鍵ハ\u{309A}", "秘密の鍵ハ");
    }

    #[test]
    fn folding_is_character_by_character() {
        let text = "x\u{301}É ﷺ-ßﬁ\u{200D}Ж🔑ｱ9";
        for level in [FoldLevel::Tight, FoldLevel::Dense, FoldLevel::Bare] {
            let parts: Vec<u8> = text
                .chars()
                .flat_map(|c| folded(&c.to_string(), level))
                .collect();
            assert_eq!(folded(text, level), parts, "{level:?}");
        }
    }

    #[test]
    fn a_character_folds_to_at_most_eight() {
        for c in (0x80..=0x10_FFFF).filter_map(char::from_u32) {
            let skeleton = String::from_utf8(folded(&c.to_string(), FoldLevel::Tight)).unwrap();
            let count = skeleton.chars().count();
            assert!(count <= 8, "{:x} folds to {count}", c as u32);
        }
        let text = "ﷺ".repeat(1000);
        let skeleton = folded(&text, FoldLevel::Bare);
        assert!(skeleton.len() <= 6 * text.len(), "{}", skeleton.len());
        check(FoldLevel::Tight, "㌖㏒", "キロメートルlog");
    }

    #[test]
    fn folded_ranges_map_back_to_character_boundaries() {
        let text = "zz ＡＢ\u{200B}ß x";
        let skeleton = folded(text, FoldLevel::Bare);
        assert_eq!(skeleton, b"zzabssx");
        let origin = origin(text, FoldLevel::Bare);
        assert_eq!(origin.0.len(), skeleton.len());
        let texts = [0..2, 2..6, 4..5, 6..7].map(|range| &text[origin.source_range(&range)]);
        assert_eq!(texts, ["zz", "ＡＢ\u{200B}ß", "ß", "x"]);
    }

    #[test]
    fn combining_marks_after_a_position_are_included() {
        assert_eq!(combining_end("e\u{301}\u{FE0F}x", 1), 6);
        assert_eq!(combining_end("ex", 1), 1);
        assert_eq!(combining_end("e", 1), 1);
    }
}
