//! How good a list of hits is, and how long things took. Pure.
use remem_core::sabotage;

/// What is counted beside the hits that were asked for.
pub const FEW: usize = 5;

/// The figures of one question, or the means of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// How much of the evidence is among the first five.
    pub recall_few: f64,
    /// How much of it is among the first k.
    pub recall: f64,
    /// Whether all of it is among the first k.
    pub all: f64,
    /// Whether any of it is among the first k.
    pub any: f64,
    /// How far in front it is, of what could be.
    pub ndcg: f64,
    /// One by the place of the first of it.
    pub mrr: f64,
}

/// The figures of a list of hits. Hits after the k-th count for nothing, and a hit that is there
/// twice counts once.
pub fn judge(found: &[&str], evidence: &[String], k: usize) -> Scores {
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
        recall_few: within(FEW.min(k)) / wanted,
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

/// The means; `None` of nothing.
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

/// The least value that so many hundredths of all are not above; 0 of nothing.
pub fn percentile(values: &[u64], hundredths: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}
