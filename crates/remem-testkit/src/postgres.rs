//! A private PostgreSQL database for each test, on the server that `REMEM_TEST_POSTGRES` names.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_store_sql::postgres::{
    EXACT_MAX, PostgresOptions, PostgresStore, PostgresTarget, WAITERS_MAX, migrate,
};
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

/// A private database of a test.
pub struct TestDatabase {
    /// The database's name on the server.
    pub name: String,
    /// The URL for the superuser.
    pub admin_url: String,
    /// The URL for the application.
    pub app_url: String,
}

impl TestDatabase {
    /// Creates a database without a schema.
    pub async fn empty() -> TestDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        // Processes of one run, and runs one after another, share a server.
        let name = format!("t{}_{}_{count}", now().as_secs(), std::process::id());
        TestDatabase::create(&connect(&server_url()).await, name).await
    }

    /// Opens a database that the tests of a topic share and only read: the first of them fills it.
    ///
    /// cargo-nextest runs each test in a separate process and passes it the id of the run, which
    /// the database is named after. Without nextest the caller shares it within the process.
    pub async fn shared(topic: &str, fill: impl AsyncFnOnce(&TestDatabase)) -> TestDatabase {
        let Ok(run) = std::env::var("NEXTEST_RUN_ID") else {
            let database = TestDatabase::fresh().await;
            fill(&database).await;
            return database;
        };
        let name = format!("{topic}_{}", run.replace('-', "_"));
        let server = connect(&server_url()).await;
        let lock = "SELECT pg_advisory_lock(hashtext($1))";
        server.execute(lock, &[&name]).await.unwrap();
        let filled = "SELECT 1 FROM pg_database
             WHERE datname = $1 AND shobj_description(oid, 'pg_database') = 'filled'";
        if server.query_opt(filled, &[&name]).await.unwrap().is_some() {
            return TestDatabase::named(name);
        }
        let database = TestDatabase::create(&server, name).await;
        database.migrate().await;
        fill(&database).await;
        let note = format!("COMMENT ON DATABASE {} IS 'filled'", database.name);
        server.batch_execute(&note).await.unwrap();
        // The lock ends with the connection.
        database
    }

    async fn create(server: &Client, name: String) -> TestDatabase {
        server
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await
            .unwrap();
        TestDatabase::named(name)
    }

    fn named(name: String) -> TestDatabase {
        let server = server_url();
        let (authority, _) = server.rsplit_once('/').unwrap();
        let host = authority.rsplit_once('@').unwrap().1;
        TestDatabase {
            admin_url: format!("{authority}/{name}"),
            app_url: format!("postgres://{name}_app:{PASSWORD}@{host}/{name}"),
            name,
        }
    }

    async fn migrate(&self) {
        migrate(&PostgresTarget::parse(&self.admin_url).unwrap(), PASSWORD)
            .await
            .unwrap();
    }

    /// Creates a migrated database.
    pub async fn fresh() -> TestDatabase {
        let database = TestDatabase::empty().await;
        database.migrate().await;
        database
    }

    /// Restores a kept dump into this empty database, with the owners that `remem migrate` sets.
    pub async fn restore(&self, dump: &str) {
        let name = &self.name;
        let roles = format!(
            "CREATE ROLE {name}_owner NOLOGIN; CREATE ROLE {name}_worker NOLOGIN; CREATE ROLE {name}_reviewer NOLOGIN;
             CREATE ROLE {name}_app LOGIN NOINHERIT PASSWORD '{PASSWORD}';
             GRANT CREATE, CONNECT ON DATABASE {name} TO {name}_owner; CREATE EXTENSION pg_trgm WITH SCHEMA public;
             CREATE EXTENSION btree_gist WITH SCHEMA public; SET ROLE {name}_owner"
        );
        let admin = self.admin().await;
        admin.batch_execute(&roles).await.unwrap();
        let dump = dump.replace("FIXTURE", name);
        admin.batch_execute(&dump).await.unwrap();
    }

    /// Opens a store on the database as the application's role.
    pub async fn open(&self) -> PostgresStore {
        PostgresStore::open(self.options(8)).await.unwrap()
    }

    /// The options for a store over it, with that many connections.
    #[must_use]
    pub fn options(&self, connections: usize) -> PostgresOptions {
        PostgresOptions {
            target: PostgresTarget::parse(&self.app_url).unwrap(),
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

    /// Opens a plain connection as the superuser.
    pub async fn admin(&self) -> Client {
        connect(&self.admin_url).await
    }

    /// Opens a plain connection as the application, which bypasses the store.
    pub async fn app(&self) -> Client {
        connect(&self.app_url).await
    }
}

/// Opens a plain connection to a database URL.
pub async fn connect(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    client
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
