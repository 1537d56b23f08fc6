//! Counting the tokens of one piece.
//!
//! A piece begins as single bytes. Of all neighbours that together are a token, those of the lowest
//! rank are merged first, the leftmost of them if there are several, until nothing can be merged.

use crate::vocabulary::{NO_RANK, rank};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pieces up to this length are merged in small arrays, whose cost grows with the square of it.
const SHORT: usize = 96;

/// Longer ones are merged in windows of at least this length, which is a few times that of the
/// longest token.
const WINDOW: usize = 1024;

/// Counts the tokens of a piece.
pub fn count(piece: &[u8]) -> usize {
    // Merging the bytes of a token always ends in that token: a test checks it for each of them.
    if piece.len() <= 1 || rank(piece) != NO_RANK {
        return usize::from(!piece.is_empty());
    }
    if piece.len() <= SHORT {
        count_short(piece)
    } else {
        count_long(piece, WINDOW)
    }
}

/// Merges in arrays: compares all pairs for the lowest rank, merges, and closes the gap.
fn count_short(piece: &[u8]) -> usize {
    let mut tokens = piece.len();
    // The token `i` is `piece[starts[i]..starts[i + 1]]`; `ranks[i]` is the rank of the token that
    // it and the next one would become.
    let mut starts = [0_usize; SHORT + 1];
    let mut ranks = [NO_RANK; SHORT];
    for (index, start) in starts[..=tokens].iter_mut().enumerate() {
        *start = index;
    }
    for (index, pair) in piece.windows(2).enumerate() {
        ranks[index] = rank(pair);
    }
    while let Some(at) = lowest(&ranks[..tokens - 1]) {
        tokens -= 1;
        starts.copy_within(at + 2..tokens + 2, at + 1);
        ranks.copy_within(at + 1..tokens, at);
        if at + 1 < tokens {
            ranks[at] = rank(&piece[starts[at]..starts[at + 2]]);
        }
        if at > 0 {
            ranks[at - 1] = rank(&piece[starts[at - 1]..starts[at + 1]]);
        }
    }
    tokens
}

/// The index of the lowest rank, the first of equal ones, if there is a rank.
fn lowest(ranks: &[u32]) -> Option<usize> {
    let mut lowest = NO_RANK;
    let mut at = 0;
    for (index, &rank) in ranks.iter().enumerate() {
        if rank < lowest {
            lowest = rank;
            at = index;
        }
    }
    (lowest != NO_RANK).then_some(at)
}

/// Merges window by window. Windows that do not fit together are made larger, for all of the piece;
/// one that holds all of it always does.
fn count_long(piece: &[u8], mut size: usize) -> usize {
    loop {
        if let Some(tokens) = count_in_windows(piece, size) {
            return tokens;
        }
        size *= 2;
    }
}

/// Counts the tokens of a piece in windows of a size, or returns `None` if they do not fit together.
///
/// Why this is exact: tokens in a row are the tokens of their text if each two neighbours are
/// the tokens of theirs. (The first merge across the border of two of them would happen in the text
/// of these two alone as well.) So a window may take over at the start of a token of the window
/// before it, if both have the same token there: each token and the next one are then neighbours in
/// one of the two. The cut at the end of a window disturbs the last few tokens before it, so the
/// next window begins a good way before it.
fn count_in_windows(piece: &[u8], size: usize) -> Option<usize> {
    let mut tokens = 0;
    let mut rest = piece;
    let mut window = TokenChain::merged(rest, size);
    while window.piece.len() < rest.len() {
        let (before, start) = window.tokens_before(size * 3 / 4);
        rest = &rest[start..];
        let next = TokenChain::merged(rest, size);
        if before == 0 || next.lengths[0] != window.lengths[start] {
            return None;
        }
        tokens += before;
        window = next;
    }
    Some(tokens + window.tokens_before(rest.len()).0)
}

/// The tokens of a text, as the positions where they start.
struct TokenChain<'a> {
    piece: &'a [u8],
    /// The length of a token, at its first and at its last byte, so that neighbours are found in
    /// both directions. No token is longer than 128 bytes.
    lengths: Vec<u8>,
    /// The rank of the token that the one which starts here and the next one would become.
    ranks: Vec<u32>,
    /// The pairs that can be merged and some that no longer can, the lowest rank first.
    queue: BinaryHeap<Reverse<Pair>>,
}

/// A pair of neighbours: the rank of the token that they would become, and the start of the first
/// one.
type Pair = (u32, usize);

impl TokenChain<'_> {
    /// The tokens of a text, or of its first bytes if it has more than `size`.
    fn merged(text: &[u8], size: usize) -> TokenChain<'_> {
        let piece = &text[..size.min(text.len())];
        let mut ranks: Vec<u32> = piece.windows(2).map(rank).collect();
        ranks.push(NO_RANK);
        let pairs = ranks.iter().enumerate();
        let queue = pairs
            .filter(|(_, rank)| **rank != NO_RANK)
            .map(|(start, rank)| Reverse((*rank, start)))
            .collect();
        let mut row = TokenChain {
            piece,
            lengths: vec![1; piece.len()],
            ranks,
            queue,
        };
        while let Some(Reverse((rank, start))) = row.queue.pop() {
            // A merge leaves the other pairs that its two tokens were in behind in the queue.
            if row.ranks[start] == rank {
                row.merge(start);
            }
        }
        row
    }

    /// Makes one token of the one that starts here and the next one.
    fn merge(&mut self, start: usize) {
        let next = start + self.length(start);
        let end = next + self.length(next);
        let length = self.lengths[start] + self.lengths[next];
        self.ranks[next] = NO_RANK;
        self.lengths[start] = length;
        self.lengths[end - 1] = length;
        if start > 0 {
            self.find_pair(start - self.length(start - 1));
        }
        self.find_pair(start);
    }

    /// Looks up the pair that starts here after one of its tokens has grown.
    fn find_pair(&mut self, start: usize) {
        let next = start + self.length(start);
        self.ranks[start] = match self.lengths.get(next) {
            Some(&length) => rank(&self.piece[start..next + usize::from(length)]),
            None => NO_RANK,
        };
        if self.ranks[start] != NO_RANK {
            self.queue.push(Reverse((self.ranks[start], start)));
        }
    }

    fn length(&self, start: usize) -> usize {
        usize::from(self.lengths[start])
    }

    /// The number of tokens that end at this position or before it, and the start of the next one.
    fn tokens_before(&self, position: usize) -> (usize, usize) {
        let mut tokens = 0;
        let mut start = 0;
        while start < self.piece.len() && start + self.length(start) <= position {
            start += self.length(start);
            tokens += 1;
        }
        (tokens, start)
    }
}

#[cfg(test)]
mod tests {
    use super::{SHORT, WINDOW, count, count_long, count_short};
    use crate::vocabulary::tokens;

    /// The shortcut of `count` rests on this.
    #[test]
    fn the_bytes_of_a_token_merge_into_one_token() {
        for token in tokens() {
            if token.len() <= SHORT {
                assert_eq!(count_short(token), 1, "{token:?}");
            }
            assert_eq!(count_long(token, WINDOW), 1, "{token:?}");
        }
    }

    #[test]
    fn short_and_long_counting_agree() {
        let all: Vec<&[u8]> = tokens().collect();
        for group in all.chunks(5).step_by(7) {
            let text = group.concat();
            let piece = &text[..text.len().min(SHORT)];
            assert_eq!(count_short(piece), count_long(piece, WINDOW), "{piece:?}");
        }
    }

    #[test]
    fn short_and_long_counting_agree_on_repeated_bytes() {
        for byte in 0..=u8::MAX {
            let piece = [byte; SHORT];
            for length in 2..=SHORT {
                let piece = &piece[..length];
                let expected = count_short(piece);
                assert_eq!(count_long(piece, WINDOW), expected, "{length} of {byte}");
            }
        }
    }

    /// Windows that are too small for the tokens, so that they fail and grow, count as one window
    /// over all of the piece does.
    #[test]
    fn counts_do_not_depend_on_the_window_size() {
        let all: Vec<&[u8]> = tokens().collect();
        for group in all.chunks(400) {
            let piece = group.concat();
            let expected = count_long(&piece, piece.len());
            for size in [1, 2, 3, 5, 16, 100, WINDOW] {
                assert_eq!(count_long(&piece, size), expected, "{size}: {piece:?}");
            }
        }
        for byte in b" =-_xaA0/\n" {
            for length in [97, 255, 1000, 5000] {
                let piece = vec![*byte; length];
                let expected = count_long(&piece, length);
                for size in [1, 7, 100, WINDOW] {
                    assert_eq!(count_long(&piece, size), expected, "{length} of {byte}");
                }
            }
        }
    }

    #[test]
    fn empty_text_has_no_tokens_and_a_byte_has_one() {
        assert_eq!(count(b""), 0);
        assert_eq!(count(b"\xff"), 1);
    }
}
