//! The interface between deciding and storing: the `Store`, `Review` and `Directory` traits and
//! their errors. The conformance suite in `remem-testkit` defines what every store must do.
//!
//! This crate may not know a database: no transaction, connection, SQL or vendor word crosses the
//! interface. Read-then-write safety comes from `Batch::expect_entry` and idempotency keys, never
//! from a lock that is held across calls.

pub mod damage;
pub mod deadline;
pub mod directory;
pub mod lineage;
pub mod read;
pub mod store;
pub mod workshop;

pub use damage::{DamageReport, DamagedTable, NAMED_MAX};
pub use directory::{Directory, KeyHash, KeyRecord, TenantRecord};
pub use lineage::{
    Lineage, RelatedEntry, StoredSignature, SubjectTrace, TracePosition, TracedEntry,
};
pub use read::{
    CandidateSet, Filter, ListPosition, MemoryStats, MemorySummary, Neighbours, Page, Probe,
    ReadAt, RecordLookup, SearchCandidate, VectorCounts,
};
pub use remem_core::ledger::{ChangeOutcome, CommitResult, EntryState};
pub use store::{
    DueWork, RescanPage, Review, RowCursor, Snapshot, Store, StoreError, StoreFeatures, TenantHead,
};
pub use workshop::{
    ActionLink, EndedStatement, EntryActions, RetentionCount, RetentionState, SlotAnswer, WorldRule,
};
