//! infer: reads promises out of texts: what somebody asked to be reminded of or promised to do, and
//! when. Pure: the same text, reference instant, zone and version of the rules give the same
//! promises. It may not arm, store or fire anything, and it never reads a clock.
//!
//! Rather none than a wrong one: a sentence needs a cue ("remind me", "I'll send"), must not be
//! negated, past, reported or asked, and must tell a time or a state that somebody outside can
//! observe. What is found but weak is for a person to confirm.
//!
//! * `language`: the words, as data.
//! * `sentence`: sentences and words with their places.
//! * `cue`: what asks or promises.
//! * `when`, `days`, `clock`, `repeat`: the words that tell a time; `moment`: the instant they
//!   mean.
//! * `predicate`, `normal`: what has to become true, and its key.

mod clock;
mod cue;
mod days;
mod language;
mod moment;
mod normal;
mod predicate;
mod repeat;
mod sentence;
mod when;

/// The names of the calendar and its reckoning, for whoever else reads times out of texts
/// (`recall`).
pub(crate) mod calendar {
    pub(crate) use super::days::{first_of, month_day};
    pub(crate) use super::language::Unit;
    pub(crate) use super::language::english::ENGLISH;
    pub(crate) use super::moment::instant;
    pub(crate) use super::sentence::{Gap, Sentence, sentences};
    pub(crate) use super::when::{Context, Day, Hit, amount, counts, iso, moved};
}

use crate::ids::Timestamp;
use cue::{Class, Cue, Ground};
use language::Language;
use language::english::ENGLISH;
use moment::Moment;
use predicate::Clause;
use sentence::Sentence;
use std::ops::Range;
use when::{Context, Found};

/// The version of the rules and the tables. Any change of what is found is another version.
pub const RULES: &str = "remem-infer-1";
/// The confidence from which a trusted promise needs nobody's confirmation.
pub const ARM_AT: u8 = 70;
/// The confidence under which nobody is bothered.
pub const CONFIRM_AT: u8 = 40;
/// The code of a promise that is too far away.
pub const HORIZON_EXCEEDED: &str = "schedule_horizon_exceeded";

const TRUST: i32 = 10;
const DOUBT: i32 = 20;
/// A clause whose verb is not known to tell of a state.
const UNCLEAR: i32 = -10;
/// One of several conditions is not enough.
const JOINED: i32 = 30;
/// What stands farther from a cue belongs to something else.
const REACH_WORDS: usize = 30;
const ACTION_WORDS_MAX: usize = 40;

/// A text to read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// What was said.
    pub text: &'a str,
    /// When it was said.
    pub at: Timestamp,
    /// By which clocks its times are meant. Recurrences need a zone with a name.
    pub zone: &'a jiff::tz::TimeZone,
    /// Whether the speaker may arm something without being asked.
    pub trusted: bool,
    /// How far ahead a promise may lie.
    pub horizon_ms: i64,
}

/// A commitment that a text holds. Ranges are bytes of the text, on character boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The sentence it was read from.
    pub sentence: Range<usize>,
    /// The words that ask or promise.
    pub cue: Range<usize>,
    /// The words that tell when.
    pub condition_words: Range<usize>,
    /// When it is due.
    pub condition: Condition,
    /// 0 to 100.
    pub confidence: u8,
    /// What may become of it.
    pub verdict: Verdict,
    /// What is to be done, as a normal form to tell promises apart by.
    pub action: String,
}

/// When a promise is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// At an instant.
    Once {
        /// After the reference instant.
        at: Timestamp,
    },
    /// Again and again.
    Recurring {
        /// How often.
        rule: Recurrence,
        /// The first instant, after the reference instant; distances are counted from it.
        first: Timestamp,
    },
    /// When something becomes true.
    Predicate {
        /// The normal form of what that is.
        key: String,
    },
}

/// How often something is due, as [`crate::Timing`] reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// An ISO 8601 duration.
    Every(String),
    /// A cron line of five fields.
    Cron(String),
}

/// What may become of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be armed as it is.
    Arm,
    /// A person has to confirm it.
    Confirm,
    /// It may not be armed at all, for the reason of this code.
    Refused(&'static str),
}

/// The promises of a text, in order, at most one of a sentence.
#[must_use]
pub fn infer(reading: &Reading<'_>) -> Vec<Promise> {
    let language: &'static Language = &ENGLISH;
    let cued = |text: &str| {
        language
            .heads
            .as_ref()
            .is_none_or(|heads| heads.is_match(text))
    };
    let Ok(instant) = jiff::Timestamp::from_millisecond(reading.at.0) else {
        return Vec::new();
    };
    if !cued(reading.text) {
        return Vec::new();
    }
    let now = instant.to_zoned(reading.zone.clone());
    let context = Context {
        language,
        now: &now,
    };
    let sentences = sentence::sentences(reading.text, language);
    sentences
        .iter()
        .filter(|sentence| cued(&reading.text[sentence.range.clone()]))
        .filter_map(|sentence| promise(sentence, reading, &context))
        .collect()
}

/// The normal form of a key that an observer posts: "Invoice cleared" and "the invoice has cleared"
/// have the same. None, if nothing is left of it or it is too long for a key.
#[must_use]
pub fn observation_key(text: &str) -> Option<String> {
    normal::observation_key(text, &ENGLISH)
}

/// The keys of plain statements of fact in a text, which may make a predicate true. Questions,
/// denials, conditions, the future and what others said are no statements.
#[must_use]
pub fn assertions(text: &str) -> Vec<String> {
    predicate::assertions(text, &ENGLISH)
}

/// The promise of a sentence: of several cues the one that is surest, else the first.
fn promise(sentence: &Sentence, reading: &Reading<'_>, context: &Context<'_>) -> Option<Promise> {
    let language = context.language;
    let times = when::scan(sentence, context);
    let clauses = predicate::clauses(
        sentence,
        &cue::requests(sentence, language),
        &times,
        language,
    );
    let ground = Ground {
        sentence,
        language,
        times: &times,
    };
    let mut best: Option<Promise> = None;
    for cue in cue::cues(&ground, &clauses) {
        let Some(found) = due(sentence, &cue, &times, &clauses, context) else {
            continue;
        };
        let Some(promise) = judged(sentence, &cue, found, reading, language) else {
            continue;
        };
        if best
            .as_ref()
            .is_none_or(|best| promise.confidence > best.confidence)
        {
            best = Some(promise);
        }
    }
    best
}

/// When something is due, and what that adds to its confidence.
struct Due {
    condition: Condition,
    words: Range<usize>,
    told: Vec<Range<usize>>,
    weight: i32,
}

fn due(
    sentence: &Sentence,
    cue: &Cue,
    times: &[Found],
    clauses: &[Clause],
    context: &Context<'_>,
) -> Option<Due> {
    let inside =
        |words: &Range<usize>, of: &Range<usize>| of.start <= words.start && words.end <= of.end;
    let near = |words: &Range<usize>| {
        words.start <= cue.words.end + REACH_WORDS && cue.words.start <= words.end + REACH_WORDS
    };
    let own: Vec<&Clause> = clauses
        .iter()
        .filter(|clause| inside(&clause.words, &cue.clause) && near(&clause.words))
        .collect();
    // Times inside a condition are when the condition is, not when the deed is.
    let apart = |found: &&Found| {
        inside(&found.words, &cue.clause)
            && near(&found.words)
            && !own.iter().any(|clause| inside(&found.words, &clause.words))
    };
    let times: Vec<&Found> = times.iter().filter(apart).collect();
    let repeats = times.iter().any(|found| predicate::repeats(found));
    let waits = own.iter().find(|clause| {
        clause.key.is_some() && !(clause.limit && repeats) && cue.class != Class::State
    });
    if let Some(clause) = waits {
        let ruled = clause.general && cue.class == Class::Task;
        let doubts = i32::from(clause.conditional) + i32::from(ruled);
        let weight = if clause.clear { when::CLEAR } else { UNCLEAR }
            - doubts * DOUBT
            - if clause.joined { JOINED } else { 0 };
        let condition = Condition::Predicate {
            key: clause.key.clone()?,
        };
        return Some(Due {
            condition,
            words: clause.words.clone(),
            told: vec![clause.words.clone()],
            weight,
        });
    }
    let Moment {
        words,
        told,
        condition,
        weight,
    } = moment::moment(sentence, &times, &cue.words, context)?;
    // "if possible" is politeness; a condition with a subject and a verb is one.
    let conditional = own
        .iter()
        .any(|clause| clause.conditional && clause.words.len() > 2);
    Some(Due {
        condition,
        words,
        told,
        weight: weight - if conditional { DOUBT } else { 0 },
    })
}

/// The promise with its confidence, if that is enough to speak of one.
fn judged(
    sentence: &Sentence,
    cue: &Cue,
    due: Due,
    reading: &Reading<'_>,
    language: &Language,
) -> Option<Promise> {
    let moods = &language.moods;
    let has = |range: Range<usize>, list: &[&str]| {
        range
            .into_iter()
            .any(|at| sentence.word(at).is_some_and(|word| list.contains(&word)))
    };
    let doubtful = has(
        cue.clause.start..(cue.words.end + 1).min(cue.clause.end),
        moods.doubts,
    );
    let weak = matches!(cue.class, Class::Promise | Class::Need | Class::State);
    let past = weak && has(cue.clause.clone(), moods.past);
    let trust = if reading.trusted { TRUST } else { 0 };
    let sum = cue.weight + due.weight + trust
        - if doubtful { DOUBT } else { 0 }
        - if past { DOUBT } else { 0 };
    let confidence = u8::try_from(sum.clamp(0, 100)).unwrap_or(0);
    if confidence < CONFIRM_AT {
        return None;
    }
    let verdict = match &due.condition {
        Condition::Once { at } | Condition::Recurring { first: at, .. }
            if at.0.saturating_sub(reading.at.0) > reading.horizon_ms =>
        {
            Verdict::Refused(HORIZON_EXCEEDED)
        }
        _ if confidence >= ARM_AT && reading.trusted => Verdict::Arm,
        _ => Verdict::Confirm,
    };
    Some(Promise {
        sentence: sentence.range.clone(),
        cue: sentence.bytes(&cue.words),
        condition_words: sentence.bytes(&due.words),
        action: action(sentence, cue, &due.told, language),
        condition: due.condition,
        confidence,
        verdict,
    })
}

/// What is to be done: the words of the sentence without the cue, the condition, and words without
/// weight.
fn action(sentence: &Sentence, cue: &Cue, told: &[Range<usize>], language: &Language) -> String {
    let moods = &language.moods;
    let lists = [moods.articles, moods.fillers, language.times.prepositions];
    let idle = |word: &str| {
        word == language.states.infinitive || lists.iter().any(|list| list.contains(&word))
    };
    // A task is the deed itself; what asks for one is not.
    let cued = |at: &usize| cue.class != Class::Task && cue.words.contains(at);
    let content = (0..sentence.words.len())
        .filter(|at| !cued(at) && !told.iter().any(|words| words.contains(at)));
    let words: Vec<&str> = content
        .filter_map(|at| sentence.word(at))
        .filter(|word| !idle(word))
        .take(ACTION_WORDS_MAX)
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
