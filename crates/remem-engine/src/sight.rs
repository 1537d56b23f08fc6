//! What a user sees of a tenant's log: everything but what is about the own memories of others.
//! Feeds and webhooks ask here, and nobody else shows an event. Decides nothing about entries:
//! stores look at those.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::Rules;
use remem_core::sabotage;
use remem_core::{Actor, Event, EventBody, RunId, ShapePolicy, TenantId};
use std::collections::HashMap;

/// The eyes of one user, for one page or one activation: whose a run is is looked up once.
pub(crate) struct Sight {
    actor: Actor,
    runs: HashMap<RunId, Option<String>>,
}

impl Sight {
    /// Of whoever acts so.
    pub fn of(actor: Actor) -> Sight {
        Sight {
            actor,
            runs: HashMap::new(),
        }
    }

    /// Whether what is `owner`'s alone is seen.
    pub fn sees(&self, owner: Option<&str>) -> bool {
        owner.is_none_or(|owner| self.actor == Actor::Host || self.actor.as_str() == owner)
    }

    /// The event as it is shown; `None` if it is not. What another user's run did to a memory of
    /// the tenant is shown without the run.
    pub async fn shown(
        &mut self,
        engine: &Engine,
        tenant: &TenantId,
        mut event: Event,
    ) -> Result<Option<Event>, EngineError> {
        if sabotage!(
            "the-feed-shows-everybody-s-own",
            !self.sees(event.body.owner()),
            false
        ) {
            return Ok(None);
        }
        let of_run = self.owner_of_run(engine, tenant, &event).await?;
        if self.sees(of_run.as_deref()) {
            return Ok(Some(event));
        }
        if sabotage!(
            "runs-of-one-s-own-are-told-to-all",
            event.body.memory_ref().is_none(),
            false
        ) {
            return Ok(None);
        }
        sabotage!("an-entry-tells-of-a-hidden-run", event.run = None);
        if let EventBody::Written(written) = &mut event.body {
            (written.node_id, written.agent_id) = (None, None);
        }
        Ok(Some(event))
    }

    /// The user who alone may know of an event, whoever looks.
    pub async fn owner(
        &mut self,
        engine: &Engine,
        tenant: &TenantId,
        event: &Event,
    ) -> Result<Option<String>, EngineError> {
        match event.body.owner() {
            Some(owner) => Ok(Some(owner.to_owned())),
            None => self.owner_of_run(engine, tenant, event).await,
        }
    }

    async fn owner_of_run(
        &mut self,
        engine: &Engine,
        tenant: &TenantId,
        event: &Event,
    ) -> Result<Option<String>, EngineError> {
        let Some(run) = &event.run else {
            return Ok(None);
        };
        if let EventBody::RunStarted(started) = &event.body {
            self.runs.insert(run.id.clone(), started.only_for.clone());
        }
        if let Some(known) = self.runs.get(&run.id) {
            return Ok(known.clone());
        }
        let owner = engine.run_owner(tenant, &run.id).await?;
        self.runs.insert(run.id.clone(), owner.clone());
        Ok(owner)
    }
}

impl Engine {
    /// The user who alone sees a run. Its log tells, which is kept when the run itself is not any
    /// more.
    pub(crate) async fn run_owner(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<String>, EngineError> {
        let first = self.parts.store.run_events(tenant, run, 0, 1).await?;
        Ok(first
            .first()
            .and_then(|event| event.body.owner())
            .map(str::to_owned))
    }
}

/// The event without tags that became secret since it was written: the events are chained, so they
/// stay on disk as they are.
pub(crate) fn review(rules: &Rules, event: &mut Event) {
    if let EventBody::Written(written) = &mut event.body {
        let redactor = rules.redactor();
        let shown = |tag: &String| !redactor.touches(tag, ShapePolicy::Off);
        sabotage!("late-secrets-show-in-events", written.tags.retain(shown));
    }
}
