//! A store that the older program has filled, ready to be upgraded. It can be kept: then the upgrade
//! works on a copy, and the next run fills nothing.

use super::answers::{Answers, SLOT};
use super::watch::Meter;
use crate::Setup;
use crate::client::{Client, Request, memory};
use crate::compare::clock;
use crate::corpus::{self, Corpus, MEMORY};
use crate::database::{PostgresServer, SqlSession};
use crate::host::{KEY, ServerProcess, command, timed};
use crate::table::number;
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The entries that are deleted again, so that the store has ids of deleted ones.
const DELETED: usize = 50;

/// A store that the older program has filled.
pub struct FilledStore<'a> {
    folder: PathBuf,
    database: Option<Database<'a>>,
    /// What the older program answered.
    pub answers: Answers,
}

/// A database on a server.
struct Database<'a> {
    server: &'a PostgresServer,
    name: String,
    /// The URL that a host uses.
    url: String,
}

/// What is kept beside a filled store.
#[derive(Serialize, Deserialize)]
struct Kept {
    url: Option<String>,
    answers: Answers,
}

impl<'a> FilledStore<'a> {
    /// Fills a store with the program of `old`, or copies one that was kept.
    pub fn open(
        old: &Setup,
        server: Option<&'a PostgresServer>,
        keep: Option<&Path>,
    ) -> anyhow::Result<FilledStore<'a>> {
        let name = format!("upgrade_{}", old.entries);
        let Some(keep) = keep else {
            let folder = old.new_folder("upgrade-")?;
            return FilledStore::fill(old, server, folder, &name);
        };
        let kind = if server.is_some() {
            "postgres"
        } else {
            "sqlite"
        };
        let kept = keep.join(format!("{kind}-{}", old.entries));
        std::fs::create_dir_all(&kept)?;
        let data = kept.join("data");
        let note = kept.join("filled.json");
        if !note.exists() {
            if data.exists() {
                std::fs::remove_dir_all(&data)?;
            }
            let filled = FilledStore::fill(old, server, data.clone(), &name)?;
            let url = filled
                .database
                .as_ref()
                .map(|database| database.url.clone());
            if let Some(database) = &filled.database {
                database.copy(&name, &format!("{name}_kept"))?;
            }
            let answers = filled.answers;
            std::fs::write(&note, serde_json::to_vec(&Kept { url, answers })?)?;
        }
        FilledStore::copy(old, server, &data, &note, &name)
    }

    /// Copies a store that was kept, so that it stays as it is.
    fn copy(
        old: &Setup,
        server: Option<&'a PostgresServer>,
        data: &Path,
        note: &Path,
        name: &str,
    ) -> anyhow::Result<FilledStore<'a>> {
        let Kept { url, answers } = serde_json::from_slice(&std::fs::read(note)?)?;
        let folder = old.new_folder("upgrade-")?.join("data");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(data).arg(&folder);
        timed(copy)?;
        let database = match (server, url) {
            (Some(server), Some(url)) => {
                let name = name.to_owned();
                let database = Database { server, name, url };
                // The name stays the same, because the roles of a database are named after it.
                database.copy(&format!("{}_kept", database.name), &database.name)?;
                Some(database)
            }
            _ => None,
        };
        eprintln!("{} was kept", data.display());
        Ok(FilledStore {
            folder,
            database,
            answers,
        })
    }

    fn fill(
        old: &Setup,
        server: Option<&'a PostgresServer>,
        folder: PathBuf,
        name: &str,
    ) -> anyhow::Result<FilledStore<'a>> {
        let database = server
            .map(|server| Database::make(old, server, name))
            .transpose()?;
        let options = options(database.as_ref());
        let corpus = Corpus::write(old)?;
        let place: Vec<&str> = ["--local"].into_iter().chain(options.clone()).collect();
        let (elapsed, _) = corpus::import(old, &folder, &corpus.file, &place)?;
        std::fs::remove_file(&corpus.file)?;
        let entries = number(old.entries as f64);
        eprintln!(
            "{entries} entries imported in {:.1} s",
            elapsed.as_secs_f64()
        );
        let host = ServerProcess::start_patiently(old, &folder, &options)?;
        write_the_rest(&host)?;
        clock::wait_until_idle(&host, true)?;
        let answers = Answers::read(&host)?;
        host.stop()?;
        Ok(FilledStore {
            folder,
            database,
            answers,
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The options with which a host opens this store.
    pub fn options(&self) -> Vec<&str> {
        options(self.database.as_ref())
    }

    /// Brings a database up to date; the embedded store does that when a host opens it.
    pub fn migrate(&self, new: &Setup) -> anyhow::Result<()> {
        let Some(database) = &self.database else {
            return Ok(());
        };
        let mut migrate = command(new, &self.folder);
        migrate.args(["--database", &database.admin_url(), "migrate"]);
        timed(migrate).map(drop)
    }

    pub fn meter(&self) -> Meter {
        match &self.database {
            Some(database) => Meter::Database(database.admin_url()),
            None => Meter::Folder(self.folder.clone()),
        }
    }

    /// Removes the database; one that was kept stays under its other name, with its roles. The
    /// folder is removed at the end of the whole run.
    pub fn remove(&self, keep: bool) -> anyhow::Result<()> {
        match &self.database {
            Some(Database { server, name, .. }) if keep => server
                .admin()?
                .batch(&format!("DROP DATABASE {name} WITH (FORCE)")),
            Some(Database { server, name, .. }) => drop_database(&server.admin()?, name),
            None => Ok(()),
        }
    }

    pub fn bytes(&self) -> anyhow::Result<u64> {
        self.meter().bytes()
    }
}

fn options<'b>(database: Option<&'b Database>) -> Vec<&'b str> {
    database.map_or_else(Vec::new, |database| vec!["--database", &database.url])
}

/// Writes what an import cannot: answers that replace one another, and entries that are deleted.
fn write_the_rest(host: &ServerProcess) -> anyhow::Result<()> {
    let mut client = Client::connect(host.address())?;
    for drink in ["tea", "coffee", "water"] {
        let body = json!({"content": format!("Ana prefers {drink}"), "slot": SLOT}).to_string();
        client.send(&Request::post(KEY, &memory(MEMORY, "entries"), &body))?;
    }
    for n in 0..DELETED {
        let path = memory(MEMORY, &format!("entries/{}", corpus::id(n * 17)));
        client.send(&Request::delete(KEY, &path))?;
    }
    Ok(())
}

impl<'a> Database<'a> {
    /// Makes an empty database that the older program has prepared.
    fn make(old: &Setup, server: &'a PostgresServer, name: &str) -> anyhow::Result<Database<'a>> {
        drop_database(&server.admin()?, name)?;
        server.admin()?.batch(&format!("CREATE DATABASE {name}"))?;
        let mut database = Database {
            server,
            name: name.to_owned(),
            url: String::new(),
        };
        let mut migrate = command(old, &old.new_folder("migrate-")?);
        migrate.args(["--database", &database.admin_url(), "migrate"]);
        timed(migrate)?.1.trim().clone_into(&mut database.url);
        ensure!(
            database.url.contains("_app:"),
            "roles of an earlier run are left on the server: drop those of {name}"
        );
        Ok(database)
    }

    fn admin_url(&self) -> String {
        self.server.url_of(&self.name)
    }

    /// Copies a whole database under another name.
    fn copy(&self, from: &str, to: &str) -> anyhow::Result<()> {
        let session = self.server.admin()?;
        session.batch(&format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)"))?;
        session
            .batch(&format!("CREATE DATABASE {to} TEMPLATE {from}"))
            .context("the database that was kept is gone: remove its folder of --keep")
    }
}

/// Drops a database of an earlier run and the roles that were made for it.
fn drop_database(session: &SqlSession, name: &str) -> anyhow::Result<()> {
    session.batch(&format!("DROP DATABASE IF EXISTS {name}_kept WITH (FORCE)"))?;
    session.batch(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))?;
    for role in ["app", "worker", "reviewer", "owner"] {
        session.batch(&format!("DROP ROLE IF EXISTS {name}_{role}"))?;
    }
    Ok(())
}
