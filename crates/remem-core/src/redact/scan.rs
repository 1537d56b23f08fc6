//! Owns the multi-needle byte scanner. It knows bytes and needles, nothing of secrets, text or markers.
//!
//! Why not Aho-Corasick here: with a thousand values and several forms of each, an automaton has
//! hundreds of thousands of states, costs a second to build and misses the cache on every other
//! byte. A needle of eight bytes or more always contains an eight-byte window, so one rolling window,
//! one small bit filter and a comparison on a filter hit find the same set of matches (all of them,
//! overlapping ones too) at a cost that hardly depends on the number of needles.

use std::collections::HashSet;
use std::ops::Range;

use zeroize::Zeroizing;

/// Bytes in the window that stands for a registered value's form; a shorter needle is never found.
pub(super) const WINDOW: usize = 8;
/// How many windows of one needle are tried before a shared one is accepted.
const WINDOW_CHOICES: usize = 48;
/// Filter bits per needle: one false alarm in about 128 windows.
const BITS_PER_NEEDLE: usize = 128;
const FILTER_BITS_MIN: usize = 1 << 12;
const FILTER_BITS_MAX: usize = 1 << 23;
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

struct Needle {
    bytes: Zeroizing<Vec<u8>>,
    /// Where in `bytes` the window lies.
    at: usize,
}

/// Finds every occurrence of every needle, in one pass. `W` bytes stand for a needle; `CASELESS` leaves
/// ASCII case out of account, and then needles must be in lower case.
pub(super) struct Scanner<const W: usize = WINDOW, const CASELESS: bool = false> {
    needles: Vec<Needle>,
    /// (window, needle) sorted by window.
    windows: Vec<(u64, u32)>,
    filter: Vec<u64>,
    shift: u32,
}

impl<const W: usize, const CASELESS: bool> Scanner<W, CASELESS> {
    /// Builds the scanner; the position of a needle in the input is its number in `each_match`.
    pub(super) fn new(needles: Vec<Zeroizing<Vec<u8>>>) -> Self {
        let bits = (needles.len() * BITS_PER_NEEDLE).next_power_of_two();
        let bits = bits.clamp(FILTER_BITS_MIN, FILTER_BITS_MAX);
        let mut scanner = Scanner {
            needles: Vec::with_capacity(needles.len()),
            windows: Vec::with_capacity(needles.len()),
            filter: vec![0; bits / 64],
            shift: 64 - bits.trailing_zeros(),
        };
        let mut used = HashSet::with_capacity(needles.len());
        for (number, bytes) in needles.into_iter().enumerate() {
            let at = Self::choose_window(&bytes, &used);
            if let Some(window) = Self::window_at(&bytes, at) {
                used.insert(window);
                scanner.windows.push((window, number as u32));
                let bit = scanner.slot(window);
                scanner.filter[bit / 64] |= 1 << (bit % 64);
            }
            scanner.needles.push(Needle { bytes, at });
        }
        scanner.windows.sort_unstable();
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
        let mut window = 0;
        for (at, &byte) in text.iter().enumerate() {
            window = Self::slide(window, byte);
            if self.may_know(window) {
                self.verify(text, at + 1, window, &mut found);
            }
        }
    }

    /// The window after one more byte.
    #[inline]
    pub(super) fn slide(window: u64, byte: u8) -> u64 {
        let byte = if CASELESS { byte | 0x20 } else { byte };
        window >> 8 | u64::from(byte) << 56
    }

    /// Whether the bytes slid in last are a needle's window: most text has none, and then needs no second look.
    #[inline]
    pub(super) fn knows(&self, window: u64) -> bool {
        self.may_know(window) && self.is_window(window)
    }

    #[cold]
    fn is_window(&self, window: u64) -> bool {
        self.windows.binary_search_by_key(&Self::last_bytes(window), |&(known, _)| known).is_ok()
    }

    #[cold]
    fn verify(&self, text: &[u8], end: usize, window: u64, found: &mut impl FnMut(usize, Range<usize>)) {
        let window = Self::last_bytes(window);
        let first = self.windows.partition_point(|&(known, _)| known < window);
        for &(_, number) in self.windows[first..].iter().take_while(|&&(known, _)| known == window) {
            let needle = &self.needles[number as usize];
            let Some(from) = end.checked_sub(needle.at + W) else { continue };
            let Some(candidate) = text.get(from..from + needle.bytes.len()) else { continue };
            let same = if CASELESS { candidate.eq_ignore_ascii_case(&needle.bytes) } else { candidate == &needle.bytes[..] };
            if same {
                found(number as usize, from..from + needle.bytes.len());
            }
        }
    }

    #[inline]
    fn may_know(&self, window: u64) -> bool {
        let bit = self.slot(Self::last_bytes(window));
        self.filter[bit / 64] >> (bit % 64) & 1 == 1
    }

    #[inline]
    fn slot(&self, window: u64) -> usize {
        (window.wrapping_mul(MIX) >> self.shift) as usize
    }

    #[inline]
    fn last_bytes(window: u64) -> u64 {
        window >> (64 - 8 * W)
    }

    fn window_at(bytes: &[u8], at: usize) -> Option<u64> {
        let window = bytes.get(at..at + W)?.iter().fold(0, |window, &byte| Self::slide(window, byte));
        Some(Self::last_bytes(window))
    }

    /// Prefers windows that no other needle uses (keys of one vendor share their first bytes), and among
    /// them those that ordinary text has least of.
    fn choose_window(bytes: &[u8], used: &HashSet<u64>) -> usize {
        let choices = (0..WINDOW_CHOICES).map_while(|at| Self::window_at(bytes, at).map(|window| (at, window)));
        let cost = |(at, window): &(usize, u64)| {
            let common: usize = bytes[*at..at + W].iter().map(|&byte| commonness(byte)).sum();
            (used.contains(window), common)
        };
        choices.min_by_key(cost).map_or(0, |(at, _)| at)
    }
}

/// Roughly how often a byte stands in prose.
fn commonness(byte: u8) -> usize {
    match byte {
        b'0'..=b'9' | b'j' | b'q' | b'x' | b'z' | 0x80.. => 0,
        b'b' | b'f' | b'g' | b'k' | b'v' | b'w' | b'y' | b'A'..=b'Z' | b'_' | b':' | b'/' | b'=' => 1,
        b'-' | b'.' => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(needles: &[&str], text: &str) -> Vec<(usize, Range<usize>)> {
        let needles = needles.iter().map(|n| Zeroizing::new(n.as_bytes().to_vec())).collect();
        let mut hits = Vec::new();
        <Scanner>::new(needles).each_match(text.as_bytes(), |n, range| hits.push((n, range)));
        hits.sort_by_key(|(n, range)| (range.start, *n));
        hits
    }

    #[test]
    fn overlapping_occurrences_are_all_reported() {
        assert_eq!(found(&["aaaaaaaa"], "aaaaaaaaaa"), [(0, 0..8), (0, 1..9), (0, 2..10)]);
        assert_eq!(found(&["abcdefgh", "efghijkl"], "abcdefghijkl"), [(0, 0..8), (1, 4..12)]);
    }

    #[test]
    fn needles_that_share_every_window_are_told_apart() {
        let text = "xx-aaaaaaaaaaaaaaaaaaaaaaaa1";
        assert_eq!(found(&["aaaaaaaaaaaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaaaaaaaaaa2"], text), [(0, 3..28)]);
    }

    #[test]
    fn a_thousand_keys_with_one_prefix_are_each_found() {
        let keys: Vec<String> = (0..1000).map(|n| format!("vendor-prefix-{n:06}-tail")).collect();
        let refs: Vec<&str> = keys.iter().map(String::as_str).collect();
        let text = keys.join(" ");
        let hits = found(&refs, &text);
        assert_eq!(hits.len(), 1000);
        assert!(hits.iter().all(|(n, range)| text[range.clone()] == keys[*n]));
    }

    #[test]
    fn short_caseless_literals() {
        let scanner: Scanner<3, true> = Scanner::new(["sk-", "://", "token"].map(|n| Zeroizing::new(n.as_bytes().to_vec())).into());
        let mut hits = Vec::new();
        scanner.each_match(b"SK-1 ToKeN http://x sk_ toke", |n, range| hits.push((n, range)));
        assert_eq!(hits, [(0, 0..3), (2, 5..10), (1, 15..18)]);
    }

    #[test]
    fn text_edges_and_short_text_are_safe() {
        assert_eq!(found(&["0123456789"], "0123456789"), [(0, 0..10)]);
        assert_eq!(found(&["0123456789"], "123456789"), []);
        assert_eq!(found(&["0123456789"], ""), []);
        assert_eq!(found(&["short"], "short"), [], "below the window nothing is promised");
        assert_eq!(found(&[], "anything at all"), []);
    }
}
