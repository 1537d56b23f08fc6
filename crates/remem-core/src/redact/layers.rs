//! Owns the bounded search through encodings: text, then what its escapes and encoded stretches
//! decode to, then what those decode to. It may not change text; it reports ranges of the outermost
//! one.

use std::ops::Range;

use super::alphabets::{CandidateStretches, Symbols};
use super::budget::ScanBudget;
use super::escapes::{Escape, LeadOffsets, Unescaped};
use super::inflate;
use super::invisible::write_invisible;
use super::needles::{Needles, TRUNCATED, UNEXAMINED, ValueHit};
use super::origin::{DecodedSink, SourceMap};
use super::scan::WINDOW;
use super::stretch::printable;
use crate::sabotage;

/// Levels of nested encodings that are followed.
pub(super) const DEPTH_MAX: usize = 3;

/// The search of one text. The text may come in pieces, which share its budget.
pub(super) struct LayerSearch<'n> {
    pub(super) needles: &'n Needles,
    pub(super) budget: ScanBudget,
}

/// How many decodings deep a layer is, and the escape notation from which on to decode.
#[derive(Clone, Copy)]
pub(super) struct LayerDepth {
    pub(super) depth: usize,
    notation: usize,
}

impl LayerDepth {
    /// The level one decoding deeper, where every notation may follow.
    pub(super) fn nested(self) -> LayerDepth {
        LayerDepth {
            depth: self.depth + 1,
            notation: 0,
        }
    }
}

impl<'n> LayerSearch<'n> {
    /// Prepares the search of a text that is `bytes` long.
    pub(super) fn new(needles: &'n Needles, bytes: usize) -> LayerSearch<'n> {
        let budget = ScanBudget::for_text(bytes);
        LayerSearch { needles, budget }
    }

    /// Finds registered values in a piece of the text and in what it decodes to, and the stretches
    /// that could not be examined.
    pub(super) fn find(&mut self, text: &str) -> Vec<ValueHit> {
        let level = LayerDepth {
            depth: 0,
            notation: 0,
        };
        let mut hits = self.search_layer(text.as_bytes(), level);
        hits.retain(|hit| hit.value != TRUNCATED);
        for hit in &mut hits {
            hit.range = on_char_boundaries(text, &hit.range);
        }
        hits
    }

    /// Searches a layer as it is, then its decodings, the cheap ones first.
    pub(super) fn search_layer(&mut self, bytes: &[u8], level: LayerDepth) -> Vec<ValueHit> {
        if !self.budget.try_charge(bytes.len()) {
            return unexamined_hit(0..bytes.len()).into_iter().collect();
        }
        let mut hits = Vec::new();
        self.needles.scan(bytes, &mut hits);
        if level.depth == DEPTH_MAX || bytes.len() < WINDOW {
            return hits;
        }
        let below = level.nested();
        let leads = LeadOffsets::of(bytes);
        for (notation, escape) in Escape::ALL.into_iter().enumerate().skip(level.notation) {
            if let Some(unescaped) = Unescaped::new(escape, bytes, &leads, self.needles.reach()) {
                self.search_decoding(&unescaped, LayerDepth { notation, ..below }, &mut hits);
            }
        }
        let candidates = CandidateStretches::of(bytes, self.needles.shortest());
        let mut packed = Vec::new();
        for symbols in candidates.symbols() {
            let readings = 0..symbols.phases();
            let holds_packed =
                readings.filter(|&phase| self.search_reading(&symbols, phase, below, &mut hits));
            let phases: Vec<usize> = holds_packed.collect();
            if !phases.is_empty() {
                packed.push((symbols, phases));
            }
        }
        self.search_decoding(&ByteLists(&candidates), below, &mut hits);
        self.search_decoding(&Invisible(bytes), below, &mut hits);
        for (symbols, phases) in packed {
            for phase in phases {
                self.search_packed_reading(&symbols, phase, below, &mut hits);
            }
        }
        hits
    }

    /// Searches a decoding that is mostly text, part by part.
    fn search_decoding(
        &mut self,
        view: &impl Decoding,
        level: LayerDepth,
        hits: &mut Vec<ValueHit>,
    ) {
        let mut decoded = Vec::new();
        for part in 0..view.parts() {
            decoded.clear();
            view.write(part, &mut decoded);
            if decoded.len() < WINDOW {
                continue;
            }
            let outer = self.begin_reading(decoded.len(), level);
            let found = self.search_layer(&decoded, level);
            self.end_reading(outer);
            if !found.is_empty() {
                let mut origin = SourceMap::default();
                view.write(part, &mut origin);
                hits.extend(to_outer_ranges(found, &origin));
            }
        }
    }

    /// Searches one reading of encoded stretches. Most readings are garbage: all of it is searched
    /// for exact values, and only the parts that read as text for anything more. Returns whether it
    /// may hold packed data.
    fn search_reading(
        &mut self,
        symbols: &Symbols<'_>,
        phase: usize,
        level: LayerDepth,
        hits: &mut Vec<ValueHit>,
    ) -> bool {
        let decoded = symbols.bytes(phase);
        let outer = self.begin_reading(decoded.len(), level);
        if !self.budget.try_charge(decoded.len()) {
            self.end_reading(outer);
            hits.extend(symbols.source_ranges().filter_map(unexamined_hit));
            return false;
        }
        let mut found = Vec::new();
        self.needles.scan_exact(&decoded, &mut found);
        for stretch in printable(&decoded) {
            let inner = self.search_layer(&decoded[stretch.clone()], level);
            found.extend(inner.into_iter().map(|hit| {
                hit.with_range(stretch.start + hit.range.start..stretch.start + hit.range.end)
            }));
        }
        self.end_reading(outer);
        if !found.is_empty() {
            hits.extend(to_outer_ranges(found, &symbols.source_map(phase)));
        }
        inflate::possible_starts(&decoded).next().is_some()
    }

    /// Searches the packed data in one reading, stretch by stretch.
    fn search_packed_reading(
        &mut self,
        symbols: &Symbols<'_>,
        phase: usize,
        level: LayerDepth,
        hits: &mut Vec<ValueHit>,
    ) {
        let decoded = symbols.bytes(phase);
        let mut found = Vec::new();
        for stretch in symbols.decoded_stretches(phase) {
            let from = found.len();
            self.search_packed(&decoded[stretch.clone()], level, &mut found);
            for hit in &mut found[from..] {
                *hit =
                    hit.with_range(stretch.start + hit.range.start..stretch.start + hit.range.end);
            }
        }
        if !found.is_empty() {
            hits.extend(to_outer_ranges(found, &symbols.source_map(phase)));
        }
    }

    /// Gives a reading of the text itself its own allowance; what is nested in one counts against
    /// it.
    fn begin_reading(&mut self, bytes: usize, level: LayerDepth) -> Option<usize> {
        (level.depth == 1).then(|| self.budget.begin_reading(bytes))
    }

    fn end_reading(&mut self, outer: Option<usize>) {
        if let Some(outer) = outer {
            self.budget.end_reading(outer);
        }
    }
}

/// The hit for a stretch that could not be examined. It is replaced, because a value in it would be
/// stored otherwise.
fn unexamined_hit(range: Range<usize>) -> Option<ValueHit> {
    let hit = ValueHit {
        range,
        value: UNEXAMINED,
    };
    sabotage!("a-stretch-that-was-not-looked-at-is-kept", Some(hit), None)
}

/// Translates hits in a decoded layer to ranges of the layer around it.
fn to_outer_ranges(found: Vec<ValueHit>, origin: &SourceMap) -> impl Iterator<Item = ValueHit> {
    found
        .into_iter()
        .map(|hit| hit.with_range(origin.source_range(&hit.range)))
}

/// A decoding in parts that can be written twice: as bytes to search, and as origins when something
/// was found.
trait Decoding {
    fn parts(&self) -> usize {
        1
    }

    fn write(&self, part: usize, sink: &mut impl DecodedSink);
}

impl Decoding for Unescaped<'_> {
    fn parts(&self) -> usize {
        self.window_count()
    }

    fn write(&self, part: usize, sink: &mut impl DecodedSink) {
        Unescaped::write(self, part, sink);
    }
}

struct ByteLists<'o, 'l>(&'o CandidateStretches<'l>);

impl Decoding for ByteLists<'_, '_> {
    fn write(&self, _: usize, sink: &mut impl DecodedSink) {
        self.0.write_byte_lists(sink);
    }
}

struct Invisible<'l>(&'l [u8]);

impl Decoding for Invisible<'_> {
    fn write(&self, _: usize, sink: &mut impl DecodedSink) {
        write_invisible(self.0, sink);
    }
}

/// Extends a range to character boundaries on both sides.
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
