//! Reads and writes the relations between entries for a copy, in the embedded store: replacements,
//! sources and subjects. Entries are found by their ids.

use super::rows::{LinkRow, PAGE_ROWS, ReplacedRow, SubjectRow};
use rusqlite::{Connection, params};

/// In the order of the file, like entries.
pub(super) fn replaced(
    db: &Connection,
    tenant: &str,
    after: (i64, i64),
) -> rusqlite::Result<Vec<ReplacedRow>> {
    let sql = "SELECT e.scope_id, e.row_id, e.id, r.id FROM entry e NOT INDEXED
               CROSS JOIN entry r ON r.tenant_id = e.tenant_id AND r.row_id = e.replaced_by
               WHERE e.tenant_id = ?1 AND e.row_id > ?2 AND e.replaced_by IS NOT NULL ORDER BY e.row_id LIMIT ?3";
    let row = |r: &rusqlite::Row<'_>| {
        Ok(ReplacedRow {
            scope_id: r.get(0)?,
            row_id: r.get(1)?,
            id: r.get(2)?,
            by: r.get(3)?,
        })
    };
    db.prepare_cached(sql)?
        .query_map(params![tenant, after.1, PAGE_ROWS], row)?
        .collect()
}

pub(super) fn links(
    db: &Connection,
    tenant: &str,
    after: [i64; 4],
) -> rusqlite::Result<Vec<LinkRow>> {
    let sql = "SELECT l.scope_id, l.row_id, l.source_scope, l.source_row, e.id, s.id FROM lineage l
               CROSS JOIN entry e ON e.tenant_id = l.tenant_id AND e.row_id = l.row_id
               CROSS JOIN entry s ON s.tenant_id = l.tenant_id AND s.row_id = l.source_row
               WHERE l.tenant_id = ?1 AND (l.scope_id, l.row_id, l.source_scope, l.source_row) > (?2, ?3, ?4, ?5)
               ORDER BY l.scope_id, l.row_id, l.source_scope, l.source_row LIMIT ?6";
    let row = |r: &rusqlite::Row<'_>| {
        let scope_id = r.get(0)?;
        let row_id = r.get(1)?;
        let source_scope = r.get(2)?;
        let source_row = r.get(3)?;
        Ok(LinkRow {
            scope_id,
            row_id,
            source_scope,
            source_row,
            id: r.get(4)?,
            source_id: r.get(5)?,
        })
    };
    db.prepare_cached(sql)?
        .query_map(
            params![tenant, after[0], after[1], after[2], after[3], PAGE_ROWS],
            row,
        )?
        .collect()
}

pub(super) fn subjects(
    db: &Connection,
    tenant: &str,
    after: &(Vec<u8>, i64, i64),
) -> rusqlite::Result<Vec<SubjectRow>> {
    let sql = "SELECT g.subject, g.scope_id, g.row_id, e.id FROM entry_subject g
               CROSS JOIN entry e ON e.tenant_id = g.tenant_id AND e.row_id = g.row_id
               WHERE g.tenant_id = ?1 AND (g.subject, g.scope_id, g.row_id) > (?2, ?3, ?4)
               ORDER BY g.subject, g.scope_id, g.row_id LIMIT ?5";
    let row = |r: &rusqlite::Row<'_>| {
        Ok(SubjectRow {
            subject: r.get(0)?,
            scope_id: r.get(1)?,
            row_id: r.get(2)?,
            id: r.get(3)?,
        })
    };
    db.prepare_cached(sql)?
        .query_map(params![tenant, after.0, after.1, after.2, PAGE_ROWS], row)?
        .collect()
}

pub(super) fn put_replaced(
    db: &Connection,
    tenant: &str,
    row: &ReplacedRow,
) -> rusqlite::Result<()> {
    let sql = "UPDATE entry SET replaced_by = (SELECT row_id FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?4)
               WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3";
    db.prepare_cached(sql)?
        .execute(params![tenant, row.scope_id, row.id, row.by])
        .map(|_| ())
}

pub(super) fn put_link(db: &Connection, tenant: &str, row: &LinkRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO lineage (tenant_id, scope_id, row_id, source_scope, source_row)
               SELECT ?1, e.scope_id, e.row_id, s.scope_id, s.row_id FROM entry e
               JOIN entry s ON s.tenant_id = ?1 AND s.scope_id = ?4 AND s.id = ?5
               WHERE e.tenant_id = ?1 AND e.scope_id = ?2 AND e.id = ?3 ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?
        .execute(params![
            tenant,
            row.scope_id,
            row.id,
            row.source_scope,
            row.source_id
        ])
        .map(|_| ())
}

pub(super) fn put_subject(db: &Connection, tenant: &str, row: &SubjectRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO entry_subject (tenant_id, subject, scope_id, row_id)
               SELECT ?1, ?2, scope_id, row_id FROM entry WHERE tenant_id = ?1 AND scope_id = ?3 AND id = ?4 ON CONFLICT DO NOTHING";
    db.prepare_cached(sql)?
        .execute(params![tenant, row.subject, row.scope_id, row.id])
        .map(|_| ())
}
