//! Webhooks of the real host: they survive a restart, and neither secret nor URL in its files or
//! its most verbose log. Deliveries themselves are tested with the engine.

use crate::common::client::BASE;
use crate::common::{ServerProcess, files, place};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_survives_restart_without_secret_or_url_in_files_or_logs() {
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("REMEM_LOG__LEVEL", "trace"),
        ("REMEM_WEBHOOKS__ALLOW_PRIVATE", "true"),
    ];
    let secret = "Aniseedsecret-0123456789";
    let token = "Aniseedtoken";
    let body = json!({"url": format!("http://127.0.0.1:9/{token}"), "events": ["run.completed"], "secret": secret});
    let mut server = ServerProcess::start_with(folder.path(), &[], &environment);
    let made = server
        .client()
        .post("/v1/webhooks", &body)
        .await
        .is(201)
        .json();
    assert_eq!(made["secret"], secret);
    let listed = server
        .client()
        .get(&format!("{BASE}/webhooks"))
        .await
        .is(200);
    assert!(listed.text.contains(token) && !listed.text.contains(secret));
    server.terminate();
    let log = server.output();
    assert!(
        log.contains(made["webhookId"].as_str().unwrap())
            && log.contains(made["secretFingerprint"].as_str().unwrap())
    );
    let strict = ServerProcess::start_with(folder.path(), &[], &[("REMEM_LOG__LEVEL", "trace")]);
    assert_eq!(
        strict
            .client()
            .get(&format!("{BASE}/webhooks"))
            .await
            .is(200)
            .text,
        listed.text,
        "kept, and opened again"
    );
    let refused = strict.client().post("/v1/webhooks", &body).await.is(400);
    assert!(!refused.text.contains("Aniseed"));
    let log = log + &strict.output();
    let line = log.lines().find(|line| line.contains("Aniseed"));
    assert!(
        line.is_none(),
        "the log tells: {}",
        line.unwrap_or_default()
    );
    assert!(
        files::find_in(
            &place::stored(folder.path()),
            [&secret.to_owned(), &token.to_owned()]
        )
        .is_empty()
    );
    strict
        .client()
        .delete(&format!(
            "/v1/webhooks/{}?tenantId=default",
            made["webhookId"].as_str().unwrap()
        ))
        .await
        .is(204);
    assert_eq!(
        strict
            .client()
            .get(&format!("{BASE}/webhooks"))
            .await
            .is(200)
            .json(),
        json!({"webhooks": []})
    );
}
