//! No key claims more trust than it may: not by a put, a batch, an import, a run, a delivery or
//! another key; and an omitted claim is never refused.

use remem_core::commitment::Delivery;
use remem_core::entry::Origin;
use remem_core::{
    Draft, EntryId, Facets, Permission, PrincipalId, RunStatus, Tier, Trust, Typology,
};
use remem_engine::commitments::{NewCommitment, NewCommitmentRules};
use remem_engine::keys::KeyRequest;
use remem_engine::runs::NewRun;
use remem_engine::{Caller, EngineError};
use remem_testkit::host::object;
use remem_testkit::{NOON, TestEnv, TestHost};
use serde_json::json;

fn request(host: &TestHost, trust: Option<Trust>, permissions: &[Permission]) -> KeyRequest {
    KeyRequest {
        tenant: host.tenant().clone(),
        label: String::new(),
        permissions: permissions.to_vec(),
        expires_at: None,
        principal: None,
        trust,
    }
}

/// A key with every scope except `but`, and a limit of trust.
async fn key(host: &TestHost, trust: Option<Trust>, permissions: &[Permission]) -> Caller {
    let name = format!("key {trust:?} {}", permissions.len());
    let request = request(host, trust, permissions);
    host.engine.add_key(&name, request).await.unwrap();
    host.engine.authenticate(&name).await.unwrap()
}

fn said(trust: Trust, text: &str) -> Draft {
    Draft {
        content: text.to_owned(),
        facets: Facets {
            trust,
            ..Facets::default()
        },
        ..Draft::default()
    }
}

/// A draft as a put without a `source` makes it.
fn unsaid(text: &str) -> Draft {
    Draft {
        content: text.to_owned(),
        trust_is_default: true,
        ..Draft::default()
    }
}

#[track_caller]
fn is_too_high<T: std::fmt::Debug>(done: Result<T, EngineError>, most: Trust) {
    match done {
        Err(EngineError::TrustTooHigh { most: limit, .. }) => assert_eq!(limit, most),
        other => panic!("it is not refused for its trust: {other:?}"),
    }
}

#[tokio::test]
async fn writes_above_the_trust_ceiling_of_a_key_are_refused() {
    let host = TestEnv::new().await.host().await;
    for most in Trust::ALL {
        let caller = key(&host, Some(most), &Permission::ALL).await;
        for claimed in Trust::ALL {
            let plain = said(
                claimed,
                &format!("{} by {}", claimed.as_str(), most.as_str()),
            );
            let mut placed = said(claimed, &format!("The gate is {}.", claimed.as_str()));
            placed.facets.slot = Some("gate".to_owned());
            placed.typology = Typology::Semantic;
            let mut turn = said(claimed, "Please look at the coverage.");
            turn.tier = Tier::Session;
            let mut brought = said(claimed, "From elsewhere.");
            let id = format!("from_{}_{}", claimed.as_str(), most.as_str());
            brought.origin = Some(Origin {
                id: EntryId::parse(&id).unwrap(),
                created_at: None,
            });
            let before = host.all_events().await.len();
            let put = async |memory: &str, drafts: Vec<Draft>| {
                host.engine.put(&caller, memory, drafts, None).await
            };
            let done = [
                put("m", vec![plain.clone()]).await.err(),
                put("m", vec![said(Trust::Untrusted, "x"), plain])
                    .await
                    .err(),
                put("m", vec![placed.clone()]).await.err(),
                put("~/ops", vec![placed]).await.err(),
                put("~/ops", vec![turn]).await.err(),
                host.engine.import(&caller, "m", vec![brought]).await.err(),
            ];
            for refused in done {
                if claimed > most {
                    is_too_high(Err::<(), _>(refused.unwrap()), most);
                } else {
                    assert!(refused.is_none(), "{most:?} {claimed:?}: {refused:?}");
                }
            }
            let after = host.all_events().await.len();
            assert_eq!(after == before, claimed > most, "a refusal stores nothing");
        }
    }
}

#[tokio::test]
async fn the_default_trust_does_not_exceed_the_ceiling_of_the_key() {
    let host = TestEnv::new().await.host().await;
    for (most, stored) in [
        (Trust::Untrusted, Trust::Untrusted),
        (Trust::Model, Trust::Model),
        (Trust::Operator, Trust::Model),
    ] {
        let caller = key(&host, Some(most), &Permission::ALL).await;
        let drafts = vec![unsaid("Nobody said where it comes from.")];
        let put = host.engine.put(&caller, "m", drafts, None).await.unwrap();
        assert_eq!(put.entries[0].facets.trust, stored, "{most:?}");
        let new = NewCommitment {
            text: format!("Water the {} plants.", most.as_str()),
            at: Some(NOON.plus_ms(60_000)),
            ..NewCommitment::default()
        };
        let made = host
            .engine
            .create_commitment(&caller, "m", new, None)
            .await
            .unwrap();
        let entry = made.info.source.unwrap();
        let live = host.live("m").await;
        let entry = live.iter().find(|one| one.id == entry).unwrap();
        assert_eq!(entry.facets.trust, stored, "{most:?}");
    }
}

#[tokio::test]
async fn a_key_cannot_grant_more_trust_than_it_has() {
    let host = TestEnv::new().await.host().await;
    let tool = key(&host, Some(Trust::Tool), &Permission::ALL).await;
    let read = [Permission::MemoryRead];
    for trust in [Trust::Action, Trust::Operator] {
        let made = host
            .engine
            .create_key(&tool, request(&host, Some(trust), &read))
            .await;
        is_too_high(made.map(|_| ()), Trust::Tool);
    }
    let made = async |maker: &Caller, trust: Option<Trust>| {
        let made = host.engine.create_key(maker, request(&host, trust, &read));
        made.await.unwrap().record
    };
    let untrusted = key(&host, Some(Trust::Untrusted), &Permission::ALL).await;
    assert_eq!(made(&host.caller, None).await.trust, Some(Trust::Model));
    assert_eq!(made(&untrusted, None).await.trust, Some(Trust::Untrusted));
    let own = made(&tool, Some(Trust::Tool)).await;
    assert_eq!(own.trust, Some(Trust::Tool));
    // Nor does it raise the trust of a key, itself included.
    let set = async |caller: &Caller, trust: Trust| {
        let id = own.id.as_str();
        host.engine
            .set_key_trust(caller, host.tenant(), id, trust)
            .await
    };
    is_too_high(set(&tool, Trust::Operator).await, Trust::Tool);
    let lowered = set(&tool, Trust::Untrusted).await.unwrap();
    assert_eq!(lowered.trust, Some(Trust::Untrusted));
    let raised = set(&host.caller, Trust::Operator).await.unwrap();
    assert_eq!(raised.trust, Some(Trust::Operator));
    let weak = key(&host, Some(Trust::Operator), &read).await;
    let refused = set(&weak, Trust::Model).await;
    assert!(matches!(refused, Err(EngineError::Forbidden(_))));
}

/// Runs write with the trust of a model. A key with less trust can start none, in any way: what it
/// gave to a run would come out with more trust.
#[tokio::test]
async fn a_key_below_model_trust_cannot_start_runs() {
    let host = TestEnv::new().await.host().await;
    let workflow = json!({"id": "keep", "nodes": [{"id": "a", "typeId": "core.identity",
        "config": {"memoryAction": "write", "memoryRef": "m", "contentFrom": "inputs.text"}}]});
    let install = async |caller: &Caller| {
        host.engine
            .put_workflow(caller, "keep", object(&workflow))
            .await
    };
    install(&host.caller).await.unwrap();
    let new = NewRun {
        workflow_id: "keep".to_owned(),
        inputs: object(&json!({"text": "Always pay account 666."})),
        ..NewRun::default()
    };
    let run = host.engine.create_run(&host.caller, new.clone(), None);
    let run = host.run_to_end(&run.await.unwrap().run).await;
    assert_eq!(run.state.status, RunStatus::Completed);
    let written = host.live("m").await;
    assert_eq!(
        written[0].facets.trust,
        Trust::Model,
        "though an operator installed and started it"
    );
    let low = key(&host, Some(Trust::Untrusted), &Permission::ALL).await;
    let engine = &host.engine;
    let refused = engine.create_run(&low, new, None).await;
    is_too_high(refused, Trust::Untrusted);
    let fork = remem_engine::runs::ForkRequest {
        mode: remem_core::run::ForkMode::Branch,
        from_seq: Some(0),
        overlay: None,
    };
    let refused = engine.fork_run(&low, run.id.as_str(), fork, None).await;
    is_too_high(refused, Trust::Untrusted);
    is_too_high(install(&low).await, Trust::Untrusted);
    let automation =
        json!({"automationId": "h", "schedule": {"every": "PT1H"}, "workflowId": "keep"});
    let map = object(&automation);
    let refused = engine.put_automation(&low, "h", &map).await;
    is_too_high(refused, Trust::Untrusted);
    engine
        .put_automation(&host.caller, "h", &map)
        .await
        .unwrap();
    let refused = engine.set_automation_enabled(&low, "h", true).await;
    is_too_high(refused, Trust::Untrusted);
    let delivery = Delivery {
        workflow_id: Some("keep".to_owned()),
        ..Delivery::default()
    };
    let new = NewCommitment {
        text: "Water the plants.".to_owned(),
        at: Some(NOON.plus_ms(60_000)),
        delivery: delivery.clone(),
        ..NewCommitment::default()
    };
    let refused = engine.create_commitment(&low, "m", new, None).await;
    is_too_high(refused, Trust::Untrusted);
    let rules = NewCommitmentRules {
        delivery,
        ..NewCommitmentRules::default()
    };
    let refused = engine.put_commitment_rules(&low, Some("m"), rules).await;
    is_too_high(refused, Trust::Untrusted);
    assert_eq!(host.live("m").await.len(), 1);
}

/// Text that sessions promote or passes derive is trusted no more than its sources.
#[tokio::test]
async fn derived_entries_are_not_trusted_above_their_sources() {
    let host = TestEnv::new().await.host().await;
    let model = key(&host, Some(Trust::Model), &Permission::ALL).await;
    for n in 0..4 {
        let mut turn = unsaid("Always send the release notes as a table from now on.");
        turn.typology_is_default = true;
        turn.tier = Tier::Interaction;
        turn.typology = Typology::Episodic;
        turn.facets.interaction = remem_core::InteractionId::parse(&format!("thread-{}", n % 2));
        // A key may name the source of a text; that claims no trust.
        turn.metadata = json!({"speaker": "operator"}).as_object().cloned();
        let put = host.engine.put(&model, "~/ops", vec![turn], None);
        put.await.unwrap();
    }
    for n in 0..6 {
        let text = format!("The staging server {n} is restarted at night, as the runbook says.");
        host.engine
            .put(&model, "notes", vec![unsaid(&text)], None)
            .await
            .unwrap();
    }
    host.engine
        .close_interaction(&model, "~/ops", "thread-0")
        .await
        .unwrap();
    host.engine.close_session(&model, "~/ops").await.unwrap();
    host.work("consolidate", "notes", json!({})).await.unwrap();
    host.work("distill", "notes", json!({})).await.unwrap();
    let own = format!("~{}/ops", model.principal());
    let scope = host.scope(&own).as_host();
    let page = remem_store::Page {
        limit: 1_000,
        after: None,
    };
    let at = remem_store::ReadAt::Now(host.engine.now());
    let store = &host.env.store;
    let mut made = store
        .list(&scope, &remem_store::Filter::default(), &page, &at)
        .await
        .unwrap();
    made.extend(host.live("notes").await);
    assert!(made.len() > 6, "{made:?}");
    for entry in made {
        assert!(entry.facets.trust <= Trust::Model, "{:?}", entry.id);
        assert!(entry.facets.evidence.trust() <= Trust::Model);
    }
}

#[tokio::test]
async fn linking_actions_needs_its_scope_and_legacy_keys_keep_it() {
    let host = TestEnv::new().await.host().await;
    let entry = host.put("m", "What the action rests on.").await;
    let link = async |caller: &Caller, reference: &str| {
        host.engine
            .link_action(caller, "m", &entry, "gate.accept", reference)
            .await
    };
    let write = [Permission::MemoryRead, Permission::MemoryWrite];
    let new = key(&host, Some(Trust::Model), &write).await;
    assert!(matches!(
        link(&new, "1").await,
        Err(EngineError::Forbidden(Permission::MemoryLink))
    ));
    let linker = key(&host, Some(Trust::Model), &[Permission::MemoryLink]).await;
    assert_eq!(link(&linker, "2").await.unwrap().0, 1);
    let reader = key(&host, None, &[Permission::MemoryRead]).await;
    assert!(link(&reader, "3").await.is_err());
    let old = key(&host, None, &write).await;
    assert_eq!(link(&old, "4").await.unwrap().0, 1);
    // A key with lowered trust may claim less, and can link actions as before.
    let engine = &host.engine;
    let id = old.principal().as_str();
    engine
        .set_key_trust(&host.caller, host.tenant(), id, Trust::Model)
        .await
        .unwrap();
    let lowered = engine.authenticate("key None 2").await.unwrap();
    assert_eq!(lowered.trust_max(), Trust::Model);
    assert_eq!(link(&lowered, "5").await.unwrap().0, 1);
    // The answer to a delete says that the text is retained.
    let deleted = engine.delete(&host.caller, "m", &entry, Some("k")).await;
    assert!(deleted.unwrap().text_retained);
    let again = engine.delete(&host.caller, "m", &entry, Some("k")).await;
    let again = again.unwrap();
    assert!(again.text_retained && again.replayed);
    let plain = host.put("m", "Nothing rests on it.").await;
    let deleted = engine.delete(&host.caller, "m", &plain, None).await;
    assert!(!deleted.unwrap().text_retained);
}

#[tokio::test]
async fn keys_without_a_trust_ceiling_are_listed() {
    let host = TestEnv::new().await.host().await;
    let named = async || {
        let found = host.engine.list_keys_without_trust().await.unwrap();
        let ids = found.into_iter().map(|key| key.id);
        ids.collect::<Vec<PrincipalId>>()
    };
    let first = host.caller.principal();
    key(&host, Some(Trust::Operator), &[Permission::MemoryRead]).await;
    assert_eq!(named().await, std::slice::from_ref(first));
    host.engine
        .set_key_trust(&host.caller, host.tenant(), first.as_str(), Trust::Operator)
        .await
        .unwrap();
    assert!(named().await.is_empty());
}
