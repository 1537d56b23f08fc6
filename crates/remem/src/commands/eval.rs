//! `remem eval`: evaluations are in the program `remem-eval`; the command says so and fails.

use crate::output::WrongUsage;

const MOVED: &str = "`remem eval` is now a program of its own; in the source tree, run: \
                     cargo run --release -p remem-eval -- recall --dataset FILE";

/// Fails with a usage error that names the command to run instead.
pub fn run() -> anyhow::Result<()> {
    Err(WrongUsage(MOVED).into())
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use crate::commands;
    use crate::output::exit_code;
    use clap::{CommandFactory, Parser};

    #[tokio::test]
    async fn every_old_command_line_is_told_where_evaluations_are() {
        for line in [
            "remem eval",
            "remem eval --help",
            "remem eval recall --help",
            "remem eval recall --dataset x --ablation --report r.md",
            "remem --json eval recall --k 0 --unknown",
        ] {
            let parsed = Cli::try_parse_from(line.split(' '));
            let cli = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
            let error = commands::run(cli).await.unwrap_err();
            assert_eq!(exit_code(&error), 2, "{line}");
            let text = format!("{error:#}");
            let command = "cargo run --release -p remem-eval -- recall --dataset FILE";
            assert!(text.ends_with(command), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    #[test]
    fn help_does_not_list_it() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains("\n  doctor"), "{help}");
        assert!(!help.contains("\n  eval"), "{help}");
    }
}
