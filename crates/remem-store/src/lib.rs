//! The interface between deciding and storing: the traits of a store by concern, `Store` as their
//! sum, `Review`, `Directory`, and their errors. The conformance suite in `remem-testkit` defines
//! what every store must do.
//!
//! This crate may not know a database: no transaction, connection, SQL or vendor word crosses the
//! interface. Read-then-write safety comes from `Batch::expect_entry` and idempotency keys, never
//! from a lock that is held across calls.

mod calls;
pub mod damage;
pub mod deadline;
pub mod directory;
mod entry;
mod error;
mod forward;
mod ledger;
mod lineage;
mod log;
mod read;
mod record;
mod store;
mod upkeep;
mod workshop;

pub use calls::{
    EndedStatement, EntryCalls, LogCalls, RecordCalls, RescanPage, ReviewCalls, RuleCalls,
};
pub use damage::{DamageReport, DamagedTable, NAMED_MAX};
pub use directory::{Directory, KeyHash, KeyRecord, TenantRecord};
pub use entry::{
    EntryQuery, EntryReads, EntrySelection, FoundEntry, MemoryEntries, RowCursor, TenantEntries,
    WholeEntry,
};
pub use error::StoreError;
pub use forward::StoreWrapper;
pub use ledger::Ledger;
pub use lineage::{
    Lineage, LineageReads, RelatedEntry, StoredSignature, SubjectTrace, TracePosition, TracedEntry,
};
pub use log::{EventRange, LogReads, Snapshot, TenantHead};
pub use read::{
    CandidateSet, Filter, ListPosition, MemoryStats, MemorySummary, Neighbours, Page, Probe,
    ReadAt, SearchCandidate, VectorCounts,
};
pub use record::{RecordLookup, RecordReads, Review};
pub use remem_core::ledger::{ChangeOutcome, CommitResult, EntryState};
pub use store::Store;
pub use upkeep::{DueWork, Leases, StoreFeatures, Upkeep, Vectors};
pub use workshop::{
    ActionLink, EntryActions, RetentionCount, RetentionState, RuleRange, WorkshopReads, WorldRule,
};
