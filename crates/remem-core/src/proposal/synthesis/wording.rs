//! Repeated texts: one workflow or agent is given the same text again and again but for a few
//! words. Becomes a prompt template with placeholders where the words differ.
//!
//! Texts are compared word by word. To compare each with each would take too long. If two texts
//! differ at three places at most, then at least one of their four quarters is equal: so only texts
//! that share a quarter are compared.

use super::{
    ProposalDraft, RunTrace, SUPPORT_MIN, TracedRun, draft_name, newest_run_ids, saturating_u32,
};
use crate::proposal::ProposalKind;
use crate::proposal::automation::AutomationTarget;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The input fields that hold a task; the first one that is present counts.
const FIELDS: [&str; 3] = ["task", "prompt", "message"];
const PLACES_MAX: usize = 3;
const FIXED_WORDS_MIN: usize = 6;
/// The least share of words that must be the same in all texts, as a fraction.
const FIXED_MIN: (usize, usize) = (6, 10);
/// Longer texts are documents, and their examination would take too long.
const WORDS_MAX: usize = 200;
const BYTES_MAX: usize = 16 * 1024;
/// The number of parts of a text: one more than the places that may differ.
const PARTS: usize = PLACES_MAX + 1;
/// The most texts of one quarter that the others are compared with.
const LEADERS_MAX: usize = 16;

/// A text, and the runs that had it as their task.
struct TaskText<'a> {
    source: &'a str,
    words: Vec<&'a str>,
    /// The words as numbers, which are cheaper to compare.
    numbers: Vec<u32>,
    runs: Vec<&'a RunTrace>,
}

/// Drafts a prompt template for each repeated text.
pub(super) fn drafts(runs: &[TracedRun<'_>]) -> Vec<ProposalDraft> {
    let mut groups: BTreeMap<(&AutomationTarget, &str, usize), Vec<TaskText<'_>>> = BTreeMap::new();
    let mut known = BTreeMap::new();
    let mut dictionary = BTreeMap::new();
    for run in runs {
        let Some((field, source, words)) = task_text(run.trace) else {
            continue;
        };
        let texts = groups.entry((&run.target, field, words.len())).or_default();
        let place = *known
            .entry((&run.target, field, words.clone()))
            .or_insert(texts.len());
        if place == texts.len() {
            let numbers = words
                .iter()
                .map(|word| word_number(word, &mut dictionary))
                .collect();
            texts.push(TaskText {
                source,
                words,
                numbers,
                runs: Vec::new(),
            });
        }
        texts[place].runs.push(run.trace);
    }
    groups
        .into_iter()
        .flat_map(|((target, _, words), texts)| templates(target, words, &texts))
        .collect()
}

fn word_number<'a>(word: &'a str, dictionary: &mut BTreeMap<&'a str, u32>) -> u32 {
    let next = saturating_u32(dictionary.len());
    *dictionary.entry(word).or_insert(next)
}

fn task_text(run: &RunTrace) -> Option<(&'static str, &str, Vec<&str>)> {
    let (field, text) = FIELDS
        .iter()
        .find_map(|field| Some((*field, run.inputs.get(*field).and_then(Value::as_str)?)))?;
    // A text that looks as if it had placeholders already would get unwanted ones.
    if text.len() > BYTES_MAX || text.contains("{{") || text.contains("}}") {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().take(WORDS_MAX + 1).collect();
    (FIXED_WORDS_MIN + 1..=WORDS_MAX)
        .contains(&words.len())
        .then_some((field, text, words))
}

fn templates(
    target: &AutomationTarget,
    words: usize,
    texts: &[TaskText<'_>],
) -> Vec<ProposalDraft> {
    let mut buckets: BTreeMap<(usize, &[u32]), Vec<usize>> = BTreeMap::new();
    for (n, text) in texts.iter().enumerate() {
        for part in 0..PARTS {
            let quarter = &text.numbers[part * words / PARTS..(part + 1) * words / PARTS];
            buckets.entry((part, quarter)).or_default().push(n);
        }
    }
    let mut buckets: Vec<_> = buckets
        .into_iter()
        .filter(|(_, members)| members.len() > 1)
        .collect();
    buckets.sort_by_key(|((part, _), members)| (usize::MAX - members.len(), *part, members[0]));
    let fixed_min = FIXED_WORDS_MIN.max((words * FIXED_MIN.0).div_ceil(FIXED_MIN.1));
    let mut used = vec![false; texts.len()];
    let mut drafts = Vec::new();
    for (_, members) in buckets {
        let mut leaders = 0;
        for leader in &members {
            if used[*leader] || leaders == LEADERS_MAX {
                continue;
            }
            leaders += 1;
            let free: Vec<usize> = members.iter().copied().filter(|n| !used[*n]).collect();
            if let Some((places, alike)) =
                matching_texts(texts, *leader, &free, PLACES_MAX.min(words - fixed_min))
            {
                alike.iter().for_each(|n| used[*n] = true);
                let alike: Vec<&TaskText<'_>> = alike.into_iter().map(|n| &texts[n]).collect();
                drafts.push(draft(target, &texts[*leader], &places, &alike));
            }
        }
    }
    drafts
}

/// The places at which texts differ from the leader, and the texts that differ from it nowhere
/// else; `None` if they are too few.
fn matching_texts(
    texts: &[TaskText<'_>],
    leader: usize,
    members: &[usize],
    places_max: usize,
) -> Option<(BTreeSet<usize>, Vec<usize>)> {
    let differing: Vec<(usize, BTreeSet<usize>)> = members
        .iter()
        .filter_map(|n| {
            Some((
                *n,
                differences(&texts[leader].numbers, &texts[*n].numbers, places_max)?,
            ))
        })
        .collect();
    let mut patterns: BTreeMap<&BTreeSet<usize>, usize> = BTreeMap::new();
    for (n, places) in &differing {
        *patterns.entry(places).or_default() += texts[*n].runs.len();
    }
    let mut commonest: Vec<(&BTreeSet<usize>, usize)> = patterns.into_iter().collect();
    commonest.sort_by_key(|(places, runs)| (usize::MAX - runs, places.len(), *places));
    let within = |places: &BTreeSet<usize>| {
        differing
            .iter()
            .filter(|(_, other)| other.is_subset(places))
            .map(|(n, _)| *n)
            .collect()
    };
    let support = |members: &[usize]| members.iter().map(|n| texts[*n].runs.len()).sum::<usize>();
    let mut places: BTreeSet<usize> = BTreeSet::new();
    let mut members: Vec<usize> = within(&BTreeSet::new());
    for (pattern, runs) in commonest {
        let wider: BTreeSet<usize> = places.union(pattern).copied().collect();
        // A place at which only one run differs becomes no placeholder, unless there would be too
        // few texts without it.
        let needed =
            runs > 1 || saturating_u32(support(&members)) < SUPPORT_MIN || places.is_empty();
        if wider.len() > places.len() && wider.len() <= places_max && needed {
            (members, places) = (within(&wider), wider);
        }
    }
    let enough = |runs: usize| saturating_u32(runs) >= SUPPORT_MIN;
    // A leader that alone differs from all the others is an outlier; one of the others may lead.
    let is_outlier = texts[leader].runs.len() == 1
        && enough(support(&members) - 1)
        && places
            .iter()
            .any(|at| others_agree(texts, leader, &members, *at));
    (!places.is_empty() && !is_outlier && enough(support(&members))).then_some((places, members))
}

fn others_agree(texts: &[TaskText<'_>], leader: usize, members: &[usize], at: usize) -> bool {
    let others: BTreeSet<u32> = members
        .iter()
        .filter(|n| **n != leader)
        .map(|n| texts[*n].numbers[at])
        .collect();
    // If there is only one other text, neither of the two is the outlier.
    others.len() == 1 && members.len() > 2
}

/// The places at which two texts of one length differ; `None` if they are too many.
fn differences(a: &[u32], b: &[u32], most: usize) -> Option<BTreeSet<usize>> {
    let differing: Vec<usize> = (0..a.len())
        .filter(|at| a[*at] != b[*at])
        .take(most + 1)
        .collect();
    (differing.len() <= most).then(|| differing.into_iter().collect())
}

fn draft(
    target: &AutomationTarget,
    leader: &TaskText<'_>,
    places: &BTreeSet<usize>,
    alike: &[&TaskText<'_>],
) -> ProposalDraft {
    let mut runs: Vec<&RunTrace> = alike
        .iter()
        .flat_map(|text| text.runs.iter().copied())
        .collect();
    runs.sort_by(|a, b| super::by_time(a, b));
    let mut text = String::new();
    let mut rest = leader.source;
    let mut slots = 0;
    for (at, word) in leader.words.iter().enumerate() {
        let trimmed = rest.trim_start();
        text.push_str(&rest[..rest.len() - trimmed.len()]);
        rest = &trimmed[word.len()..];
        if places.contains(&at) {
            slots += 1;
            let (before, behind) =
                common_punctuation(word, alike.iter().map(|text| text.words[at]));
            text.push_str(&format!("{before}{{{{slot{slots}}}}}{behind}"));
        } else {
            text.push_str(word);
        }
    }
    text.push_str(rest);
    let (kind, id) = draft_name::kind_and_id(target);
    let variables: Vec<Value> = (1..=slots)
        .map(|n| json!({"name": format!("slot{n}"), "required": true}))
        .collect();
    let name = draft_name::name_with_hash(
        &format!("prompt {id}"),
        &json!([kind, id, text]).to_string(),
    );
    let artifact =
        json!({"templateId": name, "version": "0.1.0", "text": text, "variables": variables});
    ProposalDraft {
        kind: ProposalKind::PromptTemplate,
        title: format!(
            "A prompt template for {kind} {id} with {slots} {} to fill in",
            if slots == 1 { "place" } else { "places" }
        ),
        rationale: format!(
            "What {kind} {id} was asked {} times is the same text of {} words but for {slots} of them.",
            runs.len(),
            leader.words.len()
        ),
        artifact: artifact.as_object().cloned().unwrap_or_default(),
        source_runs: newest_run_ids(runs.iter().map(|run| run.run.as_str())),
        support: saturating_u32(runs.len()),
    }
}

/// The punctuation before and after every one of the words, such as a full stop: it is not part of
/// the difference.
fn common_punctuation<'a>(
    word: &'a str,
    all: impl Iterator<Item = &'a str> + Clone,
) -> (&'a str, &'a str) {
    let is_mark = |c: char| !c.is_alphanumeric() && c != '{' && c != '}';
    let core = word.trim_matches(is_mark);
    if core.is_empty() {
        return ("", "");
    }
    let lead = word.len() - word.trim_start_matches(is_mark).len();
    let before = &word[..lead];
    let behind = &word[lead + core.len()..];
    let fits = |word: &str| {
        word.strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(behind))
            .is_some_and(|core| !core.is_empty())
    };
    if all.clone().all(fits) {
        (before, behind)
    } else {
        ("", "")
    }
}
