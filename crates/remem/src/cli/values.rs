//! Parsers of option values. A value that is one of a few names knows them, so that help lists
//! them, the shell completes them, and a wrong one is a wrong usage before anything is opened.

use crate::embedder::catalogue::OFFERS;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use remem_core::{Permission, Tier, Trust, Typology};
use remem_engine::proposals::OVERRIDE_REASONS;
use remem_engine::registry;
use remem_wire::Metadata;
use remem_wire::time::Instant;
use remem_wire::workshop::{SourceName, TierName, TypologyName};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::ffi::OsStr;

/// The values of `--mode`.
pub const MODES: [&str; 3] = ["hybrid", "lexical", "semantic"];
/// Ways to treat a date in a query.
pub const TIMES: [&str; 3] = ["filter", "prefer", "ignore"];
/// Ways to treat text shaped like a secret.
pub const SHAPES: [&str; 3] = ["redact", "flag", "off"];
/// Owners of a secret.
pub const SECRET_SCOPES: [&str; 2] = ["tenant", "user"];
/// Kinds of store without a database.
pub const STORES: [&str; 2] = ["embedded", "memory"];
/// Reasons to override missing approvals.
pub const REASONS: [&str; 4] = OVERRIDE_REASONS;

/// Parses the name of a memory. `@me/notes` is `~/notes` for those who do not want to quote: a
/// shell makes a folder of `~/`.
pub fn memory(text: &str) -> Result<String, Infallible> {
    Ok(text
        .strip_prefix("@me/")
        .map_or_else(|| text.to_owned(), |rest| format!("~/{rest}")))
}

/// A parser that takes any text and knows some of them: a server of another version may know more.
#[derive(Clone)]
pub struct Suggested(pub fn() -> Vec<&'static str>);

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        Ok(value.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A parser of names of passes.
pub fn pass() -> Suggested {
    Suggested(|| registry::PASSES.iter().map(|pass| pass.name).collect())
}

/// A parser of names of embedding models.
pub fn model() -> Suggested {
    Suggested(|| OFFERS.iter().map(|offer| offer.name).collect())
}

/// Parses the value of an option that takes an instant.
pub fn instant(text: &str) -> Result<Instant, String> {
    Instant::parse(text)
        .ok_or_else(|| "expected RFC 3339, for example 2030-01-31T12:00:00Z".to_owned())
}

/// Parses a JSON object.
pub fn object(text: &str) -> Result<Metadata, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("expected a JSON object, for example '{\"sure\": true}'".to_owned()),
        Err(error) => Err(format!(
            "{}; expected a JSON object",
            crate::hints::json(&error)
        )),
    }
}

/// A parser of one of `names`, which the wire knows by the same names.
fn named<T>(names: impl Into<PossibleValuesParser>) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let parser: PossibleValuesParser = names.into();
    parser.try_map(|name| serde_json::from_value(json!(name)))
}

/// A parser of tiers.
pub fn tier() -> impl TypedValueParser<Value = TierName> {
    named(Tier::ALL.map(Tier::as_str))
}

/// A parser of kinds of entries.
pub fn typology() -> impl TypedValueParser<Value = TypologyName> {
    named(Typology::ALL.map(Typology::as_str))
}

/// A parser of levels of trust.
pub fn trust() -> impl TypedValueParser<Value = SourceName> {
    named(Trust::ALL.map(Trust::as_str))
}

/// A parser of scopes; spaces around a name do not count.
#[derive(Clone)]
pub struct ScopeParser;

impl TypedValueParser for ScopeParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        let text = value.to_string_lossy();
        let known = Permission::ALL.map(Permission::as_str);
        if let Some(name) = known.into_iter().find(|name| *name == text.trim()) {
            return Ok(name.to_owned());
        }
        let mut error = Error::new(ErrorKind::InvalidValue).with_cmd(command);
        if let Some(arg) = arg {
            let text = ContextValue::String(arg.to_string());
            error.insert(ContextKind::InvalidArg, text);
        }
        let typed = ContextValue::String(text.trim().to_owned());
        error.insert(ContextKind::InvalidValue, typed);
        let names = known.map(str::to_owned).to_vec();
        error.insert(ContextKind::ValidValue, ContextValue::Strings(names));
        if let Some(near) = crate::hints::closest(text.trim(), known) {
            let near = ContextValue::String(near.to_owned());
            error.insert(ContextKind::SuggestedValue, near);
        }
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = Permission::ALL.map(Permission::as_str);
        Some(Box::new(names.into_iter().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_me_is_an_alias_for_the_callers_memories() {
        for (typed, meant) in [
            ("@me/ops", "~/ops"),
            ("~/ops", "~/ops"),
            ("@meadow/x", "@meadow/x"),
            ("team", "team"),
            ("a@me/b", "a@me/b"),
        ] {
            assert_eq!(memory(typed).unwrap(), meant);
        }
    }

    #[test]
    fn every_shapes_value_parses_as_a_shape_policy() {
        for name in SHAPES {
            assert!(name.parse::<remem_core::ShapePolicy>().is_ok(), "{name}");
        }
    }
}
