//! predicate: reads conditions that have to become true ("once the invoice clears") and statements
//! that something is true ("the invoice has cleared"). It does not decide whether a promise waits
//! for them.

use super::language::{Language, StateWords};
use super::normal::statement_key;
use super::sentence::{Gap, Sentence, sentences};
use super::when::{TimeHit, TimeMention};
use std::ops::Range;

/// A clause that begins like a condition.
pub(super) struct ConditionClause {
    /// The words of the clause, from its conjunction on.
    pub words: Range<usize>,
    /// The key of the condition; `None` if no outside observer could see when it becomes true.
    pub key: Option<String>,
    /// Whether its verb is known to describe an event or a state.
    pub has_known_verb: bool,
    /// Whether it may never become true: "if".
    pub is_conditional: bool,
    /// Whether it ends something: "until".
    pub is_limit: bool,
    /// Whether another condition is joined to it by "and" or "or".
    pub is_joined: bool,
    /// Whether its subject is indefinite: "when a file is closed".
    pub is_general: bool,
}

/// Fewest words of a key: a subject and a verb.
const KEY_WORDS_MIN: usize = 2;

/// The clauses of a sentence that begin like a condition. `cues` are the words at which requests
/// begin; a clause ends before one.
pub(super) fn condition_clauses(
    sentence: &Sentence,
    cues: &[usize],
    times: &[TimeMention],
    language: &Language,
) -> Vec<ConditionClause> {
    let states = &language.states;
    let mut found = Vec::new();
    let mut at = 0;
    while at < sentence.words.len() {
        let in_time = times.iter().any(|time| time.words.contains(&at));
        let Some(len) = sentence
            .longest_phrase_at(at, states.conjunctions)
            .filter(|_| !in_time && !sentence.words[at].is_quoted)
        else {
            at += 1;
            continue;
        };
        let start = at + len;
        let (end, verb) = clause_extent(sentence, start, cues, times, language);
        let is = |list: &[&str]| sentence.longest_phrase_at(at, list).is_some();
        let conditional = is(states.conditional);
        let waits =
            verb.filter(|verb| is_observable(sentence, start..end, verb, conditional, language));
        let key = waits
            .as_ref()
            .and_then(|_| statement_key(sentence, start..end, language))
            .filter(|key| key.split(' ').count() >= KEY_WORDS_MIN);
        let clear = waits.is_some_and(|verb| verb.is_known);
        let joined = sentence
            .longest_phrase_at(end, language.modifiers.conjunctions)
            .is_some()
            && sentence.gap(end) == Gap::Space;
        let general = sentence
            .longest_phrase_at(start, language.modifiers.indefinite_articles)
            .is_some();
        found.push(ConditionClause {
            words: at..end.max(start),
            key,
            has_known_verb: clear,
            is_conditional: conditional,
            is_limit: is(states.ending_conjunctions),
            is_joined: joined,
            is_general: general,
        });
        at = end.max(start);
    }
    found
}

/// The verb of a clause.
struct Verb {
    at: usize,
    is_known: bool,
    is_past: bool,
    /// Whether its form shows that it is a verb, and not a noun that is spelled the same.
    is_unambiguous: bool,
}

/// The end of a clause, and its verb.
fn clause_extent(
    sentence: &Sentence,
    start: usize,
    cues: &[usize],
    times: &[TimeMention],
    language: &Language,
) -> (usize, Option<Verb>) {
    let states = &language.states;
    let limit = (start + 1..sentence.words.len())
        .find(|&at| sentence.gap(at) != Gap::Space || cues.contains(&at));
    let limit = limit.unwrap_or(sentence.words.len());
    let verb = first_verb(sentence, start..limit, states);
    let Some(found_verb) = &verb else {
        return (limit, None);
    };
    let ends = |at: usize| {
        let time = times.iter().any(|time| time.words.start == at);
        let infinitive = sentence.word(at) == Some(states.infinitive)
            && sentence
                .word(at + 1)
                .is_some_and(|word| is_verb(word, language));
        time || infinitive
            || sentence.longest_phrase_at(at, states.clause_ends).is_some()
            || sentence
                .longest_phrase_at(at, states.conjunctions)
                .is_some()
    };
    let mut end = (found_verb.at + 1..limit)
        .find(|&at| ends(at))
        .unwrap_or(limit);
    // A preposition before a time belongs to the time ("clears on Friday"), and politeness to the
    // cue that follows.
    let leads = |word: &str| {
        language.times.prepositions.contains(&word) || language.modifiers.fillers.contains(&word)
    };
    let cut = end < sentence.words.len();
    while cut && end > found_verb.at + 1 && sentence.word(end - 1).is_some_and(leads) {
        end -= 1;
    }
    (end, verb)
}

/// Whether a word is a known verb in its base form, or a form of "be".
fn is_verb(word: &str, language: &Language) -> bool {
    language.states.verbs.contains(&word)
        || language.cues.awaited_verbs.contains(&word)
        || language.states.forms_of_be.contains(&word)
}

/// The first verb after a subject: a form of a known verb, an auxiliary with something after it, or
/// else a word that looks like an inflected form.
fn first_verb(sentence: &Sentence, words: Range<usize>, states: &StateWords) -> Option<Verb> {
    let mut looks = None;
    let mut subject = false;
    for at in words.clone() {
        let text = sentence.word(at)?;
        let (bare, joined) = text
            .strip_suffix(states.possessive_ending)
            .map_or((text, false), |bare| (bare, true));
        let base = (states.base_form)(bare, false);
        let auxiliary = states.auxiliaries.contains(&text);
        if subject && auxiliary {
            let rest = at + 1..words.end;
            let is_content = |word: &str| {
                !states.ignored_words.contains(&word) && !states.auxiliaries.contains(&word)
            };
            let clear = |word: &str| {
                states.adjectives.contains(&word)
                    || states
                        .verbs
                        .contains(&(states.base_form)(word, true).as_str())
            };
            let any = |is: &dyn Fn(&str) -> bool| {
                rest.clone().any(|at| sentence.word(at).is_some_and(is))
            };
            let past = states.past_auxiliaries.contains(&text);
            return any(&is_content).then(|| Verb {
                at,
                is_known: any(&clear),
                is_past: past,
                is_unambiguous: true,
            });
        }
        if subject && !joined && states.verbs.contains(&base.as_str()) {
            let plural = sentence
                .word(at - 1)
                .is_some_and(|before| before.ends_with(states.plural_ending));
            let shown = base != text || plural || states.unchanged_verbs.contains(&text);
            let found = Verb {
                at,
                is_known: true,
                is_past: is_past(text, &base, states),
                is_unambiguous: shown,
            };
            if shown {
                return Some(found);
            }
            // It may be a noun, as in "the nightly build failed".
            looks = looks.filter(|verb: &Verb| verb.is_known).or(Some(found));
        } else if subject && !joined && looks.is_none() && base != text {
            looks = Some(Verb {
                at,
                is_known: false,
                is_past: is_past(text, &base, states),
                is_unambiguous: false,
            });
        }
        subject |= !states.ignored_words.contains(&text) && !auxiliary;
    }
    looks
}

/// Whether a form is neither the base form nor the third person, which leaves the past.
fn is_past(word: &str, base: &str, states: &StateWords) -> bool {
    word != base && !word.ends_with(states.plural_ending)
}

/// Whether an outside observer could see when a clause becomes true.
fn is_observable(
    sentence: &Sentence,
    words: Range<usize>,
    verb: &Verb,
    conditional: bool,
    language: &Language,
) -> bool {
    let states = &language.states;
    let body = &sentence.words[words.clone()];
    let Some(first) = body.first().map(|word| word.text.as_str()) else {
        return false;
    };
    let negated = |word: &str| {
        language.modifiers.negations.contains(&word)
            || word.ends_with(language.modifiers.negated_ending)
    };
    let imagined = body.iter().any(|word| {
        let text = word.text.as_str();
        word.is_marker
            || word.is_quoted
            || states.hypothetical_verbs.contains(&text)
            || negated(text)
    });
    let subject = &sentence.words[words.start..verb.at.min(words.end)];
    let refused = subject
        .iter()
        .any(|word| states.unobservable_subjects.contains(&word.text.as_str()))
        || body
            .iter()
            .any(|word| states.figurative_words.contains(&word.text.as_str()));
    // "when creating files", "when used in headers" name no subject that could do so.
    let base = |progressive| (states.base_form)(first, progressive);
    let doing = !body[0].is_capitalised
        && (base(true) != base(false) || is_past(first, &base(false), states));
    let named = sentence
        .word(words.start + 1)
        .is_some_and(|word| states.auxiliaries.contains(&word));
    let vague = (doing && !named) || states.vague.contains(&first) || language.is_calendar(first);
    !imagined && !refused && !vague && (conditional || !verb.is_past)
}

/// The keys of the plain statements of fact in a text.
pub(super) fn assertions(text: &str, language: &Language) -> Vec<String> {
    let mut keys = Vec::new();
    for sentence in sentences(text, language) {
        if !sentence.is_question {
            statement_keys(&sentence, language, &mut keys);
        }
    }
    keys.dedup();
    keys
}

/// Adds the keys of one sentence, clause by clause. A condition or a report anywhere in it leaves
/// none.
fn statement_keys(sentence: &Sentence, language: &Language, keys: &mut Vec<String>) {
    let states = &language.states;
    let modifiers = &language.modifiers;
    let reported =
        |word: &str| modifiers.reports.contains(&word) || modifiers.doubts.contains(&word);
    let conditional = (0..sentence.words.len()).any(|at| {
        sentence
            .longest_phrase_at(at, states.conjunctions)
            .is_some()
    });
    if conditional
        || sentence
            .words
            .iter()
            .any(|word| word.is_quoted || word.is_marker || reported(&word.text))
    {
        return;
    }
    let parts = |at: &usize| {
        sentence.gap(*at) != Gap::Space
            || sentence
                .longest_phrase_at(*at, modifiers.clause_openers)
                .or_else(|| sentence.longest_phrase_at(*at, modifiers.conjunctions))
                .is_some()
    };
    let mut start = 0;
    for end in (1..=sentence.words.len()).filter(|end| *end == sentence.words.len() || parts(end)) {
        let joint = sentence
            .longest_phrase_at(start, modifiers.clause_openers)
            .or_else(|| sentence.longest_phrase_at(start, modifiers.conjunctions))
            .unwrap_or(0);
        keys.extend(clause_key(sentence, start + joint..end, language));
        start = end;
    }
}

/// The key of a clause that is a plain statement of fact.
fn clause_key(sentence: &Sentence, words: Range<usize>, language: &Language) -> Option<String> {
    let states = &language.states;
    let plain = |at: usize| {
        let word = sentence.word(at).unwrap_or_default();
        let infinitive = word == states.infinitive
            && sentence
                .word(at + 1)
                .is_some_and(|word| is_verb(word, language));
        !states.hedging_words.contains(&word) && !infinitive
    };
    if words.is_empty() || !words.clone().all(plain) {
        return None;
    }
    let verb = first_verb(sentence, words.clone(), states)?;
    // A time says when it became true, and is not part of the key.
    let time = |at: usize| {
        sentence.word(at).is_some_and(|word| {
            language.is_calendar(word)
                || language.modifiers.past.contains(&word)
                || language.times.this.contains(&word)
        })
    };
    let led = |at: usize| {
        sentence
            .word(at)
            .is_some_and(|word| language.times.prepositions.contains(&word))
            && time(at + 1)
    };
    let end = (verb.at + 1..words.end)
        .find(|&at| time(at) || led(at))
        .unwrap_or(words.end);
    let body = words.start..end;
    if !is_observable(sentence, body.clone(), &verb, true, language) {
        return None;
    }
    statement_key(sentence, body, language).filter(|key| {
        verb.is_known && verb.is_unambiguous && key.split(' ').count() >= KEY_WORDS_MIN
    })
}

/// Whether a hit is a recurrence.
pub(super) fn is_recurrence(found: &TimeMention) -> bool {
    matches!(found.hit, TimeHit::Recurring { .. })
}
