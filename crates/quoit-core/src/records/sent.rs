//! Sends the pages of a record to a node that has no copy of them.
//!
//! The pages go in their stored form, some at a time, while clients continue to write. After a pass over all
//! pages, [`Records::end_pass`] compares the root: if it has changed, another pass sends the pages that
//! differ from those sent before. After some passes the sender calls [`Records::last_pages`], which keeps
//! writers away while it collects the last differences, so that the receiver's copy is the record as of one
//! moment.

use super::pages::{PageFault, ReadPages, WrittenPages, corrupt};
use super::{Records, read_root};
use bytes::Bytes;
use quoit_model::data_type::pages::{PageName, PageWalk, PagedObject};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_store::engine::{BeforeImage, Decision, Fetch, IoMode, Record, RecordAt, RecordPage};
use quoit_store::error::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Pages of a record by name; `None` for a page that no longer exists.
pub(crate) type ChangedPages = Vec<(PageName, Option<Bytes>)>;

/// State of sending a record's pages. Memory holds a name and a hash for each page, not the page.
pub(crate) struct SentPages {
    root: Record,
    paged: PagedObject,
    walk: PageWalk,
    /// Hashes of the pages as the receiver has them.
    told: BTreeMap<PageName, u64>,
    /// Pages that were read in this pass.
    seen: BTreeSet<PageName>,
}

/// Result of a pass over a record's pages.
pub(crate) enum PassEnd {
    /// The pages that were sent are the record as it is now.
    Complete,
    /// The record was changed during the pass: another pass is needed.
    Changed,
    /// The record is not stored in pages any more.
    NotInPages,
}

impl SentPages {
    /// Root that the pages belong to.
    pub(crate) const fn root(&self) -> &Record {
        &self.root
    }

    fn begin(&mut self, root: Record, paged: PagedObject) {
        self.walk = PageWalk::new(&paged);
        self.seen.clear();
        (self.root, self.paged) = (root, paged);
    }

    /// Notes that a page was read. True if the receiver does not have this version of it.
    fn is_news(&mut self, name: PageName, page: &Bytes) -> bool {
        self.seen.insert(name);
        let hash = xxh3_64(page);
        self.told.insert(name, hash) != Some(hash)
    }

    /// Takes the pages that the receiver has and the record does not. To be called after all pages were
    /// read.
    fn take_gone(&mut self) -> Vec<PageName> {
        let gone = self.told.keys().filter(|name| !self.seen.contains(name));
        let gone: Vec<PageName> = gone.copied().collect();
        gone.iter().for_each(|name| _ = self.told.remove(name));
        debug_assert!(
            self.told.keys().eq(&self.seen),
            "after a pass the receiver has the pages that were read, and no others"
        );
        gone
    }
}

impl Records {
    /// As [`Engine::fold`]: records as they are stored, without their pages.
    ///
    /// [`Engine::fold`]: quoit_store::engine::Engine::fold
    pub(crate) fn fold(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
    ) -> Result<RecordPage, StoreError> {
        self.engine.fold(partition, from, limit, false)
    }

    /// Begins to send the pages of a record; `None` if it is not stored in pages.
    pub(crate) fn begin_sending(&self, at: &RecordAt<'_>) -> Result<Option<SentPages>, StoreError> {
        let Some((root, paged)) = self.root_of(at)? else { return Ok(None) };
        let walk = PageWalk::new(&paged);
        let (told, seen) = (BTreeMap::new(), BTreeSet::new());
        Ok(Some(SentPages { root, paged, walk, told, seen }))
    }

    /// Reads a record and decodes its root; `None` if it is not stored in pages.
    fn root_of(&self, at: &RecordAt<'_>) -> Result<Option<(Record, PagedObject)>, StoreError> {
        let Fetch::Found(root) = self.engine.get(at, IoMode::Wait)? else { return Ok(None) };
        if !PagedObject::is_paged(&root.value) {
            return Ok(None);
        }
        let paged = PagedObject::decode(&root.value);
        Ok(Some((root, paged.map_err(|fault| corrupt(at, fault.to_string()))?)))
    }

    /// Reads further pages, about `limit_bytes` of them. Returns the pages whose version the receiver
    /// does not have, and true if all pages were read. The last answer includes the pages that no
    /// longer exist.
    pub(crate) fn next_pages(
        &self,
        at: &RecordAt<'_>,
        sent: &mut SentPages,
        limit_bytes: usize,
    ) -> Result<(ChangedPages, bool), StoreError> {
        let mut pages = ReadPages::new(&*self.engine, at, sent.paged.generation(), IoMode::Wait);
        let (mut news, mut read_bytes) = (Vec::new(), 0);
        while read_bytes < limit_bytes {
            match sent.walk.next_page(&mut pages) {
                Ok(Some((name, page))) => {
                    read_bytes += page.len();
                    if sent.is_news(name, &page) {
                        news.push((name, Some(page)));
                    }
                }
                Ok(None) => {
                    news.extend(sent.take_gone().into_iter().map(|name| (name, None)));
                    return Ok((news, true));
                }
                // The page is of another moment, or damaged. [`Records::end_pass`] finds a changed
                // root; the receiver finds a damaged copy when it checks the pages against the root.
                Err(PageFault::Form(_)) => return Ok((news, true)),
                Err(PageFault::Store(fault)) => return Err(fault),
                Err(PageFault::NeedsWait | PageFault::Interrupted(_)) => {
                    unreachable!("pages that are waited for, and not in a transaction")
                }
            }
        }
        Ok((news, false))
    }

    /// Ends a pass after all pages were read: compares the root with the one at the beginning. If it
    /// has changed, the next pass begins.
    pub(crate) fn end_pass(
        &self,
        at: &RecordAt<'_>,
        sent: &mut SentPages,
    ) -> Result<PassEnd, StoreError> {
        let Some((root, paged)) = self.root_of(at)? else { return Ok(PassEnd::NotInPages) };
        if root.value == sent.root.value {
            return Ok(PassEnd::Complete);
        }
        sent.begin(root, paged);
        Ok(PassEnd::Changed)
    }

    /// All pages whose version the receiver does not have, read in a transaction, which keeps writers
    /// away; `None` if the record is not stored in pages any more.
    pub(crate) fn last_pages(
        &self,
        at: &RecordAt<'_>,
        sent: &mut SentPages,
    ) -> Result<Option<ChangedPages>, StoreError> {
        let mut last = None;
        self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            last = None;
            let Some(root) = transaction.get(at)? else { return Ok(()) };
            if !PagedObject::is_paged(&root.value) {
                return Ok(());
            }
            let paged = read_root(at, &root)?;
            let mut walk = PageWalk::new(&paged);
            let generation = paged.generation();
            let mut pages = WrittenPages::new(&mut *transaction, at, generation, IoMode::Wait);
            let (mut news, mut seen) = (Vec::new(), BTreeSet::new());
            loop {
                let next = walk.next_page(&mut pages).map_err(|fault| fault.interrupts(at))?;
                let Some((name, page)) = next else { break };
                seen.insert(name);
                // `sent` must not change in here: the transaction may call this body again.
                if sent.told.get(&name) != Some(&xxh3_64(&page)) {
                    news.push((name, Some(page)));
                }
            }
            let gone = sent.told.keys().filter(|name| !seen.contains(name));
            news.extend(gone.map(|name| (*name, None)));
            last = Some((root, paged, news));
            Ok(())
        })?;
        let Some((root, paged, news)) = last else { return Ok(None) };
        sent.begin(root, paged);
        Ok(Some(news))
    }

    /// Removes a record with all its pages if it still has this digest. True if the record is gone,
    /// also if it was gone before.
    pub(crate) fn delete(&self, at: &RecordAt<'_>, digest: u64) -> Result<bool, StoreError> {
        let mut is_gone = true;
        let removed =
            self.update_plain(at, BeforeImage::Front, IoMode::Wait, None, &mut |stored, _, _| {
                is_gone = planted!(RemovesChangedStrays)
                    || stored.is_none_or(|record| record.meta.digest == digest);
                if is_gone && stored.is_some() { Decision::Remove } else { Decision::Keep }
            })?;
        if removed.is_some() {
            return Ok(is_gone);
        }
        self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            let Some(stored) = transaction.get(at)? else {
                is_gone = true;
                return Ok(());
            };
            is_gone = stored.meta.digest == digest;
            if !is_gone {
                return Ok(());
            }
            if PagedObject::is_paged(&stored.value) {
                let paged = read_root(at, &stored)?;
                let generation = paged.generation();
                let mut pages = WrittenPages::new(&mut *transaction, at, generation, IoMode::Wait);
                paged.remove_pages(&mut pages).map_err(|fault| fault.interrupts(at))?;
                pages.finish()?;
            }
            transaction.remove(at)
        })?;
        Ok(is_gone)
    }
}
