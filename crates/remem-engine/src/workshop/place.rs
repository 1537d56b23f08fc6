//! Placing a draft among the entries of its slot: it states the same as one, replaces one, precedes
//! one, or is kept beside them. This reads slots and changes nothing; `remem_core::conflict`
//! decides.

use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::conflict::{self, Active, Placing, Succession, Window};
use remem_core::profile::{CLAIM, normal};
use remem_core::sabotage;
use remem_core::slots::semantic_slot;
use remem_core::{
    Closing, Draft, Entry, EntryId, Evidence, Scope, SessionId, Tier, Timestamp, Trust, Typology,
};
use remem_store::{Answer, EntryState};
use std::collections::HashMap;

/// Entries of one slot that are considered, at most.
const ANSWERS_MAX: u32 = 1_000;

/// How a draft is placed among the entries of its slot.
pub(crate) enum Placed {
    /// An entry states the same; it gets this evidence.
    Same(Box<Entry>, Evidence),
    /// The draft is stored in this form, after these entries were closed.
    Put {
        draft: Box<Draft>,
        close: Vec<(EntryId, Closing)>,
    },
}

/// The slots of a memory while a batch is planned: later drafts of the batch take earlier ones into
/// account.
pub(crate) struct Slots<'a> {
    engine: &'a Engine,
    scope: &'a Scope,
    known: HashMap<String, Vec<Row>>,
}

/// An entry of a slot, or a draft that the batch puts into it.
#[derive(Clone)]
struct Row {
    id: EntryId,
    window: Window,
    /// Whether it is live, rather than history.
    live: bool,
    /// The entry as stored; absent for a draft of this batch.
    entry: Option<Entry>,
}

/// The name of a slot inside a session: a claim made there does not replace a persistent one.
pub(crate) fn slot_in(session: Option<&SessionId>, slot: &str) -> String {
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
pub(crate) fn plain_slot<'a>(session: Option<&SessionId>, slot: &'a str) -> &'a str {
    session
        .and_then(|session| slot.strip_prefix(session.as_str()))
        .and_then(|rest| rest.strip_prefix('|'))
        .unwrap_or(slot)
}

/// The normal form of what a text states about its slot.
fn value(typology: Typology, text: &str) -> String {
    let stated = (typology == Typology::Semantic)
        .then(|| semantic_slot(text))
        .flatten();
    stated.map_or_else(|| normal(text), |(_, value)| value)
}

impl<'a> Slots<'a> {
    pub fn new(engine: &'a Engine, scope: &'a Scope) -> Slots<'a> {
        Slots {
            engine,
            scope,
            known: HashMap::new(),
        }
    }

    /// Places a draft that will have the id `id`. An untrusted draft has no slot and contradicts
    /// nothing.
    pub async fn place(
        &mut self,
        id: &EntryId,
        mut draft: Draft,
        now: Timestamp,
    ) -> Result<Placed, EngineError> {
        let Some(slot) = draft
            .facets
            .slot
            .take()
            .filter(|_| draft.facets.trust != Trust::Untrusted)
        else {
            return Ok(Placed::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            });
        };
        let session = if draft.tier == Tier::Session {
            draft.facets.session.as_ref()
        } else {
            None
        };
        let is_claim = slot.starts_with(CLAIM);
        let slot = slot_in(session, &slot);
        let rows = self.rows(&slot, draft.typology).await?;
        let placed = match draft.typology {
            Typology::Semantic if !is_claim => state(id, draft, &slot, rows, now),
            _ => succeed(draft, &slot, rows, now),
        };
        if let Placed::Put { draft, close } = &placed
            && draft.facets.slot.is_some()
        {
            self.learn(id, draft, close, &slot, now);
        }
        Ok(placed)
    }

    /// The entries of a slot, read from the store once.
    async fn rows(&mut self, slot: &str, typology: Typology) -> Result<&[Row], EngineError> {
        if !self.known.contains_key(slot) {
            let answers = self
                .engine
                .parts
                .store
                .slot(self.scope, slot, ANSWERS_MAX)
                .await?;
            let rows = answers
                .into_iter()
                .filter(|answer| answer.entry.typology == typology)
                .filter_map(row)
                .collect();
            self.known.insert(slot.to_owned(), rows);
        }
        Ok(self.known.get(slot).map_or(&[], Vec::as_slice))
    }

    /// Applies the placement of a draft to the slot's entries, for later drafts of the batch.
    fn learn(
        &mut self,
        id: &EntryId,
        draft: &Draft,
        close: &[(EntryId, Closing)],
        slot: &str,
        now: Timestamp,
    ) {
        let Some(rows) = self.known.get_mut(slot) else {
            return;
        };
        for (replaced, closing) in close {
            for row in rows.iter_mut().filter(|row| row.id == *replaced) {
                match closing {
                    Closing::Untrue(at) => row.window.to = Some(*at),
                    Closing::Outdated => row.live = false,
                }
            }
        }
        rows.push(Row {
            id: id.clone(),
            window: window(draft, now),
            live: true,
            entry: None,
        });
    }
}

/// An entry of a slot; `None` if its text is gone.
fn row(answer: Answer) -> Option<Row> {
    let live = match answer.state {
        EntryState::Live => true,
        EntryState::Invalidated | EntryState::Retired(_) => false,
        _ => return None,
    };
    let entry = &answer.entry;
    let facets = &answer.entry.facets;
    let window = Window {
        from: facets.valid_at.unwrap_or(entry.created_at),
        to: facets.invalid_at,
        trust: facets.trust,
        created_at: entry.created_at,
        value: value(entry.typology, &entry.content),
    };
    Some(Row {
        id: entry.id.clone(),
        window,
        live,
        entry: Some(answer.entry),
    })
}

/// The validity window of a draft.
fn window(draft: &Draft, now: Timestamp) -> Window {
    Window {
        from: draft.facets.valid_at.unwrap_or(now),
        to: draft.facets.invalid_at,
        trust: draft.facets.trust,
        created_at: now,
        value: value(draft.typology, &draft.content),
    }
}

/// The placement of a draft that states the same as an entry.
fn same(row: &Row, draft: Draft) -> Placed {
    match row.entry.clone() {
        Some(entry) => {
            let evidence = entry.facets.evidence.union(&draft.facets.evidence);
            Placed::Same(Box::new(entry), evidence)
        }
        // This request states the same twice: both are stored, the second one without a slot.
        None => Placed::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}

/// Places a statement among the validity windows of its slot.
fn state(id: &EntryId, mut draft: Draft, slot: &str, rows: &[Row], now: Timestamp) -> Placed {
    let windows: Vec<conflict::Placed<EntryId>> = rows
        .iter()
        .filter(|row| row.live || row.window.to.is_some())
        .map(|row| conflict::Placed {
            id: row.id.clone(),
            window: row.window.clone(),
        })
        .collect();
    let new = window(&draft, now);
    debug_assert!(windows.iter().all(|row| row.id != *id));
    match conflict::resolve(&new, &windows) {
        Placing::Same(known) => match rows.iter().find(|row| row.id == known && row.live) {
            Some(row) => same(row, draft),
            // The statement was true once, and is stored as history already.
            None => Placed::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            },
        },
        Placing::Stands { to, close } => {
            draft.facets.slot = Some(slot.to_owned());
            draft.facets.invalid_at = to;
            Placed::Put {
                draft: Box::new(draft),
                close: close
                    .into_iter()
                    .map(|(replaced, at)| (replaced, Closing::Untrue(at)))
                    .collect(),
            }
        }
        Placing::Loses(_) => {
            draft.facets.slot = Some(slot.to_owned());
            draft.facets.invalid_at = draft.facets.valid_at;
            Placed::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            }
        }
        Placing::Apart(_) => Placed::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}

/// Places a procedure or claim, of which a slot has one at a time.
fn succeed(mut draft: Draft, slot: &str, rows: &[Row], now: Timestamp) -> Placed {
    let active = rows.iter().find(|row| row.live);
    if let Some(row) = active
        && row.window.value == value(draft.typology, &draft.content)
    {
        return same(row, draft);
    }
    let known = active.map(|row| Active {
        id: row.id.clone(),
        at: row.window.created_at,
        trust: row.window.trust,
    });
    match conflict::succeed(now, draft.facets.trust, known) {
        Succession::First => {
            draft.facets.slot = Some(slot.to_owned());
            Placed::Put {
                draft: Box::new(draft),
                close: Vec::new(),
            }
        }
        Succession::Supersedes(replaced) => {
            draft.facets.slot = Some(slot.to_owned());
            Placed::Put {
                draft: Box::new(draft),
                close: vec![(replaced, Closing::Outdated)],
            }
        }
        Succession::Superseded(_) | Succession::Apart(_) => Placed::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}
