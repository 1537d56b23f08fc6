//! Parses the JSON of a model's answer, strictly. It does not judge the content of the lines.

use super::Refusal;
use super::words::is_hidden;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelAnswer {
    lines: Vec<AnswerLine>,
}

/// A line as the model wrote it, without spaces around it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerLine {
    pub text: String,
    /// Numbers of the evidence that the line cites, counted from 1.
    pub from: Vec<u64>,
}

/// Parses an answer into its lines, none of them empty.
pub(super) fn parse(answer: &str) -> Result<Vec<AnswerLine>, Refusal> {
    let text = strip_code_fence(answer.trim());
    let ModelAnswer { mut lines } = serde_json::from_str(text).map_err(|_| parse_refusal(text))?;
    if lines.is_empty() {
        return Err(Refusal::Empty);
    }
    for line in &mut lines {
        line.text = line.text.trim_matches(' ').to_owned();
        if line.text.is_empty() {
            return Err(Refusal::Empty);
        }
        if line.text.contains(is_hidden) {
            return Err(Refusal::ControlCharacter);
        }
    }
    Ok(lines)
}

/// The text without a code fence around it: many models wrap JSON in one even if asked not to.
fn strip_code_fence(text: &str) -> &str {
    let inside = text
        .strip_prefix("```json")
        .or_else(|| text.strip_prefix("```"));
    inside
        .and_then(|inside| inside.strip_suffix("```"))
        .map_or(text, str::trim)
}

/// The refusal for an answer that did not parse: unknown fields, or no JSON of this form.
fn parse_refusal(text: &str) -> Refusal {
    let Ok(Value::Object(answer)) = serde_json::from_str(text) else {
        return Refusal::NotJson;
    };
    let lines = answer
        .get("lines")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let unknown_in_line = lines
        .filter_map(Value::as_object)
        .flat_map(|line| line.keys())
        .any(|key| key != "text" && key != "from");
    if unknown_in_line || answer.keys().any(|key| key != "lines") {
        Refusal::UnknownField
    } else {
        Refusal::NotJson
    }
}
