//! Lexical search: finds words and their inflections, honours filters, treats nothing as syntax.

use super::workshop::{batch, commit};
use super::{NOON, delete, draft, id, put, scope};
use remem_core::{Draft, Scope};
use remem_store::{Filter, Probe, ReadAt, SearchCandidate, Store};

pub(super) async fn exercise(store: &dyn Store) {
    hits_are_ranked_by_matching_words(store).await;
    filters_and_ends_apply_to_search(store).await;
    queries_have_no_syntax(store).await;
    a_misspelled_word_matches_a_similar_term(store).await;
    reads_count_linked_actions(store).await;
}

/// Searches for these words; returns the candidates.
pub(super) async fn find(
    store: &dyn Store,
    s: &Scope,
    terms: &[&str],
    filter: &Filter,
    at: &ReadAt,
) -> Vec<SearchCandidate> {
    let probe = Probe::words(terms.iter().map(|t| (*t).to_owned()).collect());
    store
        .search(s, &probe, filter, 10, at)
        .await
        .expect("a search is answered")
        .candidates
}

fn hit_names(hits: &[SearchCandidate]) -> Vec<&str> {
    hits.iter().map(|h| h.entry.id.as_str()).collect()
}

async fn hits_are_ranked_by_matching_words(store: &dyn Store) {
    let s = scope("search-words", "m");
    put(
        store,
        &s,
        "both",
        draft("The invoices of Zürich were paid"),
        NOON,
    )
    .await;
    put(store, &s, "one", draft("An invoice is open"), NOON).await;
    put(store, &s, "none", draft("Nothing to see"), NOON).await;
    put(
        store,
        &scope("search-words", "other"),
        "foreign",
        draft("invoice Zürich"),
        NOON,
    )
    .await;
    let now = ReadAt::Now(NOON);
    let hits = find(store, &s, &["invoice", "zurich"], &Filter::default(), &now).await;
    assert_eq!(
        hit_names(&hits),
        ["both", "one"],
        "stems and accents do not matter; the other memory does not show"
    );
    assert!(hits[0].lexical > hits[1].lexical && hits[1].lexical > 0.0);
    assert!(
        find(store, &s, &[], &Filter::default(), &now)
            .await
            .is_empty()
    );
    assert!(
        find(store, &s, &["absent"], &Filter::default(), &now)
            .await
            .is_empty()
    );
    let probe = Probe::words(vec!["invoice".into()]);
    assert_eq!(
        store
            .search(&s, &probe, &Filter::default(), 1, &now)
            .await
            .expect("read")
            .candidates
            .len(),
        1
    );
}

async fn filters_and_ends_apply_to_search(store: &dyn Store) {
    let s = scope("search-filters", "m");
    put(
        store,
        &s,
        "tagged",
        Draft {
            tags: vec!["t".into()],
            ..draft("falcon")
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
            ..draft("falcon")
        },
        NOON.plus_ms(1),
    )
    .await;
    put(store, &s, "gone", draft("falcon"), NOON.plus_ms(2)).await;
    delete(store, &s, "gone", NOON.plus_ms(3)).await;
    let any = Filter::default();
    assert_eq!(
        hit_names(&find(store, &s, &["falcon"], &any, &ReadAt::Now(NOON.plus_ms(4))).await),
        ["short", "tagged"]
    );
    assert_eq!(
        hit_names(&find(store, &s, &["falcon"], &any, &ReadAt::Now(NOON.plus_ms(5))).await),
        ["tagged"]
    );
    let tag = Filter {
        tags: vec!["t".into()],
        ..Filter::default()
    };
    assert_eq!(
        hit_names(&find(store, &s, &["falcon"], &tag, &ReadAt::Now(NOON)).await),
        ["tagged"]
    );
    let late = Filter {
        created_from: Some(NOON.plus_ms(1)),
        ..Filter::default()
    };
    assert_eq!(
        hit_names(&find(store, &s, &["falcon"], &late, &ReadAt::Now(NOON)).await),
        ["short"]
    );
}

async fn queries_have_no_syntax(store: &dyn Store) {
    let s = scope("search-syntax", "m");
    put(store, &s, "e", draft("plain text"), NOON).await;
    let now = ReadAt::Now(NOON);
    for hostile in [
        "\"",
        "a\"b",
        "*",
        "plain*",
        "NEAR(",
        "content:plain",
        "-",
        "(",
        "^",
        "plain OR",
        "\u{0}",
        "'; DROP TABLE entry; --",
    ] {
        find(store, &s, &[hostile], &Filter::default(), &now).await;
    }
    assert_eq!(
        hit_names(&find(store, &s, &["plain"], &Filter::default(), &now).await),
        ["e"]
    );
}

async fn a_misspelled_word_matches_a_similar_term(store: &dyn Store) {
    let s = scope("search-slips", "m");
    put(store, &s, "name", draft("Kathryn moved to Lisbon"), NOON).await;
    put(
        store,
        &s,
        "other",
        draft("The invoice of Lisbon is open"),
        NOON.plus_ms(1),
    )
    .await;
    put(
        store,
        &scope("search-slips", "n"),
        "foreign",
        draft("Katheryn"),
        NOON,
    )
    .await;
    let any = Filter::default();
    let now = ReadAt::Now(NOON.plus_ms(9));
    let hits = find(store, &s, &["katheryn"], &any, &now).await;
    assert_eq!(
        hit_names(&hits),
        ["name"],
        "one slip away; that another memory holds the word as it is written does not matter"
    );
    let right = find(store, &s, &["kathryn"], &any, &now).await;
    assert!(
        hits[0].lexical == 0.0
            && hits[0].correction_score > 0.0
            && hits[0].correction_score < right[0].lexical
            && right[0].correction_score == 0.0
    );
    let mixed = find(store, &s, &["katheryn", "invoice"], &any, &now).await;
    assert_eq!(
        hit_names(&mixed),
        ["other", "name"],
        "the word that was asked for weighs more"
    );
    assert!(
        find(store, &s, &["kathy"], &any, &now).await.is_empty(),
        "two slips are another word"
    );
    delete(store, &s, "name", NOON.plus_ms(3)).await;
    assert!(find(store, &s, &["katheryn"], &any, &now).await.is_empty());
    put(
        store,
        &s,
        "held",
        draft("Katheryn with an e"),
        NOON.plus_ms(4),
    )
    .await;
    assert_eq!(
        hit_names(&find(store, &s, &["katheryn"], &any, &now).await),
        ["held"]
    );
}

async fn reads_count_linked_actions(store: &dyn Store) {
    let s = scope("search-uses", "m");
    put(store, &s, "used", draft("falcon"), NOON).await;
    put(store, &s, "unused", draft("falcon"), NOON).await;
    for (n, action) in [(1, "sent"), (2, "published"), (3, "sent")] {
        commit(
            store,
            batch(&s, n).link_action(
                s.memory_ref.clone(),
                id("used"),
                action.into(),
                "r-1".into(),
            ),
        )
        .await;
    }
    let hits = find(
        store,
        &s,
        &["falcon"],
        &Filter::default(),
        &ReadAt::Now(NOON.plus_ms(9)),
    )
    .await;
    let uses: Vec<(&str, u64)> = hits
        .iter()
        .map(|hit| (hit.entry.id.as_str(), hit.uses))
        .collect();
    assert_eq!(uses, [("used", 2), ("unused", 0)]);
}
