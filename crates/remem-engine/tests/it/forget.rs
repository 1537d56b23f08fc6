//! Forgetting a subject: everything about it is erased, including all copies; everything else
//! stays; the report lists it; and if a call is interrupted, the next one completes it.

use crate::common::ENDING;
use remem_core::distill::index::{ArchiveIndex, INDEX_PATH};
use remem_core::{Change, Draft, RecordKind, RunStatus};
use remem_engine::EngineError;
use remem_engine::archive::ArchiveContent;
use remem_engine::forget::{ErasureReport, SignedReport, verify_report};
use remem_store::{EntryState, StoreError};
use remem_store_sql::Location;
use remem_testkit::{NOON, TestEnv, TestHost};
use remem_testkit::{cases, storage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Occurs in every text about the subject, and in no other.
const CANARY: &str = "Quillfeather";

fn about(n: usize) -> String {
    format!("{CANARY} rented warehouse {n} at harbour {}.", n * 3 + 1)
}

/// Everything that may contain a text: live entries, records of every kind, events.
async fn all_of(host: &TestHost) -> String {
    let all = host.dump(&["m", "n", "o"]).await.join("\n");
    all + &host
        .records(&[RecordKind::Job, RecordKind::Progress])
        .await
        .join("\n")
}

async fn assert_gone(host: &TestHost, story: &str) {
    let all = all_of(host).await;
    let at = all
        .to_lowercase()
        .find(&CANARY.to_lowercase())
        .map(|at| &all[at.saturating_sub(200)..(at + 100).min(all.len())]);
    assert_eq!(at, None, "{story}");
}

struct SubjectEntries {
    direct: Vec<String>,
    derived: Vec<String>,
    merged_survivor: String,
}

/// Writes texts about the subject to three memories: distilled in one, merged with an unrelated
/// entry in another, compacted in a third.
async fn write_subject_entries(host: &TestHost) -> SubjectEntries {
    let mut direct = Vec::new();
    let mut derived = Vec::new();
    host.put("m", "Vera keeps the ledger of the northern quay.")
        .await;
    for n in 0..4 {
        direct.push(host.put_about("m", &about(n), CANARY).await);
    }
    let distilled = host
        .work(
            "distill",
            "m",
            json!({"tokenBudget": 300, "markdown": true}),
        )
        .await
        .unwrap();
    derived.push(distilled.detail["outputId"].as_str().unwrap().to_owned());
    let merged_survivor = host
        .put("n", &format!("Otto mends the crane{ENDING}"))
        .await;
    direct.push(
        host.put_about("n", &format!("Otto mends the crane{ENDING}."), CANARY)
            .await,
    );
    assert_eq!(
        host.work("consolidate", "n", json!({}))
            .await
            .unwrap()
            .changed,
        1
    );
    host.put("o", "Nadia counts the boxes.").await;
    direct.push(host.put_about("o", &about(9), CANARY).await);
    let compacted = host
        .work("compact", "o", json!({"include": "all"}))
        .await
        .unwrap();
    derived.push(
        compacted.detail["outputs"][0]["outputId"]
            .as_str()
            .unwrap()
            .to_owned(),
    );
    SubjectEntries {
        direct,
        derived,
        merged_survivor,
    }
}

/// Repeats a forget until the storage does not fail.
async fn insist_on_forgetting(host: &TestHost, words: &str) {
    for _ in 0..1_000 {
        match host.engine.forget(&host.caller, words, false).await {
            Ok(_) => return,
            Err(EngineError::Store(StoreError::Unavailable(_) | StoreError::Busy)) => {
                host.env.expire_leases();
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("it never works");
}

#[tokio::test]
async fn forget_erases_everything_about_the_subject_and_nothing_else() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let other = env.host_of("u").await;
    let entries = write_subject_entries(&host).await;
    write_subject_entries(&other).await;
    let untouched = other.dump(&["m", "n", "o"]).await;
    let archive = host
        .engine
        .list_archives(&host.caller, "m")
        .await
        .unwrap()
        .remove(0);
    assert!(all_of(&host).await.contains(CANARY));
    let dry = host
        .engine
        .forget(&host.caller, CANARY, true)
        .await
        .unwrap();
    let forgotten = host
        .engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    assert_gone(&host, "at once").await;
    assert_eq!(
        other.dump(&["m", "n", "o"]).await,
        untouched,
        "of another tenant nothing"
    );
    assert_eq!(
        host.texts("m").await,
        ["Vera keeps the ledger of the northern quay."]
    );
    assert_eq!(
        host.texts("n").await,
        [format!("Otto mends the crane{ENDING}")],
        "the innocent one stands by itself again"
    );
    assert_eq!(host.live("n").await[0].id.as_str(), entries.merged_survivor);
    assert!(
        host.texts("o").await.is_empty(),
        "a text that was made from both cannot be kept"
    );
    assert_eq!(
        host.engine
            .get_archive(&host.caller, "m", &archive.sha256)
            .await
            .unwrap(),
        ArchiveContent::Erased
    );
    for (memory, id) in [
        ("m", &entries.direct[0]),
        ("n", &entries.direct[4]),
        ("m", &entries.derived[0]),
        ("o", &entries.derived[1]),
    ] {
        assert_eq!(
            host.lineage(memory, id).await.state,
            EntryState::Forgotten,
            "{memory}/{id}: the skeleton stays"
        );
    }
    // The report equals that of the dry run, is signed, stored as it was returned, and covers
    // nothing else.
    let report = &forgotten.report.report;
    assert!(forgotten.changed && dry.changed && dry.report.signature.is_empty());
    let sorted = |report: &ErasureReport| {
        let mut erased = report.erased.clone();
        erased.sort_by(|a, b| (&a.memory_ref, &a.id).cmp(&(&b.memory_ref, &b.id)));
        (erased, report.revived.clone(), report.archives.clone())
    };
    assert_eq!(sorted(&dry.report.report), sorted(report));
    let mut ids: Vec<&str> = report.erased.iter().map(|one| one.id.as_str()).collect();
    // Compacted entries had no text any more.
    let mut expected: Vec<&str> = entries.direct[..5]
        .iter()
        .chain(&entries.derived)
        .map(String::as_str)
        .collect();
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
    assert!(report.erased.iter().all(|one| one.content_hash.len() == 64));
    assert_eq!(
        (report.revived.as_slice(), report.archives.as_slice()),
        (
            &[("n".to_owned(), entries.merged_survivor)][..],
            &[archive.sha256][..]
        )
    );
    assert!(verify_report(
        &forgotten.report.to_map(),
        &host.engine.report_public_key()
    ));
    let kept = host
        .engine
        .list_erasures(&host.caller, None, None)
        .await
        .unwrap()
        .0;
    assert_eq!((kept.len(), &kept[0]), (1, &forgotten.report));
    assert_eq!(
        host.engine
            .get_erasure(&host.caller, &report.id)
            .await
            .unwrap(),
        forgotten.report.to_map()
    );
    let event = json!({"reportId": report.id, "subject": report.subject, "erased": 7, "revived": 1, "archives": 1});
    assert_eq!(host.payloads("subject.forgotten").await, [event]);
    // Repeating it does nothing.
    let before = host.dump(&["m", "n", "o"]).await;
    let again = host
        .engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    assert!(!again.changed && again.report.signature.is_empty());
    assert_eq!(host.dump(&["m", "n", "o"]).await, before);
}

#[tokio::test]
async fn dry_run_and_unknown_subjects_change_nothing() {
    let host = TestEnv::sqlite().host().await;
    write_subject_entries(&host).await;
    let before = host.dump(&["m", "n", "o"]).await;
    assert!(
        host.engine
            .forget(&host.caller, CANARY, true)
            .await
            .unwrap()
            .changed
    );
    assert!(
        !host
            .engine
            .forget(&host.caller, "somebody else", false)
            .await
            .unwrap()
            .changed
    );
    assert_eq!(host.dump(&["m", "n", "o"]).await, before);
}

#[tokio::test]
async fn equal_texts_hash_equally_and_an_altered_report_fails_to_verify() {
    let host = TestEnv::sqlite().host().await;
    for text in ["one", "one", "two"] {
        host.put_about("m", text, CANARY).await;
    }
    let SignedReport {
        mut report,
        public_key,
        signature,
    } = host
        .engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap()
        .report;
    let hashes: Vec<&str> = report
        .erased
        .iter()
        .map(|one| one.content_hash.as_str())
        .collect();
    assert!(hashes[0] == hashes[1] && hashes[1] != hashes[2]);
    report.erased.pop();
    assert!(!verify_report(
        &SignedReport {
            report,
            public_key,
            signature
        }
        .to_map(),
        &host.engine.report_public_key()
    ));
}

#[tokio::test]
async fn forget_removes_the_subject_from_every_index_version() {
    let host = TestEnv::sqlite().host().await;
    host.put("n", "Vera keeps the ledger of the northern quay.")
        .await;
    host.work("distill", "n", json!({"tokenBudget": 300}))
        .await
        .unwrap();
    for n in 0..3 {
        host.put_about("m", &about(n), CANARY).await;
        host.work(
            "distill",
            "m",
            json!({"tokenBudget": 300, "markdown": true}),
        )
        .await
        .unwrap();
    }
    let versions = host
        .records(&[RecordKind::FileVersion])
        .await
        .join("\n")
        .to_lowercase();
    assert!(
        versions.contains(&CANARY.to_lowercase()),
        "it was a topic: {versions}"
    );
    let forgotten = host
        .engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    assert_eq!(forgotten.report.report.archives.len(), 3);
    assert_gone(&host, "index").await;
    let index = host
        .engine
        .get_file(&host.caller, INDEX_PATH, None)
        .await
        .unwrap()
        .unwrap();
    let index = ArchiveIndex::parse(&index.content).unwrap();
    assert_eq!(
        (index.archives("m").len(), index.archives("n").len()),
        (0, 1),
        "the others are still in it"
    );
}

/// Another memory has the same digest, byte for byte: its line stays in the index.
#[tokio::test]
async fn forget_keeps_an_identical_archive_of_another_memory() {
    let host = TestEnv::sqlite().host().await;
    let subjects = host
        .engine
        .subject_digests(&host.caller, &[CANARY.to_owned()])
        .unwrap();
    for (memory, subjects) in [("m", subjects), ("n", vec![])] {
        let origin = remem_core::EntryId::parse("mem_x").map(|id| remem_core::Origin {
            id,
            created_at: Some(NOON),
        });
        let draft = Draft {
            content: "Vera keeps the ledger.".into(),
            subjects,
            origin,
            ..Draft::default()
        };
        host.engine
            .import(&host.caller, memory, vec![draft])
            .await
            .unwrap();
        host.work("distill", memory, json!({"tokenBudget": 300}))
            .await
            .unwrap();
    }
    host.engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    let index = host
        .engine
        .get_file(&host.caller, INDEX_PATH, None)
        .await
        .unwrap()
        .unwrap();
    let index = ArchiveIndex::parse(&index.content).unwrap();
    assert_eq!(
        (index.archives("m").len(), index.archives("n").len()),
        (0, 1)
    );
}

/// Texts written about the subject while it is being forgotten are erased as well, and a concurrent
/// writer of the index does not prevent that.
#[tokio::test]
async fn forget_also_erases_entries_written_during_it() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    write_subject_entries(&host).await;
    let other = Arc::new(env.without_faults().host().await);
    let left = Arc::new(std::sync::Mutex::new(3));
    env.faults.before_each_commit(move |batch| {
        let other = other.clone();
        let left = left.clone();
        Box::pin(async move {
            let touches = |change: &Change| {
                matches!(
                    change,
                    Change::Forget { .. }
                        | Change::SetRecord {
                            kind: RecordKind::Archive,
                            ..
                        }
                )
            };
            let goes = batch.changes().iter().any(touches) && {
                let mut left = left.lock().unwrap();
                *left -= i32::from(*left > 0);
                *left > 0
            };
            if goes {
                other.put_about("m", &about(77), CANARY).await;
                other
                    .work("distill", "m", json!({"tokenBudget": 310}))
                    .await
                    .unwrap();
            }
        })
    });
    let forgotten = host
        .engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    assert_gone(&host, "meanwhile").await;
    assert!(verify_report(
        &forgotten.report.to_map(),
        &host.engine.report_public_key()
    ));
    assert!(
        forgotten.report.report.erased.len() >= 9,
        "{}",
        forgotten.report.report.erased.len()
    );
    let kept = host
        .engine
        .list_erasures(&host.caller, None, None)
        .await
        .unwrap()
        .0;
    assert_eq!(kept, [forgotten.report], "one report, of all rounds");
}

#[tokio::test(start_paused = true)]
async fn a_crashed_forget_is_completed_by_the_next_call() {
    let mut deaths = 0;
    let mut reports = 0;
    for call in 0.. {
        let mut reached = false;
        for late in [false, true] {
            let env = TestEnv::sqlite();
            let host = env.host().await;
            let entries = write_subject_entries(&host).await;
            env.faults.crash_at(call, late);
            deaths += u32::from(
                host.engine
                    .forget(&host.caller, CANARY, false)
                    .await
                    .is_err(),
            );
            reached |= env.faults.has_crashed();
            env.faults.restart();
            env.expire_leases();
            let next = env.host().await;
            next.engine
                .forget(&next.caller, CANARY, false)
                .await
                .unwrap();
            let story = format!("call {call}, late {late}");
            assert_gone(&next, &story).await;
            assert_eq!(
                next.live("n").await[0].id.as_str(),
                entries.merged_survivor,
                "{story}"
            );
            let kept = next
                .engine
                .list_erasures(&next.caller, None, None)
                .await
                .unwrap()
                .0;
            let events = next.payloads("subject.forgotten").await;
            assert_eq!(
                (kept.len(), events.len()),
                (1, 1),
                "{story}: told of once, never not at all"
            );
            assert!(verify_report(
                &kept[0].to_map(),
                &next.engine.report_public_key()
            ));
            let report = &kept[0].report;
            assert_eq!(
                (
                    report.erased.len(),
                    report.revived.len(),
                    report.archives.len()
                ),
                (7, 1, 1),
                "{story}: of all that was done"
            );
            reports += kept.len();
            assert!(
                !next
                    .engine
                    .forget(&next.caller, CANARY, false)
                    .await
                    .unwrap()
                    .changed,
                "{story}"
            );
        }
        if !reached {
            break;
        }
    }
    assert!(deaths > 10 && reports > 0, "it did die: {deaths}");
}

#[tokio::test]
async fn intermittent_store_failures_do_not_prevent_erasure() {
    let seeds = u64::from(cases(10, 40));
    let mut injected = 0;
    for seed in 0..seeds {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        let entries = write_subject_entries(&host).await;
        let failing = env.failing(seed, 50);
        insist_on_forgetting(&failing.host().await, CANARY).await;
        assert_gone(&host, &format!("seed {seed}")).await;
        assert_eq!(
            host.live("n").await[0].id.as_str(),
            entries.merged_survivor,
            "seed {seed}"
        );
        injected += failing.faults.injected();
    }
    assert!(injected > seeds, "the store did fail: {injected}");
}

/// Two transactions of tagged entries, and a digest of them: the process stops after each.
#[tokio::test]
async fn a_long_forget_that_is_interrupted_is_completed() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let subjects = host
        .engine
        .subject_digests(&host.caller, &[CANARY.to_owned()])
        .unwrap();
    for page in 0..10 {
        let draft = |n: usize| Draft {
            content: about(page * 100 + n),
            subjects: subjects.clone(),
            ..Draft::default()
        };
        host.engine
            .put(&host.caller, "m", (0..100).map(draft).collect(), None)
            .await
            .unwrap();
    }
    host.put("m", "Vera keeps the ledger of the northern quay.")
        .await;
    host.work("distill", "m", json!({"tokenBudget": 2_000}))
        .await
        .unwrap();
    // Every attempt completes one transaction and stops before the next, or right after it.
    let mut left = vec![host.live("m").await.len()];
    for attempt in 0..10 {
        let faults = env.faults.clone();
        let pages = Arc::new(AtomicU64::new(0));
        env.faults.before_each_commit(move |batch| {
            let forgets = batch
                .changes()
                .iter()
                .any(|change| matches!(change, Change::Forget { .. }));
            let number = if forgets {
                pages.fetch_add(1, Ordering::SeqCst)
            } else {
                0
            };
            if forgets && number == u64::from(attempt < 2) {
                faults.crash_at(0, attempt == 2);
            }
            Box::pin(async {})
        });
        let done = host
            .engine
            .forget(&host.caller, CANARY, false)
            .await
            .is_ok();
        env.faults.restart();
        env.expire_leases();
        left.push(host.live("m").await.len());
        if done {
            break;
        }
    }
    assert_eq!(
        left,
        [1_002, 1_001, 501, 1, 1],
        "it was interrupted between transactions, and after the last"
    );
    let reports = host
        .engine
        .list_erasures(&host.caller, None, None)
        .await
        .unwrap()
        .0;
    assert_eq!(reports.len(), 1);
    let mut ids: Vec<&str> = reports[0]
        .report
        .erased
        .iter()
        .map(|one| one.id.as_str())
        .collect();
    assert_eq!(
        (ids.len(), reports[0].report.archives.len()),
        (1_001, 1),
        "the report tells of what the interrupted ones did, too"
    );
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1_001, "and of each once");
    assert!(
        host.records(&[RecordKind::Progress])
            .await
            .iter()
            .all(|record| !record.contains("forget/")),
        "nothing is left of the work"
    );
    assert_gone(&host, "long").await;
    assert_eq!(
        host.texts("m").await,
        ["Vera keeps the ledger of the northern quay."]
    );
}

fn reader(id: &str, entry: &str) -> Value {
    let node =
        |id: &str, config: Value| json!({"id": id, "typeId": "core.identity", "config": config});
    let get = node(
        "one",
        json!({"memoryAction": "get", "memoryRef": "m", "id": entry, "into": "one"}),
    );
    json!({"id": id, "nodes": [node("all", json!({"memoryAction": "read", "memoryRef": "m", "into": "all"})), get]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replays_keep_forgotten_text_and_running_runs_do_not_read_it() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let entries = write_subject_entries(&host).await;
    let ended = host
        .run_workflow(reader("before", &entries.direct[0]), json!({}))
        .await;
    assert!(
        Value::Object(ended.state.variables.clone())
            .to_string()
            .contains(CANARY)
    );
    let log = host.log(&ended).await;
    // By another process, which does not execute the run yet.
    let other = env.host().await;
    let under_way = other
        .start_run(reader("during", &entries.direct[0]), json!({}))
        .await;
    host.engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    let replay = host.replay(&ended).await;
    assert_eq!(
        (host.log(&replay).await, replay.state.variables),
        (log, ended.state.variables)
    );
    let during = other.run_to_end(&under_way).await;
    assert_eq!(during.state.status, RunStatus::Completed);
    assert!(during.state.variables["one"].is_null());
    let seen = Value::Object(during.state.variables).to_string();
    assert!(
        !seen.contains(CANARY) && seen.contains("Vera keeps"),
        "{seen}"
    );
}

/// The text is gone from the disk, too: from the file and from its journal.
#[tokio::test]
async fn forgotten_text_is_removed_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestEnv::over(storage::sqlite(Location::Folder(folder.path().to_owned())))
        .host()
        .await;
    write_subject_entries(&host).await;
    let holds = || {
        let tenants = std::fs::read_dir(folder.path().join("tenants")).unwrap();
        let files: Vec<Vec<u8>> = tenants
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .collect();
        files.iter().any(|bytes| {
            bytes
                .windows(CANARY.len())
                .any(|window| window.eq_ignore_ascii_case(CANARY.as_bytes()))
        })
    };
    assert!(holds());
    host.engine
        .forget(&host.caller, CANARY, false)
        .await
        .unwrap();
    host.run_pass("purge").await;
    assert!(!holds());
}
