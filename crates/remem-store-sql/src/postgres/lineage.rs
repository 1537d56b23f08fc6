//! Reads of lineage: signatures, sources and derivatives of entries, and all entries that carry a
//! subject.

use super::entries::ELIGIBLE;
use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{get, get_u64};
use crate::stored::content_hash;
use crate::trace::{TracePage, TracedRow};
use remem_core::{EntryId, MemoryRef, Scope, Subject, TenantId, Timestamp};
use remem_store::{
    EntryState, Lineage, RelatedEntry, RowCursor, StoreError, StoredSignature, SubjectTrace,
    TracePosition, TracedEntry,
};
use tokio_postgres::Row;

const SCOPE: &str = "(SELECT scope_id FROM remem.scope WHERE tenant_id = $1 AND memory_ref = $2)";
const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

fn parse_name(memory_ref: &str, id: &str) -> Result<(MemoryRef, EntryId), StoreError> {
    MemoryRef::parse(memory_ref)
        .zip(EntryId::parse(id))
        .ok_or(MALFORMED)
}

fn parse_state(reason: Option<&str>) -> Result<EntryState, StoreError> {
    EntryState::from_stored(reason).ok_or(StoreError::Damaged(
        "an entry ended for a reason that nobody knows",
    ))
}

impl Gate {
    /// The cursor bounds both tables, so that PostgreSQL can choose which one to scan.
    pub async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError> {
        let sql = format!(
            "SELECT g.scope_id, g.row_id, e.id, e.created_at, e.typology, g.pass, g.signature, e.trust FROM remem.signature g
             JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = g.scope_id AND e.row_id = g.row_id
             WHERE g.tenant_id = $1 AND g.scope_id = {SCOPE} AND g.row_id > $3 AND e.row_id > $3 AND {ELIGIBLE} ORDER BY g.row_id LIMIT $4"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let after = after.map_or(0, |row| row.1);
        let limit = i64::from(limit);
        let statement = sql_call(&sql, &[&t, &m, &after, &limit]);
        let rows = self
            .read_in_order(Role::Worker, Identity::of_scope(scope), statement)
            .await?;
        rows.iter().map(read_signature).collect()
    }

    pub async fn lineage(
        &self,
        scope: &Scope,
        id: &EntryId,
    ) -> Result<Option<Lineage>, StoreError> {
        let sql = format!(
            "SELECT e.scope_id, e.row_id, e.removed_reason, e.support, (SELECT r.id FROM remem.entry r WHERE r.tenant_id = $1
               AND r.scope_id = e.scope_id AND r.row_id = e.replaced_by) FROM remem.entry e
             WHERE e.tenant_id = $1 AND e.scope_id = {SCOPE} AND e.id_hash = $3 AND e.id = $4"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let hash = content_hash(id.as_str().as_bytes()).to_vec();
        let rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                &sql,
                &[&t, &m, &hash, &id.as_str()],
            )
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let row_key: (i64, i64) = (get(row, 0)?, get(row, 1)?);
        let by: Option<&str> = get(row, 4)?;
        Ok(Some(Lineage {
            state: parse_state(get(row, 2)?)?,
            replaced_by: by
                .map(|id| EntryId::parse(id).ok_or(MALFORMED))
                .transpose()?,
            support: get_u64(row, 3)?,
            sources: self
                .relatives(
                    scope,
                    ["scope_id", "row_id", "source_scope", "source_row"],
                    row_key,
                )
                .await?,
            derivatives: self
                .relatives(
                    scope,
                    ["source_scope", "source_row", "scope_id", "row_id"],
                    row_key,
                )
                .await?,
        }))
    }

    /// The entries at the other end of `lineage` from `place`; the columns of this end come first.
    async fn relatives(
        &self,
        scope: &Scope,
        [s, r, other_s, other_r]: [&str; 4],
        row_key: (i64, i64),
    ) -> Result<Vec<RelatedEntry>, StoreError> {
        let sql = format!(
            "SELECT s.memory_ref, e.id, e.removed_reason FROM remem.lineage l
             JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = l.{other_s} AND e.row_id = l.{other_r}
             JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id
             WHERE l.tenant_id = $1 AND l.{s} = $2 AND l.{r} = $3 ORDER BY e.created_at, e.id, s.memory_ref"
        );
        let rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                &sql,
                &[&scope.tenant.as_str(), &row_key.0, &row_key.1],
            )
            .await?;
        let relative = |row: &Row| {
            let (memory_ref, id) = parse_name(get(row, 0)?, get(row, 1)?)?;
            Ok(RelatedEntry {
                memory_ref,
                id,
                state: parse_state(get(row, 2)?)?,
            })
        };
        rows.iter().map(relative).collect()
    }

    pub async fn trace(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
        limit: u32,
    ) -> Result<SubjectTrace, StoreError> {
        let t = tenant.as_str();
        let digest = subject.bytes().as_slice();
        let most = i64::from(limit);
        let host = || Identity::as_host(tenant);
        let begin = after.given.unwrap_or(RowCursor(i64::MIN, 0));
        let given = self
            .read_in_order(
                Role::App,
                host(),
                sql_call(GIVEN, &[&t, &digest, &begin.0, &begin.1, &most]),
            )
            .await?;
        let given: Vec<TracedRow> = given.iter().map(read_traced).collect::<Result<_, _>>()?;
        let begin = after.derived.unwrap_or(RowCursor(i64::MIN, 0));
        let (scopes, rows) = split_rows(&given);
        let derived = self
            .read(
                Role::App,
                host(),
                DERIVED,
                &[&t, &digest, &scopes, &rows, &begin.0, &begin.1, &most],
            )
            .await?;
        let derived = derived.iter().map(read_traced).collect::<Result<_, _>>()?;
        let page = TracePage::new(after, limit, given, derived);
        let (scopes, rows) = split_rows(&page.rows);
        let survivors = self
            .read(
                Role::App,
                host(),
                MERGED_SURVIVORS,
                &[&t, &digest, &scopes, &rows],
            )
            .await?;
        let merged = |row: &Row| {
            let (memory_ref, id) = parse_name(get(row, 0)?, get(row, 1)?)?;
            Ok((
                memory_ref,
                id,
                EntryId::parse(get(row, 2)?).ok_or(MALFORMED)?,
            ))
        };
        Ok(page.into_trace(
            survivors
                .iter()
                .map(merged)
                .collect::<Result<_, StoreError>>()?,
        ))
    }
}

/// Reads an entry of a trace with its position.
fn read_traced(row: &Row) -> Result<TracedRow, StoreError> {
    let (memory_ref, id) = parse_name(get(row, 2)?, get(row, 3)?)?;
    let hash: Option<&[u8]> = get(row, 5)?;
    let entry = TracedEntry {
        memory_ref,
        id,
        direct: get(row, 6)?,
        erased: get(row, 4)?,
        content_hash: hash.and_then(|bytes| bytes.try_into().ok()),
    };
    Ok((RowCursor(get(row, 0)?, get(row, 1)?), entry))
}

/// The scopes and the numbers of rows, as the statements take them.
fn split_rows(rows: &[TracedRow]) -> (Vec<i64>, Vec<i64>) {
    rows.iter().map(|(row, _)| (row.0, row.1)).unzip()
}

fn read_signature(row: &Row) -> Result<StoredSignature, StoreError> {
    let typology: &str = get(row, 4)?;
    Ok(StoredSignature {
        row: RowCursor(get(row, 0)?, get(row, 1)?),
        id: EntryId::parse(get(row, 2)?).ok_or(MALFORMED)?,
        created_at: Timestamp(get(row, 3)?),
        typology: typology.parse().map_err(|_| MALFORMED)?,
        pass: get_u64(row, 5)?,
        signature: get(row, 6)?,
        trust: get::<&str>(row, 7)?.parse().map_err(|_| MALFORMED)?,
    })
}

/// Entries that a subject was given to, in the order of their rows. Each step looks its rows up one
/// by one, here and below: the planner does not know how few they are, and would read all that the
/// tenant has.
const GIVEN: &str = "SELECT g.scope_id, g.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, e.content_hash, TRUE
    FROM (SELECT scope_id, row_id FROM remem.entry_subject WHERE tenant_id = $1 AND subject = $2 AND (scope_id, row_id) > ($3, $4)
      ORDER BY scope_id, row_id LIMIT $5) g
    CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = g.scope_id AND e.row_id = g.row_id OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM remem.scope s WHERE s.tenant_id = $1 AND s.scope_id = g.scope_id OFFSET 0) s
    ORDER BY g.scope_id, g.row_id";
/// Everything that was made from some rows, step by step, without what the subject was given to as
/// well. `UNION` ends cycles: an entry that was made from another may be merged into it later.
const DERIVED: &str = "WITH RECURSIVE given (scope_id, row_id) AS (SELECT * FROM unnest($3::bigint[], $4::bigint[])),
    carrying (scope_id, row_id) AS (
      SELECT scope_id, row_id FROM given
      UNION SELECT l.scope_id, l.row_id FROM carrying c CROSS JOIN LATERAL (SELECT * FROM remem.lineage l
        WHERE l.tenant_id = $1 AND l.source_scope = c.scope_id AND l.source_row = c.row_id OFFSET 0) l)
    SELECT c.scope_id, c.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, e.content_hash, FALSE
    FROM (SELECT w.scope_id, w.row_id FROM carrying w CROSS JOIN LATERAL (SELECT count(*) AS times FROM remem.entry_subject g
        WHERE g.tenant_id = $1 AND g.subject = $2 AND g.scope_id = w.scope_id AND g.row_id = w.row_id) g
      WHERE g.times = 0 AND (w.scope_id, w.row_id) > ($5, $6) ORDER BY w.scope_id, w.row_id LIMIT $7) c
    CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = c.scope_id AND e.row_id = c.row_id OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM remem.scope s WHERE s.tenant_id = $1 AND s.scope_id = c.scope_id OFFSET 0) s
    ORDER BY c.scope_id, c.row_id";
/// Entries that were merged into some rows without carrying the subject: neither was it given to
/// them, nor to anything that they were made from.
const MERGED_SURVIVORS: &str = "WITH RECURSIVE merged (scope_id, row_id, id, by_row) AS MATERIALIZED (
      SELECT m.scope_id, m.row_id, m.id, m.replaced_by FROM unnest($3::bigint[], $4::bigint[]) AS w (scope_id, row_id)
      CROSS JOIN LATERAL (SELECT * FROM remem.entry m WHERE m.tenant_id = $1 AND m.scope_id = w.scope_id AND m.replaced_by = w.row_id
        AND m.replaced_by IS NOT NULL AND m.erased_at IS NULL OFFSET 0) m WHERE m.removed_reason = 'merged'),
    above (origin_scope, origin, scope_id, row_id) AS (
      SELECT scope_id, row_id, scope_id, row_id FROM merged
      UNION SELECT a.origin_scope, a.origin, l.source_scope, l.source_row FROM above a CROSS JOIN LATERAL (SELECT * FROM remem.lineage l
        WHERE l.tenant_id = $1 AND l.scope_id = a.scope_id AND l.row_id = a.row_id OFFSET 0) l)
    SELECT s.memory_ref, c.id, e.id FROM merged c
    CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = c.scope_id AND e.row_id = c.by_row OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM remem.scope s WHERE s.tenant_id = $1 AND s.scope_id = c.scope_id OFFSET 0) s
    WHERE (c.scope_id, c.row_id) NOT IN (SELECT a.origin_scope, a.origin FROM above a CROSS JOIN LATERAL (SELECT * FROM remem.entry_subject g
      WHERE g.tenant_id = $1 AND g.subject = $2 AND g.scope_id = a.scope_id AND g.row_id = a.row_id OFFSET 0) g)
    ORDER BY c.scope_id, c.row_id";
