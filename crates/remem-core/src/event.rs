//! The event: the stored, content-free record of a change. Ids, counts and reserved tags; never text a caller wrote.

use crate::ids::{EntryId, MemoryRef, Revision, RunId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

/// What happened, with the ids of what it happened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventBody {
    /// An entry was written.
    Written(Written),
    /// An entry was deleted by a caller.
    Deleted(EntryRef),
    /// An entry's time ran out and its text was removed.
    Expired(EntryRef),
    /// A workspace file has a new version, or was deleted.
    WorkspaceUpdated(FileRef),
}

/// The kind of an event: its stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// `memory.written`
    Written,
    /// `memory.deleted`
    Deleted,
    /// `memory.expired`
    Expired,
    /// `workspace.updated`
    WorkspaceUpdated,
}

/// Payload of `memory.written`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Written {
    /// The memory.
    pub memory_ref: String,
    /// The entry.
    pub memory_id: String,
    /// Reserved tags only: a caller's own tags can be content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Kinds of secret shapes that were redacted or, where the tenant prefers that, only flagged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
}

/// Payload of events that name one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryRef {
    /// The memory.
    pub memory_ref: String,
    /// The entry.
    pub memory_id: String,
}

/// Payload of `workspace.updated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileRef {
    /// The file.
    pub path: String,
    /// Its version; a deletion counts as one.
    pub version: u64,
}

impl EntryRef {
    /// The payload naming `id` in `memory_ref`.
    #[must_use]
    pub fn new(memory_ref: &MemoryRef, id: &EntryId) -> EntryRef {
        EntryRef { memory_ref: memory_ref.as_str().to_owned(), memory_id: id.as_str().to_owned() }
    }
}

/// Prefixes of tags that the host itself gives meaning to; only these appear in events.
pub const RESERVED_TAG_PREFIXES: [&str; 2] = ["source:", "compacted-from:"];

/// Whether a tag may appear in an event.
#[must_use]
pub fn is_reserved_tag(tag: &str) -> bool {
    RESERVED_TAG_PREFIXES.iter().any(|prefix| tag.starts_with(prefix))
}

impl EventKind {
    /// Every kind.
    pub const ALL: [EventKind; 4] = [EventKind::Written, EventKind::Deleted, EventKind::Expired, EventKind::WorkspaceUpdated];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Written => "memory.written",
            EventKind::Deleted => "memory.deleted",
            EventKind::Expired => "memory.expired",
            EventKind::WorkspaceUpdated => "workspace.updated",
        }
    }
}

impl EventBody {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        match self {
            EventBody::Written(_) => EventKind::Written,
            EventBody::Deleted(_) => EventKind::Deleted,
            EventBody::Expired(_) => EventKind::Expired,
            EventBody::WorkspaceUpdated(_) => EventKind::WorkspaceUpdated,
        }
    }

    /// The payload as JSON, for storage and for the wire alike: there is nothing in it to hide.
    #[must_use]
    pub fn payload(&self) -> serde_json::Value {
        match self {
            EventBody::Written(w) => serde_json::to_value(w),
            EventBody::Deleted(r) | EventBody::Expired(r) => serde_json::to_value(r),
            EventBody::WorkspaceUpdated(file) => serde_json::to_value(file),
        }
        .expect("structs of strings always serialise")
    }

    /// Reads a stored pair of kind and payload; `None` if this version does not know it.
    #[must_use]
    pub fn from_stored(kind: &str, payload: &str) -> Option<EventBody> {
        let kind = EventKind::ALL.into_iter().find(|k| k.as_str() == kind)?;
        match kind {
            EventKind::Written => serde_json::from_str(payload).ok().map(EventBody::Written),
            EventKind::Deleted => serde_json::from_str(payload).ok().map(EventBody::Deleted),
            EventKind::Expired => serde_json::from_str(payload).ok().map(EventBody::Expired),
            EventKind::WorkspaceUpdated => serde_json::from_str(payload).ok().map(EventBody::WorkspaceUpdated),
        }
    }
}

/// A stored event: its body, where it stands in the tenant's log, and the hash that chains it to the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the tenant's log.
    pub seq: Seq,
    /// The commit it belongs to.
    pub revision: Revision,
    /// When that commit was made.
    pub at: Timestamp,
    /// The run that caused it, if one did.
    pub run: Option<RunId>,
    /// What happened.
    pub body: EventBody,
    /// `chain_hash` of this event: covers the event and, through its predecessor's hash, the whole log before it.
    pub hash: [u8; 32],
}

/// The hash of an event given its predecessor's; the first event's predecessor is all zeros.
#[must_use]
pub fn chain_hash(previous: &[u8; 32], seq: Seq, revision: Revision, at: Timestamp, kind: &str, payload: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("remembrancer event chain v1");
    hasher.update(previous);
    hasher.update(&seq.0.to_le_bytes());
    hasher.update(&revision.0.to_le_bytes());
    hasher.update(&at.0.to_le_bytes());
    hasher.update(&(kind.len() as u64).to_le_bytes());
    hasher.update(kind.as_bytes());
    hasher.update(payload.as_bytes());
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_survive_storage() {
        let entry = EntryRef { memory_ref: "m".into(), memory_id: "e".into() };
        let written = Written { memory_ref: "m".into(), memory_id: "e".into(), tags: vec!["source:chat".into()], flags: vec![] };
        let file = FileRef { path: "a/b.md".into(), version: 3 };
        for body in
            [EventBody::Written(written), EventBody::Deleted(entry.clone()), EventBody::Expired(entry), EventBody::WorkspaceUpdated(file)]
        {
            let stored = body.payload().to_string();
            assert_eq!(EventBody::from_stored(body.kind().as_str(), &stored), Some(body));
        }
        assert_eq!(EventBody::from_stored("memory.unheard-of", "{}"), None);
    }

    #[test]
    fn the_chain_depends_on_every_part() {
        let zero = [0; 32];
        let base = chain_hash(&zero, Seq(1), Revision(1), Timestamp(1), "k", "p");
        assert_ne!(base, chain_hash(&base, Seq(1), Revision(1), Timestamp(1), "k", "p"));
        assert_ne!(base, chain_hash(&zero, Seq(2), Revision(1), Timestamp(1), "k", "p"));
        assert_ne!(base, chain_hash(&zero, Seq(1), Revision(2), Timestamp(1), "k", "p"));
        assert_ne!(base, chain_hash(&zero, Seq(1), Revision(1), Timestamp(2), "k", "p"));
        assert_ne!(base, chain_hash(&zero, Seq(1), Revision(1), Timestamp(1), "kp", ""));
    }
}
