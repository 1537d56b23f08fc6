//! The one statement that reads entries: what a query selects decides its condition, its order and
//! whether texts are read. Each read is one statement, so each sees one commit.

use super::gate::{Gate, Identity, Role, sql_call};
use super::load::PostgresRow;
use super::read::{ONE_SCOPE, has_tag, memory_statement, push_attributes, push_created, push_tags};
use super::rows::{Param, StatementBuilder, VisiblePart};
use crate::rows::entry;
use crate::stored::content_hash;
use remem_core::{EntryId, MemoryRef, Scope, TenantId, Timestamp, Trust, Typology};
use remem_store::{
    EntryQuery, EntrySelection, Filter, FoundEntry, ListPosition, MemoryEntries, ReadAt, RowCursor,
    StoreError, TenantEntries,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// SQL condition: the entries that consolidation may read. (Entries with an expiry are left to
/// it; entries of a slot or with a validity window are replaced by the next answer.)
pub(super) const ELIGIBLE: &str = "e.rev_to IS NULL AND e.expires_at IS NULL AND e.tier = 'persistent' AND e.slot IS NULL AND e.valid_at IS NULL
  AND e.invalid_at IS NULL";
/// The memory of each entry, for a query of a whole tenant, which is the first parameter.
const OF_TENANT: &str = "FROM remem.entry e JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = e.scope_id WHERE e.tenant_id = $1";
/// SQL condition on a removed entry: no open snapshot is older than its end, so no run can read it.
const IN_NO_SNAPSHOT: &str = "e.rev_to <= coalesce((SELECT min(revision) FROM remem.snapshot WHERE tenant_id = $1), 9223372036854775807)";

impl Gate {
    pub async fn entries(&self, query: &EntryQuery) -> Result<Vec<FoundEntry>, StoreError> {
        match &query.selection {
            EntrySelection::OfMemory(scope, entries) => {
                self.entries_of_memory(scope, entries, query.limit).await
            }
            EntrySelection::OfTenant(tenant, entries) => {
                self.entries_of_tenant(tenant, entries, query.limit).await
            }
        }
    }

    async fn entries_of_memory(
        &self,
        scope: &Scope,
        entries: &MemoryEntries,
        limit: u32,
    ) -> Result<Vec<FoundEntry>, StoreError> {
        let mut derived = Derived::default();
        match entries {
            MemoryEntries::Live { filter, .. } | MemoryEntries::Standing { filter, .. }
                if matches_nothing(filter) =>
            {
                return Ok(Vec::new());
            }
            MemoryEntries::Standing { filter, .. } => derived.filter = filter.clone(),
            MemoryEntries::Named { id, .. } => {
                derived.id_hash = content_hash(id.as_str().as_bytes());
            }
            _ => {}
        }
        derived.filter.trust_at_least = None;
        let statement = memory_statement_of(scope, entries, &derived, limit);
        let role = match entries {
            MemoryEntries::WithoutSignature { .. } | MemoryEntries::AtRows(_) => Role::Worker,
            _ => Role::App,
        };
        let ordered = matches!(
            entries,
            MemoryEntries::Live { .. }
                | MemoryEntries::Standing { .. }
                | MemoryEntries::WithoutSignature { .. }
        );
        let who = Identity::of_scope(scope);
        let found = self.found(role, who, &statement, ordered, |row| {
            entry::read_found(row, Some(&scope.memory_ref))
        });
        let mut found = found.await?;
        match entries {
            // The newest ones were wanted, and the oldest of them comes first.
            MemoryEntries::OfSlot(_) => found.reverse(),
            MemoryEntries::Standing { .. } => {
                found.sort_by_key(|found| Reverse(standing_order(found)));
                found.truncate(limit as usize);
            }
            MemoryEntries::AtRows(rows) => {
                found.retain(|found| rows.contains(&found.row)); // row numbers repeat in other memories
                found.sort_unstable_by_key(|found| found.row);
            }
            _ => {}
        }
        Ok(found)
    }

    async fn entries_of_tenant(
        &self,
        tenant: &TenantId,
        entries: &TenantEntries,
        limit: u32,
    ) -> Result<Vec<FoundEntry>, StoreError> {
        let needs_vectors = matches!(
            entries,
            TenantEntries::WithoutVector { .. } | TenantEntries::NamedWithoutVector { .. }
        );
        if needs_vectors && !self.vectors {
            return Ok(Vec::new());
        }
        let statement = tenant_statement(tenant, entries, limit);
        let with_texts = entries.has_texts();
        let who = Identity::as_host(tenant);
        let ordered = matches!(
            entries,
            TenantEntries::WithoutVector { .. } | TenantEntries::ToRescan { .. }
        );
        self.found(Role::Worker, who, &statement, ordered, |row| {
            if with_texts {
                entry::read_found(row, None)
            } else {
                entry::read_name(row)
            }
        })
        .await
    }

    /// Runs a statement; `ordered` says that an index has its order.
    async fn found(
        &self,
        role: Role,
        who: Identity<'_>,
        statement: &StatementBuilder<'_>,
        ordered: bool,
        read: impl Fn(&mut PostgresRow<'_>) -> Result<FoundEntry, StoreError>,
    ) -> Result<Vec<FoundEntry>, StoreError> {
        let call = sql_call(&statement.sql, &statement.params());
        let rows = if ordered {
            self.read_in_order(role, who, call).await?
        } else {
            self.read(role, who, call.sql, &call.params).await?
        };
        let read = |row| read(&mut PostgresRow::new(row));
        rows.iter().map(read).collect()
    }
}

/// What the statement about one memory needs beside its query.
#[derive(Default)]
struct Derived {
    /// The hash of the id that is looked up.
    id_hash: [u8; 16],
    /// The filter of standing entries without its condition on trust, which the statement has for
    /// each level.
    filter: Filter,
}

/// The order of standing entries, the last of which come first.
fn standing_order(found: &FoundEntry) -> Option<(Trust, Timestamp, EntryId)> {
    let entry = &found.whole.as_ref()?.entry;
    Some((entry.facets.trust, entry.created_at, entry.id.clone()))
}

/// The beginning of a statement that selects whole entries: the columns of the entry, the name of
/// its memory if that is not known, and the entry that replaced it if the statement is about a
/// slot.
fn whole_entries(memory_ref: &str, replaced_by: &str) -> String {
    format!(
        "SELECT {}, {memory_ref} AS of_memory, {replaced_by} AS replacement ",
        *entry::WITH_TEXT
    )
}

/// The beginning of a statement about entries of one memory.
fn whole_entries_of_memory() -> String {
    whole_entries("NULL::text", "NULL::text")
}

fn memory_statement_of<'a>(
    scope: &'a Scope,
    entries: &'a MemoryEntries,
    derived: &'a Derived,
    limit: u32,
) -> StatementBuilder<'a> {
    let tenant = scope.tenant.as_str();
    let of_memory =
        format!("FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = {ONE_SCOPE}");
    let whole = whole_entries_of_memory();
    let mut statement = match entries {
        MemoryEntries::Live { filter, after, at } => {
            return list_statement(&List {
                scope,
                filter,
                standing: None,
                after: after.as_ref(),
                at,
                limit,
            });
        }
        MemoryEntries::Standing {
            typology,
            filter,
            at,
        } => {
            let trusts = filter.trusts_downwards();
            let list = |trust| List {
                scope,
                filter: &derived.filter,
                standing: Some((*typology, trust)),
                after: None,
                at,
                limit,
            };
            return standing_statement(scope, trusts.map(list));
        }
        MemoryEntries::Named { id, at } => {
            let mut statement = memory_statement(&whole, scope);
            statement.push("FROM remem.entry e WHERE ", []);
            statement.push_visible(tenant, ONE_SCOPE, at);
            let named = [Param::Bytes(&derived.id_hash), Param::Text(id.as_str())];
            statement.push(" AND e.id_hash = ? AND e.id = ?", named);
            statement
        }
        MemoryEntries::OfSlot(slot) => {
            let replaced_by = "(SELECT r.id FROM remem.entry r WHERE r.tenant_id = $1 AND r.scope_id = e.scope_id AND r.row_id = e.replaced_by)";
            let mut statement = memory_statement(&whole_entries("NULL::text", replaced_by), scope);
            statement.push(&of_memory, []);
            let answers = " AND e.slot = ? AND e.slot IS NOT NULL AND e.erased_at IS NULL
               ORDER BY coalesce(e.valid_at, e.created_at) DESC, e.created_at DESC, e.id DESC";
            statement.push(answers, [Param::Text(slot)]);
            statement
        }
        MemoryEntries::WithoutSignature { after } => {
            let mut statement = memory_statement(&whole, scope);
            let unsigned = format!(
                "{of_memory} AND e.row_id > ? AND {ELIGIBLE} AND NOT EXISTS (SELECT 1 FROM remem.signature g
                   WHERE g.tenant_id = $1 AND g.scope_id = e.scope_id AND g.row_id = e.row_id) ORDER BY e.row_id"
            );
            let after = after.map_or(0, |row| row.1);
            statement.push(&unsigned, [Param::Number(after)]);
            statement
        }
        MemoryEntries::AtRows(rows) => {
            // Looks rows up one by one: by the statistics of an average memory, a scan of the whole
            // memory would look cheaper.
            let mut statement = memory_statement(&whole, scope);
            let numbers: BTreeSet<i64> = rows.iter().map(|row| row.1).collect();
            let wanted = format!(
                "FROM unnest(?::bigint[]) AS w (row_id) CROSS JOIN LATERAL (SELECT * {of_memory} AND e.row_id = w.row_id OFFSET 0) e WHERE {ELIGIBLE}"
            );
            statement.push(&wanted, [Param::Numbers(numbers.into_iter().collect())]);
            statement
        }
    };
    statement.push(" LIMIT ?", [Param::Number(limit.into())]);
    statement
}

fn tenant_statement<'a>(
    tenant: &'a TenantId,
    entries: &'a TenantEntries,
    limit: u32,
) -> StatementBuilder<'a> {
    let mut statement = StatementBuilder::new(if entries.has_texts() {
        whole_entries("s.memory_ref", "NULL::text")
    } else {
        format!("SELECT {}, e.invalid_at ", entry::NAME)
    });
    statement.params.push(Param::Text(tenant.as_str()));
    match entries {
        TenantEntries::Named { names, .. } | TenantEntries::NamedWithoutVector { names, .. } => {
            push_named(&mut statement, names);
        }
        _ => statement.push(OF_TENANT, []),
    }
    match entries {
        TenantEntries::Named { at, .. } => {
            statement.push_visible(tenant.as_str(), "s.scope_id", at);
        }
        TenantEntries::NamedWithoutVector { model, .. } => {
            let without = "e.erased_at IS NULL AND NOT EXISTS (SELECT 1 FROM remem.vector v WHERE v.tenant_id = $1
               AND v.scope_id = e.scope_id AND v.row_id = e.row_id AND v.model = ?)";
            statement.push(without, [Param::Number(model.0)]);
        }
        TenantEntries::WithoutVector { model, after } => {
            push_row_after(&mut statement, *after);
            let without = " AND e.erased_at IS NULL AND NOT EXISTS (SELECT 1 FROM remem.vector v WHERE v.tenant_id = $1
               AND v.scope_id = e.scope_id AND v.row_id = e.row_id AND v.model = ?) ORDER BY e.scope_id, e.row_id";
            statement.push(without, [Param::Number(model.0)]);
        }
        TenantEntries::ToRescan { scan, after } => {
            push_row_after(&mut statement, *after);
            let stale = " AND e.scan <> ? AND e.erased_at IS NULL ORDER BY e.scope_id, e.row_id";
            statement.push(stale, [Param::Number(scan.cast_signed())]);
        }
        TenantEntries::Expired(at) => {
            let expired = " AND e.rev_to IS NULL AND e.expires_at IS NOT NULL AND e.expires_at <= ? ORDER BY e.expires_at";
            statement.push(expired, [Param::Number(at.0)]);
        }
        TenantEntries::Erasable => {
            let removed = format!(
                " AND e.erased_at IS NULL AND e.removed_reason IN ('deleted', 'compacted', 'closed') AND {IN_NO_SNAPSHOT} ORDER BY e.rev_to"
            );
            statement.push(&removed, []);
        }
        TenantEntries::EndedStatements { before, after } => {
            let first = (Timestamp(i64::MIN), RowCursor(i64::MIN, i64::MIN));
            let (since, row) = after.unwrap_or(first);
            let bounds = [before.0, since.0, since.0, row.0, row.1].map(Param::Number);
            let ended = " AND e.invalid_at IS NOT NULL AND e.erased_at IS NULL AND e.invalid_at < ?
               AND e.invalid_at >= ? AND (e.invalid_at, e.scope_id, e.row_id) > (?, ?, ?)";
            statement.push(ended, bounds);
            let unused = format!(
                " AND (e.rev_to IS NULL OR (e.removed_reason = 'invalidated' AND {IN_NO_SNAPSHOT}))
                 AND NOT EXISTS (SELECT 1 FROM remem.action_link l WHERE l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id)
                 ORDER BY e.invalid_at, e.scope_id, e.row_id"
            );
            statement.push(&unused, []);
        }
    }
    statement.push(" LIMIT ?", [Param::Number(limit.into())]);
    statement
}

/// Adds the named entries `e` of the memories `s`, to be continued with a condition. Names are looked
/// up one by one: by the statistics of an average memory, a scan of the whole memory would look
/// cheaper.
fn push_named<'a>(statement: &mut StatementBuilder<'a>, names: &'a [(MemoryRef, EntryId)]) {
    let names: BTreeSet<&(MemoryRef, EntryId)> = names.iter().collect();
    let memories = names.iter().map(|name| name.0.as_str()).collect();
    let ids = names.iter().map(|name| name.1.as_str());
    let hashes = ids
        .clone()
        .map(|id| content_hash(id.as_bytes()).to_vec())
        .collect();
    statement.push(
        "FROM unnest(?::text[], ?::bytea[], ?::text[]) AS w (memory_ref, id_hash, id)
         JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
         CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = s.scope_id
           AND e.id_hash = w.id_hash AND e.id = w.id OFFSET 0) e WHERE ",
        [
            Param::Texts(memories),
            Param::Hashes(hashes),
            Param::Texts(ids.collect()),
        ],
    );
}

fn push_row_after(statement: &mut StatementBuilder<'_>, after: Option<RowCursor>) {
    let after = after.unwrap_or(RowCursor(0, 0));
    let bounds = [Param::Number(after.0), Param::Number(after.1)];
    statement.push(" AND (e.scope_id, e.row_id) > (?, ?)", bounds);
}

/// A page of the live entries of a memory, newest first.
struct List<'a> {
    scope: &'a Scope,
    filter: &'a Filter,
    /// Only entries that stand until further notice, of this kind and trust.
    standing: Option<(Typology, Trust)>,
    after: Option<&'a ListPosition>,
    at: &'a ReadAt,
    limit: u32,
}

fn list_statement<'a>(list: &List<'a>) -> StatementBuilder<'a> {
    let mut statement = memory_statement("", list.scope);
    push_list(&mut statement, list);
    statement
}

/// Procedures or answers to slots: with one statement, those of each trust in the order of their own
/// index.
fn standing_statement<'a>(
    scope: &'a Scope,
    lists: impl Iterator<Item = List<'a>>,
) -> StatementBuilder<'a> {
    let mut statement = memory_statement("", scope);
    for (n, list) in lists.enumerate() {
        statement.push(if n == 0 { "(" } else { " UNION ALL (" }, []);
        push_list(&mut statement, &list);
        statement.push(")", []);
    }
    statement
}

/// Adds the list to a statement that begins with the tenant and the memory. A snapshot is read in
/// two parts, each in the order of its own index: the entries that are still current, and those that
/// were removed since.
fn push_list<'a>(statement: &mut StatementBuilder<'a>, list: &List<'a>) {
    let (ReadAt::Snapshot { .. } | ReadAt::AsOf { .. }) = list.at else {
        push_part(statement, list, VisiblePart::Current);
        return;
    };
    statement.push("SELECT * FROM ((", []);
    push_part(statement, list, VisiblePart::Current);
    statement.push(") UNION ALL (", []);
    push_part(statement, list, VisiblePart::Ended);
    let order = ")) e ORDER BY e.created_at DESC, e.id DESC LIMIT ?";
    statement.push(order, [Param::Number(list.limit.into())]);
}

fn push_part<'a>(statement: &mut StatementBuilder<'a>, list: &List<'a>, part: VisiblePart) {
    let tenant = list.scope.tenant.as_str();
    let filter = list.filter;
    let at = list.at;
    statement.push(&whole_entries_of_memory(), []);
    statement.push("FROM ", []);
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
    if let Some((typology, trust)) = list.standing {
        statement.push(&entry::standing_condition(typology, trust), []);
    }
    if let Some(after) = list.after {
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
        [Param::Number(list.limit.into())],
    );
}

/// Whether no entry can match: no tag contains a NUL, and PostgreSQL would refuse such a parameter.
fn matches_nothing(filter: &Filter) -> bool {
    filter.tags.iter().any(|tag| tag.contains('\0'))
}
