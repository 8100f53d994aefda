//! Buckets that got more replicas, until the nodes that became primaries have all of their records.
//!
//! 1. A decision raises a bucket's `n_val`. From then on the state tells how many first primaries have all
//!    records of the bucket; reads count the others like fallbacks.
//! 2. Each member tells that it knows: it writes by the new number.
//! 3. When all have told so, each member hands over what it has of the bucket, and tells that it has.
//! 4. When all have told that as well, the raise is over.
//!
//! Nobody waits for the word of members that are marked as down; all wait until those members have their
//! copies.
//!
//! Until then the new primaries make no events that their stores go on with: they may have been primaries
//! before, and an event of theirs would claim to have seen what was removed since.

use super::State;
use crate::NodeId;
use crate::layouts::Served;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use std::sync::Arc;

/// A bucket, or the buckets of a type, with more replicas than have been filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RaisedCount {
    /// The bucket's type.
    pub bucket_type: Arc<[u8]>,
    /// The bucket; `None` for all buckets of the type that are not named themselves.
    pub bucket: Option<Arc<[u8]>>,
    /// So many first primaries have all of the records.
    pub filled_n_val: u32,
    /// Version of the state in which the number was raised last.
    pub since: u64,
}

impl RaisedCount {
    fn is_of(&self, bucket: BucketRef<'_>) -> bool {
        *self.bucket_type == *bucket.bucket_type && self.bucket.as_deref() == Some(bucket.bucket)
    }

    fn is_of_type(&self, bucket_type: &[u8]) -> bool {
        self.bucket.is_none() && *self.bucket_type == *bucket_type
    }
}

/// A raise that a decision has made: the type, the bucket, and the number before.
pub(super) type Raised = (Arc<[u8]>, Option<Arc<[u8]>>, u32);

impl State {
    /// Buckets whose `n_val` was raised and whose new primaries may lack records.
    #[must_use]
    pub fn raises(&self) -> &[RaisedCount] {
        &self.raises
    }

    /// The version of the state in which a bucket got more replicas last that are not filled; 0: none is.
    #[must_use]
    pub fn raised_at(&self) -> u64 {
        self.raises.iter().map(|raise| raise.since).max().unwrap_or_default()
    }

    /// How many first primaries have all records of a bucket with this `n_val`. For the request path: one
    /// comparison while no bucket was raised lately.
    #[must_use]
    pub fn filled_n_val(&self, bucket: BucketRef<'_>, n_val: u32) -> u32 {
        if self.raises.is_empty() {
            return n_val;
        }
        self.raise_of(bucket).map_or(n_val, |raise| raise.filled_n_val.min(n_val))
    }

    /// The raise that a bucket is part of.
    #[must_use]
    pub fn raise_of(&self, bucket: BucketRef<'_>) -> Option<&RaisedCount> {
        let mut raises = self.raises.iter();
        let own = raises.clone().find(|raise| raise.is_of(bucket));
        own.or_else(|| raises.find(|raise| raise.is_of_type(bucket.bucket_type)))
    }

    /// Whether all members that are not marked as down write by the raised numbers.
    #[must_use]
    pub fn all_know_raises(&self) -> bool {
        let raised_at = self.raised_at();
        self.all_present_tell(|served| served.raises_known >= raised_at)
    }

    /// Whether a member has told that it knows what was raised, and of what it has handed over all that it
    /// had.
    #[must_use]
    pub fn has_told_raises(&self, member: NodeId, known: u64, filled: u64) -> bool {
        let served = self.layouts.served(member).unwrap_or_default();
        served.raises_known >= known && served.raises_filled >= filled
    }

    fn all_present_tell(&self, tells: impl Fn(Served) -> bool) -> bool {
        let mut present = self.members.iter().filter(|member| !member.is_down);
        present.all(|member| tells(self.layouts.served(member.id).unwrap_or_default()))
    }

    /// Notes what a decision has raised, in the version that it has led to. Where one node holds everything
    /// there is nothing to fill.
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
            let filled_n_val = known.map_or(before, |known| known.filled_n_val.min(before));
            raises.retain(|raise| (&raise.bucket_type, &raise.bucket) != (&bucket_type, &bucket));
            raises.push(RaisedCount { bucket_type, bucket, filled_n_val, since: self.version });
        }
        self.raises = Arc::new(raises);
    }

    /// Forgets raises that are over: all members have handed over what they had, or the bucket has no more
    /// replicas than are filled.
    pub(super) fn settle_raises(&mut self) {
        if self.raises.is_empty() {
            return;
        }
        let is_open = |raise: &RaisedCount| {
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

    fn n_val_of(&self, raise: &RaisedCount) -> Option<u32> {
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
