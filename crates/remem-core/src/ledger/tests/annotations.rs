//! Texts that are redacted again, vectors, signatures and links.

use super::*;
use crate::{ActionText, Embedding, Entry, ModelId};

fn vector() -> Embedding {
    Embedding::from_components(&[1.0; 8]).unwrap()
}

fn entry(redaction_fingerprint: u64) -> Entry {
    Entry {
        id: id("e"),
        memory_ref: memory(),
        content: String::new(),
        tags: Vec::new(),
        metadata: None,
        created_at: NOON,
        expires_at: None,
        tier: crate::Tier::Persistent,
        typology: crate::Typology::Semantic,
        facets: crate::Facets::default(),
        visible: crate::entry::RevisionRange {
            from: crate::Revision(1),
            to: None,
        },
        redaction_fingerprint,
    }
}

#[test]
fn a_vector_is_stored_only_for_the_text_that_it_was_made_from() {
    let mut ledger = Ledger::with(&["e"]);
    let embed = |print| batch().store_embedding(&entry(print), ModelId(1), vector());
    assert_eq!(ledger.commit(embed(2)), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.commit(embed(1)), [ChangeOutcome::Done]);
    let draft = Draft {
        content: "other words".into(),
        ..Draft::default()
    };
    ledger.commit(batch().rewrite(id("e"), admit(draft, 2)));
    let key = ledger.key("e");
    let effects = ledger.effects();
    assert!(effects.vectors.is_empty(), "it went with the old text");
    assert_eq!(effects.vectors_deleted, [key]);
    assert_eq!(effects.signatures, [(key, None)]);
}

#[test]
fn a_text_that_redaction_leaves_as_it_was_only_notes_the_rules() {
    let mut ledger = Ledger::with(&["e"]);
    ledger.reload();
    let draft = Draft {
        content: "e".into(),
        tags: vec!["tag".into()],
        ..Draft::default()
    };
    let rewritten = ledger.commit(batch().rewrite(id("e"), admit(draft, 2)));
    assert_eq!(rewritten, [ChangeOutcome::NoChange]);
    assert_eq!(ledger.row("e").redaction_fingerprint, 2);
    let effects = ledger.effects();
    assert!(effects.entries[0].rewrites() && !effects.entries[0].changes_state());
    assert!(effects.entries[0].index_change().is_none());
    assert!(effects.events.is_empty() && effects.clock.is_none());
}

#[test]
fn a_link_is_made_once_and_renamed_only_as_it_was_read() {
    let mut ledger = Ledger::with(&["e"]);
    let link = || batch().link_action(memory(), id("e"), "a".into(), "r".into());
    assert_eq!(ledger.commit(link()), [ChangeOutcome::Done]);
    assert_eq!(ledger.commit(link()), [ChangeOutcome::NoChange]);
    let text = |action: &str| ActionText {
        action: action.into(),
        reference: "r".into(),
    };
    let rename =
        |from: &str, to: &str| batch().rewrite_action(memory(), id("e"), text(from), text(to));
    assert_eq!(ledger.commit(rename("x", "y")), [ChangeOutcome::NoChange]);
    assert_eq!(ledger.commit(rename("a", "b")), [ChangeOutcome::Done]);
    let (key, link) = ledger.0.links.iter().next().unwrap();
    assert_eq!((&*key.action, &*link.action), ("a", "b"));
}
