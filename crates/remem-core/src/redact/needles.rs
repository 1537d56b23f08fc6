//! Owns the needles searched for in one layer of text: every form of every registered value. It may
//! not decode anything, and it leaves the judging of skeleton matches to `forms`.

use std::ops::Range;

use zeroize::Zeroizing;

use super::bases::base_forms;
use super::fold::{self, FoldLevel, combining_end, folded};
use super::forms::{SkeletonForm, skeleton_forms};
use super::json_forms::json_forms;
use super::scan::{Scanner, WINDOW};
use super::value::FLOOR_CHARS;

/// In place of a value's number: the range could not be examined, so it must not be stored.
pub(super) const UNEXAMINED: usize = usize::MAX;
/// In place of a value's number: packed data that ends where the layer does. It is not an
/// occurrence of a value; it makes a search in windows examine this data again.
pub(super) const TRUNCATED: usize = usize::MAX - 1;

/// An occurrence of a registered value in some layer of text; `value` is the value's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueHit {
    pub(super) range: Range<usize>,
    pub(super) value: usize,
}

impl ValueHit {
    /// The same value at another range: a hit in a decoded layer, seen from the layer around it.
    pub(super) fn with_range(&self, range: Range<usize>) -> ValueHit {
        ValueHit {
            range,
            value: self.value,
        }
    }
}

/// All forms of all values, ready to be searched for.
///
/// A value with enough letters and digits is found through its bare skeleton, also when the text
/// has it as registered: the skeleton of a text contains that of each of its parts.
pub(super) struct Needles {
    /// Every value as registered, for layers that are not text.
    exact: Scanner,
    /// Byte strings that are an occurrence of a value by themselves: JSON-escaped forms (which
    /// decoding also finds, unless a stray backslash before them shifts it), and values too short
    /// for any skeleton.
    literal: Scanner,
    literal_values: Vec<usize>,
    bare: Scanner,
    bare_forms: Vec<SkeletonForm>,
    /// Only for values that are mostly punctuation, so usually empty and free.
    dense: Scanner,
    dense_forms: Vec<SkeletonForm>,
    /// Bytes of the longest and of the shortest value.
    longest: usize,
    shortest: usize,
}

impl Needles {
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>) -> Needles {
        let mut lists = NeedleLists::default();
        for (number, value) in values.enumerate() {
            lists.add(number, value);
        }
        Needles {
            longest: lists
                .exact
                .iter()
                .map(|value| value.len())
                .max()
                .unwrap_or(0),
            shortest: lists
                .exact
                .iter()
                .map(|value| value.len())
                .min()
                .unwrap_or(0),
            exact: Scanner::new(lists.exact),
            literal: Scanner::new(lists.literal),
            literal_values: lists.literal_values,
            bare: Scanner::new(lists.bare),
            bare_forms: lists.bare_forms,
            dense: Scanner::new(lists.dense),
            dense_forms: lists.dense_forms,
        }
    }

    /// The fewest bytes that are decoded: the length of the shortest value, less the third that a
    /// cut may remove.
    pub(super) fn shortest(&self) -> usize {
        (self.shortest * 2 / 3).max(WINDOW)
    }

    /// The distance from one of its characters that a value can extend, also when encoded twice or
    /// spaced out.
    pub(super) fn reach(&self) -> usize {
        self.longest * 3 + 64
    }

    /// Finds the values as registered, and nothing else.
    pub(super) fn scan_exact(&self, text: &[u8], hits: &mut Vec<ValueHit>) {
        self.exact
            .each_match(text, |value, range| push_hit(hits, value, range));
    }

    /// Finds all forms in a layer; bytes that are not UTF-8 end a match.
    pub(super) fn scan(&self, layer: &[u8], hits: &mut Vec<ValueHit>) {
        if let Ok(text) = std::str::from_utf8(layer) {
            return self.scan_text(text, 0, hits);
        }
        let mut at = 0;
        for chunk in layer.utf8_chunks() {
            if chunk.valid().len() >= WINDOW {
                self.scan_text(chunk.valid(), at, hits);
            }
            at += chunk.valid().len() + chunk.invalid().len();
        }
    }

    fn scan_text(&self, text: &str, at: usize, hits: &mut Vec<ValueHit>) {
        self.literal.each_match(text.as_bytes(), |number, range| {
            push_hit(
                hits,
                self.literal_values[number],
                at + range.start..at + range.end,
            )
        });
        for (level, scanner, forms) in [
            (FoldLevel::Bare, &self.bare, &self.bare_forms),
            (FoldLevel::Dense, &self.dense, &self.dense_forms),
        ] {
            if !scanner.is_empty() {
                scan_skeleton(text, at, level, scanner, forms, hits);
            }
        }
    }
}

/// Searches the skeleton of a text at one level, and reports the ranges of the text whose matches
/// `forms` accepts.
fn scan_skeleton(
    text: &str,
    at: usize,
    level: FoldLevel,
    scanner: &Scanner,
    forms: &[SkeletonForm],
    hits: &mut Vec<ValueHit>,
) {
    let mut skeleton = Vec::new();
    fold::fold_into(text, level, &mut skeleton);
    // Most texts have no match, so where the skeleton comes from is worked out when one turns up.
    let mut origin = None;
    let mut covered = 0..0;
    scanner.each_match(&skeleton, |number, found| {
        if covered.start <= found.start && found.end <= covered.end {
            return;
        }
        let origin = origin.get_or_insert_with(|| fold::origin(text, level));
        let form = &forms[number];
        if let Some(range) = form.accepted_range(text, origin.source_range(&found)) {
            push_hit(
                hits,
                form.value,
                at + range.start..at + combining_end(text, range.end),
            );
            let overlap = covered.start <= found.start && found.start <= covered.end;
            covered = if overlap {
                covered.start..found.end.max(covered.end)
            } else {
                found
            };
        }
    });
}

/// The needle lists of `Needles` while values are added, before scanners are built from them.
#[derive(Default)]
struct NeedleLists {
    exact: Vec<Zeroizing<Vec<u8>>>,
    literal: Vec<Zeroizing<Vec<u8>>>,
    literal_values: Vec<usize>,
    bare: Vec<Zeroizing<Vec<u8>>>,
    bare_forms: Vec<SkeletonForm>,
    dense: Vec<Zeroizing<Vec<u8>>>,
    dense_forms: Vec<SkeletonForm>,
}

impl NeedleLists {
    /// Adds all forms of a value: skeleton forms where it has enough letters and digits, else its
    /// punctuation, else its literal bytes.
    fn add(&mut self, number: usize, value: &str) {
        self.exact.push(Zeroizing::new(value.as_bytes().to_vec()));
        for encoded in json_forms(value).into_iter().chain(base_forms(value)) {
            self.add_literal(number, &encoded);
        }
        let whole = SkeletonForm::whole(number, value);
        if whole.chars >= FLOOR_CHARS {
            for mut form in skeleton_forms(number, value, whole) {
                self.bare.push(form.take_needle());
                self.bare_forms.push(form);
            }
        } else if folded(value, FoldLevel::Dense).len() >= WINDOW {
            self.dense
                .push(Zeroizing::new(folded(value, FoldLevel::Dense)));
            self.dense_forms.push(whole.punctuated());
        } else {
            self.add_literal(number, value);
        }
    }

    fn add_literal(&mut self, number: usize, text: &str) {
        self.literal.push(Zeroizing::new(text.as_bytes().to_vec()));
        self.literal_values.push(number);
    }
}

/// Adds a hit. Overlapping occurrences of one value become one hit: a periodic text must not flood
/// the list.
fn push_hit(hits: &mut Vec<ValueHit>, value: usize, range: Range<usize>) {
    match hits.last_mut() {
        Some(last)
            if last.value == value
                && last.range.start <= range.start
                && range.start <= last.range.end =>
        {
            last.range.end = last.range.end.max(range.end);
        }
        _ => hits.push(ValueHit { range, value }),
    }
}
