//! Copies one tenant: first the histories of source and target are compared, then events, memories,
//! entries, the relations between them, idempotency records, other records, rules and the clock are
//! copied; then source and target are compared, and only then tenant and keys are written.
//!
//! Rules come last, because a store refuses entries that restate one, and the source may hold some
//! that are older than the rule. The rules that an earlier copy brought are deleted before the
//! entries come, and after the events: those make the tenant's next commit impossible (see `copy`),
//! so that nothing can be written there while the guard of rules is missing, not even if the copy
//! never continues. Without a new event there is neither a new entry nor another rule, and the
//! rules stay where they are.

use super::digest::{ClockRow, TenantDigest};
use super::error::CopyError;
use super::side::{CopySide, TenantReader};
use super::table::{CopiedRow, CopiedTable, TABLES};
use super::{CopyPhase, CopyProgress, OnProgress, TenantReport};
use remem_core::sabotage;
use remem_core::{TenantId, Trust};
use remem_store::{KeyRecord, TenantRecord};

/// Copies a tenant, or only checks and counts it.
pub(super) async fn copy(
    source: &dyn CopySide,
    target: &dyn CopySide,
    tenant: &TenantRecord,
    dry_run: bool,
    on_progress: &mut OnProgress<'_>,
) -> Result<TenantReport, CopyError> {
    let id = &tenant.id;
    let snapshot = source.snapshot(id).await?;
    let clock = snapshot.clock().await?;
    let target_log = refuse_other_history(snapshot.as_ref(), &clock, target, id).await?;
    if snapshot.has_open_runs().await? {
        return Err(CopyError::OpenRuns(id.clone()));
    }
    if dry_run {
        return count(source, id).await;
    }
    let entries = (0, snapshot.entry_count().await?);
    let events = (0, clock.seq.cast_unsigned());
    let progress = CopyProgress {
        tenant: id.clone(),
        phase: CopyPhase::Copying,
        entries,
        events,
    };
    let digest = TenantDigest::at(clock);
    let mut copying = TenantCopy {
        snapshot: snapshot.as_ref(),
        target,
        progress,
        on_progress,
        digest,
    };
    copying.copy_rows(target_log).await?;
    copying.compare().await?;
    let digest = copying.digest;
    snapshot.release().await?;
    // The rows get new hashes at the target: damage would look intact there and could not be found
    // any more.
    sabotage!(
        "a-copy-makes-damage-sound",
        source
            .store()
            .verify(id)
            .await
            .map_err(|error| CopyError::Damaged(id.clone(), error))?
    );
    publish(source, target, tenant).await?;
    let now = source.snapshot(id).await?;
    let moved = now.clock().await? != digest.clock;
    now.release().await?;
    Ok(TenantReport {
        tenant: id.clone(),
        entries: digest.entries,
        events: digest.events(),
        hash: digest.hex(),
        verified: true,
        source_changed: moved,
    })
}

/// Counts the rows that there are to copy.
pub(super) async fn count(
    source: &dyn CopySide,
    tenant: &TenantId,
) -> Result<TenantReport, CopyError> {
    let snapshot = source.snapshot(tenant).await?;
    let events = snapshot.clock().await?.seq.cast_unsigned();
    let entries = snapshot.entry_count().await?;
    snapshot.release().await?;
    Ok(TenantReport {
        tenant: tenant.clone(),
        entries,
        events,
        hash: String::new(),
        verified: false,
        source_changed: false,
    })
}

/// The part of the event log that a target has.
struct TargetLog {
    /// The number of the newest stored event.
    last_seq: i64,
    /// Everything up to the source's newest event was completely copied before.
    is_complete: bool,
}

/// Refuses a target whose events are not the first ones of the source: each hash covers all events
/// before it.
async fn refuse_other_history(
    source: &dyn TenantReader,
    clock: &ClockRow,
    target: &dyn CopySide,
    tenant: &TenantId,
) -> Result<TargetLog, CopyError> {
    let target = target.snapshot(tenant).await?;
    let target_clock = target.clock().await?;
    let last = target.last_event().await?.unwrap_or((0, vec![0; 32]));
    if last.0.max(target_clock.seq) > clock.seq {
        let same =
            clock.seq > 0 && target.event_hash(clock.seq).await?.as_ref() == Some(&clock.chain);
        return Err(if same {
            CopyError::Ahead(tenant.clone())
        } else {
            CopyError::OtherHistory(tenant.clone())
        });
    }
    for (seq, hash) in [(target_clock.seq, &target_clock.chain), (last.0, &last.1)] {
        if seq > 0 && source.event_hash(seq).await?.as_ref() != Some(hash) {
            return Err(CopyError::OtherHistory(tenant.clone()));
        }
    }
    target.release().await?;
    Ok(TargetLog {
        last_seq: last.0,
        is_complete: target_clock.seq == clock.seq,
    })
}

/// The copy of one tenant.
struct TenantCopy<'a, 'p> {
    snapshot: &'a dyn TenantReader,
    target: &'a dyn CopySide,
    progress: CopyProgress,
    on_progress: &'a mut OnProgress<'p>,
    /// The digest of the source's rows, computed while they are read.
    digest: TenantDigest,
}

impl TenantCopy<'_, '_> {
    /// Reports the progress; an error if the caller stops the copy.
    fn report_progress(&mut self) -> Result<(), CopyError> {
        if (self.on_progress)(&self.progress).is_break() {
            Err(CopyError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Copies all rows, the clock last.
    async fn copy_rows(&mut self, target_log: TargetLog) -> Result<(), CopyError> {
        self.report_progress()?;
        self.copy_events(target_log.last_seq).await?;
        if sabotage!(
            "a-copy-leaves-rules-in-the-way-of-what-is-older",
            sabotage!(
                "a-copy-without-anything-new-takes-the-guard-away",
                !target_log.is_complete,
                true
            ),
            false
        ) {
            self.clear(&TABLES.rules).await?;
        }
        self.copy_table(&TABLES.scopes).await?;
        self.copy_entries().await?;
        // What refers to entries comes once all of them are copied, and their windows are the same
        // as at the source.
        self.copy_table(&TABLES.slots).await?;
        self.copy_table(&TABLES.replaced).await?;
        self.copy_table(&TABLES.lineage).await?;
        sabotage!(
            "a-copy-leaves-subjects-that-were-forgotten",
            self.clear(&TABLES.subjects).await?
        );
        self.copy_table(&TABLES.subjects).await?;
        self.copy_table(&TABLES.actions).await?;
        self.copy_results().await?;
        for records in [&TABLES.records, &TABLES.reviews] {
            self.clear(records).await?;
            self.copy_table(records).await?;
        }
        self.copy_table(&TABLES.rules).await?;
        let written = self.digest.written_events;
        let found = self.digest.entries;
        if written != found {
            return Err(CopyError::Hidden {
                tenant: self.progress.tenant.clone(),
                written,
                found,
            });
        }
        if self.digest.clock != ClockRow::default() {
            self.target
                .finish(&self.progress.tenant, self.digest.clock.clone())
                .await?;
        }
        self.report_progress()
    }

    async fn copy_events(&mut self, has: i64) -> Result<(), CopyError> {
        let events = &TABLES.events;
        let mut after = None;
        loop {
            let mut page = self.snapshot.page(events, after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.position.clone());
            page.iter().for_each(|row| self.digest.row(events, row));
            self.progress.events.0 += page.len() as u64;
            page.retain(|row| events.number(row, "seq") > Some(has));
            self.put(events, page).await?;
        }
    }

    /// Copies all rows of a table.
    async fn copy_table(&mut self, table: &'static CopiedTable) -> Result<(), CopyError> {
        let mut after = None;
        loop {
            let page = self.snapshot.page(table, after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.position.clone());
            if TABLES.is_compared(table) {
                page.iter().for_each(|row| self.digest.row(table, row));
            }
            self.put(table, page).await?;
        }
    }

    async fn put(
        &mut self,
        table: &'static CopiedTable,
        page: Vec<CopiedRow>,
    ) -> Result<(), CopyError> {
        let tenant = &self.progress.tenant;
        if !page.is_empty() {
            self.target.put_page(tenant, table, page).await?;
        }
        self.report_progress()
    }

    async fn clear(&self, table: &'static CopiedTable) -> Result<(), CopyError> {
        Ok(self.target.clear(&self.progress.tenant, table).await?)
    }

    /// The next page is read while one is written.
    async fn copy_entries(&mut self) -> Result<(), CopyError> {
        let mut page = self.snapshot.entries((0, 0)).await?;
        while let Some(last) = page.last() {
            let after = (last.0.scope, last.0.row);
            page.iter().for_each(|row| self.digest.entry(row));
            self.progress.entries.0 += page.len() as u64;
            let tenant = &self.progress.tenant;
            let ((), next) = tokio::try_join!(
                self.target.put_entries(tenant, page),
                self.snapshot.entries(after)
            )?;
            page = next;
            self.report_progress()?;
        }
        Ok(())
    }

    async fn copy_results(&mut self) -> Result<(), CopyError> {
        let results = &TABLES.results;
        let mut after = None;
        let mut oldest = i64::MAX;
        loop {
            let page = self.snapshot.page(results, after).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.position.clone());
            page.iter().for_each(|row| self.digest.row(results, row));
            let times = page.iter().filter_map(|row| results.number(row, "at"));
            oldest = times.fold(oldest, i64::min);
            self.put(results, page).await?;
        }
        // The records that the source has deleted are older than all that it still has.
        Ok(self
            .target
            .delete_idempotency_rows(&self.progress.tenant, oldest)
            .await?)
    }

    /// Reads the whole target again, compares it with the source, and runs the target's own check.
    async fn compare(&mut self) -> Result<(), CopyError> {
        let tenant = self.progress.tenant.clone();
        self.progress.phase = CopyPhase::Checking;
        (self.progress.entries.0, self.progress.events.0) = (0, 0);
        self.report_progress()?;
        let snapshot = self.target.snapshot(&tenant).await?;
        let target_digest = self.read_digest(snapshot.as_ref()).await?;
        snapshot.release().await?;
        if let Some(what) = self.digest.difference(&target_digest) {
            return Err(CopyError::Mismatch { tenant, what });
        }
        self.target
            .store()
            .verify(&tenant)
            .await
            .map_err(|error| CopyError::Unsound(tenant, error))?;
        self.report_progress()
    }

    /// Computes the digest of the target.
    async fn read_digest(&mut self, reader: &dyn TenantReader) -> Result<TenantDigest, CopyError> {
        let mut digest = TenantDigest::at(reader.clock().await?);
        for table in TABLES.compared() {
            let mut after = None;
            loop {
                let page = reader.page(table, after).await?;
                page.iter().for_each(|row| digest.row(table, row));
                self.report_checked(&digest)?;
                let Some(last) = page.into_iter().next_back() else {
                    break;
                };
                after = Some(last.position);
            }
        }
        let mut after = (0, 0);
        loop {
            let page = reader.entries(after).await?;
            page.iter().for_each(|row| digest.entry(row));
            self.report_checked(&digest)?;
            let Some((key, _)) = page.last() else {
                return Ok(digest);
            };
            after = (key.scope, key.row);
        }
    }

    fn report_checked(&mut self, digest: &TenantDigest) -> Result<(), CopyError> {
        (self.progress.entries.0, self.progress.events.0) = (digest.entries, digest.events());
        self.report_progress()
    }
}

/// Whether a key may vouch for no more than `ceiling`; `None` is a key that may vouch for
/// everything.
fn is_within(trust: Option<Trust>, ceiling: Option<Trust>) -> bool {
    ceiling.is_none_or(|most| trust.is_some_and(|trust| trust <= most))
}

/// Writes tenant and keys. A key that was revoked at the source since, or whose trust was lowered,
/// is changed at the target too; keys that only the target has stay.
async fn publish(
    source: &dyn CopySide,
    target: &dyn CopySide,
    tenant: &TenantRecord,
) -> Result<(), CopyError> {
    target.directory().put_tenant(tenant).await?;
    let keys = source.directory().keys(&tenant.id).await?;
    let before = target.directory().keys(&tenant.id).await?;
    for key in &keys {
        let added = target.directory().add_key(key).await?;
        if let (false, Some(at)) = (added, key.revoked_at) {
            target
                .directory()
                .revoke_key(&tenant.id, &key.id, at)
                .await?;
        }
        let is_higher = before
            .iter()
            .any(|other| other.id == key.id && !is_within(other.trust, key.trust));
        if let (true, Some(trust)) = (is_higher, key.trust) {
            target
                .directory()
                .set_key_trust(&tenant.id, &key.id, trust, &key.permissions)
                .await?;
        }
    }
    let target_keys = target.directory().keys(&tenant.id).await?;
    let is_copied = |key: &KeyRecord| {
        let same = target_keys.iter().find(|other| {
            (&other.id, &other.hash, &other.principal) == (&key.id, &key.hash, &key.principal)
        });
        same.is_some_and(|other| {
            (other.revoked_at.is_some() || key.revoked_at.is_none())
                && is_within(other.trust, key.trust)
        })
    };
    if keys.iter().all(is_copied) {
        return Ok(());
    }
    Err(CopyError::Mismatch {
        tenant: tenant.id.clone(),
        what: "keys",
    })
}
