//! Snapshots: a run reads an unchanged state, deleted text is kept only as long as a snapshot needs
//! it, and never beyond its expiry. And texts that are redacted after they were stored.

use super::runs::run;
use super::{NOON, admit, all, delete, draft, id, names, put, scope};
use remem_core::redact::SecretValue;
use remem_core::{Admission, Batch, Draft, EventKind, Policy, Redactor, Revision, Scope, Seq};
use remem_store::{ChangeOutcome, DueWork, Filter, Probe, ReadAt, SearchCandidate, Store};

pub(super) async fn exercise(store: &dyn Store) {
    a_snapshot_reads_its_revision(store).await;
    a_run_sees_its_own_writes_and_deletes(store).await;
    expiry_applies_within_a_snapshot(store).await;
    text_is_erased_after_the_last_snapshot_closes(store).await;
    a_reopened_snapshot_is_a_new_one(store).await;
    a_stored_text_can_be_redacted(store).await;
}

pub(super) async fn open_snapshot(store: &dyn Store, scope: &Scope, name: &str) -> Revision {
    let batch = Batch::new(scope.tenant.clone(), NOON)
        .in_run(run(name))
        .hold_snapshot();
    store.commit(batch).await.expect("held").revision
}

pub(super) async fn close_snapshot(store: &dyn Store, scope: &Scope, name: &str) {
    store
        .commit(
            Batch::new(scope.tenant.clone(), NOON)
                .in_run(run(name))
                .release_snapshot(),
        )
        .await
        .expect("let go");
}

pub(super) fn snapshot_at(revision: Revision, runs: &[&str]) -> ReadAt {
    ReadAt::Snapshot {
        revision,
        at: NOON,
        since: NOON,
        own_runs: runs.iter().map(|name| run(name)).collect(),
    }
}

async fn a_snapshot_reads_its_revision(store: &dyn Store) {
    let s = scope("snapshots-stable", "m");
    for name in ["a", "b", "c"] {
        put(
            store,
            &s,
            name,
            Draft {
                tags: vec!["t".to_owned()],
                ..draft(&format!("word {name}"))
            },
            NOON,
        )
        .await;
    }
    let revision = open_snapshot(store, &s, "run_1").await;
    let at = snapshot_at(revision, &["run_1"]);
    let before = all(store, &s, &at).await;
    assert_eq!(names(&before), ["c", "b", "a"]);
    put(store, &s, "d", draft("word d"), NOON).await;
    delete(store, &s, "b", NOON).await;
    assert_eq!(
        all(store, &s, &at)
            .await
            .iter()
            .map(|e| &e.content)
            .collect::<Vec<_>>(),
        ["word c", "word b", "word a"]
    );
    assert_eq!(
        names(&all(store, &s, &ReadAt::Now(NOON)).await),
        ["d", "c", "a"]
    );
    let tagged = Filter {
        tags: vec!["t".to_owned()],
        ..Filter::default()
    };
    let page = remem_store::Page {
        limit: 2,
        after: None,
    };
    assert_eq!(
        names(&store.list(&s, &tagged, &page, &at).await.expect("read")),
        ["c", "b"],
        "tags are kept as well"
    );
    assert_eq!(
        names(
            &store
                .list(&s, &tagged, &page, &ReadAt::Now(NOON))
                .await
                .expect("read")
        ),
        ["c", "a"]
    );
    let got = store
        .get(&s, &id("b"), &at)
        .await
        .expect("read")
        .expect("there for the run");
    assert_eq!(
        (
            got.content.as_str(),
            store.get(&s, &id("d"), &at).await.expect("read")
        ),
        ("word b", None)
    );
    assert_eq!(
        store
            .get(&s, &id("b"), &ReadAt::Now(NOON))
            .await
            .expect("read"),
        None
    );
    let probe = Probe::words(vec!["word".to_owned()]);
    let found = async |at: &ReadAt| {
        let hits: Vec<SearchCandidate> = store
            .search(&s, &probe, &Filter::default(), 9, at)
            .await
            .expect("read")
            .candidates;
        let mut names: Vec<String> = hits
            .into_iter()
            .map(|hit| hit.entry.id.as_str().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(found(&at).await, ["a", "b", "c"]);
    assert_eq!(found(&ReadAt::Now(NOON)).await, ["a", "c", "d"]);
    let held = store.snapshots(&s.tenant).await.expect("read");
    assert_eq!(
        held.iter()
            .map(|h| (h.run.as_str(), h.revision, h.at))
            .collect::<Vec<_>>(),
        [("run_1", revision, NOON)]
    );
    close_snapshot(store, &s, "run_1").await;
    assert!(store.snapshots(&s.tenant).await.expect("read").is_empty());
}

async fn a_run_sees_its_own_writes_and_deletes(store: &dyn Store) {
    let s = scope("snapshots-own", "m");
    put(store, &s, "old", draft("old"), NOON).await;
    let revision = open_snapshot(store, &s, "run_1").await;
    let of = |name: &str| Batch::new(s.tenant.clone(), NOON).in_run(run(name));
    store
        .commit(of("run_1").put(id("own"), admit(&s, draft("own"), NOON)))
        .await
        .expect("written");
    store
        .commit(of("run_2").put(id("foreign"), admit(&s, draft("foreign"), NOON)))
        .await
        .expect("written");
    store
        .commit(of("run_3").put(id("child"), admit(&s, draft("child"), NOON)))
        .await
        .expect("written");
    assert_eq!(
        names(&all(store, &s, &snapshot_at(revision, &["run_1"])).await),
        ["own", "old"]
    );
    assert_eq!(
        names(&all(store, &s, &snapshot_at(revision, &["run_1", "run_3"])).await),
        ["own", "old", "child"]
    );
    assert_eq!(
        names(&all(store, &s, &snapshot_at(revision, &[])).await),
        ["old"]
    );
    store
        .commit(of("run_1").delete(s.memory_ref.clone(), id("old")))
        .await
        .expect("deleted");
    store
        .commit(of("run_2").delete(s.memory_ref.clone(), id("own")))
        .await
        .expect("deleted");
    assert_eq!(
        names(&all(store, &s, &snapshot_at(revision, &["run_1"])).await),
        ["own"],
        "its own delete counts, another's does not"
    );
    close_snapshot(store, &s, "run_1").await;
}

async fn expiry_applies_within_a_snapshot(store: &dyn Store) {
    let s = scope("snapshots-time", "m");
    put(
        store,
        &s,
        "ends",
        Draft {
            expires_at: Some(NOON.plus_ms(10)),
            ..draft("ends")
        },
        NOON,
    )
    .await;
    let revision = open_snapshot(store, &s, "run_1").await;
    let later = ReadAt::Snapshot {
        revision,
        at: NOON.plus_ms(10),
        since: NOON,
        own_runs: vec![run("run_1")],
    };
    assert!(all(store, &s, &later).await.is_empty());
    let expire =
        Batch::new(s.tenant.clone(), NOON.plus_ms(10)).expire(s.memory_ref.clone(), id("ends"));
    store.commit(expire).await.expect("applied");
    assert!(
        all(store, &s, &snapshot_at(revision, &["run_1"]))
            .await
            .is_empty(),
        "the purge erases at once"
    );
    close_snapshot(store, &s, "run_1").await;
}

async fn text_is_erased_after_the_last_snapshot_closes(store: &dyn Store) {
    let s = scope("snapshots-erase", "m");
    put(store, &s, "a", draft("text a"), NOON).await;
    let first = open_snapshot(store, &s, "run_1").await;
    let second = open_snapshot(store, &s, "run_2").await;
    delete(store, &s, "a", NOON).await;
    let erase = || Batch::new(s.tenant.clone(), NOON).erase(s.memory_ref.clone(), id("a"));
    assert!(
        store
            .erasable_entries(&s.tenant, 9)
            .await
            .expect("read")
            .is_empty()
    );
    assert_eq!(
        store.commit(erase()).await.expect("answered").outcomes,
        [ChangeOutcome::NoChange],
        "too early"
    );
    close_snapshot(store, &s, "run_1").await;
    assert!(
        store
            .erasable_entries(&s.tenant, 9)
            .await
            .expect("read")
            .is_empty(),
        "one still reads"
    );
    assert_eq!(
        all(store, &s, &snapshot_at(second, &["run_2"])).await.len(),
        1
    );
    store.scrub(&s.tenant, NOON, false).await.expect("scrubbed");
    assert!(
        !store
            .tenants_with_work(DueWork::Purge, NOON)
            .await
            .expect("read")
            .contains(&s.tenant)
    );
    // A run that began after the removal does not keep the text.
    open_snapshot(store, &s, "run_3").await;
    close_snapshot(store, &s, "run_2").await;
    assert!(
        store
            .tenants_with_work(DueWork::Purge, NOON)
            .await
            .expect("read")
            .contains(&s.tenant),
        "letting go makes work"
    );
    store.scrub(&s.tenant, NOON, false).await.expect("scrubbed");
    assert!(
        store
            .tenants_with_work(DueWork::Purge, NOON)
            .await
            .expect("read")
            .contains(&s.tenant),
        "a pass that looked before does not hide it"
    );
    assert_eq!(
        store.erasable_entries(&s.tenant, 9).await.expect("read"),
        [(s.memory_ref.clone(), id("a"))]
    );
    let revision = store.head(&s.tenant).await.expect("read").revision;
    assert_eq!(
        store.commit(erase()).await.expect("erased").outcomes,
        [ChangeOutcome::Removed]
    );
    assert_eq!(
        store.head(&s.tenant).await.expect("read").revision,
        revision,
        "nobody could see the difference"
    );
    assert_eq!(
        store.commit(erase()).await.expect("answered").outcomes,
        [ChangeOutcome::NoChange],
        "once"
    );
    assert!(all(store, &s, &snapshot_at(first, &[])).await.is_empty());
    assert!(
        store
            .erasable_entries(&s.tenant, 9)
            .await
            .expect("read")
            .is_empty()
    );
    close_snapshot(store, &s, "run_3").await;
    store.verify(&s.tenant).await.expect("sound");
}

async fn a_reopened_snapshot_is_a_new_one(store: &dyn Store) {
    let s = scope("snapshots-again", "m");
    put(store, &s, "a", draft("text a"), NOON).await;
    put(store, &s, "b", draft("text b"), NOON).await;
    let first = open_snapshot(store, &s, "run_1").await;
    assert!(open_snapshot(store, &s, "run_1").await > first);
    assert_eq!(
        store.snapshots(&s.tenant).await.expect("read")[0].revision,
        first,
        "what is held stays"
    );
    // An entry that is removed by the commit that the snapshot is taken at is not part of it: its
    // text need not wait.
    let batch = Batch::new(s.tenant.clone(), NOON)
        .in_run(run("run_1"))
        .release_snapshot()
        .hold_snapshot();
    let again = store
        .commit(batch.delete(s.memory_ref.clone(), id("a")))
        .await
        .expect("held anew")
        .revision;
    assert_eq!(
        store.snapshots(&s.tenant).await.expect("read")[0].revision,
        again
    );
    assert!(
        store
            .erasable_entries(&s.tenant, 9)
            .await
            .expect("read")
            .is_empty(),
        "its text is gone already"
    );
    delete(store, &s, "b", NOON).await;
    assert_eq!(
        names(&all(store, &s, &snapshot_at(again, &["run_1"])).await),
        ["b"]
    );
    close_snapshot(store, &s, "run_1").await;
    let alone = Batch::new(s.tenant.clone(), NOON).release_snapshot();
    assert_eq!(
        store.commit(alone).await.expect("answered").outcomes,
        [ChangeOutcome::NoChange],
        "there is no run to let go"
    );
}

async fn a_stored_text_can_be_redacted(store: &dyn Store) {
    let s = scope("snapshots-redact", "m");
    put(
        store,
        &s,
        "a",
        Draft {
            tags: vec!["pw:hunter2-hunter2".to_owned()],
            ..draft("it is hunter2-hunter2 ok")
        },
        NOON,
    )
    .await;
    put(store, &s, "b", draft("harmless"), NOON).await;
    put(store, &s, "gone", draft("hunter2-hunter2"), NOON).await;
    delete(store, &s, "gone", NOON).await;
    let stale = store
        .entries_to_rescan(&s.tenant, 2, None, 1)
        .await
        .expect("read");
    assert_eq!(names(&stale.entries), ["a"]);
    let rest = store
        .entries_to_rescan(&s.tenant, 2, stale.next, 9)
        .await
        .expect("read");
    assert_eq!(
        (names(&rest.entries), rest.next),
        (vec!["b"], None),
        "what is erased holds nothing"
    );
    let policy = Policy::default();
    let redactor = Redactor::new([SecretValue::new("db", "hunter2-hunter2")]);
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 2,
        now: NOON,
    };
    let anew = |entry: &remem_core::Entry| {
        let draft = Draft {
            content: entry.content.clone(),
            tags: entry.tags.clone(),
            ..Draft::default()
        };
        admission.admit(&s, draft).expect("admissible")
    };
    let batch = Batch::new(s.tenant.clone(), NOON);
    let batch = batch
        .rewrite(id("a"), anew(&stale.entries[0]))
        .rewrite(id("b"), anew(&rest.entries[0]));
    let batch = batch.rewrite(id("never"), anew(&rest.entries[0]));
    let outcomes = store.commit(batch).await.expect("rewritten").outcomes;
    assert_eq!(
        outcomes,
        [
            ChangeOutcome::Removed,
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange
        ]
    );
    let now = all(store, &s, &ReadAt::Now(NOON)).await;
    assert_eq!(
        now.iter()
            .map(|e| (e.content.as_str(), e.redaction_fingerprint))
            .collect::<Vec<_>>(),
        [("harmless", 2), ("it is [REDACTED:db] ok", 2)]
    );
    assert_eq!(now[1].tags, ["pw:[REDACTED:db]"]);
    assert!(
        store
            .entries_to_rescan(&s.tenant, 2, None, 9)
            .await
            .expect("read")
            .entries
            .is_empty()
    );
    let found = async |word: &str| {
        let probe = Probe::words(vec![word.to_owned()]);
        store
            .search(&s, &probe, &Filter::default(), 9, &ReadAt::Now(NOON))
            .await
            .expect("read")
            .candidates
            .len()
    };
    assert_eq!(
        (found("hunter2").await, found("redacted").await),
        (0, 1),
        "the index follows"
    );
    let tagged = |tag: &str| Filter {
        tags: vec![tag.to_owned()],
        ..Filter::default()
    };
    let page = remem_store::Page {
        limit: 9,
        after: None,
    };
    for (tag, count) in [("pw:hunter2-hunter2", 0), ("pw:[REDACTED:db]", 1)] {
        let listed = store
            .list(&s, &tagged(tag), &page, &ReadAt::Now(NOON))
            .await
            .expect("read");
        assert_eq!(listed.len(), count, "{tag}");
    }
    let events = store.events(&s.tenant, Seq(4), 9).await.expect("read");
    assert_eq!(
        events.iter().map(|e| e.body.kind()).collect::<Vec<_>>(),
        [EventKind::Redacted]
    );
    store.verify(&s.tenant).await.expect("sound");
}
