//! Owns the JSON-escaped forms of a value, the one encoding that must never let a value through.

use zeroize::Zeroizing;

/// The ways serialisers write a value inside a JSON string, where they differ from the value: with
/// or without `\/`, with other scripts as they are or as `\uXXXX` in either case.
pub(super) fn json_forms(value: &str) -> Vec<Zeroizing<String>> {
    let mut forms: Vec<Zeroizing<String>> = Vec::new();
    for slash in ["/", "\\/"] {
        for wide in [
            |c: char| c.to_string(),
            |c: char| utf16_escapes(c),
            |c: char| utf16_escapes(c).to_uppercase().replace('U', "u"),
        ] {
            let form = Zeroizing::new(
                value
                    .chars()
                    .map(|c| json_char(c, slash, wide))
                    .collect::<String>(),
            );
            if form.as_str() != value && !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

fn json_char(c: char, slash: &str, wide: fn(char) -> String) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '/' => slash.to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{C}' => "\\f".to_owned(),
        _ if c.is_ascii_control() => utf16_escapes(c),
        _ if c.is_ascii() => c.to_string(),
        _ => wide(c),
    }
}

fn utf16_escapes(c: char) -> String {
    c.encode_utf16(&mut [0; 2])
        .iter()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(value: &str) -> Vec<String> {
        json_forms(value)
            .into_iter()
            .map(|form| form.to_string())
            .collect()
    }

    #[test]
    fn plain_values_have_no_escaped_forms() {
        assert!(forms("plain-value_123").is_empty());
    }

    #[test]
    fn every_json_escaping_style_is_listed() {
        assert_eq!(forms("a/b"), [r"a\/b"]);
        assert_eq!(forms("a\"\\\n\t\u{1}"), [r#"a\"\\\n\t\u0001"#]);
        assert_eq!(
            forms("é/🔑"),
            [
                r"\u00e9/\ud83d\udd11",
                r"\u00E9/\uD83D\uDD11",
                r"é\/🔑",
                r"\u00e9\/\ud83d\udd11",
                r"\u00E9\/\uD83D\uDD11"
            ]
        );
    }

    #[test]
    fn the_forms_include_what_serde_json_writes() {
        let value = "p\"w\\x\ny\u{8}z\u{c}\u{1f}é";
        let written = serde_json::to_string(value).unwrap();
        assert!(forms(value).contains(&written[1..written.len() - 1].to_owned()));
    }
}
