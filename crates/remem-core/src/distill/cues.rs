//! Owns the estimate how memorable a text is, from its form alone.
//!
//! Statements with instants, numbers, names and actions are asked for later; praise, thanks and
//! questions are not. The cues are English; a text in another language has few of them and is
//! weighted by its words alone.

use super::concepts;

/// The unit of factors: this value means a factor of one.
pub(super) const FACTOR_ONE: u64 = 1_024;

/// The factor of a unit, as a multiple of 1/[`ONE`]; each cue multiplies it by a number of
/// sixteenths.
pub(super) fn memorability_factor(text: &str) -> u64 {
    let body = strip_label(text);
    let words: Vec<String> = concepts::words(body).collect();
    let has = |table: &[&str]| {
        words
            .iter()
            .any(|word| table.binary_search(&word.as_str()).is_ok())
    };
    let times = |table: &[&str]| {
        words
            .iter()
            .filter(|word| table.binary_search(&word.as_str()).is_ok())
            .count()
    };
    let is_past = |word: &String| word.len() > 4 && word.ends_with("ed");
    let mut factor = FACTOR_ONE;
    let mut cue =
        |on: bool, sixteenths: u64| factor = if on { factor * sixteenths / 16 } else { factor };
    cue(has(FIRST_PERSON), 22);
    cue(has(TIME_WORDS), 24);
    cue(body.chars().any(char::is_numeric) || has(NUMBER_WORDS), 24);
    cue(has(PAST_FORMS) || words.iter().any(is_past), 18);
    cue(body.contains(['"', '“', '«', '「']), 19);
    let names = name_count(body);
    let addressed = times(SECOND_PERSON);
    (0..names.min(2)).for_each(|_| cue(true, 22));
    (0..addressed.min(3)).for_each(|_| cue(true, 11));
    cue(
        words
            .first()
            .is_some_and(|word| ACKNOWLEDGEMENTS.binary_search(&word.as_str()).is_ok()),
        10,
    );
    cue(body.ends_with(['?', '？']), 11);
    factor
}

/// The text without a label of up to three words before a colon, as in `Speaker: text`.
fn strip_label(text: &str) -> &str {
    match text.split_once(": ") {
        Some((label, body))
            if label.split_whitespace().count() <= 3 && !label.contains(['.', '!', '?', '\n']) =>
        {
            body
        }
        _ => text,
    }
}

/// The number of different capitalised words inside sentences.
fn name_count(text: &str) -> usize {
    let mut names: Vec<&str> = Vec::new();
    let mut inside = false;
    for word in text.split_whitespace() {
        let name = word.trim_matches(|c: char| !c.is_alphanumeric());
        let starts = word.chars().next().is_some_and(char::is_uppercase);
        if inside
            && starts
            && name.chars().count() > 1
            && !name.starts_with("I'")
            && !name.starts_with("I’")
            && !names.contains(&name)
        {
            names.push(name);
        }
        inside = word.ends_with(|c: char| c.is_lowercase() || c == ',');
    }
    names.len()
}

const FIRST_PERSON: &[&str] = &["i", "me", "mine", "my", "myself", "our", "ours", "us", "we"];

const SECOND_PERSON: &[&str] = &["you", "your", "yours", "yourself"];

const NUMBER_WORDS: &[&str] = &[
    "eight", "eleven", "five", "four", "hundred", "nine", "once", "seven", "six", "ten", "thirty",
    "thousand", "three", "twelve", "twenty", "twice", "two",
];

const TIME_WORDS: &[&str] = &[
    "ago",
    "april",
    "august",
    "days",
    "december",
    "evening",
    "february",
    "first",
    "friday",
    "january",
    "july",
    "june",
    "last",
    "march",
    "monday",
    "month",
    "months",
    "morning",
    "next",
    "november",
    "october",
    "recently",
    "saturday",
    "september",
    "since",
    "sunday",
    "thursday",
    "today",
    "tomorrow",
    "tonight",
    "tuesday",
    "wednesday",
    "week",
    "weekend",
    "weeks",
    "year",
    "years",
    "yesterday",
];

/// Past forms that do not end in -ed.
const PAST_FORMS: &[&str] = &[
    "ate", "became", "been", "began", "bought", "built", "came", "did", "felt", "found", "gave",
    "got", "had", "kept", "left", "lost", "made", "met", "ran", "read", "said", "saw", "told",
    "took", "was", "went", "were", "won", "wrote",
];

/// First words of replies that only acknowledge.
const ACKNOWLEDGEMENTS: &[&str] = &[
    "absolutely",
    "awesome",
    "cool",
    "definitely",
    "glad",
    "great",
    "nice",
    "no",
    "sounds",
    "sure",
    "thank",
    "thanks",
    "that",
    "wow",
    "yeah",
    "yep",
    "you",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cue_tables_are_sorted() {
        for table in [
            FIRST_PERSON,
            SECOND_PERSON,
            NUMBER_WORDS,
            TIME_WORDS,
            PAST_FORMS,
            ACKNOWLEDGEMENTS,
        ] {
            assert!(table.is_sorted(), "{table:?}");
        }
    }

    #[test]
    fn facts_score_above_small_talk() {
        let facts = [
            "I adopted two cats in Oslo last May.",
            "Speaker: We met on 3 May.",
            "My train to Bern leaves at 9.",
        ];
        let talk = [
            "Wow, that's cool!",
            "Speaker: Thanks, you are so kind!",
            "How are you? What did you do?",
            "Great, your plan!",
        ];
        assert!(
            facts
                .iter()
                .all(|text| memorability_factor(text) > 2 * FACTOR_ONE),
            "{:?}",
            facts.map(memorability_factor)
        );
        assert!(
            talk.iter()
                .all(|text| memorability_factor(text) < FACTOR_ONE),
            "{:?}",
            talk.map(memorability_factor)
        );
        assert_eq!(
            [
                memorability_factor("Le chat dort sous la table."),
                memorability_factor("Speaker: Le chat dort sous la table."),
                memorability_factor("")
            ],
            [FACTOR_ONE; 3]
        );
    }

    #[test]
    fn names_are_capitalised_words_inside_a_sentence() {
        assert_eq!(
            name_count("The train left for Oslo and I'm off. Then Bern, Oslo too"),
            2
        );
        assert_eq!(name_count("Nothing. Here! At all"), 0);
    }
}
