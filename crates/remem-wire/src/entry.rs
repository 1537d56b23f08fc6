//! Entries on the wire. `MemoryEntry` is closed by the protocol: nothing internal may be added to
//! it.

use crate::time::Instant;
use crate::workshop::{EntryFacets, SourceName, TierName, TypologyName};
use remem_core::profile::CLAIM;
use remem_core::sabotage;
use remem_core::{Draft, Entry, EntryId, Facets, InteractionId, Origin, Rejection, Tier, WorldId};
use serde::{Deserialize, Serialize};

/// A JSON object of the caller's own.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// One memory, as OpenWOP defines it.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
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

/// An entry and what is kept beside it, as far as it was asked for.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EntryBeside {
    /// The entry.
    pub entry: MemoryEntry,
    /// Its metadata, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Metadata>,
    /// What it has beside its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<EntryFacets>,
}

/// Answer about one entry: the entry alone, or with what `include` asks for beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum EntryAnswer {
    /// The entry.
    Plain(MemoryEntry),
    /// The entry and what is beside it.
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

/// Answer about a delete, where there is more to say than that it is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Deleted {
    /// The entry is gone from its memory, and its text is kept: an action rests on it. Forgetting
    /// its subject erases it.
    pub held: bool,
}

/// The longest `sourceRef`: it is kept as the subject `source:` and itself, which has 256
/// characters at the most.
pub const SOURCE_REF_CHARS_MAX: usize = 249;
/// What the subject of a `sourceRef` begins with.
pub const SOURCE_SUBJECT: &str = "source:";

/// What a put takes.
#[derive(
    Clone, Default, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
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
    /// Whom or what it is about, so that it can be forgotten by that: at most 32, of 256 characters
    /// each. Only a keyed digest of each is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// How long it lasts; persistent, unless an interaction is named or the memory's profile knows
    /// better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// What kind of memory it is; semantic, unless the memory's profile classifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typology: Option<TypologyName>,
    /// The chat thread that it belongs to. Without a tier it ends with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// The world that it speaks of, whose rules it may not restate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// The question that it answers: another answer takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// A statement: true from this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Instant>,
    /// A statement: no longer true from this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Instant>,
    /// Who says so: no more than the key may vouch for; model if absent, or what the key may if that
    /// is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
    /// Where it was read, such as a URL, at most 249 characters: forgetting the subject `source:`
    /// and this takes it and all that was made from it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<String>,
}

impl PutEntry {
    /// Its subjects, the place where it was read among them; they leave their words with whoever
    /// can digest them.
    pub fn take_subjects(&mut self) -> Result<Vec<String>, Rejection> {
        let mut subjects = std::mem::take(&mut self.subjects);
        if let Some(place) = self.source_ref.take() {
            let limit = SOURCE_REF_CHARS_MAX as u64;
            let actual = place.chars().count() as u64;
            if actual > limit {
                return Err(Rejection::TooLarge {
                    field: "sourceRef",
                    unit: "characters",
                    limit,
                    actual,
                });
            }
            if place.trim().is_empty() {
                return Err(Rejection::Empty { field: "sourceRef" });
            }
            sabotage!(
                "the-place-of-a-text-is-no-subject-of-it",
                subjects.push(format!("{SOURCE_SUBJECT}{place}"))
            );
        }
        Ok(subjects)
    }

    /// The draft without its subjects, which only an engine can turn into what is kept of them.
    pub fn into_draft(self) -> Result<Draft, Rejection> {
        let named = |name: String| {
            InteractionId::parse(&name).ok_or(Rejection::MalformedName {
                field: "interaction",
            })
        };
        let interaction = self.interaction.map(named).transpose()?;
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
            untiered: tier.is_none(),
            typology: self.typology.map(Into::into).unwrap_or_default(),
            untyped: self.typology.is_none(),
            unsourced: self.source.is_none(),
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

/// Questions that begin like those that the host makes up would be taken for them.
fn slot(name: Option<String>) -> Result<Option<String>, Rejection> {
    let Some(name) = name else { return Ok(None) };
    if name.trim().is_empty() {
        return Err(Rejection::Empty { field: "slot" });
    }
    if name.chars().any(char::is_control) || name.starts_with(CLAIM) || name.starts_with("ses_") {
        let rule =
            "must be a name without control characters that does not begin with `=` or `ses_`";
        return Err(Rejection::Invalid {
            field: "slot",
            rule,
        });
    }
    Ok(Some(name))
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
    /// Whom or what it is about, as for a put. No export writes them: a host does not know the
    /// words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// Only `persistent`, which it is if absent: what hangs on a session or a chat thread ends with
    /// that, here or there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<TierName>,
    /// What kind of memory it is; semantic if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typology: Option<TypologyName>,
    /// The world that it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// A statement: true from this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Instant>,
    /// A statement: no longer true from this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Instant>,
    /// Who says so: no more than the key may vouch for; model if absent, or what the key may if that
    /// is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceName>,
}

impl ImportEntry {
    /// The draft without its subjects, if the id is well formed and it is for good.
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
            unsourced: self.source.is_none(),
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
