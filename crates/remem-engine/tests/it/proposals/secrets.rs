//! Secrets that occur in proposals.

use super::{ProposalTest, code, template};
use remem_core::RecordKind;
use remem_core::proposal::ProposalKind;
use remem_core::redact::SecretValue;
use remem_engine::proposals::ProposalChanges;
use remem_engine::registry::{self, PassMode};
use remem_engine::vault::SecretScope;
use remem_store::ReviewCalls;
use serde_json::json;

#[tokio::test]
async fn secrets_are_redacted_from_proposals_and_late_ones_block_apply() {
    let world = ProposalTest::direct().await;
    let secret = |name: &'static str, value: &'static str| {
        world.engine.set_secret(
            &world.ann,
            SecretScope::Tenant,
            name,
            SecretValue::new("", value),
        )
    };
    secret("known", "swordfish-of-old").await.unwrap();
    let id = world
        .submit(
            ProposalKind::PromptTemplate,
            template(
                "greeting",
                "Say swordfish-of-old, then tuesday-4711-again to",
            ),
        )
        .await;
    let shown = world.get(&id).await;
    let marked = format!("{:?}", shown.artifact["text"]);
    assert!(
        marked.contains("[REDACTED:known]") && marked.contains("tuesday-4711-again"),
        "{marked}"
    );
    secret("late", "tuesday-4711-again").await.unwrap();
    assert!(
        !format!("{:?}", world.get(&id).await.artifact).contains("4711"),
        "what is shown is looked at again"
    );
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_holds_secret"
    );
    assert!(
        world.records(RecordKind::Prompt).await.is_empty()
            && world
                .records(RecordKind::InstalledArtifact)
                .await
                .is_empty()
    );
    // The rescan removes the bytes from the disk; the hash stays, and the proposal cannot be
    // applied.
    world
        .engine
        .run_pass(
            registry::find("rescan").unwrap(),
            world.ann.tenant(),
            PassMode::Apply,
        )
        .await
        .unwrap();
    let review = world.env.review.clone().unwrap();
    let kept = review
        .review_records(
            world.ann.tenant(),
            RecordKind::ProposalRevision,
            "",
            None,
            10,
        )
        .await
        .unwrap();
    assert!(!format!("{:?}", kept[0].body).contains("4711"));
    assert_eq!(kept[0].body["sha256"], json!(shown.proposal.sha256));
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_holds_secret"
    );
    let revise = ProposalChanges {
        artifact: template("greeting", "Say nothing to").as_object().cloned(),
        ..ProposalChanges::default()
    };
    world
        .engine
        .revise_proposal(&world.ann, &id, revise)
        .await
        .unwrap();
    world.apply(&world.bob, &id).await.unwrap();
}
