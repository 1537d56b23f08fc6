//! `consolidate`: the plan of consolidation in this process, without a store: time and comparisons
//! for each entry, memory beyond the corpus, whether planted near-duplicates are found and planted
//! traps left alone, and whether a second pass finds nothing. The peer compares every entry with
//! every leader.

use crate::corpus::Contents;
use crate::facts::{self, process_bytes, thread_time};
use crate::table::{Table, mib, number, ratio};
use crate::text::SeededRandom;
use anyhow::{Context, ensure};
use remem_core::consolidate::features::{intersection_and_union, trigrams};
use remem_core::consolidate::{Decision, MergeItem, PlanEntry, Planner, Signature, may_merge};
use remem_core::{Timestamp, Trust};
use std::collections::HashSet;
use std::time::Duration;

/// Percent of the entries that repeat an earlier one in slightly other words, and percent that
/// differ from an earlier one in one thing that matters.
const NEAR_DUPLICATES: usize = 10;
const TRAPS: usize = 5;
/// The sizes at which all pairs are compared; the time grows with the square.
const ALL_PAIRS: [usize; 2] = [5_000, 10_000];
const ALL_PAIRS_TIME_MAX: Duration = Duration::from_secs(60);
const NAMES: [&str; 8] = [
    "Vera", "Otto", "Nadia", "Emil", "Ines", "Karol", "Petra", "Ivo",
];

pub fn run(sizes: &[usize]) -> anyhow::Result<()> {
    let contents = Contents::new();
    let heads = [
        "Entries",
        "→ out",
        "second pass",
        "duplicates found",
        "wrong merges",
        "signing",
        "planning",
        "µs an entry",
        "comparisons an entry",
        "texts read",
        "1 % new: planning",
        "memory",
        "bytes an entry",
    ];
    let mut table = Table::new(&heads);
    for &size in sizes {
        table.row(row(&contents, size)?);
    }
    table.print(
        "## Consolidate: the plan alone, texts of about 200 bytes, one core, processor time",
    );
    all_pairs(&contents)
}

fn row(contents: &Contents, size: usize) -> anyhow::Result<Vec<String>> {
    let corpus = corpus(contents, size);
    let begun = now()?;
    let signatures: Vec<Signature> = corpus
        .iter()
        .map(|entry| Signature::of(&entry.item))
        .collect();
    let signing = now()? - begun;
    // Signatures are stored with the entries: what counts is the memory that the planner itself
    // uses.
    let before = lowest_memory()?;
    let first = plan(&corpus, &signatures, |_| true)?;
    let memory = process_bytes(std::process::id(), "VmHWM")?.saturating_sub(before);

    let merges = first.decisions.iter().map(|decision| match *decision {
        Decision::Merge { member, leader } => (member as usize, leader as usize),
        Decision::Supersede { old, by } => (old as usize, by as usize),
    });
    let wrong = merges
        .clone()
        .filter(|&(member, leader)| corpus[member].fact != corpus[leader].fact)
        .count();
    let gone: HashSet<usize> = merges.map(|(member, _)| member).collect();
    let planted = size
        - corpus
            .iter()
            .map(|entry| entry.fact)
            .collect::<HashSet<_>>()
            .len();
    let out = size - gone.len();
    let survivors: Vec<usize> = (0..size).filter(|row| !gone.contains(row)).collect();
    let again = plan_rows(&corpus, &signatures, &survivors, |_| true)?;
    // The entries of the last hundredth of the time are the new ones.
    let nightly = plan_rows(&corpus, &signatures, &survivors, |row| {
        row >= size - size / 100
    })?;
    ensure!(
        again.decisions.is_empty() && nightly.decisions.is_empty(),
        "a second pass decided something: the plan is not idempotent"
    );
    ensure!(wrong == 0, "{wrong} merges of different facts");
    let each = |time: Duration| time.as_secs_f64() * 1e6 / size as f64;
    eprintln!("{size} entries: {:.1} µs each", each(signing + first.time));
    Ok(vec![
        number(size as f64),
        number(out as f64),
        format!("{0} → {0}", number(out as f64)),
        format!(
            "{} of {}",
            number(gone.len() as f64),
            number(planted as f64)
        ),
        wrong.to_string(),
        format!("{:.1} µs", each(signing)),
        format!("{:.1} µs", each(first.time)),
        format!("{:.1}", each(signing + first.time)),
        format!("{:.2}", first.comparisons as f64 / size as f64),
        format!("{:.0} %", first.texts as f64 * 100.0 / size as f64),
        format!("{:.1} µs", each(nightly.time)),
        mib(memory),
        number(memory as f64 / size as f64),
    ])
}

/// An entry; entries of one fact say the same.
struct FactEntry {
    item: MergeItem,
    fact: u64,
}

/// The texts of the corpus, oldest first.
pub fn texts(contents: &Contents, size: usize) -> Vec<String> {
    corpus(contents, size)
        .into_iter()
        .map(|entry| entry.item.text)
        .collect()
}

fn corpus(contents: &Contents, size: usize) -> Vec<FactEntry> {
    let mut random = SeededRandom::new(42);
    let mut facts: Vec<Fact> = Vec::with_capacity(size);
    let mut corpus = Vec::with_capacity(size);
    for at in 0..size {
        let kind = random.below(100);
        let (fact, text) = if at == 0 || kind >= NEAR_DUPLICATES + TRAPS {
            let fact = Fact::new(at, &mut random);
            (fact, fact.text(contents))
        } else {
            let earlier = facts[random.below(at)];
            if kind < TRAPS {
                let fact = earlier.trap(&mut random);
                (fact, fact.text(contents))
            } else {
                (earlier, reworded(earlier.text(contents), &mut random))
            }
        };
        facts.push(fact);
        corpus.push(FactEntry {
            fact: fact.digest(),
            item: MergeItem::plain(text),
        });
    }
    corpus
}

#[derive(Clone, Copy)]
struct Fact {
    prose: usize,
    ticket: usize,
    day: usize,
    names: (usize, usize),
    closed: bool,
    denied: bool,
}

impl Fact {
    fn new(prose: usize, random: &mut SeededRandom) -> Fact {
        let first = random.below(NAMES.len());
        let names = (
            first,
            (first + 1 + random.below(NAMES.len() - 1)) % NAMES.len(),
        );
        Fact {
            prose,
            ticket: random.below(100_000),
            day: 1 + random.below(28),
            names,
            closed: false,
            denied: false,
        }
    }

    fn text(&self, contents: &Contents) -> String {
        let names = self.names;
        let day = self.day;
        let state = if self.closed { "closed" } else { "opened" };
        let not = if self.denied { "not " } else { "" };
        let prose = contents.at(self.prose);
        format!(
            "{prose}{} {not}{state} ticket {} for {} on 2026-05-{day:02}",
            NAMES[names.0], self.ticket, NAMES[names.1]
        )
    }

    fn trap(mut self, random: &mut SeededRandom) -> Fact {
        match random.below(5) {
            0 => self.ticket += 1,
            1 => self.day = self.day % 28 + 1,
            2 => self.names = (self.names.1, self.names.0),
            3 => self.closed = !self.closed,
            _ => self.denied = !self.denied,
        }
        self
    }

    fn digest(&self) -> u64 {
        let parts = [
            self.prose,
            self.ticket,
            self.day,
            self.names.0,
            self.names.1,
            usize::from(self.closed),
            usize::from(self.denied),
        ];
        parts
            .into_iter()
            .fold(0, |sum, part| SeededRandom::new(sum ^ part as u64).next())
    }
}

fn reworded(text: String, random: &mut SeededRandom) -> String {
    match random.below(4) {
        0 => text,
        1 => format!("Note: {text}."),
        2 => text
            .replacen(" ticket ", " the ticket ", 1)
            .replace(", ", " "),
        _ => text.replacen(" the ", " actually the ", 1) + "!",
    }
}

struct PlanResult {
    decisions: Vec<Decision>,
    time: Duration,
    comparisons: u64,
    texts: usize,
}

fn plan(
    corpus: &[FactEntry],
    signatures: &[Signature],
    fresh: impl Fn(usize) -> bool,
) -> anyhow::Result<PlanResult> {
    plan_rows(
        corpus,
        signatures,
        &(0..corpus.len()).collect::<Vec<_>>(),
        fresh,
    )
}

fn plan_rows(
    corpus: &[FactEntry],
    signatures: &[Signature],
    rows: &[usize],
    fresh: impl Fn(usize) -> bool,
) -> anyhow::Result<PlanResult> {
    let begun = now()?;
    let mut planner = Planner::with_capacity(rows.len());
    for &row in rows {
        let created_at = Timestamp(row as i64);
        let signature = signatures[row];
        planner.add(PlanEntry {
            row: row as u64,
            created_at,
            order: 0,
            class: 0,
            trust: Trust::default(),
            fresh: fresh(row),
            signature,
        });
    }
    let mut cover = planner.into_merge_phase();
    let decisions = cover.run(|row| Some(corpus[row as usize].item.clone()));
    Ok(PlanResult {
        decisions,
        time: now()? - begun,
        comparisons: cover.comparisons(),
        texts: cover.text_count(),
    })
}

/// Compares every entry with every leader, with sets of trigrams that were made once.
fn all_pairs(contents: &Contents) -> anyhow::Result<()> {
    let mut table = Table::new(&[
        "Entries",
        "all pairs",
        "plan with signing",
        "all pairs : plan",
        "merges, both",
    ]);
    let mut last = Duration::ZERO;
    for size in ALL_PAIRS {
        if last * 4 > ALL_PAIRS_TIME_MAX {
            break;
        }
        let corpus = corpus(contents, size);
        let begun = now()?;
        let sets: Vec<Vec<u32>> = corpus
            .iter()
            .map(|entry| trigrams(&entry.item.text))
            .collect();
        let mut leaders: Vec<usize> = Vec::new();
        for at in (0..size).rev() {
            let near = |&leader: &usize| {
                let (common, all) = intersection_and_union(&sets[at], &sets[leader]);
                20 * common >= 17 * all
                    && may_merge(&corpus[at].item, &corpus[leader].item).is_some()
            };
            if !leaders.iter().any(near) {
                leaders.push(at);
            }
        }
        last = now()? - begun;
        let begun = now()?;
        let signatures: Vec<Signature> = corpus
            .iter()
            .map(|entry| Signature::of(&entry.item))
            .collect();
        let ours = plan(&corpus, &signatures, |_| true)?;
        let time = now()? - begun;
        eprintln!("all pairs of {size}: {:.1} s", last.as_secs_f64());
        table.row([
            number(size as f64),
            format!("{:.1} s", last.as_secs_f64()),
            format!("{:.3} s", time.as_secs_f64()),
            ratio(last.as_secs_f64(), time.as_secs_f64()),
            format!("{} and {}", size - leaders.len(), ours.decisions.len()),
        ]);
    }
    table.print("The same by comparing all pairs:");
    Ok(())
}

/// The processor time of this thread, which other programs on the machine do not change.
fn now() -> anyhow::Result<Duration> {
    thread_time().context("the system does not tell the processor time of a thread")
}

/// The memory in use now; the next peak is measured from here.
fn lowest_memory() -> anyhow::Result<u64> {
    facts::reset_peak_memory()?;
    process_bytes(std::process::id(), "VmRSS")
}
