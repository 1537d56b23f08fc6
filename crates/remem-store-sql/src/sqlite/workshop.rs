//! Reads of workshop memories: rules, actions and retention.
//! `constraint_error` translates the errors that triggers of the schema raise.

use super::connection::store_error;
use super::identity::visible_to_actor;
use super::rows::scope_id;
use crate::stored::rule_bounds;
use remem_core::trgm::{Trigrams, is_guarded};
use remem_core::{
    Batch, Change, EntryId, MemoryRef, PrincipalId, Rejection, RuleId, Scope, TenantId, Timestamp,
    WorldId,
};
use remem_store::{ActionLink, RetentionCount, RetentionState, RuleRange, StoreError, WorldRule};
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

/// Rules, in the order of world and id.
pub(super) fn rules(
    db: &Connection,
    tenant: &TenantId,
    range: &RuleRange,
    limit: u32,
) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
    let sql = format!(
        "SELECT world, id, body, at FROM rule WHERE tenant_id = ?1 AND {} ORDER BY world, id LIMIT ?4",
        match range {
            RuleRange::OfWorld(..) => "world = ?2 AND id > ?3",
            RuleRange::All(_) => "(world, id) > (?2, ?3)",
        }
    );
    let (world, after) = rule_bounds(range);
    let values = params![tenant.as_str(), world, after, limit];
    let rules: Vec<(String, String, String, i64)> = query_rows(db, &sql, values, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    let rule = |(world, id, body, at): (String, String, String, i64)| {
        let rule = WorldRule {
            id: RuleId::parse(&id).ok_or(MALFORMED)?,
            body,
            at: Timestamp(at),
        };
        Ok((WorldId::parse(&world).ok_or(MALFORMED)?, rule))
    };
    rules.into_iter().map(rule).collect()
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
