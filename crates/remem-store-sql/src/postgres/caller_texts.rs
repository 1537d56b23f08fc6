//! Texts of callers that are stored beside entries: rules, and the names and references of actions.
//! Owns how these texts are read for the pass that looks for late secrets, replaced by it, and
//! erased with their entry. May not decide what a text must become.

use super::apply::advance_revision;
use super::gate::{Gate, Identity, Role, SqlCall, sql_call};
use super::load::GroupState;
use super::rows::get;
use super::save::GroupWrites;
use remem_core::{
    ActionText, Batch, EntryId, MemoryRef, Revision, RuleId, RuleText, StoredText, TenantId,
    Timestamp, WorldId,
};
use remem_store::{ChangeOutcome, EntryActions, RowCursor, StoreError, WorldRule};

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

/// The changes that a group makes to stored texts of callers.
#[derive(Default)]
pub(super) struct CallerTextWrites {
    relinks: Relinks,
    blanked: (Vec<i64>, Vec<i64>),
    rewords: Rewords,
}

#[derive(Default)]
struct Relinks {
    scope: Vec<i64>,
    row: Vec<i64>,
    was_action: Vec<String>,
    was_reference: Vec<String>,
    action: Vec<String>,
    reference: Vec<String>,
}

#[derive(Default)]
struct Rewords {
    world: Vec<String>,
    id: Vec<String>,
    was: Vec<String>,
    body: Vec<String>,
    at: Vec<i64>,
}

impl CallerTextWrites {
    /// Blanks the names and references of an entry's actions when its text is erased; that actions
    /// rested on the entry stays recorded.
    pub fn blank_action_texts(&mut self, (scope, row): (i64, i64)) {
        self.blanked.0.push(scope);
        self.blanked.1.push(row);
    }

    /// The statements. Texts are erased last: the group may have linked or replaced them before.
    pub fn statements<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        let l = &self.relinks;
        add(
            !l.row.is_empty(),
            sql_call(
                RELINK,
                &[
                    t,
                    &l.scope,
                    &l.row,
                    &l.was_action,
                    &l.was_reference,
                    &l.action,
                    &l.reference,
                ],
            ),
        );
        let u = &self.blanked;
        add(!u.1.is_empty(), sql_call(BLANK_ACTIONS, &[t, &u.0, &u.1]));
        let r = &self.rewords;
        add(
            !r.id.is_empty(),
            sql_call(REWORD, &[t, &r.world, &r.id, &r.was, &r.body, &r.at]),
        );
    }
}

const RELINK: &str =
    "UPDATE remem.action_link l SET action = o.action, reference = o.reference
     FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
       AS o (scope_id, row_id, was_action, was_reference, action, reference)
     WHERE l.tenant_id = $1 AND l.scope_id = o.scope_id AND l.row_id = o.row_id AND l.action = o.was_action AND l.reference = o.was_reference";
// A number takes the place of a reference, since no two links of an entry may be the same.
const BLANK_ACTIONS: &str = "UPDATE remem.action_link l SET action = '', reference = o.number
     FROM (SELECT k.scope_id, k.row_id, k.action, k.reference,
         row_number() OVER (PARTITION BY k.scope_id, k.row_id ORDER BY k.action, k.reference)::text AS number
       FROM unnest($2::bigint[], $3::bigint[]) AS w (scope_id, row_id)
       JOIN remem.action_link k ON k.tenant_id = $1 AND k.scope_id = w.scope_id AND k.row_id = w.row_id) AS o
     WHERE l.tenant_id = $1 AND l.scope_id = o.scope_id AND l.row_id = o.row_id
       AND l.action = o.action AND l.reference = o.reference AND o.action <> ''";
const REWORD: &str = "UPDATE remem.rule r SET body = o.body, at = o.at
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[]) AS o (world, id, was, body, at)
     WHERE r.tenant_id = $1 AND r.world = o.world AND r.id = o.id AND r.body = o.was";
const ALL_RULES: &str = "SELECT world, id, body, at FROM remem.rule WHERE tenant_id = $1 AND (world, id) > ($2, $3) ORDER BY world, id LIMIT $4";
const LINKED: &str = "SELECT e.scope_id, e.row_id, s.memory_ref, e.id, e.erased_at IS NOT NULL, l.action, l.reference
     FROM (SELECT DISTINCT k.scope_id, k.row_id FROM remem.action_link k
       WHERE k.tenant_id = $1 AND (k.scope_id, k.row_id) > ($2, $3) ORDER BY k.scope_id, k.row_id LIMIT $4) AS w
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.row_id = w.row_id
     JOIN remem.scope s ON s.tenant_id = $1 AND s.scope_id = w.scope_id
     JOIN remem.action_link l ON l.tenant_id = $1 AND l.scope_id = w.scope_id AND l.row_id = w.row_id
     ORDER BY e.scope_id, e.row_id, l.action, l.reference";

/// Replaces the name and reference of an action, unless they changed since they were read.
pub(super) fn relink(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): (&MemoryRef, &EntryId),
    (was, action): (&ActionText, &ActionText),
    before: Revision,
) -> ChangeOutcome {
    let Some(entry) = working.entries.get(&(memory_ref.clone(), id.clone())) else {
        return ChangeOutcome::NoChange;
    };
    let row = (entry.scope_id, entry.row_id);
    let key = (row.0, row.1, was.action.clone(), was.reference.clone());
    if working.erased_rows.contains(&row) || !working.links.contains(&key) {
        return ChangeOutcome::NoChange;
    }
    advance_revision(batch, working, before);
    let columns = &mut writes.workshop.caller_texts.relinks;
    columns.scope.push(row.0);
    columns.row.push(row.1);
    columns.was_action.push(key.2);
    columns.was_reference.push(key.3);
    columns.action.push(action.action.clone());
    columns.reference.push(action.reference.clone());
    ChangeOutcome::Done
}

/// Replaces the text of a rule, unless it changed since it was read.
pub(super) fn reword(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (world, id): (&WorldId, &RuleId),
    (was, body): (&StoredText, &RuleText),
    before: Revision,
) -> ChangeOutcome {
    let key = (world.as_str().to_owned(), id.as_str().to_owned());
    if !working.rules.contains(&key) {
        return ChangeOutcome::NoChange;
    }
    advance_revision(batch, working, before);
    let at = working.clock.at.0;
    let columns = &mut writes.workshop.caller_texts.rewords;
    columns.world.push(key.0);
    columns.id.push(key.1);
    columns.was.push(was.0.clone());
    columns.body.push(body.as_str().to_owned());
    columns.at.push(at);
    ChangeOutcome::Done
}

impl Gate {
    pub async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
        let (world, id) = after.map_or(("", ""), |(world, id)| (world.as_str(), id.as_str()));
        let t = tenant.as_str();
        let limit = i64::from(limit);
        let rows = self
            .read(
                Role::App,
                Identity::tenant(tenant),
                ALL_RULES,
                &[&t, &world, &id, &limit],
            )
            .await?;
        let rule = |row: &tokio_postgres::Row| {
            let rule = WorldRule {
                id: RuleId::parse(get(row, 1)?).ok_or(MALFORMED)?,
                body: get(row, 2)?,
                at: Timestamp(get(row, 3)?),
            };
            Ok((WorldId::parse(get(row, 0)?).ok_or(MALFORMED)?, rule))
        };
        rows.iter().map(rule).collect()
    }

    pub async fn linked(
        &self,
        tenant: &TenantId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<EntryActions>, StoreError> {
        let after = after.unwrap_or(RowCursor(0, 0));
        let t = tenant.as_str();
        let limit = i64::from(limit);
        let rows = self
            .read(
                Role::Worker,
                Identity::as_host(tenant),
                LINKED,
                &[&t, &after.0, &after.1, &limit],
            )
            .await?;
        let mut linked_entries: Vec<EntryActions> = Vec::new();
        for row in &rows {
            let cursor = RowCursor(get(row, 0)?, get(row, 1)?);
            let action = ActionText {
                action: get(row, 5)?,
                reference: get(row, 6)?,
            };
            if let Some(last) = linked_entries.last_mut().filter(|last| last.row == cursor) {
                last.actions.push(action);
                continue;
            }
            linked_entries.push(EntryActions {
                row: cursor,
                memory_ref: MemoryRef::parse(get(row, 2)?).ok_or(MALFORMED)?,
                id: EntryId::parse(get(row, 3)?).ok_or(MALFORMED)?,
                is_erased: get(row, 4)?,
                actions: vec![action],
            });
        }
        Ok(linked_entries)
    }
}
