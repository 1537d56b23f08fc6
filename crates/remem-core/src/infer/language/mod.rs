//! language: the shape of what the rules know about a language. The words themselves are data in a
//! table per language; the rules hold none, so that another language is another table. May not look
//! at a text.
//!
//! All words are lower case with a straight apostrophe. A phrase is words with single spaces
//! between them.

pub(super) mod english;
mod english_forms;
mod english_states;
mod english_times;

use std::sync::LazyLock;

/// A calendar unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

type Words = &'static [&'static str];
type Numbers = &'static [(&'static str, i64)];

/// What asks or promises.
pub(crate) struct Cues {
    /// "remind me": an explicit request, where a command can stand.
    pub requests: Words,
    /// "follow up": a task, where a command can stand or after a promise.
    pub tasks: Words,
    /// Tasks whose word is a noun as well: only with an object after them.
    pub noun_tasks: Words,
    /// "to be reminded".
    pub passive: Words,
    /// "reminder": with a colon after it.
    pub labels: Words,
    /// "I'll".
    pub promises: Words,
    /// "promised to", whoever did.
    pub pledges: Words,
    /// "I need to".
    pub needs: Words,
    /// "needs to be", with a participle after it.
    pub needs_done: Words,
    /// Verbs after a promise or a need that are nothing to be done.
    pub not_done: Words,
    /// Verbs after a promise that somebody waits for.
    pub delivered: Words,
    /// What follows a request that only asks to be told now: "remind me who comes?".
    pub asked: Words,
    /// What a task may be done to that is itself a promise: "cancel the reminder".
    pub undone: Words,
    /// What may follow a request instead of a task: "remind me of home".
    pub resemble: Words,
}

/// What surrounds a cue and changes its meaning.
pub(crate) struct Moods {
    /// Phrases after which a command can stand: "could you".
    pub openers: Words,
    /// Words without weight before a command: "please".
    pub fillers: Words,
    /// Words that join a second command to a first one.
    pub joins: Words,
    /// Words that begin a clause of its own: "but".
    pub turns: Words,
    pub negations: Words,
    /// The end of a negated word.
    pub negated_end: &'static str,
    /// Words that put a clause into the past.
    pub past: Words,
    /// Words that report what somebody said.
    pub reports: Words,
    /// Doubt, which takes weight away.
    pub doubts: Words,
    /// Words before a promise that make it a question or a condition.
    pub embeds: Words,
    /// The speakers.
    pub speakers: Words,
    /// Pronouns that are a subject.
    pub subjects: Words,
    pub articles: Words,
    pub indefinite: Words,
    /// What can begin an object: articles, possessives, pronouns.
    pub objects: Words,
    /// Words that are no noun and may follow a time: prepositions, conjunctions.
    pub functions: Words,
}

/// What may make something true, and how its words are brought to one form.
pub(crate) struct States {
    /// "when", "as soon as".
    pub conjunctions: Words,
    /// Of these, the ones that make a condition of it: "if".
    pub conditional: Words,
    /// Of these, the ones that end something: "until".
    pub limits: Words,
    /// Where a condition's clause ends.
    pub ends: Words,
    /// Subjects that nobody outside can observe.
    pub refused: Words,
    /// Words that make a condition a manner of speaking.
    pub refused_anywhere: Words,
    /// Subjects that stand for anything.
    pub vague: Words,
    /// "would": a state that is only imagined.
    pub imagined: Words,
    /// "is", "has": dropped from a key.
    pub auxiliaries: Words,
    /// Of these, the forms of "be": a participle may follow.
    pub be: Words,
    /// Of these, the ones that tell of the past.
    pub past_auxiliaries: Words,
    /// Adverbs and articles: dropped from a key.
    pub dropped: Words,
    /// Words of a statement that make it no plain one: modals, doubts, parts of a whole.
    pub unplain: Words,
    /// The mark of an infinitive.
    pub infinitive: &'static str,
    /// The end of a plural, and of the third person of a verb.
    pub plural_end: &'static str,
    /// Verbs whose past is their base form.
    pub unchanged: Words,
    /// The end of a possessive, or of a word with "is" or "has" joined to it.
    pub possessive: &'static str,
    /// The base form of a word; progressive forms only have one where a form of "be" stands before
    /// them.
    pub base: fn(&str, bool) -> String,
    /// Base forms of verbs that tell of an event or a state.
    pub verbs: Words,
    /// Adjectives and nouns that a state ends in.
    pub adjectives: Words,
    /// Irregular forms, each with its base form.
    pub irregular: &'static [(&'static str, &'static str)],
}

/// How times are told.
pub(crate) struct Times {
    /// Monday first.
    pub weekdays: [Words; 7],
    /// January first.
    pub months: [Words; 12],
    pub units: &'static [(&'static str, Unit)],
    pub numbers: Numbers,
    pub ordinals: Numbers,
    /// Ends of an ordinal in digits: "3rd".
    pub ordinal_ends: Words,
    /// "in", before a distance.
    pub within: Words,
    /// "from now", after a distance.
    pub from_now: Words,
    /// "from", between a distance and a day.
    pub from: Words,
    /// Days by their distance from today.
    pub days: Numbers,
    /// Phrases for today whose usual time is another than a day's.
    pub today_at: Numbers,
    pub next: Words,
    pub this: Words,
    /// Words before a day that put it into the past or exclude it.
    pub gone: Words,
    /// Words between a distance and what it counts back from.
    pub before: Words,
    /// Distances that are told otherwise than by a number.
    pub distances: &'static [(&'static str, i64, Unit)],
    /// Words after which a day is a time and no attribute.
    pub prepositions: Words,
    /// "end of", "end of the".
    pub end_of: Words,
    pub weekend: Words,
    /// "on the", before a day of a month.
    pub on_the: Words,
    /// "of", "of the".
    pub of: Words,
    /// "in", "by", before a month alone.
    pub in_month: Words,
    /// "at": a bare number after it is an hour.
    pub at: Words,
    pub am: Words,
    pub pm: Words,
    pub o_clock: Words,
    /// Minutes before or after an hour: "half past".
    pub fractions: Numbers,
    /// Times of day with a name, in hours.
    pub named_hours: Numbers,
    /// Parts of the day and their usual hour.
    pub parts: Numbers,
    /// "in the", before a part of the day.
    pub in_the: Words,
    /// Zones that a time may be told in and that are the same everywhere.
    pub utc: Words,
    /// Zones of which only their abbreviation is told.
    pub zones: Words,
    pub every: Words,
    pub other: Words,
    /// "each time": no time at all.
    pub not_every: Words,
    pub workdays: Words,
    /// "through", between the first and the last day of several.
    pub through: Words,
    /// "daily": one word for a recurrence.
    pub adverbs: &'static [(&'static str, i64, Unit)],
    /// "once a", before a unit.
    pub once_a: Words,
    /// Multiples that no rule can tell: "twice a".
    pub multiples: Words,
    /// Words that end a recurrence.
    pub bounded: Words,
    /// "for", before how long.
    pub lasting: Words,
    /// "on", between a week and its day.
    pub on: Words,
    pub and: Words,
}

/// What the rules know about one language.
pub(crate) struct Language {
    pub cues: Cues,
    pub moods: Moods,
    pub states: States,
    pub times: Times,
    /// Words with a full stop that end no sentence.
    pub abbreviations: Words,
    /// The first words of all cues: a text without one is not looked at. Without a pattern, every
    /// text is.
    pub heads: LazyLock<Option<regex::Regex>>,
}

impl Language {
    pub fn weekday(&self, word: &str) -> Option<i8> {
        place(&self.times.weekdays, word)
    }

    pub fn month(&self, word: &str) -> Option<i8> {
        place(&self.times.months, word).map(|month| month + 1)
    }

    pub fn unit(&self, word: &str) -> Option<Unit> {
        self.times
            .units
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, unit)| *unit)
    }

    /// Whether a word is the name of a day or a month.
    pub fn is_calendar(&self, word: &str) -> bool {
        self.weekday(word).is_some()
            || self.month(word).is_some()
            || self.times.days.iter().any(|(name, _)| *name == word)
    }
}

fn place(names: &[Words], word: &str) -> Option<i8> {
    names
        .iter()
        .position(|names| names.contains(&word))
        .and_then(|place| i8::try_from(place).ok())
}

/// One pattern of the first words of phrases.
fn heads_of(lists: &[Words]) -> Option<regex::Regex> {
    let mut heads: Vec<String> = lists
        .iter()
        .flat_map(|list| list.iter())
        .filter_map(|phrase| phrase.split(' ').next())
        .map(head)
        .collect();
    heads.sort_unstable();
    heads.dedup();
    regex::Regex::new(&format!(
        "(?i)(?:^|[^\\p{{L}}\\p{{N}}])(?:{})(?:$|[^\\p{{L}}\\p{{N}}])",
        heads.join("|")
    ))
    .ok()
}

fn head(word: &str) -> String {
    regex::escape(word).replace('\'', "['’]")
}
