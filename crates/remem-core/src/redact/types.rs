//! Owns the result types. `Redacted` is created only here, by the cleaning loop: holding one is the
//! proof that a text went through the redactor, so it must never gain a public constructor.

use std::fmt;
use std::str::FromStr;

use super::shapes::ShapeKind;

/// Text that has passed the redactor, which is the only way to make one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redacted(String);

impl Redacted {
    pub(super) fn from_cleaned(text: String) -> Redacted {
        Redacted(text)
    }

    /// The text as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Consumes the wrapper and returns the text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The result of cleaning one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The cleaned text, which may be stored.
    pub text: Redacted,
    /// The number of spans replaced because of registered values, or because they could not be
    /// examined.
    pub values: u32,
    /// The kinds of secret shape that were replaced or, under `Flag`, found. Sorted, each once.
    pub shapes: Vec<ShapeKind>,
    /// The number of bytes examined in all rounds, decoded ones included. The same for the same
    /// text and values on every machine.
    pub examined: usize,
}

/// The treatment of text that has the shape of a secret but is not a registered value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShapePolicy {
    /// Replace it with `[REDACTED:shape-<kind>]`.
    #[default]
    Redact,
    /// Leave it, and report its kind.
    Flag,
    /// Do not look for shapes.
    Off,
}

impl ShapePolicy {
    /// The name used in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            ShapePolicy::Redact => "redact",
            ShapePolicy::Flag => "flag",
            ShapePolicy::Off => "off",
        }
    }
}

impl fmt::Display for ShapePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not one of `redact`, `flag`, `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shape policy must be one of: redact, flag, off")]
pub struct UnknownShapePolicy;

impl FromStr for ShapePolicy {
    type Err = UnknownShapePolicy;

    fn from_str(text: &str) -> Result<ShapePolicy, UnknownShapePolicy> {
        [ShapePolicy::Redact, ShapePolicy::Flag, ShapePolicy::Off]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or(UnknownShapePolicy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_policy_names_round_trip() {
        for policy in [ShapePolicy::Redact, ShapePolicy::Flag, ShapePolicy::Off] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("Redact".parse::<ShapePolicy>(), Err(UnknownShapePolicy));
        assert_eq!(ShapePolicy::default(), ShapePolicy::Redact);
    }
}
