//! Figures of the machine and of this process, from the operating system.

use quoit_number::whole;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// Figures of the operating system. A figure that the system does not provide is zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SystemFigures {
    /// Memory of the machine in bytes.
    pub(crate) memory_total_bytes: u64,
    /// Memory of the machine that is in use, in bytes.
    pub(crate) memory_used_bytes: u64,
    /// Resident memory of this process in bytes.
    pub(crate) resident_bytes: u64,
    /// Number of processes and threads on the machine.
    pub(crate) process_count: u64,
    /// Load over 1, 5 and 15 minutes, times 256.
    pub(crate) load_256ths: [u64; 3],
    /// Threads of this process.
    pub(crate) thread_count: u64,
    /// Number of files and sockets that this process has open.
    pub(crate) open_file_count: u64,
    /// Number of processors that this process may use.
    pub(crate) processor_count: u64,
    /// Processor time of this process, in user and in system mode.
    pub(crate) processor_time: Duration,
    /// Bytes that the system has read from disks for this process, and bytes that this process has caused
    /// to be written.
    pub(crate) disk_bytes: (u64, u64),
}

impl SystemFigures {
    /// Reads the figures. Reads four files and one directory of `/proc`.
    pub(crate) fn read() -> Self {
        let mut machine = Self {
            processor_count: std::thread::available_parallelism()
                .map_or(1, |count| count.get() as u64),
            open_file_count: fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
            ..Self::default()
        };
        machine.read_memory(&ProcFile::read("/proc/meminfo"));
        machine.read_status(&ProcFile::read("/proc/self/status"));
        machine.read_load(&fs::read_to_string("/proc/loadavg").unwrap_or_default());
        machine.read_io(&ProcFile::read("/proc/self/io"));
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        machine.processor_time = Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0));
        machine
    }

    fn read_io(&mut self, file: &ProcFile) {
        self.disk_bytes = (file.number("read_bytes:"), file.number("write_bytes:"));
    }

    fn read_memory(&mut self, file: &ProcFile) {
        self.memory_total_bytes = file.kilobytes("MemTotal:");
        let free_bytes = file.kilobytes("MemAvailable:");
        self.memory_used_bytes = self.memory_total_bytes.saturating_sub(free_bytes);
    }

    fn read_status(&mut self, file: &ProcFile) {
        self.resident_bytes = file.kilobytes("VmRSS:");
        self.thread_count = file.number("Threads:");
    }

    fn read_load(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        for load in &mut self.load_256ths {
            let value: f64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
            *load = whole(value * 256.0);
        }
        let processes = words.next().and_then(|word| word.split('/').nth(1));
        self.process_count = processes.and_then(|count| count.parse().ok()).unwrap_or(0);
    }
}

/// Memory in bytes that this process may use: that of the machine, or the lowest limit of its control
/// groups. `None` if the system provides neither.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let machine_bytes = ProcFile::read("/proc/meminfo").kilobytes("MemTotal:");
    let groups = read("/proc/self/cgroup");
    let limits =
        group_files(&groups).into_iter().filter_map(|path| read(&path).trim().parse().ok());
    limits.chain((machine_bytes > 0).then_some(machine_bytes)).min()
}

/// Paths of the files that hold the memory limits of a process's control groups and of their ancestors.
/// `groups` is the text of `/proc/self/cgroup`.
fn group_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            let Some((above, _)) = path.rsplit_once('/') else { break };
            path = above;
        }
    }
    files
}

/// A file of `/proc` with a named number in each line; empty if it could not be read.
struct ProcFile(String);

impl ProcFile {
    fn read(path: &str) -> Self {
        Self(fs::read_to_string(path).unwrap_or_default())
    }

    fn number(&self, name: &str) -> u64 {
        let mut lines = self.0.lines();
        lines
            .find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    }

    fn kilobytes(&self, name: &str) -> u64 {
        self.number(name).saturating_mul(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_control_groups_are_looked_for_up_to_the_root() {
        let files = group_files("0::/a/b\n");
        let expected = ["/a/b", "/a", ""].map(|path| format!("/sys/fs/cgroup{path}/memory.max"));
        assert_eq!(files, expected);
        let files = group_files("5:cpu:/x\n4:memory:/\n");
        assert_eq!(files, ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]);
        assert!(memory_bytes().is_none_or(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_system_s_texts_are_understood() {
        let mut machine = SystemFigures::default();
        let file = |text: &str| ProcFile(text.to_owned());
        machine.read_memory(&file("MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   40 kB\n"));
        machine.read_status(&file("Name:\tx\nVmRSS:\t 12 kB\nThreads:\t7\n"));
        machine.read_load("0.50 1.00 2.25 3/456 789\n");
        assert_eq!((machine.memory_total_bytes, machine.memory_used_bytes), (102_400, 61_440));
        assert_eq!((machine.resident_bytes, machine.thread_count), (12_288, 7));
        let io = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n";
        machine.read_io(&file(io));
        assert_eq!(machine.disk_bytes, (4096, 8192));
        assert_eq!((machine.load_256ths, machine.process_count), ([128, 256, 576], 456));
        machine.read_load("");
        assert_eq!(machine.process_count, 0);
    }
}
