//! Erased texts in the tables: no value that was computed from them is left. And files of an older
//! schema, which keep their rows. Both are checked in the tables themselves, past the store.

#![allow(
    clippy::disallowed_methods,
    reason = "tests drive their own connections and read the machine's clock"
)]

use remem_core::{
    Batch, Draft, Permission, PrincipalId, RetireReason, RunId, Scope, ShapePolicy, Subject, Trust,
};
use remem_store::{
    ChangeOutcome, Directory, EntryCalls, EntryReads, EntryState, Filter, Ledger, LineageReads,
    Page, Probe, ReadAt, Store, TenantRecord, Upkeep,
};
use remem_store_sql::postgres::{PostgresTarget, backfill_hashes, migrate};
use remem_store_sql::{Location, SqliteDirectory, SqliteStore};
use remem_testkit::conformance::{NOON, admit, all, draft, id, names, put, scope};
use remem_testkit::postgres::{PASSWORD, TestDatabase};
use rusqlite::{Connection, params};

/// Entries that lose their text in every way there is, each with a signature and a subject.
async fn lose_texts(store: &dyn Store, s: &Scope) {
    let batch = || Batch::new(s.tenant.clone(), NOON);
    let memory = || s.memory_ref.clone();
    for name in [
        "stays",
        "deleted",
        "held",
        "expired",
        "forgotten",
        "merged",
        "compacted",
    ] {
        let expires_at = (name == "expired").then(|| NOON.plus_ms(10));
        let draft = Draft {
            subjects: vec![Subject::from_bytes([1; 32])],
            expires_at,
            ..draft(name)
        };
        let put = batch()
            .put(id(name), admit(s, draft, NOON))
            .store_signature(memory(), id(name), 1, vec![7; 16]);
        store.commit(put).await.unwrap();
    }
    store
        .commit(batch().delete(memory(), id("deleted")))
        .await
        .unwrap();
    store
        .commit(batch().retire(memory(), id("merged"), RetireReason::Merged, id("stays")))
        .await
        .unwrap();
    store
        .commit(batch().retire(
            memory(),
            id("compacted"),
            RetireReason::Compacted,
            id("stays"),
        ))
        .await
        .unwrap();
    store
        .commit(batch().forget(memory(), id("forgotten")))
        .await
        .unwrap();
    let run = || RunId::parse("run-1").unwrap();
    store
        .commit(batch().in_run(run()).hold_snapshot())
        .await
        .unwrap();
    store
        .commit(batch().delete(memory(), id("held")))
        .await
        .unwrap();
    store
        .commit(batch().in_run(run()).release_snapshot())
        .await
        .unwrap();
    store
        .commit(batch().erase(memory(), id("held")))
        .await
        .unwrap();
    let late = Batch::new(s.tenant.clone(), NOON.plus_ms(10)).expire(memory(), id("expired"));
    assert_eq!(
        store.commit(late).await.unwrap().outcomes,
        [ChangeOutcome::Removed]
    );
}

const SIGNED: &str =
    "SELECT e.id FROM signature g JOIN entry e ON e.scope_id = g.scope_id AND e.row_id = g.row_id";
const ABOUT: &str = "SELECT count(*) FROM entry_subject";

#[tokio::test]
async fn sqlite_signatures_are_erased_with_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    lose_texts(
        &SqliteStore::open(Location::Folder(folder.path().into()), 1).unwrap(),
        &s,
    )
    .await;
    let db = Connection::open(folder.path().join("tenants/a.db")).unwrap();
    let signed: Vec<String> = db
        .prepare(SIGNED)
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(signed, ["stays"]);
    assert_eq!(
        db.query_row(ABOUT, [], |row| row.get::<_, i64>(0)).unwrap(),
        6,
        "subjects stay with skeletons, but for what is forgotten"
    );
}

#[tokio::test]
async fn postgres_signatures_are_erased_with_the_text() {
    let database = TestDatabase::fresh().await;
    let s = scope("a", "m");
    lose_texts(&database.open().await, &s).await;
    let admin = database.admin().await;
    admin
        .batch_execute("SET search_path = remem")
        .await
        .unwrap();
    let signed: Vec<String> = admin
        .query(SIGNED, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(signed, ["stays"]);
    assert_eq!(
        admin.query_one(ABOUT, &[]).await.unwrap().get::<_, i64>(0),
        6
    );
}

const OLD_STEPS: [&str; 4] = [
    include_str!("../../migrations/sqlite/0001_memory.sql"),
    include_str!("../../migrations/sqlite/0002_owner_and_lease.sql"),
    include_str!("../../migrations/sqlite/0003_record.sql"),
    include_str!("../../migrations/sqlite/0004_run.sql"),
];

/// Copies a table of a new file, as far as the old schema has its columns, into the old file.
fn copy_table(db: &Connection, table: &str) {
    let sql = "SELECT group_concat(name, ', ') FROM pragma_table_info(?1)";
    let columns: String = db.query_row(sql, params![table], |row| row.get(0)).unwrap();
    db.execute(
        &format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}"),
        [],
    )
    .unwrap();
}

/// Makes the file as the previous schema would have left it: by its own migrations, filled from a
/// file of today.
fn as_before(today: &std::path::Path, before: &std::path::Path) {
    let db = Connection::open(before).unwrap();
    for step in OLD_STEPS {
        db.execute_batch(step).unwrap();
    }
    db.pragma_update(None, "user_version", 4).unwrap();
    db.execute("ATTACH ?1 AS new", params![today.to_str().unwrap()])
        .unwrap();
    let id: i64 = db
        .pragma_query_value(Some("new"), "application_id", |row| row.get(0))
        .unwrap();
    db.pragma_update(None, "application_id", id).unwrap();
    for table in [
        "tenant_clock",
        "scope",
        "entry",
        "entry_tag",
        "event",
        "idempotency",
        "record",
        "snapshot",
        "lease",
    ] {
        copy_table(&db, table);
    }
    let index = "INSERT INTO main.entry_fts (rowid, scope_key, content) SELECT row_id, 's' || scope_id, content FROM new.entry WHERE erased_at IS NULL";
    db.execute(index, []).unwrap();
}

#[tokio::test]
async fn sqlite_migration_preserves_entries_snapshots_and_index() {
    let folder = tempfile::tempdir().unwrap();
    let old = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    let t = scope("a", "n");
    let store = SqliteStore::open(Location::Folder(folder.path().into()), 1).unwrap();
    for name in ["a", "b", "gone", "held"] {
        put(
            &store,
            &s,
            name,
            Draft {
                tags: vec!["t".to_owned()],
                ..draft(&format!("falcon {name}"))
            },
            NOON,
        )
        .await;
    }
    put(&store, &t, "a", draft("falcon elsewhere"), NOON).await;
    let batch = || Batch::new(s.tenant.clone(), NOON);
    store
        .commit(batch().delete(s.memory_ref.clone(), id("gone")))
        .await
        .unwrap();
    let revision = store
        .commit(
            batch()
                .in_run(RunId::parse("run-1").unwrap())
                .hold_snapshot(),
        )
        .await
        .unwrap()
        .revision;
    store
        .commit(batch().delete(s.memory_ref.clone(), id("held")))
        .await
        .unwrap();
    let checked = store.verify(&s.tenant).await.unwrap();
    store.scrub(&s.tenant, NOON, false).await.unwrap();
    drop(store);
    std::fs::create_dir_all(old.path().join("tenants")).unwrap();
    as_before(
        &folder.path().join("tenants/a.db"),
        &old.path().join("tenants/a.db"),
    );

    let store = SqliteStore::open(Location::Folder(old.path().into()), 1).unwrap();
    let now = ReadAt::Now(NOON);
    let then = ReadAt::Snapshot {
        revision,
        at: NOON,
        since: NOON,
        own_runs: Vec::new(),
    };
    assert_eq!(names(&all(&store, &s, &now).await), ["b", "a"]);
    assert_eq!(
        names(&all(&store, &s, &then).await),
        ["held", "b", "a"],
        "the run still reads what was deleted"
    );
    let tagged = Filter {
        tags: vec!["t".to_owned()],
        ..Filter::default()
    };
    assert_eq!(
        store
            .list(
                &s,
                &tagged,
                &Page {
                    limit: 9,
                    after: None
                },
                &now
            )
            .await
            .unwrap()
            .len(),
        2
    );
    let probe = Probe::words(vec!["falcon".to_owned()]);
    assert_eq!(
        store
            .search(&s, &probe, &Filter::default(), 9, &now)
            .await
            .unwrap()
            .candidates
            .len(),
        2
    );
    assert_eq!(
        store
            .search(&t, &probe, &Filter::default(), 9, &now)
            .await
            .unwrap()
            .candidates
            .len(),
        1
    );
    assert_eq!(
        store.verify(&s.tenant).await.unwrap(),
        checked,
        "texts, index and chain are as they were"
    );
    let held = store.lineage(&s, &id("held")).await.unwrap().unwrap();
    assert_eq!(
        (held.state, held.support, held.replaced_by),
        (EntryState::Deleted, 1, None)
    );
    assert_eq!(
        store
            .entries_without_signature(&s, None, 9)
            .await
            .unwrap()
            .len(),
        2,
        "there is everything to look at"
    );
    // And it is a file like any other from now on.
    store
        .commit(batch().retire(s.memory_ref.clone(), id("a"), RetireReason::Merged, id("b")))
        .await
        .unwrap();
    store
        .commit(
            batch()
                .in_run(RunId::parse("run-1").unwrap())
                .release_snapshot(),
        )
        .await
        .unwrap();
    assert_eq!(
        store.erasable_entries(&s.tenant, 9).await.unwrap(),
        [(s.memory_ref.clone(), id("held"))]
    );
    store
        .commit(
            batch()
                .erase(s.memory_ref.clone(), id("held"))
                .delete(s.memory_ref.clone(), id("b")),
        )
        .await
        .unwrap();
    assert_eq!(
        store.erasable_entries(&s.tenant, 9).await.unwrap(),
        [(s.memory_ref.clone(), id("a"))]
    );
    store.verify(&s.tenant).await.unwrap();
    let db = Connection::open(old.path().join("tenants/a.db")).unwrap();
    assert_eq!(
        db.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))
            .unwrap(),
        13
    );
}

/// Removes the hashes of rows and what came later, like a database from before them.
pub(crate) const WITHOUT_HASHES: &str = "DO $$ DECLARE t text; BEGIN
       FOR t IN SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'row_hash'
           WHERE c.relnamespace = 'remem'::regnamespace AND c.relkind = 'r' LOOP
         EXECUTE format('DROP TRIGGER z_row_hash ON remem.%I', t);
         EXECUTE format('DROP FUNCTION remem.%s, remem.%s', t || '_hash', 'put_' || t || '_hash');
         EXECUTE format('ALTER TABLE remem.%I DROP COLUMN row_hash', t);
       END LOOP;
     END $$;
     DROP TABLE remem.hash_fill; DROP INDEX remem.entry_standing, remem.entry_over, remem.entry_later, remem.entry_answer;
     ALTER TABLE remem.scope DROP COLUMN entries, DROP COLUMN content_bytes, DROP COLUMN expiring, DROP COLUMN with_subject;
     DELETE FROM remem.schema_step WHERE name LIKE '%row_hash' OR series = 'memory' AND number > 10;";

/// Removes what 0007 added, so that the schema is that of the migration before.
const WITHOUT_WORKSHOP: &str = "DROP VIEW remem.retention; DROP TABLE remem.rule, remem.action_link;
     DROP TRIGGER a_rule_shadow_put ON remem.entry; DROP TRIGGER a_rule_shadow_change ON remem.entry;
     DROP TRIGGER b_no_hard_delete ON remem.entry; DROP TRIGGER c_immutable ON remem.entry;
     DROP FUNCTION remem.refuse_shadow, remem.refuse_delete, remem.refuse_rewriting_history, remem.shadowed_rule;
     ALTER TABLE remem.tenant_clock DROP COLUMN scopes; ALTER TABLE remem.scope DROP CONSTRAINT scope_owner_is_named;
     ALTER TABLE remem.entry DROP COLUMN session, DROP COLUMN interaction, DROP COLUMN world, DROP COLUMN slot, DROP COLUMN valid_at,
       DROP COLUMN invalid_at, DROP COLUMN ended_at, DROP COLUMN trust, DROP COLUMN evidence;
     DROP TABLE remem.vector;
     DELETE FROM remem.schema_step WHERE series = 'memory' AND number >= 7";

/// The migration counts memories that the policies hide from the role that runs it.
#[tokio::test]
async fn postgres_migration_preserves_memory_counts() {
    let database = TestDatabase::fresh().await;
    let s = scope("a", "m");
    let t = scope("a", "n");
    let store = database.open().await;
    let known = TenantRecord {
        id: s.tenant.clone(),
        created_at: NOON,
        shapes: ShapePolicy::Off,
    };
    store.directory().put_tenant(&known).await.unwrap();
    for s in [&s, &t] {
        put(&store, s, "old", draft("falcon"), NOON).await;
    }
    drop(store);
    let admin = database.admin().await;
    let old = format!("{WITHOUT_HASHES} {WITHOUT_WORKSHOP}");
    admin.batch_execute(&old).await.unwrap();
    let migrated = migrate(
        &PostgresTarget::parse(&database.admin_url).unwrap(),
        PASSWORD,
    )
    .await
    .unwrap();
    assert_eq!(
        migrated.applied,
        [
            "0004_row_hash",
            "0007_workshop",
            "0008_recall",
            "0009_action_text",
            "0010_row_hash",
            "0011_named_tenant",
            "0012_totals",
            "0013_standing"
        ]
    );
    let filled = backfill_hashes(
        &PostgresTarget::parse(&database.admin_url).unwrap(),
        &mut |_| {},
    )
    .await;
    assert!(filled.unwrap() > 0, "rows of before get their hash");
    let store = database.open().await;
    let third = scope("a", "third");
    put(&store, &third, "new", draft("falcon"), NOON).await;
    for s in [&s, &t, &third] {
        assert_eq!(all(&store, s, &ReadAt::Now(NOON)).await.len(), 1);
    }
    store
        .commit(Batch::new(s.tenant.clone(), NOON).delete(s.memory_ref.clone(), id("old")))
        .await
        .unwrap();
    store.verify(&s.tenant).await.unwrap();
}

/// The principal of each key of a tenant.
async fn holders(directory: &dyn Directory) -> Vec<(String, String)> {
    let keys = directory.keys(&scope("a", "m").tenant).await.unwrap();
    keys.iter()
        .map(|key| {
            (
                key.id.as_str().to_owned(),
                key.principal.as_str().to_owned(),
            )
        })
        .collect()
}

/// A key from before trust levels keeps its permissions, linking among them, until its trust is
/// lowered, which takes effect at once.
async fn keeps_what_it_could(directory: &dyn Directory, hash: [u8; 32]) {
    let old = directory.find_key(&hash).await.unwrap().unwrap();
    assert_eq!((old.trust, &old.permissions[..]), (None, &[WRITE][..]));
    assert_eq!(old.effective_permissions(), [WRITE, Permission::MemoryLink]);
    let held = old.effective_permissions();
    let set = directory
        .set_key_trust(&old.tenant, &old.id, Trust::Model, &held)
        .await;
    assert!(set.unwrap());
    let lowered = directory.find_key(&hash).await.unwrap().unwrap();
    assert_eq!(lowered.trust, Some(Trust::Model));
    assert_eq!(
        (lowered.effective_permissions(), lowered.permissions),
        (held.clone(), held)
    );
    let nobody = PrincipalId::parse("key_none").unwrap();
    let set = directory
        .set_key_trust(&old.tenant, &nobody, Trust::Model, &[])
        .await;
    assert!(!set.unwrap());
}

const WRITE: Permission = Permission::MemoryWrite;
const OLD_KEYS: &str = "INSERT INTO tenant (tenant_id, created_at, shapes) VALUES ('a', 1, 'redact');
     INSERT INTO api_key (tenant_id, key_id, label, hash, permissions, created_at) VALUES ('a', 'key_1', '', HASH1, 'memory:write', 1),
       ('a', 'key_2', '', HASH2, 'memory:write', 2);";

#[tokio::test]
async fn sqlite_migrated_keys_are_their_own_principals() {
    let folder = tempfile::tempdir().unwrap();
    let db = Connection::open(folder.path().join("host.db")).unwrap();
    db.execute_batch(include_str!(
        "../../migrations/sqlite-host/0001_directory.sql"
    ))
    .unwrap();
    db.execute_batch(
        &OLD_KEYS
            .replace("HASH1", "zeroblob(32)")
            .replace("HASH2", "randomblob(32)"),
    )
    .unwrap();
    db.pragma_update(None, "application_id", 0x5265_6D65)
        .unwrap();
    db.pragma_update(None, "user_version", 1).unwrap();
    drop(db);
    let directory = SqliteDirectory::open(&Location::Folder(folder.path().into())).unwrap();
    let own = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(holders(&directory).await, [own("key_1"), own("key_2")]);
    assert_eq!(
        directory
            .find_key(&[0; 32])
            .await
            .unwrap()
            .unwrap()
            .principal
            .as_str(),
        "key_1"
    );
    keeps_what_it_could(&directory, [0; 32]).await;
}

#[tokio::test]
async fn postgres_migrated_keys_are_their_own_principals() {
    let database = TestDatabase::fresh().await;
    let admin = database.admin().await;
    let old = "ALTER TABLE remem.api_key DROP COLUMN principal, DROP COLUMN trust;
               DELETE FROM remem.schema_step WHERE series = 'host' AND number > 1;
               SET search_path = remem;";
    let old = format!("{WITHOUT_HASHES} {old}");
    let hash = |byte: &str| format!("decode(repeat('{byte}', 32), 'hex')");
    let keys = OLD_KEYS
        .replace("HASH1", &hash("00"))
        .replace("HASH2", &hash("01"));
    admin.batch_execute(&format!("{old} {keys}")).await.unwrap();
    let migrated = migrate(
        &PostgresTarget::parse(&database.admin_url).unwrap(),
        PASSWORD,
    )
    .await
    .unwrap();
    assert_eq!(
        migrated.applied,
        [
            "0002_principal",
            "0003_key_trust",
            "0004_row_hash",
            "0010_row_hash",
            "0011_named_tenant",
            "0012_totals",
            "0013_standing"
        ]
    );
    // Opening checks the policies: they are in place again.
    let directory = database.open().await.directory();
    let own = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(holders(&directory).await, [own("key_1"), own("key_2")]);
    assert_eq!(
        directory
            .find_key(&[1; 32])
            .await
            .unwrap()
            .unwrap()
            .principal
            .as_str(),
        "key_2"
    );
    keeps_what_it_could(&directory, [1; 32]).await;
}
