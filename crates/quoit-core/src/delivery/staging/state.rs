//! The records that are being staged, as plain state.

use crate::records::StagedPages;
use bytes::Bytes;
use quoit_cluster::NodeId;
use quoit_model::data_type::pages::PageName;
use quoit_wire::internode::staging::StagingDecision;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// Largest number of records that are staged at the same time. It bounds memory, which holds the names of
/// their pages.
const STAGING_COUNT_MAX: usize = 8;

/// The records that are being staged, and those whose staging is being opened.
#[derive(Default)]
pub(super) struct StagingState {
    pub(super) left: LeftoverPages,
    pub(super) by_number: BTreeMap<u64, Staging>,
    /// Names of records whose staging is being opened.
    opening: BTreeSet<Bytes>,
}

/// State of the pages that earlier processes staged without finishing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) enum LeftoverPages {
    /// The node has not finished looking for them.
    #[default]
    Unknown,
    /// There are no such pages.
    Absent,
    /// The pages could not be found or removed. The node tries again from time to time.
    Remain,
}

/// A record that is being staged.
pub(super) struct Staging {
    pub(super) from: NodeId,
    pub(super) pages: StagedPages,
    /// Size of each staged page, in bytes.
    pub(super) sizes: BTreeMap<PageName, u32>,
    /// Time of the sender's last message.
    pub(super) heard_at: Instant,
    /// True while a task works on the pages.
    is_busy: bool,
    /// True if the pages are to be removed when that task ends.
    is_dropped: bool,
}

impl Staging {
    /// Creates a staging without pages.
    pub(super) fn new(from: NodeId, pages: StagedPages) -> Self {
        let (sizes, heard_at) = (BTreeMap::new(), Instant::now());
        Self { from, pages, sizes, heard_at, is_busy: false, is_dropped: false }
    }

    /// Size of all staged pages, in bytes.
    pub(super) fn page_bytes(&self) -> u64 {
        self.sizes.values().map(|size_bytes| u64::from(*size_bytes)).sum()
    }
}

impl StagingState {
    /// Decides whether the pages of a record can be staged now. If so, notes that its staging is being
    /// opened.
    pub(super) fn begin_opening(&mut self, key: &Bytes) -> StagingDecision {
        let comes = self.by_number.values().any(|each| each.pages.key == *key);
        let count = self.by_number.len() + self.opening.len();
        match self.left {
            LeftoverPages::Remain => return StagingDecision::Whole,
            LeftoverPages::Unknown => return StagingDecision::Busy,
            LeftoverPages::Absent => {}
        }
        if comes || count >= STAGING_COUNT_MAX || !self.opening.insert(key.clone()) {
            return StagingDecision::Busy;
        }
        self.check();
        StagingDecision::Open
    }

    /// Ends the opening of a record's staging, and adds the staging if it was opened.
    pub(super) fn end_opening(&mut self, key: &Bytes, opened: Option<Staging>) {
        let was_opening = self.opening.remove(key);
        debug_assert!(was_opening, "the opening of a staging ends once");
        if let Some(staging) = opened {
            let former = self.by_number.insert(staging.pages.generation, staging);
            debug_assert!(former.is_none(), "no two stagings have the same number");
        }
        self.check();
    }

    /// Drops a staging. Returns it for removal, unless a task works on its pages: then that task removes
    /// it.
    pub(super) fn drop_staging(&mut self, number: u64) -> Option<Staging> {
        let staging = self.by_number.get_mut(&number)?;
        staging.is_dropped = true;
        let dropped = if staging.is_busy { None } else { self.by_number.remove(&number) };
        self.check();
        dropped
    }

    /// Begins work on the pages of a staging; `None` if there is no such staging of this sender, or it is
    /// busy.
    pub(super) fn begin(&mut self, number: u64, from: NodeId) -> Option<&mut Staging> {
        let staging = self.by_number.get_mut(&number)?;
        if staging.from != from || staging.is_busy || staging.is_dropped {
            return None;
        }
        staging.is_busy = true;
        staging.heard_at = Instant::now();
        Some(staging)
    }

    /// Ends work on the pages of a staging. Returns the staging if it is to be removed.
    pub(super) fn end(&mut self, number: u64) -> Option<Staging> {
        let staging = self.by_number.get_mut(&number);
        debug_assert!(
            staging.as_ref().is_some_and(|staging| staging.is_busy),
            "a staging stays while a task works on its pages"
        );
        let staging = staging?;
        staging.is_busy = false;
        staging.heard_at = Instant::now();
        let dropped = if staging.is_dropped { self.by_number.remove(&number) } else { None };
        self.check();
        dropped
    }

    /// Ends the storing of a staged record, and removes its staging.
    pub(super) fn finish(&mut self, number: u64) -> Option<Staging> {
        let staging = self.by_number.remove(&number);
        debug_assert!(
            staging.as_ref().is_some_and(|staging| staging.is_busy),
            "a staging stays while a task stores its record"
        );
        staging
    }

    /// Checks in debug builds that the stagings keep to their bound, and that each record has one.
    fn check(&self) {
        let count = self.by_number.len() + self.opening.len();
        debug_assert!(count <= STAGING_COUNT_MAX, "stagings keep to their bound");
        let names = || {
            let staged = self.by_number.values().map(|staging| &staging.pages.key);
            staged.chain(&self.opening).collect::<BTreeSet<_>>()
        };
        debug_assert_eq!(names().len(), count, "a record is staged once");
        debug_assert!(
            self.by_number.values().all(|staging| staging.is_busy || !staging.is_dropped),
            "a staging that was dropped stays only while a task works on it"
        );
    }
}
