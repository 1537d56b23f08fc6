//! Sources and derivatives of entries, and the entries that carry a subject.

use super::memory::{MemoryFixture, subject};
use super::snapshots::{close_snapshot, open_snapshot};
use super::{NOON, admit, draft, id, scope};
use remem_core::{Batch, Draft, RetireReason, Scope, Subject, TenantId};
use remem_store::{ChangeOutcome, EntryState, Store, SubjectTrace, TracePosition};

pub(super) async fn exercise(store: &dyn Store) {
    lineage_lists_direct_sources_and_results(store).await;
    a_trace_follows_lineage_to_its_end(store).await;
    a_trace_stops_at_a_cycle(store).await;
    entries_to_revive_are_listed_exactly(store).await;
    subjects_stay_in_their_tenant(store).await;
    a_trace_comes_in_bounded_pages(store).await;
    erasing_page_by_page_finds_everything(store).await;
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

/// All pages of a trace, of this size.
async fn trace_pages(
    store: &dyn Store,
    tenant: &TenantId,
    number: u8,
    limit: u32,
) -> Vec<SubjectTrace> {
    let mut pages = Vec::new();
    let mut after = Some(TracePosition::default());
    while let Some(position) = after {
        let page = store
            .trace_subject(tenant, &subject(number), position, limit)
            .await
            .expect("read");
        after = page.next;
        pages.push(page);
        assert!(pages.len() < 1_000, "it ends");
    }
    pages
}

/// All entries that carry a subject, by name: the same on pages of one as on one page.
async fn trace(store: &dyn Store, tenant: &TenantId, number: u8) -> SubjectTrace {
    let [one, all] = [1, 1_000].map(async |limit| {
        let mut whole = SubjectTrace::default();
        for page in trace_pages(store, tenant, number, limit).await {
            whole.entries.extend(page.entries);
            whole.merged_survivors.extend(page.merged_survivors);
        }
        whole
            .entries
            .sort_by(|a, b| (&a.memory_ref, &a.id).cmp(&(&b.memory_ref, &b.id)));
        // What was made from the entries of several pages comes with each of them.
        whole.entries.dedup();
        whole.merged_survivors.sort();
        whole.merged_survivors.dedup();
        whole
    });
    let all = all.await;
    assert_eq!(one.await, all);
    all
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
        ["one/a", "one/b", "one/d", "one/other", "two/c"]
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
    assert_eq!(format_trace(&found), ["m/derived", "m/guilty", "m/kept"]);
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

async fn a_trace_comes_in_bounded_pages(store: &dyn Store) {
    let m = MemoryFixture::new(store, "lineage-pages");
    for name in ["a", "b", "c"] {
        m.put_about(name, &[subject(1)], &[]).await;
    }
    for name in ["x", "y", "z"] {
        m.put_about(name, &[], &["a", "c"]).await;
    }
    m.put_about("both", &[subject(1)], &["x"]).await;
    let pages = trace_pages(store, &m.s.tenant, 1, 2).await;
    let names: Vec<String> = pages
        .iter()
        .map(|page| {
            let names: Vec<&str> = page.entries.iter().map(|e| e.id.as_str()).collect();
            names.join(" ")
        })
        .collect();
    // The second page of what was made from `a` and `b` comes with them, and not before.
    assert_eq!(names, ["x y", "z a b", "x y", "z c both", ""]);
    m.verify().await;
}

/// Every page is erased before the next one is read, and a merged entry that the subject was given
/// to, which comes on a later page, is not revived.
async fn erasing_page_by_page_finds_everything(store: &dyn Store) {
    let m = MemoryFixture::new(store, "lineage-page-by-page");
    m.put_about("kept", &[subject(1)], &[]).await;
    m.put(&["innocent"]).await;
    m.put_about("later", &[subject(1)], &[]).await;
    m.put_about("of-later", &[], &["later"]).await;
    m.put_about("of-both", &[], &["kept", "later"]).await;
    for name in ["innocent", "later", "of-later"] {
        m.retire(name, RetireReason::Merged, "kept").await;
    }
    let mut revived = Vec::new();
    let mut after = Some(TracePosition::default());
    while let Some(position) = after {
        let page = store
            .trace_subject(&m.s.tenant, &subject(1), position, 1)
            .await
            .expect("read");
        after = page.next;
        let batch = page.entries.iter().fold(m.batch(), |batch, e| {
            batch.forget(e.memory_ref.clone(), e.id.clone())
        });
        let survivors = page.merged_survivors.iter();
        revived.extend(survivors.map(|(_, id, _)| id.as_str().to_owned()));
        let survivors = page.merged_survivors.iter();
        let batch = survivors.fold(batch, |batch, (memory_ref, id, _)| {
            batch.revive(memory_ref.clone(), id.clone())
        });
        store.commit(batch).await.expect("applied");
    }
    assert_eq!(revived, ["innocent"]);
    assert_eq!(m.live().await, ["innocent"]);
    for name in ["kept", "later", "of-later", "of-both"] {
        assert_eq!(m.state(name).await, EntryState::Forgotten, "{name}");
    }
    assert_eq!(trace(store, &m.s.tenant, 1).await, SubjectTrace::default());
    m.verify().await;
}
