//! One change of a batch: what it does, the memories it touches, and the event that reports it.
//! Whether a change applies is decided elsewhere.

use crate::admission::{Admitted, RuleText};
use crate::embedding::{Embedding, ModelId};
use crate::event::{
    EntryLinked, EntryRef, EntryRetired, EntryWritten, EventBody, RuleRef, is_reserved_tag,
};
use crate::ids::{EntryId, MemoryRef, RuleId, Timestamp, WorldId};
use crate::record::{Precondition, RecordBody, RecordKind, RecordLinks};
use crate::sabotage;
use crate::trust::Evidence;

/// One change of a batch, with the condition under which a store applies it.
#[derive(Clone, Debug)]
pub enum Change {
    /// Stores a new entry.
    Put {
        /// The id of the new entry.
        id: EntryId,
        admitted: Box<Admitted>,
        /// The node and agent of a run that wrote it.
        cause: Cause,
        /// The entries its text was made from.
        sources: Vec<(MemoryRef, EntryId)>,
    },
    /// Replaces the text of an entry by the result of redacting it by the current rules. Does
    /// nothing if the entry is not there.
    Rewrite {
        id: EntryId,
        /// The entry's text, admitted again.
        admitted: Box<Admitted>,
    },
    /// Removes an entry because a caller asked; its id cannot be used again. The text is erased as
    /// soon as no open run reads a snapshot that holds it: usually at once.
    Delete { memory_ref: MemoryRef, id: EntryId },
    /// Removes an entry that has expired; does nothing unless it is expired at the batch's instant.
    Expire { memory_ref: MemoryRef, id: EntryId },
    /// Erases the text of an entry that was removed while a run could still read it. Does nothing
    /// before the last such run has ended.
    Erase { memory_ref: MemoryRef, id: EntryId },
    /// Removes an entry because another one of its memory replaces it. Does nothing unless both are
    /// there.
    Retire {
        /// The memory of both entries.
        memory_ref: MemoryRef,
        /// The entry that is removed.
        id: EntryId,
        reason: RetireReason,
        /// The entry that stays in its place.
        by: EntryId,
    },
    /// Erases an entry's text at once, in any state and even if a run could still read it:
    /// forgetting outranks snapshots. The subjects of the entry are erased with it. Does nothing if
    /// it was erased before.
    Forget { memory_ref: MemoryRef, id: EntryId },
    /// Restores an entry that was merged into one whose text is gone by now (usually erased by the
    /// same batch). Does nothing otherwise.
    Revive { memory_ref: MemoryRef, id: EntryId },
    /// Stores the signature that consolidation computed from a text, with the number of the pass
    /// that computed it. No entry changes by it.
    StoreSignature {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The number of the pass that computed it.
        pass: u64,
        /// The signature; opaque to a store.
        signature: Vec<u8>,
    },
    /// Stores the vector of an entry's text. No entry changes by it. Does nothing unless the text
    /// is there as it was admitted under the given rules: a text that changed meanwhile has another
    /// vector.
    StoreEmbedding {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The fingerprint of the redaction rules that the text was admitted under
        /// (`Entry::redaction_fingerprint`).
        scan: u64,
        /// The model that made the vector.
        model: ModelId,
        vector: Embedding,
    },
    /// Closes the entry that answers a slot, so that another one can take its place: it stays as
    /// history. Must come before the put of its replacement. Does nothing unless the entry is
    /// there.
    Close {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The way in which the answer has ended.
        closing: ClosingReason,
        /// The replacement; none for a statement that is only taken back.
        by: Option<EntryId>,
    },
    /// Removes an entry because its session or chat thread is over. Does nothing to one that is
    /// persistent, or that an action rests on.
    EndWithSession { memory_ref: MemoryRef, id: EntryId },
    /// Erases the text of a statement that ceased to be true before an instant. Does nothing while
    /// a run could read it, or if an action rests on it.
    EraseHistory {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The statement must have ended before this instant.
        before: Timestamp,
    },
    /// Notes that another source says the same as an entry. Does nothing unless the entry is there.
    SetEvidence {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The complete evidence that the entry rests on from now on.
        evidence: Evidence,
    },
    /// Notes that an action rests on an entry: from now on only forgetting erases its text. Does
    /// nothing if the link exists, or if the entry does not.
    LinkAction {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The action that rests on the entry.
        action: ActionText,
    },
    /// Replaces the text of an action by the result of redacting it by the current rules. Does
    /// nothing unless it is there as it was read.
    RewriteAction {
        memory_ref: MemoryRef,
        id: EntryId,
        /// The text as it was read.
        expected: ActionText,
        /// The new text; no other action of the entry has it.
        action: ActionText,
    },
    /// Replaces the text of a rule by the result of redacting it by the current rules. Does nothing
    /// unless it is there as it was read.
    RewriteRule {
        world: WorldId,
        id: RuleId,
        /// The text as it was read.
        expected: StoredText,
        /// The new text of the rule.
        body: RuleText,
    },
    /// Writes a rule of a world, or deletes it.
    SetRule {
        world: WorldId,
        id: RuleId,
        /// The text of the rule; `None` deletes it.
        body: Option<RuleText>,
    },
    /// Keeps everything that this commit leaves readable until the batch's run releases it.
    HoldSnapshot,
    /// Ends the snapshot of the batch's run.
    ReleaseSnapshot,
    /// Writes a record, or deletes it (`None`).
    SetRecord {
        kind: RecordKind,
        key: String,
        /// The state that the record must be in; otherwise nothing of the batch is applied.
        precondition: Precondition,
        /// The new body of the record; `None` deletes it.
        body: Option<RecordBody>,
        /// The keys that find the record from now on. Nothing of the batch is applied if its source
        /// entry is gone, or if that entry has ended and the record is to be found by more than its
        /// name.
        ties: Box<RecordLinks>,
    },
    /// Appends an event that belongs to no change of memory.
    Emit {
        /// The content of the event.
        body: Box<EventBody>,
        /// The instant at which it happened first, if a replay only repeats it.
        recorded_at: Option<Timestamp>,
        /// True if the event is left out of the log of the batch's run.
        outside_run: bool,
    },
}

/// An action that was taken because of an entry, in the caller's words.
#[derive(Clone, PartialEq, Eq)]
pub struct ActionText {
    /// The action in words. Empty once the entry was forgotten.
    pub action: String,
    /// The caller's own name for the action.
    pub reference: String,
}

/// The words are a caller's, so only their length is shown.
impl std::fmt::Debug for ActionText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ActionText")
            .field("bytes", &(self.action.len() + self.reference.len()))
            .finish_non_exhaustive()
    }
}

/// A text as it was read, by which a store checks whether it is still the same.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredText(pub String);

/// The text is a caller's, so only its length is shown.
impl std::fmt::Debug for StoredText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredText({})", self.0.len())
    }
}

/// The reason why another entry replaces one that is retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetireReason {
    /// Both say the same. The text is kept, in case the entry that stays is forgotten; its evidence
    /// counts for the other one.
    Merged,
    /// The other one is newer and contradicts it. The text is kept as history.
    Superseded,
    /// The other one is a summary of it and of more. The text is erased, as with a deletion.
    Compacted,
}

impl RetireReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [RetireReason; 3] = [
        RetireReason::Merged,
        RetireReason::Superseded,
        RetireReason::Compacted,
    ];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RetireReason::Merged => "merged",
            RetireReason::Superseded => "superseded",
            RetireReason::Compacted => "compacted",
        }
    }

    /// Returns true if the text is kept as long as that of the entry that replaces it.
    #[must_use]
    pub fn keeps_text(self) -> bool {
        self != RetireReason::Compacted
    }
}

/// The way in which an answer to a slot ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingReason {
    /// A statement is untrue from this instant on. If the instant is still to come, the entry is
    /// part of its memory until then.
    InvalidFrom(Timestamp),
    /// A procedure is replaced by another one from now on.
    ReplacedNow,
}

impl ClosingReason {
    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ClosingReason::InvalidFrom(_) => "invalidated",
            ClosingReason::ReplacedNow => RetireReason::Superseded.as_str(),
        }
    }
}

/// The part of a run that wrote an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    pub node: Option<String>,
    pub agent: Option<String>,
}

impl Change {
    /// The memory that it touches, if it touches one.
    #[must_use]
    pub fn memory_ref(&self) -> Option<&MemoryRef> {
        match self {
            Change::Put { admitted, .. } | Change::Rewrite { admitted, .. } => {
                Some(&admitted.scope().memory_ref)
            }
            Change::Delete { memory_ref, .. }
            | Change::Expire { memory_ref, .. }
            | Change::Erase { memory_ref, .. }
            | Change::Retire { memory_ref, .. }
            | Change::Forget { memory_ref, .. }
            | Change::Revive { memory_ref, .. }
            | Change::Close { memory_ref, .. }
            | Change::EndWithSession { memory_ref, .. }
            | Change::EraseHistory { memory_ref, .. }
            | Change::SetEvidence { memory_ref, .. }
            | Change::LinkAction { memory_ref, .. }
            | Change::RewriteAction { memory_ref, .. }
            | Change::StoreSignature { memory_ref, .. }
            | Change::StoreEmbedding { memory_ref, .. } => Some(memory_ref),
            Change::SetRule { .. }
            | Change::RewriteRule { .. }
            | Change::SetRecord { .. }
            | Change::Emit { .. }
            | Change::HoldSnapshot
            | Change::ReleaseSnapshot => None,
        }
    }

    /// All memories that it names: the one it touches, those of the entries that a text was made
    /// from, and the one of the entry that a record is tied to.
    pub fn memory_refs(&self) -> impl Iterator<Item = &MemoryRef> {
        let (sources, tie): (&[(MemoryRef, EntryId)], _) = match self {
            Change::Put { sources, .. } => (sources, None),
            Change::SetRecord { ties, .. } => (&[], ties.source.as_ref()),
            _ => (&[], None),
        };
        self.memory_ref()
            .into_iter()
            .chain(sources.iter().map(|source| &source.0))
            .chain(tie.map(|source| &source.0))
    }

    /// The event that is stored with the change. A record has none: its meaning is reported by an
    /// event of its own. Nor has an erasure: the event was stored when the entry was removed.
    #[must_use]
    pub fn event(&self) -> Option<EventBody> {
        let event = match self {
            Change::SetRecord { .. }
            | Change::Erase { .. }
            | Change::EraseHistory { .. }
            | Change::RewriteAction { .. }
            | Change::StoreSignature { .. }
            | Change::StoreEmbedding { .. }
            | Change::HoldSnapshot
            | Change::ReleaseSnapshot => {
                return None;
            }
            Change::Emit { body, .. } => (**body).clone(),
            Change::Put {
                id,
                admitted,
                cause,
                ..
            } => EventBody::Written(EntryWritten {
                memory_ref: admitted.scope().memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                tags: admitted
                    .tags()
                    .filter(|t| sabotage!("own-tags-in-events", is_reserved_tag(t), true))
                    .map(str::to_owned)
                    .collect(),
                flags: admitted
                    .flags()
                    .iter()
                    .map(|kind| kind.as_str().to_owned())
                    .collect(),
                node_id: cause.node.clone(),
                agent_id: cause.agent.clone(),
            }),
            Change::Rewrite { id, admitted } => {
                EventBody::Redacted(EntryRef::new(&admitted.scope().memory_ref, id))
            }
            Change::Delete { memory_ref, id } => EventBody::Deleted(EntryRef::new(memory_ref, id)),
            Change::Expire { memory_ref, id } => EventBody::Expired(EntryRef::new(memory_ref, id)),
            Change::Forget { memory_ref, id } => {
                EventBody::Forgotten(EntryRef::new(memory_ref, id))
            }
            Change::Revive { memory_ref, id } => EventBody::Revived(EntryRef::new(memory_ref, id)),
            Change::Retire {
                memory_ref,
                id,
                reason,
                by,
            } => EventBody::Retired(EntryRetired {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                reason: reason.as_str().to_owned(),
                by: Some(by.as_str().to_owned()),
            }),
            Change::Close {
                memory_ref,
                id,
                closing,
                by,
            } => EventBody::Retired(EntryRetired {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                reason: closing.as_str().to_owned(),
                by: by.as_ref().map(|by| by.as_str().to_owned()),
            }),
            Change::EndWithSession { memory_ref, id } => {
                EventBody::Ended(EntryRef::new(memory_ref, id))
            }
            Change::SetEvidence { memory_ref, id, .. } => {
                EventBody::Strengthened(EntryRef::new(memory_ref, id))
            }
            Change::LinkAction { memory_ref, id, .. } => EventBody::Linked(EntryLinked {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
            }),
            Change::RewriteRule { world, id, .. } => EventBody::RuleChanged(RuleRef {
                world: world.as_str().to_owned(),
                rule_id: id.as_str().to_owned(),
                removed: false,
            }),
            Change::SetRule { world, id, body } => EventBody::RuleChanged(RuleRef {
                world: world.as_str().to_owned(),
                rule_id: id.as_str().to_owned(),
                removed: body.is_none(),
            }),
        };
        Some(event)
    }

    /// Returns true if its event is left out of the log of the batch's run.
    #[must_use]
    pub fn is_outside_run(&self) -> bool {
        matches!(
            self,
            Change::Emit {
                outside_run: true,
                ..
            }
        )
    }

    /// The instant at which its event happened first, if it only repeats one.
    #[must_use]
    pub fn recorded_at(&self) -> Option<Timestamp> {
        if let Change::Emit { recorded_at, .. } = self {
            *recorded_at
        } else {
            None
        }
    }
}
