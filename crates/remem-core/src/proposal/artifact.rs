//! The artifact of a proposal: its canonical bytes, their hash, and the object that they would
//! install. Owns the rules of each kind; it installs nothing.
//!
//! The bytes are made once and looked up by their hash afterwards, so that exactly the reviewed
//! bytes are installed.

use super::ProposalKind;
use super::automation::Automation;
use super::fields::{self, check_known_fields, check_size, invalid, required_objects};
use super::template::PromptTemplate;
use crate::agent::{Agent, InstallRequest};
use crate::policy::Policy;
use crate::rejection::Rejection;
use crate::workflow::Workflow;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// The largest artifact, in bytes of canonical JSON.
pub const BYTES_MAX: usize = 256 * 1024;
/// The deepest nesting of an artifact: as deep as JSON from outside is read.
const LEVELS_MAX: usize = 120;
/// The most agents or workflows of one pack.
const ITEMS_MAX: usize = 20;

/// The canonical bytes of a proposed object. Equal artifacts have equal bytes, independent of the
/// order in which their keys were sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    text: String,
    sha256: String,
}

// An artifact can be as private as a memory, so it is not printed.
impl std::fmt::Debug for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Artifact")
            .field("sha256", &self.sha256)
            .field("bytes", &self.text.len())
            .finish()
    }
}

impl Artifact {
    /// Makes the canonical form of an artifact and checks its size and depth.
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
        check_size("artifact", text.len(), BYTES_MAX)?;
        let sha256 = sha256(&text);
        Ok(Artifact { text, sha256 })
    }

    /// Restores a stored artifact; `None` unless it is a JSON object with this hash.
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

    /// The SHA-256 of the text, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The artifact as a JSON object.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        // Both constructors have checked that it is an object.
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

/// The nesting depth of a value, measured no deeper than `most`.
fn levels(value: &Value, most: usize) -> usize {
    let below = |value: &Value| levels(value, most.saturating_sub(1));
    match value {
        Value::Array(items) if most > 0 => 1 + items.iter().map(below).max().unwrap_or(0),
        Value::Object(map) if most > 0 => 1 + map.values().map(below).max().unwrap_or(0),
        Value::Array(_) | Value::Object(_) => 1,
        _ => 0,
    }
}

/// The SHA-256 of a text, in hexadecimal.
pub(super) fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Writes JSON with sorted keys. They are sorted here and not by the map, because the order of a
/// map depends on how the program was built.
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

/// The object that an artifact would install; everything in it has passed the rules of its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Installable {
    /// The agents of one pack.
    Agents {
        /// The name of the pack.
        pack: String,
        version: String,
        /// The agents, at least one.
        agents: Vec<Agent>,
    },
    /// The workflows of one pack.
    Workflows {
        /// The name of the pack.
        pack: String,
        version: String,
        /// The workflows, at least one.
        workflows: Vec<Workflow>,
    },
    /// A prompt with placeholders.
    Prompt(PromptTemplate),
    /// A workflow or agent that is started at given times.
    Automation(Automation),
}

impl Installable {
    /// The name that it is installed under.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Installable::Agents { pack, .. } | Installable::Workflows { pack, .. } => pack,
            Installable::Prompt(template) => template.id(),
            Installable::Automation(automation) => &automation.id,
        }
    }
}

/// Checks an artifact against the rules of its kind. The error names a field and a rule, never a
/// value.
pub fn check(
    kind: ProposalKind,
    artifact: &Map<String, Value>,
    policy: &Policy,
) -> Result<Installable, Rejection> {
    match kind {
        ProposalKind::AgentPack => agents(artifact, policy),
        ProposalKind::WorkflowChainPack => workflows(artifact, policy),
        ProposalKind::PromptTemplate => {
            PromptTemplate::from_map(artifact, policy).map(Installable::Prompt)
        }
        ProposalKind::Automation => {
            Automation::from_map(artifact, policy).map(Installable::Automation)
        }
    }
}

fn agents(artifact: &Map<String, Value>, policy: &Policy) -> Result<Installable, Rejection> {
    check_known_fields(
        artifact,
        &["name", "version", "agents"],
        "artifact",
        "has a field that is unknown; known are name, version, agents",
    )?;
    let pack = fields::required_name(artifact, "name")?;
    let version = fields::required_version(artifact)?;
    let agents = required_objects(artifact, "agents", ITEMS_MAX, "must be a list of manifests")?
        .into_iter()
        .map(|manifest| {
            let pack_name = Some(pack.clone());
            let pack_version = Some(version.clone());
            Agent::new(
                InstallRequest {
                    manifest: manifest.clone(),
                    pack_name,
                    pack_version,
                    ..InstallRequest::default()
                },
                policy,
            )
        });
    let agents = agents.collect::<Result<Vec<_>, _>>()?;
    check_unique("agents", agents.iter().map(Agent::id))?;
    Ok(Installable::Agents {
        pack,
        version,
        agents,
    })
}

fn workflows(artifact: &Map<String, Value>, policy: &Policy) -> Result<Installable, Rejection> {
    check_known_fields(
        artifact,
        &["name", "version", "workflows"],
        "artifact",
        "has a field that is unknown; known are name, version, workflows",
    )?;
    let pack = fields::required_name(artifact, "name")?;
    let version = fields::required_version(artifact)?;
    let workflows = required_objects(
        artifact,
        "workflows",
        ITEMS_MAX,
        "must be a list of definitions",
    )?
    .into_iter()
    .map(|definition| {
        check_size(
            "workflows",
            canonical(definition).len(),
            policy.workflow_bytes_max,
        )?;
        Workflow::parse(definition.clone())
    });
    let workflows = workflows.collect::<Result<Vec<_>, _>>()?;
    check_unique(
        "workflows",
        workflows.iter().map(|workflow| workflow.id.as_str()),
    )?;
    Ok(Installable::Workflows {
        pack,
        version,
        workflows,
    })
}

fn check_unique<'a>(
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
