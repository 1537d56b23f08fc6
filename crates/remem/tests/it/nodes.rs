//! Proves that many nodes over one PostgreSQL are one host: any node takes any request, a retry may
//! go to another one, streams and keys follow across nodes, passes happen once, and a node that
//! dies or sleeps does not hold up the rest.

use crate::common::client::{BASE, HttpAnswer, finish};
use crate::common::{Client, ServerProcess, place, remem, run};
use remem_testkit::wait_until_blocking;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MEMORY: &str = "agent/1";

/// Nodes with nothing in common but the database.
struct Nodes {
    folder: TempDir,
    database: String,
    servers: Vec<ServerProcess>,
}

impl Nodes {
    fn start(count: usize) -> Nodes {
        let folder = tempfile::tempdir().unwrap();
        let database = place::new_database(&place::server_url());
        let mut nodes = Nodes {
            folder,
            database,
            servers: Vec::new(),
        };
        for number in 0..count {
            let server = nodes.another(number);
            nodes.servers.push(server);
        }
        nodes
    }

    fn another(&self, number: usize) -> ServerProcess {
        ServerProcess::start_with(
            &self.folder.path().join(number.to_string()),
            &["--database", &self.database],
            &[],
        )
    }

    fn client(&self, number: usize) -> Client {
        self.servers[number].client()
    }

    /// The data agrees with its own hashes.
    fn is_sound(&self) {
        let findings = run(remem().args(["--database", &self.database, "--json", "doctor"]))
            .exits(0)
            .json();
        assert!(
            findings.as_array().unwrap().iter().all(|f| f["ok"] == true),
            "{findings}"
        );
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("text is expected, not {value}"))
        .to_owned()
}

#[tokio::test]
async fn a_write_on_one_node_is_visible_on_every_node() {
    let nodes = Nodes::start(2);
    let a = nodes.client(0);
    let b = nodes.client(1);
    for n in 0..20 {
        let (here, there) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let put = here
            .post(
                &Client::memory(MEMORY, "entries"),
                &json!({"content": format!("falcon {n}")}),
            )
            .await
            .is(201);
        let id = text(&put.json()["id"]);
        let token = put.header("remem-revision").to_owned();
        there
            .get(&Client::memory(
                MEMORY,
                &format!("entries/{id}?atLeast={token}"),
            ))
            .await
            .is(200);
        let found = there
            .post(
                &Client::memory(MEMORY, "search"),
                &json!({"query": n.to_string(), "atLeast": token}),
            )
            .await
            .is(200);
        assert_eq!(found.json()["hits"][0]["entry"]["id"], id.as_str());
        if n % 4 == 0 {
            there
                .delete(&Client::memory(MEMORY, &format!("entries/{id}")))
                .await
                .is(204);
            here.get(&Client::memory(MEMORY, &format!("entries/{id}")))
                .await
                .is(404);
        }
    }
    assert_eq!(a.all_entries(MEMORY).await, b.all_entries(MEMORY).await);
    // A list that is begun on one node is continued on another: cursors belong to no node.
    let first = a
        .get(&Client::memory(MEMORY, "entries?limit=5"))
        .await
        .is(200)
        .json();
    let next = Client::memory(
        MEMORY,
        &format!("entries?limit=5&cursor={}", text(&first["nextCursor"])),
    );
    assert_eq!(
        a.get(&next).await.is(200).json(),
        b.get(&next).await.is(200).json()
    );
    nodes.is_sound();
}

/// A stream looks on its own once a second. Twenty events one after the other would take twenty
/// seconds that way.
#[tokio::test]
async fn a_stream_on_one_node_delivers_writes_of_another_at_once() {
    let nodes = Nodes::start(2);
    let writer = nodes.client(0);
    let mut stream = nodes.client(1).stream(0).await;
    writer.put(MEMORY, &json!({"content": "the first"})).await;
    stream
        .next(Duration::from_secs(10))
        .await
        .expect("the stream is open");
    let begun = Instant::now();
    for n in 0..20 {
        let put = writer
            .put(MEMORY, &json!({"content": format!("entry {n}")}))
            .await;
        let frame = stream
            .next(Duration::from_secs(10))
            .await
            .expect("the stream goes on");
        assert_eq!(
            (frame.id, &frame.data["payload"]["memoryId"]),
            (n + 2, &put["id"]),
            "in order, without gaps: {}",
            frame.data
        );
    }
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "the stream only heard by looking: {:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_with_one_idempotency_key_write_once() {
    let nodes = Nodes::start(2);
    let path = Client::memory(MEMORY, "entries");
    for n in 0..30 {
        let send = |client: Client| {
            let request = client
                .request(Method::POST, &path)
                .json(&json!({"content": format!("once {n}")}));
            finish(request.header("idempotency-key", format!("key-{n}")))
        };
        let (a, b) = tokio::join!(send(nodes.client(0)), send(nodes.client(1)));
        let a = a.unwrap().is(201);
        let b = b.unwrap().is(201);
        assert_eq!(a.json(), b.json(), "both answer with the one entry");
        assert_eq!(a.header("remem-revision"), b.header("remem-revision"));
        let replays = [&a, &b]
            .iter()
            .filter(|answer| answer.header("openwop-idempotent-replay") == "true")
            .count();
        assert_eq!(replays, 1, "one did it, the other repeats it");
    }
    assert_eq!(nodes.client(0).all_entries(MEMORY).await.len(), 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_share_one_sequence_of_revisions() {
    let nodes = Nodes::start(3);
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..12 {
        let client = nodes.client(writer % 3);
        tasks.spawn(async move {
            let mut acknowledged = Vec::new();
            for n in 0..40 {
                let put = put_patiently(
                    &client,
                    &format!("m/{}", n % 3),
                    &format!("{writer} says {n}"),
                )
                .await;
                acknowledged.push((
                    put.header("remem-revision").to_owned(),
                    text(&put.json()["id"]),
                ));
            }
            acknowledged
        });
    }
    let acknowledged: HashMap<String, String> =
        tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(
        acknowledged.len(),
        480,
        "every commit has a revision of its own"
    );
    let events = nodes.client(1).events_after(0).await;
    let sequence: Vec<u64> = events
        .iter()
        .map(|e| e["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(sequence, (1..=480).collect::<Vec<_>>());
    for event in &events {
        assert_eq!(
            acknowledged.get(&text(&event["revision"])),
            Some(&text(&event["payload"]["memoryId"])),
            "as the writer was told"
        );
    }
    nodes.is_sound();
}

/// A client sends its request again, to any other node, if its node is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_retried_after_a_node_dies_are_stored_exactly_once() {
    let mut nodes = Nodes::start(3);
    for life in 0..6 {
        let clients: Vec<Client> = (0..3).map(|n| nodes.client(n)).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..6 {
            let clients = clients.clone();
            tasks.spawn(async move {
                for n in 0..25 {
                    put_somewhere(
                        &clients,
                        writer,
                        &format!("life {life} writer {writer} entry {n}"),
                    )
                    .await;
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(20 + 15 * life)).await;
        nodes.servers[0].kill9();
        tasks.join_all().await;
        nodes.servers[0] = nodes.another(0);
    }
    let entries = nodes.client(0).all_entries(MEMORY).await;
    let texts: BTreeSet<String> = entries.iter().map(|e| text(&e["content"])).collect();
    assert_eq!(
        (entries.len(), texts.len()),
        (6 * 6 * 25, 6 * 6 * 25),
        "nothing is lost and nothing is there twice"
    );
    nodes.is_sound();
}

/// Repeats a write under its key while the database is too busy to answer, as the error message
/// advises clients.
async fn put_patiently(client: &Client, memory: &str, content: &str) -> HttpAnswer {
    for _ in 0..20 {
        let request = client.request(Method::POST, &Client::memory(memory, "entries"));
        let answer = finish(
            request
                .header("idempotency-key", content)
                .json(&json!({"content": content})),
        )
        .await
        .unwrap();
        if answer.status != 503 {
            return answer.is(201);
        }
    }
    panic!("the node took nothing");
}

async fn put_somewhere(clients: &[Client], writer: usize, content: &str) {
    let path = Client::memory(MEMORY, "entries");
    for client in clients.iter().cycle().skip(writer % clients.len()).take(30) {
        let request = client
            .request(Method::POST, &path)
            .header("idempotency-key", content)
            .json(&json!({"content": content}));
        match finish(request).await {
            Ok(answer) if answer.status == 201 => return,
            Ok(answer) => assert_eq!(answer.status, 503, "{}", answer.text),
            Err(_) => {}
        }
    }
    panic!("no node took it");
}

#[tokio::test]
async fn a_revoked_key_stops_working_on_every_node() {
    let nodes = Nodes::start(3);
    let made = nodes
        .client(0)
        .post(
            &format!("{BASE}/keys"),
            &json!({"label": "short", "scopes": ["memory:read"]}),
        )
        .await
        .is(201)
        .json();
    let path = Client::memory(MEMORY, "entries");
    let readers: Vec<Client> = (0..3)
        .map(|n| nodes.client(n).with_key(&text(&made["key"])))
        .collect();
    for reader in &readers {
        reader.get(&path).await.is(200);
    }
    nodes
        .client(1)
        .delete(&format!("{BASE}/keys/{}", text(&made["id"])))
        .await
        .is(204);
    for reader in &readers {
        let deadline = Instant::now() + Duration::from_secs(2);
        while reader.get(&path).await.status != 401 {
            assert!(Instant::now() < deadline, "the key still works");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_expires_exactly_once_with_three_nodes() {
    let nodes = Nodes::start(3);
    let soon = || {
        // A put takes a second on a busy machine.
        (std::time::SystemTime::now() + Duration::from_secs(8))
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis()
    };
    let mut ids = BTreeSet::new();
    for n in 0..60 {
        let ends = jiff::Timestamp::from_millisecond(soon().try_into().unwrap())
            .unwrap()
            .to_string();
        let put = nodes
            .client(n % 3)
            .put(
                MEMORY,
                &json!({"content": format!("short {n}"), "expiresAt": ends}),
            )
            .await;
        ids.insert(text(&put["id"]));
    }
    let url = place::as_superuser(&place::server_url(), &nodes.database);
    wait_until_blocking("the pass removes what has ended", || {
        place::psql(
            &url,
            "SELECT count(*) FROM remem.entry WHERE rev_to IS NULL",
        )
        .trim()
            == "0"
    });
    let events = nodes.client(0).events_after(0).await;
    let ended: Vec<String> = events
        .iter()
        .filter(|e| e["type"] == "memory.expired")
        .map(|e| text(&e["payload"]["memoryId"]))
        .collect();
    assert_eq!(ended.len(), 60, "one event each");
    assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), ids);
    nodes.is_sound();
}

/// A node that sleeps in the middle of a commit holds its tenant's clock. The database ends that
/// after some seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_node_does_not_block_the_others_for_long() {
    let nodes = Nodes::start(2);
    let sleeper = nodes.client(0);
    let other = nodes.client(1);
    for round in 0..4 {
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..6 {
            let sleeper = sleeper.clone();
            tasks.spawn(async move {
                for n in 0..40 {
                    let body = json!({"content": format!("{round} {writer} {n}")});
                    // Its result while its node slept does not matter here.
                    let _ = finish(
                        sleeper
                            .request(Method::POST, &Client::memory(MEMORY, "entries"))
                            .json(&body),
                    )
                    .await;
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(30 + 20 * round)).await;
        nodes.servers[0].signal("STOP");
        let begun = Instant::now();
        put_somewhere(
            std::slice::from_ref(&other),
            0,
            &format!("while the other sleeps {round}"),
        )
        .await;
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "held up for {:?}",
            begun.elapsed()
        );
        nodes.servers[0].signal("CONT");
        tasks.join_all().await;
        sleeper.get("/ready").await.is(200);
    }
    nodes.is_sound();
}

/// The names that others rely on: `migrate` prints the URL for `serve`, `key create` works on the
/// database.
#[tokio::test]
async fn migrate_serve_and_key_create_work_on_a_database_url() {
    let nodes = Nodes::start(1);
    let made = run(remem().args([
        "key",
        "create",
        "--database",
        &nodes.database,
        "--tenant",
        "acme",
    ]))
    .exits(0);
    let theirs = nodes.client(0).with_key(made.stdout.trim());
    theirs.put(MEMORY, &json!({"content": "of acme"})).await;
    assert!(
        nodes.client(0).all_entries(MEMORY).await.is_empty(),
        "tenants are apart"
    );
    let local = run(remem().args([
        "--database",
        &nodes.database,
        "--local",
        "--tenant",
        "acme",
        "--json",
        "list",
        MEMORY,
    ]))
    .exits(0);
    assert_eq!(local.json_lines()[0]["content"], "of acme");
    let admin = place::as_superuser(&place::server_url(), &nodes.database);
    let refused =
        run(remem().args(["serve", "--database", &admin, "--listen", "127.0.0.1:0"])).exits(1);
    assert!(
        refused.stderr.contains("superuser") && refused.stderr.contains("_app"),
        "says what to use: {}",
        refused.stderr
    );
    let again = run(remem().args(["--json", "migrate", "--database", &admin]))
        .exits(0)
        .json();
    assert_eq!(
        (&again["roleCreated"], &again["applied"]),
        (&json!(false), &json!([]))
    );
    let wrong = run(remem().args([
        "serve",
        "--database",
        "postgres://nobody:hunter2-wrong@127.0.0.1:1/none",
    ]))
    .exits(1);
    assert!(
        !wrong.stderr.contains("hunter2-wrong") && wrong.stderr.contains("cannot use the database"),
        "{}",
        wrong.stderr
    );
}
