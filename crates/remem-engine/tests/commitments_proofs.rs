//! Commitments wherever a process stops: at every single call of the store, in a store that fails
//! now and then, beside somebody who takes the text away, by clocks that differ. The end is that of
//! a day on which nothing went wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::disallowed_methods,
    reason = "whoever takes a text away meanwhile is a task of its own"
)]

#[path = "common/world.rs"]
mod world;

use remem_core::commitment::Delivery;
use remem_core::{
    Batch, Change, Draft, EntryId, Event, EventBody, MemoryRef, Reason, RecordKind, Timestamp,
};
use remem_engine::EngineError;
use remem_engine::commitments::{Changed, CommitmentInfo, CommitmentQuery, NewCommitment};
use remem_engine::heartbeats::NewHeartbeat;
use remem_engine::ports::{Clock, FixedClock};
use remem_engine::registry::{self, Mode};
use remem_store::FaultyStore;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Host, Meddler, NOON, Place, map};

const MEMORY: &str = "m";

type Doing<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + 'a>>;

/// Something that is done once, and may be begun again by the next process.
struct Case {
    name: &'static str,
    prepare: fn(&Host) -> Doing<'_>,
    act: fn(&Host) -> Doing<'_>,
    fires: usize,
    runs: usize,
    /// Calls of the store that one act makes at the least: a case that does nothing proves nothing.
    deaths: u64,
}

const CASES: [Case; 6] = [
    Case {
        name: "infer",
        prepare: |host| Box::pin(promises(host)),
        act: |host| Box::pin(pass(host, "infer")),
        fires: 1,
        runs: 0,
        deaths: 12,
    },
    Case {
        name: "fire",
        prepare: |host| Box::pin(timed(host, false)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 3,
        runs: 0,
        deaths: 12,
    },
    Case {
        name: "fire with runs",
        prepare: |host| Box::pin(timed(host, true)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 3,
        runs: 3,
        deaths: 16,
    },
    Case {
        name: "recurring",
        prepare: |host| Box::pin(recurring(host)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 2,
        runs: 1,
        deaths: 10,
    },
    Case {
        name: "observe",
        prepare: |host| Box::pin(awaited(host)),
        act: |host| Box::pin(seen(host)),
        fires: 3,
        runs: 1,
        deaths: 10,
    },
    Case {
        name: "heartbeat",
        prepare: |host| Box::pin(looked_at(host)),
        act: |host| Box::pin(pass(host, "fire")),
        fires: 3,
        runs: 1,
        deaths: 12,
    },
];

async fn pass(host: &Host, name: &str) -> Result<(), EngineError> {
    host.engine
        .run_pass(registry::find(name).unwrap(), host.tenant(), Mode::Apply)
        .await
        .map(|_| ())
}

async fn seen(host: &Host) -> Result<(), EngineError> {
    host.engine
        .observe(&host.caller, MEMORY, "invoice cleared", true)
        .await
        .map(|_| ())
}

async fn workflow(host: &Host) -> Delivery {
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "remind", map(&workflow))
        .await
        .unwrap();
    Delivery {
        workflow_id: Some("remind".to_owned()),
        ..Delivery::default()
    }
}

async fn make(host: &Host, new: NewCommitment) -> CommitmentInfo {
    host.engine
        .create_commitment(&host.caller, MEMORY, new, None)
        .await
        .unwrap()
        .info
}

fn at(seconds: i64) -> Option<Timestamp> {
    Some(NOON.plus_ms(seconds * 1_000))
}

fn to_do(number: usize) -> NewCommitment {
    NewCommitment {
        text: format!("Thing number {number} is to be done."),
        ..NewCommitment::default()
    }
}

/// Promises of every kind, and a fact that one of them waits for.
async fn promises(host: &Host) -> Result<(), EngineError> {
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

async fn timed(host: &Host, with_runs: bool) -> Result<(), EngineError> {
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
    host.place.clock.set(NOON.plus_ms(100_000));
    Ok(())
}

/// Seven ticks are missed, and become one.
async fn recurring(host: &Host) -> Result<(), EngineError> {
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
    host.place.clock.set(NOON.plus_ms(7 * 3_600_000 + 5_000));
    Ok(())
}

async fn awaited(host: &Host) -> Result<(), EngineError> {
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

async fn looked_at(host: &Host) -> Result<(), EngineError> {
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

/// Names of runs and instants of the host's own acting differ from one day to another; nothing else
/// may.
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

/// All that came of it, in an order of its own: several are fired at once.
async fn outcome(host: &Host) -> Vec<String> {
    let store = &host.place.meddler.inner;
    let mut all = Vec::new();
    for kind in [
        RecordKind::Commitment,
        RecordKind::Fire,
        RecordKind::Heartbeat,
    ] {
        for record in store
            .records(host.tenant(), kind, "", None, 100_000)
            .await
            .unwrap()
        {
            let tied = (record.ties.topic.is_some(), &record.ties.source);
            all.push(format!(
                "{kind:?} {} {} {tied:?} {}",
                record.key,
                record.version,
                plain(Value::Object(record.body))
            ));
        }
    }
    let told = ["commitment.", "heartbeat.", "run."];
    for event in events(host).await {
        let kind = event.body.kind().as_str();
        if told.iter().any(|prefix| kind.starts_with(prefix)) {
            all.push(format!("{kind} {}", plain(event.body.payload())));
        }
    }
    all.sort();
    all
}

async fn events(host: &Host) -> Vec<Event> {
    host.place
        .meddler
        .inner
        .events(host.tenant(), remem_core::Seq(0), 1_000_000)
        .await
        .unwrap()
}

/// Every fire has its note, its event and, where one is due, its run, all of one commit; and no two
/// of one instant.
async fn is_whole(host: &Host) -> (usize, usize) {
    let log = events(host).await;
    let fired: Vec<&Event> = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::CommitmentFired(_)))
        .collect();
    let notes = host
        .place
        .meddler
        .inner
        .records(host.tenant(), RecordKind::Fire, "", None, 100_000)
        .await
        .unwrap();
    assert_eq!(notes.len(), fired.len(), "a note for each fire");
    let mut runs = BTreeSet::new();
    for event in &fired {
        if let Some(run) = event.body.payload()["enqueuedRunId"].as_str() {
            assert!(runs.insert(run.to_owned()), "a run is of one fire");
            let begun = log.iter().find(|e| {
                matches!(e.body, EventBody::RunStarted(_))
                    && e.run.as_ref().unwrap().id.as_str() == run
            });
            assert_eq!(begun.unwrap().revision, event.revision, "of one commit");
            assert!(notes.iter().any(|note| note.body["runId"] == json!(run)));
        }
    }
    let begun = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::RunStarted(_)))
        .count();
    assert_eq!(begun, runs.len(), "no run without a fire");
    (fired.len(), runs.len())
}

#[tokio::test(start_paused = true)]
async fn wherever_it_dies_the_next_one_comes_to_the_same_end() {
    for case in &CASES {
        let clean = Place::new().host().await;
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

async fn dies(case: &Case, call: u64, late: bool, expected: &[String]) -> bool {
    let place = Place::new();
    let host = place.host().await;
    (case.prepare)(&host).await.unwrap();
    place.meddler.die_at(call, late);
    let _ = (case.act)(&host).await;
    let reached = place.meddler.has_died();
    place.meddler.revive();
    place.later();
    let next = place.host().await;
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

/// Of all kinds: by a time, again and again, waiting for something; one in four starts a run.
async fn many(host: &Host, count: usize) {
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
    host.place.clock.set(NOON.plus_ms(9 * 3_600_000));
}

/// Until it works: what fails is the storage.
async fn insist(host: &Host, act: impl AsyncFn(&Host) -> Result<(), EngineError>) {
    for _ in 0..3_000 {
        match act(host).await {
            Ok(()) => return,
            Err(EngineError::Store(_)) => {
                host.place.clock.set(host.place.clock.now().plus_ms(3_001))
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it never works");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_now_and_then_changes_nothing() {
    let mut faults = 0;
    let mut commitments = 0;
    for (count, seeds) in [(48, 0..40), (240, 40..41)] {
        let clean = Place::new().host().await;
        many(&clean, count).await;
        pass(&clean, "fire").await.unwrap();
        seen(&clean).await.unwrap();
        let expected = outcome(&clean).await;
        assert_eq!(is_whole(&clean).await, (count, count / 4));
        for seed in seeds {
            let place = Place::new();
            let host = place.host().await;
            many(&host, count).await;
            // About 30 of 100 calls fail, before the commit or after it.
            let faulty = Arc::new(FaultyStore::new(
                Meddler::over(place.meddler.inner.clone()),
                seed,
                77,
            ));
            let shaky = Place {
                store: faulty.clone(),
                ..place.clone()
            }
            .host()
            .await;
            insist(&shaky, async |host| pass(host, "fire").await).await;
            insist(&shaky, seen).await;
            assert_eq!(outcome(&host).await, expected, "seed {seed}");
            assert_eq!(is_whole(&host).await, (count, count / 4), "seed {seed}");
            (faults, commitments) = (faults + faulty.fired(), commitments + count);
        }
    }
    println!("{faults} calls failed, {commitments} commitments fired once");
    assert!(faults > 10_000, "the store did fail: {faults}");
}

/// What somebody does to the text of a commitment.
#[derive(Clone, Copy, Debug)]
enum End {
    Delete,
    Forget,
    Supersede,
}

const ENDS: [End; 3] = [End::Delete, End::Forget, End::Supersede];

fn ending(host: &Host, end: End, id: &EntryId, by: &EntryId) -> Batch {
    let batch = Batch::new(host.tenant().clone(), host.engine.now());
    let memory = MemoryRef::parse(MEMORY).unwrap();
    match end {
        End::Delete => batch.delete(memory, id.clone()),
        End::Forget => batch.forget(memory, id.clone()),
        End::Supersede => batch.retire(memory, id.clone(), Reason::Superseded, by.clone()),
    }
}

/// Whether a change of a batch is a fire.
fn is_fire(batch: &Batch) -> bool {
    batch.changes().iter().any(|change| matches!(change, Change::Emit { body, .. } if matches!(**body, EventBody::CommitmentFired(_))))
}

/// The narrowest gap: after everything was read and decided, right before the commit of the fire.
#[tokio::test]
async fn who_loses_its_text_right_before_the_fire_does_not_fire() {
    for end in ENDS {
        for by_time in [true, false] {
            let place = Place::new();
            let host = place.host().await;
            let newer =
                EntryId::parse(&host.put(MEMORY, "The plan is another one now.").await).unwrap();
            let new = if by_time {
                NewCommitment {
                    at: at(60),
                    ..to_do(1)
                }
            } else {
                NewCommitment {
                    predicate: Some("invoice cleared".into()),
                    ..to_do(1)
                }
            };
            let source = make(
                &host,
                NewCommitment {
                    delivery: workflow(&host).await,
                    ..new
                },
            )
            .await
            .source
            .unwrap();
            place.clock.set(NOON.plus_ms(100_000));
            let inner = place.meddler.inner.clone();
            let last = ending(&host, end, &source, &newer);
            let tries = Arc::new(AtomicU64::new(0));
            let counted = tries.clone();
            place.meddler.before_commits(move |batch| {
                let inner = inner.clone();
                let last = last.clone();
                let counted = counted.clone();
                Box::pin(async move {
                    if is_fire(&batch) {
                        counted.fetch_add(1, Ordering::SeqCst);
                        inner.commit(last).await.unwrap();
                    }
                })
            });
            if by_time {
                pass(&host, "fire").await.unwrap()
            } else {
                seen(&host).await.unwrap()
            }
            assert_eq!(tries.load(Ordering::SeqCst), 1, "{end:?}: it did try");
            assert_eq!(
                is_whole(&host).await,
                (0, 0),
                "{end:?}, by time {by_time}: neither told nor started"
            );
            place.meddler.leave_commits_alone();
            pass(&host, "fire").await.unwrap();
            seen(&host).await.unwrap();
            assert_eq!(
                is_whole(&host).await,
                (0, 0),
                "{end:?}, by time {by_time}: nor later"
            );
        }
    }
}

/// The same gap, and somebody who takes it back or puts it off: the fire that was decided before
/// does not happen.
#[tokio::test]
async fn who_is_taken_back_right_before_the_fire_does_not_fire() {
    for change in [Changed::Cancel, Changed::Snooze(NOON.plus_ms(500_000))] {
        let place = Place::new();
        let host = place.host().await;
        let quiet = Arc::new(
            Place {
                store: place.meddler.inner.clone(),
                ..place.clone()
            }
            .host()
            .await,
        );
        let id = make(
            &host,
            NewCommitment {
                at: at(60),
                ..to_do(1)
            },
        )
        .await
        .id;
        place.clock.set(NOON.plus_ms(100_000));
        place.meddler.before_commits(move |batch| {
            let quiet = quiet.clone();
            let id = id.clone();
            Box::pin(async move {
                if is_fire(&batch) {
                    quiet
                        .engine
                        .change_commitment(&quiet.caller, &id, change)
                        .await
                        .unwrap();
                }
            })
        });
        pass(&host, "fire").await.unwrap();
        assert_eq!(is_whole(&host).await, (0, 0), "{change:?}");
        assert_eq!(
            host.told("commitment.ended").await.len() + host.told("commitment.changed").await.len(),
            1,
            "{change:?}"
        );
    }
}

/// Two callers make the same at the same time, and what the first one made has fired before the
/// second one commits.
#[tokio::test]
async fn what_is_made_twice_at_once_fires_once_and_ends() {
    let place = Place::new();
    let host = place.host().await;
    let quiet = Arc::new(
        Place {
            store: place.meddler.inner.clone(),
            ..place.clone()
        }
        .host()
        .await,
    );
    let created = Arc::new(AtomicU64::new(0));
    let first = created.clone();
    let new = || NewCommitment {
        at: at(60),
        ..to_do(1)
    };
    place.meddler.before_commits(move |batch| {
        let quiet = quiet.clone();
        let first = first.clone();
        Box::pin(async move {
            let creates = batch
                .changes()
                .iter()
                .any(|change| matches!(change, Change::Put { .. }));
            if creates && first.fetch_add(1, Ordering::SeqCst) == 0 {
                make(&quiet, new()).await;
                quiet.place.clock.set(NOON.plus_ms(100_000));
                pass(&quiet, "fire").await.unwrap();
            }
        })
    });
    // It is refused as what it found, or made anew for an instant that has passed: either way it
    // does not fire again.
    let made = host
        .engine
        .create_commitment(&host.caller, MEMORY, new(), None)
        .await;
    place.meddler.leave_commits_alone();
    pass(&host, "fire").await.unwrap();
    assert_eq!(is_whole(&host).await, (1, 0), "{made:?}");
    let versions: Vec<u64> = place
        .meddler
        .inner
        .records(host.tenant(), RecordKind::Commitment, "", None, 9)
        .await
        .unwrap()
        .iter()
        .map(|r| r.version)
        .collect();
    assert_eq!(
        (created.load(Ordering::SeqCst), versions.len()),
        (2, 1),
        "the second one was tried again"
    );
}

/// Texts go while their commitments fire: whoever is first decides, and the log shows who was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_fires_after_its_text_went() {
    let mut before = 0;
    let mut never = 0;
    for (round, end) in ENDS.into_iter().cycle().take(9).enumerate() {
        let place = Place::new();
        let host = Arc::new(place.host().await);
        let newer =
            EntryId::parse(&host.put(MEMORY, "The plan is another one now.").await).unwrap();
        let mut sources = BTreeMap::new();
        for n in 0..120 {
            let info = make(
                &host,
                NewCommitment {
                    at: at(60),
                    ..to_do(n)
                },
            )
            .await;
            sources.insert(info.source.unwrap().as_str().to_owned(), info.id);
        }
        place.clock.set(NOON.plus_ms(100_000));
        let ender = host.clone();
        let ids = sources.keys().cloned().collect::<Vec<_>>();
        let ends = tokio::spawn(async move {
            for id in ids {
                ender
                    .place
                    .store
                    .commit(ending(&ender, end, &EntryId::parse(&id).unwrap(), &newer))
                    .await
                    .unwrap();
            }
        });
        while !ends.is_finished() {
            pass(&host, "fire").await.unwrap();
        }
        ends.await.unwrap();
        pass(&host, "fire").await.unwrap();
        let mut gone = BTreeSet::new();
        let mut fired = BTreeSet::new();
        for event in events(&host).await {
            let payload = event.body.payload();
            let id = payload["memoryId"].as_str().unwrap_or_default().to_owned();
            match event.body {
                EventBody::Deleted(_) | EventBody::Forgotten(_) | EventBody::Retired(_) => {
                    drop(gone.insert(id))
                }
                EventBody::CommitmentFired(_) => {
                    assert!(
                        !gone.contains(&id),
                        "round {round}, {end:?}: {id} fired after its text went"
                    );
                    assert!(fired.insert(id), "once");
                }
                _ => {}
            }
        }
        assert_eq!(gone.len(), 120);
        (before, never) = (before + fired.len(), never + 120 - fired.len());
    }
    println!("fired before its text went: {before}, never: {never}");
}

/// Processes on one file whose clocks differ by an hour. (On PostgreSQL the instants of commits and
/// leases come from the database; what a node takes for due goes by its own clock, which is what
/// this is about.)
#[tokio::test]
async fn clocks_that_differ_fire_no_instant_twice() {
    let place = Place::new();
    let skewed = |ms: i64| Place {
        clock: Arc::new(FixedClock::at(NOON.plus_ms(ms))),
        ..place.clone()
    };
    let places = [skewed(3_600_000), skewed(0), skewed(-3_600_000)];
    let mut hosts = Vec::new();
    for place in &places {
        hosts.push(place.host().await);
    }
    let every = make(
        &hosts[1],
        NewCommitment {
            every: Some("PT10M".to_owned()),
            ..to_do(1)
        },
    )
    .await;
    for n in 0..20 {
        make(
            &hosts[1],
            NewCommitment {
                at: at(600 * (n + 1)),
                ..to_do(10 + n as usize)
            },
        )
        .await;
    }
    for step in 0..120_usize {
        for place in &places {
            place.clock.set(place.clock.now().plus_ms(130_000));
        }
        // Each of them comes first now and then.
        for n in 0..3 {
            pass(&hosts[(step + n) % 3], "fire").await.unwrap();
        }
    }
    let mut instants: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for note in place
        .meddler
        .inner
        .records(hosts[0].tenant(), RecordKind::Fire, "", None, 100_000)
        .await
        .unwrap()
    {
        let (id, instant) = note.key.split_once('/').unwrap();
        instants
            .entry(id.to_owned())
            .or_default()
            .push(instant[1..].parse().unwrap());
    }
    let told = events(&hosts[0])
        .await
        .iter()
        .filter(|event| matches!(event.body, EventBody::CommitmentFired(_)))
        .count();
    assert_eq!(told, instants.values().map(Vec::len).sum::<usize>());
    let ticks = instants.remove(&every.id).unwrap();
    assert!(
        ticks
            .iter()
            .all(|tick| (tick - every.commitment.created_at) % 600_000 == 0),
        "on its grid"
    );
    assert!(ticks.len() >= 25, "{} ticks", ticks.len());
    assert_eq!(instants.len(), 20);
    assert!(
        instants.values().all(|fires| fires.len() == 1),
        "{instants:?}"
    );
    let left = hosts[0]
        .engine
        .commitments(&hosts[0].caller, &CommitmentQuery::default())
        .await
        .unwrap();
    assert_eq!(
        left.commitments
            .iter()
            .filter(|one| one.commitment.state.is_open())
            .count(),
        1,
        "the one that repeats"
    );
}
