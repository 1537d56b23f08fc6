//! The plans of this store's statements, as the store runs them: a walk through all methods of its
//! traits runs every statement, and SQLite serves each from an index that narrows more than the
//! tenant, the statements of triggers included. What reads a whole tenant on purpose is named here.

use super::connection::{self, HOST_MIGRATIONS, TENANT_MIGRATIONS, store_error};
use super::copy::put_entries;
use super::identity::as_actor;
use super::index::VectorIndex;
use super::load::entry_rows_while;
use super::stats::count_totals;
use super::{Location, SqliteDirectory, SqliteStore, save, statement_log};
use crate::rows::entry;
use remem_core::{
    Actor, Batch, Embedding, ModelId, Permission, PrincipalId, ShapePolicy, TenantId, Trust,
};
use remem_store::{
    Directory, EntryCalls, EntryReads, Filter, KeyRecord, Ledger, Probe, ReadAt, TenantRecord,
    Upkeep, Vectors,
};
use remem_testkit::conformance::{self, NOON, admit, draft, id, scope};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::collections::BTreeSet;
use std::path::Path;

/// The conditions of an index search that select a tenant, a memory or a kind of record as a whole.
const WIDE: [&str; 4] = [
    "(tenant_id=?)",
    "(tenant_id=? AND scope_id=?)",
    "(tenant_id=? AND kind=?)",
    "(tenant_id=? AND kind=? AND key>?)",
];

/// Statements that read a table, a tenant or a memory as a whole: a part of the text, a part of the
/// plan's line, and why that is right.
const ACCEPTED: &[(&str, &str, &str)] = &[
    ("row_hash IS NOT CASE", "SCAN ", "verify checks every row"),
    (
        "FROM vector v WHERE NOT EXISTS",
        "SCAN v",
        "verify checks every vector",
    ),
    ("WITH wanted AS", "SCAN ", "verify compares all tags"),
    (
        "SELECT content, content_hash",
        "entry_scope (tenant_id=?)",
        "verify checks every text",
    ),
    (
        "kind, payload, hash FROM event WHERE tenant_id = ?1 ORDER",
        "event USING PRIMARY KEY (tenant_id=?)",
        "verify follows the whole chain",
    ),
    // Of all tenants.
    (
        "count(*) FROM api_key)",
        "SCAN ",
        "verify counts the host's rows",
    ),
    (
        "WHERE row_hash IS NULL",
        "SCAN ",
        "rows of before hashes are counted and filled once",
    ),
    ("FROM hash_fill", "SCAN hash_fill", "a row for each table"),
    ("tenant_clock", "tenant_clock", "one row"),
    (
        "tenant SET shapes",
        "SEARCH tenant USING PRIMARY KEY (tenant_id=?)",
        "the whole key",
    ),
    // Of all tenants, here and below.
    (
        "FROM tenant",
        "SCAN tenant",
        "the directory is read into memory when it has changed",
    ),
    // Of all tenants.
    (
        "FROM api_key",
        "SCAN api_key",
        "the directory is read into memory when it has changed",
    ),
    (
        "INSERT INTO scope",
        "SCAN entry",
        "a step of the foreign key that runs only after a violation",
    ),
    (
        "INSERT INTO tenant",
        "SEARCH api_key",
        "a step of the foreign key that runs only after a violation",
    ),
    (
        "snapshot",
        "PRIMARY KEY (tenant_id=?)",
        "a row for each run that goes on",
    ),
    (
        "SELECT min(rev_to)",
        "entry_spent (tenant_id=?)",
        "the first row of the index is read",
    ),
    (
        "SELECT max(row_id) FROM entry WHERE",
        "entry_scope (tenant_id=? AND scope_id=?)",
        "the last row of the index is read",
    ),
    (
        "LIMIT ?",
        "entry_list (tenant_id=? AND scope_id=?)",
        "a page, in the order of the index",
    ),
    (
        "SELECT count(*)",
        "entry_scope (tenant_id=? AND scope_id=?)",
        "the totals of a memory",
    ),
    (
        "s.entries - h.entries",
        "entry_list (tenant_id=? AND scope_id=?)",
        "the first row of the index is read",
    ),
    ("WITH counted AS", "", "verify counts the totals again"),
    (
        "UPDATE scope SET (entries",
        "",
        "a copy counts the totals once",
    ),
    (
        "retention r",
        "(tenant_id=?",
        "retention counts all entries of the memories",
    ),
    (
        "FROM entry WHERE tenant_id = ?1 AND erased_at IS NULL",
        "entry_scope (tenant_id=?)",
        "the state of embedding, for administrators",
    ),
    (
        "SELECT model, count(*)",
        "vector_scope (tenant_id=?)",
        "the state of embedding, for administrators",
    ),
    (
        "DELETE FROM vector WHERE n IN",
        "vector_scope (tenant_id=?)",
        "vectors are discarded after a change of the model, in pages",
    ),
    (
        "WITH RECURSIVE given",
        "SCAN w",
        "the rows that were found so far",
    ),
    (
        "WITH RECURSIVE merged",
        "SCAN c",
        "the rows that were found so far",
    ),
    (
        "WITH RECURSIVE merged",
        "SCAN a",
        "the rows that were found so far",
    ),
];

/// The words that begin a statement on rows.
const VERBS: [&str; 5] = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "];

/// Parts of statements that SQLite runs for itself, or that read its own tables.
const OF_SQLITE: [&str; 5] = [
    "entry_fts",
    "sqlite_master",
    "sqlite_schema",
    "sqlite_sequence",
    "vacuum_db",
];

fn is_on_rows(sql: &str) -> bool {
    VERBS.iter().any(|verb| sql.trim_start().starts_with(verb))
}

/// The text with single spaces.
fn plain(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The statements on rows that the store runs when all methods are called.
async fn run_all_statements(folder: &Path) -> BTreeSet<String> {
    let log = statement_log::watch(folder);
    let location = Location::Folder(folder.to_owned());
    let store = SqliteStore::open(location.clone(), 2).unwrap();
    conformance::exercise(&store).await;
    use_the_rest(&store, folder).await;
    use_the_directory(&SqliteDirectory::open(&location).unwrap()).await;
    let migrations = TENANT_MIGRATIONS.iter().chain(&HOST_MIGRATIONS);
    let steps: Vec<String> = migrations.map(|step| plain(step.sql)).collect();
    let own = |sql: &String| {
        is_on_rows(sql)
            && !OF_SQLITE.iter().any(|other| sql.contains(other))
            && !steps.iter().any(|step| step.contains(sql.as_str()))
    };
    log.take()
        .iter()
        .map(|sql| plain(sql))
        .filter(own)
        .collect()
}

/// What the conformance suite does not call on this store.
async fn use_the_rest(store: &SqliteStore, folder: &Path) {
    let own = scope("rest", "m");
    let tenant = own.tenant.clone();
    let put = Batch::new(tenant.clone(), NOON).put(id("a"), admit(&own, draft("tea"), NOON));
    store.commit(put).await.unwrap();
    let now = ReadAt::Now(NOON);
    let entry = store.get(&own, &id("a"), &now).await.unwrap().unwrap();
    let direction = Embedding::from_components(&[1.0; 16]).unwrap();
    let embed =
        Batch::new(tenant.clone(), NOON).store_embedding(&entry, ModelId(3), direction.clone());
    store.commit(embed).await.unwrap();
    let probe = Probe {
        terms: vec!["tea".to_owned()],
        vector: Some((ModelId(3), direction)),
    };
    let filter = Filter {
        tags: vec!["x".to_owned(), "y".to_owned()],
        ..Filter::default()
    };
    for filter in [Filter::default(), filter] {
        store.search(&own, &probe, &filter, 5, &now).await.unwrap();
    }
    let earlier = ReadAt::AsOf {
        then: NOON,
        at: NOON,
    };
    assert_eq!(store.stats(&own, &earlier).await.unwrap().entries, 1);
    let listed = store.memories(&tenant, &Actor::Host, None, 9, &earlier);
    assert_eq!(listed.await.unwrap().len(), 1);
    copy_onto_itself(store, &tenant).await;
    store.discard_vectors(&tenant, &[], 10).await.unwrap();
    store.scrub(&tenant, NOON, true).await.unwrap();
    store.verify(&tenant).await.unwrap();
    let path = folder.join("tenants/rest.db");
    let older = Connection::open(&path).unwrap();
    // Rows from before there were hashes. One file has one tenant.
    let sql = "UPDATE entry SET row_hash = NULL; INSERT INTO hash_fill (name) VALUES ('entry')";
    older.execute_batch(sql).unwrap();
    assert_eq!(store.count_rows_without_hash(&tenant).await.unwrap(), 1);
    store.scrub(&tenant, NOON, false).await.unwrap();
    assert_eq!(store.count_rows_without_hash(&tenant).await.unwrap(), 0);
    // More vectors than are compared one by one.
    let mut vectors = VectorIndex::by_signs(ModelId(3));
    vectors.add(1, 1, &[1; 16]);
    let reader = connection::reader(&path).unwrap();
    let direction = Embedding::from_components(&[1.0; 16]).unwrap();
    vectors.nearest(&reader, &direction, 1, None).unwrap();
}

/// Copies an entry of a tenant to where it is already, with the statements of a copy.
async fn copy_onto_itself(store: &SqliteStore, tenant: &TenantId) {
    let sql = format!(
        "SELECT {} FROM entry e WHERE e.tenant_id = ?1 AND e.row_id = 1",
        entry::select_list("e", "true")
    );
    let name = tenant.clone();
    let copied = store.transact(tenant, move |db| {
        let page = entry_rows_while(db, &sql, [name.as_str()], |_| true)?;
        assert_eq!(page.len(), 1);
        put_entries(db, &name, page)?;
        count_totals(db, &name).map_err(store_error)
    });
    copied.await.unwrap();
}

async fn use_the_directory(directory: &SqliteDirectory) {
    let tenant = scope("keys", "m").tenant;
    let record = TenantRecord {
        id: tenant.clone(),
        created_at: NOON,
        shapes: ShapePolicy::Off,
    };
    assert!(directory.put_tenant(&record).await.unwrap());
    assert!(!directory.put_tenant(&record).await.unwrap());
    let name = PrincipalId::parse("k").unwrap();
    let key = KeyRecord {
        id: name.clone(),
        principal: name.clone(),
        tenant: tenant.clone(),
        label: String::new(),
        hash: [1; 32],
        permissions: Vec::new(),
        created_at: NOON,
        expires_at: None,
        revoked_at: None,
        trust: None,
    };
    assert!(directory.add_key(&key).await.unwrap());
    assert!(directory.find_key(&[1; 32]).await.unwrap().is_some());
    let permissions = [Permission::MemoryRead];
    let trusted = directory.set_key_trust(&tenant, &name, Trust::Model, &permissions);
    assert!(trusted.await.unwrap());
    assert!(
        directory
            .relabel_key(&tenant, &name, "", "new")
            .await
            .unwrap()
    );
    assert!(directory.revoke_key(&tenant, &name, NOON).await.unwrap());
    directory.verify().await.unwrap();
}

/// The texts of string literals in a source file, up to its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let mut literals = Vec::new();
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|c| *c != '\n').is_some() {},
            '\'' if chars.peek() == Some(&'"') => _ = chars.next(),
            '"' => {
                let mut text = String::new();
                while let Some(c) = chars.next_if(|c| *c != '"') {
                    if c != '\\' {
                        text.push(c);
                    } else if let Some(escaped) = chars.next() {
                        text.push(if escaped == 'n' { ' ' } else { escaped });
                    }
                }
                chars.next();
                literals.push(text);
            }
            _ => {}
        }
    }
    literals
}

/// Whether a statement was built from this literal, which may have places like `{this}`.
fn is_built_from(sql: &str, literal: &str) -> bool {
    let mut rest = sql;
    for part in literal.split('{') {
        let fixed = plain(part.split_once('}').map_or(part, |(_, fixed)| fixed));
        let Some((_, after)) = rest.split_once(&fixed) else {
            return false;
        };
        rest = after;
    }
    true
}

/// The statements in this folder's sources that nothing has run.
fn not_exercised(run: &BTreeSet<String>) -> Vec<String> {
    let mut missing: Vec<String> = save::statements()
        .into_iter()
        .map(plain)
        .filter(|sql| !run.contains(sql))
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite");
    for folder in [folder.join("index"), folder] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() || path.ends_with("query_plans.rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let statements = literals(&source)
                .into_iter()
                .filter(|text| is_on_rows(text) && !text.contains("sqlite_schema"));
            let unused = statements.filter(|text| !run.iter().any(|sql| is_built_from(sql, text)));
            missing.extend(unused.map(|text| format!("not run: {text}")));
        }
    }
    missing
}

/// The rows of a tenant: entries in ten memories, every tenth of them ended, and what belongs to
/// them.
const FILL: [&str; 8] = [
    "INSERT INTO scope (scope_id, tenant_id, memory_ref)
       WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 9) SELECT n, 't', 'm' || n FROM n",
    "INSERT INTO entry (row_id, tenant_id, scope_id, id, tier, typology, content, tags, created_at, scan, rev_from, world)
       WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
       SELECT n, 't', n % 10, 'e' || n, 'persistent', 'semantic', 'text ' || n, '[]', n, 1, n, '-' FROM n",
    "UPDATE entry SET rev_to = rev_from + 1, removed_reason = 'deleted' WHERE row_id % 10 = 3",
    "INSERT INTO entry_tag (tenant_id, scope_id, tag, created_at, id)
       SELECT tenant_id, scope_id, 'x', created_at, id FROM entry",
    "INSERT INTO vector (tenant_id, scope_id, row_id, model, bytes)
       SELECT tenant_id, scope_id, row_id, 3, zeroblob(16) FROM entry",
    "INSERT INTO event (tenant_id, seq, revision, at, kind, payload, hash)
       SELECT tenant_id, row_id, row_id, row_id, 'k', '{}', zeroblob(32) FROM entry",
    "INSERT INTO record (tenant_id, kind, key, version, at, body)
       SELECT tenant_id, 'job', id, 1, 1, '{}' FROM entry",
    "INSERT INTO unindexed (scope_id, row_id) SELECT scope_id, row_id FROM entry",
];

/// A tenant's file with so many entries.
fn filled(folder: &Path, entries: u32) -> Connection {
    let db = connection::writer(&folder.join("filled.db"), &TENANT_MIGRATIONS).unwrap();
    db.execute_batch("BEGIN").unwrap();
    as_actor(&Actor::Host, || {
        for sql in FILL {
            let mut statement = db.prepare(sql).unwrap();
            if statement.parameter_count() == 1 {
                statement.raw_bind_parameter(1, entries).unwrap();
            }
            statement.raw_execute().unwrap();
        }
    });
    db.execute_batch("COMMIT").unwrap();
    db
}

/// The lines of a statement's plan, with those of the triggers that it fires.
fn plan(db: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    let mut rows = explained.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        lines.push(row.get(3)?);
    }
    Ok(lines)
}

/// The lines that read a table, a tenant, a memory or a kind as a whole.
fn wide_lines(lines: &[String]) -> Vec<&String> {
    let is_made_here = |name: &str| {
        let made = |line: &String| {
            let words = line.strip_prefix("MATERIALIZE ");
            words.or_else(|| line.strip_prefix("CO-ROUTINE ")) == Some(name)
        };
        name.starts_with('(') || lines.iter().any(made)
    };
    let is_wide = |line: &&String| match line.strip_prefix("SCAN ") {
        Some("CONSTANT ROW") => false,
        Some(scan) if scan.contains("VIRTUAL TABLE") => false,
        Some(scan) => !is_made_here(scan.split(' ').next().unwrap_or_default()),
        None => WIDE.iter().any(|condition| line.ends_with(condition)),
    };
    lines.iter().filter(is_wide).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_is_served_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let run = run_all_statements(folder.path()).await;
    let mut problems = not_exercised(&run);
    let db = filled(folder.path(), remem_testkit::cases(2_000, 100_000));
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_TRIGGER_EQP, true)
        .unwrap();
    let host = connection::in_memory(&HOST_MIGRATIONS).unwrap();
    let mut used = BTreeSet::new();
    for sql in &run {
        let lines = plan(&db, sql).or_else(|_| plan(&host, sql)).unwrap();
        for line in wide_lines(&lines) {
            let is_for =
                |(part, step, _): &(&str, &str, &str)| sql.contains(part) && line.contains(step);
            match ACCEPTED.iter().position(is_for) {
                Some(at) => _ = used.insert(at),
                None => problems.push(format!("{line}\n    {sql}")),
            }
        }
    }
    let unused = (0..ACCEPTED.len()).filter(|at| !used.contains(at));
    problems.extend(unused.map(|at| format!("no statement needs {:?}", ACCEPTED[at])));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
