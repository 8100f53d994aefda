//! Verification: reads the data on disk and compares checksums, to find damage before a request meets it.

use super::scan::{Damage, Scan};
use super::segment::{SEGMENT_HEADER_BYTES, Segment};
use super::store::LogStore;
use crate::engine::{DataLocation, Verified};
use crate::error::StoreError;
use crate::index::Tag;
use quoit_model::hash::Partition;
use std::collections::BTreeSet;
use std::sync::Arc;

impl LogStore {
    /// See [`Engine::verify`](crate::engine::Engine::verify). Skips segments that are still written to.
    pub(super) fn verify(
        &self,
        from: Option<DataLocation>,
        limit_bytes: u64,
    ) -> Result<Verified, StoreError> {
        self.check_open()?;
        let from = from.unwrap_or_default();
        let table = self.table.load_full();
        let mut closed = table.all().iter().filter(|segment| segment.is_closed());
        let Some(segment) = closed.find(|segment| segment.number >= from.segment) else {
            return Ok(Verified::default());
        };
        let offset = if segment.number == from.segment { from.offset } else { 0 };
        let offset = offset.max(SEGMENT_HEADER_BYTES);
        let size_bytes = segment.file.size_bytes()?;
        let file = Arc::clone(&segment.file);
        let mut scan = Scan::new(file, self.reader.store_id, segment.number, offset)?;
        let mut is_over = false;
        while !is_over && (scan.offset() < offset.saturating_add(limit_bytes) || !scan.is_between())
        {
            is_over = scan.next()?.is_none();
        }
        let end = if is_over { size_bytes } else { scan.offset() };
        let mut damages = scan.damages().to_vec();
        if is_over {
            // The index has no entries for a torn write, so including this range does no harm.
            damages.push(Damage { start: size_bytes - scan.torn_bytes(), end: size_bytes });
        }
        let next = if is_over {
            DataLocation { segment: segment.number + 1, ..DataLocation::default() }
        } else {
            DataLocation { segment: segment.number, offset: end, ..DataLocation::default() }
        };
        Ok(Verified {
            byte_count: end - offset,
            damaged: self.records_within(segment, &damages),
            next: Some(next),
        })
    }

    /// The records in damaged ranges of a segment that the index refers to. Scans the whole index unless
    /// all ranges are empty.
    pub(super) fn records_within(
        &self,
        segment: &Segment,
        damages: &[Damage],
    ) -> Vec<(Partition, Tag)> {
        if damages.iter().all(|damage| damage.start == damage.end) {
            return Vec::new();
        }
        let mut damaged = BTreeSet::new();
        for (partition, stripe) in (0..).map(Partition).zip(&self.stripes) {
            for entry in stripe.read().iter() {
                let offset = entry.location.offset_bytes();
                let is_within = |damage: &Damage| (damage.start..damage.end).contains(&offset);
                if entry.location.segment() == segment.number && damages.iter().any(is_within) {
                    damaged.insert((partition, entry.tag));
                }
            }
        }
        damaged.into_iter().collect()
    }
}
