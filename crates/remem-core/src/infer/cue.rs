//! cue: finds the words that ask for something or promise it, and refuses those that are negated,
//! reported, quoted or asked. It does not read when it is due.

use super::language::Language;
use super::predicate::ConditionClause;
use super::sentence::{Gap, Sentence};
use super::when::TimeMention;
use std::ops::Range;

/// The kinds of cues, from the most binding to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CueKind {
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
    pub kind: CueKind,
    pub weight: i32,
    /// The part of the sentence that contains the cue.
    pub clause: Range<usize>,
}

const REQUEST_WEIGHT: i32 = 60;
const TASK_WEIGHT: i32 = 50;
const PROMISE_WEIGHT: i32 = 40;
const NEED_WEIGHT: i32 = 30;
/// A promise by another person, or one whose fulfilment is not awaited.
const PLAN_WEIGHT: i32 = 25;

/// The number of words after a task in which its object is searched.
const TASK_OBJECT_WORDS: usize = 3;

/// The position of a command in its sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandPosition {
    /// After "could you" or the like, so that a question can be a request too.
    AfterOpener,
    ClauseStart,
}

/// The sentence in which cues are searched, with its times.
pub(super) struct CueContext<'a> {
    pub sentence: &'a Sentence,
    pub language: &'static Language,
    pub times: &'a [TimeMention],
}

/// The words at which explicit requests begin, whether or not they turn out to be valid cues.
pub(super) fn request_starts(sentence: &Sentence, language: &Language) -> Vec<usize> {
    (0..sentence.words.len())
        .filter(|&at| {
            sentence
                .longest_phrase_at(at, language.cues.requests)
                .is_some()
        })
        .collect()
}

/// The valid cues of a sentence, in order: not negated, reported, quoted or inside a condition.
pub(super) fn find_cues(context: &CueContext<'_>, clauses: &[ConditionClause]) -> Vec<Cue> {
    let sentence = context.sentence;
    let mut found = Vec::new();
    let mut at = 0;
    while at < sentence.words.len() {
        let Some((len, class, weight)) = context.cue_at(at, clauses) else {
            at += 1;
            continue;
        };
        let clause = context.clause_around(at);
        let inside = clauses.iter().any(|clause| clause.words.contains(&at));
        let quoted = sentence.words[at..at + len]
            .iter()
            .any(|word| word.is_quoted);
        if weight > 0
            && !inside
            && !quoted
            && !context.is_negated(&clause, at)
            && !context.is_reported(at)
        {
            found.push(Cue {
                words: at..at + len,
                kind: class,
                weight,
                clause,
            });
        }
        at += len;
    }
    found
}

impl CueContext<'_> {
    /// The cue at a word: its number of words, its class and its weight. The weight is 0 if it only
    /// looks like a cue.
    fn cue_at(&self, at: usize, clauses: &[ConditionClause]) -> Option<(usize, CueKind, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        if let Some(len) = sentence.longest_phrase_at(at, cues.requests) {
            let like = sentence
                .longest_phrase_at(at + len, cues.false_continuations)
                .is_some();
            let asked = |position: &CommandPosition| {
                *position == CommandPosition::ClauseStart
                    && sentence.is_question
                    && sentence
                        .longest_phrase_at(at + len, cues.question_words)
                        .is_some()
            };
            let position = self
                .command_position(at)
                .or_else(|| self.position_after_condition(at, clauses))
                .filter(|position| !asked(position));
            return Some((
                len,
                CueKind::Request,
                if position.is_some() && !like {
                    REQUEST_WEIGHT
                } else {
                    0
                },
            ));
        }
        if let Some(len) = sentence.longest_phrase_at(at, cues.labels).filter(|len| {
            sentence.words[at + len - 1].colon_follows && sentence.gap(at) != Gap::Space
        }) {
            return Some((len, CueKind::Request, TASK_WEIGHT));
        }
        if let Some(len) = sentence.longest_phrase_at(at, cues.passive) {
            return Some((
                len,
                CueKind::Request,
                if sentence.is_question {
                    0
                } else {
                    PROMISE_WEIGHT
                },
            ));
        }
        self.need_at(at)
            .or_else(|| self.promise_at(at))
            .or_else(|| self.task_at(at))
    }

    /// A promise at a word: "I'll", or of another person "promised to".
    fn promise_at(&self, at: usize) -> Option<(usize, CueKind, i32)> {
        let cues = &self.language.cues;
        let own = self.sentence.longest_phrase_at(at, cues.promises);
        let len = own.or_else(|| self.sentence.longest_phrase_at(at, cues.pledges))?;
        let weight = match self
            .is_awaited_action(at + len)
            .filter(|_| !self.is_embedded(at))
        {
            None => 0,
            Some(true) if own.is_some() => PROMISE_WEIGHT,
            Some(_) => PLAN_WEIGHT,
        };
        Some((len, CueKind::Promise, weight))
    }

    /// A need at a word: "I need to", or "needs to be" with a participle after it.
    fn need_at(&self, at: usize) -> Option<(usize, CueKind, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        if let Some(len) = sentence.longest_phrase_at(at, cues.passive_needs) {
            let participle = sentence.word(at + len).is_some_and(|word| {
                let base = (self.language.states.base_form)(word, false);
                base != word && !word.ends_with(self.language.states.plural_ending)
            });
            let subject = at > 0 && sentence.gap(at) == Gap::Space;
            return Some((
                len,
                CueKind::State,
                if participle && subject && !sentence.is_question {
                    NEED_WEIGHT
                } else {
                    0
                },
            ));
        }
        let len = sentence.longest_phrase_at(at, cues.needs)?;
        let own = self
            .language
            .modifiers
            .subjects
            .iter()
            .any(|subject| sentence.word(at) == Some(subject))
            || len > 2;
        let placed = if own {
            !self.is_embedded(at)
        } else {
            self.command_position(at).is_some()
        };
        Some((
            len,
            CueKind::Need,
            if placed && self.is_awaited_action(at + len).is_some() {
                NEED_WEIGHT
            } else {
                0
            },
        ))
    }

    /// A task at a word: a verb such as "follow up", or a noun such as "call" with an object after
    /// it.
    fn task_at(&self, at: usize) -> Option<(usize, CueKind, i32)> {
        let sentence = self.sentence;
        let cues = &self.language.cues;
        let modifiers = &self.language.modifiers;
        let verb = sentence.longest_phrase_at(at, cues.tasks);
        let noun = || {
            let len = sentence.longest_phrase_at(at, cues.noun_tasks)?;
            let next = sentence
                .words
                .get(at + len)
                .filter(|word| word.gap == Gap::Space)?;
            let calendar = self.language.is_calendar(&next.text);
            let object = modifiers.objects.contains(&next.text.as_str())
                || (next.is_capitalised && !calendar);
            object.then_some(len)
        };
        let len = verb.or_else(noun)?;
        let holds = match self.command_position(at)? {
            CommandPosition::AfterOpener => true,
            CommandPosition::ClauseStart => !sentence.is_question,
        };
        let undoes = (at + len..at + len + TASK_OBJECT_WORDS)
            .any(|at| sentence.longest_phrase_at(at, cues.promise_nouns).is_some());
        (holds && !undoes).then_some((len, CueKind::Task, TASK_WEIGHT))
    }

    /// Whether the action after "I'll" is one that another person waits for; `None` if there is no
    /// action, or it is denied.
    fn is_awaited_action(&self, mut at: usize) -> Option<bool> {
        let cues = &self.language.cues;
        let modifiers = &self.language.modifiers;
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
            .filter(|_| self.sentence.gap(at) == Gap::Space && !self.sentence.is_question)?;
        if let Some(len) = self.sentence.longest_phrase_at(at, cues.tasks) {
            let idle = self
                .sentence
                .word(at + len)
                .is_some_and(|word| cues.non_actions.contains(&word));
            return (!idle).then_some(true);
        }
        let done = !cues.non_actions.contains(&verb)
            && !modifiers.negations.contains(&verb)
            && !modifiers.doubts.contains(&verb);
        let letters = verb.chars().all(|c| c.is_alphabetic() || c == '-');
        (done && letters && !modifiers.objects.contains(&verb))
            .then(|| cues.awaited_verbs.contains(&verb))
    }

    /// Whether a promise is only the subject of another clause: "if I'll", "what we have to".
    fn is_embedded(&self, at: usize) -> bool {
        let before = at
            .checked_sub(1)
            .and_then(|before| self.sentence.word(before));
        before.is_some_and(|word| {
            self.sentence.gap(at) == Gap::Space
                && self.language.modifiers.embedding_words.contains(&word)
        })
    }

    /// The position of a command that begins at a word, or `None` if none can begin there.
    fn command_position(&self, at: usize) -> Option<CommandPosition> {
        let sentence = self.sentence;
        let modifiers = &self.language.modifiers;
        let mut start = at;
        loop {
            if sentence
                .longest_phrase_before(start, modifiers.openers)
                .is_some()
            {
                return Some(CommandPosition::AfterOpener);
            }
            if start == 0 || sentence.gap(start) != Gap::Space {
                return Some(CommandPosition::ClauseStart);
            }
            let before = sentence.word(start - 1)?;
            if modifiers.clause_openers.contains(&before) {
                return Some(CommandPosition::ClauseStart);
            }
            if modifiers.fillers.contains(&before) {
                start -= 1;
            } else if let Some(time) = self.leading_time_start(start) {
                start = time;
            } else if modifiers.conjunctions.contains(&before) {
                let clause = self.clause_around(start - 1);
                let subject = sentence
                    .word(clause.start)
                    .is_some_and(|word| modifiers.subjects.contains(&word));
                return (!subject).then_some(CommandPosition::ClauseStart);
            } else {
                return None;
            }
        }
    }

    /// The word at which a time begins that ends right before a word: "on Friday remind me".
    fn leading_time_start(&self, at: usize) -> Option<usize> {
        let time = self.times.iter().find(|time| time.words.end == at)?;
        let led = self
            .sentence
            .longest_phrase_before(time.words.start, self.language.times.prepositions)
            .unwrap_or(0);
        Some(time.words.start - led)
    }

    /// The position of a request right after a condition, which may come without a mark: "when the
    /// invoice clears remind me".
    fn position_after_condition(
        &self,
        at: usize,
        clauses: &[ConditionClause],
    ) -> Option<CommandPosition> {
        let fillers = &self.language.modifiers.fillers;
        let idle = |at: usize| {
            self.sentence
                .word(at)
                .is_some_and(|word| fillers.contains(&word))
        };
        let follows = |clause: &&ConditionClause| {
            let beside = clause.words.end <= at && (clause.words.end..at).all(idle);
            beside && clause.key.is_some() && self.sentence.gap(clause.words.start) != Gap::Space
        };
        clauses
            .iter()
            .find(follows)
            .map(|_| CommandPosition::ClauseStart)
    }

    /// The clause around a word: up to words such as "but", which begin another clause.
    fn clause_around(&self, at: usize) -> Range<usize> {
        let turns = |at: &usize| {
            self.sentence
                .longest_phrase_at(*at, self.language.modifiers.clause_openers)
                .is_some()
        };
        let start = (1..=at).rev().find(turns).unwrap_or(0);
        let end = (at + 1..self.sentence.words.len())
            .find(turns)
            .unwrap_or(self.sentence.words.len());
        start..end
    }

    /// Whether a cue is negated: a negation comes before it, with no mark in between.
    fn is_negated(&self, clause: &Range<usize>, at: usize) -> bool {
        let modifiers = &self.language.modifiers;
        let start = (clause.start..at)
            .rev()
            .find(|&word| self.sentence.gap(word + 1) != Gap::Space)
            .map_or(clause.start, |word| word + 1);
        let denies = |word: &str| {
            modifiers.negations.contains(&word) || word.ends_with(modifiers.negated_ending)
        };
        (start..at).any(|word| self.sentence.word(word).is_some_and(denies))
    }

    /// Whether the cue is reported speech of another person.
    fn is_reported(&self, at: usize) -> bool {
        let modifiers = &self.language.modifiers;
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
