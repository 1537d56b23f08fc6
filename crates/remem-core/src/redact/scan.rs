//! Owns the multi-needle byte scanner. It knows bytes and needles, nothing of secrets, text or
//! markers.
//!
//! Why not Aho-Corasick here: with a thousand values and several forms of each, an automaton has
//! hundreds of thousands of states, is slow to build and waits for memory on every byte. A needle
//! contains windows of a few bytes. If each needle contributes as many neighbouring windows as the
//! scanner advances in one step, every occurrence has one of them at a step; a small bit filter
//! rejects nearly all other positions and a comparison decides. That finds the same set of matches
//! (all of them, overlapping ones too) at a cost that hardly depends on the number of needles.
//! Figures: docs/dependencies.md.

use std::collections::HashSet;
use std::ops::Range;

use zeroize::Zeroizing;

/// Bytes in a window of a registered value's form; a shorter needle is never found.
pub(super) const WINDOW: usize = 8;
/// Bytes of text that are loaded in one step.
const WORD: usize = 8;
/// The number of positions in a needle that are tried for its windows.
const OFFSETS_MAX: usize = 32;
/// Most bytes that the scanner advances in one step; longer steps save little.
const STEP_MAX: usize = 8;
/// Filter bits per window: about one false positive in 64.
const BITS_PER_WINDOW: usize = 64;
/// Least size of the filter, eight kilobytes: sparse for a few needles, and still in the
/// first-level cache.
const FILTER_BITS_MIN: usize = 1 << 16;
/// Largest size of the filter, one megabyte.
const FILTER_BITS_MAX: usize = 1 << 23;
/// Multiplier of Fibonacci hashing: 2^64 divided by the golden ratio.
const HASH_MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// `W` neighbouring bytes of a needle, at which an occurrence of it is recognised.
struct NeedleWindow {
    bytes: u64,
    needle: u32,
    /// The offset of the window in its needle.
    offset: u32,
}

/// Finds every occurrence of every needle, in one pass. `W` bytes make a window; `CASELESS` ignores
/// ASCII case, and then needles must be in lower case.
pub(super) struct Scanner<const W: usize = WINDOW, const CASELESS: bool = false> {
    needles: Vec<Zeroizing<Vec<u8>>>,
    /// The windows of all needles, sorted by their bytes.
    windows: Vec<NeedleWindow>,
    filter: Vec<u64>,
    shift: u32,
    step: usize,
}

impl<const W: usize, const CASELESS: bool> Scanner<W, CASELESS> {
    /// Builds the scanner; the position of a needle in the input is its number in `each_match`.
    pub(super) fn new(needles: Vec<Zeroizing<Vec<u8>>>) -> Self {
        let shortest = needles
            .iter()
            .map(|needle| needle.len())
            .filter(|&len| len >= W)
            .min()
            .unwrap_or(W);
        let step = (shortest - W + 1).min(STEP_MAX);
        let bits = (needles.len() * step * BITS_PER_WINDOW)
            .next_power_of_two()
            .clamp(FILTER_BITS_MIN, FILTER_BITS_MAX);
        let shift = 64 - bits.trailing_zeros();
        let mut scanner = Scanner {
            needles,
            windows: Vec::new(),
            filter: vec![0; bits / 64],
            shift,
            step,
        };
        let mut used = HashSet::new();
        for number in 0..scanner.needles.len() {
            let offset = scanner.choose_offset(number, &used);
            for at in offset..offset + step {
                let Some(bytes) = Self::window_of(&scanner.needles[number], at) else {
                    break;
                };
                used.insert(bytes);
                scanner.windows.push(NeedleWindow {
                    bytes,
                    needle: number as u32,
                    offset: at as u32,
                });
                let bit = scanner.filter_bit(bytes);
                scanner.filter[bit / 64] |= 1 << (bit % 64);
            }
        }
        scanner.windows.sort_unstable_by_key(|window| window.bytes);
        scanner
    }

    pub(super) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Calls `found(needle, range)` for every occurrence, overlapping ones included.
    pub(super) fn each_match(&self, text: &[u8], mut found: impl FnMut(usize, Range<usize>)) {
        if self.is_empty() {
            return;
        }
        // Whole words are loaded as long as there are eight bytes; the last few bytes are copied
        // into a padded word.
        let whole = text
            .len()
            .saturating_sub(WORD - 1)
            .next_multiple_of(self.step);
        for (number, word) in text.windows(WORD).step_by(self.step).enumerate() {
            self.check_window(text, number * self.step, Self::window(word), &mut found);
        }
        for at in (whole..(text.len() + 1).saturating_sub(W)).step_by(self.step) {
            let mut word = [0; WORD];
            word[..text.len() - at].copy_from_slice(&text[at..]);
            self.check_window(text, at, Self::window(&word), &mut found);
        }
    }

    #[inline]
    // Kept small so that it is inlined into the scan; nearly all positions end here.
    fn check_window(
        &self,
        text: &[u8],
        at: usize,
        window: u64,
        found: &mut impl FnMut(usize, Range<usize>),
    ) {
        let bit = self.filter_bit(window);
        if self.filter[bit / 64] >> (bit % 64) & 1 == 1 {
            self.verify(text, at, window, found);
        }
    }

    #[cold]
    // Marked cold to keep it out of the scan loop.
    fn verify(
        &self,
        text: &[u8],
        at: usize,
        bytes: u64,
        found: &mut impl FnMut(usize, Range<usize>),
    ) {
        let first = self.windows.partition_point(|window| window.bytes < bytes);
        for window in self.windows[first..]
            .iter()
            .take_while(|window| window.bytes == bytes)
        {
            let needle = &self.needles[window.needle as usize];
            let Some(from) = at.checked_sub(window.offset as usize) else {
                continue;
            };
            let Some(candidate) = text.get(from..from + needle.len()) else {
                continue;
            };
            let same = if CASELESS {
                candidate.eq_ignore_ascii_case(needle)
            } else {
                candidate == &needle[..]
            };
            if same {
                found(window.needle as usize, from..from + needle.len());
            }
        }
    }

    #[inline]
    /// The filter bit of a window.
    fn filter_bit(&self, window: u64) -> usize {
        (window.wrapping_mul(HASH_MULTIPLIER) >> self.shift) as usize
    }

    /// The first `W` bytes of a word as a number.
    #[inline]
    fn window(word: &[u8]) -> u64 {
        let word: [u8; WORD] = word.try_into().unwrap_or([0; WORD]);
        let window = u64::from_le_bytes(word) & (u64::MAX >> (64 - 8 * W));
        if CASELESS {
            window | (0x2020_2020_2020_2020 >> (64 - 8 * W))
        } else {
            window
        }
    }

    /// The window of a needle at an offset, or `None` beyond its end.
    fn window_of(needle: &[u8], at: usize) -> Option<u64> {
        let mut word = [0; WORD];
        word[..W].copy_from_slice(needle.get(at..at + W)?);
        Some(Self::window(&word))
    }

    /// Chooses the offset of a needle's windows. It prefers windows that ordinary text has least of
    /// and that no other needle uses: keys of one vendor share their first bytes.
    fn choose_offset(&self, number: usize, used: &HashSet<u64>) -> usize {
        let needle = &self.needles[number];
        let common = |offset: usize| {
            needle[offset..offset + self.step + W - 1]
                .iter()
                .map(|&byte| commonness(byte))
                .sum::<usize>()
        };
        let count = (needle.len() + 2)
            .saturating_sub(W + self.step)
            .min(OFFSETS_MAX);
        let mut offsets: Vec<(usize, usize)> =
            (0..count).map(|offset| (common(offset), offset)).collect();
        offsets.sort_unstable();
        let is_free = |offset: usize| {
            (offset..offset + self.step)
                .filter_map(|at| Self::window_of(needle, at))
                .all(|window| !used.contains(&window))
        };
        let best = offsets
            .iter()
            .find(|(_, offset)| is_free(*offset))
            .or(offsets.first());
        best.map_or(0, |(_, offset)| *offset)
    }
}

/// A rough measure of how often a byte occurs in prose.
fn commonness(byte: u8) -> usize {
    match byte {
        b'0'..=b'9' | b'j' | b'q' | b'x' | b'z' | 0x80.. => 0,
        b'b'
        | b'f'
        | b'g'
        | b'k'
        | b'v'
        | b'w'
        | b'y'
        | b'A'..=b'Z'
        | b'_'
        | b':'
        | b'/'
        | b'=' => 1,
        b'-' | b'.' => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needles: &[&str], text: &str) -> Vec<(usize, Range<usize>)> {
        let needles = needles
            .iter()
            .map(|n| Zeroizing::new(n.as_bytes().to_vec()))
            .collect();
        let mut hits = Vec::new();
        <Scanner>::new(needles).each_match(text.as_bytes(), |n, range| hits.push((n, range)));
        hits.sort_by_key(|(n, range)| (range.start, *n));
        hits
    }

    #[test]
    fn overlapping_occurrences_are_all_reported() {
        assert_eq!(
            found(&["aaaaaaaa"], "aaaaaaaaaa"),
            [(0, 0..8), (0, 1..9), (0, 2..10)]
        );
        assert_eq!(
            found(&["abcdefgh", "efghijkl"], "abcdefghijkl"),
            [(0, 0..8), (1, 4..12)]
        );
    }

    #[test]
    fn needles_with_identical_windows_are_distinguished() {
        let text = "xx-aaaaaaaaaaaaaaaaaaaaaaaa1";
        assert_eq!(
            found(
                &["aaaaaaaaaaaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaaaaaaaaaa2"],
                text
            ),
            [(0, 3..28)]
        );
    }

    #[test]
    fn a_thousand_keys_with_one_prefix_are_each_found() {
        let keys: Vec<String> = (0..1000)
            .map(|n| format!("vendor-prefix-{n:06}-tail"))
            .collect();
        let refs: Vec<&str> = keys.iter().map(String::as_str).collect();
        let text = keys.join(" ");
        let hits = found(&refs, &text);
        assert_eq!(hits.len(), 1000);
        assert!(
            hits.iter()
                .all(|(n, range)| text[range.clone()] == keys[*n])
        );
    }

    #[test]
    fn short_literals_match_case_insensitively() {
        let scanner: Scanner<3, true> = Scanner::new(
            ["sk-", "://", "token"]
                .map(|n| Zeroizing::new(n.as_bytes().to_vec()))
                .into(),
        );
        let mut hits = Vec::new();
        scanner.each_match(b"SK-1 ToKeN http://x sk_ toke sk-", |n, range| {
            hits.push((n, range))
        });
        assert_eq!(
            hits,
            [(0, 0..3), (2, 5..10), (1, 15..18), (0, 29..32)],
            "also in the last bytes"
        );
    }

    #[test]
    fn matches_at_text_edges_and_in_short_text_are_safe() {
        assert_eq!(found(&["0123456789"], "0123456789"), [(0, 0..10)]);
        assert_eq!(found(&["0123456789"], "123456789"), []);
        assert_eq!(found(&["0123456789"], ""), []);
        assert_eq!(
            found(&["short"], "short"),
            [],
            "below the window nothing is promised"
        );
        assert_eq!(found(&[], "anything at all"), []);
    }
}
