//! Commitments through crashes: the process stops at every single call of the store, or the store
//! fails now and then, and the outcome is that of an undisturbed run.

#![allow(
    clippy::disallowed_methods,
    reason = "a test starts tasks of its own to race with the engine"
)]

use super::{MEMORY, at, events, is_whole, make, pass, seen, to_do, workflow};
use remem_core::commitment::Delivery;
use remem_core::{Draft, RecordKind};
use remem_engine::EngineError;
use remem_engine::commitments::NewCommitment;
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::ports::Clock;
use remem_testkit::{NOON, TestEnv, TestHost, cases};
use serde_json::{Value, json};
use std::pin::Pin;

type CaseFuture<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + 'a>>;

/// An operation that has its effect once, and may be repeated by the next process.
struct CrashCase {
    name: &'static str,
    prepare: fn(&TestHost) -> CaseFuture<'_>,
    act: fn(&TestHost) -> CaseFuture<'_>,
    fires: usize,
    runs: usize,
    /// Calls of the store that the operation makes at least: a case that does nothing proves
    /// nothing.
    deaths: u64,
}

const CASES: [CrashCase; 6] = [
    CrashCase {
        name: "infer",
        prepare: |host| Box::pin(promises(host)),
        act: |host| Box::pin(pass(host, "infer")),
        fires: 1,
        runs: 0,
        deaths: 12,
    },
    CrashCase {
        name: "fire",
        prepare: |host| Box::pin(timed(host, false)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 3,
        runs: 0,
        deaths: 12,
    },
    CrashCase {
        name: "fire with runs",
        prepare: |host| Box::pin(timed(host, true)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 3,
        runs: 3,
        deaths: 16,
    },
    CrashCase {
        name: "recurring",
        prepare: |host| Box::pin(recurring(host)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 2,
        runs: 1,
        deaths: 10,
    },
    CrashCase {
        name: "observe",
        prepare: |host| Box::pin(awaited(host)),
        act: |host| Box::pin(seen(host)),
        fires: 3,
        runs: 1,
        deaths: 10,
    },
    CrashCase {
        name: "heartbeat",
        prepare: |host| Box::pin(looked_at(host)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 3,
        runs: 1,
        deaths: 12,
    },
];

/// Writes commitments of every kind, and a fact that one of them waits for.
async fn promises(host: &TestHost) -> Result<(), EngineError> {
    for text in [
        "Remind me tomorrow at 9am to renew the certificate.",
        "The weather is fine.",
        "Remind me when the report is filed.",
        "Remind me every Monday at 8am to water the plants.",
        "The report has been filed.",
        "Remind me when the contract is signed.",
    ] {
        host.put(MEMORY, text).await;
    }
    Ok(())
}

async fn timed(host: &TestHost, with_runs: bool) -> Result<(), EngineError> {
    let delivery = if with_runs {
        workflow(host).await
    } else {
        Delivery::default()
    };
    for n in 0..3 {
        make(
            host,
            NewCommitment {
                at: at(60 + n as i64),
                delivery: delivery.clone(),
                ..to_do(n)
            },
        )
        .await;
    }
    host.env.clock.set(NOON.plus_ms(100_000));
    Ok(())
}

/// Seven ticks are missed, and combined into one.
async fn recurring(host: &TestHost) -> Result<(), EngineError> {
    let every = || Some("PT1H".to_owned());
    let delivery = workflow(host).await;
    make(
        host,
        NewCommitment {
            every: every(),
            ..to_do(1)
        },
    )
    .await;
    make(
        host,
        NewCommitment {
            every: every(),
            delivery,
            ..to_do(2)
        },
    )
    .await;
    host.env.clock.set(NOON.plus_ms(7 * 3_600_000 + 5_000));
    Ok(())
}

async fn awaited(host: &TestHost) -> Result<(), EngineError> {
    let predicate = || Some("invoice cleared".to_owned());
    let delivery = workflow(host).await;
    for n in 0..2 {
        make(
            host,
            NewCommitment {
                predicate: predicate(),
                ..to_do(n)
            },
        )
        .await;
    }
    make(
        host,
        NewCommitment {
            predicate: predicate(),
            delivery,
            ..to_do(2)
        },
    )
    .await;
    host.engine
        .observe(&host.caller, MEMORY, "invoice cleared", false)
        .await
        .map(|_| ())
}

async fn looked_at(host: &TestHost) -> Result<(), EngineError> {
    awaited(host).await?;
    host.put_draft(
        MEMORY,
        Draft {
            content: "It came.".to_owned(),
            tags: vec!["paid".to_owned()],
            ..Draft::default()
        },
    )
    .await;
    let memory_ref = MEMORY.to_owned();
    let key = "invoice cleared".to_owned();
    let tag = "paid".to_owned();
    let heartbeat = NewHeartbeat {
        memory_ref,
        key,
        tag,
        every_seconds: 7_200,
        enabled: true,
    };
    host.engine
        .put_heartbeat(&host.caller, "invoices", heartbeat)
        .await
        .map(|_| ())
}

/// Replaces the ids of runs and the instants of the host's own actions, the only things that may
/// differ between two executions.
fn plain(mut value: Value) -> Value {
    let predicate =
        value["when"]["kind"] == "predicate" || value["scheduledAt"] == value["firedAt"];
    if let Some(map) = value.as_object_mut() {
        for name in ["updatedAt", "firedAt", "lastAt"] {
            map.remove(name);
        }
        for name in ["lastRunId", "runId", "enqueuedRunId"] {
            if let Some(run) = map.get_mut(name).filter(|run| !run.is_null()) {
                *run = json!("a run");
            }
        }
        if predicate {
            map.remove("lastFiredAt");
            map.remove("scheduledAt");
        }
    }
    value
}

/// Everything that resulted, sorted: several commitments fire at once.
async fn outcome(host: &TestHost) -> Vec<String> {
    let store = &host.env.faults.inner();
    let mut all = Vec::new();
    for kind in [
        RecordKind::Commitment,
        RecordKind::Firing,
        RecordKind::Heartbeat,
    ] {
        for record in store
            .records(host.tenant(), kind, "", None, 100_000)
            .await
            .unwrap()
        {
            let tied = (record.links.topic.is_some(), &record.links.source);
            all.push(format!(
                "{kind:?} {} {} {tied:?} {}",
                record.key,
                record.version,
                plain(Value::Object(record.body))
            ));
        }
    }
    let prefixes = ["commitment.", "heartbeat.", "run."];
    for event in events(host).await {
        let kind = event.body.kind().as_str();
        if prefixes.iter().any(|prefix| kind.starts_with(prefix)) {
            all.push(format!("{kind} {}", plain(event.body.payload())));
        }
    }
    all.sort();
    all
}

async fn dies(case: &CrashCase, call: u64, late: bool, expected: &[String]) -> bool {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    (case.prepare)(&host).await.unwrap();
    env.faults.crash_at(call, late);
    let _ = (case.act)(&host).await;
    let reached = env.faults.has_crashed();
    env.faults.restart();
    env.expire_leases();
    let next = env.host().await;
    (case.act)(&next).await.unwrap();
    assert_eq!(
        outcome(&next).await,
        expected,
        "{}, call {call}, late {late}",
        case.name
    );
    is_whole(&next).await;
    (case.act)(&next).await.unwrap();
    assert_eq!(
        outcome(&next).await,
        expected,
        "{}, call {call}, late {late}: once more changes nothing",
        case.name
    );
    reached
}

/// Commitments of all kinds: by time, recurring, with a predicate; one in four starts a run.
async fn many(host: &TestHost, count: usize) {
    let delivery = workflow(host).await;
    for n in 0..count {
        let delivery = if n % 4 == 0 {
            delivery.clone()
        } else {
            Delivery::default()
        };
        let new = match n % 3 {
            0 => NewCommitment {
                at: at(60 + n as i64),
                ..to_do(n)
            },
            1 => NewCommitment {
                every: Some("PT2H".to_owned()),
                ..to_do(n)
            },
            _ => NewCommitment {
                predicate: Some("invoice cleared".to_owned()),
                ..to_do(n)
            },
        };
        make(host, NewCommitment { delivery, ..new }).await;
    }
    host.env.clock.set(NOON.plus_ms(9 * 3_600_000));
}

/// Repeats until it succeeds: what fails is the storage.
async fn insist(host: &TestHost, act: impl AsyncFn(&TestHost) -> Result<(), EngineError>) {
    for _ in 0..3_000 {
        match act(host).await {
            Ok(()) => return,
            Err(EngineError::Store(_)) => host.env.clock.set(host.env.clock.now().plus_ms(3_001)),
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it never works");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_leads_to_the_same_final_state() {
    for case in &CASES {
        let clean = TestEnv::sqlite().host().await;
        (case.prepare)(&clean).await.unwrap();
        (case.act)(&clean).await.unwrap();
        let expected = outcome(&clean).await;
        assert_eq!(
            is_whole(&clean).await,
            (case.fires, case.runs),
            "{}",
            case.name
        );
        let mut deaths = 0;
        for call in 0.. {
            let mut reached = false;
            for late in [false, true] {
                reached |= dies(case, call, late, &expected).await;
            }
            if !reached {
                break;
            }
            deaths += 1;
        }
        assert!(
            deaths >= case.deaths,
            "{}: it died at {deaths} calls",
            case.name
        );
    }
}

#[tokio::test(start_paused = true)]
async fn intermittent_store_failures_do_not_change_the_outcome() {
    let mut faults = 0;
    let mut commitments = 0;
    let small = u64::from(cases(10, 40));
    for (count, seeds) in [(48, 0..small), (240, 40..41)] {
        let clean = TestEnv::sqlite().host().await;
        many(&clean, count).await;
        pass(&clean, "fire").await.unwrap();
        seen(&clean).await.unwrap();
        let expected = outcome(&clean).await;
        assert_eq!(is_whole(&clean).await, (count, count / 4));
        for seed in seeds {
            let env = TestEnv::sqlite();
            let host = env.host().await;
            many(&host, count).await;
            // About 30 of 100 calls fail, before the commit or after it.
            let failing = env.failing(seed, 77);
            let shaky = failing.host().await;
            insist(&shaky, async |host| pass(host, "fire").await).await;
            insist(&shaky, seen).await;
            assert_eq!(outcome(&host).await, expected, "seed {seed}");
            assert_eq!(is_whole(&host).await, (count, count / 4), "seed {seed}");
            (faults, commitments) = (faults + failing.faults.injected(), commitments + count);
        }
    }
    println!("{faults} calls failed, {commitments} commitments fired once");
    assert!(faults > 200 * small, "the store did fail: {faults}");
}
