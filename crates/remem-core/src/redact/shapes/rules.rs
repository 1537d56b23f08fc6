//! Owns the shapes that a pattern at a literal cannot express: blocks, assignments, headers, URLs.
//! Each function takes the text and the range of its literal, and returns the range of the secret
//! alone.

use std::ops::Range;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::Regex;

use super::checks::{has_letters_and_digits, is_diverse};
use super::input::ScanInput;
use crate::redact::random::{is_placeholder, is_random_token};
use crate::redact::stretch::stretches;

/// Longest private key block, in bytes.
const BLOCK_BYTES_MAX: usize = 16 * 1024;
/// Longest assigned value, in bytes.
const VALUE_BYTES_MAX: usize = 1024;
/// Longest text between a name and its value: quotes, spaces and the assignment sign.
const ASSIGNED_BYTES_MAX: usize = 16;
/// Bytes at the front of a value that decide whether it is random.
const VALUE_FRONT_BYTES: usize = 64;
/// A header followed by fewer key characters than this is talk about keys, not a key.
const KEY_CHARS_MIN: usize = 40;

fn constant_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// A private key block: from `-----BEGIN … PRIVATE KEY-----` to the end line, or to the last key
/// character if the end line is missing.
pub(super) fn private_key(input: &ScanInput<'_>, literal: Range<usize>) -> Option<Range<usize>> {
    static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
        constant_regex(r"\A-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
    });
    static END: LazyLock<Regex> =
        LazyLock::new(|| constant_regex(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"));
    let block = input.lookahead(literal.start, BLOCK_BYTES_MAX);
    let begin = BEGIN.find(block)?.end();
    // Armour headers, wrapped lines and escaped line ends all stay within these characters.
    let body = block[begin..].split("-----BEGIN").next()?;
    input.count_examined(begin + body.len());
    let is_key = |c: char| c.is_ascii_alphanumeric() || "+/=\\ \t\r\n:,.-_()".contains(c);
    let cut = body.find(|c| !is_key(c)).unwrap_or(body.len());
    let key_chars = |body: &str| body.bytes().filter(u8::is_ascii_alphanumeric).count();
    let end = match END.find(body) {
        Some(end) if end.start() <= cut => end.end(),
        _ => body[..cut].trim_end().len(),
    };
    (key_chars(&body[..end]) >= KEY_CHARS_MIN && !looks_like_prose(&body[..end]))
        .then(|| literal.start..literal.start + begin + end)
}

/// Whether a text is words with spaces between them; lines of a key are long and have none.
fn looks_like_prose(body: &str) -> bool {
    body.split_whitespace().map(str::len).max().unwrap_or(0) < 24
}

/// An AWS secret key: forty characters assigned to a name such as `aws_secret_access_key`.
pub(super) fn aws_secret_key(input: &ScanInput<'_>, literal: Range<usize>) -> Option<Range<usize>> {
    static VALUE: LazyLock<Regex> = LazyLock::new(|| {
        constant_regex(
            r#"\A[\\"'\]]{0,3}\s{0,4}(?:=>|:=|[:=])\s{0,4}[\\"']{0,2}([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|\z)"#,
        )
    });
    let key = VALUE.captures(input.lookahead(literal.end, 128))?.get(1)?;
    is_diverse(key.as_str()).then(|| literal.end + key.start()..literal.end + key.end())
}

/// A Telegram bot token: eight to ten digits, a colon, `AA` and 33 more characters.
pub(super) fn telegram_token(input: &ScanInput<'_>, literal: Range<usize>) -> Option<Range<usize>> {
    let text = input.text;
    static TAIL: LazyLock<Regex> =
        LazyLock::new(|| constant_regex(r"\A:(AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|\z)"));
    let digits = text[..literal.start]
        .bytes()
        .rev()
        .take_while(u8::is_ascii_digit)
        .count();
    let glued = text[..literal.start - digits]
        .bytes()
        .next_back()
        .is_some_and(|byte| {
            byte.is_ascii_alphanumeric() && !text[..literal.start - digits].ends_with("bot")
        });
    let tail = TAIL.captures(input.lookahead(literal.start, 64))?.get(1)?;
    ((8..=10).contains(&digits) && !glued && is_diverse(tail.as_str()))
        .then(|| literal.start - digits..literal.start + tail.end())
}

/// The token at the end of a Discord webhook address.
pub(super) fn discord_webhook(
    input: &ScanInput<'_>,
    literal: Range<usize>,
) -> Option<Range<usize>> {
    static TAIL: LazyLock<Regex> =
        LazyLock::new(|| constant_regex(r"\A[0-9]{16,20}/([A-Za-z0-9_-]{60,80})"));
    let tail = TAIL.captures(input.lookahead(literal.end, 128))?.get(1)?;
    is_diverse(tail.as_str()).then(|| literal.end + tail.start()..literal.end + tail.end())
}

/// Discord bot tokens. They have no prefix: three parts, of which the first is a number in base64.
pub(super) fn discord_tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    static TOKEN: LazyLock<Regex> = LazyLock::new(|| {
        constant_regex(r"\A[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45}")
    });
    let bytes = text.as_bytes();
    stretches(bytes, 23, is_base64url)
        .into_iter()
        .filter(|first| {
            bytes.get(first.end) == Some(&b'.') && matches!(bytes[first.start], b'M' | b'N' | b'O')
        })
        .filter_map(|first| {
            let token = TOKEN
                .find(ScanInput::new(text).lookahead(first.start, 128))
                .filter(|token| token.end() > first.len())?;
            let number = STANDARD_NO_PAD.decode(&text[first.clone()]).ok()?;
            (number.len() >= 15 && number.iter().all(u8::is_ascii_digit))
                .then(|| first.start..first.start + token.end())
        })
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// The password in `scheme://user:password@host`; a template such as `${PASS}` is not a password.
pub(super) fn url_password(input: &ScanInput<'_>, literal: Range<usize>) -> Option<Range<usize>> {
    let text = input.text;
    static AUTHORITY: LazyLock<Regex> = LazyLock::new(|| {
        constant_regex(r#"\A[^\s/?#:@"'<>`\[\]]{0,64}:([^\s/?#"'<>`\[\]]{1,200})@[A-Za-z0-9\[_]"#)
    });
    let scheme = text[..literal.start]
        .bytes()
        .next_back()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    let password = AUTHORITY
        .captures(input.lookahead(literal.end, 512))?
        .get(1)?;
    let template = password.as_str().starts_with(['$', '{', '%'])
        && !password.as_str().contains(|c: char| c.is_ascii_digit())
        || password.as_str().starts_with(['{', '$']) && password.as_str().ends_with('}')
        || password
            .as_str()
            .chars()
            .all(|c| matches!(c, '*' | 'x' | 'X' | '.' | '•'));
    (scheme && !template).then(|| literal.end + password.start()..literal.end + password.end())
}

/// The credentials of `Authorization: <scheme> <credentials>`, and of `Bearer <token>` where the
/// token is clearly random.
pub(super) fn authorization(input: &ScanInput<'_>, literal: Range<usize>) -> Option<Range<usize>> {
    let text = input.text;
    static HEADER: LazyLock<Regex> = LazyLock::new(|| {
        constant_regex(
            r#"\A["']{0,1}\s{0,4}[:=,]\s{0,4}["']{0,1}(?i:(bearer|token|apikey|key)|(basic))\s{1,4}([A-Za-z0-9._~+/-]{8,2048}={0,2})"#,
        )
    });
    static BEARER: LazyLock<Regex> =
        LazyLock::new(|| constant_regex(r"\A[A-Za-z0-9._~+/-]{20,2048}={0,2}"));
    let rest = input.lookahead(literal.end, 2048 + 32);
    if text[literal.clone()].eq_ignore_ascii_case("bearer ") {
        let token = BEARER.find(rest)?;
        input.count_examined(token.end());
        let is_token = has_letters_and_digits(token.as_str()) && is_random_token(token.as_str());
        return is_token.then(|| literal.end..literal.end + token.end());
    }
    let header = HEADER.captures(rest)?;
    let credentials = header.get(3)?;
    input.count_examined(credentials.end());
    let accepted = if header.get(2).is_some() {
        is_basic_credentials(credentials.as_str())
    } else {
        credentials.len() >= 12 && has_letters_and_digits(credentials.as_str())
    };
    accepted.then(|| literal.end + credentials.start()..literal.end + credentials.end())
}

/// Whether credentials are those of HTTP Basic: `user:password` in base64.
fn is_basic_credentials(credentials: &str) -> bool {
    let plain = STANDARD_NO_PAD.decode(credentials.trim_end_matches('='));
    plain.is_ok_and(|plain| plain.contains(&b':') && plain.iter().all(|&byte| byte >= b' '))
}

/// The value of `name = "value"`, where the name suggests a secret and the value looks random.
pub(super) fn assignment(input: &ScanInput<'_>, literal: Range<usize>) -> Option<Range<usize>> {
    let text = input.text;
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| {
        constant_regex(
            r#"\A[\\"'\]]{0,3}\s{0,4}(?:=>|:=|[:=])\s{0,4}(?:\\?["'`])([^\s"'`\\<>\[\]{}]{20,512})\\?["'`]"#,
        )
    });
    static ASSIGNED: LazyLock<Regex> =
        LazyLock::new(|| constant_regex(r#"\A[\\"'\]]{0,3}\s{0,4}(?:=>|:=|[:=])[ \t]{0,4}"#));
    if ends_in_paging_name(&text[..literal.start]) {
        return None;
    }
    let rest = input.lookahead(literal.end, VALUE_BYTES_MAX);
    let begin = ASSIGNED
        .find(input.lookahead(literal.end, ASSIGNED_BYTES_MAX))?
        .end();
    let value = match QUOTED.captures(rest).and_then(|found| found.get(1)) {
        Some(value) => literal.end + value.start()..literal.end + value.end(),
        None => bare_value(input, literal.end + begin)?,
    };
    // A value is as random at its front as in the whole, and many can begin in one run.
    let front = input.lookahead(value.start, VALUE_FRONT_BYTES.min(value.len()));
    input.count_examined(front.len());
    let secret = front.trim_end_matches(['=', '.']);
    (is_random_token(secret) && !is_placeholder(secret)).then_some(value)
}

/// A value without quotation marks, if a character follows that can end one.
fn bare_value(input: &ScanInput<'_>, start: usize) -> Option<Range<usize>> {
    let end = input.value_end(start);
    let ends = input.text[end..]
        .chars()
        .next()
        .is_none_or(|c| c.is_whitespace() || ",;&'\"`)}<\\".contains(c));
    (ends && (20..=512).contains(&(end - start))).then_some(start..end)
}

/// Whether the name before a literal is that of a page or cursor token, which is not secret.
fn ends_in_paging_name(before: &str) -> bool {
    let word: String = before
        .chars()
        .rev()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
        .take(24)
        .collect();
    let word: String = word.chars().rev().collect::<String>().to_ascii_lowercase();
    ["page", "next", "continuation", "cursor", "sync", "resume"]
        .iter()
        .any(|paging| word.contains(paging))
}
