//! A user at the command line.

use super::{CommandOutput, KEY, remem_on, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The memory that most commands of a test are about.
pub const MEMORY: &str = "agent/1";

/// A user of commands, who reaches memory through a server or through the files themselves.
pub struct User<'a> {
    pub dir: &'a Path,
    pub url: Option<&'a str>,
}

impl User<'_> {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = remem_on(self.dir);
        // A command that forgets its data directory must not find another one.
        command.current_dir(self.dir);
        match self.url {
            Some(url) => command.args(["--url", url, "--key", KEY]),
            None => command.arg("--local"),
        };
        command.args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        run(&mut self.command(arguments))
    }

    #[track_caller]
    pub fn text(&self, arguments: &[&str]) -> String {
        self.run(arguments).exits(0).stdout
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        self.run(&[&["--json"], arguments].concat()).exits(0).json()
    }

    #[track_caller]
    pub fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        self.run(&[&["--json"], arguments].concat())
            .exits(0)
            .json_lines()
    }

    #[track_caller]
    pub fn put(&self, arguments: &[&str]) -> String {
        self.json(&[&["put", MEMORY], arguments].concat())["entry"]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}
