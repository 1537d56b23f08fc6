//! The two separations of tenants: every statement binds the tenant, and forced row-level security
//! checks it again.
//!
//! One test for each way in which row-level security is known to fail in practice, on plain
//! connections past the gate; then each separation by itself, with the other one removed.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use crate::recorder::recorded;
use crate::workshop;
use remem_core::event::NodeEnded;
use remem_core::{
    Admission, Batch, Draft, Embedding, EventBody, Idempotency, ModelId, Permission, Policy,
    Precondition, PrincipalId, RecordKind, Redactor, RetireReason, RunId, Scope, Seq, ShapePolicy,
    Subject, TenantId, Timestamp,
};
use remem_store::{
    ChangeOutcome, Directory, EntryCalls, EntryReads, Filter, KeyRecord, Leases, Ledger,
    LineageReads, LogCalls, LogReads, Probe, ReadAt, RuleCalls, Store, StoreError, TenantRecord,
    TracePosition, Upkeep, Vectors, WorkshopReads,
};
use remem_store_sql::PostgresStore;
use remem_testkit::conformance::{self, NOON, admit, all, delete, draft, id, names, put, scope};
use remem_testkit::postgres::TestDatabase;
use std::collections::BTreeSet;
use std::error::Error;
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

const NOW: ReadAt = ReadAt::Now(NOON);
/// The digest of a key that both tenants have.
const SAME_KEY: [u8; 32] = [9; 32];
/// The subject of an entry of each tenant.
const SUBJECT: Subject = Subject::from_bytes([5; 32]);
/// The code for missing rights, a policy's refusal included.
const DENIED: &str = "42501";
/// The code for a constraint that is violated.
const UNCHANGEABLE: &str = "23514";
/// The code for a row that refers to a missing row.
const NO_SUCH_ROW: &str = "23503";

/// A database in which the tenants `a` and `b` have rows of the same names and numbers in every
/// table.
async fn two_tenants() -> (TestDatabase, PostgresStore) {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    assert_eq!(
        populate(&store, "a").await,
        populate(&store, "b").await,
        "neither can tell that the other was there first"
    );
    (database, store)
}

/// Fills every table for one tenant; returns all results as text.
async fn populate(store: &PostgresStore, tenant: &str) -> String {
    populate_store(store, &store.directory(), tenant).await
}

/// The same for any store.
pub(crate) async fn populate_store(
    store: &dyn Store,
    directory: &dyn Directory,
    tenant: &str,
) -> String {
    let s = scope(tenant, "notes");
    let tags = vec!["t".to_owned()];
    let one = admit(
        &s,
        Draft {
            tags,
            expires_at: Some(NOON.plus_ms(60_000)),
            ..draft(&format!("the text of {tenant}"))
        },
        NOON,
    );
    let key = Idempotency {
        operation: "put",
        key: [7; 32],
        body: [8; 32],
    };
    let first = store
        .commit(
            Batch::new(s.tenant.clone(), NOON)
                .idempotent(Some(key))
                .put(id("e1"), one),
        )
        .await
        .unwrap();
    let two = admit(
        &s,
        Draft {
            subjects: vec![SUBJECT],
            ..draft(&format!("more of {tenant}"))
        },
        NOON,
    );
    let two = Batch::new(s.tenant.clone(), NOON).put_derived(
        id("e2"),
        two,
        vec![(s.memory_ref.clone(), id("e1"))],
    );
    let two = two
        .store_signature(s.memory_ref.clone(), id("e2"), 1, vec![1])
        .link_action(s.memory_ref.clone(), id("e2"), "act".into(), "1".into());
    let rule = Some(workshop::rule_text(&format!(
        "{} of {tenant}",
        workshop::RULES[0]
    )));
    let second = store
        .commit(two.set_rule(workshop::world("w1"), workshop::rule_id("r1"), rule))
        .await
        .unwrap();
    let entry = store.get(&s, &id("e2"), &NOW).await.unwrap().unwrap();
    let vector = Embedding::from_components(&[if tenant == "a" { 1.0 } else { -1.0 }; 16]).unwrap();
    store
        .commit(
            Batch::new(s.tenant.clone(), NOON)
                .as_host()
                .store_embedding(&entry, ModelId(5), vector),
        )
        .await
        .unwrap();
    let policy = Policy::default();
    let redactor = Redactor::empty();
    let file = Admission {
        policy: &policy,
        redactor: &redactor,
        redaction_fingerprint: 1,
        now: NOON,
    }
    .redact_record(serde_json::Map::new());
    let gate = Batch::new(s.tenant.clone(), NOON).set_record(
        RecordKind::Gate,
        "g".to_owned(),
        Precondition::None,
        file.clone(),
    );
    store.commit(gate).await.unwrap();
    let file = Batch::new(s.tenant.clone(), NOON).set_record(
        RecordKind::File,
        "a.md".to_owned(),
        Precondition::None,
        file,
    );
    let file = store.commit(file).await.unwrap();
    let held = Batch::new(s.tenant.clone(), NOON)
        .in_run(RunId::parse("run_1").unwrap())
        .hold_snapshot();
    let held = held.emit_replayed(
        EventBody::NodeCompleted(NodeEnded {
            node_id: "n".to_owned(),
        }),
        NOON.plus_ms(-1),
    );
    let held = store.commit(held).await.unwrap();
    let lease = store
        .acquire_lease(&s.tenant, "purge", "a-node", NOON, 60_000)
        .await
        .unwrap();
    let shapes = ShapePolicy::Redact;
    let new = directory
        .put_tenant(&TenantRecord {
            id: s.tenant.clone(),
            created_at: NOON,
            shapes,
        })
        .await
        .unwrap();
    let same = directory
        .add_key(&key_of(&s.tenant, "same", SAME_KEY))
        .await
        .unwrap();
    let own = directory
        .add_key(&key_of(&s.tenant, "own", [tenant.as_bytes()[0]; 32]))
        .await
        .unwrap();
    let head = store.head(&s.tenant).await.unwrap();
    format!("{first:?} {second:?} {file:?} {held:?} {lease:?} {new} {same} {own} {head:?}")
}

fn key_of(tenant: &TenantId, name: &str, hash: [u8; 32]) -> KeyRecord {
    KeyRecord {
        id: PrincipalId::parse(name).unwrap(),
        principal: PrincipalId::parse(name).unwrap(),
        tenant: tenant.clone(),
        label: name.to_owned(),
        hash,
        permissions: vec![Permission::MemoryRead],
        created_at: NOON,
        expires_at: None,
        revoked_at: None,
        trust: None,
    }
}

/// Every table with a tenant's name, from the catalogue. The list of tenants itself has no
/// row-level security.
async fn tables_with_tenants(admin: &Client) -> Vec<String> {
    let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
               WHERE n.nspname = 'remem' AND c.relkind IN ('r', 'p') AND c.relname <> 'tenant' ORDER BY 1";
    let tables: Vec<String> = admin
        .query(sql, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(tables.len() >= 10, "the catalogue was read: {tables:?}");
    tables
}

/// The result of a statement: how many rows it returned or changed, or the code of the error.
async fn answer(client: &Client, sql: &str) -> String {
    match client.execute(sql, &[]).await {
        Ok(rows) => format!("{rows} rows"),
        Err(error) => error.code().unwrap().code().to_owned(),
    }
}

/// The same in a transaction of that tenant and that user, which is rolled back.
async fn acting(client: &Client, tenant: &str, user: &str, sql: &str) -> String {
    client
        .batch_execute(&format!(
            "BEGIN; SET LOCAL app.tenant_id = '{tenant}'; SET LOCAL app.user_id = '{user}'"
        ))
        .await
        .unwrap();
    let said = answer(client, sql).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    said
}

/// An insert of a row into `entry` as a plain statement.
fn new_entry(tenant: &str, scope_id: i64, row_id: i64, owner: &str) -> String {
    format!(
        "INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, created_at, scan, rev_from,
           world, owner) VALUES ('{tenant}', {scope_id}, {row_id}, 'n{row_id}', '\\x{row_id:04}', 'persistent', 'semantic', 'x', '[]', 1, 1, 1,
           '-', nullif('{owner}', ''))"
    )
}

/// A row for each table that the application may insert into; `T` is replaced by the tenant.
const NEW_ROWS: [&str; 16] = [
    "INSERT INTO remem.action_link (tenant_id, scope_id, row_id, action, reference, linked_at) VALUES ('T', 1, 1, 'act', '2', 1)",
    "INSERT INTO remem.rule (tenant_id, world, id, body, at) VALUES ('T', 'w1', 'new', 'a rule', 1)",
    "INSERT INTO remem.lineage (tenant_id, scope_id, row_id, source_scope, source_row) VALUES ('T', 1, 50, 1, 1)",
    "INSERT INTO remem.entry_subject (tenant_id, subject, scope_id, row_id) VALUES ('T', 's', 1, 1)",
    "INSERT INTO remem.signature (tenant_id, scope_id, row_id, pass, signature) VALUES ('T', 1, 1, 1, 's')",
    "INSERT INTO remem.vector (tenant_id, scope_id, row_id, model, tier, typology, dimensions, bytes)
       VALUES ('T', 1, 1, 1, 'persistent', 'semantic', 8, '12345678')",
    "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref) VALUES ('T', 50, 'other')",
    "INSERT INTO remem.entry_tag (tenant_id, scope_id, tag, created_at, id_head, row_id) VALUES ('T', 1, 'new', 1, 'e1', 1)",
    "INSERT INTO remem.posting (tenant_id, scope_id, word, row_id, times, words) VALUES ('T', 1, 5, 1, 1, 1)",
    "INSERT INTO remem.event (tenant_id, seq, revision, at, run_id, run_seq, recorded_at, kind, payload, hash)
       VALUES ('T', 50, 1, 1, 'run_1', 50, 1, 'k', '{}', 'h')",
    "INSERT INTO remem.snapshot (tenant_id, run_id, revision, at) VALUES ('T', 'run_9', 1, 1)",
    "INSERT INTO remem.record (tenant_id, kind, key, version, at, body) VALUES ('T', 'file', 'new', 1, 1, '{}')",
    "INSERT INTO remem.idempotency (tenant_id, operation, key, body, at, revision, outcomes) VALUES ('T', 'put', 'k', 'b', 1, 1, '[]')",
    "INSERT INTO remem.api_key (tenant_id, key_id, principal, label, hash, permissions, created_at) VALUES ('T', 'new', 'new', 'l', 'h', '', 1)",
    "INSERT INTO remem.entry (tenant_id, scope_id, row_id, id, id_hash, tier, typology, content, tags, created_at, scan, rev_from, world)
       VALUES ('T', 1, 50, 'new', 'h', 'persistent', 'semantic', 'x', '[]', 1, 1, 1, '-')",
    "INSERT INTO remem.tenant_clock (tenant_id, revision, seq, at, chain) VALUES ('T', 1, 1, 1, 'h')
       ON CONFLICT (tenant_id) DO UPDATE SET revision = 1",
];

#[tokio::test]
async fn forced_row_level_security_hides_all_rows_from_the_owner() {
    let (database, _store) = two_tenants().await;
    let admin = database.admin().await;
    // `rule` is read by its owner: see below.
    let tables = tables_with_tenants(&admin).await;
    for table in tables.iter().filter(|table| *table != "rule") {
        let select = format!("SELECT 1 FROM remem.{table}");
        admin
            .batch_execute(&format!("SET ROLE {}_owner", database.name))
            .await
            .unwrap();
        assert_eq!(answer(&admin, &select).await, "0 rows", "{table}");
        admin
            .batch_execute(&format!(
                "ALTER TABLE remem.{table} NO FORCE ROW LEVEL SECURITY"
            ))
            .await
            .unwrap();
        assert_ne!(
            answer(&admin, &select).await,
            "0 rows",
            "{table}: FORCE is what kept the owner out"
        );
        admin.batch_execute("RESET ROLE").await.unwrap();
    }
}

/// The search for the rule that a text restates runs as the owner, because a policy would prevent
/// the use of the trigram index; that one table is open to its owner, who never logs in, and two
/// functions act as it. Both compare the tenant themselves.
#[tokio::test]
async fn only_rule_is_unforced_and_only_two_functions_run_as_owner() {
    let (database, _store) = two_tenants().await;
    let admin = database.admin().await;
    let app = database.app().await;
    let names = async |sql: &str| {
        admin
            .query(sql, &[])
            .await
            .unwrap()
            .iter()
            .map(|row| row.get(0))
            .collect::<Vec<String>>()
    };
    let unforced = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = 'remem' AND c.relkind = 'r' AND c.relrowsecurity AND NOT c.relforcerowsecurity";
    assert_eq!(names(unforced).await, ["rule"]);
    let as_owner =
        "SELECT p.proname::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                    WHERE n.nspname = 'remem' AND p.prosecdef ORDER BY 1";
    assert_eq!(names(as_owner).await, ["refuse_shadow", "shadowed_rule"]);
    for function in ["shadowed_rule(text, bytea)", "refuse_shadow()"] {
        let open = format!(
            "SELECT 1 WHERE has_function_privilege('public', 'remem.{function}', 'EXECUTE')"
        );
        assert_eq!(answer(&admin, &open).await, "0 rows", "{function}");
    }
    let text = format!("{} of a", workshop::RULES[0]);
    let ask = format!("SELECT 1 WHERE remem.shadowed_rule('w1', '{text}') IS NOT NULL");
    assert_eq!(acting(&app, "a", "", &ask).await, "1 rows");
    assert_eq!(
        answer(&app, &ask).await,
        "0 rows",
        "nobody in particular has no rules"
    );
    assert_eq!(
        acting(&app, "c", "", &ask).await,
        "0 rows",
        "nor has another tenant"
    );
    app.batch_execute(&format!("SET ROLE {}_worker", database.name))
        .await
        .unwrap();
    assert_eq!(
        acting(&app, "a", "", &ask).await,
        DENIED,
        "the worker writes no entry, and asks nothing"
    );
    assert_eq!(
        acting(&app, "a", "", "SELECT 1 FROM remem.rule").await,
        "1 rows"
    );
}

#[tokio::test]
async fn without_an_identity_the_application_sees_no_row_of_any_table() {
    let (database, _store) = two_tenants().await;
    let admin = database.admin().await;
    let app = database.app().await;
    for table in tables_with_tenants(&admin).await {
        let select = format!("SELECT 1 FROM remem.{table}");
        assert_ne!(answer(&admin, &select).await, "0 rows", "{table} has rows");
        assert_eq!(
            answer(&app, &select).await,
            "0 rows",
            "{table} without an identity"
        );
        assert_eq!(
            acting(&app, "", "", &select).await,
            "0 rows",
            "{table} with an empty identity"
        );
        assert_eq!(
            acting(&app, "nobody", "", &select).await,
            "0 rows",
            "{table} as a tenant that has nothing"
        );
        assert_ne!(
            acting(&app, "a", "", &select).await,
            "0 rows",
            "{table} as the tenant itself"
        );
    }
    assert_eq!(
        answer(&app, "SELECT 1 FROM remem.tenant").await,
        "2 rows",
        "names of tenants are the host's"
    );
}

#[tokio::test]
async fn an_identity_ends_with_its_transaction() {
    let (database, _store) = two_tenants().await;
    let app = database.app().await;
    let setting = "SELECT current_setting('app.tenant_id', true), remem.current_tenant(), remem.current_user_id(), remem.current_key()";
    let read = async || {
        let row = app.query_one(setting, &[]).await.unwrap();
        (
            row.get::<_, Option<String>>(0),
            row.get::<_, Option<String>>(1),
            row.get::<_, Option<String>>(2),
            row.get::<_, Option<Vec<u8>>>(3),
        )
    };
    assert_eq!(
        read().await,
        (None, None, None, None),
        "a new session has no such setting"
    );
    for end in ["COMMIT", "ROLLBACK"] {
        let begin = "BEGIN; SET LOCAL app.tenant_id = 'a'; SET LOCAL app.user_id = 'u'; SET LOCAL app.key_hash = '00'";
        app.batch_execute(begin).await.unwrap();
        assert_eq!(answer(&app, "SELECT 1 FROM remem.entry").await, "2 rows");
        app.batch_execute(end).await.unwrap();
        assert_eq!(
            read().await,
            (Some(String::new()), None, None, None),
            "after {end} it is there and empty, and nobody"
        );
        assert_eq!(
            answer(&app, "SELECT 1 FROM remem.entry").await,
            "0 rows",
            "after {end}"
        );
    }
}

#[tokio::test]
async fn an_identity_outside_of_a_transaction_has_no_effect() {
    let (database, _store) = two_tenants().await;
    let app = database.app().await;
    app.batch_execute("SET LOCAL app.tenant_id = 'a'")
        .await
        .unwrap();
    assert_eq!(answer(&app, "SELECT 1 FROM remem.entry").await, "0 rows");
    app.execute("SELECT set_config('app.tenant_id', 'a', true)", &[])
        .await
        .unwrap();
    assert_eq!(answer(&app, "SELECT 1 FROM remem.entry").await, "0 rows");
}

/// A sequence of operations of one tenant: every result is about itself.
async fn live(store: &dyn Store, s: &Scope, rounds: usize) {
    for n in 0..rounds {
        put(
            store,
            s,
            &format!("e{n}"),
            draft(&format!("falcon {} {n}", s.tenant)),
            NOON,
        )
        .await;
        let listed = all(store, s, &NOW).await;
        assert_eq!(listed.len(), n + 1);
        assert!(
            listed
                .iter()
                .all(|entry| entry.content.contains(s.tenant.as_str()))
        );
        let probe = Probe::words(vec!["falcon".to_owned()]);
        let hits = store
            .search(s, &probe, &Filter::default(), 100, &NOW)
            .await
            .unwrap()
            .candidates;
        assert!(
            hits.len() == n + 1
                && hits
                    .iter()
                    .all(|hit| hit.entry.content.contains(s.tenant.as_str()))
        );
        assert_eq!(
            store.events(&s.tenant, Seq(0), 1000).await.unwrap().len(),
            n + 1
        );
        assert_eq!(store.stats(s, &NOW).await.unwrap().entries, n as u64 + 1);
        assert_eq!(
            store.expired_entries(&s.tenant, NOON, 10).await.unwrap(),
            []
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_sharing_a_connection_stay_isolated() {
    let database = TestDatabase::fresh().await;
    let (store, log) = recorded(&database, database.options(1)).await;
    let one = scope("first", "m");
    let other = scope("second", "m");
    let third = scope("third", "m");
    tokio::join!(
        live(&store, &one, 12),
        live(&store, &other, 12),
        live(&store, &third, 12)
    );
    log.assert_no_identity_is_left_behind();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_calls_leak_neither_an_identity_nor_a_connection() {
    let database = TestDatabase::fresh().await;
    let (store, log) = recorded(&database, database.options(2)).await;
    let one = scope("first", "m");
    let other = scope("second", "m");
    put(&store, &one, "kept", draft("falcon of the first"), NOON).await;
    put(&store, &other, "kept", draft("falcon of the second"), NOON).await;
    let probe = Probe::words(vec!["falcon".to_owned()]);
    let mut given_up = 0;
    let directory = store.directory();
    for n in 0..120u64 {
        // From "before the first answer" to "usually finished": every point at which a call waits
        // is hit.
        let patience = Duration::from_micros(n % 40 * 150);
        let s = if n % 2 == 0 { &one } else { &other };
        let write = Batch::new(s.tenant.clone(), NOON)
            .put(id(&format!("w{n}")), admit(s, draft("heron"), NOON));
        let none = Filter::default();
        let call = async {
            tokio::join!(
                async { store.commit(write).await.is_ok() },
                async { store.search(s, &probe, &none, 9, &NOW).await.is_ok() },
                async {
                    store
                        .acquire_lease(&s.tenant, "purge", "me", NOON, 1)
                        .await
                        .is_ok()
                },
                async { directory.find_key(&SAME_KEY).await.is_ok() },
            )
        };
        match tokio::time::timeout(patience, call).await {
            Ok(done) => assert_eq!(done, (true, true, true, true)),
            Err(_) => given_up += 1,
        }
        let (mine, text) = if n % 2 == 0 {
            (&other, "falcon of the second")
        } else {
            (&one, "falcon of the first")
        };
        let hits = store
            .search(mine, &probe, &none, 9, &NOW)
            .await
            .unwrap()
            .candidates;
        assert_eq!(
            hits.iter()
                .map(|hit| hit.entry.content.as_str())
                .collect::<Vec<_>>(),
            [text],
            "after call {n}"
        );
    }
    assert!(
        given_up > 10,
        "far more calls were given up than there are connections: {given_up}"
    );
    for s in [&one, &other] {
        assert!(
            all(&store, s, &NOW).await.len() <= 61,
            "nobody has the other's writes"
        );
        store.verify(&s.tenant).await.unwrap();
    }
    log.assert_no_identity_is_left_behind();
}

#[tokio::test]
async fn ids_and_idempotency_keys_are_scoped_to_the_tenant() {
    let (_database, store) = two_tenants().await; // which compares every answer of the second tenant with the first's
    let batch = |tenant: &str, body| {
        let s = scope(tenant, "notes");
        let key = Idempotency {
            operation: "put",
            key: [7; 32],
            body: [body; 32],
        };
        Batch::new(s.tenant.clone(), NOON)
            .idempotent(Some(key))
            .put(id("again"), admit(&s, draft("x"), NOON))
    };
    assert!(
        store.commit(batch("b", 8)).await.unwrap().replayed,
        "a key is the tenant's own"
    );
    assert!(
        !store.commit(batch("c", 99)).await.unwrap().replayed,
        "and no other body can clash with it"
    );
    let found = store
        .directory()
        .find_key(&SAME_KEY)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        found.tenant.as_str(),
        "a",
        "of a key that two tenants chose, the older record counts"
    );
    assert_eq!(
        store
            .directory()
            .keys(&scope("b", "m").tenant)
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn referencing_another_tenants_memory_fails_as_if_missing() {
    let (database, store) = two_tenants().await;
    put(
        &store,
        &scope("a", "second"),
        "e1",
        draft("only the first tenant has a second memory"),
        NOON,
    )
    .await;
    let app = database.app().await;
    let mut refusals = Vec::new();
    for scope_id in [2, 99] {
        app.batch_execute("BEGIN; SET LOCAL app.tenant_id = 'b'")
            .await
            .unwrap();
        let error = app
            .execute(&new_entry("b", scope_id, 50, ""), &[])
            .await
            .unwrap_err();
        app.batch_execute("ROLLBACK").await.unwrap();
        let said = error.as_db_error().unwrap();
        let detail = said
            .detail()
            .unwrap_or_default()
            .replace(&format!(" {scope_id},"), " N,");
        refusals.push((
            said.code().code().to_owned(),
            said.message().to_owned(),
            detail,
        ));
    }
    assert_eq!(
        refusals[0], refusals[1],
        "another tenant's memory and none at all"
    );
    assert_eq!(refusals[0].0, NO_SUCH_ROW);
    assert_eq!(
        acting(&app, "b", "", &new_entry("b", 1, 50, "")).await,
        "1 rows",
        "its own memory is there"
    );
}

/// Memories 11 (`~u1/m`) of the user `u1` and 12 of `u2`, with an entry each, beside those of the
/// tenant `a` itself.
async fn two_users(database: &TestDatabase) {
    let admin = database.admin().await;
    for (scope_id, user) in [(11, "u1"), (12, "u2")] {
        let memory = format!(
            "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref, owner) VALUES ('a', {scope_id}, '~{user}/m', '{user}')"
        );
        admin
            .batch_execute(&format!("{memory}; {}", new_entry("a", scope_id, 1, user)))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn inv_13_a_row_cannot_reference_another_users_memory() {
    let (database, _store) = two_tenants().await;
    two_users(&database).await;
    let app = database.app().await;
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 11, 2, "u1")).await,
        "1 rows"
    );
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 12, 2, "u1")).await,
        NO_SUCH_ROW,
        "its own entry on the other's memory"
    );
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 12, 2, "")).await,
        NO_SUCH_ROW,
        "a shared entry on the other's memory"
    );
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 11, 2, "")).await,
        NO_SUCH_ROW,
        "nor a shared one on its own"
    );
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 1, 50, "u1")).await,
        NO_SUCH_ROW,
        "nor its own on a shared one"
    );
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 12, 2, "u2")).await,
        DENIED,
        "nor one in the other's name"
    );
    let link = "INSERT INTO remem.action_link (tenant_id, scope_id, row_id, action, reference, linked_at) VALUES ('a', 12, 9, 'x', 'y', 1)";
    assert_eq!(
        acting(&app, "a", "u1", link).await,
        NO_SUCH_ROW,
        "nor an action on an entry that is not there"
    );
    // The foreign key applies by itself: it does not depend on whether the row is visible.
    database
        .admin()
        .await
        .batch_execute("ALTER TABLE remem.entry DISABLE ROW LEVEL SECURITY")
        .await
        .unwrap();
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 12, 2, "u1")).await,
        NO_SUCH_ROW
    );
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 12, 2, "")).await,
        NO_SUCH_ROW
    );
}

/// The setting that a transaction sets and the one that the policies read have one name, written once in
/// the code.
#[tokio::test]
async fn the_gate_and_the_policies_use_the_same_user_setting() {
    let (database, _store) = two_tenants().await;
    let source = include_str!("../../src/postgres/identity.rs");
    let (product, _) = source.split_once("#[cfg(test)]").unwrap();
    let (_, name) = product
        .split_once("SESSION_VAR_USER_ID: &str = \"")
        .unwrap();
    let name = name.split_once('"').unwrap().0;
    assert_eq!(name, "app.user_id");
    let uses = product.matches("app.user_id").count();
    assert_eq!(uses, 1, "it is defined once");
    let admin = database.admin().await;
    let source = "SELECT p.prosrc FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'remem' AND p.proname = $1";
    let source: String = admin
        .query_one(source, &[&"current_user_id"])
        .await
        .unwrap()
        .get(0);
    assert_eq!(
        source.trim(),
        format!("SELECT nullif(current_setting('{name}', true), '')")
    );
    let policies = "SELECT count(*) FROM pg_policies WHERE schemaname = 'remem' AND qual LIKE '%current_user_id()%' AND with_check = qual";
    assert_eq!(
        admin
            .query_one(policies, &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        2,
        "entries and memories"
    );
}

#[tokio::test]
async fn inv_14_users_of_a_tenant_see_their_own_and_the_shared_rows() {
    let (database, _store) = two_tenants().await;
    two_users(&database).await;
    let app = database.app().await;
    for (table, shared) in [("entry", 2), ("scope", 1)] {
        let of = |owner: &str| format!("SELECT 1 FROM remem.{table} WHERE owner = '{owner}'");
        let all = format!("SELECT 1 FROM remem.{table}");
        assert_eq!(
            acting(&app, "a", "u1", &all).await,
            format!("{} rows", shared + 1)
        );
        assert_eq!(acting(&app, "a", "u1", &of("u1")).await, "1 rows");
        assert_eq!(acting(&app, "a", "u1", &of("u2")).await, "0 rows");
        assert_eq!(
            acting(&app, "a", "", &all).await,
            format!("{shared} rows"),
            "nobody in particular sees what is shared"
        );
        assert_eq!(
            acting(&app, "b", "u1", &of("u1")).await,
            "0 rows",
            "a user's name means nothing in another tenant"
        );
        let take = format!("UPDATE remem.{table} SET owner = 'u1' WHERE owner = 'u2'");
        assert_eq!(acting(&app, "a", "u1", &take).await, "0 rows");
        let give = format!("UPDATE remem.{table} SET owner = 'u2' WHERE owner = 'u1'");
        // An entry's owner is one of the columns that never change, which is checked before the
        // policy is.
        assert_eq!(
            acting(&app, "a", "u1", &give).await,
            if table == "entry" {
                UNCHANGEABLE
            } else {
                DENIED
            }
        );
        let privatise = format!("UPDATE remem.{table} SET owner = 'u1' WHERE owner IS NULL");
        assert_eq!(
            acting(&app, "a", "u1", &privatise).await,
            UNCHANGEABLE,
            "what is shared stays shared: its name says so"
        );
        assert_eq!(
            acting(&app, "a", "*", &all).await,
            format!("{} rows", shared + 2),
            "the host sees everybody's"
        );
    }
    let memory = |owner| {
        format!(
            "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref, owner) VALUES ('a', 13, '~{owner}/new', '{owner}')"
        )
    };
    assert_eq!(acting(&app, "a", "u1", &memory("u1")).await, "1 rows");
    assert_eq!(acting(&app, "a", "u1", &memory("u2")).await, DENIED);
    assert_eq!(acting(&app, "a", "", &memory("u1")).await, DENIED);
    assert_eq!(
        acting(&app, "a", "u1", &new_entry("a", 12, 2, "u2")).await,
        DENIED
    );
    let mine_under_another_name = "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref, owner) VALUES ('a', 13, 'plain', 'u1')";
    assert_eq!(
        acting(&app, "a", "u1", mine_under_another_name).await,
        UNCHANGEABLE
    );
    let shared_under_a_users_name =
        "INSERT INTO remem.scope (tenant_id, scope_id, memory_ref) VALUES ('a', 13, '~u2/trap')";
    assert_eq!(
        acting(&app, "a", "u1", shared_under_a_users_name).await,
        UNCHANGEABLE
    );
    // A setting of one transaction is gone after it, on the same connection.
    app.batch_execute(
        "BEGIN; SET LOCAL app.tenant_id = 'a'; SET LOCAL app.user_id = 'u1'; SELECT 1; COMMIT",
    )
    .await
    .unwrap();
    app.batch_execute("BEGIN; SET LOCAL app.tenant_id = 'a'")
        .await
        .unwrap();
    assert_eq!(
        answer(&app, "SELECT 1 FROM remem.entry WHERE owner IS NOT NULL").await,
        "0 rows",
        "inv_15: nobody acts any more"
    );
    app.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn roles_cannot_truncate_or_rewrite_append_only_tables() {
    let (database, _store) = two_tenants().await;
    let admin = database.admin().await;
    let app = database.app().await;
    for role in ["app", "worker"] {
        app.batch_execute(&format!("SET ROLE {}_{role}", database.name))
            .await
            .unwrap();
        for table in tables_with_tenants(&admin)
            .await
            .iter()
            .map(String::as_str)
            .chain(["tenant", "host_secret", "schema_step"])
        {
            assert_eq!(
                acting(&app, "a", "", &format!("TRUNCATE remem.{table} CASCADE")).await,
                DENIED,
                "{role}, {table}"
            );
        }
        for sql in [
            "UPDATE remem.event SET payload = '{}'",
            "DELETE FROM remem.event",
            "UPDATE remem.lineage SET source_row = 1",
            "DELETE FROM remem.lineage",
            "UPDATE remem.entry_subject SET row_id = 1",
            "DELETE FROM remem.entry",
            "UPDATE remem.action_link SET linked_by = 'x'",
            "UPDATE remem.action_link SET row_id = 2",
            "DELETE FROM remem.action_link",
            "DELETE FROM remem.scope",
            "DELETE FROM remem.tenant_clock",
            "UPDATE remem.idempotency SET outcomes = '[]'",
            "DELETE FROM remem.api_key",
            "DELETE FROM remem.lease",
            "UPDATE remem.host_secret SET secret = secret",
            "INSERT INTO remem.schema_step (series, number, name) VALUES ('memory', 99, 'x')",
            "ALTER TABLE remem.entry DISABLE ROW LEVEL SECURITY",
        ] {
            assert_eq!(acting(&app, "a", "", sql).await, DENIED, "{role}: {sql}");
        }
    }
}

#[tokio::test]
async fn rows_cannot_be_written_for_another_tenant() {
    let (database, _store) = two_tenants().await;
    let admin = database.admin().await;
    let app = database.app().await;
    for sql in NEW_ROWS {
        assert_eq!(
            acting(&app, "a", "", &sql.replace("'T'", "'a'")).await,
            "1 rows",
            "{sql}"
        );
        assert_eq!(
            acting(&app, "a", "", &sql.replace("'T'", "'b'")).await,
            DENIED,
            "{sql}"
        );
        assert_eq!(
            answer(&app, &sql.replace("'T'", "'a'")).await,
            DENIED,
            "without an identity: {sql}"
        );
    }
    for table in [
        "scope",
        "entry",
        "signature",
        "tenant_clock",
        "api_key",
        "upkeep",
    ] {
        let touch = |tenant| {
            format!("UPDATE remem.{table} SET tenant_id = tenant_id WHERE tenant_id = '{tenant}'")
        };
        assert_ne!(
            acting(&app, "a", "", &touch("a")).await,
            "0 rows",
            "{table}"
        );
        assert_eq!(
            acting(&app, "a", "", &touch("b")).await,
            "0 rows",
            "{table}"
        );
        let hand_over = format!("UPDATE remem.{table} SET tenant_id = 'c'");
        assert_eq!(acting(&app, "a", "", &hand_over).await, DENIED, "{table}");
    }
    for table in [
        "entry_tag",
        "posting",
        "entry_subject",
        "signature",
        "vector",
    ] {
        let drop = |tenant| format!("DELETE FROM remem.{table} WHERE tenant_id = '{tenant}'");
        assert_eq!(acting(&app, "a", "", &drop("b")).await, "0 rows", "{table}");
        assert_ne!(acting(&app, "a", "", &drop("a")).await, "0 rows", "{table}");
    }
    let upkeep = "INSERT INTO remem.upkeep (tenant_id, next_expiry) VALUES ('c', 1)";
    assert_eq!(acting(&app, "a", "", upkeep).await, DENIED);
    assert_eq!(
        answer(&admin, "SELECT 1 FROM remem.entry WHERE tenant_id = 'b'").await,
        "2 rows",
        "all of it is still there"
    );
}

/// Gives the application every right, so that nothing but the policies refuses a statement.
async fn grant_all(database: &TestDatabase) {
    let grant = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA remem TO {}_app",
        database.name
    );
    database.admin().await.batch_execute(&grant).await.unwrap();
}

/// An INSERT of the row that a tenant has in a table, with all its columns.
async fn insert_again(admin: &Client, table: &str, tenant: &str) -> String {
    let columns = "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                   WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''";
    let name = format!("remem.{table}");
    let columns: String = admin.query_one(columns, &[&name]).await.unwrap().get(0);
    let row = format!("SELECT to_jsonb(r)::text FROM {name} r WHERE tenant_id = $1 LIMIT 1");
    let row = admin.query_opt(&row, &[&tenant]).await.unwrap();
    let row: String = row
        .unwrap_or_else(|| panic!("{table} has no row: let populate_store write one"))
        .get(0);
    let row = row.replace('\'', "''");
    format!(
        "INSERT INTO {name} ({columns}) SELECT {columns} FROM jsonb_populate_record(NULL::{name}, '{row}')"
    )
}

/// Of every table that the catalogue has, by each of the four verbs.
#[tokio::test]
async fn a_stranger_reads_and_writes_no_row_of_any_table() {
    let (database, _store) = two_tenants().await;
    grant_all(&database).await;
    let admin = database.admin().await;
    let app = database.app().await;
    for table in tables_with_tenants(&admin).await {
        let select = format!("SELECT 1 FROM remem.{table} WHERE tenant_id = 'b'");
        let update =
            format!("UPDATE remem.{table} SET tenant_id = tenant_id WHERE tenant_id = 'b'");
        let delete = format!("DELETE FROM remem.{table} WHERE tenant_id = 'b'");
        let insert = insert_again(&admin, &table, "b").await;
        for (tenant, user) in [("a", ""), ("a", "*"), ("a", "b"), ("", "*"), ("c", "")] {
            for sql in [&select, &update, &delete] {
                let said = acting(&app, tenant, user, sql).await;
                assert_eq!(said, "0 rows", "{tenant:?} {user:?}: {sql}");
            }
            let said = acting(&app, tenant, user, &insert).await;
            assert_eq!(said, DENIED, "{tenant:?} {user:?}: {insert}");
        }
        for sql in [&select, &update, &delete, &insert] {
            let said = acting(&app, "b", "*", sql).await;
            assert!(
                said != "0 rows" && said != DENIED,
                "only the wall is in the way of a stranger: {said}: {sql}"
            );
        }
    }
}

/// A parameter as it was recorded.
#[derive(Debug)]
struct RawParam<'a>(&'a [u8]);

impl ToSql for RawParam<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // The recorder has no bytes for NULL; only texts and bytes can be empty.
        if self.0.is_empty() && ![Type::TEXT, Type::BYTEA].contains(kind) {
            return Ok(IsNull::Yes);
        }
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The statements that wrote the rows of one tenant write nothing for it when another one acts,
/// wherever they run: the rows of an INSERT take the tenant from a clock that the other one does
/// not see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stores_own_statements_write_nothing_as_another_tenant() {
    let database = TestDatabase::fresh().await;
    let (store, log) = recorded(&database, database.options(2)).await;
    populate(&store, "a").await;
    log.take();
    populate(&store, "b").await;
    let s = scope("b", "notes");
    delete(&store, &s, "e1", NOON).await;
    store.scrub(&s.tenant, NOON, false).await.unwrap();
    grant_all(&database).await;
    let app = database.app().await;
    let mut inserted = BTreeSet::new();
    let mut changed = 0;
    for sent in log.take() {
        let verb = ["INSERT", "UPDATE", "DELETE"]
            .into_iter()
            .find(|verb| sent.sql.starts_with(verb));
        let Some(verb) = verb.filter(|_| !sent.sql.contains("remem.tenant ")) else {
            continue;
        };
        app.batch_execute("BEGIN; SET LOCAL app.tenant_id = 'a'; SET LOCAL app.user_id = '*'")
            .await
            .unwrap();
        let params: Vec<RawParam<'_>> = sent.params.iter().map(|raw| RawParam(raw)).collect();
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|raw| raw as _).collect();
        let said = match app.execute(&sent.sql, &params).await {
            Ok(rows) => format!("{rows} rows"),
            Err(error) => error.code().unwrap().code().to_owned(),
        };
        app.batch_execute("ROLLBACK").await.unwrap();
        let expected = if sent.sql.contains("VALUES ($1") {
            DENIED
        } else {
            "0 rows"
        };
        assert_eq!(said, expected, "{}", sent.sql);
        if verb == "INSERT" {
            let table = sent.sql.split_once("remem.").unwrap().1;
            inserted.insert(table.split(' ').next().unwrap().to_owned());
        } else {
            changed += 1;
        }
    }
    let tables = tables_with_tenants(&database.admin().await).await;
    assert_eq!(
        inserted.into_iter().collect::<Vec<_>>(),
        tables,
        "every table was written"
    );
    assert!(changed > 5, "{changed} statements changed or deleted rows");
}

/// The policy reads a setting, and SQL can change settings. So values of callers reach the database
/// as bound parameters only: text that became SQL could choose its tenant. (An identity is text of
/// names that were parsed: `postgres/identity.rs` tests what becomes of other texts.)
#[tokio::test]
async fn hostile_values_are_never_interpreted_as_sql() {
    let (database, store) = two_tenants().await;
    let app = database.app().await;
    assert_eq!(
        acting(
            &app,
            "a",
            "",
            "SELECT set_config('app.tenant_id', 'b', true)"
        )
        .await,
        "1 rows",
        "nothing forbids it"
    );
    let mine = scope("a", "hostile");
    let theirs = scope("b", "notes");
    let before = view(&store, &theirs).await;
    let hostile = [
        "'; SET app.tenant_id = 'b'; --",
        "x'); SELECT set_config('app.tenant_id', 'b', false); --",
        "a' OR tenant_id = 'b",
        "$1",
        "$$; RESET ROLE; $$",
        "\"; SET ROLE postgres; --",
        "b' UNION SELECT content FROM remem.entry --",
        "%' ESCAPE '!",
        "{b,a}",
    ];
    for text in hostile {
        let s = scope("a", text);
        let content = format!("{text} falcon");
        for s in [&s, &mine] {
            put(
                &store,
                s,
                text,
                Draft {
                    tags: vec![text.to_owned()],
                    ..draft(&content)
                },
                NOON,
            )
            .await;
            let found = store.get(s, &id(text), &NOW).await.unwrap().unwrap();
            assert_eq!(
                (found.content.as_str(), &found.tags[..]),
                (content.as_str(), &[text.to_owned()][..]),
                "it is text, as it came"
            );
            let page = remem_store::Page {
                limit: 10,
                after: None,
            };
            let tagged = Filter {
                tags: vec![text.to_owned()],
                ..Filter::default()
            };
            assert_eq!(
                names(&store.list(s, &tagged, &page, &NOW).await.unwrap()),
                [text]
            );
            let probe = Probe::words(vec![text.to_owned(), "falcon".to_owned()]);
            let hits = store
                .search(s, &probe, &tagged, 10, &NOW)
                .await
                .unwrap()
                .candidates;
            assert_eq!(
                hits.iter()
                    .map(|hit| hit.entry.id.as_str())
                    .collect::<Vec<_>>(),
                [text]
            );
        }
        store
            .acquire_lease(&s.tenant, "purge", text, NOON, 1)
            .await
            .unwrap();
        delete(&store, &s, text, NOON).await;
        assert_eq!(store.get(&s, &id(text), &NOW).await.unwrap(), None);
    }
    assert_eq!(
        all(&store, &mine, &NOW).await.len(),
        hostile.len(),
        "all went where it was sent"
    );
    assert_eq!(
        view(&store, &theirs).await,
        before,
        "and nothing anywhere else"
    );
}

/// The role that serves runs writes proposals and cannot read them, so that none can have an effect
/// before it is applied.
#[tokio::test]
async fn only_the_reviewer_role_reads_bodies_under_review() {
    let (database, _store) = two_tenants().await;
    let app = database.app().await;
    assert_eq!(
        acting(&app, "a", "", "SELECT key, version FROM remem.review").await,
        "1 rows",
        "that there is one is no secret"
    );
    for sql in [
        "SELECT body FROM remem.review",
        "SELECT * FROM remem.review",
        "SELECT 1 FROM remem.review WHERE body <> ''",
    ] {
        assert_eq!(acting(&app, "a", "", sql).await, DENIED, "{sql}");
    }
    for sql in [
        "DELETE FROM remem.review RETURNING body",
        "UPDATE remem.review SET key = body",
        "TABLE remem.review",
    ] {
        assert_eq!(acting(&app, "a", "", sql).await, DENIED, "{sql}");
    }
    app.batch_execute(&format!("SET ROLE {}_worker", database.name))
        .await
        .unwrap();
    assert_eq!(
        acting(&app, "a", "", "SELECT key FROM remem.review").await,
        DENIED,
        "nor does the worker"
    );
    app.batch_execute(&format!("SET ROLE {}_reviewer", database.name))
        .await
        .unwrap();
    assert_eq!(
        acting(&app, "a", "", "SELECT body FROM remem.review").await,
        "1 rows"
    );
    assert_eq!(
        acting(
            &app,
            "a",
            "",
            "SELECT body FROM remem.review WHERE tenant_id = 'b'"
        )
        .await,
        "0 rows"
    );
    for sql in [
        "SELECT 1 FROM remem.entry",
        "SELECT 1 FROM remem.record",
        "DELETE FROM remem.review",
    ] {
        assert_eq!(
            acting(&app, "a", "", sql).await,
            DENIED,
            "and it does nothing else: {sql}"
        );
    }
}

#[tokio::test]
async fn without_an_identity_the_worker_sees_due_tenants_only() {
    let (database, store) = two_tenants().await;
    let app = database.app().await;
    let upkeep = "SELECT 1 FROM remem.upkeep";
    assert_eq!(
        acting(&app, "a", "", upkeep).await,
        "1 rows",
        "the application sees its tenant's"
    );
    assert_eq!(answer(&app, upkeep).await, "0 rows");
    assert_eq!(
        acting(&app, "a", "", "DELETE FROM remem.idempotency").await,
        DENIED,
        "it is not the worker unless it says so"
    );
    assert_eq!(
        acting(
            &app,
            "a",
            "",
            "INSERT INTO remem.lease VALUES ('a', 'x', 'h', 1, 1)"
        )
        .await,
        DENIED
    );
    app.batch_execute(&format!("SET ROLE {}_worker", database.name))
        .await
        .unwrap();
    assert_eq!(
        answer(&app, upkeep).await,
        "2 rows",
        "the worker sees who is due, of all"
    );
    let contents = [
        "tenant_clock",
        "scope",
        "entry",
        "entry_tag",
        "posting",
        "event",
        "idempotency",
        "record",
        "snapshot",
        "lease",
    ];
    for table in contents.into_iter().chain([
        "lineage",
        "entry_subject",
        "signature",
        "vector",
        "action_link",
        "rule",
    ]) {
        let select = format!("SELECT 1 FROM remem.{table}");
        assert_eq!(
            answer(&app, &select).await,
            "0 rows",
            "{table} without an identity"
        );
        assert_ne!(
            acting(&app, "a", "", &select).await,
            "0 rows",
            "{table} as the tenant"
        );
        let others = format!("SELECT 1 FROM remem.{table} WHERE tenant_id = 'b'");
        assert_eq!(
            acting(&app, "a", "", &others).await,
            "0 rows",
            "{table} of another tenant"
        );
    }
    for sql in NEW_ROWS {
        assert_eq!(
            acting(&app, "a", "", &sql.replace("'T'", "'a'")).await,
            DENIED,
            "it writes no content: {sql}"
        );
    }
    for sql in [
        "UPDATE remem.entry SET tags = '[]'",
        "SELECT 1 FROM remem.api_key",
        "SELECT 1 FROM remem.host_secret",
    ] {
        assert_eq!(acting(&app, "a", "", sql).await, DENIED, "{sql}");
    }
    assert_eq!(
        acting(&app, "a", "", "DELETE FROM remem.idempotency").await,
        "1 rows",
        "what it drops is one tenant's"
    );
    assert_eq!(
        acting(
            &app,
            "a",
            "",
            "INSERT INTO remem.lease VALUES ('b', 'x', 'h', 1, 1)"
        )
        .await,
        DENIED
    );
    let due: Vec<String> = store
        .tenants_with_work(remem_store::DueWork::Purge, NOON.plus_ms(60_000))
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(due, ["a", "b"]);
}

#[tokio::test]
async fn api_keys_are_readable_by_digest_or_own_tenant_only() {
    let (database, store) = two_tenants().await;
    let app = database.app().await;
    let present = async |hash: [u8; 32], sql: &str| {
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        app.batch_execute(&format!("BEGIN; SET LOCAL app.key_hash = '{hex}'"))
            .await
            .unwrap();
        let said = answer(&app, sql).await;
        app.batch_execute("ROLLBACK").await.unwrap();
        said
    };
    let keys = "SELECT 1 FROM remem.api_key";
    assert_eq!(answer(&app, keys).await, "0 rows");
    assert_eq!(
        present([1; 32], keys).await,
        "0 rows",
        "a digest that nobody has"
    );
    assert_eq!(
        present([b'a'; 32], keys).await,
        "1 rows",
        "of all keys, the one that was presented"
    );
    assert_eq!(
        present(SAME_KEY, keys).await,
        "2 rows",
        "or those, if two tenants chose the same"
    );
    assert_eq!(
        acting(&app, "a", "", keys).await,
        "2 rows",
        "a tenant lists its own"
    );
    assert_eq!(
        acting(
            &app,
            "a",
            "",
            "SELECT 1 FROM remem.api_key WHERE tenant_id <> 'a'"
        )
        .await,
        "0 rows"
    );
    assert_eq!(
        present([b'a'; 32], "UPDATE remem.api_key SET revoked_at = NULL").await,
        DENIED,
        "presenting a key changes none"
    );
    assert_eq!(
        present([b'a'; 32], "SELECT 1 FROM remem.entry").await,
        "0 rows",
        "and opens nothing yet"
    );
    let directory = store.directory();
    assert_eq!(
        directory
            .find_key(&[b'b'; 32])
            .await
            .unwrap()
            .unwrap()
            .tenant
            .as_str(),
        "b"
    );
    assert_eq!(directory.find_key(&[1; 32]).await.unwrap(), None);
}

/// All texts of an error, of all its causes, as people and logs get them.
fn whole_text(error: &StoreError) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(" {error} {error:?}"));
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn errors_contain_no_row_values() {
    let database = TestDatabase::fresh().await;
    let store = database.open().await;
    let s = scope("canary-tenant", "canary/memory");
    let batch = || {
        let tags = vec!["canary-tag".to_owned()];
        let admitted = admit(
            &s,
            Draft {
                tags,
                ..draft("the canary's text")
            },
            NOON,
        );
        Batch::new(s.tenant.clone(), NOON).put(id("canary-id"), admitted)
    };
    store.commit(batch()).await.unwrap();
    let admin = database.admin().await;
    let mut errors = vec![store.commit(batch()).await.unwrap_err()];
    // The texts that the server itself writes: rows, keys, and any text that a function raises.
    for (set_up, undo) in [
        ("ALTER TABLE remem.event ADD CONSTRAINT no CHECK (seq < 2)", "ALTER TABLE remem.event DROP CONSTRAINT no"),
        ("CREATE UNIQUE INDEX no ON remem.entry (tenant_id)", "DROP INDEX remem.no"),
        (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no: %', NEW USING HINT = NEW::text; END $$;
             CREATE TRIGGER no BEFORE INSERT ON remem.entry FOR EACH ROW EXECUTE FUNCTION no()",
            "DROP FUNCTION no CASCADE",
        ),
        ("ALTER TABLE remem.entry RENAME COLUMN tags TO labels", "ALTER TABLE remem.entry RENAME COLUMN labels TO tags"),
    ] {
        admin.batch_execute(set_up).await.unwrap();
        let other = Batch::new(s.tenant.clone(), NOON).put(id("canary-2"), admit(&s, draft("another canary"), NOON));
        errors.push(store.commit(other).await.expect_err(set_up));
        admin.batch_execute(undo).await.unwrap();
    }
    admin
        .batch_execute("UPDATE remem.entry SET tags = 'canary that is no JSON'")
        .await
        .unwrap();
    errors.push(store.get(&s, &id("canary-id"), &NOW).await.unwrap_err());
    for error in &errors {
        let text = whole_text(error);
        assert!(!text.to_lowercase().contains("canary"), "{text}");
    }
    assert_eq!(errors.len(), 6);
}

/// Statements of the kind that the store runs, without the condition on the tenant.
const FORGETFUL: [&str; 15] = [
    "SELECT e.tenant_id FROM remem.entry e JOIN remem.action_link l USING (scope_id, row_id) WHERE e.id = 'e2'",
    "SELECT tenant_id FROM remem.rule WHERE world = 'w1'",
    "SELECT tenant_id FROM remem.retention WHERE state = 'active'",
    "SELECT e.tenant_id FROM remem.scope s JOIN remem.entry e ON e.scope_id = s.scope_id WHERE s.memory_ref = 'notes'",
    "SELECT e.tenant_id FROM remem.entry e JOIN remem.scope s USING (scope_id) WHERE e.id = 'e1' AND e.rev_to IS NULL",
    "SELECT p.tenant_id FROM remem.posting p JOIN remem.entry e ON e.scope_id = p.scope_id AND e.row_id = p.row_id",
    "SELECT g.tenant_id FROM remem.entry_tag g JOIN remem.entry e USING (scope_id, row_id) WHERE g.tag = 't'",
    "SELECT tenant_id FROM remem.event WHERE seq > 0 ORDER BY seq",
    "SELECT tenant_id FROM remem.idempotency WHERE operation = 'put'",
    "SELECT tenant_id FROM remem.tenant_clock",
    "SELECT tenant_id FROM remem.lineage WHERE source_scope = 1 AND source_row = 1",
    "SELECT tenant_id FROM remem.entry_subject WHERE subject = decode(repeat('05', 32), 'hex')",
    "SELECT tenant_id FROM remem.signature WHERE scope_id = 1",
    "SELECT tenant_id FROM remem.scope ORDER BY memory_ref",
    "SELECT tenant_id FROM remem.entry WHERE expires_at <= 9000000000000 ORDER BY expires_at",
];

#[tokio::test]
async fn policies_isolate_statements_without_a_tenant_condition() {
    let (database, _store) = two_tenants().await;
    let admin = database.admin().await;
    let app = database.app().await;
    let tenants = async |client: &Client, sql: &str| {
        let rows = client.query(sql, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<String>>()
    };
    for sql in FORGETFUL {
        let open = tenants(&admin, sql).await;
        assert!(
            open.contains(&"a".to_owned()) && open.contains(&"b".to_owned()),
            "nothing in it keeps tenants apart: {sql}"
        );
        app.batch_execute("BEGIN; SET LOCAL app.tenant_id = 'a'")
            .await
            .unwrap();
        let seen = tenants(&app, sql).await;
        app.batch_execute("ROLLBACK").await.unwrap();
        assert!(
            !seen.is_empty() && seen.iter().all(|tenant| tenant == "a"),
            "{sql}: {seen:?}"
        );
        assert!(seen.len() < open.len(), "{sql}");
    }
    for (sql, rows) in [
        (
            "UPDATE remem.entry SET rev_to = 100, removed_reason = 'deleted'",
            2,
        ),
        ("UPDATE remem.scope SET documents = 0", 1),
        ("UPDATE remem.tenant_clock SET revision = 9", 1),
        ("DELETE FROM remem.entry_tag", 1),
        ("UPDATE remem.api_key SET revoked_at = 1", 2),
    ] {
        assert_eq!(
            acting(&app, "a", "", sql).await,
            format!("{rows} rows"),
            "{sql}"
        );
    }
}

/// Everything that a tenant can see, ranks and scores included.
async fn view(store: &PostgresStore, s: &Scope) -> String {
    let mut view = String::new();
    for entry in all(store, s, &NOW).await {
        view.push_str(&format!(
            "{:?} {} {:?}\n",
            entry.id, entry.content, entry.tags
        ));
    }
    let probe = Probe::words(vec!["text".to_owned(), "more".to_owned()]);
    for hit in store
        .search(s, &probe, &Filter::default(), 10, &NOW)
        .await
        .unwrap()
        .candidates
    {
        view.push_str(&format!(
            "{:?} {:016x}\n",
            hit.entry.id,
            hit.lexical.to_bits()
        ));
    }
    let probe = Probe {
        terms: Vec::new(),
        vector: Some((ModelId(5), Embedding::from_components(&[1.0; 16]).unwrap())),
    };
    for hit in store
        .search(s, &probe, &Filter::default(), 10, &NOW)
        .await
        .unwrap()
        .candidates
    {
        view.push_str(&format!("{:?} {:?}\n", hit.entry.id, hit.cosine));
    }
    let around = store
        .neighbours(s, &[id("e1"), id("e2")], 2, &NOW)
        .await
        .unwrap();
    view.push_str(&format!(
        "{around:?} {:?}\n",
        store.vector_counts(&s.tenant).await.unwrap()
    ));
    let events = store.events(&s.tenant, Seq(0), 100).await.unwrap();
    let stats = store.stats(s, &NOW).await.unwrap();
    let head = store.head(&s.tenant).await.unwrap();
    let scopes = store
        .memories(&s.tenant, &remem_core::Actor::NoUser, None, 100, &NOW)
        .await
        .unwrap();
    let expired = store
        .expired_entries(&s.tenant, NOON.plus_ms(90_000), 10)
        .await
        .unwrap();
    let keys = store.directory().keys(&s.tenant).await.unwrap();
    let checked = store.verify(&s.tenant).await.unwrap();
    let trace = store
        .trace_subject(&s.tenant, &SUBJECT, TracePosition::default(), 100)
        .await
        .unwrap();
    let lineage = store.lineage(s, &id("e2")).await.unwrap();
    let signed = store.signatures(s, None, 9).await.unwrap();
    let unsigned = store.entries_without_signature(s, None, 9).await.unwrap();
    view.push_str(&format!("{trace:?} {lineage:?} {signed:?} {unsigned:?}\n"));
    let rules = store
        .rules(&s.tenant, &workshop::world("w1"), None, 9)
        .await
        .unwrap();
    let links = store.actions_of_entry(s, &id("e2")).await.unwrap();
    let held = store
        .retention_counts(&s.tenant, &remem_core::Actor::Host, None)
        .await
        .unwrap();
    let shadowed = store
        .restated_rule(
            &s.tenant,
            &workshop::world("w1"),
            &format!("{} of a", workshop::RULES[0]),
        )
        .await
        .unwrap();
    view.push_str(&format!(
        "{:?} {links:?} {held:?} {shadowed:?}\n",
        rules.iter().map(|rule| &rule.body).collect::<Vec<_>>()
    ));
    view + &format!("{events:?} {stats:?} {head:?} {scopes:?} {expired:?} {keys:?} {checked}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_isolate_tenants_without_the_tenant_policies() {
    let (database, store) = two_tenants().await;
    let admin = database.admin().await;
    let app = database.app().await;
    let before = (
        view(&store, &scope("a", "notes")).await,
        view(&store, &scope("b", "notes")).await,
    );
    for table in tables_with_tenants(&admin).await {
        // Not all of row-level security: between the users of a tenant it is the only separation.
        let rest = match table.as_str() {
            "scope" | "entry" => "owner IS NULL OR remem.current_user_id() IN (owner, '*')",
            _ => "true",
        };
        admin
            .batch_execute(&format!(
                "ALTER POLICY tenant_wall ON remem.{table} USING ({rest}) WITH CHECK ({rest})"
            ))
            .await
            .unwrap();
        assert_ne!(
            answer(&app, &format!("SELECT 1 FROM remem.{table}")).await,
            "0 rows",
            "{table}: the wall is really gone"
        );
    }
    let a = scope("a", "notes");
    let b = scope("b", "notes");
    assert_eq!(
        (view(&store, &a).await, view(&store, &b).await),
        before,
        "each sees what it saw before"
    );
    assert!(all(&store, &scope("c", "notes"), &NOW).await.is_empty());
    assert_eq!(
        store
            .get(&scope("c", "notes"), &id("e1"), &NOW)
            .await
            .unwrap(),
        None
    );
    // No action of the first tenant changes the other one's view by a single bit.
    put(&store, &a, "e3", draft("text text more"), NOON).await;
    let stands = Batch::new(a.tenant.clone(), NOON).retire(
        a.memory_ref.clone(),
        id("e3"),
        RetireReason::Merged,
        id("e2"),
    );
    assert_eq!(
        store
            .commit(stands.store_signature(a.memory_ref.clone(), id("e2"), 2, vec![2]))
            .await
            .unwrap()
            .outcomes
            .len(),
        2
    );
    assert_eq!(
        delete(&store, &a, "e2", NOON).await.outcomes,
        [ChangeOutcome::TextHeld],
        "an action rests on it"
    );
    let forget = Batch::new(a.tenant.clone(), NOON)
        .forget(a.memory_ref.clone(), id("e2"))
        .forget(a.memory_ref.clone(), id("e3"));
    store.commit(forget).await.unwrap();
    assert!(
        store
            .trace_subject(&a.tenant, &SUBJECT, TracePosition::default(), 100)
            .await
            .unwrap()
            .entries
            .is_empty()
    );
    assert_eq!(
        delete(&store, &a, "e2", NOON).await.outcomes,
        [ChangeOutcome::NoChange]
    );
    let late =
        Batch::new(a.tenant.clone(), NOON.plus_ms(90_000)).expire(a.memory_ref.clone(), id("e1"));
    assert_eq!(
        store.commit(late).await.unwrap().outcomes,
        [ChangeOutcome::Removed]
    );
    store
        .scrub(&a.tenant, Timestamp(i64::MAX), true)
        .await
        .unwrap();
    let own = PrincipalId::parse("own").unwrap();
    assert!(
        store
            .directory()
            .revoke_key(&a.tenant, &own, NOON)
            .await
            .unwrap()
    );
    let lease = store
        .acquire_lease(&a.tenant, "purge", "a-node", NOON, 60_000)
        .await
        .unwrap()
        .unwrap();
    store.release_lease(&a.tenant, &lease).await.unwrap();
    assert_eq!(view(&store, &b).await, before.1);
    let repeat = Idempotency {
        operation: "put",
        key: [7; 32],
        body: [8; 32],
    };
    let again = Batch::new(b.tenant.clone(), NOON)
        .idempotent(Some(repeat))
        .put(id("again"), admit(&b, draft("x"), NOON));
    assert!(
        store.commit(again).await.unwrap().replayed,
        "the other one's records were not scrubbed along"
    );
    assert_eq!(
        store
            .acquire_lease(&b.tenant, "purge", "another-node", NOON, 1)
            .await
            .unwrap(),
        None,
        "nor its lease released"
    );
    conformance::exercise(&store).await;
}
