//! A mark that informs the next process of missed deletes that the manifest does not contain yet.
//!
//! The manifest is written once a second. Without the mark, a process killed within that second would leave
//! no trace of a missed delete, and its reap records would be removed too early. The directory of the queues
//! therefore contains an empty file. Its name is `NOTED` while the manifest names every queue with missed
//! deletes, and `MISSED-<microseconds since 1970>` from the first missed delete that is not in the manifest.
//! A rename changes one into the other: it needs no free space on the disk and survives the death of the
//! process. After a power loss the queues note a loss anyway (`loss.rs`).

use quoit_seam::Disk;

const NOTED: &str = "NOTED";
const MISSED: &str = "MISSED-";

/// State of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MissedMark {
    /// There is no file: the disk refused to create it.
    Absent,
    Noted,
    /// A delete was missed at this time and is not in the manifest.
    Missed(u64),
}

impl MissedMark {
    /// The mark that an earlier process left. A directory that can't be listed counts as one without a
    /// mark.
    pub(super) fn found(disk: &dyn Disk) -> Self {
        let names = disk.list().unwrap_or_default();
        let since_us = |name: &String| name.strip_prefix(MISSED)?.parse().ok();
        match names.iter().find_map(since_us) {
            Some(since_us) => Self::Missed(since_us),
            None if names.iter().any(|name| name == NOTED) => Self::Noted,
            None => Self::Absent,
        }
    }

    /// Notes that a delete was missed. Does no harm if the manifest contains it already.
    pub(super) fn miss(&mut self, disk: &dyn Disk, now_us: u64) {
        if *self == Self::Noted && disk.rename(NOTED, &format!("{MISSED}{now_us}")).is_ok() {
            *self = Self::Missed(now_us);
        }
    }

    /// Notes that the manifest contains all missed deletes.
    pub(super) fn note(&mut self, disk: &dyn Disk) {
        let is_done = match *self {
            Self::Noted => true,
            Self::Missed(since_us) => disk.rename(&format!("{MISSED}{since_us}"), NOTED).is_ok(),
            Self::Absent => disk.open(NOTED, true).is_ok(),
        };
        if is_done {
            *self = Self::Noted;
        }
    }
}
