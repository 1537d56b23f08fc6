//! The event feed of a tenant: pages, and a bounded number of open streams.

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::event_visibility::{self, EventVisibility};
use remem_core::sabotage;
use remem_core::{Event, Permission, Revision, Seq, TenantId};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long a stream waits before it reads again: commits of other processes trigger no
/// notification.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pages that one call reads, at most, if none of their events is visible to the caller.
const PAGES_MAX: u32 = 64;

impl Engine {
    /// Returns the events after `after` that the caller may see, oldest first, and the position
    /// that was reached. Hidden events are passed over, so that a reader never gets stuck behind
    /// them.
    pub async fn list_events(
        &self,
        caller: &Caller,
        after: Seq,
        limit: Option<u32>,
    ) -> Result<(Vec<Event>, Seq), EngineError> {
        caller.require(Permission::MemoryRead)?;
        let page_max = self.parts.policy.events_page_max;
        let limit = limit.filter(|n| *n > 0).unwrap_or(page_max).min(page_max) as usize;
        let mut visible = Vec::new();
        let mut reached = after;
        let mut visibility = EventVisibility::for_actor(caller.actor());
        let rules = self.redaction_rules(caller.tenant()).await?;
        for number in 0..PAGES_MAX {
            // The first page has the wanted size: mostly no event is hidden.
            let page_size = if number == 0 {
                u32::try_from(limit).unwrap_or(page_max)
            } else {
                page_max
            };
            let page = self
                .parts
                .store
                .events(caller.tenant(), reached, page_size)
                .await?;
            let full = page.len() == page_size as usize;
            for mut event in page {
                event_visibility::review_event(&rules, &mut event);
                sabotage!("streams-stop-at-what-is-hidden", reached = event.seq);
                visible.extend(
                    visibility
                        .visible_event(self, caller.tenant(), event)
                        .await?,
                );
                if visible.len() == limit {
                    return Ok((visible, reached));
                }
            }
            if !full {
                break;
            }
        }
        Ok((visible, reached))
    }

    /// The position of the newest event, from which a stream of new events starts.
    pub async fn newest_seq(&self, caller: &Caller) -> Result<Seq, EngineError> {
        caller.require(Permission::MemoryRead)?;
        Ok(self.parts.store.head(caller.tenant()).await?.seq)
    }

    /// Opens a stream of the caller's events after `after`. It reads page by page, so a reader that
    /// stops costs one page.
    pub async fn feed(
        self: &Arc<Self>,
        caller: &Caller,
        after: Seq,
    ) -> Result<EventFeed, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let watch = self.parts.store.watch_commits(caller.tenant()).await?;
        Ok(EventFeed {
            permit: self.feed_permit(caller)?,
            caller: caller.clone(),
            after,
            watch,
        })
    }

    /// Takes one of the tenant's places for open streams.
    pub(crate) fn feed_permit(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<FeedPermit, EngineError> {
        let mut feeds = self
            .open_feeds
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = feeds.entry(caller.tenant().clone()).or_default();
        if *open >= self.parts.policy.feeds_max {
            return Err(EngineError::TooManyFeeds);
        }
        *open += 1;
        Ok(FeedPermit {
            engine: self.clone(),
            tenant: caller.tenant().clone(),
        })
    }
}

/// A place among the tenant's open streams, whose number is bounded. Dropping it frees the place.
pub(crate) struct FeedPermit {
    engine: Arc<Engine>,
    tenant: TenantId,
}

impl FeedPermit {
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

/// An open stream of events. Dropping it frees its place.
pub struct EventFeed {
    permit: FeedPermit,
    caller: Caller,
    after: Seq,
    watch: watch::Receiver<Revision>,
}

impl EventFeed {
    /// Waits for the next events and returns at least one. `None` once the caller's key is no
    /// longer valid.
    pub async fn next(&mut self) -> Result<Option<Vec<Event>>, EngineError> {
        let engine = self.permit.engine().clone();
        loop {
            if engine.check_still_valid(&self.caller).await.is_err() {
                return Ok(None);
            }
            let (events, reached) = engine
                .list_events(&self.caller, self.after, Some(256))
                .await?;
            let moved = std::mem::replace(&mut self.after, reached) < reached;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if moved {
                continue;
            }
            if let Ok(Err(_)) = tokio::time::timeout(POLL_INTERVAL, self.watch.changed()).await {
                // The store closed the tenant's idle file: get a new watch.
                self.watch = engine
                    .parts
                    .store
                    .watch_commits(self.caller.tenant())
                    .await?;
            }
        }
    }
}

impl Drop for FeedPermit {
    fn drop(&mut self) {
        let mut feeds = self
            .engine
            .open_feeds
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = feeds.get_mut(&self.tenant) {
            *open -= 1;
            if *open == 0 {
                feeds.remove(&self.tenant);
            }
        }
    }
}
