//! Agents on the wire. The inventory has OpenWOP's closed shapes and no place for a prompt, a
//! schema or a credential.

use remem_core::agent::{Agent, Install};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// An agent to install.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentInstall {
    /// OpenWOP's AgentManifest.
    #[schema(value_type = Object)]
    pub manifest: Map<String, Value>,
    /// The pack it comes from [local].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_name: Option<String>,
    /// The version of that pack [0.0.0].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_version: Option<String>,
    /// Packs that should be installed, too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, PeerDependency>,
}

/// How much an agent needs another pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerDependency {
    /// It can do without [false].
    #[serde(default)]
    pub optional: bool,
}

impl AgentInstall {
    /// What a file holds: the whole request, or the manifest alone.
    pub fn from_file(text: &[u8]) -> serde_json::Result<AgentInstall> {
        let value: Map<String, Value> = serde_json::from_slice(text)?;
        if value.contains_key("manifest") {
            return serde_json::from_slice(text);
        }
        Ok(AgentInstall {
            manifest: value,
            ..AgentInstall::default()
        })
    }
}

impl From<AgentInstall> for Install {
    fn from(request: AgentInstall) -> Install {
        let peers = request
            .peer_dependencies
            .into_iter()
            .map(|(name, peer)| (name, peer.optional))
            .collect();
        Install {
            manifest: request.manifest,
            pack_name: request.pack_name,
            pack_version: request.pack_version,
            peers,
        }
    }
}

/// The memory an agent asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMemoryShape {
    /// Working notes of a run.
    #[serde(default)]
    pub scratchpad: bool,
    /// The conversation so far.
    #[serde(default)]
    pub conversation: bool,
    /// Memory across runs.
    #[serde(default)]
    pub long_term: bool,
}

/// An installed agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentInventoryEntry {
    /// Its name.
    pub agent_id: String,
    /// What people call it.
    pub persona: String,
    /// A short name for screens.
    pub label: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The kind of model it wants.
    pub model_class: String,
    /// The pack it comes from.
    pub pack_name: String,
    /// The version of that pack.
    pub pack_version: String,
    /// The tools it may use.
    pub tool_allowlist: Vec<String>,
    /// Whether it says what its tasks or answers look like.
    pub has_handoff_schemas: bool,
    /// The memory it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<AgentMemoryShape>,
    /// Below this confidence a decision should be escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// Packs and capabilities that it asks for and does not get here; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// True if it does not get the memory that it asks for; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_degraded: Option<bool>,
    /// Which sides of memory are missing; absent if none are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_memory_dimensions: Vec<String>,
}

impl AgentInventoryEntry {
    /// An agent, and what it is without.
    #[must_use]
    pub fn new(agent: &Agent, degraded: Vec<String>, memory: &[&str]) -> AgentInventoryEntry {
        let shape = |shape: remem_core::capability::MemoryShape| AgentMemoryShape {
            scratchpad: shape.scratchpad,
            conversation: shape.conversation,
            long_term: shape.long_term,
        };
        AgentInventoryEntry {
            agent_id: agent.id().to_owned(),
            persona: agent.persona().to_owned(),
            label: agent.label().to_owned(),
            description: agent.description().map(str::to_owned),
            model_class: agent.model_class().to_owned(),
            pack_name: agent.pack_name().to_owned(),
            pack_version: agent.pack_version().to_owned(),
            tool_allowlist: agent.tools().map(str::to_owned).collect(),
            has_handoff_schemas: agent.has_handoff_schemas(),
            memory_shape: agent.memory_shape().map(shape),
            confidence_threshold: agent.threshold(),
            degraded,
            memory_degraded: (!memory.is_empty()).then_some(true),
            degraded_memory_dimensions: memory.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// The installed agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentInventory {
    /// By name.
    pub agents: Vec<AgentInventoryEntry>,
    /// How many there are.
    pub total: u64,
}
