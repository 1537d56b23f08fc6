//! Owns the skeleton forms of a value (whole, disguised, head, tail) and the rule that accepts or
//! rejects a match of one. It may not search; `needles` does, and asks here.

use std::ops::Range;

use zeroize::Zeroizing;

use super::fold::{FoldLevel, folded, in_bare_skeleton};
use super::random::{class_changes, is_distinctive_part};
use super::value::FLOOR_CHARS;
use crate::sabotage;

/// Least weight of a head or tail that is hidden on its own: its number of characters, wide scripts
/// counted double.
const PART_WEIGHT_MIN: usize = 10;
/// A head or tail of a phrase of words must be this long, because words repeat in ordinary text.
const PHRASE_PART_CHARS_MIN: usize = 16;
/// Words that make a value a phrase.
const PHRASE_WORDS_MIN: usize = 4;
/// Lengths tried, from half of the value on, for a head or tail that identifies the value; keeps
/// registration linear.
const PART_STEPS_MAX: usize = 64;
/// Letters that are written as digits, the usual sets of them.
const SWAPPED: [&str; 3] = ["aeiolst", "aeiost", "aeio"];
/// Bytes of the longest value of which all of these are looked for: keys are shorter.
const SWAPPED_BYTES_MAX: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormPart {
    Whole,
    /// The whole value with its punctuation: for values that have little else.
    Punctuated,
    /// The value reversed, encoded by rot13, or with digits for the letters that look like them.
    Disguised,
    Head,
    Tail,
}

/// The value and part of it that a skeleton needle represents, and the data to judge a match of it.
pub(super) struct SkeletonForm {
    pub(super) value: usize,
    part: FormPart,
    /// The needle itself; it moves to the scanner.
    bare: Zeroizing<Vec<u8>>,
    /// Skeleton of the same stretch that drops less than `dense`.
    tight: Zeroizing<Vec<u8>>,
    /// Skeleton of the same stretch that drops less than `bare`.
    dense: Zeroizing<Vec<u8>>,
    /// The number of the value's characters that contribute to the needle.
    pub(super) chars: usize,
    /// The stretch mixes cases, digits or scripts more than once: not a word with a number after
    /// it.
    is_mixed: bool,
    /// The stretch is letters of one case with punctuation between: spaces in its place make it
    /// ordinary text.
    is_wordy: bool,
    /// The bare skeleton of the rest of the value: what follows a head or precedes a tail.
    rest: Zeroizing<Vec<u8>>,
    /// The punctuation before and after the value's letters and digits, which a skeleton match
    /// leaves out.
    outer_punctuation: (Zeroizing<String>, Zeroizing<String>),
}

impl SkeletonForm {
    /// The form for the whole value as registered.
    pub(super) fn whole(value: usize, text: &str) -> SkeletonForm {
        SkeletonForm::new(value, FormPart::Whole, text, "")
    }

    /// The form with its punctuation kept in the needle, so that a match has no punctuation left to
    /// include.
    pub(super) fn punctuated(self) -> SkeletonForm {
        SkeletonForm {
            part: FormPart::Punctuated,
            outer_punctuation: Default::default(),
            ..self
        }
    }

    /// Takes the bare skeleton to search for; the form does not need it any more.
    pub(super) fn take_needle(&mut self) -> Zeroizing<Vec<u8>> {
        std::mem::take(&mut self.bare)
    }

    fn new(value: usize, part: FormPart, text: &str, rest: &str) -> SkeletonForm {
        let start_trimmed = text.trim_start_matches(|c| !in_bare_skeleton(c));
        let trimmed = start_trimmed.trim_end_matches(|c| !in_bare_skeleton(c));
        let before = &text[..text.len() - start_trimmed.len()];
        let after = &start_trimmed[trimmed.len()..];
        // A head or tail ends in the middle of the value, where punctuation is not an edge.
        let compared = if matches!(part, FormPart::Head | FormPart::Tail) {
            trimmed
        } else {
            text
        };
        SkeletonForm {
            value,
            part,
            bare: Zeroizing::new(folded(text, FoldLevel::Bare)),
            tight: Zeroizing::new(folded(compared, FoldLevel::Tight)),
            dense: Zeroizing::new(folded(compared, FoldLevel::Dense)),
            chars: text.chars().filter(|&c| in_bare_skeleton(c)).count(),
            is_mixed: class_changes(text) >= 3,
            is_wordy: class_changes(text) == 0
                && !text.contains(|c: char| c.is_whitespace() || c.is_numeric()),
            rest: Zeroizing::new(folded(rest, FoldLevel::Bare)),
            outer_punctuation: (
                Zeroizing::new(before.to_owned()),
                Zeroizing::new(after.to_owned()),
            ),
        }
    }

    /// The range to hide for a match of the needle, or `None` if the match is rejected.
    pub(super) fn accepted_range(&self, text: &str, range: Range<usize>) -> Option<Range<usize>> {
        let grown = self.extend(text, range.clone());
        let compared = if matches!(self.part, FormPart::Head | FormPart::Tail) {
            range
        } else {
            grown.clone()
        };
        self.accepts(&text[compared]).then_some(grown)
    }

    /// Whether a match is an occurrence of the value. A skeleton match means little for a short
    /// value: the less the text looks like the value as registered, the more letters and digits
    /// must agree.
    fn accepts(&self, found: &str) -> bool {
        let same_but_case = || folded(found, FoldLevel::Tight) == *self.tight;
        let same_but_space = || folded(found, FoldLevel::Dense) == *self.dense;
        match self.part {
            FormPart::Whole if self.is_wordy && reads_as_words(found) => false,
            FormPart::Whole if self.chars >= 16 => true,
            FormPart::Whole if self.is_mixed && self.chars >= 12 => true,
            FormPart::Whole if self.is_mixed || self.chars >= 12 => {
                same_but_case() || same_but_space()
            }
            FormPart::Whole => same_but_case(),
            FormPart::Punctuated => true,
            FormPart::Disguised => {
                (self.is_mixed || self.chars >= 12) && (self.chars >= 16 || same_but_space())
            }
            FormPart::Head | FormPart::Tail => self.chars >= 12 || same_but_space(),
        }
    }

    /// Extends a match to what belongs to the value beyond it: the punctuation around a whole
    /// value, and the text after a head or before a tail as long as it continues as the value does.
    fn extend(&self, text: &str, range: Range<usize>) -> Range<usize> {
        let before = &text[..range.start];
        let after = &text[range.end..];
        match self.part {
            FormPart::Head => {
                range.start..range.end + agreeing_len(after.chars(), &self.rest, true)
            }
            FormPart::Tail => {
                range.start - agreeing_len(before.chars().rev(), &self.rest, false)..range.end
            }
            _ => {
                let start = before
                    .strip_suffix(self.outer_punctuation.0.as_str())
                    .map_or(range.start, str::len);
                let after = after
                    .strip_prefix(self.outer_punctuation.1.as_str())
                    .unwrap_or(after);
                start..text.len() - after.len()
            }
        }
    }
}

/// Whether white space cuts the text into pieces as long as words are: someone who spaces out a
/// value makes shorter ones.
fn reads_as_words(text: &str) -> bool {
    // Most matches have no space in them, and that is seen at once.
    if ![b' ', b'\n']
        .iter()
        .any(|space| text.as_bytes().contains(space))
    {
        return false;
    }
    let pieces = text.split_whitespace();
    let (count, chars) = pieces.fold((0, 0), |(count, chars), piece| {
        (count + 1, chars + piece.chars().count())
    });
    count > 1 && chars >= count * 3
}

/// The length in bytes of the characters whose skeletons use up `rest`, from its start or from its
/// end, up to the last one that has a skeleton at all.
fn agreeing_len(chars: impl Iterator<Item = char>, mut rest: &[u8], from_start: bool) -> usize {
    let mut read = 0;
    let mut agreeing = 0;
    for c in chars {
        let skeleton = folded(c.encode_utf8(&mut [0; 4]), FoldLevel::Bare);
        let left = if from_start {
            rest.strip_prefix(&skeleton[..])
        } else {
            rest.strip_suffix(&skeleton[..])
        };
        let Some(left) = left.filter(|_| !rest.is_empty()) else {
            break;
        };
        rest = left;
        read += c.len_utf8();
        if !skeleton.is_empty() {
            agreeing = read;
        }
    }
    agreeing
}

/// The skeleton forms of a value that has enough letters and digits.
pub(super) fn skeleton_forms(number: usize, value: &str, whole: SkeletonForm) -> Vec<SkeletonForm> {
    let reversed = Zeroizing::new(value.chars().rev().collect::<String>());
    let turned = Zeroizing::new(value.chars().map(rot13).collect::<String>());
    let mut forms = vec![
        SkeletonForm::new(number, FormPart::Disguised, &reversed, ""),
        SkeletonForm::new(number, FormPart::Disguised, &turned, ""),
    ];
    for swapped in swaps_of(value) {
        let swapped = SkeletonForm::new(number, FormPart::Disguised, &swapped, "");
        if forms.iter().all(|form| form.bare != swapped.bare) {
            forms.push(swapped);
        }
    }
    // A palindrome needs no mirror, nor does a value without such letters.
    forms.retain(|form| form.bare != whole.bare);
    forms.push(whole);
    if let Some(end) = identifying_head(value) {
        forms.push(SkeletonForm::new(
            number,
            FormPart::Head,
            &value[..end],
            &value[end..],
        ));
    }
    if let Some(start) = identifying_tail(value) {
        forms.push(SkeletonForm::new(
            number,
            FormPart::Tail,
            &value[start..],
            &value[..start],
        ));
    }
    forms.retain(|form| form.chars >= FLOOR_CHARS);
    forms
}

/// Byte length of the shortest head that is at least half of the value and identifies it.
fn identifying_head(value: &str) -> Option<usize> {
    let ends: Vec<usize> = value.char_indices().map(|(at, _)| at).skip(1).collect();
    let half = value.chars().count().div_ceil(2);
    ends.into_iter()
        .skip(half - 1)
        .take(PART_STEPS_MAX)
        .find(|&end| identifies_value(value, &value[..end]))
}

/// Byte offset at which the shortest tail starts that is at least half of the value and identifies
/// it.
fn identifying_tail(value: &str) -> Option<usize> {
    let half = value.chars().count().div_ceil(2);
    let starts = value
        .char_indices()
        .rev()
        .map(|(at, _)| at)
        .skip(half - 1)
        .take(PART_STEPS_MAX);
    starts
        .take_while(|&start| start > 0)
        .find(|&start| identifies_value(value, &value[start..]))
}

/// Whether a head or tail identifies its value well enough to be hidden on its own.
fn identifies_value(value: &str, part: &str) -> bool {
    let weight: usize = part
        .chars()
        .map(|c| if c >= '\u{800}' { 2 } else { 1 })
        .sum();
    let words = value
        .split_whitespace()
        .filter(|word| word.len() >= 3 && word.chars().all(char::is_alphabetic))
        .count();
    let phrase = words >= PHRASE_WORDS_MIN && part.chars().count() >= PHRASE_PART_CHARS_MIN;
    weight >= PART_WEIGHT_MIN && (phrase || is_distinctive_part(part))
}

/// The value with digits for letters: for all of a set, or for those in lower case alone.
fn swaps_of(value: &str) -> impl Iterator<Item = Zeroizing<String>> {
    let sets = SWAPPED.into_iter();
    let swaps = sets.flat_map(|letters| [(letters, true), (letters, false)]);
    let of_any_length = if value.len() > SWAPPED_BYTES_MAX {
        1
    } else {
        usize::MAX
    };
    let swapped = move |(letters, upper): (&str, bool)| {
        let swap = |c: char| {
            let is_swapped = letters.contains(c.to_ascii_lowercase());
            if is_swapped && (upper || c.is_ascii_lowercase()) {
                digit_for(c)
            } else {
                c
            }
        };
        Zeroizing::new(value.chars().map(swap).collect::<String>())
    };
    let count = sabotage!("digits-stand-for-all-letters-or-none", of_any_length, 1);
    swaps.take(count).map(swapped)
}

/// The digit that is written for a letter it looks like.
fn digit_for(c: char) -> char {
    match c.to_ascii_lowercase() {
        'o' => '0',
        'i' | 'l' => '1',
        'e' => '3',
        'a' => '4',
        's' => '5',
        't' => '7',
        _ => c,
    }
}

fn rot13(c: char) -> char {
    let rotate = |base: u8| char::from(base + (c as u8 - base + 13) % 26);
    match c {
        'a'..='z' => rotate(b'a'),
        'A'..='Z' => rotate(b'A'),
        _ => c,
    }
}
