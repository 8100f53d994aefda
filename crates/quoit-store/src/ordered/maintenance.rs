//! Background work: reclaims the space of expired records and dropped partitions, and helps a store that
//! has fallen behind.

use super::backend::Space;
use super::keys::{
    Epoch, RecordKey, SideKey, all_dropped, expiries_until, expiry_key, index_key, name_key,
    records_end, records_from, unread_of,
};
use super::overlay::ScanRange;
use super::point::{FoundRecord, RecordPart};
use super::store::StoreShared;
use super::tallies::SpaceWrites;
use super::value::{HEAD_BYTES, ValueHead};
use crate::engine::{IoMode, RecordAt};
use crate::error::StoreError;
use crate::index_page::places_of;
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::KeyRef;
use quoit_seam::{NextStep, Pace, Worker};
use std::sync::Arc;

/// Maximum number of records that are removed in one step.
const STEP_COUNT: usize = 256;

/// Pause between steps while there is more to do, in microseconds, so that requests come first.
const STEP_PAUSE_US: u64 = 5_000;

/// Pause while there is nothing to do, in microseconds.
const IDLE_PAUSE_US: u64 = 10_000_000;

/// The worker that removes records which no reader can see any more, and does the store's own work if no
/// thread of the store does.
pub(super) struct MaintenanceWorker(pub(super) Arc<StoreShared>);

impl Worker for MaintenanceWorker {
    fn step(&self, _: &dyn Pace) -> NextStep {
        let backend = &self.0.overlay.backend;
        let done = backend.repair().and_then(|is_mended| Ok(is_mended || backend.catch_up()?));
        match done {
            Ok(true) => return NextStep::Again,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "the store's own work could not be done");
                return NextStep::AfterUs(IDLE_PAUSE_US);
            }
        }
        let is_more = self.0.remove_dropped().and_then(|is_more_dropped| {
            let is_more_expired = self.0.remove_expired()?;
            Ok(is_more_dropped || is_more_expired)
        });
        match is_more {
            Ok(false) => NextStep::AfterUs(IDLE_PAUSE_US),
            Ok(true) => NextStep::AfterUs(STEP_PAUSE_US),
            Err(StoreError::Closed) => NextStep::Done,
            Err(error) => {
                tracing::debug!(%error, "records that have ended could not be removed");
                NextStep::AfterUs(IDLE_PAUSE_US)
            }
        }
    }
}

/// The worker that frees unused parts of the store.
pub(super) struct ReleaseWorker(pub(super) Arc<StoreShared>);

impl Worker for ReleaseWorker {
    fn step(&self, _: &dyn Pace) -> NextStep {
        self.0.overlay.backend.release().map_or(NextStep::Done, NextStep::AfterUs)
    }
}

impl StoreShared {
    /// Removes some expired records. Returns true if there may be more: a scan may return no entries before
    /// its end, because removals that wait in memory hide entries.
    fn remove_expired(&self) -> Result<bool, StoreError> {
        let now_secs = u32::try_from(self.clock.unix_secs()).unwrap_or(u32::MAX);
        let (from, to) = expiries_until(now_secs);
        let range = ScanRange {
            space: Space::Side,
            from: &from,
            to: Some(&to),
            value_bytes_max: usize::MAX,
        };
        let scanned = self.overlay.scan(range, STEP_COUNT)?;
        for (key, _) in &scanned.entries {
            if let Some(SideKey::Expiry { expires_at_secs, record_key }) = SideKey::read(key) {
                self.remove_if_expired(expires_at_secs, record_key)?;
            }
        }
        Ok(scanned.next.is_some())
    }

    fn remove_if_expired(&self, expires_at_secs: u32, record_key: &[u8]) -> Result<(), StoreError> {
        let read = RecordKey::read(record_key);
        let known = read.filter(|read| usize::from(read.partition.0) < self.partitions.len());
        let named = known.and_then(|read| Some((read, KeyRef::decode(read.encoded).ok()?)));
        let forget = || {
            self.submit(vec![(Space::Side, expiry_key(expires_at_secs, record_key), None)]);
        };
        let Some((RecordKey { partition, epoch, identity, encoded }, key)) = named else {
            forget();
            return Ok(());
        };
        let at = RecordAt { key, encoded, identity, partition };
        let _changing = self.begin_change(partition, IoMode::Wait)?;
        if epoch == self.partition(partition).epoch()
            && let FoundRecord::Present(record) = self.find(&at, RecordPart::Head, IoMode::Wait)?
            && record.meta.expires_at_secs == expires_at_secs
        {
            return self.end_expired(&at);
        }
        forget();
        Ok(())
    }

    /// Removes some records of dropped partitions. Returns true if there may be more.
    pub(super) fn remove_dropped(&self) -> Result<bool, StoreError> {
        self.check_open()?;
        // If writes are refused, there is no point in searching.
        self.committer.check()?;
        let (from, to) = all_dropped();
        let range = ScanRange {
            space: Space::Side,
            from: &from,
            to: Some(&to),
            value_bytes_max: usize::MAX,
        };
        let scanned = self.overlay.scan(range, STEP_COUNT)?;
        let Some((mark, _)) = scanned.entries.first() else { return Ok(scanned.next.is_some()) };
        if let Some(SideKey::Dropped { partition, epoch }) = SideKey::read(mark) {
            self.remove_epoch(partition, epoch, mark)?;
        }
        Ok(true)
    }

    /// Removes some records of an epoch, and with the last of them the mark of the epoch.
    fn remove_epoch(
        &self,
        partition: Partition,
        epoch: Epoch,
        mark: &Bytes,
    ) -> Result<(), StoreError> {
        let _changing = self.begin_change(partition, IoMode::Wait)?;
        let from = records_from(partition, epoch, Identity(0));
        let end = records_end(partition, epoch);
        let range = ScanRange {
            space: Space::Records,
            from: &from,
            to: Some(&end),
            value_bytes_max: HEAD_BYTES,
        };
        let scanned = self.overlay.scan(range, STEP_COUNT)?;
        let mut stored = Vec::new();
        for (key, value) in &scanned.entries {
            stored.push((Space::Records, key.clone(), None));
            if self.bodies_apart {
                stored.push((Space::Bodies, key.clone(), None));
            }
            let name = RecordKey::read(key).and_then(|read| KeyRef::decode(read.encoded).ok());
            stored.extend(name.map(|name| (Space::Names, name_key(name, partition, epoch), None)));
            let meta = ValueHead::read(key, value).map(|head| head.meta).ok();
            let expiry = meta.filter(|meta| meta.expires_at_secs != 0);
            stored.extend(
                expiry.map(|meta| (Space::Side, expiry_key(meta.expires_at_secs, key), None)),
            );
            if let (Some(name), true) = (name, meta.is_some_and(|meta| meta.indexed)) {
                let places = self.places_of_dropped(key, name)?;
                stored.extend(
                    places
                        .iter()
                        .map(|place| (Space::Indexes, index_key(place, partition, epoch), None)),
                );
            }
        }
        if scanned.next.is_none() && self.stage_unread(partition, epoch, &mut stored)? {
            stored.push((Space::Side, mark.clone(), None));
        }
        if !stored.is_empty() {
            self.submit(stored);
        }
        Ok(())
    }

    /// Stages the removal of some marks of damaged records of an epoch. Returns true if there are no more.
    fn stage_unread(
        &self,
        partition: Partition,
        epoch: Epoch,
        stored: &mut SpaceWrites,
    ) -> Result<bool, StoreError> {
        let (from, to) = unread_of(partition, epoch);
        let range =
            ScanRange { space: Space::Side, from: &from, to: Some(&to), value_bytes_max: 0 };
        let scanned = self.overlay.scan(range, STEP_COUNT)?;
        stored.extend(scanned.entries.into_iter().map(|(mark, _)| (Space::Side, mark, None)));
        Ok(scanned.next.is_none())
    }

    /// The encoded index entries of a record of a former epoch. The entries of an unreadable record stay;
    /// no reader sees them.
    fn places_of_dropped(
        &self,
        record_key: &Bytes,
        name: KeyRef<'_>,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        Ok(match self.look_up_uncached(record_key) {
            Ok(FoundRecord::Present(record)) => {
                places_of(name, &record.meta, &record.value).unwrap_or_default()
            }
            Ok(_) | Err(StoreError::Corrupt { .. }) => Vec::new(),
            Err(error) => return Err(error),
        })
    }
}
