//! The share of one connection in the memory budget.

use super::ANSWERS_BYTES_FREE;
use super::budget::{ALLOWANCE_BYTES, HeldBytes, MemoryBudget, NoMemory, UnsizedRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of times that an object is in memory on its way to a client: once as it was read, and once in the
/// answer.
pub(crate) const READ_COPIES: usize = 2;

/// Approximate size of an answer besides its value, in bytes.
const ANSWER_HEAD_BYTES: usize = 1024;

/// The memory of a connection. Dropping it returns its allowance to the budget.
#[derive(Debug)]
pub struct ConnectionMemory {
    budget: Arc<MemoryBudget>,
    /// Sum of the bytes that its reservations hold.
    held_bytes: AtomicU64,
}

impl ConnectionMemory {
    pub(super) const fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, held_bytes: AtomicU64::new(0) }
    }

    /// Returns a reservation that holds nothing of the budget yet. Its first `free_bytes` are covered by
    /// the allowance.
    pub(crate) fn reservation(self: &Arc<Self>, free_bytes: usize) -> MemoryReservation {
        MemoryReservation { memory: Arc::clone(self), free_bytes, floor_bytes: 0, held_bytes: 0 }
    }

    /// Admits the read of an object; the read lasts until the returned guard is dropped. If the budget can't
    /// admit another object of unknown size, the function looks up the size of the object and asks
    /// `reservation` for its memory, besides that of `out`, the answers that wait to be sent.
    pub(crate) fn admit_read(
        &self,
        reservation: &mut MemoryReservation,
        out: &[u8],
        size_bytes_max: impl FnOnce() -> Option<u64>,
    ) -> Result<Option<UnsizedRead<'_>>, NoMemory> {
        let unmeasured = self.budget.begin_unmeasured();
        if unmeasured.is_none() {
            reservation.hold_read(out, size_bytes_max())?;
        }
        Ok(unmeasured)
    }

    fn held(&self) -> HeldBytes {
        HeldBytes(self.held_bytes.load(Ordering::Relaxed))
    }

    /// Checks that the budget has this many more bytes. Takes nothing.
    pub(crate) fn check(&self, bytes: u64) -> Result<(), NoMemory> {
        self.budget.check(bytes, self.held())
    }

    fn take(&self, bytes: u64) -> Result<(), NoMemory> {
        self.budget.take(bytes, self.held())?;
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        let before = self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(
            before >= bytes,
            "a connection gives back what it holds: {bytes} of {before}"
        );
        self.budget.give_back_large(bytes);
    }
}

impl Drop for ConnectionMemory {
    fn drop(&mut self) {
        assert_eq!(*self.held_bytes.get_mut(), 0, "reservations hold their connection's memory");
        self.budget.give_back(ALLOWANCE_BYTES);
    }
}

/// Memory for one purpose: a request that arrives, answers that are sent, or values that a request gathers.
#[derive(Debug)]
pub(crate) struct MemoryReservation {
    memory: Arc<ConnectionMemory>,
    /// Bytes that the allowance covers, which are not taken from the budget.
    free_bytes: usize,
    /// Bytes that stay held until the end of the request, even if less is in use.
    floor_bytes: u64,
    held_bytes: u64,
}

impl MemoryReservation {
    /// Raises the reservation to `needed_bytes` in total. Never lowers it.
    pub(crate) fn hold(&mut self, needed_bytes: usize) -> Result<(), NoMemory> {
        let wanted = self.wanted(needed_bytes);
        if wanted > self.held_bytes {
            self.memory.take(wanted - self.held_bytes)?;
            self.held_bytes = wanted;
        }
        self.assert_invariants(needed_bytes);
        Ok(())
    }

    /// In debug builds, asserts that the connection holds the memory for `needed_bytes`, and the minimum that
    /// stays held until the end of the request.
    fn assert_invariants(&self, needed_bytes: usize) {
        debug_assert!(self.held_bytes >= self.floor_bytes, "the minimum of a request stays held");
        debug_assert!(
            self.held_bytes.saturating_add(self.free_bytes as u64) >= needed_bytes as u64,
            "what is needed is free or held"
        );
        debug_assert!(
            self.memory.held_bytes.load(Ordering::Relaxed) >= self.held_bytes,
            "a connection holds the memory of its reservations"
        );
    }

    /// Asks for memory to append `bytes` to `out`, the answers that wait to be sent. Nearly all answers fit
    /// into the allowance.
    #[inline]
    pub(crate) fn hold_answer(&mut self, out: &mut Vec<u8>, bytes: usize) -> Result<(), NoMemory> {
        match out.len().saturating_add(bytes) <= ANSWERS_BYTES_FREE {
            true => Ok(()),
            false => self.hold_large_answer(out, bytes),
        }
    }

    /// Asks for memory for large values of `bytes` in all, which are sent after `out` from the buffers that
    /// they are in. Gives back memory for copies of them, if any was asked for before they were read.
    pub(crate) fn hold_shared(&mut self, out: &[u8], bytes: usize) -> Result<(), NoMemory> {
        let needed_bytes = out.len().saturating_add(bytes);
        self.hold(needed_bytes)?;
        self.keep(needed_bytes);
        Ok(())
    }

    #[cold]
    fn hold_large_answer(&mut self, out: &mut Vec<u8>, bytes: usize) -> Result<(), NoMemory> {
        self.hold(out.len().saturating_add(bytes))?;
        // A buffer that grows by itself would double its size.
        out.reserve_exact(bytes + ANSWER_HEAD_BYTES);
        Ok(())
    }

    /// Asks for memory for an object that is read and answered next, if a bound of its size is known. `out`
    /// are the answers that wait to be sent.
    pub(crate) fn hold_read(
        &mut self,
        out: &[u8],
        size_bytes_max: Option<u64>,
    ) -> Result<(), NoMemory> {
        let size_bytes = size_bytes_max.map_or(0, as_bytes);
        self.hold(out.len().saturating_add(size_bytes.saturating_mul(READ_COPIES)))
    }

    /// Lowers the reservation to `needed_bytes`.
    pub(crate) fn keep(&mut self, needed_bytes: usize) {
        let wanted = self.wanted(needed_bytes);
        if wanted < self.held_bytes {
            self.memory.give_back(self.held_bytes - wanted);
            self.held_bytes = wanted;
        }
        self.assert_invariants(0);
    }

    /// Asks for `bytes` besides the free bytes, and keeps them until
    /// [`MemoryReservation::release_minimum`]. For an answer that is streamed, so that none of its pieces
    /// is refused midway.
    pub(crate) fn reserve_minimum(&mut self, bytes: usize) -> Result<(), NoMemory> {
        self.hold(self.free_bytes.saturating_add(bytes))?;
        self.floor_bytes = self.floor_bytes.max(bytes as u64);
        Ok(())
    }

    /// Ends the effect of [`MemoryReservation::reserve_minimum`], and lowers the memory to `needed_bytes`.
    pub(crate) fn release_minimum(&mut self, needed_bytes: usize) {
        if self.floor_bytes > 0 {
            self.floor_bytes = 0;
            self.keep(needed_bytes);
        }
    }

    /// Bytes that the reservation holds of the budget.
    pub(crate) const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    fn wanted(&self, needed_bytes: usize) -> u64 {
        (needed_bytes.saturating_sub(self.free_bytes) as u64).max(self.floor_bytes)
    }
}

/// A size in bytes as `usize`; the largest `usize` for a size that does not fit.
fn as_bytes(size_bytes: u64) -> usize {
    usize::try_from(size_bytes).unwrap_or(usize::MAX)
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if self.held_bytes > 0 {
            self.memory.give_back(self.held_bytes);
        }
    }
}

/// Number of times that a gathered value is in memory: as it was read, in the form in which it is gathered,
/// in the document, and in the answer.
const GATHERED_COPIES: usize = 4;

/// Memory of the values that a request gathers before it answers.
#[derive(Debug)]
pub(crate) struct GatheredMemory {
    reservation: MemoryReservation,
    values_bytes: usize,
}

impl GatheredMemory {
    /// Memory of a request that has gathered nothing yet.
    pub(crate) fn new(memory: &Arc<ConnectionMemory>) -> Self {
        Self { reservation: memory.reservation(0), values_bytes: 0 }
    }

    /// Asks for memory for an object that is read next, if a bound of its size is known.
    pub(crate) fn hold_read(&mut self, size_bytes_max: Option<u64>) -> Result<(), NoMemory> {
        let values_bytes = self.values_bytes.saturating_add(size_bytes_max.map_or(0, as_bytes));
        self.reservation.hold(values_bytes.saturating_mul(GATHERED_COPIES))
    }

    /// Asks for memory for this many more bytes of values.
    pub(crate) fn add(&mut self, values_bytes: usize) -> Result<(), NoMemory> {
        self.values_bytes = self.values_bytes.saturating_add(values_bytes);
        self.reservation.hold(self.values_bytes.saturating_mul(GATHERED_COPIES))
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemorySettings;
    use super::*;

    #[test]
    fn a_reservation_takes_only_what_exceeds_its_free_bytes_and_returns_it() {
        let settings = MemorySettings {
            budget_bytes: 1 << 20,
            share_bytes: 1 << 19,
            request_bytes_max: 1 << 18,
        };
        let budget = Arc::new(MemoryBudget::new(settings));
        let memory = budget.open().expect("room for an allowance");
        let used = || budget.figures().used_bytes - ALLOWANCE_BYTES;
        let mut reservation = memory.reservation(1_000);
        reservation.hold(1_000).expect("it is free");
        assert_eq!(used(), 0);
        reservation.hold(5_000).expect("there is room");
        reservation.hold(3_000).expect("it has more");
        assert_eq!((used(), reservation.held_bytes()), (4_000, 4_000));
        reservation.keep(1_500);
        assert_eq!(used(), 500);
        reservation.reserve_minimum(2_000).expect("there is room");
        reservation.keep(0);
        assert_eq!(used(), 2_000, "the floor is kept");
        reservation.release_minimum(1_200);
        assert_eq!(used(), 200);
        drop(reservation);
        assert_eq!(used(), 0);
    }
}
