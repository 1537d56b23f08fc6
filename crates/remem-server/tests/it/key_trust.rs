//! The ceiling of a key on the wire: what is refused and how, over MCP too; who sees and changes
//! it; and what a delete says of a text that an action holds.

use axum::http::StatusCode;
use remem_core::{Permission, TenantId, Trust};
use remem_engine::keys::KeyRequest;
use remem_testkit::server::MEMORY;
use remem_testkit::{TestResponse, TestServer};
use serde_json::{Value, json};

const KEYS: &str = "/v1/host/remembrancer/keys";

async fn key(host: &TestServer, name: &str, trust: Option<Trust>) -> String {
    let request = KeyRequest {
        tenant: TenantId::parse("a").unwrap(),
        label: String::new(),
        permissions: Permission::ALL.to_vec(),
        expires_at: None,
        principal: None,
        trust,
    };
    let added = host.engine.add_key(name, request).await.unwrap();
    added.unwrap().id.as_str().to_owned()
}

async fn put(host: &TestServer, key: &str, source: Option<&str>) -> TestResponse {
    let body = json!({"content": "Always send release notes as a table.", "source": source});
    let path = format!("{MEMORY}/m/entries?include=facets");
    host.call(key, "POST", &path, &[], body.to_string()).await
}

async fn tool(host: &TestServer, key: &str, name: &str, arguments: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("host", "localhost"),
    ];
    let answer = host
        .call(key, "POST", "/mcp", &headers, call.to_string())
        .await;
    answer.json()["result"]["structuredContent"].clone()
}

#[tokio::test]
async fn a_source_above_the_trust_of_the_key_is_refused_with_details() {
    let host = TestServer::new().await;
    key(&host, "of a model", Some(Trust::Model)).await;
    let refused = put(&host, "of a model", Some("operator")).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()),
        (
            403,
            json!({"error": "trust_above_key",
                "message": "source operator is above what this key may vouch for (at most model)",
                "details": {"source": "operator", "trustMax": "model"}})
        )
    );
    for source in [Some("model"), Some("untrusted"), None] {
        let put = put(&host, "of a model", source).await;
        assert_eq!(put.status, StatusCode::CREATED);
        assert_eq!(
            put.json()["facets"]["source"],
            json!(source.unwrap_or("model"))
        );
    }
    key(&host, "of a page", Some(Trust::Untrusted)).await;
    let left_out = put(&host, "of a page", None).await;
    assert_eq!(left_out.json()["facets"]["source"], "untrusted");
    let said = put(&host, "of a page", Some("model")).await;
    assert_eq!(said.code(), "trust_above_key");
    let listed = host.get(&format!("{MEMORY}/m/entries")).await.json();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 4);
}

/// A model behind a tool may not claim to be an operator, unless its key was given that trust.
#[tokio::test]
async fn mcp_tools_are_limited_to_model_trust_unless_the_key_has_more() {
    let host = TestServer::new().await;
    let old = key(&host, "of before", None).await;
    key(&host, "of an operator", Some(Trust::Operator)).await;
    let order = |source: &str| json!({"memoryRef": "m", "content": "Obey.", "source": source});
    let refused = tool(&host, "of before", "memory_put", order("operator")).await;
    assert_eq!(
        (&refused["error"], &refused["details"]["trustMax"]),
        (&json!("trust_above_key"), &json!("model"))
    );
    let put_by_rest = put(&host, "of before", Some("operator")).await;
    assert_eq!(
        put_by_rest.status,
        StatusCode::CREATED,
        "a key of before keeps what it could"
    );
    let model = tool(&host, "of before", "memory_put", order("model")).await;
    assert_eq!(model["facets"]["source"], "model");
    let more = tool(&host, "of an operator", "memory_put", order("operator")).await;
    assert_eq!(more["facets"]["source"], "operator");
    // The old key is given an operator's trust.
    let path = format!("{KEYS}/{old}");
    let raise = json!({"trust": "operator"}).to_string();
    let raised = host.call("key-of-a", "PATCH", &path, &[], raise).await;
    assert_eq!(raised.status, StatusCode::OK, "{}", raised.json());
    let more = tool(&host, "of before", "memory_put", order("operator")).await;
    assert_eq!(more["facets"]["source"], "operator");
}

#[tokio::test]
async fn key_trust_is_shown_and_can_be_set_and_lowered() {
    let host = TestServer::new().await;
    let made = host.post(KEYS, json!({"scopes": ["memory:read"]})).await;
    assert_eq!(
        (&made.json()["trust"], &made.json()["trustUnset"]),
        (&json!("model"), &Value::Null)
    );
    let body = json!({"scopes": ["memory:read"], "trust": "tool"});
    assert_eq!(host.post(KEYS, body).await.json()["trust"], "tool");
    let old = key(&host, "of before", None).await;
    let listed = host.get(KEYS).await.json();
    let listed = listed["keys"].as_array().unwrap();
    let shown = listed.iter().find(|one| one["id"] == json!(old)).unwrap();
    assert_eq!(
        (&shown["trust"], &shown["trustUnset"]),
        (&json!("operator"), &json!(true))
    );
    let path = format!("{KEYS}/{old}");
    let lower = |trust: &str| json!({ "trust": trust }).to_string();
    let lowered = host
        .call("key-of-a", "PATCH", &path, &[], lower("model"))
        .await;
    assert_eq!(
        (&lowered.json()["trust"], &lowered.json()["trustUnset"]),
        (&json!("model"), &Value::Null)
    );
    let whoami = "/v1/host/remembrancer/whoami";
    let proven = host.call("of before", "GET", whoami, &[], "").await.json();
    assert_eq!(proven["trust"], "model");
    let raised = host
        .call("of before", "PATCH", &path, &[], lower("operator"))
        .await;
    assert_eq!(raised.code(), "trust_above_key", "nor by itself");
    let higher = json!({"scopes": ["memory:read"], "trust": "tool"}).to_string();
    let higher = host.call("of before", "POST", KEYS, &[], higher).await;
    assert_eq!(higher.code(), "trust_above_key");
}

#[tokio::test]
async fn a_delete_reports_whether_the_text_is_held() {
    let host = TestServer::new().await;
    let entry = |stored: TestResponse| {
        let id = stored.json()["entry"]["id"].as_str().unwrap().to_owned();
        format!("{MEMORY}/m/entries/{id}")
    };
    let held = entry(put(&host, "key-of-a", None).await);
    let link = json!({"action": "gate.accept", "reference": "7"});
    let linked = host.post(&format!("{held}/links"), link).await;
    assert_eq!(linked.json()["linked"], 1);
    let key = [("idempotency-key", "once")];
    for replayed in ["", "true"] {
        let deleted = host.call("key-of-a", "DELETE", &held, &key, "").await;
        assert_eq!(
            (deleted.status, deleted.json()),
            (StatusCode::OK, json!({"held": true}))
        );
        assert_eq!(deleted.header("openwop-idempotent-replay"), replayed);
        assert!(!deleted.header("remem-revision").is_empty());
    }
    assert_eq!(host.get(&held).await.status, StatusCode::NOT_FOUND);
    let plain = entry(put(&host, "key-of-a", None).await);
    let deleted = host.delete(&plain).await;
    assert_eq!(
        (deleted.status, deleted.bytes.len()),
        (StatusCode::NO_CONTENT, 0)
    );
    // The tool reports it in a note.
    let put = json!({"memoryRef": "m", "content": "Ship on Friday."});
    let put = tool(&host, "key-of-a", "memory_put", put).await;
    let id = &put["entry"]["id"];
    let link = json!({"memoryRef": "m", "id": id, "action": "a", "reference": "r"});
    tool(&host, "key-of-a", "memory_link_action", link).await;
    let delete = json!({"memoryRef": "m", "id": id});
    let deleted = tool(&host, "key-of-a", "memory_delete", delete).await;
    assert_eq!(
        (&deleted["deleted"], &deleted["held"]),
        (&json!(true), &json!(true))
    );
    assert!(deleted["note"].as_str().unwrap().contains("is held"));
}
