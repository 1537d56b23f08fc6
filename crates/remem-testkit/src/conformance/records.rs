//! Records: named, versioned, separate for each tenant and kind, written only under their
//! preconditions; events without a change.

use super::{NOON, scope};
use remem_core::event::FileRef;
use remem_core::{
    Admission, Batch, EventBody, Policy, Precondition, RecordBody, RecordKind, Redactor, Seq,
    TenantId,
};
use remem_store::{ChangeOutcome, Store, StoreError};
use serde_json::json;

pub(super) async fn exercise(store: &dyn Store) {
    record_versions_increase_and_restart_after_delete(store).await;
    a_failed_precondition_rejects_the_batch(store).await;
    records_are_listed_by_prefix_in_pages(store).await;
    a_batch_may_hold_only_an_event(store).await;
    progress_records_add_no_revision(store).await;
}

async fn progress_records_add_no_revision(store: &dyn Store) {
    let tenant = scope("records-progress", "m").tenant;
    store
        .commit(set(&tenant, "a", Precondition::None, "x"))
        .await
        .expect("written");
    let head = store.head(&tenant).await.expect("read");
    let batch = || Batch::new(tenant.clone(), NOON.plus_ms(5));
    for n in 1..=2 {
        let noted = batch().set_record(
            RecordKind::Progress,
            "p".to_owned(),
            Precondition::None,
            body("here"),
        );
        let noted = store.commit(noted).await.expect("written");
        assert_eq!(
            (noted.outcomes, noted.revision),
            (vec![recorded("p", n)], head.revision)
        );
        let found = store
            .record(&tenant, RecordKind::Progress, "p")
            .await
            .expect("read")
            .expect("there");
        assert_eq!((found.version, found.at), (n, NOON.plus_ms(5)));
    }
    let gone = store
        .commit(batch().delete_record(
            RecordKind::Progress,
            "p".to_owned(),
            Precondition::Version(2),
        ))
        .await
        .expect("removed");
    assert_eq!(
        (gone.outcomes, store.head(&tenant).await.expect("read")),
        (vec![ChangeOutcome::Removed], head)
    );
    assert_eq!(
        store
            .record(&tenant, RecordKind::Progress, "p")
            .await
            .expect("read"),
        None
    );
}

fn body(text: &str) -> RecordBody {
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let admission = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOON,
    };
    admission.redact_record(
        json!({ "text": text, "deep": [1, { "nul": "a\u{0}b" }] })
            .as_object()
            .cloned()
            .expect("an object"),
    )
}

fn set(tenant: &TenantId, key: &str, precondition: Precondition, text: &str) -> Batch {
    Batch::new(tenant.clone(), NOON).set_record(
        RecordKind::File,
        key.to_owned(),
        precondition,
        body(text),
    )
}

fn recorded(key: &str, version: u64) -> ChangeOutcome {
    ChangeOutcome::Recorded {
        key: key.to_owned(),
        version,
    }
}

async fn text(store: &dyn Store, tenant: &TenantId, key: &str) -> Option<(u64, String)> {
    let record = store
        .record(tenant, RecordKind::File, key)
        .await
        .expect("read")?;
    assert_eq!(
        (record.kind, record.key.as_str(), record.at),
        (RecordKind::File, key, NOON)
    );
    assert_eq!(
        record.body["deep"],
        json!([1, { "nul": "a\u{0}b" }]),
        "kept as it was"
    );
    Some((
        record.version,
        record.body["text"].as_str().expect("a text").to_owned(),
    ))
}

async fn record_versions_increase_and_restart_after_delete(store: &dyn Store) {
    let tenant = scope("records-one", "m").tenant;
    let other = scope("records-other", "m").tenant;
    assert_eq!(text(store, &tenant, "a").await, None);
    for n in 1..=3 {
        let written = store
            .commit(set(&tenant, "a", Precondition::None, &format!("v{n}")))
            .await
            .expect("written");
        assert_eq!(
            (written.outcomes, written.revision.0),
            (vec![recorded("a", n)], n)
        );
        assert_eq!(text(store, &tenant, "a").await, Some((n, format!("v{n}"))));
    }
    assert_eq!(
        text(store, &other, "a").await,
        None,
        "another tenant's name is another name"
    );
    assert_eq!(
        store
            .record(&tenant, RecordKind::Run, "a")
            .await
            .expect("read"),
        None,
        "so is another kind's"
    );
    let gone = Batch::new(tenant.clone(), NOON).delete_record(
        RecordKind::File,
        "a".to_owned(),
        Precondition::Version(3),
    );
    assert_eq!(
        store.commit(gone.clone()).await.expect("removed").outcomes,
        [ChangeOutcome::Removed]
    );
    assert!(matches!(
        store.commit(gone).await,
        Err(StoreError::Conflict)
    ));
    let nothing = Batch::new(tenant.clone(), NOON).delete_record(
        RecordKind::File,
        "a".to_owned(),
        Precondition::None,
    );
    let nothing = store.commit(nothing).await.expect("answered");
    assert_eq!(
        (nothing.outcomes, nothing.revision.0),
        (vec![ChangeOutcome::NoChange], 4),
        "nothing to do leaves the clock alone"
    );
    let again = store
        .commit(set(&tenant, "a", Precondition::Absent, "anew"))
        .await
        .expect("written");
    assert_eq!(
        again.outcomes,
        [recorded("a", 1)],
        "a free name begins at 1"
    );
    // Several steps in one batch, and in one group.
    let steps = set(&tenant, "b", Precondition::None, "x").delete_record(
        RecordKind::File,
        "b".to_owned(),
        Precondition::None,
    );
    let steps = steps.set_record(
        RecordKind::File,
        "b".to_owned(),
        Precondition::None,
        body("y"),
    );
    let steps = store.commit(steps).await.expect("written").outcomes;
    assert_eq!(
        steps,
        [recorded("b", 1), ChangeOutcome::Removed, recorded("b", 1)]
    );
    assert_eq!(text(store, &tenant, "b").await, Some((1, "y".to_owned())));
}

async fn a_failed_precondition_rejects_the_batch(store: &dyn Store) {
    let tenant = scope("records-expect", "m").tenant;
    store
        .commit(set(&tenant, "a", Precondition::Absent, "v1"))
        .await
        .expect("written");
    for stale in [
        Precondition::Absent,
        Precondition::Version(2),
        Precondition::Version(0),
    ] {
        let batch = set(&tenant, "b", Precondition::None, "lost").set_record(
            RecordKind::File,
            "a".to_owned(),
            stale,
            body("lost"),
        );
        assert!(
            matches!(store.commit(batch).await, Err(StoreError::Conflict)),
            "{stale:?}"
        );
    }
    assert_eq!(
        (
            text(store, &tenant, "a").await,
            text(store, &tenant, "b").await
        ),
        (Some((1, "v1".to_owned())), None)
    );
    // Two commits that expect the same version: one succeeds.
    let (one, two) = tokio::join!(
        store.commit(set(&tenant, "a", Precondition::Version(1), "one")),
        store.commit(set(&tenant, "a", Precondition::Version(1), "two"))
    );
    assert!(one.is_ok() != two.is_ok(), "exactly one of two");
    assert_eq!(
        text(store, &tenant, "a").await.map(|(version, _)| version),
        Some(2)
    );
}

async fn records_are_listed_by_prefix_in_pages(store: &dyn Store) {
    let tenant = scope("records-list", "m").tenant;
    for key in ["b/2", "a", "b/1", "b", "b/Ü", "b/10", "c", "b/%"] {
        store
            .commit(set(&tenant, key, Precondition::None, key))
            .await
            .expect("written");
    }
    let listed = async |prefix: &str, after: Option<&str>, limit: u32| {
        let records = store
            .records(&tenant, RecordKind::File, prefix, after, limit)
            .await
            .expect("read");
        records
            .into_iter()
            .map(|record| record.key)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        listed("", None, 100).await,
        ["a", "b", "b/%", "b/1", "b/10", "b/2", "b/Ü", "c"],
        "by bytes"
    );
    assert_eq!(listed("b/", None, 2).await, ["b/%", "b/1"]);
    assert_eq!(listed("b/", Some("b/1"), 100).await, ["b/10", "b/2", "b/Ü"]);
    assert!(listed("d", None, 100).await.is_empty());
    assert!(
        store
            .records(&tenant, RecordKind::Run, "", None, 9)
            .await
            .expect("read")
            .is_empty()
    );
}

async fn a_batch_may_hold_only_an_event(store: &dyn Store) {
    let tenant = scope("records-emit", "m").tenant;
    let updated = EventBody::WorkspaceUpdated(FileRef {
        path: "a".to_owned(),
        version: 1,
    });
    let batch = set(&tenant, "a", Precondition::None, "x").emit(updated.clone());
    let written = store.commit(batch).await.expect("written");
    assert_eq!(
        (written.outcomes.len(), written.revision.0),
        (2, 1),
        "one commit"
    );
    let alone = store
        .commit(Batch::new(tenant.clone(), NOON).emit(updated.clone()))
        .await
        .expect("written");
    assert_eq!(
        (alone.outcomes, alone.revision.0),
        (vec![ChangeOutcome::Done], 2)
    );
    let events = store.events(&tenant, Seq(0), 9).await.expect("read");
    assert_eq!(
        events
            .iter()
            .map(|e| (e.revision.0, &e.body))
            .collect::<Vec<_>>(),
        [(1, &updated), (2, &updated)]
    );
    assert_eq!(store.verify(&tenant).await.expect("sound"), 2);
}
