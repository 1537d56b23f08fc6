//! Owns the two ways to receive a decoded layer: its bytes, or where each byte came from. Searching
//! needs only the bytes; their origin is computed when something was found, which is rare.

use std::ops::Range;

/// Written between stretches that do not belong together. It is never part of UTF-8, so no value
/// can match across it.
pub(super) const BREAK: u8 = 0xFF;

/// Receives a decoded layer in order.
pub(super) trait DecodedSink {
    /// Source bytes that decode to themselves.
    fn plain(&mut self, layer: &[u8], range: Range<usize>);
    /// Bytes that a range of the source decodes to.
    fn decoded(&mut self, bytes: &[u8], from: Range<usize>);
}

impl DecodedSink for Vec<u8> {
    fn plain(&mut self, layer: &[u8], range: Range<usize>) {
        self.extend_from_slice(&layer[range]);
    }

    fn decoded(&mut self, bytes: &[u8], _: Range<usize>) {
        self.extend_from_slice(bytes);
    }
}

/// The source range of each decoded byte.
#[derive(Debug, Default)]
pub(super) struct SourceMap(pub(super) Vec<(usize, usize)>);

impl SourceMap {
    /// The source range that a range of decoded bytes came from.
    pub(super) fn source_range(&self, decoded: &Range<usize>) -> Range<usize> {
        let start = self.0.get(decoded.start).map_or(0, |from| from.0);
        let end = decoded
            .end
            .checked_sub(1)
            .and_then(|last| self.0.get(last))
            .map_or(start, |from| from.1);
        start..end.max(start)
    }
}

impl DecodedSink for SourceMap {
    fn plain(&mut self, _: &[u8], range: Range<usize>) {
        self.0.extend(range.map(|at| (at, at + 1)));
    }

    fn decoded(&mut self, bytes: &[u8], from: Range<usize>) {
        self.0.extend(bytes.iter().map(|_| (from.start, from.end)));
    }
}
