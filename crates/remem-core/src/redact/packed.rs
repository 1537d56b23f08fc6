//! Owns the search of packed data: it is unpacked and searched window by window, never held whole.
//! Everything unpacked is charged to the budget.

use super::inflate::{self, End, Stream};
use super::layers::{DEPTH_MAX, Place, Search};
use super::needles::{CUT, Hit, UNREAD};
use crate::sabotage;

/// Bytes that are unpacked and searched in one step.
const WINDOW_BYTES: usize = 64 * 1024;
/// Largest window. A window grows beyond one step to keep packed data inside packed data whole.
const WINDOW_BYTES_MAX: usize = 2 << 20;
/// Bytes charged for each possible beginning of packed data: the state that unpacking needs.
const START_COST: usize = 1024;
/// Bytes at the end of a window that may lie outside of a nested encoding: an unfinished base64
/// group, a line break.
const REST_MAX: usize = 8;

impl Search<'_> {
    /// Searches all packed data in a layer. Nothing inside it can be replaced alone, so a value
    /// anywhere in it makes all of it a hit.
    pub(super) fn unpack(&mut self, layer: &[u8], level: Place, hits: &mut Vec<Hit>) {
        let outer = self.budget.begin_unpacking();
        for start in inflate::starts(layer) {
            let mut stream = Stream::new(&layer[start..]);
            if !self.budget.afford(START_COST + stream.header()) {
                let range = start..layer.len();
                hits.push(Hit {
                    range,
                    value: UNREAD,
                });
                break;
            }
            let value = self.stream(&mut stream, level);
            let end = match stream.end() {
                Some(End::Whole | End::Damaged) => start + stream.used(),
                Some(End::Cut) | None => layer.len(),
            };
            if let Some(value) = value {
                let range = start..end;
                hits.push(Hit { range, value });
            } else if stream.end() == Some(End::Cut) {
                // A search that gets more of the layer can continue from its start.
                let range = start..end;
                hits.push(Hit { range, value: CUT });
            }
        }
        self.budget.end_unpacking(outer);
    }

    /// Searches a stream and returns the first value found. The stream is read to its end in any
    /// case, so that its extent is known.
    fn stream(&mut self, stream: &mut Stream<'_>, level: Place) -> Option<usize> {
        let mut window = Vec::new();
        let mut found = None;
        while stream.read(WINDOW_BYTES.max(window.len()), &mut window) {
            if window.len() > WINDOW_BYTES_MAX {
                return Some(UNREAD);
            }
            if found.is_some() {
                // Only the end of the stream is still of interest.
                if !self.budget.afford(window.len()) {
                    break;
                }
                window.clear();
                continue;
            }
            let mut hits = self.layer(&window, level);
            if level.depth < DEPTH_MAX {
                self.unpack(&window, level.below(), &mut hits);
            }
            found = hits
                .iter()
                .map(|hit| hit.value)
                .filter(|&value| value != CUT)
                .min();
            if found == Some(UNREAD) {
                break;
            }
            let keep_from = self.kept_from(&window, &hits);
            window.drain(..sabotage!("windows-do-not-overlap", keep_from, window.len()));
        }
        found
    }

    /// The offset from which on a window is searched again together with the data that follows it.
    fn kept_from(&self, window: &[u8], hits: &[Hit]) -> usize {
        let cut = hits
            .iter()
            .filter(|hit| hit.value == CUT && hit.range.end + REST_MAX >= window.len())
            .map(|hit| hit.range.start)
            .min();
        let reach = window.len().saturating_sub(self.needles.reach());
        cut.map_or(reach, |cut| cut.min(reach))
    }
}
