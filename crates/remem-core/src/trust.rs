//! Trust: how far a source is believed, and the evidence that a claim rests on. Evidence is a small
//! set of digests on the claim itself, without texts or names. Its strength is computed from the
//! set each time, so that repetition adds nothing. May not decide what follows for a claim
//! (`promote`, `conflict`).

use crate::entry::UnknownName;
use crate::sabotage;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::str::FromStr;

/// The kind of source that a claim comes from, least trusted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Trust {
    /// A page, a document or an answer of an unknown party.
    Untrusted,
    /// The conclusion of a model.
    #[default]
    Model,
    /// The output of one of the operator's tools.
    Tool,
    /// An accepted action that was built on the claim.
    Action,
    /// A statement of the operator.
    Operator,
}

impl Trust {
    /// All levels of trust, least trusted first.
    pub const ALL: [Trust; 5] = [
        Trust::Untrusted,
        Trust::Model,
        Trust::Tool,
        Trust::Action,
        Trust::Operator,
    ];

    /// The stable name, as stored.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Trust::Untrusted => "untrusted",
            Trust::Model => "model",
            Trust::Tool => "tool",
            Trust::Action => "action",
            Trust::Operator => "operator",
        }
    }

    /// The lower of two: a text made from both is trusted no more than the weaker.
    #[must_use]
    pub fn weaker(self, other: Trust) -> Trust {
        self.min(other)
    }

    /// The weight of one source in a claim's evidence.
    fn units(self) -> u32 {
        match self {
            Trust::Untrusted | Trust::Model => 1,
            Trust::Tool => 2,
            Trust::Action => 3,
            Trust::Operator => 4,
        }
    }

    /// The first letter of the name; no two levels share it.
    fn letter(self) -> &'static str {
        &self.as_str()[..1]
    }
}

impl FromStr for Trust {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Trust, UnknownName> {
        Trust::ALL
            .into_iter()
            .find(|trust| trust.as_str() == text)
            .ok_or(UnknownName)
    }
}

/// The most weight that all untrusted sources have together.
const UNTRUSTED_UNITS_MAX: u32 = 2;

/// One source. The order is that of strength, strongest first, so that a set which is too long is
/// cut at its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvidenceSource {
    trust: Reverse<Trust>,
    thread: [u8; 8],
    origin: [u8; 8],
}

impl EvidenceSource {
    fn text(&self) -> String {
        format!(
            "{}:{}.{}",
            self.trust.0.letter(),
            hex(&self.thread),
            hex(&self.origin)
        )
    }

    fn parse(text: &str) -> Option<EvidenceSource> {
        let (letter, digests) = text.split_once(':')?;
        let (thread, origin) = digests.split_once('.')?;
        let trust = Trust::ALL
            .into_iter()
            .find(|trust| trust.letter() == letter)?;
        Some(EvidenceSource {
            trust: Reverse(trust),
            thread: unhex(thread)?,
            origin: unhex(origin)?,
        })
    }
}

/// The sources of a claim, each as its trust and digests of its thread and its origin. Sources of
/// one trust level in one thread count as one, however often they speak and through however many
/// origins.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Evidence(Vec<EvidenceSource>);

impl Evidence {
    /// The most sources of one set; the strongest are kept.
    pub const SOURCES_MAX: usize = 32;

    /// Evidence from one source: its trust, the thread in which it spoke, and its exact origin (a
    /// tool, an address, a speaker).
    #[must_use]
    pub fn of(trust: Trust, thread: &str, origin: &str) -> Evidence {
        Evidence(vec![EvidenceSource {
            trust: Reverse(trust),
            thread: digest("thread", thread),
            origin: digest("origin", origin),
        }])
    }

    /// The sources of both. Of one trust level and thread the origin with the least digest stays,
    /// so that the result does not depend on the order in which sources came.
    #[must_use]
    pub fn union(&self, other: &Evidence) -> Evidence {
        let all: BTreeSet<EvidenceSource> = self.0.iter().chain(&other.0).copied().collect();
        let mut sources: Vec<EvidenceSource> = all.into_iter().collect();
        sabotage!(
            "a-thread-counts-as-often-as-it-speaks",
            sources.dedup_by_key(|source| (source.trust, source.thread))
        );
        sources.truncate(Evidence::SOURCES_MAX);
        Evidence(sources)
    }

    /// The weight of all sources together.
    #[must_use]
    pub fn units(&self) -> u32 {
        let (untrusted, trusted): (Vec<Trust>, Vec<Trust>) =
            self.trusts().partition(|trust| *trust == Trust::Untrusted);
        let sum = |trusts: Vec<Trust>| trusts.into_iter().map(Trust::units).sum::<u32>();
        sum(trusted)
            + sabotage!(
                "untrusted-sources-add-up",
                sum(untrusted).min(UNTRUSTED_UNITS_MAX),
                sum(untrusted)
            )
    }

    /// The number of threads in which the claim was made.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0
            .iter()
            .map(|source| source.thread)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// The trust of the best source; untrusted without any source.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.trusts().max().unwrap_or(Trust::Untrusted)
    }

    /// Returns true if no source is trusted.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.trust() == Trust::Untrusted
    }

    /// The number of sources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no source.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stored form: a letter and digests for each source, such as `o:1f….9c…,t:…`.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0
            .iter()
            .map(EvidenceSource::text)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Reads the stored form; `None` if the text is not exactly what [`Evidence::to_text`] writes.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Evidence> {
        if text.is_empty() {
            return Some(Evidence::default());
        }
        let sources: Option<Vec<EvidenceSource>> =
            text.split(',').map(EvidenceSource::parse).collect();
        let evidence = Evidence(sources?);
        (evidence.union(&evidence) == evidence).then_some(evidence)
    }

    fn trusts(&self) -> impl Iterator<Item = Trust> {
        self.0.iter().map(|source| source.trust.0)
    }
}

impl std::fmt::Debug for Evidence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Evidence({} sources, {} units)",
            self.len(),
            self.units()
        )
    }
}

/// The first eight bytes of a hash. The kind of name is part of the hashed text, so that a thread
/// and an origin of one name differ.
fn digest(what: &str, name: &str) -> [u8; 8] {
    let hash = blake3::hash(format!("{what} {name}").as_bytes());
    std::array::from_fn(|at| hash.as_bytes()[at])
}

fn hex(bytes: &[u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(*bytes))
}

fn unhex(text: &str) -> Option<[u8; 8]> {
    let plain = text.len() == 16
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u64::from_str_radix(text, 16).ok().map(u64::to_be_bytes))?
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
