//! Forget by subject: erases what is about it and whatever was made from that, everywhere, and says
//! so in a signed report.
//!
//! Runs that have ended keep what they recorded (a replay shows what was seen then); everything
//! live forgets at once, also for runs under way.

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

/// Entries of one transaction, besides those that are revived with them.
const FORGET_BATCH: usize = 500;
/// Somebody may write while this runs: what came up meanwhile is looked for again, so often.
const ROUNDS: usize = 8;
const REPORTS_MAX: u32 = 1_000;
/// Transactions of interrupted calls that one report tells of.
const PARTS_MAX: u32 = 100_000;
/// Commitments of one entry: it has only so many sentences.
const COMMITMENTS_MAX: u32 = 10_000;

/// What a forget did, or would do.
#[derive(Clone, Debug)]
pub struct Forgotten {
    /// The report; without a signature for a dry run.
    pub report: SignedReport,
    /// Whether anything had to be done.
    pub changed: bool,
}

/// What has been done so far.
#[derive(Clone, Default)]
struct Done {
    /// The name of the report.
    id: String,
    erased: Vec<Erased>,
    revived: Vec<(String, String)>,
    archives: Vec<String>,
    /// The same in memories of single users: counted, not named.
    own: Own,
    /// The memories that something went from, by this call.
    memories: HashSet<MemoryRef>,
    /// Commitments that had not ended and went with the entries.
    commitments: u64,
    /// Records of transactions that no report tells of yet.
    parts: Vec<String>,
    /// The report as it was kept.
    signed: Option<SignedReport>,
}

fn parts_prefix(subject: &Subject) -> String {
    format!("forget/{}/", hex(subject.bytes()))
}

impl Engine {
    /// The digest that stands for a subject of a tenant.
    pub fn subject(&self, tenant: &TenantId, words: &str) -> Result<Subject, EngineError> {
        let host = self.parts.key.derive("remembrancer subject v1");
        let key = *blake3::keyed_hash(&host, tenant.as_str().as_bytes()).as_bytes();
        Ok(Subject::of(&key, words)?)
    }

    /// The same for several.
    pub fn subjects(&self, caller: &Caller, words: &[String]) -> Result<Vec<Subject>, EngineError> {
        if words.len() > SUBJECTS_MAX {
            return Err(Rejection::TooLarge {
                field: "subjects",
                unit: "items",
                limit: SUBJECTS_MAX as u64,
                actual: words.len() as u64,
            }
            .into());
        }
        words
            .iter()
            .map(|words| self.subject(caller.tenant(), words))
            .collect()
    }

    /// Forgets a subject in all memories of the caller's tenant. Once more does nothing more.
    pub async fn forget(
        &self,
        caller: &Caller,
        words: &str,
        dry_run: bool,
    ) -> Result<Forgotten, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let subject = self.subject(caller.tenant(), words)?;
        let mut done = Done {
            id: format!("era_{}", self.parts.ids.holder()),
            ..Done::default()
        };
        if dry_run {
            let trace = self.parts.store.trace(tenant, &subject).await?;
            let carried = self.carried(tenant, &trace).await?.1;
            done.note(self, &trace.entries, &trace, &carried);
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

    /// Until nothing is left. Somebody who writes archives or the index at the same time only makes
    /// it a round more.
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
            let (distilled, carried) = self.carried(caller.tenant(), &trace).await?;
            if trace
                .entries
                .iter()
                .all(|entry| entry.erased && !entry.direct)
                && carried.is_empty()
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
                .forget_archives(caller, subject, &distilled, &carried, done)
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

    async fn forgetting(&self, caller: &Caller) -> Result<Batch, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        // A subject is forgotten wherever it is, also where the caller may not look.
        Ok(sabotage!(
            "forgetting-stops-before-users-own",
            Batch::new(caller.tenant().clone(), now)
                .by(caller.principal().clone())
                .as_host(),
            Batch::new(caller.tenant().clone(), now).by(caller.principal().clone())
        ))
    }

    /// What calls that did not come to their end have done already: this one's report tells of it.
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

    /// A transaction that is not the last says what it does, for the report to come.
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

    /// All distillations, and those among them whose digest carries the subject.
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
        let carries = |one: &Distilled| {
            !one.erased && names.contains(&(one.memory_ref.as_str(), one.entry_id.as_str()))
        };
        let carried = all.iter().filter(|one| carries(one)).cloned().collect();
        Ok((all, carried))
    }

    /// Archives and the index come first: nothing of them is needed to find the rest again.
    async fn forget_archives(
        &self,
        caller: &Caller,
        subject: &Subject,
        all: &[Distilled],
        carried: &[Distilled],
        done: &mut Done,
    ) -> Result<(), EngineError> {
        if carried.is_empty() {
            return Ok(());
        }
        let tenant = caller.tenant();
        let now = self.now_for(caller.tenant()).await?;
        let policy = self.policy_of(caller);
        let rules = self.rules(tenant).await?;
        let admission = rules.admission(&policy, now);
        let batch = self.forgetting(caller).await?;
        let batch = carried.iter().fold(batch, |batch, one| {
            sabotage!(
                "a-forgotten-digest-keeps-its-archive",
                archive::erase(batch, &admission, one),
                batch
            )
        });
        let rest: Vec<Distilled> = all
            .iter()
            .filter(|one| {
                !sabotage!(
                    "a-forget-takes-others-archives-from-the-index",
                    carried.contains(one),
                    carried.iter().any(|gone| gone.sha256 == one.sha256)
                )
            })
            .cloned()
            .collect();
        let batch = if carried.iter().any(Distilled::is_indexed) {
            self.write_index(tenant, batch, &admission, &rest, archive::Index::Forgetting)
                .await?
        } else {
            batch
        };
        let mut part = Done::default();
        part.note_archives(carried);
        let mut noted = done.clone();
        let batch = self
            .keep_part(caller, subject, part, &mut noted, batch)
            .await?;
        self.parts.store.commit(batch).await?;
        *done = noted;
        Ok(())
    }

    /// Entries to which the subject was given go last, since the others are found through them; the
    /// report and its event come with the very last, so that whatever happens, either something is
    /// left to be found or all of it is told.
    async fn forget_entries(
        &self,
        caller: &Caller,
        subject: &Subject,
        trace: &Trace,
        done: &mut Done,
    ) -> Result<(), EngineError> {
        let (made, given): (Vec<&Traced>, Vec<&Traced>) = trace.entries.iter().partition(|entry| {
            sabotage!(
                "an-interrupted-forget-loses-the-way",
                !entry.direct,
                entry.direct
            )
        });
        let order: Vec<Traced> = made
            .into_iter()
            .filter(|e| !e.erased)
            .chain(given)
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

    /// How many commitments go with these entries: the store takes them away in the same
    /// transaction. One that is read out of an entry at this very moment goes uncounted.
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

    /// The signed report and the event that tells of it. A later round puts a longer one in its
    /// place. It is signed as it is kept, that is, after redaction, or the copy that is kept would
    /// not hold.
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
        let clean = Report::from_map(admission.record(report.to_map()).map()).unwrap_or(report);
        let signed = clean.sign(&self.parts.key);
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

    /// What was erased from an archive took others' facts with it: the memories are distilled anew
    /// from what is left.
    async fn distil_again(&self, caller: &Caller, done: &Done) {
        for memory_ref in &done.memories {
            if let Err(error) = self.ask_for_distillation(caller, memory_ref).await {
                tracing::warn!(%error, "a memory is not distilled again after something in it was forgotten");
            }
        }
    }

    async fn ask_for_distillation(
        &self,
        caller: &Caller,
        memory_ref: &MemoryRef,
    ) -> Result<(), EngineError> {
        let again = self
            .distillations(caller.tenant())
            .await?
            .into_iter()
            .filter(|one| one.memory_ref == memory_ref.as_str() && one.erased);
        let Some(last) = again.max_by_key(|one| one.at) else {
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

    /// The reports of the caller's tenant, oldest first, and whether there are more.
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

    /// One report, word for word as it was signed.
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
    fn has_changed(&self) -> bool {
        !(self.erased.is_empty()
            && self.archives.is_empty()
            && self.own.erased + self.own.archives == 0)
    }

    fn take(&mut self, part: Report) {
        self.erased.extend(part.erased);
        self.revived.extend(part.revived);
        self.archives.extend(part.archives);
        self.own.add(part.own);
        self.commitments += part.commitments.unwrap_or(0);
    }

    /// Notes what a transaction over these entries did.
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

    fn note_archives(&mut self, archives: &[Distilled]) {
        let (shared, own): (Vec<&Distilled>, Vec<&Distilled>) =
            archives.iter().partition(|one| one.is_indexed());
        self.archives
            .extend(shared.iter().map(|one| one.sha256.clone()));
        self.own.archives += own.len() as u64;
    }
}
