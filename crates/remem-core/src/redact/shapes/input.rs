//! Owns the text under search and the count of bytes that rules have examined. It does not judge
//! text.

use std::cell::Cell;

use super::checks::floor_boundary;

/// A text under search, the number of its bytes examined, and the last run of value characters
/// found in it.
pub(super) struct ScanInput<'t> {
    pub(super) text: &'t str,
    examined: Cell<usize>,
    /// Start and end of the run of value characters that was measured last.
    run: Cell<(usize, usize)>,
}

impl<'t> ScanInput<'t> {
    /// Prepares a text of which nothing was examined yet.
    pub(super) fn new(text: &'t str) -> ScanInput<'t> {
        ScanInput {
            text,
            examined: Cell::new(0),
            run: Cell::new((0, 0)),
        }
    }

    /// At most `max` bytes of text from an offset on, cut at a character boundary.
    pub(super) fn lookahead(&self, from: usize, max: usize) -> &'t str {
        &self.text[from..floor_boundary(self.text, from + max)]
    }

    /// Counts bytes that a rule has examined.
    pub(super) fn count_examined(&self, bytes: usize) {
        self.examined.set(self.examined.get() + bytes);
    }

    /// The number of bytes that rules have examined so far.
    pub(super) fn examined(&self) -> usize {
        self.examined.get()
    }

    /// The end of the run of characters that an unquoted value may have. Each byte is examined
    /// once, however many values begin in one run, since rules ask from the front to the back.
    pub(super) fn value_end(&self, from: usize) -> usize {
        let known = self.run.get();
        if (known.0..known.1).contains(&from) {
            return known.1;
        }
        let rest = &self.text.as_bytes()[from..];
        let len = rest.iter().position(|&byte| !is_value(byte));
        let end = from + len.unwrap_or(rest.len());
        self.count_examined(end - from);
        self.run.set((from, end));
        end
    }
}

fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_.~-".contains(&byte)
}
