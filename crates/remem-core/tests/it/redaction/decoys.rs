//! Goal: nothing in a text keeps the redactor from examining the rest of it. Method: every promised
//! encoding of a value before and after packed data that is large when unpacked; values deep inside
//! packed data and across the borders of the windows that it is examined in. Controls: packed data
//! of ordinary size, which must stay as it is.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD as STANDARD, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::read::{GzEncoder, ZlibEncoder};
use remem_core::redact::{Redactor, SecretValue, ShapePolicy};
use std::io::Read;

const VALUE: &str = "Kq7zP2mW9x4LtB6vNc3RjY8s";
/// One escape of each notation, so that the text around it is decoded in each of them.
const ESCAPES: &str = "%41 \\u0041 \\x41 &#65; =41 ";

fn cleaned(text: &str) -> String {
    Redactor::new([SecretValue::new("k", VALUE)])
        .clean(text, ShapePolicy::Off)
        .text
        .into_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    GzEncoder::new(bytes, Compression::best())
        .read_to_end(&mut packed)
        .unwrap();
    packed
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    ZlibEncoder::new(bytes, Compression::default())
        .read_to_end(&mut packed)
        .unwrap();
    packed
}

/// A short text that unpacks to half a megabyte.
fn decoy() -> String {
    STANDARD.encode(gzip("A quick brown fox. ".repeat(30_000).as_bytes()))
}

/// A text that unpacks to more bytes than the redactor examines.
fn bomb() -> String {
    STANDARD.encode(gzip(&vec![b'a'; 48 << 20]))
}

/// Random words, so that they compress to a realistic share of their size.
fn prose(bytes: usize) -> String {
    let mut state = 7u64;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        for _ in 0..3 + (state >> 60) % 7 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push(char::from(b'a' + (state >> 58) as u8 % 16));
        }
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

fn per_byte(write: impl Fn(u8) -> String, between: &str) -> String {
    let parts: Vec<String> = VALUE.bytes().map(write).collect();
    parts.join(between)
}

fn base32(bytes: &[u8]) -> String {
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    bits.chunks(5)
        .map(|bits| {
            let symbol = (0..5).fold(0, |n, at| n << 1 | usize::from(*bits.get(at).unwrap_or(&0)));
            char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[symbol])
        })
        .collect()
}

/// Every promised encoding of the value, by name.
fn encodings() -> Vec<(&'static str, String)> {
    vec![
        ("plain", VALUE.to_owned()),
        ("hex", per_byte(|byte| format!("{byte:02x}"), "")),
        (
            "hex with colons",
            per_byte(|byte| format!("{byte:02x}"), ":"),
        ),
        (
            "hex with spaces",
            per_byte(|byte| format!("{byte:02X}"), " "),
        ),
        ("base32", base32(VALUE.as_bytes())),
        ("binary digits", per_byte(|byte| format!("{byte:08b}"), " ")),
        ("decimal list", per_byte(|byte| byte.to_string(), ", ")),
        ("gzip in base64", STANDARD.encode(gzip(VALUE.as_bytes()))),
        ("zlib in base64", STANDARD.encode(zlib(VALUE.as_bytes()))),
        (
            "gzip in hex",
            gzip(VALUE.as_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        ),
        ("base64", STANDARD.encode(VALUE)),
        ("base64url", URL_SAFE_NO_PAD.encode(format!("??{VALUE}"))),
        ("base64 at an offset", STANDARD.encode(format!("a{VALUE}"))),
        ("base64 of base64", STANDARD.encode(STANDARD.encode(VALUE))),
        ("\\u", per_byte(|byte| format!("\\u{byte:04x}"), "")),
        ("\\x", per_byte(|byte| format!("\\x{byte:02x}"), "")),
        ("percent", per_byte(|byte| format!("%{byte:02X}"), "")),
        ("entities", per_byte(|byte| format!("&#{byte};"), "")),
    ]
}

/// Checks that the value's encoding is redacted, with any text before and after it.
fn check_gone(name: &str, encoded: &str, before: &str, after: &str) {
    let text = format!("{before}{encoded}{after}");
    let left = cleaned(&text);
    assert!(
        !left.contains(encoded) && left.contains("[REDACTED:"),
        "{name} was kept between {} and {} characters: {:?}",
        before.len(),
        after.len(),
        left.get(..200)
    );
}

#[test]
fn compressed_decoys_do_not_hide_encoded_values() {
    let decoy = decoy();
    assert!(decoy.len() < 2_500);
    for (name, encoded) in encodings() {
        check_gone(name, &encoded, &format!("{decoy} the token is "), "");
        check_gone(name, &encoded, "the token is ", &format!(" {decoy}"));
        check_gone(name, &encoded, &format!("{ESCAPES}{decoy} and "), " end");
        check_gone(name, &encoded, &format!("{decoy} {ESCAPES}{decoy} "), "");
    }
}

#[test]
fn undecodable_data_is_replaced_and_hides_no_values() {
    let bomb = bomb();
    for (name, encoded) in encodings().into_iter().step_by(3) {
        check_gone(name, &encoded, &format!("{bomb} the token is "), "");
    }
    assert_eq!(
        cleaned(&format!("see {bomb} there")),
        "see [REDACTED:undecodable] there"
    );
    let text = format!("{bomb} is not c2VlIHlvdSBhdCBub29uIG5lYXIgdGhlIGZvdW50YWlu or 61:62:63");
    assert!(
        cleaned(&text)
            .ends_with(" is not c2VlIHlvdSBhdCBub29uIG5lYXIgdGhlIGZvdW50YWlu or 61:62:63"),
        "what is behind it can be looked at and stays"
    );
}

#[test]
fn a_value_deep_inside_compressed_data_is_found() {
    for filler in [256 << 10, 3 << 20] {
        let inside = format!("{}{VALUE} end", "x filler ".repeat(filler / 9));
        for packed in [gzip(inside.as_bytes()), zlib(inside.as_bytes())] {
            let blob = STANDARD.encode(packed);
            assert_eq!(cleaned(&format!("see {blob}!")), "see [REDACTED:k]!");
        }
    }
    let inside = format!("{} {}", prose(300_000), STANDARD.encode(VALUE));
    let blob = STANDARD.encode(gzip(inside.as_bytes()));
    assert_eq!(cleaned(&format!("see {blob}!")), "see [REDACTED:k]!");
}

#[test]
fn a_value_across_a_window_boundary_is_found() {
    let hex = per_byte(|byte| format!("{byte:02x}"), ":");
    for border in [32 << 10, 64 << 10, 128 << 10, 192 << 10] {
        for before in (border - 80..border + 8).step_by(3) {
            for written in [VALUE, hex.as_str()] {
                let inside = format!("{}{written}. end", ".".repeat(before));
                let blob = STANDARD.encode(gzip(inside.as_bytes()));
                assert_eq!(cleaned(&blob), "[REDACTED:k]", "{before} bytes before it");
            }
        }
    }
}

#[test]
fn nested_compressed_data_is_unpacked() {
    let wordy = prose(400_000);
    for inner in [
        gzip(VALUE.as_bytes()),
        gzip(format!("{wordy}{VALUE}").as_bytes()),
    ] {
        for before in [0, 65_000] {
            let filler = ". ".repeat(before / 2);
            let written = format!("{filler}{}", STANDARD.encode(&inner));
            let raw = [filler.as_bytes(), &inner].concat();
            for outer in [gzip(written.as_bytes()), gzip(&raw)] {
                let left = cleaned(&STANDARD.encode(outer));
                assert!(
                    left.len() < 40 && left.starts_with("[REDACTED:"),
                    "{before}"
                );
            }
        }
    }
}

#[test]
fn false_gzip_headers_do_not_hide_a_real_one() {
    for begin in [
        &b"\x1f\x8b\x08"[..],
        b"\x1f\x8b\x08\x08name",
        b"\x78\x9c",
        b"x^",
    ] {
        let bytes = [&begin.repeat(200)[..], &gzip(VALUE.as_bytes())].concat();
        let text = STANDARD.encode(bytes);
        assert!(cleaned(&text).contains("[REDACTED:"), "{begin:?}");
    }
}

#[test]
fn compressed_data_without_values_is_unchanged() {
    let manifest = format!(
        "{{\"name\":\"shop\",\"manifest\":\"{}\",\"icon\":\"data:image/png;base64,{}\"}}",
        prose(1 << 20).replace(" a", "\\n  key: \\\"a\\\"\\n"),
        STANDARD.encode(zlib(prose(20_000).as_bytes())),
    );
    let release = STANDARD.encode(gzip(manifest.as_bytes()));
    let picture = [b"\x89PNG\r\n\x1a\nIDAT", &zlib(&vec![127; 1 << 20])[..]].concat();
    for text in [
        format!("release: {release}\n"),
        format!("release: {}\n", STANDARD.encode(&release)),
        format!(
            "<img src=\"data:image/png;base64,{}\">",
            STANDARD.encode(picture)
        ),
        format!(
            "log: {}\n",
            STANDARD.encode(gzip(prose(6 << 20).as_bytes()))
        ),
        decoy(),
    ] {
        assert_eq!(cleaned(&text).len(), text.len(), "{}", &text[..40]);
        assert_eq!(cleaned(&text), text);
    }
}
