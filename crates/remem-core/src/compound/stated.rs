//! stated: rules that the operator stated for the future. Only speakers who may give orders count:
//! never a tool, an agent or an untrusted source, and nothing that the operator only quotes.

use super::{Episode, Pattern, PatternKind, Speaker, normal_form, unshared_slot};
use crate::habit::phrase::sentences;
use crate::habit::{Habit, classify_habit, opening_words_end};
use crate::sabotage;
use crate::slots::procedural_slot;
use std::collections::BTreeMap;

/// The weight of every stated rule: a statement of the operator has the same weight that a
/// promotion needs.
const WEIGHT: u32 = 4;
/// Fewest words of a rule: in fewer it means nothing once its moment is over.
const WORDS_MIN: usize = 3;
/// Most words of a rule: a sentence with more is a story.
const WORDS_MAX: usize = 40;

/// A stated rule: its normal form, its wording, and the episode that states it.
type StatedRule<'e, 'a, I> = (String, &'a str, &'e Episode<'a, I>);

/// One pattern for each slot: the rule that was stated last, with all episodes that state the same.
pub(super) fn patterns<I: Clone + Ord>(ordered: &[&Episode<'_, I>]) -> Vec<Pattern<I>> {
    let mut slots: BTreeMap<String, Vec<StatedRule<'_, '_, I>>> = BTreeMap::new();
    for episode in ordered.iter().filter(|episode| may_order(episode)) {
        for text in stated_rules(episode.text) {
            let same = normal_form(text);
            let slot = procedural_slot(text)
                .unwrap_or_else(|| unshared_slot(PatternKind::Stated, &[&same]));
            slots.entry(slot).or_default().push((same, text, episode));
        }
    }
    slots
        .into_iter()
        .filter_map(|(slot, statements)| pattern(slot, &statements))
        .collect()
}

/// Whether the speaker of an episode may state rules.
fn may_order<I>(episode: &Episode<'_, I>) -> bool {
    sabotage!(
        "untrusted-texts-give-orders",
        sabotage!(
            "tools-give-orders",
            matches!(episode.speaker, Speaker::Operator | Speaker::Unknown),
            episode.speaker <= Speaker::Unknown
        ) && !episode.is_untrusted(),
        matches!(episode.speaker, Speaker::Operator | Speaker::Unknown)
    )
}

/// The sentences of a text that state a rule, without opening words such as "please".
fn stated_rules(text: &str) -> impl Iterator<Item = &str> {
    let rules_found = sentences(text).into_iter().filter(|sentence| {
        (WORDS_MIN..=WORDS_MAX).contains(&sentence.words.len())
            && classify_habit(sentence) == Some(Habit::Lasting)
    });
    rules_found.filter_map(|sentence| {
        sentence
            .words
            .get(opening_words_end(&sentence))
            .map(|first| &sentence.text[first.start..])
    })
}

/// The pattern of the last statement of a slot, with all that state the same as its sources.
fn pattern<I: Clone + Ord>(
    slot: String,
    statements: &[StatedRule<'_, '_, I>],
) -> Option<Pattern<I>> {
    let (same, text, _) = statements.last()?;
    let mut sources: Vec<&Episode<'_, I>> = statements
        .iter()
        .filter(|(other, _, _)| other == same)
        .map(|(_, _, episode)| *episode)
        .collect();
    sources.dedup_by(|a, b| a.id == b.id);
    Some(Pattern::of(
        PatternKind::Stated,
        slot,
        (*text).to_owned(),
        WEIGHT,
        &sources,
    ))
}
