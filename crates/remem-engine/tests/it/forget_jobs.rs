//! A forget as a job: who goes on with it, after what, and how a report is stored that names more
//! than one record holds.

use remem_core::{Change, Draft, RecordKind, Subject};
use remem_engine::EngineError;
use remem_engine::forget::{ErasureReport, ForgetOutcome, SignedReport, verify_report};
use remem_engine::jobs::{JobInfo, JobQuery, JobState};
use remem_testkit::{TestEnv, TestHost};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SUBJECT: &str = "person: Quillfeather";
/// Entries that the subject is given to.
const GIVEN: usize = 5;
/// The entry that is about nobody.
const OTHER: &str = "Vera keeps the ledger of the northern quay.";

/// An environment whose hosts erase two entries in a transaction, and name three in a record.
fn small_pages() -> TestEnv {
    let mut env = TestEnv::sqlite();
    env.policy.erasure_entries_max = 2;
    env.policy.erasure_named_max = 3;
    env
}

/// Writes entries of the subject, and a digest of them and of another entry.
async fn write_entries(host: &TestHost) {
    host.put("m", OTHER).await;
    for n in 0..GIVEN {
        let text = format!("Quillfeather rented warehouse {n} at harbour {}.", n * 3);
        host.put_about("m", &text, SUBJECT).await;
    }
    host.work("distill", "m", json!({"tokenBudget": 300}))
        .await
        .unwrap();
}

/// Starts a forget, and leaves all of it to a job.
async fn start(host: &TestHost) -> JobInfo {
    match host
        .engine
        .forget_within(&host.caller, SUBJECT, Duration::ZERO)
        .await
        .unwrap()
    {
        ForgetOutcome::UnderWay(job) => *job,
        ForgetOutcome::Done(done) => panic!("{done:?}"),
    }
}

async fn reports(host: &TestHost) -> Vec<SignedReport> {
    let listed = host.engine.list_erasures(&host.caller, None, None).await;
    listed.unwrap().0
}

/// Every id that a report names, on its pages too, after checks of signature and digests.
async fn named(host: &TestHost, report: &SignedReport) -> Vec<String> {
    let map = report.to_map();
    assert!(verify_report(&map, &host.engine.report_public_key()));
    let mut ids = ids_of(&map);
    for (index, page) in report.report.pages.iter().enumerate() {
        let number = index + 1;
        let content = host
            .engine
            .get_erasure_page(&host.caller, &report.report.id, number)
            .await
            .unwrap();
        // Its keys are sorted, as in canonical JSON.
        let text = Value::Object(content.clone()).to_string();
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let digest: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(page.sha256, digest, "page {number}");
        ids.extend(ids_of(&content));
    }
    ids
}

fn ids_of(report: &Map<String, Value>) -> Vec<String> {
    let erased = report["erased"].as_array().unwrap();
    let ids = erased.iter().map(|one| one["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

/// One report covers everything, once; nothing is left of the work or of the texts.
async fn assert_forgotten(host: &TestHost, story: &str) {
    assert_eq!(host.texts("m").await, [OTHER], "{story}");
    let all = host.dump(&["m"]).await.join("\n");
    assert!(!all.to_lowercase().contains("quillfeather"), "{story}");
    let reports = reports(host).await;
    let events = host.payloads("subject.forgotten").await;
    assert_eq!((reports.len(), events.len()), (1, 1), "{story}");
    let ids = named(host, &reports[0]).await;
    let unique: BTreeSet<&String> = ids.iter().collect();
    assert_eq!((ids.len(), unique.len()), (GIVEN + 1, GIVEN + 1), "{story}");
    assert_eq!(reports[0].report.count_erased(), GIVEN as u64 + 1);
    assert_eq!(reports[0].report.count_archives(), 1, "{story}");
    let left = host.records(&[RecordKind::Progress]).await;
    assert!(
        left.iter().all(|record| !record.contains("forget/")),
        "{story}: {left:?}"
    );
    let again = host.engine.forget(&host.caller, SUBJECT, false).await;
    assert!(!again.unwrap().changed, "{story}");
}

#[tokio::test]
async fn a_repeated_request_finds_the_job_that_is_under_way() {
    let env = small_pages();
    let host = env.host().await;
    write_entries(&host).await;
    let job = start(&host).await;
    assert_eq!((job.state, job.pass), (JobState::Queued, "forget"));
    assert_eq!(host.texts("m").await.len(), GIVEN + 2, "nothing is erased");
    let node = env.host().await;
    assert_eq!(start(&node).await.id, job.id, "on any node");
    node.run_pass("forget").await;
    let done = host.engine.get_job(&host.caller, &job.id).await.unwrap();
    assert_eq!(
        (done.state, done.changed),
        (JobState::Done, GIVEN as u64 + 1)
    );
    assert_eq!(
        done.detail["reportId"],
        reports(&host).await[0].report.id.as_str()
    );
    assert!(
        !format!("{:?}", done.detail).contains("Quillfeather"),
        "its words are nowhere"
    );
    assert_forgotten(&host, "by the job").await;
    let jobs = host
        .engine
        .list_jobs(&host.caller, &JobQuery::default())
        .await
        .unwrap()
        .0;
    let forgets = jobs.iter().filter(|job| job.pass == "forget").count();
    assert_eq!(forgets, 1, "where nothing is to be done, no job is made");
}

/// The process dies at each of its calls of the store; the next one goes on by itself, without a
/// repeated request.
#[tokio::test(start_paused = true)]
async fn a_crashed_job_is_completed_by_the_next_process() {
    let mut resumed = 0;
    for call in 0.. {
        let mut reached = false;
        for late in [false, true] {
            let env = small_pages();
            let host = env.host().await;
            write_entries(&host).await;
            env.faults.crash_at(call, late);
            let result = host.engine.forget(&host.caller, SUBJECT, false).await;
            reached |= env.faults.has_crashed();
            env.faults.restart();
            env.expire_leases();
            let next = env.host().await;
            let story = format!("call {call}, late {late}");
            let before = next.texts("m").await.len();
            next.run_pass("forget").await;
            if next.texts("m").await.len() == GIVEN + 2 {
                assert!(
                    result.is_err() && reports(&next).await.is_empty(),
                    "{story}"
                );
                continue;
            }
            resumed += usize::from(before > 1);
            assert_forgotten(&next, &story).await;
            let query = JobQuery::default();
            let listed = next.engine.list_jobs(&next.caller, &query).await;
            let jobs = listed.unwrap().0;
            let forget = jobs.iter().find(|job| job.pass == "forget").unwrap();
            assert_eq!(forget.state, JobState::Done, "{story}");
            assert_eq!(
                forget.detail["reportId"],
                reports(&next).await[0].report.id.as_str(),
                "{story}"
            );
        }
        if !reached {
            break;
        }
    }
    assert!(resumed > 20, "it did die: {resumed}");
}

/// A cancelled job leaves its pages, and the next forget continues its report.
#[tokio::test]
async fn the_report_of_a_cancelled_forget_is_continued() {
    let env = small_pages();
    let host = env.host().await;
    write_entries(&host).await;
    let job = start(&host).await;
    let engine = env.without_faults().host().await;
    let number = Arc::new(AtomicU64::new(0));
    let id = job.id.clone();
    env.faults.before_each_commit(move |batch| {
        let forgets = |change: &Change| matches!(change, Change::Forget { .. });
        let is_second =
            batch.changes().iter().any(forgets) && number.fetch_add(1, Ordering::SeqCst) == 1;
        let engine = engine.clone();
        let id = id.clone();
        Box::pin(async move {
            if is_second {
                let cancelled = engine.engine.cancel_job(&engine.caller, &id).await;
                assert!(cancelled.unwrap().cancelling);
            }
        })
    });
    host.run_pass("forget").await;
    let cancelled = host.engine.get_job(&host.caller, &job.id).await.unwrap();
    assert_eq!(cancelled.state, JobState::Cancelled);
    let left = host.texts("m").await.len();
    assert!(left > 1 && left < GIVEN + 2, "{left}");
    assert!(reports(&host).await.is_empty());
    let done = host.engine.forget(&host.caller, SUBJECT, false).await;
    assert!(done.unwrap().changed);
    assert_forgotten(&host, "cancelled").await;
}

/// A node sleeps for longer than its lease, before it erases; meanwhile another one does its job.
#[tokio::test]
async fn a_node_that_lost_its_lease_erases_and_reports_nothing() {
    let env = small_pages();
    let sleeper = env.host().await;
    write_entries(&sleeper).await;
    let job = start(&sleeper).await;
    let other = env.without_faults().host().await;
    let clock = env.clone();
    let slept = Arc::new(AtomicU64::new(0));
    let times = slept.clone();
    env.faults.before_each_commit(move |batch| {
        let forgets = |change: &Change| matches!(change, Change::Forget { .. });
        let sleeps =
            batch.changes().iter().any(forgets) && times.fetch_add(1, Ordering::SeqCst) == 0;
        let clock = clock.clone();
        let other = other.clone();
        Box::pin(async move {
            if sleeps {
                clock.expire_leases();
                other.run_pass("forget").await;
            }
        })
    });
    sleeper.run_pass("forget").await;
    assert!(slept.load(Ordering::SeqCst) > 0);
    let done = sleeper
        .engine
        .get_job(&sleeper.caller, &job.id)
        .await
        .unwrap();
    assert_eq!((done.state, done.attempts), (JobState::Done, 3));
    assert_forgotten(&sleeper, "asleep").await;
}

#[tokio::test]
async fn a_dry_run_stops_at_its_limit_and_says_so() {
    let host = small_pages().host().await;
    write_entries(&host).await;
    let planned = host
        .engine
        .forget(&host.caller, SUBJECT, true)
        .await
        .unwrap();
    let listed = planned.report.report.erased.len() + planned.report.report.archives.len();
    assert!(planned.more && planned.changed);
    assert!((3..=3 + 2 * 2 + 1).contains(&listed), "{listed}");
    let host = TestEnv::sqlite().host().await;
    write_entries(&host).await;
    let planned = host
        .engine
        .forget(&host.caller, SUBJECT, true)
        .await
        .unwrap();
    assert!(!planned.more);
    assert_eq!(planned.report.report.erased.len(), GIVEN + 1);
}

#[tokio::test]
async fn a_report_that_names_too_much_has_signed_pages() {
    let host = small_pages().host().await;
    write_entries(&host).await;
    let done = host
        .engine
        .forget(&host.caller, SUBJECT, false)
        .await
        .unwrap();
    let report = &done.report.report;
    assert!(
        report.erased.is_empty() && report.pages.len() > 2,
        "{report:?}"
    );
    assert_eq!(done.report, reports(&host).await[0]);
    for number in [0, report.pages.len() + 1] {
        let page = host
            .engine
            .get_erasure_page(&host.caller, &report.id, number)
            .await;
        assert!(matches!(page, Err(EngineError::NotFound(_))), "{number}");
    }
    assert_forgotten(&host, "on pages").await;
}

/// What version 0.1.0 recorded of an interrupted erasure is in the report of the next one.
#[tokio::test]
async fn an_erasure_that_an_earlier_version_began_is_reported() {
    for small in [false, true] {
        let env = if small {
            small_pages()
        } else {
            TestEnv::sqlite()
        };
        let host = env.host().await;
        write_entries(&host).await;
        let subject: Subject = host.engine.subject_digest(host.tenant(), SUBJECT).unwrap();
        let hex: String = subject.bytes().iter().map(|b| format!("{b:02x}")).collect();
        let part = ErasureReport {
            archives: vec!["ab".repeat(32)],
            ..ErasureReport::default()
        };
        let policy = remem_core::Policy::default();
        let admission = remem_core::Admission {
            policy: &policy,
            redactor: &remem_core::Redactor::empty(),
            redaction_fingerprint: 1,
            now: host.engine.now(),
        };
        let body = admission.redact_record(part.to_map());
        let batch = remem_core::Batch::new(host.tenant().clone(), host.engine.now()).set_record(
            RecordKind::Progress,
            format!("forget/{hex}/era_old-000000"),
            remem_core::Precondition::None,
            body,
        );
        host.env.store.commit(batch).await.unwrap();
        let done = host
            .engine
            .forget(&host.caller, SUBJECT, false)
            .await
            .unwrap();
        assert_eq!(done.report.report.count_archives(), 2, "small: {small}");
        let left = host.records(&[RecordKind::Progress]).await;
        assert!(left.iter().all(|record| !record.contains("forget/")));
    }
}

/// So are texts that are written meanwhile, in a memory that was passed already.
#[tokio::test]
async fn entries_of_several_pages_that_share_a_digest_are_reported_once() {
    let mut env = TestEnv::sqlite();
    env.policy.erasure_entries_max = 2;
    let host = env.host().await;
    write_entries(&host).await;
    let subjects = host
        .engine
        .subject_digests(&host.caller, &[SUBJECT.to_owned()])
        .unwrap();
    let late = Draft {
        content: "Quillfeather came back.".to_owned(),
        subjects,
        ..Draft::default()
    };
    let other = env.without_faults().host().await;
    let written = Arc::new(AtomicU64::new(0));
    env.faults.before_each_commit(move |batch| {
        let forgets = |change: &Change| matches!(change, Change::Forget { .. });
        let is_second =
            batch.changes().iter().any(forgets) && written.fetch_add(1, Ordering::SeqCst) == 1;
        let other = other.clone();
        let late = late.clone();
        Box::pin(async move {
            if is_second {
                other.put_draft("a", late).await;
            }
        })
    });
    let done = host
        .engine
        .forget(&host.caller, SUBJECT, false)
        .await
        .unwrap();
    let report = &done.report.report;
    assert_eq!((report.erased.len(), report.pages.len()), (GIVEN + 2, 0));
    assert!(host.texts("a").await.is_empty());
}
