//! Search: the memory's index proposes rows by score, and the database says which of them the
//! reader may see.

use super::connection::store_error;
use super::identity::as_actor;
use super::index::{MemoryIndex, MemoryKey, RankedRows};
use super::index_cache::{CachedIndex, IndexCache, OutdatedIndex};
use super::read::{push_attributes, push_created, push_tags};
use super::rows::{StatementBuilder, boxed, read_entry, scope_id};
use super::tenant::TenantFile;
use crate::rows::entry;
use remem_core::sabotage;
use remem_core::{Embedding, Entry, Scope};
use remem_store::{CandidateSet, Filter, Probe, ReadAt, SearchCandidate, StoreError};
use rusqlite::Connection;
use rusqlite::types::ToSql;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The number of rows that one statement reads.
const ROWS_PER_READ: usize = 64;
/// A filter that matches no more rows than this is evaluated first; a wider one is checked on the
/// rows that the index proposes.
const FILTERED_ROWS_MAX: usize = 20_000;

/// A search, with the values that every step of it needs.
struct IndexSearch<'a> {
    db: &'a Connection,
    scope: &'a Scope,
    scope_id: i64,
    probe: &'a Probe,
    filter: &'a Filter,
    depth: usize,
    at: &'a ReadAt,
}

/// A row that the index proposed and that the reader may see.
struct VisibleRow {
    entry: Entry,
    support: u64,
    uses: u64,
    vector: Option<Embedding>,
}

/// The arguments of a search, which every attempt at it needs.
struct SearchArguments {
    scope: Scope,
    probe: Probe,
    filter: Filter,
    depth: usize,
    at: ReadAt,
}

/// The result of an attempt: the candidates, or the index that has to be built first.
type Attempt = Result<CandidateSet, OutdatedIndex>;

/// Searches a memory. It holds a reader only while its index includes all that the reader sees; for
/// a build it waits without one.
pub(super) async fn search(
    file: &TenantFile,
    cache: &Arc<IndexCache>,
    scope: &Scope,
    (probe, filter): (&Probe, &Filter),
    depth: u32,
    at: &ReadAt,
) -> Result<CandidateSet, StoreError> {
    let arguments = Arc::new(SearchArguments {
        scope: scope.clone(),
        probe: probe.clone(),
        filter: filter.clone(),
        depth: depth as usize,
        at: at.clone(),
    });
    let mut built: Option<Arc<CachedIndex>> = None;
    loop {
        let cache_of_attempt = cache.clone();
        let arguments = arguments.clone();
        let attempt = file.read(move |db| {
            as_actor(&arguments.scope.actor, || {
                attempt(db, &cache_of_attempt, &arguments, built)
            })
        });
        match attempt.await? {
            Ok(found) => return Ok(found),
            Err(outdated) => {
                // Kept by this search, so that it finds what it waited for, evicted or not.
                built = Some(outdated.cached.clone());
                cache.build(file, outdated).await?;
            }
        }
    }
}

fn attempt(
    db: &Connection,
    cache: &IndexCache,
    arguments: &SearchArguments,
    built: Option<Arc<CachedIndex>>,
) -> Result<Attempt, StoreError> {
    let scope = &arguments.scope;
    let Some(scope_id) = scope_id(db, &scope.tenant, &scope.memory_ref).map_err(store_error)?
    else {
        return Ok(Ok(CandidateSet::default()));
    };
    let search = IndexSearch {
        db,
        scope,
        scope_id,
        probe: &arguments.probe,
        filter: &arguments.filter,
        depth: arguments.depth,
        at: &arguments.at,
    };
    let model = arguments.probe.vector.as_ref().map(|(model, _)| *model);
    let memory = MemoryKey {
        tenant: &scope.tenant,
        scope: scope_id,
    };
    let cached = built.unwrap_or_else(|| cache.cached_index(memory));
    let found = cache
        .with_index(&cached, db, memory, model, |index| search.run(index))
        .map_err(store_error)?;
    Ok(found.ok_or_else(|| OutdatedIndex {
        cached,
        tenant: scope.tenant.clone(),
        scope: scope_id,
        model,
    }))
}

impl IndexSearch<'_> {
    fn run(&self, index: &MemoryIndex) -> rusqlite::Result<CandidateSet> {
        let only = self.rows_of_filter()?;
        let mut visible = BTreeMap::new();
        let mut matches = index.search_words(&self.probe.terms, only.as_ref());
        self.read_visible(&mut matches.best, &mut visible)?;
        if let Some((model, direction)) = &self.probe.vector {
            let mut near =
                index.search_vectors(self.db, *model, direction, self.depth, only.as_ref())?;
            self.read_visible(&mut near, &mut visible)?;
        }
        let direction = self.probe.vector.as_ref().map(|(_, direction)| direction);
        let candidate = |(row, visible): (i64, VisibleRow)| {
            let (lexical, typo) = index.score(&matches, row);
            let cosine = direction
                .zip(visible.vector.as_ref())
                .map(|(direction, vector)| direction.cosine(vector));
            SearchCandidate {
                lexical,
                cosine,
                correction_score: typo,
                support: visible.support,
                uses: visible.uses,
                entry: visible.entry,
            }
        };
        let mut candidates: Vec<SearchCandidate> = visible.into_iter().map(candidate).collect();
        crate::sort_candidates(&mut candidates);
        let lexical_best = if candidates.is_empty() {
            0.0
        } else {
            matches.ceiling
        };
        Ok(CandidateSet {
            candidates,
            lexical_max: lexical_best,
        })
    }

    /// Reads rows in the order of their scores until `depth` of them are visible.
    fn read_visible(
        &self,
        best: &mut RankedRows,
        visible: &mut BTreeMap<i64, VisibleRow>,
    ) -> rusqlite::Result<()> {
        let mut missing = self.depth;
        while missing > 0 {
            let portion: Vec<i64> = best
                .next(ROWS_PER_READ)
                .iter()
                .map(|(_, row)| *row)
                .collect();
            if portion.is_empty() {
                return Ok(());
            }
            let readable = self.read(&portion)?;
            let mut readable: BTreeMap<i64, VisibleRow> = readable.into_iter().collect();
            for row in portion {
                if missing == 0 {
                    break;
                }
                let Some(row_found) = readable.remove(&row) else {
                    continue;
                };
                missing -= 1;
                visible.insert(row, row_found);
            }
        }
        Ok(())
    }

    /// Reads those of these rows that the reader may see and that match the filter.
    fn read(&self, rows: &[i64]) -> rusqlite::Result<Vec<(i64, VisibleRow)>> {
        let model = self.probe.vector.as_ref().map_or(-1, |(model, _)| model.0);
        // Always the same number of parameters, so that the statement is prepared once. NOT
        // INDEXED: by row, and not by an index of the whole memory.
        let places = ["?"; ROWS_PER_READ].join(", ");
        let padded = rows
            .iter()
            .copied()
            .chain(std::iter::repeat(-1))
            .take(ROWS_PER_READ);
        let mut statement = StatementBuilder::new(format!(
            "SELECT {}, e.row_id, e.support, v.bytes,
               (SELECT count(*) FROM action_link l WHERE l.row_id = e.row_id)
             FROM entry e NOT INDEXED LEFT JOIN vector v ON v.row_id = e.row_id AND v.model = ?
             WHERE e.row_id IN ({places}) AND ",
            *entry::WITH_TEXT
        ));
        statement.params.push(Box::new(model));
        statement
            .params
            .extend(padded.map(|row| Box::new(row) as Box<dyn ToSql>));
        sabotage!(
            "a-search-shows-what-has-ended",
            statement.push_visible(&self.scope.tenant, self.scope_id, self.at),
            statement.push("e.scope_id = ?", boxed([&self.scope_id]))
        );
        push_tags(&mut statement, &self.filter.tags);
        push_created(&mut statement, self.filter, "e");
        push_attributes(&mut statement, self.filter);
        statement.query(self.db, |row| {
            let vector: Option<Vec<u8>> = row.get(entry::WIDTH + 2)?;
            let vector = vector.and_then(|bytes| Embedding::from_bytes(&bytes));
            let support = row.get(entry::WIDTH + 1)?;
            let uses = row.get(entry::WIDTH + 3)?;
            Ok((
                row.get(entry::WIDTH)?,
                VisibleRow {
                    entry: read_entry(row, &self.scope.memory_ref)?,
                    support,
                    uses,
                    vector,
                },
            ))
        })
    }

    /// The rows that match the filter, if they are few; otherwise nearly every row that the index
    /// proposes would be read in vain.
    fn rows_of_filter(&self) -> rusqlite::Result<Option<HashSet<i64>>> {
        let filter = self.filter;
        if *filter == Filter::default() {
            return Ok(None);
        }
        let mut statement = StatementBuilder::new("SELECT e.row_id FROM ");
        if let Some(tag) = filter.tags.first() {
            statement.push("entry_tag g CROSS JOIN entry e ON e.tenant_id = g.tenant_id AND e.scope_id = g.scope_id AND e.id = g.id", []);
            let key = boxed([&self.scope.tenant.as_str().to_owned(), &self.scope_id, tag]);
            statement.push(
                " WHERE g.tenant_id = ? AND g.scope_id = ? AND g.tag = ? AND ",
                key,
            );
        } else {
            statement.push("entry e WHERE ", []);
        }
        statement.push_visible(&self.scope.tenant, self.scope_id, self.at);
        push_tags(&mut statement, &filter.tags);
        push_created(&mut statement, filter, "e");
        push_attributes(&mut statement, filter);
        statement.push(" LIMIT ?", boxed([&((FILTERED_ROWS_MAX + 1) as i64)]));
        let rows: HashSet<i64> = statement
            .query(self.db, |row| row.get(0))?
            .into_iter()
            .collect();
        Ok((rows.len() <= FILTERED_ROWS_MAX).then_some(rows))
    }
}
