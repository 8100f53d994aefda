//! The parts of the header of `redb`'s file that other code has to understand.
//!
//! The header has flags and the geometry of the file, without a checksum, and two commit slots with a
//! checksum each. One slot is the primary one, which has the last commit. `redb` writes the header in
//! place.

use super::walk::PageRef;
use xxhash_rust::xxh3::xxh3_128;

/// Size of the header in bytes.
pub(super) const HEADER_BYTES: usize = 320;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Offset of the flags. The lowest bit is the number of the primary slot; the next one is set while the
/// file is open.
const FLAGS_AT: usize = 9;
const PRIMARY_FLAG: u8 = 1;
const OPEN_FLAG: u8 = 2;

const SLOTS_AT: usize = 64;
const SLOT_BYTES: usize = 128;
const SLOT_SUM_AT: usize = 112;

/// Offsets in a slot of the flag that there are tables, and of the page of their list with its checksum.
const HAS_ROOT_AT: usize = 1;
const ROOT_AT: usize = 8;

/// Offset in the header of the number of pages of a region.
const REGION_PAGES_AT: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeHeader(pub(super) [u8; HEADER_BYTES]);

impl TreeHeader {
    pub(super) const NONE: Self = Self([0; HEADER_BYTES]);

    /// True if this is a header of a `redb` file.
    pub(super) fn is_known(&self) -> bool {
        self.0.starts_with(&MAGIC)
    }

    /// True if the file was closed cleanly.
    pub(super) const fn is_closed(&self) -> bool {
        self.0[FLAGS_AT] & OPEN_FLAG == 0
    }

    #[expect(clippy::indexing_slicing, reason = "the header has two slots")]
    fn slot(&self, number: usize) -> &[u8] {
        let start = SLOTS_AT + number * SLOT_BYTES;
        &self.0[start..start + SLOT_BYTES]
    }

    fn primary_slot(&self) -> &[u8] {
        self.slot(usize::from(self.0[FLAGS_AT] & PRIMARY_FLAG))
    }

    /// The root of the list of tables of the last commit. The outer `None` means that no commit is
    /// readable, the inner one that there are no tables.
    #[expect(clippy::indexing_slicing, reason = "a slot has all its fields")]
    pub(super) fn last_commit(&self) -> Option<Option<PageRef>> {
        let primary = usize::from(self.0[FLAGS_AT] & PRIMARY_FLAG);
        let slot =
            [primary, 1 - primary].map(|number| self.slot(number)).into_iter().find(is_whole)?;
        Some(PageRef::read(&slot[ROOT_AT..]).filter(|_| slot[HAS_ROOT_AT] != 0))
    }

    /// Number of pages of a region's header, and maximum number of its data pages.
    pub(super) fn region_pages(&self) -> [u64; 2] {
        let pages =
            self.0[REGION_PAGES_AT..].as_chunks().0.iter().map(|pages| u32::from_le_bytes(*pages));
        let mut pages = pages.map(u64::from);
        [(); 2].map(|()| pages.next().unwrap_or_default())
    }

    /// True if the header stands for another state of the file than `former`: another commit, or opened or
    /// closed since. A commit that was only prepared is not another state.
    pub(super) fn differs(&self, former: &Self) -> bool {
        self.0[FLAGS_AT] != former.0[FLAGS_AT] || self.primary_slot() != former.primary_slot()
    }

    /// True if the file has moved on by at least two commits since `copy` was its header, or was rolled
    /// back, as opposed to damage: both slots are intact, and neither has the commit of the copy.
    pub(super) fn is_of_another_time(&self, copy: &Self) -> bool {
        let is_other = |slot: &[u8]| is_whole(&slot) && slot != copy.primary_slot();
        self.is_known() && is_other(self.slot(0)) && is_other(self.slot(1))
    }
}

/// True if the checksum of a slot is right.
#[expect(clippy::indexing_slicing, reason = "a slot has all its fields")]
fn is_whole(slot: &&[u8]) -> bool {
    slot[SLOT_SUM_AT..] == xxh3_128(&slot[..SLOT_SUM_AT]).to_le_bytes()
}
