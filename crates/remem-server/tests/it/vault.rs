//! The vault: what is set is redacted from then on, in old values too, for every user of the
//! tenant; nothing gives a value back; a key that does not fit stops writes instead of letting
//! secrets through; late values leave what was stored.

use remem_core::{
    Admission, Batch, Permission, Policy, Precondition, RecordBody, RecordKind, Redactor,
    ShapePolicy, TenantId,
};
use remem_engine::VaultKey;
use remem_engine::registry::{self, PassMode, PassReport};
use remem_store::ReviewCalls;
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestResponse, TestServer};
use serde_json::{Value, json};

const SECRETS: &str = "/v1/host/remembrancer/secrets";
const FILES: &str = "/v1/host/workspace/files";
const OLD: &str = "plum-harbour-Velvet-19";
const NEW: &str = "copper-Lantern-orchard-7";

async fn set_as(
    host: &TestServer,
    key: &str,
    name: &str,
    value: &str,
    scope: &str,
) -> TestResponse {
    host.call(
        key,
        "PUT",
        &format!("{SECRETS}/{name}"),
        &[],
        json!({"value": value, "scope": scope}).to_string(),
    )
    .await
}

async fn set(host: &TestServer, name: &str, value: &str) -> TestResponse {
    set_as(host, "key-of-a", name, value, "tenant").await
}

async fn rotate(host: &TestServer, name: &str, value: &str) -> TestResponse {
    host.post(&format!("{SECRETS}/{name}/rotate"), json!({"value": value}))
        .await
}

async fn put_as(host: &TestServer, key: &str, content: &str) -> TestResponse {
    host.call(
        key,
        "POST",
        &format!("{MEMORY}/m/entries"),
        &[],
        json!({"content": content}).to_string(),
    )
    .await
}

async fn put(host: &TestServer, content: &str) -> Value {
    let answer = put_as(host, "key-of-a", content).await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    answer.json()["content"].clone()
}

/// Returns the stored form of every entry of tenant `a`, before it is redacted for readers.
async fn stored(host: &TestServer) -> String {
    let found = host
        .env
        .store
        .entries_to_rescan(&tenant(), 0, None, 1_000)
        .await
        .unwrap();
    let mut texts: Vec<String> = found
        .entries
        .iter()
        .map(|e| format!("{} {:?} {}", e.content, e.tags, json!(e.metadata)))
        .collect();
    for kind in RecordKind::ALL {
        let records = match kind.is_under_review() {
            true => host
                .env
                .review
                .as_ref()
                .unwrap()
                .review_records(&tenant(), kind, "", None, 1_000)
                .await
                .unwrap(),
            false => host
                .env
                .store
                .records(&tenant(), kind, "", None, 1_000)
                .await
                .unwrap(),
        };
        texts.extend(
            records
                .iter()
                .map(|r| format!("{} {}", r.key, json!(r.body))),
        );
    }
    texts.join("\n")
}

/// Stores a record without redaction.
fn plain(body: Value) -> RecordBody {
    let policy = Policy {
        shapes: ShapePolicy::Off,
        ..Policy::default()
    };
    let redactor = Redactor::empty();
    Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 0,
        now: NOON,
    }
    .redact_record(body.as_object().unwrap().clone())
}

fn tenant() -> TenantId {
    TenantId::parse("a").unwrap()
}

async fn rescan(host: &TestServer, mode: PassMode) -> PassReport {
    host.engine
        .run_pass(registry::find("rescan").unwrap(), &tenant(), mode)
        .await
        .unwrap()
}

#[tokio::test]
async fn current_and_earlier_values_of_a_secret_are_redacted() {
    let host = TestServer::new().await;
    assert_eq!(put(&host, OLD).await, OLD, "not known yet");
    let made = set(&host, "db-password", OLD).await;
    assert_eq!(
        (made.status.as_u16(), made.header("cache-control")),
        (201, "no-store")
    );
    assert_eq!(
        made.json(),
        json!({"name": "db-password", "scope": "tenant", "createdAt": "2023-11-14T22:13:20.000Z", "versions": 1})
    );
    assert_eq!(
        put(&host, &format!("it is {OLD}.")).await,
        "it is [REDACTED:db-password].",
        "at once"
    );
    let file = host
        .call(
            "key-of-a",
            "PUT",
            &format!("{FILES}/a.md"),
            &[],
            json!({"content": OLD}).to_string(),
        )
        .await;
    assert_eq!(file.json()["content"], "[REDACTED:db-password]");
    let again = set(&host, "db-password", NEW).await;
    assert_eq!(
        (again.status.as_u16(), again.code().as_str()),
        (409, "secret_exists")
    );
    assert_eq!(put(&host, NEW).await, NEW, "a refused value is not taken");
    host.clock.set(NOON.plus_ms(5));
    let rotated = rotate(&host, "db-password", NEW).await;
    assert_eq!(rotated.status, 200);
    assert_eq!(
        (&rotated.json()["versions"], &rotated.json()["rotatedAt"]),
        (&json!(2), &json!("2023-11-14T22:13:20.005Z"))
    );
    assert_eq!(rotated.json()["createdAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(
        put(&host, &format!("{OLD} and {NEW}")).await,
        "[REDACTED:db-password] and [REDACTED:db-password]"
    );
    for n in 0..20 {
        assert_eq!(
            rotate(
                &host,
                "db-password",
                &format!("rolling-value-number-{n:03}")
            )
            .await
            .status,
            200
        );
    }
    assert_eq!(
        put(&host, NEW).await,
        "[REDACTED:db-password]",
        "twenty earlier values are kept"
    );
    assert_eq!(put(&host, OLD).await, OLD, "the one before them is not");
    assert_eq!(rotate(&host, "unknown", NEW).await.status, 404);
    assert_eq!(
        host.delete(&format!("{SECRETS}/db-password")).await.status,
        204
    );
    assert_eq!(
        host.delete(&format!("{SECRETS}/db-password")).await.status,
        404
    );
    assert_eq!(put(&host, NEW).await, NEW);
}

#[tokio::test]
async fn no_response_reveals_a_secret_value() {
    let host = TestServer::new().await;
    let mut answers = vec![
        set(&host, "one", OLD).await,
        set_as(&host, "key-of-a", "two", NEW, "user").await,
    ];
    answers.push(rotate(&host, "one", &format!("{OLD}-more")).await);
    answers.push(set(&host, "one", OLD).await);
    answers.push(set(&host, OLD, OLD).await);
    for path in [
        "secrets",
        "secrets/one",
        "events",
        "keys",
        "passes",
        "memory",
    ] {
        answers.push(host.get(&format!("/v1/host/remembrancer/{path}")).await);
    }
    let listed = host.get(SECRETS).await.json();
    let names: Vec<_> = listed["secrets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["name"].clone(), s["scope"].clone()))
        .collect();
    assert_eq!(
        names,
        [
            (json!("one"), json!("tenant")),
            (json!("two"), json!("user"))
        ]
    );
    for answer in &answers {
        let text = String::from_utf8_lossy(&answer.bytes);
        assert!(
            !text.contains("Velvet") && !text.contains("Lantern"),
            "{text}"
        );
    }
    let stored = stored(&host).await;
    assert!(
        stored.contains("db-password") || stored.contains("tenant/-/one"),
        "{stored}"
    );
    assert!(
        !stored.contains("Velvet") && !stored.contains("Lantern"),
        "{stored}"
    );
    assert!(!format!("{:?}", host.engine.capabilities()).contains("Velvet"));
}

#[tokio::test]
async fn a_vault_is_bounded_in_bytes() {
    let policy = Policy {
        secret_bytes_max: 100,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    let value = |letter: &str| letter.repeat(20);
    for (name, letter) in [("a", "a1"), ("b", "b2")] {
        assert_eq!(set(&host, name, &value(letter)).await.status, 201);
    }
    assert_eq!(set(&host, "c", &value("c3")).await.status, 422);
    assert_eq!(set(&host, "c", "a-short-value").await.status, 201);
    assert_eq!(
        rotate(&host, "a", &value("d4")).await.status,
        422,
        "earlier values count"
    );
}

#[tokio::test]
async fn secret_names_are_listed_in_pages() {
    let host = TestServer::with_policy(
        Policy {
            secrets_max: 7,
            ..Policy::default()
        },
        vec![],
    )
    .await;
    for n in 0..4 {
        assert_eq!(
            set(&host, &format!("t{n}"), &format!("value-of-tenant-{n}"))
                .await
                .status,
            201
        );
    }
    for n in 0..3 {
        assert_eq!(
            set_as(
                &host,
                "key-of-a",
                &format!("u{n}"),
                &format!("value-of-user-{n}"),
                "user"
            )
            .await
            .status,
            201
        );
    }
    let full = set(&host, "one-more", "value-one-too-many").await;
    assert_eq!(
        (
            full.status.as_u16(),
            full.json()["details"]["limit"].clone()
        ),
        (422, json!(7))
    );
    let mut names = Vec::new();
    let mut path = format!("{SECRETS}?limit=2");
    loop {
        let page = host.get(&path).await.json();
        names.extend(
            page["secrets"]
                .as_array()
                .unwrap()
                .iter()
                .map(|s| s["name"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["nextAfter"].as_str() else {
            break;
        };
        path = format!("{SECRETS}?limit=2&after={}", next.replace('/', "%2F"));
    }
    assert_eq!(names, ["t0", "t1", "t2", "t3", "u0", "u1", "u2"]);
    for bad in ["after=x", "after=run/x", "limit=x", "scope=tenant"] {
        assert!(
            [400, 422].contains(&host.get(&format!("{SECRETS}?{bad}")).await.status.as_u16()),
            "{bad}"
        );
    }
}

#[tokio::test]
async fn secrets_are_isolated_by_tenant_and_user() {
    let host = TestServer::new().await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    host.key(
        "a",
        "other-in-a",
        &[Permission::SecretsManage, Permission::MemoryWrite],
    )
    .await;
    set(&host, "shared", OLD).await;
    set_as(&host, "key-of-a", "mine", NEW, "user").await;
    let names = async |key: &str| {
        let listed = host.call(key, "GET", SECRETS, &[], "").await.json();
        listed["secrets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("key-of-a").await, ["shared", "mine"]);
    assert_eq!(names("other-in-a").await, ["shared"]);
    assert!(names("key-of-b").await.is_empty());
    for (key, scope) in [
        ("other-in-a", "user"),
        ("key-of-b", "user"),
        ("key-of-b", "tenant"),
    ] {
        let name = if scope == "user" { "mine" } else { "shared" };
        let path = format!("{SECRETS}/{name}");
        assert_eq!(
            host.call(key, "DELETE", &format!("{path}?scope={scope}"), &[], "")
                .await
                .status,
            404,
            "{key} {scope}"
        );
        let body = json!({"value": "another-value-9", "scope": scope}).to_string();
        assert_eq!(
            host.call(key, "POST", &format!("{path}/rotate"), &[], body)
                .await
                .status,
            404,
            "{key} {scope}"
        );
    }
    assert_eq!(
        set_as(&host, "other-in-a", "mine", "its-own-value-1", "user")
            .await
            .status,
        201,
        "its own name"
    );
    let owner = host.get("/v1/host/remembrancer/keys").await.json()["keys"][1]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let theirs = host.get(&format!("{SECRETS}?owner={owner}")).await.json();
    assert_eq!(
        theirs["secrets"][1]["name"], "mine",
        "who manages keys looks after what they leave behind"
    );
    let refused = host
        .call(
            "other-in-a",
            "GET",
            &format!("{SECRETS}?owner={owner}"),
            &[],
            "",
        )
        .await;
    assert_eq!(
        refused.json()["details"],
        json!({"scopeRequired": "keys:manage"})
    );
    for status in [204, 404] {
        assert_eq!(
            host.delete(&format!("{SECRETS}/mine?scope=user&owner={owner}"))
                .await
                .status,
            status
        );
    }
    assert_eq!(
        names("key-of-a").await,
        ["shared", "mine"],
        "its own is another one"
    );
    let seen = put_as(&host, "other-in-a", &format!("{OLD} {NEW}"))
        .await
        .json();
    assert_eq!(
        seen["content"], "[REDACTED:shared] [REDACTED:mine]",
        "no text of the tenant keeps it, whoever writes"
    );
    assert_eq!(
        put_as(&host, "key-of-b", OLD).await.json()["content"],
        OLD,
        "another tenant's text is its own business"
    );
}

#[tokio::test]
async fn bad_names_and_values_are_refused_without_an_echo() {
    let host = TestServer::new().await;
    for bad in [
        "%2F",
        "a%2Fb",
        "a%20b",
        "%C3%A4",
        "a%00",
        "%E4",
        "a@b",
        &"x".repeat(129),
    ] {
        let refused = set(&host, bad, OLD).await;
        assert_eq!(
            (refused.status.as_u16(), refused.json()["details"].clone()),
            (422, json!({"field": "name"})),
            "{bad}"
        );
        assert_eq!(
            host.delete(&format!("{SECRETS}/{bad}")).await.status,
            404,
            "{bad}"
        );
    }
    assert_eq!(
        set(&host, OLD, OLD).await.json()["details"],
        json!({"field": "name"}),
        "the name is the value"
    );
    assert_eq!(set(&host, &format!("x-{OLD}"), OLD).await.status, 422);
    let short = set(&host, "short", "canary7").await;
    assert_eq!(short.status, 422);
    assert!(
        short.json()["message"]
            .as_str()
            .unwrap()
            .contains("at least 8 characters"),
        "{}",
        short.json()
    );
    let long = set(&host, "long", &"canary".repeat(1_366)).await;
    assert_eq!(
        (
            long.status.as_u16(),
            long.json()["details"]["limit"].clone()
        ),
        (422, json!(8_192))
    );
    assert_eq!(set(&host, "long", &"é".repeat(8_192)).await.status, 201);
    let scope = set_as(&host, "key-of-a", "s", OLD, "canary-scope").await;
    let unknown = host
        .call(
            "key-of-a",
            "PUT",
            &format!("{SECRETS}/s"),
            &[],
            r#"{"value": "12345678", "canary": 1}"#,
        )
        .await;
    assert_eq!((scope.status.as_u16(), unknown.status.as_u16()), (422, 400));
    for answer in [short, long, scope, unknown] {
        assert!(!String::from_utf8_lossy(&answer.bytes).contains("canary"));
    }
    for name in ["-x".to_owned(), "n".repeat(128)] {
        let value = format!("value-for-length-{}", name.len());
        assert_eq!(set(&host, &name, &value).await.status, 201);
        let shown = put(&host, &value).await;
        assert!(
            shown.as_str().unwrap().starts_with("[REDACTED:secret-"),
            "a name that is unfit for a marker does not show: {shown}"
        );
    }
}

#[tokio::test]
async fn a_late_secret_is_removed_from_stored_data() {
    let policy = Policy {
        rescan_batch_max: 3,
        file_versions_max: 5,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy, vec![]).await;
    for n in 0..8 {
        let body = json!({"content": format!("note {n}: {OLD}"), "tags": [format!("pw:{OLD}"), "kept"], "metadata": {"k": {OLD: OLD}}});
        assert_eq!(
            host.post(&format!("{MEMORY}/m{n}/entries"), body)
                .await
                .status,
            201
        );
    }
    put(&host, "harmless").await;
    let file = async |content: &str| {
        host.call(
            "key-of-a",
            "PUT",
            &format!("{FILES}/a.md"),
            &[],
            json!({"content": content}).to_string(),
        )
        .await
        .json()
    };
    for content in ["one", &format!("two {OLD}"), &format!("three {OLD}")] {
        file(content).await;
    }
    for kind in [RecordKind::Run, RecordKind::RunRead] {
        let batch = Batch::new(tenant(), NOON).set_record(
            kind,
            "run_1".to_owned(),
            Precondition::Absent,
            plain(json!({"inputs": [OLD], "n": 1})),
        );
        host.env.store.commit(batch).await.unwrap();
    }
    let etag = host.get(&format!("{FILES}/a.md")).await.json()["etag"]
        .as_str()
        .unwrap()
        .to_owned();
    let found = async || {
        host.post(&format!("{MEMORY}/m1/search"), json!({"query": OLD}))
            .await
            .json()["hits"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (stored(&host).await.matches("Velvet").count(), found().await),
        (8 * 4 + 3 + 2, 1)
    );
    // Before: no such value, so nothing to do but to note the rules.
    assert_eq!(rescan(&host, PassMode::Apply).await.changed, 0);
    set(&host, "late", OLD).await;
    assert_eq!(
        host.get(&format!("{MEMORY}/m1/entries")).await.json()["entries"][0]["content"],
        "note 1: [REDACTED:late]",
        "readers at once"
    );
    assert!(
        stored(&host).await.contains("Velvet"),
        "the disk only after the pass"
    );
    let tried = rescan(&host, PassMode::DryRun).await;
    assert_eq!(
        (tried.examined, tried.changed, tried.more),
        (9 + 6, 8 + 5, false)
    );
    assert!(stored(&host).await.contains("Velvet"));
    // The pass gives `a.md` a version of its own, which is checked when its turn comes.
    assert_eq!(
        rescan(&host, PassMode::Apply).await,
        PassReport {
            examined: 9 + 7,
            changed: 8 + 5,
            more: false
        }
    );
    assert!(
        !stored(&host).await.contains("Velvet"),
        "{}",
        stored(&host).await
    );
    let run = host
        .env
        .store
        .record(&tenant(), RecordKind::Run, "run_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (run.version, json!(run.body)),
        (2, json!({"inputs": ["[REDACTED:late]"], "n": 1}))
    );
    assert_eq!(
        (found().await, rescan(&host, PassMode::Apply).await),
        (0, PassReport::default()),
        "nothing is left to do"
    );
    let entry = host
        .get(&format!("{MEMORY}/m3/entries?include=metadata"))
        .await
        .json();
    assert_eq!(
        entry["entries"][0]["tags"],
        json!(["pw:[REDACTED:late]", "kept"])
    );
    let texts = async |version: u32| {
        host.get(&format!("{FILES}/a.md?version={version}"))
            .await
            .json()["content"]
            .clone()
    };
    assert_eq!(
        [texts(1).await, texts(2).await, texts(4).await],
        ["one", "two [REDACTED:late]", "three [REDACTED:late]"]
    );
    let stale = host
        .call(
            "key-of-a",
            "PUT",
            &format!("{FILES}/a.md"),
            &[("if-match", &etag)],
            r#"{"content": "over"}"#,
        )
        .await;
    assert_eq!(
        stale.status, 409,
        "who read the old text does not write over the new one"
    );
    assert_eq!(file("next").await["version"], 5);
    let events = host
        .get("/v1/host/remembrancer/events?limit=0")
        .await
        .json();
    assert_eq!(
        events["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|e| e["type"] == "memory.redacted")
            .count(),
        8
    );
    host.env.store.verify(&tenant()).await.unwrap();
}

#[tokio::test]
async fn a_write_under_old_rules_is_found_by_a_second_rescan_walk() {
    let host = TestServer::new().await;
    let late = TestServer::on(
        host.env.clone(),
        Policy::default(),
        vec![],
        Some(VaultKey::new([9; 32])),
    )
    .await;
    put(&late, "this node has looked at the vault").await;
    set(&host, "late", OLD).await;
    assert_eq!(rescan(&host, PassMode::Apply).await.changed, 0);
    assert_eq!(
        put(&late, OLD).await,
        OLD,
        "less than a second ago there was no such secret"
    );
    assert_eq!(
        rescan(&host, PassMode::Apply).await,
        PassReport::default(),
        "too early to be sure that nobody writes by the old rules"
    );
    host.clock.set(NOON.plus_ms(1_000));
    assert_eq!(
        put(&late, OLD).await,
        "[REDACTED:late]",
        "after a second every node knows"
    );
    host.clock.set(NOON.plus_ms(30_000));
    assert_eq!(rescan(&host, PassMode::Apply).await.changed, 1);
    assert!(!stored(&host).await.contains("Velvet"));
    host.clock.set(NOON.plus_ms(90_000));
    assert_eq!(
        rescan(&host, PassMode::Apply).await,
        PassReport::default(),
        "then it is done"
    );
}

#[tokio::test]
async fn a_rescan_continues_where_another_process_stopped() {
    // A page of one, so that the bound of an activation is reached.
    let policy = || Policy {
        rescan_batch_max: 1,
        ..Policy::default()
    };
    let host = TestServer::with_policy(policy(), vec![]).await;
    for n in 0..130 {
        put(&host, &format!("note {n} {OLD}")).await;
    }
    set(&host, "late", OLD).await;
    let first = rescan(&host, PassMode::Apply).await;
    assert_eq!(
        first,
        PassReport {
            examined: 100,
            changed: 100,
            more: true
        }
    );
    let next = TestServer::on(
        host.env.clone(),
        policy(),
        vec![],
        Some(VaultKey::new([9; 32])),
    )
    .await;
    drop(host);
    assert_eq!(
        rescan(&next, PassMode::Apply).await,
        PassReport {
            examined: 30,
            changed: 30,
            more: false
        }
    );
    assert!(!stored(&next).await.contains("Velvet"));
    assert_eq!(
        put(&next, OLD).await,
        "[REDACTED:late]",
        "the vault outlives the process"
    );
}

#[tokio::test]
async fn a_text_that_outgrows_its_limit_is_still_redacted() {
    let host = TestServer::new().await;
    let content = "hunter2! ".repeat(7_000);
    let body = json!({"content": content, "tags": ["hunter2! ".repeat(28)], "metadata": {"a": "hunter2! ".repeat(1_800)}});
    let id = host.post(&format!("{MEMORY}/m/entries"), body).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let name = "a-name-that-is-much-longer-than-the-value-that-it-stands-for";
    set(&host, name, "hunter2!").await;
    assert_eq!(rescan(&host, PassMode::Apply).await.changed, 1);
    assert!(!stored(&host).await.contains("hunter2"));
    let entry = host.get(&format!("{MEMORY}/m/entries/{id}")).await.json();
    assert_eq!(
        entry["content"],
        format!("[REDACTED:{name}] ").repeat(7_000),
        "nothing of the entry is lost"
    );
    assert!(entry["tags"][0].as_str().unwrap().chars().count() <= 256);
    host.env.store.verify(&tenant()).await.unwrap();
}

#[tokio::test]
async fn without_a_key_the_vault_is_off() {
    let host = TestServer::new().await;
    let off = TestServer::on(host.env.clone(), Policy::default(), vec![], None).await;
    for answer in [
        set(&off, "x", OLD).await,
        rotate(&off, "x", OLD).await,
        off.get(SECRETS).await,
        off.delete(&format!("{SECRETS}/x")).await,
    ] {
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (422, "capability_not_provided")
        );
        let text = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(
            text.contains("vault.key_file") && text.contains("REMEM_VAULT_KEY"),
            "{text}"
        );
    }
    assert_eq!(
        put(&off, "harmless").await,
        "harmless",
        "a tenant without secrets needs no vault"
    );
    set(&host, "x", OLD).await;
    off.clock.set(NOON.plus_ms(1_000));
    assert_locked(&off).await;
}

async fn assert_locked(host: &TestServer) {
    for answer in [
        put_as(host, "key-of-a", OLD).await,
        put_as(host, "key-of-a", "harmless").await,
        host.call(
            "key-of-a",
            "PUT",
            &format!("{FILES}/a.md"),
            &[],
            r#"{"content": "x"}"#,
        )
        .await,
        host.get(&format!("{MEMORY}/m/entries")).await,
    ] {
        assert_eq!(
            (answer.status.as_u16(), answer.code().as_str()),
            (503, "vault_locked"),
            "{}",
            answer.json()
        );
    }
    let failed = host
        .engine
        .run_pass(
            registry::find("rescan").unwrap(),
            &tenant(),
            PassMode::Apply,
        )
        .await;
    assert!(failed.is_err());
}

#[tokio::test]
async fn a_wrong_vault_key_locks_reads_and_writes_of_the_tenant() {
    let host = TestServer::new().await;
    put(&host, OLD).await;
    set(&host, "x", OLD).await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    let wrong = TestServer::on(
        host.env.clone(),
        Policy::default(),
        vec![],
        Some(VaultKey::new([8; 32])),
    )
    .await;
    assert_locked(&wrong).await;
    assert_eq!(set(&wrong, "y", NEW).await.code(), "vault_locked");
    assert_eq!(rotate(&wrong, "x", NEW).await.code(), "vault_locked");
    assert_eq!(
        put_as(&wrong, "key-of-b", "fine").await.status,
        201,
        "other tenants go on"
    );
    assert_eq!(
        wrong.get(SECRETS).await.json()["secrets"][0]["name"],
        "x",
        "names are not sealed"
    );
    // A key that replaces another opens what that one sealed.
    let both = TestServer::on(
        host.env.clone(),
        Policy::default(),
        vec![],
        Some(VaultKey::new([8; 32]).with_earlier_key([9; 32])),
    )
    .await;
    assert_eq!(put(&both, OLD).await, "[REDACTED:x]");
    rotate(&both, "x", NEW).await;
    wrong.clock.set(NOON.plus_ms(1_000));
    assert_eq!(
        put(&wrong, &format!("{OLD} {NEW}")).await,
        "[REDACTED:x] [REDACTED:x]",
        "a rotation seals all of it anew"
    );
    // Where the key is lost: what cannot be opened can be deleted.
    let lost = TestServer::on(
        host.env.clone(),
        Policy::default(),
        vec![],
        Some(VaultKey::new([1; 32])),
    )
    .await;
    assert_locked(&lost).await;
    assert_eq!(lost.delete(&format!("{SECRETS}/x")).await.status, 204);
    assert_eq!(put(&lost, "on we go").await, "on we go");
}

#[tokio::test]
async fn a_secret_record_moved_to_another_name_does_not_decrypt() {
    let host = TestServer::new().await;
    set(&host, "x", OLD).await;
    let record = host
        .env
        .store
        .record(&tenant(), RecordKind::Secret, "tenant/-/x")
        .await
        .unwrap()
        .unwrap();
    let body = plain(Value::Object(record.body));
    let batch = Batch::new(tenant(), NOON).set_record(
        RecordKind::Secret,
        "tenant/-/y".to_owned(),
        Precondition::Absent,
        body,
    );
    host.env.store.commit(batch).await.unwrap();
    host.clock.set(NOON.plus_ms(1_000));
    assert_eq!(
        put_as(&host, "key-of-a", "harmless").await.code(),
        "vault_locked"
    );
}
