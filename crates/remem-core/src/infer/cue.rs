//! cue: finds the words that ask for something or promise it, and refuses those that are negated,
//! reported, quoted or asked. It does not look at when it is due.

use super::language::Language;
use super::predicate::Clause;
use super::sentence::{Gap, Sentence};
use super::when::Found;
use std::ops::Range;

/// The kinds of cues, from the most binding to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Request,
    Task,
    Promise,
    Need,
    /// "needs to be renewed": due at a time. With a condition it is a rule, not a promise.
    State,
}

#[derive(Clone, Debug)]
/// Words of a sentence that ask for something or promise it.
pub(super) struct Cue {
    pub words: Range<usize>,
    pub class: Class,
    pub weight: i32,
    /// The part of the sentence that contains the cue.
    pub clause: Range<usize>,
}

const REQUEST: i32 = 60;
const TASK: i32 = 50;
const PROMISE: i32 = 40;
const NEED: i32 = 30;
/// A promise by another person, or one whose fulfilment is not awaited.
const PLAN: i32 = 25;

/// The number of words after a task in which its object is searched.
const UNDONE_WORDS: usize = 3;

/// The position of a command in its sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// After "could you" or the like, so that a question can be a request too.
    Opened,
    Bare,
}

/// The sentence in which cues are searched, with its times.
pub(super) struct Ground<'a> {
    pub sentence: &'a Sentence,
    pub language: &'static Language,
    pub times: &'a [Found],
}

/// The words at which explicit requests begin, whether or not they turn out to be valid cues.
pub(super) fn requests(sentence: &Sentence, language: &Language) -> Vec<usize> {
    (0..sentence.words.len())
        .filter(|&at| sentence.any(at, language.cues.requests).is_some())
        .collect()
}

/// The valid cues of a sentence, in order: not negated, reported, quoted or inside a condition.
pub(super) fn cues(context: &Ground<'_>, clauses: &[Clause]) -> Vec<Cue> {
    let sentence = context.sentence;
    let mut found = Vec::new();
    let mut at = 0;
    while at < sentence.words.len() {
        let Some((len, class, weight)) = context.cue(at, clauses) else {
            at += 1;
            continue;
        };
        let clause = context.clause(at);
        let inside = clauses.iter().any(|clause| clause.words.contains(&at));
        let quoted = sentence.words[at..at + len].iter().any(|word| word.quoted);
        if weight > 0
            && !inside
            && !quoted
            && !context.negated(&clause, at)
            && !context.reported(at)
        {
            found.push(Cue {
                words: at..at + len,
                class,
                weight,
                clause,
            });
        }
        at += len;
    }
    found
}

impl Ground<'_> {
    /// The cue at a word: its number of words, its class and its weight. The weight is 0 if it only
    /// looks like a cue.
    fn cue(&self, at: usize, clauses: &[Clause]) -> Option<(usize, Class, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        if let Some(len) = sentence.any(at, cues.requests) {
            let like = sentence.any(at + len, cues.resemble).is_some();
            let asked = |position: &Standing| {
                *position == Standing::Bare
                    && sentence.question
                    && sentence.any(at + len, cues.asked).is_some()
            };
            let position = self
                .standing(at)
                .or_else(|| self.after_clause(at, clauses))
                .filter(|position| !asked(position));
            return Some((
                len,
                Class::Request,
                if position.is_some() && !like {
                    REQUEST
                } else {
                    0
                },
            ));
        }
        if let Some(len) = sentence
            .any(at, cues.labels)
            .filter(|len| sentence.words[at + len - 1].colon && sentence.gap(at) != Gap::Space)
        {
            return Some((len, Class::Request, TASK));
        }
        if let Some(len) = sentence.any(at, cues.passive) {
            return Some((
                len,
                Class::Request,
                if sentence.question { 0 } else { PROMISE },
            ));
        }
        self.need(at)
            .or_else(|| self.promise(at))
            .or_else(|| self.task(at))
    }

    /// A promise at a word: "I'll", or of another person "promised to".
    fn promise(&self, at: usize) -> Option<(usize, Class, i32)> {
        let cues = &self.language.cues;
        let own = self.sentence.any(at, cues.promises);
        let len = own.or_else(|| self.sentence.any(at, cues.pledges))?;
        let weight = match self.deed(at + len).filter(|_| !self.embedded(at)) {
            None => 0,
            Some(true) if own.is_some() => PROMISE,
            Some(_) => PLAN,
        };
        Some((len, Class::Promise, weight))
    }

    /// A need at a word: "I need to", or "needs to be" with a participle after it.
    fn need(&self, at: usize) -> Option<(usize, Class, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        if let Some(len) = sentence.any(at, cues.needs_done) {
            let participle = sentence.word(at + len).is_some_and(|word| {
                let base = (self.language.states.base)(word, false);
                base != word && !word.ends_with(self.language.states.plural_end)
            });
            let subject = at > 0 && sentence.gap(at) == Gap::Space;
            return Some((
                len,
                Class::State,
                if participle && subject && !sentence.question {
                    NEED
                } else {
                    0
                },
            ));
        }
        let len = sentence.any(at, cues.needs)?;
        let own = self
            .language
            .moods
            .subjects
            .iter()
            .any(|subject| sentence.word(at) == Some(subject))
            || len > 2;
        let placed = if own {
            !self.embedded(at)
        } else {
            self.standing(at).is_some()
        };
        Some((
            len,
            Class::Need,
            if placed && self.deed(at + len).is_some() {
                NEED
            } else {
                0
            },
        ))
    }

    /// A task at a word: a verb such as "follow up", or a noun such as "call" with an object after
    /// it.
    fn task(&self, at: usize) -> Option<(usize, Class, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        let modifiers = &self.language.moods;
        let verb = sentence.any(at, cues.tasks);
        let noun = || {
            let len = sentence.any(at, cues.noun_tasks)?;
            let next = sentence
                .words
                .get(at + len)
                .filter(|word| word.gap == Gap::Space)?;
            let calendar = self.language.is_calendar(&next.text);
            let object =
                modifiers.objects.contains(&next.text.as_str()) || (next.capital && !calendar);
            object.then_some(len)
        };
        let len = verb.or_else(noun)?;
        let holds = match self.standing(at)? {
            Standing::Opened => true,
            Standing::Bare => !sentence.question,
        };
        let undoes =
            (at + len..at + len + UNDONE_WORDS).any(|at| sentence.any(at, cues.undone).is_some());
        (holds && !undoes).then_some((len, Class::Task, TASK))
    }

    /// Whether the action after "I'll" is one that another person waits for; `None` if there is no
    /// action, or it is denied.
    fn deed(&self, mut at: usize) -> Option<bool> {
        let cues = &self.language.cues;
        let modifiers = &self.language.moods;
        while self
            .sentence
            .word(at)
            .is_some_and(|word| modifiers.fillers.contains(&word))
        {
            at += 1;
        }
        let verb = self
            .sentence
            .word(at)
            .filter(|_| self.sentence.gap(at) == Gap::Space && !self.sentence.question)?;
        if let Some(len) = self.sentence.any(at, cues.tasks) {
            let idle = self
                .sentence
                .word(at + len)
                .is_some_and(|word| cues.not_done.contains(&word));
            return (!idle).then_some(true);
        }
        let done = !cues.not_done.contains(&verb)
            && !modifiers.negations.contains(&verb)
            && !modifiers.doubts.contains(&verb);
        let letters = verb.chars().all(|c| c.is_alphabetic() || c == '-');
        (done && letters && !modifiers.objects.contains(&verb))
            .then(|| cues.delivered.contains(&verb))
    }

    /// Whether a promise is only the subject of another clause: "if I'll", "what we have to".
    fn embedded(&self, at: usize) -> bool {
        let before = at
            .checked_sub(1)
            .and_then(|before| self.sentence.word(before));
        before.is_some_and(|word| {
            self.sentence.gap(at) == Gap::Space && self.language.moods.embeds.contains(&word)
        })
    }

    /// The position of a command that begins at a word, or `None` if none can begin there.
    fn standing(&self, at: usize) -> Option<Standing> {
        let sentence = self.sentence;
        let modifiers = &self.language.moods;
        let mut start = at;
        loop {
            if sentence.any_before(start, modifiers.openers).is_some() {
                return Some(Standing::Opened);
            }
            if start == 0 || sentence.gap(start) != Gap::Space {
                return Some(Standing::Bare);
            }
            let before = sentence.word(start - 1)?;
            if modifiers.turns.contains(&before) {
                return Some(Standing::Bare);
            }
            if modifiers.fillers.contains(&before) {
                start -= 1;
            } else if let Some(time) = self.leading_time(start) {
                start = time;
            } else if modifiers.joins.contains(&before) {
                let clause = self.clause(start - 1);
                let subject = sentence
                    .word(clause.start)
                    .is_some_and(|word| modifiers.subjects.contains(&word));
                return (!subject).then_some(Standing::Bare);
            } else {
                return None;
            }
        }
    }

    /// The word at which a time begins that ends right before a word: "on Friday remind me".
    fn leading_time(&self, at: usize) -> Option<usize> {
        let time = self.times.iter().find(|time| time.words.end == at)?;
        let led = self
            .sentence
            .any_before(time.words.start, self.language.times.prepositions)
            .unwrap_or(0);
        Some(time.words.start - led)
    }

    /// The position of a request right after a condition, which may come without a mark: "when the
    /// invoice clears remind me".
    fn after_clause(&self, at: usize, clauses: &[Clause]) -> Option<Standing> {
        let fillers = &self.language.moods.fillers;
        let idle = |at: usize| {
            self.sentence
                .word(at)
                .is_some_and(|word| fillers.contains(&word))
        };
        let follows = |clause: &&Clause| {
            let beside = clause.words.end <= at && (clause.words.end..at).all(idle);
            beside && clause.key.is_some() && self.sentence.gap(clause.words.start) != Gap::Space
        };
        clauses.iter().find(follows).map(|_| Standing::Bare)
    }

    /// The clause around a word: up to words such as "but", which begin another clause.
    fn clause(&self, at: usize) -> Range<usize> {
        let turns = |at: &usize| self.sentence.any(*at, self.language.moods.turns).is_some();
        let start = (1..=at).rev().find(turns).unwrap_or(0);
        let end = (at + 1..self.sentence.words.len())
            .find(turns)
            .unwrap_or(self.sentence.words.len());
        start..end
    }

    /// Whether a cue is negated: a negation comes before it, with no mark in between.
    fn negated(&self, clause: &Range<usize>, at: usize) -> bool {
        let modifiers = &self.language.moods;
        let start = (clause.start..at)
            .rev()
            .find(|&word| self.sentence.gap(word + 1) != Gap::Space)
            .map_or(clause.start, |word| word + 1);
        let denies = |word: &str| {
            modifiers.negations.contains(&word) || word.ends_with(modifiers.negated_end)
        };
        (start..at).any(|word| self.sentence.word(word).is_some_and(denies))
    }

    /// Whether the cue is reported speech of another person.
    fn reported(&self, at: usize) -> bool {
        let modifiers = &self.language.moods;
        let is_report = |word: usize| {
            self.sentence
                .word(word)
                .is_some_and(|word| modifiers.reports.contains(&word))
        };
        let own = |word: usize| {
            word.checked_sub(1)
                .and_then(|before| self.sentence.word(before))
                .is_some_and(|word| modifiers.speakers.contains(&word))
        };
        let last = self.sentence.words.len().saturating_sub(2).max(at + 1);
        (0..at).any(|word| is_report(word) && !own(word))
            || (last..self.sentence.words.len()).any(is_report)
    }
}
