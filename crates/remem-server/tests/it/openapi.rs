//! The OpenAPI document is one that tools can work with, and it is true: its examples are taken,
//! what breaks its bounds is refused, and every refusal is in it.

use remem_testkit::TestServer;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Operations of the document: method, path and what it says.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    operations
}

async fn document(host: &TestServer) -> Value {
    host.get("/v1/openapi.json").await.json()
}

/// A path with every parameter replaced.
fn filled(template: &str, with: &str) -> String {
    let parts = template.split('{').enumerate().map(|(n, part)| match n {
        0 => part.to_owned(),
        _ => format!("{with}{}", part.split_once('}').unwrap().1),
    });
    parts.collect()
}

#[tokio::test]
async fn operation_ids_are_unique_and_responses_are_described() {
    let host = TestServer::new().await;
    let document = document(&host).await;
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap().to_owned();
        assert!(
            names.insert(name.clone()),
            "{name} stands at {method} {path} again"
        );
        for (status, response) in operation["responses"].as_object().unwrap() {
            let described = response["description"].as_str().unwrap_or_default();
            assert!(!described.is_empty(), "{method} {path} {status}");
        }
    }
    assert!(names.len() > 100);
    assert_eq!(document["servers"][0]["url"], "/");
}

/// Where an example speaks of something that a fresh host does not have.
fn is_of_something(path: &str) -> bool {
    path.matches('{').count() > usize::from(path.contains("{memoryRef}"))
        || path.ends_with("/forget")
}

#[tokio::test]
async fn every_request_body_has_an_example_that_is_accepted() {
    let host = TestServer::new().await;
    let document = document(&host).await;
    host.install("greet", json!([{"id": "a", "typeId": "core.noop"}]))
        .await;
    let mut tried = 0;
    for (method, path, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        if content.is_null() {
            continue;
        }
        let example = &content["example"];
        assert!(example.is_object(), "{method} {path} has no example");
        // Documents whose name is in them; passes have names of their own.
        let name = ["id", "automationId"]
            .iter()
            .find_map(|field| example[field].as_str());
        let name = name.filter(|_| method == "PUT").unwrap_or("compact");
        let sent = filled(&path, name);
        let answer = host
            .call("key-of-a", &method, &sent, &[], example.to_string())
            .await;
        let status = answer.status.as_u16();
        let is_taken = answer.status.is_success() || is_of_something(&path) && status == 404;
        assert!(is_taken, "{method} {path}: {status} {}", answer.json());
        tried += 1;
    }
    assert!(tried > 30, "{tried}");
}

/// Values that break what a schema says of a text or of each text of a list.
fn breaches(schema: &Value) -> Vec<Value> {
    if schema["items"].is_object() {
        return breaches(&schema["items"])
            .into_iter()
            .map(|one| json!([one]))
            .collect();
    }
    let mut found = Vec::new();
    if schema["enum"].is_array() {
        found.push(json!("none-of-these"));
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        found.push(json!("x".repeat(usize::try_from(most).unwrap() + 1)));
    }
    if let Some(least) = schema["minLength"].as_u64().filter(|least| *least > 0) {
        found.push(json!("x".repeat(usize::try_from(least).unwrap() - 1)));
    }
    found
}

#[tokio::test]
async fn violating_a_documented_bound_is_refused() {
    let host = TestServer::new().await;
    let document = document(&host).await;
    host.install("greet", json!([{"id": "a", "typeId": "core.noop"}]))
        .await;
    let mut wrong = Vec::new();
    let mut tried = 0;
    for (method, path, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        let reference = content["schema"]["$ref"].as_str().unwrap_or("#");
        let fields = document.pointer(&reference[1..]).unwrap()["properties"].as_object();
        for (field, schema) in fields.into_iter().flatten() {
            for breach in breaches(schema) {
                let mut body = content["example"].clone();
                body[field] = breach.clone();
                let sent = filled(&path, "compact");
                let answer = host
                    .call("key-of-a", &method, &sent, &[], body.to_string())
                    .await;
                let status = answer.status.as_u16();
                let is_refused = matches!(status, 400 | 413 | 422) || path.contains("proposals/");
                let start: String = breach.to_string().chars().take(40).collect();
                if !is_refused {
                    let text = answer.json();
                    wrong.push(format!("{method} {path} {field} {start}: {status} {text}"));
                }
                tried += 1;
            }
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            for breach in breaches(&parameter["schema"]) {
                let breach = breach.as_str().unwrap();
                let query = format!("{}?{name}={breach}", filled(&path, "compact"));
                let (sent, headers) = match parameter["in"].as_str().unwrap() {
                    "query" => (query, vec![]),
                    "header" => (filled(&path, "compact"), vec![(name, breach)]),
                    _ if breach.is_empty() => continue,
                    _ => (filled(&path, breach), vec![]),
                };
                let body = match content["example"].clone() {
                    Value::Null => String::new(),
                    example => example.to_string(),
                };
                let answer = host.call("key-of-a", &method, &sent, &headers, body).await;
                let status = answer.status.as_u16();
                if !matches!(status, 400 | 404 | 422) {
                    wrong.push(format!("{method} {path} {name} {breach:.40}: {status}"));
                }
                tried += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}: {wrong:#?}", wrong.len());
    assert!(tried > 70, "{tried}");
}

/// A path with one parameter replaced; the others name things that can be.
fn filled_but_for(template: &str, name: &str, with: &str) -> String {
    let braced = format!("{{{name}}}");
    filled(&template.replace(&braced, with), "m")
}

#[tokio::test]
async fn every_status_for_a_malformed_path_is_documented() {
    let host = TestServer::new().await;
    let document = document(&host).await;
    let mut wrong = Vec::new();
    let long = "x".repeat(5_000);
    let parts = [
        "%1B", "%00", "%FF", "a%5Cb", "..", "~", "%20", "%252e", "0", &long,
    ];
    for (method, path, operation) in operations(&document) {
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        let body = match example {
            Value::Null => String::new(),
            example => example.to_string(),
        };
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            if parameter["in"] != "path" {
                continue;
            }
            for part in parts {
                let sent = filled_but_for(&path, name, part);
                let answer = host
                    .call("key-of-a", &method, &sent, &[], body.clone())
                    .await;
                let status = answer.status.as_u16().to_string();
                if operation["responses"][&status].is_null() {
                    wrong.push(format!("{method} {path} {name}={part:.20}: {status}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_nul_character_never_causes_a_server_error() {
    let host = TestServer::new().await;
    let document = document(&host).await;
    let mut wrong = Vec::new();
    for (method, path, operation) in operations(&document) {
        let content = &operation["requestBody"]["content"]["application/json"];
        let mut sent = Vec::new();
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            if parameter["in"] == "query" {
                let query = format!("{}?{name}=a%00b", filled(&path, "m"));
                sent.push((query, content["example"].clone()));
            }
        }
        for (field, value) in content["example"].as_object().into_iter().flatten() {
            if value.is_string() {
                let mut body = content["example"].clone();
                body[field] = json!("a\0b");
                sent.push((filled(&path, "compact"), body));
            }
        }
        for (sent, body) in sent {
            let text = if body.is_null() {
                String::new()
            } else {
                body.to_string()
            };
            let answer = host
                .call("key-of-a", &method, &sent, &[], text.clone())
                .await;
            let status = answer.status.as_u16();
            if status >= 500 {
                wrong.push(format!("{method} {sent} {text}: {status}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
