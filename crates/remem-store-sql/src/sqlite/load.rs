//! Loads the rows that a group of batches needs (`Wanted`) inside the group's transaction, as its
//! actor sees them.

use super::connection::store_error;
use super::rows::scope_id;
use crate::rows::entry::{self, ColumnReader};
use crate::stored::outcomes_from_stored;
use remem_core::ledger::{
    EntryNeed, EntryRow, LinkKey, LinkRow, MemoryRow, RecordKey, RecordRow, RowKey, RowNumbers,
    RuleRow, SlotWindow, SnapshotRow, StoredResult, TenantClock, Wanted, Working,
};
use remem_core::{MemoryRef, Revision, RunId, Seq, TenantId, Timestamp, sabotage};
use remem_store::StoreError;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use std::sync::LazyLock;

const MALFORMED: StoreError = StoreError::Damaged("a name is malformed");

struct EntryStatements {
    named: String,
    row: String,
    replaced: String,
    answers: String,
}

static ENTRY_STATEMENTS: LazyLock<EntryStatements> = LazyLock::new(|| {
    let row = entry::select_list("e", "false");
    let of_memory = "FROM entry e WHERE e.tenant_id = ?1 AND e.scope_id = ?2";
    EntryStatements {
        named: format!(
            "SELECT {} {of_memory} AND e.id = ?3",
            entry::select_list("e", "?4")
        ),
        row: format!("SELECT {row} {of_memory} AND e.row_id = ?3"),
        replaced: format!(
            "SELECT {row} {of_memory} AND e.replaced_by = ?3 AND e.replaced_by IS NOT NULL AND e.erased_at IS NULL"
        ),
        // What has no end comes first in the index, so it is found apart from what ends after the
        // window begins.
        answers: {
            let answer = format!(
                "SELECT {row} FROM entry e INDEXED BY entry_answer WHERE e.tenant_id = ?1 AND e.scope_id = ?2 AND e.slot = ?3
                   AND e.slot IS NOT NULL AND e.erased_at IS NULL AND (e.rev_to IS NULL OR e.removed_reason = 'invalidated')
                   AND e.typology = ?4 AND (e.typology <> 'procedural' OR e.rev_to IS NULL)
                   AND coalesce(e.valid_at <> e.invalid_at, 1) AND (?6 IS NULL OR e.valid_at IS NULL OR e.valid_at < ?6)"
            );
            format!(
                "SELECT * FROM ({answer} AND e.invalid_at IS NULL LIMIT ?7)
                 UNION ALL SELECT * FROM ({answer} AND e.invalid_at > coalesce(?5, -9223372036854775808) LIMIT ?7)"
            )
        },
    }
});

/// Loads the tenant's clock; zeros before the first commit.
pub(crate) fn load_clock(db: &Connection, tenant: &TenantId) -> Result<TenantClock, StoreError> {
    let sql = "SELECT revision, seq, at, chain FROM tenant_clock WHERE tenant_id = ?1";
    let clock = |row: &Row<'_>| {
        Ok(TenantClock {
            revision: Revision(row.get(0)?),
            seq: Seq(row.get(1)?),
            at: Timestamp(row.get(2)?),
            chain: row.get(3)?,
            memories: 0,
        })
    };
    let stored = query_one(db, sql, [tenant.as_str()], clock)?;
    Ok(stored.unwrap_or_default())
}

/// Loads what the wanted rows are now.
pub(super) fn load(
    db: &Connection,
    tenant: &TenantId,
    wanted: &Wanted,
) -> Result<Working, StoreError> {
    let mut clock = load_clock(db, tenant)?;
    let mut next_row = 1;
    if wanted.puts {
        // Rows are never deleted. One file has one tenant.
        let sql = "SELECT coalesce((SELECT max(row_id) FROM entry), 0) + 1, coalesce((SELECT max(scope_id) FROM scope), 0)";
        let numbers = query_one(db, sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        (next_row, clock.memories) = numbers.unwrap_or((1, 0));
    }
    let working = Working::new(clock, RowNumbers::ByTenant(next_row));
    let mut loader = Loader {
        db,
        tenant,
        working,
    };
    loader.load_memories(wanted)?;
    for ((memory_ref, id), need) in &wanted.entries {
        loader.load_entry(memory_ref, id, *need)?;
    }
    loader.load_answers(wanted)?;
    loader.load_records(wanted)?;
    loader.load_log(wanted)?;
    loader.load_rules(wanted)?;
    if wanted.snapshots {
        loader.load_snapshots()?;
    }
    Ok(loader.working)
}

struct Loader<'a> {
    db: &'a Connection,
    tenant: &'a TenantId,
    working: Working,
}

impl Loader<'_> {
    fn load_memories(&mut self, wanted: &Wanted) -> Result<(), StoreError> {
        for memory_ref in &wanted.memories {
            let scope = scope_id(self.db, self.tenant, memory_ref).map_err(store_error)?;
            if let Some(scope) = scope {
                let memory = MemoryRow { scope, next_row: 0 };
                self.working.memories.load(memory_ref.clone(), memory);
            }
        }
        Ok(())
    }

    fn scope(&self, memory_ref: &MemoryRef) -> Option<i64> {
        let memory = self.working.memories.get(memory_ref);
        memory.map(|memory| memory.scope)
    }

    fn load_entry(
        &mut self,
        memory_ref: &MemoryRef,
        id: &remem_core::EntryId,
        need: EntryNeed,
    ) -> Result<(), StoreError> {
        let Some(scope) = self.scope(memory_ref) else {
            return Ok(());
        };
        let sql = &ENTRY_STATEMENTS.named;
        let with_text = need >= EntryNeed::Text;
        let values = params![self.tenant.as_str(), scope, id.as_str(), with_text];
        let Some((key, row)) = self.rows(sql, values)?.pop() else {
            return Ok(());
        };
        let replaced_by = row.replaced_by;
        self.working
            .load_entry((memory_ref.clone(), id.clone()), key, row);
        if need == EntryNeed::Neighbourhood {
            self.load_neighbourhood(key, replaced_by)?;
        }
        Ok(())
    }

    /// Loads what goes or changes when an entry ends.
    fn load_neighbourhood(
        &mut self,
        key: RowKey,
        replaced_by: Option<i64>,
    ) -> Result<(), StoreError> {
        let tenant = self.tenant.as_str();
        self.load_links(key)?;
        let sql = "SELECT 1 FROM entry_subject WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id = ?3 LIMIT 1";
        let subject = query_one(self.db, sql, params![tenant, key.scope, key.row], |_| {
            Ok(key)
        })?;
        sabotage!(
            "a-subject-that-goes-is-still-counted",
            self.working.rows_with_subject.extend(subject)
        );
        let replaced = params![tenant, key.scope, key.row];
        for (key, row) in self.rows(&ENTRY_STATEMENTS.replaced, replaced)? {
            self.load_links(key)?;
            self.working.load_row(key, row);
        }
        if let Some(by) = replaced_by {
            let replacement = params![tenant, key.scope, by];
            for (key, row) in self.rows(&ENTRY_STATEMENTS.row, replacement)? {
                self.working.load_row(key, row);
            }
        }
        let sql = "SELECT kind, key, version, due, topic, source_scope, source_row FROM record INDEXED BY record_source
                   WHERE tenant_id = ?1 AND source_scope = ?2 AND source_row = ?3 AND source_row IS NOT NULL";
        let values = params![tenant, key.scope, key.row];
        for (key, row) in query_all(self.db, sql, values, read_record)? {
            self.working.load_record(named(key)?, row);
        }
        Ok(())
    }

    fn load_links(&mut self, row: RowKey) -> Result<(), StoreError> {
        for (key, link) in load_links(self.db, self.tenant, row)? {
            self.working.links.load(key, link);
        }
        Ok(())
    }

    /// Loads the answers that stand where the group wants to put or move one.
    fn load_answers(&mut self, wanted: &Wanted) -> Result<(), StoreError> {
        let most = wanted.answers_max();
        for ((memory_ref, slot), windows) in &wanted.slots {
            let Some(scope) = self.scope(memory_ref) else {
                continue;
            };
            for window in windows {
                self.load_overlapping(scope, slot, *window, most)?;
            }
        }
        for moving in &wanted.moving {
            let key = self.working.names.get(&moving.name).copied();
            let Some((key, row)) = key.and_then(|key| Some((key, self.working.entries.get(&key)?)))
            else {
                continue;
            };
            let window = SlotWindow {
                typology: row.typology,
                from: row.valid_at,
                to: row
                    .invalid_at
                    .map(|end| moving.until.map_or(end, |until| end.max(until))),
            };
            if let Some(slot) = moving.slot.clone().or_else(|| row.slot.clone()) {
                self.load_overlapping(key.scope, &slot, window, most)?;
            }
        }
        Ok(())
    }

    fn load_overlapping(
        &mut self,
        scope: i64,
        slot: &str,
        window: SlotWindow,
        most: u32,
    ) -> Result<(), StoreError> {
        let from = window.from.map(|at| at.0);
        let to = window.to.map(|at| at.0);
        let typology = window.typology.as_str();
        let values = params![self.tenant.as_str(), scope, slot, typology, from, to, most];
        for (key, row) in self.rows(&ENTRY_STATEMENTS.answers, values)? {
            sabotage!(
                "answers-in-the-way-are-not-loaded",
                self.working.load_row(key, row)
            );
        }
        Ok(())
    }

    fn load_records(&mut self, wanted: &Wanted) -> Result<(), StoreError> {
        let records = "SELECT kind, key, version, due, topic, source_scope, source_row FROM record
                       WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3";
        let reviews = "SELECT kind, key, version, due, NULL, NULL, NULL FROM review
                       WHERE tenant_id = ?1 AND kind = ?2 AND key = ?3";
        for (kind, key) in &wanted.records {
            let sql = if kind.is_under_review() {
                reviews
            } else {
                records
            };
            let values = params![self.tenant.as_str(), kind.as_str(), key];
            if let Some((_, row)) = query_one(self.db, sql, values, read_record)? {
                self.working.load_record((*kind, key.clone()), row);
            }
        }
        Ok(())
    }

    /// Loads stored results, the numbers of leases and the lengths of runs' logs.
    fn load_log(&mut self, wanted: &Wanted) -> Result<(), StoreError> {
        let tenant = self.tenant.as_str();
        let sql = "SELECT body, at, revision, outcomes FROM idempotency WHERE tenant_id = ?1 AND operation = ?2 AND key = ?3";
        for (operation, key) in &wanted.results {
            let values = params![tenant, operation, key];
            if let Some(result) = query_one(self.db, sql, values, read_result)? {
                let name = ((*operation).to_owned(), *key);
                self.working.results.load(name, result);
            }
        }
        let sql = "SELECT fence FROM lease WHERE tenant_id = ?1 AND pass = ?2";
        for pass in &wanted.leases {
            let number = query_one(self.db, sql, params![tenant, pass], |row| row.get(0))?;
            self.working
                .leases
                .extend(number.map(|number| (*pass, number)));
        }
        let sql =
            "SELECT coalesce(max(run_seq) + 1, 0) FROM event WHERE tenant_id = ?1 AND run_id = ?2";
        for run in &wanted.runs {
            let length = query_one(self.db, sql, params![tenant, run.as_str()], |row| {
                row.get(0)
            })?;
            let length = length.unwrap_or_default();
            self.working.run_lengths.load(run.clone(), length);
        }
        Ok(())
    }

    fn load_rules(&mut self, wanted: &Wanted) -> Result<(), StoreError> {
        let sql = "SELECT body FROM rule WHERE tenant_id = ?1 AND world = ?2 AND id = ?3";
        for (world, id) in &wanted.rules {
            let values = params![self.tenant.as_str(), world.as_str(), id.as_str()];
            if let Some(body) = query_one(self.db, sql, values, |row| row.get(0))? {
                let rule = RuleRow {
                    body,
                    written_at: None,
                };
                self.working.rules.load((world.clone(), id.clone()), rule);
            }
        }
        Ok(())
    }

    fn load_snapshots(&mut self) -> Result<(), StoreError> {
        let tenant = self.tenant.as_str();
        let sql = "SELECT run_id, revision, at FROM snapshot WHERE tenant_id = ?1";
        let read = |row: &Row<'_>| {
            let revision = Revision(row.get(1)?);
            let at = Timestamp(row.get(2)?);
            Ok((row.get(0)?, SnapshotRow { revision, at }))
        };
        let held: Vec<(String, SnapshotRow)> = query_all(self.db, sql, [tenant], read)?;
        for (run, snapshot) in held {
            let run = RunId::parse(&run).ok_or(MALFORMED)?;
            self.working.snapshots.load(run, snapshot);
        }
        let sql = "SELECT min(rev_to) FROM entry INDEXED BY entry_spent
                   WHERE tenant_id = ?1 AND erased_at IS NULL AND removed_reason IN ('deleted', 'compacted', 'closed')";
        let first: Option<Option<u64>> = query_one(self.db, sql, [tenant], |row| row.get(0))?;
        self.working.first_removed = first.flatten().map(Revision);
        Ok(())
    }

    fn rows(&self, sql: &str, values: impl Params) -> Result<Vec<(RowKey, EntryRow)>, StoreError> {
        entry_rows(self.db, sql, values)
    }
}

/// The entries that a statement with `select_list` finds.
pub(crate) fn entry_rows(
    db: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<Vec<(RowKey, EntryRow)>, StoreError> {
    entry_rows_while(db, sql, values, |_| true)
}

/// The same, up to and with the first one after which `has_room` is false.
pub(crate) fn entry_rows_while(
    db: &Connection,
    sql: &str,
    values: impl Params,
    mut has_room: impl FnMut(&EntryRow) -> bool,
) -> Result<Vec<(RowKey, EntryRow)>, StoreError> {
    let mut query = db.prepare_cached(sql).map_err(store_error)?;
    let mut rows = query.query(values).map_err(store_error)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let (key, row) = entry::read_row(&mut SqliteRow::new(row))?;
        let has_room = has_room(&row);
        found.push((key, row));
        if !has_room {
            break;
        }
    }
    Ok(found)
}

/// The actions that rest on an entry.
pub(crate) fn load_links(
    db: &Connection,
    tenant: &TenantId,
    row: RowKey,
) -> Result<Vec<(LinkKey, LinkRow)>, StoreError> {
    let sql = "SELECT action, reference FROM action_link WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id = ?3";
    let values = params![tenant.as_str(), row.scope, row.row];
    let read = |found: &Row<'_>| {
        let key = LinkKey {
            row,
            action: found.get(0)?,
            reference: found.get(1)?,
        };
        let link = LinkRow {
            action: key.action.clone(),
            reference: key.reference.clone(),
            made: None,
        };
        Ok((key, link))
    };
    query_all(db, sql, values, read)
}

fn query_one<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    db.prepare_cached(sql)
        .and_then(|mut query| query.query_row(values, read).optional())
        .map_err(store_error)
}

fn query_all<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    db.prepare_cached(sql)
        .and_then(|mut query| query.query_map(values, read)?.collect())
        .map_err(store_error)
}

type StoredRecord = ((String, String), RecordRow);

fn read_record(row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    let scope: Option<i64> = row.get(5)?;
    let number: Option<i64> = row.get(6)?;
    let record = RecordRow {
        version: row.get(2)?,
        due: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        topic: row.get(4)?,
        source: scope.zip(number).map(|(scope, row)| RowKey { scope, row }),
        written: None,
    };
    Ok(((row.get(0)?, row.get(1)?), record))
}

/// The key of a record that was found by its source.
fn named((kind, key): (String, String)) -> Result<RecordKey, StoreError> {
    let known = remem_core::RecordKind::ALL.into_iter();
    let kind = known.into_iter().find(|known| known.as_str() == kind);
    Ok((kind.ok_or(MALFORMED)?, key))
}

fn read_result(row: &Row<'_>) -> rusqlite::Result<StoredResult> {
    let outcomes: String = row.get(3)?;
    Ok(StoredResult {
        body: row.get(0)?,
        at: Timestamp(row.get(1)?),
        revision: Revision(row.get(2)?),
        outcomes: outcomes_from_stored(&outcomes),
    })
}

/// Reads a row's columns one after the other.
pub(crate) struct SqliteRow<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> SqliteRow<'a> {
    /// A reader that begins with the first column.
    pub fn new(row: &'a Row<'a>) -> SqliteRow<'a> {
        SqliteRow { row, next: 0 }
    }

    fn get<T: rusqlite::types::FromSql>(&mut self) -> Result<T, StoreError> {
        self.next += 1;
        self.row.get(self.next - 1).map_err(store_error)
    }
}

impl ColumnReader for SqliteRow<'_> {
    fn number(&mut self) -> Result<Option<i64>, StoreError> {
        self.get()
    }

    fn text(&mut self) -> Result<Option<String>, StoreError> {
        self.get()
    }

    fn bytes(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        self.get()
    }

    fn content(&mut self) -> Result<Option<String>, StoreError> {
        self.get()
    }
}
