//! Scores of a list of hits, and percentiles of durations. Pure.
use remem_core::sabotage;

/// The number of first hits that `recall_few` counts.
pub const FIRST_HITS: usize = 5;

/// The scores of one question, or the means of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// The share of the evidence that is among the first five hits.
    pub recall_few: f64,
    /// The share of the evidence that is among the first k hits.
    pub recall: f64,
    /// 1 if all of the evidence is among the first k hits, else 0.
    pub all: f64,
    /// 1 if any of the evidence is among the first k hits, else 0.
    pub any: f64,
    /// The normalised discounted cumulative gain.
    pub ndcg: f64,
    /// The reciprocal rank of the first hit that is evidence.
    pub mrr: f64,
}

/// Scores a list of hits. Hits after the k-th are not counted, and a hit that occurs twice counts
/// once.
pub fn score(found: &[&str], evidence: &[String], k: usize) -> Scores {
    let mut first_of: Vec<usize> = Vec::new();
    for id in evidence {
        first_of.extend(
            found
                .iter()
                .take(sabotage!(
                    "an-evaluation-counts-hits-beyond-the-k-th",
                    k,
                    usize::MAX
                ))
                .position(|hit| hit == id),
        );
    }
    first_of.sort_unstable();
    let within = |most: usize| first_of.iter().filter(|place| **place < most).count() as f64;
    let wanted = evidence.len().max(1) as f64;
    let there = within(k);
    let gain = |place: usize| 1.0 / (place as f64 + 2.0).log2();
    let best: f64 = (0..evidence.len().min(k)).map(gain).sum();
    Scores {
        recall_few: within(FIRST_HITS.min(k)) / wanted,
        recall: there / wanted,
        all: f64::from(!evidence.is_empty() && first_of.len() == evidence.len()),
        any: f64::from(there > 0.0),
        ndcg: if best > 0.0 {
            first_of.iter().map(|place| gain(*place)).sum::<f64>() / best
        } else {
            0.0
        },
        mrr: first_of
            .first()
            .map_or(0.0, |place| 1.0 / (*place as f64 + 1.0)),
    }
}

/// The means of all scores; `None` without any.
pub fn mean<'a>(scores: impl Iterator<Item = &'a Scores>) -> Option<(Scores, usize)> {
    let mut sum = Scores::default();
    let mut count = 0_usize;
    for one in scores {
        sum.recall_few += one.recall_few;
        sum.recall += one.recall;
        sum.all += one.all;
        sum.any += one.any;
        sum.ndcg += one.ndcg;
        sum.mrr += one.mrr;
        count += 1;
    }
    let of = |sum: f64| sum / count as f64;
    let means = Scores {
        recall_few: of(sum.recall_few),
        recall: of(sum.recall),
        all: of(sum.all),
        any: of(sum.any),
        ndcg: of(sum.ndcg),
        mrr: of(sum.mrr),
    };
    (count > 0).then_some((means, count))
}

/// The least value that at least so many hundredths of all values do not exceed; 0 without any.
pub fn percentile(values: &[u64], hundredths: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
