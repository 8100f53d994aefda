//! Which engine each bucket shall have.

use quoit_model::key::BucketRef;
use std::collections::BTreeMap;

/// Which named engine each bucket shall have: the property `backend` of those bucket types and buckets that
/// have one. All others have the default engine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Assignments {
    /// Names of engines by bucket type.
    pub types: BTreeMap<Vec<u8>, String>,
    /// Names of engines by bucket type and bucket.
    pub buckets: BTreeMap<(Vec<u8>, Vec<u8>), String>,
}

impl Assignments {
    /// The name of the engine of a bucket; `None` = the default one.
    pub(super) fn of(&self, bucket: BucketRef<'_>) -> Option<&str> {
        let own = (bucket.bucket_type.to_vec(), bucket.bucket.to_vec());
        let of_type = || self.types.get(bucket.bucket_type);
        self.buckets.get(&own).or_else(of_type).map(String::as_str)
    }
}

/// Knows the assignment of buckets to engines. Asked on the request path.
pub trait Routing: Send + Sync {
    /// A number that is another one whenever the assignments may be others. Cheap.
    fn version(&self) -> u64;

    /// The assignments.
    fn assignments(&self) -> Assignments;
}
