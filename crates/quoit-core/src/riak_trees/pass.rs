//! Passes of a node over its parts of trees: follows the index, and reads records that have changed.

use super::kept::{KeptLeaf, KeptPart, PartPass};
use super::{PartName, RiakTrees};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::records::clock_of;
use bytes::Bytes;
use quoit_model::data_type::clock_in_riak;
use quoit_model::hash::{Identity, Partition};
use quoit_riak::TreeEntry;
use quoit_seam::yield_to_requests;
use quoit_store::compare::{HashRange, Leaf, Scope, compared_digest, hour_of};
use quoit_store::engine::Compare;
use quoit_store::engine::{Record, RecordMeta};
use quoit_store::index::Tag;
use std::sync::atomic::Ordering;

/// Number of leaves that are taken from the index at once.
const LEAF_COUNT: usize = 4_096;
/// Number of records that are read at once.
const READ_COUNT: usize = 256;

impl RiakTrees {
    /// Goes over this node's records of a part, as they are now. Passes tag and entry of each to `see`,
    /// in the order of tags. Waits for the disk.
    pub(super) fn pass_over_part(
        &self,
        part: &mut KeptPart,
        name: PartName,
        see: &mut dyn FnMut(Tag, TreeEntry),
    ) -> Result<(), RequestError> {
        match self.local.engine.compared() {
            Some(compared) => self.follow_index(part, compared, name, part.wants_file(), see),
            None => self.read_all(name, see),
        }
    }

    /// Brings the file of a part without recent questions up to date, and frees the memory of the part.
    pub(super) fn retire_part(
        &self,
        part: &mut KeptPart,
        name: PartName,
    ) -> Result<(), RequestError> {
        if let Some(compared) = self.local.engine.compared().filter(|_| part.has_fresh()) {
            self.follow_index(part, compared, name, true, &mut |_, _| {})?;
            if part.has_fresh() {
                part.release_memory();
                self.kept.note_bytes(name, 0);
            }
        }
        Ok(())
    }

    fn follow_index(
        &self,
        part: &mut KeptPart,
        compared: &dyn Compare,
        name: PartName,
        wants_file: bool,
        see: &mut dyn FnMut(Tag, TreeEntry),
    ) -> Result<(), RequestError> {
        let PartName { n_val, partition } = name;
        let n_val_class = RecordMeta::class_of(n_val);
        let scope = Scope { n_val_class, hour_min: hour_of(self.local.clock.unix_secs()) };
        let (file, writer, generation) = self.kept.files(name, wants_file);
        let mut pass = PartPass::begin(part, file, writer);
        let mut from = Some(HashRange::ALL.first());
        while let Some(tag) = from {
            let page = compared.leaves(partition, scope, HashRange::ALL, tag, LEAF_COUNT)?;
            let read = |changed: &[Tag]| self.read_leaves(name, changed);
            pass.follow(&page.leaves, read, see)?;
            from = page.next;
            yield_to_requests();
        }
        pass.end(part, |new_name| self.kept.put_in_place(name, new_name, generation));
        if !self.kept.note_bytes(name, part.bytes()) {
            part.release_memory();
        }
        Ok(())
    }

    /// Reads and hashes the records of some tags.
    fn read_leaves(&self, name: PartName, tags: &[Tag]) -> Result<Vec<KeptLeaf>, RequestError> {
        let n_val_class = RecordMeta::class_of(name.n_val);
        let mut leaves = Vec::new();
        for tags in tags.chunks(READ_COUNT) {
            let records = self.local.records.tagged(name.partition, tags)?;
            let of_class =
                records.iter().filter(|(_, record)| record.meta.n_val_class == n_val_class);
            leaves
                .extend(of_class.filter_map(|(key, record)| leaf_of(key, record, name.partition)));
            yield_to_requests();
        }
        self.kept.read_count.fetch_add(leaves.len() as u64, Ordering::Relaxed);
        Ok(leaves)
    }

    /// As [`RiakTrees::follow_index`], for an engine without digests: reads all records.
    fn read_all(
        &self,
        name: PartName,
        see: &mut dyn FnMut(Tag, TreeEntry),
    ) -> Result<(), RequestError> {
        let n_val_class = RecordMeta::class_of(name.n_val);
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = self.local.engine.fold(name.partition, identity, READ_COUNT, false)?;
            let of_class =
                page.entries.iter().filter(|(_, record)| record.meta.n_val_class == n_val_class);
            for kept in of_class.filter_map(|(key, record)| leaf_of(key, record, name.partition)) {
                see(kept.leaf.tag, kept.entry);
                self.kept.read_count.fetch_add(1, Ordering::Relaxed);
            }
            from = page.next;
            yield_to_requests();
        }
        Ok(())
    }

    /// Records with the given tags, which must be in ascending order.
    pub(super) fn records_of_tags(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, RequestError> {
        let mut records = Vec::new();
        if self.local.engine.compared().is_some() {
            for tags in tags.chunks(READ_COUNT) {
                records.extend(self.local.records.tagged(partition, tags)?);
                yield_to_requests();
            }
            return Ok(records);
        }
        let is_wanted = |encoded: &[u8]| {
            let place = PlacedKey::new(encoded, partition);
            place.is_ok_and(|place| tags.binary_search(&Tag::of(place.at().identity)).is_ok())
        };
        let mut from = tags.first().map(|_| Identity(0));
        while let Some(identity) = from {
            let page = self.local.engine.fold(partition, identity, READ_COUNT, false)?;
            records.extend(page.entries.into_iter().filter(|(encoded, _)| is_wanted(encoded)));
            from = page.next;
            yield_to_requests();
        }
        Ok(records)
    }
}

/// The entry of a record; `None` if its name can't be read.
fn leaf_of(encoded: &[u8], record: &Record, partition: Partition) -> Option<KeptLeaf> {
    let place = PlacedKey::new(encoded, partition).ok()?;
    let at = place.at();
    let entry = TreeEntry::new(at.key.bucket, at.key.key, &clock_in_riak(&clock_of(record)));
    let leaf = Leaf {
        tag: Tag::of(at.identity),
        digest: compared_digest(&record.meta),
        tombstone: record.meta.tombstone,
    };
    Some(KeptLeaf { leaf, entry })
}
