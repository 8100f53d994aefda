//! Builds the index when a store is opened: from its snapshot and the log after it, otherwise from key
//! files, and from the records of segments without a usable key file.

use super::checkpoint::CheckpointState;
use super::directory::{Directory, SNAPSHOT_NAME};
use super::indexes::{KnownEntries, LogIndexes};
use super::key_facts::note_key;
use super::keys::ActiveKeys;
use super::log_end::Sealed;
use super::open::LogOpening;
use super::planted;
use super::read::Reader;
use super::rebuild::Rebuild;
use super::record::RecordHeader;
use super::replay::Replay;
use super::scan::{Damage, Scan};
use super::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentCounts, SegmentOrigin, SegmentTable};
use super::store::IndexStripe;
use crate::error::StoreError;
use crate::file_names::{keys_name, log_name};
use crate::index::{Location, PartitionIndex, SizeClass};
use crate::keyfile::KeyFile;
use crate::opening::PROGRESS_BYTES;
use crate::record_loss::RecordLoss;
use crate::snapshot::Snapshot;
use parking_lot::RwLock;
use quoit_model::hash::Partition;
use quoit_model::store_opening::StoreId;
use quoit_planted::PlantedFault;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Result of loading a store.
pub(super) struct LoadedStore {
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) stripes: Box<[IndexStripe]>,
    pub(super) sequence_max: u64,
    /// True if a record may have index entries.
    pub(super) indexed: bool,
    /// The records whose index entries are known.
    pub(super) entries: KnownEntries,
}

/// A snapshot that matches the existing segments.
struct UsableSnapshot {
    state: CheckpointState,
    indexes: Vec<PartitionIndex>,
}

impl LogOpening<'_> {
    /// Builds the index.
    pub(super) fn load(
        &mut self,
        directory: &Directory,
        segments: Vec<Arc<Segment>>,
        reader: &Reader,
        entries: &LogIndexes,
    ) -> Result<LoadedStore, StoreError> {
        let table = SegmentTable::new(segments);
        for segment in table.all() {
            self.log_bytes += segment.file.size_bytes()?;
        }
        let loaded = match self.usable_snapshot(directory, &table, reader.store_id) {
            Some(usable) => self.catch_up(directory, table, usable, reader, entries)?,
            None => self.rebuild(directory, table, reader.store_id)?,
        };
        let ring_size = usize::from(self.settings.ring_size.get());
        assert_eq!(loaded.stripes.len(), ring_size, "each partition of the ring has an index");
        self.debug_check_keys(&loaded);
        self.disk.sync_directory()?;
        Ok(loaded)
    }

    /// Checks that listings find the keys of each segment, in builds with assertions: in its key file, or
    /// in memory.
    fn debug_check_keys(&self, loaded: &LoadedStore) {
        if !cfg!(debug_assertions) {
            return;
        }
        for segment in &loaded.segments {
            let number = segment.number;
            let waits = self.unkeyed.iter().any(|sealed| sealed.segment.number == number);
            let is_keyed = self.key_files.contains_key(&number);
            assert!(waits != is_keyed, "a segment has a key file or waits for one");
        }
        let known_count = self.unkeyed.len() + self.key_files.len();
        assert_eq!(known_count, loaded.segments.len(), "keys are those of known segments");
    }

    /// The snapshot, if there is a usable one. The report tells why a snapshot is not usable.
    fn usable_snapshot(
        &mut self,
        directory: &Directory,
        table: &SegmentTable,
        store_id: StoreId,
    ) -> Option<UsableSnapshot> {
        if !directory.names.iter().any(|name| name == SNAPSHOT_NAME) {
            return None;
        }
        match self.load_snapshot(table, store_id) {
            Ok(usable) => Some(usable),
            Err(error) => {
                self.report.note_damage(error);
                None
            }
        }
    }

    fn load_snapshot(
        &mut self,
        table: &SegmentTable,
        store_id: StoreId,
    ) -> Result<UsableSnapshot, StoreError> {
        let path = self.disk.path();
        let unusable = |reason: String| StoreError::Corrupt {
            path: format!("{path}/{SNAPSHOT_NAME}"),
            offset: 0,
            reason,
        };
        let snapshot = Snapshot::open(self.disk, SNAPSHOT_NAME)?;
        let state = CheckpointState::decode(snapshot.state())
            .ok_or_else(|| unusable("the state beside the index is damaged".into()))?;
        if state.store_id != store_id {
            return Err(unusable("it is another store's".into()));
        }
        let (has, wants) = (snapshot.partition_count(), self.settings.ring_size.get());
        if has != usize::from(wants) {
            return Err(unusable(format!("it has {has} partitions, but ring_size is {wants}")));
        }
        if let Some(lost) = self.lost_since(&state, table)? {
            self.note_loss(|| lost.clone());
            return Err(unusable(lost));
        }
        let position = &state.position;
        let is_known = state.segments.iter().any(|known| known.number == position.segment);
        if position.offset > SEGMENT_HEADER_BYTES && !is_known {
            return Err(unusable("the place to go on from is in no segment".into()));
        }
        if table.all().iter().any(|segment| segment.uid == 0) {
            return Err(unusable("the header of a segment is damaged".into()));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let indexes = snapshot.load(threads.min(Snapshot::THREADS_MAX))?;
        Ok(UsableSnapshot { state, indexes })
    }

    /// A description of what is missing of the segments that a snapshot knows. They were durable before the
    /// snapshot was written.
    fn lost_since(
        &mut self,
        state: &CheckpointState,
        table: &SegmentTable,
    ) -> Result<Option<String>, StoreError> {
        let mut lost = None;
        for known in &state.segments {
            self.note_durable_bytes(known.number, known.size_bytes);
            let name = log_name(known.number);
            let segment = table.get(known.number);
            // A segment with a damaged header is not missing; its damage is reported elsewhere.
            let segment = segment.filter(|found| found.uid == known.uid || found.uid == 0);
            let size_bytes = match segment {
                Some(segment) => segment.file.size_bytes()?,
                None => {
                    lost = Some(format!("{name} is missing"));
                    continue;
                }
            };
            if size_bytes < known.size_bytes {
                lost =
                    Some(format!("{name} was cut from {} to {size_bytes} bytes", known.size_bytes));
            }
        }
        Ok(lost)
    }

    /// Notes that a segment was durable up to an offset.
    pub(super) fn note_durable_bytes(&mut self, number: u32, end: u64) {
        let durable = self.durable.entry(number).or_default();
        *durable = end.max(*durable);
    }

    /// Notes a range of a segment without usable records. If it was durable, or existed at a clean stop, it
    /// is a loss. Otherwise it may never have reached the disk.
    pub(super) fn note_lost_bytes(&mut self, number: u32, bytes: Range<u64>) {
        let Range { start, end } = bytes;
        self.losses.note(number, start..end);
        let was_durable = self.durable.get(&number).is_some_and(|durable| start < *durable);
        if self.report.clean || was_durable {
            let name = log_name(number);
            let reason = format!("bytes {start} to {end} of {name} hold no usable record");
            self.unusable.get_or_insert(RecordLoss { reason });
        }
    }

    /// Builds the index from a snapshot and the log after it.
    fn catch_up(
        &mut self,
        directory: &Directory,
        table: SegmentTable,
        usable: UsableSnapshot,
        reader: &Reader,
        entries: &LogIndexes,
    ) -> Result<LoadedStore, StoreError> {
        let UsableSnapshot { state, mut indexes } = usable;
        self.report.from_snapshot = true;
        let known = |number| state.segments.iter().find(|known| known.number == number);
        for segment in table.all() {
            if let Some(known) = known(segment.number) {
                segment.set_counts(&known.counts);
                segment.sequence_min.store(known.sequence_min, Ordering::Relaxed);
            }
        }
        // Older segments that the snapshot does not know were replaced by a merge that was killed before it
        // removed them.
        let position = &state.position;
        let is_tail = |segment: &Segment| {
            let is_later = segment.first_sequence >= position.sequence
                && !(planted::has(PlantedFault::ForgetsYoungSegments)
                    && known(segment.number).is_some());
            segment.origin == SegmentOrigin::Log && (is_later || segment.number == position.segment)
        };
        let (mut tail, settled): (Vec<_>, Vec<_>) =
            table.all().iter().partition(|segment| is_tail(segment));
        tail.sort_by_key(|segment| segment.first_sequence);
        for segment in settled {
            let has_counts = known(segment.number).is_some();
            if !self.open_key_file(directory, segment) {
                self.scan(segment, reader.store_id, !has_counts, |_, _, _, _| Ok(()))?;
            } else if !has_counts {
                self.count_by_footer(segment)?;
            }
            self.report_progress(segment)?;
        }
        let mut replay = Replay {
            reader,
            table: &table,
            state: &state,
            indexes: &mut indexes,
            sequence_max: position.sequence - 1,
            has_gaps: false,
            beyond: None,
        };
        let known_damage_count = self.report.damage_count;
        for segment in &tail {
            // The segment is read even if it has a key file, because key files do not have the flags about
            // replaced records.
            self.open_key_file(directory, segment);
            self.replay(segment, &mut replay, entries)?;
            self.report_progress(segment)?;
        }
        let (sequence_max, beyond) = (replay.sequence_max, replay.beyond);
        // The index entries of the damaged writes are lost, and with them the knowledge of the entries that
        // those writes replaced.
        let has_lost = replay.has_gaps || self.report.damage_count > known_damage_count;
        self.check_ring(beyond)?;
        // A merge may have moved records while the snapshot was written: after their partition, and before
        // their counts. A segment that counts as empty is removed without a look at the index.
        count_live(&table, &indexes);
        let stripes = indexes.into_iter().map(RwLock::new).collect();
        let indexed = state.indexed || entries.is_used();
        let segments = table.all().to_vec();
        let entries =
            if state.indexed && has_lost { KnownEntries::None } else { state.known_entries() };
        Ok(LoadedStore { segments, stripes, sequence_max, indexed, entries })
    }

    /// Applies the records of a segment from the snapshot's position on.
    fn replay(
        &mut self,
        segment: &Arc<Segment>,
        replay: &mut Replay<'_>,
        entries: &LogIndexes,
    ) -> Result<(), StoreError> {
        replay.begin_segment(segment);
        let position = &replay.state.position;
        let is_position = segment.number == position.segment;
        let from = if is_position { position.offset } else { 0 };
        self.scan(segment, replay.reader.store_id, true, |header, key, value, location| {
            if location.offset_bytes() < from {
                return Ok(());
            }
            if header.meta.indexed {
                entries.catch_up(header, key, value);
            }
            replay.apply(header, key, location)
        })?;
        // The records that were read are durable by now.
        if entries.is_full()
            && let Err(error) = entries.move_all(&|| Ok(()))
        {
            tracing::warn!(%error, "index entries stay in memory");
        }
        Ok(())
    }

    /// Reports progress: a segment was read, or need not be read.
    fn report_progress(&mut self, segment: &Segment) -> Result<(), StoreError> {
        self.done_bytes += segment.file.size_bytes()?;
        self.settings.watch.log_read(self.done_bytes, self.log_bytes);
        Ok(())
    }

    /// Sets the counts of a segment that the snapshot does not know, from the footer of its key file.
    #[expect(clippy::indexing_slicing, reason = "the key file of the segment is open")]
    fn count_by_footer(&self, segment: &Segment) -> Result<(), StoreError> {
        let footer = self.key_files[&segment.number].footer();
        segment.sequence_min.store(footer.sequence_min, Ordering::Relaxed);
        segment.set_counts(&SegmentCounts {
            record_count: footer.entry_count,
            record_bytes: segment.file.size_bytes()?,
            ..SegmentCounts::default()
        });
        Ok(())
    }

    /// Builds the index without a snapshot.
    #[expect(clippy::indexing_slicing, reason = "`open_key_file` has added the key file")]
    fn rebuild(
        &mut self,
        directory: &Directory,
        table: SegmentTable,
        store_id: StoreId,
    ) -> Result<LoadedStore, StoreError> {
        let partition_count = usize::from(self.settings.ring_size.get());
        let mut rebuild = Rebuild::new(store_id, partition_count);
        for segment in table.all() {
            if self.open_key_file(directory, segment) {
                let keys = &self.key_files[&segment.number];
                let Err(error) = rebuild.add_key_file(segment, keys) else {
                    self.report_progress(segment)?;
                    continue;
                };
                self.key_files.remove(&segment.number);
                self.report.note_damage(error);
            }
            self.scan(segment, store_id, true, |header, key, _, location| {
                rebuild.add_record(header, key, location);
                Ok(())
            })?;
            self.report_progress(segment)?;
        }
        self.check_ring(rebuild.partition_beyond())?;
        let sequence_max = rebuild.sequence_max();
        let indexes = rebuild.finish();
        count_live(&table, &indexes);
        let indexed = indexes.iter().flat_map(PartitionIndex::iter).any(|entry| entry.indexed);
        let stripes = indexes.into_iter().map(RwLock::new).collect();
        let segments = table.all().to_vec();
        let entries = if indexed { KnownEntries::None } else { KnownEntries::All };
        Ok(LoadedStore { segments, stripes, sequence_max, indexed, entries })
    }

    fn check_ring(&self, beyond: Option<Partition>) -> Result<(), StoreError> {
        let Some(partition) = beyond else {
            return Ok(());
        };
        Err(StoreError::Corrupt {
            path: self.disk.path(),
            offset: 0,
            reason: format!(
                "records belong to partition {}, but ring_size is {}; \
                 set the ring_size that the store was made with",
                partition.0,
                self.settings.ring_size.get()
            ),
        })
    }

    /// Opens the key file of a segment. Returns false if there is no usable one.
    fn open_key_file(&mut self, directory: &Directory, segment: &Segment) -> bool {
        if directory.key_files.binary_search(&segment.number).is_err() {
            return false;
        }
        let name = keys_name(segment.number);
        let corrupt = |reason| StoreError::Corrupt {
            path: format!("{}/{name}", self.disk.path()),
            offset: 0,
            reason,
        };
        let opened = KeyFile::open(self.disk, &name).and_then(|keys| {
            let number = keys.footer().segment;
            let is_right = number == segment.number;
            is_right.then_some(keys).ok_or_else(|| corrupt(format!("it is of segment {number}")))
        });
        match opened {
            Ok(keys) => {
                self.key_files.insert(segment.number, Arc::new(keys));
                true
            }
            Err(error) => {
                self.report.note_damage(error);
                false
            }
        }
    }

    /// Reads the records of a segment, calls `each` for every record, syncs the segment, and writes its key
    /// file if it has none.
    fn scan(
        &mut self,
        segment: &Arc<Segment>,
        store_id: StoreId,
        counts: bool,
        mut each: impl FnMut(&RecordHeader, &[u8], &[u8], Location) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let number = segment.number;
        let keys = (!self.key_files.contains_key(&number)).then(|| ActiveKeys::new(number));
        let mut found = SegmentCounts::default();
        let mut sequence_min = u64::MAX;
        let file = Arc::clone(&segment.file);
        let mut scan = Scan::new(file, store_id, number, SEGMENT_HEADER_BYTES)?;
        let mut told_at = 0;
        while let Some(record) = scan.next()? {
            let header = record.header;
            if record.offset - told_at >= PROGRESS_BYTES {
                told_at = record.offset;
                self.settings.watch.log_read(self.done_bytes + told_at, self.log_bytes);
            }
            let Some(location) = Location::new(number, record.offset) else {
                break;
            };
            sequence_min = sequence_min.min(header.sequence);
            found.add_written(SizeClass::of(header.record_bytes()), header.meta.expires_at_secs);
            if let Some(keys) = &keys {
                note_key(keys, record.key(), &header, record.offset);
            }
            each(&header, record.key(), record.value(), location)?;
        }
        if counts {
            segment.set_counts(&found);
            segment.sequence_min.store(sequence_min, Ordering::Relaxed);
        }
        let path = format!("{}/{}", self.disk.path(), log_name(number));
        let damaged = |damage: &Damage| StoreError::Corrupt {
            path: path.clone(),
            offset: damage.start,
            reason: format!("{} bytes hold no usable record", damage.end - damage.start),
        };
        for damage in scan.damages() {
            self.note_lost_bytes(number, damage.start..damage.end);
            self.report.note_damage(damaged(damage));
        }
        if scan.torn_bytes() > 0 {
            let end = segment.file.size_bytes()?;
            self.note_lost_bytes(number, end - scan.torn_bytes()..end);
        }
        self.report.scanned_segment_count += 1;
        self.report.scanned_bytes += scan.offset() - SEGMENT_HEADER_BYTES;
        self.report.torn_bytes += scan.torn_bytes();
        // Readers see these records from now on, so they must survive like acknowledged ones.
        segment.file.sync()?;
        if let Some(keys) = keys {
            self.write_keys(segment, keys);
        }
        Ok(())
    }

    fn write_keys(&mut self, segment: &Arc<Segment>, keys: ActiveKeys) {
        match keys.write_file(self.disk) {
            Ok(keys) => {
                self.key_files.insert(segment.number, keys);
            }
            Err(error) => {
                // The disk may be full. The store can be read without the key file.
                tracing::warn!(%error, segment = segment.number, "no key file could be written");
                self.unkeyed.push(Sealed { segment: segment.clone(), keys: Arc::new(keys) });
            }
        }
    }
}

/// Recounts the records that the index refers to, for each segment.
fn count_live(table: &SegmentTable, indexes: &[PartitionIndex]) {
    for segment in table.all() {
        segment.set_counts(&SegmentCounts { live_count: 0, live_bytes: 0, ..segment.counts() });
    }
    // The index is in hash order, so consecutive entries refer to any segments. Counting in a local table
    // avoids an atomic update for each.
    let mut live: Vec<(u64, u64)> = vec![(0, 0); table.all().len()];
    for entry in indexes.iter().flat_map(PartitionIndex::iter) {
        let at = table.position(entry.location.segment());
        if let Some((count, bytes)) = at.and_then(|at| live.get_mut(at)) {
            *count += 1;
            *bytes += entry.size_class.size_bytes_max();
        }
    }
    for (segment, (live_count, live_bytes)) in table.all().iter().zip(live) {
        segment.set_counts(&SegmentCounts { live_count, live_bytes, ..segment.counts() });
    }
}
