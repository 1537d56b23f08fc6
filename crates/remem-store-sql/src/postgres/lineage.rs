//! Entries that replace others: retire, forget, revive; the sources of entries; signatures. Owns
//! the tables `lineage`, `entry_subject` and `signature`.

use super::apply::advance_revision;
use super::gate::{Gate, Identity, Role, SqlCall, sql_call};
use super::load::GroupState;
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, get, get_u64, read_entry as entry_of};
use super::save::GroupWrites;
use super::{entry, tie};
use crate::stored::content_hash;
use remem_core::sabotage;
use remem_core::{
    Batch, Entry, EntryId, MemoryRef, RetireReason, Revision, Scope, Subject, TenantId, Timestamp,
};
use remem_store::{
    ChangeOutcome, EntryState, Lineage, RelatedEntry, RowCursor, StoreError, StoredSignature,
    SubjectTrace, TracedEntry,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use tokio_postgres::Row;

type EntryKeyRef<'a> = (&'a MemoryRef, &'a EntryId);

/// Removes an entry in favour of another one of the same memory, `by`.
pub(super) fn retire(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    (reason, by): (RetireReason, &EntryId),
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let successor_key = (memory_ref.clone(), by.clone());
    let live = |entry_key: &(MemoryRef, EntryId)| {
        let entry = working.entries.get(entry_key)?;
        let is_live =
            entry.rev_to.is_none() && entry.expires_at.is_none_or(|end| end > batch.at().0);
        is_live.then_some((entry.scope_id, entry.row_id, entry.support))
    };
    let (Some((scope, row, support)), Some((_, successor_row, _))) =
        (live(&entry_key), live(&successor_key))
    else {
        return ChangeOutcome::NoChange;
    };
    if row == successor_row {
        return ChangeOutcome::NoChange;
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    writes.delete_signature(scope, row);
    sabotage!(
        "postgres-records-do-not-follow",
        tie::move_records(working, writes, (scope, row), reason, successor_row)
    );
    let at = working.clock.at.0;
    let mut held = false;
    if let Some(retired) = working.entries.get_mut(&entry_key) {
        held = retired.linked && !reason.keeps_text();
        retired.mark_removed(
            batch,
            revision,
            at,
            if held { "held" } else { reason.as_str() },
        );
        (retired.replaced_by, retired.replacement_erased) = (Some(successor_row), false);
        writes.state(retired);
    }
    if let Some(successor) = working.entries.get_mut(&successor_key) {
        successor.stands_for_others |= reason.keeps_text();
        if reason == RetireReason::Merged {
            successor.support += support;
            writes.state(successor);
            writes.link((scope, successor_row), (scope, row));
        }
    }
    if sabotage!(
        "postgres-merged-text-goes-at-once",
        !held && !reason.keeps_text(),
        true
    ) {
        if working.snapshots.values().all(|held| *held >= revision) {
            entry::erase(batch, working, writes, &entry_key, false);
        } else {
            working.first_ended = Some(
                working
                    .first_ended
                    .map_or(revision, |first| first.min(revision)),
            );
        }
    }
    ChangeOutcome::Removed
}

/// Erases an entry for a forgotten subject, with its subjects, even if a snapshot shows it.
pub(super) fn forget(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let Some(entry) = working.entries.get(&entry_key) else {
        return ChangeOutcome::NoChange;
    };
    let scope = entry.scope_id;
    let row = entry.row_id;
    sabotage!(
        "postgres-forgetting-leaves-subjects",
        writes.lineage().delete_subjects(scope, row)
    );
    if entry.erased {
        return ChangeOutcome::NoChange;
    }
    let revision = advance_revision(batch, working, before).0.cast_signed();
    let at = working.clock.at.0;
    let Some(entry) = working.entries.get_mut(&entry_key) else {
        return ChangeOutcome::NoChange;
    };
    // Deleting this entry was meant for the texts that were merged into it as well; they do not
    // come back because this entry is now forgotten, too.
    let spare_merged = matches!(
        entry.reason.as_deref(),
        None | Some("merged" | "superseded" | "invalidated" | "held")
    );
    (entry.rev_to, entry.ended_at) = (entry.rev_to.or(Some(revision)), entry.ended_at.or(Some(at)));
    entry.reason = Some("forgotten".to_owned());
    writes.state(entry);
    let spared = sabotage!(
        "postgres-what-was-deleted-comes-back-by-forgetting",
        spare_merged,
        true
    );
    if sabotage!(
        "postgres-forgetting-waits-for-a-snapshot",
        true,
        working.snapshots.is_empty()
    ) {
        entry::erase(batch, working, writes, &entry_key, spared);
    }
    ChangeOutcome::Removed
}

/// Marks the texts that this row replaced as deleted, since its own text is gone and they are not
/// needed any more; the purge pass erases them at once. With `spare_merged` the entries that were
/// merged into it are left: the caller that forgets an entry revives each of them or forgets it,
/// too.
pub(super) fn delete_replaced(
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (scope, row): (i64, i64),
    spare_merged: bool,
) {
    writes.next_expiry = 0;
    writes.lineage().delete_replaced(scope, row, spare_merged);
    // The entries that the group has loaded must show the change as well.
    for entry in working.entries.values_mut().filter(|entry| {
        entry.scope_id == scope && entry.replaced_by == Some(row) && !entry.erased && !entry.linked
    }) {
        let is_replaced = matches!(
            (entry.reason.as_deref(), spare_merged),
            (Some("superseded"), _) | (Some("merged"), false)
        );
        if sabotage!(
            "postgres-a-group-does-not-see-whom-it-let-go",
            is_replaced,
            false
        ) {
            entry.reason = Some("deleted".to_owned());
            writes.state(entry);
        }
    }
}

/// Makes a merged entry current again, after the entry that replaced it was erased. A run that
/// began before the merge still sees it as it did; if there is no such run, the entry counts as new
/// from now on, so that runs that began after the merge do not see it come back.
pub(super) fn revive(
    batch: &Batch,
    working: &mut GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    before: Revision,
) -> ChangeOutcome {
    let entry_key = (memory_ref.clone(), id.clone());
    let Some(entry) = working.entries.get(&entry_key) else {
        return ChangeOutcome::NoChange;
    };
    let is_erased =
        |by: i64| entry.replacement_erased || working.erased_rows.contains(&(entry.scope_id, by));
    let may_revive = sabotage!(
        "postgres-what-was-superseded-comes-back",
        entry.reason.as_deref() == Some("merged")
            && !entry.erased
            && sabotage!(
                "postgres-an-entry-comes-back-beside-the-one-that-stands-for-it",
                entry.replaced_by.is_some_and(is_erased),
                true
            ),
        entry.reason.as_deref() == Some("superseded")
            || entry.reason.as_deref() == Some("merged")
                && !entry.erased
                && entry.replaced_by.is_some_and(is_erased)
    );
    let (Some(end), true) = (entry.rev_to, may_revive) else {
        return ChangeOutcome::NoChange;
    };
    let is_in_snapshot = working.snapshots.values().any(|held| *held < end);
    let revision = advance_revision(batch, working, before).0.cast_signed();
    if let Some(entry) = working.entries.get_mut(&entry_key) {
        entry.rev_from = if is_in_snapshot {
            entry.rev_from
        } else {
            revision
        };
        (
            entry.rev_to,
            entry.reason,
            entry.replaced_by,
            entry.removed_by_run,
            entry.ended_at,
        ) = (None, None, None, None, None);
        writes.state(entry);
        writes.next_expiry = writes.next_expiry.min(entry.expires_at.unwrap_or(i64::MAX));
    }
    ChangeOutcome::Done
}

/// Stores the signature that consolidation computed for an entry.
pub(super) fn sign(
    working: &GroupState,
    writes: &mut GroupWrites<'_>,
    (memory_ref, id): EntryKeyRef<'_>,
    pass: u64,
    signature: &[u8],
) -> ChangeOutcome {
    let found = working
        .entries
        .get(&(memory_ref.clone(), id.clone()))
        .filter(|entry| entry.rev_to.is_none());
    let Some(entry) = found else {
        return ChangeOutcome::NoChange;
    };
    writes
        .lineage()
        .sign(entry.scope_id, entry.row_id, pass, signature);
    ChangeOutcome::Done
}

/// The rows that a group writes to the tables of this file.
#[derive(Default)]
pub(super) struct LineageWrites {
    links: HashSet<(i64, i64, i64, i64)>,
    link_columns: [Vec<i64>; 4],
    subjects: (Vec<Vec<u8>>, Vec<i64>, Vec<i64>),
    signatures: HashMap<(i64, i64), (i64, Vec<u8>)>,
    deleted_signatures: (Vec<i64>, Vec<i64>),
    deleted_subjects: (Vec<i64>, Vec<i64>),
    /// The signatures as columns, as `unnest` takes them.
    signature_columns: (Vec<i64>, Vec<i64>, Vec<i64>, Vec<Vec<u8>>),
    /// Rows whose text is gone, and whether the entries that were merged into them are spared.
    replaced_by_erased: (Vec<i64>, Vec<i64>, Vec<bool>),
}

impl LineageWrites {
    pub fn link(&mut self, row: (i64, i64), source: (i64, i64)) {
        if self.links.insert((row.0, row.1, source.0, source.1)) {
            for (column, value) in self
                .link_columns
                .iter_mut()
                .zip([row.0, row.1, source.0, source.1])
            {
                column.push(value);
            }
        }
    }

    pub fn subject(&mut self, scope: i64, row: i64, subject: &Subject) {
        self.subjects.0.push(subject.bytes().to_vec());
        self.subjects.1.push(scope);
        self.subjects.2.push(row);
    }

    fn delete_subjects(&mut self, scope: i64, row: i64) {
        self.deleted_subjects.0.push(scope);
        self.deleted_subjects.1.push(row);
    }

    fn sign(&mut self, scope: i64, row: i64, pass: u64, signature: &[u8]) {
        self.signatures
            .insert((scope, row), (pass.cast_signed(), signature.to_vec()));
    }

    pub fn delete_signature(&mut self, scope: i64, row: i64) {
        self.signatures.remove(&(scope, row));
        self.deleted_signatures.0.push(scope);
        self.deleted_signatures.1.push(row);
    }

    fn delete_replaced(&mut self, scope: i64, row: i64, spare_merged: bool) {
        self.replaced_by_erased.0.push(scope);
        self.replaced_by_erased.1.push(row);
        self.replaced_by_erased.2.push(spare_merged);
    }

    /// Turns the maps into columns; afterwards only `statements` may be used.
    pub fn build_columns(&mut self) {
        for ((scope, row), (pass, signature)) in std::mem::take(&mut self.signatures) {
            self.signature_columns.0.push(scope);
            self.signature_columns.1.push(row);
            self.signature_columns.2.push(pass);
            self.signature_columns.3.push(signature);
        }
    }

    /// The statements, to be run after those that insert, remove and erase entries.
    pub fn statements<'a>(&'a self, t: &'a &'a str, add: &mut impl FnMut(bool, SqlCall<'a>)) {
        let [a, b, c, d] = &self.link_columns;
        add(!a.is_empty(), sql_call(LINK, &[t, a, b, c, d]));
        let (subject, scope, row) = &self.subjects;
        add(
            !row.is_empty(),
            sql_call(SUBJECTS, &[t, subject, scope, row]),
        );
        add(
            !self.deleted_subjects.0.is_empty(),
            sql_call(
                DELETE_SUBJECTS,
                &[t, &self.deleted_subjects.0, &self.deleted_subjects.1],
            ),
        );
        add(
            !self.deleted_signatures.0.is_empty(),
            sql_call(
                DELETE_SIGNATURES,
                &[t, &self.deleted_signatures.0, &self.deleted_signatures.1],
            ),
        );
        let (scope, row, pass, signature) = &self.signature_columns;
        add(
            !row.is_empty(),
            sql_call(SIGN, &[t, scope, row, pass, signature]),
        );
        let (scope, row, spare) = &self.replaced_by_erased;
        add(
            sabotage!("postgres-nobody-is-let-go", !row.is_empty(), false),
            sql_call(DELETE_REPLACED, &[t, scope, row, spare]),
        );
    }
}

const LINK: &str = "INSERT INTO remem.lineage (tenant_id, scope_id, row_id, source_scope, source_row)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) ON CONFLICT DO NOTHING";
const SUBJECTS: &str = "INSERT INTO remem.entry_subject (tenant_id, subject, scope_id, row_id)
     SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[])";
const DELETE_SUBJECTS: &str = "DELETE FROM remem.entry_subject g USING unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)
     WHERE g.tenant_id = $1 AND g.scope_id = o.scope_id AND g.row_id = o.row_id";
const SIGN: &str = "INSERT INTO remem.signature (tenant_id, scope_id, row_id, pass, signature)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])
     ON CONFLICT (tenant_id, scope_id, row_id) DO UPDATE SET pass = excluded.pass, signature = excluded.signature";
const DELETE_SIGNATURES: &str =
    "DELETE FROM remem.signature g USING unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)
     WHERE g.tenant_id = $1 AND g.scope_id = o.scope_id AND g.row_id = o.row_id";
const DELETE_REPLACED: &str = "UPDATE remem.entry e SET removed_reason = 'deleted'
     FROM unnest($2::bigint[], $3::bigint[], $4::bool[]) AS o (scope_id, row_id, spare_merged)
     WHERE e.tenant_id = $1 AND e.scope_id = o.scope_id AND e.replaced_by = o.row_id AND e.replaced_by IS NOT NULL AND e.erased_at IS NULL
       AND (e.removed_reason = 'superseded' OR (e.removed_reason = 'merged' AND NOT o.spare_merged))
       AND NOT EXISTS (SELECT 1 FROM remem.action_link l WHERE l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id)";

/// SQL condition: the entries that consolidation may read. (Entries with an expiry are left to
/// it; entries of a slot or with a validity window are replaced by the next answer.)
const ELIGIBLE: &str = "e.rev_to IS NULL AND e.expires_at IS NULL AND e.tier = 'persistent' AND e.slot IS NULL AND e.valid_at IS NULL
  AND e.invalid_at IS NULL";
const SCOPE: &str = "(SELECT scope_id FROM remem.scope WHERE tenant_id = $1 AND memory_ref = $2)";
const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

fn parse_name(memory_ref: &str, id: &str) -> Result<(MemoryRef, EntryId), StoreError> {
    MemoryRef::parse(memory_ref)
        .zip(EntryId::parse(id))
        .ok_or(MALFORMED)
}

fn parse_state(reason: Option<&str>) -> Result<EntryState, StoreError> {
    EntryState::from_stored(reason).ok_or(StoreError::Damaged(
        "an entry ended for a reason that nobody knows",
    ))
}

impl Gate {
    pub async fn unsigned(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, e.scope_id, e.row_id FROM remem.entry e
             WHERE e.tenant_id = $1 AND e.scope_id = {SCOPE} AND e.row_id > $3 AND {ELIGIBLE} AND NOT EXISTS (SELECT 1 FROM remem.signature g
               WHERE g.tenant_id = $1 AND g.scope_id = e.scope_id AND g.row_id = e.row_id) ORDER BY e.row_id LIMIT $4"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let after = after.map_or(0, |row| row.1);
        let limit = i64::from(limit);
        let statement = sql_call(&sql, &[&t, &m, &after, &limit]);
        let rows = self
            .read_in_order(Role::Worker, Identity::of_scope(scope), statement)
            .await?;
        rows.iter().map(|row| read_entry(scope, row)).collect()
    }

    /// Looks rows up one by one: by the statistics of an average memory, a scan of the whole memory
    /// would look cheaper.
    pub async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, e.scope_id, e.row_id FROM unnest($3::bigint[]) AS w (row_id)
             CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = {SCOPE} AND e.row_id = w.row_id OFFSET 0) e
             WHERE {ELIGIBLE}"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let numbers: Vec<i64> = rows
            .iter()
            .map(|row| row.1)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let found = self
            .read(
                Role::Worker,
                Identity::of_scope(scope),
                &sql,
                &[&t, &m, &numbers],
            )
            .await?;
        let mut found = found
            .iter()
            .map(|row| read_entry(scope, row))
            .collect::<Result<Vec<_>, StoreError>>()?;
        found.retain(|(row, _)| rows.contains(row)); // row numbers repeat in other memories
        found.sort_unstable_by_key(|(row, _)| *row);
        Ok(found)
    }

    /// The cursor bounds both tables, so that PostgreSQL can choose which one to scan.
    pub async fn signatures(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<StoredSignature>, StoreError> {
        let sql = format!(
            "SELECT g.scope_id, g.row_id, e.id, e.created_at, e.typology, g.pass, g.signature, e.trust FROM remem.signature g
             JOIN remem.entry e ON e.tenant_id = g.tenant_id AND e.scope_id = g.scope_id AND e.row_id = g.row_id
             WHERE g.tenant_id = $1 AND g.scope_id = {SCOPE} AND g.row_id > $3 AND e.row_id > $3 AND {ELIGIBLE} ORDER BY g.row_id LIMIT $4"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let after = after.map_or(0, |row| row.1);
        let limit = i64::from(limit);
        let statement = sql_call(&sql, &[&t, &m, &after, &limit]);
        let rows = self
            .read_in_order(Role::Worker, Identity::of_scope(scope), statement)
            .await?;
        rows.iter().map(read_signature).collect()
    }

    pub async fn lineage(
        &self,
        scope: &Scope,
        id: &EntryId,
    ) -> Result<Option<Lineage>, StoreError> {
        let sql = format!(
            "SELECT e.scope_id, e.row_id, e.removed_reason, e.support, (SELECT r.id FROM remem.entry r WHERE r.tenant_id = $1
               AND r.scope_id = e.scope_id AND r.row_id = e.replaced_by) FROM remem.entry e
             WHERE e.tenant_id = $1 AND e.scope_id = {SCOPE} AND e.id_hash = $3 AND e.id = $4"
        );
        let t = scope.tenant.as_str();
        let m = scope.memory_ref.as_str();
        let hash = content_hash(id.as_str().as_bytes()).to_vec();
        let rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                &sql,
                &[&t, &m, &hash, &id.as_str()],
            )
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let row_key: (i64, i64) = (get(row, 0)?, get(row, 1)?);
        let by: Option<&str> = get(row, 4)?;
        Ok(Some(Lineage {
            state: parse_state(get(row, 2)?)?,
            replaced_by: by
                .map(|id| EntryId::parse(id).ok_or(MALFORMED))
                .transpose()?,
            support: get_u64(row, 3)?,
            sources: self
                .relatives(
                    scope,
                    ["scope_id", "row_id", "source_scope", "source_row"],
                    row_key,
                )
                .await?,
            derivatives: self
                .relatives(
                    scope,
                    ["source_scope", "source_row", "scope_id", "row_id"],
                    row_key,
                )
                .await?,
        }))
    }

    /// The entries at the other end of `lineage` from `place`; the columns of this end come first.
    async fn relatives(
        &self,
        scope: &Scope,
        [s, r, other_s, other_r]: [&str; 4],
        row_key: (i64, i64),
    ) -> Result<Vec<RelatedEntry>, StoreError> {
        let sql = format!(
            "SELECT s.memory_ref, e.id, e.removed_reason FROM remem.lineage l
             JOIN remem.entry e ON e.tenant_id = l.tenant_id AND e.scope_id = l.{other_s} AND e.row_id = l.{other_r}
             JOIN remem.scope s ON s.tenant_id = e.tenant_id AND s.scope_id = e.scope_id
             WHERE l.tenant_id = $1 AND l.{s} = $2 AND l.{r} = $3 ORDER BY e.created_at, e.id, s.memory_ref"
        );
        let rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                &sql,
                &[&scope.tenant.as_str(), &row_key.0, &row_key.1],
            )
            .await?;
        let relative = |row: &Row| {
            let (memory_ref, id) = parse_name(get(row, 0)?, get(row, 1)?)?;
            Ok(RelatedEntry {
                memory_ref,
                id,
                state: parse_state(get(row, 2)?)?,
            })
        };
        rows.iter().map(relative).collect()
    }

    pub async fn trace(
        &self,
        tenant: &TenantId,
        subject: &Subject,
    ) -> Result<SubjectTrace, StoreError> {
        let entries = format!("{ROWS_OF_SUBJECT} {TRACED}");
        let survivors = format!("{ROWS_OF_SUBJECT} {MERGED_SURVIVORS}");
        let t = tenant.as_str();
        let digest = subject.bytes().as_slice();
        let entries = self
            .read(
                Role::App,
                Identity::as_host(tenant),
                &entries,
                &[&t, &digest],
            )
            .await?;
        let survivors = self
            .read(
                Role::App,
                Identity::as_host(tenant),
                &survivors,
                &[&t, &digest],
            )
            .await?;
        let traced = |row: &Row| {
            let (memory_ref, id) = parse_name(get(row, 0)?, get(row, 1)?)?;
            let hash: Option<&[u8]> = get(row, 3)?;
            Ok(TracedEntry {
                memory_ref,
                id,
                direct: get(row, 4)?,
                erased: get(row, 2)?,
                content_hash: hash.and_then(|bytes| bytes.try_into().ok()),
            })
        };
        let merged = |row: &Row| {
            let (memory_ref, id) = parse_name(get(row, 0)?, get(row, 1)?)?;
            Ok((
                memory_ref,
                id,
                EntryId::parse(get(row, 2)?).ok_or(MALFORMED)?,
            ))
        };
        Ok(SubjectTrace {
            entries: entries
                .iter()
                .map(traced)
                .collect::<Result<_, StoreError>>()?,
            merged_survivors: survivors
                .iter()
                .map(merged)
                .collect::<Result<_, StoreError>>()?,
        })
    }
}

fn read_entry(scope: &Scope, row: &Row) -> Result<(RowCursor, Entry), StoreError> {
    Ok((
        RowCursor(get(row, ENTRY_WIDTH)?, get(row, ENTRY_WIDTH + 1)?),
        entry_of(row, &scope.memory_ref)?,
    ))
}

fn read_signature(row: &Row) -> Result<StoredSignature, StoreError> {
    let typology: &str = get(row, 4)?;
    Ok(StoredSignature {
        row: RowCursor(get(row, 0)?, get(row, 1)?),
        id: EntryId::parse(get(row, 2)?).ok_or(MALFORMED)?,
        created_at: Timestamp(get(row, 3)?),
        typology: typology.parse().map_err(|_| MALFORMED)?,
        pass: get_u64(row, 5)?,
        signature: get(row, 6)?,
        trust: get::<&str>(row, 7)?.parse().map_err(|_| MALFORMED)?,
    })
}

/// All rows that carry a subject: those that name it and, step by step, those made from them.
/// `UNION` ends cycles: an entry that was made from another may be merged into it later. Each step
/// looks its rows up one by one, here and below: the planner does not know how few they are, and
/// would read all that the tenant has.
const ROWS_OF_SUBJECT: &str = "WITH RECURSIVE carrying (scope_id, row_id) AS (
    SELECT scope_id, row_id FROM remem.entry_subject WHERE tenant_id = $1 AND subject = $2
    UNION SELECT l.scope_id, l.row_id FROM carrying c CROSS JOIN LATERAL (SELECT * FROM remem.lineage l
      WHERE l.tenant_id = $1 AND l.source_scope = c.scope_id AND l.source_row = c.row_id OFFSET 0) l)";
const TRACED: &str = "SELECT s.memory_ref, e.id, e.erased_at IS NOT NULL, e.content_hash, EXISTS (SELECT 1 FROM remem.entry_subject g
      WHERE g.tenant_id = $1 AND g.subject = $2 AND g.scope_id = c.scope_id AND g.row_id = c.row_id) FROM carrying c
    CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = c.scope_id AND e.row_id = c.row_id OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM remem.scope s WHERE s.tenant_id = $1 AND s.scope_id = c.scope_id OFFSET 0) s
    ORDER BY s.memory_ref, e.rev_from, e.id";
const MERGED_SURVIVORS: &str = "SELECT s.memory_ref, m.id, e.id FROM carrying c
    CROSS JOIN LATERAL (SELECT * FROM remem.entry m WHERE m.tenant_id = $1 AND m.scope_id = c.scope_id AND m.replaced_by = c.row_id
      AND m.replaced_by IS NOT NULL AND m.erased_at IS NULL OFFSET 0) m
    CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE e.tenant_id = $1 AND e.scope_id = c.scope_id AND e.row_id = c.row_id OFFSET 0) e
    CROSS JOIN LATERAL (SELECT * FROM remem.scope s WHERE s.tenant_id = $1 AND s.scope_id = c.scope_id OFFSET 0) s
    WHERE m.removed_reason = 'merged' AND (m.scope_id, m.row_id) NOT IN (SELECT scope_id, row_id FROM carrying)
    ORDER BY s.memory_ref, m.rev_from, m.id";
