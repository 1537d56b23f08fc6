//! The signature of an entry: a digest that a pass stores with it, so that the next one need not
//! read its text. Twenty band keys (MinHash over trigrams, 160 hashes, bands of 8) find its
//! near-duplicates; two digests identify the slot it fills and the value it gives.
//!
//! The words that the guard requires to be equal are part of every band key. So texts that share a
//! few common trigrams, of which each has dozens among a million, or that differ in a number, share
//! no bucket, and none of them is read for nothing.

use super::features::each_trigram;
use super::guard::{MergeItem, normal_form};
use super::slot;

/// The number of bands; two texts are compared when they agree in one of them.
pub const BANDS: usize = 20;
/// The number of hashes in a band. With 20 × 8, texts of similarity 0.85 share a band with 99.8 %,
/// of 0.15 with 0.0005 %.
const HASHES_PER_BAND: usize = 8;
const HASHES: usize = BANDS * HASHES_PER_BAND;

/// The band keys and slot digests of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// One key for each band; 0 means that the text has no trigram, and shares no bucket.
    pub bands: [u32; BANDS],
    /// The digest of the question that the entry answers; 0 if that is not clear (`slot`).
    pub slot: u64,
    /// The digest of the answer: the value in the upper half, the tags and the metadata in the
    /// lower one.
    pub value: u64,
}

impl Signature {
    /// The size of the stored form, in bytes.
    pub const BYTES: usize = BANDS * 4 + 16;

    /// The signature of an entry.
    #[must_use]
    pub fn of(item: &MergeItem) -> Signature {
        let (slot, value) = slot::slot_digests(item);
        Signature {
            bands: band_keys(&item.text),
            slot,
            value,
        }
    }

    /// The stored form of the signature.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Signature::BYTES] {
        let mut bytes = [0; Signature::BYTES];
        for (place, key) in bytes.chunks_exact_mut(4).zip(self.bands) {
            place.copy_from_slice(&key.to_le_bytes());
        }
        bytes[BANDS * 4..BANDS * 4 + 8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[BANDS * 4 + 8..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    /// Reads the stored form; `None` if the length differs, as from another version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Signature> {
        let bytes: &[u8; Signature::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let double = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Some(Signature {
            bands: std::array::from_fn(|band| word(band * 4)),
            slot: double(BANDS * 4),
            value: double(BANDS * 4 + 8),
        })
    }
}

/// The band keys of a text: the minima of its hashes, mixed with the words of its normal form.
fn band_keys(text: &str) -> [u32; BANDS] {
    let mut least = [i16::MAX; HASHES];
    let mut any = false;
    each_trigram(text, |trigram| {
        any = true;
        update_minima(&mut least, trigram);
    });
    if !any {
        return [0; BANDS];
    }
    let words = short_digest(&normal_form(text));
    std::array::from_fn(|band| {
        band_key(
            words,
            &least[band * HASHES_PER_BAND..(band + 1) * HASHES_PER_BAND],
        )
        .max(1)
    })
}

/// Updates all 160 minima with one trigram. Every x86-64 multiplies and compares signed 16-bit
/// lanes eight at a time; each hash uses both halves of the mixed trigram, so that no two trigrams
/// collide in all hashes.
fn update_minima(least: &mut [i16; HASHES], trigram: u32) {
    let mixed = splitmix(u64::from(trigram));
    let low = mixed as i16;
    let high = (mixed >> 16) as i16;
    for at in 0..HASHES {
        let hash = low
            .wrapping_mul(FACTORS[0][at])
            .wrapping_add(high.wrapping_mul(FACTORS[1][at]));
        least[at] = least[at].min(hash);
    }
}

/// Mixes the minima of one band and the words into its key.
fn band_key(words: u64, rows: &[i16]) -> u32 {
    let folded = rows
        .iter()
        .fold(words, |sum, &row| splitmix(sum ^ u64::from(row as u16)));
    (folded >> 32) as u32
}

/// The first 64 bits of a cryptographic hash, so that collisions cannot be constructed cheaply.
pub(super) fn short_digest(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes()[..8]
        .iter()
        .fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// The mixing function of SplitMix64.
pub(super) const fn splitmix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

static FACTORS: [[i16; HASHES]; 2] = factors();

/// The factors of the hashes. Odd, so that multiplication is invertible. Fixed: stored signatures
/// depend on them.
const fn factors() -> [[i16; HASHES]; 2] {
    let mut factors = [[0; HASHES]; 2];
    let mut at = 0;
    while at < HASHES {
        let random = splitmix(0x5EED_0000 + at as u64);
        factors[0][at] = random as i16 | 1;
        factors[1][at] = (random >> 32) as i16 | 1;
        at += 1;
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::super::features::{intersection_and_union, trigrams};
    use super::*;

    fn minima(text: &str) -> [i16; HASHES] {
        let mut least = [i16::MAX; HASHES];
        each_trigram(text, |trigram| update_minima(&mut least, trigram));
        least
    }

    #[test]
    fn the_share_of_equal_minima_approximates_similarity() {
        let words: Vec<String> = (0..400)
            .map(|n| format!("{:x}", splitmix(n) >> 40))
            .collect();
        for changed in [0, 2, 5, 10, 20] {
            let mut agreeing = 0.0;
            let mut expected = 0.0;
            for base in 0..12 {
                let first: Vec<&str> = words[base * 30..base * 30 + 30]
                    .iter()
                    .map(String::as_str)
                    .collect();
                let mut second = first.clone();
                for (at, word) in words[370..370 + changed].iter().enumerate() {
                    second[at] = word;
                }
                let a = first.join(" ");
                let b = second.join(" ");
                agreeing += minima(&a)
                    .iter()
                    .zip(minima(&b))
                    .filter(|(a, b)| **a == *b)
                    .count() as f64
                    / HASHES as f64;
                let (common, all) = intersection_and_union(&trigrams(&a), &trigrams(&b));
                expected += common as f64 / all as f64;
            }
            let agreeing = agreeing / 12.0;
            let expected = expected / 12.0;
            assert!(
                (agreeing - expected).abs() < 0.04,
                "{changed} words changed: {agreeing} of minima agree, similarity is {expected}"
            );
        }
    }

    #[test]
    fn a_signature_round_trips_through_bytes() {
        let signature = Signature::of(&MergeItem::plain("Nadia's role is surgeon"));
        assert!(signature.slot != 0 && signature.value != 0);
        assert_eq!(
            Signature::from_bytes(&signature.to_bytes()),
            Some(signature)
        );
        assert_eq!(Signature::from_bytes(&signature.to_bytes()[1..]), None);
    }

    #[test]
    fn signatures_are_stable_across_releases() {
        // Stored ones are compared with new ones: another value here means that all must be
        // computed again.
        let bands = Signature::of(&MergeItem::plain("The boiler is inspected every spring")).bands;
        let digest = bands
            .iter()
            .fold(0, |sum, &key| splitmix(sum ^ u64::from(key)));
        assert_eq!(digest, 16_979_419_125_181_238_967);
        assert_eq!(Signature::of(&MergeItem::plain("👍!")).bands, [0; BANDS]);
    }
}
