//! Reads: order, pages, filters, counts, snapshots; nothing for what does not exist.

use super::{NOON, admit, all, delete, draft, id, names, put, scope};
use remem_core::{Batch, Draft, RunId, Seq, Timestamp};
use remem_store::{Filter, ListPosition, MemoryStats, Page, ReadAt, Store};

pub(super) async fn exercise(store: &dyn Store) {
    unknown_memories_read_as_empty(store).await;
    lists_are_newest_first_and_pages_are_contiguous(store).await;
    filters_restrict_a_list(store).await;
    memories_are_listed_with_their_counts(store).await;
    a_snapshot_ignores_later_writes(store).await;
    named_entries_are_those_that_are_live(store).await;
}

async fn named_entries_are_those_that_are_live(store: &dyn Store) {
    let [s, other, private] =
        ["m", "other", "~ada/own"].map(|name| scope("reads-named", name).as_host());
    let foreign = scope("reads-named-2", "m");
    for (s, name) in [
        (&s, "a"),
        (&s, "gone"),
        (&s, "not-named"),
        (&other, "a"),
        (&foreign, "foreign"),
    ] {
        put(store, s, name, draft(name), NOON).await;
    }
    let own = Batch::new(s.tenant.clone(), NOON)
        .as_host()
        .put(id("p"), admit(&private, draft("p"), NOON));
    store.commit(own).await.expect("stored");
    let brief = Draft {
        expires_at: Some(NOON.plus_ms(10)),
        ..draft("brief")
    };
    put(store, &s, "brief", brief, NOON).await;
    delete(store, &s, "gone", NOON).await;
    let wanted = [
        (&other, "a"),
        (&s, "a"),
        (&s, "a"),
        (&s, "brief"),
        (&s, "gone"),
        (&s, "foreign"),
        (&s, "nowhere"),
        (&private, "p"),
        (&private, "a"),
    ];
    let wanted = wanted.map(|(s, name)| (s.memory_ref.clone(), id(name)));
    let named = async |at: i64| {
        let at = ReadAt::Now(NOON.plus_ms(at));
        let found = store.named_entries(&s.tenant, &wanted, &at).await;
        let mut found: Vec<String> = found
            .expect("read")
            .into_iter()
            .map(|entry| {
                format!(
                    "{}/{}={}",
                    entry.memory_ref.as_str(),
                    entry.id,
                    entry.content
                )
            })
            .collect();
        found.sort();
        found
    };
    let at_noon = ["m/a=a", "m/brief=brief", "other/a=a", "~ada/own/p=p"];
    assert_eq!(named(5).await, at_noon, "each once, of every memory");
    assert_eq!(named(10).await, ["m/a=a", "other/a=a", "~ada/own/p=p"]);
    let none = store
        .named_entries(&s.tenant, &[], &ReadAt::Now(NOON))
        .await;
    assert!(none.expect("read").is_empty());
}

async fn unknown_memories_read_as_empty(store: &dyn Store) {
    let s = scope("reads-nothing", "m");
    let now = ReadAt::Now(NOON);
    assert_eq!(store.get(&s, &id("e"), &now).await.expect("read"), None);
    assert!(all(store, &s, &now).await.is_empty());
    assert_eq!(
        store.stats(&s, &now).await.expect("read"),
        MemoryStats::default()
    );
    assert!(
        store
            .events(&s.tenant, Seq(0), 10)
            .await
            .expect("read")
            .is_empty()
    );
    assert_eq!(
        store.head(&s.tenant).await.expect("read"),
        remem_store::TenantHead::default()
    );
    assert!(
        store
            .memories(&s.tenant, &remem_core::Actor::NoUser, None, 10, &now)
            .await
            .expect("read")
            .is_empty()
    );
}

async fn lists_are_newest_first_and_pages_are_contiguous(store: &dyn Store) {
    let s = scope("reads-pages", "m");
    // Two entries in each millisecond, so that the id has to break ties.
    for n in 0..20i64 {
        put(
            store,
            &s,
            &format!("e{n:02}"),
            draft("x"),
            NOON.plus_ms(n / 2),
        )
        .await;
    }
    let at = ReadAt::Now(NOON.plus_ms(100));
    let whole = all(store, &s, &at).await;
    let mut expected: Vec<String> = (0..20).map(|n| format!("e{n:02}")).collect();
    expected.reverse();
    assert_eq!(names(&whole), expected);
    let mut joined = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .list(&s, &Filter::default(), &Page { limit: 3, after }, &at)
            .await
            .expect("read");
        let Some(last) = page.last() else { break };
        after = Some(ListPosition {
            created_at: last.created_at,
            id: last.id.clone(),
        });
        joined.extend(page);
        // Entries written meanwhile are newer than the page: they must not shift the next one.
        put(
            store,
            &s,
            &format!("later{}", joined.len()),
            draft("x"),
            NOON.plus_ms(50),
        )
        .await;
    }
    assert_eq!(joined, whole);
    let none = store
        .list(
            &s,
            &Filter::default(),
            &Page {
                limit: 0,
                after: None,
            },
            &at,
        )
        .await
        .expect("read");
    assert!(none.is_empty());
}

async fn filters_restrict_a_list(store: &dyn Store) {
    let s = scope("reads-filters", "m");
    for (name, tags, ms) in [
        ("a", vec!["x"], 0),
        ("b", vec!["x", "y"], 1),
        ("c", vec!["y"], 2),
        ("d", vec![], 3),
    ] {
        let tags = tags.into_iter().map(str::to_owned).collect();
        put(
            store,
            &s,
            name,
            Draft {
                tags,
                ..draft("word")
            },
            NOON.plus_ms(ms),
        )
        .await;
    }
    let at = ReadAt::Now(NOON.plus_ms(9));
    let check = async |tags: &[&str],
                       from: Option<i64>,
                       to: Option<i64>,
                       after: Option<(i64, &str)>,
                       expected: &[&str]| {
        let filter = Filter {
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            created_from: from.map(|ms| NOON.plus_ms(ms)),
            created_to: to.map(|ms| NOON.plus_ms(ms)),
            ..Filter::default()
        };
        let after = after.map(|(ms, name)| ListPosition {
            created_at: NOON.plus_ms(ms),
            id: id(name),
        });
        let found = store
            .list(&s, &filter, &Page { limit: 10, after }, &at)
            .await
            .expect("read");
        assert_eq!(names(&found), expected, "{filter:?}");
    };
    check(&["x"], None, None, None, &["b", "a"]).await;
    check(&["x"], None, None, Some((1, "b")), &["a"]).await;
    check(&["y", "x"], None, None, None, &["b"]).await;
    check(&["z"], None, None, None, &[]).await;
    check(&[], Some(1), Some(3), None, &["c", "b"]).await;
    check(&["y"], Some(2), None, None, &["c"]).await;
}

async fn memories_are_listed_with_their_counts(store: &dyn Store) {
    for (memory_ref, n) in [("b", 2), ("a", 1), ("c", 0)] {
        let s = scope("reads-scopes", memory_ref);
        for e in 0..n.max(1) {
            put(store, &s, &format!("e{e}"), draft("four"), NOON).await;
        }
        if n == 0 {
            delete(store, &s, "e0", NOON).await;
        }
    }
    let s = scope("reads-scopes", "a");
    let now = ReadAt::Now(NOON);
    let listed = store
        .memories(&s.tenant, &remem_core::Actor::NoUser, None, 10, &now)
        .await
        .expect("read");
    let pairs: Vec<_> = listed
        .iter()
        .map(|x| (x.memory_ref.as_str(), x.entries))
        .collect();
    assert_eq!(pairs, [("a", 1), ("b", 2), ("c", 0)]);
    let rest = store
        .memories(
            &s.tenant,
            &remem_core::Actor::NoUser,
            Some(&s.memory_ref),
            1,
            &now,
        )
        .await
        .expect("read");
    assert_eq!(
        rest.iter()
            .map(|x| x.memory_ref.as_str())
            .collect::<Vec<_>>(),
        ["b"]
    );
    let stats = store
        .stats(&scope("reads-scopes", "b"), &now)
        .await
        .expect("read");
    assert_eq!(
        (
            stats.entries,
            stats.content_bytes,
            stats.oldest,
            stats.newest
        ),
        (2, 8, Some(NOON), Some(NOON))
    );
}

async fn a_snapshot_ignores_later_writes(store: &dyn Store) {
    let s = scope("reads-snapshot", "m");
    put(store, &s, "before", draft("word"), NOON).await;
    put(
        store,
        &s,
        "short",
        Draft {
            expires_at: Some(NOON.plus_ms(5)),
            ..draft("word")
        },
        NOON,
    )
    .await;
    let revision = store.head(&s.tenant).await.expect("read").revision;
    put(store, &s, "after", draft("word"), NOON).await;
    let run = RunId::parse("run-1").expect("valid");
    let own = Batch::new(s.tenant.clone(), NOON)
        .in_run(run.clone())
        .put(id("own"), admit(&s, draft("word"), NOON));
    store.commit(own).await.expect("stored");
    let snapshot = |ms: i64, own_runs: Vec<RunId>| ReadAt::Snapshot {
        revision,
        at: NOON.plus_ms(ms),
        since: NOON,
        own_runs,
    };
    assert_eq!(
        names(&all(store, &s, &snapshot(0, vec![])).await),
        ["short", "before"]
    );
    assert_eq!(
        names(&all(store, &s, &snapshot(0, vec![run.clone()])).await),
        ["short", "own", "before"]
    );
    assert_eq!(
        names(&all(store, &s, &snapshot(5, vec![])).await),
        ["before"],
        "time outranks the snapshot"
    );
    assert_eq!(
        store
            .get(&s, &id("after"), &snapshot(0, vec![]))
            .await
            .expect("read"),
        None
    );
    let all_now = all(store, &s, &ReadAt::Now(Timestamp(NOON.0))).await;
    assert_eq!(all_now.len(), 4);
}
