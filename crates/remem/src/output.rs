//! The output of commands for people and scripts: tables, JSON lines and exit codes.

use comfy_table::{ContentArrangement, Table, presets};
use remem_core::sabotage;
use remem_wire::Failure;
use serde::Serialize;
use std::path::PathBuf;

/// Prints a value as one line of JSON.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// Prints rows under a heading, or the sentence `nothing` if there are none.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>, nothing: &str) {
    if rows.is_empty() {
        println!("{nothing}");
        return;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(heading.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    println!("{}", table.trim_fmt());
}

/// Returns whether a character could control a terminal: a control character, or one that changes
/// the direction of the text after it, so that a line reads other than it is.
fn is_terminal_control(c: char) -> bool {
    let turns = matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    c.is_control() || sabotage!("text-turns-the-direction-of-a-terminal", turns, false)
}

/// Returns a text as one line, shortened and without control characters: a memory must not be able
/// to control a terminal.
pub fn preview(text: &str, chars: usize) -> String {
    let line: String = text
        .chars()
        .map(|c| if is_terminal_control(c) { ' ' } else { c })
        .take(chars)
        .collect();
    if text.chars().count() > chars {
        format!("{line}…")
    } else {
        line
    }
}

/// Returns a text for a terminal, with every character that could control it escaped. Line breaks
/// and tabs stay.
pub fn visible(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            if is_terminal_control(c) && c != '\n' && c != '\t' {
                c.escape_default().collect()
            } else {
                vec![c]
            }
        })
        .collect()
}

/// Returns the exit code that stands for an error in scripts.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<WrongUsage>() || error.is::<WrongTenant>() {
        return 2;
    }
    if error.is::<NoKey>() {
        return 5;
    }
    if error.is::<LeftOut>() {
        return 7;
    }
    let Some(failure) = error.downcast_ref::<Failure>() else {
        return 1;
    };
    match failure.status {
        404 | 410 => 3,
        400 | 409 | 413 | 422 => 4,
        401 | 403 => 5,
        429 | 503 | 507 => 6,
        _ => 1,
    }
}

/// A command line that was parsed but cannot be executed. The message says what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub &'static str);

/// A command did everything that it could, but left something out, as the counts that it printed
/// show.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LeftOut(pub &'static str);

/// The key in use belongs to another tenant than the one that was named.
#[derive(Debug, thiserror::Error)]
#[error(
    "the key is of another tenant than --tenant (or REMEM_TENANT) names; nothing was done. `remem whoami` \
     without --tenant shows which: give a key of the tenant, or leave --tenant out"
)]
pub struct WrongTenant;

/// No API key was given, and the file with the first key cannot be read.
#[derive(Debug)]
pub struct NoKey(pub PathBuf);

impl std::fmt::Display for NoKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.0.display();
        write!(
            f,
            "no API key: give one with --key or REMEM_KEY ({file} cannot be read), or add --local to open the embedded store directly"
        )
    }
}

impl std::error::Error for NoKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_drives_a_terminal() {
        for bad in [
            '\u{1b}', '\u{9b}', '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}',
            '\u{2066}', '\u{2069}',
        ] {
            let text = format!("a{bad}b");
            assert_eq!(preview(&text, 9), "a b");
            assert!(!visible(&text).contains(bad), "{bad:?}");
        }
        assert_eq!(visible("שלום\n\tمرحبا ‍"), "שלום\n\tمرحبا ‍");
    }
}
