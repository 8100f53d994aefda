//! The replica's side of an update of a data type: joins the delta that the coordinator made into its own
//! copy ([`Records::join`](crate::records::Records::join)).

use super::{ApplyOutcome, Joined, Joining, Replica, Replicated};
use crate::error::RequestError;
use bytes::Bytes;
use quoit_store::engine::{Access, RecordAt};

/// Delta of an operation on a data type, encoded for replicas.
#[derive(Clone, Debug)]
pub(crate) struct SentDelta {
    /// Number of replicas of the record's bucket, capped at 15.
    pub(crate) n_val_class: u8,
    /// Time of the operation, in microseconds since 1970.
    pub(crate) last_modified_us: u64,
    /// The encoded delta.
    pub(crate) delta: Bytes,
    /// True if the operation also removed tombstones that stood beside the state. The delta does not
    /// carry that. Replicas notice it when they compare their copies; other clusters do not, so the delta
    /// is not queued for them.
    pub(crate) has_dropped_tombstones: bool,
}

impl Replica {
    /// Joins a delta into this node's copy.
    pub(crate) fn join_copy(
        &self,
        at: &RecordAt<'_>,
        joining: &Joining,
        access: Access,
    ) -> Result<Joined, RequestError> {
        let admitted = |object: &Replicated| self.admitted(at, object, access);
        let joined = self.local.records.join(at, joining, access, &admitted)?;
        if matches!(joined, Joined::Done(ApplyOutcome::Written(..))) {
            self.note_written(at.partition, at.encoded);
        }
        Ok(joined)
    }
}
