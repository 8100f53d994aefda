//! Hands records to another node: offers them, and delivers those that it lacks.
//!
//! An offer costs a name and a digest for each record, so records that the receiver has are not sent. Most
//! records of a repeated job, or of strays, are of that kind. A receiver with a newer version has another
//! digest; where that is likely, the offer also has the record's version vector, and the receiver declines.

use super::RecordDelivery;
use super::paged::SentInPages;
use crate::bitmap::Bitmap;
use crate::error::RequestError;
use crate::records::{is_object, is_sent_by_pages};
use crate::replica::merge_rule;
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Lane, Peer, Reply};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_number::length_u32;
use quoit_store::engine::{Record, RecordMeta};
use quoit_wire::SharedParts;
use quoit_wire::internode::data::MergeRule;
use quoit_wire::internode::transfer::{
    Deliver, Delivered, DeliveredRecord, METHOD_DELIVER, METHOD_OFFER, Offer, Offered,
};
use quoit_wire::internode::{Payload, append_or_share};
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, sleep};

/// Largest size of the objects in one message, in bytes. A single larger object has a message of its own.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// Timeout for the receiver's answer. The receiver reads, merges and syncs in this time.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause before a busy node is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Error that ends an attempt to hand records over. A later attempt may succeed.
#[derive(Debug, Error)]
pub(crate) enum TransferError {
    /// The receiver did not answer, or refused.
    #[error("handing records to {to} failed: {fault}")]
    Call {
        /// Name of the receiver.
        to: Arc<str>,
        /// Error of the call.
        fault: CallError,
    },
    /// The receiver can't be reached.
    #[error("{to} can't be reached")]
    Unreachable {
        /// Name of the receiver.
        to: Arc<str>,
    },
    /// The receiver's answer could not be read, or does not fit the message.
    #[error("{to} sent an invalid answer to an offer of records")]
    Answer {
        /// Name of the receiver.
        to: Arc<str>,
    },
    /// An operator has switched off outbound transfers on this node.
    #[error("handing over is switched off (handoff.outbound)")]
    SwitchedOff,
    /// The receiver already stages the maximum number of large records.
    #[error("{to} has no room for another large set or map at present")]
    NoRoom {
        /// Name of the receiver.
        to: Arc<str>,
    },
    /// The receiver has restarted, or heard nothing from this node for too long.
    #[error("{to} has dropped the pages of a large set or map that it had received")]
    Lost {
        /// Name of the receiver.
        to: Arc<str>,
    },
    /// Records of this node are damaged, and other replicas could not be asked for them.
    #[error(
        "records of partition {} are damaged here, and not all other replicas could heal them",
        partition.0
    )]
    Damaged {
        /// The partition.
        partition: Partition,
    },
    /// This node's own storage failed.
    #[error("{0}")]
    Own(#[from] RequestError),
}

/// Counts of records that were handed over.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct HandedCounts {
    /// Records that the receiver lacked.
    pub(crate) record_count: u64,
    /// Bytes of their objects.
    pub(crate) byte_count: u64,
}

/// The objects of a batch as one payload.
pub(crate) struct Objects<'a>(pub(crate) &'a [&'a (Bytes, Record)]);

impl Payload for Objects<'_> {
    fn size_bytes(&self) -> usize {
        self.0.iter().map(|(_, record)| record.value.len()).sum()
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        for (_, record) in self.0 {
            out.extend_from_slice(&record.value);
        }
    }

    fn append_shared(&self, out: &mut Vec<u8>, shared: &mut SharedParts) {
        for (_, record) in self.0 {
            append_or_share(&record.value, out, shared);
        }
    }
}

impl RecordDelivery {
    /// Hands records of a partition to a node. Large sets and maps are given by their roots.
    ///
    /// When this returns, all records, or versions that supersede them, are on that node's disk. `clocks`
    /// are empty, or have one of [`Self::offered_clock`] for each record. The latter makes sense if the node
    /// is likely to have newer versions.
    pub(crate) async fn hand(
        &self,
        peer: &Peer,
        partition: Partition,
        records: &[&(Bytes, Record)],
        clocks: Vec<Bytes>,
    ) -> Result<HandedCounts, TransferError> {
        debug_assert!(
            clocks.is_empty() || clocks.len() == records.len(),
            "an offer has no clocks or one for each record"
        );
        let began = Instant::now();
        let wanted = self.offer(peer, partition, records, clocks).await?;
        let offered_for = began.elapsed();
        let handed = self.deliver_wanted(peer, partition, wanted).await?;
        // The sender rests after the delivery and not before it, because clients are likely to write the
        // offered records again in the meantime.
        self.yielding.rest_after(offered_for).await;
        Ok(handed)
    }

    /// Delivers records that the node is known to lack, without an offer. Otherwise like [`Self::hand`].
    pub(crate) async fn hand_all(
        &self,
        peer: &Peer,
        partition: Partition,
        records: &[(Bytes, Record)],
    ) -> Result<HandedCounts, TransferError> {
        self.deliver_wanted(peer, partition, records.iter().collect()).await
    }

    /// Delivers records that the node lacks: small ones in batches, then large sets and maps one by one.
    async fn deliver_wanted(
        &self,
        peer: &Peer,
        partition: Partition,
        wanted: Vec<&(Bytes, Record)>,
    ) -> Result<HandedCounts, TransferError> {
        let (large, small): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(_, record)| is_sent_by_pages(record));
        let mut handed = self.deliver_all(peer, partition, &small).await?;
        for record in large {
            self.throttle.check_outbound()?;
            let Some(byte_count) = self.hand_large(peer, partition, record).await? else {
                continue;
            };
            handed.record_count += 1;
            handed.byte_count += byte_count;
        }
        Ok(handed)
    }

    /// Hands over a large set or map, in one of three ways: if the node has an older version in pages,
    /// only the ranges of items that differ; if it has nothing, all pages; otherwise the whole object.
    /// Returns the number of bytes sent; `None` if this node does not have the record any more, or its
    /// pages are damaged.
    async fn hand_large(
        &self,
        peer: &Peer,
        partition: Partition,
        record: &(Bytes, Record),
    ) -> Result<Option<u64>, TransferError> {
        let (key, root) = record;
        let mut sent = self.hand_pages(peer, partition, record).await?;
        if sent == SentInPages::InPages {
            if let Some(byte_count) = self.replica.merge_by_ranges(peer, partition, key).await? {
                self.throttle.wait_for(byte_count).await;
                return Ok(Some(byte_count));
            }
            sent = SentInPages::Whole;
        }
        if let SentInPages::Done(byte_count) = sent {
            return Ok(Some(byte_count));
        }
        let whole = self.whole_record(partition, key, root.clone()).await?;
        let Some(whole) = whole else { return Ok(None) };
        let delivered = self.deliver_all(peer, partition, &[&(key.clone(), whole)]).await?;
        Ok(Some(delivered.byte_count))
    }

    /// Delivers records that a node lacks, in batches. When this returns, all of them are on that node's
    /// disk.
    pub(crate) async fn deliver_all(
        &self,
        peer: &Peer,
        partition: Partition,
        wanted: &[&(Bytes, Record)],
    ) -> Result<HandedCounts, TransferError> {
        let mut handed = HandedCounts::default();
        let mut left = wanted;
        while !left.is_empty() {
            self.throttle.check_outbound()?;
            let batch_bytes = self.yielding.stride(BATCH_BYTES);
            let mut size_bytes = 0;
            let fits = |(_, record): &&&(Bytes, Record)| {
                size_bytes += record.value.len();
                size_bytes <= batch_bytes
            };
            let count = left.iter().take_while(fits).count().max(1);
            let (batch, rest) = left.split_at(count);
            let began = Instant::now();
            self.deliver(peer, partition, batch).await?;
            self.yielding.rest_after(began.elapsed()).await;
            left = rest;
            let byte_count = Objects(batch).size_bytes() as u64;
            handed.record_count += batch.len() as u64;
            handed.byte_count += byte_count;
            self.throttle.wait_for(byte_count).await;
        }
        Ok(handed)
    }

    /// Offers records. Returns those that the node lacks.
    async fn offer<'r>(
        &self,
        peer: &Peer,
        partition: Partition,
        records: &[&'r (Bytes, Record)],
        clocks: Vec<Bytes>,
    ) -> Result<Vec<&'r (Bytes, Record)>, TransferError> {
        let offer = Offer {
            partition: u32::from(partition.0),
            layout_version: self.oldest_layout(),
            keys: records.iter().map(|(key, _)| key.clone()).collect(),
            digests: records.iter().map(|(_, record)| record.meta.digest).collect(),
            is_minimum_rate: self.yielding.is_minimum_rate(),
            clocks,
        };
        let reply = call(peer, METHOD_OFFER, &offer, b"").await?;
        let answer = || TransferError::Answer { to: peer.name() };
        let offered = Offered::decode(reply.header).map_err(|_| answer())?;
        self.yielding.told(offered.pressure_percent);
        if offered.wanted.len() != records.len().div_ceil(8) {
            return Err(answer());
        }
        let wanted = records.iter().enumerate();
        let wanted = wanted.filter(|(place, _)| Bitmap::is_set(&offered.wanted, *place));
        Ok(wanted.map(|(_, record)| *record).collect())
    }

    /// Delivers one batch, and notes the pressure that the receiver reports.
    async fn deliver(
        &self,
        peer: &Peer,
        partition: Partition,
        records: &[&(Bytes, Record)],
    ) -> Result<(), TransferError> {
        let deliver = Deliver {
            partition: u32::from(partition.0),
            layout_version: self.oldest_layout(),
            records: records.iter().map(|(key, record)| self.delivered(key, record)).collect(),
            is_minimum_rate: self.yielding.is_minimum_rate(),
        };
        let reply = call(peer, METHOD_DELIVER, &deliver, &Objects(records)).await?;
        let answer = |_| TransferError::Answer { to: peer.name() };
        let delivered = Delivered::decode(reply.header).map_err(answer)?;
        self.yielding.told(delivered.pressure_percent);
        Ok(())
    }

    /// Returns the clock of a record for an offer. It is empty if the clock says nothing without the
    /// object: for data types, and where the last write wins.
    pub(crate) fn offered_clock(&self, key: &Bytes, record: &Record) -> Bytes {
        let causal = {
            let state = self.local.control.read();
            let key = KeyRef::decode(key).ok();
            let props = key.and_then(|key| state.bucket_props(key.bucket).ok());
            props.is_some_and(|props| merge_rule(props) == MergeRule::Causal)
        };
        let mut told = Vec::new();
        if causal
            && is_object(&record.value)
            && let Ok(object) = Object::decode(&record.value)
            && !object.has_data_type()
        {
            Object { siblings: SmallVec::new(), ..object }.encode_into(&mut told);
        }
        told.into()
    }

    /// Returns the description of a record in the message that delivers it.
    pub(crate) fn delivered(&self, key: &Bytes, record: &Record) -> DeliveredRecord {
        let state = self.local.control.read();
        let props = KeyRef::decode(key).ok().and_then(|key| state.bucket_props(key.bucket).ok());
        // If the bucket type is not known, merge by causality: that loses nothing.
        let rule = props.map_or(MergeRule::Causal, |props| merge_rule(props));
        // The bucket's n_val may have changed since the record was written.
        let known_class = u32::from(record.meta.n_val_class);
        let n_val_class =
            props.map_or(known_class, |props| RecordMeta::class_of(props.n_val).into());
        DeliveredRecord {
            key: key.clone(),
            digest: record.meta.digest,
            tombstone: record.meta.tombstone,
            n_val_class,
            expires_at_secs: record.meta.expires_at_secs,
            indexed: record.meta.indexed,
            rule: rule.into(),
            // Frames are smaller than 4 GB, and so are the objects in them.
            size_bytes: length_u32(record.value.len()),
        }
    }

    /// Returns the version of the oldest live layout, with which requests to other nodes are marked.
    pub(super) fn oldest_layout(&self) -> u64 {
        self.local.control.read().layouts().oldest_version()
    }
}

/// Returns the metadata of a delivered record for the engine.
pub(crate) fn meta_of(record: &DeliveredRecord) -> RecordMeta {
    RecordMeta {
        digest: record.digest,
        tombstone: record.tombstone,
        n_val_class: record.n_val_class.clamp(1, 15) as u8,
        expires_at_secs: record.expires_at_secs,
        indexed: record.indexed,
    }
}

/// Calls a node, and repeats the call while the node is too busy: its clients' requests go first.
pub(crate) async fn call(
    peer: &Peer,
    method: u16,
    header: &impl Message,
    payload: &(impl Payload + ?Sized),
) -> Result<Reply, TransferError> {
    loop {
        match peer.call(method, header, payload, Lane::Large, ANSWER_TIMEOUT).await {
            Err(CallError::TooBusy { .. }) => sleep(BUSY_PAUSE).await,
            answer => {
                return answer.map_err(|fault| TransferError::Call { to: peer.name(), fault });
            }
        }
    }
}
