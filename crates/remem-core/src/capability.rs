//! The capabilities of a host. Everything that the host advertises, degrades and mounts is computed
//! from the same facts.
//!
//! Two tables: `DIMENSIONS` are the kinds of memory that an agent can ask for, `FEATURES` the keys
//! of the discovery document. To add one, add a row. No other code may claim a capability.

use crate::sabotage;

/// What this process can do, as the binary knows from the store, the configuration and the parts
/// that it has wired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Entries survive a restart of the process.
    pub durable: bool,
    /// Puts and deletes are accepted.
    pub writable: bool,
    /// A lexical index answers queries.
    pub lexical: bool,
    /// A model makes vectors, and the store searches by them.
    pub semantic: bool,
    /// A purge pass runs, and reads honour `expiresAt`.
    pub ttl: bool,
    /// Memory about a subject can be forgotten.
    pub forget: bool,
    /// Short-lived entries are compacted or distilled.
    pub compaction: bool,
    /// Writes of runs are recorded with the run and node that made them.
    pub attribution: bool,
    /// Runs read a stable snapshot that a replay can repeat.
    pub snapshots: bool,
    /// Workspace files can be stored.
    pub workspace: bool,
    /// Workflows can be executed.
    pub runs: bool,
    /// Agent manifests are installed and listed.
    pub agents: bool,
    /// A vault stores secrets and resolves them for runs.
    pub vault: bool,
    /// Events are delivered to webhooks, and stored until they are.
    pub webhooks: bool,
    /// Promises in texts are recognised as commitments, and fire.
    pub commitments: bool,
    /// Proposals are drafted from what runs did, for people to review.
    pub proposals: bool,
    /// Runs are started at given times.
    pub scheduling: bool,
}

/// One row of the capability model.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// The name in the protocol's closed vocabulary.
    pub name: &'static str,
    /// The meaning of the dimension in one line.
    pub doc: &'static str,
    /// Decides from the facts whether the host supports it.
    pub supported: fn(&Facts) -> bool,
}

/// The eight dimensions, in the protocol's order.
pub const DIMENSIONS: [Dimension; 8] = [
    Dimension {
        name: "read",
        doc: "list and get entries of a memory",
        supported: |_| true,
    },
    Dimension {
        name: "write",
        doc: "put and delete entries of a memory",
        supported: |f| f.writable,
    },
    Dimension {
        name: "search",
        doc: "find entries by words and filters",
        supported: |f| f.lexical,
    },
    Dimension {
        name: "long-term-durability",
        doc: "entries survive runs and restarts",
        supported: |f| f.durable,
    },
    Dimension {
        name: "compaction",
        doc: "many short-lived entries become few",
        supported: |f| f.compaction,
    },
    Dimension {
        name: "attribution",
        doc: "each write of a run is recorded as an event",
        supported: |f| f.attribution,
    },
    Dimension {
        name: "replay-snapshot",
        doc: "a replay reads what the run read",
        supported: |f| f.durable && f.snapshots && f.runs,
    },
    Dimension {
        name: "retention",
        doc: "entries end at a given time or by subject",
        supported: |f| f.ttl || f.forget,
    },
];

/// A key of the discovery document, as it is advertised and as agents require it.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The path of the key in the document, joined with dots.
    pub key: &'static str,
    /// Decides from the facts whether the host supports it.
    pub supported: fn(&Facts) -> bool,
}

const fn feature(key: &'static str, supported: fn(&Facts) -> bool) -> Feature {
    Feature { key, supported }
}

/// Every key that this host may advertise. A key that is not in this table is never provided.
pub const FEATURES: [Feature; 39] = [
    feature("memory", |_| true),
    feature("memory.writable", |f| f.writable),
    feature("memory.search", |f| f.lexical),
    feature("memory.search.filter", |f| f.lexical),
    feature("memory.search.semantic", |f| {
        sabotage!(
            "meaning-is-advertised-without-a-model",
            f.lexical && f.semantic,
            f.lexical
        )
    }),
    feature("memory.ttlSupported", |f| f.ttl),
    feature("memory.retention", |f| f.ttl || f.forget),
    feature("memory.retention.ttl", |f| f.ttl),
    feature("memory.retention.forget", |f| f.forget),
    feature("memory.compaction", |f| f.compaction),
    feature("memory.distillation", |f| f.compaction && f.workspace),
    feature("memory.attribution", |f| f.attribution),
    feature("memory.attribution.emitsWriteEvents", |f| f.attribution),
    feature("memory.injectionBudget", |f| f.runs),
    feature("agents", |f| f.runs && f.agents),
    feature("agents.memoryBackends", |f| f.durable),
    feature("agents.memoryBackends.long-term", |f| f.durable),
    feature("agents.memoryConsolidation", |f| f.compaction && f.durable),
    feature("agents.commitments", |f| f.commitments && f.durable),
    feature("agents.commitments.time", |f| f.commitments && f.durable),
    feature("agents.commitments.predicate", |f| {
        f.commitments && f.durable
    }),
    feature("agents.proposals", |f| f.proposals && f.runs),
    feature("authorization", |f| f.proposals && f.runs),
    feature("scheduling", |f| f.scheduling && f.runs && f.durable),
    feature("scheduling.cron", |f| f.scheduling && f.runs && f.durable),
    feature("heartbeat", |f| f.commitments && f.durable),
    feature("agents.manifestRuntime", |f| f.agents),
    feature("workspace", |f| f.workspace),
    feature("workspace.versioned", |f| f.workspace),
    feature("secrets", |f| f.vault),
    feature("multiAgent", |f| f.runs && f.snapshots && f.durable),
    feature("multiAgent.executionModel", |f| {
        f.runs && f.snapshots && f.durable
    }),
    feature(
        "multiAgent.executionModel.crossChildMemoryConcurrency",
        |f| f.runs && f.snapshots && f.durable,
    ),
    feature("replay", |f| f.runs && f.snapshots),
    feature("replay.replay", |f| f.runs && f.snapshots),
    feature("replay.branch", |f| f.runs && f.snapshots),
    feature("webhooks", |f| f.webhooks),
    feature("webhooks.durable", |f| f.webhooks),
    feature("supportedTransports.rest", |_| true),
];

/// The capabilities of this host, computed once and used by every API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    facts: Facts,
}

/// The kinds of memory that an agent asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryShape {
    /// Working notes within one run.
    pub scratchpad: bool,
    /// The conversation so far.
    pub conversation: bool,
    /// Memory that lasts across runs.
    pub long_term: bool,
}

impl Capabilities {
    /// Computes the capabilities from the facts.
    #[must_use]
    pub fn compute(facts: Facts) -> Capabilities {
        Capabilities { facts }
    }

    /// The facts that they were computed from.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Returns true if the host supports the dimension with this name; an unknown name is not
    /// supported.
    #[must_use]
    pub fn supports(&self, name: &str) -> bool {
        DIMENSIONS
            .iter()
            .any(|d| d.name == name && (d.supported)(&self.facts))
    }

    /// Returns true if the key with this name is advertised as supported; an unknown key is not.
    /// Keys may begin with `host.` or `capabilities.`, as agents write them.
    #[must_use]
    pub fn provides(&self, key: &str) -> bool {
        let plain = ["capabilities.", "host."]
            .iter()
            .find_map(|prefix| key.strip_prefix(prefix))
            .unwrap_or(key);
        FEATURES.iter().any(|f| {
            sabotage!(
                "any-capability-is-provided",
                f.key == plain && (f.supported)(&self.facts),
                f.key == plain
            )
        })
    }

    /// The dimensions that an agent asks for and the host lacks, in the protocol's order. An empty
    /// list means that the agent is not degraded.
    #[must_use]
    pub fn missing_dimensions(&self, shape: MemoryShape) -> Vec<&'static str> {
        let any = shape.scratchpad || shape.conversation || shape.long_term;
        let needs = |name: &str| match name {
            "read" | "write" => any,
            "long-term-durability" => shape.long_term,
            _ => false,
        };
        DIMENSIONS
            .iter()
            .filter(|d| needs(d.name) && !(d.supported)(&self.facts))
            .map(|d| d.name)
            .collect()
    }
}

/// Every combination of facts, for tests that go through all of them.
pub fn every_combination() -> impl Iterator<Item = Facts> {
    (0..1u32 << 17).map(|bits| {
        let bit = |n: u32| bits >> n & 1 == 1;
        Facts {
            durable: bit(0),
            writable: bit(1),
            lexical: bit(2),
            ttl: bit(3),
            forget: bit(4),
            compaction: bit(5),
            attribution: bit(6),
            snapshots: bit(7),
            workspace: bit(8),
            runs: bit(9),
            agents: bit(10),
            vault: bit(11),
            webhooks: bit(12),
            commitments: bit(13),
            proposals: bit(14),
            scheduling: bit(15),
            semantic: bit(16),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_dimensions_are_those_requested_and_unsupported() {
        for facts in every_combination() {
            let capabilities = Capabilities::compute(facts);
            for asked in 0..8u8 {
                let shape = MemoryShape {
                    scratchpad: asked & 1 != 0,
                    conversation: asked & 2 != 0,
                    long_term: asked & 4 != 0,
                };
                let missing = capabilities.missing_dimensions(shape);
                let mut expected = Vec::new();
                if asked != 0 && !facts.writable {
                    expected.push("write");
                }
                if shape.long_term && !facts.durable {
                    expected.push("long-term-durability");
                }
                assert_eq!(missing, expected, "{facts:?}, shape {asked:#b}");
                assert!(missing.iter().all(|name| !capabilities.supports(name)));
            }
        }
    }

    #[test]
    fn dimension_names_match_the_protocol_vocabulary() {
        let names: Vec<_> = DIMENSIONS.iter().map(|d| d.name).collect();
        assert_eq!(
            names,
            [
                "read",
                "write",
                "search",
                "long-term-durability",
                "compaction",
                "attribution",
                "replay-snapshot",
                "retention"
            ]
        );
        let all = Capabilities::compute(every_combination().last().unwrap());
        assert!(names.iter().all(|name| all.supports(name)));
        assert!(!all.supports("telepathy"));
    }

    #[test]
    fn feature_keys_are_unique_and_imply_their_parents() {
        for (n, feature) in FEATURES.iter().enumerate() {
            assert!(
                FEATURES[n + 1..]
                    .iter()
                    .all(|other| other.key != feature.key),
                "{} stands twice",
                feature.key
            );
        }
        for facts in every_combination() {
            let capabilities = Capabilities::compute(facts);
            for feature in FEATURES {
                // `agents` says that agents run; the keys below it hold without that, too.
                let parent = feature
                    .key
                    .rsplit_once('.')
                    .map(|(parent, _)| parent)
                    .filter(|p| *p != "agents" && *p != "supportedTransports");
                if capabilities.provides(feature.key) {
                    assert!(
                        parent.is_none_or(|p| capabilities.provides(p)),
                        "{} of {facts:?}",
                        feature.key
                    );
                }
                assert_eq!(
                    capabilities.provides(&format!("host.{}", feature.key)),
                    capabilities.provides(feature.key)
                );
            }
            for unknown in [
                "",
                ".",
                "host.",
                "memory.",
                "aiProviders.toolCalling",
                "multiAgent.executionModel.verifier",
                "host.host.memory",
            ] {
                assert!(!capabilities.provides(unknown), "{unknown}");
            }
        }
    }
}
