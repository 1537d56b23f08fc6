//! The deliver pass with recording receivers: order, signatures, retries, dead letters, crashes,
//! leases, isolation.

use remem_core::event::{
    CommitmentFired, HeartbeatEvaluated, HeartbeatStateChanged, NodeEnded, PredicateState, RunEnded,
};
use remem_core::{
    Admission, Batch, EventBody, Permission, Policy, Precondition, RecordBody, RecordKind,
    Redactor, RunId, Seq, TenantId, Timestamp,
};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{
    CountedIds, FixedClock, RecordedRequest, RecordingWebhookSender, WebhookError,
};
use remem_engine::registry::{self, PassKind, PassMode, PassReport};
use remem_engine::webhook::{NewWebhook, RegisteredWebhook, signature};
use remem_engine::{Caller, Engine, EngineError, EngineParts, HostKey};
use remem_store::Store;
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use remem_testkit::{FaultStore, storage};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const NOON: Timestamp = Timestamp(1_700_000_000_000);
const URL: &str = "https://receiver.example/hook";

struct WebhookTest {
    engine: Engine,
    store: Arc<dyn Store>,
    clock: Arc<FixedClock>,
    post: Arc<RecordingWebhookSender>,
    caller: Caller,
}

async fn world_on(
    store: Arc<dyn Store>,
    post: Arc<RecordingWebhookSender>,
    policy: Policy,
) -> WebhookTest {
    let clock = Arc::new(FixedClock::at(NOON));
    let key = HostKey::new([3; 32]);
    let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
    let parts = EngineParts::new(
        store.clone(),
        directory,
        clock.clone(),
        Arc::new(CountedIds::default()),
        key,
    );
    let engine = Engine::new(EngineParts {
        webhook_sender: post.clone(),
        envelope: remem_wire::webhook::envelope,
        policy,
        ..parts
    });
    let caller = caller(&engine, "t").await;
    WebhookTest {
        engine,
        store,
        clock,
        post,
        caller,
    }
}

async fn world() -> WebhookTest {
    world_on(
        Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()),
        Arc::default(),
        Policy::default(),
    )
    .await
}

async fn caller(engine: &Engine, tenant: &str) -> Caller {
    let tenant_id = TenantId::parse(tenant).unwrap();
    let request = KeyRequest {
        tenant: tenant_id,
        label: String::new(),
        permissions: Permission::ALL.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
    };
    engine.add_key(tenant, request).await.unwrap();
    engine.authenticate(tenant).await.unwrap()
}

fn new(url: &str, events: &[&str]) -> NewWebhook {
    NewWebhook {
        url: url.to_owned(),
        events: events.iter().map(|e| (*e).to_owned()).collect(),
        ..NewWebhook::default()
    }
}

impl WebhookTest {
    async fn hook(&self, url: &str) -> RegisteredWebhook {
        self.engine
            .register_webhook(
                &self.caller,
                new(url, &["node.completed", "run.completed"]),
                None,
            )
            .await
            .unwrap()
    }

    async fn emit_as(&self, tenant: &TenantId, run: &str, nodes: &[&str]) {
        let empty = Batch::new(tenant.clone(), NOON).in_run(RunId::parse(run).unwrap());
        let batch = nodes.iter().fold(empty, |batch, node| {
            batch.emit(EventBody::NodeCompleted(NodeEnded {
                node_id: (*node).to_owned(),
            }))
        });
        self.store.commit(batch).await.unwrap();
    }

    async fn emit(&self, run: &str, nodes: &[&str]) {
        self.emit_as(self.caller.tenant(), run, nodes).await;
    }

    async fn deliver(&self) -> PassReport {
        self.engine
            .run_pass(
                registry::find("deliver").unwrap(),
                self.caller.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap()
    }

    async fn at(&self, seconds: i64) -> Vec<String> {
        self.clock.set(NOON.plus_ms(seconds * 1_000));
        self.deliver().await;
        nodes(&self.post.take_requests())
    }

    async fn state(&self) -> remem_engine::webhook::Webhook {
        self.engine
            .list_webhooks(&self.caller)
            .await
            .unwrap()
            .remove(0)
    }
}

fn nodes(posted: &[RecordedRequest]) -> Vec<String> {
    let body = |one: &RecordedRequest| serde_json::from_slice::<Value>(&one.body).unwrap();
    posted
        .iter()
        .map(|one| {
            body(one)["event"]["nodeId"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

/// As any record is made: redacted, which must leave sealed fields intact.
fn record_body(body: Value) -> RecordBody {
    let admission = Admission {
        policy: &Policy::default(),
        redactor: &Redactor::empty(),
        redaction_fingerprint: 0,
        now: NOON,
    };
    admission.redact_record(body.as_object().cloned().unwrap())
}

#[tokio::test]
async fn events_are_delivered_in_order_signed_and_once() {
    let world = world().await;
    world.emit("run_0", &["before"]).await;
    let made = world.hook(URL).await;
    world.emit("run_1", &["a", "b"]).await;
    world.emit("run_2", &["c"]).await;
    let dry = world
        .engine
        .run_pass(
            registry::find("deliver").unwrap(),
            world.caller.tenant(),
            PassMode::DryRun,
        )
        .await
        .unwrap();
    assert_eq!(
        dry,
        PassReport {
            examined: 3,
            changed: 3,
            more: false
        }
    );
    assert!(
        world.post.take_requests().is_empty(),
        "a dry run sends nothing"
    );
    assert_eq!(
        world.deliver().await,
        PassReport {
            examined: 3,
            changed: 3,
            more: false
        }
    );
    let posted = world.post.take_requests();
    assert_eq!(
        nodes(&posted),
        ["a", "b", "c"],
        "in order, and nothing from before"
    );
    assert_eq!(
        world.deliver().await,
        PassReport::default(),
        "a second time finds nothing"
    );
    let first = &posted[1];
    let body: Value = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(
        (first.url.as_str(), &body["runId"], &body["workspaceId"]),
        (URL, &json!("run_1"), &json!("t"))
    );
    assert_eq!(
        body["event"],
        json!({"eventId": "evt_000000000003", "runId": "run_1", "type": "node.completed", "sequence": 1, "nodeId": "b",
            "timestamp": "2023-11-14T22:13:20.000Z", "payload": {"nodeId": "b"}})
    );
    let signed = signature(&made.secret, NOON.0 / 1_000, &first.body);
    for (name, value) in [
        ("Content-Type", "application/json"),
        ("X-openwop-Webhook-Id", made.webhook.id.as_str()),
        ("X-openwop-Event-Type", "node.completed"),
        ("X-openwop-Timestamp", "1700000000"),
        ("OpenWOP-Timestamp", "1700000000"),
        ("X-openwop-Signature", signed.as_str()),
        ("OpenWOP-Signature", signed.as_str()),
        ("X-openwop-Signature-Algorithm", "v1"),
    ] {
        assert_eq!(first.header(name), value, "{name}");
    }
    assert!(
        first
            .header("User-Agent")
            .starts_with("openwop-webhook-dispatcher/")
    );
    assert_eq!(
        (world.state().await.health.deliveries, made.secret.len()),
        (3, 64)
    );
}

fn fired(name: &str) -> EventBody {
    let commitment_id = name.to_owned();
    let memory_ref = "m".to_owned();
    let condition = "time".to_owned();
    EventBody::CommitmentFired(CommitmentFired {
        commitment_id,
        memory_ref,
        memory_id: None,
        condition,
        enqueued_run_id: None,
    })
}

#[tokio::test]
async fn events_without_a_run_go_only_to_webhooks_without_tags() {
    let world = world().await;
    let kinds = [
        "commitment.fired",
        "memory.written",
        "heartbeat.evaluated",
        "heartbeat.stateChanged",
    ];
    let made = world
        .engine
        .register_webhook(&world.caller, new(URL, &kinds), None)
        .await
        .unwrap();
    let tagged = NewWebhook {
        tags: vec!["x".to_owned()],
        ..new("https://receiver.example/tagged", &kinds)
    };
    world
        .engine
        .register_webhook(&world.caller, tagged, None)
        .await
        .unwrap();
    world
        .engine
        .register_webhook(
            &world.caller,
            new("https://receiver.example/other", &["run.completed"]),
            None,
        )
        .await
        .unwrap();
    let looked = HeartbeatEvaluated {
        heartbeat_id: "h".to_owned(),
        status: "ok".to_owned(),
        changed: true,
    };
    let from = PredicateState { holds: None };
    let to = PredicateState { holds: Some(true) };
    let changed = HeartbeatStateChanged {
        heartbeat_id: "h".to_owned(),
        from,
        to,
    };
    let batch = Batch::new(world.caller.tenant().clone(), NOON);
    let batch = batch
        .emit(fired("cmt_1"))
        .emit(EventBody::HeartbeatEvaluated(looked))
        .emit(EventBody::HeartbeatStateChanged(changed));
    world.store.commit(batch).await.unwrap();
    assert_eq!(
        world.deliver().await,
        PassReport {
            examined: 2,
            changed: 2,
            more: false
        }
    );
    let posted = world.post.take_requests();
    let body = |n: usize| serde_json::from_slice::<Value>(&posted[n].body).unwrap();
    assert_eq!(
        body(0),
        json!({"workspaceId": "t", "event": {"eventId": "evt_000000000001", "type": "commitment.fired", "sequence": 1,
            "timestamp": "2023-11-14T22:13:20.000Z", "payload": {"commitmentId": "cmt_1", "memoryRef": "m", "condition": "time"}}})
    );
    assert_eq!(
        (&body(1)["event"]["type"], posted[1].url.as_str()),
        (&json!("heartbeat.stateChanged"), URL),
        "looks alone are not sent"
    );
    assert_eq!(posted[0].header("X-openwop-Event-Type"), "commitment.fired");
    assert_eq!(
        posted[0].header("X-openwop-Signature"),
        signature(&made.secret, NOON.0 / 1_000, &posted[0].body)
    );
    assert_eq!(world.deliver().await, PassReport::default(), "once");
}

#[tokio::test]
async fn events_without_a_run_are_retried_and_become_dead_letters() {
    let world = world().await;
    let made = world
        .engine
        .register_webhook(&world.caller, new(URL, &["commitment.fired"]), None)
        .await
        .unwrap();
    world
        .post
        .set_answers(URL, std::iter::repeat_n(Some(Ok(500)), 8));
    world
        .store
        .commit(Batch::new(world.caller.tenant().clone(), NOON).emit(fired("cmt_1")))
        .await
        .unwrap();
    let mut at = 0;
    for wait in [0, 30, 60, 120, 240, 480, 960, 1_920] {
        at += wait;
        assert_eq!(world.at(at).await.len(), 1, "after {wait} more seconds");
    }
    let (letters, _) = world
        .engine
        .list_dead_letters(&world.caller, &made.webhook.id, Seq(0), None)
        .await
        .unwrap();
    assert_eq!(
        (
            letters.len(),
            letters[0].kind.as_str(),
            letters[0].run.as_str()
        ),
        (1, "commitment.fired", "")
    );
    assert!(
        world
            .engine
            .redeliver(&world.caller, &made.webhook.id, letters[0].seq)
            .await
            .unwrap()
            .delivered
    );
    assert!(
        world
            .engine
            .list_dead_letters(&world.caller, &made.webhook.id, Seq(0), None)
            .await
            .unwrap()
            .0
            .is_empty()
    );
}

#[tokio::test]
async fn a_failed_delivery_is_retried_with_backoff_then_dead_lettered() {
    let world = world().await;
    let made = world.hook(URL).await;
    let errors = [
        Ok(500),
        Ok(302),
        Err(WebhookError::Unreachable),
        Ok(404),
        Err(WebhookError::Refused),
        Ok(503),
        Err(WebhookError::Timeout),
        Ok(500),
    ];
    world.post.set_answers(URL, errors.map(Some));
    world.emit("run_1", &["a", "b"]).await;
    let mut at = 0;
    assert_eq!(world.at(0).await, ["a"], "b waits for a");
    for wait in [30, 60, 120, 240, 480, 960] {
        assert!(
            world.at(at + wait - 1).await.is_empty(),
            "too early after {wait}"
        );
        at += wait;
        assert_eq!(world.at(at).await, ["a"], "after {wait} more seconds");
    }
    let state = world.state().await;
    assert_eq!(
        (
            state.health.attempts,
            state.health.failures,
            state.health.last_error.as_deref()
        ),
        (7, 7, Some("timeout"))
    );
    assert_eq!(
        state.health.next_attempt_at,
        Some(NOON.plus_ms((at + 1_920) * 1_000))
    );
    at += 1_920;
    assert_eq!(
        world.at(at).await,
        ["a", "b"],
        "the last attempt, and on with the next"
    );
    let state = world.state().await;
    assert_eq!(
        (
            state.health.attempts,
            state.health.failures,
            state.health.deliveries,
            state.paused
        ),
        (0, 8, 1, false)
    );
    let (letters, more) = world
        .engine
        .list_dead_letters(&world.caller, &made.webhook.id, Seq(0), None)
        .await
        .unwrap();
    assert_eq!((letters.len(), more), (1, false));
    let letter = &letters[0];
    assert_eq!(
        (letter.seq, letter.run.as_str(), letter.kind.as_str()),
        (Seq(1), "run_1", "node.completed")
    );
    assert_eq!(
        (letter.attempts, letter.error.as_str(), letter.at),
        (8, "status_500", NOON.plus_ms(at * 1_000))
    );
    // Redelivery by a caller: one more failure, then it succeeds.
    world.post.set_answers(URL, [Some(Ok(500))]);
    let again = async || {
        world
            .engine
            .redeliver(&world.caller, &made.webhook.id, Seq(1))
            .await
    };
    assert_eq!(again().await.unwrap().error.as_deref(), Some("status_500"));
    assert_eq!(
        world
            .engine
            .list_dead_letters(&world.caller, &made.webhook.id, Seq(0), None)
            .await
            .unwrap()
            .0[0]
            .attempts,
        9
    );
    assert!(again().await.unwrap().delivered);
    assert!(matches!(again().await, Err(EngineError::NotFound(_))));
    assert_eq!(nodes(&world.post.take_requests()), ["a", "a"]);
}

#[tokio::test]
async fn dead_letters_are_bounded_and_removed_with_their_webhook() {
    let policy = Policy {
        webhook_attempts_max: 1,
        dead_letters_max: 3,
        ..Policy::default()
    };
    let world = world_on(
        Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()),
        Arc::default(),
        policy,
    )
    .await;
    let id = world.hook(URL).await.webhook.id;
    world.post.set_answers(URL, [Some(Ok(500)); 5]);
    world.emit("run_1", &["a", "b", "c", "d", "e"]).await;
    assert_eq!(world.deliver().await.changed, 5);
    let page = async |after, limit| {
        world
            .engine
            .list_dead_letters(&world.caller, &id, Seq(after), limit)
            .await
            .unwrap()
    };
    let seqs = |letters: Vec<remem_engine::webhook::DeadLetter>| {
        letters.into_iter().map(|l| l.seq.0).collect::<Vec<_>>()
    };
    assert_eq!(seqs(page(0, None).await.0), [3, 4, 5], "the newest three");
    let (first, more) = page(0, Some(2)).await;
    assert_eq!((seqs(first), more), (vec![3, 4], true));
    let (rest, more) = page(4, Some(2)).await;
    assert_eq!((seqs(rest), more), (vec![5], false));
    world
        .engine
        .remove_webhook(&world.caller, &id)
        .await
        .unwrap();
    assert!(
        world
            .store
            .records(world.caller.tenant(), RecordKind::DeadLetter, "", None, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(matches!(
        world.engine.remove_webhook(&world.caller, &id).await,
        Err(EngineError::UnknownWebhook)
    ));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_or_gone_receiver_does_not_delay_others() {
    let world = world().await;
    let slow = "https://slow.example/";
    let gone = "https://gone.example/";
    world.hook(slow).await;
    world.hook(gone).await;
    world.hook(URL).await;
    world.post.set_answers(slow, [None]);
    world.post.set_answers(gone, [Some(Ok(410))]);
    world.emit("run_1", &["a", "b"]).await;
    let before = tokio::time::Instant::now();
    world.deliver().await;
    assert!(
        before.elapsed() < Duration::from_millis(5_100),
        "one deadline, not three"
    );
    let urls: BTreeSet<(String, String)> = {
        let posted = world.post.take_requests();
        posted
            .iter()
            .map(|p| p.url.clone())
            .zip(nodes(&posted))
            .collect()
    };
    let expected = [(slow, "a"), (gone, "a"), (URL, "a"), (URL, "b")]
        .map(|(url, node)| (url.to_owned(), node.to_owned()));
    assert_eq!(urls, BTreeSet::from(expected));
    let webhooks = world.engine.list_webhooks(&world.caller).await.unwrap();
    assert_eq!(webhooks[0].health.last_error.as_deref(), Some("timeout"));
    assert_eq!(
        webhooks.iter().map(|w| w.paused).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(
        world.at(100_000).await,
        ["a", "b"],
        "the slow one catches up, the one that is gone gets nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_the_post_and_the_commit_repeats_the_event() {
    let faulty = Arc::new(FaultStore::failing(
        storage::sqlite(Location::Memory).store,
        5,
        50,
    ));
    let world = world_on(faulty.clone(), Arc::default(), Policy::default()).await;
    let tenant = world.caller.tenant();
    while world
        .engine
        .register_webhook(&world.caller, new(URL, &["node.completed"]), Some("key"))
        .await
        .is_err()
    {}
    let names: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    let empty = Batch::new(tenant.clone(), NOON).in_run(RunId::parse("run_1").unwrap());
    let batch = names.iter().fold(empty, |batch, node| {
        batch.emit(EventBody::NodeCompleted(NodeEnded {
            node_id: node.clone(),
        }))
    });
    faulty.inner().commit(batch).await.unwrap();
    let mut failed = 0;
    for round in 0.. {
        // Beyond every lease that an injected fault left behind.
        world.clock.set(NOON.plus_ms(round * 40_000));
        match world
            .engine
            .run_pass(registry::find("deliver").unwrap(), tenant, PassMode::Apply)
            .await
        {
            Ok(report) if report == PassReport::default() => break,
            Ok(_) => {}
            Err(_) => failed += 1,
        }
    }
    let mut got = nodes(&world.post.take_requests());
    assert!(failed > 3, "faults were injected");
    assert!(
        got.windows(2).any(|pair| pair[0] == pair[1]),
        "at least once is not exactly once"
    );
    got.dedup();
    assert_eq!(got, names, "each in its order, none left out");
}

#[tokio::test]
async fn only_the_lease_holder_advances_webhook_delivery() {
    let inner = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
    let post = Arc::new(RecordingWebhookSender::default());
    let one = world_on(inner.clone(), post.clone(), Policy::default()).await;
    let two = world_on(inner, post, Policy::default()).await;
    one.hook(URL).await;
    one.emit("run_1", &["a", "b", "c"]).await;
    let (left, right) = tokio::join!(one.deliver(), two.deliver());
    assert_eq!(left.changed + right.changed, 3);
    assert_eq!(nodes(&one.post.take_requests()), ["a", "b", "c"]);
    // A node that was paused for longer than its lease cannot move the position.
    one.emit("run_1", &["d"]).await;
    let tenant = one.caller.tenant();
    let stale = one
        .store
        .acquire_lease(tenant, "deliver", "sleeper", NOON, 1)
        .await
        .unwrap()
        .unwrap();
    one.store
        .acquire_lease(tenant, "deliver", "other", NOON.plus_ms(1_000), 1)
        .await
        .unwrap()
        .unwrap();
    let PassKind::Tenant { run, .. } = registry::find("deliver").unwrap().kind else {
        panic!("it works over the host")
    };
    run(&one.engine, tenant, PassMode::Apply, Some(stale))
        .await
        .unwrap();
    assert_eq!(
        (
            nodes(&one.post.take_requests()),
            one.state().await.health.deliveries
        ),
        (vec!["d".to_owned()], 3),
        "sent, but not counted"
    );
}

#[tokio::test]
async fn events_of_other_tenants_types_or_tags_are_not_delivered() {
    let world = world().await;
    let other = caller(&world.engine, "other").await;
    let tagged = NewWebhook {
        tags: vec!["prod".into(), "beta".into()],
        ..new("https://tagged.example/", &["node.completed"])
    };
    world
        .engine
        .register_webhook(&world.caller, tagged, None)
        .await
        .unwrap();
    world
        .engine
        .register_webhook(
            &world.caller,
            new("https://ends.example/", &["run.completed"]),
            None,
        )
        .await
        .unwrap();
    world
        .engine
        .register_webhook(
            &other,
            new(
                "https://other.example/",
                &["node.completed", "run.completed"],
            ),
            None,
        )
        .await
        .unwrap();
    for (run, tags) in [
        ("run_1", json!(["dev", "prod"])),
        ("run_2", json!(["dev"])),
        ("run_3", json!([])),
    ] {
        let body = record_body(json!({"tags": tags}));
        let batch = Batch::new(world.caller.tenant().clone(), NOON).set_record(
            RecordKind::Run,
            run.to_owned(),
            Precondition::Absent,
            body,
        );
        world.store.commit(batch).await.unwrap();
        world.emit(run, &[run]).await;
    }
    world.emit("run_without_record", &["x"]).await;
    let ended = EventBody::RunCompleted(RunEnded { duration_ms: 1 });
    let tenant = world.caller.tenant().clone();
    world
        .store
        .commit(Batch::new(tenant.clone(), NOON).emit(ended.clone()))
        .await
        .unwrap(); // belongs to no run
    world
        .store
        .commit(
            Batch::new(tenant, NOON)
                .in_run(RunId::parse("run_3").unwrap())
                .emit(ended),
        )
        .await
        .unwrap();
    assert_eq!(
        world.deliver().await,
        PassReport {
            examined: 2,
            changed: 2,
            more: false
        }
    );
    let posted = world.post.take_requests();
    let got: BTreeSet<_> = posted
        .iter()
        .map(|p| (p.url.as_str(), p.header("X-openwop-Event-Type")))
        .collect();
    assert_eq!(
        got,
        BTreeSet::from([
            ("https://tagged.example/", "node.completed"),
            ("https://ends.example/", "run.completed")
        ])
    );
    assert_eq!(posted.len(), 2, "one run has the tag, one event ends a run");
    let deliver = registry::find("deliver").unwrap();
    assert_eq!(
        world
            .engine
            .run_pass(deliver, other.tenant(), PassMode::Apply)
            .await
            .unwrap(),
        PassReport::default()
    );
    assert!(
        world.post.take_requests().is_empty(),
        "the other tenant asked for everything, of its own"
    );
    world.emit_as(other.tenant(), "run_1", &["theirs"]).await;
    world
        .engine
        .run_pass(deliver, other.tenant(), PassMode::Apply)
        .await
        .unwrap();
    let posted = world.post.take_requests();
    assert_eq!(
        (posted.len(), posted[0].url.as_str()),
        (1, "https://other.example/")
    );
}

#[tokio::test]
async fn delivery_skips_unwanted_events_and_is_bounded_per_pass() {
    let policy = Policy {
        webhook_events_max: 2,
        ..Policy::default()
    };
    let world = world_on(
        Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()),
        Arc::default(),
        policy,
    )
    .await;
    world
        .engine
        .register_webhook(&world.caller, new(URL, &["run.completed"]), None)
        .await
        .unwrap();
    let many: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    world
        .emit(
            "run_1",
            &many.iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await;
    assert_eq!(world.deliver().await, PassReport::default());
    let records = world
        .store
        .records(world.caller.tenant(), RecordKind::Webhook, "", None, 10)
        .await
        .unwrap();
    assert_eq!(records[0].body["after"], 300);
    world.hook("https://second.example/").await;
    world.emit("run_1", &["a", "b", "c"]).await;
    assert_eq!(
        world.deliver().await,
        PassReport {
            examined: 2,
            changed: 2,
            more: true
        }
    );
    assert_eq!(
        world.deliver().await,
        PassReport {
            examined: 1,
            changed: 1,
            more: false
        }
    );
    assert_eq!(nodes(&world.post.take_requests()), ["a", "b", "c"]);
}

#[tokio::test]
async fn stored_webhooks_contain_neither_secret_nor_url_in_plain_text() {
    let world = world().await;
    let secret = "whsec-caller-supplied-0123";
    let url = "https://hooks.example/services/T00000000/B00000000/token-in-the-path";
    let mine = NewWebhook {
        secret: Some(secret.to_owned()),
        ..new(url, &["node.completed"])
    };
    let made = world
        .engine
        .register_webhook(&world.caller, mine, None)
        .await
        .unwrap();
    assert_eq!(made.secret.as_str(), secret);
    world.emit("run_1", &["a"]).await;
    world.deliver().await;
    assert_eq!(world.post.take_requests()[0].url, url);
    let record = world
        .store
        .record(world.caller.tenant(), RecordKind::Webhook, &made.webhook.id)
        .await
        .unwrap()
        .unwrap();
    let stored = serde_json::to_string(&record.body).unwrap();
    assert!(
        !stored.contains(secret) && !stored.contains("hooks.example") && !stored.contains("token"),
        "{stored}"
    );
    // A sealed field that is moved to another webhook does not decrypt there.
    let other = world.hook(URL).await.webhook.id;
    let moved = world
        .store
        .record(world.caller.tenant(), RecordKind::Webhook, &other)
        .await
        .unwrap()
        .unwrap();
    let body = record_body(Value::Object(record.body));
    let batch = Batch::new(world.caller.tenant().clone(), NOON);
    world
        .store
        .commit(batch.set_record(
            RecordKind::Webhook,
            other,
            Precondition::Version(moved.version),
            body,
        ))
        .await
        .unwrap();
    world.emit("run_1", &["b"]).await;
    world.deliver().await;
    assert_eq!(
        nodes(&world.post.take_requests()),
        ["b"],
        "only the first one"
    );
    let webhooks = world.engine.list_webhooks(&world.caller).await.unwrap();
    assert_eq!(
        webhooks[1].health.last_error.as_deref(),
        Some("sealed_with_another_key")
    );
}

#[tokio::test]
async fn the_runner_delivers_immediately_and_stops_on_request() {
    let world = world().await;
    world.hook(URL).await;
    let engine = Arc::new(world.engine);
    let post = world.post;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let passes = remem_engine::runner::start(&engine, &stopping);
    tokio::time::sleep(Duration::from_millis(300)).await; // the first look at all tenants is over
    let batch =
        Batch::new(world.caller.tenant().clone(), NOON).in_run(RunId::parse("run_1").unwrap());
    world
        .store
        .commit(batch.emit(EventBody::RunCompleted(RunEnded { duration_ms: 1 })))
        .await
        .unwrap();
    engine.notify_run_events(world.caller.tenant());
    let arrived = async {
        while post.take_requests().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), arrived)
        .await
        .expect("well before all tenants are looked at again");
    stop.send_replace(true);
    for pass in passes {
        tokio::time::timeout(Duration::from_secs(5), pass)
            .await
            .expect("it stops")
            .unwrap();
    }
}
