//! Shared test set-up of several crates: the conformance suite of stores, a store that fails on
//! purpose, hosts over a store that the environment chooses, private databases, repeatable random
//! numbers, and one way to wait.
//!
//! Only tests use this crate: it is a development dependency and never part of the product.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot be prepared has failed"
)]

mod cases;
pub mod conformance;
#[cfg(feature = "engine")]
pub mod env;
mod fault_store;
#[cfg(feature = "engine")]
pub mod host;
pub mod kept;
pub mod postgres;
mod proxy;
mod random;
#[cfg(feature = "http")]
pub mod server;
pub mod storage;
mod wait;

pub use cases::{cases, cases_by_tier};
#[cfg(feature = "engine")]
pub use env::TestEnv;
pub use fault_store::FaultStore;
#[cfg(feature = "engine")]
pub use host::TestHost;
pub use proxy::{Proxy, ProxyMode};
pub use random::{SeededRandom, fresh_seed, given_seed};
#[cfg(feature = "http")]
pub use server::{TestResponse, TestServer};
pub use wait::{deadline, wait_for, wait_until, wait_until_blocking};

use remem_core::Timestamp;

/// The first instant of the clock in a test.
pub const NOON: Timestamp = Timestamp(1_700_000_000_000);
