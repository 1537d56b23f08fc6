//! Runs through failures: a store that fails before or after a commit, a process that stops. Each
//! effect happens once, the log has no gap, and there is one final event.

use remem_core::redact::SecretValue;
use remem_core::run::ForkMode;
use remem_core::{EventBody, EventKind, RecordKind, RunStatus};
use remem_engine::ports::Clock;
use remem_engine::read::ListRequest;
use remem_engine::registry::{self, PassMode};
use remem_engine::runs::{ForkRequest, NewRun, Run};
use remem_engine::{Caller, Engine, EngineError, runner};
use remem_testkit::{NOON, TestEnv, TestHost, cases, wait_for, wait_until};
use serde_json::json;
use tokio::sync::watch;

/// Repeats until it succeeds: what fails here is the storage.
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

/// Writes, reads (which commits midway), writes again, and runs a sub-workflow.
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

/// Checks the state that the run left, after any failure in between.
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
async fn each_run_effect_happens_once_despite_store_failures() {
    let seeds = u64::from(cases(10, 40));
    let mut fired = 0;
    for seed in 0..seeds {
        let env = TestEnv::sqlite().failing(seed, 24);
        let TestHost { engine, caller, .. } = env.host().await;
        let (_stop, stopping) = watch::channel(false);
        runner::start_run_executor(&engine, &stopping);
        let run = start(&engine, &caller).await;
        wait_until("the run ends", || async {
            let now = insist(async || engine.get_run(&caller, run.id.as_str()).await).await;
            if now.state.status.is_terminal() {
                let error = now.state.error;
                assert_eq!(
                    now.state.status,
                    RunStatus::Completed,
                    "seed {seed}: {error:?}"
                );
                return true;
            }
            // The pass resumes a stalled run after a while; a lease that was not given back has
            // ended by then.
            env.expire_leases();
            let pass = registry::find("runs").unwrap();
            let _ = engine
                .run_pass(pass, caller.tenant(), PassMode::Apply)
                .await;
            false
        })
        .await;
        check(&engine, &caller, run.id.as_str(), &format!("seed {seed}")).await;
        fired += env.faults.injected();
    }
    assert!(fired > seeds, "the store did fail: {fired}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_left_by_a_stopped_process_is_resumed_by_another() {
    let env = TestEnv::sqlite();
    let first = env.host().await;
    // This process executes nothing: it stops right after it has answered.
    let run = start(&first.engine, &first.caller).await;
    drop(first);
    let TestHost {
        engine: second,
        caller,
        ..
    } = env.host().await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_run_executor(&second, &stopping);
    let pass = registry::find("runs").unwrap();
    let early = second
        .run_pass(pass, caller.tenant(), PassMode::Apply)
        .await
        .unwrap();
    assert_eq!(
        (early.examined, early.changed),
        (1, 0),
        "somebody may still be at it"
    );
    env.clock.set(NOON.plus_ms(6_000));
    assert_eq!(
        second
            .run_pass(pass, caller.tenant(), PassMode::Apply)
            .await
            .unwrap()
            .changed,
        1
    );
    until_ended(&second, &caller, &run).await;
    check(&second, &caller, run.id.as_str(), "taken up").await;
    assert!(
        env.store
            .snapshots(caller.tenant())
            .await
            .unwrap()
            .is_empty(),
        "nothing is held any more"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_reports_the_duration_of_the_original_run() {
    let env = TestEnv::sqlite();
    let first = env.host().await;
    let run = start(&first.engine, &first.caller).await;
    drop(first);
    let TestHost { engine, caller, .. } = env.host().await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_run_executor(&engine, &stopping);
    env.clock.set(NOON.plus_ms(6_000));
    let pass = registry::find("runs").unwrap();
    let taken_up = engine
        .run_pass(pass, caller.tenant(), PassMode::Apply)
        .await;
    assert_eq!(taken_up.unwrap().changed, 1);
    until_ended(&engine, &caller, &run).await;
    let replay = ForkRequest {
        mode: ForkMode::Replay,
        from_seq: None,
        overlay: None,
    };
    let forked = engine.fork_run(&caller, run.id.as_str(), replay, None);
    let forked = forked.await.unwrap().run;
    until_ended(&engine, &caller, &forked).await;
    for id in [&run.id, &forked.id] {
        let log = engine.run_events(&caller, id.as_str(), 0).await.unwrap().0;
        let last = &log.last().unwrap().body;
        assert!(
            matches!(last, EventBody::RunCompleted(ended) if ended.duration_ms == 6_000),
            "{last:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_execute_the_same_run_concurrently() {
    for round in 0..cases(4, 10) {
        let env = TestEnv::sqlite();
        let second = env.host().await.engine;
        let TestHost {
            engine: first,
            caller,
            ..
        } = env.host().await;
        let run = start(&first, &caller).await;
        env.clock.set(NOON.plus_ms(6_000));
        second
            .run_pass(
                registry::find("runs").unwrap(),
                caller.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap();
        let (_stop, stopping) = watch::channel(false);
        runner::start_run_executor(&first, &stopping);
        runner::start_run_executor(&second, &stopping);
        wait_until("the run ends", || async {
            let now = first.get_run(&caller, run.id.as_str()).await.unwrap();
            if now.state.status.is_terminal() {
                return true;
            }
            env.clock.set(env.clock.now().plus_ms(6_000));
            let pass = registry::find("runs").unwrap();
            let _ = second
                .run_pass(pass, caller.tenant(), PassMode::Apply)
                .await;
            false
        })
        .await;
        check(&first, &caller, run.id.as_str(), &format!("round {round}")).await;
    }
}

async fn until_ended(engine: &Engine, caller: &Caller, run: &Run) -> RunStatus {
    wait_for("the run ends", || async {
        let run = engine.get_run(caller, run.id.as_str()).await.unwrap();
        let status = run.state.status;
        status.is_terminal().then_some(status)
    })
    .await
}

/// A process finds that a run in its queue was ended by another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_run_that_ended_elsewhere_is_not_executed() {
    let env = TestEnv::sqlite();
    let first = env.host().await;
    let second = env.host().await;
    let run = start(&first.engine, &first.caller).await;
    env.clock.set(NOON.plus_ms(6_000));
    let pass = registry::find("runs").unwrap();
    let taken = second
        .engine
        .run_pass(pass, second.tenant(), PassMode::Apply);
    assert_eq!(
        taken.await.unwrap().changed,
        1,
        "it waits in the second process"
    );
    let id = run.id.as_str();
    first.engine.cancel_run(&first.caller, id).await.unwrap();
    let log = async || {
        first
            .engine
            .run_events(&first.caller, id, 0)
            .await
            .unwrap()
            .0
            .len()
    };
    let before = log().await;

    // Runs are executed in order: when a later one has ended, this one had its turn.
    let new = NewRun {
        workflow_id: "small".to_owned(),
        ..NewRun::default()
    };
    let next = second.engine.create_run(&second.caller, new, None).await;
    second.run_to_end(&next.unwrap().run).await;
    assert_eq!(log().await, before);
}

/// Completed or cancelled: none of the run's own secrets is left, and no process executes it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ended_run_keeps_no_secrets_and_is_not_executed_again() {
    for cancelled in [false, true] {
        let env = TestEnv::sqlite();
        let TestHost { engine, caller, .. } = env.host().await;
        start(&engine, &caller).await;
        let secrets = vec![SecretValue::new("mine", "plum-harbour-Velvet-19")];
        let new = NewRun {
            workflow_id: "small".to_owned(),
            secrets,
            ..NewRun::default()
        };
        let run = engine.create_run(&caller, new, None).await.unwrap().run;
        let kept = async || {
            env.store
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
        runner::start_run_executor(&engine, &stopping);
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
        // A process that still has the run in its queue finds nothing to do.
        env.clock.set(NOON.plus_ms(120_000));
        engine
            .run_pass(
                registry::find("runs").unwrap(),
                caller.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap();
        // Runs are executed in order: when a later one has ended, this one had its turn.
        let new = NewRun {
            workflow_id: "small".to_owned(),
            ..NewRun::default()
        };
        let next = engine.create_run(&caller, new, None).await.unwrap().run;
        until_ended(&engine, &caller, &next).await;
        assert_eq!(length().await, before);
    }
}

#[tokio::test]
async fn a_run_over_its_time_limit_fails() {
    let env = TestEnv::sqlite();
    let TestHost { engine, caller, .. } = env.host().await;
    let run = start(&engine, &caller).await;
    env.clock.set(NOON.plus_ms(3_600_000 + 10_000));
    let later = env.host().await.engine; // the first one is gone
    later
        .run_pass(
            registry::find("runs").unwrap(),
            caller.tenant(),
            PassMode::Apply,
        )
        .await
        .unwrap();
    let state = later.get_run(&caller, run.id.as_str()).await.unwrap().state;
    assert_eq!(
        (state.status, state.error.unwrap().code.as_str()),
        (RunStatus::Failed, "run_timeout")
    );
    assert!(
        env.store
            .snapshots(caller.tenant())
            .await
            .unwrap()
            .is_empty()
    );
}
