//! The floor of the disk: how fast it makes 4 KiB durable, and nothing else. No durable write can
//! be faster than this without sharing a flush with others.

use crate::table::LatencySample;
use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK: usize = 4_096;
/// Enough for any disk, and a bound for the size of the file.
const FLUSHES_MAX: usize = 100_000;

/// Appends and flushes, one after the other: the file grows each time, as a new log does.
pub fn appends(folder: &Path, run: Duration) -> anyhow::Result<LatencySample> {
    measure(folder, run, |_, _| Ok(()))
}

/// Rewrites and flushes the same blocks: the file keeps its size, as a reused log does.
pub fn rewrites(folder: &Path, run: Duration) -> anyhow::Result<LatencySample> {
    measure(folder, run, |file, number| {
        if number.is_multiple_of(256) {
            file.seek(SeekFrom::Start(0))?;
        }
        Ok(())
    })
}

fn measure(
    folder: &Path,
    run: Duration,
    mut place: impl FnMut(&mut File, usize) -> anyhow::Result<()>,
) -> anyhow::Result<LatencySample> {
    let path = folder.join("floor");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    let block = [0x5A; BLOCK];
    for _ in 0..256 {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let begun = Instant::now();
    let mut nanos = Vec::new();
    while begun.elapsed() < run && nanos.len() < FLUSHES_MAX {
        place(&mut file, nanos.len())?;
        let start = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        nanos.push(start.elapsed().as_nanos() as u64);
    }
    let sample = LatencySample::new(nanos, begun.elapsed().as_secs_f64());
    std::fs::remove_file(path)?;
    Ok(sample)
}
