//! A limit on the memory of a node, including its page cache: a control group of its own.

use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Attempts to remove a group whose last process is still ending.
const REMOVE_TRIES: u32 = 100;

/// Most left-over groups of earlier runs before no further group is made.
const GROUPS_MAX: u32 = 1000;

/// A control group below that of this process. Dropping it removes it; its processes must have ended
/// before.
pub(super) struct MemoryGroup {
    group: PathBuf,
    is_swap_bound: bool,
}

/// The files of a group that limit its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    memory: &'static str,
    swap: &'static str,
    /// True if the swap file limits memory and swap together.
    is_swap_total: bool,
}

impl Limits {
    const VERSION_1: Self = Self {
        memory: "memory.limit_in_bytes",
        swap: "memory.memsw.limit_in_bytes",
        is_swap_total: true,
    };
    const VERSION_2: Self =
        Self { memory: "memory.max", swap: "memory.swap.max", is_swap_total: false };

    /// Limits a group's memory and forbids swap. Returns false if the kernel can't limit swap.
    fn set(self, group: &Path, limit_bytes: u64) -> Result<bool> {
        let limit = group.join(self.memory);
        if !limit.exists() {
            bail!("{} has no {}: memory is not delegated here", group.display(), self.memory);
        }
        write_number(&limit, limit_bytes)?;
        let swap = group.join(self.swap);
        if !swap.exists() {
            return Ok(false);
        }
        write_number(&swap, if self.is_swap_total { limit_bytes } else { 0 })?;
        Ok(true)
    }
}

fn write_number(file: &Path, number: u64) -> Result<()> {
    std::fs::write(file, number.to_string())
        .with_context(|| format!("writing {number} to {}", file.display()))
}

impl MemoryGroup {
    /// Makes a group whose processes may use that much memory, and no swap.
    ///
    /// # Errors
    ///
    /// If the machine forbids it: there is no memory controller, or no permission to make groups.
    pub(super) fn of(limit_bytes: u64) -> Result<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").context("reading own groups")?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("reading mounts")?;
        let tables = KernelTables { groups: &groups, mounts: &mounts };
        let (parent, limits) = tables.memory_group().context("there is no controller of memory")?;
        // From here on the group is removed if a later step fails.
        let mut group = Self { group: new_group(&parent)?, is_swap_bound: false };
        group.is_swap_bound = limits.set(&group.group, limit_bytes)?;
        Ok(group)
    }

    /// True if the group's processes can't use swap.
    pub(super) fn is_swap_bound(&self) -> bool {
        self.is_swap_bound
    }

    /// The file to which a process writes its id to enter the group.
    pub(super) fn cgroup_procs(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            if std::fs::remove_dir(&self.group).is_ok() {
                return;
            }
            // A process that was waited for may stay in the group for another moment.
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{} could not be removed; remove it with rmdir", self.group.display());
    }
}

/// Makes a new group. A group that an earlier run could not remove is not used again, since its limits and
/// its charged memory are unknown.
fn new_group(parent: &Path) -> Result<PathBuf> {
    for number in 0..GROUPS_MAX {
        let group = parent.join(format!("quoit-perf-{}-{number}", std::process::id()));
        match std::fs::create_dir(&group) {
            Ok(()) => return Ok(group),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("making {}", group.display()));
            }
        }
    }
    bail!("{} has {GROUPS_MAX} groups of earlier runs; remove them with rmdir", parent.display())
}

/// The kernel's tables about a process.
struct KernelTables<'a> {
    /// The control groups of the process.
    groups: &'a str,
    /// The file systems that the process sees.
    mounts: &'a str,
}

impl KernelTables<'_> {
    /// The memory control group of the process, and the names of its limit files.
    fn memory_group(&self) -> Option<(PathBuf, Limits)> {
        // Version 1 has a hierarchy of its own for memory. Version 2 has one hierarchy for everything,
        // without a name.
        let first = self.group_of("memory").and_then(|path| {
            Some((below(&self.mount_of("cgroup", Some("memory"))?, path), Limits::VERSION_1))
        });
        first.or_else(|| {
            let path = self.group_of("")?;
            Some((below(&self.mount_of("cgroup2", None)?, path), Limits::VERSION_2))
        })
    }

    /// The process's group in the hierarchy of a controller.
    fn group_of(&self, wanted: &str) -> Option<&str> {
        self.groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let controllers = parts.nth(1)?;
            let has = controllers.split(',').any(|controller| controller == wanted);
            has.then(|| parts.next()).flatten()
        })
    }

    /// The mount point of a file system of this kind, with this option if one is given.
    fn mount_of(&self, kind: &str, option: Option<&str>) -> Option<PathBuf> {
        self.mounts.lines().find_map(|line| {
            let (place, about) = line.split_once(" - ")?;
            let mut about = about.split(' ');
            let is_kind = about.next() == Some(kind);
            let mut options = about.nth(1).unwrap_or_default().split(',');
            let has_option = option.is_none_or(|option| options.any(|each| each == option));
            (is_kind && has_option).then(|| place.split(' ').nth(4).map(PathBuf::from)).flatten()
        })
    }
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn memory_group(groups: &str) -> Option<(PathBuf, Limits)> {
        KernelTables { groups, mounts: MOUNTS }.memory_group()
    }

    #[test]
    fn the_group_of_a_hierarchy_for_memory_comes_first() {
        let table = "9:name=systemd:/\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/user\n";
        let expected = (PathBuf::from("/sys/fs/cgroup/memory/jobs/7"), Limits::VERSION_1);
        assert_eq!(memory_group(table), Some(expected));
    }

    #[test]
    fn without_one_the_group_of_the_one_hierarchy_is_taken() {
        let expected = (PathBuf::from("/sys/fs/cgroup/unified/user"), Limits::VERSION_2);
        assert_eq!(memory_group("1:cpu,cpuacct:/\n0::/user\n"), Some(expected));
        assert_eq!(memory_group("1:cpu,cpuacct:/\n"), None);
    }

    #[test]
    fn a_group_that_could_not_be_removed_is_not_taken_again() {
        let parent = tempfile::tempdir().unwrap();
        let first = new_group(parent.path()).unwrap();
        let second = new_group(parent.path()).unwrap();
        assert_ne!(first, second);
        std::fs::remove_dir(&first).unwrap();
        assert_eq!(new_group(parent.path()).unwrap(), first);
    }

    #[test]
    fn a_group_without_bounds_for_memory_is_refused() {
        let group = tempfile::tempdir().unwrap();
        let error = Limits::VERSION_2.set(group.path(), 1 << 30).unwrap_err().to_string();
        assert!(error.contains("has no memory.max"), "{error}");
    }

    #[test]
    fn memory_and_swap_are_bounded_together_in_version_1_and_apart_in_version_2() {
        for (limits, swap) in [(Limits::VERSION_1, "1073741824"), (Limits::VERSION_2, "0")] {
            let group = tempfile::tempdir().unwrap();
            std::fs::write(group.path().join(limits.memory), "max").unwrap();
            assert!(!limits.set(group.path(), 1 << 30).unwrap(), "swap is not counted here");
            std::fs::write(group.path().join(limits.swap), "max").unwrap();
            assert!(limits.set(group.path(), 1 << 30).unwrap());
            let is = |file: &str| std::fs::read_to_string(group.path().join(file)).unwrap();
            assert_eq!(is(limits.memory), "1073741824");
            assert_eq!(is(limits.swap), swap);
        }
    }
}
