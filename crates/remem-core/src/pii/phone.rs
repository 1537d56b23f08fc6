//! Owns telephone numbers: with the code of their country, or in national form where the way of
//! writing leaves no doubt or a word in the text announces one. A plain number, a date, a version,
//! an id or a price must not be taken for one.

use super::PiiKind;
use super::groups::{DigitGroups, plain_separator};
use super::national::is_unjoined;
use super::view::{PiiMatch, TextView, is_word_char};

/// Fewest and most digits of a number with its country code, for countries that [`LIMITS`] does not
/// list.
const INTERNATIONAL_DIGITS: (usize, usize) = (9, 15);
/// Fewest digits after a plus that are written in one run: shorter ones are amounts.
const RUN_DIGITS_MIN: usize = 10;
/// Fewest and most digits of a number after a word that announces it.
const ANNOUNCED_DIGITS: (usize, usize) = (7, 13);
/// Bytes before a number that are searched for such a word.
const WORD_BYTES_MAX: usize = 32;

/// Country codes with the fewest and most digits of their numbers, the code included. Without the
/// limit a number would swallow the digits that follow it.
const COUNTRY_DIGITS: [(&str, usize, usize); 34] = [
    ("1", 11, 11),
    ("7", 11, 11),
    ("20", 11, 12),
    ("27", 11, 11),
    ("30", 12, 12),
    ("31", 11, 11),
    ("32", 10, 11),
    ("33", 11, 11),
    ("34", 11, 11),
    ("36", 10, 11),
    ("39", 9, 13),
    ("40", 11, 11),
    ("41", 11, 11),
    ("43", 9, 13),
    ("44", 11, 12),
    ("45", 10, 10),
    ("46", 9, 11),
    ("47", 10, 10),
    ("48", 11, 11),
    ("49", 9, 13),
    ("52", 12, 13),
    ("54", 12, 13),
    ("55", 12, 13),
    ("61", 11, 11),
    ("81", 11, 12),
    ("82", 10, 12),
    ("86", 12, 13),
    ("90", 12, 12),
    ("91", 12, 12),
    ("351", 12, 12),
    ("353", 10, 12),
    ("358", 9, 13),
    ("380", 12, 12),
    ("420", 12, 12),
];

/// Words that announce a telephone number.
const ANNOUNCING_WORDS: [&str; 33] = [
    "tel",
    "tel.",
    "phone",
    "phone number",
    "phone no",
    "telephone",
    "mobile",
    "cell",
    "fax",
    "whatsapp",
    "telefon",
    "telefonnummer",
    "handy",
    "mobil",
    "rufnummer",
    "téléphone",
    "tél",
    "tél.",
    "portable",
    "teléfono",
    "móvil",
    "celular",
    "telefono",
    "cellulare",
    "telefone",
    "telefoon",
    "телефон",
    "тел",
    "тел.",
    "電話",
    "电话",
    "手机",
    "फ़ोन",
];

/// The lengths of the groups of numbers that begin with a zero, by separator.
const TRUNK_GROUPINGS: [(&str, &[&[usize]]); 3] = [
    (
        "-",
        &[
            &[2, 4, 4],
            &[3, 4, 4],
            &[2, 3, 4],
            &[3, 3, 4],
            &[3, 7],
            &[3, 8],
            &[4, 6],
            &[4, 7],
            &[4, 3, 4],
            &[4, 3, 3],
        ],
    ),
    (
        " ",
        &[
            &[3, 4, 4],
            &[3, 3, 4],
            &[3, 3, 2, 2],
            &[4, 3, 4],
            &[4, 3, 3],
            &[3, 7],
            &[3, 8],
            &[4, 6],
            &[4, 7],
            &[5, 6],
            &[5, 5],
        ],
    ),
    (
        "/",
        &[
            &[3, 6],
            &[3, 7],
            &[3, 8],
            &[4, 5],
            &[4, 6],
            &[4, 7],
            &[4, 8],
            &[5, 5],
            &[5, 6],
        ],
    ),
];

/// The telephone number that begins with a plus or a bracket at `at`.
pub(super) fn prefixed_number(view: &TextView<'_>, at: usize) -> Option<PiiMatch> {
    let (normal, end) = if view.rest(at).starts_with('+') {
        international_number(view, at)?
    } else {
        bracketed_number(view, at)?
    };
    Some(PiiMatch {
        end,
        kind: PiiKind::Phone,
        normal_form: normal,
    })
}

/// The telephone number in national form that begins with a digit at `at`.
pub(super) fn national_number(
    view: &TextView<'_>,
    at: usize,
    groups: &DigitGroups<'_>,
) -> Option<PiiMatch> {
    if !view.begins_number(at) {
        return None;
    }
    let alone = |found: &(String, usize)| view.ends_word(found.1) && is_unjoined(view, at, found.1);
    let begins_row = !follows_digits(view, at);
    let (normal, end) = double_zero_number(view, groups)
        .filter(|_| begins_row)
        .or_else(|| regional_number(groups).filter(alone))
        .or_else(|| trunk_number(groups).filter(alone).filter(|_| begins_row))
        .or_else(|| announced_number(view, at, groups))?;
    Some(PiiMatch {
        end,
        kind: PiiKind::Phone,
        normal_form: normal,
    })
}

/// A number in a grouping that only one region uses: North America, mobiles of China and of France.
fn regional_number(groups: &DigitGroups<'_>) -> Option<(String, usize)> {
    let american = groups
        .with_one_separator(&[3, 3, 4], "-.")
        .filter(|(digits, _)| is_american(digits));
    let with_one = || {
        groups
            .with_one_separator(&[1, 3, 3, 4], "-.")
            .filter(|(digits, _)| digits.strip_prefix('1').is_some_and(is_american))
    };
    let chinese = || {
        groups
            .with_one_separator(&[3, 4, 4], "-")
            .filter(|(digits, _)| matches!(digits.as_bytes(), [b'1', b'3'..=b'9', ..]))
    };
    let french = || {
        groups
            .with_one_separator(&[2, 2, 2, 2, 2], ".")
            .filter(|(digits, _)| digits.starts_with("06") || digits.starts_with("07"))
    };
    american.or_else(with_one).or_else(chinese).or_else(french)
}

/// A number with a zero before the area code, in a grouping that is common after one.
fn trunk_number(groups: &DigitGroups<'_>) -> Option<(String, usize)> {
    let shaped = |(separator, shapes): &(&str, &[&[usize]])| {
        shapes
            .iter()
            .find_map(|shape| groups.with_one_separator(shape, separator))
    };
    TRUNK_GROUPINGS
        .iter()
        .find_map(shaped)
        .filter(|(digits, _)| has_trunk_prefix(digits))
}

/// Whether digits precede, a space away: the number is then part of a longer one, or of a list.
fn follows_digits(view: &TextView<'_>, at: usize) -> bool {
    let mut back = view.before(at).chars().rev();
    back.next().and_then(plain_separator) == Some(' ')
        && back.next().is_some_and(|c| c.is_ascii_digit())
}

/// Whether digits begin with the trunk prefix: one zero, then the area code.
fn has_trunk_prefix(digits: &str) -> bool {
    matches!(digits.as_bytes(), [b'0', b'1'..=b'9', ..])
}

/// Whether ten digits are a number of North America: neither area nor exchange begins with 0 or 1.
fn is_american(digits: &str) -> bool {
    let bytes = digits.as_bytes();
    bytes.len() == 10 && bytes[0] >= b'2' && bytes[3] >= b'2'
}

/// Whether digits are a complete number with its country code.
fn is_international(digits: &str) -> bool {
    let (min, max) = digit_limits(digits);
    !digits.starts_with('0')
        && (min..=max).contains(&digits.len())
        && (!digits.starts_with('1') || is_american(&digits[1..]))
}

/// The fewest and most digits of a number that begins with these digits.
fn digit_limits(digits: &str) -> (usize, usize) {
    COUNTRY_DIGITS
        .iter()
        .find(|(code, ..)| digits.starts_with(code))
        .map_or(INTERNATIONAL_DIGITS, |&(_, min, max)| (min, max))
}

/// A number after a plus: digits with at most two separators or brackets between two groups. `(0)`,
/// which is dialled only within the country, is skipped.
fn international_number(view: &TextView<'_>, at: usize) -> Option<(String, usize)> {
    let text = view.rest(at);
    let mut digits = String::new();
    let mut place = 1;
    let mut end = 1;
    let mut groups = 0;
    loop {
        let group = leading_digits(&text[place..]);
        if group.is_empty()
            || digits.len() + group.len() > digit_limits(&[&digits, group].concat()).1
        {
            break;
        }
        digits.push_str(group);
        (place, groups) = (place + group.len(), groups + 1);
        end = place;
        place += separator_len(&text[place..]);
        if let Some(after) = text[place..].strip_prefix("(0)").filter(|_| groups == 1) {
            place += 3 + separator_len(after);
        }
    }
    let long_enough = groups > 1 || digits.len() >= RUN_DIGITS_MIN;
    (long_enough && is_international(&digits) && view.ends_word(at + end))
        .then(|| (format!("+{digits}"), at + end))
}

/// The digits that a text begins with; more than a number can have are not read.
fn leading_digits(text: &str) -> &str {
    &text[..text
        .bytes()
        .take(INTERNATIONAL_DIGITS.1 + 1)
        .take_while(u8::is_ascii_digit)
        .count()]
}

/// The length in bytes of the separators that a text begins with: at most two characters, and not
/// the `(0)`.
fn separator_len(text: &str) -> usize {
    let divides = |c: char| plain_separator(c).is_some() || matches!(c, '(' | ')');
    text.char_indices()
        .take(2)
        .take_while(|&(at, c)| divides(c) && !text[at..].starts_with("(0)"))
        .map(|(_, c)| c.len_utf8())
        .sum()
}

/// A number with two zeros in place of the plus. It must be grouped, because a plain run of digits
/// may be anything.
fn double_zero_number(view: &TextView<'_>, groups: &DigitGroups<'_>) -> Option<(String, usize)> {
    let count = groups.lengths().count();
    let separator = groups.common_separator(count)?;
    let (all, _) = groups.first_groups(count)?;
    let number = all.strip_prefix("00").filter(|_| separator != '.')?;
    let max = digit_limits(number).1;
    (2..=count)
        .rev()
        .filter_map(|count| groups.first_groups(count))
        .find_map(|(digits, end)| {
            let number = &digits[2..];
            (number.len() <= max && is_international(number) && view.ends_word(end))
                .then(|| (format!("+{number}"), end))
        })
}

/// A number with its area code in brackets: `(030) 1234567`, `(555) 123-4567`, `(11) 91234-5678`.
fn bracketed_number(view: &TextView<'_>, at: usize) -> Option<(String, usize)> {
    let text = view.rest(at + 1);
    let area = leading_digits(text);
    let after = text[area.len()..].strip_prefix(')')?;
    let gap = after
        .chars()
        .next()
        .filter(|&c| plain_separator(c).is_some())
        .map_or(0, char::len_utf8);
    let groups = DigitGroups::read(view, at + area.len() + 2 + gap);
    let alone = |found: &(String, usize)| view.ends_word(found.1) && is_unjoined(view, at, found.1);
    let rest = match area.as_bytes() {
        [b'0', b'1'..=b'9', ..] if area.len() <= 5 => {
            let fits = |(digits, end): &(String, usize)| {
                (8..=12).contains(&(area.len() + digits.len())) && view.ends_word(*end)
            };
            (1..=4)
                .rev()
                .filter_map(|count| groups.first_groups(count))
                .find(fits)
        }
        [b'2'..=b'9', _, _] => groups
            .with_one_separator(&[3, 4], "-. ")
            .filter(alone)
            .filter(|(digits, _)| !digits.starts_with(['0', '1'])),
        [b'1'..=b'9', b'1'..=b'9'] => groups
            .with_one_separator(&[5, 4], "-")
            .or_else(|| groups.with_one_separator(&[4, 4], "-"))
            .filter(alone),
        _ => None,
    };
    rest.map(|(digits, end)| ([area, &digits].concat(), end))
}

/// A number after a word such as `Tel.:`, in any grouping but that of a date.
fn announced_number(
    view: &TextView<'_>,
    at: usize,
    groups: &DigitGroups<'_>,
) -> Option<(String, usize)> {
    let near = view
        .since(view.floor_char_boundary(at.saturating_sub(WORD_BYTES_MAX)))
        .before(at);
    let near = near
        .trim_end()
        .trim_end_matches([':', '=', '：'])
        .trim_end()
        .to_lowercase();
    let begins_word = |head: &str| !head.chars().next_back().is_some_and(is_word_char);
    if !ANNOUNCING_WORDS
        .iter()
        .any(|word| near.strip_suffix(word).is_some_and(begins_word))
    {
        return None;
    }
    let lens: Vec<usize> = groups.lengths().collect();
    let is_date = matches!(
        lens[..],
        [4, 2, 2, ..] | [2, 2, 4, ..] | [1, 2, 4, ..] | [2, 1, 4, ..] | [1, 1, 4, ..]
    );
    let fits = |(digits, end): &(String, usize)| {
        (ANNOUNCED_DIGITS.0..=ANNOUNCED_DIGITS.1).contains(&digits.len())
            && view.ends_word(*end)
            && !(lens.len() == 1 && digits.len() < 8 && !has_trunk_prefix(digits))
    };
    (1..=lens.len())
        .rev()
        .filter_map(|count| groups.first_groups(count))
        .find(fits)
        .filter(|_| !is_date)
}
