//! Coordination of deletes. A delete is a put of a tombstone. Without a context it deletes what a read
//! returns, so the coordinator first brings its own copy up to date.

use crate::coordinator::Coordinator;
use crate::coordinator::change::{Context, ObjectChange};
use crate::coordinator::fence::Fence;
use crate::coordinator::precommit;
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
use quoit_model::object::Metadata;
use quoit_model::props::{BucketProps, Quorum};
use quoit_planted::planted;
use std::sync::Arc;

/// A delete of one record.
#[derive(Clone, Debug)]
pub struct DeleteRequest<'a> {
    /// The record.
    pub key: KeyRef<'a>,
    /// Causal context of the client's last read; `None` to delete whatever is stored now.
    pub context: Option<VersionVector>,
    /// Conditions of the delete.
    pub precondition: Precondition,
    /// The old combined quorum of Riak: used for `r` and `w` where those are not given.
    pub rw: Option<Quorum>,
    /// Quorums of the read that precedes the write if there is no context.
    pub read: ReadOptions,
    /// Quorums of the write.
    pub write: WriteOptions,
}

impl<'a> DeleteRequest<'a> {
    /// A delete of whatever is stored, with the bucket's quorums.
    #[must_use]
    pub fn of(key: KeyRef<'a>) -> Self {
        Self {
            key,
            context: None,
            precondition: Precondition::default(),
            rw: None,
            read: ReadOptions::default(),
            write: WriteOptions::default(),
        }
    }

    /// The options of the read and of the write. The read uses `rw` only if neither `r` nor `w` was
    /// given; the write uses `w` if it was given, else `rw`.
    fn halves(&self, props: &BucketProps, mut write: WriteOptions) -> (ReadOptions, WriteOptions) {
        let both = self.rw.unwrap_or(props.rw);
        let mut read = self.read;
        if read.r.is_none() && write.w.is_none() {
            read.r = Some(both);
        }
        write.w = write.w.or(Some(both));
        (read, write)
    }
}

/// Result of a delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteOutcome {
    /// A tombstone was written.
    Done,
    /// The record did not exist, and nothing was written.
    Missing,
}

impl Coordinator {
    /// As [`ReplicatedStore::delete`](crate::ReplicatedStore::delete).
    pub(crate) async fn delete(
        &self,
        request: &DeleteRequest<'_>,
    ) -> Result<DeleteOutcome, RequestError> {
        let _entered = self.admit_put()?;
        let topology = self.local.settled_topology(request.write.timeout_ms).await;
        if topology.is_alone() {
            return self.delete_here(topology, request).await;
        }
        let has_vote = self.local.coordinates(&topology, request.key, &request.write);
        let here = || self.delete_here(Arc::clone(&topology), request);
        let forward = || self.forward_delete(Arc::clone(&topology), request);
        self.coordinate_or_forward(has_vote, here, forward).await
    }

    /// Coordinates a delete on this node, and adds it to the request log.
    pub(crate) async fn delete_here(
        &self,
        topology: Arc<Topology>,
        request: &DeleteRequest<'_>,
    ) -> Result<DeleteOutcome, RequestError> {
        let started_us = self.local.clock.monotonic_us();
        let mut course = RequestCourse { own_at_us: started_us, ..RequestCourse::default() };
        let result = self.delete_untimed(topology, request, &mut course).await;
        self.count_refusal(&result);
        let finished = Finished {
            kind: RequestKind::Delete,
            key: request.key,
            total_us: self.local.clock.monotonic_us() - started_us,
            own_us: course.own_at_us - started_us,
            size_bytes: 0,
            sibling_count: 0,
            failed: result.is_err(),
            asked: &course.asked,
        };
        self.request_log.note(&*self.local.clock, &finished);
        result
    }

    async fn delete_untimed(
        &self,
        topology: Arc<Topology>,
        request: &DeleteRequest<'_>,
        course: &mut RequestCourse,
    ) -> Result<DeleteOutcome, RequestError> {
        let mut fence = Fence::None;
        if request.context.is_none() || !request.precondition.is_none() {
            let props = self.local.props_of(request.key)?;
            let (read, _) = request.halves(&props, request.write);
            let read = ReadOptions { timeout_ms: request.write.timeout_ms, ..read };
            if !request.precondition.is_none() {
                fence = Box::pin(self.fence(&topology, request.key, &read)).await?;
            } else if !topology.is_alone() && !planted!(DeletesUnread) {
                Box::pin(self.refresh_own(request.key, &read)).await?;
            }
        }
        let encoded = request.key.encoded();
        let accept =
            |topology: &Topology, write| self.accept_delete(topology, request, write, &encoded);
        let written = self.write_fenced(topology, fence, request.write, accept, course).await?;
        Ok(if written.is_some() { DeleteOutcome::Done } else { DeleteOutcome::Missing })
    }

    fn accept_delete<'a>(
        &self,
        topology: &Topology,
        request: &DeleteRequest<'a>,
        write: WriteOptions,
        encoded: &'a [u8],
    ) -> Result<Accepted<'a>, RequestError> {
        request.key.check()?;
        let state = self.local.control.read();
        let props = object_props(&state, request.key.bucket)?;
        let at = record_at(&state, props, request.key, encoded);
        let (read, write) = request.halves(props, write);
        let targets = precommit::run(props, None)
            .and_then(|()| WriteTargets::of(topology, &at, props, &write));
        let context = match &request.context {
            Some(context) => {
                self.local.check_context(context)?;
                Context::Given(context)
            }
            None => {
                let sloppy = read.is_sloppy();
                self.check_read(topology, at.partition, &read.resolve(props)?, sloppy)?;
                Context::Stored
            }
        };
        let refused = match (&targets, &context) {
            (Err(fault), Context::Given(_)) => return Err(fault.clone()),
            // Hooks and quorums of the write matter only if the record exists, which the change finds out.
            (Err(fault), Context::Stored) => Some(fault.clone()),
            (Ok(_), _) => None,
        };
        let change = ObjectChange {
            given: None,
            precondition: &request.precondition,
            context,
            meta: Metadata::default(),
            value: Bytes::new(),
            tag: Bytes::new(),
            deleted: true,
            as_is: false,
            returns_object: false,
            refused,
        };
        let replicates = !topology.is_alone();
        let changed = self.change(&at, props, &change, replicates)?;
        if changed.ticket.is_some() {
            let written = WrittenObject::of(&changed);
            self.hook.queue_written(&at, props, written);
        }
        // If no nodes could be chosen, nothing was written.
        let targets = targets.unwrap_or_else(|_| WriteTargets::none());
        Ok(Accepted::of(topology, at, targets, changed))
    }
}
