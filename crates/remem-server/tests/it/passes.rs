//! Passes over HTTP: a job from its start to its end, a schedule, and what the list of passes
//! shows.

use remem_core::{Permission, TenantId};
use remem_engine::registry::{self, PassMode};
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestServer};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicI64, Ordering};

const BASE: &str = "/v1/host/remembrancer";

async fn activate(host: &TestServer, pass: &str) {
    let tenant = TenantId::parse("a").unwrap();
    host.engine
        .run_pass(registry::find(pass).unwrap(), &tenant, PassMode::Apply)
        .await
        .unwrap();
}

async fn pass(host: &TestServer, name: &str) -> Value {
    let list = host.get(&format!("{BASE}/passes")).await.json();
    list["passes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pass| pass["name"] == name)
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_job_is_started_listed_and_completed() {
    let host = TestServer::new().await;
    host.post(&format!("{MEMORY}/m/entries"), json!({"content": "x"}))
        .await;
    let run = format!("{BASE}/passes/consolidate/run");
    let dry = host
        .post(&run, json!({"memoryRef": "m", "dryRun": true}))
        .await;
    assert_eq!(
        (dry.status.as_u16(), &dry.json()["more"]),
        (200, &json!(false))
    );
    let started = host.post(&run, json!({"memoryRef": "m"})).await;
    assert_eq!(started.status, 202);
    let id = started.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(started.header("location"), format!("{BASE}/jobs/{id}"));
    assert_eq!(
        host.post(&run, json!({"memoryRef": "m"})).await.json()["id"],
        json!(id),
        "one that waits is enough"
    );
    assert_eq!(
        (
            &pass(&host, "consolidate").await["queued"],
            &pass(&host, "compact").await["queued"]
        ),
        (&json!(1), &json!(0))
    );
    activate(&host, "consolidate").await;
    let job = host.get(&format!("{BASE}/jobs/{id}")).await.json();
    assert_eq!(
        (&job["state"], &job["memoryRef"], &job["trigger"]),
        (&json!("done"), &json!("m"), &json!("on-demand"))
    );
    let shown = pass(&host, "consolidate").await;
    assert_eq!(
        (&shown["lastJob"], &shown["lastRunAt"], &shown["queued"]),
        (&job, &job["endedAt"], &json!(0))
    );
    let late = host
        .post(&format!("{BASE}/jobs/{id}/cancel"), json!({}))
        .await;
    assert_eq!(
        (late.status.as_u16(), late.code().as_str()),
        (409, "job_already_ended")
    );
    let other = host.post(&run, json!({})).await.json();
    assert_eq!(other["memoryRef"], Value::Null);
    let cancelled = host
        .post(
            &format!("{BASE}/jobs/{}/cancel", other["id"].as_str().unwrap()),
            json!({}),
        )
        .await
        .json();
    assert_eq!(cancelled["state"], "cancelled");
    let listed = host.get(&format!("{BASE}/jobs?limit=1")).await.json();
    assert_eq!(
        (&listed["jobs"][0]["id"], &listed["nextAfter"]),
        (&other["id"], &other["id"])
    );
    let next = host
        .get(&format!(
            "{BASE}/jobs?limit=1&after={}",
            other["id"].as_str().unwrap()
        ))
        .await
        .json();
    assert_eq!(next, json!({"jobs": [job]}));
    let done = host
        .get(&format!("{BASE}/jobs?state=done&pass=consolidate"))
        .await
        .json();
    assert_eq!(done, json!({"jobs": [job]}));
    assert_eq!(
        host.get(&format!("{BASE}/jobs?pass=compact")).await.json(),
        json!({"jobs": []})
    );
}

#[tokio::test]
async fn a_schedule_is_set_and_fires() {
    let host = TestServer::new().await;
    let path = format!("{BASE}/passes/distill/schedule?memoryRef=m");
    let body = json!({"every": "PT1H", "options": {"tokenBudget": 100}}).to_string();
    let set = host.call("key-of-a", "PUT", &path, &[], body).await;
    assert_eq!(set.status, 200, "{:?}", set.json());
    assert_eq!(
        set.json()["nextDue"],
        json!(NOON.plus_ms(3_600_000).rfc3339())
    );
    assert_eq!(host.get(&path).await.json(), set.json());
    assert_eq!(
        pass(&host, "distill").await["nextDue"],
        set.json()["nextDue"]
    );
    host.clock.set(NOON.plus_ms(3_600_000));
    activate(&host, "jobs").await;
    let jobs = host.get(&format!("{BASE}/jobs")).await.json();
    assert_eq!(
        (&jobs["jobs"][0]["trigger"], &jobs["jobs"][0]["options"]),
        (&json!("scheduled"), &json!({"tokenBudget": 100}))
    );
    let ticked = host.get(&format!("{BASE}/schedules")).await.json()["schedules"][0].clone();
    assert_eq!(
        (&ticked["lastDue"], &ticked["lastJobId"]),
        (&set.json()["nextDue"], &jobs["jobs"][0]["id"])
    );
    assert_eq!(host.delete(&path).await.status, 204);
    assert_eq!(host.get(&path).await.status, 404);
}

const WORDS: [&str; 40] = [
    "amber", "anchor", "basket", "beacon", "candle", "canyon", "copper", "dragon", "ember",
    "falcon", "fiddle", "garden", "glacier", "hammer", "harbour", "indigo", "ivory", "jasper",
    "kettle", "lantern", "ledger", "marble", "meadow", "nectar", "needle", "orchard", "oyster",
    "paddle", "pepper", "quarry", "ribbon", "saddle", "silver", "timber", "tunnel", "velvet",
    "walnut", "willow", "yonder", "zephyr",
];
const KINDS: usize = 180;
const AGAIN: usize = 90;

/// A text that shares little with the others.
fn saying(n: usize) -> String {
    let mut state = 2 * n as u64 + 1;
    let word = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        WORDS[usize::try_from(state >> 33).unwrap() % WORDS.len()]
    };
    format!(
        "Case{n}x {}.",
        (0..9).map(word).collect::<Vec<_>>().join(" ")
    )
}

async fn put_all(host: &TestServer, memory: &str, texts: impl Iterator<Item = String>) {
    let entries: Vec<Value> = texts.map(|text| json!({"content": text})).collect();
    let put = host
        .post(
            &format!("{MEMORY}/{memory}/entries:batch"),
            json!({"entries": entries}),
        )
        .await;
    assert_eq!(put.status, 201, "{}", put.json());
}

/// Some hundred texts; later, half of them once more in nearly the same words.
async fn with_duplicates() -> TestServer {
    let host = TestServer::new().await;
    put_all(&host, "m", (0..KINDS).map(saying)).await;
    host.clock.set(NOON.plus_ms(60_000));
    put_all(&host, "m", (0..AGAIN).map(|n| saying(n).replace('.', "!"))).await;
    host
}

async fn entries(host: &TestServer, memory: &str) -> Vec<Value> {
    host.get(&format!("{MEMORY}/{memory}/entries?limit=0"))
        .await
        .json()["entries"]
        .as_array()
        .unwrap()
        .clone()
}

async fn feed(host: &TestServer) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let page = host
            .get(&format!("{BASE}/events?after={}", all.len()))
            .await
            .json();
        let events = page["events"].as_array().unwrap();
        if events.is_empty() {
            return all;
        }
        all.extend(events.iter().cloned());
    }
}

async fn payloads_of(host: &TestServer, kind: &str) -> Vec<Value> {
    feed(host)
        .await
        .into_iter()
        .filter(|event| event["type"] == kind)
        .map(|event| event["payload"].clone())
        .collect()
}

/// Starts a job and runs it; returns the ended job.
async fn work(host: &TestServer, name: &str, body: Value) -> Value {
    let started = host.post(&format!("{BASE}/passes/{name}/run"), body).await;
    assert_eq!(started.status, 202, "{}", started.json());
    activate(host, name).await;
    host.get(&format!(
        "{BASE}/jobs/{}",
        started.json()["id"].as_str().unwrap()
    ))
    .await
    .json()
}

/// Returns the hits that hold a word of the query, without the neighbours that a search finds as
/// well.
async fn hits(host: &TestServer, memory: &str, query: &str) -> Vec<String> {
    let search = json!({"query": query, "limit": 0, "explain": true});
    let found = host
        .post(&format!("{MEMORY}/{memory}/search"), search)
        .await
        .json();
    let holding = found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|hit| hit["parts"]["lexical"].as_f64().unwrap() > 0.0);
    holding
        .map(|hit| hit["entry"]["content"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_dry_run_of_each_pass_changes_nothing() {
    let host = with_duplicates().await;
    let before = entries(&host, "m").await;
    let events = feed(&host).await;
    assert_eq!(before.len(), KINDS + AGAIN);
    for (name, options, changed) in [
        ("consolidate", json!({}), AGAIN),
        ("compact", json!({"include": "all"}), KINDS + AGAIN),
        ("compact", json!({}), 0),
        ("distill", json!({}), 1),
    ] {
        let dry = host
            .post(
                &format!("{BASE}/passes/{name}/run"),
                json!({"memoryRef": "m", "dryRun": true, "options": options}),
            )
            .await;
        assert_eq!(
            (dry.status.as_u16(), &dry.json()["changed"]),
            (200, &json!(changed)),
            "{name}"
        );
    }
    assert_eq!(
        (entries(&host, "m").await, feed(&host).await),
        (before, events)
    );
    assert_eq!(
        host.get(&format!("{BASE}/jobs")).await.json(),
        json!({"jobs": []})
    );
    assert_eq!(
        host.get("/v1/host/workspace/files/MEMORY-INDEX.json")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn consolidation_merges_reports_progress_and_is_idempotent() {
    let host = with_duplicates().await;
    let before = entries(&host, "m").await;
    assert_eq!(hits(&host, "m", "Case7x").await.len(), 2);
    let started = host
        .post(
            &format!("{BASE}/passes/consolidate/run"),
            json!({"memoryRef": "m"}),
        )
        .await;
    assert_eq!(started.status, 202);
    // Time passes while the pass works, so that it reports its progress; less of it than a
    // lease lasts.
    let clock = host.clock.clone();
    let ticks = AtomicI64::new(0);
    host.env.faults.before_each_commit(move |_| {
        let tick = ticks.fetch_add(1, Ordering::SeqCst).min(20);
        clock.set(NOON.plus_ms(60_000 + tick * 1_100));
        Box::pin(async {})
    });
    activate(&host, "consolidate").await;
    host.env.faults.clear_hook();
    let job = host
        .get(&format!(
            "{BASE}/jobs/{}",
            started.json()["id"].as_str().unwrap()
        ))
        .await
        .json();
    assert_eq!(
        (&job["state"], &job["examined"], &job["changed"]),
        (&json!("done"), &json!(KINDS + AGAIN), &json!(AGAIN)),
        "{job}"
    );
    assert_eq!(
        job["detail"],
        json!({"inputCount": KINDS + AGAIN, "outputCount": KINDS, "merged": AGAIN, "superseded": 0})
    );
    let progress = payloads_of(&host, "pass.progress").await;
    assert!(!progress.is_empty(), "it says how far it has come");
    assert!(
        progress
            .iter()
            .all(|one| one["jobId"] == job["id"] && one["done"].as_u64() <= one["total"].as_u64()),
        "{progress:?}"
    );
    let ended = payloads_of(&host, "pass.ended").await;
    assert_eq!(
        (ended.len(), &ended[0]["outcome"], &ended[0]["changed"]),
        (1, &json!("done"), &json!(AGAIN))
    );
    let after = entries(&host, "m").await;
    assert_eq!(after.len(), KINDS);
    for n in 0..AGAIN {
        assert_eq!(
            hits(&host, "m", &format!("Case{n}x")).await,
            [saying(n).replace('.', "!")],
            "the newest wording, once"
        );
    }
    let retired = payloads_of(&host, "memory.retired").await;
    assert_eq!(retired.len(), AGAIN);
    let gone = |id: &Value| {
        before.iter().any(|entry| entry["id"] == *id)
            && !after.iter().any(|entry| entry["id"] == *id)
    };
    assert!(
        retired
            .iter()
            .all(|one| one["reason"] == "merged" && gone(&one["memoryId"]) && !gone(&one["by"])),
        "{retired:?}"
    );
    let again = work(&host, "consolidate", json!({"memoryRef": "m"})).await;
    assert_eq!(
        (&again["state"], &again["changed"]),
        (&json!("done"), &json!(0))
    );
    assert_eq!(entries(&host, "m").await, after);
    let consolidated = payloads_of(&host, "agent.memory.consolidated").await;
    let facts = |input: usize| json!({"memoryRef": "m", "inputCount": input, "outputCount": KINDS, "trigger": "on-demand"});
    let without_names = |mut payload: Value| {
        payload
            .as_object_mut()
            .unwrap()
            .remove("mergedIds")
            .map(|names| (payload, names))
            .unwrap()
    };
    assert_eq!(consolidated.len(), 2);
    let (first, names) = without_names(consolidated[0].clone());
    assert_eq!(
        (first, names.as_array().unwrap().len()),
        (facts(KINDS + AGAIN), AGAIN)
    );
    assert_eq!(
        without_names(consolidated[1].clone()),
        (facts(KINDS), json!([]))
    );
}

#[tokio::test]
async fn a_job_cancelled_before_it_starts_changes_nothing() {
    let host = with_duplicates().await;
    let id = host
        .post(
            &format!("{BASE}/passes/consolidate/run"),
            json!({"memoryRef": "m"}),
        )
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let cancelled = host
        .post(&format!("{BASE}/jobs/{id}/cancel"), json!({}))
        .await
        .json();
    assert_eq!(cancelled["state"], "cancelled");
    activate(&host, "consolidate").await;
    assert_eq!(
        (
            entries(&host, "m").await.len(),
            payloads_of(&host, "memory.retired").await.len()
        ),
        (KINDS + AGAIN, 0)
    );
    assert_eq!(
        host.get(&format!("{BASE}/jobs/{id}")).await.json()["state"],
        "cancelled"
    );
}

#[tokio::test]
async fn distillation_keeps_its_sources_and_is_idempotent() {
    let host = TestServer::new().await;
    put_all(&host, "m", (0..60).map(saying)).await;
    let body = json!({"memoryRef": "m", "options": {"tokenBudget": 1_500, "markdown": true}});
    let first = work(&host, "distill", body.clone()).await;
    assert_eq!(
        (&first["state"], &first["changed"]),
        (&json!("done"), &json!(1)),
        "{first}"
    );
    let after = entries(&host, "m").await;
    assert_eq!(after.len(), 61);
    let digest = after
        .iter()
        .find(|entry| entry["id"] == first["detail"]["outputId"])
        .unwrap();
    let parts: Vec<String> = (0..60).map(saying).collect();
    let kept = parts
        .iter()
        .filter(|part| digest["content"].as_str().unwrap().contains(part.as_str()))
        .count();
    assert!((5..60).contains(&kept), "verbatim parts of some: {kept}");
    let events = payloads_of(&host, "memory.compacted").await;
    assert_eq!(events.len(), 1);
    let distillation = &events[0]["distillation"];
    assert_eq!(
        (&distillation["tokenBudget"], &distillation["tokensUsed"]),
        (&json!(1_500), &first["detail"]["tokensUsed"])
    );
    assert!(distillation["tokensUsed"].as_u64().unwrap() <= 1_500);
    let second = work(&host, "distill", body).await;
    assert_eq!(
        (&second["state"], &second["changed"]),
        (&json!("done"), &json!(0))
    );
    assert_eq!(second["detail"]["archive"], first["detail"]["archive"]);
    assert_eq!(
        (
            entries(&host, "m").await,
            payloads_of(&host, "memory.compacted").await.len()
        ),
        (after, 1)
    );
    for file in ["MEMORY-INDEX.json", "MEMORY-INDEX.md"] {
        let file = host
            .get(&format!("/v1/host/workspace/files/{file}"))
            .await
            .json();
        assert_eq!(file["version"], 1);
        assert!(
            file["content"]
                .as_str()
                .unwrap()
                .contains(first["detail"]["outputId"].as_str().unwrap()),
            "{file}"
        );
    }
    let small = work(
        &host,
        "distill",
        json!({"memoryRef": "m", "options": {"tokenBudget": 1}}),
    )
    .await;
    assert_eq!(
        (&small["state"], &small["error"]["code"]),
        (&json!("failed"), &json!("token_budget_exceeded"))
    );
    assert!(
        small["error"]["details"]["minimumRequired"]
            .as_u64()
            .unwrap()
            > 1,
        "{small}"
    );
    assert_eq!(
        host.get("/v1/host/workspace/files/MEMORY-INDEX.json")
            .await
            .json()["version"],
        1
    );
}

#[tokio::test]
async fn compaction_of_all_leaves_one_output_and_expiring_entries() {
    let host = TestServer::new().await;
    put_all(&host, "m", (0..40).map(saying)).await;
    host.post(
        &format!("{MEMORY}/m/entries"),
        json!({"content": "Ends soon.", "expiresAt": NOON.plus_ms(86_400_000).rfc3339()}),
    )
    .await;
    let none = work(&host, "compact", json!({"memoryRef": "m"})).await;
    assert_eq!(
        (&none["state"], &none["changed"]),
        (&json!("done"), &json!(0)),
        "what is kept for long is left alone: {none}"
    );
    let job = work(
        &host,
        "compact",
        json!({"memoryRef": "m", "options": {"include": "all"}}),
    )
    .await;
    assert_eq!(
        (&job["state"], &job["changed"], &job["detail"]["leftOut"]),
        (&json!("done"), &json!(40), &json!(1)),
        "{job}"
    );
    assert_eq!(
        (&job["done"], &job["total"]),
        (&json!(40), &json!(40)),
        "what is done is done"
    );
    let left = entries(&host, "m").await;
    assert_eq!(left.len(), 2, "the new one, and the one that has an end");
    let output = &job["detail"]["outputs"][0];
    assert_eq!(
        payloads_of(&host, "memory.compacted").await,
        std::slice::from_ref(output)
    );
    let made = left
        .iter()
        .find(|entry| entry["id"] == output["outputId"])
        .unwrap();
    assert!(
        made["tags"].as_array().unwrap().contains(&json!(format!(
            "compacted-from:{}",
            job["id"].as_str().unwrap()
        ))),
        "{made}"
    );
    let found = hits(&host, "m", "Case3x Case4x Case5x").await;
    assert!(
        found.iter().all(|text| *text == made["content"]),
        "sources are not found any more: {found:?}"
    );
    let again = work(
        &host,
        "compact",
        json!({"memoryRef": "m", "options": {"include": "all"}}),
    )
    .await;
    assert_eq!(
        (&again["changed"], entries(&host, "m").await),
        (&json!(0), left),
        "a digest is not made of a digest"
    );
}

#[tokio::test]
async fn a_due_schedule_fires_once_for_several_missed_ticks() {
    let host = with_duplicates().await;
    let path = format!("{BASE}/passes/consolidate/schedule?memoryRef=m");
    let set = host
        .call(
            "key-of-a",
            "PUT",
            &path,
            &[],
            json!({"every": "PT1H"}).to_string(),
        )
        .await;
    assert_eq!(set.status, 200, "{}", set.json());
    activate(&host, "jobs").await;
    assert_eq!(
        host.get(&format!("{BASE}/jobs")).await.json(),
        json!({"jobs": []}),
        "not before its time"
    );
    // Six ticks were missed: they become one.
    host.clock.set(NOON.plus_ms(60_000 + 6 * 3_600_000));
    for _ in 0..3 {
        activate(&host, "jobs").await;
        activate(&host, "consolidate").await;
    }
    let jobs = host.get(&format!("{BASE}/jobs")).await.json()["jobs"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    assert_eq!(
        (&jobs[0]["state"], &jobs[0]["changed"], &jobs[0]["trigger"]),
        (&json!("done"), &json!(AGAIN), &json!("scheduled"))
    );
    let events = payloads_of(&host, "agent.memory.consolidated").await;
    assert_eq!(
        (events.len(), &events[0]["trigger"]),
        (1, &json!("scheduled"))
    );
}

#[tokio::test]
async fn jobs_and_schedules_of_another_tenant_are_not_found() {
    let host = with_duplicates().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let schedule = format!("{BASE}/passes/distill/schedule?memoryRef=m");
    assert_eq!(
        host.call(
            "key-of-a",
            "PUT",
            &schedule,
            &[],
            json!({"every": "P1D"}).to_string()
        )
        .await
        .status,
        200
    );
    let id = host
        .post(
            &format!("{BASE}/passes/consolidate/run"),
            json!({"memoryRef": "m"}),
        )
        .await
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    for (method, path) in [
        ("GET", format!("{BASE}/jobs/{id}")),
        ("POST", format!("{BASE}/jobs/{id}/cancel")),
        ("GET", schedule.clone()),
        ("DELETE", schedule.clone()),
    ] {
        let theirs = host.call("key-of-b", method, &path, &[], "").await;
        assert_eq!(
            (theirs.status.as_u16(), theirs.code().as_str()),
            (404, "not_found"),
            "{method} {path}"
        );
    }
    for list in ["jobs", "schedules"] {
        assert_eq!(
            host.call("key-of-b", "GET", &format!("{BASE}/{list}"), &[], "")
                .await
                .json(),
            json!({list: []})
        );
    }
    // Their pass over a memory of the same name finds theirs, which is empty.
    let dry = host
        .call(
            "key-of-b",
            "POST",
            &format!("{BASE}/passes/consolidate/run"),
            &[],
            r#"{"memoryRef": "m", "dryRun": true}"#,
        )
        .await;
    assert_eq!(dry.json()["examined"], 0);
    activate(&host, "consolidate").await;
    assert_eq!(
        host.get(&format!("{BASE}/jobs/{id}")).await.json()["state"],
        "done",
        "and ours went on"
    );
    assert_eq!(host.get(&schedule).await.status, 200);
}

#[tokio::test]
async fn pass_seams_check_permission_before_writing() {
    let host = TestServer::with_seams().await;
    host.key(
        "a",
        "weak",
        &[Permission::MemoryRead, Permission::MemoryWrite],
    )
    .await;
    for seam in [
        "/v1/test/memory/compact",
        "/v1/host/sample/memory/consolidate",
        "/v1/host/sample/memory/distill",
    ] {
        let weak = host
            .call("weak", "POST", seam, &[], r#"{"memoryRef": "m"}"#)
            .await;
        assert_eq!(
            (weak.status.as_u16(), weak.code().as_str()),
            (403, "forbidden"),
            "{seam}"
        );
        assert_eq!(
            entries(&host, "m").await,
            [json!(null); 0],
            "{seam} left something"
        );
        let nobody = host
            .call("", "POST", seam, &[], r#"{"memoryRef": "m"}"#)
            .await;
        assert_eq!(nobody.status, 401, "{seam}");
        assert_eq!(
            TestServer::new()
                .await
                .post(seam, json!({"memoryRef": "m"}))
                .await
                .status,
            404,
            "{seam} without the flag"
        );
    }
}
