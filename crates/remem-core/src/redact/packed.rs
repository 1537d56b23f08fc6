//! Owns the search of packed data: it is unpacked and searched window by window, never held whole.
//! Everything unpacked is charged to the budget.

use super::inflate::{self, InflateEnd, PackedStream};
use super::layers::{DEPTH_MAX, LayerDepth, LayerSearch};
use super::needles::{TRUNCATED, UNEXAMINED, ValueHit};
use crate::sabotage;

/// Bytes that are unpacked and searched in one step.
const WINDOW_BYTES: usize = 64 * 1024;
/// Largest window. A window grows beyond one step to keep packed data inside packed data whole.
const WINDOW_BYTES_MAX: usize = 2 << 20;
/// Bytes charged for each possible beginning of packed data: the state that unpacking needs.
const START_COST: usize = 1024;
/// Bytes at the end of a window that may lie outside of a nested encoding: an unfinished base64
/// group, a line break.
const TRAILER_MAX: usize = 8;

impl LayerSearch<'_> {
    /// Searches all packed data in a layer. Nothing inside it can be replaced alone, so a value
    /// anywhere in it makes all of it a hit.
    pub(super) fn search_packed(
        &mut self,
        layer: &[u8],
        level: LayerDepth,
        hits: &mut Vec<ValueHit>,
    ) {
        let outer = self.budget.begin_unpacking();
        for start in inflate::possible_starts(layer) {
            let mut stream = PackedStream::new(&layer[start..]);
            if !self.budget.try_charge(START_COST + stream.header_bytes()) {
                let range = start..layer.len();
                hits.push(ValueHit {
                    range,
                    value: UNEXAMINED,
                });
                break;
            }
            let value = self.search_stream(&mut stream, level);
            let end = match stream.end() {
                Some(InflateEnd::Complete | InflateEnd::Damaged) => start + stream.used(),
                Some(InflateEnd::Truncated) | None => layer.len(),
            };
            if let Some(value) = value {
                let range = start..end;
                hits.push(ValueHit { range, value });
            } else if stream.end() == Some(InflateEnd::Truncated) {
                // A search that gets more of the layer can continue from its start.
                let range = start..end;
                hits.push(ValueHit {
                    range,
                    value: TRUNCATED,
                });
            }
        }
        self.budget.end_unpacking(outer);
    }

    /// Searches a stream and returns the first value found. The stream is read to its end in any
    /// case, so that its extent is known.
    fn search_stream(&mut self, stream: &mut PackedStream<'_>, level: LayerDepth) -> Option<usize> {
        let mut window = Vec::new();
        let mut found = None;
        while stream.read(WINDOW_BYTES.max(window.len()), &mut window) {
            if window.len() > WINDOW_BYTES_MAX {
                return Some(UNEXAMINED);
            }
            if found.is_some() {
                // Only the end of the stream is still of interest.
                if !self.budget.try_charge(window.len()) {
                    break;
                }
                window.clear();
                continue;
            }
            let mut hits = self.search_layer(&window, level);
            if level.depth < DEPTH_MAX {
                self.search_packed(&window, level.nested(), &mut hits);
            }
            found = hits
                .iter()
                .map(|hit| hit.value)
                .filter(|&value| value != TRUNCATED)
                .min();
            if found == Some(UNEXAMINED) {
                break;
            }
            let keep_from = self.overlap_start(&window, &hits);
            window.drain(..sabotage!("windows-do-not-overlap", keep_from, window.len()));
        }
        found
    }

    /// The offset from which on a window is searched again together with the data that follows it.
    fn overlap_start(&self, window: &[u8], hits: &[ValueHit]) -> usize {
        let cut = hits
            .iter()
            .filter(|hit| hit.value == TRUNCATED && hit.range.end + TRAILER_MAX >= window.len())
            .map(|hit| hit.range.start)
            .min();
        let reach = window.len().saturating_sub(self.needles.reach());
        cut.map_or(reach, |cut| cut.min(reach))
    }
}
