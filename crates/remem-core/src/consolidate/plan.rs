//! The planner: leader clustering over one memory, the most trusted and then the newest entry
//! first, driven by a caller that streams entries from any source. First every entry's signature
//! (`Planner::add`); then, in order, only the texts that can matter (`MergePhase::next_rows`,
//! `MergePhase::provide`); decisions are returned as they are made.
//!
//! Idempotent: order, band keys and the predicate depend only on immutable data, and only leaders
//! are ever compared with. So a plan over the survivors of a full plan compares the same pairs,
//! fails the same predicate, and decides nothing. That needs neither transitivity of the predicate
//! nor that all near-duplicates share a bucket, and it holds with the cap.
//!
//! Memory: `Planner` takes 112 bytes for each entry, 48 more for one with a slot, and eight while
//! it sorts a band. `MergePhase` keeps only entries that share a bucket: the same 112 bytes and at
//! most 160 for the buckets. A text is held from the time its entry became a leader until the last
//! entry of its buckets was processed, and not at all if 64 leaders came before it in each.

use super::buckets::{NO_BUCKET, build_buckets};
use super::merge_phase::MergePhase;
use super::signature::{BANDS, Signature, splitmix};
use crate::ids::Timestamp;
use crate::sabotage;
use crate::trust::Trust;
use std::cmp::Reverse;
use std::collections::HashSet;

/// The most entries that an entry is compared with.
pub const CANDIDATES_MAX: usize = 64;

/// The data of an entry that the planner works on.
#[derive(Clone, Debug)]
pub struct PlanEntry {
    /// The row by which the caller identifies the entry. Never changes.
    pub row: u64,
    /// The creation time of the entry.
    pub created_at: Timestamp,
    /// The order among entries of one instant (`order_key` of the id).
    pub order: u64,
    /// The class of the entry; only entries of one class are compared.
    pub class: u32,
    /// The trust of the entry. Of two that state the same the more trusted one stays.
    pub trust: Trust,
    /// Whether no completed pass has compared the entry yet. The others are confirmed: no two of
    /// them are compared again.
    pub fresh: bool,
    /// The signature of the entry, stored or just computed.
    pub signature: Signature,
}

/// A decision of the planner. Decisions must be carried out in the order given: a survivor of one
/// decision may be merged by the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// `member` states the same as `leader`, which is more trusted, or equally trusted and newer,
    /// and takes over its sources.
    Merge {
        /// The entry to archive.
        member: u64,
        /// The entry that stays.
        leader: u64,
    },
    /// `by`, which is at least equally trusted, gives a newer answer to the question that `old`
    /// answered.
    Supersede {
        /// The entry to archive.
        old: u64,
        /// The entry that stays.
        by: u64,
    },
}

/// A number that orders ids: by their first 64 bits if they are UUIDs (those of version 7 grow with
/// time), else by their first eight bytes.
#[must_use]
pub fn order_key(id: &str) -> u64 {
    let digits: String = id.chars().filter(|&c| c != '-').collect();
    let uuid = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    match u64::from_str_radix(digits.get(..16).unwrap_or_default(), 16) {
        Ok(key) if uuid => key,
        _ => id
            .bytes()
            .chain(std::iter::repeat(0))
            .take(8)
            .fold(0, |key, byte| key << 8 | u64::from(byte)),
    }
}

/// The sort key for newest first; all its parts are immutable.
pub(super) type NewestFirst = Reverse<(Timestamp, u64, u64)>;

/// An entry in the planner. Its bands are keys first and numbers of buckets later.
pub(super) struct ClusterEntry {
    pub trust: Reverse<Trust>,
    pub order: NewestFirst,
    pub class: u32,
    pub fresh: bool,
    pub bands: [u32; BANDS],
}

/// An entry that answers a question, in the contest for its slot.
struct SlotCandidate {
    question: (u32, u64),
    trust: Reverse<Trust>,
    order: NewestFirst,
    value: u64,
}

/// The first phase: collects all eligible entries of one memory.
#[derive(Default)]
pub struct Planner {
    entries: Vec<ClusterEntry>,
    slot_candidates: Vec<SlotCandidate>,
    any_fresh: bool,
}

impl Planner {
    /// A planner without entries.
    #[must_use]
    pub fn new() -> Planner {
        Planner::default()
    }

    /// A planner without entries that has room for `entries` of them, which saves reallocation.
    #[must_use]
    pub fn with_capacity(entries: usize) -> Planner {
        Planner {
            entries: Vec::with_capacity(entries),
            ..Planner::default()
        }
    }

    /// Adds an entry. Entries may come in any order, each once.
    pub fn add(&mut self, handle: PlanEntry) {
        let order = Reverse((handle.created_at, handle.order, handle.row));
        let trust = sabotage!(
            "an-echo-takes-the-operator-s-place",
            Reverse(handle.trust),
            Reverse(Trust::Model)
        );
        let Signature {
            mut bands,
            slot,
            value,
        } = handle.signature;
        if handle.class != 0 {
            // Mixing the class into the keys keeps classes apart. They share a bucket only by
            // accident, and `MergePhase` compares classes again.
            let class = splitmix(u64::from(handle.class)) as u32;
            bands
                .iter_mut()
                .filter(|key| **key != 0)
                .for_each(|key| *key ^= class);
        }
        if slot != 0 {
            self.slot_candidates.push(SlotCandidate {
                question: (handle.class, slot),
                trust,
                order,
                value,
            });
        }
        self.entries.push(ClusterEntry {
            trust,
            order,
            class: handle.class,
            fresh: handle.fresh,
            bands,
        });
        self.any_fresh |= handle.fresh;
    }

    /// Ends the first phase: decides slots, and determines which texts are needed.
    #[must_use]
    pub fn into_merge_phase(self) -> MergePhase {
        if !self.any_fresh {
            return MergePhase::default();
        }
        let Planner {
            entries: mut known,
            slot_candidates: filled,
            ..
        } = self;
        let decisions = decide_slots(filled);
        let losers: HashSet<u64> = decisions.iter().map(Decision::archived).collect();
        known.retain(|entry| !losers.contains(&entry.row()));
        known.sort_unstable_by_key(|entry| (entry.trust, entry.order));
        let buckets = build_buckets(&mut known);
        known.retain(|entry| entry.bands.iter().any(|&bucket| bucket != NO_BUCKET));
        known.shrink_to_fit();
        MergePhase::new(known, buckets, decisions)
    }
}

/// Decides which answers to each question stay: the newest, and any older one that is more trusted.
/// An answer with the value of one that stays is merged into it, unless a caller could find it by
/// other tags or metadata: then it stays, once for each set of them. If any of those is removed
/// later, the plan decides nothing new.
fn decide_slots(mut filled: Vec<SlotCandidate>) -> Vec<Decision> {
    filled.sort_unstable_by_key(|answer| (answer.question, answer.trust, answer.order));
    let mut decisions = Vec::new();
    for group in filled.chunk_by(|a, b| a.question == b.question) {
        // Answers are in order of trust: each is trusted at least as much as those after it.
        let mut staying: Vec<&SlotCandidate> = Vec::new();
        for answer in group {
            let row = answer.order.0.2;
            let same = staying.iter().find(|other| other.value == answer.value);
            let supersedes = |other: &&&SlotCandidate| {
                other.order < answer.order && other.value >> 32 != answer.value >> 32
            };
            if let Some(same) = same {
                decisions.push(Decision::Merge {
                    member: row,
                    leader: same.order.0.2,
                });
            } else if let Some(newer) = staying
                .iter()
                .filter(supersedes)
                .min_by_key(|other| other.order)
            {
                decisions.push(Decision::Supersede {
                    old: row,
                    by: newer.order.0.2,
                });
            } else {
                staying.push(answer);
            }
        }
    }
    decisions
}

impl ClusterEntry {
    /// The row by which the caller identifies the entry.
    pub fn row(&self) -> u64 {
        self.order.0.2
    }
}

impl Decision {
    /// The entry that is archived.
    #[must_use]
    pub fn archived(&self) -> u64 {
        match *self {
            Decision::Merge { member, .. } => member,
            Decision::Supersede { old, .. } => old,
        }
    }
}
