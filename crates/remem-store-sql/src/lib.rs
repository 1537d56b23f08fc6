//! The only SQL of the project: statements, migrations, search per dialect.
//!
//! This crate may not decide anything: `remem-core` decides what is stored, and the engine decides
//! when.

mod bm25;
pub mod copy;
pub mod postgres;
pub mod private;
mod queue;
mod row_hash;
pub(crate) mod rows;
mod spelling;
pub mod sqlite;
mod stored;
mod terms;
mod trace;

pub use postgres::{PostgresDirectory, PostgresStore};
pub use sqlite::{Location, SqliteDirectory, SqliteStore};

use remem_store::SearchCandidate;

/// Sorts the candidates of a search: by word score, then by vector similarity, then newest first.
fn sort_candidates(candidates: &mut [SearchCandidate]) {
    let words = |candidate: &SearchCandidate| candidate.lexical + candidate.correction_score;
    let cosine = |candidate: &SearchCandidate| candidate.cosine.unwrap_or(f64::MIN);
    candidates.sort_by(|a, b| {
        let newest = || (b.entry.created_at, &b.entry.id).cmp(&(a.entry.created_at, &a.entry.id));
        words(b)
            .total_cmp(&words(a))
            .then_with(|| cosine(b).total_cmp(&cosine(a)))
            .then_with(newest)
    });
}
