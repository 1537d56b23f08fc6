//! Sources and derivatives of entries, and the entries that carry a subject.

use super::memory::{MemoryFixture, subject};
use super::snapshots::{close_snapshot, open_snapshot};
use super::{NOON, admit, draft, id, scope};
use remem_core::{Batch, Draft, RetireReason, Scope, Subject, TenantId};
use remem_store::{ChangeOutcome, EntryState, Store, SubjectTrace};

pub(super) async fn exercise(store: &dyn Store) {
    lineage_lists_direct_sources_and_results(store).await;
    a_trace_follows_lineage_to_its_end(store).await;
    a_trace_stops_at_a_cycle(store).await;
    entries_to_revive_are_listed_exactly(store).await;
    subjects_stay_in_their_tenant(store).await;
}

async fn put_in(
    store: &dyn Store,
    s: &Scope,
    name: &str,
    subjects: &[Subject],
    sources: &[(&Scope, &str)],
) {
    let draft = Draft {
        subjects: subjects.to_vec(),
        ..draft(&format!("word {name}"))
    };
    let sources = sources
        .iter()
        .map(|(scope, name)| (scope.memory_ref.clone(), id(name)))
        .collect();
    let batch =
        Batch::new(s.tenant.clone(), NOON).put_derived(id(name), admit(s, draft, NOON), sources);
    assert!(matches!(
        store.commit(batch).await.expect("written").outcomes[..],
        [ChangeOutcome::Stored { .. }]
    ));
}

async fn trace(store: &dyn Store, tenant: &TenantId, number: u8) -> SubjectTrace {
    store
        .trace_subject(tenant, &subject(number))
        .await
        .expect("read")
}

/// Formats a trace as `memory/name`, with `!` where the text is erased.
fn format_trace(trace: &SubjectTrace) -> Vec<String> {
    trace
        .entries
        .iter()
        .map(|e| {
            format!(
                "{}/{}{}",
                e.memory_ref,
                e.id,
                if e.erased { "!" } else { "" }
            )
        })
        .collect()
}

async fn lineage_lists_direct_sources_and_results(store: &dyn Store) {
    let one = scope("lineage-step", "one");
    let two = scope("lineage-step", "two");
    put_in(store, &one, "a", &[], &[]).await;
    put_in(store, &two, "a", &[], &[]).await;
    put_in(store, &one, "b", &[], &[]).await;
    // A source given twice, one of another memory, one that does not exist, and the entry itself.
    let sources = [
        (&one, "a"),
        (&two, "a"),
        (&one, "a"),
        (&one, "never"),
        (&scope("lineage-step", "nowhere"), "a"),
        (&one, "d"),
    ];
    put_in(store, &one, "d", &[], &sources).await;
    put_in(store, &two, "e", &[], &[(&one, "d")]).await;
    let related = async |s: &Scope, name: &str| {
        let found = store
            .lineage(s, &id(name))
            .await
            .expect("read")
            .expect("there");
        let states = |relatives: &[remem_store::RelatedEntry]| {
            relatives
                .iter()
                .map(|r| format!("{}/{} {}", r.memory_ref, r.id, r.state.as_str()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        (states(&found.sources), states(&found.derivatives))
    };
    assert_eq!(
        related(&one, "d").await,
        ("one/a live, two/a live".to_owned(), "two/e live".to_owned())
    );
    assert_eq!(
        related(&one, "a").await,
        (String::new(), "one/d live".to_owned()),
        "one step, not two"
    );
    assert_eq!(related(&one, "b").await, (String::new(), String::new()));
    assert_eq!(
        store.lineage(&two, &id("d")).await.expect("read"),
        None,
        "another memory's"
    );
    assert_eq!(
        store
            .lineage(&scope("lineage-step-other", "one"), &id("d"))
            .await
            .expect("read"),
        None,
        "another tenant's"
    );
    let batch = Batch::new(one.tenant.clone(), NOON)
        .delete(one.memory_ref.clone(), id("a"))
        .forget(two.memory_ref.clone(), id("a"));
    let batch = batch.retire(
        one.memory_ref.clone(),
        id("d"),
        RetireReason::Compacted,
        id("b"),
    );
    store.commit(batch).await.expect("applied");
    assert_eq!(
        related(&one, "d").await.0,
        "one/a deleted, two/a forgotten",
        "skeletons have their places"
    );
    assert_eq!(related(&two, "e").await.0, "one/d compacted");
    assert_eq!(related(&one, "a").await.1, "one/d compacted");
    store.verify(&one.tenant).await.expect("sound");
}

async fn a_trace_follows_lineage_to_its_end(store: &dyn Store) {
    let one = scope("lineage-trace", "one");
    let two = scope("lineage-trace", "two");
    put_in(store, &one, "a", &[subject(1), subject(2)], &[]).await;
    put_in(store, &one, "other", &[subject(2)], &[]).await;
    put_in(store, &one, "b", &[], &[(&one, "a")]).await;
    put_in(store, &two, "c", &[], &[(&one, "b"), (&one, "other")]).await;
    put_in(store, &one, "d", &[subject(1)], &[(&two, "c")]).await;
    put_in(store, &two, "unrelated", &[subject(3)], &[]).await;
    assert_eq!(
        format_trace(&trace(store, &one.tenant, 1).await),
        ["one/a", "one/b", "one/d", "two/c"]
    );
    assert_eq!(
        format_trace(&trace(store, &one.tenant, 2).await),
        ["one/a", "one/other", "one/b", "one/d", "two/c"]
    );
    assert_eq!(
        format_trace(&trace(store, &one.tenant, 3).await),
        ["two/unrelated"]
    );
    assert_eq!(trace(store, &one.tenant, 9).await, SubjectTrace::default());
    let delete = |s: &Scope, name: &str| {
        Batch::new(s.tenant.clone(), NOON).delete(s.memory_ref.clone(), id(name))
    };
    open_snapshot(store, &one, "run_1").await;
    store.commit(delete(&one, "b")).await.expect("deleted");
    let held = trace(store, &one.tenant, 1).await;
    assert_eq!(
        format_trace(&held),
        ["one/a", "one/b", "one/d", "two/c"],
        "its text is there for a run"
    );
    close_snapshot(store, &one, "run_1").await;
    store
        .commit(Batch::new(one.tenant.clone(), NOON).erase(one.memory_ref.clone(), id("b")))
        .await
        .expect("erased");
    store.commit(delete(&one, "a")).await.expect("deleted");
    let after = trace(store, &one.tenant, 1).await;
    assert_eq!(
        format_trace(&after),
        ["one/a!", "one/b!", "one/d", "two/c"],
        "what was made from it is found all the same"
    );
    assert_eq!(
        after
            .entries
            .iter()
            .map(|e| e.content_hash.is_some())
            .collect::<Vec<_>>(),
        [false, false, true, true]
    );
    put_in(store, &two, "late", &[], &[(&one, "a")]).await;
    assert_eq!(
        format_trace(&trace(store, &one.tenant, 1).await).len(),
        5,
        "a text that was read before its source was deleted"
    );
    store.verify(&one.tenant).await.expect("sound");
}

async fn a_trace_stops_at_a_cycle(store: &dyn Store) {
    let m = MemoryFixture::new(store, "lineage-circle");
    m.put(&["a"]).await;
    m.put_about("b", &[], &["a"]).await;
    m.put_about("c", &[subject(1)], &["b"]).await;
    m.retire("c", RetireReason::Merged, "a").await;
    assert_eq!(
        format_trace(&trace(store, &m.s.tenant, 1).await),
        ["m/a", "m/b", "m/c"]
    );
    m.verify().await;
}

async fn entries_to_revive_are_listed_exactly(store: &dyn Store) {
    let m = MemoryFixture::new(store, "lineage-innocent");
    m.put_about("kept", &[subject(1)], &[]).await;
    m.put_about("guilty", &[subject(1)], &[]).await;
    m.put(&[
        "innocent",
        "below",
        "old",
        "erased",
        "alone",
        "elsewhere",
        "gist",
    ])
    .await;
    m.put_about("derived", &[], &["guilty"]).await;
    m.retire("below", RetireReason::Merged, "innocent").await;
    for name in ["guilty", "innocent", "erased", "derived"] {
        assert_eq!(
            m.retire(name, RetireReason::Merged, "kept").await,
            ChangeOutcome::Removed
        );
    }
    m.retire("old", RetireReason::Superseded, "kept").await;
    m.retire("elsewhere", RetireReason::Merged, "alone").await;
    m.forget("erased").await;
    let found = trace(store, &m.s.tenant, 1).await;
    assert_eq!(format_trace(&found), ["m/kept", "m/guilty", "m/derived"]);
    assert_eq!(
        found.merged_survivors,
        [(m.memory_ref(), id("innocent"), id("kept"))]
    );
    // Forgetting all of it and reviving the survivor leaves nothing to find, and loses nothing.
    let batch = found.entries.iter().fold(m.batch(), |batch, e| {
        batch.forget(e.memory_ref.clone(), e.id.clone())
    });
    m.commit(batch.revive(m.memory_ref(), id("innocent"))).await;
    assert_eq!(m.live().await, ["alone", "gist", "innocent"]);
    assert_eq!(
        m.state("below").await,
        EntryState::Retired(RetireReason::Merged),
        "it still has one that stands for it"
    );
    assert_eq!(trace(store, &m.s.tenant, 1).await, SubjectTrace::default());
    assert_eq!(m.purge().await, ["old"]);
    m.verify().await;
}

async fn subjects_stay_in_their_tenant(store: &dyn Store) {
    let here = MemoryFixture::new(store, "lineage-here");
    let there = MemoryFixture::new(store, "lineage-there");
    for m in [&here, &there] {
        m.put_about("a", &[subject(1)], &[]).await;
        m.put_about("b", &[], &["a"]).await;
        m.put(&["c"]).await;
        m.retire("c", RetireReason::Merged, "b").await;
    }
    here.put_about("own", &[subject(2)], &[]).await;
    assert_eq!(
        format_trace(&trace(store, &here.s.tenant, 2).await),
        ["m/own"]
    );
    assert_eq!(
        trace(store, &there.s.tenant, 2).await,
        SubjectTrace::default()
    );
    here.forget("a").await;
    here.forget("b").await;
    assert_eq!(
        (here.state("a").await, there.state("a").await),
        (EntryState::Forgotten, EntryState::Live)
    );
    let found = trace(store, &there.s.tenant, 1).await;
    assert_eq!(
        (format_trace(&found), found.merged_survivors.len()),
        (vec!["m/a".to_owned(), "m/b".to_owned()], 1)
    );
    assert_eq!(there.live().await, ["a", "b"]);
}
