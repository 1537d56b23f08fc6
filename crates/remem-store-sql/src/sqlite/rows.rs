//! Rows to values, and the one fragment that says which rows a reader may see.

use remem_core::{Entry, EntryId, MemoryRef, Revision, RunId, TenantId, Timestamp, entry::RevRange};
use remem_store::ReadAt;
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Columns of an entry in the order that `entry` reads them.
pub(super) const ENTRY_COLUMNS: &str =
    "e.id, e.content, e.tags, e.metadata, e.created_at, e.expires_at, e.tier, e.typology, e.rev_from, e.rev_to, e.scan";

pub(super) fn entry(row: &Row<'_>, memory_ref: &MemoryRef) -> rusqlite::Result<Entry> {
    let (id, tags, metadata): (String, String, Option<String>) = (row.get(0)?, row.get(2)?, row.get(3)?);
    let (tier, typology): (String, String) = (row.get(6)?, row.get(7)?);
    let unreadable = |column| rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Text);
    Ok(Entry {
        id: EntryId::parse(&id).ok_or_else(|| unreadable(0))?,
        memory_ref: memory_ref.clone(),
        content: row.get(1)?,
        tags: serde_json::from_str(&tags).map_err(|_| unreadable(2))?,
        metadata: metadata.map(|text| serde_json::from_str(&text)).transpose().map_err(|_| unreadable(3))?,
        created_at: Timestamp(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        tier: tier.parse().map_err(|_| unreadable(6))?,
        typology: typology.parse().map_err(|_| unreadable(7))?,
        visible: RevRange { from: Revision(row.get(8)?), to: row.get::<_, Option<u64>>(9)?.map(Revision) },
        scan: row.get::<_, i64>(10)?.cast_unsigned(),
    })
}

/// Which part of what a reader may see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// What is there now.
    There,
    /// What was taken away since the snapshot.
    Ended,
    Both,
}

/// A statement under construction: text, and parameters in the order of their `?`.
pub(super) struct Statement {
    pub sql: String,
    pub params: Vec<Box<dyn ToSql>>,
}

impl Statement {
    pub fn new(sql: impl Into<String>) -> Statement {
        Statement { sql: sql.into(), params: Vec::new() }
    }

    /// Appends text with one `?` per parameter.
    pub fn push(&mut self, sql: &str, params: impl IntoIterator<Item = Box<dyn ToSql>>) {
        self.sql.push_str(sql);
        self.params.extend(params);
    }

    /// Which rows of `e` a reader may see: this tenant, this memory, live at that moment. Every read of content goes
    /// through here. `Entry::is_live` says the same in Rust; the conformance suite holds the two together.
    pub fn push_live(&mut self, tenant: &TenantId, scope: i64, at: &ReadAt) {
        self.push_part(tenant, scope, at, Part::Both);
    }

    /// As `push_live`, of a part: an index that holds only what is there cannot serve a condition on both.
    pub fn push_part(&mut self, tenant: &TenantId, scope: i64, at: &ReadAt, part: Part) {
        self.push("e.tenant_id = ? AND e.scope_id = ?", boxed([&tenant.as_str().to_owned(), &scope]));
        match at {
            ReadAt::Now(_) => self.push(" AND e.rev_to IS NULL", []),
            ReadAt::Snapshot { revision, own_runs, .. } => self.push_snapshot(*revision, own_runs, part),
        }
        self.push(" AND (e.expires_at IS NULL OR e.expires_at > ?)", boxed([&at.instant().0]));
    }

    /// An entry is part of the snapshot if it was written by then, or by one of the runs, and was not taken away by then,
    /// nor by one of the runs.
    fn push_snapshot(&mut self, revision: Revision, own_runs: &[RunId], part: Part) {
        match part {
            Part::There => self.push(" AND e.rev_to IS NULL", []),
            Part::Ended => self.push(" AND e.erased_at IS NULL AND e.rev_to IS NOT NULL AND e.rev_to > ?", boxed([&revision.0])),
            Part::Both => self.push(" AND e.erased_at IS NULL AND (e.rev_to IS NULL OR e.rev_to > ?)", boxed([&revision.0])),
        }
        self.push(" AND (e.rev_from <= ?", boxed([&revision.0]));
        for run in own_runs {
            self.push(" OR e.written_by_run = ?", boxed([&run.as_str().to_owned()]));
        }
        self.push(")", []);
        for run in own_runs.iter().filter(|_| part != Part::There) {
            self.push(" AND e.removed_by_run IS NOT ?", boxed([&run.as_str().to_owned()]));
        }
    }

    pub fn query<T>(&self, db: &Connection, map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> rusqlite::Result<Vec<T>> {
        let mut statement = db.prepare_cached(&self.sql)?;
        statement.query_map(rusqlite::params_from_iter(self.params.iter()), map)?.collect()
    }
}

/// Parameters of mixed types, owned.
pub(super) fn boxed<const N: usize>(params: [&dyn CloneSql; N]) -> Vec<Box<dyn ToSql>> {
    params.iter().map(|p| p.boxed()).collect()
}

/// What can be a parameter that outlives the borrow it was made from.
pub(super) trait CloneSql {
    fn boxed(&self) -> Box<dyn ToSql>;
}

impl<T: ToSql + Clone + 'static> CloneSql for T {
    fn boxed(&self) -> Box<dyn ToSql> {
        Box::new(self.clone())
    }
}

pub(super) fn scope_id(db: &Connection, tenant: &TenantId, memory_ref: &MemoryRef) -> rusqlite::Result<Option<i64>> {
    db.prepare_cached("SELECT scope_id FROM scope WHERE tenant_id = ?1 AND memory_ref = ?2")?
        .query_row(params![tenant.as_str(), memory_ref.as_str()], |row| row.get(0))
        .optional()
}

pub(super) fn scope_id_or_create(db: &Connection, tenant: &TenantId, memory_ref: &MemoryRef) -> rusqlite::Result<i64> {
    if let Some(id) = scope_id(db, tenant, memory_ref)? {
        return Ok(id);
    }
    db.prepare_cached("INSERT INTO scope (tenant_id, memory_ref) VALUES (?1, ?2)")?
        .execute(params![tenant.as_str(), memory_ref.as_str()])?;
    Ok(db.last_insert_rowid())
}
