//! Opening: whose data it is, who the store is, and what its counts are.

use super::backend::{OrderedStore, Space};
use super::cache::RecordCache;
use super::commit::Committer;
use super::keys::{Epoch, SideKey, mark_key};
use super::overlay::{Batch, Overlay, Range};
use super::settings::OrderedSettings;
use super::store::{PartitionState, Store};
use super::tallies::Tallies;
use crate::bitcask::{Meta, MetaFile, RecordLoss};
use crate::buckets::BucketList;
use crate::error::StoreError;
use crate::identity;
use crate::marker;
use crate::opening::OLDER_THAN_THE_NODE;
use crate::seam::{Clock, Disk};
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use std::sync::{Arc, OnceLock};

/// Entries that are read at once.
const READ_COUNT: usize = 4_096;

/// What was found when an engine on an ordered store was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedReport {
    /// Whether the store was made new.
    pub created: bool,
    /// Whether the store was closed in good order before (also true of a new one).
    pub clean: bool,
    /// Records that were durable and are gone; found now, or before by a node that has not made up for it.
    pub loss: Option<RecordLoss>,
    /// Random id of the store.
    pub store_id: u64,
    /// 1 at creation, one more after each stop that was not in good order.
    pub incarnation: u64,
    /// Records in the store, tombstones included.
    pub key_count: u64,
}

/// What an engine is, beside its settings.
pub(super) struct Kind<'k> {
    pub(super) name: &'static str,
    pub(super) bodies_apart: bool,
    /// Opens the ordered store, when the directory is known to be its own. It is told whether that was closed
    /// in good order.
    pub(super) open: &'k dyn Fn(bool) -> Result<Box<dyn OrderedStore>, StoreError>,
}

impl Store {
    pub(super) fn open(
        kind: &Kind<'_>,
        disk: &dyn Disk,
        clock: Arc<dyn Clock>,
        settings: OrderedSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        let lock = disk.lock()?;
        if !marker::check(disk, kind.name, settings.ring_size)? {
            marker::write(disk, kind.name, settings.ring_size)?;
        }
        let identity::Opened { mut meta, created, clean } = identity::open(disk, settings.entropy)?;
        let overlay = Overlay::new((kind.open)(clean)?);
        let is_missing = created && settings.is_expected;
        let loss = check_mark(&overlay, &mut meta, is_missing, clean, &settings)?;
        let partitions = restore(&overlay, &disk.path(), settings)?;
        let key_count =
            partitions.iter().map(|state| state.tallies.read().sums().key_count()).sum();
        let report = OrderedReport {
            created,
            clean,
            loss,
            store_id: meta.meta().store_id,
            incarnation: meta.meta().incarnation,
            key_count,
        };
        let store = Self {
            name: kind.name,
            bodies_apart: kind.bodies_apart,
            path: disk.path(),
            settings,
            clock,
            overlay,
            cache: RecordCache::new(settings.record_cache_bytes, settings.entropy),
            partitions,
            committer: Committer::default(),
            buckets: BucketList::default(),
            upkeep: OnceLock::new(),
            meta: Mutex::new(meta),
            corrupt_records: Default::default(),
            index_counters: Default::default(),
            closed: Default::default(),
            _lock: lock,
        };
        Ok((store, report))
    }
}

/// Holds the data against the file that says who the store is: both count how often the store was opened and
/// closed, the data first. Begins a new incarnation if one of them is older than the other.
///
/// # Errors
///
/// When the disk refuses.
fn check_mark(
    overlay: &Overlay,
    meta: &mut MetaFile,
    is_missing: bool,
    clean: bool,
    settings: &OrderedSettings,
) -> Result<Option<RecordLoss>, StoreError> {
    let last = meta.meta().clone();
    let known = settings.last_opening.filter(|known| known.is_later_than(&last));
    let stored = overlay.get(Space::Side, &mark_key())?;
    let found = stored.and_then(|stored| stored[..].try_into().ok()).map_or(0, u64::from_be_bytes);
    let reason = match found {
        _ if is_missing => Some("the store was gone and was made anew"),
        _ if known.is_some() => Some(OLDER_THAN_THE_NODE),
        found if found < last.mark => Some("the data is older than the file that says whose it is"),
        // The data is written first.
        found if found > last.mark + 1 => {
            Some("the data is newer than the file that says whose it is")
        }
        _ => None,
    };
    // An incarnation that none of the forgotten starts can have had.
    let skipped = found.saturating_sub(last.mark + 1);
    let ends = reason.is_some() && clean;
    let incarnation = match known {
        // Starts that the node knows nothing of may have had others: a random number lies in between.
        Some(known) => last.incarnation.max(known.incarnation) + 1 + (settings.entropy >> 32),
        None => last.incarnation + u64::from(ends) + skipped,
    };
    let has_lost = last.has_lost || reason.is_some();
    let noted = Meta { has_lost, incarnation, ..last };
    if reason.is_some() {
        meta.write(noted.clone())?;
    }
    // A start that was killed after it wrote to the data, and before it wrote to the file, is made again.
    let base = if skipped > 0 { found } else { noted.mark };
    let base = known.map_or(base, |known| base.max(known.mark));
    let mark = write_mark(overlay, base)?;
    meta.write(Meta { mark, ..noted })?;
    let found_now = reason.map(|reason| RecordLoss { reason: reason.to_owned() });
    if let Some(loss) = &found_now {
        tracing::error!(reason = loss.reason, "records of this store are gone");
    }
    Ok(found_now.or(has_lost.then(RecordLoss::known)))
}

/// Notes durably in the data that the store was opened or closed once more than so often. The new number; the
/// old one where the data takes no writes at present.
///
/// # Errors
///
/// When the disk refuses.
pub(super) fn write_mark(overlay: &Overlay, last: u64) -> Result<u64, StoreError> {
    let mark = last + 1;
    let value = Bytes::copy_from_slice(&mark.to_be_bytes());
    match overlay.backend.apply(&Batch::of(vec![(Space::Side, mark_key(), Some(value))])) {
        Ok(()) => {}
        // The next opening or closing is noted again.
        Err(StoreError::Overloaded | StoreError::DiskFull { .. }) => return Ok(last),
        Err(error) => return Err(error),
    }
    if !overlay.backend.is_durable_when_applied() {
        overlay.backend.sync()?;
    }
    Ok(mark)
}

/// The state of all partitions as it was stored.
fn restore(
    overlay: &Overlay,
    path: &str,
    settings: OrderedSettings,
) -> Result<Box<[PartitionState]>, StoreError> {
    let ring_size = settings.ring_size;
    let mut restored: Vec<(Tallies, Epoch)> = (0..ring_size.get())
        .map(|number| (Tallies::new(Partition(number), ring_size), Epoch::default()))
        .collect();
    for (from, to) in SideKey::all_but_expiries() {
        let mut next = Some(from);
        while let Some(from) = next {
            let range = Range {
                space: Space::Side,
                from: &from,
                to: to.as_deref(),
                value_bytes_max: usize::MAX,
            };
            let scanned = overlay.scan(range, READ_COUNT)?;
            for (key, value) in &scanned.entries {
                if !restore_entry(&mut restored, key, value) {
                    return Err(StoreError::Corrupt {
                        path: path.to_owned(),
                        offset: 0,
                        reason:
                            "counts of a partition can't be read; move the directory away, and the \
                                 node gets its data from the others"
                                .to_owned(),
                    });
                }
            }
            next = scanned.next;
        }
    }
    Ok(restored.into_iter().map(|(tallies, epoch)| PartitionState::new(tallies, epoch)).collect())
}

/// Whether an entry of the side space could be taken over.
fn restore_entry(restored: &mut [(Tallies, Epoch)], key: &[u8], value: &[u8]) -> bool {
    let (partition, key) = match SideKey::read(key) {
        None => return false,
        Some(SideKey::Dropped { .. } | SideKey::Expiry { .. } | SideKey::Mark) => return true,
        Some(
            key @ (SideKey::Tally { partition, .. }
            | SideKey::Hour { partition, .. }
            | SideKey::Epoch { partition }),
        ) => (partition, key),
    };
    let Some((tallies, epoch)) = restored.get_mut(usize::from(partition.0)) else { return false };
    match key {
        SideKey::Tally { bucket, .. } => tallies.restore_bucket(bucket, value),
        SideKey::Hour { hour, class, .. } => tallies.restore_hour(hour, class, value),
        _ => {
            let number = value.try_into().map(u32::from_be_bytes);
            number.map(|number| *epoch = Epoch(number)).is_ok()
        }
    }
}
