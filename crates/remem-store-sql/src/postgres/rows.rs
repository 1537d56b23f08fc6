//! Converts rows to values, and builds the one condition that decides which rows a reader may see.

use super::error::store_error;
use remem_core::entry::{Facets, RevisionRange};
use remem_core::sabotage;
use remem_core::{
    Entry, EntryId, Evidence, InteractionId, MemoryRef, Revision, RunId, SessionId, Timestamp,
    WorldId,
};
use remem_store::{ReadAt, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

/// The columns of an entry in the order that `read_entry` reads them.
pub(super) const ENTRY_COLUMNS: &str =
    "e.id, e.content, e.tags, e.metadata, e.created_at, e.expires_at, e.tier, e.typology, e.rev_from, e.rev_to, e.scan, e.session,
     e.interaction, e.world, e.slot, e.valid_at, e.invalid_at, e.trust, e.evidence";
/// The number of these columns: other columns that a statement selects come after them.
pub(super) const ENTRY_WIDTH: usize = 19;

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

pub(super) fn read_entry(row: &Row, memory_ref: &MemoryRef) -> Result<Entry, StoreError> {
    let unreadable = StoreError::Damaged("an entry cannot be read");
    let id: &str = get(row, 0)?;
    let content: &[u8] = get(row, 1)?;
    let tags: &str = get(row, 2)?;
    let metadata: Option<&str> = get(row, 3)?;
    let tier: &str = get(row, 6)?;
    let typology: &str = get(row, 7)?;
    let (Some(id), Ok(content), Ok(tags)) = (
        EntryId::parse(id),
        std::str::from_utf8(content),
        serde_json::from_str(tags),
    ) else {
        return Err(unreadable);
    };
    let (Ok(metadata), Ok(tier), Ok(typology)) = (
        metadata.map(serde_json::from_str).transpose(),
        tier.parse(),
        typology.parse(),
    ) else {
        return Err(unreadable);
    };
    Ok(Entry {
        id,
        memory_ref: memory_ref.clone(),
        content: content.to_owned(),
        tags,
        metadata,
        created_at: Timestamp(get(row, 4)?),
        expires_at: get::<Option<i64>>(row, 5)?.map(Timestamp),
        tier,
        typology,
        facets: read_facets(row)?,
        visible: RevisionRange {
            from: Revision(get_u64(row, 8)?),
            to: get::<Option<i64>>(row, 9)?.map(|r| Revision(r.cast_unsigned())),
        },
        redaction_fingerprint: get_u64(row, 10)?,
    })
}

fn read_facets(row: &Row) -> Result<Facets, StoreError> {
    let unreadable = || StoreError::Damaged("an entry cannot be read");
    let session: Option<&str> = get(row, 11)?;
    let interaction: Option<&str> = get(row, 12)?;
    let world: Option<&str> = get(row, 13)?;
    let trust: &str = get(row, 17)?;
    let evidence: &str = get(row, 18)?;
    Ok(Facets {
        session: session
            .map(|id| SessionId::parse(id).ok_or_else(unreadable))
            .transpose()?,
        interaction: interaction
            .map(|id| InteractionId::parse(id).ok_or_else(unreadable))
            .transpose()?,
        world: world.map_or(Ok(WorldId::none()), |id| {
            WorldId::parse(id).ok_or_else(unreadable)
        })?,
        slot: get(row, 14)?,
        valid_at: get::<Option<i64>>(row, 15)?.map(Timestamp),
        invalid_at: get::<Option<i64>>(row, 16)?.map(Timestamp),
        trust: trust.parse().map_err(|_| unreadable())?,
        evidence: Evidence::from_text(evidence).ok_or_else(unreadable)?,
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
