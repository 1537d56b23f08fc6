//! The approval gate: how many votes, by whom, for which revision, and until when.

use super::{ProposalTest, code, engine_over, key, template};
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::redact::SecretValue;
use remem_core::{Permission, RecordKind};
use remem_engine::proposals::{
    ActivationMode, ApplyResult, GateState, ProposalChanges, ProposalSettings,
};
use remem_engine::vault::SecretScope;
use remem_testkit::NOON;
use serde_json::json;

#[tokio::test]
async fn a_gate_opens_at_its_quorum_and_counts_each_voter_once() {
    let world = ProposalTest::gated(2).await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    assert_eq!(
        code(world.engine.approve_proposal(&world.bob, &id, None).await),
        "proposal_gate_closed",
        "nobody has asked yet"
    );
    // The author may request approval, and nothing more.
    assert!(
        matches!(world.apply(&world.ann, &id).await.unwrap(), ApplyResult::Pending(_, gate) if gate.votes.is_empty())
    );
    assert_eq!(
        code(world.engine.approve_proposal(&world.ann, &id, None).await),
        "forbidden"
    );
    assert!(
        matches!(world.apply(&world.bob, &id).await.unwrap(), ApplyResult::Pending(_, gate) if gate.votes.len() == 1)
    );
    for _ in 0..3 {
        assert!(
            matches!(
                world.apply(&world.bob, &id).await.unwrap(),
                ApplyResult::Pending(..)
            ),
            "once more is once"
        );
        assert!(matches!(
            world
                .engine
                .approve_proposal(&world.bob, &id, None)
                .await
                .unwrap(),
            ApplyResult::Pending(..)
        ));
    }
    assert_eq!(
        (
            world.state(&id).await,
            world.records(RecordKind::Prompt).await.len()
        ),
        (ProposalState::Draft, 0)
    );
    let ApplyResult::Installed(done) = world
        .engine
        .approve_proposal(&world.cid, &id, None)
        .await
        .unwrap()
    else {
        panic!("it waits")
    };
    let gate = world
        .engine
        .get_proposal_gate(&world.ann, &id)
        .await
        .unwrap();
    assert_eq!((gate.state, gate.votes.len()), (GateState::Passed, 2));
    assert_eq!(
        done.proposal.activation.unwrap().approval_id,
        Some(gate.id.clone())
    );
    let [bob, cid] = [&world.bob, &world.cid].map(|caller| caller.principal().as_str().to_owned());
    let granted = |who: &str, n: u32| json!({"gateId": gate.id, "principal": who, "quorumProgress": {"granted": n, "required": 2}});
    assert_eq!(
        world.payloads("approval.granted").await,
        [granted(&bob, 1), granted(&cid, 2)]
    );
    let decided: Vec<bool> = world
        .payloads("authorization.decided")
        .await
        .iter()
        .map(|event| event["allowed"] == json!(true))
        .collect();
    assert_eq!(
        decided,
        [true, false, true, true],
        "asked, denied to its author, granted twice"
    );
    assert_eq!(world.records(RecordKind::Prompt).await.len(), 1);
}

#[tokio::test]
async fn a_revision_voids_votes_and_its_author_cannot_approve_it() {
    let world = ProposalTest::gated(2).await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    let first = world
        .engine
        .get_proposal_gate(&world.ann, &id)
        .await
        .unwrap();
    let revise = ProposalChanges {
        artifact: template("greeting", "Obey").as_object().cloned(),
        ..ProposalChanges::default()
    };
    world
        .engine
        .revise_proposal(&world.cid, &id, revise)
        .await
        .unwrap();
    assert_eq!(
        code(world.engine.get_proposal_gate(&world.ann, &id).await),
        "not_found",
        "the new one was not asked for"
    );
    assert_eq!(
        code(world.engine.approve_proposal(&world.bob, &id, None).await),
        "proposal_gate_closed"
    );
    assert!(
        matches!(world.apply(&world.cid, &id).await.unwrap(), ApplyResult::Pending(_, gate) if gate.votes.is_empty() && gate.id != first.id)
    );
    assert!(
        matches!(world.apply(&world.bob, &id).await.unwrap(), ApplyResult::Pending(_, gate) if gate.votes.len() == 1)
    );
    assert_eq!(world.state(&id).await, ProposalState::Revised);
    let dan = key(&world.engine, "dan", &Permission::ALL).await;
    world
        .engine
        .approve_proposal(&dan, &id, None)
        .await
        .unwrap();
    assert_eq!(
        world.records(RecordKind::Prompt).await[0].1["text"],
        json!("Obey {{who}}")
    );
}

#[tokio::test]
async fn a_rejection_closes_the_gate() {
    let world = ProposalTest::gated(2).await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    world.engine.reject_proposal(&world.cid, &id).await.unwrap();
    let gate = world
        .engine
        .get_proposal_gate(&world.ann, &id)
        .await
        .unwrap();
    assert_eq!(gate.state, GateState::Rejected);
    let said = json!({"gateId": gate.id, "principal": world.cid.principal().as_str(), "reason": "rejected"});
    assert_eq!(world.payloads("approval.rejected").await, [said]);
    assert_eq!(world.payloads("proposal.rejected").await.len(), 1);
    assert_eq!(
        code(world.apply(&world.bob, &id).await),
        "proposal_state_conflict"
    );
    assert_eq!(world.pass().await.changed, 0, "it is due no more");
}

#[tokio::test]
async fn an_undecided_proposal_is_rejected_after_the_timeout() {
    let world = ProposalTest::gated(2).await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    let timeout = 72 * 3_600;
    world.at(timeout - 1);
    assert_eq!(
        (world.pass().await.changed, world.state(&id).await),
        (0, ProposalState::Draft)
    );
    world.at(timeout);
    // A late vote does not count, whether or not the pass has run.
    assert_eq!(
        code(world.apply(&world.cid, &id).await),
        "proposal_gate_closed"
    );
    assert_eq!(
        (world.pass().await.changed, world.pass().await.changed),
        (1, 0)
    );
    assert_eq!(world.state(&id).await, ProposalState::Rejected);
    let gate = world
        .engine
        .get_proposal_gate(&world.ann, &id)
        .await
        .unwrap();
    assert_eq!(
        world.payloads("approval.rejected").await,
        [json!({"gateId": gate.id, "principal": "remembrancer", "reason": "timeout"})]
    );
    assert_eq!(world.payloads("proposal.rejected").await.len(), 1);
    assert!(world.records(RecordKind::Prompt).await.is_empty());
}

#[tokio::test]
async fn overriding_a_quorum_must_be_allowed_and_is_audited() {
    let strict = ProposalTest::gated(3).await;
    let id = strict
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    assert_eq!(
        code(
            strict
                .engine
                .override_proposal(&strict.bob, &id, "urgent", None, None)
                .await
        ),
        "forbidden"
    );
    assert_eq!(
        strict.payloads("authorization.decided").await[0]["reason"],
        json!("override-off")
    );
    assert_eq!(strict.state(&id).await, ProposalState::Draft);

    let settings = ProposalSettings {
        activation: ActivationMode::ApprovalGate,
        quorum: 3,
        override_bypasses_quorum: true,
        ..ProposalSettings::default()
    };
    let world = ProposalTest::new(settings).await;
    world
        .engine
        .set_secret(
            &world.ann,
            SecretScope::Tenant,
            "pin",
            SecretValue::new("", "tuesday-4711-again"),
        )
        .await
        .unwrap();
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.cid, &id).await.unwrap();
    assert_eq!(
        code(
            world
                .engine
                .override_proposal(&world.ann, &id, "urgent", None, None)
                .await
        ),
        "forbidden",
        "not one's own"
    );
    let may: Vec<Permission> = Permission::ALL
        .into_iter()
        .filter(|permission| *permission != Permission::ProposalsOverride)
        .collect();
    let eve = key(&world.engine, "eve", &may).await;
    assert_eq!(
        code(
            world
                .engine
                .override_proposal(&eve, &id, "urgent", None, None)
                .await
        ),
        "scope"
    );
    assert_eq!(
        code(
            world
                .engine
                .override_proposal(&world.bob, &id, "because", None, None)
                .await
        ),
        "validation_error"
    );
    let note = Some("the pin is tuesday-4711-again".to_owned());
    world
        .engine
        .override_proposal(&world.bob, &id, "reviewer-unavailable", note, None)
        .await
        .unwrap();
    let gate = world
        .engine
        .get_proposal_gate(&world.ann, &id)
        .await
        .unwrap();
    assert_eq!(
        (gate.state, gate.note.as_deref()),
        (GateState::Overridden, Some("the pin is [REDACTED:pin]"))
    );
    let said = json!({"gateId": gate.id, "principal": world.bob.principal().as_str(), "reason": "reviewer-unavailable"});
    assert_eq!(world.payloads("approval.overridden").await, [said]);
    assert_eq!(world.state(&id).await, ProposalState::Applied);
    assert!(
        !format!("{:?}", world.payloads("approval.overridden").await).contains("pin"),
        "a note stays where it is"
    );
}

#[tokio::test]
async fn a_gate_is_voided_when_its_proposal_is_applied_directly() {
    let world = ProposalTest::gated(2).await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.bob, &id).await.unwrap();
    let direct = engine_over(
        &world.env,
        ProposalSettings::default(),
        world.env.ids.clone(),
    );
    direct.apply_proposal(&world.bob, &id, None).await.unwrap();
    assert_eq!(
        world
            .engine
            .get_proposal_gate(&world.ann, &id)
            .await
            .unwrap()
            .state,
        GateState::Void
    );
    world.at(73 * 3_600);
    assert_eq!(
        (world.pass().await.changed, world.state(&id).await),
        (0, ProposalState::Applied)
    );
    assert!(world.payloads("approval.rejected").await.is_empty());
}

#[tokio::test]
async fn an_unreadable_gate_blocks_approval() {
    let world = ProposalTest::gated(1).await;
    let id = world
        .submit(ProposalKind::PromptTemplate, template("greeting", "Hello"))
        .await;
    world.apply(&world.ann, &id).await.unwrap();
    let gate = world
        .engine
        .get_proposal_gate(&world.ann, &id)
        .await
        .unwrap();
    let policy = remem_core::Policy::default();
    let redactor = remem_core::Redactor::empty();
    let admission = remem_core::Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 0,
        now: NOON,
    };
    let body = admission.redact_record(json!({"state": "open"}).as_object().cloned().unwrap());
    let batch = remem_core::Batch::new(world.ann.tenant().clone(), NOON);
    let ties = remem_core::RecordLinks::due_at(NOON.plus_ms(5));
    world
        .env
        .store
        .commit(batch.set_record_with_ties(
            RecordKind::Gate,
            gate.id,
            remem_core::Precondition::None,
            body,
            ties,
        ))
        .await
        .unwrap();
    for caller in [&world.bob, &world.cid] {
        world.apply(caller, &id).await.unwrap_err();
        world
            .engine
            .approve_proposal(caller, &id, None)
            .await
            .unwrap_err();
    }
    assert_eq!(world.state(&id).await, ProposalState::Draft);
    world.at(1);
    assert_eq!(
        (world.pass().await.changed, world.pass().await.changed),
        (1, 0)
    );
    world.engine.reject_proposal(&world.bob, &id).await.unwrap();
}
