//! Writes a page of copied entries (see `crate::copy`): one transaction that looks up the entries
//! that exist already, and writes the others with their tags, search index and counters, by the
//! statements that a commit uses. Two copies that run at once lock each other out, page by page.

use super::columns::{
    EntryColumns, RecordColumns, RewriteColumns, ScopeColumns, SnapshotColumns, StateColumns,
};
use super::gate::{Gate, Identity, Role, SqlCall, TripError, sql_call};
use super::rows::get;
use super::save::{self, EntryStateRow, GroupColumns, GroupWrites, NewText};
use crate::copy::rows::EntryRow;
use crate::stored::content_hash;
use crate::terms;
use remem_core::TenantId;
use remem_store::StoreError;
use std::collections::HashMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Plans are made for each execution, because tables that are being filled outgrow cached ones;
/// large pages may need long.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = '5min'; SET LOCAL idle_in_transaction_session_timeout = '5min';
     SET LOCAL lock_timeout = '5min'; SET LOCAL plan_cache_mode = force_custom_plan";
const LOCK_COPY: &str = "SELECT pg_advisory_xact_lock(hashtextextended('remem copy ' || $1, 0))";
/// Finds the entries of a page that exist already, and their differences. The redaction rules may
/// have changed and changed back since: the text itself is compared (its hash is null once it is
/// erased), not only the fingerprint of the rules that it was scanned with.
const FIND_EXISTING: &str = "SELECT e.scope_id, e.id_hash, e.row_id, e.erased_at IS NOT NULL, o.moved, o.other,
       CASE WHEN o.other THEN e.content ELSE ''::bytea END, CASE WHEN o.other THEN e.tags ELSE '[]' END,
       CASE WHEN e.removed_reason = 'superseded' AND w.removed_reason = 'superseded' THEN e.replaced_by END
     FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::text[],
         $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[])
       AS w (scope_id, id_hash, scan, content_hash, tags, metadata, rev_from, rev_to, removed_reason, removed_by_run, support, valid_at,
         invalid_at, ended_at, evidence)
     JOIN remem.entry e ON e.tenant_id = $1 AND e.scope_id = w.scope_id AND e.id_hash = w.id_hash
     CROSS JOIN LATERAL (SELECT (w.scan, w.content_hash, w.tags, w.metadata) IS DISTINCT FROM
       (e.scan, e.content_hash, e.tags, e.metadata) AS other,
       (w.rev_from, w.rev_to, w.removed_reason, w.removed_by_run, w.support, w.valid_at, w.invalid_at, w.ended_at, w.evidence)
       IS DISTINCT FROM (e.rev_from, e.rev_to, e.removed_reason, e.removed_by_run, e.support, e.valid_at, e.invalid_at, e.ended_at,
         e.evidence) AS moved) o";
/// An entry's window may have moved to where another one is that moves only with a later page, and
/// a slot may have one entry at any instant. The slot is restored when all entries are copied.
const CLEAR_SLOTS: &str = "UPDATE remem.entry e SET slot = NULL FROM unnest($2::bigint[], $3::bigint[]) AS o (scope_id, row_id)
     WHERE e.tenant_id = $1 AND e.scope_id = o.scope_id AND e.row_id = o.row_id AND e.slot IS NOT NULL";
const COUNTERS: &str = "SELECT scope_id, documents, words, next_row FROM remem.scope WHERE tenant_id = $1 AND scope_id = ANY($2)";
const COUNT: &str = "UPDATE remem.scope s SET documents = n.documents, words = n.words, next_row = n.next_row
     FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) AS n (scope_id, documents, words, next_row)
     WHERE s.tenant_id = $1 AND s.scope_id = n.scope_id";
const INSERT: &str = "INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, metadata,
       created_at, expires_at, written_by, written_by_run, scan, content_hash, rev_from, rev_to, removed_reason, erased_at,
       removed_by_run, support, owner, session, interaction, world, valid_at, invalid_at, ended_at, trust, evidence)
     SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::bytea[], $9::text[],
       $10::text[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::bigint[], $16::bytea[], $17::bigint[], $18::bigint[],
       $19::text[], $20::bigint[], $21::text[], $22::bigint[], $23::text[], $24::text[], $25::text[], $26::text[], $27::bigint[],
       $28::bigint[], $29::bigint[], $30::text[], $31::text[])";

type IdHash = [u8; 16];

/// An entry that exists in the target.
struct ExistingEntry {
    row_id: i64,
    erased: bool,
    /// Whether it was removed, revived or merged at the source since.
    state_differs: bool,
    /// Whether the source has erased it, holds another text, or the same text scanned with other
    /// rules.
    text_differs: bool,
    /// The stored text, loaded only if `text_differs`.
    content: Vec<u8>,
    tags: Vec<String>,
    /// The row that replaced it, if that is final.
    by: Option<i64>,
}

#[derive(Default)]
struct Counters {
    documents: i64,
    words: i64,
    next_row: i64,
}

/// The changes that a page makes.
#[derive(Default)]
struct Changes<'a> {
    new: Vec<(i64, IdHash, &'a EntryRow)>,
    index: GroupWrites<'a>,
    counters: HashMap<i64, Counters>,
}

/// Copies a page of entries.
pub(crate) async fn put_entries(
    gate: &Gate,
    tenant: &TenantId,
    page: &[EntryRow],
) -> Result<(), StoreError> {
    let name = tenant.as_str();
    let hashes: Vec<IdHash> = page
        .iter()
        .map(|row| content_hash(row.id.as_bytes()))
        .collect();
    let scopes: Vec<i64> = page.iter().map(|row| row.scope_id).collect();
    let ids: Vec<&[u8]> = hashes.iter().map(<[u8; 16]>::as_slice).collect();
    let (scans, texts): (Vec<i64>, Vec<_>) = page
        .iter()
        .map(|row| (row.scan, row.content_hash.as_deref()))
        .unzip();
    let (tags, notes): (Vec<&str>, Vec<_>) = page
        .iter()
        .map(|row| (row.tags.as_str(), row.metadata.as_deref()))
        .unzip();
    let (from, to): (Vec<i64>, Vec<_>) = page.iter().map(|row| (row.rev_from, row.rev_to)).unzip();
    let (reasons, runs): (Vec<_>, Vec<_>) = page
        .iter()
        .map(|row| (row.removed_reason.as_deref(), row.removed_by_run.as_deref()))
        .unzip();
    let support: Vec<i64> = page.iter().map(|row| row.support).collect();
    let (valid, invalid): (Vec<_>, Vec<_>) = page
        .iter()
        .map(|row| (row.valid_at, row.invalid_at))
        .unzip();
    let (ended, evidence): (Vec<_>, Vec<&str>) = page
        .iter()
        .map(|row| (row.ended_at, row.evidence.as_str()))
        .unzip();
    let texts = (&texts, &tags, &notes);
    let ends = (&from, &to, &reasons, &runs, &support);
    let window = (&valid, &invalid, &ended, &evidence);
    let values: [&(dyn ToSql + Sync); 16] = [
        &name, &scopes, &ids, &scans, texts.0, texts.1, texts.2, ends.0, ends.1, ends.2, ends.3,
        ends.4, window.0, window.1, window.2, window.3,
    ];
    let find_existing = sql_call(FIND_EXISTING, &values);
    let calls = vec![
        sql_call(LOCK_COPY, &[&name]),
        find_existing,
        sql_call(COUNTERS, &[&name, &scopes]),
    ];
    let (transaction, results) = gate
        .open(BEGIN, Role::App, Identity::as_host(tenant), calls)
        .await?;
    let mut changes = Changes::default();
    for row in &results[2] {
        changes.counters.insert(
            get(row, 0)?,
            Counters {
                documents: get(row, 1)?,
                words: get(row, 2)?,
                next_row: get(row, 3)?,
            },
        );
    }
    let there = results[1]
        .iter()
        .map(read_existing)
        .collect::<Result<HashMap<_, _>, StoreError>>()?;
    for (row, hash) in page.iter().zip(&hashes) {
        match there.get(&(row.scope_id, *hash)) {
            None => changes.insert(row, *hash)?,
            Some(old) if !old.erased => changes.change(row, old),
            Some(_) => {}
        }
    }
    let columns = CopyColumns::of(&changes);
    let none = ScopeColumns::default();
    let no_entries = EntryColumns::of(&[]);
    let rewrites = RewriteColumns::of(&changes.index);
    let states = StateColumns::of(&changes.index);
    let saving = GroupColumns {
        tenant: &name,
        new_scopes: &none,
        old_scopes: &none,
        entries: &no_entries,
        records: &RecordColumns::default(),
        reviews: &RecordColumns::default(),
        snapshots: &SnapshotColumns::default(),
        rewrites: &rewrites,
        states: &states,
        clock: None,
    };
    let mut calls = columns.statements(&name);
    calls.extend(save::statements(&saving, &changes.index));
    transaction
        .commit(calls)
        .await
        .map_err(TripError::into_store)?;
    Ok(())
}

fn read_existing(row: &Row) -> Result<((i64, IdHash), ExistingEntry), StoreError> {
    let damaged = || StoreError::Damaged("an entry cannot be read");
    let hash: IdHash = get::<&[u8]>(row, 1)?.try_into().map_err(|_| damaged())?;
    let tags = serde_json::from_str(get(row, 7)?).map_err(|_| damaged())?;
    let content = get(row, 6)?;
    let by = get(row, 8)?;
    let there = ExistingEntry {
        row_id: get(row, 2)?,
        erased: get(row, 3)?,
        state_differs: get(row, 4)?,
        text_differs: get(row, 5)?,
        content,
        tags,
        by,
    };
    Ok(((get(row, 0)?, hash), there))
}

impl<'a> Changes<'a> {
    fn insert(&mut self, row: &'a EntryRow, hash: IdHash) -> Result<(), StoreError> {
        let counters = self
            .counters
            .get_mut(&row.scope_id)
            .ok_or(StoreError::Damaged("an entry has no memory"))?;
        let row_id = counters.next_row;
        counters.next_row += 1;
        self.new.push((row_id, hash, row));
        if row.erased_at.is_some() {
            return Ok(());
        }
        let words = terms::count_words(&row.content);
        counters.documents += 1;
        counters.words += i64::from(words.total);
        let tags: Vec<String> = serde_json::from_str(&row.tags)
            .map_err(|_| StoreError::Damaged("an entry cannot be read"))?;
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        self.index.postings(row.scope_id, row_id, &words);
        self.index
            .tags(row.scope_id, row_id, &tags, row.created_at, &row.id);
        Ok(())
    }

    /// Applies changes at the source to an entry that an earlier copy brought: it was removed,
    /// erased, redacted or revived since. The row that replaces it is written when all entries are
    /// copied.
    fn change(&mut self, row: &'a EntryRow, old: &ExistingEntry) {
        if old.state_differs {
            let state = EntryStateRow {
                rev_from: row.rev_from,
                rev_to: row.rev_to,
                reason: row.removed_reason.clone(),
                run: row.removed_by_run.clone(),
                by: old.by,
                support: row.support,
                valid_at: row.valid_at,
                invalid_at: row.invalid_at,
                ended_at: row.ended_at,
                evidence: row.evidence.clone(),
            };
            self.index.states.insert((row.scope_id, old.row_id), state);
        }
        if !old.text_differs {
            return;
        }
        self.index.delete_signature(row.scope_id, old.row_id);
        self.index.vectors.delete_vectors(row.scope_id, old.row_id);
        let text = NewText {
            scan: row.scan,
            content: row.content.clone(),
            tags: row.tags.clone(),
            metadata: row.metadata.clone(),
            world: row.world.clone(),
            slot: None, // restored when all windows are copied
            interaction: row.interaction.clone(),
        };
        self.index.rewrites.insert((row.scope_id, old.row_id), text);
        let words = terms::count_words(&String::from_utf8_lossy(&old.content));
        let counters = self.counters.entry(row.scope_id).or_default();
        counters.words -= i64::from(words.total);
        if let Some(at) = row.erased_at {
            counters.documents -= 1;
            self.index.delete_postings(row.scope_id, old.row_id, &words);
            self.index
                .delete_tags(row.scope_id, old.row_id, &old.tags, row.created_at, &row.id);
            self.index.erase(row.scope_id, old.row_id, at);
            let row_key = (row.scope_id, old.row_id);
            self.index.workshop.caller_texts.blank_action_texts(row_key);
            return;
        }
        let new = terms::count_words(&row.content);
        let tags = serde_json::from_str::<Vec<String>>(&row.tags).unwrap_or_default();
        let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
        counters.words += i64::from(new.total);
        self.index.reindex(
            row.scope_id,
            old.row_id,
            &words,
            &old.tags,
            row.created_at,
            &row.id,
        );
        self.index.postings(row.scope_id, old.row_id, &new);
        self.index
            .tags(row.scope_id, old.row_id, &tags, row.created_at, &row.id);
    }
}

/// New rows and changed counters, column by column.
struct CopyColumns<'a> {
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
    content_hash: Vec<Option<&'a [u8]>>,
    rev_from: Vec<i64>,
    rev_to: Vec<Option<i64>>,
    removed_reason: Vec<Option<&'a str>>,
    erased_at: Vec<Option<i64>>,
    removed_by_run: Vec<Option<&'a str>>,
    support: Vec<i64>,
    owner: Vec<Option<&'a str>>,
    session: Vec<Option<&'a str>>,
    interaction: Vec<Option<&'a str>>,
    world: Vec<Option<&'a str>>,
    valid_at: Vec<Option<i64>>,
    invalid_at: Vec<Option<i64>>,
    ended_at: Vec<Option<i64>>,
    trust: Vec<&'a str>,
    evidence: Vec<&'a str>,
    /// Entries that lose their slot until all are copied.
    moved: (Vec<i64>, Vec<i64>),
    counters: [Vec<i64>; 4],
}

impl<'a> CopyColumns<'a> {
    fn of(changes: &'a Changes<'a>) -> CopyColumns<'a> {
        let new = &changes.new;
        let counters = |field: fn(&Counters) -> i64| changes.counters.values().map(field).collect();
        CopyColumns {
            scope: new.iter().map(|(_, _, e)| e.scope_id).collect(),
            row: new.iter().map(|(row, _, _)| *row).collect(),
            id: new.iter().map(|(_, _, e)| e.id.as_str()).collect(),
            id_hash: new.iter().map(|(_, hash, _)| hash.as_slice()).collect(),
            tier: new.iter().map(|(_, _, e)| e.tier.as_str()).collect(),
            typology: new.iter().map(|(_, _, e)| e.typology.as_str()).collect(),
            content: new.iter().map(|(_, _, e)| e.content.as_bytes()).collect(),
            tags: new.iter().map(|(_, _, e)| e.tags.as_str()).collect(),
            metadata: new.iter().map(|(_, _, e)| e.metadata.as_deref()).collect(),
            created_at: new.iter().map(|(_, _, e)| e.created_at).collect(),
            expires_at: new.iter().map(|(_, _, e)| e.expires_at).collect(),
            written_by: new
                .iter()
                .map(|(_, _, e)| e.written_by.as_deref())
                .collect(),
            written_by_run: new
                .iter()
                .map(|(_, _, e)| e.written_by_run.as_deref())
                .collect(),
            scan: new.iter().map(|(_, _, e)| e.scan).collect(),
            content_hash: new
                .iter()
                .map(|(_, _, e)| e.content_hash.as_deref())
                .collect(),
            rev_from: new.iter().map(|(_, _, e)| e.rev_from).collect(),
            rev_to: new.iter().map(|(_, _, e)| e.rev_to).collect(),
            removed_reason: new
                .iter()
                .map(|(_, _, e)| e.removed_reason.as_deref())
                .collect(),
            erased_at: new.iter().map(|(_, _, e)| e.erased_at).collect(),
            removed_by_run: new
                .iter()
                .map(|(_, _, e)| e.removed_by_run.as_deref())
                .collect(),
            support: new.iter().map(|(_, _, e)| e.support).collect(),
            owner: new.iter().map(|(_, _, e)| e.owner.as_deref()).collect(),
            session: new.iter().map(|(_, _, e)| e.session.as_deref()).collect(),
            interaction: new
                .iter()
                .map(|(_, _, e)| e.interaction.as_deref())
                .collect(),
            world: new.iter().map(|(_, _, e)| e.world.as_deref()).collect(),
            valid_at: new.iter().map(|(_, _, e)| e.valid_at).collect(),
            invalid_at: new.iter().map(|(_, _, e)| e.invalid_at).collect(),
            ended_at: new.iter().map(|(_, _, e)| e.ended_at).collect(),
            trust: new.iter().map(|(_, _, e)| e.trust.as_str()).collect(),
            evidence: new.iter().map(|(_, _, e)| e.evidence.as_str()).collect(),
            moved: changes.index.states.keys().copied().unzip(),
            counters: [
                changes.counters.keys().copied().collect(),
                counters(|c| c.documents),
                counters(|c| c.words),
                counters(|c| c.next_row),
            ],
        }
    }

    fn statements(&'a self, tenant: &'a &'a str) -> Vec<SqlCall<'a>> {
        let e = self;
        let [scope, documents, words, next_row] = &self.counters;
        let insert = sql_call(
            INSERT,
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
                &e.rev_from,
                &e.rev_to,
                &e.removed_reason,
                &e.erased_at,
                &e.removed_by_run,
                &e.support,
                &e.owner,
                &e.session,
                &e.interaction,
                &e.world,
                &e.valid_at,
                &e.invalid_at,
                &e.ended_at,
                &e.trust,
                &e.evidence,
            ],
        );
        vec![
            insert,
            sql_call(CLEAR_SLOTS, &[tenant, &e.moved.0, &e.moved.1]),
            sql_call(COUNT, &[tenant, scope, documents, words, next_row]),
        ]
    }
}
