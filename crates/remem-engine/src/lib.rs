//! The application layer: every operation that callers and passes perform on memory, built from the
//! decisions of `remem-core` and the interface of `remem-store`.
//!
//! This crate may not see SQL, HTTP, JSON on the wire, or a concrete store. Every surface calls the
//! functions here and nothing below them, so a rule that holds here holds everywhere.

pub mod agents;
pub mod archive;
pub mod audit;
pub mod automations;
pub mod bearer;
mod bounded_map;
pub mod caller;
pub mod commitments;
pub mod conformance;
pub mod context;
pub mod cpu;
pub mod cursor;
pub mod embedders;
pub mod embeddings;
pub mod engine;
pub mod error;
mod event_visibility;
pub mod feed;
pub mod forget;
pub mod heartbeats;
pub mod jobs;
pub mod keys;
pub mod lineage;
pub mod model;
pub mod passes;
pub mod ports;
pub mod proposals;
pub mod read;
pub mod registry;
pub mod runner;
pub mod runs;
pub mod schedules;
pub mod seal;
pub mod search;
pub mod secrets;
pub mod sessions;
mod stored;
pub mod tokens;
pub mod vault;
pub mod webhook;
pub mod workshop;
pub mod workspace;
pub mod worlds;
pub mod write;

/// Value of the secret that conformance checks resolve. [`TEST_SECRET`] is the name that it is
/// resolved by.
pub const CANARY_SECRET: &str = "openwop-conformance-canary-secret";
/// Name of the secret whose value is [`CANARY_SECRET`].
pub const TEST_SECRET: &str = "conformance-test-secret";

pub use caller::Caller;
pub use engine::{Engine, EngineParts, HostKey};
pub use error::{AuthError, EngineError};
pub use secrets::SecretRegistry;
pub use vault::VaultKey;
