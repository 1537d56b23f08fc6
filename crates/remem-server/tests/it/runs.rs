//! Runs over HTTP: their log, their snapshot, their record, forks and cancels. On both stores.

use remem_core::Permission;
use remem_engine::registry::{self, PassMode};
use remem_testkit::server::{CANARY, MEMORY};
use remem_testkit::{NOON, TestServer, wait_until};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

fn node(id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": "core.identity", "config": config})
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

/// Checks that the events are gapless from 0, with one terminal event at the end.
fn is_sound(events: &[Value]) {
    let seqs: Vec<u64> = events
        .iter()
        .map(|event| event["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (0..events.len() as u64).collect::<Vec<_>>());
    let last = |kind: &&str| ["run.completed", "run.failed", "run.cancelled"].contains(kind);
    assert_eq!(
        kinds(events).iter().filter(|kind| last(kind)).count(),
        1,
        "{events:?}"
    );
    assert!(last(kinds(events).last().unwrap()));
}

async fn put(host: &TestServer, memory: &str, text: &str) -> String {
    let put = host
        .post(
            &format!("{MEMORY}/{memory}/entries"),
            json!({"content": text}),
        )
        .await;
    put.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_run_reports_its_events_and_writes() {
    let host = TestServer::with_seams().await;
    let (id, state) = host
        .run_to_end(
            json!({"workflowId": "conformance-noop", "tenantId": "somebody-else", "tags": ["t"]}),
        )
        .await;
    assert_eq!(state["status"], "completed");
    assert_eq!(state["owner"]["tenant"], "a", "the key decides");
    let events = host.wait_for_end(&id).await;
    is_sound(&events);
    assert_eq!(
        kinds(&events),
        [
            "run.started",
            "node.started",
            "memory.written",
            "node.completed",
            "run.completed"
        ]
    );
    let written = &events[2]["payload"];
    assert_eq!(
        (written["memoryRef"].as_str(), written["nodeId"].as_str()),
        (Some("openwop/runs"), Some("noop"))
    );
    let keys: HashSet<&str> = written
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        HashSet::from(["memoryRef", "memoryId", "nodeId", "tags"]),
        "nothing of what was written"
    );
    assert!(events.iter().all(|event| event["runId"] == id.as_str()));
    let memory = host
        .get(&format!("{MEMORY}/openwop%2Fruns/entries"))
        .await
        .json();
    assert_eq!(memory["entries"][0]["id"], written["memoryId"]);
    let again = host.get(&format!("/v1/runs/{id}/events")).await.json();
    assert_eq!(
        again["events"],
        json!(events),
        "the same however often one asks"
    );
    let page = host
        .get(&format!("/v1/runs/{id}/events/poll?lastSequence=3"))
        .await
        .json();
    assert_eq!(
        (
            page["events"].as_array().unwrap().len(),
            &page["isComplete"]
        ),
        (1, &json!(true))
    );
    let after = host
        .get(&format!(
            "/v1/runs/{id}/events/poll?lastSequence=4&timeout=30"
        ))
        .await
        .json();
    assert_eq!(
        after,
        json!({"events": [], "isComplete": true}),
        "nobody waits for what cannot come"
    );
    let stream = host
        .call(
            "key-of-a",
            "GET",
            &format!("/v1/runs/{id}/events"),
            &[("accept", "text/event-stream")],
            "",
        )
        .await;
    let text = String::from_utf8(stream.bytes).unwrap();
    assert_eq!(text.matches("event: ").count(), 5);
    assert!(
        text.contains("id: 4\n") && text.contains("event: run.completed\n"),
        "{text}"
    );
    let rest = [("accept", "text/event-stream"), ("last-event-id", "3")];
    let rest = host
        .call(
            "key-of-a",
            "GET",
            &format!("/v1/runs/{id}/events"),
            &rest,
            "",
        )
        .await;
    assert_eq!(
        String::from_utf8(rest.bytes)
            .unwrap()
            .matches("event: ")
            .count(),
        1,
        "it goes on where it stopped"
    );
}

#[tokio::test]
async fn starting_a_run_is_idempotent_by_key() {
    let host = TestServer::with_seams().await;
    let start = async |body: Value| {
        host.call(
            "key-of-a",
            "POST",
            "/v1/runs",
            &[("idempotency-key", "k")],
            body.to_string(),
        )
        .await
    };
    let first = start(json!({"workflowId": "conformance-noop"})).await;
    let id = first.json()["runId"].as_str().unwrap().to_owned();
    host.wait_for_end(&id).await;
    let second = start(json!({"workflowId": "conformance-noop"})).await;
    assert_eq!(
        (
            second.json()["runId"].as_str(),
            second.header("openwop-idempotent-replay")
        ),
        (Some(id.as_str()), "true")
    );
    assert_eq!(first.header("openwop-idempotent-replay"), "");
    let other = start(json!({"workflowId": "conformance-noop", "tags": ["other"]})).await;
    assert_eq!(
        (other.status.as_u16(), other.code().as_str()),
        (409, "idempotency_key_mismatch")
    );
    assert!(other.json().get("runId").is_none());
}

#[tokio::test]
async fn run_events_contain_nothing_the_caller_sent() {
    let host = TestServer::with_seams().await;
    let canary = "canary-9f2c7d11";
    let body = json!({
        "workflowId": "conformance-noop",
        "inputs": {"userSuppliedField": canary, "descriptiveText": canary},
        "metadata": {"note": canary},
        "tags": [canary],
        "configurable": {"ai": {"credentialRef": canary}},
    });
    let (id, state) = host.run_to_end(body).await;
    assert_eq!(state["configurable"]["ai"]["credentialRef"], canary);
    assert!(
        !json!(host.wait_for_end(&id).await)
            .to_string()
            .contains(canary)
    );
    let unknown = host
        .post(
            "/v1/runs",
            json!({"workflowId": format!("nonexistent-{canary}")}),
        )
        .await;
    assert_eq!(unknown.status.as_u16(), 404);
    assert!(!unknown.json().to_string().contains(canary));
}

#[tokio::test]
async fn a_run_with_an_unsupported_node_type_fails_and_names_it() {
    let host = TestServer::new().await;
    host.install(
        "w",
        json!([{"id": "a", "typeId": "core.noop"}, {"id": "b", "typeId": "conformance.secret.echo"}, {"id": "c", "typeId": "core.noop"}]),
    )
    .await;
    let (id, state) = host.run_to_end(json!({"workflowId": "w"})).await;
    assert_eq!(
        (state["status"].as_str(), state["error"]["code"].as_str()),
        (Some("failed"), Some("capability_not_provided"))
    );
    assert_eq!(
        state["nodeStates"],
        json!({"a": {"status": "completed"}, "b": {"status": "failed"}})
    );
    assert!(
        state["error"]["message"]
            .as_str()
            .unwrap()
            .contains("conformance.secret.echo")
    );
    let events = host.wait_for_end(&id).await;
    is_sound(&events);
    assert_eq!(
        kinds(&events),
        [
            "run.started",
            "node.started",
            "node.completed",
            "node.started",
            "node.failed",
            "run.failed"
        ]
    );
    assert_eq!(events[5]["payload"]["failedNodeId"], "b");
}

#[tokio::test]
async fn a_run_reads_its_snapshot_and_its_own_writes() {
    let host = TestServer::new().await;
    let kept = put(&host, "m", "was there").await;
    let reads = |n: usize| {
        node(
            &format!("r{n}"),
            json!({"memoryAction": "read", "memoryRef": "m", "into": format!("seen{n}")}),
        )
    };
    let writes = node(
        "w",
        json!({"memoryAction": "write", "memoryRef": "m", "contentFrom": "inputs.text", "into": "own"}),
    );
    let deletes = node(
        "d",
        json!({"memoryAction": "delete", "memoryRef": "m", "id": kept}),
    );
    let gets = node(
        "g",
        json!({"memoryAction": "get", "memoryRef": "m", "idFrom": "variables.own", "into": "got"}),
    );
    host.install(
        "w",
        json!([reads(1), writes, reads(2), gets, deletes, reads(3)]),
    )
    .await;
    let (_, state) = host
        .run_to_end(json!({"workflowId": "w", "inputs": {"text": "its own"}}))
        .await;
    assert_eq!(state["status"], "completed", "{state}");
    let seen = |n: usize| {
        let list = state["variables"][format!("seen{n}")]
            .as_array()
            .unwrap()
            .clone();
        list.iter()
            .map(|entry| entry["content"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (seen(1), seen(2), seen(3)),
        (
            vec!["was there".into()],
            vec!["its own".into(), "was there".into()],
            vec!["its own".into()]
        )
    );
    assert_eq!(
        (
            &state["variables"]["got"]["content"],
            &state["variables"]["deleted"]
        ),
        (&json!("its own"), &json!(true))
    );
    assert_eq!(
        host.get(&format!("{MEMORY}/m/entries")).await.json()["entries"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

/// The issue's own figure: 40 runs, 16 writers, nothing changes within a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_are_not_visible_within_a_run() {
    let host = std::sync::Arc::new(TestServer::new().await);
    let nodes: Vec<Value> = (0..6)
        .map(|n| {
            node(
                &format!("r{n}"),
                json!({"memoryAction": "read", "memoryRef": "m", "into": format!("seen{n}")}),
            )
        })
        .collect();
    host.install("reader", json!(nodes)).await;
    for n in 0..20 {
        put(&host, "m", &format!("before {n}")).await;
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut writers = tokio::task::JoinSet::new();
    let total = std::sync::Arc::new(AtomicU32::new(0));
    for writer in 0..16 {
        let host = host.clone();
        let stopped = stopped.clone();
        let total = total.clone();
        writers.spawn(async move {
            let mut written = 0u32;
            while !*stopped.borrow() {
                let id = put(&host, "m", &format!("writer {writer}, {written}")).await;
                if written.is_multiple_of(2) {
                    host.delete(&format!("{MEMORY}/m/entries/{id}")).await;
                }
                written += 1;
                total.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    let mut different = HashSet::new();
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..40 {
        // Every tenth run begins after more was written, however busy the machine is.
        wait_until("the writers write", || async {
            total.load(Ordering::SeqCst) >= n / 10 * 16
        })
        .await;
        let host = host.clone();
        runs.spawn(async move { host.run_to_end(json!({"workflowId": "reader"})).await.1 });
    }
    while let Some(state) = runs.join_next().await {
        let state = state.unwrap();
        assert_eq!(state["status"], "completed", "{state}");
        let reads: HashSet<String> = (0..6)
            .map(|n| state["variables"][format!("seen{n}")].to_string())
            .collect();
        assert_eq!(reads.len(), 1, "a read changed within a run");
        different.extend(reads);
    }
    stop.send_replace(true);
    writers.join_all().await;
    assert!(different.len() > 1, "the writers did write meanwhile");
}

#[tokio::test]
async fn a_replay_is_byte_for_byte_identical_and_writes_nothing() {
    let host = TestServer::new().await;
    let first = put(&host, "m", "the first").await;
    let nodes = json!([
        node("r", json!({"memoryAction": "read", "memoryRef": "m", "into": "seen"})),
        node("w", json!({"memoryAction": "write", "memoryRef": "m", "content": "what it learnt", "tags": ["source:chat"]})),
        node("d", json!({"memoryAction": "delete", "memoryRef": "m", "id": first})),
        {"id": "c", "typeId": "core.subWorkflow", "config": {"workflowId": "child"}},
        node("r2", json!({"memoryAction": "read", "memoryRef": "m", "into": "after"})),
    ]);
    host.install(
        "child",
        json!([node(
            "w",
            json!({"memoryAction": "write", "memoryRef": "m", "content": "of the child"})
        )]),
    )
    .await;
    host.install("w", nodes).await;
    let (id, state) = host.run_to_end(json!({"workflowId": "w"})).await;
    assert_eq!(state["status"], "completed", "{state}");
    let mut after: Vec<&str> = state["variables"]["after"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["content"].as_str().unwrap())
        .collect();
    after.sort_unstable();
    assert_eq!(
        after,
        ["of the child", "what it learnt"],
        "a completed child's writes show"
    );
    let source = host.wait_for_end(&id).await;
    // Everything that the run saw goes away, and other things come.
    for entry in host.get(&format!("{MEMORY}/m/entries")).await.json()["entries"]
        .as_array()
        .unwrap()
    {
        host.delete(&format!(
            "{MEMORY}/m/entries/{}",
            entry["id"].as_str().unwrap()
        ))
        .await;
    }
    let tenant = remem_core::TenantId::parse("a").unwrap();
    host.engine
        .run_pass(registry::find("purge").unwrap(), &tenant, PassMode::Apply)
        .await
        .unwrap();
    put(&host, "m", "later").await;
    let before = host
        .get("/v1/host/remembrancer/events?after=0")
        .await
        .json()["nextAfter"]
        .as_u64()
        .unwrap();
    let forked = host
        .post(&format!("/v1/runs/{id}:fork"), json!({"mode": "replay"}))
        .await;
    assert_eq!(forked.status.as_u16(), 201, "{}", forked.json());
    assert_eq!(
        (&forked.json()["sourceRunId"], &forked.json()["fromSeq"]),
        (&json!(id), &json!(0))
    );
    let fork = forked.json()["runId"].as_str().unwrap().to_owned();
    let replayed = host.wait_for_end(&fork).await;
    is_sound(&replayed);
    let again = host.get(&format!("/v1/runs/{fork}")).await.json();
    assert_eq!(
        again["variables"].to_string(),
        state["variables"].to_string(),
        "byte for byte"
    );
    let facts = |events: &[Value]| -> Vec<Value> {
        let fact = |event: &&Value| event["type"].as_str().unwrap().starts_with("memory.");
        events
            .iter()
            .filter(fact)
            .map(|event| json!([event["type"], event["payload"], event["timestamp"]]))
            .collect()
    };
    assert_eq!(
        facts(&replayed),
        facts(&source),
        "the facts are those of the source, with their ids and times"
    );
    assert_eq!(kinds(&replayed), kinds(&source));
    let memory = host.get(&format!("{MEMORY}/m/entries")).await.json();
    assert_eq!(
        memory["entries"].as_array().unwrap().len(),
        1,
        "nothing was written"
    );
    let new = host
        .get(&format!("/v1/host/remembrancer/events?after={before}"))
        .await
        .json();
    assert!(
        new["events"]
            .as_array()
            .unwrap()
            .iter()
            .all(|event| event["runId"] == fork.as_str()),
        "{new}"
    );
    // A replay can itself be replayed.
    let second = host
        .post(
            &format!("/v1/runs/{fork}:fork"),
            json!({"mode": "replay", "fromSeq": 2}),
        )
        .await
        .json();
    host.wait_for_end(second["runId"].as_str().unwrap()).await;
    let second = host
        .get(&format!("/v1/runs/{}", second["runId"].as_str().unwrap()))
        .await
        .json();
    assert_eq!(second["variables"], state["variables"]);
}

/// A replay counts a node's own writes and reads as the first run did.
#[tokio::test]
async fn a_replay_of_nodes_that_write_and_read_is_identical() {
    let host = TestServer::with_seams().await;
    for action in [
        "write-then-read",
        "redaction-probe",
        "ttl-probe",
        "cross-tenant-probe",
    ] {
        let config = json!({"memoryAction": action, "memoryRef": "m", "probeMemoryRef": "n", "byokSecretId": "conformance-test-secret"});
        host.install(action, json!([node("probe", config)])).await;
        let (id, state) = host.run_to_end(json!({"workflowId": action})).await;
        assert_eq!(state["status"], "completed", "{state}");
        let fork = host
            .post(&format!("/v1/runs/{id}:fork"), json!({"mode": "replay"}))
            .await
            .json()["runId"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            kinds(&host.wait_for_end(&fork).await),
            kinds(&host.wait_for_end(&id).await),
            "{action}"
        );
        let again = host.get(&format!("/v1/runs/{fork}")).await.json();
        assert_eq!(
            (&again["status"], &again["variables"]),
            (&json!("completed"), &state["variables"]),
            "{action}"
        );
    }
}

#[tokio::test]
async fn a_replay_without_its_record_is_refused() {
    let host = TestServer::new().await;
    host.install(
        "w",
        json!([node("r", json!({"memoryAction": "read", "memoryRef": "m"}))]),
    )
    .await;
    let (id, _) = host.run_to_end(json!({"workflowId": "w"})).await;
    let fork = async |body: Value| host.post(&format!("/v1/runs/{id}:fork"), body).await;
    assert_eq!(
        fork(json!({"mode": "replay", "fromSeq": 99}))
            .await
            .status
            .as_u16(),
        422
    );
    assert_eq!(
        fork(json!({"mode": "replay", "runOptionsOverlay": {}}))
            .await
            .status
            .as_u16(),
        400
    );
    assert_eq!(fork(json!({"mode": "branch"})).await.status.as_u16(), 400);
    assert_eq!(fork(json!({"mode": "rewind"})).await.status.as_u16(), 400);
    assert_eq!(
        host.post("/v1/runs/unheard-of:fork", json!({"mode": "replay"}))
            .await
            .status
            .as_u16(),
        404
    );
    let tenant = remem_core::TenantId::parse("a").unwrap();
    let pass = registry::find("runs").unwrap();
    let forgotten = host
        .engine
        .run_pass(pass, &tenant, PassMode::Apply)
        .await
        .unwrap();
    assert_eq!(forgotten.changed, 0, "too early");
    host.clock.set(NOON.plus_ms(31 * 24 * 3_600_000));
    let dry = host
        .engine
        .run_pass(pass, &tenant, PassMode::DryRun)
        .await
        .unwrap();
    let replay = fork(json!({"mode": "replay"})).await;
    assert_eq!(
        (dry.changed, replay.status.as_u16()),
        (1, 201),
        "a dry run only counts"
    );
    // A run that ends while the pass looks at it would count as well.
    let replay = replay.json()["runId"].as_str().unwrap().to_owned();
    host.wait_for_end(&replay).await;
    let forgotten = host
        .engine
        .run_pass(pass, &tenant, PassMode::Apply)
        .await
        .unwrap();
    assert_eq!(forgotten.changed, 1);
    let refused = fork(json!({"mode": "replay", "fromSeq": 1})).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (422, "replay_memory_snapshot_unavailable")
    );
    assert_eq!(
        refused.json()["details"],
        json!({"fromSeq": 1, "sourceRunId": id, "reason": "retention_expired"})
    );
    assert_eq!(
        host.get(&format!("/v1/runs/{id}")).await.status.as_u16(),
        404
    );
    assert_eq!(
        host.get(&format!("/v1/runs/{id}/events"))
            .await
            .status
            .as_u16(),
        200,
        "the log stays"
    );
}

#[tokio::test]
async fn a_branch_continues_from_an_event_with_new_inputs() {
    let host = TestServer::new().await;
    let writes = |id: &str, from: &str| {
        node(
            id,
            json!({"memoryAction": "write", "memoryRef": "m", "contentFrom": from, "into": id}),
        )
    };
    host.install(
        "w",
        json!([writes("a", "inputs.one"), writes("b", "inputs.two")]),
    )
    .await;
    let (id, state) = host
        .run_to_end(json!({"workflowId": "w", "inputs": {"one": "first", "two": "second"}}))
        .await;
    let source = host.wait_for_end(&id).await;
    let from = source
        .iter()
        .position(|event| event["type"] == "node.completed")
        .unwrap()
        + 1;
    let body = json!({"mode": "branch", "fromSeq": from, "runOptionsOverlay": {"inputs": {"two": "other"}, "tags": ["branch"]}});
    let forked = host.post(&format!("/v1/runs/{id}:fork"), body).await.json();
    let branch = forked["runId"].as_str().unwrap().to_owned();
    let events = host.wait_for_end(&branch).await;
    is_sound(&events);
    let now = host.get(&format!("/v1/runs/{branch}")).await.json();
    assert_eq!(
        now["variables"]["a"], state["variables"]["a"],
        "what was done is kept"
    );
    assert_ne!(
        now["variables"]["b"], state["variables"]["b"],
        "what was not is done anew"
    );
    assert_eq!(now["tags"], json!(["branch"]));
    let texts: Vec<Value> = host.get(&format!("{MEMORY}/m/entries")).await.json()["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["content"].clone())
        .collect();
    assert_eq!(texts, ["other", "second", "first"]);
    let bad = json!({"mode": "branch", "fromSeq": from, "runOptionsOverlay": {"nonsense": 1}});
    assert_eq!(
        host.post(&format!("/v1/runs/{id}:fork"), bad)
            .await
            .status
            .as_u16(),
        422
    );
}

#[tokio::test]
async fn a_cancelled_run_ends_once() {
    let host = TestServer::new().await;
    let nodes: Vec<Value> = (0..100)
        .map(|n| {
            node(
                &format!("w{n}"),
                json!({"memoryAction": "write", "memoryRef": "m", "content": format!("text {n}")}),
            )
        })
        .collect();
    host.install("long", json!(nodes)).await;
    for _ in 0..5 {
        let id = host.start_run(json!({"workflowId": "long"})).await;
        let cancelled = host
            .post(
                &format!("/v1/runs/{id}/cancel"),
                json!({"reason": "enough"}),
            )
            .await;
        let events = host.wait_for_end(&id).await;
        is_sound(&events);
        let expected = if cancelled.status.is_success() {
            "run.cancelled"
        } else {
            "run.completed"
        };
        assert_eq!(*kinds(&events).last().unwrap(), expected);
        let written = kinds(&events)
            .iter()
            .filter(|kind| **kind == "memory.written")
            .count();
        let after = host.wait_for_end(&id).await;
        assert_eq!(
            after.len(),
            events.len(),
            "nothing comes after the end, {written} written"
        );
        if cancelled.status.is_success() {
            assert_eq!(cancelled.json()["status"], "cancelled");
            assert_eq!(
                host.post(&format!("/v1/runs/{id}/cancel"), json!({}))
                    .await
                    .status
                    .as_u16(),
                200,
                "again is the same"
            );
        }
    }
    let (id, _) = {
        host.install("short", json!([{"id": "n", "typeId": "core.noop"}]))
            .await;
        host.run_to_end(json!({"workflowId": "short"})).await
    };
    let late = host.post(&format!("/v1/runs/{id}/cancel"), json!({})).await;
    assert_eq!(
        (late.status.as_u16(), late.code().as_str()),
        (409, "run_already_terminal")
    );
}

#[tokio::test]
async fn a_secret_resolved_by_a_run_appears_in_none_of_its_outputs() {
    let host = TestServer::with_seams().await;
    let probe = json!({"memoryAction": "redaction-probe", "byokSecretId": "conformance-test-secret", "memoryRef": "m"});
    host.install(
        "w",
        json!([node("p", probe), {"id": "e", "typeId": "conformance.secret.echo", "config": {"secretId": "conformance-test-secret"}}]),
    )
    .await;
    let (id, state) = host.run_to_end(json!({"workflowId": "w"})).await;
    assert_eq!(
        state["variables"]["memoryReadback"]["content"],
        "The service was called with [REDACTED:conformance-test-secret]."
    );
    assert_eq!(state["variables"]["secretByteLength"], CANARY.len());
    let everything = format!(
        "{state} {:?} {}",
        host.wait_for_end(&id).await,
        host.get(&format!("{MEMORY}/m/entries")).await.json()
    );
    assert!(!everything.contains(CANARY));
    host.install("u", json!([{"id": "e", "typeId": "conformance.secret.echo", "config": {"secretId": "nobody-has-this"}}])).await;
    let (_, state) = host.run_to_end(json!({"workflowId": "u"})).await;
    assert_eq!(state["error"]["code"], "credential_unavailable");
}

#[tokio::test]
async fn a_run_keeps_the_workspace_version_it_started_with() {
    let host = TestServer::new().await;
    let file = "/v1/host/workspace/files/notes.md";
    host.call("key-of-a", "PUT", file, &[], r#"{"content": "one"}"#)
        .await;
    host.install(
        "w",
        json!([node(
            "f",
            json!({"memoryAction": "read-file", "path": "notes.md"})
        )]),
    )
    .await;
    let (id, state) = host.run_to_end(json!({"workflowId": "w"})).await;
    assert_eq!(
        (&state["workspace"], &state["variables"]["file"]),
        (&json!([{"path": "notes.md", "version": 1}]), &json!("one"))
    );
    host.call("key-of-a", "PUT", file, &[], r#"{"content": "two"}"#)
        .await;
    let again = host.get(&format!("/v1/runs/{id}")).await.json();
    assert_eq!(
        again["workspace"], state["workspace"],
        "it does not change with the file"
    );
    let fork = host
        .post(&format!("/v1/runs/{id}:fork"), json!({"mode": "replay"}))
        .await
        .json()["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    host.wait_for_end(&fork).await;
    assert_eq!(
        host.get(&format!("/v1/runs/{fork}")).await.json()["variables"]["file"],
        "one"
    );
}

#[tokio::test]
async fn runs_of_another_tenant_are_not_found() {
    let host = TestServer::with_seams().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    host.install("mine", json!([{"id": "n", "typeId": "core.noop"}]))
        .await;
    let (id, _) = host.run_to_end(json!({"workflowId": "mine"})).await;
    let paths = [
        ("GET", ""),
        ("GET", "/events"),
        ("GET", "/events/poll"),
        ("POST", ":fork"),
        ("POST", "/cancel"),
        ("GET", "/artifacts/x"),
    ];
    for (method, rest) in paths {
        let body = if rest == ":fork" {
            r#"{"mode": "replay"}"#
        } else {
            ""
        };
        let real = host
            .call(
                "key-of-b",
                method,
                &format!("/v1/runs/{id}{rest}"),
                &[],
                body,
            )
            .await;
        let unreal = host
            .call(
                "key-of-b",
                method,
                &format!("/v1/runs/run_unheard-of{rest}"),
                &[],
                body,
            )
            .await;
        assert_eq!(
            (real.status.as_u16(), &real.bytes),
            (404, &unreal.bytes),
            "{method} {rest}"
        );
    }
    assert_eq!(
        host.call("key-of-b", "GET", "/v1/workflows/mine", &[], "")
            .await
            .status
            .as_u16(),
        404
    );
    let stream = host
        .call(
            "key-of-b",
            "GET",
            &format!("/v1/runs/{id}/events"),
            &[("accept", "text/event-stream")],
            "",
        )
        .await;
    assert_eq!(stream.status.as_u16(), 404);
    let unknown = host
        .call(
            "key-of-b",
            "POST",
            "/v1/runs",
            &[],
            r#"{"workflowId": "mine"}"#,
        )
        .await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.code().as_str()),
        (404, "workflow_not_found")
    );
}

#[tokio::test]
async fn an_invalid_workflow_is_refused() {
    let host = TestServer::new().await;
    let put = async |path: &str, body: Value| {
        host.call(
            "key-of-a",
            "PUT",
            &format!("/v1/host/remembrancer/workflows/{path}"),
            &[],
            body.to_string(),
        )
        .await
    };
    let good = json!({"id": "w", "nodes": [{"id": "n", "typeId": "core.noop"}]});
    assert_eq!(put("w", good.clone()).await.status.as_u16(), 201);
    assert_eq!(put("w", good.clone()).await.status.as_u16(), 200);
    assert_eq!(
        host.get("/v1/workflows/w").await.json()["nodes"][0]["id"],
        "n"
    );
    assert_eq!(
        host.get("/v1/host/remembrancer/workflows").await.json()["workflows"][0]["scope"],
        "tenant"
    );
    for (path, body, field) in [
        ("other", good, "id"),
        ("w", json!({"id": "w", "nodes": []}), "nodes"),
        ("w", json!({"id": "w"}), "workflow"),
        (
            "w",
            json!({"id": "w", "nodes": [{"id": "n", "typeId": "core.noop", "config": {"x": "y".repeat(70_000)}}]}),
            "workflow",
        ),
    ] {
        let refused = put(path, body).await;
        assert_eq!(
            (
                refused.status.as_u16(),
                refused.json()["details"]["field"].as_str()
            ),
            (422, Some(field)),
            "{}",
            refused.json()
        );
    }
    assert_eq!(
        host.delete("/v1/host/remembrancer/workflows/w")
            .await
            .status
            .as_u16(),
        204
    );
    assert_eq!(
        host.delete("/v1/host/remembrancer/workflows/w")
            .await
            .status
            .as_u16(),
        404
    );
    assert_eq!(host.get("/v1/workflows/w").await.status.as_u16(), 404);
}

#[tokio::test]
async fn seams_exist_only_when_enabled() {
    let with = TestServer::with_seams().await;
    let without = TestServer::new().await;
    let seams = [
        (
            "POST",
            "/v1/test/memory/seed",
            json!({"memoryRef": "m", "entries": [{"id": "e1", "content": "planted"}]}),
            201,
        ),
        ("GET", "/v1/memory/m?limit=50", json!(null), 200),
        (
            "POST",
            "/v1/host/sample/workspace/op",
            json!({"tenant": "t", "workspace": "w", "op": "put", "path": "a.md", "content": "x"}),
            200,
        ),
        (
            "POST",
            "/v1/host/sample/workspace/op",
            json!({"tenant": "t", "workspace": "w", "op": "get", "path": "a.md"}),
            200,
        ),
        (
            "POST",
            "/v1/host/sample/workspace/op",
            json!({"tenant": "t", "workspace": "other", "op": "get", "path": "a.md"}),
            404,
        ),
        (
            "GET",
            "/v1/host/sample/identity/owned-run",
            json!(null),
            200,
        ),
        (
            "POST",
            "/v1/host/sample/identity/cross-workspace-read",
            json!({}),
            404,
        ),
    ];
    for (method, path, body, status) in seams {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let there = with.call("key-of-a", method, path, &[], body.clone()).await;
        assert_eq!(
            there.status.as_u16(),
            status,
            "{method} {path}: {}",
            there.json()
        );
        assert_eq!(
            with.call("", method, path, &[], body.clone())
                .await
                .status
                .as_u16(),
            401,
            "{path}"
        );
        assert_eq!(
            without
                .call("key-of-a", method, path, &[], body)
                .await
                .status
                .as_u16(),
            404,
            "{path}"
        );
    }
    assert_eq!(
        with.get("/v1/memory/m?limit=50").await.json()["entries"][0]["id"],
        "e1"
    );
}

#[tokio::test]
async fn a_run_resolves_vault_secrets_and_its_own() {
    let host = TestServer::with_seams().await;
    let shared = "vault-value-of-the-tenant";
    let own = "value-for-this-run-only";
    let set = host
        .call(
            "key-of-a",
            "PUT",
            "/v1/host/remembrancer/secrets/shared",
            &[],
            json!({"value": shared}).to_string(),
        )
        .await;
    assert_eq!(set.status.as_u16(), 201, "{}", set.json());
    let probe = |id: &str, secret: &str| {
        node(
            id,
            json!({"memoryAction": "redaction-probe", "byokSecretId": secret, "memoryRef": "m"}),
        )
    };
    let keep = node(
        "k",
        json!({"memoryAction": "write", "memoryRef": "m", "contentFrom": "inputs.text"}),
    );
    let echo =
        json!({"id": "e", "typeId": "conformance.secret.echo", "config": {"secretId": "own"}});
    host.install(
        "w",
        json!([keep, probe("p", "shared"), echo, probe("q", "own")]),
    )
    .await;
    let text = format!("call it with {own}");
    let body = json!({"workflowId": "w", "inputs": {"text": text}, "configurable": {"secrets": {"own": own}, "model": "x"}});
    let (id, state) = host.run_to_end(body).await;
    assert_eq!(state["status"], "completed", "{state}");
    assert_eq!(
        state["configurable"],
        json!({"model": "x"}),
        "not even the name of a secret is left"
    );
    assert_eq!(state["variables"]["secretByteLength"], own.len());
    let memory = host.get(&format!("{MEMORY}/m/entries")).await.json();
    let texts: HashSet<&str> = memory["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["content"].as_str().unwrap())
        .collect();
    let expected = [
        "call it with [REDACTED:own]",
        "The service was called with [REDACTED:shared].",
        "The service was called with [REDACTED:own].",
    ];
    assert_eq!(texts, HashSet::from(expected));
    let everything = format!("{state} {memory} {:?}", host.wait_for_end(&id).await);
    assert!(!everything.contains(shared) && !everything.contains(own));
    let tenant = remem_core::TenantId::parse("a").unwrap();
    let left = host
        .store
        .records(&tenant, remem_core::RecordKind::Secret, "run/", None, 10)
        .await
        .unwrap();
    assert!(left.is_empty(), "what a run was given is gone with it");
    for kind in [remem_core::RecordKind::Run, remem_core::RecordKind::RunRead] {
        for record in host
            .store
            .records(&tenant, kind, "", None, 100)
            .await
            .unwrap()
        {
            let text = serde_json::to_string(&record.body).unwrap();
            assert!(!text.contains(own) && !text.contains(shared), "{kind:?}");
        }
    }
    for wrong in [json!({"secrets": "x"}), json!({"secrets": {"own": 7}})] {
        let refused = host
            .post(
                "/v1/runs",
                json!({"workflowId": "w", "inputs": {"text": "x"}, "configurable": wrong}),
            )
            .await;
        assert_eq!(refused.status.as_u16(), 400);
    }
    let short =
        host.post("/v1/runs", json!({"workflowId": "w", "inputs": {"text": "x"}, "configurable": {"secrets": {"own": "short"}}})).await;
    assert_eq!(
        short.status.as_u16(),
        422,
        "a value that cannot be redacted is not taken"
    );
}

#[tokio::test]
async fn a_secret_set_during_a_run_is_redacted_from_its_later_writes() {
    let host = TestServer::new().await;
    let value = "set-in-the-middle-of-it";
    let write = |n: usize| {
        node(
            &format!("w{n}"),
            json!({"memoryAction": "write", "memoryRef": "m", "content": format!("{n} {value}")}),
        )
    };
    host.install("long", json!((0..100).map(write).collect::<Vec<_>>()))
        .await;
    let id = host.start_run(json!({"workflowId": "long"})).await;
    let set = host
        .call(
            "key-of-a",
            "PUT",
            "/v1/host/remembrancer/secrets/late",
            &[],
            json!({"value": value}).to_string(),
        )
        .await;
    assert_eq!(set.status.as_u16(), 201);
    host.wait_for_end(&id).await;
    let memory = host.get(&format!("{MEMORY}/m/entries?limit=0")).await;
    assert!(
        !String::from_utf8(memory.bytes).unwrap().contains(value),
        "nobody is shown it"
    );
    let tenant = remem_core::TenantId::parse("a").unwrap();
    let scope = remem_core::Scope::new(tenant, remem_core::MemoryRef::parse("m").unwrap());
    let filter = remem_store::Filter::default();
    let page = remem_store::Page {
        limit: 1_000,
        after: None,
    };
    let at = remem_store::ReadAt::Now(NOON);
    let stored = host.store.list(&scope, &filter, &page, &at).await.unwrap();
    let last = stored.first().unwrap();
    assert_eq!(
        last.content, "99 [REDACTED:late]",
        "what was written afterwards is not even stored"
    );
}

#[tokio::test]
async fn invoking_an_agent_creates_a_run() {
    let host = TestServer::with_seams().await;
    let manifest = json!({
        "agentId": "local.desk.helper", "persona": "Helper", "modelClass": "reasoning", "systemPrompt": "Help.",
        "toolAllowlist": ["search", "mail.read"], "memoryShape": {"longTerm": true}
    });
    let installed = host
        .post(
            "/v1/host/remembrancer/agents",
            json!({"manifest": manifest}),
        )
        .await;
    assert_eq!(installed.status.as_u16(), 201, "{}", installed.json());
    let inputs = |task: &str| json!({"task": task, "availableTools": ["search", "shell"]});
    let (_, first) = host
        .run_to_end(json!({"agentId": "local.desk.helper", "inputs": inputs("Ana asked for tea")}))
        .await;
    assert_eq!(
        (first["status"].as_str(), &first["variables"]["recalled"]),
        (Some("completed"), &json!([])),
        "{first}"
    );
    assert_eq!(
        first["variables"]["tools"],
        json!(["search"]),
        "only what is allowed"
    );
    assert_eq!(first["agent"]["memoryRef"], "agents/local.desk.helper");
    let (id, second) = host
        .run_to_end(json!({"agentId": "local.desk.helper", "inputs": inputs("Ana asked again")}))
        .await;
    assert_eq!(
        second["variables"]["recalled"][0]["content"],
        "Ana asked for tea"
    );
    let events = host.wait_for_end(&id).await;
    is_sound(&events);
    let reported = [
        "agent.invocation.started",
        "memory.written",
        "agent.reasoned",
        "agent.decided",
        "agent.invocation.completed",
    ];
    assert_eq!(kinds(&events)[2..7], reported);
    for event in &events[2..7] {
        assert_eq!(event["payload"]["agentId"], "local.desk.helper");
        assert!(!event.to_string().contains("Ana"), "{event}");
    }
    // A replay calls no agent: it repeats the recorded results.
    host.delete("/v1/host/remembrancer/agents/local.desk.helper")
        .await;
    let fork = host
        .post(&format!("/v1/runs/{id}:fork"), json!({"mode": "replay"}))
        .await
        .json()["runId"]
        .as_str()
        .unwrap()
        .to_owned();
    let replayed = host.wait_for_end(&fork).await;
    let facts = |events: &[Value]| {
        events[2..7]
            .iter()
            .map(|e| json!([e["type"], e["payload"], e["timestamp"]]))
            .collect::<Vec<_>>()
    };
    assert_eq!(facts(&replayed), facts(&events));
    assert_eq!(
        host.get(&format!("/v1/runs/{fork}")).await.json()["variables"],
        second["variables"]
    );
    assert_eq!(
        host.post("/v1/runs", json!({"agentId": "local.desk.helper"}))
            .await
            .status
            .as_u16(),
        404,
        "it is gone"
    );
    assert_eq!(
        host.post(
            "/v1/runs",
            json!({"agentId": "a.b.c", "workflowId": "conformance-noop"})
        )
        .await
        .status
        .as_u16(),
        400
    );
}
