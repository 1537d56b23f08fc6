//! Two operators of one tenant: what is in Ada's own memory changes no answer that Bob gets to any
//! request (INV-10, INV-14).
//!
//! Two hosts are made alike; on one of them Ada fills a memory of her own through every feature.
//! Then Bob tries every operation of the OpenAPI document with the names of what is hers, on both,
//! and gets the same bytes. An operation that is in neither table fails the test.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use remem_core::{Admission, Batch, Policy, Precondition, RecordKind, Redactor, TenantId};
use remem_engine::ports::{Ids, WebhookError};
use remem_engine::registry::{self, PassMode};
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestResponse, TestServer, wait_until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tower::ServiceExt;

const BASE: &str = "/v1/host/remembrancer";
const OWN: &str = "~%2Fops";
/// A word that is in everything that Ada writes, and in nothing else.
const CANARY: &str = "quetzal";
/// The start of the names of Ada's memories, which is in nothing that Bob may see.
const HERS: &str = "~ada";

/// The names and ids of Ada's data, by their placeholder in a path or a body.
type Names = BTreeMap<&'static str, String>;

/// Operations that Bob tries, and how: path and body. `{…}` is filled in with what is Ada's.
const TRIED: &[(&str, &[(&str, &str)])] = &[
    (
        "GET /v1/host/remembrancer/memory",
        &[
            ("?limit=1", ""),
            ("?after={memory}", ""),
            ("?after={hash}&limit=1", ""),
        ],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/entries",
        &[
            ("", ""),
            ("?limit=1&include=metadata", ""),
            ("?tokenBudget=400", ""),
        ],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/entries",
        &[("", r#"{"content": "x"}"#), ("#k", r#"{"content": "x"}"#)],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/entries:batch",
        &[("", r#"{"entries": [{"content": "x"}]}"#)],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/entries:import",
        &[("", r#"{"entries": [{"id": "{entry}", "content": "x"}]}"#)],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/entries/{id}",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/entries/{id}/metadata",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/entries/{id}/lineage",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/entries/{id}/audit",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/entries/{id}/links",
        &[("", r#"{"action": "act", "reference": "r-1"}"#)],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/slots/{slot}",
        &[("", "")],
    ),
    (
        "DELETE /v1/host/remembrancer/memory/{memoryRef}/slots/{slot}",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/sessions",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/interactions/{interaction}/close",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/sessions/close",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/retention",
        &[("", ""), ("?memoryRef={memory}", "")],
    ),
    (
        "DELETE /v1/host/remembrancer/memory/{memoryRef}/entries/{id}",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/search",
        &[
            ("", r#"{"query": "quetzal"}"#),
            ("", r#"{"query": "kettle", "limit": 0}"#),
            (
                "",
                r#"{"query": "quetzal last week", "time": "filter", "explain": true, "neighbours": 2}"#,
            ),
        ],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/recall",
        &[
            ("", r#"{"query": "quetzal"}"#),
            (
                "",
                r#"{"query": "kettle", "tokenBudget": 4000, "abstain": false}"#,
            ),
        ],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/stats",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/archives",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/archives/{sha256}",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/memory/{memoryRef}/commitment-rules",
        &[("", "")],
    ),
    (
        "PUT /v1/host/remembrancer/memory/{memoryRef}/commitment-rules",
        &[("", r#"{"arm": "off"}"#)],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/commitments",
        &[("", r#"{"text": "Water the plants.", "at": 1700086400000}"#)],
    ),
    (
        "POST /v1/host/remembrancer/memory/{memoryRef}/observations",
        &[("", r#"{"key": "the invoice has cleared", "value": true}"#)],
    ),
    (
        "GET /v1/host/remembrancer/events",
        &[("", ""), ("?limit=2", ""), ("?after=3&limit=1", "")],
    ),
    ("GET /v1/host/remembrancer/commitment-rules", &[("", "")]),
    (
        "GET /v1/host/remembrancer/commitments",
        &[
            ("", ""),
            ("?memoryRef={memory}", ""),
            ("?limit=1", ""),
            ("?state=armed", ""),
        ],
    ),
    (
        "GET /v1/host/remembrancer/commitments/{commitmentId}",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/commitments/{commitmentId}/explain",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/commitments/{commitmentId}/fires",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/commitments/{commitmentId}/confirm",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/commitments/{commitmentId}/cancel",
        &[("", "")],
    ),
    (
        "POST /v1/host/remembrancer/commitments/{commitmentId}/snooze",
        &[("", r#"{"until": 1700086400000}"#)],
    ),
    ("GET /v1/host/remembrancer/heartbeats", &[("", "")]),
    (
        "GET /v1/host/remembrancer/heartbeats/{heartbeatId}",
        &[("", "")],
    ),
    (
        "PUT /v1/host/remembrancer/heartbeats/{heartbeatId}",
        &[(
            "",
            r#"{"memoryRef": "{memory}", "key": "invoice cleared", "tag": "paid", "everySeconds": 60}"#,
        )],
    ),
    (
        "DELETE /v1/host/remembrancer/heartbeats/{heartbeatId}",
        &[("", "")],
    ),
    (
        "GET /v1/host/remembrancer/jobs",
        &[
            ("", ""),
            ("?limit=1", ""),
            ("?pass=distill", ""),
            ("?after={job}", ""),
        ],
    ),
    ("GET /v1/host/remembrancer/jobs/{jobId}", &[("", "")]),
    (
        "POST /v1/host/remembrancer/jobs/{jobId}/cancel",
        &[("", "")],
    ),
    ("GET /v1/host/remembrancer/schedules", &[("", "")]),
    ("GET /v1/host/remembrancer/passes", &[("", "")]),
    (
        "POST /v1/host/remembrancer/passes/{name}/run",
        &[
            ("", r#"{"memoryRef": "{memory}"}"#),
            ("", r#"{"memoryRef": "{memory}", "dryRun": true}"#),
            ("", r#"{"dryRun": true}"#),
            ("#k", r#"{"memoryRef": "~/ops"}"#),
        ],
    ),
    (
        "GET /v1/host/remembrancer/passes/{name}/schedule",
        &[("?memoryRef={memory}", "")],
    ),
    (
        "PUT /v1/host/remembrancer/passes/{name}/schedule",
        &[("?memoryRef={memory}", r#"{"every": "P1D"}"#)],
    ),
    (
        "DELETE /v1/host/remembrancer/passes/{name}/schedule",
        &[("?memoryRef={memory}", "")],
    ),
    (
        "GET /v1/host/remembrancer/model-calls",
        &[("", ""), ("?limit=1", "")],
    ),
    (
        "POST /v1/host/remembrancer/model-calls/{id}/undo",
        &[("", "")],
    ),
    ("GET /v1/host/remembrancer/erasures", &[("", "")]),
    ("GET /v1/runs/{runId}", &[("", "")]),
    (
        "GET /v1/runs/{runId}/events",
        &[("", ""), ("?lastSequence=1", ""), ("!", "")],
    ),
    (
        "GET /v1/runs/{runId}/events/poll",
        &[("", ""), ("?lastSequence=0", "")],
    ),
    ("GET /v1/runs/{runId}/artifacts/{artifactId}", &[("", "")]),
    (
        "POST /v1/runs/{runId}:fork",
        &[
            ("", r#"{"mode": "replay"}"#),
            ("", r#"{"mode": "branch", "fromSeq": 1}"#),
        ],
    ),
    ("POST /v1/runs/{runId}/cancel", &[("", "{}")]),
    (
        "POST /v1/runs",
        &[
            ("", r#"{"workflowId": "hers"}"#),
            ("#k", r#"{"workflowId": "own"}"#),
        ],
    ),
    ("GET /v1/host/remembrancer/webhooks", &[("", "")]),
    (
        "GET /v1/host/remembrancer/webhooks/{webhookId}/dead-letters",
        &[("", ""), ("?limit=1", "")],
    ),
    (
        "POST /v1/host/remembrancer/webhooks/{webhookId}/dead-letters/{sequence}/redeliver",
        &[("", "")],
    ),
    ("GET /v1/host/workspace/files", &[("", "")]),
    ("GET /v1/host/workspace/files/{path}", &[("", "")]),
    ("GET /v1/host/remembrancer/proposals", &[("", "")]),
    ("GET /v1/host/remembrancer/installed", &[("", "")]),
    ("GET /v1/host/remembrancer/automations", &[("", "")]),
    ("GET /v1/agents", &[("", "")]),
    ("GET /v1/host/remembrancer/workflows", &[("", "")]),
    ("GET /v1/workflows/{workflowId}", &[("", "")]),
    (
        "GET /v1/host/remembrancer/secrets",
        &[("", ""), ("?owner=ada", "")],
    ),
    ("GET /v1/host/remembrancer/keys", &[("", "")]),
];

/// Operations that Bob does not try, and why not.
const EXPLAINED: &[(&str, &[&str])] = &[
    (
        "what they name is the tenant's, whoever made it; the lists above show that nothing of Ada's own got into it",
        &[
            "PUT /v1/host/remembrancer/commitment-rules",
            "PUT /v1/host/workspace/files/{path}",
            "DELETE /v1/host/workspace/files/{path}",
            "GET /v1/agents/{agentId}",
            "POST /v1/host/remembrancer/agents",
            "DELETE /v1/host/remembrancer/agents/{agentId}",
            "PUT /v1/host/remembrancer/workflows/{workflowId}",
            "DELETE /v1/host/remembrancer/workflows/{workflowId}",
            "POST /v1/webhooks",
            "DELETE /v1/webhooks/{webhookId}",
            "GET /v1/host/remembrancer/proposals/{proposalId}",
            "PATCH /v1/host/remembrancer/proposals/{proposalId}",
            "DELETE /v1/host/remembrancer/proposals/{proposalId}",
            "POST /v1/host/remembrancer/proposals/{proposalId}/apply",
            "POST /v1/host/remembrancer/proposals/{proposalId}/reject",
            "POST /v1/host/remembrancer/proposals",
            "GET /v1/host/remembrancer/proposals/{proposalId}/revisions",
            "GET /v1/host/remembrancer/proposals/{proposalId}/gate",
            "POST /v1/host/remembrancer/proposals/{proposalId}/approve",
            "POST /v1/host/remembrancer/proposals/{proposalId}/override",
            "POST /v1/host/remembrancer/traces",
            "GET /v1/host/remembrancer/worlds/{world}/rules",
            "POST /v1/host/remembrancer/worlds/{world}/rules",
            "PUT /v1/host/remembrancer/worlds/{world}/rules/{ruleId}",
            "DELETE /v1/host/remembrancer/worlds/{world}/rules/{ruleId}",
            "POST /v1/host/remembrancer/worlds/{world}/check",
            "GET /v1/host/remembrancer/automations/{automationId}",
            "PUT /v1/host/remembrancer/automations/{automationId}",
            "DELETE /v1/host/remembrancer/automations/{automationId}",
            "POST /v1/host/remembrancer/automations/{automationId}/pause",
            "POST /v1/host/remembrancer/automations/{automationId}/resume",
            "PUT /v1/host/remembrancer/secrets/{name}",
            "POST /v1/host/remembrancer/secrets/{name}/rotate",
            "DELETE /v1/host/remembrancer/secrets/{name}",
        ],
    ),
    (
        "who manages keys or tenants acts for all of their users, by design",
        &[
            "POST /v1/host/remembrancer/keys",
            "PATCH /v1/host/remembrancer/keys/{id}",
            "DELETE /v1/host/remembrancer/keys/{id}",
            "POST /v1/host/remembrancer/tenants",
            "GET /v1/host/remembrancer/tenants",
        ],
    ),
    (
        "forgetting reaches everybody's memories, by design: see the test about it",
        &[
            "POST /v1/host/remembrancer/forget",
            "GET /v1/host/remembrancer/erasures/{id}",
            "GET /v1/host/remembrancer/erasures/{id}/pages/{number}",
        ],
    ),
    (
        "a count of the whole tenant's texts, which whoever looks after the host may know; it names no memory",
        &["GET /v1/host/remembrancer/embeddings"],
    ),
    (
        "about the caller itself, not about a tenant's memories",
        &["GET /v1/host/remembrancer/whoami"],
    ),
    (
        "about the host, not about a tenant's memories",
        &[
            "GET /.well-known/openwop",
            "GET /v1/openapi.json",
            "GET /health",
            "GET /ready",
            "GET /metrics",
            "GET /v1/host/remembrancer/profiles",
        ],
    ),
];

async fn call(host: &TestServer, user: &str, method: &str, path: &str, body: Value) -> Value {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = host.call(user, method, path, &[], body).await;
    assert!(
        answer.status.is_success(),
        "{user} {method} {path}: {} {}",
        answer.status,
        answer.json()
    );
    answer.json()
}

fn text(value: &Value, name: &str) -> String {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("{name} in {value}"))
        .to_owned()
}

async fn pass(host: &TestServer, name: &str) {
    host.engine
        .run_pass(
            registry::find(name).unwrap(),
            &TenantId::parse("a").unwrap(),
            PassMode::Apply,
        )
        .await
        .unwrap();
}

async fn ended(host: &TestServer, user: &str, run: &str) {
    let poll = format!("/v1/runs/{run}/events/poll?timeout=5");
    wait_until("the run ends", || async {
        let page = call(host, user, "GET", &poll, Value::Null).await;
        page["isComplete"] == true
    })
    .await;
}

async fn run(host: &TestServer, user: &str, workflow: &str) -> String {
    let key = if workflow == "own" { "k" } else { workflow };
    let key = format!("{key}{}", if workflow == "own" { "" } else { user });
    let headers = [("idempotency-key", key.as_str())];
    let body = json!({"workflowId": workflow}).to_string();
    let started = host
        .call(user, "POST", "/v1/runs", &headers, body)
        .await
        .json();
    let id = text(&started, "runId");
    ended(host, user, &id).await;
    id
}

/// One user's memory of their own, filled through every feature. Answers what is theirs.
async fn fill(host: &TestServer, user: &str, word: &str) -> Names {
    let entries = format!("{MEMORY}/{OWN}/entries");
    let body = json!({"content": format!("The {word} is called falcon."), "tags": ["paid"], "metadata": {"w": word}, "subjects": ["ana"]});
    let put = host
        .call(
            user,
            "POST",
            &entries,
            &[("idempotency-key", "k")],
            body.to_string(),
        )
        .await
        .json();
    let doomed = call(
        host,
        user,
        "POST",
        &entries,
        json!({"content": format!("{word} gone")}),
    )
    .await;
    call(
        host,
        user,
        "DELETE",
        &format!("{entries}/{}", text(&doomed, "id")),
        Value::Null,
    )
    .await;
    call(
        host,
        user,
        "POST",
        &entries,
        json!({"content": format!("A {word} is the pet."), "slot": "pet|name"}),
    )
    .await;
    call(
        host,
        user,
        "POST",
        &entries,
        json!({"content": format!("How is the {word}?"), "interaction": "t1"}),
    )
    .await;
    let promise = json!({"content": format!("Remind me tomorrow at 9am to feed the {word}.")});
    call(host, user, "POST", &entries, promise).await;
    let commitments = format!("{MEMORY}/{OWN}/commitments");
    let waiting = json!({"text": format!("Pay for the {word}."), "predicate": "the invoice has cleared", "delivery": {"workflowId": "quiet"}});
    let commitment = call(host, user, "POST", &commitments, waiting).await;
    call(
        host,
        user,
        "PUT",
        &format!("{MEMORY}/{OWN}/commitment-rules"),
        json!({"zone": "Europe/Berlin"}),
    )
    .await;
    let heartbeat =
        json!({"memoryRef": "~/ops", "key": "invoice cleared", "tag": "paid", "everySeconds": 60});
    let heartbeat = call(
        host,
        user,
        "PUT",
        &format!("{BASE}/heartbeats/watch"),
        heartbeat,
    )
    .await;
    pass(host, "infer").await;
    pass(host, "fire").await;
    // The heartbeat has seen the tag and reported it to the commitment.
    let fires = call(
        host,
        user,
        "GET",
        &format!("{BASE}/commitments/{}/fires", text(&commitment, "id")),
        Value::Null,
    )
    .await;
    ended(host, user, fires["fires"][0]["runId"].as_str().unwrap()).await;
    let own = run(host, user, "own").await;
    let jobs = json!({"memoryRef": "~/ops", "options": {"tokenBudget": 400}}).to_string();
    let job = host
        .call(
            user,
            "POST",
            &format!("{BASE}/passes/distill/run"),
            &[("idempotency-key", "k")],
            jobs,
        )
        .await
        .json();
    pass(host, "distill").await;
    call(
        host,
        user,
        "PUT",
        &format!("{BASE}/passes/distill/schedule?memoryRef=~/ops"),
        json!({"every": "P1D"}),
    )
    .await;
    let archives = call(
        host,
        user,
        "GET",
        &format!("{MEMORY}/{OWN}/archives"),
        Value::Null,
    )
    .await;
    let ledger = json!({"model": "m", "memoryRef": format!("~{user}/ops"), "accepted": true, "why": "accepted", "durationMs": 1,
        "requestHash": "aa", "outputId": archives["archives"][0]["entryId"], "evidence": [], "undo": {"archive": "cc", "replaces": []}});
    keep(host, &format!("call_{user}"), ledger).await;
    Names::from([
        ("memory", format!("~{user}/ops")),
        ("entry", text(&put, "id")),
        ("commitment", text(&commitment, "id")),
        ("heartbeat", text(&heartbeat, "id")),
        ("run", own),
        (
            "fired",
            fires["fires"][0]["runId"].as_str().unwrap().to_owned(),
        ),
        ("job", text(&job, "id")),
        (
            "archive",
            archives["archives"][0]["sha256"]
                .as_str()
                .unwrap()
                .to_owned(),
        ),
        ("call", format!("call_{user}")),
    ])
}

async fn keep(host: &TestServer, key: &str, body: Value) {
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let body = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 0,
        now: NOON,
    }
    .redact_record(body.as_object().unwrap().clone());
    let batch = Batch::new(TenantId::parse("a").unwrap(), NOON).set_record(
        RecordKind::ModelCall,
        key.to_owned(),
        Precondition::Absent,
        body,
    );
    host.store.commit(batch).await.unwrap();
}

fn address(user: &str) -> String {
    format!("https://{user}.example.com/")
}

/// A host with what both users share, what is Bob's, and Ada's webhook, whose receiver refuses the
/// next event for good.
async fn prepared() -> (TestServer, String) {
    let host = TestServer::with_policy(
        Policy {
            webhook_attempts_max: 1,
            ..Policy::default()
        },
        vec![],
    )
    .await;
    let node = |action: &str, memory: &str| {
        json!({"id": format!("{action}-{}", memory.len()), "typeId": "core.identity",
            "config": {"memoryAction": action, "memoryRef": memory, "content": "The kettle is on.", "into": format!("x{action}")}})
    };
    host.install("shared", json!([node("write", "ops")])).await;
    host.install(
        "own",
        json!([node("read", "~/ops"), node("write", "~/ops")]),
    )
    .await;
    host.install("quiet", json!([{"id": "n", "typeId": "core.noop"}]))
        .await;
    host.install(
        "hers",
        json!([node("read", "~ada/ops"), {"id": "part", "typeId": "core.subWorkflow", "config": {"workflowId": "shared"}}]),
    )
    .await;
    let mut hook = String::new();
    for user in ["ada", "bob"] {
        host.user(user).await;
        let kinds = [
            "memory.written",
            "run.started",
            "run.completed",
            "commitment.fired",
            "heartbeat.stateChanged",
        ];
        let made = call(
            &host,
            user,
            "POST",
            "/v1/webhooks",
            json!({"url": address(user), "events": kinds, "secret": "0123456789abcdef"}),
        )
        .await;
        hook = if user == "ada" {
            text(&made, "webhookId")
        } else {
            hook
        };
        call(
            &host,
            user,
            "POST",
            &format!("{MEMORY}/ops/entries"),
            json!({"content": format!("{user} puts the kettle on.")}),
        )
        .await;
        run(&host, user, "shared").await;
    }
    fill(&host, "bob", "kettle").await;
    pass(&host, "deliver").await;
    (host, hook)
}

/// Makes both hosts continue their generated names from the same number.
fn align(a: &TestServer, b: &TestServer) {
    let number = |host: &TestServer| {
        host.env
            .ids
            .unique_name()
            .rsplit('_')
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let mut left = number(a);
    let mut right = number(b);
    while left < right {
        left = number(a);
    }
    while right < left {
        right = number(b);
    }
}

/// Positions, revisions and hashes count everything that happens in a tenant; what upkeep over the
/// whole host did is reported in numbers. Nothing else may differ.
fn plain(mut value: Value) -> Value {
    if value["over"] == "host"
        && let Some(map) = value.as_object_mut()
    {
        map.retain(|name, _| name != "lastReport" && name != "lastRunAt");
    }
    match value {
        Value::Object(map) => {
            let is_counted = |name: &str, value: &Value| {
                ["sequence", "revision", "eventId", "hash"].contains(&name)
                    || name == "nextAfter" && value.is_number()
            };
            let pairs = map.into_iter().map(|(name, value)| {
                if is_counted(&name, &value) {
                    (name, json!("#"))
                } else {
                    (name, plain(value))
                }
            });
            Value::Object(pairs.collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(plain).collect()),
        other => other,
    }
}

/// Renders a whole answer: status, headers, body.
fn bytes(answer: &TestResponse) -> String {
    let counted = ["remem-revision", "content-length"];
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !counted.contains(&name.as_str()))
        .map(|(n, v)| format!("{n}: {v:?}"))
        .collect();
    headers.sort();
    let json = answer.json();
    let body = if json.is_null() {
        String::from_utf8_lossy(&answer.bytes).into_owned()
    } else {
        let mut json = plain(json);
        if let Some(events) = json["events"].as_array_mut() {
            sort_by_run(events);
        }
        json.to_string()
    };
    format!("{} {headers:?} {body}", answer.status)
}

/// The path of an operation with what is Ada's in it.
fn path_of(template: &str, names: &Names) -> String {
    let encoded = |name: &str| names[name].replace('~', "%7E").replace('/', "%2F");
    let of_entry = template.contains("/entries/");
    let path = template
        .replace("{memoryRef}", &encoded("memory"))
        .replace("{sha256}", &names["archive"])
        .replace("{commitmentId}", &names["commitment"])
        .replace("{heartbeatId}", &encoded("heartbeat"))
        .replace("{jobId}", &names["job"])
        .replace("{runId}", &names["run"])
        .replace("{webhookId}", &names["webhook"])
        .replace("{sequence}", &names["letter"])
        .replace("{name}", "distill")
        .replace("{path}", "MEMORY-INDEX.json")
        .replace("{workflowId}", "own")
        .replace("{slot}", "pet%7Cname")
        .replace("{interaction}", "t1")
        .replace("{artifactId}", "x");
    path.replace(
        "{id}",
        if of_entry {
            &names["entry"]
        } else {
            &names["call"]
        },
    )
}

async fn attempt(
    host: &TestServer,
    user: &str,
    operation: &str,
    how: (&str, &str),
    names: &Names,
) -> TestResponse {
    let (method, template) = operation.split_once(' ').unwrap();
    let mut headers = Vec::new();
    let tail = match how.0 {
        "#k" => {
            headers.push(("idempotency-key", "k"));
            String::new()
        }
        "!" => {
            headers.push(("accept", "text/event-stream"));
            String::new()
        }
        tail => tail
            .replace("{memory}", "%7Eada%2Fops")
            .replace("{hash}", "m")
            .replace("{job}", &names["job"]),
    };
    let body = how
        .1
        .replace("{memory}", &names["memory"])
        .replace("{entry}", &names["entry"]);
    host.call(
        user,
        method,
        &format!("{}{tail}", path_of(template, names)),
        &headers,
        body,
    )
    .await
}

/// Everything that a user sees of their own data, to be compared later.
async fn view(host: &TestServer, user: &str, names: &Names) -> Vec<String> {
    let mut view = Vec::new();
    for (operation, ways) in TRIED
        .iter()
        .filter(|(operation, _)| operation.starts_with("GET "))
    {
        for how in *ways {
            view.push(format!(
                "{operation} {}: {}",
                how.0,
                bytes(&attempt(host, user, operation, *how, names).await)
            ));
        }
    }
    view
}

/// The frames of the event stream up to the entry of this name.
async fn stream_until(host: &TestServer, user: &str, last: &str) -> String {
    let request = Request::builder()
        .uri(format!("{BASE}/events"))
        .header("authorization", format!("Bearer {user}"));
    let request = request
        .header("accept", "text/event-stream")
        .body(Body::empty())
        .unwrap();
    let mut body = host
        .router
        .clone()
        .oneshot(request)
        .await
        .unwrap()
        .into_body();
    let mut read = String::new();
    while !read.contains(last) {
        let frame = body.frame().await.unwrap().unwrap();
        read.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
    read
}

fn stream_events(stream: &str) -> Vec<Value> {
    let frames = stream
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter_map(|text| serde_json::from_str(text).ok());
    frames.map(plain).collect()
}

/// Puts the events of each run together: it goes on beside what else happens, so that only the
/// order within a run, and of what belongs to none, is certain.
fn sort_by_run(events: &mut [Value]) {
    events.sort_by_key(|event| event["runId"].as_str().map(str::to_owned));
}

async fn tool(host: &TestServer, user: &str, name: &str, arguments: Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("host", "localhost"),
    ];
    bytes(&host.call(user, "POST", "/mcp", &headers, body).await)
}

async fn operations(host: &TestServer) -> BTreeSet<String> {
    let document = host.get("/v1/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        item.as_object()
            .unwrap()
            .keys()
            .map(move |method| (method.to_uppercase(), path))
    });
    each.map(|(method, path)| format!("{method} {path}"))
        .collect()
}

#[tokio::test]
async fn every_operation_is_tested_for_isolation_or_exempt() {
    let tried = TRIED.iter().map(|(operation, _)| (*operation).to_owned());
    let explained = EXPLAINED
        .iter()
        .flat_map(|(_, operations)| operations.iter().map(|one| (*one).to_owned()));
    let known: BTreeSet<String> = tried.chain(explained).collect();
    let host = TestServer::new().await;
    let all = operations(&host).await;
    let untried: Vec<_> = all.difference(&known).collect();
    let gone: Vec<_> = known.difference(&all).collect();
    assert!(
        untried.is_empty() && gone.is_empty(),
        "neither tried nor explained: {untried:?}; not there any more: {gone:?}"
    );
}

/// Without this, Bob might be refused everything because it is asked in the wrong way.
#[tokio::test]
async fn every_attempted_operation_succeeds_for_the_owner() {
    let (host, _, names) = twins().await;
    for (operation, ways) in TRIED {
        for how in *ways {
            let answer = attempt(&host, "ada", operation, *how, &names).await;
            // A run that has ended cannot be cancelled, an idempotency key belongs to another
            // request, and this host stores no artifacts.
            let fine = answer.status.is_success()
                || answer.status == 409
                || operation.contains("/artifacts/");
            // The index lists the tenant's distilled memories, and there are none here.
            let absent = answer.status == 404 && operation.contains("/files/");
            assert!(
                fine || absent,
                "{operation} {how:?}: {} {}",
                answer.status,
                answer.json()
            );
        }
    }
}

/// Two hosts alike, Ada's own memory on the first of them, and what is hers.
async fn twins() -> (TestServer, TestServer, Names) {
    let (crowded, hook) = prepared().await;
    let (alone, _) = prepared().await;
    align(&crowded, &alone);
    let mut names = fill(&crowded, "ada", CANARY).await;
    crowded.post.take_requests();
    crowded.post.set_answers(
        &address("ada"),
        [Some(Ok(500)), Some(Err(WebhookError::Timeout))],
    );
    names.insert("webhook", hook);
    for host in [&crowded, &alone] {
        for name in ["infer", "fire", "deliver"] {
            pass(host, name).await;
        }
    }
    let letters = call(
        &crowded,
        "ada",
        "GET",
        &format!("{BASE}/webhooks/{}/dead-letters", names["webhook"]),
        Value::Null,
    )
    .await;
    names.insert("letter", letters["deadLetters"][0]["sequence"].to_string());
    (crowded, alone, names)
}

#[tokio::test]
async fn inv_14_private_data_does_not_change_responses_to_other_users() {
    let (crowded, alone, names) = twins().await;
    let before = view(&crowded, "ada", &names).await;
    let hers = before
        .iter()
        .filter(|line| line.contains(HERS) || line.contains(CANARY))
        .count();
    assert!(hers > 20, "positive control: she sees what is hers: {hers}");
    for (operation, ways) in TRIED {
        for how in *ways {
            align(&crowded, &alone);
            let there = attempt(&crowded, "bob", operation, *how, &names).await;
            let nowhere = attempt(&alone, "bob", operation, *how, &names).await;
            let text = String::from_utf8_lossy(&there.bytes).into_owned();
            assert!(
                !text.contains(CANARY) && !text.contains(HERS)
                    || operation.ends_with("/workflows/{workflowId}"),
                "{operation}: {text}"
            );
            assert_eq!(bytes(&there), bytes(&nowhere), "{operation} {how:?}");
            // What Bob started himself has ended before he looks again.
            if let (true, Some(run)) = (there.status == 201, there.json()["runId"].as_str()) {
                ended(&crowded, "bob", run).await;
                ended(&alone, "bob", run).await;
            }
        }
    }
    let after = view(&crowded, "ada", &names).await;
    for (before, after) in before
        .iter()
        .zip(&after)
        .filter(|(line, _)| line.contains("memoryRef}") || line.contains("{runId}"))
    {
        assert_eq!(
            before, after,
            "nothing of what Bob tried has touched what is hers"
        );
    }
}

#[tokio::test]
async fn inv_10_events_of_private_memories_are_hidden_from_other_users() {
    let (crowded, alone, _) = twins().await;
    align(&crowded, &alone);
    let mut heard = Vec::new();
    for host in [&crowded, &alone] {
        let last = call(
            host,
            "bob",
            "POST",
            &format!("{MEMORY}/ops/entries"),
            json!({"content": "the last word"}),
        )
        .await;
        heard.push(stream_until(host, "bob", last["id"].as_str().unwrap()).await);
    }
    assert!(
        !heard[0].contains(CANARY) && !heard[0].contains(HERS),
        "{}",
        heard[0]
    );
    let [mut there, mut nowhere] = [&heard[0], &heard[1]].map(|stream| stream_events(stream));
    sort_by_run(&mut there);
    sort_by_run(&mut nowhere);
    assert_eq!(there, nowhere);
    let end = heard[0]
        .rsplit("id: ")
        .next()
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    let hers = stream_until(&crowded, "ada", &format!("id: {end}\n")).await;
    assert!(hers.contains("~ada/ops"), "positive control: {hers}");
    // Pages lead past what is hidden, and show the same.
    let mut after = 0;
    let mut paged = Vec::new();
    for _ in 0..heard[0].len() {
        let page = call(
            &crowded,
            "bob",
            "GET",
            &format!("{BASE}/events?limit=2&after={after}"),
            Value::Null,
        )
        .await;
        paged.extend(
            page["events"]
                .as_array()
                .unwrap()
                .iter()
                .cloned()
                .map(plain),
        );
        let next = page["nextAfter"].as_u64().unwrap();
        if next == after {
            break;
        }
        after = next;
    }
    assert_eq!(paged, stream_events(&heard[0]));
    // What a run of hers writes to the tenant's memory is the tenant's: Bob hears of the entry, and
    // of no run.
    let nodes = json!([{"id": "own", "typeId": "core.identity", "config": {"memoryAction": "read", "memoryRef": "~/ops"}},
        {"id": "out", "typeId": "core.identity", "config": {"memoryAction": "write", "memoryRef": "ops", "content": "for all"}}]);
    crowded.install("outward", nodes).await;
    let run = run(&crowded, "ada", "outward").await;
    let rest = call(
        &crowded,
        "bob",
        "GET",
        &format!("{BASE}/events?after={end}"),
        Value::Null,
    )
    .await;
    let events = rest["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{rest}");
    assert_eq!(
        (&events[0]["type"], &events[0]["payload"]["memoryRef"]),
        (&json!("memory.written"), &json!("ops"))
    );
    assert!(
        !rest.to_string().contains(&run) && events[0]["payload"].get("nodeId").is_none(),
        "{rest}"
    );
}

#[tokio::test]
async fn inv_14_tools_and_webhooks_isolate_users() {
    let (crowded, alone, names) = twins().await;
    let posted = crowded.post.take_requests();
    let of = |user: &str| -> Vec<String> {
        let own = posted.iter().filter(|one| one.url == address(user));
        own.map(|one| String::from_utf8_lossy(&one.body).into_owned())
            .collect()
    };
    assert!(
        of("bob")
            .iter()
            .all(|body| !body.contains(HERS) && !body.contains(&names["run"])),
        "{:?}",
        of("bob")
    );
    assert!(
        of("ada").iter().any(|body| body.contains("~ada/ops")),
        "positive control: {:?}",
        of("ada")
    );
    align(&crowded, &alone);
    for memory in ["~ada/ops", "~/ops", "ops"] {
        for (name, arguments) in [
            ("memory_list", json!({"memoryRef": memory})),
            (
                "memory_search",
                json!({"memoryRef": memory, "query": CANARY, "neighbours": 3}),
            ),
            (
                "memory_recall",
                json!({"memoryRef": memory, "query": CANARY, "abstain": false}),
            ),
            (
                "memory_get",
                json!({"memoryRef": memory, "id": names["entry"]}),
            ),
            ("memory_stats", json!({"memoryRef": memory})),
            (
                "memory_delete",
                json!({"memoryRef": memory, "id": names["entry"]}),
            ),
            ("commitments_list", json!({"memoryRef": memory})),
        ] {
            let there = tool(&crowded, "bob", name, arguments.clone()).await;
            let nowhere = tool(&alone, "bob", name, arguments).await;
            let shared = memory == "ops" && (name == "memory_list" || name == "memory_stats");
            assert!(there.starts_with("200 "), "{there}");
            assert!(
                shared || there == nowhere,
                "{name} {memory}: {there} {nowhere}"
            );
            assert!(
                !there.contains(CANARY) && !there.contains(HERS),
                "{name} {memory}: {there}"
            );
        }
    }
    for name in ["memory_search", "memory_recall"] {
        let own = tool(
            &crowded,
            "ada",
            name,
            json!({"memoryRef": "~/ops", "query": CANARY}),
        )
        .await;
        assert!(own.contains(CANARY), "positive control: {own}");
    }
}

#[tokio::test]
async fn forget_covers_private_memories_without_listing_their_entries() {
    let (crowded, _, names) = twins().await;
    let report = call(
        &crowded,
        "bob",
        "POST",
        &format!("{BASE}/forget"),
        json!({"subject": "ana"}),
    )
    .await;
    let listed = report["erased"].as_array().unwrap().len() as u64;
    assert_eq!(
        (report["changed"].as_bool(), listed),
        (Some(true), 0),
        "all of it was in memories of single users: {report}"
    );
    assert!(
        report["counts"]["erased"].as_u64().unwrap() >= 4 && report["counts"]["archives"] == 2,
        "{report}"
    );
    let kept = call(
        &crowded,
        "bob",
        "GET",
        &format!("{BASE}/erasures/{}", text(&report, "id")),
        Value::Null,
    )
    .await;
    assert_eq!(kept["counts"], report["counts"]);
    assert!(
        !report.to_string().contains(HERS) && !kept.to_string().contains(HERS),
        "{report}"
    );
    assert!(
        remem_engine::forget::verify_report(
            kept.as_object().unwrap(),
            &crowded.engine.report_public_key()
        ),
        "it holds as it is kept"
    );
    let gone = crowded
        .call(
            "ada",
            "GET",
            &format!("{MEMORY}/{OWN}/entries/{}", names["entry"]),
            &[],
            "",
        )
        .await;
    assert_eq!(gone.status, 404, "hers is gone, too");
    let stale = call(
        &crowded,
        "ada",
        "GET",
        &format!("{BASE}/jobs?pass=distill&state=queued"),
        Value::Null,
    )
    .await;
    assert_eq!(
        stale["jobs"][0]["memoryRef"], "~ada/ops",
        "hers is distilled again although somebody else asked: {stale}"
    );
}

#[tokio::test]
async fn runs_for_a_private_memory_follow_the_rules_of_its_user() {
    let (host, _) = prepared().await;
    call(
        &host,
        "bob",
        "PUT",
        &format!("{BASE}/commitment-rules"),
        json!({"delivery": {"workflowId": "shared"}}),
    )
    .await;
    let fired = async |memory: &str| {
        let new = json!({"text": "Pay.", "predicate": "the invoice has cleared"});
        let made = call(
            &host,
            "ada",
            "POST",
            &format!("{MEMORY}/{memory}/commitments"),
            new,
        )
        .await;
        let observed = json!({"key": "the invoice has cleared", "value": true});
        call(
            &host,
            "ada",
            "POST",
            &format!("{MEMORY}/{memory}/observations"),
            observed,
        )
        .await;
        let fires = format!("{BASE}/commitments/{}/fires", text(&made, "id"));
        call(&host, "ada", "GET", &fires, Value::Null).await["fires"][0]["runId"].clone()
    };
    assert!(
        fired("ops").await.is_string(),
        "positive control: for a memory of the tenant the run is started"
    );
    assert!(
        fired("~%2Fplain").await.is_null(),
        "Bob's workflow is told nothing of a memory of hers"
    );
    let delivery = json!({"delivery": {"workflowId": "quiet"}});
    call(
        &host,
        "ada",
        "PUT",
        &format!("{MEMORY}/~%2Fruled/commitment-rules"),
        delivery,
    )
    .await;
    let run = fired("~%2Fruled").await;
    let status = async |user: &str| {
        host.call(
            user,
            "GET",
            &format!("/v1/runs/{}", run.as_str().unwrap()),
            &[],
            "",
        )
        .await
        .status
        .as_u16()
    };
    assert_eq!(
        (status("ada").await, status("bob").await),
        (200, 404),
        "her own rules start it, and it is hers to see"
    );
}

#[tokio::test]
async fn no_proposal_is_drafted_from_private_runs() {
    let (host, _) = prepared().await;
    for day in 1..=7 {
        host.clock.set(NOON.plus_ms(day * 86_400_000));
        for workflow in ["own", "quiet"] {
            let started = call(
                &host,
                "ada",
                "POST",
                "/v1/runs",
                json!({"workflowId": workflow, "inputs": {"task": "as every day"}}),
            )
            .await;
            ended(&host, "ada", &text(&started, "runId")).await;
        }
    }
    pass(&host, "propose").await;
    let drafts = call(
        &host,
        "bob",
        "GET",
        "/v1/host/remembrancer/proposals",
        Value::Null,
    )
    .await["proposals"]
        .to_string();
    assert!(
        drafts.contains(r#""workflowId":"quiet""#),
        "positive control: {drafts}"
    );
    assert!(!drafts.contains(r#""workflowId":"own""#), "{drafts}");
}
