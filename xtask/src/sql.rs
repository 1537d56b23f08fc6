//! SQL: it lives in one crate, every statement on a tenant's table binds the tenant, and what a
//! commit changes or deletes is found by keys alone.
//!
//! On PostgreSQL each table of a statement is bound to the tenant's parameter by its own alias, so
//! that every part of it shows where the tenant's rows are, and inserted rows take the tenant from
//! its clock or from the parameter itself.

use super::files::tracked;
use super::literals::{self, Literal};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The files whose statements save what the ledger decided.
const SAVE_FILES: [&str; 3] = [
    "crates/remem-store-sql/src/sqlite/save.rs",
    "crates/remem-store-sql/src/postgres/save.rs",
    "crates/remem-store-sql/src/postgres/index.rs",
];

/// A comment with one of these says where the tenant is bound, or why it is not.
const REASONS: [&str; 3] = [
    "The tenant is bound",
    "One file has one tenant",
    "Of all tenants",
];

/// The lines after a literal in which the rest of its statement may be.
const NEAR: usize = 12;

/// The columns of the keys of each table that has a column for the tenant, in either store.
fn keys(root: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let created =
        Regex::new(r"(?s)CREATE TABLE (?:remem\.)?(\w+) \((.*?)\n\)").expect("a constant");
    let key = Regex::new(r"(?m)PRIMARY KEY \(([^)]*)\)|UNIQUE \(([^)]*)\)|^\s*(\w+) .*PRIMARY KEY")
        .expect("a constant");
    let migrations = root.join("crates/remem-store-sql/migrations");
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in ["postgres-host", "postgres", "sqlite"] {
        let files = std::fs::read_dir(migrations.join(folder));
        for file in files.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            for table in created.captures_iter(&text) {
                if !table[2].contains("tenant_id") || &table[1] == "tenant" {
                    continue;
                }
                let columns = tables.entry(table[1].to_owned()).or_default();
                for found in key.captures_iter(&table[2]) {
                    let listed = found.get(1).or(found.get(2)).or(found.get(3));
                    let listed = listed.map_or("", |listed| listed.as_str());
                    columns.extend(listed.split(", ").map(str::to_owned));
                }
            }
        }
    }
    tables
}

/// The breaches of the literals of a file that saves: an UPDATE or DELETE whose condition names a
/// column that is no part of a key.
fn found_by_more_than_keys(
    literal: &Literal,
    keys: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let changed =
        Regex::new(r"(?s)\b(?:UPDATE|DELETE FROM) (?:remem\.)?([a-z_]+)\b.*?\bWHERE (.*)")
            .expect("a constant");
    let column = Regex::new(r"^(?:\w+\.)?(\w+) = ").expect("a constant");
    let Some(statement) = changed.captures(&literal.text) else {
        return Vec::new();
    };
    let none = BTreeSet::new();
    let key = keys.get(&statement[1]).unwrap_or(&none);
    let conditions = statement[2].split(" AND ").map(str::trim);
    conditions
        .filter(|condition| {
            let name = column.captures(condition).map(|found| found[1].to_owned());
            name.is_none_or(|name| !key.contains(&name))
        })
        .map(|condition| format!("a commit finds rows by keys alone, not by `{condition}`"))
        .collect()
}

/// The breaches of a literal of PostgreSQL's statements: a table whose alias is not bound to the
/// tenant's parameter, in the literal or in `near`, the lines around it.
fn not_bound(literal: &Literal, near: &str, tables: &str) -> Vec<String> {
    let named = Regex::new(&format!(
        r"\b(FROM|JOIN|UPDATE|USING|INTO) remem\.({tables})\b(?: AS\b)?(?: ([a-z]\w*)\b)?"
    ))
    .expect("names of tables");
    let joined = Regex::new(r"\w+\.tenant_id = \w+\.tenant_id").expect("a constant");
    let is_excused = REASONS.iter().any(|reason| near.contains(reason));
    let mut breaches = Vec::new();
    if joined.is_match(&literal.text) {
        breaches.push("name the tenant's parameter, not another table's tenant".to_owned());
    }
    for found in named.captures_iter(&literal.text) {
        let alias = found.get(3).map(|alias| alias.as_str());
        let is_bound = if &found[1] == "INTO" {
            let text = literal.text.replace('\n', " ");
            text.contains("SELECT c.tenant_id,") || text.contains("VALUES ($1")
        } else {
            let of_alias = alias.map_or_else(
                || r"(?:^|[^.\w])tenant_id = (?:\$\d|\?)".to_owned(),
                |alias| format!(r"\b{alias}\.tenant_id = (?:\$\d|\?)"),
            );
            let of_alias = Regex::new(&of_alias).expect("the name of an alias");
            let is_pushed = alias == Some("e") && near.contains("push_visible");
            of_alias.is_match(&literal.text) || of_alias.is_match(near) || is_pushed
        };
        if !is_bound && !is_excused {
            breaches.push(format!("bind `{}` to the tenant's parameter", &found[0]));
        }
    }
    breaches
}

/// The breaches of the statements in one file of the store.
fn statement_breaches(
    name: &str,
    lines: &[&str],
    keys: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let tables: Vec<&str> = keys.keys().map(String::as_str).collect();
    let tables = tables.join("|");
    let is_postgres = name.contains("/src/postgres/") || name.contains("/src/copy/postgres");
    let mut breaches = Vec::new();
    for literal in literals::of_source(&lines.join("\n")) {
        let mut found = Vec::new();
        if SAVE_FILES.contains(&name) {
            found.extend(found_by_more_than_keys(&literal, keys));
        }
        if is_postgres {
            let end = (literal.end + NEAR).min(lines.len());
            let near = lines[literal.line.saturating_sub(3)..end].join("\n");
            found.extend(not_bound(&literal, &near, &tables));
        }
        let at = |breach| format!("{name}:{}: {breach}", literal.line + 1);
        breaches.extend(found.into_iter().map(at));
    }
    breaches
}

pub fn check(root: &Path) -> Vec<String> {
    let statement =
        Regex::new(r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM)\b").expect("a constant pattern");
    let keys = keys(root);
    let tables: Vec<&str> = keys.keys().map(String::as_str).collect();
    let table = Regex::new(&format!(
        r"\b(?:FROM|INTO|UPDATE|JOIN) (?:remem\.)?({})\b",
        tables.join("|")
    ))
    .expect("names of tables");
    let mut breaches = Vec::new();
    for path in tracked(root)
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
    {
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text
            .lines()
            .take_while(|line| !line.starts_with("#[cfg(test)]"))
            .collect();
        let home = name.starts_with("crates/remem-store-sql/");
        // Tests of the isolation try to break it, and read the database from outside.
        let product = home && !name.contains("/tests/");
        let test = name.contains("/tests/") || name.starts_with("crates/remem-testkit");
        if product {
            breaches.extend(statement_breaches(&name, &lines, &keys));
        }
        for (n, line) in lines.iter().enumerate() {
            if line.trim_start().starts_with("//") || !line.contains('"') && !home {
                continue;
            }
            if !home
                && !test
                && !name.starts_with("xtask")
                && !name.starts_with("bench")
                && statement.is_match(line)
            {
                breaches.push(format!("{name}:{}: SQL belongs in remem-store-sql", n + 1));
            }
            // The tenant is bound in the statement itself, in `push_visible` a few lines below, or
            // a comment says where, or why not.
            let near = lines[n.saturating_sub(2)..(n + NEAR).min(lines.len())].join("\n");
            let says_why = REASONS.iter().any(|reason| near.contains(reason));
            if product
                && table.is_match(line)
                && !near.contains("tenant_id")
                && !near.contains("push_visible")
                && !says_why
            {
                breaches.push(format!(
                    "{name}:{}: this statement does not bind the tenant",
                    n + 1
                ));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The breaches of a source that consists of one constant.
    fn breaches(name: &str, sql: &str) -> Vec<String> {
        let source = format!("const SQL: &str = \"{sql}\";");
        let lines: Vec<&str> = source.lines().collect();
        statement_breaches(name, &lines, &keys(&crate::root()))
    }

    #[test]
    fn tables_and_keys_are_read_from_the_migrations() {
        let keys = keys(&crate::root());
        assert!(keys.len() >= 19, "{:?}", keys.keys());
        let columns: Vec<&str> = keys["posting"].iter().map(String::as_str).collect();
        assert_eq!(columns, ["row_id", "scope_id", "tenant_id", "word"]);
        assert!(keys["tenant_clock"].contains("tenant_id"));
        assert!(!keys["entry"].contains("expires_at"));
    }

    #[test]
    fn a_commit_that_looks_for_rows_is_a_breach() {
        let save = "crates/remem-store-sql/src/postgres/save.rs";
        let by_key = "UPDATE remem.entry t SET scan = o.scan FROM unnest($2::bigint[], $3::bigint[]) AS o (row_id, scan)
            WHERE t.tenant_id = $1 AND t.row_id = o.row_id";
        assert_eq!(breaches(save, by_key), [""; 0]);
        for condition in ["t.expires_at = o.row_id", "t.row_id > 5", "t.row_id IN (1)"] {
            let sql = by_key.replace("t.row_id = o.row_id", condition);
            assert_eq!(breaches(save, &sql).len(), 1, "{sql}");
        }
        let delete = "DELETE FROM remem.event WHERE tenant_id = $1 AND revision = $2";
        assert_eq!(breaches(save, delete).len(), 1);
        assert_eq!(
            breaches("crates/remem-store-sql/src/postgres/read.rs", delete),
            [""; 0]
        );
    }

    #[test]
    fn a_table_that_is_not_bound_by_its_alias_is_a_breach() {
        let file = "crates/remem-store-sql/src/postgres/read.rs";
        for right in [
            "SELECT 1 FROM remem.entry e JOIN remem.scope s ON s.tenant_id = $1 WHERE e.tenant_id = $1",
            "SELECT 1 FROM remem.entry WHERE tenant_id = ?",
            "INSERT INTO remem.rule (tenant_id, id) SELECT c.tenant_id, u.* FROM remem.tenant_clock c
             CROSS JOIN unnest($2::text[]) u WHERE c.tenant_id = $1",
        ] {
            assert_eq!(breaches(file, right), [""; 0], "{right}");
        }
        for wrong in [
            "SELECT 1 FROM remem.entry e JOIN remem.scope s ON s.tenant_id = e.tenant_id WHERE e.tenant_id = $1",
            "SELECT 1 FROM remem.entry e JOIN remem.scope s ON s.scope_id = 1 WHERE e.tenant_id = $1",
            "SELECT e.tenant_id FROM remem.entry e WHERE e.tenant_id <> ''",
            "INSERT INTO remem.rule (tenant_id, id) SELECT $1, * FROM unnest($2::text[])",
            "DELETE FROM remem.vector v USING remem.entry e WHERE v.tenant_id = $1",
        ] {
            assert!(!breaches(file, wrong).is_empty(), "{wrong}");
        }
    }
}
