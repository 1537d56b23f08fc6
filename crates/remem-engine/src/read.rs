//! Reads: get, list, stats, the list of memories (`search` has a file of its own). Every entry is
//! redacted again by today's rules before it is returned.

use crate::caller::Caller;
use crate::cpu;
use crate::cursor;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::sabotage;
use remem_core::{Entry, EntryId, Permission, Rejection, Revision, Scope, Timestamp};
use remem_store::{Filter, ListPosition, MemoryStats, MemorySummary, Page, ReadAt};

/// Entries that a list fetches at once. With texts of the default length limit, they are twice the
/// bytes of a page.
const FETCH_SIZE: u32 = 128;

/// The parameters of a list.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// Number of entries wanted; see `Policy::list_limit`.
    pub limit: Option<u32>,
    /// Conditions that every entry must meet.
    pub filter: Filter,
    /// Cursor of the previous page, to continue after it.
    pub cursor: Option<String>,
    /// Wait until the node has this revision before reading.
    pub at_least: Option<Revision>,
    /// List the entries that were valid at this instant, rather than now.
    pub as_of: Option<Timestamp>,
}

/// One page of a list of entries.
#[derive(Clone, Debug, Default)]
pub struct EntryPage {
    /// The entries of this page, newest first.
    pub entries: Vec<Entry>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
}

impl Engine {
    /// Returns the entry with this id, if the caller may read it.
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
            .review_entries(caller, found.into_iter().collect(), &at)
            .await?
            .pop())
    }

    /// Returns one page of a memory's entries, newest first.
    pub async fn list(
        &self,
        caller: &Caller,
        memory_ref: &str,
        request: ListRequest,
    ) -> Result<EntryPage, EngineError> {
        caller.require(Permission::MemoryRead)?;
        self.check_filter(&request.filter)?;
        let at = snapshot_as_of(self.read_at(caller, request.at_least).await?, request.as_of);
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(EntryPage::default());
        };
        let after = request
            .cursor
            .map(|c| cursor::decode(&self.parts.host_key, &scope, &c))
            .transpose()?;
        let limit = self.parts.policy.list_limit(request.limit);
        // Fetch one entry more than requested: if it is there, there is another page.
        let wanted = Page {
            limit: limit.saturating_add(1),
            after,
        };
        let mut entries = self
            .fetch_page(&scope, &request.filter, wanted, &at)
            .await?;
        let bytes_max = self.parts.policy.page_bytes_max;
        let fitting = count_within_bytes(&entries, cpu::entry_bytes, bytes_max).min(limit as usize);
        let more = entries.len() > fitting;
        entries.truncate(fitting);
        let next_cursor = entries.last().filter(|_| more).map(|last| {
            let position = ListPosition {
                created_at: last.created_at,
                id: last.id.clone(),
            };
            cursor::encode(&self.parts.host_key, &scope, &position)
        });
        Ok(EntryPage {
            entries: self.review_entries(caller, entries, &at).await?,
            next_cursor,
        })
    }

    /// The entries of a page and at least one more, if there is one. Fetches in parts, so that a
    /// page of long texts is not in memory as a whole before it is cut.
    async fn fetch_page(
        &self,
        scope: &Scope,
        filter: &Filter,
        mut wanted: Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, EngineError> {
        let bytes_max = self.parts.policy.page_bytes_max;
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        loop {
            let page = Page {
                limit: wanted.limit.min(FETCH_SIZE),
                after: wanted.after.take(),
            };
            let found = self.parts.store.list(scope, filter, &page, at).await?;
            let last = found.len() < page.limit as usize;
            bytes += found.iter().map(cpu::entry_bytes).sum::<usize>();
            entries.extend(found);
            wanted.limit -= page.limit;
            if last || wanted.limit == 0 || bytes > bytes_max {
                return Ok(entries);
            }
            wanted.after = entries.last().map(|last| ListPosition {
                created_at: last.created_at,
                id: last.id.clone(),
            });
        }
    }

    /// Refuses a filter with too many tags, or with a tag too long for any entry to have. It would
    /// be evaluated for every entry and match hardly any.
    pub(crate) fn check_filter(&self, filter: &Filter) -> Result<(), Rejection> {
        let limit = self.parts.policy.query_tags_max as u64;
        let actual = filter.tags.len() as u64;
        if sabotage!(
            "a-search-asks-for-any-number-of-tags",
            actual > limit,
            false
        ) {
            return Err(Rejection::TooLarge {
                field: "tags",
                unit: "items",
                limit,
                actual,
            });
        }
        let limit = self.parts.policy.tag_chars_max as u64;
        let longest = filter.tags.iter().map(|tag| tag.chars().count()).max();
        let actual = longest.unwrap_or_default() as u64;
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "tags",
                unit: "characters",
                limit,
                actual,
            });
        }
        Ok(())
    }

    /// Returns the counts of one memory.
    pub async fn stats(
        &self,
        caller: &Caller,
        memory_ref: &str,
        at_least: Option<Revision>,
    ) -> Result<MemoryStats, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let at = self.read_at(caller, at_least).await?;
        let Some(scope) = caller.scope(memory_ref) else {
            return Ok(MemoryStats::default());
        };
        Ok(self.parts.store.stats(&scope, &at).await?)
    }

    /// Returns the tenant's memories by name, starting after `after`, and whether there are more.
    pub async fn memories(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
        at_least: Option<Revision>,
    ) -> Result<(Vec<MemorySummary>, bool), EngineError> {
        caller.require(Permission::MemoryRead)?;
        let at = self.read_at(caller, at_least).await?;
        let limit = self.parts.policy.list_limit(limit);
        let after = after.and_then(|name| caller.memory_ref(name));
        let mut found = self
            .parts
            .store
            .memories(
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

    /// Redacts entries again by the rules of today, on the thread pool for the caller's tenant.
    pub(crate) async fn review_entries(
        &self,
        caller: &Caller,
        entries: Vec<Entry>,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, EngineError> {
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, at.instant());
        let bytes = |entry: &Entry| cpu::review_bytes(&admission, entry);
        let review = |entry| Ok::<_, EngineError>(admission.redact_for_reader(entry));
        self.parts
            .cpu
            .each(caller.tenant(), entries, bytes, review)
            .await
    }
}

/// How many items fit into `bytes_max`, at least one.
pub(crate) fn count_within_bytes<T>(
    items: &[T],
    bytes: impl Fn(&T) -> usize,
    bytes_max: usize,
) -> usize {
    let mut sum = 0;
    let fitting = items.iter().take_while(|item| {
        sum += bytes(item);
        is_within(sum, bytes_max)
    });
    fitting.count().max(1)
}

/// Whether items of so many bytes together are one page.
pub(crate) fn is_within(bytes: usize, bytes_max: usize) -> bool {
    sabotage!("a-page-is-of-any-size", bytes <= bytes_max, true)
}

/// The moment of a read, or what was true at another one.
pub(crate) fn snapshot_as_of(at: ReadAt, then: Option<Timestamp>) -> ReadAt {
    then.map_or_else(
        || at.clone(),
        |then| ReadAt::AsOf {
            then,
            at: at.instant(),
        },
    )
}
