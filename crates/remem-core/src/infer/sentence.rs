//! sentence: splits a text into sentences and words with their offsets. It knows marks and digits,
//! no words but those that a language table names. It does not judge the meaning of a sentence.

use super::language::Language;
use std::ops::Range;

/// The most words of a sentence; one with more is a table or a dump, and holds no promise.
const WORDS_MAX: usize = 300;

/// The separation between a word and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    Space,
    Comma,
    /// A colon, a dash, a bracket: the word begins another clause.
    Break,
}

#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// Lower case, with straight apostrophes.
    pub text: String,
    pub range: Range<usize>,
    pub gap: Gap,
    pub is_capitalised: bool,
    pub is_quoted: bool,
    /// Whether this is the marker of redacted text.
    pub is_marker: bool,
    /// Whether a colon follows.
    pub colon_follows: bool,
}

pub(crate) struct Sentence {
    pub range: Range<usize>,
    pub words: Vec<Word>,
    pub is_question: bool,
}

impl Sentence {
    pub fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(|word| word.text.as_str())
    }

    /// The number of words of `phrase`, if it is at `at` without a mark between its words.
    pub fn phrase_len_at(&self, at: usize, phrase: &str) -> Option<usize> {
        let mut count = 0;
        for part in phrase.split(' ') {
            let word = self.words.get(at + count)?;
            if word.text != part || (count > 0 && word.gap != Gap::Space) {
                return None;
            }
            count += 1;
        }
        Some(count)
    }

    /// The number of words of the longest of `phrases` at `at`.
    pub fn longest_phrase_at(&self, at: usize, phrases: &[&str]) -> Option<usize> {
        phrases
            .iter()
            .filter_map(|phrase| self.phrase_len_at(at, phrase))
            .max()
    }

    /// The number of words of the longest of `phrases` that ends right before `at`, without a mark
    /// in between.
    pub fn longest_phrase_before(&self, at: usize, phrases: &[&str]) -> Option<usize> {
        let ends = |phrase: &&&str| {
            let count = phrase.split(' ').count();
            let start = at.checked_sub(count)?;
            let joined = self.words.get(at).is_none_or(|word| word.gap == Gap::Space);
            (joined && self.phrase_len_at(start, phrase).is_some()).then_some(count)
        };
        phrases.iter().filter_map(|phrase| ends(&phrase)).max()
    }

    /// The byte range of a range of words.
    pub fn byte_range(&self, words: &Range<usize>) -> Range<usize> {
        match (
            self.words.get(words.start),
            words
                .end
                .checked_sub(1)
                .and_then(|last| self.words.get(last)),
        ) {
            (Some(first), Some(last)) => first.range.start..last.range.end.max(first.range.start),
            _ => self.range.start..self.range.start,
        }
    }

    /// The separation before a word; a break beyond the last word.
    pub fn gap(&self, at: usize) -> Gap {
        self.words.get(at).map_or(Gap::Break, |word| word.gap)
    }
}

/// The sentences of a text, in order. Quotations are found over the whole text, because they may
/// span sentences.
pub(crate) fn sentences(text: &str, language: &Language) -> Vec<Sentence> {
    let quoted = quoted_ranges(text);
    let ranges = sentence_ranges(text, language);
    ranges
        .into_iter()
        .filter_map(|range| read_sentence(text, range, &quoted))
        .collect()
}

/// Splits one sentence into words; `None` if it has none or too many.
fn read_sentence(text: &str, range: Range<usize>, quoted: &[Range<usize>]) -> Option<Sentence> {
    let body = &text[range.clone()];
    let mut words: Vec<Word> = Vec::new();
    let mut gap = Gap::Break;
    let mut rest = 0;
    while let Some(next) = body[rest..].chars().next() {
        let marker = marker_len(&body[rest..]);
        let len = marker.unwrap_or_else(|| word_len(&body[rest..]));
        if len == 0 {
            gap = gap.max(gap_of(next));
            let colon = next == ':';
            if let Some(last) = words
                .last_mut()
                .filter(|last| colon && last.range.end == range.start + rest)
            {
                last.colon_follows = true;
            }
            rest += next.len_utf8();
            continue;
        }
        if words.len() == WORDS_MAX {
            return None;
        }
        let start = range.start + rest;
        let end = range.start + rest + len;
        let text = body[rest..rest + len].to_lowercase().replace('’', "'");
        let within = quoted.partition_point(|quote| quote.end <= start);
        let quoted = quoted.get(within).is_some_and(|quote| quote.start <= start);
        let marker = marker.is_some();
        words.push(Word {
            text,
            range: start..end,
            gap,
            is_capitalised: next.is_uppercase(),
            is_quoted: quoted,
            is_marker: marker,
            colon_follows: false,
        });
        (gap, rest) = (Gap::Space, rest + len);
    }
    (!words.is_empty()).then(|| Sentence {
        is_question: body.trim_end_matches(is_closing_mark).ends_with('?'),
        range,
        words,
    })
}

fn gap_of(mark: char) -> Gap {
    match mark {
        ',' => Gap::Comma,
        ':' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '–' | '—' | '…' | '|' | '.' | '*' | '•'
        | '!' | '?' | '>' | '=' | '<' => Gap::Break,
        _ => Gap::Space,
    }
}

fn is_closing_mark(mark: char) -> bool {
    mark.is_whitespace() || ['"', '”', '’', '\'', ')', '!', '`'].contains(&mark)
}

/// The length of a `[KIND:name]` marker in bytes.
fn marker_len(text: &str) -> Option<usize> {
    const MARKER_MAX: usize = 200;
    let inner = text.strip_prefix('[')?;
    let kind = inner.bytes().take_while(u8::is_ascii_uppercase).count();
    let name = inner.get(kind..)?.strip_prefix(':').filter(|_| kind > 1)?;
    let end = name
        .char_indices()
        .take(MARKER_MAX)
        .take_while(|(_, c)| !c.is_whitespace())
        .find(|(_, c)| *c == ']')?
        .0;
    Some(1 + kind + 1 + end + 1)
}

/// The length of the word that the text begins with: letters and digits, with single marks inside
/// it. So dates, times of day and words with an apostrophe are one word each.
fn word_len(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    let mut before = None::<char>;
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map(|(_, next)| *next);
        let inside = match (before, c, after) {
            (_, c, _) if c.is_alphanumeric() => true,
            (Some(a), '\'' | '’' | '-' | '.', Some(b)) => {
                a.is_alphanumeric() && b.is_alphanumeric()
            }
            (Some(a), ':' | '/' | '+', Some(b)) => a.is_ascii_digit() && b.is_ascii_digit(),
            // Combining marks belong to the letter before them.
            (Some(_), c, _) => ('\u{300}'..='\u{36f}').contains(&c),
            _ => false,
        };
        if !inside {
            return at;
        }
        before = Some(c);
    }
    text.len()
}

/// The byte ranges of sentences. A line break ends one, unless the next line continues in lower
/// case.
fn sentence_ranges(text: &str, language: &Language) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = at + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '!' | '?' | ';' | '。' | '！' | '？' => {
                next.is_none_or(|next| next.is_whitespace() || is_closing_mark(next))
                    || c > '\u{7f}'
            }
            '.' => {
                next.is_none_or(|next| next.is_whitespace() || is_closing_mark(next))
                    && !is_abbreviation_stop(text, start, at, language)
            }
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => !next.is_some_and(char::is_lowercase),
            _ => false,
        };
        if ends {
            found.push(start..after);
            start = after;
        }
    }
    found.push(start..text.len());
    found
        .iter()
        .map(|range| trim_range(text, range))
        .filter(|range| !range.is_empty())
        .collect()
}

/// The range without white space at its ends.
fn trim_range(text: &str, range: &Range<usize>) -> Range<usize> {
    let body = &text[range.clone()];
    let start = range.start + (body.len() - body.trim_start().len());
    start..start + body.trim().len()
}

/// Whether the full stop at `at` belongs to an abbreviation such as "p.m.": then the sentence
/// continues, unless a new one clearly begins.
fn is_abbreviation_stop(text: &str, start: usize, at: usize, language: &Language) -> bool {
    let before = text[start..at]
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    if before.len() > 8
        || !language
            .abbreviations
            .contains(&before.to_lowercase().as_str())
    {
        return false;
    }
    let next = text[at + 1..].trim_start();
    let word = &next[..word_len(next)];
    let times = &language.times;
    let hour = times
        .am
        .iter()
        .chain(times.pm)
        .any(|name| before.eq_ignore_ascii_case(name));
    let begins = word.chars().next().is_some_and(char::is_uppercase)
        && !(word.len() < 16 && language.is_calendar(&word.to_lowercase()));
    !(hour && (begins || word.is_empty()))
}

/// The ranges of quotations: in quotation marks or code marks, or in a line that begins with `>`.
fn quoted_ranges(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut line_start = true;
    for (at, c) in text.char_indices() {
        match (open, c) {
            (Some((start, close)), c) if c == close => {
                found.push(start..at);
                open = None;
            }
            // A quotation that its line does not close was a mark for something else, such as
            // inches.
            (Some(_), '\n') => open = None,
            (None, '>') if line_start => open = Some((at, '\n')),
            (None, '"') => open = Some((at, '"')),
            (None, '`') => open = Some((at, '`')),
            (None, '“' | '„') => open = Some((at, '”')),
            (None, '«') => open = Some((at, '»')),
            _ => {}
        }
        line_start = c == '\n' || (line_start && c.is_whitespace());
    }
    if let Some((start, '\n')) = open {
        found.push(start..text.len());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::language::english::ENGLISH;
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        sentences(text, &ENGLISH)
            .into_iter()
            .map(|sentence| &text[sentence.range])
            .collect()
    }

    #[test]
    fn sentences_end_at_punctuation_and_line_breaks() {
        assert_eq!(
            split("One. Two! Three? Four"),
            ["One.", "Two!", "Three?", "Four"]
        );
        assert_eq!(
            split("Call at 5 p.m. on Friday. Then rest."),
            ["Call at 5 p.m. on Friday.", "Then rest."]
        );
        assert_eq!(
            split("Call at 5 p.m. Monday. Come at 5 p.m. Then rest."),
            ["Call at 5 p.m. Monday.", "Come at 5 p.m.", "Then rest."]
        );
        assert_eq!(
            split("- one\n- two\nand more\n\nthree"),
            ["- one", "- two\nand more", "three"]
        );
        assert_eq!(
            split("version 1.95.0 of example.com is out"),
            ["version 1.95.0 of example.com is out"]
        );
        assert_eq!(split("  \n \u{2028} "), [""; 0]);
    }

    #[test]
    fn dates_contractions_and_markers_are_single_words() {
        let words = |text: &str| {
            sentences(text, &ENGLISH)
                .remove(0)
                .words
                .into_iter()
                .map(|word| word.text)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words("I’ll be on 2026-06-03T17:30+02:00, 5.30pm"),
            ["i'll", "be", "on", "2026-06-03t17:30+02:00", "5.30pm"]
        );
        assert_eq!(
            words("a follow-up [REDACTED:mail] (x)"),
            ["a", "follow-up", "[redacted:mail]", "x"]
        );
        assert_eq!(words("days' time: 'ok'"), ["days", "time", "ok"]);
    }

    #[test]
    fn a_quotation_may_span_sentences() {
        let text = "He said \"I agree. Remind me.\" Then 5\" of snow\nRemind me";
        let quoted: Vec<bool> = sentences(text, &ENGLISH)
            .iter()
            .map(|sentence| sentence.words.iter().any(|word| word.is_quoted))
            .collect();
        assert_eq!(quoted, [true, true, false, false]);
    }

    #[test]
    fn sentences_over_the_word_limit_are_skipped() {
        assert!(sentences(&"word ".repeat(WORDS_MAX + 1), &ENGLISH).is_empty());
    }
}
