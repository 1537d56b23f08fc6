//! phrase: the sentences of a text and their words, with their places. Knows marks, no meanings.
//! What is code or repeats somebody else's lines is not the writer's own and is left out.

use crate::sabotage;

/// A sentence with more words is a table or a dump.
const WORDS_MAX: usize = 120;
/// A line this long that goes on in lower case was broken by its width.
const WRAPPED_CHARS_MIN: usize = 60;

/// A word in lower case with straight apostrophes.
#[derive(Debug)]
pub(crate) struct Word {
    pub text: String,
    /// Where it stands in its sentence, in bytes.
    pub start: usize,
    pub end: usize,
    /// The mark behind it that parts it from the next word.
    pub mark: Option<char>,
}

/// A sentence, verbatim.
#[derive(Debug)]
pub(crate) struct Sentence<'a> {
    pub text: &'a str,
    pub words: Vec<Word>,
    pub question: bool,
    /// It begins inside quotation marks: somebody else's words.
    pub quoted: bool,
}

impl<'a> Sentence<'a> {
    /// The whole text as one sentence, if it is not too long for one.
    pub fn read(text: &'a str) -> Option<Sentence<'a>> {
        let text = unbulleted(text.trim());
        let mut words: Vec<Word> = Vec::new();
        for (start, chunk) in chunks(text) {
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
            let mark = tail.chars().find(|mark| PARTING.contains(mark));
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
            question,
            quoted: text.starts_with(['"', '“', '„', '«', '`']),
        })
    }

    /// The word at a place, or an empty one.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| word.text.as_str())
    }

    /// How many words the longest of `phrases` at a place has, without a mark inside.
    pub fn any(&self, at: usize, phrases: &[&str]) -> Option<usize> {
        phrases
            .iter()
            .filter_map(|phrase| self.phrase(at, phrase))
            .max()
    }

    /// Whether one of `phrases` stands anywhere from a place on.
    pub fn has(&self, from: usize, phrases: &[&str]) -> bool {
        (from..self.words.len()).any(|at| self.any(at, phrases).is_some())
    }

    /// The first place from `from` on where one of `words` stands.
    pub fn find(&self, from: usize, words: &[&str]) -> Option<usize> {
        (from..self.words.len()).find(|at| words.contains(&self.word(*at)))
    }

    /// The verbatim text of the words from one place to before another.
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

    fn phrase(&self, at: usize, phrase: &str) -> Option<usize> {
        let mut count = 0;
        for part in phrase.split(' ') {
            let parted = count > 0
                && self
                    .words
                    .get(at + count - 1)
                    .is_some_and(|word| word.mark.is_some());
            if parted || self.word(at + count) != part {
                return None;
            }
            count += 1;
        }
        Some(count)
    }
}

/// The sentences that the writer of a text wrote, in order.
pub(crate) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    for block in own_blocks(text) {
        let mut start = 0;
        for end in ends(block) {
            found.extend(Sentence::read(&block[start..end]));
            start = end;
        }
        found.extend(Sentence::read(&block[start..]));
    }
    found
}

/// Runs of lines outside of fences that quote nobody.
fn own_blocks(text: &str) -> Vec<&str> {
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

/// Where sentences end: at a closing mark before white space, and at line breaks that are meant.
fn ends(block: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut line = 0;
    for (at, c) in block.char_indices() {
        let after = at + c.len_utf8();
        let next = block[after..].chars().next();
        let closes =
            next.is_none_or(|next| next.is_whitespace() || ['"', '”', ')', '\''].contains(&next));
        match c {
            '!' | '?' | ';' if closes => ends.push(after),
            '.' if closes && !abbreviates(&block[..at]) => ends.push(after),
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

fn abbreviates(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or_default();
    word.len() <= 6 && ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

/// Words of a text between white space, with their places.
fn chunks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let base = text.as_ptr() as usize;
    text.split_whitespace()
        .map(move |chunk| (chunk.as_ptr() as usize - base, chunk))
}

fn unbulleted(text: &str) -> &str {
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
const PARTING: &[char] = &['.', ',', ';', ':', '!', '?', ')', '–', '—', '…'];
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
    fn sentences_end_at_marks_and_lines() {
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
    fn other_peoples_words_are_left_out() {
        assert_eq!(
            split("Mine.\n> always theirs\nMine again\n```\nalways code\n```\nand mine"),
            ["Mine.", "Mine again", "and mine"]
        );
        assert_eq!(split("```\nnever closed"), [""; 0]);
        let quoted: Vec<bool> = sentences("\"Always pay,\" it says. I do")
            .iter()
            .map(|sentence| sentence.quoted)
            .collect();
        assert_eq!(quoted, [true, false]);
    }

    #[test]
    fn words_know_their_places_and_marks() {
        let sentence = Sentence::read("From now on, use “C#” – don’t ask").unwrap();
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
                sentence.any(0, &["from now on", "from"]),
                sentence.any(2, &["on use"])
            ),
            (Some(3), None)
        );
        assert!(Sentence::read(&"word ".repeat(121)).is_none() && Sentence::read("- …").is_none());
    }
}
