//! The merge predicate: whether one entry may replace another. Two texts must be near-identical by
//! trigrams, and they must have the same words in the same order, ignoring case, punctuation and a
//! closed list of fillers.
//!
//! The trigram measure alone is blind to what matters in memory: in a text of 200 bytes a changed
//! number, date, negation, unit, opposite ("enabled"/"disabled") or pair of swapped names keeps it
//! above any useful threshold. So every word that is not a filler discriminates. A guard only ever
//! removes a merge: to keep a duplicate costs space, to merge two facts costs truth.

use super::features::{intersection_and_union, is_word, to_lower, trigrams};
use crate::admission::UNTRUSTED_TAG;
use crate::sabotage;

/// Prefixes of tags that callers do not filter by: they name the origin of an entry, and the
/// survivor of a merge takes them over.
const PROVENANCE_PREFIXES: [&str; 2] = ["source:", "compacted-from:"];

/// The input of the predicate: the parts of an entry that a caller can see.
#[derive(Clone, PartialEq, Eq)]
pub struct MergeItem {
    /// The content of the entry.
    pub text: String,
    /// The tags of the entry, in any order.
    pub tags: Vec<String>,
    /// The metadata of the entry, as one canonical string.
    pub metadata: Option<String>,
}

impl MergeItem {
    /// An item with a text, without tags or metadata.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> MergeItem {
        MergeItem {
            text: text.into(),
            tags: Vec::new(),
            metadata: None,
        }
    }

    /// Whether the entry is tagged as untrusted. An untrusted entry never replaces a trusted one,
    /// nor the other way round.
    pub(super) fn is_untrusted(&self) -> bool {
        self.tags.iter().any(|tag| tag == UNTRUSTED_TAG)
    }

    /// The tags that a caller may filter by.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().map(String::as_str).filter(|tag| {
            !PROVENANCE_PREFIXES
                .iter()
                .any(|prefix| tag.starts_with(prefix))
        })
    }
}

// Content stays out of logs.
impl std::fmt::Debug for MergeItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Item({} bytes, {} tags)",
            self.text.len(),
            self.tags.len()
        )
    }
}

/// Whether `leader` may replace `member`: their similarity as a fraction, or `None`.
#[must_use]
pub fn may_merge(member: &MergeItem, leader: &MergeItem) -> Option<(u64, u64)> {
    let alike = intersection_and_union(&trigrams(&member.text), &trigrams(&leader.text));
    let same = is_near(alike)
        && keeps_labels(member, leader)
        && normal_form(&member.text) == normal_form(&leader.text);
    same.then_some(alike)
}

/// Whether at least 17 of 20 trigrams are common, in whole numbers. Texts without trigrams are not
/// near.
pub(super) fn is_near((common, all): (u64, u64)) -> bool {
    all > 0 && 20 * common >= 17 * all
}

/// Whether every filter by tags or metadata that finds the member also finds the leader, and both
/// are trusted or both untrusted.
pub(super) fn keeps_labels(member: &MergeItem, leader: &MergeItem) -> bool {
    sabotage!(
        "untrusted-stands-for-trusted",
        member.is_untrusted() == leader.is_untrusted(),
        true
    ) && (member.metadata.is_none() || member.metadata == leader.metadata)
        && member
            .labels()
            .all(|label| leader.labels().any(|other| other == label))
}

/// The words that must be the same in both texts, one on each line. Chunks with a digit, a symbol
/// or mixed case (numbers, dates, paths, addresses, identifiers) are taken verbatim, other words in
/// lower case; fillers are left out.
pub(super) fn normal_form(text: &str) -> String {
    let mut form = NormalFormBuilder {
        text: String::with_capacity(text.len()),
        is_all_caps: !text.chars().any(char::is_lowercase),
        at_sentence_start: true,
    };
    for line in text.lines() {
        form.at_sentence_start = true;
        line.split_whitespace()
            .for_each(|chunk| form.add_chunk(chunk));
    }
    form.text
}

/// The normal form while it is built, with the state of the current sentence.
struct NormalFormBuilder {
    text: String,
    /// The text has no lower-case letter, so capitals mean nothing.
    is_all_caps: bool,
    /// The next word begins a sentence, so its capital means nothing.
    at_sentence_start: bool,
}

impl NormalFormBuilder {
    fn add_chunk(&mut self, chunk: &str) {
        let opened = chunk.trim_start_matches(OPENING_MARKS);
        let core = opened.trim_end_matches(CLOSING_MARKS);
        let tail = &opened[core.len()..];
        if core.chars().all(|c| DASHES.contains(&c)) {
            // A bullet or a dash between clauses.
        } else if is_verbatim(core) {
            self.push_token(core);
            self.at_sentence_start = false;
        } else if let Some(base) = negated_verb(core) {
            self.add_word(&base);
            self.push_token("not");
        } else {
            core.split(|c| !is_word(c))
                .filter(|word| !word.is_empty())
                .for_each(|word| self.add_word(word));
        }
        // A question states nothing, so it is not the same as the statement.
        if tail.contains('?') {
            self.push_token("?");
        }
        self.at_sentence_start |= tail.contains(['.', '!', '?', ':']);
    }

    fn add_word(&mut self, word: &str) {
        let begins = std::mem::replace(&mut self.at_sentence_start, false);
        let folded: String = word.chars().map(to_lower).collect();
        let acronym = !self.is_all_caps
            && word.chars().nth(1).is_some()
            && !word.chars().any(char::is_lowercase)
            && folded != word;
        if acronym {
            // An acronym differs from the word: "US" is not "us", "IT" is not "it".
            return self.push_token(word);
        }
        let capital = word.starts_with(char::is_uppercase) && !begins && !self.is_all_caps;
        let filler = FILLERS.binary_search(&folded.as_str()).is_ok()
            || (begins && OPENING_FILLERS.contains(&folded.as_str()));
        match folded.as_str() {
            // A capitalised filler is a name: "vitamin A" is not "vitamin".
            _ if filler && !capital => self.at_sentence_start = begins,
            "cannot" => ["can", "not"]
                .into_iter()
                .for_each(|part| self.push_token(part)),
            folded => self.push_token(folded),
        }
    }

    fn push_token(&mut self, token: &str) {
        self.text.push_str(token);
        self.text.push('\n');
    }
}

/// Whether a chunk is taken verbatim: numbers in any script, symbols (currencies, operators, emoji,
/// combining marks), dashes at either end, and camel case.
fn is_verbatim(core: &str) -> bool {
    let odd = |c: char| c.is_numeric() || !(is_word(c) || JOINING_MARKS.contains(&c));
    let dashed = core.starts_with('-') || core.ends_with('-');
    let camel = core
        .chars()
        .zip(core.chars().skip(1))
        .any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    core.chars().any(odd) || dashed || camel
}

/// The verb in a contraction with "not": "doesn't", "can't", "won't".
fn negated_verb(core: &str) -> Option<String> {
    let folded: String = core
        .chars()
        .map(|c| if c == '’' { '\'' } else { to_lower(c) })
        .collect();
    let base = folded
        .strip_suffix("n't")
        .filter(|base| !base.is_empty() && base.chars().all(is_word))?;
    Some(match base {
        "ca" => "can".to_owned(),
        "wo" => "will".to_owned(),
        "sha" => "shall".to_owned(),
        base => base.to_owned(),
    })
}

const OPENING_MARKS: &[char] = &[
    '(', '[', '{', '"', '\'', '“', '‘', '«', '*', '`', '•', '¿', '¡', '…',
];
const CLOSING_MARKS: &[char] = &[
    '.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '”', '’', '»', '*', '`', '…',
];
const DASHES: [char; 3] = ['-', '–', '—'];
/// Marks that count as a space between the words of one chunk.
const JOINING_MARKS: &[char] = &['-', '–', '—', '\'', '’', ',', ';', '…', '“', '”', '"'];

/// Words that can be removed or exchanged for one another without changing what a text states;
/// sorted. No verb, preposition, pronoun, quantifier, hedge or word of time is among them: "is" for
/// "has", "just", "too" or "now" change a fact.
#[rustfmt::skip]
const FILLERS: &[&str] = &[
    "a", "actually", "also", "an", "and", "anyway", "basically", "but", "essentially", "frankly", "hey", "hmm", "honestly",
    "indeed", "kindly", "literally", "oh", "ok", "okay", "please", "quite", "really", "that", "the", "uh", "um", "very",
];

/// Words that are fillers only at the beginning of a sentence.
const OPENING_FILLERS: &[&str] = &["fyi", "note", "reminder"];

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
