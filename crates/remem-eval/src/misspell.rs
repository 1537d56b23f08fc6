//! Misspelt questions: one word of each, always the same one, in one of four ways that take turns.
//! May not ask.

use crate::dataset::EvalQuestion;
use std::ops::Range;

/// The least length of a word that is misspelt.
const LETTERS_MIN: usize = 4;

/// The same questions, each with its longest word misspelt. Questions without a word that is long
/// enough stay as they are.
pub fn with_misspelling(questions: &[EvalQuestion]) -> Vec<EvalQuestion> {
    with_longest_word_changed(questions, misspell_word)
}

/// The same questions, each without that word.
pub fn without_longest_word(questions: &[EvalQuestion]) -> Vec<EvalQuestion> {
    with_longest_word_changed(questions, |_, _| String::new())
}

fn with_longest_word_changed(
    questions: &[EvalQuestion],
    change: impl Fn(&str, usize) -> String,
) -> Vec<EvalQuestion> {
    let one = |(number, question): (usize, &EvalQuestion)| {
        let mut text = question.text.clone();
        if let Some(place) = longest(&text) {
            let word = change(&text[place.clone()], number);
            text.replace_range(place, &word);
        }
        EvalQuestion {
            text,
            ..question.clone()
        }
    };
    questions.iter().enumerate().map(one).collect()
}

/// The position of the longest word; of equally long ones, the first.
fn longest(text: &str) -> Option<Range<usize>> {
    let mut best: Option<Range<usize>> = None;
    let mut begun = 0;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if c.is_ascii_alphabetic() {
            continue;
        }
        if at - begun >= LETTERS_MIN && best.as_ref().is_none_or(|best| at - begun > best.len()) {
            best = Some(begun..at);
        }
        begun = at + c.len_utf8();
    }
    best
}

/// Removes a letter, doubles it, replaces it by its successor, or swaps two letters; in the middle,
/// where most spelling errors are.
fn misspell_word(word: &str, number: usize) -> String {
    let mut letters: Vec<u8> = word.bytes().collect();
    let middle = letters.len() / 2;
    match number % 4 {
        0 => drop(letters.remove(middle)),
        1 => letters.insert(middle, letters[middle]),
        2 => {
            letters[middle] = if letters[middle].eq_ignore_ascii_case(&b'z') {
                b'a'
            } else {
                letters[middle] + 1
            }
        }
        _ => letters.swap(middle - 1, middle),
    }
    String::from_utf8(letters).unwrap_or_default()
}
