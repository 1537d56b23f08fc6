//! Queries: get, list, events, clocks. Each is one statement, so each sees
//! one commit.

use super::gate::{Gate, Identity, Role, sql_call};
use super::rows::{
    ENTRY_COLUMNS, ENTRY_WIDTH, Param, StatementBuilder, VisiblePart, get, get_bytes, get_u64,
    read_entry,
};
use crate::rows::entry::standing_condition;
use crate::stored::content_hash;
use remem_core::{
    Entry, EntryId, Event, EventBody, MemoryRef, Revision, RunId, RunPosition, Scope, Seq,
    TenantId, Timestamp, Trust, Typology,
};
use remem_store::{Filter, Page, ReadAt, Snapshot, StoreError, TenantHead};
use std::cmp::Reverse;
use std::collections::BTreeSet;
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

    pub async fn entry(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError> {
        let hash = content_hash(id.as_str().as_bytes());
        let mut statement = live_entries_statement(&format!("SELECT {ENTRY_COLUMNS}"), scope, at);
        statement.push(
            " AND e.id_hash = ? AND e.id = ?",
            [Param::Bytes(&hash), Param::Text(id.as_str())],
        );
        let rows = self.query(Identity::of_scope(scope), &statement).await?;
        rows.first()
            .map(|row| read_entry(row, &scope.memory_ref))
            .transpose()
    }

    /// The named entries that are live, of all users and memories, with one statement.
    pub async fn named_entries(
        &self,
        tenant: &TenantId,
        names: &[(MemoryRef, EntryId)],
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut statement = named_entries_statement(tenant, names);
        statement.push_visible(tenant.as_str(), "s.scope_id", at);
        self.read_named(tenant, &statement).await
    }

    /// Runs a statement that `named_entries_statement` began.
    pub(super) async fn read_named(
        &self,
        tenant: &TenantId,
        statement: &StatementBuilder<'_>,
    ) -> Result<Vec<Entry>, StoreError> {
        let who = Identity::as_host(tenant);
        let rows = self
            .read(Role::Worker, who, &statement.sql, &statement.params())
            .await?;
        let read_row = |row: &Row| {
            let memory_ref = MemoryRef::parse(get(row, ENTRY_WIDTH)?)
                .ok_or(StoreError::Damaged("a memory has a malformed name"))?;
            read_entry(row, &memory_ref)
        };
        rows.iter().map(read_row).collect()
    }

    pub async fn entries(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let query = ListQuery {
            scope,
            filter,
            page,
            at,
            standing: None,
        };
        let statement = query.statement();
        let call = sql_call(&statement.sql, &statement.params());
        let rows = self
            .read_in_order(Role::App, Identity::of_scope(scope), call)
            .await?;
        rows.iter()
            .map(|row| read_entry(row, &scope.memory_ref))
            .collect()
    }

    /// Procedures or answers to slots: with one statement, those of each trust in the order of their
    /// own index.
    pub async fn standing(
        &self,
        scope: &Scope,
        typology: Typology,
        filter: &Filter,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let other_conditions = Filter {
            trust_at_least: None,
            ..filter.clone()
        };
        let page = Page { limit, after: None };
        let mut statement = memory_statement("", scope);
        for (n, trust) in filter.trusts_downwards().enumerate() {
            statement.push(if n == 0 { "(" } else { " UNION ALL (" }, []);
            let query = ListQuery {
                scope,
                filter: &other_conditions,
                page: &page,
                at,
                standing: Some((typology, trust)),
            };
            query.push(&mut statement);
            statement.push(")", []);
        }
        let call = sql_call(&statement.sql, &statement.params());
        let rows = self
            .read_in_order(Role::App, Identity::of_scope(scope), call)
            .await?;
        let entries = rows.iter().map(|row| read_entry(row, &scope.memory_ref));
        let mut found: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        found
            .sort_by_key(|entry| Reverse((entry.facets.trust, entry.created_at, entry.id.clone())));
        found.truncate(limit as usize);
        Ok(found)
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
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let after = after.0.cast_signed();
        let limit = i64::from(limit);
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                EVENTS,
                &[&tenant.as_str(), &after, &limit],
            )
            .await?;
        rows.iter().map(event).collect()
    }

    pub async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let name = tenant.as_str();
        let run = run.as_str();
        let limit = i64::from(limit);
        let from = from.cast_signed();
        let statement = sql_call(RUN_EVENTS, &[&name, &run, &from, &limit]);
        let rows = self
            .read_in_order(Role::App, Identity::tenant(tenant), statement)
            .await?;
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

/// Selects `columns` of the live entries `e` of one memory.
fn live_entries_statement<'a>(
    columns: &str,
    scope: &'a Scope,
    at: &'a ReadAt,
) -> StatementBuilder<'a> {
    let mut statement = memory_statement(columns, scope);
    statement.push(" FROM remem.entry e WHERE ", []);
    statement.push_visible(scope.tenant.as_str(), ONE_SCOPE, at);
    statement
}

/// Begins a statement that selects the named entries `e` of the memories `s`, to be continued with
/// a condition. Names are looked up one by one: by the statistics of an average memory, a scan of
/// the whole memory would look cheaper.
pub(super) fn named_entries_statement<'a>(
    tenant: &'a TenantId,
    names: &'a [(MemoryRef, EntryId)],
) -> StatementBuilder<'a> {
    let names: BTreeSet<&(MemoryRef, EntryId)> = names.iter().collect();
    let memories = names.iter().map(|name| name.0.as_str()).collect();
    let ids = names.iter().map(|name| name.1.as_str());
    let hashes = ids
        .clone()
        .map(|id| content_hash(id.as_bytes()).to_vec())
        .collect();
    let mut statement = StatementBuilder::new(format!("SELECT {ENTRY_COLUMNS}, s.memory_ref"));
    statement.push(
        " FROM unnest(?::text[], ?::bytea[], ?::text[]) AS w (memory_ref, id_hash, id)
          JOIN remem.scope s ON s.tenant_id = ? AND s.memory_ref = w.memory_ref
          CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = s.tenant_id AND e.scope_id = s.scope_id
            AND e.id_hash = w.id_hash AND e.id = w.id OFFSET 0) e WHERE ",
        [
            Param::Texts(memories),
            Param::Hashes(hashes),
            Param::Texts(ids.collect()),
            Param::Text(tenant.as_str()),
            Param::Text(tenant.as_str()),
        ],
    );
    statement
}

/// Begins a statement whose first two parameters are the tenant and the memory.
pub(super) fn memory_statement<'a>(columns: &str, scope: &'a Scope) -> StatementBuilder<'a> {
    let mut statement = StatementBuilder::new(columns);
    statement.params.extend([
        Param::Text(scope.tenant.as_str()),
        Param::Text(scope.memory_ref.as_str()),
    ]);
    statement
}

/// Which entries a list returns: of one memory, with these conditions.
struct ListQuery<'a> {
    scope: &'a Scope,
    filter: &'a Filter,
    page: &'a Page,
    at: &'a ReadAt,
    /// Only entries that stand until further notice, of this kind and trust.
    standing: Option<(Typology, Trust)>,
}

impl<'a> ListQuery<'a> {
    /// Lists a page of entries, newest first.
    fn statement(&self) -> StatementBuilder<'a> {
        let mut statement = memory_statement("", self.scope);
        self.push(&mut statement);
        statement
    }

    /// Adds the list to a statement that begins with the tenant and the memory. A snapshot is read
    /// in two parts, each in the order of its own index: the entries that are still current, and
    /// those that were removed since.
    fn push(&self, statement: &mut StatementBuilder<'a>) {
        let (ReadAt::Snapshot { .. } | ReadAt::AsOf { .. }) = self.at else {
            self.push_part(statement, VisiblePart::Current);
            return;
        };
        statement.push("SELECT * FROM ((", []);
        self.push_part(statement, VisiblePart::Current);
        statement.push(") UNION ALL (", []);
        self.push_part(statement, VisiblePart::Ended);
        statement.push(
            ")) e ORDER BY e.created_at DESC, e.id DESC LIMIT ?",
            [Param::Number(self.page.limit.into())],
        );
    }

    fn push_part(&self, statement: &mut StatementBuilder<'a>, part: VisiblePart) {
        let ListQuery {
            scope,
            filter,
            page,
            at,
            standing,
        } = *self;
        let tenant = scope.tenant.as_str();
        statement.push(&format!("SELECT {ENTRY_COLUMNS} FROM "), []);
        // With a tag, walk the tag's own index in order and fetch each entry. Removed entries are few:
        // they are read one by one.
        let (created_at, head) = match filter.tags.split_first() {
            _ if part == VisiblePart::Ended => {
                statement.push("remem.entry e WHERE ", []);
                statement.push_visible_part(tenant, ONE_SCOPE, at, part);
                // OFFSET 0 keeps PostgreSQL from walking all entries with the tag instead.
                filter
                    .tags
                    .iter()
                    .for_each(|tag| statement.push(&has_tag(" OFFSET 0"), [Param::Text(tag)]));
                ("e.created_at", "left(e.id, 100)")
            }
            Some((first, rest)) => {
                statement.push(
                    "remem.entry_tag g JOIN remem.entry e ON e.row_id = g.row_id AND ",
                    [],
                );
                statement.push_visible_part(tenant, ONE_SCOPE, at, part);
                statement.push(
                    &format!(" WHERE g.tenant_id = ? AND g.scope_id = {ONE_SCOPE} AND g.tag = ?"),
                    [Param::Text(tenant), Param::Text(first)],
                );
                push_tags(statement, rest);
                ("g.created_at", "g.id_head")
            }
            None => {
                statement.push("remem.entry e WHERE ", []);
                statement.push_visible_part(tenant, ONE_SCOPE, at, part);
                ("e.created_at", "left(e.id, 100)")
            }
        };
        push_created(statement, filter, created_at);
        push_attributes(statement, filter);
        if let Some((typology, trust)) = standing {
            statement.push(&standing_condition(typology, trust), []);
        }
        if let Some(after) = &page.after {
            let at = after.created_at.0;
            let id = after.id.as_str();
            statement.push(
                &format!(" AND {created_at} <= ? AND ({created_at} < ? OR e.id < ?)"),
                [Param::Number(at), Param::Number(at), Param::Text(id)],
            );
        }
        // The index holds the first 100 characters of an id; the whole id orders those that have the
        // same ones.
        statement.push(
            &format!(" ORDER BY {created_at} DESC, {head} DESC, e.id DESC LIMIT ?"),
            [Param::Number(page.limit.into())],
        );
    }
}

/// Adds the condition that `e` has each of these tags.
pub(super) fn push_tags<'a>(statement: &mut StatementBuilder<'a>, tags: &'a [String]) {
    tags.iter()
        .for_each(|tag| statement.push(&has_tag(""), [Param::Text(tag)]));
}

fn has_tag(fence: &str) -> String {
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

/// Whether no entry can match: no tag contains a NUL, and PostgreSQL would refuse such a parameter.
pub(super) fn matches_nothing(filter: &Filter) -> bool {
    filter.tags.iter().any(|tag| tag.contains('\0'))
}
