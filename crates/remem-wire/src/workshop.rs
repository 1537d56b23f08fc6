//! Workshop memory on the wire: what an entry has beside its text, answers to a question, sessions,
//! actions and their audit, retention, rules of worlds, profiles. Nothing here decides anything.

use crate::entry::MemoryEntry;
use crate::forget::Relative;
use crate::time::Instant;
use remem_core::profile::Guard;
use remem_core::{Entry, Profile, Tier, Trust, Typology};
use serde::{Deserialize, Serialize};

/// A closed list of names: unknown ones are refused with the list of those that are known.
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
            /// As it is written.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                $core::from(self).as_str()
            }
        }
    };
}

names!(
    /// How long it lasts.
    TierName of Tier {
        /// As long as its chat thread.
        Interaction,
        /// As long as its session.
        Session,
        /// For good.
        Persistent,
    }
);

names!(
    /// What kind of memory it is.
    TypologyName of Typology {
        /// What happened.
        Episodic,
        /// What is held to be true.
        Semantic,
        /// How something is done.
        Procedural,
    }
);

names!(
    /// Where it comes from.
    SourceName of Trust {
        /// A page, a document or somebody unknown.
        Untrusted,
        /// A model concluded it.
        Model,
        /// A tool of the house saw it.
        Tool,
        /// An accepted action was built on it.
        Action,
        /// The operator said so.
        Operator,
    }
);

/// What an entry has beside its text.
#[derive(
    Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct EntryFacets {
    /// How long it lasts.
    pub tier: TierName,
    /// What kind of memory it is.
    pub typology: TypologyName,
    /// The session that it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The chat thread that it ends with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interaction: Option<String>,
    /// The world that it speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// The question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// True from this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_from: Option<Instant>,
    /// No longer true from this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_to: Option<Instant>,
    /// Where it comes from.
    pub source: SourceName,
    /// How much the sources count together that say so.
    pub corroboration: u32,
    /// In how many threads it was said.
    pub threads: u32,
}

impl From<&Entry> for EntryFacets {
    fn from(entry: &Entry) -> EntryFacets {
        let facets = &entry.facets;
        let session = facets.session.as_ref().map(|id| id.as_str().to_owned());
        // A question of a session is kept under the session's name: a reader sees the question.
        let plain = |slot: &str| {
            let rest = session
                .as_deref()
                .and_then(|session| slot.strip_prefix(session))
                .and_then(|rest| rest.strip_prefix('|'));
            rest.unwrap_or(slot).to_owned()
        };
        EntryFacets {
            tier: entry.tier.into(),
            typology: entry.typology.into(),
            slot: facets.slot.as_deref().map(plain),
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

/// Query of a question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SlotQuery {
    /// The question as it was asked in this session, rather than for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// One answer to a question.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SlotAnswer {
    /// The entry.
    pub entry: MemoryEntry,
    /// What it has beside its text.
    pub facets: EntryFacets,
    /// `live`, or what has become of it.
    pub state: String,
    /// When it was taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Instant>,
    /// The entry that stands in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// Every answer to a question, oldest first.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SlotHistory {
    /// The answers.
    pub answers: Vec<SlotAnswer>,
}

/// A session of a memory.
#[derive(
    Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct SessionDoc {
    /// Its memory.
    pub memory_ref: String,
    /// Its name.
    pub session_id: String,
    /// `open`, `closing` or `closed`.
    pub state: String,
    /// When it began.
    pub opened_at: Instant,
    /// When something last happened in it, to the hour.
    pub activity_at: Instant,
    /// When it was over for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Instant>,
    /// What outlasts it.
    pub promoted: u64,
    /// Entries that ended with it.
    pub ended: u64,
    /// Entries that an action rests on, and that stay.
    pub kept: u64,
}

/// The sessions of a memory, the open one first, then the newest.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionDoc>,
}

/// How a chat thread ended.
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
    /// What goes on in the session.
    pub promoted: u64,
    /// Turns that ended.
    pub ended: u64,
    /// Turns that an action rests on, and that stay.
    pub kept: u64,
}

/// An action that rests on an entry.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkPut {
    /// What was done, such as `gate.accept`.
    pub action: String,
    /// Its name where it was done, such as the number of a change.
    pub reference: String,
}

impl std::fmt::Debug for LinkPut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkPut").finish_non_exhaustive()
    }
}

/// Answer to a link.
#[derive(
    Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, schemars::JsonSchema,
)]
pub struct Linked {
    /// Entries that were not linked before: the one that is named, and what it was made from.
    pub linked: u64,
    /// Token for reading it anywhere.
    pub revision: String,
}

/// An action that rests on an entry, as it was noted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LinkDoc {
    /// What was done.
    pub action: String,
    /// Its name where it was done.
    pub reference: String,
    /// When it was noted.
    pub at: Instant,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Everything that is known about an entry but its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryAudit {
    /// The entry.
    pub id: String,
    /// Its memory.
    pub memory_ref: String,
    /// `live`, or what has become of it.
    pub state: String,
    /// The entry that stands in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
    /// What it was made from.
    pub sources: Vec<Relative>,
    /// What was made from it.
    pub derivatives: Vec<Relative>,
    /// The actions that rest on it.
    pub links: Vec<LinkDoc>,
}

/// Query of the retention status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RetentionQuery {
    /// Only of this memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
}

/// How many entries of a kind are held by what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionRow {
    /// Their tier.
    pub tier: TierName,
    /// Their kind.
    pub typology: TypologyName,
    /// `active`, `referenced`, `tombstoned`, `orphaned` or `skeleton`.
    pub state: String,
    /// How many.
    pub entries: u64,
}

/// What holds the entries that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetentionStatus {
    /// A row for each tier, kind and state that there are entries of.
    pub counts: Vec<RetentionRow>,
}

/// The text of a rule.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulePut {
    /// What it says.
    pub body: String,
}

/// A rule with its name.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedRule {
    /// Its name in its world.
    pub id: String,
    /// What it says.
    pub body: String,
}

/// Several rules for one transaction: all are written or none is.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesPut {
    /// The rules.
    pub rules: Vec<NamedRule>,
}

/// Answer to the writing of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RulesWritten {
    /// How many.
    pub written: u64,
    /// Token for reading them anywhere.
    pub revision: String,
}

/// Query of the list of rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RulesQuery {
    /// As for a list of entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only rules whose name sorts after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A rule of a world.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleDoc {
    /// Its name.
    pub id: String,
    /// What it says.
    pub body: String,
    /// When it was last written.
    pub at: Instant,
}

/// The rules of a world by name.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleList {
    /// The rules.
    pub rules: Vec<RuleDoc>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_after: Option<String>,
}

/// A text to hold against the rules of a world.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleCheck {
    /// The text.
    pub text: String,
}

/// Whether a put of the text would be refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RuleChecked {
    /// The rule that it restates; null if it restates none.
    pub shadowed: Option<String>,
}

/// How the agents of some memories remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProfileDoc {
    /// Its name.
    pub name: String,
    /// The memories that have it: names, or beginnings of names followed by `*`. What says more
    /// counts first.
    pub patterns: Vec<String>,
    /// What is written without a kind is classified and gets a slot.
    pub classifies: bool,
    /// Personal data is masked, copies of other systems are refused.
    pub non_mirror: bool,
    /// The world of statements that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// `primary` or `backstop`.
    pub guard: String,
    /// How long a session may rest before it is over.
    pub session_idle_days: i64,
    /// How much evidence lets a claim outlast its session.
    pub promotion_units: u32,
    /// How long after it ceased to be true a statement keeps its text.
    pub strip_after_days: i64,
}

impl ProfileDoc {
    /// A profile and the memories that have it.
    #[must_use]
    pub fn new(profile: &Profile, patterns: Vec<String>) -> ProfileDoc {
        let days = |ms: i64| ms / remem_core::profile::DAY_MS;
        ProfileDoc {
            name: profile.name.clone(),
            patterns,
            classifies: profile.classifies,
            non_mirror: profile.non_mirror,
            world: (!profile.world.is_none()).then(|| profile.world.as_str().to_owned()),
            guard: Guard::as_str(profile.guard).to_owned(),
            session_idle_days: days(profile.session_idle_ms),
            promotion_units: profile.promotion_units,
            strip_after_days: days(profile.strip_after_ms),
        }
    }
}

/// All profiles of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProfileList {
    /// The two that are always there first.
    pub profiles: Vec<ProfileDoc>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_those_that_are_known() {
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
    fn names_are_those_of_the_core() {
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
