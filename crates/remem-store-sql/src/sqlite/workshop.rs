//! Reads of workshop memories: slots, rules, actions, retention, and statements that have ended.
//! `constraint_error` translates the errors that triggers of the schema raise.

use super::connection::store_error;
use super::identity::visible_to_actor;
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, read_entry, scope_id};
use super::snapshot;
use remem_core::trgm::{Trigrams, is_guarded};
use remem_core::{
    Batch, Change, EntryId, MemoryRef, PrincipalId, Rejection, RuleId, Scope, TenantId, Timestamp,
    WorldId,
};
use remem_store::{
    ActionLink, EndedStatement, EntryState, RetentionCount, RetentionState, RowCursor, SlotAnswer,
    StoreError, WorldRule,
};
use rusqlite::{Connection, Params, Row, params};

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

fn query_rows<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    db.prepare_cached(sql)
        .and_then(|mut query| query.query_map(params, read)?.collect())
        .map_err(store_error)
}

/// All entries of a slot, oldest first, with how each ended.
pub(super) fn slot(
    db: &Connection,
    scope: &Scope,
    slot: &str,
    limit: u32,
) -> Result<Vec<SlotAnswer>, StoreError> {
    let Some(found) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)? else {
        return Ok(Vec::new());
    };
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, e.removed_reason, e.ended_at, (SELECT r.id FROM entry r WHERE r.row_id = e.replaced_by) FROM entry e
         WHERE e.tenant_id = ?1 AND e.scope_id = ?2 AND e.slot = ?3 AND e.erased_at IS NULL AND {}
         ORDER BY coalesce(e.valid_at, e.created_at) DESC, e.created_at DESC, e.id DESC LIMIT ?4",
        visible_to_actor("e")
    );
    let read = |row: &Row<'_>| {
        let reason: Option<String> = row.get(ENTRY_WIDTH)?;
        let ended_at: Option<i64> = row.get(ENTRY_WIDTH + 1)?;
        let by: Option<String> = row.get(ENTRY_WIDTH + 2)?;
        Ok((read_entry(row, &scope.memory_ref)?, reason, ended_at, by))
    };
    let mut found = query_rows(
        db,
        &sql,
        params![scope.tenant.as_str(), found, slot, limit],
        read,
    )?;
    found.reverse();
    let answer =
        |(entry, reason, ended_at, by): (_, Option<String>, Option<i64>, Option<String>)| {
            let state = EntryState::from_stored(reason.as_deref()).ok_or(MALFORMED)?;
            let replaced_by = by
                .map(|id| EntryId::parse(&id).ok_or(MALFORMED))
                .transpose()?;
            Ok(SlotAnswer {
                entry,
                state,
                ended_at: ended_at.map(Timestamp),
                replaced_by,
            })
        };
    found.into_iter().map(answer).collect()
}

/// The rules of a world, in the order of their ids.
pub(super) fn rules(
    db: &Connection,
    tenant: &TenantId,
    world: &WorldId,
    after: Option<&RuleId>,
    limit: u32,
) -> Result<Vec<WorldRule>, StoreError> {
    let sql = "SELECT id, body, at FROM rule WHERE tenant_id = ?1 AND world = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
    let values = params![
        tenant.as_str(),
        world.as_str(),
        after.map_or("", RuleId::as_str),
        limit
    ];
    let rule_rows: Vec<(String, String, i64)> = query_rows(db, sql, values, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    rule_rows
        .into_iter()
        .map(|(id, body, at)| {
            Ok(WorldRule {
                id: RuleId::parse(&id).ok_or(MALFORMED)?,
                body,
                at: Timestamp(at),
            })
        })
        .collect()
}

/// A rule that this text restates, if there is one.
pub(super) fn shadowed(
    db: &Connection,
    tenant: &TenantId,
    world: &WorldId,
    text: &str,
) -> Result<Option<RuleId>, StoreError> {
    if world.is_none() || !is_guarded(text) {
        return Ok(None);
    }
    let trigrams = Trigrams::of(text);
    let least = *trigrams.restating_sizes().start() as u64;
    let most = *trigrams.restating_sizes().end() as u64;
    let sql = "SELECT id FROM rule WHERE tenant_id = ?1 AND world = ?2 AND size BETWEEN ?3 AND ?4 AND trgm_shadows(trigrams, ?5) LIMIT 1";
    let values = params![tenant.as_str(), world.as_str(), least, most, text];
    let hit: Vec<String> = query_rows(db, sql, values, |row| row.get(0))?;
    hit.first()
        .map(|id| RuleId::parse(id).ok_or(MALFORMED))
        .transpose()
}

/// The actions that rest on an entry.
pub(super) fn links(
    db: &Connection,
    scope: &Scope,
    id: &EntryId,
) -> Result<Vec<ActionLink>, StoreError> {
    let Some(scope_row) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Vec::new());
    };
    let sql = format!(
        "SELECT l.action, iif(l.action = '', '', l.reference), l.linked_at, l.linked_by FROM entry e CROSS JOIN action_link l ON l.row_id = e.row_id
         WHERE e.tenant_id = ?1 AND e.scope_id = ?2 AND e.id = ?3 AND {} ORDER BY l.linked_at, l.action, l.reference",
        visible_to_actor("e")
    );
    let read = |row: &Row<'_>| {
        let by: Option<String> = row.get(3)?;
        let by = by.as_deref().and_then(PrincipalId::parse);
        Ok(ActionLink {
            action: row.get(0)?,
            reference: row.get(1)?,
            at: Timestamp(row.get(2)?),
            by,
        })
    };
    query_rows(
        db,
        &sql,
        params![scope.tenant.as_str(), scope_row, id.as_str()],
        read,
    )
}

/// The number of entries by tier, kind and state of retention, of the memories that the actor may
/// see.
pub(super) fn retention(
    db: &Connection,
    tenant: &TenantId,
    memory_ref: Option<&MemoryRef>,
) -> Result<Vec<RetentionCount>, StoreError> {
    let sql = format!(
        "SELECT r.tier, r.typology, r.state, count(*) FROM scope s CROSS JOIN retention r ON r.scope_id = s.scope_id
         WHERE s.tenant_id = ?1 AND r.tenant_id = ?1 AND (?2 IS NULL OR s.memory_ref = ?2) AND {} GROUP BY r.tier, r.typology, r.state",
        visible_to_actor("s")
    );
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let count_rows: Vec<(String, String, String, u64)> = query_rows(
        db,
        &sql,
        params![tenant.as_str(), memory_ref.map(MemoryRef::as_str)],
        read,
    )?;
    let mut counts = Vec::with_capacity(count_rows.len());
    for (tier, typology, state, entries) in count_rows {
        let (Ok(tier), Ok(typology), Some(state)) = (
            tier.parse(),
            typology.parse(),
            RetentionState::parse(&state),
        ) else {
            return Err(MALFORMED);
        };
        counts.push(RetentionCount {
            tier,
            typology,
            state,
            entries,
        });
    }
    counts.sort_unstable();
    Ok(counts)
}

/// Statements whose validity ended before `before`, and whose text can be erased.
pub(super) fn faded(
    db: &Connection,
    tenant: &TenantId,
    before: Timestamp,
    after: Option<(Timestamp, RowCursor)>,
    limit: u32,
) -> Result<Vec<EndedStatement>, StoreError> {
    let sql = format!(
        "SELECT scope.memory_ref, entry.id, entry.invalid_at, entry.row_id FROM entry INDEXED BY entry_faded JOIN scope ON scope.scope_id = entry.scope_id
         WHERE entry.tenant_id = ?1 AND entry.invalid_at IS NOT NULL AND entry.erased_at IS NULL AND entry.invalid_at < ?2
           AND entry.invalid_at >= ?3 AND (entry.invalid_at > ?3 OR entry.row_id > ?4)
           AND (entry.rev_to IS NULL OR (entry.removed_reason = 'invalidated' AND {}))
           AND NOT EXISTS (SELECT 1 FROM action_link l WHERE l.tenant_id = entry.tenant_id AND l.row_id = entry.row_id) ORDER BY entry.invalid_at, entry.row_id LIMIT ?5",
        snapshot::IN_NO_SNAPSHOT
    );
    let after = after.unwrap_or((Timestamp(i64::MIN), RowCursor(0, i64::MIN)));
    let rows: Vec<(String, String, i64, i64)> = db
        .prepare_cached(&sql)
        .and_then(|mut query| {
            let bound = params![tenant.as_str(), before.0, after.0.0, after.1.1, limit];
            query
                .query_map(bound, |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect()
        })
        .map_err(store_error)?;
    rows.into_iter()
        .map(|(memory_ref, id, ended_at, row)| {
            Ok(EndedStatement {
                ended_at: Timestamp(ended_at),
                row: RowCursor(0, row),
                memory_ref: MemoryRef::parse(&memory_ref).ok_or(MALFORMED)?,
                id: EntryId::parse(&id).ok_or(MALFORMED)?,
            })
        })
        .collect()
}

/// Translates an error that the schema raised into one of the store interface: a slot that was
/// filled meanwhile is a conflict, a copy of a rule is the caller's error. The schema does not say
/// which rule it is, so the rule is looked up.
pub(super) fn constraint_error(
    db: &Connection,
    batch: &Batch,
    error: &rusqlite::Error,
) -> Option<StoreError> {
    let rusqlite::Error::SqliteFailure(_, Some(text)) = error else {
        return None;
    };
    if text.contains("23P01:") || text.contains("entry.tenant_id, entry.scope_id, entry.slot") {
        return Some(StoreError::Conflict);
    }
    if !text.contains("entry_rule_shadow") {
        return None;
    }
    let texts = batch.changes().iter().filter_map(|change| match change {
        Change::Put { admitted, .. } | Change::Rewrite { admitted, .. } => {
            Some((&admitted.facets().world, admitted.content()))
        }
        _ => None,
    });
    let hits =
        texts.filter_map(|(world, text)| shadowed(db, batch.tenant(), world, text).ok().flatten());
    hits.map(|rule| StoreError::Rejected(Rejection::ShadowsRule { rule }))
        .next()
}
