//! Finds the known artifact that a draft repeats. Decides by the bytes alone and changes nothing. A
//! draft that repeats another one is still a draft: the result is a hint for the reviewer.
//!
//! The same bytes are the same artifact. Otherwise two artifacts of one kind are similar when their
//! texts, without the names that they give themselves, share four fifths of their shingles (three
//! words in a row, Jaccard) and start the same workflows and agents with the same tools. Trigrams,
//! which consolidation uses, say too little here: most of an artifact is the same field names over
//! and over, and workflows whose names differ in one letter would look alike.

use super::ProposalKind;
use super::artifact::Artifact;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The number of words in a shingle.
const SHINGLE_WORDS: usize = 3;
/// The least share of shingles that similar artifacts have in common, as a fraction.
const SHARED_MIN: (usize, usize) = (4, 5);
/// Fields that name an artifact and say nothing about what it does.
const NAME_FIELDS: [&str; 5] = ["name", "version", "templateId", "automationId", "title"];
/// Fields that decide what is done: they must be equal, not only similar.
const ACTION_FIELDS: [&str; 2] = ["workflowId", "toolAllowlist"];

/// The known artifact that this one repeats: one with the same bytes first, else the most similar
/// one, else none. Among equally similar ones the first counts.
pub fn duplicate_of<'a>(
    kind: ProposalKind,
    artifact: &Artifact,
    known: impl IntoIterator<Item = (&'a str, ProposalKind, &'a str)>,
) -> Option<&'a str> {
    let draft = Features::of(kind, artifact.text())?;
    let mut nearest: Option<(&'a str, (usize, usize))> = None;
    for (name, _, text) in known.into_iter().filter(|(_, other, _)| *other == kind) {
        // The same as a comparison of the hashes, and cheaper.
        if text == artifact.text() {
            return Some(name);
        }
        let Some(similarity) = Features::of(kind, text).and_then(|other| draft.similarity(&other))
        else {
            continue;
        };
        if at_least(similarity, SHARED_MIN)
            && nearest.is_none_or(|(_, best)| !at_least(best, similarity))
        {
            nearest = Some((name, similarity));
        }
    }
    nearest.map(|(name, _)| name)
}

/// Returns true if the first fraction is as large as the second. Artifacts are small, so nothing
/// overflows.
fn at_least(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 * b.1 >= b.0 * a.1
}

struct Features {
    actions: Vec<String>,
    shingles: BTreeSet<u64>,
}

impl Features {
    /// The features of an artifact; `None` if the text is no JSON object.
    fn of(kind: ProposalKind, text: &str) -> Option<Features> {
        let map: Map<String, Value> = serde_json::from_str(text).ok()?;
        let mut actions = Vec::new();
        let mut words = Vec::new();
        for (key, value) in map
            .iter()
            .filter(|(key, _)| !NAME_FIELDS.contains(&key.as_str()))
        {
            // Inside a pack the id of an agent is a name; in an automation it says what is started.
            let is_action = kind == ProposalKind::Automation && key == "agentId";
            collect_features(key, value, is_action, &mut actions, &mut words);
        }
        actions.sort_unstable();
        let shingles = if words.len() < SHINGLE_WORDS {
            BTreeSet::from([digest(&words)])
        } else {
            words.windows(SHINGLE_WORDS).map(digest).collect()
        };
        Some(Features { actions, shingles })
    }

    /// The shared and the total number of shingles; `None` if the artifacts do different things.
    fn similarity(&self, other: &Features) -> Option<(usize, usize)> {
        let shared = self.shingles.intersection(&other.shingles).count();
        (self.actions == other.actions)
            .then(|| (shared, self.shingles.len() + other.shingles.len() - shared))
    }
}

fn collect_features(
    key: &str,
    value: &Value,
    is_action: bool,
    actions: &mut Vec<String>,
    words: &mut Vec<String>,
) {
    if is_action || ACTION_FIELDS.contains(&key) {
        actions.push(format!("{key}={value}"));
    }
    words.push(key.to_owned());
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| collect_features(key, value, false, actions, words)),
        Value::Array(items) => items.iter().for_each(|item| match item {
            // A list of objects is walked through; the key is not repeated for each object.
            Value::Object(map) => map
                .iter()
                .for_each(|(key, value)| collect_features(key, value, false, actions, words)),
            plain => words.extend(words_of(plain)),
        }),
        plain => words.extend(words_of(plain)),
    }
}

fn words_of(value: &Value) -> Vec<String> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_lowercase);
    text.split_whitespace().map(str::to_owned).collect()
}

fn digest(words: &[String]) -> u64 {
    let hash = blake3::hash(words.join(" ").as_bytes());
    hash.as_bytes()[..8]
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
