//! Entries of source queues in the form of Riak.

use super::Replication;
use super::fetch::{QueueWait, QueuedValue};
use crate::error::RequestError;
use crate::options::ReadOptions;
use crate::placement::object_props;
use crate::queues::QueuePriority;
use bytes::Bytes;
use quoit_model::data_type::{CounterForm, clock_in_riak};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::props::{BucketProps, Quorum};
use quoit_riak::{Fetched, Replicated};

impl Replication {
    /// Takes the next entry of a queue, in Riak's form, and removes it from the queue; `None` if the queue
    /// stays empty or does not exist. As in Riak, real-time entries of write-once buckets are left out:
    /// full-sync moves them.
    ///
    /// # Errors
    ///
    /// As for [`Replication::next_queued`].
    pub async fn next_for_riak(&self, queue: &str) -> Result<Option<Fetched>, RequestError> {
        let queued = loop {
            let Some(queued) = self.next_queued(queue, QueueWait::AsRiak).await? else {
                return Ok(None);
            };
            if queued.priority != QueuePriority::RealTime || !self.is_write_once(&queued.key)? {
                break queued;
            }
        };
        let key = KeyRef::decode(&queued.key)?;
        let content = match (&queued.value, queued.value.object()?) {
            (QueuedValue::Reap { clock, reaped_us }, _) => {
                Replicated::Reap { time_us: *reaped_us, clock: clock_in_riak(clock) }
            }
            (_, Some(object)) => Replicated::Object(self.object_for_riak(key, object).await?),
            (_, None) => return Ok(None),
        };
        Ok(Some(Fetched {
            bucket_type: Bytes::copy_from_slice(key.bucket.bucket_type),
            bucket: queued.key.slice_ref(key.bucket.bucket),
            key: queued.key.slice_ref(key.key),
            content,
        }))
    }

    fn is_write_once(&self, encoded: &[u8]) -> Result<bool, RequestError> {
        let key = KeyRef::decode(encoded)?;
        let state = self.local.control.read();
        Ok(object_props(&state, key.bucket).is_ok_and(BucketProps::is_write_once))
    }

    /// An object in Riak's form. A data type is read from a quorum: if its clock has an event that its
    /// state does not show, Riak concludes that the event's element was removed.
    async fn object_for_riak(
        &self,
        key: KeyRef<'_>,
        object: Object,
    ) -> Result<Object, RequestError> {
        if !object.has_data_type() {
            return Ok(object);
        }
        let quorum = ReadOptions { r: Some(Quorum::Quorum), ..ReadOptions::default() };
        let whole = self.coordinator.get_unresolved(key, &quorum).await?;
        let mut object = whole.filter(Object::has_data_type).unwrap_or(object);
        let is_typed = {
            let state = self.local.control.read();
            object_props(&state, key.bucket)?.datatype.is_some()
        };
        object.show_data_type(if is_typed { CounterForm::Typed } else { CounterForm::Legacy });
        object.clock = clock_in_riak(&object.clock);
        Ok(object)
    }
}
