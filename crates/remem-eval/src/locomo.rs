//! LoCoMo: conversations of two people over many sessions, with questions and the turns that answer
//! them. Errors give the position and the kind of error, never contents.

use crate::dataset::{
    Dataset, DatasetMemory, DatasetTurn, EvalQuestion, TURN_MS, error_hint, first_duplicate,
};
use crate::dates;
use anyhow::{Context, anyhow, bail};
use remem_wire::error::json_hint;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The names of the question categories, by their number less one.
const CATEGORIES: [&str; 5] = [
    "multi-hop",
    "temporal",
    "open-domain",
    "single-hop",
    ADVERSARIAL,
];
/// A question about the wrong person: the turns that it lists as evidence answer another question.
pub const ADVERSARIAL: &str = "adversarial";

#[derive(Deserialize)]
struct LocomoSample {
    qa: Vec<Qa>,
    conversation: Map<String, Value>,
}

#[derive(Deserialize)]
struct Qa {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: usize,
}

#[derive(Deserialize)]
struct LocomoTurn {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

/// Reads the text of a file.
pub fn read(text: &str) -> anyhow::Result<Dataset> {
    let samples: Vec<LocomoSample> =
        serde_json::from_str(text).map_err(|error| anyhow!(json_hint(&error)))?;
    let mut dataset = Dataset::default();
    for (place, sample) in samples.into_iter().enumerate() {
        let number = place + 1;
        let entries =
            turns(&sample.conversation).with_context(|| format!("conversation {number}"))?;
        let sessions: HashMap<&str, &str> = entries
            .iter()
            .map(|item| (item.id.as_str(), item.session.as_str()))
            .collect();
        for (asked, qa) in sample.qa.iter().enumerate() {
            let category = qa
                .category
                .checked_sub(1)
                .and_then(|category| CATEGORIES.get(category));
            let Some(category) = category else {
                bail!(
                    "conversation {number}, question {}: its category is not 1 to 5",
                    asked + 1
                )
            };
            let mut evidence: Vec<String> = Vec::new();
            for id in qa
                .evidence
                .iter()
                .flat_map(|text| ids(text))
                .filter(|id| sessions.contains_key(id))
            {
                if !evidence.iter().any(|known| known == id) {
                    evidence.push(id.to_owned());
                }
            }
            if evidence.is_empty() {
                dataset.skipped += 1;
                continue;
            }
            let mut of: Vec<String> = evidence
                .iter()
                .filter_map(|id| sessions.get(id.as_str()))
                .map(|&session| session.to_owned())
                .collect();
            of.dedup();
            dataset.questions.push(EvalQuestion {
                memory: place,
                text: qa.question.clone(),
                evidence,
                sessions: of,
                category: (*category).to_owned(),
                answerable: *category != ADVERSARIAL,
                at: None,
            });
        }
        dataset.memories.push(DatasetMemory { entries });
    }
    Ok(dataset)
}

/// The turns of all sessions, in the order of the sessions' numbers.
fn turns(conversation: &Map<String, Value>) -> anyhow::Result<Vec<DatasetTurn>> {
    let number = |key: &str| {
        key.strip_prefix("session_")
            .and_then(|rest| rest.parse::<u32>().ok())
    };
    let mut sessions: Vec<(u32, &Value)> = conversation
        .iter()
        .filter_map(|(key, value)| Some((number(key)?, value)))
        .collect();
    sessions.sort_by_key(|(number, _)| *number);
    let mut items = Vec::new();
    for (number, value) in sessions {
        let name = format!("session_{number}");
        let turns = Vec::<LocomoTurn>::deserialize(value)
            .map_err(|error| anyhow!("{name}: {}", error_hint(&error)))?;
        let begun = conversation
            .get(&format!("{name}_date_time"))
            .and_then(Value::as_str)
            .and_then(dates::parse_locomo_date);
        let begun = begun.with_context(|| {
            format!("{name}_date_time is no date like \"1:56 pm on 8 May, 2023\"")
        })?;
        items.extend(turns.into_iter().zip(0..).map(|(turn, place)| DatasetTurn {
            id: turn.dia_id,
            at: begun.plus_ms(TURN_MS * place),
            session: name.clone(),
            text: turn.text,
            speaker: Some(turn.speaker),
            caption: turn.blip_caption,
            day: Some(dates::format_day(begun)),
        }));
    }
    if let Some(place) = first_duplicate(items.iter().map(|item| item.id.as_str())) {
        bail!(
            "{}: its turns have a dia_id that is there already",
            items[place].session
        );
    }
    Ok(items)
}

/// Every `D<number>:<number>` in a text: evidence sometimes holds several ids, or stray characters.
pub fn ids(text: &str) -> Vec<&str> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let at = |start: usize| {
        let first = digits(start + 1);
        let colon = start + 1 + first;
        if first == 0 || text.as_bytes().get(colon) != Some(&b':') {
            return None;
        }
        let second = digits(colon + 1);
        (second > 0).then(|| &text[start..colon + 1 + second])
    };
    text.match_indices('D')
        .filter_map(|(start, _)| at(start))
        .collect()
}
