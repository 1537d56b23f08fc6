//! Reads of workshop memories: slots, rules, actions, retention, and statements that have ended.

use super::gate::{Gate, Identity, Role};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, get, get_u64, read_entry as entry_of};
use remem_core::{
    Actor, EntryId, MemoryRef, PrincipalId, RuleId, Scope, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, EndedStatement, EntryState, RetentionCount, RetentionState, RowCursor, SlotAnswer,
    StoreError, WorldRule,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const SCOPE: &str = "(SELECT scope_id FROM remem.scope WHERE tenant_id = $1 AND memory_ref = $2)";
const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

impl Gate {
    pub async fn slot(
        &self,
        scope: &Scope,
        slot: &str,
        limit: u32,
    ) -> Result<Vec<SlotAnswer>, StoreError> {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, e.removed_reason, e.ended_at, (SELECT r.id FROM remem.entry r WHERE r.tenant_id = $1
               AND r.scope_id = e.scope_id AND r.row_id = e.replaced_by) FROM remem.entry e
             WHERE e.tenant_id = $1 AND e.scope_id = {SCOPE} AND e.slot = $3 AND e.slot IS NOT NULL AND e.erased_at IS NULL
             ORDER BY coalesce(e.valid_at, e.created_at) DESC, e.created_at DESC, e.id DESC LIMIT $4"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let limit = i64::from(limit);
        let mut rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                &sql,
                &[&t, &m, &slot, &limit],
            )
            .await?;
        rows.reverse();
        rows.iter()
            .map(|row| read_answer(row, &scope.memory_ref))
            .collect()
    }

    pub async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<WorldRule>, StoreError> {
        let sql = "SELECT id, body, at FROM remem.rule WHERE tenant_id = $1 AND world = $2 AND id > $3 ORDER BY id LIMIT $4";
        let t = tenant.as_str();
        let w = world.as_str();
        let after = after.map_or("", RuleId::as_str);
        let limit = i64::from(limit);
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                sql,
                &[&t, &w, &after, &limit],
            )
            .await?;
        let rule = |row: &Row| {
            Ok(WorldRule {
                id: RuleId::parse(get(row, 0)?).ok_or(MALFORMED)?,
                body: get(row, 1)?,
                at: Timestamp(get(row, 2)?),
            })
        };
        rows.iter().map(rule).collect()
    }

    pub async fn shadowed(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        text: &str,
    ) -> Result<Option<RuleId>, StoreError> {
        if world.is_none() || !remem_core::trgm::is_guarded(text) {
            return Ok(None);
        }
        let sql = "SELECT remem.shadowed_rule($1, $2)";
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                sql,
                &[&world.as_str(), &text.as_bytes()],
            )
            .await?;
        let hit: Option<&str> = rows.first().map_or(Ok(None), |row| get(row, 0))?;
        hit.map(|id| RuleId::parse(id).ok_or(MALFORMED)).transpose()
    }

    pub async fn links(&self, scope: &Scope, id: &EntryId) -> Result<Vec<ActionLink>, StoreError> {
        let sql = format!(
            "SELECT l.action, CASE WHEN l.action = '' THEN '' ELSE l.reference END, l.linked_at, l.linked_by FROM remem.entry e
             JOIN remem.action_link l ON l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id
             WHERE e.tenant_id = $1 AND e.scope_id = {SCOPE} AND e.id_hash = $3 AND e.id = $4 ORDER BY l.linked_at, l.action, l.reference"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let hash = crate::stored::content_hash(id.as_str().as_bytes()).to_vec();
        let rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                &sql,
                &[&t, &m, &hash, &id.as_str()],
            )
            .await?;
        let link = |row: &Row| {
            let by: Option<&str> = get(row, 3)?;
            let by = by.and_then(PrincipalId::parse);
            Ok(ActionLink {
                action: get(row, 0)?,
                reference: get(row, 1)?,
                at: Timestamp(get(row, 2)?),
                by,
            })
        };
        rows.iter().map(link).collect()
    }

    pub async fn retention(
        &self,
        tenant: &TenantId,
        actor: &Actor,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<RetentionCount>, StoreError> {
        let sql = "SELECT r.tier, r.typology, r.state, count(*) FROM remem.scope s
             JOIN remem.retention r ON r.tenant_id = $1 AND r.scope_id = s.scope_id
             WHERE s.tenant_id = $1 AND ($2::text IS NULL OR s.memory_ref = $2) GROUP BY r.tier, r.typology, r.state";
        let t = tenant.as_str();
        let m = memory_ref.map(MemoryRef::as_str);
        let rows = self
            .read(Role::App, Identity::as_actor(tenant, actor), sql, &[&t, &m])
            .await?;
        let mut counts = rows
            .iter()
            .map(read_retention)
            .collect::<Result<Vec<_>, _>>()?;
        counts.sort_unstable();
        Ok(counts)
    }

    pub async fn faded(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<EndedStatement>, StoreError> {
        let sql = "SELECT s.memory_ref, e.id, e.invalid_at, e.scope_id, e.row_id
             FROM remem.entry e JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id
             WHERE e.tenant_id = $1 AND e.invalid_at IS NOT NULL AND e.erased_at IS NULL AND e.invalid_at < $2
               AND e.invalid_at >= $4 AND (e.invalid_at, e.scope_id, e.row_id) > ($4, $5, $6) AND (e.rev_to IS NULL
               OR (e.removed_reason = 'invalidated' AND e.rev_to
                 <= coalesce((SELECT min(revision) FROM remem.snapshot WHERE tenant_id = $1), 9223372036854775807)))
               AND NOT EXISTS (SELECT 1 FROM remem.action_link l WHERE l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id)
             ORDER BY e.invalid_at, e.scope_id, e.row_id LIMIT $3";
        let after = after.unwrap_or((Timestamp(i64::MIN), RowCursor(i64::MIN, i64::MIN)));
        let limit = i64::from(limit);
        let bound: [&(dyn ToSql + Sync); 6] = [
            &tenant.as_str(),
            &before.0,
            &limit,
            &after.0.0,
            &after.1.0,
            &after.1.1,
        ];
        let rows = self
            .read(Role::Worker, Identity::as_host(tenant), sql, &bound)
            .await?;
        let faded = |row: &Row| {
            Ok(EndedStatement {
                ended_at: Timestamp(get(row, 2)?),
                row: RowCursor(get(row, 3)?, get(row, 4)?),
                memory_ref: MemoryRef::parse(get(row, 0)?).ok_or(MALFORMED)?,
                id: EntryId::parse(get(row, 1)?).ok_or(MALFORMED)?,
            })
        };
        rows.iter().map(faded).collect()
    }
}

fn read_answer(row: &Row, memory_ref: &MemoryRef) -> Result<SlotAnswer, StoreError> {
    let reason: Option<&str> = get(row, ENTRY_WIDTH)?;
    let by: Option<&str> = get(row, ENTRY_WIDTH + 2)?;
    Ok(SlotAnswer {
        entry: entry_of(row, memory_ref)?,
        state: EntryState::from_stored(reason).ok_or(MALFORMED)?,
        ended_at: get::<Option<i64>>(row, ENTRY_WIDTH + 1)?.map(Timestamp),
        replaced_by: by
            .map(|id| EntryId::parse(id).ok_or(MALFORMED))
            .transpose()?,
    })
}

fn read_retention(row: &Row) -> Result<RetentionCount, StoreError> {
    let tier: &str = get(row, 0)?;
    let typology: &str = get(row, 1)?;
    let state: &str = get(row, 2)?;
    let (Ok(tier), Ok(typology), Some(state)) =
        (tier.parse(), typology.parse(), RetentionState::parse(state))
    else {
        return Err(MALFORMED);
    };
    Ok(RetentionCount {
        tier,
        typology,
        state,
        entries: get_u64(row, 3)?,
    })
}
