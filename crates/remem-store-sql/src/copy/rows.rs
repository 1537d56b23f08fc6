//! The rows that are copied, one plain struct for each table, and the digest by which source and
//! target are compared.
//!
//! Numbers that each store assigns by itself (`row_id`) are read only to continue after them and
//! are not part of the digest. Row hashes are added up, so that each store may be read in the order
//! that suits it.

use crate::rows::{Value, entry};
use blake3::Hasher;
use remem_core::ledger::{EntryChange, EntryRow, RowKey};
use remem_core::{EventKind, RecordKind};

/// The most rows in one page.
pub(crate) const PAGE_ROWS: usize = 1_000;
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

pub(crate) struct ScopeRow {
    pub scope_id: i64,
    pub memory_ref: String,
    pub owner: Option<String>,
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

pub(crate) struct EventRow {
    pub seq: i64,
    pub revision: i64,
    pub at: i64,
    pub run_id: Option<String>,
    pub run_seq: Option<i64>,
    pub recorded_at: Option<i64>,
    pub kind: String,
    pub payload: String,
    pub hash: Vec<u8>,
}

/// A stored result under an idempotency key.
pub(crate) struct IdempotencyRow {
    pub operation: String,
    pub key: Vec<u8>,
    pub body: Vec<u8>,
    pub at: i64,
    pub revision: i64,
    pub outcomes: String,
}

/// A record beside the memory.
pub(crate) struct RecordRow {
    pub kind: String,
    pub key: String,
    pub version: i64,
    pub at: i64,
    pub body: String,
    pub due: Option<i64>,
    pub topic: Option<String>,
    /// The memory and the id of the entry that it was made from.
    pub source_scope: Option<i64>,
    pub source_id: Option<String>,
}

impl RecordRow {
    /// Whether it is stored in the table of records under review.
    pub fn is_inert(&self) -> bool {
        RecordKind::ALL
            .into_iter()
            .any(|kind| kind.is_under_review() && kind.as_str() == self.kind)
    }
}

/// Merges two pages in the same order into one.
pub(crate) fn merge_pages(mut page: Vec<RecordRow>, other: Vec<RecordRow>) -> Vec<RecordRow> {
    page.extend(other);
    page.sort_by(|a, b| {
        (a.kind.as_bytes(), a.key.as_bytes()).cmp(&(b.kind.as_bytes(), b.key.as_bytes()))
    });
    page.truncate(PAGE_ROWS);
    page
}

/// A replaced entry and the one of the same memory that replaced it. Rows are numbered by each
/// store itself, so entries are copied by id; the numbers only say where to continue reading.
pub(crate) struct ReplacedRow {
    pub scope_id: i64,
    pub row_id: i64,
    pub id: String,
    pub by: String,
}

/// An entry and one that it was made from.
pub(crate) struct LinkRow {
    pub scope_id: i64,
    pub row_id: i64,
    pub source_scope: i64,
    pub source_row: i64,
    pub id: String,
    pub source_id: String,
}

/// The slot of an entry. Copied after the entries: by then every window is the same as at the
/// source.
pub(crate) struct SlotRow {
    pub scope_id: i64,
    pub row_id: i64,
    pub id: String,
    pub slot: String,
}

/// An action that rests on an entry.
pub(crate) struct ActionRow {
    pub scope_id: i64,
    pub row_id: i64,
    pub action: String,
    pub reference: String,
    pub linked_at: i64,
    pub linked_by: Option<String>,
    pub id: String,
}

/// A rule of a world. Values derived from its text are computed by each store.
pub(crate) struct RuleRow {
    pub world: String,
    pub id: String,
    pub body: String,
    pub at: i64,
}

/// A subject of an entry.
pub(crate) struct SubjectRow {
    pub subject: Vec<u8>,
    pub scope_id: i64,
    pub row_id: i64,
    pub id: String,
}

/// The columns of each table in the order in which both stores read them.
pub(crate) const SCOPE: &str = "scope_id, memory_ref, owner";
pub(crate) const EVENT: &str =
    "seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash";
pub(crate) const IDEMPOTENCY: &str = "operation, key, body, at, revision, outcomes";

pub(crate) const RECORD: &str =
    "r.kind, r.key, r.version, r.at, r.body, r.due, r.topic, r.source_scope, e.id";
/// SQL condition: the records that are copied. The one that says which vectors there are is left out
/// together with the vectors: the target makes its own.
pub(crate) const IS_COPIED: &str = "NOT (r.kind = 'progress' AND r.key = 'embed')";
pub(crate) const REVIEW: &str = "r.kind, r.key, r.version, r.at, r.body, r.due, CAST(NULL AS text), CAST(NULL AS bigint), CAST(NULL AS text)";

/// Counts of rows and a sum of their hashes over all rows of a tenant, and its clock.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct TenantDigest {
    pub clock: ClockRow,
    pub scopes: u64,
    pub entries: u64,
    pub events: u64,
    pub idempotency_rows: u64,
    pub records: u64,
    pub replaced: u64,
    pub links: u64,
    pub subjects: u64,
    pub actions: u64,
    pub rules: u64,
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

    fn text(self, text: &str) -> RowHasher {
        self.bytes(text.as_bytes())
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

    fn maybe_text(self, text: Option<&String>) -> RowHasher {
        self.maybe_bytes(text.map(String::as_bytes))
    }

    fn maybe_number(mut self, number: Option<i64>) -> RowHasher {
        self.0.update(&[u8::from(number.is_some())]);
        self.numbers(&[number.unwrap_or_default()])
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

    fn add(&mut self, fields: &RowHasher) {
        let hash = fields.0.finalize();
        for (lane, bytes) in self.sum.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            *lane = lane.wrapping_add(u64::from_le_bytes(number));
        }
    }

    pub fn scope(&mut self, row: &ScopeRow) {
        self.scopes += 1;
        self.add(
            &RowHasher::of("scope")
                .numbers(&[row.scope_id])
                .text(&row.memory_ref)
                .maybe_text(row.owner.as_ref()),
        );
    }

    /// The successor of an entry is hashed by its name: see `replaced`.
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
            |fields, column| match (column.value)(&change) {
                Value::Number(number) => fields.maybe_number(number),
                Value::Text(text) => fields.maybe_bytes(text.as_deref().map(str::as_bytes)),
                Value::Bytes(bytes) => fields.maybe_bytes(bytes.as_deref()),
            },
        );
        self.add(&fields);
    }

    pub fn event(&mut self, row: &EventRow) {
        self.events += 1;
        self.written_events +=
            u64::from(row.kind == EventKind::Written.as_str() && row.recorded_at.is_none());
        let fields = RowHasher::of("event")
            .numbers(&[row.seq, row.revision, row.at])
            .maybe_text(row.run_id.as_ref());
        let fields = fields
            .maybe_number(row.run_seq)
            .maybe_number(row.recorded_at);
        self.add(&fields.text(&row.kind).text(&row.payload).bytes(&row.hash));
    }

    pub fn idempotency_row(&mut self, row: &IdempotencyRow) {
        self.idempotency_rows += 1;
        let fields = RowHasher::of("idempotency")
            .numbers(&[row.at, row.revision])
            .text(&row.operation);
        self.add(&fields.bytes(&row.key).bytes(&row.body).text(&row.outcomes));
    }

    pub fn record(&mut self, row: &RecordRow) {
        self.records += 1;
        let fields = RowHasher::of("record")
            .numbers(&[row.version, row.at])
            .text(&row.kind)
            .text(&row.key)
            .text(&row.body);
        let fields = fields.maybe_number(row.due).maybe_text(row.topic.as_ref());
        self.add(
            &fields
                .maybe_number(row.source_scope)
                .maybe_text(row.source_id.as_ref()),
        );
    }

    pub fn replaced(&mut self, row: &ReplacedRow) {
        self.replaced += 1;
        self.add(
            &RowHasher::of("replaced")
                .numbers(&[row.scope_id])
                .text(&row.id)
                .text(&row.by),
        );
    }

    pub fn link(&mut self, row: &LinkRow) {
        self.links += 1;
        self.add(
            &RowHasher::of("lineage")
                .numbers(&[row.scope_id, row.source_scope])
                .text(&row.id)
                .text(&row.source_id),
        );
    }

    pub fn subject(&mut self, row: &SubjectRow) {
        self.subjects += 1;
        self.add(
            &RowHasher::of("subject")
                .numbers(&[row.scope_id])
                .bytes(&row.subject)
                .text(&row.id),
        );
    }

    pub fn action(&mut self, row: &ActionRow) {
        self.actions += 1;
        let fields = RowHasher::of("action")
            .numbers(&[row.scope_id, row.linked_at])
            .text(&row.id)
            .text(&row.action);
        self.add(
            &fields
                .text(&row.reference)
                .maybe_text(row.linked_by.as_ref()),
        );
    }

    pub fn rule(&mut self, row: &RuleRow) {
        self.rules += 1;
        self.add(
            &RowHasher::of("rule")
                .numbers(&[row.at])
                .text(&row.world)
                .text(&row.id)
                .text(&row.body),
        );
    }

    /// The whole digest as one short text.
    pub fn hex(&self) -> String {
        let clock = &self.clock;
        let mut hasher = RowHasher::of("tenant")
            .numbers(&[clock.revision, clock.seq, clock.at])
            .bytes(&clock.chain)
            .0;
        let relation_counts = [
            self.replaced,
            self.links,
            self.subjects,
            self.actions,
            self.rules,
        ];
        for number in [
            self.scopes,
            self.entries,
            self.events,
            self.idempotency_rows,
            self.records,
        ]
        .iter()
        .chain(&relation_counts)
        .chain(&self.sum)
        {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: i64, run_id: Option<&str>, kind: &str) -> EventRow {
        let run_seq = run_id.map(|_| 0);
        let run_id = run_id.map(str::to_owned);
        EventRow {
            seq,
            revision: 1,
            at: 1,
            run_id,
            run_seq,
            recorded_at: None,
            kind: kind.to_owned(),
            payload: "{}".into(),
            hash: vec![1],
        }
    }

    fn digest(rows: &[EventRow]) -> String {
        let mut digest = TenantDigest::default();
        rows.iter().for_each(|row| digest.event(row));
        digest.hex()
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
