//! SQLite's search index is in process memory and follows the database: it must include everything
//! that any handle of the same file committed, also after a crash, and be rebuilt when it missed
//! too many changes.

use remem_core::{Batch, Embedding, ModelId, Scope};
use remem_store::{EntryCalls, EntryReads, Filter, Ledger, Probe, ReadAt, Upkeep};
use remem_store_sql::{Location, SqliteStore};
use remem_testkit::conformance::{NOON, admit, delete, draft, id, put, scope};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::path::Path;

const MODEL: ModelId = ModelId(3);
const NOW: ReadAt = ReadAt::Now(NOON);

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(Location::Folder(folder.into()), 2).unwrap()
}

fn direction(n: usize) -> Embedding {
    let components: Vec<f32> = (0..32)
        .map(|c| if c == n % 32 { 1.0 } else { 0.05 })
        .collect();
    Embedding::from_components(&components).unwrap()
}

async fn embed(store: &SqliteStore, s: &Scope, name: &str, n: usize) {
    let entry = store.get(s, &id(name), &NOW).await.unwrap().unwrap();
    store
        .commit(Batch::new(s.tenant.clone(), NOON).store_embedding(&entry, MODEL, direction(n)))
        .await
        .unwrap();
}

/// All results of a search, figures included.
async fn view(store: &SqliteStore, s: &Scope) -> Vec<String> {
    let mut view = Vec::new();
    for n in 0..3 {
        let probe = Probe {
            terms: vec!["falcon".into(), format!("word{n}")],
            vector: Some((MODEL, direction(n))),
        };
        let found = store
            .search(s, &probe, &Filter::default(), 50, &NOW)
            .await
            .unwrap();
        view.push(format!("{:?}", found.lexical_max));
        view.extend(found.candidates.iter().map(|c| {
            format!(
                "{} {:?} {:?} {}",
                c.entry.id, c.lexical, c.cosine, c.entry.content
            )
        }));
    }
    view
}

async fn fill(store: &SqliteStore, s: &Scope) {
    for n in 0..20 {
        let name = format!("e{n}");
        put(
            store,
            s,
            &name,
            draft(&format!("falcon word{} of many", n % 5)),
            NOON,
        )
        .await;
        embed(store, s, &name, n).await;
    }
}

/// Entries that another process commits are found, and those that it removes are not, by words and
/// by vectors.
#[tokio::test]
async fn an_index_follows_commits_of_another_handle() {
    let folder = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    let one = open(folder.path());
    let other = open(folder.path());
    fill(&one, &s).await;
    assert_eq!(view(&one, &s).await, view(&other, &s).await);
    delete(&other, &s, "e3", NOON).await;
    other
        .commit(Batch::new(s.tenant.clone(), NOON).forget(s.memory_ref.clone(), id("e4")))
        .await
        .unwrap();
    let changed = admit(&s, draft("something else by now"), NOON);
    other
        .commit(Batch::new(s.tenant.clone(), NOON).rewrite(id("e5"), changed))
        .await
        .unwrap();
    put(&other, &s, "new", draft("falcon word2"), NOON).await;
    let seen = view(&one, &s).await;
    assert_eq!(seen, view(&other, &s).await);
    assert_eq!(
        seen,
        view(&open(folder.path()), &s).await,
        "and so does one that is made anew"
    );
    let gone = |line: &String| ["e3 ", "e4 ", "e5 "].iter().any(|id| line.starts_with(id));
    assert!(
        !seen.iter().any(gone),
        "neither by words nor by the direction of a text that is not there any more"
    );
    assert!(seen.iter().any(|line| line.starts_with("new ")));
}

/// A process that crashes leaves a database and no index: the next one is built from the committed
/// rows, and from nothing else.
#[tokio::test]
async fn after_a_crash_the_index_is_rebuilt_from_committed_rows() {
    let folder = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    let store = open(folder.path());
    fill(&store, &s).await;
    delete(&store, &s, "e7", NOON).await;
    let seen = view(&store, &s).await;
    // The files as they are while the process still runs: the state that a crash leaves.
    std::fs::create_dir_all(copy.path().join("tenants")).unwrap();
    for file in std::fs::read_dir(folder.path().join("tenants")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(
            file.path(),
            copy.path().join("tenants").join(file.file_name()),
        )
        .unwrap();
    }
    assert_eq!(view(&open(copy.path()), &s).await, seen);
    assert!(open(copy.path()).verify(&s.tenant).await.is_ok());
}

/// The list of changes is trimmed after a while; an index that missed some of them is rebuilt.
#[tokio::test]
async fn an_index_that_missed_changes_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    let one = open(folder.path());
    let other = open(folder.path());
    fill(&one, &s).await;
    view(&one, &s).await;
    for name in ["e1", "e2", "e3"] {
        delete(&other, &s, name, NOON).await;
    }
    let db = Connection::open(folder.path().join("tenants/a.db")).unwrap();
    db.execute(
        "DELETE FROM unindexed WHERE n < (SELECT max(n) FROM unindexed)",
        [],
    )
    .unwrap();
    assert_eq!(view(&one, &s).await, view(&open(folder.path()), &s).await);
}

/// The same, if what is left of the list concerns other memories alone.
#[tokio::test]
async fn an_index_that_missed_all_its_changes_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    let elsewhere = scope("a", "other");
    let one = open(folder.path());
    let other = open(folder.path());
    fill(&one, &s).await;
    fill(&one, &elsewhere).await;
    view(&one, &s).await;
    delete(&other, &s, "e1", NOON).await;
    delete(&other, &elsewhere, "e2", NOON).await;
    let db = Connection::open(folder.path().join("tenants/a.db")).unwrap();
    db.execute(
        "DELETE FROM unindexed WHERE n < (SELECT max(n) FROM unindexed)",
        [],
    )
    .unwrap();
    assert_eq!(view(&one, &s).await, view(&open(folder.path()), &s).await);
}

/// A vector without a text could not be found, and reveals too much to be kept.
#[tokio::test]
async fn a_vector_without_a_text_is_reported_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let s = scope("a", "m");
    let store = open(folder.path());
    fill(&store, &s).await;
    delete(&store, &s, "e1", NOON).await;
    store.verify(&s.tenant).await.unwrap();
    let db = Connection::open(folder.path().join("tenants/a.db")).unwrap();
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .unwrap();
    let sql = "INSERT INTO vector (tenant_id, scope_id, row_id, model, bytes) SELECT tenant_id, scope_id, row_id, 3, x'0102030405060708' FROM entry WHERE id = 'e1'";
    db.execute(sql, []).unwrap();
    let reported = store.verify(&s.tenant).await.unwrap_err().to_string();
    assert!(reported.contains("vector: no text"), "{reported}");
}
