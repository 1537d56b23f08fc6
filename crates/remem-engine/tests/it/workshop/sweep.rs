//! Texts of statements that ceased to be true are erased when their own memory's profile says so.

use super::{WorkshopTest, said};
use remem_core::profile::DAY_MS;
use remem_core::{Draft, Facets, Profile, Profiles, Typology};
use remem_testkit::NOON;

/// A statement that was true until this many days ago.
fn ended(text: &str, days: i64) -> Draft {
    let facets = Facets {
        valid_at: Some(NOON.plus_ms(-(days + 1) * DAY_MS)),
        invalid_at: Some(NOON.plus_ms(-days * DAY_MS)),
        ..Facets::default()
    };
    Draft {
        typology: Typology::Semantic,
        typology_is_default: false,
        tier_is_default: false,
        facets,
        ..said(text)
    }
}

#[tokio::test]
async fn each_memory_is_swept_by_its_own_retention() {
    let short = Profile {
        name: "short".to_owned(),
        history_retention_ms: 30 * DAY_MS,
        ..Profile::general()
    };
    let shop =
        WorkshopTest::with(Profiles::with_patterns(vec![("short".to_owned(), short)]).unwrap())
            .await;
    let many: Vec<Draft> = (0..600)
        .map(|n| ended(&format!("Statement number {n}."), 100))
        .collect();
    shop.engine
        .put(&shop.ada, "long", many, None)
        .await
        .unwrap();
    shop.put("short", ended("The gate was open.", 60))
        .await
        .unwrap();
    shop.put("short", ended("The gate was closed.", 20))
        .await
        .unwrap();
    assert_eq!(shop.pass("sweep").await, 1);
    assert_eq!(shop.pass("sweep").await, 0);
    shop.at(700 * DAY_MS);
    assert_eq!(shop.pass("sweep").await, 601);
}
