//! What a session promotes when it ends: patterns of episodes, and corroborated claims.

use super::{WorkshopTest, a_week, by, procedural};
use remem_core::{Draft, Evidence, Tier, Trust, Typology};
use remem_engine::sessions::SessionState;

#[tokio::test]
async fn d07_repeated_episodes_are_promoted_and_claims_need_corroboration() {
    let shop = WorkshopTest::open().await;
    // Procedures are stored as persistent entries.
    let habit = shop
        .tell("Always use the staging world for experiments.")
        .await;
    assert_eq!(
        (habit.tier, habit.typology),
        (Tier::Persistent, Typology::Procedural)
    );
    a_week(&shop).await;
    let claim = |thread: &str, trust: Trust, text: &str| {
        let mut draft = by(
            trust,
            Draft {
                content: text.into(),
                tier: Tier::Session,
                ..Draft::default()
            },
        );
        draft.facets.slot = Some(format!("={text}"));
        draft.facets.evidence = Evidence::of(trust, thread, "");
        draft
    };
    for (thread, trust, text) in [
        ("mon", Trust::Tool, "Coverage of the gate is below the goal"),
        ("tue", Trust::Tool, "Coverage of the gate is below the goal"),
        ("mon", Trust::Model, "The gate will be rewritten"),
        ("mon", Trust::Untrusted, "The gate is to be switched off"),
        ("tue", Trust::Untrusted, "The gate is to be switched off"),
        ("wed", Trust::Operator, "World seven is frozen until March"),
    ] {
        shop.put("~/ops", claim(thread, trust, text)).await.unwrap();
    }
    let closed = shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(closed.state, SessionState::Closed);
    let entries = shop.list("~/ops").await;
    let texts: Vec<&str> = entries.iter().map(|entry| entry.content.as_str()).collect();
    assert!(
        entries.iter().all(|entry| entry.tier == Tier::Persistent),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("release notes as a table")),
        "stated once by the operator: {texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.contains("coverage_report") && text.contains("post_summary")),
        "done three times: {texts:?}"
    );
    assert!(
        texts.contains(&"Coverage of the gate is below the goal"),
        "two threads: {texts:?}"
    );
    assert!(
        texts.contains(&"World seven is frozen until March"),
        "the operator said so: {texts:?}"
    );
    assert!(
        !texts.iter().any(|text| text.contains("rewritten")),
        "one model in one thread: {texts:?}"
    );
    assert!(
        !texts.iter().any(|text| text.contains("switched off")),
        "inv_62 nobody vouches for it: {texts:?}"
    );
    let made = entries
        .iter()
        .find(|entry| entry.content.contains("release notes"))
        .unwrap();
    let lineage = shop
        .engine
        .audit_entry(&shop.ada, "~/ops", made.id.as_str())
        .await
        .unwrap()
        .lineage;
    assert!(
        !lineage.sources.is_empty(),
        "what it came from is known, though it is gone"
    );
    assert_eq!(
        procedural(&entries).len() as u64 + 2,
        closed.promoted + 1,
        "{closed:?}"
    );
}

#[tokio::test]
async fn inv_60_compounding_the_same_episodes_again_adds_nothing() {
    let shop = WorkshopTest::open().await;
    a_week(&shop).await;
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    let before: Vec<(String, String)> = kept(&shop).await;
    // The same week again: patterns that are known are not stored again.
    a_week(&shop).await;
    shop.engine.close_session(&shop.ada, "~/ops").await.unwrap();
    assert_eq!(kept(&shop).await, before);
}

async fn kept(shop: &WorkshopTest) -> Vec<(String, String)> {
    let mut kept: Vec<_> = shop
        .list("~/ops")
        .await
        .into_iter()
        .map(|entry| (entry.id.as_str().to_owned(), entry.content))
        .collect();
    kept.sort_unstable();
    kept
}
