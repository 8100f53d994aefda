//! Checks of the machine: open files, clock, swap, memory and user.

use super::Check;
use crate::figures::size;
use crate::remedy::Remedy;
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs;
use std::path::Path;

/// Number of file descriptors that the storage engine and connections to other nodes may need in addition to
/// client connections.
const OWN_FILES: u64 = 1_024;
/// Memory below which a node performs poorly, in bytes.
const MEMORY_BYTES_MIN: u64 = 512 << 20;
/// Swappiness above which Linux swaps out a node's memory although memory is free.
const SWAPPINESS_MAX: u64 = 10;
/// Files that show that the clock is synchronized, created by timesyncd and chronyd.
const SYNCHRONISED: [&str; 2] = ["/run/systemd/timesync/synchronized", "/run/chrony/chronyd.pid"];

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Checks that a node can open enough files.
pub(super) fn open_files(connection_count_max: u64) -> Check {
    // The node raises its soft limit to the hard limit by itself.
    open_files_of(getrlimit(Resource::Nofile).maximum, connection_count_max)
}

fn open_files_of(limit: Option<u64>, connection_count_max: u64) -> Check {
    const SUBJECT: &str = "open files";
    let wanted = connection_count_max.saturating_add(OWN_FILES);
    let Some(limit) = limit.filter(|limit| *limit < wanted) else {
        return Check::good(
            SUBJECT,
            limit.map_or("no limit".to_owned(), |limit| format!("{limit} may be open")),
        );
    };
    let found =
        format!("{limit} may be open, for {connection_count_max} connections and its own files");
    let remedy = format!(
        "LimitNOFILE={wanted} in the systemd unit, `ulimit -Hn {wanted}` in a shell, or a lower \
         max_connections"
    );
    if limit < OWN_FILES {
        Check::bad(SUBJECT, found, Remedy::of(remedy))
    } else {
        Check::warning(SUBJECT, found, Remedy::of(remedy))
    }
}

/// Checks that a daemon synchronizes the clock.
pub(super) fn clock() -> Check {
    const SUBJECT: &str = "clock";
    let remedy = "run chrony, ntpd or systemd-timesyncd: last-write-wins, expiry and counters of time go \
     by it";
    if SYNCHRONISED.iter().any(|path| Path::new(path).exists()) {
        return Check::good(SUBJECT, "a daemon keeps it in step");
    }
    let daemons = ["chronyd", "ntpd", "ntpd-rs", "systemd-timesyn"];
    match running(&daemons) {
        Some(name) => Check::good(SUBJECT, format!("{name} runs")),
        None => {
            Check::warning(SUBJECT, "nothing that keeps it in step was found", Remedy::of(remedy))
        }
    }
}

/// Returns the first of these names that a running process has.
fn running(names: &[&'static str]) -> Option<&'static str> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let commands = processes.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    let mut commands = commands.map(|command| command.trim().to_owned());
    commands.find_map(|command| names.iter().find(|name| **name == command).copied())
}

/// Checks that a node's memory is not swapped out needlessly.
pub(super) fn swap() -> Check {
    swap_of(&read("/proc/swaps"), read("/proc/sys/vm/swappiness").trim().parse().unwrap_or(0))
}

fn swap_of(swaps: &str, swappiness: u64) -> Check {
    const SUBJECT: &str = "swap";
    if swaps.lines().skip(1).all(|line| line.trim().is_empty()) {
        return Check::good(SUBJECT, "there is none");
    }
    if swappiness <= SWAPPINESS_MAX {
        return Check::good(
            SUBJECT,
            format!("it is used when memory runs out only (vm.swappiness = {swappiness})"),
        );
    }
    Check::warning(
        SUBJECT,
        format!(
            "memory of the node may be moved to it while there is room (vm.swappiness = {swappiness})"
        ),
        Remedy::of(
            "`sysctl vm.swappiness=1`, or `swapoff -a`: an index that waits for the disk is slow",
        ),
    )
}

/// Checks the amount of memory.
pub(super) fn memory() -> Check {
    const SUBJECT: &str = "memory";
    let total = read("/proc/meminfo");
    let total = total.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    match total.map(|kilobytes| kilobytes << 10) {
        None => Check::unknown(SUBJECT, "the system does not tell"),
        Some(bytes) if bytes < MEMORY_BYTES_MIN => Check::warning(
            SUBJECT,
            size(&bytes.into()),
            Remedy::of("bitcask keeps 24 bytes of each key in memory; leveldb needs less"),
        ),
        Some(bytes) => Check::good(SUBJECT, size(&bytes.into())),
    }
}

/// Checks the user that a node would run as.
pub(super) fn user() -> Check {
    const SUBJECT: &str = "user";
    match geteuid().as_raw() {
        0 => Check::warning(
            SUBJECT,
            "root",
            Remedy::of(
                "a user of its own is enough, as the packages make one: a fault of the node then can't harm \
             the machine",
            ),
        ),
        id => Check::good(SUBJECT, format!("number {id}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_limit_of_open_files_is_held_against_the_connections() {
        assert_eq!(open_files_of(None, 65_536).verdict, Verdict::Good);
        assert_eq!(open_files_of(Some(100_000), 65_536).verdict, Verdict::Good);
        let short = open_files_of(Some(4_096), 65_536);
        assert_eq!(short.verdict, Verdict::Warning);
        assert!(short.remedy.contains("LimitNOFILE=66560"), "{}", short.remedy);
        assert_eq!(open_files_of(Some(256), 65_536).verdict, Verdict::Bad);
    }

    #[test]
    fn swap_matters_where_it_is_used_early() {
        let swaps = "Filename Type Size Used Priority\n/swapfile file 1 0 -2\n";
        assert_eq!(swap_of("Filename Type Size Used Priority\n", 60).verdict, Verdict::Good);
        assert_eq!(swap_of(swaps, 1).verdict, Verdict::Good);
        assert!(swap_of(swaps, 60).remedy.contains("vm.swappiness=1"));
    }
}
