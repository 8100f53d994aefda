//! The index: location and digest of each record, in memory, in 21 bytes.
//!
//! There is one [`PartitionIndex`] for each partition. It is a hash table in hash order. A directory of
//! extendible hashing (Fagin, Nievergelt, Pippenger, Strong: Extendible Hashing, 1979) over the highest
//! bits of a [`Tag`] leads to a group. A group keeps its entries in order in at most 16 pages of 64, and
//! grows page by page. The load stays above 8/9 at any size, entries are never rehashed, and growing copies
//! at most one group.
//!
//! The index has 40 bits of a record's identity, and not its key. [`PartitionIndex::candidates`] yields all
//! entries of a tag; the engine reads the records to find the right one. [`IndexEntry::collided`] is false
//! for an entry that is alone with its tag: a caller that knows that the record exists can use the entry
//! without reading the record. For a record that does not exist, a candidate is found by chance once in
//! 2^40 / `entry_count` lookups.
//!
//! `docs/design/index.md` gives the reasons.

mod entry;
mod group;
mod iter;
mod load;
mod page;
mod partition;
mod ranges;
mod slab;
mod summary;
#[cfg(test)]
mod tests;

pub use crate::tag::{N_VAL_CLASS_COUNT, TAG_BITS, Tag};
pub use entry::{ENTRY_BYTES, IndexEntry, Location, SizeClass};
pub use iter::{Candidates, Iter};
pub use load::RunError;
pub use partition::PartitionIndex;
pub(crate) use summary::{PartitionSummary, RecordContribution};
