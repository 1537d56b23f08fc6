//! Chance that can be repeated: a small generator whose seed is printed.

use std::hash::{BuildHasher, Hasher};

/// SplitMix64.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// A new seed each time, or the one in `REMEM_TEST_SEED`; printed, so that a failure can be
    /// repeated.
    pub fn fresh() -> Random {
        let given = std::env::var("REMEM_TEST_SEED")
            .ok()
            .map(|text| text.parse().expect("REMEM_TEST_SEED is a number"));
        let seed = given.unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish());
        println!("seed: REMEM_TEST_SEED={seed}");
        Random(seed)
    }

    /// Another generator that follows from this one.
    pub fn branch(&mut self) -> Random {
        Random(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
