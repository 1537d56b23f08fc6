//! Lexical search: postings of the memory's words, ranked by BM25 with the memory's own counts.
//!
//! Policies let only leakproof operators near an index; equality on the key of `posting` is one, so the cost grows with
//! the hits and not with the tenant. Words are looked up one by one (`OFFSET 0` keeps the planner from doing it otherwise):
//! a plan that is kept for all callers knows nothing of how large a memory is. Entries are fetched in the order of their
//! score until there are enough live ones.

use super::gate::{Gate, Identity, Role};
use super::read::{push_cell, push_created, push_tags};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, Param, Statement, entry, get};
use crate::terms;
use remem_core::Scope;
use remem_store::{Candidate, Filter, Probe, ReadAt, StoreError};
use std::collections::BTreeSet;

/// Contributions are rounded to this many parts of one, so that their sum does not depend on the order of rows.
const PARTS: f64 = 1e6;

impl Gate {
    pub async fn candidates(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<Candidate>, StoreError> {
        let Probe::Lexical { terms } = probe;
        let words: BTreeSet<i64> = terms.iter().flat_map(|term| terms::digests(term)).collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let statement = statement(scope, words.into_iter().collect(), filter, limit, at);
        let rows = self.read(Role::App, Identity::of(scope), &statement.sql, &statement.params()).await?;
        let mut hits = Vec::with_capacity(rows.len());
        for row in &rows {
            hits.push(Candidate { entry: entry(row, &scope.memory_ref)?, score: get::<f64>(row, ENTRY_WIDTH)? / PARTS });
        }
        // The database breaks ties by the order of writing; among what is shown, newer comes first.
        hits.sort_by(|a, b| {
            b.score.total_cmp(&a.score).then_with(|| (b.entry.created_at, &b.entry.id).cmp(&(a.entry.created_at, &a.entry.id)))
        });
        Ok(hits)
    }
}

pub(super) fn statement<'a>(scope: &'a Scope, words: Vec<i64>, filter: &'a Filter, limit: u32, at: &'a ReadAt) -> Statement<'a> {
    let tenant = scope.tenant.as_str();
    let mut statement = Statement::new("");
    statement.push(
        "WITH s AS MATERIALIZED (SELECT scope_id, documents, words FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?),
         hit AS MATERIALIZED (SELECT p.word, p.row_id, p.times, p.words FROM unnest(?::bigint[]) AS w (word)
           CROSS JOIN LATERAL (SELECT p.word, p.row_id, p.times, p.words FROM remem.posting p
             WHERE p.tenant_id = ? AND p.scope_id = (SELECT scope_id FROM s) AND p.word = w.word OFFSET 0) p),
         rare AS (SELECT word, ln(1 + (greatest((SELECT documents FROM s), count(*)) - count(*) + 0.5::float8) / (count(*) + 0.5::float8))
             AS weight FROM hit GROUP BY word),
         ranked AS (SELECT h.row_id, sum(round(1e6::float8 * r.weight * h.times * 2.2::float8
             / (h.times + 1.2::float8 * (0.25::float8 + 0.75::float8 * h.words * (SELECT greatest(documents, 1)::float8 / greatest(words, 1) FROM s))))) AS score
           FROM hit h JOIN rare r ON r.word = h.word GROUP BY h.row_id ORDER BY score DESC, h.row_id DESC)",
        [Param::Text(tenant), Param::Text(scope.memory_ref.as_str()), Param::Numbers(words), Param::Text(tenant)],
    );
    statement.push(&format!(" SELECT {ENTRY_COLUMNS}, k.score FROM ranked k CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE "), []);
    statement.push_live(tenant, "(SELECT scope_id FROM s)", at);
    statement.push(" AND e.row_id = k.row_id OFFSET 0) e WHERE true", []);
    push_tags(&mut statement, &filter.tags);
    push_created(&mut statement, filter, "e.created_at");
    push_cell(&mut statement, filter);
    statement.push(" ORDER BY k.score DESC, k.row_id DESC LIMIT ?", [Param::Number(limit.into())]);
    statement
}
