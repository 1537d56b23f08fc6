//! Adds to the OpenAPI document the parts that are alike for every operation, so that no handler
//! has to repeat them: the error responses, the limits of lists, the values of fields, an example.

mod examples;
mod values;

use remem_core::admission::SUBJECTS_MAX;
use remem_core::webhook::EVENTS_MAX;
use remem_core::{Permission, Policy, sabotage, strict_json};
use remem_engine::proposals::SOURCE_RUNS_MAX;
use remem_engine::runs::TAGS_MAX;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};

/// Completes the document for clients: valid, with every response described and every value bounded.
pub(super) fn complete_document(mut document: OpenApi, policy: &Policy) -> Value {
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths = paths
        .into_iter()
        .map(|(template, item)| {
            (
                plain(&template),
                sabotage!(
                    "refusals-are-not-in-the-document",
                    with_refusals_of_item(item),
                    item
                ),
            )
        })
        .collect();
    let mut document = json!(document);
    // The host does not know under which name it is reached; a relative URL is read against the
    // document's own.
    document["servers"] =
        json!([{"url": "/", "description": "The host that serves this document"}]);
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, item) in paths.into_iter().flatten() {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            name(method, path, operation);
            describe(operation);
            examples::add(operation);
        }
    }
    bound_requests(&mut document, policy);
    values::add(&mut document, policy);
    document
}

/// Gives an operation a name of its own where its handler shares its name with another.
fn name(method: &str, path: &str, operation: &mut Value) {
    if method == "post" && path.ends_with("/worlds/{world}/rules") {
        operation["operationId"] = json!("put_world_rules");
    }
}

/// Adds a description to every response that has none.
fn describe(operation: &mut Value) {
    let responses = operation
        .get_mut("responses")
        .and_then(Value::as_object_mut);
    for (status, response) in responses.into_iter().flatten() {
        let described = response["description"].as_str().unwrap_or_default();
        if described.is_empty() {
            response["description"] = json!(meaning(status));
        }
    }
}

/// The description of a status where the operation gives none.
fn meaning(status: &str) -> &'static str {
    match status {
        "200" => "Success",
        "201" => "Created",
        "202" => "Accepted; the work goes on",
        "204" => "Success, without a body",
        "304" => "Not modified since the version in If-None-Match",
        "400" => "Malformed request; the message says where",
        "401" => "Missing, unknown, expired or revoked key",
        "403" => "The key lacks a scope or the trust that is needed",
        "404" => "Not found, or not the caller's",
        "408" => "The body arrived too slowly",
        "409" => "Conflict with the current state",
        "410" => "Erased",
        "413" => "The body is too large",
        "415" => "The body is not JSON",
        "422" => "The request breaks a rule, which the message names",
        "429" => "Too many event streams are open",
        _ => "Unavailable now, or a fault of the host",
    }
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
        ("ProposalSubmit", "sourceRunIds") => SOURCE_RUNS_MAX,
        ("TraceCreate", "tools") => policy.trace_tools_max,
        ("WebhookRegister", "events") => EVENTS_MAX,
        _ => return None,
    })
}

/// Adds the limits of every list and map that a request can hold.
fn bound_requests(document: &mut Value, policy: &Policy) {
    let mut wanted: Vec<String> = Vec::new();
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flat_map(|paths| paths.values_mut());
    let operations = items
        .filter_map(Value::as_object_mut)
        .flat_map(|item| item.values_mut());
    for operation in operations {
        let Some(body) = operation.pointer_mut("/requestBody/content") else {
            continue;
        };
        collect_references(body, &mut wanted);
        for content in body
            .as_object_mut()
            .into_iter()
            .flat_map(|body| body.values_mut())
        {
            content
                .get_mut("schema")
                .into_iter()
                .for_each(|schema| bound(schema, None));
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(schema) = document.pointer_mut(&format!("/components/schemas/{name}")) else {
            continue;
        };
        let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (field, inner) in fields.into_iter().flatten() {
            let limit = items_max(&name, field, policy);
            sabotage!("bounds-are-not-in-the-document", bound(inner, limit));
        }
        collect_references(schema, &mut wanted);
    }
}

/// Collects the names of the schemas that a part of the document refers to.
fn collect_references(part: &Value, found: &mut Vec<String>) {
    match part {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str);
            found.extend(name.and_then(|name| name.rsplit('/').next().map(str::to_owned)));
            map.values()
                .for_each(|inner| collect_references(inner, found));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|inner| collect_references(inner, found)),
        _ => {}
    }
}

fn bound(schema: &mut Value, items_max: Option<usize>) {
    for choice in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get_mut(choice).and_then(Value::as_array_mut);
        let choices = choices.into_iter().flatten();
        choices.for_each(|one| bound(one, items_max));
    }
    if is_of_type(schema, "array")
        && let Some(limit) = items_max
    {
        schema["maxItems"] = json!(limit);
    }
    if is_of_type(schema, "object") && schema.get("properties").is_none() {
        schema["maxProperties"] = json!(strict_json::ITEMS_MAX);
    }
}

/// Whether a value of this schema can be of that type.
fn is_of_type(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(many) => many.iter().any(|one| one == kind),
        _ => false,
    }
}

/// A parameter that may hold slashes has a star in the router's language and none in OpenAPI's.
fn plain(template: &str) -> String {
    template.replace("{*", "{")
}

fn with_refusals_of_item(mut item: PathItem) -> PathItem {
    for (operation, writes) in [
        (&mut item.get, false),
        (&mut item.put, true),
        (&mut item.post, true),
        (&mut item.patch, true),
        (&mut item.delete, true),
    ] {
        if let Some(operation) = operation {
            refusals(operation, writes);
        }
    }
    item
}

fn refusals(operation: &mut Operation, writes: bool) {
    // Every request can be malformed: one without a Host is.
    let mut statuses = vec!["400"];
    let is_in = |place: ParameterIn| move |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(p) if p.parameter_in == place);
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let named = |name: &str| {
        parameters
            .iter()
            .any(|parameter| matches!(parameter, RefOr::T(p) if p.name == name))
    };
    let has_body = operation.request_body.is_some();
    let has_path = parameters.iter().any(is_in(ParameterIn::Path));
    // An operation of its own security is one that needs no key.
    if operation.security.is_none() {
        statuses.extend(["401", "403", "5XX"]);
    }
    if has_path {
        statuses.push("404");
    }
    if has_body || has_path && writes || parameters.iter().any(is_in(ParameterIn::Query)) {
        statuses.push("422");
    }
    if named("Idempotency-Key") {
        statuses.extend(["409", "422"]);
    }
    if has_body {
        statuses.extend(["408", "413", "415"]);
    }
    for status in statuses {
        operation
            .responses
            .responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::T(refusal(meaning(status))));
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
