//! Distillation: which parts of many entries a digest keeps, and the bytes of its archive.
//!
//! Extractive: a digest is made of verbatim parts of its sources and of nothing else. The plan is a
//! function of the set of sources, the budget and [`ENGINE`]: integers only, sorted maps, a total
//! order on everything that is compared. Who changes what is selected gives the engine a new name,
//! because archives are found again by it.

mod archive;
mod concepts;
mod cues;
pub mod index;
mod select;
mod units;

pub use archive::{Archive, Malformed};
pub use units::Unit;

use crate::ids::Timestamp;
use concepts::Vocabulary;
use select::Candidate;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The name of this algorithm with all its constants.
pub const ENGINE: &str = "remem-distill-1";

/// What tokens are counted by unless a caller counts otherwise.
pub const TOKENIZER: &str = "o200k_base";

/// No budget is smaller than this.
const FLOOR: u64 = 64;
/// What is left of the input at least, as a divisor: less cannot stand for the whole.
const FLOOR_SHARE: u64 = 8;
/// Topics of a digest.
const TOPICS_MAX: usize = 8;
/// The largest number that JSON readers agree on.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// An entry to distill.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// Its id; of several sources with one id, one is read.
    pub id: String,
    /// When it was written: the order of the digest.
    pub created_at: Timestamp,
    /// What it says.
    pub text: String,
}

/// What bounds a digest besides its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text.
    pub output_bytes_max: usize,
    /// The name of what counts the tokens.
    pub tokenizer: &'static str,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            output_bytes_max: 65_536,
            tokenizer: TOKENIZER,
        }
    }
}

/// Why there is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No source has any text.
    #[error("there is nothing to distill")]
    NothingToDistill,
    /// What the budget allows cannot stand for the sources.
    #[error("the token budget is {budget}, and {minimum} is the least for these sources")]
    BudgetTooSmall {
        /// What was given.
        budget: u64,
        /// What would be enough.
        minimum: u64,
    },
    /// Not even the shortest part fits into the largest text.
    #[error("no part of the sources fits into {limit} bytes")]
    OutputTooLarge {
        /// [`Limits::output_bytes_max`].
        limit: usize,
    },
}

/// What is kept of the sources.
#[derive(Clone, PartialEq, Eq)]
pub struct Digest {
    /// The units, a line each, oldest source first.
    pub text: String,
    /// The same with where they come from.
    pub units: Vec<Unit>,
    /// The ids of all sources that were read, sorted; also of those that nothing was kept of.
    pub sources: Vec<String>,
    /// Names the set of sources: the same ids with the same texts, and nothing else, have this
    /// digest.
    pub source_digest: String,
    /// Tokens of all sources.
    pub tokens_in: u64,
    /// Tokens of what was kept, as it was read and as it is written.
    pub tokens_used: u64,
    /// When the oldest source was written.
    pub from: Timestamp,
    /// When the newest source was written.
    pub to: Timestamp,
    /// What the text is mostly about.
    pub topics: Vec<String>,
    /// The archive, canonical JSON.
    pub archive: Vec<u8>,
    /// SHA-256 of the archive, hexadecimal.
    pub sha256: String,
}

// Sources and digests are content, which no log may show.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({}, {} bytes)", self.id, self.text.len())
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Digest({}, {} units, {} tokens)",
            self.sha256,
            self.units.len(),
            self.tokens_used
        )
    }
}

/// Decides what of the sources to keep within a budget of tokens, counted by `count`. Keeping a
/// unit costs its tokens twice: it is read once and written once.
pub fn plan(
    sources: &[Source],
    budget: u64,
    limits: &Limits,
    count: &dyn Fn(&str) -> usize,
) -> Result<Digest, Refusal> {
    let sources = ordered(sources);
    let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
        return Err(Refusal::NothingToDistill);
    };
    let tokens = |text: &str| u64::try_from(count(text)).unwrap_or(u64::MAX);
    let tokens_in = sources
        .iter()
        .fold(0u64, |sum, source| sum.saturating_add(tokens(&source.text)));
    let floor = FLOOR.max(tokens_in.div_ceil(FLOOR_SHARE));
    let budget = budget.min(NUMBER_MAX);
    if budget < floor {
        return Err(Refusal::BudgetTooSmall {
            budget,
            minimum: floor,
        });
    }
    let units: Vec<Unit> = sources
        .iter()
        .flat_map(|source| units::split(&source.id, &source.text))
        .collect();
    let vocabulary = Vocabulary::read(units.iter().map(|unit| unit.text.as_str()));
    let candidates: Vec<Candidate> = units
        .iter()
        .zip(&vocabulary.held)
        .map(|(unit, held)| candidate(unit, held, &tokens))
        .collect();
    let picked = select::pick(
        &candidates,
        &vocabulary.weights,
        budget,
        limits.output_bytes_max,
    );
    let (kept, tokens_used) = within(&units, picked, budget, &tokens);
    if kept.is_empty() {
        return Err(nothing_fits(&candidates, budget, floor, limits));
    }
    let topics = vocabulary.topics(&kept, TOPICS_MAX);
    let kept: Vec<Unit> = kept.iter().map(|&at| units[at].clone()).collect();
    let mut ids: Vec<String> = sources.iter().map(|source| source.id.clone()).collect();
    ids.sort_unstable();
    let archive = Archive::new(budget, ids.clone(), limits.tokenizer, &kept);
    let bytes = archive.bytes();
    Ok(Digest {
        text: archive.text(),
        source_digest: source_digest(&sources),
        units: kept,
        sources: ids,
        tokens_in,
        tokens_used,
        from: first.created_at,
        to: last.created_at,
        topics,
        sha256: sha256(&bytes),
        archive: bytes,
    })
}

/// Each id once, oldest first. Of two sources with one id the older is taken, then the one whose
/// text sorts first: the order they came in must not matter.
fn ordered(sources: &[Source]) -> Vec<&Source> {
    let mut by_id: BTreeMap<&str, &Source> = BTreeMap::new();
    for source in sources {
        let kept = by_id.entry(source.id.as_str()).or_insert(source);
        if (source.created_at, &source.text) < (kept.created_at, &kept.text) {
            *kept = source;
        }
    }
    let mut sources: Vec<&Source> = by_id.into_values().collect();
    sources.sort_by_key(|source| (source.created_at, source.id.as_str()));
    sources
}

fn candidate(unit: &Unit, held: &[concepts::Held], tokens: &dyn Fn(&str) -> u64) -> Candidate {
    // The line break is written, not read.
    let charge = tokens(&unit.text).saturating_mul(2).saturating_add(1);
    Candidate {
        charge,
        bytes: unit.text.len() + 1,
        factor: cues::factor(&unit.text),
        held: held.to_vec(),
    }
}

/// The picked units in the order of the text, and what they cost together. What a text costs is not
/// the sum of what its lines cost, so the whole is counted; should it be more, the last ones to be
/// picked go.
fn within(
    units: &[Unit],
    mut picked: Vec<usize>,
    budget: u64,
    tokens: &dyn Fn(&str) -> u64,
) -> (Vec<usize>, u64) {
    let mut read = picked
        .iter()
        .fold(0u64, |sum, &at| sum.saturating_add(tokens(&units[at].text)));
    loop {
        let mut kept = picked.clone();
        kept.sort_unstable();
        let lines: Vec<&str> = kept.iter().map(|&at| units[at].text.as_str()).collect();
        let used = if kept.is_empty() {
            0
        } else {
            read.saturating_add(tokens(&lines.join("\n")))
        };
        match picked.last() {
            Some(&last) if used > budget => {
                read = read.saturating_sub(tokens(&units[last].text));
                picked.pop();
            }
            _ => return (kept, used),
        }
    }
}

fn nothing_fits(candidates: &[Candidate], budget: u64, floor: u64, limits: &Limits) -> Refusal {
    match candidates.iter().map(|candidate| candidate.charge).min() {
        None => Refusal::NothingToDistill,
        Some(least) if least > budget => Refusal::BudgetTooSmall {
            budget,
            minimum: floor.max(least),
        },
        // A counter that finds more in a text than in its parts: nobody can say how much is enough.
        Some(_)
            if candidates
                .iter()
                .any(|candidate| candidate.bytes <= limits.output_bytes_max.saturating_add(1)) =>
        {
            Refusal::BudgetTooSmall {
                budget,
                minimum: budget + 1,
            }
        }
        Some(_) => Refusal::OutputTooLarge {
            limit: limits.output_bytes_max,
        },
    }
}

/// Ids and texts with their lengths before them, so that no two sets have the same bytes.
fn source_digest(sources: &[&Source]) -> String {
    let mut sources: Vec<&&Source> = sources.iter().collect();
    sources.sort_by_key(|source| source.id.as_str());
    let mut hash = Sha256::new();
    hash.update((sources.len() as u64).to_be_bytes());
    for source in sources {
        let text = Sha256::digest(source.text.as_bytes());
        hash.update((source.id.len() as u64).to_be_bytes());
        hash.update(source.id.as_bytes());
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hex(&hash.finalize())
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
