//! Owns concepts: the words of texts without the common ones, stemmed, and weighted by how rare
//! they are.
//!
//! Queries ask for what is rare: a concept in few units weighs much, one in all of them little.

use super::units;
use std::collections::BTreeMap;

/// The sixteenths that a concept counts in a question: answers matter more.
const QUESTION_SIXTEENTHS: u64 = 5;
/// The sixteenths that a concept counts in a statement.
const STATEMENT_SIXTEENTHS: u64 = 16;

/// An occurrence of a concept in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitConcept {
    /// The number of the concept.
    pub concept: usize,
    /// The share of the concept's weight that counts here, in sixteenths.
    pub sixteenths: u64,
}

/// The concepts of all units.
pub(super) struct ConceptVocabulary {
    /// The weight of each concept, by its number.
    pub weights: Vec<u64>,
    /// The concepts of each unit.
    pub unit_concepts: Vec<Vec<UnitConcept>>,
    /// The words of each unit, beside the concepts that they were reduced to.
    unit_words: Vec<Vec<(usize, String)>>,
}

impl ConceptVocabulary {
    pub fn read<'a>(texts: impl Iterator<Item = &'a str>) -> ConceptVocabulary {
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut vocabulary = ConceptVocabulary {
            weights: Vec::new(),
            unit_concepts: Vec::new(),
            unit_words: Vec::new(),
        };
        let mut units_with: Vec<u64> = Vec::new();
        for text in texts {
            let mut parts = BTreeMap::new();
            let mut words = Vec::new();
            for (word, part) in content_words(text) {
                let next = names.len();
                let concept = *names.entry(stem(&word)).or_insert(next);
                let kept: &mut u64 = parts.entry(concept).or_insert(0);
                *kept = part.max(*kept);
                words.push((concept, word));
            }
            units_with.resize(names.len(), 0);
            parts.keys().for_each(|&concept| units_with[concept] += 1);
            vocabulary.unit_concepts.push(
                parts
                    .into_iter()
                    .map(|(concept, part)| UnitConcept {
                        concept,
                        sixteenths: part,
                    })
                    .collect(),
            );
            vocabulary.unit_words.push(words);
        }
        let units = vocabulary.unit_concepts.len() as u64;
        vocabulary.weights = units_with
            .iter()
            .map(|&with| rarity_weight(units, with))
            .collect();
        vocabulary
    }

    /// The heaviest concepts of some units, in the most frequent form there.
    pub fn topics(&self, units: &[usize], most: usize) -> Vec<String> {
        let mut forms: BTreeMap<usize, BTreeMap<&str, u64>> = BTreeMap::new();
        for (concept, word) in units.iter().flat_map(|&unit| &self.unit_words[unit]) {
            if word.chars().any(char::is_alphabetic) {
                *forms.entry(*concept).or_default().entry(word).or_default() += 1;
            }
        }
        let heaviest = |(concept, forms): (usize, BTreeMap<&str, u64>)| {
            let times: u64 = forms.values().sum();
            let usual = forms
                .iter()
                .max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(a.0)))
                .map(|(form, _)| (*form).to_owned());
            usual.map(|form| (self.weights[concept] * times, form))
        };
        let mut topics: Vec<(u64, String)> = forms.into_iter().filter_map(heaviest).collect();
        topics.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        topics
            .into_iter()
            .take(most)
            .map(|(_, form)| form)
            .collect()
    }
}

/// The weight of a concept in `with` of `units` units: `1024 · log2((units + with) / with)`,
/// rounded down. Computed by squaring, because a logarithm of floats may differ in its last bit
/// from machine to machine.
fn rarity_weight(units: u64, with: u64) -> u64 {
    const ONE: u32 = 62;
    let with = u128::from(with.max(1));
    let sum = u128::from(units) + with;
    let whole = (sum / with).ilog2();
    let mut rest = (sum << (ONE - whole.min(ONE))) / with;
    let mut bits = u64::from(whole);
    for _ in 0..10 {
        rest = (rest * rest) >> ONE;
        bits <<= 1;
        if rest >> (ONE + 1) > 0 {
            rest >>= 1;
            bits |= 1;
        }
    }
    bits
}

/// The content words of a text, lower-cased, each with the sixteenths that it counts here.
fn content_words(text: &str) -> Vec<(String, u64)> {
    let mut content_words = Vec::new();
    for (start, end) in units::sentences(text) {
        let sentence = text[start..end].trim_end();
        let part = if sentence.ends_with(['?', '？']) {
            QUESTION_SIXTEENTHS
        } else {
            STATEMENT_SIXTEENTHS
        };
        content_words.extend(
            words(sentence)
                .filter(|word| word.len() > 1 && !is_common(word))
                .map(|word| (word, part)),
        );
    }
    content_words
}

/// Runs of letters and digits, lower-cased. Scripts without spaces between words give pairs of
/// characters instead.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let runs = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|run| !run.is_empty());
    runs.flat_map(|run| {
        if run.chars().any(is_unspaced_script) {
            character_pairs(run)
        } else {
            vec![run.to_lowercase()]
        }
    })
}

/// Whether a character is of a script without spaces between words.
fn is_unspaced_script(char: char) -> bool {
    matches!(char, '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{3040}'..='\u{30FF}'
        | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

fn character_pairs(run: &str) -> Vec<String> {
    let chars: Vec<char> = run.chars().collect();
    chars
        .windows(chars.len().clamp(1, 2))
        .map(|pair| pair.iter().collect::<String>().to_lowercase())
        .collect()
}

/// A light English stemmer: removes plurals and the usual endings of verbs. Words of other
/// alphabets stay as they are.
fn stem(word: &str) -> String {
    const ENDINGS: &[(&str, &str)] = &[
        ("ies", "y"),
        ("ing", ""),
        ("ed", ""),
        ("es", ""),
        ("s", ""),
        ("ly", ""),
    ];
    if !word.is_ascii() {
        return word.to_owned();
    }
    let ending = ENDINGS
        .iter()
        .find(|(ending, _)| word.ends_with(ending) && word.len() >= ending.len() + 3);
    let mut stem = ending.map_or_else(
        || word.to_owned(),
        |(ending, new)| format!("{}{new}", &word[..word.len() - ending.len()]),
    );
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    let bytes = stem.as_bytes();
    let twice = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    if twice && !stem.ends_with(['l', 's']) && !stem.ends_with(|c: char| c.is_ascii_digit()) {
        stem.pop();
    }
    stem
}

fn is_common(word: &str) -> bool {
    COMMON.binary_search(&word).is_ok()
}

/// Words that no query asks for, sorted: function words of English with their halves around an
/// apostrophe, greetings, thanks, praise and assent, and verbs that mean little without their
/// object.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "about", "absolutely", "agreed", "ain", "all", "also", "always", "am", "amazing", "an", "and", "any", "appreciate",
    "are", "aren", "as", "at", "awesome", "be", "beautiful", "been", "being", "best", "but", "by", "bye", "can", "care",
    "congrats", "congratulations", "cool", "could", "couldn", "definitely", "did", "didn", "do", "does", "doesn", "doing",
    "don", "exactly", "excited", "exciting", "fantastic", "feel", "for", "from", "fun", "get", "glad", "go", "going",
    "good", "got", "great", "had", "hadn", "haha", "happy", "has", "hasn", "have", "haven", "having", "he", "hear",
    "hello", "her", "hers", "hey", "hi", "him", "his", "hope", "how", "if", "impressive", "in", "incredible", "inspiring",
    "interesting", "into", "is", "isn", "it", "its", "just", "keep", "know", "let", "like", "ll", "lol", "look", "looks",
    "lot", "love", "lovely", "luck", "made", "make", "makes", "may", "me", "means", "might", "more", "much", "mustn", "my",
    "nice", "no", "of", "oh", "ok", "okay", "on", "one", "or", "our", "ours", "please", "proud", "re", "really", "right",
    "see", "shall", "she", "should", "shouldn", "so", "some", "something", "soon", "sorry", "sounds", "super", "sure",
    "take", "talk", "than", "thank", "thanks", "that", "the", "their", "theirs", "them", "then", "there", "these", "they",
    "thing", "things", "think", "this", "those", "to", "too", "totally", "us", "ve", "very", "was", "wasn", "we",
    "welcome", "well", "were", "weren", "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with",
    "won", "wonderful", "worries", "would", "wouldn", "wow", "yeah", "yep", "yes", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_word_table_is_sorted() {
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn rarity_weights_are_logarithms_rounded_down() {
        // 1024 · log2 of 2, 3, 11, 1.01 and 100001.
        let found = [(1, 1), (2, 1), (10, 1), (1, 100), (100_000, 1)]
            .map(|(units, with)| rarity_weight(units, with));
        assert_eq!(found, [1_024, 1_623, 3_542, 14, 17_008]);
        assert_eq!(rarity_weight((1 << 40) - 1, 1), 40 << 10);
    }

    #[test]
    fn inflected_forms_share_a_stem() {
        for (a, b) in [
            ("hikes", "hiking"),
            ("stopped", "stop"),
            ("cities", "city"),
            ("painted", "painting"),
            ("bakes", "baked"),
        ] {
            assert_eq!(stem(a), stem(b), "{a} {b}");
        }
        for (a, b) in [("2011", "201"), ("bus", "busy"), ("élan", "élans")] {
            assert_ne!(stem(a), stem(b), "{a} {b}");
        }
    }

    #[test]
    fn words_of_questions_weigh_less_and_greetings_nothing() {
        assert_eq!(
            content_words("Hey! I bought skis. Where is Oslo?"),
            [
                ("bought".into(), 16),
                ("skis".into(), 16),
                ("oslo".into(), 5)
            ]
        );
        assert_eq!(content_words("Thanks, that's great!"), []);
        assert_eq!(
            words("東京都 Zürich").collect::<Vec<_>>(),
            ["東京", "京都", "zürich"]
        );
    }

    #[test]
    fn topics_are_the_heaviest_concepts_in_their_commonest_form() {
        let texts = [
            "Skiing in Oslo 2024",
            "skiing lessons",
            "ski pass, ski boots, skiing",
            "a train",
        ];
        let vocabulary = ConceptVocabulary::read(texts.into_iter());
        assert_eq!(vocabulary.topics(&[0, 1, 2], 2), ["skiing", "boots"]);
        assert_eq!(vocabulary.topics(&[3], 8), ["train"]);
    }
}
