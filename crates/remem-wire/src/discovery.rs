//! OpenWOP's discovery document: the abilities of this host, computed from `Capabilities` and never
//! written by hand.
//!
//! A family or a part that is off is absent, unless OpenWOP has a flag for it.

use remem_core::Policy;
use remem_core::capability::Capabilities;
use remem_core::distill::TOKENIZER;
use remem_core::permission::{Permission, ROLES};
use remem_core::proposal::ProposalKind;
use serde_json::{Map, Value, json};

/// Version of OpenWOP in the form of its documents: major and minor number.
pub const PROTOCOL_VERSION: &str = "1.0";
/// Versions of OpenWOP that this host serves.
pub const PROTOCOL_VERSIONS: [&str; 1] = [PROTOCOL_VERSION];
/// Version of the execution model in which a run reads what its parent could read when it began the
/// run.
const EXECUTION_MODEL: u32 = 2;

/// Returns the document for `GET /.well-known/openwop`. Capability families are at the root;
/// `capabilities` repeats them for older clients. `fixtures` are the names of the host's own
/// workflows, `activation` is how proposals take effect.
#[must_use]
pub fn document(
    capabilities: &Capabilities,
    policy: &Policy,
    fixtures: &[String],
    activation: &str,
) -> Value {
    let families = families(capabilities, policy, fixtures, activation);
    let mut document = json!({
        "protocolVersion": PROTOCOL_VERSION,
        "protocolVersions": PROTOCOL_VERSIONS,
        "preferredVersion": PROTOCOL_VERSION,
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "supportedTransports": ["rest"],
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxNodeExecutions": remem_core::workflow::NODES_MAX,
            "maxRunDurationMs": policy.run_duration_ms_max,
            "maxRequestBodyBytes": policy.request_bytes_max,
        },
        "implementation": { "name": "remembrancer", "version": env!("CARGO_PKG_VERSION"), "vendor": "Remembrancer" },
        "extensions": { "x-host-remembrancer-memory-query": { "basePath": "/v1/host/remembrancer" } },
    });
    let root = document
        .as_object_mut()
        .expect("an object was just written");
    root.extend(families.clone());
    root.insert("capabilities".to_owned(), Value::Object(families));
    document
}

/// Returns whether a discovery document fits the derived profile `openwop-memory`: a valid document
/// of a host whose memory is writable and durable.
#[must_use]
pub fn is_memory_profile(document: &Value) -> bool {
    let number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let version = document["protocolVersion"]
        .as_str()
        .and_then(|v| v.split_once('.'));
    let limits = ["clarificationRounds", "schemaRounds", "envelopesPerTurn"];
    version.is_some_and(|(major, minor)| number(major) && number(minor))
        && document["supportedEnvelopes"]
            .as_array()
            .is_some_and(|all| all.iter().all(Value::is_string))
        && document["schemaVersions"].is_object()
        && limits.iter().all(|name| document["limits"][name].is_u64())
        && document["memory"]["supported"] == json!(true)
        && document["memory"]["writable"] != json!(false)
        && document["agents"]["memoryBackends"]
            .as_array()
            .is_some_and(|all| all.contains(&json!("long-term")))
}

fn families(
    capabilities: &Capabilities,
    policy: &Policy,
    fixtures: &[String],
    activation: &str,
) -> Map<String, Value> {
    let has = |key: &str| capabilities.provides(key);
    let mut families = Map::new();
    let mut family = |name: &str, value: Option<Value>| {
        value.map(|value| families.insert(name.to_owned(), value))
    };
    family("memory", Some(memory(capabilities, policy)));
    family("agents", agents(capabilities, activation));
    family("authorization", has("authorization").then(authorization));
    family("scheduling", has("scheduling").then(|| scheduling(policy)));
    family("heartbeat", has("heartbeat").then(|| heartbeat(policy)));
    family("workspace", has("workspace").then(|| workspace(policy)));
    let secrets = json!({ "supported": true, "scopes": ["tenant", "user", "run"], "resolution": "host-managed" });
    family("secrets", has("secrets").then_some(secrets));
    let model = json!({ "supported": true, "version": EXECUTION_MODEL, "crossChildMemoryConcurrency": "strict" });
    family(
        "multiAgent",
        has("multiAgent.executionModel").then(|| json!({ "executionModel": model })),
    );
    family(
        "replay",
        has("replay").then(|| json!({ "supported": true, "modes": ["replay", "branch"] })),
    );
    let webhooks = json!({ "supported": true, "signatureAlgorithms": ["v1"], "durable": has("webhooks.durable") });
    family("webhooks", has("webhooks").then_some(webhooks));
    family("fixtures", (!fixtures.is_empty()).then(|| json!(fixtures)));
    families
}

fn memory(capabilities: &Capabilities, policy: &Policy) -> Value {
    let has = |key: &str| capabilities.provides(key);
    let mut memory = json!({
        "supported": has("memory"),
        "writable": has("memory.writable"),
        "maxEntrySizeBytes": policy.content_bytes_max,
        "ttlSupported": has("memory.ttlSupported"),
        "retention": { "ttl": has("memory.retention.ttl"), "forget": has("memory.retention.forget") },
    });
    if has("memory.search") {
        let modes = ["filter", "semantic"]
            .map(|mode| Some(mode).filter(|mode| has(&format!("memory.search.{mode}"))));
        memory["search"] =
            json!({ "supported": true, "modes": modes.into_iter().flatten().collect::<Vec<_>>() });
    }
    if has("memory.compaction") {
        let limits = (policy.distill_entries_max, policy.content_bytes_max);
        memory["compaction"] = json!({ "supported": true, "trigger": "host-managed", "maxInputEntries": limits.0, "maxOutputBytes": limits.1 });
    }
    if has("memory.distillation") {
        memory["distillation"] = json!({
            "supported": true,
            "maxTokenBudget": policy.distill_tokens_max,
            "scheduled": has("scheduling"),
            "indexEmitted": true,
            "tokenizerName": TOKENIZER,
            "archiveRetention": format!("P{}D", policy.archive_retention_ms / 86_400_000),
        });
    }
    if has("memory.attribution") {
        memory["attribution"] = json!({ "supported": true, "emitsWriteEvents": has("memory.attribution.emitsWriteEvents") });
    }
    if has("memory.injectionBudget") {
        memory["injectionBudget"] =
            json!({ "supported": true, "tokenCounter": remem_core::distill::TOKENIZER });
    }
    memory
}

/// Returns the agents family. It lists no model classes: this host calls no model, so it has no
/// reason to refuse one.
fn agents(capabilities: &Capabilities, activation: &str) -> Option<Value> {
    let has = |key: &str| capabilities.provides(key);
    let mut agents = json!({ "supported": has("agents") });
    if has("agents.memoryBackends.long-term") {
        agents["memoryBackends"] = json!(["long-term"]);
    }
    if has("agents.memoryConsolidation") {
        agents["memoryConsolidation"] = json!({ "supported": true, "schedule": "on-demand" });
    }
    if has("agents.commitments") {
        agents["commitments"] =
            json!({ "supported": true, "fireConditions": ["time", "predicate"] });
    }
    if has("agents.manifestRuntime") {
        agents["manifestRuntime"] =
            json!({ "supported": true, "installScope": "tenant", "handoffValidation": false });
    }
    if has("agents.proposals") {
        let kinds = ProposalKind::ALL.map(ProposalKind::as_str);
        agents["proposals"] = json!({ "artifactKinds": kinds, "activation": activation, "duplicationDetection": true });
    }
    // With only `supported: false` the family would carry no information.
    (agents.as_object().is_some_and(|map| map.len() > 1)).then_some(agents)
}

/// Returns the authorization family: each action that is not explicitly allowed is denied.
fn authorization() -> Value {
    let role = |(name, permissions): (&str, &[Permission])| {
        let scopes: Vec<&str> = permissions
            .iter()
            .map(|permission| permission.as_str())
            .collect();
        json!({ "role": name, "scopes": scopes })
    };
    json!({ "supported": true, "failClosed": true, "roles": ROLES.map(role) })
}

/// Returns the scheduling family. `cron` and `delayed` are supported by automations and
/// commitments; calendars are not.
fn scheduling(policy: &Policy) -> Value {
    json!({ "supported": true, "cron": true, "delayed": true, "maxFutureHorizon": format!("P{}D", policy.horizon_ms_max / 86_400_000) })
}

fn heartbeat(policy: &Policy) -> Value {
    json!({
        "supported": true,
        "minIntervalSec": policy.heartbeat_every_ms_min / 1_000,
        "maxRuntimeMs": policy.heartbeat_runtime_ms_max,
    })
}

fn workspace(policy: &Policy) -> Value {
    json!({
        "supported": true,
        "versioned": true,
        "maxFileBytes": policy.file_bytes_max,
        "maxFiles": policy.files_max,
        "maxVersions": policy.file_versions_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::capability::{Facts, MemoryShape, every_combination};

    fn document_of(facts: Facts, fixtures: &[String]) -> Value {
        document(
            &Capabilities::compute(facts),
            &Policy::default(),
            fixtures,
            "direct-rbac",
        )
    }

    /// Checks the document against the facts, restated here without the capability table.
    fn check_families(document: &Value, facts: &Facts) {
        let memory = &document["memory"];
        assert_eq!(memory["supported"], json!(true));
        assert_eq!(memory["writable"], json!(facts.writable));
        assert_eq!(memory["ttlSupported"], json!(facts.ttl));
        assert_eq!(
            memory["retention"],
            json!({"ttl": facts.ttl, "forget": facts.forget})
        );
        let present = |value: &Value, on: bool, what: &str| {
            assert_eq!(!value.is_null(), on, "{what} of {facts:?}");
            assert!(
                value.get("supported").is_none_or(|s| *s == json!(true)),
                "{what} is there, but off"
            );
        };
        let snapshots = facts.runs && facts.snapshots;
        present(&memory["search"], facts.lexical, "search");
        if facts.lexical {
            let modes = if facts.semantic {
                json!(["filter", "semantic"])
            } else {
                json!(["filter"])
            };
            assert_eq!(memory["search"]["modes"], modes);
        }
        present(&memory["compaction"], facts.compaction, "compaction");
        present(
            &memory["distillation"],
            facts.compaction && facts.workspace,
            "distillation",
        );
        present(&memory["attribution"], facts.attribution, "attribution");
        present(&memory["injectionBudget"], facts.runs, "injectionBudget");
        present(&document["workspace"], facts.workspace, "workspace");
        present(&document["secrets"], facts.vault, "secrets");
        present(
            &document["multiAgent"],
            snapshots && facts.durable,
            "multiAgent",
        );
        present(
            &document["multiAgent"]["executionModel"],
            snapshots && facts.durable,
            "executionModel",
        );
        present(&document["replay"], snapshots, "replay");
        present(&document["webhooks"], facts.webhooks, "webhooks");
        let agents = &document["agents"];
        let proposals = facts.proposals && facts.runs;
        assert_eq!(
            !agents.is_null(),
            facts.durable || facts.agents || proposals
        );
        present(&agents["proposals"], proposals, "proposals");
        present(&document["authorization"], proposals, "authorization");
        assert_eq!(
            agents["supported"] == json!(true),
            facts.runs && facts.agents
        );
        present(&agents["memoryBackends"], facts.durable, "memoryBackends");
        present(
            &agents["memoryConsolidation"],
            facts.durable && facts.compaction,
            "memoryConsolidation",
        );
        present(&agents["manifestRuntime"], facts.agents, "manifestRuntime");
        present(
            &agents["commitments"],
            facts.durable && facts.commitments,
            "commitments",
        );
        present(
            &document["heartbeat"],
            facts.durable && facts.commitments,
            "heartbeat",
        );
        let scheduling = facts.durable && facts.runs && facts.scheduling;
        present(&document["scheduling"], scheduling, "scheduling");
        if facts.compaction && facts.workspace {
            assert_eq!(memory["distillation"]["scheduled"], json!(scheduling));
        }
    }

    /// Returns whether the document advertises a key of the capability table.
    fn advertised(document: &Value, key: &str) -> bool {
        let mut at = document;
        for part in key.split('.') {
            let member = |list: &Vec<Value>| list.contains(&json!(part));
            let lists = [at.get("modes"), at.get("fireConditions"), Some(at)]
                .into_iter()
                .flatten()
                .filter_map(Value::as_array);
            if lists.into_iter().any(member) {
                return true;
            }
            match at.get(part) {
                Some(next) => at = next,
                None => return false,
            }
        }
        match at {
            Value::Bool(on) => *on,
            Value::Object(map) => match map.get("supported") {
                Some(on) => *on == json!(true),
                None => map.values().any(|value| *value != json!(false)),
            },
            _ => true,
        }
    }

    #[test]
    fn discovery_advertises_only_supported_features() {
        for facts in every_combination() {
            let document = document_of(facts, &[]);
            check_families(&document, &facts);
            let copies = document["capabilities"].as_object().unwrap();
            for (name, family) in copies {
                assert_eq!(&document[name], family, "the copy of {name}");
            }
            let families = [
                "memory",
                "agents",
                "authorization",
                "workspace",
                "secrets",
                "multiAgent",
                "replay",
                "webhooks",
                "fixtures",
                "scheduling",
                "heartbeat",
            ];
            assert!(
                families
                    .iter()
                    .all(|name| document.get(name).is_some() == copies.contains_key(*name))
            );
            assert!(copies.keys().all(|name| families.contains(&name.as_str())));
            assert_eq!(
                is_memory_profile(&document),
                facts.writable && facts.durable,
                "{facts:?}"
            );
        }
    }

    #[test]
    fn the_document_matches_the_feature_table() {
        for facts in every_combination() {
            let document = document_of(facts, &[]);
            let capabilities = Capabilities::compute(facts);
            for feature in remem_core::capability::FEATURES {
                assert_eq!(
                    advertised(&document, feature.key),
                    capabilities.provides(feature.key),
                    "{} of {facts:?}",
                    feature.key
                );
            }
        }
    }

    /// An agent lacks exactly the dimensions that it asks for and the document does not advertise.
    #[test]
    fn missing_dimensions_are_those_not_advertised() {
        for facts in every_combination() {
            let document = document_of(facts, &[]);
            let capabilities = Capabilities::compute(facts);
            let has = |name: &str| match name {
                "read" => document["memory"]["supported"] == json!(true),
                "write" => document["memory"]["writable"] != json!(false),
                "search" => document["memory"]["search"]["supported"] == json!(true),
                "long-term-durability" => {
                    document["agents"]["memoryBackends"] == json!(["long-term"])
                }
                "compaction" => document["memory"]["compaction"]["supported"] == json!(true),
                "attribution" => document["memory"]["attribution"]["supported"] == json!(true),
                "replay-snapshot" => {
                    document["multiAgent"]["executionModel"]["version"].as_u64() >= Some(2)
                }
                _ => ["ttl", "forget"]
                    .iter()
                    .any(|kind| document["memory"]["retention"][kind] == json!(true)),
            };
            for dimension in remem_core::capability::DIMENSIONS {
                assert_eq!(
                    capabilities.supports(dimension.name),
                    has(dimension.name),
                    "{} of {facts:?}",
                    dimension.name
                );
            }
            for asked in 0..8u8 {
                let shape = MemoryShape {
                    scratchpad: asked & 1 != 0,
                    conversation: asked & 2 != 0,
                    long_term: asked & 4 != 0,
                };
                let mut wanted = if asked == 0 {
                    vec![]
                } else {
                    vec!["read", "write"]
                };
                wanted.extend(shape.long_term.then_some("long-term-durability"));
                wanted.retain(|name| !has(name));
                assert_eq!(capabilities.missing_dimensions(shape), wanted);
            }
        }
    }

    #[test]
    fn fixtures_are_listed_only_if_present() {
        assert!(document_of(Facts::default(), &[]).get("fixtures").is_none());
        let document = document_of(Facts::default(), &["noop".to_owned()]);
        assert_eq!(
            (&document["fixtures"], &document["capabilities"]["fixtures"]),
            (&json!(["noop"]), &json!(["noop"]))
        );
    }

    #[test]
    fn an_invalid_document_is_not_a_memory_profile() {
        let good = document_of(
            Facts {
                durable: true,
                writable: true,
                ..Facts::default()
            },
            &[],
        );
        assert!(is_memory_profile(&good));
        for (pointer, invalid) in [
            ("/protocolVersion", json!("01.0")),
            ("/protocolVersion", json!("1")),
            ("/supportedEnvelopes", json!({})),
            ("/schemaVersions", json!([])),
            ("/limits/schemaRounds", json!(-1)),
            ("/memory/supported", json!("true")),
            ("/memory/writable", json!(false)),
            ("/agents/memoryBackends", json!(["scratchpad"])),
        ] {
            let mut document = good.clone();
            *document.pointer_mut(pointer).unwrap() = invalid;
            assert!(!is_memory_profile(&document), "{pointer}");
        }
        assert!(!is_memory_profile(&Value::Null));
        let mut silent = good;
        silent["memory"].as_object_mut().unwrap().remove("writable");
        assert!(
            is_memory_profile(&silent),
            "a host that does not say is writable"
        );
    }
}
