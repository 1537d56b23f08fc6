//! SQL: it lives in one crate, and every statement on a tenant's table binds the tenant.

use super::files::tracked;
use regex::Regex;
use std::collections::BTreeSet;
use std::path::Path;

/// The tables of the migrations that have a column for the tenant.
fn tenant_tables(root: &Path) -> Vec<String> {
    let created =
        Regex::new(r"(?s)CREATE TABLE (?:remem\.)?(\w+) \((.*?)\n\)").expect("a constant");
    let migrations = root.join("crates/remem-store-sql/migrations");
    let mut tables = BTreeSet::new();
    for folder in ["postgres", "sqlite"] {
        let files = std::fs::read_dir(migrations.join(folder));
        for file in files.into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(file.path()).unwrap_or_default();
            let of_tenants = created
                .captures_iter(&text)
                .filter(|table| table[2].contains("tenant_id"));
            tables.extend(of_tenants.map(|table| table[1].to_owned()));
        }
    }
    tables.into_iter().collect()
}

pub fn check(root: &Path) -> Vec<String> {
    let statement =
        Regex::new(r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM)\b").expect("a constant pattern");
    let tables = tenant_tables(root).join("|");
    let table = Regex::new(&format!(
        r"\b(?:FROM|INTO|UPDATE|JOIN) (?:remem\.)?({tables})\b"
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
            let near = lines[n.saturating_sub(2)..(n + 12).min(lines.len())].join("\n");
            let says_why =
                near.contains("The tenant is bound") || near.contains("One file has one tenant");
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
