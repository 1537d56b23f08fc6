//! Files: each opens with its purpose, is short enough to keep in mind, and contains nothing that
//! exists only on one machine.

use regex::Regex;
use std::path::{Path, PathBuf};

/// The most lines of a file without its tests; tables of data are exempt.
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 100;
/// Exceptions that may only become shorter: a file, or a function of it, with its present number of
/// lines. Most of them became longer when the line width was reduced.
const EXCEPTIONS: [(&str, &str, usize); 5] = [
    ("crates/remem-engine/src/archive.rs", "undo_rewrite", 102),
    ("crates/remem-engine/src/commitments/firing.rs", "fire", 113),
    (
        "crates/remem-engine/src/commitments/manage.rs",
        "build_commitment",
        101,
    ),
    ("crates/remem-server/src/api.rs", "", 720),
    ("crates/remem-wire/src/error.rs", "error_row", 172),
];
/// Pure tables, one entry after another.
const TABLES: [&str; 3] = ["lookalikes.rs", "table.rs", "cli.rs"];
/// Texts that must not be in the tree, with the reason.
const BANNED: [(&str, &str); 7] = [
    ("/wor", "k/ is a path of one machine"),
    ("../shar", "ed is not part of the project"),
    ("/ro", "ot/ is a path of one machine"),
    ("#[ign", "ore] hides a test: mend it or remove it"),
    ("<<<<", "<<< HEAD is an unfinished merge"),
    ("FIX", "ME: mend it or write it down where users look"),
    ("crates", ".io/ is a registry's host"),
];

pub fn check(root: &Path) -> Vec<String> {
    let mut breaches = Vec::new();
    for path in tracked(root) {
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        breaches.extend(banned(&name, &text));
        if name.ends_with(".rs") {
            breaches.extend(source(&name, &text));
        }
    }
    breaches
}

/// All source files, scripts and documents, wherever they are; not build outputs or downloads.
pub fn tracked(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", ".git", "node_modules", ".venv", "remem-data"]
                    .contains(&name.as_str())
                {
                    folders.push(path);
                }
            } else if [".rs", ".md", ".sql", ".toml", ".py", ".sh", ".js", ".html"]
                .iter()
                .any(|end| name.ends_with(end))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn banned(name: &str, text: &str) -> Vec<String> {
    let hit = |(head, tail): &(&str, &str)| {
        let word = format!(
            "{head}{}",
            tail.split([' ', ':']).next().unwrap_or_default()
        );
        text.contains(&word)
            .then(|| format!("{name}: {word}: {head}{tail}"))
    };
    BANNED.iter().filter_map(hit).collect()
}

fn source(name: &str, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    if !text.starts_with("//!") && !text.starts_with("#!") {
        breaches.push(format!(
            "{name}: open the file with `//!`: what it owns and may not do"
        ));
    }
    let body: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("#[cfg(test)]"))
        .collect();
    let most = line_limit(name, "", FILE_LINES_MAX);
    let lines = without_comments(&body);
    if lines > most && !is_table(name) && !is_test(name) {
        breaches.push(format!(
            "{name}: {lines} lines; split it where a part has a name (at most {most})"
        ));
    }
    if !is_test(name) {
        breaches.extend(long_functions(name, &body));
    }
    breaches.extend(packed_lets(name, text));
    breaches
}

/// Counts lines without comments, so that the limit gives no reason to shorten an explanation.
fn without_comments(lines: &[&str]) -> usize {
    let is_code = |line: &&&str| !line.trim_start().starts_with("//");
    lines.iter().filter(is_code).count()
}

fn is_table(name: &str) -> bool {
    TABLES.iter().any(|table| name.ends_with(table))
}

/// Returns true for tests, which are exempt from the limits: they run one scenario from its
/// beginning to its end, or are tables themselves.
fn is_test(name: &str) -> bool {
    name.contains("/tests")
        || name.ends_with("_tests.rs")
        || name.starts_with("crates/remem-testkit")
}

/// The limit for a file or function, or its present length if that is a known exception.
fn line_limit(file: &str, function: &str, limit: usize) -> usize {
    let known = EXCEPTIONS
        .iter()
        .find(|(of, name, _)| *of == file && *name == function);
    known.map_or(limit, |(_, _, lines)| *lines)
}

/// `let (a, b) = (x, y);` says two facts in one line.
fn packed_lets(name: &str, text: &str) -> Vec<String> {
    let packed = Regex::new(r"\blet \((?:mut )?\w+(?:, (?:mut )?\w+)+,?\)(?:: [^=]+)? = \(")
        .expect("a constant pattern");
    let breach = |(at, line): (usize, &str)| {
        let is_packed = !line.trim_start().starts_with("//") && packed.is_match(line);
        is_packed.then(|| format!("{name}:{}: write one `let` for each value", at + 1))
    };
    text.lines().enumerate().filter_map(breach).collect()
}

fn long_functions(name: &str, lines: &[&str]) -> Vec<String> {
    let head = Regex::new(r"^(\s*)(?:pub(?:\([a-z]+\))? )?(?:const )?(?:async )?fn (\w+)")
        .expect("a constant pattern");
    let mut breaches = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(found) = head.captures(line) else {
            continue;
        };
        let rest = &lines[start..];
        let opens = rest.iter().position(|l| l.ends_with('{'));
        let declared = rest.iter().position(|l| l.ends_with(';'));
        // A function of a trait may have no body.
        if declared < opens && declared.is_some() {
            continue;
        }
        let close = format!("{}}}", &found[1]);
        let end = rest.iter().position(|l| *l == close).unwrap_or(0);
        let length = without_comments(&rest[..end]);
        let most = line_limit(name, &found[2], FUNCTION_LINES_MAX);
        if length > most {
            breaches.push(format!(
                "{name}:{}: fn {} has {length} lines (at most {most})",
                start + 1,
                &found[2]
            ));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::packed_lets;

    /// The lines are composed here, so that this file does not break the rule itself.
    #[test]
    fn a_let_of_several_values_is_a_breach() {
        let breaches = |pattern: &str, value: &str| {
            let line = format!("    let {pattern} = {value}");
            packed_lets("f.rs", &line).len()
        };
        assert_eq!(breaches("(a, b)", "(1, 2);"), 1);
        assert_eq!(breaches("(mut a, b): (u8, u8)", "("), 1);
        assert_eq!(breaches("(a, b)", "pair();"), 0);
        assert_eq!(breaches("(a, b)", "*pair;"), 0);
        assert_eq!(breaches("a", "(1, 2);"), 0);
    }
}
