//! Many engines over one store fire and observe at the same time, without leases to separate them:
//! each commitment fires once. On SQLite, and on PostgreSQL when `REMEM_TEST_STORE=postgres`.

#![allow(
    clippy::disallowed_methods,
    reason = "engines that act at the same time are tasks"
)]

use futures_util::stream::{self, StreamExt, TryStreamExt};
use remem_core::commitment::Delivery;
use remem_core::{
    Admission, Batch, Event, EventBody, Policy, Precondition, RecordKind, Redactor, Seq,
};
use remem_engine::EngineError;
use remem_engine::commitments::NewCommitment;
use remem_engine::registry::{self, PassMode};
use remem_store::StoreError;
use remem_testkit::host::object;
use remem_testkit::{NOON, TestEnv, TestHost, wait_for};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::task::JoinSet;

const ENGINES: usize = 12;
const COMMITMENTS: usize = 2_000;
const PREDICATES: usize = 500;

async fn engines() -> Vec<Arc<TestHost>> {
    let env = TestEnv::new().await;
    let mut hosts = Vec::new();
    for _ in 0..ENGINES {
        hosts.push(Arc::new(env.host().await));
    }
    hosts
}

async fn make(host: &TestHost, count: usize, new: impl Fn(usize) -> NewCommitment) -> Vec<String> {
    let made = stream::iter((0..count).map(&new))
        .map(|new| host.engine.create_commitment(&host.caller, "m", new, None));
    made.buffered(32)
        .map_ok(|made| made.info.id)
        .try_collect()
        .await
        .unwrap()
}

async fn events(host: &TestHost) -> Vec<Event> {
    let mut all = Vec::new();
    let mut after = Seq(0);
    loop {
        let page = host
            .env
            .faults
            .inner()
            .events(host.tenant(), after, 5_000)
            .await
            .unwrap();
        let Some(last) = page.last() else { return all };
        after = last.seq;
        all.extend(page);
    }
}

/// The instants for which each commitment has firing records.
async fn notes(host: &TestHost) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut after: Option<String> = None;
    loop {
        let page = host
            .env
            .faults
            .inner()
            .records(
                host.tenant(),
                RecordKind::Firing,
                "",
                after.as_deref(),
                1_000,
            )
            .await
            .unwrap();
        let Some(last) = page.last() else { return all };
        after = Some(last.key.clone());
        for note in page {
            let (id, instant) = note.key.split_once('/').unwrap();
            all.entry(id.to_owned())
                .or_default()
                .push(instant.to_owned());
        }
    }
}

/// The number of fired events in the log for each commitment, and the runs they started.
async fn fires(host: &TestHost) -> (BTreeMap<String, usize>, BTreeSet<String>) {
    let mut fired = BTreeMap::new();
    let mut enqueued = BTreeSet::new();
    let mut begun = BTreeMap::new();
    for event in events(host).await {
        match &event.body {
            EventBody::RunStarted(_) => {
                let run = event.run.as_ref().unwrap().id.as_str().to_owned();
                assert!(
                    begun.insert(run, event.revision).is_none(),
                    "a run begins once"
                );
            }
            EventBody::CommitmentFired(body) => {
                *fired.entry(body.commitment_id.clone()).or_default() += 1;
                if let Some(run) = &body.enqueued_run_id {
                    assert_eq!(
                        begun.get(run),
                        Some(&event.revision),
                        "its run begins with the same commit"
                    );
                    assert!(enqueued.insert(run.clone()), "runs are distinct");
                }
            }
            _ => {}
        }
    }
    assert_eq!(begun.len(), enqueued.len(), "no run without a fire");
    (fired, enqueued)
}

/// Runs activations until nothing is due. A busy database may refuse one.
async fn fire_all(host: Arc<TestHost>) -> u64 {
    let pass = registry::find("fire").unwrap();
    let mut fired = 0;
    for _ in 0..1_000 {
        match host
            .engine
            .run_pass(pass, host.tenant(), PassMode::Apply)
            .await
        {
            Ok(report) if report.examined == 0 => return fired,
            Ok(report) => fired += report.changed,
            Err(EngineError::Store(StoreError::Busy | StoreError::Unavailable(_))) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("something stays due");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_engines_fire_each_commitment_once() {
    let hosts = engines().await;
    let host = &hosts[0];
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "remind", object(&workflow))
        .await
        .unwrap();
    let ids = make(host, COMMITMENTS, |n| {
        let delivery = Delivery {
            workflow_id: (n % 4 < 2).then(|| "remind".to_owned()),
            ..Delivery::default()
        };
        let text = format!("Thing number {n} is to be done.");
        let (at, every) = if n % 2 == 0 {
            (Some(NOON.plus_ms(1_000 + n as i64)), None)
        } else {
            (None, Some("PT1H".to_owned()))
        };
        NewCommitment {
            text,
            at,
            every,
            delivery,
            ..NewCommitment::default()
        }
    });
    let ids: BTreeSet<String> = ids.await.into_iter().collect();
    assert_eq!(ids.len(), COMMITMENTS);
    host.env.faults.ignore_leases();
    let nine = NOON.plus_ms(9 * 3_600_000 + 1);
    host.env.clock.set(nine);
    let mut tasks = JoinSet::new();
    hosts
        .iter()
        .for_each(|host| drop(tasks.spawn(fire_all(host.clone()))));
    let fired_by_engine: Vec<u64> = tasks.join_all().await;
    let (fired, runs) = fires(host).await;
    assert_eq!(fired.keys().cloned().collect::<BTreeSet<_>>(), ids);
    assert!(
        fired.values().all(|times| *times == 1),
        "once each, however many ticks were missed"
    );
    assert_eq!(
        (fired_by_engine.iter().sum::<u64>(), runs.len()),
        (COMMITMENTS as u64, COMMITMENTS / 2)
    );
    println!("{COMMITMENTS} fires by {ENGINES} engines: {fired_by_engine:?}");
    assert!(
        fired_by_engine.iter().filter(|fired| **fired > 0).count() > 1,
        "they did act at the same time: {fired_by_engine:?}"
    );
    let tick = format!("t{}", NOON.plus_ms(9 * 3_600_000).0);
    let notes = notes(host).await;
    assert_eq!(
        notes
            .values()
            .filter(|instants| **instants == [tick.clone()])
            .count(),
        COMMITMENTS / 2,
        "the latest of the missed ticks"
    );
}

/// A commitment that fires each time its predicate becomes true, which no surface creates yet.
async fn fires_each_time(host: &TestHost, id: &str) {
    let store = &host.env.faults.inner();
    let mut record = store
        .record(host.tenant(), RecordKind::Commitment, id)
        .await
        .unwrap()
        .unwrap();
    record.body["when"]["once"] = json!(false);
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let body = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOON,
    }
    .redact_record(record.body);
    let batch = Batch::new(host.tenant().clone(), NOON);
    let version = Precondition::Version(record.version);
    store
        .commit(batch.set_record_with_ties(
            RecordKind::Commitment,
            record.key,
            version,
            body,
            record.links,
        ))
        .await
        .unwrap();
}

/// All engines observe the same of every predicate, some of them at the same time.
async fn all_see(hosts: &[Arc<TestHost>], holds: bool, observers: usize) -> usize {
    let mut tasks = JoinSet::new();
    for n in 0..PREDICATES * observers {
        // Tasks that observe the same predicate follow each other directly.
        let host = hosts[n % hosts.len()].clone();
        let predicate = n / observers;
        tasks.spawn(async move {
            let text = format!("parcel p{predicate} delivered");
            wait_for("the observation is taken", || async {
                match host.engine.observe(&host.caller, "m", &text, holds).await {
                    Ok(seen) => Some(seen.fired.len()),
                    Err(EngineError::Store(StoreError::Busy | StoreError::Unavailable(_))) => None,
                    Err(other) => panic!("{other:?}"),
                }
            })
            .await
        });
    }
    tasks.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_observations_fire_a_predicate_at_most_once_per_change() {
    let hosts = engines().await;
    let host = &hosts[0];
    let new = |n: usize| {
        let text = format!("Open parcel {n}.");
        let predicate = Some(format!("parcel p{n} delivered"));
        NewCommitment {
            text,
            predicate,
            ..NewCommitment::default()
        }
    };
    let ids = make(host, PREDICATES, new).await;
    for id in ids.iter().step_by(2) {
        fires_each_time(host, id).await;
    }
    let mut observations = 0;
    let mut fired = Vec::new();
    for (holds, observers) in [
        (true, 3),
        (false, 2),
        (true, 3),
        (true, 2),
        (false, 1),
        (true, 2),
    ] {
        observations += PREDICATES * observers;
        fired.push(all_see(&hosts, holds, observers).await);
    }
    println!(
        "{observations} observations of {PREDICATES} predicates by {ENGINES} engines: {fired:?} fires"
    );
    let half = PREDICATES / 2;
    assert_eq!(
        fired,
        [PREDICATES, 0, half, 0, 0, half],
        "as whoever looked was told"
    );
    let fired = fires(host).await.0;
    let notes = notes(host).await;
    for (n, id) in ids.iter().enumerate() {
        let times: &[&str] = if n % 2 == 0 {
            &["p1", "p2", "p3"]
        } else {
            &["p1"]
        };
        assert_eq!(
            (fired[id], notes[id].as_slice()),
            (
                times.len(),
                times
                    .iter()
                    .map(|p| (*p).to_owned())
                    .collect::<Vec<_>>()
                    .as_slice()
            )
        );
    }
}
