//! The replica's side of an update of a data type: joins the delta that the coordinator made into its own
//! copy ([`Records::join`](crate::records::Records::join)).

use super::{ApplyOutcome, DecodedDelta, JoinOutcome, Replica, Replicated};
use crate::error::RequestError;
use quoit_store::engine::{IoMode, RecordAt};

impl Replica {
    /// Joins a delta into this node's copy.
    pub(crate) fn join_copy(
        &self,
        at: &RecordAt<'_>,
        joining: &DecodedDelta,
        access: IoMode,
    ) -> Result<JoinOutcome, RequestError> {
        let admitted = |object: &Replicated| self.admitted(at, object, access);
        let joined = self.local.records.join(at, joining, access, &admitted)?;
        if matches!(joined, JoinOutcome::Done(ApplyOutcome::Written(..))) {
            self.note_written(at.partition, at.encoded);
        }
        Ok(joined)
    }
}
