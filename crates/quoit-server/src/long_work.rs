//! Long pieces of work for single requests, off the threads that serve all others.
//!
//! To read an object of 10 MB, or to copy it into an answer, takes a processor some milliseconds, and all
//! statistics half of one. Alone that does no harm. Where many clients have such requests, a thread would be
//! held for most of its time: such pieces then get what other requests leave.

use crate::context::ServerContext;
use crate::memory::is_large;
use quoit_core::{ReadOptions, RequestError};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use std::future::Future;
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

impl ServerContext {
    /// Whether a read has to wait for its turn, and to be done aside: where there are many large requests and
    /// answers, and the object is large.
    pub(crate) fn reads_aside(&self, size_bytes_max: impl FnOnce() -> Option<u64>) -> bool {
        self.memory.has_large() && is_large(size_bytes_max())
    }

    /// Reads an object as [`ReplicatedStore::get`](quoit_core::ReplicatedStore::get) does, by a thread of
    /// low priority.
    ///
    /// # Errors
    ///
    /// Those of the read; `Overload` while the process ends.
    pub(crate) async fn get_aside(
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

    /// Does a piece of work by a thread of low priority; by this one, where there is no such thread, and on a
    /// runtime of one thread, which has to be the same whenever it is repeated: its clock may stand still.
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
