//! Listing keys and buckets, in chunks.

use crate::error::RequestError;
use crate::store::{ReplicatedStore, bucket_props};
use bytes::Bytes;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_store::engine::KeyRange;
use std::sync::Arc;
use std::time::Duration;

/// Names that a chunk holds at most.
const CHUNK_COUNT: usize = 1_000;

/// A listing of keys under way. Dropping it ends it.
pub struct KeyListing {
    store: Arc<ReplicatedStore>,
    bucket_type: Vec<u8>,
    bucket: Vec<u8>,
    after: Option<Bytes>,
    complete: bool,
}

/// A listing of buckets under way. Dropping it ends it.
pub struct BucketListing {
    store: Arc<ReplicatedStore>,
    bucket_type: Vec<u8>,
    after: Option<Bytes>,
    complete: bool,
}

impl ReplicatedStore {
    /// Starts a listing of a bucket's keys. Keys of tombstones that were not reaped yet are included.
    ///
    /// # Errors
    ///
    /// Unknown bucket types and empty names.
    pub fn list_keys(self: &Arc<Self>, bucket: BucketRef<'_>) -> Result<KeyListing, RequestError> {
        bucket.key(b"*").check()?;
        bucket_props(&self.control.read(), bucket)?;
        Ok(KeyListing {
            store: Arc::clone(self),
            bucket_type: bucket.bucket_type.to_vec(),
            bucket: bucket.bucket.to_vec(),
            after: None,
            complete: false,
        })
    }

    /// Starts a listing of the buckets of a bucket type that hold a key.
    ///
    /// # Errors
    ///
    /// Unknown bucket types and empty names.
    pub fn list_buckets(
        self: &Arc<Self>,
        bucket_type: &[u8],
    ) -> Result<BucketListing, RequestError> {
        let any = BucketRef { bucket_type, bucket: b"*" }.key(b"*");
        any.check()?;
        bucket_props(&self.control.read(), any.bucket)?;
        Ok(BucketListing {
            store: Arc::clone(self),
            bucket_type: bucket_type.to_vec(),
            after: None,
            complete: false,
        })
    }
}

impl KeyListing {
    /// The next chunk of keys; `None` when the listing is complete. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults. A listing is complete or an error, never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, RequestError> {
        while !self.complete {
            let (store, bucket_type, bucket, after) = (
                Arc::clone(&self.store),
                self.bucket_type.clone(),
                self.bucket.clone(),
                self.after.take(),
            );
            let blocking = store.settings.blocking;
            let read = move || {
                let range =
                    KeyRange::Bucket(BucketRef { bucket_type: &bucket_type, bucket: &bucket });
                Ok(store.engine.list_keys(range, after.as_deref(), CHUNK_COUNT)?)
            };
            let page = blocking.aside(read).await?;
            self.complete = page.next.is_none();
            self.after = page.next;
            let keys: Vec<Bytes> = page
                .entries
                .iter()
                .filter_map(|(encoded, _)| {
                    let key = KeyRef::decode(encoded).ok()?;
                    Some(encoded.slice_ref(key.key))
                })
                .collect();
            if !keys.is_empty() {
                return Ok(Some(keys));
            }
        }
        Ok(None)
    }
}

impl BucketListing {
    /// The next chunk of bucket names; `None` when the listing is complete. Chunks are never empty.
    ///
    /// # Errors
    ///
    /// Engine faults. A listing is complete or an error, never cut short in silence.
    pub async fn next(&mut self) -> Result<Option<Vec<Bytes>>, RequestError> {
        if self.complete {
            return Ok(None);
        }
        let (store, bucket_type, after) =
            (Arc::clone(&self.store), self.bucket_type.clone(), self.after.take());
        let blocking = store.settings.blocking;
        let read = move || {
            let after =
                after.as_deref().map(|bucket| BucketRef { bucket_type: &bucket_type, bucket });
            Ok(store.engine.list_buckets(Some(&bucket_type), after, CHUNK_COUNT)?)
        };
        let page = blocking.aside(read).await?;
        self.complete = page.len() < CHUNK_COUNT;
        let names: Vec<Bytes> = page.into_iter().map(|(_, bucket)| bucket).collect();
        self.after = names.last().cloned();
        Ok(if names.is_empty() { None } else { Some(names) })
    }
}

/// Limits the time of a whole listing: run each step inside [`Deadline::limit`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Option<tokio::time::Instant>,
}

impl Deadline {
    /// A deadline so many milliseconds from now; 0 = none.
    #[must_use]
    pub fn after_ms(timeout_ms: u64) -> Self {
        let at = (timeout_ms > 0)
            .then(|| tokio::time::Instant::now() + Duration::from_millis(timeout_ms));
        Self { at }
    }

    /// Runs `step` until the deadline.
    ///
    /// # Errors
    ///
    /// `Timeout` at the deadline, else the step's own.
    pub async fn limit<T>(
        self,
        step: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        match self.at {
            None => step.await,
            Some(at) => {
                tokio::time::timeout_at(at, step).await.unwrap_or(Err(RequestError::Timeout))
            }
        }
    }
}
