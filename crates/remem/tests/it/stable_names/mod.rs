//! Proves that names which are stored or sent stay: what release 0.1.0 called a column, a kind of
//! record or event, an error code, an operation, a field, a tool, a setting, a variable, a metric,
//! a command or an option is called that today.
//!
//! `0.1.0.txt` holds the names of that release by class. `removed.tsv` holds the few that have gone
//! since, each with the words of the CHANGELOG that say so. `collect.rs` finds today's names;
//! `REMEM_TEST_WRITE_NAMES=FILE` writes them down in the form of the list, for a later release.

mod collect;
mod document;

use collect::{COLUMNS, COMMANDS, FIELDS, NamesByClass, OPERATIONS, PAYLOADS, SETTINGS, TOOLS};
use std::fmt::Write;

const LIST: &str = include_str!("0.1.0.txt");
const REMOVED: &str = include_str!("removed.tsv");
const CHANGELOG: &str = include_str!("../../../../../CHANGELOG.md");

/// The number of names in the list: a name removed from it would not be missed otherwise.
const LISTED: usize = 3_204;

/// Names that have gone on purpose.
struct Removed {
    class: String,
    /// A name, or the beginning of several if it ends with `*`.
    name: String,
    /// The operation that took its place, if one did: fields are then looked for there.
    now: Option<String>,
    /// Words of the CHANGELOG that say so.
    changelog: String,
}

impl Removed {
    /// Reads a row; lines that begin with `#` are comments.
    fn rows() -> Vec<Removed> {
        let rows = REMOVED.lines().filter(|line| !line.starts_with('#'));
        rows.map(|line| {
            let [class, name, now, changelog] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("a row of removed.tsv has four fields: {line}")
            };
            Removed {
                class: class.to_owned(),
                name: name.to_owned(),
                now: Some(now.to_owned()).filter(|now| now != "-"),
                changelog: changelog.to_owned(),
            }
        })
        .collect()
    }

    /// Fails if the row is wrong: it would hide the next name that goes.
    fn check(&self, listed: &NamesByClass, today: &NamesByClass) {
        let names = listed.get(&self.class).into_iter().flatten();
        let covered = names.filter(|name| self.covers(&self.class, name));
        let is_absent = |name: &&String| !today[&self.class].contains(*name);
        let (absent, present): (Vec<_>, Vec<_>) = covered.partition(is_absent);
        assert!(
            present.is_empty(),
            "listed as removed and still there: {present:?}"
        );
        assert!(!absent.is_empty(), "0.1.0 did not have {}", self.name);
        if let Some(now) = &self.now {
            assert!(today[OPERATIONS].contains(now), "{now} is not there");
        }
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words(CHANGELOG).contains(&words(&self.changelog)),
            "the CHANGELOG does not say: {}",
            self.changelog
        );
    }

    fn covers(&self, class: &str, name: &str) -> bool {
        let named = self
            .name
            .strip_suffix('*')
            .map_or(name == self.name, |beginning| name.starts_with(beginning));
        self.class == class && named
    }
}

/// Reads the list: `[class]`, then names, or `beginning: end end …` for names that begin alike.
fn first_release() -> NamesByClass {
    let mut names = NamesByClass::new();
    let mut class = "";
    for line in LIST.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            class = name.strip_suffix(']').unwrap();
        } else if let Some((beginning, ends)) = line.split_once(": ") {
            let ends = ends.split(' ').map(|end| format!("{beginning} {end}"));
            names.entry(class.to_owned()).or_default().extend(ends);
        } else {
            let names = names.entry(class.to_owned()).or_default();
            names.insert(line.to_owned());
        }
    }
    names
}

/// Writes names in the form of the list.
fn list(names: &NamesByClass) -> String {
    let mut text = String::new();
    for (class, names) in names {
        let _ = write!(text, "\n[{class}]");
        let mut beginning = None;
        let mut length = 0;
        for name in names {
            // An operation is one name, and a command is one of its own.
            let alike = [COLUMNS, COMMANDS, FIELDS, PAYLOADS, TOOLS].contains(&class.as_str());
            let split = name.rsplit_once(' ').filter(|_| alike);
            let Some((start, end)) = split else {
                beginning = None;
                let _ = write!(text, "\n{name}");
                continue;
            };
            if beginning != Some(start) || length + end.len() >= 100 {
                let _ = write!(text, "\n{start}:");
                beginning = Some(start);
                length = start.len() + 1;
            }
            let _ = write!(text, " {end}");
            length += end.len() + 1;
        }
        text.push('\n');
    }
    text
}

/// Whether a name of the list is there, under its own name or, for a field of an operation that
/// has moved, at the operation's new place.
fn is_present(class: &str, name: &str, today: &NamesByClass, removed: &[Removed]) -> bool {
    let there = |name: &str| today.get(class).is_some_and(|names| names.contains(name));
    let moved = || {
        removed.iter().any(|row| {
            let Some(now) = &row.now else { return false };
            let rest = name.strip_prefix(row.name.as_str());
            let rest = rest.filter(|rest| class == FIELDS && rest.starts_with(' '));
            row.class == OPERATIONS && rest.is_some_and(|rest| there(&format!("{now}{rest}")))
        })
    };
    there(name) || class == SETTINGS && collect::accepts_setting(name) || moved()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_of_the_first_release_is_present_or_in_the_changelog() {
    let today = collect::today().await;
    if let Some(file) = std::env::var_os("REMEM_TEST_WRITE_NAMES") {
        std::fs::write(file, list(&today)).unwrap();
    }
    let removed = Removed::rows();
    let listed = first_release();
    let count: usize = listed.values().map(|names| names.len()).sum();
    assert_eq!(count, LISTED, "the list of 0.1.0's names was edited");
    for row in &removed {
        row.check(&listed, &today);
    }
    let mut missing = Vec::new();
    for (class, names) in &listed {
        for name in names {
            if class == COLUMNS && name.starts_with("postgres ") && !collect::has_postgres() {
                continue;
            }
            let is_listed = removed.iter().any(|row| row.covers(class, name));
            if !is_listed && !is_present(class, name, &today, &removed) {
                missing.push(format!("[{class}] {name}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "{} names of 0.1.0 have gone; let the old spelling go on working, or tell users in the \
         CHANGELOG and list them in removed.tsv:\n{}",
        missing.len(),
        missing.join("\n")
    );
}
