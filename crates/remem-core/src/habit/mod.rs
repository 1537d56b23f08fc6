//! Habit: whether a sentence states a way of working ("always …", "use … for …", "when …, I …"),
//! and how firmly. The words are data (`english`), sentences come from `phrase`. It does not decide
//! how a statement is used.
//!
//! A missed statement is better than a wrong one: a cue must be at the beginning of its clause, so
//! that a report, a question or a story about the past is no habit.

mod english;
pub(crate) mod phrase;

use english::*;
use phrase::Sentence;

/// The firmness of a stated way of working.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// The sentence says that it holds from now on, and is remembered beyond its session.
    Stated,
    /// The sentence asks or mentions a custom, perhaps for this once.
    Plain,
}

/// The way of working that a sentence states, if it states one.
pub(crate) fn habit(sentence: &Sentence<'_>) -> Option<Habit> {
    if sentence.question || sentence.quoted {
        return None;
    }
    let at = opening(sentence);
    let after_phrase = sentence.any(at, STANDING).map(|count| at + count);
    if after_phrase.is_some_and(|at| sentence.words.len() >= at + 2) || trails(sentence, at) {
        return Some(Habit::Stated);
    }
    let is_lasting = !sentence.has(at, ONE_OFF);
    if is_lasting && stated(sentence, at) {
        return Some(Habit::Stated);
    }
    (customary(sentence, at) || commands(sentence, at) || stated(sentence, at))
        .then_some(Habit::Plain)
}

/// The index of the first word after opening words: "please", "ok, so".
pub(crate) fn opening(sentence: &Sentence<'_>) -> usize {
    let mut at = 0;
    while let Some(count) = sentence.any(at, OPENERS) {
        at += count;
    }
    at
}

/// Whether "from now on" or the like follows a command.
fn trails(sentence: &Sentence<'_>, at: usize) -> bool {
    let phrase = |count: &usize| {
        sentence
            .words
            .len()
            .checked_sub(*count)
            .filter(|from| *from > at + 1)
    };
    let ends = |count: usize| {
        phrase(&count).is_some_and(|from| sentence.any(from, STANDING) == Some(count))
    };
    (1..=4).any(ends) && (commands(sentence, at) || stated(sentence, at) || promises(sentence, at))
}

/// "I sign", "we deploy".
fn promises(sentence: &Sentence<'_>, at: usize) -> bool {
    SPEAKERS.contains(&sentence.word(at)) && acts(sentence, at + 1)
}

/// Whether a clause states a lasting rule in one of the known forms.
fn stated(sentence: &Sentence<'_>, at: usize) -> bool {
    firm(sentence, at)
        || conditional(sentence, at)
        || prefers(sentence, at)
        || tool(sentence, at)
        || shape(sentence, at)
}

/// "always sign", "never deploy", "don't page", and the same with a subject.
fn firm(sentence: &Sentence<'_>, at: usize) -> bool {
    let forbids =
        |count| works(sentence, at + count) && !DEFINITE.contains(&sentence.word(at + count + 1));
    always(sentence, at) || sentence.any(at, DO_NOT).is_some_and(forbids)
}

/// "always sign", "the team never deploys".
fn always(sentence: &Sentence<'_>, at: usize) -> bool {
    let at = at + sentence.any(at, PEOPLE).unwrap_or(0);
    ["always", "never"].contains(&sentence.word(at)) && acts(sentence, at + 1)
}

/// "when reviewing rules, I check the sources", "whenever a scan fails, open a ticket", "if it
/// fails, never promote it".
fn conditional(sentence: &Sentence<'_>, at: usize) -> bool {
    let Some(count) = sentence.any(at, CONDITIONS) else {
        return false;
    };
    let comma = (at + count..sentence.words.len())
        .find(|at| sentence.words[*at].mark == Some(','))
        .map(|at| at + 1);
    // An action on Monday is a plan; an action when reviewing is a habit.
    let timeless = sentence.any(at, REPEATING).is_some() || sentence.word(at) == "when";
    let spoken = |at: usize| {
        timeless
            && SPEAKERS.contains(&sentence.word(at))
            && works(sentence, skip_adverb(sentence, at + 1))
    };
    if let Some(then) = comma {
        let then = then + sentence.any(then, OPENERS).unwrap_or(0);
        let asked =
            general(sentence, at, then) && (firm(sentence, then) || imperative(sentence, then));
        return spoken(then) || asked || always(sentence, then);
    }
    // Without a comma only a pronoun of the speaker shows where the clause ends.
    (at + count + 2..sentence.words.len()).any(spoken)
}

/// Whether a condition recurs: "whenever …", "when reviewing", "before every release", "for
/// tickets".
fn general(sentence: &Sentence<'_>, at: usize, then: usize) -> bool {
    let head = sentence.word(at + 1);
    let any = sentence
        .find(at + 1, &["any", "each", "every"])
        .is_some_and(|place| place < then);
    let named = sentence.word(at) == "for" && !DEFINITE.contains(&head);
    sentence.any(at, REPEATING).is_some()
        || any
        || named
        || (head.len() > 4 && head.ends_with("ing"))
}

/// Whether a word may be an action that a rule can ask for or forbid.
fn works(sentence: &Sentence<'_>, at: usize) -> bool {
    acts(sentence, at) && !NOT_FORBIDDEN.contains(&sentence.word(at))
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
fn prefers(sentence: &Sentence<'_>, at: usize) -> bool {
    let verb = |at: usize| {
        sentence
            .any(at, PREFER)
            .filter(|count| sentence.words.len() > at + count)
    };
    if verb(at).is_some() && sentence.word(at) != "prefers" {
        return true;
    }
    // A name of one or two words may come before the verb.
    (at + 1..at + 3).any(|at| verb(at).is_some())
}

/// "use tabs for code", "use Linear instead of Jira".
fn tool(sentence: &Sentence<'_>, at: usize) -> bool {
    let at = at + usize::from(SPEAKERS.contains(&sentence.word(at)));
    let used = sentence.word(at) == "use" && !NAMED_USES.contains(&sentence.word(at + 1));
    used && sentence
        .find(at + 2, &["for", "when", "whenever", "instead", "as"])
        .is_some_and(|place| place + 1 < sentence.words.len())
}

/// "format dates as ISO", "send reports in Slack".
fn shape(sentence: &Sentence<'_>, at: usize) -> bool {
    let named = sentence
        .words
        .get(at)
        .is_some_and(|word| word.mark.is_none())
        && !DEFINITE.contains(&sentence.word(at + 1));
    let shapes = SHAPING.contains(&sentence.word(at)) && named && !sentence.has(at, FINITE);
    shapes
        && sentence
            .find(at + 2, &["as", "in"])
            .is_some_and(|place| place + 1 < sentence.words.len())
}

/// "I usually start with the diff".
fn customary(sentence: &Sentence<'_>, at: usize) -> bool {
    let speaks = sentence.any(at, PEOPLE).unwrap_or(0);
    speaks > 0 && CUSTOM.contains(&sentence.word(at + speaks)) && acts(sentence, at + speaks + 1)
}

/// A command: a fixed phrase ("make sure …"), or a verb with its object.
fn commands(sentence: &Sentence<'_>, at: usize) -> bool {
    let standing = sentence
        .any(at, COMMANDS)
        .is_some_and(|count| sentence.words.len() > at + count);
    standing || forbids(sentence, at) || imperative(sentence, at) || asks_when(sentence, at)
}

/// "don't page the team".
fn forbids(sentence: &Sentence<'_>, at: usize) -> bool {
    sentence
        .any(at, DO_NOT)
        .is_some_and(|count| works(sentence, at + count))
}

/// "when you are done, send it".
fn asks_when(sentence: &Sentence<'_>, at: usize) -> bool {
    let comma = (at..sentence.words.len()).find(|at| sentence.words[*at].mark == Some(','));
    let then = comma.map(|comma| comma + 1 + sentence.any(comma + 1, OPENERS).unwrap_or(0));
    sentence.any(at, CONDITIONS).is_some()
        && then.is_some_and(|then| imperative(sentence, then) || forbids(sentence, then))
}

/// A verb at the beginning of a clause, with an object after it.
fn imperative(sentence: &Sentence<'_>, at: usize) -> bool {
    let verb = sentence.word(at);
    let next = sentence.word(at + 1);
    let joined = sentence
        .words
        .get(at)
        .is_some_and(|word| word.mark.is_none())
        && !next.is_empty();
    let joined = joined && !NAMED_USES.contains(&next);
    let object = OBJECTS.contains(&next);
    joined
        && ((NOUN_VERBS.contains(&verb) && object)
            || (VERBS.contains(&verb) && (object || !sentence.has(at + 1, FINITE))))
}

/// Whether the word at an index may be an action: it may be a verb and is not a past form.
fn acts(sentence: &Sentence<'_>, at: usize) -> bool {
    let word = sentence.word(at);
    !word.is_empty() && !is_past(word) && !NO_DEEDS.contains(&word)
}

/// Whether a word is a past form of a verb.
pub(crate) fn is_past(word: &str) -> bool {
    PAST.contains(&word) || (word.len() > 4 && word.ends_with("ed") && !word.ends_with("eed"))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
