//! Processor time, in nanoseconds: of a running process, of commands that have ended, and of a
//! database server with all of its processes. Also waits until a server is idle.

use crate::client::{Client, Request};
use crate::facts;
use crate::host::{KEY, ServerProcess};
use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// How long a server must be idle after writes. It is longer than the host waits after a write
/// before it starts a pass, so that work which is about to begin is not missed.
const IDLE_AFTER_WRITES: Duration = Duration::from_millis(300);
/// How long it must be idle after reads, which leave no work behind.
const IDLE_AFTER_READS: Duration = Duration::from_millis(50);
/// A server that is not idle within this time is an error.
const IDLE_WAIT_MAX: Duration = Duration::from_secs(60);
const POLL_EVERY: Duration = Duration::from_millis(10);
/// A pass that finds something in every call is called for this long at most.
const PASS_WAIT_MAX: Duration = Duration::from_secs(3_600);
/// How often a long wait says that it goes on.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// The unit of /proc: a hundredth of a second.
const TICK: Duration = Duration::from_millis(10);

/// The processor time that a process has used so far, with all of its threads, ended ones included.
pub fn of_process(pid: u32) -> anyhow::Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid)?))
        .context("the system has no clock of that process")?;
    Ok(clock_gettime(clock)?.into())
}

/// The processor time of all commands that this process has waited for so far.
pub fn of_ended_children() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// The processor time of a process and of its children; that of ended children is counted in ticks.
pub fn of_family(parent: u32) -> anyhow::Result<Duration> {
    let ended = facts::ticks_of(&parent.to_string()).map_or(0, |ticks| ticks.ended);
    let mut sum = of_process(parent)? + TICK * u32::try_from(ended)?;
    for pid in processes()? {
        if facts::ticks_of(&pid.to_string()).is_some_and(|ticks| ticks.parent == parent) {
            // A child may end between the two reads.
            sum += of_process(pid).unwrap_or_default();
        }
    }
    Ok(sum)
}

/// The ids of all processes.
fn processes() -> anyhow::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for item in fs::read_dir("/proc")? {
        pids.extend(
            item?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok()),
        );
    }
    Ok(pids)
}

/// The processor time of one operation: of the host, and of the database if it has one.
pub struct ProcessorTime {
    pub host: Duration,
    pub database: Duration,
}

impl ProcessorTime {
    pub fn total(&self) -> Duration {
        self.host + self.database
    }
}

/// The processor times of the processes that serve the connections of one database.
#[derive(Default)]
pub struct ConnectionClock(BTreeMap<u32, Duration>);

impl ConnectionClock {
    /// The time used since an earlier reading. Connections that were closed meanwhile are missing.
    pub fn since(&self, before: &ConnectionClock) -> Duration {
        let used = |(pid, time): (&u32, &Duration)| {
            time.saturating_sub(before.0.get(pid).copied().unwrap_or_default())
        };
        self.0.iter().map(used).sum()
    }
}

/// Reads the clocks of the connections of one database: unlike `of_family` without those of other
/// databases, of autovacuum, of checkpoints and of parallel workers.
pub fn of_connections(postmaster: u32, database: &str) -> anyhow::Result<ConnectionClock> {
    let mut clocks = BTreeMap::new();
    for pid in processes()? {
        let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_child =
            || facts::ticks_of(&pid.to_string()).is_some_and(|ticks| ticks.parent == postmaster);
        if title.split(' ').any(|word| word == database) && is_child() {
            // A connection may be closed between the two reads.
            clocks.insert(pid, of_process(pid).unwrap_or_default());
        }
    }
    Ok(ConnectionClock(clocks))
}

/// Waits until a server is idle. Returns the processor time that it had used when it became idle,
/// so that the wait itself is not counted.
pub fn wait_until_idle(host: &ServerProcess, after_writes: bool) -> anyhow::Result<Duration> {
    let mut rest = IDLE_AFTER_READS;
    if after_writes {
        finish_inference(host)?;
        rest = IDLE_AFTER_WRITES;
    }
    let begun = Instant::now();
    let mut since = Instant::now();
    let mut used = of_process(host.pid())?;
    while since.elapsed() < rest {
        std::thread::sleep(POLL_EVERY);
        let now = of_process(host.pid())?;
        // An idle server checks its timers, which takes well below a hundredth of a core.
        let allowed = Duration::from_micros(500) + since.elapsed() / 50;
        if now - used > allowed || has_running_thread(host.pid()) {
            since = Instant::now();
            used = now;
        }
        if begun.elapsed() > IDLE_WAIT_MAX {
            bail!("the server did not come to rest");
        }
    }
    Ok(used)
}

/// Runs the pass that reads new entries until it finds none. The host does so by itself a moment
/// after a write; calling it ensures that it is done.
fn finish_inference(host: &ServerProcess) -> anyhow::Result<()> {
    let mut client = Client::connect(host.address())?;
    let request = Request::post(KEY, "/v1/host/remembrancer/passes/infer/run", "{}");
    let mut last = anyhow::anyhow!("the pass `infer` always finds new entries");
    let begun = Instant::now();
    let mut reported = Instant::now();
    while begun.elapsed() < PASS_WAIT_MAX {
        if reported.elapsed() > PROGRESS_EVERY {
            reported = Instant::now();
            eprintln!(
                "waiting for the pass `infer`: {} s",
                begun.elapsed().as_secs()
            );
        }
        match client.send(&request) {
            Ok(body) => {
                let report: Value = serde_json::from_slice(body)?;
                if report["examined"] == 0 {
                    return Ok(());
                }
            }
            // The host itself may be running the pass, so the call is repeated.
            Err(error) => {
                last = error;
                std::thread::sleep(POLL_EVERY);
            }
        }
    }
    Err(last.context("the pass `infer` does not end"))
}

/// Returns true if a thread of the process runs or waits for a core. On a busy machine a process
/// that waits for a core uses no processor time, but is not idle.
fn has_running_thread(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.into_iter().flatten().flatten().any(|task| {
        fs::read_to_string(task.path().join("stat"))
            .ok()
            .and_then(|stat| Some(stat.rsplit_once(')')?.1.trim_start().starts_with('R')))
            .unwrap_or(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_cpu_time_grows_with_work() {
        let pid = std::process::id();
        let before = of_process(pid).unwrap();
        let mut sum = 0_u64;
        for n in 0..2_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(n * n));
        }
        assert!(of_process(pid).unwrap() > before);
        assert!(of_family(pid).unwrap() >= before);
    }

    #[test]
    fn connections_are_counted_from_their_last_reading_or_from_their_start() {
        let at = |clocks: &[(u32, u64)]| {
            let clocks = clocks.iter();
            ConnectionClock(
                clocks
                    .map(|&(pid, ms)| (pid, Duration::from_millis(ms)))
                    .collect(),
            )
        };
        let before = at(&[(1, 100), (2, 50)]);
        let now = at(&[(1, 130), (3, 7)]);
        assert_eq!(now.since(&before), Duration::from_millis(37));
    }

    #[test]
    fn an_ended_command_adds_to_the_cpu_time_of_children() {
        let before = of_ended_children().unwrap();
        let status = std::process::Command::new("sh").args(["-c", ":"]).status();
        assert!(status.unwrap().success());
        assert!(of_ended_children().unwrap() > before);
    }
}
