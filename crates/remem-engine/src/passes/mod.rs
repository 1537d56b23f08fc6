//! The passes, one file each. A pass over a tenant takes the tenant, one over a memory takes a job.
//! Both are bounded and idempotent and never spawn or retry: the next activation is the retry.

pub mod archives;
pub mod compact;
pub mod consolidate;
pub mod deliver;
pub mod distill;
pub mod embed;
pub mod fire;
mod gather;
pub mod infer;
pub mod jobs;
pub mod propose;
pub mod purge;
pub mod rescan;
pub mod runs;
pub mod sessions;
pub mod sweep;
