//! Counts the instructions of a command: by the processor's own counters through `perf stat` where
//! they work, else on the simulated processor of Valgrind's callgrind.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A tool that counts instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    Perf,
    Callgrind,
}

const EVENT: &str = "instructions:u";

impl Counter {
    /// The best tool that works on this machine; the error says why none does.
    pub fn find() -> anyhow::Result<Counter> {
        let perf = match Command::new("perf")
            .args(["stat", "-x,", "-e", EVENT, "true"])
            .output()
        {
            Ok(output) if perf_count(&text(&output)).is_some() => return Ok(Counter::Perf),
            Ok(output) => text(&output).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        match Command::new("valgrind").arg("--version").output() {
            Ok(output) if output.status.success() => Ok(Counter::Callgrind),
            Ok(output) => bail!(
                "cannot count: perf says {perf:?}, valgrind {:?}",
                text(&output)
            ),
            Err(error) => bail!("cannot count: perf says {perf:?}, valgrind: {error}"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Counter::Perf => "instructions in user mode (perf stat)",
            Counter::Callgrind => "instructions in user mode (callgrind)",
        }
    }

    /// Runs a command and counts its instructions, those of all of its threads.
    pub fn count(self, command: &Command, folder: &Path) -> anyhow::Result<u64> {
        let file = folder.join("instructions.out");
        let output = self
            .counting_command(command, &file)
            .output()
            .context("cannot count")?;
        if !output.status.success() {
            bail!("a command failed: {}", text(&output));
        }
        let counted = std::fs::read_to_string(&file)?;
        std::fs::remove_file(&file)?;
        let count = match self {
            Counter::Perf => perf_count(&counted),
            Counter::Callgrind => callgrind_count(&counted),
        };
        count.with_context(|| format!("no count in {counted:.400}"))
    }

    fn counting_command(self, command: &Command, file: &PathBuf) -> Command {
        let mut outer = match self {
            Counter::Perf => Command::new("perf"),
            Counter::Callgrind => Command::new("valgrind"),
        };
        // The environment holds only the variables of the command itself, and the path to programs.
        outer.env_clear();
        outer.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                outer.env(name, value);
            }
        }
        match self {
            Counter::Perf => {
                outer
                    .args(["stat", "-x,", "-e", EVENT, "-o"])
                    .arg(file)
                    .arg("--");
            }
            Counter::Callgrind => {
                let mut option = std::ffi::OsString::from("--callgrind-out-file=");
                option.push(file);
                outer.args(["--quiet", "--tool=callgrind"]).arg(option);
            }
        }
        outer.arg(command.get_program()).args(command.get_args());
        outer
    }
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The first field of the line with the event, if it is a number.
fn perf_count(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

fn callgrind_count(text: &str) -> Option<u64> {
    let value = |name| text.lines().find_map(|line| line.strip_prefix(name));
    value("totals:")
        .or_else(|| value("summary:"))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_counts_are_parsed_from_perf_output() {
        let text =
            "# started on Wed Nov 18 13:00:00 2026\n\n123456,,instructions:u,1000,100.00,,\n";
        assert_eq!(perf_count(text), Some(123_456));
        assert_eq!(
            perf_count("<not supported>,,instructions:u,0,100.00,,"),
            None
        );
        assert_eq!(perf_count(""), None);
    }

    #[test]
    fn instruction_counts_are_parsed_from_callgrind_output() {
        let text = "events: Ir\nsummary: 26043443\n\nfn=(1) main\n0 17\n\ntotals: 26043444\n";
        assert_eq!(callgrind_count(text), Some(26_043_444));
        assert_eq!(callgrind_count("summary: 12\n"), Some(12));
        assert_eq!(callgrind_count("events: Ir\n"), None);
    }
}
