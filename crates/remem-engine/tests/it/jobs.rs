//! Jobs: done once, wherever a process stops; cancelled within a page; claimed by the next process;
//! under a lease that is renewed.

use crate::common;
use crate::common::scripted::{PAGES, ScriptedJobs, on_page};
use remem_core::{Policy, Timestamp};
use remem_engine::EngineError;
use remem_engine::jobs::{JobQuery, JobState, StopReason, Trigger, WorkError};
use remem_engine::registry::{self, PASSES, PassMode};
use remem_store::StoreError;
use remem_testkit::{NOON, TestEnv, cases};
use serde_json::{Map, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn a_job_is_executed_once_and_emits_its_events() {
    let node = TestEnv::new().await.host().await;
    let job = node.start(Some("m")).await;
    assert_eq!(
        (job.state, job.trigger, job.attempts),
        (JobState::Queued, Trigger::OnDemand, 0)
    );
    node.work_scripted().await.unwrap();
    let done = node.job(&job.id).await;
    assert_eq!(
        (done.state, done.examined, done.attempts),
        (JobState::Done, PAGES, 1)
    );
    assert_eq!(
        done.detail,
        json!({"pages": PAGES}).as_object().cloned().unwrap()
    );
    assert!(done.started_at.is_some() && done.ended_at.is_some());
    for kind in ["pass.started", "pass.ended"] {
        assert_eq!(node.events(kind).await.len(), 1, "{kind}");
    }
    assert_eq!(
        node.work_scripted().await.unwrap().examined,
        0,
        "nothing is left to do"
    );
}

#[tokio::test]
async fn equal_queued_jobs_are_deduplicated() {
    let node = TestEnv::new().await.host().await;
    let start = async |memory: Option<&str>, options: serde_json::Value, key: Option<&str>| {
        let options = options.as_object().cloned().unwrap();
        node.engine
            .start_job(&node.caller, "compact", memory, options, key)
            .await
            .map(|started| (started.job.id, started.replayed))
    };
    let (first, _) = start(Some("m"), json!({}), None).await.unwrap();
    assert_eq!(start(Some("m"), json!({}), None).await.unwrap().0, first);
    assert_eq!(
        start(Some("m"), json!({}), Some("k")).await.unwrap(),
        (first.clone(), false)
    );
    for other in [
        start(Some("n"), json!({}), None).await,
        start(None, json!({}), None).await,
        start(Some("m"), json!({"include": "all"}), None).await,
    ] {
        assert_ne!(other.unwrap().0, first);
    }
    node.work_scripted().await.unwrap();
    assert_eq!(
        start(Some("m"), json!({}), Some("k")).await.unwrap(),
        (first.clone(), true),
        "the key answers as it did"
    );
    assert!(
        start(Some("n"), json!({}), Some("k")).await.is_err(),
        "and for nothing else"
    );
    assert_ne!(
        start(Some("m"), json!({}), None).await.unwrap().0,
        first,
        "one that has ended does nothing any more"
    );
    let refused = start(Some("m"), json!({"include": "canary"}), None)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, EngineError::Rejected(rejection) if rejection.field() == Some("include"))
    );
    assert!(matches!(
        start(Some("a/../b"), json!({}), None).await.unwrap_err(),
        EngineError::Rejected(_)
    ));
    let unknown = node
        .engine
        .start_job(&node.caller, "purge", None, Map::new(), None)
        .await
        .unwrap_err();
    assert!(
        matches!(unknown, EngineError::NotFound(_)),
        "a pass over the host has no jobs"
    );
}

#[tokio::test]
async fn a_job_that_is_cancelled_stops_within_a_page() {
    let node = TestEnv::new().await.host().await;
    let job = node.start(Some("m")).await;
    let pages = Arc::new(AtomicU64::new(0));
    let canceller = node.clone();
    let id = job.id.clone();
    let seen = pages.clone();
    on_page(move |_, page| {
        let node = canceller.clone();
        let id = id.clone();
        let seen = seen.clone();
        Box::pin(async move {
            seen.store(page, Ordering::SeqCst);
            if page == 3 {
                let asked = node.engine.cancel_job(&node.caller, &id).await.unwrap();
                assert_eq!((asked.state, asked.cancelling), (JobState::Running, true));
            }
            Ok(())
        })
    });
    node.work_scripted().await.unwrap();
    assert_eq!(pages.load(Ordering::SeqCst), 3, "not a page more");
    assert_eq!(node.job(&job.id).await.state, JobState::Cancelled);
    assert_eq!(
        node.engine
            .cancel_job(&node.caller, &job.id)
            .await
            .unwrap()
            .state,
        JobState::Cancelled,
        "twice is as good as once"
    );
    // A queued job is cancelled at once, and one that has ended cannot be cancelled.
    let waiting = node.start(Some("m")).await;
    assert_eq!(
        node.engine
            .cancel_job(&node.caller, &waiting.id)
            .await
            .unwrap()
            .state,
        JobState::Cancelled
    );
    assert_eq!(node.work_scripted().await.unwrap().examined, 0);
    on_page(|_, _| Box::pin(async { Ok(()) }));
    let done = node.start(Some("m")).await;
    node.work_scripted().await.unwrap();
    let late = node
        .engine
        .cancel_job(&node.caller, &done.id)
        .await
        .unwrap_err();
    assert!(matches!(
        late,
        EngineError::JobEnded {
            state: JobState::Done
        }
    ));
    assert_eq!(
        node.events("pass.ended").await.len(),
        2,
        "what had not begun did not end"
    );
}

#[tokio::test]
async fn a_stopping_process_hands_its_job_to_the_next() {
    let env = TestEnv::new().await;
    let first = env.host().await;
    let second = env.host().await;
    let job = first.start(Some("m")).await;
    let stopping = first.engine.clone();
    on_page(move |_, page| {
        if page == 4 {
            stopping.stop_passes();
        }
        Box::pin(async { Ok(()) })
    });
    first.work_scripted().await.unwrap();
    let left = first.job(&job.id).await;
    assert_eq!(
        (left.state, left.attempts, left.failures),
        (JobState::Queued, 1, 0)
    );
    // Immediately: the lease was given back.
    on_page(|_, _| Box::pin(async { Ok(()) }));
    second.work_scripted().await.unwrap();
    let done = second.job(&job.id).await;
    assert_eq!((done.state, done.attempts), (JobState::Done, 2));
    assert_eq!(
        (
            second.events("pass.started").await.len(),
            second.events("pass.ended").await.len()
        ),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_while_the_job_runs() {
    // By the clock of the test, which only this store uses.
    let env = TestEnv::sqlite();
    let node = env.host().await;
    let other = env.host().await;
    let job = node.start(Some("m")).await;
    let refused = Arc::new(AtomicU64::new(0));
    let clock = env.clock.clone();
    let counted = refused.clone();
    on_page(move |_, page| {
        // Two minutes in all, four times as long as a lease.
        clock.set(NOON.plus_ms((page as i64 + 1) * 12_000));
        let other = other.clone();
        let counted = counted.clone();
        Box::pin(async move {
            let taken = other
                .env
                .store
                .acquire_lease(
                    other.caller.tenant(),
                    "compact",
                    "thief",
                    other.engine.now(),
                    1_000,
                )
                .await
                .unwrap();
            counted.fetch_add(u64::from(taken.is_none()), Ordering::SeqCst);
            Ok(())
        })
    });
    node.work_scripted().await.unwrap();
    assert_eq!(
        refused.load(Ordering::SeqCst),
        PAGES,
        "nobody else could have it meanwhile"
    );
    let done = node.job(&job.id).await;
    assert_eq!(
        (done.state, done.attempts, done.duration_ms()),
        (JobState::Done, 1, Some(120_000))
    );
    let reported = node.events("pass.progress").await.len() as u64;
    assert!(
        (5..=PAGES).contains(&reported),
        "{reported}: about every tenth"
    );
}

#[tokio::test]
async fn a_process_that_lost_its_lease_cannot_end_the_job() {
    // By the clock of the test, which only this store uses.
    let env = TestEnv::sqlite();
    let sleeper = env.host().await;
    let other = env.host().await;
    let job = sleeper.start(Some("m")).await;
    let clock = env.clock.clone();
    let awake = other.clone();
    let nested = Arc::new(AtomicBool::new(false));
    on_page(move |_, page| {
        let clock = clock.clone();
        let awake = awake.clone();
        let nested = nested.clone();
        Box::pin(async move {
            if page == 2 && !nested.swap(true, Ordering::SeqCst) {
                clock.set(NOON.plus_ms(31_000));
                Box::pin(awake.work_scripted()).await.unwrap();
            }
            Ok(())
        })
    });
    sleeper.work_scripted().await.unwrap();
    let done = other.job(&job.id).await;
    assert_eq!(
        (done.state, done.attempts, done.examined),
        (JobState::Done, 2, PAGES)
    );
    assert_eq!(
        other.events("pass.ended").await.len(),
        1,
        "the sleeper ended nothing"
    );
}

#[tokio::test]
async fn failed_jobs_are_retried_with_backoff_and_refused_ones_are_not() {
    let node = TestEnv::new().await.host().await;
    let job = node.start(Some("m")).await;
    on_page(|_, _| {
        Box::pin(async { Err(WorkError::Failed(EngineError::Store(StoreError::Full))) })
    });
    let mut waits = Vec::new();
    for attempt in 1..=5 {
        node.work_scripted().await.unwrap();
        let tried = node.job(&job.id).await;
        assert_eq!(
            (tried.attempts, tried.error.unwrap().code.as_str()),
            (attempt, "storage_full")
        );
        if let Some(at) = tried.not_before {
            assert_eq!(
                node.work_scripted().await.unwrap().examined,
                0,
                "not before its time"
            );
            waits.push((at.0 - node.engine.now().0) / 1_000);
            node.env.clock.set(at);
        }
    }
    assert_eq!(waits, [5, 10, 20, 40]);
    assert_eq!(node.job(&job.id).await.state, JobState::Failed);
    // A refused job is not tried again.
    let job = node.start(Some("m")).await;
    let details = json!({"needed": 7}).as_object().cloned().unwrap();
    on_page(move |_, _| {
        let details = details.clone();
        Box::pin(async {
            Err(WorkError::Refused {
                code: "token_budget_exceeded",
                details,
            })
        })
    });
    node.work_scripted().await.unwrap();
    let failed = node.job(&job.id).await;
    assert_eq!((failed.state, failed.attempts), (JobState::Failed, 1));
    assert_eq!(failed.error.unwrap().details["needed"], 7);
}

#[tokio::test]
async fn a_job_over_all_memories_resumes_after_the_last_finished_memory() {
    let env = TestEnv::new().await;
    let first = env.host().await;
    let second = env.host().await;
    for memory in ["a", "b", "c"] {
        first.put_any(memory).await;
    }
    let job = first.start(None).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let stopping = first.engine.clone();
    on_page(move |memory, page| {
        if page == 0 {
            noted.lock().unwrap().push(memory.clone());
        }
        if memory == "b" && page == 1 {
            stopping.stop_passes();
        }
        Box::pin(async { Ok(()) })
    });
    first.work_scripted().await.unwrap();
    assert_eq!(
        first.job(&job.id).await.examined,
        PAGES,
        "one memory is done"
    );
    second.work_scripted().await.unwrap();
    assert_eq!(
        *seen.lock().unwrap(),
        ["a", "b", "b", "c"],
        "what was done is not done again"
    );
    let done = second.job(&job.id).await;
    assert_eq!((done.state, done.examined), (JobState::Done, 3 * PAGES));
    assert_eq!(
        done.detail,
        json!({"memories": 3, "pages": 3 * PAGES})
            .as_object()
            .cloned()
            .unwrap()
    );
}

#[tokio::test(start_paused = true)]
async fn faults_lose_and_duplicate_no_jobs() {
    let seeds = u64::from(cases(4, 12));
    let mut injected = 0;
    for seed in 0..seeds {
        let (node, quiet) = common::failing(seed).await;
        let mut ids = Vec::new();
        for memory in ["a", "b", "c"] {
            let start = async || {
                node.engine
                    .start_job(
                        &node.caller,
                        "compact",
                        Some(memory),
                        Map::new(),
                        Some(memory),
                    )
                    .await
            };
            ids.push(loop {
                if let Ok(started) = start().await {
                    break started.job.id;
                }
            });
        }
        for round in 0..200 {
            node.at(round * 60); // beyond every lease and wait
            let _ = node.work_scripted().await;
            if quiet.jobs().await.iter().all(|job| job.state.has_ended()) {
                break;
            }
        }
        for id in &ids {
            assert!(
                quiet.job(id).await.state.has_ended(),
                "seed {seed}: nothing is lost"
            );
        }
        assert_eq!(
            quiet.jobs().await.len(),
            3,
            "seed {seed}: nothing is double"
        );
        for kind in ["pass.started", "pass.ended"] {
            assert_eq!(quiet.events(kind).await.len(), 3, "seed {seed}: {kind}");
        }
        injected += node.env.faults.injected();
    }
    assert!(injected > 8 * seeds, "faults were injected");
}

#[tokio::test]
async fn lists_are_newest_first_and_old_jobs_are_purged() {
    let policy = Policy {
        jobs_ended_max: 5,
        ..Policy::default()
    };
    let node = TestEnv {
        policy,
        ..TestEnv::new().await
    }
    .host()
    .await;
    let mut ids = Vec::new();
    for n in 0..8 {
        node.at(n);
        ids.push(node.start(Some(&format!("m{n}"))).await.id);
        if n != 6 {
            node.work_scripted().await.unwrap();
        }
    }
    ids.reverse();
    let page = async |after: Option<String>, state| {
        let query = JobQuery {
            limit: Some(3),
            after,
            state,
            ..JobQuery::default()
        };
        let (jobs, more) = node.engine.list_jobs(&node.caller, &query).await.unwrap();
        (jobs.into_iter().map(|job| job.id).collect::<Vec<_>>(), more)
    };
    assert_eq!(page(None, None).await, (ids[..3].to_vec(), true));
    assert_eq!(
        page(Some(ids[5].clone()), None).await,
        (ids[6..].to_vec(), false)
    );
    assert_eq!(page(None, Some(JobState::Queued)).await, (vec![], false));
    let forget = async || {
        node.engine
            .run_pass(
                registry::find("jobs").unwrap(),
                node.caller.tenant(),
                PassMode::Apply,
            )
            .await
            .unwrap()
            .changed
    };
    assert_eq!(forget().await, 3);
    assert_eq!(forget().await, 0, "a second time finds nothing");
    assert_eq!(
        node.jobs()
            .await
            .into_iter()
            .map(|job| job.id)
            .collect::<Vec<_>>(),
        ids[..5]
    );
    node.env
        .clock
        .set(Timestamp(NOON.0 + 30 * 24 * 3_600_000 + 4_500));
    assert_eq!(forget().await, 2, "older than thirty days");
}

#[tokio::test]
async fn run_job_and_wait_returns_the_report_and_records_a_job() {
    let node = TestEnv::new().await.host().await;
    let memory = remem_core::MemoryRef::parse("m").unwrap();
    node.put_any("m").await;
    let tenant = node.caller.tenant();
    let report = node
        .engine
        .run_job_and_wait(
            tenant,
            "consolidate",
            Some(&memory),
            Map::new(),
            Trigger::HostManaged,
        )
        .await
        .unwrap();
    let job = node.jobs().await.remove(0);
    assert_eq!(
        (job.state, job.trigger, job.examined, job.attempts),
        (JobState::Done, Trigger::HostManaged, report.examined, 1)
    );
    node.engine
        .dry_run(&node.caller, "consolidate", None, Map::new())
        .await
        .unwrap();
    assert_eq!(node.jobs().await.len(), 1, "a dry run leaves nothing");
    node.engine.stop_passes();
    let stopped = node
        .engine
        .run_job_and_wait(
            tenant,
            "consolidate",
            Some(&memory),
            Map::new(),
            Trigger::HostManaged,
        )
        .await;
    assert!(matches!(
        stopped,
        Err(WorkError::Stopped(StopReason::Stopping))
    ));
}

#[test]
fn the_table_of_passes_is_documented() {
    let documented =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/passes.md"))
            .unwrap();
    for pass in &PASSES {
        let options: Vec<String> = pass
            .kind
            .options()
            .iter()
            .map(|option| format!("`{}`", option.name))
            .collect();
        let row = format!(
            "| `{}` | {} | {} | {} |",
            pass.name,
            pass.kind.as_str(),
            options.join(", "),
            pass.doc
        )
        .replace("|  |", "| |");
        assert!(
            documented.contains(&row),
            "docs/passes.md lacks the row: {row}"
        );
        for option in pass.kind.options() {
            let row = format!(
                "| `{}` | `{}` | {} | {} |",
                pass.name,
                option.name,
                option.kind.as_str(),
                option.doc
            );
            assert!(
                documented.contains(&row),
                "docs/passes.md lacks the row: {row}"
            );
        }
    }
}
