//! Counting tokens exactly as models of the o200k family do.
//!
//! Budgets are promises to whoever pays for a context window, so they are counted and not guessed
//! from the length of a text.

/// The encoding of GPT-4o and its successors. Its tables are part of the program and used in place.
pub struct O200k;

impl O200k {
    /// What the protocol calls it.
    pub const NAME: &str = remem_core::distill::TOKENIZER;

    /// The tokens of a text. Names of special tokens are text like any other.
    #[must_use]
    pub fn count(text: &str) -> usize {
        remem_tokens::count(text)
    }
}

#[cfg(test)]
mod tests {
    use super::O200k;

    /// Common words are a token each, digits go in threes, and the name of a special token is only
    /// text.
    #[test]
    fn counts_are_exact() {
        let known = [
            ("", 0),
            ("hello world", 2),
            ("Hello, world!", 4),
            ("1234567", 3),
            ("<|endoftext|>", 7),
        ];
        for (text, tokens) in known {
            assert_eq!(O200k::count(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn every_text_can_be_counted() {
        for text in [
            "\0",
            "\u{10FFFF}",
            "日本語",
            "a\u{301}\u{301}",
            "\r\n\r\n  \t",
            &"x".repeat(100_000),
        ] {
            let tokens = O200k::count(text);
            assert!(
                tokens > 0 && tokens <= text.len(),
                "{tokens} of {} bytes",
                text.len()
            );
        }
    }
}
