//! Tests of the ledger without a database: batches are applied to rows in memory, and what would
//! be saved is looked at.

mod annotations;
mod groups;
mod records;
mod removal;
mod succession;
mod totals;
mod wanted;

use super::{
    ChangeOutcome, CommitResult, Effects, EntryName, EntryRow, EntryState, Refused, RowKey,
    RowNumbers, TenantClock, Working, apply,
};
use crate::record::{RecordBody, RecordKind, RecordLinks};
use crate::{
    Admission, Admitted, Batch, Draft, EntryId, MemoryRef, Policy, Redactor, RunId, Scope,
    TenantId, Timestamp,
};
use serde_json::Map;

const NOON: Timestamp = Timestamp(1_000_000);

fn tenant() -> TenantId {
    TenantId::parse("t").unwrap()
}

fn memory() -> MemoryRef {
    MemoryRef::parse("m").unwrap()
}

fn id(name: &str) -> EntryId {
    EntryId::parse(name).unwrap()
}

fn name(entry: &str) -> EntryName {
    (memory(), id(entry))
}

fn batch() -> Batch {
    Batch::new(tenant(), NOON)
}

fn in_run(run: &str) -> Batch {
    batch().in_run(RunId::parse(run).unwrap())
}

fn admit(draft: Draft, redaction_fingerprint: u64) -> Admitted {
    let policy = Policy::default();
    let admission = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint,
        now: NOON,
    };
    let scope = Scope::new(tenant(), memory());
    admission.admit(&scope, draft).unwrap()
}

fn text(content: &str) -> Admitted {
    let draft = Draft {
        content: content.into(),
        tags: vec!["tag".into()],
        ..Draft::default()
    };
    admit(draft, 1)
}

fn empty_body() -> RecordBody {
    let policy = Policy::default();
    let admission = Admission {
        policy: &policy,
        redactor: &Redactor::empty(),
        redaction_fingerprint: 1,
        now: NOON,
    };
    admission.redact_record(Map::new())
}

/// The rows of a tenant, to which one batch after the other is applied.
struct Ledger(Working);

impl Ledger {
    fn new() -> Ledger {
        Ledger(Working::new(
            TenantClock::default(),
            RowNumbers::ByTenant(1),
        ))
    }

    /// A ledger with these entries.
    fn with(entries: &[&str]) -> Ledger {
        let mut ledger = Ledger::new();
        for entry in entries {
            ledger.commit(batch().put(id(entry), text(entry)));
        }
        ledger
    }

    fn try_commit(&mut self, batch: Batch) -> Result<CommitResult, Refused> {
        apply(&batch, &mut self.0)
    }

    fn commit(&mut self, batch: Batch) -> Vec<ChangeOutcome> {
        self.try_commit(batch).unwrap().outcomes
    }

    fn key(&self, entry: &str) -> RowKey {
        *self.0.names.get(&name(entry)).unwrap()
    }

    fn row(&self, entry: &str) -> &EntryRow {
        self.0.entries.get(&self.key(entry)).unwrap()
    }

    fn state(&self, entry: &str) -> EntryState {
        self.row(entry).state
    }

    fn is_erased(&self, entry: &str) -> bool {
        self.row(entry).is_erased()
    }

    /// Adds a commitment that was made from an entry, due at noon.
    fn commit_record(&mut self, key: &str, source: &str) {
        let ties = RecordLinks {
            due: Some(NOON),
            topic: Some("topic".into()),
            source: Some(name(source)),
        };
        let kind = RecordKind::Commitment;
        let none = crate::Precondition::None;
        let batch = batch().set_record_with_ties(kind, key.into(), none, empty_body(), ties);
        self.commit(batch);
    }

    /// What is stored of a commitment: its source, and whether it is due.
    fn record(&self, key: &str) -> Option<(Option<RowKey>, bool)> {
        let record = self.0.records.get(&(RecordKind::Commitment, key.into()))?;
        Some((record.source, record.due.is_some()))
    }

    /// The effects of what is done from now on: everything before counts as loaded.
    fn reload(&mut self) {
        let mut fresh = Working::new(self.0.clock.clone(), self.0.row_numbers);
        for (name, key) in self.0.names.iter() {
            let row = self.0.entries.get(key).unwrap();
            fresh.load_entry(name.clone(), *key, row.clone());
        }
        for (key, row) in self.0.records.iter() {
            fresh.load_record(key.clone(), row.clone());
        }
        for (key, row) in self.0.links.iter() {
            fresh.links.load(key.clone(), row.clone());
        }
        for (key, row) in self.0.memories.iter() {
            fresh.memories.load(key.clone(), row.clone());
        }
        for (key, row) in self.0.snapshots.iter() {
            fresh.snapshots.load(key.clone(), *row);
        }
        fresh.first_removed = self.0.first_removed;
        self.0 = fresh;
    }

    fn effects(self) -> Effects {
        self.0.into_effects()
    }
}
