//! What a group writes, gathered column by column, and written with one statement a table in the trip that commits.

use super::apply::id_head;
use super::gate::{Call, call};
use super::load::{Clock, Repeat, Working};
use crate::stored::content_hash;
use crate::terms::Words;
use remem_core::{Admitted, RecordBody, RecordKind};
use std::collections::HashMap;

/// A row of `entry`.
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

/// Everything that the group changes.
pub(super) struct Writes<'a> {
    pub entries: Vec<NewEntry<'a>>,
    tags: Tags,
    untags: Tags,
    postings: Postings,
    unposts: Postings,
    removals: Removals,
    events: Events,
    repeats: Repeats,
    /// What becomes of each record that the group names: its last state, or `None` if it goes.
    records: HashMap<(RecordKind, &'a str), Option<NewRecord>>,
    /// The earliest end of a new entry.
    pub next_expiry: i64,
}

struct NewRecord {
    version: i64,
    at: i64,
    body: String,
}

#[derive(Default)]
struct Tags {
    scope: Vec<i64>,
    tag: Vec<String>,
    created_at: Vec<i64>,
    id_head: Vec<String>,
    row: Vec<i64>,
}

#[derive(Default)]
struct Postings {
    scope: Vec<i64>,
    word: Vec<i64>,
    row: Vec<i64>,
    times: Vec<i16>,
    words: Vec<i32>,
}

#[derive(Default)]
struct Removals {
    scope: Vec<i64>,
    row: Vec<i64>,
    revision: Vec<i64>,
    reason: Vec<&'static str>,
    at: Vec<i64>,
}

#[derive(Default)]
struct Events {
    seq: Vec<i64>,
    revision: Vec<i64>,
    at: Vec<i64>,
    run: Vec<Option<String>>,
    kind: Vec<&'static str>,
    payload: Vec<String>,
    hash: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Repeats {
    operation: Vec<String>,
    key: Vec<Vec<u8>>,
    body: Vec<Vec<u8>>,
    at: Vec<i64>,
    revision: Vec<i64>,
    outcomes: Vec<String>,
}

impl Default for Writes<'_> {
    fn default() -> Self {
        Writes {
            entries: Vec::new(),
            tags: Tags::default(),
            untags: Tags::default(),
            postings: Postings::default(),
            unposts: Postings::default(),
            removals: Removals::default(),
            events: Events::default(),
            repeats: Repeats::default(),
            records: HashMap::new(),
            next_expiry: i64::MAX,
        }
    }
}

impl Tags {
    fn add(&mut self, scope: i64, row: i64, tag: &str, created_at: i64, id: &str) {
        self.scope.push(scope);
        self.tag.push(tag.to_owned());
        self.created_at.push(created_at);
        self.id_head.push(id_head(id).to_owned());
        self.row.push(row);
    }
}

impl Postings {
    fn add(&mut self, scope: i64, row: i64, words: &Words) {
        for (word, times) in &words.counts {
            self.scope.push(scope);
            self.word.push(*word);
            self.row.push(row);
            self.times.push(*times);
            self.words.push(words.total);
        }
    }
}

impl<'a> Writes<'a> {
    pub fn record(&mut self, kind: RecordKind, key: &'a str, version: u64, at: i64, body: &RecordBody) {
        let body = serde_json::to_string(body.map()).unwrap_or_default();
        self.records.insert((kind, key), Some(NewRecord { version: version.cast_signed(), at, body }));
    }

    pub fn unrecord(&mut self, kind: RecordKind, key: &'a str) {
        self.records.insert((kind, key), None);
    }
}

impl Writes<'_> {
    pub fn tags(&mut self, scope: i64, row: i64, tags: &[&str], created_at: i64, id: &str) {
        tags.iter().for_each(|tag| self.tags.add(scope, row, tag, created_at, id));
    }

    pub fn untag(&mut self, scope: i64, row: i64, tags: &[String], created_at: i64, id: &str) {
        tags.iter().for_each(|tag| self.untags.add(scope, row, tag, created_at, id));
    }

    pub fn postings(&mut self, scope: i64, row: i64, words: &Words) {
        self.postings.add(scope, row, words);
    }

    pub fn unpost(&mut self, scope: i64, row: i64, words: &Words) {
        self.unposts.add(scope, row, words);
    }

    pub fn removal(&mut self, scope: i64, row: i64, revision: i64, reason: &'static str, at: i64) {
        self.removals.scope.push(scope);
        self.removals.row.push(row);
        self.removals.revision.push(revision);
        self.removals.reason.push(reason);
        self.removals.at.push(at);
    }

    pub fn event(&mut self, clock: &Clock, run: Option<String>, kind: &'static str, payload: String) {
        self.events.seq.push(clock.seq.0.cast_signed());
        self.events.revision.push(clock.revision.0.cast_signed());
        self.events.at.push(clock.at.0);
        self.events.run.push(run);
        self.events.kind.push(kind);
        self.events.payload.push(payload);
        self.events.hash.push(clock.chain.to_vec());
    }

    pub fn repeat(&mut self, operation: &str, key: &[u8; 32], repeat: &Repeat) {
        self.repeats.operation.push(operation.to_owned());
        self.repeats.key.push(key.to_vec());
        self.repeats.body.push(repeat.body.to_vec());
        self.repeats.at.push(repeat.at.0);
        self.repeats.revision.push(repeat.revision.0.cast_signed());
        self.repeats.outcomes.push(repeat.outcomes.clone());
    }
}

/// Rows of `scope` as columns.
#[derive(Default)]
pub(super) struct Scopes {
    id: Vec<i64>,
    memory_ref: Vec<String>,
    documents: Vec<i64>,
    words: Vec<i64>,
    next_row: Vec<i64>,
}

impl Scopes {
    /// The memories of the working set that changed: those that are new, or the others.
    pub fn of(working: &Working, new: bool) -> Scopes {
        let mut scopes = Scopes::default();
        for (memory_ref, scope) in working.scopes.iter().filter(|(_, scope)| scope.changed && scope.new == new) {
            scopes.id.push(scope.scope_id);
            scopes.memory_ref.push(memory_ref.as_str().to_owned());
            scopes.documents.push(scope.documents);
            scopes.words.push(scope.words);
            scopes.next_row.push(scope.next_row);
        }
        scopes
    }
}

/// Rows of `record` as columns: those to write, and the names of those to take away.
#[derive(Default)]
pub(super) struct Records {
    kind: Vec<&'static str>,
    key: Vec<String>,
    version: Vec<i64>,
    at: Vec<i64>,
    body: Vec<String>,
    gone_kind: Vec<&'static str>,
    gone_key: Vec<String>,
}

impl Records {
    pub fn of(writes: &Writes<'_>) -> Records {
        let mut records = Records::default();
        for ((kind, key), record) in &writes.records {
            let Some(record) = record else {
                records.gone_kind.push(kind.as_str());
                records.gone_key.push((*key).to_owned());
                continue;
            };
            records.kind.push(kind.as_str());
            records.key.push((*key).to_owned());
            records.version.push(record.version);
            records.at.push(record.at);
            records.body.push(record.body.clone());
        }
        records
    }
}

/// Rows of `entry` as columns.
pub(super) struct Entries<'a> {
    scope: Vec<i64>,
    row: Vec<i64>,
    id: Vec<&'a str>,
    id_hash: Vec<&'a [u8]>,
    tier: Vec<&'a str>,
    typology: Vec<&'a str>,
    content: Vec<&'a [u8]>,
    tags: Vec<&'a str>,
    metadata: Vec<Option<&'a str>>,
    created_at: Vec<i64>,
    expires_at: Vec<Option<i64>>,
    written_by: Vec<Option<&'a str>>,
    written_by_run: Vec<Option<&'a str>>,
    scan: Vec<i64>,
    content_hash: Vec<Vec<u8>>,
    revision: Vec<i64>,
}

impl<'a> Entries<'a> {
    pub fn of(entries: &'a [NewEntry<'a>]) -> Entries<'a> {
        Entries {
            scope: entries.iter().map(|e| e.scope_id).collect(),
            row: entries.iter().map(|e| e.row_id).collect(),
            id: entries.iter().map(|e| e.id).collect(),
            id_hash: entries.iter().map(|e| e.id_hash.as_slice()).collect(),
            tier: entries.iter().map(|e| e.admitted.tier().as_str()).collect(),
            typology: entries.iter().map(|e| e.admitted.typology().as_str()).collect(),
            content: entries.iter().map(|e| e.admitted.content().as_bytes()).collect(),
            tags: entries.iter().map(|e| e.tags.as_str()).collect(),
            metadata: entries.iter().map(|e| e.admitted.metadata()).collect(),
            created_at: entries.iter().map(|e| e.created_at).collect(),
            expires_at: entries.iter().map(|e| e.admitted.expires_at().map(|t| t.0)).collect(),
            written_by: entries.iter().map(|e| e.written_by).collect(),
            written_by_run: entries.iter().map(|e| e.written_by_run).collect(),
            scan: entries.iter().map(|e| e.admitted.scan().cast_signed()).collect(),
            content_hash: entries.iter().map(|e| content_hash(e.admitted.content().as_bytes()).to_vec()).collect(),
            revision: entries.iter().map(|e| e.revision).collect(),
        }
    }

    fn insert(&'a self, tenant: &'a &'a str) -> Call<'a> {
        let e = self;
        call(
            "INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, metadata, created_at,
               expires_at, written_by, written_by_run, scan, content_hash, rev_from)
             SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::bytea[], $9::text[],
               $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::bigint[], $16::bytea[], $17::bigint[])",
            &[
                tenant,
                &e.scope,
                &e.row,
                &e.id,
                &e.id_hash,
                &e.tier,
                &e.typology,
                &e.content,
                &e.tags,
                &e.metadata,
                &e.created_at,
                &e.expires_at,
                &e.written_by,
                &e.written_by_run,
                &e.scan,
                &e.content_hash,
                &e.revision,
            ],
        )
    }
}

const NEW_SCOPES: &str = "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref, documents, words, next_row)
     SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])";
const COUNT_SCOPES: &str = "UPDATE remem.scope s SET documents = n.documents, words = n.words, next_row = n.next_row
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS n (scope_id, documents, words, next_row)
     WHERE s.tenant_id = $1 AND s.scope_id = n.scope_id";
const NEW_TAGS: &str = "INSERT INTO remem.entry_tag (tenant_id, scope_id, tag, created_at, id_head, row_id)
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
const REMOVE: &str = "UPDATE remem.entry e SET content = ''::bytea, tags = '[]', metadata = NULL, content_hash = NULL, rev_to = o.revision,
       removed_reason = o.reason, erased_at = o.at
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[]) AS o (scope_id, row_id, revision, reason, at)
     WHERE e.tenant_id = $1 AND e.scope_id = o.scope_id AND e.row_id = o.row_id";
const NEW_EVENTS: &str = "INSERT INTO remem.event (tenant_id, seq, revision, at, run_id, kind, payload, hash)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bytea[])";
const NEW_REPEATS: &str = "INSERT INTO remem.idempotency (tenant_id, operation, key, body, at, revision, outcomes)
     SELECT $1, * FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[], $7::text[])";
const RECORDS: &str = "INSERT INTO remem.record (tenant_id, kind, key, version, at, body)
     SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
     ON CONFLICT (tenant_id, kind, key) DO UPDATE SET version = excluded.version, at = excluded.at, body = excluded.body";
const OLD_RECORDS: &str = "DELETE FROM remem.record r USING unnest($2::text[], $3::text[]) AS o (kind, key)
     WHERE r.tenant_id = $1 AND r.kind = o.kind AND r.key = o.key";
const SAVE_CLOCK: &str = "UPDATE remem.tenant_clock SET revision = $2, seq = $3, at = $4, chain = $5 WHERE tenant_id = $1";
const SAVE_DUE: &str = "INSERT INTO remem.upkeep AS u (tenant_id, next_expiry) VALUES ($1, $2)
     ON CONFLICT (tenant_id) DO UPDATE SET next_expiry = excluded.next_expiry WHERE u.next_expiry > excluded.next_expiry";

/// The clock as parameters.
pub(super) struct ClockColumns {
    revision: i64,
    seq: i64,
    at: i64,
    chain: Vec<u8>,
}

impl ClockColumns {
    pub fn of(clock: &Clock) -> ClockColumns {
        ClockColumns {
            revision: clock.revision.0.cast_signed(),
            seq: clock.seq.0.cast_signed(),
            at: clock.at.0,
            chain: clock.chain.to_vec(),
        }
    }
}

/// What has to be written beside the rows themselves.
pub(super) struct Saving<'a> {
    pub tenant: &'a &'a str,
    pub new_scopes: &'a Scopes,
    pub old_scopes: &'a Scopes,
    pub entries: &'a Entries<'a>,
    pub records: &'a Records,
    pub clock: Option<&'a ClockColumns>,
}

/// The statements, in an order in which each finds what it refers to; those without rows are left out.
pub(super) fn calls<'a>(saving: &Saving<'a>, writes: &'a Writes<'a>) -> Vec<Call<'a>> {
    let (t, mut calls) = (saving.tenant, Vec::new());
    let (new, old) = (saving.new_scopes, saving.old_scopes);
    let mut add = |wanted: bool, call: Call<'a>| {
        if wanted {
            calls.push(call);
        }
    };
    add(!new.id.is_empty(), call(NEW_SCOPES, &[t, &new.id, &new.memory_ref, &new.documents, &new.words, &new.next_row]));
    add(!old.id.is_empty(), call(COUNT_SCOPES, &[t, &old.id, &old.documents, &old.words, &old.next_row]));
    add(!saving.entries.row.is_empty(), saving.entries.insert(t));
    let (g, p) = (&writes.tags, &writes.postings);
    add(!g.row.is_empty(), call(NEW_TAGS, &[t, &g.scope, &g.tag, &g.created_at, &g.id_head, &g.row]));
    add(!p.row.is_empty(), call(NEW_POSTINGS, &[t, &p.scope, &p.word, &p.row, &p.times, &p.words]));
    let (g, p, r) = (&writes.untags, &writes.unposts, &writes.removals);
    add(!g.row.is_empty(), call(OLD_TAGS, &[t, &g.scope, &g.tag, &g.created_at, &g.id_head, &g.row]));
    add(!p.row.is_empty(), call(OLD_POSTINGS, &[t, &p.scope, &p.word, &p.row]));
    add(!r.row.is_empty(), call(REMOVE, &[t, &r.scope, &r.row, &r.revision, &r.reason, &r.at]));
    let e = &writes.events;
    add(!e.seq.is_empty(), call(NEW_EVENTS, &[t, &e.seq, &e.revision, &e.at, &e.run, &e.kind, &e.payload, &e.hash]));
    let i = &writes.repeats;
    add(!i.key.is_empty(), call(NEW_REPEATS, &[t, &i.operation, &i.key, &i.body, &i.at, &i.revision, &i.outcomes]));
    let r = saving.records;
    add(!r.key.is_empty(), call(RECORDS, &[t, &r.kind, &r.key, &r.version, &r.at, &r.body]));
    add(!r.gone_key.is_empty(), call(OLD_RECORDS, &[t, &r.gone_kind, &r.gone_key]));
    add(writes.next_expiry != i64::MAX, call(SAVE_DUE, &[t, &writes.next_expiry]));
    if let Some(clock) = saving.clock {
        calls.push(call(SAVE_CLOCK, &[t, &clock.revision, &clock.seq, &clock.at, &clock.chain]));
    }
    calls
}
