//! Rules of a world: no entry restates one.

use super::{RULE, WorkshopTest, by, in_world, rejected};
use remem_core::{Draft, Policy, Profiles, Rejection, Tier, Trust, Typology};
use remem_engine::sessions::SessionState;
use remem_engine::worlds::NewRule;

#[tokio::test]
async fn d04_a_statement_that_restates_a_rule_of_its_world_is_refused() {
    let shop = WorkshopTest::open().await;
    shop.rule("w1").await;
    for tier in [Tier::Session, Tier::Persistent] {
        let copy = in_world(Typology::Semantic, tier, "w1", &RULE.to_uppercase());
        let refused = rejected(shop.put("~/ops", copy).await.unwrap_err());
        assert!(
            matches!(&refused, Rejection::ShadowsRule { rule } if rule.as_str() == "r1"),
            "{tier:?}: {refused:?}"
        );
        assert!(!refused.to_string().contains("reviewer"), "names only");
        shop.put("~/ops", in_world(Typology::Procedural, tier, "w1", RULE))
            .await
            .unwrap();
        shop.put("~/ops", in_world(Typology::Semantic, tier, "w2", RULE))
            .await
            .unwrap();
    }
    let draft = Draft {
        typology: Typology::Episodic,
        ..in_world(Typology::Episodic, Tier::Session, "w1", RULE)
    };
    shop.put("~/ops", draft).await.unwrap();
    let short: String = RULE.chars().take(99).collect();
    shop.put(
        "~/ops",
        in_world(Typology::Semantic, Tier::Persistent, "w1", &short),
    )
    .await
    .unwrap();
    let hit = shop
        .engine
        .find_restated_rule(&shop.ada, "w1", RULE)
        .await
        .unwrap();
    assert_eq!(
        hit.map(|rule| rule.as_str().to_owned()).as_deref(),
        Some("r1"),
        "and one can ask before"
    );
    assert_eq!(
        shop.engine
            .delete_rule(&shop.ada, "w1", "r1")
            .await
            .map(|_| ())
            .map_err(|_| ()),
        Ok(())
    );
    shop.put(
        "~/ops",
        in_world(Typology::Semantic, Tier::Persistent, "w1", RULE),
    )
    .await
    .unwrap();
}

/// A rule that is newer than the claim: the claim is not promoted, and the session closes
/// nevertheless.
#[tokio::test]
async fn a_claim_that_restates_a_newer_rule_is_not_promoted() {
    let shop = WorkshopTest::open().await;
    let claim = by(
        Trust::Operator,
        in_world(Typology::Semantic, Tier::Session, "w1", RULE),
    );
    shop.put("~/ops", claim).await.unwrap();
    shop.rule("w1").await;
    let closed = shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(
        (closed.state, closed.promoted, closed.ended),
        (SessionState::Closed, 0, 1)
    );
    assert!(shop.list("~/ops").await.is_empty());
}

#[tokio::test]
async fn a_world_has_a_limited_number_of_rules_and_replaced_ones_count_once() {
    let policy = Policy {
        world_rules_max: 3,
        ..Policy::default()
    };
    let shop = WorkshopTest::with_policy(Profiles::default(), policy).await;
    let rules = |ids: &[&str]| -> Vec<NewRule> {
        let rule = |id: &&str| NewRule {
            id: (*id).to_owned(),
            body: RULE.to_owned(),
        };
        ids.iter().map(rule).collect()
    };
    for (ids, fits) in [
        (&["r1", "r2"][..], true),
        (&["r2", "r3"], true),
        (&["r3", "r4"], false),
        (&["r1", "r2", "r3"], true),
    ] {
        let written = shop.engine.put_rules(&shop.ada, "w1", rules(ids)).await;
        assert_eq!(written.is_ok(), fits, "{ids:?}: {written:?}");
        if let Err(error) = written {
            let expected = Rejection::TooLarge {
                field: "rules",
                unit: "items",
                limit: 3,
                actual: 4,
            };
            assert_eq!(rejected(error), expected);
        }
    }
    let written = shop.engine.put_rules(&shop.ada, "w2", rules(&["r9"])).await;
    assert!(written.is_ok(), "other worlds have their own");
}
