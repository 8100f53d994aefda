//! Bytes that a process has read and written, and sizes of directories.

use anyhow::{Context, Result};
use rustix::fs::Dev;
use std::path::Path;

/// Bytes that a process has read and written since its start.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct IoBytes {
    /// Bytes read from the device.
    pub(super) read_bytes: u64,
    /// Bytes written to the device. The kernel counts a page when it becomes dirty, not when it is written
    /// back. Pages that were discarded before that are subtracted.
    pub(super) written_bytes: u64,
    /// Bytes returned by read system calls, from the cache or from the device.
    pub(super) asked_bytes: u64,
}

impl IoBytes {
    /// Counters of a process; `None` for this process.
    pub(super) fn of(pid: Option<u32>) -> Result<Self> {
        let path = pid.map_or_else(|| "/proc/self/io".to_owned(), |pid| format!("/proc/{pid}/io"));
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        Self::read(&text).with_context(|| format!("{path} has an unknown form: {text}"))
    }

    fn read(text: &str) -> Option<Self> {
        let of = |name: &str| -> Option<u64> {
            let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
            line.split(':').nth(1)?.trim().parse().ok()
        };
        Some(Self {
            read_bytes: of("read_bytes")?,
            written_bytes: of("write_bytes")?.saturating_sub(of("cancelled_write_bytes")?),
            asked_bytes: of("rchar")?,
        })
    }

    /// The difference to earlier counters.
    pub(super) const fn since(self, before: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            asked_bytes: self.asked_bytes.saturating_sub(before.asked_bytes),
        }
    }
}

/// Peak resident memory of a process, in bytes.
pub(super) fn peak_resident_bytes(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading /proc")?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .context("VmHWM in /proc/PID/status")?;
    Ok(kib * 1024)
}

/// Disk space that the files below a directory take, in bytes. Holes do not count.
pub(super) fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    // A file may be deleted meanwhile; it counts as 0.
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Number of reads of a directory's device since the machine started, by all processes; `None` if the
/// kernel does not report it.
pub(super) fn device_reads(directory: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(directory).ok()?.dev();
    let text = std::fs::read_to_string("/proc/diskstats").ok()?;
    reads_of(&text, device)
}

fn reads_of(text: &str, device: Dev) -> Option<u64> {
    let numbers = [rustix::fs::major(device).to_string(), rustix::fs::minor(device).to_string()];
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fields = lines.find(|fields| {
        fields.first() == Some(&numbers[0].as_str()) && fields.get(1) == Some(&numbers[1].as_str())
    })?;
    fields.get(3)?.parse().ok()
}

/// Asks the kernel to drop the cached pages of the files below a directory. Dirty pages stay.
pub(super) fn forget_cached(directory: &Path) {
    // A file may be deleted meanwhile; then it has no cached pages.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            forget_cached(&path);
        } else if let Ok(file) = std::fs::File::open(&path) {
            // If the kernel ignores the advice, the measurement is no worse than without it.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_has_moved_is_read_from_the_kernels_table() {
        let text = "rchar: 70\nwchar: 5\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\n\
                    write_bytes: 12288\ncancelled_write_bytes: 8192\n";
        let moved = IoBytes::read(text).expect("the form of the kernel");
        assert_eq!((moved.read_bytes, moved.written_bytes, moved.asked_bytes), (4096, 4096, 70));
        assert!(IoBytes::read("rchar: 70\n").is_none());
        assert!(IoBytes::of(None).is_ok());
    }

    #[test]
    fn reads_of_a_device_are_found_by_its_numbers() {
        let text = " 254       0 vda 31027 1 2 3\n 254       1 vda1 77 4 5 6\n";
        assert_eq!(reads_of(text, rustix::fs::makedev(254, 1)), Some(77));
        assert_eq!(reads_of(text, rustix::fs::makedev(8, 0)), None);
    }
}
