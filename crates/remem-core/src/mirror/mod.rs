//! The discipline of a workshop's memory: it holds what was learned, never a mirror of the people
//! and the traffic it was learned from. This module finds and masks what tells a person (PII), and
//! recognises payloads that are traces rather than memory. It may not decide what becomes of them,
//! and it keeps no text.
//!
//! A finding must be beyond reasonable doubt: a shape of its own, and a check digit where there is
//! one. Plain numbers, dates, versions and ids pass. Network addresses are no PII here: memories
//! about machines are made of them.
//!
//! Everything is linear in the text: each pattern begins at one place and looks a bounded way
//! ahead.

mod contact;
mod groups;
mod money;
mod national;
mod phone;
mod trace;
mod view;

use crate::sabotage;
pub use trace::{TraceShape, trace_shape};

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use view::{Found, View};

/// How far any pattern looks ahead, in bytes.
const AHEAD_BYTES_MAX: usize = 512;
/// The longest pseudonym that a marker shows.
const PSEUDONYM_CHARS_MAX: usize = 32;

/// What kind of thing tells a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PiiKind {
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// The number of a payment card.
    Card,
    /// The number of a bank account.
    Iban,
    /// A number that a state gave a person.
    NationalId,
}

impl PiiKind {
    /// The name as it stands in markers.
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

/// Something in a text that tells a person.
#[derive(Clone, PartialEq, Eq)]
pub struct Pii {
    /// Where it stands, in bytes.
    pub range: Range<usize>,
    /// What it is.
    pub kind: PiiKind,
    /// The same for every way to write it: an address in small letters; a number without
    /// separators, with a plus in front if it was written with its country; an account or id in
    /// capitals. Pseudonyms and subjects are computed from it.
    pub normal: String,
}

/// The value itself is never shown.
impl fmt::Debug for Pii {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pii")
            .field("range", &self.range)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// All PII of a text, in order, none overlapping another. Markers of redaction and of [`mask`] are
/// left alone.
#[must_use]
pub fn find_pii(text: &str) -> Vec<Pii> {
    let mut found = Vec::new();
    let mut from = 0;
    for marker in MARKER.captures_iter(text) {
        let (Some(whole), pseudonym) = (marker.get(0), marker.get(1)) else {
            continue;
        };
        // Whoever writes a number into a marker of their own does not get it past us.
        if sabotage!(
            "numbers-pass-in-markers-of-their-own",
            pseudonym
                .is_none_or(|pseudonym| search(pseudonym.as_str(), 0..pseudonym.len()).is_empty()),
            true
        ) {
            found.extend(search(text, from..whole.start()));
            from = whole.end();
        }
    }
    found.extend(search(text, from..text.len()));
    found
}

/// The text with `[PII:<kind>:<pseudonym>]` in place of each finding, and what was found: each
/// value once, in the order of first appearance. Masking what is masked changes nothing. Of a
/// pseudonym, ASCII letters, digits, `-` and `_` are kept.
pub fn mask(
    text: &str,
    pseudonym: impl Fn(PiiKind, &str) -> String,
) -> (String, Vec<(PiiKind, String)>) {
    let mut masked = String::with_capacity(text.len());
    let mut values = Vec::new();
    let mut seen = HashSet::new();
    let mut from = 0;
    for Pii {
        range,
        kind,
        normal,
    } in find_pii(text)
    {
        masked.push_str(&text[from..range.start]);
        masked.push_str(&format!(
            "[PII:{}:{}]",
            kind.as_str(),
            fit(&pseudonym(kind, &normal))
        ));
        from = range.end;
        if seen.insert((kind, normal.clone())) {
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

/// What a marker can show of a pseudonym; nothing, if that would itself be PII.
fn fit(pseudonym: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let kept: String = pseudonym
        .chars()
        .filter(fits)
        .take(PSEUDONYM_CHARS_MAX)
        .collect();
    if search(&kept, 0..kept.len()).is_empty() {
        kept
    } else {
        String::new()
    }
}

/// All PII in a stretch between two markers.
///
/// A finding will become a marker, and a marker ends what stands beside it. So the text before a
/// finding is looked at once more as it will end then: otherwise masking could bring forth what it
/// did not see the first time.
fn search(text: &str, stretch: Range<usize>) -> Vec<Pii> {
    let mut found = Vec::new();
    let mut open = vec![(View::new(text, stretch.clone()), stretch.start)];
    while let Some((mut view, start)) = open.pop() {
        let mut at = start;
        while let Some(begin) = view.next_start(at) {
            let Some(Found { end, kind, normal }) = detect(&view, begin) else {
                at = begin + 1;
                continue;
            };
            let before = view.until(begin);
            sabotage!(
                "what-a-mask-uncovers-stays",
                open.push((before, before.floor(begin.saturating_sub(AHEAD_BYTES_MAX))))
            );
            found.push(Pii {
                range: begin..end,
                kind,
                normal,
            });
            (view, at) = (view.since(end), end);
        }
    }
    found.sort_by_key(|pii| pii.range.start);
    found
}

/// The one that begins here. Those with the most telling shape are asked first.
fn detect(view: &View<'_>, at: usize) -> Option<Found> {
    match view.rest(at).as_bytes().first()? {
        b'+' | b'(' => phone::with_prefix(view, at),
        byte if byte.is_ascii_digit() => {
            let groups = groups::Groups::read(view, at);
            contact::email(view, at)
                .or_else(|| national::number(view, at, &groups))
                .or_else(|| money::card(view, at, &groups))
                .or_else(|| phone::national(view, at, &groups))
        }
        _ => contact::email(view, at)
            .or_else(|| money::iban(view, at))
            .or_else(|| national::with_letters(view, at)),
    }
}
