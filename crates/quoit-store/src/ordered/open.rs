//! Opening: the marker, the store's identity, and the counts.

use super::backend::{OrderedStore, Space};
use super::cache::RecordCache;
use super::commit::StoreCommitter;
use super::keys::{Epoch, SideKey, epoch_key, mark_key};
use super::overlay::{Overlay, PendingWrites, ScanRange};
use super::settings::OrderedSettings;
use super::store::{PartitionState, StoreShared};
use super::tallies::Tallies;
use crate::buckets::BucketList;
use crate::error::StoreError;
use crate::found_damage::FoundDamage;
use crate::identity::{self, StoreIdentity};
use crate::marker;
use crate::opening::ROLLED_BACK;
use crate::record_loss::RecordLoss;
use crate::store_file::{Meta, MetaFile};
use bytes::Bytes;
use quoit_model::hash::{Partition, RingSize};
use quoit_model::store_opening::StoreId;
use quoit_seam::{Clock, Disk};
use std::sync::{Arc, OnceLock};

/// Number of entries that are read at once.
const READ_COUNT: usize = 4_096;

/// Result of opening an engine on an ordered store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderedReport {
    /// True if the store was created by this opening.
    pub created: bool,
    /// True if the last stop was clean, and for a new store.
    pub clean: bool,
    /// Loss of durable records, found by this opening or by an earlier one, that the node has not repaired
    /// yet.
    pub loss: Option<RecordLoss>,
    /// Random id of the store.
    pub store_id: StoreId,
    /// Number of the incarnation: 1 at creation, incremented after each unclean stop, and when records turn
    /// out to be lost.
    pub incarnation: u64,
    /// Records in the store, tombstones included.
    pub key_count: u64,
}

/// The properties that distinguish the engines.
pub(super) struct EngineKind<'k> {
    pub(super) name: &'static str,
    pub(super) bodies_apart: bool,
    /// Opens the ordered store, after the marker was checked.
    pub(super) open: &'k OpenFn<'k>,
}

/// Opens an ordered store.
type OpenFn<'k> = dyn Fn(&mut StoreOpening<'_>) -> Result<Box<dyn OrderedStore>, StoreError> + 'k;

/// Facts that an ordered store gets when it is opened, and its means to report losses.
pub(super) struct StoreOpening<'o> {
    /// True if the last stop was clean.
    pub(super) clean: bool,
    meta: &'o mut MetaFile,
    /// Explanation of how the loss of durable writes was noticed.
    loss: Option<String>,
}

impl StoreOpening<'_> {
    pub(super) fn store_id(&self) -> StoreId {
        self.meta.meta().store_id
    }

    /// Notes durably that batches of durable writes are lost, before the evidence disappears.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub(super) fn note_loss(&mut self, reason: String) -> Result<(), StoreError> {
        tracing::error!(reason, "durable writes of this store are gone");
        self.loss.get_or_insert(reason);
        let noted = Meta { has_lost: true, derived_data_stale: true, ..self.meta.meta().clone() };
        self.meta.write(noted)
    }
}

impl StoreShared {
    pub(super) fn open(
        kind: &EngineKind<'_>,
        disk: &dyn Disk,
        clock: Arc<dyn Clock>,
        settings: OrderedSettings,
    ) -> Result<(Self, OrderedReport), StoreError> {
        let lock = disk.lock()?;
        if !marker::check(disk, kind.name, settings.ring_size)? {
            marker::write(disk, kind.name, settings.ring_size)?;
        }
        let identity::OpenedIdentity { mut meta, created, clean } =
            identity::open(disk, settings.entropy)?;
        let mut opening = StoreOpening { clean, meta: &mut meta, loss: None };
        let overlay = Overlay::new((kind.open)(&mut opening)?);
        let found = EarlyFindings {
            is_missing: created && settings.is_expected,
            clean,
            loss: opening.loss.take(),
        };
        let diagnosed = |error| overlay.backend.diagnosed(error);
        let loss = check_mark(&overlay, &mut meta, found, &settings).map_err(diagnosed)?;
        let restored = restore(&overlay, settings.ring_size).map_err(diagnosed)?;
        if restored.is_damaged {
            meta.write(Meta { derived_data_stale: true, ..meta.meta().clone() })?;
        }
        let state = |(tallies, epoch)| PartitionState::new(tallies, epoch);
        let partitions = restored.partitions.into_iter().map(state).collect();
        let stale = meta.meta().derived_data_stale;
        let store = Self {
            name: kind.name,
            bodies_apart: kind.bodies_apart,
            path: disk.path(),
            settings,
            clock,
            overlay,
            cache: RecordCache::new(&settings),
            partitions,
            committer: StoreCommitter::default(),
            buckets: BucketList::default(),
            verified_to: Default::default(),
            maintenance: OnceLock::new(),
            identity: Arc::new(StoreIdentity::new(meta)),
            corrupt_records: Default::default(),
            found_damage: FoundDamage::default(),
            index_counters: Default::default(),
            _lock: lock,
        };
        if stale {
            let rebuilt = store.rebuild_derived(!restored.is_damaged);
            rebuilt.map_err(|error| store.overlay.backend.diagnosed(error))?;
            let mut meta = store.identity.file();
            let fits = Meta { derived_data_stale: false, ..meta.meta().clone() };
            meta.write(fits)?;
        }
        let key_counts = store.partitions.iter();
        let key_count = key_counts.map(|state| state.tallies.read().summary().key_count()).sum();
        let meta = store.identity.file().meta().clone();
        let Meta { store_id, incarnation, .. } = meta;
        let report = OrderedReport { created, clean, loss, store_id, incarnation, key_count };
        Ok((store, report))
    }
}

/// Facts that were found before the data was read.
struct EarlyFindings {
    /// True if the store should exist and does not.
    is_missing: bool,
    /// True if the last stop was clean.
    clean: bool,
    /// Explanation of how the ordered store has noticed that durable writes are lost.
    loss: Option<String>,
}

/// Compares the data with the file `STORE`: both have the number of times that the store was opened or
/// closed, and the data is written first. Begins a new incarnation if one of them is older than the other.
///
/// # Errors
///
/// If the disk fails.
fn check_mark(
    overlay: &Overlay,
    meta: &mut MetaFile,
    EarlyFindings { is_missing, clean, loss }: EarlyFindings,
    settings: &OrderedSettings,
) -> Result<Option<RecordLoss>, StoreError> {
    let last = meta.meta().clone();
    let known = settings.last_opening.filter(|known| known.is_later_than(&last.opening()));
    let stored = overlay.get(Space::Side, &mark_key())?;
    let found = stored.and_then(|stored| stored[..].try_into().ok()).map_or(0, u64::from_be_bytes);
    let reason = match found {
        _ if is_missing => Some("the store was gone and was made anew"),
        _ if known.is_some() => Some(ROLLED_BACK),
        _ if loss.is_some() => loss.as_deref(),
        found if found < last.mark => Some("the data is older than the file that says whose it is"),
        // The data is written first, so it may be ahead by one.
        found if found > last.mark + 1 => {
            Some("the data is newer than the file that says whose it is")
        }
        _ => None,
    };
    // Skips the incarnations that forgotten starts may have used.
    let skipped = found.saturating_sub(last.mark + 1);
    let ends = reason.is_some() && clean;
    let incarnation = match known {
        // Starts that the node does not know of may have used higher incarnations, so the number skips a
        // random distance.
        Some(known) => last.incarnation.max(known.incarnation) + 1 + (settings.entropy >> 32),
        None => last.incarnation + u64::from(ends) + skipped,
    };
    let has_lost = last.has_lost || reason.is_some();
    let noted = Meta { has_lost, incarnation, ..last };
    if reason.is_some() {
        meta.write(noted.clone())?;
    }
    // A start that was killed between writing the data and writing the file is repeated.
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

/// Notes durably in the data that the store was opened or closed once more than `last`. Returns the new
/// number, or `last` if the data accepts no writes at present.
///
/// # Errors
///
/// If the disk fails.
pub(super) fn write_mark(overlay: &Overlay, last: u64) -> Result<u64, StoreError> {
    let mark = last + 1;
    let value = Bytes::copy_from_slice(&mark.to_be_bytes());
    match overlay.backend.apply(&PendingWrites::of(vec![(Space::Side, mark_key(), Some(value))])) {
        Ok(()) => {}
        // The next opening or closing writes it again.
        Err(StoreError::Overloaded | StoreError::DiskFull { .. }) => return Ok(last),
        Err(error) => return Err(error),
    }
    if !overlay.backend.is_durable_when_applied() {
        overlay.backend.sync()?;
    }
    Ok(mark)
}

/// The stored states of partitions.
struct RestoredPartitions {
    partitions: Vec<(Tallies, Epoch)>,
    /// True if a part of the counts could not be read.
    is_damaged: bool,
}

/// The stored states of all partitions. Unreadable counts are left out.
///
/// # Errors
///
/// If the disk fails, or the epoch of a partition cannot be read.
fn restore(overlay: &Overlay, ring_size: RingSize) -> Result<RestoredPartitions, StoreError> {
    let new = || {
        let tallies = |number| Tallies::new(Partition(number), ring_size);
        (0..ring_size.get()).map(|number| (tallies(number), Epoch::default())).collect()
    };
    let mut restored = RestoredPartitions { partitions: new(), is_damaged: false };
    match SideKey::all_but_expiries().iter().try_for_each(|range| restored.take(overlay, range)) {
        Err(StoreError::Corrupt { .. }) => {}
        taken => return taken.map(|()| restored),
    }
    // The location of the damage is unknown. Reading partition by partition recovers most counts.
    let mut restored = RestoredPartitions { partitions: new(), is_damaged: true };
    for number in 0..ring_size.get() {
        let partition = Partition(number);
        let key = epoch_key(partition);
        if let Some(epoch) = overlay.get(Space::Side, &key)? {
            restore_entry(&mut restored.partitions, &key, &epoch);
        }
        for range in SideKey::sums_of(partition) {
            match restored.take(overlay, &range) {
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(%error, number, "counts of a partition can't be read");
                }
                taken => taken?,
            }
        }
    }
    Ok(restored)
}

impl RestoredPartitions {
    fn take(
        &mut self,
        overlay: &Overlay,
        (from, to): &(Bytes, Option<Bytes>),
    ) -> Result<(), StoreError> {
        let mut next = Some(from.clone());
        while let Some(from) = next {
            let range = ScanRange {
                space: Space::Side,
                from: &from,
                to: to.as_deref(),
                value_bytes_max: usize::MAX,
            };
            let scanned = overlay.scan(range, READ_COUNT)?;
            for (key, value) in &scanned.entries {
                self.is_damaged |= !restore_entry(&mut self.partitions, key, value);
            }
            next = scanned.next;
        }
        Ok(())
    }
}

/// True if an entry of the side space was decoded and applied.
fn restore_entry(restored: &mut [(Tallies, Epoch)], key: &[u8], value: &[u8]) -> bool {
    let (partition, key) = match SideKey::read(key) {
        None => return false,
        Some(
            SideKey::Dropped { .. }
            | SideKey::Expiry { .. }
            | SideKey::Unread { .. }
            | SideKey::Mark
            | SideKey::Group,
        ) => {
            return true;
        }
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
