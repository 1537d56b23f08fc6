//! Who may do what with a proposal: scopes and roles.

use super::{ProposalTest, code, key, template};
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::{Permission, RecordKind};
use remem_engine::proposals::{NewTrace, ProposalChanges, ProposalQuery, ProposalSettings};
use serde_json::json;

#[tokio::test]
async fn apply_without_its_scope_is_refused_and_audited() {
    let world = ProposalTest::direct().await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let may: Vec<Permission> = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::ProposalsApply)
        .collect();
    let eve = key(&world.engine, "eve", &may).await;
    let before = world.get(&id).await;
    assert_eq!(code(world.apply(&eve, &id).await), "scope");
    assert_eq!(
        code(world.apply(&eve, "prop_none").await),
        "scope",
        "what is there is not told"
    );
    assert_eq!(world.get(&id).await, before);
    assert!(world.records(RecordKind::Prompt).await.is_empty());
    let denied = json!({"principal": eve.principal().as_str(), "action": "proposal.apply", "resource": id, "allowed": false, "reason": "scope-missing"});
    assert_eq!(
        world.payloads("authorization.decided").await,
        std::slice::from_ref(&denied)
    );
    world.apply(&world.bob, &id).await.unwrap();
    let allowed = json!({"principal": world.bob.principal().as_str(), "action": "proposal.apply", "resource": id, "allowed": true});
    assert_eq!(
        world.payloads("authorization.decided").await,
        [denied, allowed]
    );
}

#[tokio::test]
async fn each_proposal_operation_requires_its_scope() {
    let world = ProposalTest::direct().await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let reader = key(&world.engine, "reader", &[Permission::ProposalsRead]).await;
    let writer = key(&world.engine, "writer", &[Permission::ProposalsWrite]).await;
    let engine = &world.engine;
    assert_eq!(
        code(
            engine
                .revise_proposal(
                    &reader,
                    &id,
                    ProposalChanges {
                        title: Some("x".into()),
                        ..ProposalChanges::default()
                    }
                )
                .await
        ),
        "scope"
    );
    assert_eq!(code(engine.reject_proposal(&reader, &id).await), "scope");
    assert_eq!(code(engine.archive_proposal(&reader, &id).await), "scope");
    assert_eq!(code(engine.get_proposal(&writer, &id).await), "scope");
    assert_eq!(
        code(
            engine
                .list_proposals(&writer, &ProposalQuery::default())
                .await
        ),
        "scope"
    );
    assert_eq!(
        code(engine.list_installed_artifacts(&writer).await),
        "scope"
    );
    assert_eq!(
        code(
            engine
                .override_proposal(&writer, &id, "urgent", None, None)
                .await
        ),
        "scope"
    );
    assert_eq!(
        code(engine.record_trace(&reader, NewTrace::default()).await),
        "scope"
    );
}

#[tokio::test]
async fn a_required_role_or_scope_is_enforced_and_unknown_ones_deny_all() {
    let reviewer = [
        Permission::RunsRead,
        Permission::ManifestRead,
        Permission::ProposalsRead,
        Permission::ProposalsWrite,
        Permission::ProposalsApply,
    ];
    for (role, scope, full, part) in [
        (Some("reviewer"), None, true, "forbidden"),
        (Some("emperor"), None, false, "forbidden"),
        (None, Some("runs:read"), true, "scope"),
        (None, Some("thrones:sit"), false, "forbidden"),
    ] {
        let required_role = role.map(str::to_owned);
        let required_scope = scope.map(str::to_owned);
        let world = ProposalTest::new(ProposalSettings {
            required_role,
            required_scope,
            ..ProposalSettings::default()
        })
        .await;
        let id = world
            .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
            .await;
        let short = key(&world.engine, "short", &[Permission::ProposalsApply]).await;
        assert_eq!(
            code(world.apply(&short, &id).await),
            part,
            "{role:?} {scope:?}"
        );
        let whole = key(&world.engine, "whole", &reviewer).await;
        assert_eq!(
            world.apply(&whole, &id).await.is_ok(),
            full,
            "{role:?} {scope:?}"
        );
        assert_eq!(
            world.payloads("authorization.decided").await.len(),
            2,
            "both are on record"
        );
        assert_eq!(world.state(&id).await == ProposalState::Applied, full);
    }
}
