//! Spelling corrections: the words one edit away from a query word that a memory does not hold. An
//! edit is a letter too many, one too few, another one, or two that changed places.
//!
//! Edits are made from the query word and looked up like any other word. So no list of a memory's
//! words is kept for this, nothing of it can outlive a text that was forgotten, and writing costs
//! nothing. May not look anything up: the store says which words are held.

use crate::terms::{QueryWord, stem_digest};
use remem_core::Trigrams;
use remem_core::sabotage;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Shorter words have too many others near them.
const LETTERS_MIN: usize = 4;
/// Words longer than this are seldom words of a language.
const LETTERS_MAX: usize = 24;
/// Edits are made for at most this many words of a query.
const UNKNOWN_WORDS_MAX: usize = 8;
/// At most this many corrections replace one unknown word.
const CORRECTIONS_MAX: usize = 3;
/// Similarities are whole numbers of this many parts.
pub(crate) const SIMILARITY_SCALE: f64 = 1_000.0;

/// The words one edit away from a word that is not held: the digest of each, and its spelling.
pub(crate) struct WordEdits<'a> {
    query_word: &'a str,
    edits: Vec<(i64, String)>,
}

/// The edits of each query word that the memory does not hold (`held` looks up a digest).
pub(crate) fn edits_of_unknown(
    asked: &[QueryWord],
    held: impl Fn(i64) -> bool,
) -> Vec<WordEdits<'_>> {
    let unknown = asked.iter().filter(|asked| {
        sabotage!(
            "a-word-that-is-held-stands-for-others",
            !held(asked.digest),
            true
        ) && insertable_letters(&asked.text).is_some()
    });
    unknown
        .take(sabotage!(
            "a-misspelt-word-finds-nothing",
            UNKNOWN_WORDS_MAX,
            UNKNOWN_WORDS_MAX * 0
        ))
        .map(|asked| WordEdits {
            query_word: &asked.text,
            edits: edits1(&asked.text),
        })
        .collect()
}

impl WordEdits<'_> {
    /// The digests of all edits of this word.
    pub fn digests(&self) -> impl Iterator<Item = i64> {
        self.edits.iter().map(|(word, _)| *word)
    }
}

/// The edits that the memory holds, with their similarity in spelling to the query word (trigrams
/// in common, of all of both). At most `CORRECTIONS_MAX` for each word, the most similar first.
pub(crate) fn corrections(
    slips: &[WordEdits<'_>],
    held: impl Fn(i64) -> bool,
) -> BTreeMap<i64, i64> {
    let mut all = BTreeMap::new();
    for slips in slips {
        let own = Trigrams::of(slips.query_word);
        let mut likely: BTreeMap<i64, i64> = BTreeMap::new();
        for (word, written) in slips.edits.iter().filter(|(word, _)| held(*word)) {
            let (both, either) = own.similarity(&Trigrams::of(written));
            let alike = (both * SIMILARITY_SCALE as usize / either.max(1)) as i64;
            likely
                .entry(*word)
                .and_modify(|known| *known = alike.max(*known))
                .or_insert(alike);
        }
        let mut likely: Vec<(i64, i64)> = likely.into_iter().collect();
        likely.sort_by_key(|(word, alike)| (-alike, *word));
        for (word, alike) in likely.into_iter().take(CORRECTIONS_MAX) {
            all.entry(word)
                .and_modify(|known: &mut i64| *known = alike.max(*known))
                .or_insert(alike);
        }
    }
    all
}

/// The letters that an edit of this word may insert; `None` if it has no corrections: numbers are
/// taken literally, and a short word or one of a script of many characters has too many others near
/// it.
fn insertable_letters(written: &str) -> Option<RangeInclusive<char>> {
    let letters = written.chars().count();
    let of = |alphabet: &RangeInclusive<char>| written.chars().all(|c| alphabet.contains(&c));
    let known = || ['a'..='z', 'а'..='я', 'α'..='ω'].into_iter().find(of);
    if (LETTERS_MIN..=LETTERS_MAX).contains(&letters) {
        known()
    } else {
        None
    }
}

/// All words one edit away from this one (Norvig's `edits1`), with the digests of their stems.
fn edits1(written: &str) -> Vec<(i64, String)> {
    let Some(alphabet) = insertable_letters(written) else {
        return Vec::new();
    };
    let letters: Vec<char> = written.chars().collect();
    let mut edits = Vec::with_capacity(letters.len() * 54 + 26);
    let mut add = |before: &[char], instead: &[char], after: &[char]| {
        let edit: String = [before, instead, after].concat().into_iter().collect();
        edits.push((stem_digest(&mut edit.clone().into_bytes()), edit));
    };
    for at in 0..=letters.len() {
        let (before, after) = letters.split_at(at);
        for letter in alphabet.clone() {
            add(before, &[letter], after);
        }
        let [first, rest @ ..] = after else { continue };
        add(before, &[], rest);
        for letter in alphabet.clone().filter(|letter| letter != first) {
            add(before, &[letter], rest);
        }
        if let [second, rest @ ..] = rest
            && first != second
        {
            add(before, &[*second, *first], rest);
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::query_words;
    use std::collections::HashSet;

    fn held(texts: &[&str]) -> HashSet<i64> {
        texts
            .iter()
            .flat_map(|text| query_words(&[(*text).to_owned()]))
            .map(|asked| asked.digest)
            .collect()
    }

    fn meant_by(word: &str, vocabulary: &[&str]) -> Vec<i64> {
        let asked = query_words(&[word.to_owned()]);
        let held = held(vocabulary);
        let slips = edits_of_unknown(&asked, |word| held.contains(&word));
        let meant = corrections(&slips, |word| held.contains(&word));
        let likeness = |text: &&str| {
            self::query_words(&[(*text).to_owned()])
                .first()
                .and_then(|asked| meant.get(&asked.digest))
                .copied()
                .unwrap_or(0)
        };
        vocabulary.iter().map(likeness).collect()
    }

    #[test]
    fn one_edit_misspellings_are_corrected() {
        for (slip, word) in [
            ("katheryn", "Kathryn"),
            ("kathrn", "Kathryn"),
            ("kathrin", "Kathryn"),
            ("kuberentes", "Kubernetes"),
        ] {
            assert!(meant_by(slip, &[word, "other"])[0] > 300, "{slip}");
            assert_eq!(meant_by(slip, &[word, "other"])[1], 0);
        }
        assert!(
            meant_by("ivnoicing", &["invoiced"])[0] > 0,
            "stems meet, not forms"
        );
        assert!(meant_by("москвв", &["Москва"])[0] > 0 && meant_by("αθηνη", &["Αθηνα"])[0] > 0);
    }

    #[test]
    fn known_short_and_numeric_words_are_not_corrected() {
        assert_eq!(
            meant_by("kathryn", &["Kathryn", "Kathrin"]),
            [0, 0],
            "a word that is held is meant as it stands"
        );
        assert_eq!(meant_by("cat", &["car"]), [0], "too short");
        assert_eq!(meant_by("20231", &["20232", "2023"]), [0, 0], "a number");
        assert_eq!(meant_by("v18a", &["v19a"]), [0], "nor this");
        assert_eq!(meant_by("melany", &["Melanie"]), [0], "two slips");
        assert_eq!(
            meant_by(&"a".repeat(25), &[&"a".repeat(24)]),
            [0],
            "too long"
        );
        assert_eq!(meant_by("東京都庁", &["東京都内"]), [0]);
    }

    #[test]
    fn corrections_per_word_and_unknown_words_are_capped() {
        let near = ["carts", "card", "care", "carb", "cars", "art"];
        let counted = meant_by("carx", &near)
            .into_iter()
            .filter(|alike| *alike > 0)
            .count();
        assert_eq!(counted, CORRECTIONS_MAX);
        let words: Vec<String> = ('a'..='z').map(|c| format!("unknown{c}")).collect();
        assert_eq!(
            edits_of_unknown(&query_words(&words), |_| false).len(),
            UNKNOWN_WORDS_MAX
        );
    }
}
