//! Opening a store: examines its files and builds the index from them.
//!
//! 1. Lock the directory, read `STORE`, and remove the segments that a finished merge has replaced.
//! 2. Begin a new incarnation unless the last stop was clean and `STORE` is as new as the log and as the
//!    node's note of its last opening.
//! 3. After an unclean stop, cut the log off before its first gap ([`LogOpening::cut_at_gap`]).
//! 4. Load the index ([`LogOpening::load`]).
//! 5. If durable records turn out to be lost although the last stop was clean, begin a new incarnation, so
//!    that the store does not reuse events that it has forgotten.
//! 6. Begin a new segment of the log.

use super::candidates::{SegmentFile, candidates, may_be_torn_header};
use super::commit::LogCommitter;
use super::directory::Directory;
use super::indexes::{LogIndexes, OpenedIndexes};
use super::log::{Log, LogContext, LogIdentity, LogLimits, LogStart};
use super::log_end::Sealed;
use super::misnamed::restore_segment_names;
use super::read::Reader;
use super::recent::RecentWrites;
use super::report::{LossDigest, OpenReport};
use super::scan::Scan;
use super::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentTable};
use super::settings::BitcaskSettings;
use super::store::{Counters, LogStore};
use crate::buckets::BucketList;
use crate::engine::Ticket;
use crate::error::StoreError;
use crate::file_names::META_NAME;
use crate::file_names::{keys_name, log_name};
use crate::found_damage::FoundDamage;
use crate::identity::StoreIdentity;
use crate::keyfile::KeyFile;
use crate::marker;
use crate::opening::ROLLED_BACK;
use crate::record_loss::RecordLoss;
use crate::store_file::{DURABILITY_FIELD_VERSION, Meta, MetaFile};
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use quoit_model::store_opening::StoreId;
use quoit_planted::planted;
use quoit_seam::{Clock, Disk};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct LogOpening<'o> {
    pub(super) disk: &'o dyn Disk,
    pub(super) settings: &'o BitcaskSettings,
    pub(super) report: OpenReport,
    pub(super) losses: LossDigest,
    /// Number of durable bytes of each segment, as far as the snapshot and the records of the log show it.
    pub(super) durable: BTreeMap<u32, u64>,
    /// Loss of durable records.
    pub(super) loss: Option<RecordLoss>,
    /// Damage of durable bytes. It stays on disk, so an earlier start may have reported it already.
    pub(super) unusable: Option<RecordLoss>,
    /// Numbers of key files whose segments are missing.
    pub(super) orphaned_keys: Vec<u32>,
    /// True if all records that may not be durable say how much of the log before them was.
    pub(super) records_durability: bool,
    /// The segment of the log that `STORE` names as the last one created; 0 = none.
    pub(super) last_created_segment: u32,
    /// Segments whose key files could not be written.
    pub(super) unkeyed: Vec<Sealed>,
    pub(super) key_files: BTreeMap<u32, Arc<KeyFile>>,
    /// Bytes of all segments, and bytes of the segments that were processed.
    pub(super) log_bytes: u64,
    pub(super) done_bytes: u64,
}

impl LogStore {
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        settings: BitcaskSettings,
    ) -> Result<(Self, OpenReport), StoreError> {
        let started_us = clock.monotonic_us();
        let lock = disk.lock()?;
        let mut opening = LogOpening::new(&*disk, &settings);
        let directory = opening.directory()?;
        let meta = opening.last_meta(&directory)?;
        let mut directory = Directory::of(disk.list()?);
        let mut candidates = opening.candidates(&directory)?;
        let mut meta = opening.begin_incarnation(meta, &directory, &candidates)?;
        // Numbers and sequences are never reused, not even those of the part that is cut off.
        let start = LogStart::after(&candidates);
        if opening.cut_at_gap(&directory, &candidates, meta.meta())? {
            directory = Directory::of(disk.list()?);
            candidates = opening.candidates(&directory)?;
        }
        let store_id = opening.report.store_id;
        let segments = opening.segments(candidates, store_id)?;
        let reader = Reader { store_id, directory: disk.path() };
        let indexes = LogIndexes::new(Arc::clone(&disk), store_id, settings.entry_buffer_bytes);
        let loaded = opening.load(&directory, segments, &reader, &indexes)?;
        opening.find_orphaned_keys(&directory);
        let sequence_max = if planted!(ReusesSequences) { 0 } else { loaded.sequence_max };
        let next_sequence = start.next_sequence.max(sequence_max + 1);
        opening.begin_incarnation_if_damaged(&mut meta, next_sequence)?;
        let LogOpening { mut report, unkeyed, key_files, .. } = opening;
        let table = Arc::new(ArcSwap::from_pointee(SegmentTable::new(loaded.segments)));
        indexes.begin(OpenedIndexes {
            is_used: loaded.indexed,
            known: loaded.entries,
            incarnation: report.incarnation,
            next_sequence,
        });
        let seams = LogContext {
            disk: Arc::clone(&disk),
            clock: Arc::clone(&clock),
            table: table.clone(),
            recent: RecentWrites::new(settings.recent_writes_bytes),
        };
        let of_log = LogIdentity { store_id: report.store_id, incarnation: report.incarnation };
        let start = LogStart { next_sequence, ..start };
        let identity = Arc::new(StoreIdentity::new(meta));
        let (log, committer) = begin_log(seams, &settings, of_log, (start, &identity), unkeyed)?;
        report.key_count = loaded.stripes.iter().map(|stripe| stripe.read().key_count()).sum();
        report.elapsed_us = clock.monotonic_us().saturating_sub(started_us);
        let store = Self {
            reader,
            settings,
            disk,
            clock,
            stripes: loaded.stripes,
            table,
            key_files: Mutex::new(key_files),
            log,
            committer,
            indexes,
            buckets: BucketList::default(),
            sealing: Mutex::new(()),
            checkpointing: Mutex::new(()),
            identity,
            counters: Counters::default(),
            found_damage: FoundDamage::default(),
            _lock: lock,
        };
        store.begin_counters(&report);
        Ok((store, report))
    }

    fn begin_counters(&self, report: &OpenReport) {
        let counters = &self.counters;
        counters.corrupt_records.store(report.damage_count, Ordering::Relaxed);
        counters.checkpointed_sequence.store(self.log.written(), Ordering::Relaxed);
        // Segments that were read during this start should be covered by a snapshot before the next start.
        let wanted = report.scanned_segment_count > 0 || !report.from_snapshot && !report.created;
        counters.checkpoint_wanted.store(wanted, Ordering::Relaxed);
    }
}

/// Begins the log and creates its committer.
fn begin_log(
    seams: LogContext,
    settings: &BitcaskSettings,
    of_log: LogIdentity,
    (start, identity): (LogStart, &Arc<StoreIdentity>),
    unkeyed: Vec<Sealed>,
) -> Result<(Arc<Log>, Arc<LogCommitter>), StoreError> {
    let (disk, clock) = (Arc::clone(&seams.disk), Arc::clone(&seams.clock));
    let log = Arc::new(Log::begin(seams, LogLimits::of(settings), of_log, start, unkeyed)?);
    let committer = Arc::new(LogCommitter::new(
        Arc::clone(&log),
        disk,
        (clock, Arc::clone(identity)),
        settings.durability,
        settings.sync_interval_us,
        Ticket(start.next_sequence - 1),
    ));
    Ok((log, committer))
}

/// The highest incarnation in the headers of a store's segments.
fn newest_incarnation(candidates: &[SegmentFile], store_id: Option<StoreId>) -> u64 {
    let headers = candidates.iter().filter_map(|candidate| candidate.header.as_ref().ok());
    let own = headers.filter(|header| Some(header.store_id) == store_id);
    own.map(|header| header.incarnation).max().unwrap_or(0)
}

impl<'o> LogOpening<'o> {
    fn new(disk: &'o dyn Disk, settings: &'o BitcaskSettings) -> Self {
        Self {
            disk,
            settings,
            report: OpenReport::default(),
            losses: LossDigest::default(),
            durable: BTreeMap::new(),
            loss: None,
            unusable: None,
            orphaned_keys: Vec::new(),
            records_durability: false,
            last_created_segment: 0,
            unkeyed: Vec::new(),
            key_files: BTreeMap::new(),
            log_bytes: 0,
            done_bytes: 0,
        }
    }

    /// Reads the file `STORE` and removes the segments that it names as retired.
    fn last_meta(&self, directory: &Directory) -> Result<Option<MetaFile>, StoreError> {
        let mut meta = MetaFile::open(self.disk, &directory.names)?;
        if let Some(meta) = &mut meta {
            meta.remove_retired(self.disk)?;
        }
        Ok(meta)
    }

    /// Opens the files that are named like segments, and removes unfinished files.
    fn candidates(&mut self, directory: &Directory) -> Result<Vec<SegmentFile>, StoreError> {
        let candidates = candidates(self.disk, directory)?;
        self.report.foreign_files.clone_from(&directory.foreign);
        for name in &directory.unfinished {
            self.disk.remove(name)?;
        }
        Ok(candidates)
    }

    /// Reads or creates the file `STORE`. Begins a new incarnation unless the last stop was clean.
    fn begin_incarnation(
        &mut self,
        meta: Option<MetaFile>,
        directory: &Directory,
        candidates: &[SegmentFile],
    ) -> Result<MetaFile, StoreError> {
        let meta = match meta {
            Some(meta) => self.continue_incarnation(meta, candidates)?,
            None => self.make_meta(directory, candidates)?,
        };
        self.report.store_id = meta.meta().store_id;
        self.report.incarnation = meta.meta().incarnation;
        Ok(meta)
    }

    /// Continues an existing store. Begins a new incarnation unless its last stop was clean and its
    /// identity is not older than the log or the node's note of its last opening.
    fn continue_incarnation(
        &mut self,
        mut meta: MetaFile,
        candidates: &[SegmentFile],
    ) -> Result<MetaFile, StoreError> {
        let last = meta.meta().clone();
        self.report.clean = last.clean;
        self.records_durability = meta.version() >= DURABILITY_FIELD_VERSION;
        self.check_closed_segments(&last, candidates)?;
        let mut incarnation =
            last.incarnation + u64::from(!last.clean && !planted!(KeepsIncarnation));
        let newest = newest_incarnation(candidates, Some(last.store_id));
        if newest > last.incarnation {
            self.note_loss(|| {
                format!("{META_NAME} is older than the log: it was restored, or went back in time")
            });
            incarnation = self.incarnation_after(newest);
        }
        self.check_begun_segment(&last, candidates);
        if !last.clean {
            self.check_synced(&meta, candidates)?;
        }
        let mut mark = last.mark + 1;
        if let Some(known) =
            self.settings.last_opening.filter(|known| known.is_later_than(&last.opening()))
        {
            self.note_loss(|| ROLLED_BACK.to_owned());
            incarnation = self.incarnation_after(incarnation.max(known.incarnation));
            mark = known.mark + 1;
        }
        let has_lost = last.has_lost || self.loss.is_some();
        self.last_created_segment = last.last_created_segment;
        // `STORE` must not name a segment any more: a segment that turns out to be empty is removed, and
        // the next start would miss it.
        let last_created_segment = 0;
        meta.write(Meta {
            clean: false,
            incarnation,
            has_lost,
            mark,
            last_created_segment,
            ..last
        })?;
        Ok(meta)
    }

    /// Creates the file `STORE`: for a new store, or for existing segments whose `STORE` is lost.
    fn make_meta(
        &mut self,
        directory: &Directory,
        candidates: &[SegmentFile],
    ) -> Result<MetaFile, StoreError> {
        let exists = directory.names.iter().any(|name| name == META_NAME);
        let headers = || candidates.iter().filter_map(|candidate| candidate.header.as_ref().ok());
        if exists {
            MetaFile::check_overwritable(self.disk)?;
        }
        let store_id = headers().next().map(|header| header.store_id);
        if headers().any(|header| Some(header.store_id) != store_id) {
            return Err(StoreError::Corrupt {
                path: format!("{}/{META_NAME}", self.disk.path()),
                offset: 0,
                reason: "the file is missing or damaged, and there are segments of more than \
                         one store; move those of other stores away"
                    .into(),
            });
        }
        self.report.created = store_id.is_none();
        self.report.clean = store_id.is_none();
        self.report.meta_rebuilt = store_id.is_some();
        if self.report.meta_rebuilt {
            self.note_loss(|| format!("{META_NAME} was missing or damaged"));
        }
        if self.report.created && self.settings.is_expected {
            self.note_loss(|| "the store was gone and was made anew".to_owned());
        }
        let made = Meta {
            store_id: store_id.unwrap_or(StoreId(self.settings.entropy)),
            incarnation: match store_id {
                Some(_) => self.incarnation_after(newest_incarnation(candidates, store_id)),
                None => 1,
            },
            has_lost: self.loss.is_some(),
            mark: 1,
            ..Meta::default()
        };
        MetaFile::create(self.disk, exists, made)
    }

    /// An incarnation that certainly no earlier start has used. The segments of the last incarnations may
    /// be lost as well, so the number skips a random distance.
    fn incarnation_after(&self, known: u64) -> u64 {
        known + 1 + (self.settings.entropy >> 32)
    }

    /// Begins a new incarnation if records were lost although the last stop was clean. The lost records may
    /// contain events of that incarnation, and the store must not reuse their counters. This happens once
    /// for each loss, since records that were lost when an incarnation began have no events of it. Also
    /// notes that all existing records are durable.
    fn begin_incarnation_if_damaged(
        &mut self,
        meta: &mut MetaFile,
        next_sequence: u64,
    ) -> Result<(), StoreError> {
        // A damaged record at the end of a segment looks like a torn write.
        let damage = self.losses.digest();
        let last = meta.meta().clone();
        let is_news = damage != 0 && damage != last.known_damage;
        if is_news {
            self.loss = self.loss.take().or(self.unusable.take());
        }
        let ends =
            self.report.clean && (is_news || self.loss.is_some()) && !planted!(KeepsActorAfterLoss);
        self.report.lost_after_clean_stop = ends;
        let now = Meta {
            incarnation: last.incarnation + u64::from(ends),
            known_damage: if is_news { damage } else { last.known_damage },
            has_lost: last.has_lost || self.loss.is_some(),
            closed_segments: 0,
            opened_sequence: next_sequence,
            ..last.clone()
        };
        self.report.incarnation = now.incarnation;
        meta.forget_synced();
        if now != last {
            meta.write(now)?;
        }
        if let Some(loss) = &self.loss {
            tracing::error!(reason = loss.reason, "records of this store are gone");
            self.forget_evidence()?;
        }
        let known = meta.meta().has_lost.then(RecordLoss::known);
        self.report.loss = self.loss.take().or(known);
        Ok(())
    }

    /// Reads the directory. Fails if it belongs to another engine.
    fn directory(&self) -> Result<Directory, StoreError> {
        marker::check(self.disk, marker::UNMARKED_ENGINE, self.settings.ring_size)?;
        restore_segment_names(self.disk)?;
        Ok(Directory::of(self.disk.list()?))
    }

    /// The candidates that are segments of this store. Removes empty ones.
    fn segments(
        &mut self,
        candidates: Vec<SegmentFile>,
        store_id: StoreId,
    ) -> Result<Vec<Arc<Segment>>, StoreError> {
        let mut segments = Vec::new();
        for candidate in candidates {
            let name = log_name(candidate.number);
            let size_bytes = candidate.file.size_bytes()?;
            let has_records = self.has_records(&candidate, store_id)?;
            let SegmentFile { number, file, header } = candidate;
            let is_foreign = match &header {
                Ok(header) => header.store_id != store_id,
                Err(_) => !has_records && !may_be_torn_header(&*file)?,
            };
            if is_foreign {
                self.report.foreign_files.push(name);
                continue;
            }
            if !has_records && (size_bytes <= SEGMENT_HEADER_BYTES || header.is_err()) {
                // The segment was begun and never became durable. Its number was not used, so it can be
                // reused.
                let torn_bytes = size_bytes.saturating_sub(SEGMENT_HEADER_BYTES);
                if torn_bytes > 0 {
                    self.note_lost_bytes(number, SEGMENT_HEADER_BYTES..size_bytes);
                }
                self.report.torn_bytes += torn_bytes;
                self.disk.remove(&name)?;
                self.remove_key_file(number)?;
                continue;
            }
            if let Err(reason) = &header {
                let path = format!("{}/{name}", self.disk.path());
                let reason = reason.clone();
                // The records after the header can still be read.
                self.losses.note(number, 0..SEGMENT_HEADER_BYTES);
                self.report.note_damage(StoreError::Corrupt { path, offset: 0, reason });
            }
            let segment = Segment::new(number, file, header.as_ref().ok());
            segment.close();
            segments.push(Arc::new(segment));
        }
        self.report.segment_count = segments.len() as u64;
        Ok(segments)
    }

    /// True if a file has records of this store. Reads the file only if the header is damaged.
    fn has_records(&self, candidate: &SegmentFile, store_id: StoreId) -> Result<bool, StoreError> {
        let SegmentFile { number, file, header } = candidate;
        if header.is_ok() {
            return Ok(file.size_bytes()? > SEGMENT_HEADER_BYTES);
        }
        let mut scan = Scan::new(Arc::clone(file), store_id, *number, SEGMENT_HEADER_BYTES)?;
        Ok(scan.next()?.is_some())
    }

    pub(super) fn remove_key_file(&self, number: u32) -> Result<(), StoreError> {
        let name = keys_name(number);
        if self.disk.list()?.contains(&name) { Ok(self.disk.remove(&name)?) } else { Ok(()) }
    }
}
