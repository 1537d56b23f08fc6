//! Values that become secrets after they were stored: from then on no read returns them, even
//! before the pass that removes them from the disk.

use remem_core::{Draft, Permission, RecordKind, Seq};
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::keys::KeyRequest;
use remem_engine::webhook::NewWebhook;
use remem_engine::workspace::WriteConditions;
use remem_engine::worlds::NewRule;
use remem_testkit::{TestEnv, TestHost};

const VALUE: &str = "hunter2-hunter2-late";

/// Writes the value wherever texts are stored beside entries; returns the entry that they belong
/// to.
async fn planted(host: &TestHost) -> String {
    let tags = vec![format!("source:{VALUE}")];
    let draft = Draft {
        content: "The gate opens at nine.".to_owned(),
        tags,
        ..Draft::default()
    };
    let id = host.put_draft("m", draft).await;
    let action = format!("told {VALUE}");
    let reference = format!("see {VALUE}");
    host.engine
        .link_action(&host.caller, "m", &id, &action, &reference)
        .await
        .unwrap();
    let rule = NewRule {
        id: "r1".to_owned(),
        body: format!("Never say {VALUE} aloud to anybody at the gate."),
    };
    host.engine
        .put_rules(&host.caller, "w1", vec![rule])
        .await
        .unwrap();
    let key = KeyRequest {
        tenant: host.tenant().clone(),
        label: format!("laptop {VALUE}"),
        permissions: vec![Permission::MemoryRead],
        expires_at: None,
        principal: None,
        trust: None,
    };
    host.engine.create_key(&host.caller, key).await.unwrap();
    let heartbeat = NewHeartbeat {
        memory_ref: "m".to_owned(),
        key: "the gate is open".to_owned(),
        tag: VALUE.to_owned(),
        every_seconds: 3_600,
        enabled: true,
    };
    host.engine
        .put_heartbeat(&host.caller, "gate", heartbeat)
        .await
        .unwrap();
    let webhook = NewWebhook {
        url: "https://receiver.example/gate".to_owned(),
        events: vec!["node.completed".to_owned()],
        tags: vec![VALUE.to_owned()],
        secret: None,
    };
    host.engine
        .register_webhook(&host.caller, webhook, None)
        .await
        .unwrap();
    id
}

/// The answers in which callers can read these texts, each with a name.
async fn shown(host: &TestHost, id: &str) -> [(&'static str, String); 7] {
    let engine = &host.engine;
    let caller = &host.caller;
    let rules = engine.list_rules(caller, "w1", None, None).await.unwrap();
    let audit = engine.audit_entry(caller, "m", id).await.unwrap();
    let links: Vec<(String, String)> = audit
        .links
        .into_iter()
        .map(|link| (link.action, link.reference))
        .collect();
    let keys = engine.list_keys(caller, host.tenant()).await.unwrap();
    let labels: Vec<String> = keys.into_iter().map(|key| key.label).collect();
    let events = engine.list_events(caller, Seq(0), None).await.unwrap().0;
    let payloads = events.iter().map(|event| event.body.payload());
    let rules = rules.0.into_iter().map(|rule| rule.body);
    let heartbeat = engine.get_heartbeat(caller, "gate").await.unwrap();
    let heartbeats = engine.list_heartbeats(caller).await.unwrap();
    let webhooks = engine.list_webhooks(caller).await.unwrap();
    let webhook_tags: Vec<String> = webhooks.into_iter().flat_map(|hook| hook.tags).collect();
    [
        ("heartbeat", heartbeat.tag),
        ("heartbeats", format!("{heartbeats:?}")),
        ("rules", rules.collect()),
        ("links", format!("{links:?}")),
        ("labels", labels.join(" ")),
        ("webhooks", webhook_tags.join(" ")),
        ("events", serde_json::Value::from_iter(payloads).to_string()),
    ]
}

#[tokio::test]
async fn a_secret_is_redacted_from_every_read_once_registered() {
    let env = TestEnv::new().await;
    let host = env.host().await;
    let id = planted(&host).await;
    for (place, text) in shown(&host, &id).await {
        assert!(text.contains(VALUE), "{place} held it: {text}");
    }
    host.secret("late", VALUE).await;
    for (place, text) in shown(&host, &id).await {
        assert!(!text.contains(VALUE), "{place}: {text}");
        assert!(!text.is_empty(), "{place}");
    }
}

#[tokio::test]
async fn rescan_redacts_secrets_in_key_labels() {
    let env = TestEnv::new().await;
    let host = env.host().await;
    planted(&host).await;
    host.secret("late", VALUE).await;
    host.run_pass("rescan").await;
    let keys = env.directory.keys(host.tenant()).await.unwrap();
    let labels: Vec<&str> = keys.iter().map(|key| key.label.as_str()).collect();
    assert!(labels.contains(&"laptop [REDACTED:late]"), "{labels:?}");
}

/// A step commits what it changed with its place, whose version counts them: more text takes more.
#[tokio::test]
async fn a_rescan_step_is_bounded_in_bytes() {
    let env = TestEnv::new().await;
    let mut commits = Vec::new();
    for (tenant, bytes) in [("small", 20), ("large", 200 * 1024)] {
        let host = env.host_of(tenant).await;
        for n in 0..3 {
            let path = format!("notes/{n}.md");
            let content = "word ".repeat(bytes / 5);
            let conditions = WriteConditions::default();
            let put = host
                .engine
                .put_file(&host.caller, &path, &content, None, conditions);
            put.await.unwrap();
        }
        host.run_pass("rescan").await;
        let place = env
            .store
            .record(host.tenant(), RecordKind::Progress, "rescan");
        commits.push(place.await.unwrap().unwrap().version);
    }
    assert!(commits[1] > commits[0], "{commits:?}");
}
