//! Owns the table of characters that look like an ASCII one. A table and its lookup, nothing else.
//!
//! Only the matching skeleton reads it; stored text is never rewritten with it. Where capital and
//! small letter of a script look like different Latin letters, each keeps its own twin.

/// The ASCII character, in lower case, that a reader would take `c` for.
pub(super) fn lookalike(c: char) -> Option<char> {
    if let Ok(found) = LOOKALIKES.binary_search_by_key(&c, |&(from, _)| from) {
        return Some(LOOKALIKES[found].1);
    }
    LETTER_BLOCKS
        .iter()
        .find(|&&first| (first..first + 26).contains(&(c as u32)))
        .map(|first| char::from(b'a' + (c as u32 - first) as u8))
}

/// Emoji alphabets without a compatibility mapping: negative circled, negative squared, regional
/// indicators.
const LETTER_BLOCKS: [u32; 3] = [0x1F150, 0x1F170, 0x1F1E6];

/// Each character with the ASCII character that it looks like, sorted by the first column.
#[rustfmt::skip]
const LOOKALIKES: &[(char, char)] = &[
    // Latin extensions and small capitals.
    ('ı', 'i'), ('ȷ', 'j'), ('ɑ', 'a'), ('ɡ', 'g'), ('ɢ', 'g'), ('ɩ', 'i'), ('ɪ', 'i'), ('ɴ', 'n'), ('ʀ', 'r'), ('ʏ', 'y'),
    ('ʙ', 'b'), ('ʜ', 'h'), ('ʟ', 'l'),
    // Greek.
    ('Α', 'a'), ('Β', 'b'), ('Ε', 'e'), ('Ζ', 'z'), ('Η', 'h'), ('Ι', 'i'), ('Κ', 'k'), ('Μ', 'm'), ('Ν', 'n'), ('Ο', 'o'),
    ('Ρ', 'p'), ('Τ', 't'), ('Υ', 'y'), ('Χ', 'x'), ('α', 'a'), ('β', 'b'), ('γ', 'y'), ('ε', 'e'), ('ζ', 'z'), ('η', 'h'),
    ('ι', 'i'), ('κ', 'k'), ('μ', 'm'), ('ν', 'v'), ('ο', 'o'), ('ρ', 'p'), ('τ', 't'), ('υ', 'u'), ('χ', 'x'),
    // Cyrillic.
    ('Ѕ', 's'), ('І', 'i'), ('Ј', 'j'), ('А', 'a'), ('В', 'b'), ('Е', 'e'), ('К', 'k'), ('М', 'm'), ('Н', 'h'), ('О', 'o'),
    ('Р', 'p'), ('С', 'c'), ('Т', 't'), ('У', 'y'), ('Х', 'x'), ('а', 'a'), ('в', 'b'), ('е', 'e'), ('к', 'k'), ('м', 'm'),
    ('н', 'h'), ('о', 'o'), ('р', 'p'), ('с', 'c'), ('т', 't'), ('у', 'y'), ('х', 'x'), ('ѕ', 's'), ('і', 'i'), ('ј', 'j'),
    ('Ѵ', 'v'), ('ѵ', 'v'), ('Ү', 'y'), ('ү', 'y'), ('Һ', 'h'), ('һ', 'h'), ('Ӏ', 'l'), ('ӏ', 'l'), ('Ԁ', 'd'), ('ԁ', 'd'),
    ('Ԛ', 'q'), ('ԛ', 'q'), ('Ԝ', 'w'), ('ԝ', 'w'),
    // Armenian.
    ('զ', 'q'), ('հ', 'h'), ('ո', 'n'), ('ս', 'u'), ('ց', 'g'), ('օ', 'o'),
    // Phonetic small capitals.
    ('ᴀ', 'a'), ('ᴄ', 'c'), ('ᴅ', 'd'), ('ᴇ', 'e'), ('ᴊ', 'j'), ('ᴋ', 'k'), ('ᴍ', 'm'), ('ᴏ', 'o'), ('ᴘ', 'p'), ('ᴛ', 't'),
    ('ᴜ', 'u'), ('ᴠ', 'v'), ('ᴡ', 'w'), ('ᴢ', 'z'),
    // Punctuation that editors put in place of the typed character.
    ('‐', '-'), ('‑', '-'), ('‒', '-'), ('–', '-'), ('—', '-'), ('―', '-'), ('‘', '\''), ('’', '\''), ('‚', '\''), ('‛', '\''),
    ('“', '"'), ('”', '"'), ('„', '"'), ('‟', '"'), ('′', '\''), ('″', '"'), ('‹', '<'), ('›', '>'), ('⁄', '/'), ('−', '-'),
    ('∕', '/'), ('∶', ':'), ('∼', '~'),
    // Latin small capitals outside the phonetic block.
    ('ꜰ', 'f'), ('ꜱ', 's'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lookalike_table_is_sorted_and_maps_to_lower_ascii() {
        assert!(
            LOOKALIKES.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "{:?}",
            LOOKALIKES.windows(2).find(|p| p[0].0 >= p[1].0)
        );
        assert!(
            LOOKALIKES
                .iter()
                .all(|(from, to)| !from.is_ascii() && to.is_ascii() && !to.is_ascii_uppercase())
        );
    }

    #[test]
    fn letter_blocks_map_by_position() {
        assert_eq!(lookalike('🅰'), Some('a'));
        assert_eq!(lookalike('🇿'), Some('z'));
        assert_eq!(lookalike('я'), None);
    }
}
