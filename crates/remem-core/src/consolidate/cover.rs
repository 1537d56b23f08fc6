//! The second phase of a plan: texts come in, newest first, and each either finds a leader to be
//! merged into or becomes one. Compares at most `CANDIDATES_MAX` a time; asks for no text twice.

use super::buckets::{Buckets, NONE};
use super::features::{overlap, trigrams};
use super::guard::{Item, keeps_labels, near, normal_form};
use super::plan::{CANDIDATES_MAX, Decision, Known};
use std::collections::{HashMap, VecDeque};

/// Texts asked for at a time by `Cover::run`.
const PAGE: usize = 256;

/// The second phase, and what was decided so far.
#[derive(Default)]
pub struct Cover {
    known: Vec<Known>,
    buckets: Buckets,
    /// For each entry the last one that looked at it: a leader in several buckets is one candidate.
    looked_at_by: Vec<u32>,
    asked: usize,
    settled: usize,
    waiting: VecDeque<Option<Option<Item>>>,
    leaders: HashMap<u32, Leader>,
    decisions: Vec<Decision>,
    comparisons: u64,
}

/// A leader that entries to come may still be compared with.
struct Leader {
    item: Item,
    /// Of the normal form. Almost all comparisons end here, so nothing else is kept of a text but
    /// the text.
    form: blake3::Hash,
    /// Buckets that hold it.
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

    /// The next rows whose items are needed, in order; empty when all were asked for. Each must be
    /// offered.
    pub fn wanted(&mut self, at_most: usize) -> Vec<u64> {
        let end = self.known.len().min(self.asked + at_most);
        let rows = self.known[self.asked..end].iter().map(Known::row).collect();
        self.waiting
            .resize(self.waiting.len() + end - self.asked, None);
        self.asked = end;
        rows
    }

    /// Gives an item that was asked for, or tells that it is gone. Within what was asked for, in
    /// any order.
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

    /// What was decided since the last call, to be carried out in this order.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// How many texts are needed in all.
    #[must_use]
    pub fn texts(&self) -> usize {
        self.known.len()
    }

    /// Whether every text that was needed was offered.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.settled == self.known.len()
    }

    /// Texts in memory.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.leaders.len()
    }

    /// Pairs that were compared.
    #[must_use]
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Drives the whole phase with entries at hand, and returns all decisions.
    pub fn run(&mut self, mut item: impl FnMut(u64) -> Option<Item>) -> Vec<Decision> {
        loop {
            let rows = self.wanted(PAGE);
            if rows.is_empty() {
                return self.take_decisions();
            }
            rows.into_iter().for_each(|row| self.offer(row, item(row)));
        }
    }

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

    /// The most alike of the leaders that may stand for this entry, the newest of those that are
    /// equally so.
    fn leader_of(&mut self, at: u32, item: &Item, form: blake3::Hash) -> Option<u32> {
        let mut best: Option<(u32, (u64, u64))> = None;
        let mut own = None;
        for candidate in self.candidates(at) {
            let Some(leader) = self.leaders.get(&candidate) else {
                continue;
            };
            let same_class = self.known[candidate as usize].class == self.known[at as usize].class;
            if leader.form != form || !same_class || !keeps_labels(item, &leader.item) {
                continue;
            }
            let own = own.get_or_insert_with(|| trigrams(&item.text));
            let alike = overlap(own, &trigrams(&leader.item.text));
            let better = best.is_none_or(|(_, (common, all))| alike.0 * all > common * alike.1);
            if near(alike) && better {
                best = Some((candidate, alike));
            }
        }
        best.map(|(leader, _)| leader)
    }

    /// Leaders that share a bucket with the entry, bucket after bucket, each once, up to the cap.
    /// Two confirmed entries were compared by an earlier pass.
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

    /// Forgets the texts that only this bucket held.
    fn let_go(&mut self, bucket: u32) {
        for leader in self.buckets.leaders(bucket) {
            if let Some(kept) = self.leaders.get_mut(leader) {
                kept.buckets -= 1;
                if kept.buckets == 0 {
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
