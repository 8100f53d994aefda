//! Reaping on the only node of all live layouts.
//!
//! No other node has to agree. An older copy of a deleted record may still arrive: from another cluster,
//! or from a member that is in no live layout any more and hands over its strays. Where there are links
//! to other clusters or other members, the node therefore makes a reap record before it removes the
//! tombstone.

use super::serve::reap_record;
use super::{DueTombstones, Reaper};
use crate::error::RequestError;
use crate::placement::PlacedKey;
use crate::tombstones::NotedTombstone;
use quoit_seam::yield_to_requests;
use quoit_store::error::StoreError;
use std::sync::Arc;

/// Outcome of a pass of reaping on a node that is alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReapPass {
    /// Number of tombstones that were removed.
    pub reaped_count: usize,
    /// True if no more tombstones were due, and all that are stored were known.
    pub is_all: bool,
}

impl Reaper {
    /// Reaps tombstones that are due, on a node that is alone. With `delay_ms` as `None`, only tombstones are
    /// reaped that an operator wants reaped.
    ///
    /// # Errors
    ///
    /// Errors of the engine. Tombstones that an operator wants reaped are tried again later; the next
    /// scan finds the others that were not reaped. A damaged record is no error, and stays.
    pub async fn reap_step(
        self: &Arc<Self>,
        delay_ms: Option<u64>,
    ) -> Result<ReapPass, RequestError> {
        let DueTombstones { mut due, is_all } = self.due_tombstones(delay_ms).await?;
        let reaper = Arc::clone(self);
        let reap = move || {
            if reaper.hook.may_receive_older() {
                match reaper.record_reaps(&due) {
                    // Further reap records can be made when some have retired.
                    Err(RequestError::Overload) => {
                        reaper.reap_later(due);
                        return Ok(ReapPass { reaped_count: 0, is_all });
                    }
                    Err(fault) => return Err(reaper.put_off(due, fault)),
                    Ok(()) => {}
                }
            }
            let mut reaped_count = 0;
            for (index, noted) in due.iter().enumerate() {
                yield_to_requests();
                match reaper.reap(noted) {
                    Ok(is_reaped) => reaped_count += usize::from(is_reaped),
                    Err(StoreError::Corrupt { .. }) => {}
                    Err(fault) => return Err(reaper.put_off(due.split_off(index), fault.into())),
                }
            }
            Ok(ReapPass { reaped_count, is_all })
        };
        self.local.settings.blocking.on_pool(reap).await
    }

    /// Puts back the tombstones that an operator wants reaped, because no scan may find them, and
    /// requests a scan for the others.
    fn put_off(&self, due: Vec<NotedTombstone>, fault: RequestError) -> RequestError {
        self.reap_later(due.into_iter().filter(|noted| noted.is_wanted).collect());
        self.scan_again(fault)
    }

    /// Makes reap records of the tombstones that are stored unchanged.
    fn record_reaps(&self, due: &[NotedTombstone]) -> Result<(), RequestError> {
        let mut records = Vec::new();
        for noted in due {
            yield_to_requests();
            let Ok(place) = PlacedKey::new(&noted.encoded, noted.partition) else { continue };
            match self.tombstone_of(noted) {
                Ok(Some(tombstone)) => records.push(reap_record(&place.at(), tombstone)?),
                // It is not reaped, either: `reap` compares the stored record with the queued one.
                Ok(None) | Err(RequestError::Store(StoreError::Corrupt { .. })) => {}
                Err(fault) => return Err(fault),
            }
        }
        self.replica.add_reap_records(records)
    }

    fn reap(&self, noted: &NotedTombstone) -> Result<bool, StoreError> {
        let Ok(place) = PlacedKey::new(&noted.encoded, noted.partition) else { return Ok(false) };
        let tombstone = match !noted.is_reaped_elsewhere && self.hook.queues_reaps() {
            true => match self.tombstone_of(noted) {
                Err(RequestError::Store(fault)) => return Err(fault),
                read => read.unwrap_or_default(),
            },
            false => None,
        };
        let is_reaped = self.replica.reap_copy(&place.at(), noted.digest)?;
        if let Some(tombstone) = tombstone.filter(|_| is_reaped) {
            self.hook.queue_reaped(noted, &tombstone);
        }
        Ok(is_reaped)
    }
}
