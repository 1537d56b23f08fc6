//! The real binary from outside: commands, HTTP on the loopback, signals, and the files it keeps.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking and lives in real time"
)]

mod agents;
mod cli;
mod commitments;
mod common;
mod copy;
mod crash;
mod edge;
mod erasure;
mod event_chain;
mod examples;
mod forget;
mod habits;
mod jwt;
mod key_trust;
mod late_fields;
mod mcp;
mod models;
mod nodes;
mod openapi;
mod openwop;
mod outage;
mod proposals;
mod runs;
mod sabotage;
mod secret_fields;
mod secrets;
mod shutdown;
mod stable_names;
mod tenant;
mod upgrade;
mod vault;
mod waiting;
mod webhooks;
mod workshop;
