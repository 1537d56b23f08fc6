//! What a read asks for: at which moment, which entries, how many.

use remem_core::{
    Embedding, Entry, EntryId, InteractionId, MemoryRef, ModelId, Revision, RunId, SessionId, Tier,
    Timestamp, Trust, Typology,
};

/// The moment a read looks at. Every read takes one, so none can forget that entries expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// The newest commit, at this instant.
    Now(Timestamp),
    /// What a run sees: the entries of one revision plus what the run itself wrote since. Time
    /// still ends entries, and erased text stays erased: both outrank the snapshot.
    Snapshot {
        /// The revision when the run began.
        revision: Revision,
        /// The instant of this read.
        at: Timestamp,
        /// The instant when the run began: what was true then is true to it.
        since: Timestamp,
        /// The run itself and its completed children.
        own_runs: Vec<RunId>,
    },
    /// What was true at an instant, as far as it is known by now: statements by their windows,
    /// those that hold no more included. What is not a statement counts as of now.
    AsOf {
        /// The instant in question.
        then: Timestamp,
        /// The instant of this read.
        at: Timestamp,
    },
}

impl ReadAt {
    /// The instant by which expiry is judged.
    #[must_use]
    pub fn instant(&self) -> Timestamp {
        match self {
            ReadAt::Now(at) | ReadAt::Snapshot { at, .. } | ReadAt::AsOf { at, .. } => *at,
        }
    }
}

/// Which entries of a memory are wanted. All conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Tags the entry must all carry.
    pub tags: Vec<String>,
    /// Written at or after.
    pub created_from: Option<Timestamp>,
    /// Written before.
    pub created_to: Option<Timestamp>,
    /// Of this tier.
    pub tier: Option<Tier>,
    /// Of this kind.
    pub typology: Option<Typology>,
    /// Hanging on this session.
    pub session: Option<SessionId>,
    /// Hanging on this chat thread.
    pub interaction: Option<InteractionId>,
    /// Believed at least so far.
    pub trust_at_least: Option<Trust>,
}

impl Filter {
    /// The names of the trusts that it lets through, as a list for SQL; `None` for all.
    #[must_use]
    pub fn trust_names(&self) -> Option<String> {
        let least = self.trust_at_least?;
        let names = Trust::ALL.into_iter().filter(|trust| *trust >= least);
        let quoted: Vec<String> = names.map(|trust| format!("'{}'", trust.as_str())).collect();
        Some(quoted.join(", "))
    }
}

/// Where a page of a list (newest first) goes on: after this entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last entry's time.
    pub created_at: Timestamp,
    /// The last entry's id.
    pub id: EntryId,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Entries at the most.
    pub limit: u32,
    /// Where it begins; `None` is the newest entry.
    pub after: Option<Position>,
}

/// What finds records beside their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tie {
    /// Due at `until` or before; the earliest first, by `(due, key)`, after that place.
    Due {
        /// The last instant that counts.
        until: Timestamp,
        /// Where the last page ended.
        after: Option<(Timestamp, String)>,
    },
    /// Waiting for this; by name, after that one.
    Topic {
        /// What for.
        topic: String,
        /// Where the last page ended.
        after: Option<String>,
    },
    /// Made from this entry; by name.
    Source(MemoryRef, EntryId),
}

/// What a search looks for: words, a direction, or both. An entry that either brings up is a
/// candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Lower-cased words. An entry answers with each of them that it holds, judged by how rare it
    /// is in its memory; for a word that the memory does not hold at all, with those that are one
    /// slip of the pen away.
    pub terms: Vec<String>,
    /// A direction, and the model that it is from. Entries answer that have a vector of that model.
    pub vector: Option<(ModelId, Embedding)>,
}

impl Probe {
    /// Looks for words alone.
    #[must_use]
    pub fn words(terms: Vec<String>) -> Probe {
        Probe {
            terms,
            vector: None,
        }
    }
}

/// An entry that a search brought up. Its figures depend on its own memory alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The entry.
    pub entry: Entry,
    /// BM25 of the words over the entries of the memory; 0 without a word in common.
    pub lexical: f64,
    /// How alike its vector and the one looked for are, if both are there.
    pub cosine: Option<f64>,
    /// BM25 of its words that were probably meant by words the memory does not know, each by how
    /// alike they are written.
    pub typo: f64,
    /// How many entries say what it says, itself included.
    pub support: u64,
    /// How many actions rest on it.
    pub uses: u64,
}

/// The answer to a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Those that answer the words best and those that answer the direction best, `depth` of each
    /// at the most. By words, then by direction, then newest first.
    pub candidates: Vec<Candidate>,
    /// What an entry that holds every word again and again would come close to.
    pub lexical_best: f64,
}

/// What stands around an entry in its memory, in the order of `list`.
#[derive(Clone, Debug, PartialEq)]
pub struct Around {
    /// The entry.
    pub id: EntryId,
    /// Written right before it, the nearest first.
    pub before: Vec<Entry>,
    /// Written right after it, the nearest first.
    pub after: Vec<Entry>,
}

/// How far vectors have been made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorCounts {
    /// Texts that could have one.
    pub texts: u64,
    /// How many have one, by model.
    pub models: Vec<(ModelId, u64)>,
}

/// Counts of one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeStats {
    /// Live entries.
    pub entries: u64,
    /// Bytes of their text.
    pub content_bytes: u64,
    /// The oldest live entry's time.
    pub oldest: Option<Timestamp>,
    /// The newest live entry's time.
    pub newest: Option<Timestamp>,
    /// Live entries that will expire.
    pub expiring: u64,
}

/// A memory in the list of a tenant's memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeSummary {
    /// Its name.
    pub memory_ref: MemoryRef,
    /// Live entries.
    pub entries: u64,
}
