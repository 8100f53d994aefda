//! Copying records from one engine to another.

use super::error::ConvertError;
use super::switch::Conversion;
use crate::caught_up::caught_up;
use crate::compare::hour_of;
use crate::engine::{BatchWrite, Engine, Fetch, IoMode, KeyRange, Record, RecordAt, Ticket};
use crate::error::StoreError;
use crate::frame;
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef, PIECE_TYPE};
use quoit_seam::Clock;

/// Approximate size of a batch of writes to the new engine: bytes, and number of records.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_COUNT: usize = 512;

/// Maximum number of records that are read at once; fewer if they are large.
const PAGE_COUNT_MAX: usize = 256;

/// Number of records that are read at first in each partition. Their size is unknown, because earlier
/// records may have been of other buckets.
const PAGE_COUNT_FIRST: usize = 1;

/// Number of pieces of a record that are listed at once.
const PIECE_COUNT: usize = 256;

/// Progress of a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The partition that is copied now.
    pub partition: u16,
    /// Number of records copied, by earlier runs too.
    pub record_count: u64,
    /// Bytes of the copied records.
    pub byte_count: u64,
    /// Number of records of the old engine.
    pub record_count_all: u64,
    /// True if a run that is killed now would continue from here: everything so far is durable and noted.
    pub is_noted: bool,
}

/// Settings of the copying of a conversion.
#[derive(Clone, Copy)]
pub struct CopySettings<'c> {
    /// Number of copied bytes between two notes.
    pub every_bytes: u64,
    /// The clock of both engines. Records that have expired when all is copied, or expire soon after, are
    /// not compared.
    pub clock: &'c dyn Clock,
    /// True if the new engine may lack records that cannot be read in the old one.
    pub accepts_damage: bool,
}

/// A write that waits for its batch.
struct BufferedWrite {
    encoded: Bytes,
    partition: Partition,
    record: Record,
}

impl BufferedWrite {
    fn at(&self) -> RecordAt<'_> {
        let key = KeyRef::decode(&self.encoded).expect("engines give encoded names");
        RecordAt::of(key, &self.encoded, self.partition)
    }
}

/// One run of copying.
struct Copying<'c> {
    from: &'c dyn Engine,
    to: &'c dyn Engine,
    waiting: Vec<BufferedWrite>,
    waiting_bytes: usize,
    /// Bytes copied since the last note.
    copied_bytes: u64,
}

impl Copying<'_> {
    fn add(&mut self, encoded: Bytes, partition: Partition, record: Record) {
        self.waiting_bytes += size_bytes(&encoded, &record);
        self.waiting.push(BufferedWrite { encoded, partition, record });
    }

    fn is_full(&self) -> bool {
        self.waiting_bytes >= BATCH_BYTES || self.waiting.len() >= BATCH_COUNT
    }

    /// Writes the waiting records to the new engine.
    fn flush(&mut self) -> Result<(), ConvertError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        match self.write(&self.waiting) {
            Ok(_) => {}
            Err(StoreError::TooLarge { .. } | StoreError::IndexEntryTooLarge(_)) => {
                // One of the records is too large. Writing them one by one finds it.
                for one in &self.waiting {
                    let written = self.write(std::slice::from_ref(one));
                    written.map_err(|reason| ConvertError::Refused {
                        record: shown(one.at().key),
                        reason,
                    })?;
                }
            }
            Err(fault) => return Err(fault.into()),
        }
        let sizes = self.waiting.iter().map(|one| size_bytes(&one.encoded, &one.record));
        debug_assert_eq!(self.waiting_bytes, sizes.sum::<usize>(), "the sizes are those waiting");
        self.copied_bytes += self.waiting_bytes as u64;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    /// Writes records. Waits while the engine has fallen behind.
    fn write(&self, waiting: &[BufferedWrite]) -> Result<Ticket, StoreError> {
        let writes: Vec<BatchWrite<'_>> = waiting
            .iter()
            .map(|one| BatchWrite::Put {
                at: one.at(),
                meta: one.record.meta,
                value: &one.record.value,
            })
            .collect();
        caught_up(|| self.to.batch(&writes))
    }

    /// Copies the pieces of a record, if it has any. Returns the number of pieces that cannot be read. If a
    /// listing meets damage, it counts as one piece, and the pieces after it are unknown.
    fn pieces(
        &mut self,
        owner: &[u8],
        at: Partition,
        record: &Record,
    ) -> Result<u64, ConvertError> {
        // The first byte shows if the record has pieces. A damaged frame is left for readers of the record
        // to report.
        let front = match frame::is_framed(&record.value) {
            true => frame::front_of(&record.value).unwrap_or_default(),
            false => &record.value,
        };
        if !PagedObject::is_paged(front) {
            return Ok(0);
        }
        let all = KeyRange::Bucket(BucketRef { bucket_type: PIECE_TYPE, bucket: owner });
        let mut damaged_count = 0;
        let mut after = None;
        loop {
            let page = match self.from.list_keys(all, after.as_deref(), PIECE_COUNT) {
                // The remaining pieces cannot be listed.
                Err(StoreError::Corrupt { .. }) => return Ok(damaged_count + 1),
                listed => listed?,
            };
            for (encoded, _) in page.entries {
                let Ok(key) = KeyRef::decode(&encoded) else { continue };
                match self.from.get(&RecordAt::of(key, &encoded, at), IoMode::Wait) {
                    Ok(Fetch::Found(piece)) => self.add(encoded, at, piece),
                    Ok(Fetch::Missing | Fetch::WouldBlock) => {}
                    Err(StoreError::Corrupt { .. }) => damaged_count += 1,
                    Err(fault) => return Err(fault.into()),
                }
                if self.is_full() {
                    self.flush()?;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(damaged_count),
            }
        }
    }
}

/// A record's name, readable for people.
fn shown(key: KeyRef<'_>) -> String {
    let BucketRef { bucket_type, bucket } = key.bucket;
    let part = |bytes: &[u8]| bytes.escape_ascii().to_string();
    format!("{}/{}/{}", part(bucket_type), part(bucket), part(key.key))
}

impl Conversion {
    /// Copies the records that the new engine lacks, and compares both engines at the end. Calls `observe`
    /// after each page.
    ///
    /// # Errors
    ///
    /// If an engine fails, the new one cannot store a record, the old one cannot read all of its records,
    /// or the two no longer belong to the same store. Copied records stay, and the next call continues from
    /// there.
    pub fn copy(
        &mut self,
        from: &dyn Engine,
        to: &dyn Engine,
        notes: &CopySettings<'_>,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<(), ConvertError> {
        self.check_same_store()?;
        let before = from.stats();
        let record_count_all = before.key_count;
        let mut copying =
            Copying { from, to, waiting: Vec::new(), waiting_bytes: 0, copied_bytes: 0 };
        let mut state = self.state.clone();
        let mut limit = PAGE_COUNT_FIRST;
        while state.partition < self.ring_size.get() {
            let partition = Partition(state.partition);
            let page = from.fold(partition, state.identity, limit, false)?;
            limit = next_limit(limit, &page.entries);
            for (encoded, record) in page.entries {
                state.record_count += 1;
                state.byte_count += size_bytes(&encoded, &record) as u64;
                state.damaged_count += copying.pieces(&encoded, partition, &record)?;
                copying.add(encoded, partition, record);
                if copying.is_full() {
                    copying.flush()?;
                }
            }
            match page.next {
                Some(next) => state.identity = next,
                None => {
                    (state.partition, state.identity) = (state.partition + 1, Identity(0));
                    limit = PAGE_COUNT_FIRST;
                }
            }
            let is_end = state.partition == self.ring_size.get();
            let is_noted =
                is_end || copying.copied_bytes + copying.waiting_bytes as u64 >= notes.every_bytes;
            if is_noted {
                copying.flush()?;
                caught_up(|| to.sync())?;
                // An engine that is killed and opened again may have forgotten what it could not read, so
                // it is noted.
                state.lacks_records |=
                    from.stats().corrupt_record_count > before.corrupt_record_count;
                debug_assert!(copying.waiting.is_empty(), "records are copied before it is noted");
                self.note(state.clone())?;
                copying.copied_bytes = 0;
            }
            observe(&Progress {
                partition: partition.0,
                record_count: state.record_count,
                byte_count: state.byte_count,
                record_count_all,
                is_noted,
            });
        }
        self.compare(from, to, notes)
    }

    /// Compares the contents of both engines.
    fn compare(
        &mut self,
        from: &dyn Engine,
        to: &dyn Engine,
        notes: &CopySettings<'_>,
    ) -> Result<(), ConvertError> {
        let mut unequal = Vec::new();
        if let (Some(old), Some(new)) = (from.compared(), to.compared()) {
            // A record that expires within the hour may have been removed on one side. The hour is that of
            // the end, not of the beginning: records that have expired since then were not copied.
            let hour_min = hour_of(notes.clock.unix_secs()) + 2;
            for number in 0..self.ring_size.get() {
                let partition = Partition(number);
                if old.digests(partition, hour_min)? != new.digests(partition, hour_min)? {
                    unequal.push(number.to_string());
                }
            }
        }
        let tombstones = from.stats().tombstone_count.saturating_sub(to.stats().tombstone_count);
        let is_known_to_lack = self.state.lacks_records || self.state.damaged_count > 0;
        if unequal.is_empty() && tombstones == 0 && !is_known_to_lack {
            return Ok(());
        }
        self.state.lacks_records = true;
        if notes.accepts_damage {
            return Ok(());
        }
        let records = from.stats().key_count.saturating_sub(to.stats().key_count);
        let count = (records + self.state.damaged_count).max(unequal.len() as u64).max(1);
        let partitions =
            if unequal.is_empty() { "not known".to_owned() } else { unequal.join(", ") };
        Err(ConvertError::Damaged { count, partitions })
    }
}

fn size_bytes(encoded: &[u8], record: &Record) -> usize {
    encoded.len() + record.value.len()
}

/// Number of records to read after a page of `limit`: enough for some megabytes if they have the same
/// average size, but at most twice as many, since the next ones may be larger.
fn next_limit(limit: usize, page: &[(Bytes, Record)]) -> usize {
    if page.is_empty() {
        // The records of this part have expired, which says nothing about the size of others.
        return limit;
    }
    let page_bytes: usize = page.iter().map(|(encoded, record)| size_bytes(encoded, record)).sum();
    let wanted = BATCH_BYTES / (page_bytes / page.len() + 1);
    wanted.clamp(1, PAGE_COUNT_MAX.min(2 * limit))
}
