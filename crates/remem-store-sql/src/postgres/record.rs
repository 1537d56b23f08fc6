//! Records: named, versioned objects beside a tenant's memory. Records under review (inert ones)
//! are in a separate table, which only the reviewer's role may read.

use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{Param, StatementBuilder, get, get_u64};
use crate::stored::{content_hash, prefix_end};
use remem_core::{EntryId, MemoryRef, Record, RecordKind, RecordLinks, TenantId, Timestamp};
use remem_store::{RecordLookup, StoreError};
use serde_json::Value;
use tokio_postgres::Row;

// The tenant is bound by those who use these columns.
const RECORD_COLUMNS: &str = "r.key, r.version, r.at, r.body, r.due, r.topic, s.memory_ref, e.id FROM remem.record r
     LEFT JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = r.source_scope
     LEFT JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = r.source_scope AND e.row_id = r.source_row";
// The tenant is bound likewise.
const INERT_COLUMNS: &str =
    "r.key, r.version, r.at, r.body, r.due, NULL::text, NULL::text, NULL::text FROM remem.review r";

fn columns_of(kind: RecordKind) -> &'static str {
    if kind.is_under_review() {
        INERT_COLUMNS
    } else {
        RECORD_COLUMNS
    }
}

fn role_for(kind: RecordKind) -> Role {
    if kind.is_under_review() {
        Role::Reviewer
    } else {
        Role::App
    }
}

impl Gate {
    /// Records of a kind, by the table that holds it.
    pub async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        lookup: &RecordLookup,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let hash = match lookup {
            RecordLookup::Source(_, id) => content_hash(id.as_str().as_bytes()),
            _ => [0; 16],
        };
        let end = match lookup {
            RecordLookup::Names { prefix, .. } => prefix_end(prefix),
            _ => String::new(),
        };
        let mut statement = StatementBuilder::new(format!("SELECT {}", columns_of(kind)));
        let key = [Param::Text(tenant.as_str()), Param::Text(kind.as_str())];
        statement.push(" WHERE r.tenant_id = ? AND r.kind = ?", key);
        match lookup {
            RecordLookup::Name(name) => statement.push(" AND r.key = ?", [Param::Text(name)]),
            RecordLookup::Names { prefix, after } => {
                let named = " AND r.key >= ? AND r.key > ? AND r.key < ? ORDER BY r.key";
                let bounds = [Param::Text(prefix), after_name(after), Param::Text(&end)];
                statement.push(named, bounds);
            }
            RecordLookup::Due { until, after } => {
                let due = " AND r.due IS NOT NULL AND r.due <= ? AND (r.due, r.key) > (?, ?) ORDER BY r.due, r.key";
                let (at, name) = after
                    .as_ref()
                    .map_or((i64::MIN, ""), |(at, name)| (at.0, name));
                let bounds = [Param::Number(until.0), Param::Number(at), Param::Text(name)];
                statement.push(due, bounds);
            }
            RecordLookup::Topic { topic, after } => {
                let waiting = " AND r.topic = ? AND r.key > ? ORDER BY r.key";
                statement.push(waiting, [Param::Text(topic), after_name(after)]);
            }
            RecordLookup::Source(memory_ref, _) => {
                let made = " AND r.source_row IS NOT NULL AND (r.source_scope, r.source_row) =
                   (SELECT i.scope_id, i.row_id FROM remem.scope o JOIN remem.entry i ON i.tenant_id = $1 AND i.scope_id = o.scope_id
                      AND i.id_hash = ? WHERE o.tenant_id = $1 AND o.memory_ref = ?) ORDER BY r.key";
                statement.push(
                    made,
                    [Param::Bytes(&hash), Param::Text(memory_ref.as_str())],
                );
            }
            RecordLookup::Sources(entries) => {
                let made = " AND r.source_row IS NOT NULL AND (r.source_scope, r.source_row)
                   IN (SELECT i.scope_id, i.row_id FROM unnest(?::text[], ?::bytea[]) AS w (memory_ref, id_hash)
                     JOIN remem.scope o ON o.tenant_id = $1 AND o.memory_ref = w.memory_ref
                     JOIN remem.entry i ON i.tenant_id = $1 AND i.scope_id = o.scope_id AND i.id_hash = w.id_hash) ORDER BY r.key";
                let hash = |id: &EntryId| content_hash(id.as_str().as_bytes()).to_vec();
                let (memories, hashes): (Vec<&str>, Vec<Vec<u8>>) = entries
                    .iter()
                    .map(|(memory_ref, id)| (memory_ref.as_str(), hash(id)))
                    .unzip();
                statement.push(made, [Param::Texts(memories), Param::Hashes(hashes)]);
            }
        }
        statement.push(" LIMIT ?", [Param::Number(limit.into())]);
        let who = Identity::as_host(tenant);
        let call = sql_call(&statement.sql, &statement.params());
        let rows = self.read_in_order(role_for(kind), who, call).await?;
        rows.iter().map(|row| read_record(row, kind)).collect()
    }
}

/// The end of the previous page.
fn after_name(after: &Option<String>) -> Param<'_> {
    Param::Text(after.as_deref().unwrap_or_default())
}

fn read_record(row: &Row, kind: RecordKind) -> Result<Record, StoreError> {
    let Ok(Value::Object(body)) = serde_json::from_str(get(row, 3)?) else {
        return Err(StoreError::Damaged("a record cannot be read"));
    };
    let memory_ref: Option<&str> = get(row, 6)?;
    let id: Option<&str> = get(row, 7)?;
    let source = memory_ref
        .and_then(MemoryRef::parse)
        .zip(id.and_then(EntryId::parse));
    let ties = RecordLinks {
        due: get::<Option<i64>>(row, 4)?.map(Timestamp),
        topic: get(row, 5)?,
        source,
    };
    Ok(Record {
        kind,
        key: get(row, 0)?,
        version: get_u64(row, 1)?,
        at: Timestamp(get(row, 2)?),
        body,
        links: ties,
    })
}
