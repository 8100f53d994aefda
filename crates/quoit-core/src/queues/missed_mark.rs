//! Tells the next process of missed deletes that the manifest does not have yet.
//!
//! The manifest is written once a second, and reap records must not go in a second of which a kill has left
//! nothing. The directory of the queues has an empty file: `NOTED` while the manifest has the missed deletes
//! of every queue that has any, `MISSED-<microseconds since 1970>` from the first one that it does not have.
//! A rename changes the one to the other, which needs no room on the disk and is known after the death of the
//! process at once; a power loss is a loss of entries anyway (`loss.rs`).

use quoit_seam::Disk;

const NOTED: &str = "NOTED";
const MISSED: &str = "MISSED-";

/// The file, as it was left last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MissedMark {
    /// There is none: the disk has refused it.
    Absent,
    Noted,
    /// A delete was missed at this time and is not in the manifest.
    Missed(u64),
}

impl MissedMark {
    /// The mark that a former process has left. A directory that can't be listed has none.
    pub(super) fn found(disk: &dyn Disk) -> Self {
        let names = disk.list().unwrap_or_default();
        let since_us = |name: &String| name.strip_prefix(MISSED)?.parse().ok();
        match names.iter().find_map(since_us) {
            Some(since_us) => Self::Missed(since_us),
            None if names.iter().any(|name| name == NOTED) => Self::Noted,
            None => Self::Absent,
        }
    }

    /// Notes that a delete was missed. One that the manifest has besides is no harm.
    pub(super) fn miss(&mut self, disk: &dyn Disk, now_us: u64) {
        if *self == Self::Noted && disk.rename(NOTED, &format!("{MISSED}{now_us}")).is_ok() {
            *self = Self::Missed(now_us);
        }
    }

    /// Notes that the manifest has all missed deletes.
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
