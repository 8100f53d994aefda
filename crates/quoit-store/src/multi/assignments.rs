//! Assignments of buckets to engines.

use quoit_model::key::BucketRef;
use std::collections::BTreeMap;

/// The engines that buckets should have: the property `backend` of the bucket types and buckets that have
/// one. All other buckets belong to the default engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assignments {
    /// Names of engines by bucket type.
    pub types: BTreeMap<Vec<u8>, String>,
    /// Names of engines by bucket type and bucket.
    pub buckets: BTreeMap<(Vec<u8>, Vec<u8>), String>,
}

impl Assignments {
    /// Name of the engine of a bucket; `None` for the default engine.
    pub(super) fn of(&self, bucket: BucketRef<'_>) -> Option<&str> {
        let own = (bucket.bucket_type.to_vec(), bucket.bucket.to_vec());
        let of_type = || self.types.get(bucket.bucket_type);
        self.buckets.get(&own).or_else(of_type).map(String::as_str)
    }
}

/// Source of the assignments. Requests call it.
pub trait Routing: Send + Sync {
    /// Version of the assignments: it differs whenever the assignments may differ. Cheap.
    fn version(&self) -> u64;

    /// The assignments.
    fn assignments(&self) -> Assignments;
}
