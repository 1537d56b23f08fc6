//! The schema of an agent's manifest, one row for each field. An error says which field breaks
//! which rule and repeats no value.

use crate::rejection::Rejection;
use crate::sabotage;
use serde_json::{Map, Value};

struct Field {
    name: &'static str,
    /// The rule in words, as the end of a sentence that begins with the field.
    rule: &'static str,
    is_valid: fn(&Value) -> bool,
}

const REQUIRED: [&str; 3] = ["agentId", "persona", "modelClass"];
const MODEL_CLASSES: [&str; 6] = [
    "reasoning",
    "writing",
    "coding",
    "research",
    "classification",
    "general",
];
const UNKNOWN: &str = "has a field that is unknown; known are agentId, persona, modelClass, systemPrompt, systemPromptRef, toolAllowlist, \
                       requiresCapabilities, memoryShape, confidence, handoff, label, description, evalSuiteRef, promptLibraryRef, promptOverrides";
const REF: &str = "must be a string of 1 to 1,024 characters";

const FIELDS: [Field; 15] = [
    Field {
        name: "agentId",
        rule: "must begin with core., vendor., community., private. or local., go on with at least two parts of letters, digits, _ and - \
               that begin with a small letter, and have at most 256 characters",
        is_valid: |v| v.as_str().is_some_and(is_agent_id),
    },
    Field {
        name: "persona",
        rule: "must be a string of 1 to 200 characters",
        is_valid: |v| is_text(v, 1, 200),
    },
    Field {
        name: "modelClass",
        rule: "must be reasoning, writing, coding, research, classification or general",
        is_valid: |v| {
            v.as_str()
                .is_some_and(|class| MODEL_CLASSES.contains(&class))
        },
    },
    // Its length is bounded with that of the whole manifest.
    Field {
        name: "systemPrompt",
        rule: "must be a non-empty string",
        is_valid: |v| is_text(v, 1, usize::MAX),
    },
    Field {
        name: "systemPromptRef",
        rule: REF,
        is_valid: is_ref,
    },
    Field {
        name: "toolAllowlist",
        rule: "must be a list of at most 256 names of 1 to 256 characters",
        is_valid: |v| is_list(v, 256, 256),
    },
    Field {
        name: "requiresCapabilities",
        rule: "must be a list of at most 64 different keys of 1 to 128 characters",
        is_valid: |v| is_list(v, 64, 128) && all_different(v),
    },
    Field {
        name: "memoryShape",
        rule: "must be an object of scratchpad, conversation and longTerm, each true or false",
        is_valid: |v| {
            is_object(
                v,
                &["scratchpad", "conversation", "longTerm"],
                Value::is_boolean,
            )
        },
    },
    Field {
        name: "confidence",
        rule: "must be an object with a defaultThreshold from 0 to 1",
        is_valid: |v| {
            is_object(v, &["defaultThreshold"], |n| {
                n.as_f64().is_some_and(|n| (0.0..=1.0).contains(&n))
            })
        },
    },
    Field {
        name: "handoff",
        rule: "must be an object of taskSchemaRef and returnSchemaRef, each a string of 1 to 1,024 characters",
        is_valid: |v| is_object(v, &["taskSchemaRef", "returnSchemaRef"], is_ref),
    },
    Field {
        name: "label",
        rule: "must be a string of 1 to 100 characters",
        is_valid: |v| is_text(v, 1, 100),
    },
    Field {
        name: "description",
        rule: "must be a string of at most 500 characters",
        is_valid: |v| is_text(v, 0, 500),
    },
    Field {
        name: "evalSuiteRef",
        rule: REF,
        is_valid: is_ref,
    },
    Field {
        name: "promptLibraryRef",
        rule: "must be 1 to 128 lowercase letters, digits, dots, _ and -, starting with a letter or digit",
        is_valid: |v| v.as_str().is_some_and(is_library),
    },
    Field {
        name: "promptOverrides",
        rule: "must be an object of system, user, few-shot and schema-hint, each a reference to a prompt",
        is_valid: |v| {
            is_object(v, &["system", "user", "few-shot", "schema-hint"], |r| {
                is_ref(r) || r.as_object().is_some_and(|o| !o.is_empty())
            })
        },
    },
];

/// Refuses a JSON object that is not a valid manifest.
pub(super) fn check(manifest: &Map<String, Value>) -> Result<(), Rejection> {
    if !sabotage!(
        "a-manifest-may-hold-anything",
        manifest
            .keys()
            .all(|key| FIELDS.iter().any(|field| field.name == key)),
        true
    ) {
        return Err(Rejection::Invalid {
            field: "manifest",
            rule: UNKNOWN,
        });
    }
    for field in &FIELDS {
        match manifest.get(field.name) {
            Some(value) if !(field.is_valid)(value) => {
                return Err(Rejection::Invalid {
                    field: field.name,
                    rule: field.rule,
                });
            }
            None if REQUIRED.contains(&field.name) => {
                return Err(Rejection::Invalid {
                    field: field.name,
                    rule: "is missing",
                });
            }
            _ => {}
        }
    }
    let exactly_one =
        manifest.contains_key("systemPrompt") != manifest.contains_key("systemPromptRef");
    let rule = "or systemPromptRef is required, not both";
    if exactly_one {
        Ok(())
    } else {
        Err(Rejection::Invalid {
            field: "systemPrompt",
            rule,
        })
    }
}

/// Returns true if a text can be the name of an installed agent.
#[must_use]
pub fn is_agent_id(text: &str) -> bool {
    let mut parts = text.split('.');
    let tier = parts
        .next()
        .is_some_and(|tier| ["core", "vendor", "community", "private", "local"].contains(&tier));
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    let part = |text: &str, large: bool| {
        text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .bytes()
                .all(|b| rest(b) || large && b.is_ascii_uppercase())
    };
    // The part after the tier names an organisation and has no capitals.
    let organisation = parts.next().is_some_and(|text| part(text, false));
    let names: Vec<&str> = parts.collect();
    text.len() <= 256
        && tier
        && organisation
        && !names.is_empty()
        && names.iter().all(|text| part(text, true))
}

fn is_text(value: &Value, min: usize, max: usize) -> bool {
    value
        .as_str()
        .is_some_and(|text| (min..=max).contains(&text.chars().count()))
}

fn is_ref(value: &Value) -> bool {
    is_text(value, 1, 1_024)
}

fn is_list(value: &Value, items_max: usize, chars_max: usize) -> bool {
    value.as_array().is_some_and(|items| {
        items.len() <= items_max && items.iter().all(|item| is_text(item, 1, chars_max))
    })
}

fn all_different(value: &Value) -> bool {
    value.as_array().is_some_and(|items| {
        items
            .iter()
            .enumerate()
            .all(|(n, item)| !items[..n].contains(item))
    })
}

fn is_object(value: &Value, names: &[&str], holds: fn(&Value) -> bool) -> bool {
    value.as_object().is_some_and(|map| {
        map.iter()
            .all(|(name, value)| names.contains(&name.as_str()) && holds(value))
    })
}

fn is_library(text: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 128
        && text.bytes().next().is_some_and(letter)
        && text.bytes().all(|b| letter(b) || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn full() -> Value {
        json!({
            "agentId": "vendor.acme.support.tierOne", "persona": "P", "modelClass": "reasoning", "systemPrompt": "Be brief.",
            "toolAllowlist": ["openwop:memory.search", "openwop:memory.search"], "requiresCapabilities": ["memory.search"],
            "memoryShape": {"scratchpad": true, "longTerm": false}, "confidence": {"defaultThreshold": 1},
            "handoff": {"taskSchemaRef": "a.json"}, "label": "L", "description": "", "evalSuiteRef": "e.json",
            "promptLibraryRef": "lib.a-1", "promptOverrides": {"few-shot": "x", "user": {"templateId": "t"}},
        })
    }

    fn check_json(manifest: &Value) -> Result<(), Rejection> {
        check(manifest.as_object().unwrap())
    }

    #[test]
    fn a_full_and_a_minimal_manifest_are_valid() {
        assert_eq!(check_json(&full()), Ok(()));
        let few = json!({"agentId": "core.a.b", "persona": "P", "modelClass": "general", "systemPromptRef": "p.md"});
        assert_eq!(check_json(&few), Ok(()));
        for class in MODEL_CLASSES {
            let mut manifest = few.clone();
            manifest["modelClass"] = json!(class);
            assert_eq!(check_json(&manifest), Ok(()));
        }
    }

    #[test]
    fn each_invalid_field_is_rejected_by_name_without_echoing_it() {
        let long = |n: usize| json!("x".repeat(n));
        let bad: [(&str, Vec<Value>); 15] = [
            (
                "agentId",
                vec![
                    json!(1),
                    json!(""),
                    json!("canary"),
                    json!("core.a"),
                    long(300),
                ],
            ),
            ("persona", vec![json!(""), long(201), json!(null)]),
            ("modelClass", vec![json!("canary"), json!("chat"), json!(1)]),
            ("systemPrompt", vec![json!(""), json!(1)]),
            ("systemPromptRef", vec![json!(""), long(1_025)]),
            (
                "toolAllowlist",
                vec![
                    json!("canary"),
                    json!([""]),
                    json!([1]),
                    json!(vec!["t"; 257]),
                    json!([long(257)]),
                ],
            ),
            (
                "requiresCapabilities",
                vec![
                    json!(["canary", "canary"]),
                    json!([""]),
                    json!({}),
                    json!([long(129)]),
                ],
            ),
            (
                "memoryShape",
                vec![
                    json!({"canary": true}),
                    json!({"longTerm": "yes"}),
                    json!([]),
                ],
            ),
            (
                "confidence",
                vec![
                    json!({"defaultThreshold": 1.1}),
                    json!({"defaultThreshold": -0.1}),
                    json!({"canary": 1}),
                    json!(0.5),
                ],
            ),
            (
                "handoff",
                vec![
                    json!({"canary": "x"}),
                    json!({"taskSchemaRef": ""}),
                    json!("canary"),
                ],
            ),
            ("label", vec![json!(""), long(101)]),
            ("description", vec![long(501), json!(["canary"])]),
            ("evalSuiteRef", vec![json!(""), json!({})]),
            (
                "promptLibraryRef",
                vec![json!("Canary"), json!(""), json!("-a"), long(129)],
            ),
            (
                "promptOverrides",
                vec![
                    json!({"canary": "x"}),
                    json!({"system": {}}),
                    json!({"user": 1}),
                    json!([]),
                ],
            ),
        ];
        for (name, values) in bad {
            for value in values {
                let mut manifest = full();
                manifest[name] = value;
                let error = check_json(&manifest).unwrap_err();
                assert_eq!(error.field(), Some(name), "{error}");
                assert!(
                    !error.to_string().to_lowercase().contains("canary"),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn missing_conflicting_and_unknown_fields_are_rejected() {
        for name in REQUIRED {
            let mut manifest = full();
            manifest.as_object_mut().unwrap().remove(name);
            assert_eq!(
                check_json(&manifest),
                Err(Rejection::Invalid {
                    field: name,
                    rule: "is missing"
                })
            );
        }
        let mut both = full();
        both["systemPromptRef"] = json!("p.md");
        assert_eq!(check_json(&both).unwrap_err().field(), Some("systemPrompt"));
        both.as_object_mut()
            .unwrap()
            .retain(|name, _| !name.starts_with("systemPrompt"));
        assert_eq!(
            check_json(&both).unwrap_err().to_string(),
            "systemPrompt or systemPromptRef is required, not both"
        );
        let mut more = full();
        more["canary"] = json!(1);
        let error = check_json(&more).unwrap_err().to_string();
        assert!(
            !error.contains("canary") && FIELDS.iter().all(|field| error.contains(field.name)),
            "{error}"
        );
    }

    #[test]
    fn agent_ids_need_a_known_tier_an_organisation_and_a_name() {
        for good in [
            "core.a.b",
            "vendor.acme-x.support.tierOne",
            "local.a1_b.c-d",
            "private.x.y.z.w",
        ] {
            assert!(is_agent_id(good), "{good}");
        }
        let long = format!("local.a.{}", "b".repeat(249));
        for bad in [
            "",
            "core",
            "core.a",
            "core.a.",
            "core..a",
            "other.a.b",
            "core.A.b",
            "core.1.b",
            "core.a.B",
            "core.a.b/c",
            "core.a.é",
            "host:a.b.c",
            &long,
        ] {
            assert!(!is_agent_id(bad), "{bad}");
        }
    }
}
