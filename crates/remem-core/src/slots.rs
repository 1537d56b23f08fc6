//! Slots: the one question that a fact or a procedure answers, so that a newer answer replaces an
//! older one. The slots of facts are in `consolidate::slot`, those of procedures here. A text gets
//! a slot only if two answers exclude each other beyond doubt: a missed slot leaves two rules side
//! by side, an invented one hides a rule.
//!
//! A procedure fills a slot in three ways. What a thing looks like or where it goes
//! (`report|format`) and the tool that it is done with (`ticket|use`) have one answer at a time.
//! Anything else excludes only its own opposite: "always" and "never" the very same action
//! (`deploy_on_friday|do`).

use crate::consolidate::slot::parse_slot;
use crate::habit::opening_words_end;
use crate::habit::phrase::Sentence;
use crate::infer::observation_key;
use crate::sabotage;

const TEXT_BYTES_MAX: usize = 200;
const WORDS_MAX: usize = 6;
/// A longer phrase describes a tool rather than naming it.
const TOOL_WORDS_MAX: usize = 4;

/// The slot of a fact and its value, if it has one.
#[must_use]
pub fn semantic_slot(text: &str) -> Option<(String, String)> {
    parse_slot(text).map(|slot| (slot.key, slot.value))
}

/// The slot of a procedure, as `subject|class`, if it has one.
#[must_use]
pub fn procedural_slot(text: &str) -> Option<String> {
    let plain = text.trim().trim_end_matches(['.', '!']);
    let sentence = Sentence::parse(plain).filter(|_| plain.len() <= TEXT_BYTES_MAX)?;
    if sentence.text.contains(AMBIGUOUS) || sentence.text.contains(". ") {
        return None;
    }
    let from = opening_words_end(&sentence);
    let from = from + sentence.longest_phrase_at(from, PERMANENCE).unwrap_or(0);
    let to = sentence.words.len();
    if sabotage!(
        "a-rule-for-now-replaces-a-rule-for-good",
        sentence.contains_any(from, UNCERTAIN),
        false
    ) {
        return None;
    }
    let (rule, context) = rule_and_context(&sentence, from, to)?;
    // A second clause would be lost with the first, so such a text has no slot.
    let whole = (rule.from..rule.to.saturating_sub(1)).all(|at| sentence.words[at].mark.is_none());
    if !whole {
        return None;
    }
    slot_of_rule(&rule, context)
}

/// A range of words of the sentence.
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

    /// The position of the first occurrence of one of `words` after the first word.
    fn find(self, words: &[&str]) -> Option<usize> {
        self.sentence
            .find_word(self.from + 1, words)
            .filter(|at| *at + 1 < self.to)
    }

    /// The words in their base forms, joined; `None` if the letters alone do not identify a thing.
    fn key(self) -> Option<String> {
        let words = self.sentence.slice(self.from, self.to);
        let plain = words
            .chars()
            .all(|c| c.is_alphanumeric() || [' ', '-', '\'', '’', '.'].contains(&c));
        let pointing = (0..self.len()).any(|nth| REFERRING_WORDS.contains(&self.word(nth)));
        let key = observation_key(words).filter(|_| plain && !pointing)?;
        (key.split(' ').count() <= WORDS_MAX).then(|| key.replace(' ', "_"))
    }
}

/// The rule, and the context that it is for: "when reviewing, …", "…, when reviewing". A comma is
/// allowed only between the two.
fn rule_and_context<'s, 'a>(
    sentence: &'s Sentence<'a>,
    from: usize,
    to: usize,
) -> Option<(Clause<'s, 'a>, Option<Clause<'s, 'a>>)> {
    let all = Clause { sentence, from, to };
    if ["when", "whenever", "for"].contains(&all.word(0)) {
        let comma = (from + 1..to).find(|at| sentence.words[*at].mark.is_some())?;
        let then = comma + 1 + sentence.longest_phrase_at(comma + 1, FILLERS).unwrap_or(0);
        return (then < to).then(|| (all.part(then, to), Some(all.part(from + 1, comma + 1))));
    }
    match all.find(&["when", "whenever"]) {
        Some(when) => Some((all.part(from, when), Some(all.part(when + 1, to)))),
        None => Some((all, None)),
    }
}

fn slot_of_rule(rule: &Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let spoken = ["i", "we"].contains(&rule.word(0))
        && ["always", "never", "prefer", "use"].contains(&rule.word(1));
    let rule = rule.part(rule.from + usize::from(spoken), rule.to);
    let forbids = rule.sentence.longest_phrase_at(rule.from, NEVER);
    let firm = forbids.or((rule.word(0) == "always").then_some(1));
    let action = rule.part(rule.from + firm.unwrap_or(0), rule.to);
    let known = if forbids.is_some() {
        None
    } else {
        format_slot(action, context)
            .or_else(|| tool_slot(action, context))
            .or_else(|| preference_slot(action, context))
    };
    match firm {
        _ if known.is_some() => known,
        Some(_) => always_never_slot(action, context),
        None => None,
    }
}

/// The slot of "always/never <action>": the action itself is the question.
fn always_never_slot(action: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let done = action
        .key()
        .filter(|_| action.len() > 1 && !STATES.contains(&action.word(0)))?;
    Some(match context {
        Some(context) => format!("{}|do_{done}", context.key()?),
        None => format!("{done}|do"),
    })
}

/// The slot of "format dates as ISO", "send reports in Slack": the format of a thing, its language,
/// or its channel.
fn format_slot(action: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let verb = action.word(0);
    if context.is_some() || !FORMATTING_VERBS.contains(&verb) {
        return None;
    }
    let by = action.find(&["as", "in", "via"])?;
    let thing = action.part(action.from + 1, by);
    let how = action.part(by + 1, action.to);
    let listed = |list: &[&str]| list.contains(&how.last());
    let class = match action.sentence.word(by) {
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

/// The slot of "use Linear for tickets", "for tickets, use Linear": the tool for a purpose.
fn tool_slot(action: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    if !["use", "prefer"].contains(&action.word(0)) {
        return None;
    }
    let (tool, purpose) = match (action.find(&["for"]), context) {
        (Some(by), None) => (
            action.part(action.from + 1, by),
            action.part(by + 1, action.to),
        ),
        (None, Some(context)) => (action.part(action.from + 1, action.to), context),
        _ => return None,
    };
    let single = (1..=TOOL_WORDS_MAX).contains(&tool.len())
        && tool.find(RELATIONS).is_none()
        && purpose.len() > 0;
    let purpose = purpose.key().filter(|_| single)?;
    // A thing has one spelling, one template and one tool, and may have all three at once. Of
    // styles it may have many.
    match tool.last() {
        kind if KINDS.contains(&kind) => Some(format!("{purpose}|use_{kind}")),
        style if STYLES.contains(&style) || tool.len() > 2 => None,
        language if LANGUAGES.contains(&language) => Some(format!("{purpose}|language")),
        _ => Some(format!("{purpose}|use")),
    }
}

/// The slot of "prefer tabs over spaces", which is also that of "prefer spaces over tabs".
fn preference_slot(action: Clause<'_, '_>, context: Option<Clause<'_, '_>>) -> Option<String> {
    let over = action
        .find(&["over"])
        .filter(|_| action.word(0) == "prefer")?;
    let one = action.part(action.from + 1, over);
    let other = action.part(over + 1, action.to);
    let short = one.len() <= 2 && other.len() <= 2 && other.find(RELATIONS).is_none();
    let mut pair = [one.key()?, other.key().filter(|_| short)?];
    pair.sort();
    let pair = pair.join("_or_");
    Some(match context {
        Some(context) => format!("{}|prefer_{pair}", context.key()?),
        None => format!("{pair}|prefer"),
    })
}

/// Characters of another sentence or clause, of a quotation, or of something that words do not
/// express.
const AMBIGUOUS: &[char] = &[
    '?', '!', ';', ':', '\n', '"', '(', '“', '„', '«', '*', '`', '<', '>', '[', '{', '_', '|', '/',
];

const PERMANENCE: &[&str] = &[
    "as a rule",
    "by default",
    "from here on",
    "from now on",
    "going forward",
    "henceforth",
];
const FILLERS: &[&str] = &["please", "then"];
const NEVER: &[&str] = &["do not", "don't", "dont", "never"];

/// Words of conditional, temporary, additive or partial rules, or of more than one statement.
#[rustfmt::skip]
const UNCERTAIN: &[&str] = &[
    "about", "additionally", "all but", "also", "although", "and", "another", "apart", "as well", "because", "besides", "but", "could", "either",
    "even", "except", "for now", "if", "instead", "just once", "maybe", "might", "most", "mostly", "nor", "not", "often", "once", "only", "or",
    "perhaps", "possibly", "probably", "rather", "should", "since", "some", "sometimes", "temporarily", "than", "till", "today", "tomorrow",
    "tonight", "too", "unless", "until", "usually", "where", "while", "without", "would",
];

/// Words that only the moment explains; and "US" and "IT", which in lower case look like "us" and
/// "it".
#[rustfmt::skip]
const REFERRING_WORDS: &[&str] = &[
    "anything", "everything", "he", "her", "here", "him", "his", "it", "its", "me", "mine", "next", "now", "one", "ones", "other", "others",
    "same", "she", "something", "that", "their", "them", "there", "these", "they", "things", "this", "those", "us", "you",
];

/// Words after "always" that begin no action.
#[rustfmt::skip]
const STATES: &[&str] = &[
    "a", "again", "am", "an", "are", "be", "been", "forget", "get", "good", "had", "happy", "has", "have", "is", "know", "mind", "my", "need",
    "remember", "the", "think", "to", "want", "was", "were", "will", "worry",
];

const FORMATTING_VERBS: &[&str] = &[
    "deliver", "export", "format", "post", "present", "render", "save", "send", "share", "write",
];

/// A tool or a choice with one of these words is tied to a circumstance.
#[rustfmt::skip]
const RELATIONS: &[&str] = &[
    "after", "as", "at", "before", "by", "during", "for", "from", "in", "into", "of", "on", "over", "per", "to", "under", "via", "with",
    "within",
];

/// The formats of a text or a file.
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

/// Kinds of thing of which one is used at a time, beside things of another kind.
#[rustfmt::skip]
const KINDS: &[&str] = &[
    "account", "alphabet", "branch", "channel", "currency", "encoding", "folder", "font", "format", "formatter", "key", "layout", "linter",
    "model", "palette", "queue", "spelling", "template", "theme", "timezone", "tone", "units", "voice",
];

/// Styles of which a text may have several.
#[rustfmt::skip]
const STYLES: &[&str] = &[
    "abbreviations", "bullets", "caution", "code", "colours", "colors", "details", "diagrams", "emoji", "examples", "figures", "footnotes",
    "headings", "images", "links", "lists", "names", "numbers", "paragraphs", "points", "quotes", "screenshots", "sentences", "sources",
    "tables", "words",
];

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
