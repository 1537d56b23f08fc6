//! The named peer on PostgreSQL: the design of the OpenWOP reference host. One autocommitted INSERT
//! for each write through a pooled driver, here a connection for each client with prepared
//! statements; one table, its key and one index. No HTTP, API keys, redaction, events, hash chain,
//! idempotency, revisions, row-level security or, for writes, search index.

use crate::corpus::{self, Contents, MEMORY};
use crate::database::{BenchDatabase, PostgresServer, SqlSession};
use crate::load::Load;
use crate::puts::PutCase;
use crate::reads::{ReadOperation, some_id};
use crate::table::LatencySample;
use anyhow::ensure;
use std::time::{Duration, Instant};

const TENANT: &str = "default";
const TABLE: &str = "CREATE TABLE memory (tenant text NOT NULL, memory_ref text NOT NULL, id text NOT NULL, content text NOT NULL,
       tags jsonb NOT NULL, created_at bigint NOT NULL, PRIMARY KEY (tenant, memory_ref, id));
     CREATE INDEX memory_list ON memory (tenant, memory_ref, created_at DESC)";
const SEARCH_INDEX: &str = "ALTER TABLE memory ADD COLUMN words tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED;
     CREATE INDEX memory_words ON memory USING gin (words)";
const INSERT: &str = "INSERT INTO memory (tenant, memory_ref, id, content, tags, created_at) VALUES ($1, $2, $3, $4, '[]', $5)";
const INSERT_MANY: &str = "INSERT INTO memory (tenant, memory_ref, id, content, tags, created_at)
     SELECT $1, $2, n.id, n.content, '[]', n.at FROM unnest($3::text[], $4::text[], $5::bigint[]) AS n (id, content, at)";
const GET: &str = "SELECT id, content, tags::text, created_at FROM memory WHERE tenant = $1 AND memory_ref = $2 AND id = $3";
const LIST: &str =
    "SELECT id, content, tags::text, created_at FROM memory WHERE tenant = $1 AND memory_ref = $2
     ORDER BY created_at DESC LIMIT $3";
const SEARCH: &str = "SELECT id, content, tags::text, created_at, ts_rank(words, q) AS score FROM memory, to_tsquery('english', $3) q
     WHERE tenant = $1 AND memory_ref = $2 AND words @@ q ORDER BY score DESC LIMIT 10";
/// The smallest transaction that has something to flush: a record of its own in the log, and no
/// table.
const EMPTY: &str = "SELECT pg_logical_emit_message(true, 'bench', '')";
/// The number of rows of one statement when the corpus is loaded.
const LOAD_ROWS: usize = 500;

/// The way in which the peer writes several entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InsertMode {
    /// One INSERT for each entry, which is its design.
    OneByOne,
    /// One statement for all entries, which its design does not have.
    Together,
}

/// Measures durable commits of one connection.
pub fn commits(server: &PostgresServer, run: Duration) -> anyhow::Result<LatencySample> {
    Load { clients: 1, run }.run_clients(|_| {
        let session = server.admin()?;
        let statement = session.prepare(EMPTY)?;
        Ok(move |_| {
            let sent = Instant::now();
            session.query(&statement, &[])?;
            Ok(sent)
        })
    })
}

pub fn puts(
    database: &BenchDatabase,
    contents: &Contents,
    case: &PutCase,
    many: InsertMode,
    run: Duration,
) -> anyhow::Result<LatencySample> {
    SqlSession::open(&database.url)?.batch(TABLE)?;
    Load {
        clients: case.clients,
        run,
    }
    .run_clients(|client| {
        let session = SqlSession::open(&database.url)?;
        let one = session.prepare(INSERT)?;
        let all = session.prepare(INSERT_MANY)?;
        Ok(move |n| {
            let first = (n * case.clients + client) * case.rows;
            let rows = EntryColumns::new(contents, first, case.rows);
            let sent = Instant::now();
            match many {
                InsertMode::Together => rows.insert(&session, &all)?,
                InsertMode::OneByOne => {
                    for ((id, content), at) in rows.ids.iter().zip(&rows.contents).zip(&rows.at) {
                        session.query(&one, &[&TENANT, &MEMORY, id, content, at])?;
                    }
                }
            }
            Ok(sent)
        })
    })
}

/// The columns of several entries.
struct EntryColumns {
    ids: Vec<String>,
    contents: Vec<String>,
    at: Vec<i64>,
}

impl EntryColumns {
    fn new(contents: &Contents, first: usize, count: usize) -> EntryColumns {
        let numbers = || first..first + count;
        EntryColumns {
            ids: numbers().map(corpus::id).collect(),
            contents: numbers().map(|number| contents.at(number)).collect(),
            at: numbers().map(|number| number as i64).collect(),
        }
    }

    fn insert(
        &self,
        session: &SqlSession,
        statement: &tokio_postgres::Statement,
    ) -> anyhow::Result<()> {
        session
            .query(
                statement,
                &[&TENANT, &MEMORY, &self.ids, &self.contents, &self.at],
            )
            .map(|_| ())
    }
}

/// Writes the corpus and builds a search index.
pub fn load(database: &BenchDatabase, contents: &Contents, entries: usize) -> anyhow::Result<()> {
    let session = SqlSession::open(&database.url)?;
    session.batch(TABLE)?;
    let statement = session.prepare(INSERT_MANY)?;
    for first in (0..entries).step_by(LOAD_ROWS) {
        EntryColumns::new(contents, first, LOAD_ROWS.min(entries - first))
            .insert(&session, &statement)?;
    }
    session.batch(SEARCH_INDEX)
}

pub fn reads(
    database: &BenchDatabase,
    contents: &Contents,
    entries: usize,
    read: ReadOperation,
    load: Load,
) -> anyhow::Result<LatencySample> {
    load.run_clients(|client| {
        let session = SqlSession::open(&database.url)?;
        let get = session.prepare(GET)?;
        let list = session.prepare(LIST)?;
        let search = session.prepare(SEARCH)?;
        Ok(move |n| {
            let n = client << 32 | n;
            let id = some_id(entries, n);
            let words = if let ReadOperation::Search(words) = read {
                words.content_words(contents, n)
            } else {
                Vec::new()
            };
            let sent = Instant::now();
            let rows = match read {
                ReadOperation::Health => session.query("SELECT 1", &[])?,
                ReadOperation::Get => session.query(&get, &[&TENANT, &MEMORY, &id])?,
                ReadOperation::List(limit) => {
                    session.query(&list, &[&TENANT, &MEMORY, &(limit as i64)])?
                }
                ReadOperation::Search(_) => {
                    session.query(&search, &[&TENANT, &MEMORY, &words.join(" | ")])?
                }
            };
            ensure!(
                !rows.is_empty() || matches!(read, ReadOperation::Search(_)),
                "the peer found nothing"
            );
            Ok(sent)
        })
    })
}
