//! Commitments over HTTP: what was promised, by text or by hand, what may be done with it, and who
//! may see it.

use axum::http::StatusCode;
use remem_core::{Permission, Policy, TenantId};
use remem_engine::registry::{self, PassMode};
use remem_testkit::server::MEMORY;
use remem_testkit::{NOON, TestResponse, TestServer};
use serde_json::{Value, json};

const BASE: &str = "/v1/host/remembrancer";
const DAY: i64 = 86_400_000;

async fn pass(host: &TestServer, name: &str) {
    host.engine
        .run_pass(
            registry::find(name).unwrap(),
            &TenantId::parse("a").unwrap(),
            PassMode::Apply,
        )
        .await
        .unwrap();
}

async fn say(host: &TestServer, text: &str) {
    assert_eq!(
        host.post(&format!("{MEMORY}/m/entries"), json!({"content": text}))
            .await
            .status,
        StatusCode::CREATED
    );
    pass(host, "infer").await;
}

async fn list(host: &TestServer, query: &str) -> Vec<Value> {
    let answer = host.get(&format!("{BASE}/commitments{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
    answer.json()["commitments"].as_array().unwrap().clone()
}

async fn change(host: &TestServer, id: &str, verb: &str, body: Value) -> TestResponse {
    host.post(&format!("{BASE}/commitments/{id}/{verb}"), body)
        .await
}

async fn create(host: &TestServer, body: Value, key: &str) -> TestResponse {
    host.call(
        "key-of-a",
        "POST",
        &format!("{MEMORY}/m/commitments"),
        &[("idempotency-key", key)],
        body.to_string(),
    )
    .await
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_commitment_is_listed_explained_and_fired() {
    let host = TestServer::new().await;
    say(
        &host,
        "Lunch was fine. Remind me tomorrow at 9am to renew the certificate.",
    )
    .await;
    let found = list(&host, "?memoryRef=m&state=armed").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let one = &found[0];
    assert_eq!(
        (text(one, "text"), text(one, "condition")),
        (
            "Remind me tomorrow at 9am to renew the certificate.",
            "time"
        )
    );
    assert_eq!(
        (text(one, "nextAt"), &one["inferred"]),
        ("2023-11-15T09:00:00.000Z", &json!(true))
    );
    assert!(
        list(&host, "?memoryRef=other").await.is_empty()
            && list(&host, "?state=pending").await.is_empty()
    );
    let id = text(one, "id");
    let why = host
        .get(&format!("{BASE}/commitments/{id}/explain"))
        .await
        .json();
    assert_eq!(
        (text(&why, "cue"), text(&why, "conditionWords")),
        ("Remind me", "tomorrow at 9am"),
        "{why}"
    );
    assert_eq!(
        host.get(&format!("{BASE}/commitments/{id}/fires"))
            .await
            .json(),
        json!({"fires": []})
    );
    host.clock.set(NOON.plus_ms(2 * DAY));
    pass(&host, "fire").await;
    let done = host.get(&format!("{BASE}/commitments/{id}")).await.json();
    assert_eq!(
        (text(&done, "state"), &done["fired"], done.get("nextAt")),
        ("done", &json!(1), None)
    );
    let fires = host
        .get(&format!("{BASE}/commitments/{id}/fires"))
        .await
        .json();
    assert_eq!(
        fires["fires"][0]["scheduledAt"],
        json!("2023-11-15T09:00:00.000Z")
    );
    for (verb, body) in [
        ("cancel", json!({})),
        ("confirm", json!({})),
        ("snooze", json!({"until": NOON.plus_ms(3 * DAY).0})),
    ] {
        let late = change(&host, id, verb, body).await;
        assert_eq!(
            (late.status.as_u16(), late.code().as_str()),
            (409, "commitment_state_conflict"),
            "{verb}"
        );
        assert_eq!(late.json()["details"], json!({"state": "done"}));
    }
}

#[tokio::test]
async fn a_commitment_is_created_once_snoozed_and_cancelled() {
    let host = TestServer::new().await;
    let body = json!({"text": "Call Ada back.", "at": NOON.plus_ms(DAY).rfc3339(), "subjects": ["person:4711"]});
    let made = create(&host, body.clone(), "k1").await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.json());
    let again = create(&host, body.clone(), "k1").await;
    assert_eq!(
        (again.status, again.header("openwop-idempotent-replay")),
        (StatusCode::OK, "true")
    );
    assert_eq!(again.json(), made.json());
    let same = create(&host, body, "k2").await;
    assert_eq!(
        (same.status, same.json()),
        (StatusCode::OK, made.json()),
        "the same is open already"
    );
    assert_eq!(
        host.get(&format!("{MEMORY}/m/entries")).await.json()["entries"]
            .as_array()
            .unwrap()
            .len(),
        1,
        "one entry"
    );
    let id = text(&made.json(), "id").to_owned();
    let until = NOON.plus_ms(2 * DAY).rfc3339();
    let later = change(&host, &id, "snooze", json!({"until": until}))
        .await
        .json();
    assert_eq!(
        (text(&later, "nextAt"), text(&later, "state")),
        (until.as_str(), "armed")
    );
    let far = change(
        &host,
        &id,
        "snooze",
        json!({"until": NOON.plus_ms(900 * DAY).rfc3339()}),
    )
    .await;
    assert_eq!(
        (far.status.as_u16(), far.code().as_str()),
        (422, "schedule_horizon_exceeded")
    );
    let gone = change(&host, &id, "cancel", json!({})).await.json();
    assert_eq!(
        (text(&gone, "state"), text(&gone, "endedBy")),
        ("cancelled", "caller")
    );
    host.clock.set(NOON.plus_ms(3 * DAY));
    pass(&host, "fire").await;
    assert_eq!(
        host.get(&format!("{BASE}/commitments/{id}")).await.json()["fired"],
        json!(0)
    );
}

#[tokio::test]
async fn an_observation_fires_matching_commitments() {
    let host = TestServer::new().await;
    let body = json!({"text": "Ship the parcel.", "predicate": "the invoice has cleared"});
    let made = create(&host, body.clone(), "k1").await.json();
    assert_eq!(
        (text(&made, "predicate"), text(&made, "condition")),
        ("invoice clear", "predicate")
    );
    let observe = async |memory: &str, value: bool| {
        let answer = host
            .post(
                &format!("{MEMORY}/{memory}/observations"),
                json!({"key": "Invoice cleared", "value": value}),
            )
            .await;
        assert_eq!(answer.status, StatusCode::OK);
        answer.json()
    };
    assert_eq!(
        observe("other", true).await,
        json!({"key": "invoice clear", "matched": 0, "fired": []}),
        "another memory"
    );
    assert_eq!(observe("m", false).await["fired"], json!([]));
    assert_eq!(
        observe("m", true).await,
        json!({"key": "invoice clear", "matched": 1, "fired": [text(&made, "id")]})
    );
    assert_eq!(
        observe("m", true).await["matched"],
        json!(0),
        "it has fired"
    );
    // The same again is another one, under the same name, and fires once more.
    let anew = create(&host, body, "k2").await;
    assert_eq!(
        (anew.status, text(&anew.json(), "id")),
        (StatusCode::CREATED, text(&made, "id"))
    );
    assert_eq!(
        observe("m", true).await["fired"],
        json!([text(&made, "id")])
    );
    let fires = host
        .get(&format!("{BASE}/commitments/{}/fires", text(&made, "id")))
        .await
        .json();
    assert_eq!(fires["fires"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_memory_has_its_own_commitment_rules() {
    let host = TestServer::new().await;
    let first = host
        .get(&format!("{MEMORY}/m/commitment-rules"))
        .await
        .json();
    assert_eq!(first, json!({"arm": "auto", "zone": "UTC"}));
    let put = host
        .call(
            "key-of-a",
            "PUT",
            &format!("{MEMORY}/m/commitment-rules"),
            &[],
            r#"{"arm": "confirm", "zone": "Asia/Kolkata"}"#,
        )
        .await;
    assert_eq!(
        put.json(),
        json!({"memoryRef": "m", "arm": "confirm", "zone": "Asia/Kolkata"})
    );
    assert_eq!(
        host.get(&format!("{BASE}/commitment-rules")).await.json(),
        first,
        "others keep theirs"
    );
    say(&host, "Remind me tomorrow at 9am to renew the passport.").await;
    let one = list(&host, "").await.remove(0);
    assert_eq!(
        (text(&one, "state"), text(&one, "nextAt")),
        ("pending", "2023-11-16T03:30:00.000Z")
    );
    let confirmed = change(&host, text(&one, "id"), "confirm", json!({}))
        .await
        .json();
    assert_eq!(text(&confirmed, "state"), "armed");
    assert_eq!(
        host.get(&format!("{MEMORY}/..%2Fx/commitment-rules"))
            .await
            .json(),
        first,
        "a malformed name reads like an unknown one"
    );
}

#[tokio::test]
async fn heartbeats_are_set_evaluated_and_removed() {
    let host = TestServer::new().await;
    let body = json!({"memoryRef": "m", "key": "the invoice has cleared", "tag": "paid", "everySeconds": 1}).to_string();
    let put = host
        .call(
            "key-of-a",
            "PUT",
            &format!("{BASE}/heartbeats/invoices"),
            &[],
            body.clone(),
        )
        .await
        .json();
    let expected = json!({"id": "invoices", "memoryRef": "m", "key": "invoice clear", "tag": "paid", "everySeconds": 30, "enabled": true});
    assert_eq!(put, expected);
    pass(&host, "fire").await;
    let looked = host
        .get(&format!("{BASE}/heartbeats/invoices"))
        .await
        .json();
    assert_eq!(
        (&looked["holds"], text(&looked, "lastStatus")),
        (&json!(false), "ok")
    );
    assert_eq!(
        host.get(&format!("{BASE}/heartbeats")).await.json()["heartbeats"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        host.delete(&format!("{BASE}/heartbeats/invoices"))
            .await
            .status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        host.get(&format!("{BASE}/heartbeats")).await.json(),
        json!({"heartbeats": []})
    );
    // A key for administration alone is enough.
    host.key("a", "admin", &[Permission::MemoryAdmin]).await;
    for (method, status) in [("PUT", 200), ("DELETE", 204)] {
        assert_eq!(
            host.call(
                "admin",
                method,
                &format!("{BASE}/heartbeats/invoices"),
                &[],
                body.clone()
            )
            .await
            .status
            .as_u16(),
            status
        );
    }
}

#[tokio::test]
async fn a_write_only_key_does_not_see_commitment_texts() {
    let host = TestServer::new().await;
    host.key("a", "writer", &[Permission::MemoryWrite]).await;
    let body = json!({"text": "Call Ada back.", "at": NOON.plus_ms(DAY).0}).to_string();
    let made = host
        .call(
            "writer",
            "POST",
            &format!("{MEMORY}/m/commitments"),
            &[],
            body,
        )
        .await;
    assert_eq!(
        (made.status, made.json().get("text")),
        (StatusCode::CREATED, None),
        "{}",
        made.json()
    );
    say(&host, "Remind me tomorrow at 9am to renew the certificate.").await;
    let other = list(&host, "")
        .await
        .into_iter()
        .find(|one| one["inferred"] == json!(true))
        .unwrap();
    let changed = host
        .call(
            "writer",
            "POST",
            &format!("{BASE}/commitments/{}/cancel", text(&other, "id")),
            &[],
            "",
        )
        .await;
    assert_eq!(
        (
            changed.status,
            text(&changed.json(), "state"),
            changed.json().get("text")
        ),
        (StatusCode::OK, "cancelled", None)
    );
}

#[tokio::test]
async fn commitments_are_isolated_by_tenant_and_redacted() {
    let host =
        TestServer::with_policy(Policy::default(), vec![("pin", "tulip-harbour-2219")]).await;
    host.key("b", "key-of-b", &Permission::ALL).await;
    say(
        &host,
        "Remind me tomorrow at 9am to use tulip-harbour-2219 at the gate.",
    )
    .await;
    let one = list(&host, "").await.remove(0);
    let id = text(&one, "id");
    let all = [
        format!("{BASE}/commitments"),
        format!("{BASE}/commitments/{id}"),
        format!("{BASE}/commitments/{id}/explain"),
    ];
    for path in &all {
        let shown = String::from_utf8(host.get(path).await.bytes).unwrap();
        assert!(
            shown.contains("at the gate") && !shown.contains("tulip-harbour"),
            "{shown}"
        );
    }
    assert_eq!(
        host.call("key-of-b", "GET", &all[0], &[], "").await.json(),
        json!({"commitments": []})
    );
    for path in &all[1..] {
        assert_eq!(
            host.call("key-of-b", "GET", path, &[], "").await.status,
            StatusCode::NOT_FOUND
        );
    }
    for verb in ["confirm", "cancel"] {
        let foreign = host
            .call(
                "key-of-b",
                "POST",
                &format!("{BASE}/commitments/{id}/{verb}"),
                &[],
                "",
            )
            .await;
        assert_eq!(foreign.status, StatusCode::NOT_FOUND);
    }
}

/// A secret that was registered after the promise was made is in no explanation of it.
#[tokio::test]
async fn a_late_secret_is_redacted_from_commitments() {
    let host = TestServer::new().await;
    say(
        &host,
        "Remind me tomorrow at 9am to use tulip-harbour-2219 at the gate.",
    )
    .await;
    let one = list(&host, "").await.remove(0);
    assert!(text(&one, "text").contains("tulip-harbour-2219"));
    let secret = json!({"value": "tulip-harbour-2219"}).to_string();
    assert_eq!(
        host.call(
            "key-of-a",
            "PUT",
            &format!("{BASE}/secrets/pin"),
            &[],
            secret
        )
        .await
        .status,
        StatusCode::CREATED
    );
    for path in [
        "".to_owned(),
        format!("/{}", text(&one, "id")),
        format!("/{}/explain", text(&one, "id")),
    ] {
        let shown =
            String::from_utf8(host.get(&format!("{BASE}/commitments{path}")).await.bytes).unwrap();
        assert!(
            shown.contains("REDACTED") && !shown.contains("tulip-harbour"),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn the_erasure_report_counts_forgotten_commitments() {
    let host = TestServer::new().await;
    for (text, subject) in [
        ("Call Ada back.", "ada"),
        ("Write to Ada.", "ada"),
        ("Call Bo back.", "bo"),
    ] {
        let body = json!({"text": text, "at": NOON.plus_ms(DAY).0, "subjects": [subject]});
        assert_eq!(
            host.post(&format!("{MEMORY}/m/commitments"), body)
                .await
                .status,
            StatusCode::CREATED
        );
    }
    for dry_run in [true, false] {
        let report = host
            .post(
                &format!("{BASE}/forget"),
                json!({"subject": "ada", "dryRun": dry_run}),
            )
            .await
            .json();
        assert_eq!(
            report["counts"],
            json!({"erased": 2, "revived": 0, "archives": 0, "commitments": 2}),
            "{report}"
        );
    }
    assert_eq!(list(&host, "").await.len(), 1);
    let kept = host.get(&format!("{BASE}/erasures")).await.json();
    assert_eq!(kept["erasures"][0]["counts"]["commitments"], json!(2));
}

#[tokio::test]
async fn a_webhook_receives_commitment_fired_without_its_text() {
    let host = TestServer::new().await;
    let hook = json!({"url": "https://example.com/hook", "events": ["commitment.fired"]});
    assert_eq!(
        host.post("/v1/webhooks", hook).await.status,
        StatusCode::CREATED
    );
    let secret_words = "Whisper to the marigold.";
    let made = create(
        &host,
        json!({"text": secret_words, "predicate": "the invoice has cleared"}),
        "k",
    )
    .await
    .json();
    host.post(
        &format!("{MEMORY}/m/observations"),
        json!({"key": "invoice cleared", "value": true}),
    )
    .await;
    pass(&host, "deliver").await;
    let posted = host.post.take_requests();
    assert_eq!(posted.len(), 1);
    let body: Value = serde_json::from_slice(&posted[0].body).unwrap();
    assert_eq!(
        (&body["workspaceId"], body.get("runId")),
        (&json!("a"), None)
    );
    let payload = json!({"commitmentId": made["id"], "memoryRef": "m", "memoryId": made["memoryId"], "condition": "predicate"});
    assert_eq!(
        body["event"]["payload"], payload,
        "names, and nothing of what was meant"
    );
    let feed = String::from_utf8(host.get(&format!("{BASE}/events?limit=0")).await.bytes).unwrap();
    assert!(
        !feed.contains("marigold")
            && !String::from_utf8(posted[0].body.clone())
                .unwrap()
                .contains("marigold")
    );
}

const FIRE: &str = "/v1/host/sample/commitment/fire";
const TICK: &str = "/v1/host/sample/heartbeat/tick";

#[tokio::test]
async fn test_seams_require_their_flag_and_permission() {
    let host = TestServer::with_seams().await;
    let plain = TestServer::new().await;
    host.key(
        "a",
        "weak",
        &[Permission::MemoryRead, Permission::MemoryWrite],
    )
    .await;
    for (seam, body) in [
        (FIRE, json!({"memoryRef": "m", "condition": "predicate"})),
        (TICK, json!({"heartbeatId": "h", "observedState": {"n": 1}})),
    ] {
        let weak = host.call("weak", "POST", seam, &[], body.to_string()).await;
        assert_eq!(
            (weak.status.as_u16(), weak.code().as_str()),
            (403, "forbidden"),
            "{seam}"
        );
        assert_eq!(
            host.call("", "POST", seam, &[], body.to_string())
                .await
                .status,
            401,
            "{seam}"
        );
        assert_eq!(
            plain.post(seam, body).await.status,
            404,
            "{seam} without the flag"
        );
    }
    assert_eq!(
        host.get(&format!("{BASE}/events")).await.json()["nextAfter"],
        json!(0),
        "nothing was left behind"
    );
}

#[tokio::test]
async fn a_rehearsed_commitment_fires_once_without_publishing_its_text() {
    let host = TestServer::with_seams().await;
    for _ in 0..2 {
        let body = json!({"memoryRef": "mem://conformance/commitments", "condition": "predicate", "includeIntentionCanary": true});
        let answer = host.post(FIRE, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
        let reported = answer.json();
        let canary = text(&reported, "intentionCanary").to_owned();
        assert_eq!(
            (&reported["fireCount"], canary.is_empty()),
            (&json!(1), false)
        );
        assert_eq!(reported["event"]["condition"], json!("predicate"));
        let id = text(&reported["event"], "commitmentId");
        let shown = host.get(&format!("{BASE}/commitments/{id}")).await.json();
        assert!(
            text(&shown, "text").contains(&canary),
            "memory knows what was meant: {shown}"
        );
        let feed =
            String::from_utf8(host.get(&format!("{BASE}/events?limit=0")).await.bytes).unwrap();
        assert!(!feed.contains(&canary) && !reported["event"].to_string().contains(&canary));
    }
    let wrong = host
        .post(FIRE, json!({"memoryRef": "m", "condition": "whim"}))
        .await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_heartbeat_tick_reports_changes_only_and_times_out() {
    let host = TestServer::with_seams().await;
    let tick = async |state: Value, slow: u64| {
        let answer = host
            .post(
                TICK,
                json!({"heartbeatId": "hb-1", "observedState": state, "simulateSlowMs": slow}),
            )
            .await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.json());
        answer.json()
    };
    let reported = |change: Option<(Value, Value)>, runs: u64| {
        let changed = change.is_some();
        let change =
            change.map(|(from, to)| json!({"heartbeatId": "hb-1", "from": from, "to": to}));
        let changes: Vec<Value> = change.into_iter().collect();
        let evaluated = json!({"heartbeatId": "hb-1", "status": "ok", "changed": changed});
        json!({"evaluated": [evaluated], "stateChanged": changes, "enqueuedRuns": runs})
    };
    let first = Some((json!({}), json!({"holds": true})));
    let on = Some((json!({"holds": false}), json!({"holds": true})));
    let off = Some((json!({"holds": true}), json!({"holds": false})));
    assert_eq!(tick(json!({"queue": 1}), 0).await, reported(first, 1));
    assert_eq!(
        tick(json!({"queue": 1}), 0).await,
        reported(None, 0),
        "an unchanged tick starts nothing"
    );
    let slow = tick(json!({"queue": 2}), 60_000).await;
    let timeout = json!({"heartbeatId": "hb-1", "status": "timeout", "changed": false});
    assert_eq!(
        slow,
        json!({"evaluated": [timeout], "stateChanged": [], "enqueuedRuns": 0})
    );
    assert_eq!(
        tick(json!({"queue": 1}), 0).await,
        reported(None, 0),
        "what took too long changed nothing"
    );
    assert_eq!(tick(json!({"queue": 2}), 0).await, reported(off, 0));
    assert_eq!(
        tick(json!({"queue": 3}), 0).await,
        reported(on, 1),
        "and once more"
    );
}
