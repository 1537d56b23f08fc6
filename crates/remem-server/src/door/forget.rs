//! The part of the memory API for forgetting and provenance: subjects, erasure reports, lineage and
//! archives.

use super::{EngineDoor, fail};
use async_trait::async_trait;
use remem_core::sabotage;
use remem_core::{Draft, Timestamp};
use remem_engine::archive::{Distilled, Kept};
use remem_engine::forget::SignedReport;
use remem_store::Relative as Related;
use remem_wire::forget::{
    ArchiveInfo, ArchiveList, EntryLineage, ErasureCounts, ErasureInfo, ErasureList, ErasuresQuery,
    ForgetAnswer, ForgetRequest, Relative,
};
use remem_wire::time::Instant;
use remem_wire::{Failure, ImportEntry, Problem, PutEntry};
use serde_json::{Map, Value};

/// Forgetting, lineage and archives, on behalf of one caller.
#[async_trait]
pub trait ForgetDoor: Send + Sync {
    /// Erases everything about a subject in all memories of the tenant.
    async fn forget(&self, request: ForgetRequest) -> Result<ForgetAnswer, Failure>;
    /// Returns a page of erasure reports in short, oldest first.
    async fn erasures(&self, query: ErasuresQuery) -> Result<ErasureList, Failure>;
    /// Returns one erasure report as it was signed.
    async fn erasure(&self, id: &str) -> Result<Map<String, Value>, Failure>;
    /// Returns the entries that an entry was made from and those that were made from it.
    async fn lineage(&self, memory_ref: &str, id: &str) -> Result<EntryLineage, Failure>;
    /// Returns the archives that distillations of a memory wrote, oldest first.
    async fn archives(&self, memory_ref: &str) -> Result<ArchiveList, Failure>;
    /// Returns the bytes of one archive.
    async fn archive(&self, memory_ref: &str, sha256: &str) -> Result<String, Failure>;
}

impl EngineDoor {
    /// Converts an entry to be put. The plain text of its subjects goes no further than here: the
    /// draft holds keyed digests of them.
    pub(crate) fn draft(&self, mut entry: PutEntry) -> Result<Draft, Failure> {
        let subject_texts = entry.take_subjects().map_err(Problem::Rejected)?;
        let subjects = self
            .engine
            .subjects(&self.caller, &subject_texts)
            .map_err(fail)?;
        Ok(Draft {
            subjects,
            ..entry.into_draft().map_err(Problem::Rejected)?
        })
    }

    /// Converts an entry to be imported, with keyed digests in place of its subjects.
    pub(crate) fn import_draft(&self, mut entry: ImportEntry) -> Result<Draft, Failure> {
        let given = self
            .engine
            .subjects(&self.caller, &std::mem::take(&mut entry.subjects))
            .map_err(fail)?;
        Ok(Draft {
            subjects: sabotage!("subjects-of-an-import-are-dropped", given, Vec::new()),
            ..entry.into_draft().map_err(Problem::Rejected)?
        })
    }
}

#[async_trait]
impl ForgetDoor for EngineDoor {
    async fn forget(&self, request: ForgetRequest) -> Result<ForgetAnswer, Failure> {
        let done = self
            .engine
            .forget(&self.caller, &request.subject, request.dry_run)
            .await
            .map_err(fail)?;
        Ok(ForgetAnswer {
            changed: done.changed,
            report: done.report.to_map(),
        })
    }

    async fn erasures(&self, query: ErasuresQuery) -> Result<ErasureList, Failure> {
        let (found, more) = self
            .engine
            .erasures(&self.caller, query.after.as_deref(), query.limit)
            .await
            .map_err(fail)?;
        let next_after = found
            .last()
            .filter(|_| more)
            .map(|last| last.report.id.clone());
        Ok(ErasureList {
            erasures: found.into_iter().map(summary).collect(),
            next_after,
            public_key: self.engine.report_key(),
        })
    }

    async fn erasure(&self, id: &str) -> Result<Map<String, Value>, Failure> {
        self.engine.erasure(&self.caller, id).await.map_err(fail)
    }

    async fn lineage(&self, memory_ref: &str, id: &str) -> Result<EntryLineage, Failure> {
        let found = self
            .engine
            .lineage(&self.caller, memory_ref, id)
            .await
            .map_err(fail)?;
        Ok(EntryLineage {
            id: id.to_owned(),
            memory_ref: self.full_name(memory_ref),
            state: found.state.as_str().to_owned(),
            support: found.support,
            replaced_by: found.replaced_by.map(|by| by.as_str().to_owned()),
            sources: found.sources.into_iter().map(relative).collect(),
            derivatives: found.derivatives.into_iter().map(relative).collect(),
        })
    }

    async fn archives(&self, memory_ref: &str) -> Result<ArchiveList, Failure> {
        let found = self
            .engine
            .archives(&self.caller, memory_ref)
            .await
            .map_err(fail)?;
        Ok(ArchiveList {
            archives: found.into_iter().map(archive_info).collect(),
        })
    }

    async fn archive(&self, memory_ref: &str, sha256: &str) -> Result<String, Failure> {
        match self
            .engine
            .archive(&self.caller, memory_ref, sha256)
            .await
            .map_err(fail)?
        {
            Kept::Bytes(bytes) => Ok(bytes),
            Kept::Erased => Err(Problem::ArchiveErased.into()),
        }
    }
}

fn summary(signed: SignedReport) -> ErasureInfo {
    let report = signed.report;
    // A report lists ids only for shared memories; in memories of single users it counts.
    let count = |listed: usize, in_user_memories: u64| listed as u64 + in_user_memories;
    let counts = ErasureCounts {
        erased: count(report.erased.len(), report.own.erased),
        revived: count(report.revived.len(), report.own.revived),
        archives: count(report.archives.len(), report.own.archives),
        commitments: report.commitments,
    };
    ErasureInfo {
        id: report.id,
        at: report.at,
        subject: report.subject,
        counts,
    }
}

pub(super) fn relative(related: Related) -> Relative {
    Relative {
        memory_ref: related.memory_ref.as_str().to_owned(),
        id: related.id.as_str().to_owned(),
        state: related.state.as_str().to_owned(),
    }
}

fn archive_info(archive: Distilled) -> ArchiveInfo {
    let at = |ms: i64| Instant(Timestamp(ms));
    ArchiveInfo {
        sha256: archive.sha256,
        entry_id: archive.entry_id,
        created_at: at(archive.at),
        source_count: archive.source_count,
        from: at(archive.span.0),
        to: at(archive.span.1),
        token_budget: archive.budget,
        tokens_used: archive.tokens_used,
        topics: archive.topics,
        erased: archive.erased,
    }
}
