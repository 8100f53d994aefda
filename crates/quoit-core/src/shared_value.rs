//! Large objects in buffers that the log and the messages to other replicas share.
//!
//! A large object is made in two parts: its front, which the engine gets in a buffer as it gets small
//! objects, and the rest, mostly the value, in the buffer in which it arrived.

use bytes::Bytes;

/// Minimum number of bytes in the front of an object that arrives encoded. The front has to show that a plain
/// object needs no pages; nearly all descriptions of objects fit into this size.
const FRONT_BYTES: usize = 1024;

/// The front and the rest of an object as one buffer, of which `rest` becomes a part. Costs one copy.
pub(crate) fn join(front: &[u8], rest: &mut Bytes) -> Bytes {
    let mut object = Vec::with_capacity(front.len() + rest.len());
    object.extend_from_slice(front);
    object.extend_from_slice(rest);
    let object = Bytes::from(object);
    *rest = object.slice(front.len()..);
    object
}

/// Appends an encoded object to `out`. If there is a `rest`, appends only the front, and puts the other bytes
/// into `rest`.
#[inline]
pub(crate) fn append(object: &Bytes, out: &mut Vec<u8>, rest: Option<&mut Bytes>) {
    match rest {
        None => out.extend_from_slice(object),
        Some(rest) => {
            let front = object.get(..FRONT_BYTES).unwrap_or(object);
            out.extend_from_slice(front);
            *rest = object.slice(front.len()..);
        }
    }
}
