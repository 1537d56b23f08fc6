//! Runs: each has its own log inside the tenant's, gapless from 0, independent of what else is
//! written meanwhile.

use super::{NOON, admit, draft, id, put, scope};
use remem_core::event::{ChainLink, NodeEnded, RunEnded, chain_hash};
use remem_core::{Batch, Cause, EventBody, RunId, Scope, Seq, TenantId};
use remem_store::Store;

pub(super) async fn exercise(store: &dyn Store) {
    events_of_a_run_are_numbered(store).await;
    replayed_events_keep_their_time(store).await;
    concurrent_runs_leave_no_gap(store).await;
}

pub(super) fn run(name: &str) -> RunId {
    RunId::parse(name).expect("a test's run")
}

fn node(name: &str) -> EventBody {
    EventBody::NodeCompleted(NodeEnded {
        node_id: name.to_owned(),
    })
}

async fn log(store: &dyn Store, tenant: &TenantId, of: &RunId, from: u64) -> Vec<(u64, String)> {
    let events = store.run_events(tenant, of, from, 100).await.expect("read");
    let place = |event: &remem_core::Event| {
        event
            .run
            .as_ref()
            .map(|run| run.seq)
            .expect("an event of a run")
    };
    events
        .iter()
        .map(|event| (place(event), event.body.payload().to_string()))
        .collect()
}

async fn events_of_a_run_are_numbered(store: &dyn Store) {
    let s = scope("runs-count", "m");
    let one = run("run_1");
    let two = run("run_2");
    put(store, &s, "before", draft("x"), NOON).await;
    let batch = |of: &RunId| Batch::new(s.tenant.clone(), NOON).in_run(of.clone());
    let cause = Cause {
        node: Some("n".to_owned()),
        agent: Some("core.a.b".to_owned()),
    };
    store
        .commit(batch(&one).emit(node("a")).put_caused_by(
            id("e"),
            admit(&s, draft("x"), NOON),
            cause,
        ))
        .await
        .expect("written");
    store
        .commit(batch(&two).emit(node("z")))
        .await
        .expect("written");
    put(store, &s, "between", draft("x"), NOON).await;
    store
        .commit(batch(&one).emit(node("b")))
        .await
        .expect("written");
    let written = r#"{"memoryRef":"m","memoryId":"e","nodeId":"n","agentId":"core.a.b"}"#;
    let written: serde_json::Value = serde_json::from_str(written).expect("JSON");
    let found = log(store, &s.tenant, &one, 0).await;
    assert_eq!(
        found.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&found[1].1).expect("JSON"),
        written,
        "who wrote it"
    );
    assert_eq!(
        log(store, &s.tenant, &one, 2).await,
        [(2, r#"{"nodeId":"b"}"#.to_owned())]
    );
    assert_eq!(log(store, &s.tenant, &two, 0).await.len(), 1);
    assert!(log(store, &s.tenant, &run("run_3"), 0).await.is_empty());
    assert!(
        log(store, &scope("runs-other", "m").tenant, &one, 0)
            .await
            .is_empty(),
        "another tenant's run is another run"
    );
    store.verify(&s.tenant).await.expect("sound");
}

async fn replayed_events_keep_their_time(store: &dyn Store) {
    let Scope { tenant, .. } = scope("runs-repeat", "m");
    let earlier = NOON.plus_ms(-5_000);
    let ended = EventBody::RunCompleted(RunEnded { duration_ms: 3 });
    let batch = Batch::new(tenant.clone(), NOON)
        .in_run(run("run_1"))
        .emit(node("a"))
        .emit_replayed(ended.clone(), earlier);
    store.commit(batch).await.expect("written");
    let events = store.events(&tenant, Seq(0), 10).await.expect("read");
    assert_eq!(
        events
            .iter()
            .map(remem_core::Event::happened_at)
            .collect::<Vec<_>>(),
        [NOON, earlier]
    );
    assert_eq!((&events[1].body, events[1].at), (&ended, NOON));
    let mut chain = [0; 32];
    for event in &events {
        let place = event
            .run
            .as_ref()
            .map(|run| (run.id.as_str(), run.seq, run.recorded_at));
        let payload = event.body.payload().to_string();
        let kind = event.body.kind().as_str();
        let link = ChainLink {
            seq: event.seq,
            revision: event.revision,
            at: event.at,
            run: place,
            kind,
            payload: &payload,
        };
        chain = chain_hash(&chain, &link);
        assert_eq!(
            event.hash, chain,
            "the run and its times are part of the chain"
        );
    }
    store.verify(&tenant).await.expect("sound");
}

async fn concurrent_runs_leave_no_gap(store: &dyn Store) {
    let s = scope("runs-crowd", "m");
    let writes = (0..40).map(|n| {
        let batch = Batch::new(s.tenant.clone(), NOON).in_run(run(&format!("run_{}", n % 4)));
        store.commit(batch.emit(node(&format!("n{n}"))).emit(node("more")))
    });
    for done in futures_util::future::join_all(writes).await {
        done.expect("written");
    }
    for n in 0..4 {
        let seqs: Vec<u64> = log(store, &s.tenant, &run(&format!("run_{n}")), 0)
            .await
            .iter()
            .map(|(seq, _)| *seq)
            .collect();
        assert_eq!(seqs, (0..20).collect::<Vec<_>>());
    }
    store.verify(&s.tenant).await.expect("sound");
}
