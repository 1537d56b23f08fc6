//! The surfaces of the host: HTTP, event streams and MCP. A handler parses, calls one operation and
//! renders the answer.
//!
//! This crate may not hold a rule or touch a store: every surface can do exactly what the engine
//! offers to all of them.

pub mod api;
pub mod http;
pub mod mcp;
pub mod serve;
mod write_deadline;

pub use api::{
    CommitmentApi, CreatedCommitment, DecisionOutcome, ForgetApi, InstalledAgent, LocalApi,
    MemoryApi, PassApi, RecallApi, ReviewApi, WorkshopApi, WriteAnswer,
};
pub use http::{App, router};
