//! `reads`: get, list and search over HTTP in one memory that holds the whole corpus. The floor is
//! the same HTTP stack answering `/health`; the peer is plain SQLite in process on the same texts.

use crate::Setup;
use crate::client::{Request, memory};
use crate::corpus::{self, Contents, Corpus, MEMORY};
use crate::host::{KEY, ServerProcess};
use crate::load::Load;
use crate::peer::Peer;
use crate::table::{Table, ms, number, ratio};
use crate::text::SeededRandom;
use serde_json::json;
use std::time::Duration;

const CLIENTS: [usize; 2] = [1, 8];

#[derive(Clone, Copy)]
pub enum ReadOperation {
    Health,
    Get,
    List(usize),
    Search(QueryWords),
}

/// How common the words of a search are.
#[derive(Clone, Copy)]
pub enum QueryWords {
    /// Two words that a few dozen entries contain.
    Rare,
    /// A question: three content words among common ones, which about a thousand entries contain.
    Question,
    /// Three words; every third entry contains one of them.
    Common,
}

const READS: [(&str, ReadOperation); 7] = [
    ("floor: /health", ReadOperation::Health),
    ("get", ReadOperation::Get),
    ("list, limit 20", ReadOperation::List(20)),
    ("list, limit 100", ReadOperation::List(100)),
    (
        "search, 2 rare words",
        ReadOperation::Search(QueryWords::Rare),
    ),
    (
        "search, a question",
        ReadOperation::Search(QueryWords::Question),
    ),
    (
        "search, 3 common words",
        ReadOperation::Search(QueryWords::Common),
    ),
];

pub fn run(setup: &Setup, corpus: &mut Corpus) -> anyhow::Result<()> {
    let data = corpus.loaded(setup)?;
    let peer = Peer::open(&setup.new_folder("peer-")?)?;
    peer.load(&corpus.contents, setup.entries)?;
    let host = ServerProcess::start(setup, &data)?;
    let heads = [
        "Reads",
        "clients",
        "requests/s",
        "p50",
        "p95",
        "p99",
        "p50 : floor",
        "SQLite in process, p50",
        "p50 : SQLite",
    ];
    let mut table = Table::new(&heads);
    let run = setup.run_time * 3 / 4;
    for clients in CLIENTS {
        let mut floor = 0.0;
        for (name, read) in READS {
            let load = Load { clients, run };
            let sample = load.run_against(host.address(), |client, n| {
                read.request(&corpus.contents, setup.entries, client << 32 | n)
            })?;
            let p50 = sample.percentile(50.0);
            if matches!(read, ReadOperation::Health) {
                floor = p50;
            }
            let plain = if clients == 1 {
                read.peer(&peer, &corpus.contents, setup)?
            } else {
                None
            };
            let [median, p95, p99] = sample.percentiles();
            let versus = plain.map_or_else(String::new, |plain| ratio(p50, plain));
            let plain = plain.map_or_else(String::new, ms);
            table.row([
                name.to_owned(),
                clients.to_string(),
                number(sample.rate()),
                median,
                p95,
                p99,
                ratio(p50, floor),
                plain,
                versus,
            ]);
            eprintln!("{name}, {clients} clients: {}", sample.count());
        }
    }
    host.stop()?;
    table.print(&format!(
        "## Reads: one memory with {} entries",
        number(setup.entries as f64)
    ));
    Ok(())
}

impl ReadOperation {
    pub fn request(self, contents: &Contents, entries: usize, n: usize) -> Request {
        match self {
            ReadOperation::Health => Request::get(KEY, "/health"),
            ReadOperation::Get => Request::get(
                KEY,
                &memory(MEMORY, &format!("entries/{}", some_id(entries, n))),
            ),
            ReadOperation::List(limit) => {
                Request::get(KEY, &memory(MEMORY, &format!("entries?limit={limit}")))
            }
            ReadOperation::Search(words) => Request::post(
                KEY,
                &memory(MEMORY, "search"),
                &json!({"query": words.typed(contents, n)}).to_string(),
            ),
        }
    }

    /// The median of the same read in plain SQLite, in milliseconds.
    fn peer(self, peer: &Peer, contents: &Contents, setup: &Setup) -> anyhow::Result<Option<f64>> {
        let run = Duration::from_secs(1);
        let sample = match self {
            ReadOperation::Health => return Ok(None),
            ReadOperation::Get => peer.gets(run, |n| some_id(setup.entries, n))?,
            ReadOperation::List(limit) => peer.lists(run, limit)?,
            ReadOperation::Search(words) => {
                peer.searches(run, |n| words.content_words(contents, n).join(" OR "))?
            }
        };
        Ok(Some(sample.percentile(50.0)))
    }
}

/// The id of an existing entry.
pub fn some_id(entries: usize, n: usize) -> String {
    corpus::id(SeededRandom::new(n as u64).below(entries))
}

impl QueryWords {
    /// The words to look up.
    pub fn content_words(self, contents: &Contents, n: usize) -> Vec<String> {
        let mut random = SeededRandom::new(77 + n as u64);
        let (ranks, count) = match self {
            QueryWords::Rare => (2_000..15_000, 2),
            QueryWords::Question => (180..2_000, 3),
            QueryWords::Common => return ["one", "time", "people"].map(str::to_owned).to_vec(),
        };
        (0..count)
            .map(|_| {
                contents
                    .0
                    .at(ranks.start + random.below(ranks.len()))
                    .to_owned()
            })
            .collect()
    }

    /// The query that a person would type.
    fn typed(self, contents: &Contents, n: usize) -> String {
        let words = self.content_words(contents, n).join(" ");
        if matches!(self, QueryWords::Question) {
            format!("what did they do about the {words}?")
        } else {
            words
        }
    }
}
