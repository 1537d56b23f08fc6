//! Passes over HTTP: a job from its start to its end, a schedule, and what the list of passes shows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Host, MEMORY, NOON};
use remem_core::TenantId;
use remem_engine::registry::{self, Mode};
use serde_json::{Value, json};

const BASE: &str = "/v1/host/remembrancer";

async fn activate(host: &Host, pass: &str) {
    let tenant = TenantId::parse("a").unwrap();
    host.engine.run_pass(registry::find(pass).unwrap(), &tenant, Mode::Apply).await.unwrap();
}

async fn pass(host: &Host, name: &str) -> Value {
    let list = host.get(&format!("{BASE}/passes")).await.json();
    list["passes"].as_array().unwrap().iter().find(|pass| pass["name"] == name).unwrap().clone()
}

#[tokio::test]
async fn a_job_is_started_shown_and_done() {
    let host = Host::new().await;
    host.post(&format!("{MEMORY}/m/entries"), json!({"content": "x"})).await;
    let run = format!("{BASE}/passes/consolidate/run");
    let dry = host.post(&run, json!({"memoryRef": "m", "dryRun": true})).await;
    assert_eq!((dry.status.as_u16(), &dry.json()["more"]), (200, &json!(false)));
    let started = host.post(&run, json!({"memoryRef": "m"})).await;
    assert_eq!(started.status, 202);
    let id = started.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(started.header("location"), format!("{BASE}/jobs/{id}"));
    assert_eq!(host.post(&run, json!({"memoryRef": "m"})).await.json()["id"], json!(id), "one that waits is enough");
    assert_eq!((&pass(&host, "consolidate").await["queued"], &pass(&host, "compact").await["queued"]), (&json!(1), &json!(0)));
    activate(&host, "consolidate").await;
    let job = host.get(&format!("{BASE}/jobs/{id}")).await.json();
    assert_eq!((&job["state"], &job["memoryRef"], &job["trigger"]), (&json!("done"), &json!("m"), &json!("on-demand")));
    let shown = pass(&host, "consolidate").await;
    assert_eq!((&shown["lastJob"], &shown["lastRunAt"], &shown["queued"]), (&job, &job["endedAt"], &json!(0)));
    let late = host.post(&format!("{BASE}/jobs/{id}/cancel"), json!({})).await;
    assert_eq!((late.status.as_u16(), late.code().as_str()), (409, "job_already_ended"));
    let other = host.post(&run, json!({})).await.json();
    assert_eq!(other["memoryRef"], Value::Null);
    let cancelled = host.post(&format!("{BASE}/jobs/{}/cancel", other["id"].as_str().unwrap()), json!({})).await.json();
    assert_eq!(cancelled["state"], "cancelled");
    let listed = host.get(&format!("{BASE}/jobs?limit=1")).await.json();
    assert_eq!((&listed["jobs"][0]["id"], &listed["nextAfter"]), (&other["id"], &other["id"]));
    let next = host.get(&format!("{BASE}/jobs?limit=1&after={}", other["id"].as_str().unwrap())).await.json();
    assert_eq!(next, json!({"jobs": [job]}));
    let done = host.get(&format!("{BASE}/jobs?state=done&pass=consolidate")).await.json();
    assert_eq!(done, json!({"jobs": [job]}));
    assert_eq!(host.get(&format!("{BASE}/jobs?pass=compact")).await.json(), json!({"jobs": []}));
}

#[tokio::test]
async fn a_schedule_is_set_and_ticks() {
    let host = Host::new().await;
    let path = format!("{BASE}/passes/distill/schedule?memoryRef=m");
    let body = json!({"every": "PT1H", "options": {"tokenBudget": 100}}).to_string();
    let set = host.call("key-of-a", "PUT", &path, &[], body).await;
    assert_eq!(set.status, 200, "{:?}", set.json());
    assert_eq!(set.json()["nextDue"], json!(NOON.plus_ms(3_600_000).rfc3339()));
    assert_eq!(host.get(&path).await.json(), set.json());
    assert_eq!(pass(&host, "distill").await["nextDue"], set.json()["nextDue"]);
    host.clock.set(NOON.plus_ms(3_600_000));
    activate(&host, "jobs").await;
    let jobs = host.get(&format!("{BASE}/jobs")).await.json();
    assert_eq!((&jobs["jobs"][0]["trigger"], &jobs["jobs"][0]["options"]), (&json!("scheduled"), &json!({"tokenBudget": 100})));
    let ticked = host.get(&format!("{BASE}/schedules")).await.json()["schedules"][0].clone();
    assert_eq!((&ticked["lastDue"], &ticked["lastJobId"]), (&set.json()["nextDue"], &jobs["jobs"][0]["id"]));
    assert_eq!(host.delete(&path).await.status, 204);
    assert_eq!(host.get(&path).await.status, 404);
}
