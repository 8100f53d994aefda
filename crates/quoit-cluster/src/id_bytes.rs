//! Encoding of node identities in messages.

use crate::NodeId;
use bytes::Bytes;

pub(crate) fn id_bytes(id: NodeId) -> Bytes {
    Bytes::copy_from_slice(&id.0)
}

/// Decodes an identity.
pub(crate) fn node_id(bytes: &[u8]) -> Result<NodeId, String> {
    let id = bytes.try_into().map_err(|_| format!("{} bytes are not an identity", bytes.len()))?;
    Ok(NodeId(id))
}
