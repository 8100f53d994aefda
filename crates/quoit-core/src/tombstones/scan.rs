//! The scan for tombstones that are not in the queue.
//!
//! A scan reads all partitions once, page by page. It pauses when the queue is full and continues from there
//! when the queue has free places, so its work is proportional to the number of tombstones. If another scan
//! is requested meanwhile, it follows the present one.

use super::{QUEUE_COUNT_MAX, SCAN_PAGE};
use quoit_model::hash::{Identity, Partition, RingSize};

/// Interval between scans for tombstones that were left behind, in microseconds. Also the minimum time for
/// which such a tombstone must have been due.
pub(crate) const LEFT_BEHIND_US: u64 = 600_000_000;

/// The position where a page begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScanPosition {
    pub(crate) partition: Partition,
    pub(crate) identity: Identity,
}

/// The next step of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScanStep {
    /// Do nothing: no scan is needed, or the queue is full.
    Wait,
    /// A new scan begins. It will find queued tombstones again.
    Begin,
    /// Read the page that begins here.
    Read(ScanPosition),
}

/// Progress of the scan, and whether another one is needed.
#[derive(Debug)]
pub(crate) struct TombstoneScan {
    is_needed: bool,
    /// Position where the present scan continues; `None` if no scan is under way.
    place: Option<ScanPosition>,
    /// Time of the next regular scan, in microseconds of the monotonic clock.
    due_us: u64,
}

impl TombstoneScan {
    /// Returns a scan that is needed at once: only the index knows the tombstones of the former process.
    pub(crate) const fn new() -> Self {
        Self { is_needed: true, place: None, due_us: 0 }
    }

    /// Requests a scan, since tombstones anywhere may be missing in the queue.
    pub(crate) const fn need(&mut self) {
        self.is_needed = true;
    }

    /// Returns the next step, for a queue of this length. A scan begins when at least half of the queue
    /// is free.
    pub(crate) fn step(&mut self, monotonic_us: u64, queue_count: usize) -> ScanStep {
        if monotonic_us >= self.due_us {
            self.due_us = monotonic_us + LEFT_BEHIND_US;
            self.is_needed = true;
        }
        match self.place {
            Some(place) if queue_count + SCAN_PAGE <= QUEUE_COUNT_MAX => ScanStep::Read(place),
            None if self.is_needed && queue_count <= QUEUE_COUNT_MAX / 2 => {
                self.is_needed = false;
                self.place = Some(ScanPosition { partition: Partition(0), identity: Identity(0) });
                ScanStep::Begin
            }
            Some(_) | None => ScanStep::Wait,
        }
    }

    /// Notes that a page was read. `next` is the start of the next page in the same partition, if there
    /// is one.
    pub(crate) fn has_read(
        &mut self,
        page: ScanPosition,
        next: Option<Identity>,
        ring_size: RingSize,
    ) {
        let partition = page.partition;
        self.place = match next {
            Some(identity) => Some(ScanPosition { partition, identity }),
            None if partition.0 + 1 < ring_size.get() => {
                let partition = Partition(partition.0 + 1);
                Some(ScanPosition { partition, identity: Identity(0) })
            }
            None => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Number of tombstones in each partition.
    const COUNT_EACH: u64 = 125_000;

    /// Runs a whole scan, in which `reaped_at_once` tombstones leave the queue whenever the scan has to
    /// wait. Returns how often each page was read.
    fn pages_read(reaped_at_once: usize) -> BTreeMap<(u16, u64), usize> {
        let ring_size = RingSize::new(8).expect("8 is a ring size");
        let (mut scan, mut queue_count, mut pages) = (TombstoneScan::new(), 0, BTreeMap::new());
        loop {
            match scan.step(1, queue_count) {
                ScanStep::Begin => {}
                ScanStep::Read(page) => {
                    *pages.entry((page.partition.0, page.identity.0)).or_default() += 1;
                    let next = page.identity.0 + SCAN_PAGE as u64;
                    queue_count += SCAN_PAGE;
                    assert!(queue_count <= QUEUE_COUNT_MAX, "found again and again");
                    let next = (next < COUNT_EACH).then_some(Identity(next));
                    scan.has_read(page, next, ring_size);
                }
                ScanStep::Wait if queue_count == 0 => return pages,
                ScanStep::Wait => queue_count = queue_count.saturating_sub(reaped_at_once),
            }
        }
    }

    #[test]
    fn a_million_tombstones_are_read_once() {
        for reaped_at_once in [500, 30_000, QUEUE_COUNT_MAX] {
            let pages = pages_read(reaped_at_once);
            assert_eq!(pages.len() as u64, 8 * COUNT_EACH.div_ceil(SCAN_PAGE as u64));
            assert!(pages.values().all(|count| *count == 1));
        }
    }

    #[test]
    fn a_scan_that_is_needed_while_another_is_under_way_follows_it() {
        let ring_size = RingSize::new(8).expect("8 is a ring size");
        let mut scan = TombstoneScan::new();
        assert_eq!(scan.step(1, QUEUE_COUNT_MAX / 2 + 1), ScanStep::Wait);
        assert_eq!(scan.step(1, 0), ScanStep::Begin);
        for number in 0..8 {
            if number == 3 {
                scan.need();
            }
            let place = ScanPosition { partition: Partition(number), identity: Identity(0) };
            assert_eq!(scan.step(1, 0), ScanStep::Read(place));
            scan.has_read(place, None, ring_size);
        }
        assert_eq!(scan.step(1, 0), ScanStep::Begin);
        for number in 0..8 {
            let place = ScanPosition { partition: Partition(number), identity: Identity(0) };
            scan.has_read(place, None, ring_size);
        }
        assert_eq!(scan.step(1, 0), ScanStep::Wait);
        assert_eq!(scan.step(1 + LEFT_BEHIND_US, 0), ScanStep::Begin);
    }
}
