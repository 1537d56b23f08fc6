//! What a forget has erased so far. With every transaction goes a *page*: a record of what that
//! transaction erases, so that the report covers it whoever completes the work. The report of the
//! last transaction takes the pages up; if there is too much on them for one record, it lists their
//! digests instead.
//!
//! While an erasure has pages that no report covers, a record under the subject's digest names the
//! report that they are for.

use super::report::{ErasedEntry, ErasureReport, ReportPage, SignedReport, sha256};
use crate::archive::DistillationRecord;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::webhook::send::hex;
use remem_core::sabotage;
use remem_core::{
    Admission, Batch, EntryId, HostText, MemoryRef, Precondition, Record, RecordKind, StoredRecord,
    Subject, TenantId, needs_no_redaction,
};
use remem_store::{SubjectTrace, TracedEntry};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

/// Pages read with one query.
const PAGES_READ: u32 = 20;
/// Records of unfinished erasures of one subject, at most.
const OPEN_MAX: u32 = 100_000;

/// What is left of interrupted erasures of a subject that no report covers.
#[derive(Default)]
pub struct Unreported {
    /// The report that pages were written for.
    pub report_id: Option<String>,
    /// What version 0.1.0 recorded with each transaction, and the keys of these records.
    earlier: Vec<(String, ErasureReport)>,
}

impl Unreported {
    pub fn is_empty(&self) -> bool {
        self.report_id.is_none() && self.earlier.is_empty()
    }
}

/// The record that names the report of a subject's unfinished erasure.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenErasure {
    #[serde(skip)]
    key: HostText,
    report_id: HostText,
}

needs_no_redaction!(OpenErasure { key, report_id });

impl StoredRecord for OpenErasure {
    const KIND: RecordKind = RecordKind::Progress;

    fn key(&self) -> String {
        self.key.as_str().to_owned()
    }

    fn complete(&mut self, record: &Record) {
        self.key = HostText::new(&record.key);
    }
}

/// Key prefix of the records of a subject's unfinished erasure.
fn open_prefix(subject: &Subject) -> String {
    format!("forget/{}/", hex(subject.bytes()))
}

/// The key of the record that names the report of a subject's unfinished erasure.
fn open_key(subject: &Subject) -> String {
    format!("{}open", open_prefix(subject))
}

/// Key prefix of the pages of a report.
fn pages_prefix(report_id: &str) -> String {
    format!("erasure/{report_id}/")
}

/// The key of a page of a report, counted from 1.
pub fn page_key(report_id: &str, number: usize) -> String {
    format!("{}{number:06}", pages_prefix(report_id))
}

/// Finds what interrupted erasures of a subject left behind.
pub async fn find_unreported(
    engine: &Engine,
    tenant: &TenantId,
    subject: &Subject,
) -> Result<Unreported, EngineError> {
    let prefix = open_prefix(subject);
    let records = engine
        .parts
        .store
        .records(tenant, RecordKind::Progress, &prefix, None, OPEN_MAX)
        .await?;
    let mut found = Unreported::default();
    for record in records {
        if record.key == open_key(subject) {
            let open = OpenErasure::read(&record);
            found.report_id = open.map(|open| open.report_id.into_string());
        } else {
            let part = ErasureReport::from_map(&record.body).unwrap_or_default();
            found.earlier.push((record.key, part));
        }
    }
    Ok(found)
}

/// The entries and archives that a forget has erased so far.
#[derive(Default)]
pub struct ErasureProgress {
    /// The report so far. It names what was erased as long as that fits in one record.
    pub report: ErasureReport,
    /// What is named in no page: it was recorded by version 0.1.0, or is in a report already.
    unpaged: ErasureReport,
    /// The pages that were written.
    pages: Vec<ReportPage>,
    /// Number of entries and archives that were named, on pages or not.
    named: u64,
    /// Whether the record exists that names the report.
    is_open: bool,
    /// Keys of records of version 0.1.0 that no report covers yet.
    earlier: Vec<String>,
    /// The memories that something was erased from.
    pub memories: BTreeSet<MemoryRef>,
    /// The signed report as it was stored.
    pub signed: Option<SignedReport>,
}

impl ErasureProgress {
    /// Loads what was erased already under the name of a report, and what no report covers.
    pub async fn load(
        engine: &Engine,
        tenant: &TenantId,
        subject: &Subject,
        report_id: &str,
        named_max: u64,
    ) -> Result<ErasureProgress, EngineError> {
        let store = &engine.parts.store;
        let mut progress = ErasureProgress::default();
        let stored = store.record(tenant, RecordKind::Erasure, report_id).await?;
        progress.signed = stored.and_then(|record| SignedReport::from_map(&record.body));
        if let Some(signed) = &progress.signed {
            // Its pages, if it has any, are read below.
            let mut part = signed.report.clone();
            if part.pages.is_empty() {
                progress.add(&part, named_max);
                progress.unpaged = part;
            } else {
                part.pages.clear();
                progress.add(&part, named_max);
            }
        }
        let mut after: Option<String> = None;
        loop {
            let prefix = pages_prefix(report_id);
            let after_key = after.as_deref();
            let pages = store
                .records(tenant, RecordKind::Progress, &prefix, after_key, PAGES_READ)
                .await?;
            let Some(last) = pages.last() else { break };
            after = Some(last.key.clone());
            for page in pages {
                let mut part = ErasureReport::from_map(&page.body).unwrap_or_default();
                progress
                    .pages
                    .push(ReportPage::of(&part, sha256(page.body)));
                if progress.is_counted(progress.pages.len()) {
                    part = part.without_counts();
                }
                progress.add(&part, named_max);
            }
        }
        let left = find_unreported(engine, tenant, subject).await?;
        progress.is_open = left.report_id.is_some();
        for (key, part) in left.earlier {
            progress.add(&part, named_max);
            progress.unpaged.append(&part);
            progress.earlier.push(key);
        }
        Ok(progress)
    }

    /// Whether the stored report counts what is on this page in its totals already.
    fn is_counted(&self, number: usize) -> bool {
        let covered = |signed: &SignedReport| number <= signed.report.pages.len();
        self.signed.as_ref().is_some_and(covered)
    }

    /// Whether anything was erased.
    pub fn has_changed(&self) -> bool {
        self.named + self.report.private.erased + self.report.private.archives > 0
    }

    /// Whether something was erased that no report covers.
    pub fn has_unreported(&self) -> bool {
        self.is_open || !self.earlier.is_empty()
    }

    /// Adds what a transaction erases. From `named_max` names on, the report itself has none.
    pub fn add(&mut self, part: &ErasureReport, named_max: u64) {
        self.named += part.named();
        self.report.append(part);
        if self.named > named_max {
            self.report.clear_names();
        }
    }

    /// Writes what a transaction erases as a page, with the transaction.
    pub fn write_page(
        &mut self,
        batch: Batch,
        admission: &Admission<'_>,
        subject: &Subject,
        part: &ErasureReport,
    ) -> Batch {
        let batch = self.open(batch, subject, &part.id);
        self.add_page(batch, admission, part)
    }

    /// Whether the record exists that names the report.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes back the last page, whose transaction failed.
    pub fn drop_page(&mut self, was_open: bool) {
        self.is_open = was_open;
        self.pages.pop();
    }

    /// Writes the record that names the report, unless it exists.
    fn open(&mut self, batch: Batch, subject: &Subject, report_id: &str) -> Batch {
        if self.is_open {
            return batch;
        }
        self.is_open = true;
        let open = OpenErasure {
            key: HostText::new(open_key(subject)),
            report_id: HostText::new(report_id),
        };
        batch.set_stored(&open, Precondition::None)
    }

    fn add_page(&mut self, batch: Batch, admission: &Admission<'_>, part: &ErasureReport) -> Batch {
        let body = admission.redact_record(part.to_map());
        let digest = sha256(body.map().clone());
        self.pages.push(ReportPage::of(part, digest));
        let key = page_key(&part.id, self.pages.len());
        batch.set_record(RecordKind::Progress, key, Precondition::None, body)
    }

    /// Makes the report whole, and the records beside it: it names everything and the pages go, or
    /// everything is on pages and it lists these. `last` is what the same transaction erases.
    pub fn complete(
        &mut self,
        batch: Batch,
        admission: &Admission<'_>,
        subject: &Subject,
        last: &ErasureReport,
        named_max: u64,
    ) -> Batch {
        self.add(last, named_max);
        let id = last.id.clone();
        let mut batch = batch;
        if self.named > named_max {
            let mut page = last.clone();
            page.append(&std::mem::take(&mut self.unpaged));
            if page.named() > 0 {
                batch = self.add_page(batch, admission, &page);
            }
            self.report.pages.clone_from(&self.pages);
        } else {
            let numbers = 1..=std::mem::take(&mut self.pages).len();
            batch = numbers.fold(batch, |batch, number| {
                batch.delete_record(
                    RecordKind::Progress,
                    page_key(&id, number),
                    Precondition::None,
                )
            });
            self.unpaged = self.report.clone();
        }
        let open = std::mem::take(&mut self.is_open).then(|| open_key(subject));
        let keys = std::mem::take(&mut self.earlier).into_iter().chain(open);
        keys.fold(batch, |batch, key| {
            batch.delete_record(RecordKind::Progress, key, Precondition::None)
        })
    }
}

impl Engine {
    /// The number of entries and archives that one record of a report names.
    pub(super) fn named_max(&self) -> u64 {
        self.parts.policy.erasure_named_max as u64
    }

    /// What a transaction over these entries erases, and what it revives.
    pub(super) fn part_of(&self, entries: &[TracedEntry], trace: &SubjectTrace) -> ErasureReport {
        let mut part = ErasureReport::default();
        for entry in entries.iter().filter(|entry| !entry.erased) {
            match entry.memory_ref.owner() {
                None => part
                    .erased
                    .push(ErasedEntry::new(&self.parts.host_key, entry)),
                Some(_) => sabotage!(
                    "a-report-names-users-own",
                    part.private.erased += 1,
                    part.erased
                        .push(ErasedEntry::new(&self.parts.host_key, entry))
                ),
            }
        }
        for (memory_ref, id) in survivors_of(entries, trace) {
            match memory_ref.owner() {
                None => part
                    .revived
                    .push((memory_ref.as_str().to_owned(), id.as_str().to_owned())),
                Some(_) => part.private.revived += 1,
            }
        }
        part
    }
}

/// The entries that are revived when these are erased.
pub fn survivors_of<'a>(
    entries: &[TracedEntry],
    trace: &'a SubjectTrace,
) -> Vec<(&'a MemoryRef, &'a EntryId)> {
    let names: HashSet<(&MemoryRef, &EntryId)> = entries
        .iter()
        .map(|entry| (&entry.memory_ref, &entry.id))
        .collect();
    let is_freed =
        |(memory_ref, _, by): &&(MemoryRef, EntryId, EntryId)| names.contains(&(memory_ref, by));
    let survivors = trace.merged_survivors.iter().filter(is_freed);
    survivors
        .map(|(memory_ref, id, _)| (memory_ref, id))
        .collect()
}

impl ErasureReport {
    /// Adds erased archives; those of single users' memories are only counted.
    pub(super) fn add_archives(&mut self, archives: &[DistillationRecord]) {
        let (shared, private): (Vec<&DistillationRecord>, Vec<&DistillationRecord>) =
            archives.iter().partition(|archive| archive.is_indexed());
        self.archives
            .extend(shared.iter().map(|archive| archive.sha256.clone()));
        self.private.archives += private.len() as u64;
    }
}
