//! The conformance suite: the required behaviour of every store, in one place. A new rule of the
//! store interface starts here.
//!
//! Each check uses tenants of its own, so the checks can share one store. A check that fails panics
//! with an explanation.

mod events;
mod isolation;
mod leases;
mod lineage;
mod memory;
mod reads;
mod record_ties;
mod records;
mod repeats;
mod replacement;
mod runs;
mod search;
mod signatures;
mod snapshots;
mod time;
mod vectors;
mod workshop;
mod writes;

use remem_core::{
    Admission, Admitted, Batch, Draft, Entry, EntryId, Facets, MemoryRef, Policy, Redactor, Scope,
    SessionId, TenantId, Timestamp,
};
use remem_store::{ChangeOutcome, CommitResult, Filter, Page, ReadAt, Review, Store};

/// Runs every check against `store`.
pub async fn exercise<S: Store + Review>(store: &S) {
    record_ties::exercise(store).await;
    record_ties::exercise_review(store, store).await;
    writes::exercise(store).await;
    reads::exercise(store).await;
    search::exercise(store).await;
    vectors::exercise(store).await;
    time::exercise(store).await;
    events::exercise(store).await;
    repeats::exercise(store).await;
    leases::exercise(store).await;
    records::exercise(store).await;
    runs::exercise(store).await;
    snapshots::exercise(store).await;
    replacement::exercise(store).await;
    lineage::exercise(store).await;
    signatures::exercise(store).await;
    workshop::exercise(store).await;
    isolation::exercise(store).await;
}

pub use crate::NOON;

/// The scope of a memory, for a check.
pub fn scope(tenant: &str, memory_ref: &str) -> Scope {
    Scope::new(
        TenantId::parse(tenant).expect("a test's tenant"),
        MemoryRef::parse(memory_ref).expect("a test's ref"),
    )
}

/// The id of an entry, for a check.
pub fn id(name: &str) -> EntryId {
    EntryId::parse(name).expect("a test's id")
}

/// Facets with this session.
pub fn in_session(name: &str) -> Facets {
    Facets {
        session: SessionId::parse(name),
        ..Facets::default()
    }
}

/// A draft with this text.
pub fn draft(content: &str) -> Draft {
    Draft {
        content: content.to_owned(),
        ..Draft::default()
    }
}

/// Admits a draft at `now` with the default policy and no registered secrets.
pub fn admit(scope: &Scope, draft: Draft, now: Timestamp) -> Admitted {
    admit_by(scope, draft, now, 1)
}

/// Like `admit`, with another fingerprint of redaction rules.
pub fn admit_by(scope: &Scope, draft: Draft, now: Timestamp, scan: u64) -> Admitted {
    let policy = Policy::default();
    let admission = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: scan,
        now,
    };
    admission
        .admit(scope, draft)
        .expect("a test's draft is admissible")
}

/// Stores an entry at `now`.
pub async fn put(
    store: &dyn Store,
    scope: &Scope,
    name: &str,
    draft: Draft,
    at: Timestamp,
) -> CommitResult {
    let batch = Batch::new(scope.tenant.clone(), at).put(id(name), admit(scope, draft, at));
    let committed = store.commit(batch).await.expect("a plain put is stored");
    assert!(
        matches!(committed.outcomes[..], [ChangeOutcome::Stored { .. }]),
        "a put answers that it was stored"
    );
    committed
}

/// Deletes an entry at `at`.
pub async fn delete(store: &dyn Store, scope: &Scope, name: &str, at: Timestamp) -> CommitResult {
    let batch = Batch::new(scope.tenant.clone(), at).delete(scope.memory_ref.clone(), id(name));
    store.commit(batch).await.expect("a delete is applied")
}

/// All entries of the scope that are live at `at`, newest first.
pub async fn all(store: &dyn Store, scope: &Scope, at: &ReadAt) -> Vec<Entry> {
    let page = Page {
        limit: 100_000,
        after: None,
    };
    store
        .list(scope, &Filter::default(), &page, at)
        .await
        .expect("a list is answered")
}

/// The ids of entries as texts.
pub fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|e| e.id.as_str()).collect()
}
