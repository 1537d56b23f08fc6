//! A private PostgreSQL database for each test, on the server that `REMEM_TEST_POSTGRES` names.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_store_sql::postgres::{EXACT_MAX, Options, PostgresStore, Target, WAITERS_MAX, migrate};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::{Client, NoTls};

/// The password of every application role in tests.
pub const PASSWORD: &str = "of-the-application";

/// The superuser's URL of the server for tests.
#[must_use]
pub fn server_url() -> String {
    std::env::var("REMEM_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!(
            "this test needs a PostgreSQL server: run `scripts/test`, or set REMEM_TEST_POSTGRES \
             to what `scripts/postgres start DIR` prints"
        )
    })
}

/// One database.
pub struct Database {
    /// Its name on the server.
    pub name: String,
    /// As the superuser.
    pub admin_url: String,
    /// As the application.
    pub app_url: String,
}

impl Database {
    /// An empty one.
    pub async fn empty() -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        // Processes of one run, and runs one after another, share a server.
        let name = format!("t{}_{}_{count}", now().as_secs(), std::process::id());
        let server = server_url();
        connect(&server)
            .await
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        let (place, _) = server.rsplit_once('/').unwrap();
        let host = place.rsplit_once('@').unwrap().1;
        Database {
            admin_url: format!("{place}/{name}"),
            app_url: format!("postgres://{name}_app:{PASSWORD}@{host}/{name}"),
            name,
        }
    }

    /// A migrated one.
    pub async fn fresh() -> Database {
        let database = Database::empty().await;
        migrate(&Target::parse(&database.admin_url).unwrap(), PASSWORD)
            .await
            .unwrap();
        database
    }

    /// A store over it, as the application.
    pub async fn open(&self) -> PostgresStore {
        PostgresStore::open(self.options(8)).await.unwrap()
    }

    /// How a store over it is opened, with that many connections.
    #[must_use]
    pub fn options(&self, connections: usize) -> Options {
        Options {
            target: Target::parse(&self.app_url).unwrap(),
            worker: None,
            connections,
            // Long enough for a machine that is busy with other tests.
            wait: Duration::from_secs(20),
            waiters_max: WAITERS_MAX,
            deadline: Duration::from_secs(20),
            exact_max: EXACT_MAX,
            local_ms: || i64::try_from(now().as_millis()).unwrap(),
        }
    }

    /// A plain connection as the superuser.
    pub async fn admin(&self) -> Client {
        connect(&self.admin_url).await
    }

    /// A plain connection as the application, which goes around the store.
    pub async fn app(&self) -> Client {
        connect(&self.app_url).await
    }
}

/// A plain connection.
pub async fn connect(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
