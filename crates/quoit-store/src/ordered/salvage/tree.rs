//! Salvage of the file of `innostore`, without `redb`.
//!
//! If the root of the records can be read, all records are found from there, and each page is verified by
//! the checksum in the page above it. Without the root, the salvage looks at all pages that may be leaves.
//! `redb` never overwrites pages of its last commit, and leaves pages of earlier commits unchanged until it
//! needs their space. So such a search finds records of any age: several versions of one, and some that
//! were removed since.

use super::{SalvageSink, Source, UnreadableRange, whole_record};
use crate::error::StoreError;
use crate::ordered::backend::Space;
use crate::ordered::tree::{ENGINE_FILE, Take, TreeWalk, visit_leaves, with_saved_header};
use bytes::Bytes;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;

/// The file of a store that no process has open.
pub(super) struct TreeSource {
    path: String,
    file: Arc<dyn DiskFile>,
    /// `None` if the header cannot be read.
    walk: Option<TreeWalk>,
}

impl TreeSource {
    pub(super) fn open(disk: &dyn Disk) -> Result<Self, StoreError> {
        let path = format!("{}/{}", disk.path(), ENGINE_FILE.name);
        let file = with_saved_header(disk, ENGINE_FILE.name)?;
        let walk = TreeWalk::open(Arc::clone(&file))?;
        Ok(Self { path, file, walk })
    }

    fn rooted(&self) -> Option<&TreeWalk> {
        self.walk.as_ref().filter(|walk| walk.has_root(Space::Records.name()))
    }

    fn unread(&self, reason: String) -> UnreadableRange {
        UnreadableRange { path: self.path.clone(), start: 0, end: 0, reason }
    }
}

impl Source for TreeSource {
    fn records(&mut self, take: &mut SalvageSink<'_>) -> Result<bool, StoreError> {
        let Some(walk) = self.rooted() else {
            take.unread(self.unread(
                "the root of its records can't be read: all pages are searched for records, which may be of \
                 any time"
                    .to_owned(),
            ))?;
            visit_leaves(&*self.file, &mut |key, value| match whole_record(key, value) {
                Some((_, body)) => {
                    take.record(key, value, Some(Bytes::copy_from_slice(body))).map(drop)
                }
                None => Ok(()),
            })?;
            return Ok(false);
        };
        let mut is_whole = true;
        let holes = walk.visit(Space::Records.name(), &mut |key, value| {
            let body = whole_record(key, value).map(|(_, body)| Bytes::copy_from_slice(body));
            is_whole &= take.record(key, value, body)?;
            Ok(())
        })?;
        for hole in &holes {
            let at = hole.page_at.map_or_else(String::new, |at| format!(" at byte {at}"));
            take.unread(self.unread(format!("a page of records{at} can't be read")))?;
        }
        Ok(is_whole && holes.is_empty())
    }

    fn entries(&mut self, space: Space, take: &mut Take<'_>) -> Result<bool, StoreError> {
        let Some(walk) = &self.walk else { return Ok(false) };
        Ok(walk.visit(space.name(), take)?.is_empty())
    }

    fn may_repeat(&self) -> bool {
        self.rooted().is_none()
    }
}
