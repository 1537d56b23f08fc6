//! Words that somebody may have meant: those one slip of the pen away from a word that a memory
//! does not hold. A slip is a letter too many, one too few, another one, or two that changed
//! places.
//!
//! Slips are made from the word that was asked for and looked up like any other word. So no list of
//! a memory's words is kept for this, nothing of it can outlive a text that was forgotten, and
//! writing costs nothing. May not look anything up: the store says what is held.

use crate::terms::{Asked, digest_of};
use remem_core::Trigrams;
use remem_core::sabotage;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Shorter words have too many others near them.
const LETTERS_MIN: usize = 4;
/// Longer ones are seldom words.
const LETTERS_MAX: usize = 24;
/// For so many words of a question slips are made, at the most.
const UNKNOWN_MAX: usize = 8;
/// So many words stand for one that is not held, at the most.
const MEANT_MAX: usize = 3;
/// A likeness is in parts of this.
pub(crate) const ALIKE: f64 = 1_000.0;

/// Words one slip away from one that is not held: the digest of each, and how it is written.
pub(crate) struct Slips<'a> {
    written: &'a str,
    words: Vec<(i64, String)>,
}

/// The slips of those words that the memory does not hold.
pub(crate) fn slips(asked: &[Asked], held: impl Fn(i64) -> bool) -> Vec<Slips<'_>> {
    let unknown = asked.iter().filter(|asked| {
        sabotage!(
            "a-word-that-is-held-stands-for-others",
            !held(asked.word),
            true
        ) && alphabet(&asked.written).is_some()
    });
    unknown
        .take(sabotage!(
            "a-misspelt-word-finds-nothing",
            UNKNOWN_MAX,
            UNKNOWN_MAX * 0
        ))
        .map(|asked| Slips {
            written: &asked.written,
            words: of(&asked.written),
        })
        .collect()
}

impl Slips<'_> {
    /// Digests of all of them.
    pub fn words(&self) -> impl Iterator<Item = i64> {
        self.words.iter().map(|(word, _)| *word)
    }
}

/// The words that the memory holds and that were probably meant, with how alike they are written
/// (trigrams in common, of all of both).
pub(crate) fn meant(slips: &[Slips<'_>], held: impl Fn(i64) -> bool) -> BTreeMap<i64, i64> {
    let mut all = BTreeMap::new();
    for slips in slips {
        let own = Trigrams::of(slips.written);
        let mut likely: BTreeMap<i64, i64> = BTreeMap::new();
        for (word, written) in slips.words.iter().filter(|(word, _)| held(*word)) {
            let (both, either) = own.similarity(&Trigrams::of(written));
            let alike = (both * ALIKE as usize / either.max(1)) as i64;
            likely
                .entry(*word)
                .and_modify(|known| *known = alike.max(*known))
                .or_insert(alike);
        }
        let mut likely: Vec<(i64, i64)> = likely.into_iter().collect();
        likely.sort_by_key(|(word, alike)| (-alike, *word));
        for (word, alike) in likely.into_iter().take(MEANT_MAX) {
            all.entry(word)
                .and_modify(|known: &mut i64| *known = alike.max(*known))
                .or_insert(alike);
        }
    }
    all
}

/// The letters that a slip of this word may bring in; `None` if it has none: numbers are meant as
/// they stand, and a short word or one of a script of many characters has too many others near it.
fn alphabet(written: &str) -> Option<RangeInclusive<char>> {
    let letters = written.chars().count();
    let of = |alphabet: &RangeInclusive<char>| written.chars().all(|c| alphabet.contains(&c));
    let known = || ['a'..='z', 'а'..='я', 'α'..='ω'].into_iter().find(of);
    if (LETTERS_MIN..=LETTERS_MAX).contains(&letters) {
        known()
    } else {
        None
    }
}

fn of(written: &str) -> Vec<(i64, String)> {
    let Some(alphabet) = alphabet(written) else {
        return Vec::new();
    };
    let letters: Vec<char> = written.chars().collect();
    let mut found = Vec::with_capacity(letters.len() * 54 + 26);
    let mut keep = |before: &[char], instead: &[char], after: &[char]| {
        let slip: String = [before, instead, after].concat().into_iter().collect();
        found.push((digest_of(&mut slip.clone().into_bytes()), slip));
    };
    for at in 0..=letters.len() {
        let (before, after) = letters.split_at(at);
        for letter in alphabet.clone() {
            keep(before, &[letter], after);
        }
        let [first, rest @ ..] = after else { continue };
        keep(before, &[], rest);
        for letter in alphabet.clone().filter(|letter| letter != first) {
            keep(before, &[letter], rest);
        }
        if let [second, rest @ ..] = rest
            && first != second
        {
            keep(before, &[*second, *first], rest);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::asked;
    use std::collections::HashSet;

    fn held(texts: &[&str]) -> HashSet<i64> {
        texts
            .iter()
            .flat_map(|text| asked(&[(*text).to_owned()]))
            .map(|asked| asked.word)
            .collect()
    }

    fn meant_by(word: &str, vocabulary: &[&str]) -> Vec<i64> {
        let asked = asked(&[word.to_owned()]);
        let held = held(vocabulary);
        let slips = slips(&asked, |word| held.contains(&word));
        let meant = meant(&slips, |word| held.contains(&word));
        let likeness = |text: &&str| {
            self::asked(&[(*text).to_owned()])
                .first()
                .and_then(|asked| meant.get(&asked.word))
                .copied()
                .unwrap_or(0)
        };
        vocabulary.iter().map(likeness).collect()
    }

    #[test]
    fn each_kind_of_slip_is_understood() {
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
    fn nothing_else_is() {
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
    fn the_likest_few_stand_for_a_word() {
        let near = ["carts", "card", "care", "carb", "cars", "art"];
        let counted = meant_by("carx", &near)
            .into_iter()
            .filter(|alike| *alike > 0)
            .count();
        assert_eq!(counted, MEANT_MAX);
        let words: Vec<String> = ('a'..='z').map(|c| format!("unknown{c}")).collect();
        assert_eq!(slips(&asked(&words), |_| false).len(), UNKNOWN_MAX);
    }
}
