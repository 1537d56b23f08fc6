//! The constraints of the schemas, tested past the store: deletions, changes of final columns,
//! entries without their anchors, windows that overlap, rows of other owners. Each statement is run
//! on both stores, with the error code of each.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use crate::workshop;
use remem_core::trgm::{Trigrams, is_guarded};
use remem_core::{Actor, Batch, ClosingReason, Draft, Facets, Scope, Timestamp, Typology};
use remem_store::{Filter, Ledger, Page, Probe, ReadAt, Store, StoreError};
use remem_store_sql::{Location, SqliteStore};
use remem_testkit::conformance::{NOON, admit, draft, id, in_session, scope};
use remem_testkit::postgres::TestDatabase;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Writes a tenant with an entry of every kind that the statements below are about.
async fn populate(store: &dyn Store) {
    let s = scope("a", "m");
    let batch = || Batch::new(s.tenant.clone(), NOON);
    let put = |name: &str, draft: Draft| batch().put(id(name), admit(&s, draft, NOON));
    let slotted = |typology, valid_at: Option<Timestamp>| Draft {
        typology,
        facets: Facets {
            slot: Some("q".into()),
            valid_at,
            ..Facets::default()
        },
        ..draft("an answer")
    };
    let rule = batch().set_rule(
        workshop::world("w1"),
        workshop::rule_id("r1"),
        Some(workshop::rule_text(workshop::RULES[0])),
    );
    for batch in [
        put("plain", draft("plain text")),
        put(
            "linked",
            Draft {
                tier: remem_core::Tier::Session,
                facets: in_session("s1"),
                ..draft("linked text")
            },
        ),
        put(
            "loose",
            Draft {
                tier: remem_core::Tier::Session,
                facets: in_session("s1"),
                ..draft("loose text")
            },
        ),
        batch().link_action(s.memory_ref.clone(), id("linked"), "act".into(), "1".into()),
        put("fact", slotted(Typology::Semantic, Some(NOON))),
        put("old way", slotted(Typology::Procedural, None)),
        batch()
            .close(
                s.memory_ref.clone(),
                id("old way"),
                ClosingReason::ReplacedNow,
                Some(id("new way")),
            )
            .put(
                id("new way"),
                admit(&s, slotted(Typology::Procedural, None), NOON),
            ),
        put(
            "claim",
            workshop::claim(&"far from any rule ".repeat(9), "w1"),
        ),
        rule,
    ] {
        store.commit(batch).await.unwrap();
    }
    for user in workshop::USERS {
        let own = scope("a", &format!("~{user}/m")).with_actor(workshop::user(user));
        let slotted = Draft {
            facets: Facets {
                slot: Some("q".into()),
                ..Facets::default()
            },
            ..draft("the needle of one's own")
        };
        let batch = Batch::new(own.tenant.clone(), NOON)
            .with_principal(remem_core::PrincipalId::parse(user).unwrap());
        let batch = batch
            .put(id("answer"), admit(&own, slotted, NOON))
            .put(id("unsigned"), admit(&own, draft("a needle"), NOON));
        let batch = batch
            .put(id("mine"), admit(&own, draft("the needle"), NOON))
            .store_signature(own.memory_ref.clone(), id("mine"), 1, vec![1]);
        store
            .commit(batch.link_action(own.memory_ref.clone(), id("mine"), "act".into(), "1".into()))
            .await
            .unwrap();
    }
}

/// A connection with the host's functions and an acting user, like the store's own.
fn as_user(path: &Path, user: Option<&'static str>) -> Connection {
    let db = Connection::open(path).unwrap();
    functions(&db, user, Arc::default());
    db.pragma_update(None, "foreign_keys", true).unwrap();
    db
}

/// Registers the host's functions, and counts the calls of the trigram functions.
fn functions(db: &Connection, user: Option<&'static str>, calls: Arc<Mutex<u64>>) {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    db.create_scalar_function("app_user_id", 0, flags, move |_| Ok(user))
        .unwrap();
    db.create_scalar_function("row_hash_of", -1, flags, |_| Ok(vec![1u8; 16]))
        .unwrap();
    let count = move |calls: &Arc<Mutex<u64>>| *calls.lock().unwrap() += 1;
    let kept = calls.clone();
    db.create_scalar_function("trgm_guarded", 1, flags, move |given| {
        count(&kept);
        Ok(is_guarded(&given.get::<String>(0)?))
    })
    .unwrap();
    let kept = calls.clone();
    db.create_scalar_function("trgm_least", 1, flags, move |given| {
        count(&kept);
        Ok(*Trigrams::of(&given.get::<String>(0)?)
            .restating_sizes()
            .start() as u64)
    })
    .unwrap();
    let kept = calls.clone();
    db.create_scalar_function("trgm_most", 1, flags, move |given| {
        count(&kept);
        Ok(*Trigrams::of(&given.get::<String>(0)?)
            .restating_sizes()
            .end() as u64)
    })
    .unwrap();
    db.create_scalar_function("trgm_shadows", 2, flags, move |given| {
        count(&calls);
        Ok(Trigrams::of(&given.get::<String>(1)?)
            .restates(&Trigrams::from_bytes(&given.get::<Vec<u8>>(0)?).unwrap()))
    })
    .unwrap();
}

async fn file() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Location::Folder(folder.path().into()), 1).unwrap();
    populate(&store).await;
    (folder, store)
}

/// The result of a statement on a file, as text.
fn sqlite_result(db: &Connection, sql: &str) -> String {
    match db.execute(sql, []) {
        Ok(rows) => format!("{rows} rows"),
        Err(error) => error.to_string(),
    }
}

/// The result of a statement as the superuser, without policies and rights: only the tables' own
/// constraints are left.
async fn postgres_result(client: &tokio_postgres::Client, sql: &str) -> String {
    client
        .batch_execute("BEGIN; SET LOCAL app.tenant_id = 'a'; SET LOCAL app.user_id = '*'")
        .await
        .unwrap();
    let answer = match client.execute(sql, &[]).await {
        // Deferred constraints are checked at the end of the transaction.
        Ok(rows) => client
            .batch_execute("SET CONSTRAINTS ALL IMMEDIATE")
            .await
            .map(|()| format!("{rows} rows")),
        Err(error) => Err(error),
    };
    client.batch_execute("ROLLBACK").await.unwrap();
    let code = |error: tokio_postgres::Error| {
        let refused = error.as_db_error().unwrap();
        format!(
            "{}:{}",
            refused.code().code(),
            refused.constraint().unwrap_or_default()
        )
    };
    answer.unwrap_or_else(code)
}

/// A new entry for both stores: the columns beside the usual ones, and their values.
fn new_entry(postgres: bool, tier: &str, typology: &str, more: &[(&str, &str)]) -> String {
    let mut all = vec![
        ("tenant_id", "'a'".to_owned()),
        ("scope_id", "1".to_owned()),
        ("id", "'new'".to_owned()),
        ("tier", format!("'{tier}'")),
        ("typology", format!("'{typology}'")),
        ("content", "'a text'".to_owned()),
        ("tags", "'[]'".to_owned()),
        ("created_at", NOON.0.to_string()),
        ("scan", "1".to_owned()),
        ("rev_from", "1".to_owned()),
    ];
    if postgres {
        all.extend([("row_id", "900".to_owned()), ("id_hash", "'h'".to_owned())]);
    }
    for (column, value) in more {
        all.retain(|(name, _)| name != column);
        all.push((column, (*value).to_owned()));
    }
    let (names, values): (Vec<&str>, Vec<String>) = all.into_iter().unzip();
    format!(
        "INSERT INTO remem.entry ({}) VALUES ({})",
        names.join(", "),
        values.join(", ")
    )
}

/// Statements that both must refuse, with the code of PostgreSQL and the message of SQLite.
fn refused_statements(postgres: bool) -> Vec<(String, &'static str, &'static str)> {
    let new = |tier, typology, more: &[(&str, &str)]| new_entry(postgres, tier, typology, more);
    let noon = NOON.0.to_string();
    let near = format!("'{}'", workshop::RULES[0].to_uppercase());
    let of = |name: &str| format!("WHERE tenant_id = 'a' AND id = '{name}'");
    let changed = |what: &str, name: &str| format!("UPDATE remem.entry SET {what} {}", of(name));
    vec![
        // inv_53: rows that must stay are not deleted.
        (
            format!("DELETE FROM remem.entry {}", of("plain")),
            "23001:entry_no_hard_delete",
            "23001:entry_no_hard_delete",
        ),
        (
            format!("DELETE FROM remem.entry {}", of("linked")),
            "23001:entry_no_hard_delete",
            "23001:entry_no_hard_delete",
        ),
        // inv_37, inv_07: columns that cannot change.
        (
            changed("created_at = 5", "plain"),
            "23514:entry_immutable",
            "23514:entry_immutable",
        ),
        (
            changed("id = 'other'", "plain"),
            "23514:entry_immutable",
            "23514:entry_immutable",
        ),
        (
            changed("typology = 'procedural'", "plain"),
            "23514:entry_immutable",
            "23514:entry_immutable",
        ),
        (
            changed("tier = 'persistent'", "loose"),
            "23514:entry_immutable",
            "23514:entry_immutable",
        ),
        (
            changed("replaced_by = NULL", "old way"),
            "23514:entry_immutable",
            "23514:entry_immutable",
        ),
        (
            changed("replaced_by = 1", "old way"),
            "23514:entry_immutable",
            "23514:entry_immutable",
        ),
        // inv_30, inv_32: anchors, and a world for every statement.
        (
            new("interaction", "episodic", &[("session", "'s1'")]),
            "23514:anchor_interaction",
            "anchor_interaction",
        ),
        (
            new(
                "session",
                "episodic",
                &[("session", "'s1'"), ("interaction", "'i'")],
            ),
            "23514:anchor_interaction",
            "anchor_interaction",
        ),
        (
            new("session", "episodic", &[]),
            "23514:anchor_session",
            "anchor_session",
        ),
        (
            new("persistent", "semantic", &[]),
            "23514:world_when_semantic",
            "world_when_semantic",
        ),
        (
            changed("world = NULL", "plain"),
            "23514:world_when_semantic",
            "world_when_semantic",
        ),
        (
            new("persistent", "procedural", &[("valid_at", "1")]),
            "23514:validity_is_semantic",
            "validity_is_semantic",
        ),
        (
            new(
                "persistent",
                "semantic",
                &[("world", "'-'"), ("valid_at", "9"), ("invalid_at", "8")],
            ),
            "23514:validity_order",
            "validity_order",
        ),
        // inv_40, inv_42: one current answer per slot, one active procedure.
        (
            new(
                "persistent",
                "semantic",
                &[("world", "'-'"), ("slot", "'q'"), ("valid_at", &noon)],
            ),
            "23P01:one_truth_per_slot",
            "23P01:one_truth_per_slot",
        ),
        (
            new(
                "persistent",
                "semantic",
                &[("world", "'-'"), ("slot", "'q'")],
            ),
            "23P01:one_truth_per_slot",
            "23P01:one_truth_per_slot",
        ),
        (
            changed("slot = 'q'", "plain"),
            "23P01:one_truth_per_slot",
            "23P01:one_truth_per_slot",
        ),
        (
            new("persistent", "procedural", &[("slot", "'q'")]),
            "23P01:one_active_procedure",
            "entry.slot",
        ),
        // inv_33: no update path leads past the guard.
        (
            new(
                "persistent",
                "semantic",
                &[("world", "'w1'"), ("content", &near)],
            ),
            "23514:entry_rule_shadow",
            "23514:entry_rule_shadow",
        ),
        (
            changed(&format!("content = {near}"), "claim"),
            "23514:entry_rule_shadow",
            "23514:entry_rule_shadow",
        ),
        (
            changed(&format!("content = {near}, world = 'w1'"), "plain"),
            "23514:entry_rule_shadow",
            "23514:entry_rule_shadow",
        ),
        (
            changed(
                &format!("content = {near}, world = 'w1', typology = 'semantic'"),
                "new way",
            ),
            "23514:entry_rule_shadow",
            "23514:", // which of two triggers is first is nobody's rule
        ),
        // inv_13: the owner of a row.
        (
            new("persistent", "procedural", &[("owner", "'ada'")]),
            "23503:entry_tenant_id_scope_id_owner_key_fkey",
            "23503:entry_owner",
        ),
    ]
}

/// Statements that both must accept: the refusals above are about their values, not about all
/// statements.
fn accepted_statements(postgres: bool) -> Vec<String> {
    let new = |tier, typology, more: &[(&str, &str)]| new_entry(postgres, tier, typology, more);
    let near = format!("'{}'", workshop::RULES[0].to_uppercase());
    let noon = NOON.0.to_string();
    vec![
        "DELETE FROM remem.entry WHERE tenant_id = 'a' AND id = 'loose'".to_owned(),
        new("interaction", "episodic", &[("session", "'s1'"), ("interaction", "'i'")]),
        new("persistent", "procedural", &[("content", &near), ("world", "'w1'")]),
        new("persistent", "semantic", &[("content", &near), ("world", "'-'")]),
        new("persistent", "semantic", &[("world", "'-'"), ("slot", "'q'"), ("valid_at", "1"), ("invalid_at", &noon)]),
        new("persistent", "semantic", &[("world", "'-'"), ("slot", "'q'"), ("valid_at", &noon), ("invalid_at", &noon)]),
        "UPDATE remem.entry SET replaced_by = NULL, removed_reason = 'deleted' WHERE tenant_id = 'a' AND id = 'old way'".to_owned(),
    ]
}

#[tokio::test]
async fn postgres_constraints_reject_invalid_statements() {
    let database = TestDatabase::fresh().await;
    populate(&database.open().await).await;
    let admin = database.admin().await;
    for (sql, code, _) in refused_statements(true) {
        assert_eq!(postgres_result(&admin, &sql).await, code, "{sql}");
    }
    for sql in accepted_statements(true) {
        assert_eq!(postgres_result(&admin, &sql).await, "1 rows", "{sql}");
    }
    // Only the superuser may rewrite links: the missing right protects them (see
    // tenant_isolation.rs).
    let app = database.app().await;
    assert_eq!(
        postgres_result(&app, "DELETE FROM remem.action_link").await,
        "42501:"
    );
}

#[tokio::test]
async fn sqlite_constraints_reject_invalid_statements() {
    let (folder, _store) = file().await;
    let db = as_user(&folder.path().join("tenants/a.db"), Some("*"));
    let undone = |sql: &str| {
        db.execute_batch("BEGIN").unwrap();
        let answer = sqlite_result(&db, &sql.replace("remem.", ""));
        db.execute_batch("ROLLBACK").unwrap();
        answer
    };
    for (sql, _, word) in refused_statements(false) {
        let answer = undone(&sql);
        assert!(answer.contains(word), "{sql}: {answer}");
    }
    for sql in accepted_statements(false) {
        assert_eq!(undone(&sql), "1 rows", "{sql}");
    }
    for sql in [
        "DELETE FROM action_link",
        "UPDATE action_link SET linked_by = 'x'",
        "UPDATE action_link SET row_id = 2",
    ] {
        assert!(undone(sql).contains("42501:action_link"), "{sql}");
    }
}

/// The half of row-level security that concerns writing.
#[tokio::test]
async fn sqlite_users_cannot_write_rows_of_other_owners() {
    let (folder, _store) = file().await;
    let path = folder.path().join("tenants/a.db");
    let own = "SELECT scope_id FROM scope WHERE memory_ref = '~ada/m'";
    let new = new_entry(
        false,
        "persistent",
        "procedural",
        &[("owner", "'ada'"), ("scope_id", &format!("({own})"))],
    )
    .replace("remem.", "");
    let memory = "INSERT INTO scope (tenant_id, memory_ref, owner) VALUES ('a', '~ada/new', 'ada')";
    let change = "UPDATE entry SET tags = '[]' WHERE owner = 'ada' AND id = 'mine'";
    for (user, may) in [
        (Some("ada"), true),
        (Some("*"), true),
        (Some("bob"), false),
        (None, false),
    ] {
        let db = as_user(&path, user);
        for sql in [new.as_str(), memory, change] {
            db.execute_batch("BEGIN").unwrap();
            let answer = sqlite_result(&db, sql);
            db.execute_batch("ROLLBACK").unwrap();
            assert_eq!(answer == "1 rows", may, "{user:?} {sql}: {answer}");
            assert!(
                may || answer.contains("42501:row_security"),
                "{user:?} {sql}: {answer}"
            );
        }
    }
    let db = as_user(&path, Some("ada"));
    for (sql, word) in [
        (
            "UPDATE entry SET owner = NULL WHERE owner = 'ada'",
            "42501:row_security",
        ),
        (
            "UPDATE entry SET owner = 'bob' WHERE owner = 'ada'",
            "42501:row_security",
        ),
        (
            "UPDATE entry SET owner = 'ada' WHERE owner IS NULL",
            "42501:row_security",
        ),
        (
            "INSERT INTO scope (tenant_id, memory_ref) VALUES ('a', '~bob/trap')",
            "23514:scope_owner_is_named",
        ),
        (
            "INSERT INTO scope (tenant_id, memory_ref, owner) VALUES ('a', 'plain', 'ada')",
            "23514:scope_owner_is_named",
        ),
    ] {
        assert!(
            sqlite_result(&db, sql).contains(word),
            "{sql}: {}",
            sqlite_result(&db, sql)
        );
    }
}

#[tokio::test]
async fn a_connection_without_the_host_functions_cannot_write() {
    let (folder, _store) = file().await;
    let db = Connection::open(folder.path().join("tenants/a.db")).unwrap();
    let new = new_entry(false, "persistent", "procedural", &[]).replace("remem.", "");
    for sql in [
        &new,
        "UPDATE entry SET tags = '[]'",
        "INSERT INTO scope (tenant_id, memory_ref) VALUES ('a', 'n')",
    ] {
        assert!(
            sqlite_result(&db, sql).contains("no such function"),
            "{sql}: {}",
            sqlite_result(&db, sql)
        );
    }
}

/// All reads of a memory's entries, as text.
async fn read_all(store: &dyn Store, s: &Scope) -> Vec<String> {
    let now = ReadAt::Now(NOON.plus_ms(5));
    let page = Page {
        limit: 9,
        after: None,
    };
    let as_of = ReadAt::AsOf {
        then: NOON.plus_ms(5),
        at: NOON.plus_ms(5),
    };
    let held = ReadAt::Snapshot {
        revision: remem_core::Revision(99),
        at: NOON.plus_ms(5),
        since: NOON.plus_ms(5),
        own_runs: Vec::new(),
    };
    let probe = Probe::words(vec!["needle".into()]);
    let mut seen = Vec::new();
    for at in [now, as_of, held] {
        seen.push(
            store
                .get(s, &id("mine"), &at)
                .await
                .unwrap()
                .map(|e| e.content)
                .unwrap_or_default(),
        );
        seen.extend(
            store
                .list(s, &Filter::default(), &page, &at)
                .await
                .unwrap()
                .into_iter()
                .map(|e| e.content),
        );
        let tagged = Filter {
            typology: Some(Typology::Semantic),
            ..Filter::default()
        };
        seen.extend(
            store
                .list(s, &tagged, &page, &at)
                .await
                .unwrap()
                .into_iter()
                .map(|e| e.content),
        );
        seen.extend(
            store
                .search(s, &probe, &Filter::default(), 9, &at)
                .await
                .unwrap()
                .candidates
                .into_iter()
                .map(|c| c.entry.content),
        );
        seen.extend((store.stats(s, &at).await.unwrap().entries > 0).then(|| "counted".to_owned()));
        let scopes = store
            .memories(&s.tenant, &s.actor, None, 99, &at)
            .await
            .unwrap();
        seen.extend(
            scopes
                .into_iter()
                .filter(|summary| summary.memory_ref == s.memory_ref)
                .map(|_| "listed".to_owned()),
        );
    }
    seen.extend(
        store
            .slot_history(s, "q", 9)
            .await
            .unwrap()
            .into_iter()
            .map(|a| a.entry.content),
    );
    seen.extend(
        store
            .actions_of_entry(s, &id("mine"))
            .await
            .unwrap()
            .into_iter()
            .map(|l| l.action),
    );
    seen.extend(
        store
            .retention_counts(&s.tenant, &s.actor, Some(&s.memory_ref))
            .await
            .unwrap()
            .into_iter()
            .map(|c| format!("{c:?}")),
    );
    seen.extend(
        store
            .entries_without_signature(s, None, 9)
            .await
            .unwrap()
            .into_iter()
            .map(|(_, e)| e.content),
    );
    let signed = store
        .signatures(&s.clone().as_host(), None, 9)
        .await
        .unwrap();
    seen.extend(
        store
            .signatures(s, None, 9)
            .await
            .unwrap()
            .into_iter()
            .map(|s| format!("{:?}", s.signature)),
    );
    let places: Vec<_> = signed.iter().map(|s| s.row).collect();
    assert!(!places.is_empty(), "there is a place to look at");
    seen.extend(
        store
            .entries_at(s, &places)
            .await
            .unwrap()
            .into_iter()
            .map(|(_, e)| e.content),
    );
    seen.extend(
        store
            .lineage(s, &id("mine"))
            .await
            .unwrap()
            .map(|l| format!("{l:?}")),
    );
    seen.retain(|text| !text.is_empty());
    seen
}

async fn others_see_nothing(store: &dyn Store) {
    let own = scope("a", "~ada/m");
    for actor in [
        Actor::NoUser,
        workshop::user("bob"),
        workshop::user("ad"),
        workshop::user("ADA"),
    ] {
        let seen = read_all(store, &own.clone().with_actor(actor.clone())).await;
        assert!(seen.is_empty(), "{actor:?} sees {seen:?}");
    }
    for actor in [Actor::Host, workshop::user("ada")] {
        let seen = read_all(store, &own.clone().with_actor(actor.clone())).await;
        assert!(seen.len() >= 20, "{actor:?} sees {seen:?}");
    }
}

#[tokio::test]
async fn inv_14_no_read_exposes_private_entries_to_others_sqlite() {
    let (_folder, store) = file().await;
    others_see_nothing(&store).await;
}

#[tokio::test]
async fn inv_14_no_read_exposes_private_entries_to_others_postgres() {
    let store = TestDatabase::fresh().await.open().await;
    populate(&store).await;
    others_see_nothing(&store).await;
}

/// Episodes and procedures are not compared with rules: the rules are not even read.
#[tokio::test]
async fn inv_36_only_semantic_entries_of_a_world_consult_rules_sqlite() {
    let (folder, _store) = file().await;
    let db = Connection::open(folder.path().join("tenants/a.db")).unwrap();
    let calls = Arc::new(Mutex::new(0));
    functions(&db, Some("*"), calls.clone());
    let long = format!("'{}'", "a long text that is guarded ".repeat(9));
    let more = |world: &'static str| {
        [
            ("content", long.as_str()),
            ("world", world),
            ("session", "'s1'"),
        ]
    };
    for (typology, world, asks) in [
        ("episodic", "'w1'", false),
        ("procedural", "'w1'", false),
        ("procedural", "NULL", false),
        ("semantic", "'-'", false),
        ("semantic", "'w1'", true),
    ] {
        let before = *calls.lock().unwrap();
        db.execute_batch("BEGIN").unwrap();
        assert_eq!(
            sqlite_result(
                &db,
                &new_entry(false, "session", typology, &more(world)).replace("remem.", "")
            ),
            "1 rows"
        );
        db.execute_batch("ROLLBACK").unwrap();
        assert_eq!(*calls.lock().unwrap() > before, asks, "{typology} {world}");
    }
}

#[tokio::test]
async fn inv_36_only_semantic_entries_of_a_world_consult_rules_postgres() {
    let database = TestDatabase::fresh().await;
    populate(&database.open().await).await;
    let admin = database.admin().await;
    // Every read of the rules fails from now on.
    admin
        .batch_execute("ALTER FUNCTION remem.shadowed_rule RENAME TO gone")
        .await
        .unwrap();
    let long = format!("'{}'", "a long text that is guarded ".repeat(9));
    let more = |world: &'static str| {
        [
            ("content", long.as_str()),
            ("world", world),
            ("session", "'s1'"),
        ]
    };
    for (typology, world, answered) in [
        ("episodic", "'w1'", "1 rows"),
        ("procedural", "'w1'", "1 rows"),
        ("procedural", "NULL", "1 rows"),
        ("semantic", "'-'", "1 rows"),
        ("semantic", "'w1'", "42883:"),
    ] {
        assert_eq!(
            postgres_result(&admin, &new_entry(true, "session", typology, &more(world))).await,
            answered,
            "{typology} {world}"
        );
    }
}

/// A distributed PostgreSQL names a constraint after the shard that it is on.
#[tokio::test]
async fn constraints_of_a_shard_are_recognised() {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    let s = scope("a", "m");
    let batch = || Batch::new(s.tenant.clone(), NOON);
    let admin = database.admin().await;
    for name in ["one_truth_per_slot", "one_truth_per_slot_102008"] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION taken() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN RAISE EXCEPTION 'taken' USING ERRCODE = '23P01', CONSTRAINT = '{name}'; END $$;
             CREATE OR REPLACE TRIGGER taken BEFORE INSERT ON remem.entry
               FOR EACH ROW EXECUTE FUNCTION taken()"
        );
        admin.batch_execute(&refuse).await.unwrap();
        let put = batch().put(id("e"), admit(&s, draft("an answer"), NOON));
        let refused = store.commit(put).await;
        assert!(
            matches!(refused, Err(StoreError::Conflict)),
            "{name}: {refused:?}"
        );
    }
}

/// A distributed PostgreSQL does not say why another of its servers refused to commit.
#[tokio::test]
async fn a_commit_that_fails_without_a_reason_can_be_repeated() {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    let s = scope("a", "m");
    let batch = || Batch::new(s.tenant.clone(), NOON).put(id("e"), admit(&s, draft("again"), NOON));
    let admin = database.admin().await;
    let hide = "CREATE FUNCTION hidden() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN RAISE EXCEPTION 'failure on another server' USING ERRCODE = 'XX000'; END $$;
         CREATE CONSTRAINT TRIGGER hidden AFTER INSERT ON remem.event DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION hidden()";
    admin.batch_execute(hide).await.unwrap();
    let error = store.commit(batch()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    let reason = error.source().unwrap().to_string();
    assert!(reason.contains("unknown; repeat the request"), "{reason}");
    let show = "DROP TRIGGER hidden ON remem.event";
    admin.batch_execute(show).await.unwrap();
    store.commit(batch()).await.unwrap();
}
