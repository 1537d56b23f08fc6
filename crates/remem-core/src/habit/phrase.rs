//! phrase: the sentences of a text and their words, with their offsets. It knows marks, no
//! meanings. Code and quoted lines are not the writer's own and are left out.

use crate::sabotage;

/// The most words of a sentence; one with more is a table or a dump.
const WORDS_MAX: usize = 120;
/// A line this long whose next line begins in lower case was broken by its width.
const WRAPPED_CHARS_MIN: usize = 60;

/// A word in lower case with straight apostrophes.
#[derive(Debug)]
pub(crate) struct Word {
    pub text: String,
    /// The byte offset in its sentence at which the word begins.
    pub start: usize,
    /// The byte offset in its sentence at which the word ends.
    pub end: usize,
    /// The mark behind the word that separates it from the next one.
    pub mark: Option<char>,
}

/// A sentence: its verbatim text and its words.
#[derive(Debug)]
pub(crate) struct Sentence<'a> {
    pub text: &'a str,
    pub words: Vec<Word>,
    pub is_question: bool,
    /// Whether it begins with a quotation mark, and so quotes another writer.
    pub is_quoted: bool,
}

impl<'a> Sentence<'a> {
    /// Reads the whole text as one sentence; `None` if it has no words or too many.
    pub fn parse(text: &'a str) -> Option<Sentence<'a>> {
        let text = strip_bullet(text.trim());
        let mut words: Vec<Word> = Vec::new();
        for (start, chunk) in words_with_offsets(text) {
            let opened = chunk.trim_start_matches(MARKS);
            let core = opened.trim_end_matches(MARKS);
            let tail = if core.is_empty() {
                chunk
            } else {
                &opened[core.len()..]
            };
            if core.is_empty() {
                words
                    .iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|last| last.mark = last.mark.or(tail.chars().next()));
                continue;
            }
            let start = start + chunk.len() - opened.len();
            let mark = tail.chars().find(|mark| SEPARATING_MARKS.contains(mark));
            words.push(Word {
                text: core.to_lowercase().replace('’', "'"),
                start,
                end: start + core.len(),
                mark,
            });
        }
        let question = text.trim_end_matches(['"', '”', ')', '!']).ends_with('?');
        let fits = !words.is_empty() && words.len() <= WORDS_MAX;
        fits.then(|| Sentence {
            text,
            words,
            is_question: question,
            is_quoted: text.starts_with(['"', '“', '„', '«', '`']),
        })
    }

    /// The word at an index, or an empty one.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| word.text.as_str())
    }

    /// The number of words of the longest of `phrases` at an index, without a mark inside.
    pub fn longest_phrase_at(&self, at: usize, phrases: &[&str]) -> Option<usize> {
        phrases
            .iter()
            .filter_map(|phrase| self.phrase_len_at(at, phrase))
            .max()
    }

    /// Whether one of `phrases` occurs anywhere from an index on.
    pub fn contains_any(&self, from: usize, phrases: &[&str]) -> bool {
        (from..self.words.len()).any(|at| self.longest_phrase_at(at, phrases).is_some())
    }

    /// The first index from `from` on that has one of `words`.
    pub fn find_word(&self, from: usize, words: &[&str]) -> Option<usize> {
        (from..self.words.len()).find(|at| words.contains(&self.word(*at)))
    }

    /// The verbatim text of the words from one index to before another.
    pub fn slice(&self, from: usize, to: usize) -> &'a str {
        match (
            self.words.get(from),
            to.checked_sub(1).and_then(|last| self.words.get(last)),
        ) {
            (Some(first), Some(last)) if first.start <= last.end => {
                &self.text[first.start..last.end]
            }
            _ => "",
        }
    }

    /// The number of words of a phrase, if it is at an index without a mark inside.
    fn phrase_len_at(&self, at: usize, phrase: &str) -> Option<usize> {
        let mut count = 0;
        for part in phrase.split(' ') {
            let separated = count > 0
                && self
                    .words
                    .get(at + count - 1)
                    .is_some_and(|word| word.mark.is_some());
            if separated || self.word(at + count) != part {
                return None;
            }
            count += 1;
        }
        Some(count)
    }
}

/// The sentences of a text that its writer wrote, in order.
pub(crate) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    for block in unquoted_blocks(text) {
        let mut start = 0;
        for end in sentence_ends(block) {
            found.extend(Sentence::parse(&block[start..end]));
            start = end;
        }
        found.extend(Sentence::parse(&block[start..]));
    }
    found
}

/// The runs of lines outside code fences that are not quoted.
fn unquoted_blocks(text: &str) -> Vec<&str> {
    let mut blocks = Vec::new();
    let mut start = 0;
    let mut at = 0;
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        let fence = line.trim_start().starts_with("```");
        if sabotage!(
            "what-is-quoted-is-ordered",
            fence || fenced || line.trim_start().starts_with('>'),
            fence || fenced
        ) {
            blocks.push(&text[start..at]);
            start = at + line.len();
        }
        fenced ^= fence;
        at += line.len();
    }
    blocks.push(&text[start.min(at)..]);
    blocks
}

/// The offsets at which sentences end: at a closing mark before white space, and at line breaks
/// that do not wrap a paragraph.
fn sentence_ends(block: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut line = 0;
    for (at, c) in block.char_indices() {
        let after = at + c.len_utf8();
        let next = block[after..].chars().next();
        let closes =
            next.is_none_or(|next| next.is_whitespace() || ['"', '”', ')', '\''].contains(&next));
        match c {
            '!' | '?' | ';' if closes => ends.push(after),
            '.' if closes && !ends_in_abbreviation(&block[..at]) => ends.push(after),
            '\n' => {
                let wrapped = block[line..at].chars().count() >= WRAPPED_CHARS_MIN
                    && next.is_some_and(char::is_lowercase);
                ends.extend((!wrapped).then_some(after));
                line = after;
            }
            _ => {}
        }
    }
    ends
}

/// Whether a full stop ends an abbreviation rather than a sentence.
fn ends_in_abbreviation(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    word.len() <= 6 && ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

/// The words of a text between white space, with their offsets.
fn words_with_offsets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let base = text.as_ptr() as usize;
    text.split_whitespace()
        .map(move |chunk| (chunk.as_ptr() as usize - base, chunk))
}

/// The text without a bullet in front.
fn strip_bullet(text: &str) -> &str {
    let rest = text.trim_start_matches(['-', '*', '•', '–', '—']);
    if rest.len() < text.len() && rest.starts_with(char::is_whitespace) {
        rest.trim_start()
    } else {
        text
    }
}

/// Marks around words. A `#`, `@` or `+` belongs to the word.
const MARKS: &[char] = &[
    '.', ',', ';', ':', '!', '?', '"', '\'', '(', ')', '[', ']', '{', '}', '“', '”', '„', '‘', '’',
    '«', '»', '*', '`', '…', '–', '—', '-',
];
/// Marks that separate a word from the next one.
const SEPARATING_MARKS: &[char] = &['.', ',', ';', ':', '!', '?', ')', '–', '—', '…'];
const ABBREVIATIONS: &[&str] = &[
    "approx", "dr", "e.g", "etc", "i.e", "incl", "mr", "mrs", "ms", "no", "resp", "st", "vs",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        sentences(text)
            .into_iter()
            .map(|sentence| sentence.text)
            .collect()
    }

    #[test]
    fn sentences_end_at_punctuation_and_line_breaks() {
        assert_eq!(
            split("One. Two! Three? Four"),
            ["One.", "Two!", "Three?", "Four"]
        );
        assert_eq!(split("always one\nnever two"), ["always one", "never two"]);
        assert_eq!(
            split("- one\n* two\n• three - four"),
            ["one", "two", "three - four"]
        );
        assert_eq!(
            split("Use tools, e.g. rustfmt v1.2, always"),
            ["Use tools, e.g. rustfmt v1.2, always"]
        );
        let wrapped =
            "Always send the weekly report of the whole department to the\nfinance team. Done";
        assert_eq!(split(wrapped), [&wrapped[..wrapped.len() - 5], "Done"]);
        assert_eq!(split(" \n "), [""; 0]);
    }

    #[test]
    fn quoted_lines_and_code_blocks_are_skipped() {
        assert_eq!(
            split("Mine.\n> always theirs\nMine again\n```\nalways code\n```\nand mine"),
            ["Mine.", "Mine again", "and mine"]
        );
        assert_eq!(split("```\nnever closed"), [""; 0]);
        let quoted: Vec<bool> = sentences("\"Always pay,\" it says. I do")
            .iter()
            .map(|sentence| sentence.is_quoted)
            .collect();
        assert_eq!(quoted, [true, false]);
    }

    #[test]
    fn words_keep_their_position_and_punctuation() {
        let sentence = Sentence::parse("From now on, use “C#” – don’t ask").unwrap();
        let words: Vec<(&str, Option<char>)> = sentence
            .words
            .iter()
            .map(|word| (word.text.as_str(), word.mark))
            .collect();
        assert_eq!(
            words,
            [
                ("from", None),
                ("now", None),
                ("on", Some(',')),
                ("use", None),
                ("c#", Some('–')),
                ("don't", None),
                ("ask", None)
            ]
        );
        assert_eq!(sentence.slice(3, 5), "use “C#");
        assert_eq!(
            (
                sentence.longest_phrase_at(0, &["from now on", "from"]),
                sentence.longest_phrase_at(2, &["on use"])
            ),
            (Some(3), None)
        );
        assert!(
            Sentence::parse(&"word ".repeat(121)).is_none() && Sentence::parse("- …").is_none()
        );
    }
}
