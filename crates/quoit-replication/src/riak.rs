//! A connection to a Riak peer. Entries come one by one, and leave the peer's queue when they are sent.
//!
//! An entry that can't be stored is therefore kept and tried again until it is stored. Meanwhile its
//! connection takes no other entry, and does not end when the peer is no longer wanted. An entry that was
//! received and not stored is lost only if the node stops or dies. A node that stops logs the entry's name.

use crate::address::Protocol;
use crate::figures::PeerKind;
use crate::full_sync::bucket_name;
use crate::peer_context::{PeerContext, PeerFault};
use crate::peer_delay::RequestOutcome;
use crate::storing::StoringError;
use bytes::Bytes;
use quoit_core::{Arrival, Counter, ReplicatedStore, RequestError};
use quoit_model::key::BucketRef;
use quoit_model::object::Object;
use quoit_model::props::Quorum;
use quoit_riak::{Fetched, Replicated};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// First pause before an entry is tried again.
const REST_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
const REST_MAX: Duration = Duration::from_secs(60);

/// Connects, and consumes until the peer fails.
pub(crate) async fn consume(context: &mut PeerContext, protocol: Protocol) -> PeerFault {
    let mut peer = match context.dialer.connect_riak(&context.address, protocol).await {
        Ok(peer) => peer,
        Err(fault) => return fault.into(),
    };
    let (figures, end) = (Arc::clone(&context.figures), Arc::clone(&context.end));
    let _open = figures.open();
    let queue = String::from_utf8_lossy(&context.queue).into_owned();
    let mut is_new = true;
    loop {
        if context.is_suspended.wait_for(|is| !is).await.is_err() {
            return PeerFault::Silent;
        }
        let workers = Arc::clone(&context.workers);
        // The semaphore is never closed.
        let permit = workers.acquire().await;
        let Some(in_hand) = end.take_entry() else { return PeerFault::Silent };
        let began_us = context.store.clock().monotonic_us();
        let fetched = match peer.fetch(&queue).await {
            Ok(fetched) => fetched,
            Err(fault) => return fault.into(),
        };
        {
            let mut state = figures.state.lock();
            state.kind = Some(PeerKind::Riak);
            if std::mem::take(&mut is_new) {
                // Clears the fault of the previous connection.
                state.fault = None;
            }
        }
        context.kind.send_if_modified(|kind| kind.replace(PeerKind::Riak) != Some(PeerKind::Riak));
        match fetched {
            None => {
                drop(permit);
                figures.empty.fetch_add(1, Ordering::Relaxed);
                context.store.stats().count(Counter::SinkEmpty);
                context.delay.note(RequestOutcome::Empty);
            }
            Some(fetched) => {
                let took_us = context.store.clock().monotonic_us() - began_us;
                figures.fetch_us.fetch_add(took_us, Ordering::Relaxed);
                store_until_stored(context, &fetched, &workers, permit).await;
                context.delay.note(RequestOutcome::Stored);
            }
        }
        drop(in_hand);
        if end.is_wanted() {
            return PeerFault::Silent;
        }
        let random = context.store.clock().monotonic_us();
        let wait = context.delay.wait(random);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// An entry that its source no longer has. Unless it is settled before this is dropped, it is lost.
struct OnlyCopy<'c> {
    context: &'c PeerContext,
    fetched: &'c Fetched,
    /// True if it was stored, or can't be.
    is_settled: bool,
    /// True if it was logged that a connection without a sink holds it.
    is_told: bool,
}

impl OnlyCopy<'_> {
    /// Bucket and key, for the log.
    fn name(&self) -> (String, String) {
        let Fetched { bucket_type, bucket, key, .. } = self.fetched;
        let bucket = bucket_name(BucketRef { bucket_type, bucket });
        (bucket, String::from_utf8_lossy(key).into_owned())
    }

    /// Logs once that the entry is held if the connection's task was asked to end: no figures show the
    /// fault any more.
    fn tell_held(&mut self, fault: &StoringError) {
        if self.is_told || !self.context.end.is_wanted() {
            return;
        }
        self.is_told = true;
        let (bucket, key) = self.name();
        tracing::warn!(
            peer = %self.context.address,
            bucket,
            key,
            "sink: an entry of a connection that ends is held until it can be stored: {fault}"
        );
    }
}

impl Drop for OnlyCopy<'_> {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let (bucket, key) = self.name();
        tracing::error!(
            peer = %self.context.address,
            bucket,
            key,
            "sink: an entry is lost, because the node stops before it could be stored: full-sync finds it"
        );
        self.context.store.stats().count(Counter::SinkErrors);
    }
}

/// Stores an entry that its source no longer has. Workers serve all peers of the queue, so the permit
/// is released while the entry waits for its next try.
async fn store_until_stored<'w>(
    context: &PeerContext,
    fetched: &Fetched,
    workers: &'w Semaphore,
    mut permit: Result<SemaphorePermit<'w>, AcquireError>,
) {
    let mut rest = REST_MIN;
    let mut only_copy = OnlyCopy { context, fetched, is_settled: false, is_told: false };
    loop {
        let began_us = context.store.clock().monotonic_us();
        match store(context, fetched).await {
            Ok(()) => {
                let took_us = context.store.clock().monotonic_us() - began_us;
                context.figures.push_us.fetch_add(took_us, Ordering::Relaxed);
                context.figures.state.lock().fault = None;
                only_copy.is_settled = true;
                return;
            }
            Err(fault @ StoringError::Malformed(_)) => {
                // Further tries would fail in the same way.
                tracing::error!(peer = %context.address, "sink: an entry is left out: {fault}");
                context.figures.note_fault(fault.to_string());
                context.store.stats().count(Counter::SinkErrors);
                only_copy.is_settled = true;
                return;
            }
            Err(fault) => {
                context.figures.note_fault(fault.to_string());
                context.store.stats().count(Counter::SinkErrors);
                only_copy.tell_held(&fault);
                drop(permit);
                tokio::time::sleep(rest).await;
                rest = (rest * 2).min(REST_MAX);
                permit = workers.acquire().await;
            }
        }
    }
}

async fn store(context: &PeerContext, fetched: &Fetched) -> Result<(), StoringError> {
    let Fetched { bucket_type, bucket, key, content } = fetched;
    let name = BucketRef { bucket_type, bucket }.key(key);
    name.check().map_err(|fault| StoringError::Malformed(fault.to_string()))?;
    let mut encoded = Vec::new();
    name.encode_into(&mut encoded);
    let encoded = Bytes::from(encoded);
    let store = &context.store;
    match content {
        Replicated::Object(object) => {
            let object = adopted(store, name.bucket, object.clone())?;
            // Riak does not say which clusters an object has visited, so it is not forwarded.
            let arrival = Arrival { visited: None, may_be_redelivery: false, dw: Quorum::Count(0) };
            store.replication().store_arrived(&encoded, &object, &arrival).await?;
            context.figures.note_modified(object.last_modified_us(), store.clock());
        }
        Replicated::Reap { clock, .. } => store.replication().reap_arrived(&encoded, clock).await?,
    }
    context.figures.stored.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The object with its data type in this store's form.
fn adopted(
    store: &ReplicatedStore,
    bucket: BucketRef<'_>,
    mut object: Object,
) -> Result<Object, StoringError> {
    let datatype = {
        let state = store.control().read();
        let props = state.bucket_props(bucket);
        props.map_err(|_| RequestError::NoSuchType(bucket.bucket_type.to_vec()))?.datatype
    };
    let adopted = object.adopt_riak_data_type(datatype);
    adopted.map_err(|fault| StoringError::Malformed(fault.to_string()))?;
    Ok(object)
}
