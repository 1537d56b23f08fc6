//! The pass `propose`: drafts from runs and tool traces.

use super::{ProposalTest, chain, start, workflow};
use remem_core::RecordKind;
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_engine::proposals::{NewTrace, ProposalChanges, ProposalQuery};
use remem_engine::registry::{self, PassMode};
use remem_engine::runner;
use remem_engine::runs::NewRun;
use serde_json::Map;
use tokio::sync::watch;

/// The same workflow at the same time of day on several days, and an agent that uses its tools in
/// the same order.
async fn live(world: &ProposalTest, days: i64) {
    let (_stop, stopping) = watch::channel(false);
    runner::start_run_executor(&world.engine, &stopping);
    world
        .engine
        .put_workflow(
            &world.ann,
            "weekly",
            workflow("weekly", "a text").as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    for day in 0..days {
        world.at(day * 86_400);
        start(
            world,
            NewRun {
                workflow_id: "weekly".to_owned(),
                ..NewRun::default()
            },
        )
        .await;
        let tools = ["search", "fetch", "write"].map(str::to_owned).to_vec();
        let trace = NewTrace {
            agent_id: "local.test.helper".to_owned(),
            tools,
            task: Some("a task".to_owned()),
            run: None,
        };
        world.engine.record_trace(&world.ann, trace).await.unwrap();
    }
}

#[tokio::test]
async fn repeated_activity_is_drafted_as_proposals_once() {
    let world = ProposalTest::direct().await;
    live(&world, 7).await;
    let report = world.pass().await;
    assert!(report.changed >= 2, "{report:?}");
    let (drafts, _) = world
        .engine
        .list_proposals(&world.ann, &ProposalQuery::default())
        .await
        .unwrap();
    assert_eq!(drafts.len() as u64, report.changed);
    let kinds: Vec<ProposalKind> = drafts.iter().map(|shown| shown.proposal.kind).collect();
    assert!(
        kinds.contains(&ProposalKind::Automation) && kinds.contains(&ProposalKind::AgentPack),
        "{kinds:?}"
    );
    for shown in &drafts {
        assert_eq!(
            (shown.proposal.state, shown.proposal.owner.as_deref()),
            (ProposalState::Draft, None)
        );
        assert!(shown.proposal.synthesizer.is_some());
    }
    assert_eq!(world.payloads("proposal.created").await.len(), drafts.len());
    assert_eq!(
        world.pass().await.changed,
        0,
        "a second time there is nothing new"
    );
    // Rejected, revised, archived or applied: it is not proposed again.
    let engine = &world.engine;
    let ann = &world.ann;
    engine
        .reject_proposal(ann, &drafts[0].proposal.id)
        .await
        .unwrap();
    engine
        .revise_proposal(
            ann,
            &drafts[1].proposal.id,
            ProposalChanges {
                artifact: Some(Map::new()),
                ..ProposalChanges::default()
            },
        )
        .await
        .unwrap();
    engine
        .archive_proposal(ann, &drafts[1].proposal.id)
        .await
        .unwrap();
    assert_eq!(world.pass().await.changed, 0);
    assert!(
        world.records(RecordKind::Automation).await.is_empty()
            && world.records(RecordKind::Agent).await.is_empty(),
        "drafts are drafts"
    );
}

#[tokio::test]
async fn a_dry_run_drafts_nothing_and_old_traces_are_purged() {
    let world = ProposalTest::direct().await;
    live(&world, 5).await;
    let dry = world
        .engine
        .run_pass(
            registry::find("propose").unwrap(),
            world.ann.tenant(),
            PassMode::DryRun,
        )
        .await
        .unwrap();
    assert!(dry.changed > 0);
    assert!(world.payloads("proposal.created").await.is_empty());
    assert_eq!(world.records(RecordKind::ToolTrace).await.len(), 5);
    world.at(32 * 86_400);
    world.pass().await;
    assert_eq!(world.records(RecordKind::ToolTrace).await.len(), 3);
}

#[tokio::test]
async fn a_duplicate_proposal_names_its_original() {
    let world = ProposalTest::direct().await;
    let id = world
        .submit(ProposalKind::WorkflowChainPack, chain("weekly", "a text"))
        .await;
    let again = world
        .submit(ProposalKind::WorkflowChainPack, chain("weekly", "a text"))
        .await;
    assert_eq!(
        world.get(&again).await.proposal.duplicate_of,
        Some(id.clone())
    );
    world.apply(&world.bob, &id).await.unwrap();
    let third = world
        .submit(ProposalKind::WorkflowChainPack, chain("weekly", "a text"))
        .await;
    assert_eq!(
        world.get(&third).await.proposal.duplicate_of.as_deref(),
        Some("workflow-chain-pack/pack-weekly")
    );
}
