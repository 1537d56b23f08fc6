//! Entries on the wire. `MemoryEntry` is closed by the protocol: nothing internal may be added to it.

use crate::time::Instant;
use remem_core::{Draft, Entry, EntryId, Origin, Rejection};
use serde::{Deserialize, Serialize};

/// A JSON object of the caller's own.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// One memory, as OpenWOP defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryEntry {
    /// Unique in its memory, given by the host.
    pub id: String,
    /// The text, with secrets redacted.
    pub content: String,
    /// Labels.
    pub tags: Vec<String>,
    /// When it was written.
    pub created_at: Instant,
    /// From when it no longer surfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
}

/// The only projection of an entry to the wire.
impl From<&Entry> for MemoryEntry {
    fn from(entry: &Entry) -> MemoryEntry {
        MemoryEntry {
            id: entry.id.as_str().to_owned(),
            content: entry.content.clone(),
            tags: entry.tags.clone(),
            created_at: Instant(entry.created_at),
            expires_at: entry.expires_at.map(Instant),
        }
    }
}

/// What a put takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutEntry {
    /// The text to remember.
    pub content: String,
    /// Labels to filter by later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// From when it must not surface any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// A JSON object kept beside the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Whom or what it is about, so that it can be forgotten by that: at most 32, of 256 characters each. Only a keyed
    /// digest of each is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
}

/// Without its subjects, which only an engine can turn into what is kept of them.
impl From<PutEntry> for Draft {
    fn from(put: PutEntry) -> Draft {
        Draft { content: put.content, tags: put.tags, metadata: put.metadata, expires_at: put.expires_at.map(|t| t.0), ..Draft::default() }
    }
}

/// What an import takes, and what an export writes: an entry with its identity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportEntry {
    /// The id it had; one that is or was ever taken is skipped.
    pub id: String,
    /// The text.
    pub content: String,
    /// Labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// When it was first written; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Instant>,
    /// From when it must not surface any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// A JSON object kept beside the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Whom or what it is about, as for a put. No export writes them: a host does not know the words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
}

impl ImportEntry {
    /// The draft without its subjects, if the id is well formed.
    pub fn into_draft(self) -> Result<Draft, Rejection> {
        let id = EntryId::parse(&self.id).ok_or(Rejection::MalformedName { field: "id" })?;
        Ok(Draft {
            content: self.content,
            tags: self.tags,
            metadata: self.metadata,
            expires_at: self.expires_at.map(|t| t.0),
            origin: Some(Origin { id, created_at: self.created_at.map(|t| t.0) }),
            ..Draft::default()
        })
    }
}
