//! Validity windows, sessions, actions, rules and retention: the changes, and the queries about
//! them. Owns the tables `action_link` and `rule`.

use super::apply::advance_revision;
use super::gate::{Gate, Identity, Role, SqlCall, sql_call};
use super::load::{GroupState, LoadedEntry};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, get, get_u64, read_entry as entry_of};
use super::save::GroupWrites;
use super::{entry, tie};
use remem_core::sabotage;
use remem_core::{
    ActionText, Actor, Batch, ClosingReason, EntryId, Evidence, MemoryRef, PrincipalId,
    RetireReason, Revision, RuleId, RuleText, Scope, TenantId, Timestamp, WorldId,
};
use remem_store::{
    ActionLink, ChangeOutcome, EndedStatement, EntryState, RetentionCount, RetentionState,
    RowCursor, SlotAnswer, StoreError, WorldRule,
};
use std::collections::{HashMap, HashSet};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

type EntryKeyRef<'a> = (&'a MemoryRef, &'a EntryId);

fn is_live(entry: &LoadedEntry, batch: &Batch) -> bool {
    entry.rev_to.is_none() && entry.expires_at.is_none_or(|end| end > batch.at().0)
}

/// Closes an entry because its statement is over or untrue. Its successor may be put later in the
/// batch: its row is then the next of its memory, unless the group has loaded it already.
pub(super) fn close(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    (closing, by): (ClosingReason, Option<&EntryId>),
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    if !working
        .entries
        .get(&entry_key)
        .is_some_and(|entry| is_live(entry, batch))
    {
        return sabotage!(
            "postgres-a-late-answer-takes-no-time-from-what-is-over",
            close_earlier(batch, working, writes, &entry_key, closing, before),
            ChangeOutcome::NoChange
        );
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    let at = working.clock.at;
    if let Some(successor_entry) =
        by.and_then(|by| working.entries.get_mut(&(memory_ref.clone(), by.clone())))
    {
        successor_entry.stands_for_others = true;
    }
    let by = by.and_then(|by| successor_row(batch, working, memory_ref, by));
    let Some(entry) = working.entries.get_mut(&entry_key) else {
        return ChangeOutcome::NoChange;
    };
    let row = (entry.scope_id, entry.row_id);
    if let ClosingReason::InvalidFrom(from) = closing {
        set_invalid_at(entry, from);
        if from > at {
            writes.state(entry); // it holds until then
            return ChangeOutcome::Done;
        }
    }
    entry.mark_removed(batch, revision, at.0, closing.as_str());
    entry.replaced_by = by;
    writes.state(entry);
    writes.delete_signature(row.0, row.1);
    tie::move_records(
        working,
        writes,
        row,
        RetireReason::Superseded,
        by.unwrap_or(0),
    );
    ChangeOutcome::Removed
}

/// Moves the end of a closed statement to an earlier time: a late answer may reveal that it was
/// over before that.
fn close_earlier(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    entry_key: &(MemoryRef, EntryId),
    closing: ClosingReason,
    before: Revision,
) -> ChangeOutcome {
    let ClosingReason::InvalidFrom(from) = closing else {
        return ChangeOutcome::NoChange;
    };
    let over =
        |entry: &LoadedEntry| !entry.erased && entry.reason.as_deref() == Some("invalidated");
    if !working
        .entries
        .get(entry_key)
        .is_some_and(|entry| over(entry) && entry.invalid_at.is_some_and(|end| end > from.0))
    {
        return ChangeOutcome::NoChange;
    }
    advance_revision(batch, working, before);
    if let Some(entry) = working.entries.get_mut(entry_key) {
        set_invalid_at(entry, from);
        writes.state(entry);
    }
    ChangeOutcome::Done
}

/// Sets the time from which a statement is untrue.
fn set_invalid_at(entry: &mut LoadedEntry, from: Timestamp) {
    entry.valid_at = entry.valid_at.or(Some(entry.created_at.min(from.0)));
    entry.invalid_at = Some(from.0);
}

/// The row that an entry of the memory has, or will have when this batch puts it.
fn successor_row(
    batch: &Batch,
    working: &GroupState,
    memory_ref: &MemoryRef,
    by: &EntryId,
) -> Option<i64> {
    if let Some(entry) = working.entries.get(&(memory_ref.clone(), by.clone())) {
        return Some(entry.row_id);
    }
    let next = working.scopes.get(memory_ref)?.next_row;
    // The order of puts decides the row numbers, so the successor's can be computed.
    let puts = batch.changes().iter().filter_map(|change| match change {
        remem_core::Change::Put { id, admitted, .. }
            if &admitted.scope().memory_ref == memory_ref =>
        {
            Some(id)
        }
        _ => None,
    });
    // The entries that this batch has put already are loaded.
    let coming = puts.filter(|id| {
        !working
            .entries
            .contains_key(&(memory_ref.clone(), (*id).clone()))
    });
    coming
        .zip(next..)
        .find(|(id, _)| *id == by)
        .map(|(_, row)| row)
}

/// Removes an entry of a session that has ended, unless an action rests on it.
pub(super) fn end(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let ends = |entry: &LoadedEntry| entry.rev_to.is_none() && !entry.persistent && !entry.linked;
    if !working.entries.get(&entry_key).is_some_and(ends) {
        return ChangeOutcome::NoChange;
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    let at = working.clock.at.0;
    if let Some(entry) = working.entries.get_mut(&entry_key) {
        entry.mark_removed(batch, revision, at, "closed");
        writes.state(entry);
        let row = (entry.scope_id, entry.row_id);
        tie::delete_records_of(working, writes, row);
    }
    if working.snapshots.values().all(|held| *held >= revision) {
        entry::erase(batch, working, writes, &entry_key, false);
    } else {
        working.first_ended = Some(
            working
                .first_ended
                .map_or(revision, |first| first.min(revision)),
        );
    }
    ChangeOutcome::Removed
}

/// Erases a statement whose validity ended before `faded`, unless an action rests on it. A
/// statement that was already over when it was written is still part of its memory, for queries
/// about the past; it ends with its text.
pub(super) fn strip(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    faded: Timestamp,
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let oldest = working
        .snapshots
        .values()
        .min()
        .copied()
        .unwrap_or(i64::MAX);
    let is_erasable = |entry: &LoadedEntry| match entry.rev_to {
        None => true,
        Some(end) => entry.reason.as_deref() == Some("invalidated") && end <= oldest,
    };
    let is_due = |entry: &LoadedEntry| {
        !entry.erased
            && !entry.linked
            && entry.invalid_at.is_some_and(|end| end < faded.0)
            && is_erasable(entry)
    };
    if !working.entries.get(&entry_key).is_some_and(is_due) {
        return ChangeOutcome::NoChange;
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    let at = working.clock.at.0;
    if let Some(entry) = working.entries.get_mut(&entry_key) {
        if entry.rev_to.is_none() {
            entry.mark_removed(batch, revision, at, "invalidated");
        }
        writes.state(entry);
    }
    entry::erase(batch, working, writes, &entry_key, false);
    ChangeOutcome::Removed
}

/// Replaces the evidence of an entry.
pub(super) fn strengthen(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    evidence: &Evidence,
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let evidence = evidence.to_text();
    let changes = |entry: &LoadedEntry| is_live(entry, batch) && entry.evidence != evidence;
    if !working.entries.get(&entry_key).is_some_and(changes) {
        return ChangeOutcome::NoChange;
    }
    advance_revision(batch, working, before);
    if let Some(entry) = working.entries.get_mut(&entry_key) {
        entry.evidence = evidence;
        writes.state(entry);
    }
    ChangeOutcome::Done
}

/// Records that an action rests on an entry.
pub(super) fn link(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    text: &ActionText,
    before: Revision,
) -> ChangeOutcome {
    let Some(entry) = working
        .entries
        .get(&(memory_ref.clone(), id.clone()))
        .filter(|entry| !entry.erased)
    else {
        return ChangeOutcome::NoChange;
    };
    let key = (
        entry.scope_id,
        entry.row_id,
        text.action.clone(),
        text.reference.clone(),
    );
    if working.links.contains(&key) || !writes.workshop.linked.insert(key.clone()) {
        return ChangeOutcome::NoChange;
    }
    advance_revision(batch, working, before);
    let at = working.clock.at.max(batch.at()).0;
    if let Some(entry) = working.entries.get_mut(&(memory_ref.clone(), id.clone())) {
        entry.linked = true;
    }
    writes
        .workshop
        .links
        .push((key, at, batch.principal().map(|p| p.as_str().to_owned())));
    ChangeOutcome::Done
}

/// Writes a rule, or deletes it.
pub(super) fn rule(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (world, id): (&WorldId, &RuleId),
    body: Option<&RuleText>,
    before: Revision,
) -> ChangeOutcome {
    let key = (world.as_str().to_owned(), id.as_str().to_owned());
    let exists = working.rules.contains(&key);
    if body.is_none() && !exists {
        return ChangeOutcome::NoChange;
    }
    advance_revision(batch, working, before);
    let at = working.clock.at.0;
    if body.is_some() {
        working.rules.insert(key.clone())
    } else {
        working.rules.remove(&key)
    };
    writes
        .workshop
        .rules
        .insert(key, body.map(|body| (body.as_str().to_owned(), at)));
    if body.is_some() {
        ChangeOutcome::Done
    } else {
        ChangeOutcome::Removed
    }
}

type LinkKey = (i64, i64, String, String);

type LinkColumns = (
    Vec<i64>,
    Vec<i64>,
    Vec<String>,
    Vec<String>,
    Vec<i64>,
    Vec<Option<String>>,
);

/// The rows that a group writes to the tables of this file.
#[derive(Default)]
pub(super) struct WorkshopWrites {
    linked: HashSet<LinkKey>,
    links: Vec<(LinkKey, i64, Option<String>)>,
    rules: HashMap<(String, String), Option<(String, i64)>>,
    link_columns: LinkColumns,
    rule_columns: (Vec<String>, Vec<String>, Vec<String>, Vec<i64>),
    deleted_rules: (Vec<String>, Vec<String>),
    /// Changes of stored texts of callers.
    pub caller_texts: super::caller_texts::CallerTextWrites,
    /// Whether the group is one batch.
    pub is_single_batch: bool,
}

impl WorkshopWrites {
    /// Turns the maps into columns; afterwards only the statements may be used.
    pub fn build_columns(&mut self) {
        let columns = &mut self.link_columns;
        for ((scope, row, action, reference), at, by) in std::mem::take(&mut self.links) {
            columns.0.push(scope);
            columns.1.push(row);
            columns.2.push(action);
            columns.3.push(reference);
            columns.4.push(at);
            columns.5.push(by);
        }
        for ((world, id), rule) in std::mem::take(&mut self.rules) {
            let Some((body, at)) = rule else {
                self.deleted_rules.0.push(world);
                self.deleted_rules.1.push(id);
                continue;
            };
            self.rule_columns.0.push(world);
            self.rule_columns.1.push(id);
            self.rule_columns.2.push(body);
            self.rule_columns.3.push(at);
        }
    }

    /// Rules are written before the entries of the group, and deleted after them unless the group
    /// is one batch: no batch may restate a rule that an earlier batch made, or one that only a
    /// later batch deletes. A batch that is refused only because of this order is tried again
    /// alone.
    pub fn rule_statements<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        let r = &self.rule_columns;
        add(
            !r.0.is_empty(),
            sql_call(RULE, &[t, &r.0, &r.1, &r.2, &r.3]),
        );
        add(
            self.is_single_batch && !self.deleted_rules.0.is_empty(),
            sql_call(
                DELETE_RULES,
                &[t, &self.deleted_rules.0, &self.deleted_rules.1],
            ),
        );
    }

    /// Links are written after the entries that they belong to.
    pub fn link_statements<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        let l = &self.link_columns;
        add(
            !l.0.is_empty(),
            sql_call(LINK, &[t, &l.0, &l.1, &l.2, &l.3, &l.4, &l.5]),
        );
        self.caller_texts.statements(t, add);
        add(
            !self.is_single_batch && !self.deleted_rules.0.is_empty(),
            sql_call(
                DELETE_RULES,
                &[t, &self.deleted_rules.0, &self.deleted_rules.1],
            ),
        );
    }
}

const LINK: &str = "INSERT INTO remem.action_link (tenant_id, scope_id, row_id, action, reference, linked_at, linked_by)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::text[]) ON CONFLICT DO NOTHING";
const RULE: &str =
    "INSERT INTO remem.rule (tenant_id, world, id, body, at) SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[])
     ON CONFLICT (tenant_id, world, id) DO UPDATE SET body = excluded.body, at = excluded.at";
const DELETE_RULES: &str =
    "DELETE FROM remem.rule r USING unnest($2::text[], $3::text[]) AS o (world, id)
     WHERE r.tenant_id = $1 AND r.world = o.world AND r.id = o.id";
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
             JOIN remem.action_link l ON l.tenant_id = e.tenant_id AND l.scope_id = e.scope_id AND l.row_id = e.row_id
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
             JOIN remem.retention r ON r.tenant_id = s.tenant_id AND r.scope_id = s.scope_id
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
             FROM remem.entry e JOIN remem.scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
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
