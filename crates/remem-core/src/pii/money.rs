//! Owns numbers of payment cards and bank accounts, with their check digits. A number whose check
//! fails is not accepted.

use super::PiiKind;
use super::groups::{DigitGroups, plain_separator};
use super::view::{PiiMatch, TextView};
use crate::sabotage;

/// The groups in which card numbers are written, the longest first; otherwise they are written in
/// one run.
const CARD_SHAPES: [&[usize]; 5] = [
    &[4, 4, 4, 4, 3],
    &[4, 4, 4, 4],
    &[4, 6, 5],
    &[4, 6, 4],
    &[4, 3, 3, 3],
];

/// The card number that begins at `at`, grouped or in one run.
pub(super) fn card(view: &TextView<'_>, at: usize, groups: &DigitGroups<'_>) -> Option<PiiMatch> {
    if !view.begins_number(at) {
        return None;
    }
    let grouped = CARD_SHAPES
        .iter()
        .filter_map(|shape| groups.with_one_separator(shape, " -"));
    let plain = groups
        .first_groups(1)
        .filter(|(digits, _)| !is_barcode(digits));
    let (normal, end) = grouped
        .chain(plain)
        .find(|(digits, end)| is_card(digits) && view.ends_word(*end))?;
    Some(PiiMatch {
        end,
        kind: PiiKind::Card,
        normal_form: normal,
    })
}

fn is_card(digits: &str) -> bool {
    let prefix = |len: usize| {
        digits
            .get(..len)
            .and_then(|head| head.parse::<u32>().ok())
            .unwrap_or_default()
    };
    let known = match (prefix(1), prefix(2), prefix(3), prefix(4)) {
        (4, ..) => matches!(digits.len(), 13 | 16 | 19),
        (_, 51..=55, ..) | (_, _, _, 2221..=2720) => digits.len() == 16,
        (_, 34 | 37, ..) => digits.len() == 15,
        (_, 36 | 38 | 39, ..) | (_, _, 300..=305, _) => matches!(digits.len(), 14 | 16),
        (_, _, _, 3528..=3589 | 6011 | 2200..=2204) | (_, 62 | 65, ..) | (_, _, 644..=649, _) => {
            (16..=19).contains(&digits.len())
        }
        (_, _, _, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763) => {
            (16..=19).contains(&digits.len())
        }
        _ => false,
    };
    known && sabotage!("any-sixteen-digits-are-a-card", luhn(digits), true)
}

/// The Luhn check: from the right, every second digit counts double, and the sum is a multiple of
/// ten.
fn luhn(digits: &str) -> bool {
    let value = |(place, byte): (usize, u8)| {
        let digit = u32::from(byte - b'0');
        if place % 2 == 0 {
            digit
        } else {
            digit * 2 / 10 + digit * 2 % 10
        }
    };
    digits.bytes().rev().enumerate().map(value).sum::<u32>() % 10 == 0
}

/// Whether thirteen digits are an EAN barcode, which can begin like a card number: its digits count
/// once and three times in turn.
fn is_barcode(digits: &str) -> bool {
    let value =
        |(place, byte): (usize, u8)| u32::from(byte - b'0') * if place % 2 == 0 { 1 } else { 3 };
    digits.len() == 13 && digits.bytes().enumerate().map(value).sum::<u32>() % 10 == 0
}

/// The length of an IBAN for each country.
const IBAN_LENS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 \
    EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 \
    LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 \
    SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

/// The IBAN that begins at `at`: in one run, or in groups of four.
pub(super) fn iban(view: &TextView<'_>, at: usize) -> Option<PiiMatch> {
    let text = view.rest(at);
    let country = text
        .get(..2)
        .filter(|country| country.bytes().all(|byte| byte.is_ascii_alphabetic()))?
        .to_ascii_uppercase();
    if !text.as_bytes().get(2..4)?.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let len: usize = IBAN_LENS
        .split_ascii_whitespace()
        .find_map(|row| row.strip_prefix(country.as_str()))?
        .parse()
        .ok()?;
    let mut normal = String::with_capacity(len);
    let mut end = 0;
    let mut separated = None;
    let mut chars = text.char_indices().peekable();
    while normal.len() < len {
        if normal.len() >= 4 && normal.len().is_multiple_of(4) && separated != Some(false) {
            let separator = chars
                .peek()
                .and_then(|&(_, c)| plain_separator(c))
                .is_some_and(|c| matches!(c, ' ' | '-'));
            if separator {
                chars.next();
            } else if separated == Some(true) {
                return None;
            }
            separated = Some(separator);
        }
        let (place, c) = chars.next().filter(|(_, c)| c.is_ascii_alphanumeric())?;
        normal.push(c.to_ascii_uppercase());
        end = at + place + 1;
    }
    (view.ends_word(end)
        && sabotage!(
            "an-account-needs-no-check",
            mod_97(&normal) == 1,
            mod_97(&normal) > 0
        ))
    .then_some(PiiMatch {
        end,
        kind: PiiKind::Iban,
        normal_form: normal,
    })
}

/// The check value of an IBAN: the number modulo 97, with its first four characters moved to the
/// end and letters as 10 to 35.
fn mod_97(iban: &str) -> u32 {
    let (head, tail) = iban.split_at(4);
    tail.chars()
        .chain(head.chars())
        .filter_map(|c| c.to_digit(36))
        .fold(0, |sum, value| {
            (sum * if value < 10 { 10 } else { 100 } + value) % 97
        })
}
