//! The trait `Store`: all that a store of memories does, as the sum of the traits by concern.

use crate::calls::{EntryCalls, LogCalls, RecordCalls, RuleCalls};
use crate::entry::EntryReads;
use crate::ledger::Ledger;
use crate::lineage::LineageReads;
use crate::log::LogReads;
use crate::record::RecordReads;
use crate::upkeep::{Leases, Upkeep, Vectors};
use crate::workshop::WorkshopReads;

/// Stores the memories of many tenants, isolated from each other and safe across crashes.
///
/// Contracts that hold for every method of its traits: a scope or tenant that does not exist reads
/// as empty, never as an error; no read returns an entry that is expired, erased or another
/// tenant's; after `commit` has returned, every later read on any handle sees its effect; and a
/// memory of one user is visible to that user and the host only (`Scope::actor`). Methods that take
/// a tenant and no actor serve the host.
///
/// A function that needs one concern takes the trait of that concern. Records under review are no
/// part of it: see `Review`.
pub trait Store:
    Ledger
    + EntryReads
    + EntryCalls
    + RecordReads
    + RecordCalls
    + LogReads
    + LogCalls
    + LineageReads
    + Vectors
    + WorkshopReads
    + RuleCalls
    + Leases
    + Upkeep
{
}

impl<S> Store for S where
    S: Ledger
        + EntryReads
        + RecordReads
        + LogReads
        + LineageReads
        + Vectors
        + WorkshopReads
        + Leases
        + Upkeep
{
}
