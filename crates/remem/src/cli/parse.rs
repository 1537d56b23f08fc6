//! From the arguments of the process to a command, or to a refusal.

use super::{RememCli, Typed, command};
use crate::output;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Error, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;

/// Where `remem eval` went.
const EVAL_MOVED: &str = "`remem eval` is now a program of its own; in the source tree, run: \
                          cargo run --release -p remem-eval -- recall --dataset FILE";

/// Reads a command line.
pub fn parse(arguments: Vec<OsString>) -> Result<(RememCli, Typed), Error> {
    let matches = command()
        .try_get_matches_from(&arguments)
        .map_err(|error| {
            if error.kind() == ErrorKind::InvalidSubcommand && names_eval(&error) {
                return command().error(ErrorKind::InvalidSubcommand, EVAL_MOVED);
            }
            error
        })?;
    let mut cli = RememCli::from_arg_matches(&matches)?;
    if cli.global.local {
        if matches.value_source("url") == Some(ValueSource::CommandLine) {
            let both = "the argument '--local' cannot be used with '--url <URL>'";
            return Err(command().error(ErrorKind::ArgumentConflict, both));
        }
        // One of the environment is for everyday commands; who types --local means the store.
        cli.global.url = None;
    }
    Ok((cli, Typed::new(&command(), &matches)))
}

fn names_eval(error: &Error) -> bool {
    let typed = error.get(clap::error::ContextKind::InvalidSubcommand);
    typed.is_some_and(|typed| typed.to_string() == "eval")
}

/// Whether errors are to be JSON, found without a parsed command line.
pub fn wants_json(arguments: &[OsString]) -> bool {
    let mut options = arguments.iter().take_while(|text| *text != "--");
    options.any(|text| text == "--json")
}

/// Prints a refusal, or the help that was asked for; answers the exit code.
pub fn refuse(error: &Error, json: bool) -> ExitCode {
    if error.use_stderr() && json {
        let text = error.render().to_string();
        let message = text.split("\n\nUsage:").next().unwrap_or(&text);
        let message = message
            .split("\n\nFor more information")
            .next()
            .unwrap_or(message);
        output::print_error_json("usage", message.trim_start_matches("error: ").trim(), None);
        return ExitCode::from(output::USAGE);
    }
    // A closed pipe is the reader's right.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(output::USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(RememCli, Typed), Error> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    #[test]
    fn the_clap_definition_of_the_command_line_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn removed_eval_commands_point_to_remem_eval() {
        for line in [
            "remem eval",
            "remem eval --help",
            "remem eval recall --help",
            "remem eval recall --dataset x --ablation --report r.md",
            "remem --json eval recall --k 0 --unknown",
        ] {
            let error = read(line).map(|_| line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
            let text = error.to_string();
            let command = "cargo run --release -p remem-eval -- recall --dataset FILE";
            assert!(text.contains(command), "{text}");
        }
    }

    #[test]
    fn eval_is_neither_in_help_nor_in_completions() {
        let mut script = Vec::new();
        clap_complete::generate(
            clap_complete::Shell::Bash,
            &mut command(),
            "remem",
            &mut script,
        );
        let script = String::from_utf8(script).unwrap();
        assert!(
            script.contains("doctor") && !script.contains("eval\n"),
            "{script}"
        );
        assert!(!script.contains("remem__eval") && !script.contains("subcmd__eval"));
        assert!(!command().render_help().to_string().contains("\n  eval"));
    }

    #[test]
    fn local_conflicts_with_the_url_option_and_leaves_no_url() {
        let refused = read("remem --local --url http://h memories")
            .map(|_| ())
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ArgumentConflict);
        assert!(
            read("remem --local memories")
                .unwrap()
                .0
                .global
                .url
                .is_none()
        );
    }
}
