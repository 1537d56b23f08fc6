//! Words: names and comments are in the plain English of databases, HTTP and search.
//!
//! Fails on identifiers that hold a retired word, on type names that stand for more than two
//! things, and on doc comments of three words or fewer. May not look at strings: what is stored
//! or sent keeps its words.

use crate::files::tracked;
use regex::Regex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// Words that were tried as names and that needed an explanation.
const RETIRED: [&str; 27] = [
    "bell",
    "desk",
    "door",
    "doors",
    "innocent",
    "kin",
    "lawless",
    "meddler",
    "meddlers",
    "mirror",
    "mirrors",
    "rung",
    "shelf",
    "shelves",
    "sight",
    "told",
    "unlearn",
    "unpost",
    "unsign",
    "unsubject",
    "untag",
    "untie",
    "retie",
    "worth",
    "worthy",
    "riddle",
    "ballad",
];
/// Phrases of several words, as they appear in an identifier.
const RETIRED_PHRASES: [&str; 6] = [
    "go_on",
    "in_truth",
    "let_go",
    "own_words",
    "take_away",
    "take_up",
];
/// Identifiers that are stored or sent under this name.
const STORED: [&str; 3] = ["non_mirror", "nonMirror", "non_mirror_violation"];
/// Command lines: their doc comments are help texts, which may be short.
const HELP_TEXTS: [&str; 5] = [
    "bench/src/compare/",
    "bench/src/main.rs",
    "crates/remem-eval/src/cli.rs",
    "crates/remem/src/cli.rs",
    "crates/remem/src/cli/",
];
/// How many types may have the same name.
const TYPES_OF_A_NAME_MAX: usize = 2;
/// How few words are too few for a doc comment.
const SHORT_WORDS: usize = 3;

/// Compiles a pattern when it is first used, and once.
macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("a constant pattern"));
    };
}

pattern!(COMMENT, r"//.*$");
pattern!(STRING, r#"b?r?"(?:[^"\\]|\\.)*""#);
pattern!(WORD, r"[A-Z]?[a-z]+|[A-Z]+(?:\b|_)|[A-Z]+|\d+");
pattern!(IDENTIFIER, r"\b[A-Za-z_]\w*");
// An associated type is inside an `impl` or a `trait`, whose name for it is fixed.
pattern!(
    DECLARED,
    r"^(?:\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|union|trait)|(?:pub(?:\([^)]*\))? )?type) (\w+)"
);

pub fn check(root: &Path) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in tracked(root) {
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        if !name.ends_with(".rs") || name.ends_with("xtask/src/words.rs") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let code = code(&text);
        breaches.extend(retired(&name, &code));
        if !HELP_TEXTS.iter().any(|place| name.starts_with(place)) {
            breaches.extend(short_comments(&name, &text));
        }
        for (line, declared) in type_names(&code) {
            let place = format!("{name}:{line}");
            types.entry(declared).or_default().push(place);
        }
    }
    breaches.extend(overused(&types));
    breaches
}

/// The source without comments and the contents of strings, line by line.
fn code(text: &str) -> Vec<String> {
    let bare = |line: &str| {
        let line = line.replace("'\"'", "' '").replace("b'\\\"'", "b' '");
        let without_strings = STRING.replace_all(&line, "\"\"");
        COMMENT.replace(&without_strings, "").into_owned()
    };
    let mut lines: Vec<String> = Vec::new();
    let mut in_raw = None::<&str>;
    let mut in_string = false;
    for line in text.lines() {
        // A raw string or an ordinary one may continue for several lines.
        if let Some(end) = in_raw {
            if line.contains(end) {
                in_raw = None;
            }
            lines.push(String::new());
            continue;
        }
        let mut line = bare(line);
        if in_string {
            match line.find('"') {
                Some(end) if !line[..end].ends_with('\\') => {
                    line = line.split_off(end + 1);
                    in_string = false;
                }
                _ => line.clear(),
            }
        }
        if line.contains("r#\"") && !line.contains("\"#") {
            in_raw = Some("\"#");
            line.truncate(line.find("r#\"").unwrap_or(0));
        } else if let Some(at) = line.replace("\"\"", "  ").find('"') {
            line.truncate(at);
            in_string = true;
        }
        lines.push(line);
    }
    lines
}

/// An identifier in its words, in lower case: `EntryId2` and `entry_id_2` are `entry`, `id`, `2`.
fn words(identifier: &str) -> Vec<String> {
    WORD.find_iter(identifier)
        .map(|found| found.as_str().trim_matches('_').to_lowercase())
        .collect()
}

fn retired(name: &str, code: &[String]) -> Vec<String> {
    let mut breaches = Vec::new();
    for (at, line) in code.iter().enumerate() {
        for found in IDENTIFIER.find_iter(line) {
            let found = found.as_str();
            if STORED.contains(&found) {
                continue;
            }
            let words = words(found);
            let joined = words.join("_");
            let phrase = |phrase: &&str| format!("_{joined}_").contains(&format!("_{phrase}_"));
            let word = words.iter().find(|word| RETIRED.contains(&word.as_str()));
            if word.is_some() || RETIRED_PHRASES.iter().any(phrase) {
                breaches.push(format!(
                    "{name}:{}: {found}: a retired word; name it as CONTRIBUTING's words say",
                    at + 1
                ));
            }
        }
    }
    breaches
}

fn type_names(code: &[String]) -> Vec<(usize, String)> {
    code.iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at + 1, DECLARED.captures(line)?[1].to_owned())))
        .collect()
}

fn overused(types: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    types
        .iter()
        .filter(|(_, places)| places.len() > TYPES_OF_A_NAME_MAX)
        .map(|(name, places)| {
            format!(
                "{name} names {} types, at most {TYPES_OF_A_NAME_MAX} may share a name: {}",
                places.len(),
                places.join(", ")
            )
        })
        .collect()
}

/// A doc comment of one line that says no more than the name beside it.
fn short_comments(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("///"));
    let is_short = |at: usize| {
        let alone = !is_doc(at + 1) && (at == 0 || !is_doc(at - 1));
        alone && lines[at][3..].split_whitespace().count() <= SHORT_WORDS
    };
    (0..lines.len())
        .filter(|at| is_doc(*at) && is_short(*at))
        .map(|at| {
            format!(
                "{name}:{}: `{}` says too little; write a sentence or nothing",
                at + 1,
                lines[at]
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{code, retired, short_comments, type_names, words};

    fn lines(text: &str) -> Vec<String> {
        code(text)
    }

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(words("HttpDoor"), ["http", "door"]);
        assert_eq!(words("local_door_2"), ["local", "door", "2"]);
        assert_eq!(words("HTTP_DOOR"), ["http", "door"]);
    }

    #[test]
    fn retired_words_are_breaches_only_in_code() {
        let breach = |text: &str| retired("f.rs", &lines(text)).len();
        assert_eq!(breach("let door = 1;"), 1);
        assert_eq!(breach("fn go_on() {}"), 1);
        assert_eq!(breach("fn going_on() {}"), 0);
        assert_eq!(breach("let x = \"door\"; // the door"), 0);
        assert_eq!(breach("let x = \"a\n  door\";"), 0);
        assert_eq!(breach("let x = r#\"a\n door\n\"#;"), 0);
        assert_eq!(breach("let indoors = non_mirror;"), 0);
        assert_eq!(breach("fn a_caller_is_told_what_is_missing() {}"), 1);
    }

    #[test]
    fn associated_types_are_not_counted() {
        let found = type_names(&lines(
            "pub(crate) struct A;\n    enum B {}\ntype C = u8;\nimpl X for A {\n    type D = u8;\n}",
        ));
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["A", "B", "C"]);
    }

    #[test]
    fn a_comment_of_three_words_is_too_short() {
        let breach = |text: &str| short_comments("f.rs", text).len();
        assert_eq!(breach("/// Its own name.\nname: u8"), 1);
        assert_eq!(breach("/// The name of the pass.\nname: u8"), 0);
        assert_eq!(breach("/// Two\n/// lines.\nname: u8"), 0);
    }
}
