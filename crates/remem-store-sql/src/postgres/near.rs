//! The nearest vectors of a memory: all are compared, or, for a kind of entry that the memory has
//! many of, found along the index of that kind, whose conditions are in the statement as literals.
//! Either way the conditions of the reader are checked on every row before rows are counted.
//!
//! Such an index holds the vectors of all tenants, and pgvector visits only so many of its rows
//! (`hnsw.max_scan_tuples`). A tenant with few vectors among many of others, or a query with a
//! selective filter, would get fewer rows than there are: when a walk has ended too early, the
//! search is repeated without it. So other tenants can cost time, and never an answer.

use super::rows::{Param, StatementBuilder};
use super::search::{SearchQuery, push_visible_rows};
use remem_core::sabotage;
use remem_core::{Embedding, Tier, Typology};
use remem_store::Filter;

/// The number of components that there are indexes for.
const INDEXED_DIMENSIONS: usize = 384;

/// A kind of entry: there is an index for each.
pub(super) type EntryKind = (Tier, Typology);

/// All kinds that entries can have.
pub(super) fn kinds() -> impl Iterator<Item = EntryKind> {
    let all = Tier::ALL
        .into_iter()
        .flat_map(|tier| Typology::ALL.map(|typology| (tier, typology)));
    all.filter(|(tier, typology)| tier.allows(*typology))
}

/// The vector of a query, with the plan to find its nearest neighbours.
pub(super) struct VectorQuery<'a> {
    pub model: i64,
    pub vector: &'a Embedding,
    text: String,
    plan: VectorPlan,
}

/// The plans to find the nearest vectors.
enum VectorPlan {
    /// All vectors of the memory are compared.
    All,
    /// The entries that match the filter are found first, and their vectors compared.
    Filtered,
    /// Kind by kind: along its index (`true`), or all of the kind compared.
    ByKind(Vec<(EntryKind, bool)>),
}

impl<'a> VectorQuery<'a> {
    pub fn new(model: i64, vector: &'a Embedding) -> VectorQuery<'a> {
        VectorQuery {
            model,
            vector,
            text: to_pgvector_text(vector),
            plan: VectorPlan::All,
        }
    }

    /// Whether there are indexes for vectors of this size.
    pub fn is_indexed(&self) -> bool {
        self.vector.components().len() == INDEXED_DIMENSIONS
    }

    /// Whether the plan walks along an index.
    pub fn uses_index(&self) -> bool {
        matches!(&self.plan, VectorPlan::ByKind(kinds) if kinds.iter().any(|(_, along)| *along))
    }

    /// Chooses the plan for a memory that has many entries of these kinds.
    pub fn choose_plan(&mut self, many: &[EntryKind], filter: &Filter) {
        let wanted = |kind: &EntryKind| {
            filter.tier.is_none_or(|t| t == kind.0) && filter.typology.is_none_or(|t| t == kind.1)
        };
        let by_kind = || {
            VectorPlan::ByKind(
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
        self.plan = if many.is_empty() {
            VectorPlan::All
        } else {
            by_kind()
        };
    }

    /// Chooses the plan for a filter that few entries match.
    pub fn choose_filtered(&mut self) {
        self.plan = sabotage!(
            "a-filter-that-leaves-little-costs-the-whole-memory",
            VectorPlan::Filtered,
            VectorPlan::All
        );
    }

    /// Whether a walk ended before `depth` rows of its kind were found; if so, the next plan is
    /// chosen.
    pub fn replan_if_short(&mut self, found: &[EntryKind], filter: &Filter, depth: u32) -> bool {
        let VectorPlan::ByKind(kinds) = &mut self.plan else {
            return false;
        };
        let mut short = false;
        for (kind, along) in kinds.iter_mut().filter(|(_, along)| *along) {
            *along = found.iter().filter(|found| *found == kind).count() >= depth as usize;
            short |= sabotage!("others-in-an-index-take-answers-away", !*along, false);
        }
        if short && has_other_conditions(filter) {
            self.plan = sabotage!(
                "a-filter-that-leaves-little-costs-the-whole-memory",
                VectorPlan::Filtered,
                VectorPlan::All
            );
        }
        short
    }

    /// Adds the query of the nearest rows.
    pub fn push(&'a self, statement: &mut StatementBuilder<'a>, query: &SearchQuery<'a>) {
        let kinds = match &self.plan {
            VectorPlan::All => return self.push_all(statement, query, ""),
            VectorPlan::Filtered => return self.push_filtered(statement, query),
            VectorPlan::ByKind(kinds) if kinds.is_empty() => {
                return statement.push("SELECT row_id FROM lexical", []);
            }
            VectorPlan::ByKind(kinds) => kinds,
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
                true => self.push_index_walk(statement, query, &of_kind),
                false => sabotage!(
                    "few-of-a-kind-are-looked-for-among-those-of-all",
                    self.push_all(statement, query, &of_kind),
                    self.push_index_walk(statement, query, &of_kind)
                ),
            }
            separator = ") UNION ALL (";
        }
        statement.push(")", []);
    }

    /// Compares all vectors in order of distance, until there are enough visible rows.
    fn push_all(
        &'a self,
        statement: &mut StatementBuilder<'a>,
        query: &SearchQuery<'a>,
        of_kind: &str,
    ) {
        statement.push("SELECT n.row_id FROM (SELECT v.row_id, ", []);
        self.push_distance(statement);
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
        push_visible_rows(statement, query, " AND e.row_id = n.row_id");
        statement.push(
            ") e ORDER BY n.far, n.row_id DESC LIMIT ?",
            [Param::Number(query.depth.into())],
        );
    }

    /// Compares the vectors of the entries that match the filter.
    fn push_filtered(&'a self, statement: &mut StatementBuilder<'a>, query: &SearchQuery<'a>) {
        statement.push("SELECT e.row_id FROM (", []);
        push_visible_rows(statement, query, "");
        statement.push(") e CROSS JOIN LATERAL (SELECT ", []);
        self.push_distance(statement);
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
    fn push_distance(&'a self, statement: &mut StatementBuilder<'a>) {
        let sql = format!(
            "v.direction OPERATOR(public.<=>) ?::text::public.halfvec({})",
            self.vector.components().len()
        );
        statement.push(&sql, [Param::Text(&self.text)]);
    }

    /// Walks along the index of a kind.
    fn push_index_walk(
        &'a self,
        statement: &mut StatementBuilder<'a>,
        query: &SearchQuery<'a>,
        of_kind: &str,
    ) {
        statement.push(
            "SELECT v.row_id FROM remem.vector v CROSS JOIN LATERAL (",
            [],
        );
        push_visible_rows(statement, query, " AND e.row_id = v.row_id");
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
pub(super) fn has_other_conditions(filter: &Filter) -> bool {
    let timed = filter.created_from.is_some() || filter.created_to.is_some();
    timed || !filter.tags.is_empty() || filter.session.is_some() || filter.interaction.is_some()
}

/// The statement that returns a row if more than `than` entries are visible and match the filter.
pub(super) fn more_than_statement<'a>(query: &SearchQuery<'a>, than: i64) -> StatementBuilder<'a> {
    let tenant = Param::Text(query.scope.tenant.as_str());
    let name = Param::Text(query.scope.memory_ref.as_str());
    let mut statement = StatementBuilder::new("");
    statement.push(
        "WITH s AS MATERIALIZED (SELECT scope_id FROM remem.scope WHERE tenant_id = ? AND memory_ref = ?) SELECT 1 FROM (",
        [tenant, name],
    );
    push_visible_rows(&mut statement, query, "");
    statement.push(") e OFFSET ? LIMIT 1", [Param::Number(than)]);
    statement
}

/// A vector in the text form that pgvector reads.
pub(super) fn to_pgvector_text(direction: &Embedding) -> String {
    let numbers: Vec<String> = direction
        .components()
        .iter()
        .map(ToString::to_string)
        .collect();
    format!("[{}]", numbers.join(","))
}
