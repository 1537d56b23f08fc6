//! Owns the reading of numbers as people write them: groups of digits with one separator between
//! two. It may not judge what a number is.

use super::view::View;

/// More groups than any pattern has.
const GROUPS_MAX: usize = 8;
/// More digits than any pattern has in one group.
const GROUP_DIGITS_MAX: usize = 24;

/// Groups of digits from one place on.
pub(super) struct Groups<'t> {
    text: &'t str,
    at: usize,
    parts: Vec<Part>,
}

struct Part {
    /// What divides it from the one before, in its plain form; a space for the first.
    separator: char,
    begin: usize,
    end: usize,
}

impl<'t> Groups<'t> {
    /// Those that begin at a place.
    pub(super) fn read(view: &View<'t>, at: usize) -> Groups<'t> {
        let text = view.rest(at);
        let mut parts = Vec::new();
        let mut begin = 0;
        let mut separator = ' ';
        while parts.len() < GROUPS_MAX {
            let len = text[begin..]
                .bytes()
                .take(GROUP_DIGITS_MAX)
                .take_while(u8::is_ascii_digit)
                .count();
            if len == 0 {
                break;
            }
            let end = begin + len;
            parts.push(Part {
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
        Groups { text, at, parts }
    }

    /// The lengths of all groups.
    pub(super) fn lens(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.end - part.begin)
    }

    /// The digits of the first `count` groups, and where they end in the text.
    pub(super) fn first(&self, count: usize) -> Option<(String, usize)> {
        let digits = self
            .parts
            .get(..count)?
            .iter()
            .map(|part| &self.text[part.begin..part.end])
            .collect();
        Some((digits, self.at + self.parts.get(count.checked_sub(1)?)?.end))
    }

    /// The same, if they have these lengths and these separators in between.
    pub(super) fn shaped(&self, lens: &[usize], separators: &str) -> Option<(String, usize)> {
        let fits = self.parts.len() >= lens.len()
            && self
                .lens()
                .zip(lens)
                .all(|(len, &expected)| len == expected)
            && self
                .parts
                .iter()
                .skip(1)
                .map(|part| part.separator)
                .take(lens.len() - 1)
                .eq(separators.chars());
        if fits { self.first(lens.len()) } else { None }
    }

    /// The same for groups that all have the same separator between them.
    pub(super) fn evenly(&self, lens: &[usize], separators: &str) -> Option<(String, usize)> {
        let one = self
            .separator(lens.len())
            .filter(|&one| lens.len() < 2 || separators.contains(one))?;
        self.shaped(
            lens,
            &String::from_iter(std::iter::repeat_n(one, lens.len() - 1)),
        )
    }

    /// What stands between the first groups, if it is always the same.
    pub(super) fn separator(&self, count: usize) -> Option<char> {
        let mut separators = self
            .parts
            .get(..count)?
            .iter()
            .skip(1)
            .map(|part| part.separator);
        let one = separators.next().unwrap_or(' ');
        separators.all(|other| other == one).then_some(one)
    }
}

/// A separator in its plain form: typesetters have many spaces and hyphens.
pub(super) fn plain_separator(c: char) -> Option<char> {
    match c {
        ' ' | '\u{A0}' | '\u{2009}' | '\u{202F}' => Some(' '),
        '-' | '\u{2010}'..='\u{2013}' => Some('-'),
        '.' | '/' => Some(c),
        _ => None,
    }
}
