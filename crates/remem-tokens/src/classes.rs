//! The class of each character, from a table of two levels that the build script makes.
//!
//! The classes are data of this crate and not asked of a Unicode library, because a count must not
//! change when a library learns a new version of Unicode.

use crate::flags::BLOCK;

/// For each block of code points, the index in `BLOCKS` of its classes.
static BLOCK_OF: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/block_of"));

/// Blocks of classes, one byte a code point. The first one is that of code points below 256.
static BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocks"));

/// The class of the character at a byte position and the position after it, or `None` at the end of
/// the text.
#[inline]
pub fn class_at(text: &str, position: usize) -> Option<(u8, usize)> {
    let byte = *text.as_bytes().get(position)?;
    if byte.is_ascii() {
        return Some((BLOCKS[usize::from(byte)], position + 1));
    }
    let character = text[position..].chars().next()?;
    Some((class(character), position + character.len_utf8()))
}

fn class(character: char) -> u8 {
    let code = character as usize;
    let block = usize::from(BLOCK_OF[code / BLOCK]);
    BLOCKS[block * BLOCK + code % BLOCK]
}

#[cfg(test)]
mod tests {
    use super::class;
    use crate::flags::{HEAD, NEWLINE, NUMBER, PREFIX, SPACE, SYMBOL, TAIL};

    #[test]
    fn characters_are_classified() {
        let known = [
            ("AZÀΩǅ", HEAD),
            ("azßﬁ\u{1d41a}", TAIL),
            ("ªʰ日かا", HEAD | TAIL),
            (
                "\u{301}\u{93e}\u{fe0f}\u{e0100}",
                HEAD | TAIL | PREFIX | SYMBOL,
            ),
            ("09½Ⅷ٣", NUMBER),
            (" \t\u{b}\u{85}\u{a0}\u{2028}\u{3000}", SPACE | PREFIX),
            ("\r\n", SPACE | NEWLINE),
            ("!_/€\0\u{7f}\u{200d}\u{feff}😀\u{10ffff}", PREFIX | SYMBOL),
        ];
        for (characters, expected) in known {
            for character in characters.chars() {
                assert_eq!(class(character), expected, "{character:?}");
            }
        }
    }

    #[test]
    fn white_space_matches_the_standard_library() {
        for character in (0..=char::MAX as u32).filter_map(char::from_u32) {
            let is_space = class(character) & SPACE != 0;
            assert_eq!(is_space, character.is_whitespace(), "{character:?}");
        }
    }
}
