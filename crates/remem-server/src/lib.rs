//! The surfaces: HTTP, event streams, MCP. A handler parses, calls one operation, renders.
//!
//! This crate may not hold a rule or touch a store: what a surface may do is what the engine offers
//! every surface.

pub mod door;
pub mod http;
pub mod mcp;
pub mod serve;
mod write_deadline;

pub use door::{
    CommitmentDoor, Decided, Door, EngineDoor, ForgetDoor, InstalledAgent, MadeCommitment,
    PassDoor, RecallDoor, ReviewDoor, WorkshopDoor, Written,
};
pub use http::{App, router};
