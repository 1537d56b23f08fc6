//! Long conversations with questions and the turns that answer them, in the format of LoCoMo
//! (Maharana et al. 2024), and the share of questions that can still be answered from the kept
//! turns.

use anyhow::Context;
use remem_core::Timestamp;
use remem_core::distill::DistillSource;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The category of questions that have no answer in the conversation.
const ADVERSARIAL: u64 = 5;

pub struct Conversation {
    /// The turns, as `Speaker: text`, oldest first.
    pub turns: Vec<DistillSource>,
    pub questions: Vec<LocomoQuestion>,
}

pub struct LocomoQuestion {
    /// The ids of the turns that answer it.
    evidence: Vec<String>,
    /// The content words of the answer.
    answer: BTreeSet<String>,
}

/// The sums of scores over questions.
#[derive(Clone, Copy, Default)]
pub struct Score {
    questions: f64,
    whole: f64,
    answers: f64,
    covered: f64,
}

impl Score {
    pub fn plus(self, other: Score) -> Score {
        Score {
            questions: self.questions + other.questions,
            whole: self.whole + other.whole,
            answers: self.answers + other.answers,
            covered: self.covered + other.covered,
        }
    }

    /// The percentage of questions with their whole evidence, and the mean percentage of the
    /// answer's words.
    pub fn cell(&self) -> String {
        format!(
            "{:.1} / {:.1}",
            100.0 * self.whole / self.questions.max(1.0),
            100.0 * self.covered / self.answers.max(1.0)
        )
    }
}

pub fn read(path: &Path) -> anyhow::Result<Vec<Conversation>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let all: Vec<Value> =
        serde_json::from_str(&text).context("the file is not a list of conversations")?;
    Ok(all.iter().map(conversation).collect())
}

fn conversation(document: &Value) -> Conversation {
    let sessions = (1..=999).filter_map(|n| {
        document["conversation"][format!("session_{n}")]
            .as_array()
            .map(|turns| (n, turns))
    });
    let turn = |session: i64, at: usize, turn: &Value| {
        let said = |key: &str| turn[key].as_str().unwrap_or_default().to_owned();
        // Sessions are in the order of their dates, and only the order matters here.
        let created_at = Timestamp(session * 86_400_000 + at as i64 * 1_000);
        DistillSource {
            id: said("dia_id"),
            created_at,
            text: format!("{}: {}", said("speaker"), said("text")),
        }
    };
    let turns: Vec<DistillSource> = sessions
        .flat_map(|(n, turns)| {
            turns
                .iter()
                .enumerate()
                .map(move |(at, value)| turn(n, at, value))
                .collect::<Vec<_>>()
        })
        .collect();
    let ids: BTreeSet<&str> = turns.iter().map(|turn| turn.id.as_str()).collect();
    let questions = document["qa"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|qa| question(qa, &ids))
        .collect();
    Conversation { turns, questions }
}

/// Reads a question; `None` if it has no answer or none of its evidence is in the conversation.
fn question(qa: &Value, ids: &BTreeSet<&str>) -> Option<LocomoQuestion> {
    let listed = qa["evidence"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    // Some lists hold several ids in one string.
    let evidence: Vec<String> = listed
        .flat_map(|text| text.split([';', ',', ' ']))
        .filter(|id| ids.contains(id))
        .map(str::to_owned)
        .collect();
    let answer = match &qa["answer"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (qa["category"] != ADVERSARIAL && !evidence.is_empty()).then(|| LocomoQuestion {
        evidence,
        answer: content_words(&answer),
    })
}

/// Scores the kept turns. A turn counts only if it is kept whole.
pub fn score(conversation: &Conversation, kept: &BTreeSet<&str>) -> Score {
    let turns = conversation
        .turns
        .iter()
        .filter(|turn| kept.contains(turn.id.as_str()));
    let words: BTreeSet<String> = turns.flat_map(|turn| content_words(&turn.text)).collect();
    let mut score = Score::default();
    for question in &conversation.questions {
        score.questions += 1.0;
        score.whole += f64::from(
            question
                .evidence
                .iter()
                .all(|id| kept.contains(id.as_str())),
        );
        if !question.answer.is_empty() {
            score.answers += 1.0;
            score.covered +=
                question.answer.intersection(&words).count() as f64 / question.answer.len() as f64;
        }
    }
    score
}

/// The words of a text, lower-cased, without the common ones.
pub fn content_words(text: &str) -> BTreeSet<String> {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_lowercase);
    words
        .filter(|word| word.len() > 1 && COMMON.binary_search(&word.as_str()).is_err())
        .collect()
}

#[rustfmt::skip]
const COMMON: &[&str] = &[
    "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by", "can", "could", "did",
    "do", "does", "doing", "for", "from", "had", "has", "have", "having", "he", "her", "hers", "him", "his", "how", "if", "in",
    "into", "is", "it", "its", "ll", "may", "me", "might", "my", "of", "on", "or", "our", "ours", "re", "shall", "she", "should",
    "so", "some", "than", "that", "the", "their", "theirs", "them", "then", "there", "these", "they", "this", "those", "to", "too",
    "us", "ve", "very", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will", "with",
    "would", "you", "your", "yours",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_question_needs_all_of_its_evidence() {
        assert!(COMMON.is_sorted());
        let conversation = conversation(&json!({
            "conversation": {"session_1": [{"dia_id": "D1:1", "speaker": "A", "text": "Skis."}, {"dia_id": "D1:2", "speaker": "B", "text": "Oslo?"}]},
            "qa": [
                {"question": "?", "answer": "the skis in Oslo", "evidence": ["D1:1; D1:2"], "category": 1},
                {"question": "?", "answer": 2022, "evidence": ["D1:2"], "category": 2},
                {"question": "?", "answer": "no", "evidence": ["D1:1"], "category": 5},
                {"question": "?", "answer": "no", "evidence": ["D9:1"], "category": 1},
            ],
        }));
        assert_eq!(
            (
                conversation.turns[0].text.as_str(),
                conversation.questions.len()
            ),
            ("A: Skis.", 2)
        );
        assert_eq!(
            score(&conversation, &BTreeSet::from(["D1:2"])).cell(),
            "50.0 / 25.0"
        );
        assert_eq!(
            score(&conversation, &BTreeSet::from(["D1:1", "D1:2"])).cell(),
            "100.0 / 50.0"
        );
    }
}
