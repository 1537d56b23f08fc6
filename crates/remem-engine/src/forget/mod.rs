//! Forget by subject: erases everything about a subject, and whatever was made from it, in all
//! memories, and proves it with a signed report.
//!
//! Runs that have ended keep the reads that they recorded (a replay shows what was read then); all
//! other data is erased at once, also for runs in progress.

mod report;

use remem_core::sabotage;
pub use report::{Erased, Own, Report, SignedReport, key_of, verify};

use crate::archive::{self, Distilled};
use crate::caller::Caller;
use crate::commitments::CommitmentInfo;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::jobs::manage::memory_pass;
use crate::webhook::send::hex;
use remem_core::admission::SUBJECTS_MAX;
use remem_core::event::SubjectForgotten;
use remem_core::{
    Batch, EventBody, MemoryRef, Permission, Precondition, RecordKind, Rejection, Subject, TenantId,
};
use remem_store::{StoreError, Tie, Trace, Traced};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Entries erased in one transaction, besides those that are revived with them.
const FORGET_BATCH: usize = 500;
/// How often the subject is traced again, to find what was written while it was being erased.
const ROUNDS: usize = 8;
/// Reports in one page of a list, at most.
const REPORTS_MAX: u32 = 1_000;
/// Transactions of interrupted calls that one report covers, at most.
const PARTS_MAX: u32 = 100_000;
/// Commitments of one entry, at most: it has only so many sentences.
const COMMITMENTS_MAX: u32 = 10_000;

/// The result of forgetting a subject, or of its dry run.
#[derive(Clone, Debug)]
pub struct Forgotten {
    /// The report; unsigned for a dry run.
    pub report: SignedReport,
    /// Whether anything had to be erased.
    pub changed: bool,
}

/// The entries and archives that a call has erased so far.
#[derive(Clone, Default)]
struct Done {
    /// The id of the report.
    id: String,
    erased: Vec<Erased>,
    revived: Vec<(String, String)>,
    archives: Vec<String>,
    /// The counts for memories of single users, whose entries are not named.
    own: Own,
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
    pub fn subject(&self, tenant: &TenantId, name: &str) -> Result<Subject, EngineError> {
        let host = self.parts.key.derive("remembrancer subject v1");
        let key = *blake3::keyed_hash(&host, tenant.as_str().as_bytes()).as_bytes();
        Ok(Subject::of(&key, name)?)
    }

    /// The keyed digests of several subjects; fails if there are too many.
    pub fn subjects(&self, caller: &Caller, names: &[String]) -> Result<Vec<Subject>, EngineError> {
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
            .map(|name| self.subject(caller.tenant(), name))
            .collect()
    }

    /// Erases a subject from all memories of the caller's tenant. Repeating the call changes
    /// nothing more.
    pub async fn forget(
        &self,
        caller: &Caller,
        name: &str,
        dry_run: bool,
    ) -> Result<Forgotten, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let subject = self.subject(caller.tenant(), name)?;
        let mut done = Done {
            id: format!("era_{}", self.parts.ids.holder()),
            ..Done::default()
        };
        if dry_run {
            let trace = self.parts.store.trace(tenant, &subject).await?;
            let affected = self.carried(tenant, &trace).await?.1;
            done.note(self, &trace.entries, &trace, &affected);
            done.commitments = self.open_commitments(tenant, &trace.entries).await?;
        } else {
            self.forget_all(caller, &subject, &mut done).await?;
        }
        let report = self.report(tenant, &subject, &done).await?;
        let changed = done.has_changed();
        if dry_run || !changed {
            return Ok(Forgotten {
                report: report.unsigned(),
                changed,
            });
        }
        self.distil_again(caller, &done).await;
        metrics::counter!("remem_entries_forgotten_total")
            .increment(done.erased.len() as u64 + done.own.erased);
        let report = done.signed.unwrap_or_else(|| report.unsigned());
        Ok(Forgotten { report, changed })
    }

    /// Traces and erases until nothing is left. A concurrent writer of archives or the index only
    /// causes another round.
    async fn forget_all(
        &self,
        caller: &Caller,
        subject: &Subject,
        done: &mut Done,
    ) -> Result<(), EngineError> {
        sabotage!(
            "interrupted-forgets-are-not-reported",
            self.go_on(caller.tenant(), subject, done).await?
        );
        for _ in 0..ROUNDS {
            let trace = self.parts.store.trace(caller.tenant(), subject).await?;
            let (distilled, affected) = self.carried(caller.tenant(), &trace).await?;
            if trace
                .entries
                .iter()
                .all(|entry| entry.erased && !entry.direct)
                && affected.is_empty()
            {
                if done.parts.is_empty() {
                    return Ok(());
                }
                let batch = self.forgetting(caller).await?;
                let batch = self.keep_report(caller, subject, done, batch).await?;
                self.parts.store.commit(batch).await?;
                return Ok(());
            }
            match self
                .forget_archives(caller, subject, &distilled, &affected, done)
                .await
            {
                Err(EngineError::Store(StoreError::Conflict))
                    if sabotage!("a-forget-gives-way-to-other-writers", true, false) =>
                {
                    continue;
                }
                other => other?,
            }
            self.forget_entries(caller, subject, &trace, done).await?;
        }
        Err(StoreError::Busy.into())
    }

    /// An empty batch for erasing, with the rights of the host.
    async fn forgetting(&self, caller: &Caller) -> Result<Batch, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        // A subject is erased wherever it is, also in memories that the caller may not read.
        Ok(sabotage!(
            "forgetting-stops-before-users-own",
            Batch::new(caller.tenant().clone(), now)
                .by(caller.principal().clone())
                .as_host(),
            Batch::new(caller.tenant().clone(), now).by(caller.principal().clone())
        ))
    }

    /// Loads what interrupted calls have erased already, so that this call's report covers it.
    async fn go_on(
        &self,
        tenant: &TenantId,
        subject: &Subject,
        done: &mut Done,
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
            done.take(Report::from_map(&record.body).unwrap_or_default());
            done.parts.push(record.key);
        }
        Ok(())
    }

    /// Adds a record of what a transaction erases to its batch, for the report of the last one.
    async fn keep_part(
        &self,
        caller: &Caller,
        subject: &Subject,
        part: Done,
        done: &mut Done,
        batch: Batch,
    ) -> Result<Batch, EngineError> {
        let policy = self.policy_of(caller);
        let rules = self.rules(caller.tenant()).await?;
        let report = self.report(caller.tenant(), subject, &part).await?;
        let body = rules.admission(&policy, self.now()).record(report.to_map());
        let key = format!(
            "{}{}-{:06}",
            parts_prefix(subject),
            done.id,
            done.parts.len()
        );
        done.take(report);
        done.parts.push(key.clone());
        Ok(batch.set(RecordKind::Progress, key, Precondition::None, body))
    }

    /// All distillations, and those among them whose digest is to be erased.
    async fn carried(
        &self,
        tenant: &TenantId,
        trace: &Trace,
    ) -> Result<(Vec<Distilled>, Vec<Distilled>), EngineError> {
        let names: HashSet<(&str, &str)> = trace
            .entries
            .iter()
            .map(|e| (e.memory_ref.as_str(), e.id.as_str()))
            .collect();
        let all = self.distillations(tenant).await?;
        let is_affected = |distillation: &Distilled| {
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
    async fn forget_archives(
        &self,
        caller: &Caller,
        subject: &Subject,
        all: &[Distilled],
        affected: &[Distilled],
        done: &mut Done,
    ) -> Result<(), EngineError> {
        if affected.is_empty() {
            return Ok(());
        }
        let tenant = caller.tenant();
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let batch = self.forgetting(caller).await?;
        let batch = affected.iter().fold(batch, |batch, distillation| {
            sabotage!(
                "a-forgotten-digest-keeps-its-archive",
                archive::erase(batch, &admission, distillation),
                batch
            )
        });
        let rest: Vec<Distilled> = all
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
        let batch = if affected.iter().any(Distilled::is_indexed) {
            self.write_index(tenant, batch, &admission, &rest, archive::Index::Forgetting)
                .await?
        } else {
            batch
        };
        let mut part = Done::default();
        part.note_archives(affected);
        let mut updated = done.clone();
        let batch = self
            .keep_part(caller, subject, part, &mut updated, batch)
            .await?;
        self.parts.store.commit(batch).await?;
        *done = updated;
        Ok(())
    }

    /// Erases the traced entries. Those that were tagged with the subject directly go last, since
    /// the others are found through them. The report and its event come with the very last commit.
    /// So at any time either something is left to be found, or all of it is reported.
    async fn forget_entries(
        &self,
        caller: &Caller,
        subject: &Subject,
        trace: &Trace,
        done: &mut Done,
    ) -> Result<(), EngineError> {
        let (derived, direct): (Vec<&Traced>, Vec<&Traced>) =
            trace.entries.iter().partition(|entry| {
                sabotage!(
                    "an-interrupted-forget-loses-the-way",
                    !entry.direct,
                    entry.direct
                )
            });
        let order: Vec<Traced> = derived
            .into_iter()
            .filter(|e| !e.erased)
            .chain(direct)
            .cloned()
            .collect();
        let pages = order.chunks(FORGET_BATCH);
        let last = pages.len();
        for (number, page) in pages.enumerate() {
            let mut batch = self.forgetting(caller).await?;
            for entry in page {
                batch = batch.forget(entry.memory_ref.clone(), entry.id.clone());
            }
            for (memory_ref, id, by) in &trace.innocent {
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
            let commitments = self.open_commitments(caller.tenant(), page).await?;
            let mut part = Done {
                commitments,
                ..Done::default()
            };
            part.note(self, page, trace, &[]);
            if number + 1 < last {
                batch = self.keep_part(caller, subject, part, done, batch).await?;
            } else {
                done.take(self.report(caller.tenant(), subject, &part).await?);
                batch = self.keep_report(caller, subject, done, batch).await?;
            }
            self.parts.store.commit(batch).await?;
        }
        Ok(())
    }

    /// How many open commitments end with these entries; the store ends them in the same
    /// transaction. One that is recognised at the same moment is not counted.
    async fn open_commitments(
        &self,
        tenant: &TenantId,
        page: &[Traced],
    ) -> Result<u64, EngineError> {
        let mut open = 0;
        for entry in page.iter().filter(|entry| !entry.erased) {
            let tie = Tie::Source(entry.memory_ref.clone(), entry.id.clone());
            for record in self
                .parts
                .store
                .tied(tenant, RecordKind::Commitment, &tie, COMMITMENTS_MAX)
                .await?
            {
                open += u64::from(CommitmentInfo::read(record)?.commitment.state.is_open());
            }
        }
        Ok(open)
    }

    /// Adds the signed report and its event to a batch. A later round replaces it with a longer
    /// one. The report is signed after redaction, as it is stored: otherwise the stored copy would
    /// not match its signature.
    async fn keep_report(
        &self,
        caller: &Caller,
        subject: &Subject,
        done: &mut Done,
        batch: Batch,
    ) -> Result<Batch, EngineError> {
        if !done.has_changed() {
            return Ok(batch);
        }
        let tenant = caller.tenant();
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let report = self.report(tenant, subject, done).await?;
        let redacted = Report::from_map(admission.record(report.to_map()).map()).unwrap_or(report);
        let signed = redacted.sign(&self.parts.key);
        let body = admission.record(signed.to_map());
        let event = SubjectForgotten {
            report_id: done.id.clone(),
            subject: subject.short(),
            erased: done.erased.len() as u64 + done.own.erased,
            revived: done.revived.len() as u64 + done.own.revived,
            archives: done.archives.len() as u64 + done.own.archives,
        };
        let parts = std::mem::take(&mut done.parts).into_iter();
        let batch = parts.fold(batch, |batch, key| {
            batch.unset(RecordKind::Progress, key, Precondition::None)
        });
        let batch = batch.set(
            RecordKind::Erasure,
            done.id.clone(),
            Precondition::None,
            body,
        );
        done.signed = Some(signed);
        Ok(batch.emit(EventBody::SubjectForgotten(event)))
    }

    /// Queues distillations for memories whose archives were erased: those archives also held facts
    /// about others, which are distilled again from what is left.
    async fn distil_again(&self, caller: &Caller, done: &Done) {
        for memory_ref in &done.memories {
            if let Err(error) = self.ask_for_distillation(caller, memory_ref).await {
                tracing::warn!(%error, "a memory is not distilled again after something in it was forgotten");
            }
        }
    }

    /// Queues a distillation like the last one, if that one was erased.
    async fn ask_for_distillation(
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
        self.ask_for(
            caller,
            memory_pass("distill")?,
            Some(memory_ref.clone()),
            options,
            None,
        )
        .await?;
        Ok(())
    }

    /// Returns the erasure reports of the caller's tenant, oldest first, and whether there are
    /// more.
    pub async fn erasures(
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
    pub async fn erasure(
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

impl Done {
    /// Whether anything was erased.
    fn has_changed(&self) -> bool {
        !(self.erased.is_empty()
            && self.archives.is_empty()
            && self.own.erased + self.own.archives == 0)
    }

    /// Adds the counts and ids of a part.
    fn take(&mut self, part: Report) {
        self.erased.extend(part.erased);
        self.revived.extend(part.revived);
        self.archives.extend(part.archives);
        self.own.add(part.own);
        self.commitments += part.commitments.unwrap_or(0);
    }

    /// Adds what a transaction over these entries erases.
    fn note(&mut self, engine: &Engine, page: &[Traced], trace: &Trace, archives: &[Distilled]) {
        for entry in page.iter().filter(|entry| !entry.erased) {
            match entry.memory_ref.owner() {
                None => self.erased.push(Erased::new(&engine.parts.key, entry)),
                Some(_) => sabotage!(
                    "a-report-names-users-own",
                    self.own.erased += 1,
                    self.erased.push(Erased::new(&engine.parts.key, entry))
                ),
            }
        }
        for (memory_ref, id, by) in &trace.innocent {
            if page
                .iter()
                .any(|entry| &entry.memory_ref == memory_ref && &entry.id == by)
            {
                match memory_ref.owner() {
                    None => self
                        .revived
                        .push((memory_ref.as_str().to_owned(), id.as_str().to_owned())),
                    Some(_) => self.own.revived += 1,
                }
            }
        }
        self.note_archives(archives);
    }

    /// Adds erased archives; those of single users' memories are only counted.
    fn note_archives(&mut self, archives: &[Distilled]) {
        let (shared, private): (Vec<&Distilled>, Vec<&Distilled>) =
            archives.iter().partition(|archive| archive.is_indexed());
        self.archives
            .extend(shared.iter().map(|archive| archive.sha256.clone()));
        self.own.archives += private.len() as u64;
    }
}
