//! Owns the national ids of persons: only those whose shape and check make a chance match rare. An
//! id whose check fails is not accepted.

use super::PiiKind;
use super::groups::DigitGroups;
use super::view::{PiiMatch, TextView};

/// The national id of digits that begins at `at`: USA, Germany, France, Brazil, Spain, Finland,
/// China.
pub(super) fn digit_id(
    view: &TextView<'_>,
    at: usize,
    groups: &DigitGroups<'_>,
) -> Option<PiiMatch> {
    if !view.begins_number(at) {
        return None;
    }
    let digits = |found: Option<(String, usize)>, check: fn(&str) -> bool| {
        found.filter(|(digits, end)| check(digits) && view.ends_word(*end))
    };
    let social = digits(
        groups.with_one_separator(&[3, 2, 4], "-"),
        is_social_security,
    )
    .filter(|(_, end)| is_unjoined(view, at, *end));
    let (normal, end) = social
        .or_else(|| digits(groups.first_groups(1), is_german_tax))
        .or_else(|| digits(groups.with_one_separator(&[2, 3, 3, 3], " "), is_german_tax))
        .or_else(|| digits(groups.first_groups(1), is_french))
        .or_else(|| {
            digits(
                groups.with_one_separator(&[1, 2, 2, 2, 3, 3, 2], " "),
                is_french,
            )
        })
        .or_else(|| {
            digits(
                groups.with_one_separator(&[1, 2, 2, 2, 3, 3, 2], "-"),
                is_french,
            )
        })
        .or_else(|| digits(groups.with_one_separator(&[13, 2], " "), is_french))
        .or_else(|| digits(groups.with_separators(&[3, 3, 3, 2], "..-"), is_brazilian))
        .or_else(|| id_with_check_letter(view, at))?;
    Some(PiiMatch {
        end,
        kind: PiiKind::NationalId,
        normal_form: normal,
    })
}

/// The national id that begins with a letter at `at`: Spain's foreigners, Italy, the United
/// Kingdom.
pub(super) fn letter_id(view: &TextView<'_>, at: usize) -> Option<PiiMatch> {
    let (normal, end) = checked_word(view, at, 9, is_spanish)
        .or_else(|| checked_word(view, at, 16, is_italian))
        .or_else(|| british_insurance(view, at))?;
    Some(PiiMatch {
        end,
        kind: PiiKind::NationalId,
        normal_form: normal,
    })
}

/// An id of digits whose check is a letter (in China, sometimes).
fn id_with_check_letter(view: &TextView<'_>, at: usize) -> Option<(String, usize)> {
    let spanish = || {
        let (number, letter) = view
            .rest(at)
            .get(..10)
            .filter(|text| text.is_ascii())?
            .split_at(8);
        let joined = [number, letter.strip_prefix('-')?].concat();
        (is_spanish(&joined) && view.ends_word(at + 10)).then_some((joined, at + 10))
    };
    checked_word(view, at, 9, is_spanish)
        .or_else(spanish)
        .or_else(|| checked_word(view, at, 11, is_finnish))
        .or_else(|| checked_word(view, at, 18, is_chinese))
}

/// The word of `len` bytes at `at` in upper case, if it passes a check.
fn checked_word(
    view: &TextView<'_>,
    at: usize,
    len: usize,
    check: fn(&str) -> bool,
) -> Option<(String, usize)> {
    let word = view.rest(at).get(..len).filter(|word| word.is_ascii())?;
    (check(word) && view.ends_word(at + len)).then(|| (word.to_ascii_uppercase(), at + len))
}

/// Whether no further part is joined to a number on either side: ids of orders and parts are
/// longer.
pub(super) fn is_unjoined(view: &TextView<'_>, at: usize, end: usize) -> bool {
    let mut ahead = view.rest(end).chars();
    let continues = matches!(ahead.next(), Some('-' | '.' | '/' | ':'))
        && ahead.next().is_some_and(|c| c.is_ascii_alphanumeric());
    let joined = view
        .before(at)
        .ends_with(['-', '.', '/', '#', '$', '€', '£', '\\', '+']);
    !continues && !joined
}

/// Whether an area, group and serial number of the USA were ever issued.
fn is_social_security(digits: &str) -> bool {
    let area = &digits[..3];
    let group = &digits[3..5];
    let serial = &digits[5..];
    area != "000" && area != "666" && !area.starts_with('9') && group != "00" && serial != "0000"
}

/// A German tax id. Eleven digits: among the first ten, one digit occurs two or three times and no
/// other more than once; the last is the check digit of ISO 7064.
fn is_german_tax(digits: &str) -> bool {
    if digits.len() != 11 || digits.starts_with('0') {
        return false;
    }
    let values: Vec<usize> = digits
        .bytes()
        .map(|byte| usize::from(byte - b'0'))
        .collect();
    let mut counts = [0; 10];
    values[..10].iter().for_each(|&value| counts[value] += 1);
    let repeated: Vec<usize> = counts.into_iter().filter(|&count| count > 1).collect();
    let product = values[..10].iter().fold(10, |product, &value| {
        let sum = (value + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    matches!(repeated[..], [2 | 3]) && (11 - product) % 10 == values[10]
}

/// A French social security number: sex, year, month, place, order, and a key of two digits.
fn is_french(digits: &str) -> bool {
    let part =
        |range: std::ops::Range<usize>| digits.get(range).and_then(|part| part.parse::<u64>().ok());
    digits.len() == 15
        && digits.starts_with(['1', '2'])
        && part(3..5).is_some_and(|month| matches!(month, 1..=12 | 20..=42))
        && part(0..13)
            .zip(part(13..15))
            .is_some_and(|(number, key)| 97 - number % 97 == key)
}

/// A Brazilian CPF: nine digits and two check digits, each over all digits before it.
fn is_brazilian(digits: &str) -> bool {
    let value = |byte: u8| u32::from(byte - b'0');
    let check = |len: usize| {
        let sum: u32 = digits
            .bytes()
            .take(len)
            .zip((2..=len as u32 + 1).rev())
            .map(|(byte, weight)| value(byte) * weight)
            .sum();
        sum * 10 % 11 % 10
    };
    let bytes = digits.as_bytes();
    bytes.iter().any(|byte| *byte != bytes[0])
        && check(9) == value(bytes[9])
        && check(10) == value(bytes[10])
}

/// A Spanish DNI or NIE: eight digits (or a letter for the first) and the letter of their
/// remainder.
fn is_spanish(word: &str) -> bool {
    let (number, letter) = word.split_at(8);
    let number = match number.as_bytes()[0] {
        b'X' => number.replacen('X', "0", 1),
        b'Y' => number.replacen('Y', "1", 1),
        b'Z' => number.replacen('Z', "2", 1),
        _ => number.to_owned(),
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && number != "00000000";
    let letters = b"TRWAGMYFPDXBNJZSQVHLCKE";
    is_number
        && number
            .parse::<usize>()
            .is_ok_and(|number| letters[number % 23] == letter.as_bytes()[0])
}

/// A Finnish personal id: the day of birth, a sign for the century, three digits, and the letter of
/// the remainder.
fn is_finnish(word: &str) -> bool {
    let (birth, tail) = word.split_at(6);
    let digits = [birth, &tail[1..4]].concat();
    let is_day = |range: std::ops::Range<usize>, max| {
        birth[range]
            .parse::<u32>()
            .is_ok_and(|value| (1..=max).contains(&value))
    };
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && tail.starts_with(['-', '+', 'A'])
        && is_day(0..2, 31)
        && is_day(2..4, 12)
        && digits.parse::<usize>().is_ok_and(|number| {
            b"0123456789ABCDEFHJKLMNPRSTUVWXY"[number % 31] == tail.as_bytes()[4]
        })
}

/// A Chinese resident id: place, day of birth, order, and a check that may be ten, which is written
/// X.
fn is_chinese(word: &str) -> bool {
    let (number, check) = word.split_at(17);
    let day = |range: std::ops::Range<usize>, min: u32, max: u32| {
        number[range]
            .parse::<u32>()
            .is_ok_and(|v| (min..=max).contains(&v))
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    let weights = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    is_number
        && day(6..10, 1900, 2099)
        && day(10..12, 1, 12)
        && day(12..14, 1, 31)
        && b"10X98765432"[number
            .bytes()
            .zip(weights)
            .map(|(byte, weight)| usize::from(byte - b'0') * weight)
            .sum::<usize>()
            % 11]
            == check.as_bytes()[0].to_ascii_uppercase()
}

/// The check value of each digit or letter at an odd position of an Italian tax code.
const ITALIAN_ODD: [u32; 26] = [
    1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23,
];

/// An Italian tax code: six letters of the name, day and place of birth, and a letter that checks
/// all of it.
fn is_italian(word: &str) -> bool {
    let word = word.to_ascii_uppercase();
    let shaped = word.bytes().zip(b"AAAAAA00A00A000A").all(|(byte, shape)| {
        if *shape == b'0' {
            byte.is_ascii_digit()
        } else {
            byte.is_ascii_uppercase()
        }
    });
    let value = |byte: u8| {
        u32::from(if byte.is_ascii_digit() {
            byte - b'0'
        } else {
            byte - b'A'
        })
    };
    let count = |(place, byte): (usize, u8)| {
        if place % 2 == 0 {
            ITALIAN_ODD[value(byte) as usize]
        } else {
            value(byte)
        }
    };
    shaped
        && word.bytes().take(15).enumerate().map(count).sum::<u32>() % 26
            == value(word.as_bytes()[15])
}

/// A British national insurance number: two letters, six digits and a letter, in one run or in
/// pairs. It has no check digit, but many pairs of letters are never issued.
fn british_insurance(view: &TextView<'_>, at: usize) -> Option<(String, usize)> {
    let text = view.rest(at);
    let paired = text.get(..13).filter(|text| {
        text.bytes()
            .enumerate()
            .all(|(at, byte)| (byte == b' ') == matches!(at, 2 | 5 | 8 | 11))
    });
    let written = paired.or_else(|| text.get(..9))?;
    let word = written.replace(' ', "");
    let bytes = word.as_bytes();
    let is_issued = word.is_ascii()
        && bytes.len() == 9
        && bytes[..2]
            .iter()
            .all(|byte| byte.is_ascii_uppercase() && !b"DFIQUV".contains(byte))
        && bytes[1] != b'O'
        && ![&b"BG"[..], b"GB", b"NK", b"KN", b"TN", b"NT", b"ZZ"].contains(&&bytes[..2])
        && bytes[2..8].iter().all(u8::is_ascii_digit)
        && (b'A'..=b'D').contains(&bytes[8]);
    let end = at + written.len();
    (is_issued && view.ends_word(end)).then_some((word, end))
}
