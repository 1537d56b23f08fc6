//! Evaluations: how well memory finds again. A dataset is read (`dataset` and a file a format), put
//! into a host of its own (`stand`) and asked (`ask`, `misspell`); what was found is counted
//! (`metrics`), held against the probability that the host gave (`judged`, `abstain`, `fit`) and
//! shown (`tables`, `report`). May not touch the memory of anybody: the host lives in a temporary
//! folder. `docs/evaluation.md` explains the numbers.

pub mod abstain;
pub mod ask;
pub mod dataset;
mod dates;
pub mod fit;
mod jsonl;
pub mod judged;
mod locomo;
mod longmemeval;
pub mod metrics;
pub mod misspell;
pub mod remember;
pub mod report;
pub mod stand;
pub mod tables;
