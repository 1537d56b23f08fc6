//! Trust: how far a source is believed, and the evidence that a claim rests on. Evidence is a small
//! set of digests on the claim itself; it knows neither texts nor names, and strength is counted
//! anew from the set each time, so that hearing the same again adds nothing. May not decide what
//! becomes of a claim (`promote`, `conflict`).

use crate::entry::UnknownName;
use crate::sabotage;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::str::FromStr;

/// Where a claim comes from, the least believed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Trust {
    /// A page, a document or an answer of somebody unknown.
    Untrusted,
    /// A model concluded it.
    #[default]
    Model,
    /// A tool of the house saw it.
    Tool,
    /// An accepted action was built on it.
    Action,
    /// The operator said so.
    Operator,
}

impl Trust {
    /// Every trust, the least believed first.
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

    /// The lower of two: what is made from both is believed no more than the weaker.
    #[must_use]
    pub fn meet(self, other: Trust) -> Trust {
        self.min(other)
    }

    /// What one source counts.
    fn units(self) -> u32 {
        match self {
            Trust::Untrusted | Trust::Model => 1,
            Trust::Tool => 2,
            Trust::Action => 3,
            Trust::Operator => 4,
        }
    }

    /// The first letter of the name, which no two share.
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

/// All untrusted sources together count no more than this.
const UNTRUSTED_UNITS_MAX: u32 = 2;

/// One source. The order is that of strength, the strongest first; so a set that is too long is cut
/// at its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Source {
    trust: Reverse<Trust>,
    thread: [u8; 8],
    origin: [u8; 8],
}

impl Source {
    fn text(&self) -> String {
        format!(
            "{}:{}.{}",
            self.trust.0.letter(),
            hex(&self.thread),
            hex(&self.origin)
        )
    }

    fn read(text: &str) -> Option<Source> {
        let (letter, digests) = text.split_once(':')?;
        let (thread, origin) = digests.split_once('.')?;
        let trust = Trust::ALL
            .into_iter()
            .find(|trust| trust.letter() == letter)?;
        Some(Source {
            trust: Reverse(trust),
            thread: unhex(thread)?,
            origin: unhex(origin)?,
        })
    }
}

/// What a claim rests on: sources, each as its trust and digests of its thread and its origin. One
/// kind of source in one thread is one source, however often it speaks and through however many
/// origins.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Evidence(Vec<Source>);

impl Evidence {
    /// A set keeps no more sources than this: the strongest.
    pub const SOURCES_MAX: usize = 32;

    /// One source: what kind it is, in which thread it spoke, and what exactly it was (a tool, an
    /// address, a speaker).
    #[must_use]
    pub fn of(trust: Trust, thread: &str, origin: &str) -> Evidence {
        Evidence(vec![Source {
            trust: Reverse(trust),
            thread: digest("thread", thread),
            origin: digest("origin", origin),
        }])
    }

    /// The sources of both. Of one kind and thread the origin with the least digest stays, so that
    /// the order in which sources were met leaves no trace.
    #[must_use]
    pub fn union(&self, other: &Evidence) -> Evidence {
        let all: BTreeSet<Source> = self.0.iter().chain(&other.0).copied().collect();
        let mut sources: Vec<Source> = all.into_iter().collect();
        sabotage!(
            "a-thread-counts-as-often-as-it-speaks",
            sources.dedup_by_key(|source| (source.trust, source.thread))
        );
        sources.truncate(Evidence::SOURCES_MAX);
        Evidence(sources)
    }

    /// How much the sources count together.
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

    /// In how many threads it was heard.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0
            .iter()
            .map(|source| source.thread)
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// The best source: what the claim rests on. Without any, nothing is to be believed.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.trusts().max().unwrap_or(Trust::Untrusted)
    }

    /// Whether no source is trusted.
    #[must_use]
    pub fn is_untrusted(&self) -> bool {
        self.trust() == Trust::Untrusted
    }

    /// How many sources there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no source.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As stored: a letter and digests for each source, such as `o:1f….9c…,t:…`.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.0
            .iter()
            .map(Source::text)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// As stored. Nothing, if the text is not exactly what [`Evidence::to_text`] writes.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Evidence> {
        if text.is_empty() {
            return Some(Evidence::default());
        }
        let sources: Option<Vec<Source>> = text.split(',').map(Source::read).collect();
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

/// The first eight bytes of a hash. What is hashed is part of it, so that a thread and an origin of
/// one name differ.
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
