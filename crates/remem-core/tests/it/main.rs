//! The rules of memory through the public API: one module for each capability.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared or go on has failed"
)]

mod distill;
mod infer;
mod pii;
mod proposals;
mod redaction;
#[path = "../../src/test_cases.rs"]
mod test_cases;
mod trust;
