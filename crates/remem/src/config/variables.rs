//! The variables of the environment: which of them are settings, and what is said of the others.

use super::{Config, RESERVED_VARIABLES};
use crate::cli::GlobalArgs;
use crate::hints::closest;
use crate::output;
use figment::Figment;
use figment::error::Kind;
use figment::providers::Env;
use std::sync::Once;

/// What the names of all variables begin with.
const PREFIX: &str = "REMEM_";
/// Variables of the tests and scripts of this repository.
const TESTS: [&str; 2] = ["REMEM_TEST_", "REMEM_POSTGRES_"];

/// The settings of the environment. A variable that is not a setting causes one warning and is
/// ignored: it may be meant for another version.
pub fn settings(global: &GlobalArgs) -> Env {
    static WARNED: Once = Once::new();
    let given: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(PREFIX) && !TESTS.iter().any(|t| name.starts_with(t)))
        .filter(|name| !RESERVED_VARIABLES.iter().any(|one| *name == variable(one)))
        .collect();
    // Settings are looked up in the types themselves; most environments have none.
    let known = if given.is_empty() {
        Vec::new()
    } else {
        known()
    };
    let is_known = |name: &String| known.contains(name) || name.starts_with("REMEM_PROFILES__");
    WARNED.call_once(|| {
        for name in given.iter().filter(|name| !is_known(name)) {
            output::warn(global, &unknown(name, &known));
        }
    });
    let settings: Vec<String> = given.into_iter().filter(is_known).collect();
    let env = Env::prefixed(PREFIX);
    env.filter(move |key| settings.contains(&variable(key.as_str())))
        .split("__")
}

fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "__"))
}

fn unknown(name: &str, known: &[String]) -> String {
    let others = RESERVED_VARIABLES.map(variable);
    let all = known.iter().chain(&others).map(String::as_str);
    match closest(name, all) {
        Some(near) => {
            format!("unknown environment variable {name} is ignored; did you mean {near}?")
        }
        None => format!(
            "unknown environment variable {name} is ignored; settings are \
             REMEM_<SECTION>__<KEY>, as docs/configuration.md lists them"
        ),
    }
}

/// The variable of every setting.
fn known() -> Vec<String> {
    let mut found = Vec::new();
    settings_below("", &mut found);
    found.iter().map(|key| variable(key)).collect()
}

/// Asks for a setting that does not exist: the error names those that do.
fn settings_below(section: &str, found: &mut Vec<String>) {
    for name in fields(section) {
        let key = format!("{section}{name}");
        let below = format!("{key}.");
        // The model before another one may not have one before it: that section is as it is.
        let repeats = section.ends_with(&format!("{name}."));
        if repeats || fields(&below).is_empty() {
            found.push(key);
        } else {
            settings_below(&below, found);
        }
    }
}

fn fields(section: &str) -> &'static [&'static str] {
    let probe = Figment::new().merge((format!("{section}no such setting"), 0));
    let Err(errors) = probe.extract::<Config>() else {
        return &[];
    };
    let known = errors.into_iter().find_map(|error| match error.kind {
        Kind::UnknownField(_, known) => Some(known),
        _ => None,
    });
    known.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_of_settings_are_known() {
        let known = known();
        for name in [
            "REMEM_LOG__LEVEL",
            "REMEM_SERVER__LISTEN",
            "REMEM_STORAGE__HOST_KEY_FILE",
            "REMEM_AUTH__JWT__ISSUER",
            "REMEM_EMBEDDER__PREVIOUS__NAME",
        ] {
            assert!(known.iter().any(|one| one == name), "{name}: {known:?}");
        }
    }

    #[test]
    fn the_nearest_variable_is_suggested_for_a_misspelt_one() {
        let known = known();
        for (name, near) in [
            ("REMEM_LOG_LEVEL", "REMEM_LOG__LEVEL"),
            ("REMEM_SERVER__LISSTEN", "REMEM_SERVER__LISTEN"),
            ("REMEM_TENNANT", "REMEM_TENANT"),
        ] {
            let text = unknown(name, &known);
            assert!(text.ends_with(&format!("did you mean {near}?")), "{text}");
        }
        assert!(unknown("REMEM_COLOUR", &known).contains("REMEM_<SECTION>__<KEY>"));
    }
}
