//! Converts rows to values, and builds the one condition that decides which rows a reader may see.

use super::identity::visible_to_actor;
use remem_core::entry::{Facets, RevisionRange};
use remem_core::sabotage;
use remem_core::{
    Entry, EntryId, Evidence, InteractionId, MemoryRef, Revision, RunId, SessionId, TenantId,
    Timestamp, WorldId,
};
use remem_store::ReadAt;
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// The columns of an entry in the order that `read_entry` reads them.
pub(super) const ENTRY_COLUMNS: &str =
    "e.id, e.content, e.tags, e.metadata, e.created_at, e.expires_at, e.tier, e.typology, e.rev_from, e.rev_to, e.scan, e.session,
     e.interaction, e.world, e.slot, e.valid_at, e.invalid_at, e.trust, e.evidence";
/// The number of these columns: other columns that a statement selects come after them.
pub(super) const ENTRY_WIDTH: usize = 19;

pub(super) fn read_entry(row: &Row<'_>, memory_ref: &MemoryRef) -> rusqlite::Result<Entry> {
    let id: String = row.get(0)?;
    let tags: String = row.get(2)?;
    let metadata: Option<String> = row.get(3)?;
    let tier: String = row.get(6)?;
    let typology: String = row.get(7)?;
    let unreadable = |column| {
        rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Text)
    };
    Ok(Entry {
        id: EntryId::parse(&id).ok_or_else(|| unreadable(0))?,
        memory_ref: memory_ref.clone(),
        content: row.get(1)?,
        tags: serde_json::from_str(&tags).map_err(|_| unreadable(2))?,
        metadata: metadata
            .map(|text| serde_json::from_str(&text))
            .transpose()
            .map_err(|_| unreadable(3))?,
        created_at: Timestamp(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        tier: tier.parse().map_err(|_| unreadable(6))?,
        typology: typology.parse().map_err(|_| unreadable(7))?,
        facets: read_facets(row)?,
        visible: RevisionRange {
            from: Revision(row.get(8)?),
            to: row.get::<_, Option<u64>>(9)?.map(Revision),
        },
        redaction_fingerprint: row.get::<_, i64>(10)?.cast_unsigned(),
    })
}

fn read_facets(row: &Row<'_>) -> rusqlite::Result<Facets> {
    let unreadable = |column| {
        rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Text)
    };
    let text = |column| row.get::<_, Option<String>>(column);
    let trust: String = row.get(17)?;
    let evidence: String = row.get(18)?;
    Ok(Facets {
        session: text(11)?
            .map(|id| SessionId::parse(&id).ok_or_else(|| unreadable(11)))
            .transpose()?,
        interaction: text(12)?
            .map(|id| InteractionId::parse(&id).ok_or_else(|| unreadable(12)))
            .transpose()?,
        world: text(13)?.map_or(Ok(WorldId::none()), |id| {
            WorldId::parse(&id).ok_or_else(|| unreadable(13))
        })?,
        slot: text(14)?,
        valid_at: row.get::<_, Option<i64>>(15)?.map(Timestamp),
        invalid_at: row.get::<_, Option<i64>>(16)?.map(Timestamp),
        trust: trust.parse().map_err(|_| unreadable(17))?,
        evidence: Evidence::from_text(&evidence).ok_or_else(|| unreadable(18))?,
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
