//! Saves the effects of a group: one statement for each table and kind of change, all in the round
//! trip that commits. Finds rows by their keys alone and decides nothing.

use super::arrays::ArrayCall;
use super::gate::{SqlCall, sql_call};
use super::index::IndexWrites;
use super::near::to_pgvector_text;
use crate::rows::columns::{Column, Value, bytes};
use crate::rows::memory::{
    HeldSnapshot, LINEAGE, LineageRow, ROW, SCOPE, SCOPE_COUNTERS, SCOPE_KEY, SCOPE_TOTALS,
    SIGNATURE, SNAPSHOT, SUBJECT, ScopeRow, StoredSignature, SubjectRow,
};
use crate::rows::record::{self, NamedRecord};
use crate::rows::statement::{Dialect, OnConflict, Statement};
use crate::rows::workshop::{
    LINK_KEY, LINK_MADE, LINK_RENAMED, NamedLink, NamedRule, RULE, RULE_KEY,
};
use crate::rows::{entry, log};
use crate::stored::content_hash;
use remem_core::ledger::{
    Effects, EntryChange, MemoryTotals, NewEvent, RecordKey, RecordRow, RowChange, RowKey,
    TenantClock,
};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

/// The statements that are made from the lists of columns.
struct Statements {
    new_scopes: Statement<ScopeRow>,
    new_entries: Statement<EntryChange>,
    texts: Statement<EntryChange>,
    states: Statement<EntryChange>,
    erasures: Statement<EntryChange>,
    lineage: Statement<LineageRow>,
    subjects: Statement<SubjectRow>,
    forgotten: Statement<RowKey>,
    signatures: Statement<StoredSignature>,
    signatures_deleted: Statement<RowKey>,
    vectors_deleted: Statement<RowKey>,
    links: Statement<NamedLink>,
    links_renamed: Statement<NamedLink>,
    rules: Statement<NamedRule>,
    rules_deleted: Statement<NamedRule>,
    snapshots: Statement<HeldSnapshot>,
    snapshots_deleted: Statement<HeldSnapshot>,
    events: Statement<NewEvent>,
    results: Statement<log::NamedResult>,
    records: Statement<NamedRecord>,
    records_followed: Statement<NamedRecord>,
    records_deleted: Statement<NamedRecord>,
    reviews: Statement<NamedRecord>,
    reviews_deleted: Statement<NamedRecord>,
}

static STATEMENTS: LazyLock<Statements> = LazyLock::new(|| {
    use OnConflict::{Fail, Ignore, Replace};
    let id_hash: Column<EntryChange> = bytes("id_hash", |c| {
        let hash = content_hash(c.after.id.as_str().as_bytes());
        Value::Bytes(Some(Cow::Owned(hash.to_vec())))
    });
    let entry_columns = [&entry::KEY[..], &[id_hash], &entry::COLUMNS].concat();
    let record_columns = [&record::KEY[..], &record::WRITTEN, &record::TIES].concat();
    let followed = [&record::FOLLOWING[..], &record::TIES].concat();
    let pg = Dialect::Postgres;
    Statements {
        new_scopes: pg.insert(
            "scope",
            &[&SCOPE_KEY[..], &SCOPE, &SCOPE_COUNTERS, &SCOPE_TOTALS].concat(),
            &["scope_id"],
            Fail,
        ),
        new_entries: pg.insert("entry", &entry_columns, &["scope_id", "row_id"], Fail),
        texts: pg.update("entry", &entry::KEY, &entry::text_columns(), &[]),
        states: pg.update("entry", &entry::KEY, &entry::state_columns(), &[]),
        erasures: pg.update("entry", &entry::KEY, &entry::erasure_columns(), &[]),
        lineage: pg.insert("lineage", &LINEAGE, &[], Ignore),
        subjects: pg.insert("entry_subject", &SUBJECT, &[], Fail),
        forgotten: pg.delete("entry_subject", &ROW),
        signatures: pg.insert("signature", &SIGNATURE, &["scope_id", "row_id"], Replace),
        signatures_deleted: pg.delete("signature", &ROW),
        vectors_deleted: pg.delete("vector", &ROW),
        links: pg.insert(
            "action_link",
            &[&LINK_KEY[..], &LINK_MADE].concat(),
            &[],
            Ignore,
        ),
        links_renamed: pg.update("action_link", &LINK_KEY, &[], &LINK_RENAMED),
        rules: pg.insert(
            "rule",
            &[&RULE_KEY[..], &RULE].concat(),
            &["world", "id"],
            Replace,
        ),
        rules_deleted: pg.delete("rule", &RULE_KEY),
        snapshots: pg.insert("snapshot", &SNAPSHOT, &[], Fail),
        snapshots_deleted: pg.delete("snapshot", &SNAPSHOT[..1]),
        events: pg.insert("event", &log::EVENT, &[], Fail),
        results: pg.insert("idempotency", &log::RESULT, &[], Fail),
        records: pg.insert("record", &record_columns, &["kind", "key"], Replace),
        records_followed: pg.update("record", &record::KEY, &followed, &[]),
        records_deleted: pg.delete("record", &record::KEY),
        reviews: pg.insert(
            "review",
            &[&record::KEY[..], &record::WRITTEN].concat(),
            &[],
            Fail,
        ),
        reviews_deleted: pg.delete("review", &record::KEY),
    }
});

/// The vectors carry a second form that pgvector compares.
const NEW_VECTORS: &str = "INSERT INTO remem.vector (tenant_id, scope_id, row_id, model, tier, typology, dimensions, bytes, direction)
     SELECT c.tenant_id, n.scope_id, n.row_id, n.model, n.tier, n.typology, length(n.bytes), n.bytes, n.direction::public.halfvec
     FROM remem.tenant_clock c
     CROSS JOIN unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bytea[], $8::text[])
       AS n (scope_id, row_id, model, tier, typology, bytes, direction) WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING";
const COUNT_SCOPES: &str = "UPDATE remem.scope s SET next_row = greatest(s.next_row, n.next_row), documents = s.documents + n.documents, words = s.words + n.words,
       entries = s.entries + n.entries, content_bytes = s.content_bytes + n.content_bytes, expiring = s.expiring + n.expiring,
       with_subject = s.with_subject + n.with_subject
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
       AS n (scope_id, next_row, documents, words, entries, content_bytes, expiring, with_subject)
     WHERE s.tenant_id = $1 AND s.scope_id = n.scope_id";
const SAVE_CLOCK: &str = "UPDATE remem.tenant_clock SET revision = $2, seq = $3, at = $4, chain = $5, scopes = $6 WHERE tenant_id = $1";
const NEXT_EXPIRY: &str = "INSERT INTO remem.upkeep AS u (tenant_id, next_expiry) VALUES ($1, $2)
     ON CONFLICT (tenant_id) DO UPDATE SET next_expiry = excluded.next_expiry WHERE u.next_expiry > excluded.next_expiry";
const NEXT_DUE: &str = "INSERT INTO remem.upkeep AS u (tenant_id, next_expiry, next_due)
     SELECT c.tenant_id, 9223372036854775807, least(
       coalesce((SELECT min(due) FROM remem.record WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807),
       coalesce((SELECT min(due) FROM remem.review WHERE tenant_id = $1 AND due IS NOT NULL), 9223372036854775807))
     FROM remem.tenant_clock c WHERE c.tenant_id = $1
     ON CONFLICT (tenant_id) DO UPDATE SET next_due = excluded.next_due WHERE u.next_due <> excluded.next_due";

/// The statements of this file, for the test of their keys.
#[cfg(test)]
pub(crate) fn statements() -> Vec<&'static str> {
    let s = &*STATEMENTS;
    vec![
        &s.new_scopes.sql,
        &s.new_entries.sql,
        &s.texts.sql,
        &s.states.sql,
        &s.erasures.sql,
        &s.lineage.sql,
        &s.subjects.sql,
        &s.forgotten.sql,
        &s.signatures.sql,
        &s.signatures_deleted.sql,
        &s.vectors_deleted.sql,
        &s.links.sql,
        &s.links_renamed.sql,
        &s.rules.sql,
        &s.rules_deleted.sql,
        &s.snapshots.sql,
        &s.snapshots_deleted.sql,
        &s.events.sql,
        &s.results.sql,
        &s.records.sql,
        &s.records_followed.sql,
        &s.records_deleted.sql,
        &s.reviews.sql,
        &s.reviews_deleted.sql,
        COUNT_SCOPES,
        SAVE_CLOCK,
    ]
}

/// The rows of a group, sorted by what is done with them.
pub(super) struct Saving {
    effects: Effects,
    index: IndexWrites,
    new_scopes: Vec<ScopeRow>,
    counted_scopes: ScopeColumns,
    signatures: Vec<StoredSignature>,
    signatures_deleted: Vec<RowKey>,
    vectors: VectorColumns,
    new_links: Vec<NamedLink>,
    renamed_links: Vec<NamedLink>,
    rules: Vec<NamedRule>,
    deleted_rules: Vec<NamedRule>,
    held: Vec<HeldSnapshot>,
    released: Vec<HeldSnapshot>,
    records: RecordRows,
    reviews: RecordRows,
    clock: Option<ClockColumns>,
    /// The instant at which a pass has to look at the tenant's entries again.
    pub next_expiry: i64,
    /// Whether the group is one batch.
    is_single_batch: bool,
}

#[derive(Default)]
struct RecordRows {
    written: Vec<NamedRecord>,
    followed: Vec<NamedRecord>,
    deleted: Vec<NamedRecord>,
}

#[derive(Default)]
struct VectorColumns {
    scope: Vec<i64>,
    row: Vec<i64>,
    model: Vec<i64>,
    tier: Vec<&'static str>,
    typology: Vec<&'static str>,
    bytes: Vec<Vec<u8>>,
    direction: Vec<String>,
}

/// The clock as statement parameters.
struct ClockColumns {
    revision: i64,
    seq: i64,
    at: i64,
    chain: Vec<u8>,
    memories: i64,
}

impl ClockColumns {
    fn of(clock: &TenantClock) -> ClockColumns {
        ClockColumns {
            revision: clock.revision.0.cast_signed(),
            seq: clock.seq.0.cast_signed(),
            at: clock.at.0,
            chain: clock.chain.to_vec(),
            memories: clock.memories,
        }
    }
}

impl Saving {
    pub fn of(mut effects: Effects, is_single_batch: bool) -> Saving {
        let index = IndexWrites::of(&effects.entries);
        let (new_scopes, counted_scopes) = scopes(&mut effects, &index.counts);
        let (signatures, signatures_deleted) = signatures(&mut effects);
        let (new_links, renamed_links) = links(&mut effects);
        let (rules, deleted_rules) = rules(&mut effects);
        let (held, released) = snapshots(&mut effects);
        let (reviews, records) = std::mem::take(&mut effects.records)
            .into_iter()
            .partition(|(key, _)| key.0.is_under_review());
        let next_expiry = if effects.has_erasable_text {
            0 // at once, by any node's clock
        } else {
            effects.next_expiry.map_or(i64::MAX, |at| at.0)
        };
        Saving {
            vectors: VectorColumns::of(&effects),
            clock: effects.clock.as_ref().map(ClockColumns::of),
            records: RecordRows::of(records),
            reviews: RecordRows::of(reviews),
            effects,
            index,
            new_scopes,
            counted_scopes,
            signatures,
            signatures_deleted,
            new_links,
            renamed_links,
            rules,
            deleted_rules,
            held,
            released,
            next_expiry,
            is_single_batch,
        }
    }

    /// The rows of the tables, in an order in which each statement finds the rows that it refers
    /// to.
    pub fn arrays(&self) -> Arrays<'_> {
        let s = &*STATEMENTS;
        let changed =
            |is: fn(&EntryChange) -> bool| self.effects.entries.iter().filter(move |c| is(c));
        let rules_deleted = ArrayCall::of(&s.rules_deleted, &self.deleted_rules);
        let (deleted_first, deleted_last) = if self.is_single_batch {
            (rules_deleted, None)
        } else {
            (None, rules_deleted)
        };
        Arrays {
            // Rules are written before the entries of the group, and deleted after them unless the
            // group is one batch: no batch may restate a rule that an earlier batch made, or one
            // that only a later batch deletes. A batch that is refused only because of this order
            // is tried again alone.
            before_entries: vec![
                ArrayCall::of(&s.new_scopes, &self.new_scopes),
                ArrayCall::of(&s.rules, &self.rules),
                deleted_first,
            ],
            entries: vec![
                ArrayCall::of(&s.new_entries, changed(EntryChange::is_new)),
                ArrayCall::of(&s.texts, changed(EntryChange::rewrites)),
                ArrayCall::of(&s.states, changed(EntryChange::changes_state)),
                ArrayCall::of(&s.erasures, changed(EntryChange::erases)),
            ],
            after_entries: vec![
                ArrayCall::of(&s.lineage, &self.effects.lineage),
                ArrayCall::of(&s.subjects, &self.effects.subjects),
                ArrayCall::of(&s.forgotten, &self.effects.forgotten),
                ArrayCall::of(&s.signatures_deleted, &self.signatures_deleted),
                ArrayCall::of(&s.signatures, &self.signatures),
                ArrayCall::of(&s.links, &self.new_links),
                ArrayCall::of(&s.links_renamed, &self.renamed_links),
                deleted_last,
                ArrayCall::of(&s.vectors_deleted, &self.effects.vectors_deleted),
            ],
            log: vec![
                ArrayCall::of(&s.snapshots_deleted, &self.released),
                ArrayCall::of(&s.snapshots, &self.held),
                ArrayCall::of(&s.events, &self.effects.events),
                ArrayCall::of(&s.results, &self.effects.results),
                ArrayCall::of(&s.records, &self.records.written),
                ArrayCall::of(&s.records_followed, &self.records.followed),
                ArrayCall::of(&s.records_deleted, &self.records.deleted),
                // Not ON CONFLICT DO UPDATE: that needs the right to read the row, which this
                // role lacks.
                ArrayCall::of(&s.reviews_deleted, &self.reviews.written),
                ArrayCall::of(&s.reviews_deleted, &self.reviews.deleted),
                ArrayCall::of(&s.reviews, &self.reviews.written),
            ],
        }
    }

    /// All statements, in order.
    pub fn calls<'a>(&'a self, tenant: &'a &'a str, arrays: &'a Arrays<'_>) -> Vec<SqlCall<'a>> {
        let table_calls = |calls: &'a [Option<ArrayCall<'a>>]| {
            calls.iter().flatten().map(|call| call.call(tenant))
        };
        let mut calls: Vec<SqlCall<'a>> = table_calls(&arrays.before_entries).collect();
        calls.extend(self.counted_scopes.call(tenant));
        calls.extend(table_calls(&arrays.entries));
        calls.extend(self.index.calls(tenant));
        calls.extend(table_calls(&arrays.after_entries));
        calls.extend(self.vectors.call(tenant));
        calls.extend(table_calls(&arrays.log));
        if self.effects.due_changed {
            calls.push(sql_call(NEXT_DUE, &[tenant]));
        }
        if self.next_expiry != i64::MAX {
            calls.push(sql_call(NEXT_EXPIRY, &[tenant, &self.next_expiry]));
        }
        if let Some(clock) = &self.clock {
            calls.push(sql_call(
                SAVE_CLOCK,
                &[
                    tenant,
                    &clock.revision,
                    &clock.seq,
                    &clock.at,
                    &clock.chain,
                    &clock.memories,
                ],
            ));
        }
        calls
    }
}

/// The rows of a group as arrays, in the groups in which they are sent.
pub(super) struct Arrays<'a> {
    before_entries: Vec<Option<ArrayCall<'a>>>,
    entries: Vec<Option<ArrayCall<'a>>>,
    after_entries: Vec<Option<ArrayCall<'a>>>,
    log: Vec<Option<ArrayCall<'a>>>,
}

impl VectorColumns {
    fn of(effects: &Effects) -> VectorColumns {
        let mut columns = VectorColumns::default();
        for (key, model, row) in &effects.vectors {
            columns.scope.push(key.scope);
            columns.row.push(key.row);
            columns.model.push(model.0);
            columns.tier.push(row.tier.as_str());
            columns.typology.push(row.typology.as_str());
            columns.bytes.push(row.vector.to_bytes());
            columns.direction.push(to_pgvector_text(&row.vector));
        }
        columns
    }

    fn call<'a>(&'a self, tenant: &'a &'a str) -> Option<SqlCall<'a>> {
        let c = self;
        let call = sql_call(
            NEW_VECTORS,
            &[
                tenant,
                &c.scope,
                &c.row,
                &c.model,
                &c.tier,
                &c.typology,
                &c.bytes,
                &c.direction,
            ],
        );
        (!c.row.is_empty()).then_some(call)
    }
}

impl RecordRows {
    fn of(changes: Vec<(RecordKey, RowChange<RecordRow>)>) -> RecordRows {
        let mut rows = RecordRows::default();
        for (key, change) in changes {
            let (row, is_deleted) = match change {
                RowChange::Inserted(row) | RowChange::Updated { after: row, .. } => (row, false),
                RowChange::Deleted(row) => (row, true),
            };
            let is_written = row.written.is_some();
            let record = NamedRecord { key, row };
            match (is_deleted, is_written) {
                (true, _) => rows.deleted.push(record),
                (false, true) => rows.written.push(record),
                (false, false) => rows.followed.push(record),
            }
        }
        rows
    }
}

/// The new memories, and the counts of the others that change.
fn scopes(
    effects: &mut Effects,
    words: &HashMap<i64, (i64, i64)>,
) -> (Vec<ScopeRow>, ScopeColumns) {
    let mut counted: BTreeSet<i64> = words.keys().chain(effects.totals.keys()).copied().collect();
    let mut new = Vec::new();
    let mut next_rows = HashMap::new();
    for (memory_ref, change) in std::mem::take(&mut effects.memories) {
        match change {
            RowChange::Inserted(row) => {
                let (documents, words) = words.get(&row.scope).copied().unwrap_or_default();
                counted.remove(&row.scope);
                new.push(ScopeRow {
                    memory_ref,
                    scope: row.scope,
                    next_row: row.next_row,
                    documents,
                    words,
                    totals: total_of(effects, row.scope),
                });
            }
            RowChange::Updated { after, .. } => {
                counted.insert(after.scope);
                next_rows.insert(after.scope, after.next_row);
            }
            RowChange::Deleted(_) => {}
        }
    }
    let mut columns = ScopeColumns::default();
    for scope in counted {
        let (documents, words) = words.get(&scope).copied().unwrap_or_default();
        let total = total_of(effects, scope);
        columns.push([
            scope,
            // The counter of a memory only grows: 0 leaves it as it is.
            next_rows.get(&scope).copied().unwrap_or(0),
            documents,
            words,
            total.entries,
            total.content_bytes,
            total.expiring,
            total.with_subject,
        ]);
    }
    (new, columns)
}

fn total_of(effects: &Effects, scope: i64) -> MemoryTotals {
    effects.totals.get(&scope).copied().unwrap_or_default()
}

/// The counts of memories as the parameters of `COUNT_SCOPES`.
#[derive(Default)]
struct ScopeColumns([Vec<i64>; 8]);

impl ScopeColumns {
    fn push(&mut self, row: [i64; 8]) {
        for (column, value) in self.0.iter_mut().zip(row) {
            column.push(value);
        }
    }

    fn call<'a>(&'a self, tenant: &'a &'a str) -> Option<SqlCall<'a>> {
        let [a, b, c, d, e, f, g, h] = &self.0;
        let call = sql_call(COUNT_SCOPES, &[tenant, a, b, c, d, e, f, g, h]);
        (!a.is_empty()).then_some(call)
    }
}

fn signatures(effects: &mut Effects) -> (Vec<StoredSignature>, Vec<RowKey>) {
    let mut stored = Vec::new();
    let mut deleted = Vec::new();
    for (key, signature) in std::mem::take(&mut effects.signatures) {
        match signature {
            Some(signature) => stored.push((key, signature)),
            None => deleted.push(key),
        }
    }
    (stored, deleted)
}

fn links(effects: &mut Effects) -> (Vec<NamedLink>, Vec<NamedLink>) {
    let mut new = Vec::new();
    let mut renamed = Vec::new();
    for (key, change) in std::mem::take(&mut effects.links) {
        let (link, list) = match change {
            RowChange::Inserted(link) => (link, &mut new),
            RowChange::Updated { after, .. } => (after, &mut renamed),
            RowChange::Deleted(_) => continue,
        };
        // A new link is stored as it is called now: it may have been renamed since it was made.
        let stored = if link.made.is_some() {
            (link.action.clone(), link.reference.clone())
        } else {
            (key.action, key.reference)
        };
        list.push(NamedLink {
            row: key.row,
            stored,
            link,
        });
    }
    (new, renamed)
}

fn rules(effects: &mut Effects) -> (Vec<NamedRule>, Vec<NamedRule>) {
    let mut written = Vec::new();
    let mut deleted = Vec::new();
    for (key, change) in std::mem::take(&mut effects.rules) {
        match change {
            RowChange::Inserted(rule) | RowChange::Updated { after: rule, .. } => {
                written.push(NamedRule { key, rule });
            }
            RowChange::Deleted(rule) => deleted.push(NamedRule { key, rule }),
        }
    }
    (written, deleted)
}

fn snapshots(effects: &mut Effects) -> (Vec<HeldSnapshot>, Vec<HeldSnapshot>) {
    let mut held = Vec::new();
    let mut released = Vec::new();
    for (run, change) in std::mem::take(&mut effects.snapshots) {
        match change {
            RowChange::Inserted(row) => held.push((run, row)),
            RowChange::Deleted(row) => released.push((run, row)),
            RowChange::Updated { before, after } => {
                released.push((run.clone(), before));
                held.push((run, after));
            }
        }
    }
    (held, released)
}
