//! The work of a job that forgets a subject. It goes through the subject's entries page by page, and
//! begins again until nothing is left, since more may be written meanwhile.
//!
//! The order makes an interrupted erasure findable: archives first, then what was made from entries,
//! last the entries that the subject was given to, since the others are found through them. The
//! report and its event come with the very last commit. So at any time either something is left to
//! be found, or all of it is reported.

use super::progress::{ErasureProgress, survivors_of};
use super::report::ErasureReport;
use crate::archive::{self, DistillationRecord};
use crate::commitments::CommitmentInfo;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::manage::find_memory_pass;
use crate::jobs::{ErasureTarget, JobProgress, StopReason, Trigger, WorkError, WorkReport};
use crate::secrets::RedactionRules;
use remem_core::event::SubjectForgotten;
use remem_core::sabotage;
use remem_core::{
    Batch, EntryId, EventBody, MemoryRef, Policy, Precondition, RecordKind, StoredRecord, Subject,
    TenantId,
};
use remem_store::{RecordLookup, StoreError, SubjectTrace, TracePosition, TracedEntry};
use serde_json::{Map, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// How often the subject is traced again, to find what was written while it was being erased.
const ROUNDS_MAX: usize = 8;
/// Archives erased in one transaction.
const ARCHIVES_MAX: usize = 100;
/// Commitments read with one query.
const COMMITMENTS_MAX: u32 = 10_000;

/// Archives that are not erased, by the memory and the id of the entry with their text.
pub(super) type ArchivesByEntry = HashMap<(String, String), Vec<DistillationRecord>>;

/// One attempt at the job of a forget.
struct Erasure<'a> {
    engine: &'a Engine,
    job: &'a JobProgress<'a>,
    target: &'a ErasureTarget,
    policy: Policy,
    rules: Arc<RedactionRules>,
    done: ErasureProgress,
    /// What was made from entries, is erased, and has no archive left.
    settled: HashSet<(MemoryRef, EntryId)>,
    /// Entries that the subject was given to: how many were found, and how many of them are erased.
    given: (u64, u64),
}

/// Erases the subject of a job.
pub async fn work(engine: &Engine, job: &JobProgress<'_>) -> Result<WorkReport, WorkError> {
    let target = job.erasure().ok_or(EngineError::NotFound("job"))?;
    let tenant = job.tenant();
    let mut erasure = Erasure {
        engine,
        job,
        target,
        policy: engine.policy_for(tenant).await?,
        rules: engine.redaction_rules(tenant).await?,
        done: sabotage!(
            "interrupted-forgets-are-not-reported",
            ErasureProgress::load(
                engine,
                tenant,
                &target.subject,
                &target.report_id,
                engine.named_max(),
            )
            .await?,
            ErasureProgress::default()
        ),
        settled: HashSet::new(),
        given: (0, 0),
    };
    for _ in 0..ROUNDS_MAX {
        match erasure.run_round().await {
            Ok(true) => {}
            Ok(false) => return erasure.finish().await,
            // A concurrent writer of archives or the index only causes another round.
            Err(WorkError::Failed(EngineError::Store(StoreError::Conflict)))
                if sabotage!("a-forget-gives-way-to-other-writers", true, false) => {}
            Err(other) => return Err(other),
        }
    }
    Err(StoreError::Busy.into())
}

impl Erasure<'_> {
    fn tenant(&self) -> &TenantId {
        self.job.tenant()
    }

    /// Erases all that can be found. Returns whether there was anything; if not, all is reported.
    async fn run_round(&mut self) -> Result<bool, WorkError> {
        if !self.erase_known_archives().await? {
            if self.done.has_unreported() {
                let batch = self.new_batch().await?;
                let batch = self.add_report(batch, &ErasureReport::default()).await?;
                self.commit(batch).await?;
            }
            return Ok(false);
        }
        let mut after = Some(TracePosition::default());
        while let Some(position) = after {
            self.job
                .report_progress("erasing", self.given.1, self.given.0)
                .await?;
            let trace = self
                .engine
                .trace_page(self.tenant(), &self.target.subject, position)
                .await?;
            after = trace.next;
            let new = self.find_new_archives(&trace).await?;
            self.erase_archives(&new).await?;
            self.erase_entries(&trace).await?;
        }
        Ok(true)
    }

    /// An empty batch for erasing, with the rights of the host.
    async fn new_batch(&self) -> Result<Batch, EngineError> {
        let now = self.engine.now_for(self.tenant()).await?;
        let batch = Batch::new(self.tenant().clone(), now)
            .with_principal(self.target.principal.clone())
            .fenced(sabotage!(
                "a-forget-goes-on-without-its-lease",
                self.job.fence(),
                None
            ));
        // A subject is erased wherever it is, also in memories that the caller may not read.
        Ok(sabotage!(
            "forgetting-stops-before-users-own",
            batch.as_host(),
            batch
        ))
    }

    /// Erases the archives of everything that carries the subject, and counts the entries that it
    /// was given to. Returns whether anything carries it.
    async fn erase_known_archives(&mut self) -> Result<bool, WorkError> {
        let mut archives = None;
        let mut affected = Vec::new();
        self.given = (0, 0);
        let mut after = Some(TracePosition::default());
        while let Some(position) = after {
            self.job
                .report_progress("tracing", self.given.0, self.given.0)
                .await?;
            let trace = self
                .engine
                .trace_page(self.tenant(), &self.target.subject, position)
                .await?;
            after = trace.next;
            if trace.entries.is_empty() {
                break;
            }
            let archives = match &mut archives {
                Some(known) => known,
                None => archives.insert(self.engine.archives_by_entry(self.tenant()).await?),
            };
            for entry in &trace.entries {
                self.given.0 += u64::from(entry.direct);
                affected.extend(archives.remove(&archive_key(entry)).into_iter().flatten());
            }
        }
        self.erase_archives(&affected).await?;
        Ok(archives.is_some())
    }

    /// The archives of what was made from entries on this page, if they were written after all
    /// others had been erased.
    async fn find_new_archives(
        &mut self,
        trace: &SubjectTrace,
    ) -> Result<Vec<DistillationRecord>, EngineError> {
        let name = |entry: &TracedEntry| (entry.memory_ref.clone(), entry.id.clone());
        let unsettled: HashSet<(MemoryRef, EntryId)> = trace
            .entries
            .iter()
            .filter(|entry| !entry.direct)
            .map(name)
            .filter(|name| !self.settled.contains(name))
            .collect();
        let memories: HashSet<&MemoryRef> = unsettled.iter().map(|(memory, _)| memory).collect();
        let mut found = Vec::new();
        for memory_ref in memories {
            let own = self
                .engine
                .distillations(self.tenant(), Some(memory_ref))
                .await?;
            found.extend(own.into_iter().filter(|one| {
                !one.erased
                    && EntryId::parse(&one.entry_id)
                        .is_some_and(|id| unsettled.contains(&(memory_ref.clone(), id)))
            }));
        }
        self.settled.extend(unsettled);
        Ok(found)
    }

    /// Erases archives and their topics in the index.
    async fn erase_archives(&mut self, affected: &[DistillationRecord]) -> Result<(), WorkError> {
        if affected.is_empty() {
            return Ok(());
        }
        let engine = self.engine;
        let tenant = self.tenant().clone();
        let now = engine.now_for(&tenant).await?;
        let rules = self.rules.clone();
        let policy = self.policy.clone();
        let admission = rules.admission(&policy, now);
        for (number, page) in affected.chunks(ARCHIVES_MAX).enumerate() {
            let mut batch = self.new_batch().await?;
            for distillation in page {
                sabotage!(
                    "a-forgotten-digest-keeps-its-archive",
                    batch = archive::add_erasure(batch, &admission, distillation)
                );
            }
            // The first transaction takes all of them from the index.
            if number == 0 && affected.iter().any(DistillationRecord::is_indexed) {
                let rest = without(engine.distillations(&tenant, None).await?, affected);
                let update = archive::IndexUpdate::ReplaceHistory;
                batch = engine
                    .write_index(&tenant, batch, &admission, &rest, update)
                    .await?;
            }
            let mut part = ErasureReport::default();
            part.add_archives(page);
            let part = self.fill_in(part).await?;
            let subject = &self.target.subject;
            let was_open = self.done.is_open();
            batch = self.done.write_page(batch, &admission, subject, &part);
            if let Err(error) = engine.parts.store.commit(batch).await {
                // Another writer of the index came first.
                self.done.drop_page(was_open);
                return Err(error.into());
            }
            self.done.add(&part, engine.named_max());
        }
        Ok(())
    }

    /// Erases the entries of a page; those that the subject was given to go last.
    async fn erase_entries(&mut self, trace: &SubjectTrace) -> Result<(), WorkError> {
        let (derived, given): (Vec<TracedEntry>, Vec<TracedEntry>) =
            trace.entries.iter().cloned().partition(|entry| {
                sabotage!(
                    "an-interrupted-forget-loses-the-way",
                    !entry.direct,
                    entry.direct
                )
            });
        let derived: Vec<TracedEntry> = derived.into_iter().filter(|e| !e.erased).collect();
        let pages: Vec<&[TracedEntry]> = [derived.as_slice(), given.as_slice()]
            .into_iter()
            .filter(|page| !page.is_empty())
            .collect();
        let last = pages.len();
        for (number, page) in pages.into_iter().enumerate() {
            let is_last = trace.next.is_none() && number + 1 == last;
            self.erase_page(page, trace, is_last).await?;
            self.given.1 += page.iter().filter(|entry| entry.direct).count() as u64;
        }
        Ok(())
    }

    /// Erases entries in one transaction, the last one of a round with the report.
    async fn erase_page(
        &mut self,
        page: &[TracedEntry],
        trace: &SubjectTrace,
        is_last: bool,
    ) -> Result<(), WorkError> {
        let mut batch = self.new_batch().await?;
        for entry in page {
            batch = batch.forget(entry.memory_ref.clone(), entry.id.clone());
        }
        for (memory_ref, id) in survivors_of(page, trace) {
            sabotage!(
                "the-innocent-go-with-the-forgotten",
                batch = batch.revive(memory_ref.clone(), id.clone())
            );
        }
        let erased = page.iter().filter(|entry| !entry.erased);
        self.done
            .memories
            .extend(erased.map(|entry| entry.memory_ref.clone()));
        let engine = self.engine;
        let mut part = engine.part_of(page, trace);
        part.commitments = Some(engine.count_open_commitments(self.tenant(), page).await?);
        let part = self.fill_in(part).await?;
        let batch = if is_last {
            self.add_report(batch, &part).await?
        } else {
            let rules = self.rules.clone();
            let policy = self.policy.clone();
            let admission = rules.admission(&policy, batch.at());
            let subject = &self.target.subject;
            let batch = self.done.write_page(batch, &admission, subject, &part);
            self.done.add(&part, engine.named_max());
            batch
        };
        self.commit(batch).await
    }

    /// Commits what depends on nothing but the lease.
    async fn commit(&self, batch: Batch) -> Result<(), WorkError> {
        match self.engine.parts.store.commit(batch).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict) => Err(StopReason::Fenced.into()),
            Err(other) => Err(other.into()),
        }
    }

    /// A report of this erasure with the names and counts of `part`.
    async fn fill_in(&self, part: ErasureReport) -> Result<ErasureReport, EngineError> {
        let target = self.target;
        self.engine
            .fill_in_report(self.tenant(), &target.subject, &target.report_id, part)
            .await
    }

    /// Adds the signed report and its event to a batch; `last` is what the batch erases. A later
    /// round replaces the report with a longer one. It is signed after redaction, as it is stored:
    /// otherwise the stored copy would not match its signature.
    async fn add_report(
        &mut self,
        batch: Batch,
        last: &ErasureReport,
    ) -> Result<Batch, EngineError> {
        let engine = self.engine;
        let last = self.fill_in(last.clone()).await?;
        let rules = self.rules.clone();
        let policy = self.policy.clone();
        let admission = rules.admission(&policy, batch.at());
        let subject = &self.target.subject;
        let batch = self
            .done
            .complete(batch, &admission, subject, &last, engine.named_max());
        if !self.done.has_changed() {
            return Ok(batch);
        }
        let report = self.fill_in(self.done.report.clone()).await?;
        let redacted = ErasureReport::from_map(admission.redact_record(report.to_map()).map())
            .unwrap_or(report);
        let event = SubjectForgotten {
            report_id: redacted.id.clone(),
            subject: redacted.subject.clone(),
            erased: redacted.count_erased(),
            revived: redacted.count_revived(),
            archives: redacted.count_archives(),
        };
        let signed = redacted.sign(&engine.parts.host_key);
        let body = admission.redact_record(signed.to_map());
        self.done.signed = Some(signed);
        let key = self.target.report_id.clone();
        Ok(batch
            .set_record(RecordKind::Erasure, key, Precondition::None, body)
            .emit(EventBody::SubjectForgotten(event)))
    }

    /// Counts what was done, and queues distillations for memories whose archives were erased:
    /// those archives also held facts about others, which are distilled again from what is left.
    async fn finish(self) -> Result<WorkReport, WorkError> {
        let mut detail = Map::new();
        detail.insert("subject".to_owned(), json!(self.target.subject.short_hex()));
        let Some(signed) = &self.done.signed else {
            return Ok(WorkReport {
                detail,
                ..WorkReport::default()
            });
        };
        if let Err(error) = self.redistil_memories().await {
            tracing::warn!(%error, "memories are not distilled again after something in them was forgotten");
        }
        let erased = signed.report.count_erased();
        metrics::counter!("remem_entries_forgotten_total").increment(erased);
        detail.insert("reportId".to_owned(), json!(signed.report.id));
        Ok(WorkReport {
            examined: self.given.0.max(erased),
            changed: erased,
            detail,
        })
    }

    /// Queues a distillation like the last one for each memory where that one was erased.
    async fn redistil_memories(&self) -> Result<(), EngineError> {
        if self.done.memories.is_empty() {
            return Ok(());
        }
        let mut last: HashMap<String, DistillationRecord> = HashMap::new();
        for one in self.engine.distillations(self.tenant(), None).await? {
            let known = last.get(&one.memory_ref);
            if one.erased && known.is_none_or(|known| known.at <= one.at) {
                last.insert(one.memory_ref.clone(), one);
            }
        }
        for memory_ref in &self.done.memories {
            let Some(one) = last.get(memory_ref.as_str()) else {
                continue;
            };
            let mut options = Map::new();
            options.insert("tokenBudget".to_owned(), json!(one.budget));
            let pass = find_memory_pass("distill")?;
            let memory_ref = Some(memory_ref.clone());
            let job = self
                .engine
                .new_job(self.tenant(), pass, memory_ref, options, Trigger::OnDemand)
                .await?;
            self.engine
                .enqueue_job(self.tenant(), &self.target.principal, job, None)
                .await?;
        }
        Ok(())
    }
}

/// The distillations that are not among the erased ones. Two memories can have the same archive.
fn without(all: Vec<DistillationRecord>, erased: &[DistillationRecord]) -> Vec<DistillationRecord> {
    let name = |one: &DistillationRecord| {
        sabotage!(
            "a-forget-takes-others-archives-from-the-index",
            one.key(),
            one.sha256.clone()
        )
    };
    let gone: HashSet<String> = erased.iter().map(name).collect();
    all.into_iter()
        .filter(|one| !gone.contains(&name(one)))
        .collect()
}

/// The key of an entry among archives.
pub(super) fn archive_key(entry: &TracedEntry) -> (String, String) {
    (
        entry.memory_ref.as_str().to_owned(),
        entry.id.as_str().to_owned(),
    )
}

impl Engine {
    /// One page of the entries that carry a subject.
    pub(super) async fn trace_page(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        after: TracePosition,
    ) -> Result<SubjectTrace, EngineError> {
        let limit = u32::try_from(self.parts.policy.erasure_entries_max).unwrap_or(u32::MAX);
        let store = &self.parts.store;
        Ok(store.trace_subject(tenant, subject, after, limit).await?)
    }

    /// The archives of a tenant that are not erased.
    pub(super) async fn archives_by_entry(
        &self,
        tenant: &TenantId,
    ) -> Result<ArchivesByEntry, EngineError> {
        let all = self.distillations(tenant, None).await?;
        let mut kept = ArchivesByEntry::new();
        for one in all.into_iter().filter(|one| !one.erased) {
            let entry = (one.memory_ref.clone(), one.entry_id.clone());
            kept.entry(entry).or_default().push(one);
        }
        Ok(kept)
    }

    /// How many open commitments end with these entries; the store ends them in the same
    /// transaction. One that is recognised at the same moment is not counted.
    pub(super) async fn count_open_commitments(
        &self,
        tenant: &TenantId,
        page: &[TracedEntry],
    ) -> Result<u64, EngineError> {
        let names: Vec<(MemoryRef, EntryId)> = page
            .iter()
            .filter(|entry| !entry.erased)
            .map(|entry| (entry.memory_ref.clone(), entry.id.clone()))
            .collect();
        let kind = RecordKind::Commitment;
        let store = &self.parts.store;
        let mut open = 0;
        let mut left = vec![names];
        while let Some(mut names) = left.pop() {
            if names.is_empty() {
                continue;
            }
            let ties = RecordLookup::Sources(names.clone());
            let found = store
                .records_by(tenant, kind, &ties, COMMITMENTS_MAX)
                .await?;
            // More than one query returns: the same for each half.
            if found.len() >= COMMITMENTS_MAX as usize && names.len() > 1 {
                left.push(names.split_off(names.len() / 2));
                left.push(names);
                continue;
            }
            for record in found {
                let info = CommitmentInfo::from_record(record)?;
                open += u64::from(info.commitment.state.is_open());
            }
        }
        Ok(open)
    }
}
