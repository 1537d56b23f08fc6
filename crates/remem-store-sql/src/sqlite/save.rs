//! Saves the effects of a group inside its transaction: one statement a row. Finds rows by their
//! keys alone and decides nothing.

use crate::rows::columns::{Column, Value};
use crate::rows::memory::{
    HeldSnapshot, LINEAGE, LineageRow, ROW, SCOPE, SCOPE_KEY, SIGNATURE, SNAPSHOT, SUBJECT,
    ScopeRow, StoredSignature, SubjectRow,
};
use crate::rows::record::{self, NamedRecord};
use crate::rows::statement::{Dialect, OnConflict, Statement};
use crate::rows::workshop::{LINK_KEY, LINK_MADE, LINK_RENAMED, NamedLink, NamedRule, RULE_KEY};
use crate::rows::{entry, log};
use remem_core::ledger::{
    Effects, EntryChange, LinkKey, LinkRow, MemoryTotals, NewEvent, RecordKey, RecordRow,
    RowChange, RowKey, TenantClock,
};
use remem_core::trgm::Trigrams;
use remem_core::{TenantId, sabotage, sabotage_sql};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params};
use std::sync::LazyLock;

/// The statements that are made from the lists of columns.
struct Statements {
    new_scope: Statement<ScopeRow>,
    new_entry: Statement<EntryChange>,
    text: Statement<EntryChange>,
    state: Statement<EntryChange>,
    erasure: Statement<EntryChange>,
    end: Statement<EntryChange>,
    lineage: Statement<LineageRow>,
    subject: Statement<SubjectRow>,
    forgotten: Statement<RowKey>,
    signature: Statement<StoredSignature>,
    signature_deleted: Statement<RowKey>,
    vectors_deleted: Statement<RowKey>,
    link: Statement<NamedLink>,
    link_renamed: Statement<NamedLink>,
    rule_deleted: Statement<NamedRule>,
    snapshot: Statement<HeldSnapshot>,
    snapshot_deleted: Statement<HeldSnapshot>,
    event: Statement<NewEvent>,
    result: Statement<log::NamedResult>,
    record: Statement<NamedRecord>,
    record_followed: Statement<NamedRecord>,
    record_deleted: Statement<NamedRecord>,
    review: Statement<NamedRecord>,
    review_deleted: Statement<NamedRecord>,
}

static STATEMENTS: LazyLock<Statements> = LazyLock::new(|| {
    use OnConflict::{Fail, Ignore, Replace};
    let record_columns = [&record::KEY[..], &record::WRITTEN, &record::TIES].concat();
    let review_columns = [&record::KEY[..], &record::WRITTEN].concat();
    let followed = [&record::FOLLOWING[..], &record::TIES].concat();
    let end = [entry::state_columns(), entry::erasure_columns()].concat();
    let sqlite = Dialect::Sqlite;
    Statements {
        new_scope: sqlite.insert("scope", &[&SCOPE_KEY[..], &SCOPE].concat(), &[], Fail),
        new_entry: sqlite.insert(
            "entry",
            &[&entry::KEY[..], &entry::COLUMNS].concat(),
            &[],
            Fail,
        ),
        text: sqlite.update("entry", &entry::KEY, &entry::text_columns(), &[]),
        state: sqlite.update("entry", &entry::KEY, &entry::state_columns(), &[]),
        erasure: sqlite.update("entry", &entry::KEY, &entry::erasure_columns(), &[]),
        end: sqlite.update("entry", &entry::KEY, &end, &[]),
        lineage: sqlite.insert("lineage", &LINEAGE, &[], Ignore),
        subject: sqlite.insert("entry_subject", &SUBJECT, &[], Fail),
        forgotten: sqlite
            .delete("entry_subject", &ROW)
            .indexed_by("entry_subject_row"),
        signature: sqlite.insert("signature", &SIGNATURE, &["scope_id", "row_id"], Replace),
        signature_deleted: sqlite.delete("signature", &ROW),
        vectors_deleted: sqlite
            .delete("vector", &ROW)
            .indexed_by("sqlite_autoindex_vector_1"),
        link: sqlite.insert(
            "action_link",
            &[&LINK_KEY[..], &LINK_MADE].concat(),
            &[],
            Ignore,
        ),
        link_renamed: sqlite.update("action_link", &LINK_KEY, &[], &LINK_RENAMED),
        rule_deleted: sqlite.delete("rule", &RULE_KEY),
        snapshot: sqlite.insert("snapshot", &SNAPSHOT, &[], Fail),
        snapshot_deleted: sqlite.delete("snapshot", &SNAPSHOT[..1]),
        event: sqlite.insert("event", &log::EVENT, &[], Fail),
        result: sqlite.insert("idempotency", &log::RESULT, &[], Fail),
        record: sqlite.insert("record", &record_columns, &["kind", "key"], Replace),
        record_followed: sqlite.update("record", &record::KEY, &followed, &[]),
        record_deleted: sqlite.delete("record", &record::KEY),
        review: sqlite.insert("review", &review_columns, &["kind", "key"], Replace),
        review_deleted: sqlite.delete("review", &record::KEY),
    }
});

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Value::Number(Some(number)) => ValueRef::Integer(*number),
            Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Value::Number(None) | Value::Text(None) | Value::Bytes(None) => ValueRef::Null,
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

const ADD_TOTALS: &str = "UPDATE scope SET entries = entries + ?3, content_bytes = content_bytes + ?4, expiring = expiring + ?5, with_subject = with_subject + ?6
     WHERE tenant_id = ?1 AND scope_id = ?2";

/// The statements of this file, for the test of their keys.
#[cfg(test)]
pub(crate) fn statements() -> Vec<&'static str> {
    let s = &*STATEMENTS;
    vec![
        &s.new_scope.sql,
        &s.new_entry.sql,
        &s.text.sql,
        &s.state.sql,
        &s.erasure.sql,
        &s.end.sql,
        &s.lineage.sql,
        &s.subject.sql,
        &s.forgotten.sql,
        &s.signature.sql,
        &s.signature_deleted.sql,
        &s.vectors_deleted.sql,
        &s.link.sql,
        &s.link_renamed.sql,
        &s.rule_deleted.sql,
        &s.snapshot.sql,
        &s.snapshot_deleted.sql,
        &s.event.sql,
        &s.result.sql,
        &s.record.sql,
        &s.record_followed.sql,
        &s.record_deleted.sql,
        &s.review.sql,
        &s.review_deleted.sql,
        ADD_TOTALS,
    ]
}

/// Saves everything that a group changed.
pub(crate) fn save(
    db: &Connection,
    tenant: &TenantId,
    effects: Effects,
    is_single_batch: bool,
) -> rusqlite::Result<()> {
    let saver = Saver {
        db,
        tenant: tenant.as_str(),
    };
    let s = &*STATEMENTS;
    saver.save_scopes(&effects)?;
    // Rules are written before the entries of the group, and deleted after them unless the group
    // is one batch: no batch may restate a rule that an earlier batch made, or one that only a
    // later batch deletes. A batch that is refused only because of this order is tried again alone.
    saver.save_rules(&effects)?;
    if is_single_batch {
        saver.delete_rules(&effects)?;
    }
    saver.save_entries(&effects)?;
    saver.save_totals(&effects)?;
    if !is_single_batch {
        saver.delete_rules(&effects)?;
    }
    saver.each(&s.lineage, &effects.lineage)?;
    saver.each(&s.subject, &effects.subjects)?;
    saver.each(&s.forgotten, &effects.forgotten)?;
    saver.save_signatures(&effects)?;
    saver.save_links(&effects)?;
    saver.save_vectors(&effects)?;
    saver.save_snapshots(&effects)?;
    saver.each(&s.event, &effects.events)?;
    saver.each(&s.result, &effects.results)?;
    if let Some(clock) = &effects.clock {
        saver.save_clock(clock)?;
    }
    saver.save_records(effects.records)
}

struct Saver<'a> {
    db: &'a Connection,
    tenant: &'a str,
}

impl Saver<'_> {
    fn each<'r, R: 'r>(
        &self,
        statement: &Statement<R>,
        rows: impl IntoIterator<Item = &'r R>,
    ) -> rusqlite::Result<()> {
        rows.into_iter()
            .try_for_each(|row| self.one(statement, row))
    }

    fn one<R>(&self, statement: &Statement<R>, row: &R) -> rusqlite::Result<()> {
        let mut prepared = self.db.prepare_cached(sabotage_sql!(&statement.sql))?;
        prepared.raw_bind_parameter(1, self.tenant)?;
        for (n, column) in statement.columns.iter().enumerate() {
            let Column { value, .. } = column;
            prepared.raw_bind_parameter(n + 2, value(row))?;
        }
        prepared.raw_execute().map(|_| ())
    }

    fn save_clock(&self, clock: &TenantClock) -> rusqlite::Result<()> {
        let sql = "INSERT INTO tenant_clock (tenant_id, revision, seq, at, chain) VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (tenant_id) DO UPDATE SET revision = ?2, seq = ?3, at = ?4, chain = ?5";
        let values = params![
            self.tenant,
            clock.revision.0,
            clock.seq.0,
            clock.at.0,
            clock.chain
        ];
        self.db.prepare_cached(sql)?.execute(values).map(|_| ())
    }

    fn save_scopes(&self, effects: &Effects) -> rusqlite::Result<()> {
        for (memory_ref, change) in &effects.memories {
            if let RowChange::Inserted(row) = change {
                let scope = ScopeRow {
                    memory_ref: memory_ref.clone(),
                    scope: row.scope,
                    next_row: 0,
                    documents: 0,
                    words: 0,
                    totals: MemoryTotals::default(),
                };
                self.one(&STATEMENTS.new_scope, &scope)?;
            }
        }
        Ok(())
    }

    fn save_totals(&self, effects: &Effects) -> rusqlite::Result<()> {
        for (scope, total) in &effects.totals {
            let values = params![
                self.tenant,
                scope,
                total.entries,
                total.content_bytes,
                total.expiring,
                total.with_subject
            ];
            self.db.prepare_cached(ADD_TOTALS)?.execute(values)?;
        }
        Ok(())
    }

    /// Stored entries first, and of these the ones that end: each row is checked as it is written,
    /// and what takes a place must find it free.
    fn save_entries(&self, effects: &Effects) -> rusqlite::Result<()> {
        let stays = |change: &EntryChange| change.after.is_current();
        let (staying, ending): (Vec<&EntryChange>, Vec<&EntryChange>) =
            effects.entries.iter().partition(|change| stays(change));
        let ending_stored = ending.iter().filter(|change| !change.is_new());
        let staying_stored = staying.iter().filter(|change| !change.is_new());
        let new = effects.entries.iter().filter(|change| change.is_new());
        for change in ending_stored.chain(staying_stored).copied().chain(new) {
            self.save_entry(change)?;
            self.index(change)?;
        }
        Ok(())
    }

    fn save_entry(&self, change: &EntryChange) -> rusqlite::Result<()> {
        let s = &*STATEMENTS;
        if change.is_new() {
            return self.one(&s.new_entry, change);
        }
        if change.rewrites() {
            self.one(&s.text, change)?;
        }
        match (change.changes_state(), change.erases()) {
            (true, true) => self.one(&s.end, change),
            (true, false) => self.one(&s.state, change),
            (false, true) => self.one(&s.erasure, change),
            (false, false) => Ok(()),
        }
    }

    /// Adds and removes an entry's tags, and lists a row whose text is gone or has changed, so that
    /// every index in memory removes it.
    fn index(&self, change: &EntryChange) -> rusqlite::Result<()> {
        let Some(change) = change.index_change() else {
            return Ok(());
        };
        let at = change.entry.created_at.0;
        let id = change.entry.id.as_str();
        let scope = change.key.scope;
        if let Some(old) = change.old {
            let sql = "DELETE FROM entry_tag WHERE tenant_id = ?1 AND scope_id = ?2 AND tag = ?3 AND created_at = ?4 AND id = ?5";
            for tag in &old.tags {
                let values = params![self.tenant, scope, tag, at, id];
                sabotage!("deleted-text-stays-in-the-index", {
                    self.db.prepare_cached(sql)?.execute(values)?;
                });
            }
            let sql = "INSERT INTO unindexed (scope_id, row_id) VALUES (?1, ?2)";
            let values = params![scope, change.key.row];
            sabotage!("deleted-text-stays-in-the-index", {
                self.db.prepare_cached(sql)?.execute(values)?;
            });
        }
        if let Some(new) = change.new {
            let sql = "INSERT INTO entry_tag (tenant_id, scope_id, tag, created_at, id) VALUES (?1, ?2, ?3, ?4, ?5)";
            for tag in &new.tags {
                let values = params![self.tenant, scope, tag, at, id];
                self.db.prepare_cached(sql)?.execute(values)?;
            }
        }
        Ok(())
    }

    fn save_signatures(&self, effects: &Effects) -> rusqlite::Result<()> {
        for (key, signature) in &effects.signatures {
            match signature {
                Some(signature) => self.one(&STATEMENTS.signature, &(*key, signature.clone()))?,
                None => self.one(&STATEMENTS.signature_deleted, key)?,
            }
        }
        Ok(())
    }

    fn save_vectors(&self, effects: &Effects) -> rusqlite::Result<()> {
        self.each(&STATEMENTS.vectors_deleted, &effects.vectors_deleted)?;
        let sql = "INSERT INTO vector (tenant_id, scope_id, row_id, model, bytes) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
        for (key, model, row) in &effects.vectors {
            let values = params![
                self.tenant,
                key.scope,
                key.row,
                model.0,
                row.vector.to_bytes()
            ];
            self.db.prepare_cached(sql)?.execute(values)?;
        }
        Ok(())
    }

    fn save_links(&self, effects: &Effects) -> rusqlite::Result<()> {
        for (key, change) in &effects.links {
            match change {
                RowChange::Inserted(link) => {
                    let stored = (link.action.clone(), link.reference.clone());
                    let link = named_link(key, stored, link);
                    self.one(&STATEMENTS.link, &link)?;
                }
                RowChange::Updated { after, .. } => {
                    let stored = (key.action.clone(), key.reference.clone());
                    let link = named_link(key, stored, after);
                    self.one(&STATEMENTS.link_renamed, &link)?;
                }
                RowChange::Deleted(_) => {}
            }
        }
        Ok(())
    }

    fn save_rules(&self, effects: &Effects) -> rusqlite::Result<()> {
        let sql = "INSERT INTO rule (tenant_id, world, id, body, at, size, trigrams) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                   ON CONFLICT DO UPDATE SET body = ?4, at = ?5, size = ?6, trigrams = ?7";
        for (key, change) in &effects.rules {
            let Some(rule) = change.after() else {
                continue;
            };
            let trigrams = Trigrams::of(&rule.body);
            let values = params![
                self.tenant,
                key.0.as_str(),
                key.1.as_str(),
                rule.body,
                rule.written_at.map(|at| at.0),
                trigrams.len() as u64,
                trigrams.to_bytes()
            ];
            self.db.prepare_cached(sql)?.execute(values)?;
        }
        Ok(())
    }

    fn delete_rules(&self, effects: &Effects) -> rusqlite::Result<()> {
        for (key, change) in &effects.rules {
            if let RowChange::Deleted(rule) = change {
                let rule = NamedRule {
                    key: key.clone(),
                    rule: rule.clone(),
                };
                self.one(&STATEMENTS.rule_deleted, &rule)?;
            }
        }
        Ok(())
    }

    fn save_snapshots(&self, effects: &Effects) -> rusqlite::Result<()> {
        for (run, change) in &effects.snapshots {
            if let RowChange::Updated { before, .. } | RowChange::Deleted(before) = change {
                self.one(&STATEMENTS.snapshot_deleted, &(run.clone(), *before))?;
            }
            if let Some(after) = change.after() {
                self.one(&STATEMENTS.snapshot, &(run.clone(), *after))?;
            }
        }
        Ok(())
    }

    fn save_records(
        &self,
        records: Vec<(RecordKey, RowChange<RecordRow>)>,
    ) -> rusqlite::Result<()> {
        let s = &*STATEMENTS;
        for (key, change) in records {
            let is_under_review = key.0.is_under_review();
            let (row, statement) = match change {
                RowChange::Deleted(row) if is_under_review => (row, &s.review_deleted),
                RowChange::Deleted(row) => (row, &s.record_deleted),
                RowChange::Inserted(row) | RowChange::Updated { after: row, .. } => {
                    let statement = match (is_under_review, row.written.is_some()) {
                        (true, _) => &s.review,
                        (false, true) => &s.record,
                        (false, false) => &s.record_followed,
                    };
                    (row, statement)
                }
            };
            self.one(statement, &NamedRecord { key, row })?;
        }
        Ok(())
    }
}

fn named_link(key: &LinkKey, stored: (String, String), link: &LinkRow) -> NamedLink {
    NamedLink {
        row: key.row,
        stored,
        link: link.clone(),
    }
}
