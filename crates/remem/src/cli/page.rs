//! Help as pages: the groups of `remem --help`, the manual page, and docs/cli.md.

use super::RememCli;
use crate::output::UsageError;
use anyhow::Context;
use clap::{Args, Command, CommandFactory, ValueEnum, ValueHint};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The groups of commands, in the order of `remem --help`. A test holds them against the commands.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "Entries",
        &[
            "put", "get", "list", "search", "recall", "delete", "memories", "stats",
        ],
    ),
    ("Reminders", &["commitment", "heartbeat"]),
    (
        "Workshop memory",
        &[
            "history",
            "retract",
            "session",
            "link",
            "audit",
            "retention",
            "rule",
            "profile",
        ],
    ),
    (
        "Erasure and origin",
        &["forget", "erasure", "lineage", "archive"],
    ),
    ("Agents", &["agent", "proposal", "automation", "mcp"]),
    ("Keys and tenants", &["whoami", "key", "secret", "tenant"]),
    (
        "Host",
        &[
            "serve", "migrate", "doctor", "config", "events", "pass", "vacuum", "model",
        ],
    ),
    (
        "Files and shell",
        &[
            "import",
            "export",
            "copy",
            "redact",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The exit codes of every command.
pub const EXIT_CODES: [(u8, &str); 8] = [
    (0, "success"),
    (1, "failure not listed below"),
    (
        2,
        "wrong usage: an unknown option, or a value that it cannot take",
    ),
    (3, "not found"),
    (4, "refused by the server as invalid or conflicting"),
    (5, "API key missing, unknown, or without the needed scope"),
    (6, "server unreachable or busy; retry later"),
    (7, "done, but something was left out, as the output says"),
];

/// The arguments of `remem man`, which prints a manual page.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  remem man | man -l -\n  remem man key create | man -l -\n  \
    remem man --dir ~/.local/share/man/man1"
)]
pub struct Man {
    /// Command whose page to print [default: the page of remem]
    pub command: Vec<String>,
    /// Folder to write the pages of all commands to, instead of printing one
    #[arg(long, conflicts_with = "command", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
    /// Format of the page
    #[arg(long, value_enum, default_value_t = Format::Roff, conflicts_with = "dir")]
    pub format: Format,
}

/// Formats of the manual page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For man(1)
    Roff,
    /// The reference of all commands, docs/cli.md
    Markdown,
}

/// The command line with its groups.
pub fn command() -> Command {
    let command = RememCli::command();
    let styles = command.get_styles();
    let header = styles.get_header();
    let literal = styles.get_literal();
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in GROUPS {
        // Writing to a string does not fail.
        let _ = write!(text, "\n{header}{heading}:{header:#}\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map_or_else(
                || "Print the help of a command".to_owned(),
                ToString::to_string,
            );
            let _ = writeln!(text, "  {literal}{name:<12}{literal:#} {about}");
        }
    }
    let _ = write!(
        text,
        "\n{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    let mut after = format!("{header}Exit codes:{header:#}\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(after, "  {literal}{code}{literal:#}  {meaning}");
    }
    after.push_str("\nStart with `remem serve`, then `remem put agent-1 Ana prefers tea`.");
    command.help_template(text).after_help(after)
}

/// The manual page of a command for man(1); of the program without one.
pub fn roff(path: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut root = for_man();
    root.build();
    let mut command = &root;
    for name in path {
        command = command
            .find_subcommand(name)
            .ok_or_else(|| UsageError(format!("no command `remem {}`", path.join(" "))))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// Writes the manual pages of all commands.
pub fn write_pages(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(for_man(), folder))
        .with_context(|| format!("cannot write to {}", folder.display()))
}

/// The command line with the exit codes and without the groups: a manual page has a form of its own.
fn for_man() -> Command {
    RememCli::command().after_help(command().get_after_help().cloned().unwrap_or_default())
}

/// The reference of all commands as Markdown: docs/cli.md.
pub fn markdown() -> String {
    let mut root = command();
    root.build();
    let mut text = "# Command line\n\n\
        Reference of every command, made by `remem man --format markdown`. `remem COMMAND --help` \
        prints the same.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n"
        .to_owned();
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    text.push_str(
        "\nWith `--json`, an error is one line of JSON on standard error: \
         `{\"error\": CODE, \"message\": TEXT, \"details\": {…}}`.\n\n\
         ## Durations\n\nEvery option that takes a duration takes `90s`, `15m`, `12h`, `7d`, `2w` \
         and sums such as `1h30m`, or ISO 8601: `PT90S`, `P7D`.\n\n## Global options\n\n\
         Every command takes these.\n\n",
    );
    let globals = root.get_arguments().filter(|arg| arg.is_global_set());
    text.push_str(&rows(globals));
    for (heading, names) in GROUPS {
        let _ = write!(text, "\n## {heading}\n");
        for name in names.iter().filter(|name| **name != "help") {
            if let Some(command) = root.find_subcommand(name) {
                section(&mut text, command, "###");
            }
        }
    }
    text
}

/// The section of a command, and those of its own commands.
fn section(text: &mut String, command: &Command, level: &str) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = write!(text, "\n{level} {name}\n\n{about}.\n");
    let own: Vec<&Command> = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
        .collect();
    if own.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        let _ = write!(text, "\n```text\n{usage}\n```\n");
    }
    let hidden = |arg: &&clap::Arg| !arg.is_global_set() && arg.get_id() != "help";
    let rows = rows(command.get_arguments().filter(hidden));
    if !rows.is_empty() {
        let _ = write!(text, "\n{rows}");
    }
    if let Some(more) = command.get_after_help() {
        let _ = write!(text, "\n{}", examples(&more.to_string()));
    }
    for one in own {
        section(text, one, &format!("{level}#"));
    }
}

/// Paragraphs as they are; lines that are set in are code.
fn examples(text: &str) -> String {
    let mut made = String::new();
    let mut is_code = false;
    for line in text.lines() {
        let sets_in = line.starts_with("  ");
        if sets_in != is_code {
            made.push_str(if sets_in { "\n```text\n" } else { "```\n" });
            is_code = sets_in;
        }
        made.push_str(line.trim_start());
        made.push('\n');
    }
    if is_code {
        made.push_str("```\n");
    }
    made
}

/// A table of arguments; nothing without any.
fn rows<'a>(arguments: impl Iterator<Item = &'a clap::Arg>) -> String {
    let mut text = String::new();
    for arg in arguments.filter(|arg| !arg.is_hide_set()) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let mut help = help.replace('|', "\\|");
        let possible: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|_| arg.get_action().takes_values())
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if !possible.is_empty() {
            let _ = write!(help, ". One of {}", possible.join(", "));
        }
        let defaults: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .filter(|value| !value.is_empty())
            .collect();
        if !defaults.is_empty() && arg.get_action().takes_values() {
            let _ = write!(help, " [default: {}]", defaults.join(","));
        }
        if let Some(variable) = arg.get_env() {
            let _ = write!(help, " (`{}`)", variable.to_string_lossy());
        }
        let _ = writeln!(text, "| `{}` | {help} |", shown(arg));
    }
    if text.is_empty() {
        return text;
    }
    format!("| argument | meaning |\n|---|---|\n{text}")
}

/// An argument as it is typed, with its short form first.
fn shown(arg: &clap::Arg) -> String {
    let long = arg.to_string();
    match arg.get_short() {
        Some(short) if arg.get_long().is_some() => format!("-{short}, {long}"),
        _ => long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_exactly_one_help_group() {
        let mut root = command();
        root.build();
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        let mut all: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
        listed.sort_unstable();
        all.sort_unstable();
        assert_eq!(listed, all);
    }

    #[test]
    fn help_begins_with_groups_and_ends_with_exit_codes() {
        let help = command().render_help().to_string();
        let places = [
            "Entries:\n  put ",
            "Host:\n  serve ",
            "Options:\n",
            "Exit codes:\n  0  success",
        ]
        .map(|text| help.find(text).unwrap_or_else(|| panic!("{text}: {help}")));
        assert!(places.is_sorted(), "{help}");
        let wide = help.lines().filter(|line| line.chars().count() > 100);
        assert_eq!(wide.collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn a_commands_own_options_come_before_the_global_ones() {
        let mut root = command();
        root.build();
        let put = root.find_subcommand_mut("put").unwrap();
        let help = put.render_help().to_string();
        let own = help.find("--ttl").unwrap();
        let global = help.find("Global options:").unwrap();
        assert!(
            own < global && global < help.find("--json").unwrap(),
            "{help}"
        );
    }

    #[test]
    fn the_cli_reference_in_the_docs_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        let there = std::fs::read_to_string(file).unwrap_or_default();
        assert!(
            there == markdown(),
            "docs/cli.md is not current; write it anew with\n  \
             cargo run -p remem -- man --format markdown > docs/cli.md"
        );
    }

    #[test]
    fn the_manual_page_names_every_command() {
        let page = String::from_utf8(roff(&[]).unwrap()).unwrap();
        for (_, names) in GROUPS {
            for name in names {
                let named = page.contains(&format!("remem\\-{name}(1)"));
                assert!(named || *name == "help", "{name}: {page}");
            }
        }
        assert!(
            page.contains(".SH EXTRA") && page.contains("Exit codes"),
            "{page}"
        );
    }
}
