//! The tokenizer of BERT and its descendants: lower case without accents, split at spaces and
//! punctuation, each word in pieces of a vocabulary. It keeps no text.
//!
//! It combines the steps of rten-text itself, because that crate's `Tokenizer` cannot be shared
//! between threads, does not separate ideographs, and reads a text to its end before it cuts it.

use rten_text::models::{Model, WordPiece, WordPieceOptions};
use rten_text::normalizers::{self, BertOptions, Normalizer};
use rten_text::pre_tokenizers::{self, PreTokenizer};
use serde::Deserialize;
use std::collections::HashMap;

/// A vocabulary of word pieces, and the steps that cut a text into them.
pub struct Tokenizer {
    normalizer: normalizers::Bert,
    splitter: pre_tokenizers::Bert,
    pieces: WordPiece,
    /// The tokens that mark the start and the end of a text: `[CLS]` and `[SEP]`.
    marks: (i32, i32),
    tokens_max: usize,
}

/// The part of a `tokenizer.json` that differs between models of this kind.
#[derive(Deserialize)]
struct TokenizerFile {
    model: TokenizerModel,
}

#[derive(Deserialize)]
struct TokenizerModel {
    vocab: HashMap<String, u32>,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`; `None` if it does not describe a tokenizer of this kind.
    #[must_use]
    pub fn new(json: &[u8], tokens_max: usize) -> Option<Tokenizer> {
        let description: TokenizerFile = serde_json::from_slice(json).ok()?;
        let pieces = WordPiece::from_vocab(description.model.vocab, WordPieceOptions::default());
        let mark = |name| i32::try_from(pieces.get_token_id(name)?).ok();
        let marks = (mark("[CLS]")?, mark("[SEP]")?);
        mark("[UNK]")?;
        let normalizer = normalizers::Bert::new(BertOptions {
            lowercase: true,
            strip_accents: true,
        });
        Some(Tokenizer {
            normalizer,
            splitter: pre_tokenizers::Bert::new(),
            pieces,
            marks,
            tokens_max,
        })
    }

    /// Returns the first tokens of a text, up to the model's maximum, with a mark at both ends.
    #[must_use]
    pub fn tokens(&self, text: &str) -> Option<Vec<i32>> {
        let room = self.tokens_max.saturating_sub(1);
        let (normal, _) = self.normalizer.normalize(&separate_ideographs(text)).ok()?;
        let mut tokens = vec![self.marks.0];
        for word in self.splitter.pre_tokenize(&normal).ok()? {
            if tokens.len() >= room {
                break;
            }
            self.pieces
                .encode_with_offsets(word, &mut |_, id| tokens.extend(i32::try_from(id)))
                .ok()?;
        }
        tokens.truncate(room);
        tokens.push(self.marks.1);
        Some(tokens)
    }
}

/// Returns the text as such models are trained on it: without control characters, and with every
/// ideograph as a word of its own.
fn separate_ideographs(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            spaced.push(' ');
        } else if is_ideograph(c) {
            spaced.extend([' ', c, ' ']);
        } else if !c.is_control() && c != '\u{fffd}' {
            spaced.push(c);
        }
    }
    spaced
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2ceaf}' | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words() -> Tokenizer {
        let vocab = ["[UNK]", "[CLS]", "[SEP]", "tea", "##pot", ".", "東", "京"];
        let vocab: HashMap<&str, usize> = vocab
            .into_iter()
            .enumerate()
            .map(|(id, piece)| (piece, id))
            .collect();
        let json = serde_json::json!({"model": {"vocab": vocab}}).to_string();
        Tokenizer::new(json.as_bytes(), 8).unwrap()
    }

    #[test]
    fn text_is_split_into_tokens_of_the_vocabulary() {
        for (text, tokens) in [
            ("", vec![1, 2]),
            ("Tea.", vec![1, 3, 5, 2]),
            ("t\u{e9}a t\u{7}ea", vec![1, 3, 3, 2]),
            ("teapot\ttable", vec![1, 3, 4, 0, 2]),
            ("東京", vec![1, 6, 7, 2]),
            (
                "tea tea tea tea tea tea tea tea",
                vec![1, 3, 3, 3, 3, 3, 3, 2],
            ),
            ("tea tea tea tea tea teapot", vec![1, 3, 3, 3, 3, 3, 3, 2]),
            ("[SEP]", vec![1, 0, 0, 0, 2]),
        ] {
            assert_eq!(words().tokens(text).unwrap(), tokens, "{text}");
        }
        assert!(Tokenizer::new(b"{}", 8).is_none());
        assert!(Tokenizer::new(br#"{"model": {"vocab": {"tea": 1}}}"#, 8).is_none());
    }

    proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(remem_testkit::cases(64, 256)))]

        #[test]
        fn any_text_yields_bounded_tokens_with_start_and_end_marks(text in any::<String>()) {
            let tokens = words().tokens(&text).unwrap();
            prop_assert!((2..=8).contains(&tokens.len()));
            prop_assert_eq!((tokens[0], *tokens.last().unwrap()), (1, 2));
        }
    }
}
