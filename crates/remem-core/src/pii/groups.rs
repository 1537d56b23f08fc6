//! Owns the reading of numbers as people write them: groups of digits with one separator between
//! two groups. It does not judge what a number is.

use super::view::TextView;

/// Groups read at most; no pattern has more.
const GROUPS_MAX: usize = 8;
/// Digits read of one group at most; no pattern has more.
const GROUP_DIGITS_MAX: usize = 24;

/// The groups of digits that begin at one offset of a text.
pub(super) struct DigitGroups<'t> {
    text: &'t str,
    at: usize,
    groups: Vec<DigitGroup>,
}

struct DigitGroup {
    /// The separator before this group in its plain form; a space for the first group.
    separator: char,
    begin: usize,
    end: usize,
}

impl<'t> DigitGroups<'t> {
    /// Reads the groups that begin at an offset.
    pub(super) fn read(view: &TextView<'t>, at: usize) -> DigitGroups<'t> {
        let text = view.rest(at);
        let mut groups = Vec::new();
        let mut begin = 0;
        let mut separator = ' ';
        while groups.len() < GROUPS_MAX {
            let len = text[begin..]
                .bytes()
                .take(GROUP_DIGITS_MAX)
                .take_while(u8::is_ascii_digit)
                .count();
            if len == 0 {
                break;
            }
            let end = begin + len;
            groups.push(DigitGroup {
                separator,
                begin,
                end,
            });
            let Some(next) = text[end..].chars().next() else {
                break;
            };
            let Some(plain) = plain_separator(next) else {
                break;
            };
            (begin, separator) = (end + next.len_utf8(), plain);
        }
        DigitGroups { text, at, groups }
    }

    /// The number of digits of each group.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().map(|part| part.end - part.begin)
    }

    /// The digits of the first `count` groups, and the offset in the text where they end.
    pub(super) fn first_groups(&self, count: usize) -> Option<(String, usize)> {
        let digits = self
            .groups
            .get(..count)?
            .iter()
            .map(|part| &self.text[part.begin..part.end])
            .collect();
        Some((
            digits,
            self.at + self.groups.get(count.checked_sub(1)?)?.end,
        ))
    }

    /// The digits and end of the first groups, if they have these lengths and these separators
    /// between them.
    pub(super) fn with_separators(
        &self,
        lens: &[usize],
        separators: &str,
    ) -> Option<(String, usize)> {
        let fits = self.groups.len() >= lens.len()
            && self
                .lengths()
                .zip(lens)
                .all(|(len, &expected)| len == expected)
            && self
                .groups
                .iter()
                .skip(1)
                .map(|part| part.separator)
                .take(lens.len() - 1)
                .eq(separators.chars());
        if fits {
            self.first_groups(lens.len())
        } else {
            None
        }
    }

    /// The digits and end of the first groups, if they have these lengths and the same separator
    /// everywhere, one of `separators`.
    pub(super) fn with_one_separator(
        &self,
        lens: &[usize],
        separators: &str,
    ) -> Option<(String, usize)> {
        let separator = self
            .common_separator(lens.len())
            .filter(|&separator| lens.len() < 2 || separators.contains(separator))?;
        self.with_separators(
            lens,
            &String::from_iter(std::iter::repeat_n(separator, lens.len() - 1)),
        )
    }

    /// The separator between the first `count` groups, if it is the same everywhere.
    pub(super) fn common_separator(&self, count: usize) -> Option<char> {
        let mut separators = self
            .groups
            .get(..count)?
            .iter()
            .skip(1)
            .map(|part| part.separator);
        let first = separators.next().unwrap_or(' ');
        separators.all(|other| other == first).then_some(first)
    }
}

/// A separator in its plain form: typography has several spaces and hyphens.
pub(super) fn plain_separator(c: char) -> Option<char> {
    match c {
        ' ' | '\u{A0}' | '\u{2009}' | '\u{202F}' => Some(' '),
        '-' | '\u{2010}'..='\u{2013}' => Some('-'),
        '.' | '/' => Some(c),
        _ => None,
    }
}
