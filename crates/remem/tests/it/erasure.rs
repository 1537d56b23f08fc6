//! Proves that deleted means gone: after a delete or an expiry no file of the host holds any of the
//! text, its tags, its metadata or the words that the search index made of it; and nothing brings
//! the entry back.
//!
//! The files are read as raw bytes. Each test first finds its canaries there, so that not finding
//! them says something.

use crate::common;
use crate::common::client::{BASE, finish};
use crate::common::{Client, ServerProcess, files, run, run_on, run_with_input};
use remem_testkit::wait_until_blocking;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const MEMORY: &str = "gone/agent";

/// A word that exists nowhere else. Indexed words are written in capitals, so that their small
/// letters on the disk can only be the index's; of those only the end is looked for, because the
/// index may leave out a beginning that a word shares with its neighbour.
struct Canary {
    word: String,
    indexed: Option<String>,
}

impl Canary {
    /// A word that the index keeps without its ending.
    fn stemmed(start: &str) -> Canary {
        let stem = format!("{start}vex");
        let tail = stem[stem.len() - 9..].to_lowercase();
        Canary {
            word: format!("{stem}ings").to_uppercase(),
            indexed: Some(tail),
        }
    }

    /// A word that is stored but not indexed.
    fn plain(word: &str) -> Canary {
        Canary {
            word: word.to_owned(),
            indexed: None,
        }
    }

    /// What must not be found afterwards: the word itself, what an index would make of it, and the
    /// word in small letters.
    fn needles(&self) -> Vec<String> {
        [self.word.clone(), self.word.to_lowercase()]
            .into_iter()
            .chain(self.indexed.clone())
            .collect()
    }
}

/// An entry and the canaries in it.
struct Planted {
    body: Value,
    canaries: Vec<Canary>,
}

/// A short text with words in every place that takes any.
fn short(name: &str) -> Planted {
    let canaries = vec![
        Canary::stemmed(&format!("Quokka{name}jumb")),
        Canary::plain(&format!("TagOkapi{name}")),
        Canary::plain(&format!("KeyAxolotl{name}")),
        Canary::plain(&format!("ValueTarsier{name}")),
    ];
    let body = json!({
        "content": format!("We keep {} in the shed.", canaries[0].word),
        "tags": [canaries[1].word, "kept"],
        "metadata": {(canaries[2].word.as_str()): {"deep": [1, canaries[3].word]}},
    });
    Planted { body, canaries }
}

/// 60 KiB that need many overflow pages, with a canary every kilobyte or so: each page holds at
/// least one. Each is there twice, so that one of them is whole where a page ends within the
/// other.
fn long(name: &str) -> Planted {
    let canaries: Vec<Canary> = (0..52)
        .map(|n| Canary::stemmed(&format!("{0}{name}Wombat{0}rix", letters(n))))
        .collect();
    let paragraph = "plain words of no interest at all ".repeat(34);
    let content: String = canaries
        .iter()
        .map(|canary| format!("{0} {0} {paragraph}", canary.word))
        .collect();
    assert!(
        (60_000..=65_536).contains(&content.len()),
        "{}",
        content.len()
    );
    Planted {
        body: json!({"content": content}),
        canaries,
    }
}

/// Letters beyond ASCII: the index folds case and strips the marks.
fn unicode(name: &str) -> Planted {
    let word = format!("Žluťoučký{name}ďáblíček").to_uppercase();
    let canaries = vec![
        Canary {
            word: word.clone(),
            indexed: Some("dablicek".to_owned()),
        },
        Canary::plain("絶滅危惧種の猫"),
    ];
    Planted {
        body: json!({"content": format!("{word} 絶滅危惧種の猫 👩‍👩‍👧")}),
        canaries,
    }
}

fn letters(n: u8) -> String {
    [b'a' + n / 26, b'a' + n % 26]
        .map(char::from)
        .iter()
        .collect()
}

fn planted(name: &str) -> Vec<Planted> {
    vec![short(name), long(name), unicode(name)]
}

fn needles(planted: &[Planted]) -> Vec<String> {
    planted
        .iter()
        .flat_map(|p| &p.canaries)
        .flat_map(Canary::needles)
        .collect()
}

/// The positive control: every canary is there. What an index makes of it is on no disk at any
/// time.
#[track_caller]
fn assert_present(dir: &Path, planted: &[Planted]) {
    for canary in planted.iter().flat_map(|p| &p.canaries) {
        let word = &canary.word;
        assert!(
            !files::find(dir, [word]).is_empty(),
            "{word} should be found before it is deleted"
        );
        assert!(
            canary
                .indexed
                .iter()
                .all(|made| files::find(dir, [made]).is_empty()),
            "the index of words is in memory alone"
        );
    }
}

#[track_caller]
fn assert_gone(dir: &Path, planted: &[Planted]) {
    let found = files::find(dir, &needles(planted));
    assert!(found.is_empty(), "still there: {found:?}");
}

#[track_caller]
fn assert_gone_soon(dir: &Path, planted: &[Planted]) {
    let needles = needles(planted);
    wait_until_blocking("no file holds a canary", || {
        files::find(dir, &needles).is_empty()
    });
}

fn entry_path(id: &str) -> String {
    Client::memory(MEMORY, &format!("entries/{id}"))
}

fn id_of(entry: &Value) -> String {
    entry["id"].as_str().unwrap().to_owned()
}

/// Stores entries; every other one with a key, since what is remembered of a key must not hold text
/// either.
async fn put_all(client: &Client, planted: &[Planted]) -> Vec<String> {
    let mut ids = Vec::new();
    for (n, one) in planted.iter().enumerate() {
        let mut request = client
            .request(Method::POST, &Client::memory(MEMORY, "entries"))
            .json(&one.body);
        if n % 2 == 0 {
            request = request.header("idempotency-key", format!("put-{n}"));
        }
        ids.push(id_of(&finish(request).await.unwrap().is(201).json()));
    }
    ids
}

/// Stores entries that are never deleted, before and after the others.
async fn put_neighbour(client: &Client, n: usize) -> (String, Value) {
    let body = json!({"content": format!("neighbour {n} drinks herbal infusions"), "tags": ["kept"], "metadata": {"n": n}});
    let entry = client.put(MEMORY, &body).await;
    (id_of(&entry), entry)
}

async fn assert_neighbours(client: &Client, neighbours: &[(String, Value)]) {
    for (id, entry) in neighbours {
        assert_eq!(&client.get(&entry_path(id)).await.is(200).json(), entry);
    }
    let search = json!({"query": "herbal infusion"});
    let hits = client
        .post(&Client::memory(MEMORY, "search"), &search)
        .await
        .is(200)
        .json();
    assert_eq!(hits["hits"].as_array().unwrap().len(), neighbours.len());
    let stats = client
        .get(&Client::memory(MEMORY, "stats"))
        .await
        .is(200)
        .json();
    assert_eq!(stats["entries"], neighbours.len());
}

/// Checks that an entry is found neither by id, nor in a list, nor by its words.
async fn assert_unknown(client: &Client, ids: &[String], planted: &[Planted]) {
    for id in ids {
        client.get(&entry_path(id)).await.is(404);
        client.delete(&entry_path(id)).await.is(404);
    }
    let listed: Vec<String> = client.all_entries(MEMORY).await.iter().map(id_of).collect();
    assert!(!listed.iter().any(|id| ids.contains(id)));
    for canary in planted.iter().filter_map(|p| p.canaries.first()) {
        let found = client
            .post(
                &Client::memory(MEMORY, "search"),
                &json!({"query": canary.word}),
            )
            .await
            .is(200)
            .json();
        assert_eq!(found["hits"], json!([]), "{}", canary.word);
    }
}

#[tokio::test]
async fn a_deleted_entry_is_removed_from_all_files_automatically() {
    let folder = tempfile::tempdir().unwrap();
    let planted = planted("one");
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    let mut neighbours = vec![put_neighbour(&client, 1).await];
    let ids = put_all(&client, &planted).await;
    neighbours.push(put_neighbour(&client, 2).await);
    assert_present(folder.path(), &planted);
    for id in &ids {
        client.delete(&entry_path(id)).await.is(204);
    }
    assert_gone_soon(folder.path(), &planted);
    assert_unknown(&client, &ids, &planted).await;
    assert_neighbours(&client, &neighbours).await;
}

#[tokio::test]
async fn the_purge_pass_removes_a_deleted_entry_from_files_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let planted = planted("two");
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    let ids = put_all(&client, &planted).await;
    assert_present(folder.path(), &planted);
    for id in &ids {
        client.delete(&entry_path(id)).await.is(204);
    }
    client
        .post(&format!("{BASE}/passes/purge/run"), &json!({}))
        .await
        .is(200);
    assert_gone(folder.path(), &planted);
    assert_unknown(&client, &ids, &planted).await;
}

#[tokio::test]
async fn an_expired_entry_is_hidden_at_once_and_removed_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut planted = planted("three");
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    let neighbours = [put_neighbour(&client, 1).await];
    let end = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        + Duration::from_millis(2_500);
    for one in &mut planted {
        one.body["expiresAt"] = json!(end.as_millis() as u64);
    }
    let ids = put_all(&client, &planted).await;
    assert_present(folder.path(), &planted);
    client.get(&entry_path(&ids[0])).await.is(200);
    let now = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
    };
    wait_until_blocking("the time runs out", || now() >= end);
    assert_unknown(&client, &ids, &planted).await;
    assert_neighbours(&client, &neighbours).await;
    assert_gone_soon(folder.path(), &planted);
    let events = client.events_after(0).await;
    let expired: Vec<&Value> = events
        .iter()
        .filter(|e| e["type"] == "memory.expired")
        .collect();
    assert_eq!(expired.len(), ids.len(), "each end is an event of its own");
    assert!(
        expired
            .iter()
            .all(|e| ids.contains(&e["payload"]["memoryId"].as_str().unwrap().to_owned()))
    );
}

#[tokio::test]
async fn vacuum_on_a_stopped_host_removes_deleted_text_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let planted = planted("four");
    let mut server = ServerProcess::start(folder.path());
    let client = server.client();
    let neighbours = [put_neighbour(&client, 1).await];
    let ids = put_all(&client, &planted).await;
    client.delete(&entry_path(&ids[0])).await.is(204);
    server.kill9();
    assert_present(folder.path(), &planted[1..]);
    for id in &ids[1..] {
        run_on(folder.path(), &["--local", "delete", MEMORY, id]).exits(0);
    }
    run_on(folder.path(), &["--local", "vacuum"]).exits(0);
    assert_gone(folder.path(), &planted);
    let server = ServerProcess::start(folder.path());
    assert_unknown(&server.client(), &ids, &planted).await;
    assert_neighbours(&server.client(), &neighbours).await;
}

#[tokio::test]
async fn a_host_killed_after_a_delete_purges_after_its_restart() {
    let folder = tempfile::tempdir().unwrap();
    let planted = planted("five");
    let mut server = ServerProcess::start(folder.path());
    let ids = put_all(&server.client(), &planted).await;
    for id in &ids {
        server.client().delete(&entry_path(id)).await.is(204);
    }
    server.kill9();
    let left = files::find(folder.path(), &needles(&planted));
    println!("{} traces of canaries after the kill", left.len());
    let server = ServerProcess::start(folder.path());
    assert_gone_soon(folder.path(), &planted);
    assert_unknown(&server.client(), &ids, &planted).await;
}

#[tokio::test]
async fn a_deleted_entry_cannot_be_imported_back() {
    let folder = tempfile::tempdir().unwrap();
    let planted = [short("six")];
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    let ids = put_all(&client, &planted).await;
    let export = run_on(
        folder.path(),
        &[
            "--url",
            &server.url,
            "--key",
            common::KEY,
            "export",
            "--ref",
            MEMORY,
        ],
    )
    .exits(0);
    assert_eq!(export.json_lines().len(), 1);
    client.delete(&entry_path(&ids[0])).await.is(204);
    assert_gone_soon(folder.path(), &planted);
    let line = json!({"id": ids[0], "content": planted[0].body["content"], "tags": planted[0].body["tags"]});
    let again = client
        .post(
            &Client::memory(MEMORY, "entries:import"),
            &json!({"entries": [line]}),
        )
        .await
        .is(200)
        .json();
    assert_eq!(
        (again["imported"].as_u64(), again["skipped"].as_u64()),
        (Some(0), Some(1))
    );
    let mut import = common::remem();
    import.args([
        "--url",
        &server.url,
        "--key",
        common::KEY,
        "--json",
        "import",
        "-",
    ]);
    let counts = run_with_input(&mut import, &export.stdout).exits(0).json();
    assert_eq!(
        (counts["imported"].as_u64(), counts["skipped"].as_u64()),
        (Some(0), Some(1))
    );
    assert_unknown(&client, &ids, &planted).await;
    assert_gone(folder.path(), &planted);
    // The answer to the repeated key is given again, and stores nothing.
    let replay = client
        .request(Method::POST, &Client::memory(MEMORY, "entries"))
        .json(&planted[0].body)
        .header("idempotency-key", "put-0");
    assert_eq!(id_of(&finish(replay).await.unwrap().is(201).json()), ids[0]);
    assert_unknown(&client, &ids, &planted).await;
    assert_gone(folder.path(), &planted);
    let counted = run(common::remem().args([
        "--url",
        &server.url,
        "--key",
        common::KEY,
        "--json",
        "stats",
        MEMORY,
    ]))
    .exits(0)
    .json();
    assert_eq!(counted["entries"], 0);
}

/// The subject of the entries below.
const SUBJECT: &str = "person: Zebulon Quillfeather";

#[tokio::test]
async fn a_forgotten_subject_leaves_no_trace_in_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut planted = planted("seven");
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    let mut neighbours = vec![put_neighbour(&client, 1).await];
    planted
        .iter_mut()
        .for_each(|one| one.body["subjects"] = json!([SUBJECT]));
    let ids = put_all(&client, &planted).await;
    neighbours.push(put_neighbour(&client, 2).await);
    assert_present(folder.path(), &planted);
    let words = ["Quillfeather".to_owned(), "quillfeather".to_owned()];
    assert_eq!(
        files::find(folder.path(), &words),
        Vec::<String>::new(),
        "the subject's words are never stored"
    );

    let report = client
        .post(&format!("{BASE}/forget"), &json!({"subject": SUBJECT}))
        .await
        .is(200)
        .json();
    assert_eq!(
        (&report["counts"]["erased"], &report["changed"]),
        (&json!(ids.len()), &json!(true))
    );
    assert_unknown(&client, &ids, &planted).await;
    let vacuum = ["--url", &server.url, "--key", common::KEY, "vacuum"];
    run_on(folder.path(), &vacuum).exits(0);
    assert_gone(folder.path(), &planted);
    assert_eq!(files::find(folder.path(), &words), Vec::<String>::new());
    assert!(!server.output().to_lowercase().contains("quillfeather"));
    for id in &ids {
        let skeleton = client
            .get(&Client::memory(MEMORY, &format!("entries/{id}/lineage")))
            .await
            .is(200)
            .json();
        assert_eq!(skeleton["state"], "forgotten");
    }
    assert_neighbours(&client, &neighbours).await;
}

/// The pass that runs by itself does the same a moment later.
#[tokio::test]
async fn a_forgotten_subject_is_removed_from_files_automatically() {
    let folder = tempfile::tempdir().unwrap();
    let mut planted = planted("eight");
    let server = ServerProcess::start(folder.path());
    let client = server.client();
    planted
        .iter_mut()
        .for_each(|one| one.body["subjects"] = json!([SUBJECT]));
    put_all(&client, &planted).await;
    assert_present(folder.path(), &planted);
    client
        .post(&format!("{BASE}/forget"), &json!({"subject": SUBJECT}))
        .await
        .is(200);
    assert_gone_soon(folder.path(), &planted);
}
