//! Decodes stored objects, and runs steps that may have to wait for the engine's disk.

use crate::blocking::Blocking;
use crate::error::RequestError;
use bytes::Bytes;
use quoit_model::object::Object;
use quoit_store::engine::IoMode;

/// Runs `step` without waiting. If it would have to wait for the disk, runs it again where waiting is
/// allowed, and only then leaves the thread that serves the request.
pub(crate) fn wait_if_blocked<T>(
    blocking: Blocking,
    mut step: impl FnMut(IoMode) -> Result<Option<T>, RequestError>,
) -> Result<T, RequestError> {
    if let Some(done) = step(IoMode::NoWait)? {
        return Ok(done);
    }
    let waited = blocking.in_place(|| step(IoMode::Wait))?;
    Ok(waited.expect("an engine that may wait does not answer WouldBlock"))
}

/// Decodes an object from the engine.
pub(crate) fn decode(stored: &Bytes) -> Result<Object, RequestError> {
    Object::decode(stored).map_err(|reason| RequestError::Damaged(reason.to_string()))
}
