//! What is said of a configuration that cannot be read: which key, where it is written, what it
//! should be.

use crate::hints;
use figment::error::{Actual, Kind};
use remem_wire::error::plain_type;

/// Says what is wrong, one line for each fault.
pub fn text(errors: figment::Error) -> String {
    let lines: Vec<String> = errors.into_iter().map(|error| fault(&error)).collect();
    lines.join("\n")
}

fn fault(error: &figment::Error) -> String {
    let key = error.path.join(".");
    let place = match error
        .metadata
        .as_ref()
        .and_then(|data| data.source.as_ref())
    {
        Some(source) => format!(" in {source}"),
        None if error
            .metadata
            .as_ref()
            .is_some_and(|data| data.name.contains("env")) =>
        {
            " in the environment".to_owned()
        }
        None => String::new(),
    };
    match &error.kind {
        Kind::UnknownField(name, known) => {
            let section = error.path.iter().filter(|part| *part != name);
            let section: Vec<&str> = section.map(String::as_str).collect();
            let section = match section.as_slice() {
                [] => String::new(),
                parts => format!(" in section [{}]", parts.join(".")),
            };
            format!(
                "{}{section}{place}",
                hints::unknown_text("key", name, known)
            )
        }
        Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
            format!(
                "{key}{place} must be {}, not {}",
                plain_type(expected),
                kind_of(actual)
            )
        }
        Kind::MissingField(name) => format!("{key}{place} has no `{name}`"),
        other => {
            let key = if key.is_empty() {
                key
            } else {
                format!("{key}: ")
            };
            format!("{key}{other}{place}")
        }
    }
}

/// What kind of value was found; never the value, which may be a password.
fn kind_of(actual: &Actual) -> &'static str {
    match actual {
        Actual::Bool(_) => "true or false",
        Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_) => "a number",
        Actual::Char(_) | Actual::Str(_) | Actual::Bytes(_) => "text",
        Actual::Seq => "a list",
        Actual::Map => "a section",
        _ => "something else",
    }
}
