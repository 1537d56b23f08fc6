//! The workflow definition that a run executes. It is read and checked once, and trusted
//! afterwards.
//!
//! This host runs memory nodes, one after the other in the order of the edges. Features that
//! it does not support (conditions on edges, cycles) are refused when the definition is installed;
//! an unknown node type fails the run that comes to it.

use crate::ids::MemoryRef;
use crate::rejection::Rejection;
use crate::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The most nodes of one definition.
pub const NODES_MAX: usize = 100;
const NAME_CHARS_MAX: usize = 128;

/// A workflow definition that has passed the checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    pub id: String,
    /// The nodes in the order in which they run.
    pub nodes: Vec<Node>,
    /// The variables that the workflow declares.
    pub variables: Vec<Variable>,
    /// The whole definition as it was installed.
    pub document: Map<String, Value>,
}

/// One node of a workflow.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// The name of the node, unique within the workflow.
    pub id: String,
    /// The type of the node, such as `core.noop`.
    pub type_id: String,
    #[serde(default)]
    pub config: Map<String, Value>,
    /// The agent that the node acts for.
    #[serde(default)]
    pub agent: Option<AgentRef>,
    /// True if the node is skipped.
    #[serde(default)]
    pub disabled: bool,
}

/// A reference to the agent that a node or a run acts for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentRef {
    /// The id of the agent, 3–256 characters.
    pub agent_id: String,
    /// A name for people to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The class of model that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_class: Option<String>,
    /// The memory that it works with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ref: Option<String>,
    /// The version of the agent, or …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// … the channel that its version comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The manifest that it was installed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_manifest_id: Option<String>,
}

/// A variable that a workflow declares.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    pub name: String,
    /// `string`, `number`, `boolean`, `object` or `array`.
    pub r#type: String,
    /// True if a run must be given a value.
    #[serde(default)]
    pub required: bool,
    /// The value if a run is given none.
    #[serde(default)]
    pub default_value: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    id: String,
    nodes: Vec<Node>,
    #[serde(default)]
    edges: Vec<Edge>,
    #[serde(default)]
    variables: Vec<Variable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edge {
    source_node_id: String,
    target_node_id: String,
    #[serde(default)]
    condition: Option<Value>,
}

fn invalid(field: &'static str, rule: &'static str) -> Rejection {
    Rejection::Invalid { field, rule }
}

impl Workflow {
    /// Reads and checks a definition. The error names the part and the rule, never a value.
    pub fn parse(document: Map<String, Value>) -> Result<Workflow, Rejection> {
        let shape = "must be a definition with id, nodes (each with id and typeId) and, as needed, edges and variables";
        let definition: Definition = strict_json::from_value(Value::Object(document.clone()))
            .map_err(|_| invalid("workflow", shape))?;
        if !is_workflow_id(&definition.id) {
            return Err(Rejection::MalformedName { field: "id" });
        }
        if definition.nodes.is_empty() {
            return Err(Rejection::Empty { field: "nodes" });
        }
        if definition.nodes.len() > NODES_MAX {
            let actual = definition.nodes.len() as u64;
            return Err(Rejection::TooLarge {
                field: "nodes",
                unit: "items",
                limit: NODES_MAX as u64,
                actual,
            });
        }
        definition.nodes.iter().try_for_each(Node::check)?;
        definition.variables.iter().try_for_each(Variable::check)?;
        if definition.edges.iter().any(|edge| edge.condition.is_some()) {
            return Err(invalid(
                "edges",
                "must have no condition: this host runs every node",
            ));
        }
        let nodes = topological_order(definition.nodes, &definition.edges)?;
        Ok(Workflow {
            id: definition.id,
            nodes,
            variables: definition.variables,
            document,
        })
    }

    /// The variables at the start of a run: the given values of declared variables, and defaults
    /// for the others.
    pub fn initial_variables(
        &self,
        inputs: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Rejection> {
        let mut variables = Map::new();
        for variable in &self.variables {
            let given = inputs.get(&variable.name).filter(|value| !value.is_null());
            if given.is_none() && variable.required {
                return Err(invalid(
                    "inputs",
                    "must hold every variable that the workflow requires",
                ));
            }
            if given.is_some_and(|value| !variable.accepts(value)) {
                return Err(invalid(
                    "inputs",
                    "must give each variable a value of its declared type",
                ));
            }
            if let Some(value) = given.or(variable.default_value.as_ref()) {
                variables.insert(variable.name.clone(), value.clone());
            }
        }
        Ok(variables)
    }
}

/// Returns true if a text can be the name of a workflow: 1–128 of `a-z 0-9 _ -`, beginning with a
/// letter.
#[must_use]
pub fn is_workflow_id(text: &str) -> bool {
    text.len() <= NAME_CHARS_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

impl Node {
    fn check(&self) -> Result<(), Rejection> {
        let fits = |text: &str| {
            (1..=NAME_CHARS_MAX).contains(&text.chars().count())
                && !text.chars().any(char::is_control)
        };
        let typed = self.type_id.starts_with(|c: char| c.is_ascii_lowercase())
            && self
                .type_id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if !fits(&self.id) || !fits(&self.type_id) || !typed {
            return Err(Rejection::MalformedName { field: "nodes" });
        }
        self.agent.as_ref().map_or(Ok(()), AgentRef::check)
    }
}

impl AgentRef {
    /// Checks the lengths and names of all fields.
    pub fn check(&self) -> Result<(), Rejection> {
        let long = |text: &Option<String>, max: usize| {
            text.as_ref().is_some_and(|text| text.chars().count() > max)
        };
        if !(3..=256).contains(&self.agent_id.chars().count())
            || self.agent_id.chars().any(char::is_control)
        {
            return Err(Rejection::MalformedName {
                field: "agent.agentId",
            });
        }
        if self
            .memory_ref
            .as_ref()
            .is_some_and(|name| MemoryRef::parse(name).is_none())
        {
            return Err(Rejection::MalformedName {
                field: "agent.memoryRef",
            });
        }
        if long(&self.name, 256)
            || long(&self.version, 64)
            || long(&self.channel, 64)
            || long(&self.source_manifest_id, 256)
        {
            return Err(invalid("agent", "has a field that is too long"));
        }
        if self.version.is_some() && self.channel.is_some() {
            return Err(invalid(
                "agent",
                "must not name both a version and a channel",
            ));
        }
        let known = |class: &String| MODEL_CLASSES.contains(&class.as_str());
        if !self.model_class.as_ref().is_none_or(known) {
            return Err(invalid(
                "agent.modelClass",
                "must be one of the protocol's classes",
            ));
        }
        Ok(())
    }
}

/// The classes of model that an agent of a run can ask for.
pub const MODEL_CLASSES: [&str; 9] = [
    "reasoning",
    "tool-using",
    "chat",
    "code",
    "vision",
    "multimodal",
    "embedding",
    "classification",
    "retrieval",
];

impl Variable {
    fn check(&self) -> Result<(), Rejection> {
        let known =
            ["string", "number", "boolean", "object", "array"].contains(&self.r#type.as_str());
        if self.name.is_empty() || self.name.chars().count() > NAME_CHARS_MAX || !known {
            return Err(invalid("variables", "must each have a name and a type"));
        }
        Ok(())
    }

    fn accepts(&self, value: &Value) -> bool {
        match self.r#type.as_str() {
            "string" => value.is_string(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "object" => value.is_object(),
            _ => value.is_array(),
        }
    }
}

/// Sorts nodes so that each comes after those that lead to it; otherwise the given order is kept.
fn topological_order(nodes: Vec<Node>, edges: &[Edge]) -> Result<Vec<Node>, Rejection> {
    let place: HashMap<&str, usize> = nodes
        .iter()
        .enumerate()
        .map(|(n, node)| (node.id.as_str(), n))
        .collect();
    if place.len() != nodes.len() {
        return Err(invalid("nodes", "must have unique ids"));
    }
    let mut waits_for = vec![Vec::new(); nodes.len()];
    for edge in edges {
        let ends = place
            .get(edge.source_node_id.as_str())
            .zip(place.get(edge.target_node_id.as_str()));
        let (source, target) = ends.ok_or(invalid("edges", "must connect two of the nodes"))?;
        waits_for[*target].push(*source);
    }
    let mut order = Vec::new();
    let mut done = vec![false; nodes.len()];
    while order.len() < nodes.len() {
        let ready = (0..nodes.len())
            .find(|n| !done[*n] && waits_for[*n].iter().all(|before| done[*before]));
        let next = ready.ok_or(invalid("edges", "must not form a cycle"))?;
        done[next] = true;
        order.push(next);
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|n| nodes[n].take()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(document: Value) -> Result<Workflow, Rejection> {
        Workflow::parse(document.as_object().cloned().unwrap())
    }

    fn node(id: &str) -> Value {
        json!({"id": id, "typeId": "core.noop"})
    }

    #[test]
    fn nodes_are_sorted_topologically() {
        let edge = |a: &str, b: &str| json!({"id": "e", "sourceNodeId": a, "targetNodeId": b});
        let edges = json!([edge("c", "a"), edge("b", "a"), edge("c", "b")]);
        let workflow = parse(json!({"id": "w", "nodes": [node("a"), node("b"), node("c"), node("d")], "edges": edges})).unwrap();
        assert_eq!(
            workflow
                .nodes
                .iter()
                .map(|n| n.id.as_str())
                .collect::<Vec<_>>(),
            ["c", "b", "a", "d"]
        );
    }

    #[test]
    fn invalid_workflows_are_rejected_by_field() {
        let edges = |a: &str, b: &str| json!([{"sourceNodeId": a, "targetNodeId": b}, {"sourceNodeId": b, "targetNodeId": a}]);
        let with = |more: Value| {
            let mut document = json!({"id": "w", "nodes": [node("a"), node("b")]});
            document
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().cloned().unwrap());
            parse(document).unwrap_err().field()
        };
        assert_eq!(with(json!({"edges": edges("a", "b")})), Some("edges"));
        assert_eq!(with(json!({"edges": edges("a", "x")})), Some("edges"));
        assert_eq!(
            with(json!({"edges": [{"sourceNodeId": "a", "targetNodeId": "b", "condition": {}}]})),
            Some("edges")
        );
        assert_eq!(with(json!({"id": "Not-a-name"})), Some("id"));
        assert_eq!(with(json!({"nodes": []})), Some("nodes"));
        assert_eq!(
            with(json!({"nodes": [node("a"), node("a")]})),
            Some("nodes")
        );
        assert_eq!(with(json!({"nodes": [{"id": "a"}]})), Some("workflow"));
        assert_eq!(with(json!({"nodes": vec![node("a"); 101]})), Some("nodes"));
        assert_eq!(
            with(json!({"variables": [{"name": "v", "type": "thing"}]})),
            Some("variables")
        );
        let agent = |agent: Value| {
            with(json!({"nodes": [{"id": "a", "typeId": "core.noop", "agent": agent}]}))
        };
        assert_eq!(agent(json!({"agentId": "ab"})), Some("agent.agentId"));
        assert_eq!(
            agent(json!({"agentId": "core.a.b", "memoryRef": "../x"})),
            Some("agent.memoryRef")
        );
        assert_eq!(
            agent(json!({"agentId": "core.a.b", "modelClass": "oracle"})),
            Some("agent.modelClass")
        );
        assert_eq!(
            agent(json!({"agentId": "core.a.b", "version": "1", "channel": "c"})),
            Some("agent")
        );
        assert_eq!(
            agent(json!({"agentId": "core.a.b", "more": 1})),
            Some("workflow")
        );
    }

    #[test]
    fn a_run_starts_with_the_declared_variables_only() {
        let variables = json!([{"name": "nonce", "type": "string", "required": true}, {"name": "n", "type": "number", "defaultValue": 3}]);
        let workflow =
            parse(json!({"id": "w", "nodes": [node("a")], "variables": variables})).unwrap();
        let start =
            |inputs: Value| workflow.initial_variables(&inputs.as_object().cloned().unwrap());
        assert_eq!(
            start(json!({"nonce": "x", "other": "dropped"})).unwrap(),
            json!({"nonce": "x", "n": 3}).as_object().cloned().unwrap()
        );
        assert_eq!(start(json!({})).unwrap_err().field(), Some("inputs"));
        assert_eq!(
            start(json!({"nonce": 1})).unwrap_err().field(),
            Some("inputs")
        );
    }
}
