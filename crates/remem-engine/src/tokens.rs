//! Counting tokens exactly as models of the o200k family do.
//!
//! Budgets limit what a caller pays for a context window, so tokens are counted, not estimated from
//! the length of a text.

/// The encoding of GPT-4o and its successors. Its tables are compiled into the program.
pub struct O200k;

impl O200k {
    /// The protocol's name of the tokenizer.
    pub const NAME: &str = remem_core::distill::TOKENIZER;

    /// Counts the tokens of a text. Names of special tokens are ordinary text.
    #[must_use]
    pub fn count(text: &str) -> usize {
        remem_tokens::count(text)
    }
}

#[cfg(test)]
mod tests {
    use super::O200k;

    /// Common words are one token each, digits are grouped in threes, and the name of a special
    /// token is ordinary text.
    #[test]
    fn token_counts_are_exact() {
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
