//! Slots of memory at work: the one question that a fact or a procedure answers, so that a newer
//! answer takes the place of an older one. Facts have those of `consolidate::slot`; procedures have
//! theirs here. Only where it is beyond doubt that two answers exclude each other: to miss a slot
//! leaves two rules side by side, to invent one hides a rule.
//!
//! A procedure fills a slot in three ways. What a thing looks like or where it goes
//! (`report|format`) and what it is done with (`ticket|use`) have one answer at a time. Anything
//! else excludes only its own opposite: "always" and "never" the very same deed
//! (`deploy_on_friday|do`).

use crate::consolidate::slot::slot;
use crate::habit::opening;
use crate::habit::phrase::Sentence;
use crate::infer::observation_key;
use crate::sabotage;

const TEXT_BYTES_MAX: usize = 200;
const WORDS_MAX: usize = 6;
/// A tool with a longer name is a description of one.
const TOOL_WORDS_MAX: usize = 4;

/// The question that a fact answers, and its answer.
#[must_use]
pub fn semantic_slot(text: &str) -> Option<(String, String)> {
    slot(text).map(|slot| (slot.key, slot.value))
}

/// The question that a procedure answers, as `subject|class`.
#[must_use]
pub fn procedural_slot(text: &str) -> Option<String> {
    let plain = text.trim().trim_end_matches(['.', '!']);
    let sentence = Sentence::read(plain).filter(|_| plain.len() <= TEXT_BYTES_MAX)?;
    if sentence.text.contains(AMBIGUOUS) || sentence.text.contains(". ") {
        return None;
    }
    let from = opening(&sentence);
    let from = from + sentence.any(from, STANDING).unwrap_or(0);
    let to = sentence.words.len();
    if sabotage!(
        "a-rule-for-now-replaces-a-rule-for-good",
        sentence.has(from, UNCERTAIN),
        false
    ) {
        return None;
    }
    let (rule, context) = parts(&sentence, from, to)?;
    // Another clause would be lost with the first.
    let whole = (rule.from..rule.to.saturating_sub(1)).all(|at| sentence.words[at].mark.is_none());
    if !whole {
        return None;
    }
    read(&rule, context)
}

/// A run of words of the sentence.
#[derive(Clone, Copy)]
struct Clause<'s, 'a> {
    sentence: &'s Sentence<'a>,
    from: usize,
    to: usize,
}

impl<'s, 'a> Clause<'s, 'a> {
    fn part(self, from: usize, to: usize) -> Clause<'s, 'a> {
        Clause { from, to, ..self }
    }

    fn len(self) -> usize {
        self.to.saturating_sub(self.from)
    }

    fn word(self, nth: usize) -> &'s str {
        if self.from + nth < self.to {
            self.sentence.word(self.from + nth)
        } else {
            ""
        }
    }

    fn last(self) -> &'s str {
        if self.len() > 0 {
            self.sentence.word(self.to - 1)
        } else {
            ""
        }
    }

    /// The first place of one of `words`, not as the first word.
    fn find(self, words: &[&str]) -> Option<usize> {
        self.sentence
            .find(self.from + 1, words)
            .filter(|at| *at + 1 < self.to)
    }

    /// The words in their base forms, joined; none where letters do not tell one thing from
    /// another.
    fn key(self) -> Option<String> {
        let words = self.sentence.slice(self.from, self.to);
        let plain = words
            .chars()
            .all(|c| c.is_alphanumeric() || [' ', '-', '\'', '’', '.'].contains(&c));
        let pointing = (0..self.len()).any(|nth| POINTING.contains(&self.word(nth)));
        let key = observation_key(words).filter(|_| plain && !pointing)?;
        (key.split(' ').count() <= WORDS_MAX).then(|| key.replace(' ', "_"))
    }
}

/// The rule, and the context it is for: "when reviewing, …", "…, when reviewing". A comma may stand
/// only between the two.
fn parts<'s, 'a>(
    sentence: &'s Sentence<'a>,
    from: usize,
    to: usize,
) -> Option<(Clause<'s, 'a>, Option<Clause<'s, 'a>>)> {
    let all = Clause { sentence, from, to };
    if ["when", "whenever", "for"].contains(&all.word(0)) {
        let comma = (from + 1..to).find(|at| sentence.words[*at].mark.is_some())?;
        let then = comma + 1 + sentence.any(comma + 1, FILLERS).unwrap_or(0);
        return (then < to).then(|| (all.part(then, to), Some(all.part(from + 1, comma + 1))));
    }
    match all.find(&["when", "whenever"]) {
        Some(when) => Some((all.part(from, when), Some(all.part(when + 1, to)))),
        None => Some((all, None)),
    }
}

fn read(rule: &Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let spoken = ["i", "we"].contains(&rule.word(0))
        && ["always", "never", "prefer", "use"].contains(&rule.word(1));
    let rule = rule.part(rule.from + usize::from(spoken), rule.to);
    let forbids = rule.sentence.any(rule.from, NEVER);
    let firm = forbids.or((rule.word(0) == "always").then_some(1));
    let deed = rule.part(rule.from + firm.unwrap_or(0), rule.to);
    let known = if forbids.is_some() {
        None
    } else {
        shape(deed, context)
            .or_else(|| tool(deed, context))
            .or_else(|| choice(deed, context))
    };
    match firm {
        _ if known.is_some() => known,
        Some(_) => polar(deed, context),
        None => None,
    }
}

/// "always/never <deed>": the deed itself is the question.
fn polar(deed: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let done = deed
        .key()
        .filter(|_| deed.len() > 1 && !STATES.contains(&deed.word(0)))?;
    Some(match context {
        Some(context) => format!("{}|do_{done}", context.key()?),
        None => format!("{done}|do"),
    })
}

/// "format dates as ISO", "send reports in Slack": what a thing looks like, its language, or where
/// it goes.
fn shape(deed: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let verb = deed.word(0);
    if context.is_some() || !SHAPING.contains(&verb) {
        return None;
    }
    let by = deed.find(&["as", "in", "via"])?;
    let thing = deed.part(deed.from + 1, by);
    let how = deed.part(by + 1, deed.to);
    let listed = |list: &[&str]| list.contains(&how.last());
    let class = match deed.sentence.word(by) {
        "as" if verb == "format" || listed(FORMATS) => "format",
        "in" if listed(FORMATS) => "format",
        "in" if listed(LANGUAGES) => "language",
        "in" | "via" if listed(CHANNELS) || how.word(0).starts_with('#') => "channel",
        _ => return None,
    };
    let plain =
        how.len() <= TOOL_WORDS_MAX && how.find(&["as", "for", "in", "to", "via"]).is_none();
    (plain && thing.len() > 0).then(|| thing.key().map(|thing| format!("{thing}|{class}")))?
}

/// "use Linear for tickets", "for tickets, use Linear": what a thing is done with.
fn tool(deed: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    if !["use", "prefer"].contains(&deed.word(0)) {
        return None;
    }
    let (tool, purpose) = match (deed.find(&["for"]), context) {
        (Some(by), None) => (deed.part(deed.from + 1, by), deed.part(by + 1, deed.to)),
        (None, Some(context)) => (deed.part(deed.from + 1, deed.to), context),
        _ => return None,
    };
    let single = (1..=TOOL_WORDS_MAX).contains(&tool.len())
        && tool.find(RELATIONS).is_none()
        && purpose.len() > 0;
    let purpose = purpose.key().filter(|_| single)?;
    // A thing has one spelling, one template and one tool, and all three at once. Of styles it may
    // have many.
    match tool.last() {
        kind if KINDS.contains(&kind) => Some(format!("{purpose}|use_{kind}")),
        style if STYLES.contains(&style) || tool.len() > 2 => None,
        language if LANGUAGES.contains(&language) => Some(format!("{purpose}|language")),
        _ => Some(format!("{purpose}|use")),
    }
}

/// "prefer tabs over spaces": the same question as "prefer spaces over tabs".
fn choice(deed: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let over = deed.find(&["over"]).filter(|_| deed.word(0) == "prefer")?;
    let one = deed.part(deed.from + 1, over);
    let other = deed.part(over + 1, deed.to);
    let short = one.len() <= 2 && other.len() <= 2 && other.find(RELATIONS).is_none();
    let mut pair = [one.key()?, other.key().filter(|_| short)?];
    pair.sort();
    let pair = pair.join("_or_");
    Some(match context {
        Some(context) => format!("{}|prefer_{pair}", context.key()?),
        None => format!("{pair}|prefer"),
    })
}

/// Marks of another sentence or clause, of a quotation, or of something that words do not tell.
const AMBIGUOUS: &[char] = &[
    '?', '!', ';', ':', '\n', '"', '(', '“', '„', '«', '*', '`', '<', '>', '[', '{', '_', '|', '/',
];

const STANDING: &[&str] = &[
    "as a rule",
    "by default",
    "from here on",
    "from now on",
    "going forward",
    "henceforth",
];
const FILLERS: &[&str] = &["please", "then"];
const NEVER: &[&str] = &["do not", "don't", "dont", "never"];

/// Conditional, temporary, additive, partial, or more than one statement.
#[rustfmt::skip]
const UNCERTAIN: &[&str] = &[
    "about", "additionally", "all but", "also", "although", "and", "another", "apart", "as well", "because", "besides", "but", "could", "either",
    "even", "except", "for now", "if", "instead", "just once", "maybe", "might", "most", "mostly", "nor", "not", "often", "once", "only", "or",
    "perhaps", "possibly", "probably", "rather", "should", "since", "some", "sometimes", "temporarily", "than", "till", "today", "tomorrow",
    "tonight", "too", "unless", "until", "usually", "where", "while", "without", "would",
];

/// What only the moment tells; and "US" and "IT", which letters do not tell from "us" and "it".
#[rustfmt::skip]
const POINTING: &[&str] = &[
    "anything", "everything", "he", "her", "here", "him", "his", "it", "its", "me", "mine", "next", "now", "one", "ones", "other", "others",
    "same", "she", "something", "that", "their", "them", "there", "these", "they", "things", "this", "those", "us", "you",
];

/// After "always": nothing that is done.
#[rustfmt::skip]
const STATES: &[&str] = &[
    "a", "again", "am", "an", "are", "be", "been", "forget", "get", "good", "had", "happy", "has", "have", "is", "know", "mind", "my", "need",
    "remember", "the", "think", "to", "want", "was", "were", "will", "worry",
];

const SHAPING: &[&str] = &[
    "deliver", "export", "format", "post", "present", "render", "save", "send", "share", "write",
];

/// A tool or a choice with one of these is tied to a circumstance.
#[rustfmt::skip]
const RELATIONS: &[&str] = &[
    "after", "as", "at", "before", "by", "during", "for", "from", "in", "into", "of", "on", "over", "per", "to", "under", "via", "with",
    "within",
];

/// What a text or a file may look like.
#[rustfmt::skip]
const FORMATS: &[&str] = &[
    "asciidoc", "bullets", "csv", "docx", "html", "json", "latex", "list", "markdown", "pdf", "prose", "spreadsheet", "table", "tables",
    "text", "toml", "xlsx", "xml", "yaml",
];

#[rustfmt::skip]
const LANGUAGES: &[&str] = &[
    "arabic", "chinese", "czech", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hebrew", "hindi", "hungarian",
    "italian", "japanese", "korean", "norwegian", "polish", "portuguese", "romanian", "russian", "slovak", "spanish", "swedish", "turkish",
    "ukrainian", "vietnamese",
];

const CHANNELS: &[&str] = &[
    "chat",
    "discord",
    "e-mail",
    "email",
    "mail",
    "mattermost",
    "matrix",
    "signal",
    "slack",
    "sms",
    "teams",
];

/// Kinds of thing of which one is used at a time, beside those of another kind.
#[rustfmt::skip]
const KINDS: &[&str] = &[
    "account", "alphabet", "branch", "channel", "currency", "encoding", "folder", "font", "format", "formatter", "key", "layout", "linter",
    "model", "palette", "queue", "spelling", "template", "theme", "timezone", "tone", "units", "voice",
];

/// What a text may have several of.
#[rustfmt::skip]
const STYLES: &[&str] = &[
    "abbreviations", "bullets", "caution", "code", "colours", "colors", "details", "diagrams", "emoji", "examples", "figures", "footnotes",
    "headings", "images", "links", "lists", "names", "numbers", "paragraphs", "points", "quotes", "screenshots", "sentences", "sources",
    "tables", "words",
];

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
