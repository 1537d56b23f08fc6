//! Owns the decoding of stretches written in a small alphabet: base64, base32, hex, binary digits,
//! byte lists, invisible characters. It may not search; it can tell where every byte came from.

use std::ops::Range;

use super::origin::{BREAK, Origin, Sink};

/// Fewest bytes any value has.
const BYTES_MIN: usize = 8;
const OUTSIDE: u8 = 0xFF;
const BETWEEN: u8 = 0xFE;

/// An alphabet whose symbols carry a fixed number of bits.
pub(super) struct Alphabet {
    bits: usize,
    /// Different symbols at which the first byte can start.
    phases: usize,
    table: [u8; 256],
}

/// Base64 (standard and URL-safe, also wrapped), hex (either case; `61:62`, `61 62`, `0x61, 0x62`),
/// base32, binary digits.
pub(super) static ALPHABETS: [Alphabet; 4] = [
    Alphabet::new(6, 4, &[b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"], b"-_", b"\r\n"),
    Alphabet::new(4, 2, &[b"0123456789abcdef", b"0123456789ABCDEF"], b"", b": -,xX\r\n"),
    Alphabet::new(5, 8, &[b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"], b"", b"\r\n"),
    Alphabet::new(1, 8, &[b"01"], b"", b" _,\r\n"),
];

/// The symbols of all long enough stretches of a layer in one alphabet.
pub(super) struct Symbols<'l> {
    alphabet: &'static Alphabet,
    layer: &'l [u8],
    values: Vec<u8>,
    /// Source range of each stretch, and where its symbols end in `values`.
    stretches: Vec<(Range<usize>, usize)>,
}

impl Alphabet {
    const fn new(bits: usize, phases: usize, symbols: &[&[u8]], last_two_also: &[u8], between: &[u8]) -> Alphabet {
        let mut table = [OUTSIDE; 256];
        let mut at = 0;
        while at < between.len() {
            table[between[at] as usize] = BETWEEN;
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
        Alphabet { bits, phases, table }
    }

    /// `None` when no stretch is long enough to hold `bytes_min` bytes, the fewest worth decoding.
    pub(super) fn symbols<'l>(&'static self, layer: &'l [u8], bytes_min: usize) -> Option<Symbols<'l>> {
        let symbols_min = (bytes_min.max(BYTES_MIN) * 8).div_ceil(self.bits);
        let mut symbols = Symbols { alphabet: self, layer, values: Vec::new(), stretches: Vec::new() };
        for stretch in stretches(layer, symbols_min, |byte| self.table[usize::from(byte)] != OUTSIDE) {
            let before = symbols.values.len();
            symbols.values.extend(self.walk(layer, &stretch).map(|(_, value)| value));
            if symbols.values.len() - before >= symbols_min {
                symbols.stretches.push((stretch, symbols.values.len()));
            } else {
                symbols.values.truncate(before);
            }
        }
        (!symbols.stretches.is_empty()).then_some(symbols)
    }

    /// The symbols of one stretch with their positions.
    fn walk<'l>(&'static self, layer: &'l [u8], stretch: &Range<usize>) -> impl Iterator<Item = (usize, u8)> + 'l {
        let all = stretch.clone().map(|at| (at, self.table[usize::from(layer[at])]));
        // In `0x61` the zero is not a digit of the byte.
        let is_prefix = move |at: usize| self.bits == 4 && layer[at] == b'0' && matches!(layer.get(at + 1), Some(b'x' | b'X'));
        all.filter(move |&(at, value)| value < BETWEEN && !is_prefix(at))
    }
}

impl Symbols<'_> {
    /// How many readings there are.
    pub(super) fn phases(&self) -> usize {
        self.alphabet.phases
    }

    /// The bytes the symbols spell when the first `phase` of each stretch are left out; a break ends each stretch.
    pub(super) fn bytes(&self, phase: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.values.len() * self.alphabet.bits / 8 + self.stretches.len());
        let mut start = 0;
        for &(_, end) in &self.stretches {
            spell(&self.values[(start + phase).min(end)..end], self.alphabet.bits, &mut bytes);
            bytes.push(BREAK);
            start = end;
        }
        bytes
    }

    /// The source of each byte that `bytes` gives for the same phase.
    pub(super) fn origin(&self, phase: usize) -> Origin {
        let bits = self.alphabet.bits;
        let mut origin = Origin::default();
        for (stretch, _) in &self.stretches {
            let positions: Vec<usize> = self.alphabet.walk(self.layer, stretch).map(|(at, _)| at).skip(phase).collect();
            let byte = |n: usize| (positions[n * 8 / bits], positions[(n * 8 + 7) / bits] + 1);
            origin.0.extend((0..positions.len() * bits / 8).map(byte));
            origin.0.push((stretch.end, stretch.end));
        }
        origin
    }
}

fn spell(symbols: &[u8], bits: usize, bytes: &mut Vec<u8>) {
    if bits == 6 {
        // The common case, four symbols to three bytes at a time.
        let groups = symbols.chunks_exact(4);
        let rest = groups.remainder();
        for group in groups {
            let word = group.iter().fold(0u32, |word, &symbol| word << 6 | u32::from(symbol));
            bytes.extend_from_slice(&word.to_be_bytes()[1..]);
        }
        return spell_slowly(rest, bits, bytes);
    }
    spell_slowly(symbols, bits, bytes);
}

fn spell_slowly(symbols: &[u8], bits: usize, bytes: &mut Vec<u8>) {
    let (mut held, mut bits_held) = (0u32, 0);
    for &symbol in symbols {
        held = held << bits | u32::from(symbol);
        bits_held += bits;
        if bits_held >= 8 {
            bits_held -= 8;
            bytes.push((held >> bits_held) as u8);
            held &= (1 << bits_held) - 1;
        }
    }
}

/// Writes the numbers up to 255 of lists such as `[115, 107, 45]`, with a break after each list.
pub(super) fn write_byte_lists(layer: &[u8], sink: &mut impl Sink) {
    for stretch in stretches(layer, BYTES_MIN * 3, |byte| byte.is_ascii_digit() || b", ;[]\n".contains(&byte)) {
        for digits in digit_groups(layer, &stretch) {
            let number = std::str::from_utf8(&layer[digits.clone()]).ok().and_then(|digits| digits.parse().ok());
            sink.decoded(&[number.unwrap_or(BREAK)], digits);
        }
        sink.decoded(&[BREAK], stretch.end..stretch.end);
    }
}

fn digit_groups(layer: &[u8], stretch: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (mut at, end) = (stretch.start, stretch.end);
    std::iter::from_fn(move || {
        at += layer[at..end].iter().position(u8::is_ascii_digit)?;
        let start = at;
        at += layer[at..end].iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(end - at);
        Some(start..at)
    })
}

/// Writes text made of characters that show nothing: tag characters stand for ASCII, variation
/// selectors for bytes. All that is visible between them becomes one break.
pub(super) fn write_invisible(layer: &[u8], sink: &mut impl Sink) {
    if !layer.contains(&0xF3) && !layer.contains(&0xEF) {
        return;
    }
    let (mut at, mut after_break) = (0, true);
    while at < layer.len() {
        let (len, byte) = match layer[at..] {
            [0xF3, 0xA0, 0x80, low @ 0xA0..=0xBF, ..] => (4, Some(low & 0x3F)),
            [0xF3, 0xA0, 0x81, low @ 0x80..=0xBE, ..] => (4, Some(0x40 | (low & 0x3F))),
            [0xEF, 0xB8, low @ 0x80..=0x8F, ..] => (3, Some(low & 0x0F)),
            [0xF3, 0xA0, block @ 0x84..=0x87, low @ 0x80..=0xBF, ..] => (4, ((block & 3) << 6 | (low & 0x3F)).checked_add(16)),
            _ => (1, None),
        };
        if byte.is_some() || !after_break {
            sink.decoded(&[byte.unwrap_or(BREAK)], at..at + len);
        }
        after_break = byte.is_none();
        at += len;
    }
}

/// Stretches that could be text; in a wrong reading there are next to none.
pub(super) fn printable(decoded: &[u8]) -> Vec<Range<usize>> {
    // NUL counts: text in UTF-16 is every other byte.
    stretches(decoded, BYTES_MIN, |byte| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n' | 0))
}

/// Maximal stretches of at least `min` bytes of a class. Looks at the far end first, so that text
/// without long stretches costs a fraction of a look per byte.
fn stretches(layer: &[u8], min: usize, is_inside: impl Fn(u8) -> bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    while let Some(candidate) = layer.get(start..start + min) {
        if let Some(outside) = candidate.iter().rposition(|&byte| !is_inside(byte)) {
            start += outside + 1;
            continue;
        }
        let more = layer[start + min..].iter().position(|&byte| !is_inside(byte));
        let end = more.map_or(layer.len(), |more| start + min + more);
        found.push(start..end);
        start = end + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The source range in which some reading of `source` holds `plain`.
    fn source_of(source: &str, plain: &str) -> Option<String> {
        let mut readings: Vec<(Vec<u8>, Origin)> = Vec::new();
        for symbols in ALPHABETS.iter().filter_map(|alphabet| alphabet.symbols(source.as_bytes(), 8)) {
            readings.extend((0..symbols.alphabet.phases).map(|phase| (symbols.bytes(phase), symbols.origin(phase))));
        }
        let (mut bytes, mut origin) = (Vec::new(), Origin::default());
        write_byte_lists(source.as_bytes(), &mut bytes);
        write_byte_lists(source.as_bytes(), &mut origin);
        readings.push((bytes, origin));
        readings.into_iter().find_map(|(bytes, origin)| {
            assert_eq!(bytes.len(), origin.0.len(), "{source}");
            let at = bytes.windows(plain.len()).position(|window| window == plain.as_bytes())?;
            Some(source[origin.of(&(at..at + plain.len()))].to_string())
        })
    }

    #[test]
    fn every_alphabet_reads_back_with_its_source() {
        for (source, plain, held_in) in [
            ("x c2VjcmV0LTAwMQ== y", "secret-001", "c2VjcmV0LTAwMQ"),
            ("YWJzZWNyZXQtMDAxenk=", "secret-001", "JzZWNyZXQtMDAx"),
            ("c2Vjcm\nV0LTAw\r\nMQ", "secret-001", "c2Vjcm\nV0LTAw\r\nMQ"),
            ("Pj4-Pz8_Pj4-Pz8_", ">>>???>>>???", "Pj4-Pz8_Pj4-Pz8_"),
            ("7365637265742d303031", "secret-001", "7365637265742d303031"),
            ("a 73:65:63:72:65:74:2D:30:30:31!", "secret-001", "73:65:63:72:65:74:2D:30:30:31"),
            ("0x73, 0x65, 0x63, 0x72, 0x65, 0x74, 0x2d, 0x30", "secret-0", "73, 0x65, 0x63, 0x72, 0x65, 0x74, 0x2d, 0x30"),
            ("ONSWG4TFOQWTAMBR", "secret-001", "ONSWG4TFOQWTAMBR"),
            ("01110011 01100101 01100011 01110010 01100101 01110100 00101101 00110000", "secret-0",
             "01110011 01100101 01100011 01110010 01100101 01110100 00101101 00110000"),
            ("bytes=[115, 101, 99, 114, 101, 116, 45, 48]", "secret-0", "115, 101, 99, 114, 101, 116, 45, 48"),
        ] {
            assert_eq!(source_of(source, plain).as_deref(), Some(held_in), "{source}");
        }
    }

    #[test]
    fn short_or_plain_text_has_no_readings() {
        for source in ["", "a short word or two", "2026-11-15 06:00", "[1, 2, 3]"] {
            assert!(ALPHABETS.iter().all(|alphabet| alphabet.symbols(source.as_bytes(), 8).is_none()), "{source}");
        }
    }

    #[test]
    fn stretches_are_maximal() {
        let digits = |byte: u8| byte.is_ascii_digit();
        assert_eq!(stretches(b"12345", 3, digits), [0..5]);
        assert_eq!(stretches(b"12a345b6789", 3, digits), [3..6, 7..11]);
        assert_eq!(stretches(b"12a34", 3, digits), []);
        assert_eq!(printable(b"\x80ab\xFFreadable\x01").len(), 1);
    }

    #[test]
    fn invisible_text_is_read() {
        let tags: String = "secret-1".chars().filter_map(|c| char::from_u32(0xE0000 + c as u32)).collect();
        let selectors: String = "secret-1".bytes().filter_map(|byte| char::from_u32(0xE0100 + u32::from(byte) - 16)).collect();
        for hidden in [tags, selectors] {
            let mut bytes = Vec::new();
            write_invisible(format!("ab{hidden}cd").as_bytes(), &mut bytes);
            assert_eq!(bytes, [b"secret-1", &[BREAK][..]].concat());
        }
        let mut bytes = Vec::new();
        write_invisible("日本語 ｔext".as_bytes(), &mut bytes);
        assert_eq!(bytes, b"");
    }
}
