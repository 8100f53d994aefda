//! The machine of the load generator.

use std::fs;

use serde::{Deserialize, Serialize};

/// A machine. Texts are empty and sizes 0 if the operating system does not report them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Model of the processor.
    pub cpu_model: String,
    /// Number of processors that this process may use.
    pub core_count: usize,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// Name and release of the kernel.
    pub kernel: String,
}

impl Host {
    /// Reads the facts from Linux's `/proc`.
    pub(super) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let word = |path: &str| read(path).trim().to_owned();
        let kernel = [word("/proc/sys/kernel/ostype"), word("/proc/sys/kernel/osrelease")];
        Self {
            name: word("/proc/sys/kernel/hostname"),
            cpu_model: cpu_model(&read("/proc/cpuinfo")),
            core_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: kernel.join(" ").trim().to_owned(),
        }
    }
}

/// The first processor model in `/proc/cpuinfo`. Vendors name the field differently.
fn cpu_model(cpuinfo: &str) -> String {
    let value_of = |wanted: &str| {
        let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.find(|(name, _)| name.trim() == wanted).map(|(_, value)| value.trim().to_owned())
    };
    value_of("model name").or_else(|| value_of("CPU part")).unwrap_or_default()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n\nmodel name\t: Other\n";
        assert_eq!(cpu_model(cpuinfo), "Some CPU @ 2.0GHz");
        assert_eq!(cpu_model("CPU part\t: 0xd0c\n"), "0xd0c");
        assert_eq!(cpu_model(""), "");
        assert_eq!(memory_bytes("MemTotal:       24576 kB\nMemFree: 1 kB\n"), 24576 * 1024);
        assert_eq!(memory_bytes("MemTotal: much\n"), 0);
    }
}
