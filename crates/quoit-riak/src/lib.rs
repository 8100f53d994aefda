//! Riak's replication as pure values: hashes of clocks and the trees made of them, filters of folds, and the
//! bytes of what queues are asked for.
//!
//! A Riak 3 compares clusters by trees over all records, and fetches what differs from queues. All that has
//! to be equal to the bit is here; which records there are, who asks whom, and both protocols are elsewhere.
//! Nothing here does I/O or waits.
//!
//! ```
//! use quoit_model::{clock::VersionVector, key::BucketRef, segments::TreeSize};
//! use quoit_riak::{Tree, TreeEntry};
//!
//! let bucket = BucketRef::untyped(b"bucket");
//! let mut tree = Tree::empty(TreeSize::Small);
//! tree.toggle(TreeEntry::new(bucket, b"key", &VersionVector::default()));
//! assert_eq!(tree.root().len(), 256 * 4);
//! ```

mod clock_hash;
mod erlang_hash;
mod fetched;
mod filter;
mod tree;

#[cfg(test)]
mod recorded_tests;

pub use clock_hash::{TreeEntry, clock_hash, salted_clock_hash};
pub use fetched::{
    EMPTY_QUEUE_BODY, FetchAnswer, Fetched, FetchedError, INFLATED_BYTES_MAX, Replicated, check,
    checksum,
};
pub use filter::{
    CachedFilter, CachedFilterError, ChangeMethod, FilterError, RangeFilter, SegmentFilter,
    decode_base64, erlang_text,
};
pub use tree::{
    BRANCH_BYTES, Tree, TreeError, differing_branches, numbered_branch, split_numbered,
};
