//! Riak's hash trees over sets of records.
//!
//! A tree has branches of 256 leaves each. A leaf is the XOR of the values of the records in its
//! segment, and the root has the XOR of its leaves for each branch. Trees of disjoint sets are
//! therefore merged by XOR. Only leaves that are not zero are stored.

use crate::clock_hash::TreeEntry;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use quoit_model::segments::{BRANCH_LEAVES, TreeSize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use thiserror::Error;

/// Bytes of a leaf, and of a branch's number in the root.
const LEAF_BYTES: usize = 4;
/// Bytes of a branch.
pub const BRANCH_BYTES: usize = BRANCH_LEAVES as usize * LEAF_BYTES;

/// Reason why bytes are no part of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TreeError {
    /// The root has the wrong size.
    #[error("the root of a tree of size {size} has {} bytes, not {size_bytes}", root_bytes(*.size))]
    RootSize {
        /// Size of the tree.
        size: TreeSize,
        /// Length of the input in bytes.
        size_bytes: usize,
    },
    /// The tree has no such branch.
    #[error("a tree of size {size} has {} branches, none with number {number}", .size.branch_count())]
    NoSuchBranch {
        /// Size of the tree.
        size: TreeSize,
        /// Number of the branch.
        number: u32,
    },
    /// A branch has the wrong size, or its compressed form is damaged.
    #[error("branch {number} has no {BRANCH_BYTES} bytes, or they are compressed and damaged")]
    BadBranch {
        /// Number of the branch.
        number: u32,
    },
    /// A branch is too short to contain its number.
    #[error("a branch has {size_bytes} bytes, too few for its number")]
    NoNumber {
        /// Length of the input in bytes.
        size_bytes: usize,
    },
}

const fn root_bytes(size: TreeSize) -> usize {
    size.branch_count() as usize * LEAF_BYTES
}

/// A tree. Takes about 12 bytes of memory for each leaf that is not zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    size: TreeSize,
    leaves: BTreeMap<u32, u32>,
}

impl Tree {
    /// A tree of no records.
    #[must_use]
    pub const fn empty(size: TreeSize) -> Self {
        Self { size, leaves: BTreeMap::new() }
    }

    /// Size of the tree: its number of branches and leaves.
    #[must_use]
    pub const fn size(&self) -> TreeSize {
        self.size
    }

    /// Adds a record, or removes it again.
    pub fn toggle(&mut self, entry: TreeEntry) {
        let number = entry.segment % self.size.segment_count();
        let value = entry.value;
        if value == 0 {
            return;
        }
        let leaf = self.leaves.entry(number).or_default();
        *leaf ^= value;
        if *leaf == 0 {
            self.leaves.remove(&number);
        }
    }

    /// Adds the records of another tree of the same size. The two must have no record in common.
    ///
    /// # Panics
    ///
    /// If the sizes differ.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.size, other.size, "trees of two sizes are not merged");
        for (segment, value) in &other.leaves {
            self.toggle(TreeEntry { segment: *segment, value: *value });
        }
    }

    /// Leaves that are not zero, with their numbers.
    pub fn leaves(&self) -> impl Iterator<Item = (u32, u32)> {
        self.leaves.iter().map(|(number, value)| (*number, *value))
    }

    /// The root: a number of 4 bytes for each branch.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "`toggle` and `set_branch` add leaves of the branches only"
    )]
    pub fn root(&self) -> Bytes {
        let mut numbers = vec![0u32; self.size.branch_count() as usize];
        for (leaf, value) in &self.leaves {
            numbers[(leaf / BRANCH_LEAVES) as usize] ^= value;
        }
        numbers.into_iter().flat_map(u32::to_be_bytes).collect()
    }

    /// A branch: its leaves of 4 bytes each. A branch that the tree does not have is all zeros.
    #[must_use]
    #[expect(clippy::indexing_slicing, reason = "the range has the leaves of one branch")]
    pub fn branch(&self, number: u32) -> Bytes {
        let mut leaves = [0u32; BRANCH_LEAVES as usize];
        let first = number.saturating_mul(BRANCH_LEAVES);
        for (leaf, value) in self.leaves.range(first..first.saturating_add(BRANCH_LEAVES)) {
            leaves[(leaf - first) as usize] = *value;
        }
        leaves.into_iter().flat_map(u32::to_be_bytes).collect()
    }

    /// All branches in order, compressed.
    pub fn compressed_branches(&self) -> impl Iterator<Item = (u32, Bytes)> {
        let empty = compress(&[0; BRANCH_BYTES]);
        (0..self.size.branch_count()).map(move |number| {
            let first = number * BRANCH_LEAVES;
            let has_leaves = self.leaves.range(first..first + BRANCH_LEAVES).next().is_some();
            let branch = if has_leaves { compress(&self.branch(number)) } else { empty.clone() };
            (number, branch)
        })
    }

    /// Replaces a branch by a peer's.
    ///
    /// # Errors
    ///
    /// Branches that the tree does not have, and inputs of the wrong size.
    pub fn set_branch(&mut self, number: u32, branch: &[u8]) -> Result<(), TreeError> {
        if number >= self.size.branch_count() {
            return Err(TreeError::NoSuchBranch { size: self.size, number });
        }
        if branch.len() != BRANCH_BYTES {
            return Err(TreeError::BadBranch { number });
        }
        let first = number * BRANCH_LEAVES;
        for (leaf, bytes) in (first..).zip(branch.chunks_exact(LEAF_BYTES)) {
            let value = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
            match value {
                0 => self.leaves.remove(&leaf),
                value => self.leaves.insert(leaf, value),
            };
        }
        Ok(())
    }

    /// As [`Tree::set_branch`], for a compressed branch.
    ///
    /// # Errors
    ///
    /// As for [`Tree::set_branch`], and damaged compression.
    pub fn set_compressed_branch(
        &mut self,
        number: u32,
        compressed: &[u8],
    ) -> Result<(), TreeError> {
        // One byte more than a branch, so that a branch that is too long is noticed.
        let mut branch = Vec::with_capacity(BRANCH_BYTES + 1);
        let mut bounded = ZlibDecoder::new(compressed).take(BRANCH_BYTES as u64 + 1);
        if bounded.read_to_end(&mut branch).is_err() {
            return Err(TreeError::BadBranch { number });
        }
        self.set_branch(number, &branch)
    }

    /// Numbers of the leaves in which two trees differ, ascending.
    ///
    /// # Panics
    ///
    /// If the sizes differ.
    #[must_use]
    pub fn differing_leaves(&self, other: &Self) -> Vec<u32> {
        assert_eq!(self.size, other.size, "trees of two sizes are not compared");
        let mut both = self.clone();
        both.merge(other);
        both.leaves.into_keys().collect()
    }
}

/// Numbers of the branches in which the roots of two trees differ, ascending.
///
/// # Errors
///
/// A root of the wrong size.
pub fn differing_branches(size: TreeSize, one: &[u8], other: &[u8]) -> Result<Vec<u32>, TreeError> {
    for root in [one, other] {
        if root.len() != root_bytes(size) {
            return Err(TreeError::RootSize { size, size_bytes: root.len() });
        }
    }
    let numbers = |root| <[u8]>::chunks_exact(root, LEAF_BYTES);
    let pairs = (0..).zip(numbers(one).zip(numbers(other)));
    Ok(pairs.filter(|(_, (one, other))| one != other).map(|(number, _)| number).collect())
}

/// A branch in the form of Protocol Buffers: its number of 4 bytes, then its plain or compressed bytes.
#[must_use]
pub fn numbered_branch(number: u32, branch: &[u8]) -> Bytes {
    [&number.to_be_bytes(), branch].concat().into()
}

/// Splits a branch in this form into its number and its bytes.
///
/// # Errors
///
/// Inputs of fewer than 4 bytes.
pub fn split_numbered(bytes: &[u8]) -> Result<(u32, &[u8]), TreeError> {
    let split = bytes.split_first_chunk();
    let (number, branch) = split.ok_or(TreeError::NoNumber { size_bytes: bytes.len() })?;
    Ok((u32::from_be_bytes(*number), branch))
}

fn compress(bytes: &[u8]) -> Bytes {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let compressed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    compressed.expect("memory takes all bytes").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree_of(entries: &[(u32, u32)]) -> Tree {
        let mut tree = Tree::empty(TreeSize::XxSmall);
        entries.iter().for_each(|(segment, value)| {
            tree.toggle(TreeEntry { segment: *segment, value: *value });
        });
        tree
    }

    proptest! {
        #[test]
        fn trees_of_parts_merge_to_that_of_the_whole(
            entries in prop::collection::vec((0u32..5_000, any::<u32>()), 0..60),
            at in 0usize..60,
        ) {
            let (one, other) = entries.split_at(at.min(entries.len()));
            let mut merged = tree_of(one);
            merged.merge(&tree_of(other));
            prop_assert_eq!(merged, tree_of(&entries));
        }

        #[test]
        fn branches_make_the_tree_again(
            entries in prop::collection::vec((any::<u32>(), any::<u32>()), 0..60),
        ) {
            let tree = tree_of(&entries);
            let mut plain = Tree::empty(tree.size());
            let mut unzipped = Tree::empty(tree.size());
            for (number, compressed) in tree.compressed_branches() {
                prop_assert_eq!(plain.set_branch(number, &tree.branch(number)), Ok(()));
                prop_assert_eq!(unzipped.set_compressed_branch(number, &compressed), Ok(()));
            }
            prop_assert_eq!(&plain, &tree);
            prop_assert_eq!(&unzipped, &tree);
            prop_assert_eq!(tree.differing_leaves(&plain), Vec::<u32>::new());
        }

        #[test]
        fn roots_differ_in_the_branches_whose_leaves_do(
            entries in prop::collection::vec((any::<u32>(), 1u32..), 0..20),
            more in (any::<u32>(), 1u32..),
        ) {
            let one = tree_of(&entries);
            let mut other = one.clone();
            other.toggle(TreeEntry { segment: more.0, value: more.1 });
            let leaf = more.0 % one.size().segment_count();
            prop_assert_eq!(one.differing_leaves(&other), vec![leaf]);
            let branches = differing_branches(one.size(), &one.root(), &other.root());
            prop_assert_eq!(branches, Ok(vec![leaf / BRANCH_LEAVES]));
        }

        #[test]
        fn no_bytes_of_a_peer_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let mut tree = Tree::empty(TreeSize::XxSmall);
            let _ = tree.set_compressed_branch(3, &bytes);
            let _ = split_numbered(&bytes);
            let _ = differing_branches(TreeSize::XxSmall, &bytes, &bytes);
        }
    }

    #[test]
    fn what_is_no_part_of_a_tree_is_refused() {
        let mut tree = Tree::empty(TreeSize::XxSmall);
        let no_branch = TreeError::NoSuchBranch { size: TreeSize::XxSmall, number: 16 };
        assert_eq!(tree.set_branch(16, &[0; BRANCH_BYTES]), Err(no_branch));
        assert_eq!(tree.set_branch(1, &[0; 7]), Err(TreeError::BadBranch { number: 1 }));
        let long = compress(&[0; BRANCH_BYTES + 1]);
        assert_eq!(tree.set_compressed_branch(1, &long), Err(TreeError::BadBranch { number: 1 }));
        let root = TreeError::RootSize { size: TreeSize::Small, size_bytes: 64 };
        assert_eq!(differing_branches(TreeSize::Small, &[0; 1_024], &[0; 64]), Err(root));
        assert_eq!(split_numbered(&[1, 2]), Err(TreeError::NoNumber { size_bytes: 2 }));
    }
}
