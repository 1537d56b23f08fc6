//! stated: what the operator said that holds from now on. Only those who may give orders are heard:
//! never a tool, an agent or a source that nobody vouches for, and nothing that the operator only
//! quotes.

use super::{Episode, Pattern, PatternKind, Speaker, normal, own_slot};
use crate::habit::phrase::sentences;
use crate::habit::{Habit, habit, opening};
use crate::sabotage;
use crate::slots::procedural_slot;
use std::collections::BTreeMap;

/// What the operator says counts as much as a promotion asks for.
const WEIGHT: u32 = 4;
/// A rule in fewer words says nothing once its moment is over; one in more is a story.
const WORDS_MIN: usize = 3;
const WORDS_MAX: usize = 40;

/// A rule: the words by which others say the same, its own words, and where it was said.
type Said<'e, 'a, I> = (String, &'a str, &'e Episode<'a, I>);

/// One pattern a slot: the last that was said, with all that say the same.
pub(super) fn patterns<I: Clone + Ord>(ordered: &[&Episode<'_, I>]) -> Vec<Pattern<I>> {
    let mut slots: BTreeMap<String, Vec<Said<'_, '_, I>>> = BTreeMap::new();
    for episode in ordered.iter().filter(|episode| may_order(episode)) {
        for text in rules(episode.text) {
            let same = normal(text);
            let slot =
                procedural_slot(text).unwrap_or_else(|| own_slot(PatternKind::Stated, &[&same]));
            slots.entry(slot).or_default().push((same, text, episode));
        }
    }
    slots
        .into_iter()
        .filter_map(|(slot, said)| pattern(slot, &said))
        .collect()
}

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

/// The sentences of a text that state a rule, without the words of courtesy before it.
fn rules(text: &str) -> impl Iterator<Item = &str> {
    let stated = sentences(text).into_iter().filter(|sentence| {
        (WORDS_MIN..=WORDS_MAX).contains(&sentence.words.len())
            && habit(sentence) == Some(Habit::Stated)
    });
    stated.filter_map(|sentence| {
        sentence
            .words
            .get(opening(&sentence))
            .map(|first| &sentence.text[first.start..])
    })
}

fn pattern<I: Clone + Ord>(slot: String, said: &[Said<'_, '_, I>]) -> Option<Pattern<I>> {
    let (same, text, _) = said.last()?;
    let mut sources: Vec<&Episode<'_, I>> = said
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
