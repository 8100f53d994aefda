//! Listings of the keys of a bucket.

use super::Listings;
use super::scan::CHUNK_COUNT;
use super::sources::{ListingOrder, Sources, WantedRecords};
use crate::error::RequestError;
use crate::stats::{LongRequest, LongRequestGuard};
use bytes::Bytes;
use quoit_model::key::BucketRef;
use quoit_wire::internode::data::{KeySpan, ScanSpan};
use std::sync::Arc;

/// A listing of keys under way. Dropping it ends it.
pub struct KeyListing {
    sources: Sources,
    _under_way: LongRequestGuard,
}

impl Listings {
    /// Starts a listing of a bucket's keys, once this node knows which nodes are up. Keys come in no
    /// order; see [`Listings::list_keys_in_order`] for sorted ones. Keys of tombstones that are not
    /// reaped yet are included.
    ///
    /// # Errors
    ///
    /// Unknown bucket types, empty names, and a partition of which no live node has a copy.
    pub async fn list_keys(
        self: &Arc<Self>,
        bucket: BucketRef<'_>,
    ) -> Result<KeyListing, RequestError> {
        let wanted = WantedRecords {
            bucket_type: Bytes::copy_from_slice(bucket.bucket_type),
            bucket: Bytes::copy_from_slice(bucket.bucket),
            span: ScanSpan::Keys(KeySpan { with_tombstones: true, ..KeySpan::default() }),
            pattern: None,
            after: None,
            partitions: None,
            order: ListingOrder::Arrival,
        };
        let under_way = LongRequestGuard::begin(&self.local.stats, LongRequest::Listing);
        let sources = under_way.begun(self.scan(wanted).await)?;
        Ok(KeyListing { sources, _under_way: under_way })
    }
}

impl KeyListing {
    /// The next chunk of keys; `None` when the listing is complete. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults, and a partition of which no live node has a copy any more. A listing is complete
    /// or ends with an error; it is never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, RequestError> {
        self.sources.next(CHUNK_COUNT).await
    }
}
