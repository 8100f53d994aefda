//! Entries that are lost: full-sync has to find what they referred to.
//!
//! A loss is outstanding until a full-sync of all records has found that both clusters are equal. The file
//! `COMPLETE` in the directory of the queues says that none is. A file that is removed, and not one that is
//! made, tells of a loss, because the most frequent reason of one is a disk that has no room for a file.

use quoit_seam::Disk;

/// The file that says that no loss is outstanding. It is empty.
const NAME: &str = "COMPLETE";

/// The losses of a node's source queues.
pub(super) struct Losses {
    /// Whether there was one since the last [`Losses::take`].
    is_untold: bool,
    /// Whether one is outstanding.
    is_outstanding: bool,
    /// Whether the file is on the disk.
    is_marked: bool,
    /// When this process has first seen the loss that is outstanding, microseconds since 1970.
    seen_us: Option<u64>,
}

impl Losses {
    /// Those of queues that end with the process.
    pub(super) const fn none() -> Self {
        Self { is_untold: false, is_outstanding: false, is_marked: false, seen_us: None }
    }

    /// Those that a former process has left; none where there was no former process. A directory that can't
    /// be listed is one without the file.
    pub(super) fn found(disk: &dyn Disk, is_new: bool) -> Self {
        let is_marked = disk.list().is_ok_and(|names| names.iter().any(|name| name == NAME));
        let is_outstanding = !is_new && !is_marked;
        Self { is_untold: is_outstanding, is_outstanding, is_marked, seen_us: None }
    }

    /// Notes a loss, so that it is known after the death of the process too.
    pub(super) fn note(&mut self, disk: Option<&dyn Disk>) {
        (self.is_untold, self.is_outstanding) = (true, true);
        if let Some(disk) = disk
            && self.is_marked
        {
            // A disk that can't even remove a file is told of by those who write to it.
            self.is_marked = disk.remove(NAME).is_err();
        }
    }

    /// When a caller has first seen the loss that is outstanding, microseconds since 1970; `None` while none
    /// is.
    pub(super) fn seen_us(&mut self, now_us: u64) -> Option<u64> {
        self.seen_us = self.is_outstanding.then(|| self.seen_us.unwrap_or(now_us));
        self.seen_us
    }

    /// Whether there was a loss since the last call.
    pub(super) const fn take(&mut self) -> bool {
        std::mem::replace(&mut self.is_untold, false)
    }

    /// Notes that a full-sync of all records has found nothing to repair. A loss that was not told of before
    /// it began stays outstanding.
    pub(super) const fn settle(&mut self) {
        self.is_outstanding = self.is_untold;
    }

    /// Makes the file if it should be there. Whether the directory has to be synced for it.
    pub(super) fn mark(&mut self, disk: &dyn Disk) -> bool {
        if self.is_marked || self.is_outstanding {
            return false;
        }
        // Without it the next process has a full-sync find nothing.
        self.is_marked = disk.open(NAME, true).is_ok();
        self.is_marked
    }
}
