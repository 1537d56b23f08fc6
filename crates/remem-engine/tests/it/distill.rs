//! Distillation of a memory: the same bytes for the same sources, all records or none, an index
//! that lists it, and a model that may change only the entry.

use remem_core::distill::Archive;
use remem_core::distill::index::{ArchiveIndex, INDEX_PATH, MARKDOWN_PATH};
use remem_core::{Change, Draft, EntryId, Origin, Policy, RecordKind, RunStatus, Timestamp};
use remem_engine::EngineError;
use remem_engine::archive::{ArchiveContent, DistillationRecord};
use remem_engine::jobs::WorkError;
use remem_engine::model::ModelPort;
use remem_engine::ports::{ModelError, ScriptedModel};
use remem_testkit::host::object;
use remem_testkit::{NOON, TestEnv, TestHost, cases};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const KINDS: [RecordKind; 5] = [
    RecordKind::Archive,
    RecordKind::Distillation,
    RecordKind::File,
    RecordKind::FileVersion,
    RecordKind::ModelCall,
];

fn fact(n: usize) -> String {
    format!(
        "Vera decided that warehouse {n} moves to harbour {} on day {}.",
        n * 3 + 1,
        n + 2
    )
}

async fn fill(host: &TestHost, memory: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(host.put(memory, &fact(n)).await);
    }
    ids
}

async fn archives(host: &TestHost, memory: &str) -> Vec<DistillationRecord> {
    host.engine
        .list_archives(&host.caller, memory)
        .await
        .unwrap()
}

async fn bytes(host: &TestHost, memory: &str, sha256: &str) -> String {
    match host
        .engine
        .get_archive(&host.caller, memory, sha256)
        .await
        .unwrap()
    {
        ArchiveContent::Bytes(bytes) => bytes,
        ArchiveContent::Erased => panic!("the archive is erased"),
    }
}

async fn file(host: &TestHost, path: &str) -> Option<(u64, String)> {
    let file = host
        .engine
        .get_file(&host.caller, path, None)
        .await
        .unwrap()?;
    Some((file.version, file.content))
}

#[tokio::test]
async fn a_distillation_writes_an_entry_an_archive_the_index_and_an_event() {
    let host = TestEnv::sqlite().host().await;
    let ids = fill(&host, "m", 20).await;
    let report = host
        .work(
            "distill",
            "m",
            json!({"tokenBudget": 400, "markdown": true}),
        )
        .await
        .unwrap();
    let done = archives(&host, "m").await;
    assert_eq!((report.examined, report.changed, done.len()), (20, 1, 1));
    let done = &done[0];
    let live = host.live("m").await;
    assert_eq!(live.len(), 21, "the sources stay");
    let entry = live
        .iter()
        .find(|entry| entry.id.as_str() == done.entry_id)
        .unwrap();
    let archive = bytes(&host, "m", &done.sha256).await;
    let parsed = Archive::parse(archive.as_bytes()).unwrap();
    assert_eq!(
        (parsed.sha256(), parsed.text(), parsed.budget),
        (done.sha256.clone(), entry.content.clone(), 400)
    );
    assert_eq!(parsed.sources, ids);
    assert!(entry.tags.contains(&"source:distillation".to_owned()));
    assert!(done.tokens_used <= 400 && done.tokens_used > 0);
    assert_eq!(host.lineage("m", &done.entry_id).await.sources.len(), 20);
    let detail = json!({
        "archive": done.sha256, "outputId": done.entry_id, "sourceCount": 20, "tokenBudget": 400, "tokensUsed": done.tokens_used,
        "indexUpdated": true, "byteSize": entry.content.len(),
    });
    assert_eq!(report.detail, object(&detail));
    let payload = json!({
        "memoryRef": "m", "outputId": done.entry_id, "sourceIds": host.payloads("memory.compacted").await[0]["sourceIds"], "sourceCount": 20,
        "trigger": "host-managed", "byteSize": entry.content.len(),
        "distillation": {"tokenBudget": 400, "tokensUsed": done.tokens_used, "indexUpdated": true},
    });
    assert_eq!(
        json!(host.payloads("memory.compacted").await),
        json!([payload])
    );
    let mut named: Vec<&str> = payload["sourceIds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    named.sort_unstable();
    assert_eq!(named, ids);
    let (version, index) = file(&host, INDEX_PATH).await.unwrap();
    let listed = ArchiveIndex::parse(&index).unwrap();
    let line = &listed.archives("m")[0];
    assert_eq!(
        (version, &line.sha256, &line.entry_id, line.source_count),
        (1, &done.sha256, &done.entry_id, 20)
    );
    assert_eq!(
        (line.from, line.to, &line.topics),
        (Timestamp(done.from), Timestamp(done.to), &done.topics)
    );
    assert!(!line.topics.is_empty());
    assert_eq!(
        file(&host, MARKDOWN_PATH).await.unwrap(),
        (1, listed.markdown())
    );
    let paths: Vec<Value> = host
        .payloads("workspace.updated")
        .await
        .iter()
        .map(|payload| payload["path"].clone())
        .collect();
    assert_eq!(paths, [json!(INDEX_PATH), json!(MARKDOWN_PATH)]);
    // Repeating it does nothing: no event, no version, no entry.
    let before = host.dump(&["m"]).await;
    let again = host
        .work(
            "distill",
            "m",
            json!({"tokenBudget": 400, "markdown": true}),
        )
        .await
        .unwrap();
    assert_eq!(
        (
            again.changed,
            &again.detail["archive"],
            &again.detail["indexUpdated"]
        ),
        (0, &json!(done.sha256), &json!(false))
    );
    assert_eq!(host.dump(&["m"]).await, before);
}

#[tokio::test]
async fn the_same_sources_and_budget_give_identical_archives() {
    let mut found = Vec::new();
    for (round, tenant) in ["t", "another-tenant"].into_iter().enumerate() {
        let env = TestEnv::sqlite();
        env.clock.set(NOON.plus_ms(round as i64 * 86_400_000));
        let host = env.host_of(tenant).await;
        let draft = |n: usize| Draft {
            content: fact(n),
            origin: EntryId::parse(&format!("mem_{:03}", (n * 7) % 30)).map(|id| Origin {
                id,
                created_at: Some(Timestamp(n as i64)),
            }),
            ..Draft::default()
        };
        let mut drafts: Vec<Draft> = (0..30).map(draft).collect();
        if round == 1 {
            drafts.reverse();
        }
        host.engine.import(&host.caller, "m", drafts).await.unwrap();
        host.work("distill", "m", json!({"tokenBudget": 500}))
            .await
            .unwrap();
        let done = archives(&host, "m").await.remove(0);
        found.push((
            done.sha256.clone(),
            bytes(&host, "m", &done.sha256).await,
            done.topics,
            done.source_digest,
        ));
    }
    assert_eq!(found[0], found[1]);
}

#[tokio::test]
async fn too_small_a_token_budget_is_refused_without_changes() {
    let host = TestEnv::sqlite().host().await;
    fill(&host, "m", 10).await;
    let before = host.dump(&["m"]).await;
    let WorkError::Refused { code, details } = host
        .work("distill", "m", json!({"tokenBudget": 5}))
        .await
        .unwrap_err()
    else {
        panic!()
    };
    let minimum = details["minimumRequired"].as_u64().unwrap();
    assert_eq!(
        (code, &details),
        (
            "token_budget_exceeded",
            &object(&json!({"budget": 5, "minimumRequired": minimum}))
        )
    );
    assert_eq!(host.dump(&["m"]).await, before);
    let refused = host
        .work("distill", "m", json!({"tokenBudget": minimum - 1}))
        .await;
    assert!(matches!(
        refused,
        Err(WorkError::Refused {
            code: "token_budget_exceeded",
            ..
        })
    ));
    assert_eq!(host.dump(&["m"]).await, before);
    host.work("distill", "m", json!({"tokenBudget": minimum}))
        .await
        .unwrap();
    let empty = host.work("distill", "empty", json!({})).await;
    assert!(matches!(
        empty,
        Err(WorkError::Refused {
            code: "nothing_to_distill",
            ..
        })
    ));
}

#[tokio::test]
async fn the_token_budget_is_capped_by_policy() {
    let env = TestEnv {
        policy: Policy {
            distill_tokens_max: 300,
            ..Policy::default()
        },
        ..TestEnv::sqlite()
    };
    let host = env.host().await;
    fill(&host, "m", 40).await;
    let report = host
        .work("distill", "m", json!({"tokenBudget": 1_000_000}))
        .await
        .unwrap();
    assert_eq!(report.detail["tokenBudget"], json!(300));
    assert!(report.detail["tokensUsed"].as_u64().unwrap() <= 300);
    assert_eq!(
        host.work("distill", "m", json!({})).await.unwrap().changed,
        0,
        "the same as without one"
    );
}

#[tokio::test]
async fn distillation_options_select_new_all_or_recursive_sources() {
    let host = TestEnv::sqlite().host().await;
    fill(&host, "m", 5).await;
    host.work("distill", "m", json!({"tokenBudget": 400}))
        .await
        .unwrap();
    host.put("m", "Otto rented a crane for the northern quay.")
        .await;
    let count = async |options: Value| {
        host.work("distill", "m", options).await.unwrap().detail["sourceCount"].clone()
    };
    assert_eq!(
        count(json!({"tokenBudget": 400, "sources": "new"})).await,
        json!(1)
    );
    assert_eq!(
        count(json!({"tokenBudget": 401})).await,
        json!(6),
        "a digest is no source"
    );
    assert_eq!(
        count(json!({"tokenBudget": 500, "recursive": true})).await,
        json!(9),
        "unless that is wanted"
    );
    let all = archives(&host, "m").await;
    assert_eq!(all.len(), 4);
    let (version, index) = file(&host, INDEX_PATH).await.unwrap();
    assert_eq!(
        (
            version,
            ArchiveIndex::parse(&index).unwrap().archives("m").len()
        ),
        (4, 4)
    );
    for version in 1..=4 {
        let old = host
            .engine
            .get_file(&host.caller, INDEX_PATH, Some(version))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            ArchiveIndex::parse(&old.content)
                .unwrap()
                .archives("m")
                .len(),
            version as usize
        );
    }
    assert!(
        file(&host, MARKDOWN_PATH).await.is_none(),
        "no twin unless wanted"
    );
}

/// Checks that either all records of a distillation are there, or none.
async fn all_or_nothing(host: &TestHost, story: &str) -> bool {
    let done = archives(host, "m").await;
    let counts = (
        host.live("m").await.len() - 12,
        host.payloads("memory.compacted").await.len(),
        host.records(&[RecordKind::Archive]).await.len(),
    );
    let index = file(host, INDEX_PATH).await;
    assert_eq!(counts, (done.len(), done.len(), done.len()), "{story}");
    assert_eq!(index.is_some(), !done.is_empty(), "{story}");
    !done.is_empty()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_leaves_all_or_nothing() {
    let mut with = 0;
    let mut without = 0;
    for call in 0.. {
        let mut reached = false;
        for late in [false, true] {
            let env = TestEnv::sqlite();
            let host = env.host().await;
            fill(&host, "m", 12).await;
            env.faults.crash_at(call, late);
            let _ = host.work("distill", "m", json!({"tokenBudget": 300})).await;
            reached |= env.faults.has_crashed();
            env.faults.restart();
            let story = format!("call {call}, late {late}");
            if all_or_nothing(&host, &story).await {
                with += 1
            } else {
                without += 1
            }
            env.expire_leases();
            let next = env.host().await;
            next.work("distill", "m", json!({"tokenBudget": 300}))
                .await
                .unwrap();
            all_or_nothing(&next, &story).await;
            assert_eq!(archives(&next, "m").await.len(), 1, "{story}: done once");
        }
        if !reached {
            break;
        }
    }
    assert!(with > 2 && without > 10, "{with} {without}");
}

#[tokio::test(start_paused = true)]
async fn intermittent_store_failures_still_distil_exactly_once() {
    let seeds = u64::from(cases(10, 40));
    let mut injected = 0;
    for seed in 0..seeds {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        fill(&host, "m", 12).await;
        let failing = env.failing(seed, 40);
        failing
            .host()
            .await
            .work_with_retries("distill", "m", json!({"tokenBudget": 300}))
            .await;
        assert!(all_or_nothing(&host, &format!("seed {seed}")).await);
        assert_eq!(archives(&host, "m").await.len(), 1, "seed {seed}");
        injected += failing.faults.injected();
    }
    assert!(injected > seeds, "the store did fail: {injected}");
}

/// A run distils another memory of the tenant, without the lease, right before this distillation is
/// committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_distillations_both_appear_in_the_index() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    fill(&host, "m", 10).await;
    fill(&host, "n", 10).await;
    fill(&host, "o", 10).await;
    host.work("distill", "o", json!({"tokenBudget": 400}))
        .await
        .unwrap();
    let other = Arc::new(env.without_faults().host().await);
    let once = Arc::new(std::sync::Mutex::new(false));
    env.faults.before_each_commit(move |batch| {
        let other = other.clone();
        let once = once.clone();
        Box::pin(async move {
            let first = batch.changes().iter().any(|change| matches!(change, Change::Put { .. }))
                && !std::mem::replace(&mut once.lock().unwrap(), true);
            if first {
                let node = json!({"id": "d", "typeId": "core.identity", "config": {"memoryAction": "distill", "memoryRef": "n"}});
                let run = other.run_workflow(json!({"id": "w", "nodes": [node]}), json!({})).await;
                assert_eq!(run.state.status, RunStatus::Completed, "{:?}", run.state.error);
            }
        })
    });
    host.work("distill", "m", json!({"tokenBudget": 400}))
        .await
        .unwrap();
    let (version, index) = file(&host, INDEX_PATH).await.unwrap();
    let index = ArchiveIndex::parse(&index).unwrap();
    assert_eq!(
        (
            version,
            ["m", "n", "o"].map(|memory| index.archives(memory).len())
        ),
        (3, [1, 1, 1])
    );
    assert_eq!(
        (
            archives(&host, "m").await.len(),
            archives(&host, "n").await.len()
        ),
        (1, 1)
    );
}

/// A source that is deleted or forgotten right before the digest is committed is not in it.
#[tokio::test]
async fn a_digest_omits_sources_deleted_or_forgotten_before_its_commit() {
    for forget in [false, true] {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        fill(&host, "m", 5).await;
        let gone = host
            .put_about("m", "Ulrike Canary lives at the northern quay.", "Ulrike")
            .await;
        let other = Arc::new(env.without_faults().host().await);
        env.faults.before_each_commit(move |batch| {
            let other = other.clone();
            let gone = gone.clone();
            Box::pin(async move {
                let writes = batch
                    .changes()
                    .iter()
                    .any(|change| matches!(change, Change::Put { .. }));
                if writes && forget {
                    other
                        .engine
                        .forget(&other.caller, "Ulrike", false)
                        .await
                        .unwrap();
                } else if writes {
                    let _ = other.engine.delete(&other.caller, "m", &gone, None).await; // gone already, the second time
                }
            })
        });
        let report = host.work("distill", "m", json!({})).await.unwrap();
        assert_eq!(report.detail["sourceCount"], json!(5));
        let all = host.dump(&["m"]).await.join("\n").to_lowercase();
        assert!(
            !all.contains("canary") && !all.contains("quay"),
            "forget {forget}: {all}"
        );
    }
}

#[tokio::test]
async fn an_expired_archive_keeps_only_its_record() {
    let env = TestEnv {
        policy: Policy {
            archive_retention_ms: 86_400_000,
            ..Policy::default()
        },
        ..TestEnv::sqlite()
    };
    let host = env.host().await;
    fill(&host, "m", 10).await;
    host.work("distill", "m", json!({"tokenBudget": 400}))
        .await
        .unwrap();
    let old = archives(&host, "m").await.remove(0);
    env.clock.set(NOON.plus_ms(86_400_000 * 2));
    fill(&host, "n", 3).await;
    host.work("distill", "n", json!({"tokenBudget": 400}))
        .await
        .unwrap();
    assert_eq!(host.run_pass("archives").await.changed, 1);
    assert_eq!(host.run_pass("archives").await.changed, 0);
    assert_eq!(
        host.engine
            .get_archive(&host.caller, "m", &old.sha256)
            .await
            .unwrap(),
        ArchiveContent::Erased
    );
    let left = archives(&host, "m").await.remove(0);
    assert_eq!(
        left,
        DistillationRecord {
            erased: true,
            topics: vec![],
            ..old.clone()
        }
    );
    let index = ArchiveIndex::parse(&file(&host, INDEX_PATH).await.unwrap().1).unwrap();
    assert_eq!(
        (index.archives("m").len(), index.archives("n").len()),
        (0, 1)
    );
    let versions = host
        .records(&[RecordKind::FileVersion, RecordKind::File])
        .await
        .join("\n");
    assert!(
        !versions.contains(&old.sha256),
        "no version of the index tells of it: {versions}"
    );
    assert!(
        host.live("m")
            .await
            .iter()
            .any(|entry| entry.id.as_str() == old.entry_id),
        "the entry is nobody's archive"
    );
    // The digest can be made again.
    assert_eq!(
        host.work("distill", "m", json!({"tokenBudget": 400}))
            .await
            .unwrap()
            .detail["archive"],
        json!(old.sha256)
    );
    bytes(&host, "m", &old.sha256).await;
}

const NOTES: [&str; 2] = ["Ann pays 30 euros.", "Ben does not like fish."];

async fn with_model(answer: &str) -> (TestHost, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::new([Ok::<_, ModelError>(answer.to_owned())]));
    let port = ModelPort {
        model: model.clone(),
        key_secret: None,
        deadline: Duration::from_secs(5),
    };
    let host = TestEnv {
        model: Some(port),
        ..TestEnv::sqlite()
    }
    .host()
    .await;
    for note in NOTES {
        host.put("m", note).await;
    }
    (host, model)
}

#[tokio::test]
async fn a_model_can_change_only_the_entry_text() {
    let plain = TestEnv::sqlite().host().await;
    for note in NOTES {
        plain.put("m", note).await;
    }
    plain
        .work("distill", "m", json!({"tokenBudget": 200}))
        .await
        .unwrap();
    let expected = archives(&plain, "m").await.remove(0);
    let good = r#"{"lines": [{"text": "Ben does not like fish.", "from": [2]}, {"text": "Ann pays 30 euros.", "from": [1]}]}"#;
    let swapped = r#"{"lines": [{"text": "Ben does not like fish.", "from": [1]}, {"text": "Ann pays 30 euros.", "from": [2]}]}"#;
    let mut accepted = 0;
    for (answer, wrong) in [
        (good, false),
        (swapped, false),
        (
            r#"{"lines": [{"text": "Ann pays 31 euros.", "from": [1]}]}"#,
            true,
        ),
    ] {
        let (host, model) = with_model(answer).await;
        host.work("distill", "m", json!({"tokenBudget": 200}))
            .await
            .unwrap();
        assert_eq!(model.take_requests().len(), 1);
        let done = archives(&host, "m").await.remove(0);
        let archive = bytes(&host, "m", &done.sha256).await;
        let text = Archive::parse(archive.as_bytes()).unwrap().text();
        assert_eq!(
            text,
            Archive::parse(bytes(&plain, "m", &expected.sha256).await.as_bytes())
                .unwrap()
                .text(),
            "the archive is not a model's"
        );
        let entry = host
            .live("m")
            .await
            .into_iter()
            .find(|entry| entry.id.as_str() == done.entry_id)
            .unwrap();
        let calls = host
            .engine
            .list_model_calls(&host.caller, None, None)
            .await
            .unwrap()
            .0;
        assert_eq!(
            (calls.len(), &calls[0].body["outputId"]),
            (1, &json!(done.entry_id))
        );
        let taken = calls[0].body["accepted"] == json!(true);
        assert!(!(wrong && taken), "{:?}", calls[0].body);
        assert_eq!(taken, entry.content != text, "{:?}", calls[0].body);
        if !taken {
            assert!(matches!(
                host.engine.undo_rewrite(&host.caller, &calls[0].id).await,
                Err(EngineError::NotFound(_))
            ));
            continue;
        }
        accepted += 1;
        let id = host
            .engine
            .undo_rewrite(&host.caller, &calls[0].id)
            .await
            .unwrap();
        let live = host.live("m").await;
        assert_eq!(
            live.iter().find(|entry| entry.id == id).unwrap().content,
            text
        );
        assert!(live.iter().all(|entry| entry.id.as_str() != done.entry_id));
        let after = archives(&host, "m").await.remove(0);
        assert_eq!(
            (after.entry_id.as_str(), &after.sha256),
            (id.as_str(), &done.sha256)
        );
        assert_eq!(bytes(&host, "m", &after.sha256).await, archive);
        assert_eq!(
            ArchiveIndex::parse(&file(&host, INDEX_PATH).await.unwrap().1)
                .unwrap()
                .archives("m")[0]
                .entry_id,
            id.as_str()
        );
        assert!(
            matches!(
                host.engine.undo_rewrite(&host.caller, &calls[0].id).await,
                Err(EngineError::NotFound(_))
            ),
            "once"
        );
    }
    assert!(accepted > 0, "a good answer is taken");
}

/// A change by the model is never stored without its ledger record, wherever the process stops.
#[tokio::test]
async fn a_model_rewrite_is_never_stored_without_its_ledger_record() {
    let mut with = 0;
    let mut without = 0;
    for call in 0.. {
        let mut reached = false;
        for late in [false, true] {
            let (host, _) =
                with_model(r#"{"lines": [{"text": "Ann pays 30 euros.", "from": [1]}]}"#).await;
            host.env.faults.crash_at(call, late);
            let _ = host.work("distill", "m", json!({"tokenBudget": 200})).await;
            reached |= host.env.faults.has_crashed();
            host.env.faults.restart();
            let done = archives(&host, "m").await.len();
            assert_eq!(
                host.records(&[RecordKind::ModelCall]).await.len(),
                done,
                "call {call}, late {late}"
            );
            if done == 1 { with += 1 } else { without += 1 }
        }
        if !reached {
            break;
        }
    }
    assert!(with > 2 && without > 10, "{with} {without}");
}

#[tokio::test]
async fn a_late_secret_is_removed_from_archives_and_index() {
    let host = TestEnv::sqlite().host().await;
    let value = "plumharbourvelvet19";
    for n in 0..4 {
        host.put(
            "m",
            &format!("Vera opens {value} at gate {n}. The code {value} changes in {n} days."),
        )
        .await;
    }
    host.work(
        "distill",
        "m",
        json!({"tokenBudget": 400, "markdown": true}),
    )
    .await
    .unwrap();
    let done = archives(&host, "m").await.remove(0);
    assert!(
        bytes(&host, "m", &done.sha256).await.contains(value)
            && done.topics.join(" ").contains(value),
        "{:?}",
        done.topics
    );
    host.secret("gate", value).await;
    assert_eq!(
        host.engine
            .get_archive(&host.caller, "m", &done.sha256)
            .await
            .unwrap(),
        ArchiveContent::Erased,
        "not shown"
    );
    assert!(
        !archives(&host, "m").await[0]
            .topics
            .join(" ")
            .contains(value),
        "not even as a topic"
    );
    for path in [INDEX_PATH, MARKDOWN_PATH] {
        assert!(
            !file(&host, path).await.unwrap().1.contains(value),
            "{path}"
        );
    }
    for _ in 0..2 {
        host.run_pass("rescan").await;
        host.env.expire_leases();
    }
    let stored = host.records(&KINDS).await.join("\n");
    assert!(!stored.contains(value), "{stored}");
    assert!(!host.texts("m").await.concat().contains(value));
    host.work("distill", "m", json!({"tokenBudget": 400}))
        .await
        .unwrap();
    assert!(!host.records(&KINDS).await.join("\n").contains(value));
}

fn node(action: &str) -> Value {
    let config = json!({"memoryAction": action, "memoryRef": "m", "into": "gist"});
    json!({"id": format!("w-{action}"), "nodes": [{"id": "d", "typeId": "core.identity", "config": config}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_distils_once_and_its_replay_writes_nothing() {
    let host = TestEnv::sqlite().host().await;
    fill(&host, "m", 10).await;
    let run = host
        .run_workflow(
            node("distill"),
            json!({"distillation": {"tokenBudget": 300}}),
        )
        .await;
    assert_eq!(
        run.state.status,
        RunStatus::Completed,
        "{:?}",
        run.state.error
    );
    let done = archives(&host, "m").await.remove(0);
    assert_eq!(
        (done.budget, &run.state.variables["gist"]["outputId"]),
        (300, &json!(done.entry_id))
    );
    let log = host.log(&run).await;
    let lines: Vec<&String> = log
        .iter()
        .filter(|line| line.starts_with("memory.compacted "))
        .collect();
    assert_eq!(
        (lines.len(), host.payloads("memory.compacted").await.len()),
        (1, 1),
        "{log:?}"
    );
    assert!(
        lines[0].contains("\"tokenBudget\":300") && lines[0].contains("\"indexUpdated\":true"),
        "{lines:?}"
    );
    host.put("m", "Otto rented a crane.").await;
    let before = host.records(&KINDS).await;
    let entries = host.texts("m").await;
    let replay = host.replay(&run).await;
    assert_eq!(
        (host.records(&KINDS).await, host.texts("m").await),
        (before, entries),
        "nothing is written"
    );
    assert_eq!(host.log(&replay).await, log);
    assert_eq!(replay.state.variables, run.state.variables);
    let refused = host
        .run_workflow(node("distill"), json!({"distillation": {"tokenBudget": 3}}))
        .await;
    assert_eq!(
        (
            refused.state.status,
            refused.state.error.unwrap().code.as_str()
        ),
        (RunStatus::Failed, "token_budget_exceeded")
    );
    for action in ["consolidate", "compact"] {
        let refused = host.run_workflow(node(action), json!({})).await;
        assert_eq!(
            (
                refused.state.status,
                refused.state.error.unwrap().code.as_str()
            ),
            (RunStatus::Failed, "pass_inside_run")
        );
    }
}

/// A run still reads what was deleted since it began; its digest, which is permanent, leaves it
/// out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_digest_omits_entries_deleted_since_it_began() {
    let host = TestEnv::sqlite().host().await;
    fill(&host, "m", 4).await;
    let gone = host
        .put("m", "Ulrike Canary lives at the northern quay.")
        .await;
    let run = host.start_run(node("distill"), json!({})).await;
    host.engine
        .delete(&host.caller, "m", &gone, None)
        .await
        .unwrap();
    host.put("m", "Written after the run began.").await;
    let run = host.run_to_end(&run).await;
    assert_eq!(
        run.state.variables["gist"]["sourceCount"],
        json!(4),
        "{:?}",
        run.state.error
    );
    let all = host.records(&KINDS).await.join("\n") + &host.texts("m").await.concat();
    assert!(!all.contains("Canary"), "{all}");
}
