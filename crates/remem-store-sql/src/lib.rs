//! The only SQL of the project: statements, migrations, search per dialect.
//!
//! This crate may not decide anything: what is stored was decided in `remem-core`, when is decided by the engine.

pub mod copy;
pub mod postgres;
pub mod private;
mod queue;
pub mod sqlite;
mod stored;
mod terms;

pub use postgres::{PostgresDirectory, PostgresStore};
pub use sqlite::{Location, SqliteDirectory, SqliteStore};
