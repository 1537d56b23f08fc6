//! Wire types of workshop memory: facets, slots, sessions, links to actions and audits, retention,
//! rules of worlds, profiles. Nothing here decides anything.

use crate::entry::MemoryEntry;
use crate::forget::Relative;
use crate::time::Instant;
use remem_core::profile::GuardMode;
use remem_core::{Entry, Profile, Tier, Trust, Typology};
use serde::{Deserialize, Serialize};

/// Defines a closed list of names. An unknown name is refused with the list of the known ones.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident of $core:ident { $($(#[$one:meta])* $variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$one])* $variant),* }

        impl From<$core> for $name {
            fn from(value: $core) -> $name {
                match value { $($core::$variant => $name::$variant),* }
            }
        }

        impl From<$name> for $core {
            fn from(value: $name) -> $core {
                match value { $($name::$variant => $core::$variant),* }
            }
        }

        impl $name {
            /// Returns the name as requests and answers spell it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                $core::from(self).as_str()
            }
        }
    };
}

names!(
    /// Tier of an entry, which decides its lifetime.
    TierName of Tier {
        /// Lifetime of the entry's chat thread.
        Interaction,
        /// Lifetime of the entry's session.
        Session,
        /// Unlimited lifetime, unless the entry expires.
        Persistent,
    }
);

names!(
    /// Kind of an entry.
    TypologyName of Typology {
        /// Something that happened, such as a turn of a conversation.
        Episodic,
        /// Fact that is held to be true.
        Semantic,
        /// Procedure or habit: how something is done.
        Procedural,
    }
);

names!(
    /// Source of an entry, in ascending order of trust.
    SourceName of Trust {
        /// Web page, document or unknown person, which no one vouches for.
        Untrusted,
        /// Conclusion of a model.
        Model,
        /// Observation of a trusted tool.
        Tool,
        /// Accepted action that was built on the entry.
        Action,
        /// Statement of the operator.
        Operator,
    }
);

/// Facets of an entry: its classification beside text and metadata.
#[derive(
    Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct EntryFacets {
    /// Tier of the entry, which decides its lifetime.
    pub tier: TierName,
    /// Kind of the entry.
    pub typology: TypologyName,
    /// Id of the session that the entry ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Name of the chat thread that the entry ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// Name of the world that the entry is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Slot, which names the question that the entry answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Time from which the statement is true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Instant>,
    /// Time from which the statement is no longer true (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Instant>,
    /// Source of the entry.
    pub source: SourceName,
    /// Weight of the sources that state the same: 4 units for the operator, 3 for an action, 2 for
    /// a tool, 1 for a model; untrusted sources count at most 2 in total.
    pub corroboration: u32,
    /// Number of chat threads in which the same was stated.
    pub threads: u32,
}

impl From<&Entry> for EntryFacets {
    fn from(entry: &Entry) -> EntryFacets {
        let facets = &entry.facets;
        let session = facets.session.as_ref().map(|id| id.as_str().to_owned());
        // A slot of a session is stored with the session's id as its prefix, which readers do not
        // see.
        let without_session = |slot: &str| {
            let name = session
                .as_deref()
                .and_then(|session| slot.strip_prefix(session))
                .and_then(|rest| rest.strip_prefix('|'));
            name.unwrap_or(slot).to_owned()
        };
        EntryFacets {
            tier: entry.tier.into(),
            typology: entry.typology.into(),
            slot: facets.slot.as_deref().map(without_session),
            interaction: facets.interaction.as_ref().map(|id| id.as_str().to_owned()),
            world: (!facets.world.is_none()).then(|| facets.world.as_str().to_owned()),
            valid_from: facets.valid_at.map(Instant),
            valid_to: facets.invalid_at.map(Instant),
            source: facets.trust.into(),
            corroboration: facets.evidence.units(),
            threads: u32::try_from(facets.evidence.threads()).unwrap_or(u32::MAX),
            session,
        }
    }
}

/// Query parameters of a slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SlotQuery {
    /// Session of the slot; the persistent slot of this name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// An answer to the question of a slot.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SlotAnswer {
    /// Entry that holds the answer.
    pub entry: MemoryEntry,
    /// Facets of the entry.
    pub facets: EntryFacets,
    /// State of the entry: `live`, or the reason that it is not.
    pub state: String,
    /// Time the entry was removed (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// Id of the entry that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// Current and earlier answers to the question of a slot.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SlotHistory {
    /// Answers of the slot, oldest first.
    pub answers: Vec<SlotAnswer>,
}

/// A session of a memory.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SessionDoc {
    /// Name of the session's memory.
    pub memory_ref: String,
    /// Unique id of the session.
    pub session_id: String,
    /// State of the session: `open`, `closing` or `closed`.
    pub state: String,
    /// Time the session was opened (RFC 3339).
    pub opened_at: Instant,
    /// Time of the latest activity in the session, to the hour (RFC 3339).
    pub activity_at: Instant,
    /// Time the session was closed (RFC 3339); absent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Instant>,
    /// Number of patterns and claims that were promoted to persistent entries.
    pub promoted: u64,
    /// Number of entries that ended with the session.
    pub ended: u64,
    /// Number of entries that stay, because an action is linked to them.
    pub kept: u64,
}

/// The sessions of a memory.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SessionList {
    /// Sessions, the open one first, then the newest.
    pub sessions: Vec<SessionDoc>,
}

/// Result of closing a chat thread.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    schemars::JsonSchema,
)]
pub struct InteractionClosed {
    /// Number of patterns that were promoted to the session.
    pub promoted: u64,
    /// Number of turns that ended with the thread.
    pub ended: u64,
    /// Number of turns that stay, because an action is linked to them.
    pub kept: u64,
}

/// Request to link an action to an entry that it relies on.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkPut {
    /// Name of the action, such as `gate.accept`; at most 200 characters.
    pub action: String,
    /// Reference of the action in its own system, such as the number of a change; at most 200
    /// characters.
    pub reference: String,
}

impl std::fmt::Debug for LinkPut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkPut").finish_non_exhaustive()
    }
}

/// Answer to the linking of an action.
#[derive(
    Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct Linked {
    /// Number of entries that were newly linked: the one that was named and its sources.
    pub linked: u64,
    /// Revision token of the write, to be passed as `atLeast` to reads on any node.
    pub revision: String,
}

/// A recorded link from an action to an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LinkDoc {
    /// Name of the action; empty once the entry was forgotten.
    pub action: String,
    /// Reference of the action in its own system; empty once the entry was forgotten.
    pub reference: String,
    /// Time the link was recorded (RFC 3339).
    pub at: Instant,
    /// Principal that recorded the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Audit of an entry: everything that is recorded about it except its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryAudit {
    /// Id of the entry.
    pub id: String,
    /// Name of the entry's memory.
    pub memory_ref: String,
    /// State of the entry: `live`, or the reason that it is not.
    pub state: String,
    /// Id of the entry that replaced this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// Entries that this one was made from.
    pub sources: Vec<Relative>,
    /// Entries that were made from this one.
    pub derivatives: Vec<Relative>,
    /// Actions that are linked to the entry.
    pub links: Vec<LinkDoc>,
}

/// Query parameters of the retention status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RetentionQuery {
    /// Only entries of this memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
}

/// Number of entries by tier, kind and retention state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionRow {
    /// Tier of the entries.
    pub tier: TierName,
    /// Kind of the entries.
    pub typology: TypologyName,
    /// Retention state: `active` (live), `referenced` (an action is linked), `tombstoned` (removed,
    /// text retained), `orphaned` (session missing) or `skeleton` (text erased).
    pub state: String,
    /// Number of entries counted.
    pub entries: u64,
}

/// Retention status of the stored entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionStatus {
    /// Counts for each tier, kind and state that has entries.
    pub counts: Vec<RetentionRow>,
}

/// Request to write a rule of a world.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulePut {
    /// Text of the rule, at most 64 KiB by default.
    pub body: String,
}

/// A rule with its name.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedRule {
    /// Name of the rule, unique within its world.
    pub id: String,
    /// Text of the rule, at most 64 KiB by default.
    pub body: String,
}

/// Request to write several rules in one transaction: all are written, or none.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesPut {
    /// Rules to write, at most 1,000 by default.
    pub rules: Vec<NamedRule>,
}

/// Answer to the writing of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RulesWritten {
    /// Number of rules written.
    pub written: u64,
    /// Revision token of the write, to be passed as `atLeast` to reads on any node.
    pub revision: String,
}

/// Query parameters of the list of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RulesQuery {
    /// Number of rules per page: 100 if absent, the host's maximum (1,000 by default) if 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only rules whose name sorts after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A rule of a world.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleDoc {
    /// Name of the rule, unique within its world.
    pub id: String,
    /// Text of the rule.
    pub body: String,
    /// Time the rule was last written (RFC 3339).
    pub at: Instant,
}

/// A page of the rules of a world, by name.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleList {
    /// Rules on this page, ordered by name.
    pub rules: Vec<RuleDoc>,
    /// Value of `after` for the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// Request to check a text against the rules of a world.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleCheck {
    /// Text to be checked.
    pub text: String,
}

/// Result of a check against the rules of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleChecked {
    /// Name of the rule that the text restates, so that a put of it is refused; null if there is
    /// none.
    pub shadowed: Option<String>,
}

/// A profile: the settings of a group of memories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileDoc {
    /// Name of the profile.
    pub name: String,
    /// Memories that have the profile: names, or prefixes of names followed by `*`. The most
    /// specific pattern wins.
    pub patterns: Vec<String>,
    /// True if entries without a kind are classified and given a slot.
    pub classifies: bool,
    /// True if personal data is masked and copies of other systems are refused.
    pub non_mirror: bool,
    /// World of semantic entries that name none; absent if there is no default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Strictness of the rule guard: `primary` (each semantic entry must name its world) or
    /// `backstop`.
    pub guard: String,
    /// Number of idle days after which a session is closed.
    pub session_idle_days: i64,
    /// Weight of evidence, in units, from which a claim of a session becomes persistent.
    pub promotion_units: u32,
    /// Number of days after which a statement that is no longer true loses its text.
    pub strip_after_days: i64,
}

impl ProfileDoc {
    /// Describes a profile and the memories that have it.
    #[must_use]
    pub fn new(profile: &Profile, patterns: Vec<String>) -> ProfileDoc {
        let days = |ms: i64| ms / remem_core::profile::DAY_MS;
        ProfileDoc {
            name: profile.name.clone(),
            patterns,
            classifies: profile.classifies,
            non_mirror: profile.non_mirror,
            world: (!profile.world.is_none()).then(|| profile.world.as_str().to_owned()),
            guard: GuardMode::as_str(profile.guard).to_owned(),
            session_idle_days: days(profile.session_idle_ms),
            promotion_units: profile.promotion_units,
            strip_after_days: days(profile.history_retention_ms),
        }
    }
}

/// All profiles of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProfileList {
    /// Profiles, the two built-in ones first.
    pub profiles: Vec<ProfileDoc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_rejected_and_the_known_ones_listed() {
        let hint = |text: &str| {
            crate::error::json_hint(&serde_json::from_str::<crate::PutEntry>(text).unwrap_err())
        };
        for (field, known) in [
            ("tier", "`interaction`, `session`, `persistent`"),
            ("typology", "`episodic`, `semantic`, `procedural`"),
            (
                "source",
                "`untrusted`, `model`, `tool`, `action`, `operator`",
            ),
        ] {
            for canary in [
                "canary",
                "expected one of canary",
                "a`, expected one of canary",
            ] {
                let hint = hint(&format!(r#"{{"content": "x", "{field}": "{canary}"}}"#));
                assert!(
                    hint.contains(known) && !hint.contains("canary"),
                    "{field}: {hint}"
                );
            }
        }
    }

    #[test]
    fn wire_names_match_the_core_names() {
        for tier in Tier::ALL {
            assert_eq!(
                serde_json::to_value(TierName::from(tier)).unwrap(),
                tier.as_str()
            );
        }
        for typology in Typology::ALL {
            assert_eq!(
                serde_json::to_value(TypologyName::from(typology)).unwrap(),
                typology.as_str()
            );
        }
        for trust in Trust::ALL {
            assert_eq!(
                serde_json::to_value(SourceName::from(trust)).unwrap(),
                trust.as_str()
            );
        }
    }
}
