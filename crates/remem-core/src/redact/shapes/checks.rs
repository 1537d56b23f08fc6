//! Owns the checks of a token that a pattern matched: checksums, headers, variety of characters.
//! Pure functions of the matched text, which they may not keep.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::redact::random::{distinct_chars, is_placeholder};

/// Accepts every match: the pattern alone is specific enough.
pub(super) fn accept_all(_: &str) -> bool {
    true
}

/// Whether a token has at least eight different characters and is not a documentation example.
pub(super) fn is_diverse(token: &str) -> bool {
    distinct_chars(body(token)) >= 8 && !is_placeholder(token)
}

/// Whether a token is diverse and has letters and at least two digits: words joined by hyphens are
/// not a key.
pub(super) fn has_letters_and_digits(token: &str) -> bool {
    let digits = body(token).bytes().filter(u8::is_ascii_digit).count();
    is_diverse(token) && digits >= 2 && body(token).bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether a token is diverse and has letters of both cases and digits.
pub(super) fn has_mixed_case_and_digits(token: &str) -> bool {
    let has = |class: fn(&u8) -> bool| body(token).as_bytes().iter().any(class);
    is_diverse(token)
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
}

/// Whether hex digits are of at least six kinds.
pub(super) fn is_varied_hex(token: &str) -> bool {
    distinct_chars(body(token)) >= 6
}

/// Whether a token with the prefix and length of a GitHub token is one: its last six characters are
/// a CRC-32 of the thirty before. A right checksum settles it; a wrong one does not clear the text,
/// because a mistyped or planted token still gives one away and nothing else is written with these
/// prefixes and 36 characters. Only placeholders are let through.
pub(super) fn is_github_token(token: &str) -> bool {
    has_checksum(body(token)) || has_letters_and_digits(token)
}

/// Whether the first of the token's parts is a JSON object that names an algorithm.
pub(super) fn is_jwt(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let json = URL_SAFE_NO_PAD
        .decode(header)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    json.is_some_and(|header| header.get("alg").is_some())
}

/// The part after the vendor's prefix: only this part is random.
fn body(token: &str) -> &str {
    let end_of_prefix = token.rfind(['_', '.']).filter(|&at| at < token.len() / 2);
    end_of_prefix.map_or(token, |at| &token[at + 1..])
}

fn has_checksum(body: &str) -> bool {
    body.len() == 36
        && body.is_char_boundary(30)
        && base62(crc32(&body.as_bytes()[..30])) == body.as_bytes()[30..]
}

/// CRC-32 as in zip files, bit by bit: thirty bytes do not justify a table.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xEDB8_8320
            } else {
                crc >> 1
            }
        })
    })
}

/// The number as six base62 digits, most significant first.
fn base62(mut number: u32) -> [u8; 6] {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = [0; 6];
    for digit in text.iter_mut().rev() {
        *digit = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    text
}

/// The last character boundary at or before `at`.
pub(super) fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_matches_the_published_check_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(&base62(0), b"000000");
        assert_eq!(&base62(62 * 62 + 61), b"00010z");
    }

    #[test]
    fn the_github_token_checksum_is_verified() {
        let random = "Kq7zP2mW9x4LtB6vNc3RjY8sHd5Fg1";
        let good = format!(
            "{random}{}",
            std::str::from_utf8(&base62(crc32(random.as_bytes()))).unwrap()
        );
        assert!(has_checksum(&good));
        assert!(!has_checksum(&format!("L{}", &good[1..])));
        // A token of letters only would not pass the variety check, but its checksum settles it.
        let letters = "a".repeat(30);
        let token = format!(
            "ghp_{letters}{}",
            std::str::from_utf8(&base62(crc32(letters.as_bytes()))).unwrap()
        );
        assert!(is_github_token(&token));
        assert!(!is_github_token(&format!("ghp_{}", "a".repeat(36))));
    }
}
