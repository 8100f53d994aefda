//! Memory and processor time of other processes, as the system counts them.

use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "VmRSS:")
}

/// Resident memory of a process that it has allocated itself, in bytes: without the pages of files.
pub(crate) fn allocated_bytes(pid: u32) -> Result<u64> {
    status_bytes(pid, "RssAnon:")
}

fn status_bytes(pid: u32, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading /proc")?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .with_context(|| format!("{name} in /proc/PID/status"))?;
    Ok(kib * 1024)
}

/// Processor time of the present threads of a process, to the nanosecond. Use it for processes that do
/// little: `/proc/PID/stat` counts in hundredths of a second.
pub(crate) fn running_time(pid: u32) -> Result<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).context("reading /proc")?;
    threads.map(|thread| running_time_of(&thread?.path())).sum()
}

fn running_time_of(thread: &Path) -> Result<Duration> {
    let text = match std::fs::read_to_string(thread.join("schedstat")) {
        Ok(text) => text,
        // A thread may end while the threads are listed.
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => return Ok(Duration::ZERO),
        Err(fault) => return Err(fault).context("reading /proc/PID/task"),
    };
    let nanos = text.split_whitespace().next().and_then(|first| first.parse().ok());
    nanos.map(Duration::from_nanos).context("the first figure of schedstat")
}
