//! The program under test: starts a server on a port of its own, runs commands against it, and
//! stops what it started.

use crate::Setup;
use crate::client::{Client, Request};
use crate::facts;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The API key of every server started here; it is valid nowhere else.
pub const KEY: &str = "benchmark-key-of-a-throwaway-host";
const READY_MAX: Duration = Duration::from_secs(30);
/// A server that upgrades a large store first is waited for this long.
const UPGRADED_MAX: Duration = Duration::from_secs(7_200);

/// A running server. Dropping it ends the process.
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    /// The time from the start of the process to the first success of `/ready`.
    pub start_up: Duration,
    /// Kept open, because a server whose output is closed could fail to write.
    _output: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a server on a data directory and waits until it is ready.
    pub fn start(setup: &Setup, data: &Path) -> anyhow::Result<ServerProcess> {
        ServerProcess::start_with(setup, data, &[])
    }

    /// The same with further options.
    pub fn start_with(
        setup: &Setup,
        data: &Path,
        options: &[&str],
    ) -> anyhow::Result<ServerProcess> {
        ServerProcess::start_within(setup, data, options, READY_MAX)
    }

    /// The same where the server may have a store to upgrade.
    pub fn start_patiently(
        setup: &Setup,
        data: &Path,
        options: &[&str],
    ) -> anyhow::Result<ServerProcess> {
        ServerProcess::start_within(setup, data, options, UPGRADED_MAX)
    }

    fn start_within(
        setup: &Setup,
        data: &Path,
        options: &[&str],
        ready_max: Duration,
    ) -> anyhow::Result<ServerProcess> {
        std::fs::create_dir_all(data)?;
        let log = File::create(data.with_extension("log"))?;
        let mut command = command(setup, data);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(options)
            .env("REMEM_BOOTSTRAP_KEY", KEY);
        let begun = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("cannot start the server")?;
        let mut output = BufReader::new(
            child
                .stdout
                .take()
                .context("the server's output was asked for")?,
        );
        match await_ready(&mut output, begun, ready_max) {
            Ok((address, start_up)) => Ok(ServerProcess {
                child,
                address,
                start_up,
                _output: output,
            }),
            Err(error) => {
                // The first error is the one to report.
                let _ = child.kill();
                let _ = child.wait();
                Err(error.context("the server did not start; its log is beside the data directory"))
            }
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The memory in use: `VmRSS` is the present value, `VmHWM` the peak.
    pub fn memory(&self, name: &str) -> anyhow::Result<u64> {
        facts::process_bytes(self.child.id(), name)
    }

    /// The sum or count of a metric, over all of its labels.
    pub fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let mut client = Client::connect(self.address)?;
        let text = String::from_utf8(client.send(&Request::get(KEY, "/metrics"))?.to_vec())?;
        let of_name = |line: &&str| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        Ok(text
            .lines()
            .filter(of_name)
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum())
    }

    /// Stops the server as an operator would, and waits for it.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .context("cannot run kill")?;
        ensure!(asked.success(), "cannot stop the server");
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // After `stop` both calls fail, which is harmless.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn await_ready(
    output: &mut impl BufRead,
    begun: Instant,
    ready_max: Duration,
) -> anyhow::Result<(SocketAddr, Duration)> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    let address = line
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.trim().parse().ok());
    let address: SocketAddr = address.context("the server did not say where it listens")?;
    while begun.elapsed() < ready_max {
        let ready = Client::connect(address)
            .and_then(|mut client| client.send(&Request::get(KEY, "/ready")).map(|_| ()));
        if ready.is_ok() {
            return Ok((address, begun.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("the server was not ready within {} s", ready_max.as_secs())
}

/// A command of the program, without settings from the user's environment.
pub fn command(setup: &Setup, data: &Path) -> Command {
    let mut command = Command::new(&setup.remem);
    command
        .env_clear()
        .arg("--data-dir")
        .arg(data)
        .env("REMEM_KEY", KEY);
    command
}

/// Runs a command to its end; returns its wall time and its output.
pub fn timed(mut command: Command) -> anyhow::Result<(Duration, String)> {
    let begun = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cannot run the program")?;
    let elapsed = begun.elapsed();
    ensure!(
        output.status.success(),
        "a command failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((elapsed, String::from_utf8(output.stdout)?))
}

/// The bytes of all files below a folder.
pub fn bytes_below(folder: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(folder)? {
            let item = item?;
            if item.file_type()?.is_dir() {
                folders.push(item.path());
            } else {
                bytes += item.metadata()?.len();
            }
        }
    }
    Ok(bytes)
}
