//! The purge pass: ends expired entries once; and a restart with a clock that went back brings
//! nothing back.

use remem_core::{Draft, Permission, Policy, TenantId, Timestamp};
use remem_engine::keys::KeyRequest;
use remem_engine::ports::{CountedIds, FixedClock};
use remem_engine::read::ListRequest;
use remem_engine::registry::{self, PassMode, PassReport};
use remem_engine::{Caller, Engine, EngineParts, HostKey};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use std::path::Path;
use std::sync::Arc;

const NOON: Timestamp = Timestamp(1_700_000_000_000);

async fn start(folder: &Path, at: Timestamp, ids: u64) -> (Engine, Arc<FixedClock>, Caller) {
    let location = Location::Folder(folder.to_owned());
    let clock = Arc::new(FixedClock::at(at));
    let key = HostKey::new([3; 32]);
    let counted = Arc::new(CountedIds::default());
    for _ in 0..ids {
        remem_engine::ports::Ids::entry(counted.as_ref());
    }
    let store = Arc::new(SqliteStore::open(location.clone(), 2).unwrap());
    let directory = Arc::new(SqliteDirectory::open(&location).unwrap());
    let parts = EngineParts::new(store, directory, clock.clone(), counted, key);
    let engine = Engine::new(EngineParts {
        policy: Policy {
            purge_batch_max: 10,
            ..Policy::default()
        },
        ..parts
    });
    let tenant = TenantId::parse("t").unwrap();
    let request = KeyRequest {
        tenant,
        label: String::new(),
        permissions: Permission::ALL.to_vec(),
        expires_at: None,
        principal: None,
        trust: None,
    };
    engine.add_key("key", request).await.unwrap();
    let caller = engine.authenticate("key").await.unwrap();
    (engine, clock, caller)
}

async fn put(engine: &Engine, caller: &Caller, end_ms: Option<i64>) {
    let draft = Draft {
        content: "x".into(),
        expires_at: end_ms.map(|ms| NOON.plus_ms(ms)),
        ..Draft::default()
    };
    engine.put(caller, "m", vec![draft], None).await.unwrap();
}

async fn count(engine: &Engine, caller: &Caller) -> usize {
    engine
        .list(
            caller,
            "m",
            ListRequest {
                limit: Some(0),
                ..ListRequest::default()
            },
        )
        .await
        .unwrap()
        .entries
        .len()
}

async fn purge(engine: &Engine, caller: &Caller, mode: PassMode) -> PassReport {
    engine
        .run_pass(registry::find("purge").unwrap(), caller.tenant(), mode)
        .await
        .unwrap()
}

#[tokio::test]
async fn purge_ends_expired_entries_and_a_second_pass_finds_none() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, clock, caller) = start(folder.path(), NOON, 0).await;
    for n in 0..35 {
        put(&engine, &caller, Some(n + 1)).await;
    }
    put(&engine, &caller, None).await;
    clock.set(NOON.plus_ms(30));
    assert_eq!(
        purge(&engine, &caller, PassMode::DryRun).await,
        PassReport {
            examined: 10,
            changed: 10,
            more: true
        }
    );
    assert_eq!(
        purge(&engine, &caller, PassMode::Apply).await,
        PassReport {
            examined: 30,
            changed: 30,
            more: false
        }
    );
    assert_eq!(
        purge(&engine, &caller, PassMode::Apply).await,
        PassReport::default()
    );
    assert_eq!(
        purge(&engine, &caller, PassMode::Compact).await,
        PassReport::default()
    );
    assert_eq!(count(&engine, &caller).await, 6);
}

#[tokio::test]
async fn a_restart_with_an_earlier_clock_revives_no_expired_entry() {
    let folder = tempfile::tempdir().unwrap();
    {
        let (engine, clock, caller) = start(folder.path(), NOON, 0).await;
        put(&engine, &caller, Some(10)).await;
        clock.set(NOON.plus_ms(20));
        assert_eq!(count(&engine, &caller).await, 0);
        put(&engine, &caller, None).await; // the last commit this process made, at +20 ms
    }
    let (engine, _, caller) = start(folder.path(), NOON.plus_ms(5), 100).await;
    assert_eq!(
        count(&engine, &caller).await,
        1,
        "the stored clock is ahead of the machine's, and it holds"
    );
    assert!(engine.tenants_ahead().is_empty(), "not by so little");
}
