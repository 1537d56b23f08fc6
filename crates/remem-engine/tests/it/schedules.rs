//! Schedules: one job for each tick, however many nodes try and wherever one crashes; missed ticks
//! are combined into one.

use crate::common;
use crate::common::scripted::ScriptedJobs;
use remem_core::Policy;
use remem_engine::EngineError;
use remem_engine::jobs::{JobState, Trigger};
use remem_engine::registry::{self, PassMode};
use remem_engine::schedules::{NewSchedule, Schedule};
use remem_testkit::{NOON, TestEnv, TestHost, cases};
use serde_json::{Map, json};

fn every(text: &str) -> NewSchedule {
    NewSchedule {
        every: Some(text.to_owned()),
        enabled: true,
        ..NewSchedule::default()
    }
}

async fn set(node: &TestHost, memory: Option<&str>, new: NewSchedule) -> Schedule {
    node.engine
        .put_schedule(&node.caller, "compact", memory, new)
        .await
        .unwrap()
}

async fn tick(node: &TestHost) -> Result<u64, EngineError> {
    node.engine
        .run_pass(
            registry::find("jobs").unwrap(),
            node.caller.tenant(),
            PassMode::Apply,
        )
        .await
        .map(|report| report.changed)
}

async fn shown(node: &TestHost) -> Schedule {
    node.engine
        .get_schedule(&node.caller, "compact", Some("m"))
        .await
        .unwrap()
}

#[tokio::test]
async fn each_tick_creates_one_job_across_two_nodes() {
    let env = TestEnv::new().await;
    let one = env.host().await;
    let two = env.host().await;
    let options = json!({"include": "all"}).as_object().cloned().unwrap();
    set(
        &one,
        Some("m"),
        NewSchedule {
            options: options.clone(),
            ..every("PT10M")
        },
    )
    .await;
    for n in 1..=5 {
        one.at(n * 600 - 1);
        assert_eq!(
            (tick(&one).await.unwrap(), tick(&two).await.unwrap()),
            (0, 0),
            "not before its time"
        );
        one.at(n * 600);
        let (left, right) = tokio::join!(tick(&one), tick(&two));
        assert_eq!(left.unwrap() + right.unwrap(), 1);
        let jobs = one.jobs().await;
        assert_eq!(jobs.len() as i64, n);
        assert_eq!(
            (jobs[0].trigger, &jobs[0].options, jobs[0].state),
            (Trigger::Scheduled, &options, JobState::Queued)
        );
        assert_eq!(shown(&two).await.last_job_id, Some(jobs[0].id.clone()));
        two.work_scripted().await.unwrap();
    }
}

#[tokio::test]
async fn racing_nodes_create_one_job_per_tick() {
    // Without the lease of the pass: the schedule's version is what prevents a second job.
    let env = TestEnv::new().await;
    let one = env.host().await;
    let two = env.host().await;
    set(&one, Some("m"), every("PT10M")).await;
    one.at(600);
    let registry::PassKind::Tenant { run, .. } = registry::find("jobs").unwrap().kind else {
        panic!("it works over the host")
    };
    let tenant = one.caller.tenant();
    let (left, right) = tokio::join!(
        run(&one.engine, tenant, PassMode::Apply, None),
        run(&two.engine, tenant, PassMode::Apply, None)
    );
    assert_eq!(left.unwrap().changed + right.unwrap().changed, 1);
    assert_eq!(one.jobs().await.len(), 1);
}

#[tokio::test]
async fn missed_ticks_become_one() {
    let node = TestEnv::new().await.host().await;
    set(&node, Some("m"), every("PT10M")).await;
    node.at(6 * 600 + 5);
    assert_eq!(tick(&node).await.unwrap(), 1);
    assert_eq!(tick(&node).await.unwrap(), 0);
    assert_eq!(node.jobs().await.len(), 1);
    assert_eq!(
        shown(&node).await.next_due,
        Some(NOON.plus_ms(7 * 600_000)),
        "the next one is on time"
    );
    // A queued job serves the next tick too.
    node.at(7 * 600);
    assert_eq!(tick(&node).await.unwrap(), 1);
    assert_eq!(node.jobs().await.len(), 1);
    node.work_scripted().await.unwrap();
    node.at(8 * 600);
    assert_eq!(
        (tick(&node).await.unwrap(), node.jobs().await.len()),
        (1, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn faults_lose_and_duplicate_no_ticks() {
    let seeds = u64::from(cases(3, 8));
    let mut injected = 0;
    for seed in 100..100 + seeds {
        let (node, quiet) = common::failing(seed).await;
        set(&quiet, Some("m"), every("PT1H")).await;
        for n in 1..=5 {
            // Until one activation completes, and a few more that could create a second job; each
            // is beyond the lease that the one before may have left, and all are before the next
            // tick.
            let mut ended = 0;
            let mut attempt = 0;
            while ended < 3 {
                assert!(attempt < 85, "seed {seed}: no activation came to its end");
                node.at(n * 3_600 + attempt * 40);
                ended += i64::from(tick(&node).await.is_ok());
                attempt += 1;
            }
            let jobs = quiet.jobs().await;
            assert_eq!(jobs.len() as i64, n, "seed {seed}");
            assert_eq!(
                shown(&quiet).await.next_due,
                Some(NOON.plus_ms((n + 1) * 3_600_000)),
                "seed {seed}"
            );
            assert_eq!(
                shown(&quiet).await.last_job_id,
                Some(jobs[0].id.clone()),
                "seed {seed}"
            );
            quiet.work_scripted().await.unwrap();
        }
        injected += node.env.faults.injected();
    }
    assert!(injected > 12 * seeds, "faults were injected");
}

#[tokio::test]
async fn schedules_are_set_listed_and_removed() {
    let policy = Policy {
        schedules_max: 2,
        ..Policy::default()
    };
    let node = TestEnv {
        policy,
        ..TestEnv::new().await
    }
    .host()
    .await;
    let cron = NewSchedule {
        cron: Some("0 3 * * *".into()),
        zone: Some("Europe/Berlin".into()),
        enabled: true,
        ..NewSchedule::default()
    };
    let first = set(&node, Some("m"), cron.clone()).await;
    // Noon is 2023-11-14T22:13:20Z: the next 03:00 in Berlin is 02:00Z.
    assert_eq!(
        first.next_due.unwrap().rfc3339(),
        "2023-11-15T02:00:00.000Z"
    );
    let off = set(
        &node,
        Some("m"),
        NewSchedule {
            enabled: false,
            ..cron.clone()
        },
    )
    .await;
    assert_eq!(
        (off.enabled, off.next_due),
        (false, None),
        "it took the place of the first"
    );
    set(&node, None, every("P1D")).await;
    assert_eq!(
        node.engine
            .list_schedules(&node.caller)
            .await
            .unwrap()
            .len(),
        2
    );
    let full = node
        .engine
        .put_schedule(&node.caller, "distill", None, every("P1D"))
        .await
        .unwrap_err();
    assert!(
        matches!(full, EngineError::Rejected(rejection) if rejection.field() == Some("schedules"))
    );
    node.engine
        .remove_schedule(&node.caller, "compact", None)
        .await
        .unwrap();
    for gone in [
        node.engine
            .remove_schedule(&node.caller, "compact", None)
            .await,
        node.engine
            .get_schedule(&node.caller, "compact", None)
            .await
            .map(|_| ()),
        node.engine
            .put_schedule(&node.caller, "purge", None, every("P1D"))
            .await
            .map(|_| ()),
    ] {
        assert!(matches!(gone, Err(EngineError::NotFound(_))));
    }
    node.at(1_000_000);
    assert_eq!(
        tick(&node).await.unwrap(),
        0,
        "what is off or gone does not tick"
    );
    assert!(
        node.engine
            .start_job(&node.caller, "compact", None, Map::new(), None)
            .await
            .is_ok()
    );
}
