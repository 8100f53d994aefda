//! Reads and merges ranges of the items of a record in pages, or of one of its fields.

use super::pages::{PageFault, ReadPages, WrittenPages, corrupt};
use super::{ATTEMPT_COUNT, Records, read_root};
use quoit_model::data_type::pages::{
    HashRange, PagedObject, Pages, RangeCopy, RangeFigures, RangesTaken, Region,
};
use quoit_model::data_type::{FieldName, StoredFormError};
use quoit_store::engine::{Applied, Fetch, IoMode, RecordAt, Ticket};
use quoit_store::error::StoreError;

/// A function that visits a record in pages.
type PagedVisitor<'l, T> =
    dyn FnMut(&PagedObject, &mut dyn Pages<Error = PageFault>) -> Result<T, PageFault> + 'l;

/// Result of merging items that another node has sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TakenRanges {
    Written(Ticket),
    /// This copy had already seen everything that the other copy has.
    Known,
    /// The copies by now differ outside these ranges, too: compare again.
    Stale,
    /// The copies can't be merged by ranges: the whole object has to be sent.
    NeedsWhole,
}

impl Records {
    /// True if the record can be made equal to another node's copy by ranges of its items
    /// ([`Records::take_ranges`]); `None` if the answer would have to wait for the disk.
    pub(crate) fn has_ranges(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<Option<bool>, StoreError> {
        self.is_in_pages(at, access)
    }

    /// Number of items of a record in pages, or of one of its fields, and the figures of some ranges of
    /// them; `None` if the record is not in pages.
    pub(crate) fn range_figures(
        &self,
        at: &RecordAt<'_>,
        path: &[FieldName],
        ranges: &[HashRange],
    ) -> Result<Option<(u64, Vec<RangeFigures>)>, StoreError> {
        self.at_one_moment(at, &mut |paged, pages| paged.range_figures(path, ranges, pages))
    }

    /// Paths of at most `count_max` large fields in some ranges of a record in pages, or of one of its
    /// fields; `None` if the record is not in pages.
    pub(crate) fn large_fields(
        &self,
        at: &RecordAt<'_>,
        path: &[FieldName],
        ranges: &[HashRange],
        count_max: usize,
    ) -> Result<Option<Vec<Vec<FieldName>>>, StoreError> {
        self.at_one_moment(at, &mut |paged, pages| {
            paged.large_fields(path, ranges, count_max, pages)
        })
    }

    /// Items of a region of a record in pages; `None` if the record is not in pages.
    pub(crate) fn read_ranges(
        &self,
        at: &RecordAt<'_>,
        region: &Region,
    ) -> Result<Option<RangeCopy>, StoreError> {
        self.at_one_moment(at, &mut |paged, pages| paged.read_ranges(region, pages))
    }

    /// Merges another copy's items of a region, if everything outside the region is equal in both
    /// copies.
    pub(crate) fn take_ranges(
        &self,
        at: &RecordAt<'_>,
        region: &Region,
        theirs: &RangeCopy,
    ) -> Result<TakenRanges, StoreError> {
        let own = self.at_one_moment(at, &mut |paged, pages| {
            Ok((paged.causal_clock()?, paged.rest(region, pages)?))
        })?;
        let Some((compared, rest)) = own else { return Ok(TakenRanges::NeedsWhole) };
        if rest != theirs.rest {
            return Ok(TakenRanges::Stale);
        }
        let mut outcome = TakenRanges::NeedsWhole;
        let mut take = |paged: PagedObject, pages: &mut WrittenPages<'_, '_>| {
            let taken = paged.take_ranges(region, &theirs.object, &compared, pages)?;
            outcome = match taken {
                RangesTaken::Merged(merged) => return Ok(Some(*merged)),
                RangesTaken::Known => TakenRanges::Known,
                RangesTaken::Stale => TakenRanges::Stale,
                RangesTaken::NeedsWhole => TakenRanges::NeedsWhole,
            };
            Ok(None)
        };
        let applied = self.change_pages(at, IoMode::Wait, &mut take)?;
        Ok(match applied {
            Some(Applied::Written(ticket)) => TakenRanges::Written(ticket),
            Some(Applied::Kept | Applied::WouldBlock) | None => outcome,
        })
    }

    /// Calls a function with the root and pages of a record as of one moment. Writers are kept away
    /// only after several attempts met a change. `None` if the record is not in pages.
    fn at_one_moment<T>(
        &self,
        at: &RecordAt<'_>,
        visit: &mut PagedVisitor<'_, T>,
    ) -> Result<Option<T>, StoreError> {
        for _ in 0..ATTEMPT_COUNT {
            let Fetch::Found(record) = self.engine.get(at, IoMode::Wait)? else { return Ok(None) };
            if !PagedObject::is_paged(&record.value) {
                return Ok(None);
            }
            let paged = PagedObject::decode(&record.value);
            let paged = paged.map_err(|fault: StoredFormError| corrupt(at, fault.to_string()))?;
            let mut pages = ReadPages::new(&*self.engine, at, paged.generation(), IoMode::Wait);
            let seen = match visit(&paged, &mut pages) {
                Ok(seen) => seen,
                Err(PageFault::Store(fault)) => return Err(fault),
                Err(PageFault::Form(_)) => continue,
                Err(PageFault::NeedsWait | PageFault::Interrupted(_)) => {
                    unreachable!("pages that are waited for, and not in a transaction")
                }
            };
            let digest = record.meta.digest;
            if self.engine.head(at)?.is_some_and(|meta| meta.digest == digest) {
                return Ok(Some(seen));
            }
        }
        let mut seen = None;
        self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            seen = None;
            let Some(root) = transaction.get(at)? else { return Ok(()) };
            if !PagedObject::is_paged(&root.value) {
                return Ok(());
            }
            let paged = read_root(at, &root)?;
            let mut pages =
                WrittenPages::new(&mut *transaction, at, paged.generation(), IoMode::Wait);
            seen = Some(visit(&paged, &mut pages).map_err(|fault| fault.interrupts(at))?);
            Ok(())
        })?;
        Ok(seen)
    }
}
