//! The discovery document of OpenWOP: what this host can do, computed, never written by hand.

use remem_core::Policy;
use remem_core::capability::Capabilities;
use serde_json::{Map, Value, json};

/// The document for `GET /.well-known/openwop`. Capability families stand at the root; `capabilities` mirrors them for
/// older clients.
#[must_use]
pub fn document(capabilities: &Capabilities, policy: &Policy) -> Value {
    let families = families(capabilities, policy);
    let mut document = json!({
        "protocolVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": policy.request_bytes_max,
        },
        "implementation": { "name": "remembrancer", "version": env!("CARGO_PKG_VERSION"), "vendor": "Remembrancer" },
        "extensions": { "x-host-remembrancer-memory-query": { "basePath": "/v1/host/remembrancer" } },
    });
    let root = document.as_object_mut().expect("an object was just written");
    root.extend(families.clone());
    root.insert("capabilities".to_owned(), Value::Object(families));
    document
}

fn families(capabilities: &Capabilities, policy: &Policy) -> Map<String, Value> {
    let facts = capabilities.facts();
    let mut memory = json!({
        "supported": capabilities.supports("read"),
        "writable": capabilities.supports("write"),
        "maxEntrySizeBytes": policy.content_bytes_max,
        "ttlSupported": facts.ttl,
        "retention": { "ttl": facts.ttl, "forget": facts.forget },
    });
    if capabilities.supports("search") {
        memory["search"] = json!({ "supported": true, "modes": ["filter"] });
    }
    if capabilities.supports("attribution") {
        memory["attribution"] = json!({ "supported": true, "emitsWriteEvents": true });
    }
    let mut families = Map::new();
    families.insert("memory".to_owned(), memory);
    if facts.workspace {
        let workspace = json!({
            "supported": true,
            "versioned": true,
            "maxFileBytes": policy.file_bytes_max,
            "maxFiles": policy.files_max,
            "maxVersions": policy.file_versions_max,
        });
        families.insert("workspace".to_owned(), workspace);
    }
    if capabilities.supports("long-term-durability") {
        families.insert("agents".to_owned(), json!({ "supported": false, "memoryBackends": ["long-term"] }));
    }
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_core::capability::Facts;

    #[test]
    fn a_host_claims_only_what_the_facts_support() {
        let all = Facts { durable: true, writable: true, lexical: true, ttl: true, ..Facts::default() };
        let document = document(&Capabilities::compute(all), &Policy::default());
        assert_eq!(document["agents"]["memoryBackends"], json!(["long-term"]));
        assert_eq!(document["memory"]["search"]["modes"], json!(["filter"]));
        assert_eq!(document["memory"]["retention"], json!({"ttl": true, "forget": false}));
        assert_eq!(document["capabilities"]["memory"], document["memory"]);
        assert!(document["memory"].get("compaction").is_none());
        let poor = super::document(&Capabilities::compute(Facts::default()), &Policy::default());
        assert_eq!(poor["memory"]["writable"], json!(false));
        assert!(poor.get("workspace").is_none());
        assert!(poor.get("agents").is_none() && poor["memory"].get("search").is_none());
    }
}
