//! Readers for the fields of an artifact. An error names a field and a rule and repeats nothing
//! that was sent.

use crate::rejection::Rejection;
use serde_json::{Map, Value};

/// The rule in words that [`is_name`] checks.
pub(super) const NAME_RULE: &str =
    "must be 1 to 128 lowercase letters, digits, _, dots and -, beginning with a letter";
const VERSION_RULE: &str = "must be 1 to 64 letters, digits, dots, + and -, beginning with a digit";
const NAME_CHARS_MAX: usize = 128;
const VERSION_CHARS_MAX: usize = 64;

/// Returns true if a text can name an artifact: 1–128 of `a-z 0-9 _ . -`, beginning with a letter.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b))
}

pub(super) fn invalid(field: &'static str, rule: &'static str) -> Rejection {
    Rejection::Invalid { field, rule }
}

/// Refuses an object with unknown fields.
pub(super) fn check_known_fields(
    map: &Map<String, Value>,
    known: &[&str],
    field: &'static str,
    rule: &'static str,
) -> Result<(), Rejection> {
    if map.keys().all(|key| known.contains(&key.as_str())) {
        Ok(())
    } else {
        Err(invalid(field, rule))
    }
}

/// Reads a text field that is required.
pub(super) fn required_text<'a>(
    map: &'a Map<String, Value>,
    field: &'static str,
) -> Result<&'a str, Rejection> {
    optional_text(map, field)?.ok_or(invalid(field, "is missing"))
}

/// Reads a text field that is optional.
pub(super) fn optional_text<'a>(
    map: &'a Map<String, Value>,
    field: &'static str,
) -> Result<Option<&'a str>, Rejection> {
    match map.get(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(invalid(field, "must be a string")),
    }
}

/// Reads an optional boolean field.
pub(super) fn optional_flag(
    map: &Map<String, Value>,
    field: &'static str,
    default: bool,
) -> Result<bool, Rejection> {
    match map.get(field) {
        None => Ok(default),
        Some(Value::Bool(on)) => Ok(*on),
        Some(_) => Err(invalid(field, "must be true or false")),
    }
}

/// Reads the required name of an artifact.
pub(super) fn required_name(
    map: &Map<String, Value>,
    field: &'static str,
) -> Result<String, Rejection> {
    let name = required_text(map, field)?;
    if is_name(name) {
        Ok(name.to_owned())
    } else {
        Err(invalid(field, NAME_RULE))
    }
}

/// Reads the required version of an artifact.
pub(super) fn required_version(map: &Map<String, Value>) -> Result<String, Rejection> {
    let version = required_text(map, "version")?;
    let fits = version.len() <= VERSION_CHARS_MAX
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b".+-".contains(&b));
    if fits {
        Ok(version.to_owned())
    } else {
        Err(invalid("version", VERSION_RULE))
    }
}

/// Reads a required list of objects.
pub(super) fn required_objects<'a>(
    map: &'a Map<String, Value>,
    field: &'static str,
    items_max: usize,
    rule: &'static str,
) -> Result<Vec<&'a Map<String, Value>>, Rejection> {
    let items = map
        .get(field)
        .ok_or(invalid(field, "is missing"))?
        .as_array()
        .ok_or(invalid(field, rule))?;
    if items.len() > items_max {
        return Err(Rejection::TooLarge {
            field,
            unit: "items",
            limit: items_max as u64,
            actual: items.len() as u64,
        });
    }
    items
        .iter()
        .map(|item| item.as_object().ok_or(invalid(field, rule)))
        .collect()
}

/// Refuses a text that exceeds its limit in bytes.
pub(super) fn check_size(
    field: &'static str,
    actual: usize,
    limit: usize,
) -> Result<(), Rejection> {
    let actual = actual as u64;
    let limit = limit as u64;
    if actual > limit {
        Err(Rejection::TooLarge {
            field,
            unit: "bytes",
            limit,
            actual,
        })
    } else {
        Ok(())
    }
}
