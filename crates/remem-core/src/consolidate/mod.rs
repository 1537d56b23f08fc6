//! Consolidation, the deciding part: finds entries of one memory that state the same as another and
//! may be merged into it, and those that a newer answer supersedes. Nothing is changed here; a pass
//! carries the decisions out.
//!
//! * `features`: trigrams, and the similarity of two sets of them.
//! * `guard`: the merge predicate.
//! * `slot`: the single question that an entry answers.
//! * `signature`: the digest stored with an entry, so that its text need not be read again.
//! * `plan`: the planner, which a caller feeds with entries; its first phase, over signatures.
//! * `buckets`: groups of entries that are candidates for each other.
//! * `merge_phase`: the planner's second phase, over the texts of candidates.

mod buckets;
pub mod features;
pub mod guard;
pub mod merge_phase;
pub mod plan;
pub mod signature;
pub mod slot;

pub use guard::{MergeItem, may_merge};
pub use merge_phase::MergePhase;
pub use plan::{Decision, PlanEntry, Planner, order_key};
pub use signature::Signature;
pub use slot::SlotFact;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
