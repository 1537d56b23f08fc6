//! Classifies a text as episodic, semantic or procedural, when the caller gives no typology. The
//! account of one event is an episode; an instruction for how to work is a procedure; anything else
//! is a fact. Words and shapes only: no model, and the same answer every time. May not consider
//! where a text will be stored.
//!
//! A transcript is looked for first, because people in it give orders too; a whole line of orders
//! is still an episode.

use crate::entry::Typology;
use crate::habit::phrase::{Sentence, sentences};
use crate::habit::{classify_habit, is_past_form};
use crate::sabotage;
use serde_json::Value;
use std::collections::BTreeSet;

/// The most values of a JSON text that are searched for a tool call.
const VALUES_MAX: usize = 64;
/// The most quotations of a text that are examined.
const QUOTATIONS_MAX: usize = 1024;
/// The number of bytes before and after a quotation that are examined: three words of ordinary
/// length.
const NEAR_BYTES: usize = 96;

/// The typology of a text.
#[must_use]
pub fn classify(text: &str) -> Typology {
    let text = text.trim();
    if is_call(text) || is_dialogue(text) || is_quotation(text) {
        return Typology::Episodic;
    }
    let sentences = sentences(text);
    if sentences
        .iter()
        .any(|sentence| classify_habit(sentence).is_some())
    {
        return Typology::Procedural;
    }
    if sentences.iter().any(is_account) {
        Typology::Episodic
    } else {
        Typology::Semantic
    }
}

/// Detects a tool call or its result, as JSON.
fn is_call(text: &str) -> bool {
    let json = text.trim_start_matches("```json").trim_matches('`').trim();
    if !json.starts_with(['{', '[']) {
        return false;
    }
    let Ok(value) = serde_json::from_str::<Value>(json) else {
        return false;
    };
    let mut waiting = vec![&value];
    let mut seen = 0;
    while let Some(value) = waiting.pop().filter(|_| seen < VALUES_MAX) {
        seen += 1;
        match value {
            Value::Array(items) => waiting.extend(items.iter().rev()),
            Value::Object(fields) => {
                let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
                if has(CALL_FIELDS) || (has(CALL_TARGET_FIELDS) && has(CALL_ARGUMENT_FIELDS)) {
                    return true;
                }
                waiting.extend(fields.values());
            }
            _ => {}
        }
    }
    false
}

/// Detects lines that begin with a speaker. One line is enough if the word can only be a speaker; a
/// name may be the label of a fact, so names must take turns.
fn is_dialogue(text: &str) -> bool {
    let turns: Vec<(String, bool, &str)> = text.lines().filter_map(speaker_turn).collect();
    let speaker = |name: &str| SPEAKERS.contains(&name);
    let party = |name: &str| speaker(name) || POSSIBLE_SPEAKERS.contains(&name);
    let spoken = turns
        .iter()
        .any(|(name, _, said)| speaker(name) && said.split_whitespace().nth(2).is_some());
    let timed = turns.iter().any(|(_, timed, _)| *timed);
    let between = turns.iter().filter(|(name, _, _)| party(name)).count() > 1;
    let mut seen = BTreeSet::new();
    let comes_back = turns.iter().any(|(name, _, _)| !seen.insert(name));
    spoken || timed || between || (turns.len() > 2 && comes_back)
}

/// The speaker of a line in lower case, whether a time comes before it, and the text after it.
fn speaker_turn(line: &str) -> Option<(String, bool, &str)> {
    let line = line.trim().trim_start_matches(['*', '#', '_', ' ']);
    let (clock, rest) = match line.split_once(' ') {
        Some((head, rest)) if is_clock(head.trim_matches(['[', ']', '(', ')'])) => {
            (true, rest.trim_start_matches(['-', '–', ' ']))
        }
        _ => (false, line),
    };
    let (name, said) = rest.split_once(':')?;
    let name = name.trim_matches(['*', '_', ' ', '<', '>']);
    let named = (1..=24).contains(&name.chars().count())
        && name.split_whitespace().count() <= 2
        && name.starts_with(char::is_alphabetic);
    // "https://…" and "10:30" have a colon as well.
    let apart = said.is_empty() || said.starts_with([' ', '*']);
    (named && apart).then(|| (name.to_lowercase(), clock, said))
}

/// Detects words in quotation marks next to a verb of speaking.
fn is_quotation(text: &str) -> bool {
    let quote = |c: char| ['"', '“', '”', '„'].contains(&c);
    let mut marks = text.char_indices().filter(|(_, c)| quote(*c));
    let pairs = std::iter::from_fn(|| Some((marks.next()?.0, marks.next()?.0)));
    // Both bounds keep the work linear: a text can consist only of quotation marks.
    pairs.take(QUOTATIONS_MAX).any(|(begin, end)| {
        let before = words_at_end(&text[..begin]).take(2);
        let after = words_at_start(&text[end..], quote).take(3);
        before.chain(after).any(|word| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            SPEECH_VERBS
                .iter()
                .any(|spoken| word.eq_ignore_ascii_case(spoken))
        })
    })
}

/// The last words of a text, from its end on. A word that the byte limit cuts is left out.
fn words_at_end(text: &str) -> impl Iterator<Item = &str> {
    let mut from = text.len().saturating_sub(sabotage!(
        "words-near-quotations-are-unbounded",
        NEAR_BYTES,
        usize::MAX
    ));
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let near = &text[from..];
    let is_cut = from > 0 && !near.starts_with(char::is_whitespace);
    let whole = near.split_whitespace().count() - usize::from(is_cut && !near.is_empty());
    near.split_whitespace().rev().take(whole)
}

/// The first words of a text, without the quotation marks that it begins with.
fn words_at_start(text: &str, mark: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    let mut to = text.len().min(NEAR_BYTES);
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let near = text[..to].trim_start_matches(mark);
    let is_cut = to < text.len() && !near.ends_with(char::is_whitespace);
    let whole = near.split_whitespace().count() - usize::from(is_cut && !near.is_empty());
    near.split_whitespace().take(whole)
}

/// Detects a sentence that says what the speaker did, with a time of day.
fn is_account(sentence: &Sentence<'_>) -> bool {
    let clock = (0..sentence.words.len()).any(|at| {
        let hour = sentence.word(at).bytes().all(|byte| byte.is_ascii_digit())
            && ["am", "pm", "a.m", "p.m"].contains(&sentence.word(at + 1));
        hour || is_clock(sentence.word(at))
    });
    let did = |at: usize| (at + 1..at + 4).any(|at| is_past_form(sentence.word(at)));
    clock
        && !sentence.is_question
        && (0..sentence.words.len()).any(|at| ["i", "we"].contains(&sentence.word(at)) && did(at))
}

/// `14:05`, `9:30am`, `5pm`, `2026-03-01T14:05Z`.
fn is_clock(word: &str) -> bool {
    let word = word.rsplit_once(['t', 'T']).map_or(word, |(_, time)| time);
    let bare = ["am", "pm", "z", "Z"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word);
    let number = |text: &str, most: u32| {
        (1..=2).contains(&text.len()) && text.parse::<u32>().is_ok_and(|value| value < most)
    };
    let mut parts = bare.split(':');
    let hour = parts.next().is_some_and(|part| number(part, 24));
    let rest: Vec<&str> = parts.collect();
    let fine = rest
        .iter()
        .all(|part| number(part.split(['.', '+']).next().unwrap_or(part), 60));
    hour && fine
        && rest.len() <= 2
        && (!rest.is_empty() || (bare.len() < word.len() && word.ends_with('m')))
}

/// Speakers of a transcript that cannot be the label of a fact.
const SPEAKERS: &[&str] = &[
    "agent",
    "ai",
    "assistant",
    "bot",
    "human",
    "me",
    "operator",
    "user",
    "you",
];
/// Speakers that may be a label; they count if others speak, too.
const POSSIBLE_SPEAKERS: &[&str] = &[
    "caller",
    "client",
    "customer",
    "developer",
    "function",
    "model",
    "system",
    "support",
    "tool",
];
/// Verbs of speaking, in the past tense only: a button that says "Save" is not speaking.
const SPEECH_VERBS: &[&str] = &[
    "added",
    "answered",
    "asked",
    "exclaimed",
    "explained",
    "replied",
    "said",
    "shouted",
    "told",
    "wrote",
];
/// Fields that only a tool call has.
const CALL_FIELDS: &[&str] = &[
    "function_call",
    "toolCall",
    "toolCallId",
    "toolName",
    "toolUse",
    "tool_call",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "tool_use",
    "tool_use_id",
];
/// Fields for the called tool and for its arguments: both together are a call.
const CALL_TARGET_FIELDS: &[&str] = &["function", "method", "name", "tool"];
const CALL_ARGUMENT_FIELDS: &[&str] = &["args", "arguments", "input", "parameters", "params"];

#[cfg(test)]
#[path = "typology_tests.rs"]
mod tests;
