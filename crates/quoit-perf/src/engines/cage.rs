//! Memory that a node may use at most, its page cache included: a control group of its own.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a group is tried to be removed that still has a process which is ending.
const REMOVE_TRIES: u32 = 100;

/// A control group below this process's own. It is removed when it is dropped; processes in it must have
/// ended.
pub(super) struct Cage {
    group: PathBuf,
}

impl Cage {
    /// Makes a group whose processes have so much memory.
    ///
    /// # Errors
    ///
    /// When the machine forbids it: no such controller, or no right to make groups.
    pub(super) fn of(limit_bytes: u64) -> Result<Self> {
        let table = std::fs::read_to_string("/proc/self/cgroup").context("reading own groups")?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").context("reading mounts")?;
        let (parent, limit_file) =
            memory_group(&table, &mounts).context("there is no controller of memory")?;
        let group = parent.join(format!("quoit-perf-{}", std::process::id()));
        std::fs::create_dir(&group).with_context(|| format!("making {}", group.display()))?;
        let cage = Self { group };
        let limit = cage.group.join(limit_file);
        if !limit.exists() {
            bail!("{} has no {limit_file}: memory is not delegated here", cage.group.display());
        }
        std::fs::write(&limit, limit_bytes.to_string())
            .with_context(|| format!("writing {limit_bytes} to {}", limit.display()))?;
        Ok(cage)
    }

    /// The file that takes the number of a process which is to be in the group.
    pub(super) fn entrance(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            if std::fs::remove_dir(&self.group).is_ok() {
                return;
            }
            // A process that was waited for may be in the group for a moment more.
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{} could not be removed; remove it with rmdir", self.group.display());
    }
}

/// The group of this process that memory is counted in, and the name of the file with its limit.
fn memory_group(table: &str, mounts: &str) -> Option<(PathBuf, &'static str)> {
    let of_controller = |wanted: &str| {
        table.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let controllers = parts.nth(1)?;
            let has = controllers.split(',').any(|controller| controller == wanted);
            has.then(|| parts.next()).flatten()
        })
    };
    // Version 1 has a hierarchy for memory; in version 2 there is one for everything, without a name.
    let first = of_controller("memory").and_then(|path| {
        Some((below(&mount_of(mounts, "cgroup", "memory")?, path), "memory.limit_in_bytes"))
    });
    first.or_else(|| {
        let path = of_controller("")?;
        Some((below(&mount_of(mounts, "cgroup2", "")?, path), "memory.max"))
    })
}

fn below(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// Where a file system of this kind is mounted that has this option.
fn mount_of(mounts: &str, kind: &str, option: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, about) = line.split_once(" - ")?;
        let mut about = about.split(' ');
        let is_kind = about.next() == Some(kind);
        let options = about.nth(1).unwrap_or_default();
        let has_option = option.is_empty() || options.split(',').any(|each| each == option);
        (is_kind && has_option).then(|| place.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_group_of_a_hierarchy_for_memory_comes_first() {
        let table = "9:name=systemd:/\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/user\n";
        let expected = (PathBuf::from("/sys/fs/cgroup/memory/jobs/7"), "memory.limit_in_bytes");
        assert_eq!(memory_group(table, MOUNTS), Some(expected));
    }

    #[test]
    fn without_one_the_group_of_the_one_hierarchy_is_taken() {
        let expected = (PathBuf::from("/sys/fs/cgroup/unified/user"), "memory.max");
        assert_eq!(memory_group("1:cpu,cpuacct:/\n0::/user\n", MOUNTS), Some(expected));
        assert_eq!(memory_group("1:cpu,cpuacct:/\n", MOUNTS), None);
    }
}
