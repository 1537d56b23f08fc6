//! infer: recognises commitments in entries after they are written, off the write path. It follows
//! the tenant's event log. Each page is one commit of the commitments found and of the position
//! reached, so nothing is processed twice and nothing is lost.
//!
//! Plain statements of fact are also reported as observations: a commitment may be waiting for one
//! of them.

use crate::commitments::CommitmentRules;
use crate::commitments::recognise::{is_trusted, may_hold_commitments};
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::registry::{PassMode, PassReport};
use crate::stored::progress::InferProgress;
use remem_core::sabotage;
use remem_core::{
    Batch, Commitment, Entry, EntryId, Event, EventBody, Fence, MemoryRef, Precondition,
    RecordKind, Seq, StoredRecord, TenantId, Timestamp, infer,
};
use remem_store::{ChangeOutcome, ReadAt, StoreError};
use std::collections::{BTreeMap, HashMap};

/// The name in `PASSES`, and the key of the progress record.
pub(crate) const NAME: &str = "infer";
/// Events read with one query.
const PAGE_SIZE: u32 = 256;
/// With this many new events an activation runs, whether or not they concern this pass.
const EVENTS_FOR_RUN: u32 = 64;
/// Pages of one activation, which must end long before its lease does.
const PAGES_MAX: u32 = 40;
/// How long after its start an activation begins no further page.
const TIME_MS_MAX: i64 = 3_000;
/// How long the lease lasts. It is short because an entry that a crashed node was about to read may
/// hold a commitment for the next minute.
pub(crate) const LEASE_MS: u64 = 10_000;

/// Reads how far the log has been processed, and the precondition for moving that position.
async fn read_position(
    engine: &Engine,
    tenant: &TenantId,
) -> Result<(Seq, Precondition), EngineError> {
    let note = engine
        .parts
        .store
        .record(tenant, RecordKind::Progress, NAME)
        .await?;
    let Some(note) = note else {
        return Ok((Seq(0), Precondition::Absent));
    };
    Ok((
        Seq(InferProgress::read(&note).unwrap_or_default().seq),
        Precondition::Version(note.version),
    ))
}

/// Whether there are new events worth an activation: many of them, or one of an entry that may hold
/// a commitment or a fact. Reads no entry: the activation reads each once, and moves the position
/// past it. A few other events do not justify the commits of an activation: they are read again
/// together with those that follow.
pub async fn has_work(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    let (after, _) = read_position(engine, tenant).await?;
    let events = engine
        .parts
        .store
        .events(tenant, after, EVENTS_FOR_RUN)
        .await?;
    Ok(events.len() == EVENTS_FOR_RUN as usize
        || events.iter().any(|event| written_entry(event).is_some()))
}

/// Whether the tenant has any commitment.
async fn has_commitments(engine: &Engine, tenant: &TenantId) -> Result<bool, EngineError> {
    Ok(!engine
        .parts
        .store
        .records(tenant, RecordKind::Commitment, "", None, 1)
        .await?
        .is_empty())
}

/// Processes the new events of a tenant.
pub async fn run(
    engine: &Engine,
    tenant: &TenantId,
    mode: PassMode,
    fence: Option<Fence>,
) -> Result<PassReport, EngineError> {
    let started = engine.now();
    let mut report = PassReport::default();
    for _ in 0..PAGES_MAX {
        let (after, version) = read_position(engine, tenant).await?;
        let events = engine.parts.store.events(tenant, after, PAGE_SIZE).await?;
        let Some(last) = events.last().map(|event| event.seq) else {
            return Ok(report);
        };
        let entries = written_entries(engine, tenant, &events).await?;
        if mode == PassMode::DryRun {
            let examined = entries.len() as u64;
            let changed = count_commitments(&entries);
            return Ok(PassReport {
                examined,
                changed,
                more: events.len() == PAGE_SIZE as usize,
            });
        }
        let deadline = started.plus_ms(TIME_MS_MAX);
        let page = PageProgress {
            engine,
            tenant,
            fence: fence.clone(),
            version,
            report: &mut report,
        };
        let is_done = page.commit(entries, last, deadline).await?;
        report.more = !is_done || events.len() == PAGE_SIZE as usize;
        if !report.more
            || engine.now() > started.plus_ms(TIME_MS_MAX)
            || engine.pass_log.is_stopping()
        {
            break;
        }
    }
    if report.more {
        engine.pass_log.mark_pending(NAME, tenant);
    }
    Ok(report)
}

/// An entry, with the position and the instant of its event in the log.
struct LoggedEntry {
    entry: Entry,
    seq: Seq,
    at: Timestamp,
    states: Vec<String>,
    promises: Vec<(String, Commitment)>,
}

/// The commitment rules of each memory of a page.
type RulesByMemory = BTreeMap<String, CommitmentRules>;

/// Reads the commitment rules of the entries' memories, each once.
async fn rules_by_memory(
    engine: &Engine,
    tenant: &TenantId,
    entries: &[LoggedEntry],
) -> Result<RulesByMemory, EngineError> {
    let mut rules = RulesByMemory::new();
    for LoggedEntry { entry, .. } in entries {
        if !rules.contains_key(entry.memory_ref.as_str()) {
            rules.insert(
                entry.memory_ref.as_str().to_owned(),
                engine
                    .effective_commitment_rules(tenant, Some(&entry.memory_ref))
                    .await?,
            );
        }
    }
    Ok(rules)
}

/// A page of the log that is being committed, in one step or several.
struct PageProgress<'a> {
    engine: &'a Engine,
    tenant: &'a TenantId,
    fence: Option<Fence>,
    /// The precondition for moving the position.
    version: Precondition,
    report: &'a mut PassReport,
}

impl PageProgress<'_> {
    /// Commits what the entries hold, and the position: `last` with the last step. Returns whether
    /// all is done; if not, the rest is read again.
    async fn commit(
        mut self,
        mut entries: Vec<LoggedEntry>,
        last: Seq,
        deadline: Timestamp,
    ) -> Result<bool, EngineError> {
        loop {
            // What is behind is committed from memory: it is neither read nor parsed again.
            let behind = split_at_awaited_fact(&mut entries);
            let reached = behind.first().map_or(last, |next| Seq(next.seq.0 - 1));
            self.report.examined += entries.len() as u64;
            report_facts(self.engine, self.tenant, &entries).await?;
            if !self.commit_step(entries, reached).await? {
                return Ok(false);
            }
            if behind.is_empty() || self.engine.now() > deadline {
                return Ok(behind.is_empty());
            }
            entries = behind;
        }
    }

    /// Commits the commitments found in the entries, together with the position reached. Returns
    /// false if something has changed meanwhile, so that the page must be read again.
    async fn commit_step(
        &mut self,
        entries: Vec<LoggedEntry>,
        reached: Seq,
    ) -> Result<bool, EngineError> {
        let policy = self.engine.policy_for(self.tenant).await?;
        let rules = self.engine.redaction_rules(self.tenant).await?;
        let now = self.engine.now_for(self.tenant).await?;
        let admission = rules.admission(&policy, now);
        let mut batch = Batch::new(self.tenant.clone(), now).fenced(self.fence.clone());
        let mut created = 0;
        for logged in entries {
            let added;
            (batch, added) = self
                .engine
                .add_commitments_of(
                    self.tenant,
                    &logged.entry,
                    logged.at,
                    &admission,
                    logged.promises,
                    batch,
                )
                .await?;
            created += added;
        }
        let batch = batch.set_stored(&InferProgress { seq: reached.0 }, self.version);
        let committed = match self.engine.parts.store.commit(batch).await {
            Ok(committed) => committed,
            // An entry was changed, or another process moved the position.
            Err(StoreError::Conflict) => return Ok(false),
            Err(other) => return Err(other.into()),
        };
        self.report.changed += created;
        let Some(ChangeOutcome::Recorded { version, .. }) = committed.outcomes.last() else {
            return Ok(false);
        };
        self.version = Precondition::Version(*version);
        Ok(true)
    }
}

/// Leaves as much of a page as can be done in one step, and returns what is behind it. What is
/// stated after something was promised may be what was waited for: it is logged once the promise is
/// armed.
fn split_at_awaited_fact(entries: &mut Vec<LoggedEntry>) -> Vec<LoggedEntry> {
    let mut has_condition = false;
    for n in 0..entries.len() {
        let logged = &entries[n];
        if sabotage!("a-fact-of-the-same-page-is-lost", has_condition, false)
            && !logged.states.is_empty()
        {
            return entries.split_off(n);
        }
        has_condition |= logged
            .promises
            .iter()
            .any(|(_, commitment)| commitment.condition_kind() == "predicate");
    }
    Vec::new()
}

/// Reads the facts and promises of the texts, each in its turn at the processor.
async fn read(
    engine: &Engine,
    tenant: &TenantId,
    entries: Vec<LoggedEntry>,
) -> Result<Vec<LoggedEntry>, EngineError> {
    let rules = rules_by_memory(engine, tenant, &entries).await?;
    let look = |logged: LoggedEntry| {
        let entry = &logged.entry;
        let promises = rules
            .get(entry.memory_ref.as_str())
            .map_or_else(Vec::new, |rules| {
                engine.commitments_in(tenant, entry, rules)
            });
        let states = stated_facts(entry);
        Ok::<_, EngineError>(LoggedEntry {
            states,
            promises,
            ..logged
        })
    };
    let bytes = |logged: &LoggedEntry| cpu::entry_bytes(&logged.entry);
    engine.cpu().each(tenant, entries, bytes, look).await
}

/// The facts that a trusted entry states; none if the entry is not trusted.
fn stated_facts(entry: &Entry) -> Vec<String> {
    if sabotage!("what-nobody-vouches-for-is-a-fact", is_trusted(entry), true) {
        infer::assertions(&entry.content)
    } else {
        Vec::new()
    }
}

/// The entry that this event is about, if it may hold a commitment or a fact. Entries written by
/// runs are skipped: a workflow that writes a commitment would start itself again and again.
fn written_entry(event: &Event) -> Option<(MemoryRef, EntryId)> {
    if sabotage!(
        "what-runs-write-is-read-for-promises",
        event.run.is_some(),
        false
    ) {
        return None;
    }
    let (memory_ref, id) = match &event.body {
        EventBody::Written(written)
            if may_hold_commitments(written.tags.iter().map(String::as_str)) =>
        {
            (&written.memory_ref, &written.memory_id)
        }
        EventBody::Revived(entry) => (&entry.memory_ref, &entry.memory_id),
        _ => return None,
    };
    MemoryRef::parse(memory_ref).zip(EntryId::parse(id))
}

/// Reads the entries that these events are about, except those that are gone, with their facts and
/// promises: all of them in one call.
async fn written_entries(
    engine: &Engine,
    tenant: &TenantId,
    events: &[Event],
) -> Result<Vec<LoggedEntry>, EngineError> {
    let names = events.iter().filter_map(written_entry);
    let names: Vec<(MemoryRef, EntryId)> = names.collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let at = ReadAt::Now(engine.now_for(tenant).await?);
    let found = engine
        .parts
        .store
        .named_entries(tenant, &names, &at)
        .await?;
    let named = |entry: Entry| ((entry.memory_ref.clone(), entry.id.clone()), entry);
    let found: HashMap<(MemoryRef, EntryId), Entry> = found.into_iter().map(named).collect();
    let entries = events.iter().filter_map(|event| {
        Some(LoggedEntry {
            entry: found.get(&written_entry(event)?)?.clone(),
            seq: event.seq,
            at: event.at,
            states: Vec::new(),
            promises: Vec::new(),
        })
    });
    read(engine, tenant, entries.collect()).await
}

fn count_commitments(entries: &[LoggedEntry]) -> u64 {
    let found = entries.iter().map(|logged| logged.promises.len());
    found.sum::<usize>() as u64
}

/// Reports the facts that the entries state to the commitments that wait for them. This comes
/// before the position is moved: reporting a fact twice does nothing.
async fn report_facts(
    engine: &Engine,
    tenant: &TenantId,
    entries: &[LoggedEntry],
) -> Result<(), EngineError> {
    if entries.is_empty() || !has_commitments(engine, tenant).await? {
        return Ok(());
    }
    for logged in entries {
        for key in &logged.states {
            let memory_ref = &logged.entry.memory_ref;
            engine
                .report_observation(tenant, memory_ref, key.clone(), true)
                .await?;
        }
    }
    Ok(())
}
