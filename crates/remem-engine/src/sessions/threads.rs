//! Closing a chat thread: instructions and corrections by the operator are promoted to the session,
//! and so is one line that lists the tools that were called. The turns themselves end, unless an
//! action refers to them.

use super::close::{PromotedEntry, promoted_id};
use super::patterns::{thread_patterns, tools};
use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::workshop::placement::SlotPlanner;
use remem_core::{
    Batch, Draft, Entry, Facets, InteractionId, Permission, Rejection, Scope, SessionId, Tier,
    Timestamp, Typology,
};
use remem_store::{ChangeOutcome, Filter, StoreError};
use serde_json::{Map, Value, json};

/// Turns ended in one commit.
const BATCH_SIZE: usize = 500;
/// How often a promotion is retried after a conflict.
const COMMIT_TRIES: usize = 4;

/// The result of closing a chat thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloseThreadResult {
    /// Number of entries that were promoted to the session.
    pub promoted: u64,
    /// Number of turns that ended.
    pub ended: u64,
    /// Number of turns that stay because an action refers to them.
    pub retained: u64,
}

impl Engine {
    /// Closes a chat thread of the open session. Repeating the call changes nothing more.
    pub async fn close_interaction(
        &self,
        caller: &Caller,
        memory_ref: &str,
        interaction: &str,
    ) -> Result<CloseThreadResult, EngineError> {
        caller.require(Permission::MemoryWrite)?;
        let scope = caller
            .scope(memory_ref)
            .ok_or(EngineError::NotFound("memory"))?;
        let interaction = InteractionId::parse(interaction).ok_or(Rejection::MalformedName {
            field: "interaction",
        })?;
        let mut report = CloseThreadResult::default();
        for _ in 0..COMMIT_TRIES {
            match self.promote_from_thread(caller, &scope, &interaction).await {
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

    /// The turns of a chat thread.
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
        self.session_entries(scope, &filter, now).await
    }

    /// Promotes what outlasts a chat thread to its session; returns how many entries that is.
    async fn promote_from_thread(
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
            let mut lasting = thread_patterns(&turns);
            lasting.extend(tool_call_summary(&turns, interaction));
            lasting
        };
        let size = turns.iter().map(cpu::entry_bytes).sum();
        let candidates = self.parts.cpu.run(&scope.tenant, size, work).await?;
        let mut batch =
            Batch::new(scope.tenant.clone(), now).with_principal(caller.principal().clone());
        let mut slots = SlotPlanner::new(self, scope);
        let mut promoted = 0;
        for mut candidate in candidates {
            candidate.draft.facets.session = Some(session.clone());
            let id = promoted_id(scope, &thread_scoped_id(&session, interaction), &candidate);
            if self.parts.store.lineage(scope, &id).await?.is_none() {
                promoted += 1;
                batch = self
                    .add_promoted(scope, batch, &mut slots, id, candidate, now)
                    .await?;
            }
        }
        self.parts.store.commit(batch).await?;
        Ok(promoted)
    }

    /// Ends the turns of a chat thread.
    async fn end_turns(
        &self,
        caller: &Caller,
        scope: &Scope,
        interaction: &InteractionId,
        mut report: CloseThreadResult,
    ) -> Result<CloseThreadResult, EngineError> {
        let now = self.now_for(&scope.tenant).await?;
        for page in self
            .turns(scope, interaction, now)
            .await?
            .chunks(BATCH_SIZE)
        {
            let empty =
                Batch::new(scope.tenant.clone(), now).with_principal(caller.principal().clone());
            let batch = page.iter().fold(empty, |batch, turn| {
                batch.end_with_session(scope.memory_ref.clone(), turn.id.clone())
            });
            let outcomes = self.parts.store.commit(batch).await?.outcomes;
            let ended = outcomes
                .iter()
                .filter(|outcome| **outcome == ChangeOutcome::Removed)
                .count() as u64;
            report.ended += ended;
            report.retained += outcomes.len() as u64 - ended;
        }
        Ok(report)
    }
}

/// The session's id combined with the thread's, for ids of promoted entries: two threads of a
/// session may yield the same text.
fn thread_scoped_id(session: &SessionId, interaction: &InteractionId) -> SessionId {
    let digest = blake3::hash(interaction.as_str().as_bytes()).to_hex();
    SessionId::parse(&format!(
        "{}.{}",
        &session.as_str()[..session.as_str().len().min(64)],
        &digest[..32]
    ))
    .expect("a short name")
}

/// One entry that lists the tools that the thread called, in order: routines are found over several
/// threads.
fn tool_call_summary(turns: &[Entry], interaction: &InteractionId) -> Option<PromotedEntry> {
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
    Some(PromotedEntry { draft, sources })
}
