//! Access: the scope that each endpoint needs, expired and revoked keys, and the endpoints that are
//! open to everyone.

use axum::http::StatusCode;
use remem_core::{Permission, PrincipalId, TenantId, Timestamp};
use remem_engine::keys::KeyRequest;
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestServer};
use serde_json::{Value, json};

/// Method, path, body, and the scope that the request needs.
type EndpointCase = (&'static str, String, &'static str, &'static str);

fn pass_calls() -> Vec<EndpointCase> {
    vec![
        (
            "GET",
            "/v1/host/remembrancer/passes".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/passes/purge/run".to_owned(),
            "{}",
            "memory:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/passes/compact/run".to_owned(),
            "{}",
            "memory:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/passes/compact/run".to_owned(),
            r#"{"dryRun": true}"#,
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/passes/compact/schedule".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "PUT",
            "/v1/host/remembrancer/passes/compact/schedule".to_owned(),
            r#"{"every": "P1D"}"#,
            "memory:admin",
        ),
        (
            "DELETE",
            "/v1/host/remembrancer/passes/compact/schedule".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/schedules".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/jobs".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/jobs/job_1".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/jobs/job_1/cancel".to_owned(),
            "",
            "memory:admin",
        ),
    ]
}

fn calls_about_forgetting() -> Vec<EndpointCase> {
    vec![
        (
            "GET",
            format!("{MEMORY}/m/entries/mem_1/lineage"),
            "",
            "memory:read",
        ),
        ("GET", format!("{MEMORY}/m/archives"), "", "memory:read"),
        ("GET", format!("{MEMORY}/m/archives/0a"), "", "memory:read"),
        (
            "POST",
            "/v1/host/remembrancer/forget".to_owned(),
            r#"{"subject": "x"}"#,
            "memory:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/forget".to_owned(),
            r#"{"subject": "x", "dryRun": true}"#,
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/erasures".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/erasures/era_1".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/erasures/era_1/pages/1".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/model-calls/mc_1/undo".to_owned(),
            "",
            "memory:admin",
        ),
    ]
}

fn calls_about_commitments() -> Vec<EndpointCase> {
    let base = "/v1/host/remembrancer";
    let rules = r#"{"arm": "confirm"}"#;
    let heartbeat =
        r#"{"memoryRef": "m", "key": "invoice cleared", "tag": "paid", "everySeconds": 60}"#;
    vec![
        ("GET", format!("{base}/commitments"), "", "memory:read"),
        (
            "GET",
            format!("{base}/commitments/cmt_1"),
            "",
            "memory:read",
        ),
        (
            "GET",
            format!("{base}/commitments/cmt_1/explain"),
            "",
            "memory:read",
        ),
        (
            "GET",
            format!("{base}/commitments/cmt_1/fires"),
            "",
            "memory:read",
        ),
        (
            "POST",
            format!("{MEMORY}/m/commitments"),
            r#"{"text": "x", "at": 1800000000000}"#,
            "memory:write",
        ),
        (
            "POST",
            format!("{base}/commitments/cmt_1/confirm"),
            "",
            "memory:write",
        ),
        (
            "POST",
            format!("{base}/commitments/cmt_1/cancel"),
            "",
            "memory:write",
        ),
        (
            "POST",
            format!("{base}/commitments/cmt_1/snooze"),
            r#"{"until": 1800000000000}"#,
            "memory:write",
        ),
        (
            "POST",
            format!("{MEMORY}/m/observations"),
            r#"{"key": "invoice cleared", "value": true}"#,
            "memory:write",
        ),
        ("GET", format!("{base}/commitment-rules"), "", "memory:read"),
        (
            "PUT",
            format!("{base}/commitment-rules"),
            rules,
            "memory:admin",
        ),
        (
            "GET",
            format!("{MEMORY}/m/commitment-rules"),
            "",
            "memory:read",
        ),
        (
            "PUT",
            format!("{MEMORY}/m/commitment-rules"),
            rules,
            "memory:admin",
        ),
        ("GET", format!("{base}/heartbeats"), "", "memory:read"),
        ("GET", format!("{base}/heartbeats/h"), "", "memory:read"),
        (
            "PUT",
            format!("{base}/heartbeats/h"),
            heartbeat,
            "memory:admin",
        ),
        ("DELETE", format!("{base}/heartbeats/h"), "", "memory:admin"),
    ]
}

fn calls_about_workshops() -> Vec<EndpointCase> {
    let base = "/v1/host/remembrancer";
    vec![
        ("GET", format!("{MEMORY}/m/slots/q"), "", "memory:read"),
        ("DELETE", format!("{MEMORY}/m/slots/q"), "", "memory:write"),
        ("GET", format!("{MEMORY}/m/sessions"), "", "memory:read"),
        (
            "POST",
            format!("{MEMORY}/m/sessions/close"),
            "",
            "memory:write",
        ),
        (
            "POST",
            format!("{MEMORY}/m/interactions/t/close"),
            "",
            "memory:write",
        ),
        (
            "POST",
            format!("{MEMORY}/m/entries/mem_1/links"),
            r#"{"action": "a", "reference": "r"}"#,
            "memory:link",
        ),
        (
            "GET",
            format!("{MEMORY}/m/entries/mem_1/audit"),
            "",
            "memory:read",
        ),
        ("GET", format!("{base}/retention"), "", "memory:read"),
        (
            "PUT",
            format!("{base}/worlds/w/rules/r"),
            r#"{"body": "x"}"#,
            "memory:admin",
        ),
        (
            "DELETE",
            format!("{base}/worlds/w/rules/r"),
            "",
            "memory:admin",
        ),
        ("GET", format!("{base}/worlds/w/rules"), "", "memory:admin"),
        (
            "POST",
            format!("{base}/worlds/w/rules"),
            r#"{"rules": [{"id": "r", "body": "x"}]}"#,
            "memory:admin",
        ),
        (
            "POST",
            format!("{base}/worlds/w/check"),
            r#"{"text": "x"}"#,
            "memory:write",
        ),
        ("GET", format!("{base}/profiles"), "", "memory:read"),
    ]
}

fn calls_about_webhooks() -> Vec<EndpointCase> {
    vec![
        (
            "POST",
            "/v1/webhooks".to_owned(),
            r#"{"url": "https://example.com/", "events": ["run.completed"]}"#,
            "webhooks:manage",
        ),
        (
            "POST",
            "/v1/webhooks".to_owned(),
            r#"{"url": "https://example.com/", "events": []}"#,
            "webhooks:manage",
        ),
        (
            "DELETE",
            "/v1/webhooks/wh_1".to_owned(),
            "",
            "webhooks:manage",
        ),
        (
            "GET",
            "/v1/host/remembrancer/webhooks".to_owned(),
            "",
            "webhooks:manage",
        ),
        (
            "GET",
            "/v1/host/remembrancer/webhooks/wh_1/dead-letters".to_owned(),
            "",
            "webhooks:manage",
        ),
        (
            "POST",
            "/v1/host/remembrancer/webhooks/wh_1/dead-letters/1/redeliver".to_owned(),
            "",
            "webhooks:manage",
        ),
    ]
}

fn calls_about_proposals() -> Vec<EndpointCase> {
    let sample = "/v1/host/remembrancer/proposals";
    let own = "/v1/host/remembrancer";
    let submit = r#"{"kind": "automation", "artifact": {}}"#;
    vec![
        ("GET", sample.to_owned(), "", "proposals:read"),
        ("GET", format!("{sample}/prop_1"), "", "proposals:read"),
        (
            "PATCH",
            format!("{sample}/prop_1"),
            r#"{"title": "x"}"#,
            "proposals:write",
        ),
        ("DELETE", format!("{sample}/prop_1"), "", "proposals:write"),
        (
            "POST",
            format!("{sample}/prop_1/apply"),
            "{}",
            "proposals:apply",
        ),
        (
            "POST",
            format!("{sample}/prop_1/reject"),
            "",
            "proposals:write",
        ),
        (
            "POST",
            format!("{own}/proposals"),
            submit,
            "proposals:write",
        ),
        (
            "GET",
            format!("{own}/proposals/prop_1/revisions"),
            "",
            "proposals:read",
        ),
        (
            "GET",
            format!("{own}/proposals/prop_1/gate"),
            "",
            "proposals:read",
        ),
        (
            "POST",
            format!("{own}/proposals/prop_1/approve"),
            "",
            "proposals:apply",
        ),
        (
            "POST",
            format!("{own}/proposals/prop_1/override"),
            r#"{"reason": "urgent"}"#,
            "proposals:override",
        ),
        ("GET", format!("{own}/installed"), "", "proposals:read"),
        (
            "POST",
            format!("{own}/traces"),
            r#"{"agentId": "a", "tools": ["t"]}"#,
            "runs:create",
        ),
        ("GET", format!("{own}/automations"), "", "manifest:read"),
        ("GET", format!("{own}/automations/a"), "", "manifest:read"),
        (
            "PUT",
            format!("{own}/automations/a"),
            "{}",
            "manifest:write",
        ),
        (
            "DELETE",
            format!("{own}/automations/a"),
            "",
            "manifest:write",
        ),
        (
            "POST",
            format!("{own}/automations/a/pause"),
            "",
            "manifest:write",
        ),
        (
            "POST",
            format!("{own}/automations/a/resume"),
            "",
            "manifest:write",
        ),
    ]
}

#[tokio::test]
async fn each_operation_requires_its_scope() {
    let host = TestServer::new().await;
    host.key("a", "reader", &[Permission::MemoryRead]).await;
    host.key("a", "writer", &[Permission::MemoryWrite]).await;
    let entries = format!("{MEMORY}/m/entries");
    let calls = vec![
        (
            "POST",
            entries.clone(),
            r#"{"content": "x"}"#,
            "memory:write",
        ),
        (
            "POST",
            format!("{entries}:batch"),
            r#"{"entries": [{"content": "x"}]}"#,
            "memory:write",
        ),
        ("DELETE", format!("{entries}/mem_1"), "", "memory:write"),
        (
            "POST",
            format!("{entries}:import"),
            r#"{"entries": [{"id": "i", "content": "x"}]}"#,
            "memory:admin",
        ),
        ("GET", entries.clone(), "", "memory:read"),
        ("GET", format!("{entries}/mem_1"), "", "memory:read"),
        (
            "GET",
            format!("{entries}/mem_1/metadata"),
            "",
            "memory:read",
        ),
        (
            "POST",
            format!("{MEMORY}/m/search"),
            r#"{"query": "x"}"#,
            "memory:read",
        ),
        (
            "POST",
            format!("{MEMORY}/m/recall"),
            r#"{"query": "x"}"#,
            "memory:read",
        ),
        ("GET", format!("{entries}?tokenBudget=9"), "", "memory:read"),
        (
            "GET",
            "/v1/host/remembrancer/embeddings".to_owned(),
            "",
            "memory:admin",
        ),
        ("GET", format!("{MEMORY}/m/stats"), "", "memory:read"),
        ("GET", MEMORY.to_owned(), "", "memory:read"),
        (
            "GET",
            "/v1/host/remembrancer/events".to_owned(),
            "",
            "memory:read",
        ),
        (
            "GET",
            "/v1/host/remembrancer/model-calls".to_owned(),
            "",
            "memory:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/keys".to_owned(),
            "",
            "keys:manage",
        ),
        (
            "POST",
            "/v1/host/remembrancer/keys".to_owned(),
            r#"{"scopes": ["memory:read"]}"#,
            "keys:manage",
        ),
        (
            "PATCH",
            "/v1/host/remembrancer/keys/key_1".to_owned(),
            r#"{"trust": "model"}"#,
            "keys:manage",
        ),
        (
            "DELETE",
            "/v1/host/remembrancer/keys/key_1".to_owned(),
            "",
            "keys:manage",
        ),
        (
            "GET",
            "/v1/host/remembrancer/tenants".to_owned(),
            "",
            "host:admin",
        ),
        (
            "POST",
            "/v1/host/remembrancer/tenants".to_owned(),
            r#"{"id": "t"}"#,
            "host:admin",
        ),
        (
            "GET",
            "/v1/host/remembrancer/secrets".to_owned(),
            "",
            "secrets:manage",
        ),
        (
            "PUT",
            "/v1/host/remembrancer/secrets/s".to_owned(),
            r#"{"value": "12345678"}"#,
            "secrets:manage",
        ),
        (
            "POST",
            "/v1/host/remembrancer/secrets/s/rotate".to_owned(),
            r#"{"value": "12345678"}"#,
            "secrets:manage",
        ),
        (
            "DELETE",
            "/v1/host/remembrancer/secrets/s".to_owned(),
            "",
            "secrets:manage",
        ),
        ("GET", "/metrics".to_owned(), "", "host:admin"),
        (
            "GET",
            "/v1/host/workspace/files".to_owned(),
            "",
            "workspace:read",
        ),
        (
            "GET",
            "/v1/host/workspace/files/a".to_owned(),
            "",
            "workspace:read",
        ),
        (
            "PUT",
            "/v1/host/workspace/files/a".to_owned(),
            r#"{"content": "x"}"#,
            "workspace:write",
        ),
        (
            "DELETE",
            "/v1/host/workspace/files/a".to_owned(),
            "",
            "workspace:write",
        ),
        (
            "POST",
            "/v1/runs".to_owned(),
            r#"{"workflowId": "w"}"#,
            "runs:create",
        ),
        (
            "POST",
            "/v1/runs/run_1:fork".to_owned(),
            r#"{"mode": "replay"}"#,
            "runs:create",
        ),
        ("GET", "/v1/runs/run_1".to_owned(), "", "runs:read"),
        ("GET", "/v1/runs/run_1/events".to_owned(), "", "runs:read"),
        (
            "GET",
            "/v1/runs/run_1/events/poll".to_owned(),
            "",
            "runs:read",
        ),
        (
            "GET",
            "/v1/runs/run_1/artifacts/a".to_owned(),
            "",
            "runs:read",
        ),
        (
            "POST",
            "/v1/runs/run_1/cancel".to_owned(),
            "",
            "runs:cancel",
        ),
        ("GET", "/v1/workflows/w".to_owned(), "", "runs:read"),
        (
            "GET",
            "/v1/host/remembrancer/workflows".to_owned(),
            "",
            "runs:read",
        ),
        (
            "PUT",
            "/v1/host/remembrancer/workflows/w".to_owned(),
            "{}",
            "manifest:write",
        ),
        (
            "DELETE",
            "/v1/host/remembrancer/workflows/w".to_owned(),
            "",
            "manifest:write",
        ),
        ("GET", "/v1/agents".to_owned(), "", "manifest:read"),
        (
            "GET",
            "/v1/agents/local.a.b".to_owned(),
            "",
            "manifest:read",
        ),
        (
            "POST",
            "/v1/host/remembrancer/agents".to_owned(),
            r#"{"manifest": {}}"#,
            "manifest:write",
        ),
        (
            "DELETE",
            "/v1/host/remembrancer/agents/local.a.b".to_owned(),
            "",
            "manifest:write",
        ),
    ];
    let others = [
        pass_calls(),
        calls_about_forgetting(),
        calls_about_commitments(),
        calls_about_webhooks(),
    ]
    .concat();
    for (method, path, body, scope) in [
        calls,
        others,
        calls_about_proposals(),
        calls_about_workshops(),
    ]
    .concat()
    {
        let wrong = if scope == "memory:read" {
            "writer"
        } else {
            "reader"
        };
        let refused = host.call(wrong, method, &path, &[], body).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (403, "forbidden"),
            "{method} {path}"
        );
        assert_eq!(
            refused.json()["details"],
            json!({"scopeRequired": scope}),
            "{method} {path}"
        );
        for key in ["", "unknown-key"] {
            let unknown = host.call(key, method, &path, &[], body).await;
            assert_eq!(
                (unknown.status.as_u16(), unknown.code().as_str()),
                (401, "unauthenticated"),
                "{method} {path}"
            );
            assert_eq!(unknown.header("www-authenticate"), "Bearer");
        }
    }
}

/// A key with few rights that expires: its own answer about itself, and that other keys get none.
#[tokio::test]
async fn whoami_describes_the_calling_key() {
    let host = TestServer::new().await;
    let request = KeyRequest {
        tenant: TenantId::parse("b").unwrap(),
        label: "of a laptop".into(),
        permissions: vec![Permission::WorkspaceRead, Permission::MemoryRead],
        expires_at: Some(Timestamp(NOON.0 + 60_000)),
        principal: PrincipalId::parse("ana"),
        trust: None,
    };
    let added = host.engine.add_key("laptop", request).await.unwrap();
    let path = "/v1/host/remembrancer/whoami";
    let answer = host.call("laptop", "GET", path, &[], "").await;
    assert_eq!(
        answer.json(),
        json!({"tenant": "b", "principal": "ana", "scopes": ["memory:read", "workspace:read"],
            "trust": "operator", "trustUnset": true, "keyId": added.unwrap().id.as_str(), "expiresAt": "2023-11-14T22:14:20.000Z"})
    );
    assert_eq!(answer.header("cache-control"), "no-store");
    let first = host.get(path).await.json();
    assert_eq!(
        (&first["tenant"], &first["expiresAt"]),
        (&json!("a"), &Value::Null)
    );
    let nobody = host.call("", "GET", path, &[], "").await;
    assert_eq!(nobody.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn expired_and_revoked_keys_are_refused_immediately() {
    let host = TestServer::new().await;
    let request = KeyRequest {
        tenant: TenantId::parse("a").unwrap(),
        label: "short".into(),
        permissions: vec![Permission::MemoryRead],
        expires_at: Some(Timestamp(NOON.0 + 10)),
        principal: None,
        trust: None,
    };
    let record = host
        .engine
        .add_key("short-lived", request)
        .await
        .unwrap()
        .unwrap();
    let status = async || {
        let answer = host.call("short-lived", "GET", MEMORY, &[], "").await;
        (answer.status.as_u16(), answer.code())
    };
    assert_eq!(status().await, (200, String::new()));
    host.clock.set(NOON.plus_ms(10));
    assert_eq!(status().await, (401, "key_expired".into()));
    let revoke = async || {
        host.delete(&format!("/v1/host/remembrancer/keys/{}", record.id))
            .await
    };
    assert_eq!(revoke().await.status, StatusCode::NO_CONTENT);
    assert_eq!(status().await, (401, "key_revoked".into()));
    assert_eq!(
        revoke().await.status,
        StatusCode::NOT_FOUND,
        "revoking twice finds nothing"
    );
    let listed = host.get("/v1/host/remembrancer/keys").await;
    assert!(
        !String::from_utf8(listed.bytes)
            .unwrap()
            .contains("short-lived"),
        "the key itself is nowhere"
    );
}

/// The rights of a request depend on its key, the recorded author on the key's principal: a key can
/// be replaced without a change of owner.
#[tokio::test]
async fn keys_of_the_same_principal_act_as_one_user() {
    let host = TestServer::new().await;
    let make = async |body: Value| {
        let made = host.post("/v1/host/remembrancer/keys", body).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.json());
        made.json()
    };
    let scopes = ["runs:create", "runs:read", "secrets:manage"];
    let first = make(json!({"scopes": scopes, "principal": "ana"})).await;
    let second = make(json!({"scopes": scopes, "principal": "ana"})).await;
    let own = make(json!({"scopes": scopes})).await;
    assert_eq!(
        (&first["principal"], &second["principal"], &own["principal"]),
        (&json!("ana"), &json!("ana"), &own["id"])
    );
    assert_ne!(first["id"], second["id"]);
    let text = |made: &Value| made["key"].as_str().unwrap().to_owned();
    let body = json!({"value": "a secret of the user ana", "scope": "user"}).to_string();
    let set = host
        .call(
            &text(&first),
            "PUT",
            "/v1/host/remembrancer/secrets/n",
            &[],
            body,
        )
        .await;
    assert_eq!(set.status, StatusCode::CREATED, "{}", set.json());
    let revoked = host
        .delete(&format!(
            "/v1/host/remembrancer/keys/{}",
            first["id"].as_str().unwrap()
        ))
        .await;
    assert_eq!(revoked.status, StatusCode::NO_CONTENT);
    let listed = async |key: &str| {
        host.call(key, "GET", "/v1/host/remembrancer/secrets", &[], "")
            .await
    };
    assert_eq!(listed(&text(&first)).await.code(), "key_revoked");
    let same = listed(&text(&second)).await.json();
    let other = listed(&text(&own)).await.json();
    assert_eq!(
        (
            same["secrets"].as_array().unwrap().len(),
            other["secrets"].as_array().unwrap().len()
        ),
        (1, 0),
        "{same}"
    );
    let keys = host.get("/v1/host/remembrancer/keys").await.json();
    let of_ana = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|key| key["principal"] == "ana")
        .count();
    assert_eq!(of_ana, 2);
}

#[tokio::test]
async fn public_documents_need_no_key_and_are_cacheable() {
    let host = TestServer::new().await;
    for path in ["/.well-known/openwop", "/v1/openapi.json"] {
        let first = host.call("", "GET", path, &[], "").await;
        assert_eq!(
            (first.status, first.header("cache-control")),
            (StatusCode::OK, "public, max-age=60")
        );
        let etag = first.header("etag").to_owned();
        let again = host
            .call("", "GET", path, &[("if-none-match", &etag)], "")
            .await;
        assert_eq!(
            (again.status, again.bytes.len(), again.header("etag")),
            (StatusCode::NOT_MODIFIED, 0, etag.as_str())
        );
        assert_eq!(
            host.call("", "GET", path, &[("if-none-match", "\"other\"")], "")
                .await
                .status,
            StatusCode::OK
        );
    }
    let openapi = host
        .call("", "GET", "/v1/openapi.json", &[], "")
        .await
        .json();
    assert!(openapi["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/health", "/ready"] {
        assert_eq!(
            host.call("", "GET", path, &[], "").await.status,
            StatusCode::OK
        );
    }
    host.stop.send_replace(true);
    let stopping = host.call("", "GET", "/ready", &[], "").await;
    assert_eq!(
        (stopping.status.as_u16(), stopping.code().as_str()),
        (503, "stopping")
    );
    assert_eq!(
        host.call("", "GET", "/health", &[], "").await.status,
        StatusCode::OK
    );
}

/// The document describes every route there is: a new endpoint cannot be forgotten in it.
#[tokio::test]
async fn every_openapi_operation_is_documented_in_api_md() {
    let host = TestServer::new().await;
    let document = host
        .call("", "GET", "/v1/openapi.json", &[], "")
        .await
        .json();
    let mut operations: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            operations.push(format!("{} {path}", method.to_uppercase()));
        }
    }
    operations.sort();
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")).unwrap();
    for operation in &operations {
        assert!(
            documented.contains(&format!("`{operation}`")),
            "docs/api.md lacks `{operation}`"
        );
    }
    assert_eq!(operations.len(), 121, "{operations:#?}");
}
