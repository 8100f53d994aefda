//! The file `STORE`: who the store is, and what it has promised.
//!
//! Two slots of 16 KiB are written in turn, so that a torn write leaves the other one:
//!
//! ```text
//! byte  0  8  magic "QUOITST\n"
//! byte  8  4  format version, 4
//! byte 12  4  flags: bit 0 the store was closed in good order; bit 1 records were lost, and the node
//!             has not made up for it yet; bit 2 names, index entries and counts may not fit the records of
//!             an engine on an ordered store, and have to be made again
//! byte 16  8  generation of the slot; the higher one counts
//! byte 24  8  store id, random
//! byte 32  8  incarnation: 1 at creation, one more after each stop that was not in good order, and
//!             when records turn out to be lost after one that was
//! byte 40  8  counters up to this one may have been given out
//! byte 48  8  counters up to this one may have been in copies that were given away
//! byte 56  8  digest of the damage for which the last incarnation was begun; 0 = none
//! byte 64  8  digest of the segments at the last stop in good order, until they were compared with it;
//!             0 = none
//! byte 72  8  how often the store was opened and closed: the same number is in the data of engines on
//!             ordered stores
//! byte 80  8  segments that were begun below this sequence may have been replaced by merges
//! byte 88  4  number of a segment of the log that was made durably and has to be there; 0 = none
//! byte 92  8  segments that were begun below this sequence were there at the last start, which synced them
//! byte 100 4  number n of segments that a merge has replaced and that must not be read again
//! byte 104 4n their numbers
//! then     8  XXH3-64 of all before
//! ```
//!
//! The note of what was synced stands behind the slots, from byte 32 768 on: store id 8, number of a
//! segment 4, 4 zeros, offset in the segment up to which the log was durable 8, XXH3-64 of these 8. The
//! store writes it after each sync of the log and never syncs it by itself. So it never promises too
//! much, and it survives the death of the process: it tells a newest segment that was cut off from one
//! whose last write was cut short.
//!
//! Numbers are little-endian. Version 3 lacks the 20 bytes from byte 80 on, version 2 the 36 from byte 64 on,
//! version 1 the 52 from byte 48 on; they are read, and written anew in version 4.

use crate::error::StoreError;
use crate::file_names::{META_NAME, keys_name, log_name};
use quoit_model::store_opening::LastOpening;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A merge may replace so many segments at once.
pub const RETIRING_COUNT_MAX: usize = 2_048;

const SLOT_BYTES: u64 = 16 * 1024;
const MAGIC: [u8; 8] = *b"QUOITST\n";
const VERSION: u32 = 4;
/// Stores of this version and later ones have records that say how much of the log was durable.
pub const MARKS_VERSION: u32 = 4;
/// Bytes before the number of retired segments.
const HEAD_BYTES: usize = 100;
/// The same of version 3.
const HEAD_BYTES_3: usize = 80;
/// The same of version 2.
const HEAD_BYTES_2: usize = 64;
/// The same of version 1.
const HEAD_BYTES_1: usize = 48;
/// Where the file says up to where the log was durable, and how many bytes that takes.
const SYNCED_AT: u64 = 2 * SLOT_BYTES;
const SYNCED_BYTES: usize = 32;
const FLAG_CLEAN: u32 = 1;
const FLAG_LOST: u32 = 2;
const FLAG_STALE: u32 = 4;

/// Contents of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// Whether the store was closed in good order.
    pub clean: bool,
    /// Random id of the store.
    pub store_id: u64,
    /// Goes up at creation, after each stop that was not in good order, and when records are lost.
    pub incarnation: u64,
    /// Counters up to this one may have been given out.
    pub reserved_counter: u64,
    /// Counters up to this one may have been in copies that were given away.
    pub given_away_counter: u64,
    /// Digest of the damage for which the last incarnation was begun; 0 = none.
    pub known_damage: u64,
    /// Whether records were lost and the node has not made up for it yet.
    pub has_lost: bool,
    /// Whether what an engine on an ordered store derives from records has to be made again.
    pub derived_stale: bool,
    /// Digest of the segments at the last stop in good order; 0 when they were compared with it, or there
    /// was no such stop.
    pub closed_segments: u64,
    /// How often the store was opened and closed.
    pub mark: u64,
    /// Segments that were begun below this sequence may have been replaced by merges.
    pub retired_sequence: u64,
    /// The last segment of the log that was made durably; 0 after a stop in good order, and when a start has
    /// looked for it.
    pub begun_segment: u32,
    /// Segments that were begun below this sequence were there at the last start, which made them durable.
    pub opened_sequence: u64,
    /// Segments whose live records a merge has copied and made durable.
    pub retiring: Vec<u32>,
}

impl Meta {
    /// The numbers by which the rest of the node knows this opening.
    pub(crate) const fn opening(&self) -> LastOpening {
        LastOpening { store_id: self.store_id, mark: self.mark, incarnation: self.incarnation }
    }
}

/// The open file.
pub struct MetaFile {
    file: Arc<dyn DiskFile>,
    generation: u64,
    /// Format version of what was read.
    version: u32,
    meta: Meta,
}

impl MetaFile {
    /// Reads the file; `None` when it is missing or both slots are damaged.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or a newer release wrote the file.
    pub fn open(disk: &dyn Disk, names: &[String]) -> Result<Option<Self>, StoreError> {
        if !names.iter().any(|name| name == META_NAME) {
            return Ok(None);
        }
        let file = disk.open(META_NAME, false)?;
        let mut newest: Option<(u64, u32, Meta)> = None;
        for slot in 0..2 {
            let mut bytes = vec![0; SLOT_BYTES as usize];
            let count = file.read_at(&mut bytes, slot * SLOT_BYTES)?;
            let Some((generation, meta)) = decode(&bytes[..count], disk)? else {
                continue;
            };
            if newest.as_ref().is_none_or(|(newest, ..)| *newest < generation) {
                newest = Some((generation, u32::from_le_bytes(array_at(&bytes, 8)), meta));
            }
        }
        Ok(newest.map(|(generation, version, meta)| Self { file, generation, version, meta }))
    }

    /// Checks that a file that can't be read may be written over: that it is a damaged one of ours.
    ///
    /// # Errors
    ///
    /// When it belongs to another store.
    pub fn check_overwritable(disk: &dyn Disk) -> Result<(), StoreError> {
        let file = disk.open(META_NAME, false)?;
        let mut bytes = vec![0; 2 * SLOT_BYTES as usize];
        let count = file.read_at(&mut bytes, 0)?;
        let is_ours = |slot: &[u8]| slot.starts_with(&MAGIC);
        let slots = bytes[..count].chunks(SLOT_BYTES as usize);
        if slots.clone().any(is_ours) || bytes[..count].iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            path: format!("{}/{META_NAME}", disk.path()),
            offset: 0,
            reason: "not a file of a Quoit store; choose another data directory".into(),
        })
    }

    /// Makes the file, in the place of a damaged one, durably.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn create(disk: &dyn Disk, exists: bool, meta: Meta) -> Result<Self, StoreError> {
        let file = disk.open(META_NAME, !exists)?;
        let mut created = Self { file, generation: 0, version: VERSION, meta: meta.clone() };
        created.write(meta)?;
        disk.sync_directory()?;
        Ok(created)
    }

    /// Contents of the file.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The format version of the file when it was read.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// Notes that the log was durable up to an offset of a segment. Costs a write, and is no promise.
    pub(crate) fn note_synced(&self, segment: u32, end: u64) {
        let mut bytes = [0; SYNCED_BYTES];
        bytes[..8].copy_from_slice(&self.meta.store_id.to_le_bytes());
        bytes[8..12].copy_from_slice(&segment.to_le_bytes());
        bytes[16..24].copy_from_slice(&end.to_le_bytes());
        let check = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        // Where it can't be noted, the former note stays, or none: both say too little.
        self.file.write_at(&bytes, SYNCED_AT).ok();
    }

    /// The segment and the offset up to which the log was durable for certain, if that is noted.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) fn synced(&self) -> Result<Option<(u32, u64)>, StoreError> {
        let mut bytes = [0; SYNCED_BYTES];
        let count = self.file.read_at(&mut bytes, SYNCED_AT)?;
        let number = |at: usize| u64::from_le_bytes(array_at(&bytes, at));
        let is_whole = count == SYNCED_BYTES && number(24) == xxh3_64(&bytes[..24]);
        let is_known = is_whole && number(0) == self.meta.store_id;
        Ok(is_known.then(|| (u32::from_le_bytes(array_at(&bytes, 8)), number(16))))
    }

    /// Forgets up to where the log was durable: a start has compared it with that.
    pub(crate) fn forget_synced(&self) {
        self.file.write_at(&[0; SYNCED_BYTES], SYNCED_AT).ok();
    }

    /// Makes `meta` what the file says, durably. Costs a write and a sync.
    ///
    /// # Errors
    ///
    /// When the disk refuses; the file then says what it said before, or `meta`.
    pub fn write(&mut self, meta: Meta) -> Result<(), StoreError> {
        let generation = self.generation + 1;
        let bytes = encode(generation, &meta);
        let slot = generation % 2;
        let written = self.file.write_at(&bytes, slot * SLOT_BYTES).and_then(|()| self.file.sync());
        if written.is_ok() {
            self.generation = generation;
            self.meta = meta;
        } else {
            // The slot may hold anything now: the next write goes to the same one, under a generation
            // that counts more.
            self.generation = generation + 1;
        }
        Ok(written?)
    }

    /// Notes durably that counters up to `counter` may be given out. Costs nothing if that is noted already.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn reserve_counter(&mut self, counter: u64) -> Result<(), StoreError> {
        if counter <= self.meta.reserved_counter {
            return Ok(());
        }
        self.write(Meta { reserved_counter: counter, ..self.meta.clone() })
    }

    /// Notes durably that copies with counters up to `counter` may be given away. Costs nothing if that is
    /// noted already.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn note_given_away(&mut self, counter: u64) -> Result<(), StoreError> {
        if counter <= self.meta.given_away_counter {
            return Ok(());
        }
        self.write(Meta { given_away_counter: counter, ..self.meta.clone() })
    }

    /// Notes durably that a segment of the log was made.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn note_begun(&mut self, segment: u32) -> Result<(), StoreError> {
        if self.meta.begun_segment == segment {
            return Ok(());
        }
        self.write(Meta { begun_segment: segment, ..self.meta.clone() })
    }

    /// Notes durably that the node has made up for lost records.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn settle_loss(&mut self) -> Result<(), StoreError> {
        if !self.meta.has_lost {
            return Ok(());
        }
        self.write(Meta { has_lost: false, ..self.meta.clone() })
    }

    /// Removes the files of retired segments, durably, and forgets the segments.
    ///
    /// # Errors
    ///
    /// When the disk refuses; what is left is removed by the next call.
    pub fn remove_retired(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.meta.retiring.is_empty() {
            return Ok(());
        }
        let names = disk.list()?;
        for number in &self.meta.retiring {
            for name in [log_name(*number), keys_name(*number)] {
                if names.contains(&name) {
                    disk.remove(&name)?;
                }
            }
        }
        disk.sync_directory()?;
        self.write(Meta { retiring: Vec::new(), ..self.meta.clone() })
    }
}

fn encode(generation: u64, meta: &Meta) -> Vec<u8> {
    assert!(meta.retiring.len() <= RETIRING_COUNT_MAX, "merges are limited to what fits a slot");
    let mut bytes = Vec::with_capacity(HEAD_BYTES + 4 + 4 * meta.retiring.len() + 8);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let flags = flag(meta.clean, FLAG_CLEAN)
        | flag(meta.has_lost, FLAG_LOST)
        | flag(meta.derived_stale, FLAG_STALE);
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(&meta.store_id.to_le_bytes());
    bytes.extend_from_slice(&meta.incarnation.to_le_bytes());
    bytes.extend_from_slice(&meta.reserved_counter.to_le_bytes());
    bytes.extend_from_slice(&meta.given_away_counter.to_le_bytes());
    bytes.extend_from_slice(&meta.known_damage.to_le_bytes());
    bytes.extend_from_slice(&meta.closed_segments.to_le_bytes());
    bytes.extend_from_slice(&meta.mark.to_le_bytes());
    bytes.extend_from_slice(&meta.retired_sequence.to_le_bytes());
    bytes.extend_from_slice(&meta.begun_segment.to_le_bytes());
    bytes.extend_from_slice(&meta.opened_sequence.to_le_bytes());
    bytes.extend_from_slice(&(meta.retiring.len() as u32).to_le_bytes());
    meta.retiring.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    let check = xxh3_64(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], disk: &dyn Disk) -> Result<Option<(u64, Meta)>, StoreError> {
    if bytes.len() < HEAD_BYTES_1 + 4 || bytes[0..8] != MAGIC {
        return Ok(None);
    }
    let u32_at = |at: usize| u32::from_le_bytes(array_at(bytes, at));
    let u64_at = |at: usize| u64::from_le_bytes(array_at(bytes, at));
    let version = u32_at(8);
    let head_bytes = match version {
        1 => HEAD_BYTES_1,
        2 => HEAD_BYTES_2,
        3 => HEAD_BYTES_3,
        _ => HEAD_BYTES,
    };
    if bytes.len() < head_bytes + 4 {
        return Ok(None);
    }
    let retiring_count = (u32_at(head_bytes) as usize).min(RETIRING_COUNT_MAX);
    let numbers = head_bytes + 4;
    let end = numbers + 4 * retiring_count;
    if bytes.len() < end + 8 || xxh3_64(&bytes[..end]) != u64_at(end) {
        return Ok(None);
    }
    if version == 0 || version > VERSION {
        return Err(StoreError::Corrupt {
            path: format!("{}/{META_NAME}", disk.path()),
            offset: 8,
            reason: format!(
                "format version {version}, this release reads up to {VERSION}: start the release that \
                 wrote it"
            ),
        });
    }
    let meta = Meta {
        clean: u32_at(12) & FLAG_CLEAN != 0,
        store_id: u64_at(24),
        incarnation: u64_at(32),
        reserved_counter: u64_at(40),
        given_away_counter: if version == 1 { 0 } else { u64_at(48) },
        known_damage: if version == 1 { 0 } else { u64_at(56) },
        has_lost: u32_at(12) & FLAG_LOST != 0,
        derived_stale: u32_at(12) & FLAG_STALE != 0,
        closed_segments: if version < 3 { 0 } else { u64_at(64) },
        mark: if version < 3 { 0 } else { u64_at(72) },
        retired_sequence: if version < 4 { 0 } else { u64_at(80) },
        begun_segment: if version < 4 { 0 } else { u32_at(88) },
        opened_sequence: if version < 4 { 0 } else { u64_at(92) },
        retiring: (0..retiring_count).map(|number| u32_at(numbers + 4 * number)).collect(),
    };
    Ok(Some((u64_at(16), meta)))
}

/// The bytes from `at`, which the caller has checked to be there.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_seam::FaultyDisk;

    /// The bytes that version 1 wrote as generation 7: closed in good order, store 0x1122, incarnation 3,
    /// counters up to 9 reserved, segment 5 replaced.
    const VERSION_1: [u8; 64] = [
        b'Q', b'U', b'O', b'I', b'T', b'S', b'T', b'\n', 1, 0, 0, 0, 1, 0, 0, 0, //
        7, 0, 0, 0, 0, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0, //
        3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, //
        1, 0, 0, 0, 5, 0, 0, 0, 0xc6, 0x66, 0xae, 0x1b, 0xb1, 0xb4, 0x91, 0xc8,
    ];

    fn reopened(disk: &FaultyDisk) -> MetaFile {
        let opened = MetaFile::open(disk, &[META_NAME.to_owned()]).expect("the disk works");
        opened.expect("a slot is valid")
    }

    #[test]
    fn a_file_of_version_1_is_read_and_goes_on_in_version_4() {
        let disk = FaultyDisk::new(1);
        let file = disk.open(META_NAME, true).expect("the disk works");
        file.write_at(&VERSION_1, SLOT_BYTES).expect("the disk works");
        let mut opened = reopened(&disk);
        let known = Meta {
            clean: true,
            store_id: 0x1122,
            incarnation: 3,
            reserved_counter: 9,
            retiring: vec![5],
            ..Meta::default()
        };
        assert_eq!((opened.meta(), opened.generation), (&known, 7));
        let next = Meta { given_away_counter: 8, known_damage: 6, ..known };
        let next = Meta { has_lost: true, closed_segments: 5, mark: 4, ..next };
        opened.write(next.clone()).expect("the disk works");
        assert_eq!((reopened(&disk).meta(), opened.generation), (&next, 8));
    }

    /// Version 2's file of generation 7: as of version 1, with copies given away up to 8 and damage 6.
    const VERSION_2: [u8; 80] = [
        b'Q', b'U', b'O', b'I', b'T', b'S', b'T', b'\n', 2, 0, 0, 0, 1, 0, 0, 0, //
        7, 0, 0, 0, 0, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0, //
        3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, //
        8, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, //
        1, 0, 0, 0, 5, 0, 0, 0, 0x32, 0xbd, 0x4c, 0x6f, 0x99, 0xcc, 0x0a, 0xcf, //
    ];

    #[test]
    fn a_file_of_version_2_is_read_and_goes_on_in_version_4() {
        let disk = FaultyDisk::new(1);
        let file = disk.open(META_NAME, true).expect("the disk works");
        file.write_at(&VERSION_2, SLOT_BYTES).expect("the disk works");
        let mut opened = reopened(&disk);
        let known = Meta {
            clean: true,
            store_id: 0x1122,
            incarnation: 3,
            reserved_counter: 9,
            given_away_counter: 8,
            known_damage: 6,
            retiring: vec![5],
            ..Meta::default()
        };
        assert_eq!((opened.meta(), opened.generation), (&known, 7));
        let next = Meta { has_lost: true, closed_segments: 5, mark: 4, ..known };
        opened.write(next.clone()).expect("the disk works");
        assert_eq!(reopened(&disk).meta(), &next);
        opened.settle_loss().expect("the disk works");
        assert_eq!(reopened(&disk).meta(), &Meta { has_lost: false, ..next });
    }

    /// Version 3's file of generation 7 before its checksum: as of version 2, with records lost, a digest
    /// of segments 5 and mark 4.
    const VERSION_3: [u8; 88] = [
        b'Q', b'U', b'O', b'I', b'T', b'S', b'T', b'\n', 3, 0, 0, 0, 3, 0, 0, 0, //
        7, 0, 0, 0, 0, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0, //
        3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, //
        8, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, //
        5, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, //
        1, 0, 0, 0, 5, 0, 0, 0, //
    ];

    #[test]
    fn a_file_of_version_3_is_read_and_goes_on_in_version_4() {
        let disk = FaultyDisk::new(1);
        let file = disk.open(META_NAME, true).expect("the disk works");
        let mut bytes = VERSION_3.to_vec();
        bytes.extend_from_slice(&xxh3_64(&VERSION_3).to_le_bytes());
        file.write_at(&bytes, SLOT_BYTES).expect("the disk works");
        let mut opened = reopened(&disk);
        let known = Meta {
            clean: true,
            store_id: 0x1122,
            incarnation: 3,
            reserved_counter: 9,
            given_away_counter: 8,
            known_damage: 6,
            has_lost: true,
            closed_segments: 5,
            mark: 4,
            retiring: vec![5],
            ..Meta::default()
        };
        assert_eq!((opened.meta(), opened.version()), (&known, 3));
        let next = Meta { retired_sequence: 2, begun_segment: 3, opened_sequence: 4, ..known };
        opened.write(next.clone()).expect("the disk works");
        let opened = reopened(&disk);
        assert_eq!((opened.meta(), opened.version()), (&next, 4));
    }

    #[test]
    fn what_was_cut_or_is_of_another_release_is_no_file() {
        let disk = FaultyDisk::new(1);
        for size in 0..64 {
            assert_eq!(decode(&VERSION_1[..size], &disk).ok(), Some(None), "{size} bytes");
        }
        let mut newer = encode(1, &Meta::default());
        newer[8] = 5;
        let end = newer.len() - 8;
        let check = xxh3_64(&newer[..end]);
        newer[end..].copy_from_slice(&check.to_le_bytes());
        assert!(decode(&newer, &disk).is_err());
    }
}
