//! Replacing damaged records, with the pages that no readable root lists.

use super::assemble::whole_in;
use super::pages;
use super::{COLLECTED_COUNT, Records, change_together, decide, read_root};
use quoit_model::data_type::pages::PagedObject;
use quoit_model::key::{BucketRef, PIECE_TYPE};
use quoit_store::engine::{Applied, ChangeFn, IoMode, KeyRange, RecordAt};
use quoit_store::error::StoreError;

impl Records {
    /// As [`Records::update_assembled`], for a record that an earlier call has found damaged. If it is
    /// still damaged, `replacing` is called, then `change` with `None`, and its result replaces the record
    /// with all its pages, including pages that no readable root lists. If another write has replaced it
    /// since, `change` gets that write's record: it may have been acknowledged. With [`IoMode::NoWait`] the
    /// answer is always `WouldBlock`.
    pub(crate) fn replace_damaged(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        replacing: &dyn Fn() -> Result<(), StoreError>,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        if access == IoMode::NoWait {
            return Ok(Applied::WouldBlock);
        }
        let (mut is_damaged, mut out) = (false, Vec::new());
        let applied = self.engine.transact(at.partition, access, &mut |transaction| {
            out.clear();
            is_damaged = match whole_in(transaction, at, access) {
                Ok(_) => false,
                Err(fault) if fault.is_damage() => true,
                Err(fault) => return Err(fault),
            };
            match is_damaged {
                true => {
                    replacing()?;
                    decide(transaction, at, change(None, &mut out), &out)
                }
                false => change_together(transaction, at, access, change, &mut out),
            }
        })?;
        if is_damaged
            && matches!(applied, Applied::Written(_))
            && let Err(fault) = self.collect_pages(at)
        {
            // They take space, but no root leads to them.
            tracing::warn!(%fault, "old pages of a damaged record could not be removed");
        }
        Ok(applied)
    }

    /// Removes the pages of a record, except pages of its present generation and of generations that
    /// are being staged.
    pub(super) fn collect_pages(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: at.encoded };
        let mut after = None;
        loop {
            let listed = self.engine.list_keys(
                KeyRange::Bucket(pieces),
                after.as_deref(),
                COLLECTED_COUNT,
            )?;
            self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
                let stored = transaction.get(at)?;
                let stored = stored.filter(|record| PagedObject::is_paged(&record.value));
                let paged = stored.map(|root| read_root(at, &root)).transpose()?;
                let generation = paged.as_ref().map(PagedObject::generation);
                let staged = self.staged.lock();
                let stays = |of| generation == Some(of) || staged.contains(&of);
                for (key, _) in &listed.entries {
                    pages::remove_of_others(transaction, at, key, stays)?;
                }
                Ok(())
            })?;
            after = listed.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
