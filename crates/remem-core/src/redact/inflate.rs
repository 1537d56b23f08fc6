//! Owns the unpacking of gzip and zlib data inside a decoded layer, piece by piece. It may not
//! search, nor hold more than the caller asked for.

use flate2::{Decompress, FlushDecompress, Status};

/// The offsets at which gzip or zlib data may begin, by its first bytes.
pub(super) fn possible_starts(layer: &[u8]) -> impl Iterator<Item = usize> {
    let possible = layer
        .iter()
        .enumerate()
        .filter(|(_, byte)| matches!(byte, 0x1F | 0x78))
        .map(|(start, _)| start);
    possible.filter(|&start| {
        matches!(
            layer[start..],
            [0x1F, 0x8B, 8, ..] | [0x78, 1 | 0x5E | 0x9C | 0xDA, ..]
        )
    })
}

/// Packed data that is unpacked as it is read. Truncated or damaged data still yields the bytes
/// before the fault, so an error only ends the stream.
pub(super) struct PackedStream<'p> {
    packed: &'p [u8],
    used: usize,
    header: usize,
    state: Decompress,
    end: Option<InflateEnd>,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InflateEnd {
    /// With the end mark of its format.
    Complete,
    /// The input ended before the end mark.
    Truncated,
    /// The bytes that followed are not packed data.
    Damaged,
}

impl<'p> PackedStream<'p> {
    /// Opens the data at an offset that `possible_starts` gave.
    pub(super) fn new(packed: &'p [u8]) -> PackedStream<'p> {
        let header = header_len(packed);
        PackedStream {
            packed,
            used: header.min(packed.len()),
            header,
            // Checksums are not verified: a wrong one hides nothing.
            state: Decompress::new(false),
            end: None,
        }
    }

    /// The length of the header, which was examined to find the packed data behind it.
    pub(super) fn header_bytes(&self) -> usize {
        self.header
    }

    /// How the stream ended, or `None` if it has not.
    pub(super) fn end(&self) -> Option<InflateEnd> {
        self.end
    }

    /// The number of packed bytes read so far, with the checksum at the end.
    pub(super) fn used(&self) -> usize {
        let checks = match (self.end, self.packed) {
            (Some(InflateEnd::Complete), [0x1F, ..]) => 8,
            (Some(InflateEnd::Complete), _) => 4,
            _ => 0,
        };
        (self.used + checks).min(self.packed.len())
    }

    /// Appends about `bytes` unpacked bytes; false when there are no more.
    pub(super) fn read(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        out.reserve(bytes);
        while self.end.is_none() && out.len() < before + bytes {
            let read = self.state.total_in();
            let written = out.len();
            let packed = &self.packed[self.used..];
            let status = self
                .state
                .decompress_vec(packed, out, FlushDecompress::None);
            self.used += (self.state.total_in() - read) as usize;
            self.end = match status {
                Ok(Status::StreamEnd) => Some(InflateEnd::Complete),
                Err(_) => Some(InflateEnd::Damaged),
                Ok(_) if self.state.total_in() == read && out.len() == written => {
                    Some(InflateEnd::Truncated)
                }
                Ok(_) => None,
            };
        }
        out.len() > before
    }
}

/// The length of the header: two bytes for zlib; for gzip ten and the fields that its flags
/// announce.
fn header_len(packed: &[u8]) -> usize {
    let [0x1F, _, _, flags, ..] = packed else {
        return 2;
    };
    let zero_ended = |from: usize| {
        let text = packed.get(from..).unwrap_or_default();
        let len = text.iter().position(|&byte| byte == 0);
        from + len.map_or(text.len(), |len| len + 1)
    };
    let mut at = 10;
    if flags & 4 != 0 {
        let extra = packed
            .get(at..at + 2)
            .map_or(0, |len| usize::from(u16::from_le_bytes([len[0], len[1]])));
        at += 2 + extra;
    }
    if flags & 8 != 0 {
        at = zero_ended(at);
    }
    if flags & 16 != 0 {
        at = zero_ended(at);
    }
    at + usize::from(flags & 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, GzBuilder, read};
    use std::io::Read;

    fn packed(text: &[u8], gzip: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if gzip {
            read::GzEncoder::new(text, Compression::default())
                .read_to_end(&mut bytes)
                .unwrap();
        } else {
            read::ZlibEncoder::new(text, Compression::default())
                .read_to_end(&mut bytes)
                .unwrap();
        }
        bytes
    }

    fn unpacked(layer: &[u8]) -> Option<(Vec<u8>, InflateEnd)> {
        let start = possible_starts(layer).next()?;
        let mut stream = PackedStream::new(&layer[start..]);
        let mut out = Vec::new();
        while stream.read(5, &mut out) {}
        Some((out, stream.end()?))
    }

    #[test]
    fn gzip_and_zlib_unpack_to_their_end() {
        for gzip in [true, false] {
            let packed = packed(b"hello hello", gzip);
            let layer = [b"..", &packed[..], b"tail"].concat();
            let expected = (b"hello hello".to_vec(), InflateEnd::Complete);
            assert_eq!(unpacked(&layer), Some(expected), "gzip {gzip}");
            let cut = unpacked(&layer[..packed.len() - 10]).map(|(_, end)| end);
            assert_eq!(cut, Some(InflateEnd::Truncated), "gzip {gzip}");
        }
    }

    #[test]
    fn optional_gzip_header_fields_are_skipped() {
        let mut bytes = Vec::new();
        GzBuilder::new()
            .filename("a.txt")
            .comment("of mine")
            .extra(vec![1, 2, 3])
            .read(&b"hello hello"[..], Compression::default())
            .read_to_end(&mut bytes)
            .unwrap();
        assert_eq!(
            unpacked(&bytes),
            Some((b"hello hello".to_vec(), InflateEnd::Complete))
        );
    }

    #[test]
    fn only_as_much_as_requested_is_unpacked() {
        let bomb = packed(&vec![b'a'; 50 << 20], true);
        let mut stream = PackedStream::new(&bomb);
        let mut out = Vec::new();
        assert!(stream.read(1000, &mut out) && out.len() < 3000 && stream.end().is_none());
        assert!(stream.used() < bomb.len());
    }

    #[test]
    fn malformed_streams_yield_no_data() {
        assert_eq!(
            unpacked(b"\x1f\x8b\x08\x00\0\0\0\0\0\0\xFF\xFF"),
            Some((Vec::new(), InflateEnd::Damaged))
        );
        assert_eq!(
            unpacked(b"\x1f\x8b\x08rubbish"),
            Some((Vec::new(), InflateEnd::Truncated))
        );
        assert_eq!(
            unpacked(b"x\x9c"),
            Some((Vec::new(), InflateEnd::Truncated))
        );
        assert_eq!(unpacked(b""), None);
    }
}
