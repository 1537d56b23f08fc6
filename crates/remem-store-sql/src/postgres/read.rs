//! Queries: events, clocks; and the conditions of a filter. Each query is one
//! statement, so each sees one commit.

use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{Param, StatementBuilder, get, get_bytes, get_u64};
use remem_core::{Event, EventBody, Revision, RunId, RunPosition, Scope, Seq, TenantId, Timestamp};
use remem_store::{EventRange, Filter, Snapshot, StoreError, TenantHead};
use tokio_postgres::Row;

impl Gate {
    pub(super) async fn query(
        &self,
        who: Identity<'_>,
        statement: &StatementBuilder<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.read(Role::App, who, &statement.sql, &statement.params())
            .await
    }

    pub async fn head(&self, tenant: &TenantId) -> Result<TenantHead, StoreError> {
        let sql = "SELECT revision, seq, at FROM remem.tenant_clock WHERE tenant_id = $1";
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                sql,
                &[&tenant.as_str()],
            )
            .await?;
        let Some(row) = rows.first() else {
            return Ok(TenantHead::default());
        };
        Ok(TenantHead {
            revision: Revision(get_u64(row, 0)?),
            seq: Seq(get_u64(row, 1)?),
            at: Timestamp(get(row, 2)?),
        })
    }

    pub async fn events(
        &self,
        tenant: &TenantId,
        range: &EventRange,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let who = Identity::tenant(tenant);
        let name = tenant.as_str();
        let limit = i64::from(limit);
        let rows = match range {
            EventRange::After(seq) => {
                let after = seq.0.cast_signed();
                self.read(Role::App, who, EVENTS, &[&name, &after, &limit])
                    .await?
            }
            EventRange::OfRun(run, from) => {
                let run = run.as_str();
                let from = from.cast_signed();
                let call = sql_call(RUN_EVENTS, &[&name, &run, &from, &limit]);
                self.read_in_order(Role::App, who, call).await?
            }
        };
        rows.iter().map(event).collect()
    }

    pub async fn snapshots(&self, tenant: &TenantId) -> Result<Vec<Snapshot>, StoreError> {
        let sql = "SELECT run_id, revision, at FROM remem.snapshot WHERE tenant_id = $1 ORDER BY revision, run_id";
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                sql,
                &[&tenant.as_str()],
            )
            .await?;
        rows.iter()
            .map(|row| {
                let run =
                    RunId::parse(get(row, 0)?).ok_or(StoreError::Damaged("a name is malformed"))?;
                Ok(Snapshot {
                    run,
                    revision: Revision(get_u64(row, 1)?),
                    at: Timestamp(get(row, 2)?),
                })
            })
            .collect()
    }
}

const EVENTS: &str =
    "SELECT seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash FROM remem.event
                      WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3";
const RUN_EVENTS: &str = "SELECT seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash FROM remem.event
                          WHERE tenant_id = $1 AND run_id = $2 AND run_seq >= $3 ORDER BY run_seq LIMIT $4";

fn event(row: &Row) -> Result<Event, StoreError> {
    let kind: &str = get(row, 6)?;
    let payload: &str = get(row, 7)?;
    let run: Option<&str> = get(row, 3)?;
    let run_seq: Option<i64> = get(row, 4)?;
    let recorded_at: Option<i64> = get(row, 5)?;
    let position = run.and_then(RunId::parse).zip(run_seq);
    Ok(Event {
        seq: Seq(get_u64(row, 0)?),
        revision: Revision(get_u64(row, 1)?),
        at: Timestamp(get(row, 2)?),
        run: position.map(|(id, seq)| RunPosition {
            id,
            seq: seq.cast_unsigned(),
            recorded_at: recorded_at.map(Timestamp),
        }),
        body: EventBody::from_stored(kind, payload)
            .ok_or(StoreError::Damaged("an event cannot be read"))?,
        hash: get_bytes(row, 8)?,
    })
}

/// The memory's row id as a subquery rather than a join: an index on entries then keeps their
/// order.
pub(super) const ONE_SCOPE: &str =
    "(SELECT scope_id FROM remem.scope WHERE tenant_id = $1 AND memory_ref = $2)";

/// Begins a statement whose first two parameters are the tenant and the memory.
pub(super) fn memory_statement<'a>(columns: &str, scope: &'a Scope) -> StatementBuilder<'a> {
    let mut statement = StatementBuilder::new(columns);
    statement.params.extend([
        Param::Text(scope.tenant.as_str()),
        Param::Text(scope.memory_ref.as_str()),
    ]);
    statement
}

/// Adds the condition that `e` has each of these tags.
pub(super) fn push_tags<'a>(statement: &mut StatementBuilder<'a>, tags: &'a [String]) {
    tags.iter()
        .for_each(|tag| statement.push(&has_tag(""), [Param::Text(tag)]));
}

pub(super) fn has_tag(fence: &str) -> String {
    format!(
        " AND EXISTS (SELECT 1 FROM remem.entry_tag x WHERE x.tenant_id = $1 AND x.scope_id = e.scope_id
            AND x.tag = ? AND x.created_at = e.created_at AND x.id_head = left(e.id, 100) AND x.row_id = e.row_id{fence})"
    )
}

/// Adds the conditions on tier, kind, session, chat thread and trust of `e`.
pub(super) fn push_attributes<'a>(statement: &mut StatementBuilder<'a>, filter: &'a Filter) {
    if let Some(names) = filter.trust_names() {
        statement.push(&format!(" AND e.trust IN ({names})"), []);
    }
    let wanted = [
        ("tier", filter.tier.map(|tier| tier.as_str())),
        (
            "typology",
            filter.typology.map(|typology| typology.as_str()),
        ),
        ("session", filter.session.as_ref().map(|id| id.as_str())),
        (
            "interaction",
            filter.interaction.as_ref().map(|id| id.as_str()),
        ),
    ];
    for (column, value) in wanted
        .into_iter()
        .filter_map(|(column, value)| Some((column, value?)))
    {
        statement.push(&format!(" AND e.{column} = ?"), [Param::Text(value)]);
    }
    if filter.session.is_some() {
        statement.push(" AND e.session IS NOT NULL", []); // the condition of the partial index
    }
}

pub(super) fn push_created<'a>(
    statement: &mut StatementBuilder<'a>,
    filter: &'a Filter,
    column: &str,
) {
    if let Some(from) = filter.created_from {
        statement.push(&format!(" AND {column} >= ?"), [Param::Number(from.0)]);
    }
    if let Some(to) = filter.created_to {
        statement.push(&format!(" AND {column} < ?"), [Param::Number(to.0)]);
    }
}
