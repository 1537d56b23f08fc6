//! What one change of a batch is, what it touches and which event tells of it. It decides nothing
//! about whether the change applies.

use crate::admission::{Admitted, RuleText};
use crate::embedding::{Embedding, ModelId};
use crate::event::{EntryRef, EventBody, Linked, Retired, RuleRef, Written, is_reserved_tag};
use crate::ids::{EntryId, MemoryRef, RuleId, Timestamp, WorldId};
use crate::record::{Precondition, RecordBody, RecordKind, Ties};
use crate::sabotage;
use crate::trust::Evidence;

/// One change of a batch.
#[derive(Clone, Debug)]
pub enum Change {
    /// Store a new entry.
    Put {
        /// The name it gets.
        id: EntryId,
        /// What was admitted.
        admitted: Box<Admitted>,
        /// Which part of a run wrote it.
        cause: Cause,
        /// The entries its text was made from.
        sources: Vec<(MemoryRef, EntryId)>,
    },
    /// Replace the text of an entry by what the rules of today leave of it. Does nothing unless it
    /// is there.
    Rewrite {
        /// The entry.
        id: EntryId,
        /// Its text, admitted anew.
        admitted: Box<Admitted>,
    },
    /// Take an entry away because a caller asked; its id stays taken. Its text is erased as soon as
    /// no open run reads a snapshot that holds it: at once, mostly.
    Delete {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
    },
    /// Take an entry away because its time ran out; does nothing unless it is expired at the
    /// batch's instant.
    Expire {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
    },
    /// Erase the text of an entry that was taken away while a run could still read it. Does nothing
    /// before the last such run has ended.
    Erase {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
    },
    /// Take an entry away because another one of its memory stands for it. Does nothing unless both
    /// are there.
    Retire {
        /// The memory of both.
        memory_ref: MemoryRef,
        /// The entry that goes.
        id: EntryId,
        /// Why.
        reason: Reason,
        /// The one that stays.
        by: EntryId,
    },
    /// Erase an entry's text at once, whatever it is and whoever could still read it: forgetting
    /// outranks snapshots. What it was about is forgotten with it. Does nothing if it was erased
    /// before.
    Forget {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
    },
    /// Bring back an entry that was merged into one whose text is gone by now (in this batch,
    /// usually). Does nothing otherwise.
    Revive {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
    },
    /// Keep what consolidation computed from a text, with the number of the pass that did. Nobody's
    /// memory changes by it.
    Sign {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// The pass.
        pass: u64,
        /// Opaque to a store.
        signature: Vec<u8>,
    },
    /// Keep the vector of an entry's text. Nobody's memory changes by it. Does nothing unless the
    /// text is there, as it was admitted under those rules: a text that changed meanwhile has
    /// another vector.
    Embed {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// The rules that the text was admitted under (`Entry::scan`).
        scan: u64,
        /// Which model made the vector.
        model: ModelId,
        /// The vector.
        vector: Embedding,
    },
    /// Make room for another answer to the question that an entry answers: it stays as history.
    /// Comes before the put of the one that takes its place. Does nothing unless it is there.
    Close {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// In which way it is over.
        closing: Closing,
        /// The one that takes its place; a statement that is only taken back has none.
        by: Option<EntryId>,
    },
    /// Take an entry away because its session or chat thread is over. Does nothing to one that is
    /// persistent, or that an action rests on.
    End {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
    },
    /// Erase the text of a statement that ceased to be true before an instant. Does nothing while a
    /// run could read it, or an action rests on it.
    Strip {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// Before when.
        before: Timestamp,
    },
    /// Somebody else says what an entry says. Does nothing unless it is there.
    Strengthen {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// All that it rests on from now on.
        evidence: Evidence,
    },
    /// An action rests on an entry: from now on only forgetting takes its text. Does nothing if the
    /// link is there, or no entry.
    Link {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// What was done.
        action: ActionText,
    },
    /// Replace the text of an action by what the rules of today leave of it. Does nothing unless it
    /// is there as it was read.
    Relink {
        /// The memory.
        memory_ref: MemoryRef,
        /// The entry.
        id: EntryId,
        /// The text as it was read.
        was: ActionText,
        /// The text from now on; no other action of the entry has it.
        action: ActionText,
    },
    /// Replace the text of a rule by what the rules of redaction leave of it today. Does nothing
    /// unless it is there as it was read.
    Reword {
        /// The world.
        world: WorldId,
        /// The rule.
        id: RuleId,
        /// What it said when it was read.
        was: StoredText,
        /// What it says from now on.
        body: RuleText,
    },
    /// Write a rule of a world, or take it away.
    Rule {
        /// The world.
        world: WorldId,
        /// The rule.
        id: RuleId,
        /// What it says.
        body: Option<RuleText>,
    },
    /// Keep what this commit leaves readable until the batch's run lets go of it.
    Hold,
    /// The batch's run reads its snapshot no more.
    Release,
    /// Write a record, or take it away (`None`).
    Record {
        /// What it is about.
        kind: RecordKind,
        /// Its name.
        key: String,
        /// What it must be like before, else nothing of the batch is applied.
        precondition: Precondition,
        /// What it holds from now on.
        body: Option<RecordBody>,
        /// What finds it from now on. Nothing of the batch is applied if its source is gone, or has
        /// ended and it is to be found by more than its name.
        ties: Box<Ties>,
    },
    /// Append an event that stands for no change of memory.
    Emit {
        /// What happened.
        body: Box<EventBody>,
        /// When it happened first, if a replay only repeats it.
        recorded_at: Option<Timestamp>,
        /// It is no part of the log of the batch's run.
        apart: bool,
    },
}

/// What was done on the strength of an entry, in the words of whoever did it.
#[derive(Clone, PartialEq, Eq)]
pub struct ActionText {
    /// What was done. Empty once the entry was forgotten.
    pub action: String,
    /// Its name where it was done.
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

/// A text as it was read, by which a store tells whether it is still there.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredText(pub String);

/// The text is a caller's, so only its length is shown.
impl std::fmt::Debug for StoredText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredText({})", self.0.len())
    }
}

/// Why another entry stands for one that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Both say the same. The text is kept, in case the one that stays is forgotten; its support
    /// counts for the other.
    Merged,
    /// The other one is newer and says otherwise. The text is kept as history.
    Superseded,
    /// The other one is the gist of it and more. The text goes, as with a deletion.
    Compacted,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 3] = [Reason::Merged, Reason::Superseded, Reason::Compacted];

    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Merged => "merged",
            Reason::Superseded => "superseded",
            Reason::Compacted => "compacted",
        }
    }

    /// Whether the text stays as long as that of the entry that stands for it.
    #[must_use]
    pub fn keeps_text(self) -> bool {
        self != Reason::Compacted
    }
}

/// In which way an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A statement is untrue from this instant on. If that is still to come, the entry is part of
    /// its memory until then.
    Untrue(Timestamp),
    /// A procedure is done otherwise from now on.
    Outdated,
}

impl Closing {
    /// The stable name, as stored and sent.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Closing::Untrue(_) => "invalidated",
            Closing::Outdated => Reason::Superseded.as_str(),
        }
    }
}

/// Which part of a run wrote an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The node.
    pub node: Option<String>,
    /// The agent.
    pub agent: Option<String>,
}

impl Change {
    /// The memory it touches, if it touches one.
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
            | Change::End { memory_ref, .. }
            | Change::Strip { memory_ref, .. }
            | Change::Strengthen { memory_ref, .. }
            | Change::Link { memory_ref, .. }
            | Change::Relink { memory_ref, .. }
            | Change::Sign { memory_ref, .. }
            | Change::Embed { memory_ref, .. } => Some(memory_ref),
            Change::Rule { .. }
            | Change::Reword { .. }
            | Change::Record { .. }
            | Change::Emit { .. }
            | Change::Hold
            | Change::Release => None,
        }
    }

    /// Every memory it names: the one it touches, those that a text was made from, the one whose
    /// entry a record hangs on.
    pub fn memory_refs(&self) -> impl Iterator<Item = &MemoryRef> {
        let (sources, tie): (&[(MemoryRef, EntryId)], _) = match self {
            Change::Put { sources, .. } => (sources, None),
            Change::Record { ties, .. } => (&[], ties.source.as_ref()),
            _ => (&[], None),
        };
        self.memory_ref()
            .into_iter()
            .chain(sources.iter().map(|source| &source.0))
            .chain(tie.map(|source| &source.0))
    }

    /// The event that is stored with it. A record has none of its own: what it means is told by an
    /// event beside it. Nor does an erasure: the event told of it when the entry was taken away.
    #[must_use]
    pub fn event(&self) -> Option<EventBody> {
        let event = match self {
            Change::Record { .. }
            | Change::Erase { .. }
            | Change::Strip { .. }
            | Change::Relink { .. }
            | Change::Sign { .. }
            | Change::Embed { .. }
            | Change::Hold
            | Change::Release => {
                return None;
            }
            Change::Emit { body, .. } => (**body).clone(),
            Change::Put {
                id,
                admitted,
                cause,
                ..
            } => EventBody::Written(Written {
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
            } => EventBody::Retired(Retired {
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
            } => EventBody::Retired(Retired {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                reason: closing.as_str().to_owned(),
                by: by.as_ref().map(|by| by.as_str().to_owned()),
            }),
            Change::End { memory_ref, id } => EventBody::Ended(EntryRef::new(memory_ref, id)),
            Change::Strengthen { memory_ref, id, .. } => {
                EventBody::Strengthened(EntryRef::new(memory_ref, id))
            }
            Change::Link { memory_ref, id, .. } => EventBody::Linked(Linked {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
            }),
            Change::Reword { world, id, .. } => EventBody::RuleChanged(RuleRef {
                world: world.as_str().to_owned(),
                rule_id: id.as_str().to_owned(),
                removed: false,
            }),
            Change::Rule { world, id, body } => EventBody::RuleChanged(RuleRef {
                world: world.as_str().to_owned(),
                rule_id: id.as_str().to_owned(),
                removed: body.is_none(),
            }),
        };
        Some(event)
    }

    /// Whether its event is no part of the log of the batch's run.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        matches!(self, Change::Emit { apart: true, .. })
    }

    /// When its event happened first, if it only repeats one.
    #[must_use]
    pub fn recorded_at(&self) -> Option<Timestamp> {
        if let Change::Emit { recorded_at, .. } = self {
            *recorded_at
        } else {
            None
        }
    }
}
