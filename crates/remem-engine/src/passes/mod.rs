//! Passes: one file each. A pass takes a tenant and nothing else, is bounded and idempotent, never spawns or retries:
//! the next activation is the retry.

pub mod deliver;
pub mod purge;
pub mod runs;
