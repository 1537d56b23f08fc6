//! The query of a lexical search: the words of the typed text that are worth a lookup.
//!
//! Words are taken as typed but lower-cased; stemming is done by the index. Common words are
//! dropped because they cost a scan of most of the memory and carry little information; a query
//! made of common words only keeps them.

use crate::policy::Policy;
use crate::rejection::Rejection;

/// The words to look up, in the order typed, each once.
#[derive(Clone, PartialEq, Eq)]
pub struct Query {
    terms: Vec<String>,
}

impl Query {
    /// Reads the text that a person typed. A text without a single letter or digit gives a query
    /// that finds nothing.
    pub fn parse(text: &str, policy: &Policy) -> Result<Query, Rejection> {
        let chars = text.chars().count();
        if text.trim().is_empty() {
            return Err(Rejection::Empty { field: "query" });
        }
        if chars > policy.query_chars_max {
            return Err(Rejection::TooLarge {
                field: "query",
                unit: "characters",
                limit: policy.query_chars_max as u64,
                actual: chars as u64,
            });
        }
        let words = words(text);
        let mut content_words: Vec<String> =
            words.iter().filter(|w| !is_common(w)).cloned().collect();
        if content_words.is_empty() {
            content_words = words;
        }
        content_words.truncate(policy.query_terms_max);
        Ok(Query {
            terms: content_words,
        })
    }

    /// The words to look up.
    #[must_use]
    pub fn terms(&self) -> &[String] {
        &self.terms
    }
}

// A query can be as private as the memory that it searches.
impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Query({} terms)", self.terms.len())
    }
}

fn words(text: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty())
    {
        let word = word.to_lowercase();
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

fn is_common(word: &str) -> bool {
    COMMON.binary_search(&word).is_ok()
}

/// English function words, sorted. Question words are among them: "when did" carries less
/// information than the words that follow.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by", "can",
    "could", "d", "did", "do", "does", "doing", "for", "from", "had", "has", "have", "having", "he", "her", "hers", "him",
    "his", "how", "i", "if", "in", "into", "is", "it", "its", "ll", "m", "may", "me", "might", "my", "of", "on", "or",
    "our", "ours", "re", "s", "shall", "she", "should", "so", "some", "t", "than", "that", "the", "their", "theirs",
    "them", "then", "there", "these", "they", "this", "those", "to", "too", "us", "ve", "very", "was", "we", "were",
    "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        Query::parse(text, &Policy::default()).unwrap().terms
    }

    #[test]
    fn stop_words_are_dropped_unless_the_query_is_only_stop_words() {
        assert_eq!(
            terms("When did Ana's flight to Lisbon leave?"),
            ["ana", "flight", "lisbon", "leave"]
        );
        assert_eq!(terms("to be or not to be"), ["not"]);
        assert_eq!(terms("who are you"), ["who", "are", "you"]);
        assert_eq!(terms("Zürich ZÜRICH 北京"), ["zürich", "北京"]);
        assert_eq!(terms("\" OR ) NEAR("), ["near"]);
        assert_eq!(terms("!?"), Vec::<String>::new());
    }

    #[test]
    fn the_stop_word_table_is_sorted() {
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn queries_are_bounded_in_length_and_terms() {
        let policy = Policy::default();
        assert_eq!(
            Query::parse("  ", &policy).unwrap_err().field(),
            Some("query")
        );
        assert_eq!(
            Query::parse(&"x".repeat(4_097), &policy)
                .unwrap_err()
                .field(),
            Some("query")
        );
        let many: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        assert_eq!(terms(&many.join(" ")).len(), policy.query_terms_max);
    }
}
