//! Webhooks over HTTP: registration, what is shown and what is not, isolation, repetition, bounds.

use remem_core::{Permission, Policy};
use remem_testkit::{TestResponse, TestServer};
use serde_json::{Value, json};

const LIST: &str = "/v1/host/remembrancer/webhooks";

async fn register(host: &TestServer, body: Value) -> TestResponse {
    host.post("/v1/webhooks", body).await
}

fn hook(url: &str) -> Value {
    json!({"url": url, "events": ["run.completed", "run.failed"]})
}

#[tokio::test]
async fn a_registration_for_another_tenant_is_refused() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let body = |tenant: &str| json!({"url": "https://example.com/hook", "events": ["run.completed"], "tenantId": tenant});
    for foreign in ["b", "nobody-is-called-canary", "A", ""] {
        let refused = register(&host, body(foreign)).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code().as_str()),
            (403, "forbidden"),
            "{foreign}"
        );
        assert_eq!(refused.json()["details"], json!({"field": "tenantId"}));
        assert!(!String::from_utf8(refused.bytes).unwrap().contains("canary"));
    }
    assert_eq!(host.get(LIST).await.json(), json!({"webhooks": []}));
    let made = register(&host, body("a")).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let id = made.json()["webhookId"].as_str().unwrap().to_owned();
    let refused = host.delete(&format!("/v1/webhooks/{id}?tenantId=b")).await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (404, "subscription_not_found"),
        "another tenant has no such webhook"
    );
    let gone = host.delete(&format!("/v1/webhooks/{id}?tenantId=a")).await;
    assert_eq!(gone.status, 204);
}

#[tokio::test]
async fn the_webhook_secret_is_returned_only_once() {
    let host = TestServer::new().await;
    let body = json!({"url": "https://example.com/hook", "events": ["run.completed", "run.completed", "approval.requested"],
        "tags": ["prod"], "tenantId": "a"});
    let made = register(&host, body).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let made = made.json();
    let id = made["webhookId"].as_str().unwrap().to_owned();
    assert_eq!(made["subscriptionId"], made["webhookId"]);
    assert_eq!(
        (
            &made["url"],
            &made["eventTypes"],
            &made["signatureAlgorithm"],
            &made["createdAt"]
        ),
        (
            &json!("https://example.com/hook"),
            &json!(["run.completed", "approval.requested"]),
            &json!("v1"),
            &json!("2023-11-14T22:13:20.000Z")
        )
    );
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.len() == 64 && secret.bytes().all(|b| b.is_ascii_hexdigit()));
    let own =
        register(&host, json!({"url": "https://example.com/", "events": ["run.failed"], "secret": "of-my-own-choosing"})).await.json();
    // echo -n of-my-own-choosing | sha256sum
    assert_eq!(
        (&own["secret"], &own["secretFingerprint"]),
        (&json!("of-my-own-choosing"), &json!("16087570"))
    );
    let listed = host.get(LIST).await;
    let text = String::from_utf8(listed.bytes.clone()).unwrap();
    assert!(
        !text.contains(secret) && !text.contains("of-my-own-choosing"),
        "{text}"
    );
    assert_eq!(
        listed.json()["webhooks"][0],
        json!({"webhookId": id, "url": "https://example.com/hook", "eventTypes": ["run.completed", "approval.requested"],
            "tags": ["prod"], "secretFingerprint": made["secretFingerprint"], "createdAt": made["createdAt"], "state": "active",
            "deliveries": 0, "failures": 0, "attempts": 0})
    );
    assert_eq!(
        host.get(&format!("{LIST}/{id}/dead-letters")).await.json(),
        json!({"deadLetters": []})
    );
    let none = host
        .post(&format!("{LIST}/{id}/dead-letters/1/redeliver"), json!({}))
        .await;
    assert_eq!(
        (none.status.as_u16(), none.code().as_str()),
        (404, "not_found")
    );
    assert_eq!(
        host.post(&format!("{LIST}/{id}/dead-letters/x/redeliver"), json!({}))
            .await
            .status,
        400
    );
    assert_eq!(
        host.delete(&format!("/v1/webhooks/{id}?tenantId=a"))
            .await
            .status,
        204
    );
    let again = host.delete(&format!("/v1/webhooks/{id}")).await;
    assert_eq!(
        (again.status.as_u16(), again.code().as_str()),
        (404, "subscription_not_found")
    );
    assert_eq!(
        host.get(LIST).await.json()["webhooks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn tenants_do_not_reach_each_others_webhooks() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let id = register(&host, hook("https://example.com/")).await.json()["webhookId"]
        .as_str()
        .unwrap()
        .to_owned();
    let theirs =
        async |method: &str, path: &str| host.call("key-of-b", method, path, &[], "").await;
    for (method, known, unknown) in [
        (
            "DELETE",
            format!("/v1/webhooks/{id}?tenantId=a"),
            "/v1/webhooks/wh_none?tenantId=a".to_owned(),
        ),
        (
            "GET",
            format!("{LIST}/{id}/dead-letters"),
            format!("{LIST}/wh_none/dead-letters"),
        ),
        (
            "POST",
            format!("{LIST}/{id}/dead-letters/1/redeliver"),
            format!("{LIST}/wh_none/dead-letters/1/redeliver"),
        ),
    ] {
        let known = theirs(method, &known).await;
        let unknown = theirs(method, &unknown).await;
        assert_eq!(
            (known.status.as_u16(), known.bytes),
            (404, unknown.bytes),
            "{method}"
        );
    }
    assert_eq!(theirs("GET", LIST).await.json(), json!({"webhooks": []}));
    assert_eq!(
        host.get(LIST).await.json()["webhooks"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn a_repeated_registration_returns_the_same_webhook() {
    let host = TestServer::with_policy(
        Policy {
            webhooks_max: 2,
            ..Policy::default()
        },
        vec![],
    )
    .await;
    let call = async |key: &str, url: &str| {
        host.call(
            "key-of-a",
            "POST",
            "/v1/webhooks",
            &[("idempotency-key", key)],
            hook(url).to_string(),
        )
        .await
    };
    let first = call("k1", "https://example.com/").await;
    let repeated = call("k1", "https://example.com/").await;
    assert_eq!(
        (repeated.status.as_u16(), repeated.json()),
        (201, first.json()),
        "the same secret too"
    );
    assert_eq!(repeated.header("openwop-idempotent-replay"), "true");
    let other = call("k1", "https://example.org/").await;
    assert_eq!(
        (other.status.as_u16(), other.code().as_str()),
        (409, "idempotency_key_mismatch")
    );
    assert_eq!(
        call("k2", "https://example.com/").await.status,
        201,
        "another key, another webhook"
    );
    let full = call("k3", "https://example.com/").await;
    assert_eq!(
        (
            full.status.as_u16(),
            full.json()["details"]["limit"].clone()
        ),
        (422, json!(2))
    );
    assert_eq!(
        call("k1", "https://example.com/").await.json(),
        first.json(),
        "even when there is no room"
    );
    let id = first.json()["webhookId"].as_str().unwrap().to_owned();
    host.delete(&format!("/v1/webhooks/{id}")).await;
    assert_eq!(
        call("k1", "https://example.com/").await.status,
        404,
        "it was removed since"
    );
}

#[tokio::test]
async fn registered_secrets_are_redacted_from_webhook_responses() {
    let host = TestServer::with_policy(
        Policy {
            webhooks_private: true,
            ..Policy::default()
        },
        vec![("token", "hunter2-hunter2")],
    )
    .await;
    let url = "http://127.0.0.1:9/in/hunter2-hunter2";
    let body = json!({"url": url, "events": ["workspace.updated"], "tags": ["hunter2-hunter2"]});
    let made = register(&host, body).await;
    assert_eq!(made.status, 201);
    for answer in [made.bytes, host.get(LIST).await.bytes] {
        assert!(!String::from_utf8(answer).unwrap().contains("hunter2"));
    }
    let strict = TestServer::new().await;
    let refused = register(&strict, hook(url)).await;
    assert_eq!(
        (refused.status.as_u16(), refused.json()["details"].clone()),
        (400, json!({"field": "url"}))
    );
}
