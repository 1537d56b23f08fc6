//! Slots: recognises the single question that an entry answers ("what is Nadia's role?"), so that a
//! newer answer supersedes an older one. Only attributes with one value at a time have a slot, only
//! in a few sentence patterns, and only if the entry states nothing else. A doubtful text has no
//! slot: to miss one leaves two entries, to invent one hides a fact.

use super::guard::MergeItem;
use super::signature::short_digest;

/// A question and its answer, both normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotFact {
    /// The question, as `subject|attribute`.
    pub key: String,
    /// The normalised answer to the question.
    pub value: String,
}

const TEXT_BYTES_MAX: usize = 200;
const SUBJECT_WORDS_MAX: usize = 6;
const ATTRIBUTE_WORDS_MAX: usize = 3;
const VALUE_WORDS_MAX: usize = 6;

/// The slot that a text fills, if that is beyond doubt.
#[must_use]
pub fn parse_slot(text: &str) -> Option<SlotFact> {
    let sentence = text.trim().trim_end_matches(['.', '!']);
    // A slot for one of several sentences or clauses would lose the others.
    let compound =
        sentence.contains(['?', '!', ';', ':', ',', '\n', '"', '(']) || sentence.contains(". ");
    if compound || sentence.len() > TEXT_BYTES_MAX {
        return None;
    }
    let folded = sentence.to_lowercase().replace('’', "'");
    let words: Vec<&str> = folded.split_whitespace().collect();
    if words
        .iter()
        .any(|word| UNCERTAIN.contains(word) || word.ends_with("n't"))
    {
        return None;
    }
    possessive_slot(&words)
        .or_else(|| attribute_of_slot(&words))
        .or_else(|| changed_slot(&words))
        .or_else(|| status_slot(&words))
        .or_else(|| preference_slot(&words))
}

/// The digests for a signature: of the slot, 0 if there is none, and of the value together with the
/// tags and metadata that a caller can filter by.
pub(super) fn slot_digests(item: &MergeItem) -> (u64, u64) {
    // An untrusted entry must not supersede another.
    let Some(slot) = parse_slot(&item.text).filter(|_| !item.is_untrusted()) else {
        return (0, 0);
    };
    let mut labels: Vec<&str> = item.labels().collect();
    labels.sort_unstable();
    labels.dedup();
    // Every part is preceded by its length, so that no two lists of parts read the same.
    let parts = labels
        .into_iter()
        .map(|label| ("tag", label))
        .chain(item.metadata.as_deref().map(|text| ("metadata", text)));
    let joined: String = parts
        .map(|(kind, part)| format!("{kind} {} {part}", part.len()))
        .collect();
    let value = short_digest(&slot.value) & 0xFFFF_FFFF_0000_0000 | short_digest(&joined) >> 32;
    (short_digest(&slot.key).max(1), value)
}

/// `<S>'s <A> is <V>`, `<S>'s <A> changed from <V> to <V>`.
fn possessive_slot(words: &[&str]) -> Option<SlotFact> {
    let mut owners = words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.ends_with("'s") || word.ends_with("s'"));
    let (at, owner) = owners.next()?;
    if owners.next().is_some() {
        return None;
    }
    let mut subject = words[..=at].to_vec();
    subject[at] = owner
        .strip_suffix("'s")
        .unwrap_or(owner.trim_end_matches('\''));
    let (attribute, value) = predicate(&words[at + 1..])?;
    attribute_slot(&subject, attribute, value)
}

/// `the <A> of <S> is <V>`, `the <A> for <S> …`.
fn attribute_of_slot(words: &[&str]) -> Option<SlotFact> {
    let words = words.strip_prefix(&["the"])?;
    let of = words.iter().position(|word| ["of", "for"].contains(word))?;
    let (subject, value) = predicate(&words[of + 1..])?;
    attribute_slot(subject, &words[..of], value)
}

/// `<S> changed its <A> (from <V>) to <V>`.
fn changed_slot(words: &[&str]) -> Option<SlotFact> {
    let verb = words.iter().position(|word| CHANGE_VERBS.contains(word))?;
    let its = verb + 1;
    if !["its", "their", "his", "her", "the"].contains(words.get(its)?) {
        return None;
    }
    let subject = words[..verb]
        .strip_suffix(&["has"])
        .unwrap_or(&words[..verb]);
    let end = words
        .iter()
        .position(|word| ["from", "to"].contains(word))
        .filter(|&at| at > its)?;
    attribute_slot(subject, &words[its + 1..end], new_value(&words[end..])?)
}

/// `<S> is now <V>`, where V is a word that can only be a status.
fn status_slot(words: &[&str]) -> Option<SlotFact> {
    let is = words.iter().position(|&word| word == "is")?;
    let value = words[is + 1..]
        .strip_prefix(&["now"])
        .or_else(|| words[is + 1..].strip_prefix(&["currently"]))?;
    let closed = STATUSES.contains(&value.join(" ").as_str());
    if closed {
        attribute_slot(&words[..is], &["status"], value)
    } else {
        None
    }
}

/// `<S> prefers <V> for <C>`.
fn preference_slot(words: &[&str]) -> Option<SlotFact> {
    let verb = words.iter().position(|&word| word == "prefers")?;
    let context = words
        .iter()
        .position(|&word| word == "for")
        .filter(|&at| at > verb)?;
    let subject = normal_subject(&words[..verb])?;
    let value = normal_value(&words[verb + 1..context])?;
    let context = &words[context + 1..];
    let plain = (1..=ATTRIBUTE_WORDS_MAX).contains(&context.len())
        && !context.iter().any(|word| RELATIONS.contains(word));
    plain.then(|| SlotFact {
        key: format!("{subject}|prefers_for_{}", context.join("_")),
        value,
    })
}

/// The words before "is" or "changed (from …) to", and the value after it.
fn predicate<'a, 'b>(words: &'b [&'a str]) -> Option<(&'b [&'a str], &'b [&'a str])> {
    if let Some(is) = words.iter().position(|&word| word == "is") {
        let rest = &words[is + 1..];
        let value = rest
            .strip_prefix(&["now"])
            .or_else(|| rest.strip_prefix(&["currently"]))
            .unwrap_or(rest);
        return Some((&words[..is], value));
    }
    let verb = words.iter().position(|word| CHANGE_VERBS.contains(word))?;
    let before = words[..verb]
        .strip_suffix(&["has"])
        .unwrap_or(&words[..verb]);
    Some((before, new_value(&words[verb + 1..])?))
}

/// The new value: V2 of `from V1 to V2` or of `to V2`.
fn new_value<'a, 'b>(words: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let to = words.iter().position(|&word| word == "to")?;
    (to == 0 || words[0] == "from").then(|| &words[to + 1..])
}

/// The slot of an owner's attribute, if the attribute has one value at a time.
fn attribute_slot(owner: &[&str], attribute: &[&str], value_words: &[&str]) -> Option<SlotFact> {
    let attribute = attribute
        .strip_prefix(&["current"])
        .or_else(|| attribute.strip_prefix(&["new"]))
        .unwrap_or(attribute);
    let (last, qualifiers) = attribute.split_last()?;
    let functional = ATTRIBUTES.contains(last)
        && attribute.len() <= ATTRIBUTE_WORDS_MAX
        && !qualifiers
            .iter()
            .any(|word| RELATIONS.contains(word) || OTHER_TIMES.contains(word));
    if !functional {
        return None;
    }
    Some(SlotFact {
        key: format!("{}|{}", normal_subject(owner)?, attribute.join("_")),
        value: normal_value(value_words)?,
    })
}

/// The normalised subject, if it is definite.
fn normal_subject(words: &[&str]) -> Option<String> {
    let words = words.strip_prefix(&["the"]).unwrap_or(words);
    let first = words.first()?;
    let definite =
        !INDEFINITE_SUBJECTS.contains(first) && !words.iter().any(|word| RELATIONS.contains(word));
    (definite && words.len() <= SUBJECT_WORDS_MAX).then(|| words.join("_"))
}

/// The normalised value, if it is short and unconditional.
fn normal_value(words: &[&str]) -> Option<String> {
    let words = match words.split_first()? {
        (first, rest) if ["a", "an", "the", "on", "at", "in"].contains(first) => rest,
        _ => words,
    };
    let is_definite = !words
        .iter()
        .any(|word| RELATIONS.contains(word) || ABSENT_VALUES.contains(word) || *word == "is");
    (is_definite && (1..=VALUE_WORDS_MAX).contains(&words.len())).then(|| words.join(" "))
}

const CHANGE_VERBS: &[&str] = &["changed", "moved", "switched"];

/// Attributes that have one value at a time.
#[rustfmt::skip]
const ATTRIBUTES: &[&str] = &[
    "address", "budget", "cadence", "channel", "contact", "deadline", "email", "employer", "format", "language", "limit",
    "location", "name", "owner", "price", "priority", "role", "status", "threshold", "timezone", "title", "version",
];

/// The values of `<S> is now …` that are a status.
#[rustfmt::skip]
const STATUSES: &[&str] = &[
    "active", "archived", "blocked", "broken", "cancelled", "closed", "complete", "completed", "deprecated", "disabled", "done",
    "enabled", "finished", "inactive", "live", "offline", "on hold", "online", "open", "paused", "resolved", "retired",
    "suspended", "unblocked",
];

/// A sentence with one of these is conditional, negated, reported, past, additive, or more than one
/// statement.
#[rustfmt::skip]
const UNCERTAIN: &[&str] = &[
    "about", "according", "although", "also", "and", "another", "apparently", "approximately", "as", "asked", "because", "been",
    "believes", "both", "but", "can", "cannot", "claims", "could", "either", "except", "formerly", "had", "if", "likely",
    "maybe", "might", "must", "never", "no", "nor", "not", "often", "once", "only", "or", "partly", "perhaps", "possibly",
    "previously", "probably", "said", "says", "should", "since", "sometimes", "still", "temporarily", "than", "that", "thinks",
    "though", "told", "too", "unless", "until", "used", "usually", "was", "were", "when", "where", "whereas", "which", "while",
    "who", "whose", "will", "without", "would",
];

/// Prepositions, which tie a value, a subject or an attribute to a circumstance: the statement
/// holds only under it.
#[rustfmt::skip]
const RELATIONS: &[&str] = &[
    "after", "against", "among", "around", "at", "before", "below", "between", "by", "during", "for", "from", "in", "inside",
    "into", "near", "of", "on", "outside", "over", "per", "through", "to", "toward", "towards", "under", "via", "with", "within",
];

/// Words that make an attribute another one: a former address does not end the present one.
#[rustfmt::skip]
const OTHER_TIMES: &[&str] = &[
    "alternative", "backup", "first", "former", "future", "last", "next", "old", "original", "other", "previous", "second",
    "secondary", "temporary", "third",
];

/// Subjects that may refer to another person or thing next time.
#[rustfmt::skip]
const INDEFINITE_SUBJECTS: &[&str] = &[
    "a", "all", "an", "any", "each", "every", "everybody", "everyone", "he", "her", "here", "his", "i", "it", "its", "many",
    "most", "my", "one", "our", "she", "some", "somebody", "someone", "their", "there", "these", "they", "this", "those", "today",
    "we", "you", "your",
];

/// Words of values that say that there is no value.
const ABSENT_VALUES: &[&str] = &[
    "being",
    "changing",
    "different",
    "open-ended",
    "same",
    "tbd",
    "unclear",
    "undecided",
    "unknown",
    "wrong",
];

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
