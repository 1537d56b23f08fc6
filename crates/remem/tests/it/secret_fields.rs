//! Proves that no text field of any request keeps a secret. The list of fields is that of the
//! host's own OpenAPI document, so a field that is added there and has no plan turns the test red.
//!
//! A plan (`secret_fields.json`) is a body with an ordinary value in text fields; where it has
//! `status`, the host answers that to the body as it is. Each field in turn then holds a secret,
//! alone and inside other text; so do the parameters of paths and queries. Afterwards the secrets
//! are looked for in all answers, the database and the log.

use crate::common::client::{Client, encode};
use crate::common::{ServerProcess, place};
use crate::secrets::HostOutput;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A registered value, of characters that every name may have.
const REGISTERED: &str = "c0ffee5eed1a2b3c4d5e6f708192a3b4";
const MEMORY: &str = "vault/fields";
/// The field in which a caller gives the secret that its webhooks are signed with.
const SIGNING_SECRET: &str = "POST /v1/webhooks /secret";

#[derive(Deserialize)]
pub(crate) struct FieldPlan {
    pub operation: String,
    pub body: Value,
    pub status: Option<u16>,
}

impl FieldPlan {
    pub fn method(&self) -> Method {
        let (method, _) = self.operation.split_once(' ').unwrap();
        method.parse().unwrap()
    }

    pub fn path(&self) -> String {
        let (_, path) = self.operation.split_once(' ').unwrap();
        filled(path, |name| ordinary(name).to_owned())
    }
}

/// The plans of all operations.
pub(crate) fn plans() -> Vec<FieldPlan> {
    serde_json::from_str(include_str!("secret_fields.json")).unwrap()
}

/// The value of a path parameter where it holds nothing special.
pub(crate) fn ordinary(parameter: &str) -> &'static str {
    match parameter {
        "memoryRef" => "vault%2Ffields",
        "name" => "purge",
        _ => "none",
    }
}

/// A path with its parameters filled in.
pub(crate) fn filled(path: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = path.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        out.push_str(&value(name));
        out.push_str(rest);
    }
    out
}

/// Returns the schema that a reference of the document names.
fn resolved<'d>(document: &'d Value, mut schema: &'d Value) -> &'d Value {
    while let Some(reference) = schema["$ref"].as_str() {
        schema = document.pointer(&reference[1..]).unwrap();
    }
    schema
}

/// The pointers of all text fields below a schema: strings that are not one of a few words, and
/// objects of the caller's own making.
fn text_fields(document: &Value, schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    assert!(at.matches('/').count() < 12, "{at} has no end");
    let schema = resolved(document, schema);
    for choice in ["oneOf", "anyOf", "allOf"] {
        for one in schema[choice].as_array().into_iter().flatten() {
            text_fields(document, one, at, found);
        }
    }
    let is = |name: &str| {
        let kind = &schema["type"];
        kind == name
            || kind
                .as_array()
                .is_some_and(|kinds| kinds.contains(&json!(name)))
    };
    if is("string") && schema["enum"].is_null() {
        found.insert(at.to_owned());
    }
    if schema["items"].is_object() {
        text_fields(document, &schema["items"], &format!("{at}/0"), found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        text_fields(document, field, &format!("{at}/{name}"), found);
    }
    let is_free = is("object") && schema["properties"].is_null() && schema["oneOf"].is_null();
    if is_free || schema == &json!({}) {
        // The first value that the plan has there represents them all.
        found.insert(format!("{at}/a"));
    }
}

/// Every operation of the document with its description.
pub(crate) fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let methods = ["get", "put", "post", "patch", "delete"];
        methods.into_iter().filter_map(move |method| {
            let operation = item.get(method)?;
            Some((format!("{} {path}", method.to_uppercase()), operation))
        })
    })
}

/// Fields that no plan has, as one line each.
fn unplanned(document: &Value, plans: &[FieldPlan]) -> Vec<String> {
    let mut missing = Vec::new();
    for (operation, about) in operations(document) {
        let mut fields = BTreeSet::new();
        for content in about["requestBody"]["content"]
            .as_object()
            .into_iter()
            .flatten()
        {
            text_fields(document, &content.1["schema"], "", &mut fields);
        }
        let mine: Vec<&FieldPlan> = plans
            .iter()
            .filter(|plan| plan.operation == operation)
            .collect();
        let lacks = |field: &&String| !mine.iter().any(|plan| plan.body.pointer(field).is_some());
        missing.extend(
            fields
                .iter()
                .filter(lacks)
                .map(|field| format!("{operation} {field}")),
        );
    }
    missing
}

/// The pointers of every text in a body.
pub(crate) fn texts_of(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                texts_of(item, &format!("{at}/{n}"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                texts_of(field, &format!("{at}/{name}"), found);
            }
        }
        _ => {}
    }
}

async fn plant_in_fields(seen: &mut HostOutput, client: &Client, plan: &FieldPlan, secret: &str) {
    let mut texts = Vec::new();
    texts_of(&plan.body, "", &mut texts);
    for text in texts {
        for planted in [
            secret.to_owned(),
            format!("it is {secret}, then"),
            format!("x:{secret}"),
        ] {
            let mut body = plan.body.clone();
            *body.pointer_mut(&text).unwrap() = json!(planted);
            let request = client.request(plan.method(), &plan.path()).json(&body);
            let sent = format!("{} {text}", plan.operation);
            if sent == SIGNING_SECRET {
                // The one answer that gives a secret back: to the caller that brought it.
                let answer = request.send().await.unwrap();
                assert!(answer.status().as_u16() < 500);
            } else {
                seen.send(&sent, request).await;
            }
        }
    }
}

/// Every parameter of a path or a query, with its operation otherwise as plain as can be.
async fn plant_in_parameters(
    seen: &mut HostOutput,
    client: &Client,
    document: &Value,
    secret: &str,
) {
    let planted = encode(secret);
    for (operation, about) in operations(document) {
        let (method, path) = operation.split_once(' ').unwrap();
        for parameter in about["parameters"].as_array().into_iter().flatten() {
            let parameter = resolved(document, parameter);
            let name = parameter["name"].as_str().unwrap();
            let address = match parameter["in"].as_str() {
                Some("path") => filled(path, |other| {
                    if other == name {
                        planted.clone()
                    } else {
                        ordinary(other).to_owned()
                    }
                }),
                Some("query") => {
                    let path = filled(path, |other| ordinary(other).to_owned());
                    format!("{path}?{name}={planted}")
                }
                _ => continue,
            };
            let request = client.request(method.parse().unwrap(), &address);
            seen.send(&format!("{operation} with {name}"), request)
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_text_field_has_a_plan_and_leaks_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data");
    let file = folder.path().join("secrets.jsonl");
    let known = json!({"secretId": "known", "secret": REGISTERED});
    std::fs::write(&file, known.to_string()).unwrap();
    let shaped = format!("{}{}", "AKIA", "Z7QW3E5RT2YU4IOP");
    let secrets = [REGISTERED.to_owned(), shaped.clone(), shaped.to_lowercase()];
    let log = [("REMEM_LOG__LEVEL", "trace")];
    let mut server =
        ServerProcess::start_with(&dir, &["--secrets-file", file.to_str().unwrap()], &log);
    let client = server.client();
    let mut seen = HostOutput::default();
    let document = client.request(Method::GET, "/v1/openapi.json");
    let document = seen
        .send("document", document)
        .await
        .unwrap()
        .is(200)
        .json();
    let plans = plans();
    let missing = unplanned(&document, &plans);
    assert!(missing.is_empty(), "no plan for:\n{}", missing.join("\n"));
    for plan in &plans {
        let request = client.request(plan.method(), &plan.path()).json(&plan.body);
        let answer = seen.send(&plan.operation, request).await.unwrap();
        if let Some(status) = plan.status {
            assert_eq!(answer.status, status, "{}: {}", plan.operation, answer.text);
        }
    }
    let entries = Client::memory(MEMORY, "entries");
    for secret in &secrets[..2] {
        for plan in &plans {
            plant_in_fields(&mut seen, &client, plan, secret).await;
        }
        plant_in_parameters(&mut seen, &client, &document, secret).await;
        seen.send("list", client.request(Method::GET, &entries))
            .await;
    }
    server.terminate();
    for (path, text) in place::stored(&dir) {
        seen.add(&format!("stored {}", path.display()), text);
    }
    seen.add("log", server.output().to_owned());
    let leaks = seen.leaks(&secrets);
    assert!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
}
