//! A partition's part of a tree, and how it follows the records.

use crate::error::RequestError;
use crate::records::clock_of;
use crate::replica::Place;
use crate::store::ReplicatedStore;
use bytes::Bytes;
use quoit_model::data_type::clock_in_riak;
use quoit_model::hash::{Identity, Partition};
use quoit_model::segments::TreeSize;
use quoit_riak::{Tree, TreeEntry};
use quoit_store::compare::{Compare, HashRange, Leaf, Scope, compared_digest, hour_of};
use quoit_store::engine::{Record, RecordMeta};
use quoit_store::index::Tag;
use quoit_store::seam::give_way;
use std::collections::VecDeque;

/// Leaves that are taken from the index at once.
const LEAF_COUNT: usize = 4_096;
/// Records that are read at once.
const READ_COUNT: usize = 256;

/// The size that Riak nodes keep their trees in.
pub(super) const KEPT_SIZE: TreeSize = TreeSize::Large;

/// A record that is in the part: as the index has it, and as the tree has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct KeptLeaf {
    leaf: Leaf,
    entry: TreeEntry,
}

/// A partition's part of a tree. Memory: 32 bytes for each record.
#[derive(Default)]
pub(super) struct KeptPart {
    /// By tag. Records of one tag are together.
    leaves: Vec<KeptLeaf>,
}

impl KeptPart {
    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.leaves.capacity() * size_of::<KeptLeaf>()
    }

    /// The tree of its records.
    pub(super) fn tree(&self) -> Tree {
        let mut tree = Tree::empty(KEPT_SIZE);
        self.leaves.iter().for_each(|kept| tree.toggle(kept.entry));
        tree
    }

    /// The tags of the records whose place in the tree is wanted.
    pub(super) fn tags(&self, is_wanted: impl Fn(TreeEntry) -> bool) -> Vec<Tag> {
        let wanted = self.leaves.iter().filter(|kept| is_wanted(kept.entry));
        let mut tags: Vec<Tag> = wanted.map(|kept| kept.leaf.tag).collect();
        tags.dedup();
        tags
    }

    /// Takes what is known of the next records of the index, in the order of their tags: those that have not
    /// changed stay, the tags of the others are returned, to be read.
    fn follow(&mut self, old: &mut VecDeque<KeptLeaf>, page: &[Leaf]) -> Vec<Tag> {
        let mut changed = Vec::new();
        for group in page.chunk_by(|one, other| one.tag == other.tag) {
            let tag = group[0].tag;
            while old.front().is_some_and(|kept| kept.leaf.tag < tag) {
                old.pop_front();
            }
            let count = old.iter().take_while(|kept| kept.leaf.tag == tag).count();
            let known: Vec<KeptLeaf> = old.drain(..count).collect();
            let is_same = known.len() == group.len()
                && group.iter().all(|leaf| known.iter().any(|kept| kept.leaf == *leaf));
            if is_same {
                self.leaves.extend(known);
            } else {
                changed.push(tag);
            }
        }
        changed
    }

    fn add(&mut self, encoded: &[u8], record: &Record, partition: Partition) {
        // What is damaged is healed, and then another record.
        let Ok(place) = Place::new(encoded, partition) else { return };
        let at = place.at();
        let entry = TreeEntry::new(at.key.bucket, at.key.key, &clock_in_riak(&clock_of(record)));
        let tag = Tag::of(at.identity);
        let RecordMeta { tombstone, .. } = record.meta;
        let leaf = Leaf { tag, digest: compared_digest(&record.meta), tombstone };
        self.leaves.push(KeptLeaf { leaf, entry });
    }

    fn in_order(&mut self) {
        self.leaves.sort_unstable_by_key(|kept| kept.leaf);
    }
}

impl ReplicatedStore {
    /// Brings a part up to date with this node's records. Waits for the disk.
    pub(super) fn refresh_part(
        &self,
        part: &mut KeptPart,
        n_val: u32,
        partition: Partition,
    ) -> Result<(), RequestError> {
        match self.engine.compared() {
            Some(compared) => self.follow_index(part, compared, n_val, partition),
            None => self.read_all(part, n_val, partition),
        }
    }

    fn follow_index(
        &self,
        part: &mut KeptPart,
        compared: &dyn Compare,
        n_val: u32,
        partition: Partition,
    ) -> Result<(), RequestError> {
        let n_val_class = RecordMeta::class_of(n_val);
        let scope = Scope { n_val_class, hour_min: hour_of(self.clock.unix_secs()) };
        let mut old: VecDeque<KeptLeaf> = std::mem::take(&mut part.leaves).into();
        let mut from = Some(HashRange::ALL.first());
        while let Some(tag) = from {
            let page = compared.leaves(partition, scope, HashRange::ALL, tag, LEAF_COUNT)?;
            let changed = part.follow(&mut old, &page.leaves);
            for tags in changed.chunks(READ_COUNT) {
                for (encoded, record) in self.records.tagged_roots(partition, tags)? {
                    if record.meta.n_val_class == n_val_class {
                        part.add(&encoded, &record, partition);
                    }
                }
                give_way();
            }
            from = page.next;
        }
        part.in_order();
        Ok(())
    }

    /// As [`ReplicatedStore::follow_index`] with an engine that keeps no digests: all records are read.
    fn read_all(
        &self,
        part: &mut KeptPart,
        n_val: u32,
        partition: Partition,
    ) -> Result<(), RequestError> {
        part.leaves.clear();
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = self.engine.fold(partition, identity, READ_COUNT, false)?;
            for (encoded, record) in &page.entries {
                if record.meta.n_val_class == RecordMeta::class_of(n_val) {
                    part.add(encoded, record, partition);
                }
            }
            from = page.next;
            give_way();
        }
        part.in_order();
        Ok(())
    }

    /// The records of a part that are wanted.
    pub(super) fn part_records(
        &self,
        part: &KeptPart,
        partition: Partition,
        is_wanted: impl Fn(TreeEntry) -> bool,
    ) -> Result<Vec<(Bytes, Record)>, RequestError> {
        let mut records = Vec::new();
        for tags in part.tags(is_wanted).chunks(READ_COUNT) {
            records.extend(self.records.tagged_roots(partition, tags)?);
            give_way();
        }
        Ok(records)
    }
}
