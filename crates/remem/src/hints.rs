//! What is wrong with a file or a setting that the user wrote, in the user's words: the key at
//! fault, the nearest known one, and no names of types. Texts of servers are not made here: they
//! may not echo what a caller sent.

use remem_core::sabotage;
use serde_json::error::Category;

/// The mark that some editors put before a text.
pub const BOM: char = '\u{feff}';

/// Says what is wrong with JSON that the user wrote. Texts are not shown, because a file may hold
/// secrets; an unknown name is shown only if it is nearly a known one.
pub fn json(error: &serde_json::Error) -> String {
    if error.classify() != Category::Data {
        return remem_wire::error::json_hint(error);
    }
    let text = error.to_string();
    let place = match (error.line(), error.column()) {
        (0, _) => String::new(),
        (line, column) => format!(" (line {line}, column {column})"),
    };
    let nearly = |(_, typed, known): &(&str, &str, Vec<&str>)| {
        sabotage!(
            "names-in-files-are-shown",
            closest(typed, known.iter().copied()).is_some(),
            true
        )
    };
    match unknown(&text).filter(nearly) {
        Some((what, typed, known)) => format!("{}{place}", unknown_text(what, typed, &known)),
        None => remem_wire::error::json_hint(error),
    }
}

/// The same for a line of a file: the line's number is known elsewhere.
pub fn json_line(error: &serde_json::Error) -> String {
    json(error).replace("(line 1, column", "(column")
}

/// `unknown field `a`, expected one of `b`, `c`` in its parts.
fn unknown(text: &str) -> Option<(&'static str, &str, Vec<&str>)> {
    let (what, rest) = text
        .strip_prefix("unknown field `")
        .map(|rest| ("field", rest))
        .or_else(|| Some(("value", text.strip_prefix("unknown variant `")?)))?;
    let (typed, rest) = rest.split_once("`, expected ")?;
    let known = rest.split('`').skip(1).step_by(2).collect();
    Some((what, typed, known))
}

/// Says that a name is unknown, and which one may be meant, or which ones there are.
pub fn unknown_text(what: &str, typed: &str, known: &[&str]) -> String {
    let typed = crate::output::preview(typed, 80);
    match closest(&typed, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{typed}`; did you mean `{near}`?"),
        None => format!(
            "unknown {what} `{typed}`; known {what}s are {}",
            known.join(", ")
        ),
    }
}

/// The known name that is most like what was typed, if one is alike.
pub fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let far = |name: &&str| strsim::damerau_levenshtein(&typed, &name.to_lowercase());
    let near = known.into_iter().min_by_key(far)?;
    let most = typed.chars().count().div_ceil(3).min(3);
    (far(&near) <= most).then_some(near)
}

/// A file's bytes without that mark.
pub fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remem_wire::workshop::NamedRule;

    #[test]
    fn json_errors_suggest_a_near_field_and_echo_no_values() {
        let hint = |text: &str| json(&serde_json::from_str::<NamedRule>(text).err().unwrap());
        assert_eq!(
            hint(r#"{"id": "a", "bdoy": "b"}"#),
            "unknown field `bdoy`; did you mean `body`? (line 1, column 18)"
        );
        let secret = hint(r#"{"plum-harbour": "red"}"#);
        assert!(
            secret.contains("unknown field") && !secret.contains("plum"),
            "{secret}"
        );
        let wrong = hint(r#"{"id": 7}"#);
        assert!(
            wrong.contains("expected text") && !wrong.contains('7'),
            "{wrong}"
        );
        let wrong = hint("[]");
        assert!(
            !wrong.contains("NamedRule") && !wrong.contains("struct"),
            "{wrong}"
        );
    }

    #[test]
    fn only_similar_names_are_suggested() {
        assert_eq!(closest("contnt", ["content", "tags"]), Some("content"));
        assert_eq!(
            closest("REMEM_LOG_LEVEL", ["REMEM_LOG__LEVEL"]),
            Some("REMEM_LOG__LEVEL")
        );
        assert_eq!(closest("x", ["content", "tags"]), None);
    }
}
