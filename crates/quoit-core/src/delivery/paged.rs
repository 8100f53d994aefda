//! Hands over large sets and maps page by page, to a node that has no copy of them.
//!
//! 1. The sender opens a staging on the receiver, which keeps the pages aside.
//! 2. It sends all pages as they are stored, some at a time, while clients write. Then it compares the
//!    root with what it has sent, and sends the pages that have changed once more.
//! 3. If pages have changed after [`PASS_COUNT`] passes, it reads the last changes while writers wait.
//! 4. It sends the root that the pages belong to. The receiver then stores the record in one step.
//!
//! So memory holds some pages, and a name and a hash for each page, however large the value is. If a step
//! fails, the sender drops the staging. If the receiver does not get that message, it drops the staging
//! after a time of silence.

use super::RecordDelivery;
use super::hand::{TransferError, call};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::records::{ChangedPages, PassEnd, Records, SentPages, is_object};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Lane, Peer};
use quoit_model::data_type::pages::PageName;
use quoit_model::hash::Partition;
use quoit_number::length_u32;
use quoit_store::engine::{Record, RecordAt};
use quoit_store::error::StoreError;
use quoit_wire::internode::Payload;
use quoit_wire::internode::data::{MergeRule, REFUSED_NEEDS_WHOLE, REFUSED_STORAGE};
use quoit_wire::internode::staging::{
    DropStaging, FinishStaging, METHOD_DROP_STAGING, METHOD_FINISH_STAGING, METHOD_OPEN_STAGING,
    METHOD_STAGE_PAGES, OpenStaging, PagesStaged, StagePages, StagedPage, StagingDecision,
    StagingFinished, StagingOpened,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Largest size of the pages in one message, in bytes. A single larger page has a message of its own.
pub(crate) const STAGED_BYTES_MAX: usize = 256 << 10;
/// Number of passes in which pages are read while clients write. After that, they are read while writers
/// wait.
const PASS_COUNT: usize = 2;
/// Time without a message after which the sender, at its next step, sends an empty one to show that it is
/// alive. A receiver that gets no message for four times as long drops the staging; if it can't reach the
/// sender, it waits for less.
const SIGN_INTERVAL: Duration = Duration::from_secs(15);
/// Pause before a receiver that can't stage another record yet is asked again.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// Number of times that such a receiver is asked before the sender continues with other records.
const BUSY_COUNT_MAX: usize = 30;

/// Result of sending a record page by page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SentInPages {
    /// The receiver has the record on its disk. Holds the number of bytes that were sent.
    Done(u64),
    /// The receiver has another version in pages: the two have to be compared by ranges.
    InPages,
    /// The record has to be sent whole.
    Whole,
}

/// Pages of a message.
struct Pages<'a>(&'a ChangedPages);

impl Payload for Pages<'_> {
    fn size_bytes(&self) -> usize {
        self.0.iter().filter_map(|(_, page)| page.as_ref()).map(Bytes::len).sum()
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        for (_, page) in self.0 {
            out.extend_from_slice(page.as_deref().unwrap_or_default());
        }
    }
}

/// A record that is being sent, and its receiver.
struct Sending<'p> {
    records: Arc<Records>,
    peer: &'p Peer,
    partition: Partition,
    key: Bytes,
    /// The receiver's number of the staging.
    staging: u64,
    /// Time at which the last message was sent to the receiver.
    told_at: Instant,
    /// Bytes sent so far.
    byte_count: u64,
}

impl RecordDelivery {
    /// Hands a record page by page to a node that lacks it.
    pub(super) async fn hand_pages(
        &self,
        peer: &Peer,
        partition: Partition,
        (key, root): &(Bytes, Record),
    ) -> Result<SentInPages, TransferError> {
        // Where the last write wins, values are not merged, so pages of one are of no use to the other.
        if self.delivered(key, root).rule() != MergeRule::Causal {
            return Ok(SentInPages::Whole);
        }
        let opened = match self.open_staging(peer, partition, key, root.meta.digest).await {
            Ok(opened) => opened,
            Err(fault) => return no_pages(fault),
        };
        match opened.room() {
            StagingDecision::Open => {}
            StagingDecision::Known => return Ok(SentInPages::Done(0)),
            StagingDecision::InPages => return Ok(SentInPages::InPages),
            StagingDecision::Whole => return Ok(SentInPages::Whole),
            StagingDecision::Busy => return Err(TransferError::NoRoom { to: peer.name() }),
        }
        let mut sending = Sending {
            records: Arc::clone(&self.local.records),
            peer,
            partition,
            key: key.clone(),
            staging: opened.staging,
            told_at: Instant::now(),
            byte_count: 0,
        };
        let sent = self.send_pages(&mut sending).await;
        if !matches!(sent, Ok(SentInPages::Done(_))) {
            // If this message is lost, the receiver drops the staging after a time of silence.
            let gone = DropStaging { staging: sending.staging };
            let told = peer.call(METHOD_DROP_STAGING, &gone, b"", Lane::Large, SIGN_INTERVAL).await;
            if let Err(fault) = told {
                tracing::debug!(%fault, "a receiver could not be informed that no more pages come");
            }
        }
        sent.or_else(no_pages)
    }

    /// Asks the receiver to open a staging. If the receiver is busy, repeats that up to [`BUSY_COUNT_MAX`]
    /// times.
    async fn open_staging(
        &self,
        peer: &Peer,
        partition: Partition,
        key: &Bytes,
        digest: u64,
    ) -> Result<StagingOpened, TransferError> {
        let mut asked_count = 0;
        loop {
            let open = OpenStaging {
                partition: u32::from(partition.0),
                layout_version: self.oldest_layout(),
                key: key.clone(),
                digest,
                is_minimum_rate: self.yielding.is_minimum_rate(),
            };
            let reply = call(peer, METHOD_OPEN_STAGING, &open, b"").await?;
            let answer = |_| TransferError::Answer { to: peer.name() };
            let opened = StagingOpened::decode(reply.header).map_err(answer)?;
            self.yielding.told(opened.pressure_percent);
            asked_count += 1;
            if opened.room() != StagingDecision::Busy || asked_count == BUSY_COUNT_MAX {
                return Ok(opened);
            }
            sleep(BUSY_PAUSE).await;
        }
    }

    /// Sends pages until the receiver has all pages of one version of the record, and then sends the root.
    async fn send_pages(&self, sending: &mut Sending<'_>) -> Result<SentInPages, TransferError> {
        let begun = self.on_record(sending, Records::begin_sending).await?;
        let Some(mut sent) = begun else { return Ok(SentInPages::Whole) };
        for _ in 0..PASS_COUNT {
            sent = self.send_pass(sending, sent).await?;
            let end;
            (sent, end) = self
                .on_record(sending, move |records, at| {
                    records.end_pass(at, &mut sent).map(|end| (sent, end))
                })
                .await?;
            match end {
                PassEnd::Complete => return self.finish_staging(sending, sent.root()).await,
                PassEnd::Changed => {}
                PassEnd::NotInPages => return Ok(SentInPages::Whole),
            }
        }
        let (sent, last) = self
            .on_record(sending, move |records, at| {
                records.last_pages(at, &mut sent).map(|last| (sent, last))
            })
            .await?;
        let Some(last) = last else { return Ok(SentInPages::Whole) };
        self.send_all(sending, last).await?;
        self.finish_staging(sending, sent.root()).await
    }

    /// Runs one pass through all pages, and sends those that the receiver lacks or has in another
    /// version.
    async fn send_pass(
        &self,
        sending: &mut Sending<'_>,
        mut sent: SentPages,
    ) -> Result<SentPages, TransferError> {
        loop {
            self.throttle.check_outbound()?;
            let limit_bytes = self.yielding.stride(STAGED_BYTES_MAX);
            let (pages, is_through);
            let began = Instant::now();
            (sent, (pages, is_through)) = self
                .on_record(sending, move |records, at| {
                    records.next_pages(at, &mut sent, limit_bytes).map(|read| (sent, read))
                })
                .await?;
            self.yielding.rest_after(began.elapsed()).await;
            self.send_all(sending, pages).await?;
            if is_through {
                return Ok(sent);
            }
        }
    }

    /// Sends pages in messages of a bounded size.
    async fn send_all(
        &self,
        sending: &mut Sending<'_>,
        pages: ChangedPages,
    ) -> Result<(), TransferError> {
        let mut left = pages.into_iter().peekable();
        while left.peek().is_some() {
            let (mut some, mut size_bytes) = (Vec::new(), 0);
            while let Some(next) = left.next_if(|(_, page)| {
                let next_bytes = message_bytes(page.as_ref());
                size_bytes == 0 || size_bytes + next_bytes <= STAGED_BYTES_MAX
            }) {
                size_bytes += message_bytes(next.1.as_ref());
                some.push(next);
            }
            let began = Instant::now();
            self.stage(sending, &some).await?;
            self.yielding.rest_after(began.elapsed()).await;
            let size_bytes = size_bytes as u64;
            sending.byte_count += size_bytes;
            self.wait_with_signs(sending, size_bytes).await?;
        }
        // If nothing was sent for a while, an empty message tells the receiver that the sender is alive.
        if sending.told_at.elapsed() >= SIGN_INTERVAL {
            self.stage(sending, &Vec::new()).await?;
        }
        Ok(())
    }

    /// Waits as the rate limit requires. Meanwhile, empty messages tell the receiver that more pages will
    /// come.
    async fn wait_with_signs(
        &self,
        sending: &mut Sending<'_>,
        byte_count: u64,
    ) -> Result<(), TransferError> {
        let mut waiting = std::pin::pin!(self.throttle.wait_for(byte_count));
        while timeout(SIGN_INTERVAL, &mut waiting).await.is_err() {
            self.throttle.check_outbound()?;
            self.stage(sending, &Vec::new()).await?;
        }
        Ok(())
    }

    async fn stage(
        &self,
        sending: &mut Sending<'_>,
        pages: &ChangedPages,
    ) -> Result<(), TransferError> {
        let staged = |(name, page): &(PageName, Option<Bytes>)| StagedPage {
            branch: name.branch,
            first: name.first.0,
            // Pages are smaller than frames, and frames than 4 GB.
            size_bytes: page.as_ref().map_or(0, |page| length_u32(page.len())),
        };
        let header = StagePages {
            staging: sending.staging,
            pages: pages.iter().map(staged).collect(),
            is_minimum_rate: self.yielding.is_minimum_rate(),
        };
        let peer = sending.peer;
        let reply = call(peer, METHOD_STAGE_PAGES, &header, &Pages(pages)).await?;
        let answer = |_| TransferError::Answer { to: peer.name() };
        let staged = PagesStaged::decode(reply.header).map_err(answer)?;
        sending.told_at = Instant::now();
        self.yielding.told(staged.pressure_percent);
        match staged.is_lost {
            true => Err(TransferError::Lost { to: peer.name() }),
            false => Ok(()),
        }
    }

    async fn finish_staging(
        &self,
        sending: &Sending<'_>,
        root: &Record,
    ) -> Result<SentInPages, TransferError> {
        let finish = FinishStaging {
            staging: sending.staging,
            layout_version: self.oldest_layout(),
            record: self.delivered(&sending.key, root),
        };
        let peer = sending.peer;
        let reply = call(peer, METHOD_FINISH_STAGING, &finish, &root.value[..]).await?;
        let answer = |_| TransferError::Answer { to: peer.name() };
        let finished = StagingFinished::decode(reply.header).map_err(answer)?;
        Ok(match finished.room() {
            StagingDecision::Known => {
                SentInPages::Done(sending.byte_count + root.value.len() as u64)
            }
            StagingDecision::InPages => SentInPages::InPages,
            StagingDecision::Whole => SentInPages::Whole,
            StagingDecision::Open | StagingDecision::Busy => {
                return Err(TransferError::Lost { to: peer.name() });
            }
        })
    }

    /// Runs a step that reads much of this node's copy, on a thread of low priority.
    async fn on_record<T: Send + 'static>(
        &self,
        sending: &Sending<'_>,
        step: impl FnOnce(&Records, &RecordAt<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, TransferError> {
        let (records, key) = (Arc::clone(&sending.records), sending.key.clone());
        let partition = sending.partition;
        let on_record = move || {
            let place = PlacedKey::new(&key, partition)?;
            Ok(step(&records, &place.at())?)
        };
        Ok(self.local.settings.blocking.at_low_priority(on_record).await?)
    }

    /// Returns a record that a fold has returned as a whole object; `None` if the record is gone or its pages
    /// are damaged. If they are damaged, another node that has the record hands it over.
    pub(crate) async fn whole_record(
        &self,
        partition: Partition,
        key: &Bytes,
        record: Record,
    ) -> Result<Option<Record>, TransferError> {
        if is_object(&record.value) {
            return Ok(Some(record));
        }
        let (records, key) = (Arc::clone(&self.local.records), key.clone());
        let read = move || {
            let place = PlacedKey::new(&key, partition)?;
            match records.get(&place.at()) {
                Err(StoreError::Corrupt { path, offset, reason }) => {
                    tracing::error!(%path, offset, %reason, "a record in pages is damaged");
                    Ok(None)
                }
                read => Ok(read?),
            }
        };
        Ok(self.local.settings.blocking.at_low_priority(read).await?)
    }
}

/// Returns the estimated size of a page in a message, in bytes.
fn message_bytes(page: Option<&Bytes>) -> usize {
    const NAME_BYTES: usize = 32;
    NAME_BYTES + page.map_or(0, Bytes::len)
}

/// Decides what to do after pages could not be sent. If the receiver can't store the record in pages, or
/// this node's pages are damaged, the record is tried as a whole.
fn no_pages(fault: TransferError) -> Result<SentInPages, TransferError> {
    match fault {
        TransferError::Call {
            fault: CallError::Refused { code: REFUSED_STORAGE | REFUSED_NEEDS_WHOLE, .. },
            ..
        }
        | TransferError::Own(RequestError::Store(StoreError::Corrupt { .. })) => {
            Ok(SentInPages::Whole)
        }
        fault => Err(fault),
    }
}
