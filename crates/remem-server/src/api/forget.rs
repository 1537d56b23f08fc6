//! The part of the memory API for forgetting and provenance: subjects, erasure reports, lineage and
//! archives.

use super::passes::job_doc;
use super::{LocalApi, engine_failure};
use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::{Draft, Timestamp};
use remem_engine::archive::{ArchiveContent, DistillationRecord};
use remem_engine::forget::{ForgetOutcome, SignedReport};
use remem_store::RelatedEntry;
use remem_wire::forget::{
    ArchiveInfo, ArchiveList, EntryLineage, ErasureCounts, ErasureInfo, ErasureList, ErasuresQuery,
    ForgetAnswer, ForgetAnswered, ForgetRequest, Relative,
};
use remem_wire::time::Instant;
use remem_wire::{Failure, ImportEntry, Problem, PutEntry};
use serde_json::{Map, Value};
use std::time::Duration;

/// Forgetting, lineage and archives, on behalf of one caller.
#[async_trait]
pub trait ForgetApi: Send + Sync {
    /// Erases everything about a subject in all memories of the tenant: at once if that takes
    /// seconds, else by a job.
    async fn forget(&self, request: ForgetRequest) -> Result<ForgetAnswered, Failure>;
    /// Returns a page of erasure reports in short, oldest first.
    async fn erasures(&self, query: ErasuresQuery) -> Result<ErasureList, Failure>;
    /// Returns one erasure report as it was signed.
    async fn erasure(&self, id: &str) -> Result<Map<String, Value>, Failure>;
    /// Returns one page of a report that names what was erased on pages, counted from 1.
    async fn erasure_page(&self, id: &str, number: usize) -> Result<Map<String, Value>, Failure>;
    /// Returns the entries that an entry was made from and those that were made from it.
    async fn lineage(&self, memory_ref: &str, id: &str) -> Result<EntryLineage, Failure>;
    /// Returns the archives that distillations of a memory wrote, oldest first.
    async fn archives(&self, memory_ref: &str) -> Result<ArchiveList, Failure>;
    /// Returns the bytes of one archive.
    async fn archive(&self, memory_ref: &str, sha256: &str) -> Result<String, Failure>;
}

impl LocalApi {
    /// Converts an entry to be put. The plain text of its subjects goes no further than here: the
    /// draft holds keyed digests of them.
    pub(crate) fn put_draft(&self, mut entry: PutEntry) -> Result<Draft, Failure> {
        let subject_texts = entry.take_subjects().map_err(Problem::Rejected)?;
        let subjects = self
            .engine
            .subject_digests(&self.caller, &subject_texts)
            .map_err(engine_failure)?;
        Ok(Draft {
            subjects,
            ..entry.into_draft().map_err(Problem::Rejected)?
        })
    }

    /// Converts an entry to be imported, with keyed digests in place of its subjects.
    pub(crate) fn import_draft(&self, mut entry: ImportEntry) -> Result<Draft, Failure> {
        let given = self
            .engine
            .subject_digests(&self.caller, &std::mem::take(&mut entry.subjects))
            .map_err(engine_failure)?;
        Ok(Draft {
            subjects: sabotage!("subjects-of-an-import-are-dropped", given, Vec::new()),
            ..entry.into_draft().map_err(Problem::Rejected)?
        })
    }
}

#[async_trait]
impl ForgetApi for LocalApi {
    async fn forget(&self, request: ForgetRequest) -> Result<ForgetAnswered, Failure> {
        let engine = &self.engine;
        let done = if request.dry_run {
            let planned = engine.forget(&self.caller, &request.subject, true).await;
            planned.map_err(engine_failure)?
        } else {
            let wait = Duration::from_millis(engine.policy().forget_wait_ms_max);
            let outcome = engine
                .forget_within(&self.caller, &request.subject, wait)
                .await
                .map_err(engine_failure)?;
            match outcome {
                ForgetOutcome::Done(done) => *done,
                ForgetOutcome::UnderWay(job) => {
                    return Ok(ForgetAnswered::Started(Box::new(job_doc(*job))));
                }
            }
        };
        Ok(ForgetAnswered::Done(ForgetAnswer {
            changed: done.changed,
            more: done.more,
            report: done.report.to_map(),
        }))
    }

    async fn erasures(&self, query: ErasuresQuery) -> Result<ErasureList, Failure> {
        let (found, more) = self
            .engine
            .list_erasures(&self.caller, query.after.as_deref(), query.limit)
            .await
            .map_err(engine_failure)?;
        let next_after = found
            .last()
            .filter(|_| more)
            .map(|last| last.report.id.clone());
        Ok(ErasureList {
            erasures: found.into_iter().map(summary).collect(),
            next_after,
            public_key: self.engine.report_public_key(),
        })
    }

    async fn erasure(&self, id: &str) -> Result<Map<String, Value>, Failure> {
        self.engine
            .get_erasure(&self.caller, id)
            .await
            .map_err(engine_failure)
    }

    async fn erasure_page(&self, id: &str, number: usize) -> Result<Map<String, Value>, Failure> {
        self.engine
            .get_erasure_page(&self.caller, id, number)
            .await
            .map_err(engine_failure)
    }

    async fn lineage(&self, memory_ref: &str, id: &str) -> Result<EntryLineage, Failure> {
        let found = self
            .engine
            .lineage(&self.caller, memory_ref, id)
            .await
            .map_err(engine_failure)?;
        Ok(EntryLineage {
            id: id.to_owned(),
            memory_ref: self.full_name(memory_ref),
            state: found.state.as_str().to_owned(),
            support: found.support,
            replaced_by: found.replaced_by.map(|by| by.as_str().to_owned()),
            sources: found.sources.into_iter().map(relative_doc).collect(),
            derivatives: found.derivatives.into_iter().map(relative_doc).collect(),
        })
    }

    async fn archives(&self, memory_ref: &str) -> Result<ArchiveList, Failure> {
        let found = self
            .engine
            .list_archives(&self.caller, memory_ref)
            .await
            .map_err(engine_failure)?;
        Ok(ArchiveList {
            archives: found.into_iter().map(archive_info).collect(),
        })
    }

    async fn archive(&self, memory_ref: &str, sha256: &str) -> Result<String, Failure> {
        match self
            .engine
            .get_archive(&self.caller, memory_ref, sha256)
            .await
            .map_err(engine_failure)?
        {
            ArchiveContent::Bytes(bytes) => Ok(bytes),
            ArchiveContent::Erased => Err(Problem::ArchiveErased.into()),
        }
    }
}

fn summary(signed: SignedReport) -> ErasureInfo {
    let report = signed.report;
    let counts = ErasureCounts {
        erased: report.count_erased(),
        revived: report.count_revived(),
        archives: report.count_archives(),
        commitments: report.commitments,
    };
    ErasureInfo {
        id: report.id,
        at: report.at,
        subject: report.subject,
        counts,
    }
}

pub(super) fn relative_doc(related: RelatedEntry) -> Relative {
    Relative {
        memory_ref: related.memory_ref.as_str().to_owned(),
        id: related.id.as_str().to_owned(),
        state: related.state.as_str().to_owned(),
    }
}

fn archive_info(archive: DistillationRecord) -> ArchiveInfo {
    let at = |ms: i64| Instant(Timestamp(ms));
    ArchiveInfo {
        sha256: archive.sha256,
        entry_id: archive.entry_id,
        created_at: at(archive.at),
        source_count: archive.source_count,
        from: at(archive.from),
        to: at(archive.to),
        token_budget: archive.budget,
        tokens_used: archive.tokens_used,
        topics: archive.topics,
        erased: archive.erased,
    }
}
