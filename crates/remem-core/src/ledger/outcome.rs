//! What a batch has done: the outcome of each of its changes, or why it was refused.

use crate::ids::{EntryId, Revision, Timestamp};

/// The outcome of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The entry was stored with this id, at this time.
    Stored {
        /// The id; for a repeated batch, the one of the first time.
        id: EntryId,
        created_at: Timestamp,
    },
    /// The record was written and has this version now.
    Recorded {
        /// The name; for a repeated batch, the one of the first time.
        key: String,
        /// The version, counted from 1.
        version: u64,
    },
    /// The event was appended, or the snapshot held or released.
    Done,
    /// The entry or record was removed.
    Removed,
    /// The entry was removed, and its text is kept because an action rests on it.
    TextHeld,
    /// Nothing was changed: there is no such live entry, or the imported id is in use.
    NoChange,
}

/// The result of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitResult {
    /// The revision that this batch became, or the newest one if it changed nothing.
    pub revision: Revision,
    /// The instant of the commit: the batch's own, or later if the tenant's clock was ahead of it.
    pub at: Timestamp,
    /// The outcomes of the changes, one for each, in order.
    pub outcomes: Vec<ChangeOutcome>,
    /// True if the batch was applied before under the same idempotency key; the outcomes are those
    /// of the first time.
    pub replayed: bool,
}

/// The reason why nothing of a batch was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An expectation, a precondition or a lease does not hold, or a slot was filled meanwhile.
    Conflict,
    /// The idempotency key was used with another request.
    KeyMismatch,
    /// The result that is stored under the idempotency key cannot be read.
    UnreadableResult,
}
