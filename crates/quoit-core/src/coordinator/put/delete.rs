//! Coordination of deletes. A delete is a put of a tombstone. Without a context it deletes what a read
//! returns, so the coordinator first brings its own copy up to date.

use super::{Accepted, needs_another, primaries_only};
use crate::coordinator::Coordinator;
use crate::coordinator::change::{Changed, Context, ObjectChange};
use crate::coordinator::fence::Fence;
use crate::coordinator::precommit;
use crate::coordinator::write_replicas::SentForm;
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
use quoit_model::props::{BucketProps, Quorum, WriteQuorums};
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
    fn halves(&self, props: &BucketProps) -> (ReadOptions, WriteOptions) {
        let both = self.rw.unwrap_or(props.rw);
        let (mut read, mut write) = (self.read, self.write);
        if read.r.is_none() && write.w.is_none() {
            read.r = Some(both);
        }
        write.w = write.w.or(Some(both));
        (read, write)
    }
}

/// Result of a delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// A tombstone was written.
    Done,
    /// The record did not exist, and nothing was written.
    Missing,
}

/// Quorums of a delete that wrote nothing.
const NOTHING_ASKED: WriteQuorums = WriteQuorums { n_val: 1, w: 0, dw: 0, pw: 0, node_confirms: 0 };

impl Coordinator {
    /// As [`ReplicatedStore::delete`](crate::ReplicatedStore::delete).
    pub(crate) async fn delete(
        &self,
        request: &DeleteRequest<'_>,
    ) -> Result<Deleted, RequestError> {
        let _entered = self.admit_put()?;
        let topology = self.local.settled_topology(request.write.timeout_ms).await;
        if self.local.coordinates(&topology, request.key, &request.write) {
            let deleted = self.delete_here(Arc::clone(&topology), request).await;
            if topology.is_alone() || !needs_another(&deleted) {
                return deleted;
            }
            return match Box::pin(self.forward_delete(topology, request)).await {
                Err(RequestError::AllNodesDown) => deleted,
                forwarded => forwarded,
            };
        }
        Box::pin(self.forward_delete(topology, request)).await
    }

    /// Coordinates a delete on this node, and adds it to the request log.
    pub(crate) async fn delete_here(
        &self,
        topology: Arc<Topology>,
        request: &DeleteRequest<'_>,
    ) -> Result<Deleted, RequestError> {
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
    ) -> Result<Deleted, RequestError> {
        let mut fence = Fence::None;
        if request.context.is_none() || !request.precondition.is_none() {
            let (read, _) = request.halves(&*self.local.props_of(request.key)?);
            let read = ReadOptions { timeout_ms: request.write.timeout_ms, ..read };
            if !request.precondition.is_none() {
                fence = Box::pin(self.fence(&topology, request.key, &read)).await?;
            } else if !topology.is_alone() && !planted!(DeletesUnread) {
                Box::pin(self.refresh_own(request.key, &read)).await?;
            }
        }
        let encoded = request.key.encoded();
        let Fence::Required(mut held) = fence else {
            let accepted = self.accept_delete(&topology, request, &encoded)?;
            course.own_at_us = self.local.clock.monotonic_us();
            let written =
                self.confirm_all(topology, accepted, &request.write, &mut course.asked).await?;
            return Ok(if written.is_some() { Deleted::Done } else { Deleted::Missing });
        };
        let write = primaries_only(request.write);
        let request = DeleteRequest { write, ..request.clone() };
        let topology = Arc::clone(&held.topology);
        let mut accepted = self.accept_delete(&topology, &request, &encoded)?;
        course.own_at_us = self.local.clock.monotonic_us();
        if accepted.ticket.is_some() {
            accepted.require(held.use_up());
        }
        let written = self.confirm_all(topology, accepted, &write, &mut course.asked).await?;
        Ok(if written.is_some() { Deleted::Done } else { Deleted::Missing })
    }

    fn accept_delete<'a>(
        &self,
        topology: &Topology,
        request: &DeleteRequest<'a>,
        encoded: &'a [u8],
    ) -> Result<Accepted<'a>, RequestError> {
        request.key.check()?;
        let state = self.local.control.read();
        let props = object_props(&state, request.key.bucket)?;
        let at = record_at(&state, props, request.key, encoded);
        let (read, write) = request.halves(props);
        let quorums = precommit::run(props, None)
            .and_then(|()| self.write_quorums(topology, &at, props, &write));
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
        let refused = match (&quorums, &context) {
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
        let Changed { object, ticket, replicated } =
            self.change(&at, props, &change, replicates)?;
        if ticket.is_some() {
            self.hook.queue_written(
                &at,
                props,
                WrittenObject::of(replicated.as_ref(), object.as_ref()),
            );
        }
        let quorums = quorums.unwrap_or(NOTHING_ASKED);
        let sent = replicated.filter(|_| replicates).map(SentForm::Object);
        Ok(Accepted { at, quorums, object, ticket, sent })
    }
}
