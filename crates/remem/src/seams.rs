//! The workflow fixtures, agents and secrets that conformance checks need. A host has them only
//! with `--enable-test-seams`.

use anyhow::Context;
use remem_core::agent::InstallRequest;
use remem_core::redact::SecretValue;
use remem_core::{Agent, Policy, Workflow};
use remem_engine::ports::{Ids, RandomIds};
use remem_engine::{CANARY_SECRET, TEST_SECRET};

/// Environment variable with the value of the test secrets; a random value is used if it is absent.
const CANARY_VARIABLE: &str = "OPENWOP_CANARY_SECRET_VALUE";

macro_rules! fixtures {
    ($($name:literal),* $(,)?) => {
        &[$(include_str!(concat!("../conformance/", $name, ".json")),)*]
    };
}

const FIXTURES: &[&str] = fixtures![
    "conformance-agent-identity",
    "conformance-agent-memory-cross-tenant",
    "conformance-agent-memory-injection-budget",
    "conformance-agent-memory-redaction",
    "conformance-agent-memory-roundtrip",
    "conformance-agent-memory-ttl",
    "conformance-capability-missing",
    "conformance-idempotent",
    "conformance-noop",
    "openwop-smoke-byok-roundtrip",
];

const AGENTS: &[&str] = fixtures![
    "agents/core.conformance.identity-agent",
    "agents/core.conformance.memory-agent"
];

/// Returns the agents that conformance checks expect: one that needs nothing, and one that needs
/// durable memory.
pub fn agents(policy: &Policy) -> anyhow::Result<Vec<Agent>> {
    let read = |text: &&str| {
        let manifest = serde_json::from_str(text).context("a manifest is not JSON")?;
        let pack_name = Some("core.conformance".to_owned());
        Ok(Agent::new(
            InstallRequest {
                manifest,
                pack_name,
                ..InstallRequest::default()
            },
            policy,
        )?)
    };
    AGENTS.iter().map(read).collect()
}

/// Returns the workflows that conformance checks run.
pub fn workflows() -> anyhow::Result<Vec<Workflow>> {
    let parse = |text: &&str| {
        let document = serde_json::from_str(text).context("a fixture is not JSON")?;
        Ok(Workflow::parse(document)?)
    };
    FIXTURES.iter().map(parse).collect()
}

/// Returns the secrets that conformance checks resolve.
pub fn secrets() -> Vec<SecretValue> {
    let given = std::env::var(CANARY_VARIABLE)
        .ok()
        .filter(|value| value.chars().count() >= 8);
    let value = zeroize::Zeroizing::new(given.unwrap_or_else(|| RandomIds.api_key().to_string()));
    [CANARY_SECRET, TEST_SECRET]
        .into_iter()
        .map(|name| SecretValue::new(name, value.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fixture_workflows_and_agents_are_valid() {
        let names: Vec<String> = workflows()
            .unwrap()
            .into_iter()
            .map(|workflow| workflow.id)
            .collect();
        assert_eq!(names.len(), FIXTURES.len());
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(agents(&Policy::default()).unwrap().len(), 2);
    }
}
