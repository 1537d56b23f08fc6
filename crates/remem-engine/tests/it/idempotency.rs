//! A write that is repeated with its idempotency key gets the first answer, even if it would no
//! longer be possible: its instant has passed, or what it needs is full or gone.

use remem_core::commitment::Delivery;
use remem_core::proposal::ProposalKind;
use remem_core::run::ForkMode;
use remem_core::{Draft, Facets, Policy, Timestamp, Typology};
use remem_engine::commitments::NewCommitment;
use remem_engine::proposals::NewProposal;
use remem_engine::runner;
use remem_engine::runs::{ForkRequest, NewRun};
use remem_engine::workspace::WriteConditions;
use remem_testkit::host::object;
use remem_testkit::{NOON, TestEnv, wait_until};
use serde_json::json;
use tokio::sync::watch;

fn short_lived(content: &str, until: i64) -> Draft {
    Draft {
        content: content.to_owned(),
        expires_at: Some(NOON.plus_ms(until * 1_000)),
        ..Draft::default()
    }
}

#[tokio::test]
async fn an_idempotent_put_is_replayed_after_its_entry_expired() {
    let host = TestEnv::new().await.host().await;
    let mut answering = short_lived("Ada's role is auditor", 11);
    answering.facets = Facets {
        slot: Some("ada role".to_owned()),
        ..Facets::default()
    };
    answering.typology = Typology::Semantic;
    for (begun, draft) in [(0, short_lived("a note", 1)), (10, answering)] {
        host.at(begun);
        let key = Some(draft.content.as_str());
        let put = || host.engine.put(&host.caller, "m", vec![draft.clone()], key);
        let first = put().await.unwrap();
        host.at(begun + 2);
        let again = put().await.unwrap();
        assert!(again.replayed && !first.replayed);
        assert_eq!(again.entries, first.entries);
        let other = Draft {
            content: "another text".to_owned(),
            ..draft.clone()
        };
        host.engine
            .put(&host.caller, "m", vec![other.clone()], key)
            .await
            .expect_err("the key is another request's");
        host.engine
            .put(&host.caller, "m", vec![other], Some("a fresh key"))
            .await
            .expect_err("nothing is stored that has expired");
    }
}

#[tokio::test]
async fn an_idempotent_commitment_is_replayed_after_its_instant_passed() {
    let host = TestEnv::new().await.host().await;
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "remind", object(&workflow))
        .await
        .unwrap();
    let new = NewCommitment {
        text: "Water the plants.".to_owned(),
        at: Some(Timestamp(NOON.0 + 60_000)),
        delivery: Delivery {
            workflow_id: Some("remind".to_owned()),
            ..Delivery::default()
        },
        ..NewCommitment::default()
    };
    let create = |key| {
        host.engine
            .create_commitment(&host.caller, "m", new.clone(), key)
    };
    let first = create(Some("k")).await.unwrap();
    host.engine
        .delete_workflow(&host.caller, "remind")
        .await
        .unwrap();
    host.at(120);
    let again = create(Some("k")).await.unwrap();
    assert_eq!((again.replayed, &again.info.id), (true, &first.info.id));
    assert_eq!(host.live("m").await.len(), 1);
    create(Some("another")).await.expect_err("too late");
}

#[tokio::test]
async fn an_idempotent_run_is_replayed_after_its_workflow_was_deleted() {
    let host = TestEnv::new().await.host().await;
    for memory in ["m", "~/own"] {
        let config = json!({"memoryAction": "write", "memoryRef": memory, "content": "x"});
        let workflow =
            json!({"id": "w", "nodes": [{"id": "a", "typeId": "core.identity", "config": config}]});
        host.engine
            .put_workflow(&host.caller, "w", object(&workflow))
            .await
            .unwrap();
        let new = NewRun {
            workflow_id: "w".to_owned(),
            ..NewRun::default()
        };
        let create = || {
            host.engine
                .create_run(&host.caller, new.clone(), Some(memory))
        };
        let first = create().await.unwrap();
        host.engine
            .delete_workflow(&host.caller, "w")
            .await
            .unwrap();
        let again = create().await.unwrap();
        assert_eq!((again.replayed, again.run.id), (true, first.run.id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_whose_source_is_gone_is_answered_as_the_first_time() {
    let mut env = TestEnv::new().await;
    env.policy.run_retention_ms = 60_000;
    let host = env.host().await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_run_executor(&host.engine, &stopping);
    let workflow = json!({"id": "w", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "w", object(&workflow))
        .await
        .unwrap();
    let new = NewRun {
        workflow_id: "w".to_owned(),
        ..NewRun::default()
    };
    let started = host.engine.create_run(&host.caller, new, None).await;
    let source = started.unwrap().run.id;
    let fork = |mode, key| {
        let request = ForkRequest {
            mode,
            from_seq: Some(0),
            overlay: None,
        };
        host.engine
            .fork_run(&host.caller, source.as_str(), request, Some(key))
    };
    let is_ended = async |run: &str| {
        let run = host.engine.get_run(&host.caller, run).await.unwrap();
        run.state.status.is_terminal()
    };
    wait_until("the source ends", || is_ended(source.as_str())).await;
    host.at(30);
    let mut first = Vec::new();
    for (mode, key) in [(ForkMode::Replay, "r"), (ForkMode::Branch, "b")] {
        let forked = fork(mode, key).await.unwrap();
        wait_until("the fork ends", || is_ended(forked.run.id.as_str())).await;
        first.push((mode, key, forked.run.id));
    }
    host.at(70);
    host.run_pass("runs").await;
    for (mode, key, id) in first {
        let again = fork(mode, key).await.unwrap();
        assert_eq!((again.replayed, again.run.id), (true, id));
        fork(mode, "another").await.expect_err("the source is gone");
    }
}

#[tokio::test]
async fn idempotent_requests_are_replayed_when_the_limit_is_reached() {
    let env = TestEnv::new().await;
    let host = TestEnv {
        policy: Policy {
            proposals_open_max: 1,
            files_max: 1,
            ..Policy::default()
        },
        ..env
    }
    .host()
    .await;
    let new = NewProposal {
        kind: ProposalKind::PromptTemplate,
        title: None,
        rationale: None,
        artifact: object(&json!({"id": "tidy", "nodes": [{"id": "a", "typeId": "core.noop"}]})),
        source_runs: Vec::new(),
    };
    let submit = |key| host.engine.submit_proposal(&host.caller, new.clone(), key);
    let first = submit(Some("k")).await.unwrap();
    let again = submit(Some("k")).await.unwrap();
    assert_eq!((again.1, again.0.proposal.id), (true, first.0.proposal.id));
    submit(Some("another")).await.expect_err("full");

    let put = |path, key| {
        let conditions = WriteConditions {
            key: Some(key),
            ..WriteConditions::default()
        };
        host.engine
            .put_file(&host.caller, path, "text", None, conditions)
    };
    let first = put("a.md", "k").await.unwrap();
    host.engine
        .delete_file(&host.caller, "a.md", WriteConditions::default())
        .await
        .unwrap();
    put("b.md", "another").await.unwrap();
    assert_eq!(put("a.md", "k").await.unwrap().version, first.version);
    put("c.md", "a third").await.expect_err("full");
}
