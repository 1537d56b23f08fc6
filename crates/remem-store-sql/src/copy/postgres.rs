//! PostgreSQL as source and target of a copy, through the gate like everything else: reads in one
//! transaction at one instant, writes page by page as the application, with the tenant's identity.
//!
//! Entries themselves are written by `crate::postgres::copy`, next to the statements of a commit
//! that it uses as well.

use super::error::{CopyEnd, CopyError};
use super::rows::{
    self, ActionRow, ClockRow, CopiedEntry, EventRow, IdempotencyRow, LinkRow, PAGE_BYTES,
    PAGE_ROWS, RecordRow, ReplacedRow, RuleRow, ScopeRow, SlotRow, SubjectRow,
};
use super::side::{CopySide, HostSecret, TenantReader};
use super::{postgres_lineage as lineage, postgres_workshop as workshop};
use crate::postgres::copy::put_entries;
use crate::postgres::gate::{Identity, Role, Transaction, TripError, sql_call};
use crate::postgres::load::PostgresRow;
use crate::postgres::rows::get;
use crate::postgres::{PostgresDirectory, PostgresOptions, PostgresStore};
use crate::rows::entry;
use crate::stored::content_hash;
use async_trait::async_trait;
use remem_core::TenantId;
use remem_store::{Directory, Store, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// One instant for as long as the other end needs.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '5min';
     SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL plan_cache_mode = force_custom_plan";

/// A database that holds a host.
pub(super) struct DatabaseSide {
    store: PostgresStore,
    directory: PostgresDirectory,
    /// The host's secret, if it is stored outside the database.
    secret: Option<HostSecret>,
}

pub(super) async fn open(
    options: PostgresOptions,
    secret: Option<HostSecret>,
    end: CopyEnd,
) -> Result<DatabaseSide, CopyError> {
    let store = PostgresStore::open(options)
        .await
        .map_err(|error| CopyError::Database(end, Box::new(error)))?;
    Ok(DatabaseSide {
        directory: store.directory(),
        store,
        secret,
    })
}

/// A reader of one tenant, in one transaction.
pub(super) struct PostgresReader {
    transaction: Transaction,
    tenant: TenantId,
}

impl PostgresReader {
    /// Runs a query whose parameter `$1` is the tenant.
    pub async fn rows(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let name = self.tenant.as_str();
        let mut all: Vec<&(dyn ToSql + Sync)> = vec![&name];
        all.extend(params);
        let mut results = self
            .transaction
            .run(vec![sql_call(sql, &all)])
            .await
            .map_err(TripError::into_store)?;
        Ok(results.pop().unwrap_or_default())
    }
}

pub(super) const LIMIT: i64 = PAGE_ROWS as i64;

#[async_trait]
impl TenantReader for PostgresReader {
    async fn clock(&self) -> Result<ClockRow, StoreError> {
        let rows = self
            .rows(
                "SELECT revision, seq, at, chain FROM remem.tenant_clock WHERE tenant_id = $1",
                &[],
            )
            .await?;
        Ok(rows
            .first()
            .map(read_clock)
            .transpose()?
            .unwrap_or_default())
    }

    async fn last_event(&self) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
        let rows = self
            .rows(
                "SELECT seq, hash FROM remem.event WHERE tenant_id = $1 ORDER BY seq DESC LIMIT 1",
                &[],
            )
            .await?;
        rows.first()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
            .transpose()
    }

    async fn event_hash(&self, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let rows = self
            .rows(
                "SELECT hash FROM remem.event WHERE tenant_id = $1 AND seq = $2",
                &[&seq],
            )
            .await?;
        rows.first().map(|row| get(row, 0)).transpose()
    }

    async fn has_open_runs(&self) -> Result<bool, StoreError> {
        Ok(!self
            .rows(
                "SELECT 1 FROM remem.snapshot WHERE tenant_id = $1 LIMIT 1",
                &[],
            )
            .await?
            .is_empty())
    }

    async fn entry_count(&self) -> Result<u64, StoreError> {
        let rows = self
            .rows("SELECT count(*) FROM remem.entry WHERE tenant_id = $1", &[])
            .await?;
        rows.first()
            .map_or(Ok(0), |row| Ok(get::<i64>(row, 0)?.cast_unsigned()))
    }

    async fn events(&self, after: i64) -> Result<Vec<EventRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM remem.event WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            rows::EVENT
        );
        self.rows(&sql, &[&after, &LIMIT])
            .await?
            .iter()
            .map(read_event)
            .collect()
    }

    async fn scopes(&self, after: i64) -> Result<Vec<ScopeRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM remem.scope WHERE tenant_id = $1 AND scope_id > $2 ORDER BY scope_id LIMIT $3",
            rows::SCOPE
        );
        let rows = self.rows(&sql, &[&after, &LIMIT]).await?;
        rows.iter()
            .map(|row| {
                Ok(ScopeRow {
                    scope_id: get(row, 0)?,
                    memory_ref: get(row, 1)?,
                    owner: get(row, 2)?,
                })
            })
            .collect()
    }

    /// The sizes of texts are known without reading them, so a page ends before it gets too large.
    async fn entries(&self, after: (i64, i64)) -> Result<Vec<CopiedEntry>, StoreError> {
        let sql = format!(
            "SELECT {} FROM (SELECT *, sum(octet_length(content)) OVER (ORDER BY scope_id, row_id) - octet_length(content) AS before
               FROM remem.entry WHERE tenant_id = $1 AND (scope_id, row_id) > ($2, $3) ORDER BY scope_id, row_id LIMIT $4) e
             WHERE before < $5 ORDER BY scope_id, row_id",
            entry::select_list("e", "true")
        );
        self.rows(&sql, &[&after.0, &after.1, &LIMIT, &(PAGE_BYTES as i64)])
            .await?
            .iter()
            .map(|row| entry::read_row(&mut PostgresRow::new(row)))
            .collect()
    }

    async fn idempotency_rows(
        &self,
        after: &(String, Vec<u8>),
    ) -> Result<Vec<IdempotencyRow>, StoreError> {
        let sql = format!(
            "SELECT {} FROM remem.idempotency WHERE tenant_id = $1 AND (operation, key) > ($2, $3) ORDER BY operation, key LIMIT $4",
            rows::IDEMPOTENCY
        );
        self.rows(&sql, &[&after.0, &after.1, &LIMIT])
            .await?
            .iter()
            .map(read_idempotency_row)
            .collect()
    }

    async fn records(&self, after: &(String, String)) -> Result<Vec<RecordRow>, StoreError> {
        let page = format!(
            "WHERE r.tenant_id = $1 AND (r.kind, r.key) > ($2, $3) AND {} ORDER BY r.kind, r.key LIMIT $4",
            rows::IS_COPIED
        );
        let source = "LEFT JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = r.source_scope AND e.row_id = r.source_row";
        let sql = format!(
            "SELECT {} FROM remem.record r {source} {page}",
            rows::RECORD
        );
        let records = self.rows(&sql, &[&after.0, &after.1, &LIMIT]).await?;
        // The tenant is bound by the page.
        let sql = format!("SELECT {} FROM remem.review r {page}", rows::REVIEW);
        let name = self.tenant.as_str();
        let statements = vec![
            sql_call(AS_REVIEWER, &[]),
            sql_call(&sql, &[&name, &after.0, &after.1, &LIMIT]),
            sql_call(AS_BEFORE, &[]),
        ];
        let results = self
            .transaction
            .run(statements)
            .await
            .map_err(TripError::into_store)?;
        let read = |rows: &[Row]| rows.iter().map(read_record).collect::<Result<Vec<_>, _>>();
        Ok(rows::merge_pages(read(&records)?, read(&results[1])?))
    }

    async fn replaced(&self, after: (i64, i64)) -> Result<Vec<ReplacedRow>, StoreError> {
        lineage::replaced(self, after).await
    }

    async fn links(&self, after: [i64; 4]) -> Result<Vec<LinkRow>, StoreError> {
        lineage::links(self, after).await
    }

    async fn subjects(&self, after: &(Vec<u8>, i64, i64)) -> Result<Vec<SubjectRow>, StoreError> {
        lineage::subjects(self, after).await
    }

    async fn slots(&self, after: (i64, i64)) -> Result<Vec<SlotRow>, StoreError> {
        workshop::slots(self, after).await
    }

    async fn actions(
        &self,
        after: &(i64, i64, String, String),
    ) -> Result<Vec<ActionRow>, StoreError> {
        workshop::actions(self, after).await
    }

    async fn rules(&self, after: &(String, String)) -> Result<Vec<RuleRow>, StoreError> {
        workshop::rules(self, after).await
    }

    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        self.transaction
            .commit(Vec::new())
            .await
            .map_err(TripError::into_store)
            .map(|_| ())
    }
}

fn read_clock(row: &Row) -> Result<ClockRow, StoreError> {
    Ok(ClockRow {
        revision: get(row, 0)?,
        seq: get(row, 1)?,
        at: get(row, 2)?,
        chain: get(row, 3)?,
    })
}

fn read_event(row: &Row) -> Result<EventRow, StoreError> {
    Ok(EventRow {
        seq: get(row, 0)?,
        revision: get(row, 1)?,
        at: get(row, 2)?,
        run_id: get(row, 3)?,
        run_seq: get(row, 4)?,
        recorded_at: get(row, 5)?,
        kind: get(row, 6)?,
        payload: get(row, 7)?,
        hash: get(row, 8)?,
    })
}

fn read_idempotency_row(row: &Row) -> Result<IdempotencyRow, StoreError> {
    Ok(IdempotencyRow {
        operation: get(row, 0)?,
        key: get(row, 1)?,
        body: get(row, 2)?,
        at: get(row, 3)?,
        revision: get(row, 4)?,
        outcomes: get(row, 5)?,
    })
}

fn read_record(row: &Row) -> Result<RecordRow, StoreError> {
    let due = get(row, 5)?;
    let topic = get(row, 6)?;
    let source_scope = get(row, 7)?;
    let source_id = get(row, 8)?;
    let kind = get(row, 0)?;
    let key = get(row, 1)?;
    let version = get(row, 2)?;
    let at = get(row, 3)?;
    let body = get(row, 4)?;
    Ok(RecordRow {
        kind,
        key,
        version,
        at,
        body,
        due,
        topic,
        source_scope,
        source_id,
    })
}

/// Records under review may be read by the reviewer's role alone.
const AS_REVIEWER: &str = "SELECT set_config('role', current_database() || '_reviewer', true)";
const AS_BEFORE: &str = "SELECT set_config('role', 'none', true)";
const PUT_RECORDS: &str = "INSERT INTO remem.record (tenant_id, kind, key, version, at, body, due, topic, source_scope, source_row)
     SELECT c.tenant_id, w.kind, w.key, w.version, w.at, w.body, w.due, w.topic, w.scope_id, e.row_id
     FROM remem.tenant_clock c CROSS JOIN unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::bigint[], $10::bytea[])
       AS w (kind, key, version, at, body, due, topic, scope_id, id_hash)
     LEFT JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const PUT_REVIEWS: &str = "INSERT INTO remem.review (tenant_id, kind, key, version, at, body, due)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c
     CROSS JOIN unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[]) u WHERE c.tenant_id = $1
     ON CONFLICT (tenant_id, kind, key) DO NOTHING";
const DROP_RECORDS: &str = "DELETE FROM remem.record WHERE tenant_id = $1";
const DROP_REVIEWS: &str = "DELETE FROM remem.review WHERE tenant_id = $1";
const PUT_EVENTS: &str = "INSERT INTO remem.event (tenant_id, seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c
     CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::bytea[]) u
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const PUT_SCOPES: &str = "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref, owner)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c CROSS JOIN unnest($2::bigint[], $3::text[], $4::text[]) u
     WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const PUT_REPEATS: &str = "INSERT INTO remem.idempotency (tenant_id, operation, key, body, at, revision, outcomes)
     SELECT c.tenant_id, u.* FROM remem.tenant_clock c
     CROSS JOIN unnest($2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[]) u WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const DROP_REPEATS: &str = "DELETE FROM remem.idempotency WHERE tenant_id = $1 AND at < $2";
/// The next memory gets the number after the last one that was copied.
const PUT_CLOCK: &str = "UPDATE remem.tenant_clock SET revision = $2, seq = $3, at = $4, chain = $5,
       scopes = coalesce((SELECT max(scope_id) FROM remem.scope WHERE tenant_id = $1), 0) WHERE tenant_id = $1";
/// Subjects come after their entries, so the totals of the memories are counted again.
const COUNT_TOTALS: &str = "UPDATE remem.scope s SET entries = t.entries, content_bytes = t.content_bytes, expiring = t.expiring, with_subject = t.with_subject
     FROM (SELECT m.scope_id, count(e.row_id) AS entries, coalesce(sum(octet_length(e.content)), 0) AS content_bytes,
             count(e.expires_at) AS expiring, count(g.row_id) AS with_subject
           FROM remem.scope m
           LEFT JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = m.scope_id AND e.rev_to IS NULL
           LEFT JOIN (SELECT DISTINCT scope_id, row_id FROM remem.entry_subject WHERE tenant_id = $1) g
             ON g.scope_id = e.scope_id AND g.row_id = e.row_id
           WHERE m.tenant_id = $1 GROUP BY m.scope_id) t
     WHERE s.tenant_id = $1 AND s.scope_id = t.scope_id";
/// Expiries and removed entries were copied: the purge pass is due at once, and computes when it is
/// due next. The due time of records is computed here, because a pass that finds no record due
/// writes nothing.
const PUT_DUE: &str = "INSERT INTO remem.upkeep (tenant_id, next_expiry, next_due) SELECT c.tenant_id, 0, least(
       coalesce((SELECT min(due) FROM remem.record WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807),
       coalesce((SELECT min(due) FROM remem.review WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807))
     FROM remem.tenant_clock c WHERE c.tenant_id = $1
     ON CONFLICT (tenant_id) DO UPDATE SET next_expiry = 0, next_due = excluded.next_due";
/// The start time of the server and the number of the database: the same under any address.
const IDENTITY: &str = "SELECT format('%s %s', pg_postmaster_start_time(), oid) FROM pg_database WHERE datname = current_database()";

/// One column of a page.
pub(super) fn column<'a, R, T>(page: &'a [R], field: impl Fn(&'a R) -> T) -> Vec<T> {
    page.iter().map(field).collect()
}

#[async_trait]
impl CopySide for DatabaseSide {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn directory(&self) -> &dyn Directory {
        &self.directory
    }

    async fn identity(&self) -> Result<String, CopyError> {
        let rows = self
            .store
            .gate()
            .read(Role::App, Identity::host(), IDENTITY, &[])
            .await?;
        Ok(rows.first().map_or(Ok(String::new()), |row| get(row, 0))?)
    }

    async fn secret(&self) -> Result<Option<HostSecret>, CopyError> {
        if self.secret.is_some() {
            return Ok(self.secret);
        }
        let rows = self
            .store
            .gate()
            .read(
                Role::App,
                Identity::host(),
                "SELECT secret FROM remem.host_secret",
                &[],
            )
            .await?;
        let secret = |row| {
            get::<Vec<u8>>(row, 0)?
                .try_into()
                .map_err(|_| StoreError::Damaged("the host's secret is not 32 bytes"))
        };
        Ok(rows.first().map(secret).transpose()?)
    }

    async fn store_secret(&self, secret: &HostSecret) -> Result<HostSecret, CopyError> {
        Ok(self.store.host_secret(secret).await?)
    }

    async fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn TenantReader>, StoreError> {
        let (transaction, _) = self
            .store
            .gate()
            .open(READ, Role::App, Identity::as_host(tenant), Vec::new())
            .await?;
        Ok(Box::new(PostgresReader {
            transaction,
            tenant: tenant.clone(),
        }))
    }

    async fn put_events(&self, tenant: &TenantId, page: Vec<EventRow>) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let seq = column(&page, |r| r.seq);
        let revision = column(&page, |r| r.revision);
        let at = column(&page, |r| r.at);
        let run = column(&page, |r| r.run_id.as_deref());
        let kind = column(&page, |r| r.kind.as_str());
        let payload = column(&page, |r| r.payload.as_str());
        let hash = column(&page, |r| r.hash.as_slice());
        let run_seq = column(&page, |r| r.run_seq);
        let recorded_at = column(&page, |r| r.recorded_at);
        let put = sql_call(
            PUT_EVENTS,
            &[
                &name,
                &seq,
                &revision,
                &at,
                &run,
                &run_seq,
                &recorded_at,
                &kind,
                &payload,
                &hash,
            ],
        );
        lineage::insert_as_host(self.store.gate(), tenant, vec![put]).await
    }

    async fn put_scopes(&self, tenant: &TenantId, page: Vec<ScopeRow>) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let id = column(&page, |r| r.scope_id);
        let memory_ref = column(&page, |r| r.memory_ref.as_str());
        let owner = column(&page, |r| r.owner.as_deref());
        let put = sql_call(PUT_SCOPES, &[&name, &id, &memory_ref, &owner]);
        lineage::insert_as_host(self.store.gate(), tenant, vec![put]).await
    }

    async fn put_entries(
        &self,
        tenant: &TenantId,
        page: Vec<CopiedEntry>,
    ) -> Result<(), StoreError> {
        put_entries(self.store.gate(), tenant, page).await
    }

    async fn put_idempotency_rows(
        &self,
        tenant: &TenantId,
        page: Vec<IdempotencyRow>,
    ) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let operation = column(&page, |r| r.operation.as_str());
        let key = column(&page, |r| r.key.as_slice());
        let body = column(&page, |r| r.body.as_slice());
        let at = column(&page, |r| r.at);
        let revision = column(&page, |r| r.revision);
        let outcomes = column(&page, |r| r.outcomes.as_str());
        let put = sql_call(
            PUT_REPEATS,
            &[&name, &operation, &key, &body, &at, &revision, &outcomes],
        );
        lineage::insert_as_host(self.store.gate(), tenant, vec![put]).await
    }

    /// Runs as the worker: the application has no right to delete the records that make a
    /// repetition safe.
    async fn delete_idempotency_rows(
        &self,
        tenant: &TenantId,
        before: i64,
    ) -> Result<(), StoreError> {
        let name = tenant.as_str();
        self.store
            .gate()
            .write(
                Role::Worker,
                Identity::as_host(tenant),
                vec![sql_call(DROP_REPEATS, &[&name, &before])],
            )
            .await
            .map(|_| ())
    }

    async fn delete_records(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let calls = vec![
            sql_call(DROP_RECORDS, &[&name]),
            sql_call(DROP_REVIEWS, &[&name]),
        ];
        lineage::write_as_host(self.store.gate(), tenant, calls).await
    }

    async fn put_records(&self, tenant: &TenantId, page: Vec<RecordRow>) -> Result<(), StoreError> {
        let (reviews, records): (Vec<RecordRow>, Vec<RecordRow>) =
            page.into_iter().partition(RecordRow::is_inert);
        let name = tenant.as_str();
        let kind = column(&records, |r| r.kind.as_str());
        let key = column(&records, |r| r.key.as_str());
        let version = column(&records, |r| r.version);
        let at = column(&records, |r| r.at);
        let body = column(&records, |r| r.body.as_str());
        let due = column(&records, |r| r.due);
        let topic = column(&records, |r| r.topic.as_deref());
        let scope = column(&records, |r| r.source_scope);
        let id = column(&records, |r| {
            r.source_id
                .as_ref()
                .map(|id| content_hash(id.as_bytes()).to_vec())
        });
        let put = sql_call(
            PUT_RECORDS,
            &[
                &name, &kind, &key, &version, &at, &body, &due, &topic, &scope, &id,
            ],
        );
        let kind = column(&reviews, |r| r.kind.as_str());
        let key = column(&reviews, |r| r.key.as_str());
        let version = column(&reviews, |r| r.version);
        let at = column(&reviews, |r| r.at);
        let body = column(&reviews, |r| r.body.as_str());
        let due = column(&reviews, |r| r.due);
        let inert = sql_call(
            PUT_REVIEWS,
            &[&name, &kind, &key, &version, &at, &body, &due],
        );
        lineage::insert_as_host(self.store.gate(), tenant, vec![put, inert]).await
    }

    async fn put_replaced(
        &self,
        tenant: &TenantId,
        page: Vec<ReplacedRow>,
    ) -> Result<(), StoreError> {
        lineage::put_replaced(self.store.gate(), tenant, &page).await
    }

    async fn put_links(&self, tenant: &TenantId, page: Vec<LinkRow>) -> Result<(), StoreError> {
        lineage::put_links(self.store.gate(), tenant, &page).await
    }

    async fn delete_subjects(&self, tenant: &TenantId) -> Result<(), StoreError> {
        lineage::delete_subjects(self.store.gate(), tenant).await
    }

    async fn put_subjects(
        &self,
        tenant: &TenantId,
        page: Vec<SubjectRow>,
    ) -> Result<(), StoreError> {
        lineage::put_subjects(self.store.gate(), tenant, &page).await
    }

    async fn put_slots(&self, tenant: &TenantId, page: Vec<SlotRow>) -> Result<(), StoreError> {
        workshop::put_slots(self.store.gate(), tenant, &page).await
    }

    async fn put_actions(&self, tenant: &TenantId, page: Vec<ActionRow>) -> Result<(), StoreError> {
        workshop::put_actions(self.store.gate(), tenant, &page).await
    }

    async fn delete_rules(&self, tenant: &TenantId) -> Result<(), StoreError> {
        workshop::drop_rules(self.store.gate(), tenant).await
    }

    async fn put_rules(&self, tenant: &TenantId, page: Vec<RuleRow>) -> Result<(), StoreError> {
        workshop::put_rules(self.store.gate(), tenant, &page).await
    }

    async fn finish(&self, tenant: &TenantId, clock: ClockRow) -> Result<(), StoreError> {
        let name = tenant.as_str();
        let calls = vec![
            sql_call(COUNT_TOTALS, &[&name]),
            sql_call(PUT_DUE, &[&name]),
            sql_call(
                PUT_CLOCK,
                &[&name, &clock.revision, &clock.seq, &clock.at, &clock.chain],
            ),
        ];
        lineage::insert_as_host(self.store.gate(), tenant, calls).await
    }
}
