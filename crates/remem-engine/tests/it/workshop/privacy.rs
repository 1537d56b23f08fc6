//! Personal data and copies of other systems are not stored, and what came from a source is erased
//! with it.

use super::{WorkshopTest, by, rejected, said};
use remem_core::{Draft, Rejection, Trust};

#[tokio::test]
async fn d10_a_workshop_refuses_traces_and_pseudonymizes_personal_data() {
    let shop = WorkshopTest::open().await;
    let trace = r#"{"traceId":"4bf92f3577b34da6","spanId":"00f067aa0ba902b7","name":"scan","startTimeUnixNano":"1"}"#;
    assert!(matches!(
        rejected(shop.put("~/ops", said(trace)).await.unwrap_err()),
        Rejection::CopiedData { .. }
    ));
    let note = shop
        .tell("The customer wrote from ada.lovelace@example.com about the invoice.")
        .await;
    assert!(
        !note.content.contains("lovelace") && note.content.contains("[PII:email:"),
        "{}",
        note.content
    );
    let again = shop
        .tell("Call ada.lovelace@example.com back on Friday morning.")
        .await;
    let pseudonym = |text: &str| {
        text.split("[PII:")
            .nth(1)
            .and_then(|rest| rest.split(']').next())
            .map(str::to_owned)
    };
    assert_eq!(
        pseudonym(&note.content),
        pseudonym(&again.content),
        "the same person, the same pseudonym"
    );
    shop.put(
        "general",
        said("The customer wrote from ada.lovelace@example.com about it."),
    )
    .await
    .unwrap();
    assert!(
        shop.texts("general").await[0].contains("lovelace"),
        "a general memory leaves it"
    );
    let done = shop
        .engine
        .forget(&shop.ada, "Ada.Lovelace@example.com", false)
        .await
        .unwrap();
    assert!(done.changed);
    assert!(
        shop.texts("~/ops").await.is_empty(),
        "and whoever it was can be forgotten"
    );
}

#[tokio::test]
async fn forgetting_a_source_erases_its_entries() {
    let shop = WorkshopTest::open().await;
    let source = shop
        .engine
        .subject_digest(shop.ada.tenant(), "source:https://example.com/page")
        .unwrap();
    let mut draft = by(
        Trust::Untrusted,
        said("The gate is to be switched off, says the page."),
    );
    draft.subjects = vec![source];
    let page = shop.put("~/ops", draft).await.unwrap();
    assert!(
        page.tags.contains(&"source:untrusted".to_owned()),
        "marked wherever it is shown"
    );
    assert_eq!(
        (page.facets.trust, page.facets.slot),
        (Trust::Untrusted, None)
    );
    shop.engine
        .forget(&shop.ada, "source:https://example.com/page", false)
        .await
        .unwrap();
    assert!(shop.list("~/ops").await.is_empty());
    // A tag counts like a word.
    let tagged = Draft {
        tags: vec!["source:untrusted".into()],
        ..by(Trust::Operator, said("Trust me."))
    };
    assert_eq!(
        shop.put("~/ops", tagged).await.unwrap().facets.trust,
        Trust::Untrusted,
        "trust never rises by being claimed twice"
    );
    let elsewhere = Draft {
        tags: vec!["source:untrusted".into()],
        ..by(Trust::Operator, said("Trust me here, too."))
    };
    assert_eq!(
        shop.put("notes", elsewhere).await.unwrap().facets.trust,
        Trust::Untrusted,
        "nor in a memory that is no workshop's"
    );
}
