//! The vocabulary: the byte strings that are tokens, and their ranks.

use crate::hash::{OFFSET_MAX, first_slot, hash, next_slot, tag};

/// All tokens in the order of their ranks, each after a byte with its length.
static TOKENS: &[u8] = include_bytes!("../data/o200k_base.tokens");

/// The hash table over `TOKENS`, as `hash` describes it and the build script fills it.
static SLOTS: &[[u8; 4]] = include_bytes!(concat!(env!("OUT_DIR"), "/slots"))
    .as_chunks()
    .0;

/// The length of the longest token in bytes.
const LONGEST: usize = 128;

/// The rank of a byte string that is not a token. It is higher than every rank.
pub const NO_RANK: u32 = u32::MAX;

/// Returns a number for a token that is lower for tokens of lower rank, or `NO_RANK` if the bytes
/// are not a token.
///
/// The number is the token's offset in the vocabulary: tokens lie there in the order of their
/// ranks, so offsets compare as ranks do.
#[inline]
pub fn rank(bytes: &[u8]) -> u32 {
    if bytes.len() > LONGEST {
        return NO_RANK;
    }
    let hash = hash(bytes);
    let tag = tag(hash);
    let mut at = first_slot(hash);
    loop {
        let slot = u32::from_le_bytes(SLOTS[at]);
        if slot == 0 {
            return NO_RANK;
        }
        let offset = slot & OFFSET_MAX;
        if slot & !OFFSET_MAX == tag && token_at(offset) == bytes {
            return offset;
        }
        at = next_slot(at);
    }
}

/// The token whose bytes begin at an offset; its length is in the byte before them.
fn token_at(offset: u32) -> &'static [u8] {
    let start = offset as usize;
    let length = usize::from(TOKENS[start - 1]);
    &TOKENS[start..start + length]
}

/// Iterates over all tokens, for tests.
#[cfg(test)]
pub fn tokens() -> impl Iterator<Item = &'static [u8]> {
    let mut rest = TOKENS;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first()?;
        let (token, after) = after.split_at(usize::from(*length));
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_found_and_ranks_ascend() {
        let ranks: Vec<u32> = tokens().map(rank).collect();
        assert_eq!(ranks.len(), 199_998);
        assert!(ranks.is_sorted());
        assert!(!ranks.contains(&NO_RANK));
        assert_eq!(tokens().map(<[u8]>::len).max(), Some(LONGEST));
    }

    #[test]
    fn every_byte_is_a_token() {
        for byte in 0..=u8::MAX {
            assert_ne!(rank(&[byte]), NO_RANK, "{byte}");
        }
    }

    #[test]
    fn other_strings_have_no_rank() {
        assert_eq!(rank(b""), NO_RANK);
        assert_eq!(rank(b"<|endoftext|>"), NO_RANK);
        assert_eq!(rank(&[b' '; LONGEST + 1]), NO_RANK);
    }
}
