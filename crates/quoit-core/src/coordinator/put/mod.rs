//! Coordination of puts.
//!
//! 1. A node without a vote for the record forwards the put. So does a node whose copy is damaged or
//!    whose disk is full; it has written nothing then ([`needs_another`]).
//! 2. A put with conditions first brings this node's copy up to date, under grants of the primaries if
//!    the bucket asks for them (`fence.rs`).
//! 3. The coordinator decides the change and appends it to its log, in one step under the record's lock
//!    (`change/mod.rs`).
//! 4. It sends the object to the other replicas and waits until the quorums are met in every live layout
//!    (`write_replicas/mod.rs`).
//!
//! A write whose quorum is not met in time stays stored on the replicas that have taken it.

mod delete;

pub use delete::{DeleteOutcome, DeleteRequest};

use crate::coordinator::Coordinator;
use crate::coordinator::change::{Context, ObjectChange, expiry};
use crate::coordinator::fence::Fence;
use crate::coordinator::get::resolve;
use crate::coordinator::write_replicas::{Accepted, WriteTargets};
use crate::error::RequestError;
use crate::options::{Precondition, ReadOptions, WriteOptions};
use crate::placement::{object_props, record_at};
use crate::replica::WrittenObject;
use crate::request_log::{Finished, RequestCourse, RequestKind};
use crate::topology::Topology;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::key::KeyRef;
use quoit_model::object::{Metadata, Object};
use quoit_model::props::BucketProps;
use quoit_store::error::StoreError;
use std::mem;
use std::sync::Arc;

/// A put of one value, or of a whole object that was made elsewhere.
#[derive(Clone, Debug)]
pub struct PutRequest<'a> {
    /// The record.
    pub key: KeyRef<'a>,
    /// Causal context of the client's last read; empty if it has read nothing.
    pub context: VersionVector,
    /// Metadata of the value.
    pub meta: Metadata,
    /// The value.
    pub value: Bytes,
    /// True if the put writes a tombstone in place of a value.
    pub deleted: bool,
    /// Store the value with the context as its version vector, without a new event (`asis`).
    pub as_is: bool,
    /// Conditions of the write.
    pub precondition: Precondition,
    /// True if the object after the write is to be returned.
    pub return_object: bool,
    /// Quorums and limits.
    pub options: WriteOptions,
    /// A fault that the protocol found in the value, in the client's words. The put fails with it if the
    /// request has no other fault.
    pub vetoed: Option<String>,
    /// Entity tag of the value; if it is empty, the coordinator makes one from the write's event. A node
    /// that forwards a put chooses the tag, so that the value counts as one even if two nodes coordinate
    /// the put.
    pub tag: Bytes,
    /// A whole object that was made elsewhere, which is merged with the stored one, without a new event,
    /// in place of a value. Its version vector is the context.
    pub given: Option<Object>,
}

impl<'a> PutRequest<'a> {
    /// A put of a value by a client that has read nothing, with the bucket's quorums.
    #[must_use]
    pub fn of(key: KeyRef<'a>, value: Bytes) -> Self {
        Self {
            key,
            context: VersionVector::default(),
            meta: Metadata::default(),
            value,
            deleted: false,
            as_is: false,
            precondition: Precondition::default(),
            return_object: false,
            options: WriteOptions::default(),
            vetoed: None,
            tag: Bytes::new(),
            given: None,
        }
    }

    /// A put of a whole object that was made elsewhere, as imports and replication bring it.
    #[must_use]
    pub fn given(key: KeyRef<'a>, object: Object) -> Self {
        let context = object.clock.clone();
        Self { context, as_is: true, given: Some(object), ..Self::of(key, Bytes::new()) }
    }
}

impl Coordinator {
    /// As [`ReplicatedStore::put`](crate::ReplicatedStore::put).
    pub(crate) async fn put(
        &self,
        request: &mut PutRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let _entered = self.admit_put()?;
        // An object from elsewhere was checked by the node that wrote it.
        if request.given.is_none() {
            let value = (!request.deleted).then_some(&*request.value);
            self.run_precommit(request.key.bucket, value)?;
        }
        let topology = self.local.settled_topology(request.options.timeout_ms).await;
        if topology.is_alone() {
            return self.timed_put_here(topology, request).await;
        }
        let request = &*request;
        let has_vote = self.local.coordinates(&topology, request.key, &request.options);
        let here = || async {
            // Boxed, because a task that may make a put has space for each request that it holds.
            let mut own = Box::new(request.clone());
            self.timed_put_here(Arc::clone(&topology), &mut own).await
        };
        let forward = || self.forward_put(Arc::clone(&topology), request);
        self.coordinate_or_forward(has_vote, here, forward).await
    }

    /// Coordinates a put on this node, and adds it to the statistics and the request log. Takes the value
    /// and its metadata out of the request, which is large and would be copied on each level otherwise.
    pub(crate) async fn timed_put_here(
        &self,
        topology: Arc<Topology>,
        request: &mut PutRequest<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let started_us = self.local.clock.monotonic_us();
        let (key, kind) = (request.key, RequestKind::Put);
        let size_bytes = request.value.len() as u64;
        let mut course = RequestCourse { own_at_us: started_us, ..RequestCourse::default() };
        let result = self.put_here(topology, request, &mut course).await;
        let total_us = self.local.clock.monotonic_us() - started_us;
        self.local.stats.record_put(total_us, &result);
        let own_us = course.own_at_us - started_us;
        let stored = result.as_ref().ok().and_then(Option::as_ref);
        let sibling_count = stored.map_or(0, |object| object.siblings.len() as u64);
        let (failed, asked) = (result.is_err(), &course.asked);
        let finished =
            Finished { kind, key, total_us, own_us, size_bytes, sibling_count, failed, asked };
        self.request_log.note(&*self.local.clock, &finished);
        result
    }

    /// Notes in `course` when this node's own copy was written and which nodes were asked.
    async fn put_here(
        &self,
        topology: Arc<Topology>,
        request: &mut PutRequest<'_>,
        course: &mut RequestCourse,
    ) -> Result<Option<Object>, RequestError> {
        let return_object = request.return_object;
        let fence = if request.precondition.is_none() {
            Fence::None
        } else {
            // Conditions refer to what a read would return, and this node's copy may be older than that.
            let read = ReadOptions {
                n_val: request.options.n_val,
                sloppy_quorum: request.options.sloppy_quorum,
                timeout_ms: request.options.timeout_ms,
                ..ReadOptions::default()
            };
            Box::pin(self.fence(&topology, request.key, &read)).await?
        };
        let (encoded, options) = (request.key.encoded(), request.options);
        let accept = |topology: &Topology, options| {
            request.options = options;
            self.accept_put(topology, request, &encoded)
        };
        let written = self.write_fenced(topology, fence, options, accept, course).await?;
        Ok(written.filter(|_| return_object))
    }

    /// Decides a write with `accept`, under grants if the fence requires them, and waits until its quorums
    /// are met. `accept` gets the options of the write and the topology by which its nodes are chosen.
    async fn write_fenced<'a>(
        &self,
        topology: Arc<Topology>,
        mut fence: Fence<'_>,
        options: WriteOptions,
        accept: impl FnOnce(&Topology, WriteOptions) -> Result<Accepted<'a>, RequestError>,
        course: &mut RequestCourse,
    ) -> Result<Option<Object>, RequestError> {
        let (topology, options) = match &fence {
            // Grants belong to the topology by which they were requested.
            Fence::Required(held) => (Arc::clone(&held.topology), primaries_only(options)),
            Fence::None | Fence::Preferred { .. } => (topology, options),
        };
        let mut accepted = accept(&topology, options)?;
        course.own_at_us = self.local.clock.monotonic_us();
        if let Fence::Required(held) = &mut fence
            && accepted.own.ticket().is_some()
        {
            accepted.require(held.use_up());
        }
        // The fence lasts until the write is confirmed.
        self.confirm_all(topology, accepted, options.timeout_ms, &mut course.asked).await
    }

    /// Does everything of a put except waiting for the sync and for other nodes. Takes the value and its
    /// metadata out of the request.
    pub(crate) fn accept_put<'a, 'k: 'a>(
        &self,
        topology: &Topology,
        request: &mut PutRequest<'k>,
        encoded: &'a [u8],
    ) -> Result<Accepted<'a>, RequestError> {
        request.key.check()?;
        self.local.check_context(&request.context)?;
        if let Some(clock) = &request.precondition.clock {
            self.local.check_context(clock)?;
        }
        let state = self.local.control.read();
        let props = object_props(&state, request.key.bucket)?;
        let at = record_at(&state, props, request.key, encoded);
        if request.precondition.clock.is_some() {
            // The version in the condition came from a read, so the quorums of a read must be possible.
            let read = ReadOptions { n_val: request.options.n_val, ..ReadOptions::default() };
            self.check_read(topology, at.partition, &read.resolve(props)?, true)?;
        }
        let targets = WriteTargets::of(topology, &at, props, &request.options);
        let mut given = request.given.take();
        given.as_mut().map_or(Ok(()), |object| self.adopt(object, props))?;
        let change = ObjectChange {
            given,
            precondition: &request.precondition,
            context: Context::Given(&request.context),
            meta: mem::take(&mut request.meta),
            value: mem::take(&mut request.value),
            tag: mem::take(&mut request.tag),
            deleted: request.deleted,
            as_is: request.as_is,
            returns_object: request.return_object,
            // A condition that fails is reported before a quorum, and a quorum before a fault of the
            // value.
            refused: match &targets {
                Err(fault) => Some(fault.clone()),
                Ok(_) => request.vetoed.take().map(RequestError::Vetoed),
            },
        };
        let replicates = !topology.is_alone();
        let mut changed = self.change(&at, props, &change, replicates)?;
        if changed.ticket.is_some() {
            let written = WrittenObject::of(&changed);
            match change.as_is {
                // The value comes from another cluster or from an import, so it is not queued for other
                // clusters.
                true => self.hook.note_change(&at, props, &written),
                false => self.hook.queue_written(&at, props, written),
            }
        }
        changed.object = changed.object.map(|object| resolve(object, props));
        Ok(Accepted::of(topology, at, targets?, changed))
    }

    /// Adapts an object from elsewhere to the bucket: data types in Riak's form become states, and values
    /// without an expiry get the bucket's `ttl`, counted from their own last-write time.
    pub(crate) fn adopt(
        &self,
        object: &mut Object,
        props: &BucketProps,
    ) -> Result<(), RequestError> {
        object
            .adopt_riak_data_type(props.datatype)
            .map_err(|fault| RequestError::Vetoed(fault.to_string()))?;
        if let Some(ttl_secs) = self.ttl_secs(props) {
            for sibling in object.siblings.iter_mut().filter(|sibling| !sibling.deleted) {
                if sibling.meta.expires_at_secs.is_none() {
                    sibling.meta.expires_at_secs = Some(expiry(sibling.last_modified_us, ttl_secs));
                    // The values that it has replaced elsewhere are not known here.
                    sibling.meta.replaces = true;
                }
            }
        }
        Ok(())
    }
}

/// True if a write failed for a reason that only this node has, and wrote nothing, so that another
/// replica should coordinate it. One reason is a full disk. The other is a damaged copy: a coordinator
/// with a damaged copy would claim to have seen events that it has lost. The write of the other
/// coordinator replaces the damaged copy when it arrives here.
pub(crate) fn needs_another<T>(result: &Result<T, RequestError>) -> bool {
    let Err(RequestError::Store(fault)) = result else { return false };
    matches!(fault, StoreError::Corrupt { .. } | StoreError::DiskFull { .. })
}

/// Options of a write that goes to all primaries of the record and to no fallback.
const fn primaries_only(options: WriteOptions) -> WriteOptions {
    WriteOptions { n_val: None, sloppy_quorum: Some(false), ..options }
}
