//! Owns the cleaning loop: find, replace, look again until nothing is found. The only caller of
//! `Redacted::from_cleaned`. It may not keep any text.
//!
//! Why a loop: replacing can bring neighbours together, and a marker can itself meet a registered
//! value. Each round removes plain text or merges markers, so the loop ends; because it only
//! ends when a round finds nothing, cleaning a cleaned text changes nothing.

use std::borrow::Cow;
use std::ops::Range;

use super::layers::LayerSearch;
use super::marker::{self, Marker};
use super::needles::{Needles, UNEXAMINED, ValueHit};
use super::shapes::{self, ShapeHit, ShapeKind};
use super::types::{Cleaned, Redacted, ShapePolicy};

/// Rounds before the whole text is replaced. Ordinary text needs one, text with a hit one more;
/// only values made of marker syntax can need many.
const ROUNDS_MAX: usize = 12;
/// Marker id that replaces a text which was not clean after `ROUNDS_MAX` rounds; shorter than any
/// value, so it cannot contain one.
const UNSTABLE_TEXT: &str = "text";
/// Marker id that replaces a stretch that could not be examined within the budget.
const UNDECODABLE: &str = "undecodable";

/// The values and settings that one text is cleaned with.
pub(super) struct Cleaner<'r> {
    pub(super) needles: &'r Needles,
    /// The marker id of each value, by the value's number.
    pub(super) ids: &'r [String],
    pub(super) shapes: ShapePolicy,
    /// Whether placeholders of other notations become markers too.
    pub(super) derived: bool,
}

impl Cleaner<'_> {
    /// Replaces values and shapes round by round until a round finds nothing.
    pub(super) fn clean(&self, text: &str) -> Cleaned {
        let mut current = Cow::Borrowed(text);
        let mut tally = CleaningTally::default();
        let mut settled = false;
        for _ in 0..ROUNDS_MAX {
            match self.clean_once(&current, &mut tally) {
                Some(next) => current = Cow::Owned(next),
                None => {
                    settled = true;
                    break;
                }
            }
        }
        if !settled {
            tally.values = tally.values.saturating_add(1);
            current = Cow::Owned(marker::write(UNSTABLE_TEXT));
        }
        tally.kinds.sort_unstable();
        tally.kinds.dedup();
        Cleaned {
            text: Redacted::from_cleaned(current.into_owned()),
            values: tally.values,
            shapes: tally.kinds,
            examined: tally.examined,
        }
    }

    /// Whether `clean` would change or report anything: its first round, without the replacing.
    pub(super) fn has_findings(&self, text: &str) -> bool {
        let markers = marker::find_all(text);
        let mut examined = 0;
        !self.value_spans(text, &markers, &mut examined).is_empty()
            || (self.shapes != ShapePolicy::Off
                && !shape_spans(text, &markers, &mut examined).is_empty())
    }

    /// One step towards the clean text, or `None` when there is nothing left to do. Values go
    /// first, so that a registered key is named by its id and not reported as a shape.
    fn clean_once(&self, text: &str, tally: &mut CleaningTally) -> Option<String> {
        if self.derived
            && let Some(canonical) = marker::rewrite_foreign(text, |label| self.is_clean(label))
        {
            return Some(canonical);
        }
        let markers = marker::find_all(text);
        let spans = self.value_spans(text, &markers, &mut tally.examined);
        if !spans.is_empty() {
            let found = u32::try_from(spans.len()).unwrap_or(u32::MAX);
            tally.values = tally.values.saturating_add(found);
            let id = |label: usize| self.ids.get(label).map_or(UNDECODABLE, String::as_str);
            return Some(replace_spans(text, &spans, |span| {
                marker::write(id(span.label))
            }));
        }
        if self.shapes == ShapePolicy::Off {
            return None;
        }
        let spans = shape_spans(text, &markers, &mut tally.examined);
        tally.kinds.extend(spans.iter().map(|span| span.label));
        let redact = self.shapes == ShapePolicy::Redact && !spans.is_empty();
        redact.then(|| {
            replace_spans(text, &spans, |span| {
                marker::write_shape(span.label.as_str())
            })
        })
    }

    /// Whether a text holds neither a registered value nor a secret shape.
    pub(super) fn is_clean(&self, text: &str) -> bool {
        let mut search = LayerSearch::new(self.needles, text.len());
        search.find(text).is_empty() && shapes::find_shapes(text).hits.is_empty()
    }

    /// The spans of registered values in the text, merged; none of them is inside marker syntax.
    fn value_spans(
        &self,
        text: &str,
        markers: &[Marker],
        examined: &mut usize,
    ) -> Vec<RedactionSpan<usize>> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let mut spans: Vec<RedactionSpan<usize>> = Vec::new();
        let mut add = |hit: ValueHit, at: usize| {
            spans.push(RedactionSpan {
                range: at + hit.range.start..at + hit.range.end,
                label: hit.value,
                // A value found inside an unexamined stretch labels the merged span, rather than
                // "undecodable".
                weight: if hit.value == UNEXAMINED {
                    0
                } else {
                    hit.range.len()
                },
            })
        };
        let mut search = LayerSearch::new(self.needles, text.len());
        for piece in searchable_pieces(text, markers) {
            search
                .find(&text[piece.clone()])
                .into_iter()
                .for_each(|hit| add(hit, piece.start));
        }
        *examined += search.budget.used();
        if !markers.is_empty() {
            // Pieces end at markers; a value may not, if it has marker syntax in it.
            let mut across = Vec::new();
            self.needles.scan_exact(text.as_bytes(), &mut across);
            across
                .into_iter()
                .filter(|hit| !is_marker_syntax(&hit.range, markers))
                .for_each(|hit| add(hit, 0));
        }
        merge_spans(spans, markers)
    }
}

/// Counts of everything found and replaced over all rounds.
#[derive(Default)]
struct CleaningTally {
    values: u32,
    kinds: Vec<ShapeKind>,
    examined: usize,
}

/// A part of a text to replace, with the label that its marker will show.
struct RedactionSpan<L> {
    range: Range<usize>,
    label: L,
    /// The longest match in a merged span names it.
    weight: usize,
}

/// The spans of secret shapes in the text, merged.
fn shape_spans(
    text: &str,
    markers: &[Marker],
    examined: &mut usize,
) -> Vec<RedactionSpan<ShapeKind>> {
    let span = |at: usize, hit: ShapeHit| RedactionSpan {
        range: at + hit.range.start..at + hit.range.end,
        label: hit.kind,
        weight: hit.range.len(),
    };
    let spans = searchable_pieces(text, markers).flat_map(|piece| {
        let found = shapes::find_shapes(&text[piece.clone()]);
        *examined += found.examined;
        found
            .hits
            .into_iter()
            .map(move |hit| span(piece.start, hit))
    });
    merge_spans(spans.collect(), markers)
}

/// The plain text between markers, and the ids inside them: a value does not become safe by being
/// written where an id belongs.
fn searchable_pieces(text: &str, markers: &[Marker]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(markers.iter().map(|marker| marker.range.end));
    let ends = markers
        .iter()
        .map(|marker| marker.range.start)
        .chain(std::iter::once(text.len()));
    let plain = starts.zip(ends).map(|(start, end)| start..end);
    plain
        .chain(markers.iter().map(|marker| marker.id.clone()))
        .filter(|piece| !piece.is_empty())
}

/// Whether a match is inside a marker but outside its id, as the value `REDACTED` does.
fn is_marker_syntax(range: &Range<usize>, markers: &[Marker]) -> bool {
    let within = |outer: &Range<usize>| outer.start <= range.start && range.end <= outer.end;
    let after = markers.partition_point(|marker| marker.range.end < range.end);
    markers
        .get(after)
        .is_some_and(|marker| within(&marker.range) && !within(&marker.id))
}

/// The union of all spans; a span that touches a marker takes all of it in.
fn merge_spans<L>(mut spans: Vec<RedactionSpan<L>>, markers: &[Marker]) -> Vec<RedactionSpan<L>> {
    for span in &mut spans {
        let first = markers.partition_point(|marker| marker.range.end <= span.range.start);
        let end = span.range.end;
        for marker in markers[first..]
            .iter()
            .take_while(|marker| marker.range.start < end)
        {
            span.range =
                span.range.start.min(marker.range.start)..span.range.end.max(marker.range.end);
        }
    }
    spans.sort_by_key(|span| (span.range.start, std::cmp::Reverse(span.weight)));
    let mut union: Vec<RedactionSpan<L>> = Vec::new();
    for span in spans {
        match union.last_mut() {
            Some(last) if span.range.start <= last.range.end => {
                last.range.end = last.range.end.max(span.range.end);
                if span.weight > last.weight {
                    (last.label, last.weight) = (span.label, span.weight);
                }
            }
            _ => union.push(span),
        }
    }
    union
}

/// The text with each span replaced by the marker that `write` makes for it.
fn replace_spans<L>(
    text: &str,
    spans: &[RedactionSpan<L>],
    write: impl Fn(&RedactionSpan<L>) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    for span in spans {
        out.push_str(&text[kept..span.range.start]);
        out.push_str(&write(span));
        kept = span.range.end;
    }
    out.push_str(&text[kept..]);
    out
}
