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
pub(crate) enum CalendarUnit {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

type PhraseList = &'static [&'static str];
type NumberWords = &'static [(&'static str, i64)];

/// Words that ask for something or promise it.
pub(crate) struct CueWords {
    /// "remind me": an explicit request, at a position where a command can begin.
    pub requests: PhraseList,
    /// "follow up": a task, at a position where a command can begin or after a promise.
    pub tasks: PhraseList,
    /// Tasks whose word is a noun as well: they count only with an object after them.
    pub noun_tasks: PhraseList,
    /// "wants to be reminded": a request in the passive voice.
    pub passive: PhraseList,
    /// "reminder": a label, with a colon after it.
    pub labels: PhraseList,
    /// "I'll": a promise of the speaker.
    pub promises: PhraseList,
    /// "promised to": a promise of any subject.
    pub pledges: PhraseList,
    /// "I need to": an obligation of the speaker.
    pub needs: PhraseList,
    /// "needs to be", with a participle after it.
    pub passive_needs: PhraseList,
    /// Verbs after a promise or a need that are not actions.
    pub non_actions: PhraseList,
    /// Verbs after a promise whose fulfilment another person waits for.
    pub awaited_verbs: PhraseList,
    /// Words after a request that make it a question for now: "remind me who comes?".
    pub question_words: PhraseList,
    /// Objects that make a task concern a promise itself: "cancel the reminder".
    pub promise_nouns: PhraseList,
    /// Phrases after a request that make it none: "remind me of home".
    pub false_continuations: PhraseList,
}

/// Words around a cue that change its meaning.
pub(crate) struct ModifierWords {
    /// Phrases after which a command can begin: "could you".
    pub openers: PhraseList,
    /// Words without meaning of their own before a command: "please".
    pub fillers: PhraseList,
    /// Words that join a second command to a first one.
    pub conjunctions: PhraseList,
    /// Words that begin an independent clause: "but".
    pub clause_openers: PhraseList,
    pub negations: PhraseList,
    /// The ending of a negated word: "n't".
    pub negated_ending: &'static str,
    /// Words that put a clause into the past.
    pub past: PhraseList,
    /// Words that report speech or thoughts: "said".
    pub reports: PhraseList,
    /// Words of doubt, which reduce the confidence.
    pub doubts: PhraseList,
    /// Words before a promise that make it a question or a condition.
    pub embedding_words: PhraseList,
    /// Pronouns of the speaker, whose own reports are not reported speech.
    pub speakers: PhraseList,
    /// Pronouns that are a subject.
    pub subjects: PhraseList,
    pub articles: PhraseList,
    pub indefinite_articles: PhraseList,
    /// Words that can begin an object: articles, possessives, pronouns.
    pub objects: PhraseList,
    /// Words that may follow a time and are not nouns: prepositions, conjunctions.
    pub function_words: PhraseList,
}

/// Words of conditions and states, and the reduction of their words to base forms.
pub(crate) struct StateWords {
    /// "when", "as soon as": words that begin a condition.
    pub conjunctions: PhraseList,
    /// The conjunctions that leave open whether it happens: "if".
    pub conditional: PhraseList,
    /// The conjunctions that end something: "until".
    pub ending_conjunctions: PhraseList,
    /// Words at which the clause of a condition ends.
    pub clause_ends: PhraseList,
    /// Subjects whose state no outside observer can see: "I", "you".
    pub unobservable_subjects: PhraseList,
    /// Words that make a condition a figure of speech.
    pub figurative_words: PhraseList,
    /// Subjects that may refer to anything: "it".
    pub vague: PhraseList,
    /// "would": a state that is only imagined.
    pub hypothetical_verbs: PhraseList,
    /// "is", "has": auxiliary verbs, left out of a key.
    pub auxiliaries: PhraseList,
    /// The auxiliaries that are forms of "be": a participle may follow.
    pub forms_of_be: PhraseList,
    /// The auxiliaries in the past tense.
    pub past_auxiliaries: PhraseList,
    /// Adverbs and articles, left out of a key.
    pub ignored_words: PhraseList,
    /// Words that make a statement less than a plain fact: modals, doubts, parts of a whole.
    pub hedging_words: PhraseList,
    /// The word that marks an infinitive: "to".
    pub infinitive: &'static str,
    /// The ending of a plural, and of the third person of a verb.
    pub plural_ending: &'static str,
    /// Verbs whose past is their base form.
    pub unchanged_verbs: PhraseList,
    /// The ending of a possessive, or of a word with "is" or "has" joined to it.
    pub possessive_ending: &'static str,
    /// The base form of a word. The flag says whether a form of "be" comes before it: only then do
    /// progressive forms have another base form.
    pub base_form: fn(&str, bool) -> String,
    /// Base forms of verbs of events and states.
    pub verbs: PhraseList,
    /// Adjectives and nouns that describe a state.
    pub adjectives: PhraseList,
    /// Irregular forms, each with its base form.
    pub irregular: &'static [(&'static str, &'static str)],
}

/// Words for times of day, dates, distances and recurrences.
pub(crate) struct TimeWords {
    /// Names of the days of the week, from Monday on.
    pub weekdays: [PhraseList; 7],
    /// Names of the months, from January on.
    pub months: [PhraseList; 12],
    pub units: &'static [(&'static str, CalendarUnit)],
    pub numbers: NumberWords,
    pub ordinals: NumberWords,
    /// Endings of an ordinal in digits: "3rd".
    pub ordinal_endings: PhraseList,
    /// "in", before a distance.
    pub within: PhraseList,
    /// "from now", after a distance.
    pub from_now: PhraseList,
    /// "from", between a distance and a day.
    pub from: PhraseList,
    /// Days by their distance from today.
    pub days: NumberWords,
    /// Phrases for a part of today, with its usual hour.
    pub today_at: NumberWords,
    pub next: PhraseList,
    pub this: PhraseList,
    /// Words before a day that put it into the past or exclude it.
    pub past_markers: PhraseList,
    /// Words between a distance and the day from which it counts back.
    pub before: PhraseList,
    /// Phrases for distances that are not a number of units.
    pub distances: &'static [(&'static str, i64, CalendarUnit)],
    /// Words after which a day is a time and not an attribute.
    pub prepositions: PhraseList,
    /// "end of", before a period.
    pub end_of: PhraseList,
    pub weekend: PhraseList,
    /// "on the", before a day of a month.
    pub on_the: PhraseList,
    /// "of", "of the", before a period.
    pub of: PhraseList,
    /// "in", "by", before a month alone.
    pub in_month: PhraseList,
    /// "at": a bare number after it is an hour.
    pub at: PhraseList,
    pub am: PhraseList,
    pub pm: PhraseList,
    pub o_clock: PhraseList,
    /// Minutes before or after an hour: "half past".
    pub fractions: NumberWords,
    /// Times of day with a name, in hours.
    pub named_hours: NumberWords,
    /// Parts of the day and their usual hour.
    pub parts_of_day: NumberWords,
    /// "in the", before a part of the day.
    pub in_the: PhraseList,
    /// Names of UTC, which is the same everywhere.
    pub utc: PhraseList,
    /// Abbreviations of zones, which several zones may share.
    pub zones: PhraseList,
    pub every: PhraseList,
    pub other: PhraseList,
    /// "every now and then": no recurrence.
    pub false_recurrences: PhraseList,
    pub workdays: PhraseList,
    /// "through", between the first and the last day of several.
    pub through: PhraseList,
    /// "daily": one word for a recurrence.
    pub adverbs: &'static [(&'static str, i64, CalendarUnit)],
    /// "once a", before a unit.
    pub once_a: PhraseList,
    /// Multiples that no recurrence rule can express: "twice a".
    pub multiples: PhraseList,
    /// Words that limit a recurrence in time.
    pub limit_markers: PhraseList,
    /// "for", before a duration.
    pub duration_markers: PhraseList,
    /// "on", between a week and its day.
    pub on: PhraseList,
    pub and: PhraseList,
}

/// All word tables of one language.
pub(crate) struct Language {
    pub cues: CueWords,
    pub modifiers: ModifierWords,
    pub states: StateWords,
    pub times: TimeWords,
    /// Words with a full stop that end no sentence.
    pub abbreviations: PhraseList,
    /// A pattern of the first words of all cues: a text that does not match it is not read. Without
    /// a pattern, every text is.
    pub first_words: LazyLock<Option<regex::Regex>>,
}

impl Language {
    /// The day of the week with this name, counted from Monday as 0.
    pub fn weekday(&self, word: &str) -> Option<i8> {
        list_index(&self.times.weekdays, word)
    }

    /// The month with this name, counted from January as 1.
    pub fn month(&self, word: &str) -> Option<i8> {
        list_index(&self.times.months, word).map(|month| month + 1)
    }

    pub fn unit(&self, word: &str) -> Option<CalendarUnit> {
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
fn list_index(names: &[PhraseList], word: &str) -> Option<i8> {
    names
        .iter()
        .position(|names| names.contains(&word))
        .and_then(|place| i8::try_from(place).ok())
}

/// A pattern that matches any of the first words of phrases.
fn first_words_pattern(lists: &[PhraseList]) -> Option<regex::Regex> {
    let mut heads: Vec<String> = lists
        .iter()
        .flat_map(|list| list.iter())
        .filter_map(|phrase| phrase.split(' ').next())
        .map(escaped_word)
        .collect();
    heads.sort_unstable();
    heads.dedup();
    regex::Regex::new(&format!(
        "(?i)(?:^|[^\\p{{L}}\\p{{N}}])(?:{})(?:$|[^\\p{{L}}\\p{{N}}])",
        heads.join("|")
    ))
    .ok()
}

fn escaped_word(word: &str) -> String {
    regex::escape(word).replace('\'', "['’]")
}
