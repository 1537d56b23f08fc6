//! Proves that a secret leaves no trace, wherever a caller puts it: not in an answer, the database,
//! the journal, the event feed, the log at its most talkative, the metrics, or an export. Where
//! text was stored, a marker is in its place.
//!
//! Registered secrets of different kinds and unregistered ones of well-known shapes are planted
//! everywhere a request, an MCP call or an import can carry text. An ordinary word takes the same
//! way, to prove that the search would find it.

use crate::common;
use crate::common::client::{BASE, HttpAnswer, encode, finish};
use crate::common::{Client, ServerProcess, files, place, remem, run, run_with_input};
use remem_testkit::wait_until;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const MEMORY: &str = "vault/agent";
/// The memory that passes work over.
const WORKED: &str = "vault/passes";
/// An ordinary word for the positive control.
const WORD: &str = "Marmaladequartz";

/// Something that must not be seen anywhere.
struct PlantedSecret {
    /// The secret as a caller would paste it.
    text: String,
    /// The parts of it that reveal it.
    telling: Vec<String>,
    /// The text that a redaction marker must hold.
    marker: &'static str,
    registered: bool,
}

fn secret(text: &str, telling: &[&str], marker: &'static str, registered: bool) -> PlantedSecret {
    PlantedSecret {
        text: text.to_owned(),
        telling: telling.iter().map(|t| (*t).to_owned()).collect(),
        marker,
        registered,
    }
}

/// Put together here, so that this file does not itself look like a leak.
fn secrets() -> Vec<PlantedSecret> {
    let aws = format!("{}{}", "AKIA", "Z7QW3E5RT2YU4IOP");
    let github = format!("{}{}", "ghp_", "k8Jm2Qx7Lp4Rv9Tz1Wb6Yc3Nd5Fg0Hs8Ju2A");
    let lines = [
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj",
        "AgEAAoIBAQC7VJTUt9Us8cKjMzEfYyjiWA4R4yRz",
    ];
    let pem = format!(
        "-----BEGIN {0}-----\n{1}\n{2}\n-----END {0}-----",
        "PRIVATE KEY", lines[0], lines[1]
    );
    let password = "tR7uL0qvXn3";
    let url = format!("postgres://app:{password}@db.internal:5432/main");
    vec![
        secret(
            "plum-harbour/Velvet_Anchor+19",
            &["plum-harbour/Velvet", "Velvet_Anchor", "velvet_anchor"],
            "[REDACTED:db-password]",
            true,
        ),
        secret(
            "c0ffee5eed1a2b3c4d5e6f708192a3b4",
            &["c0ffee5eed1a2b3c4d5e6f708192a3b4"],
            "[REDACTED:signing/key.1]",
            true,
        ),
        secret(
            "73905182640017",
            &["73905182640017"],
            "[REDACTED:pin]",
            true,
        ),
        secret(
            &aws,
            &[&aws, &aws.to_lowercase()],
            "[REDACTED:shape-aws-access-key-id]",
            false,
        ),
        secret(
            &github,
            &[&github, &github.to_lowercase()],
            "[REDACTED:shape-github-token]",
            false,
        ),
        secret(&pem, &lines, "[REDACTED:shape-private-key]", false),
        secret(
            &url,
            &[password, &password.to_lowercase()],
            "[REDACTED:shape-url-password]",
            false,
        ),
    ]
}

/// Every way a telling part could be spelled by accident.
fn needles(secrets: &[PlantedSecret]) -> Vec<String> {
    let telling = secrets.iter().flat_map(|s| &s.telling);
    telling
        .flat_map(|t| {
            [
                t.clone(),
                t.to_lowercase(),
                encode(t),
                t.replace('/', "\\/"),
            ]
        })
        .collect()
}

/// Every text that came back from the host, with a description of the request.
#[derive(Default)]
pub(crate) struct HostOutput(Vec<(String, String)>);

impl HostOutput {
    pub(crate) fn add(&mut self, place: &str, text: String) {
        self.0.push((place.to_owned(), text));
    }

    /// Sends a request and keeps what comes back. `None` for one that HTTP has no form for, such as
    /// a header of two lines.
    pub(crate) async fn send(
        &mut self,
        place: &str,
        request: reqwest::RequestBuilder,
    ) -> Option<HttpAnswer> {
        let (client, request) = request.build_split();
        let answer = finish(reqwest::RequestBuilder::from_parts(client, request.ok()?)).await;
        let answer = answer.unwrap_or_else(|e| panic!("{place}: {e}"));
        assert_ne!(answer.status, 500, "{place}: {}", answer.text);
        self.add(place, answer.everything());
        Some(answer)
    }

    /// Returns all leaks at once, so that one leak does not hide another.
    pub(crate) fn leaks(&self, needles: &[String]) -> Vec<String> {
        let found = |place: &str, text: &str| {
            let in_it = needles
                .iter()
                .filter(|needle| text.contains(needle.as_str()));
            in_it
                .map(|needle| format!("{needle:?} in {place}"))
                .collect::<Vec<_>>()
        };
        self.0
            .iter()
            .flat_map(|(place, text)| found(place, text))
            .collect()
    }
}

/// Plants the secret where text is meant to be stored: content, tags, metadata (names and values,
/// nested, as a number), one by one, in a batch, as an import, and through MCP.
async fn plant_stored(seen: &mut HostOutput, client: &Client, text: &str) {
    let line = text.replace('\n', " ");
    let number: Value = text
        .parse::<u64>()
        .map_or_else(|_| json!(text), |n| json!(n));
    let entry = json!({
        "content": format!("Remember: {text} is the one."),
        "tags": ["plain", line],
        "metadata": {"value": text, (text): "named", "deep": [{"list": [text], "number": number}]},
    });
    let path = |rest: &str| Client::memory(MEMORY, rest);
    let stored = seen
        .send(
            "put",
            client.request(Method::POST, &path("entries")).json(&entry),
        )
        .await
        .unwrap()
        .is(201)
        .json();
    let alone = json!({"content": text});
    let batch = json!({"entries": [entry, alone]});
    seen.send(
        "batch",
        client
            .request(Method::POST, &path("entries:batch"))
            .json(&batch),
    )
    .await
    .unwrap()
    .is(201);
    let mut import = entry.clone();
    import["id"] = json!(format!("imported-{}", text.len()));
    let import = json!({"entries": [import]});
    seen.send(
        "import",
        client
            .request(Method::POST, &path("entries:import"))
            .json(&import),
    )
    .await
    .unwrap()
    .is(200);
    let mut arguments = entry;
    arguments["memoryRef"] = json!(MEMORY);
    seen.send("MCP put", tool(client, "memory_put", &arguments))
        .await
        .unwrap()
        .is(200);
    let one = path(&format!("entries/{}", stored["id"].as_str().unwrap()));
    seen.send("get", client.request(Method::GET, &one))
        .await
        .unwrap()
        .is(200);
    seen.send(
        "metadata",
        client.request(Method::GET, &format!("{one}/metadata")),
    )
    .await
    .unwrap()
    .is(200);
}

/// Plants the secret in paths and query strings.
async fn plant_in_addresses(seen: &mut HostOutput, client: &Client, text: &str) {
    let code = encode(text);
    let entries = Client::memory(MEMORY, "entries");
    let entry = Client::memory(MEMORY, &format!("entries/{code}"));
    let memory = format!("{BASE}/memory/{code}");
    let gets = [
        entry.clone(),
        format!("{entry}/metadata"),
        format!("{memory}/entries"),
        format!("{memory}/entries/mem_1"),
        format!("{memory}/stats"),
        format!("{entries}?tag={code}"),
        format!("{entries}?cursor={code}"),
        format!("{entries}?atLeast={code}"),
        format!("{entries}?include={code}"),
        format!("{entries}?limit={code}"),
        format!("{entries}?tokenBudget=9&rank={code}"),
        format!("{entries}?tokenBudget=9&rank=relevance&query={code}"),
        format!("{entries}?{code}=1"),
        format!("{BASE}/memory?after={code}"),
        format!("{BASE}/events?after=x{code}"),
        format!("{BASE}/keys?tenant={code}"),
        format!("{BASE}/{code}"),
        format!("/{code}"),
    ];
    for path in gets {
        seen.send(&format!("GET {path}"), client.request(Method::GET, &path))
            .await
            .unwrap();
    }
    for path in [entry, format!("{BASE}/keys/{code}")] {
        seen.send(
            &format!("DELETE {path}"),
            client.request(Method::DELETE, &path),
        )
        .await
        .unwrap()
        .is(404);
    }
    let body = json!({"content": "harmless", "query": "harmless"});
    for path in [
        format!("{memory}/entries"),
        format!("{memory}/search"),
        format!("{BASE}/passes/{code}/run"),
        format!("/{code}"),
    ] {
        let answer = seen
            .send(
                &format!("POST {path}"),
                client.request(Method::POST, &path).json(&body),
            )
            .await
            .unwrap();
        assert!(
            answer.status >= 400,
            "a write into a memory named like a secret is refused: {path}"
        );
    }
}

/// Headers, with the right key and with a wrong one that is the secret.
async fn plant_in_headers(seen: &mut HostOutput, client: &Client, text: &str) {
    let path = Client::memory(MEMORY, "entries");
    let keyed = client
        .request(Method::POST, &path)
        .json(&json!({"content": format!("harmless {}", text.len())}));
    seen.send("Idempotency-Key", keyed.header("idempotency-key", text))
        .await;
    for header in [
        "x-request-id",
        "x-whatever",
        "traceparent",
        "user-agent",
        "cookie",
        "accept",
        "content-type",
        "if-none-match",
    ] {
        seen.send(
            header,
            client
                .request(Method::POST, &path)
                .header(header, text)
                .body("{}"),
        )
        .await;
    }
    let events = client
        .request(Method::GET, &format!("{BASE}/events"))
        .header("accept", "text/event-stream");
    seen.send(
        "Last-Event-ID",
        events.header("last-event-id", format!("x{text}")),
    )
    .await;
    for value in [
        format!("Bearer {text}"),
        format!("Basic {text}"),
        text.to_owned(),
    ] {
        for path in [path.as_str(), "/metrics", "/mcp"] {
            let answer = seen
                .send(
                    "Authorization",
                    client
                        .anonymous(Method::GET, path)
                        .header("authorization", &value),
                )
                .await;
            assert!(answer.is_none_or(|a| a.status == 401));
        }
    }
    let listing = rpc(client, &call("tools/list", &json!({})));
    seen.send(
        "MCP-Protocol-Version",
        listing.header("mcp-protocol-version", text),
    )
    .await;
}

/// Bodies that are refused, and searches.
async fn plant_in_bodies(seen: &mut HostOutput, client: &Client, text: &str) {
    let quoted = json!(text).to_string();
    let bodies = [
        text.to_owned(),
        quoted.clone(),
        format!("{{\"content\": {quoted}"),
        format!("{{\"content\": {quoted}}} {text}"),
        format!("{{{quoted}: 1}}"),
        format!("{{\"content\": {{{quoted}: 1}}}}"),
        format!("{{\"content\": \"x\", \"tags\": {quoted}}}"),
        format!("{{\"content\": \"x\", \"expiresAt\": {quoted}}}"),
        format!("{{\"content\": \"x\", \"metadata\": {quoted}}}"),
        format!("{{\"content\": \"\", \"tags\": [{quoted}]}}"),
        format!("{{\"entries\": {quoted}}}"),
        format!("{{\"entries\": [{{\"id\": {quoted}, \"content\": \"x\"}}]}}"),
        format!("{{\"query\": {quoted}, \"mode\": {quoted}}}"),
        format!("{{\"query\": \"x\", \"limit\": {quoted}}}"),
        format!("{{\"query\": \"x\", \"createdFrom\": {quoted}}}"),
        format!("{{\"query\": \"x\", \"atLeast\": {quoted}}}"),
        format!("{{\"query\": \"x\", \"time\": {quoted}, \"tokenBudget\": {quoted}}}"),
        format!("{{\"id\": {quoted}, \"shapes\": {quoted}}}"),
        format!("{{\"scopes\": [{quoted}]}}"),
        format!("{{\"dryRun\": {quoted}}}"),
    ];
    let paths = [
        "entries",
        "entries:batch",
        "entries:import",
        "search",
        "recall",
    ]
    .map(|rest| Client::memory(MEMORY, rest));
    let others = ["tenants", "keys", "passes/purge/run"].map(|rest| format!("{BASE}/{rest}"));
    for path in paths.into_iter().chain(others) {
        for body in &bodies {
            let place = format!("POST {path} with a body that is refused");
            let answer = seen
                .send(
                    &place,
                    client.request(Method::POST, &path).body(body.clone()),
                )
                .await
                .unwrap();
            assert!(answer.status >= 400, "{path} takes {body}: {}", answer.text);
        }
    }
    for search in [
        json!({"query": text}),
        json!({"query": "harmless", "tags": [text]}),
    ] {
        for operation in ["search", "recall"] {
            let request = client
                .request(Method::POST, &Client::memory(MEMORY, operation))
                .json(&search);
            seen.send(operation, request).await.unwrap().is(200);
        }
    }
}

fn call(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn rpc(client: &Client, message: &Value) -> reqwest::RequestBuilder {
    client
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream")
        .json(message)
}

fn tool(client: &Client, name: &str, arguments: &Value) -> reqwest::RequestBuilder {
    rpc(
        client,
        &call("tools/call", &json!({"name": name, "arguments": arguments})),
    )
}

/// Arguments of MCP tools, and what surrounds them.
async fn plant_in_mcp(seen: &mut HostOutput, client: &Client, text: &str) {
    let tools = [
        "memory_put",
        "memory_get",
        "memory_list",
        "memory_search",
        "memory_recall",
        "memory_delete",
        "memory_stats",
    ];
    for name in tools {
        let full = json!({"memoryRef": text, "content": "x", "id": text, "query": text});
        let arguments = [
            json!({"memoryRef": text}),
            json!({"memoryRef": MEMORY, "id": text}),
            json!({"memoryRef": MEMORY, "content": "harmless", "idempotencyKey": text}),
            json!({"memoryRef": MEMORY, "content": "harmless", "expiresAt": text}),
            json!({"memoryRef": MEMORY, "content": {(text): text}}),
            json!({"memoryRef": MEMORY, "query": text, "limit": text}),
            json!({"memoryRef": MEMORY, "tag": text, "cursor": text, "atLeast": text}),
            json!({"memoryRef": MEMORY, "content": "harmless", (text): 1}),
            json!([text]),
            full,
        ];
        for argument in &arguments {
            seen.send(&format!("MCP {name}"), tool(client, name, argument))
                .await
                .unwrap();
        }
    }
    let about = json!({"protocolVersion": text, "capabilities": {}, "clientInfo": {"name": text, "version": text}});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": text}});
    for (place, message) in [
        ("MCP initialize", call("initialize", &about)),
        (
            "MCP unknown tool",
            call("tools/call", &json!({"name": text, "arguments": {}})),
        ),
        ("MCP unknown method", call(text, &json!({}))),
        (
            "MCP resource",
            call("resources/read", &json!({"uri": text})),
        ),
        (
            "MCP parameters of the wrong type",
            call("tools/call", &json!(text)),
        ),
        ("MCP notification", cancelled),
        ("MCP no message", json!({"jsonrpc": text, "method": [text]})),
    ] {
        seen.send(place, rpc(client, &message)).await.unwrap();
    }
    let raw = client
        .request(Method::POST, "/mcp")
        .header("content-type", "application/json")
        .body(text.to_owned());
    seen.send(
        "MCP body",
        raw.header("accept", "application/json, text/event-stream"),
    )
    .await
    .unwrap();
}

/// Lines of an import: good ones, ones with a bad name, ones that are not JSON.
fn plant_in_import(seen: &mut HostOutput, server: &ServerProcess, secret: &str) {
    let lines = [
        json!({"memoryRef": "vault/import", "content": secret, "tags": [secret.replace('\n', " ")], "metadata": {(secret): secret}})
            .to_string(),
        json!({"memoryRef": secret, "content": "harmless"}).to_string(),
        json!({"memoryRef": "vault/import", "id": secret, "content": "harmless"}).to_string(),
        json!({"memoryRef": "vault/import", "content": "harmless", (secret): 1}).to_string(),
        json!({"memoryRef": "vault/import", "content": "harmless", "createdAt": secret}).to_string(),
        secret.replace('\n', " "),
    ];
    let mut command = remem();
    command.args(["--url", &server.url, "--key", common::KEY, "import", "-"]);
    let ran = run_with_input(&mut command, &lines.join("\n")).exits(1);
    assert!(ran.stdout.contains("6 lines: 1 imported"), "{}", ran.stdout);
    seen.add("output of import", format!("{}{}", ran.stdout, ran.stderr));
}

/// Plants the secret where the requests of passes, jobs and schedules take text.
async fn plant_in_passes(seen: &mut HostOutput, client: &Client, text: &str) {
    let code = encode(text);
    for name in ["consolidate", "compact", "distill"] {
        for body in [
            json!({"memoryRef": text}),
            json!({"memoryRef": WORKED, "options": {(text): 1}}),
            json!({"memoryRef": WORKED, "options": {"include": text, "tokenBudget": text, "sources": text}}),
            json!({"memoryRef": WORKED, "dryRun": text}),
            json!({(text): text}),
        ] {
            let place = format!("run of {name} that is refused");
            let answer = seen
                .send(
                    &place,
                    client
                        .request(Method::POST, &format!("{BASE}/passes/{name}/run"))
                        .json(&body),
                )
                .await
                .unwrap();
            assert!(answer.status >= 400, "{name} takes {body}: {}", answer.text);
        }
        for body in [
            json!({"every": text}),
            json!({"cron": text}),
            json!({"every": "P1D", "zone": text}),
            json!({(text): 1}),
        ] {
            let path = format!("{BASE}/passes/{name}/schedule?memoryRef={WORKED}");
            let answer = seen
                .send(
                    "schedule that is refused",
                    client.request(Method::PUT, &path).json(&body),
                )
                .await
                .unwrap();
            assert!(
                answer.status >= 400,
                "{name} is scheduled by {body}: {}",
                answer.text
            );
        }
        let path = format!("{BASE}/passes/{name}/schedule?memoryRef={code}");
        seen.send(
            "schedule of a memory",
            client
                .request(Method::PUT, &path)
                .json(&json!({"every": "P1D"})),
        )
        .await
        .unwrap();
    }
    for path in [
        format!("jobs/{code}"),
        format!("jobs?after={code}"),
        format!("jobs?state={code}"),
        format!("jobs?pass={code}"),
    ] {
        seen.send(
            "jobs",
            client.request(Method::GET, &format!("{BASE}/{path}")),
        )
        .await
        .unwrap();
    }
    seen.send(
        "cancel",
        client.request(Method::POST, &format!("{BASE}/jobs/{code}/cancel")),
    )
    .await
    .unwrap();
}

/// Texts for passes: one that says something, the same in nearly the same words, and another.
async fn plant_for_passes(seen: &mut HostOutput, client: &Client, n: usize, text: &str) {
    let texts = [
        format!(
            "The gateway of region {n} was reached with {text} during the rehearsal of the move."
        ),
        format!(
            "The gateway of region {n} was reached with {text} during the rehearsal of the move!"
        ),
        format!("Whoever opens depot {n} needs {text} and a lamp."),
    ];
    for content in texts {
        let entry = json!({"content": content, "metadata": {"note": text}});
        seen.send(
            "put",
            client
                .request(Method::POST, &Client::memory(WORKED, "entries"))
                .json(&entry),
        )
        .await
        .unwrap()
        .is(201);
    }
}

/// Runs a pass to its end; answers the job.
async fn work(seen: &mut HostOutput, client: &Client, name: &str, options: Value) -> Value {
    let body = json!({"memoryRef": WORKED, "options": options});
    let run = client.request(Method::POST, &format!("{BASE}/passes/{name}/run"));
    let mut job = seen
        .send(&format!("run of {name}"), run.json(&body))
        .await
        .unwrap()
        .is(202)
        .json();
    let path = format!("{BASE}/jobs/{}", job["id"].as_str().unwrap());
    wait_until(&format!("the job of {name} ends"), || async {
        client.get(&path).await.json()["endedAt"].is_string()
    })
    .await;
    let ended = client.request(Method::GET, &path);
    job = seen
        .send(&format!("job of {name}"), ended)
        .await
        .unwrap()
        .is(200)
        .json();
    assert_eq!(job["state"], "done", "{job}");
    assert_ne!(job["changed"], 0, "{name} had something to do: {job}");
    job
}

/// Every pass over the memory for them, and what each leaves behind. Answers the text of the
/// digests.
async fn run_passes(seen: &mut HostOutput, client: &Client) -> Vec<String> {
    let distilled = work(seen, client, "distill", json!({"markdown": true})).await;
    work(seen, client, "consolidate", json!({})).await;
    let compacted = work(seen, client, "compact", json!({"include": "all"})).await;
    let mut digests = Vec::new();
    for id in [
        &distilled["detail"]["outputId"],
        &compacted["detail"]["outputs"][0]["outputId"],
    ] {
        let path = Client::memory(WORKED, &format!("entries/{}", id.as_str().unwrap()));
        let digest = seen
            .send("digest", client.request(Method::GET, &path))
            .await
            .unwrap()
            .is(200)
            .json();
        digests.push(digest["content"].as_str().unwrap().to_owned());
    }
    for path in [
        "/v1/host/workspace/files/MEMORY-INDEX.json",
        "/v1/host/workspace/files/MEMORY-INDEX.md",
    ] {
        seen.send("index", client.request(Method::GET, path))
            .await
            .unwrap()
            .is(200);
    }
    for path in ["jobs", "schedules", "passes", "model-calls"] {
        seen.send(path, client.request(Method::GET, &format!("{BASE}/{path}")))
            .await
            .unwrap()
            .is(200);
    }
    digests
}

/// Everything that can be read back.
async fn read_everything(seen: &mut HostOutput, server: &ServerProcess) {
    let client = server.client();
    for memory in [MEMORY, WORKED, "vault/import"] {
        seen.send(
            "list",
            client.request(
                Method::GET,
                &Client::memory(memory, "entries?limit=0&include=metadata"),
            ),
        )
        .await
        .unwrap()
        .is(200);
        let search = json!({"query": "remember one harmless plain redacted", "limit": 0});
        seen.send(
            "search",
            client
                .request(Method::POST, &Client::memory(memory, "search"))
                .json(&search),
        )
        .await
        .unwrap()
        .is(200);
    }
    for path in [
        "memory",
        "events",
        "keys",
        "tenants",
        "passes",
        "jobs",
        "schedules",
    ] {
        seen.send(path, client.request(Method::GET, &format!("{BASE}/{path}")))
            .await
            .unwrap()
            .is(200);
    }
    let metrics = seen
        .send("metrics", client.request(Method::GET, "/metrics"))
        .await
        .unwrap()
        .is(200);
    assert!(metrics.text.contains("remem_http_requests_total"));
    let newest = client.events_after(0).await.len() as u64;
    let mut stream = client.stream(0).await;
    while stream
        .next(Duration::from_secs(10))
        .await
        .expect("the stream goes on")
        .id
        < newest
    {}
    seen.add("event stream", String::from_utf8(stream.raw).unwrap());
    for command in [
        &["export"][..],
        &["list", MEMORY, "--limit", "0"],
        &["search", MEMORY, "harmless"],
        &["memories"],
        &["pass", "jobs"],
        &["pass", "status"],
        &["events", "tail", "--no-follow", "-n", "10000"],
    ] {
        let ran = run(remem()
            .args(["--url", &server.url, "--key", common::KEY])
            .args(command))
        .exits(0);
        seen.add(
            &format!("output of {command:?}"),
            format!("{}{}", ran.stdout, ran.stderr),
        );
    }
}

fn write_secrets_file(path: &Path, secrets: &[PlantedSecret]) {
    let line = |s: &PlantedSecret| {
        json!({"secretId": s.marker.trim_start_matches("[REDACTED:").trim_end_matches(']'), "secret": s.text}).to_string()
    };
    let lines: Vec<String> = secrets.iter().filter(|s| s.registered).map(line).collect();
    assert_eq!(lines.len(), 3);
    std::fs::write(path, lines.join("\n")).unwrap();
}

async fn no_trace_is_left(log_format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let secrets = secrets();
    let mut seen = HostOutput::default();
    let dir = folder.path().join("data");
    let file = folder.path().join("secrets.jsonl");
    write_secrets_file(&file, &secrets);
    let environment = [
        ("REMEM_LOG__LEVEL", "trace"),
        ("REMEM_LOG__FORMAT", log_format),
    ];
    let mut server = ServerProcess::start_with(
        &dir,
        &["--secrets-file", file.to_str().unwrap()],
        &environment,
    );
    let client = server.client();
    for (n, text) in secrets.iter().map(|s| s.text.as_str()).enumerate() {
        plant_stored(&mut seen, &client, text).await;
        plant_in_addresses(&mut seen, &client, text).await;
        plant_in_headers(&mut seen, &client, text).await;
        plant_in_bodies(&mut seen, &client, text).await;
        plant_in_mcp(&mut seen, &client, text).await;
        plant_in_import(&mut seen, &server, text);
        plant_in_passes(&mut seen, &client, text).await;
        plant_for_passes(&mut seen, &client, n, text).await;
    }
    let digests = run_passes(&mut seen, &client).await;
    let shown = |digest: &str| {
        secrets
            .iter()
            .filter(|secret| digest.contains(secret.marker))
            .count()
    };
    assert_eq!(
        shown(&digests[0]),
        secrets.len(),
        "a digest with room for everything shows where something stood: {}",
        digests[0]
    );
    assert!(
        shown(&digests[1]) >= 2,
        "one of half of it shows some: {}",
        digests[1]
    );
    read_everything(&mut seen, &server).await;
    let export = seen
        .0
        .iter()
        .find(|(place, _)| place.contains("export"))
        .unwrap()
        .1
        .clone();
    for secret in &secrets {
        let count = export.matches(secret.marker).count();
        assert!(
            count >= 10,
            "{} stands where the text was: {count} times",
            secret.marker
        );
    }
    for (path, text) in place::stored(&dir) {
        seen.add(&format!("running {}", path.display()), text);
    }
    server.terminate();
    for (path, text) in place::stored(&dir) {
        seen.add(&format!("stopped {}", path.display()), text);
    }
    assert!(
        server.output().lines().count() > 500,
        "the log is as talkative as it can be"
    );
    for (n, line) in server.output().lines().enumerate() {
        seen.add(
            &format!(
                "log line {n}: {}",
                line.chars().take(160).collect::<String>()
            ),
            line.to_owned(),
        );
    }
    let leaks = seen.leaks(&needles(&secrets));
    assert!(
        leaks.is_empty(),
        "{} leaks in {} places looked at:\n{}",
        leaks.len(),
        seen.0.len(),
        summary(&leaks)
    );
}

/// One line for each kind of place, so that a broad leak does not bury a narrow one.
fn summary(leaks: &[String]) -> String {
    let mut kinds = BTreeMap::new();
    for leak in leaks {
        let place = leak.split_once(" in ").map_or("", |(_, place)| place);
        let kind: String = place
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .take(80)
            .collect();
        kinds.entry(kind).or_insert(leak.as_str());
    }
    kinds.into_values().take(60).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_leaves_no_trace_with_a_text_log() {
    no_trace_is_left("text").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_leaves_no_trace_with_a_json_log() {
    no_trace_is_left("json").await;
}

/// The control: an ordinary word takes the same way and is found where it belongs, and nowhere
/// else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ordinary_word_is_found_in_the_database_and_never_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = HostOutput::default();
    let server = ServerProcess::start_with(folder.path(), &[], &[("REMEM_LOG__LEVEL", "trace")]);
    let client = server.client();
    plant_stored(&mut seen, &client, WORD).await;
    plant_for_passes(&mut seen, &client, 1, WORD).await;
    assert!(
        run_passes(&mut seen, &client)
            .await
            .iter()
            .all(|digest| digest.contains(WORD)),
        "digests are made of what was stored"
    );
    assert!(
        seen.0
            .iter()
            .any(|(place, text)| place == "index"
                && text.to_lowercase().contains(&WORD.to_lowercase())),
        "and the index"
    );
    let words = [WORD.to_owned(), WORD.to_lowercase()];
    assert!(
        seen.leaks(&words).len() >= 5,
        "answers show what was stored"
    );
    // On PostgreSQL the index holds digests of words, so only the text itself is there.
    let kept = if place::is_postgres() {
        &words[..1]
    } else {
        &words[..]
    };
    for word in kept {
        let found = files::find_in(&place::stored(folder.path()), [word]);
        assert!(
            !found.is_empty(),
            "{word} is in the files, as text and in the index"
        );
    }
    for word in ["Aniseedpath", "Aniseedheader", "Aniseedbody"] {
        let entry = Client::memory(&format!("{word}Ref"), &format!("entries/{word}"));
        seen.send(
            "path",
            client.request(Method::GET, &format!("{entry}?{word}=1")),
        )
        .await
        .unwrap()
        .is(400);
        seen.send(
            "path",
            client.request(Method::GET, &format!("{entry}?atLeast=0")),
        )
        .await
        .unwrap()
        .is(404);
        seen.send(
            "header",
            client
                .request(Method::GET, "/health")
                .header("x-request-id", word),
        )
        .await
        .unwrap()
        .is(200);
        seen.send("body", client.request(Method::POST, &entry).body(word))
            .await
            .unwrap();
    }
    let log = server.output();
    assert!(
        log.contains("/v1/host/remembrancer/memory/{memoryRef}/entries"),
        "requests are logged by their route"
    );
    for word in [WORD, "Aniseed"] {
        let line = log.lines().find(|line| line.contains(word));
        assert!(
            line.is_none(),
            "the log holds what a caller sent: {}",
            line.unwrap_or_default()
        );
    }
    assert!(
        files::find_in(&place::stored(folder.path()), [&"Aniseed".to_owned()]).is_empty(),
        "reading stores nothing"
    );
}
