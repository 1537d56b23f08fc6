//! Owns the splitting of texts into units: whole entries if they are short, runs of sentences if
//! they are not.
//!
//! A short entry is one thought, and half of it misleads; so only a text longer than
//! [`WHOLE_BYTES_MAX`] is split.

/// The longest text that is one unit, in bytes.
const WHOLE_BYTES_MAX: usize = 640;
/// The longest run of sentences that makes a unit of a longer text, in bytes.
const RUN_BYTES_MAX: usize = 320;

/// A verbatim part of a source.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestUnit {
    /// The id of the source.
    pub source: String,
    /// The index of the unit in its source, from 0.
    pub index: u32,
    /// The byte offset in the source's text at which it begins.
    pub start: usize,
    /// The byte offset in the source's text at which it ends.
    pub end: usize,
    pub text: String,
}

impl std::fmt::Debug for DigestUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Unit({}, {}: {}..{})",
            self.source, self.index, self.start, self.end
        )
    }
}

/// Splits a source into units. A blank one has none.
pub(super) fn split_text(source: &str, text: &str) -> Vec<DigestUnit> {
    let spans = if text.trim().len() <= WHOLE_BYTES_MAX {
        vec![(0, text.len())]
    } else {
        sentence_runs(text)
    };
    let spans = spans
        .into_iter()
        .filter_map(|(start, end)| trim_span(text, start, end));
    let unit = |(index, (start, end)): (usize, (usize, usize))| DigestUnit {
        source: source.to_owned(),
        index: u32::try_from(index).unwrap_or(u32::MAX),
        start,
        end,
        text: text[start..end].to_owned(),
    };
    spans.enumerate().map(unit).collect()
}

/// The span without white space at its ends.
fn trim_span(text: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let part = &text[start..end];
    let start = start + (part.len() - part.trim_start().len());
    let length = part.trim().len();
    (length > 0).then_some((start, start + length))
}

/// Joins neighbouring sentences while they stay short; never across a line break.
fn sentence_runs(text: &str) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (start, end) in sentences(text)
        .into_iter()
        .flat_map(|(start, end)| split_long(text, start, end))
    {
        match runs.last_mut() {
            Some(run) if end - run.0 <= RUN_BYTES_MAX && !text[run.0..start].ends_with('\n') => {
                run.1 = end
            }
            _ => runs.push((start, end)),
        }
    }
    runs
}

/// The byte ranges of sentences. One ends after a closing mark that is followed by white space, and
/// at line breaks.
pub(super) fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    let mut start = 0;
    let mut closed = false;
    for (at, char) in text.char_indices() {
        if closed && char.is_whitespace() && char != '\n' {
            spans.push((start, at));
            start = at;
        }
        // Marks of scripts without spaces close on their own.
        if matches!(char, '\n' | '。' | '！' | '？') {
            spans.push((start, at + char.len_utf8()));
            start = at + char.len_utf8();
        }
        closed = matches!(char, '.' | '!' | '?')
            || (closed && matches!(char, '"' | '\'' | ')' | '”' | '’'));
    }
    spans.push((start, text.len()));
    spans.retain(|(start, end)| start < end);
    spans
}

/// Splits a sentence that is too long for one unit at white space or, where there is none, at any
/// character.
fn split_long(text: &str, start: usize, end: usize) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut at = start;
    while end - at > WHOLE_BYTES_MAX {
        let most = floor_char_boundary(text, at + WHOLE_BYTES_MAX);
        // A cut in the first half would leave crumbs.
        let from = floor_char_boundary(text, at + WHOLE_BYTES_MAX / 2);
        let cut = text[from..most]
            .rfind(char::is_whitespace)
            .map_or(most, |space| from + space);
        pieces.push((at, cut));
        at = cut;
    }
    pieces.push((at, end));
    pieces
}

/// The last character boundary that is not after `at`.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split_text("a", text)
            .into_iter()
            .map(|unit| unit.text)
            .collect()
    }

    #[test]
    fn short_texts_are_one_unit_and_blank_texts_none() {
        assert_eq!(texts("  One. Two!\nThree? "), ["One. Two!\nThree?"]);
        assert_eq!(texts(" \n\t"), Vec::<String>::new());
    }

    #[test]
    fn sentences_end_at_punctuation_and_line_breaks() {
        let text = "It cost 3.50 at example.com. \"Really?\" Yes!\nNext line 東京です。次";
        let found: Vec<&str> = sentences(text)
            .into_iter()
            .map(|(start, end)| text[start..end].trim())
            .collect();
        assert_eq!(
            found,
            [
                "It cost 3.50 at example.com.",
                "\"Really?\"",
                "Yes!",
                "Next line 東京です。",
                "次"
            ]
        );
    }

    #[test]
    fn long_texts_are_split_at_sentence_boundaries() {
        let text = "This sentence has exactly so many letters. ".repeat(40);
        let units = split_text("a", &text);
        assert!(units.len() > 4, "{}", units.len());
        for unit in &units {
            assert!(
                unit.text.len() <= RUN_BYTES_MAX
                    && unit.text.starts_with("This")
                    && unit.text.ends_with('.'),
                "{:?}",
                unit.text
            );
            assert_eq!(text[unit.start..unit.end], unit.text);
        }
    }

    #[test]
    fn long_text_without_sentence_ends_is_split_losslessly() {
        for text in [
            "é".repeat(5_000),
            "word ".repeat(2_000),
            "x\u{2003}".repeat(3_000),
        ] {
            let units = split_text("a", &text);
            assert!(units.len() > 2 && units.iter().all(|unit| unit.text.len() <= WHOLE_BYTES_MAX));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            assert_eq!(
                units.iter().map(|unit| letters(&unit.text)).sum::<usize>(),
                letters(&text),
                "nothing is lost"
            );
        }
    }
}
