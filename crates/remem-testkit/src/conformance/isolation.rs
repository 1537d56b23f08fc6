//! Isolation: a tenant's answers are the same whether or not another tenant exists, bit for bit.

use super::search::find;
use super::{NOON, all, delete, draft, id, put, scope};
use remem_core::{Draft, Scope, Seq};
use remem_store::{ChangeOutcome, Filter, ReadAt, Store};

pub(super) async fn exercise(store: &dyn Store) {
    let alone = scope("isolation-alone", "shared/name");
    let watched = scope("isolation-watched", "shared/name");
    let noisy = scope("isolation-noisy", "shared/name");
    fill(store, &alone).await;
    fill(store, &watched).await;
    for n in 0..100 {
        let tags = vec!["t".to_owned()];
        put(
            store,
            &noisy,
            &format!("e{n}"),
            Draft {
                tags,
                ..draft("falcon falcon falcon heron")
            },
            NOON,
        )
        .await;
    }
    assert_eq!(view(store, &alone).await, view(store, &watched).await);
    assert_eq!(
        all(store, &noisy, &ReadAt::Now(NOON)).await.len(),
        100,
        "the other tenant's data is really there"
    );
    assert_eq!(
        store
            .get(&watched, &id("e50"), &ReadAt::Now(NOON))
            .await
            .expect("read"),
        None
    );
    assert_eq!(
        delete(store, &watched, "e50", NOON).await.outcomes,
        [ChangeOutcome::NoChange],
        "nor can it be deleted from here"
    );
    assert!(
        store
            .get(&noisy, &id("e50"), &ReadAt::Now(NOON))
            .await
            .expect("read")
            .is_some()
    );
}

async fn fill(store: &dyn Store, s: &Scope) {
    put(
        store,
        s,
        "e1",
        Draft {
            tags: vec!["t".into()],
            ..draft("a falcon over the river")
        },
        NOON,
    )
    .await;
    put(store, s, "e2", draft("the heron and the falcon"), NOON).await;
    put(store, s, "e3", draft("nothing here"), NOON).await;
}

/// Everything that a tenant can see, ranks and scores included.
async fn view(store: &dyn Store, s: &Scope) -> String {
    let now = ReadAt::Now(NOON);
    let mut view = String::new();
    for entry in all(store, s, &now).await {
        view.push_str(&format!(
            "{:?} {} {:?}\n",
            entry.id, entry.content, entry.tags
        ));
    }
    for hit in find(store, s, &["falcon", "heron"], &Filter::default(), &now).await {
        view.push_str(&format!(
            "{:?} {:016x}\n",
            hit.entry.id,
            hit.lexical.to_bits()
        ));
    }
    for event in store.events(&s.tenant, Seq(0), 100).await.expect("read") {
        view.push_str(&format!("{event:?}\n"));
    }
    let stats = store.stats(s, &now).await.expect("read");
    let head = store.head(&s.tenant).await.expect("read");
    let scopes = store
        .memories(&s.tenant, &remem_core::Actor::NoUser, None, 100, &now)
        .await
        .expect("read");
    view + &format!("{stats:?} {head:?} {scopes:?}")
}
