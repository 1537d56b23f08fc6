//! The wire: JSON shapes, error codes and the discovery document, shared by HTTP, MCP, CLI and
//! clients.
//!
//! This crate defines data and performs no action. Names are OpenWOP's where it has one. Requests
//! refuse unknown fields; answers may get new ones.

pub mod admin;
pub mod agent;
pub mod automation;
pub mod commitment;
pub mod discovery;
pub mod entry;
pub mod error;
pub mod event;
pub mod forget;
pub mod heartbeat;
pub mod memory;
pub mod model;
pub mod number;
pub mod pass;
pub mod proposal;
pub mod reader;
pub mod recall;
pub mod run;
pub mod secrets;
pub mod time;
pub mod webhook;
pub mod workshop;
pub mod workspace;

pub use entry::{ImportEntry, MemoryEntry, Metadata, PutEntry};
pub use error::{ErrorBody, Failure, Problem};
pub use event::{EventDoc, EventPage};

/// Header with the revision token of a write; pass the token as `atLeast` to read the write back.
pub const REVISION_HEADER: &str = "remem-revision";
/// Header of an answer that repeats an earlier one, given to the same idempotency key and body.
pub const REPLAY_HEADER: &str = "openwop-idempotent-replay";
/// Header that makes a write safe to repeat.
pub const IDEMPOTENCY_HEADER: &str = "idempotency-key";
