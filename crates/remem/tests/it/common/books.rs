//! Clients that write, and books that compare the answers they received with what the host returns.

use super::Client;
use super::client::{HttpAnswer, finish};
use remem_testkit::SeededRandom;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const MEMORIES: [&str; 3] = ["crash/one", "crash/two", "crash/three"];

/// One write as its client remembers it.
#[derive(Clone)]
pub struct WriteRecord {
    pub memory: &'static str,
    /// The texts, each used only once in the whole test.
    pub texts: Vec<String>,
    pub key: Option<String>,
    /// `None`: the connection broke before an answer came.
    pub answer: Option<WriteAck>,
}

/// The ids, revision and replay mark of the answer to a write.
#[derive(Clone, PartialEq, Debug)]
pub struct WriteAck {
    pub ids: Vec<String>,
    pub revision: String,
    pub replayed: bool,
}

/// One delete as its client remembers it.
pub struct DeleteRecord {
    pub memory: &'static str,
    pub id: String,
    pub acknowledged: bool,
}

/// The writes and deletes of one client between two kills.
#[derive(Default)]
pub struct WriterLog {
    pub writes: Vec<WriteRecord>,
    pub deletions: Vec<DeleteRecord>,
}

/// A client: it outlives the servers.
pub struct Writer {
    pub number: usize,
    pub count: usize,
    pub random: SeededRandom,
    /// Entries it knows to be stored, and may delete.
    pub known: Vec<(&'static str, String)>,
    /// Keyed writes to send again after the restart: without an answer, or (sometimes) with one,
    /// which must be repeated.
    pub again: Vec<WriteRecord>,
    pub in_flight: Arc<AtomicUsize>,
}

impl Writer {
    /// Writes until the server dies.
    pub async fn write_until_the_end(&mut self, client: Client) -> WriterLog {
        let mut diary = WriterLog::default();
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

    pub async fn put_new(
        &mut self,
        client: &Client,
        entries: usize,
        keyed: bool,
        diary: &mut WriterLog,
    ) -> bool {
        let texts: Vec<String> = (0..entries)
            .map(|n| format!("text {}-{}-{n}", self.number, self.count))
            .collect();
        let key = keyed.then(|| format!("key-{}-{}", self.number, self.count));
        self.count += 1;
        let memory = MEMORIES[self.random.below(3) as usize];
        self.put(
            client,
            WriteRecord {
                memory,
                texts,
                key,
                answer: None,
            },
            diary,
        )
        .await
    }

    /// Sends a write, records its outcome, and returns whether the server is still alive.
    pub async fn put(
        &mut self,
        client: &Client,
        mut write: WriteRecord,
        diary: &mut WriterLog,
    ) -> bool {
        let bodies: Vec<Value> = write
            .texts
            .iter()
            .map(|text| json!({"content": text, "tags": ["crash"]}))
            .collect();
        let (rest, body) = if bodies.len() == 1 {
            ("entries", bodies[0].clone())
        } else {
            ("entries:batch", json!({"entries": bodies}))
        };
        let mut request = client
            .request(Method::POST, &Client::memory(write.memory, rest))
            .json(&body);
        if let Some(key) = &write.key {
            request = request.header("idempotency-key", key);
        }
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let answer = finish(request).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let Some(answer) = answered(answer) else {
            // The client keeps the write to send it again; the books keep a copy.
            self.again
                .extend(write.key.is_some().then(|| write.clone()));
            diary.writes.push(WriteRecord {
                answer: None,
                ..write
            });
            return false;
        };
        let ack = acknowledgement(&answer.is(201));
        let first = write.answer.is_none();
        if let Some(before) = write.answer.replace(ack.clone()) {
            assert_eq!(
                ack,
                WriteAck {
                    replayed: true,
                    ..before
                },
                "a repeated key repeats its answer"
            );
        }
        if first {
            self.known
                .extend(ack.ids.iter().map(|id| (write.memory, id.clone())));
            self.again
                .extend((write.key.is_some() && self.random.below(4) == 0).then(|| write.clone()));
        }
        diary.writes.push(write);
        true
    }

    pub async fn delete(&mut self, client: &Client, diary: &mut WriterLog) -> bool {
        if self.known.is_empty() {
            return true;
        }
        let chosen = self.random.below(self.known.len() as u64) as usize;
        let (memory, id) = self.known.swap_remove(chosen);
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        let answer = finish(client.request(
            Method::DELETE,
            &Client::memory(memory, &format!("entries/{id}")),
        ))
        .await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        let answer = answered(answer);
        let acknowledged = answer.is_some();
        if let Some(answer) = answer {
            answer.is(204);
        }
        diary.deletions.push(DeleteRecord {
            memory,
            id,
            acknowledged,
        });
        acknowledged
    }
}

/// Returns an answer that settles the outcome: an error of the host, like a broken connection, does
/// not say whether the request was carried out.
fn answered<E>(answer: Result<HttpAnswer, E>) -> Option<HttpAnswer> {
    answer.ok().filter(|answer| answer.status < 500)
}

pub fn acknowledgement(answer: &HttpAnswer) -> WriteAck {
    let body = answer.json();
    let entries = body["entries"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![body]);
    WriteAck {
        ids: entries.iter().map(|entry| text(&entry["id"])).collect(),
        revision: answer.header("remem-revision").to_owned(),
        replayed: answer.header("openwop-idempotent-replay") == "true",
    }
}

pub fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("text is expected, not {value}"))
        .to_owned()
}

/// Everything that is known: the answers that clients received, and the state that the host has
/// shown.
#[derive(Default)]
pub struct KnownState {
    /// Acknowledged entries: id to memory, text and revision.
    pub acknowledged_entries: HashMap<String, (&'static str, String, String)>,
    /// The id of the entry that holds a text, which never changes.
    pub entry_of: HashMap<String, String>,
    /// Writes whose answer never came, by their first text.
    pub unanswered: HashMap<String, WriteRecord>,
    pub asked_to_delete: HashMap<String, bool>,
    /// From the event feed: id to memory and revision.
    pub written: HashMap<String, (String, String)>,
    pub deleted: HashSet<String>,
    pub sequence: u64,
    /// Live entries seen so far, so that only newer ones are listed.
    pub seen: HashSet<String>,
    pub acknowledged: usize,
    pub replays: usize,
}

impl KnownState {
    /// Takes over the records of a client. Called before the host is read again.
    pub fn add_log(&mut self, diary: &WriterLog) {
        for write in &diary.writes {
            match &write.answer {
                Some(ack) => self.add_acknowledged(write, ack),
                None if self.was_acknowledged(write) => {}
                None => drop(
                    self.unanswered
                        .insert(write.texts[0].clone(), write.clone()),
                ),
            }
        }
        for deletion in &diary.deletions {
            self.acknowledged += usize::from(deletion.acknowledged);
            self.asked_to_delete
                .insert(deletion.id.clone(), deletion.acknowledged);
        }
    }

    pub fn was_acknowledged(&self, write: &WriteRecord) -> bool {
        self.entry_of
            .get(&write.texts[0])
            .is_some_and(|id| self.acknowledged_entries.contains_key(id))
    }

    pub fn add_acknowledged(&mut self, write: &WriteRecord, ack: &WriteAck) {
        assert_eq!(ack.ids.len(), write.texts.len());
        self.acknowledged += 1;
        self.replays += usize::from(ack.replayed);
        // The host showed after the restart whether the unanswered write had been stored.
        let stored_before = self.entry_of.contains_key(&write.texts[0]);
        assert_eq!(
            ack.replayed, stored_before,
            "a key is replayed exactly if its write was stored: {:?}",
            write.key
        );
        self.unanswered.remove(&write.texts[0]);
        for (id, text) in ack.ids.iter().zip(&write.texts) {
            let before = self.entry_of.insert(text.clone(), id.clone());
            assert!(
                before.is_none_or(|before| before == *id),
                "one text, one entry: {text}"
            );
            self.acknowledged_entries.insert(
                id.clone(),
                (write.memory, text.clone(), ack.revision.clone()),
            );
        }
    }

    /// Reads the new part of the feed: no gaps, no repeats, nothing twice.
    pub async fn read_events(&mut self, client: &Client) -> BTreeSet<String> {
        let mut fresh = BTreeSet::new();
        for event in client.events_after(self.sequence).await {
            self.sequence += 1;
            let memory = text(&event["payload"]["memoryRef"]);
            let id = text(&event["payload"]["memoryId"]);
            match event["type"].as_str() {
                Some("memory.written") => {
                    let twice = self
                        .written
                        .insert(id.clone(), (memory, text(&event["revision"])));
                    assert!(twice.is_none(), "{id} was written twice");
                    fresh.insert(id);
                }
                Some("memory.deleted") => {
                    assert!(
                        self.written.contains_key(&id) && self.asked_to_delete.contains_key(&id),
                        "{id} was not to be deleted"
                    );
                    assert!(self.deleted.insert(id.clone()), "{id} was deleted twice");
                }
                other => panic!("unexpected event {other:?}"),
            }
        }
        fresh
    }

    /// Checks one entry that the host returned against the books.
    pub fn check_entry(&mut self, memory: &str, entry: &Value) {
        let id = text(&entry["id"]);
        let content = text(&entry["content"]);
        let event = self
            .written
            .get(&id)
            .unwrap_or_else(|| panic!("{id} is stored without its event"));
        assert_eq!(event.0, memory);
        assert!(!self.deleted.contains(&id), "{id} came back");
        match self.acknowledged_entries.get(&id) {
            Some(ack) => assert_eq!((ack.0, &ack.1), (memory, &content), "{id}"),
            None => assert!(
                self.unanswered
                    .values()
                    .any(|w| w.memory == memory && w.texts.contains(&content)),
                "nobody wrote {content}"
            ),
        }
        let before = self.entry_of.insert(content.clone(), id.clone());
        assert!(
            before.is_none_or(|before| before == id),
            "{content} is stored twice"
        );
    }

    /// Checks, after a restart, everything that is new since the one before.
    pub async fn check_news(&mut self, client: &Client, diaries: &[WriterLog]) {
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
            diary
                .writes
                .iter()
                .for_each(|write| self.check_write(write));
            for deletion in &diary.deletions {
                self.check_deletion(client, deletion).await;
            }
        }
    }

    /// Live entries that were not there before; they come first in a list.
    pub async fn new_entries(&self, client: &Client, memory: &str) -> Vec<Value> {
        let mut cursor = String::new();
        let mut new = Vec::new();
        loop {
            let page = client
                .get(&Client::memory(
                    memory,
                    &format!("entries?limit=100{cursor}"),
                ))
                .await
                .is(200)
                .json();
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

    /// Checks that an acknowledged write is stored as it was acknowledged, and that one without an
    /// answer is stored as a whole or not at all.
    pub fn check_write(&self, write: &WriteRecord) {
        if let Some(ack) = &write.answer {
            for id in &ack.ids {
                let event = self
                    .written
                    .get(id)
                    .unwrap_or_else(|| panic!("the acknowledged {id} is lost"));
                assert_eq!((event.0.as_str(), &event.1), (write.memory, &ack.revision));
            }
        }
        let stored: Vec<&String> = write
            .texts
            .iter()
            .filter_map(|text| self.entry_of.get(text))
            .collect();
        assert!(
            stored.is_empty() || stored.len() == write.texts.len(),
            "half a batch is stored: {:?}",
            write.texts
        );
        let revisions: BTreeSet<&str> = stored
            .iter()
            .map(|id| self.written[*id].1.as_str())
            .collect();
        assert!(revisions.len() <= 1, "a batch is one commit");
    }

    /// An acknowledged delete stays done; one without an answer happened as a whole or not at all.
    pub async fn check_deletion(&self, client: &Client, deletion: &DeleteRecord) {
        let gone = self.deleted.contains(&deletion.id);
        assert!(
            gone || !deletion.acknowledged,
            "the acknowledged delete of {} is undone",
            deletion.id
        );
        let answer = client
            .get(&Client::memory(
                deletion.memory,
                &format!("entries/{}", deletion.id),
            ))
            .await;
        assert_eq!(
            answer.status,
            if gone { 404 } else { 200 },
            "{}",
            deletion.id
        );
    }

    /// Checks everything once more, from the beginning.
    pub async fn check_all(&mut self, client: &Client) {
        let events = self.sequence;
        let known = std::mem::take(&mut self.written);
        (self.sequence, self.deleted) = (0, HashSet::new());
        self.read_events(client).await;
        assert_eq!(
            (self.sequence, &self.written),
            (events, &known),
            "the feed does not change afterwards"
        );
        let mut live = HashSet::new();
        for memory in MEMORIES {
            let entries = client.all_entries(memory).await;
            let stats = client
                .get(&Client::memory(memory, "stats"))
                .await
                .is(200)
                .json();
            assert_eq!(stats["entries"], entries.len());
            for entry in &entries {
                self.check_entry(memory, entry);
                assert!(live.insert(text(&entry["id"])), "an entry is listed twice");
            }
        }
        let expected: HashSet<String> = self
            .written
            .keys()
            .filter(|id| !self.deleted.contains(*id))
            .cloned()
            .collect();
        assert_eq!(
            live, expected,
            "live entries are those written and not deleted"
        );
        for id in self
            .acknowledged_entries
            .keys()
            .filter(|id| !self.asked_to_delete.contains_key(*id))
        {
            assert!(live.contains(id), "the acknowledged {id} is lost");
        }
        for (id, _) in self
            .asked_to_delete
            .iter()
            .filter(|(_, acknowledged)| **acknowledged)
        {
            assert!(
                !live.contains(id),
                "the acknowledged delete of {id} is undone"
            );
        }
    }
}
