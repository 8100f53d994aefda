//! Processes that have a directory open.

use std::fs;
use std::path::Path;

/// Id and name of a process that has a file of the directory open, or that holds Bitcask's write
/// lock on a partition in it. Only the superuser sees the open files of other users' processes.
#[must_use]
pub fn live_process(directory: &Path) -> Option<(u32, String)> {
    locked_by(directory).or_else(|| opened_by(directory))
}

/// The holder of a write lock in a directory or in one of its partitions, if the process runs and
/// is an Erlang node.
fn locked_by(directory: &Path) -> Option<(u32, String)> {
    let holder = |directory: &Path| {
        let lock = fs::read_to_string(directory.join("bitcask.write.lock")).ok()?;
        let pid = lock.split_whitespace().next()?.parse().ok()?;
        let name = process_name(pid)?;
        // Another process may have the same id by now.
        name.starts_with("beam").then_some((pid, name))
    };
    let partitions = || fs::read_dir(directory).ok().into_iter().flatten().flatten();
    holder(directory).or_else(|| partitions().find_map(|entry| holder(&entry.path())))
}

fn opened_by(directory: &Path) -> Option<(u32, String)> {
    let directory = fs::canonicalize(directory).ok()?;
    let own = std::process::id();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if pid == own {
            continue;
        }
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let mut targets = open.filter_map(|file| fs::read_link(file.path()).ok());
        if targets.any(|target| target != directory && target.starts_with(&directory)) {
            return Some((pid, process_name(pid).unwrap_or_default()));
        }
    }
    None
}

fn process_name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_a_process_that_is_gone_or_is_no_node_does_not_count() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let lock = directory.path().join("bitcask.write.lock");
        for pid in [u32::MAX, std::process::id()] {
            fs::write(&lock, format!("{pid} 1.bitcask.data\n")).expect("a lock");
            assert_eq!(live_process(directory.path()), None, "{pid}");
        }
    }
}
