//! What a change touches and which event tells of it. It decides nothing about whether the change applies.

use super::Change;
use crate::event::{EntryRef, EventBody, Linked, Retired, RuleRef, Written, is_reserved_tag};
use crate::ids::{EntryId, MemoryRef, Timestamp};

impl Change {
    /// The memory it touches, if it touches one.
    #[must_use]
    pub fn memory_ref(&self) -> Option<&MemoryRef> {
        match self {
            Change::Put { admitted, .. } | Change::Rewrite { admitted, .. } => Some(&admitted.scope().memory_ref),
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
            | Change::Sign { memory_ref, .. } => Some(memory_ref),
            Change::Rule { .. } | Change::Record { .. } | Change::Emit { .. } | Change::Hold | Change::Release => None,
        }
    }

    /// Every memory it names: the one it touches, those that a text was made from, the one whose entry a record hangs on.
    pub fn memory_refs(&self) -> impl Iterator<Item = &MemoryRef> {
        let (sources, tie): (&[(MemoryRef, EntryId)], _) = match self {
            Change::Put { sources, .. } => (sources, None),
            Change::Record { ties, .. } => (&[], ties.source.as_ref()),
            _ => (&[], None),
        };
        self.memory_ref().into_iter().chain(sources.iter().map(|source| &source.0)).chain(tie.map(|source| &source.0))
    }

    /// The event that is stored with it. A record has none of its own: what it means is told by an event beside it. Nor
    /// does an erasure: the event told of it when the entry was taken away.
    #[must_use]
    pub fn event(&self) -> Option<EventBody> {
        let event = match self {
            Change::Record { .. } | Change::Erase { .. } | Change::Strip { .. } | Change::Sign { .. } | Change::Hold | Change::Release => {
                return None;
            }
            Change::Emit { body, .. } => (**body).clone(),
            Change::Put { id, admitted, cause, .. } => EventBody::Written(Written {
                memory_ref: admitted.scope().memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                tags: admitted.tags().filter(|t| is_reserved_tag(t)).map(str::to_owned).collect(),
                flags: admitted.flags().iter().map(|kind| kind.as_str().to_owned()).collect(),
                node_id: cause.node.clone(),
                agent_id: cause.agent.clone(),
            }),
            Change::Rewrite { id, admitted } => EventBody::Redacted(EntryRef::new(&admitted.scope().memory_ref, id)),
            Change::Delete { memory_ref, id } => EventBody::Deleted(EntryRef::new(memory_ref, id)),
            Change::Expire { memory_ref, id } => EventBody::Expired(EntryRef::new(memory_ref, id)),
            Change::Forget { memory_ref, id } => EventBody::Forgotten(EntryRef::new(memory_ref, id)),
            Change::Revive { memory_ref, id } => EventBody::Revived(EntryRef::new(memory_ref, id)),
            Change::Retire { memory_ref, id, reason, by } => EventBody::Retired(Retired {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                reason: reason.as_str().to_owned(),
                by: Some(by.as_str().to_owned()),
            }),
            Change::Close { memory_ref, id, closing, by } => EventBody::Retired(Retired {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                reason: closing.as_str().to_owned(),
                by: by.as_ref().map(|by| by.as_str().to_owned()),
            }),
            Change::End { memory_ref, id } => EventBody::Ended(EntryRef::new(memory_ref, id)),
            Change::Strengthen { memory_ref, id, .. } => EventBody::Strengthened(EntryRef::new(memory_ref, id)),
            Change::Link { memory_ref, id, action, .. } => EventBody::Linked(Linked {
                memory_ref: memory_ref.as_str().to_owned(),
                memory_id: id.as_str().to_owned(),
                action: action.clone(),
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
        if let Change::Emit { recorded_at, .. } = self { *recorded_at } else { None }
    }
}
