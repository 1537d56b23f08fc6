//! The end of a chat thread: what the operator said to do, and what was corrected, goes on in the
//! session; so does which tools were called, as one line; the turns themselves end, unless an
//! action rests on them.

use super::close::{Lasting, made_id};
use super::patterns::{of_thread, tools};
use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::workshop::place::Slots;
use remem_core::{
    Batch, Draft, Entry, Facets, InteractionId, Permission, Rejection, Scope, SessionId, Tier,
    Timestamp, Typology,
};
use remem_store::{Filter, Outcome, StoreError};
use serde_json::{Map, Value, json};

/// Turns that one commit ends.
const BATCH: usize = 500;
const TRIES: usize = 4;

/// How a chat thread ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadClosed {
    /// What goes on in the session.
    pub promoted: u64,
    /// Turns that ended.
    pub ended: u64,
    /// Turns that an action rests on, and that stay.
    pub kept: u64,
}

impl Engine {
    /// Ends a chat thread of the open session. Once more does nothing more.
    pub async fn close_interaction(
        &self,
        caller: &Caller,
        memory_ref: &str,
        interaction: &str,
    ) -> Result<ThreadClosed, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller
            .scope(memory_ref)
            .ok_or(EngineError::NotFound("memory"))?;
        let interaction = InteractionId::parse(interaction).ok_or(Rejection::MalformedName {
            field: "interaction",
        })?;
        let mut report = ThreadClosed::default();
        for _ in 0..TRIES {
            match self
                .compound_interaction(caller, &scope, &interaction)
                .await
            {
                Ok(promoted) => {
                    report.promoted = promoted;
                    break;
                }
                Err(EngineError::Store(StoreError::Conflict)) => {}
                Err(error) => return Err(error),
            }
        }
        self.end_turns(caller, &scope, &interaction, report).await
    }

    async fn turns(
        &self,
        scope: &Scope,
        interaction: &InteractionId,
        now: Timestamp,
    ) -> Result<Vec<Entry>, EngineError> {
        let filter = Filter {
            interaction: Some(interaction.clone()),
            tier: Some(Tier::Interaction),
            ..Filter::default()
        };
        self.entries_of(scope, &filter, now).await
    }

    async fn compound_interaction(
        &self,
        caller: &Caller,
        scope: &Scope,
        interaction: &InteractionId,
    ) -> Result<u64, EngineError> {
        let now = self.now_for(&scope.tenant).await?;
        let turns = self.turns(scope, interaction, now).await?;
        let Some(session) = turns.first().and_then(|turn| turn.facets.session.clone()) else {
            return Ok(0);
        };
        let work = || {
            let mut lasting = of_thread(&turns);
            lasting.extend(tool_line(&turns, interaction));
            lasting
        };
        let size = turns.iter().map(cpu::of_entry).sum();
        let lasting = self.parts.cpu.run(&scope.tenant, size, work).await?;
        let mut batch = Batch::new(scope.tenant.clone(), now).by(caller.principal().clone());
        let mut slots = Slots::new(self, scope);
        let mut promoted = 0;
        for mut one in lasting {
            one.draft.facets.session = Some(session.clone());
            let name = made_id(scope, &name_in(&session, interaction), &one);
            if self.parts.store.lineage(scope, &name).await?.is_none() {
                promoted += 1;
                batch = self
                    .add_lasting(scope, batch, &mut slots, (name, one), now)
                    .await?;
            }
        }
        self.parts.store.commit(batch).await?;
        Ok(promoted)
    }

    async fn end_turns(
        &self,
        caller: &Caller,
        scope: &Scope,
        interaction: &InteractionId,
        mut report: ThreadClosed,
    ) -> Result<ThreadClosed, EngineError> {
        let now = self.now_for(&scope.tenant).await?;
        for page in self.turns(scope, interaction, now).await?.chunks(BATCH) {
            let empty = Batch::new(scope.tenant.clone(), now).by(caller.principal().clone());
            let batch = page.iter().fold(empty, |batch, turn| {
                batch.end(scope.memory_ref.clone(), turn.id.clone())
            });
            let outcomes = self.parts.store.commit(batch).await?.outcomes;
            let gone = outcomes
                .iter()
                .filter(|outcome| **outcome == Outcome::Removed)
                .count() as u64;
            report.ended += gone;
            report.kept += outcomes.len() as u64 - gone;
        }
        Ok(report)
    }
}

/// Two threads of a session may say the same.
fn name_in(session: &SessionId, interaction: &InteractionId) -> SessionId {
    let digest = blake3::hash(interaction.as_str().as_bytes()).to_hex();
    SessionId::parse(&format!(
        "{}.{}",
        &session.as_str()[..session.as_str().len().min(64)],
        &digest[..32]
    ))
    .expect("a short name")
}

/// Which tools the thread called one after the other: routines are found over several threads.
fn tool_line(turns: &[Entry], interaction: &InteractionId) -> Option<Lasting> {
    let mut oldest_first: Vec<&Entry> = turns.iter().collect();
    oldest_first.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    let called: Vec<&str> = oldest_first
        .iter()
        .flat_map(|turn| tools(turn))
        .take(200)
        .collect();
    let trust = turns.iter().map(|turn| turn.facets.trust).min()?;
    if called.is_empty() {
        return None;
    }
    let metadata =
        json!({ "speaker": "agent", "tools": called, "interaction": interaction.as_str() });
    let draft = Draft {
        content: format!("Tools called in a chat thread: {}.", called.join(", ")),
        metadata: if let Value::Object(map) = metadata {
            Some(map)
        } else {
            Some(Map::new())
        },
        tier: Tier::Session,
        typology: Typology::Episodic,
        facets: Facets {
            trust,
            ..Facets::default()
        },
        ..Draft::default()
    };
    let sources = oldest_first
        .iter()
        .filter(|turn| !tools(turn).is_empty())
        .map(|turn| turn.id.clone())
        .collect();
    Some(Lasting { draft, sources })
}
