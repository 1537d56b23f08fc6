//! The tables that a copy takes row by row, made from the lists of columns in `rows`, and the
//! statements that read and write their pages in either store. Entries are not among them: the
//! ledger says what becomes of those.
//!
//! Each store numbers the rows of entries by itself. A column that holds such a number travels as
//! the id of the entry; the numbers only say where to continue reading.

use crate::rows::entry::{self, ColumnReader};
use crate::rows::statement::Dialect;
use crate::rows::{Column, ColumnType, Value, log, memory, record, workshop};
use remem_store::StoreError;
use std::sync::LazyLock;

/// SQL condition: the records that are copied. The one that says which vectors there are is left out
/// together with the vectors: the target makes its own.
const IS_COPIED: &str = "NOT (t.kind = 'progress' AND t.key = 'embed')";

/// The most rows in one page.
pub(crate) const PAGE_ROWS: usize = 1_000;

/// A table of a tenant.
pub(crate) struct CopiedTable {
    pub name: &'static str,
    /// What differs where source and target have not as many rows.
    pub numbers: &'static str,
    pub columns: Vec<CopiedColumn>,
    /// The columns of the order in which PostgreSQL reads it; SQLite too, except for entries.
    order: &'static [&'static str],
    /// The condition on the rows `t` that are copied, if not all are.
    condition: Option<&'static str>,
    /// Whether it is a column of entries that is set once all of them are copied.
    is_update: bool,
}

/// A column that is copied.
pub(crate) struct CopiedColumn {
    pub name: &'static str,
    kind: ColumnType,
    /// The column that holds the memory of the entry whose row this column holds.
    memory: Option<&'static str>,
}

impl CopiedColumn {
    /// The type of its values on the way: an entry goes by the text of its id.
    pub fn kind(&self) -> ColumnType {
        match self.memory {
            Some(_) => ColumnType::Text,
            None => self.kind,
        }
    }

    /// Whether it names an entry.
    pub fn is_entry(&self) -> bool {
        self.memory.is_some()
    }
}

/// A row on its way.
#[derive(Clone)]
pub(crate) struct CopiedRow {
    /// The values of the table's columns.
    pub values: Vec<Value<'static>>,
    /// Its position in the order of the source.
    pub position: Vec<Value<'static>>,
}

/// The tables, by what they hold.
pub(crate) struct CopiedTables {
    pub events: CopiedTable,
    pub scopes: CopiedTable,
    pub slots: CopiedTable,
    pub replaced: CopiedTable,
    pub lineage: CopiedTable,
    pub subjects: CopiedTable,
    pub actions: CopiedTable,
    pub results: CopiedTable,
    pub records: CopiedTable,
    pub reviews: CopiedTable,
    pub rules: CopiedTable,
}

pub(crate) static TABLES: LazyLock<CopiedTables> = LazyLock::new(|| {
    let named_records = [&record::KEY[..], &record::WRITTEN].concat();
    CopiedTables {
        events: table("event", "numbers of events", &log::EVENT, &["seq"]),
        scopes: table(
            "scope",
            "numbers of memories",
            &[&memory::SCOPE_KEY[..], &memory::SCOPE].concat(),
            &["scope_id"],
        ),
        slots: column_of_entry("numbers of slots", "slot"),
        replaced: column_of_entry("numbers of entries that others stand for", "replaced_by"),
        lineage: table(
            "lineage",
            "numbers of links between entries",
            &memory::LINEAGE,
            &["scope_id", "row_id", "source_scope", "source_row"],
        ),
        subjects: table(
            "entry_subject",
            "numbers of subjects",
            &memory::SUBJECT,
            &["subject", "scope_id", "row_id"],
        ),
        actions: table(
            "action_link",
            "numbers of actions",
            &[&workshop::LINK_KEY[..], &workshop::LINK_MADE].concat(),
            &["scope_id", "row_id", "action", "reference"],
        ),
        results: table(
            "idempotency",
            "numbers of idempotency records",
            &log::RESULT,
            &["operation", "key"],
        ),
        records: CopiedTable {
            condition: Some(IS_COPIED),
            ..table(
                "record",
                "numbers of records",
                &[&named_records[..], &record::TIES].concat(),
                &["kind", "key"],
            )
        },
        reviews: table(
            "review",
            "numbers of records under review",
            &named_records,
            &["kind", "key"],
        ),
        rules: table(
            "rule",
            "numbers of rules",
            &[&workshop::RULE_KEY[..], &workshop::RULE].concat(),
            &["world", "id"],
        ),
    }
});

impl CopiedTables {
    /// Whether the rows of this table are compared.
    pub fn is_compared(&self, table: &CopiedTable) -> bool {
        !std::ptr::eq(table, &self.slots)
    }

    /// The tables whose rows are compared. The slot of an entry is compared with the entry.
    pub fn compared(&self) -> [&CopiedTable; 10] {
        [
            &self.events,
            &self.scopes,
            &self.replaced,
            &self.lineage,
            &self.subjects,
            &self.actions,
            &self.results,
            &self.records,
            &self.reviews,
            &self.rules,
        ]
    }
}

fn table<R>(
    name: &'static str,
    numbers: &'static str,
    columns: &[Column<R>],
    order: &'static [&'static str],
) -> CopiedTable {
    CopiedTable {
        name,
        numbers,
        columns: columns.iter().map(copied).collect(),
        order,
        condition: None,
        is_update: false,
    }
}

/// The entries that have a value in this column.
fn column_of_entry(numbers: &'static str, column: &str) -> CopiedTable {
    let value = entry::COLUMNS.iter().filter(|known| known.name == column);
    CopiedTable {
        name: "entry",
        numbers,
        columns: entry::KEY.iter().chain(value).map(copied).collect(),
        order: &["scope_id", "row_id"],
        condition: None,
        is_update: true,
    }
}

fn copied<R>(column: &Column<R>) -> CopiedColumn {
    let memory = match column.name {
        "row_id" | "replaced_by" => Some("scope_id"),
        "source_row" => Some("source_scope"),
        _ => None,
    };
    CopiedColumn {
        name: column.name,
        kind: column.kind,
        memory,
    }
}

impl CopiedTable {
    /// The value of a row in the column of this name.
    pub fn value<'a>(&self, row: &'a CopiedRow, name: &str) -> Option<&'a Value<'static>> {
        let at = self.columns.iter().position(|column| column.name == name)?;
        row.values.get(at)
    }

    /// The number of a row in the column of this name.
    pub fn number(&self, row: &CopiedRow, name: &str) -> Option<i64> {
        match self.value(row, name) {
            Some(Value::Number(number)) => *number,
            _ => None,
        }
    }

    /// The columns of the order in which a store reads the table. In the order of the file, SQLite
    /// need not sort all of the tenant's entries for each page.
    fn order(&self, dialect: Dialect) -> &'static [&'static str] {
        match (dialect, self.is_update) {
            (Dialect::Sqlite, true) => &["row_id"],
            _ => self.order,
        }
    }

    /// The types of the columns of the order.
    fn order_kinds(&self, dialect: Dialect) -> impl Iterator<Item = ColumnType> {
        let of = move |name: &&str| self.columns.iter().find(|column| column.name == *name);
        let columns = self.order(dialect).iter().filter_map(of);
        columns.map(|column| column.kind)
    }

    /// The statement that reads a page: the first one, or the one after a position, whose
    /// parameters follow the tenant.
    pub fn page_sql(&self, dialect: Dialect, is_first: bool) -> String {
        let mark = dialect.mark();
        let order: Vec<String> = self
            .order(dialect)
            .iter()
            .map(|name| format!("t.{name}"))
            .collect();
        let mut joins = String::new();
        let mut columns = Vec::new();
        for (n, column) in self.columns.iter().enumerate() {
            let name = column.name;
            columns.push(match column.memory {
                None => format!("t.{name}"),
                Some(_) if self.is_update && name == "row_id" => "t.id".to_owned(),
                Some(memory) => {
                    joins.push_str(&self.join_entry_row(dialect, n, (memory, name)));
                    format!("e{n}.id")
                }
            });
        }
        columns.extend_from_slice(&order);
        let file_order = match (dialect, self.is_update) {
            (Dialect::Sqlite, true) => " NOT INDEXED",
            _ => "",
        };
        let mut conditions = format!("t.tenant_id = {mark}1");
        if let (true, Some(column)) = (self.is_update, self.columns.last()) {
            conditions.push_str(&format!(" AND t.{} IS NOT NULL", column.name));
        }
        if let Some(condition) = self.condition {
            conditions.push_str(&format!(" AND {condition}"));
        }
        if !is_first {
            let marks: Vec<String> = (2..order.len() + 2).map(|n| format!("{mark}{n}")).collect();
            conditions.push_str(&format!(
                " AND ({}) > ({})",
                order.join(", "),
                marks.join(", ")
            ));
        }
        format!(
            "SELECT {} FROM {} t{file_order}{joins} WHERE {conditions} ORDER BY {} LIMIT {PAGE_ROWS}",
            columns.join(", "),
            dialect.table(self.name),
            order.join(", ")
        )
    }

    /// Joins the entry `e{n}` of the row number in a column. Only records need none.
    fn join_entry_row(&self, dialect: Dialect, n: usize, (memory, row): (&str, &str)) -> String {
        let join = match dialect {
            _ if self.name == "record" => "LEFT JOIN",
            Dialect::Sqlite => "CROSS JOIN",
            Dialect::Postgres => "JOIN",
        };
        let entry = dialect.table("entry");
        let memory = match dialect {
            Dialect::Sqlite => String::new(),
            Dialect::Postgres => format!(" AND e{n}.scope_id = t.{memory}"),
        };
        let tenant = format!("{}1", dialect.mark());
        format!(
            " {join} {entry} e{n} ON e{n}.tenant_id = {tenant}{memory} AND e{n}.row_id = t.{row}"
        )
    }

    /// Reads a row of a page.
    pub fn read(
        &self,
        dialect: Dialect,
        row: &mut impl ColumnReader,
    ) -> Result<CopiedRow, StoreError> {
        let values = self.columns.iter().map(CopiedColumn::kind);
        let values = values
            .map(|kind| read_value(row, kind))
            .collect::<Result<_, _>>()?;
        let position = self.order_kinds(dialect);
        let position = position
            .map(|kind| read_value(row, kind))
            .collect::<Result<_, _>>()?;
        Ok(CopiedRow { values, position })
    }

    /// The statement that writes one row into SQLite; a row that exists stays as it is. `more`
    /// names columns whose values follow.
    pub fn put_row_sql(&self, more: &[&str]) -> String {
        let place = |name: &str| self.columns.iter().position(|column| column.name == name);
        let mark = |name: &str| format!("?{}", place(name).unwrap_or_default() + 2);
        let value = |column: &CopiedColumn| match column.memory {
            None => mark(column.name),
            Some(memory) => format!(
                "(SELECT row_id FROM entry WHERE tenant_id = ?1 AND scope_id = {} AND id = {})",
                mark(memory),
                mark(column.name)
            ),
        };
        if let (true, Some(column)) = (self.is_update, self.columns.last()) {
            let name = column.name;
            let value = value(column);
            return format!(
                "UPDATE entry SET {name} = {value}
                 WHERE tenant_id = ?1 AND scope_id = ?2 AND id = ?3 AND {name} IS NOT {value}"
            );
        }
        let mut names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let mut values: Vec<String> = self.columns.iter().map(value).collect();
        for (n, name) in more.iter().enumerate() {
            names.push(name);
            values.push(format!("?{}", self.columns.len() + n + 2));
        }
        format!(
            "INSERT INTO {} (tenant_id, {}) VALUES (?1, {}) ON CONFLICT DO NOTHING",
            self.name,
            names.join(", "),
            values.join(", ")
        )
    }

    /// The statement that writes a page into PostgreSQL, each column an array; rows that exist stay
    /// as they are. Entries are named by the digests of their ids, and the tenant is read from its
    /// clock.
    pub fn put_page_sql(&self) -> String {
        let mut arrays = Vec::new();
        let mut joins = String::new();
        let mut values = Vec::new();
        for (n, column) in self.columns.iter().enumerate() {
            let name = column.name;
            arrays.push(format!("${}::{}[]", n + 2, self.array_kind(column)));
            let found = self.is_update && name == "row_id";
            values.push(match column.memory {
                Some(memory) if !found => {
                    // Only records need no entry.
                    let join = if self.name == "record" { "LEFT JOIN" } else { "JOIN" };
                    joins.push_str(&format!(
                        " {join} remem.entry e{n} ON e{n}.tenant_id = $1 AND e{n}.scope_id = w.{memory} AND e{n}.id_hash = w.{name}"
                    ));
                    format!("e{n}.row_id")
                }
                _ => format!("w.{name}"),
            });
        }
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        let names = names.join(", ");
        let rows = format!("unnest({}) AS w ({names}){joins}", arrays.join(", "));
        if let (true, Some(column), Some(value)) =
            (self.is_update, self.columns.last(), values.last())
        {
            let name = column.name;
            return format!(
                "UPDATE remem.entry t SET {name} = {value} FROM {rows}
                 WHERE t.tenant_id = $1 AND t.scope_id = w.scope_id AND t.id_hash = w.row_id AND t.{name} IS DISTINCT FROM {value}"
            );
        }
        // The application may read the key of a record under review, and nothing else of it.
        let key = if self.name == "review" {
            " (tenant_id, kind, key)"
        } else {
            ""
        };
        format!(
            "INSERT INTO remem.{} (tenant_id, {names}) SELECT c.tenant_id, {} FROM remem.tenant_clock c CROSS JOIN {rows}
             WHERE c.tenant_id = $1 ON CONFLICT{key} DO NOTHING",
            self.name,
            values.join(", ")
        )
    }

    fn array_kind(&self, column: &CopiedColumn) -> &'static str {
        match column.kind() {
            ColumnType::Number => "bigint",
            ColumnType::Text if !column.is_entry() => "text",
            _ => "bytea",
        }
    }

    /// The statement that deletes all rows of a tenant.
    pub fn clear_sql(&self, dialect: Dialect) -> String {
        let table = dialect.table(self.name);
        format!("DELETE FROM {table} WHERE tenant_id = {}1", dialect.mark())
    }
}

fn read_value(row: &mut impl ColumnReader, kind: ColumnType) -> Result<Value<'static>, StoreError> {
    Ok(match kind {
        ColumnType::Number => Value::Number(row.number()?),
        ColumnType::Text => Value::Text(row.text()?.map(Into::into)),
        ColumnType::Bytes => Value::Bytes(row.bytes()?.map(Into::into)),
        ColumnType::Content => Value::Text(row.content()?.map(Into::into)),
    })
}

impl Dialect {
    /// The mark of a parameter.
    fn mark(self) -> char {
        match self {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_names_entries_by_their_ids() {
        let sql = TABLES.subjects.page_sql(Dialect::Sqlite, false);
        assert_eq!(
            sql,
            "SELECT t.subject, t.scope_id, e2.id, t.subject, t.scope_id, t.row_id FROM entry_subject t \
             CROSS JOIN entry e2 ON e2.tenant_id = ?1 AND e2.row_id = t.row_id \
             WHERE t.tenant_id = ?1 AND (t.subject, t.scope_id, t.row_id) > (?2, ?3, ?4) \
             ORDER BY t.subject, t.scope_id, t.row_id LIMIT 1000"
        );
    }

    #[test]
    fn pages_take_the_tenant_from_its_clock() {
        for table in TABLES.compared() {
            let put = table.put_page_sql();
            let from_clock = put.contains("SELECT c.tenant_id, ")
                && put.contains("FROM remem.tenant_clock c CROSS JOIN unnest(")
                && put.contains("WHERE c.tenant_id = $1 ");
            assert_eq!(from_clock, !table.is_update, "{put}");
            for sql in [put, table.page_sql(Dialect::Postgres, true)] {
                let tables = sql.matches("remem.").count();
                let named =
                    sql.matches("tenant_id = $1").count() + sql.matches("INTO remem.").count();
                assert_eq!(named, tables, "each table names the tenant: {sql}");
            }
        }
    }

    #[test]
    fn the_record_of_which_vectors_there_are_is_not_copied() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let sql = TABLES.records.page_sql(dialect, false);
            assert!(
                sql.contains(&format!("AND {IS_COPIED} AND (t.kind, t.key) >")),
                "{sql}"
            );
        }
    }

    #[test]
    fn a_column_of_entries_is_set_where_it_differs() {
        let sql = TABLES.replaced.put_page_sql();
        assert!(
            sql.starts_with("UPDATE remem.entry t SET replaced_by = e2.row_id "),
            "{sql}"
        );
        assert!(
            sql.ends_with("t.replaced_by IS DISTINCT FROM e2.row_id"),
            "{sql}"
        );
        let sql = TABLES.slots.put_row_sql(&[]);
        assert!(sql.ends_with("id = ?3 AND slot IS NOT ?4"), "{sql}");
    }
}
