//! Runs through failures: a store that fails before or after a commit, a process that goes away.
//! Each effect happens once, the log has no gap, and there is one last event.

use remem_core::redact::SecretValue;
use remem_core::{EventKind, Permission, RecordKind, RunStatus, TenantId, Timestamp};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{CountedIds, FixedClock};
use remem_engine::recall::ListRequest;
use remem_engine::registry::{self, Mode};
use remem_engine::runs::{NewRun, Run};
use remem_engine::{Caller, Engine, EngineError, HostKey, Parts, VaultKey, runner};
use remem_store::{Directory, FaultyStore, Store};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const NOON: Timestamp = Timestamp(1_700_000_000_000);

struct Place {
    store: Arc<dyn Store>,
    directory: Arc<dyn Directory>,
    clock: Arc<FixedClock>,
    ids: Arc<CountedIds>,
}

impl Place {
    fn new(store: Arc<dyn Store>) -> Place {
        let directory = Arc::new(SqliteDirectory::open(&Location::Memory).unwrap());
        Place {
            store,
            directory,
            clock: Arc::new(FixedClock::at(NOON)),
            ids: Arc::default(),
        }
    }

    /// A process over the same storage.
    fn process(&self) -> Arc<Engine> {
        self.process_with(None)
    }

    fn process_with(&self, vault: Option<VaultKey>) -> Arc<Engine> {
        let key = HostKey::new([3; 32]);
        let parts = Parts::new(
            self.store.clone(),
            self.directory.clone(),
            self.clock.clone(),
            self.ids.clone(),
            key,
        );
        Arc::new(Engine::new(Parts { vault, ..parts }))
    }

    async fn caller(&self, engine: &Engine) -> Caller {
        let tenant = TenantId::parse("t").unwrap();
        let request = KeyRequest {
            tenant,
            label: String::new(),
            permissions: Permission::ALL.to_vec(),
            expires_at: None,
            principal: None,
        };
        engine.add_key("key", request).await.unwrap();
        engine.authenticate("key").await.unwrap()
    }
}

/// Until it works: what fails here is the storage.
async fn insist<T>(mut what: impl AsyncFnMut() -> Result<T, EngineError>) -> T {
    for _ in 0..200 {
        match what().await {
            Ok(done) => return done,
            Err(EngineError::Store(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("it never works");
}

/// Writes, reads (which commits midway), writes again, and starts a run of its own.
fn workflow() -> serde_json::Map<String, serde_json::Value> {
    let node = |id: &str, config: serde_json::Value| json!({"id": id, "typeId": "core.identity", "config": config});
    let write = |id: &str| {
        node(
            id,
            json!({"memoryAction": "write", "memoryRef": "m", "content": format!("text of {id}"), "into": id}),
        )
    };
    let child =
        json!({"id": "child", "typeId": "core.subWorkflow", "config": {"workflowId": "small"}});
    let delete = node(
        "delete",
        json!({"memoryAction": "delete", "memoryRef": "m", "idFrom": "variables.one"}),
    );
    let read = node("read", json!({"memoryAction": "read", "memoryRef": "m"}));
    json!({"id": "large", "nodes": [write("one"), write("two"), read, child, delete, write("three")]}).as_object().cloned().unwrap()
}

fn small() -> serde_json::Map<String, serde_json::Value> {
    let write = json!({"memoryAction": "write", "memoryRef": "m", "content": "text of the child"});
    json!({"id": "small", "nodes": [{"id": "w", "typeId": "core.identity", "config": write}]})
        .as_object()
        .cloned()
        .unwrap()
}

async fn start(engine: &Engine, caller: &Caller) -> Run {
    insist(async || engine.put_workflow(caller, "small", small()).await).await;
    insist(async || engine.put_workflow(caller, "large", workflow()).await).await;
    let new = NewRun {
        workflow_id: "large".to_owned(),
        ..NewRun::default()
    };
    insist(async || engine.create_run(caller, new.clone(), Some("once")).await)
        .await
        .run
}

/// What the run left, whatever happened on the way.
async fn check(engine: &Engine, caller: &Caller, id: &str, story: &str) {
    let (log, complete) = insist(async || engine.run_events(caller, id, 0).await).await;
    assert!(complete, "{story}");
    let seqs: Vec<u64> = log
        .iter()
        .map(|event| event.run.as_ref().unwrap().seq)
        .collect();
    assert_eq!(seqs, (0..log.len() as u64).collect::<Vec<_>>(), "{story}");
    let kinds: Vec<EventKind> = log.iter().map(|event| event.body.kind()).collect();
    let count = |kind: EventKind| kinds.iter().filter(|k| **k == kind).count();
    assert_eq!(
        (kinds.last(), count(EventKind::RunCompleted)),
        (Some(&EventKind::RunCompleted), 1),
        "{story}: {kinds:?}"
    );
    assert_eq!(
        (count(EventKind::Written), count(EventKind::Deleted)),
        (3, 1),
        "{story}: {kinds:?}"
    );
    assert_eq!(
        (
            count(EventKind::NodeCompleted),
            count(EventKind::RunStarted)
        ),
        (6, 1),
        "{story}: {kinds:?}"
    );
    let listed = insist(async || engine.list(caller, "m", ListRequest::default()).await)
        .await
        .entries;
    let mut texts: Vec<&str> = listed.iter().map(|entry| entry.content.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(
        texts,
        ["text of the child", "text of three", "text of two"],
        "{story}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_effect_happens_once_though_the_store_fails() {
    let mut fired = 0;
    for seed in 0..40 {
        let store = Arc::new(FaultyStore::new(
            SqliteStore::open(Location::Memory, 1).unwrap(),
            seed,
            24,
        ));
        let place = Place::new(store.clone());
        let engine = place.process();
        let caller = place.caller(&engine).await;
        let (_stop, stopping) = watch::channel(false);
        runner::start_runs(&engine, &stopping);
        let run = start(&engine, &caller).await;
        for _ in 0..100 {
            let now = insist(async || engine.run(&caller, run.id.as_str()).await).await;
            if now.state.status.is_terminal() {
                assert_eq!(
                    now.state.status,
                    RunStatus::Completed,
                    "seed {seed}: {:?}",
                    now.state.error
                );
                break;
            }
            // A run that stands still is taken up by the pass, after a while; a lease that was not
            // given back ends by then.
            place.clock.set(Timestamp(place_now(&place).0 + 31_000));
            let _ = engine
                .run_pass(
                    registry::find("runs").unwrap(),
                    caller.tenant(),
                    Mode::Apply,
                )
                .await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        check(&engine, &caller, run.id.as_str(), &format!("seed {seed}")).await;
        fired += store.fired();
    }
    assert!(fired > 40, "the store did fail: {fired}");
}

fn place_now(place: &Place) -> Timestamp {
    remem_engine::ports::Clock::now(place.clock.as_ref())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_takes_up_what_one_left() {
    let place = Place::new(Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()));
    let first = place.process();
    let caller = place.caller(&first).await;
    // This process carries nothing on: it goes away right after it answered.
    let run = start(&first, &caller).await;
    drop(first);
    let second = place.process();
    let caller = second.authenticate("key").await.unwrap();
    let (_stop, stopping) = watch::channel(false);
    runner::start_runs(&second, &stopping);
    let pass = registry::find("runs").unwrap();
    let early = second
        .run_pass(pass, caller.tenant(), Mode::Apply)
        .await
        .unwrap();
    assert_eq!(
        (early.examined, early.changed),
        (1, 0),
        "somebody may still be at it"
    );
    place.clock.set(NOON.plus_ms(6_000));
    assert_eq!(
        second
            .run_pass(pass, caller.tenant(), Mode::Apply)
            .await
            .unwrap()
            .changed,
        1
    );
    for _ in 0..500 {
        if second
            .run(&caller, run.id.as_str())
            .await
            .unwrap()
            .state
            .status
            .is_terminal()
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    check(&second, &caller, run.id.as_str(), "taken up").await;
    assert!(
        place
            .store
            .snapshots(caller.tenant())
            .await
            .unwrap()
            .is_empty(),
        "nothing is held any more"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_both_carry_a_run_on() {
    for round in 0..10 {
        let place = Place::new(Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()));
        let first = place.process();
        let second = place.process();
        let caller = place.caller(&first).await;
        let run = start(&first, &caller).await;
        place.clock.set(NOON.plus_ms(6_000));
        second
            .run_pass(
                registry::find("runs").unwrap(),
                caller.tenant(),
                Mode::Apply,
            )
            .await
            .unwrap();
        let (_stop, stopping) = watch::channel(false);
        runner::start_runs(&first, &stopping);
        runner::start_runs(&second, &stopping);
        for _ in 0..1_000 {
            if first
                .run(&caller, run.id.as_str())
                .await
                .unwrap()
                .state
                .status
                .is_terminal()
            {
                break;
            }
            place.clock.set(Timestamp(place_now(&place).0 + 6_000));
            let _ = second
                .run_pass(
                    registry::find("runs").unwrap(),
                    caller.tenant(),
                    Mode::Apply,
                )
                .await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        check(&first, &caller, run.id.as_str(), &format!("round {round}")).await;
    }
}

async fn until_ended(engine: &Engine, caller: &Caller, run: &Run) -> RunStatus {
    for _ in 0..1_000 {
        let status = engine
            .run(caller, run.id.as_str())
            .await
            .unwrap()
            .state
            .status;
        if status.is_terminal() {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never ends");
}

/// Completed or cancelled: nothing is left of what it was given, and nobody carries it on any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_run_stays_ended_and_keeps_no_secret() {
    for cancelled in [false, true] {
        let place = Place::new(Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()));
        let engine = place.process_with(Some(VaultKey::new([9; 32])));
        let caller = place.caller(&engine).await;
        start(&engine, &caller).await;
        let secrets = vec![SecretValue::new("mine", "plum-harbour-Velvet-19")];
        let new = NewRun {
            workflow_id: "small".to_owned(),
            secrets,
            ..NewRun::default()
        };
        let run = engine.create_run(&caller, new, None).await.unwrap().run;
        let kept = async || {
            place
                .store
                .records(caller.tenant(), RecordKind::Secret, "", None, 9)
                .await
                .unwrap()
                .len()
        };
        assert_eq!(kept().await, 1);
        let (_stop, stopping) = watch::channel(false);
        if cancelled {
            engine.cancel_run(&caller, run.id.as_str()).await.unwrap();
        }
        runner::start_runs(&engine, &stopping);
        let status = until_ended(&engine, &caller, &run).await;
        assert_eq!(
            (status, kept().await),
            (
                if cancelled {
                    RunStatus::Cancelled
                } else {
                    RunStatus::Completed
                },
                0
            )
        );
        let length = async || {
            engine
                .run_events(&caller, run.id.as_str(), 0)
                .await
                .unwrap()
                .0
                .len()
        };
        let before = length().await;
        // Whoever still has its name in hand finds that there is nothing to do.
        place.clock.set(NOON.plus_ms(120_000));
        engine
            .run_pass(
                registry::find("runs").unwrap(),
                caller.tenant(),
                Mode::Apply,
            )
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(length().await, before);
    }
}

#[tokio::test]
async fn a_run_that_takes_too_long_is_ended() {
    let place = Place::new(Arc::new(SqliteStore::open(Location::Memory, 1).unwrap()));
    let engine = place.process();
    let caller = place.caller(&engine).await;
    let run = start(&engine, &caller).await;
    place.clock.set(NOON.plus_ms(3_600_000 + 10_000));
    let later = place.process(); // the first one is gone
    later
        .run_pass(
            registry::find("runs").unwrap(),
            caller.tenant(),
            Mode::Apply,
        )
        .await
        .unwrap();
    let state = later.run(&caller, run.id.as_str()).await.unwrap().state;
    assert_eq!(
        (state.status, state.error.unwrap().code.as_str()),
        (RunStatus::Failed, "run_timeout")
    );
    assert!(
        place
            .store
            .snapshots(caller.tenant())
            .await
            .unwrap()
            .is_empty()
    );
}
