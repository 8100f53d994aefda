//! Coordination of reads.

use crate::error::RequestError;
use crate::options::{ReadOptions, check_read_nodes};
use crate::stats::Sizes;
use crate::store::{ReplicatedStore, decode, object_props, record_at, wait_if_blocked};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::props::BucketProps;
use quoit_store::engine::Fetch;

/// Distinct nodes that can hold copies: this one.
pub(crate) const NODE_COUNT: u32 = 1;

impl ReplicatedStore {
    /// Reads an object. `None` when nothing is stored; tombstones are returned, the protocols decide what
    /// to show of them.
    ///
    /// Costs two look-ups (properties, index) and one positioned read; waits only for a disk read that the
    /// page cache can't serve.
    ///
    /// # Errors
    ///
    /// Bad names, unknown bucket types, quorums that can't be met, engine faults.
    pub async fn get(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        let started_us = self.clock.monotonic_us();
        let result = self.get_local(key, options);
        let time_us = self.clock.monotonic_us() - started_us;
        let sizes = result.as_ref().map(|found| found.as_ref().map(Sizes::of_object));
        self.stats().record_get(time_us, &sizes);
        result
    }

    fn get_local(
        &self,
        key: KeyRef<'_>,
        options: &ReadOptions,
    ) -> Result<Option<Object>, RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = object_props(&state, key.bucket)?;
        check_read_nodes(&options.resolve(props)?, NODE_COUNT)?;
        let encoded = key.encoded();
        let at = record_at(&state, props, key, &encoded);
        let found = wait_if_blocked(self.settings.blocking, |access| {
            Ok(match self.engine.get(&at, access)? {
                Fetch::Missing => Some(None),
                Fetch::Found(record) => Some(Some(decode(&record.value)?)),
                Fetch::WouldBlock => None,
            })
        })?;
        Ok(found.map(|object| resolve(object, props)))
    }
}

/// The object as readers of its bucket are answered.
pub(crate) fn resolve(mut object: Object, props: &BucketProps) -> Object {
    if !props.allow_mult {
        object.resolve_latest();
    }
    object
}
