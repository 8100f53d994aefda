//! Code for secondary indexes that all engines share: the entries of a record, and the pages of a query.

use crate::engine::{IndexPage, RecordMeta};
use crate::error::StoreError;
use crate::frame;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::secondary_index::{self, IndexSpan};

/// Maximum number of entries that a query looks at for one page: 16 for each requested entry, but at least
/// 1 024. The bound keeps a page from taking long when most entries are in other partitions.
const fn entries_looked_at_max(limit: usize) -> usize {
    let by_limit = limit.saturating_mul(16);
    if by_limit < 1_024 { 1_024 } else { by_limit }
}

/// The encoded index entries of a record, sorted. A record without entries costs a test of a flag;
/// otherwise a compressed value is decompressed.
///
/// # Errors
///
/// If an entry is too large, or the metadata says that the value has entries and it is not an object.
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

/// Builder of a page of a query: takes the entries of a span in order.
pub(crate) struct IndexPageBuilder<'q> {
    span: &'q IndexSpan,
    partitions: &'q dyn Fn(Partition) -> bool,
    limit: usize,
    looked_at_left: usize,
    page: IndexPage,
}

impl<'q> IndexPageBuilder<'q> {
    pub(crate) fn new(
        span: &'q IndexSpan,
        partitions: &'q dyn Fn(Partition) -> bool,
        limit: usize,
    ) -> Self {
        let limit = limit.max(1);
        let looked_at_left = entries_looked_at_max(limit);
        Self { span, partitions, limit, looked_at_left, page: IndexPage::default() }
    }

    /// Adds the next entry of the span if it is wanted. Calls `is_live` only for entries of wanted
    /// partitions. Returns false when the page is complete. Ignores bytes that are not an encoded entry of
    /// the span.
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
        // A bucket's placement rule may change, so one name may be in two partitions.
        if is_wanted && self.page.entries.last() != Some(&position) {
            self.page.entries.push(position);
        }
        !is_complete
    }

    /// The page, complete or cut off at the last entry.
    pub(crate) fn into_page(self) -> IndexPage {
        self.page
    }
}
