//! Proves that a host which dies without a warning loses nothing it acknowledged and stores nothing by halves.
//!
//! The real server is killed (SIGKILL) at random moments while eight clients write: single entries, batches of three,
//! deletes, and entries with an `Idempotency-Key` that are sent again after the restart. What the clients were told is
//! then held against what the host shows, after every kill for what is new and once more for everything at the end.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test fails by panicking and lives in real time")]

mod common;

use common::client::{Answer, finish};
use common::random::Random;
use common::{Client, Server, run_on};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const KILLS: usize = 220;
const CLIENTS: usize = 8;
const MEMORIES: [&str; 3] = ["crash/one", "crash/two", "crash/three"];
/// A host that was killed must serve again within this time.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// One write as its client remembers it.
#[derive(Clone)]
struct Write {
    memory: &'static str,
    /// The texts, each used only once in the whole test.
    texts: Vec<String>,
    key: Option<String>,
    /// `None`: the connection broke before an answer came.
    answer: Option<Told>,
}

/// What the answer to a write said.
#[derive(Clone, PartialEq, Debug)]
struct Told {
    ids: Vec<String>,
    revision: String,
    replayed: bool,
}

/// One delete as its client remembers it.
struct Deletion {
    memory: &'static str,
    id: String,
    acknowledged: bool,
}

/// What one client did between two kills.
#[derive(Default)]
struct Diary {
    writes: Vec<Write>,
    deletions: Vec<Deletion>,
}

/// A client: it outlives the servers.
struct Writer {
    number: usize,
    count: usize,
    random: Random,
    /// Entries it knows to be stored, and may delete.
    known: Vec<(&'static str, String)>,
    /// Keyed writes to send again after the restart: without an answer, or (sometimes) with one, which must be repeated.
    again: Vec<Write>,
    flying: Arc<AtomicUsize>,
}

impl Writer {
    /// Writes until the server dies.
    async fn write_until_the_end(&mut self, client: Client) -> Diary {
        let mut diary = Diary::default();
        for write in std::mem::take(&mut self.again) {
            if !self.put(&client, write, &mut diary).await {
                return diary;
            }
        }
        loop {
            let alive = match self.random.below(10) {
                0..=3 => self.put_new(&client, 1, false, &mut diary).await,
                4..=5 => self.put_new(&client, 3, false, &mut diary).await,
                6..=7 => self.put_new(&client, 1, true, &mut diary).await,
                _ => self.delete(&client, &mut diary).await,
            };
            if !alive {
                return diary;
            }
        }
    }

    async fn put_new(&mut self, client: &Client, entries: usize, keyed: bool, diary: &mut Diary) -> bool {
        let texts: Vec<String> = (0..entries).map(|n| format!("text {}-{}-{n}", self.number, self.count)).collect();
        let key = keyed.then(|| format!("key-{}-{}", self.number, self.count));
        self.count += 1;
        let memory = MEMORIES[self.random.below(3) as usize];
        self.put(client, Write { memory, texts, key, answer: None }, diary).await
    }

    /// Sends a write, writes down what became of it, and says whether the server still lives.
    async fn put(&mut self, client: &Client, mut write: Write, diary: &mut Diary) -> bool {
        let bodies: Vec<Value> = write.texts.iter().map(|text| json!({"content": text, "tags": ["crash"]})).collect();
        let (rest, body) = if bodies.len() == 1 { ("entries", bodies[0].clone()) } else { ("entries:batch", json!({"entries": bodies})) };
        let mut request = client.request(Method::POST, &Client::memory(write.memory, rest)).json(&body);
        if let Some(key) = &write.key {
            request = request.header("idempotency-key", key);
        }
        self.flying.fetch_add(1, Ordering::SeqCst);
        let answer = finish(request).await;
        self.flying.fetch_sub(1, Ordering::SeqCst);
        let Ok(answer) = answer else {
            // The client keeps the write to send it again; the books keep a copy.
            self.again.extend(write.key.is_some().then(|| write.clone()));
            diary.writes.push(Write { answer: None, ..write });
            return false;
        };
        let told = told(&answer.is(201));
        let first = write.answer.is_none();
        if let Some(before) = write.answer.replace(told.clone()) {
            assert_eq!(told, Told { replayed: true, ..before }, "a repeated key repeats its answer");
        }
        if first {
            self.known.extend(told.ids.iter().map(|id| (write.memory, id.clone())));
            self.again.extend((write.key.is_some() && self.random.below(4) == 0).then(|| write.clone()));
        }
        diary.writes.push(write);
        true
    }

    async fn delete(&mut self, client: &Client, diary: &mut Diary) -> bool {
        if self.known.is_empty() {
            return true;
        }
        let chosen = self.random.below(self.known.len() as u64) as usize;
        let (memory, id) = self.known.swap_remove(chosen);
        self.flying.fetch_add(1, Ordering::SeqCst);
        let answer = finish(client.request(Method::DELETE, &Client::memory(memory, &format!("entries/{id}")))).await;
        self.flying.fetch_sub(1, Ordering::SeqCst);
        let acknowledged = answer.is_ok();
        if let Ok(answer) = answer {
            answer.is(204);
        }
        diary.deletions.push(Deletion { memory, id, acknowledged });
        acknowledged
    }
}

fn told(answer: &Answer) -> Told {
    let body = answer.json();
    let entries = body["entries"].as_array().cloned().unwrap_or_else(|| vec![body]);
    Told {
        ids: entries.iter().map(|entry| text(&entry["id"])).collect(),
        revision: answer.header("remem-revision").to_owned(),
        replayed: answer.header("openwop-idempotent-replay") == "true",
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("text is expected, not {value}")).to_owned()
}

/// Everything that is known: what clients were told, and what the host has shown.
#[derive(Default)]
struct Books {
    /// Acknowledged entries: id to memory, text and revision.
    told: HashMap<String, (&'static str, String, String)>,
    /// Which entry holds a text: one, for ever.
    entry_of: HashMap<String, String>,
    /// Writes whose answer never came, by their first text.
    unanswered: HashMap<String, Write>,
    asked_to_delete: HashMap<String, bool>,
    /// From the event feed: id to memory and revision.
    written: HashMap<String, (String, String)>,
    deleted: HashSet<String>,
    sequence: u64,
    /// Live entries seen so far, so that only newer ones are listed.
    seen: HashSet<String>,
    acknowledged: usize,
    replays: usize,
}

impl Books {
    /// Takes over what a client wrote down. Called before the host is looked at again.
    fn enter(&mut self, diary: &Diary) {
        for write in &diary.writes {
            match &write.answer {
                Some(told) => self.enter_answer(write, told),
                None if self.told_before(write) => {}
                None => drop(self.unanswered.insert(write.texts[0].clone(), write.clone())),
            }
        }
        for deletion in &diary.deletions {
            self.acknowledged += usize::from(deletion.acknowledged);
            self.asked_to_delete.insert(deletion.id.clone(), deletion.acknowledged);
        }
    }

    fn told_before(&self, write: &Write) -> bool {
        self.entry_of.get(&write.texts[0]).is_some_and(|id| self.told.contains_key(id))
    }

    fn enter_answer(&mut self, write: &Write, told: &Told) {
        assert_eq!(told.ids.len(), write.texts.len());
        self.acknowledged += 1;
        self.replays += usize::from(told.replayed);
        // The host showed after the restart whether the unanswered write had been stored.
        let stored_before = self.entry_of.contains_key(&write.texts[0]);
        assert_eq!(told.replayed, stored_before, "a key is replayed exactly if its write was stored: {:?}", write.key);
        self.unanswered.remove(&write.texts[0]);
        for (id, text) in told.ids.iter().zip(&write.texts) {
            let before = self.entry_of.insert(text.clone(), id.clone());
            assert!(before.is_none_or(|before| before == *id), "one text, one entry: {text}");
            self.told.insert(id.clone(), (write.memory, text.clone(), told.revision.clone()));
        }
    }

    /// Reads the new part of the feed: no gaps, no repeats, nothing twice.
    async fn read_events(&mut self, client: &Client) -> BTreeSet<String> {
        let mut fresh = BTreeSet::new();
        for event in client.events_after(self.sequence).await {
            self.sequence += 1;
            let (memory, id) = (text(&event["payload"]["memoryRef"]), text(&event["payload"]["memoryId"]));
            match event["type"].as_str() {
                Some("memory.written") => {
                    let twice = self.written.insert(id.clone(), (memory, text(&event["revision"])));
                    assert!(twice.is_none(), "{id} was written twice");
                    fresh.insert(id);
                }
                Some("memory.deleted") => {
                    assert!(self.written.contains_key(&id) && self.asked_to_delete.contains_key(&id), "{id} was not to be deleted");
                    assert!(self.deleted.insert(id.clone()), "{id} was deleted twice");
                }
                other => panic!("unexpected event {other:?}"),
            }
        }
        fresh
    }

    /// Holds one shown entry against the books.
    fn check_entry(&mut self, memory: &str, entry: &Value) {
        let (id, content) = (text(&entry["id"]), text(&entry["content"]));
        let event = self.written.get(&id).unwrap_or_else(|| panic!("{id} is stored without its event"));
        assert_eq!(event.0, memory);
        assert!(!self.deleted.contains(&id), "{id} came back");
        match self.told.get(&id) {
            Some(told) => assert_eq!((told.0, &told.1), (memory, &content), "{id}"),
            None => assert!(self.unanswered.values().any(|w| w.memory == memory && w.texts.contains(&content)), "nobody wrote {content}"),
        }
        let before = self.entry_of.insert(content.clone(), id.clone());
        assert!(before.is_none_or(|before| before == id), "{content} is stored twice");
    }

    /// After a restart: what is new since the one before.
    async fn check_news(&mut self, client: &Client, diaries: &[Diary]) {
        let mut fresh = self.read_events(client).await;
        for memory in MEMORIES {
            for entry in self.new_entries(client, memory).await {
                self.check_entry(memory, &entry);
                let id = text(&entry["id"]);
                fresh.remove(&id);
                self.seen.insert(id);
            }
        }
        fresh.retain(|id| !self.deleted.contains(id));
        assert!(fresh.is_empty(), "events without their entries: {fresh:?}");
        for diary in diaries {
            diary.writes.iter().for_each(|write| self.check_write(write));
            for deletion in &diary.deletions {
                self.check_deletion(client, deletion).await;
            }
        }
    }

    /// Live entries that were not there before; they come first in a list.
    async fn new_entries(&self, client: &Client, memory: &str) -> Vec<Value> {
        let (mut cursor, mut new) = (String::new(), Vec::new());
        loop {
            let page = client.get(&Client::memory(memory, &format!("entries?limit=100{cursor}"))).await.is(200).json();
            for entry in page["entries"].as_array().unwrap() {
                if self.seen.contains(entry["id"].as_str().unwrap()) {
                    return new;
                }
                new.push(entry.clone());
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return new,
            }
        }
    }

    /// An acknowledged write is there as it was told; one without an answer is there as a whole or not at all.
    fn check_write(&self, write: &Write) {
        if let Some(told) = &write.answer {
            for id in &told.ids {
                let event = self.written.get(id).unwrap_or_else(|| panic!("the acknowledged {id} is lost"));
                assert_eq!((event.0.as_str(), &event.1), (write.memory, &told.revision));
            }
        }
        let stored: Vec<&String> = write.texts.iter().filter_map(|text| self.entry_of.get(text)).collect();
        assert!(stored.is_empty() || stored.len() == write.texts.len(), "half a batch is stored: {:?}", write.texts);
        let revisions: BTreeSet<&str> = stored.iter().map(|id| self.written[*id].1.as_str()).collect();
        assert!(revisions.len() <= 1, "a batch is one commit");
    }

    /// An acknowledged delete stays done; one without an answer happened as a whole or not at all.
    async fn check_deletion(&self, client: &Client, deletion: &Deletion) {
        let gone = self.deleted.contains(&deletion.id);
        assert!(gone || !deletion.acknowledged, "the acknowledged delete of {} is undone", deletion.id);
        let answer = client.get(&Client::memory(deletion.memory, &format!("entries/{}", deletion.id))).await;
        assert_eq!(answer.status, if gone { 404 } else { 200 }, "{}", deletion.id);
    }

    /// Everything once more, from the beginning.
    async fn check_all(&mut self, client: &Client) {
        let (events, known) = (self.sequence, std::mem::take(&mut self.written));
        (self.sequence, self.deleted) = (0, HashSet::new());
        self.read_events(client).await;
        assert_eq!((self.sequence, &self.written), (events, &known), "the feed does not change afterwards");
        let mut live = HashSet::new();
        for memory in MEMORIES {
            let entries = client.all_entries(memory).await;
            let stats = client.get(&Client::memory(memory, "stats")).await.is(200).json();
            assert_eq!(stats["entries"], entries.len());
            for entry in &entries {
                self.check_entry(memory, entry);
                assert!(live.insert(text(&entry["id"])), "an entry is listed twice");
            }
        }
        let expected: HashSet<String> = self.written.keys().filter(|id| !self.deleted.contains(*id)).cloned().collect();
        assert_eq!(live, expected, "live entries are those written and not deleted");
        for id in self.told.keys().filter(|id| !self.asked_to_delete.contains_key(*id)) {
            assert!(live.contains(id), "the acknowledged {id} is lost");
        }
        for (id, _) in self.asked_to_delete.iter().filter(|(_, acknowledged)| **acknowledged) {
            assert!(!live.contains(id), "the acknowledged delete of {id} is undone");
        }
    }
}

/// One life of the server: it starts, clients write, it is killed. Answers whether a write was under way at that moment.
async fn one_life(server: &mut Server, writers: &mut Vec<Writer>, random: &mut Random) -> (Vec<Diary>, bool) {
    let (flying, client) = (writers[0].flying.clone(), server.client());
    let mut tasks = tokio::task::JoinSet::new();
    for mut writer in writers.drain(..) {
        let client = client.clone();
        tasks.spawn(async move {
            let diary = writer.write_until_the_end(client).await;
            (writer, diary)
        });
    }
    tokio::time::sleep(Duration::from_micros(500 + random.below(110_000))).await;
    let under_way = flying.load(Ordering::SeqCst) > 0;
    server.kill9();
    let done = tasks.join_all().await;
    let mut diaries = Vec::new();
    for (writer, diary) in done {
        writers.push(writer);
        diaries.push(diary);
    }
    (diaries, under_way)
}

async fn restart(dir: &Path) -> Server {
    let begun = Instant::now();
    let server = Server::start(dir);
    server.client().get("/ready").await.is(200);
    let took = begun.elapsed();
    assert!(took <= READY_WITHIN, "ready only after {took:?}");
    server
}

/// Dies while it is still coming up, perhaps in the middle of recovery.
async fn die_while_starting(dir: &Path, random: &mut Random) {
    let mut server = Server::spawn(dir, &[], &[]);
    tokio::time::sleep(Duration::from_micros(random.below(30_000))).await;
    server.kill9();
}

fn every_check_is_ok(dir: &Path) {
    let findings = run_on(dir, &["doctor", "--json"]).exits(0).json();
    let findings = findings.as_array().unwrap();
    assert!(findings.iter().any(|f| f["check"] == "tenant default"), "the tenant was examined: {findings:?}");
    assert!(findings.iter().all(|f| f["ok"] == true), "{findings:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_host_keeps_what_it_acknowledged_and_nothing_by_halves() {
    let (folder, mut random, mut books) = (tempfile::tempdir().unwrap(), Random::fresh(), Books::default());
    let (dir, flying) = (folder.path().join("data"), Arc::<AtomicUsize>::default());
    let writer = |number| Writer { number, count: 0, random: random.branch(), known: vec![], again: vec![], flying: flying.clone() };
    let mut writers: Vec<Writer> = (0..CLIENTS).map(writer).collect();
    let (mut under_way, mut early, mut unanswered, mut kept) = (0, 0, 0, 0);
    let mut server = restart(&dir).await;
    for kill in 0..KILLS {
        let (diaries, sharp) = one_life(&mut server, &mut writers, &mut random).await;
        under_way += usize::from(sharp);
        diaries.iter().for_each(|diary| books.enter(diary));
        if kill % 10 == 9 {
            die_while_starting(&dir, &mut random).await;
            early += 1;
        }
        server = restart(&dir).await;
        books.check_news(&server.client(), &diaries).await;
        let open: Vec<&Write> = diaries.iter().flat_map(|d| &d.writes).filter(|w| w.answer.is_none()).collect();
        unanswered += open.len();
        kept += open.iter().filter(|w| books.entry_of.contains_key(&w.texts[0])).count();
    }
    books.check_all(&server.client()).await;
    server.terminate();
    every_check_is_ok(&dir);
    println!("{KILLS} kill points under load ({under_way} with a request under way), {early} more while starting");
    println!("{} acknowledged writes, {} of them replays of a repeated key", books.acknowledged, books.replays);
    println!("{unanswered} writes without an answer, of which {kept} were stored; {} events", books.sequence);
    assert!(under_way >= KILLS / 2 && books.acknowledged >= KILLS * 3 && books.replays >= 10, "the load was too small to prove much");
    assert!(kept > 0 && kept < unanswered, "both outcomes of an unanswered write occurred");
}

/// The very first start makes the host's own secret, the first tenant and the first key: none of them by halves either.
#[tokio::test]
async fn a_host_killed_in_its_first_start_comes_up_with_a_key_that_works() {
    let mut random = Random::fresh();
    for _ in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let no_key = [("REMEM_BOOTSTRAP_KEY", "")];
        let mut first = Server::spawn(folder.path(), &[], &no_key);
        tokio::time::sleep(Duration::from_micros(random.below(40_000))).await;
        first.kill9();
        let left: Vec<String> =
            std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name().to_string_lossy().into()).collect();
        let server = Server::start_with(folder.path(), &[], &no_key);
        let key = std::fs::read_to_string(folder.path().join("bootstrap.key")).unwrap_or_else(|e| panic!("{e}; the kill left {left:?}"));
        let answer = Client::new(&server.url, key.trim()).get(&Client::memory(MEMORIES[0], "stats")).await;
        assert_eq!(answer.status, 200, "{}; the kill left {left:?}", answer.text);
    }
}
