//! Goal: values leave no trace in any form this module promises to find, markers are sound, and
//! text that is not a value stays. Method: tables of texts through one `check` each. Properties
//! that must hold for all inputs are in `tests/it/redaction/properties.rs`.

use super::*;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use std::io::Read;

const TOKEN: &str = "Kq7zP2mW9x4LtB6vNc3RjY8s";
const PHRASE: &str = "velvet anchor mosaic lantern drift";
const QUOTED: &str = "x\"y'Kq7z\\9mW2x4L\tend/Z";
const LATIN: &str = "señal-ÜnïKq7zP2mWß";
const WIDE: &str = "秘密の合言葉Kq7zP2パスポート";
const EMOJI: &str = "🔑Kq7zP2mW9x4L🛡️";
const URL: &str = "mysql://app:Zt9kQw2LmXr7@db.corp.test:3306/main?tls=yes";
const BLOCK: &str = "BEGIN\nKq7zP2mW9x4LtB6vNc3R\njY8sHd5Fg1TaUe0oPq2w\nEND KEY";
const NUMBER: &str = "8812907733461205";
const ALL: [&str; 9] = [
    TOKEN, PHRASE, QUOTED, LATIN, WIDE, EMOJI, URL, BLOCK, NUMBER,
];

fn one(value: &str) -> Redactor {
    Redactor::new([SecretValue::new("k", value)])
}

fn clean(value: &str, text: &str) -> String {
    one(value).clean(text, ShapePolicy::Off).text.into_string()
}

/// For each value: its disguise must go, and the text around it must stay.
fn check(disguise: impl Fn(&str) -> String, values: &[&str]) {
    for value in values {
        let disguised = disguise(value);
        for (before, after) in [
            ("", ""),
            ("note: ", " and more"),
            ("<k>", "</k>"),
            ("a line\n\"", "\"\n"),
        ] {
            let cleaned = clean(value, &format!("{before}{disguised}{after}"));
            assert!(
                cleaned.contains("[REDACTED:k]"),
                "{value:?} as {disguised:?} gave {cleaned:?}"
            );
            assert!(
                cleaned.starts_with(before) && cleaned.ends_with(after),
                "{value:?} as {disguised:?} gave {cleaned:?}"
            );
            let left = cleaned.len() - before.len() - after.len();
            assert!(
                left <= "[REDACTED:k]".len() + 32,
                "{value:?} as {disguised:?} left {cleaned:?}"
            );
        }
    }
}

fn per_char(value: &str, write: impl Fn(char) -> String) -> String {
    value.chars().map(write).collect()
}

fn per_byte(value: &str, write: impl Fn(u8) -> String) -> String {
    value.bytes().map(write).collect()
}

#[test]
fn a_literal_value_is_redacted_at_any_position() {
    check(str::to_owned, &ALL);
    assert_eq!(
        clean(TOKEN, &format!("abc{TOKEN}xyz")),
        "abc[REDACTED:k]xyz"
    );
    assert_eq!(
        clean(TOKEN, &format!("日本{TOKEN}語")),
        "日本[REDACTED:k]語"
    );
    assert_eq!(clean("!!Kq7zP2mW!!", "x!!Kq7zP2mW!!y"), "x[REDACTED:k]y");
    assert_eq!(clean("        ", "a        b"), "a[REDACTED:k]b");
    assert_eq!(
        clean("$1${0}%s.*", "use $1${0}%s.* here"),
        "use [REDACTED:k] here"
    );
}

#[test]
fn overlapping_nested_and_periodic_values_are_redacted() {
    let redactor = |values: &[&str]| {
        Redactor::new(
            values
                .iter()
                .zip(["a", "b", "c"])
                .map(|(value, id)| SecretValue::new(id, *value)),
        )
    };
    for (values, text, expected) in [
        (
            &["abcd1234efgh", "efgh5678ijkl"][..],
            "x abcd1234efgh5678ijkl y",
            "x [REDACTED:a] y",
        ),
        (
            &["5678ijkl", "abcd1234efgh5678ijkl"],
            "x abcd1234efgh5678ijkl y",
            "x [REDACTED:b] y",
        ),
        (&["aaaaaaaaaa"], "<aaaaaaaaaaaaaaaaaaa>", "<[REDACTED:a]>"),
        (&["abababab"], "<babababababa>", "<b[REDACTED:a]a>"),
        (
            &["abcd1234", "abcd1234efgh"],
            "abcd1234 abcd1234efgh",
            "[REDACTED:a] [REDACTED:b]",
        ),
        (&["abcdefg1", "1hijklmn"], "abcdefg1hijklmn", "[REDACTED:a]"),
    ] {
        assert_eq!(
            redactor(values).clean(text, ShapePolicy::Off).text.as_str(),
            expected,
            "{values:?}"
        );
    }
}

#[test]
fn json_escaped_values_are_redacted() {
    let ascii = |value: &str, upper: bool| {
        let written = serde_json::to_string(value).unwrap();
        let unit = |unit: &u16| {
            if upper {
                format!("\\u{unit:04X}")
            } else {
                format!("\\u{unit:04x}")
            }
        };
        per_char(&written[1..written.len() - 1], |c| {
            if c.is_ascii() {
                c.to_string()
            } else {
                c.encode_utf16(&mut [0; 2]).iter().map(unit).collect()
            }
        })
    };
    let plain = |value: &str| {
        serde_json::to_string(value).unwrap()[1..]
            .trim_end_matches('"')
            .to_owned()
    };
    check(plain, &[QUOTED, BLOCK, LATIN, EMOJI]);
    check(|value| plain(value).replace('/', "\\/"), &[QUOTED, URL]);
    check(|value| ascii(value, false), &[QUOTED, LATIN, WIDE, EMOJI]);
    check(|value| ascii(value, true), &[QUOTED, LATIN, WIDE, EMOJI]);
    check(|value| plain(&plain(value)), &[QUOTED, BLOCK]);
    // A stray backslash before the form shifts the decoding; the literal forms still see it.
    assert_eq!(
        clean(
            "🔑é\\\\é🔑é\t",
            r"\\ud83d\udd11\u00e9\\\\\u00e9\ud83d\udd11\u00e9\t"
        ),
        r"\[REDACTED:k]"
    );
    // Only some characters escaped: no list of forms has this one, decoding does.
    assert_eq!(clean(TOKEN, &TOKEN.replace('q', "\\u0071")), "[REDACTED:k]");
}

#[test]
fn fully_escaped_values_are_redacted() {
    check(
        |v| {
            per_char(v, |c| {
                c.encode_utf16(&mut [0; 2])
                    .iter()
                    .map(|unit| format!("\\u{unit:04x}"))
                    .collect()
            })
        },
        &ALL,
    );
    check(|v| per_byte(v, |byte| format!("\\x{byte:02x}")), &ALL);
    check(|v| per_byte(v, |byte| format!("\\{byte:03o}")), &ALL);
    check(|v| per_byte(v, |byte| format!("%{byte:02X}")), &ALL);
    check(|v| per_byte(v, |byte| format!("%25{byte:02x}")), &ALL);
    check(|v| per_byte(v, |byte| format!("={byte:02X}")), &ALL);
    check(
        |v| {
            per_byte(v, |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
        },
        &ALL,
    );
    check(|v| v.replace(' ', "+"), &[PHRASE]);
    check(|v| per_char(v, |c| format!("&#{};", c as u32)), &ALL);
    check(|v| per_char(v, |c| format!("&#x{:X};", c as u32)), &ALL);
    check(
        |v| {
            v.replace('&', "&amp;")
                .replace('"', "&quot;")
                .replace('\'', "&apos;")
                .replace('/', "&sol;")
        },
        &[QUOTED, URL],
    );
}

#[test]
fn base64_encoded_values_are_redacted() {
    check(|v| STANDARD.encode(v), &ALL);
    check(|v| STANDARD_NO_PAD.encode(v), &ALL);
    check(|v| URL_SAFE.encode(v), &ALL);
    check(|v| STANDARD.encode(format!("u{v}zz")), &ALL);
    check(|v| STANDARD.encode(format!("ab{v}y")), &ALL);
    check(|v| STANDARD.encode(STANDARD.encode(v)), &ALL);
    check(
        |v| {
            STANDARD
                .encode(v)
                .replace('+', "%2B")
                .replace('/', "%2F")
                .replace('=', "%3D")
        },
        &ALL,
    );
    check(
        |v| {
            STANDARD.encode(
                v.encode_utf16()
                    .flat_map(u16::to_le_bytes)
                    .collect::<Vec<u8>>(),
            )
        },
        &[TOKEN, PHRASE, URL],
    );
    let wrapped = |v: &str| {
        STANDARD
            .encode(v)
            .as_bytes()
            .chunks(10)
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect::<Vec<_>>()
            .join("\r\n")
    };
    check(wrapped, &ALL);
}

#[test]
fn hex_binary_base32_rot13_and_gzip_values_are_redacted() {
    check(|v| per_byte(v, |byte| format!("{byte:02x}")), &ALL);
    check(|v| per_byte(v, |byte| format!("{byte:02X}")), &ALL);
    check(
        |v| {
            v.bytes()
                .map(|byte| format!("{byte:02x}"))
                .collect::<Vec<_>>()
                .join(":")
        },
        &ALL,
    );
    check(
        |v| {
            v.bytes()
                .map(|byte| format!("0x{byte:02x}"))
                .collect::<Vec<_>>()
                .join(", ")
        },
        &ALL,
    );
    check(
        |v| {
            v.bytes()
                .map(|byte| format!("{byte:08b}"))
                .collect::<Vec<_>>()
                .join(" ")
        },
        &ALL,
    );
    check(
        |v| {
            v.bytes()
                .map(|byte| byte.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        },
        &ALL,
    );
    check(base32, &ALL);
    check(|v| v.chars().rev().collect(), &[TOKEN, PHRASE, URL, NUMBER]);
    check(
        |v| per_char(v, |c| rot13(c).to_string()),
        &[TOKEN, PHRASE, URL],
    );
    check(|v| v.replace('\n', "\r\n"), &[BLOCK]);
    check(
        |v| {
            per_char(v, |c| {
                char::from_u32(0xE0000 + c as u32).unwrap().to_string()
            })
        },
        &[TOKEN, PHRASE, NUMBER],
    );
    let gzip = |v: &str| {
        let mut packed = Vec::new();
        flate2::read::GzEncoder::new(
            format!("head {v} tail").as_bytes(),
            flate2::Compression::best(),
        )
        .read_to_end(&mut packed)
        .unwrap();
        STANDARD_NO_PAD.encode(packed)
    };
    check(gzip, &ALL);
}

fn rot13(c: char) -> char {
    match c.to_ascii_lowercase() {
        'a'..='m' => char::from(c as u8 + 13),
        'n'..='z' => char::from(c as u8 - 13),
        _ => c,
    }
}

fn base32(value: &str) -> String {
    let bits: Vec<u8> = value
        .bytes()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
        .collect();
    let symbol = |bits: &[u8]| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
            [(0..5).fold(0, |n, at| n << 1 | usize::from(*bits.get(at).unwrap_or(&0)))]
    };
    bits.chunks(5)
        .map(|bits| char::from(symbol(bits)))
        .collect()
}

#[test]
fn base58_base85_and_leet_values_are_redacted() {
    let base85 = |value: &str| {
        let forms = super::bases::base_forms(value);
        forms
            .iter()
            .map(|form| form.to_string())
            .collect::<Vec<_>>()
    };
    // In order: base58, then ascii85 and base85 from the first byte on.
    for at in 0..3 {
        check(|v| base85(v)[at].clone(), &[TOKEN, URL, NUMBER, PHRASE]);
    }
    let swapped = |v: &str| {
        v.replace(['e', 'E'], "3")
            .replace(['a', 'A'], "4")
            .replace(['o', 'O'], "0")
            .replace(['i', 'I', 'l', 'L'], "1")
            .replace(['s', 'S'], "5")
            .replace(['t', 'T'], "7")
    };
    check(swapped, &[TOKEN, URL, PHRASE]);
}

/// Letters and what is written for them.
fn swap(value: &str, table: &[(char, &str)]) -> String {
    per_char(value, |c| {
        let found = table.iter().find(|(letter, _)| *letter == c);
        found.map_or_else(|| c.to_string(), |(_, digit)| (*digit).to_owned())
    })
}

#[test]
fn values_with_digits_for_letters_are_redacted() {
    let four = [('a', "4"), ('e', "3"), ('i', "1"), ('o', "0")];
    let six = [&four[..], &[('s', "5"), ('t', "7")]].concat();
    let seven = [&six[..], &[('l', "1")]].concat();
    for table in [&four[..], &six, &seven] {
        let upper = table
            .iter()
            .map(|(c, digit)| (c.to_ascii_uppercase(), *digit));
        let both: Vec<_> = table.iter().copied().chain(upper).collect();
        let mixed = "EastLot9TelAviv7SaleOil2";
        for value in [mixed, URL, PHRASE, "s3cr-Tomato-Enlist-55"] {
            check(|v| swap(v, table), &[value]);
            check(|v| swap(v, &both), &[value]);
        }
    }
}

#[test]
fn spelled_out_and_split_values_are_redacted() {
    for between in [
        "-",
        " - ",
        "_",
        ".",
        "\u{2013}",
        " \u{2014} ",
        "\n- ",
        "\n* ",
    ] {
        let spelled = |v: &str| {
            let chars: Vec<String> = v.chars().map(String::from).collect();
            chars.join(between)
        };
        check(spelled, &[TOKEN, NUMBER]);
    }
    let halves = |mark: &'static str| {
        move |v: &str| {
            let (head, tail) = v.split_at(v.len() / 2);
            format!("{head}\n{mark}{tail}")
        }
    };
    for mark in ["- ", "* ", "\u{2022} ", ""] {
        check(halves(mark), &[TOKEN, NUMBER]);
    }
    // A number separates the halves; each half reveals the value.
    check(halves("2) "), &[TOKEN]);
}

#[test]
fn values_with_lookalikes_or_spacing_are_redacted() {
    let wide = |c: char| {
        if ('!'..='~').contains(&c) {
            char::from_u32(c as u32 - 0x21 + 0xFF01).unwrap()
        } else {
            c
        }
    };
    let cyrillic = |c: char| {
        "аеосрхАВЕКМНОРСТХ"
            .chars()
            .zip("aeocpxABEKMHOPCTX".chars())
            .find(|(_, latin)| *latin == c)
            .map_or(c, |(twin, _)| twin)
    };
    check(|v| v.to_uppercase(), &ALL);
    check(|v| v.to_lowercase(), &ALL);
    check(|v| per_char(v, |c| wide(c).to_string()), &ALL);
    check(|v| per_char(v, |c| cyrillic(c).to_string()), &ALL);
    check(
        |v| {
            per_char(v, |c| format!("{c}\u{200B}"))
                .trim_end_matches('\u{200B}')
                .to_owned()
        },
        &ALL,
    );
    check(
        |v| {
            per_char(v, |c| format!("{c}\u{AD}\u{2060}"))
                .trim_end_matches(['\u{AD}', '\u{2060}'])
                .to_owned()
        },
        &ALL,
    );
    check(
        |v| unicode_normalization::UnicodeNormalization::nfd(v).collect(),
        &[LATIN, WIDE],
    );
    check(
        |v| per_char(v, |c| format!("{c} ")).trim_end().to_owned(),
        &[TOKEN, PHRASE, URL, LATIN, WIDE],
    );
    check(
        |v| {
            v.chars()
                .collect::<Vec<_>>()
                .chunks(7)
                .map(|line| line.iter().collect::<String>())
                .collect::<Vec<_>>()
                .join("\n")
        },
        &ALL,
    );
    check(
        |v| {
            v.chars()
                .collect::<Vec<_>>()
                .chunks(4)
                .map(|group| group.iter().collect::<String>())
                .collect::<Vec<_>>()
                .join("-")
        },
        &[TOKEN, PHRASE, URL, BLOCK, NUMBER],
    );
    check(
        |v| format!("{}\" + \"{}", &v[..8], &v[8..]),
        &[TOKEN, PHRASE, URL, NUMBER],
    );
    check(
        |v| format!("{}**{}**{}", &v[..4], &v[4..9], &v[9..]),
        &[TOKEN, PHRASE, URL, NUMBER],
    );
    check(
        |v| format!("{}<b>{}</b>{}", &v[..4], &v[4..9], &v[9..]),
        &[TOKEN, PHRASE, URL, NUMBER],
    );
}

#[test]
fn a_distinctive_half_of_a_value_is_redacted() {
    for (value, text, expected) in [
        (
            TOKEN,
            format!("starts with {}...", &TOKEN[..12]),
            "starts with [REDACTED:k]...",
        ),
        (
            TOKEN,
            format!("starts with {}...", &TOKEN[..20]),
            "starts with [REDACTED:k]...",
        ),
        (
            TOKEN,
            format!("ends with ...{}", &TOKEN[10..]),
            "ends with ...[REDACTED:k]",
        ),
        (
            PHRASE,
            format!("begins {} or so", &PHRASE[..20]),
            "begins [REDACTED:k] or so",
        ),
        (URL, format!("{}…", &URL[..30]), "[REDACTED:k]…"),
        (QUOTED, format!("{}...", &QUOTED[..16]), "[REDACTED:k]..."),
        (WIDE, format!("{}...", &WIDE[..30]), "[REDACTED:k]..."),
    ] {
        assert_eq!(clean(value, &text), expected);
    }
}

#[test]
fn text_without_the_value_is_unchanged() {
    for (value, text) in [
        (TOKEN, "id Kq7zP2 ok"),
        (TOKEN, "id Kq7zP2mW9x ok"),
        (PHRASE, "the velvet anchor is a pub"),
        (URL, "connect to db.corp.test:3306/main?tls=yes"),
        (
            "https://hooks.test.example/services/Kq7zP2mW9x4L",
            "https://hooks.test.example/services/ is the prefix",
        ),
        ("robot-7@corp.example", "mail joe@corp.example"),
        ("stressed", "desserts"),
        ("therapist", "the rapist"),
        (
            "changemeplease",
            "please change me, please; or change me please",
        ),
        (
            "authentication-service-token",
            "the authentication service token is new",
        ),
        ("pa.*word1", "paXXXXword1"),
        (NUMBER, "88129077 is half of it"),
        (TOKEN, "c2VlIHlvdSBhdCBub29uIG5lYXIgdGhlIGZvdW50YWlu"),
        (TOKEN, "\\u0041\\u0042 %41%42 &#65;&#66; =41=42 \\x41\\x42"),
        (
            TOKEN,
            "emoji 👩‍👩‍👧, RTL שלום, nul \0, bell \u{7}, e\u{301} and Å, ＡＢ and ﬁ, \r\n  ",
        ),
    ] {
        assert_eq!(clean(value, text), text, "{value}");
        assert!(!one(value).has_findings(text, ShapePolicy::Off), "{text}");
    }
}
