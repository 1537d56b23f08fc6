//! `[profiles.NAME]`: memory profiles that the operator declares for the memories of some agents.
//! They are checked at start.

use anyhow::Context;
use remem_core::profile::{DAY_MS, GuardMode};
use remem_core::{Profile, Profiles, WorldId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The settings of one profile. A setting that is absent has the value of the base profile.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileConfig {
    /// Name of the base profile: `workshop` or `general`.
    pub base: String,
    /// The memories that the profile applies to: names, or prefixes of names followed by `*`; `~/…`
    /// means the memories of each user.
    pub memories: Vec<String>,
    /// Whether text written without a kind is classified and gets a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classifies: Option<bool>,
    /// Whether personal data is masked and copies of other systems' records are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_mirror: Option<bool>,
    /// The world of statements that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Enforcement of the rules of a world: `primary` or `backstop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<String>,
    /// Number of days without activity after which a session is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_idle_days: Option<u32>,
    /// Units of evidence that let a claim outlast its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion_units: Option<u32>,
    /// Number of days for which a statement keeps its text after it ceased to be true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strip_after_days: Option<u32>,
}

impl ProfileConfig {
    /// Builds the profile of this name from its base and these settings, and checks it.
    fn profile(&self, name: &str) -> anyhow::Result<Profile> {
        let base = match self.base.as_str() {
            "workshop" => Profile::workshop(),
            "general" => Profile::general(),
            _ => anyhow::bail!("base must be workshop or general"),
        };
        let guard = match self.guard.as_deref() {
            None => base.guard,
            Some("primary") => GuardMode::Primary,
            Some("backstop") => GuardMode::Backstop,
            Some(_) => anyhow::bail!("guard must be primary or backstop"),
        };
        let world = self.world.as_deref().map(|name| {
            WorldId::parse(name).context("world must be a name of letters, digits and `_.:-`")
        });
        let days =
            |days: Option<u32>, base: i64| days.map_or(base, |days| i64::from(days) * DAY_MS);
        anyhow::ensure!(!self.memories.is_empty(), "memories must name at least one");
        anyhow::ensure!(
            !["workshop", "general"].contains(&name),
            "this name is taken: call it something else"
        );
        let profile = Profile {
            name: name.to_owned(),
            classifies: self.classifies.unwrap_or(base.classifies),
            non_mirror: self.non_mirror.unwrap_or(base.non_mirror),
            world: world.transpose()?.unwrap_or(base.world),
            guard,
            session_idle_ms: days(self.session_idle_days, base.session_idle_ms),
            promotion_units: self.promotion_units.unwrap_or(base.promotion_units),
            history_retention_ms: days(self.strip_after_days, base.history_retention_ms),
        };
        profile.check()?;
        Ok(profile)
    }
}

/// Builds all declared profiles from their settings.
pub fn profiles(settings: &BTreeMap<String, ProfileConfig>) -> anyhow::Result<Profiles> {
    let mut declared = Vec::new();
    for (name, settings) in settings {
        let profile = settings
            .profile(name)
            .with_context(|| format!("profiles.{name}"))?;
        declared.extend(
            settings
                .memories
                .iter()
                .map(|pattern| (pattern.clone(), profile.clone())),
        );
    }
    Profiles::with_patterns(declared).context("profiles")
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::MemoryRef;

    fn read(text: &str) -> anyhow::Result<Profiles> {
        profiles(&toml::from_str::<BTreeMap<String, ProfileConfig>>(text)?)
    }

    #[test]
    fn a_declared_profile_applies_to_the_memories_it_matches() {
        let profiles =
            read("[ops]\nbase = \"workshop\"\nmemories = [\"~/ops\", \"team-*\"]\nsession_idle_days = 7\nworld = \"gates\"").unwrap();
        let of = |name: &str| {
            profiles
                .for_memory(&MemoryRef::parse(name).unwrap())
                .clone()
        };
        let ops = of("team-a");
        assert_eq!(
            (
                ops.name.as_str(),
                ops.session_idle_ms,
                ops.world.as_str(),
                ops.classifies
            ),
            ("ops", 7 * DAY_MS, "gates", true)
        );
        assert_eq!(
            (
                of("~ada/ops").name.as_str(),
                of("~ada/x").name.as_str(),
                of("x").name.as_str()
            ),
            ("ops", "workshop", "general")
        );
    }

    #[test]
    fn invalid_profiles_are_refused_with_the_setting_at_fault() {
        let base = "[p]\nbase = \"workshop\"\nmemories = [\"x\"]\n";
        assert!(read(base).is_ok());
        for (line, setting) in [
            ("promotion_units = 3", "promotion_units"),
            ("session_idle_days = 0", "session_idle_days"),
            ("strip_after_days = 1", "strip_after_days"),
            ("guard = \"perhaps\"", "guard"),
            ("guard = \"primary\"\nworld = \"w\"", "world"),
            ("world = \"a b\"", "world"),
            ("colour = \"red\"", "colour"),
        ] {
            let error = format!("{:#}", read(&format!("{base}{line}\n")).unwrap_err());
            assert!(error.contains(setting), "{line}: {error}");
        }
        for text in [
            "[p]\nbase = \"other\"\nmemories = [\"x\"]",
            "[p]\nbase = \"general\"\nmemories = []",
            "[p]\nbase = \"general\"\nmemories = [\"a*b\"]",
            "[general]\nbase = \"general\"\nmemories = [\"x\"]",
            "[p]\nbase = \"general\"\nmemories = [\"x\"]\n[q]\nbase = \"general\"\nmemories = [\"x\"]",
        ] {
            assert!(
                format!("{:#}", read(text).unwrap_err()).contains("profiles"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_profile_key_is_documented() {
        let documented = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/configuration.md"
        ))
        .unwrap();
        let all = ProfileConfig {
            classifies: Some(true),
            non_mirror: Some(true),
            world: Some("w".to_owned()),
            guard: Some("backstop".to_owned()),
            session_idle_days: Some(30),
            promotion_units: Some(4),
            strip_after_days: Some(730),
            ..ProfileConfig::default()
        };
        let table: toml::Table = toml::from_str(&toml::to_string(&all).unwrap()).unwrap();
        assert_eq!(table.len(), 9);
        for key in table.keys() {
            assert!(
                documented.contains(&format!("| `profiles.NAME.{key}` |")),
                "docs/configuration.md lacks profiles.NAME.{key}"
            );
        }
    }
}
