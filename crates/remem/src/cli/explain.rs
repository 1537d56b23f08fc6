//! Adds what the user typed to what the server answers: the server echoes nothing that a caller
//! sent, so "entry not found" becomes "entry mem_… not found in memory agent-1" here.

use crate::output::preview;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use remem_core::sabotage;
use remem_wire::Failure;
use std::collections::BTreeMap;

/// Arguments that name the thing itself, the first of them that was typed.
const SUBJECTS: [&str; 8] = [
    "id", "slot", "sha256", "thread", "job", "name", "file", "pass",
];
/// Arguments that name what a thing is in.
const CONTAINERS: [(&str, &str); 2] = [("memory_ref", "memory"), ("world", "world")];
/// Arguments that are never shown.
const SECRET: [&str; 6] = ["key", "database", "from", "to", "subject", "subjects"];
const CHARS_MAX: usize = 80;

/// The arguments of the command that was typed, by name.
#[derive(Clone, Debug, Default)]
pub struct Typed(BTreeMap<String, Argument>);

#[derive(Clone, Debug)]
struct Argument {
    /// The option, with its dashes; `None` for a positional argument.
    option: Option<String>,
    value: String,
}

impl Typed {
    /// The arguments that these matches hold and that may be shown.
    pub fn new(root: &Command, matches: &ArgMatches) -> Typed {
        let mut command = root;
        let mut inner = matches;
        while let Some((name, below)) = inner.subcommand() {
            command = command.find_subcommand(name).unwrap_or(command);
            inner = below;
        }
        let typed = command.get_arguments().filter_map(|arg| {
            let name = arg.get_id().as_str();
            let by_hand = inner.value_source(name) == Some(ValueSource::CommandLine);
            let raw = inner.try_get_raw(name).ok().flatten()?;
            let words: Vec<_> = raw.map(|word| word.to_string_lossy()).collect();
            let argument = Argument {
                option: arg.get_long().map(|long| format!("--{long}")),
                value: preview(&words.join(" "), CHARS_MAX),
            };
            let shown = by_hand && !SECRET.contains(&name);
            shown.then(|| (name.to_owned(), argument))
        });
        Typed(typed.collect())
    }

    fn value(&self, name: &str) -> Option<&String> {
        self.0.get(name).map(|argument| &argument.value)
    }

    /// The same error with what was typed.
    pub fn explain(&self, mut error: anyhow::Error) -> anyhow::Error {
        if let Some(failure) = error.downcast_mut::<Failure>() {
            self.explain_failure(failure);
        }
        error
    }

    fn explain_failure(&self, failure: &mut Failure) {
        let body = &mut failure.body;
        if let (404, Some(what)) = (failure.status, body.message.strip_suffix(" not found")) {
            body.message = self.not_found(what);
            return;
        }
        let field = body
            .details
            .as_ref()
            .and_then(|details| details.get("field"));
        let Some(field) = field.and_then(|field| field.as_str()) else {
            return;
        };
        let name = argument_of(field);
        // What may be a secret is not repeated: error output ends up in logs.
        let is_secret = sabotage!(
            "an-answer-repeats-what-may-be-a-secret",
            body.message.contains("secret"),
            false
        );
        let is_shown = name != "content" && !is_secret;
        let Some(argument) = self.0.get(&name).filter(|_| is_shown) else {
            return;
        };
        let begin = argument.option.as_deref().unwrap_or(field);
        if let Some(rule) = body.message.strip_prefix(field) {
            body.message = format!("{begin}{rule}; you gave '{}'", argument.value);
        }
    }

    fn not_found(&self, what: &str) -> String {
        let containers = CONTAINERS.map(|(name, word)| (word, self.value(name)));
        if let Some((_, Some(name))) = containers.iter().find(|(word, _)| *word == what) {
            return format!("{what} {name} not found");
        }
        let subject = SUBJECTS.into_iter().find_map(|name| self.value(name));
        let Some(subject) = subject else {
            return format!("{what} not found");
        };
        let place = containers
            .iter()
            .find_map(|(word, name)| Some(format!(" in {word} {}", name.as_ref()?)));
        format!("{what} {subject} not found{}", place.unwrap_or_default())
    }
}

/// The argument that gives a field of a request: `expiresAt` is `expires_at`.
fn argument_of(field: &str) -> String {
    let mut name = String::new();
    for c in field.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::command;
    use super::*;
    use remem_wire::ErrorBody;
    use serde_json::json;

    fn explained(line: &[&str], status: u16, message: &str, field: Option<&str>) -> String {
        let matches = command().get_matches_from(line);
        let details = field.map(|field| json!({"field": field}).as_object().unwrap().clone());
        let failure = Failure {
            status,
            retry_after: None,
            body: ErrorBody {
                error: "code".to_owned(),
                message: message.to_owned(),
                details,
            },
        };
        Typed::new(&command(), &matches)
            .explain(failure.into())
            .to_string()
    }

    #[test]
    fn not_found_messages_name_the_typed_ids() {
        for (line, message, expected) in [
            (
                &["remem", "get", "agent-1", "mem_1"][..],
                "entry not found",
                "entry mem_1 not found in memory agent-1 (code)",
            ),
            (
                &["remem", "key", "revoke", "key_1"],
                "key not found",
                "key key_1 not found (code)",
            ),
            (
                &["remem", "rule", "delete", "gates", "coverage"],
                "rule not found",
                "rule coverage not found in world gates (code)",
            ),
            (
                &["remem", "stats", "agent-1"],
                "memory not found",
                "memory agent-1 not found (code)",
            ),
            (
                &["remem", "get", "a\u{1b}[2J", "b"],
                "entry not found",
                "entry b not found in memory a [2J (code)",
            ),
        ] {
            assert_eq!(explained(line, 404, message, None), expected);
        }
    }

    #[test]
    fn a_refused_field_names_its_option_and_echoes_no_secret() {
        let past = [
            "remem",
            "put",
            "m",
            "x",
            "--expires-at",
            "2001-01-01T00:00:00Z",
        ];
        assert_eq!(
            explained(
                &past,
                422,
                "expiresAt must be in the future",
                Some("expiresAt")
            ),
            "--expires-at must be in the future; you gave '2001-01-01T00:00:00Z' (code)"
        );
        let secret = ["remem", "put", "m", "x", "--slot", "ghp_secret"];
        let refused = "slot looks like it contains a secret";
        assert_eq!(
            explained(&secret, 422, refused, Some("slot")),
            "slot looks like it contains a secret (code)"
        );
        let text = ["remem", "put", "m", "the text itself"];
        assert_eq!(
            explained(&text, 422, "content must not be empty", Some("content")),
            "content must not be empty (code)"
        );
    }
}
