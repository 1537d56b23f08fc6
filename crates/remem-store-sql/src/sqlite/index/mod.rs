//! The search index of one memory, in process memory: for each word the entries that hold it, and
//! the vectors.
//!
//! The index is built from the database when a memory is first searched and brought up to date
//! before every search, so it includes every commit that the reader sees: a few rows within the
//! reader's own transaction, many by a build (see `index_cache`). It holds row ids and numbers, no
//! text. It decides nothing: the rows that it proposes are read from the database again, under the
//! conditions of every read.

mod ranked;
mod vectors;
mod words;

pub(super) use ranked::RankedRows;
use remem_core::sabotage;
use remem_core::{Embedding, ModelId, TenantId};
use rusqlite::{Connection, Params, params};
use std::collections::HashSet;
pub(super) use vectors::VectorIndex;
pub(super) use words::{WordIndex, WordMatches};

/// The search index of one memory.
#[derive(Default)]
pub(super) struct MemoryIndex {
    words: WordIndex,
    vectors: Vec<VectorIndex>,
    /// The last row of `entry` that is indexed.
    last_row: i64,
    /// The last row of `unindexed` that is taken into account.
    last_change: i64,
    /// The models whose vectors were to stay when others were discarded the last time.
    kept_models: Option<Vec<ModelId>>,
}

/// How much an index does not include yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// So little that a search reads it by itself.
    Little,
    /// So much that a build has to read it.
    Much,
}

/// The most rows that a search reads into an index by itself: a few milliseconds of work.
const ROWS_PER_SEARCH_MAX: i64 = 2_000;
/// Missing rows are counted up to here.
const COUNTED_MAX: i64 = ROWS_PER_SEARCH_MAX + 1;

/// The memory that an index belongs to.
#[derive(Clone, Copy)]
pub(super) struct MemoryKey<'a> {
    pub tenant: &'a TenantId,
    pub scope: i64,
}

impl MemoryIndex {
    /// How much of what the reader sees the index does not include yet.
    pub fn missing(
        &self,
        db: &Connection,
        memory: MemoryKey<'_>,
        model: Option<ModelId>,
    ) -> rusqlite::Result<Missing> {
        let tenant = memory.tenant.as_str();
        let is_outdated = self.has_missed_changes(db)?;
        let since = |last: i64| if is_outdated { 0 } else { last };
        let rows = "SELECT count(*) FROM (SELECT 1 FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id > ?3 LIMIT ?4)";
        let values = params![tenant, memory.scope, since(self.last_row), COUNTED_MAX];
        let mut missing = count(db, rows, values)?;
        let changes = "SELECT count(*) FROM (SELECT 1 FROM unindexed WHERE scope_id = ?1 AND n > ?2 LIMIT ?3)";
        let values = params![memory.scope, self.last_change, COUNTED_MAX];
        missing += count(db, changes, values)?;
        if let Some(model) = model {
            let held = self.vectors_of(model);
            if held.is_some_and(VectorIndex::could_be_exact) {
                return Ok(Missing::Much);
            }
            let last = held.map_or(0, |vectors| vectors.last_number);
            let vectors = "SELECT count(*) FROM (SELECT 1 FROM vector
                           WHERE tenant_id = ?1 AND scope_id = ?2 AND model = ?3 AND n > ?4 LIMIT ?5)";
            let values = params![tenant, memory.scope, model.0, since(last), COUNTED_MAX];
            missing += count(db, vectors, values)?;
        }
        Ok(match missing {
            0 => Missing::Nothing,
            1..=ROWS_PER_SEARCH_MAX => Missing::Little,
            _ => Missing::Much,
        })
    }

    /// Whether changes that the index does not include were deleted from `unindexed`: such an index
    /// is built anew.
    fn has_missed_changes(&self, db: &Connection) -> rusqlite::Result<bool> {
        let first: Option<i64> = db
            .prepare_cached("SELECT min(n) FROM unindexed")?
            .query_row([], |row| row.get(0))?;
        Ok(sabotage!(
            "an-index-that-missed-changes-goes-on",
            first.is_some_and(|first| first > self.last_change + 1),
            false
        ))
    }

    /// Reads the changes since the last time.
    pub fn catch_up(
        &mut self,
        db: &Connection,
        memory: MemoryKey<'_>,
        model: Option<ModelId>,
    ) -> rusqlite::Result<()> {
        self.remove_changed(db, memory)?;
        let mut query = db.prepare_cached(
            "SELECT row_id, content FROM entry WHERE tenant_id = ?1 AND scope_id = ?2 AND row_id > ?3 AND erased_at IS NULL
             ORDER BY row_id",
        )?;
        let mut rows = query.query(params![memory.tenant.as_str(), memory.scope, self.last_row])?;
        while let Some(row) = rows.next()? {
            self.last_row = row.get(0)?;
            self.words.add(self.last_row, row.get_ref(1)?.as_str()?);
        }
        // A row that was erased before it was indexed counts as known, too. Else the index would
        // be behind for as long as no other entry is written, and each search would lock it.
        let last = "SELECT max(row_id) FROM entry WHERE tenant_id = ?1 AND scope_id = ?2";
        let names = params![memory.tenant.as_str(), memory.scope];
        let last: Option<i64> = db
            .prepare_cached(last)?
            .query_row(names, |row| row.get(0))?;
        self.last_row = sabotage!(
            "an-index-stays-behind-what-is-gone",
            self.last_row.max(last.unwrap_or(0)),
            self.last_row
        );
        if let Some(model) = model {
            self.load_vectors(db, memory, model)?;
        }
        Ok(())
    }

    /// Removes rows that were erased or changed since. A changed text is indexed again at once.
    fn remove_changed(&mut self, db: &Connection, memory: MemoryKey<'_>) -> rusqlite::Result<()> {
        if self.has_missed_changes(db)? {
            *self = MemoryIndex::default();
        }
        let newest = count(db, "SELECT coalesce(max(n), 0) FROM unindexed", [])?;
        if self.last_row == 0 {
            self.last_change = newest;
            return Ok(());
        }
        let changed: HashSet<i64> = db
            .prepare_cached(
                "SELECT row_id FROM unindexed WHERE scope_id = ?1 AND n > ?2 AND n <= ?3",
            )?
            .query_map(params![memory.scope, self.last_change, newest], |row| {
                row.get(0)
            })?
            .collect::<rusqlite::Result<_>>()?;
        let mut query_text =
            db.prepare_cached("SELECT content FROM entry WHERE row_id = ?1 AND tenant_id = ?2 AND scope_id = ?3 AND erased_at IS NULL")?;
        for row in changed.into_iter().filter(|row| *row <= self.last_row) {
            self.words.remove(row);
            sabotage!(
                "an-index-keeps-what-is-gone",
                self.vectors
                    .iter_mut()
                    .for_each(|vectors| vectors.remove(row))
            );
            let mut texts = query_text.query(params![row, memory.tenant.as_str(), memory.scope])?;
            if let Some(texts) = texts.next()? {
                self.words.add(row, texts.get_ref(0)?.as_str()?);
            }
        }
        self.words.sweep();
        self.vectors.iter_mut().for_each(VectorIndex::sweep);
        self.last_change = newest;
        Ok(())
    }

    /// Reads the vectors of a model that were added since.
    fn load_vectors(
        &mut self,
        db: &Connection,
        memory: MemoryKey<'_>,
        model: ModelId,
    ) -> rusqlite::Result<()> {
        let at = match self
            .vectors
            .iter()
            .position(|vectors| vectors.model == model)
        {
            Some(at) => at,
            None => {
                self.vectors.push(VectorIndex::new(model));
                self.vectors.len() - 1
            }
        };
        let vectors = &mut self.vectors[at];
        if vectors.could_be_exact() {
            *vectors = VectorIndex::new(model);
        }
        let mut query = db.prepare_cached(
            "SELECT n, row_id, bytes FROM vector WHERE tenant_id = ?1 AND scope_id = ?2 AND model = ?3 AND n > ?4 ORDER BY n",
        )?;
        let mut rows = query.query(params![
            memory.tenant.as_str(),
            memory.scope,
            model.0,
            vectors.last_number
        ])?;
        while let Some(row) = rows.next()? {
            vectors.add(row.get(0)?, row.get(1)?, row.get_ref(2)?.as_blob()?);
        }
        vectors.sweep();
        Ok(())
    }

    /// The entries that hold these words, best first.
    pub fn search_words(&self, terms: &[String], only: Option<&HashSet<i64>>) -> WordMatches {
        self.words.matches(terms, only)
    }

    /// The scores of a row: by the words of the query, and by spelling corrections.
    pub fn score(&self, matches: &WordMatches, row: i64) -> (f64, f64) {
        self.words.score(matches, row)
    }

    /// The rows whose vectors are nearest, best first.
    pub fn search_vectors(
        &self,
        db: &Connection,
        model: ModelId,
        direction: &Embedding,
        depth: usize,
        only: Option<&HashSet<i64>>,
    ) -> rusqlite::Result<RankedRows> {
        match self.vectors_of(model) {
            Some(vectors) => vectors.nearest(db, direction, depth, only),
            None => Ok(RankedRows::default()),
        }
    }

    fn vectors_of(&self, model: ModelId) -> Option<&VectorIndex> {
        self.vectors.iter().find(|vectors| vectors.model == model)
    }

    /// Drops the vectors of models other than these.
    pub fn discard_vectors(&mut self, keep: &[ModelId]) {
        self.vectors.retain(|vectors| keep.contains(&vectors.model));
        self.kept_models = Some(keep.to_vec());
    }

    /// Takes the place of the empty index that stood for this one while it was built for `model`,
    /// and discards the vectors that were discarded meanwhile.
    pub fn replace(mut self, place: &mut MemoryIndex, model: Option<ModelId>) {
        if let Some(mut keep) = place.kept_models.take() {
            keep.extend(model);
            sabotage!(
                "vectors-come-back-after-a-build",
                self.discard_vectors(&keep)
            );
        }
        *place = self;
    }

    /// The approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.vectors.iter().map(VectorIndex::bytes).sum::<usize>()
    }
}

/// The number that a statement answers.
fn count(db: &Connection, sql: &str, values: impl Params) -> rusqlite::Result<i64> {
    db.prepare_cached(sql)?.query_row(values, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "
        CREATE TABLE entry (row_id INTEGER PRIMARY KEY, tenant_id TEXT, scope_id INTEGER, content TEXT, erased_at INTEGER);
        CREATE TABLE unindexed (n INTEGER PRIMARY KEY, scope_id INTEGER, row_id INTEGER);
        INSERT INTO entry VALUES (1, 't', 1, 'tea', NULL), (2, 't', 1, '', 5), (3, 't', 2, 'other', NULL)";

    #[test]
    fn an_index_has_caught_up_with_entries_that_were_erased_before_it() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let tenant = TenantId::parse("t").unwrap();
        let memory = MemoryKey {
            tenant: &tenant,
            scope: 1,
        };
        let mut index = MemoryIndex::default();
        assert_eq!(index.missing(&db, memory, None).unwrap(), Missing::Little);
        index.catch_up(&db, memory, None).unwrap();
        assert_eq!(index.missing(&db, memory, None).unwrap(), Missing::Nothing);
    }

    #[test]
    fn vectors_that_are_discarded_during_a_build_do_not_come_back() {
        let mut built = MemoryIndex {
            vectors: (1..=3).map(|n| VectorIndex::new(ModelId(n))).collect(),
            ..MemoryIndex::default()
        };
        built.discard_vectors(&[ModelId(1), ModelId(2), ModelId(3)]);
        let mut place = MemoryIndex::default();
        place.discard_vectors(&[ModelId(2)]);
        built.replace(&mut place, Some(ModelId(3)));
        let models: Vec<ModelId> = place.vectors.iter().map(|held| held.model).collect();
        assert_eq!(models, [ModelId(2), ModelId(3)]);
    }
}
