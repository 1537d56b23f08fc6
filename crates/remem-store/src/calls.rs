//! Short calls for the queries that callers make often. Each fills in one query; whatever has the
//! trait of the query has the call.

use crate::entry::{
    EntryQuery, EntryReads, FoundEntry, MemoryEntries, RowCursor, TenantEntries, WholeEntry,
};
use crate::error::StoreError;
use crate::log::{EventRange, LogReads};
use crate::read::{Filter, Page, ReadAt};
use crate::record::{RecordLookup, RecordReads, Review};
use crate::workshop::{RuleRange, WorkshopReads, WorldRule};
use async_trait::async_trait;
use remem_core::{
    Entry, EntryId, Event, MemoryRef, ModelId, Record, RecordKind, RuleId, RunId, Scope, Seq,
    TenantId, Timestamp, Typology, WorldId,
};

/// The queries of `EntryReads` by name; `MemoryEntries` and `TenantEntries` describe them.
#[async_trait]
pub trait EntryCalls: EntryReads {
    /// Returns the entry with that id, if it is live.
    async fn get(
        &self,
        scope: &Scope,
        id: &EntryId,
        at: &ReadAt,
    ) -> Result<Option<Entry>, StoreError> {
        let named = MemoryEntries::Named {
            id: id.clone(),
            at: at.clone(),
        };
        let found = self
            .entries(&EntryQuery::of_memory(scope, named, 1))
            .await?;
        Ok(entries_of(found).next())
    }

    /// Lists live entries, newest first.
    async fn list(
        &self,
        scope: &Scope,
        filter: &Filter,
        page: &Page,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let live = MemoryEntries::Live {
            filter: filter.clone(),
            after: page.after.clone(),
            at: at.clone(),
        };
        let query = EntryQuery::of_memory(scope, live, page.limit);
        Ok(entries_of(self.entries(&query).await?).collect())
    }

    /// Returns live entries that stand until further notice.
    async fn standing_entries(
        &self,
        scope: &Scope,
        typology: Typology,
        filter: &Filter,
        limit: u32,
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let standing = MemoryEntries::Standing {
            typology,
            filter: filter.clone(),
            at: at.clone(),
        };
        let query = EntryQuery::of_memory(scope, standing, limit);
        Ok(entries_of(self.entries(&query).await?).collect())
    }

    /// Returns those of the named entries that are live, each once, in any order.
    async fn named_entries(
        &self,
        tenant: &TenantId,
        names: &[(MemoryRef, EntryId)],
        at: &ReadAt,
    ) -> Result<Vec<Entry>, StoreError> {
        let named = TenantEntries::Named {
            names: names.to_vec(),
            at: at.clone(),
        };
        let query = EntryQuery::of_tenant(tenant, named, u32::MAX);
        Ok(entries_of(self.entries(&query).await?).collect())
    }

    /// Returns those of the named entries that have a text and no vector of that model, each once,
    /// in any order.
    async fn named_entries_without_vector(
        &self,
        tenant: &TenantId,
        model: ModelId,
        names: &[(MemoryRef, EntryId)],
    ) -> Result<Vec<Entry>, StoreError> {
        let unembedded = TenantEntries::NamedWithoutVector {
            names: names.to_vec(),
            model,
        };
        let query = EntryQuery::of_tenant(tenant, unembedded, u32::MAX);
        Ok(entries_of(self.entries(&query).await?).collect())
    }

    /// Returns the entries that answer a slot or did.
    async fn slot_history(
        &self,
        scope: &Scope,
        slot: &str,
        limit: u32,
    ) -> Result<Vec<WholeEntry>, StoreError> {
        let query = EntryQuery::of_memory(scope, MemoryEntries::OfSlot(slot.to_owned()), limit);
        let found = self.entries(&query).await?;
        Ok(found.into_iter().filter_map(|found| found.whole).collect())
    }

    /// Returns entries that consolidation may examine and that have no signature.
    async fn entries_without_signature(
        &self,
        scope: &Scope,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let unsigned = MemoryEntries::WithoutSignature { after };
        let query = EntryQuery::of_memory(scope, unsigned, limit);
        Ok(with_rows(self.entries(&query).await?))
    }

    /// Returns those entries at these positions that consolidation may examine.
    async fn entries_at(
        &self,
        scope: &Scope,
        rows: &[RowCursor],
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let at_rows = MemoryEntries::AtRows(rows.to_vec());
        let query = EntryQuery::of_memory(scope, at_rows, u32::MAX);
        Ok(with_rows(self.entries(&query).await?))
    }

    /// Returns entries that have a text and no vector of that model.
    async fn entries_without_vector(
        &self,
        tenant: &TenantId,
        model: ModelId,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<Vec<(RowCursor, Entry)>, StoreError> {
        let unembedded = TenantEntries::WithoutVector { model, after };
        let query = EntryQuery::of_tenant(tenant, unembedded, limit);
        Ok(with_rows(self.entries(&query).await?))
    }

    /// Returns entries whose text was admitted under other redaction rules than `scan` identifies.
    async fn entries_to_rescan(
        &self,
        tenant: &TenantId,
        scan: u64,
        after: Option<RowCursor>,
        limit: u32,
    ) -> Result<RescanPage, StoreError> {
        let stale = TenantEntries::ToRescan { scan, after };
        let query = EntryQuery::of_tenant(tenant, stale, limit);
        let found = self.entries(&query).await?;
        let last = found.last().filter(|_| found.len() == limit as usize);
        Ok(RescanPage {
            next: last.map(|found| found.row),
            entries: entries_of(found).collect(),
        })
    }

    /// Returns the names of entries that are expired at `at` and still have their text.
    async fn expired_entries(
        &self,
        tenant: &TenantId,
        at: Timestamp,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let query = EntryQuery::of_tenant(tenant, TenantEntries::Expired(at), limit);
        Ok(names_of(self.entries(&query).await?))
    }

    /// Returns the names of removed entries whose text can be erased.
    async fn erasable_entries(
        &self,
        tenant: &TenantId,
        limit: u32,
    ) -> Result<Vec<(MemoryRef, EntryId)>, StoreError> {
        let query = EntryQuery::of_tenant(tenant, TenantEntries::Erasable, limit);
        Ok(names_of(self.entries(&query).await?))
    }

    /// Returns statements that ceased to be true before `before`.
    async fn ended_statements(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        after: Option<(Timestamp, RowCursor)>,
        limit: u32,
    ) -> Result<Vec<EndedStatement>, StoreError> {
        let ended = TenantEntries::EndedStatements { before, after };
        let query = EntryQuery::of_tenant(tenant, ended, limit);
        let found = self.entries(&query).await?;
        Ok(found.into_iter().filter_map(ended_statement).collect())
    }
}

impl<S: EntryReads + ?Sized> EntryCalls for S {}

fn entries_of(found: Vec<FoundEntry>) -> impl Iterator<Item = Entry> {
    let wholes = found.into_iter().filter_map(|found| found.whole);
    wholes.map(|whole| whole.entry)
}

fn with_rows(found: Vec<FoundEntry>) -> Vec<(RowCursor, Entry)> {
    let whole = |found: FoundEntry| Some((found.row, found.whole?.entry));
    found.into_iter().filter_map(whole).collect()
}

fn names_of(found: Vec<FoundEntry>) -> Vec<(MemoryRef, EntryId)> {
    let name = |found: FoundEntry| (found.memory_ref, found.id);
    found.into_iter().map(name).collect()
}

fn ended_statement(found: FoundEntry) -> Option<EndedStatement> {
    Some(EndedStatement {
        ended_at: found.invalid_at?,
        row: found.row,
        memory_ref: found.memory_ref,
        id: found.id,
    })
}

/// A statement that ceased to be true and still has its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedStatement {
    /// The instant at which it ceased to be true, and …
    pub ended_at: Timestamp,
    /// … its position among those of the same instant; together they are the cursor of a page.
    pub row: RowCursor,
    pub memory_ref: MemoryRef,
    pub id: EntryId,
}

/// A page of entries that must be redacted again.
#[derive(Clone, Debug, Default)]
pub struct RescanPage {
    pub entries: Vec<Entry>,
    /// The position for the next page; `None` at the end.
    pub next: Option<RowCursor>,
}

/// The lookups of `RecordReads` by name.
#[async_trait]
pub trait RecordCalls: RecordReads {
    /// Returns the record with that name.
    async fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        let lookup = RecordLookup::Name(key.to_owned());
        Ok(self.records_by(tenant, kind, &lookup, 1).await?.pop())
    }

    /// Returns records whose name begins with `prefix` and comes after `after`.
    async fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let lookup = RecordLookup::names(prefix, after);
        self.records_by(tenant, kind, &lookup, limit).await
    }
}

impl<S: RecordReads + ?Sized> RecordCalls for S {}

/// The lookups of `Review` by name.
#[async_trait]
pub trait ReviewCalls: Review {
    /// Returns the record under review with that name.
    async fn review_record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        key: &str,
    ) -> Result<Option<Record>, StoreError> {
        let lookup = RecordLookup::Name(key.to_owned());
        Ok(self
            .review_records_by(tenant, kind, &lookup, 1)
            .await?
            .pop())
    }

    /// Returns records under review whose name begins with `prefix` and comes after `after`.
    async fn review_records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let lookup = RecordLookup::names(prefix, after);
        self.review_records_by(tenant, kind, &lookup, limit).await
    }

    /// Returns records under review that are due, earliest first.
    async fn due_review_records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        until: Timestamp,
        limit: u32,
    ) -> Result<Vec<Record>, StoreError> {
        let lookup = RecordLookup::Due { until, after: None };
        self.review_records_by(tenant, kind, &lookup, limit).await
    }
}

impl<S: Review + ?Sized> ReviewCalls for S {}

/// The ranges of `LogReads` by name.
#[async_trait]
pub trait LogCalls: LogReads {
    /// Returns events of the tenant's log after `after`.
    async fn events(
        &self,
        tenant: &TenantId,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.events_in(tenant, &EventRange::After(after), limit)
            .await
    }

    /// Returns events of one run's own log from position `from` on.
    async fn run_events(
        &self,
        tenant: &TenantId,
        run: &RunId,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.events_in(tenant, &EventRange::OfRun(run.clone(), from), limit)
            .await
    }
}

impl<S: LogReads + ?Sized> LogCalls for S {}

/// The ranges of `WorkshopReads` by name.
#[async_trait]
pub trait RuleCalls: WorkshopReads {
    /// Lists the rules of a world in the order of their names, after `after`.
    async fn rules(
        &self,
        tenant: &TenantId,
        world: &WorldId,
        after: Option<&RuleId>,
        limit: u32,
    ) -> Result<Vec<WorldRule>, StoreError> {
        let range = RuleRange::OfWorld(world.clone(), after.cloned());
        let rules = self.rules_in(tenant, &range, limit).await?;
        Ok(rules.into_iter().map(|(_, rule)| rule).collect())
    }

    /// Lists the rules of all worlds, in the order of world and name, after `after`.
    async fn all_rules(
        &self,
        tenant: &TenantId,
        after: Option<&(WorldId, RuleId)>,
        limit: u32,
    ) -> Result<Vec<(WorldId, WorldRule)>, StoreError> {
        self.rules_in(tenant, &RuleRange::All(after.cloned()), limit)
            .await
    }
}

impl<S: WorkshopReads + ?Sized> RuleCalls for S {}
