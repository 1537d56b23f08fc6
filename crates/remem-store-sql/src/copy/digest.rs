//! The clock of a copied tenant, and the digest by which source and target are compared.
//!
//! Numbers that each store assigns by itself (`row_id`) are not part of the digest. Row hashes are
//! added up, so that each store may be read in the order that suits it.

use super::table::{CopiedRow, CopiedTable, TABLES};
use crate::rows::{Value, entry};
use blake3::Hasher;
use remem_core::EventKind;
use remem_core::ledger::{EntryChange, EntryRow, RowKey};
use std::collections::BTreeMap;

/// The most text in one page; a single entry may be larger.
pub(crate) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The state of a tenant's clock; a tenant that was never written to has none, which is the same as
/// zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClockRow {
    pub revision: i64,
    pub seq: i64,
    pub at: i64,
    pub chain: Vec<u8>,
}

impl Default for ClockRow {
    fn default() -> ClockRow {
        ClockRow {
            revision: 0,
            seq: 0,
            at: 0,
            chain: vec![0; 32],
        }
    }
}

/// An entry with its key at the source.
pub(crate) type CopiedEntry = (RowKey, EntryRow);

/// The share of a page's bytes that an entry takes.
pub(crate) fn entry_bytes(row: &EntryRow) -> usize {
    let text = row.text.as_ref();
    text.map_or(0, |text| {
        text.content.len() + text.metadata.as_ref().map_or(0, String::len)
    })
}

/// Counts of rows and a sum of their hashes over all rows of a tenant, and its clock.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TenantDigest {
    pub clock: ClockRow,
    pub entries: u64,
    /// The number of rows of each other table that has some.
    counts: BTreeMap<&'static str, u64>,
    /// Events that report a new entry (not one that a replay only repeats): each has its row,
    /// erased or not.
    pub written_events: u64,
    sum: [u64; 4],
}

/// Hashes one row, field by field; lengths and presence marks keep neighbouring fields apart.
struct RowHasher(Hasher);

impl RowHasher {
    fn of(table: &str) -> RowHasher {
        RowHasher(Hasher::new()).bytes(table.as_bytes())
    }

    fn bytes(mut self, bytes: &[u8]) -> RowHasher {
        self.0
            .update(&(bytes.len() as u64).to_le_bytes())
            .update(bytes);
        self
    }

    fn numbers(mut self, numbers: &[i64]) -> RowHasher {
        for number in numbers {
            self.0.update(&number.to_le_bytes());
        }
        self
    }

    fn maybe_bytes(mut self, bytes: Option<&[u8]>) -> RowHasher {
        self.0.update(&[u8::from(bytes.is_some())]);
        self.bytes(bytes.unwrap_or_default())
    }

    fn maybe_number(mut self, number: Option<i64>) -> RowHasher {
        self.0.update(&[u8::from(number.is_some())]);
        self.numbers(&[number.unwrap_or_default()])
    }

    fn value(self, value: &Value<'_>) -> RowHasher {
        match value {
            Value::Number(number) => self.maybe_number(*number),
            Value::Text(text) => self.maybe_bytes(text.as_deref().map(str::as_bytes)),
            Value::Bytes(bytes) => self.maybe_bytes(bytes.as_deref()),
        }
    }
}

impl TenantDigest {
    /// The digest of no rows yet, with this clock.
    pub fn at(clock: ClockRow) -> TenantDigest {
        TenantDigest {
            clock,
            ..TenantDigest::default()
        }
    }

    /// The number of events.
    pub fn events(&self) -> u64 {
        self.count(&TABLES.events)
    }

    fn count(&self, table: &CopiedTable) -> u64 {
        self.counts.get(table.numbers).copied().unwrap_or_default()
    }

    fn add(&mut self, fields: &RowHasher) {
        let hash = fields.0.finalize();
        for (lane, bytes) in self.sum.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            *lane = lane.wrapping_add(u64::from_le_bytes(number));
        }
    }

    /// Adds a row of a table.
    pub fn row(&mut self, table: &CopiedTable, row: &CopiedRow) {
        *self.counts.entry(table.numbers).or_default() += 1;
        let written = Value::text(EventKind::Written.as_str());
        if table.value(row, "kind") == Some(&written)
            && table.value(row, "recorded_at") == Some(&Value::Number(None))
        {
            self.written_events += 1;
        }
        let fields = row
            .values
            .iter()
            .fold(RowHasher::of(table.numbers), RowHasher::value);
        self.add(&fields);
    }

    /// Adds an entry. Its successor is hashed by its name, as a row of a table.
    pub fn entry(&mut self, (key, row): &CopiedEntry) {
        self.entries += 1;
        let change = EntryChange {
            key: *key,
            before: None,
            after: row.clone(),
        };
        let columns = entry::COLUMNS.iter();
        let columns = columns.filter(|column| column.name != "replaced_by");
        let fields = columns.fold(
            RowHasher::of("entry").numbers(&[key.scope]),
            |fields, column| fields.value(&(column.value)(&change)),
        );
        self.add(&fields);
    }

    /// The first kind of rows that differ.
    pub fn difference(&self, target: &TenantDigest) -> Option<&'static str> {
        if self.clock != target.clock {
            return Some("clocks");
        }
        if self.entries != target.entries {
            return Some("numbers of entries");
        }
        let mut tables = TABLES.compared().into_iter();
        let other = tables.find(|table| self.count(table) != target.count(table));
        let other = other.map(|table| table.numbers);
        other.or_else(|| (self != target).then_some("contents of rows"))
    }

    /// The whole digest as one short text.
    pub fn hex(&self) -> String {
        let clock = &self.clock;
        let mut hasher = RowHasher::of("tenant")
            .numbers(&[clock.revision, clock.seq, clock.at])
            .bytes(&clock.chain)
            .0;
        let tables = TABLES.compared();
        let counts = tables.iter().map(|table| self.count(table));
        for number in counts.chain([self.entries]).chain(self.sum) {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn event(seq: i64, run_id: Option<&str>, kind: &'static str) -> CopiedRow {
        let run_id = run_id.map(|id| Cow::Owned(id.to_owned()));
        let run_seq = run_id.as_ref().map(|_| 0);
        CopiedRow {
            values: vec![
                Value::number(seq),
                Value::number(1),
                Value::number(1),
                Value::Text(run_id),
                Value::Number(run_seq),
                Value::Number(None),
                Value::text(kind),
                Value::text("{}"),
                Value::bytes(&[1]),
            ],
            position: vec![Value::number(seq)],
        }
    }

    fn digest(rows: &[CopiedRow]) -> String {
        let mut digest = TenantDigest::default();
        rows.iter().for_each(|row| digest.row(&TABLES.events, row));
        digest.hex()
    }

    #[test]
    fn an_event_of_a_new_entry_is_counted() {
        let mut digest = TenantDigest::default();
        let written = EventKind::Written.as_str();
        for kind in [written, "other", written] {
            digest.row(&TABLES.events, &event(1, None, kind));
        }
        assert_eq!((digest.written_events, digest.events()), (2, 3));
    }

    #[test]
    fn the_copy_digest_covers_every_field_but_not_row_order() {
        let base = digest(&[event(1, None, "a"), event(2, None, "b")]);
        assert_eq!(base, digest(&[event(2, None, "b"), event(1, None, "a")]));
        for other in [
            vec![event(1, None, "a")],
            vec![
                event(1, None, "a"),
                event(2, None, "b"),
                event(2, None, "b"),
            ],
            vec![event(1, Some(""), "a"), event(2, None, "b")],
            vec![event(1, None, "b"), event(2, None, "a")],
        ] {
            assert_ne!(base, digest(&other));
        }
    }
}
