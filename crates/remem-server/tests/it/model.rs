//! The ledger of model calls over HTTP: its shape, its pages, and its isolation by tenant.

use remem_core::{
    Admission, Batch, Permission, Policy, Precondition, RecordKind, Redactor, TenantId,
};
use remem_testkit::{NOON, TestServer};
use serde_json::{Value, json};

const LEDGER: &str = "/v1/host/remembrancer/model-calls";

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

fn refused() -> Value {
    json!({
        "model": "small-one", "memoryRef": "m", "accepted": false, "why": "status", "status": 429, "durationMs": 12,
        "requestHash": "aa", "evidence": [], "undo": {"archive": "cc", "replaces": []},
    })
}

#[tokio::test]
async fn the_ledger_lists_the_outcome_of_each_model_call() {
    let host = TestServer::new().await;
    assert_eq!(host.get(LEDGER).await.json(), json!({"modelCalls": []}));
    let accepted = json!({
        "model": "small-one", "memoryRef": "m", "accepted": true, "why": "accepted", "durationMs": 34, "requestHash": "aa",
        "responseHash": "bb", "outputId": "mem_9", "evidence": [{"line": 1, "source": "mem_1", "start": 0, "end": 18}],
        "undo": {"archive": "cc", "replaces": ["mem_2"]},
    });
    keep(&host, "call_1", accepted.clone()).await;
    keep(&host, "call_2", refused()).await;
    let named = |mut body: Value, id: &str| {
        body["id"] = json!(id);
        body["at"] = json!("2023-11-14T22:13:20.000Z");
        body
    };
    let listed = host.get(LEDGER).await.json();
    assert_eq!(
        listed,
        json!({"modelCalls": [named(accepted, "call_1"), named(refused(), "call_2")]})
    );
    host.key("b", "key-of-b", &Permission::ALL).await;
    let other = host.call("key-of-b", "GET", LEDGER, &[], "").await;
    assert_eq!(
        other.json(),
        json!({"modelCalls": []}),
        "another tenant's ledger is its own"
    );
}

#[tokio::test]
async fn ledger_pages_cover_all_calls() {
    let host = TestServer::new().await;
    for number in 0..5 {
        keep(&host, &format!("call_{number}"), refused()).await;
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    for _ in 0..3 {
        let page = host.get(&format!("{LEDGER}?limit=2{after}")).await.json();
        seen.extend(
            page["modelCalls"]
                .as_array()
                .unwrap()
                .iter()
                .map(|call| call["id"].as_str().unwrap().to_owned()),
        );
        match page["nextAfter"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["call_0", "call_1", "call_2", "call_3", "call_4"]);
}
