//! Checks of a node's data directory and addresses.

use super::{Check, ListenerAddress};
use crate::figures::size;
use crate::local::{SOCKET_FILE, with_short_path};
use crate::remedy::Remedy;
use quoit_seam::Mount;
use rustix::fs::{Access, access, statvfs};
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Free space, in bytes, below which the doctor reports an error: the disk is soon full.
const ROOM_BYTES_MIN: u64 = 1 << 30;
/// Free share of a disk, in percent, below which the doctor warns: merges need space.
const ROOM_PERCENT_MIN: u64 = 10;
/// Prefixes of the types of file systems that lose synced data, or that store it on another machine. Among
/// FUSE file systems, only those of the type [`LOCAL_FUSE`] are known to store data on this machine.
const UNSAFE_KINDS: [&str; 9] =
    ["tmpfs", "ramfs", "nfs", "cifs", "smb", "fuse", "9p", "overlay", "ceph"];
/// Prefix of the types of FUSE file systems that store their data on a block device of this machine.
const LOCAL_FUSE: &str = "fuseblk";

/// True if a node runs with this data directory.
fn is_in_use(data_dir: &Path) -> bool {
    with_short_path(&data_dir.join(SOCKET_FILE), |path| UnixStream::connect(path)).is_ok()
}

/// The directory itself, or its nearest ancestor that exists.
fn existing(directory: &Path) -> PathBuf {
    let mut place = directory;
    while !place.exists() {
        match place.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => place = parent,
            None => return PathBuf::from("."),
        }
    }
    place.to_owned()
}

/// Checks permissions, free space and file system of the data directory.
pub(super) fn directory(data_dir: &Path) -> Vec<Check> {
    let place = existing(data_dir);
    vec![permissions(data_dir), room(&place), file_system(&place)]
}

fn permissions(data_dir: &Path) -> Check {
    const SUBJECT: &str = "data directory";
    let (shown, place) = (data_dir.display(), &existing(data_dir));
    if place.is_file() {
        return Check::bad(
            SUBJECT,
            format!("{} is a file", place.display()),
            Remedy::of("name a directory with --data-dir"),
        );
    }
    if access(place, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let owner = fs::metadata(place).map_or(0, |meta| meta.uid());
        return Check::bad(
            SUBJECT,
            format!("{} belongs to user {owner}, and this user can't write to it", place.display()),
            Remedy::of(format!(
                "`chown -R USER {shown}`, run the node as that user, or choose another with --data-dir"
            )),
        );
    }
    if !data_dir.exists() {
        return Check::good(SUBJECT, format!("{shown} is not there yet and can be made"));
    }
    let mode = fs::metadata(data_dir).map_or(0o700, |meta| meta.permissions().mode()) & 0o777;
    if mode & 0o007 != 0 {
        return Check::warning(
            SUBJECT,
            format!("{shown} has mode {mode:03o}: every user of the machine may look into it"),
            Remedy::of(format!("`chmod o-rwx {shown}`")),
        );
    }
    Check::good(SUBJECT, format!("{shown} may be written, mode {mode:03o}"))
}

fn room(place: &Path) -> Check {
    const SUBJECT: &str = "room on the disk";
    let Ok(figures) = statvfs(place) else {
        return Check::unknown(SUBJECT, "the system does not tell");
    };
    let free = figures.f_bavail.saturating_mul(figures.f_frsize);
    let total = figures.f_blocks.saturating_mul(figures.f_frsize).max(1);
    let found = format!("{} of {} are free", size(&free.into()), size(&total.into()));
    if free < ROOM_BYTES_MIN {
        return Check::bad(
            SUBJECT,
            found,
            Remedy::of("make room, or put the data on another disk with --data-dir"),
        );
    }
    if free / (total / 100).max(1) < ROOM_PERCENT_MIN {
        return Check::warning(
            SUBJECT,
            found,
            Remedy::of("merges need room of their own: keep a tenth of the disk free"),
        );
    }
    Check::good(SUBJECT, found)
}

fn file_system(place: &Path) -> Check {
    const SUBJECT: &str = "file system";
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let Some(kind) = kind_of(Mount::all(), &place) else {
        return Check::unknown(SUBJECT, "the system does not tell");
    };
    if is_unsafe(&kind) {
        return Check::warning(
            SUBJECT,
            format!("{kind}, which may lose synced data"),
            Remedy::of("put the data on a local disk with ext4 or XFS, in a container on a volume"),
        );
    }
    Check::good(SUBJECT, kind)
}

fn is_unsafe(kind: &str) -> bool {
    !kind.starts_with(LOCAL_FUSE) && UNSAFE_KINDS.iter().any(|start| kind.starts_with(start))
}

/// Type of the file system that contains a path: that of the innermost mount.
fn kind_of(mounts: Vec<Mount>, place: &Path) -> Option<String> {
    let around = mounts.into_iter().filter(|mount| place.starts_with(&mount.path));
    around.max_by_key(|mount| Path::new(&mount.path).components().count()).map(|mount| mount.kind)
}

/// Checks that a node can listen on an address.
pub(super) fn listener(listener: &ListenerAddress, data_dir: &Path) -> Check {
    const SUBJECT: &str = "address";
    let ListenerAddress { key, address } = listener;
    let shown = format!("{address} ({key})");
    let Ok(mut addresses) = address.to_socket_addrs() else {
        return Check::bad(
            SUBJECT,
            format!("{shown} is not the address of a machine"),
            Remedy::of(format!("write HOST:PORT in {key}")),
        );
    };
    let Some(at) = addresses.next() else {
        return Check::bad(
            SUBJECT,
            format!("{shown} resolves to nothing"),
            Remedy::of(format!("write HOST:PORT in {key}")),
        );
    };
    let fault = match TcpListener::bind(at) {
        Ok(_) => return Check::good(SUBJECT, format!("{shown} is free")),
        Err(fault) => fault,
    };
    match fault.kind() {
        ErrorKind::AddrInUse if is_in_use(data_dir) => Check::good(
            SUBJECT,
            format!("{shown} is in use, and a node runs with this data directory"),
        ),
        ErrorKind::AddrInUse => Check::bad(
            SUBJECT,
            format!("{shown}: another process has the port"),
            Remedy::of(format!("`ss -ltnp` shows which; stop it, or choose another in {key}")),
        ),
        ErrorKind::AddrNotAvailable => Check::bad(
            SUBJECT,
            format!("{shown}: this machine does not have the address"),
            Remedy::of(format!(
                "choose one of its own in {key} (`ip address` shows them), or 0.0.0.0 for all"
            )),
        ),
        ErrorKind::PermissionDenied => Check::bad(
            SUBJECT,
            format!("{shown}: this user is not allowed to use the port"),
            Remedy::of(format!("choose one above 1023 in {key}")),
        ),
        _ => Check::bad(
            SUBJECT,
            format!("{shown}: {fault}"),
            Remedy::of(format!("choose another in {key}")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_directory_that_may_be_looked_into_is_told_with_the_command() {
        let directory = tempfile::tempdir().expect("a directory");
        let set = |mode| {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode))
                .expect("it is ours")
        };
        set(0o755);
        let check = permissions(directory.path());
        assert_eq!(check.verdict, Verdict::Warning);
        assert!(check.remedy.contains("chmod o-rwx"), "{check:?}");
        set(0o750);
        assert_eq!(permissions(directory.path()).verdict, Verdict::Good);
        let missing = directory.path().join("a/b");
        assert_eq!(existing(&missing), directory.path());
        assert_eq!(permissions(&missing).verdict, Verdict::Good);
    }

    #[test]
    fn the_innermost_mount_tells_the_file_system() {
        let kind = |place: &str| {
            let mounts = Mount::parse("/dev/sda1 / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\n");
            kind_of(mounts, Path::new(place)).expect("one")
        };
        assert_eq!(kind("/data/node"), "nfs4");
        assert_eq!(kind("/database"), "ext4");
    }

    #[test]
    fn of_file_systems_that_programs_serve_those_on_a_disk_of_this_machine_are_safe() {
        assert!(is_unsafe("fuse.sshfs") && is_unsafe("fuse") && is_unsafe("nfs4"));
        assert!(!is_unsafe("fuseblk") && !is_unsafe("xfs"));
    }

    #[test]
    fn a_port_in_use_and_a_foreign_address_are_told_apart() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = taken.local_addr().expect("it has one").to_string();
        let nowhere = Path::new("/nonexistent");
        let check = |address: &str| {
            let address = address.to_owned();
            listener(&ListenerAddress { key: "listener.http", address }, nowhere)
        };
        let found = |address: &str| check(address).found;
        assert!(found(&address).contains("another process has the port"), "{}", found(&address));
        assert!(found("192.0.2.1:8098").contains("does not have the address"));
        assert!(found("nonsense").contains("is not the address"));
        drop(taken);
        assert_eq!(check(&address).verdict, Verdict::Good);
    }
}
