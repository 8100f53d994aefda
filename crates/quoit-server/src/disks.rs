//! The file systems of the machine, as `df` lists them.

use quoit_seam::Mount;
use rustix::fs::statvfs;

/// A mounted file system that has space for files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Disk {
    /// Path at which it is mounted.
    pub(crate) mount_point: String,
    /// Its size in KiB.
    pub(crate) size_kib: u64,
    /// Used share of the usable space in percent, rounded up.
    pub(crate) used_percent: u64,
}

/// The local file systems, in the order in which they were mounted. Asks the system about each. Remote ones
/// are left out, because a server that does not answer would block the call.
pub(crate) fn disks() -> Vec<Disk> {
    mount_points(Mount::all()).into_iter().filter_map(measure).collect()
}

fn measure(mount_point: String) -> Option<Disk> {
    let figures = statvfs(mount_point.as_str()).ok()?;
    let used = figures.f_blocks.saturating_sub(figures.f_bfree);
    let usable = used + figures.f_bavail;
    if figures.f_blocks == 0 || usable == 0 {
        // A virtual file system such as `/proc`.
        return None;
    }
    let size_kib = figures.f_blocks.saturating_mul(figures.f_frsize) / 1024;
    Some(Disk { mount_point, size_kib, used_percent: (used * 100).div_ceil(usable) })
}

/// Mount points of local file systems, each once.
fn mount_points(mounts: Vec<Mount>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for Mount { path, kind } in mounts {
        if !is_remote(&kind) && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// True if a file system may be on another machine. FUSE file systems may be, unless they are on a block
/// device of this machine, as NTFS is.
fn is_remote(kind: &str) -> bool {
    !kind.starts_with("fuseblk")
        && ["nfs", "cifs", "smb", "ceph", "afs", "9p", "fuse", "autofs", "gfs", "lustre"]
            .iter()
            .any(|remote| kind.starts_with(remote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_mounts_are_found_once() {
        let text = "/dev/sda1 / ext4 rw,relatime 0 0\n\
                    proc /proc proc rw 0 0\n\
                    host:/x /mnt/net nfs4 rw 0 0\n\
                    /dev/sdb1 /mnt/my\\040disk\\134x xfs rw 0 0\n\
                    /dev/sdc1 / ext4 rw 0 0\n\
                    host:/y /mnt/far fuse.sshfs rw 0 0\n\
                    /dev/sdd1 /mnt/ntfs fuseblk rw 0 0\n\
                    odd\n";
        let found = mount_points(Mount::parse(text));
        assert_eq!(found, ["/", "/proc", "/mnt/my disk\\x", "/mnt/ntfs"]);
    }

    #[test]
    fn the_disk_of_the_root_has_a_size() {
        let disks = disks();
        let root = disks.iter().find(|disk| disk.mount_point == "/").expect("a root");
        assert!(root.size_kib > 0 && root.used_percent <= 100, "{root:?}");
        assert_eq!(measure("/proc".into()), None, "no place for files");
    }
}
