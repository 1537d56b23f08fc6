//! Commitments while the storage fails or another writer interferes.

mod crash;
mod races;

use remem_core::commitment::Delivery;
use remem_core::{Event, EventBody, RecordKind, Timestamp};
use remem_engine::EngineError;
use remem_engine::commitments::{CommitmentInfo, NewCommitment};
use remem_engine::registry::{self, PassMode};
use remem_testkit::host::object;
use remem_testkit::{NOON, TestHost};
use serde_json::json;
use std::collections::BTreeSet;

const MEMORY: &str = "m";

async fn pass(host: &TestHost, name: &str) -> Result<(), EngineError> {
    host.engine
        .run_pass(
            registry::find(name).unwrap(),
            host.tenant(),
            PassMode::Apply,
        )
        .await
        .map(|_| ())
}

async fn seen(host: &TestHost) -> Result<(), EngineError> {
    host.engine
        .observe(&host.caller, MEMORY, "invoice cleared", true)
        .await
        .map(|_| ())
}

async fn workflow(host: &TestHost) -> Delivery {
    let workflow = json!({"id": "remind", "nodes": [{"id": "a", "typeId": "core.noop"}]});
    host.engine
        .put_workflow(&host.caller, "remind", object(&workflow))
        .await
        .unwrap();
    Delivery {
        workflow_id: Some("remind".to_owned()),
        ..Delivery::default()
    }
}

async fn make(host: &TestHost, new: NewCommitment) -> CommitmentInfo {
    host.engine
        .create_commitment(&host.caller, MEMORY, new, None)
        .await
        .unwrap()
        .info
}

fn at(seconds: i64) -> Option<Timestamp> {
    Some(NOON.plus_ms(seconds * 1_000))
}

fn to_do(number: usize) -> NewCommitment {
    NewCommitment {
        text: format!("Thing number {number} is to be done."),
        ..NewCommitment::default()
    }
}

async fn events(host: &TestHost) -> Vec<Event> {
    host.env
        .faults
        .inner()
        .events(host.tenant(), remem_core::Seq(0), 1_000_000)
        .await
        .unwrap()
}

/// Checks that every firing has its record, its event and, where it starts one, its run, all from
/// one commit; and that no instant has two.
async fn is_whole(host: &TestHost) -> (usize, usize) {
    let log = events(host).await;
    let fired: Vec<&Event> = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::CommitmentFired(_)))
        .collect();
    let notes = host
        .env
        .faults
        .inner()
        .records(host.tenant(), RecordKind::Firing, "", None, 100_000)
        .await
        .unwrap();
    assert_eq!(notes.len(), fired.len(), "a note for each fire");
    let mut runs = BTreeSet::new();
    for event in &fired {
        if let Some(run) = event.body.payload()["enqueuedRunId"].as_str() {
            assert!(runs.insert(run.to_owned()), "a run is of one fire");
            let begun = log.iter().find(|e| {
                matches!(e.body, EventBody::RunStarted(_))
                    && e.run.as_ref().unwrap().id.as_str() == run
            });
            assert_eq!(begun.unwrap().revision, event.revision, "of one commit");
            assert!(notes.iter().any(|note| note.body["runId"] == json!(run)));
        }
    }
    let begun = log
        .iter()
        .filter(|event| matches!(event.body, EventBody::RunStarted(_)))
        .count();
    assert_eq!(begun, runs.len(), "no run without a fire");
    (fired.len(), runs.len())
}
