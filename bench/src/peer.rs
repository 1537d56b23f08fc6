//! The named peer: plain SQLite in this process, on one connection and one thread, with the same
//! durability and a search index, and without anything that a host adds (HTTP, keys, redaction,
//! events, revisions, idempotency).

use crate::corpus::{self, Contents};
use crate::table::LatencySample;
use rusqlite::{Connection, params};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// The rows of one transaction: as many as `remem import` sends in one request.
const ROWS_PER_TRANSACTION: usize = 500;

pub struct Peer {
    db: Connection,
}

impl Peer {
    pub fn open(folder: &Path) -> anyhow::Result<Peer> {
        let db = Connection::open(folder.join("peer.db"))?;
        db.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.execute_batch(
            "CREATE TABLE entry (row_id INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, content TEXT NOT NULL, created_at INTEGER NOT NULL);
             CREATE INDEX entry_list ON entry (created_at DESC, id DESC);
             CREATE VIRTUAL TABLE entry_fts USING fts5 (
               content, content = 'entry', content_rowid = 'row_id', tokenize = 'porter unicode61 remove_diacritics 2');",
        )?;
        Ok(Peer { db })
    }

    fn insert(&self, number: usize, content: &str) -> rusqlite::Result<()> {
        let sql = "INSERT INTO entry (id, content, created_at) VALUES (?1, ?2, ?3)";
        self.db.prepare_cached(sql)?.execute(params![
            corpus::id(number),
            content,
            number as i64
        ])?;
        let row = self.db.last_insert_rowid();
        self.db
            .prepare_cached("INSERT INTO entry_fts (rowid, content) VALUES (?1, ?2)")?
            .execute(params![row, content])?;
        Ok(())
    }

    /// Writes one row in each transaction, each flushed before the next.
    pub fn puts(&self, contents: &Contents, run: Duration) -> anyhow::Result<LatencySample> {
        let begun = Instant::now();
        let mut nanos = Vec::new();
        while begun.elapsed() < run {
            let content = contents.at(nanos.len());
            let start = Instant::now();
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            self.insert(nanos.len(), &content)?;
            self.db.execute_batch("COMMIT")?;
            nanos.push(start.elapsed().as_nanos() as u64);
        }
        Ok(LatencySample::new(nanos, begun.elapsed().as_secs_f64()))
    }

    /// Writes rows in large transactions; returns the time that it took.
    pub fn load(&self, contents: &Contents, entries: usize) -> anyhow::Result<Duration> {
        // The texts are made beforehand, because `remem import` reads its texts from a file.
        let texts: Vec<String> = (0..entries).map(|number| contents.at(number)).collect();
        let begun = Instant::now();
        for (chunk, rows) in texts.chunks(ROWS_PER_TRANSACTION).enumerate() {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            for (at, content) in rows.iter().enumerate() {
                self.insert(chunk * ROWS_PER_TRANSACTION + at, content)?;
            }
            self.db.execute_batch("COMMIT")?;
        }
        Ok(begun.elapsed())
    }

    /// Writes all rows as JSON lines; returns the time that it took.
    pub fn export(&self, file: &Path) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let mut output = BufWriter::new(File::create(file)?);
        let mut query = self.db.prepare(
            "SELECT id, content, created_at FROM entry ORDER BY created_at DESC, id DESC",
        )?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            let content: String = row.get(1)?;
            let at: i64 = row.get(2)?;
            writeln!(
                output,
                "{}",
                serde_json::json!({"id": id, "content": content, "createdAt": at})
            )?;
        }
        output.flush()?;
        Ok(begun.elapsed())
    }

    /// Reads one row by its id.
    pub fn gets(
        &self,
        run: Duration,
        id: impl Fn(usize) -> String,
    ) -> anyhow::Result<LatencySample> {
        self.reads(
            "SELECT id, content, created_at FROM entry WHERE id = ?1",
            run,
            id,
        )
    }

    /// Reads the newest `limit` rows.
    pub fn lists(&self, run: Duration, limit: usize) -> anyhow::Result<LatencySample> {
        let sql = format!(
            "SELECT id, content, created_at FROM entry WHERE ?1 = '' ORDER BY created_at DESC, id DESC LIMIT {limit}"
        );
        self.reads(&sql, run, |_| String::new())
    }

    /// Reads the ten rows that match an FTS5 expression best.
    pub fn searches(
        &self,
        run: Duration,
        expression: impl Fn(usize) -> String,
    ) -> anyhow::Result<LatencySample> {
        let sql = "SELECT e.id, e.content, e.created_at FROM entry_fts JOIN entry e ON e.row_id = entry_fts.rowid
                   WHERE entry_fts MATCH ?1 ORDER BY rank LIMIT 10";
        self.reads(sql, run, expression)
    }

    fn reads(
        &self,
        sql: &str,
        run: Duration,
        parameter: impl Fn(usize) -> String,
    ) -> anyhow::Result<LatencySample> {
        let mut query = self.db.prepare(sql)?;
        let begun = Instant::now();
        let mut nanos = Vec::new();
        while begun.elapsed() < run {
            let parameter = parameter(nanos.len());
            let start = Instant::now();
            let rows = query.query_map([parameter], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            let rows: Vec<(String, String, i64)> = rows.collect::<Result<_, _>>()?;
            nanos.push(start.elapsed().as_nanos() as u64);
            std::hint::black_box(rows);
        }
        Ok(LatencySample::new(nanos, begun.elapsed().as_secs_f64()))
    }
}
