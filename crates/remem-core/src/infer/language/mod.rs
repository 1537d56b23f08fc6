//! language: the structure of the word tables of a language. The words themselves are data, one
//! table for each language; the rules contain none, so that another language is another table. It
//! does not read texts.
//!
//! All words are lower case with a straight apostrophe. A phrase is words with single spaces
//! between them.

pub(super) mod english;
mod english_forms;
mod english_states;
mod english_times;

use std::sync::LazyLock;

/// A unit in which distances and recurrences of time are counted.
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

/// Words that ask for something or promise it.
pub(crate) struct Cues {
    /// "remind me": an explicit request, at a position where a command can begin.
    pub requests: Words,
    /// "follow up": a task, at a position where a command can begin or after a promise.
    pub tasks: Words,
    /// Tasks whose word is a noun as well: they count only with an object after them.
    pub noun_tasks: Words,
    /// "wants to be reminded": a request in the passive voice.
    pub passive: Words,
    /// "reminder": a label, with a colon after it.
    pub labels: Words,
    /// "I'll": a promise of the speaker.
    pub promises: Words,
    /// "promised to": a promise of any subject.
    pub pledges: Words,
    /// "I need to": an obligation of the speaker.
    pub needs: Words,
    /// "needs to be", with a participle after it.
    pub needs_done: Words,
    /// Verbs after a promise or a need that are no action.
    pub not_done: Words,
    /// Verbs after a promise whose fulfilment another person waits for.
    pub delivered: Words,
    /// Words after a request that make it a question for now: "remind me who comes?".
    pub asked: Words,
    /// Objects that make a task concern a promise itself: "cancel the reminder".
    pub undone: Words,
    /// Phrases after a request that make it none: "remind me of home".
    pub resemble: Words,
}

/// Words around a cue that change its meaning.
pub(crate) struct Moods {
    /// Phrases after which a command can begin: "could you".
    pub openers: Words,
    /// Words without meaning of their own before a command: "please".
    pub fillers: Words,
    /// Words that join a second command to a first one.
    pub joins: Words,
    /// Words that begin an independent clause: "but".
    pub turns: Words,
    pub negations: Words,
    /// The ending of a negated word: "n't".
    pub negated_end: &'static str,
    /// Words that put a clause into the past.
    pub past: Words,
    /// Words that report speech or thoughts: "said".
    pub reports: Words,
    /// Words of doubt, which reduce the confidence.
    pub doubts: Words,
    /// Words before a promise that make it a question or a condition.
    pub embeds: Words,
    /// Pronouns of the speaker, whose own reports are no reported speech.
    pub speakers: Words,
    /// Pronouns that are a subject.
    pub subjects: Words,
    pub articles: Words,
    pub indefinite: Words,
    /// Words that can begin an object: articles, possessives, pronouns.
    pub objects: Words,
    /// Words that may follow a time and are no noun: prepositions, conjunctions.
    pub functions: Words,
}

/// Words of conditions and states, and the reduction of their words to base forms.
pub(crate) struct States {
    /// "when", "as soon as": words that begin a condition.
    pub conjunctions: Words,
    /// The conjunctions that leave open whether it happens: "if".
    pub conditional: Words,
    /// The conjunctions that end something: "until".
    pub limits: Words,
    /// Words at which the clause of a condition ends.
    pub ends: Words,
    /// Subjects whose state no outside observer can see: "I", "you".
    pub refused: Words,
    /// Words that make a condition a figure of speech.
    pub refused_anywhere: Words,
    /// Subjects that may refer to anything: "it".
    pub vague: Words,
    /// "would": a state that is only imagined.
    pub imagined: Words,
    /// "is", "has": auxiliary verbs, left out of a key.
    pub auxiliaries: Words,
    /// The auxiliaries that are forms of "be": a participle may follow.
    pub be: Words,
    /// The auxiliaries in the past tense.
    pub past_auxiliaries: Words,
    /// Adverbs and articles, left out of a key.
    pub dropped: Words,
    /// Words that make a statement less than a plain fact: modals, doubts, parts of a whole.
    pub unplain: Words,
    /// The word that marks an infinitive: "to".
    pub infinitive: &'static str,
    /// The ending of a plural, and of the third person of a verb.
    pub plural_end: &'static str,
    /// Verbs whose past is their base form.
    pub unchanged: Words,
    /// The ending of a possessive, or of a word with "is" or "has" joined to it.
    pub possessive: &'static str,
    /// The base form of a word. The flag says whether a form of "be" comes before it: only then do
    /// progressive forms have another base form.
    pub base: fn(&str, bool) -> String,
    /// Base forms of verbs of events and states.
    pub verbs: Words,
    /// Adjectives and nouns that describe a state.
    pub adjectives: Words,
    /// Irregular forms, each with its base form.
    pub irregular: &'static [(&'static str, &'static str)],
}

/// Words for times of day, dates, distances and recurrences.
pub(crate) struct Times {
    /// Names of the days of the week, from Monday on.
    pub weekdays: [Words; 7],
    /// Names of the months, from January on.
    pub months: [Words; 12],
    pub units: &'static [(&'static str, Unit)],
    pub numbers: Numbers,
    pub ordinals: Numbers,
    /// Endings of an ordinal in digits: "3rd".
    pub ordinal_ends: Words,
    /// "in", before a distance.
    pub within: Words,
    /// "from now", after a distance.
    pub from_now: Words,
    /// "from", between a distance and a day.
    pub from: Words,
    /// Days by their distance from today.
    pub days: Numbers,
    /// Phrases for a part of today, with its usual hour.
    pub today_at: Numbers,
    pub next: Words,
    pub this: Words,
    /// Words before a day that put it into the past or exclude it.
    pub gone: Words,
    /// Words between a distance and the day from which it counts back.
    pub before: Words,
    /// Phrases for distances that are not a number of units.
    pub distances: &'static [(&'static str, i64, Unit)],
    /// Words after which a day is a time and not an attribute.
    pub prepositions: Words,
    /// "end of", before a period.
    pub end_of: Words,
    pub weekend: Words,
    /// "on the", before a day of a month.
    pub on_the: Words,
    /// "of", "of the", before a period.
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
    /// Names of UTC, which is the same everywhere.
    pub utc: Words,
    /// Abbreviations of zones, which several zones may share.
    pub zones: Words,
    pub every: Words,
    pub other: Words,
    /// "every now and then": no recurrence.
    pub not_every: Words,
    pub workdays: Words,
    /// "through", between the first and the last day of several.
    pub through: Words,
    /// "daily": one word for a recurrence.
    pub adverbs: &'static [(&'static str, i64, Unit)],
    /// "once a", before a unit.
    pub once_a: Words,
    /// Multiples that no recurrence rule can express: "twice a".
    pub multiples: Words,
    /// Words that limit a recurrence in time.
    pub bounded: Words,
    /// "for", before a duration.
    pub lasting: Words,
    /// "on", between a week and its day.
    pub on: Words,
    pub and: Words,
}

/// All word tables of one language.
pub(crate) struct Language {
    pub cues: Cues,
    pub moods: Moods,
    pub states: States,
    pub times: Times,
    /// Words with a full stop that end no sentence.
    pub abbreviations: Words,
    /// A pattern of the first words of all cues: a text that does not match it is not read. Without
    /// a pattern, every text is.
    pub heads: LazyLock<Option<regex::Regex>>,
}

impl Language {
    /// The day of the week with this name, counted from Monday as 0.
    pub fn weekday(&self, word: &str) -> Option<i8> {
        place(&self.times.weekdays, word)
    }

    /// The month with this name, counted from January as 1.
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

/// The index of the list that contains a word.
fn place(names: &[Words], word: &str) -> Option<i8> {
    names
        .iter()
        .position(|names| names.contains(&word))
        .and_then(|place| i8::try_from(place).ok())
}

/// A pattern that matches any of the first words of phrases.
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
