//! Distillation: selects the parts of many entries that a digest keeps, and writes its archive.
//!
//! Extractive: a digest is made of verbatim parts of its sources and of nothing else. The plan is a
//! function of the set of sources, the budget and [`ENGINE`]: integers only, sorted maps, a total
//! order on everything that is compared. A change of the selection needs a new engine name, because
//! archives are found again by it.

mod archive;
mod concepts;
mod cues;
pub mod index;
mod select;
mod units;

pub use archive::{Archive, MalformedArchive};
pub use units::DigestUnit;

use crate::ids::Timestamp;
use concepts::ConceptVocabulary;
use select::UnitCandidate;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The name of this algorithm with all its constants.
pub const ENGINE: &str = "remem-distill-1";

/// The tokenizer that counts tokens unless a caller chooses another.
pub const TOKENIZER: &str = "o200k_base";

/// The smallest budget that is accepted.
const BUDGET_MIN: u64 = 64;
/// The smallest budget as a fraction of the input's tokens (one over this): a shorter digest cannot
/// represent the whole.
const BUDGET_SHARE_MIN: u64 = 8;
/// The most topics of a digest.
const TOPICS_MAX: usize = 8;
/// The largest integer that all JSON readers represent exactly.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// An entry to distill.
#[derive(Clone, PartialEq, Eq)]
pub struct DistillSource {
    /// The id of the entry; of several sources with one id, one is read.
    pub id: String,
    /// The creation time, which determines the order of the digest.
    pub created_at: Timestamp,
    pub text: String,
}

/// The limits of a digest besides its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestLimits {
    /// The largest size of the text, in bytes.
    pub output_bytes_max: usize,
    /// The name of the tokenizer.
    pub tokenizer: &'static str,
}

impl Default for DigestLimits {
    fn default() -> DigestLimits {
        DigestLimits {
            output_bytes_max: 65_536,
            tokenizer: TOKENIZER,
        }
    }
}

/// The reason why no digest was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistillError {
    /// No source has any text.
    #[error("there is nothing to distill")]
    NothingToDistill,
    /// The budget is too small for a digest that represents the sources.
    #[error("the token budget is {budget}, and {minimum} is the least for these sources")]
    BudgetTooSmall {
        /// The budget that was given.
        budget: u64,
        /// The least budget that is enough.
        minimum: u64,
    },
    /// Not even the shortest part fits into the size limit.
    #[error("no part of the sources fits into {limit} bytes")]
    OutputTooLarge {
        /// The limit that was given, [`Limits::output_bytes_max`].
        limit: usize,
    },
}

/// The selected parts of the sources, with their archive.
#[derive(Clone, PartialEq, Eq)]
pub struct TextDigest {
    /// The units, a line each, oldest source first.
    pub text: String,
    /// The units with their positions in the sources.
    pub units: Vec<DigestUnit>,
    /// The ids of all sources that were read, sorted; also of those that contributed nothing.
    pub sources: Vec<String>,
    /// A hash that identifies the set of sources: only the same ids with the same texts have it.
    pub source_digest: String,
    /// The number of tokens of all sources.
    pub tokens_in: u64,
    /// The number of tokens of the kept units, counted twice: as read and as written.
    pub tokens_used: u64,
    /// The creation time of the oldest source.
    pub from: Timestamp,
    /// The creation time of the newest source.
    pub to: Timestamp,
    /// The main topics of the text.
    pub topics: Vec<String>,
    /// The archive, in canonical JSON.
    pub archive: Vec<u8>,
    /// SHA-256 of the archive, hexadecimal.
    pub sha256: String,
}

// Sources and digests are content, which no log may show.
impl std::fmt::Debug for DistillSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({}, {} bytes)", self.id, self.text.len())
    }
}

impl std::fmt::Debug for TextDigest {
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

/// Selects the units of the sources to keep within a budget of tokens, counted by `count`. Keeping
/// a unit costs its tokens twice: it is read once and written once.
pub fn plan_digest(
    sources: &[DistillSource],
    budget: u64,
    limits: &DigestLimits,
    count: &dyn Fn(&str) -> usize,
) -> Result<TextDigest, DistillError> {
    let sources = oldest_first(sources);
    let (Some(first), Some(last)) = (sources.first(), sources.last()) else {
        return Err(DistillError::NothingToDistill);
    };
    let tokens = |text: &str| u64::try_from(count(text)).unwrap_or(u64::MAX);
    let tokens_in = sources
        .iter()
        .fold(0u64, |sum, source| sum.saturating_add(tokens(&source.text)));
    let floor = BUDGET_MIN.max(tokens_in.div_ceil(BUDGET_SHARE_MIN));
    let budget = budget.min(NUMBER_MAX);
    if budget < floor {
        return Err(DistillError::BudgetTooSmall {
            budget,
            minimum: floor,
        });
    }
    let units: Vec<DigestUnit> = sources
        .iter()
        .flat_map(|source| units::split_text(&source.id, &source.text))
        .collect();
    let vocabulary = ConceptVocabulary::read(units.iter().map(|unit| unit.text.as_str()));
    let candidates: Vec<UnitCandidate> = units
        .iter()
        .zip(&vocabulary.unit_concepts)
        .map(|(unit, held)| unit_candidate(unit, held, &tokens))
        .collect();
    let picked = select::pick_units(
        &candidates,
        &vocabulary.weights,
        budget,
        limits.output_bytes_max,
    );
    let (kept, tokens_used) = within_budget(&units, picked, budget, &tokens);
    if kept.is_empty() {
        return Err(no_unit_error(&candidates, budget, floor, limits));
    }
    let topics = vocabulary.topics(&kept, TOPICS_MAX);
    let kept: Vec<DigestUnit> = kept.iter().map(|&at| units[at].clone()).collect();
    let mut ids: Vec<String> = sources.iter().map(|source| source.id.clone()).collect();
    ids.sort_unstable();
    let archive = Archive::new(budget, ids.clone(), limits.tokenizer, &kept);
    let bytes = archive.bytes();
    Ok(TextDigest {
        text: archive.text(),
        source_digest: source_digest(&sources),
        units: kept,
        sources: ids,
        tokens_in,
        tokens_used,
        from: first.created_at,
        to: last.created_at,
        topics,
        sha256: sha256_hex(&bytes),
        archive: bytes,
    })
}

/// The sources, each id once, oldest first. Of two sources with one id the older one is used, then
/// the one whose text sorts first: the order of the arguments must not matter.
fn oldest_first(sources: &[DistillSource]) -> Vec<&DistillSource> {
    let mut by_id: BTreeMap<&str, &DistillSource> = BTreeMap::new();
    for source in sources {
        let kept = by_id.entry(source.id.as_str()).or_insert(source);
        if (source.created_at, &source.text) < (kept.created_at, &kept.text) {
            *kept = source;
        }
    }
    let mut sources: Vec<&DistillSource> = by_id.into_values().collect();
    sources.sort_by_key(|source| (source.created_at, source.id.as_str()));
    sources
}

/// A unit with its cost and the concepts that it covers.
fn unit_candidate(
    unit: &DigestUnit,
    held: &[concepts::UnitConcept],
    tokens: &dyn Fn(&str) -> u64,
) -> UnitCandidate {
    // The line break is written, not read.
    let charge = tokens(&unit.text).saturating_mul(2).saturating_add(1);
    UnitCandidate {
        token_cost: charge,
        bytes: unit.text.len() + 1,
        memorability: cues::memorability_factor(&unit.text),
        concepts: held.to_vec(),
    }
}

/// The picked units in the order of the text, and their total cost. The cost of a text is not the
/// sum of the costs of its lines, so the whole is counted; if it is over the budget, the units
/// picked last are dropped.
fn within_budget(
    units: &[DigestUnit],
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

/// The reason why no unit could be kept.
fn no_unit_error(
    candidates: &[UnitCandidate],
    budget: u64,
    floor: u64,
    limits: &DigestLimits,
) -> DistillError {
    match candidates
        .iter()
        .map(|candidate| candidate.token_cost)
        .min()
    {
        None => DistillError::NothingToDistill,
        Some(least) if least > budget => DistillError::BudgetTooSmall {
            budget,
            minimum: floor.max(least),
        },
        // The counter counts more tokens in a text than in its parts, so the exact minimum is
        // unknown.
        Some(_)
            if candidates
                .iter()
                .any(|candidate| candidate.bytes <= limits.output_bytes_max.saturating_add(1)) =>
        {
            DistillError::BudgetTooSmall {
                budget,
                minimum: budget + 1,
            }
        }
        Some(_) => DistillError::OutputTooLarge {
            limit: limits.output_bytes_max,
        },
    }
}

/// The hash of ids and texts, with their lengths before them, so that no two sets have the same
/// bytes.
fn source_digest(sources: &[&DistillSource]) -> String {
    let mut sources: Vec<&&DistillSource> = sources.iter().collect();
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

fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
