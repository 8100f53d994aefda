//! Reads of parts of records, and of sets and maps in their fields.

use super::branch::Branch;
use super::open::{OpenBranch, OpenSelection};
use super::{ItemHash, PagedObject, Pages};
use crate::data_type::content::Content;
use crate::data_type::query::datatype_of;
use crate::data_type::{FieldName, ItemRange, State, WantedPart};
use std::collections::BTreeMap;

impl PagedObject {
    /// Reads a part of the data type at a path. Of each enclosing large map it reads one page, and
    /// of the data type itself only the pages that are wanted. Returns `None` if the data type is
    /// absent.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read.
    pub fn part<P: Pages>(
        &self,
        path: &[FieldName],
        wanted: WantedPart,
        pages: &mut P,
    ) -> Result<Option<ItemRange>, P::Error> {
        let datatype = match path.last() {
            None => Some(self.root().datatype()),
            Some(name) => datatype_of(name.kind),
        };
        let Some(datatype) = datatype else { return Ok(None) };
        let found = self.at_path(path, pages)?;
        let Some((mut field, seed)) = found.filter(|(field, _)| field.is_live()) else {
            return Ok(None);
        };
        let mut size = 0;
        let (content, mut last) = match field.content {
            Content::Branch(branch) => {
                size = branch.item_count;
                branch.read_part(seed, wanted, pages)?
            }
            content => {
                content.each_item(seed, |_, is_live| size += u64::from(is_live));
                (content, ItemHash(u64::MAX))
            }
        };
        field.content = content.wanted(seed, wanted, &mut last);
        // A read of a field reads its whole content.
        let (selection, mut opened) = (OpenSelection::All, BTreeMap::new());
        field.content.open_fields(seed, selection, path.len() + 1, pages, &mut opened)?;
        Ok(Some(ItemRange { state: State::from_record(datatype, field), last, size }))
    }
}

impl Branch {
    /// Reads the pages with the wanted items. Returns their items, and the last hash up to which
    /// all items are present.
    fn read_part<P: Pages + ?Sized>(
        self,
        seed: u64,
        wanted: WantedPart,
        pages: &mut P,
    ) -> Result<(Content, ItemHash), P::Error> {
        let table = self.table;
        let mut content = self.empty_like();
        let mut open = OpenBranch::new(self);
        let mut last = ItemHash(u64::MAX);
        match wanted {
            WantedPart::Size => {}
            WantedPart::Item(item) => {
                open.read_items(seed, &[item], &mut content, pages)?;
                last = item;
            }
            WantedPart::Items { from, count } => {
                let (mut next, mut found) = (Some(table.page_of(from)), 0);
                while let Some(range) = next {
                    if let Some(items) = open.read_page(seed, range, pages)? {
                        found += items.live_hashes(seed, from).len();
                        content.append(items);
                    }
                    last = range.last();
                    next = table.page_after(range).filter(|_| found <= count);
                }
            }
        }
        Ok((content, last))
    }
}

impl Content {
    /// Extracts the wanted items, and one more if there is one: its hash is where the next page
    /// begins. `last` becomes the last hash up to which all items are present.
    fn wanted(mut self, seed: u64, wanted: WantedPart, last: &mut ItemHash) -> Self {
        match wanted {
            WantedPart::Size => self.extract(seed, |_| false),
            WantedPart::Item(item) => self.extract(seed, |hash| hash == item),
            WantedPart::Items { from, count } => {
                if let Some(after) = self.live_hashes(seed, from).get(count.max(1)) {
                    *last = *after;
                }
                let range = from..=*last;
                self.extract(seed, |hash| range.contains(&hash))
            }
        }
    }
}
