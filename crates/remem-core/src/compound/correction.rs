//! correction: corrections by the operator that follow calls of the same tool more than once. The
//! wording is the operator's, without the "no" before it. An objection without a wording says only
//! that something was wrong, and yields no pattern.

use super::{Episode, Pattern, PatternKind, Segment, Speaker, normal_form, unshared_slot};
use crate::habit::phrase::{Sentence, sentences};
use crate::slots::procedural_slot;
use std::collections::BTreeMap;

/// The number of turns after an act within which an objection refers to it.
const ACT_TURNS_MAX: usize = 3;
/// The number of objections to a tool that make a pattern.
const OBJECTIONS_MIN: usize = 2;
/// The weight of every correction.
const WEIGHT: u32 = 3;
/// Fewest words of a wording.
const WORDS_MIN: usize = 2;
/// Most words of a wording.
const WORDS_MAX: usize = 40;

/// An objection: the wording of what is wanted instead, if any, and the episode.
type EpisodeObjection<'e, 'a, I> = (Option<&'a str>, &'e Episode<'a, I>);

/// One pattern for each tool: the wording that was used most often, and of equals the last one.
pub(super) fn patterns<'a, I: Clone + Ord>(segments: &[Segment<'_, 'a, I>]) -> Vec<Pattern<I>> {
    let mut tools: BTreeMap<&'a str, Vec<EpisodeObjection<'_, 'a, I>>> = BTreeMap::new();
    for segment in segments {
        for (at, episode) in segment.iter().enumerate() {
            let counts = episode.speaker == Speaker::Operator && !episode.is_untrusted();
            let Some(instead) = counts.then(|| objection(episode.text)).flatten() else {
                continue;
            };
            let before = segment[at.saturating_sub(ACT_TURNS_MAX)..at].iter().rev();
            let act = before
                .clone()
                .filter(|act| matches!(act.speaker, Speaker::Agent | Speaker::Tool))
                .find_map(|act| act.tool);
            if let Some(tool) = act {
                tools.entry(tool).or_default().push((instead, episode));
            }
        }
    }
    let often = tools
        .into_iter()
        .filter(|(_, objections)| objections.len() >= OBJECTIONS_MIN);
    often
        .filter_map(|(tool, objections)| pattern(tool, objections))
        .collect()
}

/// The pattern of the objections to one tool, or `None` if none of them has a wording.
fn pattern<I: Clone + Ord>(
    tool: &str,
    mut objections: Vec<EpisodeObjection<'_, '_, I>>,
) -> Option<Pattern<I>> {
    objections.sort_by(|a, b| (a.1.at, &a.1.id).cmp(&(b.1.at, &b.1.id)));
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    objections
        .iter()
        .filter_map(|(instead, _)| *instead)
        .for_each(|text| *times.entry(normal_form(text)).or_default() += 1);
    let wordings = objections.iter().filter_map(|(instead, _)| *instead);
    // Of equally frequent wordings `max_by_key` returns the last one.
    let text = wordings.max_by_key(|text| times.get(&normal_form(text)).copied())?;
    let slot = procedural_slot(text)
        .unwrap_or_else(|| unshared_slot(PatternKind::Correction, &[tool, &normal_form(text)]));
    let sources: Vec<&Episode<'_, I>> = objections.iter().map(|(_, episode)| *episode).collect();
    Some(Pattern::of(
        PatternKind::Correction,
        slot,
        text.to_owned(),
        WEIGHT,
        &sources,
    ))
}

/// `None` if a text does not object, else the wording of what is wanted instead, if it has one.
fn objection(text: &str) -> Option<Option<&str>> {
    let sentences = sentences(text);
    let first = sentences.first().filter(|first| !first.is_quoted)?;
    let after = objection_end(first)?;
    let rest = first.slice(after, first.words.len());
    // "No. Use staging." and "Undo that. Use staging."
    let next = sentences
        .get(1)
        .map(|second| &second.text[second.words.first().map_or(0, |word| word.start)..]);
    let wording = |text: &str| Sentence::parse(text).is_some_and(|sentence| is_wording(&sentence));
    Some(
        [Some(rest), next]
            .into_iter()
            .flatten()
            .map(|text| text.trim_end_matches('.'))
            .find(|text| wording(text)),
    )
}

/// The word at which the objecting phrase ends and the rest of its sentence begins.
fn objection_end(sentence: &Sentence<'_>) -> Option<usize> {
    let at = sentence.longest_phrase_at(0, SOFTENERS).unwrap_or(0);
    if let Some(count) = sentence.longest_phrase_at(at, UNDO_PHRASES) {
        return Some(at + count);
    }
    let mut end = at + sentence.longest_phrase_at(at, OBJECTION_PHRASES)?;
    let is_marked = sentence.words[end - 1].mark.is_some() || end == sentence.words.len();
    // "No idea" and "no problem" object to nothing.
    let is_bare =
        ["no", "nope", "wrong", "actually"].contains(&sentence.word(end - 1)) && !is_marked;
    if is_bare && sentence.longest_phrase_at(end, COMMANDING_WORDS).is_none() {
        return None;
    }
    while let Some(count) = sentence.longest_phrase_at(end, OBJECTION_PHRASES) {
        end += count;
    }
    Some(end)
}

/// Whether a sentence can serve as a rule: neither a question nor a mere "that again".
fn is_wording(sentence: &Sentence<'_>) -> bool {
    let words = (WORDS_MIN..=WORDS_MAX).contains(&sentence.words.len());
    let specific = sentence
        .words
        .iter()
        .any(|word| !POINTING_WORDS.contains(&word.text.as_str()));
    words && specific && !sentence.is_question && !sentence.is_quoted
}

/// Words without meaning that may come before an objection.
const SOFTENERS: &[&str] = &["hm", "hmm", "oh", "please", "sorry", "wait", "well"];

#[rustfmt::skip]
// Longer phrases need no place before their prefixes: `Sentence::longest_phrase_at` takes the
// longest match.
const OBJECTION_PHRASES: &[&str] = &[
    "actually", "i meant", "i said", "instead", "no", "nope", "not like that", "not like this", "not quite", "not that", "not this", "not what i asked",
    "not what i meant", "not what i wanted", "rather", "that is not right", "that is not what i asked", "that is not what i meant",
    "that is wrong", "that's not it", "that's not right", "that's not what i asked", "that's not what i meant", "that's not what i wanted",
    "that's wrong", "this is wrong", "wrong",
];

/// Phrases that ask to undo an act.
#[rustfmt::skip]
const UNDO_PHRASES: &[&str] = &[
    "change it back", "change that back", "put it back", "revert", "revert it", "revert that", "revert this", "roll back", "roll it back",
    "roll that back", "take it back", "take that back", "undo", "undo it", "undo that", "undo this",
];

/// Words that may follow a bare "no" without a comma.
const COMMANDING_WORDS: &[&str] = &[
    "always",
    "do",
    "don't",
    "i meant",
    "i said",
    "keep",
    "make",
    "never",
    "not",
    "put",
    "send",
    "the other",
    "use",
    "write",
];

/// Words that refer to the moment; a wording needs at least one other word.
const POINTING_WORDS: &[&str] = &[
    "again", "and", "it", "please", "that", "the", "then", "this", "thanks", "you", "thank",
];
