//! The nearest vectors of a memory: all are compared, or, for a kind of entry that the memory has
//! many of, found along the index of that kind, whose conditions are in the statement as literals.
//! Either way the conditions of the reader are checked on every row before rows are counted.
//!
//! Such an index holds the vectors of all tenants, and pgvector visits only so many of its rows
//! (`hnsw.max_scan_tuples`). A tenant with few vectors among many of others, or a query with a
//! selective filter, would get fewer rows than there are: when a walk has ended too early, the
//! search is repeated without it. So other tenants can cost time, and never an answer.

use super::rows::{Param, Statement};
use super::search::{Question, push_seen};
use remem_core::sabotage;
use remem_core::{Embedding, Tier, Typology};
use remem_store::Filter;

/// The number of components that there are indexes for.
const INDEXED_DIMENSIONS: usize = 384;

/// A kind of entry: there is an index for each.
pub(super) type Kind = (Tier, Typology);

/// All kinds that entries can have.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    let all = Tier::ALL
        .into_iter()
        .flat_map(|tier| Typology::ALL.map(|typology| (tier, typology)));
    all.filter(|(tier, typology)| tier.produces(*typology))
}

/// The vector of a query, with the plan to find its nearest neighbours.
pub(super) struct Near<'a> {
    pub model: i64,
    pub vector: &'a Embedding,
    text: String,
    way: Way,
}

/// The plans to find the nearest vectors.
enum Way {
    /// All vectors of the memory are compared.
    All,
    /// The entries that match the filter are found first, and their vectors compared.
    Left,
    /// Kind by kind: along its index (`true`), or all of the kind compared.
    Kinds(Vec<(Kind, bool)>),
}

impl<'a> Near<'a> {
    pub fn new(model: i64, vector: &'a Embedding) -> Near<'a> {
        Near {
            model,
            vector,
            text: as_text(vector),
            way: Way::All,
        }
    }

    /// Whether there are indexes for vectors of this size.
    pub fn is_indexed(&self) -> bool {
        self.vector.components().len() == INDEXED_DIMENSIONS
    }

    /// Whether the plan walks along an index.
    pub fn is_along(&self) -> bool {
        matches!(&self.way, Way::Kinds(kinds) if kinds.iter().any(|(_, along)| *along))
    }

    /// Chooses the plan for a memory that has many entries of these kinds.
    pub fn choose(&mut self, many: &[Kind], filter: &Filter) {
        let wanted = |kind: &Kind| {
            filter.tier.is_none_or(|t| t == kind.0) && filter.typology.is_none_or(|t| t == kind.1)
        };
        let by_kind = || {
            Way::Kinds(
                kinds()
                    .filter(|kind| {
                        sabotage!(
                            "a-kind-that-nobody-asks-for-is-compared",
                            wanted(kind),
                            true
                        )
                    })
                    .map(|kind| (kind, many.contains(&kind)))
                    .collect(),
            )
        };
        self.way = if many.is_empty() { Way::All } else { by_kind() };
    }

    /// Chooses the plan for a filter that few entries match.
    pub fn choose_left(&mut self) {
        self.way = sabotage!(
            "a-filter-that-leaves-little-costs-the-whole-memory",
            Way::Left,
            Way::All
        );
    }

    /// Whether a walk ended before `depth` rows of its kind were found; if so, the next plan is
    /// chosen.
    pub fn fell_short(&mut self, found: &[Kind], filter: &Filter, depth: u32) -> bool {
        let Way::Kinds(kinds) = &mut self.way else {
            return false;
        };
        let mut short = false;
        for (kind, along) in kinds.iter_mut().filter(|(_, along)| *along) {
            *along = found.iter().filter(|found| *found == kind).count() >= depth as usize;
            short |= sabotage!("others-in-an-index-take-answers-away", !*along, false);
        }
        if short && narrows(filter) {
            self.way = sabotage!(
                "a-filter-that-leaves-little-costs-the-whole-memory",
                Way::Left,
                Way::All
            );
        }
        short
    }

    /// Adds the query of the nearest rows.
    pub fn push(&'a self, statement: &mut Statement<'a>, query: &Question<'a>) {
        let kinds = match &self.way {
            Way::All => return self.push_all(statement, query, ""),
            Way::Left => return self.push_left(statement, query),
            Way::Kinds(kinds) if kinds.is_empty() => {
                return statement.push("SELECT row_id FROM lexical", []);
            }
            Way::Kinds(kinds) => kinds,
        };
        let mut separator = "(";
        for ((tier, typology), along) in kinds {
            statement.push(separator, []);
            let tier = tier.as_str();
            let typology = typology.as_str();
            let of_kind = sabotage!(
                "an-index-without-its-condition",
                format!(
                    " AND v.tier = '{tier}' AND v.typology = '{typology}' AND v.dimensions = {INDEXED_DIMENSIONS}"
                ),
                format!(
                    " AND v.tier = '{tier}' AND v.typology = '{typology}' AND v.dimensions+ 0 = {INDEXED_DIMENSIONS}"
                )
            );
            match along {
                true => self.push_along(statement, query, &of_kind),
                false => sabotage!(
                    "few-of-a-kind-are-looked-for-among-those-of-all",
                    self.push_all(statement, query, &of_kind),
                    self.push_along(statement, query, &of_kind)
                ),
            }
            separator = ") UNION ALL (";
        }
        statement.push(")", []);
    }

    /// Compares all vectors in order of distance, until there are enough visible rows.
    fn push_all(&'a self, statement: &mut Statement<'a>, query: &Question<'a>, of_kind: &str) {
        statement.push("SELECT n.row_id FROM (SELECT v.row_id, ", []);
        self.push_far(statement);
        let key = [
            Param::Text(query.scope.tenant.as_str()),
            Param::Number(self.model),
        ];
        let of_memory = sabotage!("a-plan-that-reads-the-vectors-of-all", format!(
            " AS far FROM remem.vector v
             WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.model = ?{of_kind} ORDER BY far, v.row_id DESC) n
             CROSS JOIN LATERAL ("
        ), format!(
            " AS far FROM remem.vector v
             WHERE v.tenant_id = ? AND v.scope_id+ 0 = (SELECT scope_id FROM s) AND v.model = ?{of_kind} ORDER BY far, v.row_id DESC) n
             CROSS JOIN LATERAL ("
        ));
        statement.push(&of_memory, key);
        push_seen(statement, query, " AND e.row_id = n.row_id");
        statement.push(
            ") e ORDER BY n.far, n.row_id DESC LIMIT ?",
            [Param::Number(query.depth.into())],
        );
    }

    /// Compares the vectors of the entries that match the filter.
    fn push_left(&'a self, statement: &mut Statement<'a>, query: &Question<'a>) {
        statement.push("SELECT e.row_id FROM (", []);
        push_seen(statement, query, "");
        statement.push(") e CROSS JOIN LATERAL (SELECT ", []);
        self.push_far(statement);
        let key = [
            Param::Text(query.scope.tenant.as_str()),
            Param::Number(self.model),
        ];
        statement.push(
            " AS far FROM remem.vector v WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.row_id = e.row_id
               AND v.model = ? OFFSET 0) v ORDER BY v.far, e.row_id DESC LIMIT ?",
            key.into_iter().chain([Param::Number(query.depth.into())]),
        );
    }

    /// Adds the distance of a vector, in a form that no index supports.
    fn push_far(&'a self, statement: &mut Statement<'a>) {
        let sql = format!(
            "v.direction OPERATOR(public.<=>) ?::text::public.halfvec({})",
            self.vector.components().len()
        );
        statement.push(&sql, [Param::Text(&self.text)]);
    }

    /// Walks along the index of a kind.
    fn push_along(&'a self, statement: &mut Statement<'a>, query: &Question<'a>, of_kind: &str) {
        statement.push(
            "SELECT v.row_id FROM remem.vector v CROSS JOIN LATERAL (",
            [],
        );
        push_seen(statement, query, " AND e.row_id = v.row_id");
        // On one level with its limit, or the planner would assume that all rows are needed.
        let order = format!(
            ") e WHERE v.tenant_id = ? AND v.scope_id = (SELECT scope_id FROM s) AND v.model = ?{of_kind}
              ORDER BY (v.direction::public.halfvec({INDEXED_DIMENSIONS})) OPERATOR(public.<=>) ?::text::public.halfvec({INDEXED_DIMENSIONS}) LIMIT ?"
        );
        let key = [
            Param::Text(query.scope.tenant.as_str()),
            Param::Number(self.model),
        ];
        statement.push(
            &order,
            key.into_iter()
                .chain([Param::Text(&self.text), Param::Number(query.depth.into())]),
        );
    }
}

/// Whether a filter has conditions other than on tier and kind.
pub(super) fn narrows(filter: &Filter) -> bool {
    let timed = filter.created_from.is_some() || filter.created_to.is_some();
    timed || !filter.tags.is_empty() || filter.session.is_some() || filter.interaction.is_some()
}

/// The statement that returns a row if more than `than` entries are visible and match the filter.
pub(super) fn leaves_more<'a>(query: &Question<'a>, than: i64) -> Statement<'a> {
    let tenant = Param::Text(query.scope.tenant.as_str());
    let name = Param::Text(query.scope.memory_ref.as_str());
    let mut statement = Statement::new("");
    statement.push(
        "WITH s AS MATERIALIZED (SELECT scope_id FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?) SELECT 1 FROM (",
        [tenant, name],
    );
    push_seen(&mut statement, query, "");
    statement.push(") e OFFSET ? LIMIT 1", [Param::Number(than)]);
    statement
}

/// A vector in the text form that pgvector reads.
pub(super) fn as_text(direction: &Embedding) -> String {
    let numbers: Vec<String> = direction
        .components()
        .iter()
        .map(ToString::to_string)
        .collect();
    format!("[{}]", numbers.join(","))
}
