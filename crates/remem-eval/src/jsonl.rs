//! Datasets in a format of this project: a line is an entry `{"memory", "id", "text", "at",
//! "session"?}` or a question `{"memory", "question", "evidence", "category"?, "answerable"?}`.
//! Errors give the line and the kind of error, never contents.

use crate::dataset::{Dataset, DatasetMemory, DatasetTurn, EvalQuestion, error_hint};
use anyhow::{Context, anyhow, bail, ensure};
use remem_wire::time::Instant;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryLine {
    memory: String,
    id: String,
    text: String,
    /// Optional here, because serde would call a missing one malformed.
    at: Option<Instant>,
    #[serde(default)]
    session: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionLine {
    memory: String,
    question: String,
    evidence: Vec<String>,
    #[serde(default)]
    category: String,
    answerable: Option<bool>,
}

/// Reads the text of a file. A question may come before the entries that answer it.
pub fn read(text: &str) -> anyhow::Result<Dataset> {
    let mut dataset = Dataset::default();
    let mut places = HashMap::new();
    let mut questions = Vec::new();
    let mut ids: HashMap<(usize, String), String> = HashMap::new();
    for (number, line) in text
        .lines()
        .zip(1..)
        .map(|(line, number)| (number, line))
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let place = || format!("line {number}");
        let value: Value = serde_json::from_str(line)
            .map_err(|error| anyhow!("{}: {}", place(), error_hint(&error)))?;
        if value.get("question").is_some() {
            questions.push((
                number,
                QuestionLine::deserialize(value)
                    .map_err(|error| anyhow!("{}: {}", place(), error_hint(&error)))?,
            ));
            continue;
        }
        let entry = EntryLine::deserialize(value)
            .map_err(|error| anyhow!("{}: {}", place(), error_hint(&error)))?;
        let memory = *places.entry(entry.memory).or_insert(dataset.memories.len());
        if memory == dataset.memories.len() {
            dataset.memories.push(DatasetMemory {
                entries: Vec::new(),
            });
        }
        let new = ids
            .insert((memory, entry.id.clone()), entry.session.clone())
            .is_none();
        ensure!(new, "{}: its id is there already", place());
        let at = entry
            .at
            .with_context(|| format!("{}: `at` is missing", place()))?
            .0;
        let item = DatasetTurn {
            id: entry.id,
            at,
            session: entry.session,
            text: entry.text,
            speaker: None,
            caption: None,
            day: None,
        };
        dataset.memories[memory].entries.push(item);
    }
    for (number, line) in questions {
        let question = question(line, &places, &ids).with_context(|| format!("line {number}"))?;
        dataset.questions.push(question);
    }
    Ok(dataset)
}

fn question(
    asked: QuestionLine,
    places: &HashMap<String, usize>,
    ids: &HashMap<(usize, String), String>,
) -> anyhow::Result<EvalQuestion> {
    let memory = *places
        .get(&asked.memory)
        .context("no entry is of its memory")?;
    let mut sessions: Vec<String> = Vec::new();
    for (place, id) in asked.evidence.iter().enumerate() {
        let Some(session) = ids.get(&(memory, id.clone())) else {
            bail!("evidence {} is no entry of its memory", place + 1)
        };
        if !sessions.contains(session) {
            sessions.push(session.clone());
        }
    }
    let answerable = asked.answerable.unwrap_or(!asked.evidence.is_empty());
    let category = if asked.category.is_empty() {
        "-".to_owned()
    } else {
        asked.category
    };
    Ok(EvalQuestion {
        memory,
        text: asked.question,
        evidence: asked.evidence,
        sessions,
        category,
        answerable,
        at: None,
    })
}
