//! The arguments and results of reads: the moment, the filter, the page, and the found entries.

use remem_core::{
    Embedding, Entry, EntryId, InteractionId, MemoryRef, ModelId, Revision, RunId, SessionId, Tier,
    Timestamp, Trust, Typology,
};
use std::cmp::Reverse;

/// The moment at which a read sees memory. Every read takes one, so no read can ignore that entries
/// expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// The newest commit, at this instant.
    Now(Timestamp),
    /// The view of a run: the entries of one revision, and the writes of the run itself since then.
    /// Entries still expire, and erased text stays erased: both outrank the snapshot.
    Snapshot {
        /// The revision at which the run began.
        revision: Revision,
        /// The instant of this read.
        at: Timestamp,
        /// The instant at which the run began. A statement that was true then is true for the run.
        since: Timestamp,
        /// The run itself and its completed children, whose writes are visible.
        own_runs: Vec<RunId>,
    },
    /// The statements that were true at an instant, as far as is known now. They are selected by
    /// their validity windows, so ones that are no longer true are included. Entries that are not
    /// statements are read as of now.
    AsOf {
        /// The instant that the validity windows must contain.
        then: Timestamp,
        /// The instant of this read.
        at: Timestamp,
    },
}

impl ReadAt {
    /// The instant by which expiry is decided.
    #[must_use]
    pub fn instant(&self) -> Timestamp {
        match self {
            ReadAt::Now(at) | ReadAt::Snapshot { at, .. } | ReadAt::AsOf { at, .. } => *at,
        }
    }
}

/// A condition on the entries of a memory. All fields that are set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Tags that the entry must all have.
    pub tags: Vec<String>,
    /// Only entries written at or after this instant.
    pub created_from: Option<Timestamp>,
    /// Only entries written before this instant.
    pub created_to: Option<Timestamp>,
    pub tier: Option<Tier>,
    pub typology: Option<Typology>,
    /// Only entries of this session.
    pub session: Option<SessionId>,
    /// Only entries of this chat thread.
    pub interaction: Option<InteractionId>,
    /// Only entries of this trust or higher.
    pub trust_at_least: Option<Trust>,
}

impl Filter {
    /// The trust levels that it allows, the highest first.
    pub fn trusts_downwards(&self) -> impl Iterator<Item = Trust> {
        let least = self.trust_at_least;
        let mut all = Trust::ALL;
        all.sort_unstable_by_key(|trust| Reverse(*trust));
        all.into_iter()
            .filter(move |trust| least.is_none_or(|least| *trust >= least))
    }

    /// The names of the trust levels that it allows, as a list for SQL; `None` for all.
    #[must_use]
    pub fn trust_names(&self) -> Option<String> {
        let least = self.trust_at_least?;
        let names = Trust::ALL.into_iter().filter(|trust| *trust >= least);
        let quoted: Vec<String> = names.map(|trust| format!("'{}'", trust.as_str())).collect();
        Some(quoted.join(", "))
    }
}

/// The start of a page of a list (newest first): after this entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// The creation time of the previous page's last entry.
    pub created_at: Timestamp,
    /// The id of the previous page's last entry.
    pub id: EntryId,
}

/// The limits of one page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The most entries of the page.
    pub limit: u32,
    /// The position after which it begins; `None` begins with the newest entry.
    pub after: Option<ListPosition>,
}

/// The search terms of a query: words, a vector, or both. An entry that matches either is a
/// candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Lower-cased words. An entry matches each of them that it contains, weighted by how rare the
    /// word is in its memory. A word that the memory does not contain at all matches the words that
    /// are one spelling error away.
    pub terms: Vec<String>,
    /// A query vector with its model. Entries match that have a vector of that model.
    pub vector: Option<(ModelId, Embedding)>,
}

impl Probe {
    /// A probe with words only.
    #[must_use]
    pub fn words(terms: Vec<String>) -> Probe {
        Probe {
            terms,
            vector: None,
        }
    }
}

/// An entry that a search found. Its scores depend on its own memory only.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchCandidate {
    pub entry: Entry,
    /// The BM25 score of the words over the entries of the memory; 0 without a word in common.
    pub lexical: f64,
    /// The cosine similarity to the query vector, if both have a vector.
    pub cosine: Option<f64>,
    /// The BM25 score of words in it that are probably the corrections of misspelt query words,
    /// each weighted by its similarity.
    pub correction_score: f64,
    /// The number of entries that say the same, itself included.
    pub support: u64,
    /// The number of actions that rest on it.
    pub uses: u64,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateSet {
    /// The best matches by words and the best by vector, at most `depth` of each. Sorted by the
    /// word score, then by cosine, then newest first.
    pub candidates: Vec<SearchCandidate>,
    /// The upper bound of the word score, which an entry with every word repeated many times would
    /// approach.
    pub lexical_max: f64,
}

/// The entries next to an entry in its memory, in the order of `list`.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbours {
    pub id: EntryId,
    /// Written right before it, the nearest first.
    pub before: Vec<Entry>,
    /// Written right after it, the nearest first.
    pub after: Vec<Entry>,
}

/// The progress of embedding a tenant's texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorCounts {
    /// The number of texts that can have a vector.
    pub texts: u64,
    /// The number of vectors by model.
    pub models: Vec<(ModelId, u64)>,
}

/// The totals of one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// The number of live entries.
    pub entries: u64,
    /// The total size of their texts.
    pub content_bytes: u64,
    /// The creation time of the oldest live entry.
    pub oldest: Option<Timestamp>,
    /// The creation time of the newest live entry.
    pub newest: Option<Timestamp>,
    /// The number of live entries that will expire.
    pub expiring: u64,
    /// The number of live entries that name a subject.
    pub with_subject: u64,
}

/// A memory in the list of a tenant's memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySummary {
    pub memory_ref: MemoryRef,
    /// The number of live entries.
    pub entries: u64,
}
