//! Workspace files: small texts of a tenant, by path, in versions. Every text is redacted before it
//! is stored, and again when it is read. A deleted path can be used again: its versions begin at 1.

use crate::caller::Caller;
use crate::cpu;
use crate::engine::{Engine, RequestDigest};
use crate::error::EngineError;
use crate::secrets::RedactionRules;
use crate::stored::file::StoredFile;
use remem_core::admission::check_name;
use remem_core::distill::index;
use remem_core::event::FileRef;
use remem_core::sabotage;
use remem_core::{
    Batch, EventBody, Idempotency, Permission, Precondition, Record, RecordBody, RecordKind,
    RecordLinks, Rejection, StoredRecord, Timestamp,
};
use remem_store::{ChangeOutcome, StoreError};

/// One version of a file.
#[derive(Clone, PartialEq)]
pub struct FileView {
    /// The path of the file.
    pub path: String,
    /// The text of the file, redacted.
    pub content: String,
    /// The media type of the text.
    pub content_type: String,
    /// The number of the version, from 1.
    pub version: u64,
    /// Identifies this version of this text.
    pub etag: String,
    /// When this version was written.
    pub updated_at: Timestamp,
}

// Prints no text: a file can be as private as a memory.
impl std::fmt::Debug for FileView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// A file in a list: everything except its text.
#[derive(Clone, Debug, PartialEq)]
pub struct FileInfo {
    /// The path of the file.
    pub path: String,
    /// The media type of the text.
    pub content_type: String,
    /// The number of the newest version.
    pub version: u64,
    /// Identifies the newest version.
    pub etag: String,
    /// When the newest version was written.
    pub updated_at: Timestamp,
}

/// The conditions of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteConditions<'a> {
    /// Write only if this ETag identifies the current version.
    pub if_match: Option<&'a str>,
    /// The idempotency key of the request.
    pub key: Option<&'a str>,
}

/// The media type of a file if none is given.
const DEFAULT_CONTENT_TYPE: &str = "text/markdown";
/// Characters of the media type of a file.
pub const CONTENT_TYPE_CHARS_MAX: usize = 100;
/// Characters of the path of a file.
pub const PATH_CHARS_MAX: usize = 256;
/// How often a write without a condition is retried after a conflict.
const COMMIT_TRIES: u32 = 16;
/// Bytes that are hashed in the time in which one byte is redacted: a low estimate, since it bounds
/// the use of a CPU permit.
const HASHED_PER_REDACTED: usize = 16;
/// Files that a list has in memory at once.
const LIST_PAGE_SIZE: u32 = 16;

impl Engine {
    /// Lists the tenant's files whose path begins with `prefix`, by path. Their texts are not
    /// returned, so they are not redacted, and few are in memory at a time.
    pub async fn list_files(
        &self,
        caller: &Caller,
        prefix: &str,
    ) -> Result<Vec<FileInfo>, EngineError> {
        caller.require(Permission::WorkspaceRead)?;
        let tenant = caller.tenant();
        let rules = self.redaction_rules(tenant).await?;
        let mut files: Vec<FileInfo> = Vec::new();
        while files.len() < self.parts.policy.files_max {
            let after = files.last().map(|file| file.path.as_str());
            let store = &self.parts.store;
            let page = store
                .records(tenant, RecordKind::File, prefix, after, LIST_PAGE_SIZE)
                .await?;
            let last = page.len() < LIST_PAGE_SIZE as usize;
            let bytes = |record: &Record| cpu::map_bytes(&record.body) / HASHED_PER_REDACTED;
            let info = |record| Ok::<_, EngineError>(self.file_info(caller, &rules, &record));
            files.extend(self.parts.cpu.each(tenant, page, bytes, info).await?);
            if last {
                break;
            }
        }
        Ok(files)
    }

    /// Returns a file, in a version that is still stored, or the newest.
    pub async fn get_file(
        &self,
        caller: &Caller,
        path: &str,
        version: Option<u64>,
    ) -> Result<Option<FileView>, EngineError> {
        caller.require(Permission::WorkspaceRead)?;
        if !is_path(path) {
            return Ok(None);
        }
        let Some(newest) = self
            .parts
            .store
            .record(caller.tenant(), RecordKind::File, path)
            .await?
        else {
            return Ok(None);
        };
        let found = match version {
            None => Some(newest),
            Some(version) if version == newest.version => Some(newest),
            Some(version) => {
                self.parts
                    .store
                    .record(
                        caller.tenant(),
                        RecordKind::FileVersion,
                        &version_key(path, version),
                    )
                    .await?
            }
        };
        let rules = self.redaction_rules(caller.tenant()).await?;
        let Some(found) = found else {
            return Ok(None);
        };
        Ok(Some(FileView {
            path: path.to_owned(),
            ..self.redacted_file(caller, &rules, found).await?
        }))
    }

    /// Writes a new version of a file, if the conditions hold.
    pub async fn put_file(
        &self,
        caller: &Caller,
        path: &str,
        content: &str,
        content_type: Option<&str>,
        conditions: WriteConditions<'_>,
    ) -> Result<FileView, EngineError> {
        caller.require(Permission::WorkspaceWrite)?;
        if !is_path(path) {
            return Err(Rejection::MalformedName { field: "path" }.into());
        }
        check_not_host_file(path, &[index::INDEX_PATH, index::MARKDOWN_PATH])?;
        let rules = self.redaction_rules(caller.tenant()).await?;
        check_name(rules.redactor(), "path", path)?;
        let content_type = content_type.unwrap_or(DEFAULT_CONTENT_TYPE);
        if content_type.chars().count() > CONTENT_TYPE_CHARS_MAX
            || content_type.chars().any(char::is_control)
        {
            return Err(Rejection::Invalid {
                field: "contentType",
                rule: "must be at most 100 characters without control characters",
            }
            .into());
        }
        let body = self.file_body(caller, content, content_type).await?;
        let etags = self.etags();
        let idempotency = self.idempotency(
            "put-file",
            conditions.key,
            &file_digest(path, &[content, content_type], conditions),
        )?;
        for _ in 0..COMMIT_TRIES {
            let before = self
                .parts
                .store
                .record(caller.tenant(), RecordKind::File, path)
                .await?;
            let allowed = check_if_match(
                sabotage!(
                    "if-match-is-ignored",
                    conditions.if_match,
                    conditions.if_match.filter(|_| false)
                ),
                before.as_ref(),
                &etags,
            );
            let allowed = match &before {
                None if allowed.is_ok() => self.check_file_room(caller).await,
                _ => allowed,
            };
            if let Err(refusal) = allowed {
                let replayed = self
                    .replayed_commit(caller.tenant(), idempotency.as_ref())
                    .await?
                    .ok_or(refusal)?;
                let version = replayed
                    .outcomes
                    .iter()
                    .find_map(recorded_version)
                    .unwrap_or(1);
                let record = Record {
                    kind: RecordKind::File,
                    key: path.to_owned(),
                    version,
                    at: replayed.at,
                    body: body.map().clone(),
                    links: RecordLinks::default(),
                };
                return self.redacted_file(caller, &rules, record).await;
            }
            match self
                .write_file(caller, path, before.as_ref(), &body, idempotency.clone())
                .await
            {
                Ok(record) => return self.redacted_file(caller, &rules, record).await,
                Err(EngineError::Store(StoreError::Conflict)) => {}
                Err(other) => return Err(other),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// Deletes a file with all its versions. Returns whether there was one.
    pub async fn delete_file(
        &self,
        caller: &Caller,
        path: &str,
        conditions: WriteConditions<'_>,
    ) -> Result<bool, EngineError> {
        caller.require(Permission::WorkspaceWrite)?;
        if !is_path(path) {
            return Ok(false);
        }
        // The Markdown index may be deleted: it is written on request, and deleting it stops that.
        check_not_host_file(path, &[index::INDEX_PATH])?;
        let idempotency = self.idempotency(
            "delete-file",
            conditions.key,
            &file_digest(path, &[], conditions),
        )?;
        for _ in 0..COMMIT_TRIES {
            let Some(before) = self
                .parts
                .store
                .record(caller.tenant(), RecordKind::File, path)
                .await?
            else {
                return Ok(self
                    .replayed_commit(caller.tenant(), idempotency.as_ref())
                    .await?
                    .is_some());
            };
            if let Err(conflict) = check_if_match(conditions.if_match, Some(&before), &self.etags())
            {
                return self
                    .replayed_commit(caller.tenant(), idempotency.as_ref())
                    .await?
                    .map(|_| true)
                    .ok_or(conflict);
            }
            let now = self.now_for(caller.tenant()).await?;
            let mut batch = Batch::new(caller.tenant().clone(), now)
                .with_principal(caller.principal().clone())
                .idempotent(idempotency.clone());
            batch = batch.delete_record(
                RecordKind::File,
                path.to_owned(),
                Precondition::Version(before.version),
            );
            for version in self.oldest_kept_version(before.version)..=before.version {
                batch = batch.delete_record(
                    RecordKind::FileVersion,
                    version_key(path, version),
                    Precondition::None,
                );
            }
            let event = FileRef {
                path: path.to_owned(),
                version: before.version + 1,
            };
            match self
                .parts
                .store
                .commit(batch.emit(EventBody::WorkspaceUpdated(event)))
                .await
            {
                Ok(_) => return Ok(true),
                Err(StoreError::Conflict) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(EngineError::Store(StoreError::Busy))
    }

    /// The redacted body of a file's record; fails if the text is too large.
    async fn file_body(
        &self,
        caller: &Caller,
        content: &str,
        content_type: &str,
    ) -> Result<RecordBody, EngineError> {
        let limit = self.parts.policy.file_bytes_max;
        if content.len() > limit {
            return Err(EngineError::FileTooLarge {
                limit: limit as u64,
            });
        }
        let policy = self.policy_of(caller);
        let now = self.now_for(caller.tenant()).await?;
        let file = StoredFile {
            key: String::new(),
            content: content.to_owned(),
            content_type: content_type.to_owned(),
        };
        let body = file.to_map();
        let rules = self.redaction_rules(caller.tenant()).await?;
        let admission = rules.admission(&policy, now);
        sabotage!(
            "files-are-not-redacted",
            self.redact_body(caller.tenant(), &admission, body).await,
            {
                let policy = remem_core::Policy {
                    shapes: remem_core::ShapePolicy::Off,
                    ..policy.clone()
                };
                let redactor = remem_core::Redactor::empty();
                let admission = remem_core::Admission {
                    policy: &policy,
                    redactor: &redactor,
                    ..admission
                };
                Ok(admission.redact_record(body))
            }
        )
    }

    /// Fails if the tenant has too many files.
    async fn check_file_room(&self, caller: &Caller) -> Result<(), EngineError> {
        let limit = self.parts.policy.files_max;
        let limit_u32 = u32::try_from(limit).unwrap_or(u32::MAX);
        let files = self
            .parts
            .store
            .records(caller.tenant(), RecordKind::File, "", None, limit_u32)
            .await?
            .len();
        let too_many = Rejection::TooLarge {
            field: "files",
            unit: "items",
            limit: limit as u64,
            actual: limit as u64 + 1,
        };
        if files < limit {
            Ok(())
        } else {
            Err(too_many.into())
        }
    }

    /// Commits a new version of a file, under the condition that it is unchanged.
    async fn write_file(
        &self,
        caller: &Caller,
        path: &str,
        before: Option<&Record>,
        body: &RecordBody,
        idempotency: Option<Idempotency>,
    ) -> Result<Record, EngineError> {
        let now = self.now_for(caller.tenant()).await?;
        let (version, precondition) = match before {
            Some(record) => (record.version + 1, Precondition::Version(record.version)),
            None => (1, Precondition::Absent),
        };
        let event = FileRef {
            path: path.to_owned(),
            version,
        };
        let batch = Batch::new(caller.tenant().clone(), now)
            .with_principal(caller.principal().clone())
            .idempotent(idempotency)
            .set_record(
                RecordKind::File,
                path.to_owned(),
                precondition,
                body.clone(),
            );
        let batch = self
            .add_version(batch, path, version, body.clone())
            .emit(EventBody::WorkspaceUpdated(event));
        let committed = self.parts.store.commit(batch).await?;
        let version = committed
            .outcomes
            .iter()
            .find_map(recorded_version)
            .unwrap_or(version);
        Ok(Record {
            kind: RecordKind::File,
            key: path.to_owned(),
            version,
            at: committed.at,
            body: body.map().clone(),
            links: RecordLinks::default(),
        })
    }

    /// Adds a version of a file to a batch, and the deletion of the version that is too old now.
    pub(crate) fn add_version(
        &self,
        batch: Batch,
        path: &str,
        version: u64,
        body: RecordBody,
    ) -> Batch {
        let batch = batch.set_record(
            RecordKind::FileVersion,
            version_key(path, version),
            Precondition::None,
            body,
        );
        match self.oldest_kept_version(version) {
            1 => batch,
            oldest => batch.delete_record(
                RecordKind::FileVersion,
                version_key(path, oldest - 1),
                Precondition::None,
            ),
        }
    }

    /// The oldest version that is kept when this one is the newest.
    fn oldest_kept_version(&self, version: u64) -> u64 {
        version.saturating_sub(self.parts.policy.file_versions_max as u64) + 1
    }

    /// A file as a list shows it: its media type is redacted again; its text only enters the ETag.
    fn file_info(&self, caller: &Caller, rules: &RedactionRules, record: &Record) -> FileInfo {
        let stored = StoredFile::read(record).unwrap_or_default();
        let content_type = rules.redactor().clean(&stored.content_type, caller.shapes);
        FileInfo {
            path: record.key.clone(),
            content_type: content_type.text.into_string(),
            version: record.version,
            etag: self.etags().etag(record.version, &stored.content),
            updated_at: record.at,
        }
    }

    /// A file redacted by the rules of today. Its ETag is that of the stored text: a secret that is
    /// registered later changes what is shown of a version, not which version it is.
    async fn redacted_file(
        &self,
        caller: &Caller,
        rules: &RedactionRules,
        record: Record,
    ) -> Result<FileView, EngineError> {
        let policy = self.policy_of(caller);
        let admission = rules.admission(&policy, record.at);
        let stored = StoredFile::read(&record).unwrap_or_default();
        let version_in_key = record.key.rsplit_once('@');
        let (path, version) = match version_in_key {
            Some((path, version)) if record.kind == RecordKind::FileVersion => {
                (path.to_owned(), version.parse().unwrap_or(record.version))
            }
            _ => (record.key.clone(), record.version),
        };
        let etag = self.etags().etag(version, &stored.content);
        let redacted = self
            .redact_body(caller.tenant(), &admission, record.body)
            .await?;
        let shown = StoredFile::from_map(redacted.map()).unwrap_or_default();
        Ok(FileView {
            path,
            content: shown.content,
            content_type: shown.content_type,
            version,
            etag,
            updated_at: record.at,
        })
    }

    /// The key for ETags of this host.
    fn etags(&self) -> Etags {
        Etags(self.parts.host_key.derive("remembrancer etag v1"))
    }
}

/// Makes ETags of file versions: keyed hashes of the stored text, so that nothing can be guessed
/// from an ETag.
struct Etags([u8; 32]);

impl Etags {
    fn etag(&self, version: u64, content: &str) -> String {
        let digest = blake3::keyed_hash(&self.0, content.as_bytes()).to_hex();
        format!("\"{version}-{}\"", &digest[..16])
    }
}

/// Digest of a write request, for its idempotency key.
fn file_digest(path: &str, texts: &[&str], conditions: WriteConditions<'_>) -> RequestDigest {
    let mut digest = RequestDigest::default();
    digest.part(path.as_bytes());
    digest.part(conditions.if_match.unwrap_or_default().as_bytes());
    texts.iter().for_each(|text| digest.part(text.as_bytes()));
    digest
}

/// The version of the record that a commit wrote.
fn recorded_version(outcome: &ChangeOutcome) -> Option<u64> {
    if let ChangeOutcome::Recorded { version, .. } = outcome {
        Some(*version)
    } else {
        None
    }
}

/// Fails for the files of the archives' index: everyone reads them, so no caller may write them.
fn check_not_host_file(path: &str, host_files: &[&str]) -> Result<(), Rejection> {
    if sabotage!(
        "callers-write-the-index-of-archives",
        host_files.contains(&path),
        false
    ) {
        return Err(Rejection::Invalid {
            field: "path",
            rule: "must not be a file that the host writes itself",
        });
    }
    Ok(())
}

/// Whether a path is valid: letters, digits and `._/-`, starting with a letter or digit, and
/// without `..` or `//`.
pub(crate) fn is_path(path: &str) -> bool {
    sabotage!(
        "files-may-climb",
        path.len() <= PATH_CHARS_MAX
            && path.starts_with(|c: char| c.is_ascii_alphanumeric())
            && path
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
            && !path.contains(".."),
        path.len() <= PATH_CHARS_MAX
            && path.starts_with(|c: char| c.is_ascii_alphanumeric())
            && path
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b))
    ) && !path.contains("//")
}

/// The key of a file's version; sorts by number, since a path contains no `@`.
pub(crate) fn version_key(path: &str, version: u64) -> String {
    format!("{path}@{version:012}")
}

/// Fails unless an `If-Match` condition holds. Quotes and weakness of ETags are ignored. `*`
/// matches any version.
fn check_if_match(
    if_match: Option<&str>,
    file: Option<&Record>,
    etags: &Etags,
) -> Result<(), EngineError> {
    let Some(wanted) = if_match else {
        return Ok(());
    };
    let current = file.map_or(0, |record| record.version);
    let stored = file.and_then(StoredFile::read).unwrap_or_default();
    let current_etag = etags.etag(current, &stored.content);
    let bare = |tag: &str| {
        tag.trim()
            .trim_start_matches("W/")
            .trim_matches('"')
            .to_owned()
    };
    let is_match = wanted
        .split(',')
        .any(|tag| bare(tag) == "*" && current > 0 || bare(tag) == bare(&current_etag));
    if is_match {
        Ok(())
    } else {
        Err(EngineError::FileConflict {
            current_version: current,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_workspace_paths_are_rejected() {
        for good in ["a", "MEMORY-INDEX.json", "behavior/CRUD.md", "a/b/c.d_e-f"] {
            assert!(is_path(good), "{good}");
        }
        for bad in [
            "",
            "/a",
            ".a",
            "../a",
            "a/../b",
            "a//b",
            "a\\b",
            "a b",
            "ä",
            "a@1",
            "a\0",
            &"x".repeat(257),
        ] {
            assert!(!is_path(bad), "{bad}");
        }
    }
}
