//! The names in an OpenAPI document: operations, their parameters, and the fields of what they
//! take and answer. Names of schemas are left out, because they are neither stored nor sent.

use crate::secret_fields::operations;
use serde_json::Value;
use std::collections::BTreeSet;

/// Every operation, as its method and path.
pub fn operation_names(document: &Value) -> BTreeSet<String> {
    operations(document).map(|(name, _)| name).collect()
}

/// Every parameter and field as `METHOD PATH PART NAME`, where the part is `query`, `header`,
/// `body`, `answer` or `error`. A field in a field is `outer.inner`, one of a list's items
/// `outer[].inner`, and a word that a field can hold `field=word`.
pub fn fields(document: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (operation, about) in operations(document) {
        let mut add = |part: &str, found: BTreeSet<String>| {
            all.extend(
                found
                    .iter()
                    .map(|name| format!("{operation} {part} {name}")),
            );
        };
        for parameter in about["parameters"].as_array().into_iter().flatten() {
            let parameter = resolved(document, parameter);
            let mut found = BTreeSet::new();
            let name = parameter["name"].as_str().unwrap();
            found.insert(name.to_owned());
            walk(
                document,
                &parameter["schema"],
                name,
                &mut Vec::new(),
                &mut found,
            );
            if let part @ ("query" | "header") = parameter["in"].as_str().unwrap() {
                add(part, found);
            }
        }
        add("body", of_content(document, &about["requestBody"]));
        for (status, answer) in about["responses"].as_object().into_iter().flatten() {
            let is_good = status.starts_with('2');
            let part = if is_good { "answer" } else { "error" };
            add(part, of_content(document, answer));
        }
    }
    all
}

/// Follows references to what they name.
fn resolved<'d>(document: &'d Value, mut value: &'d Value) -> &'d Value {
    while let Some(reference) = value["$ref"].as_str() {
        value = document.pointer(&reference[1..]).unwrap();
    }
    value
}

/// The fields of a body of any media type.
fn of_content(document: &Value, body: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let body = resolved(document, body);
    for content in body["content"].as_object().into_iter().flatten() {
        walk(
            document,
            &content.1["schema"],
            "",
            &mut Vec::new(),
            &mut found,
        );
    }
    found
}

/// Adds the fields below a schema. `open` holds the schemas on the way to it, which may hold
/// themselves.
fn walk<'d>(
    document: &'d Value,
    schema: &'d Value,
    at: &str,
    open: &mut Vec<&'d Value>,
    found: &mut BTreeSet<String>,
) {
    let schema = resolved(document, schema);
    if open.iter().any(|one| std::ptr::eq(*one, schema)) {
        return;
    }
    open.push(schema);
    for choice in ["oneOf", "anyOf", "allOf"] {
        for one in schema[choice].as_array().into_iter().flatten() {
            walk(document, one, at, open, found);
        }
    }
    let words = schema["enum"].as_array().into_iter().flatten();
    for word in words.chain(schema.get("const")).filter_map(Value::as_str) {
        if !word.contains(char::is_whitespace) {
            found.insert(format!("{at}={word}"));
        }
    }
    for (part, inner) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[part].is_object() {
            walk(
                document,
                &schema[part],
                &format!("{at}{inner}"),
                open,
                found,
            );
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let at = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}.{name}")
        };
        found.insert(at.clone());
        walk(document, field, &at, open, found);
    }
    open.pop();
}
