//! Search: the postings of the query's words in a memory, ranked by BM25 with the memory's own
//! counts, and the memory's vectors.
//!
//! Row-level security lets only leakproof operators use an index; equality on the key of `posting`
//! is one, so the cost grows with the hits and not with the tenant. Words are looked up one by one
//! (`OFFSET 0` keeps the planner from doing it otherwise): a plan that is cached for all callers
//! cannot depend on the size of one memory. Entries are fetched in the order of their score until
//! there are enough live ones.
//!
//! The file `near` decides how the nearest vectors are found.

use super::gate::{Gate, Identity, Role, sql_call};
use super::near::{self, EntryKind, VectorQuery};
use super::read::{push_attributes, push_created, push_tags};
use super::rows::{Param, StatementBuilder, VisiblePart, get, read_entry};
use crate::rows::entry;
use crate::stored::content_hash;
use crate::{bm25, spelling, terms};
use remem_core::sabotage;
use remem_core::{Embedding, Entry, EntryId, Scope};
use remem_store::{CandidateSet, Filter, Neighbours, Probe, ReadAt, SearchCandidate, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A filter is selective if it matches at most this fraction, one in so many, of the vectors that
/// are all compared.
const SELECTIVE_FRACTION: i64 = 4;

/// Finds the words of the query that a memory holds: one by one, and no further than the first
/// posting of each. And the kinds of entries that it has many vectors of: it counts no further than
/// the limit, and only vectors that there are indexes for (`near::INDEXED_DIMENSIONS`, as a
/// literal, like in the definition of the index).
const MEMORY_CONTENTS: &str = "SELECT ARRAY(SELECT w.word FROM unnest($3::bigint[]) AS w (word) CROSS JOIN LATERAL
      (SELECT 1 FROM remem.posting p WHERE p.tenant_id = $1 AND p.scope_id = s.scope_id AND p.word = w.word LIMIT 1) p),
    ARRAY(SELECT k.n - 1 FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS k (tier, typology, n) CROSS JOIN LATERAL
      (SELECT 1 FROM remem.vector v WHERE v.tenant_id = $1 AND v.scope_id = s.scope_id AND v.model = $6 AND v.tier = k.tier
         AND v.typology = k.typology AND v.dimensions = 384 OFFSET $7 LIMIT 1) v WHERE s.documents > $7)
  FROM remem.scope s WHERE s.tenant_id = $1 AND s.memory_ref = $2";

/// The parameters of a search statement.
pub(super) struct SearchQuery<'a> {
    pub scope: &'a Scope,
    /// Digests of the words of the query.
    pub words: &'a [i64],
    /// Digests of the spelling corrections of words that the memory does not hold, with their
    /// similarity.
    pub corrections: &'a BTreeMap<i64, i64>,
    /// The vector of the query.
    pub near: Option<&'a VectorQuery<'a>>,
    pub filter: &'a Filter,
    pub depth: u32,
    pub at: &'a ReadAt,
}

/// The parts of a query that a memory has entries for.
#[derive(Default)]
struct MemoryContents {
    words: HashSet<i64>,
    /// The kinds of entries that it has many vectors of.
    many_vectors: Vec<EntryKind>,
}

impl Gate {
    pub async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<CandidateSet, StoreError> {
        let query_words = terms::query_words(&probe.terms);
        let words: Vec<i64> = query_words.iter().map(|word| word.digest).collect();
        let mut near = probe
            .vector
            .as_ref()
            .filter(|_| self.vectors)
            .map(|(model, vector)| VectorQuery::new(model.0, vector));
        if words.is_empty() && near.is_none() {
            return Ok(CandidateSet::default());
        }
        let Some(contents) = self.memory_contents(scope, &words, near.as_ref()).await? else {
            return Ok(CandidateSet::default());
        };
        let edits = spelling::edits_of_unknown(&query_words, |word| contents.words.contains(&word));
        let corrections = if edits.is_empty() {
            BTreeMap::new()
        } else {
            self.corrections(scope, &edits).await?
        };
        let query = SearchQuery {
            scope,
            words: &words,
            corrections: &corrections,
            near: None,
            filter,
            depth,
            at,
        };
        if let Some(near) = &mut near {
            near.choose_plan(&contents.many_vectors, filter);
            if near.uses_index()
                && near::has_other_conditions(filter)
                && self.is_selective(&query).await?
            {
                near.choose_filtered();
            }
        }
        loop {
            let (found, nearest) = self
                .run_search(&SearchQuery {
                    near: near.as_ref(),
                    ..query
                })
                .await?;
            if !near
                .as_mut()
                .is_some_and(|near| near.replan_if_short(&nearest, filter, depth))
            {
                return Ok(found);
            }
        }
    }

    /// Whether so few entries match the filter that a walk along an index would hardly meet one.
    /// Counts no further than that.
    async fn is_selective(&self, query: &SearchQuery<'_>) -> Result<bool, StoreError> {
        let statement = near::more_than_statement(query, self.exact_max / SELECTIVE_FRACTION);
        let counting = sql_call(&statement.sql, &statement.params());
        Ok(self
            .read_near(Role::App, Identity::of_scope(query.scope), false, counting)
            .await?
            .is_empty())
    }

    /// Runs the statement; returns the candidates, and the kinds of those that were found by their
    /// vectors.
    async fn run_search(
        &self,
        query: &SearchQuery<'_>,
    ) -> Result<(CandidateSet, Vec<EntryKind>), StoreError> {
        let statement = search_statement(query);
        let who = Identity::of_scope(query.scope);
        let searching = sql_call(&statement.sql, &statement.params());
        let rows = match query.near {
            None => {
                self.read(Role::App, who, searching.sql, &searching.params)
                    .await?
            }
            Some(near) => {
                self.read_near(Role::App, who, near.uses_index(), searching)
                    .await?
            }
        };
        let mut found = CandidateSet::default();
        let mut nearest = Vec::new();
        for row in &rows {
            let bytes: Option<&[u8]> = get(row, entry::WIDTH + 2)?;
            let vector = bytes.and_then(Embedding::from_bytes);
            let cosine = query
                .near
                .zip(vector)
                .map(|(near, vector)| near.vector.cosine(&vector));
            let support = get::<i64>(row, entry::WIDTH)?.cast_unsigned();
            let lexical = get::<f64>(row, entry::WIDTH + 1)? / bm25::PARTS_PER_ONE;
            let typo = get::<f64>(row, entry::WIDTH + 4)? / bm25::PARTS_PER_ONE;
            let uses = get::<i64>(row, entry::WIDTH + 5)?.cast_unsigned();
            let entry = read_entry(row, &query.scope.memory_ref)?;
            if get(row, entry::WIDTH + 6)? {
                nearest.push((entry.tier, entry.typology));
            }
            found.candidates.push(SearchCandidate {
                entry,
                lexical,
                cosine,
                correction_score: typo,
                support,
                uses,
            });
            found.lexical_max = get::<f64>(row, entry::WIDTH + 3)? / bm25::PARTS_PER_ONE;
        }
        crate::sort_candidates(&mut found.candidates);
        Ok((found, nearest))
    }

    /// The words and kinds that the memory holds. `None` if there is no such memory.
    async fn memory_contents(
        &self,
        scope: &Scope,
        words: &[i64],
        near: Option<&VectorQuery<'_>>,
    ) -> Result<Option<MemoryContents>, StoreError> {
        let tenant = scope.tenant.as_str();
        let name = scope.memory_ref.as_str();
        let indexed = near.filter(|near| near.is_indexed());
        let kinds: Vec<EntryKind> = indexed.into_iter().flat_map(|_| near::kinds()).collect();
        let (tiers, typologies): (Vec<&str>, Vec<&str>) = kinds
            .iter()
            .map(|kind| (kind.0.as_str(), kind.1.as_str()))
            .unzip();
        let model = indexed.map_or(-1, |near| near.model);
        let many = self.exact_max;
        let lookup = sql_call(
            MEMORY_CONTENTS,
            &[&tenant, &name, &words, &tiers, &typologies, &model, &many],
        );
        let rows = self
            .read(
                Role::App,
                Identity::of_scope(scope),
                lookup.sql,
                &lookup.params,
            )
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let kind_numbers: Vec<i64> = get(row, 1)?;
        let many = kind_numbers
            .into_iter()
            .filter_map(|number| kinds.get(usize::try_from(number).ok()?).copied())
            .collect();
        Ok(Some(MemoryContents {
            words: get::<Vec<i64>>(row, 0)?.into_iter().collect(),
            many_vectors: many,
        }))
    }

    /// The spelling corrections that the memory holds.
    async fn corrections(
        &self,
        scope: &Scope,
        edits: &[spelling::WordEdits<'_>],
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let words: HashSet<i64> = edits
            .iter()
            .flat_map(spelling::WordEdits::digests)
            .collect();
        let words: Vec<i64> = words.into_iter().collect();
        let contents = self
            .memory_contents(scope, &words, None)
            .await?
            .unwrap_or_default();
        Ok(spelling::corrections(edits, |word| {
            contents.words.contains(&word)
        }))
    }

    /// The entries before and after each of these, in the order of `list`. In a snapshot only
    /// entries that are still current count as neighbours.
    pub async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Neighbours>, StoreError> {
        let names: Vec<&str> = ids.iter().map(EntryId::as_str).collect();
        let statement = neighbours_statement(scope, &names, reach, at);
        let selection = sql_call(&statement.sql, &statement.params());
        let rows = self
            .read_in_order(Role::App, Identity::of_scope(scope), selection)
            .await?;
        let mut sides: HashMap<String, (Vec<Entry>, Vec<Entry>)> = HashMap::new();
        for row in &rows {
            let of: String = get(row, entry::WIDTH)?;
            let before: Option<bool> = get(row, entry::WIDTH + 1)?;
            let sides = sides.entry(of).or_default();
            match before {
                Some(true) => sides.0.push(read_entry(row, &scope.memory_ref)?),
                Some(false) => sides.1.push(read_entry(row, &scope.memory_ref)?),
                None => {}
            }
        }
        let neighbours_of = |id: &EntryId| {
            sides.remove(id.as_str()).map(|(before, after)| Neighbours {
                id: id.clone(),
                before,
                after,
            })
        };
        Ok(ids.iter().filter_map(neighbours_of).collect())
    }
}

/// The statement of a search: candidates by words, candidates by vectors, and the entries of both.
pub(super) fn search_statement<'a>(query: &SearchQuery<'a>) -> StatementBuilder<'a> {
    let tenant = query.scope.tenant.as_str();
    let mut statement = StatementBuilder::new("");
    push_ranked(&mut statement, query);
    // Sorted here, so that rows are read one by one until there are enough: the materialized
    // rows have no order.
    let best = ", lexical AS MATERIALIZED (SELECT k.row_id FROM (SELECT * FROM ranked ORDER BY total DESC, row_id DESC) k CROSS JOIN LATERAL (";
    statement.push(best, []);
    push_visible_rows(&mut statement, query, " AND e.row_id = k.row_id");
    let limit = || [Param::Number(query.depth.into())];
    statement.push(") e ORDER BY k.total DESC, k.row_id DESC LIMIT ?)", limit());
    statement.push(", near AS MATERIALIZED (", []);
    match query.near {
        None => statement.push("SELECT row_id FROM lexical", []),
        Some(near) => near.push(&mut statement, query),
    }
    let columns = format!(
        ") SELECT {}, e.support, coalesce(k.score, 0), v.bytes,
           (SELECT coalesce(sum(round(1e6::float8 * weight * {}::float8)), 0) FROM rare WHERE NOT meant), coalesce(k.typo, 0),
           (SELECT count(*) FROM remem.action_link l WHERE l.tenant_id = $1 AND l.scope_id = e.scope_id AND l.row_id = e.row_id),
           p.row_id IN (SELECT row_id FROM near)
         FROM (SELECT row_id FROM lexical UNION SELECT row_id FROM near) p CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ",
        *entry::WITH_TEXT,
        bm25::K1 + 1.0
    );
    statement.push(&columns, []);
    statement.push("e.tenant_id = ? AND e.scope_id = (SELECT scope_id FROM s) AND e.row_id = p.row_id OFFSET 0) e", [Param::Text(tenant)]);
    statement.push(" LEFT JOIN ranked k ON k.row_id = p.row_id LEFT JOIN LATERAL (SELECT v.bytes FROM remem.vector v", []);
    let model = query.near.map_or(-1, |near| near.model);
    statement.push(
        " WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.row_id = p.row_id AND v.model = ? OFFSET 0) v ON true",
        [Param::Text(tenant), Param::Number(model)],
    );
    statement
}

/// Adds the query of every entry that holds one of the words, with its score in parts.
fn push_ranked<'a>(statement: &mut StatementBuilder<'a>, query: &SearchQuery<'a>) {
    let tenant = query.scope.tenant.as_str();
    let name = query.scope.memory_ref.as_str();
    let k1 = bm25::K1;
    let b = bm25::B;
    let alike = spelling::SIMILARITY_SCALE;
    let sql = format!(
        "WITH s AS MATERIALIZED (SELECT scope_id, documents, words FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?),
         w AS MATERIALIZED (SELECT word, false AS meant, {alike}::bigint AS alike FROM unnest(?::bigint[]) AS w (word)
           UNION ALL SELECT word, true, alike FROM unnest(?::bigint[], ?::bigint[]) AS w (word, alike)),
         hit AS MATERIALIZED (SELECT w.meant, w.alike, p.word, p.row_id, p.times, p.words FROM w
           CROSS JOIN LATERAL (SELECT p.word, p.row_id, p.times, p.words FROM remem.posting p
             WHERE p.tenant_id = ? AND p.scope_id = (SELECT scope_id FROM s) AND p.word = w.word OFFSET 0) p),
         rare AS MATERIALIZED (SELECT w.word, w.meant, ln(1 + (greatest((SELECT documents FROM s), count(h.word)) - count(h.word) + 0.5::float8)
             / (count(h.word) + 0.5::float8)) AS weight FROM w LEFT JOIN hit h ON h.word = w.word AND h.meant = w.meant
           GROUP BY w.word, w.meant),
         ranked AS (SELECT c.row_id, coalesce(sum(c.parts) FILTER (WHERE NOT c.meant), 0) AS score,
             coalesce(sum(c.parts) FILTER (WHERE c.meant), 0) AS typo, sum(c.parts) AS total
           FROM (SELECT h.row_id, h.meant, round(round(1e6::float8 * r.weight * h.times * {}::float8
               / (h.times + {k1}::float8 * ({}::float8 + {b}::float8 * h.words
                 / (SELECT greatest(words, 1)::float8 / greatest(documents, 1) FROM s)))) * (h.alike / {alike}::float8)) AS parts
             FROM hit h JOIN rare r ON r.word = h.word AND r.meant = h.meant) c GROUP BY c.row_id)",
        k1 + 1.0,
        1.0 - b
    );
    let meant = (
        query.corrections.keys().copied().collect(),
        query.corrections.values().copied().collect(),
    );
    let words = [
        Param::Numbers(query.words.to_vec()),
        Param::Numbers(meant.0),
        Param::Numbers(meant.1),
    ];
    statement.push(
        &sql,
        [Param::Text(tenant), Param::Text(name)]
            .into_iter()
            .chain(words)
            .chain([Param::Text(tenant)]),
    );
}

/// Adds the query of the entries that the reader may see and that match the filter; `of` is a
/// further condition.
pub(super) fn push_visible_rows<'a>(
    statement: &mut StatementBuilder<'a>,
    query: &SearchQuery<'a>,
    of: &str,
) {
    statement.push("SELECT e.row_id FROM remem.entry e WHERE ", []);
    statement.push_visible(
        query.scope.tenant.as_str(),
        "(SELECT scope_id FROM s)",
        query.at,
    );
    statement.push(of, []);
    push_tags(statement, &query.filter.tags);
    push_created(statement, query.filter, "e.created_at");
    push_attributes(statement, query.filter);
    statement.push(" OFFSET 0", []);
}

/// The statement that selects the neighbours before and after each entry, and each entry itself
/// (without a side), which shows that it is visible.
pub(super) fn neighbours_statement<'a>(
    scope: &'a Scope,
    names: &[&'a str],
    reach: u32,
    at: &'a ReadAt,
) -> StatementBuilder<'a> {
    let tenant = scope.tenant.as_str();
    let scope_id = "(SELECT scope_id FROM s)";
    let hashes = names
        .iter()
        .map(|name| content_hash(name.as_bytes()).to_vec())
        .collect();
    let mut statement = StatementBuilder::new("");
    statement.push(
        "WITH s AS MATERIALIZED (SELECT scope_id FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?),
         o AS MATERIALIZED (SELECT e.* FROM unnest(?::text[], ?::bytea[]) AS w (id, id_hash)
           CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ",
        [Param::Text(tenant), Param::Text(scope.memory_ref.as_str()), Param::Texts(names.to_vec()), Param::Hashes(hashes)],
    );
    statement.push_visible(tenant, scope_id, at);
    statement.push(
        sabotage!(
            "neighbours-are-looked-for-in-the-whole-memory",
            " AND e.id_hash = w.id_hash AND e.id = w.id OFFSET 0) e) ",
            " AND e.id = w.id AND w.id_hash IS NOT NULL OFFSET 0) e) "
        ),
        [],
    );
    let columns = &*entry::WITH_TEXT;
    statement.push(
        &format!("SELECT {columns}, e.id, NULL::boolean FROM o e"),
        [],
    );
    for (sign, order, before) in [("<", "DESC", true), (">", "ASC", false)] {
        let head = format!(
            " UNION ALL SELECT {columns}, o.id, {before} FROM o CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE "
        );
        statement.push(&head, []);
        statement.push_visible_part(tenant, scope_id, at, VisiblePart::Current);
        // In a form that the index of lists supports: it holds the first 100 characters of an id.
        let tail = format!(
            " AND e.created_at {sign}= o.created_at AND (e.created_at {sign} o.created_at OR e.id {sign} o.id)
              ORDER BY e.created_at {order}, left(e.id, 100) {order}, e.id {order} LIMIT ?) e"
        );
        statement.push(&tail, [Param::Number(reach.into())]);
    }
    statement
}
