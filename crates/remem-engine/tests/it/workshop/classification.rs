//! Tiers, kinds and profiles: which entries a workshop memory accepts, and what is refused.

use super::{RULE, WorkshopTest, in_world, rejected, said, turn};
use remem_core::profile::DAY_MS;
use remem_core::{
    Actor, Batch, Draft, Facets, InteractionId, MemoryRef, PrincipalId, Profile, Profiles,
    Rejection, Scope, Tier, Typology, WorldId,
};
use remem_store::{RetentionState, StoreError};
use remem_testkit::NOON;

#[tokio::test]
async fn d02_each_tier_is_anchored_to_its_session_or_interaction() {
    let shop = WorkshopTest::open().await;
    let heard = shop
        .put("~/ops", turn("t1", "operator", None, "hello"))
        .await
        .unwrap();
    let session = heard.facets.session.clone().unwrap();
    assert_eq!(
        heard.facets.interaction.as_ref().map(|id| id.as_str()),
        Some("t1")
    );
    let task = Draft {
        content: "Draft three of the card".into(),
        tier: Tier::Session,
        typology: Typology::Procedural,
        ..Draft::default()
    };
    let task = shop.put("~/ops", task).await.unwrap();
    assert_eq!(
        (task.facets.session, task.facets.interaction),
        (Some(session), None),
        "the same session"
    );
    let fact = shop.tell("Nadia's role is release manager.").await;
    assert_eq!(
        (fact.tier, fact.facets.session, fact.facets.interaction),
        (Tier::Persistent, None, None)
    );
    let mut odd = turn("t1", "operator", None, "x");
    odd.tier = Tier::Persistent;
    odd.typology = Typology::Semantic;
    assert!(matches!(
        rejected(shop.put("~/ops", odd).await.unwrap_err()),
        Rejection::Invalid {
            field: "interaction",
            ..
        }
    ));
}

#[tokio::test]
async fn d03_only_allowed_tier_and_typology_pairs_are_stored() {
    let shop = WorkshopTest::open().await;
    for tier in Tier::ALL {
        for typology in Typology::ALL {
            let mut draft = Draft {
                content: format!("{tier:?} {typology:?} words"),
                tier,
                typology,
                ..Draft::default()
            };
            draft.facets.interaction = (tier == Tier::Interaction)
                .then(|| InteractionId::parse("t1"))
                .flatten();
            let put = shop.put("~/ops", draft).await;
            assert_eq!(put.is_ok(), tier.allows(typology), "{tier:?} {typology:?}");
        }
    }
    // A draft without classification is classified, and a transcript stays in its session.
    let talk = shop
        .tell("User: could you start the distillation?\nAgent: it is running.")
        .await;
    assert_eq!(
        (talk.tier, talk.typology),
        (Tier::Session, Typology::Episodic)
    );
    let talk = Draft {
        tier_is_default: false,
        ..said("User: could you start it again?\nAgent: it is running again.")
    };
    assert_eq!(
        shop.put("~/ops", talk).await.unwrap().typology,
        Typology::Semantic,
        "for good only as a statement"
    );
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    let counts = shop
        .store
        .retention_counts(shop.ada.tenant(), &Actor::Host, None)
        .await
        .unwrap();
    assert!(
        counts
            .iter()
            .all(|count| (count.tier, count.typology) != (Tier::Persistent, Typology::Episodic)),
        "inv_31"
    );
}

#[tokio::test]
async fn d11_the_store_schema_enforces_invariants_without_the_engine() {
    let shop = WorkshopTest::open().await;
    shop.rule("w1").await;
    let scope = Scope::new(
        shop.ada.tenant().clone(),
        MemoryRef::parse("~ada/ops").unwrap(),
    )
    .as_host();
    let admit = |draft: Draft| remem_testkit::conformance::admit(&scope, draft, NOON);
    let id = remem_testkit::conformance::id;
    let fact = |text: &str| {
        let facets = Facets {
            slot: Some("q".into()),
            valid_at: Some(NOON),
            ..Facets::default()
        };
        Draft {
            content: text.into(),
            facets,
            ..Draft::default()
        }
    };
    let put = |name: &str, draft: Draft| {
        shop.store
            .commit(Batch::new(scope.tenant.clone(), NOON).put(id(name), admit(draft)))
    };
    put("a", fact("one")).await.unwrap();
    assert!(
        matches!(put("b", fact("two")).await, Err(StoreError::Conflict)),
        "inv_40 without anybody who resolves"
    );
    let copy = in_world(Typology::Semantic, Tier::Persistent, "w1", RULE);
    assert!(
        matches!(
            put("c", copy).await,
            Err(StoreError::Rejected(Rejection::ShadowsRule { .. }))
        ),
        "inv_33 without anybody who asks first"
    );
    let bob = Batch::new(scope.tenant.clone(), NOON)
        .with_principal(PrincipalId::parse("bob").unwrap())
        .put(id("d"), admit(fact("three")));
    assert!(
        shop.store.commit(bob).await.is_err(),
        "inv_13 without anybody who looks"
    );
}

#[tokio::test]
async fn d12_each_profile_sets_its_own_retention_masking_and_world() {
    let notes = Profile {
        name: "notes".into(),
        session_idle_ms: DAY_MS,
        non_mirror: false,
        ..Profile::workshop()
    };
    let world = WorldId::parse("w1").unwrap();
    let cards = Profile {
        name: "cards".into(),
        world,
        ..Profile::workshop()
    };
    let shop = WorkshopTest::with(
        Profiles::with_patterns(vec![("~/notes".into(), notes), ("cards-*".into(), cards)])
            .unwrap(),
    )
    .await;
    shop.rule("w1").await;
    // Transient tiers inherit the retention of what encloses them, which is a value of the profile.
    shop.put(
        "~/notes",
        turn("t1", "operator", None, "Always write notes in English."),
    )
    .await
    .unwrap();
    shop.at(DAY_MS);
    assert_eq!(shop.pass("sessions").await, 1);
    assert_eq!(shop.texts("~/notes").await.len(), 1, "what outlasts it");
    shop.put("~/notes", said("Write to ada@example.com."))
        .await
        .unwrap();
    assert!(
        shop.texts("~/notes")
            .await
            .iter()
            .any(|text| text.contains("ada@example.com")),
        "this kind masks nothing"
    );
    // The threshold for restating rules is not a value of any profile; the world is.
    let copy = Draft {
        typology: Typology::Semantic,
        content: RULE.into(),
        ..Draft::default()
    };
    assert!(matches!(
        rejected(shop.put("cards-7", copy.clone()).await.unwrap_err()),
        Rejection::ShadowsRule { .. }
    ));
    shop.put("other", copy).await.unwrap();
    // Persistent entries, and those that an action refers to, are not physically deleted.
    let fact = shop
        .put("~/ops", said("Nadia's role is release manager."))
        .await
        .unwrap();
    let link = shop
        .engine
        .link_action(
            &shop.ada,
            "~/ops",
            fact.id.as_str(),
            "rule-promotion",
            "r-9",
        )
        .await
        .unwrap();
    assert_eq!(link.0, 1);
    shop.engine
        .delete(&shop.ada, "~/ops", fact.id.as_str(), None)
        .await
        .unwrap();
    let audit = shop
        .engine
        .audit_entry(&shop.ada, "~/ops", fact.id.as_str())
        .await
        .unwrap();
    assert_eq!(
        (audit.lineage.state.as_str(), audit.links.len()),
        ("held", 1),
        "inv_53"
    );
    assert_eq!(shop.retained(RetentionState::Referenced).await, 1);
}
