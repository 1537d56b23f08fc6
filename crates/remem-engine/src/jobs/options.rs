//! The options of passes over memories: which there are, and the validation of what a caller sent.

use remem_core::Rejection;
use serde_json::{Map, Value};

/// The specification of one option of a pass.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name of the option in requests.
    pub name: &'static str,
    /// The type of its value.
    pub kind: OptionKind,
    /// A description of one line, shown to users.
    pub doc: &'static str,
    /// The error for an invalid value, as the end of a sentence.
    pub rule: &'static str,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A whole number in a range, both ends included.
    Integer {
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// A string that is one of these words.
    Word(&'static [&'static str]),
    /// A boolean, true or false.
    Flag,
}

impl OptionKind {
    /// The JSON type of this kind in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            OptionKind::Integer { .. } => "integer",
            OptionKind::Word(_) => "string",
            OptionKind::Flag => "boolean",
        }
    }

    /// Whether a value is valid for this type.
    fn accepts(self, value: &Value) -> bool {
        match self {
            OptionKind::Integer { min, max } => value
                .as_u64()
                .is_some_and(|number| (min..=max).contains(&number)),
            OptionKind::Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            OptionKind::Flag => value.is_boolean(),
        }
    }
}

/// The options of the pass `compact`.
pub(crate) static COMPACT_OPTIONS: [OptionSpec; 1] = [OptionSpec {
    name: "include",
    kind: OptionKind::Word(&["short-lived", "all"]),
    doc: "which entries: those of threads and sessions (short-lived, the default) or all; never those that will expire",
    rule: "must be short-lived or all",
}];

/// The options of the pass `distill`.
pub(crate) static DISTILL_OPTIONS: [OptionSpec; 4] = [
    OptionSpec {
        name: "tokenBudget",
        kind: OptionKind::Integer {
            min: 1,
            max: 10_000_000,
        },
        doc: "tokens that may be read and written",
        rule: "must be an integer from 1 to 10000000",
    },
    OptionSpec {
        name: "markdown",
        kind: OptionKind::Flag,
        doc: "also write the index as Markdown",
        rule: "must be true or false",
    },
    OptionSpec {
        name: "sources",
        kind: OptionKind::Word(&["all", "new"]),
        doc: "which entries: all (the default) or those that are newer than the last distillation",
        rule: "must be all or new",
    },
    OptionSpec {
        name: "recursive",
        kind: OptionKind::Flag,
        doc: "also read what earlier distillations made",
        rule: "must be true or false",
    },
];

/// Validates options against their specifications: unknown names and invalid values are refused,
/// and a `null` counts as absent.
pub fn validate(
    specs: &'static [OptionSpec],
    mut options: Map<String, Value>,
) -> Result<Map<String, Value>, Rejection> {
    options.retain(|_, value| !value.is_null());
    for (name, value) in &options {
        let spec = specs.iter().find(|spec| spec.name == name);
        let unknown = Rejection::Invalid {
            field: "options",
            rule: "holds a name that this pass does not know; see the list of passes",
        };
        let spec = spec.ok_or(unknown)?;
        if !spec.kind.accepts(value) {
            return Err(Rejection::Invalid {
                field: spec.name,
                rule: spec.rule,
            });
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    static SPECS: [OptionSpec; 3] = [
        OptionSpec {
            name: "n",
            kind: OptionKind::Integer { min: 2, max: 4 },
            doc: "",
            rule: "must be 2 to 4",
        },
        OptionSpec {
            name: "w",
            kind: OptionKind::Word(&["a", "b"]),
            doc: "",
            rule: "must be a or b",
        },
        OptionSpec {
            name: "f",
            kind: OptionKind::Flag,
            doc: "",
            rule: "must be true or false",
        },
    ];

    #[test]
    fn pass_options_are_validated_and_errors_name_the_field() {
        let tried = |options: Value| validate(&SPECS, options.as_object().cloned().unwrap());
        for good in [
            json!({}),
            json!({"n": 2, "w": "b", "f": false}),
            json!({"n": 4}),
            json!({"f": true}),
        ] {
            assert_eq!(Value::Object(tried(good.clone()).unwrap()), good);
        }
        assert_eq!(tried(json!({"n": null})).unwrap(), Map::new());
        for (bad, field) in [
            (json!({"n": 1}), "n"),
            (json!({"n": 5}), "n"),
            (json!({"n": 2.5}), "n"),
            (json!({"n": "2"}), "n"),
            (json!({"w": "c"}), "w"),
            (json!({"w": true}), "w"),
            (json!({"f": "true"}), "f"),
            (json!({"canary": 1}), "options"),
        ] {
            let refused = tried(bad.clone()).unwrap_err();
            assert_eq!(refused.field(), Some(field), "{bad}");
            assert!(!refused.to_string().contains("canary"));
        }
    }
}
