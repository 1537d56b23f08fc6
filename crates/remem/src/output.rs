//! The output of commands for people and scripts: tables, JSON lines and exit codes.

mod width;

use crate::cli::GlobalArgs;
use comfy_table::{ContentArrangement, Table, presets};
use remem_core::sabotage;
use remem_wire::Failure;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use width::{Last, Sheet, fit, terminal_width};

/// Prints a value as one line of JSON.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}

/// Prints rows under a heading, or the sentence `nothing` if there are none.
pub fn table(heading: &[&str], rows: Vec<Vec<String>>, nothing: &str) {
    show(heading, rows, nothing, Last::Cut);
}

/// The same for rows whose last column has to be read whole: it is wrapped rather than cut.
pub fn table_of_details(heading: &[&str], rows: Vec<Vec<String>>, nothing: &str) {
    show(heading, rows, nothing, Last::Wrap);
}

fn show(heading: &[&str], rows: Vec<Vec<String>>, nothing: &str, last: Last) {
    if rows.is_empty() {
        println!("{nothing}");
        return;
    }
    let heading = heading.iter().map(|name| (*name).to_owned()).collect();
    let sheet = Sheet { heading, rows };
    let (sheet, left_out) = match terminal_width() {
        Some(width) => fit(sheet, width, last),
        None => (sheet, Vec::new()),
    };
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(sheet.heading);
    for row in sheet.rows {
        table.add_row(row);
    }
    println!("{}", table.trim_fmt());
    if !left_out.is_empty() {
        eprintln!(
            "(not shown, for want of width: {}; --json shows all)",
            left_out.join(", ")
        );
    }
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
pub fn escape_controls(text: &str) -> String {
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

/// The exit code of a wrong usage.
pub const USAGE: u8 = 2;

/// The exit code by which a script recognises the error; the table is in `cli::page`.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<UsageError>() || error.is::<TenantMismatch>() {
        return USAGE;
    }
    if error.is::<MissingKey>() {
        return 5;
    }
    if error.is::<IncompleteResult>() {
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

/// Prints the error of a command, as text or as JSON.
pub fn print_error(error: &anyhow::Error, json: bool) {
    if !json {
        eprintln!("error: {error:#}");
        return;
    }
    let Some(failure) = error.downcast_ref::<Failure>() else {
        let code = match exit_code(error) {
            USAGE => "usage",
            5 => "no_key",
            7 => "left_out",
            _ => "failed",
        };
        return print_error_json(code, &format!("{error:#}"), None);
    };
    let body = &failure.body;
    // The text before it says where it happened, such as a line of a file.
    let text = format!("{error:#}");
    let text = text.strip_suffix(&format!(" ({})", body.error));
    let message = text.unwrap_or(&body.message);
    print_error_json(&body.error, message, body.details.as_ref());
}

/// Prints an error as one line of JSON.
pub fn print_error_json(code: &str, message: &str, details: Option<&Map<String, Value>>) {
    let mut line = json!({"error": code, "message": message});
    if let Some(details) = details {
        line["details"] = json!(details);
    }
    eprintln!("{line}");
}

/// Prints a warning, as text or as JSON.
pub fn warn(global: &GlobalArgs, text: &str) {
    if global.json {
        eprintln!("{}", json!({"warning": text}));
    } else {
        eprintln!("warning: {text}");
    }
}

/// A count with its noun: "1 entry", "2 entries".
pub fn count(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{number} {noun}")
}

/// Whether an error says that the reader of a pipe has gone, which is its right.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let closed = |error: &std::io::Error| error.kind() == ErrorKind::BrokenPipe;
    error
        .chain()
        .any(|cause| cause.downcast_ref().is_some_and(closed))
}

/// Writes to standard output; ends the program quietly if the reader has closed it, as `head` does
/// when it has enough. The library's `print!` and `println!` go here.
pub fn write(text: std::fmt::Arguments<'_>) {
    match std::io::stdout().lock().write_fmt(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        // A full disk, say: a command that could not print its answer has failed.
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            std::process::exit(1)
        }
        Ok(()) => {}
    }
}

/// Writes to standard error; a failure cannot be reported anywhere, so it is ignored.
pub fn write_error(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}

/// A command line that was parsed and still cannot be carried out; says what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// A command did everything that it could, but left something out, as the counts that it printed
/// show.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IncompleteResult(pub &'static str);

/// The key in use belongs to another tenant than the one that was named.
#[derive(Debug, thiserror::Error)]
#[error(
    "the key belongs to another tenant than --tenant (or REMEM_TENANT) names; nothing was done. \
     `remem whoami` without --tenant shows which; use a key of that tenant, or omit --tenant"
)]
pub struct TenantMismatch;

/// No API key was given, and the file with the first key cannot be read.
#[derive(Debug)]
pub struct MissingKey(pub PathBuf);

impl std::fmt::Display for MissingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.0.display();
        write!(
            f,
            "no API key: cannot read {file}. Start a server in this folder with `remem serve`, pass \
             --key or set REMEM_KEY, or add --local to open the embedded store without a server"
        )
    }
}

impl std::error::Error for MissingKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_removed_or_escaped() {
        for bad in [
            '\u{1b}', '\u{9b}', '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}',
            '\u{2066}', '\u{2069}',
        ] {
            let text = format!("a{bad}b");
            assert_eq!(preview(&text, 9), "a b");
            assert!(!escape_controls(&text).contains(bad), "{bad:?}");
        }
        assert_eq!(escape_controls("שלום\n\tمرحبا ‍"), "שלום\n\tمرحبا ‍");
    }
}
