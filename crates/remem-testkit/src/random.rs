//! Repeatable random numbers: a small generator and the seed that it starts from.

use std::hash::{BuildHasher, Hasher};

/// The generator SplitMix64, written out here because a seed must give the same numbers with every
/// later version.
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// A generator that starts from a given seed.
    #[must_use]
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(seed)
    }

    /// A generator with the seed of this run, which is printed.
    #[must_use]
    pub fn fresh() -> SeededRandom {
        let seed = fresh_seed();
        println!("seed: REMEM_TEST_SEED={seed}");
        SeededRandom(seed)
    }

    /// Returns another generator that is seeded from this one.
    #[must_use]
    pub fn branch(&mut self) -> SeededRandom {
        SeededRandom(self.next())
    }

    /// The next random number.
    #[allow(
        clippy::should_implement_trait,
        reason = "a generator never ends, so it is no iterator"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A random index into a list of that length.
    pub fn index(&mut self, length: usize) -> usize {
        (self.next() % length as u64) as usize
    }

    /// A random element of a list.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())].clone()
    }

    /// Returns true once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The seed in `REMEM_TEST_SEED`, which repeats a failure.
#[must_use]
pub fn given_seed() -> Option<u64> {
    let text = std::env::var("REMEM_TEST_SEED").ok()?;
    Some(text.parse().expect("REMEM_TEST_SEED is a number"))
}

/// The seed in `REMEM_TEST_SEED`, or else a new one.
#[must_use]
pub fn fresh_seed() -> u64 {
    given_seed().unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish())
}
