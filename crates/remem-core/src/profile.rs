//! The profile of a memory: how its agent's texts are classified and masked, which world they
//! belong to, and how long a session may idle. A declared value that is checked at start. Values
//! that belong to the contract (the rule guard's threshold and floor, the allowed tiers and
//! typologies, the anchors) are not here, because no profile may change them.

use crate::admission::UNTRUSTED_TAG;
use crate::entry::{Draft, Tier, Typology};
use crate::ids::{MemoryRef, Timestamp, WorldId};
use crate::promote::UNITS_MIN;
use crate::rejection::Rejection;
use crate::sabotage;
use crate::slots;
use crate::trust::{Evidence, Trust};
use crate::typology::classify;

/// A day in milliseconds.
pub const DAY_MS: i64 = 86_400_000;

/// The role of the rule guard in a memory. The guard itself is the same in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardMode {
    /// The agent reasons about the rules themselves: each statement has to name its world.
    Primary,
    /// The agent works with the rules and states how the work goes: the guard catches statements
    /// that should not have been made.
    Backstop,
}

impl GuardMode {
    /// The stable name, as in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GuardMode::Primary => "primary",
            GuardMode::Backstop => "backstop",
        }
    }
}

/// The settings of a memory that decide how drafts are completed and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    /// True if a draft without a typology is classified, and one that states or orders something
    /// gets a slot, so that another answer replaces it. Otherwise such a draft is semantic, and has
    /// the slot that the caller gives.
    pub classifies: bool,
    /// True if personal data is masked, and copies of data from other systems are refused.
    pub non_mirror: bool,
    /// The world of statements that name none.
    pub world: WorldId,
    /// The role of the rule guard.
    pub guard: GuardMode,
    /// How long a session may be idle before it is closed.
    pub session_idle_ms: i64,
    /// The evidence that a claim needs to outlast its session; see `promote`.
    pub promotion_units: u32,
    /// How long a statement keeps its text after it ceased to be true.
    pub history_retention_ms: i64,
}

impl Profile {
    /// The profile of a plain agent: entries are what the caller says they are.
    #[must_use]
    pub fn general() -> Profile {
        Profile {
            name: "general".to_owned(),
            classifies: false,
            non_mirror: false,
            world: WorldId::none(),
            guard: GuardMode::Backstop,
            session_idle_ms: 30 * DAY_MS,
            promotion_units: UNITS_MIN,
            history_retention_ms: 730 * DAY_MS,
        }
    }

    /// The profile of an operator's collaborator: the memory is a workshop and no copy of data that
    /// is kept elsewhere.
    #[must_use]
    pub fn workshop() -> Profile {
        Profile {
            name: "workshop".to_owned(),
            classifies: true,
            non_mirror: true,
            ..Profile::general()
        }
    }

    /// Refuses invalid values. The error names the field and the rule.
    pub fn check(&self) -> Result<(), Rejection> {
        let invalid = |field, rule| Err(Rejection::Invalid { field, rule });
        if WorldId::parse(&self.name).is_none() {
            return invalid("profile", "must have a name of letters, digits and `_.:-`");
        }
        if !(DAY_MS..=365 * DAY_MS).contains(&self.session_idle_ms) {
            return invalid("session_idle_days", "must be between 1 and 365");
        }
        if sabotage!(
            "promotion-can-be-made-easier",
            self.promotion_units < UNITS_MIN || self.promotion_units > 32,
            self.promotion_units > 32
        ) {
            return invalid(
                "promotion_units",
                "must be between 4 and 32: promotion can be made harder, not easier",
            );
        }
        if !(30 * DAY_MS..=36_500 * DAY_MS).contains(&self.history_retention_ms) {
            return invalid("strip_after_days", "must be between 30 and 36500");
        }
        if self.guard == GuardMode::Primary && !self.world.is_none() {
            return invalid(
                "world",
                "must not be given where the guard is primary: each statement says its own",
            );
        }
        Ok(())
    }

    /// Completes a draft as this profile prescribes: its typology, world, slot, validity window and
    /// evidence. `who` is the source of the text.
    pub fn complete_draft(
        &self,
        mut draft: Draft,
        who: &str,
        now: Timestamp,
    ) -> Result<Draft, Rejection> {
        // The tag alone marks a text as untrusted, too, and the comparisons below depend on the
        // trust.
        if draft.tags.iter().any(|tag| tag == UNTRUSTED_TAG) {
            sabotage!(
                "a-tagged-text-takes-an-answer-s-place",
                draft.facets.trust = Trust::Untrusted
            );
        }
        if draft.typology_is_default && self.classifies {
            draft.typology = classify(&draft.content);
            // An order from an untrusted source is stored as something that was read, not as a
            // procedure.
            if draft.typology == Typology::Procedural && draft.facets.trust == Trust::Untrusted {
                sabotage!(
                    "untrusted-text-becomes-a-procedure",
                    draft.typology = Typology::Semantic
                );
            }
            // A transcript lasts as long as its session. If the caller asks for it to persist, it
            // is stored as a statement.
            match (draft.typology, draft.tier) {
                (Typology::Episodic, Tier::Persistent) if draft.tier_is_default => {
                    draft.tier = Tier::Session
                }
                (Typology::Episodic, Tier::Persistent) => draft.typology = Typology::Semantic,
                (_, Tier::Interaction) => draft.typology = Typology::Episodic,
                _ => {}
            }
        } else if draft.typology_is_default && draft.tier == Tier::Interaction {
            draft.typology = Typology::Episodic;
        }
        if draft.typology == Typology::Semantic && draft.facets.world.is_none() {
            if self.guard == GuardMode::Primary {
                return Err(Rejection::Invalid {
                    field: "world",
                    rule: "is required: statements of this memory belong to a world",
                });
            }
            draft.facets.world = self.world.clone();
        }
        if draft.facets.slot.is_none() && self.classifies && draft.facets.trust != Trust::Untrusted
        {
            draft.facets.slot = slot_of(draft.typology, &draft.content);
        }
        let is_slotted = draft
            .facets
            .slot
            .as_deref()
            .is_some_and(|slot| !slot.starts_with(CLAIM_PREFIX));
        if draft.typology == Typology::Semantic && is_slotted {
            draft.facets.valid_at = draft.facets.valid_at.or(Some(now));
        }
        if draft.facets.evidence.is_empty() {
            let thread = draft
                .facets
                .interaction
                .as_ref()
                .map(|id| id.as_str())
                .or(draft.facets.session.as_ref().map(|id| id.as_str()));
            draft.facets.evidence = Evidence::of(draft.facets.trust, thread.unwrap_or(""), who);
        }
        Ok(draft)
    }
}

/// The first character of a slot that represents the text itself. Repeating such a text adds
/// nothing new.
pub const CLAIM_PREFIX: char = '=';

/// The slot of a text: the question that it answers, or the text itself if it answers none.
fn slot_of(typology: Typology, text: &str) -> Option<String> {
    let found = match typology {
        Typology::Episodic => return None,
        Typology::Semantic => slots::semantic_slot(text).map(|(key, _)| key),
        Typology::Procedural => slots::procedural_slot(text),
    };
    Some(found.unwrap_or_else(|| claim_slot(text)))
}

/// The slot of a text that answers no question.
#[must_use]
pub fn claim_slot(text: &str) -> String {
    format!(
        "{CLAIM_PREFIX}{}",
        &blake3::hash(normal_form(text).as_bytes()).to_hex()[..32]
    )
}

/// The normal form of a text: lower-case words without punctuation. Two texts with the same normal
/// form say the same.
#[must_use]
pub fn normal_form(text: &str) -> String {
    let words = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The assignment of profiles to memories. The longer pattern wins. Without a pattern, a user's own
/// memory is a workshop and a memory of the tenant is general.
#[derive(Clone, Debug)]
pub struct Profiles {
    declared: Vec<(String, Profile)>,
    general: Profile,
    workshop: Profile,
}

impl Default for Profiles {
    fn default() -> Profiles {
        Profiles {
            declared: Vec::new(),
            general: Profile::general(),
            workshop: Profile::workshop(),
        }
    }
}

impl Profiles {
    /// Adds declared profiles. A pattern is a name, or the beginning of one followed by `*`; `~/…`
    /// matches the own memories of every user.
    pub fn with_patterns(declared: Vec<(String, Profile)>) -> Result<Profiles, Rejection> {
        let mut declared = declared;
        for (pattern, profile) in &declared {
            profile.check()?;
            let name = pattern.strip_suffix('*').unwrap_or(pattern);
            let whole = name
                .strip_prefix("~/")
                .map_or(name.to_owned(), |rest| format!("~x/{rest}"));
            if pattern.is_empty()
                || name.contains('*')
                || MemoryRef::parse(&format!("{whole}x")).is_none()
            {
                return Err(Rejection::Invalid {
                    field: "memories",
                    rule: "must be names, or prefixes of names followed by `*`",
                });
            }
        }
        declared.sort_by_key(|(pattern, _)| {
            (
                pattern.ends_with('*'),
                std::cmp::Reverse(pattern.len()),
                pattern.clone(),
            )
        });
        if declared.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Rejection::Invalid {
                field: "memories",
                rule: "must not assign one pattern to two profiles",
            });
        }
        Ok(Profiles {
            declared,
            ..Profiles::default()
        })
    }

    /// The profile that applies to a memory.
    #[must_use]
    pub fn for_memory(&self, memory_ref: &MemoryRef) -> &Profile {
        let name = memory_ref.as_str();
        let own = memory_ref
            .owner()
            .map(|owner| format!("~{}", &name[1 + owner.len()..]));
        let name = own.as_deref().unwrap_or(name);
        let fits = |pattern: &str| {
            pattern
                .strip_suffix('*')
                .map_or(pattern == name, |head| name.starts_with(head))
        };
        let standard = if own.is_some() {
            &self.workshop
        } else {
            &self.general
        };
        self.declared
            .iter()
            .find(|(pattern, _)| fits(pattern))
            .map_or(standard, |(_, profile)| profile)
    }

    /// All profiles with their patterns, the two built-in ones first.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &Profile)> {
        let standard = [(None, &self.general), (None, &self.workshop)];
        standard.into_iter().chain(
            self.declared
                .iter()
                .map(|(pattern, profile)| (Some(pattern.as_str()), profile)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::InteractionId;

    fn name(text: &str) -> MemoryRef {
        MemoryRef::parse(text).unwrap()
    }

    fn shaped(text: &str) -> Draft {
        let draft = Draft {
            content: text.into(),
            typology_is_default: true,
            tier_is_default: true,
            ..Draft::default()
        };
        Profile::workshop()
            .complete_draft(draft, "ada", Timestamp(5))
            .unwrap()
    }

    #[test]
    fn the_memory_ref_selects_the_profile() {
        let custom = Profile {
            name: "notes".into(),
            ..Profile::general()
        };
        let wide = Profile {
            name: "team".into(),
            ..Profile::workshop()
        };
        let profiles =
            Profiles::with_patterns(vec![("~/notes".into(), custom), ("team-*".into(), wide)])
                .unwrap();
        let of = |text: &str| profiles.for_memory(&name(text)).name.clone();
        assert_eq!(
            [
                of("m"),
                of("~ada/ops"),
                of("~ada/notes"),
                of("team-a"),
                of("team")
            ],
            ["general", "workshop", "notes", "team", "general"]
        );
    }

    #[test]
    fn invalid_profiles_and_patterns_are_rejected() {
        let with = |change: fn(&mut Profile)| {
            let mut profile = Profile {
                name: "p".into(),
                ..Profile::workshop()
            };
            change(&mut profile);
            Profiles::with_patterns(vec![("x".into(), profile)]).map(|_| ())
        };
        assert_eq!(with(|_| {}), Ok(()));
        assert!(
            with(|p| p.promotion_units = 3).is_err(),
            "promotion is never made easier"
        );
        assert!(with(|p| p.session_idle_ms = 0).is_err());
        assert!(with(|p| p.history_retention_ms = DAY_MS).is_err());
        assert!(with(|p| p.name = "a b".into()).is_err());
        assert!(
            with(|p| (p.guard, p.world) = (GuardMode::Primary, WorldId::parse("w").unwrap()))
                .is_err()
        );
        for pattern in ["", "a*b", "~", "a\\b"] {
            assert!(
                Profiles::with_patterns(vec![(pattern.into(), Profile::general())]).is_err(),
                "{pattern}"
            );
        }
        let twice = vec![
            ("x".to_owned(), Profile::general()),
            ("x".to_owned(), Profile::workshop()),
        ];
        assert!(Profiles::with_patterns(twice).is_err());
    }

    #[test]
    fn the_workshop_profile_classifies_drafts() {
        let habit = shaped("Always send the weekly report as a table.");
        assert_eq!(
            (habit.tier, habit.typology),
            (Tier::Persistent, Typology::Procedural)
        );
        let fact = shaped("Nadia's role is release manager.");
        assert_eq!(
            (fact.typology, fact.facets.valid_at),
            (Typology::Semantic, Some(Timestamp(5)))
        );
        let talk = shaped("User: could you kick off the distillation?\nAgent: done.");
        assert_eq!(
            (talk.tier, talk.typology, talk.facets.slot),
            (Tier::Session, Typology::Episodic, None)
        );
        let claim = shaped("The operator is working on gate coverage.");
        assert_eq!(
            claim.facets.slot,
            Some(claim_slot("the operator is working on   gate coverage"))
        );
        assert_eq!(claim.facets.valid_at, None);
        assert_eq!(claim.facets.evidence.len(), 1);
    }

    #[test]
    fn the_general_profile_does_not_classify_by_content() {
        let draft = Draft {
            content: "Always send tables.".into(),
            typology_is_default: true,
            tier_is_default: true,
            ..Draft::default()
        };
        let kept = Profile::general()
            .complete_draft(draft, "ada", Timestamp(5))
            .unwrap();
        assert_eq!(
            (kept.tier, kept.typology, kept.facets.slot),
            (Tier::Persistent, Typology::Semantic, None)
        );
        let mut turn = Draft {
            content: "hello".into(),
            typology_is_default: true,
            tier: Tier::Interaction,
            ..Draft::default()
        };
        turn.facets.interaction = InteractionId::parse("t1");
        assert_eq!(
            Profile::general()
                .complete_draft(turn, "ada", Timestamp(5))
                .unwrap()
                .typology,
            Typology::Episodic
        );
    }

    #[test]
    fn a_primary_guard_requires_drafts_to_name_a_world() {
        let primary = Profile {
            guard: GuardMode::Primary,
            ..Profile::workshop()
        };
        let draft = Draft {
            content: "The gate is strict.".into(),
            ..Draft::default()
        };
        assert!(
            primary
                .complete_draft(draft.clone(), "ada", Timestamp(5))
                .is_err()
        );
        let mut named = draft;
        named.facets.world = WorldId::parse("w").unwrap();
        assert!(primary.complete_draft(named, "ada", Timestamp(5)).is_ok());
    }
}
