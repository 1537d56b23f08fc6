//! Cutting a text into the pieces within which tokens are counted.
//!
//! The encoding defines the pieces by a pattern, of which the first alternative that matches counts:
//!
//! ```text
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//! \p{N}{1,3}
//!  ?[^\s\p{L}\p{N}]+[\r\n/]*
//! \s*[\r\n]+
//! \s+(?!\S)
//! \s+
//! ```
//!
//! It is followed by hand here: the look-ahead keeps it from linear-time pattern libraries, and a
//! function for each alternative, which reads no character more than a few times, is faster.

use crate::classes::class_at;
use crate::flags::{HEAD, NEWLINE, NUMBER, PREFIX, SPACE, SYMBOL, TAIL};

/// The pieces of a text, which together are the text.
pub fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let (class, next) = class_at(text, start)?;
        let end = piece_end(text, start, class, next);
        let piece = &text[start..end];
        start = end;
        Some(piece)
    })
}

/// The end of the piece that begins at `start` with a character of this class, which ends at `next`.
fn piece_end(text: &str, start: usize, class: u8, next: usize) -> usize {
    if let Some(end) = word(text, start, class, next) {
        return contraction(text, end);
    }
    if class & NUMBER != 0 {
        return number(text, next);
    }
    if let Some(end) = symbols(text, start, class, next) {
        return end;
    }
    white_space(text, start)
}

/// The first two alternatives, without the contraction.
fn word(text: &str, start: usize, class: u8, next: usize) -> Option<usize> {
    let letters = if class & PREFIX != 0 {
        Letters::at(text, next)
    } else {
        Letters::default()
    };
    if letters.lower_end.is_some() {
        return letters.lower_end;
    }
    // A mark may come before a word and may be a part of one. The first alternative is tried in
    // both ways before the second one is.
    if class & (HEAD | TAIL) != 0 {
        let whole = Letters::at(text, start);
        return whole.lower_end.or(letters.upper_end).or(whole.upper_end);
    }
    letters.upper_end
}

/// The ends of the letters of a word, by both alternatives.
#[derive(Default)]
struct Letters {
    /// The end by the first alternative: any head, then at least one character of the tail.
    lower_end: Option<usize>,
    /// The end of a head alone: the match of the second alternative where the first one does not
    /// match.
    upper_end: Option<usize>,
}

impl Letters {
    #[inline]
    fn at(text: &str, start: usize) -> Letters {
        let mut letters = Letters::default();
        let mut position = start;
        while let Some((class, next)) = class_at(text, position) {
            if class & HEAD == 0 {
                if class & TAIL != 0 {
                    letters.lower_end = Some(run_end(text, next, TAIL));
                }
                break;
            }
            // A character of both parts can be all of the tail, if nothing better follows.
            if class & TAIL != 0 {
                letters.lower_end = Some(next);
            }
            letters.upper_end = Some(next);
            position = next;
        }
        letters
    }
}

/// Returns the end of a contraction that begins at `start`, or `start` if there is none.
fn contraction(text: &str, start: usize) -> usize {
    match &text.as_bytes()[start..] {
        [
            b'\'',
            b's' | b'S' | b't' | b'T' | b'm' | b'M' | b'd' | b'D',
            ..,
        ] => start + 2,
        [b'\'', b'r' | b'R' | b'v' | b'V', b'e' | b'E', ..] => start + 3,
        [b'\'', b'l' | b'L', b'l' | b'L', ..] => start + 3,
        // The long s, which is an s to a pattern that ignores case.
        [b'\'', 0xC5, 0xBF, ..] => start + 3,
        _ => start,
    }
}

/// `\p{N}{1,3}`, of which the first one ends at `position`.
fn number(text: &str, mut position: usize) -> usize {
    for _ in 0..2 {
        match class_at(text, position) {
            Some((class, next)) if class & NUMBER != 0 => position = next,
            _ => break,
        }
    }
    position
}

/// ` ?[^\s\p{L}\p{N}]+[\r\n/]*`: symbols with the space before and the line breaks after them.
fn symbols(text: &str, start: usize, class: u8, next: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let first = if bytes[start] == b' ' { next } else { start };
    let has_space = first != start;
    if !has_space && class & SYMBOL == 0 {
        return None;
    }
    let end = run_end(text, first, SYMBOL);
    if end == first {
        return None;
    }
    let after = bytes[end..]
        .iter()
        .take_while(|byte| matches!(byte, b'\r' | b'\n' | b'/'))
        .count();
    Some(end + after)
}

/// The last three alternatives: up to the last newline; else all of the white space at the end of
/// the text; else all but its last character, which belongs to the next piece, unless it is the
/// only one.
fn white_space(text: &str, start: usize) -> usize {
    let mut position = start;
    let mut last = start;
    let mut after_newline = None;
    while let Some((class, next)) = class_at(text, position) {
        if class & SPACE == 0 {
            break;
        }
        if class & NEWLINE != 0 {
            after_newline = Some(next);
        }
        last = position;
        position = next;
    }
    match after_newline {
        Some(end) => end,
        None if position == text.len() || last == start => position,
        None => last,
    }
}

/// The end of the run of characters from `position` on whose classes have a flag.
fn run_end(text: &str, mut position: usize, flag: u8) -> usize {
    while let Some((class, next)) = class_at(text, position) {
        if class & flag == 0 {
            break;
        }
        position = next;
    }
    position
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn texts_are_split_at_pattern_boundaries() {
        let known: [(&str, &[&str]); 16] = [
            ("", &[]),
            ("Hello, world!", &["Hello", ",", " world", "!"]),
            ("camelCaseHTTPServer", &["camel", "Case", "HTTPServer"]),
            ("HTTP 日ABC", &["HTTP", " 日", "ABC"]),
            (
                "They'LL I'm it'ſ o'x",
                &["They'LL", " I'm", " it'ſ", " o", "'x"],
            ),
            ("1234567", &["123", "456", "7"]),
            ("a  b   c", &["a", " ", " b", "  ", " c"]),
            ("a \n \n  b", &["a", " \n \n", " ", " b"]),
            ("end  ", &["end", "  "]),
            (
                "a\u{a0}b\u{3000}\u{3000}c",
                &["a", "\u{a0}b", "\u{3000}", "\u{3000}c"],
            ),
            ("{\n  x", &["{\n", " ", " x"]),
            (" http://\r\n/x", &[" http", "://\r\n/", "x"]),
            ("\u{301}ABC", &["\u{301}", "ABC"]),
            ("\u{301}Abc", &["\u{301}Abc"]),
            ("!\u{301}!!\u{301}", &["!\u{301}", "!!\u{301}"]),
            (" \u{301}\t\u{301}", &[" \u{301}", "\t\u{301}"]),
        ];
        for (text, expected) in known {
            assert_eq!(pieces(text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }
}
