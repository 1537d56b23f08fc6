//! Owns the text under search and the count of bytes that rules have looked at. It may not judge.

use std::cell::Cell;

use super::checks::floor_boundary;

/// A text, what was looked at of it, and where the run of characters ends that was looked at last.
pub(super) struct Page<'t> {
    pub(super) text: &'t str,
    examined: Cell<usize>,
    run: Cell<(usize, usize)>,
}

impl<'t> Page<'t> {
    /// The page of a text, of which nothing was looked at.
    pub(super) fn new(text: &'t str) -> Page<'t> {
        Page {
            text,
            examined: Cell::new(0),
            run: Cell::new((0, 0)),
        }
    }

    /// At most `max` bytes from a place on.
    pub(super) fn ahead(&self, from: usize, max: usize) -> &'t str {
        &self.text[from..floor_boundary(self.text, from + max)]
    }

    /// Counts bytes that a rule has looked at.
    pub(super) fn count(&self, bytes: usize) {
        self.examined.set(self.examined.get() + bytes);
    }

    /// Bytes looked at so far.
    pub(super) fn examined(&self) -> usize {
        self.examined.get()
    }

    /// Where the characters that an unquoted value may have end. Each byte is looked at once,
    /// however many values begin in one run, since rules ask from the front to the back.
    pub(super) fn value_end(&self, from: usize) -> usize {
        let known = self.run.get();
        if (known.0..known.1).contains(&from) {
            return known.1;
        }
        let rest = &self.text.as_bytes()[from..];
        let len = rest.iter().position(|&byte| !is_value(byte));
        let end = from + len.unwrap_or(rest.len());
        self.count(end - from);
        self.run.set((from, end));
        end
    }
}

fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_.~-".contains(&byte)
}
