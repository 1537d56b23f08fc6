//! Owns the skeleton forms of a value (whole, disguised, head, tail) and the rule that accepts or
//! rejects a match of one. It may not search; `needles` does, and asks here.

use std::ops::Range;

use zeroize::Zeroizing;

use super::fold::{Level, folded, is_kept};
use super::random::{class_changes, is_telling_part};
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
enum Part {
    Whole,
    /// The whole value with its punctuation: for values that have little else.
    Punctuated,
    /// The value reversed, encoded by rot13, or with digits for the letters that look like them.
    Mirror,
    Head,
    Tail,
}

/// The value and part of it that a skeleton needle represents, and the data to judge a match of it.
pub(super) struct Form {
    pub(super) value: usize,
    part: Part,
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
    strong: bool,
    /// The stretch is letters of one case with punctuation between: spaces in its place make it
    /// ordinary text.
    wordy: bool,
    /// The bare skeleton of the rest of the value: what follows a head or precedes a tail.
    rest: Zeroizing<Vec<u8>>,
    /// The punctuation before and after the value's letters and digits, which a skeleton match
    /// leaves out.
    edges: (Zeroizing<String>, Zeroizing<String>),
}

impl Form {
    /// The form for the whole value as registered.
    pub(super) fn whole(value: usize, text: &str) -> Form {
        Form::new(value, Part::Whole, text, "")
    }

    /// The form with its punctuation kept in the needle, so that a match has none left to take in.
    pub(super) fn punctuated(self) -> Form {
        Form {
            part: Part::Punctuated,
            edges: Default::default(),
            ..self
        }
    }

    /// Takes the bare skeleton to search for; the form does not need it any more.
    pub(super) fn take_needle(&mut self) -> Zeroizing<Vec<u8>> {
        std::mem::take(&mut self.bare)
    }

    fn new(value: usize, part: Part, text: &str, rest: &str) -> Form {
        let start_trimmed = text.trim_start_matches(|c| !is_kept(c));
        let trimmed = start_trimmed.trim_end_matches(|c| !is_kept(c));
        let before = &text[..text.len() - start_trimmed.len()];
        let after = &start_trimmed[trimmed.len()..];
        // A head or tail ends in the middle of the value, where punctuation is no edge.
        let compared = if matches!(part, Part::Head | Part::Tail) {
            trimmed
        } else {
            text
        };
        Form {
            value,
            part,
            bare: Zeroizing::new(folded(text, Level::Bare)),
            tight: Zeroizing::new(folded(compared, Level::Tight)),
            dense: Zeroizing::new(folded(compared, Level::Dense)),
            chars: text.chars().filter(|&c| is_kept(c)).count(),
            strong: class_changes(text) >= 3,
            wordy: class_changes(text) == 0
                && !text.contains(|c: char| c.is_whitespace() || c.is_numeric()),
            rest: Zeroizing::new(folded(rest, Level::Bare)),
            edges: (
                Zeroizing::new(before.to_owned()),
                Zeroizing::new(after.to_owned()),
            ),
        }
    }

    /// The range to hide for a match of the needle, or `None` if the match is rejected.
    pub(super) fn judge(&self, text: &str, range: Range<usize>) -> Option<Range<usize>> {
        let grown = self.grow(text, range.clone());
        let compared = if matches!(self.part, Part::Head | Part::Tail) {
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
        let same_but_case = || folded(found, Level::Tight) == *self.tight;
        let same_but_space = || folded(found, Level::Dense) == *self.dense;
        match self.part {
            Part::Whole if self.wordy && reads_as_words(found) => false,
            Part::Whole if self.chars >= 16 => true,
            Part::Whole if self.strong && self.chars >= 12 => true,
            Part::Whole if self.strong || self.chars >= 12 => same_but_case() || same_but_space(),
            Part::Whole => same_but_case(),
            Part::Punctuated => true,
            Part::Mirror => {
                (self.strong || self.chars >= 12) && (self.chars >= 16 || same_but_space())
            }
            Part::Head | Part::Tail => self.chars >= 12 || same_but_space(),
        }
    }

    /// Extends a match to what belongs to the value beyond it: the punctuation around a whole
    /// value, and the text after a head or before a tail as long as it continues as the value does.
    fn grow(&self, text: &str, range: Range<usize>) -> Range<usize> {
        let before = &text[..range.start];
        let after = &text[range.end..];
        match self.part {
            Part::Head => range.start..range.end + agreeing_len(after.chars(), &self.rest, true),
            Part::Tail => {
                range.start - agreeing_len(before.chars().rev(), &self.rest, false)..range.end
            }
            _ => {
                let start = before
                    .strip_suffix(self.edges.0.as_str())
                    .map_or(range.start, str::len);
                let after = after.strip_prefix(self.edges.1.as_str()).unwrap_or(after);
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
        let skeleton = folded(c.encode_utf8(&mut [0; 4]), Level::Bare);
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
pub(super) fn forms_of(number: usize, value: &str, whole: Form) -> Vec<Form> {
    let reversed = Zeroizing::new(value.chars().rev().collect::<String>());
    let turned = Zeroizing::new(value.chars().map(rot13).collect::<String>());
    let mut forms = vec![
        Form::new(number, Part::Mirror, &reversed, ""),
        Form::new(number, Part::Mirror, &turned, ""),
    ];
    for swapped in swaps_of(value) {
        let swapped = Form::new(number, Part::Mirror, &swapped, "");
        if forms.iter().all(|form| form.bare != swapped.bare) {
            forms.push(swapped);
        }
    }
    // A palindrome needs no mirror, nor does a value without such letters.
    forms.retain(|mirror| mirror.bare != whole.bare);
    forms.push(whole);
    if let Some(end) = telling_head(value) {
        forms.push(Form::new(number, Part::Head, &value[..end], &value[end..]));
    }
    if let Some(start) = telling_tail(value) {
        forms.push(Form::new(
            number,
            Part::Tail,
            &value[start..],
            &value[..start],
        ));
    }
    forms.retain(|form| form.chars >= FLOOR_CHARS);
    forms
}

/// Byte length of the shortest head that is at least half of the value and identifies it.
fn telling_head(value: &str) -> Option<usize> {
    let ends: Vec<usize> = value.char_indices().map(|(at, _)| at).skip(1).collect();
    let half = value.chars().count().div_ceil(2);
    ends.into_iter()
        .skip(half - 1)
        .take(PART_STEPS_MAX)
        .find(|&end| is_telling(value, &value[..end]))
}

/// Byte offset at which the shortest tail starts that is at least half of the value and identifies
/// it.
fn telling_tail(value: &str) -> Option<usize> {
    let half = value.chars().count().div_ceil(2);
    let starts = value
        .char_indices()
        .rev()
        .map(|(at, _)| at)
        .skip(half - 1)
        .take(PART_STEPS_MAX);
    starts
        .take_while(|&start| start > 0)
        .find(|&start| is_telling(value, &value[start..]))
}

/// Whether a head or tail identifies its value well enough to be hidden on its own.
fn is_telling(value: &str, part: &str) -> bool {
    let weight: usize = part
        .chars()
        .map(|c| if c >= '\u{800}' { 2 } else { 1 })
        .sum();
    let words = value
        .split_whitespace()
        .filter(|word| word.len() >= 3 && word.chars().all(char::is_alphabetic))
        .count();
    let phrase = words >= PHRASE_WORDS_MIN && part.chars().count() >= PHRASE_PART_CHARS_MIN;
    weight >= PART_WEIGHT_MIN && (phrase || is_telling_part(part))
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
