//! Numbers of requests, by the OpenAPI document: one that its type cannot hold is 400, one beyond
//! a documented limit is 422, and the largest that is allowed is never the host's fault.

use remem_testkit::TestServer;
use serde_json::{Map, Value, json};

const BASE: &str = "/v1/host/remembrancer";

/// Greatest numbers of types without a limit of their own.
const TYPE_MAX: [u64; 2] = [u32::MAX as u64, i64::MAX as u64];

/// Beyond what every type can hold, or no whole number at all.
const NEVER: [&str; 8] = [
    "-1",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1.5",
    "1e2",
    "1e400",
];

/// A place of a request that holds a number.
struct Number {
    method: String,
    path: String,
    place: Place,
    name: String,
    schema: Value,
}

enum Place {
    Path,
    Query,
    /// With the example of the body that it is a field of.
    Body(Value),
}

/// Objects that exist, so that a number is checked and not only the name beside it.
struct Things {
    run: String,
    webhook: String,
    commitment: String,
}

async fn things(host: &TestServer) -> Things {
    let noop = json!([{"id": "a", "typeId": "core.noop"}]);
    host.install("greet", noop).await;
    let (run, _) = host.run_to_end(json!({"workflowId": "greet"})).await;
    let hook = json!({"url": "https://hooks.example.com/x", "events": ["run.completed"]});
    let webhook = host.post("/v1/webhooks", hook).await.json()["webhookId"].clone();
    let promise = json!({"text": "Water the plants", "every": "P7D"});
    let commitment = host
        .post(&format!("{BASE}/memory/m/commitments"), promise)
        .await;
    let text = json!({"content": "x"}).to_string();
    let path = "/v1/host/workspace/files/a.md";
    let put = host.call("key-of-a", "PUT", path, &[], text).await;
    assert!(put.status.is_success(), "{}", put.json());
    Things {
        run,
        webhook: webhook.as_str().unwrap().to_owned(),
        commitment: commitment.json()["id"].as_str().unwrap().to_owned(),
    }
}

impl Things {
    fn fill(&self, template: &str) -> String {
        template
            .replace("{runId}", &self.run)
            .replace("{webhookId}", &self.webhook)
            .replace("{commitmentId}", &self.commitment)
            .replace("{memoryRef}", "m")
            .replace("{world}", "w")
            .replace("{heartbeatId}", "h")
            .replace("{path}", "a.md")
            .replace("{sequence}", "1")
    }
}

fn is_integer(schema: &Value) -> bool {
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "integer"),
        kind => kind == "integer",
    }
}

/// Every number of a request that the document names.
fn numbers(document: &Value) -> Vec<Number> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let mut add = |place, name: &str, schema: &Value| {
                found.push(Number {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    place,
                    name: name.to_owned(),
                    schema: schema.clone(),
                });
            };
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                if is_integer(&parameter["schema"]) {
                    let place = match parameter["in"].as_str().unwrap() {
                        "path" => Place::Path,
                        "query" => Place::Query,
                        place => panic!("a number in a {place}"),
                    };
                    add(place, name, &parameter["schema"]);
                }
            }
            let content = &operation["requestBody"]["content"]["application/json"];
            let reference = content["schema"]["$ref"].as_str().unwrap_or("#");
            let schema = document.pointer(&reference[1..]).unwrap();
            let fields = schema["properties"].as_object();
            for (name, inner) in fields.into_iter().flatten() {
                if is_integer(inner) {
                    add(Place::Body(content["example"].clone()), name, inner);
                }
            }
        }
    }
    found
}

impl Number {
    /// The status of a request with this number, and its body.
    async fn sent(&self, host: &TestServer, things: &Things, number: &str) -> (u16, String) {
        let (path, body) = match &self.place {
            Place::Path => {
                let path = self.path.replace(&format!("{{{}}}", self.name), number);
                (things.fill(&path), String::new())
            }
            Place::Query => {
                let path = things.fill(&self.path);
                (format!("{path}?{}={number}", self.name), String::new())
            }
            Place::Body(example) => {
                let mut fields: Map<_, _> = example.as_object().cloned().unwrap_or_default();
                fields.remove(&self.name);
                let rest = Value::Object(fields).to_string();
                let comma = if rest == "{}" { "" } else { ", " };
                let body = format!("{{\"{}\": {number}{comma}{}", self.name, &rest[1..]);
                (things.fill(&self.path), body)
            }
        };
        let answer = host.call("key-of-a", &self.method, &path, &[], body).await;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        (answer.status.as_u16(), text)
    }
}

#[tokio::test]
async fn numbers_outside_their_type_give_400_and_beyond_a_limit_422() {
    let host = TestServer::new().await;
    let things = things(&host).await;
    let document = host.get("/v1/openapi.json").await.json();
    let numbers = numbers(&document);
    let mut wrong = Vec::new();
    for number in &numbers {
        let place = format!("{} {} {}", number.method, number.path, number.name);
        let mut expect = |sent: &str, status: u16, answer: (u16, String)| {
            if answer.0 != status {
                wrong.push(format!("{place}={sent}: {answer:?} instead of {status}"));
            }
        };
        for never in NEVER {
            expect(never, 400, number.sent(&host, &things, never).await);
        }
        let Some(most) = number.schema["maximum"].as_u64() else {
            wrong.push(format!("{place} has no maximum"));
            continue;
        };
        let beyond = (most + 1).to_string();
        let status = if TYPE_MAX.contains(&most) { 400 } else { 422 };
        expect(&beyond, status, number.sent(&host, &things, &beyond).await);
        // It is not the number that is at fault here, if anything is.
        let (status, text) = number.sent(&host, &things, &most.to_string()).await;
        let is_named = text.contains(&format!("\"{}\"", number.name));
        if status >= 500 || status == 400 || status == 422 && is_named {
            wrong.push(format!("{place}={most}: {status} {text}"));
        }
    }
    assert!(
        numbers.len() >= 28,
        "the walk found {} numbers",
        numbers.len()
    );
    assert!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        numbers.len()
    );
}

/// Positions that a caller may also give as a word are text in the document.
#[tokio::test]
async fn a_position_beyond_the_store_range_is_400() {
    let host = TestServer::new().await;
    let things = things(&host).await;
    let stream = ("accept", "text/event-stream");
    let events = format!("{BASE}/events");
    let run = format!("/v1/runs/{}/events", things.run);
    for beyond in ["9223372036854775808", "18446744073709551615"] {
        for (path, headers) in [
            (format!("{events}?after={beyond}"), vec![]),
            (format!("{BASE}/memory/m/stats?atLeast={beyond}"), vec![]),
            (events.clone(), vec![stream, ("last-event-id", beyond)]),
            (run.clone(), vec![stream, ("last-event-id", beyond)]),
        ] {
            let answer = host.call("key-of-a", "GET", &path, &headers, "").await;
            assert_eq!(answer.status, 400, "{path} {headers:?}: {}", answer.json());
            assert!(!answer.json().to_string().contains(beyond));
        }
    }
    let word = host.get(&format!("{events}?after=soon")).await;
    assert_eq!(word.status, 422, "{}", word.json());
    let last = host
        .get(&format!("{events}?after=9223372036854775807"))
        .await;
    assert_eq!(last.status, 200, "{}", last.json());
}
