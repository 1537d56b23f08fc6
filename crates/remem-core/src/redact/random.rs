//! Owns the test whether a text looks drawn at random rather than written by hand. Pure counts over
//! characters, no tables.
//!
//! It never decides alone: it only backs up a match that already has another reason (half of a
//! registered value, or a value assigned to a name such as `password`).

use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Other,
}

fn class_of(c: char) -> Option<Class> {
    match c {
        'a'..='z' => Some(Class::Lower),
        'A'..='Z' => Some(Class::Upper),
        '0'..='9' => Some(Class::Digit),
        _ if c.is_alphanumeric() => Some(Class::Other),
        _ => None,
    }
}

/// The number of neighbouring letters and digits that are of different classes; punctuation is
/// skipped.
pub(super) fn class_changes(text: &str) -> usize {
    let classes: Vec<Class> = text.chars().filter_map(class_of).collect();
    classes.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

/// Whether a part of a value is characteristic enough to be hidden on its own.
pub(super) fn is_distinctive_part(text: &str) -> bool {
    let alphanumeric = text.chars().filter(|c| c.is_alphanumeric()).count();
    let distinctive_run = text.split(|c: char| !c.is_alphanumeric()).any(|run| {
        let chars = run.chars().count();
        let digits_only = run.bytes().all(|byte| byte.is_ascii_digit());
        (chars >= 8 && class_changes(run) >= 3) || (chars >= 12 && digits_only)
    });
    distinctive_run || (alphanumeric >= 8 && class_changes(text) >= 3.max(alphanumeric / 5))
}

/// Whether a text at a place where a credential is expected was drawn at random: it mixes letters
/// and digits throughout, uses many different characters, and is no UUID and no placeholder.
pub(super) fn is_random_token(text: &str) -> bool {
    let alphanumeric = text.chars().filter(|c| c.is_ascii_alphanumeric()).count();
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let mixed =
        digits >= 2 && alphanumeric >= digits + 2 && class_changes(text) * 4 >= alphanumeric;
    alphanumeric >= 16
        && mixed
        && distinct_chars(text) >= 10
        && entropy_bits(text) >= 3.2
        && !is_uuid(text)
        && !is_placeholder(text)
}

/// The number of different characters in the text.
pub(super) fn distinct_chars(text: &str) -> usize {
    counts(text).len()
}

/// Whether a text contains a word that documentation writes in place of a credential.
pub(super) fn is_placeholder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    [
        "example",
        "placeholder",
        "changeme",
        "your-",
        "your_",
        "xxxx",
        "0000000",
        "1234567890abcdef",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The number of occurrences of each character, in no order.
fn counts(text: &str) -> Vec<usize> {
    // Nearly all of it is ASCII, and a table is many times faster than a tree.
    let mut ascii = [0; 128];
    let mut wide: BTreeMap<char, usize> = BTreeMap::new();
    for c in text.chars() {
        match ascii.get_mut(c as usize) {
            Some(count) => *count += 1,
            None => *wide.entry(c).or_default() += 1,
        }
    }
    let all = ascii.into_iter().chain(wide.into_values());
    all.filter(|&count| count > 0).collect()
}

/// Shannon entropy per character.
fn entropy_bits(text: &str) -> f64 {
    let total = text.chars().count() as f64;
    counts(text)
        .into_iter()
        .map(|n| n as f64 / total)
        .map(|share| -share * share.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_are_distinguished_from_identifiers() {
        for token in [
            "k3Jd9sLq2Xv7Bn4Mz8Tr",
            "9f86d081884c7d659a2feaa0c55ad015",
            "aB3_dE5-fG7.hI9jK1lM2",
        ] {
            assert!(is_random_token(token), "{token}");
        }
        for other in [
            "getTokenFromSecureStorageV2",
            "my-service-account-2024-prod-eu1",
            "123e4567-e89b-12d3-a456-426614174000",
            "aaaaaaaaaaaaaaaaaaaa1b2c",
            "config.database.password_v2_production",
            "k3Jd9",
            "xxxxK3Jd9sLq2Xv7Bn4Mz8Tr",
        ] {
            assert!(!is_random_token(other), "{other}");
        }
    }

    #[test]
    fn distinctive_parts_are_distinguished_from_common_ones() {
        for part in [
            "Kq7zP2mW9x",
            "095f258e-badf-d640",
            "901188104591",
            "pw'CNRY3h",
            "postgres://svc:Kq7z6B26y2jOEv@db",
        ] {
            assert!(is_distinctive_part(part), "{part}");
        }
        for part in [
            "@example.com",
            "https://hooks.slack.com",
            "db.internal:5432/app?sslmode=require",
            "90118810",
            "correct horse",
        ] {
            assert!(!is_distinctive_part(part), "{part}");
        }
    }
}
