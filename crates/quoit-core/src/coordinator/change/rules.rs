//! Rules of a change, by the settings of the bucket and the node: limits, times, events, and merge
//! policies.

use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::write_clock::time_after;
use quoit_model::clock::Dot;
use quoit_model::key::KeyRef;
use quoit_model::merge::WritePolicy;
use quoit_model::object::Object;
use quoit_model::props::BucketProps;
use quoit_model::prune::PruneLimits;
use quoit_number::length_u32;
use quoit_store::engine::RecordAt;
use quoit_store::error::StoreError;

impl Coordinator {
    /// Refuses an object with too many siblings.
    pub(crate) fn check_siblings(&self, object: &Object) -> Result<(), RequestError> {
        let sibling_count = length_u32(object.siblings.len());
        match sibling_count > self.local.settings.limits.sibling_count_max {
            true => Err(RequestError::TooManySiblings(sibling_count)),
            false => Ok(()),
        }
    }

    /// Makes the event of a write to this node's copy of a record. A copy that this node does not keep
    /// gets an event of a passing actor
    /// ([`DotSequence::issue_passing`](crate::DotSequence::issue_passing)). Called under the record's
    /// lock, because the answer to whether the copy is kept must not change in between.
    pub(crate) fn issue_dot(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        time_secs: u64,
    ) -> Result<Dot, StoreError> {
        let topology = self.local.topology_now();
        let keeps = topology.is_alone() || {
            let replicas = self.local.replicas_by(&topology, at.encoded, props.n_val);
            topology.keeps(at.partition, replicas)
        };
        match keeps {
            true => self.local.dots.issue(time_secs),
            false => self.local.dots.issue_passing(at.partition, time_secs),
        }
    }

    /// The time of a write that replaces a value with the time `replaced_us` (0 if there is none), in
    /// microseconds.
    pub(crate) fn write_time_us(&self, policy: WritePolicy, replaced_us: u64) -> u64 {
        let clock_us = self.local.clock.unix_us();
        match policy {
            WritePolicy::LastWriteWins => self.write_clock.next(clock_us, replaced_us),
            _ => time_after(clock_us, [replaced_us]),
        }
    }

    /// Seconds after which the bucket's objects expire; `None` for never. The property 0 means never,
    /// whatever the node's default.
    pub(crate) fn ttl_secs(&self, props: &BucketProps) -> Option<u32> {
        match props.ttl_secs {
            Some(0) => None,
            Some(ttl_secs) => Some(ttl_secs),
            None => self.local.settings.ttl_secs_default,
        }
    }

    /// Refuses an object that is too large, and logs a warning for a large one.
    pub(crate) fn check_size(&self, key: KeyRef<'_>, size_bytes: u64) -> Result<(), RequestError> {
        let limits = &self.local.settings.limits;
        if size_bytes > limits.object_size_bytes_max {
            return Err(RequestError::ObjectTooLarge { size_bytes });
        }
        if size_bytes > limits.object_size_bytes_warning {
            tracing::warn!(
                bucket = %String::from_utf8_lossy(key.bucket.bucket),
                key = %String::from_utf8_lossy(key.key),
                size_bytes,
                "large object written"
            );
        }
        Ok(())
    }

    /// Logs a warning for an object with many siblings.
    pub(crate) fn warn_if_many(&self, key: KeyRef<'_>, object: &Object) {
        let limits = &self.local.settings.limits;
        if object.siblings.len() > limits.sibling_count_warning as usize {
            tracing::warn!(
                bucket = %String::from_utf8_lossy(key.bucket.bucket),
                key = %String::from_utf8_lossy(key.key),
                sibling_count = object.siblings.len(),
                "object with many siblings written"
            );
        }
    }
}

/// Merge policy for writes of a bucket.
pub(crate) fn policy(props: &BucketProps, deleted: bool) -> WritePolicy {
    // A delete of a write-once record is an ordinary write with a context.
    if props.is_write_once() && !deleted {
        WritePolicy::WriteOnce
    } else if props.last_write_wins {
        WritePolicy::LastWriteWins
    } else if props.allow_mult {
        WritePolicy::Siblings
    } else {
        WritePolicy::LatestModified
    }
}

pub(super) fn prune_limits(props: &BucketProps) -> PruneLimits {
    PruneLimits {
        small_entries: props.small_vclock,
        big_entries: props.big_vclock,
        young_secs: props.young_vclock,
        old_secs: props.old_vclock,
    }
}

/// Second since 1970 at which a value expires that was written at `now_us`.
pub(crate) fn expiry(now_us: u64, ttl_secs: u32) -> u32 {
    u32::try_from(now_us / 1_000_000 + u64::from(ttl_secs)).unwrap_or(u32::MAX)
}
