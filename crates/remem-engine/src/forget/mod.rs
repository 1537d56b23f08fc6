//! Forget by subject: erases what is about it and whatever was made from that, everywhere, and says so in a signed report.
//!
//! Runs that have ended keep what they recorded (a replay shows what was seen then); everything live forgets at once, also
//! for runs under way.

mod report;

pub use report::{Erased, Report, SignedReport, key_of, verify};

use crate::archive::{self, Distilled};
use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::EngineError;
use remem_core::event::SubjectForgotten;
use remem_core::{Batch, EntryId, EventBody, MemoryRef, Permission, Precondition, RecordKind, Subject, TenantId};
use remem_store::{StoreError, Trace, Traced};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Entries of one transaction, besides those that are revived with them.
const FORGET_BATCH: usize = 500;
/// Somebody may write while this runs: what came up meanwhile is looked for again, so often.
const ROUNDS: usize = 8;
const REPORTS_MAX: u32 = 1_000;

/// What a forget did, or would do.
#[derive(Clone, Debug)]
pub struct Forgotten {
    /// The report; without a signature for a dry run.
    pub report: SignedReport,
    /// Whether anything had to be done.
    pub changed: bool,
}

/// What has been done so far.
#[derive(Default)]
struct Done {
    erased: Vec<Erased>,
    revived: Vec<(MemoryRef, EntryId)>,
    archives: Vec<String>,
    memories: HashSet<MemoryRef>,
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
        words.iter().map(|words| self.subject(caller.tenant(), words)).collect()
    }

    /// Forgets a subject in all memories of the caller's tenant. Once more does nothing more.
    pub async fn forget(&self, caller: &Caller, words: &str, dry_run: bool) -> Result<Forgotten, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let (tenant, subject) = (caller.tenant(), self.subject(caller.tenant(), words)?);
        let mut done = Done::default();
        for _ in 0..ROUNDS {
            let trace = self.parts.store.trace(tenant, &subject).await?;
            let (distilled, carried) = self.carried(tenant, &trace).await?;
            if dry_run {
                done.note(self, &trace.entries, &trace, &carried);
                break;
            }
            if trace.entries.is_empty() || (trace.entries.iter().all(|e| e.erased && !e.direct) && carried.is_empty()) {
                break;
            }
            match self.forget_archives(caller, &distilled, &carried, &mut done).await {
                // Somebody else wrote the index meanwhile: what to erase is looked for again.
                Err(EngineError::Store(StoreError::Conflict)) => continue,
                other => other?,
            }
            self.forget_entries(caller, &trace, &mut done).await?;
        }
        let report = self.report(tenant, &subject, &done).await?;
        let changed = !(done.erased.is_empty() && done.archives.is_empty());
        if dry_run || !changed {
            return Ok(Forgotten { report: report.unsigned(), changed });
        }
        let signed = self.keep_report(caller, &subject, report).await?;
        self.distil_again(caller, &done).await;
        metrics::counter!("remem_entries_forgotten_total").increment(done.erased.len() as u64);
        Ok(Forgotten { report: signed, changed })
    }

    /// All distillations, and those among them whose digest carries the subject.
    async fn carried(&self, tenant: &TenantId, trace: &Trace) -> Result<(Vec<Distilled>, Vec<Distilled>), EngineError> {
        let names: HashSet<(&str, &str)> = trace.entries.iter().map(|e| (e.memory_ref.as_str(), e.id.as_str())).collect();
        let all = self.distillations(tenant).await?;
        let carries = |one: &Distilled| !one.erased && names.contains(&(one.memory_ref.as_str(), one.entry_id.as_str()));
        let carried = all.iter().filter(|one| carries(one)).cloned().collect();
        Ok((all, carried))
    }

    /// Archives and the index come first: nothing of them is needed to find the rest again.
    async fn forget_archives(&self, caller: &Caller, all: &[Distilled], carried: &[Distilled], done: &mut Done) -> Result<(), EngineError> {
        if carried.is_empty() {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant(), self.now_for(caller.tenant()).await?);
        let (policy, rules) = (self.policy_of(caller), self.rules(tenant).await?);
        let admission = rules.admission(&policy, now);
        let batch = Batch::new(tenant.clone(), now).by(caller.principal().clone());
        let batch = carried.iter().fold(batch, |batch, one| archive::erase(batch, &admission, one));
        let rest: Vec<Distilled> = all.iter().filter(|one| !carried.contains(one)).cloned().collect();
        let batch = self.write_index(tenant, batch, &admission, &rest, archive::Index::Forgetting).await?;
        self.parts.store.commit(batch).await?;
        done.archives.extend(carried.iter().map(|one| one.sha256.clone()));
        Ok(())
    }

    /// Entries to which the subject was given go last, since the others are found through them.
    async fn forget_entries(&self, caller: &Caller, trace: &Trace, done: &mut Done) -> Result<(), EngineError> {
        let (made, given): (Vec<&Traced>, Vec<&Traced>) = trace.entries.iter().partition(|entry| !entry.direct);
        let order: Vec<Traced> = made.into_iter().filter(|e| !e.erased).chain(given).cloned().collect();
        for page in order.chunks(FORGET_BATCH) {
            let now = self.now_for(caller.tenant()).await?;
            let mut batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
            for entry in page {
                batch = batch.forget(entry.memory_ref.clone(), entry.id.clone());
            }
            for (memory_ref, id, by) in &trace.innocent {
                if page.iter().any(|entry| &entry.memory_ref == memory_ref && &entry.id == by) {
                    batch = batch.revive(memory_ref.clone(), id.clone());
                }
            }
            self.parts.store.commit(batch).await?;
            done.note(self, page, trace, &[]);
        }
        Ok(())
    }

    /// The report is the last step: one that exists tells of what is done. It is signed as it is kept, that is, after
    /// redaction, or the copy that is kept would not hold.
    async fn keep_report(&self, caller: &Caller, subject: &Subject, report: Report) -> Result<SignedReport, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let (policy, rules) = (self.policy_of(caller), self.rules(caller.tenant()).await?);
        let admission = rules.admission(&policy, now);
        let clean = Report::from_map(admission.record(report.to_map()).map()).unwrap_or(report);
        let signed = clean.sign(&self.parts.key);
        let body = admission.record(signed.to_map());
        let event = SubjectForgotten {
            report_id: signed.report.id.clone(),
            subject: subject.short(),
            erased: signed.report.erased.len() as u64,
            revived: signed.report.revived.len() as u64,
            archives: signed.report.archives.len() as u64,
        };
        let batch = Batch::new(caller.tenant().clone(), now).by(caller.principal().clone());
        let batch = batch.set(RecordKind::Erasure, signed.report.id.clone(), Precondition::Absent, body);
        self.parts.store.commit(batch.emit(EventBody::SubjectForgotten(event))).await?;
        Ok(signed)
    }

    /// What was erased from an archive took others' facts with it: the memories are distilled anew from what is left.
    async fn distil_again(&self, caller: &Caller, done: &Done) {
        for memory_ref in &done.memories {
            if let Err(error) = self.ask_for_distillation(caller, memory_ref).await {
                tracing::warn!(%error, "a memory is not distilled again after something in it was forgotten");
            }
        }
    }

    async fn ask_for_distillation(&self, caller: &Caller, memory_ref: &MemoryRef) -> Result<(), EngineError> {
        let again =
            self.distillations(caller.tenant()).await?.into_iter().filter(|one| one.memory_ref == memory_ref.as_str() && one.erased);
        let Some(last) = again.max_by_key(|one| one.at) else { return Ok(()) };
        let mut options = Map::new();
        options.insert("tokenBudget".to_owned(), json!(last.budget));
        self.start_job(caller, "distill", Some(memory_ref.as_str()), options, None).await?;
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
        let mut records = self.parts.store.records(caller.tenant(), RecordKind::Erasure, "", after, limit + 1).await?;
        let more = records.len() > limit as usize;
        records.truncate(limit as usize);
        Ok((records.iter().filter_map(|record| SignedReport::from_map(&record.body)).collect(), more))
    }

    /// One report, word for word as it was signed.
    pub async fn erasure(&self, caller: &Caller, id: &str) -> Result<Map<String, Value>, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let record = self.parts.store.record(caller.tenant(), RecordKind::Erasure, id).await?.ok_or(EngineError::NotFound)?;
        Ok(record.body)
    }
}

impl Done {
    /// Notes what a transaction over these entries did.
    fn note(&mut self, engine: &Engine, page: &[Traced], trace: &Trace, archives: &[Distilled]) {
        for entry in page.iter().filter(|entry| !entry.erased) {
            self.memories.insert(entry.memory_ref.clone());
            self.erased.push(Erased::new(&engine.parts.key, entry));
        }
        for (memory_ref, id, by) in &trace.innocent {
            if page.iter().any(|entry| &entry.memory_ref == memory_ref && &entry.id == by) {
                self.revived.push((memory_ref.clone(), id.clone()));
            }
        }
        self.archives.extend(archives.iter().map(|one| one.sha256.clone()));
    }
}
