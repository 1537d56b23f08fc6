//! An agent: its manifest, the pack it comes from, and the capabilities that it lacks on a host.
//! Decides what may be installed; it never reads a file and never runs an agent.
//!
//! A manifest is checked once, when it is installed (`manifest.rs`). The stored text was redacted
//! since, so a field that was valid may hold a redaction marker now: the readers here accept any
//! value and fall back to defaults.

mod manifest;

pub use manifest::is_agent_id;

use crate::capability::{Capabilities, MemoryShape};
use crate::policy::Policy;
use crate::rejection::Rejection;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A request to install an agent: the manifest, and facts about the pack that it comes from.
#[derive(Clone, Default)]
pub struct InstallRequest {
    pub manifest: Map<String, Value>,
    /// The pack that the agent comes from; `local` by default.
    pub pack_name: Option<String>,
    /// The version of the pack; `0.0.0` by default.
    pub pack_version: Option<String>,
    /// The packs that should be installed beside it; the value is true if the agent can do without.
    pub peers: BTreeMap<String, bool>,
}

/// An agent that is installed, or has passed the checks for it.
#[derive(Clone, PartialEq)]
pub struct Agent {
    id: String,
    body: Map<String, Value>,
}

/// The place of an agent's system prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Prompt<'a> {
    /// The prompt itself, from the manifest.
    Text(&'a str),
    /// The name of a file that holds the prompt.
    File(&'a str),
}

// A prompt can be as private as a memory.
impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Checks a request to install an agent. The error names a field and a rule, never a value.
    pub fn new(install: InstallRequest, policy: &Policy) -> Result<Agent, Rejection> {
        let InstallRequest {
            manifest,
            pack_name,
            pack_version,
            peers,
        } = install;
        manifest::check(&manifest)?;
        let name = |field: &'static str, name: Option<String>, default: &str, chars_max: usize| {
            let name = name.unwrap_or_else(|| default.to_owned());
            if is_name(&name, chars_max) {
                Ok(name)
            } else {
                Err(Rejection::MalformedName { field })
            }
        };
        let pack_name = name("packName", pack_name, "local", PACK_NAME_CHARS_MAX)?;
        let pack_version = name("packVersion", pack_version, "0.0.0", PACK_VERSION_CHARS_MAX)?;
        if peers.len() > PEERS_MAX || !peers.keys().all(|peer| is_name(peer, PACK_NAME_CHARS_MAX)) {
            return Err(Rejection::Invalid {
                field: "peerDependencies",
                rule: "must be at most 64 names of 1 to 200 characters",
            });
        }
        let id = manifest
            .get("agentId")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let mut body = Map::new();
        body.insert("packName".to_owned(), json!(pack_name));
        body.insert("packVersion".to_owned(), json!(pack_version));
        body.insert("peers".to_owned(), json!(peers));
        body.insert("manifest".to_owned(), Value::Object(manifest));
        let actual = Value::Object(body.clone()).to_string().len() as u64;
        let limit = policy.agent_bytes_max as u64;
        if actual > limit {
            return Err(Rejection::TooLarge {
                field: "manifest",
                unit: "bytes",
                limit,
                actual,
            });
        }
        Ok(Agent { id, body })
    }

    /// Restores an agent from its stored body.
    #[must_use]
    pub fn from_stored(id: String, body: Map<String, Value>) -> Agent {
        Agent { id, body }
    }

    /// The JSON object that is stored for the agent.
    #[must_use]
    pub fn body(&self) -> &Map<String, Value> {
        &self.body
    }

    /// The same agent with its prompt in the manifest. For a host that has read the prompt from its
    /// file.
    #[must_use]
    pub fn with_prompt(mut self, prompt: &str) -> Agent {
        if let Some(Value::Object(manifest)) = self.body.get_mut("manifest") {
            manifest.remove("systemPromptRef");
            manifest.insert("systemPrompt".to_owned(), json!(prompt));
        }
        self
    }

    /// The same agent without its prompt, for everything that is shown.
    #[must_use]
    pub fn without_prompt(mut self) -> Agent {
        if let Some(Value::Object(manifest)) = self.body.get_mut("manifest") {
            manifest.remove("systemPrompt");
        }
        self
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.body.get("manifest")?.get(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.field(name).and_then(Value::as_str)
    }

    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.field(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
    }

    /// The id that it is installed under.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The manifest as a whole, if the stored body has one.
    #[must_use]
    pub fn manifest(&self) -> Option<&Map<String, Value>> {
        self.body.get("manifest").and_then(Value::as_object)
    }

    /// The name that people call the agent.
    #[must_use]
    pub fn persona(&self) -> &str {
        self.text("persona").unwrap_or_default()
    }

    /// A short name for screens; the persona if the manifest has none.
    #[must_use]
    pub fn label(&self) -> &str {
        self.text("label").unwrap_or_else(|| self.persona())
    }

    /// The purpose of the agent, in words for people.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.text("description")
    }

    /// The kind of model it requires, such as `reasoning`.
    #[must_use]
    pub fn model_class(&self) -> &str {
        self.text("modelClass").unwrap_or_default()
    }

    /// The system prompt, or the file that holds it.
    #[must_use]
    pub fn prompt(&self) -> Prompt<'_> {
        match self.text("systemPromptRef") {
            Some(path) => Prompt::File(path),
            None => Prompt::Text(self.text("systemPrompt").unwrap_or_default()),
        }
    }

    /// The tools it may use; none unless the manifest lists them.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.texts("toolAllowlist")
    }

    /// The kinds of memory that it asks for.
    #[must_use]
    pub fn memory_shape(&self) -> Option<MemoryShape> {
        let shape = self.field("memoryShape")?.as_object()?;
        let on = |name: &str| shape.get(name).and_then(Value::as_bool).unwrap_or(false);
        Some(MemoryShape {
            scratchpad: on("scratchpad"),
            conversation: on("conversation"),
            long_term: on("longTerm"),
        })
    }

    /// The confidence below which a decision should be escalated.
    #[must_use]
    pub fn confidence_threshold(&self) -> Option<f64> {
        self.field("confidence")?.get("defaultThreshold")?.as_f64()
    }

    /// Returns true if the manifest has schemas for its tasks or answers.
    #[must_use]
    pub fn has_handoff_schemas(&self) -> bool {
        self.field("handoff")
            .and_then(Value::as_object)
            .is_some_and(|handoff| !handoff.is_empty())
    }

    /// The name of the pack that it comes from.
    #[must_use]
    pub fn pack_name(&self) -> &str {
        self.body
            .get("packName")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The version of the pack that it comes from.
    #[must_use]
    pub fn pack_version(&self) -> &str {
        self.body
            .get("packVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The peer packs that none of the other agents comes from; the value is true if the agent can
    /// do without.
    fn missing_peers(&self, installed: &[Agent]) -> impl Iterator<Item = (&str, bool)> {
        let peers = self
            .body
            .get("peers")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let there = |name: &str| {
            installed
                .iter()
                .any(|other| other.id != self.id && other.pack_name() == name)
        };
        peers
            .filter(move |(name, _)| !there(name))
            .map(|(name, optional)| (name.as_str(), *optional == json!(true)))
    }

    /// Refuses an agent that needs a pack which is not installed. The agent's own pack does not
    /// count.
    pub fn check_peers(&self, installed: &[Agent]) -> Result<(), Rejection> {
        let missing = self
            .missing_peers(installed)
            .filter(|(_, optional)| !optional)
            .count();
        if missing == 0 {
            Ok(())
        } else {
            Err(Rejection::PeerMissing {
                missing: missing as u64,
            })
        }
    }

    /// Everything the agent asks for that this host lacks: packs, then capabilities, each once.
    #[must_use]
    pub fn missing_requirements(
        &self,
        installed: &[Agent],
        capabilities: &Capabilities,
    ) -> Vec<String> {
        let packs = self.missing_peers(installed).map(|(name, _)| name);
        let mut missing: Vec<String> = Vec::new();
        for name in packs.chain(
            self.texts("requiresCapabilities")
                .filter(|key| !capabilities.provides(key)),
        ) {
            if !name.is_empty() && !missing.iter().any(|known| known == name) {
                missing.push(name.to_owned());
            }
        }
        missing
    }
}

const PACK_NAME_CHARS_MAX: usize = 200;
const PACK_VERSION_CHARS_MAX: usize = 64;
const PEERS_MAX: usize = 64;

fn is_name(text: &str, chars_max: usize) -> bool {
    !text.trim().is_empty()
        && text.chars().count() <= chars_max
        && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Facts;

    pub(super) fn agent(
        id: &str,
        pack: &str,
        more: Value,
        peers: &[(&str, bool)],
    ) -> Result<Agent, Rejection> {
        let mut manifest = json!({"agentId": id, "persona": "P", "modelClass": "general", "systemPrompt": "Be brief."});
        manifest
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let peers = peers
            .iter()
            .map(|(name, optional)| ((*name).to_owned(), *optional))
            .collect();
        let manifest = manifest.as_object().unwrap().clone();
        Agent::new(
            InstallRequest {
                manifest,
                pack_name: Some(pack.to_owned()),
                pack_version: None,
                peers,
            },
            &Policy::default(),
        )
    }

    #[test]
    fn omitted_install_fields_get_defaults() {
        let manifest = json!({"agentId": "local.a.b", "persona": "P", "modelClass": "general", "systemPrompt": "Be brief."});
        let install = InstallRequest {
            manifest: manifest.as_object().unwrap().clone(),
            ..InstallRequest::default()
        };
        let agent = Agent::new(install, &Policy::default()).unwrap();
        assert_eq!(
            (agent.pack_name(), agent.pack_version(), agent.label()),
            ("local", "0.0.0", "P")
        );
        assert_eq!(
            (
                agent.tools().count(),
                agent.has_handoff_schemas(),
                agent.confidence_threshold()
            ),
            (0, false, None)
        );
        assert_eq!((agent.memory_shape(), agent.description()), (None, None));
        assert!(agent.prompt() == Prompt::Text("Be brief."));
        let again = Agent::from_stored(agent.id().to_owned(), agent.body().clone());
        assert_eq!(again, agent);
        assert!(!format!("{agent:?}").contains("brief"));
    }

    #[test]
    fn a_stored_agent_is_read_without_validation() {
        let marked = json!({"packName": "[R]", "peers": 7, "manifest": {"persona": "[R]", "modelClass": "[R]", "confidence": {"defaultThreshold": "[R]"},
            "memoryShape": "[R]", "toolAllowlist": ["[R]", 1], "systemPromptRef": "a.md"}});
        let agent = Agent::from_stored("local.a.b".into(), marked.as_object().unwrap().clone());
        assert_eq!(
            (
                agent.persona(),
                agent.label(),
                agent.confidence_threshold(),
                agent.memory_shape()
            ),
            ("[R]", "[R]", None, None)
        );
        assert_eq!(agent.tools().collect::<Vec<_>>(), ["[R]"]);
        assert!(agent.prompt() == Prompt::File("a.md"));
        assert!(agent.with_prompt("text").prompt() == Prompt::Text("text"));
    }

    #[test]
    fn an_agents_own_pack_does_not_satisfy_its_peer_dependencies() {
        let wants = agent(
            "local.a.b",
            "own",
            json!({}),
            &[("own", false), ("nice", true), ("needed", false)],
        )
        .unwrap();
        assert_eq!(
            wants.check_peers(std::slice::from_ref(&wants)),
            Err(Rejection::PeerMissing { missing: 2 })
        );
        let others = ["own", "needed"]
            .map(|pack| agent(&format!("local.of.{pack}"), pack, json!({}), &[]).unwrap());
        assert_eq!(wants.check_peers(&others), Ok(()));
        let none = Capabilities::compute(Facts::default());
        assert_eq!(wants.missing_requirements(&others, &none), ["nice"]);
        assert_eq!(
            wants.missing_requirements(&[], &none),
            ["needed", "nice", "own"],
            "what went away since is missing, too"
        );
    }

    #[test]
    fn each_missing_requirement_is_listed_once() {
        let asks = json!({"requiresCapabilities": ["memory.search", "host.workspace", "nice", "aiProviders.toolCalling"]});
        let asks = agent("local.a.b", "own", asks, &[("nice", true)]).unwrap();
        let none = Capabilities::compute(Facts::default());
        assert_eq!(
            asks.missing_requirements(&[], &none),
            [
                "nice",
                "memory.search",
                "host.workspace",
                "aiProviders.toolCalling"
            ]
        );
        let some = Capabilities::compute(Facts {
            lexical: true,
            workspace: true,
            ..Facts::default()
        });
        assert_eq!(
            asks.missing_requirements(&[], &some),
            ["nice", "aiProviders.toolCalling"]
        );
    }

    #[test]
    fn pack_name_peers_and_manifest_size_are_validated() {
        let field = |pack: &str, peers: &[(&str, bool)]| {
            agent("local.a.b", pack, json!({}), peers)
                .unwrap_err()
                .field()
        };
        for bad in ["", "  ", "a\nb", &"x".repeat(201)] {
            assert_eq!(field(bad, &[]), Some("packName"));
            assert_eq!(field("p", &[(bad, true)]), Some("peerDependencies"));
        }
        let large = agent(
            "local.a.b",
            "p",
            json!({"systemPrompt": "x".repeat(Policy::default().agent_bytes_max)}),
            &[],
        );
        assert!(matches!(
            large.unwrap_err(),
            Rejection::TooLarge {
                field: "manifest",
                ..
            }
        ));
    }
}
