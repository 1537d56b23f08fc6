//! Commitments with a concurrent writer: the text or the commitment is deleted right before it
//! fires, the same one is created twice at once, and clocks differ.

#![allow(
    clippy::disallowed_methods,
    reason = "a test starts tasks of its own to race with the engine"
)]

use super::{MEMORY, at, events, is_whole, make, pass, seen, to_do, workflow};
use remem_core::{Batch, Change, EntryId, EventBody, MemoryRef, RecordKind, RetireReason};
use remem_engine::commitments::{CommitmentChange, CommitmentQuery, NewCommitment};
use remem_engine::ports::{Clock, FixedClock};
use remem_testkit::{NOON, TestEnv, TestHost};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How another writer ends the source of a commitment.
#[derive(Clone, Copy, Debug)]
enum SourceEnd {
    Delete,
    Forget,
    Supersede,
}

const ENDS: [SourceEnd; 3] = [SourceEnd::Delete, SourceEnd::Forget, SourceEnd::Supersede];

fn end_batch(host: &TestHost, end: SourceEnd, id: &EntryId, by: &EntryId) -> Batch {
    let batch = Batch::new(host.tenant().clone(), host.engine.now());
    let memory = MemoryRef::parse(MEMORY).unwrap();
    match end {
        SourceEnd::Delete => batch.delete(memory, id.clone()),
        SourceEnd::Forget => batch.forget(memory, id.clone()),
        SourceEnd::Supersede => {
            batch.retire(memory, id.clone(), RetireReason::Superseded, by.clone())
        }
    }
}

/// Whether a change of a batch fires a commitment.
fn is_fire(batch: &Batch) -> bool {
    batch.changes().iter().any(|change| matches!(change, Change::Emit { body, .. } if matches!(**body, EventBody::CommitmentFired(_))))
}

/// The source ends in the narrowest gap: after everything was read and decided, right before the
/// firing is committed.
#[tokio::test]
async fn a_source_that_ends_right_before_the_fire_commit_prevents_it() {
    for end in ENDS {
        for by_time in [true, false] {
            let env = TestEnv::sqlite();
            let host = env.host().await;
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
            env.clock.set(NOON.plus_ms(100_000));
            let inner = env.faults.inner().clone();
            let last = end_batch(&host, end, &source, &newer);
            let tries = Arc::new(AtomicU64::new(0));
            let counted = tries.clone();
            env.faults.before_each_commit(move |batch| {
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
            env.faults.clear_hook();
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

/// In the same gap, a caller cancels or snoozes the commitment: the decided firing does not happen.
#[tokio::test]
async fn a_cancel_or_snooze_right_before_the_fire_commit_prevents_it() {
    for change in [
        CommitmentChange::Cancel,
        CommitmentChange::Snooze(NOON.plus_ms(500_000)),
    ] {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        let quiet = Arc::new(env.without_faults().host().await);
        let id = make(
            &host,
            NewCommitment {
                at: at(60),
                ..to_do(1)
            },
        )
        .await
        .id;
        env.clock.set(NOON.plus_ms(100_000));
        env.faults.before_each_commit(move |batch| {
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
            host.payloads("commitment.ended").await.len()
                + host.payloads("commitment.changed").await.len(),
            1,
            "{change:?}"
        );
    }
}

/// Two callers create the same commitment at the same time, and that of the first one has fired
/// before the second one commits.
#[tokio::test]
async fn a_commitment_created_twice_concurrently_fires_once() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let quiet = Arc::new(env.without_faults().host().await);
    let created = Arc::new(AtomicU64::new(0));
    let first = created.clone();
    let new = || NewCommitment {
        at: at(60),
        ..to_do(1)
    };
    env.faults.before_each_commit(move |batch| {
        let quiet = quiet.clone();
        let first = first.clone();
        Box::pin(async move {
            let creates = batch
                .changes()
                .iter()
                .any(|change| matches!(change, Change::Put { .. }));
            if creates && first.fetch_add(1, Ordering::SeqCst) == 0 {
                make(&quiet, new()).await;
                quiet.env.clock.set(NOON.plus_ms(100_000));
                pass(&quiet, "fire").await.unwrap();
            }
        })
    });
    // The second request returns the existing commitment, or creates one for an instant that has
    // passed: either way it does not fire again.
    let made = host
        .engine
        .create_commitment(&host.caller, MEMORY, new(), None)
        .await;
    env.faults.clear_hook();
    pass(&host, "fire").await.unwrap();
    assert_eq!(is_whole(&host).await, (1, 0), "{made:?}");
    let versions: Vec<u64> = env
        .faults
        .inner()
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

/// Texts are deleted while their commitments fire: whichever is first decides, and the log shows
/// which that was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commitment_does_not_fire_after_its_source_ends() {
    let mut before = 0;
    let mut never = 0;
    for (round, end) in ENDS.into_iter().cycle().take(9).enumerate() {
        let env = TestEnv::sqlite();
        let host = Arc::new(env.host().await);
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
        env.clock.set(NOON.plus_ms(100_000));
        let ender = host.clone();
        let ids = sources.keys().cloned().collect::<Vec<_>>();
        let ends = tokio::spawn(async move {
            for id in ids {
                ender
                    .env
                    .store
                    .commit(end_batch(
                        &ender,
                        end,
                        &EntryId::parse(&id).unwrap(),
                        &newer,
                    ))
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
                    gone.insert(id);
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
/// leases come from the database; what a node considers due follows its own clock, which is tested
/// here.)
#[tokio::test]
async fn clock_skew_between_nodes_does_not_fire_an_instant_twice() {
    let env = TestEnv::sqlite();
    let skewed = |ms: i64| TestEnv {
        clock: Arc::new(FixedClock::at(NOON.plus_ms(ms))),
        ..env.clone()
    };
    let places = [skewed(3_600_000), skewed(0), skewed(-3_600_000)];
    let mut hosts = Vec::new();
    for env in &places {
        hosts.push(env.host().await);
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
        for env in &places {
            env.clock.set(env.clock.now().plus_ms(130_000));
        }
        // Each of them is the first now and then.
        for n in 0..3 {
            pass(&hosts[(step + n) % 3], "fire").await.unwrap();
        }
    }
    let mut instants: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for note in env
        .faults
        .inner()
        .records(hosts[0].tenant(), RecordKind::Firing, "", None, 100_000)
        .await
        .unwrap()
    {
        let (id, instant) = note.key.split_once('/').unwrap();
        instants
            .entry(id.to_owned())
            .or_default()
            .push(instant[1..].parse().unwrap());
    }
    let fired = events(&hosts[0])
        .await
        .iter()
        .filter(|event| matches!(event.body, EventBody::CommitmentFired(_)))
        .count();
    assert_eq!(fired, instants.values().map(Vec::len).sum::<usize>());
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
        .list_commitments(&hosts[0].caller, &CommitmentQuery::default())
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
