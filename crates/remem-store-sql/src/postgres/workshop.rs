//! Reads of workshop memories: rules, actions and retention.

use super::gate::{Gate, Identity, Role};
use super::rows::{get, get_u64};
use crate::stored::rule_bounds;
use remem_core::{
    Actor, EntryId, MemoryRef, PrincipalId, RuleId, Scope, TenantId, Timestamp, WorldId,
};
use remem_store::{ActionLink, RetentionCount, RetentionState, RuleRange, StoreError, WorldRule};
use tokio_postgres::Row;

const SCOPE: &str = "(SELECT scope_id FROM remem.scope WHERE tenant_id = $1 AND memory_ref = $2)";
const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

const RULES_OF_WORLD: &str = "SELECT world, id, body, at FROM remem.rule WHERE tenant_id = $1 AND world = $2 AND id > $3 ORDER BY id LIMIT $4";
const ALL_RULES: &str = "SELECT world, id, body, at FROM remem.rule WHERE tenant_id = $1 AND (world, id) > ($2, $3) ORDER BY world, id LIMIT $4";

impl Gate {
    pub async fn rules(
        &self,
        tenant: &TenantId,
        range: &RuleRange,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
        let sql = match range {
            RuleRange::OfWorld(..) => RULES_OF_WORLD,
            RuleRange::All(_) => ALL_RULES,
        };
        let (world, after) = rule_bounds(range);
        let t = tenant.as_str();
        let limit = i64::from(limit);
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                sql,
                &[&t, &world, &after, &limit],
            )
            .await?;
        let rule = |row: &Row| {
            let rule = WorldRule {
                id: RuleId::parse(get(row, 1)?).ok_or(MALFORMED)?,
                body: get(row, 2)?,
                at: Timestamp(get(row, 3)?),
            };
            Ok((WorldId::parse(get(row, 0)?).ok_or(MALFORMED)?, rule))
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
