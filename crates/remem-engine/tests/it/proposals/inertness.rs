//! A proposal that was not applied has no effect.

use super::{
    agents, automation, chain, engine_over, has_ended, key, of_each_kind, submit, template,
    workflow,
};
use remem_core::proposal::{ProposalKind, ProposalState};
use remem_core::{Permission, RecordKind};
use remem_engine::proposals::{ProposalChanges, ProposalSettings};
use remem_engine::runs::NewRun;
use remem_engine::{Caller, Engine, runner};
use remem_testkit::TestEnv;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// Everything that a host does and shows which a proposal could influence.
async fn behaviour(meddle: impl AsyncFn(&Engine, &Caller)) -> Vec<String> {
    let env = TestEnv::new().await;
    let engine = engine_over(&env, ProposalSettings::default(), Arc::default());
    let caller = key(&engine, "ann", &Permission::ALL).await;
    // Proposals use another source of ids, so that those of runs stay comparable.
    let reviewer = engine_over(&env, ProposalSettings::default(), Arc::default());
    let prompt = submit(
        &reviewer,
        &caller,
        ProposalKind::PromptTemplate,
        template("greeting", "Hello"),
    )
    .await;
    reviewer
        .apply_proposal(&caller, &prompt, None)
        .await
        .unwrap();
    engine
        .put_workflow(
            &caller,
            "weekly",
            workflow("weekly", "by hand").as_object().cloned().unwrap(),
        )
        .await
        .unwrap();
    let mut manifest = agents("local.test.helper", "x")["agents"][0].clone();
    manifest.as_object_mut().unwrap().remove("systemPrompt");
    manifest["systemPromptRef"] = json!("prompt:greeting");
    let install = remem_core::agent::InstallRequest {
        manifest: manifest.as_object().cloned().unwrap(),
        ..Default::default()
    };
    engine.install_agent(&caller, install).await.unwrap();
    engine
        .put_automation(
            &caller,
            "nightly",
            automation("nightly", "PT1H").as_object().unwrap(),
        )
        .await
        .unwrap();
    meddle(&reviewer, &caller).await;
    let (_stop, stopping) = watch::channel(false);
    runner::start_run_executor(&engine, &stopping);
    let mut seen = Vec::new();
    for new in [
        NewRun {
            workflow_id: "weekly".to_owned(),
            ..NewRun::default()
        },
        NewRun {
            agent_id: Some("local.test.helper".to_owned()),
            ..NewRun::default()
        },
        NewRun {
            workflow_id: "ghost".to_owned(),
            ..NewRun::default()
        },
        NewRun {
            agent_id: Some("local.test.ghost".to_owned()),
            ..NewRun::default()
        },
    ] {
        let started = match engine.create_run(&caller, new, None).await {
            Ok(started) => started,
            Err(error) => {
                seen.push(format!("{error:?}"));
                continue;
            }
        };
        let run = has_ended(&engine, &caller, &started.run).await;
        seen.push(format!("{:?}", run.state));
        let (log, _) = engine
            .run_events(&caller, run.id.as_str(), 0)
            .await
            .unwrap();
        seen.extend(log.iter().map(|event| {
            format!(
                "{} {} {:?} {:?}",
                event.body.kind().as_str(),
                event.body.payload(),
                event.at,
                event.run
            )
        }));
    }
    seen.push(format!(
        "{:?}",
        engine.list_automations(&caller).await.unwrap()
    ));
    seen.push(format!(
        "{:?}",
        engine.list_workflows(&caller).await.unwrap()
    ));
    seen.push(format!("{:?}", engine.list_agents(&caller).await.unwrap()));
    for kind in [
        RecordKind::Agent,
        RecordKind::Workflow,
        RecordKind::Prompt,
        RecordKind::Automation,
        RecordKind::InstalledArtifact,
    ] {
        for record in env
            .store
            .records(caller.tenant(), kind, "", None, 100)
            .await
            .unwrap()
        {
            seen.push(format!(
                "{} {} {}",
                record.key,
                record.version,
                Value::Object(record.body.clone())
            ));
        }
    }
    for until in [env.clock.as_ref(), env.clock.as_ref()].map(remem_engine::ports::Clock::now) {
        let due = remem_store::RecordLookup::Due {
            until: until.plus_ms(30 * 86_400_000),
            after: None,
        };
        let found = env
            .store
            .records_by(caller.tenant(), RecordKind::Automation, &due, 100)
            .await
            .unwrap();
        seen.extend(
            found
                .into_iter()
                .map(|record| format!("due {} {:?}", record.key, record.links.due)),
        );
    }
    seen
}

#[tokio::test]
async fn an_unapplied_proposal_has_no_effect() {
    let plain = behaviour(async |_, _| {}).await;
    assert!(
        plain.iter().any(|line| line.contains("run.completed"))
            && plain.iter().any(|line| line.contains("UnknownWorkflow")),
        "{plain:#?}"
    );
    for state in [
        ProposalState::Draft,
        ProposalState::Revised,
        ProposalState::Rejected,
        ProposalState::Archived,
    ] {
        let meddled = behaviour(async |engine, caller| {
            let mut more = of_each_kind().to_vec();
            let ghosts = [chain("ghost", "boo"), agents("local.test.ghost", "boo")];
            more.extend(
                [ProposalKind::WorkflowChainPack, ProposalKind::AgentPack]
                    .into_iter()
                    .zip(ghosts),
            );
            more.push((ProposalKind::Automation, automation("ghost", "PT1S")));
            for (kind, artifact) in more {
                let id = submit(engine, caller, kind, artifact.clone()).await;
                match state {
                    ProposalState::Draft => {}
                    ProposalState::Revised => {
                        let revise = ProposalChanges {
                            artifact: artifact.as_object().cloned(),
                            ..ProposalChanges::default()
                        };
                        engine.revise_proposal(caller, &id, revise).await.unwrap();
                    }
                    ProposalState::Rejected => {
                        drop(engine.reject_proposal(caller, &id).await.unwrap())
                    }
                    _ => drop(engine.archive_proposal(caller, &id).await.unwrap()),
                }
            }
        })
        .await;
        assert_eq!(plain, meddled, "{state:?}");
    }
}
