//! Texts made to be expensive for the redactor: each family repeats or nests a part up to a length.
//! Shared by the test that bounds the examined bytes and the benchmark that measures the time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::io::Read;

/// The repeated part of each family.
const PARTS: &[(&str, &str)] = &[
    ("vendor prefixes in each other", "SG.glpat-"),
    ("vendor prefixes with digits", "glpat-1.xoxb-2%."),
    ("assignments in each other", "token=password=secret="),
    ("assignments that end", "token=token=token=token=a1 "),
    ("headers", "authorization: bearer authorization=token "),
    ("addresses", "a://b:c@d://"),
    ("heads of key blocks", "-----BEGIN PRIVATE KEY-----a"),
    ("heads of web tokens", "eyJhbGciOiJI.eyJhbGciOiJI."),
    ("quotation marks", "\">\"\""),
    ("brackets", "[\"<{("),
    ("objects", "{\"a\":"),
    ("percent signs", "%25%2541"),
    (
        "all escapes",
        "%3D41%26%23x41;&lt;b&gt;=26amp;\\u0041\\\\x41<i>=3D",
    ),
    ("backslashes", "\\\\\\u005c"),
    ("tags", "<b>a</b>"),
    ("upper case", "VVVVVVVV"),
    ("hex digits", "4142434445"),
    ("binary digits", "01000001"),
    ("digits in a list", "65, 66,[67];"),
    ("base64 without an end", "QUFBQUFBQUFB"),
    ("markers", "[REDACTED:a]"),
    ("heads of markers", "[REDACTED:"),
    ("spaced letters", "K q 7 z P 2 "),
    ("accents", "a\u{301}\u{301}\u{301}"),
    ("invisible letters", "\u{E0041}\u{FE01}"),
    ("wide letters", "ﷺ"),
];

fn repeated(part: &str, bytes: usize) -> String {
    part.repeat(bytes / part.len())
}

fn packed(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    let best = flate2::Compression::best();
    flate2::read::GzEncoder::new(bytes, best)
        .read_to_end(&mut out)
        .expect("memory can be read");
    STANDARD_NO_PAD.encode(out)
}

/// Every family by name, each text about `bytes` long.
pub fn hostile_texts(bytes: usize) -> Vec<(&'static str, String)> {
    let mut texts: Vec<(&'static str, String)> = PARTS
        .iter()
        .map(|(name, part)| (*name, repeated(part, bytes)))
        .collect();
    let mut nested = repeated("Kq7z%41 ", bytes * 27 / 64);
    for _ in 0..3 {
        nested = STANDARD_NO_PAD.encode(nested);
    }
    texts.push(("base64 in base64 in base64", nested));
    let decoy = packed(repeated("A quick brown fox. ", 600_000).as_bytes());
    texts.push((
        "packed data",
        repeated(&format!("{decoy} "), bytes.max(decoy.len() + 1)),
    ));
    let bomb = packed(&vec![b'%'; bytes.min(48 << 10) << 10]);
    texts.push(("packed data without an end", bomb));
    let beginnings = STANDARD_NO_PAD.encode(b"\x1f\x8b\x08\x00x\x9c".repeat(bytes / 8));
    texts.push(("beginnings of packed data", beginnings));
    texts
}
