//! Adds to the OpenAPI document the parts that are alike for every operation, so that no handler
//! has to repeat them: the error responses, and the limits of lists and maps in requests.

use remem_core::admission::SUBJECTS_MAX;
use remem_core::webhook::EVENTS_MAX;
use remem_core::{Permission, Policy, objects, sabotage};
use remem_engine::proposals::SOURCES_MAX;
use remem_engine::runs::TAGS_MAX;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};

/// Returns the document with the error responses of every operation, and with path templates in
/// OpenAPI's syntax.
pub(super) fn complete(mut document: OpenApi) -> OpenApi {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(template, item)| {
            (
                openapi_template(&template),
                sabotage!(
                    "refusals-are-not-in-the-document",
                    with_refusals(item),
                    item
                ),
            )
        })
        .collect();
    document
}

/// Returns the maximum length of a list in a request, by its schema and field. The engine enforces
/// the limits; here they are documented for callers.
fn items_max(schema: &str, field: &str, policy: &Policy) -> Option<usize> {
    let entries_max = policy.batch_entries_max;
    Some(match (schema, field) {
        ("PutMany" | "ImportRequest", "entries") | ("RulesPut", "rules") => entries_max,
        ("SearchRequest" | "RecallRequest", "tags") => policy.query_tags_max,
        ("PutEntry" | "ImportEntry" | "WebhookRegister", "tags") => policy.tags_max,
        ("RunCreate", "tags") => TAGS_MAX,
        (_, "subjects") => SUBJECTS_MAX,
        ("KeyCreate", "scopes") => Permission::ALL.len(),
        ("ProposalSubmit", "sourceRunIds") => SOURCES_MAX,
        ("TraceCreate", "tools") => policy.trace_tools_max,
        ("WebhookRegister", "events") => EVENTS_MAX,
        _ => return None,
    })
}

/// Returns the document as JSON, with the limits of every list and map that a request can hold.
pub(super) fn bounded(document: &OpenApi, policy: &Policy) -> Value {
    let mut document = json!(document);
    let mut pending: Vec<String> = Vec::new();
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(|paths| paths.values_mut());
    let operations = items
        .filter_map(Value::as_object_mut)
        .flat_map(|item| item.values_mut());
    for operation in operations {
        let Some(body) = operation.pointer_mut("/requestBody/content") else {
            continue;
        };
        references(body, &mut pending);
        for content in body
            .as_object_mut()
            .into_iter()
            .flat_map(|body| body.values_mut())
        {
            content
                .get_mut("schema")
                .into_iter()
                .for_each(|schema| add_limits(schema, None));
        }
    }
    let mut visited = BTreeSet::new();
    while let Some(name) = pending.pop() {
        if !visited.insert(name.clone()) {
            continue;
        }
        let Some(schema) = document.pointer_mut(&format!("/components/schemas/{name}")) else {
            continue;
        };
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (field, inner) in fields.into_iter().flatten() {
            let limit = items_max(&name, field, policy);
            sabotage!("bounds-are-not-in-the-document", add_limits(inner, limit));
        }
        references(schema, &mut pending);
    }
    document
}

/// Collects the names of the schemas that a part of the document refers to.
fn references(part: &Value, found: &mut Vec<String>) {
    match part {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str);
            found.extend(name.and_then(|name| name.rsplit('/').next().map(str::to_owned)));
            map.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

/// Writes the limits into a schema: `items_max` for a list, the host's maximum for a free map.
fn add_limits(schema: &mut Value, items_max: Option<usize>) {
    for choice in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get_mut(choice).and_then(Value::as_array_mut);
        let choices = choices.into_iter().flatten();
        choices.for_each(|schema| add_limits(schema, items_max));
    }
    if is_of(schema, "array")
        && let Some(limit) = items_max
    {
        schema["maxItems"] = json!(limit);
    }
    if is_of(schema, "object") && schema.get("properties").is_none() {
        schema["maxProperties"] = json!(objects::ITEMS_MAX);
    }
}

/// Returns whether a value of this schema can be of the given JSON type.
fn is_of(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(many) => many.iter().any(|one| one == kind),
        _ => false,
    }
}

/// Converts a template of the router to OpenAPI's syntax, which has no star for a parameter that
/// may hold slashes.
fn openapi_template(template: &str) -> String {
    template.replace("{*", "{")
}

fn with_refusals(mut item: PathItem) -> PathItem {
    for operation in [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.patch,
        &mut item.delete,
    ]
    .into_iter()
    .flatten()
    {
        add_refusals(operation);
    }
    item
}

/// Adds the error responses that follow from what an operation reads: key, parameters, body.
fn add_refusals(operation: &mut Operation) {
    // Only operations that need no key declare a security of their own. They refuse nothing.
    if operation.security.is_some() {
        return;
    }
    let mut statuses = vec![
        ("401", "No key, or one that is not valid"),
        ("403", "The key lacks a scope"),
        ("5XX", "Not now, or a fault of the host"),
    ];
    let is_in = |place: ParameterIn| move |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(p) if p.parameter_in == place);
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let has_body = operation.request_body.is_some();
    if has_body || parameters.iter().any(is_in(ParameterIn::Query)) {
        statuses.extend([
            ("400", "The request cannot be read"),
            ("422", "The request breaks a rule, which the message names"),
        ]);
    }
    if parameters.iter().any(is_in(ParameterIn::Path)) {
        statuses.push(("404", "There is no such thing here"));
    }
    if parameters
        .iter()
        .any(|parameter| matches!(parameter, RefOr::T(p) if p.name == "Idempotency-Key"))
    {
        statuses.extend([
            ("409", "The Idempotency-Key was used for another request"),
            ("422", "The Idempotency-Key breaks a rule"),
        ]);
    }
    if has_body {
        statuses.extend([
            ("408", "The body came too slowly"),
            ("413", "The body is too large"),
            ("415", "The body is not JSON"),
        ]);
    }
    for (status, description) in statuses {
        operation
            .responses
            .responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::T(refusal(description)));
    }
}

fn refusal(description: &str) -> Response {
    let mut response = Response::new(description);
    let envelope = Content::new(Some(RefOr::Ref(Ref::from_schema_name("ErrorBody"))));
    response
        .content
        .insert("application/json".to_owned(), envelope.into());
    response
}
