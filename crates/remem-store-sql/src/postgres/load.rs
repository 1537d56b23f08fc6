//! Reads everything that a group of batches needs before it is applied: the clock (locked), and the
//! rows that the batches name. One round trip.

use super::gate::{Gate, Identity, Role, SqlCall, Transaction, sql_call};
use super::rows::{get, get_bytes, get_u64};
use super::tie::RowKey;
use crate::stored::content_hash;
use remem_core::{
    Actor, Batch, Change, EntryId, MemoryRef, RecordKind, Revision, RunId, Seq, TenantId, Timestamp,
};
use remem_store::StoreError;
use std::collections::{HashMap, HashSet};
use tokio_postgres::Row;

/// The revision, event number, time and event chain of a tenant while a transaction runs; saved
/// once at its end.
#[derive(Clone, PartialEq)]
pub(super) struct TenantClock {
    pub revision: Revision,
    pub seq: Seq,
    pub at: Timestamp,
    pub chain: [u8; 32],
    /// The number of the newest memory. Stored, since a user who sees only some memories cannot
    /// count them.
    pub scopes: i64,
}

/// A memory that the group touches, as it will be after the group.
pub(super) struct LoadedScope {
    pub scope_id: i64,
    pub documents: i64,
    pub words: i64,
    pub next_row: i64,
    /// Whether it has to be written, and whether it does not exist yet.
    pub changed: bool,
    pub new: bool,
}

/// An entry that the group names, as it will be after the group.
pub(super) struct LoadedEntry {
    pub scope_id: i64,
    pub row_id: i64,
    pub rev_from: i64,
    pub rev_to: Option<i64>,
    pub erased: bool,
    pub created_at: i64,
    pub expires_at: Option<i64>,
    /// Loaded only if the group may remove or rewrite the entry.
    pub content: Vec<u8>,
    pub tags: String,
    pub metadata: Option<String>,
    /// The reason of its removal, and the run that removed it.
    pub reason: Option<String>,
    pub removed_by_run: Option<String>,
    pub support: i64,
    /// The row that replaced it, and whether the text of that one is erased.
    pub replaced_by: Option<i64>,
    pub replacement_erased: bool,
    /// Whether other entries were replaced by this one and still have their texts.
    pub stands_for_others: bool,
    pub persistent: bool,
    pub valid_at: Option<i64>,
    pub invalid_at: Option<i64>,
    pub ended_at: Option<i64>,
    pub evidence: String,
    /// Whether an action rests on it.
    pub linked: bool,
}

impl LoadedEntry {
    /// Marks the entry as removed.
    pub fn mark_removed(&mut self, batch: &Batch, revision: i64, at: i64, reason: &str) {
        (self.rev_to, self.ended_at) = (Some(revision), Some(at));
        self.reason = Some(reason.to_owned());
        self.removed_by_run = batch.run().map(|run| run.as_str().to_owned());
    }
}

/// The stored result of an earlier batch with an idempotency key.
pub(super) struct StoredResult {
    pub body: [u8; 32],
    pub at: Timestamp,
    pub revision: Revision,
    pub outcomes: String,
}

/// A record that the group names.
pub(super) struct LoadedRecord {
    pub version: u64,
    /// The entry that it was made from.
    pub source: Option<RowKey>,
}

/// The state that the batches of a group are applied to. They are applied in order, so a later one
/// sees an earlier one's effect.
pub(super) struct GroupState {
    pub clock: TenantClock,
    pub scopes: HashMap<MemoryRef, LoadedScope>,
    pub entries: HashMap<(MemoryRef, EntryId), LoadedEntry>,
    pub stored_results: HashMap<(String, [u8; 32]), StoredResult>,
    /// The records that the group names, by kind and key.
    pub records: HashMap<(RecordKind, String), LoadedRecord>,
    pub fences: HashMap<String, u64>,
    /// The number of events in each run's log.
    pub run_lengths: HashMap<String, u64>,
    /// Actions that rest on entries that the group links.
    pub links: HashSet<(i64, i64, String, String)>,
    /// Those of the rules named by the group that exist.
    pub rules: HashSet<(String, String)>,
    /// The revisions of open snapshots; loaded only if the group removes something or closes a
    /// snapshot.
    pub snapshots: HashMap<String, i64>,
    /// Rows whose text this group erases.
    pub erased_rows: HashSet<(i64, i64)>,
    /// The earliest removal of an entry whose text is still stored without a reason of its own;
    /// loaded in the same cases.
    pub first_ended: Option<i64>,
    /// Whether vectors are stored.
    pub vectors: bool,
}

const LOCK_CLOCK: &str = "SELECT revision, seq, at, chain, scopes FROM remem.tenant_clock WHERE tenant_id = $1 FOR NO KEY UPDATE";
const START_CLOCK: &str = "INSERT INTO remem.tenant_clock (tenant_id, revision, seq, at, chain) VALUES ($1, 0, 0, 0, $2) ON CONFLICT DO NOTHING";
const SCOPES: &str = "SELECT memory_ref, scope_id, documents, words, next_row FROM remem.scope WHERE tenant_id = $1 AND memory_ref = ANY($2)";
const ENTRIES: &str =
    "SELECT s.memory_ref, e.id, e.scope_id, e.row_id, e.rev_from, e.rev_to, e.erased_at IS NOT NULL, e.created_at, e.expires_at,
       CASE WHEN w.whole THEN e.content ELSE ''::bytea END, CASE WHEN w.whole THEN e.tags ELSE '' END,
       CASE WHEN w.whole THEN e.metadata END, e.removed_reason, e.support, e.replaced_by,
       e.replaced_by IS NOT NULL AND coalesce((SELECT r.erased_at IS NOT NULL FROM remem.entry r
         WHERE r.tenant_id = $1 AND r.scope_id = e.scope_id AND r.row_id = e.replaced_by), false),
       w.whole AND EXISTS (SELECT 1 FROM remem.entry d WHERE d.tenant_id = $1 AND d.scope_id = e.scope_id
         AND d.replaced_by = e.row_id AND d.replaced_by IS NOT NULL AND d.erased_at IS NULL), e.removed_by_run,
       e.tier = 'persistent', e.valid_at, e.invalid_at, e.ended_at, e.evidence, w.whole AND EXISTS (SELECT 1 FROM remem.action_link l
         WHERE l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id)
     FROM unnest($2::text[], $3::bytea[], $4::bool[]) AS w (memory_ref, id_hash, whole)
     JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
     CROSS JOIN LATERAL (SELECT * FROM remem.entry e
       WHERE e.tenant_id = $1 AND e.scope_id = s.scope_id AND e.id_hash = w.id_hash OFFSET 0) e";
const REPEATS: &str =
    "SELECT i.operation, i.key, i.body, i.at, i.revision, i.outcomes FROM unnest($2::text[], $3::bytea[]) AS w (operation, key)
     JOIN remem.idempotency i ON i.tenant_id = $1 AND i.operation = w.operation AND i.key = w.key";
const RECORDS: &str = "SELECT r.kind, r.key, r.version, r.source_scope, r.source_row FROM unnest($2::text[], $3::text[]) AS w (kind, key)
     JOIN remem.record r ON r.tenant_id = $1 AND r.kind = w.kind AND r.key = w.key
     UNION ALL SELECT r.kind, r.key, r.version, NULL, NULL FROM unnest($2::text[], $3::text[]) AS w (kind, key)
     JOIN remem.review r ON r.tenant_id = $1 AND r.kind = w.kind AND r.key = w.key";
const FENCES: &str =
    "SELECT pass, fence FROM remem.lease WHERE tenant_id = $1 AND pass = ANY($2) FOR SHARE";

const RUNS: &str = "SELECT w.run, coalesce((SELECT max(run_seq) + 1 FROM remem.event e WHERE e.tenant_id = $1 AND e.run_id = w.run), 0)
     FROM unnest($2::text[]) AS w (run)";
const RULES: &str = "SELECT r.world, r.id FROM unnest($2::text[], $3::text[]) AS w (world, id)
     JOIN remem.rule r ON r.tenant_id = $1 AND r.world = w.world AND r.id = w.id";
const LINKS: &str = "SELECT l.scope_id, l.row_id, l.action, l.reference FROM unnest($2::text[], $3::bytea[]) AS w (memory_ref, id_hash)
     JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = s.scope_id AND e.id_hash = w.id_hash
     JOIN remem.action_link l ON l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id";
const SNAPSHOTS: &str = "SELECT run_id, revision FROM remem.snapshot WHERE tenant_id = $1";
const FIRST_ENDED: &str = "SELECT min(rev_to) FROM remem.entry WHERE tenant_id = $1 AND erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed')";

/// The keys of all rows that a group needs, as parameters of the statements.
struct NeededRows<'a> {
    refs: Vec<&'a str>,
    entry_refs: Vec<&'a str>,
    entry_ids: Vec<Vec<u8>>,
    entry_whole: Vec<bool>,
    operations: Vec<&'a str>,
    keys: Vec<&'a [u8]>,
    record_kinds: Vec<&'static str>,
    record_keys: Vec<&'a str>,
    passes: Vec<&'a str>,
    runs: Vec<&'a str>,
    worlds: Vec<&'a str>,
    rules: Vec<&'a str>,
    /// Whether actions are linked.
    links: bool,
    /// Whether something is removed, or a snapshot closed.
    ends: bool,
}

/// The keys while they are collected: each once. Of an entry also whether its whole row is needed.
#[derive(Default)]
struct RowNames<'a> {
    refs: HashSet<&'a str>,
    entries: HashMap<(&'a str, &'a str), bool>,
    records: HashSet<(&'static str, &'a str)>,
    rules: HashSet<(&'a str, &'a str)>,
    links: bool,
    ends: bool,
}

impl<'a> RowNames<'a> {
    fn add_entry(&mut self, memory_ref: &'a MemoryRef, id: &'a EntryId) {
        self.entries
            .entry((memory_ref.as_str(), id.as_str()))
            .or_insert(false);
    }

    /// An entry that may be removed, so that its whole row is needed.
    fn add_removable(&mut self, memory_ref: &'a MemoryRef, id: &'a EntryId) {
        self.ends = true;
        self.entries
            .insert((memory_ref.as_str(), id.as_str()), true);
    }

    fn add_change(&mut self, change: &'a Change) {
        self.refs.extend(change.memory_ref().map(MemoryRef::as_str));
        match change {
            Change::Put {
                id,
                admitted,
                sources,
                ..
            } => {
                if admitted.origin().is_some() {
                    self.add_entry(&admitted.scope().memory_ref, id);
                }
                sources
                    .iter()
                    .for_each(|(memory_ref, source)| self.add_entry(memory_ref, source));
            }
            Change::Emit { .. } => {}
            Change::SetRule { world, id, .. } | Change::RewriteRule { world, id, .. } => {
                self.rules.insert((world.as_str(), id.as_str()));
            }
            Change::SetEvidence { memory_ref, id, .. }
            | Change::StoreSignature { memory_ref, id, .. }
            | Change::StoreEmbedding { memory_ref, id, .. } => {
                self.add_entry(memory_ref, id);
            }
            Change::Retire {
                memory_ref, id, by, ..
            } => {
                self.add_removable(memory_ref, id);
                self.add_entry(memory_ref, by);
            }
            Change::Close {
                memory_ref, id, by, ..
            } => {
                self.add_removable(memory_ref, id);
                by.iter().for_each(|by| self.add_entry(memory_ref, by));
            }
            Change::HoldSnapshot | Change::ReleaseSnapshot => self.ends = true,
            Change::Rewrite { id, admitted } => {
                self.entries
                    .insert((admitted.scope().memory_ref.as_str(), id.as_str()), true);
            }
            Change::SetRecord {
                kind, key, ties, ..
            } => {
                self.records.insert((kind.as_str(), key.as_str()));
                ties.source
                    .iter()
                    .for_each(|(memory_ref, id)| self.add_entry(memory_ref, id));
            }
            Change::LinkAction { memory_ref, id, .. } => {
                self.links = true;
                self.add_removable(memory_ref, id);
            }
            Change::RewriteAction { memory_ref, id, .. } => {
                self.links = true;
                self.add_entry(memory_ref, id);
            }
            Change::Delete { memory_ref, id }
            | Change::Expire { memory_ref, id }
            | Change::Erase { memory_ref, id }
            | Change::Forget { memory_ref, id }
            | Change::EndWithSession { memory_ref, id }
            | Change::EraseHistory { memory_ref, id, .. }
            | Change::Revive { memory_ref, id } => self.add_removable(memory_ref, id),
        }
    }
}

impl<'a> NeededRows<'a> {
    fn of(group: &[&'a Batch]) -> NeededRows<'a> {
        let mut names = RowNames::default();
        let mut keys = HashSet::new();
        let mut passes = HashSet::new();
        let mut runs = HashSet::new();
        for batch in group {
            batch
                .changes()
                .iter()
                .for_each(|change| names.add_change(change));
            for expected in batch.expectations() {
                names.refs.insert(expected.memory_ref.as_str());
                names.add_entry(&expected.memory_ref, &expected.id);
            }
            names.records.extend(
                batch
                    .record_expectations()
                    .iter()
                    .map(|expected| (expected.kind.as_str(), expected.key.as_str())),
            );
            keys.extend(
                batch
                    .idempotency()
                    .map(|key| (key.operation, key.key.as_slice())),
            );
            passes.extend(batch.fence().map(|fence| fence.pass));
            runs.extend(batch.run().map(RunId::as_str));
        }
        let RowNames {
            refs,
            entries,
            records,
            rules,
            links,
            ends,
        } = names;
        NeededRows {
            refs: refs.into_iter().collect(),
            entry_refs: entries.keys().map(|(memory_ref, _)| *memory_ref).collect(),
            entry_ids: entries
                .keys()
                .map(|(_, id)| content_hash(id.as_bytes()).to_vec())
                .collect(),
            entry_whole: entries.values().copied().collect(),
            operations: keys.iter().map(|(operation, _)| *operation).collect(),
            keys: keys.iter().map(|(_, key)| *key).collect(),
            record_kinds: records.iter().map(|(kind, _)| *kind).collect(),
            record_keys: records.iter().map(|(_, key)| *key).collect(),
            passes: passes.into_iter().collect(),
            runs: runs.into_iter().collect(),
            worlds: rules.iter().map(|(world, _)| *world).collect(),
            rules: rules.iter().map(|(_, rule)| *rule).collect(),
            links,
            ends,
        }
    }

    /// The clock comes first: once its row is locked, the later statements see the result of the
    /// last commit.
    fn calls(&'a self, tenant: &'a &'a str) -> Vec<SqlCall<'a>> {
        let mut calls = vec![
            sql_call(LOCK_CLOCK, &[tenant]),
            sql_call(SCOPES, &[tenant, &self.refs]),
        ];
        if !self.entry_refs.is_empty() {
            calls.push(sql_call(
                ENTRIES,
                &[tenant, &self.entry_refs, &self.entry_ids, &self.entry_whole],
            ));
        }
        if !self.keys.is_empty() {
            calls.push(sql_call(REPEATS, &[tenant, &self.operations, &self.keys]));
        }
        if !self.record_keys.is_empty() {
            calls.push(sql_call(
                RECORDS,
                &[tenant, &self.record_kinds, &self.record_keys],
            ));
        }
        if !self.passes.is_empty() {
            calls.push(sql_call(FENCES, &[tenant, &self.passes]));
        }
        if !self.runs.is_empty() {
            calls.push(sql_call(RUNS, &[tenant, &self.runs]));
        }
        if !self.rules.is_empty() {
            calls.push(sql_call(RULES, &[tenant, &self.worlds, &self.rules]));
        }
        if self.links {
            calls.push(sql_call(
                LINKS,
                &[tenant, &self.entry_refs, &self.entry_ids],
            ));
        }
        if self.ends {
            calls.extend([
                sql_call(SNAPSHOTS, &[tenant]),
                sql_call(FIRST_ENDED, &[tenant]),
            ]);
        }
        calls
    }
}

/// Opens the group's transaction, locks the tenant's clock and reads the rows that the batches
/// name.
pub(super) async fn load(
    gate: &Gate,
    tenant: &TenantId,
    group: &[&Batch],
) -> Result<(Transaction, GroupState), StoreError> {
    let wanted = NeededRows::of(group);
    let name = tenant.as_str();
    let actor = group
        .iter()
        .find(|batch| batch.touches_user_memory())
        .map_or(Actor::NoUser, |batch| batch.actor());
    let (transaction, mut results) = gate
        .open(
            "BEGIN",
            Role::App,
            Identity::as_actor(tenant, &actor),
            wanted.calls(&name),
        )
        .await?;
    if results[0].is_empty() {
        // The tenant's first write. The rows above were read without the lock: read them again.
        let zeros = [0u8; 32].to_vec();
        let mut calls = vec![sql_call(START_CLOCK, &[&name, &zeros])];
        calls.extend(wanted.calls(&name));
        results = transaction
            .run(calls)
            .await
            .map_err(super::gate::TripError::into_store)?;
        results.remove(0);
    }
    let mut working = read_state(&wanted, results)?;
    if actor != Actor::Host {
        // Memories of single users are not visible to this actor, and some of their entries may
        // have been removed: an unnecessary scrub does no harm.
        working.first_ended = Some(0);
    }
    Ok((transaction, working))
}

fn read_state(wanted: &NeededRows<'_>, results: Vec<Vec<Row>>) -> Result<GroupState, StoreError> {
    let mut results = results.into_iter();
    let mut next = move || results.next().unwrap_or_default();
    let clock = next()
        .first()
        .map(read_clock)
        .transpose()?
        .ok_or(StoreError::Damaged("a tenant has no clock"))?;
    let mut working = GroupState {
        clock,
        scopes: next().iter().map(read_scope).collect::<Result<_, _>>()?,
        entries: HashMap::new(),
        stored_results: HashMap::new(),
        records: HashMap::new(),
        fences: HashMap::new(),
        run_lengths: HashMap::new(),
        links: HashSet::new(),
        rules: HashSet::new(),
        snapshots: HashMap::new(),
        erased_rows: HashSet::new(),
        first_ended: None,
        vectors: false,
    };
    if !wanted.entry_refs.is_empty() {
        working.entries = next().iter().map(read_entry).collect::<Result<_, _>>()?;
    }
    if !wanted.keys.is_empty() {
        working.stored_results = next()
            .iter()
            .map(read_stored_result)
            .collect::<Result<_, _>>()?;
    }
    if !wanted.record_keys.is_empty() {
        working.records = next().iter().map(read_record).collect::<Result<_, _>>()?;
    }
    if !wanted.passes.is_empty() {
        working.fences = next()
            .iter()
            .map(|row| Ok((get(row, 0)?, get_u64(row, 1)?)))
            .collect::<Result<_, StoreError>>()?;
    }
    if !wanted.runs.is_empty() {
        working.run_lengths = next()
            .iter()
            .map(|row| Ok((get(row, 0)?, get_u64(row, 1)?)))
            .collect::<Result<_, StoreError>>()?;
    }
    if !wanted.rules.is_empty() {
        working.rules = next()
            .iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
            .collect::<Result<_, StoreError>>()?;
    }
    if wanted.links {
        working.links = next()
            .iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?)))
            .collect::<Result<_, StoreError>>()?;
    }
    if wanted.ends {
        working.snapshots = next()
            .iter()
            .map(|row| Ok((get(row, 0)?, get(row, 1)?)))
            .collect::<Result<_, StoreError>>()?;
        working.first_ended = next().first().map_or(Ok(None), |row| get(row, 0))?;
    }
    Ok(working)
}

pub(super) fn read_clock(row: &Row) -> Result<TenantClock, StoreError> {
    Ok(TenantClock {
        revision: Revision(get_u64(row, 0)?),
        seq: Seq(get_u64(row, 1)?),
        at: Timestamp(get(row, 2)?),
        chain: get_bytes(row, 3)?,
        scopes: get(row, 4)?,
    })
}

fn parsed_name<T>(parsed: Option<T>) -> Result<T, StoreError> {
    parsed.ok_or(StoreError::Damaged("a name is malformed"))
}

fn read_scope(row: &Row) -> Result<(MemoryRef, LoadedScope), StoreError> {
    let scope = LoadedScope {
        scope_id: get(row, 1)?,
        documents: get(row, 2)?,
        words: get(row, 3)?,
        next_row: get(row, 4)?,
        changed: false,
        new: false,
    };
    Ok((parsed_name(MemoryRef::parse(get(row, 0)?))?, scope))
}

fn read_entry(row: &Row) -> Result<((MemoryRef, EntryId), LoadedEntry), StoreError> {
    let loaded = LoadedEntry {
        scope_id: get(row, 2)?,
        row_id: get(row, 3)?,
        rev_from: get(row, 4)?,
        rev_to: get(row, 5)?,
        erased: get(row, 6)?,
        created_at: get(row, 7)?,
        expires_at: get(row, 8)?,
        content: get(row, 9)?,
        tags: get(row, 10)?,
        metadata: get(row, 11)?,
        reason: get(row, 12)?,
        support: get(row, 13)?,
        replaced_by: get(row, 14)?,
        replacement_erased: get(row, 15)?,
        stands_for_others: get(row, 16)?,
        removed_by_run: get(row, 17)?,
        persistent: get(row, 18)?,
        valid_at: get(row, 19)?,
        invalid_at: get(row, 20)?,
        ended_at: get(row, 21)?,
        evidence: get(row, 22)?,
        linked: get(row, 23)?,
    };
    Ok((
        (
            parsed_name(MemoryRef::parse(get(row, 0)?))?,
            parsed_name(EntryId::parse(get(row, 1)?))?,
        ),
        loaded,
    ))
}

fn read_record(row: &Row) -> Result<((RecordKind, String), LoadedRecord), StoreError> {
    let kind: &str = get(row, 0)?;
    let kind = parsed_name(
        RecordKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind),
    )?;
    let scope: Option<i64> = get(row, 3)?;
    let source: Option<i64> = get(row, 4)?;
    Ok((
        (kind, get(row, 1)?),
        LoadedRecord {
            version: get_u64(row, 2)?,
            source: scope.zip(source),
        },
    ))
}

fn read_stored_result(row: &Row) -> Result<((String, [u8; 32]), StoredResult), StoreError> {
    let stored = StoredResult {
        body: get_bytes(row, 2)?,
        at: Timestamp(get(row, 3)?),
        revision: Revision(get_u64(row, 4)?),
        outcomes: get(row, 5)?,
    };
    Ok(((get(row, 0)?, get_bytes(row, 1)?), stored))
}
