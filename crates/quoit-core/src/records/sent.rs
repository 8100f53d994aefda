//! Reads the pages of a record for a node that has none of them: as they are stored, some at a time, and at
//! last as they were at one moment, though others write all the while.

use super::pages::{PageFault, ReadPages, WrittenPages, corrupt};
use super::{Records, Updated, read_root};
use bytes::Bytes;
use quoit_model::data_type::pages::{PageName, PageWalk, PagedObject};
use quoit_model::hash::{Identity, Partition};
use quoit_planted::planted;
use quoit_store::engine::{Access, Before, Decision, Fetch, Record, RecordAt, RecordPage};
use quoit_store::error::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64;

/// Pages of a record, by name; `None` where there is none any more.
pub(crate) type ChangedPages = Vec<(PageName, Option<Bytes>)>;

/// Pages of a record that another node has been sent. In memory are a name and a hash for each of them.
pub(crate) struct SentPages {
    root: Record,
    paged: PagedObject,
    walk: PageWalk,
    /// Hashes of the pages as the other node has them.
    told: BTreeMap<PageName, u64>,
    /// Pages that were found in this pass.
    seen: BTreeSet<PageName>,
}

/// Result of a pass over a record in pages, after all its pages were read.
pub(crate) enum PassEnd {
    /// The pages that were sent are the record as it is now.
    Complete,
    /// It has changed meanwhile.
    Changed,
    /// It does not lie in pages any more.
    Gone,
}

impl SentPages {
    /// The root that the pages belong to.
    pub(crate) const fn root(&self) -> &Record {
        &self.root
    }

    fn begin(&mut self, root: Record, paged: PagedObject) {
        self.walk = PageWalk::new(&paged);
        self.seen.clear();
        (self.root, self.paged) = (root, paged);
    }

    /// A page was read. Answers whether the other node has another one.
    fn is_news(&mut self, name: PageName, page: &Bytes) -> bool {
        self.seen.insert(name);
        let hash = xxh3_64(page);
        self.told.insert(name, hash) != Some(hash)
    }

    /// Pages that the other node has and the record has not, after all were read.
    fn take_gone(&mut self) -> Vec<PageName> {
        let gone = self.told.keys().filter(|name| !self.seen.contains(name));
        let gone: Vec<PageName> = gone.copied().collect();
        gone.iter().for_each(|name| _ = self.told.remove(name));
        gone
    }
}

impl Records {
    /// As [`Engine::fold`]: what lies in pages comes as its root alone.
    ///
    /// [`Engine::fold`]: quoit_store::engine::Engine::fold
    pub(crate) fn fold_roots(
        &self,
        partition: Partition,
        from: Identity,
        limit: usize,
    ) -> Result<RecordPage, StoreError> {
        self.engine.fold(partition, from, limit, false)
    }

    /// Begins to read the pages of a record; `None` when it does not lie in any.
    pub(crate) fn begin_sending(&self, at: &RecordAt<'_>) -> Result<Option<SentPages>, StoreError> {
        let Some((root, paged)) = self.root_of(at)? else { return Ok(None) };
        let walk = PageWalk::new(&paged);
        let (told, seen) = (BTreeMap::new(), BTreeSet::new());
        Ok(Some(SentPages { root, paged, walk, told, seen }))
    }

    /// The record with its root, if it lies in pages.
    fn root_of(&self, at: &RecordAt<'_>) -> Result<Option<(Record, PagedObject)>, StoreError> {
        let Fetch::Found(root) = self.engine.get(at, Access::Wait)? else { return Ok(None) };
        if !PagedObject::is_one(&root.value) {
            return Ok(None);
        }
        let paged = PagedObject::decode(&root.value);
        Ok(Some((root, paged.map_err(|fault| corrupt(at, fault.to_string()))?)))
    }

    /// Reads further pages, about `limit_bytes` of them, and answers those that the other node has otherwise,
    /// and whether all were read. Then come those that have gone.
    pub(crate) fn next_pages(
        &self,
        at: &RecordAt<'_>,
        sent: &mut SentPages,
        limit_bytes: usize,
    ) -> Result<(ChangedPages, bool), StoreError> {
        let mut pages = ReadPages::new(&*self.engine, at, sent.paged.generation(), Access::Wait);
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
                // Of another moment, or damaged: which of them, the end of the pass tells.
                Err(PageFault::Form(_)) => return Ok((news, true)),
                Err(PageFault::Store(fault)) => return Err(fault),
                Err(PageFault::Cold | PageFault::Interrupted(_)) => {
                    unreachable!("pages that are waited for, and not in a transaction")
                }
            }
        }
        Ok((news, false))
    }

    /// Looks, after all pages were read, whether they are those of the record as it is now: its root is the
    /// same as before. If not, they can be read once more.
    pub(crate) fn end_pass(
        &self,
        at: &RecordAt<'_>,
        sent: &mut SentPages,
    ) -> Result<PassEnd, StoreError> {
        let Some((root, paged)) = self.root_of(at)? else { return Ok(PassEnd::Gone) };
        if root.value == sent.root.value {
            return Ok(PassEnd::Complete);
        }
        sent.begin(root, paged);
        Ok(PassEnd::Changed)
    }

    /// All that the other node has otherwise, with writers kept away for so long; `None` when the record does
    /// not lie in pages any more.
    pub(crate) fn last_pages(
        &self,
        at: &RecordAt<'_>,
        sent: &mut SentPages,
    ) -> Result<Option<ChangedPages>, StoreError> {
        let mut last = None;
        self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
            last = None;
            let Some(root) = transaction.get(at)? else { return Ok(()) };
            if !PagedObject::is_one(&root.value) {
                return Ok(());
            }
            let paged = read_root(at, &root)?;
            let mut walk = PageWalk::new(&paged);
            let generation = paged.generation();
            let mut pages = WrittenPages::new(&mut *transaction, at, generation, Access::Wait);
            let (mut news, mut seen) = (Vec::new(), BTreeSet::new());
            loop {
                let next = walk.next_page(&mut pages).map_err(|fault| fault.interrupts(at))?;
                let Some((name, page)) = next else { break };
                seen.insert(name);
                // Nothing counts before the transaction is through: it may begin anew.
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

    /// Removes a record that is as it was, with all its pages. Says whether it is gone.
    pub(crate) fn remove_unchanged(
        &self,
        at: &RecordAt<'_>,
        digest: u64,
    ) -> Result<bool, StoreError> {
        let mut is_gone = true;
        let removed = self.update_plain(at, Before::Front, Access::Wait, &mut |stored, _| {
            is_gone = planted!(RemovesChangedStrays)
                || stored.is_none_or(|record| record.meta.digest == digest);
            if is_gone && stored.is_some() { Decision::Remove } else { Decision::Keep }
        })?;
        if matches!(removed, Updated::Applied(_)) {
            return Ok(is_gone);
        }
        self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
            let Some(stored) = transaction.get(at)? else {
                is_gone = true;
                return Ok(());
            };
            is_gone = stored.meta.digest == digest;
            if !is_gone {
                return Ok(());
            }
            if PagedObject::is_one(&stored.value) {
                let paged = read_root(at, &stored)?;
                let generation = paged.generation();
                let mut pages = WrittenPages::new(&mut *transaction, at, generation, Access::Wait);
                paged.remove_pages(&mut pages).map_err(|fault| fault.interrupts(at))?;
                pages.finish()?;
            }
            transaction.remove(at)
        })?;
        Ok(is_gone)
    }
}
