//! The artifact of a proposal: its canonical bytes, the hash they are known by, and what they would
//! install. Owns the rule of each kind; it installs nothing.
//!
//! What a person reviewed is what gets installed, so that the bytes are made once and looked up by
//! their hash afterwards.

use super::Kind;
use super::automation::Automation;
use super::fields::{self, bounded, closed, invalid, objects};
use super::template::PromptTemplate;
use crate::agent::{Agent, Install};
use crate::policy::Policy;
use crate::rejection::Rejection;
use crate::workflow::Workflow;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Bytes of an artifact as canonical JSON.
pub const BYTES_MAX: usize = 256 * 1024;
/// Levels of nesting: as deep as JSON from outside is read.
const LEVELS_MAX: usize = 120;
/// Agents or workflows of one pack.
const ITEMS_MAX: usize = 20;

/// The bytes of a draft. Equal artifacts have equal bytes, in whatever order their keys were sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    text: String,
    sha256: String,
}

// An artifact can be as private as a memory.
impl std::fmt::Debug for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Artifact")
            .field("sha256", &self.sha256)
            .field("bytes", &self.text.len())
            .finish()
    }
}

impl Artifact {
    /// Writes an artifact down.
    pub fn new(map: &Map<String, Value>) -> Result<Artifact, Rejection> {
        let levels = 1 + map
            .values()
            .map(|value| levels(value, LEVELS_MAX))
            .max()
            .unwrap_or(0);
        if levels > LEVELS_MAX {
            return Err(Rejection::TooLarge {
                field: "artifact",
                unit: "levels",
                limit: LEVELS_MAX as u64,
                actual: levels as u64,
            });
        }
        let text = canonical(map);
        bounded("artifact", text.len(), BYTES_MAX)?;
        let sha256 = sha256(&text);
        Ok(Artifact { text, sha256 })
    }

    /// What was stored; `None` unless it is an object that has this hash.
    #[must_use]
    pub fn from_stored(text: String, sha256: &str) -> Option<Artifact> {
        let whole = self::sha256(&text) == sha256
            && serde_json::from_str::<Map<String, Value>>(&text).is_ok();
        whole.then(|| Artifact {
            text,
            sha256: sha256.to_owned(),
        })
    }

    /// Canonical JSON: keys sorted at every level, no spaces.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of the text, hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What the text says.
    #[must_use]
    pub fn map(&self) -> Map<String, Value> {
        // Both ways to make one have seen that it is an object.
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// How deep a value is, looked at no deeper than `most`.
fn levels(value: &Value, most: usize) -> usize {
    let below = |value: &Value| levels(value, most.saturating_sub(1));
    match value {
        Value::Array(items) if most > 0 => 1 + items.iter().map(below).max().unwrap_or(0),
        Value::Object(map) if most > 0 => 1 + map.values().map(below).max().unwrap_or(0),
        Value::Array(_) | Value::Object(_) => 1,
        _ => 0,
    }
}

/// SHA-256, hexadecimal.
pub(super) fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// JSON with sorted keys. Sorted here and not by the map, whose order is a matter of how the
/// program was built.
pub(super) fn canonical(map: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_map(map, &mut text);
    text
}

fn write_map(map: &Map<String, Value>, into: &mut String) {
    let mut fields: Vec<(&String, &Value)> = map.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    into.push('{');
    for (n, (key, value)) in fields.into_iter().enumerate() {
        into.push_str(if n == 0 { "" } else { "," });
        into.push_str(&Value::from(key.as_str()).to_string());
        into.push(':');
        write_value(value, into);
    }
    into.push('}');
}

fn write_value(value: &Value, into: &mut String) {
    match value {
        Value::Object(map) => write_map(map, into),
        Value::Array(items) => {
            into.push('[');
            for (n, item) in items.iter().enumerate() {
                into.push_str(if n == 0 { "" } else { "," });
                write_value(item, into);
            }
            into.push(']');
        }
        plain => into.push_str(&plain.to_string()),
    }
}

/// What an artifact would install: everything in it has passed the rules of its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Installable {
    /// Agents of one pack.
    Agents {
        /// The pack.
        pack: String,
        /// Its version.
        version: String,
        /// At least one.
        agents: Vec<Agent>,
    },
    /// Workflows of one pack.
    Workflows {
        /// The pack.
        pack: String,
        /// Its version.
        version: String,
        /// At least one.
        workflows: Vec<Workflow>,
    },
    /// A text with places to fill in.
    Prompt(PromptTemplate),
    /// Something that is started by the clock.
    Automation(Automation),
}

impl Installable {
    /// The name it is installed under.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Installable::Agents { pack, .. } | Installable::Workflows { pack, .. } => pack,
            Installable::Prompt(template) => template.id(),
            Installable::Automation(automation) => &automation.id,
        }
    }
}

/// Holds an artifact against the rules of its kind. The error names a field and a rule, never a
/// value.
pub fn check(
    kind: Kind,
    artifact: &Map<String, Value>,
    policy: &Policy,
) -> Result<Installable, Rejection> {
    match kind {
        Kind::AgentPack => agents(artifact, policy),
        Kind::WorkflowChainPack => workflows(artifact, policy),
        Kind::PromptTemplate => PromptTemplate::from_map(artifact, policy).map(Installable::Prompt),
        Kind::Automation => Automation::from_map(artifact, policy).map(Installable::Automation),
    }
}

fn agents(artifact: &Map<String, Value>, policy: &Policy) -> Result<Installable, Rejection> {
    closed(
        artifact,
        &["name", "version", "agents"],
        "artifact",
        "has a field that is unknown; known are name, version, agents",
    )?;
    let pack = fields::name(artifact, "name")?;
    let version = fields::version(artifact)?;
    let agents = objects(artifact, "agents", ITEMS_MAX, "must be a list of manifests")?
        .into_iter()
        .map(|manifest| {
            let pack_name = Some(pack.clone());
            let pack_version = Some(version.clone());
            Agent::new(
                Install {
                    manifest: manifest.clone(),
                    pack_name,
                    pack_version,
                    ..Install::default()
                },
                policy,
            )
        });
    let agents = agents.collect::<Result<Vec<_>, _>>()?;
    different("agents", agents.iter().map(Agent::id))?;
    Ok(Installable::Agents {
        pack,
        version,
        agents,
    })
}

fn workflows(artifact: &Map<String, Value>, policy: &Policy) -> Result<Installable, Rejection> {
    closed(
        artifact,
        &["name", "version", "workflows"],
        "artifact",
        "has a field that is unknown; known are name, version, workflows",
    )?;
    let pack = fields::name(artifact, "name")?;
    let version = fields::version(artifact)?;
    let workflows = objects(
        artifact,
        "workflows",
        ITEMS_MAX,
        "must be a list of definitions",
    )?
    .into_iter()
    .map(|definition| {
        bounded(
            "workflows",
            canonical(definition).len(),
            policy.workflow_bytes_max,
        )?;
        Workflow::parse(definition.clone())
    });
    let workflows = workflows.collect::<Result<Vec<_>, _>>()?;
    different(
        "workflows",
        workflows.iter().map(|workflow| workflow.id.as_str()),
    )?;
    Ok(Installable::Workflows {
        pack,
        version,
        workflows,
    })
}

fn different<'a>(
    field: &'static str,
    ids: impl ExactSizeIterator<Item = &'a str>,
) -> Result<(), Rejection> {
    let count = ids.len();
    match ids.collect::<BTreeSet<_>>().len() {
        0 => Err(Rejection::Empty { field }),
        unique if unique < count => Err(invalid(field, "must have unique ids")),
        _ => Ok(()),
    }
}
