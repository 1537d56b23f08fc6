//! Reads and writes slots, actions and rules for a copy, in PostgreSQL. Entries are found by the
//! digests of their ids.

use super::postgres::{LIMIT, PostgresReader, column};
use super::postgres_lineage::{id_hash, insert_as_host, write_as_host};
use super::rows::{ActionRow, RuleRow, SlotRow};
use crate::postgres::gate::{Gate, sql_call};
use crate::postgres::rows::get;
use remem_core::TenantId;
use remem_store::StoreError;

const SLOTS: &str = "SELECT scope_id, row_id, id, slot FROM remem.entry
     WHERE tenant_id = $1 AND (scope_id, row_id) > ($2, $3) AND slot IS NOT NULL ORDER BY scope_id, row_id LIMIT $4";
const ACTIONS: &str = "SELECT l.scope_id, l.row_id, l.action, l.reference, l.linked_at, l.linked_by, e.id FROM remem.action_link l
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = l.scope_id AND e.row_id = l.row_id
     WHERE l.tenant_id = $1 AND (l.scope_id, l.row_id, l.action, l.reference) > ($2, $3, $4, $5)
     ORDER BY l.scope_id, l.row_id, l.action, l.reference LIMIT $6";
const RULES: &str = "SELECT world, id, body, at FROM remem.rule WHERE tenant_id = $1 AND (world, id) > ($2, $3) ORDER BY world, id LIMIT $4";

pub(super) async fn slots(
    reader: &PostgresReader,
    after: (i64, i64),
) -> Result<Vec<SlotRow>, StoreError> {
    let rows = reader.rows(SLOTS, &[&after.0, &after.1, &LIMIT]).await?;
    rows.iter()
        .map(|r| {
            Ok(SlotRow {
                scope_id: get(r, 0)?,
                row_id: get(r, 1)?,
                id: get(r, 2)?,
                slot: get(r, 3)?,
            })
        })
        .collect()
}

pub(super) async fn actions(
    reader: &PostgresReader,
    after: &(i64, i64, String, String),
) -> Result<Vec<ActionRow>, StoreError> {
    let rows = reader
        .rows(ACTIONS, &[&after.0, &after.1, &after.2, &after.3, &LIMIT])
        .await?;
    let action = |r| {
        let scope_id = get(r, 0)?;
        let row_id = get(r, 1)?;
        let action = get(r, 2)?;
        let reference = get(r, 3)?;
        Ok(ActionRow {
            scope_id,
            row_id,
            action,
            reference,
            linked_at: get(r, 4)?,
            linked_by: get(r, 5)?,
            id: get(r, 6)?,
        })
    };
    rows.iter().map(action).collect()
}

pub(super) async fn rules(
    reader: &PostgresReader,
    after: &(String, String),
) -> Result<Vec<RuleRow>, StoreError> {
    let rows = reader.rows(RULES, &[&after.0, &after.1, &LIMIT]).await?;
    rows.iter()
        .map(|r| {
            Ok(RuleRow {
                world: get(r, 0)?,
                id: get(r, 1)?,
                body: get(r, 2)?,
                at: get(r, 3)?,
            })
        })
        .collect()
}

const PUT_SLOTS: &str =
    "UPDATE remem.entry e SET slot = w.slot FROM unnest($2::bigint[], $3::bytea[], $4::text[]) AS w (scope_id, id_hash, slot)
     WHERE e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash AND e.slot IS DISTINCT FROM w.slot";
const PUT_ACTIONS: &str = "INSERT INTO remem.action_link (tenant_id, scope_id, row_id, action, reference, linked_at, linked_by)
     SELECT c.tenant_id, e.scope_id, e.row_id, w.action, w.reference, w.linked_at, w.linked_by
     FROM remem.tenant_clock c CROSS JOIN unnest($2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bigint[], $7::text[])
       AS w (scope_id, id_hash, action, reference, linked_at, linked_by)
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const DROP_RULES: &str = "DELETE FROM remem.rule WHERE tenant_id = $1";
const PUT_RULES: &str = "INSERT INTO remem.rule (tenant_id, world, id, body, at)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c CROSS JOIN unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) u
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";

pub(super) async fn put_slots(
    gate: &Gate,
    tenant: &TenantId,
    page: &[SlotRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let scope = column(page, |r| r.scope_id);
    let id = column(page, |r| id_hash(&r.id));
    let slot = column(page, |r| r.slot.as_str());
    write_as_host(
        gate,
        tenant,
        vec![sql_call(PUT_SLOTS, &[&name, &scope, &id, &slot])],
    )
    .await
}

pub(super) async fn put_actions(
    gate: &Gate,
    tenant: &TenantId,
    page: &[ActionRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let scope = column(page, |r| r.scope_id);
    let id = column(page, |r| id_hash(&r.id));
    let action = column(page, |r| r.action.as_str());
    let reference = column(page, |r| r.reference.as_str());
    let at = column(page, |r| r.linked_at);
    let by = column(page, |r| r.linked_by.as_deref());
    let put = sql_call(
        PUT_ACTIONS,
        &[&name, &scope, &id, &action, &reference, &at, &by],
    );
    insert_as_host(gate, tenant, vec![put]).await
}

pub(super) async fn drop_rules(gate: &Gate, tenant: &TenantId) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let drop = sql_call(DROP_RULES, &[&name]);
    write_as_host(gate, tenant, vec![drop]).await
}

pub(super) async fn put_rules(
    gate: &Gate,
    tenant: &TenantId,
    page: &[RuleRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let world = column(page, |r| r.world.as_str());
    let id = column(page, |r| r.id.as_str());
    let body = column(page, |r| r.body.as_str());
    let at = column(page, |r| r.at);
    let put = sql_call(PUT_RULES, &[&name, &world, &id, &body, &at]);
    insert_as_host(gate, tenant, vec![put]).await
}
