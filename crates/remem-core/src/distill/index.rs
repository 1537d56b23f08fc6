//! Owns `MEMORY-INDEX.json`: the archives of a tenant's memories with their topics, in one small
//! file that an agent can read at the start of a session, and the same as Markdown for people.

use super::ENGINE;
use crate::ids::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The path of the index in a workspace.
pub const INDEX_PATH: &str = "MEMORY-INDEX.json";
/// The path of the same index as Markdown.
pub const MARKDOWN_PATH: &str = "MEMORY-INDEX.md";
/// The largest size of the file; the oldest archives are dropped first.
pub const INDEX_BYTES_MAX: usize = 32_768;
const VERSION: u32 = 1;

/// An archive in the index, with its topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedArchive {
    /// The hash that names the archive.
    pub sha256: String,
    /// The entry with the text of the digest.
    pub entry_id: String,
    /// The number of entries that were distilled.
    pub source_count: u64,
    /// The creation time of the oldest of these entries.
    pub from: Timestamp,
    /// The creation time of the newest of these entries.
    pub to: Timestamp,
    /// The topics of the digest.
    pub topics: Vec<String>,
}

/// The archives of a tenant's memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveIndex {
    memories: BTreeMap<String, Vec<IndexedArchive>>,
}

/// The error for text that is not an index. A writer then starts a new index from the archives that
/// it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an index of archives")]
pub struct UnreadableIndex;

// The fields of each struct are in the order of their names: canonical JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexFile {
    engine: String,
    memories: Vec<IndexFileMemory>,
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexFileMemory {
    archives: Vec<IndexFileArchive>,
    #[serde(rename = "memoryRef")]
    memory_ref: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct IndexFileArchive {
    entry_id: String,
    from: String,
    sha256: String,
    source_count: u64,
    to: String,
    topics: Vec<String>,
}

impl ArchiveIndex {
    /// Adds an archive to a memory, replacing one with the same entry.
    pub fn add(&mut self, memory_ref: &str, listed: IndexedArchive) {
        let archives = self.memories.entry(memory_ref.to_owned()).or_default();
        archives.retain(|other| other.entry_id != listed.entry_id);
        archives.push(listed);
        archives.sort_by(|a, b| recency_key(b).cmp(&recency_key(a)));
        self.drop_oldest();
    }

    /// Removes the archive of an entry that was deleted; its topics must not outlive it.
    pub fn remove(&mut self, memory_ref: &str, entry_id: &str) {
        if let Some(archives) = self.memories.get_mut(memory_ref) {
            archives.retain(|listed| listed.entry_id != entry_id);
        }
        self.memories.retain(|_, archives| !archives.is_empty());
    }

    /// Removes a memory with all its archives.
    pub fn remove_memory(&mut self, memory_ref: &str) {
        self.memories.remove(memory_ref);
    }

    /// The archives of a memory, newest first.
    #[must_use]
    pub fn archives(&self, memory_ref: &str) -> &[IndexedArchive] {
        self.memories.get(memory_ref).map_or(&[], Vec::as_slice)
    }

    /// The content of the file.
    #[must_use]
    pub fn json(&self) -> String {
        let memory = |(memory_ref, archives): (&String, &Vec<IndexedArchive>)| IndexFileMemory {
            archives: archives.iter().map(to_file_archive).collect(),
            memory_ref: memory_ref.clone(),
        };
        to_json(&IndexFile {
            engine: ENGINE.to_owned(),
            memories: self.memories.iter().map(memory).collect(),
            version: VERSION,
        })
    }

    /// Parses the file. It may have been edited, so everything is checked.
    pub fn parse(json: &str) -> Result<ArchiveIndex, UnreadableIndex> {
        let file: IndexFile = serde_json::from_str(json).map_err(|_| UnreadableIndex)?;
        if file.version != VERSION {
            return Err(UnreadableIndex);
        }
        let mut memories: BTreeMap<String, Vec<IndexedArchive>> = BTreeMap::new();
        for memory in file.memories {
            let lines: Option<Vec<IndexedArchive>> =
                memory.archives.into_iter().map(from_file_archive).collect();
            let mut archives = lines
                .filter(|lines| !lines.is_empty())
                .ok_or(UnreadableIndex)?;
            archives.sort_by(|a, b| recency_key(b).cmp(&recency_key(a)));
            if memories.insert(memory.memory_ref, archives).is_some() {
                return Err(UnreadableIndex);
            }
        }
        let mut index = ArchiveIndex { memories };
        index.drop_oldest();
        Ok(index)
    }

    /// The index as Markdown, for people. Names are untrusted text, so they are written as code
    /// spans and cannot become markup.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut lines = vec!["# Memory index".to_owned()];
        for (memory_ref, archives) in &self.memories {
            lines.extend([
                String::new(),
                format!("## {}", code_span(memory_ref)),
                String::new(),
            ]);
            lines.extend(archives.iter().map(|listed| {
                let topics: Vec<String> =
                    listed.topics.iter().map(|topic| code_span(topic)).collect();
                let from = listed.from.rfc3339();
                let to = listed.to.rfc3339();
                let about = if topics.is_empty() {
                    String::new()
                } else {
                    format!(": {}", topics.join(", "))
                };
                format!(
                    "- {} ({from} to {to}, {} entries){about}",
                    code_span(&listed.entry_id),
                    listed.source_count
                )
            }));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// Drops the oldest archives of all memories until the file is small enough.
    fn drop_oldest(&mut self) {
        let mut size = self.json().len();
        while size > INDEX_BYTES_MAX {
            let oldest = |(name, archives): (&String, &Vec<IndexedArchive>)| {
                archives
                    .last()
                    .map(|last| (owned_recency_key(last), name.clone()))
            };
            let Some((_, name)) = self.memories.iter().filter_map(oldest).min() else {
                return;
            };
            let Some(archives) = self.memories.get_mut(&name) else {
                return;
            };
            let dropped = archives.pop();
            // The estimate may be off by a comma, so the exact size is measured before more is
            // dropped.
            size -= dropped.map_or(0, |listed| to_json(&to_file_archive(&listed)).len());
            if archives.is_empty() {
                self.memories.remove(&name);
            }
            if size <= INDEX_BYTES_MAX {
                size = self.json().len();
            }
        }
    }
}

/// The sort key by which archives are newer or older; the ids make it a total order.
fn recency_key(listed: &IndexedArchive) -> (Timestamp, Timestamp, &str, &str) {
    (listed.to, listed.from, &listed.entry_id, &listed.sha256)
}

/// The same sort key with owned strings.
fn owned_recency_key(listed: &IndexedArchive) -> (Timestamp, Timestamp, String, String) {
    (
        listed.to,
        listed.from,
        listed.entry_id.clone(),
        listed.sha256.clone(),
    )
}

fn to_file_archive(listed: &IndexedArchive) -> IndexFileArchive {
    IndexFileArchive {
        entry_id: listed.entry_id.clone(),
        from: listed.from.rfc3339(),
        sha256: listed.sha256.clone(),
        source_count: listed.source_count,
        to: listed.to.rfc3339(),
        topics: listed.topics.clone(),
    }
}

fn from_file_archive(line: IndexFileArchive) -> Option<IndexedArchive> {
    let instant = |text: &str| {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|instant| Timestamp(instant.as_millisecond()))
    };
    Some(IndexedArchive {
        from: instant(&line.from)?,
        to: instant(&line.to)?,
        sha256: line.sha256,
        entry_id: line.entry_id,
        source_count: line.source_count,
        topics: line.topics,
    })
}

fn to_json(value: &impl Serialize) -> String {
    // Strings, integers and lists: serialising them cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

/// The text as a code span on one line; a backtick inside would end the span, so it becomes a
/// space.
fn code_span(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|c| if c.is_control() || c == '`' { ' ' } else { c })
        .collect();
    format!("`{plain}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(n: i64) -> IndexedArchive {
        IndexedArchive {
            sha256: format!("{n:064x}"),
            entry_id: format!("mem_{n}"),
            source_count: 3,
            from: Timestamp(n * 1_000),
            to: Timestamp(n * 1_000 + 500),
            topics: vec!["skiing".to_owned(), "oslo".to_owned()],
        }
    }

    #[test]
    fn the_index_is_canonical_json_and_round_trips() {
        let mut index = ArchiveIndex::default();
        index.add("b", listed(1));
        index.add("a", listed(2));
        index.add("a", listed(3));
        let json = index.json();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json)
                .unwrap()
                .to_string(),
            json,
            "keys are sorted"
        );
        assert!(
            json.starts_with(
                r#"{"engine":"remem-distill-1","memories":[{"archives":[{"entryId":"mem_3","from":"1970-01-01T00:00:03.000Z","#
            )
        );
        assert_eq!(ArchiveIndex::parse(&json), Ok(index.clone()));
        assert_eq!(
            index
                .archives("a")
                .iter()
                .map(|l| l.entry_id.as_str())
                .collect::<Vec<_>>(),
            ["mem_3", "mem_2"]
        );
        for bad in [
            "",
            "{}",
            &json.replace("\"version\":1", "\"version\":2"),
            &json.replace("1970", "x"),
            &json.replace("\"b\"", "\"a\""),
        ] {
            assert_eq!(ArchiveIndex::parse(bad), Err(UnreadableIndex), "{bad}");
        }
    }

    #[test]
    fn additions_are_order_independent_and_deduplicated() {
        let build = |order: &[i64]| {
            let mut index = ArchiveIndex::default();
            order
                .iter()
                .for_each(|&n| index.add(if n % 2 == 0 { "a" } else { "b" }, listed(n)));
            index.json()
        };
        assert_eq!(build(&[1, 2, 3, 4]), build(&[4, 2, 3, 1, 1]));
    }

    #[test]
    fn the_oldest_archives_are_dropped_at_the_size_limit() {
        let mut index = ArchiveIndex::default();
        (0..400).for_each(|n| index.add(if n % 3 == 0 { "a" } else { "b" }, listed(n)));
        let size = index.json().len();
        assert!(
            size <= INDEX_BYTES_MAX && size > INDEX_BYTES_MAX - 300,
            "{size}"
        );
        let mut kept: Vec<i64> = ["a", "b"]
            .iter()
            .flat_map(|name| index.archives(name))
            .map(|l| l.from.0 / 1_000)
            .collect();
        kept.sort_unstable();
        assert_eq!(
            kept,
            (400 - kept.len() as i64..400).collect::<Vec<_>>(),
            "the newest, without gaps"
        );
    }

    #[test]
    fn removed_archives_and_memories_leave_no_trace() {
        let mut index = ArchiveIndex::default();
        index.add("a", listed(1));
        index.add("b", listed(2));
        index.remove("a", "mem_1");
        index.remove_memory("b");
        assert_eq!(index, ArchiveIndex::default());
    }

    #[test]
    fn the_markdown_index_has_one_escaped_line_per_archive() {
        let mut index = ArchiveIndex::default();
        index.add(
            "a`\n# b",
            IndexedArchive {
                topics: vec!["<b>`".to_owned()],
                ..listed(1)
            },
        );
        let expected = "# Memory index\n\n## `a  # b`\n\n- `mem_1` (1970-01-01T00:00:01.000Z to 1970-01-01T00:00:01.500Z, 3 entries): `<b> `\n";
        assert_eq!(index.markdown(), expected);
    }
}
