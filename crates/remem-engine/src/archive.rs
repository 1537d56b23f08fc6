//! The results of distillations: the archive (immutable, named by the digest of its bytes), the
//! record of what it was made from, and the index file that the next session reads. This file owns
//! the records `Archive` and `Distillation`.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::model::StoredModelCall;
use crate::stored::file::StoredFile;
use crate::workspace::version_key;
use remem_core::distill::Archive;
use remem_core::distill::index::{self, IndexedArchive};
use remem_core::event::FileRef;
use remem_core::record::or_default;
use remem_core::sabotage;
use remem_core::{
    Admission, Batch, Draft, EntryId, EventBody, MemoryRef, Permission, Precondition, Record,
    RecordBody, RecordKind, StoredRecord, TenantId, Timestamp,
};
use remem_store::ReadAt;
use serde::{Deserialize, Serialize};

/// Records read with one query.
const PAGE_SIZE: u32 = 500;

/// The record of one distillation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DistillationRecord {
    /// The memory that was distilled.
    pub memory_ref: String,
    /// Digest of the source entries, in hex.
    pub source_digest: String,
    /// The budget in tokens.
    pub budget: u64,
    /// Digest of the archive's bytes, in hex.
    pub sha256: String,
    /// The entry that holds the digest's text.
    pub entry_id: String,
    /// Number of source entries.
    pub source_count: u64,
    /// Tokens that were read and written.
    pub tokens_used: u64,
    /// Creation of the oldest source, in milliseconds.
    pub from: i64,
    /// Creation of the newest source, in milliseconds.
    pub to: i64,
    /// The main topics of the sources.
    #[serde(default, deserialize_with = "or_default")]
    pub topics: Vec<String>,
    /// Bytes of the entry's text.
    pub byte_size: u64,
    /// When it was made, in milliseconds.
    pub at: i64,
    /// Whether the archive's bytes were erased.
    #[serde(default, deserialize_with = "or_default")]
    pub erased: bool,
}

/// How the index file is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUpdate {
    /// Write one more version.
    Add {
        /// Whether to write the Markdown version as well.
        markdown: bool,
    },
    /// Write a version and delete the earlier ones, since they may mention what was erased.
    ReplaceHistory,
}

/// A digest of a memory's name for use in keys, for which the name may be too long.
fn memory_key(memory_ref: &str) -> String {
    blake3::hash(memory_ref.as_bytes()).to_hex()[..32].to_owned()
}

/// The key of an archive.
fn archive_key(memory_ref: &str, sha256: &str) -> String {
    format!("{}/{sha256}", memory_key(memory_ref))
}

/// The key of a distillation's record.
fn distillation_key(memory_ref: &str, source_digest: &str, budget: u64) -> String {
    format!("{}/{source_digest}-{budget}", memory_key(memory_ref))
}

impl DistillationRecord {
    /// Whether the index lists it: the index lists only shared memories, since everyone can read
    /// it.
    pub(crate) fn is_indexed(&self) -> bool {
        sabotage!(
            "the-index-tells-of-one-s-own",
            MemoryRef::parse(&self.memory_ref)
                .is_some_and(|memory_ref| memory_ref.owner().is_none()),
            MemoryRef::parse(&self.memory_ref).is_some()
        )
    }
}

impl StoredRecord for DistillationRecord {
    const KIND: RecordKind = RecordKind::Distillation;

    fn key(&self) -> String {
        distillation_key(&self.memory_ref, &self.source_digest, self.budget)
    }
}

/// The body of an archive's record, with its name: the bytes as text, or only when they were
/// erased.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredArchive {
    #[serde(skip)]
    key: String,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    bytes: Option<String>,
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Option::is_none"
    )]
    erased_at: Option<Timestamp>,
}

impl StoredRecord for StoredArchive {
    const KIND: RecordKind = RecordKind::Archive;

    fn key(&self) -> String {
        self.key.clone()
    }

    fn complete(&mut self, record: &Record) {
        self.key.clone_from(&record.key);
    }
}

/// Adds an archive and its distillation's record to a batch. The archive's bytes are stored as
/// text. Its key is a digest, so an existing archive with this key has the same bytes.
pub(crate) fn add_archive(
    batch: Batch,
    admission: &Admission<'_>,
    distilled: &DistillationRecord,
    bytes: &str,
    precondition: Precondition,
) -> Batch {
    let archive = StoredArchive {
        key: archive_key(&distilled.memory_ref, &distilled.sha256),
        bytes: Some(bytes.to_owned()),
        erased_at: None,
    };
    let batch = batch.set_redacted(&archive, Precondition::None, admission);
    batch.set_redacted(distilled, precondition, admission)
}

/// The body of an erased archive: only when it was erased.
pub(crate) fn erased_archive(admission: &Admission<'_>) -> RecordBody {
    admission.redact_stored(&StoredArchive {
        erased_at: Some(admission.now),
        ..StoredArchive::default()
    })
}

/// Adds the erasure of an archive's bytes to a batch. Its key stays, and shows that it existed.
pub(crate) fn add_erasure(
    batch: Batch,
    admission: &Admission<'_>,
    distilled: &DistillationRecord,
) -> Batch {
    let key = archive_key(&distilled.memory_ref, &distilled.sha256);
    let batch = batch.set_record(
        RecordKind::Archive,
        key,
        Precondition::None,
        erased_archive(admission),
    );
    let remaining = DistillationRecord {
        topics: Vec::new(),
        erased: true,
        ..distilled.clone()
    };
    batch.set_redacted(&remaining, Precondition::None, admission)
}

/// The content of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveContent {
    /// The archive's bytes as text.
    Bytes(String),
    /// The bytes were erased, on request or after their retention.
    Erased,
}

impl Engine {
    /// Reads the distillations of one memory, or of a whole tenant.
    pub(crate) async fn distillations(
        &self,
        tenant: &TenantId,
        memory_ref: Option<&MemoryRef>,
    ) -> Result<Vec<DistillationRecord>, EngineError> {
        let prefix = memory_ref.map_or_else(String::new, |memory_ref| {
            format!("{}/", memory_key(memory_ref.as_str()))
        });
        let mut found: Vec<DistillationRecord> = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = self
                .parts
                .store
                .records(
                    tenant,
                    RecordKind::Distillation,
                    &prefix,
                    after.as_deref(),
                    PAGE_SIZE,
                )
                .await?;
            found.extend(page.iter().filter_map(DistillationRecord::read));
            if page.len() < PAGE_SIZE as usize {
                return Ok(found);
            }
            after = page.into_iter().next_back().map(|last| last.key);
        }
    }

    /// The condition under which a distillation may be recorded: it is the first of its sources and
    /// budget, or replaces an erased one.
    pub(crate) async fn distillation_precondition(
        &self,
        tenant: &TenantId,
        distillation: &DistillationRecord,
    ) -> Result<Precondition, EngineError> {
        let key = distillation.key();
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Distillation, &key)
            .await?;
        Ok(record.map_or(Precondition::Absent, |record| {
            Precondition::Version(record.version)
        }))
    }

    /// Finds the distillation of exactly these sources with exactly this budget, unless it was
    /// erased.
    pub(crate) async fn find_distillation(
        &self,
        tenant: &TenantId,
        memory_ref: &MemoryRef,
        source_digest: &str,
        budget: u64,
    ) -> Result<Option<DistillationRecord>, EngineError> {
        let key = distillation_key(memory_ref.as_str(), source_digest, budget);
        let record = self
            .parts
            .store
            .record(tenant, RecordKind::Distillation, &key)
            .await?;
        Ok(record
            .as_ref()
            .and_then(DistillationRecord::read)
            .filter(|distillation| !distillation.erased))
    }

    /// Lists the distillations of a memory, oldest first, including those whose archive was erased.
    /// Topics are redacted by the rules of today.
    pub async fn list_archives(
        &self,
        caller: &Caller,
        memory_ref: &str,
    ) -> Result<Vec<DistillationRecord>, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let Some(memory_ref) = sabotage!(
            "anybody-sees-archives",
            caller.memory_ref(memory_ref),
            MemoryRef::parse(memory_ref)
        ) else {
            return Ok(Vec::new());
        };
        let tenant = caller.tenant();
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(tenant).await?;
        let redact = |topic: &String| {
            rules
                .redactor()
                .clean(topic, policy.shapes)
                .text
                .into_string()
        };
        let redacted = |distillation: DistillationRecord| DistillationRecord {
            topics: distillation.topics.iter().map(redact).collect(),
            ..distillation
        };
        let own = self.distillations(tenant, Some(&memory_ref)).await?;
        let mut found: Vec<DistillationRecord> = own.into_iter().map(redacted).collect();
        found.sort_by(|a, b| (a.at, &a.sha256).cmp(&(b.at, &b.sha256)));
        Ok(found)
    }

    /// Returns an archive by its digest, byte for byte as it was written. If it contains a secret
    /// that was registered since, it is returned as erased: the rescan pass will erase it.
    pub async fn get_archive(
        &self,
        caller: &Caller,
        memory_ref: &str,
        sha256: &str,
    ) -> Result<ArchiveContent, EngineError> {
        caller.require(Permission::MemoryRead)?;
        let memory_ref = sabotage!(
            "anybody-reads-an-archive",
            caller.memory_ref(memory_ref),
            MemoryRef::parse(memory_ref)
        )
        .ok_or(EngineError::NotFound("archive"))?;
        let content = self
            .read_archive(caller.tenant(), memory_ref.as_str(), sha256)
            .await?;
        let ArchiveContent::Bytes(bytes) = &content else {
            return Ok(content);
        };
        let rules = self.redaction_rules(caller.tenant()).await?;
        let text = sabotage!("late-secrets-are-shown-from-archives", bytes, &bytes[..0]);
        let has_secret = || rules.redactor().has_findings(text, caller.shapes);
        let cpu = &self.parts.cpu;
        if cpu.run(caller.tenant(), bytes.len(), has_secret).await? {
            return Ok(ArchiveContent::Erased);
        }
        Ok(content)
    }

    /// Reads an archive's record.
    async fn read_archive(
        &self,
        tenant: &TenantId,
        memory_ref: &str,
        sha256: &str,
    ) -> Result<ArchiveContent, EngineError> {
        let record = self
            .parts
            .store
            .record(
                tenant,
                RecordKind::Archive,
                &archive_key(memory_ref, sha256),
            )
            .await?;
        let record = record.ok_or(EngineError::NotFound("archive"))?;
        let bytes = StoredArchive::read(&record).and_then(|archive| archive.bytes);
        Ok(bytes.map_or(ArchiveContent::Erased, ArchiveContent::Bytes))
    }

    /// Reverts a model's rewrite: deletes the entry that holds it, and stores one with the
    /// deterministic text from the archive instead. `NotFound` if the call changed nothing, or its
    /// archive was erased.
    pub async fn undo_rewrite(&self, caller: &Caller, call: &str) -> Result<EntryId, EngineError> {
        caller.require(Permission::MemoryAdmin)?;
        let tenant = caller.tenant();
        let store = &self.parts.store;
        let record = store
            .record(tenant, RecordKind::ModelCall, call)
            .await?
            .ok_or(EngineError::NotFound("model call"))?;
        let stored = StoredModelCall::read(&record).unwrap_or_default();
        let can_be_undone = stored.accepted && stored.undone_at.is_none();
        let (true, Some(memory_ref), Some(output)) =
            (can_be_undone, &stored.memory_ref, &stored.output_id)
        else {
            return Err(EngineError::NotFound("model call"));
        };
        let all = self.distillations(tenant, None).await?;
        let is_output = |distillation: &&DistillationRecord| {
            distillation.memory_ref == *memory_ref
                && distillation.entry_id == *output
                && !distillation.erased
        };
        let distillation = all
            .iter()
            .find(is_output)
            .ok_or(EngineError::NotFound("model call"))?;
        let (Some(scope), Some(output)) = (caller.scope(memory_ref), EntryId::parse(output)) else {
            return Err(EngineError::NotFound("model call"));
        };
        let ArchiveContent::Bytes(bytes) = self
            .read_archive(tenant, memory_ref, &distillation.sha256)
            .await?
        else {
            return Err(EngineError::NotFound("model call"));
        };
        let digest_text = Archive::parse(bytes.as_bytes())
            .map_err(|_| EngineError::NotFound("model call"))?
            .text();
        let lineage = store
            .lineage(&scope, &output)
            .await?
            .ok_or(EngineError::NotFound("model call"))?;
        let before = store
            .get(&scope, &output, &ReadAt::Now(self.now_for(tenant).await?))
            .await?
            .ok_or(EngineError::NotFound("model call"))?;
        let policy = self.policy_of(caller);
        let rules = self.redaction_rules(tenant).await?;
        let now = self.now_for(tenant).await?;
        let admission = rules.admission(&policy, now);
        let draft = Draft {
            content: digest_text,
            tags: before.tags.clone(),
            facets: before.facets.clone(),
            ..Draft::default()
        };
        let size = cpu::draft_bytes(&draft);
        let admit = || admission.admit(&scope, draft);
        let admitted = self.parts.cpu.run(tenant, size, admit).await??;
        let id = self.parts.ids.entry();
        let sources = lineage
            .sources
            .into_iter()
            .map(|source| (source.memory_ref, source.id))
            .collect();
        let batch = Batch::new(tenant.clone(), now).with_principal(caller.principal().clone());
        let batch = batch
            .expect_entry(
                scope.memory_ref.clone(),
                output.clone(),
                before.visible.from,
            )
            .put_derived(id.clone(), admitted, sources);
        let batch = batch.delete(scope.memory_ref.clone(), output);
        let renewed = DistillationRecord {
            entry_id: id.as_str().to_owned(),
            ..distillation.clone()
        };
        let rest: Vec<DistillationRecord> = all
            .iter()
            .map(|one| if is_output(&one) { &renewed } else { one })
            .cloned()
            .collect();
        let mut batch = add_archive(batch, &admission, &renewed, &bytes, Precondition::None);
        if renewed.is_indexed() {
            batch = self
                .write_index(
                    tenant,
                    batch,
                    &admission,
                    &rest,
                    IndexUpdate::ReplaceHistory,
                )
                .await?;
        }
        let undone = StoredModelCall {
            undone_at: Some(now.rfc3339()),
            ..stored.clone()
        };
        let unchanged = Precondition::Version(record.version);
        let batch = batch.set_redacted(&undone, unchanged, &admission);
        self.parts.store.commit(batch).await?;
        Ok(id)
    }

    /// Adds a new version of the index file to a batch, under the condition that no other writer
    /// has changed it. Everyone can read the file, so it lists only shared memories.
    pub(crate) async fn write_index(
        &self,
        tenant: &TenantId,
        mut batch: Batch,
        admission: &Admission<'_>,
        distilled: &[DistillationRecord],
        update: IndexUpdate,
    ) -> Result<Batch, EngineError> {
        let index = build_index(distilled);
        // An existing Markdown version is updated with the index, or it would mention what is gone.
        let markdown_file = self
            .parts
            .store
            .record(tenant, RecordKind::File, index::MARKDOWN_PATH)
            .await?;
        let mut files = vec![(index::INDEX_PATH, "application/json", index.json())];
        if markdown_file.is_some() || update == (IndexUpdate::Add { markdown: true }) {
            files.push((index::MARKDOWN_PATH, "text/markdown", index.markdown()));
        }
        for (path, content_type, content) in files {
            let before = self
                .parts
                .store
                .record(tenant, RecordKind::File, path)
                .await?;
            let (version, precondition) = match &before {
                Some(record) => (
                    record.version + 1,
                    sabotage!(
                        "two-writers-of-the-index",
                        Precondition::Version(record.version),
                        Precondition::None
                    ),
                ),
                None => (1, Precondition::Absent),
            };
            let file = StoredFile {
                key: path.to_owned(),
                content,
                content_type: content_type.to_owned(),
            };
            let body = admission.redact_stored(&file);
            batch = batch.set_record(
                RecordKind::File,
                path.to_owned(),
                precondition,
                body.clone(),
            );
            if update == IndexUpdate::ReplaceHistory {
                sabotage!(
                    "old-versions-of-the-index-tell-of-the-forgotten",
                    batch = self.delete_file_versions(batch, path, version - 1)
                );
            }
            batch = self.add_version(batch, path, version, body);
            batch = batch.emit(EventBody::WorkspaceUpdated(FileRef {
                path: path.to_owned(),
                version,
            }));
        }
        Ok(batch)
    }

    /// Adds the deletion of a file's versions to a batch.
    fn delete_file_versions(&self, batch: Batch, path: &str, newest: u64) -> Batch {
        let oldest = newest
            .saturating_sub(self.parts.policy.file_versions_max as u64)
            .max(1);
        (oldest..=newest).fold(batch, |batch, version| {
            batch.delete_record(
                RecordKind::FileVersion,
                version_key(path, version),
                Precondition::None,
            )
        })
    }
}

/// Builds the index of distillations that are listed and not erased.
fn build_index(distilled: &[DistillationRecord]) -> index::ArchiveIndex {
    let mut index = index::ArchiveIndex::default();
    for distillation in distilled
        .iter()
        .filter(|distillation| !distillation.erased && distillation.is_indexed())
    {
        let listed = IndexedArchive {
            sha256: distillation.sha256.clone(),
            entry_id: distillation.entry_id.clone(),
            source_count: distillation.source_count,
            from: Timestamp(distillation.from),
            to: Timestamp(distillation.to),
            topics: distillation.topics.clone(),
        };
        index.add(&distillation.memory_ref, listed);
    }
    index
}
