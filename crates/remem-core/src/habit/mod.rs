//! Habit: whether a sentence states a way of working ("always …", "use … for …", "when …, I …"),
//! and how firmly. The words are data (`english`), sentences come from `phrase`. It does not decide
//! how a statement is used.
//!
//! A missed statement is better than a wrong one: a cue must be at the beginning of its clause, so
//! that a report, a question or a story about the past is not a habit.

mod english;
pub(crate) mod phrase;

use english::*;
use phrase::Sentence;

/// The firmness of a stated way of working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// The sentence says that it holds from now on, and is remembered beyond its session.
    Lasting,
    /// The sentence asks or mentions a custom, perhaps for this once.
    Casual,
}

/// The way of working that a sentence states, if it states one.
pub(crate) fn classify_habit(sentence: &Sentence<'_>) -> Option<Habit> {
    if sentence.is_question || sentence.is_quoted {
        return None;
    }
    let at = opening_words_end(sentence);
    let after_phrase = sentence
        .longest_phrase_at(at, LASTING_PHRASES)
        .map(|count| at + count);
    if after_phrase.is_some_and(|at| sentence.words.len() >= at + 2)
        || ends_in_lasting_phrase(sentence, at)
    {
        return Some(Habit::Lasting);
    }
    let is_lasting = !sentence.contains_any(at, ONE_OFF);
    if is_lasting && states_rule(sentence, at) {
        return Some(Habit::Lasting);
    }
    (states_custom(sentence, at) || is_command(sentence, at) || states_rule(sentence, at))
        .then_some(Habit::Casual)
}

/// The index of the first word after opening words: "please", "ok, so".
pub(crate) fn opening_words_end(sentence: &Sentence<'_>) -> usize {
    let mut at = 0;
    while let Some(count) = sentence.longest_phrase_at(at, OPENERS) {
        at += count;
    }
    at
}

/// Whether "from now on" or the like follows a command.
fn ends_in_lasting_phrase(sentence: &Sentence<'_>, at: usize) -> bool {
    let phrase = |count: &usize| {
        sentence
            .words
            .len()
            .checked_sub(*count)
            .filter(|from| *from > at + 1)
    };
    let ends = |count: usize| {
        phrase(&count)
            .is_some_and(|from| sentence.longest_phrase_at(from, LASTING_PHRASES) == Some(count))
    };
    (1..=4).any(ends)
        && (is_command(sentence, at) || states_rule(sentence, at) || speaker_acts(sentence, at))
}

/// "I sign", "we deploy".
fn speaker_acts(sentence: &Sentence<'_>, at: usize) -> bool {
    SPEAKERS.contains(&sentence.word(at)) && may_be_action(sentence, at + 1)
}

/// Whether a clause states a lasting rule in one of the known forms.
fn states_rule(sentence: &Sentence<'_>, at: usize) -> bool {
    states_firm_rule(sentence, at)
        || states_conditional_rule(sentence, at)
        || states_preference(sentence, at)
        || states_tool_choice(sentence, at)
        || states_presentation(sentence, at)
}

/// "always sign", "never deploy", "don't page", and the same with a subject.
fn states_firm_rule(sentence: &Sentence<'_>, at: usize) -> bool {
    let forbids = |count| {
        is_rule_action(sentence, at + count)
            && !DEFINITE_WORDS.contains(&sentence.word(at + count + 1))
    };
    says_always_or_never(sentence, at)
        || sentence.longest_phrase_at(at, DO_NOT).is_some_and(forbids)
}

/// "always sign", "the team never deploys".
fn says_always_or_never(sentence: &Sentence<'_>, at: usize) -> bool {
    let at = at + sentence.longest_phrase_at(at, PEOPLE).unwrap_or(0);
    ["always", "never"].contains(&sentence.word(at)) && may_be_action(sentence, at + 1)
}

/// "when reviewing rules, I check the sources", "whenever a scan fails, open a ticket", "if it
/// fails, never promote it".
fn states_conditional_rule(sentence: &Sentence<'_>, at: usize) -> bool {
    let Some(count) = sentence.longest_phrase_at(at, CONDITIONS) else {
        return false;
    };
    let comma = (at + count..sentence.words.len())
        .find(|at| sentence.words[*at].mark == Some(','))
        .map(|at| at + 1);
    // An action on Monday is a plan; an action when reviewing is a habit.
    let timeless =
        sentence.longest_phrase_at(at, REPEATING).is_some() || sentence.word(at) == "when";
    let spoken = |at: usize| {
        timeless
            && SPEAKERS.contains(&sentence.word(at))
            && is_rule_action(sentence, skip_adverb(sentence, at + 1))
    };
    if let Some(then) = comma {
        let then = then + sentence.longest_phrase_at(then, OPENERS).unwrap_or(0);
        let asked = is_recurring_condition(sentence, at, then)
            && (states_firm_rule(sentence, then) || is_imperative(sentence, then));
        return spoken(then) || asked || says_always_or_never(sentence, then);
    }
    // Without a comma only a pronoun of the speaker shows where the clause ends.
    (at + count + 2..sentence.words.len()).any(spoken)
}

/// Whether a condition recurs: "whenever …", "when reviewing", "before every release", "for
/// tickets".
fn is_recurring_condition(sentence: &Sentence<'_>, at: usize, then: usize) -> bool {
    let head = sentence.word(at + 1);
    let any = sentence
        .find_word(at + 1, &["any", "each", "every"])
        .is_some_and(|place| place < then);
    let named = sentence.word(at) == "for" && !DEFINITE_WORDS.contains(&head);
    sentence.longest_phrase_at(at, REPEATING).is_some()
        || any
        || named
        || (head.len() > 4 && head.ends_with("ing"))
}

/// Whether a word may be an action that a rule can ask for or forbid.
fn is_rule_action(sentence: &Sentence<'_>, at: usize) -> bool {
    may_be_action(sentence, at) && !REASSURANCE_VERBS.contains(&sentence.word(at))
}

/// The index after an adverb, if there is one.
fn skip_adverb(sentence: &Sentence<'_>, at: usize) -> usize {
    if ADVERBS.contains(&sentence.word(at)) {
        at + 1
    } else {
        at
    }
}

/// "prefer tabs", "I prefer tabs", "the operator prefers tabs", "I'd rather have tabs".
fn states_preference(sentence: &Sentence<'_>, at: usize) -> bool {
    let verb = |at: usize| {
        sentence
            .longest_phrase_at(at, PREFERENCE_PHRASES)
            .filter(|count| sentence.words.len() > at + count)
    };
    if verb(at).is_some() && sentence.word(at) != "prefers" {
        return true;
    }
    // A name of one or two words may come before the verb.
    (at + 1..at + 3).any(|at| verb(at).is_some())
}

/// "use tabs for code", "use Linear instead of Jira".
fn states_tool_choice(sentence: &Sentence<'_>, at: usize) -> bool {
    let at = at + usize::from(SPEAKERS.contains(&sentence.word(at)));
    let used = sentence.word(at) == "use" && !NAMED_USES.contains(&sentence.word(at + 1));
    used && sentence
        .find_word(at + 2, &["for", "when", "whenever", "instead", "as"])
        .is_some_and(|place| place + 1 < sentence.words.len())
}

/// "format dates as ISO", "send reports in Slack".
fn states_presentation(sentence: &Sentence<'_>, at: usize) -> bool {
    let named = sentence
        .words
        .get(at)
        .is_some_and(|word| word.mark.is_none())
        && !DEFINITE_WORDS.contains(&sentence.word(at + 1));
    let shapes = PRESENTATION_VERBS.contains(&sentence.word(at))
        && named
        && !sentence.contains_any(at, FINITE_VERBS);
    shapes
        && sentence
            .find_word(at + 2, &["as", "in"])
            .is_some_and(|place| place + 1 < sentence.words.len())
}

/// "I usually start with the diff".
fn states_custom(sentence: &Sentence<'_>, at: usize) -> bool {
    let speaks = sentence.longest_phrase_at(at, PEOPLE).unwrap_or(0);
    speaks > 0
        && CUSTOM_ADVERBS.contains(&sentence.word(at + speaks))
        && may_be_action(sentence, at + speaks + 1)
}

/// A command: a fixed phrase ("make sure …"), or a verb with its object.
fn is_command(sentence: &Sentence<'_>, at: usize) -> bool {
    let standing = sentence
        .longest_phrase_at(at, COMMANDS)
        .is_some_and(|count| sentence.words.len() > at + count);
    standing
        || is_prohibition(sentence, at)
        || is_imperative(sentence, at)
        || is_conditional_command(sentence, at)
}

/// "don't page the team".
fn is_prohibition(sentence: &Sentence<'_>, at: usize) -> bool {
    sentence
        .longest_phrase_at(at, DO_NOT)
        .is_some_and(|count| is_rule_action(sentence, at + count))
}

/// "when you are done, send it".
fn is_conditional_command(sentence: &Sentence<'_>, at: usize) -> bool {
    let comma = (at..sentence.words.len()).find(|at| sentence.words[*at].mark == Some(','));
    let then =
        comma.map(|comma| comma + 1 + sentence.longest_phrase_at(comma + 1, OPENERS).unwrap_or(0));
    sentence.longest_phrase_at(at, CONDITIONS).is_some()
        && then.is_some_and(|then| is_imperative(sentence, then) || is_prohibition(sentence, then))
}

/// A verb at the beginning of a clause, with an object after it.
fn is_imperative(sentence: &Sentence<'_>, at: usize) -> bool {
    let verb = sentence.word(at);
    let next = sentence.word(at + 1);
    let joined = sentence
        .words
        .get(at)
        .is_some_and(|word| word.mark.is_none())
        && !next.is_empty();
    let joined = joined && !NAMED_USES.contains(&next);
    let object = OBJECT_OPENERS.contains(&next);
    joined
        && ((NOUN_VERBS.contains(&verb) && object)
            || (VERBS.contains(&verb) && (object || !sentence.contains_any(at + 1, FINITE_VERBS))))
}

/// Whether the word at an index may be an action: it may be a verb and is not a past form.
fn may_be_action(sentence: &Sentence<'_>, at: usize) -> bool {
    let word = sentence.word(at);
    !word.is_empty() && !is_past_form(word) && !NOT_ACTIONS.contains(&word)
}

/// Whether a word is a past form of a verb.
pub(crate) fn is_past_form(word: &str) -> bool {
    PAST_FORMS.contains(&word) || (word.len() > 4 && word.ends_with("ed") && !word.ends_with("eed"))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
