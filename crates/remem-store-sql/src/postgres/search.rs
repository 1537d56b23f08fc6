//! Search: postings of the memory's words, ranked by BM25 with the memory's own counts, and its vectors.
//!
//! Policies let only leakproof operators near an index; equality on the key of `posting` is one, so the cost grows with
//! the hits and not with the tenant. Words are looked up one by one (`OFFSET 0` keeps the planner from doing it otherwise):
//! a plan that is kept for all callers knows nothing of how large a memory is. Entries are fetched in the order of their
//! score until there are enough live ones.
//!
//! Vectors are ordered by pgvector: those of a memory one by one, or, in a large memory, along the index of each kind of entry, whose
//! conditions stand in the statement literally. Either way the conditions of the reader are held against every row before rows are
//! counted, so that nobody gets fewer for what others may not see.

use super::gate::{Gate, Identity, Role, call};
use super::read::{push_cell, push_created, push_tags};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, Param, Part, Statement, entry, get};
use crate::stored::content_hash;
use crate::{bm25, spelling, terms};
use remem_core::{Embedding, Entry, EntryId, Scope, Tier, Typology};
use remem_store::{Around, Candidate, Filter, Found, Probe, ReadAt, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};

/// In a memory of more entries than this the nearest vectors are found along an index.
const EXACT_MAX: i64 = 20_000;
/// The number of components that there are indexes for.
const INDEXED_DIMENSIONS: usize = 384;

/// Which words a memory holds. One by one, and no further than the first posting of each.
const HELD: &str = "SELECT s.documents > $3, ARRAY(SELECT w.word FROM unnest($4::bigint[]) AS w (word) CROSS JOIN LATERAL
    (SELECT 1 FROM remem.posting p WHERE p.tenant_id = $1 AND p.scope_id = s.scope_id AND p.word = w.word LIMIT 1) p)
  FROM remem.scope s WHERE s.tenant_id = $1 AND s.memory_ref = $2";

/// What a search asks for.
pub(super) struct Question<'a> {
    pub scope: &'a Scope,
    /// Digests.
    pub words: Vec<i64>,
    /// Digests of words that were probably meant by others that are not held, and how alike they are.
    pub meant: BTreeMap<i64, i64>,
    /// The model, the number of components and the direction as pgvector reads it.
    pub direction: Option<(i64, usize, &'a str)>,
    /// Whether along the indexes.
    pub indexed: bool,
    pub filter: &'a Filter,
    pub depth: u32,
    pub at: &'a ReadAt,
}

impl Gate {
    pub async fn search(&self, scope: &Scope, probe: &Probe, filter: &Filter, depth: u32, at: &ReadAt) -> Result<Found, StoreError> {
        let asked = terms::asked(&probe.terms);
        let words: Vec<i64> = asked.iter().map(|asked| asked.word).collect();
        let vector = probe.vector.as_ref().filter(|_| self.vectors);
        if words.is_empty() && vector.is_none() {
            return Ok(Found::default());
        }
        let text = vector.map(|(_, direction)| as_text(direction)).unwrap_or_default();
        let direction = vector.map(|(model, direction)| (model.0, direction.components().len(), text.as_str()));
        let Some((large, held)) = self.held(scope, &words).await? else { return Ok(Found::default()) };
        let slips = spelling::slips(&asked, |word| held.contains(&word));
        let meant = if slips.is_empty() { BTreeMap::new() } else { self.meant(scope, &slips).await? };
        let indexed = large && direction.is_some_and(|(_, dimensions, _)| dimensions == INDEXED_DIMENSIONS);
        let question = Question { scope, words, meant, direction, indexed, filter, depth, at };
        let statement = statement(&question);
        let asked = call(&statement.sql, &statement.params());
        let rows = match vector {
            None => self.read(Role::App, Identity::of(scope), asked.sql, &asked.params).await?,
            Some(_) => self.read_near(Role::App, Identity::of(scope), indexed, asked).await?,
        };
        let mut found = Found::default();
        for row in &rows {
            let bytes: Option<&[u8]> = get(row, ENTRY_WIDTH + 2)?;
            let kept = bytes.and_then(Embedding::from_bytes);
            let cosine = vector.zip(kept).map(|((_, direction), kept)| direction.cosine(&kept));
            let support = get::<i64>(row, ENTRY_WIDTH)?.cast_unsigned();
            let lexical = get::<f64>(row, ENTRY_WIDTH + 1)? / bm25::PARTS;
            let typo = get::<f64>(row, ENTRY_WIDTH + 4)? / bm25::PARTS;
            let uses = get::<i64>(row, ENTRY_WIDTH + 5)?.cast_unsigned();
            found.candidates.push(Candidate { entry: entry(row, &scope.memory_ref)?, lexical, cosine, typo, support, uses });
            found.lexical_best = get::<f64>(row, ENTRY_WIDTH + 3)? / bm25::PARTS;
        }
        crate::order(&mut found.candidates);
        Ok(found)
    }

    /// Whether the memory is a large one, and which of these words it holds. `None` if there is no such memory.
    async fn held(&self, scope: &Scope, words: &[i64]) -> Result<Option<(bool, HashSet<i64>)>, StoreError> {
        let (tenant, name) = (scope.tenant.as_str(), scope.memory_ref.as_str());
        let rows = self.read(Role::App, Identity::of(scope), HELD, &[&tenant, &name, &EXACT_MAX, &words]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some((get(row, 0)?, get::<Vec<i64>>(row, 1)?.into_iter().collect())))
    }

    async fn meant(&self, scope: &Scope, slips: &[spelling::Slips<'_>]) -> Result<BTreeMap<i64, i64>, StoreError> {
        let words: HashSet<i64> = slips.iter().flat_map(spelling::Slips::words).collect();
        let words: Vec<i64> = words.into_iter().collect();
        let held = self.held(scope, &words).await?.map(|(_, held)| held).unwrap_or_default();
        Ok(spelling::meant(slips, |word| held.contains(&word)))
    }

    /// What stands around entries, in the order of `list`. Of a snapshot, what is still there counts.
    pub async fn around(&self, scope: &Scope, ids: &[EntryId], reach: u32, at: &ReadAt) -> Result<Vec<Around>, StoreError> {
        let names: Vec<&str> = ids.iter().map(EntryId::as_str).collect();
        let statement = around(scope, &names, reach, at);
        let asked = call(&statement.sql, &statement.params());
        let rows = self.read_in_order(Role::App, Identity::of(scope), asked).await?;
        let mut sides: HashMap<String, (Vec<Entry>, Vec<Entry>)> = HashMap::new();
        for row in &rows {
            let (of, before): (String, Option<bool>) = (get(row, ENTRY_WIDTH)?, get(row, ENTRY_WIDTH + 1)?);
            let sides = sides.entry(of).or_default();
            match before {
                Some(true) => sides.0.push(entry(row, &scope.memory_ref)?),
                Some(false) => sides.1.push(entry(row, &scope.memory_ref)?),
                None => {}
            }
        }
        let answer = |id: &EntryId| sides.remove(id.as_str()).map(|(before, after)| Around { id: id.clone(), before, after });
        Ok(ids.iter().filter_map(answer).collect())
    }
}

/// A direction as pgvector reads it.
pub(super) fn as_text(direction: &Embedding) -> String {
    let numbers: Vec<String> = direction.components().iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(","))
}

pub(super) fn statement<'a>(question: &Question<'a>) -> Statement<'a> {
    let (tenant, mut statement) = (question.scope.tenant.as_str(), Statement::new(""));
    push_ranked(&mut statement, question);
    // Sorted here, so that rows are looked at one by one until there are enough: what is kept for others has no order.
    let best =
        ", lexical AS MATERIALIZED (SELECT k.row_id FROM (SELECT * FROM ranked ORDER BY total DESC, row_id DESC) k CROSS JOIN LATERAL (";
    statement.push(best, []);
    push_seen(&mut statement, question, "k.row_id");
    let limit = || [Param::Number(question.depth.into())];
    statement.push(") e ORDER BY k.total DESC, k.row_id DESC LIMIT ?)", limit());
    statement.push(", near AS MATERIALIZED (", []);
    match question.direction {
        None => statement.push("SELECT row_id FROM lexical", []),
        Some(direction) if question.indexed => push_along(&mut statement, question, direction),
        Some(direction) => push_nearest(&mut statement, question, direction),
    }
    let columns = format!(
        ") SELECT {ENTRY_COLUMNS}, e.support, coalesce(k.score, 0), v.bytes,
           (SELECT coalesce(sum(round(1e6::float8 * weight * {}::float8)), 0) FROM rare WHERE NOT meant), coalesce(k.typo, 0),
           (SELECT count(*) FROM remem.action_link l WHERE l.tenant_id = e.tenant_id AND l.scope_id = e.scope_id AND l.row_id = e.row_id)
         FROM (SELECT row_id FROM lexical UNION SELECT row_id FROM near) p CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ",
        bm25::K1 + 1.0
    );
    statement.push(&columns, []);
    statement.push("e.tenant_id = ? AND e.scope_id = (SELECT scope_id FROM s) AND e.row_id = p.row_id OFFSET 0) e", [Param::Text(tenant)]);
    statement.push(" LEFT JOIN ranked k ON k.row_id = p.row_id LEFT JOIN LATERAL (SELECT v.bytes FROM remem.vector v", []);
    let model = question.direction.map_or(-1, |(model, ..)| model);
    statement.push(
        " WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.row_id = p.row_id AND v.model = ? OFFSET 0) v ON true",
        [Param::Text(tenant), Param::Number(model)],
    );
    statement
}

/// Every entry that holds one of the words, with its score in parts.
fn push_ranked<'a>(statement: &mut Statement<'a>, question: &Question<'a>) {
    let (tenant, name) = (question.scope.tenant.as_str(), question.scope.memory_ref.as_str());
    let (k1, b, alike) = (bm25::K1, bm25::B, spelling::ALIKE);
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
    let meant = (question.meant.keys().copied().collect(), question.meant.values().copied().collect());
    let words = [Param::Numbers(question.words.clone()), Param::Numbers(meant.0), Param::Numbers(meant.1)];
    statement.push(&sql, [Param::Text(tenant), Param::Text(name)].into_iter().chain(words).chain([Param::Text(tenant)]));
}

/// The entry of a row, if the reader may see it and it is wanted.
fn push_seen<'a>(statement: &mut Statement<'a>, question: &Question<'a>, row: &str) {
    statement.push("SELECT e.row_id FROM remem.entry e WHERE ", []);
    statement.push_live(question.scope.tenant.as_str(), "(SELECT scope_id FROM s)", question.at);
    statement.push(&format!(" AND e.row_id = {row}"), []);
    push_tags(statement, &question.filter.tags);
    push_created(statement, question.filter, "e.created_at");
    push_cell(statement, question.filter);
    statement.push(" OFFSET 0", []);
}

/// The nearest rows: all of the memory's in order, until there are enough.
fn push_nearest<'a>(statement: &mut Statement<'a>, question: &Question<'a>, (model, dimensions, direction): (i64, usize, &'a str)) {
    let sql = format!(
        "SELECT n.row_id FROM (SELECT v.row_id, v.direction OPERATOR(public.<=>) ?::text::public.halfvec({dimensions}) AS far
           FROM remem.vector v WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.model = ? ORDER BY far, v.row_id DESC) n
         CROSS JOIN LATERAL ("
    );
    let tenant = Param::Text(question.scope.tenant.as_str());
    statement.push(&sql, [Param::Text(direction), tenant, Param::Number(model)]);
    push_seen(statement, question, "n.row_id");
    statement.push(") e ORDER BY n.far, n.row_id DESC LIMIT ?", [Param::Number(question.depth.into())]);
}

/// The nearest of each kind of entry that the filter leaves, along their indexes.
fn push_along<'a>(statement: &mut Statement<'a>, question: &Question<'a>, direction: (i64, usize, &'a str)) {
    let kinds = Tier::ALL.into_iter().flat_map(|tier| Typology::ALL.map(|typology| (tier, typology)));
    let wanted = kinds.filter(|(tier, typology)| {
        tier.produces(*typology)
            && question.filter.tier.is_none_or(|t| t == *tier)
            && question.filter.typology.is_none_or(|t| t == *typology)
    });
    let mut joint = "(";
    for (tier, typology) in wanted {
        statement.push(joint, []);
        let (tier, typology) = (tier.as_str(), typology.as_str());
        let (model, _, looked_for) = direction;
        let key = [Param::Text(question.scope.tenant.as_str()), Param::Number(model)];
        statement.push("SELECT v.row_id FROM remem.vector v CROSS JOIN LATERAL (", []);
        push_seen(statement, question, "v.row_id");
        statement.push(") e WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.model = ?", key);
        // In one level with its limit, or the planner would think that all of it is wanted.
        let order = format!(
            " AND v.tier = '{tier}' AND v.typology = '{typology}' AND v.dimensions = {INDEXED_DIMENSIONS}
              ORDER BY (v.direction::public.halfvec({INDEXED_DIMENSIONS})) OPERATOR(public.<=>) ?::text::public.halfvec({INDEXED_DIMENSIONS}) LIMIT ?"
        );
        statement.push(&order, [Param::Text(looked_for), Param::Number(question.depth.into())]);
        joint = ") UNION ALL (";
    }
    statement.push(if joint == "(" { "SELECT row_id FROM lexical" } else { ")" }, []);
}

/// What stands before and after each, and each itself (without a side), so that it is known to be there.
pub(super) fn around<'a>(scope: &'a Scope, names: &[&'a str], reach: u32, at: &'a ReadAt) -> Statement<'a> {
    let (tenant, place) = (scope.tenant.as_str(), "(SELECT scope_id FROM s)");
    let hashes = names.iter().map(|name| content_hash(name.as_bytes()).to_vec()).collect();
    let mut statement = Statement::new("");
    statement.push(
        "WITH s AS MATERIALIZED (SELECT scope_id FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?),
         o AS MATERIALIZED (SELECT e.* FROM unnest(?::text[], ?::bytea[]) AS w (id, id_hash)
           CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ",
        [Param::Text(tenant), Param::Text(scope.memory_ref.as_str()), Param::Texts(names.to_vec()), Param::Hashes(hashes)],
    );
    statement.push_live(tenant, place, at);
    statement.push(" AND e.id_hash = w.id_hash AND e.id = w.id OFFSET 0) e) ", []);
    statement.push(&format!("SELECT {ENTRY_COLUMNS}, e.id, NULL::boolean FROM o e"), []);
    for (sign, order, before) in [("<", "DESC", true), (">", "ASC", false)] {
        let head =
            format!(" UNION ALL SELECT {ENTRY_COLUMNS}, o.id, {before} FROM o CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ");
        statement.push(&head, []);
        statement.push_part(tenant, place, at, Part::There);
        // In words that the index of lists understands: it holds the first 100 characters of an id.
        let tail = format!(
            " AND e.created_at {sign}= o.created_at AND (e.created_at {sign} o.created_at OR e.id {sign} o.id)
              ORDER BY e.created_at {order}, left(e.id, 100) {order}, e.id {order} LIMIT ?) e"
        );
        statement.push(&tail, [Param::Number(reach.into())]);
    }
    statement
}
