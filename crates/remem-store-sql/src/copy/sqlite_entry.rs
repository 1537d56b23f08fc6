//! Writes one entry of a copy to the embedded store: its row with tags, inside the transaction of
//! its page. It decides nothing: the target's row becomes the same as the source's.

use super::rows::EntryRow;
use crate::sqlite::beside;
use remem_core::sabotage_sql;
use rusqlite::{Connection, OptionalExtension, params};

pub(super) fn put_entry(db: &Connection, tenant: &str, row: &EntryRow) -> rusqlite::Result<()> {
    // The redaction rules may have changed and changed back since: the text itself is compared, not
    // only the fingerprint of the rules that it was scanned with.
    let sql = "SELECT row_id, erased_at IS NULL
                 AND (?4 IS NOT NULL OR (rev_to, scan, content, tags, metadata) IS NOT (?5, ?6, ?7, ?8, ?9)
                   OR (rev_from, removed_reason, removed_by_run, support) IS NOT (?10, ?11, ?12, ?13)
                   OR (valid_at, invalid_at, ended_at, evidence) IS NOT (?14, ?15, ?16, ?17))
               FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3";
    let text = (&row.content, &row.tags, &row.metadata);
    let end = (
        row.rev_from,
        &row.removed_reason,
        &row.removed_by_run,
        row.support,
    );
    let window = (row.valid_at, row.invalid_at, row.ended_at, &row.evidence);
    let key = (row.scope_id, &row.id, row.erased_at, row.rev_to, row.scan);
    let values = params![
        tenant, key.0, key.1, key.2, key.3, key.4, text.0, text.1, text.2, end.0, end.1, end.2,
        end.3, window.0, window.1, window.2, window.3
    ];
    match db
        .prepare_cached(sql)?
        .query_row(values, |r| Ok((r.get(0)?, r.get(1)?)))
        .optional()?
    {
        None => insert_entry(db, tenant, row),
        Some((row_id, true)) => change_entry(db, tenant, row_id, row),
        Some(_) => Ok(()),
    }
}

/// Inserts a new row; the file numbers its rows itself. The slot is set when all entries are
/// copied.
fn insert_entry(db: &Connection, tenant: &str, row: &EntryRow) -> rusqlite::Result<()> {
    let sql = "INSERT INTO entry (tenant_id, scope_id, id, tier, typology, content, tags, metadata, created_at, expires_at, written_by,
                 written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, erased_at, owner, removed_by_run, support,
                 session, interaction, world, valid_at, invalid_at, ended_at, trust, evidence)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
                 ?25, ?26, ?27, ?28, ?29)";
    db.prepare_cached(sql)?.execute(params![
        tenant,
        row.scope_id,
        row.id,
        row.tier,
        row.typology,
        row.content,
        row.tags,
        row.metadata,
        row.created_at,
        row.expires_at,
        row.written_by,
        row.written_by_run,
        row.scan,
        row.content_hash,
        row.rev_from,
        row.rev_to,
        row.removed_reason,
        row.erased_at,
        row.owner,
        row.removed_by_run,
        row.support,
        row.session,
        row.interaction,
        row.world,
        row.valid_at,
        row.invalid_at,
        row.ended_at,
        row.trust,
        row.evidence,
    ])?;
    index_entry(db, tenant, row)
}

fn index_entry(db: &Connection, tenant: &str, row: &EntryRow) -> rusqlite::Result<()> {
    if row.erased_at.is_some() {
        return Ok(());
    }
    let tag = "INSERT INTO entry_tag (tenant_id, scope_id, tag, created_at, id) VALUES (?1, ?2, ?3, ?4, ?5)";
    for name in tags(&row.tags)? {
        db.prepare_cached(tag)?.execute(params![
            tenant,
            row.scope_id,
            name,
            row.created_at,
            row.id
        ])?;
    }
    Ok(())
}

/// Applies changes at the source to an entry that an earlier copy brought: it was removed, erased,
/// redacted or revived since. The row that replaces it is written later (see `put_replaced`),
/// unless that is final; and so is the slot, because the entry's window may have moved to where
/// another one is that moves only with a later page.
fn change_entry(
    db: &Connection,
    tenant: &str,
    row_id: i64,
    row: &EntryRow,
) -> rusqlite::Result<()> {
    let sql = "SELECT tags FROM entry WHERE tenant_id = ?1 AND row_id = ?2";
    let names: String = db
        .prepare_cached(sql)?
        .query_row(params![tenant, row_id], |row| row.get(0))?;
    db.prepare_cached("DELETE FROM vector WHERE row_id = ?1")?
        .execute(params![row_id])?;
    db.prepare_cached("INSERT INTO unindexed (scope_id, row_id) VALUES (?1, ?2)")?
        .execute(params![row.scope_id, row_id])?;
    let tag = "DELETE FROM entry_tag WHERE tenant_id = ?1 AND scope_id = ?2 AND tag = ?3 AND created_at = ?4 AND id = ?5";
    for name in tags(&names)? {
        db.prepare_cached(tag)?.execute(params![
            tenant,
            row.scope_id,
            name,
            row.created_at,
            row.id
        ])?;
    }
    // A pass computed the signature from the earlier text, and will compute it again.
    let sql = "DELETE FROM signature WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id = ?3";
    db.prepare_cached(sql)?
        .execute(params![tenant, row.scope_id, row_id])?;
    let sql = "UPDATE entry SET content = ?3, tags = ?4, metadata = ?5, content_hash = ?6, scan = ?7, rev_to = ?8, removed_reason = ?9,
                 erased_at = ?10, removed_by_run = ?11, rev_from = ?12, support = ?13, valid_at = ?14, invalid_at = ?15,
                 ended_at = ?16, evidence = ?17, slot = NULL, world = ?18, interaction = ?19,
                 replaced_by = CASE WHEN removed_reason = 'superseded' AND ?9 = 'superseded' THEN replaced_by END
               WHERE tenant_id = ?1 AND row_id = ?2";
    let text = (&row.content, &row.tags, &row.metadata, &row.content_hash);
    let end = (
        row.rev_to,
        &row.removed_reason,
        row.erased_at,
        &row.removed_by_run,
    );
    let more = (row.rev_from, row.support);
    let window = (row.valid_at, row.invalid_at, row.ended_at, &row.evidence);
    let values = params![
        tenant,
        row_id,
        text.0,
        text.1,
        text.2,
        text.3,
        row.scan,
        end.0,
        end.1,
        end.2,
        end.3,
        more.0,
        more.1,
        window.0,
        window.1,
        window.2,
        window.3,
        row.world,
        row.interaction
    ];
    db.prepare_cached(sabotage_sql!(sql))?.execute(values)?;
    if row.erased_at.is_some() {
        beside::blank_action_texts(db, tenant, row.scope_id, row_id)?;
    }
    index_entry(db, tenant, row)
}

fn tags(text: &str) -> rusqlite::Result<Vec<String>> {
    serde_json::from_str(text).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e))
    })
}
