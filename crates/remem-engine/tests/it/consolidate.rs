//! Consolidation of a memory: what it merges, supersedes and leaves unchanged, which events it
//! emits, and that neither a crash nor a concurrent node changes the result.

use crate::common::ENDING;
use remem_core::{Draft, RetireReason, Tier};
use remem_engine::ports::Clock;
use remem_store::EntryState;
use remem_testkit::host::object;
use remem_testkit::{NOON, SeededRandom, TestEnv, TestHost, cases};
use serde_json::json;
use std::sync::Arc;

fn long(text: &str) -> String {
    format!("{text}{ENDING}")
}

/// The state of each of these entries.
async fn fates(host: &TestHost, ids: &[String]) -> Vec<String> {
    let mut fates = Vec::new();
    for id in ids {
        let lineage = host.lineage("m", id).await;
        let sources: Vec<&str> = lineage.sources.iter().map(|one| one.id.as_str()).collect();
        fates.push(format!(
            "{id} {:?} {:?} {} {sources:?}",
            lineage.state, lineage.replaced_by, lineage.support
        ));
    }
    fates
}

#[tokio::test]
async fn equivalent_entries_are_merged_and_support_is_added() {
    let host = TestEnv::sqlite().host().await;
    let mut ids = Vec::new();
    for text in [
        "Vera keeps the spare key",
        "vera keeps the spare key.",
        "Note: Vera actually keeps the spare key!",
    ] {
        ids.push(host.put("m", &long(text)).await);
    }
    let report = host.work("consolidate", "m", json!({})).await.unwrap();
    assert_eq!((report.examined, report.changed), (3, 2));
    assert_eq!(
        report.detail,
        object(&json!({"inputCount": 3, "outputCount": 1, "merged": 2, "superseded": 0}))
    );
    let live = host.live("m").await;
    assert_eq!(
        (live.len(), live[0].id.as_str(), live[0].content.as_str()),
        (
            1,
            ids[2].as_str(),
            long("Note: Vera actually keeps the spare key!").as_str()
        )
    );
    let lineage = host.lineage("m", &ids[2]).await;
    let sources: Vec<&str> = lineage.sources.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(
        (lineage.support, sources),
        (3, vec![ids[0].as_str(), ids[1].as_str()])
    );
    for id in &ids[..2] {
        let lineage = host.lineage("m", id).await;
        assert_eq!(
            (lineage.state, lineage.replaced_by.unwrap().as_str()),
            (EntryState::Retired(RetireReason::Merged), ids[2].as_str())
        );
        assert!(
            host.engine
                .get(&host.caller, "m", id, None)
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test]
async fn a_newer_answer_supersedes_the_older_one() {
    let host = TestEnv::sqlite().host().await;
    let old = host.put("m", "Nadia's role is auditor").await;
    host.work("consolidate", "m", json!({})).await.unwrap();
    let new = host.put("m", "Nadia's role is director").await;
    let other = host.put("m", "Otto's role is auditor").await;
    let report = host.work("consolidate", "m", json!({})).await.unwrap();
    assert_eq!(
        report.detail,
        object(&json!({"inputCount": 3, "outputCount": 2, "merged": 0, "superseded": 1}))
    );
    assert_eq!(
        host.texts("m").await,
        ["Nadia's role is director", "Otto's role is auditor"]
    );
    let lineage = host.lineage("m", &old).await;
    assert_eq!(
        (lineage.state, lineage.replaced_by.unwrap().as_str()),
        (EntryState::Retired(RetireReason::Superseded), new.as_str())
    );
    assert_eq!(
        (
            host.lineage("m", &new).await.support,
            host.lineage("m", &other).await.support
        ),
        (1, 1),
        "nobody confirms what is denied"
    );
}

#[tokio::test]
async fn entries_with_significant_differences_are_not_merged() {
    let pairs = [
        ("Vera keeps 3 keys", "Vera keeps 4 keys"),
        (
            "the report is due on 2026-03-01",
            "the report is due on 2026-03-10",
        ),
        (
            "Vera keeps the spare key",
            "Vera does not keep the spare key",
        ),
        ("the fault is in unit_14", "the fault is in unit_15"),
        ("Vera told Otto about it", "Otto told Vera about it"),
        ("the valve was open", "the valve was closed"),
    ];
    let host = TestEnv::sqlite().host().await;
    for (one, other) in pairs {
        host.put("m", &long(one)).await;
        host.put("m", &long(other)).await;
    }
    let report = host.work("consolidate", "m", json!({})).await.unwrap();
    assert_eq!(
        (report.examined, report.changed, host.live("m").await.len()),
        (12, 0, 12)
    );
}

#[tokio::test]
async fn consolidation_ignores_expiring_entries_other_memories_and_tenants() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let other = env.host_of("u").await;
    let text = long("Vera keeps the spare key");
    for _ in 0..2 {
        let ends = Some(NOON.plus_ms(1_000_000_000));
        host.put_draft(
            "m",
            Draft {
                content: text.clone(),
                expires_at: ends,
                ..Draft::default()
            },
        )
        .await;
        host.put_draft(
            "m",
            Draft {
                content: text.clone(),
                tier: Tier::Session,
                facets: in_session(),
                ..Draft::default()
            },
        )
        .await;
        host.put("n", &text).await;
        other.put("m", &text).await;
    }
    host.put("m", &text).await;
    let report = host.work("consolidate", "m", json!({})).await.unwrap();
    assert_eq!((report.examined, report.changed), (5, 0));
    assert_eq!(
        (
            host.live("m").await.len(),
            host.live("n").await.len(),
            other.live("m").await.len()
        ),
        (5, 2, 2)
    );
    assert!(other.events("agent.memory.consolidated").await.is_empty());
    assert_eq!(
        host.work("consolidate", "n", json!({}))
            .await
            .unwrap()
            .changed,
        1,
        "each where it is wanted"
    );
}

#[tokio::test]
async fn every_consolidation_emits_an_event_even_if_nothing_changed() {
    let host = TestEnv::sqlite().host().await;
    let first = host.put("m", &long("Vera keeps the spare key")).await;
    host.put("m", &long("Vera keeps the spare key.")).await;
    for _ in 0..2 {
        host.work("consolidate", "m", json!({})).await.unwrap();
    }
    host.work("consolidate", "empty", json!({})).await.unwrap();
    let expected = [
        json!({"memoryRef": "m", "inputCount": 2, "outputCount": 1, "mergedIds": [first], "trigger": "on-demand"}),
        json!({"memoryRef": "m", "inputCount": 1, "outputCount": 1, "mergedIds": [], "trigger": "on-demand"}),
        json!({"memoryRef": "empty", "inputCount": 0, "outputCount": 0, "mergedIds": [], "trigger": "on-demand"}),
    ];
    assert_eq!(host.payloads("agent.memory.consolidated").await, expected);
    // More than a hundred entries are counted, but their ids are not listed.
    for n in 0..102 {
        host.put(
            "m",
            &long(&format!("Vera keeps the spare key{}", ".".repeat(n % 3))),
        )
        .await;
    }
    host.work("consolidate", "m", json!({})).await.unwrap();
    let payloads = host.payloads("agent.memory.consolidated").await;
    assert_eq!(
        payloads[3],
        json!({"memoryRef": "m", "inputCount": 103, "outputCount": 1, "trigger": "on-demand"})
    );
    let newest = host.live("m").await;
    assert_eq!(
        host.lineage("m", newest[0].id.as_str()).await.support,
        104,
        "the support of what was merged before counts"
    );
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let host = TestEnv::sqlite().host().await;
    host.put("m", &long("Vera keeps the spare key")).await;
    host.put("m", &long("Vera keeps the spare key.")).await;
    let before = host.dump(&["m"]).await;
    let report = host
        .engine
        .dry_run(
            &host.caller,
            "consolidate",
            Some("m"),
            serde_json::Map::new(),
        )
        .await
        .unwrap();
    assert_eq!((report.examined, report.changed), (2, 1));
    assert_eq!(host.dump(&["m"]).await, before);
    assert_eq!(
        host.work("consolidate", "m", json!({}))
            .await
            .unwrap()
            .changed,
        1,
        "and leaves nothing undone"
    );
}

/// A sequence of facts, near-duplicates, traps and answers.
fn text(random: &mut SeededRandom) -> String {
    let who = ["Vera", "Otto", "Nadia"][random.below(3) as usize];
    if random.below(4) == 0 {
        return format!(
            "{who}'s role is {}",
            ["cook", "pilot", "teacher"][random.below(3) as usize]
        );
    }
    let not = ["keeps", "keeps", "does not keep"][random.below(3) as usize];
    let opener = ["", "", "Note: "][random.below(3) as usize];
    let closer = ["", ".", "!"][random.below(3) as usize];
    let keys = 3 + random.below(2);
    let unit = 14 + random.below(2);
    format!("{opener}{who} {not} {keys} keys of unit_{unit}{ENDING}{closer}")
}

#[tokio::test]
async fn incremental_consolidation_reaches_a_fixed_point() {
    for seed in 0..u64::from(cases(5, 15)) {
        let host = TestEnv::sqlite().host().await;
        let mut random = SeededRandom::new(seed);
        let mut put = 0;
        for _ in 0..4 {
            for _ in 0..=random.below(25) {
                host.put("m", &text(&mut random)).await;
                put += 1;
            }
            host.work("consolidate", "m", json!({})).await.unwrap();
        }
        let before = host.live("m").await.len() as u64;
        let texts = host.texts("m").await;
        let again = host.work("consolidate", "m", json!({})).await.unwrap();
        assert_eq!(
            (
                again.changed,
                &again.detail["inputCount"],
                &again.detail["outputCount"]
            ),
            (0, &json!(before), &json!(before)),
            "seed {seed}"
        );
        assert_eq!(host.texts("m").await, texts);
        // No evidence is lost: a merged entry counts for the one it was merged into, a superseded
        // one for itself.
        let mut support = 0;
        for entry in host.live("m").await {
            support += host.lineage("m", entry.id.as_str()).await.support;
        }
        assert!(support <= put && support >= before, "seed {seed}");
        let roles = texts.iter().filter(|text| text.contains("role")).count();
        assert!(roles <= 3, "seed {seed}: one answer a person, not {roles}");
    }
}

#[tokio::test]
async fn consolidation_reads_only_new_texts() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    for n in 0..300 {
        host.put(
            "m",
            &format!(
                "Letter {n} went to the town of {n}{n}{n} with {n} stamps, says clerk number {}",
                n * 7
            ),
        )
        .await;
    }
    host.work("consolidate", "m", json!({})).await.unwrap();
    assert!(env.faults.take_texts_read() >= 300);
    host.work("consolidate", "m", json!({})).await.unwrap();
    assert_eq!(env.faults.take_texts_read(), 0, "nothing is new");
    host.put("m", "The harbour office opens at eight").await;
    host.work("consolidate", "m", json!({})).await.unwrap();
    let read = env.faults.take_texts_read();
    assert!((1..=2).contains(&read), "the new one alone, not {read}");
}

/// Texts that give a pass much to do: merges, chains of answers, traps.
async fn fill(host: &TestHost) -> Vec<String> {
    let mut random = SeededRandom::new(7);
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(host.put("m", &text(&mut random)).await);
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_leads_to_the_same_final_state() {
    let clean = TestEnv::sqlite().host().await;
    let ids = fill(&clean).await;
    clean.work("consolidate", "m", json!({})).await.unwrap();
    let expected = fates(&clean, &ids).await;
    assert!(
        expected.iter().any(|fate| fate.contains("Merged"))
            && expected.iter().any(|fate| fate.contains("Superseded"))
    );
    let mut deaths = 0;
    for call in 0.. {
        let mut reached = false;
        for late in [false, true] {
            let env = TestEnv::sqlite();
            let host = env.host().await;
            assert_eq!(fill(&host).await, ids);
            env.faults.crash_at(call, late);
            let died = host.work("consolidate", "m", json!({})).await.is_err();
            reached |= env.faults.has_crashed();
            deaths += u32::from(died);
            env.faults.restart();
            env.expire_leases();
            let next = env.host().await;
            next.work("consolidate", "m", json!({})).await.unwrap();
            assert_eq!(
                fates(&next, &ids).await,
                expected,
                "call {call}, late {late}"
            );
            assert_eq!(
                next.work("consolidate", "m", json!({}))
                    .await
                    .unwrap()
                    .changed,
                0,
                "call {call}, late {late}"
            );
        }
        if !reached {
            break;
        }
    }
    assert!(deaths > 20, "it did die: {deaths}");
}

#[tokio::test(start_paused = true)]
async fn intermittent_store_failures_do_not_change_the_outcome() {
    let clean = TestEnv::sqlite().host().await;
    let ids = fill(&clean).await;
    clean.work("consolidate", "m", json!({})).await.unwrap();
    let expected = fates(&clean, &ids).await;
    let seeds = u64::from(cases(10, 40));
    let mut injected = 0;
    for seed in 0..seeds {
        let env = TestEnv::sqlite();
        let host = env.host().await;
        fill(&host).await;
        let failing = env.failing(seed, 30);
        failing
            .host()
            .await
            .work_with_retries("consolidate", "m", json!({}))
            .await;
        assert_eq!(fates(&host, &ids).await, expected, "seed {seed}");
        assert_eq!(
            host.work("consolidate", "m", json!({}))
                .await
                .unwrap()
                .changed,
            0,
            "seed {seed}"
        );
        injected += failing.faults.injected();
    }
    assert!(injected > seeds, "the store did fail: {injected}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_consolidations_reach_the_same_outcome() {
    let clean = TestEnv::sqlite().host().await;
    let ids = fill(&clean).await;
    clean.work("consolidate", "m", json!({})).await.unwrap();
    let expected = fates(&clean, &ids).await;
    for round in 0..cases(4, 10) {
        let env = TestEnv::sqlite();
        let one = env.host().await;
        let other = env.host().await;
        let ids: Vec<String> = fill(&one).await;
        let (first, second) = tokio::join!(
            one.work("consolidate", "m", json!({})),
            other.work("consolidate", "m", json!({}))
        );
        first.unwrap();
        second.unwrap();
        let names = |fates: Vec<String>, ids: &[String]| -> Vec<String> {
            let number = |text: String| {
                ids.iter().enumerate().fold(text, |text, (n, id)| {
                    text.replace(id.as_str(), &format!("#{n}"))
                })
            };
            fates.into_iter().map(number).collect()
        };
        assert_eq!(
            names(fates(&one, &ids).await, &ids),
            names(expected.clone(), &ids_of(&expected)),
            "round {round}"
        );
    }
}

fn ids_of(fates: &[String]) -> Vec<String> {
    fates
        .iter()
        .map(|fate| fate.split(' ').next().unwrap().to_owned())
        .collect()
}

/// A node that was paused for longer than its lease commits a prepared batch: it is refused, though
/// its decisions are still valid.
#[tokio::test]
async fn a_worker_whose_lease_expired_cannot_commit() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let ids = fill(&host).await;
    let before = host.dump(&["m"]).await;
    let awake = env.clone();
    let tenant = host.tenant().clone();
    env.faults.before_each_commit(move |batch| {
        let awake = awake.clone();
        let tenant = tenant.clone();
        Box::pin(async move {
            if batch
                .changes()
                .iter()
                .any(|change| matches!(change, remem_core::Change::Retire { .. }))
            {
                awake.expire_leases();
                let taken = awake
                    .faults
                    .inner()
                    .acquire_lease(
                        &tenant,
                        "consolidate",
                        "another node",
                        awake.clock.now(),
                        30_000,
                    )
                    .await;
                assert!(taken.unwrap().is_some());
            }
        })
    });
    assert!(host.work("consolidate", "m", json!({})).await.is_err());
    assert_eq!(
        host.dump(&["m"]).await,
        before,
        "not a change, not an event"
    );
    env.faults.clear_hook();
    env.expire_leases();
    assert!(
        env.host()
            .await
            .work("consolidate", "m", json!({}))
            .await
            .unwrap()
            .changed
            > 0
    );
    assert!(
        fates(&host, &ids)
            .await
            .iter()
            .any(|fate| fate.contains("Merged"))
    );
}

/// The surviving entry is deleted right before the merge: then nothing is merged, and nothing is
/// lost.
#[tokio::test]
async fn no_entry_is_merged_into_one_just_deleted() {
    let env = TestEnv::sqlite();
    let host = env.host().await;
    let old = host.put("m", &long("Vera keeps the spare key")).await;
    let new = host.put("m", &long("Vera keeps the spare key.")).await;
    let other = Arc::new(env.without_faults().host().await);
    let id = new.clone();
    env.faults.before_each_commit(move |batch| {
        let other = other.clone();
        let id = id.clone();
        Box::pin(async move {
            if batch
                .changes()
                .iter()
                .any(|change| matches!(change, remem_core::Change::Retire { .. }))
            {
                other
                    .engine
                    .delete(&other.caller, "m", &id, None)
                    .await
                    .unwrap();
            }
        })
    });
    let report = host.work("consolidate", "m", json!({})).await.unwrap();
    assert_eq!(report.changed, 0);
    let live = host.live("m").await;
    assert_eq!((live.len(), live[0].id.as_str()), (1, old.as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_and_its_replay_read_the_snapshot_from_before_consolidation() {
    let host = TestEnv::sqlite().host().await;
    let old = host.put("m", &long("Vera keeps the spare key")).await;
    let node = |id: &str, config: serde_json::Value| json!({"id": id, "typeId": "core.identity", "config": config});
    let nodes = [
        node(
            "all",
            json!({"memoryAction": "read", "memoryRef": "m", "into": "all"}),
        ),
        node(
            "one",
            json!({"memoryAction": "get", "memoryRef": "m", "id": old, "into": "one"}),
        ),
    ];
    let run = host
        .start_run(json!({"id": "reader", "nodes": nodes}), json!({}))
        .await;
    host.put("m", &long("Vera keeps the spare key.")).await;
    assert_eq!(
        host.work("consolidate", "m", json!({}))
            .await
            .unwrap()
            .changed,
        1
    );
    assert!(
        host.engine
            .get(&host.caller, "m", &old, None)
            .await
            .unwrap()
            .is_none()
    );
    let ended = host.run_to_end(&run).await;
    let read = serde_json::to_string(&ended.state.variables).unwrap();
    assert!(
        ended.state.variables["one"]["content"] == json!(long("Vera keeps the spare key")),
        "{read}"
    );
    assert_eq!(ended.state.variables["all"].as_array().unwrap().len(), 1);
    host.work("consolidate", "m", json!({})).await.unwrap();
    let replay = host.replay(&ended).await;
    assert_eq!(
        serde_json::to_string(&replay.state.variables).unwrap(),
        read
    );
    assert_eq!(host.log(&replay).await, host.log(&ended).await);
}

fn in_session() -> remem_core::Facets {
    remem_core::Facets {
        session: remem_core::SessionId::parse("s1"),
        ..remem_core::Facets::default()
    }
}
