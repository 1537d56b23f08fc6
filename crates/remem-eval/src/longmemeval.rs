//! LongMemEval: every question comes with a haystack of sessions of its own. Units are turns or
//! sessions. Errors give the position and the kind of error, never contents.

use crate::dataset::{Dataset, DatasetMemory, DatasetTurn, EvalQuestion, TURN_MS};
use crate::dates;
use anyhow::{Context, anyhow, ensure};
use remem_wire::error::json_hint;
use serde::Deserialize;

/// The end of the id of a question that has no answer.
const ABSTAIN: &str = "_abs";

#[derive(Deserialize)]
struct LongMemEvalSample {
    question_id: String,
    question: String,
    question_type: String,
    question_date: String,
    haystack_sessions: Vec<Vec<LongMemEvalTurn>>,
    haystack_session_ids: Vec<String>,
    haystack_dates: Vec<String>,
    answer_session_ids: Vec<String>,
}

#[derive(Deserialize)]
struct LongMemEvalTurn {
    role: String,
    content: String,
    #[serde(default)]
    has_answer: bool,
}

/// Reads the text of a file.
pub fn read(text: &str) -> anyhow::Result<Dataset> {
    let samples: Vec<LongMemEvalSample> =
        serde_json::from_str(text).map_err(|error| anyhow!(json_hint(&error)))?;
    let mut dataset = Dataset::default();
    for (place, sample) in samples.into_iter().enumerate() {
        let (memory, question) = memory_and_question(sample, place)
            .with_context(|| format!("question {}", place + 1))?;
        dataset.memories.push(memory);
        dataset.questions.push(question);
    }
    Ok(dataset)
}

fn memory_and_question(
    sample: LongMemEvalSample,
    place: usize,
) -> anyhow::Result<(DatasetMemory, EvalQuestion)> {
    let sessions = sample.haystack_sessions.len();
    let alike =
        sessions == sample.haystack_session_ids.len() && sessions == sample.haystack_dates.len();
    ensure!(
        alike,
        "haystack_sessions, haystack_session_ids and haystack_dates are not of one length"
    );
    let form = "is no date like \"2023/05/20 (Sat) 02:21\"";
    let asked = dates::parse_longmemeval_date(&sample.question_date)
        .with_context(|| format!("question_date {form}"))?;
    let mut entries = Vec::new();
    let mut evidence = Vec::new();
    let named = sample
        .haystack_session_ids
        .iter()
        .zip(&sample.haystack_dates);
    for (number, (turns, (session, date))) in
        sample.haystack_sessions.into_iter().zip(named).enumerate()
    {
        let begun = dates::parse_longmemeval_date(date)
            .with_context(|| format!("haystack_dates, {}: it {form}", number + 1))?;
        for (turn, said) in turns.into_iter().zip(0..) {
            let id = format!("{session}:{said}");
            if turn.has_answer {
                evidence.push(id.clone());
            }
            entries.push(DatasetTurn {
                id,
                at: begun.plus_ms(TURN_MS * said),
                session: session.clone(),
                text: turn.content,
                speaker: Some(turn.role),
                caption: None,
                day: Some(dates::format_day(begun)),
            });
        }
    }
    // A question without an answer has no evidence, even if sessions come near to one.
    let answerable = !sample.question_id.ends_with(ABSTAIN);
    let question = EvalQuestion {
        memory: place,
        text: sample.question,
        evidence: if answerable { evidence } else { Vec::new() },
        sessions: if answerable {
            sample.answer_session_ids
        } else {
            Vec::new()
        },
        category: sample.question_type,
        answerable,
        at: Some(asked),
    };
    Ok((DatasetMemory { entries }, question))
}
