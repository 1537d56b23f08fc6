//! The states of a proposal, its list, its limits and its errors.

use super::{ProposalTest, code, engine_over, key, of_each_kind, template};
use remem_core::Permission;
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_engine::EngineError;
use remem_engine::proposals::{
    NewProposal, ProposalChanges, ProposalError, ProposalQuery, ProposalSettings,
};
use remem_testkit::TestEnv;
use serde_json::{Map, json};
use std::sync::Arc;

async fn bring(world: &ProposalTest, state: ProposalState) -> String {
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    let engine = &world.engine;
    let ann = &world.ann;
    match state {
        ProposalState::Draft => {}
        ProposalState::Revised => drop(
            engine
                .revise_proposal(
                    ann,
                    &id,
                    ProposalChanges {
                        title: Some("T".into()),
                        ..ProposalChanges::default()
                    },
                )
                .await
                .unwrap(),
        ),
        ProposalState::Applied => drop(engine.apply_proposal(ann, &id, None).await.unwrap()),
        ProposalState::Rejected => drop(engine.reject_proposal(ann, &id).await.unwrap()),
        ProposalState::Archived => drop(engine.archive_proposal(ann, &id).await.unwrap()),
    }
    assert_eq!(world.state(&id).await, state);
    id
}

#[tokio::test]
async fn each_action_in_each_state_follows_the_lifecycle() {
    use remem_core::proposal::ProposalAction;
    for state in ProposalState::ALL {
        for step in ProposalAction::ALL {
            let world = ProposalTest::direct().await;
            let id = bring(&world, state).await;
            let engine = &world.engine;
            let ann = &world.ann;
            let before = world.get(&id).await;
            let done = match step {
                ProposalAction::Revise => {
                    let revise = ProposalChanges {
                        rationale: Some("R".into()),
                        ..ProposalChanges::default()
                    };
                    engine.revise_proposal(ann, &id, revise).await.map(|_| ())
                }
                ProposalAction::Apply => engine.apply_proposal(ann, &id, None).await.map(|_| ()),
                ProposalAction::Reject => engine.reject_proposal(ann, &id).await.map(|_| ()),
                ProposalAction::Archive => engine.archive_proposal(ann, &id).await.map(|_| ()),
            };
            match state.next_state(step) {
                Some(next) => {
                    done.unwrap();
                    assert_eq!(world.state(&id).await, next, "{state:?} {step:?}");
                }
                None => {
                    assert!(
                        matches!(done, Err(EngineError::Proposal(ProposalError::State(is))) if is == state),
                        "{state:?} {step:?}"
                    );
                    assert_eq!(world.get(&id).await, before, "nothing changes");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_malformed_artifact_is_refused_when_applied() {
    let world = ProposalTest::direct().await;
    for (kind, artifact, field) in [
        (
            ProposalKind::PromptTemplate,
            json!({"templateId": "x"}),
            "version",
        ),
        (
            ProposalKind::Automation,
            json!({"automationId": "x"}),
            "schedule",
        ),
        (
            ProposalKind::AgentPack,
            json!({"name": "x", "version": "1", "agents": []}),
            "agents",
        ),
        (
            ProposalKind::WorkflowChainPack,
            json!({"name": "x", "version": "1", "workflows": [{"id": "w"}]}),
            "workflow",
        ),
    ] {
        let id = world.submit(kind, artifact).await;
        let error = world.apply(&world.bob, &id).await.unwrap_err();
        assert_eq!(error.code(), "proposal_malformed", "{kind:?}");
        let EngineError::Proposal(ProposalError::Malformed(rejection)) = error else {
            panic!("{error:?}")
        };
        assert!(
            rejection.field().unwrap().starts_with(field),
            "{rejection:?}"
        );
        assert_eq!(world.state(&id).await, ProposalState::Draft);
    }
    assert!(world.payloads("proposal.activated").await.is_empty());
}

#[tokio::test]
async fn a_repeated_submission_creates_one_proposal() {
    let world = ProposalTest::direct().await;
    let new = |text: &str| NewProposal {
        kind: ProposalKind::PromptTemplate,
        title: None,
        rationale: None,
        artifact: template("greeting", text).as_object().cloned().unwrap(),
        source_runs: Vec::new(),
    };
    let submit = async |text: &str, key: &str| {
        world
            .engine
            .submit_proposal(&world.ann, new(text), Some(key))
            .await
    };
    let first = submit("Hello", "k").await.unwrap();
    let again = submit("Hello", "k").await.unwrap();
    assert_eq!((first.1, again.1, &first.0), (false, true, &again.0));
    assert_eq!(code(submit("Hi", "k").await), "idempotency_key_mismatch");
    assert_ne!(
        submit("Hello", "l").await.unwrap().0.proposal.id,
        first.0.proposal.id
    );
    assert_eq!(world.payloads("proposal.created").await.len(), 2);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let world = ProposalTest::direct().await;
    let mut ids = Vec::new();
    for (kind, artifact) in of_each_kind() {
        ids.push(world.submit(kind, artifact).await);
    }
    world
        .engine
        .reject_proposal(&world.ann, &ids[1])
        .await
        .unwrap();
    let list = async |query: ProposalQuery| {
        let (found, next) = world
            .engine
            .list_proposals(&world.ann, &query)
            .await
            .unwrap();
        (
            found
                .into_iter()
                .map(|shown| shown.proposal.id)
                .collect::<Vec<_>>(),
            next,
        )
    };
    assert_eq!(list(ProposalQuery::default()).await, (ids.clone(), None));
    let drafts = ProposalQuery {
        state: Some(ProposalState::Draft),
        limit: Some(2),
        ..ProposalQuery::default()
    };
    let (first, next) = list(drafts.clone()).await;
    assert_eq!(first, [ids[0].clone(), ids[2].clone()]);
    assert_eq!(
        list(ProposalQuery {
            after: next,
            ..drafts
        })
        .await,
        (vec![ids[3].clone()], None)
    );
    assert_eq!(
        list(ProposalQuery {
            kind: Some(ProposalKind::AgentPack),
            ..ProposalQuery::default()
        })
        .await
        .0,
        [ids[0].clone()]
    );
    let bad = ProposalQuery {
        after: Some("x".to_owned()),
        ..ProposalQuery::default()
    };
    assert_eq!(
        code(world.engine.list_proposals(&world.ann, &bad).await),
        "validation_error"
    );
}

#[tokio::test]
async fn without_a_review_store_proposals_are_not_provided() {
    let env = TestEnv {
        review: None,
        ..TestEnv::new().await
    };
    let engine = engine_over(&env, ProposalSettings::default(), Arc::default());
    let ann = key(&engine, "ann", &Permission::ALL).await;
    let new = NewProposal {
        kind: ProposalKind::Automation,
        title: None,
        rationale: None,
        artifact: Map::new(),
        source_runs: Vec::new(),
    };
    assert_eq!(
        code(engine.submit_proposal(&ann, new, None).await),
        "capability_not_provided"
    );
    assert_eq!(
        code(engine.apply_proposal(&ann, "prop_1", None).await),
        "capability_not_provided"
    );
}

#[tokio::test]
async fn the_number_of_proposals_and_revisions_is_limited() {
    let mut env = TestEnv::new().await;
    env.policy.proposals_open_max = 2;
    env.policy.proposals_max = 3;
    env.policy.proposal_revisions_max = 2;
    let engine = engine_over(&env, ProposalSettings::default(), Arc::default());
    let ann = key(&engine, "ann", &Permission::ALL).await;
    let new = || NewProposal {
        kind: ProposalKind::Automation,
        title: None,
        rationale: None,
        artifact: Map::new(),
        source_runs: Vec::new(),
    };
    let first = engine
        .submit_proposal(&ann, new(), None)
        .await
        .unwrap()
        .0
        .proposal
        .id;
    engine.submit_proposal(&ann, new(), None).await.unwrap();
    assert_eq!(
        code(engine.submit_proposal(&ann, new(), None).await),
        "validation_error"
    );
    let title = |text: &str| ProposalChanges {
        title: Some(text.to_owned()),
        ..ProposalChanges::default()
    };
    engine
        .revise_proposal(&ann, &first, title("a"))
        .await
        .unwrap();
    assert_eq!(
        code(engine.revise_proposal(&ann, &first, title("b")).await),
        "validation_error"
    );
    assert_eq!(
        code(
            engine
                .revise_proposal(&ann, &first, ProposalChanges::default())
                .await
        ),
        "validation_error"
    );
    engine.archive_proposal(&ann, &first).await.unwrap();
    engine.submit_proposal(&ann, new(), None).await.unwrap();
    engine
        .archive_proposal(
            &ann,
            &engine
                .list_proposals(&ann, &ProposalQuery::default())
                .await
                .unwrap()
                .0[1]
                .proposal
                .id,
        )
        .await
        .unwrap();
    assert_eq!(
        code(engine.submit_proposal(&ann, new(), None).await),
        "validation_error",
        "too many of all"
    );
}
