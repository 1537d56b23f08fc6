//! Owns the view of a text that patterns are given: a stretch between two markers, at whose ends
//! words end. It may not know any pattern.

use super::PiiKind;
use std::ops::Range;

/// A stretch of a text.
#[derive(Clone, Copy)]
pub(super) struct View<'t> {
    text: &'t str,
    from: usize,
    to: usize,
}

/// What a pattern found at the place it was asked about.
pub(super) struct Found {
    pub(super) end: usize,
    pub(super) kind: PiiKind,
    pub(super) normal: String,
}

impl<'t> View<'t> {
    pub(super) fn new(text: &'t str, stretch: Range<usize>) -> View<'t> {
        View {
            text,
            from: stretch.start,
            to: stretch.end,
        }
    }

    /// The part before a place, which becomes its end.
    pub(super) fn until(self, to: usize) -> View<'t> {
        View { to, ..self }
    }

    /// The part from a place on, which becomes its beginning.
    pub(super) fn since(self, from: usize) -> View<'t> {
        View { from, ..self }
    }

    /// What stands before a place.
    pub(super) fn before(&self, at: usize) -> &'t str {
        &self.text[self.from..at]
    }

    /// What stands from a place on.
    pub(super) fn rest(&self, at: usize) -> &'t str {
        &self.text[at..self.to]
    }

    /// The last character boundary at or before a place, in this view.
    pub(super) fn floor(&self, at: usize) -> usize {
        (self.from..=at.max(self.from))
            .rev()
            .find(|&at| self.text.is_char_boundary(at))
            .unwrap_or(self.from)
    }

    /// The next place where a pattern can begin: a letter, digit, plus or bracket that no word runs
    /// into.
    pub(super) fn next_start(&self, from: usize) -> Option<usize> {
        let from = (from..=self.to).find(|&at| self.text.is_char_boundary(at))?;
        let mut inside = self.before(from).chars().next_back().is_some_and(joins);
        for (at, c) in self.rest(from).char_indices() {
            let was_inside = inside;
            let is_word = joins(c);
            inside = is_word;
            if !was_inside && (is_word && c != '_' || matches!(c, '+' | '(')) {
                return Some(from + at);
            }
        }
        None
    }

    /// Whether no word runs on at a place.
    pub(super) fn closes(&self, at: usize) -> bool {
        !self.rest(at).chars().next().is_some_and(joins)
    }

    /// Whether a number that begins here is not the rest of a longer one (a decimal, a date, a
    /// version).
    pub(super) fn begins_number(&self, at: usize) -> bool {
        let mut back = self.before(at).chars().rev();
        let before = back.next();
        !(before.is_some_and(|c| matches!(c, '.' | ',' | '-' | '/' | ':'))
            && back.next().is_some_and(|c| c.is_ascii_digit()))
    }
}

/// Whether a character is part of a word in scripts that put spaces between words and mix with
/// Latin letters. Others (kana, Han, Thai, Arabic) end a Latin word: an address often stands right
/// beside them.
pub(super) fn joins(c: char) -> bool {
    match c {
        '\0'..='\x7F' => c.is_ascii_alphanumeric() || c == '_',
        '\u{300}'..='\u{36F}' => true,
        '\u{AA}'..='\u{58F}' | '\u{1E00}'..='\u{1FFF}' => c.is_alphanumeric(),
        _ => false,
    }
}
