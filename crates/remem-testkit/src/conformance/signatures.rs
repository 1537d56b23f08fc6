//! Signatures: which entries consolidation has read, and that a signature never outlives its
//! text.

use super::memory::MemoryFixture;
use super::{NOON, admit, admit_by, draft, id, in_session, scope};
use remem_core::{Draft, RetireReason, Tier};
use remem_store::{ChangeOutcome, RowCursor, Store};

pub(super) async fn exercise(store: &dyn Store) {
    comparable_entries_are_listed_in_pages(store).await;
    a_signature_is_erased_with_its_text(store).await;
    signing_adds_no_revision(store).await;
}

async fn unsigned(m: &MemoryFixture<'_>) -> Vec<String> {
    let found = m
        .store
        .entries_without_signature(&m.s, None, 99)
        .await
        .expect("read");
    assert!(
        found.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "in the store's order"
    );
    found
        .into_iter()
        .map(|(_, entry)| entry.id.as_str().to_owned())
        .collect()
}

async fn signed(m: &MemoryFixture<'_>) -> Vec<(String, u64, Vec<u8>)> {
    let found = m.store.signatures(&m.s, None, 99).await.expect("read");
    assert!(
        found.windows(2).all(|pair| pair[0].row < pair[1].row),
        "in the store's order"
    );
    found
        .into_iter()
        .map(|s| (s.id.as_str().to_owned(), s.pass, s.signature))
        .collect()
}

async fn sign(m: &MemoryFixture<'_>, name: &str, pass: u64) -> ChangeOutcome {
    m.commit(
        m.batch()
            .store_signature(m.memory_ref(), id(name), pass, vec![pass as u8, 0, 255]),
    )
    .await
    .remove(0)
}

async fn comparable_entries_are_listed_in_pages(store: &dyn Store) {
    let m = MemoryFixture::new(store, "signatures-pages");
    let elsewhere = MemoryFixture {
        store,
        s: scope("signatures-pages", "elsewhere"),
    };
    elsewhere.put(&["e1", "e2", "e3"]).await;
    m.put(&["a", "b", "c", "d", "gone", "merged"]).await;
    let odd = [
        (
            "ends",
            Draft {
                expires_at: Some(NOON.plus_ms(10)),
                ..draft("word ends")
            },
        ),
        (
            "session",
            Draft {
                tier: Tier::Session,
                facets: in_session("s1"),
                ..draft("word session")
            },
        ),
    ];
    for (name, draft) in odd {
        m.commit(m.batch().put(id(name), admit(&m.s, draft, NOON)))
            .await;
    }
    m.delete("gone").await;
    m.retire("merged", RetireReason::Merged, "a").await;
    assert_eq!(unsigned(&m).await, ["a", "b", "c", "d"]);
    let all = store
        .entries_without_signature(&m.s, None, 99)
        .await
        .expect("read");
    let page = store
        .entries_without_signature(&m.s, Some(all[0].0), 2)
        .await
        .expect("read");
    assert_eq!(page, all[1..3], "after the first, two of them");
    assert_eq!(page[0].1.content, "word b");
    assert_eq!(sign(&m, "b", 7).await, ChangeOutcome::Done);
    assert_eq!(
        (sign(&m, "ends", 7).await, sign(&m, "session", 7).await),
        (ChangeOutcome::Done, ChangeOutcome::Done),
        "but nobody is shown those"
    );
    for name in ["gone", "merged", "never"] {
        assert_eq!(sign(&m, name, 7).await, ChangeOutcome::NoChange, "{name}");
    }
    sign(&m, "d", 8).await;
    assert_eq!(unsigned(&m).await, ["a", "c"]);
    assert_eq!(
        signed(&m).await,
        [
            ("b".to_owned(), 7, vec![7, 0, 255]),
            ("d".to_owned(), 8, vec![8, 0, 255])
        ]
    );
    let found = store.signatures(&m.s, None, 1).await.expect("read");
    assert_eq!(
        (
            found.len(),
            found[0].row,
            found[0].created_at,
            found[0].typology
        ),
        (1, all[1].0, NOON, all[1].1.typology)
    );
    let rest = store
        .signatures(&m.s, Some(found[0].row), 9)
        .await
        .expect("read");
    assert_eq!(rest.iter().map(|s| s.row).collect::<Vec<_>>(), [all[3].0]);
    let rows: Vec<RowCursor> = [3, 0, 3].iter().map(|n| all[*n].0).collect();
    assert_eq!(
        store.entries_at(&m.s, &rows).await.expect("read"),
        [all[0].clone(), all[3].clone()],
        "once each, in order"
    );
    let foreign: Vec<RowCursor> = store
        .entries_without_signature(&elsewhere.s, None, 9)
        .await
        .expect("read")
        .iter()
        .map(|(row, _)| *row)
        .collect();
    assert_eq!(foreign.len(), 3);
    assert!(
        store
            .entries_at(&m.s, &foreign)
            .await
            .expect("read")
            .is_empty(),
        "another memory's places are none here"
    );
    assert!(store.entries_at(&m.s, &[]).await.expect("read").is_empty());
    m.delete("a").await;
    assert_eq!(
        store.entries_at(&m.s, &rows).await.expect("read"),
        [all[3].clone()],
        "live ones only"
    );
    let nowhere = scope("signatures-pages-other", "m");
    assert!(
        store
            .entries_without_signature(&nowhere, None, 9)
            .await
            .expect("read")
            .is_empty()
    );
    assert!(
        store
            .signatures(&nowhere, None, 9)
            .await
            .expect("read")
            .is_empty()
    );
    assert!(
        store
            .entries_at(&nowhere, &rows)
            .await
            .expect("read")
            .is_empty()
    );
}

async fn a_signature_is_erased_with_its_text(store: &dyn Store) {
    let m = MemoryFixture::new(store, "signatures-text");
    m.put(&[
        "same",
        "rewritten",
        "merged",
        "into",
        "deleted",
        "forgotten",
    ])
    .await;
    for name in [
        "same",
        "rewritten",
        "merged",
        "into",
        "deleted",
        "forgotten",
    ] {
        sign(&m, name, 1).await;
    }
    assert!(unsigned(&m).await.is_empty());
    let text = |text: &str| admit_by(&m.s, draft(text), NOON, 2);
    let batch = m
        .batch()
        .rewrite(id("rewritten"), text("word redacted"))
        .rewrite(id("same"), text("word same"));
    assert_eq!(
        m.commit(batch).await,
        [ChangeOutcome::Removed, ChangeOutcome::NoChange]
    );
    m.retire("merged", RetireReason::Merged, "into").await;
    m.delete("deleted").await;
    m.forget("forgotten").await;
    let names: Vec<String> = signed(&m)
        .await
        .into_iter()
        .map(|(name, _, _)| name)
        .collect();
    assert_eq!(
        (names, unsigned(&m).await),
        (
            vec!["same".to_owned(), "into".to_owned()],
            vec!["rewritten".to_owned()]
        )
    );
    // A revived entry needs a new signature.
    m.commit(
        m.batch()
            .forget(m.memory_ref(), id("into"))
            .revive(m.memory_ref(), id("merged")),
    )
    .await;
    assert_eq!(unsigned(&m).await, ["rewritten", "merged"]);
    sign(&m, "same", 2).await;
    assert_eq!(
        signed(&m).await,
        [("same".to_owned(), 2, vec![2, 0, 255])],
        "the last one counts"
    );
    m.verify().await;
}

async fn signing_adds_no_revision(store: &dyn Store) {
    let m = MemoryFixture::new(store, "signatures-silent");
    m.put(&["a"]).await;
    let head = m.head().await;
    let batch = m
        .batch()
        .store_signature(m.memory_ref(), id("a"), 1, vec![1])
        .store_signature(m.memory_ref(), id("a"), 2, vec![2]);
    let committed = store.commit(batch).await.expect("signed");
    assert_eq!(
        (committed.outcomes, committed.revision),
        (vec![ChangeOutcome::Done, ChangeOutcome::Done], head.0)
    );
    assert_eq!(
        (m.head().await, signed(&m).await),
        (head, vec![("a".to_owned(), 2, vec![2])])
    );
    m.verify().await;
}
