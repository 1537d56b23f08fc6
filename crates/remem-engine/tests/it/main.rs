//! The engine over a real store: one module for each capability. Modules that open their store with
//! `storage::open` run on PostgreSQL as well, when `REMEM_TEST_STORE=postgres`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared or go on has failed"
)]

mod at_least;
mod automations;
mod clock;
mod commitments;
mod common;
mod compact;
mod consolidate;
mod distill;
mod embed;
mod forget;
mod forget_jobs;
mod idempotency;
mod jobs;
mod key_trust;
mod late_secrets;
mod model;
mod proposals;
mod purge;
mod recall;
mod run_rights;
mod runs;
mod schedules;
mod simulation;
mod trust;
mod turns;
mod webhooks;
mod workshop;
