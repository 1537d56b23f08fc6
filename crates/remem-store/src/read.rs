//! What a read asks for: at which moment, which entries, how many.

use remem_core::{Entry, EntryId, InteractionId, MemoryRef, Revision, RunId, SessionId, Tier, Timestamp, Typology};

/// The moment a read looks at. Every read takes one, so none can forget that entries expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// The newest commit, at this instant.
    Now(Timestamp),
    /// What a run sees: the entries of one revision plus what the run itself wrote since. Time still ends entries, and
    /// erased text stays erased: both outrank the snapshot.
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
    /// What was true at an instant, as far as it is known by now: statements by their windows, those that hold no more included. What
    /// is not a statement counts as of now.
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

/// One way to look for candidates. A store answers only the probes that its features name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Entries that hold at least one of these words, judged by how rare and how frequent they are there.
    Lexical {
        /// Lower-cased words.
        terms: Vec<String>,
    },
}

/// An entry that a probe brought up.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The entry.
    pub entry: Entry,
    /// How well it answers the probe: larger is better, comparable within one answer only.
    pub score: f64,
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
