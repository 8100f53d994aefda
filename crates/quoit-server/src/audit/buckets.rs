//! Buckets for which every operation is recorded.

use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use std::collections::{HashMap, HashSet};
use std::str::FromStr;

/// Set of buckets for which every operation is recorded while security is on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AuditedBuckets {
    /// The chosen buckets by bucket type.
    types: HashMap<Box<[u8]>, BucketSelection>,
}

/// Chosen buckets of one bucket type.
#[derive(Clone, PartialEq, Eq, Debug)]
enum BucketSelection {
    All,
    Named(HashSet<Box<[u8]>>),
}

impl AuditedBuckets {
    /// True if no bucket was chosen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// True if operations on this bucket are recorded. Costs at most two lookups and no allocation.
    #[must_use]
    pub fn has(&self, bucket: BucketRef<'_>) -> bool {
        match self.types.get(bucket.bucket_type) {
            None => false,
            Some(BucketSelection::All) => true,
            Some(BucketSelection::Named(names)) => names.contains(bucket.bucket),
        }
    }
}

/// A text that does not name a bucket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` names no bucket: wanted BUCKET, TYPE/BUCKET or TYPE/*, several separated by commas")]
pub struct AuditedBucketsError(String);

impl FromStr for AuditedBuckets {
    type Err = AuditedBucketsError;

    /// Parses `BUCKET`, `TYPE/BUCKET` and `TYPE/*`, separated by commas.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut read = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let named = match part.split_once('/') {
                Some((bucket_type, bucket)) => (bucket_type.as_bytes(), bucket),
                None => (DEFAULT_BUCKET_TYPE, part),
            };
            match named {
                ([], _) | (_, "") => return Err(AuditedBucketsError(part.to_owned())),
                (bucket_type, "*") => {
                    read.types.insert(bucket_type.into(), BucketSelection::All);
                }
                (bucket_type, bucket) => {
                    let none = || BucketSelection::Named(HashSet::new());
                    let of_type = read.types.entry(bucket_type.into()).or_insert_with(none);
                    if let BucketSelection::Named(names) = of_type {
                        names.insert(bucket.as_bytes().into());
                    }
                }
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_chosen_by_name_by_type_and_name_and_by_type() {
        let chosen: AuditedBuckets = "carts, logs/a ,maps/*,maps/b".parse().expect("buckets");
        for (bucket_type, bucket, is_in) in [
            ("default", "carts", true),
            ("default", "a", false),
            ("logs", "a", true),
            ("logs", "carts", false),
            ("maps", "anything", true),
        ] {
            let named =
                BucketRef { bucket_type: bucket_type.as_bytes(), bucket: bucket.as_bytes() };
            assert_eq!(chosen.has(named), is_in, "{bucket}");
        }
        assert!(!AuditedBuckets::default().has(BucketRef::untyped(b"carts")));
        for bad in ["/b", "t/", "a,/"] {
            let fault = bad.parse::<AuditedBuckets>().expect_err(bad).to_string();
            assert!(fault.contains("TYPE/BUCKET"), "{fault}");
        }
    }
}
