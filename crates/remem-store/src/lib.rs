//! The interface between deciding and storing: the `Store`, `Review` and `Directory` traits and
//! their errors. The conformance suite in `remem-testkit` defines what every store must do.
//!
//! This crate may not know a database: no transaction, connection, SQL or vendor word crosses the
//! interface. Read-then-write safety comes from `Batch::expect_entry` and idempotency keys, never
//! from a lock that is held across calls.

pub mod deadline;
pub mod directory;
pub mod kin;
pub mod read;
pub mod soundness;
pub mod store;
pub mod workshop;

pub use directory::{Directory, KeyHash, KeyRecord, Tenant};
pub use kin::{EntryState, Lineage, Relative, Signed, Trace, Traced};
pub use read::{
    Around, Candidate, Filter, Found, Page, Position, Probe, ReadAt, ScopeStats, ScopeSummary, Tie,
    VectorCounts,
};
pub use soundness::{Damage, Damages, NAMED_MAX};
pub use store::{
    Committed, Head, Outcome, Review, RowCursor, Snapshot, Stale, Store, StoreError, StoreFeatures,
    Work,
};
pub use workshop::{ActionLink, Answer, Faded, Linked, RetentionCount, RetentionState, Rule};
