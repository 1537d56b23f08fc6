//! Converts rows to values, and builds the one condition that decides which rows a reader may see.

use super::error::store_error;
use super::load::PostgresRow;
use crate::rows::entry;
use remem_core::sabotage;
use remem_core::{Entry, MemoryRef, Revision, RunId};
use remem_store::{ReadAt, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

/// Reads the value of a column.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(store_error)
}

pub(super) fn get_u64(row: &Row, column: usize) -> Result<u64, StoreError> {
    Ok(get::<i64>(row, column)?.cast_unsigned())
}

pub(super) fn get_bytes<const N: usize>(row: &Row, column: usize) -> Result<[u8; N], StoreError> {
    get::<&[u8]>(row, column)?
        .try_into()
        .map_err(|_| StoreError::Damaged("a digest has the wrong length"))
}

/// Reads an entry from the columns of `entry::WITH_TEXT`.
pub(super) fn read_entry(row: &Row, memory_ref: &MemoryRef) -> Result<Entry, StoreError> {
    entry::read_entry(&mut PostgresRow::new(row), memory_ref)
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

/// A statement under construction: text, and parameters in the order of their `$n`.
pub(super) struct StatementBuilder<'a> {
    pub sql: String,
    pub params: Vec<Param<'a>>,
}

/// A parameter of a statement, of one of the types in use.
pub(super) enum Param<'a> {
    Text(&'a str),
    Number(i64),
    Bytes(&'a [u8]),
    Texts(Vec<&'a str>),
    Numbers(Vec<i64>),
    Hashes(Vec<Vec<u8>>),
}

impl Param<'_> {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Param::Text(value) => value,
            Param::Number(value) => value,
            Param::Bytes(value) => value,
            Param::Texts(value) => value,
            Param::Numbers(value) => value,
            Param::Hashes(value) => value,
        }
    }
}

impl<'a> StatementBuilder<'a> {
    pub fn new(sql: impl Into<String>) -> StatementBuilder<'a> {
        StatementBuilder {
            sql: sql.into(),
            params: Vec::new(),
        }
    }

    /// Appends text; each `?` in it becomes the next parameter.
    pub fn push(&mut self, sql: &str, params: impl IntoIterator<Item = Param<'a>>) {
        let mut params = params.into_iter();
        for (n, piece) in sql.split('?').enumerate() {
            if n > 0 {
                self.params.extend(params.next());
                self.sql.push_str(&format!("${}", self.params.len()));
            }
            self.sql.push_str(piece);
        }
    }

    /// Adds the condition that decides which rows of `e` a reader may see: of this tenant and this
    /// memory, live at that moment. Every read of content uses it. `Entry::is_live` is the same
    /// rule in Rust; the conformance suite checks that the two agree.
    pub fn push_visible(&mut self, tenant: &'a str, scope_id: &str, at: &'a ReadAt) {
        self.push_visible_part(tenant, scope_id, at, VisiblePart::Both);
    }

    /// Like `push_visible`, for one part: an index that holds only current rows cannot serve a
    /// condition on both parts.
    pub fn push_visible_part(
        &mut self,
        tenant: &'a str,
        scope_id: &str,
        at: &'a ReadAt,
        part: VisiblePart,
    ) {
        sabotage!(
            "postgres-no-where-and-no-policy",
            self.push("e.tenant_id = ?", [Param::Text(tenant)]),
            self.push("true", [])
        );
        self.push(&format!(" AND e.scope_id = {scope_id}"), []);
        let now = at.instant().0;
        let holds = " AND (e.valid_at IS NULL OR e.valid_at <= ?) AND (e.invalid_at IS NULL OR e.invalid_at > ?";
        match at {
            ReadAt::Now(_) => {
                self.push(
                    sabotage!(
                        "postgres-removed-entries-show",
                        " AND e.rev_to IS NULL",
                        " "
                    ),
                    [],
                );
                self.push(
                    &format!("{holds})"),
                    [Param::Number(now), Param::Number(now)],
                );
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
                let bounds = [
                    Param::Number(now),
                    Param::Number(since.0),
                    Param::Number(revision.0.cast_signed()),
                ];
                self.push(&format!("{holds} OR e.rev_to > ?)"), bounds);
            }
            ReadAt::AsOf { then, .. } => {
                match part {
                    VisiblePart::Current => self.push(sabotage!("postgres-removed-entries-show", " AND e.rev_to IS NULL", " "), []),
                    VisiblePart::Ended => self.push(" AND e.rev_to IS NOT NULL AND e.erased_at IS NULL AND e.removed_reason = 'invalidated'", []),
                    VisiblePart::Both => self.push(" AND e.erased_at IS NULL AND (e.rev_to IS NULL OR e.removed_reason = 'invalidated')", []),
                }
                let holds = " AND (e.typology <> 'semantic' OR (coalesce(e.valid_at, e.created_at) <= ? AND (e.invalid_at IS NULL OR e.invalid_at > ?)))";
                self.push(holds, [Param::Number(then.0), Param::Number(then.0)]);
            }
        }
        self.push(
            sabotage!(
                "postgres-an-entry-lives-a-millisecond-too-long",
                " AND (e.expires_at IS NULL OR e.expires_at > ?)",
                " AND (e.expires_at IS NULL OR e.expires_at >= ?)"
            ),
            [Param::Number(at.instant().0)],
        );
    }

    /// Adds the condition of a snapshot: an entry belongs to it if it was written by then, or by
    /// one of the runs, and was not removed by then, nor by one of the runs.
    fn push_snapshot_condition(
        &mut self,
        revision: Revision,
        own_runs: &'a [RunId],
        part: VisiblePart,
    ) {
        let revision = revision.0.cast_signed();
        let own = || Param::Texts(own_runs.iter().map(RunId::as_str).collect());
        let ended = " AND e.erased_at IS NULL AND e.rev_to IS NOT NULL AND e.rev_to > ?";
        let both = " AND e.erased_at IS NULL AND (e.rev_to IS NULL OR e.rev_to > ?)";
        match part {
            VisiblePart::Current => self.push(
                sabotage!(
                    "postgres-removed-entries-show",
                    " AND e.rev_to IS NULL",
                    " "
                ),
                [],
            ),
            VisiblePart::Ended => self.push(ended, [Param::Number(revision)]),
            VisiblePart::Both => self.push(both, [Param::Number(revision)]),
        }
        self.push(
            sabotage!(
                "postgres-other-writers-show-through-a-snapshot",
                " AND (e.rev_from <= ? OR e.written_by_run = ANY(?))",
                " AND (0::bigint <= ? OR e.written_by_run = ANY(?))"
            ),
            [Param::Number(revision), own()],
        );
        if part != VisiblePart::Current {
            self.push(
                sabotage!(
                    "postgres-a-run-s-own-delete-still-shows",
                    " AND (e.removed_by_run IS NULL OR e.removed_by_run <> ALL(?))",
                    " AND (?::text[] IS NOT NULL)"
                ),
                [own()],
            );
        }
    }

    pub fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(Param::as_sql).collect()
    }
}
