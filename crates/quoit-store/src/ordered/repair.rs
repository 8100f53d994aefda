//! Repair of a damaged tree: copies its readable entries into a new file, which replaces the damaged one.
//!
//! A damaged page costs its entries. They can be found from the other spaces, because a record has its
//! name, its index entries and its mark of expiry beside it:
//!
//! - The name of a lost record is left. The copy gets a damaged record in its place, so that reading it is
//!   an error, as for any damaged record, and does not say that the record is missing. Replicas can replace
//!   it.
//! - If index entries are lost too, such records are marked: queries of their partitions fail until the
//!   records are replaced.
//! - Names, index entries and marks of expiry are rebuilt from the records.
//! - If it is unknown which records are lost (because both records and names are lost, or counts and epochs),
//!   a file informs the next opening that the store has lost records. That opening then rebuilds all derived
//!   data.

use super::backend::{OrderedStore, Space};
use super::keys::{
    Epoch, NameKey, RecordKey, epoch_key, expiry_key, index_key, name_key, record_key, unread_key,
};
use super::overlay::PendingWrites;
use super::salvage::whole_record;
use super::tree::{
    ENGINE_FILE, Hole, TreeFile, TreeSettings, TreeStore, TreeWalk, checksum_file_name,
    visit_leaves,
};
use super::value::{HEAD_BYTES, ValueHead, encode_meta, read_meta};
use crate::error::StoreError;
use crate::index_page::places_of;
use crate::output::Output;
use bytes::Bytes;
use quoit_model::hash::{KeyHash, Partition, PlacementRule};
use quoit_model::key::KeyRef;
use quoit_seam::{Disk, DiskFile};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the copy until it is complete.
const COPY_FILE: TreeFile = TreeFile { name: "tree.redb.new", repair: None, ..ENGINE_FILE };

/// Name of the file that informs the next opening of lost records whose names are not known.
const LOST_NAME: &str = "tree.redb.lost";

/// Number of bytes that are written to the copy at once.
const BATCH_BYTES: u64 = 4 << 20;

/// Upper bound of the size of a reason in bytes.
const REASON_BYTES_MAX: usize = 4_096;

/// Repairs the file of a tree that no process has open.
///
/// # Errors
///
/// If the disk fails, or the file's header cannot be read. Nothing is changed then.
pub(super) fn repair(disk: &Arc<dyn Disk>, settings: TreeSettings) -> Result<(), StoreError> {
    let path = format!("{}/{}", disk.path(), ENGINE_FILE.name);
    let file = disk.open(ENGINE_FILE.name, false)?;
    let size_bytes = file.size_bytes()?;
    if disk.available_bytes().is_some_and(|room| room < size_bytes) {
        return Err(StoreError::DiskFull { path, size_bytes });
    }
    let Some(walk) = TreeWalk::open(Arc::clone(&file))? else {
        let reason = "not even its header can be read".to_owned();
        return Err(StoreError::Corrupt { path, offset: 0, reason });
    };
    if !settings.has_replicas && !walk.has_root(Space::Records.name()) && has_records(&*file)? {
        // A copy would not have any of the records, and would replace the file that has them.
        let reason =
            "the root of its records can't be read, and others of its pages can".to_owned();
        return Err(StoreError::Corrupt { path, offset: 0, reason });
    }
    tracing::error!(path, "a tree is damaged: what can be read of it is copied to a new file");
    TreeStore::remove(&**disk, COPY_FILE)?;
    let copy = TreeStore::open(Arc::clone(disk), COPY_FILE, settings)?;
    let mut repair = TreeRepair {
        walk,
        copy,
        waiting: RepairBatch::default(),
        lost_indexed: Vec::new(),
        holes: Default::default(),
    };
    let lost_count = repair.copy_all()?;
    repair.derive()?;
    repair.flush()?;
    let reason = repair.reason();
    drop(repair);
    if let Some(reason) = &reason {
        let mut output = Output::create(&**disk, LOST_NAME)?;
        output.push(reason.as_bytes())?;
        output.finish()?;
    }
    // The file of the tree is renamed first. Its header is valid, so beside the old file of checksums it is
    // recognized as a different file, and verified when it is opened. In the other order, the damaged file
    // might be mistaken for a later state of the new one.
    disk.rename(COPY_FILE.name, ENGINE_FILE.name)?;
    disk.rename(&checksum_file_name(COPY_FILE.name), &checksum_file_name(ENGINE_FILE.name))?;
    disk.sync_directory()?;
    tracing::error!(path, lost_count, reason, "a damaged tree was mended: records can't be read");
    Ok(())
}

/// True if any page of a file has a readable record. Reads the file up to the first one.
fn has_records(file: &dyn DiskFile) -> Result<bool, StoreError> {
    let mut is_found = false;
    let visited = visit_leaves(file, &mut |key, value| {
        is_found = whole_record(key, value).is_some();
        // The error ends the visit.
        if is_found { Err(StoreError::Closed) } else { Ok(()) }
    });
    if is_found { Ok(true) } else { visited.map(|()| false) }
}

/// The reason for which records are known to be lost, if a repair has noted one since the last opening.
///
/// # Errors
///
/// If the disk fails.
pub(super) fn lost(disk: &dyn Disk) -> Result<Option<String>, StoreError> {
    if !disk.list()?.iter().any(|name| name == LOST_NAME) {
        return Ok(None);
    }
    let mut reason = vec![0; REASON_BYTES_MAX];
    let count = disk.open(LOST_NAME, false)?.read_at(&mut reason, 0)?;
    reason.truncate(count);
    Ok(Some(String::from_utf8_lossy(&reason).into_owned()))
}

/// Removes that note, after the loss was noted elsewhere.
///
/// # Errors
///
/// If the disk fails. The next opening finds the note again then.
pub(super) fn forget_lost(disk: &dyn Disk) -> Result<(), StoreError> {
    disk.remove(LOST_NAME)?;
    Ok(disk.sync_directory()?)
}

struct TreeRepair {
    walk: TreeWalk,
    copy: TreeStore,
    waiting: RepairBatch,
    /// Keys of lost records that had index entries.
    lost_indexed: Vec<Bytes>,
    /// Holes of each space, that is, key ranges of lost pages.
    holes: [Vec<Hole>; Space::ALL.len()],
}

/// Entries that wait to be written to the copy.
#[derive(Default)]
struct RepairBatch {
    writes: Vec<(Space, Bytes, Option<Bytes>)>,
    bytes: u64,
}

impl RepairBatch {
    fn put(
        &mut self,
        copy: &TreeStore,
        space: Space,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), StoreError> {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        self.bytes += (key.len() + value.len()) as u64;
        self.writes.push((space, key, Some(value)));
        if self.bytes >= BATCH_BYTES { self.flush(copy) } else { Ok(()) }
    }

    fn flush(&mut self, copy: &TreeStore) -> Result<(), StoreError> {
        let Self { writes, .. } = std::mem::take(self);
        copy.apply(&PendingWrites::of(writes))
    }
}

impl TreeRepair {
    /// Copies all readable entries, and writes a damaged record for each lost record whose name is left.
    /// Returns the number of these records.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    fn copy_all(&mut self) -> Result<u64, StoreError> {
        let mut lost_count = 0;
        for space in Space::ALL {
            let Self { walk, copy, waiting, lost_indexed, holes } = self;
            let of_records = std::mem::take(&mut holes[Space::Records as usize]);
            let found = walk.visit(space.name(), &mut |key, value| {
                waiting.put(copy, space, key, value)?;
                if space != Space::Names || of_records.is_empty() {
                    return Ok(());
                }
                let Some(key) = NameKey::read(key).map(|name| key_of_named(&name)) else {
                    return Ok(());
                };
                if of_records.iter().any(|hole| hole.contains(&key)) {
                    lost_count += 1;
                    waiting.put(copy, Space::Records, &key, &[])?;
                    if read_meta(value).is_none_or(|meta| meta.indexed) {
                        lost_indexed.push(key);
                    }
                }
                Ok(())
            })?;
            holes[Space::Records as usize] = of_records;
            holes[space as usize] = found;
        }
        Ok(lost_count)
    }

    fn is_lost(holes: &[Hole], key: &[u8]) -> bool {
        holes.iter().any(|hole| hole.contains(key))
    }

    /// Rebuilds lost names, index entries, marks of expiry and epochs.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    fn derive(&mut self) -> Result<(), StoreError> {
        let Self { walk, copy, waiting, lost_indexed, holes } = self;
        let [names, entries, side] =
            [Space::Names, Space::Indexes, Space::Side].map(|space| &holes[space as usize]);
        if [names, entries, side].iter().all(|holes| holes.is_empty()) {
            return Ok(());
        }
        let mut epochs = BTreeMap::<Partition, Epoch>::new();
        walk.visit(Space::Records.name(), &mut |key, value| {
            let Some(RecordKey { partition, epoch, encoded, .. }) = RecordKey::read(key) else {
                return Ok(());
            };
            let (Ok(name), Ok(head)) = (KeyRef::decode(encoded), ValueHead::read(key, value))
            else {
                return Ok(());
            };
            let last = epochs.entry(partition).or_default();
            *last = epoch.max(*last);
            let of_name = name_key(name, partition, epoch);
            if Self::is_lost(names, &of_name) {
                waiting.put(copy, Space::Names, &of_name, &encode_meta(&head.meta))?;
            }
            let expires_at_secs = head.meta.expires_at_secs;
            let expiry = expiry_key(expires_at_secs, key);
            if expires_at_secs != 0 && Self::is_lost(side, &expiry) {
                waiting.put(copy, Space::Side, &expiry, &[])?;
            }
            if head.meta.indexed && !entries.is_empty() {
                let places =
                    places_of(name, &head.meta, value.get(HEAD_BYTES..).unwrap_or_default())
                        .unwrap_or_default();
                for place in places {
                    let entry = index_key(&place, partition, epoch);
                    if Self::is_lost(entries, &entry) {
                        waiting.put(
                            copy,
                            Space::Indexes,
                            &entry,
                            &expires_at_secs.to_be_bytes(),
                        )?;
                    }
                }
            }
            Ok(())
        })?;
        if !entries.is_empty() {
            for key in std::mem::take(lost_indexed) {
                waiting.put(copy, Space::Side, &unread_key(&key), &[])?;
            }
        }
        for (partition, epoch) in epochs {
            let key = epoch_key(partition);
            if epoch > Epoch::default() && Self::is_lost(side, &key) {
                waiting.put(copy, Space::Side, &key, &epoch.0.to_be_bytes())?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.waiting.flush(&self.copy)
    }

    /// The reason why it is not known which records are lost, if it is not.
    #[expect(clippy::indexing_slicing, reason = "there is one for each space")]
    fn reason(&self) -> Option<String> {
        let has_holes = |space: Space| !self.holes[space as usize].is_empty();
        let reason = if has_holes(Space::Side) {
            "counts of the store are damaged"
        } else if has_holes(Space::Records) && has_holes(Space::Names) {
            "records are damaged, and names of records too"
        } else {
            return None;
        };
        Some(reason.to_owned())
    }
}

/// The key of the record with this name.
fn key_of_named(name: &NameKey) -> Bytes {
    let key = name.key();
    let encoded = key.encoded();
    let identity = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey).identity;
    record_key(name.partition, name.epoch, identity, &encoded)
}
