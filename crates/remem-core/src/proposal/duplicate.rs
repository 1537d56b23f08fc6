//! Which known artifact a draft repeats. Decides by the bytes alone; it changes nothing, and a
//! draft that repeats another one is still a draft: the answer is a hint for the person who reviews
//! it.
//!
//! The same bytes are the same artifact. Otherwise two artifacts of one kind are near when their
//! texts, without the names that they give themselves, share four fifths of their shingles (three
//! words in a row, Jaccard) and start the same workflows and agents with the same tools. Trigrams,
//! which consolidation goes by, say too little here: most of an artifact is the same field names
//! over and over, and workflows whose names differ in one letter would look alike.

use super::Kind;
use super::artifact::Artifact;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Words of a shingle.
const SHINGLE_WORDS: usize = 3;
/// What near artifacts share of their shingles, as a fraction.
const SHARED_MIN: (usize, usize) = (4, 5);
/// What an artifact is called says nothing about what it does.
const NAMES: [&str; 5] = ["name", "version", "templateId", "automationId", "title"];
/// What decides about what is done, so that near is not near enough.
const DEEDS: [&str; 2] = ["workflowId", "toolAllowlist"];

/// The known artifact that this one repeats: the same bytes first, else the nearest one, else none.
/// Among those that are equally near the first one counts.
pub fn duplicate_of<'a>(
    kind: Kind,
    artifact: &Artifact,
    known: impl IntoIterator<Item = (&'a str, Kind, &'a str)>,
) -> Option<&'a str> {
    let draft = Features::of(kind, artifact.text())?;
    let mut nearest: Option<(&'a str, (usize, usize))> = None;
    for (name, _, text) in known.into_iter().filter(|(_, other, _)| *other == kind) {
        // Comparing the bytes is comparing their hashes, and cheaper.
        if text == artifact.text() {
            return Some(name);
        }
        let Some(likeness) = Features::of(kind, text).and_then(|other| draft.likeness(&other))
        else {
            continue;
        };
        if at_least(likeness, SHARED_MIN)
            && nearest.is_none_or(|(_, best)| !at_least(best, likeness))
        {
            nearest = Some((name, likeness));
        }
    }
    nearest.map(|(name, _)| name)
}

/// Whether one fraction is as large as another one. Artifacts are small: nothing overflows.
fn at_least(a: (usize, usize), b: (usize, usize)) -> bool {
    a.0 * b.1 >= b.0 * a.1
}

struct Features {
    deeds: Vec<String>,
    shingles: BTreeSet<u64>,
}

impl Features {
    /// `None` if the text is no object.
    fn of(kind: Kind, text: &str) -> Option<Features> {
        let map: Map<String, Value> = serde_json::from_str(text).ok()?;
        let mut deeds = Vec::new();
        let mut words = Vec::new();
        for (key, value) in map.iter().filter(|(key, _)| !NAMES.contains(&key.as_str())) {
            // Inside a pack the name of an agent is a name; in an automation it says what is
            // started.
            let deed = kind == Kind::Automation && key == "agentId";
            collect(key, value, deed, &mut deeds, &mut words);
        }
        deeds.sort_unstable();
        let shingles = if words.len() < SHINGLE_WORDS {
            BTreeSet::from([digest(&words)])
        } else {
            words.windows(SHINGLE_WORDS).map(digest).collect()
        };
        Some(Features { deeds, shingles })
    }

    /// Shared shingles of all; `None` if they do different things.
    fn likeness(&self, other: &Features) -> Option<(usize, usize)> {
        let shared = self.shingles.intersection(&other.shingles).count();
        (self.deeds == other.deeds)
            .then(|| (shared, self.shingles.len() + other.shingles.len() - shared))
    }
}

fn collect(key: &str, value: &Value, deed: bool, deeds: &mut Vec<String>, words: &mut Vec<String>) {
    if deed || DEEDS.contains(&key) {
        deeds.push(format!("{key}={value}"));
    }
    words.push(key.to_owned());
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| collect(key, value, false, deeds, words)),
        Value::Array(items) => items.iter().for_each(|item| match item {
            // A list of objects is written out; the key is not said again for each.
            Value::Object(map) => map
                .iter()
                .for_each(|(key, value)| collect(key, value, false, deeds, words)),
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
