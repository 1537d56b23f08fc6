//! The seams of conformance checks: what is advertised has one, they can be used in any order and
//! any number of times, and what a check plants as a secret is stored nowhere.

use async_trait::async_trait;
use remem_core::{Embedding, Permission};
use remem_engine::ports::{Embedder, EmbedderError};
use remem_testkit::TestServer;
use remem_testkit::server::MEMORY;
use serde_json::{Value, json};
use std::sync::Arc;

const SAMPLE: &str = "/v1/host/sample";

async fn done(host: &TestServer, seam: &str, body: Value) -> Value {
    let answer = host.post(&format!("{SAMPLE}/{seam}"), body).await;
    assert_eq!(answer.status.as_u16(), 200, "{seam}: {}", answer.json());
    answer.json()
}

#[tokio::test]
async fn each_advertised_capability_has_a_test_seam() {
    let host = TestServer::with_seams().await;
    let plain = TestServer::new().await;
    host.key(
        "a",
        "weak",
        &[Permission::MemoryRead, Permission::MemoryWrite],
    )
    .await;
    let document = host.get("/.well-known/openwop").await.json();
    for (family, seam, body) in [
        (
            "scheduling",
            "scheduling/tick",
            json!({"scenario": "single-tick"}),
        ),
        (
            "authorization",
            "authorization/decide",
            json!({"principal": "p", "action": "runs:cancel", "resource": "run_1"}),
        ),
        (
            "authorization",
            "governance/approval-gate",
            json!({"scenario": "grant"}),
        ),
    ] {
        assert_eq!(document[family]["supported"], json!(true), "{family}");
        done(&host, seam, body.clone()).await;
        let path = format!("{SAMPLE}/{seam}");
        assert_eq!(plain.post(&path, body.clone()).await.status.as_u16(), 404);
        for (key, status) in [("", 401), ("weak", 403)] {
            let refused = host.call(key, "POST", &path, &[], body.to_string()).await;
            assert_eq!(refused.status.as_u16(), status, "{seam}");
        }
        let wrong = host.post(&path, json!({"scenario": "whim"})).await;
        assert!([400, 422].contains(&wrong.status.as_u16()), "{seam}");
    }
}

#[tokio::test]
async fn a_schedule_fires_once_for_any_number_of_missed_ticks() {
    let host = TestServer::with_seams().await;
    for body in [
        json!({"scenario": "single-tick"}),
        json!({"scenario": "missed-window", "missedTicks": 5}),
        json!({"scenario": "missed-window", "missedTicks": 100_000}),
        json!({"scenario": "single-tick"}),
    ] {
        let fired = done(&host, "scheduling/tick", body.clone()).await;
        assert_eq!(fired, json!({"runsFired": 1}), "{body}");
    }
    let own = host.get("/v1/host/remembrancer/automations").await.json();
    assert_eq!(own, json!({"automations": []}), "nothing is left behind");
}

#[tokio::test]
async fn authorization_decisions_follow_the_scopes_of_the_principal() {
    let host = TestServer::with_seams().await;
    host.user("ada").await;
    host.key("b", "of-b", &Permission::ALL).await;
    let decide = async |principal: &str, action: &str| {
        let body = json!({"principal": principal, "action": action, "resource": "run_1"});
        done(&host, "authorization/decide", body).await["allowed"].clone()
    };
    assert_eq!(decide("ada", "runs:cancel").await, json!(true));
    assert_eq!(decide("ada", "runs:fly").await, json!(false));
    for unknown in ["conformance-unseeded-principal", "", "*", "local", "Ada"] {
        assert_eq!(decide(unknown, "runs:cancel").await, json!(false));
    }
    let weak = json!({"label": "bob", "scopes": ["memory:read"], "principal": "bob"});
    let made = host.post("/v1/host/remembrancer/keys", weak).await;
    assert_eq!(made.status.as_u16(), 201, "{}", made.json());
    assert_eq!(decide("bob", "memory:read").await, json!(true));
    assert_eq!(decide("bob", "runs:cancel").await, json!(false));
}

#[tokio::test]
async fn a_gate_is_released_only_by_authorized_principals() {
    let host = TestServer::with_seams().await;
    for _ in 0..2 {
        for (scenario, released, kind) in [
            ("unauthorized-grant", false, "authorization.decided"),
            ("grant", true, "approval.granted"),
            ("reject", false, "approval.rejected"),
            ("override", true, "approval.overridden"),
            ("quorum", true, "approval.granted"),
        ] {
            let body =
                json!({"scenario": scenario, "principal": "somebody", "reason": "canary-c4n4ry"});
            let gate = done(&host, "governance/approval-gate", body).await;
            assert_eq!(
                (&gate["released"], &gate["event"]["type"]),
                (&json!(released), &json!(kind)),
                "{scenario}: {gate}"
            );
            assert!(!gate.to_string().contains("canary"), "{gate}");
            if scenario == "override" {
                assert_eq!(gate["event"]["payload"]["reason"], json!("urgent"));
            }
        }
    }
    let installed = host.get("/v1/host/remembrancer/installed").await.json();
    assert_eq!(installed, json!({"installed": []}), "in nobody's tenant");
}

#[tokio::test]
async fn the_same_sources_can_be_seeded_again_after_others() {
    let host = TestServer::with_seams().await;
    let first = [
        "The orchard was picked on Monday.",
        "The press needs a belt.",
    ];
    let second = ["Ines keeps the keys.", "The orchard was picked on Monday."];
    let distill = async |sources: Value| {
        let body = json!({"memoryRef": "m", "sources": sources, "tokenBudget": 8000});
        let reported = done(&host, "memory/distill", body).await;
        (
            reported["archiveChecksum"].clone(),
            reported["event"]["sourceCount"].clone(),
        )
    };
    let one = distill(json!(first)).await;
    let two = distill(json!(second)).await;
    assert_eq!((&one.1, &two.1), (&json!(2), &json!(2)));
    assert_ne!(one.0, two.0);
    for _ in 0..2 {
        let turned = json!([{"content": first[1]}, {"content": first[0]}]);
        assert_eq!(distill(turned).await, one, "the same sources again");
        assert_eq!(distill(json!([second[0]])).await.1, json!(1));
        assert_eq!(distill(json!(second)).await, two);
    }
    let plain = done(&host, "memory/distill", json!({"memoryRef": "m"})).await;
    for _ in 0..2 {
        let body = json!({"memoryRef": "m", "includeSecretCanary": true});
        let canary = done(&host, "memory/distill", body).await;
        assert_eq!(
            (&canary["event"]["sourceCount"], &canary["secretLeaked"]),
            (&json!(13), &json!(false))
        );
        let again = done(&host, "memory/distill", json!({"memoryRef": "m"})).await;
        assert_eq!(again["archiveChecksum"], plain["archiveChecksum"]);
    }
}

#[tokio::test]
async fn a_canary_secret_planted_by_a_check_is_not_stored() {
    const CANARY: &str = "sk-canary-rfc0062-do-not-leak-qrs456";
    let host = TestServer::with_seams().await;
    let sources = json!([{"content": format!("notes with embedded secret {CANARY}")}]);
    let body = json!({"memoryRef": "m", "tokenBudget": 8000, "includeSecretCanary": true, "sources": sources});
    let reported = done(&host, "memory/distill", body).await;
    assert_eq!(reported["secretLeaked"], json!(false));
    let checksum = reported["archiveChecksum"].as_str().unwrap();
    for path in [
        format!("{MEMORY}/m/entries?limit=0&include=metadata"),
        format!("{MEMORY}/m/archives/{checksum}"),
        "/v1/host/remembrancer/events?limit=0".to_owned(),
        "/v1/host/workspace/files/MEMORY-INDEX.json".to_owned(),
    ] {
        let answer = host.get(&path).await;
        assert_eq!(answer.status.as_u16(), 200, "{path}");
        let text = String::from_utf8(answer.bytes).unwrap();
        assert!(!text.contains(CANARY), "{path}: {text}");
    }
    let entries = host
        .get(&format!("{MEMORY}/m/entries?limit=0"))
        .await
        .json();
    assert!(entries.to_string().contains("[REDACTED:"), "{entries}");
}

/// Makes vectors that are all alike: what is found is found by words.
struct Alike;

#[async_trait]
impl Embedder for Alike {
    fn name(&self) -> &str {
        "alike"
    }

    fn dimensions(&self) -> usize {
        8
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Embedding>, EmbedderError> {
        let one = |_| Embedding::from_components(&[1.0; 8]).ok_or(EmbedderError::Malformed);
        texts.iter().map(one).collect()
    }
}

#[tokio::test]
async fn the_budget_fixture_yields_both_orders_with_an_embedder() {
    let action = json!({"memoryAction": "list-budgeted", "tokenBudget": 800, "rank": "recency", "memoryRef": "budget"});
    let nodes = json!([{"id": "n", "typeId": "core.identity", "config": action}]);
    let host = TestServer::with_seams_and_embedder(Arc::new(Alike)).await;
    host.install("budget", nodes.clone()).await;
    for _ in 0..2 {
        let (_, run) = host.run_to_end(json!({"workflowId": "budget"})).await;
        let names = |order: &str| -> Vec<String> {
            serde_json::from_value(run["variables"][order].clone()).unwrap_or_default()
        };
        let recency = names("recencyOrder");
        let relevance = names("relevanceOrder");
        assert_eq!(recency.len(), 2, "{run}");
        assert_eq!(recency.len(), relevance.len());
        assert_ne!(recency, relevance);
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        assert_eq!(sorted(recency), sorted(relevance), "the same entries");
    }
    let plain = TestServer::with_seams().await;
    plain.install("budget", nodes).await;
    let (_, run) = plain.run_to_end(json!({"workflowId": "budget"})).await;
    assert_eq!(run["status"], json!("completed"));
    assert_eq!(run["variables"]["relevanceOrder"], Value::Null, "{run}");
}
