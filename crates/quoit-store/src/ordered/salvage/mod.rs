//! Salvage: copies the readable records of a store's files into another engine, if the store cannot be
//! opened or keeps failing. The old files are not changed.
//!
//! A record is copied if the checksums of its head and body are right. The new engine derives names, index
//! entries and counts from the records. If any part could not be read, the names of the old store are
//! compared with the copied records ([`names`]): they tell which records are lost, which copies are older
//! than the last version, and which records had been removed.
//!
//! - `lsm`: the files of `fjall`, with `table`, `journal` and `runs`; `tree`: the file of `redb`.
//! - `names`: the comparison at the end.

mod journal;
mod lsm;
mod names;
mod runs;
mod table;
mod tree;

use super::backend::Space;
use super::keys::{Epoch, RecordKey, SideKey};
use super::tree::{ENGINE_FILE, Take};
use super::value::{HEAD_BYTES, ValueHead};
use crate::caught_up::caught_up;
use crate::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Engine, IoMode, Record, RecordMeta,
};
use crate::error::StoreError;
use crate::frame;
use crate::ordered::engine::LSM_DIRECTORY;
use crate::record::RecordAt;
use crate::store_file::MetaFile;
use bytes::Bytes;
use lsm::LsmSource;
use quoit_model::hash::{Partition, RingSize};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::store_opening::StoreId;
use quoit_seam::{Disk, RealDisk};
use std::collections::BTreeMap;
use std::path::Path;
use tree::TreeSource;

/// Approximate size of a batch of writes to the new engine: bytes, and number of records.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_COUNT: usize = 512;

/// A range of a file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableRange {
    /// The file, or the directory if the file is not known.
    pub path: String,
    /// First byte of the range.
    pub start: u64,
    /// End of the range, exclusive; equal to `start` if the range is not known.
    pub end: u64,
    /// Description of the damage.
    pub reason: String,
}

/// Fate of a record that was not copied in its last version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordFate {
    /// No version of it could be read.
    Lost,
    /// An older version was copied.
    Older,
    /// It had been removed and was copied all the same; the copy was removed again.
    Removed,
}

/// An event of a salvage, for the caller.
#[derive(Clone, Copy, Debug)]
pub enum SalvageEvent<'e> {
    /// Totals of what was copied so far.
    Progress {
        /// Number of records.
        record_count: u64,
        /// Bytes of their names and values.
        byte_count: u64,
    },
    /// A range of a file cannot be read.
    Unread(&'e UnreadableRange),
    /// A record was not copied in its last version.
    Record {
        /// Its name.
        key: KeyRef<'e>,
        /// Fate of the record.
        fate: RecordFate,
    },
}

/// Receives the events. An error that it returns ends the salvage.
pub type Watch<'w> = dyn FnMut(&SalvageEvent<'_>) -> Result<(), StoreError> + 'w;

/// Result of a salvage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Salvaged {
    /// Number of records in the new engine, pieces included.
    pub record_count: u64,
    /// Bytes of names and values that were copied.
    pub byte_count: u64,
    /// Number of ranges of files that could not be read.
    pub unread_count: u64,
    /// Number of records that are known to be lost.
    pub lost_count: u64,
    /// Number of records of which an older version was copied.
    pub older_count: u64,
    /// Number of records that had been removed, were copied, and were removed again.
    pub removed_count: u64,
    /// True if all records were read, in their last versions.
    pub is_whole: bool,
    /// True if deleted records may be in the new engine, because not all old names could be read.
    pub may_have_deleted: bool,
}

/// Receives the records that a source finds.
pub(super) struct SalvageSink<'f> {
    filling: SalvageTarget<'f>,
    epochs: BTreeMap<Partition, Epoch>,
    ring_size: RingSize,
    may_repeat: bool,
}

/// The files of a store that no process has open.
trait Source {
    /// Shows all readable records, in the order of keys unless [`Source::may_repeat`]. Returns true if no
    /// record is missing.
    fn records(&mut self, take: &mut SalvageSink<'_>) -> Result<bool, StoreError>;

    /// Shows the entries of another space, in the order of keys. Returns true if no entry is missing.
    fn entries(&mut self, space: Space, take: &mut Take<'_>) -> Result<bool, StoreError>;

    /// True if several versions of one record may come, in any order.
    fn may_repeat(&self) -> bool;
}

/// Copies the readable records of a store in `directory` into `target`, an empty engine, and syncs it. No
/// other process may have the store open, and no other thread may use the target.
///
/// # Errors
///
/// If there is no such store, the target refuses a write, or `watch` fails.
pub fn salvage(
    directory: &Path,
    target: &dyn Engine,
    ring_size: RingSize,
    watch: &mut Watch<'_>,
) -> Result<Salvaged, StoreError> {
    let mut source = source_of(directory)?;
    let mut epochs = BTreeMap::new();
    source.entries(Space::Side, &mut |key, value| {
        if let (Some(SideKey::Epoch { partition }), Ok(epoch)) =
            (SideKey::read(key), value.try_into())
        {
            epochs.insert(partition, Epoch(u32::from_be_bytes(epoch)));
        }
        Ok(())
    })?;
    let may_repeat = source.may_repeat();
    let filling = SalvageTarget::new(target, watch);
    let mut found = SalvageSink { filling, epochs, ring_size, may_repeat };
    let is_whole = source.records(&mut found)?;
    found.filling.flush()?;
    let SalvageSink { mut filling, epochs, .. } = found;
    filling.salvaged.is_whole = is_whole;
    if !is_whole {
        names::compare(&mut *source, &epochs, ring_size, &mut filling)?;
    }
    caught_up(|| target.sync())?;
    Ok(filling.salvaged)
}

fn source_of(directory: &Path) -> Result<Box<dyn Source>, StoreError> {
    let disk = RealDisk::open(directory)?;
    let names = disk.list()?;
    let lsm = directory.join(LSM_DIRECTORY);
    if lsm.is_dir() {
        // Without the store's id, the marks of batches cannot be verified.
        let meta = MetaFile::open(&disk, &names).ok().flatten();
        let (store_id, clean) = meta
            .map_or((StoreId::default(), false), |meta| (meta.meta().store_id, meta.meta().clean));
        return Ok(Box::new(LsmSource::open(&lsm, store_id, clean)?));
    }
    if names.iter().any(|name| name == ENGINE_FILE.name) {
        return Ok(Box::new(TreeSource::open(&disk)?));
    }
    Err(StoreError::Io {
        action: "salvage",
        path: directory.display().to_string(),
        reason: format!(
            "it has neither {LSM_DIRECTORY} nor {}: there is no data",
            ENGINE_FILE.name
        ),
    })
}

/// Splits a record whose head and body are intact.
pub(super) fn whole_record<'r>(key: &[u8], value: &'r [u8]) -> Option<(ValueHead, &'r [u8])> {
    let head = ValueHead::read(key, value).ok()?;
    let body = value.get(HEAD_BYTES..)?;
    (!head.is_apart && head.has_body(body)).then_some((head, body))
}

impl SalvageSink<'_> {
    /// Adds a record, with its body if that was found. Returns false if the record is unreadable.
    fn record(
        &mut self,
        key: &[u8],
        value: &[u8],
        body: Option<Bytes>,
    ) -> Result<bool, StoreError> {
        let Some(RecordKey { partition, epoch, encoded, .. }) = RecordKey::read(key) else {
            return Ok(false);
        };
        if KeyRef::decode(encoded).is_err() {
            return Ok(false);
        }
        if partition.0 >= self.ring_size.get()
            || self.epochs.get(&partition).is_some_and(|current| *current != epoch)
        {
            // The record was dropped with its partition.
            return Ok(true);
        }
        let head = ValueHead::read(key, value).ok();
        let Some((head, body)) = head.zip(body).filter(|(head, body)| head.has_body(body)) else {
            return Ok(false);
        };
        let record = Record { meta: head.meta, value: body };
        let encoded = Bytes::copy_from_slice(encoded);
        if self.may_repeat {
            self.filling.put_if_newer(&encoded, partition, &record)?;
        } else {
            self.filling.put(encoded, partition, record)?;
        }
        Ok(true)
    }

    /// Reports a range that cannot be read.
    fn unread(&mut self, stretch: UnreadableRange) -> Result<(), StoreError> {
        self.filling.salvaged.unread_count += 1;
        (self.filling.watch)(&SalvageEvent::Unread(&stretch))
    }
}

/// The new engine, and the records that wait to be written to it.
struct SalvageTarget<'f> {
    target: &'f dyn Engine,
    watch: &'f mut Watch<'f>,
    waiting: Vec<(Bytes, Partition, Record)>,
    waiting_bytes: usize,
    salvaged: Salvaged,
}

impl<'f> SalvageTarget<'f> {
    fn new(target: &'f dyn Engine, watch: &'f mut Watch<'_>) -> Self {
        Self { target, watch, waiting: Vec::new(), waiting_bytes: 0, salvaged: Salvaged::default() }
    }

    fn put(&mut self, encoded: Bytes, at: Partition, record: Record) -> Result<(), StoreError> {
        self.waiting_bytes += encoded.len() + record.value.len();
        self.waiting.push((encoded, at, record));
        let is_full = self.waiting_bytes >= BATCH_BYTES || self.waiting.len() >= BATCH_COUNT;
        if is_full { self.flush() } else { Ok(()) }
    }

    /// Writes the waiting records, and reports progress.
    fn flush(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.waiting);
        let writes: Vec<BatchWrite<'_>> = waiting
            .iter()
            .map(|(encoded, partition, record)| BatchWrite::Put {
                at: RecordAt::of(decoded(encoded), encoded, *partition),
                meta: record.meta,
                value: &record.value,
            })
            .collect();
        if !writes.is_empty() {
            caught_up(|| self.target.batch(&writes))?;
        }
        let byte_count = std::mem::take(&mut self.waiting_bytes) as u64;
        self.note_copied(CopiedRecords { record_count: waiting.len() as u64, byte_count })
    }

    fn note_copied(&mut self, copied: CopiedRecords) -> Result<(), StoreError> {
        self.salvaged.record_count += copied.record_count;
        self.salvaged.byte_count += copied.byte_count;
        let Salvaged { record_count, byte_count, .. } = self.salvaged;
        (self.watch)(&SalvageEvent::Progress { record_count, byte_count })
    }

    /// Writes a version of a record unless a later one is in the new engine.
    fn put_if_newer(
        &mut self,
        encoded: &Bytes,
        partition: Partition,
        record: &Record,
    ) -> Result<(), StoreError> {
        let at = RecordAt::of(decoded(encoded), encoded, partition);
        let mut is_first = false;
        let applied = caught_up(|| {
            self.target.update(&at, BeforeImage::Read, IoMode::Wait, &mut |former, out| {
                is_first = former.is_none();
                let versions = former
                    .map(|former| RecordVersions { new: &record.value, former: former.value });
                if versions.is_some_and(|versions| !versions.is_new_later()) {
                    return Decision::Keep;
                }
                out.extend_from_slice(&record.value);
                Decision::Put(record.meta)
            })
        })?;
        match applied {
            Applied::Written(_) if is_first => {
                let byte_count = (encoded.len() + record.value.len()) as u64;
                self.note_copied(CopiedRecords { record_count: 1, byte_count })
            }
            _ => Ok(()),
        }
    }

    /// Reports the fate of a record.
    fn report(&mut self, key: KeyRef<'_>, fate: RecordFate) -> Result<(), StoreError> {
        match fate {
            RecordFate::Lost => self.salvaged.lost_count += 1,
            RecordFate::Older => self.salvaged.older_count += 1,
            RecordFate::Removed => {
                self.salvaged.removed_count += 1;
                self.salvaged.record_count = self.salvaged.record_count.saturating_sub(1);
            }
        }
        (self.watch)(&SalvageEvent::Record { key, fate })
    }

    /// The new engine's metadata of a record.
    fn meta_of(
        &self,
        key: KeyRef<'_>,
        partition: Partition,
    ) -> Result<Option<RecordMeta>, StoreError> {
        let encoded = key.encoded();
        self.target.head(&RecordAt::of(key, &encoded, partition))
    }
}

fn decoded(encoded: &Bytes) -> KeyRef<'_> {
    KeyRef::decode(encoded).expect("it was decoded before it was put")
}

/// Stored values of two versions of a record.
struct RecordVersions<'v> {
    new: &'v [u8],
    /// The version in the new engine.
    former: &'v [u8],
}

impl RecordVersions<'_> {
    /// True if the new version is later: it has seen the other's events, or, if neither has seen the other,
    /// it was modified later. If one of them is not an object, the former version stays.
    fn is_new_later(&self) -> bool {
        let object_of = |stored: &[u8]| {
            let plain = frame::unpack(stored).ok()?;
            Object::decode(&Bytes::copy_from_slice(&plain)).ok()
        };
        let objects = (object_of(self.new), object_of(self.former));
        let (Some(new), Some(old)) = objects else { return false };
        match (new.clock.descends(&old.clock), old.clock.descends(&new.clock)) {
            (true, false) => true,
            (false, true) => false,
            _ => new.last_modified_us() > old.last_modified_us(),
        }
    }
}

/// Records that were written to the new engine.
struct CopiedRecords {
    record_count: u64,
    byte_count: u64,
}
