//! Dividing objects that have become large into pages.

use super::pages::WrittenPages;
use super::{Records, Updated, decoded};
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_store::engine::{Applied, IoMode, RecordAt};
use quoit_store::error::StoreError;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_64;

impl Records {
    /// Makes a generation that this record's pages have not had before.
    pub(super) fn new_generation(&self, at: &RecordAt<'_>) -> u64 {
        let number = self.divided_count.fetch_add(1, Ordering::Relaxed);
        let mut seed = [0; 24];
        seed[..8].copy_from_slice(&self.started_us.to_le_bytes());
        seed[8..16].copy_from_slice(&number.to_le_bytes());
        seed[16..].copy_from_slice(&at.identity.0.to_le_bytes());
        xxh3_64(&seed)
    }

    /// Divides a record that was updated if it `needs_pages`. An update that was kept for that reason has to
    /// be repeated with [`IoMode::Wait`].
    pub(super) fn divided_if(
        &self,
        needs_pages: bool,
        at: &RecordAt<'_>,
        updated: Updated,
    ) -> Updated {
        if needs_pages && updated == Updated::Applied(Applied::Kept) {
            return Updated::Applied(Applied::WouldBlock);
        }
        if needs_pages
            && matches!(updated, Updated::Applied(Applied::Written(_)))
            && let Err(fault) = self.divide(at)
        {
            // The record is stored undivided and readable; the next write tries again to divide it.
            tracing::warn!(%fault, "a large set or map could not be divided into pages");
        }
        updated
    }

    /// Divides a record that has become large into pages. Its value stays the same. If this fails, the
    /// next write of the record tries again.
    pub(super) fn divide(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let generation = self.new_generation(at);
        let divided = self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            let Some(stored) = transaction.get(at)? else { return Ok(()) };
            if PagedObject::is_paged(&stored.value) {
                return Ok(());
            }
            let object = decoded(at, &stored.value)?;
            if !PagedObject::needs_pages(&object) {
                return Ok(());
            }
            let mut pages = WrittenPages::new(&mut *transaction, at, generation, IoMode::Wait);
            let divided = PagedObject::divide(&object, generation, &mut pages);
            let divided = divided.map_err(|fault| fault.interrupts(at))?;
            match divided {
                Some(paged) => pages.finish_with_root(&paged, stored.meta),
                None => pages.finish(),
            }
        });
        divided.map(|_| ())
    }
}

/// True if a stored object is large enough to be divided into pages. Objects that hold no data type are
/// recognized by their first bytes, without decoding.
pub(super) fn should_be_divided(stored: &[u8]) -> bool {
    PagedObject::may_need_pages(stored)
        && Object::decode(&Bytes::copy_from_slice(stored))
            .is_ok_and(|object| PagedObject::needs_pages(&object))
}
