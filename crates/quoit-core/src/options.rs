//! Options of requests besides the operation itself.

use crate::error::{RequestError, Unmet};
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::object::Object;
use quoit_model::props::{
    BucketProps, Quorum, ReadParams, ReadQuorums, SyncOnWrite, WriteParams, WriteQuorums,
};
use quoit_planted::planted;

/// Options of a read. `None` = the bucket's property.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// Copies that must answer.
    pub r: Option<Quorum>,
    /// Primaries that must answer.
    pub pr: Option<Quorum>,
    /// Distinct nodes that must answer.
    pub node_confirms: Option<Quorum>,
    /// Replicas to look at, 1 to the bucket's n_val.
    pub n_val: Option<u32>,
    /// Give up on a majority of failures or misses.
    pub basic_quorum: Option<bool>,
    /// Whether a miss counts as an answer.
    pub notfound_ok: Option<bool>,
    /// Whether fallbacks may stand in; absent = true.
    pub sloppy_quorum: Option<bool>,
    /// Milliseconds until `timeout`; absent = 60 000.
    pub timeout_ms: Option<u32>,
}

/// Options of a write. `None` = the bucket's property.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// Copies that must be accepted: they survive the death of the process.
    pub w: Option<Quorum>,
    /// Copies that must be synced: they survive the death of the machine.
    pub dw: Option<Quorum>,
    /// Primaries among the accepted copies.
    pub pw: Option<Quorum>,
    /// Distinct nodes among the accepted copies.
    pub node_confirms: Option<Quorum>,
    /// Replicas to write, 1 to the bucket's n_val.
    pub n_val: Option<u32>,
    /// Whether fallbacks may stand in; absent = true.
    pub sloppy_quorum: Option<bool>,
    /// Overrides the bucket's `sync_on_write`; it can only strengthen `dw`.
    pub sync_on_write: Option<SyncOnWrite>,
    /// Milliseconds until `timeout`; absent = 60 000.
    pub timeout_ms: Option<u32>,
}

impl ReadOptions {
    /// Whether fallbacks may stand in for dead primaries.
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
    /// Whether fallbacks may stand in for dead primaries.
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
    /// Whether one of the tags is the object's.
    #[must_use]
    pub fn matches(&self, object: &Object) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.contains(&object.etag()),
        }
    }
}

/// Conditions of a write, checked in one step with it. All that are given must hold; a tombstone counts
/// as missing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Precondition {
    /// The record must not exist.
    pub not_exists: bool,
    /// The record must have exactly this clock.
    pub clock: Option<VersionVector>,
    /// None of the tags may be the record's.
    pub none_match: Option<EntityTags>,
    /// One of the tags must be the record's.
    pub any_match: Option<EntityTags>,
    /// The record must not have been written after this second (since 1970).
    pub unmodified_since_secs: Option<u64>,
}

impl Precondition {
    /// Whether there is nothing to check.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the conditions against what is stored.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold, in the order of the fields of HTTP and then of this struct.
    pub fn check(&self, stored: Option<&Object>) -> Result<(), Unmet> {
        let live = stored.filter(|object| !object.is_tombstone());
        if self.not_exists && live.is_some() {
            return Err(Unmet::Exists);
        }
        if let Some(tags) = &self.any_match
            && !live.is_some_and(|object| tags.matches(object))
        {
            return Err(Unmet::Http);
        }
        if let (Some(since), Some(object)) = (self.unmodified_since_secs, live)
            && object.last_modified_us() / 1_000_000 > since
        {
            return Err(Unmet::Http);
        }
        if let (Some(tags), Some(object)) = (&self.none_match, live)
            && tags.matches(object)
        {
            return Err(Unmet::Http);
        }
        let is_version = |object: &Object, clock: &VersionVector| {
            object.clock == *clock || planted!(AcceptsNewerVersions) && object.clock.descends(clock)
        };
        match (&self.clock, live) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(Unmet::Missing),
            (Some(clock), Some(object)) if is_version(object, clock) => Ok(()),
            (Some(_), Some(_)) => Err(Unmet::Modified),
        }
    }
}
