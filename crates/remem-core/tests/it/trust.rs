//! The trust that admission stores for the trust that a draft claims.

use remem_core::{
    Admission, Draft, Facets, MemoryRef, Policy, Redactor, Scope, TenantId, Timestamp, Trust,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// The slot that is stored for a draft of that trust which asks for one.
fn slot_of(trust: Trust) -> Option<String> {
    let scope = Scope::new(
        TenantId::parse("a").unwrap(),
        MemoryRef::parse("m").unwrap(),
    );
    let draft = Draft {
        content: "Ana drinks tea".to_owned(),
        facets: Facets {
            slot: Some("drink".to_owned()),
            trust,
            ..Facets::default()
        },
        ..Draft::default()
    };
    let policy = Policy::default();
    let admission = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: 1,
        now: NOW,
    };
    admission
        .admit(&scope, draft)
        .unwrap()
        .facets()
        .slot
        .clone()
}

#[test]
fn an_untrusted_entry_fills_no_slot() {
    assert_eq!(slot_of(Trust::Operator).as_deref(), Some("drink"));
    assert_eq!(slot_of(Trust::Untrusted), None);
}
