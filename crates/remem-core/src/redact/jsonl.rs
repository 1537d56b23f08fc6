//! Owns the line protocol with which a redactor is scored from outside: one JSON request in, one
//! JSON answer out. Pure; the caller owns the reading and writing of lines. Errors carry no
//! content.
//!
//! Request: `{"id","secrets":[{"secretId","secret"}],"channel","content"}`, or `"parts"` and
//! `"merge"` in place of content. Answer: `{"id","output"}`, `{"id","rejected":true,"error"}` or
//! `{"id","outputs","merged"}`.

use serde::{Deserialize, Serialize};

use super::{Redactor, SecretValue, ShapePolicy};

/// The reason why a line got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonlError {
    /// The line is not a JSON request of this protocol.
    #[error("the line is not a redaction request")]
    Malformed,
    /// The request has neither content nor parts.
    #[error("the request has neither content nor parts")]
    Empty,
}

/// The error for a ref that holds a secret. Constant: an error must not echo its input.
const REFUSED: &str = "the reference contains a secret";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RedactionRequest {
    id: String,
    #[serde(default)]
    secrets: Vec<RequestSecret>,
    #[serde(default)]
    channel: Channel,
    content: Option<String>,
    parts: Option<Vec<RequestPart>>,
    #[serde(default)]
    merge: Merge,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestSecret {
    secret_id: String,
    secret: String,
}

#[derive(Deserialize)]
struct RequestPart {
    #[serde(default)]
    channel: Channel,
    content: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Channel {
    #[default]
    Content,
    Tag,
    Query,
    Metadata,
    Ref,
}

/// How the cleaned parts are joined into one derived text; under `fields` they are not.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Merge {
    #[default]
    Fields,
    Concat,
    Newline,
    Bullets,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RedactionReply<'a> {
    Output {
        id: &'a str,
        output: String,
    },
    Rejected {
        id: &'a str,
        rejected: bool,
        error: &'static str,
    },
    Parts {
        id: &'a str,
        outputs: Vec<String>,
        merged: Option<String>,
    },
}

/// Answers one request line.
pub fn handle_line(line: &str) -> Result<String, JsonlError> {
    let request: RedactionRequest =
        serde_json::from_str(line).map_err(|_| JsonlError::Malformed)?;
    let secrets = request
        .secrets
        .into_iter()
        .map(|secret| SecretValue::new(secret.secret_id, secret.secret));
    let redactor = Redactor::new(secrets);
    let id = &request.id;
    let answer = match (request.content, request.parts) {
        (_, Some(parts)) => clean_parts(&redactor, id, &parts, request.merge),
        (Some(content), None) => match clean_channel(&redactor, request.channel, &content) {
            Some(output) => RedactionReply::Output { id, output },
            None => RedactionReply::Rejected {
                id,
                rejected: true,
                error: REFUSED,
            },
        },
        (None, None) => return Err(JsonlError::Empty),
    };
    serde_json::to_string(&answer).map_err(|_| JsonlError::Malformed)
}

/// The text as this channel would store it; `None` when it is refused.
fn clean_channel(redactor: &Redactor, channel: Channel, content: &str) -> Option<String> {
    let clean = |text: &str| redactor.clean(text, ShapePolicy::Redact).text.into_string();
    match channel {
        Channel::Ref => {
            (!redactor.has_findings(content, ShapePolicy::Redact)).then(|| content.to_owned())
        }
        Channel::Metadata => Some(match serde_json::from_str(content) {
            Ok(json) => redactor.clean_json(json, ShapePolicy::Redact).to_string(),
            Err(_) => clean(content),
        }),
        Channel::Content | Channel::Tag | Channel::Query => Some(clean(content)),
    }
}

/// Cleans each part on its own, a refused one to an empty text, then joins and cleans the result.
fn clean_parts<'a>(
    redactor: &Redactor,
    id: &'a str,
    parts: &[RequestPart],
    merge: Merge,
) -> RedactionReply<'a> {
    let cleaned = parts
        .iter()
        .map(|part| clean_channel(redactor, part.channel, &part.content).unwrap_or_default());
    let outputs: Vec<String> = cleaned.collect();
    let joined = match merge {
        Merge::Fields => None,
        Merge::Concat => Some(outputs.concat()),
        Merge::Newline => Some(outputs.join("\n")),
        Merge::Bullets => Some(format!("- {}", outputs.join("\n- "))),
    };
    let merged = joined.map(|text| {
        redactor
            .clean_derived(&text, ShapePolicy::Redact)
            .text
            .into_string()
    });
    RedactionReply::Parts {
        id,
        outputs,
        merged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(request: Value, expected: Value) {
        let mut request = request;
        request["id"] = json!("1");
        request["secrets"] = json!([{"secretId": "k", "secret": "hunter2-hunter2"}]);
        let mut answer: Value =
            serde_json::from_str(&handle_line(&request.to_string()).unwrap()).unwrap();
        assert_eq!(answer["id"].take(), "1");
        answer.as_object_mut().unwrap().remove("id");
        assert_eq!(answer, expected, "{request}");
    }

    #[test]
    fn each_channel_redacts_or_rejects_its_content() {
        for channel in ["content", "tag", "query"] {
            check(
                json!({"channel": channel, "content": "x hunter2-hunter2"}),
                json!({"output": "x [REDACTED:k]"}),
            );
        }
        check(
            json!({"channel": "ref", "content": "mem://hunter2-hunter2"}),
            json!({"rejected": true, "error": REFUSED}),
        );
        check(
            json!({"channel": "ref", "content": "mem://tenant/agent"}),
            json!({"output": "mem://tenant/agent"}),
        );
        check(
            json!({"channel": "metadata", "content": r#"{"a":"hunter2-hunter2"}"#}),
            json!({"output": r#"{"a":"[REDACTED:k]"}"#}),
        );
        check(
            json!({"channel": "metadata", "content": "no json hunter2-hunter2"}),
            json!({"output": "no json [REDACTED:k]"}),
        );
    }

    #[test]
    fn parts_are_redacted_alone_and_after_merging() {
        let parts = json!([{"channel": "content", "content": "a hunter2"}, {"channel": "content", "content": "-hunter2 [BYOK:z]"}]);
        check(
            json!({"parts": parts, "merge": "concat"}),
            json!({"outputs": ["a hunter2", "-hunter2 [BYOK:z]"], "merged": "a [REDACTED:k] [REDACTED:z]"}),
        );
        check(
            json!({"parts": parts, "merge": "bullets"}),
            json!({"outputs": ["a hunter2", "-hunter2 [BYOK:z]"], "merged": "- a [REDACTED:k] [REDACTED:z]"}),
        );
        check(
            json!({"parts": parts, "merge": "fields"}),
            json!({"outputs": ["a hunter2", "-hunter2 [BYOK:z]"], "merged": null}),
        );
    }

    #[test]
    fn malformed_and_empty_requests_are_rejected() {
        assert_eq!(handle_line("hunter2-hunter2"), Err(JsonlError::Malformed));
        assert_eq!(
            handle_line(r#"{"id":"1","channel":"content"}"#),
            Err(JsonlError::Empty)
        );
    }
}
