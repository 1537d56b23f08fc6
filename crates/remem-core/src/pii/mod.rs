//! Owns the rule that a workshop memory holds what was learned, and no copy of the people and the
//! traffic it was learned from (`non_mirror`). This module finds and masks personal data (PII), and
//! recognises payloads that are traces rather than memory. It does not decide whether they are
//! refused or masked, and it keeps no text.
//!
//! A finding must be beyond reasonable doubt: a shape of its own, and a check digit where there is
//! one. Plain numbers, dates, versions and ids pass. Network addresses are not PII here: memories
//! about machines are made of them.
//!
//! Everything is linear in the text: each pattern begins at one offset and looks a bounded distance
//! ahead.

mod contact;
mod groups;
mod money;
mod national;
mod phone;
mod trace;
mod view;

use crate::sabotage;
pub use trace::{TraceKind, trace_kind};

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use view::{PiiMatch, TextView};

/// The most bytes that any pattern looks ahead.
const LOOKAHEAD_BYTES_MAX: usize = 512;
/// The longest pseudonym that a marker shows.
const PSEUDONYM_CHARS_MAX: usize = 32;

/// The kinds of data that identify a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PiiKind {
    Email,
    Phone,
    /// The number of a payment card, with a valid check digit.
    Card,
    /// The international number of a bank account, with valid check digits.
    Iban,
    /// A number by which a state identifies a person, such as a tax or social security number.
    NationalId,
}

impl PiiKind {
    /// The name that markers show.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            PiiKind::Email => "email",
            PiiKind::Phone => "phone",
            PiiKind::Card => "card",
            PiiKind::Iban => "iban",
            PiiKind::NationalId => "national-id",
        }
    }
}

/// An occurrence of personal data in a text.
#[derive(Clone, PartialEq, Eq)]
pub struct Pii {
    /// The range of the occurrence in the text, in bytes.
    pub range: Range<usize>,
    pub kind: PiiKind,
    /// The normal form, which is the same for every way to write the value: an address in lower
    /// case; a number without separators, with a plus in front if it was written with its country;
    /// an account or id in upper case. Pseudonyms and subjects are computed from it.
    pub normal_form: String,
}

/// Prints range and kind, never the value itself.
impl fmt::Debug for Pii {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pii")
            .field("range", &self.range)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// All PII of a text, in order, without overlaps. Markers of redaction and of [`mask`] are skipped.
#[must_use]
pub fn find_pii(text: &str) -> Vec<Pii> {
    let mut found = Vec::new();
    let mut from = 0;
    for marker in MARKER.captures_iter(text) {
        let (Some(whole), pseudonym) = (marker.get(0), marker.get(1)) else {
            continue;
        };
        // A marker that a caller wrote with a number in place of a pseudonym is searched like any
        // text.
        if sabotage!(
            "numbers-pass-in-markers-of-their-own",
            pseudonym.is_none_or(|pseudonym| find_in_stretch(
                pseudonym.as_str(),
                0..pseudonym.len()
            )
            .is_empty()),
            true
        ) {
            found.extend(find_in_stretch(text, from..whole.start()));
            from = whole.end();
        }
    }
    found.extend(find_in_stretch(text, from..text.len()));
    found
}

/// Replaces each finding by `[PII:<kind>:<pseudonym>]`. Returns the masked text and the values
/// found, each once, in the order of first appearance. Masking a masked text changes nothing. Of a
/// pseudonym, only ASCII letters, digits, `-` and `_` are shown.
pub fn mask(
    text: &str,
    pseudonym: impl Fn(PiiKind, &str) -> String,
) -> (String, Vec<(PiiKind, String)>) {
    let mut masked = String::with_capacity(text.len());
    let mut values = Vec::new();
    let mut masked_values = HashSet::new();
    let mut from = 0;
    for Pii {
        range,
        kind,
        normal_form: normal,
    } in find_pii(text)
    {
        masked.push_str(&text[from..range.start]);
        masked.push_str(&format!(
            "[PII:{}:{}]",
            kind.as_str(),
            shown_pseudonym(&pseudonym(kind, &normal))
        ));
        from = range.end;
        if masked_values.insert((kind, normal.clone())) {
            values.push((kind, normal));
        }
    }
    masked.push_str(&text[from..]);
    (masked, values)
}

// Redaction's markers as `redact::marker` reads them, and ours.
static MARKER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\[REDACTED:[^\[\]<>"\x00-\x1F\x7F]{1,64}\]|\[PII:(?:email|phone|card|iban|national-id):([A-Za-z0-9_-]{0,32})\]"#)
        .expect("a constant pattern compiles")
});

/// The part of a pseudonym that a marker can show; empty if that would itself be PII.
fn shown_pseudonym(pseudonym: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let shown: String = pseudonym
        .chars()
        .filter(fits)
        .take(PSEUDONYM_CHARS_MAX)
        .collect();
    if find_in_stretch(&shown, 0..shown.len()).is_empty() {
        shown
    } else {
        String::new()
    }
}

/// Finds all PII in a stretch between two markers.
///
/// A finding will become a marker, and a marker is a boundary for the text beside it. So the text
/// before a finding is searched again with its new end: otherwise masking could expose PII that the
/// first search did not see.
fn find_in_stretch(text: &str, stretch: Range<usize>) -> Vec<Pii> {
    let mut found = Vec::new();
    let mut pending = vec![(TextView::new(text, stretch.clone()), stretch.start)];
    while let Some((mut view, start)) = pending.pop() {
        let mut at = start;
        while let Some(begin) = view.next_start(at) {
            let Some(PiiMatch {
                end,
                kind,
                normal_form: normal,
            }) = detect(&view, begin)
            else {
                at = begin + 1;
                continue;
            };
            let before = view.until(begin);
            sabotage!(
                "what-a-mask-uncovers-stays",
                pending.push((
                    before,
                    before.floor_char_boundary(begin.saturating_sub(LOOKAHEAD_BYTES_MAX))
                ))
            );
            found.push(Pii {
                range: begin..end,
                kind,
                normal_form: normal,
            });
            (view, at) = (view.since(end), end);
        }
    }
    found.sort_by_key(|pii| pii.range.start);
    found
}

/// The PII that begins at `at`, if any. The most distinctive patterns are tried first.
fn detect(view: &TextView<'_>, at: usize) -> Option<PiiMatch> {
    match view.rest(at).as_bytes().first()? {
        b'+' | b'(' => phone::prefixed_number(view, at),
        byte if byte.is_ascii_digit() => {
            let groups = groups::DigitGroups::read(view, at);
            contact::email(view, at)
                .or_else(|| national::digit_id(view, at, &groups))
                .or_else(|| money::card(view, at, &groups))
                .or_else(|| phone::national_number(view, at, &groups))
        }
        _ => contact::email(view, at)
            .or_else(|| money::iban(view, at))
            .or_else(|| national::letter_id(view, at)),
    }
}
