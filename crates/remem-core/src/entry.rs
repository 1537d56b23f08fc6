//! The entry: one stored text with its attributes, before (`Draft`) and after (`Entry`) it was
//! admitted and stored.

use crate::ids::{EntryId, InteractionId, MemoryRef, Revision, SessionId, Timestamp, WorldId};
use crate::subject::Subject;
use crate::trust::{Evidence, Trust};
use std::{fmt, str::FromStr};

/// The lifetime of an entry: as long as a chat thread, as long as a session, or for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Tier {
    /// Ends with its interaction (a chat thread).
    Interaction,
    /// Ends with its session.
    Session,
    /// Kept until it is deleted, expires or is forgotten.
    #[default]
    Persistent,
}

/// The kind of an entry. The default of a plain put is semantic: a statement held to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Typology {
    /// An event or conversation that happened.
    Episodic,
    /// A statement that is held to be true.
    #[default]
    Semantic,
    /// An instruction for how something is done.
    Procedural,
}

impl Tier {
    /// All tiers, shortest-lived first.
    pub const ALL: [Tier; 3] = [Tier::Interaction, Tier::Session, Tier::Persistent];

    /// The stable name, as stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Interaction => "interaction",
            Tier::Session => "session",
            Tier::Persistent => "persistent",
        }
    }

    /// Returns true if this host allows entries of this tier and typology.
    ///
    /// Episodes last as long as their thread or session only: what should outlast them becomes a
    /// fact or a procedure.
    #[must_use]
    pub fn allows(self, typology: Typology) -> bool {
        match self {
            Tier::Interaction => typology == Typology::Episodic,
            Tier::Session => true,
            Tier::Persistent => typology != Typology::Episodic,
        }
    }
}

impl Typology {
    /// All typologies, in the order of their declaration.
    pub const ALL: [Typology; 3] = [Typology::Episodic, Typology::Semantic, Typology::Procedural];

    /// The stable name, as stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Typology::Episodic => "episodic",
            Typology::Semantic => "semantic",
            Typology::Procedural => "procedural",
        }
    }
}

/// A stored name that this version does not know.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownName;

impl FromStr for Tier {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Tier, UnknownName> {
        Tier::ALL
            .into_iter()
            .find(|t| t.as_str() == text)
            .ok_or(UnknownName)
    }
}

impl FromStr for Typology {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Typology, UnknownName> {
        Typology::ALL
            .into_iter()
            .find(|t| t.as_str() == text)
            .ok_or(UnknownName)
    }
}

/// The attributes of an entry beside its text: session, world, slot, validity window, trust and
/// evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facets {
    /// The session that it ends with; every entry below the persistent tier has one.
    pub session: Option<SessionId>,
    /// The chat thread that it ends with; entries of the interaction tier have one, and no other.
    pub interaction: Option<InteractionId>,
    /// The world whose rules it must not restate. Every semantic entry has one; it may be the world
    /// without rules.
    pub world: WorldId,
    /// The question that it answers, so that another answer to it takes its place.
    pub slot: Option<String>,
    /// Semantic entries: true from this instant; `None` means from its creation.
    pub valid_at: Option<Timestamp>,
    /// Semantic entries: no longer true from this instant.
    pub invalid_at: Option<Timestamp>,
    /// The trust of its source.
    pub trust: Trust,
    /// The independent sources that say the same.
    pub evidence: Evidence,
}

impl Default for Facets {
    fn default() -> Facets {
        Facets {
            session: None,
            interaction: None,
            world: WorldId::none(),
            slot: None,
            valid_at: None,
            invalid_at: None,
            trust: Trust::default(),
            evidence: Evidence::default(),
        }
    }
}

impl Facets {
    /// Returns true if the statement is true at that instant.
    #[must_use]
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.valid_at.is_none_or(|from| from <= at) && self.invalid_at.is_none_or(|to| at < to)
    }
}

/// A text that a caller wants to store. Nothing of it has been checked; only [`crate::Admission`]
/// can turn it into something that can be stored.
#[derive(Clone, PartialEq, Default)]
pub struct Draft {
    pub content: String,
    /// Labels that searches can filter by.
    pub tags: Vec<String>,
    /// A JSON object of the caller's own, stored beside the text.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// The instant from which no read returns the entry.
    pub expires_at: Option<Timestamp>,
    /// The lifetime; a plain put is persistent.
    pub tier: Tier,
    /// The kind; a plain put is semantic.
    pub typology: Typology,
    /// True if the caller gave no typology, so that the value above is only the default.
    pub typology_is_default: bool,
    /// True if the caller gave no tier, so that the value above is only the default.
    pub tier_is_default: bool,
    /// True if the caller gave no trust: then its key decides, and `model` is the most it can get.
    pub trust_is_default: bool,
    /// The persons and things that the text is about, so that it is found when one asks to be
    /// forgotten.
    pub subjects: Vec<Subject>,
    /// The attributes beside the text.
    pub facets: Facets,
    /// The identity on the host that the entry is imported from; `None` unless it is an import.
    pub origin: Option<Origin>,
}

/// The identity of an imported entry. It is preserved, so that an export and its import are the
/// same memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// The entry's id. An id that is in use in the memory, or ever was, is skipped and never
    /// overwritten.
    pub id: EntryId,
    /// The instant at which it was first written; `None` means now.
    pub created_at: Option<Timestamp>,
}

// Content never reaches a log through `{:?}`.
impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("content_bytes", &self.content.len())
            .field("tags", &self.tags.len())
            .finish_non_exhaustive()
    }
}

/// The revisions during which an entry is part of its memory: `[from, to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionRange {
    pub from: Revision,
    /// The commit that removed it, if any.
    pub to: Option<Revision>,
}

/// One stored text with its attributes.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// Its name inside the memory; an id is never reused.
    pub id: EntryId,
    pub memory_ref: MemoryRef,
    /// The text after redaction.
    pub content: String,
    /// Labels after redaction, in the order given.
    pub tags: Vec<String>,
    /// The caller's JSON object after redaction.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
    pub created_at: Timestamp,
    /// The instant from which no read returns it.
    pub expires_at: Option<Timestamp>,
    pub tier: Tier,
    pub typology: Typology,
    /// The attributes beside the text.
    pub facets: Facets,
    /// The revisions at which it is part of the memory.
    pub visible: RevisionRange,
    /// The fingerprint of the redaction rules that it was written under (see
    /// [`crate::Redactor::fingerprint`]).
    pub redaction_fingerprint: u64,
}

impl Entry {
    /// Returns true if a reader may see it now: it is part of the memory, and at the instant
    /// `as_of` neither expired nor untrue.
    #[must_use]
    pub fn is_live(&self, as_of: Timestamp) -> bool {
        self.visible.to.is_none()
            && self.expires_at.is_none_or(|end| as_of < end)
            && self.facets.holds_at(as_of)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("id", &self.id)
            .field("visible", &self.visible)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(expires_at: Option<i64>, to: Option<u64>) -> Entry {
        Entry {
            id: EntryId::parse("e").unwrap(),
            memory_ref: MemoryRef::parse("m").unwrap(),
            content: "secret text".into(),
            tags: vec![],
            metadata: None,
            created_at: Timestamp(0),
            expires_at: expires_at.map(Timestamp),
            tier: Tier::default(),
            typology: Typology::default(),
            facets: Facets::default(),
            visible: RevisionRange {
                from: Revision(1),
                to: to.map(Revision),
            },
            redaction_fingerprint: 0,
        }
    }

    #[test]
    fn an_entry_is_not_live_from_its_expiry_on() {
        assert!(entry(Some(100), None).is_live(Timestamp(99)));
        assert!(!entry(Some(100), None).is_live(Timestamp(100)));
        assert!(entry(None, None).is_live(Timestamp(i64::MAX)));
        assert!(!entry(None, Some(2)).is_live(Timestamp(0)));
    }

    #[test]
    fn an_entry_is_live_only_within_its_validity_window() {
        let window = |valid_at: Option<i64>, invalid_at: Option<i64>| {
            let facets = Facets {
                valid_at: valid_at.map(Timestamp),
                invalid_at: invalid_at.map(Timestamp),
                ..Facets::default()
            };
            Entry {
                facets,
                ..entry(None, None)
            }
        };
        assert!(!window(Some(10), None).is_live(Timestamp(9)));
        assert!(window(Some(10), Some(20)).is_live(Timestamp(10)));
        assert!(window(Some(10), Some(20)).is_live(Timestamp(19)));
        assert!(!window(Some(10), Some(20)).is_live(Timestamp(20)));
        assert!(
            !window(Some(10), Some(10)).is_live(Timestamp(10)),
            "an empty window holds never"
        );
    }

    #[test]
    fn six_tier_and_typology_pairs_are_allowed() {
        let produced: Vec<_> = Tier::ALL
            .iter()
            .flat_map(|t| {
                Typology::ALL
                    .iter()
                    .filter(|y| t.allows(**y))
                    .map(move |y| (t.as_str(), y.as_str()))
            })
            .collect();
        assert_eq!(
            produced,
            [
                ("interaction", "episodic"),
                ("session", "episodic"),
                ("session", "semantic"),
                ("session", "procedural"),
                ("persistent", "semantic"),
                ("persistent", "procedural")
            ]
        );
    }

    #[test]
    fn tier_and_typology_names_round_trip() {
        for t in Tier::ALL {
            assert_eq!(t.as_str().parse(), Ok(t));
        }
        for t in Typology::ALL {
            assert_eq!(t.as_str().parse(), Ok(t));
        }
        assert_eq!("forever".parse::<Tier>(), Err(UnknownName));
    }

    #[test]
    fn debug_output_omits_the_content() {
        assert!(!format!("{:?}", entry(None, None)).contains("secret text"));
        let draft = Draft {
            content: "secret text".into(),
            ..Draft::default()
        };
        assert!(!format!("{draft:?}").contains("secret text"));
    }
}
