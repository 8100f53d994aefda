//! The index: where each record is and what it is like, in memory, in 21 bytes.
//!
//! One [`PartitionIndex`] for each partition. It is a hash table in the order of the hashes: an
//! extendible-hashing directory (Fagin, Nievergelt, Pippenger, Strong: Extendible Hashing, 1979)
//! over the highest bits of a [`Tag`] leads to a group, a group keeps its entries in order over at
//! most 16 pages of 64, and grows page by page: the load stays above 8/9 at any size, nothing is
//! ever rehashed, and growing copies at most one group.
//!
//! The index knows 40 bits of a record's identity, not its key. [`PartitionIndex::candidates`]
//! yields all entries of a tag; the engine reads the records to tell them apart. An entry that is
//! alone with its tag is not marked as [`IndexEntry::collided`]: a caller that knows that the record
//! exists need not read it to know that the entry is its own. For a record that does not exist, a
//! candidate is found by chance once in 2^40 / `entry_count` lookups.
//!
//! `docs/design/index.md` has the reasons.

mod entry;
mod group;
mod iter;
mod load;
mod page;
mod partition;
mod ranges;
mod slab;
mod sums;
#[cfg(test)]
mod tests;

pub use crate::tag::{N_VAL_CLASS_COUNT, TAG_BITS, Tag};
pub use entry::{ENTRY_BYTES, IndexEntry, Location, SizeClass};
pub use iter::{Candidates, Iter};
pub use load::RunError;
pub use partition::PartitionIndex;
pub(crate) use sums::{Share, Sums};
