//! Code for secondary indexes that all engines share: entries of a record, and pages of a query.

use crate::engine::{IndexPage, RecordMeta};
use crate::error::StoreError;
use crate::frame;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::secondary_index::{self, IndexSpan};

/// A query looks at so many entries for each one that it was asked for, and at this many at least, then hands
/// over what it has: entries of other partitions must not make a chunk take for ever.
const fn entries_looked_at_max(limit: usize) -> usize {
    let by_limit = limit.saturating_mul(16);
    if by_limit < 1_024 { 1_024 } else { by_limit }
}

/// The places of a record's index entries, sorted. Costs a look at a flag where there are none; else a
/// value that is compressed is decompressed.
///
/// # Errors
///
/// When one of them is too large, or the value is no object though it is said to have entries.
pub(crate) fn places_of(
    key: KeyRef<'_>,
    meta: &RecordMeta,
    value: &[u8],
) -> Result<Vec<Vec<u8>>, StoreError> {
    if !meta.indexed {
        return Ok(Vec::new());
    }
    let corrupt = |reason: String| {
        let path = format!("the value of {:?}", String::from_utf8_lossy(key.key));
        StoreError::Corrupt { path, offset: 0, reason }
    };
    let value = frame::unpack(value).map_err(|error| corrupt(error.to_string()))?;
    let entries = secondary_index::index_entries_of(&value);
    let entries = entries.map_err(|error| corrupt(error.to_string()))?;
    Ok(secondary_index::places(&entries, key)?)
}

/// A page of a query in the making: takes the entries of a span in their order.
pub(crate) struct PageInMaking<'q> {
    span: &'q IndexSpan,
    partitions: &'q dyn Fn(Partition) -> bool,
    limit: usize,
    looked_at_left: usize,
    page: IndexPage,
}

impl<'q> PageInMaking<'q> {
    pub(crate) fn new(
        span: &'q IndexSpan,
        partitions: &'q dyn Fn(Partition) -> bool,
        limit: usize,
    ) -> Self {
        let limit = limit.max(1);
        let looked_at_left = entries_looked_at_max(limit);
        Self { span, partitions, limit, looked_at_left, page: IndexPage::default() }
    }

    /// Looks at the next entry. `is_live` is asked of entries of the partitions that are wanted. False when
    /// the page is complete; what is no place is passed by.
    pub(crate) fn take(
        &mut self,
        place: &[u8],
        partition: Partition,
        is_live: impl FnOnce() -> bool,
    ) -> bool {
        self.looked_at_left = self.looked_at_left.saturating_sub(1);
        let is_wanted = (self.partitions)(partition) && is_live();
        let is_complete =
            self.looked_at_left == 0 || is_wanted && self.page.entries.len() + 1 == self.limit;
        if !is_wanted && !is_complete {
            return true;
        }
        let Some(position) = self.span.position(place) else { return true };
        if is_complete {
            self.page.next = Some(position.clone());
        }
        // Rules of placement may change: one name may be in two partitions.
        if is_wanted && self.page.entries.last() != Some(&position) {
            self.page.entries.push(position);
        }
        !is_complete
    }

    /// The page: as far as it got when the entries ended.
    pub(crate) fn into_page(self) -> IndexPage {
        self.page
    }
}
