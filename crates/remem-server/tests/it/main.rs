//! The surfaces over a host in process: one module a group of endpoints. All of them run on
//! PostgreSQL as well, when `REMEM_TEST_STORE=postgres`.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be prepared or go on has failed"
)]

mod access;
mod agents;
mod bad_input;
mod bounds;
mod commitments;
mod damaged;
mod deadlines;
mod entries;
mod forget;
mod isolation;
mod key_trust;
mod mcp;
mod model;
mod numbers;
mod objects;
mod openapi;
mod passes;
mod proposals;
mod protocol_version;
mod recall;
mod runs;
mod seams;
mod starving;
mod untrusted_tools;
mod upgrade;
mod vault;
mod webhooks;
mod workshop;
mod workspace;
