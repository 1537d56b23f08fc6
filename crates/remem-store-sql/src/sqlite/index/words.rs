//! The words of a memory: for each word the entries that hold it.

use super::RankedRows;
use crate::{bm25, spelling, terms};
use remem_core::sabotage;
use std::collections::{HashMap, HashSet};

/// The row id at the position of a removed entry.
const REMOVED: i64 = i64::MIN;

/// The index of the words of a memory.
#[derive(Default)]
pub(crate) struct WordIndex {
    postings: HashMap<i64, PostingList>,
    /// The row id at each position, and its number of words.
    rows: Vec<i64>,
    lengths: Vec<u32>,
    positions: HashMap<i64, u32>,
    documents: u64,
    total_words: u64,
    removed: usize,
}

/// The positions of the entries that hold a word, and its count in each.
#[derive(Default)]
struct PostingList {
    positions: Vec<u32>,
    times: Vec<u16>,
}

/// The result of a query for words.
#[derive(Default)]
pub(crate) struct WordMatches {
    /// The matching rows with their scores, in millionths.
    pub best: RankedRows,
    /// The scores by position, for rows that were found by their vectors: by the words of the
    /// query, and by spelling corrections.
    scores: Vec<u32>,
    correction_scores: Vec<u32>,
    /// The score that an entry approaches that holds every word many times.
    pub ceiling: f64,
}

impl WordIndex {
    /// Adds the text of a row.
    pub fn add(&mut self, row: i64, text: &str) {
        let Ok(position) = u32::try_from(self.rows.len()) else {
            return;
        };
        let words = terms::count_words(text);
        let length = u32::try_from(words.total).unwrap_or(0);
        for (word, times) in words.counts {
            let posting = self.postings.entry(word).or_default();
            posting.positions.push(position);
            posting.times.push(times.unsigned_abs());
        }
        self.rows.push(row);
        self.lengths.push(length);
        self.positions.insert(row, position);
        self.documents += 1;
        self.total_words += u64::from(length);
    }

    /// Removes a row whose text is erased or changed.
    pub fn remove(&mut self, row: i64) {
        let Some(position) = self.positions.remove(&row) else {
            return;
        };
        let position = position as usize;
        sabotage!("what-is-gone-counts-in-the-statistics", self.documents -= 1);
        self.total_words -= u64::from(self.lengths[position]);
        self.rows[position] = REMOVED;
        self.removed += 1;
    }

    /// Removes deleted positions from the lists, once there are enough of them to be worth a walk
    /// over all lists. Until then they count nowhere.
    pub fn sweep(&mut self) {
        if self.removed * 32 <= self.rows.len() {
            return;
        }
        let mut moved = Vec::with_capacity(self.rows.len());
        let mut next_position = 0u32;
        for row in &self.rows {
            moved.push(next_position);
            next_position += u32::from(*row != REMOVED);
        }
        for posting in self.postings.values_mut() {
            let is_current = |place: &u32| self.rows[*place as usize] != REMOVED;
            let mut keep = posting.positions.iter().map(is_current);
            posting.times.retain(|_| keep.next().unwrap_or(false));
            posting.positions.retain(is_current);
            posting
                .positions
                .iter_mut()
                .for_each(|place| *place = moved[*place as usize]);
        }
        self.postings
            .retain(|_, posting| !posting.positions.is_empty());
        let mut is_current = self.rows.iter().map(|row| *row != REMOVED);
        self.lengths.retain(|_| is_current.next().unwrap_or(false));
        self.rows.retain(|row| *row != REMOVED);
        self.positions
            .values_mut()
            .for_each(|place| *place = moved[*place as usize]);
        self.removed = 0;
    }

    /// The rows that hold one of these words, among `only` if that is given.
    pub fn matches(&self, terms: &[String], only: Option<&HashSet<i64>>) -> WordMatches {
        let query_words = terms::query_words(terms);
        let mut matches = WordMatches {
            scores: vec![0; self.rows.len()],
            ..WordMatches::default()
        };
        let weights: Vec<f64> = query_words
            .iter()
            .map(|word| self.add_scores(word.digest, &mut matches.scores, |parts| parts))
            .collect();
        matches.ceiling = bm25::score_bound(weights.into_iter());
        let is_held = |word: i64| {
            self.postings
                .get(&word)
                .is_some_and(|posting| self.document_count(posting) > 0)
        };
        let corrections =
            spelling::corrections(&spelling::edits_of_unknown(&query_words, is_held), is_held);
        if !corrections.is_empty() {
            matches.correction_scores = vec![0; self.rows.len()];
        }
        for (word, alike) in corrections {
            self.add_scores(word, &mut matches.correction_scores, |parts| {
                bm25::scaled(parts, alike as f64 / spelling::SIMILARITY_SCALE)
            });
        }
        let wanted = |row: i64| row != REMOVED && only.is_none_or(|only| only.contains(&row));
        let mut scored = Vec::new();
        for (position, exact) in matches.scores.iter().enumerate() {
            let score = i64::from(*exact)
                + matches
                    .correction_scores
                    .get(position)
                    .map_or(0, |corrected| i64::from(*corrected));
            if score > 0 && wanted(self.rows[position]) {
                scored.push((score, self.rows[position]));
            }
        }
        matches.best = RankedRows::new(scored);
        matches
    }

    /// Adds the score of a word to each entry that holds it, and returns the weight of the word.
    fn add_scores(&self, word: i64, scores: &mut [u32], adjust: impl Fn(f64) -> f64) -> f64 {
        let posting = self.postings.get(&word);
        let weight = bm25::idf(
            self.documents,
            posting.map_or(0, |posting| self.document_count(posting)),
        );
        let mean = self.total_words.max(1) as f64 / self.documents.max(1) as f64;
        for (position, times) in posting
            .iter()
            .flat_map(|posting| posting.positions.iter().zip(&posting.times))
        {
            let position = *position as usize;
            let added = adjust(bm25::contribution(
                weight,
                f64::from(*times),
                f64::from(self.lengths[position]),
                mean,
            ));
            scores[position] = scores[position].saturating_add(added as u32);
        }
        weight
    }

    /// The score of a row, in ones: by the words of the query, and by spelling corrections.
    pub fn score(&self, matches: &WordMatches, row: i64) -> (f64, f64) {
        let position = self.positions.get(&row).map(|position| *position as usize);
        let of = |scores: &Vec<u32>| {
            position
                .and_then(|position| scores.get(position))
                .map_or(0.0, |score| f64::from(*score) / bm25::PARTS_PER_ONE)
        };
        (of(&matches.scores), of(&matches.correction_scores))
    }

    fn document_count(&self, posting: &PostingList) -> u64 {
        if self.removed == 0 {
            return posting.positions.len() as u64;
        }
        posting
            .positions
            .iter()
            .filter(|place| self.rows[**place as usize] != REMOVED)
            .count() as u64
    }

    /// The approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let postings: usize = self
            .postings
            .values()
            .map(|posting| posting.positions.capacity() * 4 + posting.times.capacity() * 2)
            .sum();
        postings
            + self.postings.capacity() * 64
            + self.rows.capacity() * 8
            + self.lengths.capacity() * 4
            + self.positions.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const VOCABULARY: [&str; 6] = ["falcon", "river", "invoice", "paid", "falcons", "Zürich"];
    /// The words of queries: the same, and misspelt forms of them.
    const ASKED: [&str; 9] = [
        "falcon", "river", "invoice", "paid", "falcons", "zürich", "falcno", "rivers", "invoise",
    ];

    fn answer(words: &WordIndex, terms: &[String]) -> (Vec<(i64, i64)>, u64) {
        let mut matches = words.matches(terms, None);
        let found = matches.best.next(1_000).to_vec();
        for (score, row) in &found {
            let (asked, meant) = words.score(&matches, *row);
            assert_eq!(
                ((asked + meant) * bm25::PARTS_PER_ONE).round() as i64,
                *score
            );
        }
        (found, matches.ceiling.to_bits())
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

        /// An index that followed all changes gives the same results as one built from the texts
        /// that are left.
        #[test]
        fn an_incremental_index_equals_a_rebuilt_one(
            steps in prop::collection::vec((0i64..12, prop::collection::vec(0usize..6, 0..8)), 1..60),
            asked in prop::collection::vec(0usize..9, 1..4),
        ) {
            let mut followed = WordIndex::default();
            let mut texts = BTreeMap::new();
            for (row, picked) in steps {
                let text: Vec<&str> = picked.iter().map(|n| VOCABULARY[*n]).collect();
                followed.remove(row);
                texts.remove(&row);
                if !text.is_empty() {
                    followed.add(row, &text.join(" "));
                    texts.insert(row, text.join(" "));
                }
                followed.sweep();
            }
            let mut anew = WordIndex::default();
            texts.iter().for_each(|(row, text)| anew.add(*row, text));
            let terms: Vec<String> = asked.iter().map(|n| ASKED[*n].to_owned()).collect();
            prop_assert_eq!(answer(&followed, &terms), answer(&anew, &terms));
        }
    }
}
