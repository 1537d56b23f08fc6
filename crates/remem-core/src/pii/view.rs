//! Owns the view of a text that patterns search: a stretch between two markers, whose ends count as
//! ends of words. It knows no pattern.

use super::PiiKind;
use std::ops::Range;

/// A stretch of a text. Offsets are those of the whole text.
#[derive(Clone, Copy)]
pub(super) struct TextView<'t> {
    text: &'t str,
    from: usize,
    to: usize,
}

/// The match of a pattern that began at the offset it was tried at.
pub(super) struct PiiMatch {
    pub(super) end: usize,
    pub(super) kind: PiiKind,
    pub(super) normal_form: String,
}

impl<'t> TextView<'t> {
    pub(super) fn new(text: &'t str, stretch: Range<usize>) -> TextView<'t> {
        TextView {
            text,
            from: stretch.start,
            to: stretch.end,
        }
    }

    /// The part of the view before an offset.
    pub(super) fn until(self, to: usize) -> TextView<'t> {
        TextView { to, ..self }
    }

    /// The part of the view from an offset on.
    pub(super) fn since(self, from: usize) -> TextView<'t> {
        TextView { from, ..self }
    }

    /// The text of the view before an offset.
    pub(super) fn before(&self, at: usize) -> &'t str {
        &self.text[self.from..at]
    }

    /// The text of the view from an offset on.
    pub(super) fn rest(&self, at: usize) -> &'t str {
        &self.text[at..self.to]
    }

    /// The last character boundary at or before an offset, within this view.
    pub(super) fn floor_char_boundary(&self, at: usize) -> usize {
        (self.from..=at.max(self.from))
            .rev()
            .find(|&at| self.text.is_char_boundary(at))
            .unwrap_or(self.from)
    }

    /// The next offset where a pattern can begin: a letter, digit, plus or bracket that does not
    /// continue a word.
    pub(super) fn next_start(&self, from: usize) -> Option<usize> {
        let from = (from..=self.to).find(|&at| self.text.is_char_boundary(at))?;
        let mut inside = self
            .before(from)
            .chars()
            .next_back()
            .is_some_and(is_word_char);
        for (at, c) in self.rest(from).char_indices() {
            let was_inside = inside;
            let is_word = is_word_char(c);
            inside = is_word;
            if !was_inside && (is_word && c != '_' || matches!(c, '+' | '(')) {
                return Some(from + at);
            }
        }
        None
    }

    /// Whether no word continues at an offset.
    pub(super) fn ends_word(&self, at: usize) -> bool {
        !self.rest(at).chars().next().is_some_and(is_word_char)
    }

    /// Whether a number at an offset is not the rest of a longer one (a decimal, a date, a
    /// version).
    pub(super) fn begins_number(&self, at: usize) -> bool {
        let mut preceding = self.before(at).chars().rev();
        let before = preceding.next();
        !(before.is_some_and(|c| matches!(c, '.' | ',' | '-' | '/' | ':'))
            && preceding.next().is_some_and(|c| c.is_ascii_digit()))
    }
}

/// Whether a character is part of a word in scripts that put spaces between words and mix with
/// Latin letters. Others (kana, Han, Thai, Arabic) end a Latin word: an address often follows or
/// precedes them without a space.
pub(super) fn is_word_char(c: char) -> bool {
    match c {
        '\0'..='\x7F' => c.is_ascii_alphanumeric() || c == '_',
        '\u{300}'..='\u{36F}' => true,
        '\u{AA}'..='\u{58F}' | '\u{1E00}'..='\u{1FFF}' => c.is_alphanumeric(),
        _ => false,
    }
}
