//! Walks through the pages of a record one after another, for sending or receiving them.

use super::branch::Branch;
use super::open::missing_items_error;
use super::{ItemHash, PageName, PageRange, PagedObject, Pages};
use crate::data_type::content::Content;
use crate::data_type::{MAP_DEPTH_MAX, State, StoredFormError};
use bytes::Bytes;

/// Number of pages that a branch may have beyond one for each byte.
const EMPTY_PAGE_COUNT: u64 = 64;

/// A walk through all pages of a record. The pages of a branch follow the page that refers to it.
/// The walk may pause between any two pages. Memory holds, for each depth, the branches of one
/// page.
///
/// If the record is written meanwhile, the pages can belong to different versions of it. The walk does
/// not notice that, except as described at [`PageWalk::next_page`].
#[derive(Clone, Debug)]
pub struct PageWalk {
    left: Vec<RemainingPages>,
}

/// The remaining pages of a branch.
#[derive(Clone, Debug)]
struct RemainingPages {
    branch: Branch,
    next: Option<PageRange>,
    /// Depth of the items if they are fields; 1 for a record.
    depth: usize,
}

impl RemainingPages {
    fn all_of(branch: Branch, depth: usize) -> Self {
        let next = branch.table.pages().next();
        Self { branch, next, depth }
    }
}

impl PageWalk {
    /// Starts a walk through the pages of a record.
    #[must_use]
    pub fn new(paged: &PagedObject) -> Self {
        Self { left: vec![RemainingPages::all_of(paged.root().trunk.clone(), 1)] }
    }

    /// Reads the next page that exists; returns `None` after the last one.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read, or is not a page of such a record.
    pub fn next_page<P: Pages + ?Sized>(
        &mut self,
        pages: &mut P,
    ) -> Result<Option<(PageName, Bytes)>, P::Error> {
        while let Some(left) = self.left.last_mut() {
            let Some(range) = left.next else {
                self.left.pop();
                continue;
            };
            let name = left.branch.name_of(range.first());
            left.next = left.branch.table.page_after(range);
            let Some(stored) = pages.read(name)? else { continue };
            let depth = left.depth + 1;
            if left.branch.inner_bytes > 0 && left.depth <= MAP_DEPTH_MAX {
                let mut branches = Vec::new();
                State::decode_page(&stored)?.record.content.take_branches(&mut branches);
                self.left.extend(
                    branches.into_iter().map(|branch| RemainingPages::all_of(branch, depth)),
                );
            }
            return Ok(Some((name, stored)));
        }
        Ok(None)
    }
}

impl PagedObject {
    /// Checks that the pages match the root: they have all items that it counts, and no others.
    /// Memory holds one page for each depth.
    ///
    /// # Errors
    ///
    /// Returns an error if they do not match, or a page can't be read.
    pub fn check_pages<P: Pages + ?Sized>(&self, pages: &mut P) -> Result<(), P::Error> {
        check_branch(self.root().trunk.clone(), 0, 1, pages)
    }
}

fn check_branch<P: Pages + ?Sized>(
    mut branch: Branch,
    seed: u64,
    depth: usize,
    pages: &mut P,
) -> Result<(), P::Error> {
    if depth > MAP_DEPTH_MAX + 1 {
        return Err(StoredFormError::BadForm { what: "maps nested too deeply", at: 0 }.into());
    }
    // Bounds the number of page reads, whatever the root says.
    let page_count = u64::from(branch.table.page_count());
    if page_count > branch.page_bytes.saturating_add(EMPTY_PAGE_COUNT) {
        return Err(StoredFormError::BadForm { what: "more pages than bytes", at: 0 }.into());
    }
    for range in branch.table.pages() {
        if let Some((content, _)) = branch.take_page(seed, range, pages)? {
            check_fields(content, seed, depth, pages)?;
        }
    }
    if branch.counts_nothing() { Ok(()) } else { Err(missing_items_error().into()) }
}

fn check_fields<P: Pages + ?Sized>(
    content: Content,
    seed: u64,
    depth: usize,
    pages: &mut P,
) -> Result<(), P::Error> {
    let Content::Map(fields) = content else { return Ok(()) };
    for (name, field) in fields {
        let inner_seed = ItemHash::of_field_in(&name, seed).0;
        match field.content {
            Content::Branch(branch) => check_branch(*branch, inner_seed, depth + 1, pages)?,
            inner => check_fields(inner, inner_seed, depth + 1, pages)?,
        }
    }
    Ok(())
}
