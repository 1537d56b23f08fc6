//! Finds the string literals of a source file, which is where its SQL is.

/// A string literal: the line on which it begins, the line on which it ends, and its text.
pub struct Literal {
    pub line: usize,
    pub end: usize,
    pub text: String,
}

/// The string literals of a Rust source, in order. Lines count from 0.
pub fn of_source(source: &str) -> Vec<Literal> {
    let mut found = Vec::new();
    let mut line = 0;
    let mut rest = source;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '\'' => character_length(rest),
            '"' => {
                let length = string_length(rest);
                found.push(Literal {
                    line,
                    end: line + rest[..length].matches('\n').count(),
                    text: rest[1..length.max(2) - 1].replace("\\\n", ""),
                });
                length
            }
            _ => character.len_utf8(),
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The length of a string literal with its quotes.
fn string_length(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a character literal, or of the mark of a lifetime.
fn character_length(rest: &str) -> usize {
    let inner = &rest[1..];
    let escaped = inner.strip_prefix('\\');
    let end = match escaped {
        Some(escaped) => escaped
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == '\'')
            .map(|(at, _)| at + 3),
        None => inner
            .char_indices()
            .nth(1)
            .filter(|(_, c)| *c == '\'')
            .map(|(at, _)| at + 2),
    };
    end.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_found_between_comments_characters_and_lifetimes() {
        let source = "fn a<'a>() { // \"no\"\n let q = '\"'; let e = '\\''; f(\"one \\\" \\\n  more\", \"two\"); }";
        let texts: Vec<String> = of_source(source).into_iter().map(|l| l.text).collect();
        assert_eq!(texts, ["one \\\"   more", "two"]);
    }
}
