//! Lists and maps of requests have an end: the OpenAPI document says which, and one element more is
//! refused with the caller's fault, never the host's.

use remem_core::strict_json;
use remem_testkit::TestServer;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const BASE: &str = "/v1/host/remembrancer";

/// The lists and maps that requests can hold, by their place, with the documented bound.
#[derive(Default)]
struct RequestBounds {
    lists: BTreeMap<String, Option<u64>>,
    maps: BTreeMap<String, Option<u64>>,
    seen: BTreeSet<String>,
}

impl RequestBounds {
    fn collect(&mut self, document: &Value, place: &str, schema: &Value) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap();
            if self.seen.insert(name.to_owned()) {
                self.collect(document, name, document.pointer(&reference[1..]).unwrap());
            }
            return;
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            for one in schema[choice].as_array().into_iter().flatten() {
                self.collect(document, place, one);
            }
        }
        if is_of(schema, "array") {
            let bound = schema["maxItems"].as_u64();
            self.lists.insert(place.to_owned(), bound);
            self.collect(document, &format!("{place}[]"), &schema["items"]);
        }
        match schema["properties"].as_object() {
            None if is_of(schema, "object") => {
                let bound = schema["maxProperties"].as_u64();
                self.maps.insert(place.to_owned(), bound);
            }
            fields => {
                for (field, inner) in fields.into_iter().flatten() {
                    self.collect(document, &format!("{place}.{field}"), inner);
                }
            }
        }
    }
}

fn is_of(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        one => one == kind,
    }
}

/// Returns all lists and maps of the document's requests, and the operations that take a body.
async fn requests(host: &TestServer) -> (RequestBounds, Vec<(String, String)>) {
    let document = host.get("/v1/openapi.json").await.json();
    let mut found = RequestBounds::default();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let place = format!("{path}?{}", parameter["name"]);
                found.collect(&document, &place, &parameter["schema"]);
            }
            for content in operation["requestBody"]["content"]
                .as_object()
                .into_iter()
                .flat_map(Map::values)
            {
                found.collect(&document, &format!("{method} {path}"), &content["schema"]);
                operations.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    (found, operations)
}

#[tokio::test]
async fn every_request_list_and_map_has_a_documented_bound() {
    let host = TestServer::new().await;
    let (found, _) = requests(&host).await;
    let endless = |found: &BTreeMap<String, Option<u64>>| {
        let endless = found.iter().filter(|(_, bound)| bound.is_none());
        endless.map(|(place, _)| place.clone()).collect::<Vec<_>>()
    };
    assert_eq!(endless(&found.lists), [""; 0], "lists without maxItems");
    assert_eq!(endless(&found.maps), [""; 0], "maps without maxProperties");
    assert!(found.lists.len() >= 15 && found.maps.len() >= 10);
}

/// A request with this list, by the place of the list: method, path and body.
fn with_list(place: &str, count: usize) -> Option<(&'static str, String, Value)> {
    let memory = format!("{BASE}/memory/m");
    let named = |prefix: &str| {
        let names = (0..count).map(|n| format!("{prefix}{n}"));
        names.collect::<Vec<_>>()
    };
    let each = |item: &dyn Fn(usize) -> Value| (0..count).map(item).collect::<Vec<_>>();
    let import = |item: Value| {
        (
            "POST",
            format!("{memory}/entries:import"),
            json!({"entries": item}),
        )
    };
    Some(match place {
        "PutEntry.tags" => {
            let body = json!({"content": "x", "tags": named("t")});
            ("POST", format!("{memory}/entries"), body)
        }
        "PutEntry.subjects" => {
            let body = json!({"content": "x", "subjects": named("subject ")});
            ("POST", format!("{memory}/entries"), body)
        }
        "PutMany.entries" => {
            let body = json!({"entries": each(&|n| json!({"content": n.to_string()}))});
            ("POST", format!("{memory}/entries:batch"), body)
        }
        "ImportRequest.entries" => import(json!(each(
            &|n| json!({"id": format!("e{n}"), "content": "x"})
        ))),
        "ImportEntry.tags" => import(json!([{"id": "e", "content": "x", "tags": named("t")}])),
        "ImportEntry.subjects" => {
            import(json!([{"id": "f", "content": "x", "subjects": named("subject ")}]))
        }
        "SearchRequest.tags" => {
            let body = json!({"query": "x", "tags": named("t")});
            ("POST", format!("{memory}/search"), body)
        }
        "RecallRequest.tags" => {
            let body = json!({"query": "x", "tags": named("t")});
            ("POST", format!("{memory}/recall"), body)
        }
        "CommitmentCreate.subjects" => {
            let body = json!({"text": "Call Ana", "every": "P1D", "subjects": named("subject ")});
            ("POST", format!("{memory}/commitments"), body)
        }
        "KeyCreate.scopes" => {
            let body = json!({"scopes": each(&|_| json!("memory:read"))});
            ("POST", format!("{BASE}/keys"), body)
        }
        "ProposalSubmit.sourceRunIds" => {
            let artifact = json!({"templateId": "greeting", "version": "1.0.0", "text": "Hello"});
            let body = json!({"kind": "prompt-template", "artifact": artifact, "sourceRunIds": named("run_")});
            ("POST", format!("{BASE}/proposals"), body)
        }
        "TraceCreate.tools" => {
            let body = json!({"agentId": "core.a.b", "tools": named("tool")});
            ("POST", format!("{BASE}/traces"), body)
        }
        "WebhookRegister.events" => {
            let body = json!({"url": "https://hooks.example.org/x", "events": each(&|_| json!("run.completed"))});
            ("POST", "/v1/webhooks".to_owned(), body)
        }
        "WebhookRegister.tags" => {
            let body = json!({"url": "https://hooks.example.org/x", "events": ["run.completed"], "tags": named("t")});
            ("POST", "/v1/webhooks".to_owned(), body)
        }
        "RunCreate.tags" => {
            let body = json!({"workflowId": "conformance-noop", "tags": named("t")});
            ("POST", "/v1/runs".to_owned(), body)
        }
        "RulesPut.rules" => {
            let rule = |n: usize| json!({"id": format!("r{n}"), "body": format!("Rule {n}.")});
            (
                "POST",
                format!("{BASE}/worlds/w/rules"),
                json!({"rules": each(&rule)}),
            )
        }
        _ => return None,
    })
}

#[tokio::test]
async fn lists_over_their_bound_are_refused_and_at_the_bound_accepted() {
    let host = TestServer::with_seams().await;
    let (found, _) = requests(&host).await;
    for (place, bound) in found.lists {
        let bound = usize::try_from(bound.unwrap()).unwrap();
        let made = |count| {
            let made = with_list(&place, count);
            made.unwrap_or_else(|| panic!("there is no request here with a list in {place}"))
        };
        let (method, path, body) = made(bound + 1);
        let refused = host
            .call("key-of-a", method, &path, &[], body.to_string())
            .await;
        assert_eq!(refused.status, 422, "{place}: {}", refused.json());
        let field = place.rsplit('.').next().unwrap();
        let field = if field == "[]" { "entries" } else { field };
        assert!(
            refused.json().to_string().contains(field),
            "{place}: {}",
            refused.json()
        );
        let (method, path, body) = made(bound);
        let taken = host
            .call("key-of-a", method, &path, &[], body.to_string())
            .await;
        assert!(taken.status.is_success(), "{place}: {}", taken.json());
    }
}

#[tokio::test]
async fn every_operation_refuses_bodies_with_too_many_items() {
    let host = TestServer::new().await;
    let (_, operations) = requests(&host).await;
    let field = |n: usize| (format!("f{n}"), json!(1));
    let map: Map<String, Value> = (0..=strict_json::ITEMS_MAX).map(field).collect();
    let list = json!({"metadata": {"list": vec![1; strict_json::ITEMS_MAX + 1]}});
    assert!(operations.len() > 25);
    for (method, path) in operations {
        let path = path.replace("{memoryRef}", "m").replace(['{', '}'], "");
        for body in [Value::Object(map.clone()), list.clone()] {
            let answer = host
                .call("key-of-a", &method, &path, &[], body.to_string())
                .await;
            let status = answer.status.as_u16();
            assert!((400..500).contains(&status), "{method} {path}: {status}");
        }
    }
    let body = json!({"content": "x", "metadata": map});
    let refused = host.post(&format!("{BASE}/memory/m/entries"), body).await;
    assert_eq!(refused.status, 400, "{}", refused.json());
    assert!(refused.json().to_string().contains("too many items"));
}
