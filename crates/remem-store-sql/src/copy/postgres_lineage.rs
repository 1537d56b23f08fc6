//! Reads and writes the relations between entries for a copy, in PostgreSQL: replacements, sources
//! and subjects. Entries are found by the digests of their ids.

use super::postgres::{LIMIT, PostgresReader, column};
use super::rows::{LinkRow, ReplacedRow, SubjectRow};
use crate::postgres::gate::{Gate, Identity, Role, SqlCall, sql_call};
use crate::postgres::load::{NO_CHAIN, START_CLOCK};
use crate::postgres::rows::get;
use crate::stored::content_hash;
use remem_core::TenantId;
use remem_store::StoreError;

const REPLACED: &str = "SELECT e.scope_id, e.row_id, e.id, r.id FROM remem.entry e
     JOIN remem.entry r ON r.tenant_id = $1 AND r.scope_id = e.scope_id AND r.row_id = e.replaced_by
     WHERE e.tenant_id = $1 AND (e.scope_id, e.row_id) > ($2, $3) AND e.replaced_by IS NOT NULL ORDER BY e.scope_id, e.row_id LIMIT $4";
const LINKS: &str = "SELECT l.scope_id, l.row_id, l.source_scope, l.source_row, e.id, s.id FROM remem.lineage l
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = l.scope_id AND e.row_id = l.row_id
     JOIN remem.entry s ON s.tenant_id = $1 AND s.scope_id = l.source_scope AND s.row_id = l.source_row
     WHERE l.tenant_id = $1 AND (l.scope_id, l.row_id, l.source_scope, l.source_row) > ($2, $3, $4, $5)
     ORDER BY l.scope_id, l.row_id, l.source_scope, l.source_row LIMIT $6";
const SUBJECTS: &str = "SELECT g.subject, g.scope_id, g.row_id, e.id FROM remem.entry_subject g
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = g.scope_id AND e.row_id = g.row_id
     WHERE g.tenant_id = $1 AND (g.subject, g.scope_id, g.row_id) > ($2, $3, $4) ORDER BY g.subject, g.scope_id, g.row_id LIMIT $5";

pub(super) async fn replaced(
    reader: &PostgresReader,
    after: (i64, i64),
) -> Result<Vec<ReplacedRow>, StoreError> {
    let rows = reader.rows(REPLACED, &[&after.0, &after.1, &LIMIT]).await?;
    rows.iter()
        .map(|r| {
            Ok(ReplacedRow {
                scope_id: get(r, 0)?,
                row_id: get(r, 1)?,
                id: get(r, 2)?,
                by: get(r, 3)?,
            })
        })
        .collect()
}

pub(super) async fn links(
    reader: &PostgresReader,
    after: [i64; 4],
) -> Result<Vec<LinkRow>, StoreError> {
    let rows = reader
        .rows(LINKS, &[&after[0], &after[1], &after[2], &after[3], &LIMIT])
        .await?;
    let link = |r| {
        let scope_id = get(r, 0)?;
        let row_id = get(r, 1)?;
        let source_scope = get(r, 2)?;
        let source_row = get(r, 3)?;
        Ok(LinkRow {
            scope_id,
            row_id,
            source_scope,
            source_row,
            id: get(r, 4)?,
            source_id: get(r, 5)?,
        })
    };
    rows.iter().map(link).collect()
}

pub(super) async fn subjects(
    reader: &PostgresReader,
    after: &(Vec<u8>, i64, i64),
) -> Result<Vec<SubjectRow>, StoreError> {
    let rows = reader
        .rows(SUBJECTS, &[&after.0, &after.1, &after.2, &LIMIT])
        .await?;
    rows.iter()
        .map(|r| {
            Ok(SubjectRow {
                subject: get(r, 0)?,
                scope_id: get(r, 1)?,
                row_id: get(r, 2)?,
                id: get(r, 3)?,
            })
        })
        .collect()
}

const PUT_REPLACED: &str = "UPDATE remem.entry e SET replaced_by = r.row_id
     FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) AS w (scope_id, id_hash, by_hash)
     JOIN remem.entry r ON r.tenant_id = $1 AND r.scope_id = w.scope_id AND r.id_hash = w.by_hash
     WHERE e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash AND e.replaced_by IS DISTINCT FROM r.row_id";
const PUT_LINKS: &str = "INSERT INTO remem.lineage (tenant_id, scope_id, row_id, source_scope, source_row)
     SELECT c.tenant_id, e.scope_id, e.row_id, s.scope_id, s.row_id
     FROM remem.tenant_clock c CROSS JOIN unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) AS w (scope_id, id_hash, source_scope, source_hash)
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash
     JOIN remem.entry s ON s.tenant_id = $1 AND s.scope_id = w.source_scope AND s.id_hash = w.source_hash
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const DROP_SUBJECTS: &str = "DELETE FROM remem.entry_subject WHERE tenant_id = $1";
const PUT_SUBJECTS: &str = "INSERT INTO remem.entry_subject (tenant_id, subject, scope_id, row_id)
     SELECT c.tenant_id, w.subject, e.scope_id, e.row_id
     FROM remem.tenant_clock c CROSS JOIN unnest($2::bytea[], $3::bigint[], $4::bytea[]) AS w (subject, scope_id, id_hash)
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";

pub(super) fn id_hash(id: &str) -> Vec<u8> {
    content_hash(id.as_bytes()).to_vec()
}

/// Runs statements that change or delete rows.
pub(super) async fn write_as_host(
    gate: &Gate,
    tenant: &TenantId,
    calls: Vec<SqlCall<'_>>,
) -> Result<(), StoreError> {
    gate.write(Role::App, Identity::as_host(tenant), calls)
        .await
        .map(|_| ())
}

/// Runs statements that insert rows, which take the tenant from its clock: a new tenant gets one,
/// which stands where it starts until the copy is complete.
pub(super) async fn insert_as_host(
    gate: &Gate,
    tenant: &TenantId,
    calls: Vec<SqlCall<'_>>,
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let mut all = vec![sql_call(START_CLOCK, &[&name, &NO_CHAIN])];
    all.extend(calls);
    write_as_host(gate, tenant, all).await
}

pub(super) async fn put_replaced(
    gate: &Gate,
    tenant: &TenantId,
    page: &[ReplacedRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let scope = column(page, |r| r.scope_id);
    let id = column(page, |r| id_hash(&r.id));
    let by = column(page, |r| id_hash(&r.by));
    write_as_host(
        gate,
        tenant,
        vec![sql_call(PUT_REPLACED, &[&name, &scope, &id, &by])],
    )
    .await
}

pub(super) async fn put_links(
    gate: &Gate,
    tenant: &TenantId,
    page: &[LinkRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let scope = column(page, |r| r.scope_id);
    let id = column(page, |r| id_hash(&r.id));
    let source_scope = column(page, |r| r.source_scope);
    let source = column(page, |r| id_hash(&r.source_id));
    let put = sql_call(PUT_LINKS, &[&name, &scope, &id, &source_scope, &source]);
    insert_as_host(gate, tenant, vec![put]).await
}

pub(super) async fn delete_subjects(gate: &Gate, tenant: &TenantId) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let drop = sql_call(DROP_SUBJECTS, &[&name]);
    write_as_host(gate, tenant, vec![drop]).await
}

pub(super) async fn put_subjects(
    gate: &Gate,
    tenant: &TenantId,
    page: &[SubjectRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let subject = column(page, |r| r.subject.as_slice());
    let scope = column(page, |r| r.scope_id);
    let id = column(page, |r| id_hash(&r.id));
    let put = sql_call(PUT_SUBJECTS, &[&name, &subject, &scope, &id]);
    insert_as_host(gate, tenant, vec![put]).await
}
