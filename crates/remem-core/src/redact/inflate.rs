//! Owns the unpacking of gzip and zlib data inside a decoded layer, under hard limits on tries and
//! size.

use std::io::Read;
use std::ops::Range;

use flate2::bufread::{GzDecoder, ZlibDecoder};

/// How many possible beginnings are tried in one layer.
const TRIES_MAX: usize = 8;
/// Unpacked bytes looked at per try; a value further in is not found.
const BYTES_MAX: u64 = 256 * 1024;

/// The unpacked data of every packed stretch, with the range it was packed in.
pub(super) fn unpack_all(layer: &[u8]) -> Vec<(Vec<u8>, Range<usize>)> {
    let possible = layer
        .iter()
        .enumerate()
        .filter(|(_, byte)| matches!(byte, 0x1F | 0x78))
        .map(|(start, _)| start);
    let starts = possible.filter(|&start| {
        matches!(
            layer[start..],
            [0x1F, 0x8B, 8, ..] | [0x78, 1 | 0x5E | 0x9C | 0xDA, ..]
        )
    });
    starts
        .take(TRIES_MAX)
        .filter_map(|start| unpack(layer, start))
        .collect()
}

fn unpack(layer: &[u8], start: usize) -> Option<(Vec<u8>, Range<usize>)> {
    let packed = &layer[start..];
    let mut bytes = Vec::new();
    // A cut or damaged stream still gives away what came before, so errors only end the reading.
    let rest = if packed.starts_with(&[0x1F]) {
        let mut decoder = GzDecoder::new(packed);
        let _ = decoder.by_ref().take(BYTES_MAX).read_to_end(&mut bytes);
        decoder.into_inner().len()
    } else {
        let mut decoder = ZlibDecoder::new(packed);
        let _ = decoder.by_ref().take(BYTES_MAX).read_to_end(&mut bytes);
        decoder.into_inner().len()
    };
    (!bytes.is_empty()).then_some((bytes, start..layer.len() - rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, read};

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

    #[test]
    fn both_formats_unpack_with_their_range() {
        for gzip in [true, false] {
            let packed = packed(b"hello hello", gzip);
            let layer = [b"..", &packed[..], b"tail"].concat();
            assert_eq!(
                unpack_all(&layer),
                [(b"hello hello".to_vec(), 2..2 + packed.len())],
                "gzip {gzip}"
            );
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit_and_rubbish_gives_nothing() {
        let bomb = packed(&vec![b'a'; 50 << 20], true);
        assert_eq!(unpack_all(&bomb)[0].0.len(), BYTES_MAX as usize);
        assert_eq!(unpack_all(b"\x1f\x8b\x08rubbish"), []);
        assert_eq!(unpack_all(b""), []);
    }
}
