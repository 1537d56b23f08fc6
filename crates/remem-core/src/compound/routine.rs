//! routine: tools that are used one after the other, in one conversation after another. Its text is
//! a fixed sentence around the names of tools; a name that could say something of its own is not
//! taken.

use super::{Episode, Pattern, PatternKind, Segment, Speaker, own_slot};
use crate::sabotage;
use std::collections::{BTreeMap, BTreeSet};

/// In how many threads a routine must show.
const SUPPORT_MIN: usize = 3;
/// How many steps it has.
const STEPS: std::ops::RangeInclusive<usize> = 2..=5;
const NAME_BYTES_MAX: usize = 64;

/// Where a sequence of steps was seen first in each thread.
type Seen<'e, 'a, I> = BTreeMap<&'a str, Vec<&'e Episode<'a, I>>>;

/// The longest sequences with enough support.
pub(super) fn patterns<'a, I: Clone + Ord>(segments: &[Segment<'_, 'a, I>]) -> Vec<Pattern<I>> {
    let mut found: BTreeMap<Vec<&'a str>, Seen<'_, 'a, I>> = BTreeMap::new();
    for acts in segments.iter().flat_map(|segment| runs(segment)) {
        for length in STEPS {
            for steps in acts.windows(length) {
                let names = steps.iter().filter_map(|act| act.tool).collect();
                let seen = found.entry(names).or_default();
                seen.entry(steps[0].thread)
                    .or_insert_with(|| steps.to_vec());
            }
        }
    }
    found.retain(|_, seen| seen.len() >= SUPPORT_MIN);
    let parts = parts(&found);
    found
        .iter()
        .filter(|(names, _)| !parts.contains(names.as_slice()))
        .map(|(names, seen)| pattern(names, seen))
        .collect()
}

/// Sequences that were seen only inside a longer one.
fn parts<'f, 'a, I>(found: &'f BTreeMap<Vec<&'a str>, Seen<'_, 'a, I>>) -> BTreeSet<&'f [&'a str]> {
    let mut parts = BTreeSet::new();
    for (longer, seen) in found {
        for length in *STEPS.start()..longer.len() {
            let same = |part: &&[&'a str]| {
                found
                    .get(*part)
                    .is_some_and(|other| other.len() == seen.len())
            };
            parts.extend(longer.windows(length).filter(same));
        }
    }
    parts
}

/// The acts of a stretch, without what is said in between. A call and its answer, or a call that is
/// repeated, are one act; an act without a proper name parts what stands around it.
fn runs<'e, 'a, I>(segment: &Segment<'e, 'a, I>) -> Vec<Vec<&'e Episode<'a, I>>> {
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

/// A name and nothing else: no spaces, no sentence.
fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.:/-".contains(&byte))
}

fn pattern<I: Clone + Ord>(names: &[&str], seen: &Seen<'_, '_, I>) -> Pattern<I> {
    let mut sources: Vec<&Episode<'_, I>> = seen.values().flatten().copied().collect();
    sources.sort_by(|a, b| (a.at, &a.id).cmp(&(b.at, &b.id)));
    let text = format!("Usual steps: {}.", names.join(", then "));
    let support = u32::try_from(seen.len()).unwrap_or(u32::MAX);
    Pattern::of(
        PatternKind::Routine,
        own_slot(PatternKind::Routine, names),
        text,
        support,
        &sources,
    )
}
