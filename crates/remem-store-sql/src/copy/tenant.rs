//! One tenant from one place to the other: history first compared, then events, memories, entries,
//! what binds them together, idempotency records, other records, rules, the clock; then both places
//! are compared, and only then tenant and keys are written.
//!
//! Rules come last, because a place refuses entries that restate one, and the source may hold some
//! that were there before it. What an earlier copy brought of them goes before the entries come. It
//! goes after the events: they bar the tenant's next commit (see `copy`), so that nothing can be
//! written there while its guard is away, not even if the copy stops here for good. Without a new
//! event there is neither a new entry nor another rule, and the rules stay where they are.

use super::error::CopyError;
use super::rows::{ClockRow, Digest};
use super::side::{Side, Snapshot};
use super::{OnProgress, Progress, Step, TenantReport};
use remem_core::sabotage;
use remem_core::{TenantId, Trust};
use remem_store::{KeyRecord, Tenant};

pub(super) async fn copy(
    source: &dyn Side,
    target: &dyn Side,
    tenant: &Tenant,
    dry_run: bool,
    on_progress: &mut OnProgress<'_>,
) -> Result<TenantReport, CopyError> {
    let id = &tenant.id;
    let snapshot = source.snapshot(id).await?;
    let clock = snapshot.clock().await?;
    let there = refuse_other_history(snapshot.as_ref(), &clock, target, id).await?;
    if snapshot.has_open_runs().await? {
        return Err(CopyError::OpenRuns(id.clone()));
    }
    if dry_run {
        return count(source, id).await;
    }
    let entries = (0, snapshot.entry_count().await?);
    let events = (0, clock.seq.cast_unsigned());
    let progress = Progress {
        tenant: id.clone(),
        step: Step::Copying,
        entries,
        events,
    };
    let digest = Digest::at(clock);
    let mut copying = Copying {
        snapshot: snapshot.as_ref(),
        target,
        progress,
        on_progress,
        digest,
    };
    copying.rows(there).await?;
    copying.compare().await?;
    let digest = copying.digest;
    snapshot.end().await?;
    // At the target the rows have new hashes: damage would be sound there, and nobody could tell.
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
    now.end().await?;
    Ok(TenantReport {
        tenant: id.clone(),
        entries: digest.entries,
        events: digest.events,
        hash: digest.hex(),
        verified: true,
        moved,
    })
}

/// What there is to copy.
pub(super) async fn count(source: &dyn Side, tenant: &TenantId) -> Result<TenantReport, CopyError> {
    let snapshot = source.snapshot(tenant).await?;
    let events = snapshot.clock().await?.seq.cast_unsigned();
    let entries = snapshot.entry_count().await?;
    snapshot.end().await?;
    Ok(TenantReport {
        tenant: tenant.clone(),
        entries,
        events,
        hash: String::new(),
        verified: false,
        moved: false,
    })
}

/// How much of the log a target has.
struct There {
    /// The newest event that is there.
    last: i64,
    /// Everything up to the source's newest event was copied before, to the end.
    whole: bool,
}

/// The target's events must be the first ones of the source: each hash covers all events before it.
async fn refuse_other_history(
    source: &dyn Snapshot,
    clock: &ClockRow,
    target: &dyn Side,
    tenant: &TenantId,
) -> Result<There, CopyError> {
    let target = target.snapshot(tenant).await?;
    let there = target.clock().await?;
    let last = target.last_event().await?.unwrap_or((0, vec![0; 32]));
    if last.0.max(there.seq) > clock.seq {
        let same =
            clock.seq > 0 && target.event_hash(clock.seq).await?.as_ref() == Some(&clock.chain);
        return Err(if same {
            CopyError::Ahead(tenant.clone())
        } else {
            CopyError::OtherHistory(tenant.clone())
        });
    }
    for (seq, hash) in [(there.seq, &there.chain), (last.0, &last.1)] {
        if seq > 0 && source.event_hash(seq).await?.as_ref() != Some(hash) {
            return Err(CopyError::OtherHistory(tenant.clone()));
        }
    }
    target.end().await?;
    Ok(There {
        last: last.0,
        whole: there.seq == clock.seq,
    })
}

struct Copying<'a, 'p> {
    snapshot: &'a dyn Snapshot,
    target: &'a dyn Side,
    progress: Progress,
    on_progress: &'a mut OnProgress<'p>,
    /// Of the source, as it is read.
    digest: Digest,
}

impl Copying<'_, '_> {
    fn tell(&mut self) -> Result<(), CopyError> {
        if (self.on_progress)(&self.progress).is_break() {
            Err(CopyError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Everything, the clock last.
    async fn rows(&mut self, there: There) -> Result<(), CopyError> {
        self.tell()?;
        self.events(there.last).await?;
        if sabotage!(
            "a-copy-leaves-rules-in-the-way-of-what-is-older",
            sabotage!(
                "a-copy-without-anything-new-takes-the-guard-away",
                !there.whole,
                true
            ),
            false
        ) {
            self.target.drop_rules(&self.progress.tenant).await?;
        }
        self.scopes().await?;
        self.entries().await?;
        self.slots().await?;
        self.kin().await?;
        self.actions().await?;
        self.repeats().await?;
        self.records().await?;
        self.rules().await?;
        let written = self.digest.written;
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
        self.tell()
    }

    async fn events(&mut self, has: i64) -> Result<(), CopyError> {
        let mut after = 0;
        loop {
            let mut page = self.snapshot.events(after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.seq;
            page.iter().for_each(|row| self.digest.event(row));
            self.progress.events.0 += page.len() as u64;
            page.retain(|row| row.seq > has);
            if !page.is_empty() {
                self.target.put_events(&self.progress.tenant, page).await?;
            }
            self.tell()?;
        }
    }

    async fn scopes(&mut self) -> Result<(), CopyError> {
        let mut after = 0;
        loop {
            let page = self.snapshot.scopes(after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.scope_id;
            page.iter().for_each(|row| self.digest.scope(row));
            self.target.put_scopes(&self.progress.tenant, page).await?;
            self.tell()?;
        }
    }

    /// The next page is read while one is written.
    async fn entries(&mut self) -> Result<(), CopyError> {
        let mut page = self.snapshot.entries((0, 0)).await?;
        while let Some(last) = page.last() {
            let after = (last.scope_id, last.row_id);
            page.iter().for_each(|row| self.digest.entry(row));
            self.progress.entries.0 += page.len() as u64;
            let tenant = &self.progress.tenant;
            let ((), next) = tokio::try_join!(
                self.target.put_entries(tenant, page),
                self.snapshot.entries(after)
            )?;
            page = next;
            self.tell()?;
        }
        Ok(())
    }

    /// What refers to entries by name: only once all of them are there.
    async fn kin(&mut self) -> Result<(), CopyError> {
        let tenant = self.progress.tenant.clone();
        let mut page = self.snapshot.replaced((0, 0)).await?;
        while let Some(last) = page.last() {
            let after = (last.scope_id, last.row_id);
            page.iter().for_each(|row| self.digest.replaced(row));
            self.target.put_replaced(&tenant, page).await?;
            self.tell()?;
            page = self.snapshot.replaced(after).await?;
        }
        let mut page = self.snapshot.links([0; 4]).await?;
        while let Some(last) = page.last() {
            let after = [
                last.scope_id,
                last.row_id,
                last.source_scope,
                last.source_row,
            ];
            page.iter().for_each(|row| self.digest.link(row));
            self.target.put_links(&tenant, page).await?;
            self.tell()?;
            page = self.snapshot.links(after).await?;
        }
        sabotage!(
            "a-copy-leaves-subjects-that-were-forgotten",
            self.target.drop_subjects(&tenant).await?
        );
        let mut page = self.snapshot.subjects(&(Vec::new(), 0, 0)).await?;
        while let Some(last) = page.last() {
            let after = (last.subject.clone(), last.scope_id, last.row_id);
            page.iter().for_each(|row| self.digest.subject(row));
            self.target.put_subjects(&tenant, page).await?;
            self.tell()?;
            page = self.snapshot.subjects(&after).await?;
        }
        Ok(())
    }

    async fn slots(&mut self) -> Result<(), CopyError> {
        let mut page = self.snapshot.slots((0, 0)).await?;
        while let Some(last) = page.last() {
            let after = (last.scope_id, last.row_id);
            self.target.put_slots(&self.progress.tenant, page).await?;
            self.tell()?;
            page = self.snapshot.slots(after).await?;
        }
        Ok(())
    }

    async fn actions(&mut self) -> Result<(), CopyError> {
        let mut page = self
            .snapshot
            .actions(&(0, 0, String::new(), String::new()))
            .await?;
        while let Some(last) = page.last() {
            let after = (
                last.scope_id,
                last.row_id,
                last.action.clone(),
                last.reference.clone(),
            );
            page.iter().for_each(|row| self.digest.action(row));
            self.target.put_actions(&self.progress.tenant, page).await?;
            self.tell()?;
            page = self.snapshot.actions(&after).await?;
        }
        Ok(())
    }

    async fn rules(&mut self) -> Result<(), CopyError> {
        let mut page = self.snapshot.rules(&(String::new(), String::new())).await?;
        while let Some(last) = page.last() {
            let after = (last.world.clone(), last.id.clone());
            page.iter().for_each(|row| self.digest.rule(row));
            self.target.put_rules(&self.progress.tenant, page).await?;
            self.tell()?;
            page = self.snapshot.rules(&after).await?;
        }
        Ok(())
    }

    async fn repeats(&mut self) -> Result<(), CopyError> {
        let mut after = (String::new(), Vec::new());
        let mut oldest = i64::MAX;
        loop {
            let page = self.snapshot.repeats(&after).await?;
            let Some(last) = page.last() else { break };
            after = (last.operation.clone(), last.key.clone());
            page.iter().for_each(|row| self.digest.repeat(row));
            oldest = page.iter().map(|row| row.at).fold(oldest, i64::min);
            self.target.put_repeats(&self.progress.tenant, page).await?;
            self.tell()?;
        }
        // What is forgotten is older than all that is kept.
        Ok(self
            .target
            .drop_repeats(&self.progress.tenant, oldest)
            .await?)
    }

    async fn records(&mut self) -> Result<(), CopyError> {
        self.target.drop_records(&self.progress.tenant).await?;
        let mut after = (String::new(), String::new());
        loop {
            let page = self.snapshot.records(&after).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = (last.kind.clone(), last.key.clone());
            page.iter().for_each(|row| self.digest.record(row));
            self.target.put_records(&self.progress.tenant, page).await?;
            self.tell()?;
        }
    }

    /// Reads the target again, all of it, and lets it check itself.
    async fn compare(&mut self) -> Result<(), CopyError> {
        let tenant = self.progress.tenant.clone();
        self.progress.step = Step::Checking;
        (self.progress.entries.0, self.progress.events.0) = (0, 0);
        self.tell()?;
        let snapshot = self.target.snapshot(&tenant).await?;
        let there = self.read(snapshot.as_ref()).await?;
        snapshot.end().await?;
        if let Some(what) = difference(&self.digest, &there) {
            return Err(CopyError::Mismatch { tenant, what });
        }
        self.target
            .store()
            .verify(&tenant)
            .await
            .map_err(|error| CopyError::Unsound(tenant, error))?;
        self.tell()
    }

    async fn read(&mut self, there: &dyn Snapshot) -> Result<Digest, CopyError> {
        let mut digest = Digest::at(there.clock().await?);
        read_kin(there, &mut digest).await?;
        read_workshop(there, &mut digest).await?;
        let mut after_event = 0;
        let mut after_scope = 0;
        let mut after_entry = (0, 0);
        let mut after_repeat = (String::new(), Vec::new());
        let mut after_record = (String::new(), String::new());
        loop {
            let events = there.events(after_event).await?;
            let scopes = there.scopes(after_scope).await?;
            let entries = there.entries(after_entry).await?;
            let repeats = there.repeats(&after_repeat).await?;
            let records = there.records(&after_record).await?;
            events.iter().for_each(|row| digest.event(row));
            scopes.iter().for_each(|row| digest.scope(row));
            entries.iter().for_each(|row| digest.entry(row));
            repeats.iter().for_each(|row| digest.repeat(row));
            records.iter().for_each(|row| digest.record(row));
            if events.is_empty()
                && scopes.is_empty()
                && entries.is_empty()
                && repeats.is_empty()
                && records.is_empty()
            {
                return Ok(digest);
            }
            after_event = events.last().map_or(after_event, |row| row.seq);
            after_scope = scopes.last().map_or(after_scope, |row| row.scope_id);
            after_entry = entries
                .last()
                .map_or(after_entry, |row| (row.scope_id, row.row_id));
            after_repeat = repeats
                .into_iter()
                .next_back()
                .map_or(after_repeat, |row| (row.operation, row.key));
            after_record = records
                .into_iter()
                .next_back()
                .map_or(after_record, |row| (row.kind, row.key));
            (self.progress.entries.0, self.progress.events.0) = (digest.entries, digest.events);
            self.tell()?;
        }
    }
}

async fn read_kin(there: &dyn Snapshot, digest: &mut Digest) -> Result<(), CopyError> {
    let mut replaced = (0, 0);
    let mut link = [0; 4];
    let mut subject = (Vec::new(), 0, 0);
    loop {
        let page = (
            there.replaced(replaced).await?,
            there.links(link).await?,
            there.subjects(&subject).await?,
        );
        page.0.iter().for_each(|row| digest.replaced(row));
        page.1.iter().for_each(|row| digest.link(row));
        page.2.iter().for_each(|row| digest.subject(row));
        if page.0.is_empty() && page.1.is_empty() && page.2.is_empty() {
            return Ok(());
        }
        replaced = page
            .0
            .last()
            .map_or(replaced, |row| (row.scope_id, row.row_id));
        link = page.1.last().map_or(link, |row| {
            [row.scope_id, row.row_id, row.source_scope, row.source_row]
        });
        subject = page
            .2
            .into_iter()
            .next_back()
            .map_or(subject, |row| (row.subject, row.scope_id, row.row_id));
    }
}

async fn read_workshop(there: &dyn Snapshot, digest: &mut Digest) -> Result<(), CopyError> {
    let mut action = (0, 0, String::new(), String::new());
    let mut rule = (String::new(), String::new());
    loop {
        let page = (there.actions(&action).await?, there.rules(&rule).await?);
        page.0.iter().for_each(|row| digest.action(row));
        page.1.iter().for_each(|row| digest.rule(row));
        if page.0.is_empty() && page.1.is_empty() {
            return Ok(());
        }
        action = page.0.into_iter().next_back().map_or(action, |row| {
            (row.scope_id, row.row_id, row.action, row.reference)
        });
        rule = page
            .1
            .into_iter()
            .next_back()
            .map_or(rule, |row| (row.world, row.id));
    }
}

fn difference(here: &Digest, there: &Digest) -> Option<&'static str> {
    let pairs = [
        (here.clock == there.clock, "clocks"),
        (here.events == there.events, "numbers of events"),
        (here.scopes == there.scopes, "numbers of memories"),
        (here.entries == there.entries, "numbers of entries"),
        (
            here.repeats == there.repeats,
            "numbers of idempotency records",
        ),
        (here.records == there.records, "numbers of records"),
        (
            here.replaced == there.replaced,
            "numbers of entries that others stand for",
        ),
        (
            here.links == there.links,
            "numbers of links between entries",
        ),
        (here.subjects == there.subjects, "numbers of subjects"),
        (here.actions == there.actions, "numbers of actions"),
        (here.rules == there.rules, "numbers of rules"),
        (here == there, "contents of rows"),
    ];
    pairs
        .into_iter()
        .find(|(same, _)| !same)
        .map(|(_, what)| what)
}

/// Whether a key may vouch for no more than one of these; none is a key that may for everything.
fn is_within(trust: Option<Trust>, ceiling: Option<Trust>) -> bool {
    ceiling.is_none_or(|most| trust.is_some_and(|trust| trust <= most))
}

/// Tenant and keys. A key that was revoked or lowered at the source since is so here, too; keys that
/// only the target has stay.
async fn publish(source: &dyn Side, target: &dyn Side, tenant: &Tenant) -> Result<(), CopyError> {
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
    let there = target.directory().keys(&tenant.id).await?;
    let is_there = |key: &KeyRecord| {
        let same = there.iter().find(|other| {
            (&other.id, &other.hash, &other.principal) == (&key.id, &key.hash, &key.principal)
        });
        same.is_some_and(|other| {
            (other.revoked_at.is_some() || key.revoked_at.is_none())
                && is_within(other.trust, key.trust)
        })
    };
    if keys.iter().all(is_there) {
        return Ok(());
    }
    Err(CopyError::Mismatch {
        tenant: tenant.id.clone(),
        what: "keys",
    })
}
