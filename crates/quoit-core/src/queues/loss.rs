//! Losses: entries that source queues have lost, so that a full-sync has to find their records.
//!
//! A loss is outstanding until a full-sync of all records has found that both clusters are equal. The
//! file `COMPLETE` in the directory of the queues says that no loss is outstanding. A loss removes the
//! file, rather than creating one, because the most frequent cause of a loss is a full disk, on which a
//! file can be removed but not created.

use quoit_seam::Disk;

/// Name of the (empty) file that says that no loss is outstanding.
const NAME: &str = "COMPLETE";

/// Losses of a node's source queues.
pub(super) struct Losses {
    /// True if there was a loss since the last [`Losses::take`].
    is_unreported: bool,
    /// True if a loss is outstanding.
    is_outstanding: bool,
    /// True if the file is on the disk.
    is_marked: bool,
    /// Time at which a caller of this process first saw the outstanding loss, microseconds since 1970.
    seen_us: Option<u64>,
}

impl Losses {
    /// Returns the state for queues that are kept in memory only.
    pub(super) const fn none() -> Self {
        Self { is_unreported: false, is_outstanding: false, is_marked: false, seen_us: None }
    }

    /// Finds out whether earlier processes left a loss. There is none if there was no earlier process.
    /// A directory that can't be listed counts as one without the file.
    pub(super) fn found(disk: &dyn Disk, is_new: bool) -> Self {
        let is_marked = disk.list().is_ok_and(|names| names.iter().any(|name| name == NAME));
        let is_outstanding = !is_new && !is_marked;
        Self { is_unreported: is_outstanding, is_outstanding, is_marked, seen_us: None }
    }

    /// Notes a loss, in memory and for the next process.
    pub(super) fn note(&mut self, disk: Option<&dyn Disk>) {
        (self.is_unreported, self.is_outstanding) = (true, true);
        if let Some(disk) = disk
            && self.is_marked
        {
            // If the disk does not even remove a file, writers to it report the fault.
            self.is_marked = disk.remove(NAME).is_err();
        }
        self.check();
    }

    /// Checks, in debug builds, that no loss is forgotten before it was reported.
    const fn check(&self) {
        debug_assert!(
            self.is_outstanding || !self.is_unreported,
            "a loss that was not reported is outstanding"
        );
    }

    /// Time at which a caller first saw the outstanding loss, microseconds since 1970; `None` if no
    /// loss is outstanding.
    pub(super) fn seen_us(&mut self, now_us: u64) -> Option<u64> {
        self.seen_us = self.is_outstanding.then(|| self.seen_us.unwrap_or(now_us));
        self.seen_us
    }

    /// True if a loss is outstanding.
    pub(super) const fn is_outstanding(&self) -> bool {
        self.is_outstanding
    }

    /// True if there was a loss since the last call.
    pub(super) const fn take(&mut self) -> bool {
        std::mem::replace(&mut self.is_unreported, false)
    }

    /// Notes that a full-sync of all records has found nothing to repair. A loss that [`Losses::take`]
    /// had not reported before the full-sync stays outstanding.
    pub(super) const fn settle(&mut self) {
        self.is_outstanding = self.is_unreported;
        self.check();
    }

    /// Creates the file if no loss is outstanding. True if the directory has to be synced for it.
    pub(super) fn mark(&mut self, disk: &dyn Disk) -> bool {
        self.check();
        if self.is_marked || self.is_outstanding {
            return false;
        }
        // If this fails, the next process assumes a loss and asks for a full-sync, which finds nothing.
        self.is_marked = disk.open(NAME, true).is_ok();
        self.is_marked
    }
}
