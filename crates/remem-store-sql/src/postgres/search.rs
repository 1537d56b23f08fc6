//! Search: postings of the memory's words, ranked by BM25 with the memory's own counts, and its
//! vectors.
//!
//! Policies let only leakproof operators near an index; equality on the key of `posting` is one, so
//! the cost grows with the hits and not with the tenant. Words are looked up one by one (`OFFSET 0`
//! keeps the planner from doing it otherwise): a plan that is kept for all callers knows nothing of
//! how large a memory is. Entries are fetched in the order of their score until there are enough
//! live ones.
//!
//! Which vectors are near is `near`'s.

use super::gate::{Gate, Identity, Role, call};
use super::near::{self, Kind, Near};
use super::read::{push_cell, push_created, push_tags};
use super::rows::{ENTRY_COLUMNS, ENTRY_WIDTH, Param, Part, Statement, entry, get};
use crate::stored::content_hash;
use crate::{bm25, spelling, terms};
use remem_core::sabotage;
use remem_core::{Embedding, Entry, EntryId, Scope};
use remem_store::{Around, Candidate, Filter, Found, Probe, ReadAt, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A filter leaves little if it is this part of what is compared one by one.
const LITTLE: i64 = 4;

/// Which words a memory holds: one by one, and no further than the first posting of each. And of
/// which kinds it has many vectors: no further than so many, and only those that there are indexes
/// for (`near::INDEXED_DIMENSIONS`, literally, as the index says it).
const HELD: &str = "SELECT ARRAY(SELECT w.word FROM unnest($3::bigint[]) AS w (word) CROSS JOIN LATERAL
      (SELECT 1 FROM remem.posting p WHERE p.tenant_id = $1 AND p.scope_id = s.scope_id AND p.word = w.word LIMIT 1) p),
    ARRAY(SELECT k.n - 1 FROM unnest($4::text[], $5::text[]) WITH ORDINALITY AS k (tier, typology, n) CROSS JOIN LATERAL
      (SELECT 1 FROM remem.vector v WHERE v.tenant_id = $1 AND v.scope_id = s.scope_id AND v.model = $6 AND v.tier = k.tier
         AND v.typology = k.typology AND v.dimensions = 384 OFFSET $7 LIMIT 1) v WHERE s.documents > $7)
  FROM remem.scope s WHERE s.tenant_id = $1 AND s.memory_ref = $2";

/// What a search asks for.
pub(super) struct Question<'a> {
    pub scope: &'a Scope,
    /// Digests.
    pub words: &'a [i64],
    /// Digests of words that were probably meant by others that are not held, and how alike they
    /// are.
    pub meant: &'a BTreeMap<i64, i64>,
    /// What is meant, as a direction.
    pub near: Option<&'a Near<'a>>,
    pub filter: &'a Filter,
    pub depth: u32,
    pub at: &'a ReadAt,
}

/// What a memory holds of what is asked for.
#[derive(Default)]
struct Held {
    words: HashSet<i64>,
    /// The kinds that it has many vectors of.
    many: Vec<Kind>,
}

impl Gate {
    pub async fn search(
        &self,
        scope: &Scope,
        probe: &Probe,
        filter: &Filter,
        depth: u32,
        at: &ReadAt,
    ) -> Result<Found, StoreError> {
        let asked = terms::asked(&probe.terms);
        let words: Vec<i64> = asked.iter().map(|asked| asked.word).collect();
        let mut near = probe
            .vector
            .as_ref()
            .filter(|_| self.vectors)
            .map(|(model, vector)| Near::new(model.0, vector));
        if words.is_empty() && near.is_none() {
            return Ok(Found::default());
        }
        let Some(held) = self.held(scope, &words, near.as_ref()).await? else {
            return Ok(Found::default());
        };
        let slips = spelling::slips(&asked, |word| held.words.contains(&word));
        let meant = if slips.is_empty() {
            BTreeMap::new()
        } else {
            self.meant(scope, &slips).await?
        };
        let question = Question {
            scope,
            words: &words,
            meant: &meant,
            near: None,
            filter,
            depth,
            at,
        };
        if let Some(near) = &mut near {
            near.choose(&held.many, filter);
            if near.is_along() && near::narrows(filter) && self.leaves_little(&question).await? {
                near.choose_left();
            }
        }
        loop {
            let (found, nearest) = self
                .found(&Question {
                    near: near.as_ref(),
                    ..question
                })
                .await?;
            if !near
                .as_mut()
                .is_some_and(|near| near.fell_short(&nearest, filter, depth))
            {
                return Ok(found);
            }
        }
    }

    /// Whether the filter leaves so little of a memory that a walk along an index would hardly meet
    /// it. Looks no further than that.
    async fn leaves_little(&self, question: &Question<'_>) -> Result<bool, StoreError> {
        let statement = near::leaves_more(question, self.exact_max / LITTLE);
        let asked = call(&statement.sql, &statement.params());
        Ok(self
            .read_near(Role::App, Identity::of(question.scope), false, asked)
            .await?
            .is_empty())
    }

    /// What is found, and the kinds of those that are near.
    async fn found(&self, question: &Question<'_>) -> Result<(Found, Vec<Kind>), StoreError> {
        let statement = statement(question);
        let who = Identity::of(question.scope);
        let asked = call(&statement.sql, &statement.params());
        let rows = match question.near {
            None => self.read(Role::App, who, asked.sql, &asked.params).await?,
            Some(near) => {
                self.read_near(Role::App, who, near.is_along(), asked)
                    .await?
            }
        };
        let mut found = Found::default();
        let mut nearest = Vec::new();
        for row in &rows {
            let bytes: Option<&[u8]> = get(row, ENTRY_WIDTH + 2)?;
            let kept = bytes.and_then(Embedding::from_bytes);
            let cosine = question
                .near
                .zip(kept)
                .map(|(near, kept)| near.vector.cosine(&kept));
            let support = get::<i64>(row, ENTRY_WIDTH)?.cast_unsigned();
            let lexical = get::<f64>(row, ENTRY_WIDTH + 1)? / bm25::PARTS;
            let typo = get::<f64>(row, ENTRY_WIDTH + 4)? / bm25::PARTS;
            let uses = get::<i64>(row, ENTRY_WIDTH + 5)?.cast_unsigned();
            let entry = entry(row, &question.scope.memory_ref)?;
            if get(row, ENTRY_WIDTH + 6)? {
                nearest.push((entry.tier, entry.typology));
            }
            found.candidates.push(Candidate {
                entry,
                lexical,
                cosine,
                typo,
                support,
                uses,
            });
            found.lexical_best = get::<f64>(row, ENTRY_WIDTH + 3)? / bm25::PARTS;
        }
        crate::order(&mut found.candidates);
        Ok((found, nearest))
    }

    /// What the memory holds. `None` if there is no such memory.
    async fn held(
        &self,
        scope: &Scope,
        words: &[i64],
        near: Option<&Near<'_>>,
    ) -> Result<Option<Held>, StoreError> {
        let tenant = scope.tenant.as_str();
        let name = scope.memory_ref.as_str();
        let indexed = near.filter(|near| near.is_indexed());
        let kinds: Vec<Kind> = indexed.into_iter().flat_map(|_| near::kinds()).collect();
        let (tiers, typologies): (Vec<&str>, Vec<&str>) = kinds
            .iter()
            .map(|kind| (kind.0.as_str(), kind.1.as_str()))
            .unzip();
        let model = indexed.map_or(-1, |near| near.model);
        let many = self.exact_max;
        let asked = call(
            HELD,
            &[&tenant, &name, &words, &tiers, &typologies, &model, &many],
        );
        let rows = self
            .read(Role::App, Identity::of(scope), asked.sql, &asked.params)
            .await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let places: Vec<i64> = get(row, 1)?;
        let many = places
            .into_iter()
            .filter_map(|place| kinds.get(usize::try_from(place).ok()?).copied())
            .collect();
        Ok(Some(Held {
            words: get::<Vec<i64>>(row, 0)?.into_iter().collect(),
            many,
        }))
    }

    async fn meant(
        &self,
        scope: &Scope,
        slips: &[spelling::Slips<'_>],
    ) -> Result<BTreeMap<i64, i64>, StoreError> {
        let words: HashSet<i64> = slips.iter().flat_map(spelling::Slips::words).collect();
        let words: Vec<i64> = words.into_iter().collect();
        let held = self.held(scope, &words, None).await?.unwrap_or_default();
        Ok(spelling::meant(slips, |word| held.words.contains(&word)))
    }

    /// What stands around entries, in the order of `list`. Of a snapshot, what is still there
    /// counts.
    pub async fn around(
        &self,
        scope: &Scope,
        ids: &[EntryId],
        reach: u32,
        at: &ReadAt,
    ) -> Result<Vec<Around>, StoreError> {
        let names: Vec<&str> = ids.iter().map(EntryId::as_str).collect();
        let statement = around(scope, &names, reach, at);
        let asked = call(&statement.sql, &statement.params());
        let rows = self
            .read_in_order(Role::App, Identity::of(scope), asked)
            .await?;
        let mut sides: HashMap<String, (Vec<Entry>, Vec<Entry>)> = HashMap::new();
        for row in &rows {
            let of: String = get(row, ENTRY_WIDTH)?;
            let before: Option<bool> = get(row, ENTRY_WIDTH + 1)?;
            let sides = sides.entry(of).or_default();
            match before {
                Some(true) => sides.0.push(entry(row, &scope.memory_ref)?),
                Some(false) => sides.1.push(entry(row, &scope.memory_ref)?),
                None => {}
            }
        }
        let answer = |id: &EntryId| {
            sides.remove(id.as_str()).map(|(before, after)| Around {
                id: id.clone(),
                before,
                after,
            })
        };
        Ok(ids.iter().filter_map(answer).collect())
    }
}

pub(super) fn statement<'a>(question: &Question<'a>) -> Statement<'a> {
    let tenant = question.scope.tenant.as_str();
    let mut statement = Statement::new("");
    push_ranked(&mut statement, question);
    // Sorted here, so that rows are looked at one by one until there are enough: what is kept for
    // others has no order.
    let best = ", lexical AS MATERIALIZED (SELECT k.row_id FROM (SELECT * FROM ranked ORDER BY total DESC, row_id DESC) k CROSS JOIN LATERAL (";
    statement.push(best, []);
    push_seen(&mut statement, question, " AND e.row_id = k.row_id");
    let limit = || [Param::Number(question.depth.into())];
    statement.push(") e ORDER BY k.total DESC, k.row_id DESC LIMIT ?)", limit());
    statement.push(", near AS MATERIALIZED (", []);
    match question.near {
        None => statement.push("SELECT row_id FROM lexical", []),
        Some(near) => near.push(&mut statement, question),
    }
    let columns = format!(
        ") SELECT {ENTRY_COLUMNS}, e.support, coalesce(k.score, 0), v.bytes,
           (SELECT coalesce(sum(round(1e6::float8 * weight * {}::float8)), 0) FROM rare WHERE NOT meant), coalesce(k.typo, 0),
           (SELECT count(*) FROM remem.action_link l WHERE l.tenant_id = e.tenant_id AND l.scope_id = e.scope_id AND l.row_id = e.row_id),
           p.row_id IN (SELECT row_id FROM near)
         FROM (SELECT row_id FROM lexical UNION SELECT row_id FROM near) p CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ",
        bm25::K1 + 1.0
    );
    statement.push(&columns, []);
    statement.push("e.tenant_id = ? AND e.scope_id = (SELECT scope_id FROM s) AND e.row_id = p.row_id OFFSET 0) e", [Param::Text(tenant)]);
    statement.push(" LEFT JOIN ranked k ON k.row_id = p.row_id LEFT JOIN LATERAL (SELECT v.bytes FROM remem.vector v", []);
    let model = question.near.map_or(-1, |near| near.model);
    statement.push(
        " WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.row_id = p.row_id AND v.model = ? OFFSET 0) v ON true",
        [Param::Text(tenant), Param::Number(model)],
    );
    statement
}

/// Every entry that holds one of the words, with its score in parts.
fn push_ranked<'a>(statement: &mut Statement<'a>, question: &Question<'a>) {
    let tenant = question.scope.tenant.as_str();
    let name = question.scope.memory_ref.as_str();
    let k1 = bm25::K1;
    let b = bm25::B;
    let alike = spelling::ALIKE;
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
        question.meant.keys().copied().collect(),
        question.meant.values().copied().collect(),
    );
    let words = [
        Param::Numbers(question.words.to_vec()),
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

/// The entries that the reader may see and that are wanted; `of` says which of them.
pub(super) fn push_seen<'a>(statement: &mut Statement<'a>, question: &Question<'a>, of: &str) {
    statement.push("SELECT e.row_id FROM remem.entry e WHERE ", []);
    statement.push_live(
        question.scope.tenant.as_str(),
        "(SELECT scope_id FROM s)",
        question.at,
    );
    statement.push(of, []);
    push_tags(statement, &question.filter.tags);
    push_created(statement, question.filter, "e.created_at");
    push_cell(statement, question.filter);
    statement.push(" OFFSET 0", []);
}

/// What stands before and after each, and each itself (without a side), so that it is known to be
/// there.
pub(super) fn around<'a>(
    scope: &'a Scope,
    names: &[&'a str],
    reach: u32,
    at: &'a ReadAt,
) -> Statement<'a> {
    let tenant = scope.tenant.as_str();
    let place = "(SELECT scope_id FROM s)";
    let hashes = names
        .iter()
        .map(|name| content_hash(name.as_bytes()).to_vec())
        .collect();
    let mut statement = Statement::new("");
    statement.push(
        "WITH s AS MATERIALIZED (SELECT scope_id FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?),
         o AS MATERIALIZED (SELECT e.* FROM unnest(?::text[], ?::bytea[]) AS w (id, id_hash)
           CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE ",
        [Param::Text(tenant), Param::Text(scope.memory_ref.as_str()), Param::Texts(names.to_vec()), Param::Hashes(hashes)],
    );
    statement.push_live(tenant, place, at);
    statement.push(
        sabotage!(
            "neighbours-are-looked-for-in-the-whole-memory",
            " AND e.id_hash = w.id_hash AND e.id = w.id OFFSET 0) e) ",
            " AND e.id = w.id AND w.id_hash IS NOT NULL OFFSET 0) e) "
        ),
        [],
    );
    statement.push(
        &format!("SELECT {ENTRY_COLUMNS}, e.id, NULL::boolean FROM o e"),
        [],
    );
    for (sign, order, before) in [("<", "DESC", true), (">", "ASC", false)] {
        let head = format!(
            " UNION ALL SELECT {ENTRY_COLUMNS}, o.id, {before} FROM o CROSS JOIN LATERAL (SELECT * FROM remem.entry e WHERE "
        );
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
