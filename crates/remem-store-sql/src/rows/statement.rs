//! Statements made from lists of columns. A statement that changes or deletes rows finds them by
//! their key alone: which rows those are was decided before.

use super::columns::Column;
use remem_core::sabotage;

/// A statement for rows of the type `R`, and the columns that are its parameters, in order.
pub(crate) struct Statement<R> {
    pub sql: String,
    pub columns: Vec<Column<R>>,
}

impl<R> Statement<R> {
    /// On SQLite: the rows are found by this index. Without statistics SQLite takes the first
    /// columns of another one for as selective.
    pub fn indexed_by(mut self, index: &str) -> Statement<R> {
        let place = format!(" INDEXED BY {index} WHERE ");
        sabotage!("a-delete-walks-the-tenant-for-its-rows", {
            self.sql = self.sql.replacen(" WHERE ", &place, 1);
        });
        self
    }
}

/// The dialect of a database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// One row a call; the tenant is `?1`, the columns follow.
    Sqlite,
    /// Many rows a call, each column an array; the tenant is `$1`, the arrays follow.
    Postgres,
}

/// What an insert does with a row whose key exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// It fails, and with it the transaction.
    Fail,
    /// It leaves the stored row.
    Ignore,
    /// It replaces all columns that are not part of the key.
    Replace,
}

impl Dialect {
    /// The name of a table in statements.
    pub fn table(self, table: &str) -> String {
        match self {
            Dialect::Sqlite => table.to_owned(),
            Dialect::Postgres => format!("remem.{table}"),
        }
    }

    /// The rows of the call as a table expression: `unnest($2::bigint[], …)`.
    fn arrays<R>(columns: &[Column<R>]) -> String {
        let arrays: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(n, column)| format!("${}::{}[]", n + 2, postgres_type(column)))
            .collect();
        format!("unnest({})", arrays.join(", "))
    }

    /// Inserts rows. `key` names the columns of the key beside the tenant. On PostgreSQL the tenant
    /// is read from its clock, which every writer has to see: where the policies hide that row,
    /// nothing is inserted, and a distributed PostgreSQL runs the statement where the tenant's rows
    /// are.
    pub fn insert<R>(
        self,
        table: &str,
        columns: &[Column<R>],
        key: &[&str],
        conflict: OnConflict,
    ) -> Statement<R> {
        let names = names(columns).join(", ");
        let rows = match self {
            Dialect::Sqlite => {
                let values: Vec<String> =
                    (0..columns.len()).map(|n| format!("?{}", n + 2)).collect();
                format!("VALUES (?1, {})", values.join(", "))
            }
            Dialect::Postgres => format!(
                "SELECT c.tenant_id, u.* FROM remem.tenant_clock c CROSS JOIN {} u WHERE c.tenant_id = $1",
                Dialect::arrays(columns)
            ),
        };
        let conflict = match conflict {
            OnConflict::Fail => String::new(),
            OnConflict::Ignore => " ON CONFLICT DO NOTHING".to_owned(),
            OnConflict::Replace => {
                let set: Vec<String> = columns
                    .iter()
                    .filter(|column| !key.contains(&column.name))
                    .map(|column| format!("{0} = excluded.{0}", column.name))
                    .collect();
                format!(
                    " ON CONFLICT (tenant_id, {}) DO UPDATE SET {}",
                    key.join(", "),
                    set.join(", ")
                )
            }
        };
        Statement {
            sql: format!(
                "INSERT INTO {} (tenant_id, {names}) {rows}{conflict}",
                self.table(table)
            ),
            columns: columns.to_vec(),
        }
    }

    /// Sets columns of the rows with these keys. A key column may be set, too: `new` names columns
    /// whose value is written into the column of the second name.
    pub fn update<R>(
        self,
        table: &str,
        key: &[Column<R>],
        set: &[Column<R>],
        new: &[(Column<R>, &str)],
    ) -> Statement<R> {
        let mut columns = [key, set].concat();
        columns.extend(new.iter().map(|(column, _)| *column));
        let targets: Vec<&str> = set
            .iter()
            .map(|column| column.name)
            .chain(new.iter().map(|(_, target)| *target))
            .collect();
        let table = self.table(table);
        let sql = match self {
            Dialect::Sqlite => {
                let set: Vec<String> = targets
                    .iter()
                    .enumerate()
                    .map(|(n, target)| format!("{target} = ?{}", n + 2 + key.len()))
                    .collect();
                format!(
                    "UPDATE {table} SET {} WHERE {}",
                    set.join(", "),
                    sqlite_key(key)
                )
            }
            Dialect::Postgres => {
                let set: Vec<String> = targets
                    .iter()
                    .zip(&columns[key.len()..])
                    .map(|(target, column)| format!("{target} = o.{}", column.name))
                    .collect();
                format!(
                    "UPDATE {table} t SET {} FROM {} AS o ({}) WHERE {}",
                    set.join(", "),
                    Dialect::arrays(&columns),
                    names(&columns).join(", "),
                    postgres_key(key)
                )
            }
        };
        Statement { sql, columns }
    }

    /// Deletes the rows with these keys, or with these first columns of a key.
    pub fn delete<R>(self, table: &str, key: &[Column<R>]) -> Statement<R> {
        let table = self.table(table);
        let sql = match self {
            Dialect::Sqlite => format!("DELETE FROM {table} WHERE {}", sqlite_key(key)),
            Dialect::Postgres => format!(
                "DELETE FROM {table} t USING {} AS o ({}) WHERE {}",
                Dialect::arrays(key),
                names(key).join(", "),
                postgres_key(key)
            ),
        };
        Statement {
            sql,
            columns: key.to_vec(),
        }
    }
}

fn names<R>(columns: &[Column<R>]) -> Vec<&'static str> {
    columns.iter().map(|column| column.name).collect()
}

fn sqlite_key<R>(key: &[Column<R>]) -> String {
    let mut conditions = vec!["tenant_id = ?1".to_owned()];
    let parts = key.iter().enumerate();
    conditions.extend(parts.map(|(n, column)| format!("{} = ?{}", column.name, n + 2)));
    conditions.join(" AND ")
}

fn postgres_key<R>(key: &[Column<R>]) -> String {
    let mut conditions = vec!["t.tenant_id = $1".to_owned()];
    conditions.extend(
        key.iter()
            .map(|column| format!("t.{0} = o.{0}", column.name)),
    );
    conditions.join(" AND ")
}

/// The type of a column's values in PostgreSQL.
fn postgres_type<R>(column: &Column<R>) -> &'static str {
    use super::ColumnType::{Bytes, Content, Number, Text};
    match column.kind {
        Number => "bigint",
        Text => "text",
        Bytes | Content => "bytea",
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::{number, text};
    use super::*;
    use crate::rows::Value;

    const KEY: [Column<i64>; 1] = [number("n", |n| Value::number(*n))];
    const REST: [Column<i64>; 1] = [text("word", |_| Value::text("w"))];

    #[test]
    fn statements_find_rows_by_tenant_and_key() {
        let update = Dialect::Sqlite.update("t", &KEY, &REST, &[]);
        assert_eq!(
            update.sql,
            "UPDATE t SET word = ?3 WHERE tenant_id = ?1 AND n = ?2"
        );
        let update = Dialect::Postgres.update("t", &KEY, &REST, &[]);
        assert_eq!(
            update.sql,
            "UPDATE remem.t t SET word = o.word FROM unnest($2::bigint[], $3::text[]) AS o (n, word) \
             WHERE t.tenant_id = $1 AND t.n = o.n"
        );
        let delete = Dialect::Postgres.delete("t", &KEY);
        assert_eq!(
            delete.sql,
            "DELETE FROM remem.t t USING unnest($2::bigint[]) AS o (n) WHERE t.tenant_id = $1 AND t.n = o.n"
        );
    }

    /// The columns of a table's primary key, as the migrations declare it.
    fn key_of(table: &str) -> Vec<String> {
        let migrations = [
            include_str!("../../migrations/postgres/0001_memory.sql"),
            include_str!("../../migrations/postgres/0003_record.sql"),
            include_str!("../../migrations/postgres/0004_run.sql"),
            include_str!("../../migrations/postgres/0005_lineage.sql"),
            include_str!("../../migrations/postgres/0006_tie.sql"),
            include_str!("../../migrations/postgres/0007_workshop.sql"),
            include_str!("../../migrations/postgres/0008_recall.sql"),
        ];
        let begin = format!("CREATE TABLE remem.{table} (");
        let all = migrations.concat();
        let (_, body) = all.split_once(&begin).unwrap_or_else(|| panic!("{table}"));
        let (body, _) = body.split_once("\n)").unwrap();
        match body.split_once("PRIMARY KEY (") {
            Some((_, columns)) => {
                let (columns, _) = columns.split_once(')').unwrap();
                columns.split(", ").map(str::to_owned).collect()
            }
            None => vec!["tenant_id".to_owned()],
        }
    }

    /// Table and columns of the condition of a statement that changes or deletes rows.
    fn condition(sql: &str) -> Option<(&str, Vec<&str>)> {
        let rest = sql
            .strip_prefix("UPDATE ")
            .or_else(|| sql.strip_prefix("DELETE FROM "))?;
        let table = rest.split(' ').next()?.trim_start_matches("remem.");
        let (_, condition) = sql.split_once("WHERE ")?;
        let columns = condition.split(" AND ").map(|part| {
            let name = part.trim().split(" = ").next().unwrap_or_default();
            name.rsplit('.').next().unwrap_or_default()
        });
        Some((table, columns.collect()))
    }

    #[test]
    fn saved_rows_are_found_by_key_columns_alone() {
        let mut statements = crate::sqlite::save::statements();
        statements.extend(crate::postgres::save::statements());
        statements.extend(crate::postgres::index::DELETIONS);
        let mut found = 0;
        for sql in statements {
            let sql = sql.replace("\n      ", "");
            let Some((table, columns)) = condition(&sql) else {
                continue;
            };
            let key = key_of(table);
            assert!(columns.contains(&"tenant_id"), "{sql}");
            let is_key = |column: &&str| key.iter().any(|name| name == column);
            assert!(columns.iter().all(is_key), "{key:?}: {sql}");
            found += 1;
        }
        assert!(found > 20, "{found} statements change or delete rows");
    }

    #[test]
    fn inserted_rows_take_the_tenant_from_its_clock() {
        let columns = [KEY, REST].concat();
        let insert = Dialect::Postgres.insert("t", &columns, &["n"], OnConflict::Ignore);
        assert_eq!(
            insert.sql,
            "INSERT INTO remem.t (tenant_id, n, word) SELECT c.tenant_id, u.* FROM remem.tenant_clock c \
             CROSS JOIN unnest($2::bigint[], $3::text[]) u WHERE c.tenant_id = $1 ON CONFLICT DO NOTHING"
        );
    }

    #[test]
    fn an_upsert_replaces_everything_but_the_key() {
        let columns = [KEY, REST].concat();
        let insert = Dialect::Sqlite.insert("t", &columns, &["n"], OnConflict::Replace);
        assert_eq!(
            insert.sql,
            "INSERT INTO t (tenant_id, n, word) VALUES (?1, ?2, ?3) \
             ON CONFLICT (tenant_id, n) DO UPDATE SET word = excluded.word"
        );
    }
}
