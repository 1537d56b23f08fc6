//! Owns the decoding of stretches written in a small alphabet: base64, base32, hex, binary digits
//! and byte lists. It may not search; it reports where every byte came from.

use std::ops::Range;

use super::origin::{BREAK, DecodedSink, SourceMap};
use super::stretch::stretches;

/// The length in bytes of the shortest value that is decoded for.
const BYTES_MIN: usize = 8;
/// Table entry of a byte that ends a stretch of the alphabet.
const NOT_IN_ALPHABET: u8 = 0xFF;
/// Table entry of a byte that may separate symbols and carries no bits.
const SEPARATOR: u8 = 0xFE;

/// An alphabet whose symbols carry a fixed number of bits.
pub(super) struct Alphabet {
    bits: usize,
    /// The number of symbol offsets at which the first byte can start.
    phases: usize,
    table: [u8; 256],
    group: AlphabetGroup,
}

/// A class of bytes that includes whole alphabets: a layer is scanned once for each outline rather
/// than once for each alphabet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlphabetGroup {
    /// The bytes of base64, which include those of base32.
    Letters,
    /// Digits, hex digits, and the separators between numbers.
    Numbers,
}

/// Base64 (standard and URL-safe, also wrapped), hex (either case; `61:62`, `61 62`, `0x61, 0x62`),
/// base32, binary digits.
static ALPHABETS: [Alphabet; 4] = [
    Alphabet::new(
        AlphabetGroup::Letters,
        6,
        4,
        &[b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"],
        b"-_",
        b"\r\n",
    ),
    Alphabet::new(
        AlphabetGroup::Numbers,
        4,
        2,
        &[b"0123456789abcdef", b"0123456789ABCDEF"],
        b"",
        b": -,xX\r\n",
    ),
    Alphabet::new(
        AlphabetGroup::Letters,
        5,
        8,
        &[b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"],
        b"",
        b"\r\n",
    ),
    Alphabet::new(AlphabetGroup::Numbers, 1, 8, &[b"01"], b"", b" _,\r\n"),
];

/// The stretches of a layer that may be encoded.
pub(super) struct CandidateStretches<'l> {
    layer: &'l [u8],
    bytes_min: usize,
    letters: Vec<Range<usize>>,
    numbers: Vec<Range<usize>>,
}

impl<'l> CandidateStretches<'l> {
    /// Finds the stretches that can encode `bytes_min` bytes.
    pub(super) fn of(layer: &'l [u8], bytes_min: usize) -> CandidateStretches<'l> {
        let bytes_min = bytes_min.max(BYTES_MIN);
        // The shortest encoding of each kind: base64, hex.
        let letters = stretches(layer, (bytes_min * 8).div_ceil(6), |byte| {
            is_in(AlphabetGroup::Letters, byte)
        });
        let numbers = stretches(layer, bytes_min * 2, |byte| {
            is_in(AlphabetGroup::Numbers, byte)
        });
        CandidateStretches {
            layer,
            bytes_min,
            letters,
            numbers,
        }
    }

    /// The symbols of the layer in each alphabet that occurs in it.
    pub(super) fn symbols(&self) -> impl Iterator<Item = Symbols<'l>> {
        ALPHABETS
            .iter()
            .filter_map(|alphabet| alphabet.symbols(self))
    }

    /// Writes the numbers up to 255 of lists such as `[115, 107, 45]` as bytes, with a break after
    /// each list.
    pub(super) fn write_byte_lists(&self, sink: &mut impl DecodedSink) {
        let is_list = |stretch: &&Range<usize>| {
            self.layer[(*stretch).clone()]
                .iter()
                .any(|byte| b", ".contains(byte))
        };
        for stretch in self.numbers.iter().filter(is_list) {
            for digits in digit_groups(self.layer, stretch) {
                let number = std::str::from_utf8(&self.layer[digits.clone()])
                    .ok()
                    .and_then(|digits| digits.parse().ok());
                sink.decoded(&[number.unwrap_or(BREAK)], digits);
            }
            sink.decoded(&[BREAK], stretch.end..stretch.end);
        }
    }
}

fn is_in(outline: AlphabetGroup, byte: u8) -> bool {
    static CLASSES: [[bool; 256]; 2] =
        [class(AlphabetGroup::Letters), class(AlphabetGroup::Numbers)];
    CLASSES[outline as usize][usize::from(byte)]
}

const fn class(outline: AlphabetGroup) -> [bool; 256] {
    let mut class = [false; 256];
    let mut byte = 0u8;
    loop {
        class[byte as usize] = match outline {
            AlphabetGroup::Letters => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'\r' | b'\n')
            }
            AlphabetGroup::Numbers => {
                byte.is_ascii_hexdigit()
                    || matches!(
                        byte,
                        b':' | b' '
                            | b'-'
                            | b','
                            | b';'
                            | b'['
                            | b']'
                            | b'_'
                            | b'x'
                            | b'X'
                            | b'\r'
                            | b'\n'
                    )
            }
        };
        if byte == u8::MAX {
            return class;
        }
        byte += 1;
    }
}

/// The symbols of all long enough stretches of a layer in one alphabet.
pub(super) struct Symbols<'l> {
    alphabet: &'static Alphabet,
    layer: &'l [u8],
    values: Vec<u8>,
    /// The source range of each stretch, with the end of its symbols in `values`.
    stretches: Vec<(Range<usize>, usize)>,
}

impl Alphabet {
    const fn new(
        group: AlphabetGroup,
        bits: usize,
        phases: usize,
        symbols: &[&[u8]],
        last_two_also: &[u8],
        between: &[u8],
    ) -> Alphabet {
        let mut table = [NOT_IN_ALPHABET; 256];
        let mut at = 0;
        while at < between.len() {
            table[between[at] as usize] = SEPARATOR;
            at += 1;
        }
        let mut set = 0;
        while set < symbols.len() {
            let mut value = 0;
            while value < symbols[set].len() {
                table[symbols[set][value] as usize] = value as u8;
                value += 1;
            }
            set += 1;
        }
        let mut extra = 0;
        while extra < last_two_also.len() {
            table[last_two_also[extra] as usize] = 62 + extra as u8;
            extra += 1;
        }
        Alphabet {
            bits,
            phases,
            table,
            group,
        }
    }

    /// The symbols of this alphabet in the layer; `None` when no stretch is long enough.
    fn symbols<'l>(&'static self, candidates: &CandidateStretches<'l>) -> Option<Symbols<'l>> {
        let layer = candidates.layer;
        let symbols_min = (candidates.bytes_min * 8).div_ceil(self.bits);
        let mut symbols = Symbols {
            alphabet: self,
            layer,
            values: Vec::new(),
            stretches: Vec::new(),
        };
        let within = if self.group == AlphabetGroup::Letters {
            &candidates.letters
        } else {
            &candidates.numbers
        };
        for outline in within {
            for stretch in stretches(&layer[outline.clone()], symbols_min, |byte| {
                self.table[usize::from(byte)] != NOT_IN_ALPHABET
            }) {
                let stretch = outline.start + stretch.start..outline.start + stretch.end;
                let before = symbols.values.len();
                self.collect(layer, &stretch, &mut symbols.values);
                if symbols.values.len() - before >= symbols_min {
                    symbols.stretches.push((stretch, symbols.values.len()));
                } else {
                    symbols.values.truncate(before);
                }
            }
        }
        (!symbols.stretches.is_empty()).then_some(symbols)
    }

    /// Appends the values of a stretch's symbols, without separators.
    fn collect(&self, layer: &[u8], stretch: &Range<usize>, values: &mut Vec<u8>) {
        let mut end = values.len();
        values.resize(end + stretch.len(), 0);
        for at in stretch.clone() {
            values[end] = self.table[usize::from(layer[at])];
            end += usize::from(self.is_symbol(layer, at));
        }
        values.truncate(end);
    }

    fn is_symbol(&self, layer: &[u8], at: usize) -> bool {
        // In `0x61` the zero is not a digit of the byte.
        let is_prefix =
            self.bits == 4 && layer[at] == b'0' && matches!(layer.get(at + 1), Some(b'x' | b'X'));
        self.table[usize::from(layer[at])] < SEPARATOR && !is_prefix
    }
}

impl Symbols<'_> {
    /// The number of readings: one for each symbol at which the first byte can start.
    pub(super) fn phases(&self) -> usize {
        self.alphabet.phases
    }

    /// The bytes that the symbols encode when the first `phase` of each stretch are left out; a
    /// break ends each stretch.
    pub(super) fn bytes(&self, phase: usize) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(self.values.len() * self.alphabet.bits / 8 + self.stretches.len());
        let mut start = 0;
        for &(_, end) in &self.stretches {
            decode_symbols(
                &self.values[(start + phase).min(end)..end],
                self.alphabet.bits,
                &mut bytes,
            );
            bytes.push(BREAK);
            start = end;
        }
        bytes
    }

    /// The range of each stretch within the result of `bytes` for the same phase.
    pub(super) fn decoded_stretches(&self, phase: usize) -> impl Iterator<Item = Range<usize>> {
        let mut symbols_before = 0;
        let mut start = 0;
        self.stretches.iter().map(move |&(_, symbols_end)| {
            let symbols = (symbols_end - symbols_before).saturating_sub(phase);
            let end = start + symbols * self.alphabet.bits / 8;
            let range = start..end;
            symbols_before = symbols_end;
            start = end + 1; // Behind the break.
            range
        })
    }

    /// The ranges of the stretches in the layer.
    pub(super) fn source_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.stretches.iter().map(|(source, _)| source.clone())
    }

    /// The source range of each byte in the result of `bytes` for the same phase.
    pub(super) fn source_map(&self, phase: usize) -> SourceMap {
        let bits = self.alphabet.bits;
        let mut origin = SourceMap::default();
        for (stretch, _) in &self.stretches {
            let positions: Vec<usize> = stretch
                .clone()
                .filter(|&at| self.alphabet.is_symbol(self.layer, at))
                .skip(phase)
                .collect();
            let byte = |n: usize| (positions[n * 8 / bits], positions[(n * 8 + 7) / bits] + 1);
            origin.0.extend((0..positions.len() * bits / 8).map(byte));
            origin.0.push((stretch.end, stretch.end));
        }
        origin
    }
}

/// Appends the bytes that a stretch of symbols encodes.
fn decode_symbols(symbols: &[u8], bits: usize, bytes: &mut Vec<u8>) {
    if bits == 6 {
        // The common case, four symbols to three bytes at a time.
        let groups = symbols.chunks_exact(4);
        let rest = groups.remainder();
        for group in groups {
            let word = group
                .iter()
                .fold(0u32, |word, &symbol| word << 6 | u32::from(symbol));
            bytes.extend_from_slice(&word.to_be_bytes()[1..]);
        }
        return decode_bitwise(rest, bits, bytes);
    }
    decode_bitwise(symbols, bits, bytes);
}

/// Appends the encoded bytes bit by bit, for any symbol width.
fn decode_bitwise(symbols: &[u8], bits: usize, bytes: &mut Vec<u8>) {
    let mut pending = 0u32;
    let mut pending_bits = 0;
    for &symbol in symbols {
        pending = pending << bits | u32::from(symbol);
        pending_bits += bits;
        if pending_bits >= 8 {
            pending_bits -= 8;
            bytes.push((pending >> pending_bits) as u8);
            pending &= (1 << pending_bits) - 1;
        }
    }
}

/// The ranges of decimal numbers in a stretch.
fn digit_groups(layer: &[u8], stretch: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = stretch.start;
    let end = stretch.end;
    std::iter::from_fn(move || {
        at += layer[at..end].iter().position(u8::is_ascii_digit)?;
        let start = at;
        at += layer[at..end]
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(end - at);
        Some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source range in which some reading of `source` holds `plain`.
    fn source_of(source: &str, plain: &str) -> Option<String> {
        let mut readings: Vec<(Vec<u8>, SourceMap)> = Vec::new();
        let candidates = CandidateStretches::of(source.as_bytes(), 8);
        for symbols in candidates.symbols() {
            readings.extend(
                (0..symbols.phases())
                    .map(|phase| (symbols.bytes(phase), symbols.source_map(phase))),
            );
        }
        let mut bytes = Vec::new();
        let mut origin = SourceMap::default();
        candidates.write_byte_lists(&mut bytes);
        candidates.write_byte_lists(&mut origin);
        readings.push((bytes, origin));
        readings.into_iter().find_map(|(bytes, origin)| {
            assert_eq!(bytes.len(), origin.0.len(), "{source}");
            let at = bytes
                .windows(plain.len())
                .position(|window| window == plain.as_bytes())?;
            Some(source[origin.source_range(&(at..at + plain.len()))].to_string())
        })
    }

    #[test]
    fn every_alphabet_decodes_and_maps_back_to_its_source() {
        for (source, plain, held_in) in [
            ("x c2VjcmV0LTAwMQ== y", "secret-001", "c2VjcmV0LTAwMQ"),
            ("YWJzZWNyZXQtMDAxenk=", "secret-001", "JzZWNyZXQtMDAx"),
            ("c2Vjcm\nV0LTAw\r\nMQ", "secret-001", "c2Vjcm\nV0LTAw\r\nMQ"),
            ("Pj4-Pz8_Pj4-Pz8_", ">>>???>>>???", "Pj4-Pz8_Pj4-Pz8_"),
            ("7365637265742d303031", "secret-001", "7365637265742d303031"),
            (
                "a 73:65:63:72:65:74:2D:30:30:31!",
                "secret-001",
                "73:65:63:72:65:74:2D:30:30:31",
            ),
            (
                "0x73, 0x65, 0x63, 0x72, 0x65, 0x74, 0x2d, 0x30",
                "secret-0",
                "73, 0x65, 0x63, 0x72, 0x65, 0x74, 0x2d, 0x30",
            ),
            ("ONSWG4TFOQWTAMBR", "secret-001", "ONSWG4TFOQWTAMBR"),
            (
                "01110011 01100101 01100011 01110010 01100101 01110100 00101101 00110000",
                "secret-0",
                "01110011 01100101 01100011 01110010 01100101 01110100 00101101 00110000",
            ),
            (
                "bytes=[115, 101, 99, 114, 101, 116, 45, 48]",
                "secret-0",
                "115, 101, 99, 114, 101, 116, 45, 48",
            ),
        ] {
            assert_eq!(
                source_of(source, plain).as_deref(),
                Some(held_in),
                "{source}"
            );
        }
    }

    #[test]
    fn short_or_plain_text_yields_no_candidates() {
        for source in ["", "a short word or two", "2026-11-15 06:00", "[1, 2, 3]"] {
            assert!(
                CandidateStretches::of(source.as_bytes(), 8)
                    .symbols()
                    .next()
                    .is_none(),
                "{source}"
            );
        }
    }

    #[test]
    fn each_group_includes_its_alphabets() {
        for alphabet in &ALPHABETS {
            assert!(
                (0..=u8::MAX).all(|byte| alphabet.table[usize::from(byte)] == NOT_IN_ALPHABET
                    || is_in(alphabet.group, byte))
            );
        }
        assert!(
            b"0123456789, ;[]\n"
                .iter()
                .all(|&byte| is_in(AlphabetGroup::Numbers, byte))
        );
    }
}
