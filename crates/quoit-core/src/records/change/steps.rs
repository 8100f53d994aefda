//! Steps of a change that belong to the surrounding coordinator.

use super::decided::{DecidedChange, RecordState};
use crate::error::RequestError;
use quoit_model::data_type::Operation;
use quoit_model::object::Object;
use quoit_store::engine::IoMode;
use quoit_wire::internode::data::MergeRule;
use std::borrow::Cow;

/// Steps of [`Records::change`](crate::records::Records::change) that belong to the surrounding coordinator.
/// All are taken under the record's lock.
pub(crate) trait ChangeSteps {
    /// The state of a name under which nothing is stored; `None` if a reap record has to be read from the
    /// disk, and `access` does not allow that.
    fn absent(&self, access: IoMode) -> Result<Option<RecordState<'static>>, RequestError>;

    /// Decides the change; `None` if there is nothing to change.
    fn decide(&self, present: &RecordState<'_>) -> Result<Option<DecidedChange<'_>>, RequestError>;

    /// Merges an object from elsewhere with the present state; `None` if a reaped tombstone has seen all of
    /// it.
    fn merged(
        &self,
        present: RecordState<'_>,
        given: Cow<'_, Object>,
        rule: MergeRule,
    ) -> Option<Object>;

    /// Refuses an object with too many siblings.
    fn check_siblings(&self, object: &Object) -> Result<(), RequestError>;

    /// Refuses an object that is too large, and logs a warning for a large one or for many siblings.
    fn check_size(&self, object: &Object, size_bytes: u64) -> Result<(), RequestError>;

    /// True if a tombstone with this digest is stored, and noted to be reaped; false if the record is
    /// removed at once.
    fn keeps_tombstone(&self, digest: u64) -> bool;

    /// True if the encoded object is needed after the change although no replica is sent it.
    fn is_held(&self, size_bytes: usize) -> bool;

    /// The present time, in microseconds, by which operations are timed.
    fn monotonic_us(&self) -> u64;

    /// Notes an operation that began at `began_us`, and the object after it.
    fn note_update(&self, operation: &Operation, began_us: u64, object: &Object);
}
