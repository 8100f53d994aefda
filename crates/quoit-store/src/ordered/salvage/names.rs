//! Comparison of the old store's names with the copied records.
//!
//! Each write of a record also writes its name in the same batch, to other files. So if some records could
//! not be read and all names can, the names tell which records existed, and in which version. The
//! comparison goes through names and copied records together, in the order of names.

use super::{RecordFate, SalvageTarget, Source};
use crate::caught_up::caught_up;
use crate::engine::{BatchWrite, KeyRange, RecordMeta};
use crate::error::StoreError;
use crate::ordered::backend::Space;
use crate::ordered::keys::{Epoch, NameKey};
use crate::ordered::value::read_meta;
use crate::record::RecordAt;
use bytes::Bytes;
use quoit_model::hash::{Partition, RingSize};
use quoit_model::key::KeyRef;
use std::collections::{BTreeMap, VecDeque};

/// Number of names of the new engine that are read at once.
const PAGE_COUNT: usize = 1_024;

/// Reports which records are lost, which copies are older than the last version, and which records had been
/// removed; the last are removed again. If names are missing too, notes that removed records may be left.
pub(super) fn compare(
    source: &mut dyn Source,
    epochs: &BTreeMap<Partition, Epoch>,
    ring_size: RingSize,
    filling: &mut SalvageTarget<'_>,
) -> Result<(), StoreError> {
    // The names are read twice: the first pass finds out if they are complete.
    let are_whole = source.entries(Space::Names, &mut |_, _| Ok(()))?;
    filling.salvaged.may_have_deleted = !are_whole;
    let mut copied = CopiedNames::default();
    source.entries(Space::Names, &mut |key, value| {
        let (Some(name), Some(meta)) = (NameKey::read(key), read_meta(value)) else {
            return Ok(());
        };
        if epochs.get(&name.partition).is_some_and(|current| *current != name.epoch) {
            return Ok(());
        }
        if name.key().is_piece() {
            return match filling.meta_of(name.key(), name.partition)? {
                Some(_) => Ok(()),
                None => filling.report(name.key(), RecordFate::Lost),
            };
        }
        while let Some(encoded) = copied.take_below(name.key(), filling)? {
            if are_whole {
                remove(&encoded, ring_size, filling)?;
            }
        }
        match copied.take(name.key(), filling)? {
            // The copy may have expired meanwhile.
            None if meta.expires_at_secs != 0 => Ok(()),
            None => filling.report(name.key(), RecordFate::Lost),
            Some(found) if are_whole && found.digest != meta.digest => {
                filling.report(name.key(), RecordFate::Older)
            }
            Some(_) => Ok(()),
        }
    })?;
    while let Some((encoded, _)) = copied.next(filling)?.filter(|_| are_whole) {
        remove(&encoded, ring_size, filling)?;
    }
    Ok(())
}

/// The names of the new engine, in order.
#[derive(Default)]
struct CopiedNames {
    page: VecDeque<(Bytes, RecordMeta)>,
    /// Position at which the next page begins.
    after: Option<Bytes>,
    is_over: bool,
}

impl CopiedNames {
    fn fill(&mut self, filling: &SalvageTarget<'_>) -> Result<(), StoreError> {
        while self.page.is_empty() && !self.is_over {
            let after = self.after.as_deref();
            let page = filling.target.list_keys(KeyRange::All, after, PAGE_COUNT)?;
            self.page.extend(page.entries);
            self.is_over = page.next.is_none();
            self.after = page.next;
        }
        Ok(())
    }

    fn next(
        &mut self,
        filling: &SalvageTarget<'_>,
    ) -> Result<Option<(Bytes, RecordMeta)>, StoreError> {
        self.fill(filling)?;
        Ok(self.page.pop_front())
    }

    /// Takes the next name if it is below `key`.
    fn take_below(
        &mut self,
        key: KeyRef<'_>,
        filling: &SalvageTarget<'_>,
    ) -> Result<Option<Bytes>, StoreError> {
        self.fill(filling)?;
        let is_below = |(encoded, _): &mut (Bytes, RecordMeta)| {
            KeyRef::decode(encoded).is_ok_and(|found| found < key)
        };
        Ok(self.page.pop_front_if(is_below).map(|(encoded, _)| encoded))
    }

    /// Takes the next name if it is `key`.
    fn take(
        &mut self,
        key: KeyRef<'_>,
        filling: &SalvageTarget<'_>,
    ) -> Result<Option<RecordMeta>, StoreError> {
        self.fill(filling)?;
        let is_it = |(encoded, _): &mut (Bytes, RecordMeta)| {
            KeyRef::decode(encoded).is_ok_and(|found| found == key)
        };
        Ok(self.page.pop_front_if(is_it).map(|(_, meta)| meta))
    }
}

/// Removes a record without a name in the old store: it had been removed there.
fn remove(
    encoded: &Bytes,
    ring_size: RingSize,
    filling: &mut SalvageTarget<'_>,
) -> Result<(), StoreError> {
    let Ok(key) = KeyRef::decode(encoded) else { return Ok(()) };
    // The partition depends on the bucket's properties, which are unknown here.
    for partition in (0..ring_size.get()).map(Partition) {
        if filling.meta_of(key, partition)?.is_some() {
            let at = RecordAt::of(key, encoded, partition);
            caught_up(|| filling.target.batch(&[BatchWrite::Remove { at }]))?;
            filling.report(key, RecordFate::Removed)?;
        }
    }
    Ok(())
}
