//! cue: finds the words that ask for something or promise it, and refuses those that are negated,
//! reported, quoted or asked. May not look at when it is to be done.

use super::language::Language;
use super::predicate::Clause;
use super::sentence::{Gap, Sentence};
use super::when::Found;
use std::ops::Range;

/// How binding a cue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Request,
    Task,
    Promise,
    Need,
    /// "needs to be renewed": due at a time; when something is so, it is a rule and no promise.
    State,
}

#[derive(Clone, Debug)]
pub(super) struct Cue {
    pub words: Range<usize>,
    pub class: Class,
    pub weight: i32,
    /// The part of the sentence that it speaks in.
    pub clause: Range<usize>,
}

const REQUEST: i32 = 60;
const TASK: i32 = 50;
const PROMISE: i32 = 40;
const NEED: i32 = 30;
/// A promise of somebody else, or of something that nobody waits for.
const PLAN: i32 = 25;

/// How near to a task its object is.
const UNDONE_WORDS: usize = 3;

/// How a command stands in its sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Behind "could you": also a question asks for it.
    Opened,
    Bare,
}

/// What the search for cues goes by.
pub(super) struct Ground<'a> {
    pub sentence: &'a Sentence,
    pub language: &'static Language,
    pub times: &'a [Found],
}

/// The places where an explicit request begins, whatever it is worth.
pub(super) fn requests(sentence: &Sentence, language: &Language) -> Vec<usize> {
    (0..sentence.words.len())
        .filter(|&at| sentence.any(at, language.cues.requests).is_some())
        .collect()
}

/// The cues of a sentence that hold, in order.
pub(super) fn cues(ground: &Ground<'_>, clauses: &[Clause]) -> Vec<Cue> {
    let sentence = ground.sentence;
    let mut found = Vec::new();
    let mut at = 0;
    while at < sentence.words.len() {
        let Some((len, class, weight)) = ground.cue(at, clauses) else {
            at += 1;
            continue;
        };
        let clause = ground.clause(at);
        let inside = clauses.iter().any(|clause| clause.words.contains(&at));
        let quoted = sentence.words[at..at + len].iter().any(|word| word.quoted);
        if weight > 0 && !inside && !quoted && !ground.negated(&clause, at) && !ground.reported(at)
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
    /// A cue at a place: how many words, how binding, and its weight; none, if it only looks like
    /// one.
    fn cue(&self, at: usize, clauses: &[Clause]) -> Option<(usize, Class, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        if let Some(len) = sentence.any(at, cues.requests) {
            let like = sentence.any(at + len, cues.resemble).is_some();
            let asked = |stands: &Standing| {
                *stands == Standing::Bare
                    && sentence.question
                    && sentence.any(at + len, cues.asked).is_some()
            };
            let stands = self
                .standing(at)
                .or_else(|| self.after_clause(at, clauses))
                .filter(|stands| !asked(stands));
            return Some((
                len,
                Class::Request,
                if stands.is_some() && !like {
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

    fn task(&self, at: usize) -> Option<(usize, Class, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        let moods = &self.language.moods;
        let verb = sentence.any(at, cues.tasks);
        let noun = || {
            let len = sentence.any(at, cues.noun_tasks)?;
            let next = sentence
                .words
                .get(at + len)
                .filter(|word| word.gap == Gap::Space)?;
            let calendar = self.language.is_calendar(&next.text);
            let object = moods.objects.contains(&next.text.as_str()) || (next.capital && !calendar);
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

    /// Whether somebody waits for what is to be done after "I'll": none, if that is nothing, or is
    /// denied.
    fn deed(&self, mut at: usize) -> Option<bool> {
        let cues = &self.language.cues;
        let moods = &self.language.moods;
        while self
            .sentence
            .word(at)
            .is_some_and(|word| moods.fillers.contains(&word))
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
            && !moods.negations.contains(&verb)
            && !moods.doubts.contains(&verb);
        let letters = verb.chars().all(|c| c.is_alphabetic() || c == '-');
        (done && letters && !moods.objects.contains(&verb)).then(|| cues.delivered.contains(&verb))
    }

    /// Whether a promise is only what another clause speaks about: "if I'll", "what we have to".
    fn embedded(&self, at: usize) -> bool {
        let before = at
            .checked_sub(1)
            .and_then(|before| self.sentence.word(before));
        before.is_some_and(|word| {
            self.sentence.gap(at) == Gap::Space && self.language.moods.embeds.contains(&word)
        })
    }

    /// Whether a command can stand at a place.
    fn standing(&self, at: usize) -> Option<Standing> {
        let sentence = self.sentence;
        let moods = &self.language.moods;
        let mut start = at;
        loop {
            if sentence.any_before(start, moods.openers).is_some() {
                return Some(Standing::Opened);
            }
            if start == 0 || sentence.gap(start) != Gap::Space {
                return Some(Standing::Bare);
            }
            let before = sentence.word(start - 1)?;
            if moods.turns.contains(&before) {
                return Some(Standing::Bare);
            }
            if moods.fillers.contains(&before) {
                start -= 1;
            } else if let Some(time) = self.leading_time(start) {
                start = time;
            } else if moods.joins.contains(&before) {
                let clause = self.clause(start - 1);
                let subject = sentence
                    .word(clause.start)
                    .is_some_and(|word| moods.subjects.contains(&word));
                return (!subject).then_some(Standing::Bare);
            } else {
                return None;
            }
        }
    }

    /// Where a time begins that ends before a place: "on Friday remind me".
    fn leading_time(&self, at: usize) -> Option<usize> {
        let time = self.times.iter().find(|time| time.words.end == at)?;
        let led = self
            .sentence
            .any_before(time.words.start, self.language.times.prepositions)
            .unwrap_or(0);
        Some(time.words.start - led)
    }

    /// A request may follow a condition without a mark: "when the invoice clears remind me".
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

    /// The words around a place up to those that turn to something else.
    fn clause(&self, at: usize) -> Range<usize> {
        let turns = |at: &usize| self.sentence.any(*at, self.language.moods.turns).is_some();
        let start = (1..=at).rev().find(turns).unwrap_or(0);
        let end = (at + 1..self.sentence.words.len())
            .find(turns)
            .unwrap_or(self.sentence.words.len());
        start..end
    }

    /// Whether a cue is denied: a denial stands before it, with no mark in between.
    fn negated(&self, clause: &Range<usize>, at: usize) -> bool {
        let moods = &self.language.moods;
        let start = (clause.start..at)
            .rev()
            .find(|&word| self.sentence.gap(word + 1) != Gap::Space)
            .map_or(clause.start, |word| word + 1);
        let denies =
            |word: &str| moods.negations.contains(&word) || word.ends_with(moods.negated_end);
        (start..at).any(|word| self.sentence.word(word).is_some_and(denies))
    }

    /// Whether somebody else is told to have said it.
    fn reported(&self, at: usize) -> bool {
        let moods = &self.language.moods;
        let said = |word: usize| {
            self.sentence
                .word(word)
                .is_some_and(|word| moods.reports.contains(&word))
        };
        let own = |word: usize| {
            word.checked_sub(1)
                .and_then(|before| self.sentence.word(before))
                .is_some_and(|word| moods.speakers.contains(&word))
        };
        let last = self.sentence.words.len().saturating_sub(2).max(at + 1);
        (0..at).any(|word| said(word) && !own(word)) || (last..self.sentence.words.len()).any(said)
    }
}
