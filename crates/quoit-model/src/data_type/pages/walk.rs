//! Goes through the pages of a record one after another: for who sends them elsewhere, or gets them from
//! there.

use super::branch::Branch;
use super::open::less_than_known;
use super::{ItemHash, PageName, PageRange, PagedObject, Pages};
use crate::data_type::content::Content;
use crate::data_type::{MAP_DEPTH_MAX, State, StoredFormError};
use bytes::Bytes;

/// A branch has no more pages than it has bytes, beside so many.
const EMPTY_PAGE_COUNT: u64 = 64;

/// A walk through all pages of a record, those of branches after the page that tells of them. It may pause
/// between any two pages, and keeps as many branches in mind as there are in a page at each depth.
///
/// Where others write meanwhile, what was shown does not belong together; nothing fails for that reason but
/// what is said of [`PageWalk::next_page`].
#[derive(Clone, Debug)]
pub struct PageWalk {
    left: Vec<Left>,
}

/// The rest of a branch.
#[derive(Clone, Debug)]
struct Left {
    branch: Branch,
    next: Option<PageRange>,
    /// Of the items, should they be fields; a record's is 1.
    depth: usize,
}

impl Left {
    fn all_of(branch: Branch, depth: usize) -> Self {
        let next = branch.table.pages().next();
        Self { branch, next, depth }
    }
}

impl PageWalk {
    /// A walk through the pages that a record knows of.
    #[must_use]
    pub fn new(paged: &PagedObject) -> Self {
        Self { left: vec![Left::all_of(paged.root().trunk.clone(), 1)] }
    }

    /// The next page that there is; `None` behind the last one.
    ///
    /// # Errors
    ///
    /// When a page can't be read, or is none of such a record.
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
                self.left.extend(branches.into_iter().map(|branch| Left::all_of(branch, depth)));
            }
            return Ok(Some((name, stored)));
        }
        Ok(None)
    }
}

impl PagedObject {
    /// Looks whether the pages are those that belong to the root: all items that it knows of, and no others.
    /// Memory holds one page at each depth.
    ///
    /// # Errors
    ///
    /// When they are not, or one can't be read.
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
    // Whatever a root says, no more pages are looked for than there can be.
    let page_count = u64::from(branch.table.page_count());
    if page_count > branch.page_bytes.saturating_add(EMPTY_PAGE_COUNT) {
        return Err(StoredFormError::BadForm { what: "more pages than bytes", at: 0 }.into());
    }
    for range in branch.table.pages() {
        if let Some((content, _)) = branch.take_page(seed, range, pages)? {
            check_fields(content, seed, depth, pages)?;
        }
    }
    if branch.is_bare() { Ok(()) } else { Err(less_than_known().into()) }
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
