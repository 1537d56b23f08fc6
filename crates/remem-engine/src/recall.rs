//! Reads: get, list, stats, the list of memories (`search` has a file of its own). Nothing leaves
//! without a second look at what it holds.

use crate::caller::Caller;
use crate::cursor;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::{Entry, EntryId, Permission, Revision, Timestamp};
use remem_store::{Filter, Page, Position, ReadAt, ScopeStats, ScopeSummary};

/// What a list asks for.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Entries wanted; see `Policy::list_limit`.
    pub limit: Option<u32>,
    /// Conditions.
    pub filter: Filter,
    /// Where an earlier page ended.
    pub cursor: Option<String>,
    /// Read at least this revision.
    pub at_least: Option<Revision>,
    /// What was true at this instant, rather than now.
    pub as_of: Option<Timestamp>,
}

/// One page of a list.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// Set if there is more.
    pub next_cursor: Option<String>,
}

impl Engine {
    /// The entry of that name, if the caller may see one.
    pub async fn get(
        &self,
        caller: &Caller,
        memory_ref: &str,
        id: &str,
        at_least: Option<Revision>,
    ) -> Result<Option<Entry>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let at = self.read_at(caller, at_least).await?;
        let (Some(scope), Some(id)) = (caller.scope(memory_ref), EntryId::parse(id)) else {
            return Ok(None);
        };
        let found = self.parts.store.get(&scope, &id, &at).await?;
        Ok(self
            .show(caller, found.into_iter().collect(), &at)
            .await?
            .pop())
    }

    /// A page of entries, newest first.
    pub async fn list(
        &self,
        caller: &Caller,
        memory_ref: &str,
        request: ListRequest,
    ) -> Result<Listed, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let at = as_of(self.read_at(caller, request.at_least).await?, request.as_of);
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(Listed::default());
        };
        let after = request
            .cursor
            .map(|c| cursor::open(&self.parts.key, &scope, &c))
            .transpose()?;
        let limit = self.parts.policy.list_limit(request.limit);
        // One more than asked for tells whether there is another page.
        let page = Page {
            limit: limit.saturating_add(1),
            after,
        };
        let mut entries = self
            .parts
            .store
            .list(&scope, &request.filter, &page, &at)
            .await?;
        let more = entries.len() > limit as usize;
        entries.truncate(limit as usize);
        let next_cursor = entries.last().filter(|_| more).map(|last| {
            let position = Position {
                created_at: last.created_at,
                id: last.id.clone(),
            };
            cursor::seal(&self.parts.key, &scope, &position)
        });
        Ok(Listed {
            entries: self.show(caller, entries, &at).await?,
            next_cursor,
        })
    }

    /// Counts of one memory.
    pub async fn stats(
        &self,
        caller: &Caller,
        memory_ref: &str,
        at_least: Option<Revision>,
    ) -> Result<ScopeStats, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let at = self.read_at(caller, at_least).await?;
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(ScopeStats::default());
        };
        Ok(self.parts.store.stats(&scope, &at).await?)
    }

    /// The tenant's memories by name, after `after`, and whether there are more.
    pub async fn memories(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
        at_least: Option<Revision>,
    ) -> Result<(Vec<ScopeSummary>, bool), EngineError> {
        caller.require(Permission::MemoryRead)?;
        let at = self.read_at(caller, at_least).await?;
        let limit = self.parts.policy.list_limit(limit);
        let after = after.and_then(|name| caller.memory_ref(name));
        let mut found = self
            .parts
            .store
            .scopes(
                caller.tenant(),
                &caller.actor(),
                after.as_ref(),
                limit.saturating_add(1),
                &at,
            )
            .await?;
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        Ok((found, more))
    }

    pub(crate) async fn show(
        &self,
        caller: &Caller,
        entries: Vec<Entry>,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, EngineError> {
        let policy = self.policy_of(caller);
        let rules = self.rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, at.instant());
        Ok(entries
            .into_iter()
            .map(|entry| admission.review(entry))
            .collect())
    }
}

/// The moment of a read, or what was true at another one.
pub(crate) fn as_of(at: ReadAt, then: Option<Timestamp>) -> ReadAt {
    then.map_or_else(
        || at.clone(),
        |then| ReadAt::AsOf {
            then,
            at: at.instant(),
        },
    )
}
