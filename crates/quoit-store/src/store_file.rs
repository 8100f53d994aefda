//! The file `STORE`: the store's identity, and the facts that a store must not lose in any crash.
//!
//! Two slots of 16 KiB are written in turn, so that a torn write leaves the other slot intact. The valid
//! slot with the higher generation counts:
//!
//! ```text
//! byte  0  8  magic "QUOITST\n"
//! byte  8  4  format version, 4
//! byte 12  4  flags: bit 0 the last stop was clean; bit 1 records were lost, and the node has not repaired
//!             the loss yet; bit 2 names, index entries and counts of an engine on an ordered store may
//!             not fit its records, and must be rebuilt
//! byte 16  8  generation of the slot
//! byte 24  8  store id, random
//! byte 32  8  incarnation: 1 at creation, incremented after each unclean stop, and when records turn
//!             out to be lost after a clean one
//! byte 40  8  highest counter that may have been used for an event
//! byte 48  8  highest counter that may be in copies which were given away
//! byte 56  8  digest of the damage for which the last incarnation was begun; 0 = none
//! byte 64  8  digest of the segments at the last clean stop, until a start has compared them with it;
//!             0 = none
//! byte 72  8  number of times that the store was opened or closed; engines on ordered stores keep the
//!             same number in their data
//! byte 80  8  segments that were begun below this sequence may have been replaced by merges
//! byte 88  4  number of a segment of the log that was created durably and has to be there; 0 = none
//! byte 92  8  segments that were begun below this sequence were there at the last start, which synced them
//! byte 100 4  number n of segments that a merge has replaced and that must not be read again
//! byte 104 4n their numbers
//! then     8  XXH3-64 of all bytes before
//! ```
//!
//! The note of the synced length follows the slots, from byte 32 768 on: store id (8 bytes), segment number
//! (4), zeros (4), offset in the segment up to which the log was durable (8), XXH3-64 of these bytes (8).
//! The store writes the note after each sync of the log, and never syncs the note itself. So the note never
//! claims too much, and it survives the death of the process. After a kill it distinguishes a newest
//! segment that lost durable records from one whose last write is torn.
//!
//! Numbers are little-endian. Version 3 lacks the 20 bytes from byte 80 on, version 2 the 36 from byte 64
//! on, version 1 the 52 from byte 48 on. All are read; the next write uses version 4.

use crate::error::StoreError;
use crate::file_names::{META_NAME, keys_name, log_name};
use quoit_model::store_opening::{LastOpening, StoreId};
use quoit_number::{index, length_u32};
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of segments that a merge may replace at once.
pub const RETIRING_COUNT_MAX: usize = 2_048;

const SLOT_BYTES: u64 = 16 * 1024;
const MAGIC: [u8; 8] = *b"QUOITST\n";
const VERSION: u32 = 4;
/// First format version of stores whose records say how much of the log was durable.
pub const DURABILITY_FIELD_VERSION: u32 = 4;
/// Number of bytes before the number of retired segments.
const HEAD_BYTES: usize = 100;
/// The same number in version 3.
const HEAD_BYTES_3: usize = 80;
/// The same number in version 2.
const HEAD_BYTES_2: usize = 64;
/// The same number in version 1.
const HEAD_BYTES_1: usize = 48;
/// Offset and size in bytes of the note of the synced length.
const SYNCED_AT: u64 = 2 * SLOT_BYTES;
const SYNCED_BYTES: usize = 32;
const FLAG_CLEAN: u32 = 1;
const FLAG_LOST: u32 = 2;
const FLAG_STALE: u32 = 4;

/// Contents of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// True if the last stop was clean.
    pub clean: bool,
    /// Random id of the store.
    pub store_id: StoreId,
    /// Incremented at creation, after each unclean stop, and when records are lost.
    pub incarnation: u64,
    /// The highest counter that may have been used for an event.
    pub reserved_counter: u64,
    /// The highest counter that may be in copies which were given away.
    pub exported_counter: u64,
    /// Digest of the damage for which the last incarnation was begun; 0 = none.
    pub known_damage: u64,
    /// True if records were lost and the node has not repaired the loss yet.
    pub has_lost: bool,
    /// True if an engine on an ordered store has to rebuild the data that it derives from records.
    pub derived_data_stale: bool,
    /// Digest of the segments at the last clean stop; 0 after a start has compared them with it, or if
    /// there was no such stop.
    pub closed_segments: u64,
    /// Number of times that the store was opened or closed.
    pub mark: u64,
    /// Segments that were begun below this sequence may have been replaced by merges.
    pub retired_sequence: u64,
    /// The last segment of the log that was created durably; 0 after a clean stop, and after a start has
    /// checked that the segment is there.
    pub last_created_segment: u32,
    /// Segments that were begun below this sequence were there at the last start, which made them durable.
    pub opened_sequence: u64,
    /// Segments whose live records a merge has copied and made durable.
    pub retiring: Vec<u32>,
}

impl Meta {
    /// The numbers that identify this opening outside of the store.
    pub(crate) const fn opening(&self) -> LastOpening {
        LastOpening { store_id: self.store_id, mark: self.mark, incarnation: self.incarnation }
    }

    /// True if this may replace `last`: a store keeps its id, incarnations do not go back, and counters
    /// only in a new incarnation.
    const fn may_follow(&self, last: &Self) -> bool {
        let is_newer = self.incarnation > last.incarnation;
        let goes_on = self.incarnation == last.incarnation
            && self.reserved_counter >= last.reserved_counter
            && self.exported_counter >= last.exported_counter;
        self.store_id.0 == last.store_id.0 && (is_newer || goes_on)
    }
}

/// The open file.
pub struct MetaFile {
    file: Arc<dyn DiskFile>,
    generation: u64,
    /// Format version of the slot that was read.
    version: u32,
    meta: Meta,
}

impl MetaFile {
    /// Reads the file; `None` if it is missing or both slots are damaged.
    ///
    /// # Errors
    ///
    /// If reading fails, or a newer release wrote the file.
    pub fn open(disk: &dyn Disk, names: &[String]) -> Result<Option<Self>, StoreError> {
        if !names.iter().any(|name| name == META_NAME) {
            return Ok(None);
        }
        let file = disk.open(META_NAME, false)?;
        let mut newest: Option<(u64, u32, Meta)> = None;
        for slot in 0..2 {
            let mut bytes = vec![0; index(SLOT_BYTES)];
            let count = file.read_at(&mut bytes, slot * SLOT_BYTES)?;
            let Some((generation, meta)) = decode(bytes.split_at(count).0, disk)? else {
                continue;
            };
            if newest.as_ref().is_none_or(|(newest, ..)| *newest < generation) {
                newest = Some((generation, u32::from_le_bytes(array_at(&bytes, 8)), meta));
            }
        }
        Ok(newest.map(|(generation, version, meta)| Self { file, generation, version, meta }))
    }

    /// Checks that an unreadable file is a damaged file of Quoit, which may be overwritten.
    ///
    /// # Errors
    ///
    /// If reading fails, or the file has other contents.
    pub fn check_overwritable(disk: &dyn Disk) -> Result<(), StoreError> {
        let file = disk.open(META_NAME, false)?;
        let mut bytes = vec![0; 2 * index(SLOT_BYTES)];
        let count = file.read_at(&mut bytes, 0)?;
        let is_ours = |slot: &[u8]| slot.starts_with(&MAGIC);
        bytes.truncate(count);
        let mut slots = bytes.chunks(index(SLOT_BYTES));
        if slots.any(is_ours) || bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(StoreError::Corrupt {
            path: format!("{}/{META_NAME}", disk.path()),
            offset: 0,
            reason: "not a file of a Quoit store; choose another data directory".into(),
        })
    }

    /// Creates the file durably, or overwrites a damaged one.
    ///
    /// # Errors
    ///
    /// If writing or syncing fails.
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

    /// Notes that the log is durable up to an offset of a segment. Costs a write. The note may be lost: it
    /// is not synced.
    pub(crate) fn note_synced(&self, segment: u32, end: u64) {
        let mut bytes = [0; SYNCED_BYTES];
        bytes[..8].copy_from_slice(&self.meta.store_id.0.to_le_bytes());
        bytes[8..12].copy_from_slice(&segment.to_le_bytes());
        bytes[16..24].copy_from_slice(&end.to_le_bytes());
        let check = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        // If the write fails, the previous note stays or the note is invalid. Either claims too little,
        // which is safe.
        self.file.write_at(&bytes, SYNCED_AT).ok();
    }

    /// The segment and the offset up to which the log was certainly durable, if a valid note exists.
    ///
    /// # Errors
    ///
    /// If reading fails.
    pub(crate) fn synced(&self) -> Result<Option<(u32, u64)>, StoreError> {
        let mut bytes = [0; SYNCED_BYTES];
        let count = self.file.read_at(&mut bytes, SYNCED_AT)?;
        let number = |at: usize| u64::from_le_bytes(array_at(&bytes, at));
        let is_whole = count == SYNCED_BYTES && number(24) == xxh3_64(&bytes[..24]);
        let is_known = is_whole && number(0) == self.meta.store_id.0;
        Ok(is_known.then(|| (u32::from_le_bytes(array_at(&bytes, 8)), number(16))))
    }

    /// Deletes the note of the synced length, after a start has compared the log with it.
    pub(crate) fn forget_synced(&self) {
        self.file.write_at(&[0; SYNCED_BYTES], SYNCED_AT).ok();
    }

    /// Replaces the contents of the file by `meta`, durably. Costs a write and a sync.
    ///
    /// # Errors
    ///
    /// If writing or syncing fails. The file then has the previous contents or `meta`.
    ///
    /// # Panics
    ///
    /// If incarnation or counters of `meta` go back: the store would give events to different writes.
    pub fn write(&mut self, meta: Meta) -> Result<(), StoreError> {
        assert!(meta.may_follow(&self.meta), "no event of the store is made twice");
        let generation = self.generation + 1;
        let bytes = encode(generation, &meta);
        let slot = generation % 2;
        let written = self.file.write_at(&bytes, slot * SLOT_BYTES).and_then(|()| self.file.sync());
        if written.is_ok() {
            self.generation = generation;
            self.meta = meta;
        } else {
            // The slot may hold anything now. The next write goes to the same slot, with a higher
            // generation than the failed write.
            self.generation = generation + 1;
        }
        Ok(written?)
    }

    /// Notes durably that counters up to `counter` may be used. Costs nothing if they are reserved already.
    ///
    /// # Errors
    ///
    /// If writing or syncing fails.
    pub fn reserve_counter(&mut self, counter: u64) -> Result<(), StoreError> {
        if counter <= self.meta.reserved_counter {
            return Ok(());
        }
        self.write(Meta { reserved_counter: counter, ..self.meta.clone() })
    }

    /// Notes durably that copies with counters up to `counter` may be given away. Costs nothing if it is
    /// noted already.
    ///
    /// # Errors
    ///
    /// If writing or syncing fails.
    pub fn note_exported(&mut self, counter: u64) -> Result<(), StoreError> {
        if counter <= self.meta.exported_counter {
            return Ok(());
        }
        self.write(Meta { exported_counter: counter, ..self.meta.clone() })
    }

    /// Notes durably that a segment of the log was created.
    ///
    /// # Errors
    ///
    /// If writing or syncing fails.
    pub fn note_begun(&mut self, segment: u32) -> Result<(), StoreError> {
        if self.meta.last_created_segment == segment {
            return Ok(());
        }
        self.write(Meta { last_created_segment: segment, ..self.meta.clone() })
    }

    /// Notes durably that the node has repaired the loss of records.
    ///
    /// # Errors
    ///
    /// If writing or syncing fails.
    pub fn mark_loss_repaired(&mut self) -> Result<(), StoreError> {
        if !self.meta.has_lost {
            return Ok(());
        }
        self.write(Meta { has_lost: false, ..self.meta.clone() })
    }

    /// Removes the files of retired segments durably, and then the note of them.
    ///
    /// # Errors
    ///
    /// If the disk fails. The next call removes the remaining files.
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
        | flag(meta.derived_data_stale, FLAG_STALE);
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(&meta.store_id.0.to_le_bytes());
    bytes.extend_from_slice(&meta.incarnation.to_le_bytes());
    bytes.extend_from_slice(&meta.reserved_counter.to_le_bytes());
    bytes.extend_from_slice(&meta.exported_counter.to_le_bytes());
    bytes.extend_from_slice(&meta.known_damage.to_le_bytes());
    bytes.extend_from_slice(&meta.closed_segments.to_le_bytes());
    bytes.extend_from_slice(&meta.mark.to_le_bytes());
    bytes.extend_from_slice(&meta.retired_sequence.to_le_bytes());
    bytes.extend_from_slice(&meta.last_created_segment.to_le_bytes());
    bytes.extend_from_slice(&meta.opened_sequence.to_le_bytes());
    bytes.extend_from_slice(&length_u32(meta.retiring.len()).to_le_bytes());
    meta.retiring.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    let check = xxh3_64(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8], disk: &dyn Disk) -> Result<Option<(u64, Meta)>, StoreError> {
    if bytes.len() < HEAD_BYTES_1 + 4 || !bytes.starts_with(&MAGIC) {
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
    let Some((checked, check)) = bytes.get(..end + 8).and_then(<[u8]>::split_last_chunk) else {
        return Ok(None);
    };
    if xxh3_64(checked) != u64::from_le_bytes(*check) {
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
        store_id: StoreId(u64_at(24)),
        incarnation: u64_at(32),
        reserved_counter: u64_at(40),
        exported_counter: if version == 1 { 0 } else { u64_at(48) },
        known_damage: if version == 1 { 0 } else { u64_at(56) },
        has_lost: u32_at(12) & FLAG_LOST != 0,
        derived_data_stale: u32_at(12) & FLAG_STALE != 0,
        closed_segments: if version < 3 { 0 } else { u64_at(64) },
        mark: if version < 3 { 0 } else { u64_at(72) },
        retired_sequence: if version < 4 { 0 } else { u64_at(80) },
        last_created_segment: if version < 4 { 0 } else { u32_at(88) },
        opened_sequence: if version < 4 { 0 } else { u64_at(92) },
        retiring: (0..retiring_count).map(|number| u32_at(numbers + 4 * number)).collect(),
    };
    Ok(Some((u64_at(16), meta)))
}

/// The `N` bytes at offset `at`. The caller has checked that they exist.
#[expect(clippy::indexing_slicing, reason = "the caller has checked the size")]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_seam::FaultyDisk;

    /// Bytes of a file of version 1 with generation 7: clean stop, store 0x1122, incarnation 3, counters up
    /// to 9 reserved, segment 5 replaced.
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
            store_id: StoreId(0x1122),
            incarnation: 3,
            reserved_counter: 9,
            retiring: vec![5],
            ..Meta::default()
        };
        assert_eq!((opened.meta(), opened.generation), (&known, 7));
        let next = Meta { exported_counter: 8, known_damage: 6, ..known };
        let next = Meta { has_lost: true, closed_segments: 5, mark: 4, ..next };
        opened.write(next.clone()).expect("the disk works");
        assert_eq!((reopened(&disk).meta(), opened.generation), (&next, 8));
    }

    /// A file of version 2 with generation 7: like `VERSION_1`, with copies given away up to 8 and damage
    /// 6.
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
            store_id: StoreId(0x1122),
            incarnation: 3,
            reserved_counter: 9,
            exported_counter: 8,
            known_damage: 6,
            retiring: vec![5],
            ..Meta::default()
        };
        assert_eq!((opened.meta(), opened.generation), (&known, 7));
        let next = Meta { has_lost: true, closed_segments: 5, mark: 4, ..known };
        opened.write(next.clone()).expect("the disk works");
        assert_eq!(reopened(&disk).meta(), &next);
        opened.mark_loss_repaired().expect("the disk works");
        assert_eq!(reopened(&disk).meta(), &Meta { has_lost: false, ..next });
    }

    /// A file of version 3 with generation 7, without its checksum: like `VERSION_2`, with records lost,
    /// segments digest 5 and mark 4.
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
            store_id: StoreId(0x1122),
            incarnation: 3,
            reserved_counter: 9,
            exported_counter: 8,
            known_damage: 6,
            has_lost: true,
            closed_segments: 5,
            mark: 4,
            retiring: vec![5],
            ..Meta::default()
        };
        assert_eq!((opened.meta(), opened.version()), (&known, 3));
        let next =
            Meta { retired_sequence: 2, last_created_segment: 3, opened_sequence: 4, ..known };
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
