//! Forget by subject: erases everything about a subject, and everything made from it, in all
//! memories, and proves it with a signed report.
//!
//! Runs that have ended keep the reads that they recorded (a replay shows what was read then); all
//! other data is erased at once, also for runs in progress.

mod report;

use remem_core::sabotage;
pub use report::{
    ErasedEntry, ErasureReport, PrivateCounts, SignedReport, embedded_public_key, verify_report,
};

use crate::archive::{self, DistillationRecord};
use crate::caller::Caller;
use crate::commitments::CommitmentInfo;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::manage::find_memory_pass;
use crate::webhook::send::hex;
use remem_core::admission::SUBJECTS_MAX;
use remem_core::event::SubjectForgotten;
use remem_core::{
    Batch, EventBody, MemoryRef, Permission, Precondition, RecordKind, Rejection, Subject, TenantId,
};
use remem_store::{RecordLookup, StoreError, SubjectTrace, TracedEntry};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Entries erased in one transaction, besides those that are revived with them.
const BATCH_SIZE: usize = 500;
/// How often the subject is traced again, to find what was written while it was being erased.
const ROUNDS_MAX: usize = 8;
/// Reports in one page of a list, at most.
const REPORTS_MAX: u32 = 1_000;
/// Transactions of interrupted calls that one report covers, at most.
const PARTS_MAX: u32 = 100_000;
/// Commitments of one entry, at most: it has only so many sentences.
const COMMITMENTS_MAX: u32 = 10_000;

/// The result of forgetting a subject, or of its dry run.
#[derive(Clone, Debug)]
pub struct ForgetResult {
    /// The report; unsigned for a dry run.
    pub report: SignedReport,
    /// Whether anything had to be erased.
    pub changed: bool,
}

/// The entries and archives that a call has erased so far.
#[derive(Clone, Default)]
struct ErasureProgress {
    /// The id of the report.
    report_id: String,
    erased: Vec<ErasedEntry>,
    revived: Vec<(String, String)>,
    archives: Vec<String>,
    /// The counts for memories of single users, whose entries are not named.
    private: PrivateCounts,
    /// The memories that this call erased something from.
    memories: HashSet<MemoryRef>,
    /// Number of open commitments that ended with the entries.
    commitments: u64,
    /// Keys of records of transactions that no report covers yet.
    parts: Vec<String>,
    /// The signed report as it was stored.
    signed: Option<SignedReport>,
}

/// Key prefix of the records of a subject's unfinished erasure.
fn parts_prefix(subject: &Subject) -> String {
    format!("forget/{}/", hex(subject.bytes()))
}

impl Engine {
    /// The keyed digest by which a subject of a tenant is stored.
    pub fn subject_digest(&self, tenant: &TenantId, name: &str) -> Result<Subject, EngineError> {
        let host = self.parts.host_key.derive("remembrancer subject v1");
        let key = *blake3::keyed_hash(&host, tenant.as_str().as_bytes()).as_bytes();
        Ok(Subject::of(&key, name)?)
    }

    /// The keyed digests of several subjects; fails if there are too many.
    pub fn subject_digests(
        &self,
        caller: &Caller,
        names: &[String],
    ) -> Result<Vec<Subject>, EngineError> {
        if names.len() > SUBJECTS_MAX {
            return Err(Rejection::TooLarge {
                field: "subjects",
                unit: "items",
                limit: SUBJECTS_MAX as u64,
                actual: names.len() as u64,
            }
            .into());
        }
        names
            .iter()
            .map(|name| self.subject_digest(caller.tenant(), name))
            .collect()
    }

    /// Erases a subject from all memories of the caller's tenant. Repeating the call changes
    /// nothing more.
    pub async fn forget(
        &self,
        caller: &Caller,
        name: &str,
        dry_run: bool,
    ) -> Result<ForgetResult, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let subject = self.subject_digest(caller.tenant(), name)?;
        let mut done = ErasureProgress {
            report_id: format!("era_{}", self.parts.ids.unique_name()),
            ..ErasureProgress::default()
        };
        if dry_run {
            let trace = self.parts.store.trace_subject(tenant, &subject).await?;
            let affected = self.affected_distillations(tenant, &trace).await?.1;
            done.add_entries(self, &trace.entries, &trace, &affected);
            done.commitments = self.count_open_commitments(tenant, &trace.entries).await?;
        } else {
            self.erase_subject(caller, &subject, &mut done).await?;
        }
        let report = self.build_report(tenant, &subject, &done).await?;
        let changed = done.has_changed();
        if dry_run || !changed {
            return Ok(ForgetResult {
                report: report.unsigned(),
                changed,
            });
        }
        self.redistil_memories(caller, &done).await;
        metrics::counter!("remem_entries_forgotten_total")
            .increment(done.erased.len() as u64 + done.private.erased);
        let report = done.signed.unwrap_or_else(|| report.unsigned());
        Ok(ForgetResult { report, changed })
    }

    /// Traces and erases until nothing is left. A concurrent writer of archives or the index only
    /// causes another round.
    async fn erase_subject(
        &self,
        caller: &Caller,
        subject: &Subject,
        done: &mut ErasureProgress,
    ) -> Result<(), EngineError> {
        sabotage!(
            "interrupted-forgets-are-not-reported",
            self.load_unreported_parts(caller.tenant(), subject, done)
                .await?
        );
        for _ in 0..ROUNDS_MAX {
            let trace = self
                .parts
                .store
                .trace_subject(caller.tenant(), subject)
                .await?;
            let (distilled, affected) =
                self.affected_distillations(caller.tenant(), &trace).await?;
            if trace
                .entries
                .iter()
                .all(|entry| entry.erased && !entry.direct)
                && affected.is_empty()
            {
                if done.parts.is_empty() {
                    return Ok(());
                }
                let batch = self.erasure_batch(caller).await?;
                let batch = self.store_report(caller, subject, done, batch).await?;
                self.parts.store.commit(batch).await?;
                return Ok(());
            }
            match self
                .erase_archives(caller, subject, &distilled, &affected, done)
                .await
            {
                Err(EngineError::Store(StoreError::Conflict))
                    if sabotage!("a-forget-gives-way-to-other-writers", true, false) =>
                {
                    continue;
                }
                other => other?,
            }
            self.erase_entries(caller, subject, &trace, done).await?;
        }
        Err(StoreError::Busy.into())
    }

    /// An empty batch for erasing, with the rights of the host.
    async fn erasure_batch(&self, caller: &Caller) -> Result<Batch, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        // A subject is erased wherever it is, also in memories that the caller may not read.
        Ok(sabotage!(
            "forgetting-stops-before-users-own",
            Batch::new(caller.tenant().clone(), now)
                .with_principal(caller.principal().clone())
                .as_host(),
            Batch::new(caller.tenant().clone(), now).with_principal(caller.principal().clone())
        ))
    }

    /// Loads what interrupted calls have erased already, so that this call's report covers it.
    async fn load_unreported_parts(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        done: &mut ErasureProgress,
    ) -> Result<(), EngineError> {
        let found = self
            .parts
            .store
            .records(
                tenant,
                RecordKind::Progress,
                &parts_prefix(subject),
                None,
                PARTS_MAX,
            )
            .await?;
        for record in found {
            done.add_report(ErasureReport::from_map(&record.body).unwrap_or_default());
            done.parts.push(record.key);
        }
        Ok(())
    }

    /// Adds a record of what a transaction erases to its batch, for the report of the last one.
    async fn store_part(
        &self,
        caller: &Caller,
        subject: &Subject,
        part: ErasureProgress,
        done: &mut ErasureProgress,
        batch: Batch,
    ) -> Result<Batch, EngineError> {
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(caller.tenant()).await?;
        let report = self.build_report(caller.tenant(), subject, &part).await?;
        let body = rules
            .admission(&policy, self.now())
            .redact_record(report.to_map());
        let key = format!(
            "{}{}-{:06}",
            parts_prefix(subject),
            done.report_id,
            done.parts.len()
        );
        done.add_report(report);
        done.parts.push(key.clone());
        Ok(batch.set_record(RecordKind::Progress, key, Precondition::None, body))
    }

    /// All distillations, and those among them whose digest is to be erased.
    async fn affected_distillations(
        &self,
        tenant: &TenantId,
        trace: &SubjectTrace,
    ) -> Result<(Vec<DistillationRecord>, Vec<DistillationRecord>), EngineError> {
        let names: HashSet<(&str, &str)> = trace
            .entries
            .iter()
            .map(|e| (e.memory_ref.as_str(), e.id.as_str()))
            .collect();
        let all = self.distillations(tenant).await?;
        let is_affected = |distillation: &DistillationRecord| {
            !distillation.erased
                && names.contains(&(
                    distillation.memory_ref.as_str(),
                    distillation.entry_id.as_str(),
                ))
        };
        let affected = all
            .iter()
            .filter(|distillation| is_affected(distillation))
            .cloned()
            .collect();
        Ok((all, affected))
    }

    /// Erases archives and their topics in the index. They go first: nothing of them is needed to
    /// find the rest again.
    async fn erase_archives(
        &self,
        caller: &Caller,
        subject: &Subject,
        all: &[DistillationRecord],
        affected: &[DistillationRecord],
        done: &mut ErasureProgress,
    ) -> Result<(), EngineError> {
        if affected.is_empty() {
            return Ok(());
        }
        let tenant = caller.tenant();
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let batch = self.erasure_batch(caller).await?;
        let batch = affected.iter().fold(batch, |batch, distillation| {
            sabotage!(
                "a-forgotten-digest-keeps-its-archive",
                archive::add_erasure(batch, &admission, distillation),
                batch
            )
        });
        let rest: Vec<DistillationRecord> = all
            .iter()
            .filter(|distillation| {
                !sabotage!(
                    "a-forget-takes-others-archives-from-the-index",
                    affected.contains(distillation),
                    affected
                        .iter()
                        .any(|erased| erased.sha256 == distillation.sha256)
                )
            })
            .cloned()
            .collect();
        let batch = if affected.iter().any(DistillationRecord::is_indexed) {
            self.write_index(
                tenant,
                batch,
                &admission,
                &rest,
                archive::IndexUpdate::ReplaceHistory,
            )
            .await?
        } else {
            batch
        };
        let mut part = ErasureProgress::default();
        part.add_archives(affected);
        let mut updated = done.clone();
        let batch = self
            .store_part(caller, subject, part, &mut updated, batch)
            .await?;
        self.parts.store.commit(batch).await?;
        *done = updated;
        Ok(())
    }

    /// Erases the traced entries. Those that were tagged with the subject directly go last, since
    /// the others are found through them. The report and its event come with the very last commit.
    /// So at any time either something is left to be found, or all of it is reported.
    async fn erase_entries(
        &self,
        caller: &Caller,
        subject: &Subject,
        trace: &SubjectTrace,
        done: &mut ErasureProgress,
    ) -> Result<(), EngineError> {
        let (derived, direct): (Vec<&TracedEntry>, Vec<&TracedEntry>) =
            trace.entries.iter().partition(|entry| {
                sabotage!(
                    "an-interrupted-forget-loses-the-way",
                    !entry.direct,
                    entry.direct
                )
            });
        let order: Vec<TracedEntry> = derived
            .into_iter()
            .filter(|e| !e.erased)
            .chain(direct)
            .cloned()
            .collect();
        let pages = order.chunks(BATCH_SIZE);
        let last = pages.len();
        for (number, page) in pages.enumerate() {
            let mut batch = self.erasure_batch(caller).await?;
            for entry in page {
                batch = batch.forget(entry.memory_ref.clone(), entry.id.clone());
            }
            for (memory_ref, id, by) in &trace.merged_survivors {
                if page
                    .iter()
                    .any(|entry| &entry.memory_ref == memory_ref && &entry.id == by)
                {
                    sabotage!(
                        "the-innocent-go-with-the-forgotten",
                        batch = batch.revive(memory_ref.clone(), id.clone())
                    );
                }
            }
            done.memories.extend(
                page.iter()
                    .filter(|entry| !entry.erased)
                    .map(|entry| entry.memory_ref.clone()),
            );
            let commitments = self.count_open_commitments(caller.tenant(), page).await?;
            let mut part = ErasureProgress {
                commitments,
                ..ErasureProgress::default()
            };
            part.add_entries(self, page, trace, &[]);
            if number + 1 < last {
                batch = self.store_part(caller, subject, part, done, batch).await?;
            } else {
                done.add_report(self.build_report(caller.tenant(), subject, &part).await?);
                batch = self.store_report(caller, subject, done, batch).await?;
            }
            self.parts.store.commit(batch).await?;
        }
        Ok(())
    }

    /// How many open commitments end with these entries; the store ends them in the same
    /// transaction. One that is recognised at the same moment is not counted.
    async fn count_open_commitments(
        &self,
        tenant: &TenantId,
        page: &[TracedEntry],
    ) -> Result<u64, EngineError> {
        let mut open = 0;
        for entry in page.iter().filter(|entry| !entry.erased) {
            let tie = RecordLookup::Source(entry.memory_ref.clone(), entry.id.clone());
            for record in self
                .parts
                .store
                .records_by(tenant, RecordKind::Commitment, &tie, COMMITMENTS_MAX)
                .await?
            {
                open += u64::from(
                    CommitmentInfo::from_record(record)?
                        .commitment
                        .state
                        .is_open(),
                );
            }
        }
        Ok(open)
    }

    /// Adds the signed report and its event to a batch. A later round replaces it with a longer
    /// one. The report is signed after redaction, as it is stored: otherwise the stored copy would
    /// not match its signature.
    async fn store_report(
        &self,
        caller: &Caller,
        subject: &Subject,
        done: &mut ErasureProgress,
        batch: Batch,
    ) -> Result<Batch, EngineError> {
        if !done.has_changed() {
            return Ok(batch);
        }
        let tenant = caller.tenant();
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let report = self.build_report(tenant, subject, done).await?;
        let redacted = ErasureReport::from_map(admission.redact_record(report.to_map()).map())
            .unwrap_or(report);
        let signed = redacted.sign(&self.parts.host_key);
        let body = admission.redact_record(signed.to_map());
        let event = SubjectForgotten {
            report_id: done.report_id.clone(),
            subject: subject.short_hex(),
            erased: done.erased.len() as u64 + done.private.erased,
            revived: done.revived.len() as u64 + done.private.revived,
            archives: done.archives.len() as u64 + done.private.archives,
        };
        let parts = std::mem::take(&mut done.parts).into_iter();
        let batch = parts.fold(batch, |batch, key| {
            batch.delete_record(RecordKind::Progress, key, Precondition::None)
        });
        let batch = batch.set_record(
            RecordKind::Erasure,
            done.report_id.clone(),
            Precondition::None,
            body,
        );
        done.signed = Some(signed);
        Ok(batch.emit(EventBody::SubjectForgotten(event)))
    }

    /// Queues distillations for memories whose archives were erased: those archives also held facts
    /// about others, which are distilled again from what is left.
    async fn redistil_memories(&self, caller: &Caller, done: &ErasureProgress) {
        for memory_ref in &done.memories {
            if let Err(error) = self.enqueue_distillation(caller, memory_ref).await {
                tracing::warn!(%error, "a memory is not distilled again after something in it was forgotten");
            }
        }
    }

    /// Queues a distillation like the last one, if that one was erased.
    async fn enqueue_distillation(
        &self,
        caller: &Caller,
        memory_ref: &MemoryRef,
    ) -> Result<(), EngineError> {
        let erased = self
            .distillations(caller.tenant())
            .await?
            .into_iter()
            .filter(|distillation| {
                distillation.memory_ref == memory_ref.as_str() && distillation.erased
            });
        let Some(last) = erased.max_by_key(|distillation| distillation.at) else {
            return Ok(());
        };
        let mut options = Map::new();
        options.insert("tokenBudget".to_owned(), json!(last.budget));
        self.enqueue_job(
            caller,
            find_memory_pass("distill")?,
            Some(memory_ref.clone()),
            options,
            None,
        )
        .await?;
        Ok(())
    }

    /// Returns the erasure reports of the caller's tenant, oldest first, and whether there are
    /// more.
    pub async fn list_erasures(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<(Vec<SignedReport>, bool), EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let limit = self.parts.policy.list_limit(limit).min(REPORTS_MAX);
        let mut records = self
            .parts
            .store
            .records(caller.tenant(), RecordKind::Erasure, "", after, limit + 1)
            .await?;
        let more = records.len() > limit as usize;
        records.truncate(limit as usize);
        Ok((
            records
                .iter()
                .filter_map(|record| SignedReport::from_map(&record.body))
                .collect(),
            more,
        ))
    }

    /// Returns one report, byte for byte as it was signed.
    pub async fn get_erasure(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<Map<String, Value>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let record = self
            .parts
            .store
            .record(caller.tenant(), RecordKind::Erasure, id)
            .await?
            .ok_or(EngineError::NotFound("erasure report"))?;
        Ok(record.body)
    }
}

impl ErasureProgress {
    /// Whether anything was erased.
    fn has_changed(&self) -> bool {
        !(self.erased.is_empty()
            && self.archives.is_empty()
            && self.private.erased + self.private.archives == 0)
    }

    /// Adds the counts and ids of a part.
    fn add_report(&mut self, part: ErasureReport) {
        self.erased.extend(part.erased);
        self.revived.extend(part.revived);
        self.archives.extend(part.archives);
        self.private.add(part.private);
        self.commitments += part.commitments.unwrap_or(0);
    }

    /// Adds what a transaction over these entries erases.
    fn add_entries(
        &mut self,
        engine: &Engine,
        page: &[TracedEntry],
        trace: &SubjectTrace,
        archives: &[DistillationRecord],
    ) {
        for entry in page.iter().filter(|entry| !entry.erased) {
            match entry.memory_ref.owner() {
                None => self
                    .erased
                    .push(ErasedEntry::new(&engine.parts.host_key, entry)),
                Some(_) => sabotage!(
                    "a-report-names-users-own",
                    self.private.erased += 1,
                    self.erased
                        .push(ErasedEntry::new(&engine.parts.host_key, entry))
                ),
            }
        }
        for (memory_ref, id, by) in &trace.merged_survivors {
            if page
                .iter()
                .any(|entry| &entry.memory_ref == memory_ref && &entry.id == by)
            {
                match memory_ref.owner() {
                    None => self
                        .revived
                        .push((memory_ref.as_str().to_owned(), id.as_str().to_owned())),
                    Some(_) => self.private.revived += 1,
                }
            }
        }
        self.add_archives(archives);
    }

    /// Adds erased archives; those of single users' memories are only counted.
    fn add_archives(&mut self, archives: &[DistillationRecord]) {
        let (shared, private): (Vec<&DistillationRecord>, Vec<&DistillationRecord>) =
            archives.iter().partition(|archive| archive.is_indexed());
        self.archives
            .extend(shared.iter().map(|archive| archive.sha256.clone()));
        self.private.archives += private.len() as u64;
    }
}
