//! Objects as an engine stores them, and steps that may have to wait for its disk.

use crate::blocking::Blocking;
use crate::error::RequestError;
use bytes::Bytes;
use quoit_model::object::Object;
use quoit_store::engine::Access;

/// Repeats `step` where waiting for the disk is allowed when it would have to wait.
///
/// Only then does the request leave its thread's rhythm.
pub(crate) fn wait_if_blocked<T>(
    blocking: Blocking,
    mut step: impl FnMut(Access) -> Result<Option<T>, RequestError>,
) -> Result<T, RequestError> {
    if let Some(done) = step(Access::NoWait)? {
        return Ok(done);
    }
    let waited = blocking.in_place(|| step(Access::Wait))?;
    Ok(waited.expect("an engine that may wait does not answer WouldBlock"))
}

/// Reads what an engine stored.
pub(crate) fn decode(stored: &Bytes) -> Result<Object, RequestError> {
    Object::decode(stored).map_err(|reason| RequestError::Damaged(reason.to_string()))
}
