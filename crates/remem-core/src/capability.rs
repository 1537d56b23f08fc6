//! One source for capability: what this host advertises, degrades and mounts is computed from the same facts.
//!
//! `DIMENSIONS` is the table; `Capabilities::compute` reads it. To add a dimension, add a row. Nothing else in the code
//! may claim a capability by hand.

/// What this process truly has: filled in by the binary from the store, the configuration and the wired parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Entries survive the process.
    pub durable: bool,
    /// Puts and deletes are accepted.
    pub writable: bool,
    /// A lexical index answers queries.
    pub lexical: bool,
    /// A purge pass runs, and reads honour `expiresAt`.
    pub ttl: bool,
    /// Memory about a subject can be forgotten.
    pub forget: bool,
    /// Short-lived entries are compacted or distilled.
    pub compaction: bool,
    /// Runs write with attribution.
    pub attribution: bool,
    /// Runs read a stable snapshot that a replay can repeat.
    pub snapshots: bool,
    /// Workspace files are kept.
    pub workspace: bool,
}

/// One row of the capability model.
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    /// The name in the closed vocabulary of the protocol.
    pub name: &'static str,
    /// What it means, in a line.
    pub doc: &'static str,
    /// Whether the facts support it.
    pub supported: fn(&Facts) -> bool,
}

/// The eight dimensions, in the protocol's order.
pub const DIMENSIONS: [Dimension; 8] = [
    Dimension { name: "read", doc: "list and get entries of a memory", supported: |_| true },
    Dimension { name: "write", doc: "put and delete entries of a memory", supported: |f| f.writable },
    Dimension { name: "search", doc: "find entries by words and filters", supported: |f| f.lexical },
    Dimension { name: "long-term-durability", doc: "entries survive runs and restarts", supported: |f| f.durable },
    Dimension { name: "compaction", doc: "many short-lived entries become few", supported: |f| f.compaction },
    Dimension { name: "attribution", doc: "each write of a run is recorded as an event", supported: |f| f.attribution },
    Dimension { name: "replay-snapshot", doc: "a replay reads what the run read", supported: |f| f.durable && f.snapshots },
    Dimension { name: "retention", doc: "entries end at a given time or by subject", supported: |f| f.ttl || f.forget },
];

/// What the host supports: computed once, asked by every surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    facts: Facts,
}

/// The memory an agent asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryShape {
    /// Working notes of a run.
    pub scratchpad: bool,
    /// The conversation so far.
    pub conversation: bool,
    /// Memory across runs.
    pub long_term: bool,
}

impl Capabilities {
    /// Computes them from the facts.
    #[must_use]
    pub fn compute(facts: Facts) -> Capabilities {
        Capabilities { facts }
    }

    /// The facts behind them.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts
    }

    /// Whether the dimension of that name is supported; an unknown name is not.
    #[must_use]
    pub fn supports(&self, name: &str) -> bool {
        DIMENSIONS.iter().any(|d| d.name == name && (d.supported)(&self.facts))
    }

    /// The dimensions an agent asks for and does not get, in the protocol's order. Empty means: not degraded.
    #[must_use]
    pub fn degraded(&self, shape: MemoryShape) -> Vec<&'static str> {
        let any = shape.scratchpad || shape.conversation || shape.long_term;
        let needs = |name: &str| match name {
            "read" | "write" => any,
            "long-term-durability" => shape.long_term,
            _ => false,
        };
        DIMENSIONS.iter().filter(|d| needs(d.name) && !(d.supported)(&self.facts)).map(|d| d.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(bits: u16) -> Facts {
        let bit = |n: u16| bits >> n & 1 == 1;
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
        }
    }

    #[test]
    fn degraded_is_exactly_what_is_asked_for_and_missing() {
        for bits in 0..256 {
            let capabilities = Capabilities::compute(facts(bits));
            for asked in 0..8u8 {
                let shape = MemoryShape { scratchpad: asked & 1 != 0, conversation: asked & 2 != 0, long_term: asked & 4 != 0 };
                let missing = capabilities.degraded(shape);
                let mut expected = Vec::new();
                if asked != 0 && !facts(bits).writable {
                    expected.push("write");
                }
                if shape.long_term && !facts(bits).durable {
                    expected.push("long-term-durability");
                }
                assert_eq!(missing, expected, "facts {bits:#b}, shape {asked:#b}");
                assert!(missing.iter().all(|name| !capabilities.supports(name)));
            }
        }
    }

    #[test]
    fn names_are_the_protocols_closed_vocabulary() {
        let names: Vec<_> = DIMENSIONS.iter().map(|d| d.name).collect();
        assert_eq!(names, ["read", "write", "search", "long-term-durability", "compaction", "attribution", "replay-snapshot", "retention"]);
        assert!(!Capabilities::compute(facts(255)).supports("telepathy"));
    }
}
