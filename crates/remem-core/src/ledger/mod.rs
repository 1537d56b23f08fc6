//! The ledger: the one state machine that says what a batch does to the stored rows of a tenant.
//!
//! A store loads the rows that `Wanted` names, calls `apply` for each batch of a group, and saves
//! the `Effects`. It decides nothing itself, so all stores behave alike. Everything here is a
//! function of the loaded rows; row-level security, triggers and foreign keys of a database remain
//! as a second wall.
//!
//! - `wanted`: what to load for a group of batches
//! - `working`, `table`, `row`: the loaded rows, and what the batches make of them
//! - `apply`: checks a batch, applies its changes, and takes them back if it is refused
//! - `put`, `removal`, `succession`, `annotation`, `record`, `rule`, `snapshot`: the rules
//! - `copy`: what a copied page makes of the entries of its target
//! - `effects`: what to save
//! - `totals`: what the entries of a memory add up to

mod annotation;
mod apply;
mod copy;
mod effects;
mod outcome;
mod put;
mod record;
mod removal;
mod row;
mod rule;
mod snapshot;
mod state;
mod succession;
mod table;
#[cfg(test)]
mod tests;
mod totals;
mod wanted;
mod working;

pub use apply::apply;
pub use copy::copy_entries;
pub use effects::{Effects, EntryChange, IndexChange};
pub use outcome::{ChangeOutcome, CommitResult, Refused};
pub use row::{
    EntryName, EntryRow, EntryText, LinkKey, LinkRow, MemoryRow, NewEvent, RecordKey, RecordRow,
    ResultKey, RowKey, RuleRow, SignatureRow, SnapshotRow, StoredResult, TenantClock, VectorRow,
};
pub use state::EntryState;
pub use table::{RowChange, Table};
pub use totals::MemoryTotals;
pub use wanted::{EntryNeed, MovingAnswer, SlotWindow, Wanted, weight};
pub use working::{RowNumbers, Working};
