//! Long pieces of work for single requests, away from the threads that serve all other requests.
//!
//! Reading an object of 10 MB, or copying it into an answer, takes a processor some milliseconds; making
//! all statistics takes half a millisecond. A single such request does no harm. When many clients send
//! them, they would occupy a serving thread most of the time. Such pieces then run on a thread of low
//! priority and get the processor time that other requests leave.

use crate::context::ServerContext;
use crate::memory::is_large;
use quoit_core::{ReadOptions, RequestError};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

impl ServerContext {
    /// True if a read has to run aside: many large requests and answers are in progress, and this object is
    /// large.
    pub(crate) fn reads_at_low_priority(
        &self,
        size_bytes_max: impl FnOnce() -> Option<u64>,
    ) -> bool {
        self.memory.has_large() && is_large(size_bytes_max())
    }

    /// Reads an object as [`ReplicatedStore::get`](quoit_core::ReplicatedStore::get) does, on a thread of
    /// low priority.
    ///
    /// # Errors
    ///
    /// Those of the read; `Overload` while the process ends.
    pub(crate) async fn get_low_priority(
        &self,
        key: KeyRef<'_>,
        options: ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        let store = Arc::clone(&self.store);
        let [bucket_type, bucket, name] =
            [key.bucket.bucket_type, key.bucket.bucket, key.key].map(<[u8]>::to_vec);
        let read = async move {
            let key = BucketRef { bucket_type: &bucket_type, bucket: &bucket }.key(&name);
            store.get(key, &options).await
        };
        self.aside(read).await?
    }

    /// Does a piece of work on a thread of low priority. Runs it on the current thread if there is no such
    /// thread, or if the runtime has a single thread: simulations and tests use that, and they need every
    /// run to be the same and may pause the clock.
    ///
    /// # Errors
    ///
    /// `Overload` while the process ends.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RequestError> {
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        match if is_alone { None } else { self.low_priority() } {
            Some(threads) => threads.run(work).await.map_err(|_| RequestError::Overload),
            None => Ok(work.await),
        }
    }
}
