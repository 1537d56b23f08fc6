//! The event log of a run: pages, waiting for more, and a stream that ends with the run.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::event_visibility::review_event;
use crate::feed::FeedPermit;
use remem_core::sabotage;
use remem_core::{Event, EventKind, Permission, Revision, RunId, TenantId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How long to wait before reading again: commits of other processes trigger no notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Events read with one query.
const PAGE_SIZE: u32 = 256;

/// Whether this is a run's final event.
fn is_final(event: &Event) -> bool {
    matches!(
        event.body.kind(),
        EventKind::RunCompleted | EventKind::RunFailed | EventKind::RunCancelled
    )
}

impl Engine {
    /// Returns events of a run from position `from` on, and whether the caller has now got the
    /// final one.
    pub async fn run_events(
        &self,
        caller: &Caller,
        id: &str,
        from: u64,
    ) -> Result<(Vec<Event>, bool), EngineError> {
        caller.require(Permission::RunsRead)?;
        let id = RunId::parse(id).ok_or(EngineError::NotFound("run"))?;
        let mut events = self
            .parts
            .store
            .run_events(
                caller.tenant(),
                &id,
                from,
                self.parts.policy.events_page_max,
            )
            .await?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        events
            .iter_mut()
            .for_each(|event| review_event(&rules, event));
        let first = if from == 0 {
            Vec::new()
        } else {
            self.parts
                .store
                .run_events(caller.tenant(), &id, 0, 1)
                .await?
        };
        if sabotage!(
            "anybody-reads-a-run-s-events",
            !self.may_see_run(caller, first.first().or(events.first())),
            false
        ) {
            return Err(EngineError::NotFound("run"));
        }
        if let Some(last) = events.last() {
            return Ok((events.clone(), is_final(last)));
        }
        // There are no more events: either the caller has got the final one, or the run does not
        // exist, or it has not ended.
        let (run, _) = self
            .load_run(caller.tenant(), &id)
            .await?
            .ok_or(EngineError::NotFound("run"))?;
        let before = if from == 0 {
            Vec::new()
        } else {
            self.parts
                .store
                .run_events(caller.tenant(), &id, from - 1, 1)
                .await?
        };
        Ok((
            events,
            run.state.status.is_terminal() && before.last().is_some_and(is_final),
        ))
    }

    /// Whether the caller may see a run with this first event.
    pub(super) fn may_see_run(&self, caller: &Caller, first: Option<&Event>) -> bool {
        first
            .and_then(|event| event.body.owner())
            .is_none_or(|user| user == caller.principal().as_str())
    }

    /// Returns events as `run_events` does; if there are none yet and the run has not ended, waits
    /// for them up to `wait`.
    pub async fn poll_run(
        &self,
        caller: &Caller,
        id: &str,
        from: u64,
        wait: Duration,
    ) -> Result<(Vec<Event>, bool), EngineError> {
        let mut found = self.run_events(caller, id, from).await?;
        if !found.0.is_empty() || found.1 || wait.is_zero() {
            return Ok(found);
        }
        let mut watch = self.parts.store.watch_commits(caller.tenant()).await?;
        let run = RunId::parse(id).ok_or(EngineError::NotFound("run"))?;
        let waiting = async {
            loop {
                let step = self.wait_for_step(caller.tenant(), &run, &mut watch);
                found = self.run_events(caller, id, from).await?;
                if !found.0.is_empty() || found.1 {
                    return Ok(());
                }
                step.await;
            }
        };
        match tokio::time::timeout(wait, waiting).await {
            Ok(done) => done.map(|()| found),
            Err(_) => Ok((Vec::new(), false)),
        }
    }

    /// Returns a future that waits until the run may have taken a step: for its own notification
    /// where this process executes it, for the tenant's where another one does, and never for long.
    /// Steps count from this call on, not from the first poll of the future.
    fn wait_for_step<'a>(
        &self,
        tenant: &TenantId,
        run: &RunId,
        watch: &'a mut watch::Receiver<Revision>,
    ) -> impl Future<Output = ()> + use<'a> {
        let notifier = self
            .run_queue
            .step_notifier(tenant, run)
            .map(Notify::notified_owned);
        async move {
            let step = async {
                match notifier {
                    Some(notifier) => notifier.await,
                    // The watch of a file that the store has closed reports no more changes.
                    None if watch.changed().await.is_err() => std::future::pending().await,
                    None => {}
                }
            };
            let _ = tokio::time::timeout(POLL_INTERVAL, step).await;
        }
    }

    /// Opens a stream of a run's events from position `from` on.
    pub async fn run_feed(
        self: &Arc<Self>,
        caller: &Caller,
        id: &str,
        from: u64,
    ) -> Result<RunFeed, EngineError> {
        caller.require(Permission::RunsRead)?;
        let id = RunId::parse(id).ok_or(EngineError::NotFound("run"))?;
        let first = self
            .parts
            .store
            .run_events(caller.tenant(), &id, 0, 1)
            .await?;
        if sabotage!(
            "anybody-follows-a-run-s-stream",
            first.is_empty() || !self.may_see_run(caller, first.first()),
            first.is_empty()
        ) {
            return Err(EngineError::NotFound("run"));
        }
        let watch = self.parts.store.watch_commits(caller.tenant()).await?;
        Ok(RunFeed {
            permit: self.feed_permit(caller)?,
            caller: caller.clone(),
            id,
            from,
            watch,
            ended: false,
        })
    }
}

/// An open stream of a run's events. Dropping it frees its place among the tenant's streams.
pub struct RunFeed {
    permit: FeedPermit,
    caller: Caller,
    id: RunId,
    from: u64,
    watch: watch::Receiver<Revision>,
    ended: bool,
}

impl RunFeed {
    /// Waits for the next events and returns at least one. `None` after the final event, or once
    /// the caller's key is no longer valid.
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, EngineError> {
        let engine = self.permit.engine().clone();
        while !self.ended && engine.check_still_valid(&self.caller).await.is_ok() {
            let step = engine.wait_for_step(self.caller.tenant(), &self.id, &mut self.watch);
            let mut events = engine
                .parts
                .store
                .run_events(self.caller.tenant(), &self.id, self.from, PAGE_SIZE)
                .await?;
            let rules = engine.redaction_rules(self.caller.tenant()).await?;
            events
                .iter_mut()
                .for_each(|event| review_event(&rules, event));
            if let Some(last) = events.last() {
                self.from += events.len() as u64;
                self.ended = is_final(last);
                return Ok(Some(events));
            }
            if self.from > 0 {
                let before = engine
                    .parts
                    .store
                    .run_events(self.caller.tenant(), &self.id, self.from - 1, 1)
                    .await?;
                if before.last().is_some_and(is_final) {
                    return Ok(None);
                }
            }
            step.await;
            if self.watch.has_changed().is_err() {
                // The store closed the tenant's idle file: get a new watch.
                self.watch = engine
                    .parts
                    .store
                    .watch_commits(self.caller.tenant())
                    .await?;
            }
        }
        Ok(None)
    }
}
