//! What a host answers about a filled memory, in a form that can be kept and compared: digests of
//! everything that was listed and found. Also the first requests after an upgrade.

use crate::client::{Client, Request, memory};
use crate::corpus::{self, Contents, MEMORY};
use crate::host::{KEY, ServerProcess};
use crate::reads::QueryWords;
use crate::table::number;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The entries of a page.
const PAGE: usize = 1_000;
/// The number of searches whose hits are compared.
const SEARCHES: usize = 20;
/// The question that has had a few answers.
pub const SLOT: &str = "favourite-drink";
/// The memory of the first put after an upgrade, which is not compared.
const NEW_MEMORY: &str = "after-the-upgrade";

/// The answers of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    entries: usize,
    /// The digest of all entries in the order of the list.
    list: u64,
    /// The digest of the ids that searches find, best first.
    found: u64,
    /// The digest of the answers that a question had.
    history: u64,
    stats: u64,
}

impl Answers {
    /// Reads the whole memory.
    pub fn read(host: &ServerProcess) -> anyhow::Result<Answers> {
        let mut client = Client::connect(host.address())?;
        let (entries, list) = read_list(&mut client)?;
        let mut found = Digest::new();
        let contents = Contents::new();
        for n in 0..SEARCHES {
            let words = QueryWords::Question.content_words(&contents, n).join(" ");
            let body = json!({"query": words}).to_string();
            let request = Request::post(KEY, &memory(MEMORY, "search"), &body);
            let answer = json_of(&mut client, &request)?;
            for hit in answer["hits"].as_array().context("a search has hits")? {
                found.add(hit["entry"]["id"].as_str().unwrap_or_default());
            }
        }
        let mut digest_of = |path: &str| -> anyhow::Result<u64> {
            let answer = json_of(&mut client, &Request::get(KEY, &memory(MEMORY, path)))?;
            let mut digest = Digest::new();
            digest.add(&answer.to_string());
            Ok(digest.0)
        };
        Ok(Answers {
            entries,
            list,
            found: found.0,
            history: digest_of(&format!("slots/{SLOT}"))?,
            stats: digest_of("stats")?,
        })
    }

    pub fn summary(&self) -> String {
        format!(
            "{} entries by list, the ids of {SEARCHES} searches, a history and the counts of the memory",
            number(self.entries as f64)
        )
    }
}

fn read_list(client: &mut Client) -> anyhow::Result<(usize, u64)> {
    let mut digest = Digest::new();
    let mut count = 0;
    let mut cursor = String::new();
    loop {
        let path = memory(MEMORY, &format!("entries?limit={PAGE}{cursor}"));
        let page = json_of(client, &Request::get(KEY, &path))?;
        let entries = page["entries"].as_array().context("a list has entries")?;
        for entry in entries {
            digest.add(&entry.to_string());
        }
        if (count + entries.len()) / 100_000 > count / 100_000 {
            eprintln!("{} entries read", number((count + entries.len()) as f64));
        }
        count += entries.len();
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok((count, digest.0)),
        }
    }
}

fn json_of(client: &mut Client, request: &Request) -> anyhow::Result<Value> {
    Ok(serde_json::from_slice(client.send(request)?)?)
}

/// A digest that stays the same from build to build (FNV-1a), because it is kept with the store.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Gets an entry that was imported.
pub fn first_get(host: &ServerProcess) -> anyhow::Result<()> {
    let path = memory(MEMORY, &format!("entries/{}", corpus::id(7)));
    let mut client = Client::connect(host.address())?;
    client.send(&Request::get(KEY, &path)).map(drop)
}

/// Puts an entry into another memory.
pub fn first_put(host: &ServerProcess) -> anyhow::Result<()> {
    let body = json!({"content": "The upgrade is over"}).to_string();
    let request = Request::post(KEY, &memory(NEW_MEMORY, "entries"), &body);
    let mut client = Client::connect(host.address())?;
    client.send(&request).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_every_text_and_on_where_it_ends() {
        let of = |texts: &[&str]| {
            let mut digest = Digest::new();
            texts.iter().for_each(|text| digest.add(text));
            digest.0
        };
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
    }
}
