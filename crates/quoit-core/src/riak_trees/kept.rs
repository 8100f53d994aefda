//! A partition's part of a tree, and how it follows the index.
//!
//! Plain state and files: the records that have changed are read by the caller.

use super::part_file::{PartReader, PartWriter};
use quoit_riak::TreeEntry;
use quoit_store::compare::Leaf;
use quoit_store::index::Tag;
use std::collections::VecDeque;

/// Changes that a part's file is not written anew for.
const FRESH_COUNT_MIN: u64 = 1_024;
/// A part's file is written anew when so many parts of its entries have changed: each changed record then
/// costs at most so many entries of writing.
const FRESH_PART: u64 = 16;
/// Records that a pass keeps in memory at most, where no file can be written: the others are read once more.
const FRESH_COUNT_MAX: usize = super::MEMORY_BYTES_MAX / size_of::<KeptLeaf>();

/// A record that is in the part: as the index has it, and as the tree has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeptLeaf {
    pub(super) leaf: Leaf,
    pub(super) entry: TreeEntry,
}

/// A part between two passes: what its file does not have. The file may be absent.
#[derive(Default)]
pub(super) struct KeptPart {
    /// Entries of the file, about; `None` without one.
    file_count: Option<u64>,
    /// Records that have changed since the file was written, by tag.
    fresh: Vec<KeptLeaf>,
    /// Whether the file is to be written anew whatever has changed.
    is_due: bool,
}

impl KeptPart {
    /// Memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.fresh.capacity() * size_of::<KeptLeaf>()
    }

    /// Whether the next pass should write the file anew.
    pub(super) fn wants_file(&self) -> bool {
        let Some(file_count) = self.file_count else { return true };
        let bound = (file_count / FRESH_PART).max(FRESH_COUNT_MIN);
        self.is_due || self.fresh.len() as u64 > bound
    }

    /// Whether there is anything that the file does not have.
    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Lets go what is in memory: the records are read once more, by a pass that writes the file.
    pub(super) fn let_go(&mut self) {
        self.fresh = Vec::new();
        self.is_due = true;
    }
}

/// One pass over a part, in the order of tags.
pub(super) struct PartPass {
    file: Option<PartReader>,
    writer: Option<PartWriter>,
    /// Records that the part had beside its file.
    old: VecDeque<KeptLeaf>,
    /// Those that it has now. Empty where a file is written.
    fresh: Vec<KeptLeaf>,
}

impl PartPass {
    /// Begins a pass with what there is, into `writer` if the file is to be written anew. The part is empty
    /// until the end of the pass.
    pub(super) fn begin(
        part: &mut KeptPart,
        file: Option<PartReader>,
        writer: Option<PartWriter>,
    ) -> Self {
        let old = std::mem::take(&mut part.fresh).into();
        Self { file, writer, old, fresh: Vec::new() }
    }

    /// Takes the next leaves of the index, all of each tag. Shows the entry of each record, those that have
    /// changed as `read` gives them for their tags.
    pub(super) fn follow<E>(
        &mut self,
        page: &[Leaf],
        read: impl FnOnce(&[Tag]) -> Result<Vec<KeptLeaf>, E>,
        see: &mut dyn FnMut(Tag, TreeEntry),
    ) -> Result<(), E> {
        let (mut leaves, mut changed) = (Vec::with_capacity(page.len()), Vec::new());
        for group in page.chunk_by(|one, other| one.tag == other.tag) {
            let tag = group[0].tag;
            let of_file = self.file.as_mut().map_or_else(Vec::new, |file| file.take(tag));
            let of_memory = self.take_old(tag);
            if is_same(&of_memory, group) {
                self.keep(&of_memory);
                leaves.extend(of_memory);
            } else if is_same(&of_file, group) {
                leaves.extend(of_file);
            } else {
                changed.push(tag);
            }
        }
        let read = read(&changed)?;
        self.keep(&read);
        leaves.extend(read);
        leaves.sort_unstable_by_key(|kept| kept.leaf);
        for kept in leaves {
            see(kept.leaf.tag, kept.entry);
            self.write(kept);
        }
        Ok(())
    }

    fn take_old(&mut self, tag: Tag) -> Vec<KeptLeaf> {
        while self.old.front().is_some_and(|kept| kept.leaf.tag < tag) {
            self.old.pop_front();
        }
        let count = self.old.iter().take_while(|kept| kept.leaf.tag == tag).count();
        self.old.drain(..count).collect()
    }

    fn keep(&mut self, leaves: &[KeptLeaf]) {
        if self.writer.is_none() && self.fresh.len() + leaves.len() <= FRESH_COUNT_MAX {
            self.fresh.extend_from_slice(leaves);
        }
    }

    fn write(&mut self, kept: KeptLeaf) {
        if let Some(writer) = &mut self.writer
            && let Err(fault) = writer.push(kept)
        {
            tracing::warn!(%fault, "a tree for Riak is not kept: its records are read once more");
            self.writer = None;
        }
    }

    /// Ends the pass. The written part counts when `put_in_place` has put it in the place of the file.
    pub(super) fn end(mut self, part: &mut KeptPart, put_in_place: impl FnOnce(&str) -> bool) {
        let written = self.writer.take().and_then(|writer| writer.end().ok());
        let in_place = written.filter(|(_, new_name)| put_in_place(new_name));
        if let Some((count, _)) = in_place {
            *part = KeptPart { file_count: Some(count), ..KeptPart::default() };
            return;
        }
        self.fresh.sort_unstable_by_key(|kept| kept.leaf);
        let is_due = self.file.as_ref().is_some_and(PartReader::is_damaged);
        let file_count = self.file.map(|file| file.count());
        *part = KeptPart { file_count, fresh: self.fresh, is_due };
    }
}

/// Whether what is known are the records of a tag as the index has them.
fn is_same(known: &[KeptLeaf], group: &[Leaf]) -> bool {
    known.len() == group.len()
        && group.iter().all(|leaf| known.iter().any(|kept| kept.leaf == *leaf))
}
