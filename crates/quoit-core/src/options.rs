//! Options and conditions of requests.

use crate::error::{RequestError, UnmetCondition};
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::object::Object;
use quoit_model::props::{
    BucketProps, Quorum, ReadParams, ReadQuorums, SyncOnWrite, WriteParams, WriteQuorums,
};
use quoit_planted::planted;

/// Options of a read. `None` means the bucket's property.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Replicas that must answer.
    pub r: Option<Quorum>,
    /// Primaries that must be among them.
    pub pr: Option<Quorum>,
    /// Distinct nodes that must be among them.
    pub node_confirms: Option<Quorum>,
    /// Number of replicas to use, from 1 to the bucket's n_val.
    pub n_val: Option<u32>,
    /// If true and `notfound_ok` is false, a majority of "not found" answers ends the read.
    pub basic_quorum: Option<bool>,
    /// If true, "not found" counts as an answer.
    pub notfound_ok: Option<bool>,
    /// If true, fallbacks may answer for primaries that are down. `None` means true.
    pub sloppy_quorum: Option<bool>,
    /// Milliseconds after which the read fails with `timeout`. `None` means 60 000.
    pub timeout_ms: Option<u32>,
}

/// Options of a write. `None` means the bucket's property.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Replicas that must accept the write, so that it survives the death of their processes.
    pub w: Option<Quorum>,
    /// Replicas that must sync the write, so that it survives the death of their machines.
    pub dw: Option<Quorum>,
    /// Primaries that must be among the accepting replicas.
    pub pw: Option<Quorum>,
    /// Distinct nodes that must be among the accepting replicas.
    pub node_confirms: Option<Quorum>,
    /// Number of replicas to write, from 1 to the bucket's n_val.
    pub n_val: Option<u32>,
    /// If true, fallbacks may take the write for primaries that are down. `None` means true.
    pub sloppy_quorum: Option<bool>,
    /// Overrides the bucket's `sync_on_write`; it can only strengthen `dw`.
    pub sync_on_write: Option<SyncOnWrite>,
    /// Milliseconds after which the write fails with `timeout`. `None` means 60 000.
    pub timeout_ms: Option<u32>,
}

impl ReadOptions {
    /// True if fallbacks may answer for primaries that are down.
    pub(crate) fn is_sloppy(&self) -> bool {
        self.sloppy_quorum != Some(false)
    }

    /// The parameters that are combined with the bucket's properties.
    #[must_use]
    pub const fn params(&self) -> ReadParams {
        ReadParams {
            n_val: self.n_val,
            r: self.r,
            pr: self.pr,
            node_confirms: self.node_confirms,
            basic_quorum: self.basic_quorum,
            notfound_ok: self.notfound_ok,
        }
    }

    /// Fills in the bucket's properties and checks every quorum against the number of replicas.
    pub(crate) fn resolve(&self, props: &BucketProps) -> Result<ReadQuorums, RequestError> {
        Ok(props.read_quorums(&self.params())?)
    }
}

impl WriteOptions {
    /// True if fallbacks may take the write for primaries that are down.
    pub(crate) fn is_sloppy(&self) -> bool {
        self.sloppy_quorum != Some(false)
    }

    /// The parameters that are combined with the bucket's properties.
    #[must_use]
    pub const fn params(&self) -> WriteParams {
        WriteParams {
            n_val: self.n_val,
            w: self.w,
            dw: self.dw,
            pw: self.pw,
            node_confirms: self.node_confirms,
        }
    }

    /// Fills in the bucket's properties and checks every quorum against the number of replicas.
    pub(crate) fn resolve(&self, props: &BucketProps) -> Result<WriteQuorums, RequestError> {
        let mut quorums = props.write_quorums(&self.params())?;
        // The property can only strengthen what the request asks for.
        match self.sync_on_write.unwrap_or(props.sync_on_write) {
            SyncOnWrite::Backend => {}
            SyncOnWrite::One => quorums.dw = quorums.dw.max(1),
            SyncOnWrite::All => quorums.dw = quorums.dw.max(quorums.w).max(1),
        }
        Ok(quorums)
    }
}

/// Entity tags of an HTTP condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntityTags {
    /// `*`: any existing object.
    Any,
    /// These tags, without quotes.
    Tags(Vec<Bytes>),
}

impl EntityTags {
    /// True if the object exists and one of the tags is its entity tag.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.contains(&object.etag()),
        }
    }
}

/// Conditions of a write, checked in one step with it, under the record's lock. All conditions that are
/// given must hold. A tombstone counts as a missing record.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Precondition {
    /// The record must not exist.
    pub not_exists: bool,
    /// The record must exist with exactly this version vector.
    pub clock: Option<VersionVector>,
    /// The record must not have any of these entity tags.
    pub none_match: Option<EntityTags>,
    /// The record must have one of these entity tags.
    pub any_match: Option<EntityTags>,
    /// The record must not have been written after this time, in seconds since 1970. A missing record
    /// passes.
    pub unmodified_since_secs: Option<u64>,
}

impl Precondition {
    /// True if no condition is given.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the conditions against the stored object.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold: first `not_exists`, then the HTTP conditions in the order
    /// of RFC 9110 (If-Match, If-Unmodified-Since, If-None-Match), then `clock`. As in Riak,
    /// If-Unmodified-Since counts beside an If-Match, too; RFC 9110 ignores it there.
    pub fn check(&self, stored: Option<&Object>) -> Result<(), UnmetCondition> {
        let live = stored.filter(|object| !object.is_tombstone());
        if self.not_exists && live.is_some() {
            return Err(UnmetCondition::Exists);
        }
        if let Some(tags) = &self.any_match
            && !live.is_some_and(|object| tags.matches(object))
        {
            return Err(UnmetCondition::Http);
        }
        if let (Some(since), Some(object)) = (self.unmodified_since_secs, live)
            && object.last_modified_us() / 1_000_000 > since
        {
            return Err(UnmetCondition::Http);
        }
        if let (Some(tags), Some(object)) = (&self.none_match, live)
            && tags.matches(object)
        {
            return Err(UnmetCondition::Http);
        }
        let is_version = |object: &Object, clock: &VersionVector| {
            object.clock == *clock || planted!(AcceptsNewerVersions) && object.clock.descends(clock)
        };
        match (&self.clock, live) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(UnmetCondition::Missing),
            (Some(clock), Some(object)) if is_version(object, clock) => Ok(()),
            (Some(_), Some(_)) => Err(UnmetCondition::Modified),
        }
    }
}
