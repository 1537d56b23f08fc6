//! normal: reduces the words of a statement to a normal form, so that "once the invoice clears" and
//! "the invoice has cleared" have the same key. It does not decide whether words are a statement.

use super::language::Language;
use super::sentence::{Sentence, sentences};
use std::ops::Range;

/// The longest key; a longer one is a story, not a condition.
const KEY_CHARS_MAX: usize = 200;

/// The key of a range of words: their base forms without articles and auxiliaries.
pub(super) fn statement_key(
    sentence: &Sentence,
    words: Range<usize>,
    language: &Language,
) -> Option<String> {
    let states = &language.states;
    let mut key: Vec<String> = Vec::new();
    let mut after_be = false;
    for word in sentence.words.get(words)? {
        let text = word.text.as_str();
        let bare = text.trim_end_matches(states.possessive_ending);
        let negated = text.ends_with(language.modifiers.negated_ending);
        let auxiliary = states.auxiliaries.contains(&bare) || negated;
        if negated {
            key.push(language.modifiers.negations.first()?.to_string());
        } else if !auxiliary && !states.ignored_words.contains(&bare) {
            key.extend(stable_base_form(bare, after_be, language));
        }
        after_be = states.forms_of_be.contains(&text)
            || text.ends_with(states.possessive_ending)
            || (after_be && states.ignored_words.contains(&bare));
    }
    let key = key.join(" ");
    (!key.is_empty() && key.chars().count() <= KEY_CHARS_MAX).then_some(key)
}

/// The base form of a word, reduced until it is its own base form, so that a key is its own key.
/// `None` for words that are left out of keys.
fn stable_base_form(word: &str, progressive: bool, language: &Language) -> Option<String> {
    let states = &language.states;
    let mut base = word.to_owned();
    loop {
        let next = (states.base_form)(&base, progressive);
        if next.len() >= base.len() {
            base = next;
            break;
        }
        base = next;
    }
    let idle = states.auxiliaries.contains(&base.as_str())
        || states.ignored_words.contains(&base.as_str());
    (!idle && !base.is_empty()).then_some(base)
}

/// The normal form of a key that an observer posts.
#[must_use]
pub(super) fn observation_key(text: &str, language: &Language) -> Option<String> {
    // A posted key may be written as a name: `invoice_cleared`.
    let text = text.replace('_', " ");
    let found = sentences(&text, language);
    let keys: Option<Vec<String>> = found
        .iter()
        .map(|sentence| statement_key(sentence, 0..sentence.words.len(), language))
        .collect();
    let key = keys?.join(" ");
    (!key.is_empty() && key.chars().count() <= KEY_CHARS_MAX).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::super::language::english::ENGLISH;
    use super::*;

    #[test]
    fn observation_keys_are_normalised() {
        let key = |text: &str| observation_key(text, &ENGLISH);
        for text in [
            "Invoice cleared",
            "the invoice has cleared",
            "invoice clears",
            "The invoice's cleared!",
            "invoice_cleared",
            "INVOICE CLEAR",
        ] {
            assert_eq!(key(text).as_deref(), Some("invoice clear"), "{text}");
        }
        assert_eq!(
            key("the invoice has not cleared").as_deref(),
            Some("invoice not clear")
        );
        assert_eq!(
            key("the invoice hasn't cleared").as_deref(),
            Some("invoice not clear")
        );
        for none in ["", "  ", "the", "...", &"word ".repeat(80), "\u{0}"] {
            assert_eq!(key(none), None, "{none}");
        }
    }
}
