//! The memory budget of a node.

use super::connection::{ConnectionMemory, READ_COPIES};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Bytes that a connection takes from the budget when it is accepted.
pub const ALLOWANCE_BYTES: u64 = 64 << 10;
/// Large requests and answers leave this part of the budget (one in 8) to new connections.
const RESERVED_PART: u64 = 8;
/// The allowances of all connections together take at most this part of the budget (one in 2).
const ALLOWANCES_PART: u64 = 2;
/// Freed bytes below which it is not worth the cost to make the allocator return memory.
const FREED_BYTES_MIN: u64 = 32 << 20;
/// Much memory was freed if at most this part of the peak (one in 4) is still in use.
const FREED_PART: u64 = 4;
/// A connection may have this part of the budget (one in 4), and more if the largest request needs it.
const SHARE_PART: u64 = 4;
/// Number of times that a request is in memory: as it arrives, and as the copy that is stored and
/// replicated.
pub(crate) const REQUEST_COPIES: usize = 2;

/// Limits of the memory of requests and answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemorySettings {
    /// Bytes that all connections may have together (`request.maximum_memory`).
    pub budget_bytes: u64,
    /// Bytes that one connection may have beyond its allowance (`request.maximum_memory.per_connection`).
    pub share_bytes: u64,
    /// Size in bytes of the largest request. No object is larger.
    pub request_bytes_max: usize,
}

impl MemorySettings {
    /// Settings with a share for each connection: `share_bytes` if given. Otherwise a quarter of the
    /// budget, or the memory of the largest request if that is more, but at most three quarters.
    #[must_use]
    pub fn new(budget_bytes: u64, share_bytes: Option<u64>, request_bytes_max: usize) -> Self {
        let largest = (request_bytes_max as u64).saturating_mul(REQUEST_COPIES as u64);
        let share_default = largest.min(budget_bytes - budget_bytes / 4);
        let share_bytes = share_bytes.unwrap_or(share_default.max(budget_bytes / SHARE_PART));
        Self { budget_bytes, share_bytes: share_bytes.min(budget_bytes), request_bytes_max }
    }

    /// Number of objects of the largest size that fit into the reserved part of the budget.
    fn unmeasured_count_max(&self) -> u64 {
        let object_bytes = (self.request_bytes_max as u64).saturating_mul(READ_COPIES as u64);
        self.budget_bytes / RESERVED_PART / object_bytes.max(1)
    }

    /// The largest request that fits the share of a connection.
    #[must_use]
    pub fn request_bytes_max(&self) -> usize {
        usize::try_from(self.share_bytes / REQUEST_COPIES as u64).unwrap_or(usize::MAX)
    }

    /// Number of connections whose allowances fit into the budget.
    #[must_use]
    pub fn connection_count_max(&self) -> usize {
        let count = self.budget_bytes / ALLOWANCES_PART / ALLOWANCE_BYTES;
        usize::try_from(count).unwrap_or(usize::MAX).max(1)
    }
}

/// Bytes of large requests and answers at which large objects are read on a thread of low priority.
const MANY_LARGE_BYTES: u64 = 4 << 20;

/// Reasons why a request or an answer gets no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoMemory {
    /// It exceeds the share of one connection.
    #[error(
        "it takes {needed_bytes} bytes of memory, and a connection may have {share_bytes} \
         (request.maximum_memory.per_connection)"
    )]
    Share {
        /// Bytes that the connection would hold.
        needed_bytes: u64,
        /// Bytes that a connection may hold.
        share_bytes: u64,
    },
    /// Other connections hold the memory at present.
    #[error("overload: no memory for {needed_bytes} bytes more at present; try again later")]
    Budget {
        /// Bytes that were asked for.
        needed_bytes: u64,
    },
}

/// Memory of requests and answers, in use and refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryFigures {
    /// Bytes that all connections may have together.
    pub budget_bytes: u64,
    /// Bytes that one connection may have beyond its allowance.
    pub share_bytes: u64,
    /// Bytes in use, including the allowances of open connections.
    pub used_bytes: u64,
    /// Largest number of bytes that was ever in use.
    pub used_bytes_max: u64,
    /// Number of requests and answers refused because other connections held the memory.
    pub refused_count: u64,
    /// Number of requests and answers refused because they exceeded the share of one connection, or the
    /// largest request.
    pub too_large_count: u64,
    /// Number of connections closed because a started request did not arrive in time.
    pub slow_request_count: u64,
    /// Number of connections closed because an answer was not read in time.
    pub slow_answer_count: u64,
}

/// Memory that requests and answers of all connections may take together.
#[derive(Debug)]
pub struct MemoryBudget {
    settings: MemorySettings,
    used_bytes: AtomicU64,
    used_bytes_max: AtomicU64,
    /// Bytes in use besides the allowances of connections: those of large requests and answers.
    large_bytes: AtomicU64,
    /// Peak of `large_bytes` since [`MemoryBudget::has_freed_much`] last returned true.
    large_bytes_max: AtomicU64,
    unmeasured_count_max: u64,
    /// Number of objects that are being read although their sizes are not known.
    unmeasured_count: AtomicU64,
    refused_count: AtomicU64,
    too_large_count: AtomicU64,
    slow_request_count: AtomicU64,
    slow_answer_count: AtomicU64,
}

impl MemoryBudget {
    /// Creates a budget of which nothing is used.
    #[must_use]
    pub fn new(settings: MemorySettings) -> Self {
        Self {
            settings,
            used_bytes: AtomicU64::new(0),
            used_bytes_max: AtomicU64::new(0),
            large_bytes: AtomicU64::new(0),
            large_bytes_max: AtomicU64::new(0),
            unmeasured_count_max: settings.unmeasured_count_max(),
            unmeasured_count: AtomicU64::new(0),
            refused_count: AtomicU64::new(0),
            too_large_count: AtomicU64::new(0),
            slow_request_count: AtomicU64::new(0),
            slow_answer_count: AtomicU64::new(0),
        }
    }

    /// Takes the allowance of a new connection; `None` if it does not fit into the budget.
    pub fn open(self: &Arc<Self>) -> Option<Arc<ConnectionMemory>> {
        let is_taken = self.add(ALLOWANCE_BYTES, UsedBytesMax(self.settings.budget_bytes));
        is_taken.then(|| Arc::new(ConnectionMemory::new(Arc::clone(self))))
    }

    /// Current figures.
    pub fn figures(&self) -> MemoryFigures {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MemoryFigures {
            budget_bytes: self.settings.budget_bytes,
            share_bytes: self.settings.share_bytes,
            used_bytes: of(&self.used_bytes),
            used_bytes_max: of(&self.used_bytes_max),
            refused_count: of(&self.refused_count),
            too_large_count: of(&self.too_large_count),
            slow_request_count: of(&self.slow_request_count),
            slow_answer_count: of(&self.slow_answer_count),
        }
    }

    /// True if more than three quarters of the budget are in use. The size of an object is then looked up
    /// before it is read. Costs one load of a counter that only changes with connections and large
    /// requests.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.used_bytes.load(Ordering::Relaxed)
            > self.settings.budget_bytes - self.settings.budget_bytes / 4
    }

    /// True if so many large requests and answers are in progress that further ones should run on threads of
    /// low priority. Costs one load of a counter that only changes with large ones.
    #[inline]
    pub(crate) fn has_large(&self) -> bool {
        self.large_bytes.load(Ordering::Relaxed) >= MANY_LARGE_BYTES
    }

    /// True if large requests and answers held much memory since the last time that this returned true, and
    /// now hold little. The allocator has a heap for each thread, and keeps freed memory there between blocks
    /// that are still in use. The budget alone therefore does not bound the memory of the process.
    pub fn has_freed_much(&self) -> bool {
        let large_bytes = self.large_bytes.load(Ordering::Relaxed);
        let most_bytes = self.large_bytes_max.load(Ordering::Relaxed);
        let is_much = most_bytes >= FREED_BYTES_MIN && large_bytes <= most_bytes / FREED_PART;
        if is_much {
            self.large_bytes_max.store(large_bytes, Ordering::Relaxed);
        }
        is_much
    }

    /// Begins to read an object without looking up its size, if the reserved part of the budget can hold the
    /// largest object in addition to all objects that are being read in this way. A lookup costs about a
    /// twelfth of a request.
    pub(super) fn begin_unmeasured(&self) -> Option<UnsizedRead<'_>> {
        // Created before the check: if the read is refused, dropping the guard undoes the count.
        let read = UnsizedRead { budget: self };
        let others = self.unmeasured_count.fetch_add(1, Ordering::Relaxed);
        (others < self.unmeasured_count_max && !self.is_scarce()).then_some(read)
    }

    /// Counts a request that is refused because it is larger than any request may be.
    pub(crate) fn note_too_large(&self) {
        self.too_large_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes memory for a connection that already holds some.
    pub(super) fn take(&self, bytes: u64, held: HeldBytes) -> Result<(), NoMemory> {
        self.check_share(bytes, held)?;
        if self.add(bytes, UsedBytesMax(self.settings.budget_bytes - self.reserved_bytes())) {
            let before = self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.large_bytes_max.fetch_max(before + bytes, Ordering::Relaxed);
            return Ok(());
        }
        Err(self.refused(bytes))
    }

    /// Checks that the budget and the share allow these bytes. Takes nothing.
    pub(super) fn check(&self, bytes: u64, held: HeldBytes) -> Result<(), NoMemory> {
        self.check_share(bytes, held)?;
        let used_bytes = self.used_bytes.load(Ordering::Relaxed);
        let limit_bytes = self.settings.budget_bytes - self.reserved_bytes();
        if used_bytes.saturating_add(bytes) <= limit_bytes {
            return Ok(());
        }
        Err(self.refused(bytes))
    }

    /// Returns memory that [`MemoryBudget::take`] took.
    pub(super) fn give_back_large(&self, bytes: u64) {
        let before = self.large_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(
            before >= bytes,
            "large requests give back what they took: {bytes} of {before}"
        );
        self.give_back(bytes);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let before = self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more memory is given back than was taken: {bytes} of {before}");
    }

    /// Counts a connection that is closed because its request did not arrive in time.
    pub(crate) fn note_slow_request(&self) {
        self.slow_request_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that is closed because its client did not read in time.
    pub(crate) fn note_slow_answer(&self) {
        self.slow_answer_count.fetch_add(1, Ordering::Relaxed);
    }

    const fn reserved_bytes(&self) -> u64 {
        self.settings.budget_bytes / RESERVED_PART
    }

    fn check_share(&self, bytes: u64, held: HeldBytes) -> Result<(), NoMemory> {
        let (needed_bytes, share_bytes) = (held.0.saturating_add(bytes), self.settings.share_bytes);
        if needed_bytes <= share_bytes {
            return Ok(());
        }
        self.too_large_count.fetch_add(1, Ordering::Relaxed);
        Err(NoMemory::Share { needed_bytes, share_bytes })
    }

    fn refused(&self, needed_bytes: u64) -> NoMemory {
        self.refused_count.fetch_add(1, Ordering::Relaxed);
        NoMemory::Budget { needed_bytes }
    }

    fn add(&self, bytes: u64, limit: UsedBytesMax) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit.0);
        match self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(before) => {
                self.used_bytes_max.fetch_max(before + bytes, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }
}

/// Bytes that a connection already holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldBytes(pub(super) u64);

/// Maximum of the bytes in use after memory was taken.
#[derive(Clone, Copy)]
struct UsedBytesMax(u64);

/// Guard of a read of an object whose size is not known.
#[derive(Debug)]
pub(crate) struct UnsizedRead<'b> {
    budget: &'b MemoryBudget,
}

impl Drop for UnsizedRead<'_> {
    fn drop(&mut self) {
        let before = self.budget.unmeasured_count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a read that ends was counted when it began");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget(budget_bytes: u64, share_bytes: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget::new(MemorySettings {
            budget_bytes,
            share_bytes,
            request_bytes_max: 1 << 19,
        }))
    }

    #[test]
    fn a_share_has_room_for_the_largest_request_unless_others_would_have_none() {
        let share = |budget_mib: u64| {
            MemorySettings::new(budget_mib * MIB, None, 51 << 20).share_bytes / MIB
        };
        assert_eq!([share(4096), share(256), share(100)], [1024, 102, 75]);
        let given = MemorySettings::new(100 * MIB, Some(MIB), 51 << 20);
        assert_eq!((given.share_bytes, given.request_bytes_max()), (MIB, 1 << 19));
    }

    #[test]
    fn memory_that_large_requests_have_freed_is_told_once() {
        let budget = budget(256 * MIB, 256 * MIB);
        let memory = budget.open().expect("room for an allowance");
        let mut reservation = memory.reservation(0);
        reservation.hold(31 << 20).expect("there is room");
        drop(reservation);
        assert!(!budget.has_freed_much(), "that was little");
        let (mut most, mut rest) = (memory.reservation(0), memory.reservation(0));
        most.hold(60 << 20).expect("there is room");
        rest.hold(20 << 20).expect("there is room");
        assert!(!budget.has_freed_much(), "it is in use");
        drop(most);
        assert!(budget.has_freed_much());
        assert!(!budget.has_freed_much(), "it was told");
    }

    #[test]
    fn large_requests_leave_room_for_new_connections() {
        let budget = budget(8 * MIB, 8 * MIB);
        let memory = budget.open().expect("room for an allowance");
        let mut reservation = memory.reservation(0);
        assert!(matches!(reservation.hold(8 << 20), Err(NoMemory::Budget { .. })));
        reservation.hold((7 << 20) - ALLOWANCE_BYTES as usize).expect("seven of eight parts");
        assert!(matches!(reservation.hold(7 << 20), Err(NoMemory::Budget { .. })));
        let mut others = Vec::new();
        while let Some(memory) = budget.open() {
            others.push(memory);
        }
        assert_eq!(others.len() as u64, MIB / ALLOWANCE_BYTES);
        assert_eq!(budget.figures().used_bytes, 8 * MIB);
        drop((reservation, others, memory));
        assert_eq!(budget.figures().used_bytes, 0);
        assert_eq!(budget.figures().used_bytes_max, 8 * MIB);
    }

    #[test]
    fn objects_are_read_without_a_look_at_their_sizes_while_the_reserved_part_has_room_for_them() {
        // An eighth of the budget holds two objects of the largest size, each in memory twice.
        let budget = budget(16 * MIB, 16 * MIB);
        let memory = budget.open().expect("room for an allowance");
        let mut reservation = memory.reservation(0);
        let mut admit = |size_bytes_max: Option<u64>| {
            memory.admit_read(&mut reservation, &[], || size_bytes_max).map(|admitted| {
                let is_measured = admitted.is_none();
                (admitted, is_measured)
            })
        };
        let (first, is_measured) = admit(Some(u64::MAX)).expect("no size is asked for");
        assert!(!is_measured);
        let (_second, _) = admit(Some(u64::MAX)).expect("no size is asked for");
        admit(Some(u64::MAX)).expect_err("the size is asked for");
        let (_, is_measured) = admit(Some(100)).expect("there is room");
        assert!(is_measured);
        drop(first);
        let (third, is_measured) = admit(Some(u64::MAX)).expect("no size is asked for");
        assert!(!is_measured);
        drop(third);
        let mut other = memory.reservation(0);
        other.hold(13 << 20).expect("there is room");
        admit(Some(u64::MAX)).expect_err("memory is scarce");
    }

    #[test]
    fn a_connection_gets_no_more_than_its_share_whatever_it_uses_it_for() {
        let budget = budget(8 * MIB, 2 * MIB);
        let memory = budget.open().expect("room for an allowance");
        let (mut first, mut second) = (memory.reservation(0), memory.reservation(0));
        first.hold(1 << 20).expect("half of the share");
        second.hold(1 << 20).expect("the other half");
        let refused = second.hold((1 << 20) + 1);
        assert!(matches!(refused, Err(NoMemory::Share { .. })), "{refused:?}");
        drop(first);
        second.hold(2 << 20).expect("what the first has given back");
        let figures = budget.figures();
        assert_eq!((figures.too_large_count, figures.refused_count), (1, 0));
    }
}
