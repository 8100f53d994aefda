//! The header of `redb`'s file, as far as it has to be understood from outside.
//!
//! It has the flags and the geometry of the file, without a checksum, and two commit slots with one each. One
//! of the slots is the primary one: the last commit. `redb` writes the header in place.

use super::walk::PageRef;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 320;

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Flags, of which the lowest says which slot is the primary one, and the next that the file was not closed.
const FLAGS_AT: usize = 9;
const PRIMARY_FLAG: u8 = 1;
const OPEN_FLAG: u8 = 2;

const SLOTS_AT: usize = 64;
const SLOT_BYTES: usize = 128;
const SLOT_SUM_AT: usize = 112;

/// Where a slot says whether there are tables, and the page of their list with its checksum.
const HAS_ROOT_AT: usize = 1;
const ROOT_AT: usize = 8;

/// Where the header says how many pages a region has.
const REGION_PAGES_AT: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TreeHeader(pub(super) [u8; HEADER_BYTES]);

impl TreeHeader {
    pub(super) const NONE: Self = Self([0; HEADER_BYTES]);

    /// Whether it is one at all.
    pub(super) fn is_known(&self) -> bool {
        self.0[..MAGIC.len()] == MAGIC
    }

    /// Whether the file was closed in good order.
    pub(super) const fn is_closed(&self) -> bool {
        self.0[FLAGS_AT] & OPEN_FLAG == 0
    }

    fn slot(&self, number: usize) -> &[u8] {
        let start = SLOTS_AT + number * SLOT_BYTES;
        &self.0[start..start + SLOT_BYTES]
    }

    fn primary_slot(&self) -> &[u8] {
        self.slot(usize::from(self.0[FLAGS_AT] & PRIMARY_FLAG))
    }

    /// The root of the list of tables as of the last commit, if a commit can be told, and there are tables.
    pub(super) fn last_commit(&self) -> Option<Option<PageRef>> {
        let primary = usize::from(self.0[FLAGS_AT] & PRIMARY_FLAG);
        let slot =
            [primary, 1 - primary].map(|number| self.slot(number)).into_iter().find(is_whole)?;
        Some(PageRef::read(&slot[ROOT_AT..]).filter(|_| slot[HAS_ROOT_AT] != 0))
    }

    /// Pages of a region's header, and of its data at most.
    pub(super) fn region_pages(&self) -> [u64; 2] {
        let pages =
            self.0[REGION_PAGES_AT..].as_chunks().0.iter().map(|pages| u32::from_le_bytes(*pages));
        let mut pages = pages.map(u64::from);
        [(); 2].map(|()| pages.next().unwrap_or_default())
    }

    /// Whether it stands for another state of the file than a former header: another commit, or opened or
    /// closed. A commit that is only prepared does not.
    pub(super) fn differs(&self, former: &Self) -> bool {
        self.0[FLAGS_AT] != former.0[FLAGS_AT] || self.primary_slot() != former.primary_slot()
    }

    /// Whether this is the header of a file that has gone on by two commits or more since `copy` was its
    /// header, or back, and not a damaged one: both slots are whole, and neither is the copy's commit.
    pub(super) fn is_of_another_time(&self, copy: &Self) -> bool {
        let is_other = |slot: &[u8]| is_whole(&slot) && slot != copy.primary_slot();
        self.is_known() && is_other(self.slot(0)) && is_other(self.slot(1))
    }
}

/// Whether a slot is as it was written.
fn is_whole(slot: &&[u8]) -> bool {
    slot[SLOT_SUM_AT..] == xxh3_128(&slot[..SLOT_SUM_AT]).to_le_bytes()
}
