//! The hash of a token's bytes and the contents of a slot of the hash table. The build script fills
//! the table with the functions of this file, and `vocabulary` searches it with the same ones.

/// The table has 2^19 slots for 199,998 tokens: a search that finds nothing, the usual end of one,
/// reads 1.8 slots.
pub const SLOT_BITS: u32 = 19;

/// The number of slots of the table.
pub const SLOT_COUNT: usize = 1 << SLOT_BITS;

/// A slot holds the offset of a token in its lower bits and eleven bits of the token's hash above
/// them. A slot of zero is empty.
const OFFSET_BITS: u32 = 21;

/// Offsets of tokens are smaller than this.
pub const OFFSET_MAX: u32 = (1 << OFFSET_BITS) - 1;

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hashes bytes, eight at a time.
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    let mut hash = (bytes.len() as u64).wrapping_mul(FACTOR);
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        hash = mix(hash ^ u64::from_le_bytes(*chunk));
        rest = after;
    }
    mix(hash ^ short_word(rest))
}

/// The slot at which the search for a hash begins.
#[inline]
pub fn first_slot(hash: u64) -> usize {
    (hash >> (64 - SLOT_BITS)) as usize
}

/// The slot after this one; the first one follows the last one.
#[inline]
pub fn next_slot(slot: usize) -> usize {
    (slot + 1) % SLOT_COUNT
}

/// The bits of a hash that a slot keeps, at their place in the slot.
#[inline]
pub fn tag(hash: u64) -> u32 {
    // These bits are below the ones that `first_slot` uses.
    ((hash >> 13) as u32) & !OFFSET_MAX
}

fn mix(value: u64) -> u64 {
    let product = value.wrapping_mul(FACTOR);
    (product ^ (product >> 32)).wrapping_mul(FACTOR)
}

/// Up to seven bytes as a number. Bytes are read twice rather than in a loop; the length is part of
/// the hash already, so equal numbers of different lengths do no harm.
fn short_word(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    match bytes {
        [] => 0,
        [a] => u64::from(*a),
        [a, b] => u64::from(*a) | u64::from(*b) << 8,
        [a, b, .., c] => u64::from(*a) | u64::from(*b) << 8 | u64::from(*c) << 16,
    }
}
