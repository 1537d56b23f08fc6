//! Entries of the same slot: which one holds, until when, and the state of the others.

use super::{WorkshopTest, by, said, turn};
use remem_core::profile::DAY_MS;
use remem_core::{Draft, Tier, Trust, Typology};
use remem_store::RetentionState;
use remem_testkit::NOON;

#[tokio::test]
async fn d08_conflicts_are_resolved_by_kind() {
    let shop = WorkshopTest::open().await;
    shop.at(0);
    let first = shop.tell("Nadia's role is release manager.").await;
    shop.at(1_000);
    let second = shop.tell("Nadia's role is operations lead.").await;
    assert_eq!(
        shop.texts("~/ops").await,
        ["Nadia's role is operations lead."]
    );
    assert_eq!(
        shop.as_of("~/ops", 500).await,
        ["Nadia's role is release manager."],
        "both are kept"
    );
    let mut late = said("Nadia's role is tester.");
    late.facets.valid_at = Some(NOON.plus_ms(-5_000));
    shop.put("~/ops", late).await.unwrap();
    assert_eq!(
        shop.as_of("~/ops", -3_000).await,
        ["Nadia's role is tester."],
        "a late arrival is born closed"
    );
    assert_eq!(
        shop.texts("~/ops").await,
        ["Nadia's role is operations lead."]
    );
    let slot = second.facets.slot.clone().unwrap();
    let history = shop
        .engine
        .slot_history(&shop.ada, "~/ops", &slot)
        .await
        .unwrap();
    let entries: Vec<_> = history
        .iter()
        .map(|a| (a.entry.content.as_str(), a.state.as_str()))
        .collect();
    assert_eq!(
        entries[1..],
        [
            ("Nadia's role is release manager.", "invalidated"),
            ("Nadia's role is operations lead.", "live")
        ]
    );
    assert_eq!(history[1].replaced_by, Some(second.id.clone()));
    // A repeated statement adds evidence, but no entry.
    shop.at(2_000);
    let again = shop.tell("Nadia's role is operations lead.").await;
    assert_eq!(again.id, second.id);
    assert_ne!(again.id, first.id);
    // A slot has one live procedure at a time.
    let tabs = shop.tell("Always format release notes as a table.").await;
    let list = shop.tell("Always format release notes as a list.").await;
    assert_eq!(tabs.facets.slot, list.facets.slot, "the same question");
    let history = shop
        .engine
        .slot_history(&shop.ada, "~/ops", list.facets.slot.as_deref().unwrap())
        .await
        .unwrap();
    let states: Vec<_> = history
        .iter()
        .map(|a| (a.state.as_str(), a.ended_at, a.replaced_by.clone()))
        .collect();
    assert_eq!(
        states,
        [
            (
                "superseded",
                Some(NOON.plus_ms(2_000)),
                Some(list.id.clone())
            ),
            ("live", None, None)
        ]
    );
    // Episodes never replace each other.
    for _ in 0..2 {
        shop.put("~/ops", turn("t1", "operator", None, "the same words"))
            .await
            .unwrap();
    }
    assert_eq!(
        shop.texts("~/ops")
            .await
            .iter()
            .filter(|text| *text == "the same words")
            .count(),
        2
    );
    // An untrusted entry replaces no other.
    shop.put(
        "~/ops",
        by(Trust::Untrusted, said("Nadia's role is intruder.")),
    )
    .await
    .unwrap();
    assert!(
        shop.texts("~/ops")
            .await
            .iter()
            .any(|text| text.contains("operations lead"))
    );
    shop.engine
        .retract_answer(&shop.ada, "~/ops", &slot)
        .await
        .unwrap();
    assert!(
        !shop
            .texts("~/ops")
            .await
            .iter()
            .any(|text| text.contains("operations lead")),
        "taken back, with nothing in its place"
    );
}

#[tokio::test]
async fn an_invalidated_answer_loses_its_text_after_two_years() {
    let shop = WorkshopTest::open().await;
    shop.tell("Nadia's role is release manager.").await;
    shop.at(1_000);
    let now = shop.tell("Nadia's role is operations lead.").await;
    shop.at(730 * DAY_MS);
    assert_eq!(shop.pass("sweep").await, 0);
    shop.at(730 * DAY_MS + 2_000);
    assert_eq!(shop.pass("sweep").await, 1);
    assert_eq!(shop.pass("sweep").await, 0);
    let history = shop
        .engine
        .slot_history(&shop.ada, "~/ops", now.facets.slot.as_deref().unwrap())
        .await
        .unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(
        shop.retained(RetentionState::Skeleton).await,
        1,
        "the row stays"
    );
}

#[tokio::test]
async fn a_session_statement_does_not_supersede_a_persistent_answer() {
    let shop = WorkshopTest::open().await;
    let fact = shop.tell("Nadia's role is release manager.").await;
    let passing = Draft {
        tier: Tier::Session,
        typology: Typology::Semantic,
        content: "Nadia's role is tester.".into(),
        ..Draft::default()
    };
    shop.put("~/ops", passing).await.unwrap();
    let history = shop
        .engine
        .slot_history(&shop.ada, "~/ops", fact.facets.slot.as_deref().unwrap())
        .await
        .unwrap();
    assert_eq!(
        history
            .iter()
            .map(|answer| answer.state.as_str())
            .collect::<Vec<_>>(),
        ["live"]
    );
}
