//! Fuzzing of passes over a part of a tree: properties that must hold whatever its file contains.

use super::kept::{KeptLeaf, KeptPart, PartPass};
use super::part_file::{PartWriter, file_of_entries};
use super::{KeptTrees, PartName};
use quoit_model::hash::Partition;
use quoit_number::{index, low_u32};
use quoit_riak::TreeEntry;
use quoit_seam::FaultyDisk;
use quoit_store::compare::Leaf;
use quoit_store::index::Tag;
use std::convert::Infallible;
use std::sync::Arc;

const NAME: PartName = PartName { n_val: 3, partition: Partition(1) };
const LEAF_COUNT: u64 = 20;

/// Takes bytes as the file of a part: unchanged, and as the entries of a block with a valid checksum.
///
/// # Panics
///
/// If a property is broken: a pass shows each record of the index once, in the order of tags, and the
/// next pass does not read it again.
pub fn fuzz_riak_tree_file(bytes: &[u8]) {
    check(bytes.to_vec());
    check(file_of_entries(NAME, bytes));
}

/// A file in the format of this release, and its entries.
///
/// # Panics
///
/// Never: the disk is in memory.
#[must_use]
pub fn riak_tree_file_samples() -> Vec<Vec<u8>> {
    let disk = FaultyDisk::new(1);
    let file_name = NAME.file_name();
    let mut writer = PartWriter::create(&disk, NAME, file_name.clone()).expect("the disk is well");
    for leaf in leaves() {
        writer.push(read(leaf)).expect("the disk is well");
    }
    writer.end().expect("the disk is well");
    let file = disk.bytes(&file_name).expect("it was written");
    let (_, entries) = file.split_at(file.len() - 24 * index(LEAF_COUNT));
    let entries = entries.to_vec();
    vec![file, entries]
}

fn leaves() -> impl Iterator<Item = Leaf> {
    (0..LEAF_COUNT).map(|number| Leaf {
        tag: Tag::from_number(number * 3),
        digest: number,
        tombstone: number % 4 == 0,
    })
}

fn read(leaf: Leaf) -> KeptLeaf {
    KeptLeaf { leaf, entry: TreeEntry { segment: low_u32(leaf.digest), value: 7 } }
}

fn check(file: Vec<u8>) {
    let disk = FaultyDisk::new(1);
    disk.put(&NAME.file_name(), file);
    let trees = KeptTrees::open(Arc::new(disk), 1);
    let index: Vec<Leaf> = leaves().collect();
    let mut part = KeptPart::default();
    let mut pass_over = || {
        let (file, writer, generation) = trees.files(NAME, part.wants_file());
        let mut pass = PartPass::begin(&mut part, file, writer);
        let (mut tags, mut read_count) = (Vec::new(), 0);
        let give = |changed: &[Tag]| {
            read_count += changed.len();
            let of_tags = index.iter().filter(|leaf| changed.contains(&leaf.tag));
            Ok::<_, Infallible>(of_tags.map(|leaf| read(*leaf)).collect())
        };
        let Ok(()) = pass.follow(&index, give, &mut |tag, _| tags.push(tag));
        pass.end(&mut part, |new_name| trees.put_in_place(NAME, new_name, generation));
        (tags, read_count)
    };
    let expected: Vec<Tag> = index.iter().map(|leaf| leaf.tag).collect();
    assert_eq!(pass_over().0, expected);
    assert_eq!(pass_over(), (expected, 0));
}
