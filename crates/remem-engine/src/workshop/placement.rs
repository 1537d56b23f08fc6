//! Placing a draft among the entries of its slot: it states the same as one, replaces one, precedes
//! one, or is kept beside them. This reads slots and changes nothing; `remem_core::conflict`
//! decides.

use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::conflict::{self, ActiveProcedure, SlotPlacement, Succession, ValidityWindow};
use remem_core::profile::{CLAIM_PREFIX, normal_form};
use remem_core::sabotage;
use remem_core::slots::semantic_slot;
use remem_core::{
    ClosingReason, Draft, Entry, EntryId, Evidence, Scope, SessionId, Tier, Timestamp, Trust,
    Typology,
};
use remem_store::{EntryState, WholeEntry};
use std::collections::HashMap;

/// Entries of one slot that are considered, at most.
const SLOT_ENTRIES_MAX: u32 = 1_000;

/// How a draft is placed among the entries of its slot.
pub(crate) enum DraftPlacement {
    /// An entry states the same; it gets this evidence.
    Same(Box<Entry>, Evidence),
    /// The draft is stored in this form, after these entries were closed.
    Put {
        draft: Box<Draft>,
        close: Vec<(EntryId, ClosingReason)>,
    },
}

/// The slots of a memory while a batch is planned: later drafts of the batch take earlier ones into
/// account.
pub(crate) struct SlotPlanner<'a> {
    engine: &'a Engine,
    scope: &'a Scope,
    slots: HashMap<String, Vec<SlotEntry>>,
}

/// An entry of a slot, or a draft that the batch puts into it.
#[derive(Clone)]
struct SlotEntry {
    id: EntryId,
    window: ValidityWindow,
    /// Whether it is live, rather than history.
    live: bool,
    /// The entry as stored; absent for a draft of this batch.
    entry: Option<Entry>,
}

/// The name of a slot inside a session: a claim made there does not replace a persistent one.
pub(crate) fn slot_in_session(session: Option<&SessionId>, slot: &str) -> String {
    sabotage!(
        "a-transient-claim-takes-a-lasting-one-s-place",
        session.map_or_else(|| slot.to_owned(), |session| format!("{session}|{slot}")),
        {
            let _ = session;
            slot.to_owned()
        }
    )
}

/// The name of a slot without its session.
pub(crate) fn slot_without_session<'a>(session: Option<&SessionId>, slot: &'a str) -> &'a str {
    session
        .and_then(|session| slot.strip_prefix(session.as_str()))
        .and_then(|rest| rest.strip_prefix('|'))
        .unwrap_or(slot)
}

/// The normal form of what a text states about its slot.
fn stated_value(typology: Typology, text: &str) -> String {
    let stated = (typology == Typology::Semantic)
        .then(|| semantic_slot(text))
        .flatten();
    stated.map_or_else(|| normal_form(text), |(_, value)| value)
}

impl<'a> SlotPlanner<'a> {
    pub fn new(engine: &'a Engine, scope: &'a Scope) -> SlotPlanner<'a> {
        SlotPlanner {
            engine,
            scope,
            slots: HashMap::new(),
        }
    }

    /// Places a draft that will have the id `id`. An untrusted draft has no slot and contradicts
    /// nothing.
    pub async fn place(
        &mut self,
        id: &EntryId,
        mut draft: Draft,
        now: Timestamp,
    ) -> Result<DraftPlacement, EngineError> {
        let Some(slot) = draft
            .facets
            .slot
            .take()
            .filter(|_| draft.facets.trust != Trust::Untrusted)
        else {
            return Ok(DraftPlacement::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            });
        };
        let session = if draft.tier == Tier::Session {
            draft.facets.session.as_ref()
        } else {
            None
        };
        let is_claim = slot.starts_with(CLAIM_PREFIX);
        let slot = slot_in_session(session, &slot);
        let rows = self.slot_entries(&slot, draft.typology).await?;
        let placed = match draft.typology {
            Typology::Semantic if !is_claim => place_statement(id, draft, &slot, rows, now),
            _ => place_successor(draft, &slot, rows, now),
        };
        if let DraftPlacement::Put { draft, close } = &placed
            && draft.facets.slot.is_some()
        {
            self.apply_placement(id, draft, close, &slot, now);
        }
        Ok(placed)
    }

    /// The entries of a slot, read from the store once.
    async fn slot_entries(
        &mut self,
        slot: &str,
        typology: Typology,
    ) -> Result<&[SlotEntry], EngineError> {
        if !self.slots.contains_key(slot) {
            let answers = self
                .engine
                .parts
                .store
                .slot_history(self.scope, slot, SLOT_ENTRIES_MAX)
                .await?;
            let rows = answers
                .into_iter()
                .filter(|answer| answer.entry.typology == typology)
                .filter_map(slot_entry)
                .collect();
            self.slots.insert(slot.to_owned(), rows);
        }
        Ok(self.slots.get(slot).map_or(&[], Vec::as_slice))
    }

    /// Applies the placement of a draft to the slot's entries, for later drafts of the batch.
    fn apply_placement(
        &mut self,
        id: &EntryId,
        draft: &Draft,
        close: &[(EntryId, ClosingReason)],
        slot: &str,
        now: Timestamp,
    ) {
        let Some(rows) = self.slots.get_mut(slot) else {
            return;
        };
        for (replaced, closing) in close {
            for row in rows.iter_mut().filter(|row| row.id == *replaced) {
                match closing {
                    ClosingReason::InvalidFrom(at) => row.window.to = Some(*at),
                    ClosingReason::ReplacedNow => row.live = false,
                }
            }
        }
        rows.push(SlotEntry {
            id: id.clone(),
            window: draft_window(draft, now),
            live: true,
            entry: None,
        });
    }
}

/// An entry of a slot; `None` if its text is gone.
fn slot_entry(answer: WholeEntry) -> Option<SlotEntry> {
    let live = match answer.state {
        EntryState::Live => true,
        EntryState::Invalidated | EntryState::Retired(_) => false,
        _ => return None,
    };
    let entry = &answer.entry;
    let facets = &answer.entry.facets;
    let window = ValidityWindow {
        from: facets.valid_at.unwrap_or(entry.created_at),
        to: facets.invalid_at,
        trust: facets.trust,
        created_at: entry.created_at,
        value: stated_value(entry.typology, &entry.content),
    };
    Some(SlotEntry {
        id: entry.id.clone(),
        window,
        live,
        entry: Some(answer.entry),
    })
}

/// The validity window of a draft.
fn draft_window(draft: &Draft, now: Timestamp) -> ValidityWindow {
    ValidityWindow {
        from: draft.facets.valid_at.unwrap_or(now),
        to: draft.facets.invalid_at,
        trust: draft.facets.trust,
        created_at: now,
        value: stated_value(draft.typology, &draft.content),
    }
}

/// The placement of a draft that states the same as an entry.
fn place_restatement(row: &SlotEntry, draft: Draft) -> DraftPlacement {
    match row.entry.clone() {
        Some(entry) => {
            let evidence = entry.facets.evidence.union(&draft.facets.evidence);
            DraftPlacement::Same(Box::new(entry), evidence)
        }
        // This request states the same twice: both are stored, the second one without a slot.
        None => DraftPlacement::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}

/// Places a statement among the validity windows of its slot.
fn place_statement(
    id: &EntryId,
    mut draft: Draft,
    slot: &str,
    rows: &[SlotEntry],
    now: Timestamp,
) -> DraftPlacement {
    let windows: Vec<conflict::SlotWindow<EntryId>> = rows
        .iter()
        .filter(|row| row.live || row.window.to.is_some())
        .map(|row| conflict::SlotWindow {
            id: row.id.clone(),
            window: row.window.clone(),
        })
        .collect();
    let new = draft_window(&draft, now);
    debug_assert!(windows.iter().all(|row| row.id != *id));
    match conflict::place_in_slot(&new, &windows) {
        SlotPlacement::Same(known) => match rows.iter().find(|row| row.id == known && row.live) {
            Some(row) => place_restatement(row, draft),
            // The statement was true once, and is stored as history already.
            None => DraftPlacement::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            },
        },
        SlotPlacement::Insert { to, close } => {
            draft.facets.slot = Some(slot.to_owned());
            draft.facets.invalid_at = to;
            DraftPlacement::Put {
                draft: Box::new(draft),
                close: close
                    .into_iter()
                    .map(|(replaced, at)| (replaced, ClosingReason::InvalidFrom(at)))
                    .collect(),
            }
        }
        SlotPlacement::InsertEmpty(_) => {
            draft.facets.slot = Some(slot.to_owned());
            draft.facets.invalid_at = draft.facets.valid_at;
            DraftPlacement::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            }
        }
        SlotPlacement::WithoutSlot(_) => DraftPlacement::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}

/// Places a procedure or claim, of which a slot has one at a time.
fn place_successor(
    mut draft: Draft,
    slot: &str,
    rows: &[SlotEntry],
    now: Timestamp,
) -> DraftPlacement {
    let active = rows.iter().find(|row| row.live);
    if let Some(row) = active
        && row.window.value == stated_value(draft.typology, &draft.content)
    {
        return place_restatement(row, draft);
    }
    let known = active.map(|row| ActiveProcedure {
        id: row.id.clone(),
        at: row.window.created_at,
        trust: row.window.trust,
    });
    match conflict::supersede(now, draft.facets.trust, known) {
        Succession::First => {
            draft.facets.slot = Some(slot.to_owned());
            DraftPlacement::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            }
        }
        Succession::Supersedes(replaced) => {
            draft.facets.slot = Some(slot.to_owned());
            DraftPlacement::Put {
                draft: Box::new(draft),
                close: vec![(replaced, ClosingReason::ReplacedNow)],
            }
        }
        Succession::SupersededBy(_) | Succession::WithoutSlot(_) => DraftPlacement::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}
