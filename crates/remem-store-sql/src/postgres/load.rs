//! Loads the rows that a group of batches needs (`Wanted`): the clock, locked, and what the batches
//! name with its neighbourhood. One round trip, unless an entry has thousands of neighbours.

use super::answers::AnswerKeys;
use super::gate::{Gate, Identity, Role, SqlCall, Transaction, TripError, sql_call};
use super::rows::{get, get_bytes, get_u64};
use crate::rows::entry::{self, ColumnReader, WIDTH};
use crate::stored::{content_hash, outcomes_from_stored};
use remem_core::ledger::{
    EntryNeed, LinkKey, LinkRow, MemoryRow, RecordRow, RowKey, RowNumbers, RuleRow, SnapshotRow,
    StoredResult, TenantClock, Wanted, Working,
};
use remem_core::{
    Actor, Batch, EntryId, MemoryRef, RecordKind, Revision, RuleId, RunId, Seq, TenantId,
    Timestamp, WorldId, sabotage,
};
use remem_store::StoreError;
use std::sync::LazyLock;
use tokio_postgres::Row;

/// The most rows that one statement loads of what belongs to the named entries; it is repeated
/// from the last row on until there are no more.
const PAGE_ROWS: i64 = 10_000;

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

const LOCK_CLOCK: &str = "SELECT revision, seq, at, chain, scopes FROM remem.tenant_clock WHERE tenant_id = $1 FOR NO KEY UPDATE";
/// The clock of a tenant that has none yet. Every row of a tenant takes its name from it.
pub(crate) const START_CLOCK: &str = "INSERT INTO remem.tenant_clock (tenant_id, revision, seq, at, chain) VALUES ($1, 0, 0, 0, $2) ON CONFLICT DO NOTHING";
/// The hash before the first event of a chain.
pub(crate) const NO_CHAIN: &[u8] = &[0; 32];
const MEMORIES: &str = "SELECT memory_ref, scope_id, next_row FROM remem.scope WHERE tenant_id = $1 AND memory_ref = ANY($2)";
const RESULTS: &str =
    "SELECT i.operation, i.key, i.body, i.at, i.revision, i.outcomes FROM unnest($2::text[], $3::bytea[]) AS w (operation, key)
     JOIN remem.idempotency i ON i.tenant_id = $1 AND i.operation = w.operation AND i.key = w.key";
const RECORDS: &str = "SELECT r.kind, r.key, r.version, r.due, r.topic, r.source_scope, r.source_row
     FROM unnest($2::text[], $3::text[]) AS w (kind, key)
     JOIN remem.record r ON r.tenant_id = $1 AND r.kind = w.kind AND r.key = w.key
     UNION ALL SELECT r.kind, r.key, r.version, r.due, NULL, NULL, NULL FROM unnest($2::text[], $3::text[]) AS w (kind, key)
     JOIN remem.review r ON r.tenant_id = $1 AND r.kind = w.kind AND r.key = w.key";
const LEASES: &str =
    "SELECT pass, fence FROM remem.lease WHERE tenant_id = $1 AND pass = ANY($2) FOR SHARE";
const RUNS: &str = "SELECT w.run, coalesce((SELECT max(run_seq) + 1 FROM remem.event e WHERE e.tenant_id = $1 AND e.run_id = w.run), 0)
     FROM unnest($2::text[]) AS w (run)";
const RULES: &str =
    "SELECT r.world, r.id, r.body FROM unnest($2::text[], $3::text[]) AS w (world, id)
     JOIN remem.rule r ON r.tenant_id = $1 AND r.world = w.world AND r.id = w.id";
const SNAPSHOTS: &str = "SELECT run_id, revision, at FROM remem.snapshot WHERE tenant_id = $1";
const FIRST_REMOVED: &str = "SELECT min(rev_to) FROM remem.entry WHERE tenant_id = $1 AND erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed')";

/// The rows of the named entries: one look-up each, since the planner would read whole memories.
const NAMED: &str = "SELECT e.* FROM unnest($2::text[], $3::bytea[]) AS w (memory_ref, id_hash)
     JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
     CROSS JOIN LATERAL (SELECT e.scope_id, e.row_id, e.replaced_by FROM remem.entry e
       WHERE e.tenant_id = $1 AND e.scope_id = s.scope_id AND e.id_hash = w.id_hash OFFSET 0) e";
/// Those of the named entries that name a subject.
static SUBJECTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH named AS MATERIALIZED ({NAMED})
         SELECT n.scope_id, n.row_id FROM named n CROSS JOIN LATERAL (SELECT 1 FROM remem.entry_subject g
           WHERE g.tenant_id = $1 AND g.scope_id = n.scope_id AND g.row_id = n.row_id LIMIT 1) g"
    )
});
/// The entries that the row `n` replaced and that still have their text.
const REPLACED: &str = "SELECT d.* FROM remem.entry d WHERE d.tenant_id = $1 AND d.scope_id = n.scope_id AND d.replaced_by = n.row_id
       AND d.replaced_by IS NOT NULL AND d.erased_at IS NULL";

/// The statements that are made from the list of an entry's columns.
struct EntryStatements {
    entries: String,
    neighbours: String,
    links: String,
}

static ENTRY_STATEMENTS: LazyLock<EntryStatements> = LazyLock::new(|| {
    let row = entry::select_list("d", "false");
    EntryStatements {
        entries: format!(
            "SELECT {}, s.memory_ref FROM unnest($2::text[], $3::bytea[], $4::bool[]) AS w (memory_ref, id_hash, with_text)
             JOIN remem.scope s ON s.tenant_id = $1 AND s.memory_ref = w.memory_ref
             CROSS JOIN LATERAL (SELECT * FROM remem.entry e
               WHERE e.tenant_id = $1 AND e.scope_id = s.scope_id AND e.id_hash = w.id_hash OFFSET 0) e",
            entry::select_list("e", "w.with_text")
        ),
        neighbours: format!(
            "WITH named AS MATERIALIZED ({NAMED})
             SELECT {row} FROM (SELECT r.* FROM named n CROSS JOIN LATERAL ({REPLACED} OFFSET 0) r
               WHERE (r.scope_id, r.row_id) > ($4, $5) ORDER BY r.scope_id, r.row_id LIMIT $6) d
             UNION ALL SELECT {row} FROM named n CROSS JOIN LATERAL (SELECT * FROM remem.entry d
               WHERE d.tenant_id = $1 AND d.scope_id = n.scope_id AND d.row_id = n.replaced_by OFFSET 0) d
               WHERE ($4, $5) = (0::bigint, 0::bigint)"
        ),
        links: format!(
            "WITH named AS MATERIALIZED ({NAMED}), wanted AS MATERIALIZED (SELECT scope_id, row_id FROM named
               UNION SELECT r.scope_id, r.row_id FROM named n CROSS JOIN LATERAL ({REPLACED} OFFSET 0) r)
             SELECT l.* FROM (SELECT l.scope_id, l.row_id, l.action, l.reference FROM wanted w
               CROSS JOIN LATERAL (SELECT * FROM remem.action_link l
                 WHERE l.tenant_id = $1 AND l.scope_id = w.scope_id AND l.row_id = w.row_id OFFSET 0) l) l
             WHERE (l.scope_id, l.row_id, l.action, l.reference) > ($4, $5, $6, $7)
             ORDER BY l.scope_id, l.row_id, l.action, l.reference LIMIT $8"
        ),
    }
});

static MADE_RECORDS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "WITH named AS MATERIALIZED ({NAMED})
         SELECT r.kind, r.key, r.version, r.due, r.topic, r.source_scope, r.source_row FROM named n
         CROSS JOIN LATERAL (SELECT * FROM remem.record r WHERE r.tenant_id = $1 AND r.source_scope = n.scope_id
           AND r.source_row = n.row_id AND r.source_row IS NOT NULL OFFSET 0) r
         WHERE (r.kind, r.key) > ($4, $5) ORDER BY r.kind, r.key LIMIT $6"
    )
});

/// The keys of `Wanted` as parameters of the statements.
struct Keys<'a> {
    memories: Vec<&'a str>,
    entries: (Vec<&'a str>, Vec<Vec<u8>>, Vec<bool>),
    endings: (Vec<&'a str>, Vec<Vec<u8>>),
    answers: AnswerKeys<'a>,
    results: (Vec<&'a str>, Vec<&'a [u8]>),
    records: (Vec<&'a str>, Vec<&'a str>),
    leases: Vec<&'a str>,
    runs: Vec<&'a str>,
    rules: (Vec<&'a str>, Vec<&'a str>),
    snapshots: bool,
}

impl<'a> Keys<'a> {
    fn of(wanted: &'a Wanted) -> Keys<'a> {
        let hash = |id: &EntryId| content_hash(id.as_str().as_bytes()).to_vec();
        let mut keys = Keys {
            memories: wanted.memories.iter().map(MemoryRef::as_str).collect(),
            entries: Default::default(),
            endings: Default::default(),
            answers: AnswerKeys::of(wanted),
            results: wanted
                .results
                .iter()
                .map(|(name, key)| (*name, &key[..]))
                .unzip(),
            records: wanted
                .records
                .iter()
                .map(|(kind, key)| (kind.as_str(), key.as_str()))
                .unzip(),
            leases: wanted.leases.iter().copied().collect(),
            runs: wanted.runs.iter().map(RunId::as_str).collect(),
            rules: wanted
                .rules
                .iter()
                .map(|(world, id)| (world.as_str(), id.as_str()))
                .unzip(),
            snapshots: wanted.snapshots,
        };
        for ((memory_ref, id), need) in &wanted.entries {
            keys.entries.0.push(memory_ref.as_str());
            keys.entries.1.push(hash(id));
            keys.entries.2.push(*need >= EntryNeed::Text);
            if *need == EntryNeed::Neighbourhood {
                keys.endings.0.push(memory_ref.as_str());
                keys.endings.1.push(hash(id));
            }
        }
        keys
    }

    /// The clock comes first: once its row is locked, the later statements see the result of the
    /// last commit. Each statement names what reads its rows.
    fn calls(&'a self, tenant: &'a &'a str) -> Vec<(Part, SqlCall<'a>)> {
        let statements = &*ENTRY_STATEMENTS;
        let mut calls = vec![
            (Part::Clock, sql_call(LOCK_CLOCK, &[tenant])),
            (
                Part::Memories,
                sql_call(MEMORIES, &[tenant, &self.memories]),
            ),
        ];
        let mut add = |wanted: bool, part, call| {
            if wanted {
                calls.push((part, call));
            }
        };
        let (memory, id, with_text) = &self.entries;
        add(
            !id.is_empty(),
            Part::Entries,
            sql_call(&statements.entries, &[tenant, memory, id, with_text]),
        );
        let (memory, id) = &self.endings;
        let has_endings = !id.is_empty();
        let first: (&i64, &&str) = (&0, &"");
        add(
            has_endings,
            Part::Neighbours,
            sql_call(
                &statements.neighbours,
                &[tenant, memory, id, first.0, first.0, &PAGE_ROWS],
            ),
        );
        add(
            has_endings,
            Part::Links,
            sql_call(
                &statements.links,
                &[
                    tenant, memory, id, first.0, first.0, first.1, first.1, &PAGE_ROWS,
                ],
            ),
        );
        add(
            has_endings,
            Part::Subjects,
            sql_call(&SUBJECTS, &[tenant, memory, id]),
        );
        add(
            has_endings,
            Part::MadeRecords,
            sql_call(
                &MADE_RECORDS,
                &[tenant, memory, id, first.1, first.1, &PAGE_ROWS],
            ),
        );
        add(
            !self.answers.is_empty(),
            Part::Answers,
            self.answers.call(tenant),
        );
        let (operation, key) = &self.results;
        add(
            !key.is_empty(),
            Part::Results,
            sql_call(RESULTS, &[tenant, operation, key]),
        );
        let (kind, key) = &self.records;
        add(
            !key.is_empty(),
            Part::Records,
            sql_call(RECORDS, &[tenant, kind, key]),
        );
        add(
            !self.leases.is_empty(),
            Part::Leases,
            sql_call(LEASES, &[tenant, &self.leases]),
        );
        add(
            !self.runs.is_empty(),
            Part::Runs,
            sql_call(RUNS, &[tenant, &self.runs]),
        );
        let (world, id) = &self.rules;
        add(
            !id.is_empty(),
            Part::Rules,
            sql_call(RULES, &[tenant, world, id]),
        );
        add(
            self.snapshots,
            Part::Snapshots,
            sql_call(SNAPSHOTS, &[tenant]),
        );
        add(
            self.snapshots,
            Part::FirstRemoved,
            sql_call(FIRST_REMOVED, &[tenant]),
        );
        calls
    }
}

/// What a statement of the load answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Clock,
    Memories,
    Entries,
    Neighbours,
    Links,
    Subjects,
    MadeRecords,
    Answers,
    Results,
    Records,
    Leases,
    Runs,
    Rules,
    Snapshots,
    FirstRemoved,
}

/// Opens the group's transaction, locks the tenant's clock and loads the rows.
pub(super) async fn load(
    gate: &Gate,
    tenant: &TenantId,
    group: &[&Batch],
) -> Result<(Transaction, Working), StoreError> {
    let wanted = Wanted::of(group);
    let keys = Keys::of(&wanted);
    let name = tenant.as_str();
    let actor = group
        .iter()
        .find(|batch| batch.touches_user_memory())
        .map_or(Actor::NoUser, |batch| batch.actor());
    let (parts, calls): (Vec<Part>, Vec<SqlCall<'_>>) = keys.calls(&name).into_iter().unzip();
    let identity = Identity::as_actor(tenant, &actor);
    let (transaction, mut results) = gate.open("BEGIN", Role::App, identity, calls).await?;
    if results[0].is_empty() {
        // The tenant's first write. The rows above were read without the lock: read them again.
        let mut calls = vec![sql_call(START_CLOCK, &[&name, &NO_CHAIN])];
        calls.extend(keys.calls(&name).into_iter().map(|(_, call)| call));
        results = transaction
            .run(calls)
            .await
            .map_err(TripError::into_store)?;
        results.remove(0);
    }
    let clock = results[0].first().map(read_clock).transpose()?;
    let clock = clock.ok_or(StoreError::Damaged("a tenant has no clock"))?;
    let mut working = Working::new(clock, RowNumbers::ByMemory);
    working.hides_rows = actor != Actor::Host;
    working.stores_vectors = gate.vectors;
    for (part, rows) in parts.into_iter().zip(&results) {
        add_rows(&mut working, &wanted, part, rows)?;
        load_more(&transaction, &keys, name, part, rows, &mut working).await?;
    }
    Ok((transaction, working))
}

/// Loads the further pages of a part that has more rows than one page.
async fn load_more(
    transaction: &Transaction,
    keys: &Keys<'_>,
    tenant: &str,
    part: Part,
    first: &[Row],
    working: &mut Working,
) -> Result<(), StoreError> {
    let nothing = Wanted::default();
    let (memory, id) = &keys.endings;
    let mut last = page_end(part, first)?;
    while let Some(PageEnd { numbers, texts }) = last {
        let sql = match part {
            Part::Neighbours => &ENTRY_STATEMENTS.neighbours,
            Part::Links => &ENTRY_STATEMENTS.links,
            _ => &*MADE_RECORDS,
        };
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&tenant, memory, id];
        for number in &numbers {
            params.push(number);
        }
        for text in &texts {
            params.push(text);
        }
        params.push(&PAGE_ROWS);
        let call = SqlCall { sql, params };
        let results = transaction.run(vec![call]).await;
        let rows = results.map_err(TripError::into_store)?.remove(0);
        add_rows(working, &nothing, part, &rows)?;
        last = page_end(part, &rows)?;
    }
    Ok(())
}

/// The last row of a full page.
struct PageEnd {
    numbers: Vec<i64>,
    texts: Vec<String>,
}

/// The position after which the next page begins; `None` after the last page.
fn page_end(part: Part, rows: &[Row]) -> Result<Option<PageEnd>, StoreError> {
    let (number_columns, text_columns): (&[usize], &[usize]) = match part {
        Part::Neighbours => (&[0, 1], &[]),
        Part::Links => (&[0, 1], &[2, 3]),
        Part::MadeRecords => (&[], &[0, 1]),
        _ => return Ok(None),
    };
    // What comes beside a page of neighbours is not part of it: see the statement.
    let page = rows.get(..PAGE_ROWS as usize).and_then(<[Row]>::last);
    let Some(row) = page else {
        return Ok(None);
    };
    let numbers = number_columns.iter().map(|column| get(row, *column));
    let texts = text_columns.iter().map(|column| get(row, *column));
    Ok(Some(PageEnd {
        numbers: numbers.collect::<Result<_, _>>()?,
        texts: texts.collect::<Result<_, _>>()?,
    }))
}

fn add_rows(
    working: &mut Working,
    wanted: &Wanted,
    part: Part,
    rows: &[Row],
) -> Result<(), StoreError> {
    for row in rows {
        match part {
            Part::Clock => {}
            Part::Memories => {
                let memory = MemoryRow {
                    scope: get(row, 1)?,
                    next_row: get(row, 2)?,
                };
                working.memories.load(memory_ref(row, 0)?, memory);
            }
            Part::Entries => {
                let (key, entry) = entry::read_row(&mut PostgresRow::new(row))?;
                let name = (memory_ref(row, WIDTH)?, entry.id.clone());
                working.load_entry(name, key, entry);
            }
            Part::Answers => {
                let (key, entry) = entry::read_row(&mut PostgresRow::new(row))?;
                sabotage!(
                    "postgres-answers-in-the-way-are-not-loaded",
                    working.load_row(key, entry)
                );
            }
            Part::Neighbours => {
                let (key, entry) = entry::read_row(&mut PostgresRow::new(row))?;
                sabotage!(
                    "postgres-a-group-does-not-see-whom-it-let-go",
                    working.load_row(key, entry)
                );
            }
            Part::Links => {
                let (key, link) = read_link(row)?;
                working.links.load(key, link);
            }
            Part::Subjects => {
                let key = RowKey {
                    scope: get(row, 0)?,
                    row: get(row, 1)?,
                };
                sabotage!(
                    "postgres-a-subject-that-goes-is-still-counted",
                    working.rows_with_subject.insert(key)
                );
            }
            Part::Records | Part::MadeRecords => {
                let (key, record) = read_record(row)?;
                working.load_record(key, record);
            }
            Part::Results => {
                let key = (get(row, 0)?, get_bytes(row, 1)?);
                working.results.load(key, read_result(row)?);
            }
            Part::Leases => {
                let pass: &str = get(row, 0)?;
                if let Some(pass) = wanted.leases.get(pass) {
                    working.leases.insert(pass, get_u64(row, 1)?);
                }
            }
            Part::Runs => {
                let length = get_u64(row, 1)?;
                working.run_lengths.load(run_id(row)?, length);
            }
            Part::Rules => {
                let world = WorldId::parse(get(row, 0)?).ok_or(MALFORMED)?;
                let id = RuleId::parse(get(row, 1)?).ok_or(MALFORMED)?;
                let rule = RuleRow {
                    body: get(row, 2)?,
                    written_at: None,
                };
                working.rules.load((world, id), rule);
            }
            Part::Snapshots => {
                let snapshot = SnapshotRow {
                    revision: Revision(get_u64(row, 1)?),
                    at: Timestamp(get(row, 2)?),
                };
                working.snapshots.load(run_id(row)?, snapshot);
            }
            Part::FirstRemoved => {
                let first: Option<i64> = get(row, 0)?;
                working.first_removed = first.map(|number| Revision(number.cast_unsigned()));
            }
        }
    }
    Ok(())
}

fn memory_ref(row: &Row, column: usize) -> Result<MemoryRef, StoreError> {
    MemoryRef::parse(get(row, column)?).ok_or(MALFORMED)
}

fn run_id(row: &Row) -> Result<RunId, StoreError> {
    RunId::parse(get(row, 0)?).ok_or(MALFORMED)
}

pub(super) fn read_clock(row: &Row) -> Result<TenantClock, StoreError> {
    Ok(TenantClock {
        revision: Revision(get_u64(row, 0)?),
        seq: Seq(get_u64(row, 1)?),
        at: Timestamp(get(row, 2)?),
        chain: get_bytes(row, 3)?,
        memories: get(row, 4)?,
    })
}

pub(super) fn read_link(row: &Row) -> Result<(LinkKey, LinkRow), StoreError> {
    let key = LinkKey {
        row: RowKey {
            scope: get(row, 0)?,
            row: get(row, 1)?,
        },
        action: get(row, 2)?,
        reference: get(row, 3)?,
    };
    let link = LinkRow {
        action: key.action.clone(),
        reference: key.reference.clone(),
        made: None,
    };
    Ok((key, link))
}

fn read_record(row: &Row) -> Result<((RecordKind, String), RecordRow), StoreError> {
    let name: &str = get(row, 0)?;
    let kind = RecordKind::ALL
        .into_iter()
        .find(|known| known.as_str() == name)
        .ok_or(MALFORMED)?;
    let scope: Option<i64> = get(row, 5)?;
    let number: Option<i64> = get(row, 6)?;
    let source = scope.zip(number).map(|(scope, row)| RowKey { scope, row });
    let record = RecordRow {
        version: get_u64(row, 2)?,
        due: get::<Option<i64>>(row, 3)?.map(Timestamp),
        topic: get(row, 4)?,
        source,
        written: None,
    };
    Ok(((kind, get(row, 1)?), record))
}

fn read_result(row: &Row) -> Result<StoredResult, StoreError> {
    Ok(StoredResult {
        body: get_bytes(row, 2)?,
        at: Timestamp(get(row, 3)?),
        revision: Revision(get_u64(row, 4)?),
        outcomes: outcomes_from_stored(get(row, 5)?),
    })
}

/// Reads a row's columns one after the other.
pub(crate) struct PostgresRow<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> PostgresRow<'a> {
    /// A reader that begins with the first column.
    pub fn new(row: &'a Row) -> PostgresRow<'a> {
        PostgresRow { row, next: 0 }
    }

    fn column(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }
}

impl ColumnReader for PostgresRow<'_> {
    fn number(&mut self) -> Result<Option<i64>, StoreError> {
        get(self.row, self.column())
    }

    fn text(&mut self) -> Result<Option<String>, StoreError> {
        get(self.row, self.column())
    }

    fn bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        get(self.row, self.column())
    }

    fn content(&mut self) -> Result<Option<String>, StoreError> {
        let unreadable = |_| StoreError::Damaged("an entry cannot be read");
        let bytes: Option<Vec<u8>> = get(self.row, self.column())?;
        bytes.map(String::from_utf8).transpose().map_err(unreadable)
    }
}
