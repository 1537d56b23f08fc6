//! Vectors and neighbours: a vector finds entries like words do, under the same conditions; it is
//! deleted with its text; the neighbours of an entry come in the order of `list`.

use super::{NOON, delete, draft, put, scope};
use remem_core::{Batch, Draft, Embedding, Entry, EntryId, ModelId, Scope};
use remem_store::{CandidateSet, Filter, Probe, ReadAt, Store, StoreError};

const MODEL: ModelId = ModelId(7);
const OTHER: ModelId = ModelId(8);

pub(super) async fn exercise(store: &dyn Store) {
    neighbours_follow_list_order(store).await;
    if !store.features().vectors {
        return;
    }
    a_vector_query_finds_near_entries(store).await;
    a_vector_is_erased_with_its_text(store).await;
    filters_and_ends_apply_to_vector_queries(store).await;
    vectors_of_another_dimension_are_kept(store).await;
}

/// A vector at this angle between two axes.
fn direction(degrees: f32) -> Embedding {
    let mut components = vec![0f32; 384];
    (components[0], components[1]) = (degrees.to_radians().cos(), degrees.to_radians().sin());
    Embedding::from_components(&components).expect("a direction")
}

async fn entry(store: &dyn Store, s: &Scope, id: &str) -> Entry {
    let id = EntryId::parse(id).expect("an id");
    store
        .get(s, &id, &ReadAt::Now(NOON))
        .await
        .expect("read")
        .expect("it is there")
}

async fn embed(
    store: &dyn Store,
    s: &Scope,
    id: &str,
    model: ModelId,
    vector: Embedding,
) -> Result<(), StoreError> {
    let entry = entry(store, s, id).await;
    store
        .commit(
            Batch::new(s.tenant.clone(), NOON)
                .as_host()
                .store_embedding(&entry, model, vector),
        )
        .await
        .map(|_| ())
}

async fn near(
    store: &dyn Store,
    s: &Scope,
    degrees: f32,
    filter: &Filter,
    at: &ReadAt,
) -> CandidateSet {
    let probe = Probe {
        terms: Vec::new(),
        vector: Some((MODEL, direction(degrees))),
    };
    store
        .search(s, &probe, filter, 3, at)
        .await
        .expect("a search is answered")
}

fn names(found: &CandidateSet) -> Vec<&str> {
    found
        .candidates
        .iter()
        .map(|hit| hit.entry.id.as_str())
        .collect()
}

async fn a_vector_query_finds_near_entries(store: &dyn Store) {
    let s = scope("vectors-near", "m");
    let other = scope("vectors-near", "other");
    for (n, id) in ["east", "north-east", "north", "west", "bare"]
        .into_iter()
        .enumerate()
    {
        put(
            store,
            &s,
            id,
            draft(&format!("entry about {id}")),
            NOON.plus_ms(n as i64),
        )
        .await;
    }
    put(store, &other, "foreign", draft("elsewhere"), NOON).await;
    assert_eq!(
        store
            .entries_without_vector(&s.tenant, MODEL, None, 9)
            .await
            .expect("read")
            .len(),
        6
    );
    for (id, degrees) in [
        ("east", 0.0),
        ("north-east", 45.0),
        ("north", 90.0),
        ("west", 180.0),
    ] {
        embed(store, &s, id, MODEL, direction(degrees))
            .await
            .expect("kept");
    }
    embed(store, &other, "foreign", MODEL, direction(1.0))
        .await
        .expect("kept");
    embed(store, &s, "bare", OTHER, direction(1.0))
        .await
        .expect("kept");
    let now = ReadAt::Now(NOON);
    let found = near(store, &s, 10.0, &Filter::default(), &now).await;
    assert_eq!(
        names(&found),
        ["east", "north-east", "north"],
        "the nearest three of the model, of this memory"
    );
    let cosines: Vec<f64> = found
        .candidates
        .iter()
        .filter_map(|hit| hit.cosine)
        .collect();
    assert!(
        (cosines[0] - 10f64.to_radians().cos()).abs() < 0.01,
        "{cosines:?}"
    );
    assert!(
        found
            .candidates
            .iter()
            .all(|hit| hit.lexical == 0.0 && hit.support == 1)
    );
    let both = Probe {
        terms: vec!["bare".into()],
        vector: Some((MODEL, direction(170.0))),
    };
    let both = store
        .search(&s, &both, &Filter::default(), 1, &now)
        .await
        .expect("read");
    assert_eq!(
        names(&both),
        ["bare", "west"],
        "one by its words, one by its direction"
    );
    assert!(
        both.candidates[0].cosine.is_none()
            && both.candidates[0].lexical > 0.0
            && both.candidates[1].lexical == 0.0
    );
    assert!(both.lexical_max > both.candidates[0].lexical);
    let missing: Vec<String> = store
        .entries_without_vector(&s.tenant, MODEL, None, 9)
        .await
        .expect("read")
        .into_iter()
        .map(|(_, e)| e.id.to_string())
        .collect();
    assert_eq!(missing, ["bare"]);
    let named = [
        (&s, "east"),
        (&s, "bare"),
        (&s, "bare"),
        (&s, "foreign"),
        (&other, "foreign"),
    ]
    .map(|(s, name)| (s.memory_ref.clone(), super::id(name)));
    for (model, without) in [(MODEL, vec!["bare"]), (OTHER, vec!["east", "foreign"])] {
        let mut found: Vec<String> = store
            .named_entries_without_vector(&s.tenant, model, &named)
            .await
            .expect("read")
            .into_iter()
            .map(|entry| entry.id.to_string())
            .collect();
        found.sort();
        assert_eq!(found, without, "each once");
    }
    let counts = store.vector_counts(&s.tenant).await.expect("read");
    assert_eq!(
        (counts.texts, counts.models),
        (6, vec![(MODEL, 5), (OTHER, 1)])
    );
    assert_eq!(
        store
            .discard_vectors(&s.tenant, &[OTHER], 2)
            .await
            .expect("done"),
        2
    );
    assert_eq!(
        store
            .discard_vectors(&s.tenant, &[OTHER], 9)
            .await
            .expect("done"),
        3
    );
    assert!(
        near(store, &s, 10.0, &Filter::default(), &now)
            .await
            .candidates
            .is_empty()
    );
}

async fn a_vector_is_erased_with_its_text(store: &dyn Store) {
    let s = scope("vectors-gone", "m");
    for id in ["stays", "deleted", "forgotten"] {
        put(store, &s, id, draft("a falcon"), NOON).await;
        embed(store, &s, id, MODEL, direction(0.0))
            .await
            .expect("kept");
    }
    let old = entry(store, &s, "deleted").await;
    delete(store, &s, "deleted", NOON).await;
    let id = EntryId::parse("forgotten").expect("an id");
    store
        .commit(
            Batch::new(s.tenant.clone(), NOON)
                .as_host()
                .forget(s.memory_ref.clone(), id),
        )
        .await
        .expect("forgotten");
    assert_eq!(
        store.vector_counts(&s.tenant).await.expect("read").models,
        [(MODEL, 1)]
    );
    assert_eq!(
        names(&near(store, &s, 0.0, &Filter::default(), &ReadAt::Now(NOON)).await),
        ["stays"]
    );
    // A vector computed from an earlier text comes too late.
    store
        .commit(
            Batch::new(s.tenant.clone(), NOON)
                .as_host()
                .store_embedding(&old, MODEL, direction(0.0)),
        )
        .await
        .expect("nothing to do");
    let changed = Entry {
        redaction_fingerprint: entry(store, &s, "stays")
            .await
            .redaction_fingerprint
            .wrapping_add(1),
        ..entry(store, &s, "stays").await
    };
    store
        .commit(
            Batch::new(s.tenant.clone(), NOON)
                .as_host()
                .store_embedding(&changed, OTHER, direction(0.0)),
        )
        .await
        .expect("nothing to do");
    assert_eq!(
        store.vector_counts(&s.tenant).await.expect("read").models,
        [(MODEL, 1)]
    );
}

async fn filters_and_ends_apply_to_vector_queries(store: &dyn Store) {
    let s = scope("vectors-filter", "m");
    put(
        store,
        &s,
        "tagged",
        Draft {
            tags: vec!["t".into()],
            ..draft("a")
        },
        NOON,
    )
    .await;
    put(
        store,
        &s,
        "short",
        Draft {
            expires_at: Some(NOON.plus_ms(5)),
            ..draft("b")
        },
        NOON.plus_ms(1),
    )
    .await;
    put(store, &s, "late", draft("c"), NOON.plus_ms(2)).await;
    for (id, degrees) in [("tagged", 30.0), ("short", 20.0), ("late", 10.0)] {
        embed(store, &s, id, MODEL, direction(degrees))
            .await
            .expect("kept");
    }
    let any = Filter::default();
    let now = ReadAt::Now(NOON.plus_ms(4));
    assert_eq!(
        names(&near(store, &s, 0.0, &any, &now).await),
        ["late", "short", "tagged"]
    );
    assert_eq!(
        names(&near(store, &s, 0.0, &any, &ReadAt::Now(NOON.plus_ms(5))).await),
        ["late", "tagged"]
    );
    let tag = Filter {
        tags: vec!["t".into()],
        ..Filter::default()
    };
    assert_eq!(names(&near(store, &s, 0.0, &tag, &now).await), ["tagged"]);
    let early = Filter {
        created_to: Some(NOON.plus_ms(2)),
        ..Filter::default()
    };
    assert_eq!(
        names(&near(store, &s, 0.0, &early, &now).await),
        ["short", "tagged"]
    );
}

async fn vectors_of_another_dimension_are_kept(store: &dyn Store) {
    let s = scope("vectors-width", "m");
    put(store, &s, "e", draft("a falcon"), NOON).await;
    let narrow = Embedding::from_components(&[1.0; 16]).expect("a direction");
    embed(store, &s, "e", OTHER, narrow.clone())
        .await
        .expect("kept");
    embed(store, &s, "e", MODEL, direction(0.0))
        .await
        .expect("kept");
    let now = ReadAt::Now(NOON);
    let probe = Probe {
        terms: Vec::new(),
        vector: Some((OTHER, narrow)),
    };
    assert_eq!(
        names(
            &store
                .search(&s, &probe, &Filter::default(), 3, &now)
                .await
                .expect("read")
        ),
        ["e"]
    );
    assert_eq!(
        names(&near(store, &s, 0.0, &Filter::default(), &now).await),
        ["e"]
    );
}

async fn neighbours_follow_list_order(store: &dyn Store) {
    let s = scope("neighbours", "m");
    for (n, id) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        put(store, &s, id, draft(id), NOON.plus_ms(n as i64 / 2)).await;
    }
    put(
        store,
        &scope("neighbours", "other"),
        "x",
        draft("x"),
        NOON.plus_ms(1),
    )
    .await;
    delete(store, &s, "d", NOON.plus_ms(9)).await;
    let ids: Vec<EntryId> = ["c", "a", "d", "none"]
        .iter()
        .filter_map(|id| EntryId::parse(id))
        .collect();
    let around = store
        .neighbours(&s, &ids, 2, &ReadAt::Now(NOON.plus_ms(9)))
        .await
        .expect("read");
    let view: Vec<(String, Vec<String>, Vec<String>)> = around
        .into_iter()
        .map(|one| {
            let names = |side: Vec<Entry>| side.into_iter().map(|e| e.id.to_string()).collect();
            (one.id.to_string(), names(one.before), names(one.after))
        })
        .collect();
    let row = |id: &str, before: &[&str], after: &[&str]| {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        (id.to_owned(), own(before), own(after))
    };
    assert_eq!(
        view,
        [row("c", &["b", "a"], &["e"]), row("a", &[], &["b", "c"])]
    );
}
