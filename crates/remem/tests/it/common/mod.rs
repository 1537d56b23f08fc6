//! The set-up that the black-box tests share: the real binary as a server or a command, a small
//! JSON client, and the files it keeps.
//!
//! Nothing here knows the product's code: everything goes through the command line, HTTP on the
//! loopback and the disk.

#![allow(dead_code, reason = "every test file uses its own part of this")]

pub mod books;
pub mod client;
pub mod files;
pub mod place;
pub mod user;

pub use client::Client;
pub use place::remem_on;

use remem_testkit::deadline;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The first key of the tenant `default` in every test.
pub const KEY: &str = "bootstrap-key-for-black-box-tests";

/// The binary, free of settings that the surroundings may carry.
pub fn remem() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_remem"));
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REMEM_"))
    {
        command.env_remove(name);
    }
    command
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
        .env("NO_COLOR", "1");
    command
}

/// A running server; killed when dropped.
pub struct ServerProcess {
    child: Child,
    pub url: String,
    /// From the start of the process to its greeting.
    pub greeted_after: Duration,
    output: Arc<Mutex<Vec<u8>>>,
}

impl ServerProcess {
    /// On a data directory, with nothing special.
    pub fn start(dir: &Path) -> ServerProcess {
        ServerProcess::start_with(dir, &[], &[])
    }

    /// With further arguments of `serve` and environment variables.
    pub fn start_with(
        dir: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> ServerProcess {
        let begun = Instant::now();
        let mut server = ServerProcess::spawn(dir, arguments, environment);
        let lines = server.listen_to_output();
        let greeting = loop {
            match lines.recv_timeout(deadline()) {
                Ok(line) if line.contains(" is ready at http://") => break line,
                Ok(_) => {}
                Err(_) => panic!("the server did not greet: {}", server.output()),
            }
        };
        server.greeted_after = begun.elapsed();
        assert!(greeting.starts_with("Remembrancer "), "{greeting}");
        server.url = greeting.split(' ').next_back().unwrap().trim().to_owned();
        server
    }

    /// Starts the process and waits for nothing.
    pub fn spawn(dir: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> ServerProcess {
        let mut command = remem_on(dir);
        command
            .arg("serve")
            .args(["--listen", "127.0.0.1:0"])
            .args(arguments);
        command.env("REMEM_BOOTSTRAP_KEY", KEY);
        for (name, value) in environment {
            // An empty value takes a variable away.
            if value.is_empty() {
                command.env_remove(name)
            } else {
                command.env(name, value)
            };
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = command.spawn().expect("the server starts");
        ServerProcess {
            child,
            url: String::new(),
            greeted_after: Duration::ZERO,
            output: Arc::default(),
        }
    }

    /// Keeps both outputs as they come, so that the server never waits for a reader; gives the
    /// lines of standard output.
    fn listen_to_output(&mut self) -> Receiver<String> {
        let (send, lines) = channel();
        let stdout = self.child.stdout.take().unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        let first = self.output.clone();
        let second = self.output.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                first.lock().unwrap().extend(format!("{line}\n").bytes());
                // The greeting has been read, and no test waits for further lines.
                let _ = send.send(line);
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                second.lock().unwrap().extend(&buffer[..read]);
            }
        });
        lines
    }

    /// Returns everything that it wrote to standard output and standard error so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// A client with the first key.
    pub fn client(&self) -> Client {
        Client::new(&self.url, KEY)
    }

    /// Kills the server without a warning (SIGKILL).
    pub fn kill9(&mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
    }

    /// Sends it a signal (`TERM`, `INT`) and does not wait.
    pub fn signal(&self, name: &str) {
        let asked = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.child.id()))
            .status();
        assert!(
            asked.expect("a shell is there").success(),
            "the process is there to be asked"
        );
    }

    /// Waits for its end, for at most `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().expect("the process can be asked") {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it in an orderly way and requires that it says so.
    pub fn terminate(&mut self) {
        self.signal("TERM");
        let status = self.wait(deadline());
        assert!(
            status.is_some_and(|s| s.success()),
            "ended with {status:?}: {}",
            self.output()
        );
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let status = self.child.try_wait();
            let output = self.output();
            let skipped = output.lines().count().saturating_sub(20);
            eprintln!(
                "the server ({status:?}) said: {}",
                output.lines().skip(skipped).collect::<Vec<_>>().join("\n")
            );
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The exit status and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    /// Requires an exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> CommandOutput {
        assert_eq!(
            self.code, code,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// Standard output as JSON lines.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<serde_json::Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// Runs a command to its end with nothing to read.
pub fn run(command: &mut Command) -> CommandOutput {
    run_with_input(command, "")
}

/// Runs a command to its end with this standard input.
pub fn run_with_input(command: &mut Command, input: &str) -> CommandOutput {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A command that ends without reading closes the pipe, which is its right.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the command ends");
    feeder.join().unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `remem --data-dir DIR ARGUMENTS`.
pub fn run_on(dir: &Path, arguments: &[&str]) -> CommandOutput {
    run(remem_on(dir).args(arguments))
}
