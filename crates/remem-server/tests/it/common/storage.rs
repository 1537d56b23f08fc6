//! Where a test's host keeps its memory: SQLite in process memory, or, when
//! `REMEM_TEST_STORE=postgres`, a database of its own on the server that `scripts/test` started.
//! The same tests run on both.

use remem_store::{Directory, Review, Store};
use remem_store_sql::postgres::{EXACT_MAX, Options, Target, WAITERS_MAX, migrate};
use remem_store_sql::{Location, PostgresStore, SqliteDirectory, SqliteStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub type Opened = (Arc<dyn Store>, Arc<dyn Review>, Arc<dyn Directory>);

pub async fn open() -> Opened {
    if std::env::var("REMEM_TEST_STORE").is_ok_and(|store| store == "postgres") {
        return postgres().await;
    }
    let store = Arc::new(SqliteStore::open(Location::Memory, 1).unwrap());
    (
        store.clone(),
        store,
        Arc::new(SqliteDirectory::open(&Location::Memory).unwrap()),
    )
}

async fn postgres() -> Opened {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let server = std::env::var("REMEM_TEST_POSTGRES")
        .expect("REMEM_TEST_POSTGRES is what `scripts/postgres start DIR` prints");
    let name = format!(
        "s{}_{}",
        std::process::id(),
        COUNT.fetch_add(1, Ordering::SeqCst)
    );
    let made = tokio::process::Command::new("psql")
        .args(["-Xq", &server, "-c", &format!("CREATE DATABASE {name}")])
        .status()
        .await;
    assert!(
        made.expect("psql is there: `scripts/postgres install`")
            .success()
    );
    let (place, _) = server.rsplit_once('/').unwrap();
    migrate(
        &Target::parse(&format!("{place}/{name}")).unwrap(),
        "of-the-application",
    )
    .await
    .unwrap();
    let (_, host) = place.rsplit_once('@').unwrap();
    let store = PostgresStore::open(Options {
        target: Target::parse(&format!(
            "postgres://{name}_app:of-the-application@{host}/{name}"
        ))
        .unwrap(),
        worker: None,
        connections: 4,
        // Long enough for a machine that is busy with other tests.
        wait: Duration::from_secs(20),
        waiters_max: WAITERS_MAX,
        deadline: Duration::from_secs(10),
        exact_max: EXACT_MAX,
        local_ms: || 0,
    });
    let store = store.await.unwrap();
    let directory = store.directory();
    let store = Arc::new(store);
    (store.clone(), store, Arc::new(directory))
}
