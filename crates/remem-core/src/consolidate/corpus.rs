//! Corpora for tests: invented facts, near-duplicates that state the same, and traps that differ in
//! an essential detail.

use super::signature::splitmix;
use super::{Decision, MergeItem, PlanEntry, Planner, Signature};
use crate::ids::Timestamp;
use std::collections::HashSet;

/// A random generator with a fixed seed.
pub struct CorpusRandom(pub u64);

impl CorpusRandom {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = splitmix(self.0);
        (self.0 >> 11) as usize % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// An entry of a test corpus. Entries with the same `fact` state the same.
#[derive(Clone)]
pub struct CorpusEntry {
    pub row: u64,
    pub created_at: i64,
    pub item: MergeItem,
    pub fact: String,
    pub signature: Signature,
}

const NAMES: &[&str] = &["Vera", "Otto", "Nadia", "Emil", "Ines", "Karol"];
const NOUNS: &[&str] = &[
    "boiler", "garden", "ledger", "ferry", "archive", "kitchen", "tower", "printer", "orchard",
    "harbour",
];
const OPPOSITES: &[(&str, &str)] = &[
    ("enabled", "disabled"),
    ("open", "closed"),
    ("allowed", "denied"),
    ("rising", "falling"),
    ("on", "off"),
];
const SYLLABLES: &[&str] = &[
    "ba", "ko", "li", "ru", "ten", "mar", "so", "vi", "dal", "nor", "pe", "gu", "sha", "wen",
];

#[derive(Clone, Copy)]
struct CorpusFact {
    names: (&'static str, &'static str),
    day: usize,
    noun: &'static str,
    id: usize,
    state: &'static str,
    count: usize,
    not: &'static str,
    reason: u64,
}

impl CorpusFact {
    fn new(random: &mut CorpusRandom) -> CorpusFact {
        CorpusFact {
            names: (random.pick(NAMES), random.pick(NAMES)),
            day: 10 + random.below(18),
            noun: random.pick(NOUNS),
            id: random.below(90) + 10,
            state: random.pick(OPPOSITES).0,
            count: 2 + random.below(97),
            not: "",
            reason: random.0,
        }
    }

    fn text(&self) -> String {
        let mut random = CorpusRandom(self.reason);
        let mut word = || (0..3).map(|_| random.pick(SYLLABLES)).collect::<String>();
        let reason: Vec<String> = (0..14).map(|_| word()).collect();
        let CorpusFact {
            names: (a, b),
            day,
            noun,
            id,
            state,
            count,
            not,
            ..
        } = *self;
        let reason = reason.join(" ");
        format!(
            "{a} told {b} on 2026-03-{day} that the {noun} unit_{id} was {not}{state} with {count} parts for {reason}"
        )
    }

    /// The fact with one essential detail changed.
    fn altered(mut self, random: &mut CorpusRandom) -> CorpusFact {
        match random.below(6) {
            0 => self.count += 1,
            1 => self.day += 1,
            2 => self.not = if self.not.is_empty() { "not " } else { "" },
            3 => self.id += 1,
            4 => self.names = (self.names.1, self.names.0),
            _ => {
                self.state = OPPOSITES
                    .iter()
                    .find(|pair| pair.0 == self.state)
                    .map_or(self.state, |pair| pair.1)
            }
        }
        self
    }
}

/// The same fact in slightly other words.
fn reworded(text: &str, random: &mut CorpusRandom) -> String {
    match random.below(6) {
        0 => text.to_owned(),
        1 => format!("{text}."),
        2 => text.replacen(" told ", " actually told ", 1),
        3 => text.replacen(" that the ", ", that ", 1),
        4 => format!("Note: {text}!"),
        _ => {
            text.replacen(" with ", ", with ", 1)
                .replacen(" for ", " (for ", 1)
                + ")"
        }
    }
}

/// `count` entries: facts, and in about equal parts near-duplicates, traps, and answers to a few
/// questions.
pub fn corpus(seed: u64, count: usize) -> Vec<CorpusEntry> {
    let mut random = CorpusRandom(splitmix(seed));
    let mut facts: Vec<CorpusFact> = vec![CorpusFact::new(&mut random)];
    let mut entries = Vec::new();
    for row in 0..count as u64 {
        let known = random.pick(&facts);
        let (text, fact) = match random.below(8) {
            0 => {
                let answer = format!(
                    "{}'s role is {}",
                    random.pick(&NAMES[..2]),
                    random.pick(&["cook", "pilot", "teacher"])
                );
                (answer.clone(), answer)
            }
            choice => {
                let fact = match choice {
                    1..=3 => CorpusFact::new(&mut random),
                    4 | 5 => known.altered(&mut random),
                    _ => known,
                };
                facts.push(fact);
                (reworded(&fact.text(), &mut random), fact.text())
            }
        };
        let tags = (0..random.below(3))
            .map(|_| {
                random
                    .pick(&["home", "work", "source:chat", "compacted-from:x"])
                    .to_owned()
            })
            .collect();
        let metadata = (random.below(6) == 0).then(|| "{\"a\":1}".to_owned());
        let item = MergeItem {
            text,
            tags,
            metadata,
        };
        // Few instants, so that ties are common.
        entries.push(CorpusEntry {
            row,
            created_at: random.below(count) as i64 / 2,
            fact,
            signature: Signature::of(&item),
            item,
        });
    }
    entries
}

/// Plans over a corpus; `fresh` says which entries no earlier pass has compared. Returns the
/// decisions and the number of comparisons.
pub fn plan(entries: &[CorpusEntry], fresh: impl Fn(&CorpusEntry) -> bool) -> (Vec<Decision>, u64) {
    let mut planner = Planner::new();
    for entry in entries {
        planner.add(plan_entry(entry, fresh(entry)));
    }
    let mut cover = planner.into_merge_phase();
    let decisions = cover.run(|row| {
        entries
            .iter()
            .find(|entry| entry.row == row)
            .map(|entry| entry.item.clone())
    });
    assert!(cover.is_done());
    assert_eq!(cover.held_texts(), 0, "texts are let go");
    (decisions, cover.comparisons())
}

pub fn plan_entry(entry: &CorpusEntry, fresh: bool) -> PlanEntry {
    let row = entry.row;
    let created_at = Timestamp(entry.created_at);
    let order = splitmix(entry.row) >> 62;
    PlanEntry {
        row,
        created_at,
        order,
        class: 0,
        trust: crate::trust::Trust::Model,
        fresh,
        signature: entry.signature,
    }
}

/// The entries that are left after the decisions. Checks that every loser and every survivor
/// existed at its turn.
pub fn survivors(entries: &[CorpusEntry], decisions: &[Decision]) -> Vec<CorpusEntry> {
    let mut live: HashSet<u64> = entries.iter().map(|entry| entry.row).collect();
    for decision in decisions {
        let (loser, survivor) = match *decision {
            Decision::Merge { member, leader } => (member, leader),
            Decision::Supersede { old, by } => (old, by),
        };
        assert!(
            live.remove(&loser) && live.contains(&survivor),
            "{decision:?}"
        );
    }
    entries
        .iter()
        .filter(|entry| live.contains(&entry.row))
        .cloned()
        .collect()
}
