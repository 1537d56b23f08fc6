//! Compaction of a memory: which entry is made, which event is emitted, which entries end, what is
//! redacted, and that nothing is lost in between.

use remem_core::{Change, Draft, EntryId, RetireReason, Tier, Timestamp, Trust};
use remem_engine::EngineError;
use remem_engine::jobs::WorkError;
use remem_engine::search::SearchRequest;
use remem_store::{EntryState, ReadAt, StoreError};
use remem_testkit::{NOON, TestEnv, TestHost, cases};
use serde_json::{Value, json};
use std::sync::Arc;

fn all() -> Value {
    json!({"include": "all"})
}

async fn fill(host: &TestHost, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(
            host.put(
                "m",
                &format!(
                    "Letter number {n} went to the harbour office in town {}.",
                    n * 31
                ),
            )
            .await,
        );
    }
    ids
}

#[tokio::test]
async fn compaction_replaces_many_entries_with_one_output() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let ids = fill(&host, 40).await;
    let report = host.work("compact", "m", all()).await.unwrap();
    assert_eq!((report.examined, report.changed), (40, 40));
    let live = host.live("m").await;
    assert_eq!(live.len(), 1);
    let output = &live[0];
    let payloads = host.payloads("memory.compacted").await;
    let expected = json!({
        "memoryRef": "m", "outputId": output.id.as_str(), "sourceIds": ids, "sourceCount": 40, "trigger": "host-managed",
        "byteSize": output.content.len(),
    });
    assert_eq!(json!(payloads), json!([expected]));
    assert_eq!(report.detail["outputs"], json!([expected]));
    let job = &host.events("pass.started").await[0].body.payload()["jobId"];
    assert_eq!(
        output.tags,
        [
            format!("compacted-from:{}", job.as_str().unwrap()),
            "source:compaction".to_owned()
        ]
    );
    assert!(
        host.engine
            .get(&host.caller, "m", output.id.as_str(), None)
            .await
            .unwrap()
            .is_some()
    );
    let lines: Vec<&str> = output.content.lines().collect();
    assert!(
        !lines.is_empty()
            && lines.len() < 40
            && lines.iter().all(|line| line.starts_with("Letter number ")),
        "verbatim parts: {}",
        output.content
    );
    let lineage = host.lineage("m", output.id.as_str()).await;
    assert_eq!(
        lineage
            .sources
            .iter()
            .map(|one| one.id.as_str())
            .collect::<Vec<_>>(),
        ids
    );
    assert!(
        lineage
            .sources
            .iter()
            .all(|one| one.state == EntryState::Retired(RetireReason::Compacted))
    );
    for id in &ids {
        assert!(
            host.engine
                .get(&host.caller, "m", id, None)
                .await
                .unwrap()
                .is_none()
        );
        assert_eq!(
            host.lineage("m", id).await.replaced_by.unwrap().as_str(),
            output.id.as_str()
        );
        // Not even an earlier snapshot contains a text: no run was holding it.
        let at = ReadAt::Snapshot {
            revision: remem_core::Revision(41),
            at: host.engine.now(),
            since: host.engine.now(),
            own_runs: vec![],
        };
        let id = EntryId::parse(id).unwrap();
        assert!(
            env.faults
                .inner()
                .get(&host.scope("m"), &id, &at)
                .await
                .unwrap()
                .is_none()
        );
    }
    let search = SearchRequest {
        query: "letter harbour".to_owned(),
        ..SearchRequest::default()
    };
    let hits = host
        .engine
        .search(&host.caller, "m", search)
        .await
        .unwrap()
        .hits;
    assert!(hits.iter().all(|hit| hit.entry.id == output.id) && hits.len() == 1);
    assert_eq!(
        host.work("compact", "m", all()).await.unwrap().changed,
        0,
        "and again is nothing"
    );
}

#[tokio::test]
async fn compaction_events_list_up_to_100_source_ids() {
    for (count, named) in [(100, true), (101, false)] {
        let host = TestEnv::sqlite().host().await;
        fill(&host, count).await;
        host.work("compact", "m", all()).await.unwrap();
        let payloads = host.payloads("memory.compacted").await;
        assert_eq!(
            (
                payloads.len(),
                payloads[0]["sourceIds"].is_array(),
                &payloads[0]["sourceCount"]
            ),
            (1, named, &json!(count))
        );
        assert_eq!(
            payloads[0].as_object().unwrap().contains_key("sourceIds"),
            named
        );
    }
}

#[tokio::test]
async fn compaction_leaves_long_term_and_expiring_entries_by_default() {
    let host = TestEnv::sqlite().host().await;
    host.put("m", "Vera keeps the spare key.").await;
    for n in 0..3 {
        host.put_draft(
            "m",
            Draft {
                content: format!("Session note {n}."),
                tier: Tier::Session,
                facets: in_session(),
                ..Draft::default()
            },
        )
        .await;
    }
    let ends = Some(Timestamp(NOON.0 + 100_000_000));
    host.put_draft(
        "m",
        Draft {
            content: "Gone tomorrow.".into(),
            tier: Tier::Session,
            facets: in_session(),
            expires_at: ends,
            ..Draft::default()
        },
    )
    .await;
    let report = host.work("compact", "m", json!({})).await.unwrap();
    assert_eq!((report.changed, &report.detail["leftOut"]), (3, &json!(2)));
    let texts = host.texts("m").await;
    assert!(
        texts.contains(&"Vera keeps the spare key.".to_owned())
            && texts.contains(&"Gone tomorrow.".to_owned())
    );
    // The next compaction does not compact its own output.
    assert_eq!(host.work("compact", "m", all()).await.unwrap().changed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_began_before_a_compaction_still_reads_the_sources() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let ids = fill(&host, 3).await;
    let read = json!({"id": "r", "typeId": "core.identity", "config": {"memoryAction": "read", "memoryRef": "m", "into": "all"}});
    let run = host
        .start_run(json!({"id": "reader", "nodes": [read]}), json!({}))
        .await;
    host.work("compact", "m", all()).await.unwrap();
    assert_eq!(host.live("m").await.len(), 1);
    assert!(
        env.faults
            .inner()
            .erasable_entries(host.tenant(), 9)
            .await
            .unwrap()
            .is_empty(),
        "somebody may still read them"
    );
    let ended = host.run_to_end(&run).await;
    assert_eq!(ended.state.variables["all"].as_array().unwrap().len(), 3);
    assert_eq!(
        env.faults
            .inner()
            .erasable_entries(host.tenant(), 9)
            .await
            .unwrap()
            .len(),
        3
    );
    assert!(host.run_pass("purge").await.changed >= 3);
    assert!(
        env.faults
            .inner()
            .erasable_entries(host.tenant(), 9)
            .await
            .unwrap()
            .is_empty()
    );
    let snapshot = ReadAt::Snapshot {
        revision: remem_core::Revision(4),
        at: host.engine.now(),
        since: host.engine.now(),
        own_runs: vec![],
    };
    let id = EntryId::parse(&ids[0]).unwrap();
    assert!(
        env.faults
            .inner()
            .get(&host.scope("m"), &id, &snapshot)
            .await
            .unwrap()
            .is_none(),
        "erased with the last reader"
    );
    let replay = host.replay(&ended).await;
    assert_eq!(replay.state.variables["all"], ended.state.variables["all"]);
}

#[tokio::test]
async fn compaction_normalizes_markers_and_redacts_late_secrets() {
    let host = TestEnv::sqlite().host().await;
    let value = "plum-harbour-Velvet-19";
    host.put("m", "The deployment uses [BYOK:openai-key] for the model.")
        .await;
    host.put(
        "m",
        "The mailer uses <REDACTED:smtp-password> for the relay.",
    )
    .await;
    host.put(
        "m",
        &format!("The printer opens with {value} every morning."),
    )
    .await;
    host.put("m", "The parser runs in the basement.").await;
    assert!(
        host.texts("m").await.concat().contains(value),
        "nobody knew yet"
    );
    host.secret("printer", value).await;
    host.work("compact", "m", all()).await.unwrap();
    let texts = host.texts("m").await;
    assert_eq!(texts.len(), 1);
    assert!(
        !texts[0].contains(value) && texts[0].contains("[REDACTED:printer]"),
        "{}",
        texts[0]
    );
    for (marker, mine) in [
        ("[BYOK:openai-key]", "[REDACTED:openai-key]"),
        ("<REDACTED:smtp-password>", "[REDACTED:smtp-password]"),
    ] {
        assert!(
            !texts[0].contains(marker) && texts[0].contains(mine),
            "{marker}: {}",
            texts[0]
        );
    }
}

#[tokio::test]
async fn deleting_a_source_during_compaction_aborts_the_compaction() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let ids = fill(&host, 5).await;
    let other = Arc::new(env.without_faults().host().await);
    let gone = ids[2].clone();
    env.faults.before_each_commit(move |batch| {
        let other = other.clone();
        let gone = gone.clone();
        Box::pin(async move {
            if batch
                .changes()
                .iter()
                .any(|change| matches!(change, Change::Put { .. }))
            {
                other
                    .engine
                    .delete(&other.caller, "m", &gone, None)
                    .await
                    .unwrap();
            }
        })
    });
    let failed = host.work("compact", "m", all()).await.unwrap_err();
    assert!(
        matches!(
            failed,
            WorkError::Failed(EngineError::Store(StoreError::Conflict))
        ),
        "{failed:?}"
    );
    env.faults.clear_hook();
    assert_eq!(
        host.live("m")
            .await
            .iter()
            .map(|entry| entry.id.as_str())
            .rev()
            .collect::<Vec<_>>(),
        [0, 1, 3, 4].map(|n| ids[n].as_str())
    );
    assert!(host.payloads("memory.compacted").await.is_empty());
    assert_eq!(
        host.work("compact", "m", all()).await.unwrap().changed,
        4,
        "the next one takes what is left"
    );
}

/// Checks that for every source either it is there or an output that names it, never both and never
/// neither.
async fn nothing_is_lost(host: &TestHost, ids: &[String], story: &str) {
    let live: Vec<String> = host
        .live("m")
        .await
        .iter()
        .map(|entry| entry.id.as_str().to_owned())
        .collect();
    let mut outputs = std::collections::BTreeSet::new();
    for id in ids {
        let lineage = host.lineage("m", id).await;
        match lineage.replaced_by {
            Some(by) => {
                assert!(
                    !live.contains(id) && live.contains(&by.as_str().to_owned()),
                    "{story}: {id}"
                );
                outputs.insert(by.as_str().to_owned());
            }
            None => assert!(live.contains(id), "{story}: {id}"),
        }
    }
    let sources = live.iter().filter(|id| ids.contains(id)).count();
    assert_eq!(
        sources + outputs.len(),
        live.len(),
        "{story}: nothing else is there"
    );
    assert_eq!(
        host.payloads("memory.compacted").await.len(),
        outputs.len(),
        "{story}"
    );
}

/// Enough entries for two groups: more bytes than one may have.
async fn fill_two(host: &TestHost) -> Vec<String> {
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(
            host.put(
                "m",
                &format!(
                    "Letter {n}. {}",
                    format!("Box {n} holds part {n} of the long list. ").repeat(1_200)
                ),
            )
            .await,
        );
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_loses_no_source_without_an_output() {
    let mut deaths = 0;
    let mut halves = 0;
    for call in 0.. {
        let mut reached = false;
        for late in [false, true] {
            let env = TestEnv::sqlite();
            let host = env.host().await;
            let ids = fill_two(&host).await;
            env.faults.crash_at(call, late);
            deaths += u32::from(host.work("compact", "m", all()).await.is_err());
            reached |= env.faults.has_crashed();
            env.faults.restart();
            let story = format!("call {call}, late {late}");
            nothing_is_lost(&host, &ids, &story).await;
            halves += u32::from(host.payloads("memory.compacted").await.len() == 1);
            env.expire_leases();
            let next = env.host().await;
            next.work("compact", "m", all()).await.unwrap();
            nothing_is_lost(&next, &ids, &story).await;
            assert_eq!(
                next.work("compact", "m", all()).await.unwrap().changed,
                0,
                "{story}"
            );
        }
        if !reached {
            break;
        }
    }
    assert!(
        deaths > 20 && halves > 0,
        "it did die, also between the groups: {deaths}, {halves}"
    );
}

#[tokio::test(start_paused = true)]
async fn intermittent_store_failures_lose_no_source() {
    let seeds = u64::from(cases(10, 40));
    let mut injected = 0;
    for seed in 0..seeds {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        let ids = fill(&host, 30).await;
        let failing = env.failing(seed, 30);
        failing
            .host()
            .await
            .work_with_retries("compact", "m", all())
            .await;
        nothing_is_lost(&host, &ids, &format!("seed {seed}")).await;
        assert_eq!(host.live("m").await.len(), 1, "seed {seed}");
        injected += failing.faults.injected();
    }
    assert!(injected > seeds, "the store did fail: {injected}");
}

fn in_session() -> remem_core::Facets {
    remem_core::Facets {
        session: remem_core::SessionId::parse("s1"),
        ..remem_core::Facets::default()
    }
}

#[tokio::test]
async fn a_digest_of_untrusted_texts_is_untrusted() {
    for (trust, expected) in [(Trust::Untrusted, true), (Trust::Tool, false)] {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        fill(&host, 20).await;
        let facets = remem_core::Facets {
            trust,
            ..remem_core::Facets::default()
        };
        host.put_draft(
            "m",
            Draft {
                content: "A page said so.".into(),
                facets,
                ..Draft::default()
            },
        )
        .await;
        host.work("compact", "m", all()).await.unwrap();
        let live = host.live("m").await;
        assert_eq!(live.len(), 1);
        assert_eq!(
            live[0].tags.iter().any(|tag| tag == "source:untrusted"),
            expected,
            "trust never rises"
        );
        assert_eq!(live[0].facets.trust == Trust::Untrusted, expected);
    }
}
