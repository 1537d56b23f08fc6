//! Runs the program `remem-eval` and captures its output.

use std::process::{Command, Stdio};

/// The program, without any settings from the environment.
pub fn remem_eval() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remem-eval"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("REMEM_") {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1");
    command
}

/// The output of a finished program, and its exit code.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Requires an exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ran {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// Runs a program to its end, with nothing on its standard input.
pub fn run(command: &mut Command) -> Ran {
    let output = command
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
