//! Owns the finding of long stretches of a class of bytes, examining only a fraction of the bytes.

use std::ops::Range;

/// Readable stretches with fewer bytes than this are not searched.
const PRINTABLE_MIN: usize = 8;

/// The stretches of decoded bytes that could be text; a wrong reading has next to none.
pub(super) fn printable(decoded: &[u8]) -> Vec<Range<usize>> {
    // NUL counts: text in UTF-16 is every other byte.
    stretches(decoded, PRINTABLE_MIN, |byte| {
        matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n' | 0)
    })
}

/// Maximal stretches of at least `min` (eight or more) bytes of a class. Tests the far end of each
/// candidate first, so that in text without long stretches only a fraction of the bytes is
/// examined.
pub(super) fn stretches(
    layer: &[u8],
    min: usize,
    is_inside: impl Fn(u8) -> bool,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let ends_at_space = !is_inside(b' ');
    while let Some(candidate) = layer.get(start..start + min) {
        // Nearly all that ends a stretch in prose is a space, and spaces can be seen eight bytes at
        // a time.
        let space = if ends_at_space {
            candidate.last_chunk().and_then(last_space)
        } else {
            None
        };
        if let Some(space) = space {
            start += min - 8 + space + 1;
            continue;
        }
        if let Some(outside) = candidate.iter().rposition(|&byte| !is_inside(byte)) {
            start += outside + 1;
            continue;
        }
        let more = layer[start + min..]
            .iter()
            .position(|&byte| !is_inside(byte));
        let end = more.map_or(layer.len(), |more| start + min + more);
        found.push(start..end);
        start = end + 1;
    }
    found
}

/// The position of the last space among eight bytes, if there is one.
fn last_space(bytes: &[u8; 8]) -> Option<usize> {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let zero_where_space = u64::from_le_bytes(*bytes) ^ 0x2020_2020_2020_2020;
    // The high bit of each byte that is zero, and no other; additions cannot carry over.
    let spaces = !(((zero_where_space & LOW) + LOW) | zero_where_space | LOW);
    (spaces != 0).then(|| 7 - spaces.leading_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_maximal() {
        let digits = |byte: u8| byte.is_ascii_digit();
        assert_eq!(stretches(b"123456789", 8, digits).first(), Some(&(0..9)));
        assert_eq!(
            stretches(b"12a34567890b 123456789", 8, digits),
            [3..11, 13..22]
        );
        assert_eq!(
            stretches(b"12a34 45678901 123456789", 8, digits),
            [6..14, 15..24]
        );
        assert!(stretches(b"1234567", 8, digits).is_empty());
        assert_eq!(printable(b"\x80ab\xFFreadable\x01").len(), 1);
    }

    #[test]
    fn last_space_finds_the_last_space_in_eight_bytes() {
        for (bytes, last) in [
            (b"abcdefgh", None),
            (b" abcdefg", Some(0)),
            (b"a b c de", Some(5)),
            (b"abcdefg ", Some(7)),
            (b"\xA0!\x1F\0@`p\x20", Some(7)),
        ] {
            assert_eq!(last_space(bytes), last, "{bytes:?}");
        }
    }
}
