//! Owns the buckets of candidates: entries that share a band key are in one bucket and may be
//! compared. Computed by sorting one band at a time, so that a million entries need eight bytes
//! each for it and no table of keys.

use super::plan::{CANDIDATES_MAX, ClusterEntry};
use super::signature::BANDS;

/// No bucket: the entry shares no key in this band.
pub(super) const NO_BUCKET: u32 = u32::MAX;

/// Buckets with the leaders found so far. All are slices of one list: a `Vec` for each would cost
/// more than its contents.
#[derive(Default)]
pub(super) struct Buckets {
    starts: Vec<u32>,
    leaders: Vec<u32>,
    /// The number of leaders in each bucket, and of the fresh ones among them. Each kind is stored
    /// up to the cap, because no comparison goes further.
    counts: Vec<(u8, u8)>,
    /// The number of entries of each bucket that are still to be processed. After the last one its
    /// leaders are released.
    remaining: Vec<u32>,
}

/// Puts entries that share a key into buckets, whose numbers replace the keys. Entries are given in
/// order. Confirmed entries, which are not compared with each other, are included only if a fresh
/// one can reach them: the newest of the bucket and those next after a fresh one, up to the cap.
pub(super) fn build_buckets(known: &mut [ClusterEntry]) -> Buckets {
    let mut buckets = Buckets::default();
    let mut size = 0;
    let mut pairs: Vec<u64> = Vec::with_capacity(known.len());
    for band in 0..BANDS {
        pairs.clear();
        for (at, entry) in known.iter_mut().enumerate() {
            // The upper half groups equal keys, the lower half preserves the order of entries.
            let key = std::mem::replace(&mut entry.bands[band], NO_BUCKET);
            pairs.extend((key != 0).then_some(u64::from(key) << 32 | at as u64));
        }
        pairs.sort_unstable();
        for run in pairs
            .chunk_by(|a, b| a >> 32 == b >> 32)
            .filter(|run| run.len() > 1)
        {
            let members = reachable_members(run, known);
            if members.len() > 1 {
                let bucket = buckets.remaining.len() as u32;
                members
                    .iter()
                    .for_each(|&at| known[at].bands[band] = bucket);
                buckets.starts.push(size);
                buckets.counts.push((0, 0));
                buckets.remaining.push(members.len() as u32);
                size += members.len().min(2 * CANDIDATES_MAX) as u32;
            }
        }
    }
    buckets.leaders = vec![NO_BUCKET; size as usize];
    buckets
}

/// The entries of a group with one key that take part in comparisons.
fn reachable_members(run: &[u64], known: &[ClusterEntry]) -> Vec<usize> {
    let index = |pair: &u64| (pair & 0xFFFF_FFFF) as usize;
    let Some(last) = run.iter().rposition(|pair| known[index(pair)].fresh) else {
        return Vec::new();
    };
    let mut confirmed = 0;
    let mut reach = 0_usize;
    let mut members = Vec::with_capacity(run.len());
    for (at, pair) in run.iter().enumerate() {
        let fresh = known[index(pair)].fresh;
        let newest = at < last && confirmed < CANDIDATES_MAX;
        if fresh || newest || reach > 0 {
            members.push(index(pair));
        }
        (confirmed, reach) = if fresh {
            (confirmed, CANDIDATES_MAX)
        } else {
            (confirmed + 1, reach.saturating_sub(1))
        };
    }
    members
}

impl Buckets {
    /// The leaders of a bucket, in the order in which they were added.
    pub fn leaders(&self, bucket: u32) -> &[u32] {
        let start = self.starts[bucket as usize] as usize;
        &self.leaders[start..start + usize::from(self.counts[bucket as usize].0)]
    }

    /// Adds a leader. Returns false if the bucket has enough leaders of its kind already.
    pub fn add(&mut self, bucket: u32, leader: u32, fresh: bool) -> bool {
        let at = bucket as usize;
        let (all, fresh_count) = self.counts[at];
        let same_kind = if fresh {
            fresh_count
        } else {
            all - fresh_count
        };
        if usize::from(same_kind) >= CANDIDATES_MAX {
            return false;
        }
        self.leaders[self.starts[at] as usize + usize::from(all)] = leader;
        self.counts[at] = (all + 1, fresh_count + u8::from(fresh));
        true
    }

    /// Counts one entry of the bucket as processed. Returns true if it was the last.
    pub fn mark_processed(&mut self, bucket: u32) -> bool {
        self.remaining[bucket as usize] -= 1;
        self.remaining[bucket as usize] == 0
    }
}
