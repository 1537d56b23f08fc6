//! Converts rows to values, and builds the one condition that decides which rows a reader may see.

use super::connection::store_error;
use super::identity::visible_to_actor;
use super::load::SqliteRow;
use crate::rows::entry;
use remem_core::sabotage;
use remem_core::{Entry, EntryId, MemoryRef, Revision, RunId, TenantId};
use remem_store::{ReadAt, StoreError};
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

/// Reads an entry from the columns of `entry::WITH_TEXT`.
pub(super) fn read_entry(row: &Row<'_>, memory_ref: &MemoryRef) -> rusqlite::Result<Entry> {
    entry::read_entry(&mut SqliteRow::new(row), memory_ref).map_err(|_| {
        rusqlite::Error::InvalidColumnType(0, "entry".to_owned(), rusqlite::types::Type::Text)
    })
}

/// A part of the rows that a reader may see.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VisiblePart {
    /// Rows that are current now.
    Current,
    /// Rows that were removed since the snapshot was taken.
    Ended,
    Both,
}

/// A statement under construction: text, and parameters in the order of their `?`.
pub(super) struct StatementBuilder {
    pub sql: String,
    pub params: Vec<Box<dyn ToSql>>,
}

impl StatementBuilder {
    pub fn new(sql: impl Into<String>) -> StatementBuilder {
        StatementBuilder {
            sql: sql.into(),
            params: Vec::new(),
        }
    }

    /// Appends text with one `?` per parameter.
    pub fn push(&mut self, sql: &str, params: impl IntoIterator<Item = Box<dyn ToSql>>) {
        self.sql.push_str(sql);
        self.params.extend(params);
    }

    /// Adds the condition that decides which rows of `e` a reader may see: of this tenant and this
    /// memory, live at that moment. Every read of content uses it. `Entry::is_live` is the same
    /// rule in Rust; the conformance suite checks that the two agree.
    pub fn push_visible(&mut self, tenant: &TenantId, scope: i64, at: &ReadAt) {
        self.push_visible_part(tenant, scope, at, VisiblePart::Both);
    }

    /// Like `push_visible`, for one part: an index that holds only current rows cannot serve a
    /// condition on both parts.
    pub fn push_visible_part(
        &mut self,
        tenant: &TenantId,
        scope: i64,
        at: &ReadAt,
        part: VisiblePart,
    ) {
        self.push(
            sabotage!(
                "another-memory-shows",
                "e.tenant_id = ? AND e.scope_id = ? AND ",
                "e.tenant_id = ? AND e.scope_id <> ? + 1000 AND "
            ),
            boxed([&tenant.as_str().to_owned(), &scope]),
        );
        self.push(&visible_to_actor("e"), []);
        let now = at.instant().0;
        let is_valid = " AND (e.valid_at IS NULL OR e.valid_at <= ?) AND (e.invalid_at IS NULL OR e.invalid_at > ?";
        match at {
            ReadAt::Now(_) => {
                self.push(
                    sabotage!("removed-entries-show", " AND e.rev_to IS NULL", " "),
                    [],
                );
                self.push(&format!("{is_valid})"), boxed([&now, &now]));
            }
            ReadAt::Snapshot {
                revision,
                own_runs,
                since,
                ..
            } => {
                self.push_snapshot_condition(*revision, own_runs, part);
                // A row that was closed since the snapshot counts as it was then. A row that the
                // runs wrote themselves may be valid from a later time.
                self.push(
                    &format!("{is_valid} OR e.rev_to > ?)"),
                    boxed([&now, &since.0, &revision.0]),
                );
            }
            ReadAt::AsOf { then, .. } => {
                match part {
                    VisiblePart::Current => self.push(sabotage!("removed-entries-show", " AND e.rev_to IS NULL", " "), []),
                    VisiblePart::Ended => self.push(" AND e.rev_to IS NOT NULL AND e.erased_at IS NULL AND e.removed_reason = 'invalidated'", []),
                    VisiblePart::Both => self.push(" AND e.erased_at IS NULL AND (e.rev_to IS NULL OR e.removed_reason = 'invalidated')", []),
                }
                let is_valid = " AND (e.typology <> 'semantic' OR (coalesce(e.valid_at, e.created_at) <= ? AND (e.invalid_at IS NULL OR e.invalid_at > ?)))";
                self.push(is_valid, boxed([&then.0, &then.0]));
            }
        }
        self.push(
            sabotage!(
                "an-entry-lives-a-millisecond-too-long",
                " AND (e.expires_at IS NULL OR e.expires_at > ?)",
                " AND (e.expires_at IS NULL OR e.expires_at >= ?)"
            ),
            boxed([&at.instant().0]),
        );
    }

    /// Adds the condition of a snapshot: an entry belongs to it if it was written by then, or by
    /// one of the runs, and was not removed by then, nor by one of the runs.
    fn push_snapshot_condition(
        &mut self,
        revision: Revision,
        own_runs: &[RunId],
        part: VisiblePart,
    ) {
        match part {
            VisiblePart::Current => self.push(
                sabotage!("removed-entries-show", " AND e.rev_to IS NULL", " "),
                [],
            ),
            VisiblePart::Ended => self.push(
                " AND e.erased_at IS NULL AND e.rev_to IS NOT NULL AND e.rev_to > ?",
                boxed([&revision.0]),
            ),
            VisiblePart::Both => self.push(
                " AND e.erased_at IS NULL AND (e.rev_to IS NULL OR e.rev_to > ?)",
                boxed([&revision.0]),
            ),
        }
        self.push(
            sabotage!(
                "other-writers-show-through-a-snapshot",
                " AND (e.rev_from <= ?",
                " AND (0 <= ?"
            ),
            boxed([&revision.0]),
        );
        for run in own_runs {
            self.push(
                " OR e.written_by_run = ?",
                boxed([&run.as_str().to_owned()]),
            );
        }
        self.push(")", []);
        for run in own_runs.iter().filter(|_| part != VisiblePart::Current) {
            self.push(
                sabotage!(
                    "a-run-s-own-delete-still-shows",
                    " AND e.removed_by_run IS NOT ?",
                    " AND ? IS NOT NULL"
                ),
                boxed([&run.as_str().to_owned()]),
            );
        }
    }

    /// Runs the statement, and reads each row by its columns.
    pub fn read<T>(
        &self,
        db: &Connection,
        mut read: impl FnMut(&mut SqliteRow<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = db.prepare_cached(&self.sql).map_err(store_error)?;
        let params = rusqlite::params_from_iter(self.params.iter());
        let mut rows = statement.query(params).map_err(store_error)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            found.push(read(&mut SqliteRow::new(row))?);
        }
        Ok(found)
    }

    pub fn query<T>(
        &self,
        db: &Connection,
        map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let mut statement = db.prepare_cached(&self.sql)?;
        statement
            .query_map(rusqlite::params_from_iter(self.params.iter()), map)?
            .collect()
    }
}

/// Parameters of mixed types, as owned values.
pub(super) fn boxed<const N: usize>(params: [&dyn OwnedParam; N]) -> Vec<Box<dyn ToSql>> {
    params.iter().map(|p| p.boxed()).collect()
}

/// A value that can be a parameter and outlive the borrow that it was made from.
pub(super) trait OwnedParam {
    fn boxed(&self) -> Box<dyn ToSql>;
}

impl<T: ToSql + Clone + 'static> OwnedParam for T {
    fn boxed(&self) -> Box<dyn ToSql> {
        Box::new(self.clone())
    }
}

/// Names of entries as the JSON text that a statement takes, each once.
pub(super) fn json_names(names: &[(MemoryRef, EntryId)]) -> String {
    let names: BTreeSet<&(MemoryRef, EntryId)> = names.iter().collect();
    let pairs = names
        .iter()
        .map(|(memory_ref, id)| [memory_ref.as_str(), id.as_str()]);
    serde_json::Value::from_iter(pairs.map(Vec::from)).to_string()
}

/// The row id of the memory of that name, if the actor may know of it.
pub(super) fn scope_id(
    db: &Connection,
    tenant: &TenantId,
    memory_ref: &MemoryRef,
) -> rusqlite::Result<Option<i64>> {
    let sql = format!(
        "SELECT scope_id FROM scope WHERE tenant_id = ?1 AND memory_ref = ?2 AND {}",
        visible_to_actor("scope")
    );
    db.prepare_cached(&sql)?
        .query_row(params![tenant.as_str(), memory_ref.as_str()], |row| {
            row.get(0)
        })
        .optional()
}
