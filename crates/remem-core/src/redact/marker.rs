//! Owns the marker grammar: how a marker is written, recognised and named, and which foreign
//! placeholders it replaces. It does not decide what is secret; the caller does.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::random::is_distinctive_part;

/// How a marker begins; `]` ends it.
const OPEN: &str = "[REDACTED:";
/// Longest id in a marker, so that a hostile id cannot blow up a text.
const ID_CHARS_MAX: usize = 64;
/// Ids of shape markers begin with this; a registered id may not.
const SHAPE_PREFIX: &str = "shape-";

/// A marker found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// The range of the marker, brackets included.
    pub(super) range: Range<usize>,
    /// The range of the id between the brackets.
    pub(super) id: Range<usize>,
}

// Wider than what we write: markers of older releases and other hosts are kept as well.
static MARKER: LazyLock<Regex> =
    LazyLock::new(|| constant_regex(r#"\[REDACTED:([^\[\]<>"\x00-\x1F\x7F]{1,64})\]"#));
static FOREIGN: LazyLock<Regex> = LazyLock::new(|| {
    constant_regex(
        r#"<REDACTED:([^\[\]<>"\x00-\x1F\x7F]{1,256})>|\[BYOK:([^\[\]<>"\x00-\x1F\x7F]{1,256})\]"#,
    )
});

fn constant_regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

/// The marker for an id that `is_fit_id` accepts.
pub(super) fn write(id: &str) -> String {
    format!("{OPEN}{id}]")
}

/// The marker for a secret shape.
pub(super) fn write_shape(kind: &str) -> String {
    format!("{OPEN}{SHAPE_PREFIX}{kind}]")
}

/// All well-formed markers, in order.
pub(super) fn find_all(text: &str) -> Vec<Marker> {
    let found = MARKER.captures_iter(text);
    found
        .filter_map(|c| {
            Some(Marker {
                range: c.get(0)?.range(),
                id: c.get(1)?.range(),
            })
        })
        .collect()
}

/// Whether an id can be shown in a marker: a closed alphabet, a length, no dots or slashes in
/// front.
pub(super) fn is_fit_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= ID_CHARS_MAX
        && !id.starts_with(SHAPE_PREFIX)
        && !id.contains("..")
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte))
}

/// Substitute ids for a secret whose own id is unfit. The last one is shorter than any registered
/// value can be, so it cannot contain one.
pub(super) fn generic_ids(number: usize) -> [String; 2] {
    [format!("secret-{number}"), format!("s{number}")]
}

/// Rewrites placeholders of other notations as markers; `None` when there is none.
pub(super) fn rewrite_foreign(text: &str, is_clean: impl Fn(&str) -> bool) -> Option<String> {
    if !FOREIGN.is_match(text) {
        return None;
    }
    let rewritten = FOREIGN.replace_all(text, |found: &Captures<'_>| {
        let label = found
            .get(1)
            .or(found.get(2))
            .map_or("", |label| label.as_str());
        // A label is kept for the reader, but only if it cannot itself be the credential.
        let keep = is_fit_id(label) && !is_distinctive_part(label) && is_clean(label);
        write(if keep { label } else { "placeholder" })
    });
    Some(rewritten.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_markers_are_found() {
        let text = "a [REDACTED:x-1] [REDACTED:] [REDACTED:y [REDACTED:z z][REDACTED:a\nb]";
        let ids: Vec<&str> = find_all(text).into_iter().map(|m| &text[m.id]).collect();
        assert_eq!(ids, ["x-1", "z z"]);
        let long = write(&"i".repeat(65));
        assert_eq!(find_all(&long), []);
    }

    #[test]
    fn ids_outside_the_alphabet_are_invalid() {
        for (id, fit) in [
            ("openai-prod", true),
            ("vault/prod/db.1", true),
            ("user@host:key", true),
            ("a", true),
            ("", false),
            ("id]x", false),
            ("a b", false),
            ("a\nb", false),
            ("../../etc", false),
            ("a/../b", false),
            ("<b>", false),
            ("shape-jwt", false),
            ("ідентифікатор", false),
            ("-x", false),
        ] {
            assert_eq!(is_fit_id(id), fit, "{id:?}");
        }
        assert!(!is_fit_id(&"a".repeat(65)));
    }

    #[test]
    fn generic_ids_are_valid_and_the_last_is_below_the_floor() {
        for number in [1, 99, 999_999] {
            assert!(generic_ids(number).iter().all(|id| is_fit_id(id)));
            assert!(generic_ids(number)[1].len() < super::super::FLOOR_CHARS);
        }
    }

    #[test]
    fn foreign_placeholders_become_markers() {
        let clean = |_: &str| true;
        for (text, expected) in [
            ("x [BYOK:team-key] y", "x [REDACTED:team-key] y"),
            (
                "x [BYOK:hk_test_Kq7zP2mW9x4L] y",
                "x [REDACTED:placeholder] y",
            ),
            (
                "x <REDACTED:db creds> <REDACTED:db> y",
                "x [REDACTED:placeholder] [REDACTED:db] y",
            ),
        ] {
            assert_eq!(rewrite_foreign(text, clean).as_deref(), Some(expected));
        }
        assert_eq!(
            rewrite_foreign("[BYOK:] <REDACTED> <REDACTED:a[b> [REDACTED:x]", clean),
            None
        );
        assert_eq!(
            rewrite_foreign("[BYOK:team-key]", |_| false).as_deref(),
            Some("[REDACTED:placeholder]")
        );
    }
}
