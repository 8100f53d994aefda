//! Raises of a bucket's `n_val`, until the added primaries have all records of the bucket.
//!
//! 1. A decision raises the `n_val` of a bucket. From then on the state records how many of the first
//!    primaries have all records of the bucket. Reads treat the other primaries as fallbacks.
//! 2. Each member reports that it knows the raise: it writes to all primaries by the new number.
//! 3. When all members have reported that, each member hands over its records of the bucket to the added
//!    primaries, and reports when it has finished.
//! 4. When all members have reported that they have finished, the raise ends.
//!
//! Steps 3 and 4 do not wait for the reports of members that are marked as down. They do wait until such a
//! member has the records that it should get as an added primary.
//!
//! Until the raise ends, an added primary gives its events a passing actor, one that ends before the copy
//! can be removed. It may have been a primary before, and have lost its records of the bucket when it
//! ceased to be one. A new event of its store's own actor would claim to have seen all earlier events of
//! that actor, including those whose values the node no longer has.

use super::State;
use crate::NodeId;
use crate::layouts::MemberReport;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use std::sync::Arc;

/// A bucket, or the buckets of a type, with more replicas than are filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NValRaise {
    /// The bucket's type.
    pub bucket_type: Arc<[u8]>,
    /// The bucket; `None` for all buckets of the type that are not listed themselves.
    pub bucket: Option<Arc<[u8]>>,
    /// Number of first primaries that have all of the records.
    pub filled_n_val: u32,
    /// Version of the state in which the `n_val` was last raised.
    pub since: u64,
}

impl NValRaise {
    fn is_of(&self, bucket: BucketRef<'_>) -> bool {
        *self.bucket_type == *bucket.bucket_type && self.bucket.as_deref() == Some(bucket.bucket)
    }

    fn is_of_type(&self, bucket_type: &[u8]) -> bool {
        self.bucket.is_none() && *self.bucket_type == *bucket_type
    }
}

/// A member's report of its part in the raises, by versions of the state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RaiseReport {
    /// Version up to which the member knows the raises.
    pub known: u64,
    /// Version up to which it has handed over its records of the raised buckets.
    pub filled: u64,
}

/// A raise that a decision has made: the type, the bucket, and the former `n_val`.
pub(super) type Raised = (Arc<[u8]>, Option<Arc<[u8]>>, u32);

impl State {
    /// Returns the buckets whose `n_val` was raised and whose added primaries may lack records.
    #[must_use]
    pub fn raises(&self) -> &[NValRaise] {
        &self.raises
    }

    /// Returns the version of the state with the latest raise that has not ended; 0 if there is none.
    #[must_use]
    pub fn n_val_raised_at(&self) -> u64 {
        self.raises.iter().map(|raise| raise.since).max().unwrap_or_default()
    }

    /// Returns the number of first primaries that have all records of a bucket with this `n_val`. For the
    /// request path: one comparison while no raise is in progress.
    #[must_use]
    pub fn filled_n_val(&self, bucket: BucketRef<'_>, n_val: u32) -> u32 {
        if self.raises.is_empty() {
            return n_val;
        }
        self.raise_of(bucket).map_or(n_val, |raise| raise.filled_n_val.min(n_val))
    }

    /// Returns the raise that a bucket is part of.
    #[must_use]
    pub fn raise_of(&self, bucket: BucketRef<'_>) -> Option<&NValRaise> {
        let mut raises = self.raises.iter();
        let own = raises.clone().find(|raise| raise.is_of(bucket));
        own.or_else(|| raises.find(|raise| raise.is_of_type(bucket.bucket_type)))
    }

    /// Returns true if all members that are not marked as down have reported that they write by the raised
    /// numbers.
    #[must_use]
    pub fn all_know_raises(&self) -> bool {
        let n_val_raised_at = self.n_val_raised_at();
        self.all_present_tell(|served| served.raises_known >= n_val_raised_at)
    }

    /// Returns true if a member has reported as much as this report, or more.
    #[must_use]
    pub fn has_reported_raises(&self, member: NodeId, report: RaiseReport) -> bool {
        let served = self.layouts.served(member).unwrap_or_default();
        served.raises_known >= report.known && served.raises_filled >= report.filled
    }

    fn all_present_tell(&self, tells: impl Fn(MemberReport) -> bool) -> bool {
        let mut present = self.members.iter().filter(|member| !member.is_down);
        present.all(|member| tells(self.layouts.served(member.id).unwrap_or_default()))
    }

    /// Records the raises of a decision, in the version of the state that it leads to. If a single node
    /// holds everything, there is nothing to fill.
    pub(super) fn note_raises(&mut self, raised: Vec<Raised>) {
        let is_shared = self.layouts.is_moving() || self.layouts.newest().nodes().len() > 1;
        if raised.is_empty() || !is_shared {
            return;
        }
        let mut raises = self.raises.to_vec();
        for (bucket_type, bucket, before) in raised {
            let known = match &bucket {
                Some(bucket) => self.raise_of(BucketRef { bucket_type: &bucket_type, bucket }),
                None => self.raises.iter().find(|raise| raise.is_of_type(&bucket_type)),
            };
            // If an earlier raise has not ended, only the primaries from before it are filled.
            let filled_n_val = known.map_or(before, |known| known.filled_n_val.min(before));
            raises.retain(|raise| (&raise.bucket_type, &raise.bucket) != (&bucket_type, &bucket));
            raises.push(NValRaise { bucket_type, bucket, filled_n_val, since: self.version });
        }
        self.raises = Arc::new(raises);
    }

    /// Drops the raises that have ended: all members have handed over their records, or the `n_val` was
    /// lowered to the number of filled primaries.
    pub(super) fn settle_raises(&mut self) {
        if self.raises.is_empty() {
            return;
        }
        let is_open = |raise: &NValRaise| {
            let n_val = self.n_val_of(raise).unwrap_or_default();
            n_val > raise.filled_n_val
                && !self.all_present_tell(|served| served.raises_filled >= raise.since)
        };
        if self.raises.iter().all(is_open) {
            return;
        }
        let open = self.raises.iter().filter(|raise| is_open(raise)).cloned().collect();
        self.raises = Arc::new(open);
    }

    fn n_val_of(&self, raise: &NValRaise) -> Option<u32> {
        let bucket_type = &raise.bucket_type;
        match &raise.bucket {
            Some(bucket) => {
                self.bucket_props(BucketRef { bucket_type, bucket }).ok().map(|props| props.n_val)
            }
            None if **bucket_type == *DEFAULT_BUCKET_TYPE => None,
            None => self.bucket_type(bucket_type).map(|known| known.props.n_val),
        }
    }
}
