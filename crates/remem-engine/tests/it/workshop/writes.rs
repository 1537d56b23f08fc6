//! Writes into a workshop memory can be repeated.

use super::{WorkshopTest, said};

#[tokio::test]
async fn a_repeated_put_returns_the_first_entries() {
    let shop = WorkshopTest::open().await;
    let put = |key: &'static str| {
        shop.engine.put(
            &shop.ada,
            "~/ops",
            vec![said("Nadia's role is tester."), said("It rains.")],
            Some(key),
        )
    };
    let first = put("k").await.unwrap();
    let second = put("k").await.unwrap();
    assert!(second.replayed);
    let ids = |stored: &remem_engine::write::PutResult| {
        stored
            .entries
            .iter()
            .map(|entry| entry.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&second));
    assert_eq!(
        ids(&put("l").await.unwrap()),
        ids(&first),
        "who says the same again gets what is there"
    );
    assert_eq!(shop.list("~/ops").await.len(), 2);
}
