//! The second phase of a plan: texts are provided, newest first, and each is either merged into a
//! leader or becomes one. Compares an entry with at most `CANDIDATES_MAX` leaders, and requests no
//! text twice.

use super::buckets::{Buckets, NO_BUCKET};
use super::features::{intersection_and_union, trigrams};
use super::guard::{MergeItem, is_near, keeps_labels, normal_form};
use super::plan::{CANDIDATES_MAX, ClusterEntry, Decision};
use std::collections::{HashMap, VecDeque};

/// The number of texts that `MergePhase::run` requests at a time.
const PAGE: usize = 256;

/// The state of the second phase, with the decisions so far.
#[derive(Default)]
pub struct MergePhase {
    entries: Vec<ClusterEntry>,
    buckets: Buckets,
    /// For each entry the last one that was compared with it, so that a leader in several buckets
    /// is one candidate.
    compared_by: Vec<u32>,
    requested: usize,
    processed: usize,
    waiting: VecDeque<Option<Option<MergeItem>>>,
    leaders: HashMap<u32, HeldLeader>,
    decisions: Vec<Decision>,
    comparisons: u64,
}

/// A leader that later entries may still be compared with.
struct HeldLeader {
    item: MergeItem,
    /// The hash of the normal form. Almost all comparisons end here, so nothing else derived from
    /// the text is stored.
    form_hash: blake3::Hash,
    /// The number of buckets that contain it.
    buckets: u8,
}

impl MergePhase {
    pub(super) fn new(
        entries: Vec<ClusterEntry>,
        buckets: Buckets,
        decisions: Vec<Decision>,
    ) -> MergePhase {
        MergePhase {
            compared_by: vec![NO_BUCKET; entries.len()],
            entries,
            buckets,
            decisions,
            ..MergePhase::default()
        }
    }

    /// The next rows whose items are needed, in order; empty when all were requested. Each must be
    /// offered.
    pub fn next_rows(&mut self, at_most: usize) -> Vec<u64> {
        let end = self.entries.len().min(self.requested + at_most);
        let rows = self.entries[self.requested..end]
            .iter()
            .map(ClusterEntry::row)
            .collect();
        self.waiting
            .resize(self.waiting.len() + end - self.requested, None);
        self.requested = end;
        rows
    }

    /// Provides a requested item, or `None` if the entry is gone. Requested items may come in any
    /// order.
    pub fn provide(&mut self, row: u64, item: Option<MergeItem>) {
        let open = &self.entries[self.processed..self.requested];
        let Some(at) = open.iter().position(|entry| entry.row() == row) else {
            return;
        };
        self.waiting[at] = Some(item);
        while let Some(Some(item)) = self.waiting.front_mut().map(Option::take) {
            self.waiting.pop_front();
            self.process(self.processed as u32, item);
            self.processed += 1;
        }
    }

    /// The decisions since the last call, to be carried out in this order.
    pub fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// The number of texts that are needed in all.
    #[must_use]
    pub fn text_count(&self) -> usize {
        self.entries.len()
    }

    /// Whether every needed text was provided.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.processed == self.entries.len()
    }

    /// The number of texts held in memory.
    #[cfg(test)]
    pub(super) fn held_texts(&self) -> usize {
        self.leaders.len()
    }

    /// The number of pairs that were compared.
    #[must_use]
    pub fn comparisons(&self) -> u64 {
        self.comparisons
    }

    /// Runs the whole phase with a source of items, and returns all decisions.
    pub fn run(&mut self, mut item: impl FnMut(u64) -> Option<MergeItem>) -> Vec<Decision> {
        loop {
            let rows = self.next_rows(PAGE);
            if rows.is_empty() {
                return self.take_decisions();
            }
            rows.into_iter()
                .for_each(|row| self.provide(row, item(row)));
        }
    }

    /// Decides on one entry: it is merged into a leader or becomes one. Then it is counted as
    /// processed in its buckets.
    fn process(&mut self, at: u32, item: Option<MergeItem>) {
        if let Some(item) = item {
            let form = blake3::hash(normal_form(&item.text).as_bytes());
            match self.find_leader(at, &item, form) {
                Some(leader) => {
                    let member = self.entries[at as usize].row();
                    let leader = self.entries[leader as usize].row();
                    self.decisions.push(Decision::Merge { member, leader });
                }
                None => self.make_leader(at, item, form),
            }
        }
        for bucket in self.buckets_of(at) {
            if self.buckets.mark_processed(bucket) {
                self.release_bucket(bucket);
            }
        }
    }

    /// The leader that the entry is merged into: the most similar of those that may replace it, of
    /// equals the newest.
    fn find_leader(&mut self, at: u32, item: &MergeItem, form: blake3::Hash) -> Option<u32> {
        let mut best: Option<(u32, (u64, u64))> = None;
        let mut own_trigrams = None;
        for candidate in self.candidates(at) {
            let Some(leader) = self.leaders.get(&candidate) else {
                continue;
            };
            let same_class =
                self.entries[candidate as usize].class == self.entries[at as usize].class;
            if leader.form_hash != form || !same_class || !keeps_labels(item, &leader.item) {
                continue;
            }
            let own_trigrams = own_trigrams.get_or_insert_with(|| trigrams(&item.text));
            let alike = intersection_and_union(own_trigrams, &trigrams(&leader.item.text));
            let better = best.is_none_or(|(_, (common, all))| alike.0 * all > common * alike.1);
            if is_near(alike) && better {
                best = Some((candidate, alike));
            }
        }
        best.map(|(leader, _)| leader)
    }

    /// Leaders that share a bucket with the entry, bucket after bucket, each once, up to the cap.
    /// Two confirmed entries are skipped, because an earlier pass compared them.
    fn candidates(&mut self, at: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let fresh = self.entries[at as usize].fresh;
        for bucket in self.buckets_of(at) {
            for &leader in self.buckets.leaders(bucket) {
                let looked_at_by = &mut self.compared_by[leader as usize];
                if found.len() < CANDIDATES_MAX
                    && *looked_at_by != at
                    && (fresh || self.entries[leader as usize].fresh)
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
    fn make_leader(&mut self, at: u32, item: MergeItem, form: blake3::Hash) {
        let fresh = self.entries[at as usize].fresh;
        let mut buckets = 0;
        for bucket in self.buckets_of(at) {
            buckets += u8::from(self.buckets.add(bucket, at, fresh));
        }
        if buckets > 0 {
            self.leaders.insert(
                at,
                HeldLeader {
                    item,
                    form_hash: form,
                    buckets,
                },
            );
        }
    }

    /// Drops the texts that only this bucket needed.
    fn release_bucket(&mut self, bucket: u32) {
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
        self.entries[at as usize]
            .bands
            .into_iter()
            .filter(|&bucket| bucket != NO_BUCKET)
    }
}
