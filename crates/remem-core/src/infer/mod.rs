//! infer: recognises promises in texts: requests to be reminded and announcements of an action,
//! with the time they are due. Pure: the same text, reference instant, zone and version of the
//! rules give the same promises. It may not arm, store or fire anything, and it never reads a
//! clock.
//!
//! A missed promise is better than a wrong one: a sentence needs a cue ("remind me", "I'll send"),
//! must not be negated, past, reported or a question, and must state a time or a condition that an
//! outside observer can see. A weak match is left to a person to confirm.
//!
//! * `language`: the words, as data.
//! * `sentence`: sentences and words with their offsets.
//! * `cue`: the words that ask or promise.
//! * `when`, `days`, `clock`, `repeat`: the words for a time; `moment`: the instant they mean.
//! * `predicate`, `normal`: the condition that has to become true, and its key.

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

/// Calendar names and date arithmetic for other modules that read times out of texts (`recall`).
pub(crate) mod calendar {
    pub(crate) use super::days::{first_day_of_period, month_day};
    pub(crate) use super::language::CalendarUnit;
    pub(crate) use super::language::english::ENGLISH;
    pub(crate) use super::moment::first_instant_at;
    pub(crate) use super::sentence::{Gap, Sentence, sentences};
    pub(crate) use super::when::{
        DayReference, TimeContext, TimeHit, add_units, is_noun, iso_time, read_amount,
    };
}

use crate::ids::Timestamp;
use cue::{Cue, CueContext, CueKind};
use language::Language;
use language::english::ENGLISH;
use moment::Moment;
use predicate::ConditionClause;
use sentence::Sentence;
use std::ops::Range;
use when::{TimeContext, TimeMention};

/// The version of the rules and the tables. Any change of their results gets a new version.
pub const INFER_RULES: &str = "remem-infer-1";
/// The confidence from which on a trusted promise needs no confirmation.
pub const ARM_CONFIDENCE_MIN: u8 = 70;
/// The confidence below which a promise is dropped instead of kept for confirmation.
pub const CONFIRM_CONFIDENCE_MIN: u8 = 40;
/// The refusal code of a promise whose time is beyond the horizon.
pub const HORIZON_EXCEEDED: &str = "schedule_horizon_exceeded";

/// Added for a trusted speaker.
const TRUST_BONUS: i32 = 10;
/// Taken off for each doubt: a word of doubt, the past, an uncertain condition.
const DOUBT_PENALTY: i32 = 20;
/// The weight of a condition whose verb is not known to describe a state.
const UNCLEAR_WEIGHT: i32 = -10;
/// Taken off a condition that is only one of several, because it alone is not enough.
const JOINED_PENALTY: i32 = 30;
/// Most words between a cue and its condition; one farther away belongs to something else.
const CONDITION_DISTANCE_MAX: usize = 30;
/// Most words of an action.
const ACTION_WORDS_MAX: usize = 40;

/// A text in which promises are searched, and its circumstances.
#[derive(Clone, Copy, Debug)]
pub struct InferInput<'a> {
    /// The text of the statement.
    pub text: &'a str,
    /// The reference instant, at which the statement was made.
    pub at: Timestamp,
    /// The time zone of its times. Recurrences need a zone with a name.
    pub zone: &'a jiff::tz::TimeZone,
    /// Whether a promise of this speaker may be armed without confirmation.
    pub is_trusted: bool,
    /// The longest time after the reference instant at which a promise may be due, in milliseconds.
    pub horizon_ms: i64,
}

/// A promise recognised in a text. Ranges are bytes of the text, on character boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The sentence it was read from.
    pub sentence: Range<usize>,
    /// The words that ask or promise.
    pub cue: Range<usize>,
    /// The words that state the time or condition.
    pub condition_words: Range<usize>,
    /// The time or condition at which it is due.
    pub condition: Condition,
    /// The confidence, from 0 to 100.
    pub confidence: u8,
    /// The treatment that the confidence and the horizon allow.
    pub verdict: PromiseVerdict,
    /// The action in a normal form, by which promises are compared.
    pub action: String,
}

/// The time or condition at which a promise is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Due once, at an instant.
    Once {
        /// The instant, which is after the reference instant.
        at: Timestamp,
    },
    /// Due repeatedly, by a rule.
    Recurring {
        /// The rule of the recurrence.
        rule: Recurrence,
        /// The first instant, after the reference instant; distances are counted from it.
        first: Timestamp,
    },
    /// Due when a condition becomes true.
    Predicate {
        /// The normal form of the condition.
        key: String,
    },
}

/// A rule of recurrence, in the forms that [`crate::Timing`] parses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// An ISO 8601 duration.
    Every(String),
    /// A cron line of five fields.
    Cron(String),
}

/// The treatment of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromiseVerdict {
    /// The promise may be armed without confirmation.
    Arm,
    /// A person has to confirm it.
    Confirm,
    /// The promise may not be armed at all, for the reason of this code.
    Refused(&'static str),
}

/// Recognises the promises of a text, in order, at most one for each sentence.
#[must_use]
pub fn infer_promises(reading: &InferInput<'_>) -> Vec<Promise> {
    let language: &'static Language = &ENGLISH;
    let cued = |text: &str| {
        language
            .first_words
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
    let context = TimeContext {
        language,
        now: &now,
    };
    let sentences = sentence::sentences(reading.text, language);
    sentences
        .iter()
        .filter(|sentence| cued(&reading.text[sentence.range.clone()]))
        .filter_map(|sentence| sentence_promise(sentence, reading, &context))
        .collect()
}

/// The normal form of a key that an observer posts: "Invoice cleared" and "the invoice has cleared"
/// have the same one. `None` if no word is left of it or it is too long for a key.
#[must_use]
pub fn observation_key(text: &str) -> Option<String> {
    normal::observation_key(text, &ENGLISH)
}

/// The keys of plain statements of fact in a text, which may make a predicate true. Questions,
/// negations, conditions, the future and reported speech are not statements.
#[must_use]
pub fn assertions(text: &str) -> Vec<String> {
    predicate::assertions(text, &ENGLISH)
}

/// The promise of a sentence: of several cues the one with the highest confidence, of equals the
/// first.
fn sentence_promise(
    sentence: &Sentence,
    reading: &InferInput<'_>,
    context: &TimeContext<'_>,
) -> Option<Promise> {
    let language = context.language;
    let times = when::find_times(sentence, context);
    let clauses = predicate::condition_clauses(
        sentence,
        &cue::request_starts(sentence, language),
        &times,
        language,
    );
    let ground = CueContext {
        sentence,
        language,
        times: &times,
    };
    let mut best: Option<Promise> = None;
    for cue in cue::find_cues(&ground, &clauses) {
        let Some(found) = find_condition(sentence, &cue, &times, &clauses, context) else {
            continue;
        };
        let Some(promise) = judge_promise(sentence, &cue, found, reading, language) else {
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

/// The condition that belongs to a cue, and its contribution to the confidence.
struct CueCondition {
    condition: Condition,
    words: Range<usize>,
    time_words: Vec<Range<usize>>,
    weight: i32,
}

/// Finds the condition of a cue: a predicate in the same clause, else the time that its words mean.
fn find_condition(
    sentence: &Sentence,
    cue: &Cue,
    times: &[TimeMention],
    clauses: &[ConditionClause],
    context: &TimeContext<'_>,
) -> Option<CueCondition> {
    let inside =
        |words: &Range<usize>, of: &Range<usize>| of.start <= words.start && words.end <= of.end;
    let near = |words: &Range<usize>| {
        words.start <= cue.words.end + CONDITION_DISTANCE_MAX
            && cue.words.start <= words.end + CONDITION_DISTANCE_MAX
    };
    let own: Vec<&ConditionClause> = clauses
        .iter()
        .filter(|clause| inside(&clause.words, &cue.clause) && near(&clause.words))
        .collect();
    // A time inside a condition is the time of the condition, not of the action.
    let apart = |found: &&TimeMention| {
        inside(&found.words, &cue.clause)
            && near(&found.words)
            && !own.iter().any(|clause| inside(&found.words, &clause.words))
    };
    let times: Vec<&TimeMention> = times.iter().filter(apart).collect();
    let repeats = times.iter().any(|found| predicate::is_recurrence(found));
    let waits = own.iter().find(|clause| {
        clause.key.is_some() && !(clause.is_limit && repeats) && cue.kind != CueKind::State
    });
    if let Some(clause) = waits {
        let ruled = clause.is_general && cue.kind == CueKind::Task;
        let doubts = i32::from(clause.is_conditional) + i32::from(ruled);
        let weight = if clause.has_known_verb {
            when::LIKELY_WEIGHT
        } else {
            UNCLEAR_WEIGHT
        } - doubts * DOUBT_PENALTY
            - if clause.is_joined { JOINED_PENALTY } else { 0 };
        let condition = Condition::Predicate {
            key: clause.key.clone()?,
        };
        return Some(CueCondition {
            condition,
            words: clause.words.clone(),
            time_words: vec![clause.words.clone()],
            weight,
        });
    }
    let Moment {
        words,
        time_words,
        condition,
        weight,
    } = moment::resolve_moment(sentence, &times, &cue.words, context)?;
    // "if possible" is politeness; only a clause with a subject and a verb is a condition.
    let conditional = own
        .iter()
        .any(|clause| clause.is_conditional && clause.words.len() > 2);
    Some(CueCondition {
        condition,
        words,
        time_words,
        weight: weight - if conditional { DOUBT_PENALTY } else { 0 },
    })
}

/// The promise with its confidence and verdict, or `None` if the confidence is too low.
fn judge_promise(
    sentence: &Sentence,
    cue: &Cue,
    due: CueCondition,
    reading: &InferInput<'_>,
    language: &Language,
) -> Option<Promise> {
    let modifiers = &language.modifiers;
    let has = |range: Range<usize>, list: &[&str]| {
        range
            .into_iter()
            .any(|at| sentence.word(at).is_some_and(|word| list.contains(&word)))
    };
    let doubtful = has(
        cue.clause.start..(cue.words.end + 1).min(cue.clause.end),
        modifiers.doubts,
    );
    let weak = matches!(cue.kind, CueKind::Promise | CueKind::Need | CueKind::State);
    let past = weak && has(cue.clause.clone(), modifiers.past);
    let trust = if reading.is_trusted { TRUST_BONUS } else { 0 };
    let sum = cue.weight + due.weight + trust
        - if doubtful { DOUBT_PENALTY } else { 0 }
        - if past { DOUBT_PENALTY } else { 0 };
    let confidence = u8::try_from(sum.clamp(0, 100)).unwrap_or(0);
    if confidence < CONFIRM_CONFIDENCE_MIN {
        return None;
    }
    let verdict = match &due.condition {
        Condition::Once { at } | Condition::Recurring { first: at, .. }
            if at.0.saturating_sub(reading.at.0) > reading.horizon_ms =>
        {
            PromiseVerdict::Refused(HORIZON_EXCEEDED)
        }
        _ if confidence >= ARM_CONFIDENCE_MIN && reading.is_trusted => PromiseVerdict::Arm,
        _ => PromiseVerdict::Confirm,
    };
    Some(Promise {
        sentence: sentence.range.clone(),
        cue: sentence.byte_range(&cue.words),
        condition_words: sentence.byte_range(&due.words),
        action: normal_action(sentence, cue, &due.time_words, language),
        condition: due.condition,
        confidence,
        verdict,
    })
}

/// The action: the words of the sentence without the cue, the condition, and filler words.
fn normal_action(
    sentence: &Sentence,
    cue: &Cue,
    time_words: &[Range<usize>],
    language: &Language,
) -> String {
    let modifiers = &language.modifiers;
    let lists = [
        modifiers.articles,
        modifiers.fillers,
        language.times.prepositions,
    ];
    let idle = |word: &str| {
        word == language.states.infinitive || lists.iter().any(|list| list.contains(&word))
    };
    // The words of a task are the action itself; those of a request only ask for one.
    let cued = |at: &usize| cue.kind != CueKind::Task && cue.words.contains(at);
    let content = (0..sentence.words.len())
        .filter(|at| !cued(at) && !time_words.iter().any(|words| words.contains(at)));
    let words: Vec<&str> = content
        .filter_map(|at| sentence.word(at))
        .filter(|word| !idle(word))
        .take(ACTION_WORDS_MAX)
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
