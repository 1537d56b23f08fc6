//! The changes of a group, collected column by column, and written with one statement for each
//! table in the round trip that commits.

use super::apply::id_head;
use super::columns::{
    EntryColumns, RecordColumns, RewriteColumns, ScopeColumns, SnapshotColumns, StateColumns,
};
use super::gate::{SqlCall, sql_call};
use super::load::{LoadedEntry, StoredResult, TenantClock};
use super::tie::{RecordChanges, RowKey};
use super::{lineage, vector, workshop};
use crate::terms::WordCounts;
use remem_core::{Admitted, RecordBody, RecordKind, RecordLinks, Subject, Timestamp};
use std::collections::HashMap;
use tokio_postgres::types::ToSql;

/// A row to insert into `entry`.
pub(super) struct NewEntry<'a> {
    pub scope_id: i64,
    pub row_id: i64,
    pub id: &'a str,
    pub id_hash: [u8; 16],
    pub admitted: &'a Admitted,
    pub tags: String,
    pub created_at: i64,
    pub written_by: Option<&'a str>,
    pub written_by_run: Option<&'a str>,
    pub revision: i64,
}

/// Everything that a group changes.
pub(super) struct GroupWrites<'a> {
    pub entries: Vec<NewEntry<'a>>,
    tags: TagColumns,
    removed_tags: TagColumns,
    postings: PostingColumns,
    removed_postings: PostingColumns,
    /// The index rows to delete before new ones are inserted: those of entries that get another
    /// text.
    old_tags: TagColumns,
    old_postings: PostingColumns,
    /// New texts of entries, by memory and row.
    pub rewrites: HashMap<(i64, i64), NewText>,
    /// The state of each changed entry after the whole group, by memory and row. An entry may be
    /// removed, come back and be removed again.
    pub states: HashMap<(i64, i64), EntryStateRow>,
    erasures: ErasureColumns,
    /// Sources, subjects and signatures of entries.
    lineage: lineage::LineageWrites,
    /// Snapshots to close, and those to open afterwards: a run may do both, in this order.
    pub closed_snapshots: Vec<String>,
    pub opened_snapshots: HashMap<String, (i64, i64)>,
    events: EventColumns,
    stored_results: StoredResultColumns,
    /// The last state of each record that the group names, or `None` if it is deleted.
    pub records: HashMap<(RecordKind, &'a str), Option<NewRecord>>,
    /// Changes of records that follow from changes of their source entries.
    pub record_changes: RecordChanges,
    /// Actions that rest on entries, and rules.
    pub workshop: workshop::WorkshopWrites,
    /// Vectors to store, and rows whose vectors are deleted.
    pub vectors: vector::VectorWrites,
    /// The earliest expiry of a new entry.
    pub next_expiry: i64,
}

pub(super) struct NewRecord {
    pub version: i64,
    pub at: i64,
    pub body: String,
    pub due: Option<i64>,
    pub topic: Option<String>,
    /// The entry that it was made from.
    pub source: Option<RowKey>,
}

impl NewRecord {
    pub fn of(
        version: u64,
        at: Timestamp,
        body: &RecordBody,
        ties: &RecordLinks,
        source: Option<RowKey>,
    ) -> NewRecord {
        let body = serde_json::to_string(body.map()).unwrap_or_default();
        let due = ties.due.map(|at| at.0);
        let topic = ties.topic.clone();
        NewRecord {
            version: version.cast_signed(),
            at: at.0,
            body,
            due,
            topic,
            source,
        }
    }
}

#[derive(Default)]
struct TagColumns {
    scope: Vec<i64>,
    tag: Vec<String>,
    created_at: Vec<i64>,
    id_head: Vec<String>,
    row: Vec<i64>,
}

#[derive(Default)]
struct PostingColumns {
    scope: Vec<i64>,
    word: Vec<i64>,
    row: Vec<i64>,
    times: Vec<i16>,
    words: Vec<i32>,
}

/// The columns of an entry that change without its text: visibility, reason of removal, support,
/// validity.
pub(super) struct EntryStateRow {
    pub rev_from: i64,
    pub rev_to: Option<i64>,
    pub reason: Option<String>,
    pub run: Option<String>,
    pub by: Option<i64>,
    pub support: i64,
    pub valid_at: Option<i64>,
    pub invalid_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub evidence: String,
}

#[derive(Default)]
struct ErasureColumns {
    scope: Vec<i64>,
    row: Vec<i64>,
    at: Vec<i64>,
}

/// The text of a row after the group.
pub(super) struct NewText {
    pub scan: i64,
    pub content: String,
    pub tags: String,
    pub metadata: Option<String>,
    pub world: Option<String>,
    pub slot: Option<String>,
    pub interaction: Option<String>,
}

#[derive(Default)]
struct EventColumns {
    seq: Vec<i64>,
    revision: Vec<i64>,
    at: Vec<i64>,
    run: Vec<Option<String>>,
    run_seq: Vec<Option<i64>>,
    recorded_at: Vec<Option<i64>>,
    kind: Vec<&'static str>,
    payload: Vec<String>,
    hash: Vec<Vec<u8>>,
}

#[derive(Default)]
struct StoredResultColumns {
    operation: Vec<String>,
    key: Vec<Vec<u8>>,
    body: Vec<Vec<u8>>,
    at: Vec<i64>,
    revision: Vec<i64>,
    outcomes: Vec<String>,
}

impl Default for GroupWrites<'_> {
    fn default() -> Self {
        GroupWrites {
            entries: Vec::new(),
            tags: TagColumns::default(),
            removed_tags: TagColumns::default(),
            postings: PostingColumns::default(),
            removed_postings: PostingColumns::default(),
            old_tags: TagColumns::default(),
            old_postings: PostingColumns::default(),
            rewrites: HashMap::new(),
            states: HashMap::new(),
            erasures: ErasureColumns::default(),
            lineage: lineage::LineageWrites::default(),
            closed_snapshots: Vec::new(),
            opened_snapshots: HashMap::new(),
            events: EventColumns::default(),
            stored_results: StoredResultColumns::default(),
            records: HashMap::new(),
            record_changes: RecordChanges::default(),
            workshop: workshop::WorkshopWrites::default(),
            vectors: vector::VectorWrites::default(),
            next_expiry: i64::MAX,
        }
    }
}

/// The position of an event in the log of its run.
pub(super) struct EventRun {
    pub id: String,
    pub seq: u64,
    pub recorded_at: Option<i64>,
}

/// Removes the elements whose flag is false.
fn retain_flagged<T>(column: &mut Vec<T>, flags: &[bool]) {
    let mut flags = flags.iter();
    column.retain(|_| flags.next().copied().unwrap_or(true));
}

impl TagColumns {
    fn remove_row(&mut self, scope: i64, row: i64) {
        let flags: Vec<bool> = self
            .scope
            .iter()
            .zip(&self.row)
            .map(|at| at != (&scope, &row))
            .collect();
        retain_flagged(&mut self.scope, &flags);
        retain_flagged(&mut self.tag, &flags);
        retain_flagged(&mut self.created_at, &flags);
        retain_flagged(&mut self.id_head, &flags);
        retain_flagged(&mut self.row, &flags);
    }

    fn add(&mut self, scope: i64, row: i64, tag: &str, created_at: i64, id: &str) {
        self.scope.push(scope);
        self.tag.push(tag.to_owned());
        self.created_at.push(created_at);
        self.id_head.push(id_head(id).to_owned());
        self.row.push(row);
    }
}

impl PostingColumns {
    fn remove_row(&mut self, scope: i64, row: i64) {
        let flags: Vec<bool> = self
            .scope
            .iter()
            .zip(&self.row)
            .map(|at| at != (&scope, &row))
            .collect();
        retain_flagged(&mut self.scope, &flags);
        retain_flagged(&mut self.word, &flags);
        retain_flagged(&mut self.row, &flags);
        retain_flagged(&mut self.times, &flags);
        retain_flagged(&mut self.words, &flags);
    }

    fn add(&mut self, scope: i64, row: i64, words: &WordCounts) {
        for (word, times) in &words.counts {
            self.scope.push(scope);
            self.word.push(*word);
            self.row.push(row);
            self.times.push(*times);
            self.words.push(words.total);
        }
    }
}

impl<'a> GroupWrites<'a> {
    pub fn record(&mut self, kind: RecordKind, key: &'a str, record: NewRecord) {
        self.records.insert((kind, key), Some(record));
    }

    pub fn delete_record(&mut self, kind: RecordKind, key: &'a str) {
        self.records.insert((kind, key), None);
    }
}

impl GroupWrites<'_> {
    pub fn tags(&mut self, scope: i64, row: i64, tags: &[&str], created_at: i64, id: &str) {
        tags.iter()
            .for_each(|tag| self.tags.add(scope, row, tag, created_at, id));
    }

    pub fn delete_tags(
        &mut self,
        scope: i64,
        row: i64,
        tags: &[String],
        created_at: i64,
        id: &str,
    ) {
        tags.iter()
            .for_each(|tag| self.removed_tags.add(scope, row, tag, created_at, id));
    }

    pub fn postings(&mut self, scope: i64, row: i64, words: &WordCounts) {
        self.postings.add(scope, row, words);
    }

    pub fn delete_postings(&mut self, scope: i64, row: i64, words: &WordCounts) {
        self.removed_postings.add(scope, row, words);
    }

    /// Notes the current state of an entry; the last call for an entry counts.
    pub fn state(&mut self, entry: &LoadedEntry) {
        let state = EntryStateRow {
            rev_from: entry.rev_from,
            rev_to: entry.rev_to,
            reason: entry.reason.clone(),
            run: entry.removed_by_run.clone(),
            by: entry.replaced_by,
            support: entry.support,
            valid_at: entry.valid_at,
            invalid_at: entry.invalid_at,
            ended_at: entry.ended_at,
            evidence: entry.evidence.clone(),
        };
        self.states.insert((entry.scope_id, entry.row_id), state);
    }

    pub fn link(&mut self, row: (i64, i64), source: (i64, i64)) {
        self.lineage.link(row, source);
    }

    pub fn subject(&mut self, scope: i64, row: i64, subject: &Subject) {
        self.lineage.subject(scope, row, subject);
    }

    pub fn delete_signature(&mut self, scope: i64, row: i64) {
        self.lineage.delete_signature(scope, row);
    }

    pub fn lineage(&mut self) -> &mut lineage::LineageWrites {
        &mut self.lineage
    }

    pub fn erase(&mut self, scope: i64, row: i64, at: i64) {
        self.erasures.scope.push(scope);
        self.erasures.row.push(row);
        self.erasures.at.push(at);
    }

    /// Removes a row from the indexes before it is indexed again, whether it is stored already or
    /// only collected in this group.
    pub fn reindex(
        &mut self,
        scope: i64,
        row: i64,
        words: &WordCounts,
        tags: &[String],
        created_at: i64,
        id: &str,
    ) {
        self.postings.remove_row(scope, row);
        self.tags.remove_row(scope, row);
        self.old_postings.add(scope, row, words);
        tags.iter()
            .for_each(|tag| self.old_tags.add(scope, row, tag, created_at, id));
    }

    pub fn event(
        &mut self,
        clock: &TenantClock,
        run: Option<EventRun>,
        kind: &'static str,
        payload: String,
    ) {
        self.events.seq.push(clock.seq.0.cast_signed());
        self.events.revision.push(clock.revision.0.cast_signed());
        self.events.at.push(clock.at.0);
        self.events
            .run_seq
            .push(run.as_ref().map(|run| run.seq.cast_signed()));
        self.events
            .recorded_at
            .push(run.as_ref().and_then(|run| run.recorded_at));
        self.events.run.push(run.map(|run| run.id));
        self.events.kind.push(kind);
        self.events.payload.push(payload);
        self.events.hash.push(clock.chain.to_vec());
    }

    pub fn stored_result(&mut self, operation: &str, key: &[u8; 32], repeat: &StoredResult) {
        self.stored_results.operation.push(operation.to_owned());
        self.stored_results.key.push(key.to_vec());
        self.stored_results.body.push(repeat.body.to_vec());
        self.stored_results.at.push(repeat.at.0);
        self.stored_results
            .revision
            .push(repeat.revision.0.cast_signed());
        self.stored_results.outcomes.push(repeat.outcomes.clone());
    }
}

const NEW_SCOPES: &str = "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref, documents, words, next_row, owner)
     SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])";
const COUNT_SCOPES: &str = "UPDATE remem.scope s SET documents = n.documents, words = n.words, next_row = n.next_row
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS n (scope_id, documents, words, next_row)
     WHERE s.tenant_id = $1 AND s.scope_id = n.scope_id";
const NEW_TAGS: &str =
    "INSERT INTO remem.entry_tag (tenant_id, scope_id, tag, created_at, id_head, row_id)
     SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[])";
const OLD_TAGS: &str = "DELETE FROM remem.entry_tag g
     USING unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[]) AS o (scope_id, tag, created_at, id_head, row_id)
     WHERE g.tenant_id = $1 AND g.scope_id = o.scope_id AND g.tag = o.tag AND g.created_at = o.created_at AND g.id_head = o.id_head
       AND g.row_id = o.row_id";
const NEW_POSTINGS: &str = "INSERT INTO remem.posting (tenant_id, scope_id, word, row_id, times, words)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::integer[])";
const OLD_POSTINGS: &str =
    "DELETE FROM remem.posting p USING unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS o (scope_id, word, row_id)
     WHERE p.tenant_id = $1 AND p.scope_id = o.scope_id AND p.word = o.word AND p.row_id = o.row_id";
const REWRITE: &str =
    "UPDATE remem.entry e SET scan = o.scan, content = o.content, tags = o.tags, metadata = o.metadata, content_hash = o.hash,
       world = o.world, slot = o.slot, interaction = coalesce(o.interaction, e.interaction)
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[], $6::text[], $7::text[], $8::bytea[], $9::text[], $10::text[],
       $11::text[]) AS o (scope_id, row_id, scan, content, tags, metadata, hash, world, slot, interaction)
     WHERE e.tenant_id = $1 AND e.scope_id = o.scope_id AND e.row_id = o.row_id";
const STATE: &str = "UPDATE remem.entry e SET rev_from = o.rev_from, rev_to = o.rev_to, removed_reason = o.reason, removed_by_run = o.run,
       replaced_by = o.by, support = o.support, valid_at = o.valid_at, invalid_at = o.invalid_at, ended_at = o.ended_at, evidence = o.evidence
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::bigint[],
       $11::bigint[], $12::bigint[], $13::text[])
       AS o (scope_id, row_id, rev_from, rev_to, reason, run, by, support, valid_at, invalid_at, ended_at, evidence)
     WHERE e.tenant_id = $1 AND e.scope_id = o.scope_id AND e.row_id = o.row_id";
const ERASE: &str = "UPDATE remem.entry e SET content = ''::bytea, tags = '[]', metadata = NULL, content_hash = NULL, erased_at = o.at
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS o (scope_id, row_id, at)
     WHERE e.tenant_id = $1 AND e.scope_id = o.scope_id AND e.row_id = o.row_id";
const HOLD: &str = "INSERT INTO remem.snapshot (tenant_id, run_id, revision, at)
     SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::bigint[]) ON CONFLICT DO NOTHING";
const RELEASE: &str = "DELETE FROM remem.snapshot WHERE tenant_id = $1 AND run_id = ANY($2)";
const NEW_EVENTS: &str = "INSERT INTO remem.event (tenant_id, seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[],
       $10::bytea[])";
const NEW_REPEATS: &str = "INSERT INTO remem.idempotency (tenant_id, operation, key, body, at, revision, outcomes)
     SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[])";
const RECORDS: &str = "INSERT INTO remem.record (tenant_id, kind, key, version, at, body, due, topic, source_scope, source_row)
     SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::bigint[],
       $10::bigint[])
     ON CONFLICT (tenant_id, kind, key) DO UPDATE SET version = excluded.version, at = excluded.at, body = excluded.body,
       due = excluded.due, topic = excluded.topic, source_scope = excluded.source_scope, source_row = excluded.source_row";
const REVIEWS: &str = "INSERT INTO remem.review (tenant_id, kind, key, version, at, body, due)
     SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[])";
const OLD_REVIEWS: &str =
    "DELETE FROM remem.review r USING unnest($2::text[], $3::text[]) AS o (kind, key)
     WHERE r.tenant_id = $1 AND r.kind = o.kind AND r.key = o.key";
const OLD_RECORDS: &str =
    "DELETE FROM remem.record r USING unnest($2::text[], $3::text[]) AS o (kind, key)
     WHERE r.tenant_id = $1 AND r.kind = o.kind AND r.key = o.key";
const SAVE_CLOCK: &str = "UPDATE remem.tenant_clock SET revision = $2, seq = $3, at = $4, chain = $5, scopes = $6 WHERE tenant_id = $1";
const SAVE_DUE: &str = "INSERT INTO remem.upkeep AS u (tenant_id, next_expiry) VALUES ($1, $2)
     ON CONFLICT (tenant_id) DO UPDATE SET next_expiry = excluded.next_expiry WHERE u.next_expiry > excluded.next_expiry";

/// The clock as statement parameters.
pub(super) struct ClockColumns {
    revision: i64,
    seq: i64,
    at: i64,
    chain: Vec<u8>,
    scopes: i64,
}

impl ClockColumns {
    pub fn of(clock: &TenantClock) -> ClockColumns {
        ClockColumns {
            revision: clock.revision.0.cast_signed(),
            seq: clock.seq.0.cast_signed(),
            at: clock.at.0,
            chain: clock.chain.to_vec(),
            scopes: clock.scopes,
        }
    }
}

/// The columns that are derived from the collected rows.
pub(super) struct GroupColumns<'a> {
    pub tenant: &'a &'a str,
    pub new_scopes: &'a ScopeColumns,
    pub old_scopes: &'a ScopeColumns,
    pub entries: &'a EntryColumns<'a>,
    pub records: &'a RecordColumns,
    /// The records under review.
    pub reviews: &'a RecordColumns,
    pub snapshots: &'a SnapshotColumns,
    pub rewrites: &'a RewriteColumns,
    pub states: &'a StateColumns,
    pub clock: Option<&'a ClockColumns>,
}

/// The statements, in an order in which each finds the rows that it refers to; those without rows
/// are left out.
pub(super) fn statements<'a>(
    saving: &GroupColumns<'a>,
    writes: &'a GroupWrites<'a>,
) -> Vec<SqlCall<'a>> {
    let t = saving.tenant;
    let mut calls = Vec::new();
    let new = saving.new_scopes;
    let old = saving.old_scopes;
    let mut add = |wanted: bool, call: SqlCall<'a>| {
        if wanted {
            calls.push(call);
        }
    };
    add(
        !new.id.is_empty(),
        sql_call(
            NEW_SCOPES,
            &[
                t,
                &new.id,
                &new.memory_ref,
                &new.documents,
                &new.words,
                &new.next_row,
                &new.owner,
            ],
        ),
    );
    add(
        !old.id.is_empty(),
        sql_call(
            COUNT_SCOPES,
            &[t, &old.id, &old.documents, &old.words, &old.next_row],
        ),
    );
    writes.workshop.rule_statements(t, &mut add);
    add(
        !saving.entries.row.is_empty(),
        saving.entries.insert_statement(t),
    );
    let g = &writes.old_tags;
    let p = &writes.old_postings;
    add(
        !g.row.is_empty(),
        sql_call(
            OLD_TAGS,
            &[t, &g.scope, &g.tag, &g.created_at, &g.id_head, &g.row],
        ),
    );
    add(
        !p.row.is_empty(),
        sql_call(OLD_POSTINGS, &[t, &p.scope, &p.word, &p.row]),
    );
    let w = saving.rewrites;
    add(
        !w.row.is_empty(),
        sql_call(
            REWRITE,
            &[
                t,
                &w.scope,
                &w.row,
                &w.scan,
                &w.content,
                &w.tags,
                &w.metadata,
                &w.hash,
                &w.world,
                &w.slot,
                &w.interaction,
            ],
        ),
    );
    let g = &writes.tags;
    let p = &writes.postings;
    add(
        !g.row.is_empty(),
        sql_call(
            NEW_TAGS,
            &[t, &g.scope, &g.tag, &g.created_at, &g.id_head, &g.row],
        ),
    );
    add(
        !p.row.is_empty(),
        sql_call(
            NEW_POSTINGS,
            &[t, &p.scope, &p.word, &p.row, &p.times, &p.words],
        ),
    );
    let g = &writes.removed_tags;
    let p = &writes.removed_postings;
    add(
        !g.row.is_empty(),
        sql_call(
            OLD_TAGS,
            &[t, &g.scope, &g.tag, &g.created_at, &g.id_head, &g.row],
        ),
    );
    add(
        !p.row.is_empty(),
        sql_call(OLD_POSTINGS, &[t, &p.scope, &p.word, &p.row]),
    );
    let s = saving.states;
    let e = &writes.erasures;
    let ended = (&s.reason, &s.run, &s.by, &s.support);
    let window = (&s.valid_at, &s.invalid_at, &s.ended_at, &s.evidence);
    let values: [&(dyn ToSql + Sync); 13] = [
        t,
        &s.scope,
        &s.row,
        &s.rev_from,
        &s.rev_to,
        ended.0,
        ended.1,
        ended.2,
        ended.3,
        window.0,
        window.1,
        window.2,
        window.3,
    ];
    add(!s.row.is_empty(), sql_call(STATE, &values));
    add(
        !e.row.is_empty(),
        sql_call(ERASE, &[t, &e.scope, &e.row, &e.at]),
    );
    writes.lineage.statements(t, &mut add);
    writes.workshop.link_statements(t, &mut add);
    writes.vectors.statements(t, &mut add);
    let h = saving.snapshots;
    add(
        !writes.closed_snapshots.is_empty(),
        sql_call(RELEASE, &[t, &writes.closed_snapshots]),
    );
    add(
        !h.run.is_empty(),
        sql_call(HOLD, &[t, &h.run, &h.revision, &h.at]),
    );
    let e = &writes.events;
    let run_columns = (&e.run, &e.run_seq, &e.recorded_at);
    add(
        !e.seq.is_empty(),
        sql_call(
            NEW_EVENTS,
            &[
                t,
                &e.seq,
                &e.revision,
                &e.at,
                run_columns.0,
                run_columns.1,
                run_columns.2,
                &e.kind,
                &e.payload,
                &e.hash,
            ],
        ),
    );
    let i = &writes.stored_results;
    add(
        !i.key.is_empty(),
        sql_call(
            NEW_REPEATS,
            &[
                t,
                &i.operation,
                &i.key,
                &i.body,
                &i.at,
                &i.revision,
                &i.outcomes,
            ],
        ),
    );
    writes.record_changes.statements(t, &mut add);
    let r = saving.records;
    let v = saving.reviews;
    let ties = (&r.due, &r.topic, &r.scope, &r.row);
    add(
        !r.key.is_empty(),
        sql_call(
            RECORDS,
            &[
                t, &r.kind, &r.key, &r.version, &r.at, &r.body, ties.0, ties.1, ties.2, ties.3,
            ],
        ),
    );
    add(
        !r.deleted_key.is_empty(),
        sql_call(OLD_RECORDS, &[t, &r.deleted_kind, &r.deleted_key]),
    );
    // Not ON CONFLICT DO UPDATE: that needs the right to read the row, which this role lacks.
    add(
        !v.key.is_empty(),
        sql_call(OLD_REVIEWS, &[t, &v.kind, &v.key]),
    );
    add(
        !v.key.is_empty(),
        sql_call(
            REVIEWS,
            &[t, &v.kind, &v.key, &v.version, &v.at, &v.body, &v.due],
        ),
    );
    add(
        !v.deleted_key.is_empty(),
        sql_call(OLD_REVIEWS, &[t, &v.deleted_kind, &v.deleted_key]),
    );
    writes.record_changes.next_due(t, &mut add);
    add(
        writes.next_expiry != i64::MAX,
        sql_call(SAVE_DUE, &[t, &writes.next_expiry]),
    );
    if let Some(clock) = saving.clock {
        calls.push(sql_call(
            SAVE_CLOCK,
            &[
                t,
                &clock.revision,
                &clock.seq,
                &clock.at,
                &clock.chain,
                &clock.scopes,
            ],
        ));
    }
    calls
}
