//! routine: sequences of tools that recur in several conversations. The text of a pattern is a
//! fixed sentence around the names of tools; a name that could carry a message of its own is not
//! used.

use super::{Episode, Pattern, PatternKind, Segment, Speaker, unshared_slot};
use crate::sabotage;
use std::collections::{BTreeMap, BTreeSet};

/// The number of threads in which a routine must occur.
const SUPPORT_MIN: usize = 3;
/// The number of steps of a routine.
const STEP_COUNTS: std::ops::RangeInclusive<usize> = 2..=5;
/// The longest name of a tool that is used.
const NAME_BYTES_MAX: usize = 64;

/// The first occurrence of a sequence of steps in each thread.
type Occurrences<'e, 'a, I> = BTreeMap<&'a str, Vec<&'e Episode<'a, I>>>;

/// The longest sequences that occur in enough threads.
pub(super) fn patterns<'a, I: Clone + Ord>(segments: &[Segment<'_, 'a, I>]) -> Vec<Pattern<I>> {
    let mut sequences: BTreeMap<Vec<&'a str>, Occurrences<'_, 'a, I>> = BTreeMap::new();
    for acts in segments.iter().flat_map(|segment| tool_runs(segment)) {
        for length in STEP_COUNTS {
            for steps in acts.windows(length) {
                let names = steps.iter().filter_map(|act| act.tool).collect();
                let occurrences = sequences.entry(names).or_default();
                occurrences
                    .entry(steps[0].thread)
                    .or_insert_with(|| steps.to_vec());
            }
        }
    }
    sequences.retain(|_, occurrences| occurrences.len() >= SUPPORT_MIN);
    let parts = contained_sequences(&sequences);
    sequences
        .iter()
        .filter(|(names, _)| !parts.contains(names.as_slice()))
        .map(|(names, occurrences)| pattern(names, occurrences))
        .collect()
}

/// Sequences that occur only inside a longer one.
fn contained_sequences<'f, 'a, I>(
    sequences: &'f BTreeMap<Vec<&'a str>, Occurrences<'_, 'a, I>>,
) -> BTreeSet<&'f [&'a str]> {
    let mut parts = BTreeSet::new();
    for (longer, occurrences) in sequences {
        for length in *STEP_COUNTS.start()..longer.len() {
            let same = |part: &&[&'a str]| {
                sequences
                    .get(*part)
                    .is_some_and(|other| other.len() == occurrences.len())
            };
            parts.extend(longer.windows(length).filter(same));
        }
    }
    parts
}

/// The acts of a segment, in runs. A call and its response, or a repeated call, are one act; an act
/// of a tool without a proper name separates the acts before it from those after it.
fn tool_runs<'e, 'a, I>(segment: &Segment<'e, 'a, I>) -> Vec<Vec<&'e Episode<'a, I>>> {
    let mut runs: Vec<Vec<&Episode<'a, I>>> = vec![Vec::new()];
    for act in segment
        .iter()
        .filter(|act| matches!(act.speaker, Speaker::Agent | Speaker::Tool))
    {
        let Some(name) = act.tool else { continue };
        if sabotage!("a-tool-s-name-speaks", !is_name(name), false) {
            runs.push(Vec::new());
        } else if let Some(run) = runs
            .last_mut()
            .filter(|run| run.last().is_none_or(|last| last.tool != Some(name)))
        {
            run.push(act);
        }
    }
    runs
}

/// Whether a tool's name is only a name: no spaces, no sentence.
fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte))
}

/// The pattern of a sequence, weighted by the number of its threads.
fn pattern<I: Clone + Ord>(names: &[&str], occurrences: &Occurrences<'_, '_, I>) -> Pattern<I> {
    let mut sources: Vec<&Episode<'_, I>> = occurrences.values().flatten().copied().collect();
    sources.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    let text = format!("Usual steps: {}.", names.join(", then "));
    let support = u32::try_from(occurrences.len()).unwrap_or(u32::MAX);
    Pattern::of(
        PatternKind::Routine,
        unshared_slot(PatternKind::Routine, names),
        text,
        support,
        &sources,
    )
}
