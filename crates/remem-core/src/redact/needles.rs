//! Owns what is searched for: the forms of every registered value, and the rule that accepts or turns
//! down a skeleton match. It may not decode anything; each layer of text is handed to it.

use std::ops::Range;

use zeroize::Zeroizing;

use super::fold::{self, Level, folded, riders_end};
use super::random::{class_changes, is_telling_part};
use super::scan::{Scanner, WINDOW};
use super::value::FLOOR_CHARS;

/// Fewest characters (wide scripts count double) that make a head or tail worth hiding.
const PART_WEIGHT_MIN: usize = 10;
/// A head or tail of a phrase of words must be this long, because words repeat in ordinary text.
const PHRASE_PART_CHARS_MIN: usize = 16;
const PHRASE_WORDS_MIN: usize = 4;
/// How far past the half a telling head or tail is looked for; keeps registration linear.
const PART_STEPS_MAX: usize = 64;

/// An occurrence of a registered value, by its number, in some layer of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) range: Range<usize>,
    pub(super) value: usize,
}

impl Hit {
    /// The same value at another place: a hit in a decoded layer, seen from the layer around it.
    pub(super) fn moved(&self, range: Range<usize>) -> Hit {
        Hit { range, value: self.value }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    /// Whole, with its punctuation: for values that have little else.
    Punctuated,
    /// Reversed, or turned by rot13.
    Mirror,
    Head,
    Tail,
}

/// What a skeleton needle stands for, and what is needed to judge a match of it.
struct Form {
    value: usize,
    part: Part,
    /// The needle itself; moves to the scanner.
    bare: Zeroizing<Vec<u8>>,
    /// Skeletons of the same stretch with more kept, between its first and last letter or digit.
    tight: Zeroizing<Vec<u8>>,
    dense: Zeroizing<Vec<u8>>,
    /// Letters and digits in the needle.
    chars: usize,
    /// Mixes cases, digits or scripts more than once: not a word with a number after it.
    strong: bool,
    /// For a head, what follows it in the value; for a tail, what precedes it.
    rest: Zeroizing<Vec<u8>>,
}

/// All forms of all values, ready to be searched for.
///
/// A value with letters and digits enough is found through its bare skeleton, also when it stands
/// there as registered: the skeleton of a text contains that of each of its parts.
pub(super) struct Needles {
    /// Every value as registered, for layers that are not text.
    exact: Scanner,
    /// Values too short for any skeleton, as registered.
    odd: Scanner,
    odd_values: Vec<usize>,
    bare: Scanner,
    bare_forms: Vec<Form>,
    /// Only for values that are mostly punctuation, so usually empty and free.
    dense: Scanner,
    dense_forms: Vec<Form>,
    /// Bytes of the longest and of the shortest value.
    longest: usize,
    shortest: usize,
}

impl Needles {
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>) -> Needles {
        let mut draft = Draft::default();
        for (number, value) in values.enumerate() {
            draft.add(number, value);
        }
        Needles {
            longest: draft.exact.iter().map(|value| value.len()).max().unwrap_or(0),
            shortest: draft.exact.iter().map(|value| value.len()).min().unwrap_or(0),
            exact: Scanner::new(draft.exact),
            odd: Scanner::new(draft.odd),
            odd_values: draft.odd_values,
            bare: Scanner::new(draft.bare),
            bare_forms: draft.bare_forms,
            dense: Scanner::new(draft.dense),
            dense_forms: draft.dense_forms,
        }
    }

    /// Fewest bytes worth decoding: the shortest value, less the third that a cut may take away.
    pub(super) fn shortest(&self) -> usize {
        (self.shortest * 2 / 3).max(WINDOW)
    }

    /// How far from one of its characters a value can extend, also when encoded twice or spaced out.
    pub(super) fn reach(&self) -> usize {
        self.longest * 3 + 64
    }

    /// Finds the values as registered, and nothing else.
    pub(super) fn scan_exact(&self, text: &[u8], hits: &mut Vec<Hit>) {
        self.exact.each_match(text, |value, range| push_hit(hits, value, range));
    }

    /// Finds all forms in a layer; bytes that are not UTF-8 end a match.
    pub(super) fn scan(&self, layer: &[u8], hits: &mut Vec<Hit>) {
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

    fn scan_text(&self, text: &str, at: usize, hits: &mut Vec<Hit>) {
        self.odd.each_match(text.as_bytes(), |number, range| push_hit(hits, self.odd_values[number], at + range.start..at + range.end));
        for (level, scanner, forms) in [(Level::Bare, &self.bare, &self.bare_forms), (Level::Dense, &self.dense, &self.dense_forms)] {
            if !scanner.is_empty() && fold::holds_window(text, level, scanner) {
                scan_skeleton(text, at, level, (scanner, forms), hits);
            }
        }
    }
}

fn scan_skeleton(text: &str, at: usize, level: Level, (scanner, forms): (&Scanner, &[Form]), hits: &mut Vec<Hit>) {
    let mut skeleton = Vec::new();
    fold::fold_into(text, level, &mut skeleton);
    let (mut found, mut ranges) = (Vec::new(), Vec::new());
    scanner.each_match(&skeleton, |number, range| {
        found.push(&forms[number]);
        ranges.push(range);
    });
    for (form, range) in found.into_iter().zip(fold::locate(text, level, &ranges)) {
        if form.accepts(&text[range.clone()]) {
            let range = form.grow(text, range);
            push_hit(hits, form.value, at + range.start..at + riders_end(text, range.end));
        }
    }
}

/// Needles in the making.
#[derive(Default)]
struct Draft {
    exact: Vec<Zeroizing<Vec<u8>>>,
    odd: Vec<Zeroizing<Vec<u8>>>,
    odd_values: Vec<usize>,
    bare: Vec<Zeroizing<Vec<u8>>>,
    bare_forms: Vec<Form>,
    dense: Vec<Zeroizing<Vec<u8>>>,
    dense_forms: Vec<Form>,
}

impl Draft {
    fn add(&mut self, number: usize, value: &str) {
        let bytes = || Zeroizing::new(value.as_bytes().to_vec());
        self.exact.push(bytes());
        let whole = Form::new(number, Part::Whole, value, "");
        if whole.chars >= FLOOR_CHARS {
            for mut form in forms_of(number, value, whole) {
                self.bare.push(std::mem::take(&mut form.bare));
                self.bare_forms.push(form);
            }
        } else if whole_chars(value, Level::Dense) >= FLOOR_CHARS {
            self.dense.push(Zeroizing::new(folded(value, Level::Dense)));
            self.dense_forms.push(Form { part: Part::Punctuated, ..whole });
        } else {
            self.odd.push(bytes());
            self.odd_values.push(number);
        }
    }
}

/// Occurrences of one value that overlap are one hit: a periodic text must not flood the list.
fn push_hit(hits: &mut Vec<Hit>, value: usize, range: Range<usize>) {
    match hits.last_mut() {
        Some(last) if last.value == value && last.range.start <= range.start && range.start <= last.range.end => {
            last.range.end = last.range.end.max(range.end);
        }
        _ => hits.push(Hit { range, value }),
    }
}

impl Form {
    fn new(value: usize, part: Part, text: &str, rest: &str) -> Form {
        let edge = |c: char| folded(c.encode_utf8(&mut [0; 4]), Level::Bare).is_empty();
        let text = text.trim_matches(edge);
        Form {
            value,
            part,
            bare: Zeroizing::new(folded(text, Level::Bare)),
            tight: Zeroizing::new(folded(text, Level::Tight)),
            dense: Zeroizing::new(folded(text, Level::Dense)),
            chars: whole_chars(text, Level::Bare),
            strong: class_changes(text) >= 3,
            rest: Zeroizing::new(folded(rest, Level::Bare)),
        }
    }

    /// A skeleton match means little for a short value: the less the text looks like the value as
    /// registered, the more letters and digits must agree.
    fn accepts(&self, found: &str) -> bool {
        let same_but_case = || folded(found, Level::Tight) == *self.tight;
        let same_but_space = || folded(found, Level::Dense) == *self.dense;
        match self.part {
            Part::Whole if self.chars >= 16 => true,
            Part::Whole if self.strong && self.chars >= 12 => true,
            Part::Whole if self.strong || self.chars >= 12 => same_but_case() || same_but_space(),
            Part::Whole => same_but_case(),
            Part::Punctuated => true,
            Part::Mirror => (self.strong || self.chars >= 12) && (self.chars >= 16 || same_but_space()),
            Part::Head | Part::Tail => self.chars >= 12 || same_but_space(),
        }
    }

    /// Takes in what follows a head, or precedes a tail, as long as it goes on as the value does.
    fn grow(&self, text: &str, range: Range<usize>) -> Range<usize> {
        let mut rest = &self.rest[..];
        let (mut start, mut end) = (range.start, range.end);
        let mut skeleton = Vec::new();
        let mut agrees = |c: char, at_end: bool| {
            fold::fold_into(c.encode_utf8(&mut [0; 4]), Level::Bare, &mut skeleton);
            let shorter = if at_end { rest.strip_prefix(&skeleton[..]) } else { rest.strip_suffix(&skeleton[..]) };
            rest = shorter.filter(|_| !rest.is_empty())?;
            Some(!skeleton.is_empty())
        };
        if self.part == Part::Head {
            for (at, c) in text[end..].char_indices() {
                match agrees(c, true) {
                    Some(true) => end = range.end + at + c.len_utf8(),
                    Some(false) => {}
                    None => break,
                }
            }
        } else if self.part == Part::Tail {
            for (at, c) in text[..start].char_indices().rev() {
                match agrees(c, false) {
                    Some(true) => start = at,
                    Some(false) => {}
                    None => break,
                }
            }
        }
        start..end
    }
}

/// The skeleton forms of a value that has letters and digits enough.
fn forms_of(number: usize, value: &str, whole: Form) -> Vec<Form> {
    let reversed = Zeroizing::new(value.chars().rev().collect::<String>());
    let turned = Zeroizing::new(value.chars().map(rot13).collect::<String>());
    let mut forms = vec![whole, Form::new(number, Part::Mirror, &reversed, ""), Form::new(number, Part::Mirror, &turned, "")];
    if let Some(end) = telling_head(value) {
        forms.push(Form::new(number, Part::Head, &value[..end], &value[end..]));
    }
    if let Some(start) = telling_tail(value) {
        forms.push(Form::new(number, Part::Tail, &value[start..], &value[..start]));
    }
    forms.retain(|form| form.chars >= FLOOR_CHARS);
    forms
}

/// Byte length of the shortest head that is at least half of the value and gives it away.
fn telling_head(value: &str) -> Option<usize> {
    let ends: Vec<usize> = value.char_indices().map(|(at, _)| at).skip(1).collect();
    let half = value.chars().count().div_ceil(2);
    ends.into_iter().skip(half - 1).take(PART_STEPS_MAX).find(|&end| is_telling(value, &value[..end]))
}

/// Byte offset where the shortest such tail starts.
fn telling_tail(value: &str) -> Option<usize> {
    let half = value.chars().count().div_ceil(2);
    let starts = value.char_indices().rev().map(|(at, _)| at).skip(half - 1).take(PART_STEPS_MAX);
    starts.take_while(|&start| start > 0).find(|&start| is_telling(value, &value[start..]))
}

fn is_telling(value: &str, part: &str) -> bool {
    let weight: usize = part.chars().map(|c| if c >= '\u{800}' { 2 } else { 1 }).sum();
    let words = value.split_whitespace().filter(|word| word.len() >= 3 && word.chars().all(char::is_alphabetic)).count();
    let phrase = words >= PHRASE_WORDS_MIN && part.chars().count() >= PHRASE_PART_CHARS_MIN;
    weight >= PART_WEIGHT_MIN && (phrase || is_telling_part(part))
}

fn rot13(c: char) -> char {
    let turn = |base: u8| char::from(base + (c as u8 - base + 13) % 26);
    match c {
        'a'..='z' => turn(b'a'),
        'A'..='Z' => turn(b'A'),
        _ => c,
    }
}

fn whole_chars(text: &str, level: Level) -> usize {
    String::from_utf8_lossy(&folded(text, level)).chars().count()
}
