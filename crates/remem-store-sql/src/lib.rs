//! The only SQL of the project: statements, migrations, search per dialect.
//!
//! This crate may not decide anything: what is stored was decided in `remem-core`, when is decided by the engine.

pub mod sqlite;

pub use sqlite::{Location, SqliteDirectory, SqliteStore};
