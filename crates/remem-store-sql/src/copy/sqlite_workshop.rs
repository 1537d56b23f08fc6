//! Reads and writes slots, actions and rules for a copy, in the embedded store. Entries are found
//! by their ids; the trigrams that a rule's text is compared by are computed here.

use super::rows::{ActionRow, PAGE_ROWS, RuleRow, SlotRow};
use remem_core::trgm::Trigrams;
use rusqlite::{Connection, Row, params};

/// In the order of the file, like entries.
pub(super) fn slots(
    db: &Connection,
    tenant: &str,
    after: (i64, i64),
) -> rusqlite::Result<Vec<SlotRow>> {
    let sql = "SELECT scope_id, row_id, id, slot FROM entry NOT INDEXED
               WHERE tenant_id = ?1 AND row_id > ?2 AND slot IS NOT NULL ORDER BY row_id LIMIT ?3";
    let row = |r: &Row<'_>| {
        Ok(SlotRow {
            scope_id: r.get(0)?,
            row_id: r.get(1)?,
            id: r.get(2)?,
            slot: r.get(3)?,
        })
    };
    db.prepare_cached(sql)?
        .query_map(params![tenant, after.1, PAGE_ROWS], row)?
        .collect()
}

pub(super) fn actions(
    db: &Connection,
    tenant: &str,
    after: &(i64, i64, String, String),
) -> rusqlite::Result<Vec<ActionRow>> {
    let sql = "SELECT l.scope_id, l.row_id, l.action, l.reference, l.linked_at, l.linked_by, e.id FROM action_link l
               CROSS JOIN entry e ON e.tenant_id = l.tenant_id AND e.row_id = l.row_id
               WHERE l.tenant_id = ?1 AND (l.scope_id, l.row_id, l.action, l.reference) > (?2, ?3, ?4, ?5)
               ORDER BY l.scope_id, l.row_id, l.action, l.reference LIMIT ?6";
    let row = |r: &Row<'_>| {
        let scope_id = r.get(0)?;
        let row_id = r.get(1)?;
        let action = r.get(2)?;
        let reference = r.get(3)?;
        Ok(ActionRow {
            scope_id,
            row_id,
            action,
            reference,
            linked_at: r.get(4)?,
            linked_by: r.get(5)?,
            id: r.get(6)?,
        })
    };
    db.prepare_cached(sql)?
        .query_map(
            params![tenant, after.0, after.1, after.2, after.3, PAGE_ROWS],
            row,
        )?
        .collect()
}

pub(super) fn rules(
    db: &Connection,
    tenant: &str,
    after: &(String, String),
) -> rusqlite::Result<Vec<RuleRow>> {
    let sql = "SELECT world, id, body, at FROM rule WHERE tenant_id = ?1 AND (world, id) > (?2, ?3) ORDER BY world, id LIMIT ?4";
    let row = |r: &Row<'_>| {
        Ok(RuleRow {
            world: r.get(0)?,
            id: r.get(1)?,
            body: r.get(2)?,
            at: r.get(3)?,
        })
    };
    db.prepare_cached(sql)?
        .query_map(params![tenant, after.0, after.1, PAGE_ROWS], row)?
        .collect()
}

pub(super) fn put_slot(db: &Connection, tenant: &str, row: &SlotRow) -> rusqlite::Result<()> {
    let sql = "UPDATE entry SET slot = ?4 WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3 AND slot IS NOT ?4";
    db.prepare_cached(sql)?
        .execute(params![tenant, row.scope_id, row.id, row.slot])
        .map(|_| ())
}

pub(super) fn put_action(db: &Connection, tenant: &str, row: &ActionRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO action_link (tenant_id, scope_id, row_id, action, reference, linked_at, linked_by)
               SELECT ?1, scope_id, row_id, ?4, ?5, ?6, ?7 FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3
               ON CONFLICT DO NOTHING";
    let values = params![
        tenant,
        row.scope_id,
        row.id,
        row.action,
        row.reference,
        row.linked_at,
        row.linked_by
    ];
    db.prepare_cached(sql)?.execute(values).map(|_| ())
}

pub(super) fn delete_rules(db: &Connection, tenant: &str) -> rusqlite::Result<()> {
    db.execute("DELETE FROM rule WHERE tenant_id = ?1", params![tenant])
        .map(|_| ())
}

pub(super) fn put_rule(db: &Connection, tenant: &str, row: &RuleRow) -> rusqlite::Result<()> {
    let trigrams = Trigrams::of(&row.body);
    let sql = "INSERT INTO rule (tenant_id, world, id, body, at, size, trigrams) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";
    let values = params![
        tenant,
        row.world,
        row.id,
        row.body,
        row.at,
        trigrams.len() as u64,
        trigrams.to_bytes()
    ];
    db.prepare_cached(sql)?.execute(values).map(|_| ())
}
