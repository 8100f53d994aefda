//! One side of a comparison of two clusters.

use crate::error::PeerError;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::segments::TreeSize;
use quoit_riak::{RangeFilter, Tree};

/// Name of a bucket.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BucketName {
    /// Bucket type; `default` for untyped buckets.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
}

impl BucketName {
    /// The bucket type in the form of messages, which omit the default type.
    pub(crate) fn typed(&self) -> Option<Bytes> {
        (self.bucket_type != DEFAULT_BUCKET_TYPE).then(|| self.bucket_type.clone())
    }
}

/// A record with its clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordClock {
    /// Bucket.
    pub bucket: BucketName,
    /// Key.
    pub key: Bytes,
    /// Clock.
    pub clock: VersionVector,
}

/// A cluster that answers questions about its records.
pub trait Side: Send {
    /// Root of the tree over all records of buckets with this `n_val`.
    fn tree_root(&mut self, n_val: u32) -> impl Future<Output = Result<Bytes, PeerError>> + Send;

    /// Branches of this tree, each with its number.
    fn tree_branches(
        &mut self,
        n_val: u32,
        numbers: &[u32],
    ) -> impl Future<Output = Result<Vec<(u32, Bytes)>, PeerError>> + Send;

    /// Records in some segments of this tree, limited to last writes between two times in seconds since
    /// 1970.
    fn tree_clocks(
        &mut self,
        n_val: u32,
        segments: &[u32],
        modified_secs: Option<(u64, u64)>,
    ) -> impl Future<Output = Result<Vec<RecordClock>, PeerError>> + Send;

    /// A tree over the records of a bucket.
    fn range_tree(
        &mut self,
        bucket: &BucketName,
        size: TreeSize,
        filter: &RangeFilter,
    ) -> impl Future<Output = Result<Tree, PeerError>> + Send;

    /// Records of a bucket with their clocks.
    fn range_clocks(
        &mut self,
        bucket: &BucketName,
        filter: &RangeFilter,
    ) -> impl Future<Output = Result<Vec<RecordClock>, PeerError>> + Send;
}
