//! Long pieces of work for single requests, away from the threads that serve all other requests.
//!
//! Reading an object of 10 MB, or copying it into an answer, takes a processor some milliseconds; making
//! all statistics takes half a millisecond. A single such request does no harm. When many clients send
//! them, they would occupy a serving thread most of the time. Such pieces then run on a thread of low
//! priority and get the processor time that other requests leave.

use crate::context::ServerContext;
use crate::memory::is_large;
use quoit_core::{ReadOptions, ReplicatedStore, RequestError, StartedRead};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

/// A read of an object.
pub(crate) enum ObjectRead<'k> {
    /// A read from the beginning.
    Whole(KeyRef<'k>, ReadOptions),
    /// A read that was begun in place and has to wait.
    Started(Box<StartedRead>),
}

impl ObjectRead<'_> {
    /// Upper bound on the stored size of this node's copy of the object, in bytes; `None` if it is not
    /// known.
    pub(crate) fn size_bytes_max(&self, store: &ReplicatedStore) -> Option<u64> {
        match self {
            Self::Whole(key, _) => store.size_bytes_max(*key),
            Self::Started(started) => store.size_bytes_max_of(started),
        }
    }

    /// Reads the object.
    pub(crate) async fn run(self, store: &ReplicatedStore) -> Result<Option<Object>, RequestError> {
        match self {
            Self::Whole(key, options) => store.get(key, &options).await,
            Self::Started(started) => store.finish_get(*started).await,
        }
    }
}

impl ServerContext {
    /// True if a read has to run on a thread of low priority: many large requests and answers are in
    /// progress, and this object is large.
    pub(crate) fn reads_at_low_priority(
        &self,
        size_bytes_max: impl FnOnce() -> Option<u64>,
    ) -> bool {
        self.memory.has_large() && is_large(size_bytes_max())
    }

    /// Reads an object on a thread of low priority.
    ///
    /// # Errors
    ///
    /// Errors of the read; `Overload` while the process ends.
    pub(crate) async fn get_low_priority(
        &self,
        read: ObjectRead<'_>,
    ) -> Result<Option<Object>, RequestError> {
        let store = Arc::clone(&self.store);
        match read {
            ObjectRead::Started(started) => {
                self.run_at_low_priority(async move { store.finish_get(*started).await }).await?
            }
            ObjectRead::Whole(key, options) => {
                let [bucket_type, bucket, name] =
                    [key.bucket.bucket_type, key.bucket.bucket, key.key].map(<[u8]>::to_vec);
                let read = async move {
                    let key = BucketRef { bucket_type: &bucket_type, bucket: &bucket }.key(&name);
                    store.get(key, &options).await
                };
                self.run_at_low_priority(read).await?
            }
        }
    }

    /// Does a piece of work on a thread of low priority. Runs it on the current thread if there is no such
    /// thread, or if the runtime has a single thread: simulations and tests use such a runtime; their runs
    /// must be reproducible, and they may pause the clock.
    ///
    /// # Errors
    ///
    /// `Overload` while the process ends.
    pub(crate) async fn run_at_low_priority<T: Send + 'static>(
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
