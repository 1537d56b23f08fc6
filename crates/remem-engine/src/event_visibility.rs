//! Which events of a tenant's log a user may see: all except those about memories that belong to
//! other users. Feeds and webhooks decide by this, and no other code returns events. It decides
//! nothing about entries: stores check those.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::secrets::RedactionRules;
use remem_core::sabotage;
use remem_core::{Actor, Event, EventBody, RunId, ShapePolicy, TenantId};
use std::collections::HashMap;

/// The events that one user may see. Used for one page or activation; the owner of each run is
/// looked up once.
pub(crate) struct EventVisibility {
    actor: Actor,
    runs: HashMap<RunId, Option<String>>,
}

impl EventVisibility {
    /// The visibility for this actor.
    pub fn for_actor(actor: Actor) -> EventVisibility {
        EventVisibility {
            actor,
            runs: HashMap::new(),
        }
    }

    /// Whether an event is visible whose owner is `owner`.
    pub fn is_visible(&self, owner: Option<&str>) -> bool {
        owner.is_none_or(|owner| self.actor == Actor::Host || self.actor.as_str() == owner)
    }

    /// The event as the user may see it; `None` if it is hidden. Of what another user's run did to
    /// a shared memory, the event is shown without the run.
    pub async fn visible_event(
        &mut self,
        engine: &Engine,
        tenant: &TenantId,
        mut event: Event,
    ) -> Result<Option<Event>, EngineError> {
        if sabotage!(
            "the-feed-shows-everybody-s-own",
            !self.is_visible(event.body.owner()),
            false
        ) {
            return Ok(None);
        }
        let run_owner = self.owner_of_run(engine, tenant, &event).await?;
        if self.is_visible(run_owner.as_deref()) {
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

    /// The user who alone may see an event, independent of who asks.
    pub async fn owner_of_event(
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

    /// The user who alone may see the event's run, cached.
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
    /// The user who alone may see a run. Read from the run's log, which is kept longer than its
    /// record.
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

/// Removes tags that have become secret since the event was written. The stored event stays as it
/// is, because events form a hash chain.
pub(crate) fn review_event(rules: &RedactionRules, event: &mut Event) {
    if let EventBody::Written(written) = &mut event.body {
        let redactor = rules.redactor();
        let is_clean = |tag: &String| !redactor.has_findings(tag, ShapePolicy::Off);
        sabotage!("late-secrets-show-in-events", written.tags.retain(is_clean));
    }
}
