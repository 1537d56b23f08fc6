//! Proves that a host which is asked to stop does so in order: what it acknowledged is stored, what
//! is under way finishes, streams end, the process leaves with 0 in time and can be started again.
//! And that event streams resume without a gap or a repeat, and end with the key that opened them.

use crate::common;
use crate::common::client::{BASE, finish};
use crate::common::{Client, KEY, ServerProcess};
use remem_testkit::{SeededRandom, deadline, wait_until, wait_until_blocking};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MEMORY: &str = "stopping";
/// The longest time that an orderly end may take.
const END: Duration = Duration::from_secs(10);

/// The writes of one writer: acknowledged texts with their ids, and texts with an unknown outcome.
#[derive(Default)]
struct WriteOutcomes {
    stored: HashMap<String, String>,
    unknown: Vec<String>,
}

/// Writes until the host is gone. While it stops it may refuse (503) or hang up, but not fail in
/// another way.
async fn write_until_the_end(
    client: Client,
    writer: usize,
    acknowledged: Arc<AtomicUsize>,
) -> WriteOutcomes {
    let mut outcomes = WriteOutcomes::default();
    for n in 0.. {
        let text = format!("writer {writer} text {n}");
        let request = client
            .request(Method::POST, &Client::memory(MEMORY, "entries"))
            .json(&json!({"content": text}));
        match finish(request).await {
            Ok(answer) if answer.status == 201 => {
                let id = answer.json()["id"].as_str().unwrap().to_owned();
                outcomes.stored.insert(text, id);
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Ok(answer) => {
                assert_eq!(answer.status, 503, "{}", answer.text);
                assert!(
                    !answer.header("retry-after").is_empty(),
                    "a refusal says when to come back"
                );
                outcomes.unknown.push(text);
            }
            Err(_) => {
                outcomes.unknown.push(text);
                break;
            }
        }
    }
    outcomes
}

/// Everything that was acknowledged is there, once; what was not is there at most once; nothing
/// else is.
async fn assert_stored(client: &Client, outcomes: &[WriteOutcomes]) -> usize {
    let mut entries: HashMap<String, String> = HashMap::new();
    for entry in client.all_entries(MEMORY).await {
        let text = entry["content"].as_str().unwrap().to_owned();
        let id = entry["id"].as_str().unwrap().to_owned();
        assert!(
            entries.insert(text.clone(), id).is_none(),
            "{text} is stored twice"
        );
    }
    for (text, id) in outcomes.iter().flat_map(|t| &t.stored) {
        assert_eq!(
            entries.remove(text).as_ref(),
            Some(id),
            "the acknowledged {text} is lost"
        );
    }
    for text in outcomes.iter().flat_map(|t| &t.unknown) {
        entries.remove(text);
    }
    assert!(entries.is_empty(), "nobody wrote {entries:?}");
    outcomes.iter().map(|t| t.stored.len()).sum()
}

async fn stop_under_load(dir: &Path, random: &mut SeededRandom) {
    let mut server = ServerProcess::start(dir);
    let acknowledged = Arc::<AtomicUsize>::default();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        writers.spawn(write_until_the_end(
            server.client(),
            writer,
            acknowledged.clone(),
        ));
    }
    let mut streams = [
        server.client().stream(0).await,
        server.client().stream(0).await,
    ];
    let enough = 20 + random.below(100) as usize;
    wait_until("writes are acknowledged", || async {
        acknowledged.load(Ordering::SeqCst) >= enough
    })
    .await;
    server.signal("TERM");
    let asked = Instant::now();
    for stream in &mut streams {
        while stream.next(END).await.is_some() {}
    }
    let outcomes = writers.join_all().await;
    let status = server.wait(END.saturating_sub(asked.elapsed()));
    assert!(
        status.is_some_and(|s| s.success()),
        "ended with {status:?} after {:?}: {}",
        asked.elapsed(),
        server.output()
    );
    let server = ServerProcess::start(dir);
    let stored = assert_stored(&server.client(), &outcomes).await;
    let unknown: usize = outcomes.iter().map(|t| t.unknown.len()).sum();
    println!(
        "stopped {:?} after SIGTERM: {stored} acknowledged, {unknown} not",
        asked.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopping_host_loses_no_acknowledged_write_and_exits_in_time() {
    let mut random = SeededRandom::fresh();
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        stop_under_load(folder.path(), &mut random).await;
    }
}

/// A request whose head the host has certainly read: it has asked for the body, of which only half
/// was sent.
struct HalfSent {
    stream: TcpStream,
    rest: String,
}

fn half_sent(server: &ServerProcess, text: &str) -> HalfSent {
    let body = json!({"content": text}).to_string();
    let (half, rest) = body.split_at(body.len() / 2);
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(deadline())).unwrap();
    let path = Client::memory(MEMORY, "entries");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
    );
    write!(
        stream,
        "{head}Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    )
    .unwrap();
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(half.as_bytes()).unwrap();
    HalfSent {
        stream,
        rest: rest.to_owned(),
    }
}

#[tokio::test]
async fn a_request_in_flight_completes_before_the_host_exits() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = ServerProcess::start(folder.path());
    let mut open = half_sent(&server, "sent in two halves");
    server.signal("TERM");
    let address = server.url.trim_start_matches("http://").to_owned();
    wait_until_blocking("the host takes no new connections", || {
        TcpStream::connect(&address).is_err()
    });
    assert!(
        server.wait(Duration::ZERO).is_none(),
        "it waits for the request under way"
    );
    open.stream.write_all(open.rest.as_bytes()).unwrap();
    let mut answer = String::new();
    open.stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(
        server.wait(END).is_some_and(|s| s.success()),
        "{}",
        server.output()
    );
    let server = ServerProcess::start(folder.path());
    assert_eq!(
        server.client().all_entries(MEMORY).await[0]["content"],
        "sent in two halves"
    );
}

/// From its greeting on: a supervisor may change its mind at once.
#[test]
fn a_signal_right_after_startup_stops_the_host_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    for start in 0..16 {
        let mut server = ServerProcess::start(folder.path());
        server.signal(["INT", "TERM"][start % 2]);
        let status = server.wait(END);
        assert!(
            status.is_some_and(|s| s.success()),
            "start {start} ended with {status:?}: {}",
            server.output()
        );
    }
}

async fn write_some(client: &Client, count: usize) {
    for n in 0..count {
        client
            .put(MEMORY, &json!({"content": format!("event {n}")}))
            .await;
    }
}

/// Reads a few frames, drops the stream, comes back with the last id: while entries are written,
/// and across a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_resumes_without_a_gap_or_a_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = SeededRandom::fresh();
    let total = 400;
    let mut server = ServerProcess::start(folder.path());
    write_some(&server.client(), 100).await;
    let client = server.client();
    let writer = tokio::spawn(async move { write_some(&client, 150).await });
    let mut last = 0;
    let mut connections = 0;
    let mut crashed = false;
    let mut writer = Some(writer);
    while last < total {
        let mut stream = server.client().stream(last).await;
        connections += 1;
        for _ in 0..1 + random.below(30) {
            let frame = stream.next(deadline()).await.expect("the stream goes on");
            assert_eq!(frame.id, last + 1, "no gap and no repeat");
            assert_eq!(
                (&frame.data["sequence"], frame.event.as_str()),
                (&json!(frame.id), "memory.written")
            );
            assert_eq!(frame.data["payload"]["memoryRef"], MEMORY);
            last = frame.id;
            if last == total {
                break;
            }
        }
        if last >= 150 && !crashed {
            crashed = true;
            writer.take().unwrap().await.unwrap();
            server.kill9();
            server = ServerProcess::start(folder.path());
            let client = server.client();
            writer = Some(tokio::spawn(async move { write_some(&client, 150).await }));
        }
    }
    writer.unwrap().await.unwrap();
    assert!(connections >= 10, "{connections} connections");
    let page: Vec<Value> = server.client().events_after(0).await;
    assert_eq!(page.len() as u64, total);
}

#[tokio::test]
async fn a_stream_delivers_writes_of_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    server
        .client()
        .put(MEMORY, &json!({"content": "by the server"}))
        .await;
    let mut stream = server.client().stream(1).await;
    common::run_on(folder.path(), &["--local", "put", MEMORY, "by a command"]).exits(0);
    assert_eq!(
        stream
            .next(deadline())
            .await
            .expect("the stream goes on")
            .id,
        2
    );
}

#[tokio::test]
async fn a_revoked_key_ends_its_stream_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path());
    let owner = server.client();
    let made = owner
        .post(&format!("{BASE}/keys"), &json!({"scopes": ["memory:read"]}))
        .await
        .is(201)
        .json();
    let reader = owner.with_key(made["key"].as_str().unwrap());
    owner.put(MEMORY, &json!({"content": "before"})).await;
    let mut theirs = reader.stream(0).await;
    let mut mine = owner.stream(0).await;
    assert_eq!(theirs.next(deadline()).await.unwrap().id, 1);
    owner
        .delete(&format!("{BASE}/keys/{}", made["id"].as_str().unwrap()))
        .await
        .is(204);
    owner.put(MEMORY, &json!({"content": "after"})).await;
    assert!(
        theirs.next(deadline()).await.is_none(),
        "the stream ends and says nothing of what came after"
    );
    assert_eq!(
        [
            mine.next(deadline()).await.unwrap().id,
            mine.next(deadline()).await.unwrap().id
        ],
        [1, 2]
    );
    let refused = finish(
        reader
            .request(Method::GET, &format!("{BASE}/events"))
            .header("accept", "text/event-stream"),
    )
    .await
    .unwrap();
    assert_eq!(refused.is(401).json()["error"], "key_revoked");
}
