//! Facts about the machine: its hardware, and how much of it other programs used during the run.
//! Reads Linux's /proc; on other systems the facts are missing and the figures still come.

use crate::floor;
use crate::table::{Table, ms, number};
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Prints the facts that a reader needs to compare figures with those of another machine.
pub fn print(folder: &Path) -> anyhow::Result<()> {
    let flush = floor::appends(folder, Duration::from_secs(1))?;
    let rewrite = floor::rewrites(folder, Duration::from_secs(1))?;
    let flushes = |s: &crate::table::LatencySample| {
        format!(
            "{}/s, p50 {}, p95 {}",
            number(s.rate()),
            ms(s.percentile(50.0)),
            ms(s.percentile(95.0))
        )
    };
    let mut table = Table::new(&["Fact", "Value"]);
    let mut fact = |name: &str, value: Option<String>| {
        table.row([
            name.to_owned(),
            value.unwrap_or_else(|| "unknown".to_owned()),
        ])
    };
    fact(
        "cores",
        std::thread::available_parallelism()
            .ok()
            .map(|n| n.to_string()),
    );
    fact("CPU", field("/proc/cpuinfo", "model name"));
    fact("memory", field("/proc/meminfo", "MemTotal"));
    fact(
        "kernel",
        read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
    );
    fact("file system", file_system(folder));
    fact("fdatasync of a 4 KiB append", Some(flushes(&flush)));
    fact("fdatasync of 4 KiB rewritten", Some(flushes(&rewrite)));
    fact("load average before", load_average());
    fact("SQLite of the peer", Some(rusqlite::version().to_owned()));
    table.print("## Machine");
    Ok(())
}

/// Refuses a folder in memory: a flush to it costs nothing, so the figures would mean nothing.
pub fn on_disk(folder: &Path) -> anyhow::Result<()> {
    match file_system(folder).as_deref() {
        Some(kind @ ("tmpfs" | "ramfs")) => {
            bail!("--dir is on {kind}, which is memory: name a folder on a disk")
        }
        _ => Ok(()),
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path)?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The load averages of one, five and fifteen minutes.
pub fn load_average() -> Option<String> {
    Some(
        read("/proc/loadavg")?
            .split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// The kind of file system that a folder is on: that of the longest mount point above it.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = read("/proc/self/mountinfo")?;
    let mount = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let point = place.split_whitespace().nth(4)?;
        folder.starts_with(point).then(|| {
            (
                point.len(),
                kind.split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            )
        })
    };
    mounts
        .lines()
        .filter_map(mount)
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

/// A value from the status of a process, in bytes: `VmRSS`, `VmHWM`.
pub fn process_bytes(pid: u32, name: &str) -> anyhow::Result<u64> {
    let text = field(&format!("/proc/{pid}/status"), name)
        .with_context(|| format!("the system does not tell {name}"))?;
    let kib: u64 = text.trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// Resets `VmHWM` of this process, so that the next peak is measured.
pub fn reset_peak_memory() -> anyhow::Result<()> {
    std::fs::write("/proc/self/clear_refs", "5")
        .context("the system does not let the peak of memory be reset")
}

/// The processor time that this thread has used so far, to about a millisecond.
pub fn thread_time() -> Option<Duration> {
    let nanos = read("/proc/thread-self/schedstat")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(Duration::from_nanos(nanos))
}

/// The processor time of a process, in ticks of a hundredth of a second.
#[derive(Clone, Copy)]
pub struct Ticks {
    pub parent: u32,
    /// The ticks of the process itself.
    pub alone: u64,
    /// The ticks of its children that have ended.
    pub ended: u64,
}

/// The ticks that a process has used so far; `self` is this one.
pub fn ticks_of(pid: &str) -> Option<Ticks> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain blanks, so figures are counted after it. utime is the
    // twelfth of them.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let sum = |from: usize| {
        fields
            .iter()
            .skip(from)
            .take(2)
            .filter_map(|n| n.parse::<u64>().ok())
            .sum()
    };
    Some(Ticks {
        parent: fields.get(1)?.parse().ok()?,
        alone: sum(11),
        ended: sum(13),
    })
}

/// The ticks of a process, of its children, and of those children that have ended.
pub fn ticks_of_family(pid: u32) -> u64 {
    let names = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|item| item.ok()?.file_name().into_string().ok());
    let children = names
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|name| ticks_of(&name));
    let alive: u64 = children
        .filter(|child| child.parent == pid)
        .map(|child| child.alone)
        .sum();
    alive + ticks_of(&pid.to_string()).map_or(0, |parent| parent.alone + parent.ended)
}

/// The processor time of the machine, and of this process with the servers that it has stopped, in
/// ticks.
#[derive(Clone, Copy)]
pub struct Cpu {
    busy: u64,
    total: u64,
    stolen: u64,
    own: u64,
}

impl Cpu {
    pub fn now() -> anyhow::Result<Cpu> {
        let stat = read("/proc/stat").unwrap_or_default();
        let ticks: Vec<u64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .filter_map(|n| n.parse().ok())
            .collect();
        let at = |n: usize| ticks.get(n).copied().unwrap_or(0);
        Ok(Cpu {
            busy: at(0) + at(1) + at(2) + at(5) + at(6),
            total: ticks.iter().take(8).sum(),
            stolen: at(7),
            own: ticks_of("self").map_or(0, |own| own.alone + own.ended),
        })
    }

    /// The share of the machine that others used since then. `servers` are the ticks of servers
    /// that are not children of this process.
    pub fn summary(&self, servers: u64) -> anyhow::Result<String> {
        let now = Cpu::now()?;
        let total = (now.total - self.total).max(1) as f64;
        let own = (now.own - self.own + servers) as f64;
        let others = ((now.busy - self.busy) as f64 - own).max(0.0);
        let percent = |ticks: f64| format!("{:.0} %", 100.0 * ticks / total);
        Ok(format!(
            "Processor time of all cores: {} this benchmark and its servers, {} other processes, {} taken by the hypervisor. \
             Load average after: {}.",
            percent(own),
            percent(others),
            percent((now.stolen - self.stolen) as f64),
            load_average().unwrap_or_else(|| "unknown".to_owned())
        ))
    }
}
