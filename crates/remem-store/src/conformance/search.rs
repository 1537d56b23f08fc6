//! Lexical search: finds words and their inflections, honours filters, treats nothing as syntax.

use super::{NOON, delete, draft, put, scope};
use crate::read::{Candidate, Filter, Probe, ReadAt};
use crate::store::Store;
use remem_core::{Draft, Scope};

pub(super) async fn exercise(store: &dyn Store) {
    if !store.features().lexical {
        return;
    }
    words_are_found_best_first(store).await;
    filters_and_ends_hold_in_search(store).await;
    nothing_typed_is_syntax(store).await;
}

/// The hits for these words.
pub(super) async fn find(store: &dyn Store, s: &Scope, terms: &[&str], filter: &Filter, at: &ReadAt) -> Vec<Candidate> {
    let probe = Probe::Lexical { terms: terms.iter().map(|t| (*t).to_owned()).collect() };
    store.candidates(s, &probe, filter, 10, at).await.expect("a search is answered")
}

fn hit_names(hits: &[Candidate]) -> Vec<&str> {
    hits.iter().map(|h| h.entry.id.as_str()).collect()
}

async fn words_are_found_best_first(store: &dyn Store) {
    let s = scope("search-words", "m");
    put(store, &s, "both", draft("The invoices of Zürich were paid"), NOON).await;
    put(store, &s, "one", draft("An invoice is open"), NOON).await;
    put(store, &s, "none", draft("Nothing to see"), NOON).await;
    put(store, &scope("search-words", "other"), "foreign", draft("invoice Zürich"), NOON).await;
    let now = ReadAt::Now(NOON);
    let hits = find(store, &s, &["invoice", "zurich"], &Filter::default(), &now).await;
    assert_eq!(hit_names(&hits), ["both", "one"], "stems and accents do not matter; the other memory does not show");
    assert!(hits[0].score > hits[1].score && hits[1].score > 0.0);
    assert!(find(store, &s, &[], &Filter::default(), &now).await.is_empty());
    assert!(find(store, &s, &["absent"], &Filter::default(), &now).await.is_empty());
    let probe = Probe::Lexical { terms: vec!["invoice".into()] };
    assert_eq!(store.candidates(&s, &probe, &Filter::default(), 1, &now).await.expect("read").len(), 1);
}

async fn filters_and_ends_hold_in_search(store: &dyn Store) {
    let s = scope("search-filters", "m");
    put(store, &s, "tagged", Draft { tags: vec!["t".into()], ..draft("falcon") }, NOON).await;
    put(store, &s, "short", Draft { expires_at: Some(NOON.plus_ms(5)), ..draft("falcon") }, NOON.plus_ms(1)).await;
    put(store, &s, "gone", draft("falcon"), NOON.plus_ms(2)).await;
    delete(store, &s, "gone", NOON.plus_ms(3)).await;
    let any = Filter::default();
    assert_eq!(hit_names(&find(store, &s, &["falcon"], &any, &ReadAt::Now(NOON.plus_ms(4))).await), ["short", "tagged"]);
    assert_eq!(hit_names(&find(store, &s, &["falcon"], &any, &ReadAt::Now(NOON.plus_ms(5))).await), ["tagged"]);
    let tag = Filter { tags: vec!["t".into()], ..Filter::default() };
    assert_eq!(hit_names(&find(store, &s, &["falcon"], &tag, &ReadAt::Now(NOON)).await), ["tagged"]);
    let late = Filter { created_from: Some(NOON.plus_ms(1)), ..Filter::default() };
    assert_eq!(hit_names(&find(store, &s, &["falcon"], &late, &ReadAt::Now(NOON)).await), ["short"]);
}

async fn nothing_typed_is_syntax(store: &dyn Store) {
    let s = scope("search-syntax", "m");
    put(store, &s, "e", draft("plain text"), NOON).await;
    let now = ReadAt::Now(NOON);
    for hostile in ["\"", "a\"b", "*", "plain*", "NEAR(", "content:plain", "-", "(", "^", "plain OR", "\u{0}", "'; DROP TABLE entry; --"] {
        find(store, &s, &[hostile], &Filter::default(), &now).await;
    }
    assert_eq!(hit_names(&find(store, &s, &["plain"], &Filter::default(), &now).await), ["e"]);
}
