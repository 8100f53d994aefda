//! Listings together with nodes of versions that know no scans.
//!
//! They list all keys of a bucket, and are asked so. Whatever else is asked for has to come from other nodes;
//! where there are none, the answer is an error that names the node.

use super::{CHUNK_TIMEOUT, Failed, decoded};
use crate::calls::call_while_up;
use crate::error::RequestError;
use crate::store::ReplicatedStore;
use bytes::Bytes;
use quoit_cluster::{Lane, Peer};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_wire::internode::data::{
    KeySpan, KeysListed, ListKeys, METHOD_LIST_KEYS, Scan, ScanSpan, Scanned,
};
use quoit_wire::internode::{VERSION_MAPS, VERSION_SCANS, VERSION_SEGMENTS};
use std::sync::Arc;

/// The span of all keys of a bucket.
pub(super) fn all_keys() -> ScanSpan {
    ScanSpan::Keys(KeySpan { with_tombstones: true, ..KeySpan::default() })
}

/// The first version whose nodes know a scan of this.
const fn needed_for(span: &ScanSpan) -> u32 {
    match span {
        ScanSpan::Segments(_) => VERSION_SEGMENTS,
        ScanSpan::Maps(_) => VERSION_MAPS,
        ScanSpan::Keys(_) | ScanSpan::Terms(_) | ScanSpan::Records(_) => VERSION_SCANS,
    }
}

/// Whether a node is there and it, or this one, does not know such a scan.
pub(super) fn is_older(peer: &Peer, span: &ScanSpan) -> bool {
    peer.is_up() && !peer.speaks(needed_for(span))
}

/// Asks a node that does not know a scan, or of which this one, `own`, does not ask it.
pub(super) async fn ask(
    peer: Arc<Peer>,
    node: Arc<str>,
    own: Arc<str>,
    scan: Scan,
) -> Result<Scanned, Failed> {
    let needed = scan.span.as_ref().map_or(VERSION_SCANS, needed_for);
    let Some(list) = list_of(scan) else {
        let is_older = peer.version_max() < Some(needed);
        let node = if is_older { node } else { own };
        return Err(Failed::Node(Some(RequestError::OlderNode { node, needed })));
    };
    let method = METHOD_LIST_KEYS;
    let call = call_while_up(&peer, method, &list, b"", Lane::Large, CHUNK_TIMEOUT);
    let KeysListed { keys, next } = decoded(call.await?.header)?;
    let key = |next: Bytes| match KeyRef::decode(&next) {
        Ok(name) => Ok(next.slice_ref(name.key)),
        Err(_) => Err(Failed::Node(None)),
    };
    Ok(Scanned { positions: keys, next: next.map(key).transpose()? })
}

/// The request for a scan of all keys; `None` for any other.
fn list_of(scan: Scan) -> Option<ListKeys> {
    let Scan { bucket_type, bucket, partitions, layout_version, after, span, pattern, .. } = scan;
    if span != Some(all_keys()) || pattern.is_some() {
        return None;
    }
    let name = BucketRef { bucket_type: &bucket_type, bucket: &bucket };
    let after = after.map(|key| Bytes::copy_from_slice(&name.key(&key).encoded()));
    Some(ListKeys { bucket_type, bucket, partitions, layout_version, after })
}

impl ReplicatedStore {
    /// As [`ReplicatedStore::local_scan`] of all keys, for nodes that know no scans.
    ///
    /// # Errors
    ///
    /// As there, and places to go on from that are no names.
    pub(crate) async fn local_keys(
        self: &Arc<Self>,
        list: ListKeys,
    ) -> Result<Option<KeysListed>, RequestError> {
        let ListKeys { bucket_type, bucket, partitions, layout_version, after } = list;
        let after = match after {
            None => None,
            Some(after) => Some(after.slice_ref(KeyRef::decode(&after)?.key)),
        };
        let scan = Scan {
            bucket_type: bucket_type.clone(),
            bucket: bucket.clone(),
            partitions,
            layout_version,
            after,
            count_max: super::scan::CHUNK_COUNT as u32,
            pattern: None,
            span: Some(all_keys()),
        };
        let Some(Scanned { positions, next }) = self.local_scan(scan).await? else {
            return Ok(None);
        };
        let name = BucketRef { bucket_type: &bucket_type, bucket: &bucket };
        let next = next.map(|key| Bytes::copy_from_slice(&name.key(&key).encoded()));
        Ok(Some(KeysListed { keys: positions, next }))
    }
}
