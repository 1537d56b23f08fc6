//! The second phase of a plan: texts are provided, newest first, and each is either merged into a
//! leader or becomes one. Compares an entry with at most `CANDIDATES_MAX` leaders, and requests no
//! text twice.

use super::buckets::{Buckets, NONE};
use super::features::{overlap, trigrams};
use super::guard::{Item, keeps_labels, near, normal_form};
use super::plan::{CANDIDATES_MAX, Decision, Known};
use std::collections::{HashMap, VecDeque};

/// The number of texts that `MergePhase::run` requests at a time.
const PAGE: usize = 256;

/// The state of the second phase, with the decisions so far.
#[derive(Default)]
pub struct Cover {
    known: Vec<Known>,
    buckets: Buckets,
    /// For each entry the last one that was compared with it, so that a leader in several buckets
    /// is one candidate.
    looked_at_by: Vec<u32>,
    asked: usize,
    settled: usize,
    waiting: VecDeque<Option<Option<Item>>>,
    leaders: HashMap<u32, Leader>,
    decisions: Vec<Decision>,
    comparisons: u64,
}

/// A leader that later entries may still be compared with.
struct Leader {
    item: Item,
    /// The hash of the normal form. Almost all comparisons end here, so nothing else derived from
    /// the text is stored.
    form: blake3::Hash,
    /// The number of buckets that contain it.
    buckets: u8,
}

impl Cover {
    pub(super) fn new(known: Vec<Known>, buckets: Buckets, decisions: Vec<Decision>) -> Cover {
        Cover {
            looked_at_by: vec![NONE; known.len()],
            known,
            buckets,
            decisions,
            ..Cover::default()
        }
    }

    /// The next rows whose items are needed, in order; empty when all were requested. Each must be
    /// offered.
    pub fn wanted(&mut self, at_most: usize) -> Vec<u64> {
        let end = self.known.len().min(self.asked + at_most);
        let rows = self.known[self.asked..end].iter().map(Known::row).collect();
        self.waiting
            .resize(self.waiting.len() + end - self.asked, None);
        self.asked = end;
        rows
    }

    /// Provides a requested item, or `None` if the entry is gone. Requested items may come in any
    /// order.
    pub fn offer(&mut self, row: u64, item: Option<Item>) {
        let open = &self.known[self.settled..self.asked];
        let Some(at) = open.iter().position(|entry| entry.row() == row) else {
            return;
        };
        self.waiting[at] = Some(item);
        while let Some(Some(item)) = self.waiting.front_mut().map(Option::take) {
            self.waiting.pop_front();
            self.settle(self.settled as u32, item);
            self.settled += 1;
        }
    }

    /// The decisions since the last call, to be carried out in this order.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// The number of texts that are needed in all.
    #[must_use]
    pub fn texts(&self) -> usize {
        self.known.len()
    }

    /// Whether every needed text was provided.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.settled == self.known.len()
    }

    /// The number of texts held in memory.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.leaders.len()
    }

    /// The number of pairs that were compared.
    #[must_use]
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Runs the whole phase with a source of items, and returns all decisions.
    pub fn run(&mut self, mut item: impl FnMut(u64) -> Option<Item>) -> Vec<Decision> {
        loop {
            let rows = self.wanted(PAGE);
            if rows.is_empty() {
                return self.take_decisions();
            }
            rows.into_iter().for_each(|row| self.offer(row, item(row)));
        }
    }

    /// Decides on one entry: it is merged into a leader or becomes one. Then it is counted as
    /// processed in its buckets.
    fn settle(&mut self, at: u32, item: Option<Item>) {
        if let Some(item) = item {
            let form = blake3::hash(normal_form(&item.text).as_bytes());
            match self.leader_of(at, &item, form) {
                Some(leader) => {
                    let member = self.known[at as usize].row();
                    let leader = self.known[leader as usize].row();
                    self.decisions.push(Decision::Merge { member, leader });
                }
                None => self.lead(at, item, form),
            }
        }
        for bucket in self.buckets_of(at) {
            if self.buckets.leave(bucket) {
                self.let_go(bucket);
            }
        }
    }

    /// The leader that the entry is merged into: the most similar of those that may replace it, of
    /// equals the newest.
    fn leader_of(&mut self, at: u32, item: &Item, form: blake3::Hash) -> Option<u32> {
        let mut best: Option<(u32, (u64, u64))> = None;
        let mut own_trigrams = None;
        for candidate in self.candidates(at) {
            let Some(leader) = self.leaders.get(&candidate) else {
                continue;
            };
            let same_class = self.known[candidate as usize].class == self.known[at as usize].class;
            if leader.form != form || !same_class || !keeps_labels(item, &leader.item) {
                continue;
            }
            let own_trigrams = own_trigrams.get_or_insert_with(|| trigrams(&item.text));
            let alike = overlap(own_trigrams, &trigrams(&leader.item.text));
            let better = best.is_none_or(|(_, (common, all))| alike.0 * all > common * alike.1);
            if near(alike) && better {
                best = Some((candidate, alike));
            }
        }
        best.map(|(leader, _)| leader)
    }

    /// Leaders that share a bucket with the entry, bucket after bucket, each once, up to the cap.
    /// Two confirmed entries are skipped, because an earlier pass compared them.
    fn candidates(&mut self, at: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let fresh = self.known[at as usize].fresh;
        for bucket in self.buckets_of(at) {
            for &leader in self.buckets.leaders(bucket) {
                let looked_at_by = &mut self.looked_at_by[leader as usize];
                if found.len() < CANDIDATES_MAX
                    && *looked_at_by != at
                    && (fresh || self.known[leader as usize].fresh)
                {
                    *looked_at_by = at;
                    found.push(leader);
                }
            }
        }
        self.comparisons += found.len() as u64;
        found
    }

    /// Makes an entry a leader in those of its buckets that have room.
    fn lead(&mut self, at: u32, item: Item, form: blake3::Hash) {
        let fresh = self.known[at as usize].fresh;
        let mut buckets = 0;
        for bucket in self.buckets_of(at) {
            buckets += u8::from(self.buckets.add(bucket, at, fresh));
        }
        if buckets > 0 {
            self.leaders.insert(
                at,
                Leader {
                    item,
                    form,
                    buckets,
                },
            );
        }
    }

    /// Drops the texts that only this bucket needed.
    fn let_go(&mut self, bucket: u32) {
        for leader in self.buckets.leaders(bucket) {
            if let Some(held_leader) = self.leaders.get_mut(leader) {
                held_leader.buckets -= 1;
                if held_leader.buckets == 0 {
                    self.leaders.remove(leader);
                }
            }
        }
    }

    fn buckets_of(&self, at: u32) -> impl Iterator<Item = u32> + use<> {
        self.known[at as usize]
            .bands
            .into_iter()
            .filter(|&bucket| bucket != NONE)
    }
}
