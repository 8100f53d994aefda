//! The file systems of the machine, as `df` lists them.

use rustix::fs::statvfs;
use std::fs;

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
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mount_points(&mounts).into_iter().filter_map(measure).collect()
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

/// Mount points of local file systems, each once, from the text of `/proc/self/mounts`.
fn mount_points(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(place), Some(kind)) = (words.next(), words.next()) else { continue };
        let place = unescaped(place);
        if !is_remote(kind) && !found.contains(&place) {
            found.push(place);
        }
    }
    found
}

/// True if a file system may be on another machine. Those that programs serve (`fuse`) may be, unless they
/// are on a block device of this machine, as NTFS is.
fn is_remote(kind: &str) -> bool {
    !kind.starts_with("fuseblk")
        && ["nfs", "cifs", "smb", "ceph", "afs", "9p", "fuse", "autofs", "gfs", "lustre"]
            .iter()
            .any(|remote| kind.starts_with(remote))
}

/// Undoes the escapes of spaces and the like: a backslash and three octal digits.
fn unescaped(word: &str) -> String {
    let mut pieces = word.split('\\');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_at_checked(3).map(|(code, rest)| (u8::from_str_radix(code, 8), rest)) {
            Some((Ok(code), rest)) if code.is_ascii() => {
                text.push(char::from(code));
                text.push_str(rest);
            }
            _ => {
                text.push('\\');
                text.push_str(piece);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_mounts_are_found_once_and_their_names_unescaped() {
        let text = "/dev/sda1 / ext4 rw,relatime 0 0\n\
                    proc /proc proc rw 0 0\n\
                    host:/x /mnt/net nfs4 rw 0 0\n\
                    /dev/sdb1 /mnt/my\\040disk\\134x xfs rw 0 0\n\
                    /dev/sdc1 / ext4 rw 0 0\n\
                    host:/y /mnt/far fuse.sshfs rw 0 0\n\
                    /dev/sdd1 /mnt/ntfs fuseblk rw 0 0\n\
                    odd\n";
        assert_eq!(mount_points(text), ["/", "/proc", "/mnt/my disk\\x", "/mnt/ntfs"]);
        assert_eq!(unescaped("a\\9"), "a\\9");
    }

    #[test]
    fn the_disk_of_the_root_has_a_size() {
        let disks = disks();
        let root = disks.iter().find(|disk| disk.mount_point == "/").expect("a root");
        assert!(root.size_kib > 0 && root.used_percent <= 100, "{root:?}");
        assert_eq!(measure("/proc".into()), None, "no place for files");
    }
}
