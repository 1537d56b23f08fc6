//! Time: entries expire at their millisecond, clocks only move forward, and SQL agrees with
//! `Entry::is_live`.

use super::{NOON, admit, all, draft, id, names, put, scope};
use remem_core::{Batch, Draft, EventKind, Seq, Timestamp};
use remem_store::{ChangeOutcome, DueWork, ReadAt, Store};

pub(super) async fn exercise(store: &dyn Store) {
    an_entry_expires_at_its_millisecond(store).await;
    purge_removes_only_ended_entries(store).await;
    a_backward_clock_does_not_reorder_entries(store).await;
    lists_hold_only_live_entries(store).await;
}

fn ending(ms: i64) -> Draft {
    Draft {
        expires_at: Some(NOON.plus_ms(ms)),
        ..draft("ends")
    }
}

async fn an_entry_expires_at_its_millisecond(store: &dyn Store) {
    let s = scope("time-end", "m");
    put(store, &s, "e", ending(10), NOON).await;
    for (ms, there) in [(9, true), (10, false), (11, false)] {
        let at = ReadAt::Now(NOON.plus_ms(ms));
        assert_eq!(
            store.get(&s, &id("e"), &at).await.expect("read").is_some(),
            there,
            "{ms} ms"
        );
        assert_eq!(all(store, &s, &at).await.len(), usize::from(there));
        assert_eq!(
            store.stats(&s, &at).await.expect("read").entries,
            u64::from(there)
        );
    }
    let late = Batch::new(s.tenant.clone(), NOON.plus_ms(10)).delete(s.memory_ref.clone(), id("e"));
    assert_eq!(
        store.commit(late).await.expect("answered").outcomes,
        [ChangeOutcome::NoChange],
        "an ended entry cannot be deleted"
    );
}

async fn purge_removes_only_ended_entries(store: &dyn Store) {
    let s = scope("time-purge", "m");
    put(store, &s, "early", ending(10), NOON).await;
    put(store, &s, "late", ending(20), NOON).await;
    put(store, &s, "never", draft("stays"), NOON).await;
    let then = NOON.plus_ms(10);
    assert!(
        store
            .tenants_with_work(DueWork::Purge, then)
            .await
            .expect("read")
            .contains(&s.tenant)
    );
    let expired = store
        .expired_entries(&s.tenant, then, 10)
        .await
        .expect("read");
    assert_eq!(expired, [(s.memory_ref.clone(), id("early"))]);
    let mut purge = Batch::new(s.tenant.clone(), then);
    for name in ["early", "late", "never"] {
        purge = purge.expire(s.memory_ref.clone(), id(name));
    }
    let outcomes = store.commit(purge.clone()).await.expect("applied").outcomes;
    assert_eq!(
        outcomes,
        [
            ChangeOutcome::Removed,
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange
        ]
    );
    assert_eq!(
        store.commit(purge).await.expect("applied").outcomes,
        [
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange,
            ChangeOutcome::NoChange
        ]
    );
    // Even a reader whose clock is behind does not see it again.
    assert_eq!(
        names(&all(store, &s, &ReadAt::Now(NOON)).await),
        ["never", "late"]
    );
    let last = store.events(&s.tenant, Seq(3), 10).await.expect("read");
    assert_eq!(
        last.iter().map(|e| e.body.kind()).collect::<Vec<_>>(),
        [EventKind::Expired]
    );
    store.scrub(&s.tenant, NOON, false).await.expect("scrubbed");
    assert!(
        !store
            .tenants_with_work(DueWork::Purge, then)
            .await
            .expect("read")
            .contains(&s.tenant),
        "nothing is due until the next end"
    );
    assert!(
        store
            .tenants_with_work(DueWork::Purge, NOON.plus_ms(20))
            .await
            .expect("read")
            .contains(&s.tenant)
    );
}

async fn a_backward_clock_does_not_reorder_entries(store: &dyn Store) {
    let s = scope("time-back", "m");
    put(store, &s, "first", draft("x"), NOON).await;
    let second = put(
        store,
        &s,
        "second",
        draft("x"),
        Timestamp(NOON.0 - 3_600_000),
    )
    .await;
    assert_eq!(
        second.at, NOON,
        "a commit is never dated before the one before it"
    );
    assert_eq!(
        names(&all(store, &s, &ReadAt::Now(NOON)).await),
        ["second", "first"]
    );
    assert_eq!(store.head(&s.tenant).await.expect("read").at, NOON);
}

/// The SQL condition and the Rust function must agree on a random history.
async fn lists_hold_only_live_entries(store: &dyn Store) {
    let s = scope("time-live", "m");
    let mut state = 42u64;
    let mut random = move |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for n in 0..60 {
        let at = NOON.plus_ms(n);
        if random(3) == 0 {
            let name = format!("e{}", random(60));
            let gone = Batch::new(s.tenant.clone(), at).delete(s.memory_ref.clone(), id(&name));
            store.commit(gone).await.expect("answered");
        }
        let end = (random(2) == 0).then(|| at.plus_ms(1 + random(60) as i64));
        let admitted = admit(
            &s,
            Draft {
                expires_at: end,
                ..draft("x")
            },
            at,
        );
        store
            .commit(Batch::new(s.tenant.clone(), at).put(id(&format!("e{n}")), admitted))
            .await
            .expect("stored");
    }
    // At the beginning of time nothing has expired: this is every entry that was not deleted.
    let not_deleted = all(store, &s, &ReadAt::Now(Timestamp(0))).await;
    for ms in (0..130).step_by(7) {
        let at = NOON.plus_ms(ms);
        let listed = all(store, &s, &ReadAt::Now(at)).await;
        let live: Vec<_> = not_deleted
            .iter()
            .filter(|e| e.is_live(at))
            .cloned()
            .collect();
        assert_eq!(listed, live, "{ms} ms");
    }
}
