//! Owns the decoding of escape notations: backslash, percent, markup, quoted-printable. One call
//! decodes one level. It may not search; it reports for every decoded byte where it came from.

use std::ops::Range;

use super::origin::DecodedSink;

/// A notation in which single characters are written as an escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escape {
    /// Mail: `=2F`, and `=` at a line end.
    QuotedPrintable,
    /// URLs: `%2F`, and the old `%u00E9`.
    Percent,
    /// HTML and XML tags, which decode to nothing: `ab<b>cd</b>`.
    Tag,
    /// HTML and XML: `&amp;`, `&#38;`, `&#x26;`.
    Entity,
    /// JSON, and what programming languages add to it: `\"`, `\n`, `\u00e9`, `\u{e9}`, `\xE9`,
    /// `\351`.
    Backslash,
}

/// One decoded escape: up to four bytes that replace a range of source bytes.
struct DecodedEscape {
    at: usize,
    len: usize,
    bytes: [u8; 4],
    count: usize,
}

impl DecodedEscape {
    fn byte(len: usize, byte: u8) -> DecodedEscape {
        DecodedEscape {
            at: 0,
            len,
            bytes: [byte, 0, 0, 0],
            count: 1,
        }
    }

    fn char(len: usize, c: char) -> DecodedEscape {
        let mut bytes = [0; 4];
        let count = c.encode_utf8(&mut bytes).len();
        DecodedEscape {
            at: 0,
            len,
            bytes,
            count,
        }
    }

    fn empty(len: usize) -> DecodedEscape {
        DecodedEscape {
            at: 0,
            len,
            bytes: [0; 4],
            count: 0,
        }
    }
}

/// The offsets at which escapes may begin in a layer, by notation. Found in one pass over the
/// layer.
pub(super) struct LeadOffsets([Vec<usize>; Escape::ALL.len()]);

impl LeadOffsets {
    pub(super) fn of(layer: &[u8]) -> LeadOffsets {
        let mut leads = [const { Vec::new() }; Escape::ALL.len()];
        let mut look = |block: &[u8], start: usize| {
            for (at, &byte) in block.iter().enumerate() {
                if let Some(notation) = Escape::ALL.iter().position(|escape| escape.lead() == byte)
                {
                    leads[notation].push(start + at);
                }
            }
        };
        // Blocks of fixed size without an early exit compile to vector code (comparing for equality
        // would become a bit test a byte); most blocks have no lead at all.
        let (blocks, rest) = layer.as_chunks::<32>();
        for (number, block) in blocks.iter().enumerate() {
            if block
                .iter()
                .fold(u8::MAX, |least, &byte| least.min(lead_distance(byte)))
                == 0
            {
                look(block, number * 32);
            }
        }
        look(rest, layer.len() - rest.len());
        LeadOffsets(leads)
    }
}

/// The distance between the byte and the nearest lead byte; zero for a lead byte.
fn lead_distance(byte: u8) -> u8 {
    Escape::ALL
        .iter()
        .fold(u8::MAX, |least, escape| least.min(byte ^ escape.lead()))
}

/// A layer with the escapes of one notation decoded. It covers only the windows within reach of an
/// escape: the rest reads the same as before and was searched already.
pub(super) struct Unescaped<'l> {
    layer: &'l [u8],
    tokens: Vec<DecodedEscape>,
    windows: Vec<EscapeWindow>,
}

struct EscapeWindow {
    range: Range<usize>,
    /// The tokens of this window, as a range of indices.
    tokens: Range<usize>,
}

impl<'l> Unescaped<'l> {
    /// Decodes the escapes of one notation; `None` when the layer has none.
    pub(super) fn new(
        escape: Escape,
        layer: &'l [u8],
        leads: &LeadOffsets,
        reach: usize,
    ) -> Option<Unescaped<'l>> {
        let mut tokens: Vec<DecodedEscape> = Vec::new();
        let mut windows: Vec<EscapeWindow> = Vec::new();
        let mut free = 0;
        for &at in &leads.0[escape as usize] {
            let Some(token) = (at >= free).then(|| escape.decode(&layer[at..])).flatten() else {
                continue;
            };
            free = at + token.len;
            let start = at.saturating_sub(reach);
            let end = (free + reach).min(layer.len());
            tokens.push(DecodedEscape { at, ..token });
            match windows.last_mut() {
                Some(last) if start <= last.range.end => {
                    (last.range.end, last.tokens.end) = (end, tokens.len())
                }
                _ => windows.push(EscapeWindow {
                    range: start..end,
                    tokens: tokens.len() - 1..tokens.len(),
                }),
            }
        }
        (!tokens.is_empty()).then_some(Unescaped {
            layer,
            tokens,
            windows,
        })
    }

    /// The number of separate windows around escapes.
    pub(super) fn window_count(&self) -> usize {
        self.windows.len()
    }

    /// Writes one window to the sink with its escapes decoded.
    pub(super) fn write(&self, number: usize, sink: &mut impl DecodedSink) {
        let window = &self.windows[number];
        let mut at = window.range.start;
        for token in &self.tokens[window.tokens.clone()] {
            sink.plain(self.layer, at..token.at);
            sink.decoded(&token.bytes[..token.count], token.at..token.at + token.len);
            at = token.at + token.len;
        }
        sink.plain(self.layer, at..window.range.end);
    }
}

impl Escape {
    /// All notations from the outermost to the innermost, as programs nest them: a URL inside a
    /// mail, a JSON text inside a URL. After one notation only itself and the ones after it are
    /// tried.
    pub(super) const ALL: [Escape; 5] = [
        Escape::QuotedPrintable,
        Escape::Percent,
        Escape::Tag,
        Escape::Entity,
        Escape::Backslash,
    ];

    /// The byte that every escape of this notation begins with.
    const fn lead(self) -> u8 {
        match self {
            Escape::Backslash => b'\\',
            Escape::Percent => b'%',
            Escape::Tag => b'<',
            Escape::Entity => b'&',
            Escape::QuotedPrintable => b'=',
        }
    }

    /// Decodes the escape that begins at the start of `at`, if one does.
    fn decode(self, at: &[u8]) -> Option<DecodedEscape> {
        match self {
            Escape::Backslash => backslash(at),
            Escape::Percent => percent(at),
            Escape::Tag => tag(at),
            Escape::Entity => entity(at),
            Escape::QuotedPrintable => quoted_printable(at),
        }
    }
}

fn backslash(at: &[u8]) -> Option<DecodedEscape> {
    let simple = match at.get(1)? {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        &punctuation @ (b'"' | b'\\' | b'/' | b'\'') => punctuation,
        b'\n' => return Some(DecodedEscape::empty(2)),
        b'u' => return unicode(at),
        b'U' => return Some(DecodedEscape::char(10, char::from_u32(hex(at, 2, 8)?)?)),
        b'x' => return Some(DecodedEscape::byte(4, u8::try_from(hex(at, 2, 2)?).ok()?)),
        b'0'..=b'3' => {
            let octal = at.get(1..4)?.iter().try_fold(0, |sum, &digit| {
                Some(sum * 8 + char::from(digit).to_digit(8)?)
            })?;
            return Some(DecodedEscape::byte(4, u8::try_from(octal).ok()?));
        }
        _ => return None,
    };
    Some(DecodedEscape::byte(2, simple))
}

/// `\uXXXX`, a surrogate pair of them, or `\u{X}`.
fn unicode(at: &[u8]) -> Option<DecodedEscape> {
    if at.get(2) == Some(&b'{') {
        let digits = at
            .iter()
            .skip(3)
            .take(7)
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let closed = at.get(3 + digits) == Some(&b'}');
        return Some(DecodedEscape::char(
            4 + digits,
            char::from_u32(hex(at, 3, digits)?).filter(|_| closed)?,
        ));
    }
    let high = hex(at, 2, 4)?;
    if let Some(c) = char::from_u32(high) {
        return Some(DecodedEscape::char(6, c));
    }
    let low = hex(at, 8, 4)
        .filter(|low| at[6..].starts_with(b"\\u") && (0xDC00..0xE000).contains(low))?;
    let pair = 0x10000 + ((high.checked_sub(0xD800)? & 0x3FF) << 10) + (low - 0xDC00);
    Some(DecodedEscape::char(
        12,
        char::from_u32(pair).filter(|_| high < 0xDC00)?,
    ))
}

fn percent(at: &[u8]) -> Option<DecodedEscape> {
    if let Some(byte) = hex(at, 1, 2) {
        return Some(DecodedEscape::byte(3, u8::try_from(byte).ok()?));
    }
    let old = hex(at, 2, 4).filter(|_| at.get(1) == Some(&b'u'))?;
    Some(DecodedEscape::char(6, char::from_u32(old)?))
}

fn tag(at: &[u8]) -> Option<DecodedEscape> {
    let name = 1 + usize::from(at.get(1) == Some(&b'/'));
    at.get(name).filter(|byte| byte.is_ascii_alphabetic())?;
    let end = at
        .iter()
        .take(TAG_BYTES_MAX)
        .position(|&byte| byte == b'>')?;
    (!at[1..end].contains(&b'<')).then(|| DecodedEscape::empty(end + 1))
}

/// Longest markup tag that is skipped; a longer one is treated as text.
const TAG_BYTES_MAX: usize = 128;

fn entity(at: &[u8]) -> Option<DecodedEscape> {
    if at.get(1) == Some(&b'#') {
        let (from, radix) = if matches!(at.get(2), Some(b'x' | b'X')) {
            (3, 16)
        } else {
            (2, 10)
        };
        let digits = at
            .iter()
            .skip(from)
            .take(8)
            .take_while(|&&byte| char::from(byte).is_digit(radix))
            .count();
        let text = std::str::from_utf8(at.get(from..from + digits)?).ok()?;
        let c = char::from_u32(u32::from_str_radix(text, radix).ok()?)?;
        let closed = usize::from(at.get(from + digits) == Some(&b';'));
        return Some(DecodedEscape::char(from + digits + closed, c));
    }
    let (name, byte) = ENTITIES
        .iter()
        .find(|(name, _)| at[1..].starts_with(name.as_bytes()))?;
    Some(DecodedEscape::byte(1 + name.len(), *byte))
}

/// Names for the characters that mean something in markup, and for those that secrets like to
/// contain.
#[rustfmt::skip]
const ENTITIES: &[(&str, u8)] = &[
    ("amp;", b'&'), ("lt;", b'<'), ("gt;", b'>'), ("quot;", b'"'), ("apos;", b'\''), ("nbsp;", b' '), ("sol;", b'/'), ("bsol;", b'\\'),
    ("plus;", b'+'), ("equals;", b'='), ("num;", b'#'), ("excl;", b'!'), ("dollar;", b'$'), ("percnt;", b'%'), ("ast;", b'*'),
    ("lpar;", b'('), ("rpar;", b')'), ("lsqb;", b'['), ("rsqb;", b']'), ("lcub;", b'{'), ("rcub;", b'}'), ("comma;", b','),
    ("period;", b'.'), ("colon;", b':'), ("semi;", b';'), ("quest;", b'?'), ("commat;", b'@'), ("Hat;", b'^'), ("lowbar;", b'_'),
    ("verbar;", b'|'), ("vert;", b'|'), ("grave;", b'`'), ("Tab;", b'\t'), ("NewLine;", b'\n'),
];

fn quoted_printable(at: &[u8]) -> Option<DecodedEscape> {
    if at[1..].starts_with(b"\r\n") {
        return Some(DecodedEscape::empty(3));
    }
    if at.get(1) == Some(&b'\n') {
        return Some(DecodedEscape::empty(2));
    }
    Some(DecodedEscape::byte(3, u8::try_from(hex(at, 1, 2)?).ok()?))
}

/// The number written with exactly `digits` hex digits at `from`.
fn hex(at: &[u8], from: usize, digits: usize) -> Option<u32> {
    let text = at.get(from..from + digits)?;
    text.iter().try_fold(0u32, |sum, &byte| {
        sum.checked_mul(16)?
            .checked_add(char::from(byte).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::super::origin::SourceMap;
    use super::*;

    fn unescaped(escape: Escape, source: &str, reach: usize) -> Option<(Vec<u8>, SourceMap)> {
        let unescaped = Unescaped::new(
            escape,
            source.as_bytes(),
            &LeadOffsets::of(source.as_bytes()),
            reach,
        )?;
        let mut bytes = Vec::new();
        let mut origin = SourceMap::default();
        for number in 0..unescaped.window_count() {
            unescaped.write(number, &mut bytes);
            unescaped.write(number, &mut origin);
        }
        assert_eq!(bytes.len(), origin.0.len(), "{source}");
        assert!(
            origin
                .0
                .windows(2)
                .all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1),
            "{source}"
        );
        Some((bytes, origin))
    }

    fn check(escape: Escape, cases: &[(&str, &str)]) {
        for (source, expected) in cases {
            let (bytes, _) = unescaped(escape, source, 1000).unwrap_or_default();
            assert_eq!(
                String::from_utf8_lossy(&bytes),
                *expected,
                "{escape:?} of {source}"
            );
        }
    }

    #[test]
    fn backslash_escapes_are_decoded() {
        check(
            Escape::Backslash,
            &[
                (r#"a\"b\\c\/d\n\t\r"#, "a\"b\\c/d\n\t\r"),
                (
                    r"caf\u00e9 caf\u00E9 \u{e9} \xc3\xa9 \303\251",
                    "café café é é é",
                ),
                (r"\ud83d\udd11 \uD83D\uDD11", "🔑 🔑"),
                (
                    r"\n\ud83d \udd11\ud83d \u12 \xz \d \",
                    "\n\\ud83d \\udd11\\ud83d \\u12 \\xz \\d \\",
                ),
                (r"\U0001F511", "🔑"),
                ("a\\\nb", "ab"),
                (r"\\n", r"\n"),
                ("plain", ""),
            ],
        );
    }

    #[test]
    fn percent_entity_tag_and_quoted_printable_are_decoded() {
        check(
            Escape::Percent,
            &[("a%2Fb%2fc%25 %zz % %u00e9", "a/b/c% %zz % é")],
        );
        check(
            Escape::Entity,
            &[(
                "&lt;&#65;&#x42;&#67 &amp;amp; &unknown; & &#; &#99999999;",
                "<ABC &amp; &unknown; & &#; &#99999999;",
            )],
        );
        check(
            Escape::Tag,
            &[(
                "a<b>b</b>c<br/>d <i class=\"x\">e< f > <3 <<b>g<",
                "abcd e< f > <3 <g<",
            )],
        );
        check(
            Escape::QuotedPrintable,
            &[("a=3Db=\r\nc=\nd=zz=", "a=bcd=zz=")],
        );
    }

    #[test]
    fn decoded_bytes_map_back_to_their_source() {
        let (_, origin) = unescaped(Escape::Backslash, r"a\u00e9b", 9).unwrap();
        assert_eq!(origin.0, [(0, 1), (1, 7), (1, 7), (7, 8)]);
    }

    #[test]
    fn only_text_near_an_escape_is_decoded() {
        let (bytes, origin) =
            unescaped(Escape::Percent, "0123456789%410123456789%42%430", 2).unwrap();
        assert_eq!(bytes, b"89A0189BC0");
        assert_eq!(origin.0[2], (10, 13));
        assert_eq!(origin.0[8], (26, 29));
    }
}
