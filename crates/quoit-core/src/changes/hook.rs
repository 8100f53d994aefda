//! The hook by which a coordinator adds its writes to the change feed of a bucket.

use super::ChangeFeeds;
use super::log::ChangeLog;
use crate::local_node::LocalNode;
use crate::replica::WrittenObject;
use crate::stored::decode;
use bytes::Bytes;
use quoit_model::context::encode_context;
use quoit_model::plain::PlainObject;
use quoit_model::props::BucketProps;
use quoit_store::engine::{IoMode, RecordAt};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Interval at which the log is synced, and entries that are too old are removed.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

impl ChangeFeeds {
    /// Creates the change feeds over a node's log. Without a log, no bucket has a feed.
    pub(crate) fn new(local: &Arc<LocalNode>, log: Option<ChangeLog>) -> Arc<Self> {
        Arc::new(Self { local: Arc::clone(local), log: log.map(Arc::new) })
    }

    /// Returns this node's log; `None` if the node keeps its records in memory only.
    #[must_use]
    pub const fn log(&self) -> Option<&Arc<ChangeLog>> {
        self.log.as_ref()
    }

    /// Appends a write of this node to the log, if the bucket has a change feed. Without a feed it
    /// costs a comparison.
    pub(crate) fn note(&self, at: &RecordAt<'_>, props: &BucketProps, written: &WrittenObject<'_>) {
        if !props.feeds_changes() {
            return;
        }
        let Some(log) = &self.log else { return };
        let is_delete = match written {
            WrittenObject::Encoded(written) => written.meta.tombstone,
            WrittenObject::Decoded(object) => object.is_tombstone(),
            WrittenObject::Delta(_) => false,
            WrittenObject::InPlace => self
                .local
                .records
                .head(at)
                .is_ok_and(|meta| meta.is_some_and(|meta| meta.tombstone)),
        };
        // Clients of data types use contexts of another format, so the change carries no context.
        let context = match (props.datatype, written) {
            (Some(_), _) => None,
            (None, WrittenObject::Encoded(written)) => context_of(&written.object),
            (None, WrittenObject::Decoded(object)) => Some(encode_context(&object.clock)),
            (None, WrittenObject::Delta(_) | WrittenObject::InPlace) => self
                .local
                .records
                .object_at_hand(at, IoMode::NoWait)
                .and_then(|object| context_of(&object)),
        };
        let key = Bytes::copy_from_slice(at.encoded);
        log.append(key, is_delete, context.unwrap_or_default(), self.local.clock.unix_us());
    }

    /// Keeps the log on disk and within its limits, until the task is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let Some(log) = self.log.clone() else { return };
        let mut ticks = interval(FLUSH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_refused = false;
        loop {
            ticks.tick().await;
            let (flushed, now_us) = (Arc::clone(&log), self.local.clock.unix_us());
            match self.local.settings.blocking.on_pool(move || Ok(flushed.flush(now_us)?)).await {
                Ok(()) => is_refused = false,
                Err(fault) if !std::mem::replace(&mut is_refused, true) => {
                    tracing::error!(%fault, "the log of change feeds could not be synced");
                }
                Err(_) => {}
            }
        }
    }
}

/// Causal context of an encoded object; `None` if the object is damaged.
fn context_of(object: &Bytes) -> Option<Bytes> {
    if let Some(plain) = PlainObject::read(object) {
        return Some(encode_context(&plain.clock));
    }
    decode(object).ok().map(|object| encode_context(&object.clock))
}
