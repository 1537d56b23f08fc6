//! Consolidation, the deciding part: which entries of one memory say the same as another and may be
//! merged into it, and which were superseded by a newer answer. Nothing is changed here; a pass
//! carries the decisions out.
//!
//! * `features`: trigrams, and how alike two sets of them are.
//! * `guard`: the merge predicate.
//! * `slot`: the one question an entry answers.
//! * `signature`: what is stored with an entry, so that it need not be read again.
//! * `plan`: the planner, driven by whoever has the entries; its first phase, over signatures.
//! * `buckets`: who meets whom.
//! * `cover`: the planner's second phase, over the texts of those who meet.

mod buckets;
pub mod cover;
pub mod features;
pub mod guard;
pub mod plan;
pub mod signature;
pub mod slot;

pub use cover::Cover;
pub use guard::{Item, may_merge};
pub use plan::{Decision, Handle, Planner, order_key};
pub use signature::Signature;
pub use slot::Slot;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
