//! Owns the similarity measure of consolidation: sets of trigrams, defined as PostgreSQL's
//! `pg_trgm` defines them on a UTF-8 database, so that a figure computed here is the figure that
//! `similarity()` shows. A set of trigrams ignores case, punctuation and the order of words;
//! `guard` checks these.

pub(super) use crate::trgm::{each_trigram, is_word, to_lower};

/// The set of trigrams, sorted.
#[must_use]
pub fn trigrams(text: &str) -> Vec<u32> {
    let mut set = Vec::with_capacity(text.len() + 8);
    each_trigram(text, |trigram| set.push(trigram));
    set.sort_unstable();
    set.dedup();
    set
}

/// The sizes of the intersection and of the union of two sorted sets.
#[must_use]
pub fn intersection_and_union(a: &[u32], b: &[u32]) -> (u64, u64) {
    let mut i = 0;
    let mut j = 0;
    let mut common = 0;
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    (common as u64, (a.len() + b.len() - common) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigrams_match_pg_trgm() {
        let spelled = |text: &str| -> Vec<String> {
            trigrams(text)
                .iter()
                .map(|t| {
                    t.to_be_bytes()[1..]
                        .iter()
                        .map(|&b| char::from(b))
                        .collect()
                })
                .collect()
        };
        assert_eq!(spelled("cat"), ["  c", " ca", "at ", "cat"]);
        assert_eq!(spelled("Cat, CAT!"), spelled("cat"));
        assert_eq!(spelled("a_b"), ["  a", "  b", " a ", " b "]);
        assert_eq!(
            intersection_and_union(&trigrams("word"), &trigrams("two words")),
            (4, 11)
        );
        assert_eq!(
            intersection_and_union(&trigrams("日本語の規則"), &trigrams("日本語の規則です")),
            (6, 10)
        );
        assert_eq!(trigrams("!? 👍"), Vec::<u32>::new());
    }

    #[test]
    fn non_latin_digits_are_word_characters_fractions_are_not() {
        assert!(['٣', '९', '５', 'é', '語'].into_iter().all(is_word));
        assert!(['½', '²', '_', '\u{66a}'].into_iter().all(|c| !is_word(c)));
        assert_eq!((to_lower('İ'), to_lower('Σ')), ('i', 'σ'));
    }
}
