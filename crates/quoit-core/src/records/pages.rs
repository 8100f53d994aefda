//! Pages of a record as pieces in the engine.

use super::{QUICK_PAGES_MAX, put_root};
use bytes::Bytes;
use quoit_model::data_type::StoredFormError;
use quoit_model::data_type::pages::{PageName, PagedObject, Pages};
use quoit_model::hash::{KeyHash, PlacementHash};
use quoit_model::key::{BucketRef, KeyError, KeyRef};
use quoit_store::engine::{Engine, Fetch, Interrupted, IoMode, RecordAt, RecordMeta, Transaction};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Bytes in the key of a page of the record itself: see [`at_page`].
const PAGE_KEY_BYTES: usize = 16;

/// Bytes in the key of a page of a branch, which is a large field of a map.
const BRANCH_PAGE_KEY_BYTES: usize = 24;

/// A change of a record's pages. Gets the record with its root, and access to its pages; returns the
/// changed record, or `None` if nothing changes.
pub(super) type PageChange<'c> =
    dyn FnMut(PagedObject, &mut WrittenPages<'_, '_>) -> PageChanged + 'c;

/// Result of changing a record's pages.
pub(super) type PageChanged = Result<Option<PagedObject>, PageFault>;

/// Reason why a page can't be read or written.
#[derive(Debug)]
pub(super) enum PageFault {
    /// The page has to come from the disk, and the call must not wait.
    NeedsWait,
    /// The page does not fit the root: it is of another moment, or damaged.
    Form(StoredFormError),
    /// The engine failed.
    Store(StoreError),
    /// The transaction can't continue.
    Interrupted(Interrupted),
}

impl From<StoredFormError> for PageFault {
    fn from(fault: StoredFormError) -> Self {
        Self::Form(fault)
    }
}

impl PageFault {
    /// The fault in the form that a transaction's body returns.
    pub(super) fn interrupts(self, at: &RecordAt<'_>) -> Interrupted {
        match self {
            Self::Interrupted(interrupted) => interrupted,
            Self::Store(fault) => fault.into(),
            Self::Form(fault) => corrupt(at, fault.to_string()).into(),
            Self::NeedsWait => unreachable!("a transaction says itself that it has to wait"),
        }
    }
}

/// The error for a record whose stored form can't be read.
pub(super) fn corrupt(at: &RecordAt<'_>, reason: String) -> StoreError {
    let path = format!("record {}", at.key.key.escape_ascii());
    StoreError::Corrupt { path, offset: 0, reason }
}

/// True if pages of a record can have names. Names of pages contain the record's name, so records with
/// very long names can't be divided.
pub(super) fn can_have_pages(at: &RecordAt<'_>) -> bool {
    BucketRef::of_pieces(at.encoded).key(&[0; PAGE_KEY_BYTES]).check().is_ok()
}

/// As [`can_have_pages`], for pages of branches, which have longer names.
fn can_have_branches(at: &RecordAt<'_>) -> bool {
    BucketRef::of_pieces(at.encoded).key(&[0; BRANCH_PAGE_KEY_BYTES]).check().is_ok()
}

/// The fault of a root that lists a page whose name would exceed the limit.
const PAGE_NAME_TOO_LONG: StoredFormError =
    StoredFormError::BadForm { what: "a page whose name would be too long", at: 0 };

/// Calls a function with the place of a page. The page's key consists of the generation, the number of
/// the branch (only in pages of a branch), and the page's lowest hash; each has 8 bytes, big-endian.
/// Fails if the name is too long; only a damaged root lists such a page.
fn at_page<T>(
    at: &RecordAt<'_>,
    generation: u64,
    name: PageName,
    look: impl FnOnce(&RecordAt<'_>) -> T,
) -> Result<T, StoredFormError> {
    let mut key = SmallVec::<[u8; BRANCH_PAGE_KEY_BYTES]>::new();
    key.extend_from_slice(&generation.to_be_bytes());
    if name.branch > 0 {
        key.extend_from_slice(&name.branch.to_be_bytes());
    }
    key.extend_from_slice(&name.first.0.to_be_bytes());
    let key = BucketRef::of_pieces(at.encoded).key(&key);
    key.check().map_err(|_| PAGE_NAME_TOO_LONG)?;
    let encoded = key.encoded();
    // A page is placed with its record, so its own placement is not computed.
    let identity = KeyHash::of_piece(&encoded, PlacementHash(0)).identity;
    Ok(look(&RecordAt { key, encoded: &encoded, identity, partition: at.partition }))
}

/// Removes a page of a record, unless its generation stays.
pub(super) fn remove_of_others(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    page: &[u8],
    stays: impl Fn(u64) -> bool,
) -> Result<(), Interrupted> {
    let corrupt = |fault: KeyError| corrupt(at, fault.to_string());
    let key = KeyRef::decode(page).map_err(corrupt)?;
    let its_own = key.key.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    if its_own.is_some_and(stays) {
        return Ok(());
    }
    // A page is placed with its record, so its own placement is not computed.
    let identity = KeyHash::of_piece(page, PlacementHash(0)).identity;
    transaction.remove(&RecordAt { key, encoded: page, identity, partition: at.partition })
}

/// Stores a page of a record, or removes it.
pub(super) fn put_page(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    generation: u64,
    name: PageName,
    page: Option<&[u8]>,
) -> Result<(), Interrupted> {
    let written = at_page(at, generation, name, |at| match page {
        Some(page) => transaction.put(at, RecordMeta::PIECE, page),
        None => transaction.remove(at),
    });
    written.map_err(|fault| PageFault::Form(fault).interrupts(at))?
}

/// Tag by which the engine's index knows a page; `None` if the page's name would be too long.
pub(super) fn tag_of_page(at: &RecordAt<'_>, generation: u64, name: PageName) -> Option<Tag> {
    at_page(at, generation, name, |at| Tag::of(at.identity)).ok()
}

/// Number of pages that a call may read; `None` for no limit.
fn reads_of(access: IoMode) -> Option<u32> {
    (access == IoMode::NoWait).then_some(QUICK_PAGES_MAX)
}

/// Counts one read against the limit; `None` if the limit is reached.
fn count_read(left: &mut Option<u32>) -> Option<()> {
    if let Some(left) = left {
        *left = left.checked_sub(1)?;
    }
    Some(())
}

/// Pages that are read one by one, without a transaction; writers may change them in the meantime.
pub(super) struct ReadPages<'a> {
    engine: &'a dyn Engine,
    at: &'a RecordAt<'a>,
    generation: u64,
    access: IoMode,
    /// Number of pages that may still be read; `None` for no limit.
    reads_left: Option<u32>,
}

impl<'a> ReadPages<'a> {
    pub(super) fn new(
        engine: &'a dyn Engine,
        at: &'a RecordAt<'a>,
        generation: u64,
        access: IoMode,
    ) -> Self {
        Self { engine, at, generation, access, reads_left: reads_of(access) }
    }
}

impl Pages for ReadPages<'_> {
    type Error = PageFault;

    fn can_have_branches(&self) -> bool {
        can_have_branches(self.at)
    }

    fn read(&mut self, name: PageName) -> Result<Option<Bytes>, PageFault> {
        count_read(&mut self.reads_left).ok_or(PageFault::NeedsWait)?;
        let fetched =
            at_page(self.at, self.generation, name, |at| self.engine.get(at, self.access))?;
        match fetched.map_err(PageFault::Store)? {
            Fetch::Missing => Ok(None),
            Fetch::Found(record) => Ok(Some(record.value)),
            Fetch::WouldBlock => Err(PageFault::NeedsWait),
        }
    }

    fn write(&mut self, _: PageName, _: Option<&[u8]>) -> Result<(), PageFault> {
        unreachable!("these are pages to be read")
    }
}

/// Pages that are read and written within a transaction. Reads see earlier writes.
pub(super) struct WrittenPages<'t, 'a> {
    transaction: &'t mut dyn Transaction,
    at: &'a RecordAt<'a>,
    generation: u64,
    /// Number of pages that may still be read; `None` for no limit.
    reads_left: Option<u32>,
    written: BTreeMap<PageName, Option<Bytes>>,
}

impl<'t, 'a> WrittenPages<'t, 'a> {
    pub(super) fn new(
        transaction: &'t mut dyn Transaction,
        at: &'a RecordAt<'a>,
        generation: u64,
        access: IoMode,
    ) -> Self {
        let reads_left = reads_of(access);
        Self { transaction, at, generation, reads_left, written: BTreeMap::new() }
    }

    /// Hands the writes to the transaction.
    pub(super) fn finish(mut self) -> Result<(), Interrupted> {
        self.put_written()
    }

    /// Hands the writes to the transaction, with the root that lists the pages.
    ///
    /// # Panics
    ///
    /// If the root is of another generation: its record could not be read any more.
    pub(super) fn finish_with_root(
        mut self,
        paged: &PagedObject,
        meta: RecordMeta,
    ) -> Result<(), Interrupted> {
        assert_eq!(
            paged.generation(),
            self.generation,
            "a root lists pages of the generation that was written with it"
        );
        self.put_written()?;
        put_root(self.transaction, self.at, paged, meta)
    }

    fn put_written(&mut self) -> Result<(), Interrupted> {
        for (name, page) in &self.written {
            let page = page.as_deref();
            put_page(&mut *self.transaction, self.at, self.generation, *name, page)?;
        }
        Ok(())
    }
}

impl Pages for WrittenPages<'_, '_> {
    type Error = PageFault;

    fn can_have_branches(&self) -> bool {
        can_have_branches(self.at)
    }

    fn read(&mut self, name: PageName) -> Result<Option<Bytes>, PageFault> {
        if let Some(written) = self.written.get(&name) {
            return Ok(written.clone());
        }
        let Self { transaction, at, generation, reads_left, .. } = self;
        count_read(reads_left).ok_or(PageFault::Interrupted(Interrupted::needs_wait()))?;
        let read = at_page(at, *generation, name, |at| transaction.get(at))?;
        let record = read.map_err(PageFault::Interrupted)?;
        Ok(record.map(|record| record.value))
    }

    fn write(&mut self, name: PageName, page: Option<&[u8]>) -> Result<(), PageFault> {
        if page.is_none() && !self.written.contains_key(&name) {
            // To remove a page, the engine has to look it up, so it counts as a read.
            let left = count_read(&mut self.reads_left);
            left.ok_or(PageFault::Interrupted(Interrupted::needs_wait()))?;
        }
        self.written.insert(name, page.map(Bytes::copy_from_slice));
        Ok(())
    }
}
