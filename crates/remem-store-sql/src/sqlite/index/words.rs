//! The words of a memory: for each word the entries that hold it.

use super::Best;
use crate::{bm25, spelling, terms};
use remem_core::sabotage;
use std::collections::{HashMap, HashSet};

/// The row id at the position of a removed entry.
const GONE: i64 = i64::MIN;

/// The index of the words of a memory.
#[derive(Default)]
pub(crate) struct Words {
    postings: HashMap<i64, Posting>,
    /// The row id at each position, and its number of words.
    rows: Vec<i64>,
    lengths: Vec<u32>,
    places: HashMap<i64, u32>,
    documents: u64,
    words: u64,
    gone: usize,
}

/// The positions of the entries that hold a word, and its count in each.
#[derive(Default)]
struct Posting {
    places: Vec<u32>,
    times: Vec<u16>,
}

/// The result of a query for words.
#[derive(Default)]
pub(crate) struct Matches {
    /// The matching rows with their scores, in millionths.
    pub best: Best,
    /// The scores by position, for rows that were found by their vectors: by the words of the
    /// query, and by spelling corrections.
    scores: Vec<u32>,
    meant: Vec<u32>,
    /// The score that an entry approaches that holds every word many times.
    pub ceiling: f64,
}

impl Words {
    /// Adds the text of a row.
    pub fn add(&mut self, row: i64, text: &str) {
        let Ok(position) = u32::try_from(self.rows.len()) else {
            return;
        };
        let words = terms::words(text);
        let length = u32::try_from(words.total).unwrap_or(0);
        for (word, times) in words.counts {
            let posting = self.postings.entry(word).or_default();
            posting.places.push(position);
            posting.times.push(times.unsigned_abs());
        }
        self.rows.push(row);
        self.lengths.push(length);
        self.places.insert(row, position);
        self.documents += 1;
        self.words += u64::from(length);
    }

    /// Removes a row whose text is erased or changed.
    pub fn remove(&mut self, row: i64) {
        let Some(position) = self.places.remove(&row) else {
            return;
        };
        let position = position as usize;
        sabotage!("what-is-gone-counts-in-the-statistics", self.documents -= 1);
        self.words -= u64::from(self.lengths[position]);
        self.rows[position] = GONE;
        self.gone += 1;
    }

    /// Removes deleted positions from the lists, once there are enough of them to be worth a walk
    /// over all lists. Until then they count nowhere.
    pub fn sweep(&mut self) {
        if self.gone * 32 <= self.rows.len() {
            return;
        }
        let mut moved = Vec::with_capacity(self.rows.len());
        let mut next_position = 0u32;
        for row in &self.rows {
            moved.push(next_position);
            next_position += u32::from(*row != GONE);
        }
        for posting in self.postings.values_mut() {
            let is_current = |place: &u32| self.rows[*place as usize] != GONE;
            let mut keep = posting.places.iter().map(is_current);
            posting.times.retain(|_| keep.next().unwrap_or(false));
            posting.places.retain(is_current);
            posting
                .places
                .iter_mut()
                .for_each(|place| *place = moved[*place as usize]);
        }
        self.postings
            .retain(|_, posting| !posting.places.is_empty());
        let mut is_current = self.rows.iter().map(|row| *row != GONE);
        self.lengths.retain(|_| is_current.next().unwrap_or(false));
        self.rows.retain(|row| *row != GONE);
        self.places
            .values_mut()
            .for_each(|place| *place = moved[*place as usize]);
        self.gone = 0;
    }

    /// The rows that hold one of these words, among `only` if that is given.
    pub fn matches(&self, terms: &[String], only: Option<&HashSet<i64>>) -> Matches {
        let query_words = terms::asked(terms);
        let mut matches = Matches {
            scores: vec![0; self.rows.len()],
            ..Matches::default()
        };
        let weights: Vec<f64> = query_words
            .iter()
            .map(|word| self.count(word.word, &mut matches.scores, |parts| parts))
            .collect();
        matches.ceiling = bm25::best(weights.into_iter());
        let is_held = |word: i64| {
            self.postings
                .get(&word)
                .is_some_and(|posting| self.holding(posting) > 0)
        };
        let corrections = spelling::meant(&spelling::slips(&query_words, is_held), is_held);
        if !corrections.is_empty() {
            matches.meant = vec![0; self.rows.len()];
        }
        for (word, alike) in corrections {
            self.count(word, &mut matches.meant, |parts| {
                bm25::lessened(parts, alike as f64 / spelling::ALIKE)
            });
        }
        let wanted = |row: i64| row != GONE && only.is_none_or(|only| only.contains(&row));
        let mut scored = Vec::new();
        for (position, exact) in matches.scores.iter().enumerate() {
            let score = i64::from(*exact)
                + matches
                    .meant
                    .get(position)
                    .map_or(0, |corrected| i64::from(*corrected));
            if score > 0 && wanted(self.rows[position]) {
                scored.push((score, self.rows[position]));
            }
        }
        matches.best = Best::of(scored);
        matches
    }

    /// Adds the score of a word to each entry that holds it, and returns the weight of the word.
    fn count(&self, word: i64, scores: &mut [u32], adjust: impl Fn(f64) -> f64) -> f64 {
        let posting = self.postings.get(&word);
        let weight = bm25::weight(
            self.documents,
            posting.map_or(0, |posting| self.holding(posting)),
        );
        let mean = self.words.max(1) as f64 / self.documents.max(1) as f64;
        for (position, times) in posting
            .iter()
            .flat_map(|posting| posting.places.iter().zip(&posting.times))
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
    pub fn score(&self, matches: &Matches, row: i64) -> (f64, f64) {
        let position = self.places.get(&row).map(|position| *position as usize);
        let of = |scores: &Vec<u32>| {
            position
                .and_then(|position| scores.get(position))
                .map_or(0.0, |score| f64::from(*score) / bm25::PARTS)
        };
        (of(&matches.scores), of(&matches.meant))
    }

    fn holding(&self, posting: &Posting) -> u64 {
        if self.gone == 0 {
            return posting.places.len() as u64;
        }
        posting
            .places
            .iter()
            .filter(|place| self.rows[**place as usize] != GONE)
            .count() as u64
    }

    /// The approximate size in bytes.
    pub fn bytes(&self) -> usize {
        let postings: usize = self
            .postings
            .values()
            .map(|posting| posting.places.capacity() * 4 + posting.times.capacity() * 2)
            .sum();
        postings
            + self.postings.capacity() * 64
            + self.rows.capacity() * 8
            + self.lengths.capacity() * 4
            + self.places.capacity() * 16
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

    fn answer(words: &Words, terms: &[String]) -> (Vec<(i64, i64)>, u64) {
        let mut matches = words.matches(terms, None);
        let found = matches.best.next(1_000).to_vec();
        for (score, row) in &found {
            let (asked, meant) = words.score(&matches, *row);
            assert_eq!(((asked + meant) * bm25::PARTS).round() as i64, *score);
        }
        (found, matches.ceiling.to_bits())
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

        /// An index that followed all changes gives the same results as one built from the texts
        /// that are left.
        #[test]
        fn an_index_that_followed_is_like_one_made_anew(
            steps in prop::collection::vec((0i64..12, prop::collection::vec(0usize..6, 0..8)), 1..60),
            asked in prop::collection::vec(0usize..9, 1..4),
        ) {
            let mut followed = Words::default();
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
            let mut anew = Words::default();
            texts.iter().for_each(|(row, text)| anew.add(*row, text));
            let terms: Vec<String> = asked.iter().map(|n| ASKED[*n].to_owned()).collect();
            prop_assert_eq!(answer(&followed, &terms), answer(&anew, &terms));
        }
    }
}
