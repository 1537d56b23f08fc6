//! Wire types of entries. `MemoryEntry` is closed by the protocol: nothing internal may be added to
//! it.

use crate::time::Instant;
use crate::workshop::{EntryFacets, SourceName, TierName, TypologyName};
use remem_core::profile::CLAIM_PREFIX;
use remem_core::sabotage;
use remem_core::{Draft, Entry, EntryId, Facets, InteractionId, Origin, Rejection, Tier, WorldId};
use serde::{Deserialize, Serialize};

/// A JSON object that the caller defines.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// An entry of a memory, as OpenWOP defines it.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryEntry {
    /// Unique id of the entry within its memory, assigned by the host.
    pub id: String,
    /// Text of the entry, with secrets redacted.
    pub content: String,
    /// Labels of the entry.
    pub tags: Vec<String>,
    /// Time the entry was written (RFC 3339).
    pub created_at: Instant,
    /// Time from which the entry is no longer returned (RFC 3339); absent if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
}

/// Builds the entry's wire form. No other code does.
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

/// An entry with the metadata and facets that `include` asked for.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryBeside {
    /// The entry without metadata and facets.
    pub entry: MemoryEntry,
    /// Metadata of the entry; absent if there is none or it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Facets of the entry; absent if they were not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<EntryFacets>,
}

/// Answer about one entry: the entry alone, or with the metadata and facets that `include` asked
/// for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum EntryAnswer {
    /// Entry without metadata and facets.
    Plain(MemoryEntry),
    /// Entry with metadata and facets.
    Beside(EntryBeside),
}

impl From<EntryAnswer> for EntryBeside {
    fn from(answer: EntryAnswer) -> EntryBeside {
        match answer {
            EntryAnswer::Plain(entry) => EntryBeside {
                entry,
                metadata: None,
                facets: None,
            },
            EntryAnswer::Beside(beside) => beside,
        }
    }
}

/// Answer to a delete whose text is retained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Deleted {
    /// True if the entry is gone from its memory but its text is retained, because an action is
    /// linked to it. Forgetting its subject erases the text.
    pub held: bool,
}

/// Maximum number of characters of a `sourceRef`, which is stored as a subject with the prefix
/// `source:`; a subject has at most 256 characters.
pub const SOURCE_REF_CHARS_MAX: usize = 249;
/// Prefix of the subject that stands for a `sourceRef`.
pub const SOURCE_SUBJECT: &str = "source:";

/// Request to store an entry.
#[derive(
    Clone, Default, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PutEntry {
    /// Text of the entry, at most 64 KiB by default after redaction.
    pub content: String,
    /// Labels to filter by: at most 64, of 256 characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Time from which the entry is no longer returned (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// JSON object stored with the entry: at most 16 KiB and 8 levels deep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Persons or things that the entry is about, so that it can be forgotten by them: at most 32,
    /// of 256 characters each. Only a keyed digest of each is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// Lifetime of the entry. If absent, `interaction` when an interaction is named, otherwise
    /// `persistent`, unless the memory's profile decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// Kind of the entry; `semantic` if absent, unless the memory's profile classifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typology: Option<TypologyName>,
    /// Name of the chat thread that the entry belongs to. Without a tier the entry ends with the
    /// thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// Name of the world that the entry is about; the entry may not restate a rule of this world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Slot, which names the question that the entry answers; a new answer takes the place of the
    /// earlier one. At most 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Time from which the statement is true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Instant>,
    /// Time from which the statement is no longer true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Instant>,
    /// Source of the entry, at most the one that the key may vouch for. If absent, `model`, or the
    /// key's own maximum if that is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
    /// Reference of the place that the text was read from, such as a URL; at most 249 characters.
    /// Forgetting the subject `source:<sourceRef>` erases the entry and everything made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<String>,
}

impl PutEntry {
    /// Takes the subjects out of the request, `sourceRef` among them, so that the caller can
    /// replace them by digests.
    pub fn take_subjects(&mut self) -> Result<Vec<String>, Rejection> {
        let mut subjects = std::mem::take(&mut self.subjects);
        if let Some(source_ref) = self.source_ref.take() {
            let limit = SOURCE_REF_CHARS_MAX as u64;
            let actual = source_ref.chars().count() as u64;
            if actual > limit {
                return Err(Rejection::TooLarge {
                    field: "sourceRef",
                    unit: "characters",
                    limit,
                    actual,
                });
            }
            if source_ref.trim().is_empty() {
                return Err(Rejection::Empty { field: "sourceRef" });
            }
            sabotage!(
                "the-place-of-a-text-is-no-subject-of-it",
                subjects.push(format!("{SOURCE_SUBJECT}{source_ref}"))
            );
        }
        Ok(subjects)
    }

    /// Converts the request to a draft without subjects, whose digests only an engine can make.
    pub fn into_draft(self) -> Result<Draft, Rejection> {
        let parse_interaction = |name: String| {
            InteractionId::parse(&name).ok_or(Rejection::MalformedName {
                field: "interaction",
            })
        };
        let interaction = self.interaction.map(parse_interaction).transpose()?;
        let tier = self
            .tier
            .map(Tier::from)
            .or(interaction.is_some().then_some(Tier::Interaction));
        Ok(Draft {
            content: self.content,
            tags: self.tags,
            metadata: self.metadata,
            expires_at: self.expires_at.map(|t| t.0),
            tier: tier.unwrap_or_default(),
            tier_is_default: tier.is_none(),
            typology: self.typology.map(Into::into).unwrap_or_default(),
            typology_is_default: self.typology.is_none(),
            trust_is_default: self.source.is_none(),
            facets: Facets {
                interaction,
                world: world(self.world)?,
                slot: slot(self.slot)?,
                valid_at: self.valid_from.map(|t| t.0),
                invalid_at: self.valid_to.map(|t| t.0),
                trust: self.source.map(Into::into).unwrap_or_default(),
                ..Facets::default()
            },
            ..Draft::default()
        })
    }
}

fn world(name: Option<String>) -> Result<WorldId, Rejection> {
    name.map_or(Ok(WorldId::none()), |name| {
        WorldId::parse(&name).ok_or(Rejection::MalformedName { field: "world" })
    })
}

/// Checks the name of a slot. Names with the prefixes of generated slots would be mistaken for
/// those.
fn slot(name: Option<String>) -> Result<Option<String>, Rejection> {
    let Some(name) = name else { return Ok(None) };
    if name.trim().is_empty() {
        return Err(Rejection::Empty { field: "slot" });
    }
    if name.chars().any(char::is_control)
        || name.starts_with(CLAIM_PREFIX)
        || name.starts_with("ses_")
    {
        let rule =
            "must be a name without control characters that does not begin with `=` or `ses_`";
        return Err(Rejection::Invalid {
            field: "slot",
            rule,
        });
    }
    Ok(Some(name))
}

/// An entry with its identity, as an import reads it and an export writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportEntry {
    /// Id of the entry. An entry whose id is or was in use is skipped.
    pub id: String,
    /// Text of the entry, at most 64 KiB by default after redaction.
    pub content: String,
    /// Labels of the entry: at most 64, of 256 characters each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Time the entry was first written (RFC 3339); now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Instant>,
    /// Time from which the entry is no longer returned (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// JSON object stored with the entry: at most 16 KiB and 8 levels deep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// Persons or things that the entry is about: at most 32, of 256 characters each. An export
    /// omits them, since the host stores only their digests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// Lifetime of the entry: only `persistent`, which is also the default. Entries of sessions and
    /// chat threads cannot be imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// Kind of the entry; `semantic` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typology: Option<TypologyName>,
    /// Name of the world that the entry is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Time from which the statement is true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Instant>,
    /// Time from which the statement is no longer true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Instant>,
    /// Source of the entry, at most the one that the key may vouch for. If absent, `model`, or the
    /// key's own maximum if that is lower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
}

impl ImportEntry {
    /// Converts the entry to a draft without subjects, if its id is well formed and its tier is
    /// persistent.
    pub fn into_draft(self) -> Result<Draft, Rejection> {
        let id = EntryId::parse(&self.id).ok_or(Rejection::MalformedName { field: "id" })?;
        if self.tier.is_some_and(|tier| tier != TierName::Persistent) {
            return Err(Rejection::Invalid {
                field: "tier",
                rule: "of an import must be persistent",
            });
        }
        Ok(Draft {
            content: self.content,
            tags: self.tags,
            metadata: self.metadata,
            expires_at: self.expires_at.map(|t| t.0),
            typology: self.typology.map(Into::into).unwrap_or_default(),
            trust_is_default: self.source.is_none(),
            facets: Facets {
                world: world(self.world)?,
                valid_at: self.valid_from.map(|t| t.0),
                invalid_at: self.valid_to.map(|t| t.0),
                trust: self.source.map(Into::into).unwrap_or_default(),
                ..Facets::default()
            },
            origin: Some(Origin {
                id,
                created_at: self.created_at.map(|t| t.0),
            }),
            ..Draft::default()
        })
    }
}
