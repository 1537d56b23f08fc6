//! Owns the search of packed data: it is unpacked and searched window by window, never held whole.
//! It may not unpack without paying for it.

use super::inflate::{self, End, Stream};
use super::layers::{DEPTH_MAX, Place, Search};
use super::needles::{CUT, Hit, UNREAD};
use crate::sabotage;

/// Bytes that are unpacked and searched at once.
const WINDOW_BYTES: usize = 64 * 1024;
/// Largest window: packed data inside packed data is carried along as long as it fits.
const WINDOW_BYTES_MAX: usize = 2 << 20;
/// What a possible beginning costs by itself: the state that unpacking needs.
const START_COST: usize = 1024;
/// Bytes at the end of a window that an encoding may leave out: a base64 group, a line break.
const REST_MAX: usize = 8;

impl Search<'_> {
    /// Searches all packed data in a layer. Nothing inside it can be replaced, so all of it is a
    /// hit when there is one in it.
    pub(super) fn unpack(&mut self, layer: &[u8], place: Place, hits: &mut Vec<Hit>) {
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
            let value = self.stream(&mut stream, place);
            let end = match stream.end() {
                Some(End::Whole | End::Damaged) => start + stream.used(),
                Some(End::Cut) | None => layer.len(),
            };
            if let Some(value) = value {
                let range = start..end;
                hits.push(Hit { range, value });
            } else if stream.end() == Some(End::Cut) {
                // A search that gets more of the layer can go on from there.
                let range = start..end;
                hits.push(Hit { range, value: CUT });
            }
        }
        self.budget.end_unpacking(outer);
    }

    /// The first value in the stream; it is then read to its end, so that this is known.
    fn stream(&mut self, stream: &mut Stream<'_>, place: Place) -> Option<usize> {
        let mut window = Vec::new();
        let mut found = None;
        while stream.read(WINDOW_BYTES.max(window.len()), &mut window) {
            if window.len() > WINDOW_BYTES_MAX {
                return Some(UNREAD);
            }
            if found.is_some() {
                // Only the end is wanted.
                if !self.budget.afford(window.len()) {
                    break;
                }
                window.clear();
                continue;
            }
            let mut hits = self.layer(&window, place);
            if place.depth < DEPTH_MAX {
                self.unpack(&window, place.below(), &mut hits);
            }
            found = hits
                .iter()
                .map(|hit| hit.value)
                .filter(|&value| value != CUT)
                .min();
            if found == Some(UNREAD) {
                break;
            }
            let kept = self.kept_from(&window, &hits);
            window.drain(..sabotage!("windows-do-not-overlap", kept, window.len()));
        }
        found
    }

    /// From where on a window is looked at once more, together with what follows it.
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
