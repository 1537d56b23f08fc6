//! Owns the bounded search through encodings: text, then what its escapes and encoded stretches
//! decode to, then what those decode to. It may not change text; it reports ranges of the outermost
//! one.

use std::ops::Range;

use super::escapes::{Escape, Leads, Unescaped};
use super::inflate;
use super::invisible::write_invisible;
use super::needles::{Hit, Needles};
use super::origin::{Origin, Sink};
use super::runs::{Outlines, Symbols};
use super::scan::WINDOW;
use super::stretch::printable;

/// Encodings inside encodings that are followed.
const DEPTH_MAX: usize = 3;
/// Decoded bytes looked at for one text: so many times its length, and a little more for short
/// ones. Base64 costs three times its length a level, so this covers three honest levels.
const BUDGET_FACTOR: usize = 40;
const BUDGET_EXTRA: usize = 64 * 1024;

/// Finds registered values in a text and in what it decodes to.
pub(super) fn find(needles: &Needles, text: &str) -> Vec<Hit> {
    let budget = text
        .len()
        .saturating_mul(BUDGET_FACTOR)
        .saturating_add(BUDGET_EXTRA);
    let mut search = Search { needles, budget };
    let mut hits = search.layer(
        text.as_bytes(),
        Place {
            depth: 0,
            notation: 0,
        },
    );
    for hit in &mut hits {
        hit.range = on_char_boundaries(text, &hit.range);
    }
    hits
}

struct Search<'n> {
    needles: &'n Needles,
    budget: usize,
}

/// Where a layer stands: how many decodings deep, and from which escape notation on to look.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    notation: usize,
}

impl Search<'_> {
    fn layer(&mut self, bytes: &[u8], place: Place) -> Vec<Hit> {
        let mut hits = Vec::new();
        self.needles.scan(bytes, &mut hits);
        if place.depth == DEPTH_MAX || bytes.len() < WINDOW {
            return hits;
        }
        let below = Place {
            depth: place.depth + 1,
            notation: 0,
        };
        let leads = Leads::of(bytes);
        for (notation, escape) in Escape::ALL.into_iter().enumerate().skip(place.notation) {
            if let Some(unescaped) = Unescaped::new(escape, bytes, &leads, self.needles.reach()) {
                self.view(&unescaped, Place { notation, ..below }, &mut hits);
            }
        }
        let outlines = Outlines::of(bytes, self.needles.shortest());
        for symbols in outlines.symbols() {
            (0..symbols.phases()).for_each(|phase| self.reading(&symbols, phase, below, &mut hits));
        }
        self.view(&ByteLists(&outlines), below, &mut hits);
        self.view(&Invisible(bytes), below, &mut hits);
        hits
    }

    /// Searches a layer that is mostly text, part by part.
    fn view(&mut self, view: &impl View, place: Place, hits: &mut Vec<Hit>) {
        let mut decoded = Vec::new();
        for part in 0..view.parts() {
            decoded.clear();
            view.write(part, &mut decoded);
            if decoded.len() < WINDOW || !self.spend(decoded.len()) {
                continue;
            }
            let found = self.layer(&decoded, place);
            if !found.is_empty() {
                let mut origin = Origin::default();
                view.write(part, &mut origin);
                hits.extend(
                    found
                        .into_iter()
                        .map(|hit| hit.moved(origin.of(&hit.range))),
                );
            }
        }
    }

    /// Searches one reading of encoded stretches. Most readings are rubbish: values are looked for
    /// in all of it, anything more only where it reads as text or unpacks.
    fn reading(&mut self, symbols: &Symbols<'_>, phase: usize, place: Place, hits: &mut Vec<Hit>) {
        let decoded = symbols.bytes(phase);
        if !self.spend(decoded.len()) {
            return;
        }
        let mut found = Vec::new();
        self.needles.scan_exact(&decoded, &mut found);
        for stretch in printable(&decoded) {
            let inner = self.layer(&decoded[stretch.clone()], place);
            found.extend(inner.into_iter().map(|hit| {
                hit.moved(stretch.start + hit.range.start..stretch.start + hit.range.end)
            }));
        }
        for (unpacked, range) in inflate::unpack_all(&decoded) {
            let inner = if self.spend(unpacked.len()) {
                self.layer(&unpacked, place)
            } else {
                Vec::new()
            };
            // Nothing inside packed data can be replaced, so all of it goes.
            found.extend(
                inner
                    .into_iter()
                    .take(1)
                    .map(|hit| hit.moved(range.clone())),
            );
        }
        if !found.is_empty() {
            let origin = symbols.origin(phase);
            hits.extend(
                found
                    .into_iter()
                    .map(|hit| hit.moved(origin.of(&hit.range))),
            );
        }
    }

    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.unwrap_or(0);
        left.is_some()
    }
}

/// A layer in parts that can be written twice: as bytes to search, and as origins when something
/// was found.
trait View {
    fn parts(&self) -> usize {
        1
    }

    fn write(&self, part: usize, sink: &mut impl Sink);
}

impl View for Unescaped<'_> {
    fn parts(&self) -> usize {
        self.windows()
    }

    fn write(&self, part: usize, sink: &mut impl Sink) {
        Unescaped::write(self, part, sink);
    }
}

struct ByteLists<'o, 'l>(&'o Outlines<'l>);

impl View for ByteLists<'_, '_> {
    fn write(&self, _: usize, sink: &mut impl Sink) {
        self.0.write_byte_lists(sink);
    }
}

struct Invisible<'l>(&'l [u8]);

impl View for Invisible<'_> {
    fn write(&self, _: usize, sink: &mut impl Sink) {
        write_invisible(self.0, sink);
    }
}

fn on_char_boundaries(text: &str, range: &Range<usize>) -> Range<usize> {
    let mut start = range.start.min(text.len());
    let mut end = range.end.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}
