//! Where a draft stands among the answers to its question: says the same as one, takes the place of
//! one, comes before one, or stands apart. It reads slots and changes nothing; `core/conflict.rs`
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

/// Answers of one question that are looked at.
const ANSWERS_MAX: u32 = 1_000;

/// What becomes of a draft.
pub(crate) enum Placed {
    /// An entry says it; it rests on this from now on.
    Same(Box<Entry>, Evidence),
    /// It is stored like this, after these were closed.
    Put {
        draft: Box<Draft>,
        close: Vec<(EntryId, Closing)>,
    },
}

/// The questions of a memory while a batch is planned: later drafts of it know of earlier ones.
pub(crate) struct Slots<'a> {
    engine: &'a Engine,
    scope: &'a Scope,
    known: HashMap<String, Vec<Row>>,
}

#[derive(Clone)]
struct Row {
    id: EntryId,
    window: Window,
    /// It is part of the memory, rather than history.
    live: bool,
    /// As stored; what this batch puts is not yet.
    entry: Option<Entry>,
}

/// The name of a question inside a session: what is said there in passing takes nobody's place for
/// good.
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

/// The same without its session.
pub(crate) fn plain_slot<'a>(session: Option<&SessionId>, slot: &'a str) -> &'a str {
    session
        .and_then(|session| slot.strip_prefix(session.as_str()))
        .and_then(|rest| rest.strip_prefix('|'))
        .unwrap_or(slot)
}

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

    /// Where the draft, to be called `id`, stands. What nobody vouches for has no slot and
    /// contradicts nothing.
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
        for (gone, closing) in close {
            for row in rows.iter_mut().filter(|row| row.id == *gone) {
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

fn window(draft: &Draft, now: Timestamp) -> Window {
    Window {
        from: draft.facets.valid_at.unwrap_or(now),
        to: draft.facets.invalid_at,
        trust: draft.facets.trust,
        created_at: now,
        value: value(draft.typology, &draft.content),
    }
}

fn same(row: &Row, draft: Draft) -> Placed {
    match row.entry.clone() {
        Some(entry) => {
            let evidence = entry.facets.evidence.union(&draft.facets.evidence);
            Placed::Same(Box::new(entry), evidence)
        }
        // This very request says it twice: both are kept, the second without a question of its own.
        None => Placed::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}

/// A statement among the windows of its question.
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
            // It was true then, and is known to have been.
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
                    .map(|(gone, at)| (gone, Closing::Untrue(at)))
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

/// A procedure, or a text that is its own question: there is one at a time.
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
        Succession::Supersedes(gone) => {
            draft.facets.slot = Some(slot.to_owned());
            Placed::Put {
                draft: Box::new(draft),
                close: vec![(gone, Closing::Outdated)],
            }
        }
        Succession::Superseded(_) | Succession::Apart(_) => Placed::Put {
            draft: Box::new(draft),
            close: Vec::new(),
        },
    }
}
