//! A PostgreSQL server of the benchmark's own, on the disk to be measured, and databases in it, one
//! for each figure. A shell process beside it waits for the end of this process, however that
//! comes, and then stops the server.

use crate::Setup;
use crate::host::{ServerProcess, command, timed};
use crate::{facts, table};
use anyhow::{Context, anyhow, ensure};
use remem_store_sql::postgres::{
    EXACT_MAX, PostgresOptions, PostgresStore, PostgresTarget, WAITERS_MAX, migrate,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};

/// The script of the shell beside the server: it waits until its input ends, then stops the server.
const GUARD: &str = "read -r _; exec \"$1\" stop \"$2\"";

/// A running server. Dropping it stops it and removes its data.
pub struct PostgresServer {
    /// The URL of the superuser, without the name of a database.
    url: String,
    /// The process whose children serve the connections; 0 if it is not on this machine.
    postmaster: u32,
    databases: AtomicUsize,
    /// The process that stops the server; absent for a server that was started elsewhere.
    guard: Option<Child>,
}

impl PostgresServer {
    pub fn start(setup: &Setup) -> anyhow::Result<PostgresServer> {
        // The server may run as another user, who needs access to the folder.
        std::fs::set_permissions(setup.folder.path(), PermissionsExt::from_mode(0o755))?;
        let folder = setup.folder.path().canonicalize()?.join("postgres");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/postgres");
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&script).arg(&folder);
        // It has a process group of its own, so that an interrupt at the keyboard does not end it.
        let guard = guard
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = PostgresServer {
            url: String::new(),
            postmaster: 0,
            databases: AtomicUsize::new(0),
            guard: Some(guard),
        };
        let mut start = Command::new(&script);
        start.arg("start").arg(&folder);
        let (_, url) = timed(start)
            .context("cannot start PostgreSQL (`scripts/postgres install` brings it)")?;
        url.trim()
            .strip_suffix("/postgres")
            .context("the script did not print a URL")?
            .clone_into(&mut server.url);
        let place = PathBuf::from(std::fs::read_to_string(folder.join("place"))?.trim());
        let same = place.metadata()?.dev() == folder.metadata()?.dev();
        ensure!(
            same,
            "PostgreSQL cannot use --dir and is on another disk: name a folder with a short path that others may enter"
        );
        let pid = std::fs::read_to_string(place.join("data/postmaster.pid"))?;
        server.postmaster = pid.lines().next().unwrap_or_default().trim().parse()?;
        Ok(server)
    }

    /// A server that runs already, by the URL of its superuser. It is left running.
    pub fn running_at(url: &str) -> anyhow::Result<PostgresServer> {
        let (place, _) = url.rsplit_once('/').context("a URL with a database")?;
        let mut server = PostgresServer {
            url: place.to_owned(),
            postmaster: 0,
            databases: AtomicUsize::new(0),
            guard: None,
        };
        let session = SqlSession::open(url).context("cannot connect to PostgreSQL")?;
        let rows = session.query("SELECT pg_backend_pid()", &[])?;
        let backend = rows.first().map_or(0, |row| row.get::<_, i32>(0));
        let name = std::fs::read_to_string(format!("/proc/{backend}/comm")).unwrap_or_default();
        if name.trim() == "postgres" {
            server.postmaster =
                facts::ticks_of(&backend.to_string()).map_or(0, |ticks| ticks.parent);
        }
        Ok(server)
    }

    /// The parent process of all processes of the server, if it is on this machine.
    pub fn postmaster(&self) -> Option<u32> {
        (self.postmaster > 0).then_some(self.postmaster)
    }

    /// The processor time of the whole server so far, in ticks.
    pub fn ticks(&self) -> u64 {
        facts::ticks_of_family(self.postmaster)
    }

    /// Opens a connection as the superuser.
    pub fn admin(&self) -> anyhow::Result<SqlSession> {
        SqlSession::open(&self.url_of("postgres"))
    }

    /// The superuser's URL of a database.
    pub fn url_of(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }

    /// Makes an empty database, which is removed when dropped.
    pub fn new_database(&self) -> anyhow::Result<BenchDatabase<'_>> {
        let number = self.databases.fetch_add(1, Ordering::SeqCst);
        // A server that was started elsewhere may have other users, so the name holds the process
        // id.
        let name = format!("bench_{}_{number}", std::process::id());
        self.admin()?.batch(&format!("CREATE DATABASE {name}"))?;
        Ok(BenchDatabase {
            server: self,
            url: self.url_of(&name),
            name,
        })
    }

    /// The settings that decide about its speed and its durability.
    pub fn settings(&self) -> anyhow::Result<String> {
        let names = [
            "server_version",
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "wal_sync_method",
            "wal_level",
            "shared_buffers",
        ];
        let rows = self.admin()?.query(
            "SELECT string_agg(n || ' ' || current_setting(n), ', ') FROM unnest($1::text[]) n",
            &[&&names[..]],
        )?;
        Ok(rows.first().context("settings were asked for")?.get(0))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(guard) = &mut self.guard {
            drop(guard.stdin.take());
            let _ = guard.wait(); // its output is discarded, so there is nothing to report
        }
    }
}

pub struct BenchDatabase<'a> {
    server: &'a PostgresServer,
    /// The URL of the superuser.
    pub url: String,
    name: String,
}

impl BenchDatabase<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Prepares the database for the host; returns the URL that the host uses.
    pub fn migrate(&self, setup: &Setup) -> anyhow::Result<String> {
        let mut command = command(setup, &setup.new_folder("migrate-")?);
        command.args(["--database", &self.url, "migrate"]);
        Ok(timed(command)?.1.trim().to_owned())
    }

    /// Does the work of autovacuum now: searches need a visibility map, plans need statistics.
    /// Returns the size in bytes.
    pub fn vacuum(&self) -> anyhow::Result<u64> {
        let session = SqlSession::open(&self.url)?;
        session.batch("VACUUM ANALYZE")?;
        session.batch("CHECKPOINT")?;
        let rows = session.query("SELECT pg_database_size(current_database())", &[])?;
        let bytes = rows
            .first()
            .map_or(0, |row| row.get::<_, i64>(0))
            .cast_unsigned();
        eprintln!("{} holds {}", self.name, table::mib(bytes));
        Ok(bytes)
    }

    /// Drops the database and the roles that were made for it.
    fn remove(&self, session: &SqlSession) -> anyhow::Result<()> {
        session.batch(&format!("DROP DATABASE {} WITH (FORCE)", self.name))?;
        let roles = session.query(
            "SELECT rolname::text FROM pg_roles WHERE starts_with(rolname::text, $1 || '_')",
            &[&self.name],
        )?;
        for role in roles {
            session.batch(&format!("DROP ROLE {}", role.get::<_, &str>(0)))?;
        }
        Ok(())
    }
}

impl Drop for BenchDatabase<'_> {
    fn drop(&mut self) {
        // If this fails, the database is removed with the server.
        let _ = self
            .server
            .admin()
            .and_then(|session| self.remove(&session));
    }
}

/// Starts a node of the host on a database.
pub fn start_node(setup: &Setup, url: &str) -> anyhow::Result<ServerProcess> {
    ServerProcess::start_with(setup, &setup.new_folder("node-")?, &["--database", url])
}

/// Opens the host's store on an empty database, in this process.
pub async fn store(url: &str) -> anyhow::Result<PostgresStore> {
    store_with(url, EXACT_MAX).await
}

/// The same with another number of vectors up to which all are compared.
pub async fn store_with(url: &str, exact_max: u32) -> anyhow::Result<PostgresStore> {
    migrate(
        &PostgresTarget::parse(url).map_err(|error| anyhow!("{error}"))?,
        "of-the-application",
    )
    .await?;
    let (place, name) = url.rsplit_once('/').context("a URL with a database")?;
    let (_, host) = place.rsplit_once('@').context("a URL with a user")?;
    let app = format!("postgres://{name}_app:of-the-application@{host}/{name}");
    let wait = Duration::from_secs(10);
    let deadline = Duration::from_secs(60);
    let target = PostgresTarget::parse(&app).map_err(|error| anyhow!("{error}"))?;
    Ok(PostgresStore::open(PostgresOptions {
        target,
        worker: None,
        connections: 8,
        wait,
        waiters_max: WAITERS_MAX,
        deadline,
        exact_max,
        local_ms: || 0,
    })
    .await?)
}

/// One connection, driven by the thread that uses it.
pub struct SqlSession {
    runtime: Runtime,
    client: Client,
}

impl SqlSession {
    pub fn open(url: &str) -> anyhow::Result<SqlSession> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls))?;
        runtime.spawn(connection);
        Ok(SqlSession { runtime, client })
    }

    pub fn batch(&self, sql: &str) -> anyhow::Result<()> {
        Ok(self.runtime.block_on(self.client.batch_execute(sql))?)
    }

    pub fn prepare(&self, sql: &str) -> anyhow::Result<tokio_postgres::Statement> {
        Ok(self.runtime.block_on(self.client.prepare(sql))?)
    }

    pub fn query(
        &self,
        sql: &(impl tokio_postgres::ToStatement + ?Sized),
        params: &[&(dyn ToSql + Sync)],
    ) -> anyhow::Result<Vec<Row>> {
        Ok(self.runtime.block_on(self.client.query(sql, params))?)
    }
}
