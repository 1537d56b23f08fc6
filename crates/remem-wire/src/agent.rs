//! Wire types of agents. The inventory has OpenWOP's closed shapes: a prompt, a schema or a
//! credential has no field in it.

use remem_core::agent::{Agent, InstallRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Request to install an agent.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentInstall {
    /// Manifest of the agent, as OpenWOP defines `AgentManifest`; at most 128 KiB as JSON.
    #[schema(value_type = Object)]
    pub manifest: Map<String, Value>,
    /// Name of the pack that the agent comes from, at most 200 characters; `local` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_name: Option<String>,
    /// Version of that pack, at most 64 characters; `0.0.0` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_version: Option<String>,
    /// Packs that the agent depends on, by name; at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub peer_dependencies: BTreeMap<String, PeerDependency>,
}

/// Dependency of an agent on another pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PeerDependency {
    /// True if the agent also works without the pack; false if absent.
    #[serde(default)]
    pub optional: bool,
}

impl AgentInstall {
    /// Reads a file that holds either the whole request or the manifest alone.
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

impl From<AgentInstall> for InstallRequest {
    fn from(request: AgentInstall) -> InstallRequest {
        let peers = request
            .peer_dependencies
            .into_iter()
            .map(|(name, peer)| (name, peer.optional))
            .collect();
        InstallRequest {
            manifest: request.manifest,
            pack_name: request.pack_name,
            pack_version: request.pack_version,
            peers,
        }
    }
}

/// Kinds of memory that an agent asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMemoryShape {
    /// True if the agent asks for working notes of a run.
    #[serde(default)]
    pub scratchpad: bool,
    /// True if the agent asks for the conversation so far.
    #[serde(default)]
    pub conversation: bool,
    /// True if the agent asks for memory that outlasts a run.
    #[serde(default)]
    pub long_term: bool,
}

/// Description of an installed agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentInventoryEntry {
    /// Unique id of the agent.
    pub agent_id: String,
    /// Display name of the agent.
    pub persona: String,
    /// Short label for user interfaces.
    pub label: String,
    /// Purpose of the agent, in its manifest's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Class of model that the agent asks for.
    pub model_class: String,
    /// Name of the pack that the agent comes from.
    pub pack_name: String,
    /// Version of that pack.
    pub pack_version: String,
    /// Names of the tools that the agent may use.
    pub tool_allowlist: Vec<String>,
    /// True if the manifest has schemas of the agent's tasks or answers.
    pub has_handoff_schemas: bool,
    /// Kinds of memory that the agent asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_shape: Option<AgentMemoryShape>,
    /// Confidence below which a decision of the agent should be escalated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// Missing packs and unsupported capabilities that the agent asks for; absent if there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// True if the host lacks a part of the memory that the agent asks for; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_degraded: Option<bool>,
    /// Missing dimensions of memory, such as `long-term-durability`; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_memory_dimensions: Vec<String>,
}

impl AgentInventoryEntry {
    /// Describes an agent, with the packs and the memory dimensions that it lacks on this host.
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
            confidence_threshold: agent.confidence_threshold(),
            degraded,
            memory_degraded: (!memory.is_empty()).then_some(true),
            degraded_memory_dimensions: memory.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// The installed agents of the tenant and of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentInventory {
    /// Agents, ordered by `agentId`.
    pub agents: Vec<AgentInventoryEntry>,
    /// Number of agents in the list.
    pub total: u64,
}
