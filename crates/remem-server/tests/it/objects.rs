//! An array is refused where the OpenAPI document says object: fields are never read by their
//! position, neither at the top of a body nor further in, and nothing is written.

use axum::http::StatusCode;
use remem_testkit::TestServer;
use serde_json::{Map, Value, json};

/// Part of the error message for an array where an object is needed.
const NEEDED: &str = "an object is needed";

/// The maximum depth of the walk through a schema: some schemas are recursive.
const DEPTH_MAX: usize = 6;

/// A place inside a body where the schema asks for an object with known fields.
#[derive(Clone)]
enum PathStep {
    Field(String),
    Item,
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

/// Every such place of a schema, by the steps that lead there.
fn places(
    document: &Value,
    schema: &Value,
    steps: &[PathStep],
    found: &mut Vec<(Vec<PathStep>, Value)>,
) {
    if steps.len() > DEPTH_MAX {
        return;
    }
    let schema = resolved(document, schema);
    for choice in ["oneOf", "anyOf", "allOf"] {
        for one in schema[choice].as_array().into_iter().flatten() {
            places(document, one, steps, found);
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        found.push((steps.to_vec(), sample_of_each(document, properties)));
        for (name, inner) in properties {
            let next = [steps, &[PathStep::Field(name.clone())]].concat();
            places(document, inner, &next, found);
        }
    }
    if schema["items"].is_object() {
        let next = [steps, &[PathStep::Item]].concat();
        places(document, &schema["items"], &next, found);
    }
}

/// A value for each field, in an array: what a reader by place would take for the object.
fn sample_of_each(document: &Value, properties: &Map<String, Value>) -> Value {
    properties
        .values()
        .map(|schema| sample(document, schema))
        .collect()
}

fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].clone(),
        kind => kind.clone(),
    };
    match kind.as_str() {
        Some("string") => json!("x"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        _ => json!({}),
    }
}

/// A body that has `value` at that place and nothing else.
fn body(steps: &[PathStep], value: &Value) -> Value {
    match steps.split_first() {
        None => value.clone(),
        Some((PathStep::Field(name), rest)) => json!({name: body(rest, value)}),
        Some((PathStep::Item, rest)) => json!([body(rest, value)]),
    }
}

fn arrays(sample: &Value) -> Vec<Value> {
    vec![json!([]), json!(["x"]), json!([["x"]]), sample.clone()]
}

async fn document(host: &TestServer) -> Value {
    host.call("", "GET", "/v1/openapi.json", &[], "")
        .await
        .json()
}

async fn nothing_was_written(host: &TestServer) {
    let events = host.get("/v1/host/remembrancer/events").await.json();
    assert_eq!(events["nextAfter"], json!(0), "{events}");
    let files = host.get("/v1/host/workspace/files").await.json();
    assert_eq!(files, json!({"files": []}));
    let tenants = host.get("/v1/host/remembrancer/tenants").await.json();
    assert_eq!(tenants["tenants"].as_array().unwrap().len(), 1, "{tenants}");
}

#[tokio::test]
async fn an_array_is_refused_where_a_body_needs_an_object() {
    let host = TestServer::new().await;
    let document = document(&host).await;
    let mut tried = 0;
    let mut wrong = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            let mut found = Vec::new();
            places(&document, schema, &[], &mut found);
            if found.is_empty() {
                // An object of any fields: the top is one all the same.
                found.push((Vec::new(), json!([])));
            }
            let path = path.split('{').enumerate().map(|(n, part)| match n {
                0 => part.to_owned(),
                _ => format!("m{}", part.split_once('}').unwrap().1),
            });
            let path: String = path.collect();
            for (steps, sample) in &found {
                for array in arrays(sample) {
                    tried += 1;
                    let body = body(steps, &array).to_string();
                    let method = method.to_uppercase();
                    let answer = host
                        .call("key-of-a", &method, &path, &[], body.clone())
                        .await;
                    let text = String::from_utf8_lossy(&answer.bytes).into_owned();
                    let refused = answer.status == StatusCode::BAD_REQUEST
                        && (text.contains(NEEDED) || text.contains("expected an object"));
                    if !refused {
                        wrong.push(format!("{method} {path} {body}: {} {text}", answer.status));
                    }
                }
            }
        }
    }
    assert!(tried > 150, "the walk found {tried} bodies");
    assert!(wrong.is_empty(), "{} of {tried}: {wrong:#?}", wrong.len());
    nothing_was_written(&host).await;
}

/// Documents that the OpenAPI document leaves open have parts with known fields, too.
#[tokio::test]
async fn an_array_is_refused_where_a_workflow_needs_an_object() {
    let host = TestServer::new().await;
    let node = json!({"id": "a", "typeId": "core.noop"});
    let definitions = [
        json!({"id": "m", "nodes": [["a", "core.noop"]]}),
        json!({"id": "m", "nodes": [node, {"id": "b", "typeId": "core.noop"}], "edges": [["a", "b"]]}),
        json!({"id": "m", "nodes": [node], "variables": [["x", "string"]]}),
        json!({"id": "m", "nodes": [{"id": "a", "typeId": "core.noop", "agent": ["x"]}]}),
    ];
    for definition in definitions {
        let path = "/v1/host/remembrancer/workflows/m";
        let put = host
            .call("key-of-a", "PUT", path, &[], definition.to_string())
            .await;
        assert_eq!(
            (put.status.as_u16(), put.code().as_str()),
            (422, "validation_error"),
            "{definition}: {}",
            put.json()
        );
    }
    nothing_was_written(&host).await;
}

#[tokio::test]
async fn an_array_is_refused_where_a_tool_needs_an_object() {
    let host = TestServer::new().await;
    let ask = |method: &'static str, params: Value| {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("host", "localhost"),
        ];
        let host = &host;
        async move {
            host.call("key-of-a", "POST", "/mcp", &headers, call.to_string())
                .await
                .json()
        }
    };
    let tools = ask("tools/list", json!({})).await;
    let mut tried = 0;
    for tool in tools["result"]["tools"].as_array().unwrap() {
        let schema = &tool["inputSchema"];
        let mut found = Vec::new();
        places(schema, schema, &[], &mut found);
        for (steps, sample) in &found {
            for array in arrays(sample) {
                tried += 1;
                let arguments = body(steps, &array);
                let params = json!({"name": tool["name"], "arguments": arguments});
                let answer = ask("tools/call", params).await;
                let text = answer.to_string();
                // At the top the protocol itself asks for an object.
                let refused =
                    text.contains(NEEDED) || steps.is_empty() && answer["result"].is_null();
                assert!(refused, "{} {arguments}: {text}", tool["name"]);
            }
        }
    }
    assert!(tried > 70, "the walk found {tried} calls");
    nothing_was_written(&host).await;
}
