//! Riak's replication formats as pure values: hashes of clocks, the trees made of them, filters of
//! folds, and the bytes of entries of queues.
//!
//! A Riak 3 node compares clusters by hash trees over all records, and fetches records that differ from
//! queues. This crate holds everything that has to agree with Riak bit by bit. Choosing the records,
//! the order of an exchange, and both protocols are elsewhere. No function here does I/O or waits.
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
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

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
